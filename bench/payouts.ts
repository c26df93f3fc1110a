// Payouts, through the whole service on a local chain (a block a second, final eight blocks later): payouts/s from the
// first request to the last final payout, over a client that signs the same number of transfers with one key, sends
// them and waits until the last is final; a payout that sweeps 1 and 100 addresses; and the time from the kill
// -9 of a worker in the middle of a step to the next step. On Tron, what the sweeps of a token burn.
import {type ChildProcess, fork} from 'node:child_process'
import {randomBytes} from 'node:crypto'
import {once} from 'node:events'
import {chmodSync, mkdtempSync, rmSync, statSync} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {setTimeout as sleep} from 'node:timers/promises'
import {fileURLToPath} from 'node:url'
import pg from 'pg'
import {encodeFunctionData, erc20Abi, getAddress, type Hex, keccak256} from 'viem'
import {z} from 'zod'
import {newKey} from '../base/api-key.ts'
import {readSettings} from '../chains/settings.ts'
import {roleUrl} from '../db/migrate/migrate.ts'
import type {EvmClient} from '../devnet/evm/client.ts'
import {accounts, chainIds, multisendAddress, usdcAddress} from '../devnet/evm/constants.ts'
import {tokens} from '../devnet/evm/tokens.ts'
import {families} from '../devnet/families.ts'
import type {TronClient} from '../devnet/tron/client.ts'
import {type RunningService, startService} from '../service/supervisor.ts'
import {sluice} from '../test/support/service.ts'
import {median, type Report} from './result.ts'

const lanes = 20
const perTransaction = 100
const timeoutMs = 300_000
const each = {ETH: 10n ** 16n, USDC: 2n * 10n ** 6n, USDT: 2n * 10n ** 6n}
type Token = keyof typeof each
interface Asset {
  chain: 'ETH' | 'TRON'
  token: string
}
const coin: Asset = {chain: 'ETH', token: 'ETH'}
const contractOf = (code: Token) => tokens.find(({token}) => token === code)!.contract

interface World {
  service: RunningService
  pool: pg.Pool
  chain: EvmClient
}

interface Shop {
  id: string
  key: string
  addresses: string[]
}

// --- the benches ---

export function benchPayoutRate(report: Report, count = 100): Promise<void> {
  return withService(count, async world => {
    const shops: Shop[] = []
    for (let i = 0; i < count; i++) shops.push(await openShop(world, 1))
    await pay(world, 'ETH', shops)
    const floor = await byHand(world, count)
    const began = performance.now()
    const ids = await inLanes(shops, shop => request(world, shop, coin, false))
    await untilOver(world, ids)
    const value = count / ((performance.now() - began) / 1000)
    report({what: `payouts, ${count} at once, from request to final`, value, unit: 'payouts/s', floor})
  })
}

/** Finality takes 8 to 9 s of each time. */
export async function benchSweeps(report: Report, counts = [1, 100]): Promise<void> {
  await withService(2 * Math.max(...counts), async world => {
    for (const token of ['USDC', 'USDT', 'ETH'] as const) {
      for (const count of counts) {
        const shop = await openShop(world, count)
        await pay(world, token, [shop])
        const {sweptSeconds, seconds, gasPerAddress} = await sweep(world, shop, token)
        const what = `a payout that sweeps ${count} addresses of ${token}`
        report({what: `${what}: sweeps final after`, value: sweptSeconds, unit: 's'})
        report({what: `${what}: payment final after`, value: seconds, unit: 's'})
        report({what: `${what}: for each address`, value: gasPerAddress, unit: 'gas'})
      }
    }
  })
  await benchTronSweeps(report)
}

interface Swept {
  /** From the request to the last final sweep, and to the final payment. */
  sweptSeconds: number
  seconds: number
  gasPerAddress: number
}

async function sweep(world: World, shop: Shop, token: Token): Promise<Swept> {
  const began = performance.now()
  const id = await request(world, shop, {chain: 'ETH', token}, true)
  const isSwept = `select from app.payout where id = $1 and status not in ('pending', 'sweeping')`
  await until(async () => (await world.pool.query(isSwept, [id])).rows.length === 1, 'the sweeps to be final')
  const sweptSeconds = (performance.now() - began) / 1000
  await untilOver(world, [id])
  const seconds = (performance.now() - began) / 1000
  const rows = await sweepsOf(world, id)
  const sweeps = countSweeps(rows, shop)
  const Receipt = z.object({gasUsed: z.string()})
  const gas = await inLanes(rows, async ({txid}) =>
    Number(Receipt.parse(await world.chain.rpc('eth_getTransactionReceipt', [txid])).gasUsed),
  )
  return {sweptSeconds, seconds, gasPerAddress: gas.reduce((sum, used) => sum + used, 0) / sweeps}
}

interface SweepPayment {
  txid: string
  kind: string
  /** In base units of the native coin. */
  fee: string
}

/** What was paid for a payout's sweeps: themselves, and what brings gas for them. */
async function sweepsOf({pool}: World, id: string): Promise<SweepPayment[]> {
  const {rows} = await pool.query<SweepPayment>(
    `select s.txid, s.kind, t.fee::text as fee
     from app.outgoing_payment s join app.payout_sweep l on l.outgoing_payment_id = s.id join chain.confirmed_tx t using (chain, txid)
     where l.payout_id = $1 and s.outcome = 'done'`,
    [id],
  )
  return rows
}

function countSweeps(rows: SweepPayment[], shop: Shop): number {
  const sweeps = rows.filter(({kind}) => kind === 'sweep').length
  if (sweeps !== shop.addresses.length) throw new Error(`${sweeps} sweeps, expected ${shop.addresses.length}`)
  return sweeps
}

/** Sweeps of USDT: what they burn at the local chain's prices, which are those of the main network. */
function benchTronSweeps(report: Report, counts = [1, 20]): Promise<void> {
  return withService(4 * Math.max(...counts), async world => {
    const chain = await (await families.tron()).connect(urlOf(world.service, 'TRON'))
    await fundTreasury(world, chain)
    for (const way of ['burnt', 'delegated'] as const) {
      if (way === 'delegated') await stake(world)
      for (const count of counts) await sweepTwice(world, chain, {count, way, report})
    }
  })
}

interface TronSweeps {
  count: number
  way: 'burnt' | 'delegated'
  report: Report
}

/** First each address is new; then it has what was left of the TRX that it was sent. */
async function sweepTwice(world: World, chain: TronClient, {count, way, report}: TronSweeps): Promise<void> {
  const asset: Asset = {chain: 'TRON', token: 'USDT'}
  const shop = await openShop(world, count, {chain: 'TRON', payoutAddress: chain.newAddress()})
  for (const round of ['first', 'second'] as const) {
    for (const to of shop.addresses) await chain.transfer({token: 'USDT', to, amount: '10'})
    await untilFinal(world, asset, shop.addresses, round === 'first' ? 1 : 2)
    const id = await request(world, shop, asset, true)
    await untilOver(world, [id])
    await until(async () => (await lentBack(world)) === 0, 'all energy to be taken back')
    const rows = [...(await sweepsOf(world, id)), ...(await takenBack(world, shop, id))]
    const sweeps = countSweeps(rows, shop)
    const burnt = (...kinds: string[]) =>
      rows.reduce((sum, row) => (kinds.includes(row.kind) ? sum + Number(row.fee) / 1e6 : sum), 0)
    const what = `the ${round} sweep of ${count} addresses of USDT on Tron, energy ${way}`
    report({what: `${what}: to send an address TRX`, value: burnt('fund') / sweeps, unit: 'TRX'})
    if (way === 'delegated')
      report({what: `${what}: to lend it energy`, value: burnt('delegate', 'undelegate') / sweeps, unit: 'TRX'})
    report({what: `${what}: for its transfer`, value: burnt('sweep') / sweeps, unit: 'TRX'})
    report({what: `${what}: for the payment`, value: burnt('payout'), unit: 'TRX'})
  }
}

/** For how many addresses energy is lent, or on its way. */
async function lentBack({pool}: World): Promise<number> {
  const {rows} = await pool.query<{open: number}>(
    `select ((select count(*) from app.delegation) + (select count(*) from app.outgoing_payment where kind in ('delegate', 'undelegate') and status <> 'final'))::int as open`,
  )
  return rows[0]!.open
}

/** What belongs to no payout: taking back what its addresses were lent; and the payment itself. */
async function takenBack({pool}: World, {addresses}: Shop, id: string): Promise<SweepPayment[]> {
  const {rows} = await pool.query<SweepPayment>(
    `select s.txid, s.kind, s.fee_paid::text as fee from app.outgoing_payment s join app.payout p on p.id = $1
     where s.outcome = 'done' and (s.kind = 'undelegate' and s.recipient = any($2) and s.created_at > p.created_at or s.kind = 'payout' and s.payout_id = p.id)`,
    [id, addresses],
  )
  return rows
}

/** The local chain begins with too little TRX for so many sweeps. */
async function fundTreasury({pool}: World, chain: TronClient): Promise<void> {
  const {rows} = await pool.query<{address: string}>(
    `select address from custody.address where family = 'tron' and purpose = 'treasury'`,
  )
  await chain.transfer({token: 'TRX', to: rows[0]!.address, amount: '400000'})
  const isFunded = `select from app.treasury where chain = 'TRON' and token = 'TRX' and balance > 4e11`
  await until(async () => (await pool.query(isFunded)).rows.length === 1, 'the treasury to be funded')
}

/** Enough for all sweeps of a run: what is used comes back within a day. */
async function stake({pool, service}: World): Promise<void> {
  await sluice(service.home, 'treasury', 'stake', '--chain', 'TRON', '--amount', '300000')
  const isStaked = `select from app.stake where chain = 'TRON' and amount > 0`
  await until(async () => (await pool.query(isStaked)).rows.length === 1, 'the stake to be final')
}

/** The worker dies after custody accepted a payout, before that is stored. */
export function benchRecovery(report: Report, rounds = {restarted: 2, takenOver: 6}): Promise<void> {
  const mark = path.join(tmpdir(), `sluice-bench-${randomBytes(4).toString('hex')}`)
  const torment = {
    NODE_OPTIONS: `--import=${fileURLToPath(new URL('../test/support/crash.ts', import.meta.url))}`,
    SLUICE_CRASH_AT: 'payout: before begin_sweeping',
    SLUICE_CRASH_MARK: mark,
  }
  return withService(
    10,
    async world => {
      const shops: Shop[] = []
      for (let i = 0; i < rounds.restarted + rounds.takenOver; i++) shops.push(await openShop(world, 1))
      await pay(world, 'ETH', shops)
      const measure = async () => {
        rmSync(mark, {force: true})
        const id = await request(world, shops.pop()!, coin, false)
        const isOn = `select from app.payout where id = $1 and status <> 'pending'`
        await until(async () => (await world.pool.query(isOn, [id])).rows.length === 1, 'the next step', 2)
        return Date.now() - statSync(mark).mtimeMs
      }
      const restarted: number[] = []
      for (let i = 0; i < rounds.restarted; i++) restarted.push(await measure())
      reportRecovery('the supervisor starts it again', restarted, report)
      const stop = new AbortController()
      const second = runWorker(world, stop.signal)
      const takenOver: number[] = []
      for (let i = 0; i < rounds.takenOver; i++) {
        await until(async () => (await liveWorkers(world)) === 2, 'two workers')
        takenOver.push(await measure())
      }
      stop.abort()
      await second
      rmSync(mark, {force: true})
      reportRecovery('another one takes over', takenOver, report)
    },
    torment,
  )
}

function reportRecovery(how: string, times: number[], report: Report): void {
  const what = `kill -9 of a worker to the next step of its payout, where ${how}`
  report({what: `${what}: median`, value: median(times), unit: 'ms'})
  report({what: `${what}: longest`, value: Math.max(...times), unit: 'ms', aim: 'under 3 s'})
}

async function liveWorkers({pool}: World): Promise<number> {
  const {rows} = await pool.query(`select from pg_stat_activity where application_name = 'sluice-jobs-liveness'`)
  return rows.length
}

/** Keeps a second worker running. */
async function runWorker({service}: World, stopped: AbortSignal): Promise<void> {
  while (!stopped.aborted) {
    const {rpcUrl} = service.chains.find(({chain}) => chain === 'ETH')!
    const worker: ChildProcess = fork(fileURLToPath(new URL('../jobs/main.ts', import.meta.url)), {
      env: {
        ...process.env,
        SLUICE_HOME: service.home,
        DATABASE_URL: roleUrl(service.databaseUrl, 'sluice_jobs'),
        ETH_RPC_URL: rpcUrl,
        ETH_CHAIN_ID: String(chainIds.ETH),
        ETH_USDC_CONTRACT: usdcAddress,
      },
      execArgv: [],
    })
    stopped.addEventListener('abort', () => worker.kill('SIGKILL'))
    await once(worker, 'exit')
  }
}

// --- the world ---

/** Runs the work on a new service, whose pool has room for this many users. */
async function withService<T>(
  users: number,
  work: (world: World) => Promise<T>,
  environment: Record<string, string> = {},
): Promise<T> {
  const home = mkdtempSync(path.join(tmpdir(), 'sluice-bench-'))
  chmodSync(home, 0o755)
  const settings = {
    ADDRESS_POOL_SIZE: String(users + 10),
    RATE_LIMIT_PER_MINUTE: '1000000',
    LOG_LEVEL: 'warn',
    ...environment,
  }
  const before = {...process.env}
  Object.assign(process.env, settings) // for the processes of the service
  const service = await startService(readSettings({...settings, SLUICE_HOME: home, PORT: '0', DASHBOARD_PORT: '0'}), {
    quiet: true,
  })
  const pool = new pg.Pool({connectionString: service.databaseUrl})
  try {
    const {connect} = await families.evm()
    const chain = await connect(urlOf(service, 'ETH').replace('ws', 'http'))
    const world = {service, pool, chain}
    const isFunded = `select from app.treasury where chain = 'ETH' and token = 'ETH' and balance > 0`
    await until(async () => (await pool.query(isFunded)).rows.length === 1, 'the treasury to be funded')
    const data = encodeFunctionData({abi: erc20Abi, functionName: 'approve', args: [multisendAddress, 10n ** 18n]})
    for (const token of ['USDC', 'USDT'] as const) await chain.transact({to: contractOf(token), data})
    return await work(world)
  } finally {
    await pool.end()
    await service.stop()
    process.env = before
    rmSync(home, {recursive: true, force: true})
  }
}

const urlOf = ({chains}: RunningService, code: string) => chains.find(({chain}) => chain === code)!.rpcUrl

const someWallet = () => getAddress(`0x${randomBytes(20).toString('hex')}`)

/** A merchant with this many users, a key, and a whitelisted payout address. */
async function openShop(
  {pool}: World,
  users: number,
  {chain, payoutAddress}: {chain: Asset['chain']; payoutAddress: string} = {chain: 'ETH', payoutAddress: someWallet()},
): Promise<Shop> {
  const {secret, hash} = newKey()
  const prefix = randomBytes(5).toString('hex')
  const {rows} = await pool.query<{id: string}>(`select app.create_merchant('Bench', $1, array[$2], 50) as id`, [
    prefix,
    chain,
  ])
  const {id} = rows[0]!
  await pool.query('select app.create_api_key($1, $2)', [id, hash])
  const where = [id, chain, payoutAddress]
  await pool.query('select app.set_payout_address($1, $2, $3)', where)
  await pool.query('insert into custody.whitelist (merchant_id, chain, address) values ($1, $2, $3)', where)
  for (let user = 0; user < users; user++)
    await until(
      async () => pool.query('select app.provision_user($1, $2, array[$3])', [id, `${user}`, chain]),
      'an address',
    )
  const {rows: given} = await pool.query<{address: string}>(
    'select address from app.address where merchant_id = $1 and chain = $2',
    [id, chain],
  )
  return {id, key: secret, addresses: given.map(({address}) => address)}
}

/** Pays each address, and waits until the payments are final. */
async function pay(world: World, token: Token, shops: Shop[]): Promise<void> {
  const {chain} = world
  const addresses = shops.flatMap(shop => shop.addresses)
  for (let from = 0; from < addresses.length; from += perTransaction) {
    const some = addresses.slice(from, from + perTransaction)
    const amounts = some.map(() => each[token])
    const transaction =
      token === 'ETH'
        ? chain.multisend('pay', [some, amounts], each.ETH * BigInt(some.length))
        : chain.multisend('payTokens', [contractOf(token), some, amounts])
    await chain.transact(transaction)
  }
  await untilFinal(world, {chain: 'ETH', token}, addresses)
}

/** Waits until each address has this many final deposits. */
async function untilFinal({pool}: World, {chain, token}: Asset, addresses: string[], deposits = 1): Promise<void> {
  const sql = `select count(*)::int as n from app.deposit where chain = $1 and token = $2 and status = 'final' and address = any($3)`
  await until(
    async () =>
      (await pool.query<{n: number}>(sql, [chain, token, addresses])).rows[0]!.n === deposits * addresses.length,
    'the deposits to be final',
  )
}

/** Requests a payout as a merchant does; resolves to its id in the database. */
async function request({service}: World, {key}: Shop, of: Asset, sweep_first: boolean): Promise<string> {
  const response = await fetch(`${service.apiUrl}/v1/payouts`, {
    method: 'POST',
    headers: {authorization: `Bearer ${key}`, 'content-type': 'application/json'},
    body: JSON.stringify({...of, sweep_first}),
  })
  const text = await response.text()
  if (response.status !== 202) throw new Error(`the request for a payout returned ${response.status}: ${text}`)
  const {id} = z.object({id: z.string()}).parse(JSON.parse(text))
  return id.replace(/^pay_(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
}

async function untilOver({pool}: World, ids: string[]): Promise<void> {
  const sql = `select count(*)::int as n from app.payout where status = 'completed' and id = any($1)`
  await until(
    async () => (await pool.query<{n: number}>(sql, [ids])).rows[0]!.n === ids.length,
    'the payouts to be final',
  )
}

/** Transfers/s of a client that only signs, sends and waits. */
async function byHand({chain}: World, count: number): Promise<number> {
  const account = accounts[5]!
  const began = performance.now()
  const raws = await Promise.all(
    Array.from({length: count}, (_, nonce) =>
      account.signTransaction({
        type: 'eip1559',
        chainId: chainIds.ETH,
        nonce,
        gas: 21_000n,
        maxFeePerGas: 10n ** 11n,
        maxPriorityFeePerGas: 10n ** 9n,
        to: getAddress(`0x${randomBytes(20).toString('hex')}`),
        value: each.ETH,
      }),
    ),
  )
  await inLanes(raws, raw => chain.rpc('eth_sendRawTransaction', [raw]))
  const last = z.object({blockNumber: z.string()})
  const {blockNumber} = await until(
    async () => last.safeParse(await chain.rpc('eth_getTransactionReceipt', [keccak256(raws.at(-1) as Hex)])).data,
    'the transfers to be mined',
  )
  const final = z.object({number: z.string()})
  await until(
    async () =>
      Number(final.parse(await chain.rpc('eth_getBlockByNumber', ['finalized', false])).number) >= Number(blockNumber),
    'the transfers to be final',
  )
  return count / ((performance.now() - began) / 1000)
}

async function inLanes<T, R>(items: T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = []
  let next = 0
  const lane = async () => {
    while (next < items.length) {
      const i = next++
      results[i] = await work(items[i]!)
    }
  }
  await Promise.all(Array.from({length: lanes}, lane))
  return results
}

async function until<T>(condition: () => Promise<T | undefined | false>, what: string, intervalMs = 20): Promise<T> {
  for (const deadline = Date.now() + timeoutMs; ; await sleep(intervalMs)) {
    const result = await condition().catch(() => undefined) // an address may still be made
    if (result) return result
    if (Date.now() > deadline) throw new Error(`timed out after ${timeoutMs / 1000} s: waited for ${what}`)
  }
}
