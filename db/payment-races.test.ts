// Payment requests while several connections work on them: one derives deposits, one expires requests, one reads.
import pg from 'pg'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {assertBooks} from '../test/support/books.ts'
import {ChainWriter} from '../test/support/chain-writer.ts'
import {Money} from '../test/support/money.ts'
import {type Made, PaymentRequests} from '../test/support/payment-requests.ts'
import {until} from '../test/support/until.ts'

let money: Money
let requests: PaymentRequests
let merchantId: string

beforeAll(async () => {
  money = await Money.open()
  requests = await PaymentRequests.open(money.db)
  merchantId = (await money.merchant()).merchantId
})
afterAll(() => money.close())

const ask = (amount = 100) => requests.create(money.api, merchantId, {amount})
/** One by one, as time does it. */
const endTimeOf = async (made: Pick<Made, 'id'>[]) => {
  for (const {id} of made)
    await money.db.rows(
      'update app.payment_request set expires_at = clock_timestamp(), decide_at = clock_timestamp() where id = $1 and decide_at is not null',
      [id],
    )
}

async function connection<T>(work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({connectionString: money.db.ownerUrl})
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}

/** Whether a connection waits for a lock. */
const isWaiting = async () =>
  (
    await money.db.rows(
      `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and state = 'active'`,
    )
  ).length > 0

test('a request that expires at the moment its last payment becomes final ends paid, in either order', async () => {
  const {id, address} = await ask()
  await money.deposit(address, 60)
  await money.deposit(address, 40, {final: false})
  await endTimeOf([{id}])
  await connection(async deriving => {
    // Has derived deposits, and has not committed.
    await deriving.query('begin')
    const {height, hash} = money.eth.head
    await deriving.query('select chain.finalise($1, $2, $3)', ['ETH', height, hash])
    await deriving.query('set constraints all immediate')
    expect(await money.work('decide_payment_requests')).toBe(0)
    // A caller that locks the request itself waits, and then sees the payment.
    const refreshed = money.db.rows('select app.refresh_payment($1)', [id])
    await until(isWaiting, {timeoutMs: 20_000, what: 'the request to be locked'})
    await deriving.query('commit')
    await refreshed
  })
  await money.work('decide_payment_requests')
  expect(await requests.state(id)).toMatchObject({status: 'paid', received: '100', pending: '0', late: false})
})

test('a payment whose deposit is derived while its request is being expired is not lost', async () => {
  const {id, address} = await ask()
  await endTimeOf([{id}])
  await connection(async judging => {
    await judging.query('begin')
    await judging.query('select app.decide_payment_requests()')
    const paid = money.deposit(address, 100)
    await until(isWaiting, {timeoutMs: 20_000, what: 'deriving to wait for the request'})
    await judging.query('commit')
    await paid
  })
  expect(await requests.state(id)).toMatchObject({status: 'paid', received: '100', late: true})
})

test("concurrent expiring, deriving deposits and merchants' reads cause no deadlock, lose nothing, and happen once", async () => {
  const made: Made[] = []
  for (let n = 0; n < 60; n++) made.push(await ask())
  let isOver = false
  const worker = async () => {
    let judged = 0
    while (!isOver) judged += await money.work<number>('decide_payment_requests', 7)
    return judged
  }
  const workers = [worker(), worker(), worker()]
  const asking = Promise.all(Array.from({length: 20}, () => ask()))
  for (let n = 0; n < made.length; n += 15) {
    const some = made.slice(n, n + 15)
    const transfers = some.flatMap(({address: recipient}, k) =>
      [60n, 40n].slice(0, k % 3).map(amount => ({txid: money.newTxid(), amount, recipient})),
    )
    await money.block(transfers.toReversed(), [])
    await Promise.all([endTimeOf(some), money.finalise()])
  }
  const due = `select from app.payment_request where expires_at <= clock_timestamp() and expired_at is null and status in ('awaiting', 'detected')`
  const nothingIsDue = async () => (await money.db.rows(due)).length === 0
  await until(nothingIsDue, {timeoutMs: 20_000, what: 'every request to be decided'})
  isOver = true
  const judged = (await Promise.all(workers)).reduce((a, b) => a + b)
  await asking
  expect(judged).toBeLessThanOrEqual(made.length)
  const ended = await Promise.all(made.map(({id}) => requests.state(id)))
  expect(ended.map(({status}) => status)).toEqual(made.map((_, n) => ['expired', 'underpaid', 'paid'][(n % 15) % 3]))
  await assertBooks(money.db)
})

test('crediting a deposit on another chain does not wait for the request, which only its own chain locks', async () => {
  const {id, address} = await ask()
  const polygon = await ChainWriter.open(money.db, 'POLYGON')
  await polygon.write({add: [[{txid: '0xother', token: 'POL', amount: 100n, recipient: address}]]})
  await polygon.finalise(polygon.head.height)
  await connection(async deriving => {
    await deriving.query('begin')
    await deriving.query('select from app.payment_request where id = $1 for update', [id])
    await connection(async operator => {
      await operator.query(`set lock_timeout = '2s'`)
      await operator.query(`select app.credit_unattributed(id) from app.deposit where txid = '0xother'`)
    })
  })
  expect(await requests.state(id)).toMatchObject({status: 'awaiting', received: '0'})
  await polygon.close()
  await assertBooks(money.db)
})

test('of forty simultaneous requests with seven addresses left, seven get one each, and the others store nothing', async () => {
  const count = async (what: string) => (await money.db.rows(`select from ${what}`)).length
  const before = await count('app.payment_request')
  await money.db.rows(
    `update custody.address set retired_at = now() where taken_at is null and address not in
       (select address from custody.address where taken_at is null and family = 'evm' order by random() limit 7)`,
  )
  const responses = await Promise.allSettled(Array.from({length: 40}, () => ask()))
  const made = responses.flatMap(response => (response.status === 'fulfilled' ? [response.value.address] : []))
  expect(new Set(made).size).toBe(7)
  expect(responses.flatMap(response => (response.status === 'rejected' ? [response.reason.code] : []))).toEqual(
    Array(33).fill('SL503'),
  )
  expect(await count('app.payment_request')).toBe(before + 7)
  expect(
    await count(`app.payment_request r where not exists (select from app.address a where a.payment_request_id = r.id)`),
  ).toBe(0)
})
