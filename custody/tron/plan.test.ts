// What custody puts into a transaction of Tron, which nobody who asks can name.
import pg from 'pg'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {settingsFrom} from '../../chains/settings.ts'
import {largestAmount} from '../../chains/tron/transaction.ts'
import {ChainWriter} from '../../test/support/chain-writer.ts'
import {type TestDatabase, testDatabase} from '../../test/support/database.ts'
import type {FamilyContext, Purpose} from '../judge/plan.ts'
import {termsOf as terms} from './plan.ts'

let db: TestDatabase
let chain: ChainWriter
let client: pg.Client
const settings = settingsFrom('TRON')
beforeAll(async () => {
  db = await testDatabase()
  chain = await ChainWriter.open(db, 'TRON')
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

const purpose = {kind: 'pay', chain: 'TRON', token: 'TRX', amount: 1n} as Purpose
const termsOf = (more: Partial<Purpose> = {}) =>
  terms({client, chains: new Map([['TRON', settings]])} as FamilyContext, {...purpose, ...more})

/** A transaction that custody signed with this time. */
async function signed(timestamp: number): Promise<void> {
  await db.rows(
    `insert into custody.journal (stream, seq, kind, subject_id, token, amount, destination, source, sender, max_fee, txid, raw, details, signed_at, hash)
     select 'TRON', seq, 'pay', gen_random_uuid(), 'TRX', 1, 'd', 's', 's', 1, 'tx' || seq, '', $1, now(), ''
     from (select 1 + coalesce(max(seq), 0) as seq from custody.journal) n`,
    [{timestamp}],
  )
}

test('a transaction names the final block, not the head, and ends a lifetime after the time of the head', async () => {
  const {on, lifetime} = await termsOf()
  const [head] = await db.rows<{time: Date}>(`select head_time as time from chain.cursor where chain = 'TRON'`)
  const end = head!.time.getTime() + 600_000
  expect([on, lifetime]).toEqual([
    {height: 1, hash: chain.blocks[1]!.hash},
    {from: 1, end, clock_ms: end + 30_000},
  ])
})

test('each transaction is a ms later than every earlier one, also if the clock goes back or a burst ran ahead of it', async () => {
  const before = Date.now() - 1
  expect((await termsOf()).timestamp).toBeGreaterThan(before)
  const ahead = Date.now() + 3_600_000
  await signed(ahead)
  expect((await termsOf()).timestamp).toBe(ahead + 1)
  await signed(ahead + 1)
  expect((await termsOf()).timestamp).toBe(ahead + 2)
})

test('only TRX moves, and no amount that the wire would change', async () => {
  await expect(termsOf({token: 'TRC10:1002000'})).rejects.toMatchObject({code: 'unknown_settlement'})
  await expect(termsOf({amount: largestAmount + 1n})).rejects.toMatchObject({code: 'above_limit'})
  expect((await termsOf({amount: largestAmount})).maxFee).toBe(1_100_000n)
  expect((await termsOf({kind: 'sweep'})).maxFee).toBe(300_000n)
})
