// What becomes of each transaction that custody signed (app.attempt_fate), and which transactions decide about an
// outgoing payment (app.outgoing_confirmed_tx). The first is asked before each signature (its plan there:
// custody/judge/attempts.test.ts), the second at each COMMIT of an indexer, so their plans are tested, too.
import {randomUUID} from 'node:crypto'
import type pg from 'pg'
import {afterAll, beforeAll, describe, expect, test} from 'vitest'
import {dueOutgoingPayments} from '../jobs/payouts/outgoing-payments.ts'
import {ChainWriter, hashOf, type TestConfirmedTx} from '../test/support/chain-writer.ts'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'
import {explaining, manyPayments, pagesOf} from '../test/support/many-payments.ts'
import {Money} from '../test/support/money.ts'

type Chain = 'ETH' | 'POLYGON' | 'BTC'

let db: TestDatabase
const writers = new Map<Chain, ChainWriter>()
const owner = '0xOwner'
let number = 0

beforeAll(async () => {
  db = await testDatabase()
  for (const chain of ['ETH', 'POLYGON', 'BTC'] as const) writers.set(chain, await ChainWriter.open(db, chain))
})
afterAll(async () => {
  for (const writer of writers.values()) await writer.close()
  await db.drop()
})

const next = () => ++number
const newTxid = () => hashOf(`transaction ${next()}`)
const anOutpoint = () => `${newTxid()}:0`

interface Signed {
  txid?: string
  chain?: Chain
  kind?: string
  subject?: string
  /** On EVM chains. */
  nonce?: number
  /** On Bitcoin. */
  inputs?: string[]
}

/** An entry of custody's journal; resolves to its number and its txid. Nothing else in the database knows of it. */
async function sign({chain = 'ETH', kind = 'pay', subject = randomUUID(), nonce, inputs, txid = newTxid()}: Signed) {
  const [row] = await db.rows<{seq: number}>(
    `insert into custody.journal (stream, seq, kind, subject_id, sender, nonce, txid, details, signed_at, hash)
     select $1, 1 + (select count(*) from custody.journal where stream = $1), $2, $3, $4, $5, $6, $7, now(), $6 returning seq::int`,
    [chain, kind, subject, owner, nonce, txid, inputs ? {inputs} : {}],
  )
  return {seq: row!.seq, txid, subject, chain}
}

/** Transactions of ours in a block; resolves to its height. */
async function include(chain: Chain, confirmedTxs: TestConfirmedTx[], {final = false, drop = 0} = {}): Promise<number> {
  const writer = writers.get(chain)!
  await writer.write({drop, add: [{confirmedTxs: confirmedTxs.map(one => ({account: owner, ...one}))}]})
  if (final) await finalise(chain)
  return writer.head.height
}

async function finalise(chain: Chain): Promise<void> {
  const writer = writers.get(chain)!
  expect(await writer.finalise(writer.head.height)).toBe(true)
}

/** A Bitcoin transaction: a row for each output of ours that it spends. */
const spending = (txid: string, outpoints: string[], more: Partial<TestConfirmedTx> = {}): TestConfirmedTx[] =>
  outpoints.map((outpoint, input) => ({txid, input, outpoint, ...more}))

interface Fate {
  fate: string
  block_height: number | null
  success: boolean | null
  fee: string | null
  conflicting_txid: string | null
}

async function fateOf({chain, seq}: {chain: string; seq: number}): Promise<Fate> {
  const rows = await db.rows<Fate>(
    'select fate, block_height, success, fee, conflicting_txid from app.attempt_fate where chain = $1 and seq = $2',
    [chain, seq],
  )
  expect(rows.length).toBe(1)
  return rows[0]!
}

const none = {block_height: null, success: null, fee: null, conflicting_txid: null}

/** As it is signed and mined on each kind of chain. */
const kinds: {
  chain: Chain
  key: () => Pick<Signed, 'nonce' | 'inputs'>
  uses: (txid: string, key: Pick<Signed, 'nonce' | 'inputs'>, more?: Partial<TestConfirmedTx>) => TestConfirmedTx[]
}[] = [
  {
    chain: 'ETH',
    key: () => ({nonce: next()}),
    uses: (txid, {nonce}, more) => [{txid, nonce: nonce!, ...more}],
  },
  {
    chain: 'BTC',
    key: () => ({inputs: [anOutpoint(), anOutpoint()]}),
    uses: (txid, {inputs}, more) => spending(txid, inputs!, more),
  },
]

test.each(kinds)('on $chain an attempt is open, then in a block, then final', async ({chain, key, uses}) => {
  const used = key()
  const attempt = await sign({chain, ...used})
  expect(await fateOf(attempt)).toEqual({fate: 'open', ...none})
  const block_height = await include(chain, uses(attempt.txid, used, {fee: 7n}))
  const seen = {block_height, success: true, fee: '7', conflicting_txid: null}
  expect(await fateOf(attempt)).toEqual({fate: 'in_block', ...seen})
  await finalise(chain)
  expect(await fateOf(attempt)).toEqual({fate: 'final', ...seen})
})

test('one that failed is in a block until the block is final, then dead', async () => {
  const used = {nonce: next()}
  const attempt = await sign(used)
  const failed = {txid: attempt.txid, ...used, success: false, fee: 3n}
  const first = await include('ETH', [failed])
  expect(await fateOf(attempt)).toEqual({fate: 'in_block', ...none, block_height: first, success: false, fee: '3'})
  await include('ETH', [{...failed, success: true}], {drop: 1}) // in another block it may succeed
  expect(await fateOf(attempt)).toMatchObject({fate: 'in_block', success: true})
  await include('ETH', [failed], {drop: 1, final: true})
  expect(await fateOf(attempt)).toMatchObject({fate: 'dead', success: false, conflicting_txid: null})
})

test.each(kinds)('on $chain another transaction kills it once that is final', async ({chain, key, uses}) => {
  const used = key()
  const attempt = await sign({chain, ...used})
  const foreign = newTxid()
  await include(chain, uses(foreign, used))
  expect(await fateOf(attempt)).toEqual({fate: 'open', ...none})
  await finalise(chain)
  expect(await fateOf(attempt)).toEqual({fate: 'dead', ...none, conflicting_txid: foreign})
})

test('on Bitcoin one spent input is enough, the first one or a later one; others of the conflicting transaction are nothing', async () => {
  const [a, b, c] = [anOutpoint(), anOutpoint(), anOutpoint()]
  const first = await sign({chain: 'BTC', inputs: [a]})
  const second = await sign({chain: 'BTC', inputs: [a, b], subject: first.subject})
  const other = await sign({chain: 'BTC', inputs: [c]})
  const foreign = newTxid()
  await include('BTC', spending(foreign, [b, anOutpoint()]), {final: true})
  expect(await fateOf(first)).toEqual({fate: 'open', ...none}) // it does not spend that output
  expect(await fateOf(second)).toEqual({fate: 'dead', ...none, conflicting_txid: foreign})
  const thief = newTxid()
  await include('BTC', spending(thief, [anOutpoint(), a]), {final: true})
  expect(await fateOf(first)).toEqual({fate: 'dead', ...none, conflicting_txid: thief})
  expect(await fateOf(second)).toMatchObject({fate: 'dead'})
  expect(await fateOf(other)).toEqual({fate: 'open', ...none})
})

test('of several attempts of a payment one becomes final, or fails, and kills the others', async () => {
  const subject = randomUUID()
  for (const {success, fate} of [
    {success: true, fate: 'final'},
    {success: false, fate: 'dead'},
  ]) {
    const used = {nonce: next(), subject}
    const first = await sign(used)
    const winner = await sign(used)
    const cancel = await sign({...used, kind: 'cancel'})
    await include('ETH', [{txid: winner.txid, nonce: used.nonce, success}])
    expect(await fateOf(first)).toEqual({fate: 'open', ...none}) // the block may leave the chain
    expect(await fateOf(winner)).toMatchObject({fate: 'in_block'})
    await finalise('ETH')
    expect(await fateOf(winner)).toMatchObject({fate, success, conflicting_txid: null})
    for (const other of [first, cancel])
      expect(await fateOf(other)).toEqual({fate: 'dead', ...none, conflicting_txid: winner.txid})
  }
  const ofSubject = 'select kind, fate, seq from app.attempt_fate where subject_id = $1 order by seq'
  const found = await db.rows<{kind: string; fate: string}>(ofSubject, [subject])
  expect(found.map(({kind, fate}) => `${kind} ${fate}`)).toEqual([
    'pay dead',
    'pay final',
    'cancel dead',
    'pay dead',
    'pay dead',
    'cancel dead',
  ])
})

test('a nonce of another chain, of another account, or another nonce of the same one, kills nothing', async () => {
  const nonce = next()
  const [eth, polygon] = [await sign({nonce}), await sign({nonce, chain: 'POLYGON'})]
  await include(
    'ETH',
    [
      {txid: newTxid(), account: '0xOther', nonce},
      {txid: newTxid(), nonce: next()},
    ],
    {final: true},
  )
  await include('POLYGON', [{txid: newTxid(), nonce}], {final: true})
  expect(await fateOf(eth)).toEqual({fate: 'open', ...none})
  expect(await fateOf(polygon)).toMatchObject({fate: 'dead'})
})

test('the same txid on another chain is another transaction', async () => {
  const nonce = next()
  const txid = newTxid()
  const eth = await sign({nonce, txid})
  const polygon = await sign({nonce, txid, chain: 'POLYGON'})
  await include('POLYGON', [{txid, nonce}], {final: true})
  expect(await fateOf(eth)).toEqual({fate: 'open', ...none})
  expect(await fateOf(polygon)).toMatchObject({fate: 'final'})
})

test('a final block decides, whatever a block that is not final says', async () => {
  const used = {nonce: next()}
  const [attempt, other] = [await sign(used), await sign(used)]
  await include('ETH', [{txid: other.txid, ...used}], {final: true})
  await include('ETH', [{txid: attempt.txid, ...used}]) // only a node that lies shows both
  expect(await fateOf(attempt)).toMatchObject({fate: 'dead', conflicting_txid: other.txid})
  expect(await fateOf(other)).toMatchObject({fate: 'final'})
  await finalise('ETH')
  for (const one of [attempt, other]) expect(await fateOf(one)).toMatchObject({fate: 'final'}) // it paid twice
})

test('a block that leaves the chain opens it again, final or not', async () => {
  const used = {nonce: next()}
  const [attempt, other] = [await sign(used), await sign(used)]
  const height = await include('ETH', [{txid: other.txid, ...used}])
  expect(await fateOf(other)).toMatchObject({fate: 'in_block'})
  await include('ETH', [], {drop: 1})
  expect(await fateOf(other)).toEqual({fate: 'open', ...none})
  await include('ETH', [{txid: other.txid, ...used}], {drop: 1, final: true})
  expect(await fateOf(attempt)).toMatchObject({fate: 'dead'})
  await db.rows(`select app.resolve_incident(id, 'kept') from app.incident where resolved_at is null`)
  await db.rows('select app.request_rewind($1, $2)', ['ETH', height - 1])
  await writers.get('ETH')!.rewind(height - 1)
  for (const one of [attempt, other]) expect(await fateOf(one)).toEqual({fate: 'open', ...none})
  await include('ETH', [{txid: attempt.txid, ...used}], {final: true})
  expect(await fateOf(attempt)).toMatchObject({fate: 'final'})
  expect(await fateOf(other)).toMatchObject({fate: 'dead', conflicting_txid: attempt.txid})
})

test('entries about addresses are not there, and an attempt on a chain that was never followed is open', async () => {
  await db.rows(
    `insert into custody.journal (stream, seq, kind, signed_at, hash) values ('pool:evm', 1, 'pool', now(), 'a'), ('NEW', 1, 'pool', now(), 'b')`,
  )
  await db.rows(
    `insert into custody.journal (stream, seq, kind, sender, nonce, txid, signed_at, hash) values ('NEW', 2, 'sweep', 'a', 0, 'c', now(), 'd')`,
  )
  expect(
    await db.rows(`select chain, seq::int, fate from app.attempt_fate where chain in ('pool:evm', 'NEW')`),
  ).toEqual([{chain: 'NEW', seq: 2, fate: 'open'}])
})

test('the fate of a stored attempt is that of its entry, with the kind and the subject of the journal', async () => {
  const money = await Money.open()
  try {
    const user = await money.merchant()
    await money.deposit(user.address, 1000)
    await money.topUp('ETH', 1000)
    const payout = await money.claim(user)
    await money.db.rows('select app.begin_sweeping($1)', [payout])
    await money.topUp('USDC', 1000)
    await money.db.rows('select app.end_sweeping($1)', [payout])
    const txid = await money.payAndSign(payout)
    const fates = 'select kind, subject_id, fate from app.attempt_fate where chain = $1 and txid = $2'
    expect(await money.db.rows(fates, ['ETH', txid])).toEqual([{kind: 'pay', subject_id: payout, fate: 'open'}])
    await money.mine([txid])
    await money.finalise()
    expect(await money.db.rows(fates, ['ETH', txid])).toEqual([{kind: 'pay', subject_id: payout, fate: 'final'}])
  } finally {
    await money.close()
  }
})

// --- app.outgoing_confirmed_tx ---

interface Begun {
  chain?: Chain
  nonce?: number
  firstInput?: string
}

/** An outgoing payment, without what it is for; resolves to its id. */
async function begin({chain = 'ETH', nonce, firstInput}: Begun): Promise<string> {
  const [row] = await db.rows<{id: string}>(
    `insert into app.outgoing_payment (kind, chain, token, amount, source, recipient, fee_payer, nonce, first_input, status, next_step_at, max_fee)
     values ('withdrawal', $1, $2, 1, $3, 'you', $3, $4, $5, 'live', null, 1) returning id`,
    [chain, chain === 'BTC' ? 'BTC' : 'ETH', owner, nonce, firstInput],
  )
  return row!.id
}

async function attempted(payment: string, attempt: number, chain: Chain = 'ETH', txid = newTxid()): Promise<string> {
  await db.rows(
    `insert into app.outgoing_attempt (chain, txid, outgoing_payment_id, attempt, kind, raw, token, source, recipient, amount, max_fee, fee_details)
     values ($1, $2, $3, $4, 'effect', '', 'ETH', $5, 'you', 1, 1, '{}')`,
    [chain, txid, payment, attempt, owner],
  )
  return txid
}

/** An output of ours that an attempt of a payment spends, or that is free. */
async function reserved(payment: string | null, fromAttempt: number | null, outpoint = anOutpoint()): Promise<string> {
  const [txid, vout] = outpoint.split(':')
  await db.rows(
    `insert into app.output (chain, txid, vout, address, amount, outgoing_payment_id, from_attempt) values ('BTC', $1, $2, $3, 1, $4, $5)`,
    [txid, vout, owner, payment, fromAttempt],
  )
  return outpoint
}

const decides = async (payment: string) => {
  const rows = await db.rows<{txid: string; chain: string; block_height: number; success: boolean; fee: string}>(
    'select distinct chain, txid, block_height, success, fee from app.outgoing_confirmed_tx where outgoing_payment_id = $1 order by block_height, txid',
    [payment],
  )
  return rows
}

test('an outgoing payment is decided by its attempts, and by whatever uses up its conflict key, in any block', async () => {
  const nonce = next()
  const payment = await begin({nonce})
  const other = await begin({nonce: next()})
  expect(await decides(payment)).toEqual([])
  const [first, second] = [await attempted(payment, 1), await attempted(payment, 2)]
  const foreign = newTxid()
  const height = await include('ETH', [{txid: foreign, nonce, success: false, fee: 5n}])
  const ofForeign = {chain: 'ETH', txid: foreign, block_height: height, success: false, fee: '5'}
  expect(await decides(payment)).toEqual([ofForeign])
  // A transaction of it that used another key: only where attempts do not exclude each other.
  const later = await include('ETH', [{txid: second, nonce: next(), fee: 6n}])
  expect(await decides(payment)).toEqual([
    ofForeign,
    {chain: 'ETH', txid: second, block_height: later, success: true, fee: '6'},
  ])
  await include('POLYGON', [
    {txid: first, nonce},
    {txid: newTxid(), nonce},
  ])
  expect((await decides(payment)).length).toBe(2)
  expect(await decides(other)).toEqual([])
})

test('on Bitcoin the inputs of the first attempt decide; what only a later one spends, or nobody, does not', async () => {
  const firstInput = anOutpoint()
  const payment = await begin({chain: 'BTC', firstInput})
  const other = await begin({chain: 'BTC', firstInput: await reserved(null, null)})
  await reserved(payment, 1, firstInput)
  const [kept, added] = [await reserved(payment, 1), await reserved(payment, 2)]
  await include('BTC', spending(newTxid(), [added, await reserved(null, null)]))
  expect(await decides(payment)).toEqual([])
  await include('ETH', [{txid: newTxid(), outpoint: kept}]) // an output of another chain
  expect(await decides(payment)).toEqual([])
  const foreign = newTxid()
  const height = await include('BTC', spending(foreign, [kept], {fee: 9n}))
  const ofForeign = {chain: 'BTC', txid: foreign, block_height: height, success: true, fee: '9'}
  expect(await decides(payment)).toEqual([ofForeign])
  const thief = newTxid()
  const later = await include('BTC', spending(thief, [firstInput]))
  expect(await decides(payment)).toEqual([ofForeign, {...ofForeign, txid: thief, block_height: later, fee: '0'}])
  expect(await decides(other)).toEqual([])
  expect(await db.rows('select from app.outgoing_confirmed_tx where outgoing_payment_id is null')).toEqual([])
})

// --- plans ---

describe('with 40,000 payments', () => {
  let filled: TestDatabase

  beforeAll(async () => {
    filled = await manyPayments()
  }, 60_000)
  afterAll(() => filled.drop())

  const questions: Record<string, (pool: pg.Pool) => Promise<unknown>> = {
    'the fate of an entry': pool => pool.query(`select * from app.attempt_fate where chain = 'BTC' and seq = 777`),
    'the fates of a payment': pool =>
      pool.query(`select * from app.attempt_fate where subject_id = md5('BTC77')::uuid`),
    'the fate of a txid': pool => pool.query(`select * from app.attempt_fate where txid = md5('BTC777')`),
    'the fates of some txids': pool =>
      pool.query(`select * from app.attempt_fate where txid = any(array[md5('BTC777'), md5('ETH5'), md5('none')])`),
    'what the worker has to send': pool => dueOutgoingPayments({pool, replaceAfterMs: 1}, 'ETH', 100),
    'which payments a block ends': pool => pool.query(`select app.finish_outgoing_payments('ETH', 990)`),
    'which transactions may pay twice': pool =>
      pool.query(`select app.suspect_second_payments(array[md5('ETH7'), md5('BTC8')])`),
  }

  /** They read so many pages for each payment that is not final. */
  const readsOpen = ['what the worker has to send', 'which payments a block ends']

  test.each(Object.keys(questions))('%s: few pages are read', async name => {
    const {pool, plan} = explaining(filled)
    await questions[name]!(pool)
    expect(plan(), plan()).not.toMatch(/Seq Scan on (journal|journal_key|confirmed_tx|outgoing_\w+)/)
    expect(pagesOf(plan()), plan()).toBeLessThan(readsOpen.includes(name) ? 24 * 60 : 200)
  })
})
