// Sweeps of USDT on Tron with energy that the treasury lends, by real processes, on contracts that run: nothing burns,
// and whatever happens, what was lent is taken back. After each test the books are right, and say what the chain says.
import type {ChildProcess} from 'node:child_process'
import pg from 'pg'
import {afterAll, afterEach, beforeAll, expect, test} from 'vitest'
import {settingsFrom} from '../../chains/settings.ts'
import {tronSettings} from '../../chains/tron/settings.ts'
import {tron} from '../../jobs/audit/tron/balances.ts'
import {beginStaking} from '../../jobs/payouts/tron/family.ts'
import {assertBooks} from '../support/books.ts'
import {TronWorld, trx, unit} from '../support/tron/world.ts'
import {until} from '../support/until.ts'
import type {Shop} from '../support/world.ts'

let world: TronWorld
let worker: ChildProcess

beforeAll(async () => {
  world = await TronWorld.open({treasury: 200_000n * trx, settings: {TRON_MAX_LAPSES: '10'}})
  worker = await world.startWorker()
  await staked('stake', 20_000n * trx)
})
afterAll(async () => {
  await world?.close()
})
afterEach(async () => {
  world.isHeld = false
  await untilReturned()
  await assertBooks(world.db)
})

const settings = () => tronSettings(settingsFrom('TRON', world.environment))
const openShop = (amounts: bigint[]) => world.openShop(amounts, {token: 'USDT'})
const energyOf = (address: string) => world.tron.journal.account(address, world.tron.head.height)!.energy

/** As an operator does; resolves once it is final. */
async function staked(kind: 'stake' | 'unstake', amount: bigint): Promise<void> {
  const client = new pg.Client({connectionString: world.db.ownerUrl})
  await client.connect()
  const id = await beginStaking(client, settings(), {kind, resource: 'energy', amount}).finally(() => client.end())
  await until(
    async () =>
      (await world.db.rows(`select from app.outgoing_payment where id = $1 and outcome = 'done'`, [id])).length,
    {
      timeoutMs: 30_000,
      what: `the ${kind} to be final`,
    },
  )
}

/** Until nothing is lent, for the ledger and for the chain. */
async function untilReturned(): Promise<void> {
  const open = async () =>
    await world.db.rows(
      `select address, amount, return_at, null as reason from app.delegation
       union all select recipient, amount, created_at, coalesce(waiting_reason || ': ' || waiting_detail, status) from app.outgoing_payment
       where kind in ('delegate', 'undelegate') and status <> 'final'`,
    )
  try {
    await until(async () => (await open()).length === 0, {timeoutMs: 60_000, what: 'all to be taken back'})
  } catch (error) {
    throw new Error(`${(error as Error).message}: ${JSON.stringify(await open())}`)
  }
  expect([...energyOf(world.treasury).lent]).toEqual([])
}

interface Done {
  kind: string
  outcome: string | null
  fee: string | null
}

/** What the service did for an address, in order. */
async function doneFor(address: string): Promise<Done[]> {
  return await world.db.rows<Done>(
    `select kind, outcome, fee_paid::text as fee from app.outgoing_payment
     where recipient = $1 and kind in ('fund', 'delegate', 'undelegate') or source = $1 and kind = 'sweep' order by created_at`,
    [address],
  )
}

/**
 * The audit compares all addresses of a shop, and the treasury with its stake, at a solidified block: no other comes
 * meanwhile, because blocks are faster here than on any network.
 */
async function agreesWithTheChain({addresses}: Pick<Shop, 'addresses'>): Promise<void> {
  world.isMining = false
  const query = (sql: string, values: unknown[]) => world.db.rows(sql, values).then(rows => ({rows}))
  const asked = tron.ask({query} as never, settings())
  expect(await asked.poll([...addresses, world.treasury])).toMatchObject({differences: [], unread: []})
  await asked.close()
  world.isMining = true
}

test('an address is lent energy, sweeps without burning any, and gives it back', async () => {
  const shop = await openShop([600n * unit, 400n * unit])
  await world.becomes(await world.request(shop, 'USDT', true), 'completed', 90_000)
  await untilReturned()
  for (const address of shop.addresses) {
    const done = await doneFor(address)
    expect(done.map(({kind, outcome}) => `${kind} ${outcome}`)).toEqual([
      'fund done',
      'delegate done',
      'sweep done',
      'undelegate done',
    ])
    expect(done[2]!.fee).toBe('0')
  }
  await agreesWithTheChain(shop)
})

/** How the outgoing payments of an address ended: of one that is tried again, each time. */
const ends = async (address: string) => (await doneFor(address)).map(({kind, outcome}) => `${kind} ${outcome}`)

test('only the operator’s own money is staked, and only what is staked and not lent is unstaked', async () => {
  const stake = (kind: 'stake' | 'unstake', amount: bigint) => staked(kind, amount)
  await expect(stake('stake', 999_999n)).rejects.toThrow('the network takes no less than 1 TRX')
  await expect(stake('stake', 200_000n * trx)).rejects.toThrow(/own money is not enough: TRX short by/)
  await expect(stake('unstake', 20_000n * trx + 1n)).rejects.toThrow('of what is staked for energy, 20000 TRX can be')
  world.lie('/getchainparameters', () => ({chainParameter: [{key: 'getUnfreezeDelayDays', value: 3}]}))
  await expect(stake('stake', trx)).rejects.toThrow('for 3 days, and Sluice counts on 14')
  world.node.behave = undefined
  expect(
    await world.db.rows(`select from app.outgoing_payment where kind in ('stake', 'unstake') and status <> 'final'`),
  ).toEqual([])
})

test('addresses share what is free of the stake, and where it is short, burning fills in', {
  timeout: 120_000,
}, async () => {
  const shop = await openShop(Array.from({length: 22}, () => 50n * unit)) // more than are asked about at once
  await world.pay([shop.addresses[0]!], [5n * trx])
  await world.becomes(await world.request(shop, 'USDT', true), 'completed', 100_000)
  await untilReturned()
  const sweeps = (await Promise.all(shop.addresses.map(doneFor))).map(done => {
    const isLent = done.some(({kind}) => kind === 'delegate')
    return {isLent, fee: BigInt(done.find(({kind}) => kind === 'sweep')!.fee!)}
  })
  const [lent, burnt] = [sweeps.filter(({isLent}) => isLent), sweeps.filter(({isLent}) => !isLent)]
  expect([lent.length > 0, burnt.length > 0]).toEqual([true, true])
  expect(lent.map(({fee}) => fee)).toEqual(lent.map(() => 0n))
  expect(burnt.filter(({fee}) => fee < trx)).toEqual([])
  await agreesWithTheChain({addresses: shop.addresses.slice(0, 3)}) // the coins of its merchant are where they were
})

test('where no sweep may burn, those that were lent energy go, and the others wait until there is more of it', {
  timeout: 150_000,
}, async () => {
  await world.kill(worker)
  worker = await world.startWorker({settings: {TRON_SWEEP_ENERGY: 'delegated'}})
  await staked('stake', 2500n * trx) // enough for one more, not for three
  const shop = await openShop([50n * unit, 60n * unit, 70n * unit])
  const id = await world.request(shop, 'USDT', true)
  const {waiting_detail} = await world.becomes(id, 'energy_short', 60_000)
  expect(waiting_detail).toContain('TRON_SWEEP_ENERGY is delegated, so no sweep burns energy: it needs')
  await staked('stake', 9000n * trx)
  await world.becomes(id, 'completed', 90_000)
  for (const address of shop.addresses)
    expect((await doneFor(address)).find(({kind, outcome}) => kind === 'sweep' && outcome === 'done')?.fee).toBe('0')
  await world.kill(worker)
  worker = await world.startWorker()
})

test('a delegate, and an undelegate, that no block takes in time is signed again once it can never be mined', {
  timeout: 150_000,
}, async () => {
  const shop = await openShop([60n * unit])
  const [address] = shop.addresses as [string]
  const id = await world.request(shop, 'USDT', true)
  await expires('delegate', address)
  await world.becomes(id, 'completed', 90_000)
  await expires('undelegate', address)
  await untilReturned()
  expect(await ends(address)).toEqual(['fund done', 'delegate done', 'sweep done', 'undelegate done'])
})

/** Blocks come without what waits, until the first attempt of this kind has expired and another one is signed. */
async function expires(kind: string, address: string): Promise<void> {
  const id = await until(
    async () => {
      const [row] = await world.db.rows<{id: string}>(
        'select id from app.outgoing_payment where kind = $1 and recipient = $2',
        [kind, address],
      )
      world.isHeld = row !== undefined
      return row?.id
    },
    {timeoutMs: 60_000, intervalMs: 5, what: `a ${kind}`},
  )
  const [dead, second] = await world.signed(id, 2)
  expect([dead!.fate, dead!.lapsed, second!.txid === dead!.txid]).toEqual(['dead', true, false])
  world.isHeld = false
}

test('what was lent to an address that its token then blocks is taken back', {timeout: 120_000}, async () => {
  await staked('stake', 6000n * trx) // what was used before is not back yet
  const shop = await openShop([70n * unit])
  const [address] = shop.addresses as [string]
  const id = await world.request(shop, 'USDT', true)
  await until(async () => (await ends(address)).includes('delegate null'), {timeoutMs: 40_000, what: 'the delegate'})
  await world.issue('addBlackList', [address])
  await untilReturned()
  expect((await ends(address)).at(-1)).toBe('undelegate done')
  expect((await ends(address)).includes('sweep done')).toBe(false)
  expect((await world.becomes(id, 'failed')).error_code).toBe('deposits_blocked')
  await world.issue('removeBlackList', [address])
})

test('workers, and custodies, that are killed at each step lend once, and take back once', {
  timeout: 300_000,
}, async () => {
  await staked('stake', 6000n * trx) // what was used before is not back yet
  await world.kill(worker)
  const shop = await openShop([80n * unit])
  const [address] = shop.addresses as [string]
  const id = await world.request(shop, 'USDT', true)
  const isOver = async () => (await ends(address)).at(-1) === 'undelegate done'
  let kills = 0
  const dies = async (process: ChildProcess, crashAt: string) => {
    const isDead = () => process.signalCode !== null || process.exitCode !== null
    await until(async () => isDead() || (await isOver()), {timeoutMs: 40_000, what: `a process to die at ${crashAt}`})
    if (isDead()) kills++
  }
  const ofWorker = async (crashAt: string) => {
    const dying = await world.startWorker({crashAt})
    await dies(dying, crashAt)
    await world.kill(dying)
  }
  const ofCustody = async (crashAt: string) => {
    await world.killCustody()
    const dying = await world.startCustody({crashAt})
    const asks = await world.startWorker()
    await dies(dying, crashAt)
    await world.kill(asks)
    await world.killCustody()
    await world.startCustody()
  }
  const after = async (done: string) => {
    const healthy = await world.startWorker()
    await until(async () => (await ends(address)).includes(done), {timeoutMs: 60_000, what: done})
    await world.kill(healthy)
  }
  await after('fund done')
  await ofWorker('send: after sign')
  await ofCustody('custody: after database')
  await ofWorker('send: after store')
  await after('delegate done')
  await ofWorker('send: before sign')
  await ofCustody('custody: after file')
  await ofWorker('send: after broadcast')
  await after('sweep done')
  await ofCustody('custody: before journal')
  await ofWorker('send: before broadcast')
  await ofCustody('custody: before answer')
  worker = await world.startWorker()
  await world.becomes(id, 'completed', 90_000)
  await untilReturned()
  expect(await ends(address)).toEqual(['fund done', 'delegate done', 'sweep done', 'undelegate done'])
  expect(kills).toBeGreaterThanOrEqual(6) // some came too late
  await agreesWithTheChain(shop)
})
