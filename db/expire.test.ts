// Payments whose transactions expire: what is stored of them (app.store_signed), and what follows when custody signs no
// other (app.expire_payment). The tests make Ethereum's transactions expire by height and by time, so that these tests
// need no chain that does.
import {setTimeout} from 'node:timers/promises'
import {afterAll, afterEach, beforeAll, expect, test} from 'vitest'
import {assertBooks} from '../test/support/books.ts'
import {Money, networkFee} from '../test/support/money.ts'
import type {TestUser} from '../test/support/people.ts'

const destination = '0xSender'

let money: Money

beforeAll(async () => {
  money = await Money.open()
  await money.db.rows(`update app.chain set attempts_exclude_by = 'expiry', ends_by = 'height' where chain = 'ETH'`)
  await money.topUp('ETH', 1_000_000)
  await money.topUp('USDC', 1_000_000)
  await money.db.rows(`insert into custody.whitelist (chain, address) values ('ETH', $1)`, [destination])
})
afterAll(() => money.close())
afterEach(() => assertBooks(money.db))

/** A payment that has begun. */
async function begin(): Promise<{id: string; payout: string; user: TestUser}> {
  const user = await money.merchant()
  await money.deposit(user.address, 1000)
  const payout = await money.claim(user)
  expect(await money.pay(payout)).toBeNull()
  return {id: await money.payment(payout), payout, user}
}

/** Custody's entry for it; blocks up to `end` may hold the transaction. */
async function journal(of: string, end = money.eth.head.height + 2): Promise<string> {
  const txid = money.newTxid()
  const lifetime = {from: money.eth.head.height, end, clock_ms: Date.now() - 60_000}
  await money.db.rows(
    `insert into custody.journal (stream, seq, kind, subject_id, token, amount, destination, source, sender, max_fee, txid, raw, details, signed_at, hash)
     select 'ETH', 1 + (select coalesce(max(seq), 0) from custody.journal), case s.kind when 'payout' then 'pay' when 'withdrawal' then 'withdraw' else s.kind end,
       case s.kind when 'payout' then s.payout_id else s.id end, s.token, s.amount, s.recipient, s.source, s.fee_payer, 10, $2, '', $3, now(), ''
     from app.outgoing_payment s where s.id = $1`,
    [of, txid, {lifetime}],
  )
  return txid
}

const store = (of: string, number: number, txid: string) =>
  money.work<boolean>('store_signed', of, number, 'effect', txid, '02', 990, networkFee, {})

/** Signs and stores the next attempt, and has it expire. */
async function lapse(of: string, number = 1): Promise<string> {
  const end = money.eth.head.height + 2
  const txid = await journal(of, end)
  expect(await store(of, number, txid)).toBe(true)
  while (money.eth.head.height < end) await money.block([], [])
  await money.finalise()
  expect(await money.db.rows(`select chain.note_lapse('ETH', $1, '{}') as done`, [txid])).toEqual([{done: true}])
  return txid
}

const expire = (of: string, code = 'custody_rejected', afterMs = 0) =>
  money.work<boolean>('expire_payment', of, code, 'it was refused', afterMs)

const ended = async (of: string) =>
  (
    await money.db.rows<{status: string; outcome: string | null}>(
      'select status, outcome from app.outgoing_payment where id = $1',
      [of],
    )
  )[0]
const expired = {status: 'final', outcome: 'expired'}

const treasury = async (token: string) =>
  (await money.db.rows<{reserved: string}>('select balance, reserved from app.treasury where token = $1', [token]))[0]

test('a transaction that is stored for its payment is not stored again', async () => {
  const {id} = await begin()
  const txid = await journal(id)
  expect([await store(id, 1, txid), await store(id, 2, txid), await store(id, 1, txid)]).toEqual([true, false, false])
  expect(await money.db.rows('select attempt from app.outgoing_attempt where txid = $1', [txid])).toEqual([
    {attempt: 1},
  ])
  expect(await store(id, 2, await journal(id))).toBe(true)
})

test('a transaction that was signed for another payment is refused', async () => {
  const [one, other] = [await begin(), await begin()]
  const txid = await journal(one.id)
  await expect(store(other.id, 1, txid)).rejects.toMatchObject({
    code: 'P0003',
    message: `transaction ${txid} was signed for another payment than ${other.id}`,
  })
  expect(await store(one.id, 1, txid)).toBe(true)
})

test('a payout does not fail while what custody signed for it, and the worker never stored, may still be mined', async () => {
  const {id, payout, user} = await begin()
  const end = money.eth.head.height + 2
  const txid = await journal(id, end)
  const fail = () => money.work<boolean>('fail_payout', payout, 'cancelled', 'because')
  expect([await fail(), await money.status(payout), await money.balance(user)]).toEqual([false, 'swept', 0])
  while (money.eth.head.height < end) await money.block([], [])
  await money.finalise()
  expect(await money.db.rows(`select chain.note_lapse('ETH', $1, '{}') as done`, [txid])).toEqual([{done: true}])
  expect([await fail(), await money.status(payout), await money.balance(user)]).toEqual([
    true,
    'failed cancelled',
    1000,
  ])
})

test('a payment that waits for what may pass is given up only so long after its last transaction expired, whatever else it waited for since', async () => {
  const {id, payout, user} = await begin()
  await lapse(id)
  expect(await expire(id, 'address_not_whitelisted', 1000)).toBe(false)
  const wait = (reason: string) => money.work('wait_outgoing_payment', id, reason, 'why', 1000)
  await wait('not_whitelisted')
  expect(await expire(id, 'address_not_whitelisted', 60_000)).toBe(false)
  await money.db.rows(
    `update chain.lapse l set lapsed_at = now() - interval '2 minutes' from app.outgoing_attempt o where o.txid = l.txid and o.outgoing_payment_id = $1`,
    [id],
  )
  await wait('head_stale')
  await wait('not_whitelisted')
  expect(await expire(id, 'address_not_whitelisted', 60_000)).toBe(true)
  expect([await ended(id), await money.status(payout), await money.balance(user)]).toEqual([
    expired,
    'failed address_not_whitelisted',
    1000,
  ])
})

test('a payment that is being cancelled is not given up for another reason', async () => {
  const {id, payout} = await begin()
  await lapse(id)
  await money.db.rows('select app.cancel_payout_by_operator($1)', [payout])
  expect(await expire(id)).toBe(false)
  expect(await money.work('end_unsigned', id)).toBe(true)
  expect(await money.status(payout)).toBe('failed cancelled')
})

test('a payment that is not being cancelled does not end because nothing was signed for it', async () => {
  const {id} = await begin()
  expect([await money.work('end_unsigned', id), await ended(id)]).toEqual([false, {status: 'allocated', outcome: null}])
})

test('a payment under way is not replaced: it has no fee to raise, and another transaction might be mined, too', async () => {
  const {id, payout} = await begin()
  await store(id, 1, await journal(id))
  await expect(money.db.rows('select app.replace_payout_by_operator($1)', [payout])).rejects.toMatchObject({
    code: 'SL422',
    message:
      'nothing is replaced on ETH: its transactions expire, and the next one is signed when no block can hold the one before',
  })
})

test('a payment with a nonce is not given up: a cancel uses the nonce up', async () => {
  const {id} = await begin()
  await money.db.rows('update app.outgoing_payment set nonce = 7777 where id = $1', [id])
  expect(await expire(id)).toBe(false)
  await money.db.rows('update app.outgoing_payment set nonce = null where id = $1', [id])
  expect(await expire(id)).toBe(true)
})

/**
 * Ends a cancelled payment while somebody else has begun a transaction with these statements, which commits a moment
 * later.
 */
async function endDuring(
  id: string,
  statements: string,
  meanwhile: () => Promise<unknown> = async () => {},
): Promise<boolean> {
  await money.db.rows('update app.outgoing_payment set cancelling = true where id = $1', [id])
  const other = await money.db.pool.connect()
  try {
    await other.query(`begin; ${statements}`)
    const done = money.work<boolean>('end_unsigned', id)
    await setTimeout(100)
    await meanwhile()
    await other.query('commit')
    return await done
  } finally {
    other.release()
  }
}

test('a payment does not end that custody is signing at that moment', async () => {
  const {id} = await begin()
  expect(await endDuring(id, `select custody.lock_outgoing_payment('${id}', 1000)`, () => journal(id))).toBe(false)
})

test('a payment ends once, whoever ends it at the same moment', async () => {
  const {id} = await begin()
  expect(await endDuring(id, `select app.end_unsigned('${id}')`)).toBe(false)
  expect(await ended(id)).toEqual({status: 'final', outcome: 'cancelled'})
})

test('a payment does not end on a chain that is being halted at that moment', async () => {
  const {id} = await begin()
  expect(await endDuring(id, `update chain.cursor set halted_at = now() where chain = 'ETH'`)).toBe(false)
  await money.db.rows(`update chain.cursor set halted_at = null where chain = 'ETH'`)
})

test('nothing is stored for a payment that is final, nor what pays for one that is being cancelled', async () => {
  const {id} = await begin()
  await money.db.rows('update app.outgoing_payment set cancelling = true where id = $1', [id])
  expect(await store(id, 1, money.newTxid())).toBe(false)
  expect(await money.work('end_unsigned', id)).toBe(true)
  expect(await money.work('store_signed', id, 1, 'cancel', money.newTxid(), '02', 0, networkFee, {})).toBe(false)
})

test('what the worker never stored ends its payment only once its block is final', async () => {
  const {id} = await begin()
  const txid = await journal(id)
  await money.block([], [{txid, account: money.treasury, success: true, fee: 7n}])
  expect(await money.db.rows('select from app.outgoing_attempt where txid = $1', [txid])).toEqual([])
  await money.finalise()
  expect(await ended(id)).toEqual({status: 'final', outcome: 'done'})
  await money.resolve('kept')
})

test('a withdrawal that is given up gives back what was reserved', async () => {
  const before = [await treasury('USDC'), await treasury('ETH')]
  const [row] = await money.db.rows<{id: string}>(
    `select app.begin_withdrawal('ETH', 'USDC', 500, '0xOperator', 10) as id`,
  )
  const {id} = row!
  await lapse(id)
  expect(await treasury('USDC')).not.toEqual(before[0])
  expect(await expire(id)).toBe(true)
  expect([await ended(id), await treasury('USDC'), await treasury('ETH')]).toEqual([expired, ...before])
})

test('a payout that waits for a sweep continues when the sweep is given up, and may sweep again', async () => {
  const user = await money.merchant()
  await money.deposit(user.address, 1000)
  const payout = await money.claim(user)
  await money.work('begin_sweeping', payout)
  expect(await money.sweep(payout, [user.address])).toBeNull()
  const sweep = await money.sweepOf(user.address)
  await lapse(sweep)
  const job = `payout:${payout}`
  await money.db.rows('delete from graphile_worker._private_jobs where key = $1', [job])
  expect(await expire(sweep)).toBe(true)
  expect(await money.db.rows('select from graphile_worker._private_jobs where key = $1', [job])).toHaveLength(1)
  expect(await money.sweep(payout, [user.address])).toBeNull()
  expect(await money.sweepOf(user.address)).not.toBe(sweep)
})

test('each step of a return begins anew when it is given up, and nothing is lost', async () => {
  const {merchantId} = await money.merchant()
  const user = await money.user(merchantId, [])
  const [deposit] = await money.db.rows<{id: string}>('select id from app.deposit where txid = $1', [
    await money.deposit(user.address, 100),
  ])
  const {id} = deposit!
  await money.db.rows('select app.return_unattributed($1, $2)', [id, destination])
  const due = async () =>
    (await money.db.rows<{step: string; amount: string}>('select step, amount from app.due_return'))[0]
  const begun = async (step: 'sweep' | 'withdrawal') => {
    const values = step === 'sweep' ? [id, 100, networkFee] : [id, networkFee]
    await money.work(`begin_return_${step}`, ...values)
    const [row] = await money.db.rows<{id: string}>(
      `select ${step}_id as id from app.unattributed_decision where deposit_id = $1`,
      [id],
    )
    return row!.id
  }
  const first = await begun('sweep')
  await lapse(first)
  expect([await expire(first), await due()]).toEqual([true, {step: 'sweep', amount: '100'}])
  const sweep = await begun('sweep')
  expect(sweep).not.toBe(first)
  const txid = await journal(sweep)
  await money.work<boolean>('store_signed', sweep, 1, 'effect', txid, '02', 100, networkFee, {})
  await money.block(
    [{txid, token: 'USDC', amount: 100n, recipient: money.treasury}],
    [{txid, account: money.treasury, success: true, fee: 7n}],
  )
  await money.finalise()
  expect([await ended(sweep), await due()]).toEqual([
    {status: 'final', outcome: 'done'},
    {step: 'withdrawal', amount: '100'},
  ])
  const withdrawal = await begun('withdrawal')
  await lapse(withdrawal)
  await assertBooks(money.db)
  expect([await expire(withdrawal), await due()]).toEqual([true, {step: 'withdrawal', amount: '100'}])
  await assertBooks(money.db)
  expect(await begun('withdrawal')).not.toBe(withdrawal)
})
