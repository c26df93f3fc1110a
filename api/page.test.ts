// A page reads no more rows than it shows, by the plans of the API's role.
import pg from 'pg'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'
import {makeMerchant} from '../test/support/people.ts'
import type {Statement} from './database.ts'
import {pageStatement} from './page.ts'
import {paymentLists} from './routes/payment-requests.ts'
import {listPayouts} from './routes/payouts.ts'

let db: TestDatabase
let api: pg.Client
let busy: string
let quiet: string

beforeAll(async () => {
  db = await testDatabase()
  ;[busy, quiet] = [await makeMerchant(db), await makeMerchant(db)]
  for (const [merchant, count] of [
    [busy, 20_000],
    [quiet, 3],
  ] as const) {
    await db.rows(
      'insert into app.user (merchant_id, external_ref) select $1, g::text from generate_series(1, $2::int) g',
      [merchant, count],
    )
    await db.rows(
      `insert into app.payment_request (merchant_id, external_id, chain, token, amount, page_token, expires_at, status, received, txid, position)
       select $1::uuid, g::text, 'ETH', 'USDC', 2, $1::uuid || '-' || g, now(), 'underpaid', 1, '0xX', nextval('app.payment_position')
       from generate_series(1, $2::int) g`,
      [merchant, count],
    )
  }
  await db.rows(
    `insert into app.payout (merchant_id, chain, token, gross, fee_bps, fee, net, address, sweep_first, status, txid, finished_at)
     select $1, 'ETH', case g % 1000 when 0 then 'ETH' else 'USDC' end, 2, 100, 0, 2, '0xX', false, 'completed', '0xX', now()
     from generate_series(1, 20000) g`,
    [busy],
  )
  await db.rows('analyze app.payout')
  await db.rows('analyze app.user')
  await db.rows('analyze app.payment_request')
  api = new pg.Client({connectionString: db.url('sluice_api')})
  await api.connect()
})
afterAll(async () => {
  await api.end()
  await db.drop()
})

interface Plan {
  'Relation Name'?: string
  'Actual Rows': number
  'Actual Loops': number
  'Rows Removed by Filter'?: number
  Plans?: Plan[]
}

/** How many rows of a table a statement reads. */
async function rowsRead({text}: Statement, table: string, values: unknown[]): Promise<number> {
  await api.query(`prepare one as ${text}`)
  const {rows} = await api.query(
    `explain (analyze, format json) execute one (${values.map(value => (value === null ? 'null' : `'${value}'`)).join(', ')})`,
  )
  await api.query('deallocate one')
  const readBy = (plan: Plan): number =>
    (plan['Relation Name'] === table
      ? plan['Actual Loops'] * (plan['Actual Rows'] + (plan['Rows Removed by Filter'] ?? 0))
      : 0) + (plan.Plans ?? []).reduce((sum, part) => sum + readBy(part), 0)
  return readBy(rows[0]['QUERY PLAN'][0].Plan)
}

const end = 2n ** 63n - 1n
const users = pageStatement({
  name: 'users',
  rows: 'select * from app.user where merchant_id = $1',
  position: 'seq',
  item: 'p.external_ref',
})
// The index of paid requests contains underpaid ones, too; and a reference names only one request.
const ofPayments = [...paymentLists].filter(([name]) => !name.includes('_of_id') && !name.endsWith('_paid'))

test.each(['user', 'payment_request'])(
  'a page of %s reads its own rows and one more, even beside a user with many rows',
  async table => {
    const lists: [name: string, list: Statement][] = table === 'user' ? [['users', users]] : ofPayments
    const perItem = table === 'user' ? 1 : 2 // the receipts of a payment are looked up by it
    for (const [name, list] of lists)
      for (const merchant of [busy, quiet])
        for (const limit of [1, 3]) {
          const filters = name.includes('currency') ? ['ETH', 'USDC'] : []
          const read = await rowsRead(list, table, [merchant, end, limit, ...filters])
          expect(read, name).toBeLessThanOrEqual(perItem * limit + 1)
        }
  },
)

test('a page of payouts reads what it shows of each status, chain and token, whatever is asked for', async () => {
  const [{parts}] = (await db.rows('select 6 * count(*)::int as parts from app.asset')) as [{parts: number}]
  for (const merchant of [busy, quiet])
    for (const status of [null, 'completed', 'failed'])
      for (const chain of [null, 'ETH', 'BTC'])
        for (const token of [null, 'USDC', 'ETH']) {
          const read = await rowsRead(listPayouts, 'payout', [merchant, end, 3, status, chain, token])
          const partsRead = parts / (status ? 6 : 1)
          expect(read, `${status} ${chain} ${token}`).toBeLessThanOrEqual(Math.min(7 * partsRead, 30))
        }
})
