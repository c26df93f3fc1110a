// The audit: the checks of the database (db/migrations/020_audit.sql), the bytes of stored transactions, and what the chains hold against the
// ledger. Promises: changes nothing but its own record; what could not be asked is told as not compared, and is neither right nor wrong; the
// checks of the database are all of one moment, and no node is waited for meanwhile.
import type pg from 'pg'
import {type ChainCode, findChain} from '../../chains/registry.ts'
import {RetryableError} from '../../service/errors.ts'
import type {ChainSettings} from '../../service/settings.ts'
import {holdingsThatDiffer} from './balances.ts'
import {outputsThatDiffer} from './outputs.ts'
import {wrongBytes} from './stored-bytes.ts'

/** So many of the things that break a check are kept. */
const shown = 10

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

export interface Audit {
  findings: Finding[]
  notCompared: NotCompared[]
}

/** Audits, and stores what was found. `db` does nothing else meanwhile, and has no time limit for a query. */
export async function audit(db: pg.Client, nodes: Nodes): Promise<Audit> {
  const {rows: runs} = await db.query<{run: string}>('select app.begin_audit() as run')
  const findings = await checkDatabase(db)
  const notCompared: NotCompared[] = []
  const {rows: cursors} = await db.query<{chain: ChainCode}>('select chain from chain.cursor order by chain')
  for (const {chain} of cursors) {
    const result = await compare(db, chain, nodes.get(chain))
    if ('why' in result) notCompared.push(result)
    else findings.push(result)
  }
  const why = notCompared.map(each => `${each.name}: ${each.why}`).join('; ') || null
  await db.query('select app.finish_audit($1, $2, $3)', [runs[0]!.run, JSON.stringify(findings), why])
  return {findings, notCompared}
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

async function compare(
  db: pg.Client,
  chain: ChainCode,
  node: ChainSettings | undefined,
): Promise<Finding | NotCompared> {
  const name = `on_chain_${chain.toLowerCase()}`
  const claim =
    findChain(chain)?.family === 'bitcoin'
      ? 'our unspent outputs on the chain are those of the ledger'
      : 'our addresses and the treasury hold on the chain what the ledger says'
  if (!node) return {name, claim, why: 'no node is named for it'}
  try {
    return finding(name, claim, await differences(db, chain, node))
  } catch (error) {
    if (error instanceof RetryableError) return {name, claim, why: error.message}
    throw error
  }
}

// The chain is asked a moment after the ledger was read. What went or came between the two is not different when both are looked at again.
async function differences(db: pg.Client, chain: ChainCode, node: ChainSettings): Promise<object[]> {
  const look = () => (node.family === 'bitcoin' ? outputsThatDiffer(db, node) : holdingsThatDiffer(db, chain, node))
  const first = await look()
  if (!first.size) return []
  return [...(await look())].filter(([what]) => first.has(what)).map(([, difference]) => difference)
}

function finding(name: string, claim: string, wrong: unknown[]): Finding {
  return {name, claim, count: wrong.length, found: wrong.slice(0, shown)}
}
