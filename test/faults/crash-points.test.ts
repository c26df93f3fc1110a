// A worker, or custody, killed between any two steps of a payout: what it leaves behind is right, and whoever comes after it pays each
// merchant once. All payouts sweep first, so that each comes to every step.
import type {ChildProcess} from 'node:child_process'
import {once} from 'node:events'
import {afterAll, beforeAll, describe, expect, test} from 'vitest'
import {assertBooks} from '../support/books.ts'
import {ETHER, PayoutWorld, type Shop, USDC} from '../support/payout-world.ts'
import {until} from '../support/until.ts'

const ofWorkers = [
  'payout: before check',
  'payout: before begin_sweeping',
  'sweep: before begin',
  'sweep: after begin',
  'payment: before begin',
  'payment: after begin',
  'send: before sign',
  'send: after sign',
  'send: after store',
  'send: before broadcast',
  'send: after broadcast',
]
const ofCustody = [
  'custody: before journal',
  'custody: after database',
  'custody: after file',
  'custody: before answer',
]
const replacing = 'send: before replace'

let world: PayoutWorld
const shops = new Map<string, Shop>()
const payouts = new Map<string, string>()

beforeAll(async () => {
  world = await PayoutWorld.open()
  // In turn with both ways of sweeping: by the address itself, and relayed by the treasury.
  const opened = [...ofWorkers, ...ofCustody, replacing].map(async (label, i) => {
    const shop = i % 2 ? await world.openShop('ETH', [ETHER]) : await world.openShop('USDC', [10n * USDC, 20n * USDC])
    shops.set(label, shop)
  })
  await Promise.all(opened)
})
afterAll(async () => {
  await world?.close()
})

const tokenOf = ({addresses}: Shop) => (addresses.length === 1 ? 'ETH' : 'USDC')

async function request(label: string): Promise<void> {
  const shop = shops.get(label)!
  payouts.set(label, await world.request(shop, tokenOf(shop), true))
}

async function diesOf(doomed: ChildProcess): Promise<string> {
  const [, signal] = await once(doomed, 'exit', {signal: AbortSignal.timeout(20_000)})
  return signal
}

test.each(ofWorkers)('a worker dies %s', async label => {
  const doomed = await world.startWorker({crashAt: label})
  const death = diesOf(doomed)
  await request(label)
  expect(await death).toBe('SIGKILL')
  await assertBooks(world.db)
})

describe('while a worker asks it', () => {
  let worker: ChildProcess
  beforeAll(async () => {
    worker = await world.startWorker()
  })
  afterAll(async () => {
    await world.kill(worker)
    await world.startCustody()
  })

  test.each(ofCustody)('custody dies %s', async label => {
    await world.killCustody()
    const death = diesOf(await world.startCustody({crashAt: label}))
    await request(label)
    expect(await death).toBe('SIGKILL')
    await assertBooks(world.db)
  })
})

test(`a worker dies ${replacing}`, async () => {
  world.isMining = false
  const doomed = await world.startWorker({crashAt: replacing})
  const death = diesOf(doomed)
  await request(replacing)
  await until(
    async () => {
      await world.anvil.call('anvil_setNextBlockBaseFeePerGas', [`0x${(20n * 10n ** 9n).toString(16)}`])
      await world.anvil.mine()
      return doomed.signalCode
    },
    {timeoutMs: 20_000, what: 'the worker to die', intervalMs: 300},
  )
  expect(await death).toBe('SIGKILL')
  await world.anvil.call('anvil_setNextBlockBaseFeePerGas', ['0x5f5e100'])
  await assertBooks(world.db)
})

test('each of these payouts arrives once, to the last unit', async () => {
  world.isMining = true
  await world.startWorker()
  for (const [label, id] of payouts) {
    await world.becomes(id, 'completed', 60_000)
    const shop = shops.get(label)!
    const gross = tokenOf(shop) === 'ETH' ? ETHER : 30n * USDC
    expect([label, await world.received(shop, tokenOf(shop))]).toEqual([label, gross - gross / 100n])
    const done = (await world.spends(id)).map(({kind, outcome}) => `${kind} ${outcome}`)
    expect([label, ...done]).toEqual([label, ...shop.addresses.map(() => 'sweep done'), 'payout done'])
  }
  expect(payouts.size).toBe(shops.size)
  await assertBooks(world.db)
}, 120_000)
