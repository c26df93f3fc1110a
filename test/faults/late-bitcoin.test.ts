// A payment request in bitcoin whose payment offers so little that no block takes it for long, on a real node with its
// indexer and workers: the price of an order is no free option.
import {afterAll, beforeAll, expect, test} from 'vitest'
import {BitcoinWorld} from '../support/bitcoin/world.ts'
import {assertBooks} from '../support/books.ts'
import {PaymentRequests} from '../support/payment-requests.ts'
import {until} from '../support/until.ts'

let world: BitcoinWorld
beforeAll(async () => {
  world = await BitcoinWorld.open()
  await world.startWorker()
})
afterAll(() => world?.close())

test('a payment at the lowest fee is late if no block has it in time after the expiry, and counts all the same', async () => {
  const requests = await PaymentRequests.open(world.db)
  const {id: merchantId} = await world.makeShop(0, 'mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn')
  world.isMining = false
  const made = await requests.create(world.api, merchantId, {currency: 'BTC', amount: '0.001'})
  const is = (status: string) => async () => (await requests.state(made.id)).status === status
  await world.send([made.address], [100_000n], 1)
  await until(is('detected'), {timeoutMs: 30_000, what: 'the payment to be seen'})
  // As if two hours had passed: what is unconfirmed stays in time for a second after the expiry.
  await world.db.rows(
    `update app.payment_request set expires_at = clock_timestamp(), decide_at = clock_timestamp(), late_after = '1 second' where id = $1`,
    [made.id],
  )
  const isDecided = async () => {
    await world.client.mine(1, {only: []}) // the chain is read up to now
    const {expired_at, decide_at} = await requests.state(made.id)
    return expired_at !== null && decide_at === null
  }
  await until(isDecided, {timeoutMs: 30_000, what: 'the worker to decide that it is late'})
  expect(await requests.shown(world.api, merchantId, made.external_id)).toMatchObject({
    status: 'detected',
    amount_missing: '0',
    receipts: [{amount: '0.001', status: 'pending', confirmations: 0, late: true}],
  })
  // The time of a block is in whole seconds.
  const decidedAt = Date.now()
  await until(async () => Date.now() > decidedAt + 1000, {timeoutMs: 5000, what: 'the next second'})
  world.isMining = true
  await until(is('paid'), {timeoutMs: 30_000, what: 'it to be paid'})
  expect(await requests.state(made.id)).toMatchObject({late: true, received: '100000'})
  expect(await requests.events(made.id)).toEqual(['detected', 'paid'])
  await assertBooks(world.db)
})
