// Checks whether the seed, or a backup of it, still gives every address that was ever made. Promises: it derives each
// address again and changes nothing.
import type pg from 'pg'
import type {Derive} from './addresses.ts'
import type {KeyPath} from './key-store.ts'

const page = 1000
const mostShown = 10

export interface Verified {
  /** How many addresses were compared. */
  addresses: number
  differences: number
  /** The first addresses that differ. */
  examples: (KeyPath & {database: string; seed: string})[]
}

export async function verifyAddresses(client: pg.Client, derive: Derive): Promise<Verified> {
  const result: Verified = {addresses: 0, differences: 0, examples: []}
  for (let after = ['', '', -1] as [string, string, number]; ; ) {
    const {rows} = await client.query<Pick<KeyPath, 'family' | 'purpose'> & {address: string; index: string}>(
      `select address, family, purpose, derivation_index as index from custody.address
       where (family, purpose, derivation_index) > ($1, $2, $3) order by family, purpose, derivation_index limit $4`,
      [...after, page],
    )
    if (!rows.length) return result
    for (const {address, family, purpose, index: text} of rows) {
      const index = Number(text)
      const seed = await derive({family, purpose, index})
      result.addresses++
      if (seed === address) continue
      result.differences++
      if (result.examples.length < mostShown) result.examples.push({family, purpose, index, database: address, seed})
    }
    const last = rows.at(-1)!
    after = [last.family, last.purpose, Number(last.index)]
  }
}
