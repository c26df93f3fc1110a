// What the conformance suite asks of a chain. A new chain is done when it passes the suite; to add one:
//   1. write its driver: a ChainUnderTest on its real local chain, with a proxy in front of its node that can do wrong (evm/driver.ts and
//      bitcoin/driver.ts are two);
//   2. name the driver in families.ts.
// The suite starts the chain's real indexer (indexers/main.ts) against real Postgres, and knows nothing else of the chain. A driver holds
// the truth: it asks its node, never the indexer's source. In it nothing happens by itself: blocks come when they are asked for.
import type {ChainCode} from '../../chains/registry.ts'
import type {BlockRef} from '../../indexers/cursor.ts'

export interface ChainUnderTest {
  /** What its tests go by. */
  name: string
  code: ChainCode
  /** Where deposits are seen before they are mined. */
  showsUnconfirmed: boolean
  /** Why it cannot be tested on this machine. */
  missing?: string
  /** A new chain of its own, on which the newest final block is `finalDepth` (an even number) below the head. */
  start(finalDepth: number): Promise<LocalChain>
}

export interface Output {
  to: string
  /** In base units, at least 1000. */
  amount: bigint
}

/** A signed transaction. It can be mined at any time, on any branch, unless another that was signed instead of it is in the same branch. */
export interface Payment {
  txid: string
  raw: string
  /** `index` is the output index of our rows, `token` what it pays, where that is not the native coin. */
  outputs: (Output & {index: number; token?: string})[]
}

/** Where a payment is now: in a block, in the node's pool of unconfirmed transactions, or nowhere. */
export type Place = BlockRef | 'unconfirmed' | undefined

export interface LocalChain {
  /** The settings of an indexer that reads the chain through `source`, but for where it begins. */
  environment: Record<string, string>
  source: Source
  /** An address that nobody was ever paid at, as people see it. */
  newAddress(): string
  /** Signs one transaction, of an asset of its own choice, and sends it to nobody. At most one of it and what it stands instead of can be mined. */
  sign(outputs: Output[], insteadOf?: Payment): Promise<Payment>
  /** Gives it to the node's pool, from which the next block takes it. */
  send(payment: Payment): Promise<void>
  /** Has the pool forget it. */
  forget(payment: Payment): Promise<void>
  /** Mines so many blocks. The first takes the whole pool. Resolves to the head. */
  mine(blocks?: number): Promise<BlockRef>
  /**
   * Replaces the newest `depth` blocks by as many others. These hold nothing but `again`: payments by the place of their block, 0 being the
   * lowest. What is left out is gone, from the pool too, and so is what was signed instead of those in `again`.
   */
  reorg(depth: number, again?: Record<number, Payment[]>): Promise<BlockRef>
  head(): Promise<BlockRef>
  hashAt(height: number): Promise<string | undefined>
  places(payments: Payment[]): Promise<Place[]>
  /** What the blocks of now pay to an address in all: the base units of every asset together. */
  received(address: string): Promise<bigint>
  stop(): Promise<void>
}

export const faults = ['lags', 'repeats itself', 'answers emptily', 'fails', 'hangs', 'is of another network'] as const
export type Fault = (typeof faults)[number]

/**
 * Stands before the node, for the indexer alone, and does wrong when asked to:
 *   lags: shows the chain as it was when this began, as a node does that gets no blocks any more;
 *   repeats itself: answers every other question as it did before, as a cache does, or one of several nodes;
 *   answers emptily: says that there is nothing, in the forms that its protocol has for that;
 *   fails: by errors, broken connections and halves of answers, in turns, and answers now and then;
 *   hangs: gives no answer at all;
 *   is of another network: names another one.
 */
export interface Source {
  /** From now on it does wrong in this way, or, where none is named, right; one that hung ends its connections then. */
  behave(fault?: Fault): Promise<void>
  /** Until it behaves in another way, it cannot give blocks below this one any more, as a pruned node. */
  forget(below: number): Promise<void>
  /** Resolves when it was asked so many questions more. */
  asked(times: number): Promise<void>
}
