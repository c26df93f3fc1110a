// A whole service whose node is away at its first start: how that is reported, and that nothing is lost. Also a chain
// that is configured later, with addresses that were in use for a while. (test/conformance/start.ts tests each kind of
// chain.)
import {execFile} from 'node:child_process'
import {promisify} from 'node:util'
import {expect, test} from 'vitest'
import {readProcesses} from '../../base/home.ts'
import {program} from '../support/command-line.ts'
import {Anvil, localChainId} from '../support/evm/anvil.ts'
import {portsInARow} from '../support/ports.ts'
import {kill, newHome, removeHome} from '../support/processes.ts'
import {faults, RpcProxy} from '../support/rpc-proxy.ts'
import {ended, sluice, start, withoutDashboard} from '../support/service.ts'
import {until} from '../support/until.ts'

/** The first four bytes of the hash of decimals(). */
const decimalsOf = '0x313ce567'

interface ChainStatus {
  chain: string
  head: number | null
  standstill: {reason: string; message: string} | null
}

test('a node that is away or of another network at the first start is reported and no deposit is lost, also on a chain added later', {
  timeout: 240_000,
}, async ({onTestFinished}) => {
  const [home, anvil] = [newHome(), await Anvil.start({slotsInAnEpoch: 2})]
  const node = await RpcProxy.start(anvil)
  onTestFinished(async () => {
    await removeHome(home)
    await node.close()
    await anvil.stop()
  })
  const metricsPort = await portsInARow(21)
  const environment = {
    SLUICE_DEVNET: 'off',
    CUSTODY_PASSPHRASE: 'correct horse battery',
    METRICS_PORT: `${metricsPort}`,
    METRICS_ON_API_PORT: '1',
    ETH_RPC_URL: node.httpUrl.replace('//', '//user:secret@'),
    ETH_CHAIN_ID: `${localChainId}`,
    ETH_TOKENS: anvil.ownTokens,
  }
  await promisify(execFile)(process.execPath, [program, 'custody', 'init'], {
    env: {...process.env, ...environment, SLUICE_HOME: home},
  })
  node.behave = () => faults.drop()
  const running = await start(home, environment, withoutDashboard)
  const {api_url} = running.service
  const ready = async () => {
    const response = await fetch(`${api_url}/readyz`)
    return {status: response.status, ...((await response.json()) as object)}
  }
  const metric = async (url: string, name: string) => {
    const text = await (await fetch(`${url}/metrics`)).text()
    const line = text.split('\n').find(each => each.startsWith(name))
    return line === undefined ? undefined : Number(line.slice(line.lastIndexOf(' ')))
  }
  const isActive = () => metric(`http://127.0.0.1:${metricsPort + 2}`, 'sluice_indexer_active{chain="ETH"}')
  const statusOf = async (code: string) =>
    ((await sluice(home, 'status')).chains as ChainStatus[]).find(({chain}) => chain === code)!
  const waits = (reason: string) =>
    until(async () => (await statusOf('ETH')).standstill?.reason === reason, {
      timeoutMs: 60_000,
      what: `ETH: ${reason}`,
    })

  // No node is there.
  await waits('node_unavailable')
  expect(await ready()).toMatchObject({
    status: 503,
    ready: false,
    database: true,
    waiting_for: ['ETH'],
    chains: [{chain: 'ETH', head_height: null, waiting: 'node_unavailable'}],
  })
  expect(await isActive()).toBe(0)
  for (const name of ['head_moved_age', 'head_age', 'waiting'])
    expect(await metric(api_url, `sluice_chain_${name}_seconds{chain="ETH"`), name).toBeGreaterThan(0)

  // The API serves meanwhile. An address that it hands out is paid, and the payment is final before the node is back.
  await sluice(home, 'merchant', 'create', '--name', 'Acme', '--prefix', 'acme', '--chains', 'ETH')
  const {secret} = await sluice(home, 'key', 'create', '--merchant', 'acme')
  const api = async (path: string, body?: object) => {
    const headers = {authorization: `Bearer ${secret}`, 'content-type': 'application/json'}
    const request = body ? {method: 'POST', body: JSON.stringify(body)} : {}
    // biome-ignore lint/suspicious/noExplicitAny: the test says what it expects of it
    return (await (await fetch(`${api_url}/v1/${path}`, {headers, ...request})).json()) as any
  }
  const user = await api('users', {external_ref: 'ada', chains: ['ETH']})
  const txid = await anvil.send({to: user.addresses[0].address, value: 5n})
  await anvil.mine(10)

  // A node of another network does not count either. That is logged once, and not each second.
  node.behave = ({method}, pass) => (method === 'eth_chainId' ? '0x4268' : pass())
  await waits('wrong_network')
  expect((await statusOf('ETH')).standstill!.message).toContain(
    `the node is on eip155:17000, expected eip155:${localChainId}`,
  )
  await node.asked(4, 'eth_chainId')
  const logged = running
    .output()
    .split('\n')
    .filter(line => line.includes('wrong_network'))
  expect(logged).toHaveLength(1)
  expect(running.output()).not.toContain('secret')

  // A chain whose token differs from its entry is not followed; the message says the difference.
  node.behave = ({params}, pass) =>
    JSON.stringify(params).includes(decimalsOf) ? `0x${'8'.padStart(64, '0')}` : pass()
  await waits('token_refused')
  expect((await statusOf('ETH')).standstill!.message).toMatch(
    /ETH EURC cannot be followed: .* was asked for decimals\(\), and it returned 8, not the entry's 6; correct its setting/,
  )

  node.behave = undefined
  await until(async () => (await api('deposits')).deposits[0]?.status === 'final', {
    timeoutMs: 60_000,
    what: 'the deposit',
  })
  expect((await api('deposits')).deposits).toMatchObject([{txid, status: 'final'}])
  expect(await ready()).toMatchObject({status: 200, ready: true, waiting_for: []})
  expect(await isActive()).toBe(1)
  expect(await statusOf('ETH')).toMatchObject({standstill: null})

  // The node is away again: the body says so, but the status code stays.
  node.behave = () => faults.drop()
  kill(readProcesses(home).find(({name}) => name === 'indexer-eth')!.pid!, 'SIGKILL')
  await waits('node_unavailable')
  expect(await ready()).toMatchObject({status: 200, ready: true, waiting_for: ['ETH']})

  // The same chain under another name: it shares the addresses of ETH, which were paid long ago.
  node.behave = undefined
  running.child.kill('SIGTERM')
  await ended(running.child)
  const later = {...environment, POLYGON_RPC_URL: node.httpUrl, POLYGON_CHAIN_ID: `${localChainId}`}
  await start(home, later, withoutDashboard)
  const found = async () => (await sluice(home, 'unattributed', 'list')).unattributed as {chain: string; txid: string}[]
  await until(async () => (await found()).length, {
    timeoutMs: 60_000,
    what: 'what was paid on POLYGON before it was configured',
  })
  expect(await found()).toMatchObject([{chain: 'POLYGON', txid}])
})
