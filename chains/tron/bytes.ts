// How many bytes the transactions that Sluice makes have, and what they may cost. Promises: no I/O; no transaction of a
// kind has more bytes that are paid for. Nothing in a transaction limits what its bytes cost, so the settings say what
// is counted: TRON_MAX_SWEEP_FEE allows a price for each byte, which holds for every kind.
import type {TronSettings} from './settings.ts'
import {transferData as tokenTransferData} from './token-transfers.ts'
import {
  callData,
  encodeTransaction,
  largestAmount,
  reference,
  stakingData,
  transactionOf,
  transferData,
} from './transaction.ts'

/** A node counts as many more bytes of each transaction, for its result. */
const resultBytes = 64
/** A signature has 65. */
const signature = new Uint8Array(65)
/** Any two addresses. */
const [from, to] = ['TWer2Ygk5TEheHp3TPuYeqxmB6SsGZmaL6', 'TPjjvMwjPoDC32V2dGDYTkLH4E5LAtBZ6C']
const frame = {...reference(0, '00'.repeat(32)), expiration: Date.UTC(2100), timestamp: Date.UTC(2100)}

const bytesOf = (rawData: Uint8Array) =>
  BigInt(encodeTransaction(transactionOf(rawData, [signature])).length + resultBytes)

/** Of a payment of TRX. */
export const transferBytes = bytesOf(transferData(frame, {from, to, amount: largestAmount}))

/** Of a transfer of a token. */
export const tokenTransferBytes = bytesOf(
  callData(
    {...frame, feeLimit: largestAmount},
    {from, contract: to, value: 0n, data: Buffer.from(tokenTransferData(to, 0n), 'hex')},
  ),
)

const stake = {owner: from, amount: largestAmount, resource: 'energy'} as const

/** Of a delegate: nothing else that is done with a stake has more. */
export const stakingBytes = bytesOf(stakingData(frame, {...stake, kind: 'delegate', receiver: to}))

/** What the bytes of a transfer of a token may cost, in sun, at the price that the settings allow. */
export const mostTokenBytesFee = (settings: Limit): bigint => mostFee(settings, tokenTransferBytes)

/** The same of what is done with a stake. */
export const mostStakingFee = (settings: Limit): bigint => mostFee(settings, stakingBytes)

type Limit = Pick<TronSettings, 'maxSweepFee'>
const mostFee = ({maxSweepFee}: Limit, bytes: bigint) => (maxSweepFee * bytes + transferBytes - 1n) / transferBytes
