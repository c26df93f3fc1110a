// The anchor: the final block that proves that a source is on the stored chain. Promises: nothing is read from another
// chain or written for it, nor while our chain is halted or due for a rewind. If a node no longer has old blocks, the
// error says so, with the lowest block that it has.
import {PermanentError, RetryableError} from '../../base/errors.ts'
import type {BlockRef} from '../cursor.ts'
import type {HistorySource} from '../family.ts'
import type {Query} from '../look-up.ts'

interface Of {
  query: Query
  chain: string
  source: HistorySource
}

/** Proves the chain: asks the node for the block that is final here. */
export async function openAnchor(of: Of): Promise<Anchor> {
  const at = await readCursor(of)
  await assertSameChain(of, at)
  return new Anchor(of.query, of.chain, at.final)
}

export class Anchor {
  readonly #query: Query
  readonly #chain: string
  /** A final block of the proven chain. */
  final: BlockRef

  constructor(query: Query, chain: string, final: BlockRef) {
    this.#query = query
    this.#chain = chain
    this.final = final
  }

  /**
   * Moves the anchor to the current final block, because only the newest final blocks are stored. Throws unless the
   * chain is still the proven one and may be written to.
   */
  async hold(lock: '' | 'for update'): Promise<void> {
    const chain = this.#chain
    const [at] = await this.#query<BlockRef & Going>(
      `select final_height as height, final_hash as hash, ${going}
       from chain.cursor where chain = $1 ${lock}`,
      [chain],
    )
    assertGoing(chain, at!)
    const [ours] = await this.#query<{hash: string}>('select hash from chain.block where chain = $1 and height = $2', [
      chain,
      this.final.height,
    ])
    if (at!.height < this.final.height || ours?.hash !== this.final.hash)
      throw new PermanentError(
        `${chain} was rewound during the run, and block ${this.final.height} is another one now; begin again once that block is final`,
      )
    this.final = {height: at!.height, hash: at!.hash}
  }
}

interface At {
  network: string
  final: BlockRef
}

async function readCursor({query, chain}: Of): Promise<At> {
  const [row] = await query<{network: string; height: number; hash: string} & Going>(
    `select network, final_height as height, final_hash as hash, ${going}
       from chain.cursor where chain = $1`,
    [chain],
  )
  if (!row) throw new PermanentError(`${chain} is not followed; sluice status shows the chains that are`)
  assertGoing(chain, row)
  return {network: row.network, final: {height: row.height, hash: row.hash}}
}

async function assertSameChain({source, chain}: Of, {network, final}: At): Promise<void> {
  const responded = await source.network().catch(error => {
    throw new RetryableError(
      `the node of ${chain} cannot be asked (${error.message}); check the node and the settings of ${chain}`,
    )
  })
  if (responded !== network)
    throw new PermanentError(
      `the node is on ${responded}, and ${chain} follows ${network}; check the settings of ${chain}`,
    )
  const hash = await source.hashAt(final.height)
  if (hash === undefined)
    throw new RetryableError(
      `the node is behind: it has no block ${final.height}, which is final here; try again later`,
    )
  if (hash !== final.hash)
    throw new PermanentError(
      `the node has another block ${final.height} (${hash}) than the one that is final here (${final.hash}); nothing was read:` +
        ' sluice status says whether the live indexer agrees with its node',
    )
}

/** Throws if the source does not have the lowest block, and says which block it has. */
export async function assertServed(source: HistorySource, lowest: number, final: BlockRef): Promise<void> {
  const why = lowest > final.height ? undefined : await source.lacks(lowest)
  if (why === undefined) return
  const whyFinal = await source.lacks(final.height)
  if (whyFinal !== undefined)
    throw new RetryableError(
      `the node cannot return block ${final.height}, which is final here (${whyFinal}); check the node`,
    )
  let [lacking, served] = [lowest, final.height]
  while (served - lacking > 1) {
    const middle = Math.floor((lacking + served) / 2)
    if ((await source.lacks(middle)) === undefined) served = middle
    else lacking = middle
  }
  throw new PermanentError(
    `the node no longer has block ${lowest} (${why}); its lowest block is ${served}: use --from ${served},` +
      ' or name an archive node',
  )
}

interface Going {
  /** Why the chain is halted and what to do about it; null if it is not halted. */
  halted: string | null
  rewind: boolean
}

const going = 'case when halted_at is not null then app.way_out(chain) end as halted, rewind_to is not null as rewind'

function assertGoing(chain: string, {halted, rewind}: Going): void {
  if (halted !== null) throw new PermanentError(`${chain} is halted: ${halted}`)
  if (rewind)
    throw new PermanentError(`${chain} is about to be rewound; wait until sluice status shows that it is read again`)
}
