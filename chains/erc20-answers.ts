// What can be asked of any contract of a token (EIP-20) before an operator adds it, on every chain whose contracts have
// Ethereum's ABI, and what the answers mean. Promises: no I/O. A token that cannot be paid out exactly is refused in
// words. An answer is in hex, with 0x; undefined if the contract refused the question.
import {type Hex, hexToString, toFunctionSelector} from 'viem'
import {PermanentError} from '../base/errors.ts'
import {possibleDecimals, tokenNames} from './contract-tokens.ts'

export const call = (signature: string, words = '') => `${toFunctionSelector(signature)}${words}` as Hex
export const somebody = '1'.padStart(64, '0')

export const questions = {
  name: call('name()'),
  symbol: call('symbol()'),
  decimals: call('decimals()'),
  paused: call('paused()'),
  isBlacklisted: call('isBlacklisted(address)', somebody),
  isBlackListed: call('isBlackListed(address)', somebody),
  feeRate: call('basisPointsRate()'),
  // Of tokens whose balances change by themselves: stETH and its kind, Aave's, OUSD's, AMPL's.
  shares: call('sharesOf(address)', somebody),
  scaled: call('scaledBalanceOf(address)', somebody),
  credits: call('rebasingCreditsPerToken()'),
  scaledSupply: call('scaledTotalSupply()'),
} as const
export type Answers = {[name in keyof typeof questions]: Hex | undefined}

/** What the contract says of itself. */
export interface SaidOfToken {
  name: string | undefined
  symbol: string | undefined
  decimals: number
  isPaused: boolean
  /** Whether its issuer can stop all transfers, or an address. */
  canPause: boolean
  canFreeze: boolean
}

/** Throws PermanentError if the token cannot be paid out exactly, by what it says. */
export function saidOfToken(answers: Answers, contract: string): SaidOfToken {
  const decimals = decimalsOf(answers, contract)
  const {shares, scaled, credits, scaledSupply, feeRate, paused, isBlacklisted, isBlackListed} = answers
  if ([shares, scaled, credits, scaledSupply].some(isWord))
    throw new PermanentError(
      `the balances of ${contract} change by themselves (it knows shares or scaled balances): no deposit of it could be paid out exactly; take its wrapped form, if there is one`,
    )
  if (isTrue(feeRate))
    throw new PermanentError(
      `${contract} takes a fee on transfers at the moment: what is paid out would not arrive exactly`,
    )
  return {
    name: textOf(answers.name),
    symbol: textOf(answers.symbol),
    decimals,
    isPaused: isTrue(paused),
    canPause: isWord(paused),
    canFreeze: isWord(isBlacklisted) || isWord(isBlackListed),
  }
}

function decimalsOf({decimals}: Answers, contract: string): number {
  if (!isWord(decimals))
    throw new PermanentError(
      `${contract} does not say its decimals(), so it is no token; look the address up at the token's issuer`,
    )
  return possibleDecimals(contract, BigInt(decimals))
}

/**
 * Throws PermanentError if another amount than was sent would arrive of a transfer that was tried, both in base units.
 */
export function refuseInexact(contract: string, sent: bigint, arrived: bigint): void {
  if (arrived < sent)
    throw new PermanentError(`${contract} takes a fee on transfers: of a transfer, less arrives than was sent`)
  if (arrived > sent)
    throw new PermanentError(
      `by what ${contract} says of a transfer, more arrives than was sent: deposits would be credited wrong`,
    )
}

/** What the contract says, and what its issuer can do with it, for people. */
export function factsOf({name, symbol, decimals, isPaused, canPause, canFreeze}: SaidOfToken, more: string[] = []) {
  const powers = [...(canPause ? ['stop all transfers'] : []), ...(canFreeze ? ['freeze an address'] : []), ...more]
  return {
    'the contract says': `${name ?? 'no name'}, ${symbol ?? 'no symbol'}, ${decimals} decimals${isPaused ? '; it is paused now' : ''}`,
    'its issuer can': powers.join(', ') || 'nothing that it shows',
  }
}

export const notTried = (why: string) => `was not tried: ${why}; whether it takes a fee is not known`

// --- answers ---

export const isWord = (answer: Hex | undefined): answer is Hex => answer?.length === 66
const isTrue = (answer: Hex | undefined) => isWord(answer) && BigInt(answer) !== 0n

/** A string as the ABI encodes it, or 32 bytes that end in zeros, as old tokens have it; undefined if it is no text. */
export function textOf(answer: Hex | undefined): string | undefined {
  if (!answer || answer.length < 66) return undefined
  const words = answer.slice(2)
  const length =
    words.length >= 128 && BigInt(`0x${words.slice(0, 64)}`) === 32n
      ? Number(BigInt(`0x${words.slice(64, 128)}`))
      : undefined
  const bytes = length === undefined ? words.slice(0, 64).replace(/(00)+$/, '') : words.slice(128, 128 + 2 * length)
  const text = hexToString(`0x${bytes}`)
  return tokenNames.displayName.pattern.test(text) && !text.includes('\ufffd') ? text : undefined
}
