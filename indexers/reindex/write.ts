// One transaction of a reindex: makes the stored data of some final blocks agree with the blocks. Promises: only the
// difference is written, together with the run's progress. If stored data would be deleted or changed in a block that
// was not read twice, nothing is written.
import type pg from 'pg'
import {PermanentError} from '../../base/errors.ts'
import type {ReadBlock} from '../block.ts'
import {confirmedTxsIn, noteMoved} from '../confirmed-txs.ts'
import type {HistorySource} from '../family.ts'
import {lookUp, type Query} from '../look-up.ts'
import {noteMined, transfersIn} from '../match.ts'
import type {Anchor} from './anchor.ts'
import {noteProgress, type Place, type Run} from './runs.ts'

export interface Target {
  /** The connection that writes. */
  db: pg.Client
  query: Query
  chain: string
  source: HistorySource
  /** Turns a match key into the address's display form. */
  display: (address: string) => string
  anchor: Anchor
}

/**
 * Resolves to the heights where stored data would be deleted or changed and the block is not confirmed; if there are
 * any, nothing was written.
 */
export async function write(
  to: Target,
  run: Run,
  blocks: ReadBlock[],
  next: Place,
  confirmed: ReadonlySet<number>,
): Promise<number[]> {
  const {db, query, chain} = to
  const found = await lookUp(query, chain, blocks)
  await db.query('begin')
  try {
    await to.anchor.hold('for update')
    const wanted = await withStoredTokens(to, transfersIn(blocks, found, to))
    const transfers = await correctRows(to, 'transfers', blocks, wanted)
    const ours = await confirmedTxsIn(query, blocks, found, to)
    const confirmedTxs = await correctRows(to, 'confirmed_txs', blocks, ours)
    const doubtful = [...transfers.heights, ...confirmedTxs.heights].filter(height => !confirmed.has(height))
    if (doubtful.length) {
      await db.query('rollback')
      return [...new Set(doubtful)]
    }
    const added = new Set(transfers.added)
    await noteMined(query, chain, blocks, id => added.has(id))
    await noteMoved(query, blocks, ours, to)
    await noteProgress(query, run, next, {
      added: transfers.added.length + confirmedTxs.added.length,
      removed: transfers.removed + confirmedTxs.removed,
      changed: transfers.changed + confirmedTxs.changed,
    })
    await db.query('commit')
    return []
  } catch (error) {
    await db.query('rollback').catch(() => {})
    throw error
  }
}

async function correctRows(
  {query, chain}: Target,
  what: 'transfers' | 'confirmed_txs',
  blocks: ReadBlock[],
  rows: object[],
): Promise<Corrected> {
  const [corrected] = await query<Corrected>(`select * from chain.correct_${what}($1, $2, $3, $4)`, [
    chain,
    blocks[0]!.height,
    blocks.at(-1)!.height,
    JSON.stringify(rows.map(inColumns)),
  ])
  return corrected!
}

/**
 * A row may name a token by its contract, because the token was not in the settings then. The row stays so: adding a
 * token to the settings credits nothing. In the opposite case an operator added the token to the service; or a setting
 * is missing, and every deposit of the token would seem to have disappeared.
 */
async function withStoredTokens<T extends {id: string; token: string; blockHeight: number}>(
  {query, chain, source}: Target,
  rows: T[],
): Promise<T[]> {
  if (!rows.length) return rows
  const stored = await query<{id: string; token: string; isAdded: boolean; isForgotten: boolean}>(
    `select t.id, t.token, (t.token, w.token) in (select token, contract from app.token where chain = $3) as "isAdded",
         t.token in (select token from app.asset where chain = $3)
         and w.token not in (select token from app.asset where chain = $3) as "isForgotten"
       from unnest($1::text[], $2::text[]) w (id, token)
       cross join lateral (select * from chain.transfer t where t.id = w.id offset 0) t where t.token <> w.token`,
    [rows.map(({id}) => id), rows.map(({token}) => token), chain],
  )
  const storedAs = new Map(stored.map(row => [row.id, row]))
  return rows.map(row => {
    const before = storedAs.get(row.id)
    if (!before) return row
    if (before.isAdded || source.tokens?.get(before.token) === row.token) return {...row, token: before.token}
    if (before.isForgotten)
      throw new PermanentError(
        `block ${row.blockHeight} of ${chain} moves ${row.token}, which is stored as ${before.token}, but the settings here do not name that token;` +
          ` set ${chain}_${before.token}_CONTRACT to the same value as for the service`,
      )
    return row
  })
}

interface Corrected {
  added: string[]
  removed: number
  changed: number
  heights: number[]
}

function inColumns(row: object): object {
  const columns = Object.entries(row).map(([name, value]) => [
    name.replace(/[A-Z]/g, letter => `_${letter.toLowerCase()}`),
    typeof value === 'bigint' ? value.toString() : value,
  ])
  return Object.fromEntries(columns)
}
