// For every seed: after every commit, deposits, their events and our confirmed transactions match the fake chain. This
// holds through forks, re-runs, late addresses, late contents, a source that lies, connections cut inside the
// transaction, commits whose response was lost, and restarts. FOLLOW_SEEDS=200 npx vitest run indexers/follow.test.ts
// runs more seeds; FOLLOW_FIRST_SEED sets the first one.
import type {Store} from '@subsquid/typeorm-store'
import pino from 'pino'
import {expect, test} from 'vitest'
import {RetryableError} from '../base/errors.ts'
import {openPool} from '../db/client/pool.ts'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'
import {FakeChain, FaultySource, HonestSource} from '../test/support/fake-chain.ts'
import {makeMerchant, watchAddress} from '../test/support/people.ts'
import {until} from '../test/support/until.ts'
import {Random} from '../test/torture/random.ts'
import type {ReadBlock} from './block.ts'
import {ChainCursor} from './cursor.ts'
import {advanceFinality, threshold} from './finality.ts'
import {CannotFollow, Follower, type FollowOptions, follow} from './follow.ts'
import {writeBlocks} from './match.ts'
import {resume} from './resume.ts'
import {ChainDatabase} from './subsquid/store.ts'

const chain = 'ETH'
const seeds = Number(process.env.FOLLOW_SEEDS ?? 4)
const firstSeed = Number(process.env.FOLLOW_FIRST_SEED ?? 12) // seed 12 fails if links are not checked
const log = pino({level: 'silent'})

interface Deposit {
  status: string
  amount: string
  height: number
  hash: string
  events: string[]
}

/** The expected contents of the database, computed only from its head and its final height. */
class Expected {
  readonly deposits = new Map<string, Deposit>()
  confirmedTxs = new Map<string, string>()
  /**
   * Transfers that a rewind removed and that were not read again yet: their block, and the height up to which they are
   * expected.
   */
  readonly #awaited = new Map<string, {height: number; until: number}>()
  readonly #world: FakeChain
  readonly #ours: ReadonlySet<string>

  constructor(world: FakeChain, ours: ReadonlySet<string>) {
    this.#world = world
    this.#ours = ours
  }

  /** The blocks above a height will be read again. */
  rewind(to: number, head: number): void {
    for (const [key, {status, height}] of this.deposits)
      if (status === 'pending' && height > to && !this.#awaited.has(output(key)))
        this.#awaited.set(output(key), {height, until: head})
  }

  moveTo(headHash: string, finalHeight: number): void {
    const here = new Map<string, Pick<Deposit, 'amount' | 'height' | 'hash'>>()
    this.confirmedTxs = new Map()
    for (let block = this.#world.byHash.get(headHash); block; block = this.#world.byHash.get(block.parentHash)) {
      const {height, hash, inside} = block
      for (const {txid, ours, outputs} of inside) {
        if (ours) this.confirmedTxs.set(txid, hash)
        for (const {outputIndex, token, amount, recipientKey} of outputs)
          if (this.#ours.has(recipientKey))
            here.set(`${txid}:${outputIndex}:${recipientKey}:${token}`, {amount: `${amount}`, height, hash})
      }
    }
    for (const key of here.keys()) this.#awaited.delete(output(key))
    for (const [at, {height, until}] of this.#awaited)
      if (until <= this.#world.byHash.get(headHash)!.height || height <= finalHeight) this.#awaited.delete(at)
    for (const key of new Set([...here.keys(), ...this.deposits.keys()])) this.#derive(key, here.get(key), finalHeight)
  }

  #derive(key: string, found: Pick<Deposit, 'amount' | 'height' | 'hash'> | undefined, finalHeight: number): void {
    const known = this.deposits.get(key) ?? {status: 'reorged', amount: '', height: 0, hash: '', events: []}
    if (known.status === 'final') {
      expect(found, `final deposit ${key} is on the chain`).toBeDefined()
      return
    }
    if (this.#awaited.has(output(key))) return
    if (found && known.status === 'reorged') known.events.push('deposit.pending')
    else if (found && known.amount !== found.amount) known.events.push('deposit.reorged', 'deposit.pending')
    else if (!found && known.status === 'pending') known.events.push('deposit.reorged')
    Object.assign(known, found, {status: found ? 'pending' : 'reorged'})
    if (found && found.height <= finalHeight) {
      known.status = 'final'
      known.events.push('deposit.confirmed')
    }
    this.deposits.set(key, known)
  }
}

/** The part of a deposit's key that identifies its transfer. */
const output = (key: string) => key.split(':').slice(0, 2).join(':')

async function check(db: TestDatabase, expected: Expected, {events = true} = {}): Promise<void> {
  const stored = await db.rows<Deposit & {key: string; version: number}>(
    `select txid || ':' || output_index || ':' || address || ':' || token as key, status, amount::text, block_height as height,
       block_hash as hash, version, array(select type from app.event where subject_id = d.id order by position) as events
     from app.deposit d`,
  )
  const shape = ({status, amount, height, hash, events: list}: Deposit) => {
    return status === 'reorged' && !events ? {status} : {status, amount, height, hash, ...(events && {events: list})}
  }
  const found = new Map(stored.map(({key, version, ...deposit}) => [key, shape(deposit)]))
  const wanted = new Map([...expected.deposits].map(([key, deposit]) => [key, shape(deposit)]))
  if (!events) for (const [key, {status}] of wanted) if (status === 'reorged' && !found.has(key)) wanted.delete(key) // was never visible
  expect(found).toEqual(wanted)
  for (const {version, events: list} of stored) {
    expect(list).toHaveLength(version)
    expect(list.join(' ').replaceAll('deposit.', '')).toMatch(/^pending( reorged pending)*( confirmed| reorged)?$/)
  }
  const included = await db.rows<{txid: string; hash: string}>(
    'select txid, block_hash as hash from chain.confirmed_tx',
  )
  expect(new Map(included.map(({txid, hash}) => [txid, hash]))).toEqual(expected.confirmedTxs)
  const [left] = await db.rows(
    `select (select count(*) from chain.touched) + (select count(*) from chain.touched_chain) as marks,
       (select count(*) from app.incident where kind <> 'unknown_transaction') as incidents`,
  )
  expect(left).toEqual({marks: '0', incidents: '0'})
}

/** Everything that one run needs, computed from the seed. */
async function setUp(seed: number) {
  const chance = new Random(seed)
  const random = () => chance.next()
  const db = await testDatabase()
  const merchant = await makeMerchant(db)
  const ours = new Set<string>()
  let addresses = 0
  const provision = async () => {
    const address = `0x${(seed * 1_000_000 + ++addresses).toString(16).padStart(40, '0')}`
    await watchAddress(db, merchant, {address, family: 'evm', watched: [chain], chains: [chain]})
    ours.add(address)
    return address
  }
  const sender = await provision()
  ours.delete(sender)
  const options = {random, finality: 2 + Math.floor(random() * 5), sender}
  const world = new FakeChain('A', {...options, provision})
  const stranger = new FakeChain('B', {...options, provision: async () => 'stranger'})
  for (let i = 0; i < 40; i++) await stranger.step()
  const pool = openPool(db.url('sluice_indexer'), {name: 'test', max: 2})
  const cursor = new ChainCursor(pool, chain)
  await cursor.anchor(world.genesis, 0, world.genesis, new Date())
  const end = async () => {
    await pool.end()
    await db.drop()
  }
  return {random, db, world, stranger, ours, cursor, end}
}

async function run(seed: number): Promise<void> {
  const {random, db, world, stranger, ours, cursor, end} = await setUp(seed)
  const chaos = random() < 0.15 ? 0 : 0.02 + random() * 0.1
  // Contents are learnt late. Their events are not compared, because these depend on when the contents were learnt.
  const late = random() < 0.4
  if (late) world.hideRate = 0.2
  const source = new FaultySource(world, stranger, random, chaos)
  const expected = new Expected(world, ours)

  let disturb = async (_: Store): Promise<void> => {}
  const rollDisturbance = () => {
    const dice = random()
    disturb = async store => {
      if (dice < chaos) await cutOff(db, store)
      else if (dice < 2 * chaos) throw new Error('in the middle of writing')
    }
  }
  const options: FollowOptions = {
    database: new ChainDatabase(db.url('sluice_indexer'), chain),
    cursor,
    source,
    network: world.genesis,
    log,
    pollMs: 1,
    batch: 1 + Math.floor(random() * 40),
    horizon: 3 + Math.floor(random() * 40),
    write: async (store, blocks) => {
      await disturb(store)
      await writeBlocks(store, blocks, {chain, display: address => address})
      await disturb(store)
    },
  }

  let follower = new Follower(options)
  let finalBefore = 0
  const learn = async () => {
    const at = (await cursor.read())!
    expect(at.finalHeight).toBeGreaterThanOrEqual(finalBefore)
    expect(at.halted).toBeNull()
    finalBefore = at.finalHeight
    expected.moveTo(at.headHash, at.finalHeight)
  }
  const rewind = cursor.rewind.bind(cursor)
  cursor.rewind = async to => {
    const {headHeight} = (await cursor.read())!
    await rewind(to)
    expected.rewind(to.height, headHeight)
  }
  const restart = async () => {
    await follower.forget()
    follower = new Follower(options)
  }
  const judge = async () => {
    await follower.forget()
    await resume(source, cursor, {network: world.genesis, networkSettings: 'none', log, retryMs: 0})
    await learn()
  }
  const step = async () => {
    const moved = await follower.round()
    await learn()
    await advanceFinality(source, cursor)
    await learn()
    return moved
  }

  const rounds = 50 + Math.floor(random() * 50)
  for (let i = 0, observations = 0; i < rounds; i++) {
    const steps = random() < 0.01 ? 150 : random() < 0.04 ? 30 : random() * 1.8 // sometimes the indexer was away for long
    for (let n = 0; n < steps; n++) await world.step()
    if (random() < 0.3) source.reveal(0.5)
    rollDisturbance()
    try {
      if (random() < chaos && !late) await restart() // the source of a new process finds out which blocks must be written again
      const moved = await step()
      observations = 0
      if (moved && random() < chaos / 2) throw new Error('the commit happened, but its response was lost')
    } catch (error) {
      await follower.forget()
      if (error instanceof CannotFollow && ++observations >= threshold) await judge()
    }
    await learn()
    if (!late && i % 6 === 0) await check(db, expected)
  }

  // No more faults: everything must end final or reorged, and restarts make no event.
  disturb = async () => {}
  source.calm()
  world.settle()
  source.reveal(1)
  await judge()
  for (let moved = true, count = 0; moved; count++) {
    expect(count, 'rounds until the loop has nothing to do').toBeLessThan(2000)
    moved = await step()
  }
  expect(follower.tip?.hash).toBe(world.head.hash)
  await check(db, expected, {events: !late})
  const countEvents = () => db.rows('select count(*) from app.event')
  const events = await countEvents()
  for (let i = 0; i < 3; i++) {
    await restart()
    expect(await step()).toBe(false)
  }
  expect(await countEvents()).toEqual(events)
  await follower.forget()
  await end()
}

test('a head that is far too high does not reduce how many blocks can be undone', async () => {
  const {random, db, world, cursor, end} = await setUp(1)
  const source = new HonestSource(world)
  const options: FollowOptions = {
    database: new ChainDatabase(db.url('sluice_indexer'), chain),
    cursor,
    source: Object.assign(source, {head: async () => ({...world.head, height: world.head.height + 5000})}),
    network: world.genesis,
    log,
    pollMs: 1,
    batch: 1 + Math.floor(random() * 40),
    horizon: 20,
    write: (store, blocks) => writeBlocks(store, blocks, {chain, display: address => address}),
  }
  const follower = new Follower(options)
  while (world.head.height < 30) await world.step()
  while (await follower.round());
  expect(follower.tip).toMatchObject({height: world.head.height, hash: world.head.hash})
  const [hot] = await db.rows('select count(*)::int, min(height) from squid_eth.hot_block')
  expect(hot).toEqual({count: 20, min: world.head.height - 19})
  await follower.forget()
  await end()
})

test('a node whose blocks cannot be read for long is what the chain waits for, until one is read', async () => {
  const {db, world, cursor, end} = await setUp(1)
  const honest = new HonestSource(world)
  let isBroken = true
  const source = Object.assign(new HonestSource(world), {
    blocksAbove: async (height: number, limit: number) => {
      if (isBroken) throw new RetryableError('the node shows no transactions of block 1')
      return await honest.blocksAbove(height, limit)
    },
  })
  while (world.head.height < 10) await world.step()
  await cursor.configure()
  const waits = async () =>
    (await db.rows(`select waiting_reason, waiting_message from chain.configured where waiting_reason is not null`))[0]
  const over = new AbortController()
  const write = (store: Store, blocks: ReadBlock[]) => writeBlocks(store, blocks, {chain, display: text => text})
  const database = new ChainDatabase(db.url('sluice_indexer'), chain)
  const options = {database, cursor, source, network: world.genesis, write, log, pollMs: 1, retryMs: 1}
  const following = follow({...options, quietMs: 20}, over.signal)
  expect(await until(waits, {timeoutMs: 5000, what: 'the reason'})).toEqual({
    waiting_reason: 'node_unavailable',
    waiting_message: 'the node shows no transactions of block 1',
  })
  isBroken = false
  await until(async () => !(await waits()), {timeoutMs: 5000, what: 'the chain to be followed again'})
  over.abort()
  await following
  await end()
})

/** Makes the server end the store's connection somewhere inside its transaction. */
async function cutOff(db: TestDatabase, store: Store): Promise<void> {
  const {em} = store as unknown as {em(): {query(sql: string): Promise<{pid: number}[]>}}
  const [backend] = await em.call(store).query('select pg_backend_pid() as pid')
  await db.rows('select pg_terminate_backend($1)', [backend!.pid])
}

test.each(Array.from({length: seeds}, (_, i) => firstSeed + i))(
  'rows and events match the chain: seed %i',
  run,
  120_000,
)
