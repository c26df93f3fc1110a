// The numbers of events, without a worker. (Events that overlap in every order: jobs/webhooks/webhooks.test.ts.)
import {afterAll, beforeAll, expect, test} from 'vitest'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'
import {until} from '../test/support/until.ts'
import {createMerchant, deposit} from '../test/support/webhooks.ts'

let db: TestDatabase
beforeAll(async () => {
  db = await testDatabase()
})
afterAll(() => db.drop())

test('an event keeps its number, also if two callers number at the same time', async () => {
  const merchant = await createMerchant(db.pool)
  await deposit(db.pool, merchant)
  const [first, second] = [await db.pool.connect(), await db.pool.connect()]
  try {
    await first.query('begin')
    await first.query('select app.sequence_events()')
    const numbered = await first.query('select id, sequence from app.event')
    const later = second.query('select app.sequence_events() as sequenced')
    const isWaiting = async () =>
      (await db.rows(`select from pg_stat_activity where wait_event_type = 'Lock' and query like '%sequence_events%'`))
        .length > 0
    await until(isWaiting, {timeoutMs: 5000, what: 'the second caller to wait'})
    await first.query('commit')
    expect((await later).rows).toEqual([{sequenced: 0}])
    expect(await db.rows('select id, sequence from app.event')).toEqual(numbered.rows)
  } finally {
    first.release()
    second.release()
  }
})
