// Payments of Solana, from and to bytes: a legacy message that transfers lamports, and says what its place in a block
// is worth. Promises: equal payments have equal bytes, and these are the only bytes of the payment; what a payment is
// read as is all that its signature covers. Nothing else is read: blocks come as JSON.
//
// Every array here has fewer than 128 items, so that its length (a compact-u16) is one byte.
import {fromBase58, toBase58} from '../base58.ts'
import {addressOf, bytesOf, computeBudgetProgram, systemProgram} from './address.ts'

/** The last block that may hold a transaction is this many above the one that the transaction names. */
export const lifetimeBlocks = 151 // a hash is valid for 150, and its age is counted up to the parent
/**
 * The longest that a block takes, if leaders miss no more of their slots than the margin of every lifetime allows for.
 */
export const blockMs = 400

/** What a signature costs, in lamports. */
export const signatureFee = 5000n
/** What the signatures cost of a payment whose fee somebody else pays. */
export const twoSignaturesFee = 2n * signatureFee

/** The largest u64: a larger amount would be written as another one. */
export const largestAmount = 2n ** 64n - 1n

export interface Payment {
  /** It signs. */
  from: string
  to: string
  /**
   * Who pays the fee: `from`, or `to`, which signs, too. Only then may nothing be left at `from`: who pays a fee must
   * keep the rent until it is paid.
   */
  feePayer: string
  /** In lamports. */
  amount: bigint
  /** The hash of a recent block. */
  blockhash: string
  /**
   * How much the transaction may compute; it needs 450 units. Payments that are equal otherwise need different limits:
   * only one of equal messages pays.
   */
  computeUnitLimit: number
  /**
   * What is paid for its place in a block, in lamports, on top of the signature. The limit does not change it: a
   * message names a price for each unit, and it is the price that makes this fee. Leaders sort by the fee over all that
   * a transaction costs them, some 17,700 units besides the limit.
   */
  priorityFee: bigint
}

/** A payment as it is broadcast. */
export interface SignedPayment extends Payment {
  /** The first signature in base58. */
  txid: string
  /** In the order of signersOf. */
  signatures: Uint8Array[]
}

/** Who signs a payment, in the order of their signatures: first who pays the fee. */
export const signersOf = ({from, feePayer}: Pick<Payment, 'from' | 'feePayer'>): string[] =>
  feePayer === from ? [from] : [feePayer, from]

/** Prices are in micro-lamports, and fees are rounded up to lamports. */
const microLamports = 1_000_000n
/** With a higher one, there would be fees that no price makes. */
const highestLimit = 1_000_000

/** The bytes that are signed. */
export function messageOf(payment: Payment): Buffer {
  const {from, to, feePayer, amount, blockhash, computeUnitLimit: limit, priorityFee} = payment
  if (amount < 0n || amount > largestAmount) throw new RangeError(`a transaction cannot move ${amount} lamports`)
  if (limit < 1 || limit > highestLimit) throw new RangeError(`${limit} is no limit of compute units`)
  if (feePayer !== from && feePayer !== to) throw new RangeError(`${feePayer} cannot pay the fee of others`)
  const signers = signersOf(payment)
  const accounts = [...new Set([...signers, from, to, systemProgram, computeBudgetProgram])]
  if (accounts.length < 4) throw new RangeError(`${from} cannot pay ${to}`)
  return Buffer.concat([
    Uint8Array.of(signers.length, 0, 2), // all signers can be written; of the other accounts, the last two cannot
    Uint8Array.of(accounts.length),
    ...accounts.map(bytesOf),
    hashBytes(blockhash),
    Uint8Array.of(3),
    instruction(3, [], Uint8Array.of(2), u32(limit)), // SetComputeUnitLimit
    instruction(3, [], Uint8Array.of(3), u64((priorityFee * microLamports) / BigInt(limit))), // SetComputeUnitPrice
    instruction(2, [accounts.indexOf(from), accounts.indexOf(to)], u32(2), u64(amount)), // Transfer
  ])
}

/** The whole transaction in hex. */
export function rawOf(message: Uint8Array, signatures: Uint8Array[]): string {
  return Buffer.concat([Uint8Array.of(signatures.length), ...signatures, message]).toString('hex')
}

/**
 * The payment in a transaction, given in hex. Throws RangeError if it is not what rawOf makes of one. The signature is
 * not checked.
 */
export function parsePayment(raw: string): SignedPayment {
  const bytes = Buffer.from(raw, 'hex')
  const signers = bytes[0] ?? 0
  if (signers < 1 || signers > 2 || bytes.length !== 1 + signers * signatureBytes + messageBytes)
    throw new RangeError('the bytes are no payment')
  const message = bytes.subarray(1 + signers * signatureBytes)
  const signatures = Array.from({length: signers}, (_, i) =>
    bytes.subarray(1 + i * signatureBytes).subarray(0, signatureBytes),
  )
  const account = (i: number) => addressOf(message.subarray(at.accounts + 32 * i).subarray(0, 32))
  const [first, second] = [account(0), account(1)]
  const limit = message.readUInt32LE(at.limit)
  const payment: Payment = {
    ...(signers === 1 ? {from: first, to: second} : {from: second, to: first}),
    feePayer: first,
    amount: message.readBigUInt64LE(at.amount),
    blockhash: toBase58(message.subarray(at.blockhash, at.blockhash + 32)),
    computeUnitLimit: limit,
    priorityFee: feeAt(message.readBigUInt64LE(at.price), limit),
  }
  if (rawOf(messageOf(payment), signatures) !== raw) throw new RangeError('the bytes are no payment')
  return {...payment, txid: toBase58(signatures[0]!), signatures}
}

/** Where in a message what differs between payments is. */
const at = {accounts: 4, blockhash: 132, limit: 169, price: 177, amount: 194}
const messageBytes = 202
const signatureBytes = 64

const feeAt = (price: bigint, limit: number) => (price * BigInt(limit) + microLamports - 1n) / microLamports

function hashBytes(blockhash: string): Buffer {
  const bytes = fromBase58(blockhash)
  if (bytes?.length !== 32) throw new RangeError(`${blockhash} is no hash of a block`)
  return bytes
}

/** The program and its accounts are given by their places in the message. */
function instruction(program: number, accounts: number[], ...data: Uint8Array[]): Buffer {
  const bytes = Buffer.concat(data)
  return Buffer.concat([Uint8Array.of(program, accounts.length, ...accounts, bytes.length), bytes])
}

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(value)
  return bytes
}

/** Throws RangeError if it does not fit. */
function u64(value: bigint): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(value)
  return bytes
}
