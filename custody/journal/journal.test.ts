// The journal on disk and the journal in the database, made to differ in every way that a crash, a restored copy or a
// manual change can.
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
import {afterAll, afterEach, beforeAll, beforeEach, describe, expect, test} from 'vitest'
import {killCustody, spawnCustody} from '../../test/support/custody.ts'
import {type TestDatabase, testDatabase} from '../../test/support/database.ts'
import {fees, higherFees, newAddress, sweepIntent, WrittenEvm} from '../../test/support/evm/written-world.ts'
import {until} from '../../test/support/until.ts'
import {junk, type Merchant} from '../../test/support/written-world.ts'
import {families} from '../families.ts'
import {localKeys} from '../keys/key-store.ts'
import {type Seal, sealOf} from '../keys/seal.ts'
import {type Entry, hashOf, JournalFile, journalFile, readEntries} from './file.ts'
import {columns, type Draft, entryColumns, insertEntry, Journal} from './journal.ts'

let db: TestDatabase
let client: pg.Client
let home: string
let seal: Seal

beforeAll(async () => {
  db = await testDatabase()
  seal = await sealOf(await localKeys(junk, families))
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

/** Deletes entries that an older copy of the database would lack. Only the owner of the database can do this. */
async function remove(where: string, of = db): Promise<void> {
  await asOwner(`delete from custody.journal where ${where}`, of)
  await asOwner(
    'delete from custody.journal_key where (stream, seq) not in (select stream, seq from custody.journal)',
    of,
  )
}

/** Makes a change that only the owner of the database can make, without triggers and foreign keys. */
async function asOwner(sql: string, of = db): Promise<void> {
  await of.rows(`begin; set local session_replication_role = replica; ${sql}; commit`)
}

const open = () => new Journal(client, journalFile(home), ['ETH', 'POLYGON'], seal)
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

test('an entry is the same in database and file, has the hash of the one before it, and only the owner can read the file', async () => {
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

test('a write that fails half-way leaves no entry', async () => {
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

test('entries that only the database has are appended to the file; a lost file is written again, byte for byte', async () => {
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
  await journal.level() // it also notices this while it runs
  expect(readFileSync(journalFile(home), 'utf8')).toBe(whole)
})

test('a last line that a crash cut short is removed, and restored from the database', async () => {
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

test('a line that was changed, left out or moved stops custody, and is named', async () => {
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

test('a file that is ahead of the database, or differs from it, blocks only its own stream, until it is imported', async () => {
  const journal = open()
  for (const subject of ['01', '02']) await addOne(journal, 'ETH', subject)
  await addOne(journal, 'POLYGON')
  const kept = await db.rows('select * from custody.journal where seq = 2')
  await remove('seq = 2')
  await expect(addOne(journal)).rejects.toThrow(
    'the file has 1 entry more than the database: the database is an older copy; run sluice custody reconcile',
  )
  expect([journal.whyBlocked('ETH'), journal.whyBlocked('POLYGON')]).toMatchObject([{code: 'journal_ahead'}, undefined])
  await addOne(journal, 'POLYGON')
  await db.rows(
    `insert into custody.journal (${columns}) select ${columns} from jsonb_populate_recordset(null::custody.journal, $1)`,
    [JSON.stringify(kept)],
  )
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
  expect(other.whyBlocked('ETH')?.why).toContain('more than the database')
  for (const subject of ['0a', '0b', '0c', '0d'])
    await new Journal(client, path.join(home, 'other.jsonl'), ['ETH'], seal).write(add => add(draft('ETH', subject)))
  await other.level()
  expect(other.whyBlocked('ETH')?.why).toMatch(/file and database differ at or before entry 3/)
})

test('an entry that was changed by hand in the table is not imported, and blocks its stream', async () => {
  await addOne(open())
  await addOne(open(), 'POLYGON')
  rmSync(journalFile(home))
  await asOwner(`update custody.journal set amount = 1 where stream = 'ETH'`)
  const journal = open()
  await addOne(journal, 'POLYGON')
  expect(journal.whyBlocked('ETH')).toMatchObject({
    code: 'journal_changed',
    why: expect.stringContaining('entry 1 of ETH is not one that this custody wrote; the table was changed'),
  })
  expect(inFile().map(({stream}) => stream)).toEqual(['POLYGON', 'POLYGON'])
})

test('an entry that somebody else appended is not imported; one that custody wrote before it died is', async () => {
  await addOne(open(), 'ETH', '01')
  const [kept] = lines() as [string]
  const forged = {...draft('ETH', '02'), seq: 2}
  const copied = JSON.parse(kept).details.seal
  for (const details of [forged.details, {...forged.details, seal: 'guess'}, {...forged.details, seal: copied}]) {
    const entry = {...forged, details}
    const [first] = await rows()
    await insertEntry(client, {...entry, hash: hashOf(first!.hash, entry)})
    const journal = open()
    await expect(addOne(journal, 'ETH', '03')).rejects.toThrow('entry 2 of ETH is not one that this custody wrote')
    expect(journal.whyBlocked('ETH')).toMatchObject({code: 'journal_changed'})
    await remove(`stream = 'ETH' and seq = 2`)
    await addOne(journal, 'POLYGON')
    expect(journal.whyBlocked('ETH')).toBeUndefined()
  }
  await addOne(open(), 'ETH', '02')
  truncateSync(journalFile(home), kept.length + 1)
  await open().level()
  expect(inFile().filter(({stream}) => stream === 'ETH')).toHaveLength(2)
})

test('entries from before there were seals are imported up to the first one that has a seal', async () => {
  const unsealed = (seq: number, previous: string) => {
    const entry = {...draft('ETH', `0${seq}`), seq}
    return {...entry, hash: hashOf(previous, entry)}
  }
  const first = unsealed(1, '')
  await insertEntry(client, first)
  await insertEntry(client, unsealed(2, first.hash))
  const journal = open()
  await addOne(journal, 'ETH', '03')
  expect(inFile()).toHaveLength(3)
  await insertEntry(client, unsealed(4, (await rows()).at(-1)!.hash))
  await journal.level()
  expect(journal.whyBlocked('ETH')).toMatchObject({code: 'journal_changed'})
})

describe('a table that was changed while custody runs', () => {
  const all = async () => (await client.query<Entry>(`select ${entryColumns} from custody.journal j order by seq`)).rows
  const paid = (subject: string): Draft => ({...draft('ETH', subject), kind: 'pay', amount: '5'})
  const wrong = {code: 'journal_changed', why: expect.stringContaining('the table was changed by hand')}
  let journal: Journal
  let kept: object[]

  beforeEach(async () => {
    journal = open()
    await journal.write(async add => {
      for (const subject of ['01', '02', '03', '04']) await add(paid(subject))
    })
    kept = await db.rows('select * from custody.journal')
    await journal.compareAll()
    expect(journal.whyBlocked('ETH')).toBeUndefined()
  })

  const changes: Record<string, string[]> = {
    changed: [`update custody.journal set amount = 1 where seq = 2`],
    'given to another merchant': [`update custody.journal set merchant_id = gen_random_uuid() where seq = 2`],
    'changed in its JSON': [`update custody.journal set details = details || '{"gas_limit": 1}' where seq = 2`],
    'given another hash': [`update custody.journal set hash = repeat('0', 64) where seq = 2`],
    deleted: ['delete from custody.journal where seq = 2'],
    'robbed of its conflict key': ['delete from custody.journal_key where seq = 2'],
    'given one more conflict key': [
      `insert into custody.journal_key (stream, seq, conflict_key) values ('ETH', 2, 'x:1')`,
    ],
    'given another conflict key': [`update custody.journal set conflict_key = 'x:1' where seq = 2`],
    'put in place of another': [
      'update custody.journal set seq = seq + 100 where seq in (2, 3)',
      'update custody.journal set seq = 105 - seq where seq > 100',
    ],
    'replaced, with hashes that fit the one before': ['replaced'],
  }

  test.each(Object.entries(changes))(
    'an old entry that was %s is found, and unblocked once it is restored',
    async (_, statements) => {
      if (statements[0] === 'replaced') {
        const [one, two] = (await all()) as [Entry, Entry]
        const entry = {...two, amount: '1'}
        await asOwner(`update custody.journal set amount = 1, hash = '${hashOf(one.hash, entry)}' where seq = 2`)
      } else for (const sql of statements) await asOwner(sql)
      await journal.level() // the ends are the same
      expect(journal.whyBlocked('ETH')).toBeUndefined()
      await journal.compareAll()
      expect(journal.whyBlocked('ETH')).toEqual(wrong)
      await expect(addOne(journal)).rejects.toThrow('nothing can be added')
      await remove('seq > 0')
      await db.rows(
        `insert into custody.journal (${columns}) select ${columns} from jsonb_populate_recordset(null::custody.journal, $1)`,
        [JSON.stringify(kept)],
      )
      expect(journal.whyBlocked('ETH')).toEqual(wrong)
      await journal.compareAll()
      expect(journal.whyBlocked('ETH')).toBeUndefined()
      await addOne(journal)
    },
  )

  test('entries are compared when they are read for a decision, and all attempts of a payment must be there', async () => {
    const rows = await all()
    const subject = rows[1]!.subject_id
    expect(journal.check(rows)).toBeUndefined()
    expect(journal.checkAttempts([rows[1]!], 'ETH', subject)).toBeUndefined()
    expect(journal.checkAttempts([rows[2]!], 'ETH', null)).toBeUndefined()
    expect(journal.checkAttempts([rows[2]!], 'ETH', subject)).toContain(`entries of ${subject} are missing: 1`)
    expect(journal.whyBlocked('ETH')).toEqual(wrong)
    expect(open().check([{...rows[1]!, amount: '1'}])).toContain('entry 2 differs from the file')
    expect(open().check([{...rows[1]!, seq: 5}])).toContain('entry 5 differs from the file')
  })

  test('the signed sum comes from the file and counts each payment once; a failed write adds nothing', async () => {
    const merchant = String(null)
    expect(journal.known.paid('ETH', 'ETH', merchant)).toBe(20n)
    await asOwner('update custody.journal set amount = 0')
    await journal.write(add => add(paid('04'))).catch(() => {})
    const failing = journal.write(async add => {
      await add(paid('05'))
      expect(journal.known.paid('ETH', 'ETH', merchant)).toBe(25n)
      throw new Error('half-way')
    })
    await expect(failing).rejects.toThrow('half-way')
    for (const known of [journal.known, open().known]) {
      expect(known.paid('ETH', 'ETH', merchant)).toBe(20n)
      expect(known.attemptsOf(paid('04').subject_id)).toBe(2)
      expect(known.paidOn('2026-11-21T23:59:59Z', 'ETH', 'ETH', paid('01').subject_id!)).toBe(15n)
      expect(known.paidOn('2026-11-22T00:00:00Z', 'ETH', 'ETH', 'x')).toBe(0n)
    }
  })

  test("the fee of a nonce is its day's highest fee in the file; setting the clock back starts no new day", async () => {
    const costing = (subject: string, nonce: number, fee: string, day = 22): Draft => {
      return {...paid(subject), nonce, max_fee: fee, signed_at: `2026-11-${day}T10:00:00.000Z`}
    }
    const promised = ({known}: Journal, day: number) =>
      known
        .promisedOn(`2026-11-${day}T23:59:59.999Z`, 'ETH')
        .map(({conflictKey, fee}) => [Number(conflictKey.split(':')[1]), fee])
    expect(promised(journal, 21)).toEqual([[3, 42_000_000_000_000n]])
    await journal.write(async add => {
      await add(costing('05', 3, '7'))
      await add(costing('05', 3, '9'))
      await add(costing('05', 3, '8'))
      await add(costing('06', 4, '5', 21))
    })
    const failing = journal.write(async add => {
      await add(costing('05', 3, '100'))
      await add(costing('07', 5, '100'))
      throw new Error('half-way')
    })
    await expect(failing).rejects.toThrow('half-way')
    await asOwner('update custody.journal set max_fee = 0')
    const expected = [
      [3, 9n],
      [4, 5n],
    ]
    for (const each of [journal, open()]) {
      for (const day of [21, 22]) expect(promised(each, day)).toEqual(expected)
      expect(promised(each, 23)).toEqual([])
    }
  })
})

test('the incomplete line of a failed write is removed before the next write', () => {
  const file = new JournalFile(journalFile(home))
  appendFileSync(journalFile(home), '{"half":')
  file.refresh()
  expect(lines()).toEqual([])
  expect(readFileSync(journalFile(home), 'utf8')).toBe('')
})

const crash = fileURLToPath(new URL('../../test/support/crash.ts', import.meta.url))

test('killed at every step under parallel signers, custody returns nothing that is not in the journal, and stays within the budget', async () => {
  const world = await WrittenEvm.open({ETH_FEE_BUDGET: '0.00112'}) // three quarters of it are 20 sweeps
  const merchants: Merchant[] = []
  for (let n = 0; n < 6; n++) merchants.push(await world.merchant())
  await world.filled() // a fill passes the same steps
  const given = new Map<string, string>()
  /** Sends all intents at once, each in a separate request. Some are cut off when custody dies. */
  const askAll = async (intents: {outgoing_payment_id: string}[]) => {
    const responses = await Promise.allSettled(intents.map(intent => world.sign(intent)))
    for (const [i, response] of responses.entries()) {
      if (response.status !== 'fulfilled' || !response.value[0].ok) continue
      const {outgoing_payment_id} = intents[i]!
      expect(given.get(outgoing_payment_id) ?? response.value[0].raw).toBe(response.value[0].raw)
      given.set(outgoing_payment_id, response.value[0].raw)
    }
    return responses
  }
  const labels = ['before journal', 'after database', 'after file', 'before answer']
  for (const [nonce, label] of labels.entries()) {
    await killCustody(world.custody)
    const intents = merchants.map(({address}) => sweepIntent(address, {nonce}))
    for (const intent of intents) await world.forgeOutgoingPayment(intent)
    const more = {NODE_OPTIONS: `--import=${crash}`, SLUICE_CRASH_MARK: path.join(world.home, label)}
    await world.startCustody({settings: {...more, SLUICE_CRASH_AT: `custody: ${label}`}})
    expect((await askAll(intents)).map(({status}) => status)).toContain('rejected')
    await world.startCustody()
    const inFile = [...readEntries(journalFile(world.home))].map(({entry}) => entry).filter(({kind}) => kind !== 'pool')
    expect(inFile.map(({hash}) => hash)).toEqual((await world.journal()).map(({hash}) => hash))
    await askAll(intents)
    const journal = await world.journal()
    expect(new Map(journal.map(({subject_id, raw}) => [subject_id, raw]))).toEqual(given)
    expect(new Set(journal.map(({sender, nonce}) => `${sender} ${nonce}`)).size).toBe(journal.length)
    expect(journal).toHaveLength(Math.min(6 * (nonce + 1), 20))
  }
  await world.close()
})

/** Nothing new is signed until custody has compared again, and has lifted the halt. */
async function isHealed(world: WrittenEvm): Promise<void> {
  const open = `select from app.incident where kind = 'journal_changed' and resolved_at is null`
  await until(async () => !(await world.db.rows(open)).length, {
    timeoutMs: 15_000,
    what: 'the journal to be right again',
  })
}

test('a payment that somebody put in the table, and custody never signed, is not repeated', async () => {
  const world = await WrittenEvm.open()
  const payout = await world.swept(await world.merchant())
  const pay = {intent: 'pay', payout_id: payout, nonce: 0, ...higherFees}
  const thief = newAddress()
  await world.db.rows('alter table app.payout disable trigger user')
  await world.db.rows(`update app.payout set status = 'paying', address = $2 where id = $1`, [payout, thief])
  const [{merchant_id, net}] = (await world.db.rows('select merchant_id, net from app.payout where id = $1', [
    payout,
  ])) as [{merchant_id: string; net: string}]
  const details = {max_fee_per_gas: '1', max_priority_fee_per_gas: '1', gas_limit: 21_000}
  const forged = {...draft('ETH'), kind: 'pay' as const, subject_id: payout, merchant_id, amount: net, details, seq: 1}
  const entry = {...forged, destination: thief, source: world.treasury, sender: world.treasury, nonce: 0}
  const insert = `insert into custody.journal (${columns}) select ${columns} from jsonb_populate_record(null::custody.journal, $1)`
  await world.db.rows(insert, [JSON.stringify({...entry, hash: hashOf('', entry)})])
  expect(await world.sign(pay)).toMatchObject([{ok: false, code: 'journal_changed'}])
  await remove(`stream = 'ETH'`, world.db)
  const other = await world.swept(await world.merchant())
  await isHealed(world)
  expect(await world.signForged({intent: 'pay', payout_id: other, nonce: 0, ...fees})).toMatchObject({ok: true})
  const [own] = await world.journal()
  const second = {...entry, seq: 2}
  await world.db.rows(insert, [JSON.stringify({...second, hash: hashOf(own!.hash!, second)})])
  expect(await world.sign(pay)).toMatchObject([{ok: false, code: 'journal_changed'}])
  await killCustody(world.custody)
  await world.startCustody() // as if custody had died after the write to the database, before the write to the file
  expect(await world.sign(pay)).toMatchObject([{ok: false, code: 'journal_changed'}])
  await remove(`stream = 'ETH' and seq = 2`, world.db)
  expect(await world.sign(pay)).toMatchObject([{ok: false, code: 'wrong_state'}])
  await world.close()
})

test('a change among thousands of entries, compared at a thousand per second, is found before anything is signed based on it', async () => {
  const world = await WrittenEvm.open()
  const payout = await world.swept(await world.merchant())
  const pay = (nonce: number) => ({intent: 'pay', payout_id: payout, nonce, ...fees})
  await killCustody(world.custody)
  const beside = new pg.Client({connectionString: world.db.url('sluice_custody')})
  await beside.connect()
  await new Journal(beside, journalFile(world.home), [], seal).write(async add => {
    for (let n = 0; n < 6000; n++) await add(draft('ETH'))
  })
  await beside.end()

  // At the start, all entries are compared before the first response.
  await asOwner(`update custody.journal set raw = '0x' where stream = 'ETH' and seq = 5000`, world.db)
  await world.startCustody()
  expect(await world.sign(pay(0))).toMatchObject([{ok: false, code: 'journal_changed'}])
  await killCustody(world.custody)
  await asOwner(`update custody.journal set raw = '0x02' where stream = 'ETH' and seq = 5000`, world.db)
  await world.startCustody()
  await world.forgeOutgoingPayment(pay(0))
  expect(await world.sign(pay(0))).toMatchObject([{ok: true}])

  // Later it takes seconds until the last entry is compared again. The check of the entries that a decision reads finds
  // the change.
  await asOwner(`update custody.journal set nonce = 1 where subject_id = '${payout}'`, world.db)
  expect(await world.sign(pay(1))).toMatchObject([{ok: false, code: 'journal_changed'}])
  await asOwner(`update custody.journal set nonce = 0 where subject_id = '${payout}'`, world.db)
  const isSigned = async () => (await world.sign(pay(0)))[0].ok
  await until(isSigned, {timeoutMs: 30_000, what: 'the whole stream to be compared'})
  expect(await world.db.rows('select kind, subject, resolution from app.incident')).toEqual(
    Array(2).fill({kind: 'journal_changed', subject: 'ETH', resolution: 'healed'}),
  )
  await world.close()
})

test('with an older copy of the database custody hands out nothing twice, signs nothing, and stops its chain', async () => {
  const world = await WrittenEvm.open()
  const old = await world.merchant()
  await world.filled()
  const outgoing_payment_id = '00000000-0000-0000-0000-000000000001'
  await world.signForged({
    intent: 'sweep',
    outgoing_payment_id,
    chain: 'ETH',
    token: 'ETH',
    address: old.address,
    amount: '500000000000000',
    nonce: 0,
    ...fees,
  })
  const copied = await world.db.rows<{seq: string; stream: string}>(
    'select stream, max(seq) as seq from custody.journal group by stream',
  )
  const taken = await world.merchant()
  await world.filled()
  await world.signForged({
    intent: 'sweep',
    outgoing_payment_id,
    chain: 'ETH',
    token: 'ETH',
    address: old.address,
    amount: '400000000000000',
    nonce: 0,
    ...higherFees,
  })
  await killCustody(world.custody)

  // The database at the time of the copy: the second address was not handed out, and the replacement was not signed.
  for (const {stream, seq} of copied) await remove(`stream = '${stream}' and seq > ${seq}`, world.db)
  await world.db.rows('alter table custody.address disable trigger all')
  await world.db.rows('delete from custody.address where derivation_index > 40')
  await world.db.rows('delete from app.address where merchant_id = $1', [taken.id])
  await world.db.rows('update custody.address set taken_at = null, merchant_id = null where address = any($1)', [
    [taken.address, taken.bitcoin],
  ])
  await world.db.rows('alter table custody.address enable trigger all')

  await world.startCustody()
  const states = await world.db.rows<{family: string; retired: boolean; count: number}>(
    `select family, retired_at is not null as retired, count(*)::int as count from custody.address
     where purpose = 'deposit' and taken_at is null group by 1, 2 order by 1, 2`,
  )
  expect(states).toEqual([
    {family: 'bitcoin', retired: false, count: 40},
    {family: 'bitcoin', retired: true, count: 41},
    {family: 'evm', retired: false, count: 40},
    {family: 'evm', retired: true, count: 41},
    {family: 'solana', retired: false, count: 40},
    {family: 'tron', retired: false, count: 40},
  ])
  const next = await world.merchant()
  const [known] = await world.db.rows<{at: Date | null}>(
    'select retired_at as at from custody.address where address = $1',
    [taken.address],
  )
  expect([known!.at, next.address === taken.address]).toEqual([expect.any(Date), false])
  const intent = {
    intent: 'sweep',
    outgoing_payment_id,
    chain: 'ETH',
    token: 'ETH',
    address: old.address,
    amount: '500000000000000',
    nonce: 0,
    ...fees,
  }
  expect(await world.sign(intent)).toMatchObject([{ok: false, code: 'journal_ahead'}])
  expect(
    await world.signForged({...intent, outgoing_payment_id: randomUUID(), chain: 'POLYGON', token: 'POL'}),
  ).toMatchObject({
    ok: true,
  })
  const [halted] = await world.db.rows<{why: string; halted: boolean}>(
    `select app.why_halted('ETH') as why, halted_at is not null as halted from chain.cursor where chain = 'ETH'`,
  )
  expect(halted).toMatchObject({halted: true})
  await killCustody(world.custody)
  await world.startCustody() // a second start retires nothing more
  expect((await world.db.rows('select from custody.address where retired_at is not null')).length).toBe(2 * 41)
  await world.close()
})

test('a file of other addresses is refused at startup', async () => {
  const world = await WrittenEvm.open()
  await killCustody(world.custody)
  const file = journalFile(world.home)
  rmSync(file)
  const other = new Journal(client, file, [], seal)
  await other.write(add => add({...draft('pool:evm'), kind: 'pool', details: {up_to: 999}}))
  await other.write(add => add({...draft('pool:evm'), kind: 'pool', details: {up_to: 1999}}))
  const custody = spawnCustody(world.db, world.home, {CUSTODY_PASSPHRASE: 'correct horse'})
  await until(async () => custody.process.exitCode !== null, {timeoutMs: 15_000, what: 'it to end'})
  expect(custody.log()).toContain('restore a file and a database that belong together')
  expect(existsSync(file)).toBe(true)
  await world.close()
})
