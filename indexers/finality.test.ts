// Finality with nodes that disagree with each other, as behind a balancer.
import {afterAll, beforeAll, expect, test} from 'vitest'
import {ChainWriter} from '../test/support/chain-writer.ts'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'
import {ChainCursor} from './cursor.ts'
import {advanceFinality, type FinalitySource} from './finality.ts'

let db: TestDatabase
let writer: ChainWriter
let cursor: ChainCursor

beforeAll(async () => {
  db = await testDatabase()
  writer = await ChainWriter.open(db, 'ETH')
  cursor = new ChainCursor(db.pool, 'ETH')
})
afterAll(async () => {
  await writer.close()
  await db.drop()
})

const finalHeight = async () => (await cursor.read())!.finalHeight

/** Nodes that know our chain, and say that this height is final. */
function source(height: number, confirmations: number): FinalitySource {
  const hashAt = async (at: number) => writer.blocks[at]?.hash ?? `0xunknown${at}`
  return {confirmations, hashAt, finalBlock: async () => ({height, hash: await hashAt(height)})}
}

test('with N confirmations a block is final only when our own chain has N, whatever head another node reports', async () => {
  await writer.write({add: [[], [], []]})
  await advanceFinality(source(3, 5), cursor) // one node's head is 7, and another's block 3 is ours
  expect(await finalHeight()).toBe(0)
  await writer.write({add: [[], [], []]})
  await advanceFinality(source(3, 5), cursor)
  expect(await finalHeight()).toBe(2)
  await writer.write({add: [[]]})
  await advanceFinality(source(3, 5), cursor)
  expect(await finalHeight()).toBe(3)
})

test('far behind the final block, only blocks buried below it become final', async () => {
  await advanceFinality(source(100, 1), cursor)
  expect(await finalHeight()).toBe(3)
  await advanceFinality(source(6 + 128, 1), cursor)
  expect(await finalHeight()).toBe(6)
})

test('a buried block of which the node has another one is not final', async () => {
  await writer.write({add: [[]]})
  const honest = source(200, 1)
  const hashAt = async (at: number) => (at < 200 ? `0xother${at}` : honest.hashAt(at))
  await advanceFinality({...honest, hashAt}, cursor)
  expect(await finalHeight()).toBe(6)
})

test('a final block that only a node reports makes nothing final', async () => {
  const high = source(5000, 1)
  const hashAt = async (at: number) => writer.blocks[at]?.hash
  const before = await finalHeight()
  await writer.write({add: [[]]})
  await advanceFinality({...high, hashAt}, cursor)
  expect(await finalHeight()).toBe(before)
})

test('a hash that is not on our chain makes nothing final', async () => {
  const other: FinalitySource = {...source(7, 1), finalBlock: async () => ({height: 7, hash: '0xother'})}
  await advanceFinality(other, cursor)
  expect(await finalHeight()).toBe(6)
})
