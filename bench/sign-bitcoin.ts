// Signing on Bitcoin: transactions/s of a sweep with 500 inputs from 500 addresses, as custody builds and signs it,
// with keys derived meanwhile, over a client with a bare bitcoinjs-lib Transaction and keys derived beforehand (the
// floor, which hashes the whole transaction again for every input). Then over the 500 signatures alone, an upper limit
// for any client.
import {mnemonicToSeed} from '@scure/bip39'
import {BIP32Factory} from 'bip32'
import {payments, script, Transaction} from 'bitcoinjs-lib'
import * as secp256k1 from 'tiny-secp256k1'
import {type Input, signTransaction} from '../custody/bitcoin/sign.ts'
import {families} from '../custody/families.ts'
import {type KeyPath, localKeys} from '../custody/keys/key-store.ts'
import {median, type Report} from './result.ts'

const phrase = 'test test test test test test test test test test test junk'
const rounds = 7

export async function benchSignBitcoin(report: Report, count = 500): Promise<void> {
  const keys = await localKeys(phrase, families)
  const inputs = Array.from({length: count}, (_, index): Input => {
    const path: KeyPath = {family: 'bitcoin', purpose: 'deposit', index}
    return {outpoint: `${index.toString(16).padStart(64, '0')}:${index}`, value: 10_000n, path}
  })
  const treasury = await keys.publicKey({family: 'bitcoin', purpose: 'treasury', index: 0})
  const output = {script: payments.p2wpkh({pubkey: treasury}).output!, value: 10_000n * BigInt(count) - 40_000n}
  const branch = BIP32Factory(secp256k1)
    .fromSeed(await mnemonicToSeed(phrase))
    .derivePath("m/84'/1'/0'/0")
  const derived = inputs.map(({path}) => {
    const {privateKey, publicKey} = branch.derive(path.index)
    return {privateKey: privateKey!, publicKey, code: payments.p2pkh({pubkey: publicKey}).output!}
  })

  const ours = async () => (await signTransaction({inputs, outputs: [output]}, keys)).raw
  const bare = async () => {
    const transaction = new Transaction()
    transaction.version = 2
    for (const {outpoint} of inputs) {
      const [txid, vout] = outpoint.split(':') as [string, string]
      transaction.addInput(Buffer.from(txid, 'hex').reverse(), Number(vout), 0xfffffffd)
    }
    transaction.addOutput(output.script, output.value)
    for (const [index, {privateKey, publicKey, code}] of derived.entries()) {
      const digest = transaction.hashForWitnessV0(index, code, inputs[index]!.value, Transaction.SIGHASH_ALL)
      const signature = secp256k1.sign(digest, privateKey)
      transaction.setWitness(index, [script.signature.encode(signature, Transaction.SIGHASH_ALL), publicKey])
    }
    return transaction.toHex()
  }
  const signaturesAlone = async () => {
    for (const {privateKey} of derived) secp256k1.sign(treasury.subarray(1), privateKey)
  }

  if ((await ours()) !== (await bare())) throw new Error('the two do not sign the same')
  const [value, floor, least] = await perSecond(ours, bare, signaturesAlone)
  const what = `Bitcoin sweeps of ${count} inputs, built and signed`
  report({what: `${what}, over bare bitcoinjs-lib`, value: value!, floor: floor!, unit: '/s', aim: '0.83'})
  report({what: `${what}, over ${count} bare signatures`, value: value!, floor: least!, unit: '/s'})
}

/** From the median time of each, alternating. */
async function perSecond(...works: (() => Promise<unknown>)[]): Promise<number[]> {
  const times = works.map((): number[] => [])
  for (let round = 0; round < rounds; round++) {
    for (const [n, work] of works.entries()) {
      const began = performance.now()
      await work()
      times[n]!.push(performance.now() - began)
    }
  }
  return times.map(of => 1000 / median(of))
}
