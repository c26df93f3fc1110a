// A new version of evm-processor or typeorm-store that moves what README.md lists fails here, with a sentence that says
// what.
import {createRequire} from 'node:module'
import {EvmBatchProcessor} from '@subsquid/evm-processor'
import {Store, TypeormDatabase} from '@subsquid/typeorm-store'
import {DataSource} from 'typeorm'
import {afterAll, beforeAll, describe, expect, test} from 'vitest'
import {openRpc} from '../../chains/evm/client.ts'
import {type TestDatabase, testDatabase} from '../../test/support/database.ts'
import {asInconsistent, type BlockSource, isInconsistent, isTooDeepFork, openSource, replace} from './source.ts'
import {ChainDatabase, queryOf} from './store.ts'

const url = 'http://127.0.0.1:1'

function hasMethods(of: object, methods: string[]): void {
  for (const method of methods)
    expect(typeof (of as Record<string, unknown>)[method], `${of.constructor.name} has no ${method}() any more`).toBe(
      'function',
    )
}

describe('evm-processor', () => {
  const client = openRpc(url, {timeoutMs: 1000})
  afterAll(() => client.close())
  const open = () =>
    new EvmBatchProcessor().setRpcEndpoint(url).setFinalityConfirmation(10).includeAllBlocks().setBlockRange({from: 5})

  test('has what is replaced in the processor', () => {
    hasMethods(open(), ['getHotDataSource', 'getChainRpcClient', 'getBatchRequests', 'getPrometheusServer'])
  })

  test('has one source of blocks, whose parts can be replaced, and which asks with our client', () => {
    const processor = open()
    const {source, requests} = openSource(processor, client)
    hasMethods(source, [
      'getFinalizedHeight',
      'getFinalizedBlocks',
      'processHotBlocks',
      'subscription',
      'polling',
      'subscribeNewHeads',
    ])
    expect(openSource(processor, client).source, 'getHotDataSource() makes a new source each time').toBe(source)
    expect(requests, 'getBatchRequests() has no ranges any more').toMatchObject([{range: {from: 5}}])
    const {rpc} = source as unknown as {rpc: {client: unknown; props: object}}
    expect(rpc.client, 'the source does not take its client from getChainRpcClient() any more').toBe(client)
    hasMethods(Object.getPrototypeOf(rpc.props), ['getReceiptsMethod'])
  })

  test('follows the head by what replaces its polling', async () => {
    const {source, requests} = openSource(open(), client)
    const heads: unknown[] = []
    replace(source, {polling: async navigate => void heads.push(typeof navigate)} satisfies Partial<
      BlockSource<unknown>
    >)
    await source.processHotBlocks(requests, {height: 4, top: []}, async () => {})
    expect(heads, 'processHotBlocks() does not follow the head by polling() any more').toEqual(['function'])
  })

  test('marks what contradicts itself, and asserts that no fork is too deep, as is looked for', async () => {
    const inEvmProcessor = createRequire(createRequire(import.meta.url).resolve('@subsquid/evm-processor'))
    const {BlockConsistencyError, isDataConsistencyError, HotProcessor} = inEvmProcessor(
      '@subsquid/util-internal-ingest-tools',
    )
    expect(isInconsistent(new BlockConsistencyError({height: 1})), 'its own errors have another mark').toBe(true)
    expect(isDataConsistencyError(asInconsistent(new Error())), 'our errors need another mark').toBe(true)
    const blocks = [{height: 2, hash: '0x2', parentHash: 'another'}]
    const hot = new HotProcessor(
      {height: 1, hash: '0x1', top: []},
      {getBlockRange: () => [blocks], getBlock: async () => blocks[0], getHeader: (block: object) => block},
    )
    const error = await hot.goto({best: blocks[0], finalized: {height: 0}}).catch((error: unknown) => error)
    expect(isTooDeepFork(error), `a fork that is too deep is told in another way: ${error}`).toBe(true)
  })
})

describe('typeorm-store', () => {
  let db: TestDatabase
  beforeAll(async () => {
    db = await testDatabase()
  })
  afterAll(() => db.drop())

  test('has what is replaced in the store', () => {
    hasMethods(TypeormDatabase.prototype, ['initTransaction', 'getState', 'submit'])
  })

  test('runs statements in the transaction of a store', async () => {
    const store = new Store(() => ({query: async (sql: string) => [sql]}) as never)
    expect(await queryOf(store)('select 1', []), 'em() of a Store is no entity manager any more').toEqual(['select 1'])
  })

  test('makes the tables that chain.install makes', async () => {
    class Own extends TypeormDatabase {
      protected override initializeDataSource() {
        return new DataSource({type: 'postgres', url: db.ownerUrl}).initialize()
      }
    }
    const own = new Own({supportHotBlocks: true, stateSchema: 'made_by_the_store'})
    await own.connect()
    await own.disconnect()
    const columns = (schema: string) =>
      db.rows(
        `select table_name, column_name, data_type, is_nullable, column_default from information_schema.columns where table_schema = $1 order by 1, 2`,
        [schema],
      )
    const made = await columns('made_by_the_store')
    expect(made.length).toBeGreaterThan(10)
    expect(await columns('squid_eth'), 'db/functions/chains/install.sql makes other tables').toEqual(made)
  })

  test('reads its state as the role that may make nothing', async () => {
    await db.rows(`select chain.anchor('ETH', 'eip155:1', 7, '0x7', now())`)
    const store = new ChainDatabase(db.url('sluice_indexer'), 'ETH')
    expect(await store.connect(), 'connect() returns another state').toMatchObject({height: 7, hash: '0x7', top: []})
    await store.disconnect()
  })
})
