// Streams the blocks of an EVM chain into the store, driven by Subsquid's evm-processor. Promises: every block is read, with all its
// transactions, receipts, logs and, where they are on, call traces; an answer that contradicts itself (no transactions or logs where
// the header commits to some, a transaction without a trace) is refused and read again.

import {EvmBatchProcessor} from '@subsquid/evm-processor'
import {setRootSink} from '@subsquid/logger'
import type {RpcClient} from '@subsquid/rpc-client'
import {getAddress} from 'viem/utils'
import {RetryableError} from '../../service/errors.ts'
import type {Logger} from '../../service/log.ts'
import type {EvmSettings} from '../../service/settings.ts'
import {type ReadBlock, writeBlocks} from '../match.ts'
import {nodeErrors} from '../metrics.ts'
import type {ChainDatabase} from '../store.ts'
import {logsBloom} from './bloom.ts'
import {type FetchedBlock, fetchRange} from './catch-up.ts'
import {followBelievedHeads, type HeadSource} from './heads.ts'
import {sentIn, transfersOf} from './transfers.ts'

/** Root of the trie of no transactions. */
const noTransactionsRoot = '0x56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421'
const noLogsBloom = `0x${'0'.repeat(512)}`
/** Sender of the transactions by which Polygon takes over state from Ethereum; they are not traced. */
const nobody = `0x${'0'.repeat(40)}`

const fields = {
  block: {timestamp: true, transactionsRoot: true, logsBloom: true},
  transaction: {
    hash: true,
    from: true,
    to: true,
    value: true,
    nonce: true,
    status: true,
    gasUsed: true,
    effectiveGasPrice: true,
  },
  log: {address: true, topics: true, data: true},
  trace: {
    error: true,
    callCallType: true,
    callFrom: true,
    callTo: true,
    callValue: true,
    createFrom: true,
    createValue: true,
    createResultAddress: true,
    suicideAddress: true,
    suicideBalance: true,
    suicideRefundAddress: true,
  },
} as const

/**
 * Follows the chain until the process ends: an error that cannot be retried ends it with code 1, and the next start goes on from what
 * was committed.
 */
export function runProcessor(settings: EvmSettings, rpcUrl: string, database: ChainDatabase, log: Logger): void {
  const {chain, traces} = settings
  const processor = processorOf(settings, rpcUrl, log).setFinalityConfirmation(chain.rollbackHorizonBlocks)
  const {getHotDataSource, getChainRpcClient} = processor as unknown as Internals
  followBelievedHeads(getHotDataSource.call(processor), {
    chain: chain.code,
    client: getChainRpcClient.call(processor),
    horizonBlocks: chain.rollbackHorizonBlocks,
    intervalMs: chain.pollIntervalMs,
    log,
  })
  if (traces === 'off') withLeanCatchUp(processor)

  processor.run(database, async ({store, blocks}) => {
    const read = (blocks as unknown as FetchedBlock[]).map(block => readBlock(block, settings))
    await writeBlocks(store, read, {chain: chain.code, display: getAddress})
  })
}

/**
 * The blocks of these heights, which are final, as the processor reads them where traces are on, so that calls inside transactions have the same
 * numbers as ever.
 */
export async function* readTraced(
  settings: EvmSettings,
  rpcUrl: string,
  range: {from: number; to: number},
  log: Logger,
): AsyncIterable<ReadBlock[]> {
  const processor = processorOf(settings, rpcUrl, log, {retryAttempts: 5})
    .setFinalityConfirmation(0)
    .setBlockRange(range)
  const {getHotDataSource, getChainRpcClient, getBatchRequests} = processor as unknown as Internals
  try {
    const batches = getHotDataSource.call(processor).getFinalizedBlocks(getBatchRequests.call(processor), true)
    for await (const {blocks} of batches) yield blocks.map(block => readBlock(block, settings))
  } finally {
    getChainRpcClient.call(processor).close()
  }
}

function processorOf({chain, traces}: EvmSettings, url: string, log: Logger, more: {retryAttempts?: number} = {}) {
  routeLogs(log, chain.code)
  const processor = new EvmBatchProcessor()
    .setRpcEndpoint({url, capacity: 10, maxBatchCallSize: 100, requestTimeout: 30_000, ...more})
    .setRpcDataIngestionSettings({
      headPollInterval: chain.pollIntervalMs,
      preferTraceApi: traces === 'trace',
    })
    .setFields(fields)
    .includeAllBlocks()
    .addTransaction({})
    .addLog({})
  if (traces !== 'off') processor.addTrace({type: ['call', 'create', 'suicide']})
  withoutMetricsServer(processor)
  return processor
}

/** Throws RetryableError where it contradicts itself. */
export function readBlock(block: FetchedBlock, {chain, tokens, traces}: EvmSettings): ReadBlock {
  assertWhole(block, traces !== 'off')
  const {height, hash, parentHash, timestamp} = block.header
  const candidates = transfersOf(block, chain.assets[0].token, tokens)
  const assertComplete = () => assertAllLogs(block)
  return {height, hash, parentHash, time: new Date(timestamp), candidates, sent: sentIn(block), assertComplete}
}

// What a node that lags, or has forgotten, leaves out of its answers must not look like a block without it.
function assertWhole({header, transactions, logs, traces}: FetchedBlock, isTraced: boolean): void {
  const refuse = (what: string) => leftOut(what, header)
  if (transactions.length === 0 && header.transactionsRoot !== noTransactionsRoot) refuse('the transactions')
  if (logs.length === 0 && header.logsBloom !== noLogsBloom) refuse('the logs')
  if (!isTraced) return
  const traced = new Set(traces.map(frame => frame.transactionIndex))
  const untraced = transactions.some(({transactionIndex, from}) => !traced.has(transactionIndex) && from !== nobody)
  if (untraced) refuse('call traces')
}

function assertAllLogs({header, logs}: FetchedBlock): void {
  if (logsBloom(logs) !== header.logsBloom.toLowerCase()) leftOut('some logs', header)
}

function leftOut(what: string, {height, hash}: FetchedBlock['header']): never {
  const error = new RetryableError(`the node left out ${what} of block ${height} (${hash})`)
  throw Object.assign(error, {__sqd_data_consistency_error: true}) // near the head, the processor then reads the block again
}

// run() would serve metrics of its own on a random port of every interface; ours come from the database.
function withoutMetricsServer(processor: object): void {
  const silent = {addChainRpcMetrics() {}, addRunnerMetrics() {}, serve: async () => ({port: 0})}
  Object.assign(processor, {getPrometheusServer: () => silent}) // private in 1.27.3
}

// The seam between evm-processor's runner and where it gets its blocks from; private in 1.27.3.
interface Internals {
  getHotDataSource(): HeadSource & {
    getFinalizedBlocks(requests: object[], stopOnHead?: boolean): AsyncIterable<{blocks: FetchedBlock[]}>
  }
  getChainRpcClient(): RpcClient
  getBatchRequests(): object[]
}

// Replaces the stage that fetches blocks below the rollback horizon (see catch-up.ts).
function withLeanCatchUp(processor: object): void {
  const {getHotDataSource, getChainRpcClient} = processor as Internals
  const source = getHotDataSource.call(processor)
  const getFinalizedBlocks = async function* ([request]: {range: {from: number}}[]) {
    let from = request!.range.from
    for (let to = await source.getFinalizedHeight(); from <= to; to = await source.getFinalizedHeight()) {
      for await (const blocks of fetchRange(getChainRpcClient.call(processor), from, to)) {
        from = blocks.at(-1)!.header.height + 1
        yield {blocks, isHead: from > to}
      }
    }
  }
  Object.assign(source, {getFinalizedBlocks})
}

function routeLogs(log: Logger, chain: string): void {
  setRootSink(({level, msg, ns, err, time: _, ...rest}) => {
    const detail = {subsquid: ns, ...rest, ...(err ? {error: String((err as Error).message ?? err)} : {})}
    if (level >= 3) nodeErrors.inc({chain})
    if (level >= 4)
      log.error(detail, msg ?? 'the stream of blocks broke off; a new start goes on from what was committed')
    else if (level === 3) log.warn(detail, msg)
    else log.debug(detail, msg)
  })
}
