// What custody puts into a transaction of Solana, which nobody who asks can name, except the fee for its place.
import pg from 'pg'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {settingsFrom} from '../../chains/settings.ts'
import {largestAmount} from '../../chains/solana/message.ts'
import {ChainWriter} from '../../test/support/chain-writer.ts'
import {type TestDatabase, testDatabase} from '../../test/support/database.ts'
import type {FamilyContext, Purpose} from '../judge/plan.ts'
import {termsOf as terms} from './plan.ts'

let db: TestDatabase
let chain: ChainWriter
let client: pg.Client
const settings = settingsFrom('SOL', {SOL_MAX_PRIORITY_FEE: '0.001'})
beforeAll(async () => {
  db = await testDatabase()
  chain = await ChainWriter.open(db, 'SOL')
  await chain.write({add: [[], [], []]})
  await chain.finalise(1)
  client = new pg.Client({connectionString: db.url('sluice_custody')})
  await client.connect()
})
afterAll(async () => {
  await client?.end()
  await chain?.close()
  await db?.drop()
})

const purpose = {kind: 'pay', chain: 'SOL', token: 'SOL', amount: 1n} as Purpose
const termsOf = (more: Partial<Purpose> = {}, priorityFee = 0n) =>
  terms({client, chains: new Map([['SOL', settings]])} as FamilyContext, {...purpose, ...more}, 1, priorityFee)

/** Something that custody signed, with this number in the journal. */
async function signed(seq: number): Promise<void> {
  await db.rows(
    `insert into custody.journal (stream, seq, kind, subject_id, token, amount, destination, source, sender, max_fee, txid, raw, details, signed_at, hash)
     values ('SOL', $1::int, 'pay', gen_random_uuid(), 'SOL', 1, 'd', 's', 's', 1, 'tx' || $1::int, '', '{}', now(), '')`,
    [seq],
  )
}

test('a transaction names the head, and ends 151 blocks after it', async () => {
  const before = Date.now()
  const {blockhash, lifetime} = await termsOf()
  expect([blockhash, lifetime.from, lifetime.end]).toEqual([chain.head.hash, 1, 3 + 151])
  const longest = 151 * 400 + 30_000
  expect(lifetime.clock_ms).toBeGreaterThanOrEqual(before + longest - 1000)
  expect(lifetime.clock_ms).toBeLessThanOrEqual(Date.now() + longest + 1000)
  await chain.write({drop: 1, add: [[], []]})
  const after = await termsOf()
  expect([after.blockhash, after.lifetime.end]).toEqual([chain.head.hash, 4 + 151])
})

test('nothing is signed while no block was linked', async () => {
  await db.rows(`update chain.cursor set head_moved_at = clock_timestamp() - interval '61 s'`)
  await expect(termsOf()).rejects.toMatchObject({code: 'head_stale'})
  await db.rows('update chain.cursor set head_moved_at = clock_timestamp()')
  await expect(termsOf()).resolves.toBeDefined()
})

test('each transaction has another limit than the 999 before it', async () => {
  const limits: number[] = []
  for (const seq of [1, 2, 3, 999, 1000, 1001]) {
    await signed(seq)
    limits.push((await termsOf()).computeUnitLimit)
  }
  expect(limits).toEqual([1001, 1002, 1003, 1999, 1000, 1001])
})

test('the fee is what was offered and one signature, up to the highest that the operator allows', async () => {
  expect(await termsOf()).toMatchObject({priorityFee: 0n, maxFee: 5000n})
  expect(await termsOf({kind: 'sweep'}, 1_000_000n)).toMatchObject({priorityFee: 1_000_000n, maxFee: 1_005_000n})
  await expect(termsOf({}, 1_000_001n)).rejects.toMatchObject({code: 'fee_above_cap'})
})

test('only the native coin moves, and no amount that the wire would change', async () => {
  await expect(termsOf({token: 'USDC'})).rejects.toMatchObject({code: 'unknown_settlement'})
  await expect(termsOf({amount: largestAmount + 1n})).rejects.toMatchObject({code: 'above_limit'})
  await expect(termsOf({amount: largestAmount})).resolves.toBeDefined()
})
