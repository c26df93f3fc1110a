// Compares every address that was handed out with its chain, in batches: a missed payment may be at an address where
// nothing was ever seen. Promises: at most one pass over all addresses a day. The node is busy for no more than a
// quarter of the time. Findings and progress are written in one transaction (app.record_comparison), so after a crash a
// batch is simply repeated. Two workers at once find the same, and the position moves once. A difference counts when
// two observations find it.
import type pg from 'pg'
import {RetryableError} from '../../base/errors.ts'
import type {ChainSettings} from '../../chains/families.ts'
import {auditFamilyOf} from './families.ts'
import type {Asked, Difference, Observation} from './observation.ts'

/** Compares the next addresses if they are due. Resolves to why the chain could not be compared. */
export async function compareDue(db: pg.Client, settings: ChainSettings): Promise<string | undefined> {
  const chain = settings.chain.code
  const {rows} = await db.query<{after: string | null}>('select app.due_comparison($1) as after', [chain])
  if (rows[0]!.after === null) return
  return await orWhy(db, settings, asked => compareNext(db, settings, asked, rows[0]!.after!))
}

/** Compares all addresses. Resolves to why the chain could not be compared. */
export async function compareAll(
  db: pg.Client,
  settings: ChainSettings,
  onProgress: (done: number, total: number) => void,
): Promise<string | undefined> {
  const chain = settings.chain.code
  return await orWhy(db, settings, async asked => {
    const total = await countAddresses(db, chain)
    await db.query('select app.begin_comparison($1)', [chain])
    for (let at = await positionOf(db, chain); at.position !== null; at = await positionOf(db, chain)) {
      onProgress(at.compared, total)
      await compareNext(db, settings, asked, at.position)
    }
    onProgress(total, total)
  })
}

/** Asks the chain, and records it if the chain does not respond. */
async function orWhy(
  db: pg.Client,
  settings: ChainSettings,
  work: (asked: Asked) => Promise<void>,
): Promise<string | undefined> {
  const asked = (await auditFamilyOf(settings)).ask(db, settings)
  try {
    await work(asked)
  } catch (error) {
    if (!(error instanceof RetryableError)) throw error
    await db.query('select app.fail_comparison($1, $2)', [settings.chain.code, error.message])
    return error.message
  } finally {
    await asked.close()
  }
}

interface Address {
  matchKey: string
  address: string
  handedOutAt: Date
  /** The height at which the address was last right; null if it was never compared. */
  knownRightAt: number | null
}

async function compareNext(db: pg.Client, settings: ChainSettings, asked: Asked, after: string): Promise<void> {
  const chain = settings.chain.code
  const began = performance.now()
  const {rows} = await db.query<Address>(
    `select match_key as "matchKey", address, handed_out_at as "handedOutAt", known_right_at as "knownRightAt"
     from app.addresses_to_compare($1, $2, $3)`,
    [chain, after, asked.batch],
  )
  const addresses = rows.map(({address}) => address)
  const {differences, unread, height} = await observeTwice(db, chain, asked, addresses)
  const since = await heightsBelow(asked, rows, differences)
  const {claim} = await auditFamilyOf(settings)
  const found = differences.map(({address, token, outpoint, ledger, chain: on_chain, height}) => {
    const row = rows.find(row => row.address === address)!
    const amounts = {ledger: String(ledger), on_chain: String(on_chain)}
    return {address, token, outpoint, ...amounts, from_height: height ?? since.get(row), handed_out_at: row.handedOutAt}
  })
  await db.query(`select app.record_comparison($1, $2, $3, $4, $5, $6, $7, $8, $9 * interval '1 millisecond')`, [
    chain,
    claim,
    after,
    rows.at(-1)?.matchKey ?? null,
    addresses,
    JSON.stringify(found),
    unread[0] ?? null,
    height,
    performance.now() - began,
  ])
}

// The chain is asked a moment after the ledger was read. A payment in between is no longer a difference at the second
// observation.
async function observeTwice(db: pg.Client, chain: string, asked: Asked, addresses: string[]): Promise<Observation> {
  const poll = async (some: string[]) => {
    const {rows} = await db.query<{why: string | null}>('select app.why_not_comparable($1) as why', [chain])
    if (rows[0]!.why) throw new RetryableError(rows[0]!.why)
    return await asked.poll(some)
  }
  const keyOf = ({address, token, outpoint}: Difference) => `${address} ${token} ${outpoint}`
  const first = await poll(addresses)
  if (!first.differences.length) return first
  const keys = new Set(first.differences.map(keyOf))
  const second = await poll([...new Set(first.differences.map(({address}) => address))])
  return {
    height: first.height,
    differences: second.differences.filter(each => keys.has(keyOf(each))),
    unread: [...first.unread, ...second.unread],
  }
}

/**
 * For addresses where the ledger lacks something: a height at or below the missing block. There, the address was right
 * or not handed out yet.
 */
async function heightsBelow(
  asked: Asked,
  rows: Address[],
  differences: Difference[],
): Promise<Map<Address, number | undefined>> {
  const missing = new Set(differences.filter(each => each.chain > each.ledger).map(({address}) => address))
  const concerned = rows.filter(({address}) => missing.has(address))
  const never = concerned.filter(({knownRightAt}) => knownRightAt === null)
  const oldest = never.map(({handedOutAt}) => handedOutAt.getTime()).sort((a, b) => a - b)[0]
  const handedOut = oldest === undefined ? undefined : await asked.heightAt(new Date(oldest))
  return new Map(concerned.map(row => [row, row.knownRightAt === null ? handedOut : row.knownRightAt + 1]))
}

async function positionOf(db: pg.Client, chain: string): Promise<{position: string | null; compared: number}> {
  const {rows} = await db.query<{position: string | null; compared: number}>(
    'select position, compared::int as compared from app.comparison where chain = $1',
    [chain],
  )
  return rows[0]!
}

async function countAddresses(db: pg.Client, chain: string): Promise<number> {
  const {rows} = await db.query<{count: number}>('select count(*)::int as count from app.address where chain = $1', [
    chain,
  ])
  return rows[0]!.count
}
