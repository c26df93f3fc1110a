// The tokens that operators added to the running service (app.token), in the settings of a process: it knows them like
// those of its own settings, without a restart. Promises: a token that was read stays. Only the owner of the database
// writes these rows, so custody may trust them as it trusts the whitelist.
import type pg from 'pg'
import {type ChainSettings, familyOf} from '../../chains/families.ts'
import type {AddedToken} from '../../chains/family.ts'

/** A row of `addedTokens`. */
export interface TokenRow extends Omit<AddedToken, 'minPayout' | 'sweepMin' | 'payoutLimit' | 'dailyLimit'> {
  chain: string
  minPayout: string
  sweepMin: string
  payoutLimit: string | null
  dailyLimit: string | null
}

export const addedTokens = `
  select k.chain, k.token, a.name, a.display_name as "displayName", a.decimals, k.contract, k.sweep, a.min_payout::text as "minPayout",
    a.sweep_min::text as "sweepMin", k.payout_limit::text as "payoutLimit", k.daily_limit::text as "dailyLimit"
  from app.token k join app.asset a using (chain, token) order by k.added_at`

const unitsOf = (amount: string | null) => (amount === null ? undefined : BigInt(amount))

/** Adds a token to the settings of its chain, if they lack it. */
export function addToken(settings: ChainSettings, row: TokenRow): void {
  familyOf(settings).addToken?.(settings, {
    ...row,
    minPayout: BigInt(row.minPayout),
    sweepMin: BigInt(row.sweepMin),
    payoutLimit: unitsOf(row.payoutLimit),
    dailyLimit: unitsOf(row.dailyLimit),
  })
}

/** Adds the tokens that these settings lack. */
export async function readTokens(db: pg.Pool | pg.ClientBase, chains: Map<string, ChainSettings>): Promise<void> {
  const {rows} = await db.query<TokenRow>({name: 'added_tokens', text: addedTokens})
  for (const row of rows) {
    const settings = chains.get(row.chain)
    if (settings) addToken(settings, row)
  }
}
