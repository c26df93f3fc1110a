// Balances and amounts: exact at every moment, while workers fold them and deposits become final, and exact to the last
// digit.
import fc from 'fast-check'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {ChainWriter} from '../test/support/chain-writer.ts'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'
import {makeMerchant, makeUser} from '../test/support/people.ts'
import {openPool} from './client/pool.ts'

let db: TestDatabase

beforeAll(async () => {
  db = await testDatabase()
})
afterAll(() => db.drop())

test('balances are exact at every moment while workers fold and deposits become final, and nothing is left unfolded', async () => {
  const users = await Promise.all(
    Array.from({length: 4}, async () => await makeUser(db, await makeMerchant(db, ['ETH']), ['ETH'])),
  )
  const writer = await ChainWriter.open(db, 'ETH')
  const workers = openPool(db.url('sluice_jobs'), {name: 'fold', max: 4})
  const blocks = 60
  let done = false
  let folded = 0
  let audits = 0

  const index = async () => {
    for (let height = 1; height <= blocks; height++) {
      const transfers = users.flatMap(({address}, n) =>
        ['USDC', 'ETH'].map(token => ({
          txid: `${height}-${n}-${token}`,
          token,
          amount: 10n ** 18n + BigInt(n),
          recipient: address,
        })),
      )
      await writer.write({add: [transfers]})
      await writer.finalise(height)
    }
    done = true
  }
  const fold = async () => {
    for (let last = 1; !done || last > 0; ) {
      const {rows} = await workers.query<{n: number}>('select app.fold_balances(7) as n')
      last = rows[0]!.n
      folded += last
    }
  }
  const audit = async () => {
    for (; !done; audits++) expect(await db.rows('select * from app.balance_audit')).toEqual([])
  }
  await Promise.all([index(), fold(), fold(), fold(), audit(), audit()])
  await workers.end()
  await writer.close()

  expect(audits).toBeGreaterThan(10)
  expect(folded).toBe(blocks * users.length * 2)
  expect(await db.rows('select * from app.balance_delta')).toEqual([])
  expect(await db.rows('select * from app.balance_audit')).toEqual([])
  expect(await db.rows('select amount::text, deposit_count from app.balance order by amount')).toEqual(
    users.flatMap((_, n) => {
      const row = {amount: String(BigInt(blocks) * (10n ** 18n + BigInt(n))), deposit_count: String(blocks)}
      return [row, row]
    }),
  )
})

test('app.decimal and analytics.coins write any amount with any number of decimals exactly', async () => {
  const amount = fc.oneof(
    fc.bigInt({min: -(10n ** 78n) + 1n, max: 10n ** 78n - 1n}),
    fc.tuple(fc.bigInt({min: -999n, max: 999n}), fc.nat(75)).map(([digits, zeros]) => digits * 10n ** BigInt(zeros)),
  )
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.record({amount, decimals: fc.nat(30)}), {minLength: 200, maxLength: 200}),
      async cases => {
        const rows = await db.rows<{text: string; coins: string}>(
          `select app.decimal(amount, decimals) as text, analytics.coins(amount, decimals)::text as coins
           from unnest($1::numeric(78, 0)[], $2::int[]) with ordinality as c (amount, decimals, n) order by n`,
          [cases.map(({amount}) => amount.toString()), cases.map(({decimals}) => decimals)],
        )
        for (const [n, {amount, decimals}] of cases.entries()) {
          const {text, coins} = rows[n]!
          expect(text).toMatch(/^-?(0|[1-9]\d*)(\.\d*[1-9])?$/)
          expect(baseUnits(text, decimals)).toBe(amount)
          expect(coins).toBe(text)
        }
      },
    ),
    {numRuns: 50},
  )
})

/** The integer of a decimal string, computed only by moving its digits. */
function baseUnits(decimal: string, decimals: number): bigint {
  const [whole, fraction = ''] = decimal.split('.')
  expect(fraction.length).toBeLessThanOrEqual(decimals)
  return BigInt(`${whole}${fraction.padEnd(decimals, '0')}`)
}
