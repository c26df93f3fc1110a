// The fee rate of a transaction. Promises: no I/O. The rate is never below what nodes relay, or below the operator's
// minimum, and never above the operator's maximum.
import type {FeeRates} from './node.ts'

export interface Bounds {
  minFeeRate: number
  maxFeeRate: number
}

/**
 * The first rate stays below this share of the maximum, so that a replacement is possible. Otherwise it could not be
 * cancelled either.
 */
const roomAbove = 0.8

/**
 * Sat per virtual byte for a first attempt, and for a replacement. Undefined if the operator's maximum is below the
 * minimum.
 */
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
