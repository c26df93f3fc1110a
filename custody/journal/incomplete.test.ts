// A journal that may lack entries: when custody finds that, and what it waits for before it signs for the first time.
// The tests make Ethereum's transactions expire by height and by time, so that these tests need no chain that does;
// Polygon's exclude each other by their nonces.
import {existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import pg from 'pg'
import {afterAll, afterEach, beforeAll, beforeEach, describe, expect, test} from 'vitest'
import {ChainWriter} from '../../test/support/chain-writer.ts'
import {killCustody} from '../../test/support/custody.ts'
import {type TestDatabase, testDatabase} from '../../test/support/database.ts'
import {fees, higherFees, sweepIntent, WrittenEvm} from '../../test/support/evm/written-world.ts'
import {until} from '../../test/support/until.ts'
import {junk} from '../../test/support/written-world.ts'
import {families} from '../families.ts'
import {localKeys} from '../keys/key-store.ts'
import {type Seal, sealOf} from '../keys/seal.ts'
import {restoreBackup, writeBackup} from './backup.ts'
import {journalFile} from './file.ts'
import {incompleteMark, markIncomplete} from './incomplete.ts'
import {type Draft, Journal} from './journal.ts'

const expire = `update app.chain set attempts_exclude_by = 'expiry', ends_by = 'height', longest_lifetime = 3, longest_lifetime_ms = 60000
  where chain = 'ETH'`
let db: TestDatabase
let client: pg.Client
let writer: ChainWriter
let home: string
let seal: Seal

beforeAll(async () => {
  db = await testDatabase()
  await db.rows(expire)
  writer = await ChainWriter.open(db, 'ETH')
  seal = await sealOf(await localKeys(junk, families))
})
afterAll(async () => {
  await writer.close()
  await db.drop()
})
beforeEach(async () => {
  home = mkdtempSync(path.join(tmpdir(), 'sluice-incomplete-'))
  mkdirSync(path.join(home, 'custody'))
  client = new pg.Client({connectionString: db.url('sluice_custody')})
  await client.connect()
})
afterEach(async () => {
  await client.end()
  rmSync(home, {recursive: true})
  await asOwner('delete from custody.journal')
  await db.rows('delete from custody.unproven_copy')
})

/** Makes a change that only the owner of the database can make, without triggers. */
async function asOwner(sql: string): Promise<void> {
  await db.rows(`begin; set local session_replication_role = replica; ${sql}; commit`)
}

const open = () => new Journal(client, journalFile(home), ['ETH', 'POLYGON', 'pool:evm'], seal)
const draft = (stream: string, kind: Draft['kind'] = 'sweep'): Draft => ({
  stream,
  kind,
  subject_id: null,
  merchant_id: null,
  token: 'ETH',
  amount: '1',
  destination: '0xTreasury',
  source: '0xAddress',
  sender: '0xAddress',
  nonce: null,
  max_fee: '1',
  txid: kind === 'pool' ? null : '0xab',
  raw: '0x02',
  details: {},
  signed_at: '2026-11-21T10:00:00.120Z',
})
const turn = (journal: Journal, ...drafts: Draft[]) =>
  journal.write(async add => {
    for (const one of drafts) await add(one)
  })
const mark = () => incompleteMark(journalFile(home))

/** Removes the last lines of the file. */
function cut(lines: number): void {
  const all = readFileSync(journalFile(home), 'utf8').split('\n').slice(0, -1)
  writeFileSync(
    journalFile(home),
    all
      .slice(0, all.length - lines)
      .map(line => `${line}\n`)
      .join(''),
  )
}

describe('a journal is found incomplete', () => {
  test('not if a crash kept a turn from the file, even the first one', async () => {
    await turn(open(), draft('pool:evm', 'pool'))
    cut(1)
    await open().level()
    expect(mark()).toBeUndefined()
    await turn(open(), draft('ETH'), draft('POLYGON'), draft('ETH'))
    cut(3)
    await open().level()
    expect([mark(), readFileSync(journalFile(home), 'utf8').split('\n').length]).toEqual([undefined, 5])
  })

  test('if the file lacks two turns, on whatever chains; then every chain waits', async () => {
    const journal = open()
    for (const stream of ['pool:evm', 'ETH', 'POLYGON'])
      await turn(journal, draft(stream, stream === 'ETH' ? 'sweep' : 'pool'))
    cut(2)
    const again = open()
    await again.level()
    expect(mark()).toMatch(/^2\S+Z: it lacked entries that the database has$/)
    expect([again.whyUnproven('ETH'), again.whyUnproven('POLYGON')]).toEqual([
      expect.stringContaining('the journal may lack signatures'),
      expect.stringContaining('the journal may lack signatures'),
    ])
    expect(readFileSync(journalFile(home), 'utf8').split('\n')).toHaveLength(4)
  })

  test('if the file is empty, and something was signed', async () => {
    await turn(open(), draft('ETH'))
    cut(1)
    await open().level()
    expect(mark()).toBeDefined()
  })

  test('if the database was restored from a dump, whose entries are of one transaction', async () => {
    const journal = open()
    for (let n = 0; n < 3; n++) await turn(journal, draft('ETH'))
    await asOwner(
      'create temp table was as select * from custody.journal; delete from custody.journal; ' +
        `insert into custody.journal (stream, seq, kind, subject_id, merchant_id, token, amount, destination, source, sender, nonce, max_fee, txid, raw, details,
         signed_at, hash) select stream, seq, kind, subject_id, merchant_id, token, amount, destination, source, sender, nonce, max_fee, txid, raw, details,
         signed_at, hash from was; drop table was`,
    )
    await open().level()
    expect(mark()).toBeUndefined()
    cut(1)
    await open().level()
    expect(mark()).toBeDefined()
  })

  test('if it comes from a backup, and not if the newer one stays', async () => {
    await turn(open(), draft('ETH'))
    writeFileSync(path.join(home, 'custody', 'seed.json'), '{}')
    const backup = path.join(home, 'backup')
    writeBackup(home, backup)
    expect(await restoreBackup(home, backup)).toEqual([])
    expect(mark()).toBeUndefined()
    rmSync(journalFile(home))
    expect(await restoreBackup(home, backup)).toEqual(['journal'])
    expect(mark()).toMatch(/Z: it was restored from backup$/)
    const journal = open()
    await journal.level()
    expect(journal.whyUnproven('ETH')).toContain('it was restored from backup')
  })
})

describe('an incomplete journal', () => {
  const why = async () => {
    const journal = open()
    await journal.level()
    return journal.whyUnproven('ETH')
  }
  const finalBlocks = async (count: number, time = new Date(Date.now() + 1000)) => {
    await writer.write({add: Array.from({length: count}, () => ({time}))})
    await writer.finalise(writer.head.height)
  }
  /** As if it had been noted this long ago. */
  const age = (seconds: number) =>
    db.rows(`update custody.unproven_copy set noted_at = noted_at - $1 * interval '1 second'`, [seconds])
  const openUnknown = () =>
    db.rows(
      `insert into app.incident (chain, kind, subject, details) values ('ETH', 'unknown_transaction', '0xTreasury', '{}')`,
    )

  test('is proven by blocks, the clock, and the decision about every unknown transaction, each of which it waits for', async () => {
    await writer.write({add: [{time: new Date(Date.now() + 3_600_000)}]}) // read before, and not final yet
    markIncomplete(journalFile(home), 'a test')
    expect(await why()).toMatch(
      /a test\); nothing new is signed until a block made after .*Z, and 3 blocks after it, is final, it is .*Z, and no incident/,
    )
    await age(61)
    await writer.finalise(writer.head.height)
    expect(await why()).toContain('a block made after')
    await finalBlocks(9, new Date(Date.now() - 3_600_000)) // read now, and made long before
    expect(await why()).toContain('a block made after')
    await finalBlocks(1)
    const start = writer.head.height
    expect(await why()).toContain(`until block ${start + 3} is final`)
    await finalBlocks(2)
    expect(await why()).toBeDefined()
    await writer.write({add: [{}]}) // not final
    expect(await why()).toBeDefined()
    await openUnknown()
    await writer.finalise(writer.head.height)
    expect(await why()).toBeDefined()
    await db.rows('delete from app.incident')
    await age(-30)
    expect(await why()).toBeDefined()
    await age(30)
    await db.rows(`update chain.cursor set halted_at = now() where chain = 'ETH'`)
    expect(await why()).toBeDefined()
    await db.rows(`update chain.cursor set halted_at = null where chain = 'ETH'`)
    expect(await why()).toBeUndefined()
    await openUnknown()
    expect(await why()).toBeUndefined() // it was proven
    await db.rows('delete from app.incident')
  })

  test('is unproven again after another restore, and for a copy of the database that knows nothing of it', async () => {
    const prove = async () => {
      await why()
      await age(61)
      await finalBlocks(1)
      await why()
      await finalBlocks(3)
    }
    markIncomplete(journalFile(home), 'first')
    await prove()
    expect(await why()).toBeUndefined()
    markIncomplete(journalFile(home), 'second')
    expect(await why()).toContain('second')
    await prove()
    expect(await why()).toBeUndefined()
    await db.rows('delete from custody.unproven_copy')
    expect(await why()).toContain('second')
  })

  test('where nonces or outputs exclude each other, is proven by a block that was made and read after it, and the decisions', async () => {
    const polygon = await ChainWriter.open(db, 'POLYGON')
    const whyNot = async () => {
      const journal = open()
      await journal.level()
      return journal.whyUnproven('POLYGON')
    }
    const soon = () => new Date(Date.now() + 1000)
    const incident = `insert into app.incident (chain, kind, subject, details) values ('POLYGON', 'unknown_transaction', '0xTreasury', '{}')`
    await polygon.write({add: [{time: soon()}]}) // read before
    markIncomplete(journalFile(home), 'a test')
    expect(await whyNot()).toMatch(
      /a test\); nothing new is signed until a block made after \S+Z is read, and no incident/,
    )
    await polygon.write({add: [{time: new Date(Date.now() - 60_000)}]}) // read now, and made before
    expect(await whyNot()).toBeDefined()
    await db.rows(incident)
    await polygon.write({add: [{time: soon()}]})
    expect(await whyNot()).toBeDefined()
    await db.rows('delete from app.incident')
    await db.rows(`update chain.cursor set halted_at = now() where chain = 'POLYGON'`)
    expect(await whyNot()).toBeDefined()
    await db.rows(`update chain.cursor set halted_at = null where chain = 'POLYGON'`)
    expect(await whyNot()).toBeUndefined()
    await db.rows(incident)
    expect(await whyNot()).toBeUndefined() // it was proven
    await db.rows('delete from app.incident')
    await polygon.close()
  })

  test('where the time of blocks ends transactions, waits for a final block past the longest lifetime', async () => {
    await db.rows(`update app.chain set ends_by = 'time', longest_lifetime = 60000 where chain = 'ETH'`)
    await finalBlocks(1, new Date(Date.now() + 90_000)) // whatever a block says that was read before
    markIncomplete(journalFile(home), 'a test')
    expect(await why()).toMatch(/until a block with the time \S+Z or later is final/)
    await age(61)
    expect(await why()).toBeDefined()
    await finalBlocks(1, new Date(Date.now() - 10_000))
    expect(await why()).toBeDefined()
    await finalBlocks(1)
    expect(await why()).toBeUndefined()
    await db.rows(expire)
  })
})

test('where nonces exclude each other, what replaces a payment under way is signed meanwhile, and what waits is woken when it is proven', async () => {
  const world = await WrittenEvm.open()
  await world.deposit(world.treasury, 10n ** 18n)
  const begun = async () => {
    const payout = await world.swept(await world.merchant())
    await world.db.rows('select app.begin_payment($1, 42000000000000)', [payout])
    const [row] = await world.db.rows<{id: string; nonce: number}>(
      'select id, nonce from app.outgoing_payment where payout_id = $1',
      [payout],
    )
    return {payout, ...row!}
  }
  const [signed, next] = [await begun(), await begun()]
  const pay = ({payout, nonce}: typeof next, more: object) => ({intent: 'pay', payout_id: payout, nonce, ...more})
  const [first] = await world.sign(pay(signed, fees))
  await world.db.rows(`select app.store_signed($1, 1, 'effect', $2, $3, $4, 42000000000000, $5)`, [
    signed.id,
    first.txid,
    first.raw,
    first.amount,
    fees,
  ])
  await killCustody(world.custody)
  rmSync(journalFile(world.home))
  await world.startCustody()
  expect(await world.sign(pay(signed, higherFees), pay(next, fees))).toMatchObject([
    {ok: true, ...higherFees},
    {ok: false, code: 'copy_unproven'},
  ])
  await world.db.rows('delete from graphile_worker._private_jobs')
  await world.db.rows(`select app.wait_outgoing_payment($1, 'copy_unproven', 'a test', 300000)`, [next.id])
  await world.db.rows(`select app.wait_payout($1, 'copy_unproven', 'a test', 60000)`, [next.payout])
  await world.writer.write({add: [{time: new Date(Date.now() + 1000)}]})
  const jobs = () =>
    world.db.rows<{key: string}>('select key from graphile_worker.jobs where key = any($1) order by key', [
      ['send:ETH', `payout:${next.payout}`],
    ])
  await until(async () => (await jobs()).length === 2, {timeoutMs: 20_000, what: 'both jobs'})
  const isDue = 'select next_step_at <= clock_timestamp() as due from app.outgoing_payment where id = $1'
  expect(await world.db.rows(isDue, [next.id])).toEqual([{due: true}])
  expect(await world.sign(pay(next, fees))).toMatchObject([{ok: true}])
  await world.close()
}, 60_000)

test('custody signs nothing new until it is proven, and gives what it signed before; a restart changes nothing', async () => {
  const world = await WrittenEvm.open()
  await world.db.rows(expire)
  const signs = async (nonce: number) => {
    const {address} = await world.merchant()
    const intent = sweepIntent(address, {nonce})
    await world.forgeOutgoingPayment(intent)
    return intent
  }
  const before = await signs(0)
  const [given] = await world.sign(before)
  expect(given).toMatchObject({ok: true})
  await killCustody(world.custody)
  rmSync(journalFile(world.home))
  for (let n = 0; n < 2; n++) {
    await world.startCustody()
    const next = await signs(0)
    expect(await world.sign(next, before)).toMatchObject([{ok: false, code: 'copy_unproven'}, given])
    const payout = await world.swept(await world.merchant())
    const check = await world.custody.ask('/check', {payout_id: payout})
    expect(check.body).toMatchObject({ok: false, code: 'copy_unproven'})
    await killCustody(world.custody)
  }
  await world.startCustody()
  await world.db.rows(`update custody.unproven_copy set noted_at = noted_at - interval '1 minute'`)
  await world.writer.write({add: [{}]})
  await world.finalise()
  const next = await signs(0)
  expect(await world.sign(next)).toMatchObject([{code: 'copy_unproven'}])
  await world.writer.write({add: [{}, {}, {}]})
  await world.finalise()
  expect(await world.sign(next)).toMatchObject([{ok: true}])
  expect(existsSync(path.join(path.dirname(journalFile(world.home)), 'journal.incomplete'))).toBe(true)
  await world.close()
}, 60_000)
