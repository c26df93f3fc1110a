// Custody's signatures for Solana: the bytes that @solana/kit makes of the same payment and key.
import {createPublicKey, verify} from 'node:crypto'
import {expect, test} from 'vitest'
import {addressOf, bytesOf} from '../../chains/solana/address.ts'
import {messageOf, parsePayment} from '../../chains/solana/message.ts'
import type {Plan} from '../judge/plan.ts'
import {ed25519} from '../keys/ed25519.ts'
import type {KeyPath, KeyStore} from '../keys/key-store.ts'
import type {SolanaTerms} from './plan.ts'
import {sign} from './sign.ts'

const key = new Uint8Array(32).fill(7)
/** Of the treasury, as in chains/solana/message.test.ts. */
const treasuryKey = new Uint8Array(32).fill(9)
const keyAt = ({purpose}: KeyPath) => (purpose === 'treasury' ? treasuryKey : key)
const keys: KeyStore = {
  publicKey: async path => ed25519.publicKey(keyAt(path)),
  sign: async (path, message) => ed25519.sign(keyAt(path), message),
}

const path: KeyPath = {family: 'solana', purpose: 'deposit', index: 0}
const planOf = (more: Partial<Plan & SolanaTerms> = {}) =>
  ({
    source: addressOf(ed25519.publicKey(key)),
    feePayer: addressOf(ed25519.publicKey(key)),
    paths: {source: path, feePayer: path},
    destination: '5SHQQrjzHCMkZZJzYNhx9szLeYsVCYw4NNr8p7xT9BAY',
    amount: 1_500_000_000n,
    blockhash: 'EETubP5AKHgjPAhzPAFcb8BAY1hMH639CWCFTqi3hq1k',
    computeUnitLimit: 1999,
    priorityFee: 10_000n,
    maxFee: 15_000n,
    lifetime: {from: 70, end: 251, clock_ms: 1_790_000_090_400},
    ...more,
  }) as Plan & SolanaTerms

// chains/solana/message.test.ts says how kit was asked.
test('a payment has the bytes, the id and the signature that kit makes', async () => {
  const plan = planOf()
  const {txid, raw, details} = await sign(keys, plan)
  expect(txid).toBe('MRMPBQ3VRs5hoMKKCZ4q8mHD3hmGA5fUX9Qd35C9Jy8oRtjdjDbkSWmTYvjDpY6Tin3o9ScVTCJVRVrc17qMstF')
  expect(raw).toBe(
    '01119bfb6ef52d032ca9ff4c6e4f4288fb2a95be1cbb18392ab15dcaada5f686d9b544a403db343d1f8923eaab0c37d617d97f27c695d74fe4cb755e0035d6850401000204ea4a6c63e29c520abef5507b132ec5f9954776aebebe7b92421eea691446d22c41e8d0ca9956a6b95f7bfc7e185b15af14c9130d13bcb639b3c1de47b5994fd100000000000000000000000000000000000000000000000000000000000000000306466fe5211732ffecadba72c39be7bc8ce5bbc5f7126b2c439b3a40000000c49ae77603782054f17a9decea43b444eba0edb12c6f1d31c6e0e4a84bf052eb0303000502cf0700000300090305554c0000000000020200010c02000000002f685900000000',
  )
  expect(details).toEqual({lifetime: plan.lifetime, max_fee: '15000', priority_fee: '10000'})
})

test('equal plans have equal bytes, and another limit makes another payment, which is signed, too', async () => {
  const [one, again, other] = [
    await sign(keys, planOf()),
    await sign(keys, planOf()),
    await sign(keys, planOf({computeUnitLimit: 1998})),
  ]
  expect(again).toEqual(one)
  expect(other.txid).not.toBe(one.txid)
  const spki = Buffer.concat([Buffer.from('302a300506032b6570032100', 'hex'), bytesOf(planOf().source)])
  const {signatures, ...payment} = parsePayment(other.raw)
  const signer = createPublicKey({key: spki, format: 'der', type: 'spki'})
  expect(verify(null, messageOf(payment), signer, signatures[0]!)).toBe(true)
})

test('a sweep that the treasury pays for has the bytes and both signatures that kit makes', async () => {
  const treasury = addressOf(ed25519.publicKey(treasuryKey))
  const paths = {source: path, feePayer: {...path, purpose: 'treasury'} as KeyPath}
  const {txid, raw} = await sign(keys, planOf({destination: treasury, feePayer: treasury, paths}))
  expect([txid, raw]).toEqual([
    'Bxo4vWyckuxLR9AUFrmCsED7pFzmMKXGk2Azj2Smychh5D4UadURbZCSD4uzRVF16ihM8uNWD3QpDskwRm9V7NM',
    '020974040f9b40d5ad50302b6d32bd266bc3e24faf1ebfd7638e745aea3e002858a88f9e75fff4a87cab82bd7901fdeb501f55f397e1ebb9c6cd4ba4563b3cf40e767d1b8d3e5d8709d561f190220b5ed1566b3af7e12069e43d60e0dce34899540571816a1f789985f9f36661844ab3dce7ccdee078467d5dd018631ace908b0d02000204fd1724385aa0c75b64fb78cd602fa1d991fdebf76b13c58ed702eac835e9f618ea4a6c63e29c520abef5507b132ec5f9954776aebebe7b92421eea691446d22c00000000000000000000000000000000000000000000000000000000000000000306466fe5211732ffecadba72c39be7bc8ce5bbc5f7126b2c439b3a40000000c49ae77603782054f17a9decea43b444eba0edb12c6f1d31c6e0e4a84bf052eb0303000502cf0700000300090305554c0000000000020201000c02000000002f685900000000',
  ])
})

test('an amount that the wire would change is refused', async () => {
  for (const amount of [2n ** 64n, -1n]) await expect(sign(keys, planOf({amount}))).rejects.toThrow('cannot move')
})
