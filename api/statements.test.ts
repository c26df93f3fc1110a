// Statements and past balances over HTTP, on the data of the examples (db/examples/seed.sql). That they add up over any
// history is tested in db/statements.property.test.ts.
import {afterAll, beforeAll, expect, test} from 'vitest'
import {seed} from '../db/examples/examples.ts'
import {type Api, Client, makeKey, startApi} from '../test/support/api.ts'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'

let db: TestDatabase
let api: Api
let client: Client
const get = (path: string) => client.get(path)
const acme = '019c0000-0000-7000-8000-00000000000a'
const july = 'from=2026-07-01T00:00:00Z&to=2026-08-01T00:00:00Z'

beforeAll(async () => {
  db = await testDatabase()
  await seed(db.ownerUrl)
  api = await startApi(db, {publicUrl: 'https://pay.example'})
  client = new Client(api, (await makeKey(db, acme)).secret)
})
afterAll(async () => {
  await api.close()
  await db.drop()
})

test('a statement has the balance before and after, what changed it, and its lines', async () => {
  const {status, body} = await get(`/v1/statements?${july}&chain=ETH&token=USDC`)
  expect(status).toBe(200)
  expect(body).toMatchObject({from: '2026-07-01T00:00:00.000Z', to: '2026-08-01T00:00:00.000Z'})
  expect(body.statements).toHaveLength(1)
  const [{opening_balance, deposits, payouts, fees, closing_balance}] = body.statements
  expect(Number(opening_balance) + Number(deposits) + Number(payouts) + Number(fees)).toBeCloseTo(
    Number(closing_balance),
    6,
  )
  const {body: listed} = await get(`/v1/statements/lines?${july}&chain=ETH&token=USDC`)
  const sum = (type: string) =>
    listed.lines.reduce((sum: number, line: {type: string; amount: string}) => {
      return line.type === type ? sum + Number(line.amount) : sum
    }, 0)
  expect(sum('deposit')).toBeCloseTo(Number(deposits), 6)
  expect(sum('payout')).toBeCloseTo(Number(payouts), 6)
})

test('a time must be on a quarter of an hour, and a period must have a length', async () => {
  for (const [path, message] of [
    ['/v1/statements?from=2026-07-01T00:00:00Z', 'to: must be a time, such as 2026-11-23T00:00:00Z'],
    [
      '/v1/statements?from=2026-07-01T00:00:00Z&to=2026-07-01T00:07:00Z',
      'to: must be a whole quarter of an hour, such as 2026-11-01T00:15:00Z',
    ],
    ['/v1/statements?from=2026-07-01T00:00:00Z&to=2026-07-01T00:00:00Z', 'to: must be after from'],
    ['/v1/statements/lines?from=2026-07-02T00:00:00Z&to=2026-07-01T00:00:00Z', 'to: must be after from'],
    ['/v1/balances?at=2026-07-01', 'at: must be a time, such as 2026-11-23T00:00:00Z'],
    ['/v1/balances?at=9000-01-01T00:00:00Z', 'at: must be at least a minute ago'],
    ['/v1/balances?at=2026-07-01T00:00:01Z', 'at: must be a whole quarter of an hour, such as 2026-11-01T00:15:00Z'],
  ] as const)
    expect(await get(path), path).toMatchObject({status: 400, body: {error: 'invalid_request', message}})
})

test('lines may be of any period, to the microsecond, and without an asset they are of all', async () => {
  const {body} = await get('/v1/statements/lines?from=2026-07-01T11:15:00Z&to=2026-07-01T11:15:00.001Z')
  expect(body.lines.map(({type, chain}: {type: string; chain: string}) => [type, chain])).toEqual([
    ['fee', 'POLYGON'],
    ['payout', 'POLYGON'],
  ])
})

test('balances at a past time are those of then, where they were kept; of a time before that an error says so', async () => {
  const {status, body} = await get('/v1/balances?at=2026-01-01T00:00:00Z')
  expect([status, body]).toEqual([200, {fee_bps: 0, balances: []}])
  await db.rows(`update app.total_backfill set since = '2026-06-30T00:00:00Z'`)
  expect(await get('/v1/balances?at=2026-01-01T00:00:00Z')).toMatchObject({
    status: 422,
    body: {
      error: 'unprocessable',
      message: 'balances are known from 2026-06-30T00:15:00.000Z on; GET /v1/statements has what was before',
    },
  })
  expect((await get('/v1/statements?from=2026-01-01T00:00:00Z&to=2026-06-30T00:00:00Z')).body).toMatchObject({
    statements: [],
  })
})

test('while the totals of an older database are made, statements are unavailable, and say how far that is', async () => {
  await db.rows('update app.total_backfill set done_up_to = last_entry / 2')
  const refused = await get(`/v1/statements?${july}`)
  expect(refused).toMatchObject({status: 503, body: {error: 'unavailable'}})
  expect(refused.body.message).toMatch(/^the totals are being made .*: \d+ % is done; try again in some minutes$/)
  await db.rows('update app.total_backfill set done_up_to = last_entry')
})
