// The assets that can be paid, and paid out: the coins and tokens of the chains. They come from the service's settings
// and from the chains, and are compared with its registry and its tables.
import type pg from 'pg'
import {formatUnits} from 'viem'
import type {ChainCode} from '../../chains/registry.ts'

export interface Asset {
  chain: ChainCode
  token: string
  /** Its code in payment requests. */
  name: string
  decimals: number
  /** The upper limit of a usual payment: some of them are worth sweeping, and paying out. */
  usual: bigint
}

/** Undefined if the service does not know it. */
export function assetOf(assets: Asset[], chain: string, token: string): Asset | undefined {
  return assets.find(asset => asset.chain === chain && asset.token === token)
}

/** In whole coins; in base units if its decimals are unknown. */
export function inCoins(assets: Asset[], chain: string, token: string, amount: bigint): string {
  const asset = assetOf(assets, chain, token)
  return asset ? formatUnits(amount, asset.decimals) : String(amount)
}

/** The differences from the service's own list. */
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
