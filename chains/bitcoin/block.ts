// Parses raw blocks, headers and transactions, and checks the proofs between them. Promises: ids and hashes are
// computed from the bytes, so the result is what the chain committed to (except witnesses: neither a transaction's id
// nor a block's merkle root covers them). Bytes that end too early or too late are refused. This code is fast, because
// it reads every byte of every block.
import {sha256d} from './script.ts'

/** The bytes are invalid: their sender is broken or lies. */
export class MalformedError extends Error {
  override name = 'MalformedError'
}

export interface BlockHeader {
  hash: string
  parentHash: string
  merkleRoot: string
  time: Date
  /** The target that its hash must not exceed, in compact form. */
  bits: number
}

export interface TransactionInput {
  /** The output that it spends; for a coinbase: 32 zero bytes and 4294967295. */
  outpoint: string
  scriptSig: Uint8Array
  /** Empty if it has none; only the beginning of a long one. */
  witness: Uint8Array[]
}

export interface TransactionOutput {
  script: Uint8Array
  /** In sat. */
  value: bigint
}

export interface Transaction {
  txid: string
  inputs: TransactionInput[]
  outputs: TransactionOutput[]
  /** The number of bytes without witnesses. The id is the hash of these bytes. */
  strippedSize: number
}

export interface Block {
  header: BlockHeader
  transactions: Transaction[]
}

const headerSize = 80
/** The output that a coinbase names as its input. */
const coinbaseOutpoint = `${'00'.repeat(32)}:4294967295`
/** The text that stands for the sender of newly mined coins. */
export const coinbaseSender = 'coinbase'
/** The size of inner nodes of the merkle tree. A transaction of this size can pose as one. */
const nodeSize = 64
/**
 * Witnesses with more items than a signature and a key are not read: a block may have millions of empty items, and each
 * would be an object.
 */
const witnessItemsKept = 3
/** A block of 4 MB has at most 2^17 transactions. */
const proofLengthMax = 20

export function isCoinbase({inputs}: Transaction): boolean {
  return inputs.length === 1 && inputs[0]!.outpoint === coinbaseOutpoint
}

/** Parses a header of 80 bytes. Throws MalformedError if its hash is above the target in it. */
export function parseHeader(bytes: Uint8Array): BlockHeader {
  if (bytes.length !== headerSize) throw new MalformedError(`a header has ${headerSize} bytes, not ${bytes.length}`)
  const header = asBuffer(bytes)
  const bits = header.readUInt32LE(72)
  const hash = displayHex(sha256d(header))
  const target = targetOf(bits)
  if (BigInt(`0x${hash}`) > target)
    throw new MalformedError(`block ${hash} lacks the proof of work that its header claims`)
  return {
    hash,
    parentHash: displayHex(header.subarray(4, 36)),
    merkleRoot: displayHex(header.subarray(36, 68)),
    time: new Date(header.readUInt32LE(68) * 1000),
    bits,
  }
}

/**
 * Throws MalformedError if a header takes less work than its network's minimum: anybody could make any number of such
 * headers.
 */
export function assertWork({hash, bits}: BlockHeader, easiestBits: number): void {
  if (targetOf(bits) > targetOf(easiestBits))
    throw new MalformedError(`block ${hash} takes less work than its network allows`)
}

/** Parses a whole block. Throws MalformedError unless its transactions are exactly those that its header commits to. */
export function parseBlock(bytes: Uint8Array): Block {
  const reader = new Reader(asBuffer(bytes))
  const header = parseHeader(reader.take(headerSize))
  const count = reader.varint()
  const transactions: Transaction[] = []
  const hashes: Buffer[] = []
  for (let i = 0; i < count; i++) hashes.push(readTransaction(reader, transactions))
  reader.end()
  // Without a coinbase, the "transactions" may be inner nodes of the tree instead (CVE-2017-12842).
  if (!transactions[0] || !isCoinbase(transactions[0])) throw new MalformedError(`block ${header.hash} has no coinbase`)
  if (merkleRoot(hashes) !== header.merkleRoot) {
    throw new MalformedError(`the transactions of block ${header.hash} are not those of its header`)
  }
  return {header, transactions}
}

export function parseTransaction(bytes: Uint8Array): Transaction {
  const reader = new Reader(asBuffer(bytes))
  const transactions: Transaction[] = []
  readTransaction(reader, transactions)
  reader.end()
  return transactions[0]!
}

/**
 * The siblings of a transaction on the way up to the merkle root, the lowest first; `position` is its index in the
 * block.
 */
export interface MerkleProof {
  siblings: string[]
  position: number
}

/**
 * Throws MalformedError unless the proof leads from the transaction to the root. It also refuses 64 bytes that could be
 * both a transaction and an inner node (CVE-2017-12842), and a position that only repeats another one (CVE-2012-2459).
 */
export function assertInBlock(transaction: Transaction, {siblings, position}: MerkleProof, root: string): void {
  const refuse = (why: string): never => {
    throw new MalformedError(`the merkle proof of ${transaction.txid} ${why}`)
  }
  if (transaction.strippedSize === nodeSize) refuse('is of a transaction that could be an inner node')
  if (siblings.length > proofLengthMax || !Number.isInteger(position) || position < 0) refuse('is out of bounds')
  let hash = storedBytes(transaction.txid)
  let index = position
  for (const sibling of siblings) {
    const other = storedBytes(sibling)
    if (other.length !== hash.length) refuse('is malformed')
    const isRight = index % 2 === 1
    if (isRight && other.equals(hash)) refuse('names a repeated position')
    const node = Buffer.concat(isRight ? [other, hash] : [hash, other])
    if (isTransaction(node)) refuse('goes through a transaction')
    hash = sha256d(node)
    index = Math.floor(index / 2)
  }
  if (index !== 0) refuse('is too short for its position')
  if (displayHex(hash) !== root) refuse("does not lead to the block's merkle root")
}

/**
 * Throws MalformedError unless these are all transactions of a block, in order. `first` is the first of them; it must
 * be a coinbase, because otherwise the list could be a level of inner nodes (CVE-2017-12842).
 */
export function assertContents(txids: string[], first: Transaction, header: BlockHeader): void {
  const isWhole =
    first.txid === txids[0] && isCoinbase(first) && merkleRoot(txids.map(storedBytes)) === header.merkleRoot
  if (!isWhole) throw new MalformedError(`these are not the transactions of block ${header.hash}`)
}

/**
 * The merkle root over transaction ids in stored byte order. Throws MalformedError if another list has the same root.
 */
function merkleRoot(hashes: Buffer[]): string {
  let level = hashes
  while (level.length > 1) {
    const above: Buffer[] = []
    for (let i = 0; i < level.length; i += 2) {
      const left = level[i]!
      const right = level[i + 1] ?? left
      if (i + 1 < level.length && left.equals(right)) throw new MalformedError('a block repeats transactions')
      above.push(sha256d(Buffer.concat([left, right], nodeSize)))
    }
    level = above
  }
  return displayHex(level[0]!)
}

function isTransaction(bytes: Uint8Array): boolean {
  try {
    return parseTransaction(bytes).strippedSize === nodeSize
  } catch (error) {
    if (error instanceof MalformedError) return false
    throw error
  }
}

/** The target from a header's compact form; 0 if it is negative or too large. */
function targetOf(bits: number): bigint {
  const exponent = bits >>> 24
  const mantissa = bits & 0x7fffff
  if (bits & 0x800000 || exponent > 32) return 0n
  return exponent <= 3 ? BigInt(mantissa >> (8 * (3 - exponent))) : BigInt(mantissa) << BigInt(8 * (exponent - 3))
}

/** Appends the transaction at the reader's position, with its id in stored byte order. */
function readTransaction(reader: Reader, into: Transaction[]): Buffer {
  const start = reader.at
  reader.skip(4)
  const isSegwit = reader.hasSegwitMark()
  if (isSegwit) reader.skip(2)
  const body = reader.at
  const inputs: TransactionInput[] = []
  for (let i = reader.varint(); i > 0; i--) {
    inputs.push({
      outpoint: `${displayHex(reader.take(32))}:${reader.uint32()}`,
      scriptSig: reader.take(reader.varint()),
      witness: [],
    })
    reader.skip(4)
  }
  const outputs: TransactionOutput[] = []
  for (let i = reader.varint(); i > 0; i--) outputs.push({value: reader.uint64(), script: reader.take(reader.varint())})
  const bodyEnd = reader.at
  if (isSegwit)
    for (const {witness} of inputs)
      for (let i = reader.varint(); i > 0; i--) {
        const length = reader.varint()
        if (witness.length < witnessItemsKept) witness.push(reader.take(length))
        else reader.skip(length)
      }
  reader.skip(4)
  if (inputs.length === 0 || outputs.length === 0)
    throw new MalformedError('a transaction must have inputs and outputs')
  const stripped = isSegwit
    ? Buffer.concat([
        reader.slice(start, start + 4),
        reader.slice(body, bodyEnd),
        reader.slice(reader.at - 4, reader.at),
      ])
    : reader.slice(start, reader.at)
  const id = sha256d(stripped)
  into.push({txid: displayHex(id), inputs, outputs, strippedSize: stripped.length})
  return id
}

class Reader {
  readonly #bytes: Buffer
  at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  take(length: number): Buffer {
    const from = this.at
    this.skip(length)
    return this.#bytes.subarray(from, this.at)
  }

  skip(length: number): void {
    this.at += length
    if (this.at > this.#bytes.length) throw new MalformedError('the bytes end too early')
  }

  slice(from: number, to: number): Buffer {
    return this.#bytes.subarray(from, to)
  }

  uint32(): number {
    this.skip(4)
    return this.#bytes.readUInt32LE(this.at - 4)
  }

  uint64(): bigint {
    this.skip(8)
    return this.#bytes.readBigUInt64LE(this.at - 8)
  }

  varint(): number {
    this.skip(1)
    const first = this.#bytes[this.at - 1]!
    if (first < 0xfd) return first
    const length = first === 0xfd ? 2 : first === 0xfe ? 4 : 8
    this.skip(length)
    if (length === 8) throw new MalformedError('a count is larger than any block allows')
    return this.#bytes.readUIntLE(this.at - length, length)
  }

  /** Whether the transaction ends with witnesses: a zero and a one then stand before the number of inputs (BIP-144). */
  hasSegwitMark(): boolean {
    return this.#bytes[this.at] === 0 && this.#bytes[this.at + 1] === 1
  }

  end(): void {
    if (this.at !== this.#bytes.length) throw new MalformedError(`${this.#bytes.length - this.at} bytes too many`)
  }
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}

/** Converts a hash to its display form: bytes reversed. */
function displayHex(bytes: Uint8Array): string {
  return Buffer.from(bytes).reverse().toString('hex')
}

function storedBytes(shown: string): Buffer {
  return Buffer.from(shown, 'hex').reverse()
}
