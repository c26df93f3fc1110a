// How a transaction of Solana is made. Promises: it names the newest block that the indexer linked, and its end follows
// from that block's height. A fork that leaves this block makes the transaction invalid, never valid for longer; a
// final block would take away a fifth of the time. No transaction uses a durable nonce, which would have no end.
// Transactions of a chain that are equal otherwise have different limits of compute units, because equal ones have the
// same id, and only one of them pays. The fee is exact.
import {blockMs, largestAmount, lifetimeBlocks, signatureFee} from '../../chains/solana/message.ts'
import {solanaSettings} from '../../chains/solana/settings.ts'
import {type Lifetime, lifetimeInBlocks, linkedNow} from '../judge/expiring.ts'
import type {FamilyContext, Purpose} from '../judge/plan.ts'
import {Refusal} from '../judge/refusal.ts'

/** More than a payment needs (450), which fails if it has too little. */
const leastLimit = 1000
/**
 * The limits begin again after this many signatures; only those of one block's time could meet. The highest limit costs
 * nothing, and one twentieth of what the fee is worth to a leader.
 */
const limits = 1000

export interface SolanaTerms {
  maxFee: bigint
  lifetime: Lifetime
  blockhash: string
  computeUnitLimit: number
  priorityFee: bigint
}

/**
 * `priorityFee`: in lamports, on top of the signatures', which so many keys make. Of a sweep whose address pays, it is
 * what the address keeps for it, so that nothing is left.
 */
export async function termsOf(
  context: FamilyContext,
  {chain, token, amount}: Purpose,
  signatures: 1 | 2,
  priorityFee: bigint,
): Promise<SolanaTerms> {
  const settings = solanaSettings(context.chains.get(chain))
  if (token !== settings.chain.assets[0].token)
    throw new Refusal('unknown_settlement', `custody signs nothing for ${token} on ${chain}`)
  if (amount > largestAmount) throw new Refusal('above_limit', `a transaction cannot move ${amount} lamports`)
  if (priorityFee > settings.maxPriorityFee)
    throw new Refusal(
      'fee_above_cap',
      `a priority fee of ${priorityFee} lamports is more than ${chain}_MAX_PRIORITY_FEE allows (${settings.maxPriorityFee})`,
    )
  const linked = await linkedNow(context, chain, settings)
  return {
    maxFee: signatureFee * BigInt(signatures) + priorityFee,
    lifetime: lifetimeInBlocks(linked, lifetimeBlocks, blockMs),
    blockhash: linked.headHash,
    computeUnitLimit: await nextLimit(context, chain),
    priorityFee,
  }
}

/** Another one than the transactions before it in the journal have, also those signed in this turn. */
async function nextLimit({client}: FamilyContext, chain: string): Promise<number> {
  const {rows} = await client.query<{seq: number}>({
    name: 'last_seq',
    text: 'select coalesce(max(seq), 0)::int as seq from custody.journal where stream = $1',
    values: [chain],
  })
  return leastLimit + (rows[0]!.seq % limits)
}
