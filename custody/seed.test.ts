import {mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {validateMnemonic} from '@scure/bip39'
import {wordlist} from '@scure/bip39/wordlists/english.js'
import {afterEach, beforeEach, expect, test} from 'vitest'
import {createSeed, evmAddresses, readSeed} from './seed.ts'

let home: string
beforeEach(() => {
  home = path.join(mkdtempSync(path.join(tmpdir(), 'sluice-seed-')), 'home')
})
afterEach(() => rmSync(path.dirname(home), {recursive: true}))

// The first is the phrase of anvil and Hardhat, whose accounts their documentation lists; the second is the first one of the BIP-39 test
// vectors, whose Ethereum accounts are as widely known.
test.each([
  [
    'test test test test test test test test test test test junk',
    {
      0: '0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266',
      1: '0x70997970C51812dc3A010C7d01b50e0d17dc79C8',
      2: '0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC',
      9: '0xa0Ee7A142d267C1f36714E4a8F75612F20a79720',
    },
  ],
  [
    'abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon about',
    {0: '0x9858EfFD232B4033E47d90003D41EC34EcaEda94', 1: '0x6Fac4D18c912343BF86fa7049364Dd4E424Ab9C0'},
  ],
])('the phrase "%s" gives the addresses that every wallet gives', async (phrase, known) => {
  const derive = await evmAddresses(phrase)
  for (const [index, address] of Object.entries(known)) expect(derive(Number(index))).toBe(address)
})

test('a new seed is a phrase of 24 words in a file that only its owner may read', () => {
  expect(readSeed(home)).toBeUndefined()
  const phrase = createSeed(home)
  expect(phrase.split(' ')).toHaveLength(24)
  expect(validateMnemonic(phrase, wordlist)).toBe(true)
  expect(statSync(path.join(home, 'seed')).mode & 0o777).toBe(0o600)
  expect(readFileSync(path.join(home, 'seed'), 'utf8')).toBe(`${phrase}\n`)
  expect(readdirSync(home)).toEqual(['seed'])
})

test('a seed is never written over', () => {
  const phrase = createSeed(home)
  expect(createSeed(home)).toBe(phrase)
  expect(readSeed(home)).toBe(phrase)
})

test('a phrase with other spaces between its words is the same phrase', () => {
  const phrase = createSeed(home)
  writeFileSync(path.join(home, 'seed'), `  ${phrase.replaceAll(' ', '\n')} \n\n`)
  expect(readSeed(home)).toBe(phrase)
})

test.each(['', 'test test test', 'abandon '.repeat(12).trim()])(
  'a file that holds "%s" is refused, and not shown',
  text => {
    createSeed(home)
    writeFileSync(path.join(home, 'seed'), text)
    expect(() => readSeed(home)).toThrow(/seed does not hold a BIP-39 phrase; restore it from a backup$/)
  },
)
