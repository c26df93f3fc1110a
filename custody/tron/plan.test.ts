// What custody puts into a transaction of Tron, which nobody who asks can name.
import pg from 'pg'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {settingsFrom} from '../../chains/settings.ts'
import {mostTokenBytesFee} from '../../chains/tron/bytes.ts'
import type {TronSettings} from '../../chains/tron/settings.ts'
import {largestAmount} from '../../chains/tron/transaction.ts'
import {ChainWriter} from '../../test/support/chain-writer.ts'
import {type TestDatabase, testDatabase} from '../../test/support/database.ts'
import type {OutgoingPayment} from '../judge/outgoing-payments.ts'
import type {FamilyContext, Own, Plan, Purpose} from '../judge/plan.ts'
import {checkSweep, type TronTerms, termsOf as terms} from './plan.ts'

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
const outgoingPayment = {fromGas: false} as OutgoingPayment
const termsOf = (more: Partial<Purpose> = {}, feeLimit?: bigint) => {
  const of = {purpose: {...purpose, ...more}, before: [], from: {address: 'none'} as Own, outgoingPayment}
  return terms({client, chains: new Map([['TRON', settings]])} as FamilyContext, of, feeLimit)
}

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

test('only TRX and known tokens move, and no amount of TRX that the wire would change', async () => {
  await expect(termsOf({token: 'TRC10:1002000'})).rejects.toMatchObject({code: 'unknown_settlement'})
  await expect(termsOf({amount: largestAmount + 1n})).rejects.toMatchObject({code: 'above_limit'})
  expect((await termsOf({amount: largestAmount})).maxFee).toBe(1_100_000n)
  expect((await termsOf({kind: 'sweep'})).maxFee).toBe(300_000n)
})

test('a transfer of a token names its contract, and counts what its energy may burn, and its bytes', async () => {
  const most = mostTokenBytesFee(settings as TronSettings)
  const {call, maxFee} = await termsOf({token: 'USDT', amount: 2n ** 70n}, 7_000_000n)
  expect(call).toEqual({contract: 'TXYZopYRdj2D9XRtbG411XZZ3kM5VkAeBf', feeLimit: 7_000_000n})
  expect(maxFee).toBe(7_000_000n + most)
  expect((await termsOf({token: 'USDT'}, 30_000_000n - most)).maxFee).toBe(30_000_000n)
  await expect(termsOf({token: 'USDT'}, 30_000_001n - most)).rejects.toMatchObject({code: 'fee_above_cap'})
})

test('a token without a limit for its energy, and TRX with one, are refused', async () => {
  await expect(termsOf({token: 'USDT'})).rejects.toMatchObject({code: 'fee_too_low'})
  await expect(termsOf({token: 'USDT'}, 0n)).rejects.toMatchObject({code: 'fee_too_low'})
  await expect(termsOf({}, 1n)).rejects.toMatchObject({code: 'fee_too_low'})
})

test('a first sweep of less of a token than its minimum is refused, unless all of it counts', async () => {
  const sweep = {kind: 'sweep', token: 'USDT'} as const
  await expect(termsOf({...sweep, amount: 4_999_999n}, 1n)).rejects.toMatchObject({code: 'sweep_too_small'})
  expect((await termsOf({...sweep, amount: 5_000_000n}, 1n)).call?.feeLimit).toBe(1n)
})

test('a sweep of a token may cost what the operator allows, and no more', () => {
  const sweep = (maxFee: bigint) => ({maxFee, call: {contract: '', feeLimit: 1n}}) as Plan & TronTerms
  expect(() => checkSweep(settings as TronSettings, sweep(30_000_000n))).not.toThrow()
  expect(() => checkSweep(settings as TronSettings, sweep(30_000_001n))).toThrow('TRON_TOKEN_SWEEP_FEE')
})
