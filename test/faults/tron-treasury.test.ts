// The operator's own money on Tron, by real processes: an empty treasury, withdrawals, returns of what is credited to
// nobody, and sweeps without a payout.
import pg from 'pg'
import {afterAll, afterEach, beforeAll, expect, test} from 'vitest'
import {settingsFrom} from '../../chains/settings.ts'
import {tronSettings} from '../../chains/tron/settings.ts'
import {newAddress} from '../../devnet/tron/client.ts'
import {contracts} from '../../devnet/tron/constants.ts'
import {beginWithdrawal} from '../../jobs/payouts/tron/family.ts'
import {assertBooks} from '../support/books.ts'
import {TronWorld, trx} from '../support/tron/world.ts'
import {until} from '../support/until.ts'

let world: TronWorld
let owner: pg.Client
beforeAll(async () => {
  world = await TronWorld.open({treasury: 0n})
  owner = new pg.Client({connectionString: world.db.ownerUrl})
  await owner.connect()
  await world.startWorker({settings: {TRON_COLLECT_ABOVE: 'TRX:50'}})
})
afterAll(async () => {
  await owner?.end()
  await world?.close()
})
afterEach(() => assertBooks(world.db))

const withdraw = (to: string, amount: bigint) =>
  beginWithdrawal(owner, tronSettings(settingsFrom('TRON', world.environment)), {token: 'TRX', amount, to})

const untilHolds = (address: string, amount: bigint) =>
  until(async () => world.holds(address) === amount, {timeoutMs: 30_000, what: `${amount} sun at ${address}`})

test('nothing is swept to a treasury without an account, and nothing paid by one that may lack the fee', async () => {
  const shop = await world.openShop([10n * trx])
  const id = await world.request(shop, 'TRX', true)
  const {waiting_detail} = await world.becomes(id, 'insufficient_treasury_funds')
  expect(waiting_detail).toMatch('has no account on Tron yet: send it some coins')
  expect(await world.attempts(id)).toEqual([])
  await world.pay([world.treasury], [trx - 1n]) // with the 10 that are swept, a sun less than 9.9, and 1.1 for a new account
  await until(async () => world.holds(shop.addresses[0]!) === 0n, {timeoutMs: 20_000, what: 'the sweep'})
  await world.becomes(id, 'swept')
  await world.becomes(id, 'insufficient_treasury_funds')
  expect(await world.attempts(id)).toEqual([])
  await world.pay([world.treasury], [1000n * trx])
  await world.becomes(id, 'completed')
  expect(world.holds(shop.wallet)).toBe(9_900_000n)
})

test("the operator's own money goes to an address on the operator's list, and to no contract", async () => {
  const to = newAddress()
  await world.whitelist(null, to)
  const id = await withdraw(to, 5n * trx)
  expect(await world.ended(id)).toMatchObject({outcome: 'done'})
  expect([world.holds(to), await world.reserved()]).toEqual([5n * trx, 0n])
  await expect(withdraw(contracts.token, trx)).rejects.toThrow('is a contract, which the network does not let')
})

test('what is credited to nobody is returned by two transactions', async () => {
  const {addresses} = await world.openShop([10n * trx])
  const [address] = addresses
  await world.db.rows('update app.address set is_provisioned = false where address = $1', [address])
  await world.pay([address!], [20n * trx])
  const {id} = await until(
    async () => {
      const sql = `select id from app.deposit where address = $1 and not credited and status = 'final'`
      return (await world.db.rows<{id: string}>(sql, [address]))[0]
    },
    {timeoutMs: 20_000, what: 'an unattributed deposit'},
  )
  const to = newAddress()
  await world.whitelist(null, to)
  await world.db.rows('select app.return_unattributed($1, $2)', [id, to])
  await untilHolds(to, 20n * trx) // the bytes of the sweep were free
  expect(world.holds(address!)).toBe(10n * trx)
})

test('an address that holds enough is swept without a payout; one that does not is left alone', async () => {
  const {addresses} = await world.openShop([60n * trx, 40n * trx])
  await until(
    async () =>
      addresses
        .map(address => world.holds(address))
        .toSorted()
        .join() === [0n, 40n * trx].join(),
    {timeoutMs: 30_000, what: 'the address to be swept'},
  )
})
