// What each role may do: statements of its own work, which succeed, and statements of others' work, which are refused,
// on the real roles; and rules over all tables at once, so that a new table or grant cannot slip past them.
import {execFile} from 'node:child_process'
import {fileURLToPath} from 'node:url'
import {promisify} from 'node:util'
import pg from 'pg'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {ChainWriter} from '../test/support/chain-writer.ts'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'
import {makeMerchant, makeUser} from '../test/support/people.ts'
import {type Role, roles} from './migrate/migrate.ts'

let db: TestDatabase
const clients = new Map<Role, pg.Client>()

beforeAll(async () => {
  db = await testDatabase()
  const merchant = await makeMerchant(db)
  const {address} = await makeUser(db, merchant)
  await db.rows(`insert into custody.address (address, family, derivation_index) values ('0xFree', 'evm', 0)`)
  await db.rows(`select app.create_webhook_endpoint($1, 'https://example.com/hook')`, [merchant])
  await db.rows(`select app.create_api_key($1, sha256('secret'))`, [merchant])
  const writer = await ChainWriter.open(db, 'ETH')
  await writer.write({add: [[{txid: 'one', amount: 1n, recipient: address}]]})
  await writer.finalise(1)
  await writer.close()
  await db.rows('do $$ begin while app.refresh_analytics() is not null loop end loop; end $$')
  for (const role of roles) {
    const client = new pg.Client({connectionString: db.url(role)})
    await client.connect()
    clients.set(role, client)
  }
})

afterAll(async () => {
  for (const client of clients.values()) await client.end()
  await db.drop()
})

/**
 * The statements that the role is allowed to run; their changes are undone. Read-only mode is lifted first: the test is
 * about the role's rights, not its settings.
 */
async function allowed(role: Role, statements: string[]): Promise<string[]> {
  const client = clients.get(role)!
  const done: string[] = []
  for (const sql of statements) {
    await client.query('begin; set transaction read write')
    try {
      await client.query(sql)
      done.push(sql)
    } catch (error) {
      if ((error as pg.DatabaseError).code !== '42501') throw new Error(`${role} failed at: ${sql}`, {cause: error})
    } finally {
      await client.query('rollback')
    }
  }
  return done
}

const someone = '00000000-0000-7000-8000-000000000001'
const transfer = `insert into chain.transfer (id, chain, txid, output_index, block_height, block_hash, block_time, token, amount, sender, recipient)
  values ('ETH:two:0', 'ETH', 'two', 0, 2, '0x2', now(), 'ETH', 1, '0xA', '0xB')`

const may: Record<Role, string[]> = {
  sluice_indexer: [
    transfer,
    'delete from chain.transfer',
    `update chain.block set hash = hash where chain = 'ETH'`,
    `update squid_eth.status set nonce = nonce + 1`,
    `select chain.finalise('ETH', 1, '0x1')`,
    `select chain.halt('ETH', '{}')`,
    `select chain.try_lock('ETH')`,
    'select address from app.address',
    'select address, match_key from custody.address',
    'select txid, token, source, destination, amount from custody.journal',
    `insert into chain.confirmed_tx (id, chain, txid, block_height, block_hash, block_time, account, nonce, success, fee)
       values ('ETH:three', 'ETH', 'three', 2, '0x2', now(), '0xA', 0, true, 1)`,
    'select head_height from chain.cursor',
  ],
  sluice_api: [
    'select * from app.deposit',
    'select * from app.balance_now',
    'select secret_hash from app.api_key',
    'select id, url, disabled_at from app.webhook_endpoint',
    `select app.provision_user((select id from app.merchant), 'a new user', array['ETH'])`,
    `select app.set_payout_address((select id from app.merchant), 'ETH', '0xElsewhere')`,
    `select app.create_webhook_endpoint((select id from app.merchant), 'https://example.com/other')`,
    'select * from app.payout',
    'select * from custody.address',
    `select app.set_payout_address((select id from app.merchant), 'ETH', '0xElsewhere'),
       app.create_payout((select id from app.merchant), 'ETH', 'USDC', false, 'a key', 'a request')`,
    'select app.cancel_payout(merchant_id, id) from app.payout',
    'select * from app.payment_request, app.receipt',
    `select app.request_payment(id, 'ETH', prefix || '-1', '1', '1 day', null, null), app.read_payment_request(id, prefix || '-1'),
       app.payment_page('x') from app.merchant`,
  ],
  sluice_jobs: [
    `select app.lock_worker('pool-0123456789abcdef01'), app.try_lock_sending('ETH'), app.try_lock_endpoint('${someone}'), app.try_lock_audit()`,
    `select app.unlock_sending('ETH'), app.unlock_endpoint('${someone}')`,
    'select secret from app.webhook_endpoint',
    'select * from app.delivery',
    'select app.fold_balances(), app.decide_payment_requests()',
    'select app.sequence_events()',
    'select app.fail_undeliverable()',
    'select * from app.payout, app.outgoing_payment, app.outgoing_attempt, app.holding, app.treasury, app.treasury_share, chain.confirmed_tx',
    'select * from custody.address, custody.whitelist',
    `select app.why_halted('ETH')`,
    `select app.begin_sweeping(id), app.begin_payment(id, 1), app.wait_payout(id, 'sweeps', null, 1) from app.payout`,
    `select app.begin_sweeps(null, 'ETH', 'USDC', '{}', '{}', '{}')`,
    `select app.fail_payout(id, 'timed_out', 'too late') from app.payout`,
    `select app.allocate_deposits(id, 'ETH', 'USDC', 10) from app.merchant`,
    'select app.refresh_analytics()',
    'select * from app.unattributed_decision, app.due_return',
    `select app.begin_return_sweep('${someone}', 1, 1), app.begin_return_withdrawal('${someone}', 1), app.wait_return('${someone}', 'x', 'x')`,
    'select * from app.due_job',
    `select app.enqueue('allocate_deposits')`,
    `select graphile_worker.add_job('sequence_events')`,
    'select id, breaking from graphile_worker.migrations',
    'select app.audit_is_due(), app.finish_audit(app.begin_audit(), to_json(array(select c from app.audit_checks() c))::jsonb, null)',
    `select app.ledger_holdings('ETH', '{}'), app.ledger_outputs('BTC', '{}')`,
  ],
  sluice_custody: [
    `insert into custody.address (address, family, derivation_index) values ('0xNext', 'evm', 1)`,
    'select max(derivation_index) from custody.address',
    'select custody.try_lock()',
    `select custody.watch_treasury('evm')`,
    `insert into custody.journal (stream, seq, kind, signed_at, hash) values ('pool:evm', 1, 'pool', now(), 'x')`,
    `insert into custody.refusal (code, message, request) values ('not_ours', 'x', '{}')`,
    'select * from custody.whitelist, app.payout, app.outgoing_payment, app.asset, app.chain, chain.transfer, chain.confirmed_tx, chain.cursor',
    'select * from custody.budget_raise, custody.decision, app.output',
    `select app.why_halted('ETH')`,
  ],
  sluice_auth: [
    'select * from auth."user", auth.session, auth.account, auth.verification, auth.passkey, auth."rateLimit"',
    'select * from auth.authenticator, auth.recovery_code',
    'delete from auth.session',
    `select dashboard.begin_attempt('x'), dashboard.forget_attempt(1), dashboard.second_factors('${someone}'), dashboard.merchant_name('${someone}')`,
    `select dashboard.find_invitation(sha256('x')), dashboard.record(null, 'sign_in', '192.0.2.1', 'wrong_password')`,
  ],
  sluice_dashboard: [],
  sluice_analyst: [
    'select * from analytics.deposits',
    'select * from analytics.balances',
    'select * from analytics.daily_volume',
    'select * from analytics.time_to_finality',
    'select * from analytics.chain_lag',
    'select * from analytics.unattributed',
    'select * from analytics.payouts, analytics.sweeps, analytics.ledger, analytics.merchant_totals, analytics.treasury',
    'select * from analytics.events, analytics.payout_costs, analytics.earnings, analytics.daily_ledger, analytics.reorganisations',
    'select * from analytics.customer_cohorts, analytics.address_utilisation, analytics.delivery_health, analytics.freshness',
    'select * from analytics.payment_requests, analytics.payment_receipts',
    `select analytics.coins(1, 18), analytics.id('dep_x')`,
  ],
}

const mayNot: Record<Role, string[]> = {
  sluice_indexer: [
    `update app.deposit set status = 'final'`,
    'select * from app.deposit',
    `insert into app.address (chain, match_key, address, user_id, merchant_id, is_provisioned)
       values ('ETH', '0xc', '0xC', '${someone}', '${someone}', true)`,
    `insert into app.balance_delta (merchant_id, chain, token, amount, deposit_count) values ('${someone}', 'ETH', 'ETH', 1, 1)`,
    'update chain.cursor set final_height = 9',
    'insert into chain.touched_chain values (pg_current_xact_id(), $$ETH$$)',
    `select chain.derive_deposits('ETH')`,
    `select app.resume_chain('ETH')`,
    'select * from app.api_key',
    'select * from analytics.deposits',
    'create table chain.mine ()',
  ],
  sluice_api: [
    `update app.deposit set status = 'final'`,
    'delete from app.deposit',
    `insert into app.user (merchant_id, external_ref) values ('${someone}', 'x')`,
    'update app.api_key set revoked_at = null',
    'select secret from app.webhook_endpoint',
    'select previous_secret from app.webhook_endpoint',
    'select * from custody.journal',
    'update custody.address set taken_at = null',
    'update custody.address set merchant_id = null',
    `insert into custody.whitelist (chain, address) values ('ETH', '0xMine')`,
    `update app.payout set address = '0xMine'`,
    `select app.fail_payout(id, 'cancelled', 'x') from app.payout`,
    `select app.cancel_payout_by_operator(id) from app.payout`,
    `select app.begin_withdrawal('ETH', 'ETH', 1, '0xMine', 1)`,
    `select app.store_signed('${someone}', 1, 'effect', 'x', 'x', 1, 1, '{}')`,
    'select * from app.outgoing_attempt',
    'select * from app.ledger_entry',
    `select app.create_api_key('${someone}', sha256('x'))`,
    `select app.create_merchant('x', 'xx', null, 0)`,
    `select app.resolve_incident(1, 'reorged')`,
    'select app.audit_checks()',
    'select app.begin_audit()',
    'select app.fold_balances()',
    'select app.decide_payment_requests()',
    `update app.payment_request set status = 'paid'`,
    `select app.refresh_payment('${someone}')`,
    'select * from chain.transfer',
    'select * from graphile_worker._private_jobs',
  ],
  sluice_jobs: [
    'select * from app.api_key',
    `select app.create_api_key('${someone}', sha256('x'))`,
    `select app.revoke_api_key('${someone}')`,
    'update app.api_key set revoked_at = now()',
    `update app.deposit set status = 'final'`,
    `update app.balance set amount = 0`,
    `update app.delivery set status = 'delivered'`,
    `update app.webhook_endpoint set url = 'https://example.com/mine'`,
    `insert into app.event (id, merchant_id, type, subject_id, version, payload, created_at)
       values ('${someone}', '${someone}', 'x', '${someone}', 1, '{}', now())`,
    'select * from custody.journal',
    `insert into custody.address (address, family, derivation_index) values ('0xMine', 'evm', 9)`,
    'update custody.address set merchant_id = null',
    `insert into custody.whitelist (chain, address) values ('ETH', '0xMine')`,
    `insert into app.payout (merchant_id, chain, token, gross, fee_bps, fee, net, address, sweep_first)
       values ('${someone}', 'ETH', 'ETH', 1, 0, 0, 1, '0xMine', false)`,
    `update app.payout set status = 'failed'`,
    `update app.outgoing_payment set recipient = '0xMine'`,
    'update app.treasury set balance = balance + 1',
    'update app.sender set next_nonce = 0',
    'delete from app.ledger_entry',
    'update app.payment_request set amount = 1',
    `select app.request_payment('${someone}', 'ETH', 'x', '1', '1 day', null, null)`,
    `select app.create_payout('${someone}', 'ETH', 'ETH', false, null, 'x')`,
    `select app.release_payout('${someone}', 'x', 'x')`,
    `select app.begin_withdrawal('ETH', 'ETH', 1, '0xMine', 1)`,
    `select app.credit_unattributed('${someone}')`,
    `select app.return_unattributed('${someone}', '0xMine')`,
    `update app.unattributed_decision set destination = '0xMine'`,
    `insert into chain.confirmed_tx (id, chain, txid, block_height, block_hash, block_time, account, nonce, success, fee)
       values ('ETH:x', 'ETH', 'x', 1, '0x1', now(), '0xA', 0, true, 1)`,
    'delete from chain.transfer',
    'create table app.mine ()',
    'select * from audit.conservation',
    'select * from app.audit_run',
    'delete from app.audit_finding',
    'update app.incident set resolved_at = now()',
    'insert into graphile_worker.migrations (id, breaking) values (999999, true)',
    'update graphile_worker.migrations set breaking = true',
    'delete from graphile_worker.migrations',
  ],
  sluice_custody: [
    'update custody.address set taken_at = null',
    `update custody.address set merchant_id = '${someone}'`,
    `insert into custody.address (address, family, derivation_index, merchant_id) values ('0xMine', 'evm', 9, '${someone}')`,
    'delete from custody.address',
    'delete from custody.journal',
    `insert into custody.budget_raise (chain, day, amount) values ('ETH', now(), 1)`,
    `insert into custody.decision (outgoing_payment_id, decision) values ('${someone}', 'replace')`,
    `select app.replace_payout_by_operator('${someone}')`,
    `update custody.journal set hash = 'x'`,
    `insert into custody.whitelist (chain, address) values ('ETH', '0xMine')`,
    `update app.payout set address = '0xMine'`,
    'delete from chain.confirmed_tx',
    'select * from app.merchant',
    'select * from app.deposit',
    'select * from app.payout_address',
    'select * from app.api_key',
    `select app.set_payout_address('${someone}', 'ETH', '0xMine')`,
  ],
  sluice_auth: [
    'select * from app.merchant',
    'select * from app.deposit',
    'select * from app.api_key',
    'select * from app.payout_address',
    'select * from app.webhook_endpoint',
    'select * from custody.whitelist',
    'select * from dashboard.member',
    'select * from dashboard.invitation',
    'select * from dashboard.audit_entry',
    'delete from dashboard.audit_entry',
    'delete from dashboard.attempt',
    'delete from dashboard.used_code',
    'delete from auth."user"',
    'delete from auth.authenticator',
    `insert into auth.authenticator (user_id, secret) values ('${someone}', 'x')`,
    `insert into dashboard.member (user_id, merchant_id) values ('${someone}', '${someone}')`,
    `select dashboard.invite('${someone}', sha256('x'))`,
    `select dashboard.me('x')`,
    `select app.create_api_key('${someone}', sha256('x'))`,
    `select app.set_payout_address('${someone}', 'ETH', '0xMine')`,
    'create table auth.mine ()',
  ],
  sluice_dashboard: [
    'select * from auth.session',
    'select * from auth."user"',
    'select * from auth.account',
    'select * from dashboard.member',
    'select * from dashboard.audit_entry',
    'select * from dashboard.change_request',
    'select * from app.merchant',
    'select * from app.deposit',
    'select * from app.api_key',
    'select * from app.webhook_endpoint',
    'select * from app.payout',
    'select * from app.balance_now',
    'select * from custody.address',
    'select * from custody.whitelist',
    'select * from custody.journal',
    'select * from chain.transfer',
    'select * from audit.conservation',
    'select * from analytics.deposits',
    `select app.create_api_key('${someone}', sha256('x'))`,
    `select app.set_payout_address('${someone}', 'ETH', '0xMine')`,
    `select app.create_payout('${someone}', 'ETH', 'ETH', false, null, 'x')`,
    `select dashboard.invite('${someone}', sha256('x'))`,
    `select dashboard.show_second_factor('x', 'y')`,
    `select dashboard.accept_invitation(sha256('x'), 'x', 'x', 'x', 'x')`,
    `select dashboard.record(null, 'x', 'x')`,
    'create table dashboard.mine ()',
  ],
  sluice_analyst: [
    'select * from app.webhook_endpoint',
    'select * from app.deposit',
    'select * from app.api_key',
    'select * from app.merchant',
    'select * from custody.address',
    'select * from custody.journal',
    'select * from app.payout',
    'select * from app.payment_request, app.receipt',
    'select * from app.ledger_entry',
    'select * from chain.transfer',
    'select * from chain.cursor',
    `select app.public_id('x', '${someone}')`,
    'select app.fold_balances()',
    'select * from app.analytics_refresh',
    'select * from chain.reorganisation',
    'select app.refresh_analytics()',
    'refresh materialized view analytics.customer_cohorts',
    'select * from graphile_worker._private_jobs',
    'select * from public.sluice_migration',
    'create table public.mine ()',
    'create table analytics.mine ()',
    'select pg_advisory_lock(1)',
    'select pg_try_advisory_xact_lock(1)',
    `select lo_from_bytea(0, 'x')`,
    `set temp_file_limit = '100GB'`,
    `alter role sluice_analyst connection limit 1000`,
    `select pg_notify('worker:migrate', '{"breaking": true}')`,
  ],
}

// A lock has no owner: who holds the lock of another kind of process keeps it from its work.
test('no role may take an advisory lock but by the functions of its own work', async () => {
  const locks = await db.rows<{role: string; name: string}>(
    `select r.rolname as role, p.proname as name from pg_roles r cross join pg_proc p
     where r.rolname ~ '^sluice_' and has_function_privilege(r.oid, p.oid, 'execute') and (p.proname ~ '^pg_(try_)?advisory_'
       or p.pronamespace in ('chain'::regnamespace, 'app'::regnamespace, 'custody'::regnamespace) and p.proname ~ '(^|_)(un)?lock(_|$)')
     order by 1, 2`,
  )
  expect(locks.map(({role, name}) => `${role} ${name}`)).toEqual([
    'sluice_custody lock_outgoing_payment',
    'sluice_custody try_lock',
    'sluice_indexer try_lock',
    'sluice_jobs lock_worker',
    'sluice_jobs try_lock_audit',
    'sluice_jobs try_lock_endpoint',
    'sluice_jobs try_lock_sending',
    'sluice_jobs unlock_endpoint',
    'sluice_jobs unlock_sending',
  ])
  const worker = await db.pool.connect()
  try {
    await worker.query('set role sluice_jobs')
    const {rows} = await worker.query(`select app.lock_worker('sluice.custody') as held`)
    expect(rows).toEqual([{held: null}]) // a name of its own choice would be any lock
  } finally {
    worker.release(true)
  }
})

test.each(roles)('%s can do its own work', async role => {
  expect(await allowed(role, may[role])).toEqual(may[role])
})

test.each(roles)('%s cannot do the work of others', async role => {
  expect(await allowed(role, mayNot[role])).toEqual([])
})

/** Who has any of these privileges, on any column, on the tables and views of a schema: 'role privilege table'. */
async function granted(schema: string, privileges: string[]): Promise<string[]> {
  const rows = await db.rows<{granted: string}>(
    `select r.rolname || ' ' || lower(p) || ' ' || c.relname as granted
     from pg_class c cross join pg_roles r cross join unnest($2::text[]) p
     where c.relnamespace = $1::regnamespace and c.relkind in ('r', 'p', 'v', 'm') and r.rolname ~ '^sluice_'
       and (has_table_privilege(r.oid, c.oid, p) or (p not in ('delete', 'truncate') and has_any_column_privilege(r.oid, c.oid, p)))
     order by 1`,
    [schema, privileges],
  )
  return rows.map(row => row.granted)
}

const writing = ['insert', 'update', 'delete', 'truncate']

test('no process writes a table of app directly', async () => {
  expect(await granted('app', writing)).toEqual([])
})

test('only custody writes its addresses, its journal and its refusals; no process writes the whitelist', async () => {
  expect(await granted('custody', writing)).toEqual([
    'sluice_custody insert address',
    'sluice_custody insert journal',
    'sluice_custody insert refusal',
    'sluice_custody update address',
  ])
})

test('custody writes an address it derived, and never its owner', async () => {
  const rows = await db.rows<{granted: string}>(
    `select lower(p) || ' ' || a.attname as granted from pg_attribute a cross join unnest(array['insert', 'update']) p
     where a.attrelid = 'custody.address'::regclass and a.attnum > 0 and not a.attisdropped
       and has_column_privilege('sluice_custody', a.attrelid, a.attnum, p) order by 1`,
  )
  expect(rows.map(row => row.granted)).toEqual([
    'insert address',
    'insert created_at',
    'insert derivation_index',
    'insert family',
    'insert purpose',
    'insert retired_at',
    'update retired_at',
  ])
})

test('only the indexers write chain data: blocks, transfers and confirmed transactions', async () => {
  const tables = ['block', 'confirmed_tx', 'transfer']
  expect(await granted('chain', writing)).toEqual(
    ['delete', 'insert', 'update'].flatMap(right => tables.map(table => `sluice_indexer ${right} ${table}`)),
  )
})

test('only the owner can read the checks of the audit, and no process reads them directly', async () => {
  expect(await granted('audit', ['select', ...writing])).toEqual([])
})

test('an analyst can read every view of analytics and nothing else, and no role can write there', async () => {
  const views = await db.rows<{name: string}>(
    `select relname as name from pg_class where relnamespace = 'analytics'::regnamespace and relkind in ('v', 'm') order by 1`,
  )
  expect(await granted('analytics', ['select', ...writing])).toEqual(
    views.map(({name}) => `sluice_analyst select ${name}`),
  )
  const elsewhere = await Promise.all(
    ['app', 'chain', 'custody', 'public', 'graphile_worker', 'squid_eth'].map(s => granted(s, ['select', ...writing])),
  )
  expect(elsewhere.flat().filter(line => line.startsWith('sluice_analyst'))).toEqual([])
})

test('every view of analytics hides rows from functions of its reader and runs with the rights of its owner', async () => {
  expect(
    await db.rows(`select relname from pg_class where relnamespace = 'analytics'::regnamespace and relkind = 'v'
      and ('security_barrier=true' <> all (coalesce(reloptions, '{}')) or 'security_invoker=true' = any (coalesce(reloptions, '{}')))`),
  ).toEqual([])
})

test('only the worker reads secrets of webhooks, and only the API reads hashes of keys', async () => {
  expect(
    await db.rows(`select r.rolname as role, a.attname as column from pg_attribute a cross join pg_roles r
      where a.attrelid in ('app.webhook_endpoint'::regclass, 'app.api_key'::regclass)
        and a.attname in ('secret', 'previous_secret', 'secret_hash') and r.rolname ~ '^sluice_'
        and has_column_privilege(r.oid, a.attrelid, a.attnum, 'select') order by 1, 2`),
  ).toEqual([
    {role: 'sluice_api', column: 'secret_hash'},
    {role: 'sluice_jobs', column: 'previous_secret'},
    {role: 'sluice_jobs', column: 'secret'},
  ])
})

test('an unnamed role has no rights: no table, function or schema of ours is public', async () => {
  expect(
    await db.rows(`
      with ours as (select oid from pg_namespace where nspname in ('chain', 'app', 'custody', 'analytics', 'audit') or nspname ~ '^squid_')
      select object, privilege_type from (
        select nspname::text as object, acl.* from pg_namespace n, aclexplode(coalesce(nspacl, acldefault('n', nspowner))) acl
        where n.oid in (select oid from ours)
        union all
        select c.oid::regclass::text, acl.* from pg_class c, aclexplode(coalesce(relacl, acldefault('r', relowner))) acl
        where relnamespace in (select oid from ours) and relkind in ('r', 'p', 'v', 'm')
        union all
        select p.oid::regprocedure::text, acl.* from pg_proc p, aclexplode(coalesce(proacl, acldefault('f', proowner))) acl
        where pronamespace in (select oid from ours)
      ) held where grantee = 0`),
  ).toEqual([])
})

test('no role can create anything in any schema, nor become another role', async () => {
  expect(
    await db.rows(`select r.rolname as role, n.nspname as schema from pg_namespace n cross join pg_roles r
      where r.rolname ~ '^sluice_' and n.nspname !~ '^pg_' and has_schema_privilege(r.oid, n.oid, 'create')`),
  ).toEqual([])
  expect(
    await db.rows(`select rolname from pg_roles r where rolname ~ '^sluice_' and (rolsuper or rolcreaterole or rolcreatedb or rolbypassrls
      or exists (select from pg_auth_members m where m.member = r.oid))`),
  ).toEqual([])
})

test('an analyst starts read only, in UTC, with a time limit for a statement and for an idle transaction', async () => {
  const analyst = new pg.Client({connectionString: db.url('sluice_analyst')})
  await analyst.connect()
  const {rows} =
    await analyst.query(`select current_setting('default_transaction_read_only') as read_only, current_setting('timezone') as timezone,
    current_setting('statement_timeout') as statement, current_setting('idle_in_transaction_session_timeout') as idle`)
  expect(rows).toEqual([{read_only: 'on', timezone: 'UTC', statement: '1min', idle: '1min'}])
  await expect(analyst.query('select * into mine from analytics.deposits')).rejects.toMatchObject({code: '25006'})
  await analyst.end()
})

test('npm run database-url prints the URL of the analyst, or of the named role, and refuses another name', async () => {
  const print = async (...names: string[]) => {
    const script = fileURLToPath(new URL('client/url.ts', import.meta.url))
    const env = {...process.env, DATABASE_URL: db.ownerUrl}
    return (await promisify(execFile)(process.execPath, [script, ...names], {env})).stdout
  }
  const [analyst, api, owner] = await Promise.all([print(), print('sluice_api'), print('owner')])
  expect([analyst, api]).toEqual([`${db.url('sluice_analyst')}\n`, `${db.url('sluice_api')}\n`])
  expect(owner).toBe(`${db.ownerUrl}\n`)
  await expect(print('sluice')).rejects.toMatchObject({
    code: 1,
    stderr: expect.stringContaining('roles are owner, sluice_indexer,'),
  })
})

test("no role of a process owns anything that other roles' code could call, or to which it could grant access", async () => {
  const owned = await db.rows(
    `select o.kind, o.name, o.owner from (
       select 'schema' as kind, nspname::text as name, nspowner::regrole::text as owner from pg_namespace
       union all
       select 'function', oid::regprocedure::text, proowner::regrole::text from pg_proc
       union all
       select 'relation', oid::regclass::text, relowner::regrole::text from pg_class
     ) o where o.owner like 'sluice_%'`,
  )
  expect(owned).toEqual([])
})
