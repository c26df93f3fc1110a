// Payment requests that are paid in bitcoin: payments that are in no block yet, payments that were read late, and
// payments that were read again from another source.
import pg from 'pg'
import {afterAll, beforeAll, beforeEach, expect, test} from 'vitest'
import {ChainWriter} from '../test/support/chain-writer.ts'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'
import {type Made, PaymentRequests} from '../test/support/payment-requests.ts'
import {makeMerchant} from '../test/support/people.ts'

let db: TestDatabase
let api: pg.Pool
let writer: ChainWriter
let requests: PaymentRequests
let merchantId: string
let made: Made

beforeAll(async () => {
  db = await testDatabase()
  api = new pg.Pool({connectionString: db.url('sluice_api')})
  writer = await ChainWriter.open(db, 'BTC')
  requests = await PaymentRequests.open(db)
  merchantId = await makeMerchant(db, ['BTC'])
  await db.rows(
    `insert into custody.address (address, family, derivation_index)
     select 'bcrt1qpool' || n, 'bitcoin', n from generate_series(1, 20) n`,
  )
})
beforeEach(async () => {
  made = await requests.create(api, merchantId, {currency: 'BTC', amount: '0.00001000'})
})
afterAll(async () => {
  await writer.close()
  await api.end()
  expect(await db.rows('select name, found from app.audit_checks() where count > 0')).toEqual([])
  await db.drop()
})

let count = 0
const newTxid = () => `tx${++count}`
const coinOf = (txid: string) => `${txid}-coin:0`
const transfer = (txid: string, amount = 1000n) => ({txid, token: 'BTC', amount, recipient: made.address})
const shown = (txid: string) => {
  const {amount, ...rest} = transfer(txid)
  return {...rest, amount: String(amount), output_index: 0, sender: 'bcrt1qpayer', inputs: [coinOf(txid)]}
}
const poll = (...txids: string[]) =>
  writer.query(`select chain.note_unconfirmed('BTC', $1)`, [JSON.stringify(txids.map(shown))])
const state = () => requests.state(made.id)

/** A block with these payments, and with other transactions that spend these outputs. */
async function mine(txids: string[], spent: string[] = [], time?: Date): Promise<void> {
  const outpoints = [...txids.map(coinOf), ...spent]
  const also = () =>
    writer.query(`select chain.note_mined('BTC', $1, $2, $3)`, [
      JSON.stringify(txids.map(shown)),
      [...txids, ...spent.map(() => newTxid())],
      outpoints,
    ])
  await writer.write({add: [{transfers: txids.map(txid => transfer(txid)), ...(time && {time})}], also})
}

test('an unconfirmed payment is detected without confirmations, and pays when it is final', async () => {
  const txid = newTxid()
  await poll(txid)
  expect(await state()).toMatchObject({status: 'detected', pending: '1000', received: '0'})
  const [found] = await db.rows<{body: string}>('select body from app.read_payment_request($1, $2)', [
    merchantId,
    made.external_id,
  ])
  expect(JSON.parse(found!.body).receipts).toMatchObject([{txid, status: 'pending', confirmations: 0, late: false}])
  await mine([txid])
  expect(await state()).toMatchObject({status: 'detected', pending: '1000'})
  await writer.finalise(writer.head.height)
  expect(await state()).toMatchObject({status: 'paid', txid, late: false})
})

test('a payment that a conflicting transaction excludes does not count any more', async () => {
  const txid = newTxid()
  await poll(txid)
  await mine([], [coinOf(txid)])
  expect(await state()).toMatchObject({status: 'awaiting', pending: '0'})
  await requests.expire([made.id])
  expect(await state()).toMatchObject({status: 'expired', late: false})
})

test('a payment that was seen in time is not late, even if its request expired before its block', async () => {
  const txid = newTxid()
  await poll(txid)
  await requests.expire([made.id])
  expect(await state()).toMatchObject({status: 'detected'})
  await mine([txid])
  await writer.finalise(writer.head.height)
  expect(await state()).toMatchObject({status: 'paid', late: false})
})

/** As if the request had expired so long ago, and its payments had been seen before. */
const expiredAgo = async (ago: string) => {
  await db.rows(
    `update app.deposit set came_at = clock_timestamp() - interval '9 days' where payment_request_id = $1`,
    [made.id],
  )
  await requests.expire([made.id], ago)
}

test('a payment that was seen in time is late if no block has it two hours after the expiry, whatever block has it then', async () => {
  const txid = newTxid()
  await poll(txid)
  await expiredAgo('119 minutes')
  expect(await state()).toMatchObject({status: 'detected', expired_at: expect.any(Date)})
  const {explanation} = await requests.shown(api, merchantId, made.external_id)
  expect(explanation).toMatch(/^money is in no block yet; it is late if none has it by 20/)
  await mine([]) // the chain is read up to now
  await expiredAgo('121 minutes')
  expect(await state()).toMatchObject({status: 'detected', late: false}) // seen, and not final
  await mine([txid])
  await writer.finalise(writer.head.height)
  expect(await state()).toMatchObject({status: 'paid', late: true})
  expect(await requests.events(made.id)).toEqual(['detected', 'paid'])
})

test('the worker decides when money that no block takes becomes late: what is final is underpaid then', async () => {
  const [part, rest] = [newTxid(), newTxid()]
  await mine([part], [], new Date(Date.now() - 3 * 3_600_000))
  await db.rows('update app.payment_request set amount = 1500 where id = $1', [made.id])
  await writer.finalise(writer.head.height)
  await poll(rest)
  await expiredAgo('119 minutes')
  expect(await state()).toMatchObject({status: 'detected', received: '1000', pending: '1000'})
  await db.rows(
    `update app.payment_request set expires_at = expires_at - interval '2 minutes', decide_at = decide_at - interval '2 minutes' where id = $1`,
    [made.id],
  )
  await mine([]) // the chain is read up to now
  await db.rows('select app.decide_payment_requests()')
  expect(await state()).toMatchObject({status: 'underpaid', late: false})
  expect(await requests.events(made.id)).toEqual(['detected', 'partially_paid', 'underpaid'])
  await mine([rest])
  await writer.finalise(writer.head.height)
  expect(await state()).toMatchObject({status: 'paid', late: true})
})

test('what no block that was read has is not late while blocks may not have been read: the request waits for them', async () => {
  const [part, rest] = [newTxid(), newTxid()]
  await mine([part], [], new Date(Date.now() - 20 * 3_600_000))
  await db.rows('update app.payment_request set amount = 1500 where id = $1', [made.id])
  await writer.finalise(writer.head.height)
  await poll(rest)
  await db.rows(`update chain.cursor set head_time = clock_timestamp() - interval '9 hours' where chain = 'BTC'`)
  await expiredAgo('8 hours')
  expect(await state()).toMatchObject({status: 'detected', decide_at: expect.any(Date)})
  expect((await state()).decide_at!.getTime()).toBeGreaterThan(Date.now() + 5000) // and is asked about again, not all the time
  await mine([rest], [], new Date(Date.now() - 7 * 3_600_000))
  await writer.finalise(writer.head.height)
  expect(await state()).toMatchObject({status: 'paid', late: false})
  expect(await requests.events(made.id)).toEqual(['detected', 'partially_paid', 'paid'])
})

test('a payment whose block came within two hours stays in time when a reorganisation moves it to a later one', async () => {
  const txid = newTxid()
  await poll(txid)
  await expiredAgo('3 hours')
  const inTime = new Date(Date.now() - 2 * 3_600_000)
  await mine([txid], [], inTime)
  expect(await state()).toMatchObject({status: 'detected'})
  await writer.write({drop: 1, add: [[]]})
  await poll(txid)
  await mine([txid])
  await writer.finalise(writer.head.height)
  expect(await state()).toMatchObject({status: 'paid', late: false})
})

test('a request from before waits for its money without an end', async () => {
  const txid = newTxid()
  await poll(txid)
  await db.rows(`update app.payment_request set late_after = 'infinity' where id = $1`, [made.id])
  await expiredAgo('3 days')
  expect(await state()).toMatchObject({status: 'detected', decide_at: null})
  await mine([txid])
  await writer.finalise(writer.head.height)
  expect(await state()).toMatchObject({status: 'paid', late: false})
})

test('a payment that a restored older database reads again, long after, is in time by the time of its block', async () => {
  await requests.expire([made.id])
  expect(await state()).toMatchObject({status: 'expired'})
  await mine([newTxid()], [], new Date(Date.now() - 3_600_000))
  await writer.finalise(writer.head.height)
  expect(await state()).toMatchObject({status: 'paid', late: false})
})

test('a block with a false time can make a payment in time, and never late', async () => {
  await mine([newTxid()], [], new Date(Date.now() + 86_400_000))
  await requests.expire([made.id])
  await writer.finalise(writer.head.height)
  expect(await state()).toMatchObject({status: 'paid', late: false})
})

test('a payment whose amount is corrected counts with the right one', async () => {
  const txid = newTxid()
  await mine([txid])
  const correct = (amount: bigint) =>
    db.rows(
      `select chain.correct_transfers('BTC', $1, $1, (select jsonb_agg(to_jsonb(t) || jsonb_build_object('amount', $3::numeric))
         from chain.transfer t where t.chain = 'BTC' and t.block_height = $1 and t.txid = $2))`,
      [writer.head.height, txid, amount],
    )
  await correct(500n)
  expect(await state()).toMatchObject({status: 'detected', pending: '500'})
  await correct(1000n)
  await writer.finalise(writer.head.height)
  expect(await state()).toMatchObject({status: 'paid', received: '1000'})
})
