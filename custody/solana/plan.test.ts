// What custody puts into a transaction of Solana, which nobody who asks can name, except the fee for its place.
import pg from 'pg'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {settingsFrom} from '../../chains/settings.ts'
import {largestAmount} from '../../chains/solana/message.ts'
import {associatedAccount} from '../../chains/solana/tokens.ts'
import {ChainWriter} from '../../test/support/chain-writer.ts'
import {type TestDatabase, testDatabase} from '../../test/support/database.ts'
import {Known} from '../journal/known.ts'
import type {FamilyContext, Own, Purpose} from '../judge/plan.ts'
import {type Offer, termsOf as terms} from './plan.ts'

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

const treasury = 'J2xccRtuG43drESLYznHhLhQkLTdfepcKYbiQ9BsJVaf'
const recipient = '5SHQQrjzHCMkZZJzYNhx9szLeYsVCYw4NNr8p7xT9BAY'
const merchantId = '11111111-1111-4111-8111-111111111111'
const purpose = {kind: 'pay', chain: 'SOL', token: 'SOL', amount: 1n, merchantId, destination: recipient} as Purpose
const known = new Known()
const context = () => ({client, chains: new Map([['SOL', settings]]), journal: {known}}) as unknown as FamilyContext
const own = (address: string) => ({address}) as Own
/** Of the treasury, which pays its own fee. */
const termsOf = (more: Partial<Purpose> = {}, priorityFee = 0n, offer: Omit<Offer, 'priorityFee'> = {}) => {
  const of = {purpose: {...purpose, ...more}, before: [], from: own(treasury), payer: own(treasury)}
  return terms(context(), of, {priorityFee, ...offer})
}

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

test('only known tokens move, and no amount that the wire would change', async () => {
  for (const token of ['USDT', 'BONK'])
    await expect(termsOf({token})).rejects.toMatchObject({code: 'unknown_settlement'})
  await expect(termsOf({amount: largestAmount + 1n})).rejects.toMatchObject({code: 'above_limit'})
  await expect(termsOf({amount: largestAmount})).resolves.toBeDefined()
})

/** Of devnet, as the registry has it. */
const usdc = '4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU'
const accountOf = (owner: string) => associatedAccount(owner, usdc, 'token')

const common = {mint: usdc, decimals: 6, program: 'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA'}

test('a payment of a token goes to the account of its recipient alone, which is made if it is not there', async () => {
  const {transfer, maxFee, rent} = await termsOf({token: 'USDC'}, 7n)
  const accounts = {fromAccount: accountOf(treasury), to: accountOf(recipient), madeFor: recipient}
  expect([transfer, rent, maxFee]).toEqual([{...common, ...accounts}, 2_500_000n, 2_505_007n])
})

test('a sweep of a token leaves the account that is named, else the associated one, for that of the treasury', async () => {
  const sweep = {token: 'USDC', kind: 'sweep', destination: treasury, amount: 10n ** 6n} as const
  const from = {purpose: {...purpose, ...sweep}, before: [], from: own(recipient), payer: own(treasury)}
  const swept = (offer: Omit<Offer, 'priorityFee'> = {}) => terms(context(), from, {priorityFee: 7n, ...offer})
  const accounts = {fromAccount: accountOf(recipient), to: accountOf(treasury)}
  expect(await swept()).toMatchObject({transfer: {...common, ...accounts}, rent: 0n, maxFee: 10_007n})
  const other = accountOf(usdc) // whosever it is: the chain refuses what the address does not own
  expect((await swept({account: other})).transfer).toEqual({...common, ...accounts, fromAccount: other})
  const made = await swept({isNewAccount: true})
  expect(made).toMatchObject({transfer: {...common, ...accounts, madeFor: treasury}, maxFee: 2_510_007n})
})

test('less than the minimum is swept from another account than the associated one, with which it cannot be swept', async () => {
  const sweep = {token: 'USDC', kind: 'sweep', destination: treasury, amount: 1n} as const
  const from = {purpose: {...purpose, ...sweep}, before: [], from: own(recipient), payer: own(treasury)}
  const swept = (offer: Omit<Offer, 'priorityFee'>) => terms(context(), from, {priorityFee: 0n, ...offer})
  await expect(swept({})).rejects.toMatchObject({code: 'sweep_too_small'})
  await expect(swept({account: accountOf(recipient)})).rejects.toMatchObject({code: 'sweep_too_small'})
  await expect(swept({account: treasury})).resolves.toBeDefined()
})

test('accounts for the recipients of a merchant cost no more in a day than is allowed: what was paid, or may be', async () => {
  const payment = (n: number, day: string, of = merchantId) => ({
    ...{stream: 'SOL', seq: n, kind: 'pay', destination: 'd', source: 's', subject_id: `p${n}`, merchant_id: of},
    ...{
      token: 'USDC',
      amount: '1',
      sender: 's',
      nonce: null,
      max_fee: '2505000',
      txid: `rent${n}`,
      hash: '00'.repeat(32),
    },
    ...{details: {lifetime: {}, rent: '2500000'}, signed_at: `${day}T00:00:01.000Z`},
  })
  const today = new Date().toISOString().slice(0, 10)
  const other = '22222222-2222-4222-8222-222222222222'
  const numbers = Array.from({length: 19}, (_, n) => 10 + n)
  const entries = [payment(1, '2026-01-01'), ...numbers.map(n => payment(n, today)), payment(40, today, other)]
  for (const entry of entries) known.note(entry)
  const paid = () => termsOf({token: 'USDC'})
  await expect(paid()).resolves.toBeDefined() // the 20th of today may cost 0.05 SOL in all
  known.note(payment(30, today))
  await expect(paid()).rejects.toMatchObject({code: 'account_rent_limit'})
  await expect(termsOf()).resolves.toBeDefined()
  await expect(termsOf({token: 'USDC', kind: 'withdraw', merchantId: null})).resolves.toBeDefined()
  known.forget(payment(30, today))
  await expect(paid()).resolves.toBeDefined()
  known.note(payment(30, today))
  await db.rows(
    `insert into chain.lapse (chain, txid, final_height, final_hash, evidence) values ('SOL', 'rent12', 1, '', '{}')`,
  )
  await expect(paid()).resolves.toBeDefined()
  known.note(payment(31, today))
  await expect(paid()).rejects.toMatchObject({code: 'account_rent_limit'})
  const included = (n: number, height: number, fee: number) =>
    db.rows(
      `insert into chain.confirmed_tx (id, chain, txid, block_height, block_hash, block_time, account, success, fee)
       values ('SOL:' || $1, 'SOL', $1, $2, 'h', now(), 'a', true, $3)`,
      [`rent${n}`, height, fee],
    )
  await included(13, 9_000_000, 5000) // not final
  await expect(paid()).rejects.toMatchObject({code: 'account_rent_limit'})
  await included(14, 1, 5000) // its recipient had an account
  await expect(paid()).resolves.toBeDefined()
})
