// Streams the blocks of an EVM chain into the store, driven by Subsquid's evm-processor. Promises: every block is read
// with all its transactions, receipts, logs, withdrawals and, if enabled, call traces. An incomplete block
// (verify-block.ts) is refused and read again.

import {EvmBatchProcessor} from '@subsquid/evm-processor'
import type {RpcClient} from '@subsquid/rpc-client'
import {RetryableError} from '../../base/errors.ts'
import type {Logger} from '../../base/log.ts'
import {openRpc} from '../../chains/evm/client.ts'
import type {EvmSettings} from '../../chains/evm/settings.ts'
import type {ReadBlock} from '../block.ts'
import type {ReaderOptions} from '../family.ts'
import {asInconsistent, type BlockSource, openSource, replace, routeLogs} from '../subsquid/source.ts'
import {type FetchedBlock, type RpcWithdrawals, readWithdrawals, type StreamedBlock} from './block.ts'
import {fetchRange} from './catch-up.ts'
import {followBelievedHeads} from './heads.ts'
import {protocolIncome} from './protocol-income.ts'
import {Reading, readFinalPatiently} from './reading.ts'
import {sentIn, transfersOf} from './transfers.ts'
import {verifyBlock} from './verify-block.ts'

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
 * Follows the chain until the process ends. An error that is not the node's ends it (db/client/run-process.ts); the
 * next start continues from what was committed.
 */
export function runProcessor(
  settings: EvmSettings,
  {cursor, database, write, log}: Pick<ReaderOptions, 'cursor' | 'database' | 'write' | 'log'>,
): void {
  const {chain, traces} = settings
  const client = openStream(settings, attemptsOfStream)
  const processor = processorOf(settings, log).setFinalityConfirmation(chain.rollbackHorizonBlocks)
  const {source} = openSource<StreamedBlock>(processor, client)
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
 * The final blocks of these heights, read by the processor as if live with traces on. So calls inside transactions have
 * the same output indexes as before.
 */
export async function* readTraced(
  settings: EvmSettings,
  range: {from: number; to: number},
  log: Logger,
): AsyncIterable<ReadBlock[]> {
  const client = openStream(settings, 5)
  const processor = processorOf(settings, log).setFinalityConfirmation(0).setBlockRange(range)
  const {source, requests} = openSource<StreamedBlock>(processor, client)
  try {
    for await (const {blocks} of source.getFinalizedBlocks(requests, true)) {
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

function processorOf({chain, rpcUrl, traces}: EvmSettings, log: Logger) {
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
  return processor
}

export function readBlock(block: FetchedBlock, {chain, tokens}: EvmSettings): ReadBlock {
  const {height, hash, parentHash, timestamp} = block.header
  const native = chain.assets[0].token
  const candidates = [...transfersOf(block, native, tokens), ...protocolIncome(block, native)]
  return {height, hash, parentHash, time: new Date(timestamp), candidates, sent: sentIn(block), spends: []}
}

/**
 * Adds withdrawals to blocks that evm-processor itself fetched, and refuses an incomplete one. catch-up.ts has already
 * done both.
 */
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
        verifyBlock(fetched, traces !== 'off')
        return [block, fetched]
      }),
    )
    return blocks.map(block => added.get(block) ?? (block as FetchedBlock))
  } catch (error) {
    throw asInconsistent(error) // near the head, the processor then reads the block again
  }
}

// Replaces the stage that fetches blocks below the rollback horizon (see catch-up.ts).
function withLeanCatchUp(source: BlockSource<StreamedBlock>, client: RpcClient): void {
  const getFinalizedBlocks: typeof source.getFinalizedBlocks = async function* ([request]) {
    let from = request!.range.from
    for (let to = await source.getFinalizedHeight(); from <= to; to = await source.getFinalizedHeight()) {
      for await (const blocks of fetchRange(client, from, to)) {
        from = blocks.at(-1)!.header.height + 1
        yield {blocks, isHead: from > to}
      }
    }
  }
  replace(source, {getFinalizedBlocks})
}
