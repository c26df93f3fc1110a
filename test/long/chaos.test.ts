// Payouts where transactions expire while everything dies and the chain does what it likes: the worker, custody and the
// indexer are killed, blocks leave the chain, nodes forget what waits, and no block takes anything for longer than a
// transaction lives. Each payout is paid exactly once. PAYOUTS=150 SEED=7 npm run chaos says how many; the choices come
// from the seed, their timing from the machine.
import {setTimeout as sleep} from 'node:timers/promises'
import {afterEach, expect, test} from 'vitest'
import {assertBooks} from '../support/books.ts'
import type {MinedWorld} from '../support/mined-world.ts'
import {SolanaWorld, sol} from '../support/solana/world.ts'
import {TronWorld, trx} from '../support/tron/world.ts'
import {until} from '../support/until.ts'
import type {Shop} from '../support/world.ts'
import {Random} from '../torture/random.ts'

const payouts = Number(process.env.PAYOUTS ?? 12)
const seed = Number(process.env.SEED ?? (Date.now() % 1e6) + 1)
/** More would wait for the treasury. */
const mostOpen = 15
const kindsOfFault = 6

const fields = [
  {chain: 'SOL', coin: sol, open: () => SolanaWorld.open({treasury: 100n * sol, settings: {SOL_MAX_LAPSES: '50'}})},
  {chain: 'TRX', coin: trx, open: () => TronWorld.open({treasury: 1000n * trx, settings: {TRON_MAX_LAPSES: '50'}})},
]

let world: MinedWorld
afterEach(() => world?.close())

const netOf = (gross: bigint) => gross - gross / 100n

/** Each fault once, then others until the signal. Counts how often each came. */
async function suffer(random: Random, over: AbortSignal, counts: Record<string, number>): Promise<void> {
  let worker = await world.startWorker()
  const faults: Record<string, () => Promise<unknown>> = {
    // First, while most is open: what has ended can expire no more.
    'no block takes anything': async () => {
      world.isHeld = true
      await until(async () => world.pool.length || over.aborted, {timeoutMs: 120_000, what: 'a transaction that waits'})
      if (world.pool.length) await world.holdPastEnd()
      world.isHeld = false
    },
    'worker killed': async () => {
      await world.kill(worker)
      worker = await world.startWorker()
    },
    'custody killed': async () => {
      await world.killCustody()
      await world.startCustody()
    },
    'indexer killed': () => world.indexer.restart('SIGKILL'),
    reorganisation: async () => world.reorg(random.between(1, world.deepest), random.chance(0.5)),
    'pool forgotten': async () => world.forgetAll(),
  }
  const weights = {
    'worker killed': 4,
    'custody killed': 2,
    'indexer killed': 2,
    reorganisation: 4,
    'pool forgotten': 3,
    'no block takes anything': 1,
  }
  const first = Object.keys(faults)
  while (!over.aborted) {
    await sleep(random.between(200, 900))
    const fault = first.shift() ?? random.weighted(weights)
    await faults[fault]!()
    counts[fault] = (counts[fault] ?? 0) + 1
  }
}

/** Requests a payout of each shop, some at a time and some after each new fault, and waits until all are over. */
async function payAll(shops: Shop[], token: string, random: Random, counts: Record<string, number>): Promise<string[]> {
  const ids: string[] = []
  const open = `select from app.payout where status not in ('completed', 'failed')`
  const fewerThan = (count: number) =>
    until(async () => (await world.db.rows(open)).length < count, {
      timeoutMs: 300_000,
      what: `fewer than ${count} open payouts`,
    })
  for (const [i, shop] of shops.entries()) {
    await fewerThan(mostOpen)
    const faults = Math.floor((i * kindsOfFault) / shops.length)
    await until(async () => Object.keys(counts).length >= faults, {timeoutMs: 300_000, what: `${faults} faults`})
    ids.push(await world.request(shop, token, random.chance(0.3)))
  }
  await fewerThan(mostOpen / 3) // the last ones end in peace
  return ids
}

test.each(fields)(
  '$chain: each payout is paid once, whatever dies, leaves or expires',
  async ({chain, coin, open}) => {
    console.log(`SEED=${seed} PAYOUTS=${payouts}`)
    const random = new Random(seed)
    world = await open()
    const shops = await Promise.all(Array.from({length: payouts}, () => world.openShop([coin], {})))
    const over = new AbortController()
    const counts: Record<string, number> = {}
    const faults = suffer(random.fork('faults'), over.signal, counts)
    const ids = await payAll(shops, chain, random.fork('payouts'), counts).finally(() => over.abort())
    await faults
    for (const [i, id] of ids.entries()) {
      await world.becomes(id, 'completed', 120_000)
      expect([id, world.holds(shops[i]!.wallet)]).toEqual([id, netOf(coin)])
    }
    const [row] = await world.db.rows<{expired: number; second: number}>(
      `select (select count(*)::int from chain.lapse) as expired, (select count(*)::int from app.incident where kind = 'second_payment') as second`,
    )
    console.log(chain, counts, row)
    expect(row).toMatchObject({second: 0})
    expect(Object.keys(counts)).toHaveLength(kindsOfFault)
    expect(row!.expired).toBeGreaterThan(0)
    await assertBooks(world.db)
  },
  1_800_000,
)
