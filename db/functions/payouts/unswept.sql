-- What a payout cannot have because it could not be swept. Locks: none.

create or replace function app.unswept_for(of_payout uuid) returns setof app.unswept_address
language sql stable security definer set search_path = pg_catalog as $$
  select u.* from app.payout p join app.unswept_address u on u.merchant_id = p.merchant_id and u.chain = p.chain and u.token = p.token
  where p.id = of_payout and not app.uses_outputs(p.chain)
    and (not p.sweep_first or p.status <> 'sweeping' or exists (select from app.deposit d where d.settlement_id = p.id and d.address = u.address))
$$;
comment on function app.unswept_for is 'Addresses whose money a payout may need, and whose sweeps failed (app.unswept_address).';
grant execute on function app.unswept_for to sluice_jobs;
