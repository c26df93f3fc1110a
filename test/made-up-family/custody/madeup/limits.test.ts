// What custody counts, and what it refuses, after transactions expired: limits, the fee budget, the whitelist and what
// was received.
import type pg from 'pg'
import {afterAll, afterEach, beforeAll, expect, test} from 'vitest'
import {fee} from '../../chains/madeup/block.ts'
import {settingsFrom} from '../../chains/settings.ts'
import {newAddress} from '../../devnet/madeup/client.ts'
import {assertBooks} from '../../test/support/books.ts'
import {MadeUpWorld} from '../../test/support/madeup/world.ts'
import {until} from '../../test/support/until.ts'
import {journalFile, readKnown} from '../journal/file.ts'
import {spentToday} from '../judge/budget.ts'

const net = 990n

let world: MadeUpWorld
beforeAll(async () => {
  world = await MadeUpWorld.open({MADEUP_MAX_LAPSES: '2'})
})
afterAll(() => world?.close())
afterEach(async () => {
  world.held = 'nothing'
  await assertBooks(world.db)
})

async function withCustody(settings: Record<string, string>, work: () => Promise<void>): Promise<void> {
  await world.killCustody()
  await world.startCustody({settings})
  try {
    await work()
  } finally {
    await world.killCustody()
    await world.startCustody()
  }
}

const known = () => readKnown(journalFile(world.home))
const paidToday = () => known().paidOn(new Date().toISOString(), 'MADEUP', 'MADE', '')

async function spent(): Promise<bigint> {
  const client = {query: async ({text, values}: pg.QueryConfig) => ({rows: await world.db.rows(text, values)})}
  return (await spentToday(client as unknown as pg.Client, known(), settingsFrom('MADEUP'))).used
}

/** A limit that lets one more payment be signed today, if what was signed so far is still counted. */
const oneMore = () => {
  const units = paidToday() + net
  return {MADEUP_DAILY_LIMIT: `MADE:${units / 100n}.${String(units % 100n).padStart(2, '0')}`}
}

test('made up: a payment counts once towards the daily limit, however often it is signed; what expired for good counts nothing', async () => {
  await withCustody(oneMore(), async () => {
    const [of, other] = [await world.shop(), await world.shop()]
    const first = await world.begin({held: true, of})
    await world.signed(first.id, 1)
    const second = await world.begin({held: true, of: other})
    await world.becomes(second.id, 'daily_limit')
    await world.signed(first.id, 2)
    await world.becomes(first.id, 'failed')
    await world.wake(second.id)
    await world.signed(second.id, 1)
    world.held = 'nothing'
    await world.becomes(second.id, 'completed')
    expect((await world.payout(first.id)).error_code).toBe('transaction_expired')
  })
})

test('made up: a payment that failed in a block counts nothing towards the daily limit', async () => {
  await withCustody(oneMore(), async () => {
    const failed = await world.begin({held: true})
    const [attempt] = await world.signed(failed.id, 1)
    await until(
      async () => {
        await world.client.mine(1, {only: [attempt!.txid], failed: [attempt!.txid]})
        return (await world.payout(failed.id)).status === 'failed'
      },
      {timeoutMs: 20_000, what: 'the failure'},
    )
    const {id} = await world.begin()
    await world.becomes(id, 'completed')
  })
})

test('made up: the fee budget counts nothing for a transaction that expired, and the fee of one that failed', async () => {
  const before = await spent()
  const {id} = await world.begin({held: true})
  const counts = async (more: bigint) => (await spent()) === before + more
  await until(() => counts(2n * fee), {timeoutMs: 20_000, what: 'its sweep and its payment to count'})
  const [, second] = await world.signed(id, 2)
  await until(() => counts(2n * fee), {timeoutMs: 5000, what: 'the transaction that expired to count nothing'})
  await until(
    async () => {
      await world.client.mine(1, {only: [second!.txid], failed: [second!.txid]})
      return (await world.payout(id)).status === 'failed'
    },
    {timeoutMs: 20_000, what: 'the failure'},
  )
  expect([(await world.payout(id)).error_code, await spent()]).toEqual(['transaction_reverted', before + 2n * fee])
})

test('made up: an address that is not whitelisted any more when a transaction expired: the payout waits, and continues when it is back', async () => {
  const {shop, id} = await world.begin({held: true})
  await world.signed(id, 1)
  await world.unlist(shop)
  await until(async () => (await world.waitsFor(id)) === 'not_whitelisted', {timeoutMs: 20_000, what: 'the refusal'})
  expect(await world.attempts(id)).toMatchObject([{lapsed: true}])
  world.held = 'nothing'
  await world.whitelist(shop.id, shop.wallet)
  await world.wakePayment(id)
  await world.becomes(id, 'completed')
  expect(await world.received(shop)).toBe(net)
})

test('made up: it fails once it waited too long for the whitelist', async () => {
  await world.replaceWorker({PAYOUT_TIMEOUT_MS: '2000'})
  const {shop, id} = await world.begin({held: true})
  await world.signed(id, 1)
  await world.unlist(shop)
  const {error_code} = await world.becomes(id, 'failed', 40_000)
  expect([error_code, await world.received(shop)]).toEqual(['address_not_whitelisted', 0n])
  await world.replaceWorker()
})

test('made up: a withdrawal to an address that is not whitelisted any more when its transaction expired is not signed again', async () => {
  world.held = 'payments'
  const to = newAddress()
  const id = await world.withdraw(to, 100n)
  await world.signed(id, 1)
  await world.db.rows('update custody.whitelist set removed_at = clock_timestamp() where address = $1', [to])
  const waits = `select from app.outgoing_payment where id = $1 and waiting_reason = 'not_whitelisted'`
  await until(async () => (await world.db.rows(waits, [id])).length, {timeoutMs: 20_000, what: 'the refusal'})
  expect(await world.attempts(id)).toMatchObject([{lapsed: true}])
  await world.db.rows('select app.cancel_outgoing_payment($1)', [id])
  expect(await world.ended(id)).toEqual({outcome: 'cancelled', txid: null})
})

test('made up: a payout above a limit that was set since its transaction expired fails at once', async () => {
  const {shop, id} = await world.begin({held: true})
  await world.becomes(id, 'paying')
  await withCustody({MADEUP_PAYOUT_LIMIT: 'MADE:1'}, async () => {
    const {error_code} = await world.becomes(id, 'failed', 40_000)
    expect([error_code, await world.received(shop)]).toEqual(['custody_rejected', 0n])
  })
})

test('made up: a payout whose deposit is gone when its transaction expired fails at once', async () => {
  const {shop, id} = await world.begin({held: true})
  await world.signed(id, 1)
  const give = (to: string) =>
    world.db.rows(`begin; set local session_replication_role = replica;
      update custody.address set merchant_id = '${to}' where address = '${shop.addresses[0]}'; commit`)
  const other = await world.db.rows<{id: string}>('select id from app.merchant where id <> $1 limit 1', [shop.id])
  await give(other[0]!.id) // as if the merchant had received nothing
  const {error_code} = await world.becomes(id, 'failed', 40_000)
  await give(shop.id)
  expect([error_code, await world.received(shop)]).toEqual(['deposit_reorged', 0n])
})

// The last one: the incident that it causes stops the payouts of the chain.
test('made up: an expired payment whose entry in the database was changed is not subtracted from what was signed today', async () => {
  await withCustody(oneMore(), async () => {
    const [of, other] = [await world.shop(), await world.shop()]
    const expired = await world.begin({held: true, of})
    await world.becomes(expired.id, 'failed', 40_000)
    await world.stopWorker()
    const id = await world.request(other, 'MADE')
    const check = async () => (await world.custody.ask('/check', {payout_id: id})).body
    expect(await check()).toEqual({ok: true})
    await world.db.rows(`begin; set local session_replication_role = replica;
      update custody.journal set amount = 1000000 where subject_id = '${expired.id}'; commit`)
    expect(await check()).toMatchObject({ok: false, code: 'journal_changed'})
  })
})
