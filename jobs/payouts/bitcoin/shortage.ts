// What a Bitcoin transaction waits for if the free outputs are not enough: money, or only blocks. New coins (coinbase
// outputs) are final, and count as ours, long before nodes let them be spent (100 blocks).
import type {Context, Wait} from '../context.ts'
import {immatureOutputs} from './outputs.ts'
import type {Failure, Output, Selection} from './select.ts'

interface Of {
  chain: string
  /** Null if only the treasury's outputs are used. */
  merchantId: string | null
}

/** Why outputs are missing, and the block that ends the wait, if one does. `select` tries again with more outputs. */
export async function whyShort(
  {pool}: Pick<Context, 'pool'>,
  {chain, merchantId}: Of,
  detail: string,
  select: (more: Output[]) => Selection | Failure,
): Promise<Pick<Wait, 'reason' | 'detail'>> {
  const immature = await immatureOutputs(pool, chain, merchantId)
  for (const height of new Set(immature.map(({matureAt}) => matureAt))) {
    const mature = immature.filter(({matureAt}) => matureAt <= height)
    if (!('inputs' in select(mature))) continue
    const sum = mature.reduce((total, {amount}) => total + amount, 0n)
    return {
      reason: 'treasury_immature',
      detail: `${detail}; ${sum} sat of new coins would be enough, and can be spent from block ${height} on (a coinbase output needs 100 blocks)`,
    }
  }
  return {reason: 'insufficient_treasury_funds', detail}
}
