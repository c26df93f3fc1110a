// The wire format: blocks and transactions are JSON, whose hash says which one it is. An account sends one transaction in its life.
import {createHash} from 'node:crypto'
import {z} from 'zod'

const Transaction = z.object({from: z.string(), outputs: z.array(z.object({to: z.string(), amount: z.string()}))})
const Block = z.object({
  height: z.int(),
  parentHash: z.string(),
  /** In milliseconds; it never falls. */
  time: z.int(),
  /** Makes an empty block another one than the empty block that it replaces. */
  fork: z.int(),
  /** In hex. */
  transactions: z.array(z.string()),
})
export type Transaction = z.infer<typeof Transaction> & {txid: string}
export type Block = z.infer<typeof Block>

export const hashOf = (text: string): string => createHash('sha256').update(text).digest('hex')

export const genesis = JSON.stringify({height: 0, parentHash: '', time: 0, fork: 0, transactions: []} satisfies Block)

export const parseBlock = (text: string): Block & {hash: string} => ({
  ...Block.parse(JSON.parse(text)),
  hash: hashOf(text),
})

export const rawTransaction = (transaction: z.infer<typeof Transaction>): string =>
  Buffer.from(JSON.stringify(transaction)).toString('hex')

export function parseTransaction(raw: string): Transaction {
  const text = Buffer.from(raw, 'hex').toString()
  return {...Transaction.parse(JSON.parse(text)), txid: hashOf(text)}
}
