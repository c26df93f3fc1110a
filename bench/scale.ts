// What a second process, and the quorum, do to the rates of a service on a cluster (Patroni, three etcd, HAProxy, three
// servers with fsync on): requests/s of POST /v1/users and GET /v1/balances with 20 connections to one API process and
// to two, and deliveries/s of one worker and of two, to four endpoints. Once without a standby that is waited for, and
// once with the quorum. Everything shares the cores of this machine, so two processes win only what one leaves of them.
// Needs CLUSTER_BIN: the folder that test/install-cluster fills.
import {type ChildProcess, fork} from 'node:child_process'
import {randomUUID} from 'node:crypto'
import {once} from 'node:events'
import autocannon from 'autocannon'
import pg from 'pg'
import {newKey} from '../base/api-key.ts'
import {migrate, type Role, roleUrl} from '../db/migrate/migrate.ts'
import {Cluster} from '../test/support/cluster.ts'
import {createEndpoint, createMerchant, deposit} from '../test/support/webhooks.ts'
import {start} from './api.ts'
import {requirePrograms} from './failover.ts'
import type {Report} from './result.ts'

const connectionCount = 20
const roundSeconds = 8
const addressCount = 300_000
const endpointCount = 4
const deliveriesOfEndpoint = 5000

/** The floor is the rate of one process. */
export async function benchScale(report: Report): Promise<void> {
  requirePrograms()
  await onCluster(report, false)
  await onCluster(report, true)
}

async function onCluster(report: Report, quorum: boolean): Promise<void> {
  const cluster = await Cluster.start({quorum})
  const pool = new pg.Pool({connectionString: cluster.url, max: 5})
  try {
    await migrate(cluster.url)
    const key = await makeMerchant(pool)
    const rates = {
      'POST /v1/users': (count: number) => requests(cluster.url, count, 'POST', '/v1/users', key),
      'GET /v1/balances': (count: number) => requests(cluster.url, count, 'GET', '/v1/balances', key),
      webhooks: (count: number) => deliveries(cluster.url, pool, count),
    }
    for (const [name, rate] of Object.entries(rates)) {
      const what = `${name}, two processes over one, ${quorum ? 'with' : 'without'} the quorum`
      report({what, floor: await rate(1), value: await rate(2), unit: '/s'})
    }
  } finally {
    await pool.end()
    await cluster.close()
  }
}

/** A merchant with a key, and free addresses as custody would have made them. */
async function makeMerchant(pool: pg.Pool): Promise<string> {
  const {secret: key, hash: keyHash} = newKey()
  const {rows} = await pool.query<{id: string}>(`select app.create_merchant('Bench', 'bench', '{ETH}', 50) as id`)
  await pool.query('select app.create_api_key($1, $2)', [rows[0]!.id, keyHash])
  await pool.query(
    `insert into custody.address (address, family, derivation_index, match_key)
     select '0x' || lpad(to_hex(n), 40, '0'), 'evm', n, '0x' || lpad(to_hex(n), 40, '0') from generate_series(1, $1::int) n`,
    [addressCount],
  )
  await pool.query('analyze custody.address')
  return key
}

async function withProcesses<T>(
  {url, role, module, more = {}}: {url: string; role: Role; module: string; more?: Record<string, string>},
  count: number,
  work: (urls: string[]) => Promise<T>,
): Promise<T> {
  const children: ChildProcess[] = []
  try {
    const urls: string[] = []
    for (let n = 0; n < count; n++) {
      const started = await start(new URL(module, import.meta.url), [], {DATABASE_URL: roleUrl(url, role), ...more})
      children.push(started.child)
      urls.push(started.url)
    }
    return await work(urls)
  } finally {
    for (const child of children) child.kill('SIGKILL')
    await Promise.all(children.map(child => child.exitCode ?? child.signalCode ?? once(child, 'exit')))
  }
}

/** Requests/s that this many API processes answer together. */
function requests(url: string, count: number, method: 'GET' | 'POST', path: string, key: string): Promise<number> {
  const more = {PORT: '0', RATE_LIMIT_PER_MINUTE: '10000000'}
  return withProcesses({url, role: 'sluice_api', module: '../api/main.ts', more}, count, async urls => {
    const round = async (duration: number) => {
      const results = await Promise.all(
        urls.map(base =>
          autocannon({
            url: base + path,
            connections: connectionCount / count,
            duration,
            setupClient: client =>
              client.setHeaders({authorization: `Bearer ${key}`, 'content-type': 'application/json'}),
            requests: [{method, ...(method === 'POST' && {setupRequest: withUser})}],
          }),
        ),
      )
      for (const {non2xx, errors} of results)
        if (non2xx || errors) throw new Error(`${method} ${path}: ${non2xx} refusals, ${errors} errors`)
      return results.reduce((sum, {requests, duration}) => sum + requests.total / duration, 0)
    }
    await round(2) // warm up
    return await round(roundSeconds)
  })
}

const withUser = (request: autocannon.Request) => ({...request, body: JSON.stringify({external_ref: randomUUID()})})

/** Deliveries/s of this many workers, from the commit of the events to the last recorded result. */
async function deliveries(url: string, pool: pg.Pool, count: number): Promise<number> {
  const receiver = fork(new URL('./webhooks.ts', import.meta.url), ['receive'])
  try {
    const [{port}] = await once(receiver, 'message')
    const merchants = await Promise.all(Array.from({length: endpointCount}, () => createMerchant(pool)))
    for (const merchant of merchants) await createEndpoint(pool, merchant, {url: `http://127.0.0.1:${port}/hook`})
    await pool.query('analyze')
    const more = {WEBHOOK_ALLOW_PRIVATE: '1'}
    return await withProcesses({url, role: 'sluice_jobs', module: '../jobs/main.ts', more}, count, async () => {
      const client = await pool.connect()
      await client.query('begin')
      for (const merchant of merchants) await deposit(client, merchant, deliveriesOfEndpoint)
      await client.query('commit')
      client.release()
      const began = performance.now()
      for (;;) {
        const {rows} = await pool.query<{delivered: number}>(
          `select count(*)::int as delivered from app.delivery d join app.webhook_endpoint w on w.id = d.endpoint_id
           where w.merchant_id = any($1) and d.status = 'delivered'`,
          [merchants.map(({id}) => id)],
        )
        const all = endpointCount * deliveriesOfEndpoint
        if (rows[0]!.delivered === all) return (all * 1000) / (performance.now() - began)
        await new Promise(resolve => setTimeout(resolve, 50))
      }
    })
  } finally {
    receiver.kill()
  }
}
