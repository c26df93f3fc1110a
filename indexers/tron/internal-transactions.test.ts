// Nodes of local chains that save internal transactions, or do not: an operator is told, the chain is followed
// meanwhile, and it goes away by itself.
import {afterEach, beforeEach, describe, expect, test} from 'vitest'
import {silent} from '../../base/log.ts'
import {settingsFrom} from '../../chains/settings.ts'
import {TronNodes} from '../../chains/tron/client.ts'
import {tronSettings} from '../../chains/tron/settings.ts'
import {rawOf} from '../../chains/tron/transaction.ts'
import {answer} from '../../devnet/tron/api.ts'
import {TronLocalChain} from '../../devnet/tron/chain.ts'
import {dispersal, newAddress, payment} from '../../devnet/tron/client.ts'
import {faucetKey} from '../../devnet/tron/constants.ts'
import {TronJournal} from '../../devnet/tron/journal.ts'
import {CommandLine} from '../../test/support/command-line.ts'
import {type TestDatabase, testDatabase} from '../../test/support/database.ts'
import {Indexer} from '../../test/support/indexer.ts'
import {RpcProxy} from '../../test/support/rpc-proxy.ts'
import {until} from '../../test/support/until.ts'
import {ChainCursor} from '../cursor.ts'
import {lookAtAll} from './internal-transactions.ts'

const lag = 2
let db: TestDatabase
let chain: TronLocalChain
let proxies: RpcProxy[]
let on: {height: number; hash: string}

beforeEach(async () => {
  db = await testDatabase()
  chain = new TronLocalChain(new TronJournal(':memory:', 'TRON'), lag)
  on = {height: 1, hash: chain.mine().hash}
  proxies = await Promise.all(
    [1, 2].map(() => RpcProxy.start({call: async (path, [body]) => answer(chain, path, JSON.stringify(body))})),
  )
})
afterEach(async () => {
  for (const proxy of proxies) await proxy.close()
  chain.journal.close()
  await db.drop()
})

/** Calls that bring coins, one in each block, by a node that saves what contracts pay, or does not. */
function call(count: number, {saved}: {saved: boolean}, value?: bigint): void {
  chain.savesInternals = saved
  for (let i = 0; i < count; i++) {
    chain.submit(rawOf(dispersal({key: faucetKey, on}, [{to: newAddress(), amount: 5n}], value)))
    chain.mine()
  }
  chain.mine(lag)
}

const incidents = () =>
  db.rows<{chain: string | null; subject: string; details: {nodes: object[]}; resolution: string | null}>(
    `select chain, subject, details, resolution from app.incident where kind = 'no_internal_transactions' order by id`,
  )

async function look(of = proxies.slice(0, 1)): Promise<boolean> {
  const [first, second] = of.map(({httpUrl}) => httpUrl)
  const urls = {TRON_RPC_URL: first!, ...(second && {TRON_RPC_URL_2: second})}
  const settings = tronSettings(settingsFrom('TRON', {TRON_NETWORK: 'local', ...urls}))
  const cursor = new ChainCursor(db.pool, 'TRON')
  return await lookAtAll({nodes: new TronNodes(settings), settings, cursor, log: silent(), pauseMs: 0})
}

describe('a look at a node', () => {
  test('that shows no internal transactions of twenty calls opens one incident, which a later look closes', async () => {
    call(20, {saved: false})
    expect([await look(), await look()]).toEqual([true, true])
    const seen = {setting: 'TRON_RPC_URL', calls: 20, from: 2, to: 21}
    const open = {chain: null, subject: 'TRON', details: {nodes: [seen]}, resolution: null}
    expect(await incidents()).toEqual([open])
    call(1, {saved: true})
    await look()
    expect(await incidents()).toEqual([{...open, resolution: 'healed'}])
  })

  test('says nothing after fewer calls, or calls that failed, or payments of people', async () => {
    call(19, {saved: false})
    call(5, {saved: false}, 4n) // they revert
    for (let i = 0; i < 20; i++) chain.submit(rawOf(payment({key: faucetKey, on}, newAddress(), 1n)))
    chain.mine(1 + lag)
    expect([await look(), await incidents()]).toEqual([true, []])
    call(1, {saved: false})
    await look()
    expect(await incidents()).toHaveLength(1)
  })

  test('does not close an incident because of too few calls, or because the node is away', async () => {
    call(20, {saved: false})
    await look()
    chain.mine(2200) // further than a look goes
    expect([await look(), (await incidents()).map(({resolution}) => resolution)]).toEqual([true, [null]])
    proxies[0]!.behave = () => {
      throw new Error('away')
    }
    expect([await look(), (await incidents()).map(({resolution}) => resolution)]).toEqual([false, [null]])
  })

  test('makes a bounded number of requests', async () => {
    call(120, {saved: false}, 4n)
    let asked = 0
    proxies[0]!.behave = (_, pass) => {
      asked++
      return pass()
    }
    await look()
    expect(asked).toBeLessThanOrEqual(101)
  })

  test('is one at each node: the other one may hide what the first shows', async () => {
    call(20, {saved: true})
    proxies[1]!.behave = async ({method}, pass) => {
      const response = await pass()
      if (!method.endsWith('infobyblocknum')) return response
      return (response as object[]).map(info => ({...info, internal_transactions: undefined}))
    }
    await look(proxies)
    expect((await incidents()).map(({details}) => details)).toMatchObject([{nodes: [{setting: 'TRON_RPC_URL_2'}]}])
  })

  test('is not told again for a month to an operator who keeps it', async () => {
    call(20, {saved: false})
    await look()
    await db.rows(`select app.resolve_incident(id, 'kept') from app.incident`)
    await look()
    expect(await incidents()).toMatchObject([{resolution: 'kept'}])
    await db.rows(`update app.incident set resolved_at = resolved_at - interval '31 days'`)
    await look()
    expect(await incidents()).toMatchObject([{resolution: 'kept'}, {resolution: null}])
  })
})

test('an indexer looks when it starts; status says what to do, and the chain is followed', async () => {
  call(20, {saved: false})
  const node = {TRON_RPC_URL: proxies[0]!.httpUrl, TRON_NETWORK: 'local'}
  const indexer = Indexer.start({db, chain: 'TRON', environment: {...node, TRON_START_HEIGHT: '1'}})
  const commandLine = new CommandLine(db, {TRON: {rpc_url: node.TRON_RPC_URL, local: false, settings: node}})
  try {
    await until(async () => (await incidents()).length === 1, {timeoutMs: 30_000, what: 'the incident'})
    expect(indexer.said('coins that contracts pay would not be seen')).toBe(true)
    await indexer.reaches(chain.mine())
    const {stdout} = await commandLine.sluice('status')
    expect(stdout).toMatch(
      /no_internal_transactions.*\n?.*coins that contracts pay may not be seen: set vm.saveInternalTx/,
    )
    expect(stdout).toMatch(/^TRON .* followed$/m)
    call(1, {saved: true})
    await indexer.restart()
    await until(async () => (await incidents())[0]!.resolution === 'healed', {
      timeoutMs: 30_000,
      what: 'the incident to close',
    })
    expect((await commandLine.sluice('status')).stdout).not.toMatch('saveInternalTx')
  } finally {
    await indexer.stop()
    commandLine.close()
  }
})
