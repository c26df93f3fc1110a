// What the API answers, byte for byte, on the data of the examples (db/examples/seed.sql): every list with each filter,
// page by page, and every object. It stands in recorded-responses.txt: a change there is a change of the contract. Ids,
// cursors, secrets and times of today are numbered in the order in which they are first seen. (To write it again:
// vitest run api/recorded-responses.test.ts --update=all)
import {afterAll, beforeAll, expect, test} from 'vitest'
import {seed} from '../db/examples/examples.ts'
import {type Api, makeKey, startApi} from '../test/support/api.ts'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'

let db: TestDatabase
let api: Api

beforeAll(async () => {
  db = await testDatabase()
  await seed(db.ownerUrl)
  api = await startApi(db, {publicUrl: 'https://pay.example'})
})
afterAll(async () => {
  await api.close()
  await db.drop()
})

const statuses = {
  deposits: ['pending', 'final', 'reorged'],
  payouts: ['pending', 'sweeping', 'completed', 'failed'],
  payments: ['paid', 'underpaid'],
  requests: ['detected', 'paid', 'underpaid', 'expired'],
  deliveries: ['delivered', 'failed', 'pending'],
}
const pairs = ['chain=ETH', 'chain=POLYGON', 'token=USDC', 'chain=ETH&token=USDC', 'chain=TRON']
const between = '2026-07-01T00:00:00.000Z'
const june = 'from=2026-06-01T00:00:00Z&to=2026-07-01T00:00:00Z'
const july = 'from=2026-07-01T00:00:00Z&to=2026-08-01T00:00:00%2B02:00'
const eventTypes = ['deposit.pending', 'deposit.confirmed', 'payout.completed', 'payment_request.underpaid']

const status = (of: keyof typeof statuses) => statuses[of].map(each => `status=${each}`)
/** What each list is asked for besides all of it. */
const lists: Record<string, string[]> = {
  '/v1/users': ['external_ref=alice', 'external_ref=nobody'],
  '/v1/deposits': [
    ...status('deposits'),
    ...pairs,
    'status=final&chain=ETH&token=USDC',
    `created_from=${between}`,
    `created_to=${between}&status=final`,
  ],
  '/v1/payouts': [...status('payouts'), ...pairs],
  '/payments': [...status('payments'), 'currency=ETH-USDC', 'external_id=acme-1001'],
  '/v1/payment-requests': [
    ...status('requests'),
    'currency=ETH-USDC',
    `created_from=${between}`,
    `created_to=${between}`,
    'paid_from=2026-06-30T00:00:00.000Z&paid_to=2026-07-02T00:00:00.000Z',
  ],
  '/v1/events': [...eventTypes.map(type => `type=${type}`), `after=evt_${'0'.repeat(32)}`],
  '/v1/balances': [],
  '/v1/statements': [june, july, `${july}&chain=ETH&token=USDC`],
  '/v1/statements/lines': [july, `${july}&chain=ETH&token=USDC`],
  '/v1/payout-addresses': [],
  '/v1/crypto': [],
  '/v1/webhook-endpoints': [],
}

test('every list and every object is answered as recorded, byte for byte', async () => {
  const said: string[] = []
  const merchants = await db.rows<{id: string}>('select id from app.merchant order by id')
  for (const {id} of merchants) {
    const {secret} = await makeKey(db, id)
    said.push(...(await allOf(secret)))
  }
  await expect(numbered(said.join('\n'))).toMatchFileSnapshot('recorded-responses.txt')
})

async function allOf(secret: string): Promise<string[]> {
  const said: string[] = []
  const asked = new Set<string>()
  /** The items of all pages. */
  const walk = async (path: string): Promise<Item[]> => {
    const items: Item[] = []
    for (let cursor = ''; ; ) {
      const {text, body} = await get(secret, path + cursor)
      said.push(`GET ${path}${cursor}\n${text}\n`)
      items.push(...(Object.values(body).find(Array.isArray) ?? []))
      if (!body.next_cursor) return items
      cursor = `${path.includes('?') ? '&' : '?'}cursor=${body.next_cursor}`
    }
  }
  const once = async (path: string) => {
    if (asked.has(path)) return
    asked.add(path)
    await walk(path)
  }
  for (const [list, filters] of Object.entries(lists)) {
    const isWhole = [
      '/v1/balances',
      '/v1/statements',
      '/v1/payout-addresses',
      '/v1/crypto',
      '/v1/webhook-endpoints',
    ].includes(list)
    for (const item of await walk(list + (isWhole ? '' : '?limit=3')))
      for (const path of pathsOf(list, item)) await once(path)
    for (const filter of filters) await walk(`${list}?${isWhole ? '' : 'limit=2&'}${filter}`)
  }
  return said
}

/** An item of a list, as far as other requests are about it. */
interface Item {
  id: string
  external_id: string
  user_id: string
  address: string
  txid: string
  settlement_id: string | null
}

/** The object itself, and the lists that are about it. */
function pathsOf(list: string, {id, external_id, ...item}: Item): string[] {
  if (list === '/v1/users') return [`${list}/${id}`, `/v1/deposits?user_id=${id}`]
  if (list === '/v1/payouts') return [`${list}/${id}`, `${list}/${id}/deposits`, `/v1/deposits?settlement_id=${id}`]
  if (list === '/v1/deposits')
    return [`${list}/${id}`, `${list}?txid=${item.txid}`, `${list}?address=${item.address}&status=final`]
  if (list === '/v1/webhook-endpoints')
    return [
      `${list}/${id}`,
      `${list}/${id}/deliveries`,
      ...status('deliveries').map(each => `${list}/${id}/deliveries?${each}&limit=2`),
    ]
  if (list === '/v1/payment-requests')
    return [
      `${list}/${external_id}`,
      `${list}?address=${item.address}`,
      ...(item.txid ? [`${list}?txid=${item.txid}`] : []),
    ]
  return []
}

async function get(secret: string, path: string) {
  const response = await fetch(api.url + path, {headers: {authorization: `Bearer ${secret}`}})
  const text = await response.text()
  return {text: `${response.status} ${text}`, body: JSON.parse(text)}
}

const changing =
  /(?<id>\b(?:dep|pay|usr|whe|dlv|evt)_[0-9a-f]{32}\b)|(?<cursor>(?<=(?:next_cursor":"|cursor=))[\w-]+)|(?<page>(?<=\/pay\/)[\w-]+)|(?<time>\b20(?!26-0[67]-)\d\d-\d\d-\d\dT[\d:.]+Z)/g

/** With numbers instead of what differs from run to run. */
function numbered(text: string): string {
  const known = new Map<string, string>()
  return text.replace(changing, (found, ...rest) => {
    const groups = rest.at(-1) as Record<string, string | undefined>
    const kind = groups.id ? found.slice(0, 3) : Object.keys(groups).find(name => groups[name] !== undefined)!
    if (kind === 'time') return '(now)'
    if (!known.has(found))
      known.set(found, `(${kind} ${[...known.values()].filter(value => value.startsWith(`(${kind} `)).length + 1})`)
    return known.get(found)!
  })
}
