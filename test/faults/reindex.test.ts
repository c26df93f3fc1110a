// A chain with deposits, sweeps and payouts is read again while it is in use: events, API data and books stay the same
// to the byte.
import pg from 'pg'
import {afterAll, beforeAll, describe, expect, test} from 'vitest'
import {factsOf, readSettings} from '../../chains/settings.ts'
import {BitcoinWorld, btc} from '../support/bitcoin/world.ts'
import {assertBooks} from '../support/books.ts'
import {CommandLine} from '../support/command-line.ts'
import type {TestDatabase} from '../support/database.ts'
import {localChainId} from '../support/evm/anvil.ts'
import {IndexedEvm} from '../support/evm/indexed-world.ts'
import {EvmWorld, ether, usdc} from '../support/evm/world.ts'
import {until} from '../support/until.ts'
import type {World} from '../support/world.ts'

/** Everything that merchants see, and the books, in the order of writing. */
const told = `select
  (select string_agg(d::text, E'\\n' order by d.seq) from app.deposit d) as deposits,
  (select string_agg(e::text, E'\\n' order by e.position) from app.event e) as events,
  (select string_agg(p::text, E'\\n' order by p.id) from app.payout p) as payouts,
  (select string_agg(l::text, E'\\n' order by l.id) from app.ledger_entry l) as ledger,
  (select string_agg(b::text, E'\\n' order by b::text) from app.balance_now b) as balances,
  (select string_agg(s::text, E'\\n' order by s.id) from app.outgoing_payment s) as "outgoingPayments",
  (select string_agg(o::text, E'\\n' order by o.chain, o.txid) from app.outgoing_attempt o) as transactions,
  (select string_agg(u::text, E'\\n' order by u.txid, u.vout) from app.output u) as outputs,
  (select string_agg(i::text, E'\\n' order by i.id) from app.incident i) as incidents,
  (select string_agg(t::text, E'\\n' order by t.id) from chain.transfer t) as transfers,
  (select string_agg(i::text, E'\\n' order by i.id) from chain.confirmed_tx i) as "confirmedTxs"`

async function readAgain(db: TestDatabase, chain: 'ETH' | 'BTC', environment: Record<string, string>): Promise<object> {
  const commandLine = new CommandLine(db, {[chain]: factsOf(readSettings(environment).chains.get(chain)!)})
  try {
    return await commandLine.json('reindex', '--chain', chain, '--from', '1')
  } finally {
    commandLine.close()
  }
}

/** Reads everything again twice, while new blocks come. */
async function isTheSameAfterwards(world: World, chain: 'ETH' | 'BTC', environment: Record<string, string>) {
  const numbered = async () => !(await world.db.rows('select from app.event where sequence is null')).length
  await until(numbered, {timeoutMs: 10_000, what: 'each event to have its number'}) // assigned after its transaction
  const [before] = await world.db.rows(told)
  for (let i = 0; i < 2; i++)
    expect(await readAgain(world.db, chain, environment)).toMatchObject({
      added: 0,
      removed: 0,
      changed: 0,
      incidents: 0,
    })
  const [after] = await world.db.rows(told)
  expect(after).toEqual(before)
  await assertBooks(world.db)
}

describe('ETH', () => {
  let world: EvmWorld
  beforeAll(async () => {
    world = await EvmWorld.open()
    await world.startWorker()
  })
  afterAll(() => world?.close())

  test('with sweeps and payouts is read again without any difference', async () => {
    const [a, b] = [await world.openShop('ETH', [ether, 2n * ether]), await world.openShop('USDC', [100n * usdc, usdc])]
    const payouts = [await world.request(a, 'ETH', true), await world.request(b, 'USDC')]
    for (const id of payouts) await world.becomes(id, 'completed')
    await world.openShop('ETH', [ether / 2n])
    await until(async () => !(await world.db.rows(`select from app.outgoing_payment where status <> 'final'`)).length, {
      timeoutMs: 40_000,
      what: 'everything that was sent to be final',
    })
    await isTheSameAfterwards(world, 'ETH', {
      ETH_RPC_URL: world.anvil.wsUrl,
      ETH_CHAIN_ID: String(localChainId),
      ETH_USDC_CONTRACT: world.anvil.usdc,
      ETH_TRACES: 'debug',
    })
    expect(world.indexer.ends).toEqual([])
  }, 240_000)
})

describe('BTC', () => {
  let world: BitcoinWorld
  beforeAll(async () => {
    world = await BitcoinWorld.open({treasury: [btc, btc]})
    await world.startWorker()
  })
  afterAll(() => world?.close())

  test('with payouts is read again from an Electrum server and from a node without any difference', async () => {
    const shop = await world.openShop([btc / 10n, btc / 5n])
    await world.becomes(await world.request(shop, 'BTC'), 'completed')
    await world.openShop([btc / 20n])
    for (const source of ['electrum', 'node'])
      await isTheSameAfterwards(world, 'BTC', {
        BTC_SOURCE: source,
        BTC_NETWORK: 'regtest',
        BTC_ELECTRUM_URLS: world.bitcoin.electrumUrl,
        BTC_RPC_URL: world.bitcoin.rpcUrl,
      })
    expect(world.indexer.ends).toEqual([])
  }, 240_000)
})

test('a chain without call traces is repaired from blocks and receipts only, many at a time', async context => {
  const world = await IndexedEvm.create(context, {transport: 'http', settings: {TRACES: 'off'}})
  world.indexer.start()
  const {txid} = await world.deposit()
  await world.mined(150)
  const {height} = await world.anvil.block()
  await world.indexer.finalises(height - 100)
  const history = await world.history(txid)
  const environment = {
    ETH_RPC_URL: world.node.httpUrl,
    ETH_CHAIN_ID: String(localChainId),
    ETH_USDC_CONTRACT: world.anvil.usdc,
  }
  expect(await readAgain(world.db, 'ETH', {...environment, ETH_TRACES: 'off'})).toMatchObject({
    added: 0,
    removed: 0,
    changed: 0,
  })
  const other = new pg.Client({connectionString: world.db.ownerUrl, options: '-c session_replication_role=replica'})
  await other.connect()
  await other.query('delete from chain.transfer where txid = $1', [txid])
  await other.end()
  expect(await readAgain(world.db, 'ETH', {...environment, ETH_TRACES: 'off'})).toMatchObject({
    added: 1,
    removed: 0,
    changed: 0,
  })
  expect(await world.history(txid)).toEqual(history)
})
