// The inside of evm-processor: its source of blocks, whose parts can be replaced, and what it must not do by itself.
// README.md lists what is private.

import {AssertionError} from 'node:assert'
import {AsyncLocalStorage} from 'node:async_hooks'
import type {EvmBatchProcessor} from '@subsquid/evm-processor'
import {setRootSink} from '@subsquid/logger'
import type {RpcClient} from '@subsquid/rpc-client'
import type {Logger} from '../../base/log.ts'
import type {BlockRef} from '../cursor.ts'
import {nodeErrors} from '../metrics.ts'

/** What blocks are wanted from which height on. */
export interface BatchRequest {
  range: {from: number}
}

/** Where blocks come from; `Block` is one with the fields that were asked for. */
export interface BlockSource<Block> {
  /** The height N blocks below the head. Blocks above it can be undone. */
  getFinalizedHeight(): Promise<number>
  /** Blocks below the rollback horizon. */
  getFinalizedBlocks(requests: BatchRequest[], stopOnHead?: boolean): AsyncIterable<{blocks: Block[]}>
  /**
   * Follows the head from a place, with `subscription`, or with `polling` if the connection has no notifications, until
   * they resolve.
   */
  processHotBlocks(
    requests: BatchRequest[],
    from: Place,
    write: (update: Update<Block>) => Promise<void>,
  ): Promise<void>
  subscription(navigate: Navigate): Promise<void>
  polling(navigate: Navigate): Promise<void>
  subscribeNewHeads(): {take(): Promise<BlockRef | Error | undefined>}
}

interface Place {
  height: number
  top: {height: number}[]
}

interface Update<Block> {
  blocks: Block[]
  baseHead: {height: number}
}

/**
 * Reads the blocks up to a head and writes them. Rejects with a consistency error if the node contradicts itself; the
 * node is then asked again.
 */
export type Navigate = (head: BlockRef) => Promise<void>

/** Private in evm-processor. */
interface Internals<Block> {
  getPrometheusServer(): unknown
  getChainRpcClient(): RpcClient
  /** The same object each time. */
  getHotDataSource(): BlockSource<Block> & {rpc: {props: {getReceiptsMethod(): Promise<string>}}}
  getBatchRequests(): BatchRequest[]
}

/** The source of a processor that is set up, with the requests for its blocks. Both are asked through `client`. */
export function openSource<Block>(
  processor: EvmBatchProcessor<object>,
  client: RpcClient,
): {source: BlockSource<Block>; requests: BatchRequest[]} {
  const inside = processor as unknown as Internals<Block>
  Object.assign(processor, {
    getChainRpcClient: () => client, // its own asks for batches that nodes refuse
    // run() would serve its metrics on a random port of every interface.
    getPrometheusServer: () => ({addChainRpcMetrics() {}, addRunnerMetrics() {}, serve: async () => ({port: 0})}),
  } satisfies Partial<Internals<Block>>)
  const source = inside.getHotDataSource()
  // It finds out once whether the node has receipts by block, and takes any failure for a no: then it asks for each
  // receipt alone, for ever.
  Object.assign(source.rpc.props, {getReceiptsMethod: async () => 'eth_getBlockReceipts'})
  return {source, requests: inside.getBatchRequests()}
}

/** Its parts are asked from now on as these say. */
export function replace<Block>(source: BlockSource<Block>, parts: Partial<BlockSource<Block>>): void {
  Object.assign(source, parts)
}

const inconsistency = '__sqd_data_consistency_error'

/** The same error, after which evm-processor reads the block again. */
export const asInconsistent = (error: unknown): Error => Object.assign(error as Error, {[inconsistency]: true})

/** Whether evm-processor says that the node contradicted itself: it is asked again. */
export const isInconsistent = (error: unknown): boolean => error instanceof Error && inconsistency in error

/** Whether it asserts that a fork is no deeper than it can undo. */
export const isTooDeepFork = (error: unknown): boolean =>
  error instanceof AssertionError && /util-internal-ingest-tools/.test(error.stack ?? '')

/** Its log is one for the process; several chains may be followed in it. */
const logs = new AsyncLocalStorage<{log: Logger; chain: string}>()

/**
 * Its log, of what is started from here on, becomes ours. What it ends the process for is thrown instead, so that the
 * process ends as with any other error.
 */
export function routeLogs(log: Logger, chain: string): void {
  const here = {log, chain}
  logs.enterWith(here)
  setRootSink(({level, msg, ns, err, time: _, ...rest}) => {
    const {log, chain} = logs.getStore() ?? here
    const detail = {subsquid: ns, ...rest, ...(err ? {error: String((err as Error).message ?? err)} : {})}
    if (level >= 3) nodeErrors.inc({chain})
    if (level >= 5) throw err
    if (level === 4) log.error(detail, msg)
    else if (level === 3) log.warn(detail, msg)
    else log.debug(detail, msg)
  })
}
