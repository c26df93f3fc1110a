// What a transaction offers for each virtual byte. Promises: no I/O; never below what is relayed, or below the operator's least; never above
// the operator's most.
import type {FeeRates} from './node.ts'

export interface Bounds {
  minFeeRate: number
  maxFeeRate: number
}

/** A first offer stays so far below the most that it can be outbid: what cannot be replaced cannot be cancelled either. */
const roomAbove = 0.8

/** Sat per virtual byte for a first attempt and for one that replaces another; undefined where less than what is relayed is allowed. */
export function ratesOf(
  {estimate, floor}: FeeRates,
  {minFeeRate, maxFeeRate}: Bounds,
): {first: number; replacing: number} | undefined {
  const least = Math.max(floor, minFeeRate)
  if (least > maxFeeRate) return
  const wanted = Math.max(estimate ?? 0, least)
  return {
    first: Math.min(wanted, Math.max(least, maxFeeRate * roomAbove)),
    replacing: Math.min(wanted, maxFeeRate),
  }
}
