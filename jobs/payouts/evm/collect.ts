// collect.ts for a chain of accounts: each address that holds enough gets its own sweep.
import {beginSweeps, collectable, treasuryOf} from '../accounts.ts'
import type {Context} from '../context.ts'
import type {Evm} from './node.ts'
import {offered} from './offered.ts'
import {tokenRefusal} from './refusals.ts'
import {sized} from './sweep.ts'

export async function collectToken(to: Context, chain: Evm, token: string, above: bigint): Promise<void> {
  const {code} = chain.settings.chain
  const holdings = await collectable(to, {chain: code, token, above})
  if (!holdings.length) return
  const fees = await offered(chain)
  if ('reason' in fees) return // tried again when fees have fallen
  const treasury = await treasuryOf(to.pool, code)
  const sweeps = await sized(chain, {token, treasury, feePerGas: fees.maxFeePerGas}, holdings)
  const refused = sweeps.length ? await tokenRefusal(to, chain, token) : undefined
  if (refused) return to.log.warn({chain: code, token}, `addresses are not collected: ${refused.detail}`)
  const short = await beginSweeps(to.pool, {id: null, chain: code, token}, sweeps)
  if (short) to.log.warn({chain: code, token}, `addresses are not collected: ${short}; send money to the treasury`)
}
