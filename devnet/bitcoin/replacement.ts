// Transactions of the faucet that replace others of it (RBF).
import {Transaction} from 'bitcoinjs-lib'
import {scripthashOf} from '../../chains/bitcoin/script.ts'
import {RpcError} from '../engine.ts'
import {faucet, isOurs, type Payee, pay} from './faucet.ts'
import type {BitcoinJournal} from './journal.ts'
import {type Ledger, type Output, outpointsSpent} from './ledger.ts'

/** What the chain and its mempool know. */
interface Known {
  journal: BitcoinJournal
  ledger: Ledger
}

/**
 * One that spends the same inputs of the faucet as an unconfirmed transaction, with a higher fee. It pays the same, or
 * the given outputs. Throws RangeError if there is no such transaction.
 */
export function replacementOf(
  txid: string,
  {journal, ledger}: Known,
  payees?: Payee[],
  feeRate?: number,
): {txid: string; raw: string} {
  const known = journal.rawTransaction(txid)
  if (known === undefined) throw new RangeError(`the chain and its mempool have no transaction ${txid}`)
  const old = decode(known)
  const spent = outpointsSpent(old).flatMap(outpoint => outputOf(journal, outpoint) ?? [])
  const inputs = spent.filter(isOurs)
  if (inputs.length === 0) throw new RangeError(`${txid} has no input of the faucet`)
  const outputs = old.outs.map(({script, value}) => ({script, amount: value}))
  const isChange = ({script}: Payee) => Buffer.compare(script, faucet.script) === 0
  const oldFee = spent.reduce((sum, {value}) => sum + value, 0n) - outputs.reduce((sum, {amount}) => sum + amount, 0n)
  const oldRate = Number(oldFee) / old.virtualSize()
  const fee = (vsize: number) => (feeRate ? feeOf(vsize, feeRate) : oldFee + feeOf(vsize, oldRate + 2))
  const transaction = pay(ledger, payees ?? outputs.filter(output => !isChange(output)), fee, inputs)
  return {txid: transaction.getId(), raw: transaction.toHex()}
}

/** An output of any known transaction, spent or not. */
function outputOf(journal: BitcoinJournal, outpoint: string): Output | undefined {
  const [txid, vout] = outpoint.split(':')
  const raw = journal.rawTransaction(txid!)
  const output = raw && decode(raw).outs[Number(vout)]
  if (!output) return undefined
  return {outpoint, scripthash: scripthashOf(output.script), value: output.value, height: 0, coinbase: false}
}

/** An unspent output of the faucet. Throws RangeError if it is none. */
export function ownOutput(ledger: Ledger, outpoint: string): Output {
  const output = ledger.output(outpoint)
  if (!output || !isOurs(output)) throw new RangeError(`${outpoint} is not an unspent output of the faucet`)
  return output
}

/** Throws RpcError, as bitcoind does, if it is no transaction. */
export function decode(raw: string): Transaction {
  try {
    return Transaction.fromHex(raw)
  } catch {
    throw new RpcError({code: -22, message: 'TX decode failed. Make sure the tx has at least one input.'})
  }
}

/** In sat, for a rate in sat/vB. */
export function feeOf(vsize: number, rate: number): bigint {
  return BigInt(Math.ceil(vsize * rate))
}
