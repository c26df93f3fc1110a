// A token whose issuer freezes an address, or pauses it, on a real chain with real processes.
import {execFile} from 'node:child_process'
import {fileURLToPath} from 'node:url'
import {promisify} from 'node:util'
import {afterAll, afterEach, beforeAll, expect, test} from 'vitest'
import {EvmWorld, usdc} from '../support/evm/world.ts'
import {faults} from '../support/rpc-proxy.ts'
import {until} from '../support/until.ts'
import type {Shop} from '../support/world.ts'

const run = promisify(execFile)
const sluice = fileURLToPath(new URL('../../cli/main.ts', import.meta.url))
const netOf = (gross: bigint) => gross - (gross * 100n) / 10_000n

let world: EvmWorld

beforeAll(async () => {
  world = await EvmWorld.open()
  await world.startWorker()
})
afterAll(() => world?.close())
afterEach(() => {
  world.node.behave = undefined
})

const command = async (...words: string[]) => {
  const env = {...process.env, DATABASE_URL: world.db.ownerUrl, SLUICE_HOME: world.home}
  return JSON.parse((await run(process.execPath, [sluice, ...words, '--json'], {env})).stdout)
}
const blocked = () => world.db.rows<{address: string; why: string}>('select address, why from app.blocked_address')
const cancels = async () =>
  Number(
    (await world.db.rows<{n: string}>(`select count(*) as n from app.outgoing_payment where outcome = 'cancelled'`))[0]!
      .n,
  )

async function heldBack({id}: Shop): Promise<bigint> {
  const [row] = await world.db.rows<{held_back: string}>(
    `select held_back from app.balance_now where merchant_id = $1 and token = 'USDC'`,
    [id],
  )
  return BigInt(row?.held_back ?? 0)
}

test('a frozen address does not keep the others from being paid out, and nothing is swept or paid twice', async () => {
  const shop = await world.openShop('USDC', [5n * usdc, 3n * usdc, 2n * usdc])
  const [frozen] = shop.addresses
  const held = await world.held('USDC', frozen!)
  await world.issuer('USDC', 'blacklist', [frozen!])
  const id = await world.request(shop, 'USDC')
  expect(await world.becomes(id, 'failed')).toMatchObject({error_code: 'deposits_blocked'})
  expect(await blocked()).toEqual([
    {address: frozen, why: expect.stringContaining('Blacklistable: account is blacklisted')},
  ])
  expect(await heldBack(shop)).toBe(held)
  const next = await world.request(shop, 'USDC')
  await world.becomes(next, 'completed')
  expect(await world.received(shop, 'USDC')).toBe(netOf(10n * usdc - held))
  const swept = await world.db.rows<{source: string}>(
    `select source from app.outgoing_payment where merchant_id = $1 and kind = 'sweep' and outcome = 'done'`,
    [shop.id],
  )
  expect(swept.map(({source}) => source).sort()).toEqual(shop.addresses.slice(1).sort())
  expect(await command('address', 'list', '--blocked')).toMatchObject({
    addresses: [{address: frozen, token: 'USDC', blocked: {why: expect.stringContaining('blacklisted')}}],
  })
  const {incidents} = await command('incident', 'list')
  expect(incidents).toMatchObject([{kind: 'address_blocked', chain: null}])

  // It is asked again: while it is frozen it stays blocked; then it is freed, and paid out.
  const askNow = () => world.db.rows('update app.blocked_address set retry_at = clock_timestamp()')
  const isAsked = async () =>
    !(await world.db.rows('select from app.blocked_address where retry_at <= clock_timestamp()')).length
  await askNow()
  await until(isAsked, {timeoutMs: 30_000, what: 'the node to be asked'})
  expect(await blocked()).toHaveLength(1)
  await world.issuer('USDC', 'unBlacklist', [frozen!])
  await askNow()
  await until(async () => !(await blocked()).length, {timeoutMs: 30_000, what: 'the address to be freed'})
  await world.becomes(await world.request(shop, 'USDC'), 'completed')
  expect(await world.received(shop, 'USDC')).toBe(netOf(10n * usdc - held) + netOf(held))
}, 180_000)

test('USDT that is paused blocks no address and begins no sweep; the payout says why, and is paid afterwards', async () => {
  const shop = await world.openShop('USDT', [5n * usdc, 3n * usdc])
  await world.issuer('USDT', 'pause')
  const id = await world.request(shop, 'USDT')
  expect(await world.becomes(id, 'token_refused')).toMatchObject({
    status: 'sweeping',
    waiting_detail: expect.stringContaining('revert'),
  })
  expect([await world.outgoingPayments(id), await blocked()]).toEqual([[], []])
  await world.issuer('USDT', 'unpause')
  await world.retriedUntil(id, 'completed')
})

test('a token that is paused when its sweeps are begun blocks no address', async () => {
  const shop = await world.openShop('USDC', [5n * usdc])
  const before = await cancels()
  let isPaused = false
  world.node.behave = async ({method, params}, pass) => {
    const {data = ''} = (params[0] ?? {}) as {data?: string}
    if (data.startsWith('0xef55bec6') && method === 'eth_estimateGas' && !isPaused) {
      isPaused = true
      await world.issuer('USDC', 'pause')
    }
    return await pass()
  }
  const id = await world.request(shop, 'USDC')
  await until(async () => (await cancels()) > before, {timeoutMs: 60_000, what: 'the sweep to be given up'})
  world.node.behave = undefined
  await world.becomes(id, 'token_refused')
  expect(await blocked()).toEqual([])
  await world.issuer('USDC', 'unpause')
  await world.retriedUntil(id, 'completed')
}, 120_000)

test.each([
  ['is refused at the newest block only', 'execution reverted: Blacklistable: account is blacklisted', 3, ['latest']],
  ['cannot be asked about', 'missing trie node 01', -32000, undefined],
])(
  'an address that %s is not blocked, and its sweep is tried again',
  async (_, words, code, blocks) => {
    const shop = await world.openShop('USDC', [5n * usdc])
    const before = await cancels()
    const address = shop.addresses[0]!.slice(2).toLowerCase()
    world.node.behave = async ({method, params}, pass) => {
      const {data = ''} = (params[0] ?? {}) as {data?: string}
      const isItsSweep = data.startsWith('0xef55bec6') && data.includes(address)
      if (isItsSweep && method === 'eth_estimateGas') faults.error('execution reverted: Blacklistable', 3)
      if (isItsSweep && method === 'eth_call' && (blocks?.includes(String(params[1])) ?? true))
        faults.error(words, code)
      return await pass()
    }
    const id = await world.request(shop, 'USDC')
    await until(async () => (await cancels()) > before, {timeoutMs: 60_000, what: 'the sweep to be given up'})
    world.node.behave = undefined
    await world.becomes(id, 'completed', 150_000)
    expect(await blocked()).toEqual([])
  },
  200_000,
)

test('an address that holds less on the chain than in the ledger stays blocked', async () => {
  const shop = await world.openShop('USDC', [5n * usdc])
  const address = shop.addresses[0]!
  world.node.behave = async ({params}, pass) => {
    const {data = ''} = (params[0] ?? {}) as {data?: string}
    const isItsBalance = data.startsWith('0x70a08231') && data.endsWith(address.slice(2).toLowerCase())
    return isItsBalance ? `0x${'0'.repeat(64)}` : await pass()
  }
  await world.db.rows(`select app.block_address('ETH', 'USDC', $1, 'it is frozen')`, [address])
  await world.db.rows(`update app.blocked_address set retry_at = clock_timestamp()`)
  const why = async () => (await blocked())[0]?.why.startsWith('it holds 0 base units of USDC')
  await until(why, {timeoutMs: 30_000, what: 'the address to be asked about'})
  world.node.behave = undefined
  await world.db.rows(`update app.blocked_address set retry_at = clock_timestamp()`)
  await until(async () => !(await blocked()).length, {timeoutMs: 30_000, what: 'the address to be freed'})
})

test('a worker that lies about a refusal blocks an address for a day at most, and an operator frees it at once', async () => {
  const shop = await world.openShop('USDC', [5n * usdc])
  const [address] = shop.addresses
  const lie = () => world.db.rows(`select app.block_address('ETH', 'USDC', $1, 'a lie')`, [address])
  await lie()
  expect(await heldBack(shop)).toBe(5n * usdc)
  await command('address', 'unblock', address!, '--chain', 'ETH', '--token', 'USDC')
  expect(await heldBack(shop)).toBe(0n)
  await lie()
  await world.db.rows(`update app.blocked_address set retry_at = retry_at - interval '1 day'`)
  await until(async () => !(await blocked()).length, {timeoutMs: 30_000, what: 'the honest worker to ask'})
  await world.becomes(await world.request(shop, 'USDC'), 'completed')
})
