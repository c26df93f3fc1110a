// The audit that a worker runs automatically: a worker process on a real database and a real node, which starts its
// audit at once.
import {type ChildProcess, fork} from 'node:child_process'
import {once} from 'node:events'
import {numberToHex} from 'viem'
import {afterAll, afterEach, beforeAll, expect, test} from 'vitest'
import {ChainWriter} from '../support/chain-writer.ts'
import {type TestDatabase, testDatabase} from '../support/database.ts'
import {Anvil} from '../support/evm/anvil.ts'
import {makeTreasury, topUp} from '../support/evm/payouts.ts'
import {makeMerchant, makeUser} from '../support/people.ts'
import {until} from '../support/until.ts'

const ether = 10n ** 18n
let db: TestDatabase
let anvil: Anvil
let eth: ChainWriter
const workers: ChildProcess[] = []

beforeAll(async () => {
  db = await testDatabase()
  anvil = await Anvil.start()
  eth = await ChainWriter.open(db, 'ETH')
  const treasury = await makeTreasury(db)
  await topUp(eth, treasury, 'ETH', 5n * ether)
  await anvil.call('anvil_setBalance', [treasury, numberToHex(5n * ether)])
  await anvil.mine(1)
  await db.rows(`update public.sluice_migration set applied_at = now() - interval '1 hour'`)
})
afterEach(async () => {
  await stopWorkers()
  await db.rows('delete from app.audit_run; delete from app.comparison')
})
afterAll(async () => {
  await eth.close()
  await anvil.stop()
  await db.drop()
})

async function startWorker(environment: Record<string, string> = {}): Promise<void> {
  const worker = fork(new URL('../../jobs/main.ts', import.meta.url), {
    env: {
      ...process.env,
      DATABASE_URL: db.url('sluice_jobs'),
      ETH_RPC_URL: anvil.wsUrl,
      ETH_USDC_CONTRACT: anvil.usdc,
      LOG_LEVEL: 'silent',
      ...environment,
    },
    execArgv: [],
  })
  workers.push(worker)
  await once(worker, 'message', {signal: AbortSignal.timeout(15_000)})
}

async function stopWorkers(): Promise<void> {
  await Promise.all(
    workers.splice(0).map(async worker => {
      worker.kill('SIGTERM')
      await once(worker, 'exit', {signal: AbortSignal.timeout(10_000)})
    }),
  )
}

interface Run {
  id: number
  error: string | null
}

/** The audit of a worker that starts now. */
async function auditOf(environment?: Record<string, string>): Promise<Run> {
  await startWorker(environment)
  const finished = () => db.rows<Run>('select id::int, error from app.audit_run where finished_at is not null')
  const [run] = await until(async () => ((await finished()).length ? finished() : undefined), {
    timeoutMs: 15_000,
    what: 'the audit to end',
  })
  await stopWorkers()
  return run!
}

const wrongIn = async ({id}: Run) =>
  (await db.rows('select name from app.audit_finding where run_id = $1 and count > 0 order by name', [id])).map(
    ({name}) => name,
  )
const incidents = () =>
  db.rows('select subject, chain, resolution from app.incident order by subject, resolution nulls first')

test('a worker audits the database and the chains, opens incidents for what is wrong, and closes them when it is fixed', async () => {
  const run = await auditOf()
  expect(run.error).toBeNull()
  expect(await wrongIn(run)).toEqual([])
  expect(await db.rows(`select count::int from app.audit_finding where name = 'on_chain_eth'`)).toEqual([{count: 0}])

  await db.rows('delete from app.audit_run')
  await db.rows(`update app.treasury set balance = balance + 1 where token = 'ETH'`)
  expect(await wrongIn(await auditOf())).toEqual(['ledger'])
  expect(await incidents()).toEqual([{subject: 'audit:ledger', chain: null, resolution: null}])

  await db.rows('delete from app.audit_run')
  await db.rows(`update app.treasury set balance = balance - 1 where token = 'ETH'`)
  expect(await wrongIn(await auditOf())).toEqual([])
  expect(await incidents()).toEqual([{subject: 'audit:ledger', chain: null, resolution: 'healed'}])
})

test('a worker finds a missed payment to an unused address between two audits', async () => {
  await auditOf()
  const {address} = await makeUser(db, await makeMerchant(db))
  await anvil.call('anvil_setBalance', [address, numberToHex(3n)])
  await eth.write({add: [[], []]})
  await anvil.mine(1 + eth.head.height)
  await eth.finalise(eth.head.height)
  await db.rows(`update app.comparison set began_at = now() - interval '25 hours', next_at = now()`)
  await startWorker()
  const [found] = await until(
    async () => {
      const rows = await db.rows(
        `select details from app.incident where subject = 'audit:on_chain_eth' and resolved_at is null`,
      )
      return rows.length ? rows : undefined
    },
    {timeoutMs: 15_000, what: 'the incident'},
  )
  expect(found!.details).toMatchObject({
    address,
    missing: '3 ETH',
    run: expect.stringMatching(/^sluice reindex --chain ETH --from \d+$/),
  })
  expect(await db.rows('select from app.audit_run')).toHaveLength(1)
  await db.rows('delete from app.incident; delete from app.chain_difference')
  await db.rows('delete from app.address where address = $1', [address])
})

test('a node that does not respond is neither right nor wrong, and opens no incident', async () => {
  const before = await incidents()
  const run = await auditOf({ETH_RPC_URL: 'http://127.0.0.1:9'})
  expect(run.error).toMatch(/^on_chain_eth: the node cannot be asked/)
  expect(await db.rows(`select from app.audit_finding where name = 'on_chain_eth'`)).toEqual([])
  expect(await incidents()).toEqual(before)
})

test('one of several workers runs the audit, once a day', async () => {
  const finished = () => db.rows('select from app.audit_run where finished_at is not null')
  await Promise.all([startWorker(), startWorker(), startWorker()])
  await until(async () => (await finished()).length, {timeoutMs: 15_000, what: 'the audit to end'})
  await stopWorkers()
  expect(await db.rows('select from app.audit_run')).toHaveLength(1)
  await db.rows(
    `update app.audit_run set started_at = now() - interval '2 days', finished_at = now() - interval '2 days'`,
  )
  await startWorker()
  await until(async () => (await finished()).length > 1, {timeoutMs: 15_000, what: 'the audit of another day'})
})

test.each([
  ['comparison', 'app.ledger_entry'],
  ['audit', 'app.idempotency_key'],
])(
  'a worker that is stopped gives up its %s within five seconds',
  async (_, table) => {
    const blocker = await db.pool.connect()
    try {
      await blocker.query(`begin; lock table ${table} in access exclusive mode`)
      await startWorker()
      const waiting = `select from pg_stat_activity
      where application_name = 'sluice-audit' and wait_event_type = 'Lock' and datname = current_database()`
      await until(async () => (await db.rows(waiting)).length, {timeoutMs: 15_000, what: 'it to wait for the table'})
      const began = performance.now()
      await stopWorkers()
      expect(performance.now() - began).toBeLessThan(5000)
      expect(await db.rows('select from app.audit_run where finished_at is not null')).toEqual([])
      const whole = await db.rows('select from app.comparison where since is not null')
      expect(whole).toHaveLength(table === 'app.ledger_entry' ? 0 : 1)
    } finally {
      await blocker.query('rollback')
      blocker.release()
    }
  },
  30_000,
)
