// Webhooks: deliveries/s of the real worker process, from pending rows to recorded results, over a bare loop of undici
// and HMAC that sends the same bodies to the same receiver process and stores nothing; 50 requests in flight in both.
// The receiver reads each body and responds 200. And the time from a commit to the request's arrival, one event at a
// time.
import {type ChildProcess, fork} from 'node:child_process'
import {createHmac} from 'node:crypto'
import {once} from 'node:events'
import http from 'node:http'
import {Agent, request} from 'undici'
import {roleUrl} from '../db/migrate/migrate.ts'
import {createEndpoint, createMerchant, deposit} from '../test/support/webhooks.ts'
import {type Bench, withDatabase} from './database.ts'
import {quantile, type Report} from './result.ts'

const inFlight = 50
const latencyRounds = 200

export async function benchWebhooks(report: Report, count = 50_000): Promise<void> {
  const receiver = fork(new URL(import.meta.url), ['receive'])
  const [{port}] = await once(receiver, 'message')
  const url = `http://127.0.0.1:${port}/hook`
  try {
    await withDatabase(async bench => {
      const merchant = await createMerchant(bench.pool)
      await createEndpoint(bench.pool, merchant, {url})
      await deposit(bench.pool, merchant, count)
      await bench.pool.query('select app.sequence_events($1)', [count])
      await bench.pool.query('vacuum analyze')
      const {rows} = await bench.pool.query<{id: string; body: string}>(
        'select id, app.event_body(payload, sequence) as body from app.event order by sequence',
      )
      await bareLoop(url, rows.slice(0, count / 5)) // warm up
      const floor = await bareLoop(url, rows)
      const value = await pump(bench, receiver, count)
      const after = await bareLoop(url, rows)
      const what = `webhooks, ${count.toLocaleString('en')} deliveries to one endpoint`
      report({what, value, floor: Math.max(floor, after), unit: 'deliveries/s', aim: '0.5'})
      const times = await latency(bench, receiver, () => deposit(bench.pool, merchant))
      for (const percent of [50, 95])
        report({
          what: `commit of an event to its webhook, p${percent}`,
          value: quantile(times, percent / 100),
          unit: 'ms',
        })
    })
  } finally {
    receiver.kill()
  }
}

async function bareLoop(url: string, messages: {id: string; body: string}[]): Promise<number> {
  const agent = new Agent({connections: inFlight})
  const key = Buffer.alloc(24, 7)
  const began = performance.now()
  let next = 0
  const lane = async () => {
    while (next < messages.length) {
      const {id, body} = messages[next++]!
      const timestamp = Math.floor(Date.now() / 1000)
      const signature = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')
      const response = await request(url, {
        method: 'POST',
        dispatcher: agent,
        body,
        headers: {
          'webhook-id': id,
          'webhook-timestamp': String(timestamp),
          'webhook-signature': `v1,${signature}`,
          'content-type': 'application/json',
        },
      })
      await response.body.dump()
    }
  }
  await Promise.all(Array.from({length: inFlight}, lane))
  const seconds = (performance.now() - began) / 1000
  await agent.close()
  return messages.length / seconds
}

/**
 * Deliveries/s of a worker with `count` due ones when it starts; from the first arrival to the last recorded result.
 */
async function pump(bench: Bench, receiver: ChildProcess, count: number): Promise<number> {
  return withWorker(bench, receiver, async () => {
    const [{arrivedAt}] = await once(receiver, 'message')
    for (;;) {
      const {rows} = await bench.pool.query<{pending: boolean}>(
        `select exists (select from app.delivery where status = 'pending') as pending`,
      )
      if (!rows[0]!.pending) return count / ((Date.now() - arrivedAt) / 1000)
      await new Promise(resolve => setTimeout(resolve, 20))
    }
  })
}

/** Milliseconds from the commit of an event to the arrival of its webhook. */
async function latency(bench: Bench, receiver: ChildProcess, commit: () => Promise<unknown>): Promise<number[]> {
  return withWorker(bench, receiver, async () => {
    const times: number[] = []
    for (let round = 0; round < latencyRounds; round++) {
      receiver.send('report next')
      const arrival = once(receiver, 'message')
      await commit()
      const committedAt = performance.timeOrigin + performance.now()
      const [{arrivedAt}] = await arrival
      times.push(arrivedAt - committedAt)
    }
    return times
  })
}

/** Runs the worker as a process; the receiver reports its next arrival. */
async function withWorker<T>(bench: Bench, receiver: ChildProcess, work: () => Promise<T>): Promise<T> {
  receiver.send('report next')
  const worker = fork(new URL('../jobs/main.ts', import.meta.url), {
    env: {...process.env, DATABASE_URL: roleUrl(bench.ownerUrl, 'sluice_jobs'), WEBHOOK_ALLOW_PRIVATE: '1'},
  })
  try {
    return await work()
  } finally {
    worker.kill()
    await once(worker, 'exit')
  }
}

function receive(): void {
  let isReporting = false
  const server = http.createServer((request, response) => {
    if (isReporting) {
      isReporting = false
      process.send!({arrivedAt: performance.timeOrigin + performance.now()})
    }
    request.resume().on('end', () => response.end('ok'))
  })
  process.on('disconnect', () => process.exit())
  process.on('message', () => {
    isReporting = true
  })
  server.listen(0, '127.0.0.1', () => process.send!({port: (server.address() as {port: number}).port}))
}

if (import.meta.main && process.argv[2] === 'receive') receive()
