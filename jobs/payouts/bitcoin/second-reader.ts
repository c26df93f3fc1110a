// Reads what custody signed for Bitcoin with bitcoinjs-lib (../second-reader.ts), as its own parser sees the bytes that
// custody made. Promises: no field goes unread, because the library makes the same bytes of what it read; money goes to
// the recipient and the treasury alone; each input's signature is right, and covers the whole transaction.
import {crypto, payments, script, Transaction} from 'bitcoinjs-lib'
import {verify} from 'tiny-secp256k1'
import {scriptOfAddress} from '../../../chains/bitcoin/script.ts'
import type {Facts, Reading} from '../context.ts'
import type {Signed} from '../custody-client.ts'
import {amountOf, readBy} from '../second-reader.ts'
import type {BitcoinAttempt} from './plan-attempt.ts'

export async function readSigned(planned: BitcoinAttempt, signed: Signed): Promise<Reading> {
  const {outgoingPayment, inputs, chain, kind} = planned
  const {recipient, feePayer: treasury} = outgoingPayment
  const {network_fee: fee, vsize} = signed.feeDetails
  const total = inputs.reduce((sum, {amount}) => sum + amount, 0n)
  const amount = amountOf(planned, signed)
  const isToTreasury = kind === 'cancel' || recipient === treasury
  const change = total - BigInt(fee!) - (isToTreasury ? 0n : amount)
  const format = chain.settings.chain.networks[chain.settings.network]
  const named = new Map([treasury, recipient].map(address => [hex(scriptOfAddress(address, format)), address]))
  const outputs = [
    ...(isToTreasury ? [] : [`${amount} to ${recipient}`]),
    ...(change ? [`${change} to ${treasury}`] : []),
  ]
  return {
    asked: {
      version: '2',
      'lock time': '0',
      txid: signed.txid,
      bytes: 'all read',
      'first input': outgoingPayment.firstInput ?? 'none',
      inputs: listed(inputs.map(({outpoint}) => outpoint)),
      sequences: 'fffffffd',
      signatures: 'right',
      outputs: listed(outputs),
      size: `${vsize} vB`,
    },
    says: await readBy('bitcoinjs-lib', () => read(signed.raw, named, inputs)),
  }
}

function read(raw: string, named: Map<string, string>, spent: BitcoinAttempt['inputs']): Facts {
  const transaction = Transaction.fromHex(raw)
  const {ins, outs, version, locktime} = transaction
  const outpoints = ins.map(({hash, index}) => `${hex(Uint8Array.from(hash).reverse())}:${index}`)
  const values = new Map(spent.map(({outpoint, amount}) => [outpoint, amount]))
  const isRight = ins.every((_, i) => isSigned(transaction, i, values.get(outpoints[i]!) ?? 0n))
  return {
    version: String(version),
    'lock time': String(locktime),
    txid: transaction.getId(),
    bytes: transaction.toHex() === raw && ins.every(({script}) => !script.length) ? 'all read' : 'more than is read',
    'first input': outpoints[0] ?? 'none',
    inputs: listed(outpoints),
    sequences: listed([...new Set(ins.map(({sequence}) => sequence.toString(16)))]),
    signatures: isRight ? 'right' : 'wrong',
    outputs: listed(outs.map(({script, value}) => `${value} to ${named.get(hex(script)) ?? hex(script)}`)),
    size: `${transaction.virtualSize()} vB`,
  }
}

/** P2WPKH, for all inputs and outputs (BIP-143). */
function isSigned(transaction: Transaction, index: number, value: bigint): boolean {
  const {witness} = transaction.ins[index]!
  const [encoded, publicKey] = witness
  if (witness.length !== 2 || !encoded || publicKey?.length !== 33) return false
  const {signature, hashType} = script.signature.decode(encoded)
  const {output} = payments.p2pkh({hash: crypto.hash160(publicKey)})
  if (hashType !== Transaction.SIGHASH_ALL || !output) return false
  return verify(transaction.hashForWitnessV0(index, output, value, hashType), publicKey, signature)
}

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')
const listed = (items: string[]) => items.toSorted().join(', ')
