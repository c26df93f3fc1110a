-- Sweeps that failed, on chains with accounts: why, and when the address is tried again. A cause may pass by itself, so no payout gives an address up;
-- and each try may cost a network fee, so an address is tried less and less often, whichever payouts ask for it.
--
-- Locks: none.

create or replace function app.why_failed(s app.outgoing_payment) returns text
language sql stable set search_path = pg_catalog as $$
  select case s.outcome
    when 'reverted' then 'its transaction was mined, and failed'
    when 'conflicted' then 'another transaction took its place'
    when 'expired' then 'no block took its transaction before it expired' || coalesce('; the node said: ' || (
      select o.broadcast_error from app.outgoing_attempt o where o.outgoing_payment_id = s.id and o.broadcast_error is not null order by o.attempt desc limit 1), '')
    when 'cancelled' then coalesce(s.failure, 'it was given up') end
$$;
comment on function app.why_failed is 'Why an outgoing payment that has ended had no effect, in words for operators; null if it had.';

-- At once after a first failure, a minute after the second, then after eight times as long each time: six times a day. One that expired cost nothing, and
-- took minutes by itself: its address is tried again at once.
create or replace function app.sweep_failures(of_chain text, of_token text, of_address text, out failures int, out failure text, out retry_at timestamptz)
language sql stable set search_path = pg_catalog as $$
  select count(*)::int, (array_agg(app.why_failed(s) order by s.final_at desc))[1],
    max(s.final_at) + least(case when count(*) filter (where costs) < 2 then 0 else 8 ^ least(count(*) filter (where costs) - 2, 9) end
      * interval '1 minute', interval '1 day')
  from app.outgoing_payment s cross join lateral (select s.outcome <> 'expired' as costs) c
  where s.kind = 'sweep' and s.merchant_id is not null and s.chain = of_chain and s.token = of_token and s.source = of_address and s.outcome <> 'done'
    and s.final_at > clock_timestamp() - interval '1 day' and not exists (
      select from app.outgoing_payment d
      where d.kind = 'sweep' and d.merchant_id is not null and d.chain = s.chain and d.token = s.token and d.source = s.source and d.outcome = 'done'
        and d.final_at >= s.final_at)
$$;
comment on function app.sweep_failures is 'The sweeps of an address that failed within a day and after the last one that did not: how many, why the newest one, and when the address may be swept again.';

create or replace function app.is_sweep_due(of_chain text, of_token text, of_address text) returns boolean
language sql stable security definer set search_path = pg_catalog as $$
  select f.failures = 0 or f.retry_at <= clock_timestamp() from app.sweep_failures(of_chain, of_token, of_address) f
$$;
comment on function app.is_sweep_due is 'Whether an address may be swept now, by what its last sweeps ended with.';
grant execute on function app.is_sweep_due to sluice_jobs;

create or replace function app.failed_sweeps(of_payout uuid) returns table (address text, amount numeric, failures int, failure text, retry_at timestamptz)
language sql stable security definer set search_path = pg_catalog as $$
  select h.address, h.amount, f.failures, f.failure, f.retry_at
  from app.payout p
  cross join lateral (
    select distinct s.source from app.outgoing_payment s
    where s.kind = 'sweep' and s.merchant_id = p.merchant_id and s.chain = p.chain and s.token = p.token and s.outcome <> 'done'
      and s.final_at > clock_timestamp() - interval '1 day' and not app.uses_outputs(p.chain)
      and (not p.sweep_first or p.status <> 'sweeping' or exists (select from app.deposit d where d.settlement_id = p.id and d.address = s.source))
  ) s
  join app.holding h on h.chain = p.chain and h.token = p.token and h.address = s.source and h.amount > 0
  cross join lateral app.sweep_failures(p.chain, p.token, s.source) f
  where p.id = of_payout and f.failures > 0 and app.sweep_under_way(p.chain, p.token, s.source) is null
    and not app.is_blocked(p.chain, p.token, s.source)
$$;
comment on function app.failed_sweeps is 'Addresses whose money a payout may need, whose sweeps failed, and that are not being swept: what they hold in base units, how often it failed, why, and when they are tried again.';
grant execute on function app.failed_sweeps to sluice_jobs;
