// What a merchant's wallet, which may be a contract, can do to the payouts of everybody else once its payment has a
// nonce.
import {afterAll, afterEach, beforeAll, expect, test} from 'vitest'
import {EvmWorld, ether, type Shop} from '../support/evm/world.ts'
import {faults} from '../support/rpc-proxy.ts'
import {until} from '../support/until.ts'

let world: EvmWorld

beforeAll(async () => {
  world = await EvmWorld.open()
  await world.startWorker()
})
afterAll(() => world?.close())
afterEach(() => {
  world.node.behave = undefined
})

const waiting = async (id: string) =>
  (await world.outgoingPayments(id)).find(({kind}) => kind === 'payout')?.waiting_reason

/** Whether the node is asked about a payment itself, and not about the smallest one to its recipient. */
function isPayment(method: string, param: unknown, wallet: string): boolean {
  const {to = '', value = '0x0'} = (param ?? {}) as {to?: string; value?: string}
  return method === 'eth_estimateGas' && to.toLowerCase() === wallet.toLowerCase() && BigInt(value) > 1n
}

const words = ['return data out of bounds', 'stack limit reached 1024 (1023)', 'gas uint64 overflow']

// The words are what geth and bor say of a contract that copies more return data than there is, or overflows the stack.
test('wallets that refuse their payments once these have nonces do not hold up others: their payouts fail, and the others are paid', async () => {
  const shops = await Promise.all([...words, undefined].map(() => world.openShop('ETH', [ether])))
  const asked = new Set<Shop>()
  world.node.behave = async ({method, params}, pass) => {
    const shop = shops.find(({wallet}) => isPayment(method, params[0], wallet))
    if (!shop) return await pass()
    const isFirst = !asked.has(shop)
    asked.add(shop)
    if (isFirst) return await pass() // the payment has no nonce yet
    const said = words[shops.indexOf(shop)]
    if (said) faults.error(said, -32000)
    return `0x${(100_000_000).toString(16)}` // the gas that a contract needs that changed its mind; EIP-7825 allows 2^24
  }
  const ids: string[] = []
  for (const shop of shops) ids.push(await world.request(shop, 'ETH'))
  // What is due later is due at once, and again, until the node has said of each what it says.
  const hurry = `update app.outgoing_payment set next_step_at = clock_timestamp()
    where status = 'allocated' and next_step_at > clock_timestamp() + interval '1 second'`
  const allWait = async () => {
    await world.db.rows(hurry)
    return (await Promise.all(ids.map(waiting))).every(reason => reason === 'destination_not_payable')
  }
  await until(allWait, {timeoutMs: 60_000, what: 'the payments to wait'})
  const other = await world.request(await world.openShop('ETH', [ether]), 'ETH')
  for (const id of ids)
    expect(await world.agedUntilFailed(id, 'destination_not_payable')).toMatchObject({
      error_code: 'destination_not_payable',
    })
  await world.becomes(other, 'completed')
})

test('a sweep that a lagging node says would fail is begun again, and the payout is paid', async () => {
  const shop = await world.openShop('USDC', [5n * 10n ** 6n])
  world.node.behave = ({method, params}, pass) => {
    const {data = ''} = (params[0] ?? {}) as {data?: string}
    if (method === 'eth_estimateGas' && data.includes(shop.addresses[0]!.slice(2).toLowerCase()))
      faults.error('execution reverted: ERC20: transfer amount exceeds balance', 3)
    return pass()
  }
  const id = await world.request(shop, 'USDC')
  const sweeps = async () => (await world.outgoingPayments(id)).filter(({kind}) => kind === 'sweep')
  const isGivenUp = async () => (await sweeps()).some(({outcome}) => outcome === 'cancelled')
  await until(isGivenUp, {timeoutMs: 60_000, what: 'the sweep to be given up'})
  world.node.behave = undefined
  const isAgain = async () => (await sweeps()).length > 1
  await until(isAgain, {timeoutMs: 60_000, what: 'another sweep'})
  await world.becomes(id, 'completed')
})

test('a payout that the treasury can pay is paid while a sweep of its merchant is held up', async () => {
  const shop = await world.openShop('ETH', [ether])
  const [held] = shop.addresses
  const isSweepOf = async (raw: string) =>
    (
      await world.db.rows(
        `select from app.outgoing_attempt o join app.outgoing_payment s on s.id = o.outgoing_payment_id where o.raw = $1 and s.source = $2`,
        [raw, held],
      )
    ).length > 0
  world.node.behave = async ({method, params}, pass) => {
    if (method === 'eth_sendRawTransaction' && (await isSweepOf(params[0] as string))) faults.error('no', -32000)
    return await pass()
  }
  const first = await world.request(shop, 'ETH', true)
  const isHeldUp = async () =>
    (await world.outgoingPayments(first)).some(({broadcast_error}) => broadcast_error !== null)
  await until(isHeldUp, {timeoutMs: 60_000, what: 'the sweep to be held up'})
  await world.topUp(2n * ether)
  await world.pay('ETH', [held!], [ether])
  await world.becomes(await world.request(shop, 'ETH'), 'completed')
  expect(await world.payout(first)).toMatchObject({status: 'sweeping'})
  world.node.behave = undefined
  await world.becomes(first, 'completed')
})
