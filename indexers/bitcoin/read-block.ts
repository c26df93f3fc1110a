// What a Bitcoin block, or an unconfirmed transaction, says about addresses: which outputs pay which address, and what
// was spent.
import {type BlockHeader, coinbaseSender, isCoinbase, type Transaction} from '../../chains/bitcoin/block.ts'
import {type AddressFormat, addressOfScript, keyAddress} from '../../chains/bitcoin/script.ts'
import type {BitcoinSettings} from '../../chains/bitcoin/settings.ts'
import type {Candidate, ReadBlock, SpendingTransaction} from '../block.ts'

/** The chain that is read, and its network. */
export type Network = Pick<BitcoinSettings, 'chain' | 'network'>

/** A transaction, and the address that paid it, if known. */
export interface KnownTransaction {
  transaction: Transaction
  sender: string
  /** In hex, if it may be needed again. */
  raw?: string
}

/** The sender where it cannot be determined. */
export const unknownSender = 'unknown'

export function readBlock(height: number, header: BlockHeader, known: KnownTransaction[], of: Network): ReadBlock {
  const {hash, parentHash, time} = header
  return {
    height,
    hash,
    parentHash,
    time,
    candidates: known.flatMap(one => candidatesOf(one, of)),
    sent: [],
    spends: known.map(spendingOf),
  }
}

/** Every output that has an address and a value. */
export function candidatesOf(
  {transaction: {txid, outputs}, sender}: KnownTransaction,
  {chain, network}: Network,
): Candidate[] {
  const [{token}] = chain.assets
  const format = chain.networks[network]
  const found: Candidate[] = []
  for (let outputIndex = 0; outputIndex < outputs.length; outputIndex++) {
    const {script, value: amount} = outputs[outputIndex]!
    const recipientKey = amount > 0n ? addressOfScript(script, format) : undefined
    if (recipientKey) found.push({txid, outputIndex, kind: 'native', token, amount, sender, recipientKey})
  }
  return found
}

function spendingOf({transaction: {txid, inputs, outputs}, raw}: KnownTransaction): SpendingTransaction {
  let outputSum = 0n
  for (const {value} of outputs) outputSum += value
  return {txid, outpoints: inputs.map(({outpoint}) => outpoint), outputSum, raw}
}

/** The output that the first input spends. Its address counts as the sender. */
export function firstSpent({inputs}: Transaction): {txid: string; vout: number} {
  const [txid, vout] = inputs[0]!.outpoint.split(':')
  return {txid: txid!, vout: Number(vout)}
}

/** The owner of a spent output, by its script. */
export function senderOfScript(script: Uint8Array | undefined, format: AddressFormat): string {
  return (script && addressOfScript(script, format)) ?? unknownSender
}

/**
 * The sender as far as the transaction itself shows it; undefined if only its parent can. (No txid covers witnesses:
 * prefer the parent.)
 */
export function senderInWitness(transaction: Transaction, format: AddressFormat): string | undefined {
  if (isCoinbase(transaction)) return coinbaseSender
  const {scriptSig, witness} = transaction.inputs[0]!
  const [signature, key] = witness
  const isKey = key?.length === 33 && (key[0] === 2 || key[0] === 3)
  const isKeyHash = scriptSig.length === 0 && witness.length === 2 && isKey && signature![0] === 0x30 // as DER begins
  if (isKeyHash) return keyAddress(key, format)
}
