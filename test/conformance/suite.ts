// The conformance suite: what every chain's indexer must do, on the real local chain. chain.ts says how to add a chain.
import {afterAll, beforeAll, describe, expect, test} from 'vitest'
import {until} from '../support/until.ts'
import {type ChainUnderTest, faults, type Payment} from './chain.ts'
import {reindexing} from './reindex.ts'
import {starting} from './start.ts'
import {seeds, walk} from './walk.ts'
import {finalDepth, World} from './world.ts'

/** How often in a row the indexer must see a fork below final before it believes it, generously in milliseconds. */
const haltTimeoutMs = 120_000

export function conformance(chain: ChainUnderTest): void {
  describe(chain.name, {timeout: 600_000, concurrent: true}, () => {
    describe('on one chain', {concurrent: false}, () => inTurn(chain))
    describe('the indexer', {concurrent: true}, () => {
      adversities(chain)
      reindexing(chain)
      starting(chain)
    })
  })
}

/** One after the other with one indexer: each chain of its own takes longer to start than most of these tests. */
function inTurn(chain: ChainUnderTest): void {
  let world: World
  beforeAll(async () => {
    world = await World.create(chain)
    world.indexer.start()
    await world.settled()
  })
  afterAll(() => world?.clear())
  describe('a deposit', () => life(chain, () => world))
  describe('the indexer', () => {
    if (!chain.isSecondSource) killed(chain, () => world)
    away(() => world)
    test('in all these cases needed no operator, and never ended unexpectedly', async () => {
      await world.mine(finalDepth)
      await world.settled()
      const restarts = world.indexer.logs.filter(({msg}) => msg === 'starting anew').map(({reason}) => String(reason))
      // Between two tests no block may come for long; the indexer is right to start anew then.
      expect(restarts.filter(reason => !reason.startsWith('no new block'))).toEqual([])
      expect(world.indexer.ends).toHaveLength(restarts.length)
    })
    halting(chain, () => world)
  })
}

function life(chain: ChainUnderTest, at: () => World): void {
  const unseen = chain.showsUnconfirmed ? 'pending' : ''

  /** The statuses and events of these payments. */
  const fates = async (...payments: Payment[]) =>
    (await Promise.all(payments.map(payment => at().deposit(payment)))).map(deposit => [
      deposit?.status,
      deposit?.events,
    ])

  test('goes from unseen to final, and counts from then on', async () => {
    const world = at()
    const to = await world.newAddress()
    const before = await world.balance()
    const payment = await world.pay({to, amount: 5000n})
    await world.settled()
    expect((await world.deposit(payment))?.events ?? '').toBe(unseen)
    const {height, hash} = await world.mine()
    await world.settled()
    expect(await world.deposit(payment)).toMatchObject({address: to, amount: '5000', height, hash, events: 'pending'})
    await world.mine(finalDepth - 1)
    await world.settled()
    expect(await fates(payment)).toEqual([['pending', 'pending']])
    expect(await world.balance()).toBe(before)
    await world.mine()
    await world.settled()
    expect(await fates(payment)).toEqual([['final', 'pending confirmed']])
    expect(await world.balance()).toBe(before + 5000n)
  })

  test('is each of several outputs of one transaction, to one address and to others', async () => {
    const world = at()
    const [a, b, stranger] = [await world.newAddress(), await world.newAddress(), world.chain.newAddress()]
    const payment = await world.pay(
      {to: a, amount: 1001n},
      {to: stranger, amount: 1002n},
      {to: b, amount: 1003n},
      {to: a, amount: 1001n},
    )
    await world.mine()
    await world.settled()
    const found = (await world.deposits(payment)).map(({address, amount, events}) => [address, amount, events])
    const ours = payment.outputs.filter(({to}) => to !== stranger).toSorted((one, other) => one.index - other.index)
    expect(found).toEqual(ours.map(({to, amount}) => [to, String(amount), 'pending']))
    const sums = [a, b].map(to => ours.reduce((sum, output) => (output.to === to ? sum + output.amount : sum), 0n))
    expect(sums).toEqual([2002n, 1003n])
  })

  test('to an address that is handed out just before, or while it is under way, is credited', async () => {
    const world = at()
    const payments: Payment[] = []
    for (let i = 0; i < 5; i++) {
      payments.push(await world.pay({to: await world.newAddress(), amount: 1000n + BigInt(i)}))
      await world.mine() // while other blocks are being read
    }
    // Signed, and seen if the chain shows unconfirmed payments, before the address was requested.
    const late = world.chain.newAddress()
    payments.push(await world.pay({to: late, amount: 2000n}))
    if (chain.showsUnconfirmed) await world.chain.source.asked(3)
    await world.watch(late)
    await world.mine()
    await world.settled()
    expect(await fates(...payments)).toEqual(payments.map(() => ['pending', 'pending']))
  })

  test('that a reorganisation drops is reorged; mined again it is pending with the same id, and then final', async () => {
    const world = at()
    const payment = await world.pay({to: await world.newAddress(), amount: 5000n})
    await world.mine(2)
    await world.settled()
    const {id} = (await world.deposit(payment))!
    await world.reorg(2)
    await world.settled()
    expect(await fates(payment)).toEqual([['reorged', 'pending reorged']])
    await world.send(payment)
    await world.mine(finalDepth + 1)
    await world.settled()
    expect(await fates(payment)).toEqual([['final', 'pending reorged pending confirmed']])
    expect((await world.deposit(payment))?.id).toBe(id)
  })

  test('that a reorganisation mines again, at the same height or elsewhere, causes no event', async () => {
    const world = at()
    const to = await world.newAddress()
    const same = await world.pay({to, amount: 1000n})
    const {height, hash} = await world.mine()
    const higher = await world.pay({to, amount: 2000n})
    await world.mine(2)
    const lower = await world.pay({to, amount: 3000n})
    await world.mine()
    await world.settled()
    await world.reorg(4, {0: [same], 2: [lower, higher]})
    await world.settled()
    const deposits = await Promise.all([same, lower, higher].map(payment => world.deposit(payment)))
    expect(deposits.map(deposit => deposit?.height)).toEqual([height, height + 2, height + 2])
    expect(deposits[0]!.hash).not.toBe(hash)
    expect(await fates(same, lower, higher)).toEqual(Array(3).fill(['pending', 'pending']))
  })

  test('that a double spend replaces is reorged, and the replacement is its own deposit', async () => {
    const world = at()
    const [a, b] = [await world.newAddress(), await world.newAddress()]
    const payment = await world.pay({to: a, amount: 5000n})
    await world.mine()
    await world.settled()
    const same = await world.sign([{to: a, amount: 6000n}], payment)
    const other = await world.sign([{to: b, amount: 5000n}], payment)
    await world.reorg(1, {0: [same]})
    await world.settled()
    expect(await fates(payment, same)).toEqual([
      ['reorged', 'pending reorged'],
      ['pending', 'pending'],
    ])
    await world.mine()
    await world.reorg(2, {1: [other]})
    await world.mine(finalDepth)
    await world.settled()
    expect(await fates(payment, same, other)).toEqual([
      ['reorged', 'pending reorged'],
      ['reorged', 'pending reorged'],
      ['final', 'pending confirmed'],
    ])
  })

  if (chain.showsUnconfirmed) unconfirmed(at, fates)
}

/** Unconfirmed deposits. */
function unconfirmed(at: () => World, fates: (...payments: Payment[]) => Promise<unknown[]>): void {
  test('is pending without a block while unconfirmed; confirming it, or losing its block, causes no event', async () => {
    const world = at()
    const payment = await world.pay({to: await world.newAddress(), amount: 5000n})
    await world.settled()
    const waits = {status: 'pending', height: null, hash: null, events: 'pending'}
    expect(await world.deposit(payment)).toMatchObject(waits)
    for (let i = 0; i < 2; i++) {
      const {height} = await world.mine()
      await world.settled()
      expect(await world.deposit(payment)).toMatchObject({status: 'pending', height, events: 'pending'})
      await world.unmine(1)
      await world.settled()
      expect(await world.deposit(payment)).toMatchObject(waits)
    }
    await world.mine(finalDepth + 1)
    await world.settled()
    expect(await fates(payment)).toEqual([['final', 'pending confirmed']])
  })

  test('that is unconfirmed is reorged when a conflicting transaction is mined, and returns when that is undone', async () => {
    const world = at()
    const to = await world.newAddress()
    await world.mine()
    const payment = await world.pay({to, amount: 5000n})
    await world.settled()
    const other = await world.sign([{to, amount: 6000n}], payment)
    await world.reorg(1, {0: [other]})
    await world.settled()
    expect(await fates(payment, other)).toEqual([
      ['reorged', 'pending reorged'],
      ['pending', 'pending'],
    ])
    await world.reorg(1)
    await world.send(payment)
    await world.mine(finalDepth + 1)
    await world.settled()
    expect(await fates(payment, other)).toEqual([
      ['final', 'pending reorged pending confirmed'],
      ['reorged', 'pending reorged'],
    ])
  })

  test('that is unconfirmed and missing is reorged only after a while, and pending again when it is back', async () => {
    const world = at()
    const payment = await world.pay({to: await world.newAddress(), amount: 5000n})
    await world.settled()
    await world.forget(payment)
    const missed = `select from chain.unconfirmed where txid = $1 and missed_since < now() - interval '3 seconds'` // several polls ago
    const isMissed = async () => (await world.db.rows(missed, [payment.txid])).length
    await until(isMissed, {timeoutMs: 60_000, what: 'some polls without it'})
    expect(await fates(payment)).toEqual([['pending', 'pending']])
    await world.send(payment)
    await world.settled()
    expect(await fates(payment)).toEqual([['pending', 'pending']])
    await world.forget(payment)
    await world.settled() // waiting for the chain moves the clock
    expect(await fates(payment)).toEqual([['reorged', 'pending reorged']])
    await world.send(payment)
    await world.settled()
    expect(await fates(payment)).toEqual([['pending', 'pending reorged pending']])
  })
}

function killed(chain: ChainUnderTest, at: () => World): void {
  test('that is killed at each step of a deposit sends no event twice', async () => {
    const world = at()
    const {indexer} = world
    const to = await world.newAddress()
    const [payment, other] = [await world.sign([{to, amount: 5000n}]), await world.sign([{to, amount: 6000n}])]
    const step = async (events: string, happens: () => Promise<unknown>) => {
      await happens() // earlier changes are written; the indexer may be reading this one
      await indexer.restart('SIGKILL')
      await world.settled()
      expect((await world.deposit(payment))?.events ?? '').toBe(events)
    }
    await step('', () => world.mine())
    await step(chain.showsUnconfirmed ? 'pending' : '', () => world.send(payment))
    await step('pending', () => world.mine())
    await step('pending', () => world.reorg(1, {0: [payment]}))
    await step('pending reorged', async () => {
      await world.reorg(1)
      await world.send(other)
      await world.mine()
    })
    await step('pending reorged pending', async () => {
      await world.send(payment)
      await world.mine(2)
    })
    await step('pending reorged pending confirmed', () => world.mine(finalDepth))
    await step('pending reorged pending confirmed', () => world.mine())
    expect(await world.deposit(other)).toMatchObject({status: 'final', events: 'pending confirmed'})
  })
}

function away(at: () => World): void {
  test('that was away follows a fork that it did not see, and blocks that are final by now', async () => {
    const world = at()
    const to = await world.newAddress()
    const stays = await world.pay({to, amount: 1000n})
    await world.mine()
    const leaves = await world.pay({to, amount: 2000n})
    const moves = await world.pay({to, amount: 4000n})
    await world.mine(2)
    await world.settled()
    await world.indexer.stop()
    await world.reorg(2, {1: [moves]})
    world.indexer.start()
    await world.settled()
    expect(await world.deposit(leaves)).toMatchObject({status: 'reorged', events: 'pending reorged'})
    await world.indexer.stop()
    await world.mine(120)
    world.indexer.start()
    await world.settled()
    for (const payment of [stays, moves])
      expect(await world.deposit(payment)).toMatchObject({status: 'final', events: 'pending confirmed'})
  })
}

/** It leaves incidents: no test follows on this chain. */
function halting(chain: ChainUnderTest, at: () => World): void {
  test('halts at a reorganisation below the final block and writes nothing, until an operator rewinds the chain', async () => {
    const world = at()
    const {db, indexer} = world
    const to = await world.newAddress()
    const stays = await world.pay({to, amount: 1000n})
    const {height} = await world.mine()
    const vanishes = await world.pay({to, amount: 2000n})
    await world.mine()
    const moves = await world.pay({to, amount: 4000n})
    await world.mine(finalDepth + 1)
    await world.settled()
    const before = await world.everything()
    await world.reorg(finalDepth + 2, {2: [moves]})
    await world.mine(2)
    const isHalted = async () => (await db.rows('select from chain.cursor where halted_at is not null')).length
    await until(isHalted, {timeoutMs: haltTimeoutMs, what: 'the chain to be halted'})
    const incidents = await db.rows('select kind, subject from app.incident')
    expect(incidents).toEqual([{kind: 'fork_below_final', subject: chain.code}])
    await world.mine()
    const saysSo = async () => indexer.said('is halted: incident')
    await until(saysSo, {timeoutMs: haltTimeoutMs, what: 'the indexer to say that it waits'})
    await world.chain.source.asked(2)
    expect(await world.everything()).toEqual(before)

    await db.rows('select app.request_rewind($1, $2)', [chain.code, height - 1])
    const head = await world.chain.head()
    await indexer.reaches(head)
    await indexer.finalises(head.height - finalDepth)
    // Final deposits stay final until an operator decides, on the chain or not.
    for (const payment of [stays, vanishes, moves])
      expect(await world.deposit(payment)).toMatchObject({status: 'final', events: 'pending confirmed'})
    const open = await db.rows(
      `select kind, txid from app.incident i join app.deposit d on d.id::text = i.subject where resolved_at is null
       order by kind, d.seq`,
    )
    expect(open).toEqual([
      {kind: 'final_deposit_moved', txid: moves.txid},
      {kind: 'final_deposit_vanished', txid: vanishes.txid},
    ])
    const takeBack = (kind: string) =>
      db.rows(`select app.resolve_incident(id, 'reorged') from app.incident where kind = $1 and resolved_at is null`, [
        kind,
      ])
    await expect(takeBack('final_deposit_moved')).rejects.toThrow('is on the chain')
    await takeBack('final_deposit_vanished')
    expect(await world.deposit(vanishes)).toMatchObject({status: 'reorged', events: 'pending confirmed reorged'})
    expect(await db.rows('select * from app.balance_audit')).toEqual([])
  })
}

/** Faults of the source, and many of everything, each on its own chain. */
function adversities(chain: ChainUnderTest): void {
  test('whose source lags, repeats itself, returns nothing, fails, hangs or is of another network writes nothing wrong, and catches up', async ({
    expect,
    ...context
  }) => {
    const world = await World.forTest(chain, context)
    const {indexer} = world
    const {source} = world.chain
    const [a, b] = [await world.newAddress(), await world.newAddress()]
    await world.mine(2)
    await source.behave('is of another network')
    indexer.start()
    await source.asked(4)
    expect(await world.db.rows('select from chain.cursor')).toEqual([])
    await source.behave()
    let sum = 0n
    for (const fault of faults) {
      const leaves = await world.pay({to: b, amount: 1000n})
      await world.mine()
      await world.settled()
      const before = await world.everything()
      const polls = fault === 'hangs' || fault === 'is of another network' ? 1 : 3
      await source.behave(fault)
      if (fault === 'is of another network') await indexer.restart() // a connected client need not ask again
      const moves = await world.pay({to: a, amount: 4000n}, {to: b, amount: 8000n})
      await world.mine()
      await source.asked(polls)
      await world.reorg(2, {1: [moves]})
      await source.asked(polls)
      await indexer.restart('SIGKILL')
      await source.asked(polls)
      if (['lags', 'hangs', 'is of another network'].includes(fault))
        expect(await world.everything(), fault).toEqual(before)
      await source.behave()
      await world.settled()
      expect(await world.deposit(leaves), fault).toMatchObject({status: 'reorged', events: 'pending reorged'})
      sum += 12_000n
    }
    await world.mine(finalDepth)
    await world.settled()
    expect(await world.balance()).toBe(sum)
  })

  test.for(seeds)(
    'stores exactly what the chain holds after a random walk (SEED=%i)',
    {timeout: 600_000},
    async (seed, context) => {
      const world = await World.forTest(chain, context)
      world.indexer.start()
      await walk(world, seed)
    },
  )
}
