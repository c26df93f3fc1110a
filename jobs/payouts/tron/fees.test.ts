// What transactions of Tron cost: no less than nodes ask for.
import {randomBytes} from 'node:crypto'
import {expect, test} from 'vitest'
import {settingsFrom} from '../../../chains/settings.ts'
import {addressOf} from '../../../chains/tron/address.ts'
import {mostTokenBytesFee, tokenTransferBytes, transferBytes} from '../../../chains/tron/bytes.ts'
import {tronSettings} from '../../../chains/tron/settings.ts'
import {transferData as tokenTransferData} from '../../../chains/tron/token-transfers.ts'
import {callData, encodeTransaction, reference, transactionOf, transferData} from '../../../chains/tron/transaction.ts'
import {bandwidthFee, paymentEnergyFee, sweepEnergyFee, tooDear} from './fees.ts'

const settings = (more = {}) => tronSettings(settingsFrom('TRON', more))
const prices = (byte: bigint, activation = 1_100_000n) => ({byte, activation, energy: 100n})

const someAddress = () => addressOf(Uint8Array.of(0x41, ...randomBytes(20)))

test('no payment has more bytes than are counted, and few have fewer', () => {
  for (const amount of [1n, 10n ** 6n, 10n ** 17n, 2n ** 63n - 1n]) {
    const on = reference(70_000_000, randomBytes(32).toString('hex'))
    const frame = {...on, expiration: Date.now() + 600_000, timestamp: Date.now()}
    const data = transferData(frame, {from: someAddress(), to: someAddress(), amount})
    const bytes = BigInt(encodeTransaction(transactionOf(data, [randomBytes(65)])).length + 64)
    expect(bytes).toBeLessThanOrEqual(transferBytes)
    expect(bytes).toBeGreaterThan(transferBytes - 10n)
  }
})

test('nothing is begun while the network asks for more than is allowed', () => {
  expect(bandwidthFee(prices(1000n))).toBe(transferBytes * 1000n)
  expect(tooDear(settings(), prices(1000n))).toBeUndefined()
  expect(tooDear(settings(), prices(1110n))).toMatch('TRON_MAX_SWEEP_FEE allows 300000')
  expect(tooDear(settings(), prices(1000n, 1_100_001n))).toMatch('for a new account; TRON_MAX_PAYMENT_FEE')
  const cheap = settings({TRON_MAX_PAYMENT_FEE: '0.2'})
  expect(tooDear(cheap, prices(1000n, 0n))).toMatch('for its bytes; TRON_MAX_PAYMENT_FEE allows 200000')
})

test('a transfer of a token has no more bytes than are counted, and the settings allow a price for each', () => {
  for (const [amount, feeLimit] of [
    [1n, 1n],
    [2n ** 256n - 1n, 15_000_000_000n],
  ] as const) {
    const frame = {
      ...reference(70_000_000, randomBytes(32).toString('hex')),
      expiration: Date.now(),
      timestamp: Date.now(),
      feeLimit,
    }
    const [from, contract, to] = [someAddress(), someAddress(), someAddress()]
    const data = Buffer.from(tokenTransferData(to, amount), 'hex')
    const raw = callData(frame, {from, contract, value: 0n, data})
    const bytes = BigInt(encodeTransaction(transactionOf(raw, [randomBytes(65)])).length + 64)
    expect(bytes).toBeLessThanOrEqual(tokenTransferBytes)
    expect(bytes).toBeGreaterThan(tokenTransferBytes - 15n)
  }
  // At a price that is not too dear, the bytes of a transfer cost no more than what is counted.
  const dearest = settings().maxSweepFee / transferBytes
  expect(tooDear(settings(), prices(dearest))).toBeUndefined()
  expect(tokenTransferBytes * dearest).toBeLessThanOrEqual(mostTokenBytesFee(settings()))
})

test('a sweep is given a quarter more energy than it used, and a payment also what a new holder costs', () => {
  expect(sweepEnergyFee(65_000n, prices(1000n))).toEqual({expected: 6_500_000n, limit: 8_125_000n})
  expect(paymentEnergyFee(settings(), 65_000n, prices(1000n))).toEqual({expected: 6_500_000n, limit: 16_250_000n})
  const most = settings().tokenPaymentFee - mostTokenBytesFee(settings())
  expect(paymentEnergyFee(settings(), 150_000n, prices(1000n))).toEqual({expected: 15_000_000n, limit: most})
  expect(paymentEnergyFee(settings(), 240_000n, prices(1000n))).toBeUndefined()
})
