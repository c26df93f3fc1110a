import {BIP32Factory} from 'bip32'
import {address, initEccLib, networks, payments, script, Transaction} from 'bitcoinjs-lib'
import fc from 'fast-check'
import * as ecc from 'tiny-secp256k1'
import {describe, expect, test} from 'vitest'
import {
  costOfInput,
  leastFee,
  type Output,
  type Price,
  type Selection,
  selectAll,
  selectCancel,
  selectPayment,
  sum,
  virtualSize,
} from './select.ts'

initEccLib(ecc)
const key = BIP32Factory(ecc).fromSeed(Buffer.alloc(32, 7))
const p2wpkh = payments.p2wpkh({pubkey: key.publicKey}).output!

/** Addresses of each kind that payouts go to. */
const recipients = {
  P2PKH: 'mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn',
  P2SH: '2MzQwSSnBHWHqSAqtTVQ6v47XtaisrJa1Vc',
  P2WPKH: 'bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080',
  P2WSH: 'bcrt1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3qzf4jry',
  P2TR: 'bcrt1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqc8gma6',
}

/** The transaction as custody signs it. */
function signed(inputs: number, scripts: Uint8Array[], value = 100_000n): Transaction {
  const transaction = new Transaction()
  transaction.version = 2
  for (let i = 0; i < inputs; i++) transaction.addInput(Buffer.alloc(32, i + 1), i, 0xfffffffd)
  for (const output of scripts) transaction.addOutput(output, value)
  const code = payments.p2pkh({pubkey: key.publicKey}).output!
  for (let i = 0; i < inputs; i++) {
    const hash = transaction.hashForWitnessV0(i, code, value + BigInt(i), Transaction.SIGHASH_ALL)
    const signature = script.signature.encode(key.sign(hash), Transaction.SIGHASH_ALL)
    transaction.setWitness(i, [signature, key.publicKey])
  }
  return transaction
}

describe('a size', () => {
  test.each(Object.entries(recipients))('is the size of the signed bytes, for a payment to %s with change', (_, to) => {
    const scripts = [address.toOutputScript(to, networks.regtest), p2wpkh]
    for (const inputs of [1, 2, 3, 40, 252, 253]) {
      const size = virtualSize(
        inputs,
        scripts.map(({length}) => length),
      )
      const real = signed(inputs, scripts).virtualSize()
      expect(real).toBeLessThanOrEqual(size)
      expect(size - real).toBeLessThanOrEqual(1 + inputs / 3) // a signature may be one or two bytes shorter; each byte counts a quarter
    }
  })

  test('is right for 500 inputs, too', () => {
    const real = signed(500, [p2wpkh]).virtualSize()
    expect(virtualSize(500, [22]) - real).toBeGreaterThanOrEqual(0)
    expect(virtualSize(500, [22]) / real).toBeLessThan(1.005)
  })
})

describe('a fee', () => {
  test('is the rate for each byte, rounded up, and never above the cap', () => {
    expect(leastFee(141, {rate: 1.5, cap: 200})).toBe(212n)
    expect(leastFee(141, {rate: 200, cap: 200})).toBe(28_200n)
    expect(leastFee(141, {rate: 200.1, cap: 200})).toBeUndefined()
  })

  test('of a replacement is the fee of the replaced transaction plus at least 1.02 sat for each byte', () => {
    expect(leastFee(141, {rate: 1, cap: 200, replaces: 1000n})).toBe(1144n)
    expect(leastFee(141, {rate: 10, cap: 200, replaces: 1000n})).toBe(1410n)
    expect(leastFee(141, {rate: 10, cap: 200, replaces: 1000n, least: 1500n})).toBe(1500n)
    expect(leastFee(141, {rate: 1, cap: 8, replaces: 1000n})).toBeUndefined()
  })
})

const own = (...amounts: bigint[]) => amounts.map((amount, n) => output(amount, n, false))
const treasurys = (...amounts: bigint[]) => amounts.map((amount, n) => output(amount, n, true))
function output(amount: bigint, n: number, isTreasury: boolean): Output {
  return {outpoint: `${isTreasury ? 'ff' : '00'}:${n}`, amount, isTreasury}
}

const cheap: Price = {rate: 1, cap: 200}
const pay = (amount: bigint) => ({amount, scriptLength: 22})
const amountsOf = (found: ReturnType<typeof selectPayment>) => (found as Selection).inputs.map(({amount}) => amount)

describe('the inputs of a payment', () => {
  test("are the merchant's own, the largest first, as long as they are enough", () => {
    const found = selectPayment(pay(100_000n), [], [...treasurys(10n ** 8n), ...own(50_000n, 70_000n, 60_000n)], cheap)
    expect(amountsOf(found)).toEqual([70_000n, 60_000n])
    expect(found).toMatchObject({fee: 209n, change: 30_000n - 209n})
  })

  test("are all of the merchant's and the smallest of the treasury's that suffices, if the merchant's are not enough", () => {
    const may = [...own(50_000n, 30_000n), ...treasurys(10n ** 8n, 25_000n, 20_000n, 22_000n)]
    expect(amountsOf(selectPayment(pay(100_000n), [], may, cheap))).toEqual([50_000n, 30_000n, 22_000n])
  })

  test("are as few of the treasury's as possible, where no single one suffices", () => {
    const may = treasurys(60_000n, 30_000n, 45_000n, 41_000n)
    expect(amountsOf(selectPayment(pay(100_000n), [], may, cheap))).toEqual([60_000n, 41_000n])
  })

  test('exclude outputs that cost more than they bring', () => {
    const dear: Price = {rate: 50, cap: 200}
    expect(costOfInput(50)).toBe(3400n)
    expect(amountsOf(selectPayment(pay(10_000n), [], [...own(3400n, 3401n), ...treasurys(50_000n)], dear))).toEqual([
      3401n,
      50_000n,
    ])
  })

  test('include all required outputs, needed or not', () => {
    const must = own(500n, 90_000n, 80_000n)
    expect(selectPayment(pay(10_000n), must, treasurys(10n ** 8n), cheap)).toMatchObject({inputs: must})
  })

  test('leave no dust: change too small for an output goes to the fee', () => {
    const one = virtualSize(1, [22])
    const found = selectPayment(pay(10_000n), [], own(10_000n + BigInt(one) + 293n), cheap)
    expect(found).toMatchObject({change: 0n, fee: BigInt(one) + 293n})
  })

  test('leave no dust: if the cap forbids a higher fee, there is one more input', () => {
    const price: Price = {rate: 1, cap: 2}
    const amount = 10_000n + BigInt(virtualSize(1, [22])) + 293n
    expect(amountsOf(selectPayment(pay(10_000n), [], own(amount, 9_000n), price))).toEqual([amount, 9_000n])
  })

  test('fall short by the amount that is missing', () => {
    expect(selectPayment(pay(10_000n), [], own(10_000n), cheap)).toEqual({short: BigInt(virtualSize(1, [22]))})
    expect(selectPayment(pay(10_000n), [], [], cheap)).toEqual({short: 10_000n})
    expect(selectPayment(pay(10_000n), [], own(20_000n), {rate: 3, cap: 2})).toEqual({aboveCap: true})
  })
})

const outputs = (isTreasury: boolean, most: number) =>
  fc
    .array(fc.bigInt({min: 1n, max: 2_000_000n}), {maxLength: most})
    .map(amounts => amounts.map((amount, n) => output(amount, n, isTreasury)))
const prices = fc
  .record({
    rate: fc.integer({min: 1, max: 300}),
    cap: fc.integer({min: 1, max: 300}),
    replaces: fc.option(fc.bigInt({min: 100n, max: 50_000n})),
  })
  .map(({replaces, ...price}): Price => ({...price, ...(replaces !== null && {replaces})}))
const someSelection = fc.record({
  amount: fc.bigInt({min: 330n, max: 5_000_000n}),
  scriptLength: fc.constantFrom(22, 23, 25, 34),
  must: outputs(false, 20).map(all => all.map(one => ({...one, outpoint: `must ${one.outpoint}`}))),
  merchants: outputs(false, 30),
  treasurys: outputs(true, 30),
  price: prices,
})

test('for any outputs, no money is lost or created, no dust is made, and the fee is between rate and cap', () => {
  fc.assert(
    fc.property(someSelection, ({amount, scriptLength, must, merchants, treasurys, price}) => {
      const found = selectPayment({amount, scriptLength}, must, [...treasurys, ...merchants], price)
      if (!('inputs' in found)) return
      const {inputs, fee, change} = found
      const size = virtualSize(inputs.length, change ? [scriptLength, 22] : [scriptLength])
      expect(sum(inputs)).toBe(amount + fee + change)
      expect(change === 0n || change >= 294n).toBe(true)
      expect(Number(fee)).toBeLessThanOrEqual(price.cap * size)
      expect(fee).toBeGreaterThanOrEqual(leastFee(size, price)!)
      expect(inputs.slice(0, must.length)).toEqual(must)
      expect(new Set(inputs.map(({outpoint}) => outpoint)).size).toBe(inputs.length)
      for (const {amount: brought} of inputs.slice(must.length))
        expect(brought).toBeGreaterThan(costOfInput(price.rate))
    }),
    {numRuns: 3000},
  )
})

test('a payment that is reported short is impossible with all available outputs', () => {
  fc.assert(
    fc.property(someSelection, ({amount, scriptLength, must, merchants, treasurys, price}) => {
      const may = [...treasurys, ...merchants]
      const found = selectPayment({amount, scriptLength}, must, may, price)
      if (!('short' in found)) return
      const all = [...must, ...may.filter(one => one.amount > costOfInput(price.rate))]
      const fee = leastFee(virtualSize(all.length, [scriptLength, 22]), price)
      expect(fee === undefined || sum(all) - amount - fee < 294n).toBe(true)
    }),
    {numRuns: 3000},
  )
})

test("the treasury's outputs are not used while the merchant's are enough", () => {
  fc.assert(
    fc.property(someSelection, ({amount, scriptLength, must, merchants, treasurys, price}) => {
      const alone = selectPayment({amount, scriptLength}, must, merchants, price)
      if ('inputs' in alone)
        expect(selectPayment({amount, scriptLength}, must, [...treasurys, ...merchants], price)).toEqual(alone)
    }),
  )
})

test('a sweep moves everything but its fee, and never moves dust', () => {
  fc.assert(
    fc.property(outputs(false, 40), prices, (inputs, price) => {
      const found = selectAll(inputs, price)
      if (!('inputs' in found)) return
      expect(found.inputs).toEqual(inputs)
      expect(found.change).toBe(sum(inputs) - found.fee)
      expect(found.change).toBeGreaterThanOrEqual(294n)
    }),
  )
  expect(selectAll(own(403n), cheap)).toEqual({short: 1n})
  expect(selectAll(own(404n), cheap)).toMatchObject({fee: 110n, change: 294n})
})

test("a cancel takes the treasury's outputs only if its inputs cannot pay the fee, the largest first, and as few as it needs", () => {
  fc.assert(
    fc.property(outputs(false, 5), outputs(true, 5), prices, (must, may, price) => {
      const alone = selectAll(must, price)
      const found = selectCancel(must, may, price)
      if (!('short' in alone)) expect(found).toEqual(alone)
      if (!('inputs' in found)) return
      expect(found.inputs.slice(0, must.length)).toEqual(must)
      const added = found.inputs.slice(must.length)
      const amounts = added.map(({amount}) => amount)
      expect(amounts).toEqual([...amounts].sort((a, b) => Number(b - a)))
      expect(may).toEqual(expect.arrayContaining(added))
      if (added.length) expect(selectAll(found.inputs.slice(0, -1), price)).toHaveProperty('short')
    }),
  )
  const treasurys = [{outpoint: 'a:0', amount: 1000n, isTreasury: true}]
  expect(selectCancel(own(403n), treasurys, cheap)).toMatchObject({inputs: [...own(403n), ...treasurys]})
  expect(selectCancel(own(404n), treasurys, cheap)).toMatchObject({inputs: own(404n)})
  expect(selectCancel(own(403n), [], cheap)).toEqual({short: 1n})
})
