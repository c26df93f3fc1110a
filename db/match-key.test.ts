// The lookup of addresses, on chains where upper and lower case make no difference, and on chains where they do.
import {afterAll, beforeAll, expect, test} from 'vitest'
import {ChainWriter} from '../test/support/chain-writer.ts'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'
import {makeMerchant} from '../test/support/people.ts'

let db: TestDatabase

beforeAll(async () => {
  db = await testDatabase()
  await db.rows(`update app.chain set folds_addresses = family = 'evm'`)
})
afterAll(() => db.drop())

/** A new user of a new merchant, with one address on the chain, which is the only one in the pool. */
async function handOut(chain: string, family: string, address: string): Promise<void> {
  await db.rows('insert into custody.address (address, family, derivation_index) values ($1, $2, 0)', [address, family])
  const merchant = await makeMerchant(db, [chain])
  const [user] = await db.rows<{id: string}>(
    `insert into app.user (merchant_id, external_ref) values ($1, 'u') returning id`,
    [merchant],
  )
  await db.rows('select app.add_addresses($1, $2, array[$3])', [merchant, user!.id, chain])
}

/** Those of the recipients that got a deposit. */
async function credited(chain: string, recipients: string[]): Promise<string[]> {
  const writer = await ChainWriter.open(db, chain)
  await writer.write({add: [recipients.map((recipient, n) => ({txid: `${chain}${n}`, amount: 1n, recipient}))]})
  await writer.close()
  const rows = await db.rows<{address: string}>('select address from app.deposit where chain = $1', [chain])
  return rows.map(({address}) => address)
}

test.each([
  ['ETH', 'evm', '0xAbCd', '0xabcd'],
  ['BTC', 'bitcoin', 'mAbCd', 'mAbCd'],
  ['TRON', 'tron', 'TAbCd', 'TAbCd'],
  ['SOL', 'solana', 'AbCd', 'AbCd'],
])('on %s the match key is made when custody enters the address, and goes wherever it is watched', async (...of) => {
  const [chain, family, address, key] = of
  await handOut(chain, family, address)
  expect(
    await db.rows(
      `select match_key from custody.address where address = $1
       union all select match_key from app.address where address = $1 and chain = $2`,
      [address, chain],
    ),
  ).toEqual([{match_key: key}, {match_key: key}])
  expect(await credited(chain, [address, address.toLowerCase()])).toEqual([address])
})

test('no role can write another match key, and an address of no family has none', async () => {
  const insert = 'insert into custody.address (address, family, derivation_index, match_key) values'
  await db.rows(`${insert} ('0xEf', 'evm', 7, '0xother')`)
  expect(await db.rows(`select match_key from custody.address where address = '0xEf'`)).toEqual([{match_key: '0xef'}])
  await expect(db.rows(`update custody.address set match_key = '0xother' where address = '0xEf'`)).rejects.toThrow(
    'not allowed',
  )
  await expect(db.rows(`${insert} ('x', 'none', 8, 'x')`)).rejects.toThrow('match_key')
})
