// Payments of Solana in bytes: those that @solana/kit makes.
import {createPublicKey, verify} from 'node:crypto'
import fc from 'fast-check'
import {expect, test} from 'vitest'
import {addressOf, bytesOf, computeBudgetProgram, systemProgram} from './address.ts'
import {largestAmount, messageOf, type Payment, parsePayment, rawOf} from './message.ts'

/** Of the private key of 32 bytes 7. */
const from = 'GmaDrppBC7P5ARKV8g3djiwP89vz1jLK23V2GBjuAEGB'
const blockhash = 'EETubP5AKHgjPAhzPAFcb8BAY1hMH639CWCFTqi3hq1k'

/*
 * Written by @solana/kit 6.10.0, @solana-program/system 0.12.2 and @solana-program/compute-budget 0.15.0, in a folder of their own. For each payment:
 *   const source = await createKeyPairSignerFromPrivateKeyBytes(new Uint8Array(32).fill(7))
 *   const message = pipe(createTransactionMessage({version: 'legacy'}), m => setTransactionMessageFeePayerSigner(source, m),
 *     m => setTransactionMessageLifetimeUsingBlockhash({blockhash, lastValidBlockHeight: 0n}, m),
 *     m => appendTransactionMessageInstructions([getSetComputeUnitLimitInstruction({units}), getSetComputeUnitPriceInstruction({microLamports}),
 *       getTransferSolInstruction({source, destination: address(to), amount})], m))
 *   const signed = await signTransactionMessageWithSigners(message)
 *   getSignatureFromTransaction(signed), Buffer.from(getBase64EncodedWireTransaction(signed), 'base64').toString('hex')
 * The prices (microLamports) were 0, 5,002,501 and 18,446,744,073,709.
 */
const made: [more: Omit<Payment, 'from' | 'blockhash'>, txid: string, raw: string][] = [
  [
    {to: 'HAgk14JpMQLgt6rVgv7cBQFJWFto5Dqxi472uT3DKpqk', amount: 1n, computeUnitLimit: 1000, priorityFee: 0n},
    'FxdF9fNgR5rH3W4tGwWdusJBFZ5SEgaHhLUyMQXPm8rFjcZJXJ2TncG5xhKepUpMF9rEepV1iQQqrEG1KNSVFVp',
    '010ce66e0e72367c01b7065532960a1a5b9c4115d26428568f491c7284bc64d58e1712b9b1909ab28607368ef0c054c3a2ccfa6f2b5e2f1e88a277cc3dba60ad0f01000204ea4a6c63e29c520abef5507b132ec5f9954776aebebe7b92421eea691446d22cf036276246a75b9de3349ed42b15e232f6518fc20f5fcd4f1d64e81f9bd258f700000000000000000000000000000000000000000000000000000000000000000306466fe5211732ffecadba72c39be7bc8ce5bbc5f7126b2c439b3a40000000c49ae77603782054f17a9decea43b444eba0edb12c6f1d31c6e0e4a84bf052eb0303000502e8030000030009030000000000000000020200010c020000000100000000000000',
  ],
  [
    {
      to: '5SHQQrjzHCMkZZJzYNhx9szLeYsVCYw4NNr8p7xT9BAY',
      amount: 1_500_000_000n,
      computeUnitLimit: 1999,
      priorityFee: 10_000n,
    },
    'MRMPBQ3VRs5hoMKKCZ4q8mHD3hmGA5fUX9Qd35C9Jy8oRtjdjDbkSWmTYvjDpY6Tin3o9ScVTCJVRVrc17qMstF',
    '01119bfb6ef52d032ca9ff4c6e4f4288fb2a95be1cbb18392ab15dcaada5f686d9b544a403db343d1f8923eaab0c37d617d97f27c695d74fe4cb755e0035d6850401000204ea4a6c63e29c520abef5507b132ec5f9954776aebebe7b92421eea691446d22c41e8d0ca9956a6b95f7bfc7e185b15af14c9130d13bcb639b3c1de47b5994fd100000000000000000000000000000000000000000000000000000000000000000306466fe5211732ffecadba72c39be7bc8ce5bbc5f7126b2c439b3a40000000c49ae77603782054f17a9decea43b444eba0edb12c6f1d31c6e0e4a84bf052eb0303000502cf0700000300090305554c0000000000020200010c02000000002f685900000000',
  ],
  [
    {
      to: 'JEKNVnkbo3jma5nREBBJCDoXFVeKkD56V3xKrvRmWxFG',
      amount: largestAmount,
      computeUnitLimit: 1_000_000,
      priorityFee: 18_446_744_073_709n,
    },
    '5fAhixzUX597MfqQQssYXHqMAHjHvXQEHp5BQ7uMBHJJ7BF5ne78ErT98CE7uEmBjfXYTqAmJUVYfRYrdyTqokxT',
    '01e8fb64b46e2bd0dcd9df4d388011ef284698015e6bd9d60b1219688a68c99c8bb4e9475be189375dab16fc4b533a060bf109fda60e3e69ad1d39d1ef27d4090c01000204ea4a6c63e29c520abef5507b132ec5f9954776aebebe7b92421eea691446d22cffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff00000000000000000000000000000000000000000000000000000000000000000306466fe5211732ffecadba72c39be7bc8ce5bbc5f7126b2c439b3a40000000c49ae77603782054f17a9decea43b444eba0edb12c6f1d31c6e0e4a84bf052eb030300050240420f0003000903edb5a0f7c6100000020200010c02000000ffffffffffffffff',
  ],
]

/** RFC 8410: what precedes a public key. */
const spki = Buffer.concat([Buffer.from('302a300506032b6570032100', 'hex'), bytesOf(from)])
const signer = createPublicKey({key: spki, format: 'der', type: 'spki'})

test.each(made)('a payment has the bytes, the id and the signature that kit makes: %o', (more, txid, raw) => {
  const payment = {from, blockhash, ...more}
  const {signature, ...parsed} = parsePayment(raw)
  const message = messageOf(payment)
  expect(parsed).toEqual({...payment, txid})
  expect(rawOf(message, signature)).toBe(raw)
  expect(verify(null, message, signer, signature)).toBe(true)
})

const address = fc.uint8Array({minLength: 32, maxLength: 32}).map(addressOf)
const payments = fc.record({
  from: address,
  to: address,
  amount: fc.bigInt({min: 0n, max: largestAmount}),
  blockhash: address,
  computeUnitLimit: fc.integer({min: 1, max: 1_000_000}),
  priorityFee: fc.bigInt({min: 0n, max: 10n ** 12n}),
})

test('what is read from a payment is what was written, with the exact fee', () => {
  fc.assert(
    fc.property(payments, payment => {
      const raw = rawOf(messageOf(payment), new Uint8Array(64))
      expect(parsePayment(raw)).toMatchObject(payment)
    }),
  )
})

test('another limit makes another message, at the same fee', () => {
  const payment = {from, blockhash, ...made[0]![0], priorityFee: 777n}
  const limits = Array.from({length: 1000}, (_, n) => 1000 + n)
  const raws = limits.map(computeUnitLimit => rawOf(messageOf({...payment, computeUnitLimit}), new Uint8Array(64)))
  expect(new Set(raws).size).toBe(1000)
  expect(new Set(raws.map(raw => parsePayment(raw).priorityFee))).toEqual(new Set([777n]))
})

test('what the wire would change, or a node refuse, is refused', () => {
  const payment = {from, blockhash, ...made[0]![0]}
  for (const amount of [-1n, 2n ** 64n]) expect(() => messageOf({...payment, amount})).toThrow('cannot move')
  for (const computeUnitLimit of [0, -1, 1_000_001])
    expect(() => messageOf({...payment, computeUnitLimit})).toThrow('no limit')
  for (const to of [from, systemProgram, computeBudgetProgram])
    expect(() => messageOf({...payment, to})).toThrow('cannot pay')
  for (const priorityFee of [-1n, 2n ** 64n]) expect(() => messageOf({...payment, priorityFee})).toThrow(RangeError)
  for (const hash of ['', 'abc', `${blockhash}1`])
    expect(() => messageOf({...payment, blockhash: hash})).toThrow('no hash of a block')
})

test('bytes that are not exactly those of a payment are refused', () => {
  const [payment, , raw] = made[1]!
  expect(parsePayment(raw).amount).toBe(payment.amount)
  for (const other of ['', 'zz', raw.slice(2), `${raw}00`, `02${raw.slice(2)}`])
    expect(() => parsePayment(other)).toThrow(RangeError)
  const bytes = Buffer.from(raw, 'hex')
  /** The places of the signature, the payer, the recipient, the blockhash, the limit and the amount: the rest is the same in all payments. */
  const varies = (i: number) => (i >= 1 && i < 133) || (i >= 197 && i < 229) || (i >= 234 && i < 238) || i >= 259
  for (const i of bytes.keys()) {
    const changed = Buffer.from(bytes)
    changed[i]! ^= 1
    if (!varies(i)) expect(() => parsePayment(changed.toString('hex')), String(i)).toThrow(RangeError)
  }
})
