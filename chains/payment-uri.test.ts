import {parseURL} from '@solana/pay'
import {decode} from 'bip21'
// @ts-expect-error it has no types
import {parse} from 'eth-url-parser'
import {expect, test} from 'vitest'
import {type ChainSettings, formsOf} from './families.ts'
import type {Payment} from './family.ts'
import {forQr} from './payment-code.ts'
import {readSettings} from './settings.ts'

const settings = readSettings({}).chains
const ethereum = settings.get('ETH')!
const polygon = settings.get('POLYGON')!
const bitcoin = settings.get('BTC')!
const tron = settings.get('TRON')!
const solana = settings.get('SOL')!
const forms = new Map([
  ['evm', await formsOf(ethereum)],
  ['bitcoin', await formsOf(bitcoin)],
  ['tron', await formsOf(tron)],
  ['solana', await formsOf(solana)],
])
const paymentUri = (settings: ChainSettings, payment: Payment) =>
  forms.get(settings.family)!.paymentUri(settings, payment)
const person = '0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359'
const segwit = 'tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx'

test('a URI for ether has wei and the id of its chain (EIP-681)', () => {
  expect(paymentUri(ethereum, {token: 'ETH', address: person, amount: 2_014_000_000_000_000_000n})).toBe(
    `ethereum:${person}@11155111?value=2014000000000000000`,
  )
})

test('a URI for Polygon differs from Ethereum only by the id of the chain', () => {
  expect(paymentUri(polygon, {token: 'POL', address: person, amount: 1n})).toBe(`ethereum:${person}@80002?value=1`)
})

test('the chain id is the one in the settings of the chain', () => {
  const local = readSettings({ETH_CHAIN_ID: '31337'}).chains.get('ETH')!
  expect(paymentUri(local, {token: 'ETH', address: person, amount: 5n})).toBe(`ethereum:${person}@31337?value=5`)
})

test('a URI for a token is a transfer of its contract, in EIP-55 form, in base units', () => {
  expect(paymentUri(ethereum, {token: 'USDC', address: person, amount: 1_250_000n})).toBe(
    `ethereum:0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238@11155111/transfer?address=${person}&uint256=1250000`,
  )
  const other = readSettings({ETH_USDC_CONTRACT: '0xd1220a0cf47c7b9be7a2e6ba89f429762e7b9adb'}).chains.get('ETH')!
  expect(paymentUri(other, {token: 'USDC', address: person, amount: 1n})).toBe(
    `ethereum:0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb@11155111/transfer?address=${person}&uint256=1`,
  )
})

test.each([
  [2_030_000_000n, '20.3'],
  [1n, '0.00000001'],
  [100_000_000n, '1'],
  [123_456_789n, '1.23456789'],
  [2_099_999_997_690_000n, '20999999.9769'],
  [10n ** 30n + 1n, '10000000000000000000000.00000001'],
])('%d satoshi are %s bitcoin, without an exponent or zeros at the end (BIP-21)', (amount, coins) => {
  expect(paymentUri(bitcoin, {token: 'BTC', address: segwit, amount})).toBe(`bitcoin:${segwit}?amount=${coins}`)
})

test.each([
  [2_030_000_000n, '2.03'],
  [1n, '0.000000001'],
  [3_000_000_000n, '3'],
  [2n ** 64n - 1n, '18446744073.709551615'],
])('%d lamports are %s SOL, without an exponent or zeros at the end (Solana Pay)', (amount, coins) => {
  const address = 'HAgk14JpMQLgt6rVgv7cBQFJWFto5Dqxi472uT3DKpqk'
  expect(paymentUri(solana, {token: 'SOL', address, amount})).toBe(`solana:${address}?amount=${coins}`)
})

test('a URI for a token of Solana names its mint, as the parser of wallets reads it (Solana Pay)', () => {
  const address = 'HAgk14JpMQLgt6rVgv7cBQFJWFto5Dqxi472uT3DKpqk'
  const uri = paymentUri(solana, {token: 'USDC', address, amount: 12_345_678n})
  const mint = '4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU'
  expect(uri).toBe(`solana:${address}?amount=12.345678&spl-token=${mint}`)
  expect(parseURL(uri)).toMatchObject({recipient: address, amount: 12.345678, splToken: mint})
  const coins = parseURL(paymentUri(solana, {token: 'SOL', address, amount: 1_500_000_000n}))
  expect(coins).toMatchObject({recipient: address, amount: 1.5, splToken: undefined})
})

test.each([1n, 2n ** 53n + 1n, 2n ** 256n - 1n])('%d base units are written exactly', amount => {
  expect(paymentUri(ethereum, {token: 'ETH', address: person, amount})).toMatch(`?value=${amount}`)
  expect(paymentUri(ethereum, {token: 'USDC', address: person, amount})).toMatch(`&uint256=${amount}`)
})

test('an asset without a form that wallets know has the address only', () => {
  expect(paymentUri(polygon, {token: 'EURC', address: person, amount: 1n})).toBe(person)
  const address = 'TWer2Ygk5TEheHp3TPuYeqxmB6SsGZmaL6'
  expect(paymentUri(tron, {token: 'TRX', address, amount: 1n})).toBe(address)
})

test('parsers that wallets have read the same from the links: BIP-21 and EIP-681', async () => {
  const link = paymentUri(bitcoin, {token: 'BTC', address: segwit, amount: 123_456_789n})
  expect(decode(link)).toEqual({address: segwit, options: {amount: 1.23456789}})
  expect(decode(forQr(link)).address).toBe(segwit.toUpperCase())
  expect(forQr(link)).toBe(`bitcoin:${segwit.toUpperCase()}?amount=1.23456789`)
  const coin = parse(paymentUri(ethereum, {token: 'ETH', address: person, amount: 5n}))
  expect(coin).toMatchObject({target_address: person, chain_id: '11155111', parameters: {value: '5'}})
  const token = parse(paymentUri(polygon, {token: 'USDC', address: person, amount: 1_250_000n}))
  expect(token).toMatchObject({
    chain_id: '80002',
    function_name: 'transfer',
    parameters: {address: person, uint256: '1250000'},
  })
})

test('a QR code has bech32 in upper case, which is smaller; what means something by its case stays as it is', () => {
  const base58 = 'bitcoin:mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn?amount=1'
  for (const text of [base58, `ethereum:${person}@1?value=5`, person]) expect(forQr(text)).toBe(text)
})
