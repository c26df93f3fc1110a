// What the conformance suite needs of a chain. A new chain is done when it passes the suite. To add one:
//   1. write its driver: a ChainUnderTest on its real local chain, with a proxy in front of its node that can
//        misbehave (evm/driver.ts and bitcoin/driver.ts are two);
//   2. name the driver in families.ts.
// The suite starts the chain's real indexer (indexers/main.ts) against real Postgres, and knows nothing else of the
// chain. A driver holds the truth: it reads its node, never the indexer's source. Nothing in it happens automatically:
// blocks come on request.
import type {ChainCode} from '../../chains/registry.ts'
import type {BlockRef} from '../../indexers/cursor.ts'

export interface ChainUnderTest {
  /** The name of its tests. */
  name: string
  code: ChainCode
  /** Whether deposits are seen before they are mined. */
  showsUnconfirmed: boolean
  /**
   * Another chain of the suite is followed, and read again, by the same code, from another source. What no source can
   * change is tested there.
   */
  isSecondSource?: boolean
  /** A new chain, whose newest final block is `finalDepth` (an even number) below the head. */
  start(finalDepth: number): Promise<LocalChain>
}

export interface Output {
  to: string
  /** In base units, at least 1000. */
  amount: bigint
}

/** A signed transaction. It can be mined at any time, on any branch, unless a conflicting one is in the same branch. */
export interface Payment {
  txid: string
  raw: string
  /**
   * On some chains, one for each recipient. `index` is the output index of our rows; `token` is the paid token, if it
   * is not the native coin.
   */
  outputs: (Output & {index: number; token?: string})[]
}

/** Where a payment is now: in a block, in the mempool, or nowhere. */
export type Place = BlockRef | 'unconfirmed' | undefined

export interface LocalChain {
  /** The settings of an indexer that reads the chain through `source`, except where it begins. */
  environment: Record<string, string>
  source: Source
  /** A new address that was never paid, in display form. */
  newAddress(): string
  /**
   * Signs one transaction in an asset of its choice, without sending it. Either it or the one it replaces can be mined.
   */
  sign(outputs: Output[], insteadOf?: Payment): Promise<Payment>
  /** Sends it to the mempool, from which the next block takes it. */
  send(payment: Payment): Promise<void>
  /** Removes it from the mempool. */
  forget(payment: Payment): Promise<void>
  /** Mines this many blocks. The first takes the whole mempool. Resolves to the head. */
  mine(blocks?: number): Promise<BlockRef>
  /**
   * Replaces the newest `depth` blocks by as many others. They hold only `again`: payments by the index of their block,
   * 0 being the lowest. Other payments are gone, from the mempool too, and so are those that conflict with `again`.
   */
  reorg(depth: number, again?: Record<number, Payment[]>): Promise<BlockRef>
  head(): Promise<BlockRef>
  hashAt(height: number): Promise<string | undefined>
  places(payments: Payment[]): Promise<Place[]>
  /** The total that the current blocks pay to an address: base units of all assets together. */
  received(address: string): Promise<bigint>
  stop(): Promise<void>
}

export const faults = ['lags', 'repeats itself', 'returns nothing', 'fails', 'hangs', 'is of another network'] as const
export type Fault = (typeof faults)[number]

/**
 * Stands before the node, only for the indexer, and misbehaves on request:
 *     lags: shows the chain as it was when this began, like a node that gets no more blocks;
 *     repeats itself: repeats an earlier response to every second request, like a cache, or one of several nodes;
 *     returns nothing: returns empty results in the forms of its protocol;
 *     fails: sends errors, broken connections and half responses in turn, and sometimes a right response;
 *     hangs: gives no response at all;
 *     is of another network: names another network.
 */
export interface Source {
  /** Misbehaves like this from now on, or behaves well if absent; one that hung then ends its connections. */
  behave(fault?: Fault): Promise<void>
  /** Like a pruned node: from now on it has no blocks below this one, until it behaves in another way. */
  forget(below: number): Promise<void>
  /** Resolves after this many more requests. */
  asked(times: number): Promise<void>
}
