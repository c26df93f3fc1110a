// What a local chain itself says about money that left addresses: read block by block, from the first to the last, with no help of the
// service under test.
import {encodeFunctionData, erc20Abi, getAddress, type Hex, numberToHex} from 'viem'
import {z} from 'zod'
import {USDC_ADDRESS} from '../../devnet/constants.ts'
import type {LocalChainClient} from '../../devnet/evm.ts'

const transferTopic = '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef'

const quantity = z.string().transform(BigInt)
const Transactions = z.object({
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

export interface Left {
  txid: string
  /** As people see them. */
  from: string
  to: string
  token: 'native' | 'USDC'
  amount: bigint
}

export interface Truth {
  /** Every amount that left an address, by its own transaction or by a transfer of USDC. */
  left: Left[]
  /** Network fees, by who paid them. */
  fees: Map<string, bigint>
}

export async function readTruth(chain: LocalChainClient): Promise<Truth> {
  const truth: Truth = {left: [], fees: new Map()}
  const {height: last} = await chain.head()
  for (let height = 1; height <= last; height++) {
    const block = await chain.rpc('eth_getBlockByNumber', [numberToHex(height), true])
    const {transactions} = Transactions.parse(block)
    if (transactions.length === 0) continue
    const receipts = Receipts.parse(await chain.rpc('eth_getBlockReceipts', [numberToHex(height)]))
    for (const [i, {hash, from, to, value}] of transactions.entries()) {
      const {transactionHash, status, gasUsed, effectiveGasPrice, logs} = receipts[i]!
      if (transactionHash !== hash) throw new Error(`receipt ${i} of block ${height} is not of its transaction ${i}`)
      const sender = getAddress(from)
      truth.fees.set(sender, (truth.fees.get(sender) ?? 0n) + gasUsed * effectiveGasPrice)
      if (status !== '0x1') continue
      if (value > 0n && to)
        truth.left.push({txid: hash, from: sender, to: getAddress(to), token: 'native', amount: value})
      truth.left.push(...logs.flatMap(log => transferOf(hash, log)))
    }
  }
  return truth
}

function transferOf(txid: string, {address, topics, data}: {address: string; topics: string[]; data: string}): Left[] {
  const [topic, from, to] = topics
  if (getAddress(address) !== USDC_ADDRESS || topic !== transferTopic) return []
  const addressOf = (word: string) => getAddress(`0x${word.slice(-40)}`)
  return [{txid, from: addressOf(from!), to: addressOf(to!), token: 'USDC', amount: BigInt(data)}]
}

/** What an address holds at the end of the chain. */
export async function held(chain: LocalChainClient, token: 'native' | 'USDC', address: string): Promise<bigint> {
  if (token === 'native') return BigInt((await chain.rpc('eth_getBalance', [address, 'latest'])) as Hex)
  const data = encodeFunctionData({abi: erc20Abi, functionName: 'balanceOf', args: [address as Hex]})
  return BigInt((await chain.rpc('eth_call', [{to: USDC_ADDRESS, data}, 'latest'])) as Hex)
}
