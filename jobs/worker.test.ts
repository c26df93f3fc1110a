// The worker as a process: how it starts, stops and dies, and what happens to its work.
import {type ChildProcess, fork} from 'node:child_process'
import {once} from 'node:events'
import type {ServerResponse} from 'node:http'
import {afterEach, beforeEach, expect, test} from 'vitest'
import {ChainWriter} from '../test/support/chain-writer.ts'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'
import {makeMerchant, makeUser} from '../test/support/people.ts'
import {until} from '../test/support/until.ts'
import {
  createEndpoint,
  createMerchant,
  deposit,
  type Merchant,
  type Receiver,
  startReceiver,
} from '../test/support/webhooks.ts'

let db: TestDatabase
let receiver: Receiver
let merchant: Merchant
let hanging: ServerResponse[]
const workers: ChildProcess[] = []

beforeEach(async () => {
  db = await testDatabase()
  receiver = await startReceiver()
  merchant = await createMerchant(db.pool)
  hanging = []
})
afterEach(async () => {
  for (const worker of workers.splice(0)) if (worker.exitCode === null) worker.kill('SIGKILL')
  await receiver.close()
  await db.drop()
})

/** A worker process, once it says that it is ready. */
async function startWorker(environment: Record<string, string> = {}): Promise<ChildProcess> {
  const worker = fork(new URL('main.ts', import.meta.url), {
    env: {
      ...process.env,
      DATABASE_URL: db.url('sluice_jobs'),
      WEBHOOK_ALLOW_PRIVATE: '1',
      LOG_LEVEL: 'silent',
      ...environment,
    },
    execArgv: [],
  })
  workers.push(worker)
  const [message] = await once(worker, 'message', {signal: AbortSignal.timeout(15_000)})
  expect(message).toEqual({ready: true})
  return worker
}

const exitOf = async (worker: ChildProcess) =>
  (await once(worker, 'exit', {signal: AbortSignal.timeout(10_000)}))[0] as number
const hang = (_request: unknown, response: ServerResponse) => void hanging.push(response)
const works = (_request: unknown, response: ServerResponse) => void response.writeHead(204).end()
const hangs = (count: number) =>
  until(async () => hanging.length >= count, {timeoutMs: 5000, what: `${count} requests to hang`})
const pending = async () =>
  (await db.rows(`select attempts from app.delivery where status = 'pending'`)) as {attempts: number}[]
async function recoverDeadPools(hungAfter = '30 seconds'): Promise<number> {
  const client = await db.pool.connect()
  try {
    await client.query('set role sluice_jobs')
    return (await client.query('select app.recover_dead_pools($1) as jobs', [hungAfter])).rows[0].jobs
  } finally {
    client.release(true)
  }
}
const allDelivered = (timeoutMs: number) =>
  until(async () => (await pending()).length === 0, {timeoutMs, what: 'everything to be delivered'})

test('deliveries of a killed worker are sent by another one within three seconds', async () => {
  receiver.response = hang
  const doomed = await startWorker()
  await createEndpoint(db.pool, merchant, {url: receiver.url})
  await deposit(db.pool, merchant, 10)
  await hangs(10)
  await startWorker()
  receiver.response = works
  doomed.kill('SIGKILL')
  await allDelivered(3000)
  expect(new Set(receiver.received.map(({headers}) => headers['webhook-id'])).size).toBe(10)
})

test('a long job of a living worker is not taken over; when the worker is killed it runs again within three seconds', async () => {
  const doomed = await startWorker()
  const blocker = await db.pool.connect()
  await blocker.query('begin; lock table app.webhook_endpoint in access exclusive mode')
  try {
    await db.pool.query(`select app.enqueue('fail_undeliverable')`)
    const job = async () =>
      (await db.rows<{locked_by: string}>('select locked_by from graphile_worker._private_jobs'))[0]
    const owner = await until(async () => (await job())?.locked_by, {timeoutMs: 5000, what: 'the job to be taken'})
    expect(await recoverDeadPools()).toBe(0)
    expect((await job())?.locked_by).toBe(owner)

    doomed.kill('SIGKILL')
    await exitOf(doomed)
    await startWorker()
    await blocker.query('commit')
    await until(async () => !(await job()), {timeoutMs: 3000, what: 'the job to be done'})
  } finally {
    blocker.release(true)
  }
})

test('a worker that loses its liveness connection exits with 70', async () => {
  const worker = await startWorker()
  const exit = exitOf(worker)
  await db.pool.query(
    `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'sluice-jobs-liveness' and datname = current_database()`,
  )
  expect(await exit).toBe(70)
})

test('a worker works on when any role announces a breaking migration that was not made, and starts again when it was', async () => {
  const worker = await startWorker()
  const announce = () => db.pool.query(`notify "worker:migrate", '{"migrationNumber": 999, "breaking": true}'`)
  const jobs = () => db.rows('select from graphile_worker._private_jobs')
  for (let i = 0; i < 20; i++) {
    await announce()
    await db.pool.query(`select app.enqueue('fail_undeliverable')`)
    await until(async () => !(await jobs()).length, {timeoutMs: 5000, what: 'the job to be done'})
  }
  expect(worker.exitCode).toBeNull()
  await db.rows('insert into graphile_worker.migrations (id, breaking) values (999, true)')
  const exit = exitOf(worker)
  await announce()
  expect(await exit).toBe(0) // blameless: the supervisor starts it again within a second
})

test('a worker that cannot take jobs starts again: graphile-worker keeps a first look at its tasks that failed', async () => {
  await db.rows('revoke select on graphile_worker._private_tasks from sluice_jobs')
  const exit = exitOf(await startWorker())
  expect(await exit).toBe(0)
  await db.rows('grant select on graphile_worker._private_tasks to sluice_jobs')
  await startWorker()
  await db.pool.query(`select app.enqueue('fail_undeliverable')`)
  const jobs = () => db.rows('select from graphile_worker._private_jobs')
  await until(async () => !(await jobs()).length, {timeoutMs: 5000, what: 'the job to be done'})
})

test('a worker that hangs is cut off by another one, which takes over; the first ends when it runs again', async () => {
  receiver.response = hang
  const stopped = await startWorker()
  await createEndpoint(db.pool, merchant, {url: receiver.url})
  await deposit(db.pool, merchant)
  await hangs(1)
  stopped.kill('SIGSTOP')
  await startWorker()
  receiver.response = works
  // The workers themselves allow 30 seconds; the liveness connection has sent a query within the last second.
  await until(
    async () => {
      await recoverDeadPools('2.5 seconds')
      return (await pending()).length === 0
    },
    {timeoutMs: 10_000, what: 'the delivery to be taken over', intervalMs: 200},
  )
  const exit = exitOf(stopped)
  stopped.kill('SIGCONT')
  expect(await exit).toBe(70)
})

test('a worker gives up a deposit that a rewind removed and a stalled chain never showed again', async () => {
  const user = await makeUser(db, await makeMerchant(db))
  const writer = await ChainWriter.open(db, 'POLYGON')
  await writer.write({add: [[{txid: 'gone', amount: 1n, recipient: user.address}]]})
  await writer.rewind(0)
  await writer.close()
  await db.rows('update chain.awaited set since = since - chain.longest_wait()')
  await startWorker()
  const isGone = async () => (await db.rows(`select from app.deposit where status = 'reorged'`)).length === 1
  await until(isGone, {timeoutMs: 10_000, what: 'the deposit to be reorged'})
})

test('SIGTERM stops a worker within five seconds; a hanging delivery stays due, as if it had not been tried', async () => {
  receiver.response = hang
  const worker = await startWorker()
  await createEndpoint(db.pool, merchant, {url: receiver.url})
  await deposit(db.pool, merchant, 2)
  await hangs(2)
  hanging[0]!.writeHead(204).end()
  const exit = exitOf(worker)
  worker.kill('SIGTERM')
  expect(await exit).toBe(0) // 1 after five seconds
  expect(await pending()).toEqual([{attempts: 0}])
  expect(await db.rows('select from app.delivery_attempt')).toHaveLength(1)
})

test.each(['SIGINT', 'the end of its parent'] as const)('%s stops a worker that has nothing to do', async how => {
  const worker = await startWorker()
  const exit = exitOf(worker)
  if (how === 'SIGINT') worker.kill(how)
  else worker.disconnect()
  expect(await exit).toBe(0) // 1 after five seconds
})

test('without WEBHOOK_ALLOW_PRIVATE a private receiver is never reached, and the attempt gives the reason', async () => {
  await startWorker({WEBHOOK_ALLOW_PRIVATE: '0'})
  await createEndpoint(db.pool, merchant, {url: receiver.url})
  await deposit(db.pool, merchant)
  const attempt = async () => (await db.rows<{error: string}>('select error from app.delivery_attempt'))[0]
  const {error} = await until(attempt, {timeoutMs: 5000, what: 'the attempt'})
  expect(error).toBe('refused: the URL leads to a private address')
  expect(receiver.received).toHaveLength(0)
})
