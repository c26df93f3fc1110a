// What transactions of Tron cost, and how much of an address can be swept. Promises: no I/O. Nothing in a transaction
// limits its fee, so nothing is begun while the network asks for more than the operator's settings allow.
import type {Prices} from '../../../chains/tron/client.ts'
import type {TronSettings} from '../../../chains/tron/settings.ts'
import {
  encodeTransaction,
  largestAmount,
  reference,
  transactionOf,
  transferData,
} from '../../../chains/tron/transaction.ts'

/** A node counts as many more bytes of each transaction, for its result. */
const resultBytes = 64

/** A payment of the largest amount: no payment has more bytes that are paid for. */
export const transferBytes = BigInt(largest().length + resultBytes)

function largest(): Uint8Array {
  const [from, to] = ['TWer2Ygk5TEheHp3TPuYeqxmB6SsGZmaL6', 'TPjjvMwjPoDC32V2dGDYTkLH4E5LAtBZ6C'] // any two
  const frame = {...reference(0, '00'.repeat(32)), expiration: Date.now(), timestamp: Date.now()}
  return encodeTransaction(transactionOf(transferData(frame, {from, to, amount: largestAmount}), [new Uint8Array(65)]))
}

/** What its bytes cost a transaction that has none for nothing. */
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
