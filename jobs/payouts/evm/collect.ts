// collect.ts for a chain of accounts: each address that holds enough gets its own sweep.
import {beginSweeps, collectable} from '../accounts.ts'
import type {Context} from '../context.ts'
import {offer} from './fees.ts'
import type {Evm} from './node.ts'
import {sized} from './sweep.ts'

export async function collectToken(to: Context, chain: Evm, token: string, above: bigint): Promise<void> {
  const {code} = chain.settings.chain
  const holdings = await collectable(to, {chain: code, token, above})
  if (!holdings.length) return
  const fees = offer(await chain.node.feeMarket(), chain.settings.maxFeePerGas)
  if (!fees) return // tried again when fees have fallen
  const sweeps = await sized(chain, token, holdings, fees.maxFeePerGas)
  const short = await beginSweeps(to.pool, {id: null, chain: code, token}, sweeps)
  if (short) to.log.warn({chain: code, token}, `addresses are not collected: ${short}; send money to the treasury`)
}
