// What can be paid, and paid out: the coins and tokens of the chains, by the settings with which the service runs and by the chains themselves.
// Never by its registry or its tables, which are held against it.
import type pg from 'pg'
import {formatUnits} from 'viem'
import type {ChainCode} from '../../chains/registry.ts'

export interface Asset {
  chain: ChainCode
  token: string
  /** In payment requests. */
  name: string
  decimals: number
  /** A usual payment is of no more: some of them are worth sweeping, and paying out. */
  usual: bigint
}

/** Undefined of what the service was not told of. */
export function assetOf(assets: Asset[], chain: string, token: string): Asset | undefined {
  return assets.find(asset => asset.chain === chain && asset.token === token)
}

/** In whole coins; in base units where nobody knows its decimals. */
export function inCoins(assets: Asset[], chain: string, token: string, amount: bigint): string {
  const asset = assetOf(assets, chain, token)
  return asset ? formatUnits(amount, asset.decimals) : String(amount)
}

/** What is wrong with the service's own list. */
export async function assetsAreThoseOfTheSettings({db, assets}: {db: pg.Pool; assets: Asset[]}): Promise<string[]> {
  const {rows} = await db.query<{asset: string}>(
    `select chain || ' ' || token || ', in requests ' || name || ', of ' || decimals || ' decimals' as asset from app.asset`,
  )
  const known = rows.map(({asset}) => asset)
  const real = assets.map(
    ({chain, token, name, decimals}) => `${chain} ${token}, in requests ${name}, of ${decimals} decimals`,
  )
  return [
    ...real.filter(asset => !known.includes(asset)).map(asset => `in the settings, and not in app.asset: ${asset}`),
    ...known.filter(asset => !real.includes(asset)).map(asset => `in app.asset, and not in the settings: ${asset}`),
  ]
}
