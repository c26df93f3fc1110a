// What the reading functions give a merchant is its own alone, whatever it asks for. On the data of the examples
// (db/examples/seed.sql), with the rights of the API.
import pg from 'pg'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'
import {seed} from './examples/examples.ts'

let db: TestDatabase
let api: pg.Client

beforeAll(async () => {
  db = await testDatabase()
  await seed(db.ownerUrl)
  api = new pg.Client({connectionString: db.url('sluice_api')})
  await api.connect()
})
afterAll(async () => {
  await api.end()
  await db.drop()
})

/** What is there, of each merchant, that a list can be asked for. */
const things = {
  read_deposits: `select merchant_id as merchant, jsonb_build_object('id', id) as asked from app.deposit where credited and user_id is not null
    union all select merchant_id, jsonb_build_object('txid', txid) from app.deposit where credited and user_id is not null
    union all select merchant_id, jsonb_build_object('user', user_id) from app.deposit where credited and user_id is not null
    union all select merchant_id, jsonb_build_object('payout', settlement_id) from app.deposit where user_id is not null and settlement_id is not null`,
  read_users: `select merchant_id as merchant, jsonb_build_object('id', id) as asked from app.user`,
  read_payment_requests: `select merchant_id as merchant, jsonb_build_object('txid', txid) as asked from app.payment_request where txid is not null
    union all select merchant_id, jsonb_build_object('address', address) from app.address where payment_request_id is not null`,
  read_payments: `select merchant_id as merchant, jsonb_build_object('external_id', external_id) as asked from app.payment_request where position is not null`,
  read_deliveries: `select w.merchant_id as merchant, jsonb_build_object('endpoint', w.id) as asked from app.webhook_endpoint w
    where exists (select from app.delivery d where d.endpoint_id = w.id)`,
}
const places: Record<string, string> = {
  read_deposits: String(2n ** 127n - 1n),
  read_deliveries: 'ffffffff-ffff-ffff-ffff-ffffffffffff',
}

test.each(Object.entries(things))('%s gives a merchant its own, and nobody else anything of it', async (name, sql) => {
  const merchants = await db.rows<{id: string}>('select id from app.merchant')
  const all = await db.rows<{merchant: string; asked: object}>(sql)
  expect(all.length).toBeGreaterThan(0)
  const place = places[name] ?? String(2n ** 63n - 1n)
  for (const {merchant, asked} of all)
    for (const {id} of merchants) {
      const {rows} = await api.query(`select item from app.${name}($1, $2, $3, 50)`, [id, JSON.stringify(asked), place])
      expect(rows.length > 0, `${JSON.stringify(asked)} as ${id === merchant ? 'its merchant' : 'another'}`).toBe(
        id === merchant,
      )
    }
})
