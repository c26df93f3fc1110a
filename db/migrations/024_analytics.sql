-- What analysts read at any size: reorganisations are remembered, what is a sum over everything is materialised, and the rest has an index.
--
-- The indexes first, beside whoever writes: days of deposits, of one merchant and of all, and of spends. Ledger entries and events lie in the
-- order of their time, which takes no more than the bounds of each range of blocks. Waiting for old transactions to end keeps nobody else waiting, so there
-- is no hurry.
select set_config('sluice.lock_timeout', current_setting('lock_timeout'), false), set_config('lock_timeout', '0', false);

drop index concurrently if exists app.deposit_created;

create index concurrently deposit_created on app.deposit (merchant_id, created_at) where credited;

drop index concurrently if exists app.ledger_entry_created;

create index concurrently ledger_entry_created on app.ledger_entry using brin (created_at timestamptz_minmax_multi_ops) with (autosummarize = on);

drop index concurrently if exists app.event_created;

create index concurrently event_created on app.event using brin (created_at timestamptz_minmax_multi_ops) with (autosummarize = on);

drop index concurrently if exists app.spend_created;

create index concurrently spend_created on app.spend (created_at);

select set_config('lock_timeout', current_setting('sluice.lock_timeout'), false);

-- Transaction
-- Readers: sluice_analyst (docs/database.md), the command line (sluice export). Writers: chain.settle, which notes each reorganisation;
-- app.refresh_analytics, called by the jobs worker, which computes the materialised views anew.
--
-- Invariants: one row of chain.reorganisation for each change of chain.cursor.last_reorg_at, never changed or deleted; a materialised view
-- shows one moment, which analytics.freshness names, and never a part of a transaction; no statement of an analyst reads all of app.deposit
-- unless it asks for all of it. The rules of 008_analytics.sql hold for what is new here.

-- Reorganisations -----------------------------------------------------------------------------------------------------------------------

create table chain.reorganisation (
  id bigint primary key generated always as identity,
  chain text not null,
  happened_at timestamptz not null,
  depth int not null check (depth > 0),
  first_height int,
  old_head_hash text,
  new_head_hash text,
  deposits_reorged int
);
comment on table chain.reorganisation is 'Each time that blocks left a chain. Kept for ever.';
comment on column chain.reorganisation.id is 'Order of insertion.';
comment on column chain.reorganisation.chain is 'Chain code.';
comment on column chain.reorganisation.happened_at is 'When the indexer followed it.';
comment on column chain.reorganisation.depth is 'How many blocks left the chain.';
comment on column chain.reorganisation.first_height is 'Height of the lowest of them; null for one from before this was noted.';
comment on column chain.reorganisation.old_head_hash is 'Hash of the block that was the head before; null if it is not known.';
comment on column chain.reorganisation.new_head_hash is 'Hash of the block that was the head afterwards; null if it is not known.';
comment on column chain.reorganisation.deposits_reorged is 'How many credited deposits were in those blocks and in no block afterwards; null if it is not known.';

insert into chain.reorganisation (chain, happened_at, depth) select chain, last_reorg_at, last_reorg_depth from chain.cursor where last_reorg_depth > 0;

-- The credited deposits that wait for finality in these blocks. No plan is kept from when the table was small.
create function chain.pending_deposits(of_chain text, from_height int, hashes text[]) returns uuid[]
language sql stable set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
  select coalesce(array_agg(d.id), '{}') from app.deposit d
  where d.chain = of_chain and d.status = 'pending' and d.block_height >= from_height and d.block_hash = any(hashes) and d.credited
$$;

-- As in 005_deposits.sql, and besides: each reorganisation gets a row of its own, for which the blocks that left are looked at before settling.
create or replace function chain.settle() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
declare
  at chain.cursor;
  head chain.block;
  reorg_depth int;
  lowest int;
  gone_hashes text[];
  in_doubt uuid[];
begin
  select * into at from chain.cursor c where c.chain = new.chain for update;
  if at.chain is not null then
    -- The store would follow a fork below the final block, too, as far down as it can undo. That is for an operator to decide.
    perform from chain.block b where b.chain = new.chain and b.height = at.final_height and b.hash = at.final_hash;
    if not found then
      raise exception '%: its final block % (%) would leave the chain; nothing was written', new.chain, at.final_height, at.final_hash
        using errcode = 'P0003';
    end if;
    with gone as (delete from chain.dropped_block where txn = new.txn and chain = new.chain returning height, hash)
    select count(*), min(g.height), array_agg(g.hash) into reorg_depth, lowest, gone_hashes from gone g
    where g.height > at.final_height and not exists (
      select from chain.block b where b.id = new.chain || ':' || g.height and b.hash = g.hash
    );
    if reorg_depth > 0 then in_doubt := chain.pending_deposits(new.chain, lowest, gone_hashes); end if;
    perform chain.settle_transfers(new.chain);
    perform chain.promote(new.chain, at.final_height);
    select * into head from chain.block b where b.chain = new.chain order by b.height desc limit 1;
    update chain.cursor c set head_height = head.height, head_hash = head.hash, head_time = head.time, head_moved_at = clock_timestamp()
    where c.chain = new.chain and (c.head_height, c.head_hash) is distinct from (head.height, head.hash);
    if reorg_depth > 0 then
      with noted as (
        update chain.cursor c set last_reorg_at = clock_timestamp(), last_reorg_depth = reorg_depth where c.chain = new.chain
        returning c.last_reorg_at
      )
      insert into chain.reorganisation (chain, happened_at, depth, first_height, old_head_hash, new_head_hash, deposits_reorged)
      select new.chain, noted.last_reorg_at, reorg_depth, lowest, case when at.head_hash = any(gone_hashes) then at.head_hash end, head.hash,
        (select count(*) from app.deposit d where d.id = any(in_doubt) and d.status = 'reorged')
      from noted;
    end if;
  end if;
  delete from chain.touched_chain where txn = new.txn and chain = new.chain;
  return null;
end $$;

create view analytics.reorganisations with (security_barrier) as
select chain, happened_at, depth, first_height, old_head_hash, new_head_hash, deposits_reorged from chain.reorganisation;
comment on view analytics.reorganisations is 'One row for each time that blocks left a chain and others took their place.';
comment on column analytics.reorganisations.chain is 'Chain code.';
comment on column analytics.reorganisations.happened_at is 'When Sluice followed it.';
comment on column analytics.reorganisations.depth is 'How many blocks left the chain.';
comment on column analytics.reorganisations.first_height is 'Height of the lowest of them; null where that was not noted.';
comment on column analytics.reorganisations.old_head_hash is 'Hash of the newest block before; null where that is not known.';
comment on column analytics.reorganisations.new_head_hash is 'Hash of the newest block afterwards; null where that is not known.';
comment on column analytics.reorganisations.deposits_reorged is 'How many deposits were in no block afterwards. Those that another block holds now are not counted; null where that was not noted.';

-- Rows, found by an index ------------------------------------------------------------------------------------------------------------------

create function analytics.id(public_id text) returns uuid
language sql immutable parallel safe
return case when public_id ~ '^[a-z]{3}_[0-9a-f]{32}$' then right(public_id, 32)::uuid end;
comment on function analytics.id is 'The UUID in an id of the API, such as dep_0123...; null if it is none. A view is searched by it at once, and by the id as text only by reading all rows.';

create or replace view analytics.deposits with (security_barrier) as
select
  app.public_id('dep', d.id) as deposit_id,
  app.public_id('mer', d.merchant_id) as merchant_id, m.name as merchant_name, m.prefix as merchant_prefix,
  app.public_id('usr', d.user_id) as user_id, u.external_ref as user_external_ref,
  d.chain, d.token, analytics.coins(d.amount, a.decimals) as amount, d.amount as amount_base_units,
  d.status, d.sender, d.address, d.txid, d.output_index, d.block_height, d.block_hash,
  t.block_time, d.created_at, d.finalised_at, round(extract(epoch from d.finalised_at - t.block_time), 3) as seconds_to_final,
  app.public_id('pay', d.settlement_id) as settlement_id,
  d.id as deposit_uuid, d.settlement_id as settlement_uuid
from app.deposit d
join app.merchant m on m.id = d.merchant_id
join app.user u on u.id = d.user_id
join app.asset a on a.chain = d.chain and a.token = d.token
left join chain.transfer t
  on t.id = d.chain || ':' || d.txid || ':' || d.output_index and t.recipient = d.address and t.block_hash = d.block_hash
where d.credited;
comment on column analytics.deposits.deposit_uuid is 'deposit_id as a UUID, to search by: deposit_uuid = analytics.id(''dep_...'').';
comment on column analytics.deposits.settlement_uuid is 'settlement_id as a UUID, to search by: settlement_uuid = analytics.id(''pay_...''); null until a payout collected it.';

create view analytics.events with (security_barrier) as
select
  app.public_id('evt', e.id) as event_id, e.sequence, e.type,
  app.public_id('mer', e.merchant_id) as merchant_id, m.name as merchant_name, m.prefix as merchant_prefix,
  app.public_id(case split_part(e.type, '.', 1) when 'deposit' then 'dep' when 'payout' then 'pay' when 'webhook' then 'whe' else 'obj' end, e.subject_id) as subject_id,
  e.version, e.created_at, e.payload, e.subject_id as subject_uuid
from app.event e
join app.merchant m on m.id = e.merchant_id;
comment on view analytics.events is 'One row for each event that a merchant was, or is being, told of. Never changed, never deleted.';
comment on column analytics.events.event_id is 'Id of the event, as in webhooks and the API.';
comment on column analytics.events.sequence is 'Its number: who reads forward by it misses none. Gaps are allowed; null for a moment after it happened.';
comment on column analytics.events.type is 'Type, such as deposit.confirmed.';
comment on column analytics.events.merchant_id is 'Id of the merchant.';
comment on column analytics.events.merchant_name is 'Name of the merchant.';
comment on column analytics.events.merchant_prefix is 'The merchant''s account prefix.';
comment on column analytics.events.subject_id is 'Id of what changed, as in the API: a deposit, a payout, or the webhook endpoint that was tested.';
comment on column analytics.events.version is 'Which change of it: 1 for the first.';
comment on column analytics.events.created_at is 'When it happened.';
comment on column analytics.events.payload is 'What the merchant is told, but for the sequence. Amounts in it are strings.';
comment on column analytics.events.subject_uuid is 'subject_id as a UUID, to search by: subject_uuid = analytics.id(''dep_...'').';

create view analytics.payout_costs with (security_barrier) as
select
  app.public_id('pay', p.id) as payout_id,
  app.public_id('mer', p.merchant_id) as merchant_id, m.name as merchant_name, m.prefix as merchant_prefix,
  p.chain, p.token, p.status, p.created_at, p.finished_at,
  analytics.coins(p.gross, a.decimals) as gross, p.fee_bps, analytics.coins(case p.status when 'completed' then p.fee else 0 end, a.decimals) as fee_earned,
  n.token as network_fee_token, analytics.coins(s.payment, n.decimals) as payment_fee, analytics.coins(s.sweeps, n.decimals) as sweep_fees,
  analytics.coins(s.payment + s.sweeps, n.decimals) as network_fees, s.sweep_count, p.id as payout_uuid
from app.payout p
join app.merchant m on m.id = p.merchant_id
join app.asset a on a.chain = p.chain and a.token = p.token
join app.chain k on k.chain = p.chain
join app.asset n on n.chain = p.chain and n.token = k.native_token
cross join lateral (
  select coalesce(sum(s.fee_paid) filter (where s.kind = 'payout'), 0) as payment, coalesce(sum(s.fee_paid) filter (where s.kind = 'sweep'), 0) as sweeps,
    count(*) filter (where s.kind = 'sweep') as sweep_count
  from app.spend s where s.payout_id = p.id
) s;
comment on view analytics.payout_costs is 'One row for each payout: the service fee that it earned, and the network fees that it cost.';
comment on column analytics.payout_costs.payout_id is 'Id of the payout, as in the API.';
comment on column analytics.payout_costs.merchant_id is 'Id of the merchant.';
comment on column analytics.payout_costs.merchant_name is 'Name of the merchant.';
comment on column analytics.payout_costs.merchant_prefix is 'The merchant''s account prefix.';
comment on column analytics.payout_costs.chain is 'Chain code.';
comment on column analytics.payout_costs.token is 'Token code: what gross and fee_earned are counted in.';
comment on column analytics.payout_costs.status is 'As in analytics.payouts.';
comment on column analytics.payout_costs.created_at is 'When the merchant requested it.';
comment on column analytics.payout_costs.finished_at is 'When it was completed or failed; null while it is under way.';
comment on column analytics.payout_costs.gross is 'The balance that it collected, in whole coins, exact.';
comment on column analytics.payout_costs.fee_bps is 'The merchant''s fee rate when it was requested, in basis points.';
comment on column analytics.payout_costs.fee_earned is 'The service fee, in whole coins; 0 unless the payout is completed.';
comment on column analytics.payout_costs.network_fee_token is 'The native coin of the chain, in which network fees are counted.';
comment on column analytics.payout_costs.payment_fee is 'Network fee of the final transaction of its payment, whatever became of it, in whole native coins; 0 until it is final.';
comment on column analytics.payout_costs.sweep_fees is 'Network fees of the final sweeps that were made for it, in whole native coins.';
comment on column analytics.payout_costs.network_fees is 'The sum of the two. The operator bears it.';
comment on column analytics.payout_costs.sweep_count is 'Number of sweeps that were made for it. A sweep made without a payout, or for another one, costs this one nothing.';
comment on column analytics.payout_costs.payout_uuid is 'payout_id as a UUID, to search by: payout_uuid = analytics.id(''pay_...'').';

create or replace view analytics.unattributed with (security_barrier) as
select
  app.public_id('dep', d.id) as deposit_id,
  app.public_id('mer', d.merchant_id) as merchant_id, m.name as merchant_name, m.prefix as merchant_prefix,
  app.public_id('usr', d.user_id) as user_id, u.external_ref as user_external_ref,
  case when a.token is null then 'unsupported_token' when not w.is_provisioned then 'chain_not_requested' else 'enabled_later' end as reason,
  d.chain, d.token, analytics.coins(d.amount, a.decimals) as amount, d.amount as amount_base_units,
  d.status, d.sender, d.address, d.txid, d.output_index, d.block_height, d.created_at, d.finalised_at,
  o.decision, o.decided_at, o.destination as returned_to, s.txid as return_txid, s.final_at as returned_at
from app.deposit d
join app.merchant m on m.id = d.merchant_id
join app.user u on u.id = d.user_id
left join lateral ( -- looked up one by one: there are many more addresses than such rows
  select w.is_provisioned from app.address w where w.chain = d.chain and w.address = d.address and w.match_key in (d.address, lower(d.address)) limit 1
) w on true
left join app.asset a on a.chain = d.chain and a.token = d.token
left join app.unattributed_decision o on o.deposit_id = d.id
left join app.spend s on s.id = o.withdrawal_id and s.outcome = 'done'
where not d.credited;
comment on view analytics.unattributed is 'Value that reached an address of ours and counts for nobody: a token that is not supported, or a chain that the merchant did not ask an address for. Never part of a balance. What an operator credits leaves this view and is in analytics.deposits.';
comment on column analytics.unattributed.decision is 'return: an operator decided to send it back; null while nothing is decided.';
comment on column analytics.unattributed.decided_at is 'When that was decided.';
comment on column analytics.unattributed.returned_to is 'Address that it is sent to.';
comment on column analytics.unattributed.return_txid is 'The final transaction that sent it; null until then.';
comment on column analytics.unattributed.returned_at is 'When that was final; null until then.';

-- Sums over everything, materialised -------------------------------------------------------------------------------------------------------
-- Made without data, so that the migration of a large database takes no longer than that of a small one; the jobs worker fills them at once.

drop view analytics.daily_volume;
create materialized view analytics.daily_volume as
select
  v.day, app.public_id('mer', v.merchant_id) as merchant_id, m.name as merchant_name, m.prefix as merchant_prefix, v.chain, v.token,
  v.deposit_count, analytics.coins(v.amount, a.decimals) as amount, v.amount as amount_base_units,
  v.final_count, analytics.coins(v.final_amount, a.decimals) as final_amount
from (
  select (d.created_at at time zone 'UTC')::date as day, d.merchant_id, d.chain, d.token, count(*) as deposit_count, sum(d.amount) as amount,
    count(*) filter (where d.status = 'final') as final_count, coalesce(sum(d.amount) filter (where d.status = 'final'), 0) as final_amount
  from app.deposit d where d.credited and d.status <> 'reorged'
  group by 1, 2, 3, 4
) v
join app.merchant m on m.id = v.merchant_id
join app.asset a on a.chain = v.chain and a.token = v.token
with no data;
create unique index daily_volume_key on analytics.daily_volume (day, merchant_id, chain, token);
comment on materialized view analytics.daily_volume is 'Deposits of each UTC day by merchant, chain and token. Reorged deposits do not count; days without deposits have no row. As of the moment that analytics.freshness names.';
comment on column analytics.daily_volume.day is 'The day, in UTC, on which Sluice first saw the deposits (created_at). A deposit never moves to another day.';
comment on column analytics.daily_volume.merchant_id is 'Id of the merchant.';
comment on column analytics.daily_volume.merchant_name is 'Name of the merchant.';
comment on column analytics.daily_volume.merchant_prefix is 'The merchant''s account prefix.';
comment on column analytics.daily_volume.chain is 'Chain code.';
comment on column analytics.daily_volume.token is 'Token code.';
comment on column analytics.daily_volume.deposit_count is 'Number of deposits, pending and final.';
comment on column analytics.daily_volume.amount is 'Their sum in whole coins, exact.';
comment on column analytics.daily_volume.amount_base_units is 'The same sum as an integer in the smallest unit of the token.';
comment on column analytics.daily_volume.final_count is 'How many of them are final.';
comment on column analytics.daily_volume.final_amount is 'The sum of those, in whole coins; the rest is still pending.';

drop view analytics.time_to_finality;
create materialized view analytics.time_to_finality as
select
  (d.finalised_at at time zone 'UTC')::date as day, d.chain, count(*) as deposit_count,
  min(s.seconds) as seconds_min,
  percentile_disc(0.5) within group (order by s.seconds) as seconds_p50,
  percentile_disc(0.95) within group (order by s.seconds) as seconds_p95,
  max(s.seconds) as seconds_max
from app.deposit d
join chain.transfer t
  on t.id = d.chain || ':' || d.txid || ':' || d.output_index and t.recipient = d.address and t.block_hash = d.block_hash
cross join lateral (select round(extract(epoch from d.finalised_at - t.block_time), 3) as seconds) s
where d.credited and d.status = 'final'
group by 1, 2
with no data;
create unique index time_to_finality_key on analytics.time_to_finality (day, chain);
comment on materialized view analytics.time_to_finality is 'How long deposits took from the timestamp of their block until they were final, for each chain and UTC day. For other groups and longer times take percentiles of analytics.deposits.seconds_to_final: percentiles of days cannot be averaged. As of the moment that analytics.freshness names.';
comment on column analytics.time_to_finality.day is 'The day, in UTC, on which the deposits became final.';
comment on column analytics.time_to_finality.chain is 'Chain code.';
comment on column analytics.time_to_finality.deposit_count is 'Number of deposits.';
comment on column analytics.time_to_finality.seconds_min is 'The shortest time, in seconds.';
comment on column analytics.time_to_finality.seconds_p50 is 'The median: half of the deposits took at most this long, in seconds.';
comment on column analytics.time_to_finality.seconds_p95 is '95 of 100 deposits took at most this long, in seconds.';
comment on column analytics.time_to_finality.seconds_max is 'The longest time, in seconds. High after a standstill: what the indexer lagged is part of it.';

create materialized view analytics.daily_ledger as
select
  e.day, e.kind, e.account, e.chain, e.token,
  app.public_id('mer', e.merchant_id) as merchant_id, m.name as merchant_name, m.prefix as merchant_prefix,
  analytics.coins(e.amount, a.decimals) as amount, e.amount as amount_base_units, e.entry_count
from (
  select (created_at at time zone 'UTC')::date as day, kind, account, chain, token, merchant_id, sum(amount) as amount, count(*) as entry_count
  from app.ledger_entry group by 1, 2, 3, 4, 5, 6
) e
left join app.merchant m on m.id = e.merchant_id
left join app.asset a on a.chain = e.chain and a.token = e.token
with no data;
create unique index daily_ledger_key on analytics.daily_ledger (day, kind, account, chain, token, merchant_id);
comment on materialized view analytics.daily_ledger is 'The ledger summed up by UTC day, kind, account, chain, token and merchant. As of the moment that analytics.freshness names.';
comment on column analytics.daily_ledger.day is 'The day, in UTC, on which the entries were posted.';
comment on column analytics.daily_ledger.kind is 'What moved, as in analytics.ledger.';
comment on column analytics.daily_ledger.account is 'Account, as in analytics.ledger.';
comment on column analytics.daily_ledger.chain is 'Chain code.';
comment on column analytics.daily_ledger.token is 'Token code.';
comment on column analytics.daily_ledger.merchant_id is 'Id of the merchant; null for the operator''s own and for unattributed value.';
comment on column analytics.daily_ledger.merchant_name is 'Name of the merchant.';
comment on column analytics.daily_ledger.merchant_prefix is 'The merchant''s account prefix.';
comment on column analytics.daily_ledger.amount is 'Sum of the entries in whole coins, exact: debits positive, credits negative.';
comment on column analytics.daily_ledger.amount_base_units is 'The same sum as an integer in the smallest unit of the token.';
comment on column analytics.daily_ledger.entry_count is 'Number of entries.';

create view analytics.earnings with (security_barrier) as
select
  l.day, l.merchant_id, l.merchant_name, l.merchant_prefix, l.chain, l.token,
  trim_scale(-coalesce(sum(l.amount) filter (where l.account = 'fees'), 0)) as fees_earned,
  trim_scale(coalesce(sum(l.amount) filter (where l.account = 'network'), 0)) as network_costs
from analytics.daily_ledger l
where l.account in ('fees', 'network')
group by l.day, l.merchant_id, l.merchant_name, l.merchant_prefix, l.chain, l.token;
comment on view analytics.earnings is 'Service fees earned and network fees paid on each UTC day, by merchant, chain and token. Over analytics.daily_ledger, and as fresh.';
comment on column analytics.earnings.day is 'The day, in UTC, on which the payout was completed, or the transaction was final.';
comment on column analytics.earnings.merchant_id is 'Id of the merchant; null for the operator''s own withdrawals.';
comment on column analytics.earnings.merchant_name is 'Name of the merchant.';
comment on column analytics.earnings.merchant_prefix is 'The merchant''s account prefix.';
comment on column analytics.earnings.chain is 'Chain code.';
comment on column analytics.earnings.token is 'Token code. Fees are earned in the token of the payout; network fees are paid in the native coin, so they stand in its row.';
comment on column analytics.earnings.fees_earned is 'Service fees of completed payouts, in whole coins, exact.';
comment on column analytics.earnings.network_costs is 'Network fees of payments, sweeps and withdrawals, in whole coins, exact. The operator bears them.';

create or replace view analytics.merchant_totals with (security_barrier) as
select
  e.merchant_id, m.name as merchant_name, m.prefix as merchant_prefix, e.chain, e.token,
  trim_scale(e.received) as received, trim_scale(e.fees_earned) as fees_earned,
  trim_scale(e.paid_out) as paid_out, trim_scale(e.under_way + e.balance) as owed,
  trim_scale(e.under_way) as under_way, trim_scale(e.network_costs) as network_costs
from (
  select merchant_id, chain, token,
    -coalesce(sum(amount) filter (where account = 'merchant' and kind not in ('claim', 'release')), 0) as received,
    -coalesce(sum(amount) filter (where account = 'fees'), 0) as fees_earned,
    -coalesce(sum(amount) filter (where account = 'treasury' and kind = 'payout'), 0) as paid_out,
    -coalesce(sum(amount) filter (where account = 'payout'), 0) as under_way,
    -coalesce(sum(amount) filter (where account = 'merchant'), 0) as balance,
    coalesce(sum(amount) filter (where account = 'network'), 0) as network_costs
  from analytics.daily_ledger where merchant_id is not null group by merchant_id, chain, token
) e
join (select app.public_id('mer', id) as merchant_id, name, prefix from app.merchant) m on m.merchant_id = e.merchant_id;
comment on view analytics.merchant_totals is 'What each merchant received, was paid and is owed since the beginning, for each chain and token: received = fees_earned + paid_out + owed. Over analytics.daily_ledger, and as fresh; what is owed this very moment is in analytics.balances.';

create materialized view analytics.customer_cohorts as
with active as (
  select d.merchant_id, d.user_id, date_trunc('month', d.created_at at time zone 'UTC')::date as month, count(*) as deposits
  from app.deposit d where d.credited and d.status = 'final' group by 1, 2, 3
), counted as (
  select a.merchant_id, a.first_month, a.month, count(*) as users, sum(a.deposits)::bigint as deposits
  from (select *, min(month) over (partition by user_id) as first_month from active) a group by 1, 2, 3
)
select
  app.public_id('mer', c.merchant_id) as merchant_id, m.name as merchant_name, m.prefix as merchant_prefix, c.first_month as cohort_month,
  ((extract(year from c.month) - extract(year from c.first_month)) * 12 + extract(month from c.month) - extract(month from c.first_month))::int as months_later,
  first_value(c.users) over (partition by c.merchant_id, c.first_month order by c.month) as cohort_users,
  c.users as active_users, c.deposits as deposit_count
from counted c
join app.merchant m on m.id = c.merchant_id
with no data;
create unique index customer_cohorts_key on analytics.customer_cohorts (merchant_id, cohort_month, months_later);
comment on materialized view analytics.customer_cohorts is 'End users by the month of their first deposit, and how many of them paid again how many months later. Final deposits alone; months without any have no row. As of the moment that analytics.freshness names.';
comment on column analytics.customer_cohorts.merchant_id is 'Id of the merchant.';
comment on column analytics.customer_cohorts.merchant_name is 'Name of the merchant.';
comment on column analytics.customer_cohorts.merchant_prefix is 'The merchant''s account prefix.';
comment on column analytics.customer_cohorts.cohort_month is 'First day of the UTC month in which the users'' first final deposit was seen.';
comment on column analytics.customer_cohorts.months_later is 'How many calendar months after that month the row is about; 0 is the month itself.';
comment on column analytics.customer_cohorts.cohort_users is 'Number of users whose first deposit was in cohort_month.';
comment on column analytics.customer_cohorts.active_users is 'How many of them had a deposit in the month that the row is about.';
comment on column analytics.customer_cohorts.deposit_count is 'Number of deposits of those.';

create materialized view analytics.address_utilisation as
select
  app.public_id('mer', w.merchant_id) as merchant_id, m.name as merchant_name, m.prefix as merchant_prefix, w.chain,
  count(*) as addresses, count(h.address) as used_addresses, round(count(h.address)::numeric / count(*), 4) as used_share,
  count(*) filter (where h.is_holding) as holding_addresses, count(r.address) as recent_addresses
from app.address w
join app.merchant m on m.id = w.merchant_id
left join (select chain, address, bool_or(amount > 0) as is_holding from app.holding group by chain, address) h on h.chain = w.chain and h.address = w.address
left join (
  select distinct chain, address from app.deposit where credited and status = 'final' and created_at > now() - interval '30 days'
) r on r.chain = w.chain and r.address = w.address
where w.is_provisioned and w.user_id is not null
group by w.merchant_id, m.name, m.prefix, w.chain
with no data;
create unique index address_utilisation_key on analytics.address_utilisation (merchant_id, chain);
comment on materialized view analytics.address_utilisation is 'How many of the addresses that merchants asked for were ever paid, for each merchant and chain. As of the moment that analytics.freshness names.';
comment on column analytics.address_utilisation.merchant_id is 'Id of the merchant.';
comment on column analytics.address_utilisation.merchant_name is 'Name of the merchant.';
comment on column analytics.address_utilisation.merchant_prefix is 'The merchant''s account prefix.';
comment on column analytics.address_utilisation.chain is 'Chain code.';
comment on column analytics.address_utilisation.addresses is 'Addresses that were handed out for this chain, one for each user.';
comment on column analytics.address_utilisation.used_addresses is 'How many of them ever received a deposit that became final.';
comment on column analytics.address_utilisation.used_share is 'used_addresses / addresses, rounded to four digits.';
comment on column analytics.address_utilisation.holding_addresses is 'How many of them hold something now that no sweep has taken.';
comment on column analytics.address_utilisation.recent_addresses is 'How many of them received a final deposit in the last 30 days.';

create materialized view analytics.delivery_health as
select
  (d.created_at at time zone 'UTC')::date as day,
  app.public_id('mer', w.merchant_id) as merchant_id, m.name as merchant_name, m.prefix as merchant_prefix, app.public_id('whe', w.id) as endpoint_id,
  count(*) as delivery_count, count(*) filter (where d.status = 'delivered') as delivered_count,
  count(*) filter (where d.status = 'delivered' and d.attempts = 1) as first_try_count,
  count(*) filter (where d.status = 'failed') as failed_count, count(*) filter (where d.status = 'pending') as pending_count,
  round((percentile_disc(0.5) within group (order by extract(epoch from d.finished_at - d.created_at)) filter (where d.status = 'delivered'))::numeric, 3) as seconds_p50,
  round((percentile_disc(0.95) within group (order by extract(epoch from d.finished_at - d.created_at)) filter (where d.status = 'delivered'))::numeric, 3) as seconds_p95
from app.delivery d
join app.webhook_endpoint w on w.id = d.endpoint_id
join app.merchant m on m.id = w.merchant_id
group by 1, w.merchant_id, m.name, m.prefix, w.id
with no data;
create unique index delivery_health_key on analytics.delivery_health (day, endpoint_id);
comment on materialized view analytics.delivery_health is 'How webhooks went, for each endpoint and UTC day, as far back as deliveries are kept. As of the moment that analytics.freshness names.';
comment on column analytics.delivery_health.day is 'The day, in UTC, of the events.';
comment on column analytics.delivery_health.merchant_id is 'Id of the merchant.';
comment on column analytics.delivery_health.merchant_name is 'Name of the merchant.';
comment on column analytics.delivery_health.merchant_prefix is 'The merchant''s account prefix.';
comment on column analytics.delivery_health.endpoint_id is 'Id of the endpoint, as in the API. Its URL is not for analysts.';
comment on column analytics.delivery_health.delivery_count is 'Number of deliveries: events that this endpoint is told of.';
comment on column analytics.delivery_health.delivered_count is 'How many of them were accepted.';
comment on column analytics.delivery_health.first_try_count is 'How many of those at the first attempt; one that was asked for again counts from there.';
comment on column analytics.delivery_health.failed_count is 'How many were given up.';
comment on column analytics.delivery_health.pending_count is 'How many are still being tried.';
comment on column analytics.delivery_health.seconds_p50 is 'The median of the seconds from an event to its delivery; null if none was delivered.';
comment on column analytics.delivery_health.seconds_p95 is '95 of 100 were delivered within so many seconds.';

-- Their refresh ------------------------------------------------------------------------------------------------------------------------------

create table app.analytics_refresh (
  view_name text primary key,
  refreshed_at timestamptz,
  took_seconds double precision,
  due_at timestamptz not null default '-infinity',
  failed_at timestamptz,
  error text
);
comment on table app.analytics_refresh is 'The materialised views of analytics: what moment each shows, and when it is computed anew.';
comment on column app.analytics_refresh.view_name is 'Name of the view.';
comment on column app.analytics_refresh.refreshed_at is 'It shows what was committed at this moment; null before the first time.';
comment on column app.analytics_refresh.took_seconds is 'How long it took to compute.';
comment on column app.analytics_refresh.due_at is 'When it is computed again: the longer it takes, the later.';
comment on column app.analytics_refresh.failed_at is 'When computing it failed; null if it succeeded the last time.';
comment on column app.analytics_refresh.error is 'Why it failed.';
insert into app.analytics_refresh (view_name)
select relname from pg_class where relnamespace = 'analytics'::regnamespace and relkind = 'm';

-- Of several callers one works. A view is computed beside its readers, who see the old rows until then; the first time, when there is nothing
-- to see, they wait.
create function app.refresh_analytics(at_least interval default '1 minute', share double precision default 0.02) returns text
language plpgsql security definer set search_path = pg_catalog as $$
declare
  of_view text;
  began timestamptz;
  problem text;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('app.refresh_analytics', 0)) then return null; end if;
  select view_name into of_view from app.analytics_refresh where due_at <= clock_timestamp() order by due_at, view_name limit 1;
  if of_view is null then return null; end if;
  began := clock_timestamp();
  begin
    execute format('refresh materialized view %s analytics.%I',
      case when (select relispopulated from pg_class where oid = to_regclass(format('analytics.%I', of_view))) then 'concurrently' else '' end, of_view);
  exception when others or query_canceled then -- a time limit of the server cancels, and would cancel the same view again and again
    problem := sqlerrm;
  end;
  update app.analytics_refresh r set
    refreshed_at = case when problem is null then began else r.refreshed_at end,
    took_seconds = case when problem is null then extract(epoch from clock_timestamp() - began) else r.took_seconds end,
    due_at = clock_timestamp() + greatest(at_least, (clock_timestamp() - began) / share),
    failed_at = case when problem is not null then clock_timestamp() end, error = problem
  where r.view_name = of_view;
  return of_view;
end $$;
comment on function app.refresh_analytics is 'Computes the materialised view of analytics that is due first anew, and returns its name; null if none is due, or somebody else is at it. Each takes at most a share of the time.';
grant execute on function app.refresh_analytics to sluice_jobs;

create view analytics.freshness with (security_barrier) as
select view_name, refreshed_at, round(extract(epoch from now() - refreshed_at), 3) as age_seconds, took_seconds, due_at, failed_at
from app.analytics_refresh;
comment on view analytics.freshness is 'How old the materialised views are. Every other view is computed as it is read.';
comment on column analytics.freshness.view_name is 'Name of the view.';
comment on column analytics.freshness.refreshed_at is 'The moment whose state it shows; null before it was computed for the first time.';
comment on column analytics.freshness.age_seconds is 'Seconds since then.';
comment on column analytics.freshness.took_seconds is 'How long it took to compute.';
comment on column analytics.freshness.due_at is 'When it will be computed again: a view takes at most a fiftieth of the time.';
comment on column analytics.freshness.failed_at is 'When computing it failed; null if it succeeded the last time. The log of the database says why.';

grant select on all tables in schema analytics to sluice_analyst;
grant execute on function analytics.id to sluice_analyst;
