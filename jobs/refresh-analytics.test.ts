// The worker's role refreshes the analysts' views. A worker that ends does not wait for a refresh.
import {afterEach, beforeEach, expect, test} from 'vitest'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'
import {until} from '../test/support/until.ts'
import {analyticsRefresh} from './refresh-analytics.ts'

let db: TestDatabase

beforeEach(async () => {
  db = await testDatabase()
})
afterEach(() => db.drop())

test('a run refreshes every view that is due, with the rights of the worker', async () => {
  const refresh = analyticsRefresh(db.url('sluice_jobs'))
  await refresh.run()
  expect(await db.rows('select view_name from app.analytics_refresh where refreshed_at is null')).toEqual([])
  await refresh.run()
  refresh.stop()
})

test('days that cannot be summed up do not keep the views waiting', async () => {
  await db.rows('alter function app.sum_up_ledger_days rename to broken')
  const refresh = analyticsRefresh(db.url('sluice_jobs'))
  await expect(refresh.run()).rejects.toThrow('sum_up_ledger_days')
  expect(await db.rows('select view_name from app.analytics_refresh where refreshed_at is null')).toEqual([])
  refresh.stop()
})

test('a worker that ends gives up its refresh, and so does the server', async () => {
  const blocker = await db.pool.connect()
  await blocker.query('begin; lock table app.deposit in access exclusive mode')
  await db.rows(
    `update app.analytics_refresh set due_at = now() + interval '1 day' where view_name <> 'customer_cohorts'`,
  )
  const refresh = analyticsRefresh(db.url('sluice_jobs'))
  const run = refresh.run()
  const waiting = async () =>
    (
      await db.rows(
        `select from pg_stat_activity where application_name = 'sluice-analytics' and wait_event_type = 'Lock' and datname = current_database()`,
      )
    ).length
  await until(async () => (await waiting()) === 1, {timeoutMs: 5000, what: 'the refresh to wait for the lock'})
  refresh.stop()
  await expect(run).rejects.toThrow('the worker stops')
  await until(async () => (await waiting()) === 0, {timeoutMs: 5000, what: 'the server to give up'})
  await blocker.query('rollback')
  blocker.release()
})
