-- What payouts had collected that an older copy of the database has forgotten, and that custody's journal brought back (014_reconcile.sql).
--
-- Such a payout is there with a credit of its gross, and its merchant owes as much, because nobody wrote down which deposits it had collected. But
-- a payout collects everything that is final: where its gross is the sum of all deposits and adjustments of its pair that were final and
-- unclaimed up to one point in the order in which they became final, these are the ones, and are stamped with it. That is looked at whenever a
-- recovered payout, or a final deposit of the pair, comes. Where no such point is found, which ones they were would be a guess: nothing is
-- stamped, and of the deposits that its gross covers, the oldest first, it is told that they were settled before the restore.
--
-- Writers: the triggers here alone. Invariants: a stamped payout's deposits and adjustments add up to its gross; no balance changes by it.
-- Locks, after those of 011_payouts.sql: pair, stamping, deposits.

alter table app.deposit add column if not exists settled_before_restore boolean not null default false;

drop index concurrently if exists app.adjustment_recovered;

create index concurrently adjustment_recovered on app.adjustment (merchant_id, chain, token) where reason = 'payout_recovered' and settlement_id is null;

-- Transaction
comment on column app.deposit.settled_before_restore is 'True if a payout covers it that an older copy of the database had forgotten, and nobody can tell which deposits that collected: the balance owes it no more.';

-- Recovered payouts of a pair whose deposits are not known, and what they collected besides. A debt belongs to none of those of the same amount
-- more than to another.
create function app.open_recovered(of_merchant uuid, of_chain text, of_token text) returns table (payout_id uuid, gross numeric, debt_id uuid, adjusted numeric)
language sql stable set search_path = pg_catalog as $$
  select p.id, p.gross, o.id, coalesce((select sum(a.amount) from app.adjustment a where a.merchant_id = of_merchant and a.chain = of_chain
      and a.token = of_token and a.settlement_id is null and a.reason <> 'payout_recovered' and a.created_at < r.created_at), 0)
  from app.payout p
  join app.adjustment r on r.settlement_id = p.id and r.reason = 'payout_recovered' and r.amount = p.gross
  cross join lateral (select a.id from app.adjustment a where a.merchant_id = of_merchant and a.chain = of_chain and a.token = of_token
    and a.settlement_id is null and a.reason = 'payout_recovered' and a.amount = -p.gross order by a.id limit 1) o
  where p.merchant_id = of_merchant and p.chain = of_chain and p.token = of_token
    and not exists (select from app.adjustment a where a.settlement_id = p.id and a.reason = 'payout_recovered' and a.amount < 0)
  order by p.created_at, p.id
$$;

-- The deposits of a payout, up to a point, and what follows for whoever looks at them.
create function app.stamp_recovered(of_payout uuid, debt uuid, to_promotion bigint, to_height int) returns void
language plpgsql set search_path = pg_catalog as $$
declare
  p app.payout;
  recovered_at timestamptz;
  stamped record;
begin
  select * into strict p from app.payout o where o.id = of_payout;
  select a.created_at into strict recovered_at from app.adjustment a where a.settlement_id = p.id and a.reason = 'payout_recovered';
  with done as (
    update app.deposit d set settlement_id = p.id, settled_before_restore = false
    where d.merchant_id = p.merchant_id and d.chain = p.chain and d.token = p.token and d.status = 'final' and d.credited
      and d.settlement_id is null and (d.promotion, d.block_height) <= (to_promotion, to_height) returning d.amount
  )
  select count(*) as n, sum(amount) as amount into stamped from done;
  update app.adjustment a set settlement_id = p.id
  where a.id = debt or (a.merchant_id = p.merchant_id and a.chain = p.chain and a.token = p.token and a.settlement_id is null
    and a.reason <> 'payout_recovered' and a.created_at < recovered_at);
  if (select sum(a.amount) from app.adjustment a where a.settlement_id = p.id) + stamped.amount <> p.gross then
    raise exception 'the deposits of payout % do not add up to it', p.id using errcode = 'P0003';
  end if;
  update app.claim c set cutoff = to_promotion, deposit_count = stamped.n, amount = stamped.amount, done_count = stamped.n, done_amount = stamped.amount
  where c.payout_id = p.id and c.kind = 'claim';
  insert into app.balance_delta (merchant_id, chain, token, amount, deposit_count) values (p.merchant_id, p.chain, p.token, 0, -stamped.n);
end $$;

-- Safe to run at any time: what it finds follows from what is final and unclaimed alone.
create function app.settle_recovered(of_merchant uuid, of_chain text, of_token text) returns void
language plpgsql set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
declare at record;
begin
  perform from app.adjustment a where a.merchant_id = of_merchant and a.chain = of_chain and a.token = of_token
    and a.settlement_id is null and a.reason = 'payout_recovered' and a.amount < 0;
  if not found then return; end if;
  perform app.lock_pair(of_merchant, of_chain, of_token);
  perform pg_advisory_xact_lock(hashtextextended('stamp:' || of_merchant || ':' || of_chain || ':' || of_token, 0));
  perform from app.claim c where c.merchant_id = of_merchant and c.chain = of_chain and c.token = of_token and c.finished_at is null;
  if found then return; end if; -- what looks unclaimed is not; the end of that calls this again
  loop
    select r.payout_id, r.debt_id, t.promotion, t.block_height into at
    from app.open_recovered(of_merchant, of_chain, of_token) with ordinality r (payout_id, gross, debt_id, adjusted, n)
    join (
      select d.promotion, d.block_height, sum(sum(d.amount)) over (order by d.promotion, d.block_height) as total from app.deposit d
      where d.merchant_id = of_merchant and d.chain = of_chain and d.token = of_token and d.status = 'final' and d.credited
        and d.settlement_id is null group by d.promotion, d.block_height
    ) t on t.total + r.adjusted = r.gross order by r.n limit 1;
    exit when at.payout_id is null;
    perform app.stamp_recovered(at.payout_id, at.debt_id, at.promotion, at.block_height);
  end loop;
  update app.deposit d set settled_before_restore = true
  from (
    select o.id, o.promotion, o.block_height, sum(o.amount) over (order by o.promotion, o.block_height) as total from app.deposit o
    where o.merchant_id = of_merchant and o.chain = of_chain and o.token = of_token and o.status = 'final' and o.credited and o.settlement_id is null
  ) o, (
    select sum(r.gross) - max(r.adjusted) as covered, max(uuid_extract_timestamp(r.payout_id)) as last_claim_at
    from app.open_recovered(of_merchant, of_chain, of_token) r
  ) r
  where d.id = o.id and not d.settled_before_restore and o.total <= r.covered and not exists (select from chain.transfer t
    where t.id = d.chain || ':' || d.txid || ':' || d.output_index and t.block_time > r.last_claim_at);
end $$;

-- All of them at COMMIT: what reads settlement_id in the same transaction (chain.promote, of what was lost and is back) has read it by then.

-- A payout was recovered; or the stamping ended that held this up, where the stamping's lock is held already, so nobody is waited for.
create function app.note_recovered() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
begin
  if tg_table_name = 'adjustment' or pg_try_advisory_xact_lock(hashtextextended('pair:' || new.merchant_id || ':' || new.chain || ':' || new.token, 0)) then
    perform app.settle_recovered(new.merchant_id, new.chain, new.token);
  end if;
  return null;
end $$;
create constraint trigger settle_recovered after insert on app.adjustment deferrable initially deferred for each row
  when (new.reason = 'payout_recovered' and new.amount < 0) execute function app.note_recovered();
create constraint trigger settle_recovered after update of finished_at on app.claim deferrable initially deferred for each row
  when (old.finished_at is null and new.finished_at is not null) execute function app.note_recovered();

-- Deposits became final.
create function app.note_promotion() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
begin
  perform app.settle_recovered(pair.merchant_id, new.chain, pair.token) from (
    select distinct a.merchant_id, a.token from app.adjustment a
    where a.chain = new.chain and a.settlement_id is null and a.reason = 'payout_recovered' and a.amount < 0 order by 1, 2) pair;
  return null;
end $$;
create constraint trigger settle_recovered after update of promotion on chain.cursor deferrable initially deferred for each row
  when (new.promotion > old.promotion) execute function app.note_promotion();

-- What analysts read --------------------------------------------------------------------------------------------------------------------------------

-- As in 024_analytics.sql, and besides: settled_before_restore.
create or replace view analytics.deposits with (security_barrier) as
select
  app.public_id('dep', d.id) as deposit_id,
  app.public_id('mer', d.merchant_id) as merchant_id, m.name as merchant_name, m.prefix as merchant_prefix,
  app.public_id('usr', d.user_id) as user_id, u.external_ref as user_external_ref,
  d.chain, d.token, analytics.coins(d.amount, a.decimals) as amount, d.amount as amount_base_units,
  d.status, d.sender, d.address, d.txid, d.output_index, d.block_height, d.block_hash,
  t.block_time, d.created_at, d.finalised_at, round(extract(epoch from d.finalised_at - t.block_time), 3) as seconds_to_final,
  app.public_id('pay', d.settlement_id) as settlement_id,
  d.id as deposit_uuid, d.settlement_id as settlement_uuid, d.settled_before_restore
from app.deposit d
join app.merchant m on m.id = d.merchant_id
join app.user u on u.id = d.user_id
join app.asset a on a.chain = d.chain and a.token = d.token
left join chain.transfer t
  on t.id = d.chain || ':' || d.txid || ':' || d.output_index and t.recipient = d.address and t.block_hash = d.block_hash
where d.credited;
comment on column analytics.deposits.settled_before_restore is 'True if a payout covers it that was forgotten in a restore, and nobody can tell which deposits that collected; then it is owed no more, though settlement_id is null or names a later payout.';

-- As in 028_payment_views.sql, and besides: settled_before_restore.
create or replace view analytics.payment_receipts with (security_barrier) as
select
  app.public_id('dep', c.deposit_id) as deposit_id, c.payment_request_id as payment_request_uuid, c.external_id,
  app.public_id('mer', c.merchant_id) as merchant_id, m.name as merchant_name, m.prefix as merchant_prefix,
  c.chain, c.token, analytics.coins(c.amount, a.decimals) as amount, c.amount as amount_base_units, c.status, c.late,
  c.sender, c.address, c.txid, c.output_index, c.block_height, c.created_at, c.finalised_at,
  app.public_id('pay', c.settlement_id) as settlement_id, c.deposit_id as deposit_uuid, c.settlement_id as settlement_uuid,
  (select d.settled_before_restore from app.deposit d where d.id = c.deposit_id) as settled_before_restore
from app.receipt c
join app.merchant m on m.id = c.merchant_id
join app.asset a on a.chain = c.chain and a.token = c.token;
comment on column analytics.payment_receipts.settled_before_restore is 'True if a payout covers it that was forgotten in a restore, and nobody can tell which deposits that collected; then it is owed no more, though settlement_id is null or names a later payout.';
