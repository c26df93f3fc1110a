// Payouts on a chain whose transactions expire, with everything they need: a local chain, its indexer, custody and a
// worker as processes.
import {rmSync} from 'node:fs'
import {setTimeout as sleep} from 'node:timers/promises'
import {afterAll, beforeAll, beforeEach, expect, test} from 'vitest'
import {fee} from '../../chains/madeup/block.ts'
import {newAddress} from '../../devnet/madeup/client.ts'
import {assertBooks} from '../../test/support/books.ts'
import {killCustody} from '../../test/support/custody.ts'
import {gross, MadeUpWorld} from '../../test/support/madeup/world.ts'
import {until} from '../../test/support/until.ts'
import {journalFile} from '../journal/file.ts'

let world: MadeUpWorld
beforeEach(() => {
  world.held = 'nothing'
})
beforeAll(async () => {
  world = await MadeUpWorld.open()
})
afterAll(() => world?.close())

test('made up: a payout is swept and paid, with one transaction each', async () => {
  const {shop, id} = await world.begin()
  const {net, txid} = await world.becomes(id, 'completed')
  const attempts = await world.attempts(id)
  expect(attempts).toEqual([{txid, fate: 'final', lapsed: false}])
  expect(await world.received(shop)).toBe(BigInt(net))
  expect(await world.client.balance('MADE', shop.addresses[0]!)).toBe(0n)
  await assertBooks(world.db)
})

test('made up: a transaction that expired is followed by another one, with other bytes, and the payout is paid once', async () => {
  const {shop, id} = await world.begin({held: true})
  const [first] = await world.signed(id, 1)
  const [dead, second] = await world.signed(id, 2)
  expect(dead).toEqual({txid: first!.txid, fate: 'dead', lapsed: true})
  world.held = 'nothing'
  const {net, txid} = await world.becomes(id, 'completed')
  expect([txid, await world.received(shop)]).toEqual([second!.txid, BigInt(net)])
  const [lapse] = await world.db.rows<{evidence: {height: null; head: {height: number}}}>(
    'select evidence from chain.lapse where txid = $1',
    [first!.txid],
  )
  expect(lapse!.evidence).toMatchObject({height: null})
  await assertBooks(world.db)
})

test('made up: a cancelled payout ends without a transaction, once its own has expired', async () => {
  const {shop, id} = await world.begin({held: true})
  await world.becomes(id, 'paying')
  await world.db.rows('select app.cancel_payout_by_operator($1)', [id])
  const {error_code} = await world.becomes(id, 'failed')
  const attempts = await world.attempts(id)
  expect([error_code, attempts.map(({lapsed}) => lapsed), await world.received(shop)]).toEqual([
    'cancelled',
    [true],
    0n,
  ])
  await assertBooks(world.db)
})

test('made up: from the moment it is cancelled, nothing of a payment is sent, whatever forgets it', async () => {
  const {shop, id} = await world.begin({held: true})
  const [attempt] = await world.signed(id, 1)
  await world.sent(attempt!.txid)
  await world.moveClock(-2) // nothing expires
  await world.db.rows('select app.cancel_payout_by_operator($1)', [id])
  await until(async () => (await world.waitsFor(id)) === 'expiry', {timeoutMs: 20_000, what: 'the cancel to be seen'})
  await world.client.forget([attempt!.txid])
  await world.wakePayment(id)
  const before = await world.lastSent(attempt!.txid)
  await sleep(3000)
  await world.wakePayment(id)
  await sleep(1500)
  expect(await world.lastSent(attempt!.txid)).toEqual(before)
  world.held = 'nothing'
  await world.moveClock(2)
  const {error_code} = await world.becomes(id, 'failed')
  expect([error_code, await world.attempts(id), await world.received(shop)]).toEqual([
    'cancelled',
    [{txid: attempt!.txid, fate: 'dead', lapsed: true}],
    0n,
  ])
})

test('made up: bytes that can never be mined are not sent again', async () => {
  const {id} = await world.begin({held: true})
  const [attempt] = await world.signed(id, 1)
  await world.sent(attempt!.txid)
  await world.killCustody()
  try {
    await until(async () => (await world.attempts(id))[0]!.fate === 'dead', {timeoutMs: 30_000, what: 'the expiry'})
    await until(async () => (await world.waitsFor(id)) === 'custody_unreachable', {timeoutMs: 20_000, what: 'a wait'})
    const before = await world.lastSent(attempt!.txid)
    await sleep(3000)
    expect(await world.lastSent(attempt!.txid)).toEqual(before)
  } finally {
    await world.startCustody()
  }
  world.held = 'nothing'
  await world.becomes(id, 'completed')
})

test('made up: while two transactions may be mined, nothing is signed or sent; once both have expired, the payout is paid', async () => {
  const {shop, id} = await world.begin({held: true})
  const [first, second] = await world.signed(id, 2)
  await world.moveClock(-2) // no lapse is noted again
  await world.db.rows('delete from chain.lapse where txid = $1', [first!.txid]) // as a rewind does
  await world.wakePayment(id)
  await until(async () => (await world.waitsFor(id)) === 'payment_contested', {timeoutMs: 20_000, what: 'contested'})
  const before = await world.lastSent(second!.txid)
  await world.wakePayment(id)
  await sleep(2500)
  expect((await world.attempts(id)).map(({fate}) => fate)).toEqual(['open', 'open'])
  expect(await world.lastSent(second!.txid)).toEqual(before)
  await world.moveClock(2)
  await world.signed(id, 3)
  world.held = 'nothing'
  const {net} = await world.becomes(id, 'completed')
  expect(await world.received(shop)).toBe(BigInt(net))
  await assertBooks(world.db)
})

test('made up: a payment that fails in a block fails its payout, and costs its fee', async () => {
  const {shop, id} = await world.begin({held: true})
  const [attempt] = await world.signed(id, 1)
  const before = await world.client.balance('MADE', world.treasury)
  await until(
    async () => {
      await world.client.mine(1, {only: [attempt!.txid], failed: [attempt!.txid]})
      return (await world.client.balance('MADE', world.treasury)) !== before
    },
    {timeoutMs: 10_000, what: 'the transaction in a block'},
  )
  const {error_code} = await world.becomes(id, 'failed')
  expect([error_code, await world.received(shop)]).toEqual(['transaction_reverted', 0n])
  expect(await world.client.balance('MADE', world.treasury)).toBe(before - fee)
  expect(await world.attempts(id)).toEqual([{txid: attempt!.txid, fate: 'dead', lapsed: false}])
  await assertBooks(world.db)
})

test('made up: after the journal was lost, a payout waits until nothing that was signed before can be mined', async () => {
  await killCustody(world.custody)
  rmSync(journalFile(world.home))
  await world.startCustody()
  const {shop, id} = await world.begin()
  const waits = `select from app.payout where id = $1 and waiting_reason = 'copy_unproven'`
  await until(async () => (await world.db.rows(waits, [id])).length, {timeoutMs: 20_000, what: 'the payout to wait'})
  expect(await world.attempts(id)).toEqual([])
  await world.db.rows(`update custody.unproven_copy set noted_at = noted_at - interval '35 seconds'`) // of 40
  expect(await world.attempts(id)).toEqual([])
  const proven = `select from custody.unproven_copy where chain = $1 and proven_at > noted_at + interval '40 seconds'`
  await until(async () => (await world.db.rows(proven, ['MADEUP'])).length, {timeoutMs: 20_000, what: 'the proof'})
  await world.db.rows('update app.payout set next_step_at = now() where id = $1', [id])
  const {net} = await world.becomes(id, 'completed')
  expect(await world.received(shop)).toBe(BigInt(net))
  await assertBooks(world.db)
})

test('made up: a payout whose transactions expire three times fails', async () => {
  const {shop, id} = await world.begin({held: true})
  const {error_code} = await world.becomes(id, 'failed', 50_000)
  const attempts = await world.attempts(id)
  expect([error_code, attempts.map(({lapsed}) => lapsed), await world.received(shop)]).toEqual([
    'transaction_expired',
    [true, true, true],
    0n,
  ])
  await assertBooks(world.db)
})

test('made up: two equal payouts are paid twice, by transactions that differ', async () => {
  const shop = await world.shop()
  const first = await world.request(shop, 'MADE')
  await world.give(shop.addresses, gross)
  await world.untilBalance(shop, gross)
  const second = await world.request(shop, 'MADE')
  const [one, other] = [await world.becomes(first, 'completed'), await world.becomes(second, 'completed')]
  expect([one.net, one.txid !== other.txid]).toEqual([other.net, true])
  expect(await world.received(shop)).toBe(2n * BigInt(one.net))
  await assertBooks(world.db)
})

test('made up: a withdrawal that expired is signed again and done; one that is cancelled ends once it expired', async () => {
  world.held = 'payments'
  const [to, nobody] = [newAddress(), newAddress()]
  const [done, cancelled] = [await world.withdraw(to, 30n), await world.withdraw(nobody, 30n)]
  await world.signed(cancelled, 1)
  await world.db.rows('select app.cancel_outgoing_payment($1)', [cancelled])
  const [, second] = await world.signed(done, 2)
  world.held = 'nothing'
  expect(await world.ended(done)).toEqual({outcome: 'done', txid: second!.txid})
  expect(await world.ended(cancelled)).toEqual({outcome: 'cancelled', txid: null})
  expect([await world.client.balance('MADE', to), await world.client.balance('MADE', nobody)]).toEqual([30n, 0n])
  expect(await world.reserved()).toBe(0n)
  await assertBooks(world.db)
})

test('made up: a withdrawal that is given up gives back what was reserved', async () => {
  world.held = 'payments'
  const id = await world.withdraw(newAddress(), 30n)
  expect(await world.ended(id)).toEqual({outcome: 'expired', txid: null})
  expect([(await world.attempts(id)).map(({lapsed}) => lapsed), await world.reserved()]).toEqual([
    [true, true, true],
    0n,
  ])
  await assertBooks(world.db)
})

test('made up: a sweep that expired is signed again; one that is given up is followed by another, and the payout is paid', async () => {
  const shop = await world.shop()
  world.held = 'all'
  const id = await world.request(shop, 'MADE', true)
  const sweep = await until(async () => (await world.outgoingPayments(id)).find(({kind}) => kind === 'sweep'), {
    timeoutMs: 20_000,
    what: 'a sweep',
  })
  expect(await world.ended(sweep.id)).toEqual({outcome: 'expired', txid: null})
  expect((await world.attempts(sweep.id)).map(({lapsed}) => lapsed)).toEqual([true, true, true])
  const next = await until(
    async () => (await world.outgoingPayments(id)).find(({kind, status}) => kind === 'sweep' && status !== 'final'),
    {timeoutMs: 20_000, what: 'another sweep'},
  )
  const [, second] = await world.signed(next.id, 2)
  world.held = 'nothing'
  expect(await world.ended(next.id)).toEqual({outcome: 'done', txid: second!.txid})
  const {net} = await world.becomes(id, 'completed')
  expect(await world.received(shop)).toBe(BigInt(net))
  await assertBooks(world.db)
})

test('made up: a sweep that is cancelled ends without a transaction, and the payout goes on', async () => {
  const shop = await world.shop()
  world.held = 'all'
  const id = await world.request(shop, 'MADE', true)
  const sweep = await until(async () => (await world.outgoingPayments(id)).find(({kind}) => kind === 'sweep'), {
    timeoutMs: 20_000,
    what: 'a sweep',
  })
  await world.signed(sweep.id, 1)
  await world.db.rows('select app.cancel_outgoing_payment($1)', [sweep.id])
  expect(await world.ended(sweep.id)).toEqual({outcome: 'cancelled', txid: null})
  expect(await world.attempts(sweep.id)).toMatchObject([{lapsed: true}])
  await world.unlist(shop) // so it is not paid
  world.held = 'nothing'
  await world.becomes(id, 'swept')
  await world.db.rows('select app.cancel_payout_by_operator($1)', [id]) // what it claimed is still on the address
  await world.becomes(id, 'failed')
  await assertBooks(world.db)
})

test('made up: whoever asks custody at any moment gets the bytes of the one transaction that may be mined', async () => {
  const {shop, id} = await world.begin({held: true})
  await world.becomes(id, 'paying')
  const got = new Set<string>()
  let isOver = false
  const thief = (async () => {
    for (; !isOver; await sleep(20)) {
      const intents = [{intent: 'pay_madeup', payout_id: id}]
      const {body} = await world.custody.ask('/sign', {intents: [...intents, ...intents]})
      const [one, other] = body.results
      if (one.ok && other.ok) expect(one.raw).toBe(other.raw)
      for (const {ok, txid} of body.results) if (ok) got.add(txid)
      const fates = (await world.attempts(id)).map(({fate}) => fate)
      expect(fates.filter(fate => fate !== 'dead').length).toBeLessThanOrEqual(1)
    }
  })()
  try {
    await world.signed(id, 3)
    world.held = 'nothing'
    const {net, txid} = await world.becomes(id, 'completed')
    expect(await world.received(shop)).toBe(BigInt(net))
    expect((await world.attempts(id)).map(({txid: signed, fate}) => [signed, fate])).toEqual(
      [...got].map(signed => [signed, signed === txid ? 'final' : 'dead']),
    )
  } finally {
    isOver = true
    await thief
  }
  await assertBooks(world.db)
})

test('made up: nothing is signed while the indexer links no block', async () => {
  const shop = await world.shop()
  await world.killCustody()
  await world.startCustody({settings: {MADEUP_MAX_HEAD_AGE_MS: '1'}})
  const id = await world.request(shop, 'MADE')
  try {
    await until(
      async () => (await world.outgoingPayments(id)).some(({waiting_reason}) => waiting_reason === 'head_stale'),
      {timeoutMs: 30_000, what: 'a sweep that waits for the indexer'},
    )
  } finally {
    await world.killCustody()
    await world.startCustody()
  }
  await world.becomes(id, 'completed', 40_000)
})

test('made up: a signature that rests on the decision of an operator says so in the journal', async () => {
  const {id} = await world.begin({held: true})
  const [first] = await world.signed(id, 1)
  await world.moveClock(-2) // nothing is proven to have expired
  await world.db.rows(
    `insert into chain.lapse (chain, txid, final_height, final_hash, evidence)
     select chain, $1, final_height, final_hash, '{"decided": "absent"}' from chain.cursor where chain = 'MADEUP'`,
    [first!.txid],
  )
  await world.wakePayment(id)
  await world.signed(id, 2)
  const entries = await world.db.rows<{absent: string[] | null}>(
    `select details -> 'absent' as absent from custody.journal where subject_id = $1 order by seq`,
    [id],
  )
  expect(entries).toEqual([{absent: null}, {absent: [first!.txid]}])
  await world.client.forget([first!.txid]) // it could be mined all the same
  world.held = 'nothing'
  await world.becomes(id, 'completed')
  await world.moveClock(2)
  await assertBooks(world.db)
})
