-- The treasury's address: one for each family of chains. Sweeps go to it, and payouts come from it. Custody derives it.
--
-- It is watched like any other address, and belongs to no merchant. What it receives without a sweep of ours is a top-up, the operator's own money.

create or replace function app.treasury_address(of_chain text) returns text
language sql stable set search_path = pg_catalog as $$
  select t.address from custody.address t join app.chain c using (family) where t.purpose = 'treasury' and c.chain = of_chain
$$;
comment on function app.treasury_address is 'The treasury''s address on a chain; null until custody has derived it.';
grant execute on function app.treasury_address to sluice_jobs;

create or replace function custody.watch_treasury(of_family text) returns void
language sql security definer set search_path = pg_catalog as $$
  insert into app.address (chain, match_key, address, is_provisioned)
  select c.chain, t.match_key, t.address, false from custody.address t join app.chain c using (family)
  where t.purpose = 'treasury' and t.family = of_family
  on conflict do nothing
$$;
comment on function custody.watch_treasury is 'Makes the indexers watch the treasury of a family on each of its chains; custody calls it at its start. Safe to run again.';
grant execute on function custody.watch_treasury to sluice_custody;
