-- Addresses that a chain does not let a token leave (app.blocked_address). The worker blocks one when its sweep is refused at the final block, and that of
-- an address known to be good is not (jobs/payouts/evm/refusals.ts). Final deposits that are there are held back, claimed or not, so a
-- payout that had claimed them fails before its payment begins, and the next one pays everything else. Once a day the worker asks again.
--
-- Invariants: a blocked address is not swept. Money that was swept before is not held back. Nothing is blocked for ever: when the chain lets go, when
-- a sweep is final after all, or when an operator says so, what was collectable before is collectable again, with the chain's newest number.
-- The worker may block any deposit address: it could leave it unswept just as well. What it lies about is asked again after a day at the latest.
-- Locks: chain.cursor, then those of allocation (payouts/allocate.sql), the pair of the address's merchant, deposits.

create or replace function app.is_blocked(of_chain text, of_token text, of_address text) returns boolean
language sql stable set search_path = pg_catalog as $$
  select exists (select from app.blocked_address b where b.chain = of_chain and b.token = of_token and b.address = of_address)
$$;
comment on function app.is_blocked is 'Whether an address is not swept because the chain refuses it.';
grant execute on function app.is_blocked to sluice_jobs;

-- No claim of the pair may be under way: it would miss what is held back meanwhile. Payouts that are completed keep their deposits, also if their
-- money is still on the address: the operator has advanced it.
create or replace function app.block_address(of_chain text, of_token text, of_address text, of_why text) returns boolean
language plpgsql security definer set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
declare
  merchant uuid;
  holds numeric;
begin
  select a.merchant_id into merchant from custody.address a join app.chain c on c.family = a.family
  where a.address = of_address and c.chain = of_chain and c.native_token <> of_token;
  if merchant is null then return false; end if;
  perform from chain.cursor c where c.chain = of_chain for update;
  insert into app.blocked_address (chain, token, address, why) values (of_chain, of_token, of_address, of_why) on conflict do nothing;
  if not found then return false; end if;
  insert into app.incident (kind, subject, details)
  values ('address_blocked', of_chain || ':' || of_token || ':' || of_address,
    jsonb_build_object('chain', of_chain, 'token', of_token, 'address', of_address, 'why', of_why))
  on conflict do nothing;
  update app.delegation d set return_at = least(d.return_at, clock_timestamp()) where d.chain = of_chain and d.address = of_address;
  perform app.allocate_all_deposits(merchant, of_chain, of_token); -- takes its lock before that of the pair, which a claim may be waiting for
  perform app.lock_pair(merchant, of_chain, of_token);
  perform app.allocate_all_deposits(merchant, of_chain, of_token); -- claims that were made meanwhile
  select coalesce(sum(h.amount), 0) into holds from app.holding h where h.chain = of_chain and h.address = of_address and h.token = of_token;
  with there as (
    select d.id, sum(d.amount) over (order by d.finalisation desc, d.seq desc) as with_newer from app.deposit d
    where d.chain = of_chain and d.token = of_token and d.address = of_address and d.status = 'final' and d.credited
  ), held as (
    update app.deposit d set held_back = true, released = coalesce(d.released, d.finalisation)
    from there t where d.id = t.id and t.with_newer <= holds and not d.held_back
      and not exists (select from app.payout p where p.id = d.settlement_id and p.status = 'completed')
    returning d.amount, d.settlement_id
  )
  insert into app.balance_delta (merchant_id, chain, token, amount, deposit_count, held_back, held_back_count)
  select merchant, of_chain, of_token, 0, 0, sum(amount), count(*) from held where settlement_id is null having count(*) > 0;
  perform app.wake_payout(p.id) from app.payout p
  where p.merchant_id = merchant and p.chain = of_chain and p.token = of_token and p.status in ('pending', 'sweeping', 'swept') order by p.id;
  return true;
end $$;
comment on function app.block_address is 'Blocks a deposit address for a token, with an incident, and holds back the final deposits that are there. False if it is blocked already, or cannot be: only a token of a chain whose node can be asked again. Safe to run again.';
grant execute on function app.block_address to sluice_jobs;

create or replace function app.unblock(of_chain text, of_token text, of_address text, how text) returns boolean
language plpgsql set search_path = pg_catalog as $$
begin
  perform from chain.cursor c where c.chain = of_chain for update;
  delete from app.blocked_address b where b.chain = of_chain and b.token = of_token and b.address = of_address;
  if not found then return false; end if;
  update app.incident i set resolved_at = clock_timestamp(), resolution = how
  where i.kind = 'address_blocked' and i.subject = of_chain || ':' || of_token || ':' || of_address and i.resolved_at is null;
  perform app.release_held_back(of_chain, array[of_address], array[of_token]);
  return true;
end $$;
comment on function app.unblock is 'Ends the blocking of an address: payouts can collect its deposits again. how: the resolution of its incident. False if it was not blocked.';

create or replace function app.unblock_address(of_chain text, of_token text, of_address text) returns boolean
language sql security definer set search_path = pg_catalog as $$
  select app.unblock(of_chain, of_token, of_address, 'healed')
$$;
comment on function app.unblock_address is 'Ends the blocking of an address that the chain lets go. False if it was not blocked. Safe to run again.';
grant execute on function app.unblock_address to sluice_jobs;

-- A node that cannot be asked, at most until a day has passed, does not keep others from being asked.
create or replace function app.keep_blocked(of_chain text, of_token text, of_address text, of_why text, retry_ms int default 86400000) returns void
language plpgsql security definer set search_path = pg_catalog as $$
begin
  update app.blocked_address b set why = coalesce(of_why, b.why),
    retry_at = clock_timestamp() + least(retry_ms * interval '1 millisecond', interval '1 day')
  where b.chain = of_chain and b.token = of_token and b.address = of_address;
  update app.incident i set details = i.details || jsonb_build_object('why', of_why)
  where i.kind = 'address_blocked' and i.subject = of_chain || ':' || of_token || ':' || of_address and i.resolved_at is null
    and i.details ->> 'why' <> of_why;
end $$;
comment on function app.keep_blocked is 'Notes that a blocked address is still refused, and why (null: that could not be asked); the node is asked again after this time, at most a day.';
grant execute on function app.keep_blocked to sluice_jobs;

create or replace function app.has_blocked_deposits(of_payout uuid) returns boolean
language sql stable security definer set search_path = pg_catalog as $$
  select exists (
    select from app.payout p join app.blocked_address b on b.chain = p.chain and b.token = p.token
    join app.deposit d on d.chain = b.chain and d.token = b.token and d.address = b.address and d.held_back and d.settlement_id = p.id
    where p.id = of_payout)
$$;
comment on function app.has_blocked_deposits is 'Whether a payout has claimed deposits that are on a blocked address now.';
grant execute on function app.has_blocked_deposits to sluice_jobs;
