// Headers that a source shows, one after the other, made with the little work that regtest asks for.
import {expect, test} from 'vitest'
import {type BlockHeader, parseHeader} from '../../chains/bitcoin/block.ts'
import {chain} from '../../chains/registry.ts'
import {HeaderChain} from './headers.ts'

const bitcoin = chain('BTC')
if (bitcoin.family !== 'bitcoin') throw new Error('BTC is of another family')
const {regtest, signet, testnet4} = bitcoin.networks
const base = {height: 0, hash: regtest.genesis}

function headerOn(parentHash: string, bits = regtest.easiestBits): BlockHeader {
  const bytes = Buffer.alloc(80)
  Buffer.from(parentHash, 'hex').reverse().copy(bytes, 4)
  bytes.writeUInt32LE(bits, 72)
  for (let nonce = 0; ; nonce++) {
    bytes.writeUInt32LE(nonce, 76)
    try {
      return parseHeader(bytes)
    } catch {} // not enough work
  }
}

test('headers that link are accepted, and others are refused', () => {
  const headers = new HeaderChain(base, regtest.easiestBits)
  const first = headerOn(base.hash)
  expect(headers.extend([first, headerOn(first.hash)])).toBe(true)
  expect(headers.top.height).toBe(2)
  expect(headers.extend([first])).toBe(false)
  const {hash} = headers.top
  expect(() => headers.extend([headerOn(hash), headerOn(hash)])).toThrow('do not link')
  expect(headers.top).toEqual({height: 2, hash})
})

test.each([signet, testnet4])('a header with less work than any of its network is refused', ({easiestBits}) => {
  const headers = new HeaderChain(base, easiestBits)
  expect(() => headers.extend([headerOn(base.hash)])).toThrow('takes less work than its network allows')
  expect(headers.top).toEqual(base)
})
