// The audit: the checks of the database (db/views/audit), the bytes of stored transactions, and what the chains hold against the
// ledger, which is compared some addresses at a time (compare.ts). Promises: changes nothing but its own record; what could not be asked is told
// as not compared, and is neither right nor wrong; the checks of the database are all of one moment, and no node is waited for meanwhile.
import type pg from 'pg'
import type {ChainSettings} from '../../chains/families.ts'
import {type ChainCode, chain as chainOf} from '../../chains/registry.ts'
import {compareAll} from './compare.ts'
import {auditFamilyOf} from './families.ts'
import {wrongBytes} from './stored-bytes.ts'

/** So many of the things that break a check are kept. */
const shown = 10
/** A pass over all addresses begins each day, and takes up to one. */
const staleDays = 3

/** Of each chain that has a node, which is asked what the chain holds. */
export type Nodes = ReadonlyMap<string, ChainSettings>

export interface Finding {
  name: string
  /** What must hold. */
  claim: string
  /** How many things break it. */
  count: number
  /** The first of them. */
  found: unknown[]
}

/** A check that could not be made. */
export interface NotCompared {
  name: string
  claim: string
  why: string
}

/** How every address of ours was compared with its chain. */
export interface Compared {
  chain: ChainCode
  /** Every address that was handed out before was compared since then; null before the first pass over all of them. */
  since: Date | null
  /** So many were compared in the pass that is under way, or was the last. */
  compared: number
  finding?: Finding
  notCompared?: NotCompared
}

export interface Audit {
  findings: Finding[]
  notCompared: NotCompared[]
  compared: Compared[]
}

/** How far the comparison with a chain is. */
export type OnCompared = (chain: ChainCode, done: number, total: number) => void

/**
 * Audits, and stores what was found. `db` does nothing else meanwhile, and has no time limit for a query. Where `onCompared` is given every
 * address is compared with its chain now; else what the worker found of them counts.
 */
export async function audit(db: pg.Client, nodes: Nodes, onCompared?: OnCompared): Promise<Audit> {
  const {rows: runs} = await db.query<{run: string}>('select app.begin_audit() as run')
  const findings = await checkDatabase(db)
  const compared: Compared[] = []
  const {rows: cursors} = await db.query<{chain: ChainCode}>('select chain from chain.cursor order by chain')
  for (const {chain} of cursors) {
    const node = nodes.get(chain)
    const failure = node && onCompared && (await compareAll(db, node, onCompared.bind(undefined, chain)))
    compared.push(await comparisonOf(db, chain, node !== undefined, failure))
  }
  findings.push(...compared.flatMap(({finding}) => finding ?? []))
  const notCompared = compared.flatMap(each => each.notCompared ?? [])
  const why = notCompared.map(each => `${each.name}: ${each.why}`).join('; ') || null
  await db.query('select app.finish_audit($1, $2, $3)', [runs[0]!.run, JSON.stringify(findings), why])
  return {findings, notCompared, compared}
}

async function checkDatabase(db: pg.Client): Promise<Finding[]> {
  await db.query('begin isolation level repeatable read read only')
  try {
    const {rows} = await db.query<Finding>('select name, claim, count::int, found from app.audit_checks()')
    return [...rows, finding('stored_bytes', 'the hash of each stored transaction is its txid', await wrongBytes(db))]
  } finally {
    await db.query('commit')
  }
}

/** What is known of the comparison of every address with a chain. */
interface Comparison {
  /** The last try failed, because of this. */
  error: string | null
  unread: string | null
  compared: number
  since: Date | null
  days: number
  count: number
  found: unknown[]
}

async function comparisonOf(db: pg.Client, chain: ChainCode, hasNode: boolean, failure?: string): Promise<Compared> {
  const {rows} = await db.query<Comparison>(
    `select p.error, p.unread, coalesce(p.compared, 0)::int as compared, p.since,
       (extract(epoch from app.comparison_age($1)) / 86400)::float8 as days, d.count::int, d.found
     from app.found_differences($1) d left join app.comparison p on p.chain = $1`,
    [chain],
  )
  const known = rows[0]!
  const {count, found, since, compared} = known
  const name = `on_chain_${chain.toLowerCase()}`
  const {claim} = auditFamilyOf(chainOf(chain))
  const why = hasNode ? (failure ?? whyIncomplete(known)) : 'no node is named for it'
  return {
    chain,
    since,
    compared,
    ...((count || !why) && {finding: {name, claim, count, found}}),
    ...(why && {notCompared: {name, claim, why}}),
  }
}

function whyIncomplete({error, unread, since, compared, days}: Comparison): string | undefined {
  if (error ?? unread) return (error ?? unread)!
  if (!since) return `the first pass over all addresses is under way; ${compared} are compared`
  if (days > staleDays) return `the oldest comparison is ${Math.floor(days)} days old`
}

function finding(name: string, claim: string, wrong: unknown[]): Finding {
  return {name, claim, count: wrong.length, found: wrong.slice(0, shown)}
}
