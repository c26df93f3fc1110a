// Streams the blocks of an EVM chain into the store, driven by Subsquid's evm-processor. Promises: every block is read, with all its
// transactions, receipts, logs and, where they are on, call traces; an answer that contradicts itself (no transactions or logs where
// the header commits to some) is refused and read again.

import {setTimeout as sleep} from 'node:timers/promises'
import {EvmBatchProcessor} from '@subsquid/evm-processor'
import {setRootSink} from '@subsquid/logger'
import type {RpcClient} from '@subsquid/rpc-client'
import {getAddress} from 'viem'
import {RetryableError} from '../../service/errors.ts'
import type {Logger} from '../../service/log.ts'
import type {ChainSettings} from '../../service/settings.ts'
import {type ReadBlock, writeBlocks} from '../match.ts'
import type {ChainDatabase} from '../store.ts'
import {fetchRange} from './catch-up.ts'
import {type EvmFrame, type EvmLog, type EvmTransaction, transfersOf} from './transfers.ts'

/** Root of the trie of no transactions. */
const noTransactionsRoot = '0x56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421'
const noLogsBloom = `0x${'0'.repeat(512)}`

const fields = {
  block: {timestamp: true, transactionsRoot: true, logsBloom: true},
  transaction: {hash: true, from: true, to: true, value: true, status: true},
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

interface ReadEvmBlock {
  header: {
    height: number
    hash: string
    parentHash: string
    timestamp: number
    transactionsRoot: string
    logsBloom: string
  }
  transactions: EvmTransaction[]
  logs: EvmLog[]
  traces: EvmFrame[]
}

/**
 * Follows the chain until the process ends: an error that cannot be retried ends it with code 1, and the next start goes on from what
 * was committed.
 */
export function runProcessor(settings: ChainSettings, rpcUrl: string, database: ChainDatabase, log: Logger): void {
  routeLogs(log)
  const {chain, tokens, stallTimeoutMs, traces} = settings
  const processor = new EvmBatchProcessor()
    .setRpcEndpoint({url: rpcUrl, capacity: 10, maxBatchCallSize: 100, requestTimeout: 30_000})
    .setRpcDataIngestionSettings({
      headPollInterval: chain.pollIntervalMs,
      newHeadTimeout: Math.floor(stallTimeoutMs / 2),
      preferTraceApi: traces === 'trace',
    })
    .setFinalityConfirmation(chain.rollbackHorizonBlocks)
    .setFields(fields)
    .includeAllBlocks()
    .addTransaction({})
    .addLog({})
  if (traces !== 'off') processor.addTrace({type: ['call', 'create', 'suicide']})
  withoutMetricsServer(processor)
  if (traces === 'off') withLeanCatchUp(processor)
  withPresentHead(processor, chain.pollIntervalMs, log)

  processor.run(database, async ({store, blocks}) => {
    const read = (blocks as unknown as ReadEvmBlock[]).map(block => readBlock(block, chain.assets[0].token, tokens))
    await writeBlocks(store, read, {chain: chain.code, display: getAddress})
  })
}

function readBlock(block: ReadEvmBlock, native: string, tokens: Map<string, string>): ReadBlock {
  const {height, hash, parentHash, timestamp, transactionsRoot, logsBloom} = block.header
  if (
    (block.transactions.length === 0 && transactionsRoot !== noTransactionsRoot) ||
    (block.logs.length === 0 && logsBloom !== noLogsBloom)
  ) {
    throw new RetryableError(`the node left out transactions or logs of block ${height} (${hash})`)
  }
  return {height, hash, parentHash, time: new Date(timestamp), candidates: transfersOf(block, native, tokens)}
}

// run() would serve metrics of its own on a random port of every interface; ours come from the database.
function withoutMetricsServer(processor: object): void {
  const silent = {addChainRpcMetrics() {}, addRunnerMetrics() {}, serve: async () => ({port: 0})}
  Object.assign(processor, {getPrometheusServer: () => silent}) // private in 1.27.3
}

// The seam between evm-processor's runner and where it gets its blocks from; private in 1.27.3.
interface Internals {
  getHotDataSource(): {getFinalizedHeight(): Promise<number>; subscribeNewHeads(): Heads}
  getChainRpcClient(): RpcClient
}

interface Heads {
  isClosed(): boolean
  peek(): unknown
  forcePut(head: {height: number; hash: string}): void
}

// A subscription tells of the next head only, and not of what passes while it is set up again. So the present head is asked for as well.
function withPresentHead(processor: object, intervalMs: number, log: Logger): void {
  const {getHotDataSource, getChainRpcClient} = processor as Internals
  const source = getHotDataSource.call(processor)
  const subscribe = source.subscribeNewHeads
  const ask = async (heads: Heads) => {
    for (; !heads.isClosed(); await sleep(intervalMs)) {
      try {
        const block = await getChainRpcClient.call(processor).call('eth_getBlockByNumber', ['latest', false])
        if (block && !heads.isClosed() && !heads.peek())
          heads.forcePut({height: Number(block.number), hash: block.hash})
      } catch (error) {
        log.warn({error: (error as Error).message}, 'could not ask the node for its head')
      }
    }
  }
  const subscribeNewHeads = () => {
    const heads = subscribe.call(source)
    void ask(heads)
    return heads
  }
  Object.assign(source, {subscribeNewHeads})
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

function routeLogs(log: Logger): void {
  setRootSink(({level, msg, ns, err, time: _, ...rest}) => {
    const detail = {subsquid: ns, ...rest, ...(err ? {error: String((err as Error).message ?? err)} : {})}
    if (level >= 4)
      log.error(detail, msg ?? 'the stream of blocks broke off; a new start goes on from what was committed')
    else if (level === 3) log.warn(detail, msg)
    else log.debug(detail, msg)
  })
}
