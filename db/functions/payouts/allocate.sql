-- Allocation: writes a payout into the deposits that it claimed, and removes it when the payout failed. Claims and releases change the balance at
-- once (create.sql, fail.sql) and are carried out here: up to a hundred deposits of a claim in the request itself, everything else by the task
-- allocate_deposits.
--
-- Invariants: claims and releases of a pair (merchant, chain, token) are carried out strictly in the order in which they changed the balance. So
-- each finds exactly the deposits that were in its sum, whatever else became final, was claimed or was released meanwhile. If count and sum do not
-- match, it stops (P0003).
-- Locks, of each pair: one for claims, releases and adjustments of its balance (app.lock_pair), then one for allocation, then deposits.

-- A caller that comes while another one allocates has nothing to do (unless `wait`), so requests never wait for a long allocation. Sorting is
-- allowed here; the API's role otherwise runs without it.
create or replace function app.allocate_deposits(of_merchant uuid, of_chain text, of_token text, batch int, wait boolean default false) returns boolean
language plpgsql security definer set search_path = pg_catalog set plan_cache_mode = force_custom_plan set enable_sort = on as $$
declare
  lock bigint := hashtextextended('allocate:' || of_merchant || ':' || of_chain || ':' || of_token, 0);
  op app.claim;
  found_count bigint;
  found_amount numeric;
  at record;
begin
  if wait then perform pg_advisory_xact_lock(lock);
  elsif not pg_try_advisory_xact_lock(lock) then return true;
  end if;
  select * into op from app.claim c
  where c.merchant_id = of_merchant and c.chain = of_chain and c.token = of_token and c.finished_at is null order by c.id limit 1;
  if op.id is null then return false; end if;

  if op.kind = 'claim' then
    with next as materialized (
      select d.id, coalesce(d.released, d.finalisation) as number, d.seq, d.amount from app.deposit d
      where d.merchant_id = of_merchant and d.chain = of_chain and d.token = of_token and d.status = 'final' and d.credited and not d.held_back
        and d.settlement_id is null and coalesce(d.released, d.finalisation) <= op.cutoff
        and (coalesce(d.released, d.finalisation), d.seq) > (op.last_finalisation, op.last_seq)
      order by coalesce(d.released, d.finalisation), d.seq limit batch
    ), allocated as (
      update app.deposit d set settlement_id = op.payout_id from next n where d.id = n.id
    )
    select count(*) as n, coalesce(sum(amount), 0) as amount, max(array[number, seq]) as last from next into at;
  else
    with next as materialized (
      select d.id, d.seq, d.amount from app.deposit d
      where d.settlement_id = op.payout_id and d.seq > op.last_seq order by d.seq limit batch
    ), allocated as (
      update app.deposit d set settlement_id = null from next n where d.id = n.id
    )
    select count(*) as n, coalesce(sum(amount), 0) as amount, max(array[0::bigint, seq]) as last from next into at;
  end if;

  update app.claim c set done_count = c.done_count + at.n, done_amount = c.done_amount + at.amount,
    last_finalisation = coalesce(at.last[1], c.last_finalisation), last_seq = coalesce(at.last[2], c.last_seq),
    finished_at = case when at.n < batch then clock_timestamp() end
  where c.id = op.id returning c.done_count, c.done_amount into found_count, found_amount;
  if at.n < batch and (found_count, found_amount) <> (op.deposit_count, op.amount) then
    raise exception 'the % of payout % must have % deposits (%), but % (%) were found', op.kind, op.payout_id, op.deposit_count, op.amount,
      found_count, found_amount using errcode = 'P0003';
  end if;
  return at.n = batch or exists (select from app.claim c
    where c.merchant_id = of_merchant and c.chain = of_chain and c.token = of_token and c.finished_at is null);
end $$;
comment on function app.allocate_deposits is 'Carries out the oldest claim or release of a merchant, chain and token that is not finished, up to batch deposits of it; true if there may be more to do. Safe to run at any time and in several places.';
grant execute on function app.allocate_deposits to sluice_jobs;

-- For an operator's decisions, which must know the payout of a deposit.
create or replace function app.allocate_all_deposits(of_merchant uuid, of_chain text, of_token text) returns void
language plpgsql set search_path = pg_catalog as $$
begin
  while app.allocate_deposits(of_merchant, of_chain, of_token, 50000, true) loop null; end loop;
end $$;
comment on function app.allocate_all_deposits is 'Carries out every claim and release of a merchant, chain and token, in the caller''s transaction.';

create or replace function app.wake_allocation(p app.payout) returns void
language sql set search_path = pg_catalog as $$
  select app.enqueue('allocate_deposits', json_build_object('merchant_id', p.merchant_id, 'chain', p.chain, 'token', p.token),
    'allocate:' || p.merchant_id || ':' || p.chain || ':' || p.token)
$$;
comment on function app.wake_allocation is 'Adds the job that allocates the deposits of a payout''s merchant, chain and token.';

create or replace function app.lock_pair(of_merchant uuid, of_chain text, of_token text) returns void
language sql set search_path = pg_catalog as $$
  select pg_advisory_xact_lock(hashtextextended('pair:' || of_merchant || ':' || of_chain || ':' || of_token, 0))
$$;
comment on function app.lock_pair is 'Locks the balance of a merchant, chain and token, until the end of the transaction, against other claims, releases and adjustments.';
