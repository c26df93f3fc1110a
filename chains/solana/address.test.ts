// Addresses of Solana.
import {expect, test} from 'vitest'
import {addressOf, bytesOf, computeBudgetProgram, noWallet, systemProgram} from './address.ts'

const wallet = 'HAgk14JpMQLgt6rVgv7cBQFJWFto5Dqxi472uT3DKpqk'
/** As wallets of several signers have: no key signs for it. */
const vault = '5SHQQrjzHCMkZZJzYNhx9szLeYsVCYw4NNr8p7xT9BAY'

// The hex of the last three was written by getAddressEncoder() of @solana/kit 6.10.0. The last one is no point of the
// curve: the program derived address (getProgramDerivedAddress) of SQDS4ep65T869zMMBKyuUq6aD6EgTu8psMjkvj52pCf and the
// seeds 'multisig', 'vault' and 0.
test.each([
  ['00'.repeat(32), systemProgram],
  ['ff'.repeat(32), 'JEKNVnkbo3jma5nREBBJCDoXFVeKkD56V3xKrvRmWxFG'],
  ['f036276246a75b9de3349ed42b15e232f6518fc20f5fcd4f1d64e81f9bd258f7', wallet],
  ['0306466fe5211732ffecadba72c39be7bc8ce5bbc5f7126b2c439b3a40000000', computeBudgetProgram],
  ['41e8d0ca9956a6b95f7bfc7e185b15af14c9130d13bcb639b3c1de47b5994fd1', vault],
])('the bytes %s are the address %s', (hex, address) => {
  expect(addressOf(Buffer.from(hex, 'hex'))).toBe(address)
  expect(bytesOf(address).toString('hex')).toBe(hex)
})

test('a text that does not stand for 32 bytes is refused', () => {
  const tooLong = [
    `1${wallet}`,
    '1'.repeat(33),
    `1${systemProgram}`,
    'JEKNVnkbo3jma5nREBBJCDoXFVeKkD56V3xKrvRmWxFH',
    'z'.repeat(1000),
  ]
  const tooShort = ['', '1', '1'.repeat(31), wallet.slice(2)]
  const otherLetters = [
    ` ${wallet}`,
    `${wallet}\n`,
    wallet.replace('H', '0'),
    'TWer2Ygk5TEheHp3TPuYeqxmB6SsGZmaL6',
    `0x${'ab'.repeat(20)}`,
  ]
  for (const text of [...tooLong, ...tooShort, ...otherLetters])
    expect(() => bytesOf(text), text).toThrow(expect.objectContaining({code: 'invalid_address'}))
  for (const length of [31, 33]) expect(() => addressOf(new Uint8Array(length))).toThrow(RangeError)
})

test('programs, sysvars and mints are no wallets; an address without a key may be one', () => {
  for (const address of [wallet, vault]) expect(noWallet(address, [])).toBeUndefined()
  expect(
    [
      systemProgram,
      computeBudgetProgram,
      'SysvarC1ock11111111111111111111111111111111',
      'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA',
      'So11111111111111111111111111111111111111112',
      'EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v',
    ].map(address => noWallet(address, [])),
  ).toEqual([
    'the System program',
    'the Compute Budget program',
    'a sysvar',
    'the Token program',
    'the mint of wrapped SOL',
    'the mint of USDC',
  ])
})
