// npm run torture [-- --seed N --seconds 60]: the whole service, on real chains, with deposits and payouts of two
// merchants, while processes, connections, blocks and responses of nodes fail at random. Afterwards everything must
// equal the chains. Prints the seed, the faults, and the errors; ends with 1 if anything differs. The choices of a run
// come from its seed; their timing depends on the machine.

import {setTimeout as sleep} from 'node:timers/promises'
import {parseArgs} from 'node:util'
import pg from 'pg'
import {kill, newHome, processesOf, removeHome} from '../support/processes.ts'
import {until} from '../support/until.ts'
import type {Asset} from './asset.ts'
import {Claimant} from './claimant.ts'
import {familyOf} from './families.ts'
import type {GoBetween} from './go-between.ts'
import {Killer} from './killer.ts'
import {Merchant} from './merchant.ts'
import {Operator} from './operator.ts'
import type {Payer} from './payer.ts'
import {Payments} from './payments.ts'
import {Random} from './random.ts'
import {Reader} from './reader.ts'
import type {Run} from './run.ts'
import {chainCodes, Service} from './service.ts'
import {Users} from './users.ts'
import {checks} from './verify.ts'

const settleTimeoutMs = 300_000 // that a transaction of Solana expired counts two minutes after it was signed
const stopTimeoutMs = 10_000
const limitMs = 900_000 // beyond the time of the faults

const {values} = parseArgs({options: {seed: {type: 'string'}, seconds: {type: 'string', default: '60'}}})
const seed = Number(values.seed ?? Math.floor(Math.random() * 2 ** 32))
const seconds = Number(values.seconds)

async function main(): Promise<void> {
  console.log(`torture: seed ${seed}, ${seconds} s (again: npm run torture -- --seed ${seed} --seconds ${seconds})`)
  const home = newHome()
  try {
    const failed = await Promise.race([torture(home), limit()])
    for (const what of failed) console.log(`WRONG ${what}`)
    if (failed.length) throw new Error(`${failed.length} things are wrong`)
    await removeHome(home)
  } catch (error) {
    for (const pid of processesOf(home)) kill(pid, 'SIGKILL')
    console.error(error)
    console.error(`failed with seed ${seed}; data and logs are in ${home}`)
    process.exit(1)
  }
  process.exit(0)
}

/** Ends a run in which something waits for ever. */
async function limit(): Promise<never> {
  const allowedMs = seconds * 1000 + limitMs
  await sleep(allowedMs)
  throw new Error(`the run is not over after ${allowedMs} ms`)
}

/** The whole run; resolves to its errors. */
async function torture(home: string): Promise<string[]> {
  const random = new Random(seed)
  const service = new Service(home, seed)
  const proxies = chainCodes.flatMap(code => familyOf(code).prepare(code, service, random))
  for (const proxy of proxies) await proxy.open()
  await service.start()
  const assets = (await Promise.all(chainCodes.map(code => familyOf(code).assets(code, service)))).flat()
  const cast = assemble({service, proxies, assets, random})
  const {merchants} = cast
  await prepare(cast)
  await suffer(cast)
  for (const claimant of cast.claimants) await claimant.claimEach()
  calm(cast)
  const db = await settle(service, cast.payers)
  const failed = await verify({...cast, db})
  console.log(summary(cast))
  console.log(line('deposits', await histories(db)))
  console.log(line('payment requests', await ends(db)))
  console.log(line('payouts', await fates(db)))
  console.log(line('completed, by what was paid', await paidOut(db)))
  console.log(line('transactions sent', await outgoingPayments(db)))
  const expired = 'select chain as what, count(*) from chain.lapse group by 1 order by 1'
  console.log(line('transactions that expired', await countsOf(db, expired)))

  await db.end()
  const stoppedMs = await service.stop()
  for (const {receiver} of merchants) receiver.close()
  for (const proxy of proxies) proxy.close()
  if (stoppedMs > stopTimeoutMs) failed.push(`the service took ${stoppedMs} ms to stop`)
  return failed
}

interface Stage {
  service: Service
  proxies: GoBetween[]
  assets: Asset[]
  random: Random
}

interface Cast extends Omit<Run, 'db'>, Stage {
  killer: Killer
  operator: Operator
}

function assemble(stage: Stage): Cast {
  const {service, assets, random} = stage
  const merchants = ['first', 'second'].map(prefix => new Merchant(prefix, service, random))
  const users = new Users(merchants, random)
  const payments = new Payments(merchants, assets, random)
  const payers = chainCodes.map(code => familyOf(code).payer(code, {service, users, payments, random}))
  return {
    ...stage,
    merchants,
    users,
    payments,
    payers,
    claimants: merchants.map(merchant => new Claimant(merchant, {service, assets, payers, random})),
    readers: [undefined, 'payment_request.paid' as const].flatMap(type =>
      merchants.map(merchant => new Reader(merchant, type)),
    ),
    killer: new Killer(service, random),
    operator: new Operator(service, random),
  }
}

/** Two merchants, some users and payment requests, their first payments, a treasury, and the first events. */
async function prepare({service, assets, merchants, users, payments, payers, claimants, readers}: Cast): Promise<void> {
  for (const merchant of merchants) await merchant.open()
  for (let i = 0; i < 8; i++) await users.create()
  for (let i = 0; i < 8; i++) await payments.create()
  for (const payer of payers) await payer.begin(await treasuryOf(service, payer))
  for (const claimant of claimants) await claimant.begin()
  await until(
    async () => (await service.query('select from app.treasury where balance > 0')).length === assets.length,
    {
      timeoutMs: settleTimeoutMs,
      intervalMs: 250,
      what: 'the treasuries to be funded, finally',
    },
  )
  for (const reader of readers) await reader.readOn()
}

async function treasuryOf(service: Service, {chain}: Payer): Promise<string> {
  const [row] = await service.query('select app.treasury_address($1) as address', [chain])
  return String(row!.address)
}

/** All actors act, for the requested time. */
async function suffer({service, payments, payers, claimants, readers, killer, operator, random}: Cast): Promise<void> {
  const stop = new AbortController()
  const {signal} = stop
  const actors = [
    ...payers.flatMap(payer => payer.actors(signal)),
    payments.ask(signal),
    ...claimants.map(claimant => claimant.claim(signal)),
    ...readers.map(reader => reader.read(signal)),
    service.runSecondWorker(signal),
    killer.run(signal),
    operator.reindex(signal),
    killSupervisor(killer, random.fork('supervisor')),
  ]
  const over = sleep(seconds * 1000, undefined, {ref: false})
  await Promise.race([over, Promise.all(actors)])
  stop.abort()
  await Promise.all(actors)
}

/** Once in each half of the run. */
async function killSupervisor(killer: Killer, random: Random): Promise<void> {
  for (let half = 0; half < 2; half++) {
    await sleep(seconds * 1000 * (0.1 + 0.2 * random.next()))
    await killer.killSupervisor()
  }
}

function calm({service, merchants, proxies}: Cast): void {
  service.calm()
  for (const {receiver} of merchants) receiver.calm()
  for (const proxy of proxies) proxy.calm()
}

/** Ends all faults: waits until every payout is over, every block is final and every event delivered. */
async function settle(service: Service, payers: Payer[]): Promise<pg.Pool> {
  const waited = {timeoutMs: settleTimeoutMs, intervalMs: 250}
  await until(async () => service.query('select 1'), {...waited, what: 'the database'})
  const db = new pg.Pool({connectionString: service.databaseUrl})
  db.on('error', () => {})
  await until(async () => everythingTried(db), {...waited, what: 'every blocked address to be free'})
  await until(async () => (await everythingTried(db)) && (await everythingOver(db)), {
    ...waited,
    what: 'every payout to be over',
  })
  const heads = new Map<string, number>()
  for (const payer of payers)
    heads.set(payer.chain, await until(() => payer.lastHeight(), {...waited, what: `the local ${payer.chain} chain`}))
  await until(
    async () => {
      const {rows} = await db.query<{chain: string; final_height: number}>(
        'select chain, final_height from chain.cursor',
      )
      return rows.every(({chain, final_height}) => final_height >= (heads.get(chain) ?? 0))
    },
    {...waited, what: 'every block to be final'},
  )
  await until(async () => nothingPending(db), {...waited, what: 'every deposit to be final, or given up'})
  await until(async () => everyRequestJudged(db), {...waited, what: 'every payment request to be paid, or to expire'})
  await until(async () => everythingOver(db), {...waited, what: 'every sweep to be over'})
  await until(async () => everythingDelivered(db), {...waited, what: 'every event to be delivered'})
  return db
}

/** Nothing is refused any more: what was is tried again now, and not in minutes or a day. */
async function everythingTried(db: pg.Pool): Promise<boolean> {
  await db.query(`update app.outgoing_payment set final_at = final_at - interval '1 day'
    where kind = 'sweep' and outcome <> 'done' and final_at > clock_timestamp() - interval '1 day'`)
  const {rows} = await db.query(
    'update app.blocked_address set retry_at = least(retry_at, clock_timestamp()) returning 1',
  )
  return rows.length === 0
}

async function everythingOver(db: pg.Pool): Promise<boolean> {
  const {rows} = await db.query(
    `select from app.payout where status not in ('completed', 'failed') union all select from app.outgoing_payment where status <> 'final'
     union all select from app.claim where finished_at is null`,
  )
  return rows.length === 0
}

/** Whether no deposit waits. One whose block never comes is given up after a while. */
async function nothingPending(db: pg.Pool): Promise<boolean> {
  const {rows} = await db.query(
    `select from app.deposit where status = 'pending' union all select from chain.unconfirmed`,
  )
  return rows.length === 0
}

async function everyRequestJudged(db: pg.Pool): Promise<boolean> {
  const {rows} = await db.query(`select from app.payment_request where status in ('awaiting', 'detected')`)
  return rows.length === 0
}

/** Makes deliveries due that wait minutes or hours for their next attempt: the receiver fails no more. */
async function everythingDelivered(db: pg.Pool): Promise<boolean> {
  await db.query(`with due as (update app.delivery set next_attempt_at = clock_timestamp()
      where status = 'pending' and next_attempt_at > clock_timestamp() + interval '2 seconds' returning 1)
    select app.enqueue('sequence_events') from due limit 1`)
  const {rows} = await db.query(
    `select from app.event where sequence is null union all select from app.delivery where status = 'pending'`,
  )
  return rows.length === 0
}

async function verify(run: Run): Promise<string[]> {
  const failed: string[] = []
  for (const [what, check] of Object.entries(checks)) {
    const wrong = await check(run)
    console.log(`${wrong.length ? 'WRONG' : 'right'}  ${what}`)
    failed.push(...wrong.slice(0, 20))
  }
  return failed
}

function summary({
  service,
  users,
  payments,
  payers,
  merchants,
  proxies,
  claimants,
  readers,
  killer,
  operator,
}: Cast): string {
  return [
    line('killed', killer.counts),
    line('killed at a step', service.killedAtSteps()),
    line('chains read again', operator.counts),
    ...payers.map(payer => line(payer.chain, payer.counts)),
    ...proxies.map(proxy => line(proxy.what, proxy.counts)),
    ...merchants.flatMap(({prefix, receiver, retries}, i) => [
      line(`receiver of the ${prefix}`, {...receiver.counts, events: receiver.bodies.size}),
      line(`payouts requested by the ${prefix}`, {...claimants[i]!.counts, 'responses lost': claimants[i]!.lost}),
      line(`the ${prefix}`, {'events read forward': readers[i]!.events.length, 'repeated calls': retries}),
    ]),
    line('users', {all: users.all.length}),
    line('payment requests', {all: payments.all.length, ...payments.counts}),
  ].join('\n')
}

function line(what: string, counts: Record<string, number>): string {
  const parts = Object.entries(counts).map(([name, count]) => `${name} ${count}`)
  return `${what}:\n  ${parts.join(', ') || 'none'}`
}

/** How many deposits had each history: shows whether the rare ones occurred. */
async function histories(db: pg.Pool): Promise<Record<string, number>> {
  return await countsOf(
    db,
    `select coalesce(history, case when not credited then 'unattributed, ' when payment_request_id is not null then 'receipt, ' else '' end || status) as what,
       count(*) from app.deposit d,
       lateral (select string_agg(substr(type, 9), '-' order by position) as history from app.event where subject_id = d.id) e
     group by 1 order by 2 desc`,
  )
}

async function ends(db: pg.Pool): Promise<Record<string, number>> {
  return await countsOf(
    db,
    `select status || case when received > amount then ', too much' else '' end || case when late then ', late' else '' end as what, count(*)
     from app.payment_request group by 1 order by 2 desc`,
  )
}

async function fates(db: pg.Pool): Promise<Record<string, number>> {
  return await countsOf(
    db,
    `select status || coalesce(', ' || error_code, '') || case when sweep_first then ', swept first' else '' end as what, count(*)
     from app.payout group by 1 order by 2 desc`,
  )
}

async function paidOut(db: pg.Pool): Promise<Record<string, number>> {
  return await countsOf(
    db,
    `select chain || ' ' || token as what, count(*) from app.payout where status = 'completed' group by 1 order by 1`,
  )
}

async function outgoingPayments(db: pg.Pool): Promise<Record<string, number>> {
  return await countsOf(
    db,
    `select kind || ' ' || outcome || case when attempts > 1 then ', replaced' else '' end as what, count(*)
     from app.outgoing_payment s, lateral (select count(*) as attempts from app.outgoing_attempt where outgoing_payment_id = s.id) a group by 1 order by 2 desc`,
  )
}

async function countsOf(db: pg.Pool, sql: string): Promise<Record<string, number>> {
  const {rows} = await db.query<{what: string; count: string}>(sql)
  return Object.fromEntries(rows.map(({what, count}) => [what, Number(count)]))
}

await main()
