-- Which final deposits a payout can collect. Every final deposit is in the balance. It is held back (app.deposit.held_back) until it is worth a sweep:
-- until the final money on its address, less what a sweep under way takes, reaches the asset's minimum (app.asset.sweep_min), or it was swept. On
-- chains with outputs each output is compared by itself, because each is an input of its own.
--
-- Called when deposits become final, when a sweep ends, when an operator credits a deposit, and when the minimum is set. Payouts claim exactly the
-- deposits that are not held back (payouts/create.sql, payouts/allocate.sql). What is on a blocked address is held back, too (addresses/block.sql).
-- Invariants: a deposit that was collectable is never held back again, whatever is swept, taken back or set afterwards, and today's fees change
-- nothing; only blocking its address does. It then has the chain's newest number (app.deposit.released), which is above the cutoff of every claim made before. The balance's
-- held_back is the sum of the unclaimed deposits that are held back, at every COMMIT.
-- Locks: the caller holds chain.cursor; then pairs of merchants whose payouts had claimed what was held back later, and deposits.

-- max_fee counts where the address itself pays for its sweep.
create or replace function app.leaving(of_chain text) returns table (address text, token text, amount numeric)
language sql stable set search_path = pg_catalog as $$
  select s.source, s.token, sum(s.amount + case when s.fee_payer = s.source and not s.from_gas then s.max_fee else 0 end) from app.outgoing_payment s
  where s.chain = of_chain and s.status <> 'final' and s.kind in ('sweep', 'cancel') and s.merchant_id is not null group by s.source, s.token
$$;
comment on function app.leaving is 'What sweeps and cancels under way take from addresses of merchants, in base units.';

create or replace function app.unswept(of_chain text, of_address text, of_token text) returns numeric
language sql stable set search_path = pg_catalog as $$
  select coalesce((select h.amount from app.holding h where h.chain = of_chain and h.address = of_address and h.token = of_token), 0)
    - coalesce((select l.amount from app.leaving(of_chain) l where l.address = of_address and l.token = of_token), 0)
$$;
comment on function app.unswept is 'Final, credited money on an address that no sweep under way takes, in base units.';

create or replace function app.collectable_amount(of_chain text, of_address text, of_token text) returns numeric
language sql stable security definer set search_path = pg_catalog as $$
  select coalesce((select h.amount from app.holding h where h.chain = of_chain and h.address = of_address and h.token = of_token), 0)
    - coalesce((select sum(d.amount) from app.deposit d
      where d.held_back and d.chain = of_chain and d.token = of_token and d.address = of_address), 0)
$$;
comment on function app.collectable_amount is 'The part of the final, credited money on an address that is not held back, in base units. As long as there is some, the address may be swept, and custody signs that (at fees that are worth it).';
grant execute on function app.collectable_amount to sluice_jobs, sluice_custody;

create or replace function app.missing_to_collect(d app.deposit) returns numeric
language sql stable set search_path = pg_catalog as $$
  select a.sweep_min - case when app.uses_outputs(d.chain) then d.amount else app.unswept(d.chain, d.address, d.token) end
  from app.asset a where d.held_back and a.chain = d.chain and a.token = d.token and not app.is_blocked(d.chain, d.token, d.address)
$$;
comment on function app.missing_to_collect is 'How much more must become final on the address of a deposit that is held back until payouts can collect it, in base units; on chains with outputs, how much its output is below the minimum. Null for others, and on a blocked address.';

create or replace function app.held_back_of(d app.deposit) returns json
language sql stable security definer set search_path = pg_catalog as $$
  select json_build_object('reason', case when missing is null then 'address_blocked' else 'below_minimum' end,
    'minimum', case when missing is not null then app.decimal(a.sweep_min, a.decimals) end, 'missing', app.decimal(missing, a.decimals))
  from app.asset a, app.missing_to_collect(d) missing where d.held_back and d.settlement_id is null and a.chain = d.chain and a.token = d.token
$$;
comment on function app.held_back_of is 'What merchants see of a deposit that is held back: why, and, unless its address is blocked, the minimum and what is missing, in whole coins. Null for others.';
grant execute on function app.held_back_of to sluice_api;

create or replace function app.why_held_back(of_merchant uuid, of_chain text, of_token text, held numeric) returns text
language sql stable security definer set search_path = pg_catalog as $$
  select concat_ws(', and ', case when held > b.amount then app.decimal(held - b.amount, a.decimals) || ' ' || of_token || ' is held back, '
      || case when app.uses_outputs(of_chain) then 'in outputs of less than ' else 'on addresses with less to sweep than ' end
      || app.decimal(a.sweep_min, a.decimals) || ' ' || of_token end,
    case when b.amount > 0 then app.decimal(b.amount, a.decimals) || ' ' || of_token || ' is held back, on addresses that the chain does not let it leave now' end)
  from app.asset a, (
    select least(coalesce(sum(d.amount), 0), held) as amount from app.blocked_address b
    join app.deposit d on d.chain = b.chain and d.token = b.token and d.address = b.address and d.held_back and d.merchant_id = of_merchant
    left join app.payout p on p.id = d.settlement_id
    where b.chain = of_chain and b.token = of_token and coalesce(p.status = 'failed', true)) b
  where a.chain = of_chain and a.token = of_token and held > 0
$$;
comment on function app.why_held_back is 'Why this much of a merchant''s balance (in base units) is held back, for people; null if nothing is.';

-- What was swept first was there first. Of a blocked address, only what was swept is freed. (An address holds less than nothing only where a final deposit was taken back after its sweep.) Without a number,
-- the chain's next one is taken, if there is anything to do. What a payout had claimed before anything was held back is in the balance only once that
-- payout has failed; its merchant's pair is locked, so that it does not fail meanwhile.
create or replace function app.release_held_back(of_chain text, addresses text[], tokens text[], number bigint default null) returns void
language plpgsql set search_path = pg_catalog set random_page_cost = 1.1 as $$
declare
  held app.deposit[];
  ids uuid[];
begin
  select array_agg(d) into held from (select distinct p.address, p.token from unnest(addresses, tokens) as p (address, token)) p
  cross join lateral (
    select * from app.deposit d where d.held_back and d.chain = of_chain and d.token = p.token and d.address = p.address offset 0
  ) d;
  if held is null then return; end if;
  with leaving as materialized (
    select * from app.leaving(of_chain)
  ), place as (
    select p.address, p.token, a.sweep_min, coalesce(h.amount, 0) as holds, coalesce(h.amount, 0) - coalesce(l.amount, 0) as unswept,
      app.is_blocked(of_chain, p.token, p.address) as is_blocked
    from (select distinct d.address, d.token from unnest(held) d) p
    join app.asset a on a.chain = of_chain and a.token = p.token
    left join app.holding h on h.chain = of_chain and h.address = p.address and h.token = p.token
    left join leaving l on l.address = p.address and l.token = p.token
  ), small as (
    select d.*, sum(d.amount) over (partition by d.address, d.token order by d.finalisation desc, d.seq desc) as with_newer from unnest(held) d
  )
  select array_agg(d.id) into ids from small d join place p using (address, token)
  where not p.is_blocked and (d.amount >= p.sweep_min or d.released is not null) or case
    when app.uses_outputs(of_chain) then exists (
      select from app.output u where u.chain = of_chain and u.txid = d.txid and u.vout = d.output_index and u.spent_by is not null)
    else not p.is_blocked and p.unswept >= p.sweep_min or (d.with_newer > p.holds and p.holds >= 0) end;
  if ids is null then return; end if;
  if number is null then update chain.cursor c set finalisation = c.finalisation + 1 where c.chain = of_chain returning c.finalisation into number; end if;
  perform app.lock_pair(d.merchant_id, of_chain, d.token) from (
    select distinct d.merchant_id, d.token from unnest(held) d where d.settlement_id is not null order by 1, 2) d;
  with freed as (
    update app.deposit d set held_back = false, released = number where d.id = any(ids) and d.held_back
    returning d.merchant_id, d.token, d.amount, d.settlement_id
  )
  insert into app.balance_delta (merchant_id, chain, token, amount, deposit_count, held_back, held_back_count)
  select f.merchant_id, of_chain, f.token, 0, 0, -sum(f.amount), -count(*) from freed f
  where f.settlement_id is null or exists (select from app.payout p where p.id = f.settlement_id and p.status = 'failed')
  group by f.merchant_id, f.token;
end $$;
comment on function app.release_held_back is 'Makes deposits that are held back on these addresses collectable, where they are so now. The arrays are parallel. Safe to run at any time.';

create or replace function app.release_after_sweep(s app.outgoing_payment) returns void
language plpgsql set search_path = pg_catalog as $$
begin
  if app.uses_outputs(s.chain) then
    perform app.release_held_back(s.chain, array_agg(u.address), array_agg(s.token)) from app.output u where u.outgoing_payment_id = s.id;
  elsif s.kind in ('sweep', 'cancel') then
    perform app.release_held_back(s.chain, array[s.source], array[s.token]);
  end if;
end $$;
comment on function app.release_after_sweep is 'Makes collectable what a payment that has ended swept, or no longer takes from its address. Called when that is posted.';

-- A lower minimum makes more collectable; a higher one changes nothing that is. The first one is set in a database from before there was any: what
-- no sweep would bring is held back then, also of payouts under way, so that one that fails does not give it back as collectable.
create or replace function app.set_sweep_min(of_chain text, of_token text, of_amount numeric) returns void
language plpgsql set search_path = pg_catalog as $$
declare before numeric;
begin
  perform from chain.cursor c where c.chain = of_chain for update;
  select a.sweep_min into before from app.asset a where a.chain = of_chain and a.token = of_token for no key update;
  if not found or before is not distinct from of_amount then return; end if;
  update app.asset a set sweep_min = of_amount where a.chain = of_chain and a.token = of_token;
  if before is null then
    perform app.hold_back(of_chain, of_token, of_amount);
  elsif of_amount < before then
    perform app.release_held_back(of_chain, array_agg(d.address), array_agg(of_token)) from app.deposit d
    where d.held_back and d.chain = of_chain and d.token = of_token;
  end if;
end $$;
comment on function app.set_sweep_min is 'Sets the least amount of an asset that is worth a sweep, in base units, and with it what is held back.';

-- No claim of these pairs may be under way: it would miss what is held back meanwhile.
create or replace function app.hold_back(of_chain text, of_token text, below numeric) returns void
language plpgsql set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
declare
  has_outputs boolean := app.uses_outputs(of_chain);
  merchant uuid;
begin
  for merchant in
    select d.merchant_id from app.deposit d
    where d.status = 'final' and d.credited and d.settlement_id is null and not d.held_back and d.chain = of_chain and d.token = of_token
      and d.amount < below
    union
    select p.merchant_id from app.payout p where p.chain = of_chain and p.token = of_token and p.status not in ('completed', 'failed')
    union
    select c.merchant_id from app.claim c where c.chain = of_chain and c.token = of_token and c.finished_at is null
    order by 1
  loop
    perform app.lock_pair(merchant, of_chain, of_token);
    perform app.allocate_all_deposits(merchant, of_chain, of_token);
  end loop;
  with leaving as materialized (
    select * from app.leaving(of_chain)
  ), small as (
    select d.id, d.chain, d.address, d.token, d.txid, d.output_index,
      sum(d.amount) over (partition by d.address order by d.finalisation desc, d.seq desc) as with_newer
    from (
      select d.* from app.deposit d
      where d.status = 'final' and d.credited and d.settlement_id is null and not d.held_back and d.chain = of_chain and d.token = of_token
      union all
      select d.* from app.payout p join app.deposit d on d.settlement_id = p.id
      where p.chain = of_chain and p.token = of_token and p.status not in ('completed', 'failed') and d.status = 'final'
    ) d where d.amount < below
  ), held as (
    update app.deposit d set held_back = true
    from small s left join app.holding h on h.chain = s.chain and h.address = s.address and h.token = s.token
    left join leaving l on l.address = s.address and l.token = s.token
    where d.id = s.id and case
      when has_outputs then exists (select from app.output u where u.chain = s.chain and u.txid = s.txid and u.vout = s.output_index and u.spent_by is null)
      else s.with_newer <= h.amount and h.amount - coalesce(l.amount, 0) < below end
    returning d.merchant_id, d.amount, d.settlement_id
  )
  insert into app.balance_delta (merchant_id, chain, token, amount, deposit_count, held_back, held_back_count)
  select merchant_id, of_chain, of_token, 0, 0, sum(amount), count(*) from held where settlement_id is null group by merchant_id;
end $$;
comment on function app.hold_back is 'Holds back the deposits that are not worth a sweep, in a database from before any were.';
