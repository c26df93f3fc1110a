// What is alike wherever tokens have contracts: an address that a token does not let go, and a token of which less
// arrives than was sent.
import {inWords} from '../../../db/client/failure.ts'
import {type Context, retryMs, type Wait} from '../context.ts'
import type {Payment} from './rules.ts'

/** If that fails, its sweep is given up all the same: it would hold up everybody's payments. */
export async function blockAddress(
  to: Context,
  chain: string,
  {token, address}: {token: string; address: string},
  why: string,
): Promise<void> {
  try {
    const sql = 'select app.block_address($1, $2, $3, $4) as is_blocked'
    const {rows} = await to.pool.query<{is_blocked: boolean}>(sql, [chain, token, address, why])
    if (rows[0]!.is_blocked) to.log.warn({chain, token}, 'an address is blocked')
  } catch (error) {
    to.log.error({chain, token, error: inWords(error)}, 'an address could not be blocked')
  }
}

/** The wait while an incident says that a token takes a fee. */
export async function openFeeIncident({pool}: Context, chain: string, token: string): Promise<Wait | undefined> {
  const {rows} = await pool.query<{incident: string | null}>('select app.fee_incident($1, $2) as incident', [
    chain,
    token,
  ])
  const {incident} = rows[0]!
  return incident === null
    ? undefined
    : waitForFee(`less of ${token} arrived than was sent: incident ${incident} is open`)
}

/** Of `amount` base units that would be sent, so many would arrive. */
export const takesFeeNow = (token: string, amount: bigint, arrived: bigint): Wait =>
  waitForFee(
    arrived > 0n && arrived < amount
      ? `of ${amount} base units of ${token}, ${arrived} would arrive: its contract takes a fee`
      : `of ${amount} base units of ${token}, ${arrived} would arrive by the events of its contract, which do not say what it does`,
  )

const waitForFee = (detail: string): Wait => ({reason: 'token_takes_fee', detail, ms: retryMs.told})

/** The wait while the contract of a token would let nothing go. */
export const tokenRefused = (token: string, words: string): Wait => {
  return {reason: 'token_refused', detail: ofToken(token, words), ms: retryMs.told}
}

export const ofToken = (token: string, words: string) =>
  `the contract of ${token} refuses every sweep now, or the treasury: ${words}`

/** What says that the treasury has less on the chain than a payment; undefined if it has enough. */
export const treasuryLacks = ({token, amount}: Pick<Payment, 'token' | 'amount'>, holds: bigint): string | undefined =>
  holds < amount
    ? `the treasury holds ${holds} base units of ${token} on the chain, and the payment is ${amount}; sluice audit says what is missing`
    : undefined
