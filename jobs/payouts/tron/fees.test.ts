// What transactions of Tron cost: no less than nodes ask for.
import {randomBytes} from 'node:crypto'
import {expect, test} from 'vitest'
import {settingsFrom} from '../../../chains/settings.ts'
import {addressOf} from '../../../chains/tron/address.ts'
import {tronSettings} from '../../../chains/tron/settings.ts'
import {encodeTransaction, reference, transactionOf, transferData} from '../../../chains/tron/transaction.ts'
import {bandwidthFee, tooDear, transferBytes} from './fees.ts'

const settings = (more = {}) => tronSettings(settingsFrom('TRON', more))
const prices = (byte: bigint, activation = 1_100_000n) => ({byte, activation})

test('no payment has more bytes than are counted, and few have fewer', () => {
  const someAddress = () => addressOf(Uint8Array.of(0x41, ...randomBytes(20)))
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
