// What follows when a transaction of ours is final: the ledger, the owners of the treasury's money, and payouts whose
// final transaction the chain takes back. The tests use the role of the worker, and write the chain themselves; the
// books are checked after every test.
import {afterAll, afterEach, beforeAll, beforeEach, describe, expect, test} from 'vitest'
import {assertBooks} from '../test/support/books.ts'
import {gasAt, type Mined, Money} from '../test/support/money.ts'
import type {TestUser} from '../test/support/people.ts'
import {until} from '../test/support/until.ts'

let money: Money

beforeAll(async () => {
  money = await Money.open()
  await money.topUp('ETH', 1_000_000)
})
afterAll(() => money.close())
afterEach(async () => {
  await assertBooks(money.db)
  expect(await money.incidents()).toEqual([])
})

/** Withdraws the operator's own money, except the ether for network fees: the next test starts with none. */
async function spendOperatorFunds(): Promise<void> {
  const left = await money.operatorFunds()
  if (left > 0) await withdraw(left)
}

async function withdraw(amount: number, mined?: Mined): Promise<void> {
  const [outgoingPayment] = await money.db.rows<{id: string}>(
    `select app.begin_withdrawal('ETH', 'USDC', $1, '0xOperator', 10) as id`,
    [amount],
  )
  await money.mineFinally([(await money.attempt(outgoingPayment!.id))!], mined)
}

interface Rich {
  user: TestUser
  payout: string
  deposit: string
}

/** A merchant whose final deposit was claimed. */
async function claimed({amount = 1000, token = 'USDC', sweepFirst = false} = {}): Promise<Rich> {
  const user = await money.merchant()
  const deposit = await money.deposit(user.address, amount, {token})
  return {user, deposit, payout: await money.claim(user, token, {sweepFirst})}
}

/** As before, and the deposit was swept. */
async function swept(options: {amount?: number; token?: string} = {}): Promise<Rich> {
  const rich = await claimed(options)
  await money.work('begin_sweeping', rich.payout)
  await sweepFinally(rich.payout, rich.user.address, options.token)
  return rich
}

async function sweepFinally(payout: string | null, address: string, token = 'USDC', mined?: Mined): Promise<void> {
  expect(await money.sweep(payout, [address], token)).toBeNull()
  await money.mineFinally([(await money.attempt(await money.sweepOf(address, token)))!], mined)
}

const held = async (address: string, token = 'USDC') => {
  const [row] = await money.db.rows<{amount: string}>(
    'select amount from app.holding where address = $1 and token = $2',
    [address, token],
  )
  return Number(row?.amount ?? 0)
}

const share = async ({merchantId}: TestUser, token = 'USDC') => {
  const [row] = await money.db.rows<{amount: string}>(
    'select amount from app.treasury_share where merchant_id = $1 and token = $2',
    [merchantId, token],
  )
  return Number(row?.amount ?? 0)
}

const eventsOf = async (payout: string) =>
  (await money.db.rows<{type: string}>('select type from app.event where subject_id = $1', [payout])).map(e => e.type)

describe('a payment', () => {
  test('completes its payout once it is final, and not before', async () => {
    const {user, payout} = await swept()
    const before = await money.operatorFunds()
    const txid = await money.payAndSign(payout)
    await money.mine([txid])
    expect([await money.status(payout), await eventsOf(payout)]).toEqual(['paying', []])
    await money.finalise()
    expect([await money.status(payout), await eventsOf(payout)]).toEqual(['completed', ['payout.completed']])
    const [row] = await money.db.rows('select txid, net::int, network_fee::int from app.payout where id = $1', [payout])
    expect(row).toEqual({txid, net: 990, network_fee: 14}) // the sweep and the payment
    expect([await money.balance(user), await share(user), await money.operatorFunds()]).toEqual([0, 0, before + 10])
  })

  test('that leaves the chain and is mined again elsewhere completes its payout once', async () => {
    const {payout} = await swept()
    const txid = await money.payAndSign(payout)
    await money.mine([txid])
    await money.eth.write({drop: 1, add: [[], []]})
    await money.finalise()
    expect(await money.status(payout)).toBe('paying')
    await money.mineFinally([txid])
    expect([await money.status(payout), await eventsOf(payout)]).toEqual(['completed', ['payout.completed']])
  })

  test('counts whichever of its attempts confirms', async () => {
    for (const mined of [0, 1, 2]) {
      const {payout} = await swept()
      const attempts = [await money.payAndSign(payout)]
      const outgoingPayment = await money.payment(payout)
      attempts.push(
        (await money.attempt(outgoingPayment, {price: 2}))!,
        (await money.attempt(outgoingPayment, {price: 3}))!,
      )
      await assertBooks(money.db)
      await money.mineFinally([attempts[mined]!], {fee: 21})
      expect(await money.status(payout)).toBe('completed')
      expect(await money.db.rows('select txid from app.payout where id = $1', [payout])).toEqual([
        {txid: attempts[mined]},
      ])
    }
  })

  test('that is mined and reverted fails the payout, restores the balance, and costs the operator the network fee', async () => {
    const {user, payout} = await swept()
    const [tokens, ether] = [await money.operatorFunds(), await money.operatorFunds('ETH')]
    await money.mineFinally([await money.payAndSign(payout)], {success: false, fee: 9})
    expect(await money.status(payout)).toBe('failed transaction_reverted')
    expect([await money.balance(user), await share(user)]).toEqual([1000, 1000])
    expect([await money.operatorFunds(), await money.operatorFunds('ETH')]).toEqual([tokens, ether - 9])
    expect(await eventsOf(payout)).toEqual(['payout.failed'])
    await money.mineFinally([await money.payAndSign(await money.claim(user))])
    expect(await money.balance(user)).toBe(0)
  })

  test('that the operator cancels while it is paying fails once the cancel is final; if the payment is mined after all, it completes', async () => {
    for (const mined of ['effect', 'cancel']) {
      const {user, payout} = await swept()
      const effect = await money.payAndSign(payout)
      await money.db.rows('select app.cancel_payout_by_operator($1)', [payout])
      const outgoingPayment = await money.payment(payout)
      expect(await money.attempt(outgoingPayment, {price: 2})).toBeUndefined()
      const cancel = (await money.attempt(outgoingPayment, {kind: 'cancel', price: 2}))!
      await money.mineFinally([mined === 'effect' ? effect : cancel])
      expect(await money.status(payout)).toBe(mined === 'effect' ? 'completed' : 'failed cancelled')
      expect(await money.balance(user)).toBe(mined === 'effect' ? 0 : 1000)
    }
  })

  test.each(['swept', 'paying'])(
    'whose nonce an unknown transaction uses fails its payout once an operator has decided: %s',
    async state => {
      const {user, payout} = await swept()
      const before = [await money.operatorFunds(), await money.operatorFunds('ETH')]
      await money.pay(payout)
      const outgoingPayment = await money.payment(payout)
      if (state === 'paying') await money.attempt(outgoingPayment)
      const [{nonce}] = (await money.db.rows<{nonce: number}>('select nonce from app.outgoing_payment where id = $1', [
        outgoingPayment,
      ])) as [{nonce: number}]
      await money.block([], [{txid: money.newTxid(), account: money.treasury, nonce, fee: 4n}])
      expect(await money.work('why_halted', 'ETH')).toMatch(
        /^incident \d+ \(unknown_transaction\) waits for the operator$/,
      )
      expect(await money.status(payout)).toBe(state)
      await money.finalise()
      expect([await money.status(payout), await money.balance(user)]).toEqual([state, 0])
      await money.resolve('kept')
      await money.eth.readAgain(1)
      expect([await money.status(payout), await money.balance(user)]).toEqual(['failed broadcast_rejected', 1000])
      expect([await money.operatorFunds(), await money.operatorFunds('ETH')]).toEqual([before[0], before[1]! - 4])
      expect(await money.work('why_halted', 'ETH')).toBeNull()
    },
  )

  test("that is mined after an older copy, which had forgotten it, failed its payout is a second payment: the operator's loss, or by decision the merchant's debt", async () => {
    const {user, payout} = await swept()
    await money.pay(payout)
    const outgoingPayment = await money.payment(payout)
    await money.work('fail_payout', payout, 'cancelled', 'because')
    expect([await money.status(payout), await money.balance(user)]).toEqual(['failed cancelled', 1000])
    await money.db.rows(
      `insert into app.outgoing_attempt (chain, txid, outgoing_payment_id, attempt, kind, raw, token, source, recipient, amount, max_fee, fee_details)
       select chain, '0xforgotten', id, 1, 'effect', '0x', token, source, recipient, amount, 10, '{}' from app.outgoing_payment where id = $1`,
      [outgoingPayment],
    )
    await money.mineFinally(['0xforgotten'])
    expect([await money.status(payout), await money.balance(user)]).toEqual(['failed cancelled', 1000])
    expect(await money.incidents()).toEqual(['second_payment'])
    expect(await money.work('why_halted', 'ETH')).toMatch(/second_payment/)
    await money.resolve('debt')
    expect([await money.status(payout), await money.balance(user)]).toEqual(['failed cancelled', 10])
    expect(await money.work('why_halted', 'ETH')).toBeNull()
  })

  test('that custody refuses gives its nonce up to a cancel, and its payout begins another one when it may be paid', async () => {
    const {user, payout} = await swept()
    await money.pay(payout)
    const refused = await money.payment(payout)
    const setAside = () => money.work<boolean>('give_nonce_back', payout, 30_000)
    expect(await setAside()).toBe(false) // it waits for nothing
    await money.work('wait_payout', payout, 'not_whitelisted', null, 1000)
    expect(await setAside()).toBe(false) // not long enough
    await money.db.rows(`update app.payout set waiting_since = now() - interval '31 seconds' where id = $1`, [payout])
    await money.db.rows(`insert into app.incident (chain, kind, subject, details) values ('ETH', 'audit', 'x', '{}')`)
    expect(await setAside()).toBe(false) // an older copy of the database may not know what was signed
    await money.resolve('kept')
    expect(await setAside()).toBe(true)
    expect(await setAside()).toBe(false)
    await assertBooks(money.db)
    expect([await money.status(payout), await money.balance(user)]).toEqual(['swept', 0])
    const paid = await money.payAndSign(payout)
    expect(await money.payment(payout)).not.toBe(refused)
    const nothing = (await money.attempt(refused, {kind: 'cancel'}))!
    await money.mineFinally([nothing, paid])
    expect([await money.status(payout), await share(user)]).toEqual(['completed', 0])
    expect(
      await money.db.rows(
        `select state, address = app.treasury_address('ETH') as "isTreasury", network_fee > 0 as "hasFee" from analytics.cancels where cancel_id = $1`,
        [refused],
      ),
    ).toEqual([{state: 'cancelled', isTreasury: true, hasFee: true}])
    expect(await money.db.rows('select from analytics.sweeps where address = $1', [user.address])).toHaveLength(1)
    expect(await money.db.rows('select from analytics.sweeps where sweep_id = $1', [refused])).toEqual([])
  })

  test.each(['effect', 'cancel'] as const)(
    'that custody signed keeps its nonce, although the signature is not stored: %s',
    async kind => {
      const {payout} = await swept()
      await money.pay(payout)
      const outgoingPayment = await money.payment(payout)
      await money.work('wait_payout', payout, 'not_whitelisted', null, 1000)
      await money.db.rows(`update app.payout set waiting_since = now() - interval '1 hour' where id = $1`, [payout])
      await money.journal(outgoingPayment, {kind, txid: money.newTxid(), amount: 990})
      expect(await money.work('give_nonce_back', payout, 30_000)).toBe(false)
      const attempt = await money.attempt(outgoingPayment, {price: 2})
      expect(await money.db.rows('select from app.contested_payment')).toEqual([]) // the nonce serves one of them
      await money.mineFinally([attempt!])
      expect(await money.status(payout)).toBe('completed')
    },
  )

  test('that sweeps first, and then lacks what the treasury had paid in advance for its merchant, sweeps that, too', async () => {
    const {user} = await claimed({token: 'ETH'})
    const second = await money.user(user.merchantId)
    await money.deposit(second.address, 700, {token: 'ETH'})
    const payout = await money.claim(second, 'ETH', {sweepFirst: true})
    const sweepable = async () =>
      (await money.jobs.query('select address from app.sweepable($1, 100, 100)', [payout])).rows.map(row => row.address)
    await money.work('begin_sweeping', payout)
    expect(await sweepable()).toEqual([second.address])
    await sweepFinally(payout, second.address, 'ETH')
    await money.work('end_sweeping', payout)
    expect([await money.status(payout), await sweepable()]).toEqual(['swept', [user.address]])
  })

  test('refuses a transaction that was signed for another nonce', async () => {
    const [first, second] = [await swept(), await swept()]
    const outgoingPayments: string[] = []
    for (const {payout} of [first, second]) {
      await money.pay(payout)
      outgoingPayments.push(await money.payment(payout))
    }
    await money.db.rows(
      `insert into custody.journal (stream, seq, kind, sender, nonce, txid, signed_at, hash)
       select chain, 1 + (select coalesce(max(seq), 0) from custody.journal), 'pay', fee_payer, nonce, '0xfirst', now(), '' from app.outgoing_payment where id = $1`,
      [outgoingPayments[0]],
    )
    const store = (outgoingPayment: string | undefined) =>
      money.work<boolean>('store_signed', outgoingPayment, 1, 'effect', '0xfirst', '0x02', 990, ...gasAt(1))
    await expect(store(outgoingPayments[1])).rejects.toThrow('was signed with another nonce')
    expect(await store(outgoingPayments[0])).toBe(true)
    await money.mineFinally(['0xfirst'])
    await money.work('fail_payout', second.payout, 'cancelled', 'because')
  })

  test('is signed and stored in order, never after it was final, and never beyond what the treasury can pay', async () => {
    const {payout} = await swept()
    await money.pay(payout)
    const outgoingPayment = await money.payment(payout)
    const store = (number: number, price: number, txid = `0x${number}-${price}`) =>
      money.work<boolean>('store_signed', outgoingPayment, number, 'effect', txid, '0x02', 990, ...gasAt(price))
    expect(await store(2, 1)).toBe(false)
    expect(await store(1, 1)).toBe(true)
    expect(await store(1, 2)).toBe(false)
    expect(await store(2, 1_000_000)).toBe(false)
    expect(await store(2, 2)).toBe(true)
    await money.mineFinally(['0x2-2'])
    expect(await store(3, 3)).toBe(false)
  })

  test('begins once, however often it is requested, and its attempts are stored once', async () => {
    const {payout} = await swept()
    await Promise.all(Array.from({length: 8}, () => money.pay(payout)))
    const outgoingPayment = await money.payment(payout)
    const store = (txid: string) =>
      money.work<boolean>('store_signed', outgoingPayment, 1, 'effect', txid, '0x02', 990, ...gasAt(1))
    const stored = await Promise.all(['0xa1', '0xa2', '0xa3', '0xa4'].map(store))
    expect(stored.filter(Boolean)).toHaveLength(1)
    await money.mineFinally([['0xa1', '0xa2', '0xa3', '0xa4'][stored.indexOf(true)]!])
    expect(await money.status(payout)).toBe('completed')
  })
})

describe('a sweep', () => {
  test("of a token moves what its address holds to the treasury, as its merchant's share; the operator pays the fee", async () => {
    const {user, payout} = await claimed()
    await money.work('begin_sweeping', payout)
    const [tokens, ether] = [await money.operatorFunds(), await money.operatorFunds('ETH')]
    expect(await held(user.address)).toBe(1000)
    await sweepFinally(payout, user.address, 'USDC', {fee: 8})
    expect([await held(user.address), await share(user)]).toEqual([0, 1000])
    expect([await money.operatorFunds(), await money.operatorFunds('ETH')]).toEqual([tokens, ether - 8])
  })

  test('does not count as a top-up of the treasury, before it is final and after', async () => {
    const {payout, user} = await claimed()
    await money.work('begin_sweeping', payout)
    await money.sweep(payout, [user.address])
    await money.mine([(await money.attempt(await money.sweepOf(user.address)))!])
    const topUps = () => money.db.rows('select id from app.deposit where address = $1', [money.treasury])
    const before = await topUps()
    await money.finalise()
    expect(await topUps()).toEqual(before)
  })

  test('of ether pays its own fee, and the merchant still owns all that was deposited', async () => {
    const {user, payout} = await claimed({token: 'ETH'})
    const before = await money.operatorFunds('ETH')
    await money.work('begin_sweeping', payout)
    await sweepFinally(payout, user.address, 'ETH', {fee: 8})
    expect([await held(user.address, 'ETH'), await share(user, 'ETH')]).toEqual([2, 998])
    expect(await money.operatorFunds('ETH')).toBe(before - 8)
    await money.mineFinally([await money.payAndSign(payout)], {fee: 7})
    expect(await money.status(payout)).toBe('completed')
    expect(await money.operatorFunds('ETH')).toBe(before - 8 - 7 + 10 - 2) // the service fee, and 2 that stay on the address
  })

  describe('of the coin that the treasury pays for', () => {
    const setPayer = (byTreasury: boolean) =>
      money.db.rows(`update app.chain set treasury_pays_native_sweeps = $1 where chain = 'ETH'`, [byTreasury])
    beforeEach(() => setPayer(true))
    afterEach(() => setPayer(false))
    const begin = (payout: string, address: string, maxFee: string | number, paymentFee?: number) =>
      money.work('begin_sweeps', payout, 'ETH', 'ETH', [address], [1000], [maxFee], ...(paymentFee ? [paymentFee] : []))

    test('moves all that its address holds; the operator bears the fee', async () => {
      const {user, payout} = await claimed({token: 'ETH'})
      const before = await money.operatorFunds('ETH')
      await money.work('begin_sweeping', payout)
      expect(await begin(payout, user.address, 10)).toBeNull()
      const sweep = await money.sweepOf(user.address, 'ETH')
      expect(
        await money.db.rows('select fee_payer, amount::int from app.outgoing_payment where id = $1', [sweep]),
      ).toEqual([{fee_payer: money.treasury, amount: 1000}])
      expect(await money.operatorFunds('ETH')).toBe(before - 10)
      await money.mineFinally([(await money.attempt(sweep))!], {fee: 8})
      expect([await held(user.address, 'ETH'), await share(user, 'ETH')]).toEqual([0, 1000])
      expect(await money.operatorFunds('ETH')).toBe(before - 8)
      await money.mineFinally([await money.payAndSign(payout)], {fee: 7})
      expect(await money.status(payout)).toBe('completed')
      expect(await money.operatorFunds('ETH')).toBe(before - 8 - 7 + 10) // the service fee
    })

    test('costs what the account that pays for it paid, whoever else signed it', async () => {
      const {user, payout} = await claimed({token: 'ETH'})
      const before = await money.operatorFunds('ETH')
      await money.work('begin_sweeping', payout)
      await begin(payout, user.address, 10)
      const sweep = await money.sweepOf(user.address, 'ETH')
      const txid = (await money.attempt(sweep))!
      const [row] = await money.db.rows<{nonce: number}>('select nonce from app.outgoing_payment where id = $1', [
        sweep,
      ])
      const signers = [
        {txid, account: user.address, input: 1, fee: 0n},
        {txid, account: money.treasury, nonce: row!.nonce, fee: 8n},
      ]
      await money.block([{txid, token: 'ETH', amount: 1000n, recipient: money.treasury}], signers)
      await money.finalise()
      expect(await money.operatorFunds('ETH')).toBe(before - 8)
      expect(await money.db.rows('select fee::int from app.attempt_fate where txid = $1', [txid])).toEqual([{fee: 8}])
    })

    test('is not begun if the operator has less than its fee', async () => {
      const {user, payout} = await claimed({token: 'ETH'})
      await money.work('begin_sweeping', payout)
      const tooMuch = String((await money.operatorFunds('ETH')) + 1)
      expect(await begin(payout, user.address, tooMuch)).toMatch('for sweeping')
      expect(await money.db.rows('select from app.outgoing_payment where source = $1', [user.address])).toEqual([])
    })
  })

  test('may move less when it is replaced; what stays on the address can be swept later', async () => {
    const {user, payout} = await claimed({token: 'ETH'})
    await money.work('begin_sweeping', payout)
    await money.sweep(payout, [user.address], 'ETH')
    const outgoingPayment = await money.sweepOf(user.address, 'ETH')
    await money.attempt(outgoingPayment)
    const second = (await money.attempt(outgoingPayment, {price: 3, amount: '970'}))!
    await money.mineFinally([second], {fee: 20})
    expect([await held(user.address, 'ETH'), await share(user, 'ETH')]).toEqual([10, 990])
  })

  test.each(['reverted', 'cancelled'] as const)(
    'that was %s leaves the money on its address, and it can be swept again',
    async how => {
      const {user, payout} = await claimed()
      await money.work('begin_sweeping', payout)
      await money.sweep(payout, [user.address])
      const outgoingPayment = await money.sweepOf(user.address)
      if (how === 'cancelled') await money.work('cancel_outgoing_payment', outgoingPayment)
      const txid = await money.attempt(outgoingPayment, how === 'cancelled' ? {kind: 'cancel'} : {})
      await money.mineFinally([txid!], {success: how !== 'reverted'})
      expect(await money.db.rows('select outcome from app.outgoing_payment where id = $1', [outgoingPayment])).toEqual([
        {outcome: how},
      ])
      expect([await held(user.address), await share(user)]).toEqual([1000, 0])
      await sweepFinally(payout, user.address)
      expect([await held(user.address), await share(user)]).toEqual([0, 1000])
    },
  )

  test('of an address that is already being swept does not begin again: payouts with sweep_first wait for the first', async () => {
    const {user, payout: first} = await claimed({sweepFirst: true})
    await money.deposit(user.address, 500)
    const second = await money.claim(user, 'USDC', {sweepFirst: true})
    for (const payout of [first, second]) {
      await money.work('begin_sweeping', payout)
      await money.sweep(payout, [user.address])
    }
    const outgoingPayment = await money.sweepOf(user.address)
    const linked = await money.db.rows('select payout_id from app.payout_sweep where outgoing_payment_id = $1', [
      outgoingPayment,
    ])
    expect(linked).toHaveLength(2)
    for (const payout of [first, second]) {
      await money.work('end_sweeping', payout)
      expect(await money.status(payout)).toBe('sweeping')
    }
    await money.db.rows('delete from graphile_worker._private_jobs')
    await money.mineFinally([(await money.attempt(outgoingPayment))!])
    const woken = await money.db.rows<{key: string}>(`select key from graphile_worker.jobs where key like 'payout:%'`)
    expect(woken.map(({key}) => key).sort()).toEqual([`payout:${first}`, `payout:${second}`].sort())
    for (const payout of [first, second]) expect(await money.pay(payout)).toBeNull()
  })

  test('of many addresses begins at once, each with its own nonce, and never moves deposits that are not final', async () => {
    const {user, payout} = await claimed()
    const users = [user, ...(await Promise.all(Array.from({length: 4}, () => money.user(user.merchantId))))]
    for (const {address} of users.slice(1)) await money.deposit(address, 100, {final: false})
    await money.work('begin_sweeping', payout)
    const addresses = users.map(({address}) => address)
    const begin = () =>
      money.work('begin_sweeps', payout, 'ETH', 'USDC', addresses, [1000, ...Array(4).fill(100)], Array(5).fill(10))
    const underWay = () =>
      money.db.rows(`select id from app.outgoing_payment where payout_id = $1 and kind = 'sweep'`, [payout])
    await money.deposit(user.address, 500, {final: false})
    await money.work('begin_sweeps', payout, 'ETH', 'USDC', [user.address], [1001], [10])
    expect(await underWay()).toEqual([])
    expect(await begin()).toBeNull()
    expect(await underWay()).toHaveLength(1)
    await money.finalise()
    const sweepable = async () =>
      (await money.jobs.query('select * from app.sweepable($1, 1, 100)', [payout])).rows.map(({amount}) =>
        Number(amount),
      )
    expect(await sweepable()).toEqual([100, 100, 100, 100]) // the other one is being swept
    expect(await begin()).toBeNull()
    expect(await underWay()).toHaveLength(5)
    expect(await sweepable()).toEqual([])
  })

  test('does not begin for a payout whose payment has begun, even in a run that started before', async () => {
    await spendOperatorFunds()
    const {user, payout} = await swept()
    await money.deposit(user.address, 100)
    expect(await money.pay(payout)).toBeNull()
    await money.work('begin_sweeps', payout, 'ETH', 'USDC', [user.address], [100], [10], 10)
    const underWay = `select from app.outgoing_payment where source = $1 and kind = 'sweep' and status <> 'final'`
    expect(await money.db.rows(underWay, [user.address])).toEqual([])
  })

  test('begins only if the treasury can pay the network fee, and else says what is short', async () => {
    const {user, payout} = await claimed()
    await money.work('begin_sweeping', payout)
    const ether = await money.operatorFunds('ETH')
    const short = await money.work('begin_sweeps', payout, 'ETH', 'USDC', [user.address], [1000], [ether + 5])
    expect(short).toBe('ETH for sweeping short by 0.000000000000000005')
  })
})

describe('whose money pays:', () => {
  beforeAll(spendOperatorFunds)

  test("never another merchant's", async () => {
    const rich = await swept({amount: 5000})
    const {payout, user} = await claimed()
    expect(await money.work('payout_shortage', payout, 10)).toBe('USDC short by 0.00099')
    expect(await money.pay(payout)).toBe('USDC short by 0.00099')
    expect(await money.status(payout)).toBe('swept')
    expect(await money.db.rows(`select from app.outgoing_payment where payout_id = $1`, [payout])).toEqual([])
    await sweepFinally(null, user.address)
    expect(await money.pay(payout)).toBeNull()
    for (const one of [payout, rich.payout])
      await money.mineFinally([
        one === payout ? (await money.attempt(await money.payment(one)))! : await money.payAndSign(one),
      ])
    expect(await money.operatorFunds()).toBe(10 + 50)
  })

  test("the operator's own, until the merchant's addresses are swept", async () => {
    await spendOperatorFunds()
    await money.topUp('USDC', 989)
    const {payout, user} = await claimed()
    expect(await money.pay(payout)).toBe('USDC short by 0.000001')
    await money.topUp('USDC', 1)
    await money.mineFinally([await money.payAndSign(payout)])
    expect([await money.operatorFunds(), await share(user)]).toEqual([0, -1000])
    await sweepFinally(null, user.address)
    expect([await money.operatorFunds(), await share(user)]).toEqual([1000, 0])
    await spendOperatorFunds()
  })

  test("the swept part of the merchant's, and the operator's own for the rest", async () => {
    const user = await money.merchant()
    const second = await money.user(user.merchantId)
    await money.deposit(user.address, 600)
    await money.deposit(second.address, 400)
    await sweepFinally(null, user.address)
    const payout = await money.claim(user)
    expect(await money.pay(payout)).toBe('USDC short by 0.00039')
    await money.topUp('USDC', 390)
    await money.mineFinally([await money.payAndSign(payout)])
    expect([await money.operatorFunds(), await share(user)]).toEqual([0, -400])
    await sweepFinally(null, second.address)
    expect([await money.operatorFunds(), await share(user)]).toEqual([400, 0])
    await spendOperatorFunds()
  })

  test('no money twice: money that one payout reserves is not available to another until the first fails', async () => {
    await money.topUp('USDC', 990)
    const [first, second] = [await claimed(), await claimed()]
    const shorts = await Promise.all([money.pay(first.payout), money.pay(second.payout)])
    expect(shorts.filter(short => short === null)).toHaveLength(1)
    expect(shorts.find(short => short)).toBe('USDC short by 0.00099')
    const [winner, loser] = shorts[0] === null ? [first, second] : [second, first]
    await money.work('fail_payout', winner.payout, 'timed_out', 'because')
    await money.mineFinally([await money.payAndSign(loser.payout)])
    await money.attempt(await money.payment(winner.payout), {kind: 'cancel'})
    await spendOperatorFunds()
  })

  test("a merchant's share once, for two payouts of it", async () => {
    const {user, payout} = await swept()
    await money.deposit(user.address, 1000)
    const second = await money.claim(user)
    const shorts = await Promise.all([money.pay(payout), money.pay(second)])
    expect(shorts.filter(short => short === null)).toHaveLength(1)
    // Its service fee becomes the operator's only when the payout is final.
    expect(shorts.find(short => short)).toBe('USDC short by 0.00098')
  })

  test("the operator's ether for the network fee", async () => {
    const {payout} = await swept()
    const ether = await money.operatorFunds('ETH')
    expect(await money.work('payout_shortage', payout, ether)).toBeNull()
    expect(await money.work('payout_shortage', payout, ether + 3)).toBe(
      'ETH for the network fee short by 0.000000000000000003',
    )
  })

  test("a withdrawal takes no more than the operator's own money, and nothing if it reverts", async () => {
    await swept({amount: 5000})
    await spendOperatorFunds()
    await money.topUp('USDC', 100)
    await expect(withdraw(101)).rejects.toThrow('USDC short by 0.000001')
    await withdraw(60, {success: false})
    expect(await money.operatorFunds()).toBe(100)
    await withdraw(100)
    expect(await money.operatorFunds()).toBe(0)
  })
})

describe('a final deposit that a reorganisation removes', () => {
  beforeAll(async () => {
    await money.topUp('USDC', 100_000)
  })

  /** A merchant with two final deposits, 1000 and 500, both claimed. */
  async function two(): Promise<Rich> {
    const user = await money.merchant()
    const deposit = await money.deposit(user.address, 1000)
    await money.deposit((await money.user(user.merchantId)).address, 500)
    return {user, deposit, payout: await money.claim(user)}
  }

  const early: Record<string, (rich: Rich) => Promise<unknown>> = {
    async pending() {},
    sweeping: ({payout}) => money.work('begin_sweeping', payout),
    async 'sweeping, with a sweep under way'({payout, user}) {
      await money.work('begin_sweeping', payout)
      await money.sweep(payout, [user.address])
      await money.attempt(await money.sweepOf(user.address))
    },
    async swept({payout}) {
      await money.work('begin_sweeping', payout)
      await money.work('end_sweeping', payout)
    },
    'swept, with a nonce': ({payout}) => money.pay(payout),
  }

  test.each(Object.entries(early))('fails a payout that is %s, and releases its other deposits', async (_, reach) => {
    const rich = await two()
    await reach(rich)
    await money.lose(rich.deposit)
    expect([await money.incidents(), await money.balance(rich.user)]).toEqual([['final_deposit_vanished'], 0])
    await money.resolve('reorged')
    expect([await money.status(rich.payout), await money.balance(rich.user)]).toEqual(['failed deposit_reorged', 500])
    await assertBooks(money.db)
    await money.giveBack(rich.deposit, rich.user.address, 1000)
    expect(await money.balance(rich.user)).toBe(1500)
    expect(
      (await money.db.rows('select from app.adjustment where merchant_id = $1', [rich.user.merchantId])).length,
    ).toBe(0)
  })

  test('and that no payout claimed is subtracted from the balance, and counts again when it comes back', async () => {
    const user = await money.merchant()
    const deposit = await money.deposit(user.address, 1000)
    await money.lose(deposit)
    await money.resolve('reorged')
    expect(await money.balance(user)).toBe(0)
    await assertBooks(money.db)
    await money.giveBack(deposit, user.address, 1000)
    expect(await money.balance(user)).toBe(1000)
  })

  test('and comes back in the same block as a top-up causes no deadlock with locks of treasury and balance', async () => {
    const {user, payout, deposit} = await two()
    const effect = await money.payAndSign(payout)
    await money.lose(deposit)
    await money.resolve('reorged')
    const topUp = {txid: money.newTxid(), amount: 100n, recipient: money.treasury}
    await money.block([{txid: deposit, amount: 1000n, recipient: user.address}, topUp], [])
    const other = await money.db.pool.connect()
    try {
      await other.query('begin')
      await other.query(`select app.lock_treasury('ETH')`) // as app.fail_payout does
      const finalising = money.finalise().catch((error: Error) => error)
      const waits = async () =>
        (
          await money.db.rows(
            `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
          )
        ).length > 0
      await until(waits, {timeoutMs: 5000, what: 'finality to wait for the treasury'})
      await other.query(`select app.lock_pair($1, 'ETH', 'USDC')`, [user.merchantId])
      await other.query('commit')
      expect(await finalising).toBeUndefined()
    } finally {
      other.release(true)
    }
    expect(await money.balance(user)).toBe(0)
    await money.mineFinally([effect])
  })

  test.each(['completed', 'transaction_reverted', 'cancelled'])(
    'while its payout is paying becomes a debt, whatever the outcome of the payout: %s',
    async end => {
      const {user, payout, deposit} = await two()
      const effect = await money.payAndSign(payout)
      await money.lose(deposit)
      await money.resolve('reorged')
      expect([await money.status(payout), await money.balance(user)]).toEqual(['paying', -1000])
      await assertBooks(money.db)
      if (end === 'cancelled') {
        await money.db.rows('select app.cancel_payout_by_operator($1)', [payout])
        await money.mineFinally([(await money.attempt(await money.payment(payout), {kind: 'cancel'}))!])
      } else await money.mineFinally([effect], {success: end === 'completed'})
      expect(await money.balance(user)).toBe(end === 'completed' ? -1000 : 500)
      await assertBooks(money.db)
      await money.giveBack(deposit, user.address, 1000)
      expect(await money.balance(user)).toBe(end === 'completed' ? 0 : 1500)
      await assertBooks(money.db)
      if (end === 'completed') return
      await money.mineFinally([await money.payAndSign(await money.claim(user))])
      expect(await money.balance(user)).toBe(0)
    },
  )

  test('and comes back with another amount, before its payout fails, counts with the new amount', async () => {
    const {user, payout, deposit} = await two()
    const effect = await money.payAndSign(payout)
    await money.lose(deposit)
    await money.resolve('reorged')
    await money.giveBack(deposit, user.address, 700)
    expect(await money.balance(user)).toBe(-300)
    expect(await money.db.rows('select * from audit.payouts_add_up')).toEqual([])
    await money.mineFinally([effect], {success: false})
    expect(await money.balance(user)).toBe(1200)
  })

  test('and comes back in a block that is not final yet, when its payout fails, counts once that is final', async () => {
    const {user, payout, deposit} = await two()
    const effect = await money.payAndSign(payout)
    await money.lose(deposit)
    await money.resolve('reorged')
    await money.mine([effect], {success: false})
    await money.block([{txid: deposit, amount: 1000n, recipient: user.address}], [])
    await money.finalise(money.eth.head.height - 1)
    expect(await money.balance(user)).toBe(500)
    await assertBooks(money.db)
    await money.finalise()
    expect(await money.balance(user)).toBe(1500)
  })

  test('after it was paid out is a debt that stops claims, and that the next claim repays', async () => {
    const {user, payout, deposit} = await two()
    await money.mineFinally([await money.payAndSign(payout)])
    await money.lose(deposit)
    await money.resolve('reorged')
    expect([await money.status(payout), await money.balance(user)]).toEqual(['completed', -1000])
    await expect(money.claim(user)).rejects.toMatchObject({code: 'SLPAY', message: 'the balance is below zero'})
    await money.deposit(user.address, 1600)
    const next = await money.claim(user)
    const [{gross}] = (await money.db.rows<{gross: string}>('select gross from app.payout where id = $1', [next])) as [
      {gross: string},
    ]
    expect([Number(gross), await money.balance(user)]).toEqual([600, 0])
    await assertBooks(money.db)
    await money.work('fail_payout', next, 'timed_out', 'because')
    expect(await money.balance(user)).toBe(600)
    await money.mineFinally([await money.payAndSign(await money.claim(user))])
    await money.giveBack(deposit, user.address, 1000)
    expect(await money.balance(user)).toBe(1000)
    await money.mineFinally([await money.payAndSign(await money.claim(user))])
    expect(await money.balance(user)).toBe(0)
  })

  test('whose debt another payout claimed, while its own was paying and then failed, is owed once', async () => {
    const {user, payout, deposit} = await two()
    const effect = await money.payAndSign(payout)
    await money.lose(deposit)
    await money.resolve('reorged')
    await money.deposit(user.address, 1600)
    const next = await money.claim(user)
    await money.mineFinally([effect], {success: false})
    expect(await money.balance(user)).toBe(1500) // 600 are claimed; 2100 is what it received
    await assertBooks(money.db)
    await money.work('fail_payout', next, 'timed_out', 'because')
    expect(await money.balance(user)).toBe(2100)
  })

  test('changes nothing if the operator accepts it', async () => {
    const {user, payout, deposit} = await two()
    await money.lose(deposit)
    await expect(money.claim(user)).rejects.toThrow('payouts of ETH are stopped')
    await money.resolve('kept')
    await money.mineFinally([await money.payAndSign(payout)])
    expect([await money.status(payout), await money.balance(user)]).toEqual(['completed', 0])
  })

  test.each(['in the claim', 'by a job'])(
    'while a payout claims it fails that payout, too; it is allocated %s',
    async allocated => {
      const user = await money.merchant()
      const deposit = await money.deposit(user.address, 1000)
      const [claimer, allocator] = [await money.api.connect(), await money.db.pool.connect()]
      try {
        await allocator.query('begin')
        const lock = `select pg_advisory_xact_lock(hashtextextended('allocate:' || $1 || ':ETH:USDC', 0))`
        if (allocated === 'by a job') await allocator.query(lock, [user.merchantId])
        await claimer.query('begin')
        await claimer.query(`select app.create_payout($1, 'ETH', 'USDC', false, null, null)`, [user.merchantId])
        await allocator.query('commit')
        await money.lose(deposit)
        const decide = `select app.resolve_incident(id, 'reorged') from app.incident where resolved_at is null`
        const resolving = money.db.rows(decide).catch((error: Error) => error.message)
        await waiting('the operator')
        await claimer.query('commit')
        const again = expect.stringContaining('a payout is claiming the deposit at this moment; try again')
        expect(await resolving).toEqual(allocated === 'by a job' ? again : [expect.anything()])
      } finally {
        claimer.release()
        allocator.release()
      }
      await assertBooks(money.db)
      await money.resolve('reorged')
      expect(await money.balance(user)).toBe(0)
      const payouts = await money.db.rows('select error_code from app.payout where merchant_id = $1', [user.merchantId])
      expect(payouts).toEqual([{error_code: 'deposit_reorged'}])
    },
  )
})

/** Waits until a connection waits for a lock. */
async function waiting(who: string): Promise<void> {
  const waits = async () => (await money.db.rows('select from pg_locks where not granted')).length > 0
  await until(waits, {timeoutMs: 5000, what: `${who} to wait`})
}

describe('the treasury', () => {
  const topUps = (txid: string) =>
    money.db.rows(
      `select e.account, e.amount::int from app.ledger_entry e
       join app.deposit d on e.reference = 'finalisation:ETH:' || d.finalisation where d.txid = $1 order by account desc`,
      [txid],
    )

  test('counts a top-up from outside once, through a reorganisation', async () => {
    const before = await money.operatorFunds()
    const txid = await money.deposit(money.treasury, 300, {final: false})
    expect(await money.operatorFunds()).toBe(before)
    await money.eth.write({drop: 1, add: [[], [{txid, amount: 300n, recipient: money.treasury}]]})
    await money.eth.readAgain(2)
    await money.finalise()
    expect(await topUps(txid)).toEqual([
      {account: 'treasury', amount: 300},
      {account: 'operator', amount: -300},
    ])
    expect(await money.operatorFunds()).toBe(before + 300)
    expect(await money.db.rows('select credited, merchant_id from app.deposit where txid = $1', [txid])).toEqual([
      {credited: false, merchant_id: null},
    ])
  })

  test('loses a top-up that a reorganisation removes, if the operator says so', async () => {
    const before = await money.operatorFunds()
    const txid = await money.deposit(money.treasury, 300)
    await money.lose(txid)
    await money.resolve('reorged')
    expect(await money.operatorFunds()).toBe(before)
    await assertBooks(money.db)
    await money.giveBack(txid, money.treasury, 300)
    expect(await money.operatorFunds()).toBe(before + 300)
  })
})

describe('a final transaction of ours that a rewind removes', () => {
  test('opens an incident, which closes when the transaction is read again, and nothing is posted twice', async () => {
    const {payout} = await swept()
    const txid = await money.payAndSign(payout)
    await money.mineFinally([txid])
    const entries = () => money.db.rows('select id from app.ledger_entry order by id')
    const before = await entries()
    await money.rewindBelow(money.eth.head.height)
    expect(await money.incidents()).toEqual(['final_payment_vanished'])
    await money.block([], [])
    await money.finalise()
    expect(await money.status(payout)).toBe('completed')
    await money.mineFinally([txid])
    expect(await money.incidents()).toEqual([])
    expect(await entries()).toEqual(before)
    expect(await eventsOf(payout)).toEqual(['payout.completed'])
  })

  test('stays an incident if it fails in the block in which it is read again', async () => {
    const {payout} = await swept()
    const txid = await money.payAndSign(payout)
    await money.mineFinally([txid])
    await money.rewindBelow(money.eth.head.height)
    await money.mineFinally([txid], {success: false})
    expect(await money.incidents()).toEqual(['final_payment_vanished'])
    await money.resolve('kept')
  })

  test('is read again in the same block after a rewind of the whole chain', async () => {
    const {payout} = await swept()
    await money.mineFinally([await money.payAndSign(payout)])
    const state = () =>
      money.db.rows(`select (select json_agg(p order by seq) from app.payout p) as payouts,
        (select json_agg(s order by id) from app.outgoing_payment s) as "outgoingPayments", (select count(*) from app.ledger_entry) as entries,
        (select count(*) from app.event) as events`)
    const before = await state()
    const tail = money.eth.blocks.slice(-3)
    await money.rewindBelow(tail[0]!.height)
    await money.eth.write({add: tail})
    await money.finalise()
    await money.resolve('kept')
    expect(await state()).toEqual(before)
  })
})

test('an indexer that reads a transaction of ours again and an operator take locks in the same order', async () => {
  const {payout} = await swept()
  const txid = await money.payAndSign(payout)
  await money.mineFinally([txid])
  await money.rewindBelow(money.eth.head.height)
  const holder = await money.db.pool.connect()
  try {
    await holder.query('begin')
    await holder.query(`select from chain.cursor where chain = 'ETH' for update`) // as resolve_incident does
    const reading = money.mine([txid])
    await waiting('the indexer')
    await holder.query('select from app.incident where resolved_at is null for update')
    await holder.query('commit')
    await reading
  } finally {
    holder.release()
  }
  await money.finalise()
})
