// Webhooks: deliveries/s of the real worker process, from pending rows to recorded results, over a bare loop of undici
// and HMAC that sends the same bodies to the same receiver process and stores nothing; 50 requests in flight in both.
// Then over the same loop when it also reads the deliveries and records each result, with the plainest SQL. The
// receiver reads each body and responds 200. And the time from a commit to the request's arrival, one event at a time.
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
/** What the loop that records reads ahead, and records, at once: as much as the worker. */
const atOnce = 200
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
      const {rows} = await bench.pool.query<Message>(
        'select id, app.event_body(payload, sequence) as body from app.event order by sequence',
      )
      await bareLoop(url, rows.slice(0, count / 5)) // warm up
      const floor = await bareLoop(url, rows)
      const recording = await recordingLoop(bench, url, count)
      await makePending(bench)
      const value = await pump(bench, receiver, count)
      const after = await bareLoop(url, rows)
      const what = `webhooks, ${count.toLocaleString('en')} deliveries to one endpoint`
      report({what, value, floor: Math.max(floor, after), unit: 'deliveries/s', aim: '0.7'})
      await makePending(bench)
      const recordingFloor = Math.max(recording, await recordingLoop(bench, url, count))
      report({what: `${what}, over a loop that reads and records`, value, floor: recordingFloor, unit: 'deliveries/s'})
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

interface Message {
  /** Of the event. */
  id: string
  body: string
}

function bareLoop(url: string, messages: Message[]): Promise<number> {
  let next = 0
  return rateOf(messages.length, async agent => {
    while (next < messages.length) await send(agent, url, messages[next++]!)
  })
}

async function makePending({pool}: Bench): Promise<void> {
  await pool.query(`truncate app.delivery_attempt;
    update app.delivery set status = 'pending', attempts = 0, next_attempt_at = now(), finished_at = null`)
  await pool.query('vacuum full analyze app.delivery')
}

/** Messages/s when the loop also reads the pending deliveries, by their ids, and records them. */
async function recordingLoop({pool}: Bench, url: string, count: number): Promise<number> {
  let reading: Promise<unknown> = Promise.resolve()
  let last: string | undefined = '00000000-0000-0000-0000-000000000000'
  const waiting: (Message & {delivery: string})[] = []
  const ended: string[] = []
  const read = async () => {
    if (!last || waiting.length >= atOnce) return
    const {rows} = await pool.query({name: 'read', text: readDue, values: [last]})
    last = rows.at(-1)?.delivery
    waiting.push(...rows)
  }
  const record = () => pool.query({name: 'record', text: recordAll, values: [ended.splice(0)]})
  const lane = async (agent: Agent) => {
    for (;;) {
      if (waiting.length < atOnce) reading = reading.then(read)
      reading.catch(() => {}) // told by the lanes that wait for it
      if (!waiting.length) await reading
      const message = waiting.shift()
      if (!message) return
      await send(agent, url, message)
      ended.push(message.delivery)
      if (ended.length >= atOnce) await record()
    }
  }
  const rate = await rateOf(count, lane, record)
  const {rows} = await pool.query<{n: string}>('select count(*) as n from app.delivery_attempt')
  if (Number(rows[0]!.n) !== count) throw new Error(`${rows[0]!.n} attempts were recorded, expected ${count}`)
  return rate
}

const readDue = `select d.id as delivery, e.id, app.event_body(e.payload, e.sequence) as body
  from app.delivery d join app.event e on e.id = d.event_id where d.id > $1 order by d.id limit ${atOnce}`
const recordAll = `with attempted as (
    insert into app.delivery_attempt (delivery_id, attempted_at, duration_ms, response_status) select id, now(), 1, 200 from unnest($1::uuid[]) id)
  update app.delivery set status = 'delivered', attempts = 1, next_attempt_at = null, finished_at = now() where id = any($1::uuid[])`

/** Messages/s of as many lanes as requests may be in flight. */
async function rateOf(
  count: number,
  lane: (agent: Agent) => Promise<void>,
  end?: () => Promise<unknown>,
): Promise<number> {
  const agent = new Agent({connections: inFlight})
  const began = performance.now()
  await Promise.all(Array.from({length: inFlight}, () => lane(agent)))
  await end?.()
  const seconds = (performance.now() - began) / 1000
  await agent.close()
  return count / seconds
}

const key = Buffer.alloc(24, 7)

async function send(agent: Agent, url: string, {id, body}: Message): Promise<void> {
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
