// Reads final blocks of an EVM chain again: with catch-up.ts if traces are off, otherwise with evm-processor.
import {PermanentError, RetryableError} from '../../base/errors.ts'
import {openRpc} from '../../chains/evm/client.ts'
import type {EvmSettings} from '../../chains/evm/settings.ts'
import type {ReadBlock} from '../block.ts'
import type {ChainCursor} from '../cursor.ts'
import {type HistoryOptions, type HistorySource, inSteps, type Link} from '../family.ts'
import {fetchRange} from './catch-up.ts'
import {Node} from './node.ts'
import {readBlock, readTraced} from './processor.ts'
import {viewOf} from './view.ts'

const linksPerStep = 500

export async function openHistory(settings: EvmSettings, {cursor, log}: HistoryOptions): Promise<HistorySource> {
  await assertSameTracer(cursor, settings)
  const url = settings.rpcUrl!
  const node = new Node(url, settings.chain.code)
  const {network, hashAt, lacks} = viewOf(node, settings)
  const client = openRpc(url, {timeoutMs: 30_000, capacity: 10, retryAttempts: 5})

  async function* links(from: number, to: number): AsyncIterable<Link[]> {
    for (const heights of inSteps(from, to, linksPerStep)) {
      const blocks = await node.blocks(heights)
      yield blocks.map((block, i) => {
        if (!block) throw new RetryableError(`the node has no block ${heights[i]}`)
        return block
      })
    }
  }

  async function* blocks(from: number, to: number): AsyncIterable<ReadBlock[]> {
    if (settings.traces !== 'off') yield* readTraced(settings, {from, to}, log)
    else for await (const batch of fetchRange(client, from, to)) yield batch.map(block => readBlock(block, settings))
  }

  return {
    network,
    hashAt,
    tokens: settings.tokens,
    links,
    blocks,
    lacks,
    async again(height) {
      for await (const [block] of blocks(height, height)) if (block) return block
      throw new RetryableError(`the node returned no block ${height}`)
    },
    async close() {
      node.close()
      client.close()
    },
  }
}

/** If internal calls were read before, reading without them would make all of them look gone. */
async function assertSameTracer(cursor: ChainCursor, {traces}: EvmSettings): Promise<void> {
  const tracer = await cursor.tracer()
  if (tracer === traces) return
  if (traces !== 'off') return await cursor.pinTracer(traces)
  if (tracer)
    throw new PermanentError(
      `${cursor.chain} was read with the tracer "${tracer}", and ${cursor.chain}_TRACES is off: set it to ${tracer} to read the chain again`,
    )
}
