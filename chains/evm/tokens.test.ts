// An operator's own tokens, from the setting <CHAIN>_TOKENS.
import {expect, test} from 'vitest'
import {factsOf, readSettings, settingsFrom} from '../settings.ts'
import {erc20, evmSettings} from './settings.ts'

const euro = {
  code: 'EURC',
  name: 'ETH-EURC',
  display_name: 'Euro Coin',
  contract: '0x08210F9170F89Ab7658F0B5E3fF39b0E03C594D4',
  decimals: 6,
  min_payout: '2',
  sweep_min: '0.5',
  daily_limit: '1000',
  sweep: {by: 'eip3009', domain: {name: 'Euro', version: '3'}},
}
const usdc = '0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238'

const read = (tokens: unknown, more: Record<string, string> = {}) =>
  evmSettings(readSettings({ETH_TOKENS: JSON.stringify(tokens), ...more}).chains.get('ETH'))

/** The problems of a list. */
function problemsOf(tokens: unknown, more?: Record<string, string>): string[] {
  try {
    read(tokens, more)
    return []
  } catch (error) {
    return (error as Error).message.split('\n').slice(1)
  }
}

test('a token of the setting is an asset of its chain with its own limits, and other settings may name it', () => {
  const settings = read([euro], {ETH_PAYOUT_LIMIT: 'EURC:50', ETH_SWEEP_MIN: 'USDC:3'})
  expect(settings.chain.assets.map(({token}) => token)).toEqual(['ETH', 'USDC', 'EURC'])
  expect(Object.fromEntries(settings.tokens)).toEqual({
    [usdc.toLowerCase()]: 'USDC',
    [euro.contract.toLowerCase()]: 'EURC',
  })
  expect(erc20(settings, 'EURC')).toMatchObject({displayName: 'Euro Coin', decimals: 6, sweep: euro.sweep})
  expect(settings.minPayout.get('EURC')).toBe(2_000_000n)
  expect(settings.payoutLimit).toEqual(new Map([['EURC', 50_000_000n]]))
  expect(settings.dailyLimit).toEqual(new Map([['EURC', 1_000_000_000n]]))
  expect(Object.fromEntries(settings.sweepMin)).toEqual({ETH: 10n ** 15n, USDC: 3_000_000n, EURC: 500_000n})
  expect(readSettings({}).chains.get('ETH')!.chain.assets).toHaveLength(2)
})

test('every process that reads the settings of a chain knows its tokens', () => {
  const settings = read([euro], {ETH_USDC_CONTRACT: `0x${'ab'.repeat(20)}`})
  const passed = settingsFrom('ETH', factsOf(settings).settings)
  expect(passed).toMatchObject({tokens: settings.tokens, chain: settings.chain, ownTokens: settings.ownTokens})
})

test('USDC has the address of the registry, or of the setting; on another network it does not exist', () => {
  const on = (more: Record<string, string>) => evmSettings(readSettings(more).chains.get('ETH'))
  const [other, domain] = [`0x${'ab'.repeat(20)}`, {name: 'USDC', version: '2'}]
  expect(erc20(on({}), 'USDC')).toMatchObject({contract: usdc, sweep: {by: 'eip3009', domain}})
  expect(erc20(on({ETH_CHAIN_ID: '5', ETH_USDC_CONTRACT: other}), 'USDC')).toMatchObject({
    contract: other,
    sweep: {domain},
  })
  const main = {ETH_CHAIN_ID: '1', ETH_USDC_CONTRACT: other, SLUICE_MAINNET: 'by-arrangement'}
  expect(erc20(on(main), 'USDC').sweep).toEqual({by: 'eip3009', domain: {name: 'USD Coin', version: '2'}})
  const elsewhere = on({ETH_CHAIN_ID: '5'})
  expect(elsewhere.tokens.size).toBe(0)
  expect(() => erc20(elsewhere, 'USDC')).toThrow('ETH has no contract for USDC on chain 5')
})

test('an invalid list is refused with each wrong entry and field, and the allowed values', () => {
  expect(problemsOf({}).join()).toMatch(
    /^ {2}ETH_TOKENS: must be a list of tokens in JSON, such as \[\{"code": "EURC", /,
  )
  expect(problemsOf([euro, {...euro, code: 'eurc', decimals: 99, sweep: {by: 'hand'}, limit: 1}])).toEqual([
    expect.stringMatching(
      /^ {2}ETH_TOKENS: \[1\]\.code must be a capital letter, and up to 11 more or digits, such as "EURC"$/,
    ),
    expect.stringMatching(/^ {2}ETH_TOKENS: \[1\]\.decimals must be a whole number from 0 to 36, such as 6$/),
    expect.stringMatching(/^ {2}ETH_TOKENS: \[1\]\.sweep\.by must say how deposits are swept, such as /),
    expect.stringMatching(/^ {2}ETH_TOKENS: \[1\] must have only known fields, such as /),
  ])
  const {contract: _, ...without} = euro
  expect(problemsOf([without])).toEqual([expect.stringMatching(/\[0\]\.contract must be a contract address: /)])
  expect(problemsOf([{...euro, min_payout: '0.0000001'}])).toEqual([
    '  ETH_TOKENS: [0].min_payout must be an amount in whole coins, with at most 6 decimals, such as "1"',
  ])
})

test('a code, a name or a contract that is already used is refused', () => {
  const taken = (change: object, more?: Record<string, string>) => problemsOf([{...euro, ...change}], more)
  expect(taken({code: 'USDC'})).toEqual([
    '  ETH_TOKENS: [0].code must be a code that no other asset of the chain has, such as EURC; USDC is taken (each token is there once)',
  ])
  expect(taken({code: 'ETH'})[0]).toContain('[0].code')
  expect(taken({name: 'ETH-USDC'})[0]).toContain('[0].name must be a name that no other asset has')
  expect(taken({name: 'BTC'})[0]).toContain('BTC is taken')
  expect(taken({contract: usdc.toLowerCase()})[0]).toContain('[0].contract must be a contract that no other token')
  expect(taken({}, {ETH_USDC_CONTRACT: euro.contract})[0]).toContain('[0].contract')
  expect(problemsOf([euro, euro])).toHaveLength(3)
  const list = JSON.stringify([euro])
  expect(() => readSettings({ETH_TOKENS: list, POLYGON_TOKENS: list})).toThrow(
    'POLYGON_TOKENS: the name of EURC must be one that no other asset has, such as POLYGON-EURC; ETH-EURC is taken',
  )
})
