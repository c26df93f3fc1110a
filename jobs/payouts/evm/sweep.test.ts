// Two runs of the task of one payout, which nothing keeps from running beside each other.
import {domainSeparator, numberToHex, toFunctionSelector} from 'viem'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {silent} from '../../../base/log.ts'
import {readSettings} from '../../../chains/settings.ts'
import {Money} from '../../../test/support/money.ts'
import {RpcProxy} from '../../../test/support/rpc-proxy.ts'
import {until} from '../../../test/support/until.ts'
import {advancePayout} from '../advance-payout.ts'
import {closeContext, openContext} from '../open-context.ts'

const usdc = '0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238'
const unit = 1_000_000

/** What its contract says of itself, by the first four bytes of the question. */
const contract: Record<string, string> = {
  [toFunctionSelector('decimals()')]: numberToHex(6, {size: 32}),
  [toFunctionSelector('DOMAIN_SEPARATOR()')]: domainSeparator({
    domain: {name: 'USDC', version: '2', chainId: 11_155_111, verifyingContract: usdc},
  }),
  [toFunctionSelector('authorizationState(address,bytes32)')]: numberToHex(0, {size: 32}),
}

let money: Money
let node: RpcProxy

beforeAll(async () => {
  money = await Money.open()
  node = await RpcProxy.start({call: async method => Promise.reject(new Error(`not expected: ${method}`))})
})
afterAll(async () => {
  await node?.close()
  await money?.close()
})

/** What the node says that an address holds; its last 20 bytes are in the question. */
type Holds = (address: string) => Promise<number>

function answer(method: string, params: unknown[], holds: Holds): unknown {
  if (method === 'eth_getBlockByNumber') return {baseFeePerGas: '0x1'}
  if (method === 'eth_maxPriorityFeePerGas') return '0x1'
  if (method === 'eth_getCode') return '0x00'
  if (method !== 'eth_call') throw new Error(`not expected: ${method}`)
  const {data} = params[0] as {data: string}
  const ofContract = contract[data.slice(0, 10)]
  if (ofContract) return ofContract
  return holds(`0x${data.slice(-40)}`).then(amount => `0x${amount.toString(16).padStart(64, '0')}`)
}

test('the second one begins no sweep in place of those that the first one began, and that are mined', async () => {
  const user = await money.merchant()
  const {address: small} = await money.user(user.merchantId)
  const large = user.address
  await money.topUp('ETH', 100 * unit)
  await money.deposit(large, 100 * unit)
  await money.deposit(small, 60 * unit)
  await money.topUp('USDC', 70 * unit) // so that the larger of the two will do
  const payout = await money.claim(user)
  await money.work('begin_sweeping', payout)

  const isBegun = async () =>
    (await money.db.rows('select from app.payout_sweep where payout_id = $1', [payout])).length
  let looks = 0
  let isSecondLooking = () => {}
  const secondLooks = new Promise<void>(resolve => {
    isSecondLooking = resolve
  })
  node.behave = ({method, params}) =>
    answer(method, params, async address => {
      if (address !== large.toLowerCase()) return 60 * unit
      looks += 1
      if (looks === 1) {
        await secondLooks
        return 100 * unit
      }
      isSecondLooking()
      await until(isBegun, {timeoutMs: 10_000, what: 'the first run to begin its sweep'})
      return 0 // it is mined, and not final
    })

  const settings = readSettings({ETH_RPC_URL: node.httpUrl, ETH_USDC_CONTRACT: usdc})
  const runs = [1, 2].map(async () => {
    const to = await openContext(settings, money.jobs, silent())
    await advancePayout(to)({payout_id: payout}, {} as never)
    await closeContext(to)
  })
  await Promise.all(runs)
  expect(looks).toBe(2)
  const swept = await money.db.rows(`select source from app.spend where payout_id = $1`, [payout])
  expect(swept).toEqual([{source: large}])
  const [row] = await money.db.rows('select status, waiting_reason from app.payout where id = $1', [payout])
  expect(row).toEqual({status: 'sweeping', waiting_reason: 'sweeps'})
})
