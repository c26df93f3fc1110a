// The settings that every chain has whose transactions expire, whatever its family.
import type {z} from 'zod'
import {milliseconds, whole} from '../base/variables.ts'

export interface ExpirySettings {
  /** Custody signs only if the indexer linked a block within this: what it has not seen may be long past. */
  maxHeadAgeMs: number
  /** A payment of which this many transactions expired is given up; its payout fails. */
  maxLapses: number
}

/**
 * How far the time of a block may be from the clock, and how late the last block may be that can hold a transaction.
 */
export const lifetimeMarginMs = 30_000

/** The variables of these settings. Each family adds them to its own. */
export function expiryVariables() {
  return {
    MAX_HEAD_AGE_MS: milliseconds(1, 60_000).default(60_000),
    MAX_LAPSES: whole(1, 100, 3).default(3),
  }
}

type Given = z.infer<z.ZodObject<ReturnType<typeof expiryVariables>>>

export function expirySettings(given: Given): ExpirySettings {
  return {maxHeadAgeMs: given.MAX_HEAD_AGE_MS, maxLapses: given.MAX_LAPSES}
}
