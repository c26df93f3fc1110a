// The truth of a local Tron chain, from the bytes of its transactions: what they pay, and what they call with which
// data. A node only says which of them failed, what they cost, and what contracts paid inside.
import {addressOf} from '../../../chains/tron/address.ts'
import {type Block, type Info, TronNode} from '../../../chains/tron/client.ts'
import {contractTypes, parseRawData, type Transaction} from '../../../chains/tron/transaction.ts'
import type {TronClient} from '../../../devnet/tron/client.ts'
import {contracts} from '../../../devnet/tron/constants.ts'
import {accountFor, type Came, type Left, type Ours, type Truth} from '../truth.ts'

/** What the service calls the tokens that payments are in; it does not know the second. */
export const tokens = new Map([
  [contracts.usdt, 'USDT'],
  [contracts.token, contracts.token],
])

const firstLog = 1_000_000
/** transfer(address,uint256), of EIP-20. */
const transferSelector = 'a9059cbb'

export function nodeAt(url: string): TronNode {
  return new TronNode({url, solidityUrl: url}, undefined, 10_000)
}

/** `made`: the time at which each transaction was made, by txid. */
export async function readTruth(client: TronClient, made: Map<string, number>, ours: Ours): Promise<Truth> {
  const {treasury, addresses} = ours
  const {blocks, moved} = await readBlocks(client)
  const held = new Map<string, bigint>()
  for (const address of [treasury, ...addresses])
    for (const token of ['TRX', 'USDT']) held.set(`${address} ${token}`, await client.balance(token, address))
  const fees = new Map<string, bigint>()
  for (const {owner, fee} of moved) fees.set(owner, (fees.get(owner) ?? 0n) + fee)
  const foreign = moved.filter(({owner}) => owner !== treasury && !addresses.has(owner))
  const deposits = foreign.flatMap(({txid, at, amounts}) =>
    amounts
      .filter(({to}) => addresses.has(to))
      .map(({to: address, ...amount}): Came => ({txid, ...at, madeAt: made.get(txid), address, ...amount})),
  )
  const left = moved.flatMap(({txid, owner: from, amounts}) =>
    amounts.map(({to, token, amount}): Left => ({txid, from, to, token, amount})),
  )
  return {blocks, deposits, held, ...accountFor(ours, {coin: 'TRX', deposits, left, fees, held})}
}

interface Amount {
  to: string
  outputIndex: number
  token: string
  amount: bigint
}

interface Moved {
  txid: string
  at: {height: number; minedAt: number}
  owner: string
  fee: bigint
  /** None if it failed. */
  amounts: Amount[]
}

async function readBlocks(client: TronClient): Promise<{blocks: Map<number, string>; moved: Moved[]}> {
  const node = nodeAt(client.url)
  const {height: last} = await client.head()
  const blocks = new Map<number, string>()
  const moved: Moved[] = []
  for (let from = 0; from <= last; from += 100)
    for (const block of await node.blocks(from, 100)) {
      blocks.set(block.height, block.hash)
      const infos = block.transactions.length ? await node.infos(block.height) : []
      for (const transaction of block.transactions)
        moved.push(movedBy(block, transaction, infos.find(({txid}) => txid === transaction.txid)!))
    }
  return {blocks, moved}
}

function movedBy({height, time: minedAt}: Block, {txid, rawData, result}: Transaction, info: Info): Moved {
  const {contract} = parseRawData(rawData)
  const {type, message} = contract
  const amounts =
    type === contractTypes.transfer
      ? [{to: addressOf(message.bytes(2)), outputIndex: 0, token: 'TRX', amount: message.integer(3)}]
      : type === contractTypes.trigger
        ? [...insideOf(info), ...tokensOf(addressOf(message.bytes(2)), Buffer.from(message.bytes(4)))]
        : []
  const {fee} = info
  return {txid, at: {height, minedAt}, owner: contract.owner!, fee, amounts: result === 'SUCCESS' ? amounts : []}
}

function insideOf({internals}: Info): Amount[] {
  return internals.map(({to, values: [value]}, n) => {
    return {to: addressOf(to), outputIndex: 1 + n, token: 'TRX', amount: value!.amount}
  })
}

/** What a call of a token says that it moves: its only log is the first. */
function tokensOf(contract: string, data: Buffer): Amount[] {
  const token = tokens.get(contract)
  if (!token || data.subarray(0, 4).toString('hex') !== transferSelector) return []
  const to = addressOf(Uint8Array.of(0x41, ...data.subarray(16, 36)))
  const amount = BigInt(`0x${data.subarray(36, 68).toString('hex')}`)
  return amount > 0n ? [{to, outputIndex: firstLog, token, amount}] : []
}
