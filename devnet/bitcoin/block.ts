// Blocks of the local Bitcoin chain. They are made here and not by the node, so that they are in the journal before the
// node, and all clients, see them, and so that a reorganisation has exactly the requested blocks.
import {Block, crypto, script, Transaction} from 'bitcoinjs-lib'

const halvingInterval = 150 // of regtest
const easiestBits = 0x207fffff
/** BIP 9, signalling for bits 0 and 1: bcoin activates CSV and segregated witness like this, at height 432. */
const version = 0x20000003
/** Leaves room for the coinbase. */
export const maxWeight = 3_980_000

export interface BlockToMake {
  parent: {height: number; hash: string}
  timestamp: number
  /** The script that the coinbase pays. */
  script: Uint8Array
  /** Distinguishes the block from another one with the same place and content: the number of the fork. */
  fork: number
  /** Parents come before their children. */
  transactions: Transaction[]
}

/** The block as bytes. Its coinbase takes the subsidy and leaves the fees. */
export function makeBlock({parent, timestamp, script: payee, fork, transactions}: BlockToMake): Buffer {
  const height = parent.height + 1
  const withWitness = transactions.some(transaction => transaction.hasWitnesses())
  const coinbase = new Transaction()
  coinbase.addInput(Buffer.alloc(32), 0xffffffff, 0xffffffff, coinbaseScript(height, fork))
  coinbase.addOutput(payee, subsidy(height))
  const block = new Block()
  block.version = version
  block.prevHash = Buffer.from(parent.hash, 'hex').reverse()
  block.timestamp = timestamp
  block.bits = easiestBits
  block.transactions = [coinbase, ...transactions]
  if (withWitness) commitToWitnesses(block, coinbase)
  block.merkleRoot = Block.calculateMerkleRoot(block.transactions)
  while (!block.checkProofOfWork()) block.nonce++
  return Buffer.from(block.toBuffer())
}

function coinbaseScript(height: number, fork: number): Uint8Array {
  const tag = Buffer.alloc(8)
  tag.writeUInt32LE(fork)
  tag.write('slce', 4)
  return script.compile([script.number.encode(height), tag])
}

/** BIP 141. Only if there are witnesses: before segregated witness is active, a block must not have it. */
function commitToWitnesses(block: Block, coinbase: Transaction): void {
  coinbase.setWitness(0, [Buffer.alloc(32)])
  const commitment = Block.calculateMerkleRoot(block.transactions!, true)
  coinbase.addOutput(Buffer.concat([Buffer.from('6a24aa21a9ed', 'hex'), commitment]), 0n)
}

function subsidy(height: number): bigint {
  return 5_000_000_000n >> BigInt(Math.floor(height / halvingInterval))
}

/** The hash of a raw block. */
export function hashOf(block: Buffer): string {
  return displayed(crypto.hash256(block.subarray(0, 80)))
}

/** A hash in display form. */
export function displayed(hash: Uint8Array): string {
  return Buffer.from(hash).reverse().toString('hex')
}
