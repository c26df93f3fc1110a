// An upgrade while the service works: a database restored from a dump of the baseline is migrated to this version and
// then to a made-up next version, while an API gets requests, a worker sends webhooks, an analyst reads and an indexer
// writes blocks.
import {mkdirSync, readFileSync, rmSync, writeFileSync} from 'node:fs'
import pg from 'pg'
import {expect, test} from 'vitest'
import {logger} from '../../base/log.ts'
import {readSettings} from '../../chains/settings.ts'
import {migrate} from '../../db/migrate/migrate.ts'
import {startWorker} from '../../jobs/worker.ts'
import {Client, fillPool, makeKey, startApi} from '../support/api.ts'
import {restoreBaseline} from '../support/baseline.ts'
import {assertBooks} from '../support/books.ts'
import {ChainWriter, hashOf} from '../support/chain-writer.ts'
import {emptyDatabase} from '../support/database.ts'
import {endsOf} from '../support/ends.ts'
import {makeMerchant} from '../support/people.ts'
import {copySchema} from '../support/schema-folder.ts'
import {until} from '../support/until.ts'
import {startReceiver} from '../support/webhooks.ts'

/**
 * The next version, as a folder like db/, with one change of every kind that the previous version must not notice. Its
 * processes would call app.set_destination in place of app.set_payout_address, which still exists for those of this
 * version.
 */
function makeNextVersion(): URL {
  const folder = copySchema()
  const edit = (file: string, change: (sql: string) => string) => {
    const sql = readFileSync(new URL(file, folder), 'utf8')
    const changed = change(sql)
    expect(changed, `nothing to change in ${file}`).not.toBe(sql)
    writeFileSync(new URL(file, folder), changed)
  }
  writeFileSync(
    new URL('tables/900_destinations.sql', folder),
    `drop index concurrently if exists app.deposit_next_sender;

create index concurrently deposit_next_sender on app.deposit (sender);

-- Transaction
create table app.destination (merchant_id uuid references app.merchant, address text);
alter table app.payout_address add column label text;
alter table app.deposit add constraint has_sender check (sender is not null) not valid;`,
  )
  edit('functions/merchants/payout_address.sql', sql => sql.replaceAll('app.set_payout_address', 'app.set_destination'))
  // Comments do not count as a change; a statement does.
  edit('functions/chains/derive.sql', sql => `${sql}select 'its constraint trigger is made anew';\n`)
  edit('functions/deposits/derive.sql', sql => sql.replaceAll('declare', 'declare next_version boolean := true;'))
  edit('views/api/balance_now.sql', sql => `${sql}select 'replaced as it is';\n`)
  edit('views/analytics/deposits.sql', sql => sql.replace('select\n', 'select 1 as next_version,\n'))
  edit(
    'views/analytics/customer_cohorts.sql',
    sql => `${sql}select 'made anew, as a materialised view cannot be replaced';\n`,
  )
  mkdirSync(new URL('functions/destinations/', folder))
  writeFileSync(
    new URL('functions/destinations/count.sql', folder),
    'create or replace function app.count_destinations() returns bigint return (select count(*) from app.destination);',
  )
  return folder
}

/** Work that runs again and again; its errors are stored. */
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
    return until(async () => this.rounds > from + 1, {timeoutMs: 30_000, what: 'the service to continue'})
  }

  stop(): Promise<void> {
    this.#isStopped = true
    return this.#running
  }
}

test('upgrading the database while the service works fails no request, loses or repeats no deposit or webhook, and keeps the books right', {
  timeout: 180_000,
}, async () => {
  const db = await emptyDatabase()
  await restoreBaseline(db.ownerUrl)
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
  await migrate(db.ownerUrl) // everything is applied; this gives the roles of this server their passwords
  const log = logger('jobs').child({}, {level: 'silent'}) // tasks that need the newest schema may fail until it is there
  const worker = await startWorker({
    databaseUrl: db.url('sluice_jobs'),
    settings: {...readSettings({}), webhookAllowPrivate: true},
    log,
    ends: endsOf(log),
  })

  const analyst = new pg.Client({connectionString: db.url('sluice_analyst')})
  await analyst.connect()
  const next = makeNextVersion()
  const sent: string[] = []
  const loops = [
    new Loop('indexer', async round => {
      const txid = hashOf(`deposit ${round}`)
      await eth.write({add: [[{txid, amount: 5_000_000n, recipient: address.address}]]})
      sent.push(txid)
      if (round % 3 === 2) await eth.finalise(eth.head.height - 1)
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
    new Loop('analyst', async () => {
      for (const view of ['deposits', 'balances', 'payouts'])
        await analyst.query(`select * from analytics.${view} limit 10`)
    }),
    new Loop('payout address', async () => {
      await ok('PUT', '/v1/payout-address', {chain: 'ETH', address: '0x52908400098527886E0F7030069857D2E4169EE7'})
    }),
    new Loop('payouts', async () => {
      const reply = await client.post('/v1/payouts', {chain: 'ETH', token: 'USDC'})
      if (reply.status === 422) return // no final balance to pay out
      if (reply.status !== 202) throw new Error(`${reply.status} ${JSON.stringify(reply.body)}`)
      await ok('POST', `/v1/payouts/${reply.body.id}/cancel`)
    }),
  ]
  try {
    await Promise.all(loops.map(loop => loop.goesOn()))
    const {applied} = await migrate(db.ownerUrl, next)
    expect(applied).toEqual(
      expect.arrayContaining([
        'tables/900_destinations.sql',
        'functions/merchants/payout_address.sql',
        'functions/destinations/count.sql',
        'functions/chains/derive.sql',
        'views/api/balance_now.sql',
        'views/analytics/deposits.sql',
        'views/analytics/customer_cohorts.sql',
      ]),
    )
    await Promise.all(loops.map(loop => loop.goesOn()))
    await Promise.all(loops.map(loop => loop.stop()))
    expect(loops.flatMap(loop => loop.failures)).toEqual([])

    await eth.finalise(eth.head.height)
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
    await analyst.end()
    await db.drop()
    rmSync(next, {recursive: true})
  }
})
