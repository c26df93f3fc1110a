// The journal on disk and the one in the database, brought out of step in every way that a crash, a restored copy or a hand can.
import {randomUUID} from 'node:crypto'
import {
  appendFileSync,
  copyFileSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {fileURLToPath} from 'node:url'
import pg from 'pg'
import {afterAll, afterEach, beforeAll, beforeEach, expect, test} from 'vitest'
import {killCustody, spawnCustody} from '../test/support/custody.ts'
import {CustodyWorld, fees, higherFees} from '../test/support/custody-world.ts'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'
import {until} from '../test/support/until.ts'
import {type Draft, Journal} from './journal.ts'
import {JournalFile, journalFile, readEntries} from './journal-file.ts'

let db: TestDatabase
let client: pg.Client
let home: string

beforeAll(async () => {
  db = await testDatabase()
})
afterAll(() => db.drop())
beforeEach(async () => {
  home = mkdtempSync(path.join(tmpdir(), 'sluice-journal-'))
  client = new pg.Client({connectionString: db.url('sluice_custody')})
  await client.connect()
})
afterEach(async () => {
  await client.end()
  rmSync(home, {recursive: true})
  await remove('seq > 0')
})

/** What an older copy of the database would lack; nobody but the owner of the database can do this. */
async function remove(where: string, of = db): Promise<void> {
  await of.rows('alter table custody.journal disable trigger append_only')
  await of.rows(`delete from custody.journal where ${where}`)
  await of.rows('alter table custody.journal enable trigger append_only')
}

const open = () => new Journal(client, journalFile(home), ['ETH', 'POLYGON'])
const draft = (stream: string, subject = 'ab'): Draft => ({
  stream,
  kind: 'sweep',
  subject_id: `00000000-0000-0000-0000-0000000000${subject}`,
  merchant_id: null,
  token: 'ETH',
  amount: '115792089237316195423570985008687907853269984665640564039457',
  destination: '0xTreasury',
  source: '0xAddress',
  sender: '0xAddress',
  nonce: 3,
  max_fee: '42000000000000',
  txid: `0x${subject}`,
  raw: '0x02',
  details: {max_priority_fee_per_gas: '1', gas_limit: 21_000, max_fee_per_gas: '2'},
  signed_at: '2026-11-21T10:00:00.120Z',
})
const addOne = (journal: Journal, stream = 'ETH', subject?: string) => journal.write(add => add(draft(stream, subject)))
const lines = () => readFileSync(journalFile(home), 'utf8').split('\n').slice(0, -1)
const rows = () =>
  db.rows<{stream: string; seq: string; hash: string}>(
    'select stream, seq, hash from custody.journal order by stream, seq',
  )
const inFile = () =>
  [...readEntries(journalFile(home))].map(({entry: {stream, seq, hash}}) => ({stream, seq: String(seq), hash}))

test('an entry is the same in the database and in the file, which is for its owner alone, and carries the hash of the one before it', async () => {
  const journal = open()
  for (const stream of ['ETH', 'POLYGON', 'ETH']) await addOne(journal, stream)
  expect(
    lines()
      .map(line => JSON.parse(line))
      .map(({stream, seq}) => `${stream} ${seq}`),
  ).toEqual(['ETH 1', 'POLYGON 1', 'ETH 2'])
  expect(inFile().sort((a, b) => (a.stream + a.seq < b.stream + b.seq ? -1 : 1))).toEqual(await rows())
  expect(new Set((await rows()).map(({hash}) => hash))).toHaveLength(3)
  expect(statSync(journalFile(home)).mode & 0o777).toBe(0o600)
})

test('what fails half-way is nowhere', async () => {
  const journal = open()
  await expect(
    journal.write(async add => {
      await add(draft('ETH'))
      throw new Error('half-way')
    }),
  ).rejects.toThrow('half-way')
  expect([await rows(), lines()]).toEqual([[], []])
  await addOne(journal)
  expect(await rows()).toMatchObject([{seq: '1'}])
})

test('entries that only the database has are appended to the file; a file that is lost is written anew, byte for byte', async () => {
  const journal = open()
  for (const subject of ['01', '02', '03']) await addOne(journal, 'ETH', subject)
  const whole = readFileSync(journalFile(home), 'utf8')
  for (const keep of [2, 1, 0]) {
    writeFileSync(
      journalFile(home),
      whole
        .split('\n')
        .slice(0, keep)
        .map(line => `${line}\n`)
        .join(''),
    )
    await open().level()
    expect(readFileSync(journalFile(home), 'utf8')).toBe(whole)
  }
  rmSync(journalFile(home))
  await journal.level() // it notices, too, while it runs
  expect(readFileSync(journalFile(home), 'utf8')).toBe(whole)
})

test('a last line that a crash cut short is taken away, and comes back from the database', async () => {
  const journal = open()
  await addOne(journal, 'ETH', '01')
  await addOne(journal, 'ETH', '02')
  const whole = readFileSync(journalFile(home), 'utf8')
  for (const cut of [1, 2, 100, lines()[1]!.length]) {
    truncateSync(journalFile(home), whole.length - cut)
    const again = open()
    expect(lines()).toHaveLength(1)
    await again.level()
    expect(readFileSync(journalFile(home), 'utf8')).toBe(whole)
  }
  appendFileSync(journalFile(home), '\0\0\0{"stream":')
  await addOne(journal, 'ETH', '03')
  expect(inFile()).toEqual(await rows())
})

test('a line that was changed, left out or put elsewhere stops custody, and is named', async () => {
  const journal = open()
  for (const subject of ['01', '02', '03']) await addOne(journal, 'ETH', subject)
  const [one, two, three] = lines() as [string, string, string]
  for (const [number, changed] of [
    [2, [one, two.replace('"nonce":3', '"nonce":4'), three]],
    [2, [one, three]],
    [1, [two, one, three]],
    [2, [one, 'nonsense', three]],
    [4, [one, two, three, three]],
    [1, [one.replace('}', ',"more":1}'), two, three]],
  ] as const) {
    writeFileSync(journalFile(home), changed.map(line => `${line}\n`).join(''))
    expect(open, String(number)).toThrow(new RegExp(`journal.jsonl: line ${number} is damaged or was changed`))
  }
})

test('a file that is ahead of the database, or another one, blocks its stream and no other, until it is entered', async () => {
  const journal = open()
  for (const subject of ['01', '02']) await addOne(journal, 'ETH', subject)
  await addOne(journal, 'POLYGON')
  const kept = await db.rows('select * from custody.journal where seq = 2')
  await remove('seq = 2')
  await expect(addOne(journal)).rejects.toThrow(
    'the file has 1 entry more than the database, which is an older copy; run sluice custody reconcile',
  )
  expect([journal.whyBlocked('ETH'), journal.whyBlocked('POLYGON')]).toEqual([expect.any(String), undefined])
  await addOne(journal, 'POLYGON')
  await db.rows(`insert into custody.journal select * from jsonb_populate_recordset(null::custody.journal, $1)`, [
    JSON.stringify(kept),
  ])
  await addOne(journal)
  expect(journal.whyBlocked('ETH')).toBeUndefined()

  const file = journalFile(home)
  copyFileSync(file, `${file}.kept`)
  await remove(`stream = 'ETH'`)
  rmSync(file)
  await addOne(open(), 'ETH', '09')
  copyFileSync(`${file}.kept`, file)
  await remove(`stream = 'POLYGON'`)
  const other = open()
  await other.level()
  expect(other.whyBlocked('ETH')).toContain('more than the database')
  for (const subject of ['0a', '0b', '0c', '0d'])
    await new Journal(client, path.join(home, 'other.jsonl'), ['ETH']).write(add => add(draft('ETH', subject)))
  await other.level()
  expect(other.whyBlocked('ETH')).toMatch(/file and database differ at or before entry 3/)
})

test('an entry of the table that was changed by hand is not taken over', async () => {
  await addOne(open())
  rmSync(journalFile(home))
  await db.rows('alter table custody.journal disable trigger append_only')
  await db.rows(`update custody.journal set amount = 1`)
  await expect(open().level()).rejects.toThrow(
    /entry 1 of ETH does not follow from the one before it; the table was changed/,
  )
})

test('a write that failed leaves a beginning, which is taken away before the next one', () => {
  const file = new JournalFile(journalFile(home))
  appendFileSync(journalFile(home), '{"half":')
  file.refresh()
  expect(lines()).toEqual([])
  expect(readFileSync(journalFile(home), 'utf8')).toBe('')
})

const crash = fileURLToPath(new URL('../test/support/crash.ts', import.meta.url))

test('killed at every step, it is level when it starts again, and the same intent gets what was signed, if anything was', async () => {
  const world = await CustodyWorld.open()
  const {address} = await world.merchant()
  await world.filled() // a fill passes the same steps
  const labels = ['before journal', 'after database', 'after file', 'before answer']
  for (const [n, label] of labels.entries()) {
    await killCustody(world.custody)
    const spend_id = `00000000-0000-0000-0000-00000000000${n}`
    const intent = {intent: 'sweep', spend_id, chain: 'ETH', token: 'ETH', address, amount: '5', nonce: n, ...fees}
    const before = (await world.journal()).length
    const more = {NODE_OPTIONS: `--import=${crash}`, SLUICE_CRASH_MARK: path.join(world.home, label)}
    await world.start({...more, SLUICE_CRASH_AT: `custody: ${label}`})
    await expect(world.sign(intent)).rejects.toThrow(/socket hang up|ECONNRESET/)
    expect(await world.journal()).toHaveLength(before + (label === 'before journal' ? 0 : 1))
    await world.start()
    const entries = [...readEntries(journalFile(world.home))]
      .map(({entry}) => entry)
      .filter(({kind}) => kind !== 'pool')
    expect(entries.map(({hash}) => hash)).toEqual((await world.journal()).map(({hash}) => hash))
    const [{raw}] = await world.sign(intent)
    const journal = await world.journal()
    expect(journal.filter(entry => entry.subject_id === spend_id).map(entry => entry.raw)).toEqual([raw])
  }
  await world.close()
}, 90_000)

test('an older copy of the database hands out nothing twice, signs nothing, and stops its chain', async () => {
  const world = await CustodyWorld.open()
  const old = await world.merchant()
  await world.filled()
  const spend_id = '00000000-0000-0000-0000-000000000001'
  await world.sign({
    intent: 'sweep',
    spend_id,
    chain: 'ETH',
    token: 'ETH',
    address: old.address,
    amount: '5',
    nonce: 0,
    ...fees,
  })
  const copied = await world.db.rows<{seq: string; stream: string}>(
    'select stream, max(seq) as seq from custody.journal group by stream',
  )
  const taken = await world.merchant()
  await world.filled()
  await world.sign({
    intent: 'sweep',
    spend_id,
    chain: 'ETH',
    token: 'ETH',
    address: old.address,
    amount: '4',
    nonce: 0,
    ...higherFees,
  })
  await killCustody(world.custody)

  // As the database was when it was copied: neither the second address handed out, nor the replacement signed.
  for (const {stream, seq} of copied) await remove(`stream = '${stream}' and seq > ${seq}`, world.db)
  await world.db.rows('alter table custody.address disable trigger all')
  await world.db.rows('delete from custody.address where derivation_index > 40')
  await world.db.rows('delete from app.address where merchant_id = $1', [taken.id])
  await world.db.rows('update custody.address set taken_at = null, merchant_id = null where address = any($1)', [
    [taken.address, taken.bitcoin],
  ])
  await world.db.rows('alter table custody.address enable trigger all')

  await world.start()
  const states = await world.db.rows<{family: string; retired: boolean; count: number}>(
    `select family, retired_at is not null as retired, count(*)::int as count from custody.address
     where purpose = 'deposit' and taken_at is null group by 1, 2 order by 1, 2`,
  )
  expect(states).toEqual([
    {family: 'bitcoin', retired: false, count: 40},
    {family: 'bitcoin', retired: true, count: 41},
    {family: 'evm', retired: false, count: 40},
    {family: 'evm', retired: true, count: 41},
  ])
  const next = await world.merchant()
  const [known] = await world.db.rows<{at: Date | null}>(
    'select retired_at as at from custody.address where address = $1',
    [taken.address],
  )
  expect([known!.at, next.address === taken.address]).toEqual([expect.any(Date), false])
  const intent = {
    intent: 'sweep',
    spend_id,
    chain: 'ETH',
    token: 'ETH',
    address: old.address,
    amount: '5',
    nonce: 0,
    ...fees,
  }
  expect(await world.sign(intent)).toMatchObject([{ok: false, code: 'journal_ahead'}])
  expect(await world.sign({...intent, spend_id: randomUUID(), chain: 'POLYGON', token: 'POL'})).toMatchObject([
    {ok: true},
  ])
  const [halted] = await world.db.rows<{why: string; halted: boolean}>(
    `select app.why_halted('ETH') as why, halted_at is not null as halted from chain.cursor where chain = 'ETH'`,
  )
  expect(halted).toMatchObject({halted: true})
  await killCustody(world.custody)
  await world.start() // once is enough
  expect((await world.db.rows('select from custody.address where retired_at is not null')).length).toBe(2 * 41)
  await world.close()
}, 60_000)

test('a file of other addresses is refused at the start', async () => {
  const world = await CustodyWorld.open()
  await killCustody(world.custody)
  const file = journalFile(world.home)
  rmSync(file)
  const other = new Journal(client, file, [])
  await other.write(add => add({...draft('pool:evm'), kind: 'pool', details: {up_to: 999}}))
  await other.write(add => add({...draft('pool:evm'), kind: 'pool', details: {up_to: 1999}}))
  const custody = spawnCustody(world.db, world.home, {CUSTODY_PASSPHRASE: 'correct horse'})
  await until(async () => custody.process.exitCode !== null, {timeoutMs: 15_000, what: 'it to end'})
  expect(custody.log()).toContain('restore the file, or the database, that belong together')
  expect(existsSync(file)).toBe(true)
  await world.close()
})
