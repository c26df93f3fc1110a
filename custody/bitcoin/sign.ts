// Signs Bitcoin transactions: version 2, all inputs are P2WPKH outputs of ours, replaceable, valid at once. Promises:
// pure, except for keys and signatures from the key store; no I/O. The same input gives the same bytes, and signatures
// do not change the txid. Time and memory grow no faster than the number of inputs.
import {script, Transaction} from 'bitcoinjs-lib'
import {hash160, sha256d} from '../../chains/bitcoin/script.ts'
import type {KeyPath, KeyStore} from '../keys/key-store.ts'

/** The output that an input spends, and the key that it needs. */
export interface Input {
  outpoint: string
  value: bigint
  path: KeyPath
}

export interface Output {
  script: Uint8Array
  value: bigint
}

export interface Signed {
  txid: string
  raw: string
  vsize: number
}

/** Replaceable by a transaction that pays more (BIP-125), and with no relative lock time. */
const sequence = 0xfffffffd
const sigHashAll = Transaction.SIGHASH_ALL

/** The largest size of a transaction in virtual bytes; each signature may be a byte shorter. */
export function largestVsize(inputs: number, outputs: readonly Uint8Array[]): number {
  const ofOutputs = outputs.reduce((sum, {length}) => sum + 8 + sizeOfCount(length) + length, 0)
  const base = 4 + sizeOfCount(inputs) + 41 * inputs + sizeOfCount(outputs.length) + ofOutputs + 4
  const witness = 2 + inputs * (1 + 1 + 72 + 1 + 33)
  return Math.ceil((4 * base + witness) / 4)
}

function sizeOfCount(count: number): number {
  return count < 0xfd ? 1 : 3
}

export async function signTransaction(
  {inputs, outputs}: {inputs: readonly Input[]; outputs: readonly Output[]},
  keys: KeyStore,
): Promise<Signed> {
  const transaction = new Transaction()
  transaction.version = 2
  for (const {outpoint} of inputs) {
    const [txid, vout] = outpoint.split(':') as [string, string]
    transaction.addInput(Buffer.from(txid, 'hex').reverse(), Number(vout), sequence)
  }
  for (const output of outputs) transaction.addOutput(output.script, output.value)
  const digest = digestsOf(transaction)
  for (const [index, {value, path}] of inputs.entries()) {
    const publicKey = await keys.publicKey(path)
    const signature = await keys.sign(path, digest(index, hash160(publicKey), value))
    transaction.setWitness(index, [script.signature.encode(signature.subarray(0, 64), sigHashAll), publicKey])
  }
  return {txid: transaction.getId(), raw: transaction.toHex(), vsize: transaction.virtualSize()}
}

/**
 * The digest that the key of each P2WPKH input signs (BIP-143, SIGHASH_ALL). Prevouts, sequences and outputs are hashed
 * once, not for every input as bitcoinjs-lib does.
 */
export function digestsOf(
  transaction: Transaction,
): (index: number, publicKeyHash: Uint8Array, value: bigint) => Uint8Array {
  const outpoints = transaction.ins.map(({hash, index}) => Buffer.concat([hash, uint32(index)]))
  const sequences = transaction.ins.map(input => uint32(input.sequence))
  const outputs = transaction.outs.flatMap(({script: {length}, value}, i) => [
    uint64(value),
    Buffer.from([length]),
    transaction.outs[i]!.script,
  ])
  const before = Buffer.concat([
    uint32(transaction.version),
    sha256d(Buffer.concat(outpoints)),
    sha256d(Buffer.concat(sequences)),
  ])
  const after = Buffer.concat([sha256d(Buffer.concat(outputs)), uint32(transaction.locktime), uint32(sigHashAll)])
  return (index, publicKeyHash, value) =>
    sha256d(
      Buffer.concat([before, outpoints[index]!, scriptCode(publicKeyHash), uint64(value), sequences[index]!, after]),
    )
}

/** The script code of P2WPKH: the P2PKH script, preceded by its length. */
function scriptCode(publicKeyHash: Uint8Array): Uint8Array {
  return Buffer.from([0x19, 0x76, 0xa9, 0x14, ...publicKeyHash, 0x88, 0xac])
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(value)
  return bytes
}

function uint64(value: bigint): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(value)
  return bytes
}
