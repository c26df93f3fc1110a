// Payments of Solana in bytes: those that @solana/kit makes.
import {createPublicKey, verify} from 'node:crypto'
import {
  type AccountMeta,
  AccountRole,
  decompileTransactionMessage,
  getCompiledTransactionMessageDecoder,
  getTransactionDecoder,
} from '@solana/kit'
import {parseCreateAssociatedTokenIdempotentInstruction, parseTransferCheckedInstruction} from '@solana-program/token'
import fc from 'fast-check'
import {expect, test} from 'vitest'
import {addressOf, bytesOf, computeBudgetProgram, systemProgram, token2022Program, tokenProgram} from './address.ts'
import {largestAmount, messageOf, type Payment, parsePayment, rawOf, signersOf} from './message.ts'
import {associatedAccount} from './tokens.ts'

/** Of the private key of 32 bytes 7. */
const from = 'GmaDrppBC7P5ARKV8g3djiwP89vz1jLK23V2GBjuAEGB'
/** Of the private key of 32 bytes 9: who pays the fee of what it receives. */
const payer = 'J2xccRtuG43drESLYznHhLhQkLTdfepcKYbiQ9BsJVaf'
const blockhash = 'EETubP5AKHgjPAhzPAFcb8BAY1hMH639CWCFTqi3hq1k'

/*
 * Written by @solana/kit 6.10.0, @solana-program/system 0.12.2 and @solana-program/compute-budget 0.15.0, in a folder
 * of their own. For each payment:
 *   const source = await createKeyPairSignerFromPrivateKeyBytes(new Uint8Array(32).fill(7))
 *   const message = pipe(createTransactionMessage({version: 'legacy'}),
 *     m => setTransactionMessageFeePayerSigner(source, m),
 *     m => setTransactionMessageLifetimeUsingBlockhash({blockhash, lastValidBlockHeight: 0n}, m),
 *     m => appendTransactionMessageInstructions([getSetComputeUnitLimitInstruction({units}),
 *       getSetComputeUnitPriceInstruction({microLamports}),
 *       getTransferSolInstruction({source, destination: address(to), amount})], m))
 *   const signed = await signTransactionMessageWithSigners(message)
 *   getSignatureFromTransaction(signed), Buffer.from(getBase64EncodedWireTransaction(signed), 'base64').toString('hex')
 * The prices (microLamports) were 0, 5,002,501 and 18,446,744,073,709; of the last two, whose fee payer is another
 * signer, 0 and 5,002,501.
 */
const made: [
  more: Omit<Payment, 'from' | 'feePayer' | 'blockhash'> & {feePayer?: string},
  txid: string,
  raw: string,
][] = [
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
  [
    {to: payer, feePayer: payer, amount: 1n, computeUnitLimit: 1000, priorityFee: 0n},
    '3cHcqB5pdEoxCwF4gHd7Q3ZF3NrnNUDMErL7t3MfLqaKuK1Xdpsgf4MAA9R7mWPiBGTLosyKt2AFz9kEQa5jX837',
    '028276b814d81b0d133bed18fbd3bec4cb4abcb74687e4ef139ca13844c3912ad1c4249c38766bbcd6e7c39f46670917d4311d19f5e101e47e0857f46398e21b067f477234402b82726b1191ce2215532f4dfa4d975e55de6c94883bf090cbe544d9faeb68329805a9775a4c3a1e0e938e6be3d69927ce9d221706b1685c278f0802000204fd1724385aa0c75b64fb78cd602fa1d991fdebf76b13c58ed702eac835e9f618ea4a6c63e29c520abef5507b132ec5f9954776aebebe7b92421eea691446d22c00000000000000000000000000000000000000000000000000000000000000000306466fe5211732ffecadba72c39be7bc8ce5bbc5f7126b2c439b3a40000000c49ae77603782054f17a9decea43b444eba0edb12c6f1d31c6e0e4a84bf052eb0303000502e8030000030009030000000000000000020201000c020000000100000000000000',
  ],
  [
    {to: payer, feePayer: payer, amount: 1_500_000_000n, computeUnitLimit: 1999, priorityFee: 10_000n},
    'Bxo4vWyckuxLR9AUFrmCsED7pFzmMKXGk2Azj2Smychh5D4UadURbZCSD4uzRVF16ihM8uNWD3QpDskwRm9V7NM',
    '020974040f9b40d5ad50302b6d32bd266bc3e24faf1ebfd7638e745aea3e002858a88f9e75fff4a87cab82bd7901fdeb501f55f397e1ebb9c6cd4ba4563b3cf40e767d1b8d3e5d8709d561f190220b5ed1566b3af7e12069e43d60e0dce34899540571816a1f789985f9f36661844ab3dce7ccdee078467d5dd018631ace908b0d02000204fd1724385aa0c75b64fb78cd602fa1d991fdebf76b13c58ed702eac835e9f618ea4a6c63e29c520abef5507b132ec5f9954776aebebe7b92421eea691446d22c00000000000000000000000000000000000000000000000000000000000000000306466fe5211732ffecadba72c39be7bc8ce5bbc5f7126b2c439b3a40000000c49ae77603782054f17a9decea43b444eba0edb12c6f1d31c6e0e4a84bf052eb0303000502cf0700000300090305554c0000000000020201000c02000000002f685900000000',
  ],
]

/** RFC 8410: what precedes a public key. */
const spki = Buffer.from('302a300506032b6570032100', 'hex')
const keyOf = (address: string) =>
  createPublicKey({key: Buffer.concat([spki, bytesOf(address)]), format: 'der', type: 'spki'})

test.each(made)('a payment has the bytes, the id and the signatures that kit makes: %o', (more, txid, raw) => {
  const payment: Payment = {from, feePayer: from, blockhash, ...more}
  const {signatures, ...parsed} = parsePayment(raw)
  const message = messageOf(payment)
  expect(parsed).toEqual({...payment, txid})
  expect(rawOf(message, signatures)).toBe(raw)
  expect(signersOf(payment).map((each, i) => verify(null, message, keyOf(each), signatures[i]!))).toEqual(
    signatures.map(() => true),
  )
})

const address = fc.uint8Array({minLength: 32, maxLength: 32}).map(addressOf)
const payments = fc
  .record({
    from: address,
    to: address,
    paidBy: fc.constantFrom('from', 'to'),
    amount: fc.bigInt({min: 0n, max: largestAmount}),
    blockhash: address,
    computeUnitLimit: fc.integer({min: 1, max: 1_000_000}),
    priorityFee: fc.bigInt({min: 0n, max: 10n ** 12n}),
  })
  .map(({paidBy, ...rest}): Payment => ({...rest, feePayer: rest[paidBy]}))
const empty = new Uint8Array(64)
const unsigned = (payment: Payment) =>
  rawOf(
    messageOf(payment),
    signersOf(payment).map(() => empty),
  )

test('what is read from a payment is what was written, with the exact fee', () => {
  fc.assert(
    fc.property(payments, payment => {
      expect(parsePayment(unsigned(payment))).toMatchObject(payment)
    }),
  )
})

test('another limit makes another message, at the same fee', () => {
  const payment = {from, feePayer: from, blockhash, ...made[0]![0], priorityFee: 777n}
  const limits = Array.from({length: 1000}, (_, n) => 1000 + n)
  const raws = limits.map(computeUnitLimit => unsigned({...payment, computeUnitLimit}))
  expect(new Set(raws).size).toBe(1000)
  expect(new Set(raws.map(raw => parsePayment(raw).priorityFee))).toEqual(new Set([777n]))
})

test('what the wire would change, or a node refuse, is refused', () => {
  const payment = {from, feePayer: from, blockhash, ...made[0]![0]}
  expect(() => messageOf({...payment, feePayer: payer})).toThrow('cannot pay the fee of others')
  for (const amount of [-1n, 2n ** 64n]) expect(() => messageOf({...payment, amount})).toThrow('cannot move')
  for (const computeUnitLimit of [0, -1, 1_000_001])
    expect(() => messageOf({...payment, computeUnitLimit})).toThrow('no limit')
  for (const to of [from, systemProgram, computeBudgetProgram])
    expect(() => messageOf({...payment, to})).toThrow('cannot pay')
  for (const priorityFee of [-1n, 2n ** 64n]) expect(() => messageOf({...payment, priorityFee})).toThrow(RangeError)
  for (const hash of ['', 'abc', `${blockhash}1`])
    expect(() => messageOf({...payment, blockhash: hash})).toThrow('no hash of a block')
})

test.each([
  ['one', 1, 1],
  ['two', 2, 4],
])('bytes that are not exactly those of a payment with %s signatures are refused', (_count, signers, index) => {
  const [payment, , raw] = made[index]!
  expect(parsePayment(raw).amount).toBe(payment.amount)
  for (const other of ['', 'zz', raw.slice(2), `${raw}00`, `0${3 - signers}${raw.slice(2)}`, `03${raw.slice(2)}`])
    expect(() => parsePayment(other)).toThrow(RangeError)
  const bytes = Buffer.from(raw, 'hex')
  const message = 1 + 64 * signers
  /**
   * The places of the signatures, the two accounts, the blockhash, the limit and the amount: the rest is the same in
   * all such payments.
   */
  const spans = [
    [1, message],
    [message + 4, message + 68],
    [message + 132, message + 164],
    [message + 169, message + 173],
    [message + 194, bytes.length],
  ] as const
  for (const i of bytes.keys()) {
    const changed = Buffer.from(bytes)
    changed[i]! ^= 1
    if (!spans.some(([start, end]) => i >= start && i < end))
      expect(() => parsePayment(changed.toString('hex')), String(i)).toThrow(RangeError)
  }
})

// --- tokens ---

const usdc = 'EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v'
const wallet = '5SHQQrjzHCMkZZJzYNhx9szLeYsVCYw4NNr8p7xT9BAY'
const [itsAccount, ourAccount] = [wallet, payer].map(owner => associatedAccount(owner, usdc, 'token')) as [
  string,
  string,
]
const ofToken: Payment = {
  ...{from: payer, feePayer: payer, to: itsAccount, amount: 1_500_000n, blockhash},
  ...{computeUnitLimit: 150_007, priorityFee: 777n},
  token: {program: tokenProgram, mint: usdc, decimals: 6, fromAccount: ourAccount, madeFor: wallet},
}

/** As kit and the client of the Token program read it. */
function readByKit(raw: string) {
  const {messageBytes} = getTransactionDecoder().decode(Buffer.from(raw, 'hex'))
  const compiled = getCompiledTransactionMessageDecoder().decode(messageBytes)
  if (compiled.version !== 'legacy') throw new Error('not legacy')
  const {instructions, feePayer} = decompileTransactionMessage(compiled)
  return {compiled, feePayer, instructions: instructions as never[]}
}
const roles = (accounts: object) =>
  Object.entries(accounts as Record<string, AccountMeta>).map(([name, {address, role}]) => [name, address, role])
const {WRITABLE, READONLY, READONLY_SIGNER, WRITABLE_SIGNER} = AccountRole

test('a payment of a token says to kit what it says here, with no account more than is needed', () => {
  const {compiled, feePayer, instructions} = readByKit(unsigned(ofToken))
  expect([feePayer.address, compiled.staticAccounts.length, instructions.length]).toEqual([payer, 9, 4])
  const create = parseCreateAssociatedTokenIdempotentInstruction(instructions[2]!)
  expect(roles(create.accounts)).toEqual([
    ['payer', payer, WRITABLE_SIGNER],
    ['ata', itsAccount, WRITABLE],
    ['owner', wallet, READONLY],
    ['mint', usdc, READONLY],
    ['systemProgram', systemProgram, READONLY],
    ['tokenProgram', tokenProgram, READONLY],
  ])
  const transfer = parseTransferCheckedInstruction(instructions[3]!)
  expect(transfer.data).toMatchObject({discriminator: 12, amount: 1_500_000n, decimals: 6})
  expect(roles(transfer.accounts)).toEqual([
    ['source', ourAccount, WRITABLE],
    ['mint', usdc, READONLY],
    ['destination', itsAccount, WRITABLE],
    ['authority', payer, WRITABLE_SIGNER],
  ])
})

test('who owns what is swept signs, and can lose nothing else by it: its account cannot be written', () => {
  const {madeFor: _, ...token} = ofToken.token!
  const sweep = {...ofToken, from, to: ourAccount, token: {...token, fromAccount: itsAccount}}
  expect(signersOf(sweep)).toEqual([payer, from])
  const {instructions} = readByKit(unsigned(sweep))
  expect(instructions).toHaveLength(3)
  expect(roles(parseTransferCheckedInstruction(instructions[2]!).accounts).at(-1)).toEqual([
    'authority',
    from,
    READONLY_SIGNER,
  ])
})

const tokenPayments = fc
  .record({
    ...{
      from: address,
      feePayer: address,
      to: address,
      fromAccount: address,
      mint: address,
      madeFor: fc.option(address),
    },
    ...{
      blockhash: address,
      program: fc.constantFrom(tokenProgram, token2022Program),
      decimals: fc.integer({min: 0, max: 255}),
    },
    ...{
      amount: fc.bigInt({min: 0n, max: largestAmount}),
      isOwnFee: fc.boolean(),
      limit: fc.integer({min: 1, max: 1_000_000}),
    },
    priorityFee: fc.bigInt({min: 0n, max: 10n ** 12n}),
  })
  .map(({isOwnFee, fromAccount, mint, madeFor, program, decimals, limit, feePayer, ...rest}): Payment => {
    const token = {program, mint, decimals, fromAccount, ...(madeFor && {madeFor})}
    return {...rest, feePayer: isOwnFee ? rest.from : feePayer, computeUnitLimit: limit, token}
  })

test('what is read from a payment of a token is what was written', () => {
  fc.assert(
    fc.property(tokenPayments, payment => {
      expect(parsePayment(unsigned(payment))).toMatchObject(payment)
    }),
  )
})

test('bytes that differ anywhere are another payment of a token, or none', () => {
  const raw = Buffer.from(unsigned(ofToken), 'hex')
  for (const i of raw.keys()) {
    const changed = Buffer.from(raw)
    changed[i]! ^= 1
    const text = changed.toString('hex')
    try {
      const {txid: _, signatures, ...payment} = parsePayment(text)
      expect(rawOf(messageOf(payment), signatures), String(i)).toBe(text)
      if (i > 64) expect(payment, String(i)).not.toEqual(ofToken)
    } catch (error) {
      expect(error, String(i)).toBeInstanceOf(RangeError)
    }
  }
  for (let length = 0; length < raw.length; length++)
    expect(() => parsePayment(raw.subarray(0, length).toString('hex')), String(length)).toThrow(RangeError)
})
