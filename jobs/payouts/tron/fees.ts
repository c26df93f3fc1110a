// What transactions of Tron cost. Promises: no I/O. Nothing in a transaction limits what its bytes cost, so nothing is
// begun while the network asks for more than the operator's settings allow. What the energy of a transfer of a token
// costs is limited by the transaction itself (fee_limit).
import {least} from '../../../base/bigints.ts'
import {mostTokenBytesFee, transferBytes} from '../../../chains/tron/bytes.ts'
import type {Prices} from '../../../chains/tron/client.ts'
import type {TronSettings} from '../../../chains/tron/settings.ts'

/** A contract may need more when it is called than when that was tried: a busy one costs more each period. */
const roomPercent = 25n
/** Assumed before a transfer was tried: of USDT to a holder, on the main network. */
export const assumedEnergy = 65_000n
/**
 * A recipient that gives all its tokens away meanwhile costs twice as much. What is not used is not burnt, so the limit
 * of a payment covers that, as far as the settings allow.
 */
const newHolder = 2n

/** What its bytes cost a payment of TRX that has none for nothing. */
export const bandwidthFee = ({byte}: Prices): bigint => transferBytes * byte

/** Why nothing is begun now; undefined if it may be. */
export function tooDear(settings: TronSettings, prices: Prices): string | undefined {
  const {chain, maxSweepFee, maxPaymentFee} = settings
  const bandwidth = bandwidthFee(prices)
  if (bandwidth > maxSweepFee)
    return `the bytes of a sweep cost ${bandwidth} sun now; ${chain.code}_MAX_SWEEP_FEE allows ${maxSweepFee}`
  const dearest = bandwidth > prices.activation ? 'its bytes' : 'a new account'
  const fee = dearest === 'its bytes' ? bandwidth : prices.activation
  if (fee <= maxPaymentFee) return undefined
  return `a payment may cost ${fee} sun now, for ${dearest}; ${chain.code}_MAX_PAYMENT_FEE allows ${maxPaymentFee}`
}

/** The limits of what the energy of a transfer may burn, in sun. */
export interface EnergyFee {
  /** What it burns if nothing changes. */
  expected: bigint
  /** What it is given. */
  limit: bigint
}

/** `energy`: what a transfer of a token used when it was tried. */
export function sweepEnergyFee(energy: bigint, {energy: price}: Prices): EnergyFee {
  return {expected: energy * price, limit: withRoom(energy * price)}
}

/** Undefined if TRON_TOKEN_PAYMENT_FEE does not allow it. */
export function paymentEnergyFee(
  settings: TronSettings,
  energy: bigint,
  {energy: price}: Prices,
): EnergyFee | undefined {
  const most = settings.tokenPaymentFee - mostTokenBytesFee(settings)
  const [atLeast, wanted] = [withRoom(energy * price), withRoom(energy * price * newHolder)]
  if (atLeast > most) return undefined
  return {expected: energy * price, limit: least(wanted, most)}
}

/** The most that a payment of a token costs, in sun: what its energy may burn, and its bytes. */
export const feeOfPayment = (settings: TronSettings, {limit}: EnergyFee): bigint => limit + mostTokenBytesFee(settings)

/** With room for a contract that needs more meanwhile. */
export const withRoom = (amount: bigint): bigint => amount + (amount * roomPercent + 99n) / 100n
