// The wire format: blocks and transactions are JSON, identified by their hash. An account is a key of secp256k1. It may
// sign any number of transactions, each of which expires. Nodes refuse wrong signatures.
import {createHash} from 'node:crypto'
import * as ecc from 'tiny-secp256k1'
import {z} from 'zod'
import {lifetimeMarginMs} from '../expiry-settings.ts'

/** What every transaction costs its sender, also one that fails. */
export const fee = 2n

/** The time between blocks. */
export const blockMs = 1000

/** How many blocks after the newest one may hold a transaction, and how late by the clock the last of them may be. */
export const lifetimeBlocks = 10
export const lifetimeMs = lifetimeBlocks * blockMs + lifetimeMarginMs

/** The payer, as the compressed public key in hex, and the recipients. */
const Body = z.strictObject({
  publicKey: z.string(),
  outputs: z.array(z.strictObject({to: z.string(), amount: z.string()})),
  /** Only a block above `from`, and at or below `end`, can hold it. */
  lifetime: z.strictObject({from: z.int(), end: z.int()}),
  /** Makes two equal payments differ. */
  salt: z.string(),
})
/** 64 bytes, r and s, in hex, over the digest of the body. */
const Transaction = Body.extend({signature: z.string()})
const Block = z.object({
  height: z.int(),
  parentHash: z.string(),
  /** In milliseconds; it never falls. */
  time: z.int(),
  /** Makes an empty block differ from the empty block that it replaces. */
  fork: z.int(),
  /** In hex. */
  transactions: z.array(z.string()),
  /** The txids of those that failed: they moved nothing, and cost their fee. */
  failed: z.array(z.string()),
})
export type Body = z.infer<typeof Body>
/** `from` is the address of its key. */
export type Transaction = z.infer<typeof Transaction> & {txid: string; from: string}
export type Block = z.infer<typeof Block>

export const hashOf = (text: string): string => createHash('sha256').update(text).digest('hex')

export const addressOf = (publicKey: string): string => `made1${hashOf(publicKey).slice(0, 40)}`

const first: Block = {height: 0, parentHash: '', time: 0, fork: 0, transactions: [], failed: []}
export const genesis = JSON.stringify(first)

export const parseBlock = (text: string): Block & {hash: string} => ({
  ...Block.parse(JSON.parse(text)),
  hash: hashOf(text),
})

/** The signed digest. */
export const digestOf = ({publicKey, outputs, lifetime: {from, end}, salt}: Body): Uint8Array =>
  Buffer.from(hashOf(JSON.stringify({publicKey, outputs, lifetime: {from, end}, salt})), 'hex')

export const rawTransaction = (body: Body, signature: Uint8Array): string =>
  Buffer.from(JSON.stringify({...body, signature: Buffer.from(signature).toString('hex')})).toString('hex')

/** Whatever its signature is. */
export function parseTransaction(raw: string): Transaction {
  const text = Buffer.from(raw, 'hex').toString()
  const transaction = Transaction.parse(JSON.parse(text))
  return {...transaction, txid: hashOf(text), from: addressOf(transaction.publicKey)}
}

export function isSigned(transaction: Transaction): boolean {
  const [key, signature] = [transaction.publicKey, transaction.signature].map(hex => Buffer.from(hex, 'hex'))
  return (
    ecc.isPointCompressed(key!) && signature!.length === 64 && ecc.verify(digestOf(transaction), key!, signature!, true)
  )
}
