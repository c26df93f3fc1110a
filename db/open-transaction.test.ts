// What a stolen API can hold: locks that its own functions take, kept by a transaction that is never ended.
import pg from 'pg'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {WrittenEvm} from '../test/support/evm/written-world.ts'

let world: WrittenEvm
let api: pg.Client
let worker: pg.Client

beforeAll(async () => {
  world = await WrittenEvm.open()
  api = new pg.Client({connectionString: world.db.url('sluice_api')})
  worker = new pg.Client({connectionString: world.db.url('sluice_jobs')})
  await Promise.all([api.connect(), worker.connect()])
})
afterAll(async () => {
  await Promise.all([api.end(), worker.end()])
  await world.close()
})

test('a transaction of the API that cancels a payout and stays open keeps nobody else from being paid', async () => {
  const [own, other] = [await world.merchant(), await world.merchant()]
  await world.deposit(world.treasury, 10n ** 18n)
  const paid = await world.swept(other)
  const sweeping = await world.merchant()
  await world.deposit(sweeping.address, 1000n)
  const begun = await world.request(sweeping, 'ETH')
  await worker.query('select app.begin_sweeping($1)', [begun])
  await world.deposit(own.address, 1000n)
  const pending = await world.request(own, 'ETH')
  await api.query('begin')
  await api.query('set idle_in_transaction_session_timeout = 0; set statement_timeout = 0')
  await api.query(`select app.cancel_payout($1, $2)`, [own.id, pending])
  await api.query(`select app.cancel_payout($1, $2)`, [sweeping.id, begun])
  await worker.query(`set lock_timeout = '2s'`)
  await expect(worker.query('select app.begin_payment($1, $2)', [paid, '1000'])).resolves.toBeDefined()
}, 60_000)
