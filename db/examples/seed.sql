-- The data of the examples in docs/database.md: two merchants, one of them with a webhook, four users, three payment
-- requests, two days on two chains, a payout that was paid and one that waits. Rows are written as the indexers, the
-- API and the worker write them, so that chain.derive makes the deposits and finishes the payout; only the times are
-- set afterwards, because those come from the clock. For an empty, migrated database; run by its owner.

insert into app.merchant (id, name, prefix, fee_bps, created_at) values
  ('019c0000-0000-7000-8000-00000000000a', 'Acme Games', 'acme', 100, '2026-06-29 14:20:00Z'),
  ('019c0000-0000-7000-8000-00000000000b', 'Nordwind Travel', 'nord', 75, '2026-06-30 08:05:00Z');
insert into app.merchant_chain (merchant_id, chain) values
  ('019c0000-0000-7000-8000-00000000000a', 'ETH'),
  ('019c0000-0000-7000-8000-00000000000a', 'POLYGON'),
  ('019c0000-0000-7000-8000-00000000000b', 'ETH');
insert into app.user (id, merchant_id, external_ref, metadata, created_at) values
  ('019c0000-0000-7000-8000-0000000000a1', '019c0000-0000-7000-8000-00000000000a', 'alice', '{"plan": "gold"}', '2026-06-30 09:00:00Z'),
  ('019c0000-0000-7000-8000-0000000000a2', '019c0000-0000-7000-8000-00000000000a', 'bob', '{"plan": "basic"}', '2026-06-30 11:40:00Z'),
  ('019c0000-0000-7000-8000-0000000000b1', '019c0000-0000-7000-8000-00000000000b', 'carol', '{}', '2026-06-30 20:15:00Z'),
  ('019c0000-0000-7000-8000-0000000000b2', '019c0000-0000-7000-8000-00000000000b', 'dave', '{}', '2026-07-01 06:30:00Z');

insert into app.webhook_endpoint (id, merchant_id, url, event_types, secret) values
  ('019c0000-0000-7000-8000-0000000000c1', '019c0000-0000-7000-8000-00000000000b', 'https://nord.example/hook',
   '{deposit.pending,deposit.confirmed,deposit.reorged,payout.completed}', 'whsec_example');

create temporary view person as
select u.id, u.merchant_id, u.external_ref, p.address
from app.user u join (values
  ('alice', '0x300C2500b21aE863BaC9f08E40E8925acC501D40'),
  ('bob', '0x44884Ac596F7c904a77133d4eFC11FCC487EF61d'),
  ('carol', '0x835b12b87133dBE0ac7697451feD41D29029e4C6'),
  ('dave', '0xb6E7d15f900C0E11E43b2c1CBC9A766Bfa15e124')
) p (external_ref, address) using (external_ref);

insert into app.address (chain, match_key, address, user_id, merchant_id, is_provisioned)
select c.chain, lower(p.address), p.address, p.id, p.merchant_id,
  exists (select from app.merchant_chain m where m.merchant_id = p.merchant_id and m.chain = c.chain)
from person p cross join (values ('ETH'), ('POLYGON')) c (chain);

insert into custody.address (address, family, derivation_index, taken_at, merchant_id)
select address, 'evm', row_number() over (order by external_ref) - 1, '2026-06-30 09:00:00Z', merchant_id from person;
insert into custody.address (address, family, derivation_index, purpose)
values ('0x3a3e6Cf8E4A7eE43Bd3dc2Aa9A4fD2E4ccC4a4A9', 'evm', 0, 'treasury');
select custody.watch_treasury('evm');
insert into custody.address (address, family, derivation_index) values
  ('0x1aD91ee08f21bE3dE0BA2ba6918E714dA6B45836', 'evm', 100),
  ('0xDE0B295669a9FD93d5F28D9Ec85E40f4cb697BAe', 'evm', 101),
  ('0x4B0897b0513fdC7C541B6d9D7E929C4e5364D2dB', 'evm', 102);
select app.request_payment('019c0000-0000-7000-8000-00000000000a', 'ETH-USDC', 'acme-1001', '49.9', '1 day', null, null);
select app.request_payment('019c0000-0000-7000-8000-00000000000a', 'ETH-USDC', 'acme-1002', '15', '1 day', null, null);
select app.request_payment('019c0000-0000-7000-8000-00000000000b', 'ETH', 'nord-77', '0.05', '1 day', null, null);
create temporary view recipient as
select external_ref as name, address from person union all select purpose, address from custody.address where purpose = 'treasury'
union all select r.external_id, w.address from app.payment_request r join app.address w on w.payment_request_id = r.id and w.chain = r.chain;

-- A hash for a name, as long as those of the chains.
create function pg_temp.hash(name text) returns text language sql return '0x' || encode(sha256(name::bytea), 'hex');

-- One block as an indexer writes it, with these transfers of [recipient, token, amount in base units]. A block at this
-- height goes first.
create function pg_temp.write_block(of_chain text, of_height int, at timestamptz, transfers json) returns void
language plpgsql as $$
declare
  block_hash text := pg_temp.hash(of_chain || at);
begin
  delete from chain.transfer where chain = of_chain and block_height = of_height;
  delete from chain.block where chain = of_chain and height = of_height;
  insert into chain.block (id, chain, height, hash, parent_hash, time)
  select of_chain || ':' || of_height, of_chain, of_height, block_hash, parent.hash, at
  from chain.block parent where parent.chain = of_chain and parent.height = of_height - 1;
  insert into chain.transfer (id, chain, txid, output_index, block_height, block_hash, block_time, token, amount, sender, recipient, transfer_kind)
  select of_chain || ':' || txid || ':0', of_chain, txid, 0, of_height, block_hash, at, token, amount,
    '0x086708766EB97dCB6FDE6EC9fCA2F6e415433Ea4', address, case when token = 'USDC' then 'token' else 'native' end
  from (
    select pg_temp.hash(of_chain || at || n) as txid, t->>1 as token, (t->>2)::numeric as amount, r.address
    from json_array_elements(transfers) with ordinality as e (t, n) join recipient r on r.name = t->>0
  ) paid;
  execute format('update %I.status set nonce = nonce + 1 where id = 0', 'squid_' || lower(of_chain));
end $$;

-- The node calls the block at this height final.
create function pg_temp.finalise(of_chain text, of_height int) returns boolean
language sql return chain.finalise(of_chain, of_height, (select hash from chain.block where chain = of_chain and height = of_height));

select chain.anchor('ETH', 'eip155:11155111', 8100000, pg_temp.hash('ETH'), '2026-06-30 09:11:59Z');
select chain.anchor('POLYGON', 'eip155:80002', 24500000, pg_temp.hash('POLYGON'), '2026-06-30 14:00:00Z');

begin;
select pg_temp.write_block('ETH', 8100001, '2026-06-30 09:12:11Z', '[["alice", "USDC", 250000000], ["treasury", "ETH", 2000000000000000000], ["treasury", "USDC", 5000000000]]');
select pg_temp.write_block('ETH', 8100002, '2026-06-30 16:40:23Z', '[["bob", "ETH", 500000000000000000], ["alice", "USDC", 19990000], ["acme-1001", "USDC", 20000000]]');
select pg_temp.write_block('ETH', 8100003, '2026-06-30 23:59:47Z', '[["carol", "USDC", 1200500000], ["acme-1001", "USDC", 29900000], ["acme-1002", "USDC", 10000000]]');
select pg_temp.write_block('ETH', 8100004, '2026-07-01 00:00:11Z', '[["alice", "ETH", 123456789012345678], ["nord-77", "USDC", 120000000]]');
commit;
begin;
select pg_temp.finalise('ETH', 8100004);
commit;

-- Nordwind is paid what carol brought; her address is swept without waiting for it.
begin;
select app.set_payout_address('019c0000-0000-7000-8000-00000000000b', 'ETH', '0x52908400098527886E0F7030069857D2E4169EE7');
select app.create_payout('019c0000-0000-7000-8000-00000000000b', 'ETH', 'USDC', false, null, null);
select app.begin_sweeping(id), app.end_sweeping(id), app.begin_payment(id, 2600000000000000) from app.payout;
select app.begin_sweeps(null, 'ETH', 'USDC', array[address], array[1200500000], array[4800000000000000]) from person where external_ref = 'carol';
select app.store_signed(id, 1, 'effect', pg_temp.hash(kind), '0x02', amount, max_fee,
  jsonb_build_object('max_fee_per_gas', 40000000000, 'max_priority_fee_per_gas', 1000000000, 'gas_limit', max_fee::bigint / 40000000000)) from app.outgoing_payment;
commit;

begin;
select pg_temp.write_block('ETH', 8100005, '2026-07-01 10:30:35Z',
  '[["dave", "USDC", 75000000], ["alice", "0x211cD78a278ED8CE38840597bFc9793990241FE3", 1000000000]]');
insert into chain.confirmed_tx (id, chain, txid, block_height, block_hash, block_time, account, nonce, success, fee)
select 'ETH:' || o.txid, 'ETH', o.txid, b.height, b.hash, b.time, s.fee_payer, s.nonce, true, (o.fee_details ->> 'gas_limit')::bigint * 18000000000
from app.outgoing_attempt o join app.outgoing_payment s on s.id = o.outgoing_payment_id join chain.block b on b.id = 'ETH:8100005';
commit;
begin;
select pg_temp.finalise('ETH', 8100005);
commit;

-- A reorganisation: bob's block is replaced by one that does not hold his transaction.
begin;
select pg_temp.write_block('ETH', 8100006, '2026-07-01 12:00:11Z', '[["bob", "USDC", 40000000]]');
commit;
begin;
select pg_temp.write_block('ETH', 8100006, '2026-07-01 12:00:23Z', '[["carol", "USDC", 99990000]]');
select pg_temp.write_block('ETH', 8100007, '2026-07-01 12:00:35Z', '[["alice", "USDC", 10010000]]');
commit;

begin;
select pg_temp.write_block('POLYGON', 24500001, '2026-06-30 14:00:02Z', '[["alice", "POL", 12500000000000000000]]');
select pg_temp.write_block('POLYGON', 24500002, '2026-07-01 08:00:04Z', '[["bob", "POL", 3000000000000000000]]');
select pg_temp.write_block('POLYGON', 24500003, '2026-07-01 08:00:06Z', '[["carol", "POL", 7000000000000000000]]');
select pg_temp.write_block('POLYGON', 24500004, '2026-07-01 12:00:36Z', '[]');
commit;
begin;
select pg_temp.finalise('POLYGON', 24500003);
commit;

-- Acme's payout address is on no whitelist.
begin;
select app.set_payout_address('019c0000-0000-7000-8000-00000000000a', 'POLYGON', '0xde709f2102306220921060314715629080e2fb77');
select app.create_payout('019c0000-0000-7000-8000-00000000000a', 'POLYGON', 'POL', true, null, null);
select app.wait_payout(id, 'not_whitelisted', null, 60000) from app.payout where chain = 'POLYGON';
commit;

begin;
select app.sequence_events();
select app.fold_balances();

-- Seen two seconds after its block; final about as much later as on the real chains.
update app.deposit d set created_at = t.block_time + interval '2 seconds',
  finalised_at = case when d.finalised_at is not null then t.block_time + d.block_height % 5 * interval '1.25 seconds'
    + case d.chain when 'ETH' then interval '13 minutes' else interval '4 seconds' end end
from chain.transfer t where t.id = d.chain || ':' || d.txid || ':' || d.output_index;
update app.deposit set created_at = '2026-07-01 12:00:13Z' where status = 'reorged';
update app.payment_request set created_at = case external_id when 'acme-1001' then '2026-06-30 16:31:20Z'::timestamptz
    when 'acme-1002' then '2026-06-30 23:52:05Z' else '2026-06-30 23:58:41Z' end;
update app.payment_request set expires_at = created_at + interval '1 day';
select app.refresh_payment(id) from app.payment_request;
update app.payout set created_at = '2026-07-01 10:30:11Z', sweeping_at = '2026-07-01 10:30:12.1Z', swept_at = '2026-07-01 10:30:12.4Z',
  paying_at = '2026-07-01 10:30:12.5Z', finished_at = '2026-07-01 10:43:39Z' where chain = 'ETH';
update app.payout set created_at = '2026-07-01 11:15:00Z', waiting_since = '2026-07-01 11:15:01Z' where chain = 'POLYGON';
update app.outgoing_payment set created_at = '2026-07-01 10:30:13Z', final_at = '2026-07-01 10:43:39Z';
update chain.reorganisation set happened_at = '2026-07-01 12:00:25Z';
update chain.daily_blocks set day = '2026-07-01';
insert into app.incident (chain, kind, subject, details, opened_at, resolved_at, resolution) values
  ('ETH', 'unknown_transaction', 'ETH:0x3a3e6Cf8E4A7eE43Bd3dc2Aa9A4fD2E4ccC4a4A9', '{"txid": "0x5c504ed4", "nonce": 7}',
   '2026-07-01 13:02:10Z', '2026-07-01 13:40:25.5Z', 'kept');

-- Events and entries of the ledger are of the moment of what they are about.
update app.event e set created_at = case e.type
    when 'deposit.pending' then d.created_at when 'deposit.confirmed' then d.finalised_at else timestamptz '2026-07-01 12:00:25Z' end
from app.deposit d where d.id = e.subject_id;
update app.event e set created_at = p.finished_at from app.payout p where p.id = e.subject_id;
alter table app.ledger_entry disable trigger append_only;
update app.ledger_entry e set created_at = coalesce(
  (select max(d.finalised_at) from app.deposit d where 'finalisation:' || d.chain || ':' || d.finalisation = e.reference),
  (select case e.kind when 'claim' then p.created_at else p.finished_at end from app.payout p where p.id::text = e.reference),
  (select s.final_at from app.outgoing_payment s where s.id::text = e.reference));
alter table app.ledger_entry enable trigger append_only;

-- Nordwind's receiver took each event at the first attempt, but for the payout's, which it took at the third, and the
-- last one.
update app.delivery v set status = case when d.status = 'pending' then 'failed' else 'delivered' end, attempts = case e.type when 'payout.completed' then 3 else 1 end,
  next_attempt_at = null, created_at = e.created_at,
  finished_at = e.created_at + case e.type when 'payout.completed' then interval '41 seconds' else interval '120 milliseconds' end
from app.event e left join app.deposit d on d.id = e.subject_id where e.id = v.event_id;
insert into app.delivery_attempt (delivery_id, attempted_at, duration_ms, response_status, error)
select v.id, v.created_at + n * interval '10 seconds', 100 + 7 * n, case when n = v.attempts and v.status = 'delivered' then 204 else 503 end,
  case when n < v.attempts or v.status = 'failed' then 'HTTP 503' end
from app.delivery v cross join generate_series(1, v.attempts) n;

-- The totals of the ledger are of these times, too.
delete from app.total_change where series in ('deposit', 'payout', 'fee');
update app.total_backfill set last_entry = (select max(id) from app.ledger_entry);
select app.fold_totals();
commit;

-- As the jobs worker does.
do $$ begin while app.refresh_analytics() is not null loop end loop; end $$;
