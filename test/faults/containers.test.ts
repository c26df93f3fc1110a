// docker-compose.yml at work, as far as possible without containers: see test/support/containers.ts.
import {randomBytes} from 'node:crypto'
import {afterAll, beforeAll, expect, inject, test} from 'vitest'
import {z} from 'zod'
import {Custody} from '../../jobs/payouts/custody.ts'
import {startBitcoin, type TestBitcoin} from '../support/bitcoin/node.ts'
import {createDatabase, dropDatabase, urlOf} from '../support/database.ts'
import {Anvil, localChainId} from '../support/evm/anvil.ts'
import {until} from '../support/until.ts'
import {Containers} from './containers.ts'

const database = `containers_${randomBytes(6).toString('hex')}`
const followers = ['jobs', 'api', 'indexer-eth', 'indexer-polygon', 'indexer-btc']
const Response = z.object({
  addresses: z.array(z.object({chain: z.string(), address: z.string()})).default([]),
  deposits: z.array(z.object({status: z.string()})).default([]),
})
let anvil: Anvil
let bitcoin: TestBitcoin
let containers: Containers

beforeAll(async () => {
  const serverUrl = inject('serverUrl')
  ;[anvil, bitcoin] = await Promise.all([Anvil.start(), startBitcoin(), createDatabase(serverUrl, database)])
  await anvil.mine(20)
  const postgres = new URL(urlOf(serverUrl, database))
  const chainId = String(localChainId)
  containers = new Containers({
    dotEnv: {ETH_CHAIN_ID: chainId, POLYGON_CHAIN_ID: chainId, BTC_NETWORK: 'regtest', ADDRESS_POOL_SIZE: '5'},
    given: {
      database_password: decodeURIComponent(postgres.password),
      eth_rpc_url: anvil.wsUrl,
      polygon_rpc_url: anvil.httpUrl,
      btc_electrum_urls: bitcoin.electrumUrl,
      sol_rpc_url: 'http://127.0.0.1:1', // no test asks a public node
    },
    postgres,
  })
})

afterAll(async () => {
  await containers?.down()
  await Promise.all([anvil?.stop(), bitcoin?.stop()])
  await dropDatabase(inject('serverUrl'), database)
})

async function cli(...given: string[]) {
  const {code, output} = await containers.run('cli', ...given, '--json')
  expect({given, code, output}).toMatchObject({code: 0})
  return JSON.parse(output)
}

test('each service of docker-compose.yml starts with only its secrets, becomes healthy, works, and ends in time', {
  timeout: 480_000,
}, async () => {
  // Custody needs an existing seed.
  expect(await containers.run('migrate')).toMatchObject({code: 0, output: expect.stringMatching(/001_roles\.sql/)})
  expect(await containers.run('custody')).toMatchObject({code: 1, output: expect.stringMatching(/custody init/)})
  expect(await containers.run('custody-cli', 'init')).toMatchObject({
    code: 0,
    output: expect.stringMatching(/treasury/),
  })

  await containers.up('custody')
  await containers.healthy('custody')
  for (const name of followers) await containers.up(name)
  await Promise.all(followers.map(name => containers.healthy(name)))

  const merchant = await cli('merchant', 'create', '--name', 'Acme', '--prefix', 'acme', '--chains', 'ETH,POLYGON,BTC')
  expect(merchant).toMatchObject({prefix: 'acme'})
  const {secret} = await cli('key', 'create', '--merchant', 'acme')
  const call = async (path: string, body?: object) => {
    const response = await fetch(`${await containers.apiUrl()}${path}`, {
      method: body ? 'POST' : 'GET',
      headers: {authorization: `Bearer ${secret}`, 'content-type': 'application/json'},
      ...(body && {body: JSON.stringify(body)}),
    })
    return Response.parse(await response.json())
  }
  const {addresses} = await call('/v1/users', {external_ref: 'customer-1'})
  expect(addresses.map(({chain}) => chain)).toEqual(['BTC', 'ETH', 'POLYGON'])
  await anvil.send({to: addresses[1]!.address, value: 10n ** 18n})
  await anvil.mine(20)
  await until(
    async () => {
      const {deposits} = await call('/v1/deposits')
      return deposits.filter(({status}) => status === 'final').length === 2 // both chains are one anvil
    },
    {timeoutMs: 60_000, what: 'the deposit to be final'},
  )

  const status = await cli('status')
  expect(status).toMatchObject({
    chains: [
      {chain: 'BTC', local: false, head: expect.any(Number)},
      {chain: 'ETH', local: false, head: expect.any(Number), halted: false},
      {chain: 'POLYGON', local: false, head: expect.any(Number), halted: false},
      {chain: 'SOL', local: false, head: null, halted: false},
      {chain: 'TRON', local: false, head: null, halted: false}, // java-tron is no program of this test
    ],
    processes: [],
  })
  expect(await containers.run('custody-cli', 'verify')).toMatchObject({
    code: 0,
    output: expect.stringMatching(/each as it is in the database/),
  })

  // The socket of custody is open to jobs only.
  const asking = (name: string) => new Custody(containers.home(name)).check('00000000-0000-0000-0000-000000000000')
  expect(await asking('jobs')).toMatchObject({ok: false, code: 'unknown_settlement'})
  await expect(asking('api')).rejects.toThrow('custody cannot be reached')

  expect(await containers.down()).toEqual(Object.fromEntries(['custody', ...followers].map(name => [name, 0])))
})
