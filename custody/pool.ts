// The addresses of the seed in custody.address: the treasury, and those that wait for a user. Promises: indexes follow each other without a
// gap, and each address is what this seed derives at its index; every fill is in the journal, so that an older copy of the database is
// noticed: what it would hand out a second time is retired before anything is handed out. One process fills at a time.
import type pg from 'pg'
import {PermanentError} from '../service/errors.ts'
import {type Draft, insertEntry, type Journal} from './journal.ts'
import {type Entry, type Head, noHead, readEntries} from './journal-file.ts'
import type {KeyPath, KeyStore} from './keys.ts'
import {addressOf} from './signers/evm.ts'

/** Notified by the API when it finds no free address. */
export const channel = 'address_pool_low'

const family = 'evm'
export const poolStream = `pool:${family}`
/** Addresses per INSERT: the first ones are free to be taken while the rest is derived. */
const batch = 100

const lock = `hashtextextended('sluice.custody', 0)`

/** False if another custody is active on this database. */
export async function tryLockPool(client: pg.Client): Promise<boolean> {
  const {rows} = await client.query<{taken: boolean}>(`select pg_try_advisory_lock(${lock}) as taken`)
  return rows[0]!.taken
}

export async function hasAddresses(client: pg.Client): Promise<boolean> {
  const {rowCount} = await client.query('select from custody.address where family = $1 limit 1', [family])
  return rowCount !== 0
}

export async function derive(keys: KeyStore, path: KeyPath): Promise<string> {
  return addressOf(await keys.publicKey(path))
}

/** Throws PermanentError if the database holds an address of another seed: the treasury, or the lowest or highest deposit address. */
export async function checkPool(client: pg.Client, keys: KeyStore): Promise<void> {
  const {rows} = await client.query<{address: string; purpose: KeyPath['purpose']; index: string}>(
    `select address, purpose, derivation_index as index from custody.address p
     where family = $1 and (purpose, derivation_index) in (
       select purpose, unnest(array[min(derivation_index), max(derivation_index)]) from custody.address where family = $1 group by purpose)
     order by purpose, derivation_index`,
    [family],
  )
  for (const {address, purpose, index} of rows) {
    if ((await derive(keys, {purpose, index: Number(index)})) === address) continue
    throw new PermanentError(
      `the seed does not derive ${purpose} address ${index} of the database: it belongs to another database; ` +
        'restore the seed that made these addresses, or name the database of this one',
    )
  }
}

/** Enters the treasury, and has it watched on every chain. Resolves to its address. */
export async function openTreasury(client: pg.Client, keys: KeyStore): Promise<string> {
  const address = await derive(keys, {purpose: 'treasury', index: 0})
  await client.query(
    `insert into custody.address (address, family, derivation_index, purpose) values ($1, $2, 0, 'treasury') on conflict do nothing`,
    [address, family],
  )
  await client.query('select custody.watch_treasury($1)', [family])
  return address
}

/**
 * If the file knows of fills that the database does not, the database is an older copy, and its free addresses may have been handed out
 * since: they are retired, all indexes up to the file's are entered as retired, and the journal has the missing entries again. Resolves to
 * how many were retired, or undefined if the database is no older copy.
 */
export async function recoverPool(client: pg.Client, keys: KeyStore, journal: Journal): Promise<number | undefined> {
  await journal.level()
  if (!journal.whyBlocked(poolStream)) return undefined
  const missing = await missingEntries(client, journal.file.file)
  const upTo = Math.max(...missing.map(({details}) => Number(details.up_to)))
  const {next} = await countFree(client, 0)
  await client.query('begin')
  for (const entry of missing) await insertEntry(client, entry)
  const {rowCount} = await client.query(
    `update custody.address set retired_at = clock_timestamp()
     where family = $1 and purpose = 'deposit' and taken_at is null and retired_at is null`,
    [family],
  )
  for (let from = next; from <= upTo; from += batch)
    await insertAddresses(client, keys, from, Math.min(from + batch - 1, upTo), true)
  await client.query('commit')
  await journal.level()
  return rowCount! + Math.max(0, upTo - next + 1)
}

/** The pool's entries of the file that the database lacks. Throws PermanentError where they do not continue those of the database. */
async function missingEntries(client: pg.Client, file: string): Promise<Entry[]> {
  const {rows} = await client.query<Head>(
    'select seq::int as seq, hash from custody.journal where stream = $1 order by seq desc limit 1',
    [poolStream],
  )
  const last = rows[0] ?? noHead
  const entries = [...readEntries(file)]
    .map(({entry}) => entry)
    .filter(({stream, seq}) => stream === poolStream && seq >= last.seq)
  const missing = entries.filter(({seq}) => seq > last.seq)
  const continues = last.seq === 0 || entries[0]?.hash === last.hash
  if (continues && missing.length) return missing
  throw new PermanentError(
    `${file}: the addresses that it says were made are not those of the database; restore the file, or the database, that belong together`,
  )
}

/** Adds addresses until `size` are free. Resolves to how many were added. */
export async function fillPool(client: pg.Client, keys: KeyStore, journal: Journal, size: number): Promise<number> {
  const {free, next, journalled} = await countFree(client, size)
  const missing = Math.max(0, size - free)
  if (missing === 0 && next - 1 > journalled) await journal.write(add => add(fillDraft(next - 1))) // from before there was a journal
  for (let added = 0; added < missing; added += batch) {
    const from = next + added
    const to = next + Math.min(added + batch, missing) - 1
    await journal.write(async add => {
      await insertAddresses(client, keys, from, to, false)
      await add(fillDraft(to))
    })
  }
  return missing
}

async function countFree(client: pg.Client, most: number): Promise<{free: number; next: number; journalled: number}> {
  const {rows} = await client.query<{free: string; next: string; journalled: string | null}>({
    name: 'count_free_addresses',
    text: `select
        (select count(*) from (select from custody.address
          where family = $1 and purpose = 'deposit' and taken_at is null and retired_at is null limit $2) f) as free,
        (select coalesce(max(derivation_index) + 1, 0) from custody.address where family = $1 and purpose = 'deposit') as next,
        (select details ->> 'up_to' from custody.journal where stream = $3 order by seq desc limit 1) as journalled`,
    values: [family, most, poolStream],
  })
  const {free, next, journalled} = rows[0]!
  return {free: Number(free), next: Number(next), journalled: Number(journalled ?? -1)}
}

async function insertAddresses(
  client: pg.Client,
  keys: KeyStore,
  from: number,
  to: number,
  retired: boolean,
): Promise<void> {
  const indexes = Array.from({length: to - from + 1}, (_, i) => from + i)
  const addresses = await Promise.all(indexes.map(index => derive(keys, {purpose: 'deposit', index})))
  await client.query(
    `insert into custody.address (address, family, derivation_index, retired_at)
     select address, $1, index, case when $4 then clock_timestamp() end from unnest($2::text[], $3::bigint[]) as a (address, index)`,
    [family, addresses, indexes, retired],
  )
}

function fillDraft(upTo: number): Draft {
  const nothing = {subject_id: null, merchant_id: null, token: null, amount: null, destination: null, source: null}
  return {
    stream: poolStream,
    kind: 'pool',
    ...nothing,
    sender: null,
    nonce: null,
    max_fee: null,
    txid: null,
    raw: null,
    details: {up_to: upTo},
    signed_at: new Date().toISOString(),
  }
}
