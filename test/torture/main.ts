// npm run torture [-- --seed N --seconds 60]: the whole service, on real chains, while processes, connections and blocks are taken from
// under it at random. Afterwards everything must be as the chains have it. Prints the seed, what was inflicted, and what was found;
// ends with 1 if anything differs. The choices of a run come from its seed; when they take effect is up to the machine.

import {setTimeout as sleep} from 'node:timers/promises'
import {parseArgs} from 'node:util'
import pg from 'pg'
import {kill, newHome, processesOf, removeHome} from '../support/processes.ts'
import {until} from '../support/until.ts'
import {Killer} from './killer.ts'
import {Payer} from './payer.ts'
import {Random} from './random.ts'
import {Reader, Receiver} from './receiver.ts'
import {chainCodes, Service} from './service.ts'
import {Users} from './users.ts'
import {checks, type Run} from './verify.ts'

const SETTLE_TIMEOUT_MS = 180_000
const STOP_TIMEOUT_MS = 10_000

const {values} = parseArgs({options: {seed: {type: 'string'}, seconds: {type: 'string', default: '60'}}})
const seed = Number(values.seed ?? Math.floor(Math.random() * 2 ** 32))
const seconds = Number(values.seconds)

async function main(): Promise<void> {
  console.log(`torture: seed ${seed}, ${seconds} s (again: npm run torture -- --seed ${seed} --seconds ${seconds})`)
  const home = newHome()
  try {
    const failed = await torture(home)
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

/** The whole run; resolves to what was wrong. */
async function torture(home: string): Promise<string[]> {
  const random = new Random(seed)
  const service = new Service(home)
  const receiver = new Receiver(random)
  const users = new Users(service, random)
  const payers = chainCodes.map(chain => new Payer(chain, service, users, random))
  const killer = new Killer(service, random)
  const reader = new Reader(service)

  await service.start()
  await prepare({service, receiver, users, payers, reader})
  await suffer({payers, reader, killer, random})
  receiver.calm()
  const db = await settle(service, payers)
  const failed = await verify({db, service, users, payers, receiver, reader})
  console.log(summary({service, users, payers, receiver, reader, killer}))
  console.log(line('deposits', await histories(db)))

  await db.end()
  const stoppedMs = await service.stop()
  receiver.close()
  if (stoppedMs > STOP_TIMEOUT_MS) failed.push(`the service took ${stoppedMs} ms to stop`)
  return failed
}

type Actors = Omit<Run, 'db'>

/** A merchant, some users, money to pay them with, and a first event to read on from. */
async function prepare({service, receiver, users, payers, reader}: Actors): Promise<void> {
  const {id, secret} = await service.openShop(await receiver.listen())
  receiver.secret = secret
  for (let i = 0; i < 5; i++) await users.create()
  for (const payer of payers) await payer.begin()
  await service.call('POST', `/v1/webhook-endpoints/${id}/test`)
  await reader.begin()
}

/** Everybody does what they do, for as long as was asked. */
async function suffer({
  payers,
  reader,
  killer,
  random,
}: Pick<Actors, 'payers' | 'reader'> & {killer: Killer; random: Random}) {
  const stop = new AbortController()
  const {signal} = stop
  const actors = [
    ...payers.flatMap(payer => [payer.pay(signal), payer.reorganise(signal)]),
    reader.read(signal),
    killer.run(signal),
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

/** Nothing is inflicted any more: waits until every block is final and every event delivered. */
async function settle(service: Service, payers: Payer[]): Promise<pg.Pool> {
  const waited = {timeoutMs: SETTLE_TIMEOUT_MS, intervalMs: 250}
  const heads = new Map<string, number>()
  for (const payer of payers)
    heads.set(payer.chain, await until(() => payer.lastHeight(), {...waited, what: `the local ${payer.chain} chain`}))
  await service.call('GET', '/v1/balances')
  const db = new pg.Pool({connectionString: service.databaseUrl})
  db.on('error', () => {})
  await until(
    async () => {
      const {rows} = await db.query<{chain: string; final_height: number}>(
        'select chain, final_height from chain.cursor',
      )
      return rows.every(({chain, final_height}) => final_height >= heads.get(chain)!)
    },
    {...waited, what: 'every block to be final'},
  )
  await until(async () => everythingDelivered(db), {...waited, what: 'every event to be delivered'})
  return db
}

/** What waits for its next attempt, in minutes or hours, is due now: the receiver fails no more. */
async function everythingDelivered(db: pg.Pool): Promise<boolean> {
  await db.query(`with due as (update app.delivery set next_attempt_at = clock_timestamp()
      where status = 'pending' and next_attempt_at > clock_timestamp() + interval '2 seconds' returning 1)
    select app.enqueue('deliver_webhooks') from due limit 1`)
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

function summary({service, users, payers, receiver, reader, killer}: Actors & {killer: Killer}): string {
  return [
    line('killed', killer.counts),
    ...payers.map(payer => line(payer.chain, payer.counts)),
    line('receiver', {...receiver.counts, events: receiver.bodies.size}),
    line('merchant', {
      users: users.all.length,
      'events read forward': reader.events.length,
      'calls made again': service.retries,
    }),
  ].join('\n')
}

function line(what: string, counts: Record<string, number>): string {
  const parts = Object.entries(counts).map(([name, count]) => `${name} ${count}`)
  return `${what}:\n  ${parts.join(', ') || 'none'}`
}

/** How many deposits had which history: shows whether the rare ones were met. */
async function histories(db: pg.Pool): Promise<Record<string, number>> {
  const {rows} = await db.query<{history: string; count: string}>(
    `select coalesce(history, 'unattributed, ' || status) as history, count(*) from app.deposit d,
       lateral (select string_agg(substr(type, 9), '-' order by position) as history from app.event where subject_id = d.id) e
     group by 1 order by 2 desc`,
  )
  return Object.fromEntries(rows.map(({history, count}) => [history, Number(count)]))
}

await main()
