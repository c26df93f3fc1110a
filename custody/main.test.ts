// Custody as a process, on a real database: what it creates at its start, how it fills the pool, and when it refuses to
// run.
import {once} from 'node:events'
import {existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {afterEach, beforeEach, expect, test} from 'vitest'
import {custodySocket} from '../base/home.ts'
import type {Family} from '../chains/registry.ts'
import {readSettings} from '../chains/settings.ts'
import {type CustodyProcess, killCustody, spawnCustody, startCustody} from '../test/support/custody.ts'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'
import {until} from '../test/support/until.ts'
import {families, familyNames} from './families.ts'
import {deriver} from './keys/addresses.ts'
import {localKeys} from './keys/key-store.ts'
import {passphraseFile, readSeed, seedFile, testCost, writeSeed} from './keys/seed.ts'

const junk = 'test test test test test test test test test test test junk'
const passphrase = 'correct horse'
const given = {CUSTODY_PASSPHRASE: passphrase}
const size = 20

let db: TestDatabase
let home: string
let processes: CustodyProcess[]

beforeEach(async () => {
  db = await testDatabase()
  home = mkdtempSync(path.join(tmpdir(), 'sluice-custody-'))
  processes = []
})
afterEach(async () => {
  for (const custody of processes) await killCustody(custody)
  await db.drop()
  rmSync(home, {recursive: true})
})

function spawn(settings: Record<string, string> = given, directory = home): CustodyProcess {
  processes.push(spawnCustody(db, directory, settings))
  return processes.at(-1)!
}

async function start(settings: Record<string, string> = given): Promise<CustodyProcess> {
  processes.push(await startCustody(db, home, settings))
  return processes.at(-1)!
}

/** A seed that nobody has used. */
async function newSeed(): Promise<void> {
  await writeSeed(home, junk, passphrase, testCost)
  writeFileSync(path.join(home, 'custody', 'seed.new'), '')
}

const exitOf = async ({process}: CustodyProcess) =>
  process.exitCode ?? ((await once(process, 'exit', {signal: AbortSignal.timeout(15_000)}))[0] as number)
const pool = async (family: Family = 'evm') =>
  (
    await db.rows<{address: string; index: string; taken_at: Date | null; retired_at: Date | null}>(
      `select address, derivation_index as index, taken_at, retired_at from custody.address
       where family = $1 and purpose = 'deposit' order by derivation_index`,
      [family],
    )
  ).map(row => ({...row, index: Number(row.index)}))
const take = (count: number, family: Family = 'evm') =>
  db.pool.query(
    `update custody.address set taken_at = now() where address in (
       select address from custody.address where family = $1 and taken_at is null and purpose = 'deposit' order by derivation_index limit $2)`,
    [family, count],
  )
const filledTo = (count: number, family: Family = 'evm') =>
  until(async () => (await pool(family)).length === count, {timeoutMs: 10_000, what: `${count} addresses`})
const deriverOf = async (phrase: string, settings: Record<string, string> = {}) =>
  deriver(await localKeys(phrase, families), readSettings(settings).chains)

test('the first start on local chains makes seed, passphrase, treasury and pool, and opens the socket; the seed is in no log', async () => {
  const custody = await start({})
  const phrase = (await readSeed(home, readFileSync(passphraseFile(home), 'utf8').trim()))!
  const derive = await deriverOf(phrase)
  for (const family of familyNames) {
    const expected = await Promise.all(
      Array.from({length: size}, (_, index) => derive({family, purpose: 'deposit', index})),
    )
    expect((await pool(family)).map(row => [row.index, row.address, row.taken_at])).toEqual(
      expected.map((address, index) => [index, address, null]),
    )
  }
  const treasury = await derive({family: 'evm', purpose: 'treasury', index: 0})
  expect(await db.rows(`select chain, address, user_id from app.address order by chain`)).toEqual([
    {chain: 'BTC', address: await derive({family: 'bitcoin', purpose: 'treasury', index: 0}), user_id: null},
    {chain: 'ETH', address: treasury, user_id: null},
    {chain: 'POLYGON', address: treasury, user_id: null},
    {chain: 'SOL', address: await derive({family: 'solana', purpose: 'treasury', index: 0}), user_id: null},
    {chain: 'TRON', address: await derive({family: 'tron', purpose: 'treasury', index: 0}), user_id: null},
  ])
  const {socket, tokenFile} = custodySocket(home)
  for (const file of [
    socket,
    tokenFile,
    seedFile(home),
    passphraseFile(home),
    path.join(home, 'custody/journal.jsonl'),
  ])
    expect(statSync(file).mode & 0o777).toBe(0o600)
  expect(custody.log()).toContain('a passphrase beside it')
  for (const [i, word] of phrase.split(' ').entries())
    expect(custody.log()).not.toContain(`${word} ${phrase.split(' ')[i + 1] ?? word}`)
})

test('the time of the first addresses is known if the seed was made for the database, and unknown for an older seed', async () => {
  const firstAddresses = async (of: TestDatabase) =>
    (
      await of.rows<{at: number}>(
        `select extract(epoch from chain.first_address_at(chain))::float8 as at from unnest(array['ETH', 'POLYGON', 'BTC']) chain`,
      )
    ).map(({at}) => at)
  const before = Date.now() / 1000 - 1
  await killCustody(await start({}))
  for (const at of await firstAddresses(db)) expect(at).toBeGreaterThan(before)
  await killCustody(await start({})) // the seed is no longer new, but the database has the time
  for (const at of await firstAddresses(db)) expect(at).toBeGreaterThan(before)

  // The database was lost; the seed is used with an empty one, with the journal and without it.
  for (const journal of ['kept', 'lost']) {
    const rebuilt = await testDatabase()
    if (journal === 'lost') rmSync(path.join(home, 'custody/journal.jsonl'))
    const custody = await startCustody(rebuilt, home, {})
    expect(await firstAddresses(rebuilt), journal).toEqual(Array(3).fill(Number.NEGATIVE_INFINITY))
    await killCustody(custody)
    await rebuilt.drop()
  }
})

test('a family that is new to a database has a treasury with a time; one whose addresses are older than the database has none', async () => {
  const journal = path.join(home, 'custody/journal.jsonl')
  const forget = (table: string, where: string) =>
    db.rows(
      `with session as (select set_config('session_replication_role', 'replica', true)) delete from ${table} where ${where} and (select true from session)`,
    )
  const treasuryOf = async (family: Family) => {
    await forget('custody.journal', `stream = 'pool:${family}'`)
    await forget('custody.address', `family = '${family}'`)
    await killCustody(await start({}))
    const [treasury] = await db.rows<{at: number}>(
      `select extract(epoch from created_at)::float8 as at from custody.address where family = $1 and purpose = 'treasury'`,
      [family],
    )
    return treasury!.at
  }
  const before = Date.now() / 1000 - 1
  await killCustody(await start({}))
  expect(await treasuryOf('bitcoin')).toBe(Number.NEGATIVE_INFINITY) // the file has addresses that the database lacks
  const lines = readFileSync(journal, 'utf8').split('\n')
  writeFileSync(journal, lines.filter(line => !line.includes('pool:bitcoin')).join('\n'))
  expect(await treasuryOf('bitcoin')).toBeGreaterThan(before)
})

test('addresses that were taken are replaced automatically, at once when the pool is low, and after a restart; the pool lasts a minute at the rate of the busiest minute', async () => {
  await newSeed()
  const derive = await deriverOf(junk)
  const first = await start()
  await take(10)
  await filledTo(size + 10)
  await take(size)
  await take(1, 'bitcoin')
  await db.pool.query('notify address_pool_low')
  await filledTo(3 * size) // as many are free as were taken in this minute: one and a half times the size
  await filledTo(size + 1, 'bitcoin')
  await killCustody(first)
  await take(size)
  await start()
  await filledTo(3 * size + 10) // the new process knows no rate yet
  const expected = Array.from({length: 3 * size + 10}, (_, index) => derive({family: 'evm', purpose: 'deposit', index}))
  expect((await pool()).map(row => row.address)).toEqual(await Promise.all(expected))
  expect((await pool()).filter(row => row.taken_at)).toHaveLength(2 * size + 10)
})

test('with an older copy of the database and without the journal, nothing is handed out that may have been handed out since, once for each loss, also of the same copy', async () => {
  await newSeed()
  const first = await start()
  await take(15) // then more are made
  await filledTo(size + 15)
  await killCustody(first)
  const journal = path.join(home, 'custody/journal.jsonl')
  const lose = async () => {
    rmSync(journal)
    await db.rows(`begin; set local session_replication_role = replica; delete from custody.address where derivation_index >= ${size};
      delete from custody.journal where (details ->> 'up_to')::int >= ${size};
      update custody.address set taken_at = null, retired_at = null where derivation_index >= 10; commit`)
  }
  const free = async () =>
    (await pool()).flatMap(({index, taken_at, retired_at}) => (taken_at || retired_at ? [] : [index]))
  const derive = await deriverOf(junk)
  const places: number[] = []
  for (let loss = 0; loss < 2; loss++) {
    await lose()
    for (let n = 0; n < 2; n++) {
      const custody = await start()
      const all = await pool()
      expect(all.slice(0, size + 1).map(({taken_at, retired_at}) => Boolean(taken_at || retired_at))).not.toContain(
        false,
      )
      const place = all[size]!.index + 1
      expect(place).toBeGreaterThanOrEqual(size + 100_000)
      expect(await free()).toEqual(Array.from({length: size}, (_, index) => place + index))
      expect(custody.log().includes('addresses that may have been handed out are retired')).toBe(n === 0)
      await killCustody(custody)
      if (n === 0) places.push(place)
    }
    for (const {index, address} of await pool())
      expect(await derive({family: 'evm', purpose: 'deposit', index})).toBe(address)
  }
  expect(Math.abs(places[1]! - places[0]!)).toBeGreaterThan(size)
  rmSync(journal)
  await killCustody(await start()) // a loss of the journal alone
  expect((await free())[0]).toBeGreaterThan(places[1]! + 100_000)
})

test('an older copy with the whole journal retires what was made since, also beyond a place that was skipped to', async () => {
  await newSeed()
  await killCustody(await start())
  const journal = path.join(home, 'custody/journal.jsonl')
  rmSync(journal)
  await killCustody(await start())
  const before = await pool()
  await db.rows(`begin; set local session_replication_role = replica; delete from custody.address where derivation_index >= ${size};
    delete from custody.journal where (details ->> 'up_to')::int >= ${size}; update custody.address set retired_at = null;
    delete from custody.unproven_copy; commit`)
  await killCustody(await start())
  const made = before.filter(({taken_at, retired_at}) => !taken_at && !retired_at).map(({index}) => index)
  const after = new Map((await pool()).map(row => [row.index, row]))
  for (const index of made) expect(after.get(index)?.retired_at, String(index)).toBeTruthy()
  const free = [...after.values()].filter(({taken_at, retired_at}) => !taken_at && !retired_at).map(({index}) => index)
  expect(Math.min(...free)).toBeGreaterThan(Math.max(...made) + 100_000) // the journal still may lack entries of before
})

test('a seed that did not make the stored addresses is refused, and nothing is added', async () => {
  await newSeed()
  const first = await start()
  first.process.kill('SIGTERM')
  expect(await exitOf(first)).toBe(0)
  rmSync(seedFile(home))
  await writeSeed(
    home,
    'abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon about',
    passphrase,
    testCost,
  )
  await take(5)
  const custody = spawn()
  expect(await exitOf(custody)).toBe(1)
  expect(custody.log()).toMatch(/the seed does not derive deposit address 0 of the database/)
  expect(custody.log()).not.toContain('abandon')
  expect(await pool()).toHaveLength(size)
})

test('a database filled for another Bitcoin network is refused, and nothing is added', async () => {
  await newSeed()
  const first = await start({...given, BTC_NETWORK: 'signet'})
  first.process.kill('SIGTERM')
  await exitOf(first)
  await take(5, 'bitcoin')
  const custody = spawn({...given, BTC_NETWORK: 'regtest'})
  expect(await exitOf(custody)).toBe(1)
  expect(custody.log()).toMatch(
    /addresses of the database are of another network \(tb1…\) than BTC_NETWORK names \(bcrt1…\); set BTC_NETWORK/,
  )
  expect(await pool('bitcoin')).toHaveLength(size)
})

test('a missing seed is not replaced when addresses were made from it', async () => {
  await writeSeed(home, junk, passphrase, testCost)
  const first = await start()
  first.process.kill('SIGTERM')
  await exitOf(first)
  rmSync(seedFile(home))
  const custody = spawn()
  expect(await exitOf(custody)).toBe(1)
  expect(custody.log()).toMatch(
    /seed\.json is missing, and the database has addresses of this seed; restore it from a backup/,
  )
  expect(existsSync(seedFile(home))).toBe(false)
})

test('with a named node, no seed is made automatically, and a seed without its passphrase is not opened', async () => {
  const remote = {ETH_RPC_URL: 'http://127.0.0.1:1'}
  for (const named of [remote, {BTC_ELECTRUM_URLS: 'tcp://127.0.0.1:1'}]) {
    const without = spawn({...named, ...given})
    expect(await exitOf(without)).toBe(1)
    expect(without.log()).toContain('sluice custody init')
  }
  expect(existsSync(seedFile(home))).toBe(false)
  await writeSeed(home, junk, passphrase, testCost)
  const closed = spawn(remote)
  expect(await exitOf(closed)).toBe(1)
  expect(closed.log()).toContain('set CUSTODY_PASSPHRASE, CUSTODY_PASSPHRASE_FILE')
  const wrong = spawn({...remote, CUSTODY_PASSPHRASE: 'incorrect horse'})
  expect(await exitOf(wrong)).toBe(1)
  expect(wrong.log()).toContain('cannot be decrypted')
  expect(wrong.log()).not.toContain('incorrect horse')
  await start({...remote, ...given})
})

test('a second process stands by, so that two seeds never share a pool, and takes over when the first dies', async () => {
  await writeSeed(home, junk, passphrase, testCost)
  const first = await start()
  const other = mkdtempSync(path.join(tmpdir(), 'sluice-custody-'))
  const stranger = spawn(given, other)
  const duplicate = spawn()
  for (const one of [stranger, duplicate])
    await until(async () => one.log().includes('standing by'), {timeoutMs: 15_000, what: 'both to stand by'})
  stranger.process.kill('SIGTERM')
  await exitOf(stranger)
  await killCustody(first)
  await until(
    async () => (await duplicate.ask('/check', {payout_id: '00000000-0000-0000-0000-000000000000'})).status === 200,
    {
      timeoutMs: 10_000,
      what: 'the second custody to respond at the same socket',
    },
  )
  const late = spawn(given, other)
  await until(async () => late.log().includes('standing by'), {timeoutMs: 15_000, what: 'it to stand by'})
  await killCustody(duplicate)
  expect(await exitOf(late)).toBe(1)
  expect(late.log()).toMatch(/seed\.json is missing/)
  rmSync(other, {recursive: true})
})

test('custody ends with its parent, and with exit code 70 when it loses the database', async () => {
  await writeSeed(home, junk, passphrase, testCost)
  const first = await start()
  first.process.disconnect()
  expect(await exitOf(first)).toBe(0)
  const second = await start()
  await db.pool.query(
    `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'sluice-custody' and datname = current_database()`,
  )
  expect(await exitOf(second)).toBe(70)
})
