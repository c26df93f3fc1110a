import {expect, test} from 'vitest'
import {searched} from './searched.ts'

const hex = 'ab12'.repeat(16)
const address = `0x${'Ab'.repeat(20)}`

test.each([
  [`  0x${hex} `, `0x${hex}`],
  [`https://sepolia.etherscan.io/tx/0x${hex}#eventlog`, `0x${hex}`],
  [`https://mempool.space/testnet4/tx/${hex}`, hex],
  [`https://sepolia.etherscan.io/address/${address}`, address],
  [`txid: 0x${hex}.`, `0x${hex}`],
  [`\u200b0x${hex}`, `0x${hex}`],
  [`0x${hex.slice(0, 30)}\n${hex.slice(30)}`, `0x${hex}`],
  [`${hex}:0`, hex],
  [hex.toUpperCase(), `0x${hex}`],
  [`0x${hex}`, hex],
  [`ethereum:${address}@1?value=5`, address],
  [`http://127.0.0.1:8080/pay/${'x'.repeat(32)}?lang=de`, 'x'.repeat(32)],
  [`DEP_${hex.slice(0, 32).toUpperCase()}`, `dep_${hex.slice(0, 32)}`],
  ['Bob@Example.com', 'bob@example.com'],
  ['"INV-1001"', 'INV-1001'],
  ['0x111062e5...dd6e45', '0x111062e5…dd6e45'],
  ['0x111062e5…dd6e45', '0x111062e5…dd6e45'],
  ['17USDC', '17 USDC'],
  ['USDC 17', '17 USDC'],
  ['0,25', '0.25'],
  ['30,000 JPYC', '30000 JPYC'],
  ['25 ETH-USDC', '25 USDC'],
])('%j is looked for as %j, too', (typed, text) => {
  expect(searched(typed)).toContain(text)
})

test('what was typed is looked for first, as it is; nothing that is too long is looked for', () => {
  expect(searched('Order 17')[0]).toBe('Order 17')
  expect(searched('0,25')[0]).toBe('0,25')
  const message = `Hello, I have paid! ${'x '.repeat(5000)} https://etherscan.io/tx/0x${hex}`
  expect(searched(message)).toEqual([`0x${hex}`, hex])
  for (const nothing of ['', ' ', '\u200b', 'x'.repeat(300)]) expect(searched(nothing)).toEqual([])
})
