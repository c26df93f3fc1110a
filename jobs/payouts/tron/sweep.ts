// How much of each address is swept. Promises: an address whose bytes are free is left empty; of another one, what its
// sweep may cost stays until it is paid.
import type {Holding, Sweep} from '../accounts/holdings.ts'
import type {Context} from '../context.ts'
import {sweepFees, type Tron} from './node.ts'

export async function sweeps(to: Context, chain: Tron, holdings: Holding[]): Promise<Sweep[]> {
  const addresses = holdings.map(({address}) => address)
  const fees = await sweepFees(chain, addresses, await paying(to, chain, addresses))
  return holdings.map(({address, amount}, i) => ({address, amount: BigInt(amount) - fees[i]!, maxFee: fees[i]!}))
}

/**
 * Those of which a sweep expired within a day: they pay, whatever the node says. All accounts share a limit of free
 * bytes, too.
 */
async function paying({pool}: Context, {settings}: Tron, addresses: string[]): Promise<Set<string>> {
  const {rows} = await pool.query<{source: string}>(
    `select distinct source from app.outgoing_payment
     where chain = $1 and source = any($2) and kind = 'sweep' and outcome = 'expired' and final_at > clock_timestamp() - interval '1 day'`,
    [settings.chain.code, addresses],
  )
  return new Set(rows.map(({source}) => source))
}
