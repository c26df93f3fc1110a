// What a family of chains offers for reading blocks once more that are final (reindex.ts).
import type {BlockRef} from './cursor.ts'
import type {ReadBlock} from './match.ts'

export interface Link extends BlockRef {
  parentHash: string
}

/** Every call settles within a timeout of its own, and rejects with RetryableError where the source fails. Nothing that it says is believed as it is. */
export interface HistorySource {
  /** CAIP-2 id of the network that it is on. */
  network(): Promise<string>
  /** The hash at a height; undefined where it has no block. */
  hashAt(height: number): Promise<string | undefined>
  /** Why it cannot give a block with everything that is read of it, in its words; undefined if it can. Rejects where it just fails. */
  lacks(height: number): Promise<string | undefined>
  /** What links the blocks of these heights, ascending, some at a time. */
  links(from: number, to: number): AsyncIterable<Link[]>
  /** The blocks of these heights, ascending, some at a time. */
  blocks(from: number, to: number): AsyncIterable<ReadBlock[]>
  /** The block of a height, asked anew, of another server where there are several. */
  again(height: number): Promise<ReadBlock>
  close(): Promise<void>
}
