// The final blocks of a chain, read again from a source that also follows it.
import {RetryableError} from '../base/errors.ts'
import type {ReadBlock} from './block.ts'
import {type HistorySource, inSteps, type Link} from './family.ts'

const linksPerStep = 100

/** What such a source has besides following. */
interface Source extends Pick<HistorySource, 'network' | 'hashAt' | 'lacks'> {
  links(heights: number[]): Promise<Link[]>
  blocksAbove(height: number, limit: number): Promise<ReadBlock[]>
  block(height: number): Promise<ReadBlock>
}

export function historyOf(source: Source): HistorySource {
  async function* links(from: number, to: number): AsyncIterable<Link[]> {
    for (const heights of inSteps(from, to, linksPerStep)) yield await source.links(heights)
  }
  async function* blocks(from: number, to: number): AsyncIterable<ReadBlock[]> {
    for (let next = from; next <= to; ) {
      const found = await source.blocksAbove(next - 1, to - next + 1)
      if (!found.length) throw new RetryableError(`the node shows no block ${next}`)
      yield found
      next = found.at(-1)!.height + 1
    }
  }
  return {
    network: () => source.network(),
    hashAt: height => source.hashAt(height),
    lacks: height => source.lacks(height),
    links,
    blocks,
    again: height => source.block(height),
    async close() {},
  }
}
