// The assets of the settings, in the database.
import {afterAll, beforeAll, expect, test} from 'vitest'
import {readSettings} from '../../chains/settings.ts'
import {ChainWriter} from '../../test/support/chain-writer.ts'
import {type TestDatabase, testDatabase} from '../../test/support/database.ts'
import {makeMerchant, makeUser} from '../../test/support/people.ts'
import {assetChanges, changesInWords, storedAssets} from './asset-changes.ts'
import {requireSameAssets, writeAssets} from './assets.ts'

const euro = {
  code: 'EURC',
  name: 'ETH-EURC',
  display_name: 'Euro Coin',
  contract: '0x08210F9170F89Ab7658F0B5E3fF39b0E03C594D4',
  decimals: 6,
  min_payout: '2',
  sweep_min: '1',
  sweep: {by: 'eip3009', domain: {name: 'EURC', version: '2'}},
}

/** In the registry, on the public test networks, as the indexer writes them. */
const usdcContract = '0x1c7d4b196cb0c7b01d743fbc6116a902379c7238'
const usdtContract = 'TXYZopYRdj2D9XRtbG411XZZ3kM5VkAeBf'

let db: TestDatabase
beforeAll(async () => {
  db = await testDatabase()
})
afterAll(() => db.drop())

const write = (...tokens: object[]) =>
  writeAssets(db.ownerUrl, readSettings({ETH_TOKENS: JSON.stringify(tokens)}).chains.values())
const stored = () =>
  db.rows(`select token, name, display_name, decimals, min_payout from app.asset where chain = 'ETH' order by token`)
const [ether, usdc] = [expect.objectContaining({token: 'ETH'}), expect.objectContaining({token: 'USDC'})]
const row = {token: 'EURC', name: 'ETH-EURC', display_name: 'Euro Coin', decimals: 6, min_payout: '2000000'}

test("an operator's token is an asset; until its first payment its decimals change with the settings, and it can be removed", async () => {
  await write({...euro, decimals: 18, display_name: 'Euro'})
  expect(await stored()).toEqual([
    ether,
    {...row, decimals: 18, display_name: 'Euro', min_payout: `${2n * 10n ** 18n}`},
    usdc,
  ])
  await write(euro)
  expect(await stored()).toEqual([ether, row, usdc])
  await write()
  expect(await stored()).toEqual([ether, usdc])
})

test('a token with payments keeps its decimals, and cannot be removed', async () => {
  await write(euro)
  const {address} = await makeUser(db, await makeMerchant(db, ['ETH']))
  const eth = await ChainWriter.open(db, 'ETH')
  await eth.write({add: [[{txid: '0x1', token: 'EURC', amount: 5n, recipient: address}]]})
  await eth.close()
  expect(await db.rows('select credited from app.deposit')).toEqual([{credited: true}])
  await expect(write({...euro, decimals: 18})).rejects.toThrow(
    'ETH EURC is to have 18 decimals, and the amounts stored here have others; put back what they were, in ETH_TOKENS',
  )
  await expect(write()).rejects.toThrow(
    'amounts of ETH EURC are stored here, and the settings know no such token any more; put its entry back (ETH_TOKENS)',
  )
  await write({...euro, display_name: 'Euro'})
  expect(await stored()).toEqual([ether, {...row, display_name: 'Euro'}, usdc])
})

test('a process whose settings name other tokens, decimals or contracts than the last migration run is refused, with the difference', async () => {
  const check = (settings: Record<string, string>) => requireSameAssets(db.pool, readSettings(settings).chains.values())
  const tokens = (...entries: object[]) => ({ETH_TOKENS: JSON.stringify(entries)})
  await write(euro)
  await check(tokens({...euro, contract: euro.contract.toLowerCase(), min_payout: '3'}))
  const other = '0x1111111111111111111111111111111111111111'
  await expect(check({})).rejects.toThrow(
    `of ETH than those of the last migration run: none instead of EURC (6 decimals,`,
  )
  await expect(check(tokens(euro, {...euro, code: 'EURX', name: 'ETH-EURX', contract: other}))).rejects.toThrow(
    `EURX (6 decimals, ${other}) instead of none; give every process the same tokens (ETH_TOKENS, ETH_<TOKEN>_CONTRACT)`,
  )
  await expect(check({...tokens(euro), ETH_USDC_CONTRACT: other})).rejects.toThrow(
    `USDC (6 decimals, ${other}) instead of USDC (`,
  )
})

test('nothing is refused where no migration run had settings', async () => {
  await db.rows('update app.chain set assets = null')
  await requireSameAssets(db.pool, readSettings(tokensOfNobody).chains.values())
})
const tokensOfNobody = {ETH_TOKENS: JSON.stringify([euro])}

test('what a migration run with other settings changes is named, asset by asset', async () => {
  const written = async (settings: Record<string, string>) => {
    const before = await storedAssets(db.ownerUrl)
    await writeAssets(db.ownerUrl, readSettings(settings).chains.values())
    return changesInWords(assetChanges(before, await storedAssets(db.ownerUrl)))
  }
  const tokens = (...extra: object[]) => ({ETH_TOKENS: JSON.stringify([euro, ...extra])})
  const pound = {...euro, code: 'GBPX', name: 'ETH-GBPX', contract: `0x${'2'.repeat(40)}`}
  await written(tokens())
  expect(await written(tokens())).toEqual([])
  expect(await written(tokens(pound))).toEqual(['Added ETH GBPX.'])
  expect(await written({...tokens(pound), ETH_MIN_PAYOUT: 'USDC:7.5', ETH_SWEEP_MIN: 'ETH:0.02'})).toEqual([
    'Changed ETH ETH: smallest sweep 0.001 -> 0.02',
    'Changed ETH USDC: smallest payout 1 -> 7.5',
  ])
  expect(await written(tokens())).toEqual([
    'Changed ETH ETH: smallest sweep 0.02 -> 0.001',
    expect.stringMatching(/^Warning: removed ETH GBPX, because these settings name no such token \(ETH_TOKENS\)/),
    'Changed ETH USDC: smallest payout 7.5 -> 1',
  ])
})

test("the contract of a token of the settings cannot be added under another code, in any family's form", async () => {
  await write(euro)
  for (const chain of ['ETH', 'TRON'] as const) {
    const contract = chain === 'ETH' ? usdcContract : usdtContract
    await db.pool.query(
      `insert into chain.cursor (chain, network, head_height, head_hash, head_time, final_height, final_hash, followed_from)
       values ($1, 'a test', 1, 'a', clock_timestamp(), 0, 'b', 0) on conflict do nothing`,
      [chain],
    )
    const entry = {
      token: 'OTHER',
      name: `${chain}-OTHER`,
      display_name: 'x',
      decimals: 6,
      contract,
      sweep: {by: 'fund'},
    }
    const given = JSON.stringify({...entry, min_payout: 1, sweep_min: 1})
    await expect(db.pool.query('select app.add_token($1, $2)', [chain, given])).rejects.toThrow(
      `the contract ${contract} is taken on ${chain}`,
    )
  }
})
