// What a migration run changes in the list of assets, for people: it may run with other settings than the service.
import {withClient} from '../client/pool.ts'

interface Row {
  asset: string
  name: string
  display_name: string
  decimals: number
  contract: string | null
  min_payout: string
  sweep_min: string | null
}

interface Stored {
  name: string
  'display name': string
  decimals: string
  /** Null if no migration run had settings yet. */
  contract: string | null
  /** In whole coins, as the next one. */
  'smallest payout': string
  'smallest sweep': string
}

/** By chain and token, such as `ETH USDC`. */
export type StoredAssets = Map<string, Stored>

export interface AssetChange {
  chain: string
  token: string
  change: 'added' | 'changed' | 'removed'
  /** What changed, from what to what. */
  fields: Record<string, {from: string; to: string}>
}

/** The assets of the database of this owner's URL; none if it was never migrated. */
export async function storedAssets(ownerUrl: string): Promise<StoredAssets> {
  return await withClient(ownerUrl, 'sluice-settings', async client => {
    // The last column of those that are read here. A version before it has nothing to compare.
    const {rowCount} = await client.query(
      `select from pg_attribute where attrelid = to_regclass('app.asset') and attname = 'sweep_min'`,
    )
    if (!rowCount) return new Map()
    // No function of ours: a first migration may have failed before there were any.
    const {rows} = await client.query<Row>(
      `select a.chain || ' ' || a.token as asset, a.name, a.display_name, a.decimals, a.min_payout, a.sweep_min,
         case when c.assets is not null then coalesce(nullif(l.contract, ''), 'none') end as contract
       from app.asset a join app.chain c using (chain)
       left join lateral jsonb_to_recordset(c.assets) as l (token text, contract text) on l.token = a.token
       order by 1`,
    )
    return new Map(rows.map(row => [row.asset, stored(row)]))
  })
}

function stored({name, display_name, decimals, contract, min_payout, sweep_min}: Row): Stored {
  return {
    name,
    'display name': display_name,
    decimals: String(decimals),
    contract,
    'smallest payout': inCoins(min_payout, decimals),
    'smallest sweep': sweep_min === null ? 'none' : inCoins(sweep_min, decimals),
  }
}

/** Base units as whole coins, without zeros at the end. */
function inCoins(units: string, decimals: number): string {
  const digits = units.padStart(decimals + 1, '0')
  const at = digits.length - decimals
  return `${digits.slice(0, at)}.${digits.slice(at)}`.replace(/\.?0*$/, '')
}

export function assetChanges(before: StoredAssets, after: StoredAssets): AssetChange[] {
  return [...new Set([...before.keys(), ...after.keys()])].flatMap(asset => {
    const [chain, token] = asset.split(' ') as [string, string]
    const [old, now] = [before.get(asset), after.get(asset)]
    if (!now) return {chain, token, change: 'removed' as const, fields: {}}
    if (!old) return {chain, token, change: 'added' as const, fields: {}}
    const fields = differences(old, now)
    return Object.keys(fields).length ? {chain, token, change: 'changed' as const, fields} : []
  })
}

function differences(old: Stored, now: Stored): AssetChange['fields'] {
  const names = Object.keys(now) as (keyof Stored)[]
  return Object.fromEntries(
    names.flatMap(name => {
      const [from, to] = [old[name], now[name]]
      return from === null || to === null || from === to ? [] : [[name, {from, to}]]
    }),
  )
}

/** A line for each change. */
export function changesInWords(changes: AssetChange[]): string[] {
  return changes.map(({chain, token, change, fields}) => {
    const asset = `${chain} ${token}`
    if (change === 'added') return `Added ${asset}.`
    if (change === 'removed')
      return `Warning: removed ${asset}, because these settings name no such token (${chain}_TOKENS). If the service's settings name it, migrate again with them.`
    const parts = Object.entries(fields).map(([name, {from, to}]) => `${name} ${from} -> ${to}`)
    return `Changed ${asset}: ${parts.join(', ')}`
  })
}
