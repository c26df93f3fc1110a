// The settings of a chain, with the tokens that an operator added while the API runs: they are read when the first
// request is about one of them.
import type {ChainSettings} from '../chains/families.ts'
import type {ChainCode} from '../chains/registry.ts'
import {addedTokens, addToken, type TokenRow} from '../db/client/tokens.ts'
import type {Context} from './app.ts'
import {statement} from './database.ts'

const readAdded = statement('added_tokens', `select to_jsonb(t) from (${addedTokens}) t`)

export async function settingsWith({db, chains}: Context, chain: ChainCode, token: string): Promise<ChainSettings> {
  const settings = chains.get(chain)!
  if (settings.chain.assets.some(asset => asset.token === token)) return settings
  for (const [row] of await db.primary.rows<[TokenRow]>(readAdded)) if (row.chain === chain) addToken(settings, row)
  return settings
}
