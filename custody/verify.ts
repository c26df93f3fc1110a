// Whether the seed, or a backup of it, still gives every address that was ever made. Promises: derives each one anew, and changes nothing.
import type pg from 'pg'
import type {KeyPath, KeyStore} from './keys.ts'
import {derive} from './pool.ts'

const page = 1000
const mostShown = 10

export interface Verified {
  /** How many addresses were compared. */
  addresses: number
  differences: number
  /** The first of those that differ. */
  examples: {purpose: string; index: number; database: string; seed: string}[]
}

export async function verifyAddresses(client: pg.Client, keys: KeyStore): Promise<Verified> {
  const result: Verified = {addresses: 0, differences: 0, examples: []}
  for (let after = ['', -1] as [string, number]; ; ) {
    const {rows} = await client.query<{address: string; purpose: KeyPath['purpose']; index: string}>(
      `select address, purpose, derivation_index as index from custody.address
       where family = 'evm' and (purpose, derivation_index) > ($1, $2) order by purpose, derivation_index limit $3`,
      [...after, page],
    )
    if (!rows.length) return result
    for (const {address, purpose, index: text} of rows) {
      const index = Number(text)
      const seed = await derive(keys, {purpose, index})
      result.addresses++
      if (seed === address) continue
      result.differences++
      if (result.examples.length < mostShown) result.examples.push({purpose, index, database: address, seed})
    }
    after = [rows.at(-1)!.purpose, Number(rows.at(-1)!.index)]
  }
}
