// Base58 against the vectors of its draft standard.
import fc from 'fast-check'
import {expect, test} from 'vitest'
import {fromBase58, toBase58} from './base58.ts'

// draft-msporny-base58, section 5, and the ends of 32 bytes.
test.each([
  [Buffer.from('Hello World!').toString('hex'), '2NEpo7TZRRrLZSi2U'],
  [
    Buffer.from('The quick brown fox jumps over the lazy dog.').toString('hex'),
    'USm3fpXnKG5EUBx2ndxBDMPVciP5hGey2Jh4NDv6gmeo1LkMeiKrLJUUBk6Z',
  ],
  ['0000287fb4cd', '11233QC4'],
  ['', ''],
  ['00'.repeat(32), '1'.repeat(32)],
  [`${'00'.repeat(31)}01`, `${'1'.repeat(31)}2`],
  ['ff'.repeat(32), 'JEKNVnkbo3jma5nREBBJCDoXFVeKkD56V3xKrvRmWxFG'],
])('%s is written %s', (hex, text) => {
  expect(toBase58(Buffer.from(hex, 'hex'))).toBe(text)
  expect(fromBase58(text)?.toString('hex')).toBe(hex)
})

test('bytes and texts are one to one', () => {
  fc.assert(
    fc.property(fc.uint8Array({maxLength: 70}), bytes => {
      expect(fromBase58(toBase58(bytes))).toEqual(Buffer.from(bytes))
    }),
  )
  fc.assert(
    fc.property(fc.stringMatching(/^[1-9A-HJ-NP-Za-km-z]{0,50}$/), text => {
      expect(toBase58(fromBase58(text)!)).toBe(text)
    }),
  )
})

test('other letters are refused', () => {
  for (const text of ['0', 'O', 'I', 'l', 'a b', ' ', 'é', '\u{1F600}']) expect(fromBase58(text)).toBeUndefined()
})
