// Custody's signatures for Solana: the bytes that @solana/kit makes of the same payment and key.
import {createPublicKey, verify} from 'node:crypto'
import {expect, test} from 'vitest'
import {addressOf, bytesOf} from '../../chains/solana/address.ts'
import {messageOf, parsePayment} from '../../chains/solana/message.ts'
import {ed25519} from '../ed25519.ts'
import type {KeyStore} from '../keys.ts'
import type {SolanaPlan} from './judge.ts'
import {sign} from './sign.ts'

const key = new Uint8Array(32).fill(7)
const keys: KeyStore = {
  publicKey: async () => ed25519.publicKey(key),
  sign: async (_, message) => ed25519.sign(key, message),
}

const planOf = (more: Partial<SolanaPlan> = {}) =>
  ({
    source: addressOf(ed25519.publicKey(key)),
    destination: '5SHQQrjzHCMkZZJzYNhx9szLeYsVCYw4NNr8p7xT9BAY',
    amount: 1_500_000_000n,
    blockhash: 'EETubP5AKHgjPAhzPAFcb8BAY1hMH639CWCFTqi3hq1k',
    computeUnitLimit: 1999,
    priorityFee: 10_000n,
    maxFee: 15_000n,
    lifetime: {from: 70, end: 251, clock_ms: 1_790_000_090_400},
    ...more,
  }) as SolanaPlan

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
  const {signature, ...payment} = parsePayment(other.raw)
  const signer = createPublicKey({key: spki, format: 'der', type: 'spki'})
  expect(verify(null, messageOf(payment), signer, signature)).toBe(true)
})

test('an amount that the wire would change is refused', async () => {
  for (const amount of [2n ** 64n, -1n]) await expect(sign(keys, planOf({amount}))).rejects.toThrow('cannot move')
})
