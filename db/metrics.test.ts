// The result of app.metrics, with the role of the API.
import pg from 'pg'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {ChainWriter} from '../test/support/chain-writer.ts'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'
import {makeTreasury, topUp} from '../test/support/evm/payouts.ts'
import {PaymentRequests} from '../test/support/payment-requests.ts'
import {makeMerchant, makeUser} from '../test/support/people.ts'

let db: TestDatabase
let api: pg.Client

beforeAll(async () => {
  db = await testDatabase()
  api = new pg.Client({connectionString: db.url('sluice_api')})
  await api.connect()
})
afterAll(async () => {
  await api.end()
  await db.drop()
})

async function metrics(): Promise<Map<string, number>> {
  const {rows} = await api.query<{metric: string; labels: object; value: number}>('select * from app.metrics()')
  const entries = rows.map(
    ({metric, labels, value}) => [[metric, ...Object.values(labels)].join(' '), Number(value)] as const,
  )
  expect(new Map(entries).size).toBe(rows.length)
  return new Map(entries)
}

test('an unused database has no audit, no reorganisation, no ages of these, and no work', async () => {
  const seen = await metrics()
  for (const name of ['sluice_audit_age_seconds', 'sluice_audit_incomplete', 'sluice_treasury_gas_left_seconds ETH'])
    expect(seen.has(name), name).toBe(false)
  for (const name of [
    'incidents_open none',
    'webhook_deliveries_failed',
    'address_pool_free evm',
    'events_unsequenced',
  ])
    expect(seen.get(`sluice_${name}`), name).toBe(0)
})

test('a chain that was never followed has a head as old as its first indexer, and the reason why it waits', async () => {
  const indexer = new pg.Client({connectionString: db.url('sluice_indexer')})
  await indexer.connect()
  await indexer.query(`select chain.configure('POLYGON')`)
  await db.rows(`update chain.configured set configured_at = now() - interval '10 minutes'`)
  await indexer.query(`select chain.configure('POLYGON')`) // the process died, and starts again
  for (const name of ['head_age', 'head_moved_age', 'final_moved_age'])
    expect((await metrics()).get(`sluice_chain_${name}_seconds POLYGON`), name).toBeCloseTo(600, -1)
  expect((await metrics()).has('sluice_chain_head_height POLYGON')).toBe(false)

  const waits = async () => [...(await metrics())].filter(([name]) => name.startsWith('sluice_chain_waiting_seconds'))
  expect(await waits()).toEqual([])
  await indexer.query(`select chain.tell_waiting('POLYGON', 'node_unavailable', 'it hangs', null)`)
  await db.rows(`update chain.configured set waiting_since = now() - interval '5 minutes'`)
  await indexer.query(`select chain.tell_waiting('POLYGON', 'wrong_network', 'it is on another', null)`) // it waits on
  expect(await waits()).toEqual([['sluice_chain_waiting_seconds POLYGON wrong_network', expect.closeTo(300, -1)]])
  await indexer.query(`select chain.tell_waiting('POLYGON', null, null, null)`)
  expect(await waits()).toEqual([])
  await indexer.end()
})

test('a reorganisation is counted with depth and age; unattributed deposits are counted until an operator decides', async () => {
  const user = await makeUser(db, await makeMerchant(db, []), [])
  const eth = await ChainWriter.open(db, 'ETH')
  const stray = {txid: '0xA', amount: 5n, recipient: user.address}
  await eth.write({add: [[], [stray], []]})
  expect((await metrics()).get('sluice_unattributed_deposits ETH')).toBe(0) // it is not final
  await eth.write({drop: 2, add: [[stray], [], []]})
  await eth.finalise(eth.head.height)
  await topUp(eth, await makeTreasury(db), 'ETH', 7n) // belongs to the operator
  await eth.close()
  const seen = await metrics()
  expect(seen.get('sluice_chain_last_reorg_depth_blocks ETH')).toBe(2)
  for (const name of ['last_reorg', 'head_moved', 'final_moved'])
    expect(seen.get(`sluice_chain_${name}_age_seconds ETH`), name).toBeLessThan(60)
  expect(seen.get('sluice_unattributed_deposits ETH')).toBe(1)
  await db.rows(
    `insert into app.unattributed_decision (deposit_id, decision, amount, destination) select id, 'return', 5, '0xB' from app.deposit where txid = '0xA'`,
  )
  expect((await metrics()).get('sluice_unattributed_deposits ETH')).toBe(0)
})

test('payment requests that wait for money are counted by status', async () => {
  const own = await testDatabase()
  const eth = await ChainWriter.open(own, 'ETH')
  const requests = await PaymentRequests.open(own)
  const merchant = await makeMerchant(own)
  const ask = () => requests.create(own.pool, merchant, {})
  const [paid, seen, over] = [await ask(), await ask(), await ask(), await ask()]
  await eth.write({add: [[{txid: '0x1', amount: 100n, recipient: paid.address}]]})
  await eth.finalise(1)
  await eth.write({add: [[{txid: '0x2', amount: 100n, recipient: seen.address}]]})
  await requests.expire([over.id])
  const rows = await own.rows(
    `select labels ->> 'status' as status, value from app.metrics() where metric = 'sluice_payment_requests_open' and labels ->> 'chain' = 'ETH' order by 1`,
  )
  expect(rows).toEqual([
    {status: 'awaiting', value: 1},
    {status: 'detected', value: 1},
  ])
  await eth.close()
  await own.drop()
})

test('findings are those of the last finished audit; an incident without a chain is counted separately', async () => {
  await db.rows(`
    with run as (
      insert into app.audit_run (started_at, finished_at, error) values
        (now() - interval '2 days', now() - interval '2 days', null), (now() - interval '1 hour', now() - interval '1 hour', 'no node of ETH'), (now(), null, null)
      returning id, finished_at
    )
    insert into app.audit_finding (run_id, name, claim, count)
    select id, 'balances', 'they add up', case when finished_at > now() - interval '1 day' then 3 else 0 end from run`)
  await db.rows(
    `insert into app.incident (chain, kind, subject, details) values (null, 'audit', 'audit:balances', '{}')`,
  )
  const seen = await metrics()
  expect(seen.get('sluice_audit_age_seconds')).toBeCloseTo(3600, -2)
  expect(seen.get('sluice_audit_incomplete')).toBe(1)
  expect(seen.get('sluice_audit_findings balances')).toBe(3)
  expect([seen.get('sluice_incidents_open none'), seen.get('sluice_incidents_open ETH')]).toEqual([1, 0])
})

test('disabled endpoints are counted by reason, jobs by task, addresses by family', async () => {
  const merchantId = await makeMerchant(db)
  await db.rows(
    `insert into app.webhook_endpoint (merchant_id, url, secret, event_types, disabled_at, disabled_reason)
     values ($1, 'https://a.example', 's', '{}', now(), 'gone'), ($1, 'https://b.example', 's', '{}', null, null)`,
    [merchantId],
  )
  await db.rows(`select app.enqueue('allocate_deposits')`)
  await db.rows(`insert into custody.address (address, family, derivation_index) values ('bcrt1qx', 'bitcoin', 0)`)
  const seen = await metrics()
  expect(seen.get('sluice_webhook_endpoints_disabled gone')).toBe(1)
  expect(seen.get('sluice_webhook_endpoints_disabled failing')).toBe(0)
  expect(seen.get('sluice_oldest_due_job_age_seconds allocate_deposits')).toBeGreaterThan(0)
  expect([seen.get('sluice_address_pool_free bitcoin'), seen.get('sluice_address_pool_free evm')]).toEqual([1, 0])
})

test('waiting payouts are counted by reason with the longest wait; others are not', async () => {
  const own = await testDatabase()
  await own.rows(`
    begin; set local session_replication_role = replica;
    insert into app.payout (merchant_id, chain, token, status, gross, fee_bps, fee, net, address, sweep_first, waiting_reason, waiting_since)
      select uuidv7(), 'ETH', 'ETH', status, 1, 0, 0, 1, '0x1', false, reason, now() - minutes * interval '1 minute'
      from (values ('pending', 'not_whitelisted', 120), ('swept', 'daily_limit', 60), ('swept', 'daily_limit', 5), ('paying', null, null)) p (status, reason, minutes);
    insert into app.outgoing_payment (kind, chain, token, amount, source, recipient, fee_payer, nonce, max_fee, waiting_reason, waiting_since)
      select 'sweep', 'ETH', 'ETH', 1, '0x1', '0x2', '0x1', nonce, 1, reason, now() - minutes * interval '1 minute'
      from (values (1, 'daily_limit', 90), (2, 'node_unreachable', 30)) s (nonce, reason, minutes);
    commit`)
  const rows = await own.rows<{labels: object; value: number}>(
    `select labels, round(value) as value from app.metrics() where metric = 'sluice_payout_oldest_wait_seconds' order by value`,
  )
  expect(rows).toEqual([
    {labels: {chain: 'ETH', reason: 'node_unreachable'}, value: expect.closeTo(1800, -2)},
    {labels: {chain: 'ETH', reason: 'daily_limit'}, value: expect.closeTo(5400, -2)},
    {labels: {chain: 'ETH', reason: 'not_whitelisted'}, value: expect.closeTo(7200, -2)},
  ])
  await own.drop()
})

test('the age of the oldest event without a number is measured; with none it is 0', async () => {
  const own = await testDatabase()
  const read = async () => {
    const [row] = await own.rows<{value: number}>(
      `select value from app.metrics() where metric = 'sluice_events_unsequenced_oldest_seconds'`,
    )
    return row!.value
  }
  expect(await read()).toBe(0)
  await own.rows(
    `insert into app.event (id, merchant_id, type, subject_id, version, payload, created_at)
     select uuidv7(), uuidv7(), 'deposit.confirmed', uuidv7(), 1, '{}', now() - n * interval '1 minute' from generate_series(1, 10) n`,
  )
  expect(await read()).toBeCloseTo(600, -2)
  await own.drop()
})

test('backups and drills have an age from the first on; a failed drill is reported until one succeeds, and does not reset the age', async () => {
  const own = await testDatabase()
  const read = async () => {
    const rows = await own.rows<{metric: string; value: number}>(
      `select metric, round(value) as value from app.metrics() where metric ~ '^sluice_(backup|drill|wal|replica)_'`,
    )
    return Object.fromEntries(rows.map(({metric, value}) => [metric, value]))
  }
  expect(await read()).toEqual({})
  const ago = (days: number) =>
    own.rows(`update app.backup_run set finished_at = finished_at - $1 * interval '1 day'`, [days])
  await own.rows(`select app.note_backup('pg_dump'), app.note_drill(null)`)
  await ago(2)
  await own.rows(`select app.note_backup('sluice backup')`)
  await own.rows(`select app.note_drill('catch up: the node is behind')`)
  await ago(1)
  expect(await read()).toEqual({
    sluice_backup_age_seconds: expect.closeTo(86_400, -2),
    sluice_drill_age_seconds: expect.closeTo(3 * 86_400, -2),
    sluice_drill_failed: 1,
  })
  await own.rows('select app.note_drill(null)')
  expect(await read()).toMatchObject({sluice_drill_age_seconds: expect.closeTo(0, -2), sluice_drill_failed: 0})
  await own.drop()
})

test('a replication slot counts as an expected replica, unless a backup made it for itself', async () => {
  const slot = `metrics_${process.pid}`
  const seen = async () =>
    [...(await metrics())].filter(([name]) => name.startsWith('sluice_replica_') && name.includes(slot))
  try {
    await db.rows(`select pg_create_physical_replication_slot($1)`, [slot])
    expect(await seen()).toEqual([[`sluice_replica_connected ${slot}`, 0]]) // the server retains nothing for it before it first connects
    await db.rows(`select pg_drop_replication_slot($1)`, [slot])
    await db.rows(`select pg_create_physical_replication_slot($1, true)`, [slot])
    expect(new Map(await seen())).toEqual(
      new Map([
        [`sluice_replica_connected ${slot}`, 0],
        [`sluice_replica_behind_bytes ${slot}`, expect.any(Number)],
      ]),
    )
    await db.rows(`select pg_drop_replication_slot($1)`, [slot])
    expect(await seen()).toEqual([])
  } finally {
    await db.rows(`select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = $1`, [slot])
  }
})

test('how long the treasury can pay network fees is measured in seconds', async () => {
  await db.rows(
    `insert into app.ledger_entry (account, kind, chain, token, amount, posting, reference) values ('treasury', 'network_fee', 'ETH', 'ETH', -1, 1, 'x'),
       ('network', 'network_fee', 'ETH', 'ETH', 1, 1, 'x')`,
  )
  const [row] = await db.rows<{days: number}>(`select app.gas_left_days('ETH') as days`)
  expect((await metrics()).get('sluice_treasury_gas_left_seconds ETH')).toBe(row!.days * 86_400)
})

test('the end of the newest partition of deliveries is measured', async () => {
  const at = (text: string) =>
    `${Date.parse(text)
      .toString(16)
      .padStart(12, '0')
      .replace(/(.{8})/, '$1-')}-0000-0000-000000000000`
  const client = await db.pool.connect()
  await client.query(
    'begin; alter table app.delivery rename to delivery_before; create table app.delivery (id uuid) partition by range (id)',
  )
  for (const [name, from, to] of [
    ['a', '2031-01-06', '2031-01-13'],
    ['b', '2031-01-13', '2031-01-20'],
  ] as const)
    await client.query(
      `create table app.delivery_${name} partition of app.delivery for values from ('${at(from)}') to ('${at(to)}')`,
    )
  const {rows} = await client.query('select app.delivery_partitions_end() as ends')
  await client.query('rollback')
  client.release()
  expect(rows[0].ends).toEqual(new Date('2031-01-20'))
})

test('the metrics read no table as a whole that grows with deposits', async () => {
  const own = await testDatabase()
  const client = new pg.Client({connectionString: own.url('sluice_api')})
  try {
    await own.rows(`
      begin; set local session_replication_role = replica;
      select chain.anchor('ETH', 'test', 0, '0x0', now());
      insert into app.deposit (id, merchant_id, user_id, chain, token, amount, sender, address, txid, output_index, block_height, block_hash, status, credited, version)
        select uuidv7(), uuidv7(), uuidv7(), 'ETH', 'ETH', 1, '0x0', '0x1', n, 0, n, '0x2', 'final', true, 2 from generate_series(1, 10000) n;
      insert into app.deposit (id, chain, token, amount, sender, address, txid, output_index, block_height, block_hash, status, credited, version)
        select uuidv7(), 'ETH', 'ETH', 1, '0x0', '0x1', n, 1, n, '0x2', 'final', false, 2 from generate_series(1, 10000) n;
      insert into app.event (id, merchant_id, type, subject_id, version, payload, sequence, created_at)
        select uuidv7(), uuidv7(), 'deposit.confirmed', uuidv7(), 1, '{}', n, now() from generate_series(1, 10000) n;
      insert into app.delivery (event_id, endpoint_id, status, next_attempt_at, finished_at)
        select uuidv7(), uuidv7(), 'delivered', null, now() from generate_series(1, 10000) n;
      insert into app.ledger_entry (account, kind, chain, token, amount, posting, reference)
        select 'address', 'deposit', 'ETH', 'ETH', 1, 1, 'x' from generate_series(1, 10000) n;
      insert into custody.address (address, match_key, family, derivation_index, taken_at) select n, n, 'evm', n, now() from generate_series(1, 10000) n;
      insert into app.payment_request (merchant_id, external_id, chain, token, amount, page_token, expires_at, status)
        select uuidv7(), n, 'ETH', 'ETH', 1, n, now(), 'expired' from generate_series(1, 10000) n;
      commit`)
    await own.rows(
      'vacuum analyze app.deposit, app.event, app.delivery, app.ledger_entry, custody.address, app.payment_request',
    )
    await client.connect()
    await client.query('begin; select * from app.metrics()')
    const {rows} = await client.query(
      'select relname from pg_stat_xact_user_tables where seq_tup_read + idx_tup_fetch > 1000',
    )
    expect(rows).toEqual([])
  } finally {
    await client.end()
    await own.drop()
  }
})
