// The addresses of the seed in custody.address, for each family of chains: the treasury, and free deposit addresses.
// Promises: each address is what this seed derives at its index, and indexes have no gaps but those that giveUpUnsure
// leaves. Every fill is in the journal, so an older copy of the database is noticed: addresses that it would hand out a
// second time are retired before anything is handed out. One process fills at a time.
import {randomInt} from 'node:crypto'
import type pg from 'pg'
import {PermanentError} from '../base/errors.ts'
import type {Family} from '../chains/registry.ts'
import {familyNames, familyOf} from './families.ts'
import {type Draft, insertEntry, type Journal, missingEntries} from './journal/journal.ts'
import type {Own} from './judge/plan.ts'
import type {Derive} from './keys/addresses.ts'
import type {KeyPath} from './keys/key-store.ts'

/** Notified by the API when it finds no free address. */
export const channel = 'address_pool_low'

export const poolStream = (family: Family) => `pool:${family}`
/** Nobody hands out so many addresses between two copies of the database. */
const indexesSkipped = 100_000
/**
 * A place for the next addresses: after a second loss, the same copy must not lead to those that were handed out after
 * the first. Indexes go up to 2^31.
 */
const farthestPlace = 2 ** 30
/** Addresses per INSERT: the first batch can be handed out while the rest is derived. */
const batch = 100
const minuteMs = 60_000

/** False if another custody is active on this database. */
export async function tryLockPool(client: pg.Client): Promise<boolean> {
  const {rows} = await client.query<{taken: boolean}>('select custody.try_lock() as taken')
  return rows[0]!.taken
}

export async function hasAddresses(client: pg.Client): Promise<boolean> {
  const {rowCount} = await client.query('select from custody.address limit 1')
  return rowCount !== 0
}

/**
 * Throws PermanentError if the treasury, or the lowest or highest deposit address in the database, is of another seed
 * or network.
 */
export async function checkPool(client: pg.Client, derive: Derive, family: Family): Promise<void> {
  const {rows} = await client.query<{address: string; purpose: KeyPath['purpose']; index: string}>(
    `select address, purpose, derivation_index as index from custody.address p
     where family = $1 and (purpose, derivation_index) in (
       select purpose, unnest(array[min(derivation_index), max(derivation_index)]) from custody.address where family = $1 group by purpose)
     order by purpose, derivation_index`,
    [family],
  )
  for (const {address, purpose, index} of rows) {
    const derived = await derive({family, purpose, index: Number(index)})
    if (derived === address) continue
    const otherNetwork = familyOf({family}).otherNetwork?.(derived, address)
    if (otherNetwork) throw new PermanentError(otherNetwork)
    throw new PermanentError(
      `the seed does not derive ${purpose} address ${index} of the database: the seed belongs to another database; ` +
        'restore the seed that made these addresses, or set DATABASE_URL to the database of this seed',
    )
  }
}

/**
 * Inserts the treasury of each family, and has it watched on each chain of the family. `isNewSeed`: nothing was ever
 * paid to an address of the seed. If that is not known and the database has no treasury yet, or if it has addresses of
 * the family already, the treasury's created_at is -infinity: the time at which the first address was handed out is
 * unknown then (chain.first_address_at).
 */
export async function openTreasuries(
  client: pg.Client,
  derive: Derive,
  isNewSeed: boolean,
): Promise<Record<Family, Own>> {
  const treasuries = {} as Record<Family, Own>
  await client.query('begin')
  const {rowCount: known} = await client.query(`select from custody.address where purpose = 'treasury' limit 1`)
  for (const family of familyNames) {
    const path: KeyPath = {family, purpose: 'treasury', index: 0}
    const address = await derive(path)
    await client.query(
      `insert into custody.address (address, family, derivation_index, purpose, created_at)
       select $1, $2, 0, 'treasury', case when $3 and not exists (select from custody.address where family = $2) then clock_timestamp() else '-infinity' end
       on conflict do nothing`,
      [address, family, isNewSeed || Boolean(known)],
    )
    await client.query('select custody.watch_treasury($1)', [family])
    treasuries[family] = {address, path, merchantId: null}
  }
  await client.query('commit')
  return treasuries
}

/**
 * If the file has fills that the database lacks, the database is an older copy, and its free addresses may have been
 * handed out since. So they are retired, all indexes that the file has filled are inserted as retired, and the missing
 * entries are added to the journal. Resolves to the number of retired addresses, or undefined if the database is no
 * older copy. Comes before giveUpUnsure, which begins behind what is known.
 */
export async function recoverPool(
  client: pg.Client,
  derive: Derive,
  journal: Journal,
  family: Family,
): Promise<number | undefined> {
  await journal.level()
  const blocked = journal.whyBlocked(poolStream(family))
  if (blocked?.code !== 'journal_ahead') return undefined
  const missing = await missingEntries(client, journal.file.file, ({stream}) => stream === poolStream(family))
  if (!missing.length) throw new PermanentError(blocked.why)
  await client.query('begin')
  for (const entry of missing) await insertEntry(client, entry)
  let retired = await retireFree(client, family)
  let {next} = await countOf(client, family)
  for (const {details, signed_at} of missing) {
    const upTo = Number(details.up_to)
    if (upTo - next >= indexesSkipped) next = upTo - batch + 1 // what giveUpUnsure skipped was never made
    for (let from = next; from <= upTo; from += batch)
      await insertAddresses(client, derive, {
        family,
        from,
        to: Math.min(from + batch - 1, upTo),
        retired: true,
        signed_at,
      })
    retired += Math.max(0, upTo - next + 1)
    next = Math.max(next, upTo + 1)
  }
  await client.query('commit')
  await journal.level()
  return retired
}

/**
 * If the journal may lack entries, nobody knows which addresses were handed out since the database was copied: the free
 * ones in their order, and then those that were made meanwhile. So the free ones are retired, and the next indexes are
 * skipped, to a place at random: the last of them is inserted as retired, and all others follow it. Resolves to the
 * number of retired addresses, or undefined if nothing is unsure. Once for each time that the journal is found
 * incomplete.
 */
export async function giveUpUnsure(client: pg.Client, derive: Derive, family: Family): Promise<number | undefined> {
  const {rows} = await client.query<{unsure: boolean}>('select custody.is_pool_unsure($1) as unsure', [family])
  if (!rows[0]!.unsure) return undefined
  const {next} = await countOf(client, family)
  const last = next + randomInt(indexesSkipped, farthestPlace)
  await client.query('begin')
  const retired = await retireFree(client, family)
  await insertAddresses(client, derive, {family, from: last, to: last, retired: true})
  await client.query('commit')
  return retired
}

async function retireFree(client: pg.Client, family: Family): Promise<number> {
  const {rowCount} = await client.query(
    `update custody.address set retired_at = clock_timestamp()
     where family = $1 and purpose = 'deposit' and taken_at is null and retired_at is null`,
    [family],
  )
  return rowCount!
}

/**
 * How many addresses of a family to keep free: a given number, and at least as many as were taken in the busiest minute
 * since the start, so that the pool lasts for a minute without custody.
 */
export class Supply {
  size: number
  #free = 0
  #taken: {at: number; count: number}[] = []

  constructor(least: number) {
    this.size = least
  }

  /** So many are free now. */
  found(free: number): void {
    const now = performance.now()
    this.#taken = this.#taken.filter(({at}) => now - at < minuteMs)
    if (free < this.#free) this.#taken.push({at: now, count: this.#free - free})
    this.size = Math.max(
      this.size,
      this.#taken.reduce((sum, {count}) => sum + count, 0),
    )
    this.#free = free
  }

  added(count: number): void {
    this.#free += count
  }
}

export interface Pool {
  family: Family
  supply: Supply
}

/**
 * Adds addresses to each pool until its supply is there; none while its stream of the journal is blocked. Resolves to
 * the number of added addresses of each.
 */
export async function fillPools(
  client: pg.Client,
  derive: Derive,
  journal: Journal,
  pools: Pool[],
): Promise<{family: Family; added: number}[]> {
  const counts = await countFree(
    client,
    pools.map(({family, supply}) => ({family, most: supply.size})),
  )
  const filled = []
  for (const pool of pools)
    filled.push({family: pool.family, added: await fillPool(client, derive, journal, pool, counts.get(pool.family)!)})
  return filled
}

async function fillPool(
  client: pg.Client,
  derive: Derive,
  journal: Journal,
  {family, supply}: Pool,
  {free, next, journalled}: Count,
): Promise<number> {
  if (journal.whyBlocked(poolStream(family))) return 0
  supply.found(free)
  const missing = Math.max(0, supply.size - free)
  // The addresses are older than the journal or its seals. From this entry on, no entry without a seal is believed.
  if (missing === 0 && (next - 1 > journalled || !journal.file.isSealed))
    await journal.write(add => add(fillDraft(family, next - 1)))
  for (let added = 0; added < missing; added += batch) {
    const from = next + added
    const to = next + Math.min(added + batch, missing) - 1
    await journal.write(async add => {
      await insertAddresses(client, derive, {family, from, to, retired: false})
      await add(fillDraft(family, to))
    })
    supply.added(to - from + 1)
  }
  return missing
}

interface Count {
  /** At most as many as were asked for. */
  free: number
  /** The first index that was never used. */
  next: number
  /** The highest index of the journal; -1 if it has none. */
  journalled: number
}

async function countOf(client: pg.Client, family: Family): Promise<Count> {
  return (await countFree(client, [{family, most: 0}])).get(family)!
}

async function countFree(client: pg.Client, pools: {family: Family; most: number}[]): Promise<Map<Family, Count>> {
  const {rows} = await client.query<{family: Family; free: string; next: string; journalled: string | null}>({
    name: 'count_free_addresses',
    text: `select p.family,
        (select count(*) from (select from custody.address a
          where a.family = p.family and purpose = 'deposit' and taken_at is null and retired_at is null limit p.most) f) as free,
        (select coalesce(max(derivation_index) + 1, 0) from custody.address a where a.family = p.family and purpose = 'deposit') as next,
        (select details ->> 'up_to' from custody.journal where stream = p.stream order by seq desc limit 1) as journalled
      from unnest($1::text[], $2::int[], $3::text[]) p (family, most, stream)`,
    values: [pools.map(({family}) => family), pools.map(({most}) => most), pools.map(({family}) => poolStream(family))],
  })
  return new Map(
    rows.map(({family, free, next, journalled}) => [
      family,
      {free: Number(free), next: Number(next), journalled: Number(journalled ?? -1)},
    ]),
  )
}

async function insertAddresses(
  client: pg.Client,
  derive: Derive,
  {
    family,
    from,
    to,
    retired,
    signed_at,
  }: {family: Family; from: number; to: number; retired: boolean; signed_at?: string},
): Promise<void> {
  const indexes = Array.from({length: to - from + 1}, (_, i) => from + i)
  const addresses = await Promise.all(indexes.map(index => derive({family, purpose: 'deposit', index})))
  await client.query(
    `insert into custody.address (address, family, derivation_index, retired_at, created_at)
     select address, $1, index, case when $4 then clock_timestamp() end, coalesce($5::timestamptz, clock_timestamp())
     from unnest($2::text[], $3::bigint[]) as a (address, index)`,
    [family, addresses, indexes, retired, signed_at],
  )
}

function fillDraft(family: Family, upTo: number): Draft {
  const nothing = {subject_id: null, merchant_id: null, token: null, amount: null, destination: null, source: null}
  return {
    stream: poolStream(family),
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
