// The API: requests/s of GET /v1/balances and GET /v1/deposits?limit=50, with key and rate limit, from the API's
// process, over bare node:http and a named statement of pg that returns the same rows, JSON.stringify'd; 20 connections
// each. Once with all connections requesting one merchant's page, where waiting requests share one execution, and once
// with a merchant each, where nothing is shared.
//
// node bench/api.ts is the bare server.
import {fork} from 'node:child_process'
import {once} from 'node:events'
import http from 'node:http'
import type {AddressInfo} from 'node:net'
import autocannon from 'autocannon'
import pg from 'pg'
import {newKey} from '../base/api-key.ts'
import {roleUrl} from '../db/migrate/migrate.ts'
import {fillYear} from './analytics-data.ts'
import {withDatabase} from './database.ts'
import {median, type Report} from './result.ts'

const connectionCount = 20
const warmUpSeconds = 2
const deposits = 10_000

export function benchApi(report: Report, rounds = 3, roundSeconds = 2): Promise<void> {
  return withDatabase(async ({pool, ownerUrl}) => {
    await fillYear(pool, deposits)
    const merchants = await makeKeys(pool)
    const DATABASE_URL = roleUrl(ownerUrl, 'sluice_api')
    const floor = await start(new URL(import.meta.url), [], {DATABASE_URL})
    const api = await startApi(DATABASE_URL)
    try {
      for (const some of [merchants.slice(0, 1), merchants])
        for (const path of ['/v1/balances', '/v1/deposits?limit=50']) {
          const compared = {api: api.url + path, floor: floor.url + path}
          const rates = await compare(compared, {merchants: some, rounds, roundSeconds})
          const isOne = some.length === 1
          report({
            what: `GET ${path}, ${connectionCount} connections, ${isOne ? 'one merchant' : 'a merchant each'}`,
            ...rates,
            unit: 'requests/s',
            aim: '1.0',
          })
        }
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

/** The first merchant has half of all deposits. */
async function makeKeys(pool: pg.Pool): Promise<Merchant[]> {
  const {rows} = await pool.query<{id: string}>('select id from app.merchant order by id limit $1', [connectionCount])
  const merchants = rows.map(({id}) => ({id, ...newKey()}))
  for (const {id, hash} of merchants) await pool.query('select app.create_api_key($1, $2)', [id, hash])
  return merchants.map(({id, secret: key}) => ({id, key}))
}

/** A process that says over IPC that it is ready; the URL is that of a server. */
export async function start(module: URL, args: string[], environment: Record<string, string>) {
  const child = fork(module, args, {env: {...process.env, ...environment}})
  const [message] = await once(child, 'message')
  return {child, url: (message as {url: string}).url}
}

/** The API, with a limit that no bench reaches. */
export function startApi(DATABASE_URL: string) {
  const environment = {DATABASE_URL, PORT: '0', RATE_LIMIT_PER_MINUTE: '10000000', LOG_LEVEL: 'info'}
  return start(new URL('../api/main.ts', import.meta.url), [], environment)
}

interface Load {
  merchants: Merchant[]
  rounds: number
  roundSeconds: number
}

/** Requests/s of the API and of the bare server, in turn; the medians. */
async function compare(urls: {api: string; floor: string}, {merchants, rounds, roundSeconds}: Load) {
  for (const url of [urls.floor, urls.api]) await requestsPerSecond(url, merchants, warmUpSeconds)
  const [values, floors]: [number[], number[]] = [[], []]
  for (let round = 0; round < rounds; round++) {
    floors.push(await requestsPerSecond(urls.floor, merchants, roundSeconds))
    values.push(await requestsPerSecond(urls.api, merchants, roundSeconds))
  }
  return {value: median(values), floor: median(floors)}
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

if (import.meta.main) serveFloor()
