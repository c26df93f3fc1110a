// docs/database.md is right: it shows the real outputs of its queries, and names every table and view.
import {readFileSync} from 'node:fs'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {type TestDatabase, testDatabase} from '../../test/support/database.ts'
import {documentFile, queriesOf, seed, withOutputs} from './examples.ts'

const document = readFileSync(documentFile, 'utf8')
let db: TestDatabase

beforeAll(async () => {
  db = await testDatabase()
  await seed(db.ownerUrl)
})
afterAll(() => db.drop())

test('each query of docs/database.md has the output shown below it', async () => {
  expect(
    await withOutputs(document, db.url('sluice_analyst')),
    'the queries return something else than docs/database.md shows: check the difference, then run npm run snapshot',
  ).toBe(document)
})

test('every block of SQL in docs/database.md is such a query, and every view of analytics has one', async () => {
  const queries = queriesOf(document)
  expect(queries).toHaveLength(document.match(/^```sql$/gm)!.length)
  const views = await db.rows<{name: string}>(
    `select 'analytics.' || relname as name from pg_class where relnamespace = 'analytics'::regnamespace and relkind in ('v', 'm')`,
  )
  expect(views.filter(({name}) => !queries.some(sql => sql.includes(`from ${name}`)))).toEqual([])
})

test('docs/database.md names every table and view that Sluice keeps', async () => {
  const relations = await db.rows<{name: string}>(
    `select relnamespace::regnamespace || '.' || relname as name from pg_class
     where relnamespace = any('{app,auth,chain,custody,dashboard}'::regnamespace[]) and relkind in ('r', 'p', 'v', 'm') and not relispartition`,
  )
  expect(relations.filter(({name}) => !document.includes(`\`${name}\``))).toEqual([])
})

test('the example data is consistent: every deposit came from the chain, and none is in doubt', async () => {
  expect(
    await db.rows(
      'select status, credited, count(*)::int as n from app.deposit where user_id is not null group by 1, 2 order by 1, 2',
    ),
  ).toEqual([
    {status: 'final', credited: false, n: 2},
    {status: 'final', credited: true, n: 8},
    {status: 'pending', credited: true, n: 2},
    {status: 'reorged', credited: true, n: 1},
  ])
  expect(
    await db.rows('select name, found from app.audit_checks() where count > 0 and name like $$payment%$$'),
  ).toEqual([])
  expect(await db.rows('select * from app.balance_audit')).toEqual([])
  expect(await db.rows('select * from app.ledger_audit')).toEqual([])
  expect(await db.rows('select * from app.incident where resolved_at is null')).toEqual([])
})

test('the views add up: received is earned, paid and owed; each posting sums to zero; the treasury is the sum of its parts', async () => {
  expect(
    await db.rows('select * from analytics.merchant_totals where received <> fees_earned + paid_out + owed'),
  ).toEqual([])
  expect(
    await db.rows('select posting from analytics.ledger group by posting, token having sum(amount_base_units) <> 0'),
  ).toEqual([])
  const treasury = await db.rows<{token: string}>(
    `select v.token from analytics.treasury v join app.asset a using (chain, token)
     where v.operator_funds * power(10::numeric, a.decimals) = app.operator_funds(v.chain, v.token)
       and v.balance >= v.operator_funds + v.merchants - v.advanced order by v.token`,
  )
  expect(treasury.map(({token}) => token)).toEqual([
    'BTC',
    'ETH',
    'POL',
    'SOL',
    'TRX',
    'USDC',
    'USDC',
    'USDC',
    'USDT',
    'USDT',
  ])
})
