// The truth of a local EVM chain.
import {getAddress, numberToHex} from 'viem'
import {z} from 'zod'
import type {EvmClient} from '../../../devnet/evm/client.ts'
import type {Asset} from '../asset.ts'
import {accountFor, type Left, type Ours, type Truth} from '../truth.ts'
import {balanceOf, type Token} from './tokens.ts'

/** The transfer of a transaction to an address of ours, if it succeeds. */
export interface Moved {
  outputIndex: number
  token: string
  amount: bigint
  address: string
}

const transferTopic = '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef'

const quantity = z.string().transform(BigInt)
const Block = z.object({
  hash: z.string(),
  timestamp: z.string().transform(Number),
  transactions: z.array(z.object({hash: z.string(), from: z.string(), to: z.string().nullable(), value: quantity})),
})
const Receipts = z.array(
  z.object({
    transactionHash: z.string(),
    status: z.string(),
    gasUsed: quantity,
    effectiveGasPrice: quantity,
    logs: z.array(z.object({address: z.string(), topics: z.array(z.string()), data: z.string()})),
  }),
)

interface Found {
  blocks: Map<number, string>
  /** Successful transactions, with block and time. */
  succeeded: Map<string, {height: number; minedAt: number}>
  left: Left[]
  /** Network fees by payer. */
  fees: Map<string, bigint>
}

interface AskedOf {
  coin: Asset
  tokens: Token[]
  sent: {txid: string; moves: Moved[]; at: number}[]
  ours: Ours
}

export async function readTruth(chain: EvmClient, {coin, tokens, sent, ours}: AskedOf): Promise<Truth> {
  const {treasury, addresses} = ours
  const {blocks, succeeded, left, fees} = await readBlocks(chain, coin, tokens)
  const deposits = sent.flatMap(({txid, moves, at}) => {
    const mined = succeeded.get(txid)
    return mined ? moves.map(move => ({txid, ...mined, madeAt: at, ...move})) : []
  })
  const held = new Map<string, bigint>()
  for (const address of [treasury, ...addresses])
    for (const asked of [coin, ...tokens]) held.set(`${address} ${asked.token}`, await balanceOf(chain, asked, address))
  return {blocks, deposits, held, ...accountFor(ours, {coin: coin.token, deposits, left, fees, held})}
}

async function readBlocks(chain: EvmClient, coin: Asset, tokens: Token[]): Promise<Found> {
  const found: Found = {blocks: new Map(), succeeded: new Map(), left: [], fees: new Map()}
  const {height: last} = await chain.head()
  for (let height = 1; height <= last; height++) {
    const {hash, timestamp, transactions} = Block.parse(
      await chain.rpc('eth_getBlockByNumber', [numberToHex(height), true]),
    )
    found.blocks.set(height, hash)
    if (transactions.length === 0) continue
    const receipts = Receipts.parse(await chain.rpc('eth_getBlockReceipts', [numberToHex(height)]))
    for (const [i, {hash, from, to, value}] of transactions.entries()) {
      const {transactionHash, status, gasUsed, effectiveGasPrice, logs} = receipts[i]!
      if (transactionHash !== hash) throw new Error(`receipt ${i} of block ${height} is not of its transaction ${i}`)
      const sender = getAddress(from)
      found.fees.set(sender, (found.fees.get(sender) ?? 0n) + gasUsed * effectiveGasPrice)
      if (status !== '0x1') continue
      found.succeeded.set(hash, {height, minedAt: timestamp * 1000})
      if (value > 0n && to)
        found.left.push({txid: hash, from: sender, to: getAddress(to), token: coin.token, amount: value})
      found.left.push(...logs.flatMap(log => transferOf(hash, log, tokens)))
    }
  }
  return found
}

interface Log {
  address: string
  topics: string[]
  data: string
}

function transferOf(txid: string, {address, topics, data}: Log, tokens: Token[]): Left[] {
  const [topic, from, to] = topics
  const token = tokens.find(({contract}) => contract === getAddress(address))?.token
  if (!token || topic !== transferTopic) return []
  const addressOf = (word: string) => getAddress(`0x${word.slice(-40)}`)
  return [{txid, from: addressOf(from!), to: addressOf(to!), token, amount: BigInt(data)}]
}
