// Test vectors from the standards and from other software.
import {createHash, createPublicKey, verify} from 'node:crypto'
import {mnemonicToSeed} from '@scure/bip39'
import {pointCompress} from 'tiny-secp256k1'
import {hexToBytes, recoverAddress} from 'viem'
import {expect, test} from 'vitest'
import {readSettings} from '../../chains/settings.ts'
import {addressOf as evmAddressOf} from '../evm/sign.ts'
import {families} from '../families.ts'
import {deriver} from './addresses.ts'
import {type KeyPath, localKeys} from './key-store.ts'
import {sealOf} from './seal.ts'
import {readSignature} from './secp256k1.ts'

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')
const junk = 'test test test test test test test test test test test junk'
const abandon = 'abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon about'

const addressOf = async (phrase: string, path: KeyPath, settings: Record<string, string> = {}) =>
  await deriver(await localKeys(phrase, families), readSettings(settings).chains)(path)

// The first two vectors of BIP-39's reference implementation, with the passphrase TREZOR. They would show a broken
// library.
test.each([
  [
    abandon,
    'c55257c360c07c72029aebc1b53c05ed0362ada38ead3e3e9efa3708e53495531f09a6987599d18264c1e1c92f2cf141630c7a3c4ab7c81b2f001698e7463b04',
  ],
  [
    'legal winner thank year wave sausage worth useful legal winner thank yellow',
    '2e8905819b8723fe2c1d161860e5ee1830318dbf49a83bd451cfb8440c28bd6fa457fe1296106559a3c80937a1c1069be3a3a5bd381ee6260e8d9739fce1f607',
  ],
])('BIP-39: the phrase "%s" gives the seed of the standard', async (phrase, seed) => {
  expect(hex(await mnemonicToSeed(phrase, 'TREZOR'))).toBe(seed)
})

// The first is the phrase of anvil and Hardhat, whose accounts their documentation lists; the second is the first one
// of the BIP-39 test vectors, whose Ethereum accounts are as widely known.
test.each([
  [
    junk,
    {
      0: '0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266',
      1: '0x70997970C51812dc3A010C7d01b50e0d17dc79C8',
      2: '0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC',
      9: '0xa0Ee7A142d267C1f36714E4a8F75612F20a79720',
    },
  ],
  [abandon, {0: '0x9858EfFD232B4033E47d90003D41EC34EcaEda94', 1: '0x6Fac4D18c912343BF86fa7049364Dd4E424Ab9C0'}],
])(
  "BIP-44 and EIP-55: deposit addresses of \"%s\" are those of m/44'/60'/0'/0 in every wallet",
  async (phrase, known) => {
    for (const [index, address] of Object.entries(known))
      expect(await addressOf(phrase, {family: 'evm', purpose: 'deposit', index: Number(index)})).toBe(address)
  },
)

test('the treasury is on account 1, apart from every deposit address', async () => {
  const {mnemonicToAccount} = await import('viem/accounts')
  const treasury = mnemonicToAccount(junk, {path: "m/44'/60'/1'/0/0"}).address
  expect(await addressOf(junk, {family: 'evm', purpose: 'treasury', index: 0})).toBe(treasury)
})

// The mainnet addresses of this phrase are the vectors of BIP-84; these are those of the test networks' coin, as every
// wallet shows them.
test("BIP-84: Bitcoin addresses are those of m/84'/1'/0'/0 in every wallet, with the prefix of their network", async () => {
  const deposit = {family: 'bitcoin', purpose: 'deposit'} as const
  expect(await addressOf(abandon, {...deposit, index: 0})).toBe('tb1q6rz28mcfaxtmd6v789l9rrlrusdprr9pqcpvkl')
  expect(await addressOf(abandon, {...deposit, index: 1})).toBe('tb1qd7spv5q28348xl4myc8zmh983w5jx32cjhkn97')
  expect(await addressOf(abandon, {...deposit, index: 0}, {BTC_NETWORK: 'signet'})).toBe(
    'tb1q6rz28mcfaxtmd6v789l9rrlrusdprr9pqcpvkl',
  )
  expect(await addressOf(abandon, {...deposit, index: 0}, {BTC_NETWORK: 'regtest'})).toBe(
    'bcrt1q6rz28mcfaxtmd6v789l9rrlrusdprr9pz3cppk',
  )
})

test('Bitcoin: the treasury is on account 1', async () => {
  const {HDKey} = await import('viem/accounts')
  const key = HDKey.fromMasterSeed(await mnemonicToSeed(abandon)).derive("m/84'/1'/1'/0/0").publicKey!
  const treasury = {family: 'bitcoin', purpose: 'treasury', index: 0} as const
  expect(hex(await (await localKeys(abandon, families)).publicKey(treasury))).toBe(hex(key))
})

// The first two are those of this phrase in tronweb, TronLink and Ledger; the test compares more with tronweb.
test("BIP-44: Tron addresses are those of m/44'/195'/0'/0 in every wallet, and the treasury is on account 1", async () => {
  const {TronWeb} = await import('tronweb')
  const at = (purpose: KeyPath['purpose'], index: number) => addressOf(junk, {family: 'tron', purpose, index})
  expect(await at('deposit', 0)).toBe('TWer2Ygk5TEheHp3TPuYeqxmB6SsGZmaL6')
  expect(await at('deposit', 1)).toBe('TPjjvMwjPoDC32V2dGDYTkLH4E5LAtBZ6C')
  for (const index of [2, 7, 1000])
    expect(await at('deposit', index)).toBe(TronWeb.fromMnemonic(junk, `m/44'/195'/0'/0/${index}`).address)
  expect(await at('treasury', 0)).toBe(TronWeb.fromMnemonic(junk, "m/44'/195'/1'/0/0").address)
})

const paths: KeyPath[] = [
  {family: 'evm', purpose: 'deposit', index: 7},
  {family: 'evm', purpose: 'treasury', index: 0},
  {family: 'bitcoin', purpose: 'deposit', index: 7},
  {family: 'bitcoin', purpose: 'treasury', index: 0},
  {family: 'tron', purpose: 'deposit', index: 7},
  {family: 'tron', purpose: 'treasury', index: 0},
]

test('a signature is made with the key of its path, with a low s, and the same each time', async () => {
  const keys = await localKeys(junk, families)
  const digest = hexToBytes(`0x${'5a'.repeat(32)}`)
  for (const path of paths) {
    const signature = await keys.sign(path, digest)
    expect(await keys.sign(path, digest)).toEqual(signature)
    const {r, s, yParity} = readSignature(signature)
    expect(s).toBeLessThanOrEqual(0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0n)
    const words = {r: `0x${r.toString(16)}`, s: `0x${s.toString(16)}`, yParity} as const
    expect(await recoverAddress({hash: digest, signature: words})).toBe(evmAddressOf(await keys.publicKey(path)))
  }
})

// Signatures of @scure/bip32 and @noble/curves, which earlier versions used. A signature that is repeated must have the
// same bytes.
test('RFC 6979: signatures equal those of other implementations, byte for byte', async () => {
  const keys = await localKeys(junk, families)
  const hash = createHash('sha256')
  for (let index = 0; index < 300; index++) {
    const path: KeyPath = {family: 'evm', purpose: 'deposit', index}
    const {r, s, yParity} = readSignature(await keys.sign(path, createHash('sha256').update(String(index)).digest()))
    const publicKey = pointCompress(await keys.publicKey(path), false)
    hash.update(`${index} ${hex(publicKey)} ${r} ${s} ${yParity}\n`)
  }
  expect(hash.digest('hex')).toBe('973406bff75032de936d3515201aa04c600bffb52a8f04adec3db20f590107b0')
  const treasury = {family: 'evm', purpose: 'treasury', index: 0} as const
  const {r, s, yParity} = readSignature(await keys.sign(treasury, Buffer.alloc(32, 0xff)))
  expect([r.toString(16), s.toString(16), yParity]).toEqual([
    'cd75485fc18b54b68b7768f28ef5cdb6e9ed486f0602e504e1abd3dccd60c419',
    '52bd2f953cd3cd33c5067de24b5636a6946ac5ccbf5f24c44f62114a48346b4',
    1,
  ])
  const last = {family: 'evm', purpose: 'deposit', index: 2 ** 31 - 1} as const
  expect(hex(await keys.publicKey(last))).toBe('023c7971b098276fcf9b5f227eae708b7c8fb9f262ab2eabfb4b39515d3aeb7387')
})

// Every version makes this seal. With another seal, no journal entry would be valid.
test('the seal of a seed is always the same', async () => {
  const seal = await sealOf(await localKeys(junk, families))
  expect(seal('an entry')).toBe('gD0fxh440bS-mjh5t-zWtpu0uHNUy2--vasIV0GHQf4')
})

// The first accounts of this phrase on Solana, as every wallet shows them.
test("SLIP-0010: Solana addresses are those of m/44'/501'/i'/0' in every wallet, and the treasury is in the last account", async () => {
  const at = (purpose: KeyPath['purpose'], index: number) => addressOf(abandon, {family: 'solana', purpose, index})
  expect(await at('deposit', 0)).toBe('HAgk14JpMQLgt6rVgv7cBQFJWFto5Dqxi472uT3DKpqk')
  expect(await at('deposit', 1)).toBe('Hh8QwFUA6MtVu1qAoq12ucvFHNwCcVTV7hpWjeY1Hztb')
  expect(await at('treasury', 0)).toBe(await at('deposit', 2 ** 31 - 1))
})

test('a signature of Solana covers a whole message', async () => {
  const keys = await localKeys(abandon, families)
  const path: KeyPath = {family: 'solana', purpose: 'treasury', index: 0}
  const message = Buffer.from('of any length')
  const spki = Buffer.concat([Buffer.from('302a300506032b6570032100', 'hex'), await keys.publicKey(path)])
  const publicKey = createPublicKey({key: spki, format: 'der', type: 'spki'})
  expect(verify(null, message, publicKey, await keys.sign(path, message))).toBe(true)
})
