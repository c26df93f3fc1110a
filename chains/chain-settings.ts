// The settings that every chain has, whatever its family.
import {z} from 'zod'
import {milliseconds, whole} from '../base/variables.ts'
import type {Asset, Chain} from './registry.ts'

export interface CommonSettings<C extends Chain = Chain> {
  family: C['family']
  chain: C
  /** First block to read, at the first start; absent: as indexers/start.ts finds it. */
  startHeight?: number
  stallTimeoutMs: number
  /** By token, in base units; what is absent has no limit, or is not done. */
  payoutLimit: Map<string, bigint>
  dailyLimit: Map<string, bigint>
  /** Addresses that hold at least this are swept without a payout. */
  collectAbove: Map<string, bigint>
  /** The smallest net amount of a payout of each asset. */
  minPayout: Map<string, bigint>
  /** What the fees of all that custody signs in a day (UTC) may come to, in the native coin's base units. */
  feeBudget: bigint
  /** What a sweep of the native coin may cost, in percent of what it moves. */
  sweepFeePercent: number
}

/** Heights are integers of Postgres. */
const highest = 2 ** 31 - 1

/** Their variables, to be joined with those of the chain's family. */
export function commonVariables(chain: Chain) {
  return {
    START_HEIGHT: whole(0, highest, 8_000_000).optional(),
    STALL_TIMEOUT_MS: milliseconds(1, chain.stallTimeoutMs).default(chain.stallTimeoutMs),
    PAYOUT_LIMIT: amounts(chain).default(() => new Map()),
    DAILY_LIMIT: amounts(chain).default(() => new Map()),
    COLLECT_ABOVE: amounts(chain).default(() => new Map()),
    MIN_PAYOUT: amounts(chain).default(() => new Map()),
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
    feeBudget: given.FEE_BUDGET,
    sweepFeePercent: given.SWEEP_FEE_PERCENT,
  }
}

/** Never less than the chain carries. */
function minPayoutOf({token, minPayout = 1n, usualMinPayout}: Asset, given: Map<string, bigint>): bigint {
  const wanted = given.get(token) ?? usualMinPayout
  return wanted < minPayout ? minPayout : wanted
}

/** What is given, and of each asset that it does not name the usual amount. */
export function withUsual<A extends Asset>(
  assets: readonly A[],
  given: Map<string, bigint>,
  usual: (asset: A) => bigint | undefined,
): Map<string, bigint> {
  const amounts = assets.map(asset => [asset.token, given.get(asset.token) ?? usual(asset)] as const)
  return new Map(amounts.filter((pair): pair is readonly [string, bigint] => pair[1] !== undefined))
}

/** Amounts in whole coins, such as ETH:5,USDC:10000, as base units by token. */
export function amounts(chain: Chain) {
  const known = chain.assets.map(({token}) => token)
  const example = known.map((token, index) => `${token}:${index ? '10000' : '0.5'}`).join(',')
  return z.string().transform((text, context) => {
    const found = readAmounts(chain, text)
    if (found) return found
    context.addIssue(
      `must be amounts in whole coins, each once, of what ${chain.code} has (${known.join(', ')}), such as ${example}`,
    )
    return z.NEVER
  })
}

/** Undefined where a part is no amount, or of no token of the chain, or has more decimals than the token, or a token comes twice. */
function readAmounts(chain: Chain, text: string): Map<string, bigint> | undefined {
  const found = new Map<string, bigint>()
  for (const part of text.split(',')) {
    const [, token = '', amount = ''] = /^([^:]+):(.*)$/s.exec(part) ?? []
    const asset = chain.assets.find(asset => asset.token === token)
    const units = asset && unitsOf(amount, asset.decimals)
    if (units === undefined || found.has(token)) return undefined
    found.set(token, units)
  }
  return found
}

/** An amount of whole coins, such as 0.5, in base units; undefined where it is none, or has more decimals. */
export function unitsOf(amount: string, decimals: number): bigint | undefined {
  const [, coins, fraction = ''] = /^(\d{1,30})(?:\.(\d+))?$/.exec(amount) ?? []
  if (coins === undefined || fraction.length > decimals) return undefined
  return BigInt(coins + fraction.padEnd(decimals, '0'))
}

/** An amount of the native coin, in whole coins, such as 0.5, as base units. */
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
