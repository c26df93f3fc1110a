// The settings that every chain has, whatever its family.
import {z} from 'zod'
import {most} from '../base/bigints.ts'
import {milliseconds, quoted, whole} from '../base/variables.ts'
import type {Asset, Chain} from './registry.ts'

export interface CommonSettings<C extends Chain = Chain> {
  family: C['family']
  chain: C
  /** The first block to read at the first start; absent: indexers/start.ts finds it. */
  startHeight?: number
  stallTimeoutMs: number
  /** By token, in base units. A token that is absent has no limit, or, for `collectAbove`, is not collected. */
  payoutLimit: Map<string, bigint>
  dailyLimit: Map<string, bigint>
  /** Addresses that hold at least this are swept without a payout. */
  collectAbove: Map<string, bigint>
  /** The smallest net amount of a payout of each asset. */
  minPayout: Map<string, bigint>
  /**
   * The least final money on an address (on chains with outputs: in an output) that is worth a sweep, of each asset.
   * Less is held back.
   */
  sweepMin: Map<string, bigint>
  /**
   * The most that all network fees signed by custody in a day (UTC) may add up to, in the native coin's base units.
   * Only custody reads it (judge/budget.ts).
   */
  feeBudget: bigint
  /** The most that a sweep of the native coin may cost, in percent of the amount that it moves. */
  sweepFeePercent: number
}

/** The largest height: Postgres stores heights as integer. */
const highest = 2 ** 31 - 1

/** The variables of these settings. Each family adds its own. */
export function commonVariables(chain: Chain) {
  return {
    START_HEIGHT: whole(0, highest, 8_000_000).optional(),
    STALL_TIMEOUT_MS: milliseconds(1, chain.stallTimeoutMs).default(chain.stallTimeoutMs),
    PAYOUT_LIMIT: amounts(chain).default(() => new Map()),
    DAILY_LIMIT: amounts(chain).default(() => new Map()),
    COLLECT_ABOVE: amounts(chain).default(() => new Map()),
    MIN_PAYOUT: amounts(chain).default(() => new Map()),
    SWEEP_MIN: amounts(chain).default(() => new Map()),
    FEE_BUDGET: coins(chain, chain.feeBudget),
    SWEEP_FEE_PERCENT: whole(1, 100, 50).default(50),
  }
}

type Given = z.infer<z.ZodObject<ReturnType<typeof commonVariables>>>

export function commonSettings<C extends Chain>(chain: C, given: Given): CommonSettings<C> {
  return {
    family: chain.family,
    chain,
    startHeight: given.START_HEIGHT,
    stallTimeoutMs: given.STALL_TIMEOUT_MS,
    payoutLimit: withUsual(chain.assets, given.PAYOUT_LIMIT, asset => asset.usualPayoutLimit),
    dailyLimit: withUsual(chain.assets, given.DAILY_LIMIT, asset => asset.usualDailyLimit),
    collectAbove: given.COLLECT_ABOVE,
    minPayout: new Map(chain.assets.map(asset => [asset.token, minPayoutOf(asset, given.MIN_PAYOUT)])),
    sweepMin: withUsual(chain.assets, given.SWEEP_MIN, asset => asset.usualSweepMin),
    feeBudget: given.FEE_BUDGET,
    sweepFeePercent: given.SWEEP_FEE_PERCENT,
  }
}

/** The setting, or the default; never less than the chain's own minimum. */
function minPayoutOf({token, minPayout = 1n, usualMinPayout}: Asset, given: Map<string, bigint>): bigint {
  const wanted = given.get(token) ?? usualMinPayout
  return wanted < minPayout ? minPayout : wanted
}

/**
 * The least amount that is worth sweeping from an address that pays for it, together with the fee. Custody signs no
 * sweep of less.
 */
export function worthSweeping({sweepFeePercent}: Pick<CommonSettings, 'sweepFeePercent'>, fee: bigint): bigint {
  const percent = BigInt(sweepFeePercent)
  return fee + (fee * 100n + percent - 1n) / percent
}

/**
 * Whether moving an amount of the chain's coin brings enough for the highest fee that it may cost. Custody signs no
 * other sweep.
 */
export const isWorthItsFee = (
  {sweepFeePercent}: Pick<CommonSettings, 'sweepFeePercent'>,
  {amount, maxFee}: {amount: bigint; maxFee: bigint},
): boolean => amount > 0n && maxFee * 100n <= BigInt(sweepFeePercent) * amount

/** The amounts, that of the chain's coin not below `least`. */
export const coinAtLeast = (
  least: bigint,
  amounts: Map<string, bigint>,
  {assets: [{token}]}: Pick<Chain, 'assets'>,
): Map<string, bigint> => new Map(amounts).set(token, most(least, amounts.get(token)!))

/** The given amounts, and the default amount for each other asset. */
export function withUsual<A extends Asset>(
  assets: readonly A[],
  given: Map<string, bigint>,
  usual: (asset: A) => bigint | undefined,
): Map<string, bigint> {
  const amounts = assets.map(asset => [asset.token, given.get(asset.token) ?? usual(asset)] as const)
  return new Map(amounts.filter((pair): pair is readonly [string, bigint] => pair[1] !== undefined))
}

/** Reads amounts in whole coins, such as ETH:5,USDC:10000, as base units by token. */
export function amounts(chain: Chain) {
  const known = chain.assets.map(({token}) => token)
  const example = known.map((token, index) => `${token}:${index ? '10000' : '0.5'}`).join(',')
  return z.string().transform((text, context) => {
    const found = readAmounts(chain, text)
    if (typeof found !== 'string') return found
    context.addIssue(
      `must be amounts in whole coins, one for each token of ${chain.code} at most (${known.join(', ')}), such as ${example}; ${found}`,
    )
    return z.NEVER
  })
}

/** The amounts, or what is wrong with a part. */
function readAmounts(chain: Chain, text: string): Map<string, bigint> | string {
  const found = new Map<string, bigint>()
  for (const part of text.split(',')) {
    const [, token = '', amount = ''] = /^([^:]+):(.*)$/s.exec(part) ?? []
    const asset = chain.assets.find(asset => asset.token === token)
    if (!asset) return `${quoted(part)} names no token of it`
    if (found.has(token)) return `${token} is named twice`
    const units = unitsOf(amount, asset.decimals)
    if (units === undefined) return `${quoted(amount)} is no amount of ${token}, which has ${asset.decimals} decimals`
    found.set(token, units)
  }
  return found
}

/**
 * An amount in whole coins, such as 0.5, converted to base units; undefined if it is not an amount or has too many
 * decimals.
 */
export function unitsOf(amount: string, decimals: number): bigint | undefined {
  const [, coins, fraction = ''] = /^(\d{1,30})(?:\.(\d+))?$/.exec(amount) ?? []
  if (coins === undefined || fraction.length > decimals) return undefined
  return BigInt(coins + fraction.padEnd(decimals, '0'))
}

/** Reads an amount of the native coin in whole coins, such as 0.5, as base units. */
export function coins(chain: Chain, usual: string) {
  const {token, decimals} = chain.assets[0]
  return z
    .string()
    .default(usual)
    .transform((text, context) => {
      const found = unitsOf(text, decimals)
      if (found !== undefined) return found
      context.addIssue(
        `must be an amount of ${token} in whole coins, with at most ${decimals} decimals, such as ${usual}`,
      )
      return z.NEVER
    })
}
