// Known answers, from the standards and from other people's software.
import {mnemonicToSeed} from '@scure/bip39'
import {hexToBytes, recoverAddress} from 'viem'
import {expect, test} from 'vitest'
import {localKeys} from './keys.ts'
import {derive} from './pool.ts'

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')
const junk = 'test test test test test test test test test test test junk'
const abandon = 'abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon about'

// The first two vectors of BIP-39's reference implementation, whose passphrase is TREZOR; here to tell a broken library.
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

// The first is the phrase of anvil and Hardhat, whose accounts their documentation lists; the second is the first one of the BIP-39 test
// vectors, whose Ethereum accounts are as widely known.
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
    const keys = await localKeys(phrase)
    for (const [index, address] of Object.entries(known))
      expect(await derive(keys, {purpose: 'deposit', index: Number(index)})).toBe(address)
  },
)

test('the treasury is on account 1, apart from every deposit address', async () => {
  const {mnemonicToAccount} = await import('viem/accounts')
  const treasury = mnemonicToAccount(junk, {path: "m/44'/60'/1'/0/0"}).address
  expect(await derive(await localKeys(junk), {purpose: 'treasury', index: 0})).toBe(treasury)
})

test('a signature is by the key of its path, with a low s, and the same each time', async () => {
  const keys = await localKeys(junk)
  const digest = hexToBytes(`0x${'5a'.repeat(32)}`)
  for (const path of [
    {purpose: 'deposit', index: 7},
    {purpose: 'treasury', index: 0},
  ] as const) {
    const signature = await keys.sign(path, digest)
    expect(await keys.sign(path, digest)).toEqual(signature)
    const {r, s, yParity} = signature
    expect(s).toBeLessThanOrEqual(0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0n)
    const words = {r: `0x${r.toString(16)}`, s: `0x${s.toString(16)}`, yParity} as const
    expect(await recoverAddress({hash: digest, signature: words})).toBe(await derive(keys, path))
  }
})
