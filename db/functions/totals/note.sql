-- Notes what changes a merchant's totals (app.running_total), in the transaction that causes it: triggers on the ledger, on changes of balances, on the
-- fee of a merchant, on payouts, on payment requests and on deliveries. How long deposits took to be final is noted where they become it
-- (deposits/finalise.sql), and attempts to deliver that failed where they are stored (webhooks/attempts.sql).
--
-- Promises: a movement has the time of its entry of the ledger. What a payout claims is its net and its fee, and comes back as these if it fails; what
-- was paid after all (app.decide_second_payment) is an adjustment.
-- Locks: none. The rows are new ones, so that two changes never wait for each other.

lock table app.payout, app.merchant, app.payment_request, app.balance_delta, app.ledger_entry, app.delivery in share row exclusive mode;

-- A version without these triggers may have run on this schema: what it did is in the ledger, and the totals are made of that again.
do $$ begin
  if exists (select from pg_trigger where tgname = 'note_postings' and tgrelid = 'app.ledger_entry'::regclass) then return; end if;
  delete from app.running_total where series in ('deposit', 'deposit_lost', 'payout', 'fee', 'adjustment', 'balance', 'held_back', 'fee_bps');
  delete from app.total_change where series in ('deposit', 'deposit_lost', 'payout', 'fee', 'adjustment', 'balance', 'held_back', 'fee_bps');
  delete from app.total_backfill;
  -- Of what was taken back without being noted: the posting at its address whose deposits fall short by as much, the newest one.
  insert into app.taken_back (deposit_id, merchant_id, chain, token, finalisation, amount)
  select d.id, d.merchant_id, d.chain, d.token, split_part(p.reference, ':', 3)::bigint, r.amount
  from app.ledger_entry r
  join app.deposit d on d.id = r.reference::uuid
  cross join lateral (
    select e.reference from app.ledger_entry e
    where e.kind = 'deposit' and e.account = 'address' and e.chain = d.chain and e.token = d.token and e.address = d.address and e.id < r.id
      and e.merchant_id = d.merchant_id and starts_with(e.reference, 'finalisation:')
      and e.amount >= r.amount + (select coalesce(sum(o.amount), 0) from app.deposit o where o.chain = d.chain and o.token = d.token
        and o.address = d.address and o.status = 'final' and o.credited and o.finalisation = split_part(e.reference, ':', 3)::bigint)
    order by e.id desc limit 1) p
  where r.kind = 'reorg' and r.account = 'merchant'
    and not exists (select from app.ledger_entry o where o.kind = 'deposit' and o.reference = r.reference)
    and not exists (select from app.taken_back t where t.deposit_id = d.id)
  on conflict do nothing;
end $$;

-- A payout's claim has its gross, and a release gives it back. One of another amount, with its reference, is no claim of it.
create or replace function app.movement_parts(kind text, reference text, amount numeric) returns table (part int, type text, amount numeric)
language sql stable set search_path = pg_catalog rows 2 as $$
  select p.part, p.type, p.amount from (select) one
  left join app.payout o on o.gross = abs(movement_parts.amount)
    and o.id = case when movement_parts.kind in ('claim', 'release') then movement_parts.reference::uuid end
  cross join lateral (values
    (0, case movement_parts.kind when 'deposit' then 'deposit' when 'reorg' then 'deposit_lost' else 'adjustment' end,
      case when o.id is null then -movement_parts.amount else 0 end),
    (1, 'payout', -sign(movement_parts.amount) * o.net), (2, 'fee', -sign(movement_parts.amount) * o.fee)) p (part, type, amount)
  where p.amount <> 0
$$;
comment on function app.movement_parts is 'How an entry of the account of a merchant changes its balance, by kind, in base units: below zero for what leaves.';

create or replace function app.note_postings() returns trigger
language plpgsql set search_path = pg_catalog as $$
begin
  insert into app.total_change (merchant_id, series, about, at, count, amount)
  select a.merchant_id, p.type, a.chain || ':' || a.token, a.created_at, count(*), sum(p.amount)
  from added a cross join lateral app.movement_parts(a.kind, a.reference, a.amount) p
  where a.account = 'merchant' group by a.merchant_id, p.type, a.chain, a.token, a.created_at;
  return null;
end $$;
comment on function app.note_postings is 'Trigger: notes what new entries of the ledger change.';
create or replace trigger note_postings after insert on app.ledger_entry
  referencing new table as added for each statement execute function app.note_postings();

create or replace function app.note_balances() returns trigger
language plpgsql set search_path = pg_catalog as $$
begin
  insert into app.total_change (merchant_id, series, about, at, count, amount)
  select a.merchant_id, s.series, a.chain || ':' || a.token, app.posting_time(), s.count, s.amount
  from (select merchant_id, chain, token, sum(amount) as amount, sum(deposit_count) as deposit_count, sum(held_back) as held_back,
    sum(held_back_count) as held_back_count from added group by merchant_id, chain, token) a
  cross join lateral (values ('balance', a.deposit_count, a.amount), ('held_back', a.held_back_count, a.held_back)) s (series, count, amount)
  where s.count <> 0 or s.amount <> 0;
  return null;
end $$;
comment on function app.note_balances is 'Trigger: notes what changes of balances change.';
create or replace trigger note_balances after insert on app.balance_delta
  referencing new table as added for each statement execute function app.note_balances();

create or replace function app.note_fee() returns trigger
language plpgsql set search_path = pg_catalog as $$
begin
  insert into app.total_change (merchant_id, series, about, at, count, amount)
  values (new.id, 'fee_bps', '', app.posting_time(), 0, new.fee_bps - case when tg_op = 'UPDATE' then old.fee_bps else 0 end);
  return null;
end $$;
comment on function app.note_fee is 'Trigger: notes the fee of a merchant.';
create or replace trigger note_fee after insert or update of fee_bps on app.merchant for each row execute function app.note_fee();

-- Without this trigger, payouts were completed and not noted.
do $$ begin
  if exists (select from pg_trigger where tgname = 'note_paid' and tgrelid = 'app.payout'::regclass) then return; end if;
  delete from app.running_total where series = 'paid';
  delete from app.total_change where series = 'paid';
  insert into app.total_change (merchant_id, series, about, at, count, amount)
  select p.merchant_id, 'paid', p.chain || ':' || p.token, app.end_of_quarter(p.finished_at) - interval '15 minutes', count(*), sum(p.net)
  from app.payout p where p.status = 'completed' group by p.merchant_id, p.chain, p.token, app.end_of_quarter(p.finished_at);
end $$;

create or replace function app.note_paid() returns trigger
language plpgsql set search_path = pg_catalog as $$
begin
  insert into app.total_change (merchant_id, series, about, at, count, amount)
  values (new.merchant_id, 'paid', new.chain || ':' || new.token, app.posting_time(), 1, new.net);
  return null;
end $$;
comment on function app.note_paid is 'Trigger: notes a payout that is completed.';
create or replace trigger note_paid after update of status on app.payout for each row
  when (new.status = 'completed' and old.status <> 'completed') execute function app.note_paid();

create or replace function app.note_requests() returns trigger
language plpgsql set search_path = pg_catalog as $$
begin
  if tg_op = 'UPDATE' then
    insert into app.total_change (merchant_id, series, about, at, count, amount) values (new.merchant_id, 'requests', old.status, app.posting_time(), -1, 0);
  else
    insert into app.total_change (merchant_id, series, about, at, count, amount) values (new.merchant_id, 'requests', 'made', app.posting_time(), 1, 0);
  end if;
  insert into app.total_change (merchant_id, series, about, at, count, amount) values (new.merchant_id, 'requests', new.status, app.posting_time(), 1, 0);
  return null;
end $$;
comment on function app.note_requests is 'Trigger: notes a payment request that was made, or has another status.';
create or replace trigger note_made after insert on app.payment_request for each row execute function app.note_requests();
create or replace trigger note_status after update of status on app.payment_request for each row
  when (new.status <> old.status) execute function app.note_requests();

-- What has ended is changed only to be sent again. (Without the rows before: joining these was quadratic.)
create or replace function app.note_deliveries() returns trigger
language plpgsql set search_path = pg_catalog as $$
begin
  insert into app.total_change (merchant_id, series, about, at, count, amount)
  select w.merchant_id, case a.status when 'delivered' then 'delivered' else 'undelivered' end, app.public_id('whe', w.id), app.posting_time(), count(*),
    sum(greatest(0, extract(epoch from a.finished_at - a.created_at) * 1000))::bigint
  from after a join app.webhook_endpoint w on w.id = a.endpoint_id where a.status <> 'pending' group by w.merchant_id, a.status, w.id;
  return null;
end $$;
comment on function app.note_deliveries is 'Trigger: notes deliveries that ended.';
create or replace trigger note_deliveries after update on app.delivery
  referencing new table as after for each statement execute function app.note_deliveries();

-- The triggers wait for the transactions that write to these tables: what is there now was there before them. The ledger has what the balances were
-- (app.backfill_totals), but not of how many deposits, nor what was held back.
insert into app.total_change (merchant_id, series, about, at, count, amount)
select b.merchant_id, s.series, b.chain || ':' || b.token, app.posting_time(), s.count, s.amount
from (select merchant_id, chain, token, sum(deposit_count) as deposit_count, sum(held_back) as held_back, sum(held_back_count) as held_back_count
  from (select merchant_id, chain, token, deposit_count, held_back, held_back_count from app.balance
    union all select merchant_id, chain, token, deposit_count, held_back, held_back_count from app.balance_delta) p
  group by merchant_id, chain, token) b
cross join lateral (values ('balance', b.deposit_count, 0), ('held_back', b.held_back_count, b.held_back)) s (series, count, amount)
where (s.count <> 0 or s.amount <> 0) and not exists (select from app.total_backfill)
union all
select m.id, 'fee_bps', '', app.posting_time(), 0, m.fee_bps from app.merchant m where not exists (select from app.total_backfill);
insert into app.total_backfill (done_up_to, last_entry, since)
select 0, coalesce(max(id), 0), case when max(id) is null then '-infinity' else app.posting_time() end from app.ledger_entry
on conflict do nothing;
