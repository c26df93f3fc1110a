// Deposits that are in no block: the effects of a poll, a block, a fork and a conflict, after every commit.
import {afterAll, beforeAll, expect, test} from 'vitest'
import {ChainWriter} from '../test/support/chain-writer.ts'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'
import {makeMerchant, watchAddress} from '../test/support/people.ts'
import {until} from '../test/support/until.ts'

const address = 'bcrt1qcustomer'
let db: TestDatabase
let writer: ChainWriter

beforeAll(async () => {
  db = await testDatabase()
  const merchant = await makeMerchant(db, ['BTC'])
  await watchAddress(db, merchant, {address, family: 'bitcoin', watched: ['BTC'], chains: ['BTC']})
  writer = await ChainWriter.open(db, 'BTC')
})
afterAll(async () => {
  await writer.close()
  await db.drop()
})

let count = 0
const newTxid = () => `tx${++count}`
const shown = (txid: string, recipient = address) => {
  return {
    txid,
    output_index: 0,
    token: 'BTC',
    amount: '5',
    sender: 'bcrt1qsomebody',
    recipient,
    inputs: [`${txid}-coin:0`],
  }
}
const poll = (...txids: string[]) =>
  writer.query(`select chain.note_unconfirmed('BTC', $1)`, [JSON.stringify(txids.map(txid => shown(txid)))])
const transfer = (txid: string) => ({txid, token: 'BTC', amount: 5n, recipient: address})

/** A block with these transfers, and the outputs that it spends, as the indexer writes it. */
async function mine(
  txids: string[],
  {drop = 0, spends = [] as [txid: string, outpoint: string][]} = {},
): Promise<void> {
  const all = [...txids.map(txid => [txid, `${txid}-coin:0`] as const), ...spends]
  const also = () =>
    writer.query(`select chain.note_mined('BTC', $1, $2, $3)`, [
      JSON.stringify(txids.map(txid => shown(txid))),
      all.map(([txid]) => txid),
      all.map(([, outpoint]) => outpoint),
    ])
  await writer.write({drop, add: [txids.map(transfer)], also})
}

/** Half a minute passes. */
const pass = () => db.rows(`update chain.unconfirmed set missed_since = missed_since - interval '30 seconds'`)

async function deposit(txid: string) {
  const [row] = await db.rows<{status: string; height: number | null; events: string}>(
    `select status, block_height as height,
       (select string_agg(replace(type, 'deposit.', ''), ' ' order by version) from app.event e where e.subject_id = d.id) as events
     from app.deposit d where txid = $1`,
    [txid],
  )
  return row && [row.status, row.height === null ? 'no block' : 'a block', row.events]
}

test('an unconfirmed transaction is a pending deposit, and mining it causes no event', async () => {
  const txid = newTxid()
  await poll(txid)
  expect(await deposit(txid)).toEqual(['pending', 'no block', 'pending'])
  await mine([txid])
  expect(await deposit(txid)).toEqual(['pending', 'a block', 'pending'])
  await writer.finalise(writer.head.height)
  expect(await deposit(txid)).toEqual(['final', 'a block', 'pending confirmed'])
  expect(await db.rows('select from chain.unconfirmed')).toEqual([])
})

test('a transaction without outputs of ours is not stored', async () => {
  await writer.query(`select chain.note_unconfirmed('BTC', $1)`, [JSON.stringify([shown(newTxid(), 'bcrt1qnobody')])])
  expect(await db.rows('select from chain.unconfirmed')).toEqual([])
})

test('a block that leaves the chain removes no deposit with it, seen unconfirmed before or not', async () => {
  const txid = newTxid()
  await mine([txid])
  await mine([], {drop: 1})
  expect(await deposit(txid)).toEqual(['pending', 'no block', 'pending'])
  await poll(txid)
  await mine([txid], {drop: 1})
  await writer.finalise(writer.head.height)
  expect(await deposit(txid)).toEqual(['final', 'a block', 'pending confirmed'])
})

test('a missing deposit is reorged after two polls and 30 seconds, and pending again when it is back', async () => {
  const txid = newTxid()
  await poll(txid)
  await poll()
  await pass()
  expect(await deposit(txid)).toEqual(['pending', 'no block', 'pending'])
  await poll(txid) // it was missed once only
  await poll()
  await poll()
  expect(await deposit(txid)).toEqual(['pending', 'no block', 'pending'])
  await pass()
  await poll()
  expect(await deposit(txid)).toEqual(['reorged', 'no block', 'pending reorged'])
  await poll(txid)
  expect(await deposit(txid)).toEqual(['pending', 'no block', 'pending reorged pending'])
})

test('a deposit in a block is not missing, whatever the mempool holds', async () => {
  const txid = newTxid()
  await mine([txid])
  await poll()
  await poll()
  await pass()
  await poll()
  expect(await deposit(txid)).toEqual(['pending', 'a block', 'pending'])
})

test('a mined conflict makes a deposit reorged at once, and losing the conflict does not bring it back', async () => {
  const [txid, other] = [newTxid(), newTxid()]
  await poll(txid)
  await mine([], {spends: [[other, `${txid}-coin:0`]]})
  expect(await deposit(txid)).toEqual(['reorged', 'no block', 'pending reorged'])
  await mine([], {drop: 1})
  expect(await deposit(txid)).toEqual(['reorged', 'no block', 'pending reorged'])
  await poll(txid)
  expect(await deposit(txid)).toEqual(['pending', 'no block', 'pending reorged pending'])
})

test('a mined deposit that a double spend replaces on the winning branch is reorged in the same commit', async () => {
  const [txid, other] = [newTxid(), newTxid()]
  await mine([txid])
  await mine([other], {drop: 1, spends: [[other, `${txid}-coin:0`]]})
  expect(await deposit(txid)).toEqual(['reorged', expect.any(String), 'pending reorged'])
  expect(await deposit(other)).toEqual(['pending', 'a block', 'pending'])
})

test('a final deposit that a rewind removed has vanished even if it is unconfirmed again, and only an operator decides', async () => {
  const txid = newTxid()
  await mine([txid])
  await writer.finalise(writer.head.height)
  const block = writer.blocks.at(-1)!
  await db.rows(`select app.request_rewind('BTC', $1)`, [block.height - 1])
  await writer.rewind(block.height - 1)
  const incidents = () =>
    db.rows(`select kind, resolution from app.incident where kind like 'final_deposit%' order by id desc limit 1`)
  expect(await incidents()).toEqual([{kind: 'final_deposit_vanished', resolution: null}])
  await poll(txid)
  expect(await incidents()).toEqual([{kind: 'final_deposit_vanished', resolution: null}])
  expect(await deposit(txid)).toEqual(['final', 'a block', 'pending confirmed'])
})

test('a poll while a block is being written waits for it, without a deadlock', async () => {
  const [txid, other] = [newTxid(), newTxid()]
  await poll(txid)
  const polling = await db.pool.connect()
  try {
    let polled: Promise<unknown> | undefined
    await writer.write({
      add: [[]],
      also: async () => {
        await writer.query(`select chain.note_mined('BTC', '[]', $1, $2)`, [[other], [`${txid}-coin:0`]])
        polled = polling.query(`select chain.note_unconfirmed('BTC', '[]')`).catch((error: Error) => error)
        const waits = async () => (await db.rows('select from pg_locks where not granted')).length > 0
        await until(waits, {timeoutMs: 5000, what: 'the poll to wait'})
      },
    })
    expect(await polled).toMatchObject({rowCount: 1})
  } finally {
    polling.release()
  }
  expect(await deposit(txid)).toEqual(['reorged', 'no block', 'pending reorged'])
})
