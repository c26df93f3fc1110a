// The test vectors of BIP-143, and a comparison with the signatures of bitcoinjs-lib, which is slower.
import {networks, payments, script, Transaction} from 'bitcoinjs-lib'
import fc from 'fast-check'
import {sign} from 'tiny-secp256k1'
import {expect, test} from 'vitest'
import {hash160} from '../../chains/bitcoin/script.ts'
import {families} from '../families.ts'
import {localKeys} from '../keys/key-store.ts'
import {digestsOf, largestVsize, signTransaction} from './sign.ts'

const junk = 'test test test test test test test test test test test junk'
const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')
const bytes = (text: string) => Buffer.from(text, 'hex')

test.each([
  {
    of: 'native P2WPKH',
    unsigned:
      '0100000002fff7f7881a8099afa6940d42d1e7f6362bec38171ea3edf433541db4e4ad969f0000000000eeffffffef51e1b804cc89d182d279655c3aa89e815b1b309fe287d9b2b55d57b90ec68a0100000000ffffffff02202cb206000000001976a9148280b37df378db99f66f85c95a783a76ac7a6d5988ac9093510d000000001976a9143bde42dbee7e4dbe6a21b2d50ce2f0167faa815988ac11000000',
    input: 1,
    value: 600_000_000n,
    key: '619c335025c7f4012e556c2a58b2506e30b8511b53ade95ea316fd8c3286feb9',
    publicKey: '025476c2e83188368da1ff3e292e7acafcdb3566bb0ad253f62fc70f07aeee6357',
    digest: 'c37af31116d1b27caf68aae9e3ac82f1477929014d5b917657d0eb49478cb670',
    signature:
      '304402203609e17b84f6a7d30c80bfa610b5b4542f32a8a0d5447a12fb1366d7f01cc44a0220573a954c4518331561406f90300e8f3358f51928d43c212a8caed02de67eebee01',
  },
  {
    of: 'P2SH-P2WPKH',
    unsigned:
      '0100000001db6b1b20aa0fd7b23880be2ecbd4a98130974cf4748fb66092ac4d3ceb1a54770100000000feffffff02b8b4eb0b000000001976a914a457b684d7f0d539a46a45bbc043f35b59d0d96388ac0008af2f000000001976a914fd270b1ee6abcaea97fea7ad0402e8bd8ad6d77c88ac92040000',
    input: 0,
    value: 1_000_000_000n,
    key: 'eb696a065ef48a2192da5b28b694f87544b30fae8327c4510137a922f32c6dcf',
    publicKey: '03ad1d8e89212f0b92c74d23bb710c00662ad1470198ac48c43f7d6f93a2a26873',
    digest: '64f3b0f4dd2bb3aa1ce8566d220cc74dda9df97d8490cc81d89d735c92e59fb6',
    signature:
      '3044022047ac8e878352d3ebbde1c94ce3a10d057c24175747116f8288e5d794d12d482f0220217f36a485cae903c713331d877c1f64677e3622ad4010726870540656fe9dcb01',
  },
])('BIP-143: the digest and the signature of $of are those of the standard', ({of: _, ...vector}) => {
  const transaction = Transaction.fromBuffer(bytes(vector.unsigned))
  const digest = digestsOf(transaction)(vector.input, hash160(bytes(vector.publicKey)), vector.value)
  expect(hex(digest)).toBe(vector.digest)
  expect(hex(script.signature.encode(sign(digest, bytes(vector.key)), Transaction.SIGHASH_ALL))).toBe(vector.signature)
})

const outpoint = fc.tuple(fc.uint8Array({minLength: 32, maxLength: 32}), fc.nat(100_000))
const path = fc.record({
  family: fc.constant('bitcoin' as const),
  purpose: fc.constantFrom('deposit' as const, 'treasury' as const),
  index: fc.nat(1000),
})
const input = fc.record({
  outpoint: outpoint.map(([txid, vout]) => `${hex(txid)}:${vout}`),
  value: fc.bigInt(1n, 2_100_000_000_000_000n),
  path,
})
/** P2WPKH, P2PKH, P2SH, P2WSH and P2TR, by their lengths. */
const output = fc.record({
  script: fc.constantFrom(22, 25, 23, 34, 34).chain(length => fc.uint8Array({minLength: length, maxLength: length})),
  value: fc.bigInt(0n, 2_100_000_000_000_000n),
})

test('any transaction is the one that bitcoinjs-lib makes, and fits the estimated size', async () => {
  const keys = await localKeys(junk, families)
  await fc.assert(
    fc.asyncProperty(
      fc.array(input, {minLength: 1, maxLength: 20}),
      fc.array(output, {minLength: 1, maxLength: 2}),
      async (inputs, outputs) => {
        const signed = await signTransaction({inputs, outputs}, keys)
        const theirs = new Transaction()
        theirs.version = 2
        for (const {outpoint} of inputs) {
          const [txid, vout] = outpoint.split(':') as [string, string]
          theirs.addInput(bytes(txid).reverse(), Number(vout), 0xfffffffd)
        }
        for (const {script, value} of outputs) theirs.addOutput(script, value)
        expect(signed.txid).toBe(theirs.getId()) // before anything is signed
        for (const [index, {value, path}] of inputs.entries()) {
          const pubkey = await keys.publicKey(path)
          const code = payments.p2pkh({pubkey, network: networks.regtest}).output!
          const signature = await keys.sign(path, theirs.hashForWitnessV0(index, code, value, Transaction.SIGHASH_ALL))
          const plain = signature.subarray(0, 64)
          theirs.setWitness(index, [script.signature.encode(plain, Transaction.SIGHASH_ALL), pubkey])
        }
        expect(signed).toEqual({txid: theirs.getId(), raw: theirs.toHex(), vsize: theirs.virtualSize()})
        const largest = largestVsize(
          inputs.length,
          outputs.map(({script}) => script),
        )
        expect(signed.vsize).toBeLessThanOrEqual(largest)
        expect(signed.vsize).toBeGreaterThanOrEqual(largest - inputs.length) // a signature is rarely up to three bytes shorter
      },
    ),
    {numRuns: 30},
  )
}, 60_000)
