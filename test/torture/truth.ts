// What a chain itself says at the end, read block by block, from the first to the last, with no help of the service under test.
import type pg from 'pg'

/** Whom the chain is asked about. */
export interface Ours {
  treasury: string
  /** Of users and of payment requests. */
  addresses: Set<string>
  /** What custody signed is read from its journal. */
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
  /** Nobody saw it before; undefined where nobody knows. */
  madeAt?: number
}

/** Tokens are called as the service calls them. */
export interface Truth {
  /** Hashes by height. */
  blocks: Map<number, string>
  /** What came to addresses of users and of payment requests. */
  deposits: Came[]
  /** What left us: what transactions of ours moved to anybody but the treasury. */
  paid: {txid: string; to: string; token: string; amount: bigint}[]
  /** What an address of ours holds: by '<address> <token>'. */
  held: Map<string, bigint>
  /** Network fees of transactions of ours. */
  fees: bigint
  /** Rules of the chain's family that are broken, in words. */
  wrong: string[]
}
