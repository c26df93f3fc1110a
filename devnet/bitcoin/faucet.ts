// The wallet of the local Bitcoin chain: one P2WPKH address, which every coinbase pays, and whose key is public.
import {createHash} from 'node:crypto'
import {address, initEccLib, networks, Psbt, payments, type Transaction} from 'bitcoinjs-lib'
import * as ecc from 'tiny-secp256k1'
import {scripthashOf} from '../../chains/bitcoin/script.ts'
import type {Ledger, Output} from './ledger.ts'

initEccLib(ecc)

const network = networks.regtest
const key = createHash('sha256').update('the faucet of the local chain').digest()
const signer = {
  publicKey: ecc.pointFromScalar(key, true)!,
  sign: (hash: Uint8Array) => ecc.sign(hash, key),
}
const payment = payments.p2wpkh({pubkey: signer.publicKey, network})
const faucetScript = payment.output!
const faucetScripthash = scripthashOf(faucetScript)
const dustSat = 294n
const replaceable = 0xfffffffd

export const faucet = {address: payment.address!, script: faucetScript}

/** The amount of an output, in satoshi. */
export interface Payee {
  script: Uint8Array
  amount: bigint
}

/** The output script of a regtest address. Throws RangeError on anything else. */
export function scriptOf(to: string): Uint8Array {
  try {
    return address.toOutputScript(to, network)
  } catch {
    throw new RangeError(`${to} is not an address of a local Bitcoin chain (bcrt1..., or as on a test network)`)
  }
}

/** Whether an output is the faucet's. */
export function isOurs({scripthash}: {scripthash: string}): boolean {
  return scripthash === faucetScripthash
}

/**
 * A signed transaction of the faucet that spends at least `inputs`, pays in this order, and returns the rest to the
 * faucet as its last output. `fee` computes the fee from the size in vB. Throws RangeError if the faucet has too
 * little.
 */
export function pay(
  ledger: Ledger,
  payees: Payee[],
  fee: (vsize: number) => bigint,
  inputs: Output[] = [],
): Transaction {
  const spent = [...inputs]
  const amount = payees.reduce((sum, payee) => sum + payee.amount, 0n)
  const needed = () => amount + fee(sizeOf(spent.length, payees))
  const has = () => spent.reduce((sum, {value}) => sum + value, 0n)
  while (spent.length === 0 || has() < needed()) {
    const more = nextInput(ledger, spent, needed() - has() + fee(68))
    if (!more)
      throw new RangeError(`the faucet has only ${has()} spendable sat, and ${needed()} are needed; mine a block`)
    spent.push(more)
  }
  const change = has() - needed()
  return sign(spent, change >= dustSat ? [...payees, {script: faucetScript, amount: change}] : payees)
}

/**
 * The oldest sufficient output, so that payments do not depend on each other as long as there are coinbases; else the
 * largest.
 */
function nextInput(ledger: Ledger, spent: Output[], needed: bigint): Output | undefined {
  const candidates = ledger
    .spendable(faucetScripthash)
    .filter(output => output.value > dustSat && !spent.some(({outpoint}) => outpoint === output.outpoint))
  const enough = candidates.filter(({value}) => value >= needed)
  if (enough.length) return enough.reduce((best, output) => (output.height < best.height ? output : best))
  return candidates.reduce<Output | undefined>(
    (best, output) => (best && best.value > output.value ? best : output),
    undefined,
  )
}

function sign(spent: Output[], payees: Payee[]): Transaction {
  const psbt = new Psbt({network})
  for (const {outpoint} of spent) {
    const [hash, index] = outpoint.split(':')
    psbt.addInput({hash: hash!, index: Number(index), sequence: replaceable})
  }
  for (const {script, amount} of payees) psbt.addOutput({script, value: amount})
  spent.forEach(({value}, i) => {
    psbt.updateInput(i, {witnessUtxo: {script: faucetScript, value}})
  })
  psbt.signAllInputs(signer).finalizeAllInputs()
  return psbt.extractTransaction(true)
}

/** In vB, with the change output; up to a byte more than the result. */
function sizeOf(inputs: number, payees: Payee[]): number {
  const outputs = [...payees.map(({script}) => script), faucetScript]
  return Math.ceil(11 + 68 * inputs + outputs.reduce((sum, script) => sum + 9 + script.length, 0))
}
