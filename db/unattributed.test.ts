// Unattributed value, and what an operator decides about it: with the role of the worker and a chain that a test
// writes; the books are checked after every test.
import {afterAll, afterEach, beforeAll, describe, expect, test} from 'vitest'
import {assertBooks} from '../test/support/books.ts'
import {ChainWriter} from '../test/support/chain-writer.ts'
import {Money, networkFee} from '../test/support/money.ts'
import {PaymentRequests} from '../test/support/payment-requests.ts'
import {makeMerchant, type TestUser, watchAddress} from '../test/support/people.ts'

const destination = '0xSender'

let money: Money

beforeAll(async () => {
  money = await Money.open()
  await money.topUp('ETH', 1_000_000)
  await money.db.rows(`insert into custody.whitelist (chain, address) values ('ETH', $1), ('ETH', '0xOther')`, [
    destination,
  ])
})
afterAll(() => money.close())
afterEach(async () => {
  await assertBooks(money.db)
  expect(await money.incidents()).toEqual([])
  expect(
    await money.db.rows('select name, found from app.audit_checks() where count > 0 and not (name = any($1))', [
      unproven,
    ]),
  ).toEqual([])
})

/** What needs custody, or a chain that was read whole: test/faults/unattributed.test.ts has both. */
const unproven = ['journal', 'whitelist', 'no_unknown_transaction', 'nonces']

interface Arrived {
  user: TestUser
  txid: string
  id: string
}

/** A final deposit at the address of a user who has no address on that chain. */
async function arrived(amount: number, token: string, {final = true} = {}): Promise<Arrived> {
  const {merchantId} = await money.merchant()
  const user = await money.user(merchantId, [])
  return {user, ...(await arrivedAt(user, amount, token, final))}
}

async function arrivedAt({address}: TestUser, amount: number, token: string, final = true) {
  const txid = await money.deposit(address, amount, {token, final})
  const [row] = await money.db.rows<{id: string}>('select id from app.deposit where txid = $1', [txid])
  return {txid, id: row!.id}
}

const credit = (id: string) => money.db.rows('select app.credit_unattributed($1)', [id])
const giveBack = (id: string, to = destination) => money.db.rows('select app.return_unattributed($1, $2)', [id, to])

/** From now on the merchant has asked for the chain. */
const enable = ({address}: TestUser) =>
  money.db.rows(`update app.address set is_provisioned = true where chain = 'ETH' and address = $1`, [address])

const decision = async (id: string) => {
  const [row] = await money.db.rows<{
    decision: string
    amount: string
    sweep_id: string
    withdrawal_id: string | null
    destination: string
  }>('select * from app.unattributed_decision where deposit_id = $1', [id])
  return row
}

const eventsOf = (id: string) =>
  money.db.rows<{type: string; version: number}>('select type, version from app.event where subject_id = $1', [id])

const treasury = async (token: string) => {
  const [row] = await money.db.rows<{balance: string; reserved: string}>(
    'select balance, reserved from app.treasury where token = $1',
    [token],
  )
  return {balance: Number(row?.balance ?? 0), reserved: Number(row?.reserved ?? 0)}
}

/** What a step waits for; undefined once it is begun. */
async function inTheWay(step: string, ...values: unknown[]): Promise<string | undefined> {
  const places = values.map((_, n) => `$${n + 1}`)
  const {rows} = await money.jobs.query(`select reason from app.begin_return_${step}(${places})`, values)
  return rows[0].reason ?? undefined
}

const beginSweep = (id: string, moved: number) => inTheWay('sweep', id, moved, networkFee)
const beginWithdrawal = (id: string) => inTheWay('withdrawal', id, networkFee)

/** Begun, mined and final; the txid. */
async function swept(id: string, moved: number, mined = {fee: 7}): Promise<void> {
  expect(await beginSweep(id, moved)).toBeUndefined()
  await money.mineFinally([(await money.attempt((await decision(id))!.sweep_id))!], mined)
}

async function withdrawn(id: string, mined = {}): Promise<string> {
  expect(await beginWithdrawal(id)).toBeUndefined()
  const txid = (await money.attempt((await decision(id))!.withdrawal_id!))!
  await money.mineFinally([txid], mined)
  return txid
}

const sent = async (txid: string) => {
  const [row] = await money.db.rows('select token, recipient, amount::int from app.outgoing_attempt where txid = $1', [
    txid,
  ])
  return row
}

test('a transfer before its chain or token was enabled stays unattributed; one afterwards is credited', async () => {
  const {user, id} = await arrived(100, 'USDC')
  await enable(user)
  await money.eth.readAgain(2)
  const [later] = await Promise.all([arrivedAt(user, 5, 'USDC')])
  const reasons = await money.db.rows(`select status, reason from analytics.unattributed where user_id = $1`, [
    `usr_${user.userId.replaceAll('-', '')}`,
  ])
  expect(reasons).toEqual([{status: 'final', reason: 'enabled_later'}])
  expect([await eventsOf(id), (await eventsOf(later!.id)).length]).toEqual([[], 2])
  expect(await money.balance(user)).toBe(5)
})

describe('a credit', () => {
  test('notifies the merchant once, raises the balance, and is paid out like any deposit', async () => {
    const {user, id} = await arrived(1000, 'USDC')
    await enable(user)
    await arrivedAt(user, 10, 'USDC')
    const before = await money.withoutAllocation(user, 'USDC', () => money.claim(user)) // at a moment when it did not count
    await credit(id)
    while (await money.allocate(user, 1));
    expect(await eventsOf(id)).toEqual([{type: 'deposit.confirmed', version: 3}])
    expect(await money.balance(user)).toBe(1000)
    const payout = await money.claim(user)
    expect(await money.db.rows('select settlement_id from app.deposit where id = $1', [id])).toEqual([
      {settlement_id: payout},
    ])
    await money.work('begin_sweeping', payout)
    expect(await money.sweep(payout, [user.address])).toBeNull()
    await money.mineFinally([(await money.attempt(await money.sweepOf(user.address)))!])
    await money.mineFinally([await money.payAndSign(payout)])
    expect(await money.status(payout)).toBe('completed')
    await money.work('fail_payout', before, 'cancelled', 'x')
    expect([await money.allocate(user, 10), await money.balance(user)]).toEqual([false, 10])
  })

  test('is refused the second time, and for deposits that are not final, unsupported, the treasury’s or unknown', async () => {
    const {id} = await arrived(1, 'USDC')
    await credit(id)
    await expect(credit(id)).rejects.toThrow('is credited to its merchant already')
    await expect(giveBack(id)).rejects.toThrow('is credited to its merchant already')
    const {id: pending} = await arrived(1, 'USDC', {final: false})
    await expect(credit(pending)).rejects.toThrow('is pending; only a final deposit can be credited or returned')
    await money.finalise()
    const {id: unsupported} = await arrived(1, '0xfa15e')
    await expect(credit(unsupported)).rejects.toThrow('has a token that Sluice does not support')
    await expect(giveBack(unsupported)).rejects.toThrow('has a token that Sluice does not support')
    const topUp = await arrivedAt({merchantId: '', userId: '', address: money.treasury}, 1, 'USDC')
    await expect(credit(topUp.id)).rejects.toThrow('is your own money')
    await expect(credit('00000000-0000-7000-8000-000000000000')).rejects.toThrow('there is no deposit dep_0000')
  })

  test('of a deposit that is lost is taken back like any other, and refused while that incident is open', async () => {
    const [lost, other] = [await arrived(30, 'USDC'), await arrived(40, 'USDC')]
    await credit(lost.id)
    await money.lose(lost.txid)
    await money.resolve('reorged')
    expect((await eventsOf(lost.id)).map(({type}) => type)).toEqual(['deposit.confirmed', 'deposit.reorged'])
    expect(await money.balance(lost.user)).toBe(0)
    await money.giveBack(lost.txid, lost.user.address, 30)
    expect(await money.balance(lost.user)).toBe(30)

    await money.lose(other.txid)
    await expect(credit(other.id)).rejects.toThrow(/incident \d+ is about dep_\w+; resolve it first/)
    await money.resolve('kept')
  })

  test('cannot be undone by any statement', async () => {
    const {id} = await arrived(1, 'USDC')
    await credit(id)
    await expect(money.db.rows('update app.deposit set credited = false where id = $1', [id])).rejects.toThrow(
      'not allowed',
    )
    const {id: other} = await arrived(1, 'USDC')
    await expect(money.db.rows('update app.deposit set credited = true where id = $1', [other])).rejects.toThrow(
      'not allowed',
    )
  })
})

describe('a return', () => {
  test('of a token sends exactly what arrived to its destination, separate from merchants’ shares and operator’s funds', async () => {
    const {id} = await arrived(1000, 'USDC')
    const [before, funds] = [await treasury('USDC'), await money.operatorFunds()]
    await giveBack(id)
    await swept(id, 1000)
    expect(await treasury('USDC')).toEqual({balance: before.balance + 1000, reserved: before.reserved + 1000})
    expect([await money.operatorFunds(), await money.db.rows('select * from app.treasury_share')]).toEqual([
      funds,
      expect.not.arrayContaining([expect.objectContaining({token: 'USDC', amount: '1000'})]),
    ])
    expect(await sent(await withdrawn(id))).toEqual({token: 'USDC', recipient: destination, amount: 1000})
    expect([await treasury('USDC'), await money.operatorFunds()]).toEqual([before, funds])
    await expect(giveBack(id)).rejects.toThrow('was returned already')
    await expect(credit(id)).rejects.toThrow('it cannot be credited')
  })

  test('of a native coin pays its network fees from its own amount, and no more', async () => {
    const {id, user} = await arrived(1000, 'ETH')
    const funds = await money.operatorFunds('ETH')
    await giveBack(id)
    expect(await beginSweep(id, 995)).toBe('not_worth_moving') // with its highest fee that is more than arrived
    await swept(id, 990)
    expect(await sent(await withdrawn(id))).toEqual({token: 'ETH', recipient: destination, amount: 990})
    expect(await money.operatorFunds('ETH')).toBe(funds - 7) // the fee of the withdrawal
    const [left] = await money.db.rows(`select sum(amount)::int as amount from app.ledger_entry where address = $1`, [
      user.address,
    ])
    expect(left).toEqual({amount: 3})
  })

  test.each(['USDC', 'ETH'])('of %s leaves the money of a merchant on the same address to its payouts', async token => {
    const {id, user} = await arrived(1000, token)
    await enable(user)
    await arrivedAt(user, 500, token)
    const payout = await money.claim(user, token, {sweepFirst: true})
    await money.work('begin_sweeping', payout)
    await giveBack(id)
    const own = token === 'ETH' ? networkFee : 0
    expect(await beginSweep(id, 1000 - own)).toBeUndefined()
    await money.work('await_sweeps', payout)
    expect(await money.db.rows('select * from app.payout_sweep where payout_id = $1', [payout])).toEqual([])
    expect(await money.sweep(payout, [user.address], token)).toBeNull() // both at once
    const {sweep_id} = (await decision(id))!
    const txids = [await money.attempt(sweep_id), await money.attempt(await otherSweep(user, sweep_id))]
    await money.mineFinally(txids.map(txid => txid!))
    await money.mineFinally([await money.payAndSign(payout)])
    expect(await money.status(payout)).toBe('completed')
    expect(await sent(await withdrawn(id))).toMatchObject({amount: 1000 - own})
  })

  async function otherSweep({address}: TestUser, not: string): Promise<string> {
    const [row] = await money.db.rows<{id: string}>(
      `select id from app.outgoing_payment where source = $1 and id <> $2 and status <> 'final'`,
      [address, not],
    )
    return row!.id
  }

  test('whose withdrawal is cancelled, or reverts, stays in the treasury, and leaves when it is requested again', async () => {
    const {id} = await arrived(100, 'USDC')
    await giveBack(id)
    await swept(id, 100)
    const held = await treasury('USDC')
    await withdrawn(id, {success: false})
    expect(await treasury('USDC')).toEqual(held)
    expect(await beginWithdrawal(id)).toBeUndefined() // not by itself
    expect(await money.db.rows('select * from app.due_return')).toEqual([])

    await giveBack(id, '0xOther')
    expect(await beginWithdrawal(id)).toBeUndefined()
    const {withdrawal_id} = (await decision(id))!
    await expect(giveBack(id)).rejects.toThrow(`sluice treasury cancel ${withdrawal_id}`)
    await money.work('cancel_outgoing_payment', withdrawal_id)
    await money.mineFinally([(await money.attempt(withdrawal_id!, {kind: 'cancel'}))!])
    expect(await treasury('USDC')).toEqual(held)

    await giveBack(id, '0xOther')
    expect(await sent(await withdrawn(id))).toEqual({token: 'USDC', recipient: '0xOther', amount: 100})
  })

  test('whose sweep fails can begin again, or be credited instead, unless its address paid for the sweep', async () => {
    const cancelled = async (token: string) => {
      const {id} = await arrived(1000, token)
      await giveBack(id)
      expect(await beginSweep(id, token === 'ETH' ? 990 : 1000)).toBeUndefined()
      const {sweep_id} = (await decision(id))!
      await expect(credit(id)).rejects.toThrow('is being returned')
      await money.work('cancel_outgoing_payment', sweep_id)
      await money.mineFinally([(await money.attempt(sweep_id, {kind: 'cancel'}))!])
      return {id, sweep_id}
    }
    const native = await cancelled('ETH')
    await expect(credit(native.id)).rejects.toThrow('cost its address 7 base units in network fees')
    await giveBack(native.id)
    await swept(native.id, 983)
    expect((await decision(native.id))!.sweep_id).not.toBe(native.sweep_id)
    expect(await sent(await withdrawn(native.id))).toMatchObject({amount: 983})

    const token = await cancelled('USDC')
    await credit(token.id)
    expect(await decision(token.id)).toMatchObject({decision: 'credit', sweep_id: null, destination: null})
  })

  test('waits for a destination on the operator’s whitelist, for fees, and while its deposit is off the chain', async () => {
    const {id, txid} = await arrived(100, 'USDC')
    await giveBack(id, '0xNobody')
    expect(await inTheWay('sweep', id, 100, 10_000_000)).toBe('insufficient_treasury_funds')
    await swept(id, 100)
    expect(await beginWithdrawal(id)).toBe('not_whitelisted')
    await giveBack(id)
    expect(await inTheWay('withdrawal', id, 10_000_000)).toBe('insufficient_treasury_funds')
    await money.lose(txid)
    await money.resolve('reorged')
    expect(await beginWithdrawal(id)).toBe('deposit_not_final')
    expect((await decision(id))!.withdrawal_id).toBeNull()
    const [{address}] = (await money.db.rows('select address from app.deposit where id = $1', [id])) as [
      {address: string},
    ]
    await money.giveBack(txid, address, 100)
    await withdrawn(id)
  })

  test('waits while the chain does not let the token leave its address', async () => {
    const {id, user} = await arrived(100, 'USDC')
    await giveBack(id)
    await money.work('block_address', 'ETH', 'USDC', user.address, 'it is frozen')
    expect(await beginSweep(id, 100)).toBe('address_blocked')
    await money.work('unblock_address', 'ETH', 'USDC', user.address)
    await swept(id, 100)
    await withdrawn(id)
  })

  test('begins once, in whichever of two workers comes first', async () => {
    const {id} = await arrived(100, 'USDC')
    await giveBack(id)
    const both = await Promise.all([beginSweep(id, 100), beginSweep(id, 100)])
    const {sweep_id} = (await decision(id))!
    expect([
      both,
      await money.db.rows(`select from app.outgoing_payment where kind = 'sweep' and status <> 'final'`),
    ]).toEqual([[undefined, undefined], [{}]])
    await money.mineFinally([(await money.attempt(sweep_id))!])
    await Promise.all([beginWithdrawal(id), beginWithdrawal(id)])
    expect(await money.db.rows(`select from app.outgoing_payment where status <> 'final'`)).toHaveLength(1)
    await money.mineFinally([(await money.attempt((await decision(id))!.withdrawal_id!))!])
  })
})

describe('a transfer to the address of a payment request in another token, on another chain, or without a transaction', () => {
  let requests: PaymentRequests
  beforeAll(async () => {
    requests = await PaymentRequests.open(money.db)
  })

  /** A request in this currency, at whose address this arrived on Ethereum. */
  async function mispaid(currency: string, amount: number, token: string) {
    const merchantId = await makeMerchant(money.db)
    const request = await requests.create(money.api, merchantId, {currency, amount: '1'})
    const who = {merchantId, userId: '', address: request.address}
    return {who, request, ...(await arrivedAt(who, amount, token))}
  }

  const shown = async (id: string) => {
    const [row] = await money.db.rows(
      'select reason, payment_request_external_id as request, user_id, decision from analytics.unattributed where deposit_id = $1',
      [`dep_${id.replaceAll('-', '')}`],
    )
    return row
  }

  test('whose token Sluice does not support says so, also as an older indexer wrote it, at an output index that means the protocol on other chains', async () => {
    const {merchantId} = await money.merchant()
    const {address: recipient} = await money.user(merchantId, ['ETH'])
    const transfer = {
      txid: 'internal-trc10',
      outputIndex: 2_000_000,
      kind: null,
      token: 'TRC10:1002000',
      amount: 6n,
      recipient,
    }
    await money.eth.write({add: [[transfer]]})
    await money.eth.finalise(money.eth.head.height)
    const shown = await money.db.rows(`select reason, token from analytics.unattributed where txid = 'internal-trc10'`)
    expect(shown).toEqual([{reason: 'unsupported_token', token: 'TRC10:1002000'}])
  })

  test('that is income from the protocol is credited only by an operator, to the merchant, and pays no request', async () => {
    const {merchantId} = await money.merchant()
    const user = await money.user(merchantId, ['ETH'])
    const request = await requests.create(money.db.pool, await makeMerchant(money.db), {currency: 'ETH', amount: '3'})
    const before = await treasury('ETH')
    const income = (txid: string, recipient: string, outputIndex: number, kind: 'protocol' | null = 'protocol') => {
      return {txid, outputIndex, kind, token: 'ETH', amount: 1000n, recipient, sender: `0x${'0'.repeat(40)}`}
    }
    const treasuryAddress = (
      await money.db.rows<{address: string}>(`select app.treasury_address('ETH') as address`)
    )[0]!.address
    await money.eth.write({
      add: [
        [income('block-fee', user.address, 2_000_000)],
        [income('block-withdrawal', request.address, 3_000_005, null)], // by an indexer of the version before
        [income('block-own', treasuryAddress, 2_000_000)],
      ],
    })
    await money.eth.finalise(money.eth.head.height)

    const found = await money.db.rows<{id: string; txid: string}>(
      `select id, txid, status, credited, exists (select from app.event e where e.subject_id = d.id) as notified
       from app.deposit d where txid like 'block-%' order by txid`,
    )
    expect(found).toMatchObject([
      {txid: 'block-fee', status: 'final', credited: false, notified: false},
      {txid: 'block-own', status: 'final'},
      {txid: 'block-withdrawal', status: 'final', credited: false, notified: false},
    ])
    const shown = await money.db.rows(
      `select txid, reason from analytics.unattributed where txid like 'block-%' order by txid`,
    )
    expect(shown).toEqual([
      {txid: 'block-fee', reason: 'protocol'},
      {txid: 'block-withdrawal', reason: 'protocol'},
    ])
    expect(await treasury('ETH')).toEqual({...before, balance: before.balance + 1000}) // the operator's own
    const status = 'select status, received from app.payment_request where external_id = $1'
    expect(await money.db.rows(status, [request.external_id])).toMatchObject([{status: 'awaiting', received: '0'}])
    const [held] = await money.db.rows(`select amount from app.ledger_holdings('ETH', array[$1]) where token = 'ETH'`, [
      user.address,
    ])
    expect(held).toEqual({amount: '1000'})

    await money.eth.readAgain(3)
    expect(await money.balance(user, 'ETH')).toBe(0)
    for (const {id, txid} of found) if (txid !== 'block-own') await credit(id)
    expect(await money.balance(user, 'ETH')).toBe(1000)
    expect(await eventsOf(found[0]!.id)).toMatchObject([{type: 'deposit.confirmed'}])
    expect(await money.db.rows(status, [request.external_id])).toMatchObject([{status: 'awaiting', received: '0'}])
  })

  test.each([
    ['ETH-USDC', 'ETH', 'wrong_token'],
    ['ETH', 'USDC', 'wrong_token'],
    ['POL', 'USDC', 'chain_not_requested'],
    ['ETH', '0xfa15e', 'unsupported_token'],
  ])('is listed with its request and reason: for %s, %s arrives: %s', async (currency, token, reason) => {
    const {id, request} = await mispaid(currency, 1000, token)
    expect(await shown(id)).toEqual({reason, request: request.external_id, user_id: null, decision: null})
  })

  test('is credited to the merchant and not to the request, and is paid out, without an event', async () => {
    const {id, who, request} = await mispaid('ETH', 1000, 'USDC')
    const before = await requests.state(request.id)
    await credit(id)
    expect(await requests.state(request.id)).toEqual(before)
    expect([await eventsOf(id), await money.balance(who)]).toEqual([[], 1000])
    expect(await shown(id)).toMatchObject({reason: 'wrong_token', request: request.external_id, decision: 'credit'})
    for (const view of ['deposits', 'payment_receipts'])
      expect(await money.db.rows(`select from analytics.${view} where deposit_uuid = $1`, [id])).toEqual([])
    await money.db.rows(`select app.set_payout_address($1, 'ETH', $2)`, [who.merchantId, destination])
    const payout = await money.claim(who)
    await money.work('begin_sweeping', payout)
    expect(await money.sweep(payout, [who.address])).toBeNull()
    await money.mineFinally([(await money.attempt(await money.sweepOf(who.address)))!])
    await money.mineFinally([await money.payAndSign(payout)])
    expect(await money.status(payout)).toBe('completed')
  })

  test('is taken back if it is lost after it was credited, without an event', async () => {
    const {id, who, txid} = await mispaid('ETH', 50, 'USDC')
    await credit(id)
    await money.lose(txid)
    await money.resolve('reorged')
    expect([await eventsOf(id), await money.balance(who)]).toEqual([[], 0])
    await money.giveBack(txid, who.address, 50)
    expect([await eventsOf(id), await money.balance(who)]).toEqual([[], 50])
  })

  test('is returned, and the money that pays the request stays', async () => {
    const {id, who, request} = await mispaid('ETH', 1000, 'USDC')
    await money.block([{txid: money.newTxid(), token: 'ETH', amount: 10n ** 18n, recipient: who.address}], [])
    await money.finalise()
    await giveBack(id)
    await swept(id, 1000)
    expect(await sent(await withdrawn(id))).toEqual({token: 'USDC', recipient: destination, amount: 1000})
    expect(await requests.state(request.id)).toMatchObject({status: 'paid', received: `${10n ** 18n}`})
    expect(await shown(id)).toMatchObject({decision: 'return'})
  })
})

describe('a restored older database', () => {
  /** As custody wrote it down; everything else of the return is forgotten. */
  async function forgetReturn(id: string): Promise<object[]> {
    const {sweep_id, withdrawal_id} = (await decision(id))!
    const entries = await money.db.rows(
      `select stream, seq, kind, subject_id, merchant_id, token, amount, destination, source, sender, nonce, max_fee, txid, raw, details, signed_at, hash
       from custody.journal where subject_id in ($1, $2) order by seq`,
      [sweep_id, withdrawal_id],
    )
    const forgotten = `from custody.journal where subject_id::text in ('${sweep_id}', '${withdrawal_id}')`
    await money.db.rows(`begin; set local session_replication_role = replica; -- the journal is append-only
      delete from custody.journal_key where seq in (select seq ${forgotten}); delete ${forgotten}; commit`)
    await money.db.rows('delete from app.outgoing_attempt where outgoing_payment_id in ($1, $2)', [
      sweep_id,
      withdrawal_id,
    ])
    await money.db.rows('delete from app.unattributed_decision where deposit_id = $1', [id])
    for (const {id: outgoingPayment} of await money.db.rows<{id: string}>(
      'select id from app.outgoing_payment where id in ($1, $2)',
      [sweep_id, withdrawal_id],
    )) {
      await money.db.rows(
        `with gone as (delete from app.outgoing_payment where id = $1 returning *)
         update app.treasury t set reserved = reserved - case when g.kind = 'withdrawal' and t.token = g.token then g.amount else 0 end
           - case when t.token = 'ETH' and g.fee_payer = $2 then g.max_fee else 0 end from gone g`,
        [outgoingPayment, money.treasury],
      )
    }
    return entries
  }

  test('that forgot a return recovers it from custody’s journal: the merchant gets nothing, and nothing is returned twice', async () => {
    const {id, user} = await arrived(1000, 'ETH')
    await giveBack(id)
    expect(await beginSweep(id, 990)).toBeUndefined()
    const sweep = (await money.attempt((await decision(id))!.sweep_id))!
    const {sweep_id} = (await decision(id))!
    const entries = await forgetReturn(id)
    await money.db.rows(`delete from app.sender where address = $1`, [user.address])
    await money.db.rows('select custody.reconcile($1)', [JSON.stringify(entries)])
    expect(await decision(id)).toMatchObject({decision: 'return', amount: '1000', sweep_id, destination: null})
    expect(await money.db.rows('select merchant_id from app.outgoing_payment where id = $1', [sweep_id])).toEqual([
      {merchant_id: null},
    ])
    await expect(credit(id)).rejects.toThrow('is being returned')
    await money.mineFinally([sweep])
    expect(await money.db.rows('select * from app.treasury_share where merchant_id = $1', [user.merchantId])).toEqual(
      [],
    )
    expect(await money.db.rows('select * from app.due_return')).toEqual([]) // until it is said where to
    await giveBack(id)
    await withdrawn(id)
  })

  test('that also forgot the deposit recovers its return as soon as the chain is read again', async () => {
    const {merchantId} = await money.merchant()
    const user = await money.user(merchantId, [])
    const txid = money.newTxid()
    const subject = await money.db.rows<{id: string}>(
      `select id from app.return_outgoing_payment_ids(jsonb_populate_record(null::app.deposit, $1), 'sweep') where n = 0`,
      [JSON.stringify({chain: 'ETH', txid, output_index: 0, address: user.address, token: 'ETH'})],
    )
    const signed = {kind: 'sweep', subject_id: subject[0]!.id, merchant_id: merchantId, token: 'ETH', amount: 990}
    const where = {destination: money.treasury, source: user.address, sender: user.address, nonce: 0, max_fee: 10}
    const details = {max_fee_per_gas: '1', max_priority_fee_per_gas: '1', gas_limit: 10}
    const sweep = money.newTxid()
    const [{n}] = (await money.db.rows(
      `select coalesce(max(seq), 0)::int as n from custody.journal where stream = 'ETH'`,
    )) as [{n: number}]
    const at = {stream: 'ETH', seq: n + 1, txid: sweep, raw: '0x02', signed_at: new Date().toISOString(), hash: 'x'}
    await money.db.rows('select custody.reconcile($1)', [JSON.stringify([{...at, ...signed, ...where, details}])])
    await money.block([{txid, token: 'ETH', amount: 1000n, recipient: user.address}], [])
    await money.mineFinally([sweep])
    const [row] = await money.db.rows<{id: string}>('select id from app.deposit where txid = $1', [txid])
    expect(await decision(row!.id)).toMatchObject({decision: 'return', amount: '990', destination: null})
    expect(await money.db.rows('select * from app.treasury_share where merchant_id = $1', [merchantId])).toEqual([])
    await giveBack(row!.id)
    await withdrawn(row!.id)
  })

  /** Entries of custody's journal, one after the other, with what each needs besides. */
  async function recover(entries: object[]): Promise<void> {
    const [last] = await money.db.rows<{n: number}>(
      `select coalesce(max(seq), 0)::int as n from custody.journal where stream = 'ETH'`,
    )
    const details = {max_fee_per_gas: '1', max_priority_fee_per_gas: '1', gas_limit: 10}
    const signed = entries.map((entry, k) => {
      const seq = last!.n + 1 + k
      const at = {stream: 'ETH', seq, txid: money.newTxid(), raw: '0x02', hash: `${seq}`, token: 'ETH', max_fee: 10}
      return {...at, signed_at: new Date().toISOString(), details, ...entry}
    })
    await money.db.rows('select custody.reconcile($1)', [JSON.stringify(signed)])
  }

  /** The ids of the transactions that a return of this may take. */
  async function returnIds(txid: string, address: string, kind: string): Promise<string[]> {
    const rows = await money.db.rows<{id: string}>(
      'select id from app.return_outgoing_payment_ids(jsonb_populate_record(null::app.deposit, $1), $2) order by n',
      [JSON.stringify({chain: 'ETH', txid, output_index: 0, address, token: 'ETH'}), kind],
    )
    return rows.map(({id}) => id)
  }

  test('that forgot a failed sweep and the one after it recovers both', async () => {
    const {user, id, txid} = await arrived(1000, 'ETH')
    const [first, second] = await returnIds(txid, user.address, 'sweep')
    const by = {merchant_id: user.merchantId, source: user.address, sender: user.address}
    const [cancel, sweep] = [money.newTxid(), money.newTxid()]
    await recover([
      {...by, kind: 'sweep', subject_id: first, nonce: 0, destination: money.treasury, amount: 990},
      {...by, kind: 'cancel', subject_id: first, nonce: 0, destination: user.address, amount: 0, txid: cancel},
      {...by, kind: 'sweep', subject_id: second, nonce: 1, destination: money.treasury, amount: 980, txid: sweep},
    ])
    await money.mineFinally([cancel])
    expect(await decision(id)).toMatchObject({decision: 'return', amount: '993', sweep_id: second})
    await money.mineFinally([sweep])
    await giveBack(id)
    expect(await sent(await withdrawn(id))).toMatchObject({amount: 980})
  })

  test('that forgot a return does not credit the returned deposit, even if its chain is enabled before it is read again', async () => {
    const {merchantId} = await money.merchant()
    const user = await money.user(merchantId, [])
    const {address} = user
    const txid = money.newTxid()
    const [[sweepId], [withdrawalId]] = [
      await returnIds(txid, address, 'sweep'),
      await returnIds(txid, address, 'withdrawal'),
    ]
    const [sweep, withdrawal] = [money.newTxid(), money.newTxid()]
    const {treasury: source} = money
    const [sender] = await money.db.rows<{next_nonce: number}>(
      `select next_nonce from app.sender where chain = 'ETH' and address = $1`,
      [source],
    )
    const swept = {kind: 'sweep', subject_id: sweepId, merchant_id: merchantId, txid: sweep, destination: source}
    const left = {kind: 'withdraw', subject_id: withdrawalId, txid: withdrawal, destination, source, sender: source}
    await recover([
      {...swept, source: address, sender: address, nonce: 0, amount: 990},
      {...left, nonce: sender!.next_nonce, amount: 990},
    ])
    await enable(user)
    await money.block([{txid, token: 'ETH', amount: 1000n, recipient: address}], [])
    await money.mineFinally([sweep])
    await money.mineFinally([withdrawal])
    const [row] = await money.db.rows<{id: string; credited: boolean}>('select * from app.deposit where txid = $1', [
      txid,
    ])
    expect([row!.credited, await eventsOf(row!.id), await money.balance(user, 'ETH')]).toEqual([false, [], 0])
    expect(await decision(row!.id)).toMatchObject({decision: 'return', sweep_id: sweepId, withdrawal_id: withdrawalId})
    await expect(credit(row!.id)).rejects.toThrow('was returned')
  })
})

test('an output credited on a chain with outputs can be spent from then on; it cannot be returned', async () => {
  const btc = await ChainWriter.open(money.db, 'BTC')
  const {merchantId} = await money.merchant()
  await watchAddress(money.db, merchantId, {address: 'bcrt1nobody', family: 'bitcoin', watched: ['BTC'], chains: []})
  const txid = 'ab'.repeat(32)
  await btc.write({add: [[{txid, token: 'BTC', amount: 700n, recipient: 'bcrt1nobody'}]]})
  await btc.finalise(btc.head.height)
  await btc.close()
  const [row] = await money.db.rows<{id: string}>('select id from app.deposit where txid = $1', [txid])
  await expect(giveBack(row!.id)).rejects.toThrow('Sluice cannot return value that arrived on BTC')
  await credit(row!.id)
  expect(await money.db.rows('select amount::int, merchant_id from app.free_output where txid = $1', [txid])).toEqual([
    {amount: 700, merchant_id: merchantId},
  ])
})
