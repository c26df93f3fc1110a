// Known results (BIP-173, BIP-350, BIP-341, mainnet's history); everything else is compared with bitcoinjs-lib.
import {address as reference} from 'bitcoinjs-lib'
import fc from 'fast-check'
import {describe, expect, test} from 'vitest'
import {chain} from '../registry.ts'
import {type AddressFormat, addressOfScript, dustLimit, keyAddress, scripthashOf, scriptOfAddress} from './script.ts'

const mainnet: AddressFormat = {hrp: 'bc', pubKeyHash: 0, scriptHash: 5}
const {testnet4, regtest} = networks()

function networks() {
  const bitcoin = chain('BTC')
  if (bitcoin.family !== 'bitcoin') throw new Error('BTC is a Bitcoin chain')
  return bitcoin.networks
}

const bytes = (hex: string) => Uint8Array.from(Buffer.from(hex, 'hex'))
const hex = (script: Uint8Array) => Buffer.from(script).toString('hex')

const known: [kind: string, network: AddressFormat, address: string, script: string][] = [
  ['P2PKH', mainnet, '1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa', '76a91462e907b15cbf27d5425399ebf6f0fb50ebb88f1888ac'],
  ['P2PKH', testnet4, 'mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn', '76a914243f1394f44554f4ce3fd68649c19adc483ce92488ac'],
  ['P2PKH of zeros', mainnet, '1111111111111111111114oLvT2', `76a914${'00'.repeat(20)}88ac`],
  ['P2SH', mainnet, '3P14159f73E4gFr7JterCCQh9QjiTjiZrG', 'a914e9c3dd0c07aac76179ebc76a6c78d4d67c6c160a87'],
  ['P2WPKH', mainnet, 'bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4', '0014751e76e8199196d454941c45d1b3a323f1433bd6'],
  ['P2WPKH', regtest, 'bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080', '0014751e76e8199196d454941c45d1b3a323f1433bd6'],
  [
    'P2WSH',
    testnet4,
    'tb1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3q0sl5k7',
    '00201863143c14c5166804bd19203356da136c985678cd4d27a1b8c6329604903262',
  ],
  [
    'P2WSH',
    testnet4,
    'tb1qqqqqp399et2xygdj5xreqhjjvcmzhxw4aywxecjdzew6hylgvsesrxh6hy',
    '0020000000c4a5cad46221b2a187905e5266362b99d5e91c6ce24d165dab93e86433',
  ],
  [
    'P2TR',
    testnet4,
    'tb1pqqqqp399et2xygdj5xreqhjjvcmzhxw4aywxecjdzew6hylgvsesf3hn0c',
    '5120000000c4a5cad46221b2a187905e5266362b99d5e91c6ce24d165dab93e86433',
  ],
  [
    'P2TR',
    mainnet,
    'bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0',
    '512079be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798',
  ],
]

test.each(known)('%s: the script has this address, and the address this script', (_, network, address, script) => {
  expect(addressOfScript(bytes(script), network)).toBe(address)
  expect(hex(scriptOfAddress(address, network))).toBe(script)
})

test('an upper-case address, as in QR codes, is the same address', () => {
  const address = 'BC1QW508D6QEJXTDG4Y5R3ZARVARY0C5XW7KV8F3T4'
  expect(hex(scriptOfAddress(address, mainnet))).toBe('0014751e76e8199196d454941c45d1b3a323f1433bd6')
})

describe('is refused:', () => {
  test.each([
    ['another human-readable part', mainnet, 'tc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vq5zuyut'],
    ['bech32 for version 1', mainnet, 'bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqh2y7hd'],
    ['bech32 for version 2', testnet4, 'tb1z0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqglt7rf'],
    ['bech32 for version 16', mainnet, 'BC1S0XLXVLHEMJA6C4DQV22UAPCTQUPFHLXM9H8Z3K2E72Q4K9HCZ7VQ54WELL'],
    ['bech32m for version 0', mainnet, 'bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kemeawh'],
    ['bech32m for version 0', testnet4, 'tb1q0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vq24jc47'],
    ['a letter outside the alphabet', mainnet, 'bc1p38j9r5y49hruaue7wxjce0updqjuyyx0kh56v8s25huc6995vvpql3jow4'],
    ['witness version 17', mainnet, 'BC130XLXVLHEMJA6C4DQV22UAPCTQUPFHLXM9H8Z3K2E72Q4K9HCZ7VQ7ZWS8R'],
    ['a program of 1 byte', mainnet, 'bc1pw5dgrnzv'],
    ['a program of 41 bytes', mainnet, 'bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7v8n0nx0muaewav253zgeav'],
    ['version 0 with 16 bytes', mainnet, 'BC1QR508D6QEJXTDG4Y5R3ZARVARYV98GJ9P'],
    ['mixed case', testnet4, 'tb1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vq47Zagq'],
    ['mixed case in the prefix alone', testnet4, 'Tb1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3q0sl5k7'],
    ['more than 4 bits of padding', mainnet, 'bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7v07qwwzcrf'],
    ['5 bits of padding, all zero', testnet4, 'tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kqaap4mk'],
    ['padding that is not zero', testnet4, 'tb1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vpggkg4j'],
    ['nothing after the prefix', mainnet, 'bc1gmk9yu'],
    ['version 1 with 40 bytes', mainnet, 'bc1pw508d6qejxtdg4y5r3zarvary0c5xw7kw508d6qejxtdg4y5r3zarvary0c5xw7kt5nd6y'],
    ['version 16', mainnet, 'BC1SW50QGDZ25J'],
    ['version 2', mainnet, 'bc1zw508d6qejxtdg4y5r3zarvaryvaxxpcs'],
    ['segwit of mainnet', regtest, 'bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4'],
    ['segwit of testnet', regtest, 'tb1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3q0sl5k7'],
    ['segwit of regtest', testnet4, 'bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080'],
    ['base58 of mainnet', testnet4, '1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa'],
    ['base58 of mainnet', testnet4, '3P14159f73E4gFr7JterCCQh9QjiTjiZrG'],
    ['base58 mistyped', testnet4, 'mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfm'],
    ['base58 in another case', testnet4, 'mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRFn'],
    ['a space', testnet4, ' mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn'],
    ['nothing', testnet4, ''],
    ['an address of another chain', testnet4, '0x742d35Cc6634C0532925a3b844Bc454e4438f44e'],
    ['a long text', testnet4, 'm'.repeat(100_000)],
    ['a long text', testnet4, `tb1${'q'.repeat(100_000)}`],
  ])('%s', (_, network, address) => {
    expect(() => scriptOfAddress(address, network)).toThrow(expect.objectContaining({name: 'AddressError'}))
  })

  test('any address with one letter changed', () => {
    for (const [, network, address] of known) {
      for (let at = network.hrp.length + 1; at < address.length; at++) {
        const letter = address[at] === 'q' ? 'p' : 'q'
        const typo = address.slice(0, at) + letter + address.slice(at + 1)
        expect(() => scriptOfAddress(typo, network), typo).toThrow()
      }
    }
  })
})

const program = (length: number) => fc.uint8Array({minLength: length, maxLength: length})
const standard = fc.oneof(
  program(20).map(it => Uint8Array.from([0x76, 0xa9, 20, ...it, 0x88, 0xac])),
  program(20).map(it => Uint8Array.from([0xa9, 20, ...it, 0x87])),
  program(20).map(it => Uint8Array.from([0x00, 20, ...it])),
  program(32).map(it => Uint8Array.from([0x00, 32, ...it])),
)

test('addresses are those of bitcoinjs-lib, and decode to the same script', () => {
  const bitcoinjs = {
    ...mainnet,
    messagePrefix: '',
    bech32: 'bcrt',
    bip32: {public: 0, private: 0},
    wif: 0,
    pubKeyHash: 0x6f,
    scriptHash: 0xc4,
  }
  fc.assert(
    fc.property(standard, script => {
      const address = addressOfScript(script, regtest)!
      expect(address).toBe(reference.fromOutputScript(script, bitcoinjs))
      expect(scriptOfAddress(address, regtest)).toEqual(script)
    }),
  )
})

test('a script that is almost standard has no address', () => {
  fc.assert(
    fc.property(standard, fc.nat(40), fc.integer({min: 1, max: 255}), (script, at, change) => {
      const other = script.slice()
      other[at % script.length]! ^= change
      const address = addressOfScript(other, regtest)
      if (address !== undefined) expect(scriptOfAddress(address, regtest)).toEqual(other)
      expect(addressOfScript(script.slice(0, -1), regtest)).toBeUndefined()
    }),
  )
  for (const script of [
    '',
    '6a',
    `6a14${'00'.repeat(20)}`,
    `5114${'00'.repeat(20)}`,
    `5220${'00'.repeat(32)}`,
    '51024e73',
  ])
    expect(addressOfScript(bytes(script), regtest)).toBeUndefined()
})

test('the address of a public key is that of BIP-173', () => {
  const key = bytes('0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798')
  expect(keyAddress(key, mainnet)).toBe('bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4')
})

test('the script hash of the Electrum protocol is that of its documentation', () => {
  expect(scripthashOf(scriptOfAddress('1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa', mainnet))).toBe(
    '8b01df4e368ea28f8dc0423bcf7a4923e3a12d307c875e47a0cfbf90b5c39161',
  )
})

test.each([
  ['P2PKH', 0, 546n],
  ['P2SH', 3, 540n],
  ['P2WPKH', 4, 294n],
  ['P2WSH', 6, 330n],
  ['P2TR', 8, 330n],
])('the dust limit of %s is that of Bitcoin Core', (_, at, limit) => {
  expect(dustLimit(bytes(known[at]![3]))).toBe(limit)
})
