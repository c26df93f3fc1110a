-- Finds the deposits of a payout that an older copy of the database has forgotten, and that custody's journal brought back (custody.reconcile).
-- Triggers look for them at COMMIT: when a payout is recovered, when deposits become final, when an allocation ends.
--
-- A recovered payout exists with a credit of its gross, and its merchant owes as much, because its deposits were recorded nowhere else. But a payout
-- collects everything that is final. So this searches for a point in the order in which the pair's deposits and adjustments became final: those
-- that were collectable and unclaimed up to this point add up to the payout's gross, and are allocated to it. If there is no such point, allocating would
-- be a guess. Then nothing is allocated, and the deposits that the gross covers, the oldest first, are marked (settled_before_restore).
-- Invariants: the deposits and adjustments of a payout that is allocated here add up to its gross (P0003); no balance changes by it.
-- Locks: pair, allocation, deposits.

-- Safe to run at any time: the result follows only from what is final and unclaimed.
create or replace function app.find_recovered_deposits(of_merchant uuid, of_chain text, of_token text) returns void
language plpgsql set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
declare at record;
begin
  perform from app.adjustment a where a.merchant_id = of_merchant and a.chain = of_chain and a.token = of_token
    and a.settlement_id is null and a.reason = 'payout_recovered' and a.amount < 0;
  if not found then return; end if;
  perform app.lock_pair(of_merchant, of_chain, of_token);
  perform pg_advisory_xact_lock(hashtextextended('allocate:' || of_merchant || ':' || of_chain || ':' || of_token, 0));
  perform from app.claim c where c.merchant_id = of_merchant and c.chain = of_chain and c.token = of_token and c.finished_at is null;
  if found then return; end if; -- what seems unclaimed may be claimed; the end of that allocation calls this again
  loop
    select r.payout_id, r.debt_id, t.number, t.height, t.with_held_back into at
    from app.open_recovered(of_merchant, of_chain, of_token) with ordinality r (payout_id, gross, debt_id, adjusted, n)
    join (
      select h.with_held_back, u.number, u.height, sum(sum(u.amount)) over (partition by h.with_held_back order by u.number, u.height) as total
      from unnest(array[false, true]) h (with_held_back)
      cross join lateral app.unclaimed_deposits(of_merchant, of_chain, of_token, h.with_held_back) u group by h.with_held_back, u.number, u.height
    ) t on t.total + r.adjusted = r.gross order by t.with_held_back, r.n limit 1;
    exit when at.payout_id is null;
    perform app.give_recovered_deposits(at.payout_id, at.debt_id, at.number, at.height, at.with_held_back);
  end loop;
  update app.deposit d set settled_before_restore = true
  from (
    select u.id, sum(u.amount) over (order by u.number, u.height) as total from app.unclaimed_deposits(of_merchant, of_chain, of_token, false) u
  ) o, (
    select sum(r.gross) - max(r.adjusted) as covered, max(uuid_extract_timestamp(r.payout_id)) as last_claim_at
    from app.open_recovered(of_merchant, of_chain, of_token) r
  ) r
  where d.id = o.id and not d.settled_before_restore and o.total <= r.covered and not exists (select from chain.transfer t
    where t.id = d.chain || ':' || d.txid || ':' || d.output_index and t.block_time > r.last_claim_at);
end $$;
comment on function app.find_recovered_deposits is 'Finds and allocates the deposits of recovered payouts of a merchant, chain and token; if none are found, marks those that the gross covers.';

create or replace function app.give_recovered_deposits(of_payout uuid, debt uuid, to_number bigint, to_height int, with_held_back boolean) returns void
language plpgsql set search_path = pg_catalog as $$
declare
  p app.payout;
  recovered_at timestamptz;
  allocated record;
begin
  select * into strict p from app.payout o where o.id = of_payout;
  select a.created_at into strict recovered_at from app.adjustment a where a.settlement_id = p.id and a.reason = 'payout_recovered';
  with taken as (
    select o.id, o.held_back from app.unclaimed_deposits(p.merchant_id, p.chain, p.token, with_held_back) u join app.deposit o on o.id = u.id
    where (u.number, u.height) <= (to_number, to_height)
  ), done as (
    update app.deposit d set settlement_id = p.id, settled_before_restore = false, held_back = false
    from taken t where d.id = t.id returning d.amount, t.held_back
  )
  select count(*) as n, sum(amount) as amount, coalesce(sum(amount) filter (where held_back), 0) as held_back, count(*) filter (where held_back) as held_back_count
  into allocated from done;
  update app.adjustment a set settlement_id = p.id
  where a.id = debt or (a.merchant_id = p.merchant_id and a.chain = p.chain and a.token = p.token and a.settlement_id is null
    and a.reason <> 'payout_recovered' and a.created_at < recovered_at);
  if (select sum(a.amount) from app.adjustment a where a.settlement_id = p.id) + allocated.amount <> p.gross then
    raise exception 'the deposits of payout % do not add up to its gross', p.id using errcode = 'P0003';
  end if;
  update app.claim c set cutoff = to_number, deposit_count = allocated.n, amount = allocated.amount, done_count = allocated.n, done_amount = allocated.amount
  where c.payout_id = p.id and c.kind = 'claim';
  insert into app.balance_delta (merchant_id, chain, token, amount, deposit_count, held_back, held_back_count)
  values (p.merchant_id, p.chain, p.token, 0, -allocated.n, -allocated.held_back, -allocated.held_back_count);
end $$;
comment on function app.give_recovered_deposits is 'Allocates a recovered payout''s deposits, up to a point, and its adjustments, including its debt.';

-- Deposits that were too small by themselves became collectable in the block that brought their address to the minimum. An older copy may read many
-- blocks at once, so within a number the place is that block's, as far as the address's deposits in it say. What is held back counts only for the second
-- search: the minimum may have been lower when the payout claimed it.
create or replace function app.unclaimed_deposits(of_merchant uuid, of_chain text, of_token text, with_held_back boolean)
  returns table (id uuid, number bigint, height int, amount numeric)
language sql stable set search_path = pg_catalog as $$
  select id, number, greatest(block_height, min(block_height) filter (where so_far >= sweep_min) over (partition by address, number)), amount
  from (
    select d.id, d.number, d.block_height, d.address, d.amount, a.sweep_min,
      sum(d.amount) over (partition by d.address, d.number order by d.block_height, d.seq) as so_far
    from (select *, coalesce(o.released, o.finalisation) as number from app.deposit o) d join app.asset a on a.chain = d.chain and a.token = d.token
    where d.merchant_id = of_merchant and d.chain = of_chain and d.token = of_token and d.status = 'final' and d.credited
      and d.settlement_id is null and (with_held_back or not d.held_back)
  ) d
$$;
comment on function app.unclaimed_deposits is 'What a payout of a merchant, chain and token would claim now, or could have claimed with a lower minimum, with the place of each in the order in which payouts could claim it: its number, then the block.';

-- Debts of equal amount are interchangeable: any one is taken.
create or replace function app.open_recovered(of_merchant uuid, of_chain text, of_token text)
  returns table (payout_id uuid, gross numeric, debt_id uuid, adjusted numeric)
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
comment on function app.open_recovered is 'Recovered payouts of a merchant, chain and token whose deposits are not known, the oldest first, each with a debt of its gross and the sum of the other adjustments that it collected.';

-- At COMMIT, because other code that reads settlement_id in the same transaction (chain.finalise_deposits, for lost deposits that are back) has read
-- it by then. When an allocation ended, its lock is held already, though the pair's lock comes first in the order: so the pair's lock is not waited
-- for.
create or replace function app.note_recovered() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
begin
  if tg_table_name = 'adjustment' or pg_try_advisory_xact_lock(hashtextextended('pair:' || new.merchant_id || ':' || new.chain || ':' || new.token, 0)) then
    perform app.find_recovered_deposits(new.merchant_id, new.chain, new.token);
  end if;
  return null;
end $$;
comment on function app.note_recovered is 'Trigger: looks for deposits of recovered payouts, because one was recovered, or an allocation that held this up has ended.';
create constraint trigger find_recovered_deposits after insert on app.adjustment deferrable initially deferred for each row
  when (new.reason = 'payout_recovered' and new.amount < 0) execute function app.note_recovered();
create constraint trigger find_recovered_deposits after update of finished_at on app.claim deferrable initially deferred for each row
  when (old.finished_at is null and new.finished_at is not null) execute function app.note_recovered();

create or replace function app.note_finalisation() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
begin
  perform app.find_recovered_deposits(pair.merchant_id, new.chain, pair.token) from (
    select distinct a.merchant_id, a.token from app.adjustment a
    where a.chain = new.chain and a.settlement_id is null and a.reason = 'payout_recovered' and a.amount < 0 order by 1, 2) pair;
  return null;
end $$;
comment on function app.note_finalisation is 'Trigger: looks for deposits of recovered payouts of a chain, because deposits became final.';
create constraint trigger find_recovered_deposits after update of finalisation on chain.cursor deferrable initially deferred for each row
  when (new.finalisation > old.finalisation) execute function app.note_finalisation();
