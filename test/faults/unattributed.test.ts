// Unattributed deposits on a real chain, with real processes and the command line. A credited one is paid out like any
// deposit; a returned one arrives exactly where the operator said, even if processes die; and a merchant keeps its
// money on the same address.
import {randomBytes} from 'node:crypto'
import {once} from 'node:events'
import {getAddress} from 'viem'
import {afterAll, afterEach, beforeAll, expect, test} from 'vitest'
import {assertBooks} from '../support/books.ts'
import {CommandLine} from '../support/command-line.ts'
import {EvmWorld, ether, jpyc, usdc} from '../support/evm/world.ts'
import {makeMerchant} from '../support/people.ts'
import {until} from '../support/until.ts'

let world: EvmWorld
let commandLine: CommandLine

beforeAll(async () => {
  world = await EvmWorld.open()
  commandLine = new CommandLine(world.db, {
    ETH: {
      rpc_url: world.anvil.wsUrl,
      local: true,
      settings: {
        ETH_RPC_URL: world.anvil.wsUrl,
        ETH_USDC_CONTRACT: world.anvil.usdc,
        ETH_TOKENS: world.anvil.ownTokens,
      },
    },
  })
})
afterAll(async () => {
  commandLine?.close()
  await world?.close()
})
afterEach(async () => {
  await assertBooks(world.db)
  const {stdout} = await commandLine.sluice('audit', '--json')
  expect(JSON.parse(stdout)).toMatchObject({right: true})
})

const wallet = () => getAddress(`0x${randomBytes(20).toString('hex')}`)

/** A merchant's user with an address requested on Polygon only: transfers to it on Ethereum are unattributed. */
async function stranger(): Promise<{merchant: string; address: string}> {
  const merchant = await makeMerchant(world.db)
  await world.api.query(`select app.provision_user($1, 'abroad', array['POLYGON'])`, [merchant])
  const [row] = await world.db.rows<{address: string}>(
    `select address from app.address where merchant_id = $1 and chain = 'ETH'`,
    [merchant],
  )
  return {merchant, address: row!.address}
}

/** The id of the deposit at the address, as the command line shows it. */
async function listed(address: string, ...more: string[]) {
  const {unattributed} = await commandLine.json<{
    unattributed: {id: string; address: string; [field: string]: unknown}[]
  }>('unattributed', 'list', ...more)
  return unattributed.filter(row => row.address === address)
}

/** An address on the operator's whitelist. */
async function whitelisted(): Promise<string> {
  const to = wallet()
  await world.db.rows(`insert into custody.whitelist (chain, address) values ('ETH', $1)`, [to])
  return to
}

/** By the ledger. */
async function posted(token: string, address: string): Promise<bigint> {
  const [row] = await world.db.rows<{amount: string}>(
    `select coalesce(sum(amount), 0)::text as amount from app.ledger_entry where address = $1 and token = $2`,
    [address, token],
  )
  return BigInt(row!.amount)
}

async function isReturned(address: string): Promise<void> {
  await until(async () => (await listed(address, '--all')).some(({state}) => state === 'returned'), {
    timeoutMs: 60_000,
    what: 'the return to be final',
    intervalMs: 500,
  })
}

test('a deposit on a chain that is not enabled is listed, credited, and paid out', async () => {
  const {merchant, address} = await stranger()
  await world.pay('ETH', [address], [ether])
  const [row] = await listed(address)
  expect(row).toMatchObject({amount: '1', token: 'ETH', reason: 'chain_not_requested', status: 'final', decision: null})
  await commandLine.json('unattributed', 'credit', row!.id, '--yes')
  expect(await listed(address)).toEqual([])
  const shop = {id: merchant, addresses: [address], wallet: wallet()}
  await world.api.query(`select app.set_payout_address($1, 'ETH', $2)`, [merchant, shop.wallet])
  await world.whitelist(shop.id, shop.wallet)
  const worker = await world.startWorker()
  const payout = await world.request(shop, 'ETH', true)
  await world.becomes(payout, 'completed')
  await world.kill(worker)
  expect(await world.received(shop, 'ETH')).toBe(ether - ether / 100n)
  expect(await posted('ETH', address)).toBe(await world.held('ETH', address))
})

const ofReturns = ['return: before begin', 'return: after begin']
const ofSending = [
  'send: before sign',
  'send: after sign',
  'send: after store',
  'send: before broadcast',
  'send: after broadcast',
]

// Tokens are sent as they are for payouts, of which crash-points.test.ts kills each step.
test.each([
  ['ETH', [...ofReturns, ...ofSending]],
  ['JPYC', ofReturns],
  ['USDT', ofReturns],
] as const)(
  '%s is returned exactly, although workers die, and a merchant keeps its money on the address',
  async (token, steps) => {
    const {merchant, address} = await stranger()
    const unit = token === 'ETH' ? ether : token === 'JPYC' ? jpyc : usdc
    await world.pay(token, [address], [3n * unit])
    await world.api.query(`select app.provision_user($1, 'abroad', array['ETH'])`, [merchant])
    await world.pay(token, [address], [2n * unit]) // credited
    const rows = await listed(address)
    expect(rows).toMatchObject([{amount: token === 'JPYC' ? '300' : '3', reason: 'enabled_later'}])
    const to = await whitelisted()
    await commandLine.json('unattributed', 'return', rows[0]!.id, '--to', to)

    for (const step of steps) {
      const doomed = await world.startWorker({crashAt: step})
      const [, signal] = await once(doomed, 'exit', {signal: AbortSignal.timeout(60_000)})
      expect(signal).toBe('SIGKILL')
      await assertBooks(world.db)
    }
    const worker = await world.startWorker()
    await isReturned(address)
    const [sweep] = await world.db.rows<{moved: string; fee: string}>(
      `select o.amount::text as moved, s.fee_paid::text as fee from app.outgoing_payment s join app.outgoing_attempt o on o.txid = s.txid
     where s.source = $1 and s.kind = 'sweep' and s.outcome = 'done'`,
      [address],
    )
    expect(await world.held(token, to)).toBe(BigInt(sweep!.moved))
    if (token !== 'ETH') expect(BigInt(sweep!.moved)).toBe(3n * unit)
    else expect(await world.held(token, address)).toBe(5n * unit - BigInt(sweep!.moved) - BigInt(sweep!.fee))
    expect(await posted(token, address)).toBe(await world.held(token, address))

    const shop = {id: merchant, addresses: [address], wallet: wallet()}
    await world.api.query(`select app.set_payout_address($1, 'ETH', $2)`, [merchant, shop.wallet])
    await world.whitelist(shop.id, shop.wallet)
    await world.becomes(await world.request(shop, token, true), 'completed')
    expect(await world.received(shop, token)).toBe(2n * unit - (2n * unit) / 100n)
    await world.kill(worker)
  },
  240_000,
)

test('a return waits while its destination is off the whitelist, and leaves when it is back, or gets a new destination', async () => {
  const {address} = await stranger()
  await world.pay('USDC', [address], [usdc])
  const [first, second] = [await whitelisted(), await whitelisted()]
  const [row] = await listed(address)
  await commandLine.json('unattributed', 'return', row!.id, '--to', first)
  await world.db.rows('update custody.whitelist set removed_at = clock_timestamp() where address = $1', [first])
  const worker = await world.startWorker()
  const waits = async () => {
    const [now] = await listed(address)
    return (now?.waiting as {reason: string} | null)?.reason === 'not_whitelisted'
  }
  await until(waits, {timeoutMs: 30_000, what: 'the return to wait', intervalMs: 500})
  const {treasuries} = await commandLine.json<{treasuries: {token: string; reserved: string}[]}>('treasury', 'show')
  expect(treasuries).toContainEqual(expect.objectContaining({token: 'USDC', reserved: '1'}))
  await commandLine.json('unattributed', 'return', row!.id, '--to', second)
  await isReturned(address)
  await world.kill(worker)
  expect([await world.held('USDC', first), await world.held('USDC', second)]).toEqual([0n, usdc])
})
