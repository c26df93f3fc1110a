// What is asked of a node before money of the operator, or of nobody, moves on an EVM chain.
import {afterAll, beforeAll, beforeEach, expect, test} from 'vitest'
import {evmSettings} from '../../../chains/evm/settings.ts'
import {settingsFrom} from '../../../chains/settings.ts'
import {contract, usdc} from '../../../test/support/evm/usdc-contract.ts'
import {Money} from '../../../test/support/money.ts'
import {RpcProxy} from '../../../test/support/rpc-proxy.ts'
import {beginWithdrawalBy, flowOf} from '../accounts/flow.ts'
import type {Context} from '../context.ts'
import {type Evm, evm} from './node.ts'
import {rulesOf} from './rules.ts'

const ether = 10n ** 18n
const recipient = `0x${'33'.repeat(20)}`

let money: Money
let node: RpcProxy
let chain: Evm
/** Whether the recipient refuses this much, in wei. */
let refuses = (_value: bigint) => false
/** What every address holds, in wei. */
let held = ether

beforeAll(async () => {
  money = await Money.open()
  node = await RpcProxy.start({
    async call(method, [first]) {
      if (method === 'eth_getBlockByNumber') return {baseFeePerGas: '0x3b9aca00'}
      if (method === 'eth_feeHistory') return {gasUsedRatio: [0]}
      if (method === 'eth_getBalance') return `0x${held.toString(16)}`
      if (method === 'eth_getCode') return '0x00'
      const {to, value, data = ''} = first as {to: string; value: string; data?: string}
      if (method === 'eth_call') return contract[data.slice(0, 10)]!
      if (method !== 'eth_estimateGas') throw new Error(`not expected: ${method}`)
      if (to === recipient && refuses(BigInt(value))) throw new Error('execution reverted')
      return '0x5208'
    },
  })
  chain = evm(evmSettings(settingsFrom('ETH', {ETH_RPC_URL: node.httpUrl, ETH_USDC_CONTRACT: usdc})))
})
afterAll(async () => {
  chain?.node.close()
  await node?.close()
  await money?.close()
})
beforeEach(() => {
  refuses = () => false
  held = ether
})

const step = {depositId: '', chain: 'ETH', token: 'ETH', amount: ether, destination: recipient} as const
const beginReturn = (more: {step: 'sweep' | 'withdrawal'}) =>
  flowOf(rulesOf(chain)).beginReturn({pool: money.jobs} as unknown as Context, {
    ...step,
    ...more,
    address: `0x${'22'.repeat(20)}`,
    treasury: `0x${'11'.repeat(20)}`,
  })

test.each([0n, 1n, 10n ** 9n])(
  'a return says that what it returns is not there, if its address holds %d wei',
  async wei => {
    held = wei
    expect(await beginReturn({step: 'sweep'})).toMatchObject({
      reason: 'not_there',
      detail: `the address holds ${wei} base units of ETH`,
    })
  },
)

test('a return to a recipient that refuses this much says so; one that refuses less is no reason', async () => {
  refuses = value => value >= ether
  expect(await beginReturn({step: 'withdrawal'})).toMatchObject({reason: 'destination_not_payable'})
  refuses = value => value < ether
  await expect(beginReturn({step: 'withdrawal'})).rejects.toThrow(/uuid/) // the database is asked to begin it
})

test('a withdrawal is refused if its recipient refuses this much, and not if it refuses less', async () => {
  const withdraw = () =>
    beginWithdrawalBy(money.db.pool as never, rulesOf(chain), {token: 'ETH', amount: ether, to: recipient}, 1n)
  refuses = value => value >= ether
  await expect(withdraw()).rejects.toThrow('the recipient refuses the payment')
  refuses = value => value < ether
  await expect(withdraw()).rejects.toThrow(/whitelist|funds|short|lack/) // the database is asked to begin it
})
