// Transactions that expire (chain.lapse, app.attempt_fate): what proves that one can never pay, what takes the proof
// back, and what follows for its payment. The tests make Ethereum's transactions expire by height and by time, so that
// these tests need no chain that does.
import {randomUUID} from 'node:crypto'
import {setTimeout} from 'node:timers/promises'
import {afterAll, afterEach, beforeAll, beforeEach, describe, expect, test} from 'vitest'
import {assertBooks} from '../test/support/books.ts'
import {Money, networkFee} from '../test/support/money.ts'

let money: Money
let payment: {id: string; payout: string}

beforeAll(async () => {
  money = await Money.open()
  await money.db.rows(`update app.chain set attempts_exclude_by = 'expiry', ends_by = 'height' where chain = 'ETH'`)
  await money.topUp('ETH', 1_000_000)
  await money.topUp('USDC', 1_000_000)
})
afterAll(() => money.close())

beforeEach(async () => {
  const user = await money.merchant()
  await money.deposit(user.address, 1000)
  const payout = await money.claim(user)
  expect(await money.pay(payout)).toBeNull()
  const id = await money.payment(payout)
  payment = {id, payout}
})

/** Custody's entry. */
async function journal(txid: string, lifetime: {from: number; end: number; clock_ms: number}): Promise<void> {
  await money.db.rows(
    `insert into custody.journal (stream, seq, kind, subject_id, token, amount, destination, source, sender, max_fee, txid, raw, details, signed_at, hash)
     select 'ETH', 1 + (select coalesce(max(seq), 0) from custody.journal), case s.kind when 'payout' then 'pay' else 'withdraw' end,
       coalesce(s.payout_id, s.id), s.token, s.amount, s.recipient, s.source, s.fee_payer, 10, $2, '', $3, now(), ''
     from app.outgoing_payment s where s.id = $1`,
    [payment.id, txid, {lifetime}],
  )
}

/** Signs an attempt that blocks up to `end` may hold, `clockMs` from now at the latest; the worker may never get it. */
async function sign(
  end: number,
  {from = money.eth.head.height, clockMs = -60_000, stored = true} = {},
): Promise<string> {
  const txid = money.newTxid()
  await journal(txid, {from, end, clock_ms: Date.now() + clockMs})
  if (!stored) return txid
  const [{next}] = (await money.db.rows<{next: number}>(
    'select 1 + count(*)::int as next from app.outgoing_attempt where outgoing_payment_id = $1',
    [payment.id],
  )) as [{next: number}]
  expect(await money.work('store_signed', payment.id, next, 'effect', txid, '02', 990, networkFee, {})).toBe(true)
  return txid
}

const noteLapse = async (txid: string) =>
  (await money.db.rows<{done: boolean}>(`select chain.note_lapse('ETH', $1, '{}') as done`, [txid]))[0]!.done
const lapsable = async () =>
  (await money.db.rows<{txid: string}>(`select txid from chain.lapsable where chain = 'ETH' order by txid`)).map(
    ({txid}) => txid,
  )
const fate = async (txid: string) =>
  (
    await money.db.rows<{fate: string; lapsed: boolean}>('select fate, lapsed from app.attempt_fate where txid = $1', [
      txid,
    ])
  )[0]
const contested = () => money.db.rows('select attempts::int from app.contested_payment')
const outcome = async () =>
  (
    await money.db.rows<{status: string; outcome: string | null}>(
      'select status, outcome from app.outgoing_payment where id = $1',
      [payment.id],
    )
  )[0]

/** Final blocks without transactions of ours, up to a height. */
async function reach(height: number): Promise<void> {
  while (money.eth.head.height < height) await money.block([], [])
  await money.finalise()
}

/** A block with this attempt. */
async function include(txid: string, {success = true} = {}): Promise<void> {
  await money.block([], [{txid, account: money.treasury, success, fee: 7n}])
}

test('no lapse rests on a block whose transactions are not proven to be all that it holds', async () => {
  const {height: from} = money.eth.head
  const txid = await sign(from + 2, {from})
  const unproven = (height: number) =>
    money.db.rows(`insert into chain.unproven_block (chain, hash, height) values ('ETH', $1, $2)`, [
      randomUUID(),
      height,
    ])
  await reach(from + 3)
  await unproven(from) // it cannot hold it
  await unproven(from + 4) // not final, and past the end
  await unproven(from + 1)
  expect([await lapsable(), await noteLapse(txid)]).toEqual([[txid], false])
  await money.db.rows('delete from chain.unproven_block where height = $1', [from + 1])
  expect(await noteLapse(txid)).toBe(true)
  await money.db.rows('delete from chain.unproven_block')
})

test('an attempt lapses when a final block is at its end, and the clock is past it; then it is dead', async () => {
  const end = money.eth.head.height + 3
  const txid = await sign(end)
  await reach(end - 1)
  expect([await lapsable(), await noteLapse(txid), await fate(txid)]).toEqual([
    [],
    false,
    {fate: 'open', lapsed: false},
  ])
  await money.block([], []) // at the end, not final
  expect([await lapsable(), await noteLapse(txid)]).toEqual([[], false])
  await money.finalise()
  expect(await lapsable()).toEqual([txid])
  expect([await noteLapse(txid), await noteLapse(txid)]).toEqual([true, true])
  expect([await fate(txid), await lapsable()]).toEqual([{fate: 'dead', lapsed: true}, []])
})

test('an attempt does not lapse before the clock is half a minute past its end, whatever blocks say', async () => {
  const txid = await sign(money.eth.head.height + 1, {clockMs: -20_000})
  await reach(money.eth.head.height + 2)
  expect([await lapsable(), await noteLapse(txid)]).toEqual([[], false])
})

test('an attempt does not lapse if a block that could have held it was not followed', async () => {
  const [{followed}] = (await money.db.rows<{followed: number}>(
    `select followed_from as followed from chain.cursor where chain = 'ETH'`,
  )) as [{followed: number}]
  const early = await sign(money.eth.head.height, {from: followed - 2})
  const late = await sign(money.eth.head.height, {from: followed - 1})
  await reach(money.eth.head.height + 1)
  expect([await noteLapse(early), await noteLapse(late)]).toEqual([false, true])
})

describe('where a time is the end', () => {
  const at = Date.now() - 3_600_000
  const isLapsable = async (txid: string) => (await lapsable()).includes(txid)
  const blockAt = (ms: number) => money.eth.write({add: [{time: new Date(ms)}]})
  beforeEach(() => money.db.rows(`update app.chain set ends_by = 'time' where chain = 'ETH'`))
  afterEach(() => money.db.rows(`update app.chain set ends_by = 'height' where chain = 'ETH'`))

  test('an attempt lapses when the time of a final block is at its end', async () => {
    await blockAt(at - 1)
    await money.finalise()
    const txid = await sign(at)
    expect([await isLapsable(txid), await noteLapse(txid)]).toEqual([false, false])
    await blockAt(at) // not final
    expect([await isLapsable(txid), await noteLapse(txid)]).toEqual([false, false])
    await money.finalise()
    expect([await isLapsable(txid), await noteLapse(txid)]).toEqual([true, true])
  })

  test('no attempt lapses by the block to which a chain was rewound, if its time is not known', async () => {
    await blockAt(at - 10)
    await money.finalise()
    const txid = await sign(at, {from: 0})
    const {height} = money.eth.head
    await money.db.rows(`delete from chain.block where chain = 'ETH' and height = $1`, [height - 1])
    await money.rewindBelow(height)
    expect([await isLapsable(txid), await noteLapse(txid)]).toEqual([false, false])
  })
})

test('a lapse waits for whoever changes the position of the chain, and then sees what was changed', async () => {
  const end = money.eth.head.height + 1
  const txid = await sign(end)
  await reach(end)
  const other = await money.db.pool.connect()
  try {
    await other.query(`begin; update chain.cursor set halted_at = now() where chain = 'ETH'`)
    const noted = noteLapse(txid)
    await setTimeout(100)
    await other.query('commit')
    expect(await noted).toBe(false)
  } finally {
    other.release()
    await money.db.rows(`update chain.cursor set halted_at = null where chain = 'ETH'`)
  }
})

test('a payment of which an attempt lapsed is looked at again at once', async () => {
  const end = money.eth.head.height + 1
  const txid = await sign(end)
  await reach(end)
  await money.db.rows(`update app.outgoing_payment set next_step_at = now() + interval '1 hour' where id = $1`, [
    payment.id,
  ])
  await noteLapse(txid)
  expect(
    await money.db.rows('select next_step_at <= clock_timestamp() as due from app.outgoing_payment where id = $1', [
      payment.id,
    ]),
  ).toEqual([{due: true}])
})

test('a rewind that takes a lapse back waits until custody has signed by it', async () => {
  const end = money.eth.head.height + 2
  const txid = await sign(end)
  await reach(end)
  await noteLapse(txid)
  const custody = await money.db.pool.connect()
  try {
    await custody.query('begin')
    await custody.query('select custody.lock_outgoing_payment($1, 1000)', [payment.id])
    const rewound = money.rewindBelow(end)
    await setTimeout(100)
    expect(await fate(txid)).toEqual({fate: 'dead', lapsed: true})
    await custody.query('commit')
    await rewound
    expect(await fate(txid)).toEqual({fate: 'open', lapsed: false})
  } finally {
    custody.release()
  }
})

test('the incidents of another chain stay open', async () => {
  const [incident] = await money.db.rows<{id: string}>(
    `insert into app.incident (chain, kind, subject, details)
     values (null, 'contested_payment', 'POLYGON:' || $1, jsonb_build_object('payment', $1::text, 'attempts', 2)) returning id`,
    [randomUUID()],
  )
  await reach(money.eth.head.height + 1)
  expect(await money.incidents()).toEqual(['contested_payment'])
  await money.db.rows('delete from app.incident where id = $1', [incident!.id])
})

test('an attempt that is in a block does not lapse, nor does any while the chain is halted', async () => {
  const end = money.eth.head.height + 1
  const [held, other] = [await sign(end), await sign(end)]
  await include(held)
  await money.finalise()
  expect(await noteLapse(held)).toBe(false)
  await money.db.rows(`update chain.cursor set halted_at = now() where chain = 'ETH'`)
  expect(await noteLapse(other)).toBe(false)
  await money.db.rows(`update chain.cursor set halted_at = null where chain = 'ETH'`)
  expect(await noteLapse(other)).toBe(true)
})

test('only what custody signed with an end can lapse', async () => {
  await expect(noteLapse('0xunknown')).rejects.toThrow('custody signed no transaction 0xunknown on ETH that expires')
})

test('a rewind below its final block takes a lapse back; with a later attempt the payment is contested until one is final', async () => {
  const end = money.eth.head.height + 2
  const first = await sign(end)
  await reach(end)
  expect(await noteLapse(first)).toBe(true)
  const second = await sign(end + 20)
  expect(await contested()).toEqual([])
  await money.rewindBelow(end)
  expect([await fate(first), await contested()]).toEqual([{fate: 'open', lapsed: false}, [{attempts: 2}]])
  expect(await money.incidents()).toEqual(['contested_payment'])
  expect(await money.db.rows('select app.why_halted($1) as why', ['ETH'])).toEqual([{why: null}]) // others are paid
  await include(second)
  expect(await money.incidents()).toEqual(['contested_payment'])
  await money.finalise()
  expect([await contested(), await money.incidents()]).toEqual([[], []])
  expect([await money.status(payment.payout), await outcome()]).toEqual([
    'completed',
    {status: 'final', outcome: 'done'},
  ])
  await assertBooks(money.db)
})

test('a payment is not contested any more once all of its attempts but one are proven to have expired again', async () => {
  const end = money.eth.head.height + 2
  const first = await sign(end)
  await reach(end)
  await noteLapse(first)
  await sign(end + 20)
  await money.rewindBelow(end)
  expect(await money.incidents()).toEqual(['contested_payment'])
  await reach(end + 1)
  expect(await noteLapse(first)).toBe(true)
  expect([await contested(), await money.incidents()]).toEqual([[], []])
})

test('a failed attempt ends its payment only when no other attempt can pay', async () => {
  const end = money.eth.head.height + 3
  const [failed, open] = [await sign(end), await sign(end)]
  await include(failed, {success: false})
  await money.finalise()
  expect(await outcome()).toEqual({status: 'live', outcome: null})
  await reach(end)
  expect(await noteLapse(open)).toBe(true)
  await reach(end + 1)
  expect([await outcome(), await money.status(payment.payout)]).toEqual([
    {status: 'final', outcome: 'reverted'},
    'failed transaction_reverted',
  ])
})

test('a failed attempt ends its payment in the moment in which the last other one is proven to have expired', async () => {
  const end = money.eth.head.height + 3
  const [failed, open] = [await sign(end), await sign(end)]
  await include(failed, {success: false})
  await money.finalise()
  await reach(end)
  expect(await outcome()).toEqual({status: 'live', outcome: null})
  expect(await noteLapse(open)).toBe(true)
  expect([await outcome(), await money.status(payment.payout)]).toEqual([
    {status: 'final', outcome: 'reverted'},
    'failed transaction_reverted',
  ])
  await assertBooks(money.db)
})

test('the fee of a failed attempt is in the books, also if another attempt pays', async () => {
  const end = money.eth.head.height + 30
  const [failed, paid] = [await sign(end), await sign(end)]
  const before = await money.operatorFunds('ETH')
  await include(failed, {success: false})
  await include(paid)
  await money.finalise()
  expect([await outcome(), await money.status(payment.payout)]).toEqual([
    {status: 'final', outcome: 'done'},
    'completed',
  ])
  expect([await money.operatorFunds('ETH'), await money.incidents()]).toEqual([before + networkFee - 14, []])
  await assertBooks(money.db)
})

describe('a transaction that was proven to have expired, and is in a block all the same', () => {
  const lapsed = async () => {
    const end = money.eth.head.height + 2
    const txid = await sign(end)
    await reach(end)
    expect(await noteLapse(txid)).toBe(true)
    return txid
  }
  const isHalted = async () =>
    (await money.db.rows(`select from chain.cursor where chain = 'ETH' and halted_at is not null`)).length > 0
  const isShown = async () => {
    expect([await money.incidents(), await isHalted()]).toEqual([['second_payment'], true])
    await assertBooks(money.db)
    await money.resolve('loss')
    expect([await money.incidents(), await isHalted()]).toEqual([[], false])
    await assertBooks(money.db)
  }

  test('halts the chain and completes its payment, which was paid once', async () => {
    const txid = await lapsed()
    const later = await sign(money.eth.head.height + 50)
    const before = await money.operatorFunds()
    await include(txid)
    expect(await contested()).toEqual([{attempts: 2}])
    await money.finalise()
    expect([await outcome(), await money.status(payment.payout)]).toEqual([
      {status: 'final', outcome: 'done'},
      'completed',
    ])
    expect([await money.operatorFunds(), await contested(), await fate(later)]).toEqual([
      before,
      [],
      {fate: 'open', lapsed: false},
    ])
    await isShown()
  })

  test('is a second payment if another attempt paid', async () => {
    const txid = await lapsed()
    const later = await sign(money.eth.head.height + 50)
    await include(later)
    await money.finalise()
    const before = await money.operatorFunds()
    await include(txid)
    await money.finalise()
    expect(await money.operatorFunds()).toBe(before - 990)
    await isShown()
  })

  test.each(['cancelled', 'expired'])('is a second payment if its payment ended as %s', async ended => {
    const txid = await lapsed()
    if (ended === 'cancelled') {
      await money.db.rows('select app.cancel_payout_by_operator($1)', [payment.payout])
      expect(await money.work('end_unsigned', payment.id)).toBe(true)
    } else expect(await money.work('expire_payment', payment.id, 'transaction_expired', 'it expired')).toBe(true)
    expect(await outcome()).toEqual({status: 'final', outcome: ended})
    const before = await money.operatorFunds()
    await include(txid)
    await money.finalise()
    expect(await money.operatorFunds()).toBe(before - 990)
    await isShown()
  })
})

test('a cancelled payment ends without a transaction when every attempt has lapsed, and is completed if one is in a block', async () => {
  const end = money.eth.head.height + 2
  const txid = await sign(end)
  await money.db.rows('select app.cancel_payout_by_operator($1)', [payment.payout])
  expect(await money.work('end_unsigned', payment.id)).toBe(false)
  await reach(end)
  expect(await noteLapse(txid)).toBe(true)
  expect(await money.work('end_unsigned', payment.id)).toBe(true)
  expect([await outcome(), await money.status(payment.payout)]).toEqual([
    {status: 'final', outcome: 'cancelled'},
    'failed cancelled',
  ])
  await assertBooks(money.db)
})

test('a cancelled payment does not end while a transaction that was proven to have expired is in a block all the same', async () => {
  const end = money.eth.head.height + 2
  const txid = await sign(end)
  await money.db.rows('select app.cancel_payout_by_operator($1)', [payment.payout])
  await reach(end)
  expect(await noteLapse(txid)).toBe(true)
  await include(txid, {success: false})
  expect([await fate(txid), await money.work('end_unsigned', payment.id)]).toEqual([
    {fate: 'in_block', lapsed: true},
    false,
  ])
})

test('a cancelled payment does not end without a transaction while its chain is halted', async () => {
  await money.db.rows('select app.cancel_payout_by_operator($1)', [payment.payout])
  const [other] = await money.db.rows<{id: string}>(
    `select app.begin_withdrawal('ETH', 'USDC', 5, '0xOperator', 10) as id`,
  )
  const {id} = other!
  await money.db.rows('update app.outgoing_payment set cancelling = true where id = $1', [id])
  await money.db.rows(`update chain.cursor set halted_at = now() where chain = 'ETH'`)
  expect(await money.work('end_unsigned', id)).toBe(false)
  await money.db.rows(`update chain.cursor set halted_at = null where chain = 'ETH'`)
  expect([await money.work('end_unsigned', id), await money.work('end_unsigned', id)]).toEqual([true, false])
})

test('what failed in a final block decides its payment, also if the journal came back only then', async () => {
  const txid = money.newTxid()
  await include(txid, {success: false})
  await money.finalise()
  await money.resolve('kept')
  await money.db.rows('update app.outgoing_payment set cancelling = true where id = $1', [payment.id])
  await journal(txid, {from: 0, end: money.eth.head.height + 2, clock_ms: Date.now() - 60_000})
  expect([await fate(txid), await money.work('end_unsigned', payment.id)]).toEqual([
    {fate: 'dead', lapsed: false},
    false,
  ])
  await reach(money.eth.head.height + 1)
  expect(await outcome()).toEqual({status: 'final', outcome: 'reverted'})
})

test('a withdrawal does not end while its transaction may be mined; one that failed ends only when the others cannot be', async () => {
  const [begun] = await money.db.rows<{id: string}>(
    `select app.begin_withdrawal('ETH', 'USDC', 5, '0xOperator', 10) as id`,
  )
  payment = {id: begun!.id, payout: ''}
  const end = money.eth.head.height + 3
  const [failed, open] = [await sign(end), await sign(end)]
  expect(await money.work('expire_payment', payment.id, 'transaction_expired', 'it expired')).toBe(false)
  await include(failed, {success: false})
  await money.finalise()
  expect(await outcome()).toEqual({status: 'live', outcome: null})
  await reach(end)
  await noteLapse(open)
  expect(await outcome()).toEqual({status: 'final', outcome: 'reverted'})
  await assertBooks(money.db)
})

test('a payment that cannot be signed again fails its payout once every attempt has lapsed', async () => {
  const end = money.eth.head.height + 2
  const txid = await sign(end)
  const expire = () =>
    money.work<boolean>('expire_payment', payment.id, 'transaction_expired', 'it expired three times')
  expect(await expire()).toBe(false)
  await reach(end)
  expect(await noteLapse(txid)).toBe(true)
  expect(await expire()).toBe(true)
  expect([await outcome(), await money.status(payment.payout)]).toEqual([
    {status: 'final', outcome: 'expired'},
    'failed transaction_expired',
  ])
  await assertBooks(money.db)
})

test('an operator may say that an unproven transaction is absent, past its end only, and never for a contested payment', async () => {
  const end = money.eth.head.height + 3
  const txid = await sign(end)
  const open = async () => {
    const [incident] = await money.db.rows<{id: number}>(
      `insert into app.incident (chain, kind, subject, details) values (null, 'unproven_expiry', $1, jsonb_build_object('txid', $2::text)) returning id::int`,
      [`ETH:${txid}`, txid],
    )
    return incident!.id
  }
  const id = await open()
  const decide = (incident = id) => money.db.rows(`select app.resolve_incident($1, 'absent')`, [incident])
  await expect(decide()).rejects.toThrow('a block may still hold the transaction')
  await reach(end)
  await money.db.rows(`update chain.cursor set halted_at = now() where chain = 'ETH'`)
  await expect(decide()).rejects.toThrow('ETH is halted, so its final block may be wrong')
  await money.db.rows(`update chain.cursor set halted_at = null where chain = 'ETH'`)
  const other = await sign(end + 50)
  await expect(decide()).rejects.toThrow('another transaction of the same payment may be in a block')
  await money.db.rows(
    `insert into chain.lapse (chain, txid, final_height, final_hash, evidence) values ('ETH', $1, 1, '', '{}')`,
    [other],
  )
  await include(txid, {success: false})
  const again = await open() // the first one closed by itself
  await expect(decide(again)).rejects.toThrow('a block may still hold the transaction, or holds it')
  await money.rewindBelow(money.eth.head.height)
  await decide(again)
  expect(await fate(txid)).toEqual({fate: 'dead', lapsed: true})
})

test('a lapse of one payment says nothing about another', async () => {
  const end = money.eth.head.height + 1
  const txid = await sign(end)
  await reach(end)
  await noteLapse(txid)
  expect(await money.db.rows('select from app.attempt_fate where subject_id = $1', [randomUUID()])).toEqual([])
})

test('a payout does not fail while a transaction that the worker never stored may still pay it', async () => {
  const end = money.eth.head.height + 2
  const txid = await sign(end, {stored: false})
  const [cancelled] = await money.db.rows<{how: string}>('select app.cancel_payout_by_operator($1) as how', [
    payment.payout,
  ])
  expect([cancelled!.how, await money.status(payment.payout)]).toEqual(['cancelling', 'swept'])
  await reach(end)
  expect([await noteLapse(txid), await money.work('end_unsigned', payment.id)]).toEqual([true, true])
  expect(await money.status(payment.payout)).toBe('failed cancelled')
  await assertBooks(money.db)
})

test.each([
  {success: true, status: 'completed', outcome: 'done'},
  {success: false, status: 'failed transaction_reverted', outcome: 'reverted'},
])(
  'a transaction in a final block that the worker never stored ends its payment, also a cancelled one: $outcome',
  async ended => {
    const txid = await sign(money.eth.head.height + 3, {stored: false})
    await money.db.rows('select app.cancel_payout_by_operator($1)', [payment.payout])
    await include(txid, {success: ended.success})
    await money.finalise()
    expect([await money.status(payment.payout), await outcome()]).toEqual([
      ended.status,
      {status: 'final', outcome: ended.outcome},
    ])
    await money.resolve('kept')
    await assertBooks(money.db)
  },
)
