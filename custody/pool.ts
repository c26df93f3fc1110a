// The pool of addresses that wait for a user. The interface to the rest is the table custody.address and the channel address_pool_low,
// nothing else; whoever provides addresses later takes this place. Promises: indexes follow each other without a gap, each address is what
// this seed derives at its index, and one process fills at a time (it holds the advisory lock `sluice.custody` as long as it lives).
import type pg from 'pg'
import {PermanentError} from '../service/errors.ts'

/** Notified by the API when it finds no free address. */
export const channel = 'address_pool_low'

const family = 'evm'
/** Addresses per INSERT: the first ones are free to be taken while the rest is derived. */
const batch = 100

type Derive = (index: number) => string

const lock = `hashtextextended('sluice.custody', 0)`

/** False if another process fills the pool of this database. */
export async function tryLockPool(client: pg.Client): Promise<boolean> {
  const {rows} = await client.query<{taken: boolean}>(`select pg_try_advisory_lock(${lock}) as taken`)
  return rows[0]!.taken
}

export async function hasAddresses(client: pg.Client): Promise<boolean> {
  const {rowCount} = await client.query('select from custody.address where family = $1 limit 1', [family])
  return rowCount !== 0
}

/** Throws PermanentError if the pool holds an address of another seed at its lowest or its highest index. */
export async function checkPool(client: pg.Client, derive: Derive): Promise<void> {
  const {rows} = await client.query<{address: string; index: string}>(
    `select address, derivation_index as index from custody.address p
     where family = $1 and derivation_index in (
       select unnest(array[min(derivation_index), max(derivation_index)]) from custody.address where family = $1)
     order by derivation_index`,
    [family],
  )
  for (const {address, index} of rows) {
    if (derive(Number(index)) === address) continue
    throw new PermanentError(
      `the seed does not derive address ${index} of the database's pool: it belongs to another database; ` +
        'restore the seed that made these addresses, or name the database of this one',
    )
  }
}

/** Adds addresses until `size` are free. Resolves to how many were added. */
export async function fillPool(client: pg.Client, derive: Derive, size: number): Promise<number> {
  const {rows} = await client.query<{free: string; next: string}>({
    name: 'count_free_addresses',
    text: `select (select count(*) from (select from custody.address where family = $1 and taken_at is null limit $2) f) as free,
      (select coalesce(max(derivation_index) + 1, 0) from custody.address where family = $1) as next`,
    values: [family, size],
  })
  const missing = size - Number(rows[0]!.free)
  const next = Number(rows[0]!.next)
  for (let added = 0; added < missing; added += batch) {
    const indexes = Array.from({length: Math.min(batch, missing - added)}, (_, i) => next + added + i)
    await client.query(
      `insert into custody.address (address, family, derivation_index) select address, $1, index from unnest($2::text[], $3::bigint[]) as a (address, index)`,
      [family, indexes.map(derive), indexes],
    )
  }
  return Math.max(missing, 0)
}
