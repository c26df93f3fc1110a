// A load test as a user would see it: 50 merchants with an endpoint each, 300 users with addresses on five chains, and
// so many deposits a minute, half of them in tokens where the chain has some, while the merchants ask for balances and
// deposits 20 times a second. All of it on this machine, local chains included, whose CPU is counted apart.
//
// Measured: from a block's being there (on Bitcoin: from the node's taking the payment) to the arrival of the
// deposit.pending webhook; the API; queues; memory; CPU; bytes of database for each deposit. At the end every payment
// was reported once as pending and once as confirmed, and the balances are their sum, or the bench fails.
//
// Then the rate is doubled each minute until it breaks: webhooks come late, or not all payments can be sent. From twice
// the rate on, several payments share a transaction, so that the local chains last longer. Where they break first, the
// product goes on alone: blocks are written as rows, as the indexers write them.
//
// node bench/load.ts [deposits a minute] [minutes] [the highest multiple to try; 1: none]

import {setTimeout as sleep} from 'node:timers/promises'
import {z} from 'zod'
import {type ChainCode, chainCodes} from '../chains/registry.ts'
import {baseUnits} from '../devnet/client.ts'
import type {Entry} from './load-book.ts'
import {now} from './load-merchants.ts'
import {
  busiest,
  head,
  isBehind,
  lateMs,
  line,
  ofBase,
  ofStage,
  type Paid,
  type Plan,
  Queues,
  type Sample,
  type Stage,
  whyBroken,
} from './load-results.ts'
import {decimalsOf, LocalSource, WrittenSource} from './load-sources.ts'
import {openWorld, type World} from './load-world.ts'
import type {Result} from './result.ts'
import {tableSizes} from './size.ts'
import {idleSeconds, restarts, usage} from './usage.ts'

const sampleEveryMs = 10_000
const rampSeconds = 60
const graceMs = 30_000
/** A webhook whose first two attempts failed is sent again after up to five and a half minutes. */
const stuckMs = 400_000

/** What is paid on each chain. */
const tokens: Record<ChainCode, string[]> = {
  ETH: ['ETH', 'USDC'],
  POLYGON: ['POL', 'USDC'],
  BTC: ['BTC'],
  TRON: ['TRX', 'USDT'],
  SOL: ['SOL', 'USDC'],
}
/**
 * The smallest payment, by the decimals of its token: an account of Solana must hold so much, and no fee is above it.
 */
const smallest: Record<number, bigint> = {6: 1_000_000n, 8: 20_000n, 9: 2_000_000n, 18: 10n ** 15n}

export async function benchLoad(perMinute = 2000, minutes = 10, mostMultiple = 256): Promise<Result[]> {
  const local = await inWorld(true, async world => {
    const before = await tableSizes(world.pool)
    const base = await runStage(world, {perMinute, seconds: 60 * minutes})
    const checked = await settle(world)
    const results = [...ofBase(base), ...checked, ...(await bytesOf(world, before))]
    const {held, ...ramped} = await ramp(world, {perMinute, from: 2, most: mostMultiple})
    return {held, results: [...results, ...ramped.results, ...(await settle(world))]}
  })
  if (mostMultiple === 1) return local.results
  const alone = await inWorld(false, async world => {
    const {results} = await ramp(world, {perMinute, from: Math.max(2, local.held), most: mostMultiple})
    return [...results, ...(await settle(world))]
  })
  return [...local.results, ...alone.map(({what, ...rest}) => ({what: `product alone: ${what}`, ...rest}))]
}

async function inWorld<T>(isLocal: boolean, work: (world: World) => Promise<T>): Promise<T> {
  const world = await openWorld(isLocal)
  try {
    return await work(world)
  } finally {
    await world.close()
  }
}

// --- paying ---

let last = 0n

/** The payments of a second on a chain, to one user after the other. */
function plan({users, source}: World, chain: ChainCode, count: number): Entry[] {
  const [coin, token = coin] = tokens[chain] as [string, string?]
  return Array.from({length: count}, () => {
    last += 1n
    const {merchant, addresses} = users[Number(last) % users.length]!
    const paid = Number(last) % source.tokenOneIn(chain) === 0 ? token : coin
    const amount = smallest[decimalsOf(chain, paid)]! + last
    return {chain, token: paid, merchant, to: addresses.get(chain)!, amount}
  })
}

const untilIs = (at: number) => sleep(Math.max(0, at - now()))

/** Each chain gets its part of each second, at a moment of its own; one that is late gets the next one later. */
async function pay(world: World, {perMinute, seconds}: Plan, onSecond: () => Promise<void>): Promise<Paid> {
  const {book, source} = world
  const paid: Paid = {planned: [], refused: new Map()}
  const began = now()
  let isOver = false
  const lanes = chainCodes.map(async (chain, n) => {
    for (let second = 0, made = 0; second < seconds; second++) {
      await untilIs(began + 1000 * (second + n / chainCodes.length))
      const due = Math.round(((second + 1) * perMinute) / 60 / chainCodes.length)
      const entries = plan(world, chain, due - made)
      made = due
      book.plan(entries)
      paid.planned.push(...entries)
      if (isOver) continue
      await source
        .pay(chain, entries, payments => book.sent(payments))
        .catch((error: Error) => {
          const why = `${chain}: ${error.message}`
          paid.refused.set(why, (paid.refused.get(why) ?? 0) + 1)
        })
    }
  })
  for (let second = 1; second <= seconds; second++) {
    await untilIs(began + 1000 * second)
    await onSecond()
  }
  await Promise.race([Promise.all(lanes), sleep(lateMs)])
  isOver = true
  await Promise.all(lanes)
  return paid
}

// --- measuring ---

async function takeSample({pool, home, supervisor}: World): Promise<Sample> {
  const {rows} = await pool.query(`select (select count(*) from app.delivery where status = 'pending') as deliveries,
    (select count(*) from graphile_worker._private_jobs) as jobs,
    (select count(*) from app.event where sequence is null) as unsequenced,
    (select count(*) from app.deposit where status = 'pending') as "notFinal"`)
  return {at: now(), queues: Queues.parse(rows[0]), usages: usage(home, supervisor), idleSeconds: idleSeconds()}
}

async function runStage(world: World, planned: Plan): Promise<Stage> {
  const {asker} = world
  const stage: Stage = {
    ...planned,
    ...{planned: [], refused: new Map(), behind: 0, samples: [], asked: [], delays: new Map(), unnoticed: 0},
  }
  console.error(`\n${planned.perMinute.toFixed(0)} deposits a minute, for ${planned.seconds} s\n${head}`)
  await asker.take()
  stage.samples.push(await takeSample(world))
  const began = now()
  const paid = await pay(world, planned, async () => {
    const {at} = stage.samples.at(-1)!
    if (now() - at < sampleEveryMs - 500) return
    const [asked, sample] = await Promise.all([asker.take(), takeSample(world)])
    console.error(line({began, entries: world.book.entries, asked, from: stage.samples.at(-1)!, to: sample}))
    stage.asked.push(...asked)
    stage.samples.push(sample)
  })
  stage.behind = paid.planned.filter(isBehind).length
  for (const until = now() + graceMs; now() < until && paid.planned.some(isBehind); ) await sleep(100)
  return Object.assign(stage, paid, await delaysOf(world, paid.planned))
}

const Deposit = z.object({
  chain: z.enum(chainCodes),
  token: z.string(),
  amount: z.string().transform(BigInt),
  block_height: z.int().nullable(),
})

async function delaysOf({pool, book, source}: World, planned: Entry[]): Promise<Pick<Stage, 'delays' | 'unnoticed'>> {
  const {rows} = await pool.query('select chain, token, amount, block_height from app.deposit')
  const heights = new Map(
    z
      .array(Deposit)
      .parse(rows)
      .map(({block_height: height, ...deposit}) => [book.find(deposit), height]),
  )
  const delays = new Map<ChainCode, number[]>(chainCodes.map(code => [code, []]))
  let unnoticed = 0
  for (const entry of planned) {
    const {chain, sentAt, pendingAt} = entry
    if (sentAt === undefined) continue
    const shownAt = source.shownAt({chain, sentAt, height: heights.get(entry) ?? null})
    const from = pendingAt === undefined ? sentAt : shownAt
    if (from === undefined) unnoticed++
    else delays.get(chain)!.push((pendingAt ?? now()) - from)
  }
  for (const each of delays.values()) each.sort((a, b) => a - b)
  return {delays, unnoticed}
}

/** How much each table grew, with its indexes and what vacuum has not taken back yet, for each deposit. */
async function bytesOf(world: World, before: Awaited<ReturnType<typeof tableSizes>>): Promise<Result[]> {
  const deposits = world.book.entries.filter(({confirmedAt}) => confirmedAt).length
  const grown = [...(await tableSizes(world.pool))].map(([name, {bytes}]) => ({
    name,
    bytes: bytes - (before.get(name)?.bytes ?? 0),
  }))
  return [
    {name: 'all tables', bytes: grown.reduce((sum, {bytes}) => sum + bytes, 0)},
    ...grown.sort((a, b) => b.bytes - a.bytes).filter(({bytes}) => bytes >= 20 * deposits),
  ].map(({name, bytes}) => ({what: `database for each deposit: ${name}`, value: bytes / deposits, unit: 'bytes'}))
}

// --- until it breaks ---

/**
 * Doubles the rate until it breaks, and then tries once what lies between. `held`: the highest multiple that went well;
 * 0 if none did.
 */
async function ramp(
  world: World,
  {perMinute, from, most}: {perMinute: number; from: number; most: number},
): Promise<{results: Result[]; held: number}> {
  const results: Result[] = []
  const attempt = async (multiple: number) => {
    if (world.source instanceof LocalSource) world.source.perTransaction = Math.ceil(multiple)
    const stage = await runStage(world, {perMinute: perMinute * multiple, seconds: rampSeconds})
    const broken = whyBroken(stage)
    console.error(`${multiple} times: ${broken ?? 'it holds'}; ${busiest(stage)}`)
    results.push(...ofStage(stage, `${multiple} times`, broken))
    return !broken
  }
  let held = 0
  let next = from
  for (; next <= most && (await attempt(next)); next *= 2) held = next
  if (next <= most) {
    await settle(world)
    const between = 0.75 * next
    if (await attempt(between)) held = between
  }
  return {held, results: [...results, {what: 'the highest multiple that holds', value: held, unit: 'times'}]}
}

// --- nothing lost, nothing twice ---

const Balances = z.object({
  balances: z.array(z.object({chain: z.enum(chainCodes), token: z.string(), gross: z.string()})),
})

/** Waits until every payment was reported as confirmed. Throws if anything was lost, or is there twice. */
async function settle(world: World): Promise<Result[]> {
  const {book, source, home} = world
  // One that the chain seemed to refuse may be there all the same.
  const waiting = () =>
    book.entries.filter(({sentAt, pendingAt, confirmedAt}) => (sentAt ?? pendingAt) && confirmedAt === undefined)
  let left = waiting().length
  for (let at = now(); left; await sleep(1000)) {
    if (source instanceof WrittenSource) for (const chain of chainCodes) await source.pay(chain, [], () => {})
    const still = waiting().length
    if (still < left) at = now()
    left = still
    if (now() - at > stuckMs) throw new Error(await whyStuck(world, waiting()))
  }
  const wrong = [...book.wrong, ...(await wrongBalances(world))]
  if (wrong.length) throw new Error(`${wrong.length} things are wrong:\n${wrong.slice(0, 20).join('\n')}`)
  const reported = book.entries.filter(({pendingAt, confirmedAt}) => pendingAt && confirmedAt).length
  console.error(`all ${reported} payments were reported once as pending and once as confirmed; balances are their sum`)
  return [
    {what: 'payments reported once as pending and once as confirmed, and in the balances', value: reported, unit: ''},
    {what: 'webhooks delivered again', value: book.repeated, unit: ''},
    ...(await failedAttempts(world)).map(({error, count}) => ({
      what: `attempts of webhooks that failed: ${error}`,
      value: Number(count),
      unit: '',
    })),
    {what: 'processes started again', value: restarts(home), unit: ''},
  ]
}

async function whyStuck(world: World, entries: Entry[]): Promise<string> {
  const unseen = entries.filter(({pendingAt}) => pendingAt === undefined).length
  const {rows} = await world.pool.query('select status, count(*) from app.delivery group by 1')
  return [
    `${entries.length} payments were never reported as confirmed, ${unseen} of them not as pending, such as ${shown(entries[0]!)}`,
    `deliveries: ${JSON.stringify(rows)}`,
    `failed attempts: ${JSON.stringify(await failedAttempts(world))}`,
  ].join('; ')
}

async function failedAttempts({pool}: World): Promise<{error: string; count: string}[]> {
  const {rows} = await pool.query<{error: string; count: string}>(
    'select error, count(*) from app.delivery_attempt where error is not null group by 1 order by 2 desc',
  )
  return rows
}

const shown = ({chain, token, to, amount}: Entry) => `${amount} ${token} on ${chain} to ${to}`

async function wrongBalances({url, keys, book}: World): Promise<string[]> {
  const expected = new Map<string, bigint>()
  for (const {merchant, chain, token, amount, confirmedAt} of book.entries) {
    const account = `${merchant} ${chain} ${token}`
    if (confirmedAt) expected.set(account, (expected.get(account) ?? 0n) + amount)
  }
  const wrong: string[] = []
  for (const [merchant, key] of keys.entries()) {
    const response = await fetch(`${url}/v1/balances`, {headers: {authorization: `Bearer ${key}`}})
    for (const {chain, token, gross} of Balances.parse(await response.json()).balances) {
      const account = `${merchant} ${chain} ${token}`
      const has = baseUnits(gross, {token, decimals: decimalsOf(chain, token)})
      if (has !== (expected.get(account) ?? 0n))
        wrong.push(`balance of ${account}: ${has}, not ${expected.get(account)}`)
      expected.delete(account)
    }
  }
  return [...wrong, ...[...expected.keys()].map(account => `balance of ${account}: none`)]
}

if (process.argv[1] === import.meta.filename) {
  const given = process.argv.slice(2).map(Number)
  for (const {what, value, unit} of await benchLoad(...given))
    console.log(`${what}: ${value.toLocaleString('en', {maximumFractionDigits: 2})} ${unit}`)
}
