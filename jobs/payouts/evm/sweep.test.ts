// Which addresses a payout's task sweeps while other sweeps begin: those of a concurrent run of the same task, or those
// of collect.ts.
import {afterAll, beforeAll, expect, test} from 'vitest'
import {silent} from '../../../base/log.ts'
import {readSettings} from '../../../chains/settings.ts'
import {contract, usdc} from '../../../test/support/evm/usdc-contract.ts'
import {Money} from '../../../test/support/money.ts'
import {RpcProxy} from '../../../test/support/rpc-proxy.ts'
import {until} from '../../../test/support/until.ts'
import {advancePayout} from '../advance-payout.ts'
import {closeContext, openContext} from '../open-context.ts'

const unit = 1_000_000

let money: Money
let node: RpcProxy

beforeAll(async () => {
  money = await Money.open()
  await money.topUp('ETH', 10 ** 15)
  await money.topUp('USDC', 70 * unit)
  node = await RpcProxy.start({call: async method => Promise.reject(new Error(`not expected: ${method}`))})
})
afterAll(async () => {
  await node?.close()
  await money?.close()
})

/** The call of a sweep of nothing. */
const trial = '0xef55bec6'

/** The balance of an address according to the node. The address is the last 20 bytes of the call data. */
type Holds = (address: string) => Promise<number>

function response(method: string, params: unknown[], holds: Holds): unknown {
  if (method === 'eth_getBlockByNumber') return {baseFeePerGas: '0x1'}
  if (method === 'eth_feeHistory') return {gasUsedRatio: [0]}
  if (method === 'eth_getCode') return '0x00'
  if (method !== 'eth_call') throw new Error(`not expected: ${method}`)
  const {data} = params[0] as {data: string}
  if (data === trial) return '0x'
  const ofContract = contract[data.slice(0, 10)]
  if (ofContract) return ofContract
  return holds(`0x${data.slice(-40)}`).then(amount => `0x${amount.toString(16).padStart(64, '0')}`)
}

/**
 * A payout of 158.4 in this status. One address has 100, another 60. The operator has 70, so sweeping the larger one is
 * enough.
 */
async function payoutOf(status: 'sweeping' | 'swept') {
  const user = await money.merchant()
  const {address: small} = await money.user(user.merchantId)
  await money.deposit(user.address, 100 * unit)
  await money.deposit(small, 60 * unit)
  const payout = await money.claim(user)
  await money.work('begin_sweeping', payout)
  if (status === 'swept') await money.work('end_sweeping', payout)
  return {payout, large: user.address}
}

/** One run of the payout's task. Custody would sign it. */
async function advance(payout: string): Promise<void> {
  const settings = readSettings({ETH_RPC_URL: node.httpUrl, ETH_USDC_CONTRACT: usdc})
  const to = await openContext(settings, money.jobs, silent())
  to.custody.check = async () => ({ok: true})
  to.custody.authorise = async () => [{ok: true, data: trial}]
  await advancePayout(to)({payout_id: payout}, {} as never)
  await closeContext(to)
}

function onChain(large: string, ofLarge: () => Promise<number>): void {
  node.behave = ({method, params}) =>
    response(method, params, async address => (address === large.toLowerCase() ? await ofLarge() : 60 * unit))
}

async function sweptFor(payout: string): Promise<{swept: string[]; status: string; reason: string | null}> {
  const outgoingPayments = await money.db.rows<{source: string}>(
    `select s.source from app.outgoing_payment s join app.payout p using (merchant_id) where p.id = $1 and s.kind = 'sweep'`,
    [payout],
  )
  const [row] = await money.db.rows<{status: string; reason: string | null}>(
    'select status, waiting_reason as reason from app.payout where id = $1',
    [payout],
  )
  return {swept: outgoingPayments.map(({source}) => source), ...row!}
}

test('the second of two runs begins no sweep in place of mined ones that the first began', async () => {
  const {payout, large} = await payoutOf('sweeping')
  const isBegun = async () =>
    (await money.db.rows('select from app.payout_sweep where payout_id = $1', [payout])).length
  let polls = 0
  let isSecondPolling = () => {}
  const secondPolls = new Promise<void>(resolve => {
    isSecondPolling = resolve
  })
  onChain(large, async () => {
    polls += 1
    if (polls === 1) {
      await secondPolls
      return 100 * unit
    }
    isSecondPolling()
    await until(isBegun, {timeoutMs: 10_000, what: 'the first run to begin its sweep'})
    return 0 // it is in a block, and not final
  })
  await Promise.all([advance(payout), advance(payout)])
  expect(polls).toBe(2)
  expect(await sweptFor(payout)).toEqual({swept: [large], status: 'sweeping', reason: 'sweeps'})
})

test('a payout waits for a sweep that serves no payout, and sweeps no other address instead', async () => {
  const {payout, large} = await payoutOf('sweeping')
  await money.sweep(null, [large])
  onChain(large, async () => 0) // it is in a block, and not final
  await advance(payout)
  expect(await sweptFor(payout)).toEqual({swept: [large], status: 'sweeping', reason: 'sweeps'})
})

test('a payout waits likewise when such a sweep begins while it polls addresses', async () => {
  const {payout, large} = await payoutOf('sweeping')
  onChain(large, async () => {
    await money.sweep(null, [large])
    return 0
  })
  await advance(payout)
  expect(await sweptFor(payout)).toEqual({swept: [large], status: 'sweeping', reason: 'sweeps'})
})

test('a payout that is short when it is to be paid sweeps one address, and no other while that sweep is in a block', async () => {
  const {payout, large} = await payoutOf('swept')
  let balance = 100 * unit
  onChain(large, async () => balance)
  for (let run = 0; run < 2; run++) {
    await advance(payout)
    expect(await sweptFor(payout)).toEqual({swept: [large], status: 'swept', reason: 'sweeps'})
    balance = 0
  }
  await money.db.rows('delete from graphile_worker._private_jobs')
  await money.mineFinally([(await money.attempt(await money.sweepOf(large)))!])
  const woken = await money.db.rows('select from graphile_worker.jobs where key = $1', [`payout:${payout}`])
  expect(woken).toHaveLength(1)
  expect(await money.work('begin_payment', payout, 10)).toBeNull()
})

test('a payout sweeps an address again, if a sweep that it waited for moved less than the address holds', async () => {
  const user = await money.merchant()
  for (let n = 0; n < 2; n++) await money.deposit(user.address, 100 * unit)
  const payout = await money.claim(user)
  await money.work('begin_sweeping', payout)
  // Planned before the second deposit was final, and begun after the payout was requested.
  await money.work('begin_sweeps', null, 'ETH', 'USDC', [user.address], [100 * unit], [10])
  onChain(user.address, async () => 100 * unit)
  await advance(payout)
  expect(await sweptFor(payout)).toMatchObject({swept: [user.address]})
  await money.mineFinally([(await money.attempt(await money.sweepOf(user.address)))!])
  await advance(payout)
  expect(await sweptFor(payout)).toMatchObject({swept: [user.address, user.address]})
})
