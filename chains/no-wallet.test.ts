// Where nobody can take what is paid.
import {expect, test} from 'vitest'
import {displayForm} from './address.ts'
import {noWallet} from './no-wallet.ts'
import type {ChainCode} from './registry.ts'
import {readSettings} from './settings.ts'

const usdc = `0x${'5b'.repeat(20)}`
const own = `0x${'6c'.repeat(20)}`
const usdt = 'TJmWZaD2LC9nb59B7sWRLHW5FjhBwhXyMC'
const settings = [
  ...readSettings({
    ETH_USDC_CONTRACT: usdc,
    TRON_USDT_CONTRACT: usdt,
    POLYGON_TOKENS: JSON.stringify([
      {
        code: 'JPYC',
        name: 'POLYGON-JPYC',
        display_name: 'Yen',
        contract: own,
        decimals: 18,
        min_payout: '1',
        sweep_min: '1',
        sweep: {by: 'eip3009', domain: {name: 'JPYC', version: '1'}},
      },
    ]),
  }).chains.values(),
]

const short = (end: string) => `0x${end.padStart(40, '0')}`

test.each<[ChainCode, string, string]>([
  ['ETH', short(''), 'the zero address'],
  ['POLYGON', short('dead'), 'an address that coins are burned with'],
  ['ETH', short('1'), 'a precompile, or a contract of the protocol'],
  ['ETH', short('100'), 'a precompile, or a contract of the protocol'],
  ['POLYGON', short('1010'), 'a precompile, or a contract of the protocol'],
  ['ETH', '0x00000000219ab540356cBB839Cbe05303d7705Fa', "the deposit contract of Ethereum's validators"],
  ['ETH', usdc, 'the contract of USDC on ETH'],
  ['POLYGON', usdc, 'the contract of USDC on ETH'], // whoever has the key of one chain need not have it on another
  ['ETH', own, 'the contract of JPYC on POLYGON'],
  ['TRON', 'T9yD14Nj9j7xAB4dbGeiX9h8unkKHxuWwb', 'the zero address'],
  ['TRON', `41${'dead'.padStart(40, '0')}`, 'an address that coins are burned with'],
  ['TRON', `41${'0a'.padStart(40, '0')}`, 'a precompile'],
  ['TRON', 'TLsV52sRDL79HXGGm9yzwKibb6BeruhUzy', 'the black hole, where coins are burned'],
  ['TRON', usdt, 'the contract of USDT on TRON'],
  ['SOL', '1nc1nerator11111111111111111111111111111111', 'the incinerator'],
  ['SOL', 'So11111111111111111111111111111111111111112', 'the mint of wrapped SOL'],
])('on %s nobody is paid at %s: %s', async (chain, address, what) => {
  await expect(displayForm(settings, chain, address, undefined)).rejects.toThrow(
    `is ${what}: what is paid there is lost`,
  )
})

test('wallets are paid', async () => {
  for (const [chain, address] of [
    ['ETH', '0x52908400098527886E0F7030069857D2E4169EE7'],
    ['TRON', 'TSoEubefBntdeXaFFAhmVb3wy8QNAdPSX'.replace('TSo', 'TYSo')],
    ['SOL', '7yPc1Wuv6geDhtbW7U33dJehEt4qv4t144iaQbcYi9Dx'],
  ] as const)
    expect(noWallet(settings, chain, await displayForm(settings, chain, address, undefined))).toBeUndefined()
})

test('an address on Solana that no key signs for is rather mistyped, unless it is meant', async () => {
  const vault = '5SHQQrjzHCMkZZJzYNhx9szLeYsVCYw4NNr8p7xT9BAY' // of a multisignature wallet: address.test.ts says how it is made
  await expect(displayForm(settings, 'SOL', vault, undefined)).rejects.toMatchObject({code: 'off_curve'})
  expect(await displayForm(settings, 'SOL', vault, undefined, {allowOffCurve: true})).toBe(vault)
})

test('of addresses with one letter changed, about half are noticed on Solana', async () => {
  const wallet = '7yPc1Wuv6geDhtbW7U33dJehEt4qv4t144iaQbcYi9Dx'
  const letters = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz'
  const typed = [...letters]
    .map(letter => wallet.slice(0, 20) + letter + wallet.slice(21))
    .filter(text => text !== wallet)
  const taken = await Promise.allSettled(typed.map(text => displayForm(settings, 'SOL', text, undefined)))
  const noticed = taken.filter(({status}) => status === 'rejected').length
  expect(noticed).toBeGreaterThan(typed.length / 4)
})
