// Returns of unattributed value, and collecting, on a chain whose transactions expire.
import {afterAll, afterEach, beforeAll, expect, test} from 'vitest'
import {fee} from '../../chains/madeup/block.ts'
import {newAddress} from '../../devnet/madeup/client.ts'
import {assertBooks} from '../../test/support/books.ts'
import {MadeUpWorld} from '../../test/support/madeup/world.ts'
import {until} from '../../test/support/until.ts'

let world: MadeUpWorld
beforeAll(async () => {
  world = await MadeUpWorld.open({MADEUP_MAX_LAPSES: '1', MADEUP_COLLECT_ABOVE: 'MADE:20'})
})
afterAll(() => world?.close())
afterEach(() => assertBooks(world.db))

/** A final deposit of this amount that is credited to nobody; its id. */
async function unattributed(amount: bigint): Promise<{id: string; address: string}> {
  const {addresses} = await world.shop()
  const [address] = addresses
  await world.db.rows('update app.address set is_provisioned = false where address = $1', [address])
  await world.give([address!], amount)
  const deposit = async () =>
    (
      await world.db.rows<{id: string}>(
        `select id from app.deposit where address = $1 and not credited and status = 'final'`,
        [address],
      )
    )[0]
  const {id} = await until(deposit, {timeoutMs: 20_000, what: 'an unattributed deposit'})
  return {id, address: address!}
}

interface Return {
  sweep: string | null
  withdrawal: string | null
}

async function returned(deposit: string): Promise<Return> {
  const [row] = await world.db.rows<Return>(
    'select sweep_id as sweep, withdrawal_id as withdrawal from app.unattributed_decision where deposit_id = $1',
    [deposit],
  )
  return row!
}

async function giveBack(deposit: string): Promise<string> {
  const to = newAddress()
  await world.whitelist(null, to)
  await world.db.rows('select app.return_unattributed($1, $2)', [deposit, to])
  return to
}

test('made up: what is credited to nobody is returned by two transactions', async () => {
  const {id} = await unattributed(500n)
  const to = await giveBack(id)
  await until(async () => (await world.client.balance('MADE', to)) === 500n - fee, {
    timeoutMs: 30_000,
    what: 'the return',
  })
  const {withdrawal} = await returned(id)
  expect((await world.ended(withdrawal!)).outcome).toBe('done')
})

test('made up: both steps of a return begin anew when they are given up, and it arrives once', async () => {
  const {id, address} = await unattributed(500n)
  world.held = 'all'
  const to = await giveBack(id)
  const next = async (step: keyof Return, not: string | null) =>
    await until(
      async () => {
        const {[step]: found} = await returned(id)
        return found !== not && found
      },
      {timeoutMs: 30_000, what: `a ${step}`},
    )
  const first = await next('sweep', null)
  expect(await world.ended(first)).toEqual({outcome: 'expired', txid: null})
  const second = await next('sweep', first)
  world.held = 'payments'
  expect((await world.ended(second)).outcome).toBe('done')
  const early = await next('withdrawal', null)
  expect(await world.ended(early)).toEqual({outcome: 'expired', txid: null})
  await next('withdrawal', early)
  world.held = 'nothing'
  await until(async () => (await world.client.balance('MADE', to)) > 0n, {timeoutMs: 30_000, what: 'the return'})
  const {withdrawal} = await returned(id)
  expect((await world.ended(withdrawal!)).outcome).toBe('done')
  expect([await world.client.balance('MADE', to), await world.client.balance('MADE', address)]).toEqual([
    500n - fee,
    1000n,
  ])
})

test('made up: an address that holds enough is swept without a payout', async () => {
  const {addresses} = await world.shop()
  await world.give(addresses, 1500n)
  await until(async () => (await world.client.balance('MADE', addresses[0]!)) === 0n, {
    timeoutMs: 30_000,
    what: 'the address to be collected',
  })
})
