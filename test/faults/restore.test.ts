// The database is lost, and an older copy replaces it: a real backup of a whole service, and everything that happened since. The payouts are
// in a token that only the service's settings name.
import {execFile} from 'node:child_process'
import {readFileSync, rmSync} from 'node:fs'
import path from 'node:path'
import {fileURLToPath} from 'node:url'
import {promisify} from 'node:util'
import pg from 'pg'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {dashboardSecretFile, type Service} from '../../base/home.ts'
import {type ChainCode, type Chains, newWallet, openChains} from '../../demo/chains.ts'
import {kill, newHome, processesOf, removeHome} from '../support/processes.ts'
import {ended, type Started, sluice, start} from '../support/service.ts'
import {until} from '../support/until.ts'

const program = fileURLToPath(new URL('../../cli/main.ts', import.meta.url))
const timeoutMs = 180_000
const intervalMs = 300
let home: string
let running: Started & {service: Service}
let secret: string
let chains: Chains
let wallet: Record<ChainCode, string>

beforeAll(async () => {
  home = newHome()
  running = await start(home)
  chains = await openChains(home)
  wallet = newWallet(chains)
  await sluice(home, 'merchant', 'create', '--name', 'Acme', '--prefix', 'acme', '--fee-bps', '100')
  secret = (await sluice(home, 'key', 'create', '--merchant', 'acme')).secret
  for (const chain of ['ETH', 'BTC'] as const) {
    await call('PUT', '/v1/payout-address', {chain, address: wallet[chain]})
    await sluice(home, 'whitelist', 'add', '--merchant', 'acme', '--chain', chain, '--address', wallet[chain])
  }
})

afterAll(async () => {
  await removeHome(home)
})

// biome-ignore lint/suspicious/noExplicitAny: the tests say what they expect of it
async function call(method: string, route: string, body?: unknown, key?: string): Promise<{status: number; body: any}> {
  const response = await fetch(running.service.api_url + route, {
    method,
    headers: {
      authorization: `Bearer ${secret}`,
      'content-type': 'application/json',
      ...(key && {'idempotency-key': key}),
    },
    ...(body !== undefined && {body: JSON.stringify(body)}),
  })
  return {status: response.status, body: await response.json()}
}

/** Runs a command without --json; returns its output. */
async function said(...given: string[]): Promise<string> {
  const {stdout} = await promisify(execFile)(process.execPath, [program, ...given], {
    env: {...process.env, SLUICE_HOME: home},
  })
  return stdout
}

async function addressOf(user: string, chain: ChainCode): Promise<string> {
  const {body} = await call('POST', '/v1/users', {external_ref: user})
  return body.addresses.find((each: {chain: string}) => each.chain === chain).address
}

interface Deposit {
  id: string
  status: string
  chain: string
  token: string
  amount: string
  txid: string
  address: string
}

async function deposits(): Promise<Deposit[]> {
  const {body} = await call('GET', '/v1/deposits?limit=100')
  return body.deposits
}

/** Mines, because finality needs blocks, and the chain's own come only every second or two. */
async function mine(chain: ChainCode): Promise<void> {
  await chains[chain].mine()
}

async function finalDeposit(chain: ChainCode, txid: string): Promise<Deposit | undefined> {
  await mine(chain)
  return (await deposits()).find(each => each.txid === txid && each.status === 'final')
}

/** A deposit, once it is final. */
async function deposit(chain: ChainCode, token: string, user: string, amount: string): Promise<Deposit> {
  const txid = await chains[chain].send({token, to: await addressOf(user, chain), amount})
  return await until(() => finalDeposit(chain, txid), {timeoutMs, what: `${amount} ${token} to be final`, intervalMs})
}

async function pay(chain: ChainCode, token: string, key: string): Promise<{id: string; gross: string; net: string}> {
  const {status, body} = await call('POST', '/v1/payouts', {chain, token}, key)
  expect({status, body}).toMatchObject({status: 202})
  return body
}

// biome-ignore lint/suspicious/noExplicitAny: as above
async function becomes(id: string, status: string): Promise<any> {
  return await until(
    async () => {
      const {body} = await call('GET', `/v1/payouts/${id}`)
      if (status === 'completed') await mine(body.chain)
      return body.status === status && body
    },
    {timeoutMs, what: `payout ${id} to be ${status}`, intervalMs},
  )
}

async function balances(): Promise<Record<string, string>> {
  const {body} = await call('GET', '/v1/balances')
  return Object.fromEntries(body.balances.map((each: Record<string, string>) => [each.token, each.gross]))
}

test('payments since the backup are not paid again, and the next payout pays exactly the rest', async () => {
  await deposit('ETH', 'EURC', 'ann', '100')
  const before = await pay('ETH', 'EURC', 'before')
  await becomes(before.id, 'completed')
  const unsettled = await deposit('ETH', 'EURC', 'ann', '200') // unsettled in the copy, and paid out since
  await deposit('BTC', 'BTC', 'ann', '0.5')
  const backup = path.join(home, 'backup')
  expect(await sluice(home, 'backup', '--to', backup)).toMatchObject({directory: backup})

  const completed = await pay('ETH', 'EURC', 'after')
  expect(completed.gross).toBe('200')
  const {txid} = await becomes(completed.id, 'completed')
  const later = await deposit('ETH', 'EURC', 'ann', '300') // not in the copy, and paid out since
  const second = await pay('ETH', 'EURC', 'second')
  await becomes(second.id, 'completed')
  const owed = await deposit('ETH', 'EURC', 'ann', '40') // not in the copy, and not paid out
  const drill = await sluice(home, 'drill', '--from', backup)
  expect(
    drill.steps.map(({step, right, result}: {step: string; right: boolean; result: string}) => [step, right, result]),
  ).toEqual([
    ['restore', true, expect.any(String)],
    ['custody verify', true, expect.stringContaining('each as it is in the database')],
    ['custody reconcile', true, expect.stringMatching(/of 2 payouts/)],
    ['catch up', true, expect.stringContaining('ETH')],
    ['audit', true, expect.any(String)],
  ])
  const client = new pg.Client({connectionString: running.service.database_url})
  await client.connect()
  const {rows} = await client.query('select kind, made_with, error from app.backup_run order by id')
  await client.end()
  expect(rows).toEqual([
    {kind: 'backup', made_with: 'sluice backup', error: null},
    {kind: 'drill', made_with: 'sluice drill', error: null},
  ])
  const known = (await call('GET', '/v1/events?limit=1')).body.events[0]
  const underWay = await pay('BTC', 'BTC', 'bitcoin')
  await becomes(underWay.id, 'paying')

  running.child.kill('SIGKILL')
  await ended(running.child)
  const data = path.join(home, 'postgres', 'data')
  kill(Number.parseInt(readFileSync(path.join(data, 'postmaster.pid'), 'utf8'), 10), 'SIGKILL')
  const ofService = () => processesOf(home).filter(pid => !commandOf(pid).includes('/devnet'))
  await until(async () => ofService().filter(pid => !/anvil|bitcoin|bcoin/.test(commandOf(pid))).length === 0, {
    timeoutMs: 20_000,
    what: 'the processes to end',
  })
  rmSync(path.join(home, 'postgres'), {recursive: true})
  const cookieSecret = readFileSync(dashboardSecretFile(home), 'utf8')
  rmSync(dashboardSecretFile(home))
  const missed = await chains.ETH.send({token: 'EURC', to: owed.address, amount: '5'}) // while nobody follows the chain

  expect(await sluice(home, 'restore', '--from', backup)).toEqual({home})
  expect(readFileSync(dashboardSecretFile(home), 'utf8')).toBe(cookieSecret)
  running = await start(home)
  const {incidents} = await sluice(home, 'incident', 'list')
  expect(incidents.map((each: {kind: string; chain: string}) => `${each.kind} ${each.chain}`).sort()).toEqual([
    'journal_ahead BTC',
    'journal_ahead ETH',
  ])
  expect((await call('GET', `/v1/payouts/${completed.id}`)).status).toBe(404)
  expect(await call('POST', '/v1/payouts', {chain: 'ETH', token: 'EURC'}, 'after')).toMatchObject({
    status: 422,
    body: {
      error: 'payout_failed',
      message: expect.stringMatching(/incident \d+ \(journal_ahead\) waits for the operator/),
    },
  })

  expect(await said('custody', 'reconcile')).toMatch(/entries were imported, of 3 payouts/)
  expect(await becomes(completed.id, 'completed')).toMatchObject({gross: '200', net: '198', txid})
  await becomes(second.id, 'completed')
  await becomes(underWay.id, 'completed')
  await until(() => finalDeposit('ETH', missed), {
    timeoutMs,
    what: 'the unseen deposit to be final',
    intervalMs,
  })
  expect((await deposits()).map(({id}) => id)).toEqual(expect.arrayContaining([later.id, owed.id]))
  expect((await balances()).EURC).toBe('45')
  const settlementOf = async ({id}: Deposit) => (await call('GET', `/v1/deposits/${id}`)).body.settlement_id
  expect([await settlementOf(unsettled), await settlementOf(later), await settlementOf(owed)]).toEqual([
    completed.id,
    second.id,
    null,
  ])
  const [balance] = (await call('GET', '/v1/balances')).body.balances.filter(
    ({token}: {token: string}) => token === 'EURC',
  )
  expect(balance.depositCount).toBe(2)
  const newest = (await call('GET', '/v1/events?limit=1')).body.events[0]
  expect(newest.sequence).toBeGreaterThan(known.sequence)

  const next = await pay('ETH', 'EURC', 'next')
  expect(next).toMatchObject({gross: '45', net: '44.55'})
  await becomes(next.id, 'completed')
  expect(await chains.ETH.balance('EURC', wallet.ETH)).toBe(638_550_000n) // 99 + 198 + 297 + 44.55, each once
  expect(await chains.BTC.balance('BTC', wallet.BTC)).toBe(49_500_000n)
  expect((await balances()).EURC).toBeUndefined()
  expect(await sluice(home, 'audit')).toMatchObject({right: true})
  expect((await sluice(home, 'incident', 'list')).incidents).toEqual([])
}, 1_200_000)

function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8')
  } catch {
    return ''
  }
}
