// An upgrade while the service works: the database is taken from the schema of an older version to the newest one, a migration at a time,
// under an API that is asked, a worker that sends webhooks, and an indexer that writes blocks.
import {readdirSync} from 'node:fs'
import {expect, test} from 'vitest'
import {startWorker} from '../../jobs/worker.ts'
import {logger} from '../../service/log.ts'
import {readSettings} from '../../service/settings.ts'
import {Client, fillPool, makeKey, startApi} from '../support/api.ts'
import {assertBooks} from '../support/books.ts'
import {ChainWriter, hashOf} from '../support/chain-writer.ts'
import {databaseAt} from '../support/database.ts'
import {makeMerchant} from '../support/people.ts'
import {until} from '../support/until.ts'
import {startReceiver} from '../support/webhooks.ts'

const level = '018'
const later = readdirSync(new URL('../../db/migrations/', import.meta.url))
  .sort()
  .filter(name => name > `${level}~`)

/** Work that is done again and again; what it meets is kept. */
class Loop {
  rounds = 0
  readonly failures: string[] = []
  #isStopped = false
  readonly #running: Promise<void>

  constructor(what: string, work: (round: number) => Promise<unknown>) {
    this.#running = (async () => {
      while (!this.#isStopped) {
        await work(this.rounds).catch(error => this.failures.push(`${what}: ${error}`))
        this.rounds++
      }
    })()
  }

  goesOn(): Promise<unknown> {
    const from = this.rounds
    return until(async () => this.rounds > from + 1, {timeoutMs: 30_000, what: 'the service to go on'})
  }

  stop(): Promise<void> {
    this.#isStopped = true
    return this.#running
  }
}

test('migrations run while the service works: no request fails, no deposit and no webhook is lost or comes twice, and the books are right', {
  timeout: 180_000,
}, async () => {
  const db = await databaseAt(level)
  // The processes are those of this version, which start once all is migrated: the version before does not ask for these.
  await db.rows(`alter table app.deposit add column settled_before_restore boolean not null default false;
    alter table app.merchant add column suspended_at timestamptz;
    alter table app.api_key add column last_used_on date;
    create function app.payout_waiting(p app.payout) returns json language sql as 'select null::json';
    grant execute on function app.payout_waiting to sluice_api`)
  const receiver = await startReceiver()
  const merchant = await makeMerchant(db)
  await fillPool(db, 500)
  const eth = await ChainWriter.open(db, 'ETH')
  const api = await startApi(db)
  const client = new Client(api, (await makeKey(db, merchant)).secret)
  const ok = async (method: string, path: string, body?: unknown) => {
    const reply = await client.call(method, path, body)
    if (reply.status >= 300) throw new Error(`${method} ${path}: ${reply.status} ${JSON.stringify(reply.body)}`)
    return reply.body
  }
  const {id: endpoint} = await ok('POST', '/v1/webhook-endpoints', {url: receiver.url})
  const [address] = (await ok('POST', '/v1/users', {external_ref: 'first', chains: ['ETH']})).addresses
  await ok('PUT', '/v1/payout-address', {chain: 'ETH', address: '0x52908400098527886E0F7030069857D2E4169EE7'})
  const worker = await startWorker({
    databaseUrl: db.url('sluice_jobs'),
    settings: {...readSettings({}), webhookAllowPrivate: true},
    log: logger('jobs').child({}, {level: 'silent'}), // parts of it that need the newest schema may fail until it is there
    onLost: reason => {
      throw new Error(reason)
    },
  })

  const sent: string[] = []
  const loops = [
    new Loop('indexer', async round => {
      const txid = hashOf(`deposit ${round}`)
      await eth.write({add: [[{txid, amount: 5_000_000n, recipient: address.address}]]})
      sent.push(txid)
      if (round % 3 === 2) await eth.finalize(eth.head.height - 1)
    }),
    new Loop('users', async round => {
      const {id} = await ok('POST', '/v1/users', {external_ref: `user ${round % 400}`})
      await ok('GET', `/v1/users/${id}`)
    }),
    new Loop('reports', async () => {
      await ok('GET', '/v1/deposits?limit=5')
      await ok('GET', '/v1/balances')
      await ok('GET', '/v1/events?limit=5')
      await ok('GET', `/v1/webhook-endpoints/${endpoint}/deliveries?limit=5`)
    }),
    new Loop('payouts', async () => {
      const reply = await client.post('/v1/payouts', {chain: 'ETH', token: 'USDC'})
      if (reply.status === 422) return // nothing final is there to be paid
      if (reply.status !== 202) throw new Error(`${reply.status} ${JSON.stringify(reply.body)}`)
      await ok('POST', `/v1/payouts/${reply.body.id}/cancel`)
    }),
  ]
  try {
    await Promise.all(loops.map(loop => loop.goesOn()))
    for (const name of later) {
      expect(await db.migrateTo(name)).toEqual([name])
      await Promise.all(loops.map(loop => loop.goesOn()))
    }
    await Promise.all(loops.map(loop => loop.stop()))
    expect(loops.flatMap(loop => loop.failures)).toEqual([])

    await eth.finalize(eth.head.height)
    await until(async () => (await db.rows(`select from app.delivery where status = 'pending'`)).length === 0, {
      timeoutMs: 30_000,
      what: 'every webhook to be delivered',
    })
    const [counts] = await db.rows(`select
      (select count(*)::int from app.deposit where status = 'final' and credited) as deposits,
      (select count(*)::int from app.event) as events, (select count(*)::int from app.delivery where status = 'delivered' and attempts = 1) as deliveries`)
    expect(counts).toMatchObject({deposits: sent.length})
    const ids = receiver.received.map(({event}) => event.id)
    expect(new Set(ids).size).toBe(ids.length)
    const told = (type: string) =>
      new Set(receiver.received.filter(({event}) => event.type === type).map(({event}) => event.txid))
    for (const type of ['deposit.pending', 'deposit.confirmed']) expect(told(type)).toEqual(new Set(sent))
    expect(ids).toHaveLength(counts!.events)
    expect(ids).toHaveLength(counts!.deliveries)
    await assertBooks(db)
    const audits = await db.rows<{name: string}>(
      `select 'audit.' || quote_ident(viewname) as name from pg_views where schemaname = 'audit' order by 1`,
    )
    expect(audits.length).toBeGreaterThan(5)
    for (const {name} of audits) expect([name, await db.rows(`select * from ${name}`)]).toEqual([name, []])
  } finally {
    await Promise.all(loops.map(loop => loop.stop()))
    await worker.stop()
    await api.close()
    await eth.close()
    await receiver.close()
    await db.drop()
  }
})
