// The audit: the checks of the database (db/views/audit), the bytes of stored transactions, and a comparison of the
// ledger with the chains, a few addresses at a time (compare.ts). Promises: it changes nothing but its own record. What
// could not be compared is reported as not compared, neither right nor wrong. The database checks all see one moment,
// and wait for no node.
import type pg from 'pg'
import type {ChainSettings} from '../../chains/families.ts'
import {type ChainCode, chain as chainOf} from '../../chains/registry.ts'
import {compareAll} from './compare.ts'
import {auditFamilyOf} from './families.ts'
import {wrongBytes} from './stored-bytes.ts'

/** The number of examples that are stored for a failed check. */
const shown = 10
/** A pass over all addresses begins each day, and takes up to one. */
const staleDays = 3

/** The settings of each chain that has a node; the node is asked for balances. */
export type Nodes = ReadonlyMap<string, ChainSettings>

export interface Finding {
  name: string
  /** What must hold. */
  claim: string
  /** The number of things that break it. */
  count: number
  /** The first examples. */
  found: unknown[]
}

/** A check that could not be made. */
export interface NotCompared {
  name: string
  claim: string
  why: string
}

/** The comparison of all our addresses with their chain. */
export interface Compared {
  chain: ChainCode
  /** Every address handed out before this time was compared since; null before the first complete pass. */
  since: Date | null
  /** The number of addresses compared in the current pass, or in the last one. */
  compared: number
  finding?: Finding
  notCompared?: NotCompared
}

export interface Audit {
  findings: Finding[]
  notCompared: NotCompared[]
  compared: Compared[]
}

/** The progress of the comparison with a chain. */
export type OnCompared = (chain: ChainCode, done: number, total: number) => void

/**
 * Audits, and stores the findings. `db` does nothing else meanwhile, and has no time limit for a query. With
 * `onCompared`, every address is compared with its chain now; without it, the worker's findings count.
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

/** The known state of the comparison of all addresses with a chain. */
interface Comparison {
  /** Why the last try failed. */
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
  const {claim} = await auditFamilyOf(chainOf(chain))
  const why = hasNode ? (failure ?? whyIncomplete(known)) : 'it has no node'
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
