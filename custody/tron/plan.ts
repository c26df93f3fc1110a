// How a transaction of Tron is made. Promises: the block that it names is one that the indexer found final, so that no
// fork makes it invalid, or valid again; no two transactions of a chain have the same time, because equal ones have the
// same id, and only one of them pays. Nothing in a transaction limits its fee: the settings say what is counted.
import {tronSettings} from '../../chains/tron/settings.ts'
import {largestAmount} from '../../chains/tron/transaction.ts'
import {type Lifetime, lifetimeInTime, linkedNow} from '../judge/expiring.ts'
import type {FamilyContext, Purpose} from '../judge/plan.ts'
import {Refusal} from '../judge/refusal.ts'

export interface TronTerms {
  maxFee: bigint
  lifetime: Lifetime
  /** The block that it names. */
  on: {height: number; hash: string}
  /** In ms; nodes do not check it. */
  timestamp: number
}

export async function termsOf(context: FamilyContext, {kind, chain, token, amount}: Purpose): Promise<TronTerms> {
  const settings = tronSettings(context.chains.get(chain))
  if (token !== settings.chain.assets[0].token)
    throw new Refusal('unknown_settlement', `custody signs nothing for ${token} on ${chain}`)
  if (amount > largestAmount) throw new Refusal('above_limit', `a transaction cannot move ${amount} sun`)
  const linked = await linkedNow(context, chain, settings)
  return {
    maxFee: kind === 'sweep' ? settings.maxSweepFee : settings.maxPaymentFee,
    lifetime: lifetimeInTime(linked, settings.lifetimeMs),
    on: {height: linked.finalHeight, hash: linked.finalHash},
    timestamp: await nextTimestamp(context, chain, linked.nowMs),
  }
}

/** Later than that of every transaction in the journal, also of those signed in this turn. */
async function nextTimestamp({client}: FamilyContext, chain: string, nowMs: number): Promise<number> {
  const {rows} = await client.query<{last: string}>({
    name: 'last_timestamp',
    text: `select details ->> 'timestamp' as last from custody.journal where stream = $1 and details ? 'timestamp' order by seq desc limit 1`,
    values: [chain],
  })
  return Math.max(Math.floor(nowMs), 1 + Number(rows[0]?.last ?? 0))
}
