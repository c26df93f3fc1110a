// The API: requests/s of GET /v1/balances and GET /v1/deposits?limit=50, with key and rate limit, from the API's
// process, over bare node:http and a named statement of pg that returns the same rows, JSON.stringify'd; 20 connections
// each. Once with all connections requesting one merchant's page, where waiting requests share one execution, and once
// with a merchant each, where nothing is shared. And the time of the deposits page at BENCH_DEPOSITS deposits (10
// million) over the same page at 10 thousand; half of them belong to one merchant.
//
// node bench/api.ts prints the results; node bench/api.ts floor is the bare server.
import {fork} from 'node:child_process'
import {once} from 'node:events'
import http from 'node:http'
import type {AddressInfo} from 'node:net'
import autocannon from 'autocannon'
import pg from 'pg'
import {newKey} from '../base/api-key.ts'
import {roleUrl} from '../db/migrate/migrate.ts'
import {withDatabase} from './database.ts'
import {type Result, ratio} from './result.ts'

const connectionCount = 20
const rounds = 3
const roundSeconds = 5
const few = 10_000

export function benchApi(many = Number(process.env.BENCH_DEPOSITS ?? 10_000_000)): Promise<Result[]> {
  return withDatabase(async ({pool, ownerUrl}) => {
    const merchants = await makeMerchants(pool)
    const one = merchants.slice(0, 1)
    const {key} = merchants[0]!
    await makeDeposits(pool, few)
    const databaseUrl = roleUrl(ownerUrl, 'sluice_api')
    const floor = await start(new URL(import.meta.url), ['floor'], {DATABASE_URL: databaseUrl})
    const api = await start(new URL('../api/main.ts', import.meta.url), [], {
      DATABASE_URL: databaseUrl,
      PORT: '0',
      RATE_LIMIT_PER_MINUTE: '10000000',
      LOG_LEVEL: 'info',
    })
    try {
      const results = [
        await compare('/v1/balances', api.url, floor.url, one),
        await compare('/v1/deposits?limit=50', api.url, floor.url, one),
        await compare('/v1/balances', api.url, floor.url, merchants),
        await compare('/v1/deposits?limit=50', api.url, floor.url, merchants),
      ]
      const pages = await pagesOf(api.url, key)
      const small = await times(api.url, Object.values(pages), key)
      await makeDeposits(pool, many)
      const large = await times(api.url, Object.values(pages), key)
      for (const [n, name] of Object.keys(pages).entries()) {
        const what = `deposits, ${name}, at ${many} over ${few}`
        results.push({what, value: large[n]!, floor: small[n]!, unit: 'ms', target: 'at most 1.5'})
      }
      return results
    } finally {
      api.child.kill('SIGKILL')
      floor.child.kill('SIGKILL')
    }
  })
}

interface Merchant {
  id: string
  key: string
}

/** The first merchant gets half of all deposits. */
async function makeMerchants(pool: pg.Pool): Promise<Merchant[]> {
  await pool.query(
    `select app.create_merchant('Merchant ' || n, 'bench' || n, '{ETH,POLYGON}', 50) from generate_series(0, 99) n`,
  )
  await pool.query(
    `insert into app.user (merchant_id, external_ref) select m.id, n::text from app.merchant m, generate_series(1, 100) n`,
  )
  await pool.query(`select chain.anchor(chain, 'bench', 1000000, '0x', now()) from app.chain`)
  const {rows} = await pool.query<{id: string}>('select id from app.merchant order by id limit $1', [connectionCount])
  const merchants = rows.map(({id}) => ({id, ...newKey()}))
  for (const {id, hash} of merchants) await pool.query('select app.create_api_key($1, $2)', [id, hash])
  return merchants.map(({id, secret: key}) => ({id, key}))
}

/**
 * Adds deposits until there are `total`: every second one of the first merchant; 98 % final, 1 % pending, 1 % reorged.
 */
async function makeDeposits(pool: pg.Pool, total: number): Promise<void> {
  await pool.query(
    `insert into app.deposit (merchant_id, user_id, chain, token, amount, sender, address, txid, output_index, block_height, block_hash,
       status, credited, version, finalised_at)
     select u.merchant_id, u.id, a.chain, a.token, (random() * 1e18)::numeric(78, 0) + 1, '0x' || lpad(to_hex(n), 40, '5'),
       '0x' || lpad(to_hex(n % 10000), 40, 'a'), '0x' || lpad(to_hex(n), 64, 'f'), 0, n / 10, '0x' || lpad(to_hex(n / 10), 64, 'b'),
       case n % 100 when 98 then 'pending' when 99 then 'reorged' else 'final' end, true, 2, now()
     from generate_series((select count(*) from app.deposit), $1::bigint - 1) n
     join (select id, merchant_id, row_number() over (partition by merchant_id order by id) as nth,
             dense_rank() over (order by merchant_id) - 1 as merchant from app.user) u
       on u.merchant = case n % 2 when 0 then 0 else (n / 2) % 99 + 1 end and u.nth = (n / 200) % 100 + 1
     join (select chain, token, row_number() over (order by chain, token) as nth from app.asset) a on a.nth = n % 3 + 1
     order by n`,
    [total],
  )
  await pool.query('truncate app.balance')
  await pool.query(
    `insert into app.balance select merchant_id, chain, token, sum(amount), count(*) from app.deposit where status = 'final' group by 1, 2, 3`,
  )
  await pool.query('vacuum analyze')
  await pool.query('checkpoint')
}

/** A process that says over IPC that it is ready; the URL is that of a server. */
export async function start(module: URL, args: string[], environment: Record<string, string>) {
  const child = fork(module, args, {env: {...process.env, ...environment}})
  const [message] = await once(child, 'message')
  return {child, url: (message as {url: string}).url}
}

/** Requests/s of the API and of the bare server, in turn; the medians. */
async function compare(path: string, apiUrl: string, floorUrl: string, merchants: Merchant[]): Promise<Result> {
  const [values, floors]: [number[], number[]] = [[], []]
  for (let round = 0; round <= rounds; round++) {
    const isWarmUp = round === 0
    for (const [url, rates] of [
      [floorUrl, floors],
      [apiUrl, values],
    ] as const) {
      const rate = await requestsPerSecond(url + path, merchants, isWarmUp ? 2 : roundSeconds)
      if (!isWarmUp) rates.push(rate)
    }
  }
  const isOne = merchants.length === 1
  const what = `GET ${path}, ${connectionCount} connections, ${isOne ? 'one merchant' : 'a merchant each'}`
  return {what, value: median(values), floor: median(floors), unit: 'requests/s', target: isOne ? '1.0' : undefined}
}

async function requestsPerSecond(url: string, merchants: Merchant[], seconds: number): Promise<number> {
  let connection = 0
  const setupClient: autocannon.SetupClient = client => {
    const {id, key} = merchants[connection++ % merchants.length]!
    client.setHeaders({authorization: `Bearer ${key}`, 'x-merchant': id})
  }
  const result = await autocannon({url, setupClient, connections: connectionCount, duration: seconds})
  if (result.non2xx || result.errors) throw new Error(`${url}: ${result.non2xx} refusals, ${result.errors} errors`)
  return result.requests.total / result.duration
}

/** Median milliseconds of each page, requested one at a time. */
async function times(apiUrl: string, paths: string[], key: string): Promise<number[]> {
  const measured: number[] = []
  for (const path of paths) {
    const samples: number[] = []
    for (let n = 0; n < 400; n++) {
      const began = performance.now()
      const response = await fetch(apiUrl + path, {headers: {authorization: `Bearer ${key}`}})
      if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`)
      await response.text()
      if (n >= 100) samples.push(performance.now() - began)
    }
    measured.push(median(samples))
  }
  return measured
}

/** A page for each kind of filter, of the first merchant. */
async function pagesOf(apiUrl: string, key: string): Promise<Record<string, string>> {
  const response = await fetch(`${apiUrl}/v1/deposits?limit=200`, {headers: {authorization: `Bearer ${key}`}})
  const {deposits} = (await response.json()) as {deposits: Record<string, string>[]}
  const {user_id, txid, created_at} = deposits.at(-1)!
  const filters = {
    'newest page': '',
    'deep page': `cursor=${await deepCursor(apiUrl, key)}`,
    'rare filter': 'chain=POLYGON&status=reorged',
    'one token': 'token=USDC',
    'everything that is final': 'status=final',
    'one user': `user_id=${user_id}`,
    'one transaction': `txid=${txid}`,
    'up to a time': `created_to=${created_at}`,
    'up to a time, one chain': `created_to=${created_at}&chain=ETH`,
  }
  return Object.fromEntries(Object.entries(filters).map(([name, filter]) => [name, `/v1/deposits?limit=50&${filter}`]))
}

/** The cursor of the page after the first 4000 deposits. */
async function deepCursor(apiUrl: string, key: string): Promise<string> {
  let cursor = ''
  for (let n = 0; n < 20; n++) {
    const response = await fetch(`${apiUrl}/v1/deposits?limit=200${cursor && `&cursor=${cursor}`}`, {
      headers: {authorization: `Bearer ${key}`},
    })
    cursor = ((await response.json()) as {next_cursor: string}).next_cursor
  }
  return cursor
}

function median(numbers: number[]): number {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)]!
}

/** The upper limit for an API: no framework, no key, no limit. The request names the merchant. */
function serveFloor(): void {
  const pool = new pg.Pool({connectionString: process.env.DATABASE_URL, max: 10})
  const balances = {
    name: 'balances',
    text: 'select app.read_balances($1)',
  }
  const deposits = {
    name: 'deposits',
    text: `select app.public_id('dep', p.id) as id, p.chain, p.token, app.decimal(p.amount, a.decimals) as amount, p.sender, p.txid, p.status,
        app.deposit_confirmations(p.status, p.block_height, c.head_height) as confirmations, app.public_id('pay', p.settlement_id) as settlement_id,
        app.iso(p.created_at) as created_at, p.address, p.output_index, app.public_id('usr', p.user_id) as user_id, u.external_ref, u.metadata,
        p.settled_before_restore
      from (select * from app.deposit where merchant_id = $1 and credited and user_id is not null and position < $2 order by position desc limit 50) p
      join app.asset a on a.chain = p.chain and a.token = p.token join app.user u on u.id = p.user_id left join chain.cursor c on c.chain = p.chain
      order by p.position desc`,
  }
  const server = http.createServer(async (request, response) => {
    const merchantId = request.headers['x-merchant']
    const query = request.url!.startsWith('/v1/balances')
      ? {...balances, values: [merchantId]}
      : {...deposits, values: [merchantId, String(2n ** 127n)]}
    const {rows} = await pool.query(query)
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify(rows))
  })
  server.listen(0, '127.0.0.1', () => {
    process.send!({url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`})
  })
  process.on('disconnect', () => process.exit())
}

if (import.meta.main) {
  if (process.argv[2] === 'floor') serveFloor()
  else for (const result of await benchApi()) console.log(JSON.stringify({...result, ratio: ratio(result)}))
}
