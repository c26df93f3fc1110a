// Wrong calls of sluice reindex: each error says what is wrong, and nothing is read.
import {afterAll, beforeAll, expect, test} from 'vitest'
import {CommandLine} from '../test/support/command-line.ts'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'

let db: TestDatabase
let commandLine: CommandLine

beforeAll(async () => {
  db = await testDatabase()
  const rpc_url = 'http://127.0.0.1:1'
  commandLine = new CommandLine(db, {
    ETH: {rpc_url, local: false, settings: {ETH_RPC_URL: rpc_url, ETH_CHAIN_ID: '1', ETH_TRACES: 'off'}},
  })
  await db.rows(`select chain.anchor('ETH', 'eip155:1', 100, '0x01', now())`)
})
afterAll(async () => {
  commandLine.close()
  await db.drop()
})

test.each([
  [['--chain', 'ETH'], 'give --from with the first block to read, or --resume alone'],
  [['--chain', 'ETH', '--from', '1', '--resume'], 'or --resume alone'],
  [['--chain', 'ETH', '--to', '9', '--resume'], 'or --resume alone'],
  [['--chain', 'BTC', '--from', '1'], 'the service does not follow BTC'],
  [['--chain', 'ETH', '--from', '1'], 'the node of ETH cannot be asked'],
])('%j', async (given, says) => {
  expect(await commandLine.failure('reindex', ...given)).toMatch(says)
  expect(await db.rows('select from app.reindex')).toEqual([])
})

test('an invalid command line has exit code 2', async () => {
  for (const given of [[], ['--chain', 'ETH', '--from', 'yesterday'], ['--chain', 'nowhere', '--from', '1']])
    expect((await commandLine.run(['reindex', ...given])).code).toBe(2)
})

test('a chain that was indexed with call traces cannot be read again without them', async () => {
  await db.rows(`select chain.pin_tracer('ETH', 'debug')`)
  expect(await commandLine.failure('reindex', '--chain', 'ETH', '--from', '1')).toMatch(
    'set it to debug to read the chain again',
  )
})
