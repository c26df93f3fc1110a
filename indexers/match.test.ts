// Writing blocks through the real store: what links is written, what is ours is kept, and the addresses are those of this very moment.
import {afterAll, afterEach, beforeAll, beforeEach, expect, test} from 'vitest'
import {hashOf} from '../test/support/chain-writer.ts'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'
import {makeMerchant, makeUser} from '../test/support/people.ts'
import {type Candidate, type ReadBlock, writeBlocks} from './match.ts'
import {ChainDatabase} from './store.ts'

let db: TestDatabase
let merchantId: string
let database: ChainDatabase

beforeAll(async () => {
  db = await testDatabase()
  merchantId = await makeMerchant(db)
  await db.rows(`select chain.anchor('ETH', 'test', 100, $1, now())`, [hashOf('100')])
})
afterAll(() => db.drop())
beforeEach(() => {
  database = new ChainDatabase(db.url('sluice_indexer'), 'ETH')
})
afterEach(() => database.disconnect())

const blockAt = (height: number, candidates: Candidate[] = [], parent = `${height - 1}`): ReadBlock => {
  return {height, hash: hashOf(`${height}`), parentHash: hashOf(parent), time: new Date(0), candidates, sent: []}
}

const paying = (address: string, txid = 'tx'): Candidate => {
  return {txid, outputIndex: 0, token: 'ETH', amount: 1n, sender: '0xPayer', recipientKey: address.toLowerCase()}
}

/** One transaction of the store, above its newest block. */
async function write(...blocks: ReadBlock[]): Promise<void> {
  const state = await database.connect()
  const baseHead = state.top.at(-1) ?? state
  await database.transactHot2({finalizedHead: state, baseHead, newBlocks: blocks}, (store, from, to) =>
    writeBlocks(store, blocks.slice(from, to), {chain: 'ETH', display: address => `shown ${address}`}),
  )
  await database.disconnect()
}

const heights = async () =>
  (await db.rows<{height: number}>('select height from chain.block order by height')).map(b => b.height)

test.each([
  ['that does not link to the stored one below it', [blockAt(101, [], 'other')]],
  ['that does not link to the one before it', [blockAt(101), blockAt(102, [], 'other')]],
  ['that leaves out a height', [{...blockAt(102), parentHash: hashOf('100')}]],
  ['that leaves out a height in between', [blockAt(101), {...blockAt(103), parentHash: hashOf('101')}]],
])('a block %s is refused, and nothing of its transaction is written', async (_, blocks) => {
  await expect(write(...blocks)).rejects.toThrow('does not link to the block below it')
  expect(await heights()).toEqual([100])
  expect(await db.rows('select * from squid_eth.hot_block')).toEqual([])
})

test('what goes to an address of ours is kept, as people see it; what goes elsewhere is not', async () => {
  const user = await makeUser(db, merchantId)
  await write(blockAt(101, [paying(user.address), paying(`0x${'9'.repeat(40)}`, 'elsewhere')]), blockAt(102))
  expect(
    await db.rows('select id, block_height, block_hash, token, amount::text, sender, recipient from chain.transfer'),
  ).toEqual([
    {
      id: 'ETH:tx:0',
      block_height: 101,
      block_hash: hashOf('101'),
      token: 'ETH',
      amount: '1',
      sender: 'shown 0xPayer',
      recipient: user.address,
    },
  ])
  expect(await heights()).toEqual([100, 101, 102])
})

test('an address that was handed out after the block was read, and before it is written, is found', async () => {
  const state = await database.connect()
  const newBlocks = [blockAt(103)]
  await database.transactHot2({finalizedHead: state, baseHead: state.top.at(-1)!, newBlocks}, async store => {
    const user = await makeUser(db, merchantId) // committed by another connection while this transaction is open
    const block = blockAt(103, [paying(user.address, 'late')])
    await writeBlocks(store, [block], {chain: 'ETH', display: address => address})
  })
  expect(await db.rows(`select status from app.deposit where txid = 'late'`)).toEqual([{status: 'pending'}])
})

test('an address of another chain is not ours here', async () => {
  const user = await makeUser(db, merchantId)
  await db.rows(`delete from app.address where chain = 'ETH' and address = $1`, [user.address])
  await write(blockAt(104, [paying(user.address, 'elsewhere')]))
  expect(await db.rows(`select from chain.transfer where txid = 'elsewhere'`)).toEqual([])
})
