// The truth of a chain at the end, read block by block, from first to last, without help from the service under test.
import type pg from 'pg'

/** The addresses to read. */
export interface Ours {
  treasury: string
  /** Of users and of payment requests. */
  addresses: Set<string>
  /** Custody's signatures come from its journal. */
  db: pg.Pool
}

export interface Came {
  txid: string
  outputIndex: number
  address: string
  token: string
  amount: bigint
  height: number
  /** The time of its block, in milliseconds. */
  minedAt: number
  /** The earliest time at which it could be seen; undefined if unknown. */
  madeAt?: number
}

/** Tokens have the names of the service. */
export interface Truth {
  /** Hashes by height. */
  blocks: Map<number, string>
  /** Payments to addresses of users and of payment requests. */
  deposits: Came[]
  /** Amounts that our transactions sent to anybody but the treasury. */
  paid: {txid: string; to: string; token: string; amount: bigint}[]
  /** Balances of our addresses: by '<address> <token>'. */
  held: Map<string, bigint>
  /** Network fees of transactions of ours. */
  fees: bigint
  /** Broken rules of the chain's family, in words. */
  wrong: string[]
}
