// The API reads from a streaming replica that pauses, stops and comes back, on real servers. While the replica is
// paused, rows that the test writes directly are on the primary only. So each read shows which server it came from.
import {randomBytes} from 'node:crypto'
import pg from 'pg'
import {afterAll, beforeAll, beforeEach, expect, test} from 'vitest'
import {Database, statement} from '../../api/database.ts'
import {inWords} from '../../db/client/failure.ts'
import {type Api, Client, fillPool, makeKey, startApi} from '../support/api.ts'
import {makeMerchant} from '../support/people.ts'
import {until} from '../support/until.ts'
import {ReplicatedDatabase} from './standby.ts'

const timeoutMs = 60_000
let db: ReplicatedDatabase
let api: Api

beforeAll(async () => {
  db = await ReplicatedDatabase.open()
  await fillPool(db, 500)
  api = await startApi(db, {replicaUrl: db.replicaUrl('sluice_api')})
})

afterAll(async () => {
  await api.close()
  await db.close()
})

beforeEach(async () => {
  await db.standby.query('select pg_wal_replay_resume()')
  await until(async () => (await replicaOf(api)).serving, {timeoutMs, what: 'the replica to serve'})
})

async function replicaOf(of: Api): Promise<{serving: boolean; lag_seconds: number}> {
  return (await new Client(of).get('/readyz')).body.replica
}

/** What the primary reports about its only replica. */
async function ofReplica(what: 'connected' | 'behind_bytes'): Promise<number> {
  const rows = await db.rows<{value: number}>(`select value from app.metrics() where metric = $1`, [
    `sluice_replica_${what}`,
  ])
  expect(rows).toHaveLength(1)
  return rows[0]!.value
}

/** The replica shows nothing new from here on. */
async function standStill(): Promise<void> {
  await db.standby.query('select pg_wal_replay_pause()')
  const isPaused = `select from pg_get_wal_replay_pause_state() state where state = 'paused'`
  await until(async () => (await db.standby.query(isPaused)).rowCount, {timeoutMs, what: 'the replica to stand still'})
}

class Merchant {
  readonly id: string
  readonly client: Client

  private constructor(id: string, client: Client) {
    this.id = id
    this.client = client
  }

  /** A user that is on the replica. */
  static async open(of = api): Promise<Merchant> {
    const id = await makeMerchant(db, ['ETH'])
    const merchant = new Merchant(id, new Client(of, (await makeKey(db, id)).secret))
    const isKnown = async () => (await db.standby.query('select from app.merchant where id = $1', [id])).rowCount
    await until(isKnown, {timeoutMs, what: 'the replica to know the merchant'})
    return merchant
  }

  /** Makes a user with the API; returns its reference. */
  async create(): Promise<string> {
    const external_ref = randomBytes(4).toString('hex')
    expect((await this.client.post('/v1/users', {external_ref})).status).toBe(201)
    return external_ref
  }

  /** Makes a user on the primary, beside the API. */
  async createBeside(): Promise<{id: string; ref: string}> {
    const sql = `insert into app.user (merchant_id, external_ref) values ($1, $2) returning app.public_id('usr', id) as id, external_ref as ref`
    return (await db.rows<{id: string; ref: string}>(sql, [this.id, randomBytes(4).toString('hex')]))[0]!
  }

  async users(): Promise<string[]> {
    const {body} = await this.client.get('/v1/users?limit=100')
    return body.users.map(({external_ref}: {external_ref: string}) => external_ref)
  }
}

test('the API reads nothing from a standby to which DATABASE_URL leads', async () => {
  const database = new Database(db.replicaUrl('sluice_api'), {max: 1})
  const read = database.read(statement('count', 'select count(*)::int from app.user'), [])
  const refusal = await read.then(String, inWords)
  expect(refusal).toMatch(/^the database accepts no writes: in_hot_standby is on/)
  await database.close()
})

test('a client that changes something reads it at once, every time', async () => {
  const merchant = await Merchant.open()
  for (let made: string[] = []; made.length < 30; ) {
    made = [await merchant.create(), ...made]
    expect(await merchant.users()).toEqual(made)
  }
})

test('while the replica stands still, a client reads its own changes, and other reads are as old as the replica', async () => {
  const [merchant, other] = [await Merchant.open(), await Merchant.open()]
  await standStill()
  await merchant.createBeside()
  await other.createBeside()
  expect([await merchant.users(), await other.users()]).toEqual([[], []])
  const own = await merchant.create()
  expect(await merchant.users()).toContain(own)
  expect(await merchant.users()).toHaveLength(2)
  expect(await other.users()).toEqual([])
})

test('a row that the replica lacks is read from the primary, and no later read is older', async () => {
  const merchant = await Merchant.open()
  await standStill()
  const told = await merchant.createBeside() // the client may have its id from a webhook
  expect(await merchant.users()).toEqual([])
  expect((await merchant.client.get(`/v1/users/${told.id}`)).body.external_ref).toBe(told.ref)
  expect(await merchant.users()).toEqual([told.ref])
})

test('a deposit and a payout that the replica lacks are read from the primary', async () => {
  const [ofDeposit, ofPayout] = [await Merchant.open(), await Merchant.open()] // a merchant who was answered by the primary is held there
  await ofDeposit.create()
  await standStill()
  const [deposit] = await db.rows<{id: string}>(
    `insert into app.deposit (id, merchant_id, user_id, chain, token, amount, sender, address, txid, output_index, status, credited, version)
     select gen_random_uuid(), merchant_id, id, 'ETH', 'USDC', 1, '0xS', '0xA', '0xT' || id, 0, 'final', true, 1 from app.user where merchant_id = $1
     returning app.public_id('dep', id) as id`,
    [ofDeposit.id],
  )
  const [payout] = await db.rows<{id: string}>(
    `insert into app.payout (merchant_id, chain, token, gross, fee_bps, fee, net, address, sweep_first, status, txid, finished_at)
     values ($1, 'ETH', 'USDC', 2, 100, 0, 2, '0xX', false, 'completed', '0xX', now()) returning app.public_id('pay', id) as id`,
    [ofPayout.id],
  )
  expect((await ofDeposit.client.get(`/v1/deposits/${deposit!.id}`)).status).toBe(200)
  expect((await ofPayout.client.get(`/v1/payouts/${payout!.id}`)).status).toBe(200)
})

test('once the replica has caught up, it serves the waiting clients again', async () => {
  const merchant = await Merchant.open()
  await standStill()
  await merchant.create()
  await db.standby.query('select pg_wal_replay_resume()')
  const isOnReplica = async () => {
    await standStill()
    const {ref} = await merchant.createBeside()
    const isSeen = (await merchant.users()).includes(ref)
    await db.standby.query('select pg_wal_replay_resume()')
    return !isSeen
  }
  await until(isOnReplica, {timeoutMs, intervalMs: 300, what: 'reads to come from the replica'})
})

test('a replica that is more than ten seconds behind serves nothing until it catches up', async () => {
  const merchant = await Merchant.open()
  await standStill()
  const {ref} = await merchant.createBeside()
  await until(async () => !(await replicaOf(api)).serving, {timeoutMs, what: 'the replica to be too old'})
  expect((await replicaOf(api)).lag_seconds).toBeGreaterThan(10)
  expect(await merchant.users()).toEqual([ref])
})

test('while the replica is down the primary serves, and the replica serves again once it is back', async () => {
  const merchant = await Merchant.open()
  expect(await ofReplica('connected')).toBe(1)
  const behind = await ofReplica('behind_bytes')
  await db.stopReplica()
  const {ref} = await merchant.createBeside()
  expect(await merchant.users()).toEqual([ref])
  const ready = await new Client(api).get('/readyz')
  expect(ready.body).toMatchObject({database: true, replica: {serving: false}})
  const own = await merchant.create()
  expect(await merchant.users()).toEqual([own, ref])
  await until(async () => (await ofReplica('connected')) === 0, {timeoutMs, what: 'the primary to miss the replica'})
  expect(await ofReplica('behind_bytes')).toBeGreaterThan(behind)
  await db.startReplica()
  await until(async () => (await replicaOf(api)).serving, {timeoutMs, what: 'the replica to serve again'})
  await until(async () => (await ofReplica('connected')) === 1, {timeoutMs, what: 'the replica to be connected again'})
})

test('a server that is not a replica of the primary serves nothing', async () => {
  const mistaken = await startApi(db, {replicaUrl: db.url('sluice_api')})
  try {
    const merchant = await Merchant.open(mistaken)
    const own = await merchant.create()
    expect(await merchant.users()).toEqual([own])
    expect((await replicaOf(mistaken)).serving).toBe(false)
  } finally {
    await mistaken.close()
  }
})

test('an analyst reads the same on the replica as on the primary, and cannot NOTIFY', async () => {
  const analyst = new pg.Client({connectionString: db.replicaUrl('sluice_analyst')})
  await analyst.connect()
  await analyst.query('select * from analytics.deposits')
  for (const lifted of ['select', 'set default_transaction_read_only = off']) {
    await analyst.query(lifted)
    await expect(analyst.query(`notify "worker:migrate", '{"breaking": true}'`)).rejects.toMatchObject({code: '25006'})
  }
  await analyst.end()
})
