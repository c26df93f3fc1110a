// What a reorganisation can do on EVM chains only (test/conformance has the rest): a transaction runs again, and moves
// other amounts, or has other transactions around it.
import {afterAll, beforeAll, expect, test} from 'vitest'
import {type TestDatabase, testDatabase} from '../support/database.ts'
import {Anvil} from '../support/evm/anvil.ts'
import {depositsOf, Indexer} from '../support/indexer.ts'
import {makeMerchant, makeUser, type TestUser} from '../support/people.ts'

let db: TestDatabase
let anvil: Anvil
let indexer: Indexer
let user: TestUser
let other: TestUser

beforeAll(async () => {
  ;[db, anvil] = await Promise.all([testDatabase(), Anvil.start({slotsInAnEpoch: 16})]) // final 32 blocks below the head
  const merchantId = await makeMerchant(db)
  user = await makeUser(db, merchantId)
  other = await makeUser(db, merchantId)
  indexer = Indexer.start({db, rpcUrl: anvil.wsUrl, settings: {USDC_CONTRACT: anvil.usdc}})
})
afterAll(async () => {
  await indexer?.stop()
  await anvil?.stop()
  await db?.drop()
})

async function mined(blocks = 1): Promise<number> {
  const head = await anvil.mine(blocks)
  await indexer.reaches(head)
  return head.height
}

/** Forks, and waits until the indexer has followed. */
async function reorg(depth: number, keep?: Record<number, string[]>): Promise<void> {
  await indexer.reaches(await anvil.reorg(depth, keep))
}

const history = async (txid: string) =>
  (await depositsOf(db, txid)).map(({address, amount, status, height, events}) => ({
    to: address === user.address ? 'user' : 'other',
    amount,
    status,
    height,
    events,
  }))

test('a call that runs again in another block with a lower amount at the same position is reorged and pending, each with its amount', async () => {
  const txid = await anvil.sendSwitched({to: user.address, value: 7n}, {to: user.address, value: 3n})
  const height = await mined()
  const [first, second] = height % 2 ? ['3', '7'] : ['7', '3']
  expect(await history(txid)).toMatchObject([{amount: first, events: 'pending'}])
  const raw = await anvil.raw(txid)
  await mined()
  await reorg(2, {1: [raw]})
  const now = {to: 'user', amount: second, status: 'pending', height: height + 1, events: 'pending reorged pending'}
  expect(await history(txid)).toEqual([now])
  const amounts = await db.rows<{amount: string}>(
    `select payload->>'amount' as amount from app.event e join app.deposit d on d.id = e.subject_id where txid = $1 order by e.position`,
    [txid],
  )
  expect(amounts.map(({amount}) => amount)).toEqual([first, first, second].map(wei => `0.00000000000000000${wei}`))
})

test('a call that runs again and pays another address is reorged for the first and pending for the second', async () => {
  const txid = await anvil.sendSwitched({to: user.address, value: 4n}, {to: other.address, value: 4n})
  const height = await mined()
  const raw = await anvil.raw(txid)
  await mined()
  await reorg(2, {1: [raw]})
  const [first, second] = height % 2 ? ['other', 'user'] : ['user', 'other']
  expect(await history(txid)).toEqual([
    {to: first, amount: '4', status: 'reorged', height, events: 'pending reorged'},
    {to: second, amount: '4', status: 'pending', height: height + 1, events: 'pending'},
  ])
  await reorg(2, {0: [raw]})
  expect(await history(txid)).toEqual([
    {to: first, amount: '4', status: 'pending', height, events: 'pending reorged pending'},
    {to: second, amount: '4', status: 'reorged', height: height + 1, events: 'pending reorged'},
  ])
})

test('a token transfer keeps its position in its transaction, and its id, when other logs precede it in the block', async () => {
  const txid = await anvil.sendUsdc(user.address, 9n)
  await mined()
  const raw = await anvil.raw(txid)
  await anvil.reorg(1)
  await anvil.send({by: 2, to: anvil.usdc, data: approval}) // of higher priority in time: mined first, with its own log
  await anvil.resend(raw)
  await mined()
  const {transactions} = await anvil.block()
  expect(transactions.indexOf(txid)).toBe(1)
  const last = (await depositsOf(db, txid)).at(-1)!
  expect(last).toMatchObject({output: 1, status: 'pending', amount: '9'})
  expect(await depositsOf(db, txid)).toHaveLength(1)
})
const approval = `0x095ea7b3${'1'.padStart(64, '0')}${'1'.padStart(64, '0')}` as const

test('after all reorganisations the books balance, nothing needs an operator, and the indexer never ended unexpectedly', async () => {
  expect(await db.rows('select * from app.balance_audit')).toEqual([])
  expect(await db.rows('select * from app.incident')).toEqual([])
  expect(await db.rows('select from chain.touched union all select from chain.touched_chain')).toEqual([])
  expect(indexer.ends).toEqual([])
})
