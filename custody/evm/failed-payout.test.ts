// A stolen worker has a payment signed, keeps the bytes to itself, and fails the payout in the database.
import pg from 'pg'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {fees, WrittenEvm} from '../../test/support/evm/written-world.ts'

let world: WrittenEvm
let jobs: pg.Client

beforeAll(async () => {
  world = await WrittenEvm.open()
  jobs = new pg.Client({connectionString: world.db.url('sluice_jobs')})
  await jobs.connect()
})
afterAll(async () => {
  await jobs.end()
  await world.close()
})

const sign = async (intent: object) => (await world.custody.ask('/sign', {intents: [intent]})).body.results[0]

test('a payment that a worker has signed, fails in the database, and sends all the same, halts no chain', async () => {
  const merchant = await world.merchant()
  await world.deposit(world.treasury, 10n ** 18n)
  const payout = await world.swept(merchant, 10n ** 16n)
  await jobs.query('select app.begin_payment($1, $2)', [payout, String(10n ** 14n)])
  const [row] = await world.db.rows<{nonce: number}>('select nonce from app.outgoing_payment where payout_id = $1', [
    payout,
  ])
  const signed = await sign({intent: 'pay', payout_id: payout, nonce: row!.nonce, ...fees})
  expect(signed).toMatchObject({ok: true, txid: expect.any(String)})
  await jobs.query(`select app.fail_payout($1, 'timed_out', 'so says the worker')`, [payout])
  await world.include(signed.txid, row!.nonce)
  const incidents = await world.db.rows(`select kind, chain from app.incident where resolved_at is null`)
  const [state] = await world.db.rows(`select app.why_halted('ETH') as why`)
  expect({incidents, why: state!.why}).toEqual({incidents: [], why: null})
})
