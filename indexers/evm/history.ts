// The final blocks of an EVM chain, read once more: by the lean stage where traces are off, else as evm-processor reads them.
import {RetryableError} from '../../base/errors.ts'
import type {Logger} from '../../base/log.ts'
import {openRpc} from '../../chains/evm/client.ts'
import type {EvmSettings} from '../../chains/evm/settings.ts'
import type {HistorySource, Link} from '../history.ts'
import type {ReadBlock} from '../match.ts'
import {fetchRange} from './catch-up.ts'
import {Node} from './node.ts'
import {readBlock, readTraced} from './processor.ts'
import {viewOf} from './view.ts'

const linksPerStep = 500

export function evmHistory(settings: EvmSettings, log: Logger): HistorySource {
  const url = settings.rpcUrl!
  const node = new Node(url)
  const {network, hashAt, lacks} = viewOf(node, settings)
  const client = openRpc(url, {timeoutMs: 30_000, capacity: 10, retryAttempts: 5})

  async function* links(from: number, to: number): AsyncIterable<Link[]> {
    for (let next = from; next <= to; next += linksPerStep) {
      const heights = Array.from({length: Math.min(linksPerStep, to - next + 1)}, (_, i) => next + i)
      const blocks = await node.blocks(heights)
      yield blocks.map((block, i) => {
        if (!block) throw new RetryableError(`the node has no block ${heights[i]}`)
        return block
      })
    }
  }

  async function* blocks(from: number, to: number): AsyncIterable<ReadBlock[]> {
    if (settings.traces !== 'off') yield* readTraced(settings, url, {from, to}, log)
    else for await (const batch of fetchRange(client, from, to)) yield batch.map(block => readBlock(block, settings))
  }

  return {
    network,
    hashAt,
    links,
    blocks,
    lacks,
    async again(height) {
      for await (const [block] of blocks(height, height)) if (block) return block
      throw new RetryableError(`the node gave no block ${height}`)
    },
    async close() {
      node.close()
      client.close()
    },
  }
}
