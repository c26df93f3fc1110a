// Tron, with a token that addresses sweep themselves, with TRX of the treasury's: transactions expire by time, and what
// a transfer burns is limited. The worker's part is the real one; its node is the model's, which has the prices, and
// tries a call as a contract would.
import {decodeFunctionData, erc20Abi, type Hex, keccak256, numberToHex, toHex} from 'viem'
import {addressOf, bytesOf} from '../../../chains/tron/address.ts'
import {mostTokenBytesFee} from '../../../chains/tron/bytes.ts'
import {tronSettings} from '../../../chains/tron/settings.ts'
import {contractTypes, parseRawData, parseTransaction} from '../../../chains/tron/transaction.ts'
import {open} from '../../../jobs/payouts/tron/family.ts'
import {
  type Block,
  balancesAt,
  branch,
  endsByTime,
  lendsEnergy,
  lentTo,
  type ModelChain,
  type Transaction,
} from '../chain.ts'
import type {Kind, Wanted} from './kind.ts'
import {ModelNode} from './node.ts'

const chain = 'TRON'
const native = 'TRX'
const token = 'USDT'
const trx = 1_000_000n
const mostSweepFee = 3n * trx
/** What a transfer of the token burns at the usual price, and what one of TRX costs, as if its recipient were new. */
const energy = 65_000n
const energyPrice = 100n
const transferFee = (11n * trx) / 10n
const stakingFee = (3n * trx) / 10n
const staked = 10n ** 15n

interface Asked {
  address: string
  owner_address: string
  data: string
  toAddress: string
}

const node = await ModelNode.open((chain, path, body) => answerTo(chain, path, body as Asked))

function answerTo(chain: ModelChain, path: string, {address, owner_address, data, toAddress}: Asked): unknown {
  const [api, method] = path.split('/')
  const at = api === 'walletsolidity' ? chain.final : chain.head
  if (method === 'getchainparameters') return pricesOf(chain)
  if (method === 'getcontractinfo') return {runtimecode: '00'}
  if (method === 'triggerconstantcontract') return tried(at, fromHex(owner_address), `0x${data}`)
  if (method === 'getaccount') return {balance: Number(balanceAt(at, fromHex(address), native))}
  if (method === 'getaccountresource') return resourcesOf(at, fromHex(address))
  if (method === 'getdelegatedresourceaccountindexv2') return {toAccounts: borrowersAt(at)}
  if (method === 'getdelegatedresourcev2')
    return {delegatedResource: [{frozen_balance_for_energy: Number(lentTo(at, fromHex(toAddress)))}]}
  if (method === 'getcandelegatedmaxsize') return {max_size: Number(staked)} // never short
  throw new Error(`the model's node does not know ${path}`)
}

function pricesOf({price}: ModelChain): object {
  const values = {
    getTransactionFee: 1000 * price,
    getEnergyFee: Number(energyPrice) * price,
    getCreateAccountFee: Number(transferFee),
    getCreateNewAccountFeeInSystemContract: 0,
  }
  return {chainParameter: Object.entries(values).map(([key, value]) => ({key, value}))}
}

const borrowersAt = (at: Block) => {
  const all = [...branch(at)].flatMap(({included}) => included.map(({transaction}) => transaction.lends?.to))
  return [...new Set(all)].flatMap(to => (to ? [Buffer.from(bytesOf(to)).toString('hex')] : []))
}

/** No bytes are free. What an address was lent is enough for its sweep. */
function resourcesOf(at: Block, address: string): object {
  const network = {TotalEnergyLimit: 180_000_000_000, TotalEnergyWeight: 19_000_000_000}
  return lentTo(at, address) > 0n ? {EnergyLimit: 2 * Number(energy), ...network} : network
}

/** What a call does after a block: it moves what its sender has, and is refused otherwise. */
function tried(at: Block, from: string, data: Hex): object {
  const {functionName, args} = decodeFunctionData({abi: erc20Abi, data})
  if (functionName === 'decimals') return returned(word(6n))
  if (functionName === 'balanceOf') return returned(word(balanceAt(at, ofContract(args[0]), token)))
  const [to, amount] = args as [Hex, bigint]
  if (balanceAt(at, from, token) < amount)
    return {result: {result: true, message: hex('REVERT opcode executed')}, transaction: {ret: [{ret: 'FAILED'}]}}
  const parties = [bytesOf(from).subarray(1), Buffer.from(to.slice(2), 'hex')]
  const topics = [transferTopic, ...parties.map(party => Buffer.from(party).toString('hex').padStart(64, '0'))]
  return {...returned(word(1n)), logs: [{address: contract, topics, data: word(amount)}]}
}

const returned = (result: string) => ({
  result: {result: true},
  energy_used: Number(energy),
  constant_result: [result],
})

const transferTopic = keccak256(toHex('Transfer(address,address,uint256)')).slice(2)
const hex = (text: string) => Buffer.from(text).toString('hex')
const word = (value: bigint) => numberToHex(value, {size: 32}).slice(2)
const fromHex = (address: string) => addressOf(Buffer.from(address, 'hex'))
/** Inside contracts an address lacks its first byte. */
const ofContract = (address: Hex) => fromHex(`41${address.slice(2)}`)
const contract = Buffer.from(bytesOf('TXYZopYRdj2D9XRtbG411XZZ3kM5VkAeBf')).subarray(1).toString('hex')

const balanceAt = (block: Block, address: string, token: string) =>
  balancesAt(block, native).get(`${address} ${token}`) ?? 0n

const worker = node.worker(settings => open(tronSettings(settings.chains.get('TRON'))))

function parse(raw: string): Transaction {
  const {txid, rawData} = parseTransaction(Buffer.from(raw, 'hex'))
  const {refBytes, expiration, feeLimit, contract} = parseRawData(rawData)
  const {owner, message} = contract
  const lifetime = {from: Buffer.from(refBytes).readUInt16BE(), end: expiration}
  const of = {txid, raw, from: owner!, lifetime}
  if (contract.type === contractTypes.delegate || contract.type === contractTypes.undelegate) {
    const amount = message.integer(3)
    const lends = {to: addressOf(message.bytes(4)), amount: contract.type === contractTypes.delegate ? amount : -amount}
    return {...of, fee: stakingFee, outputs: [], lends}
  }
  if (feeLimit === 0n) {
    const output = {to: addressOf(message.bytes(2)), token: native, amount: message.integer(3)}
    return {...of, fee: transferFee, outputs: [output]}
  }
  const {args} = decodeFunctionData({abi: erc20Abi, data: `0x${Buffer.from(message.bytes(4)).toString('hex')}`})
  const [to, amount] = args as [Hex, bigint]
  const burnt = energy * energyPrice < feeLimit ? energy * energyPrice : feeLimit
  return {...of, fee: burnt, outputs: [{to: ofContract(to), token, amount}]}
}

/** A thief offers any limit for what energy may burn, also none. */
function intent({id, kind, payoutId}: Wanted, a: number): object {
  const fee_limit = [8n, 8n, 8n, 25n, 50n, 1n, 0n][a % 7]! * trx
  const offered = a % 11 === 0 ? {} : {fee_limit: String(fee_limit)}
  if (kind === 'payout') return {intent: 'pay_tron', payout_id: payoutId, ...offered}
  if (kind === 'withdrawal') return {intent: 'withdraw_tron', outgoing_payment_id: id, ...offered}
  const from = {intent: `${kind}_tron`, chain, outgoing_payment_id: id}
  return kind === 'sweep' ? {...from, ...offered} : from
}

/** Of the shortest lifetime that blocks of a second leave room for. */
const settings = {
  TRON_RPC_URL: `http://${node.address}`,
  TRON_LIFETIME_MS: '10000',
  TRON_FEE_BUDGET: '100000',
  TRON_MAX_SWEEP_FEE: String(mostSweepFee / trx),
  TRON_MAX_PAYMENT_FEE: String(mostSweepFee / trx),
  TRON_TOKEN_SWEEP_FEE: '60',
  TRON_TOKEN_PAYMENT_FEE: '60',
}

export const tron: Kind = {
  name: 'tron',
  chain,
  token,
  native,
  settings,
  unit: trx,
  fee: (energy * energyPrice * 5n) / 4n + mostTokenBytesFee({maxSweepFee: mostSweepFee}),
  coinFee: mostSweepFee,
  rules: endsByTime,
  expires: true,
  parse,
  worker,
  intent,
  feeDetails: () => ({}),
  outsider: n =>
    fromHex(
      `41${String(n + 1)
        .padStart(2, '0')
        .repeat(20)}`,
    ),
}

/** With a stake: sweeps that the worker begins burn nothing. */
export const lent: Kind = {
  ...tron,
  name: 'lent',
  staked,
  rules: lendsEnergy,
}
