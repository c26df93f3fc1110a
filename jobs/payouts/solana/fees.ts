// What transactions of Solana cost. Promises: no I/O. A signature has a fixed price; on top of it a transaction offers
// a fee for its place in a block, never more than the operator allows. Each further transaction of a payment offers
// twice as much as the one before.
import {least} from '../../../base/bigints.ts'
import {signatureFee, twoSignaturesFee} from '../../../chains/solana/message.ts'
import type {SolanaSettings} from '../../../chains/solana/settings.ts'

/**
 * What a leader counts for one of our payments, in compute units: its signature, its accounts, their data, and what it
 * may compute (custody/solana/plan.ts).
 */
const costs = {coins: 20_000n, token: 60_000n, madeAccount: 170_000n}
export type Moved = keyof typeof costs
const microLamports = 1_000_000n
/** A further transaction offers at least twice this. */
const leastRaised = 500n
/** This share of the recent prices is no higher than what is offered. */
const share = 0.75

type Bound = Pick<SolanaSettings, 'maxPriorityFee'>

/**
 * In lamports: what most transactions of the last blocks paid; `prices` are in micro-lamports for a compute unit.
 * Doubled for each earlier attempt.
 */
export function priorityFee(
  {maxPriorityFee}: Bound,
  prices: bigint[],
  {attempts, moved}: {attempts: number; moved: Moved},
): bigint {
  const sorted = prices.toSorted((a, b) => (a < b ? -1 : 1))
  const price = sorted[Math.ceil(share * sorted.length) - 1] ?? 0n
  const usual = (price * costs[moved] + microLamports - 1n) / microLamports
  if (attempts === 0) return least(usual, maxPriorityFee)
  return least((usual > leastRaised ? usual : leastRaised) * 2n ** BigInt(attempts), maxPriorityFee)
}

/** The most that a payment can cost, in lamports. */
export const highestFee = ({maxPriorityFee}: Bound): bigint => signatureFee + maxPriorityFee

/** The most that a sweep can cost, which the address and the treasury sign. */
export const highestSweepFee = ({maxPriorityFee}: Bound): bigint => twoSignaturesFee + maxPriorityFee
