// Whatever a list is asked for, it has what its reader would have picked from the whole list, in the same order,
// whatever the size of the pages. On the data of the examples (db/examples/seed.sql); the seed of what is asked is
// printed.
import fc from 'fast-check'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {seed} from '../db/examples/examples.ts'
import {type Api, Client, makeKey, startApi} from '../test/support/api.ts'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'

/**
 * The examples have few payouts and payment requests: some of each kind more, for the merchant of a deposit. Payouts
 * that were found again after a restore are not in the order of their times.
 */
const more = `
  with shop as (select merchant_id as id from app.deposit order by seq limit 1), made as (
    insert into app.payment_request (merchant_id, external_id, chain, token, amount, page_token, expires_at, status, received, txid, paid_at,
      created_at, position)
    select s.id, 'more-' || g, 'ETH', case g % 2 when 0 then 'USDC' else 'ETH' end, (1 + g % 7) * 1000000, 'more-' || g, now(),
      (array['paid', 'expired', 'cancelled'])[1 + g % 3], case g % 3 when 0 then 9000000 else 0 end,
      case g % 3 when 0 then '0xtx' end, case g % 3 when 0 then now() - g * interval '1 hour' end, now() - g * interval '2 days', case g % 3 when 0 then nextval('app.payment_position') end
    from shop s, generate_series(40, 1, -1) g returning id, merchant_id, chain), addresses as (
    insert into app.address (chain, match_key, address, payment_request_id, merchant_id, is_provisioned)
    select chain, '0x' || id, '0X' || id, id, merchant_id, true from made)
  insert into app.payout (merchant_id, chain, token, gross, fee_bps, fee, net, address, sweep_first, status, txid, finished_at, created_at,
    error_code, error_message)
  select s.id, 'ETH', case g % 2 when 0 then 'USDC' else 'ETH' end, (2 + g % 7) * 1000000, 100, 1000000, (1 + g % 7) * 1000000, '0xTo' || g % 5, false,
    case g % 3 when 0 then 'failed' else 'completed' end, case g % 3 when 0 then null else '0xtx' || g end, now(), now() - (g * 7 % 40) * interval '1 day',
    case g % 3 when 0 then 'cancelled' end, case g % 3 when 0 then 'it was cancelled' end
  from shop s, generate_series(40, 1, -1) g`

let db: TestDatabase
let api: Api
const clients: Client[] = []

beforeAll(async () => {
  db = await testDatabase()
  await seed(db.ownerUrl)
  await db.rows(more)
  // Deliveries of the examples have times of their own, and ids of now.
  await db.rows(
    `update app.delivery set created_at = to_timestamp(('x' || left(translate(id::text, '-', ''), 12))::bit(48)::bigint / 1000.0)`,
  )
  api = await startApi(db)
  for (const {id} of await db.rows<{id: string}>('select id from app.merchant order by id'))
    clients.push(new Client(api, (await makeKey(db, id)).secret))
})
afterAll(async () => {
  await api.close()
  await db.drop()
})

type Item = Record<string, string | null>

async function all(client: Client, path: string, query: Record<string, string> = {}, limit = 200): Promise<Item[]> {
  const items: Item[] = []
  for (let cursor: string | undefined; ; ) {
    const asked = new URLSearchParams({...query, limit: String(limit), ...(cursor && {cursor})})
    const {status, body} = await client.get(`${path}?${asked}`)
    expect([status, body.message]).toEqual([200, undefined])
    items.push(...((Object.values(body).find(Array.isArray) ?? []) as Item[]))
    if (!body.next_cursor) return items
    cursor = body.next_cursor
  }
}

/** What a filter keeps of all items, by what it was given. */
type Filter = (given: string) => (item: Item) => boolean
const is =
  (field: string): Filter =>
  given =>
  item =>
    item[field]?.toLowerCase() === given.toLowerCase()
const isOneOf =
  (field: string): Filter =>
  given =>
  item =>
    given.split(',').includes(item[field]!)
const isFrom =
  (field: string): Filter =>
  given =>
  item =>
    item[field]! >= given
const isBefore =
  (field: string): Filter =>
  given =>
  item =>
    item[field] !== null && item[field]! < given
const isAtLeast =
  (field: string): Filter =>
  given =>
  item =>
    Number(item[field]) >= Number(given)
const isAtMost =
  (field: string): Filter =>
  given =>
  item =>
    Number(item[field]) <= Number(given)
const times = {created_from: isFrom('created_at'), created_to: isBefore('created_at')}
const amountsOf = (field: string) => ({amount_from: isAtLeast(field), amount_to: isAtMost(field)})

interface List {
  path: string
  filters: Record<string, Filter>
  /** The field of an item that a filter is given a value of. */
  fieldOf: Record<string, string>
  /** What an amount needs. */
  pair: string[]
}
const lists: List[] = [
  {
    path: '/v1/deposits',
    filters: {
      ...{
        status: isOneOf('status'),
        chain: is('chain'),
        token: is('token'),
        user_id: is('user_id'),
        sender: is('sender'),
      },
      ...{
        address: is('address'),
        txid: is('txid'),
        settlement_id: is('settlement_id'),
        ...times,
        ...amountsOf('amount'),
      },
    },
    fieldOf: {amount_from: 'amount', amount_to: 'amount'},
    pair: ['chain', 'token'],
  },
  {
    path: '/v1/payouts',
    filters: {
      ...{status: isOneOf('status'), chain: is('chain'), token: is('token'), address: is('address')},
      ...{...times, ...amountsOf('net')},
    },
    fieldOf: {amount_from: 'net', amount_to: 'net'},
    pair: ['chain', 'token'],
  },
  {
    path: '/v1/payment-requests',
    filters: {
      ...{status: isOneOf('status'), currency: is('currency'), address: is('address')},
      ...{...times, ...amountsOf('amount'), paid_from: isFrom('paid_at'), paid_to: isBefore('paid_at')},
    },
    fieldOf: {amount_from: 'amount', amount_to: 'amount', paid_from: 'paid_at', paid_to: 'paid_at'},
    pair: ['currency'],
  },
  {
    path: '/v1/webhook-endpoints/:id/deliveries',
    filters: {status: isOneOf('status'), ...times},
    fieldOf: {},
    pair: [],
  },
]

/** Of the first endpoint, where the list is one of an endpoint's. */
async function pathFor(client: Client, path: string): Promise<string | undefined> {
  if (!path.includes(':id')) return path
  const [endpoint] = (await client.get('/v1/webhook-endpoints')).body.webhook_endpoints
  return endpoint && path.replace(':id', endpoint.id)
}

test.each(lists)(
  '$path has what its reader would pick, whatever is asked for',
  async ({path, filters, fieldOf, pair}) => {
    const paths = await Promise.all(clients.map(client => pathFor(client, path)))
    const of = await Promise.all(clients.map(async (client, n) => (paths[n] ? await all(client, paths[n]) : [])))
    expect(of.flat().length).toBeGreaterThan(5)
    const valueFor = (name: string, item: Item) =>
      item[fieldOf[name] ?? name.replace(/^created_(from|to)$/, 'created_at')] ?? undefined
    let found = 0
    const seen = new Set<string>()
    // Chance may leave a filter out that tells some items from others: then there is another round.
    for (let round = 0; round < 5 && seen.size < Object.keys(filters).length; round++)
      await fc.assert(
        fc.asyncProperty(
          fc.nat(clients.length - 1),
          fc.subarray(Object.keys(filters), {minLength: 1, maxLength: 3}),
          fc.infiniteStream(fc.nat()),
          fc.integer({min: 1, max: 5}),
          async (merchant, names, numbers, limit) => {
            const items = of[merchant]!
            if (items.length === 0) return
            const next = (below: number) => numbers.next().value % below
            const base = items[next(items.length)]!
            const asked = names.some(name => name.startsWith('amount')) ? [...new Set([...names, ...pair])] : names
            const query: Record<string, string> = {}
            for (const name of asked) {
              const item = next(3) === 0 ? items[next(items.length)]! : base
              const value = valueFor(name, item)
              if (value === undefined) return
              const other = name === 'status' && next(2) === 0 ? `,${items[next(items.length)]!.status}` : ''
              query[name] =
                name === 'sender' && value.startsWith('0x') && next(2) === 0 ? value.toLowerCase() : value + other
            }
            const {paid_from, paid_to} = query // a month at most
            if (paid_to !== undefined) query.paid_from ??= new Date(Date.now() - 30 * 86_400_000).toISOString()
            if (paid_from !== undefined && Date.parse(paid_from) < Date.now() - 30 * 86_400_000) return
            const picked = items.filter(item =>
              Object.entries(query).every(([name, given]) => filters[name]!(given)(item)),
            )
            expect(await all(clients[merchant]!, paths[merchant]!, query, limit), JSON.stringify(query)).toEqual(picked)
            found += picked.length
            for (const name of asked) if (picked.length > 0 && picked.length < items.length) seen.add(name)
          },
        ),
        {numRuns: 250, verbose: 1},
      )
    expect(found).toBeGreaterThan(100)
    expect([...seen].sort()).toEqual(Object.keys(filters).sort())
  },
)

test('payment requests are found by who paid them', async () => {
  const paid = await db.rows<{merchant: number; sender: string; ids: string[]}>(
    `select (row_number() over (order by m.id))::int - 1 as merchant, p.sender, p.ids
     from app.merchant m left join lateral (select d.sender, array_agg(distinct r.external_id order by r.external_id) as ids
       from app.deposit d join app.payment_request r on r.id = d.payment_request_id where r.merchant_id = m.id and d.credited and d.status <> 'reorged'
       group by d.sender limit 1) p on true`,
  )
  const found = paid.filter(({sender}) => sender)
  expect(found.length).toBeGreaterThan(0)
  for (const {merchant, sender, ids} of found) {
    const listed = await all(clients[merchant]!, '/v1/payment-requests', {sender})
    expect(listed.map(({external_id}) => external_id).sort()).toEqual(ids)
  }
})

test('a status that is repeated means the same as with commas between', async () => {
  const commas = await clients[0]!.get('/v1/deposits?status=final,reorged')
  expect(commas.status).toBe(200)
  const repeated = await clients[0]!.get('/v1/deposits?status=final&status=reorged')
  expect(repeated.body.deposits).toEqual(commas.body.deposits)
  expect((await clients[0]!.get('/v1/deposits?status=final&status=settled')).status).toBe(400)
})

test('an amount without its token, and a status that does not exist, are refused in words', async () => {
  const refusal = async (path: string) => (await clients[0]!.get(path)).body.details
  for (const path of [
    '/v1/deposits?amount_from=5',
    '/v1/deposits?chain=ETH&amount_to=5',
    '/v1/payouts?token=ETH&amount_from=5',
  ])
    expect(await refusal(path), path).toMatchObject([
      {path: expect.stringContaining('amount_'), code: 'missing', message: expect.stringContaining('say of which')},
    ])
  expect(await refusal('/v1/payment-requests?amount_to=1')).toMatchObject([{path: 'amount_to', code: 'missing'}])
  expect(await refusal('/v1/payouts?amount_to=1e3&chain=ETH&token=ETH')).toMatchObject([
    {path: 'amount_to', message: 'must be a plain decimal, such as 25.5'},
  ])
  for (const status of ['settled', 'final,', 'final,settled', ''])
    expect(await refusal(`/v1/deposits?status=${status}`), status).toMatchObject([
      {path: 'status', message: 'must be one or more of pending, final, reorged, with commas between'},
    ])
})
