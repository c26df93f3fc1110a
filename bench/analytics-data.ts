// A year of data, made by SQL: merchants, users, deposits with their transfers, events and deliveries, weekly payouts,
// sweeps, ledger with its totals, and holdings; events and deliveries of the last 90 days. Promises: the same shape at
// every size; one merchant (bench0) has half of everything.
import type pg from 'pg'

/** Days that the deposits are spread over, up to now. */
const days = 365
const merchants = 100

const filled = [
  'app.user',
  'app.address',
  'app.deposit',
  'chain.transfer',
  'app.event',
  'app.delivery',
  'app.payout',
  'app.claim',
  'app.outgoing_payment',
  'app.ledger_entry',
  'app.holding',
  'app.running_total',
]

/** Fills an empty, migrated database with this many deposits, and a tenth as many users. Needs its owner. */
export async function fillYear(pool: pg.Pool, deposits: number): Promise<void> {
  const client = await pool.connect()
  try {
    await client.query(
      `select app.create_merchant('Merchant ' || n, 'bench' || n, '{ETH,POLYGON}', 50) from generate_series(0, ${merchants - 1}) n`,
    )
    await client.query(`select chain.anchor(chain, 'bench', 1000000, '0x', now()) from app.chain`)
    await client.query(
      `set session_replication_role = replica; set work_mem = '256MB'; set maintenance_work_mem = '512MB'`,
    ) // no triggers
    const {rows: indexes} = await client.query<{name: string; definition: string}>(
      // An index of a partitioned table shows itself as one without its partitions.
      `select i.indexrelid::regclass::text as name, replace(pg_get_indexdef(i.indexrelid), ' ON ONLY ', ' ON ') as definition from pg_index i
       where i.indrelid = any($1::regclass[]) and not exists (select from pg_constraint where conindid = i.indexrelid)
         and not (select relispartition from pg_class where oid = i.indexrelid)`,
      [filled],
    )
    for (const {name} of indexes) await client.query(`drop index ${name}`)
    for (const statement of statements(deposits)) await client.query(statement)
    for (const {definition} of indexes) await client.query(definition)
    await client.query('reset all')
    await client.query('vacuum analyze')
    await client.query('checkpoint')
  } finally {
    client.release()
  }
}

const address = (n: string) => `'0x' || lpad(to_hex(${n}), 40, '0')`
const payoutId = (merchant: string, week: string, token: string) =>
  `md5('payout ' || ${merchant} || ${week} || ${token})::uuid`

function statements(deposits: number): string[] {
  const users = Math.max(merchants, Math.floor(deposits / 10))
  const made = `(select n, n * 7919::bigint % ${users} as user_n, now() - interval '${days} days' * (1 - n / ${deposits}::float8) as at,
      case n % 3 when 0 then 'POLYGON' else 'ETH' end as chain, case n % 3 when 0 then 'POL' when 1 then 'USDC' else 'ETH' end as token,
      case when n / 2 % 100 = 99 then 'reorged' when n > ${deposits} * 0.9999 then 'pending' else 'final' end as status
    from generate_series(0, ${deposits - 1}::bigint) n)`
  return [
    `create unlogged table bench_user as
     select n, md5('user ' || n)::uuid as id, m.id as merchant_id, ${address('n')} as address
     from generate_series(0, ${users - 1}::bigint) n
     join (select id, row_number() over (order by id) - 1 as nth from app.merchant) m on m.nth = case n % 2 when 0 then 0 else n / 2 % ${merchants - 1} + 1 end;
     create unique index on bench_user (n); analyze bench_user`,
    `insert into app.user (id, merchant_id, external_ref, created_at) select id, merchant_id, 'user ' || n, now() - interval '${days + 1} days' from bench_user`,
    `insert into app.address (chain, match_key, address, user_id, merchant_id, is_provisioned)
     select chain, address, address, id, merchant_id, true from bench_user cross join (values ('ETH'), ('POLYGON')) c (chain)`,
    `insert into app.deposit (id, merchant_id, user_id, chain, token, amount, sender, address, txid, output_index, block_height, block_hash,
       status, credited, version, created_at, finalised_at, finalisation, settlement_id)
     select uuidv7(m.at - now()), u.merchant_id, u.id, m.chain, case m.n % 1000 when 7 then 'SCAM' else m.token end, 1000000 + m.n, ${address('m.n % 10000')}, u.address,
       '0x' || lpad(to_hex(m.n), 64, '0'), 0, m.n / 10, '0x' || lpad(to_hex(m.n / 10), 64, '0'), m.status, m.n % 1000 <> 7, 2, m.at,
       case m.status when 'final' then m.at + interval '13 minutes' + m.n % 600 * interval '1 second' end, m.n / 1000,
       case when m.status = 'final' and m.n % 1000 <> 7 and m.at < now() - interval '7 days'
         then ${payoutId('u.merchant_id', `(extract(epoch from m.at)::int / 604800)`, 'm.token')} end
     from ${made} m join bench_user u on u.n = m.user_n`,
    `insert into chain.transfer (id, chain, txid, output_index, block_height, block_hash, block_time, token, amount, sender, recipient)
     select chain || ':' || txid || ':0', chain, txid, 0, block_height, block_hash, created_at - interval '2 seconds', token, amount, sender, address
     from app.deposit where status <> 'reorged'`,
    `insert into app.event (id, sequence, merchant_id, type, subject_id, version, payload, created_at)
     select uuidv7(at - now()), row_number() over (order by at), merchant_id, type, id, version, json_build_object('type', type, 'deposit_id', id), at
     from (
       select id, merchant_id, 'deposit.pending' as type, 1 as version, created_at as at from app.deposit where credited and created_at > now() - interval '90 days'
       union all
       select id, merchant_id, case status when 'reorged' then 'deposit.reorged' else 'deposit.confirmed' end, 2, coalesce(finalised_at, created_at)
       from app.deposit where credited and status <> 'pending' and created_at > now() - interval '90 days'
     ) e order by at`,
    `insert into app.webhook_endpoint (merchant_id, url, event_types, secret) select id, 'https://bench.example', '{deposit.pending,deposit.confirmed}', 'x' from app.merchant`,
    `insert into app.delivery (id, event_id, endpoint_id, status, attempts, next_attempt_at, created_at, finished_at)
     select uuidv7(e.created_at - now()), e.id, w.id, case when e.sequence % 1000 = 0 then 'failed' else 'delivered' end, 1 + (e.sequence % 50 = 0)::int, null,
       e.created_at, e.created_at + e.sequence % 100 * interval '10 milliseconds'
     from app.event e join app.webhook_endpoint w on w.merchant_id = e.merchant_id`,
    `insert into app.payout (id, merchant_id, chain, token, status, gross, fee_bps, fee, net, address, sweep_first, txid, network_fee, next_step_at, created_at, finished_at)
     select settlement_id, merchant_id, chain, token, 'completed', sum(amount), 50, div(sum(amount), 200), sum(amount) - div(sum(amount), 200), '0xPayout', true,
       '0x' || md5(settlement_id::text), 1000000, null, max(created_at), max(created_at) + interval '1 hour'
     from app.deposit where settlement_id is not null group by settlement_id, merchant_id, chain, token order by max(created_at)`,
    `insert into app.claim (kind, payout_id, merchant_id, chain, token, cutoff, deposit_count, amount, finished_at)
     select 'claim', id, merchant_id, chain, token, 0, 1, gross, finished_at from app.payout`,
    `insert into app.outgoing_payment (kind, chain, token, amount, source, recipient, fee_payer, nonce, payout_id, merchant_id, status, max_fee, txid, outcome, fee_paid, next_step_at, created_at, final_at)
     select 'payout', chain, token, net, '0xTreasury', address, '0xTreasury', row_number() over (), id, merchant_id, 'final', 1000000, txid, 'done', 500000, null::timestamptz, created_at, finished_at
     from app.payout
     union all
     select 'sweep', p.chain, p.token, 1000000, ${address('n')}, '0xTreasury', 'sweeper', 10000000 + row_number() over (), p.id, p.merchant_id, 'final', 1000000, '0x' || md5(n || p.id::text), 'done', 50000, null,
       p.created_at, p.finished_at
     from app.payout p cross join generate_series(1, greatest(1, ${deposits} / 20 / greatest((select count(*) from app.payout), 1))) n`,
    `insert into app.ledger_entry (posting, kind, reference, account, chain, token, merchant_id, address, amount, created_at)
     select posting, kind, reference, account, chain, token, merchant_id, address, amount, at from (
       select 1 as posting, 'deposit' as kind, 'finalisation:' || chain || ':' || finalisation as reference, 'address' as account, chain, token, merchant_id, address, amount, finalised_at as at
       from app.deposit where status = 'final' and credited
       union all
       select 1, 'deposit', 'finalisation:' || chain || ':' || finalisation, 'merchant', chain, token, merchant_id, null, -sum(amount), max(finalised_at)
       from app.deposit where status = 'final' and credited group by chain, finalisation, token, merchant_id
       union all
       select 1, e.kind, p.id::text, e.account, p.chain, p.token, p.merchant_id, null, e.amount, p.finished_at
       from app.payout p cross join lateral (values ('claim', 'merchant', p.gross), ('claim', 'payout', -p.gross), ('payout', 'payout', p.gross),
         ('payout', 'treasury', -p.net), ('payout', 'fees', -p.fee)) e (kind, account, amount)
       union all
       select 1, e.kind, s.id::text, e.account, s.chain, e.token, s.merchant_id, e.address, e.amount, s.final_at
       from app.outgoing_payment s join app.chain k on k.chain = s.chain
       cross join lateral (values ('network_fee', 'network', k.native_token, null, s.fee_paid), ('network_fee', 'treasury', k.native_token, null, -s.fee_paid),
         ('sweep', 'treasury', s.token, null, case s.kind when 'sweep' then s.amount end),
         ('sweep', 'address', s.token, s.source, case s.kind when 'sweep' then -s.amount end)) e (kind, account, token, address, amount)
       where e.amount is not null
     ) e order by at`,
    `insert into app.holding (chain, address, token, merchant_id, amount)
     select chain, address, token, merchant_id, coalesce(sum(amount) filter (where settlement_id is null), 0)
     from app.deposit where status = 'final' and credited group by chain, address, token, merchant_id`,
    `insert into app.balance select merchant_id, chain, token, sum(amount), count(*) from app.deposit
     where status = 'final' and credited and settlement_id is null group by 1, 2, 3`,
    // As app.fold_totals would make them of the ledger, in one step.
    `insert into app.running_total (merchant_id, series, about, until, count, amount)
     select merchant_id, series, about, until, sum(count) over w, sum(amount) over w from (
       select e.merchant_id, p.type as series, e.chain || ':' || e.token as about, app.end_of_quarter(e.created_at) as until, sum(p.number) as count, sum(p.amount) as amount
       from app.ledger_entry e cross join lateral (select type, amount, 1 as number from app.movement_parts(e.kind, e.reference, e.amount)
         union all select 'balance', -e.amount, 0) p
       where e.account = 'merchant' group by 1, 2, 3, 4
     ) m window w as (partition by merchant_id, series, about order by until)`,
    'update app.total_backfill set (done_up_to, last_entry) = (select max(id), max(id) from app.ledger_entry)',
    'drop table bench_user',
  ]
}
