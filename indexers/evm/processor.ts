// Streams the blocks of an EVM chain into the store, driven by Subsquid's evm-processor. Promises: every block is read with all its transactions,
// receipts, logs, withdrawals and, if enabled, call traces. An incomplete block (whole.ts) is refused and read again.

import {EvmBatchProcessor} from '@subsquid/evm-processor'
import {setRootSink} from '@subsquid/logger'
import type {RpcClient} from '@subsquid/rpc-client'
import {RetryableError} from '../../base/errors.ts'
import type {Logger} from '../../base/log.ts'
import {openRpc} from '../../chains/evm/client.ts'
import type {EvmSettings} from '../../chains/evm/settings.ts'
import type {ReadBlock} from '../block.ts'
import type {ReaderOptions} from '../family.ts'
import {nodeErrors} from '../metrics.ts'
import {type FetchedBlock, type RpcWithdrawals, readWithdrawals, type StreamedBlock} from './block.ts'
import {fetchRange} from './catch-up.ts'
import {followBelievedHeads, type HeadSource} from './heads.ts'
import {protocolIncome} from './protocol-income.ts'
import {type FinalSource, Reading, readFinalPatiently} from './reading.ts'
import {sentIn, transfersOf} from './transfers.ts'
import {assertWhole} from './whole.ts'

const fields = {
  block: {timestamp: true, receiptsRoot: true, miner: true, baseFeePerGas: true},
  transaction: {
    hash: true,
    from: true,
    to: true,
    value: true,
    nonce: true,
    type: true,
    status: true,
    gasUsed: true,
    cumulativeGasUsed: true,
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
 * Follows the chain until the process ends. An error that is not the node's ends it (db/run-process.ts); the next start continues from what was
 * committed.
 */
export function runProcessor(
  settings: EvmSettings,
  {cursor, database, write, log}: Pick<ReaderOptions, 'cursor' | 'database' | 'write' | 'log'>,
): void {
  const {chain, traces} = settings
  const client = openStream(settings, attemptsOfStream)
  const processor = processorOf(settings, client, log).setFinalityConfirmation(chain.rollbackHorizonBlocks)
  const source = sourceOf(processor)
  const complete = (blocks: StreamedBlock[]) => completed(client, blocks, settings)
  const {rollbackHorizonBlocks: horizonBlocks, pollIntervalMs: intervalMs} = chain
  const reading = new Reading(cursor, log)
  followBelievedHeads(source, {client, horizonBlocks, intervalMs, complete, reading, log})
  if (traces === 'off') withLeanCatchUp(source, client)
  readFinalPatiently(source, complete, {reading, retryMs: intervalMs})

  processor.run(database, ({store, blocks}) => {
    const fetched = blocks as unknown as FetchedBlock[]
    return write(
      store,
      fetched.map(block => readBlock(block, settings)),
    )
  })
}

/**
 * The final blocks of these heights, read by the processor as if live with traces on. So calls inside transactions have the same output indexes
 * as before.
 */
export async function* readTraced(
  settings: EvmSettings,
  range: {from: number; to: number},
  log: Logger,
): AsyncIterable<ReadBlock[]> {
  const client = openStream(settings, 5)
  const processor = processorOf(settings, client, log).setFinalityConfirmation(0).setBlockRange(range)
  const {getBatchRequests} = processor as unknown as Internals
  try {
    for await (const {blocks} of sourceOf(processor).getFinalizedBlocks(getBatchRequests.call(processor), true)) {
      const fetched = await completed(client, blocks, settings)
      yield fetched.map(block => readBlock(block, settings))
    }
  } finally {
    client.close()
  }
}

/** A request that fails so often in a row, for some seconds, is told (reading.ts), and made again. */
const attemptsOfStream = 5

/** The connection of the stream. Its warnings go where those of evm-processor go (routeLogs). */
function openStream({rpcUrl}: EvmSettings, retryAttempts: number): RpcClient {
  return openRpc(rpcUrl!, {timeoutMs: 30_000, capacity: 10, retryAttempts, log: undefined})
}

function processorOf({chain, rpcUrl, traces}: EvmSettings, client: RpcClient, log: Logger) {
  routeLogs(log, chain.code)
  const processor = new EvmBatchProcessor()
    .setRpcEndpoint(rpcUrl!)
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
  Object.assign(processor, {getChainRpcClient: () => client}) // private in 1.27.3; its own client asks for batches that nodes refuse
  return processor
}

export function readBlock(block: FetchedBlock, {chain, tokens}: EvmSettings): ReadBlock {
  const {height, hash, parentHash, timestamp} = block.header
  const native = chain.assets[0].token
  const candidates = [...transfersOf(block, native, tokens), ...protocolIncome(block, native)]
  return {height, hash, parentHash, time: new Date(timestamp), candidates, sent: sentIn(block), spends: []}
}

/** Adds withdrawals to blocks that evm-processor itself fetched, and refuses an incomplete one. catch-up.ts has already done both. */
async function completed(client: RpcClient, blocks: StreamedBlock[], {traces}: EvmSettings): Promise<FetchedBlock[]> {
  const streamed = blocks.filter(block => !('withdrawals' in block))
  try {
    const responses: ((RpcWithdrawals & {hash?: string}) | null)[] = await client.batchCall(
      streamed.map(({header: {hash}}) => ({method: 'eth_getBlockByHash', params: [hash, false]})),
    )
    const added = new Map(
      streamed.map((block, i) => {
        const response = responses[i]
        if (response?.hash !== block.header.hash)
          throw new RetryableError(`the node has no block ${block.header.hash} any more`)
        const {withdrawals, withdrawalsRoot} = readWithdrawals(response)
        const fetched = {...block, withdrawals, header: {...block.header, withdrawalsRoot}}
        assertWhole(fetched, traces !== 'off')
        return [block, fetched]
      }),
    )
    return blocks.map(block => added.get(block) ?? (block as FetchedBlock))
  } catch (error) {
    throw Object.assign(error as Error, {__sqd_data_consistency_error: true}) // near the head, the processor then reads the block again
  }
}

// run() would serve its own metrics on a random port of every interface.
function withoutMetricsServer(processor: object): void {
  const silent = {addChainRpcMetrics() {}, addRunnerMetrics() {}, serve: async () => ({port: 0})}
  Object.assign(processor, {getPrometheusServer: () => silent}) // private in 1.27.3
}

// The interface between evm-processor's runner and its source of blocks; private in 1.27.3.
interface Internals {
  getHotDataSource(): HeadSource & FinalSource & {rpc: {props: object}}
  getBatchRequests(): {range: {from: number}}[]
}

// evm-processor finds out once whether the node has receipts by block, and takes any failure for a no: then it asks for each receipt alone, for ever.
function sourceOf(processor: object): HeadSource & FinalSource {
  const source = (processor as Internals).getHotDataSource()
  Object.assign(source.rpc.props, {getReceiptsMethod: async () => 'eth_getBlockReceipts'})
  return source
}

// Replaces the stage that fetches blocks below the rollback horizon (see catch-up.ts).
function withLeanCatchUp(source: HeadSource & FinalSource, client: RpcClient): void {
  const getFinalizedBlocks = async function* ([request]: {range: {from: number}}[]) {
    let from = request!.range.from
    for (let to = await source.getFinalizedHeight(); from <= to; to = await source.getFinalizedHeight()) {
      for await (const blocks of fetchRange(client, from, to)) {
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
    if (level >= 5) throw err // otherwise Subsquid would end the process with code 1; so it ends as with any other error
    if (level === 4) log.error(detail, msg)
    else if (level === 3) log.warn(detail, msg)
    else log.debug(detail, msg)
  })
}
