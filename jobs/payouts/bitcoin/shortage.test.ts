// What a transaction waits for if free outputs are not enough, on a real database: money, or the block from which on
// new coins can be spent.
import {randomBytes} from 'node:crypto'
import pg from 'pg'
import {afterAll, beforeAll, beforeEach, expect, test} from 'vitest'
import {ChainWriter} from '../../../test/support/chain-writer.ts'
import {type TestDatabase, testDatabase} from '../../../test/support/database.ts'
import {makeMerchant} from '../../../test/support/people.ts'
import {selectPayment} from './select.ts'
import {whyShort} from './shortage.ts'

let db: TestDatabase
let pool: pg.Pool
let chain: ChainWriter
let merchant: string
beforeAll(async () => {
  db = await testDatabase()
  pool = new pg.Pool({connectionString: db.url('sluice_jobs'), max: 2})
  chain = await ChainWriter.open(db, 'BTC')
  await chain.write({add: [[], []]})
  merchant = await makeMerchant(db, ['BTC'])
})
afterAll(async () => {
  await Promise.all([pool.end(), chain.close()])
  await db.drop()
})
beforeEach(() => db.rows('delete from app.output'))

/** A final output that can be spent `blocksAhead` blocks from now; 0: at once. */
async function output(amount: bigint, blocksAhead: number, owner: string | null = null): Promise<void> {
  await db.rows(
    `insert into app.output (chain, txid, vout, address, merchant_id, amount, mature_at) values ('BTC', $1, 0, 'ours', $2, $3, $4)`,
    [randomBytes(32).toString('hex'), owner, String(amount), chain.head.height + blocksAhead],
  )
}

const why = (amount: bigint, merchantId: string | null = null) =>
  whyShort({pool}, {chain: 'BTC', merchantId}, 'short', more =>
    selectPayment({amount, scriptLength: 22}, [], more, {rate: 1, cap: 10}),
  )

test('the first block at which enough new coins can be spent is named, with the usable amount', async () => {
  await output(50_000n, 40)
  await output(60_000n, 70)
  await output(1_000_000n, 90)
  const {height} = chain.head
  expect(await why(100_000n)).toEqual({
    reason: 'treasury_immature',
    detail: `short; 110000 sat of new coins would be enough, and can be spent from block ${height + 70} on (a coinbase output needs 100 blocks)`,
  })
  expect((await why(500_000n)).detail).toContain(`from block ${height + 90} on`)
})

test('the payout waits for money if new coins would not be enough, do not exist, or belong to others', async () => {
  const money = {reason: 'insufficient_treasury_funds', detail: 'short'}
  expect(await why(100_000n)).toEqual(money)
  await output(50_000n, 40)
  await output(1_000_000n, 0) // it is free: the caller has tried with it already
  expect(await why(100_000n)).toEqual(money)
  await output(1_000_000n, 40, merchant)
  expect(await why(100_000n)).toEqual(money)
  expect(await why(100_000n, merchant)).toMatchObject({reason: 'treasury_immature'})
})
