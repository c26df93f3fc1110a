// Polls of unconfirmed transactions, on a real database: when a poll may report that one is gone. (The effects:
// db/unconfirmed.test.ts.)
import pg from 'pg'
import pino from 'pino'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {parseTransaction} from '../../chains/bitcoin/block.ts'
import {addressOfScript} from '../../chains/bitcoin/script.ts'
import {chain} from '../../chains/registry.ts'
import {ChainWriter} from '../../test/support/chain-writer.ts'
import {type TestDatabase, testDatabase} from '../../test/support/database.ts'
import {makeMerchant, watchAddress} from '../../test/support/people.ts'
import {ChainCursor} from '../cursor.ts'
import {pollOnce} from './unconfirmed.ts'

const bitcoin = chain('BTC')
if (bitcoin.family !== 'bitcoin') throw new Error('BTC is of another family')
const format = bitcoin.networks.regtest
/** Spends an output of somebody else and pays 1,000 sat to a P2WPKH address. */
const raw = `0200000001${'11'.repeat(32)}0000000000fdffffff01e803000000000000160014${'22'.repeat(20)}00000000`
const transaction = parseTransaction(Buffer.from(raw, 'hex'))

let db: TestDatabase
let indexer: pg.Pool
let writer: ChainWriter
beforeAll(async () => {
  db = await testDatabase()
  writer = await ChainWriter.open(db, 'BTC')
  indexer = new pg.Pool({connectionString: db.url('sluice_indexer'), max: 2})
  const address = addressOfScript(transaction.outputs[0]!.script, format)!
  const merchant = await makeMerchant(db, ['BTC'])
  await watchAddress(db, merchant, {address, family: 'bitcoin', watched: ['BTC'], chains: ['BTC']})
})
afterAll(async () => {
  await Promise.all([indexer.end(), writer.close()])
  await db.drop()
})

test('a transaction that left the mempool for a block that is not written yet is not given up', async () => {
  const options = {
    db: indexer,
    cursor: new ChainCursor(indexer, 'BTC'),
    network: {chain: bitcoin, network: 'regtest' as const},
    log: pino({level: 'silent'}),
    intervalMs: 1000,
  }
  const poll = (head: string, ...transactions: {transaction: typeof transaction; sender: string}[]) =>
    pollOnce({unconfirmed: async () => ({head, transactions})}, options)
  const missed = () => db.rows<{missed: boolean}>('select missed_since is not null as missed from chain.unconfirmed')
  await poll(writer.head.hash, {transaction, sender: 'unknown'})
  expect(await missed()).toEqual([{missed: false}])
  await poll('the block that it is in')
  expect(await missed()).toEqual([{missed: false}])
  await poll(writer.head.hash)
  expect(await missed()).toEqual([{missed: true}])
  await db.rows(`update chain.unconfirmed set missed_since = missed_since - interval '31 seconds'`)
  await poll('the block that it is in')
  expect(await db.rows('select status from app.deposit')).toEqual([{status: 'pending'}])
  await poll(writer.head.hash)
  expect(await db.rows('select status from app.deposit')).toEqual([{status: 'reorged'}])
})
