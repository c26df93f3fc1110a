// Every state that a payment request can be in: all combinations of tolerance, time, and of two payments, in the
// database and in a model that was written without reading the SQL. A status follows from these alone, so that all
// orders in which they come about end in one of them (payment-life.property.test.ts takes such orders).
import {afterAll, beforeAll, expect, test} from 'vitest'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'
import {makeMerchant} from '../test/support/people.ts'

const amount = 100
const smallest = 10
const tolerances = [0, 5, 20]
/**
 * Of the request: it goes on, has expired an hour or three hours ago, or was cancelled an hour ago. Late is what no
 * block has two hours later.
 */
const ends = ['none', '1 hour', '3 hours', 'cancelled'] as const
const amounts = [3, 9, 10, 79, 80, 90, 95, 98, 99, 100, 107]
/** Seen before the end or after it; in a block before, within two hours, later, or in none; pending or final. */
const lives: Life[] = [
  {seen: 'before', mined: 'never', final: false},
  {seen: 'before', mined: 'before', final: false},
  {seen: 'before', mined: 'soon', final: false},
  {seen: 'before', mined: 'later', final: false},
  {seen: 'after', mined: 'after', final: false},
  {seen: 'after', mined: 'never', final: false},
  {seen: 'before', mined: 'before', final: true},
  {seen: 'before', mined: 'soon', final: true},
  {seen: 'before', mined: 'later', final: true},
  {seen: 'after', mined: 'after', final: true},
]
type End = (typeof ends)[number]

interface Life {
  seen: 'before' | 'after'
  mined: 'never' | 'before' | 'soon' | 'later' | 'after'
  final: boolean
}
interface Payment extends Life {
  amount: number
}

interface State {
  tolerance: number
  end: End
  payments: Payment[]
}

/** What happens at times that the end of the request makes impossible is left out. */
function isPossible(end: End, {seen, mined}: Life): boolean {
  if (end === 'none') return seen === 'before' && (mined === 'never' || mined === 'before')
  if (mined === 'later') return end === '3 hours'
  return true
}

function* states(): Generator<State> {
  for (const tolerance of tolerances)
    for (const end of ends) {
      const possible = lives.filter(life => isPossible(end, life))
      yield {tolerance, end, payments: []}
      const all = possible.flatMap(life => amounts.map(amount => ({...life, amount})))
      for (const payment of all) yield {tolerance, end, payments: [payment]}
      // Of two payments, all lives, with amounts whose sums are at the limits.
      for (const one of possible)
        for (const other of possible)
          for (const [a, b] of [
            [3, 6],
            [3, 7],
            [5, 90],
            [10, 70],
            [9, 90],
            [3, 95],
            [50, 30],
          ] as const)
            yield {
              tolerance,
              end,
              payments: [
                {...one, amount: a},
                {...other, amount: b},
              ],
            }
    }
}

const sum = (payments: Payment[]) => payments.reduce((total, {amount}) => total + amount, 0)

/** The model, in the words of docs/payment-requests.md. */
function statusOf({tolerance, end, payments}: State): {status: string; late: boolean; missing: number} {
  const isLate = ({seen, mined}: Payment) =>
    end !== 'none' && (seen === 'after' || mined === 'later' || (mined === 'never' && end === '3 hours'))
  const final = payments.filter(payment => payment.final)
  const pending = payments.filter(payment => !payment.final)
  const missing = amount - sum(payments)
  const mayBeMissing = Math.max(tolerance, Math.min(smallest - 1, Math.floor(amount / 100)))
  const isEnough = (came: number) => came >= smallest && amount - came <= mayBeMissing
  const late = final.some(isLate)
  const due = isEnough(sum(payments)) ? 0 : Math.max(missing, smallest)
  const is = (status: string) => ({status, late, missing: due})
  if (isEnough(sum(final))) return is('paid')
  if (sum(payments) < smallest) return is(end === 'none' ? 'awaiting' : end === 'cancelled' ? 'cancelled' : 'expired')
  if (end === 'none' || pending.some(payment => !isLate(payment)) || sum(final) < smallest) return is('detected')
  return is('underpaid')
}

let db: TestDatabase
let merchantId: string
beforeAll(async () => {
  db = await testDatabase()
  merchantId = await makeMerchant(db, ['ETH'])
  await db.rows(`update app.asset set min_payment = ${smallest} where chain = 'ETH'`)
})
afterAll(() => db.drop())

const hoursAgo = {none: -1, '1 hour': 1, '3 hours': 3, cancelled: 1}

test('in every combination of tolerance, time and payments, the status is what the documentation says', async () => {
  const all = [...states()]
  expect(all.length).toBeGreaterThan(5000)
  const rows = all.map((state, n) => ({
    n,
    tolerance: state.tolerance,
    end: hoursAgo[state.end],
    is_cancelled: state.end === 'cancelled',
    payments: state.payments.map((payment, i) => ({
      i,
      amount: payment.amount,
      final: payment.final,
      // In hours after the end.
      seen: payment.seen === 'before' ? -0.5 : 0.5,
      mined: {never: null, before: -0.25, soon: 0.75, later: 2.5, after: 0.6}[payment.mined],
    })),
  }))
  await db.rows(
    `with asked as materialized (select * from jsonb_to_recordset($2) as a (n int, tolerance int, "end" float, is_cancelled boolean, payments jsonb)),
     made as (
       insert into app.payment_request as r (id, merchant_id, external_id, chain, token, amount, tolerance, detected_from, late_after, page_token, expires_at, cancelled_at)
       select uuidv7(), $1, a.n::text, 'ETH', 'USDC', ${amount}, a.tolerance, ${smallest}, '2 hours', 'page' || a.n,
         now() - case when a.is_cancelled then -1 else a.end end * interval '1 hour', case when a.is_cancelled then now() - a.end * interval '1 hour' end
       from asked a returning r.*
     ), watched as (
       insert into app.address (chain, match_key, address, payment_request_id, merchant_id, is_provisioned)
       select 'ETH', '0x' || m.external_id, '0x' || m.external_id, m.id, $1, true from made m
     ), paid as (
       insert into app.deposit (id, merchant_id, payment_request_id, chain, token, amount, sender, address, txid, output_index, status, credited, version,
         created_at, came_at, mined_at, finalisation, finalised_at)
       select gen_random_uuid(), $1, m.id, 'ETH', 'USDC', p.amount, '0xS', 'A', '0x' || a.n || '-' || p.i, 0, case when p.final then 'final' else 'pending' end,
         true, 1, t.end_at + p.seen * interval '1 hour', t.end_at + p.seen * interval '1 hour', t.end_at + p.mined * interval '1 hour',
         case when p.final then p.i + 1 end, case when p.final then now() end
       from asked a join made m on m.external_id = a.n::text
       cross join lateral (select least(m.expires_at, m.cancelled_at) as end_at) t
       cross join lateral jsonb_to_recordset(a.payments) as p (i int, amount int, final boolean, seen float, mined float)
       returning payment_request_id
     ) select count(*) from paid`,
    [merchantId, JSON.stringify(rows)],
  )
  await db.rows(
    `update app.payment_request set decide_at = least(expires_at, cancelled_at) where status = 'awaiting' and merchant_id = $1`,
    [merchantId],
  )
  await db.rows('select app.decide_payment_requests(10000)')
  const found = await db.rows<{n: number; status: string; late: boolean; missing: number}>(
    `select r.external_id::int as n, o.status, o.late, app.payment_missing(r)::int as missing
     from app.payment_request r cross join lateral app.payment_state(r, least(r.expires_at, r.cancelled_at) <= now()) o
     where r.merchant_id = $1 and (r.status, r.received, r.pending) = (o.status, o.received, o.pending) order by 1`,
    [merchantId],
  )
  expect(found).toHaveLength(all.length)
  const wrong = found.filter(({n, ...is}) => JSON.stringify(is) !== JSON.stringify(statusOf(all[n]!)))
  expect(wrong.slice(0, 5).map(({n, ...is}) => ({is, should: statusOf(all[n]!), state: all[n]}))).toEqual([])
})
