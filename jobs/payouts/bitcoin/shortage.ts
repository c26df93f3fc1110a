// What a transaction on Bitcoin waits for that the free outputs do not pay for: money, or only blocks. New coins are final, and counted as ours,
// long before nodes let them be spent (100 blocks).
import type {Context} from '../context.ts'
import {immatureOutputs} from './outputs.ts'
import type {Failure, Output, Selection} from './select.ts'

interface Of {
  chain: string
  /** Null where it takes the treasury's alone. */
  merchantId: string | null
}

/** Why outputs are short, and which block ends it, if one does. `select` tries again with more of them. */
export async function whyShort(
  {pool}: Pick<Context, 'pool'>,
  {chain, merchantId}: Of,
  detail: string,
  select: (more: Output[]) => Selection | Failure,
): Promise<{reason: string; detail: string}> {
  const immature = await immatureOutputs(pool, chain, merchantId)
  for (const height of new Set(immature.map(({matureAt}) => matureAt))) {
    const mature = immature.filter(({matureAt}) => matureAt <= height)
    if (!('inputs' in select(mature))) continue
    const sum = mature.reduce((total, {amount}) => total + amount, 0n)
    return {
      reason: 'treasury_immature',
      detail: `${detail}; ${sum} sat of new coins are enough, and can be spent when block ${height} is there: nodes let no coinbase be spent before`,
    }
  }
  return {reason: 'insufficient_treasury_funds', detail}
}
