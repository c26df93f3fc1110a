// Chains on which a nonce serves one transaction: Ethereum, with the native coin, and with a token that addresses sweep
// themselves, with gas of the treasury's. The worker's part is the real one; its node is the model's, which has the
// fees.
import {recover} from 'tiny-secp256k1'
import {
  bytesToHex,
  decodeFunctionData,
  erc20Abi,
  getAddress,
  type Hex,
  hexToBytes,
  keccak256,
  numberToHex,
  parseTransaction,
  serializeTransaction,
  type TransactionSerializedEIP1559,
} from 'viem'
import {publicKeyToAddress} from 'viem/accounts'
import {evmSettings} from '../../../chains/evm/settings.ts'
import {open} from '../../../jobs/payouts/evm/family.ts'
import {balancesAt, type ModelChain, usesNonces} from '../chain.ts'
import type {Kind, Wanted} from './kind.ts'
import {jsonRpc, ModelNode} from './node.ts'

const chain = 'ETH'
const native = 'ETH'
const tether = {code: 'USDT', contract: `0x${'dac1'.repeat(10)}`}
const gwei = 10n ** 9n
const unit = 10n ** 14n
/** What a transfer of coins takes, and what the worker reserves for a payment. */
const gas = 21_000n
const tokenGas = 50_000n
const paymentGas = (gas * 125n) / 100n

const priority = (chain: ModelChain) => gwei * BigInt(chain.price)
const base = (chain: ModelChain) => 10n * priority(chain)
const hex = (value: bigint): Hex => `0x${value.toString(16)}`

const node = await ModelNode.open(
  jsonRpc({
    eth_getBlockByNumber: chain => ({baseFeePerGas: hex(base(chain))}),
    eth_feeHistory: chain => ({gasUsedRatio: [0.5], reward: [[hex(priority(chain))]]}),
    eth_estimateGas: (_, call) => hex(dataOf(call) ? tokenGas : gas),
    eth_getBalance: (chain, address) => hex(balanceAt(chain, String(address), native)),
    eth_getCode: () => '0x00',
    eth_call: (chain, call) => {
      const data = dataOf(call) ?? ''
      if (data === decimals) return word(6n)
      return data.startsWith(balanceOf) ? word(balanceAt(chain, getAddress(`0x${data.slice(-40)}`), tether.code)) : '0x'
    },
  }),
)

const dataOf = (call: unknown) => (call as {data?: string}).data

/** The first four bytes of the data of calls. */
const [decimals, balanceOf] = ['0x313ce567', '0x70a08231']
const word = (value: bigint): Hex => numberToHex(value, {size: 32})

const balanceAt = ({head}: ModelChain, address: string, token: string) =>
  balancesAt(head, native).get(`${address} ${token}`) ?? 0n

const worker = node.worker(settings => open(evmSettings(settings.chains.get('ETH'))))

function parse(raw: string) {
  const {r, s, yParity, v, ...unsigned} = parseTransaction(raw as TransactionSerializedEIP1559)
  const digest = hexToBytes(keccak256(serializeTransaction(unsigned)))
  const signature = Buffer.concat([r!, s!].map(half => Buffer.from(half.slice(2).padStart(64, '0'), 'hex')))
  const publicKey = recover(digest, signature, yParity as 0 | 1, false)!
  const [to, value, price] = [getAddress(unsigned.to!), unsigned.value ?? 0n, unsigned.maxFeePerGas!]
  const moved = unsigned.data && movedBy(unsigned.data)
  const outputs = moved ? [moved] : value > 0n ? [{to, token: native, amount: value}] : []
  return {
    txid: keccak256(raw as Hex),
    raw,
    from: publicKeyToAddress(bytesToHex(publicKey)),
    // A block takes less than was offered.
    fee: ((moved ? tokenGas : gas) * price) / 2n,
    mostFee: unsigned.gas! * price,
    nonce: unsigned.nonce ?? 0,
    outputs,
  }
}

function movedBy(data: Hex) {
  const {args} = decodeFunctionData({abi: erc20Abi, data})
  const [to, amount] = args as [string, bigint]
  return {to: getAddress(to), token: tether.code, amount}
}

function feeDetails(raw: string): object {
  const {maxFeePerGas, maxPriorityFeePerGas, gas} = parseTransaction(raw as TransactionSerializedEIP1559)
  return {
    max_fee_per_gas: String(maxFeePerGas),
    max_priority_fee_per_gas: String(maxPriorityFeePerGas ?? 0n),
    gas_limit: Number(gas),
  }
}

/** A thief offers any fees, asks for another nonce, moves less, or wants a cancel. */
function intent(
  token: string,
  {id, kind, payoutId, amount, source, feePayer, nonce, cancelling}: Wanted,
  a: number,
): object {
  const price = [21n, 21n, 24n, 27n, 35n, 60n, 120n][a % 7]! * gwei
  const offered = {
    nonce: Math.max(0, nonce! + (a % 11 === 0 ? 1 : a % 13 === 0 ? -1 : 0)),
    max_fee_per_gas: String(price),
    max_priority_fee_per_gas: String(price / 20n),
    gas_limit: Number(kind === 'sweep' && token !== native ? tokenGas : gas),
  }
  if (cancelling ? a % 5 : a % 5 === 0) return {intent: 'cancel', chain, sender: feePayer, ...offered}
  if (kind === 'payout') return {intent: 'pay', payout_id: payoutId, ...offered}
  if (kind === 'withdrawal') return {intent: 'withdraw', outgoing_payment_id: id, ...offered}
  if (kind === 'fund') return {intent: 'fund', outgoing_payment_id: id, chain, ...offered}
  const moved = a % 3 ? BigInt(amount) : (BigInt(amount) * 9n) / 10n
  const from = {outgoing_payment_id: id, chain, address: source, amount: String(moved), ...offered}
  return kind === 'defund' ? {intent: 'defund', token: native, ...from} : {intent: 'sweep', token, ...from}
}

const settings = {
  ETH_RPC_URL: `http://${node.address}`,
  ETH_CHAIN_ID: '31337',
  ETH_FEE_BUDGET: '100000',
  ETH_TOKENS: JSON.stringify([
    {
      ...tether,
      name: 'ETH-USDT',
      display_name: 'Tether USD',
      decimals: 6,
      min_payout: '0.000001',
      sweep_min: '0.000001',
      sweep: {by: 'fund'},
    },
  ]),
}

export const nonce: Kind = {
  name: 'nonce',
  chain,
  token: native,
  settings,
  unit,
  fee: paymentGas * 21n * gwei,
  rules: usesNonces,
  expires: false,
  parse,
  worker,
  intent: (wanted, a) => intent(native, wanted, a),
  feeDetails,
  outsider: n =>
    getAddress(
      `0x${String(n + 1)
        .repeat(40)
        .slice(0, 40)}`,
    ),
}

export const funded: Kind = {
  ...nonce,
  name: 'funded',
  token: tether.code,
  native,
  unit: 10n ** 6n,
  fee: ((tokenGas * 125n) / 100n) * 21n * gwei,
  coinFee: paymentGas * 21n * gwei,
  intent: (wanted, a) => intent(tether.code, wanted, a),
  prepare: `insert into app.asset (chain, token, name, display_name, decimals, min_payout, sweep_min, sweep_by)
    values ('${chain}', '${tether.code}', 'ETH-USDT', 'Tether USD', 6, 1, 1, 'fund')`,
}
