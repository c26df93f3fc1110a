// A local EVM chain that is indexed, without custody and workers. For tests of an indexer with a chain and its node.
import type {TestContext} from 'vitest'
import {type TestDatabase, testDatabase} from '../database.ts'
import {depositsOf, Indexer, type IndexerOptions} from '../indexer.ts'
import {makeMerchant, makeUser, type TestUser} from '../people.ts'
import {RpcProxy} from '../rpc-proxy.ts'
import {Anvil} from './anvil.ts'

interface Options {
  transport?: 'ws' | 'http'
  slotsInAnEpoch?: number
  /** Settings of the indexer, without the chain's prefix. */
  settings?: Record<string, string>
}

/**
 * Everything one test needs: a database, a chain behind a node that can misbehave, a user to pay, an indexer of ETH.
 */
export class IndexedEvm {
  readonly db: TestDatabase
  readonly anvil: Anvil
  readonly node: RpcProxy
  readonly user: TestUser
  readonly other: TestUser
  indexer: Indexer
  readonly #settings: (changed?: Record<string, string>) => IndexerOptions

  private constructor(
    db: TestDatabase,
    anvil: Anvil,
    node: RpcProxy,
    users: [TestUser, TestUser],
    settings: (changed?: Record<string, string>) => IndexerOptions,
  ) {
    this.db = db
    this.anvil = anvil
    this.node = node
    ;[this.user, this.other] = users
    this.#settings = settings
    this.indexer = new Indexer(settings())
  }

  /** For one test only, and removed after it. The indexer is not started yet. */
  static async create(test: Pick<TestContext, 'onTestFinished'>, options: Options = {}): Promise<IndexedEvm> {
    const {transport = 'ws', slotsInAnEpoch, settings} = options
    const [db, anvil] = await Promise.all([testDatabase(), Anvil.start({slotsInAnEpoch})])
    const node = await RpcProxy.start(anvil)
    const merchantId = await makeMerchant(db)
    const users: [TestUser, TestUser] = [await makeUser(db, merchantId), await makeUser(db, merchantId)]
    const rpcUrl = transport === 'ws' ? node.wsUrl : node.httpUrl
    const withSettings = (changed?: Record<string, string>) => {
      return {db, rpcUrl, settings: {USDC_CONTRACT: anvil.usdc, ...settings, ...changed}}
    }
    const world = new IndexedEvm(db, anvil, node, users, withSettings)
    test.onTestFinished(async ({task}) => {
      const {indexer} = world
      if (task.result?.state === 'fail') console.log(task.name, indexer.ends, indexer.logs.slice(-20))
      await indexer.stop()
      await node.close()
      await anvil.stop()
      await db.drop()
    })
    return world
  }

  /** Ends the indexer, and starts another one with these settings changed. */
  async restartWith(changed: Record<string, string>): Promise<void> {
    await this.indexer.stop()
    this.indexer = Indexer.start(this.#settings(changed))
  }

  /** Mines, and waits until the indexer has the block. */
  async mined(blocks = 1): Promise<number> {
    const head = await this.anvil.mine(blocks)
    await this.indexer.reaches(head)
    return head.height
  }

  /** A deposit to `user`, mined and indexed. */
  async deposit({value = 5n, by = 1} = {}): Promise<{txid: string; raw: string; height: number}> {
    const txid = await this.anvil.send({by, to: this.user.address, value})
    const height = await this.mined()
    return {txid, raw: await this.anvil.raw(txid), height}
  }

  /** The deposits of a transaction with their events. */
  async history(txid: string): Promise<{to: string; amount: string; status: string; height: number; events: string}[]> {
    return (await depositsOf(this.db, txid)).map(({address, amount, status, height, events}) => {
      return {to: address === this.user.address ? 'user' : 'other', amount, status, height, events}
    })
  }

  async cursor(): Promise<Record<string, unknown>> {
    return (await this.db.rows('select * from chain.cursor'))[0]!
  }

  /** All rows that an indexer can have written, without times of writing. */
  async everything(): Promise<unknown> {
    const [row] = await this.db.rows(`select (select json_agg(b order by height) from chain.block b) as blocks,
      (select json_agg(t order by id) from chain.transfer t) as transfers,
      (select json_agg(d order by seq) from app.deposit d) as deposits,
      (select json_agg(e order by position) from app.event e) as events,
      (select json_agg(b) from app.balance_delta b) as balances,
      (select json_agg(json_build_object('head', head_hash, 'final', final_hash)) from chain.cursor c) as cursors,
      (select json_agg(s) from squid_eth.status s) as status, (select json_agg(h order by height) from squid_eth.hot_block h) as hot`)
    return row
  }
}
