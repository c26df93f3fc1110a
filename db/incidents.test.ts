// Each kind of incident has a way out that is written down once, and nothing else resolves it. The functions accept and
// refuse what app.incident_kind says, and docs/operations.md says the same.
import {readFileSync} from 'node:fs'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {ChainWriter} from '../test/support/chain-writer.ts'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'
import {makeMerchant, makeUser} from '../test/support/people.ts'

interface Kind {
  kind: string
  halts: boolean
  decisions: string[]
  way_out: string
}

let db: TestDatabase
let eth: ChainWriter
let kinds: Kind[]
let deposit: string

beforeAll(async () => {
  db = await testDatabase()
  const {address} = await makeUser(db, await makeMerchant(db))
  eth = await ChainWriter.open(db, 'ETH')
  await eth.write({add: [[{txid: 'gone', amount: 1n, recipient: address}]]})
  await eth.finalise(eth.head.height)
  await eth.query(`delete from chain.transfer`)
  deposit = (await db.rows<{id: string}>('select id from app.deposit'))[0]!.id
  await db.rows('delete from app.incident')
  kinds = await db.rows<Kind>('select * from app.incident_kind order by kind')
})

afterAll(async () => {
  await eth.close()
  await db.drop()
})

/** The error of each decision about a chain that an incident of this kind stops; undefined if it is accepted. */
async function refusals(
  {kind, halts}: Kind,
  decisions: Record<string, string>,
): Promise<Map<string, string | undefined>> {
  const client = await db.pool.connect()
  const found = new Map<string, string | undefined>()
  try {
    for (const [name, sql] of Object.entries(decisions)) {
      await client.query('begin')
      if (halts) await client.query(`update chain.cursor set halted_at = now() where chain = 'ETH'`)
      const {rows} = await client.query<{id: string}>(
        `insert into app.incident (chain, kind, subject, details) values ('ETH', $1, $2, '{}') returning id`,
        [kind, deposit],
      )
      await client.query(sql.replace('ID', rows[0]!.id)).then(
        () => found.set(name, undefined),
        (error: Error) => found.set(name, error.message),
      )
      await client.query('rollback')
    }
  } finally {
    client.release()
  }
  return found
}

test('each kind has its own ways to resolve it; any other is refused with the right ones', async () => {
  for (const each of kinds) {
    const decisions = {
      kept: `select app.resolve_incident(ID, 'kept')`,
      reorged: `select app.resolve_incident(ID, 'reorged')`,
      ...(each.halts && {resume: `select app.resume_chain('ETH')`, rewind: `select app.request_rewind('ETH', 0)`}),
    }
    for (const [decision, refusal] of await refusals(each, decisions)) {
      if (each.decisions.includes(decision))
        expect([each.kind, decision, refusal]).toEqual([each.kind, decision, undefined])
      else expect(refusal).toContain(each.way_out.slice(0, each.way_out.search(/[{]|$/)))
    }
  }
})

test('a chain continues only when no incident that halts it is open', async () => {
  const state = async () =>
    (
      await db.rows(
        `select halted_at is not null as halted, w.reason, w.way_out from chain.cursor c left join app.standstill w using (chain) where chain = 'ETH'`,
      )
    )[0]
  await db.rows(`select chain.halt('ETH', '{}')`)
  await db.rows(`select custody.halt_chain('ETH', 'an older copy')`)
  await expect(db.rows(`select app.resume_chain('ETH')`)).rejects.toThrow(
    /ETH is halted by incident \d+ \(journal_ahead\), which a resume does not resolve: .*sluice custody reconcile/,
  )
  expect(await state()).toMatchObject({halted: true, reason: 'journal_ahead'})
  await db.rows(`update app.incident set resolved_at = now(), resolution = 'reconciled' where kind = 'journal_ahead'`)
  expect(await state()).toMatchObject({halted: true, reason: 'fork_below_final'})
  await db.rows(`select app.request_rewind('ETH', 0)`)
  await db.rows(`select custody.halt_chain('ETH', 'an older copy')`)
  await db.rows(`select chain.rewind('ETH', 0, '0x0')`)
  expect(await state()).toMatchObject({halted: true, reason: 'journal_ahead'})
  await db.rows(`update app.incident set resolved_at = now(), resolution = 'reconciled' where kind = 'journal_ahead'`)
  await db.rows(`select app.resume_chain('ETH')`)
  expect(await state()).toEqual({halted: false, reason: null, way_out: null})
})

test('an incident of a kind that cannot be resolved cannot be opened', async () => {
  await expect(
    db.rows(`insert into app.incident (kind, subject, details) values ('something_new', 'x', '{}')`),
  ).rejects.toMatchObject({code: '23503'})
})

test('several incidents of a kind are resolved by one command that names them all', async () => {
  await db.rows(
    `insert into app.incident (chain, kind, subject, details) select 'ETH', 'final_payment_vanished', n, '{}' from generate_series(1, 2) n`,
  )
  const [open] = await db.rows<{ids: string[]; way_out: string}>(
    `select ids, way_out from app.open_incident where kind = 'final_payment_vanished'`,
  )
  expect(open!.way_out).toContain(`sluice incident resolve ${open!.ids.join(' ')} --as kept`)
})

test('of more than twenty incidents of a kind, the command names the first twenty, and says so', async () => {
  await db.rows(
    `insert into app.incident (chain, kind, subject, details) select 'BTC', 'final_deposit_changed', 'n' || n, '{}' from generate_series(1, 23) n`,
  )
  const [open] = await db.rows<{ids: string[]; way_out: string}>(
    `select ids, way_out from app.open_incident where kind = 'final_deposit_changed' and chain = 'BTC'`,
  )
  expect(open!.way_out).toContain(`resolve ${open!.ids.slice(0, 20).join(' ')} --as`)
  expect(open!.way_out).toMatch(/\. These are the first 20 of 23$/)
})

test('docs/operations.md shows how to resolve every kind, word for word, and no other kind', () => {
  const text = readFileSync(new URL('../docs/operations.md', import.meta.url), 'utf8')
  const section = text.slice(text.indexOf('### Incidents'), text.indexOf('### A fork below the final block'))
  const documented = [...section.matchAll(/^\| `(\w+)` \| .* \| (.*) \|$/gm)].map(([, kind, way]) => `${kind}: ${way}`)
  const known = kinds.map(
    ({kind, way_out}) => `${kind}: ${way_out.replaceAll('{id}', 'ID').replaceAll('{chain}', 'CHAIN')}`,
  )
  expect(documented.sort()).toEqual(known.sort())
})
