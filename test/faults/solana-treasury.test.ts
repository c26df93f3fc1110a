// The operator's own money on Solana, by real processes: a treasury without an account, one that would hold less than
// the rent, withdrawals, returns of what is credited to nobody, and sweeps without a payout.
import pg from 'pg'
import {afterAll, afterEach, beforeAll, expect, test} from 'vitest'
import {settingsFrom} from '../../chains/settings.ts'
import {solanaSettings} from '../../chains/solana/settings.ts'
import {newAddress} from '../../devnet/solana/client.ts'
import {faucet} from '../../devnet/solana/constants.ts'
import {addressOfKey, newKey} from '../../devnet/solana/keys.ts'
import {beginWithdrawal} from '../../jobs/payouts/solana/family.ts'
import {assertBooks} from '../support/books.ts'
import {ShownWait} from '../support/shown-wait.ts'
import {createTokenAccount, tokenProgram} from '../support/solana/instructions.ts'
import {SolanaWorld, sol} from '../support/solana/world.ts'
import {until} from '../support/until.ts'

const rent = 650_240n
const fee = 5000n
/** Of two signatures, with the priority fee that may come on top. */
const highestSweepFee = 110_000n

/** A small deposit. */
const gross = sol / 100n

let world: SolanaWorld
let owner: pg.Client
let shown: ShownWait
beforeAll(async () => {
  world = await SolanaWorld.open({treasury: 0n})
  owner = new pg.Client({connectionString: world.db.ownerUrl})
  await owner.connect()
  shown = await ShownWait.open(world)
  await world.startWorker({settings: {SOL_COLLECT_ABOVE: 'SOL:5'}})
})
afterAll(async () => {
  await shown?.close()
  await owner?.end()
  await world?.close()
})
afterEach(() => assertBooks(world.db))

const withdraw = (to: string, amount: bigint) =>
  beginWithdrawal(owner, solanaSettings(settingsFrom('SOL', world.environment)), {token: 'SOL', amount, to})

const untilHolds = (address: string, amount: bigint) =>
  until(async () => world.holds(address) === amount, {timeoutMs: 30_000, what: `${amount} lamports at ${address}`})

test('a treasury that cannot pay for a sweep, or would hold less than the rent after a payment, waits for a top-up', async () => {
  const shop = await world.openShop([gross])
  await world.db.rows('update app.merchant set fee_bps = 0 where id = $1', [shop.id]) // the operator earns nothing
  const id = await world.request(shop, 'SOL', true)
  const least = rent + highestSweepFee
  await shown.isThis(id, {
    reason: 'insufficient_treasury_funds',
    detail: `holds 0 lamports; it pays for sweeps, and needs ${least}`,
    api: ['insufficient_treasury_funds', 'the treasury is short of funds'],
  })
  expect(await world.attempts(id)).toEqual([])
  await world.pay([world.treasury], [least])
  await untilHolds(shop.addresses[0]!, 0n)
  await shown.isThis(id, {
    reason: 'treasury_below_rent',
    detail: /less than an account must \(rent\)/,
    api: ['treasury_below_rent', 'the treasury would hold less than an account of the chain must'],
  })
  expect(await world.attempts(id)).toEqual([])
  await world.pay([world.treasury], [rent])
  await world.becomes(id, 'completed')
  expect(world.holds(shop.wallet)).toBe(gross)
  expect(world.holds(world.treasury)).toBeGreaterThanOrEqual(rent)
})

test("the operator's own money goes to an address on the operator's list, to no program, and not below the rent", async () => {
  await world.pay([world.treasury], [20n * sol])
  const to = newAddress()
  await world.whitelist(null, to)
  const id = await withdraw(to, 5n * sol)
  expect(await world.ended(id)).toMatchObject({outcome: 'done'})
  expect([world.holds(to), await world.reserved()]).toEqual([5n * sol, 0n])
  await expect(withdraw(newAddress(), rent - 1n)).rejects.toThrow('an account takes no less than 650240 lamports')
  const key = newKey()
  const account = addressOfKey(key)
  world.submit([createTokenAccount(faucet, account, sol)], [key])
  await until(async () => world.holds(account), {timeoutMs: 5000, what: 'the account of a program'})
  await expect(withdraw(account, sol)).rejects.toThrow(`belongs to the program ${tokenProgram}`)
  const all = world.holds(world.treasury)
  await expect(withdraw(to, all - fee)).rejects.toThrow("the operator's own money is not enough")
})

test('what is credited to nobody is returned by two transactions', async () => {
  const {addresses} = await world.openShop([sol])
  const [address] = addresses
  await world.db.rows('update app.address set is_provisioned = false where address = $1', [address])
  await world.pay([address!], [2n * sol])
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
  await untilHolds(to, 2n * sol) // the operator bears what both cost
  expect(world.holds(address!)).toBe(sol)
})

test('an address that holds enough is swept without a payout; one that does not is left alone', async () => {
  const {addresses} = await world.openShop([6n * sol, 4n * sol])
  await until(
    async () =>
      addresses
        .map(address => world.holds(address))
        .toSorted((a, b) => Number(a - b))
        .join() === [0n, 4n * sol].join(),
    {timeoutMs: 30_000, what: 'the address to be swept'},
  )
})
