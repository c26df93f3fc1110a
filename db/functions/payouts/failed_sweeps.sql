-- Sweeps that failed, and funds for them (app.failed_sweep), on chains with accounts: when the address is tried again. A cause may pass by itself, so no
-- payout gives an address up; and each try may cost a network fee, so an address is tried less and less often, whichever payouts ask for it.
--
-- Locks: none.

-- At once after a first failure, a minute after the second, then after eight times as long each time: six times a day. One that expired cost nothing, and
-- took minutes by itself: its address is tried again at once.
create or replace function app.sweep_failures(of_chain text, of_token text, of_address text, out failures int, out failure text, out retry_at timestamptz)
language sql stable set search_path = pg_catalog as $$
  select count(*)::int, (array_agg(f.failure order by f.final_at desc))[1],
    max(f.final_at) + least(case when count(*) filter (where costs) < 2 then 0 else 8 ^ least(count(*) filter (where costs) - 2, 9) end
      * interval '1 minute', interval '1 day')
  from app.failed_sweep f cross join lateral (select f.outcome <> 'expired' as costs) c
  where f.chain = of_chain and f.token = of_token and f.address = of_address
$$;
comment on function app.sweep_failures is 'The sweeps of an address, and the funds for them, that failed within a day and after the last one that did not: how many, why the newest one, and when the address may be swept again.';

create or replace function app.is_sweep_due(of_chain text, of_token text, of_address text) returns boolean
language sql stable security definer set search_path = pg_catalog as $$
  select f.failures = 0 or f.retry_at <= clock_timestamp() from app.sweep_failures(of_chain, of_token, of_address) f
$$;
comment on function app.is_sweep_due is 'Whether an address may be swept now, by what its last sweeps ended with.';
grant execute on function app.is_sweep_due to sluice_jobs;
