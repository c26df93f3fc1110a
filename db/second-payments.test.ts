// Second payments: a transaction of ours that pays although its payment had ended by another one. On Ethereum and
// Bitcoin no honest chain allows it, so the tests write the blocks. After each step the books must hold, and the ledger
// must say what the chain holds.
import fc from 'fast-check'
import {afterAll, beforeAll, describe, expect, test} from 'vitest'
import {assertBooks} from '../test/support/books.ts'
import {BitcoinForge, EvmForge, type Forge, type Kind, type Payment} from '../test/support/second-payments.ts'

let evm: EvmForge
let bitcoin: BitcoinForge

beforeAll(async () => {
  ;[evm, bitcoin] = await Promise.all([EvmForge.open(), BitcoinForge.open()])
})
afterAll(() => Promise.all([evm.close(), bitcoin.close()]))

const forgeOf = (chain: string): Forge => (chain === 'ETH' ? evm : bitcoin)

async function assertTruth(forge: Forge, {holdings = true} = {}): Promise<void> {
  await assertBooks(forge.db)
  if (holdings) await forge.assertHoldings()
}

/** What needs custody, or a chain without foreign transactions. */
const unproven = ['journal', 'whitelist', 'nonces', 'no_unknown_transaction', 'stuck']

async function assertSilence(forge: Forge): Promise<void> {
  const found = await forge.db.rows<{name: string}>('select name, found from app.audit_checks() where count > 0')
  expect(found.filter(({name}) => !unproven.includes(name))).toEqual([])
}

const bookings = (forge: Forge) =>
  forge.db.rows<{txid: string}>(
    'select txid, amount::int, fee::int, incident_id is not null as pays from app.second_payment where booked_at is not null',
  )

async function balance(forge: Forge, {merchant, token}: Payment): Promise<number> {
  const [row] = await forge.db.rows<{amount: string}>(
    'select amount from app.balance_now where merchant_id = $1 and token = $2',
    [merchant, token],
  )
  return Number(row?.amount ?? 0)
}

const scenarios: [chain: 'ETH' | 'BTC', kind: Kind, token: string][] = [
  ...(['payout', 'sweep', "return's sweep"] as Kind[]).map((kind): ['ETH', Kind, string] => ['ETH', kind, 'USDC']),
  ...(['payout', 'sweep', 'withdrawal', "return's withdrawal"] as Kind[]).map((kind): ['ETH', Kind, string] => [
    'ETH',
    kind,
    'ETH',
  ]),
  ...(['fund', 'defund'] as Kind[]).map((kind): ['ETH', Kind, string] => ['ETH', kind, 'ETH']),
  ...(['payout', 'withdrawal', 'sweep'] as Kind[]).map((kind): ['BTC', Kind, string] => ['BTC', kind, 'BTC']),
]
type Order =
  | 'in one block'
  | 'in two blocks, final at once'
  | 'in a block before the first is final'
  | 'after the first is final'

/** Mines the transaction that ends a payment and a second one; nothing happens before the second is final. */
async function mineBoth(forge: Forge, ending: () => Promise<void>, second: string, order: Order): Promise<void> {
  await ending()
  if (order === 'after the first is final') await forge.finalise()
  const endedAt = forge.writer.head.height
  await forge.mine([second])
  if (order === 'in a block before the first is final') await forge.finalise(endedAt)
  if (!order.includes('one block') && !order.includes('at once')) {
    expect((await forge.incidents()).filter(({kind}) => kind === 'second_payment')).toEqual([])
    expect([await forge.isHalted(), await forge.doublePays()]).toEqual([false, []])
    await assertBooks(forge.db)
  }
  await forge.finalise()
}

/** A second payment is final: everything says so, an operator decides, and the chain goes on. */
async function decide(
  forge: Forge,
  payment: Payment,
  second: string,
  {stored, outcome}: {stored: boolean; outcome: string},
): Promise<void> {
  const kind = payment.payout ? 'payout' : payment.kind.replace("return's ", '')
  const open = await forge.incidents()
  expect(open.map(one => one.kind)).toEqual(['second_payment'])
  expect(open[0]).toMatchObject({
    subject: payment.id,
    details: {
      ...(kind === 'payout' && {payout: expect.stringMatching(/^pay_/), merchant: expect.any(String)}),
      txids: [second],
      payment: kind,
      token: payment.token,
      amount: String(payment.pays),
      outcome,
    },
  })
  expect(await forge.isHalted()).toBe(true)
  const [halted] = await forge.db.rows<{why: string}>('select app.why_halted($1) as why', [forge.chain])
  expect(halted!.why).toMatch(/second_payment/)
  expect(await forge.doublePays()).toMatchObject([{id: payment.payout ?? payment.id, kind, status: outcome}])
  await assertTruth(forge)
  await forge.writer.write({add: [[]]})
  expect(await forge.finalise()).toBe(false)

  const before = await forge.db.rows('select count(*) from app.ledger_entry')
  for (const other of ['kept', 'reorged']) await expect(forge.resolve(other)).rejects.toThrow('cannot be resolved as')
  if (payment.payout) {
    const owned = await balance(forge, payment)
    const decision = stored ? 'debt' : 'loss'
    await forge.resolve(decision)
    expect(await balance(forge, payment)).toBe(owned - (decision === 'debt' ? payment.pays : 0))
  } else {
    await expect(forge.resolve('debt')).rejects.toThrow('nobody owes what a sweep or a withdrawal moved; use loss')
    expect(await forge.db.rows('select count(*) from app.ledger_entry')).toEqual(before)
    expect(await forge.isHalted()).toBe(true)
    await forge.resolve('loss')
  }
  await assertTruth(forge)
  await expect(forge.db.rows(`select app.resolve_incident($1, 'debt')`, [open[0]!.id])).rejects.toThrow(
    'is resolved already',
  )
  expect([await forge.isHalted(), await forge.doublePays()]).toEqual([false, []])
  expect(await forge.finalise()).toBe(true)
  await assertTruth(forge)
  await assertSilence(forge)
}

describe.each(scenarios)('on %s, of a %s of %s', (chain, kind, token) => {
  const extraFor = async () => (chain === 'BTC' ? {extra: await bitcoin.topUp(150_000n)} : {})

  const orders: Order[] =
    kind === 'payout' || kind === 'sweep'
      ? [
          'in one block',
          'in two blocks, final at once',
          'in a block before the first is final',
          'after the first is final',
        ]
      : ['in one block', 'after the first is final']
  const stores = kind === 'payout' ? [true, false] : [false] // what a payout owes depends on it
  test.each(orders.flatMap(order => stores.map(stored => ({order, stored}))))(
    'another attempt completed it: $order, stored: $stored',
    async ({order, stored}) => {
      const forge = forgeOf(chain)
      const payment = await forge.begin(kind, token)
      const attempts = [await forge.sign(payment), await forge.sign(payment, {stored, ...(await extraFor())})]
      if (order === 'in one block') {
        await forge.mine(attempts)
        await forge.finalise()
        const [row] = await forge.db.rows<{txid: string}>('select txid from app.outgoing_payment where id = $1', [
          payment.id,
        ])
        await decide(forge, payment, attempts.find(txid => txid !== row!.txid)!, {stored, outcome: 'done'})
      } else {
        await mineBoth(forge, () => forge.mine([attempts[0]!]), attempts[1]!, order)
        await decide(forge, payment, attempts[1]!, {stored, outcome: 'done'})
      }
    },
  )

  test.each(stores)('its cancel is final, stored: %s', async stored => {
    const forge = forgeOf(chain)
    const payment = await forge.begin(kind, token)
    const first = await forge.sign(payment)
    const effect = stored ? first : await forge.sign(payment, {stored, ...(await extraFor())})
    await forge.stop(payment)
    const cancel = await forge.sign(payment, {kind: 'cancel'})
    await mineBoth(forge, () => forge.mine([cancel]), effect, 'in a block before the first is final')
    await decide(forge, payment, effect, {stored, outcome: 'cancelled'})
  })

  test('a foreign transaction had excluded it', async () => {
    const forge = forgeOf(chain)
    const payment = await forge.begin(kind, token)
    const effect = await forge.sign(payment, await extraFor())
    await forge.writer.write({add: [{confirmedTxs: [await forge.theft(payment)]}]})
    await forge.finalise()
    await forge.resolve('kept', 'unknown_transaction')
    await forge.writer.readAgain(1)
    await forge.mine([effect])
    await forge.finalise()
    expect((await forge.incidents()).map(one => one.kind)).toEqual(['second_payment'])
    expect(await forge.doublePays()).toMatchObject([{status: 'conflicted', paid: '1'}])
    if (chain === 'ETH') await assertTruth(forge)
    await forge.resolve('loss')
    expect([await forge.isHalted(), await forge.doublePays()]).toEqual([false, []])
    if (chain === 'ETH') return assertTruth(forge)
    await bitcoin.close() // what a theft takes of outputs is in no ledger
    bitcoin = await BitcoinForge.open()
  })

  // As when a worker that somebody else runs has it signed, and sends it without storing it.
  test.each(['effect', 'cancel'] as const)(
    'an attempt (%s) that only the journal knows ends its own payment, halts nothing, and is none',
    async what => {
      const forge = forgeOf(chain)
      const payment = await forge.begin(kind, token)
      await forge.sign(payment)
      if (what === 'cancel') await forge.stop(payment)
      const unstored = await forge.sign(payment, {kind: what, stored: false})
      await forge.mine([unstored])
      expect([await forge.incidents(), await forge.isHalted()]).toEqual([[], false])
      await forge.finalise()
      const ended = await forge.db.rows('select txid, outcome from app.outgoing_payment where id = $1', [payment.id])
      expect(ended).toEqual([{txid: unstored, outcome: what === 'cancel' ? 'cancelled' : 'done'}])
      expect([await forge.incidents(), await forge.doublePays()]).toEqual([[], []])
      await assertTruth(forge)
    },
  )

  test('a cancel after it costs its fee, and is none', async () => {
    const forge = forgeOf(chain)
    const payment = await forge.begin(kind, token)
    const effect = await forge.sign(payment)
    await forge.stop(payment)
    const cancel = await forge.sign(payment, {kind: 'cancel'})
    await forge.mine([effect])
    await forge.finalise()
    await forge.mine([cancel])
    await forge.finalise()
    expect([await forge.incidents(), await forge.isHalted(), await forge.doublePays()]).toEqual([[], false, []])
    expect(await bookings(forge)).toContainEqual({txid: cancel, amount: 0, fee: chain === 'ETH' ? 7 : 400, pays: false})
    await assertTruth(forge)
    await assertSilence(forge)
  })

  if (chain === 'ETH')
    test('a failed transaction is none; one that succeeds after a failed one is', async () => {
      const payment = await evm.begin(kind, token)
      const attempts = [await evm.sign(payment), await evm.sign(payment), await evm.sign(payment)]
      await evm.mine([attempts[0]!], {success: false})
      await evm.finalise()
      await evm.mine([attempts[1]!], {success: false})
      await evm.finalise()
      expect([await evm.incidents(), await evm.isHalted(), await evm.doublePays()]).toEqual([[], false, []])
      await assertTruth(evm)
      await evm.mine([attempts[2]!])
      await evm.finalise()
      await decide(evm, payment, attempts[2]!, {stored: true, outcome: 'reverted'})
    })
})

describe.each(['ETH', 'BTC'] as const)('on %s', chain => {
  const token = chain === 'ETH' ? 'USDC' : 'BTC'
  const paid = async (attempts: number) => {
    const forge = forgeOf(chain)
    const payment = await forge.begin('payout', token)
    const txids: string[] = []
    for (let n = 0; n < attempts; n += 1) txids.push(await forge.sign(payment))
    await forge.mine([txids[0]!])
    await forge.finalise()
    return {forge, payment, txids}
  }

  test('several second payments are in one incident, and the debt is for each; a later one is decided on its own', async () => {
    const {forge, payment, txids} = await paid(4)
    await forge.mine([txids[1]!, txids[2]!])
    await forge.finalise()
    const [open] = await forge.incidents()
    expect(open!.details).toMatchObject({
      txids: [txids[1], txids[2]],
      amount: String(2 * payment.pays),
      ended_by: txids[0],
    })
    expect(await forge.doublePays()).toMatchObject([{paid: '3'}])
    await forge.resolve('loss')
    expect(await balance(forge, payment)).toBe(0)
    await assertTruth(forge)
    await forge.mine([txids[3]!])
    await forge.finalise()
    expect((await forge.incidents()).map(one => one.details)).toMatchObject([
      {txids: [txids[3]], amount: String(payment.pays)},
    ])
    expect(await forge.doublePays()).toMatchObject([{paid: '2'}])
    await forge.resolve('debt')
    expect(await balance(forge, payment)).toBe(-payment.pays)
    await assertTruth(forge)
    await assertSilence(forge)
    const again = await paid(3)
    expect(await forge.db.rows('select from app.second_payment where txid = any($1)', [again.txids])).toEqual([]) // replaced, and in no block
    await forge.mine([again.txids[1]!])
    await forge.mine([again.txids[2]!])
    await forge.finalise()
    await forge.resolve('debt')
    expect(await balance(forge, again.payment)).toBe(-2 * payment.pays)
    await assertTruth(forge)
    await assertSilence(forge)
  })

  test('one that leaves before it is final is nothing; the same one in another block is booked once, and read again is nothing', async () => {
    const {forge, txids} = await paid(2)
    const before = await bookings(forge)
    await forge.mine([txids[1]!])
    await forge.writer.write({drop: 1, add: [[], []]})
    await forge.finalise()
    expect([await forge.incidents(), await bookings(forge)]).toEqual([[], before])
    await assertTruth(forge)
    await forge.mine([txids[1]!])
    await forge.writer.readAgain(1)
    await forge.finalise()
    const booked = await bookings(forge)
    expect(booked.length).toBe(before.length + 1)
    const height = forge.writer.head.height
    await forge.writer.readAgain(2)
    await forge.reindex(1, height, () => true)
    await expect(forge.db.rows('select app.request_rewind($1, $2)', [chain, height - 2])).rejects.toThrow(
      'second_payment',
    )
    await forge.resolve('loss')
    await forge.reindex(1, height, () => true)
    await forge.rewind(height - 1)
    expect((await forge.incidents()).map(({kind}) => kind)).toEqual([])
    await forge.finalise()
    expect(await bookings(forge)).toEqual(booked)
    await assertTruth(forge)
    await assertSilence(forge)
  })

  test.each(['rewind', 'reindex'])(
    'one that a %s takes away after it was booked stays booked, with an incident until it is there again',
    async how => {
      const {forge, payment, txids} = await paid(2)
      await forge.mine([txids[1]!])
      await forge.finalise()
      await forge.resolve('loss')
      const booked = await bookings(forge)
      const height = forge.writer.head.height
      const rows = await forge.db.rows<{row: object}>(
        'select to_jsonb(i) as row from chain.confirmed_tx i where txid = $1',
        [txids[1]],
      )
      if (how === 'rewind') await forge.rewind(height - 1, {without: [txids[1]!]})
      else await forge.reindex(height, height, () => false)
      expect(await forge.incidents()).toMatchObject([
        {kind: 'final_payment_vanished', subject: payment.id, details: {txid: txids[1]}},
      ])
      const [due] = await forge.db.rows('select next_step_at from app.outgoing_payment where id = $1', [payment.id])
      expect(due).toEqual({next_step_at: null}) // it is not broadcast again
      if (how === 'rewind') await forge.mine([txids[1]!])
      else
        await forge.db.rows('select chain.correct_confirmed_txs($1, $2, $2, $3)', [
          chain,
          height,
          JSON.stringify(rows.map(({row}) => row)),
        ])
      await forge.finalise()
      expect([await forge.incidents(), await bookings(forge)]).toEqual([[], booked])
      await assertTruth(forge)
      await assertSilence(forge)
    },
  )

  test('a rewind takes away both; the incident closes only when both are there again', async () => {
    const {forge, txids} = await paid(2)
    await forge.mine([txids[1]!])
    await forge.finalise()
    await forge.resolve('loss')
    const kinds = async () => (await forge.incidents()).map(({kind}) => kind)
    await forge.rewind(forge.writer.head.height - 2, {without: txids})
    expect(await kinds()).toEqual(['final_payment_vanished'])
    await forge.mine([txids[0]!])
    expect(await kinds()).toEqual(['final_payment_vanished'])
    await forge.mine([txids[1]!])
    expect(await kinds()).toEqual([])
    await forge.finalise()
    await assertTruth(forge)
    await assertSilence(forge)
  })

  test('another attempt in the place of the one that completed it, which a rewind took away, is none; both are', async () => {
    const {forge, payment, txids} = await paid(3)
    await forge.rewind(forge.writer.head.height - 1, {without: [txids[0]!]})
    await forge.mine([txids[1]!])
    await forge.finalise()
    expect((await forge.incidents()).map(({kind}) => kind)).toEqual(['final_payment_vanished'])
    expect([await forge.isHalted(), await forge.doublePays()]).toEqual([false, []])
    await forge.mine([txids[2]!])
    await forge.finalise()
    expect(await forge.incidents()).toMatchObject([
      {},
      {kind: 'second_payment', subject: payment.id, details: {txids: [txids[2]]}},
    ])
    expect(await forge.doublePays()).toMatchObject([{paid: '2'}])
    await forge.resolve('loss')
    expect(await forge.doublePays()).toEqual([])
    await forge.mine([txids[0]!])
    await forge.finalise()
    expect(await forge.incidents()).toMatchObject([{kind: 'second_payment', details: {txids: [txids[1]]}}])
    await forge.resolve('debt')
    await assertTruth(forge)
    await assertSilence(forge)
  })

  test('a payout had failed before anything was sent: its payment is one', async () => {
    const forge = forgeOf(chain)
    const payment = await forge.begin('payout', token)
    await forge.db.rows(`select app.fail_payout($1, 'cancelled', 'because')`, [payment.payout])
    await forge.db.rows('update app.outgoing_payment set cancelling = false where id = $1', [payment.id])
    const effect = await forge.sign(payment)
    await forge.mine([effect])
    await forge.finalise()
    const owned = await balance(forge, payment)
    expect(await forge.incidents()).toMatchObject([
      {kind: 'second_payment', details: {txids: [effect], outcome: 'done'}},
    ])
    expect(await forge.doublePays()).toMatchObject([{id: payment.payout, paid: '1'}])
    await assertTruth(forge)
    await forge.resolve('debt')
    expect(await balance(forge, payment)).toBe(owned - payment.pays)
    await assertTruth(forge)
    await assertSilence(forge)
  })

  test('entries of the journal that are imported after their transaction is in a block are seen', async () => {
    const {forge, payment, txids} = await paid(2)
    const entry = await forge.sign(payment, {stored: false})
    const [row] = await forge.db.rows<{entry: Record<string, unknown>}>(
      'select to_jsonb(j) as entry from custody.journal j where txid = $1',
      [entry],
    )
    const contents = await forge.contents(entry)
    const client = await forge.db.pool.connect()
    await client.query(
      'begin; set local session_replication_role = replica; delete from custody.journal_key k using custody.journal j where j.stream = k.stream and j.seq = k.seq and j.txid = $$' +
        entry +
        '$$; delete from custody.journal where txid = $$' +
        entry +
        '$$; commit',
    )
    client.release()
    await forge.writer.write({add: [contents]})
    await forge.finalise()
    expect((await forge.incidents()).map(({kind}) => kind)).toEqual(['unknown_transaction'])
    await forge.db.rows('select custody.reconcile($1)', [JSON.stringify([row!.entry])])
    await forge.writer.write({add: [[]]})
    await forge.finalise()
    expect(await forge.incidents()).toMatchObject([
      {kind: 'second_payment', details: {txids: [entry], ended_by: txids[0]}},
    ])
    await forge.resolve('loss')
    await assertBooks(forge.db)
  })
})

test('of a payout with a sweep of its own belongs to its payment, and the sweep and the payout bear only their own fees', async () => {
  const {money} = evm
  const user = await money.merchant()
  await money.deposit(user.address, 1000)
  const payout = await money.claim(user)
  await money.work('begin_sweeping', payout)
  await money.sweep(payout, [user.address])
  await money.mineFinally([(await money.attempt(await money.sweepOf(user.address)))!])
  await money.pay(payout)
  const payment: Payment = {
    id: await money.payment(payout),
    kind: 'payout',
    token: 'USDC',
    pays: 990,
    payout,
    merchant: user.merchantId,
  }
  const attempts = [await evm.sign(payment), await evm.sign(payment)]
  await mineBoth(evm, () => evm.mine([attempts[0]!]), attempts[1]!, 'after the first is final')
  await decide(evm, payment, attempts[1]!, {stored: true, outcome: 'done'})
})

test('signed with another nonce than its payment has, and only in the journal: it ends the payment, and the stored one is seen', async () => {
  const payment = await evm.begin('payout', 'USDC')
  const attempts = [await evm.sign(payment), await evm.sign(payment, {stored: false})]
  const client = await evm.db.pool.connect()
  await client.query('set session_replication_role = replica')
  await client.query(
    `with j as (update custody.journal set nonce = 99999, conflict_key = sender || ':99999' where txid = $1 returning *)
     update custody.journal_key k set conflict_key = j.conflict_key from j where (k.stream, k.seq) = (j.stream, j.seq)`,
    [attempts[1]],
  )
  await client.query('reset session_replication_role')
  client.release()
  await evm.mine([attempts[1]!])
  await evm.mine([attempts[0]!])
  await evm.finalise()
  await decide(evm, payment, attempts[0]!, {stored: true, outcome: 'done'})
})

test('a cancel that custody signed before anything else, so that its entry names no payment, costs its fee', async () => {
  const payment = await evm.begin('withdrawal', 'USDC')
  await evm.stop(payment)
  const cancel = await evm.sign(payment, {kind: 'cancel'})
  const client = await evm.db.pool.connect()
  await client.query('set session_replication_role = replica')
  await client.query('update custody.journal set subject_id = null where txid = $1', [cancel])
  await client.query('reset session_replication_role')
  client.release()
  await evm.writer.write({add: [{confirmedTxs: [await evm.theft(payment)]}]})
  await evm.finalise()
  await evm.resolve('kept', 'unknown_transaction')
  await evm.writer.readAgain(1)
  await evm.mine([cancel])
  await evm.finalise()
  expect([await evm.incidents(), await evm.doublePays()]).toEqual([[], []])
  expect(await bookings(evm)).toContainEqual({txid: cancel, amount: 0, fee: 7, pays: false})
  await assertTruth(evm)
})

test('on BTC, an output that it spends was reserved for another payment: that one is excluded, and fails', async () => {
  const payment = await bitcoin.begin('payout', 'BTC')
  const first = await bitcoin.sign(payment)
  const extra = await bitcoin.topUp(150_000n)
  const second = await bitcoin.sign(payment, {extra})
  await bitcoin.mine([first])
  await bitcoin.finalise() // and extra is free
  const [row] = await bitcoin.db.rows<{id: string}>(
    `select app.begin_output_withdrawal('BTC', 60000, 'bcrt1qoperator', $1, 300) as id`,
    [[extra]],
  )
  const other: Payment = {id: row!.id, kind: 'withdrawal', token: 'BTC', pays: 60_000}
  await bitcoin.sign(other)
  await bitcoin.mine([second])
  await bitcoin.finalise()
  await assertTruth(bitcoin)
  expect(await bitcoin.db.rows('select status, outcome from app.outgoing_payment where id = $1', [other.id])).toEqual([
    {status: 'final', outcome: 'conflicted'},
  ])
  await bitcoin.resolve('loss')
  await assertTruth(bitcoin)
  await assertSilence(bitcoin)
})

test('on BTC, an output that another payment had added as a second input: that one is paid without it', async () => {
  const payment = await bitcoin.begin('payout', 'BTC')
  const first = await bitcoin.sign(payment)
  const extra = await bitcoin.topUp(150_000n)
  const second = await bitcoin.sign(payment, {extra})
  await bitcoin.mine([first])
  await bitcoin.finalise()
  const other = await bitcoin.begin('sweep')
  const alone = await bitcoin.sign(other)
  await bitcoin.db.rows('select app.add_inputs($1, 2, $2)', [other.id, [extra]])
  await bitcoin.mine([second])
  await bitcoin.finalise()
  await bitcoin.resolve('loss')
  await bitcoin.mine([alone])
  await bitcoin.finalise()
  await assertTruth(bitcoin)
  await assertSilence(bitcoin)
})

/** The random histories' actions, each on one of five transactions of one payout. */
const step = fc.record({
  what: fc.constantFrom(
    'mine',
    'mine',
    'mine',
    'mine two',
    'drop',
    'finalise',
    'finalise',
    'again',
    'decide',
    'decide',
  ),
  n: fc.nat(100),
})

/** After a first transaction, this one is final, too. */
const finalToo = (n: number) =>
  [0, n].flatMap(nth => [
    {what: 'mine', n: nth},
    {what: 'finalise', n: 0},
  ])
const [paidTwice, cancelledAfterPaid] = [finalToo(1), finalToo(3)]

test.each(['ETH', 'BTC'])(
  'on %s, after attempts, blocks, reorganisations and finality in any order: each is booked once, and an incident is open exactly if one is final and undecided',
  async chain => {
    const forge = chain === 'ETH' ? await EvmForge.open() : await BitcoinForge.open()
    const seed = Number(process.env.SEED ?? Date.now() % 1e9)
    let [seconds, costs] = [0, 0]
    const history = async (steps: {what: string; n: number}[]) => {
      const payment = await forge.begin('payout', chain === 'ETH' ? 'USDC' : 'BTC')
      const effects = [await forge.sign(payment), await forge.sign(payment), await forge.sign(payment, {stored: false})]
      await forge.stop(payment)
      const txids = [...effects, await forge.sign(payment, {kind: 'cancel'})]
      const from = forge.writer.head.height
      const decided = new Set<string>()
      const inBlock = (txid: string) =>
        forge.writer.blocks.find(({confirmedTxs}) => confirmedTxs.some(one => one.txid === txid))
      const finalHeight = async () => {
        const [row] = await forge.db.rows<{h: number}>('select final_height as h from chain.cursor where chain = $1', [
          chain,
        ])
        return row!.h
      }
      const actions: Record<string, (n: number) => Promise<unknown>> = {
        async mine(n) {
          const txid = txids[n % txids.length]!
          if (!inBlock(txid)) await forge.mine([txid])
        },
        async 'mine two'(n) {
          const two = [txids[n % txids.length]!, txids[(n + 1) % txids.length]!]
          if (!two.some(inBlock)) await forge.mine(two)
        },
        async drop(n) {
          const drop = Math.min(1 + (n % 3), forge.writer.head.height - Math.max(from, await finalHeight()))
          if (drop > 0) await forge.writer.write({drop, add: Array.from({length: drop + 1}, () => [])})
        },
        async finalise(n) {
          await forge.finalise(Math.max(forge.writer.head.height - (n % 3), await finalHeight()))
        },
        again: n => forge.writer.readAgain(1 + (n % 4)),
        async decide(n) {
          for (const {details} of (await forge.incidents()).filter(({kind}) => kind === 'second_payment'))
            for (const txid of details.txids as string[]) decided.add(txid)
          await forge.resolve(n % 2 ? 'loss' : 'debt')
          if (n % 3 > 0) return
          await forge.resolve('kept', 'unknown_transaction')
          await forge.writer.readAgain(1) // it counts from the next block on
        },
      }
      for (const {what, n} of steps) {
        await actions[what]!(n)
        const [final, [ended]] = [
          await finalHeight(),
          await forge.db.rows<{status: string; txid: string; outcome: string}>(
            'select status, txid, outcome from app.outgoing_payment where id = $1',
            [payment.id],
          ),
        ]
        const isFinal = (txid: string) => (inBlock(txid)?.height ?? final + 1) <= final
        const isOver = ended!.status === 'final'
        const others = txids.filter(
          txid => isOver && isFinal(txid) && (txid !== ended!.txid || ended!.outcome === 'conflicted'),
        )
        const second = others.filter(txid => effects.includes(txid))
        const open = (await forge.incidents()).filter(({kind}) => kind === 'second_payment')
        expect(open.flatMap(({details}) => details.txids as string[]).sort()).toEqual(
          second.filter(txid => !decided.has(txid)).sort(),
        )
        expect(await forge.isHalted()).toBe(open.length > 0)
        const booked = (await bookings(forge)).filter(({txid}) => txids.includes(txid))
        expect(booked.map(({txid}) => txid).sort()).toEqual(others.sort())
        await assertBooks(forge.db)
        if (isOver || !txids.some(isFinal)) await forge.assertHoldings()
        seconds = Math.max(seconds, second.length)
        costs = Math.max(costs, others.length - second.length)
      }
      for (let again = 0; again < 5; again += 1) {
        await forge.writer.write({add: [[]]}) // the next history begins on a chain that goes on
        await forge.finalise()
        await actions.decide!(0)
      }
    }
    try {
      await fc.assert(fc.asyncProperty(fc.array(step, {minLength: 15, maxLength: 30}), history), {
        numRuns: 12,
        endOnFailure: true,
        seed,
        examples: [[paidTwice], [cancelledAfterPaid]],
      })
    } catch (error) {
      throw new Error(`with SEED=${seed}`, {cause: error})
    }
    expect([seconds > 0, costs > 0]).toEqual([true, true])
    await forge.close()
  },
  120_000,
)
