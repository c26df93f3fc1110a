// The runs of a reindex (app.reindex): the blocks to read again, and the progress. Promises: only final blocks are
// read. Only a chain's newest run can be resumed.
import {PermanentError} from '../../base/errors.ts'
import type {Query} from '../look-up.ts'

export interface Run extends Place {
  /** Empty before the run has begun. */
  id: string
  from: number
  to: number
}

/** Where the run continues. */
export interface Place {
  next: number
  /** The hash of the block below; null if nothing was read yet. */
  lastHash: string | null
}

interface Differences {
  added: number
  removed: number
  changed: number
}

/** The result of a run. */
export interface Reindexed extends Differences {
  from: number
  to: number
  /** The number of this chain's incidents that were opened since the run began and are still open. */
  incidents: number
}

export function plan(chain: string, final: number, {from, to = final}: {from: number; to?: number | undefined}): Run {
  if (to > final)
    throw new PermanentError(
      `block ${to} of ${chain} is above the final one (${final}), and only final blocks are read again;` +
        ' to read newer blocks again, use sluice chain rewind',
    )
  if (from > final)
    throw new PermanentError(
      `block ${from} of ${chain} is above the final one (${final}), and only final blocks are read again: begin below it`,
    )
  if (from > to) throw new PermanentError(`there are no blocks from ${from} to ${to}: --from is above --to`)
  if (from < 1) throw new PermanentError('block 0 pays no address; begin with --from 1')
  return {id: '', from, to, next: from, lastHash: null}
}

/** The newest run of a chain, if it is unfinished. */
export async function lastRun(query: Query, chain: string): Promise<Run> {
  const [run] = await query<Run & {isDone: boolean}>(
    `select id, from_height as "from", to_height as "to", next_height as next, last_hash as "lastHash", finished_at is not null as "isDone"
       from app.reindex where chain = $1 order by id desc limit 1`,
    [chain],
  )
  if (run && !run.isDone) return run
  throw new PermanentError(
    run
      ? `the last run of ${chain}, from ${run.from} to ${run.to}, is done; begin another run with --from HEIGHT`
      : `${chain} was never read again, so there is nothing to resume; begin a run with --from HEIGHT`,
  )
}

export async function begin(query: Query, chain: string, {from, to}: Run): Promise<Run> {
  const [run] = await query<{id: string}>(
    'insert into app.reindex (chain, from_height, to_height, next_height) values ($1, $2, $3, $2) returning id',
    [chain, from, to],
  )
  return {id: run!.id, from, to, next: from, lastHash: null}
}

/** Runs in the transaction that writes the differences. */
export async function noteProgress(
  query: Query,
  {id}: Run,
  {next, lastHash}: Place,
  found: Differences,
): Promise<void> {
  await query(
    `update app.reindex set next_height = $2, last_hash = $3, added = added + $4, removed = removed + $5, changed = changed + $6
     where id = $1`,
    [id, next, lastHash, found.added, found.removed, found.changed],
  )
}

export async function finish(query: Query, {id}: Run): Promise<Reindexed> {
  const [result] = await query<Reindexed>(
    `with done as (
         update app.reindex set finished_at = coalesce(finished_at, clock_timestamp()) where id = $1 returning *
       )
       select from_height as "from", to_height as "to", added, removed, changed, (
         select count(*)::int from app.incident i where i.chain = done.chain and i.opened_at >= done.started_at and i.resolved_at is null
       ) as incidents from done`,
    [id],
  )
  return result!
}
