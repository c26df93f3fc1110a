// Writes the assets of the settings into the database (app.asset), which credits tokens and checks payouts by them. So
// every process decides alike. Promises: once this resolves, the assets are those of the settings, including the
// operator's own tokens, with their smallest payouts and sweeps. What was accepted before stays. Decimals change, and
// an asset is removed, only if no amount of it was ever stored. A process whose settings name other assets does not
// start.
import type pg from 'pg'
import {PermanentError} from '../../base/errors.ts'
import type {ChainSettings} from '../../chains/families.ts'
import type {Asset, Chain, Erc20} from '../../chains/registry.ts'
import {withClient} from '../client/pool.ts'

/** Writes them into the database of this owner's URL. */
export async function writeAssets(ownerUrl: string, settings: Iterable<ChainSettings>): Promise<void> {
  const chains = [...settings]
  await withClient(ownerUrl, 'sluice-settings', async client => {
    await removeOthers(client, chains)
    for (const {chain, minPayout, sweepMin} of chains) {
      await upsertAssets(client, chain.code, chain.assets)
      await client.query('update app.chain c set assets = $2 where c.chain = $1', [
        chain.code,
        JSON.stringify(listed(chain)),
      ])
      await client.query(
        `update app.asset a set min_payout = given.amount
         from unnest($2::text[], $3::numeric[]) as given (token, amount)
         where a.chain = $1 and a.token = given.token and a.min_payout is distinct from given.amount`,
        [chain.code, [...minPayout.keys()], [...minPayout.values()].map(String)],
      )
      for (const [token, amount] of sweepMin)
        await client.query('select app.set_sweep_min($1, $2, $3)', [chain.code, token, String(amount)])
    }
  })
}

interface Listed {
  token: string
  decimals: number
  contract: string
  /** Only where it is not the usual way of the chain. */
  sweep?: 'fund'
}

/** The properties of a chain's assets on which all processes must agree. */
function listed({assets}: Chain): Listed[] {
  return assets
    .filter(({isAdded}) => !isAdded)
    .map(asset => {
      const {token, decimals, contract = ''} = asset
      return {token, decimals, contract: asIndexed(contract), ...(sweepOf(asset) === 'fund' && {sweep: 'fund'})}
    })
}

/** As the indexer writes it. */
const asIndexed = (contract: string) => (contract.startsWith('0x') ? contract.toLowerCase() : contract)

const sweepOf = (asset: Asset | Erc20) => ('sweep' in asset ? asset.sweep.by : null)

/** How a process's assets of a chain differ from those of the last writeAssets; undefined if they are the same. */
export async function otherAssets(db: pg.Pool | pg.Client, {chain}: ChainSettings): Promise<string | undefined> {
  const own = listed(chain)
  const {rows} = await db.query<{assets: Listed[]}>(
    'select assets from app.chain where chain = $1 and assets <> $2::jsonb',
    [chain.code, JSON.stringify(own)],
  )
  if (!rows[0]) return
  const {assets} = rows[0]
  return (
    `the settings of this process name other assets of ${chain.code} than those of the last migration run: ${besides(assets, own)} instead of` +
    ` ${besides(own, assets)}; give every process the same tokens (${chain.code}_TOKENS, ${chain.code}_<TOKEN>_CONTRACT), and run sluice migrate after a change`
  )
}

/** The assets of the second list that are not in the first, for people. */
function besides(known: Listed[], assets: Listed[]): string {
  const described = ({token, decimals, contract, sweep}: Listed) =>
    `${token} (${decimals} decimals${contract && `, ${contract}`}${sweep ? `, swept by ${sweep}` : ''})`
  const texts = known.map(described)
  return (
    assets
      .map(described)
      .filter(text => !texts.includes(text))
      .join(', ') || 'none'
  )
}

/** Throws PermanentError if the settings of a process name other assets than those of the last writeAssets. */
export async function requireSameAssets(db: pg.Pool | pg.Client, settings: Iterable<ChainSettings>): Promise<void> {
  for (const of of settings) {
    const why = await otherAssets(db, of)
    if (why !== undefined) throw new PermanentError(why)
  }
}

const isUsed = `(exists (select from app.deposit d where (d.chain, d.token) = (a.chain, a.token))
  or exists (select from app.payment_request r where (r.chain, r.token) = (a.chain, a.token)))`

/** Throws PermanentError if amounts of an asset are stored with other decimals. */
export async function upsertAssets(client: pg.Client, chain: string, assets: readonly Asset[]): Promise<void> {
  const {rows: added} = await client.query<{token: string}>(
    'select token from app.token where chain = $1 and token = any($2)',
    [chain, assets.map(({token}) => token)],
  )
  if (added[0])
    throw new PermanentError(
      `${chain} ${added[0].token} was added with sluice token add, and the settings name it, too; remove it from the settings`,
    )
  for (const asset of assets) {
    const {token, name, displayName, decimals, minPayout = 1n, mostCoins} = asset
    const most = mostCoins === undefined ? 10n ** 77n - 1n : mostCoins * 10n ** BigInt(decimals)
    const {rowCount} = await client.query(
      `insert into app.asset as a (chain, token, name, display_name, decimals, min_payout, min_payment, max_payment, sweep_by)
       values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
       on conflict (chain, token) do update
       set name = excluded.name, display_name = excluded.display_name, decimals = excluded.decimals,
         min_payout = greatest(a.min_payout, excluded.min_payout), min_payment = excluded.min_payment, max_payment = excluded.max_payment,
         sweep_by = excluded.sweep_by
       where a.decimals = excluded.decimals or not ${isUsed}`,
      [
        chain,
        token,
        name,
        displayName,
        decimals,
        ...[minPayout, leastPayment(asset), most].map(String),
        sweepOf(asset),
      ],
    )
    if (rowCount) continue
    throw new PermanentError(
      `${chain} ${token} is to have ${decimals} decimals, and the amounts stored here have others; put back what they were, in ${chain}_TOKENS or chains/registry.ts`,
    )
  }
}

/**
 * The smallest amount that is a payment, in base units: what an address can receive at all or, where that may be next
 * to nothing, a hundredth of what is worth sweeping. Less moves no payment request, is not asked for, and may be
 * missing.
 */
function leastPayment({smallestPayment = 1n, usualSweepMin}: Asset): bigint {
  const part = usualSweepMin / 100n
  return part > smallestPayment ? part : smallestPayment
}

async function removeOthers(client: pg.Client, settings: ChainSettings[]): Promise<void> {
  const known = settings.flatMap(({chain}) => chain.assets.map(({token}) => ({chain: chain.code, token})))
  const others = `not exists (
      select from json_to_recordset($1) as known (chain text, token text) where (known.chain, known.token) = (a.chain, a.token))
    and not exists (select from app.token k where (k.chain, k.token) = (a.chain, a.token))`
  await client.query(`delete from app.asset a where ${others} and not ${isUsed}`, [JSON.stringify(known)])
  const {rows} = await client.query<{chain: string; token: string}>(
    `select chain, token from app.asset a where ${others}`,
    [JSON.stringify(known)],
  )
  if (!rows.length) return
  const names = rows.map(({chain, token}) => `${chain} ${token}`).join(', ')
  throw new PermanentError(
    `amounts of ${names} are stored here, and the settings know no such token any more; put its entry back (${rows[0]!.chain}_TOKENS)`,
  )
}
