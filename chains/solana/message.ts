// Payments of Solana, from and to bytes: a legacy message that transfers lamports or a token, and says what its place
// in a block is worth. Promises: equal payments have equal bytes, and these are the only bytes of the payment; what a
// payment is read as is all that its signature covers. Nothing else is read: blocks come as JSON.
//
// Every array here has fewer than 128 items, so that its length (a compact-u16) is one byte.
import {fromBase58, toBase58} from '../base58.ts'
import {addressOf, associatedTokenProgram, bytesOf, computeBudgetProgram, systemProgram} from './address.ts'

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
  /** Of a token: the token account that gets it. */
  to: string
  /**
   * Who pays the fee, and signs, too: `from`, or anybody for a token, and `to` for lamports. Only then may no lamports
   * be left at `from`: who pays a fee must keep the rent until it is paid.
   */
  feePayer: string
  /** In lamports, or base units of the token. */
  amount: bigint
  /** The hash of a recent block. */
  blockhash: string
  /**
   * How much the transaction may compute: lamports need 450 units. Payments that are equal otherwise need different
   * limits: only one of equal messages pays.
   */
  computeUnitLimit: number
  /**
   * What is paid for its place in a block, in lamports, on top of the signature. The limit does not change it: a
   * message names a price for each unit, and it is the price that makes this fee. Leaders sort by the fee over all that
   * a transaction costs them, some 17,700 units besides the limit.
   */
  priorityFee: bigint
  /** Absent: lamports. */
  token?: TokenTransfer
}

/** A transfer of a token of the Token program, or of Token-2022 (TransferChecked). */
export interface TokenTransfer {
  program: string
  mint: string
  decimals: number
  /** The token account of `from` that it leaves. */
  fromAccount: string
  /**
   * `to` is the associated account of this wallet, and is made first if it is not there; who pays the fee pays for it.
   * Absent: it is there.
   */
  madeFor?: string
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

const microLamports = 1_000_000n
/** A priority fee has an exact price for each unit up to this limit. The network allows more than a payment needs. */
const highestLimit = 1_000_000

/** The bytes that are signed. */
export function messageOf(payment: Payment): Buffer {
  const {from, to, feePayer, amount, blockhash, computeUnitLimit: limit, priorityFee, token} = payment
  if (amount < 0n || amount > largestAmount) throw new RangeError(`a transaction cannot move ${amount} base units`)
  if (limit < 1 || limit > highestLimit) throw new RangeError(`${limit} is no limit of compute units`)
  if (!token && feePayer !== from && feePayer !== to) throw new RangeError(`${feePayer} cannot pay the fee of others`)
  const moved = token ? tokenInstructions(payment, token) : [transferOf(payment)]
  const told = [computeBudgetProgram, ...moved.map(({program}) => program)]
  if (from === to || token?.fromAccount === to || told.some(program => program === from || program === to))
    throw new RangeError(`${from} cannot pay ${to}`)
  const {header, accounts} = layoutOf(payment, moved)
  const instruction = ({program, accounts: places, data}: Instruction) => {
    const at = places.map(({address}) => accounts.indexOf(address))
    return join(Uint8Array.of(accounts.indexOf(program), at.length, ...at, data.length), data)
  }
  return Buffer.concat([
    header,
    Uint8Array.of(accounts.length),
    ...accounts.map(bytesOf),
    hashBytes(blockhash),
    Uint8Array.of(2 + moved.length),
    instruction(budget(2, u32(limit))), // SetComputeUnitLimit
    instruction(budget(3, u64((priorityFee * microLamports) / BigInt(limit)))), // SetComputeUnitPrice
    ...moved.map(instruction),
  ])
}

/**
 * The accounts: those that sign, those that are written, those that are only read; and how many each are. Who signs for
 * a token, and pays no fee, is only read.
 */
function layoutOf(payment: Payment, moved: Instruction[]): {header: Uint8Array; accounts: string[]} {
  const signers = signersOf(payment)
  const places = moved.flatMap(({accounts}) => accounts).filter(({address}) => !signers.includes(address))
  const written = unique(places.filter(({isWritable}) => isWritable).map(({address}) => address))
  const programs = [computeBudgetProgram, ...moved.map(({program}) => program)]
  const read = unique([...places.map(({address}) => address), ...programs]).filter(each => !written.includes(each))
  const readSigners = payment.token ? signers.length - 1 : 0
  return {
    header: Uint8Array.of(signers.length, readSigners, read.length),
    accounts: [...signers, ...written, ...read],
  }
}

interface Place {
  address: string
  isWritable: boolean
}

interface Instruction {
  program: string
  accounts: Place[]
  data: Buffer
}

const writable = (address: string): Place => ({address, isWritable: true})
const readonly = (address: string): Place => ({address, isWritable: false})

const budget = (tag: number, data: Buffer): Instruction => {
  return {program: computeBudgetProgram, accounts: [], data: join(Uint8Array.of(tag), data)}
}

const transferTag = 2
const transferOf = ({from, to, amount}: Payment): Instruction => ({
  program: systemProgram,
  accounts: [writable(from), writable(to)],
  data: join(u32(transferTag), u64(amount)),
})

/** CreateIdempotent of the Associated Token Account program, which checks whose account it is. */
const createTag = 1
const transferCheckedTag = 12

function tokenInstructions({from, to, feePayer, amount}: Payment, token: TokenTransfer): Instruction[] {
  const {program, mint, decimals, fromAccount, madeFor} = token
  const transfer = {
    program,
    accounts: [writable(fromAccount), readonly(mint), writable(to), readonly(from)],
    data: join(Uint8Array.of(transferCheckedTag), u64(amount), Uint8Array.of(decimals)),
  }
  if (madeFor === undefined) return [transfer]
  const made = [writable(feePayer), writable(to), ...[madeFor, mint, systemProgram, program].map(readonly)]
  return [{program: associatedTokenProgram, accounts: made, data: Buffer.of(createTag)}, transfer]
}

/** In the order of their texts. */
const unique = (addresses: string[]) => [...new Set(addresses)].sort()
const join = (...bytes: Uint8Array[]) => Buffer.concat(bytes)

/** The whole transaction in hex. */
export function rawOf(message: Uint8Array, signatures: Uint8Array[]): string {
  return Buffer.concat([Uint8Array.of(signatures.length), ...signatures, message]).toString('hex')
}

/**
 * The payment in a transaction, given in hex. Throws RangeError if it is not what rawOf makes of one. The signature is
 * not checked.
 */
export function parsePayment(raw: string): SignedPayment {
  const bytes = new Bytes(Buffer.from(raw, 'hex'))
  const signatures = bytes.list(() => bytes.take(signatureBytes))
  bytes.take(3) // how many sign, and how many of them and of the others are not written
  const accounts = bytes.list(() => addressOf(bytes.take(32)))
  const blockhash = toBase58(bytes.take(32))
  const instructions = bytes.list(() => readInstruction(bytes, accounts))
  const [ofLimit, ofPrice, ...moved] = instructions
  if (!ofLimit || !ofPrice) throw noPayment()
  const [limit, offered] = [ofLimit.data.readUInt32LE(1), ofPrice.data.readBigUInt64LE(1)]
  const payment: Payment = {
    ...movedBy(moved),
    feePayer: accounts[0]!,
    blockhash,
    computeUnitLimit: limit,
    priorityFee: feeAt(offered, limit),
  }
  if (rawOf(messageOf(payment), signatures) !== raw) throw noPayment()
  return {...payment, txid: toBase58(signatures[0]!), signatures}
}

function movedBy(moved: Instruction[]): Pick<Payment, 'from' | 'to' | 'amount' | 'token'> {
  const {program, accounts, data} = moved.at(-1) ?? none
  const [first, second, third, fourth] = accounts.map(({address}) => address)
  if (!first || !second) throw noPayment()
  if (program === systemProgram) return {from: first, to: second, amount: data.readBigUInt64LE(4)}
  if (!third || !fourth) throw noPayment()
  const madeFor = moved.length > 1 ? moved[0]!.accounts[2]?.address : undefined
  const token = {program, mint: second, decimals: data.readUInt8(9), fromAccount: first}
  const amount = data.readBigUInt64LE(1)
  return {from: fourth, to: third, amount, token: {...token, ...(madeFor !== undefined && {madeFor})}}
}

function readInstruction(bytes: Bytes, accounts: string[]): Instruction {
  const account = () => {
    const found = accounts[bytes.take(1)[0]!]
    if (found === undefined) throw noPayment()
    return found
  }
  const program = account()
  const places = bytes.list(() => readonly(account()))
  return {program, accounts: places, data: bytes.take(bytes.take(1)[0]!)}
}

const noPayment = () => new RangeError('the bytes are no payment')
const none: Instruction = {program: systemProgram, accounts: [], data: Buffer.alloc(0)}
const signatureBytes = 64

/** Bytes that are read from first to last. */
class Bytes {
  readonly #bytes: Buffer
  #at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  take(count: number): Buffer {
    const taken = this.#bytes.subarray(this.#at, this.#at + count)
    if (taken.length !== count) throw noPayment()
    this.#at += count
    return taken
  }

  /** At least one. */
  list<T>(read: () => T): T[] {
    const [count] = this.take(1)
    return Array.from({length: count!}, read)
  }
}

const feeAt = (offered: bigint, limit: number) => (offered * BigInt(limit) + microLamports - 1n) / microLamports

function hashBytes(blockhash: string): Buffer {
  const bytes = fromBase58(blockhash)
  if (bytes?.length !== 32) throw new RangeError(`${blockhash} is no hash of a block`)
  return bytes
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
