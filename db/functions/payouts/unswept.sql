-- What a payout cannot have because it could not be swept. Locks: none.

create or replace function app.unswept_for(of_payout uuid) returns setof app.unswept_address
language sql stable security definer set search_path = pg_catalog as $$
  select u.* from app.payout p join app.unswept_address u on u.merchant_id = p.merchant_id and u.chain = p.chain and u.token = p.token
  where p.id = of_payout and not app.uses_outputs(p.chain)
    and (not p.sweep_first or p.status <> 'sweeping' or exists (select from app.deposit d where d.settlement_id = p.id and d.address = u.address))
$$;
comment on function app.unswept_for is 'Addresses whose money a payout may need, and whose sweeps failed (app.unswept_address).';
grant execute on function app.unswept_for to sluice_jobs;

-- An address gets gas for one token at a time (app.begin_funds). From the few funds under way, not from all that the merchant holds: this is asked at each
-- step of a payout that waits.
create or replace function app.getting_gas_for(of_payout uuid) returns int
language sql stable security definer set search_path = pg_catalog as $$
  select count(distinct h.address)::int from app.payout p
  join app.asset a on a.chain = p.chain and a.token = p.token and a.sweep_by = 'fund'
  join app.outgoing_payment s on s.chain = p.chain and s.kind in ('fund', 'delegate', 'undelegate') and s.status <> 'final'
  join app.holding h on h.merchant_id = p.merchant_id and h.chain = p.chain and h.token = p.token and h.address = s.recipient and h.amount > 0
  where p.id = of_payout and app.sweep_under_way(h.chain, h.token, h.address) is null
    and (not p.sweep_first or p.status <> 'sweeping' or exists (select from app.deposit d where d.settlement_id = p.id and d.address = h.address))
$$;
comment on function app.getting_gas_for is 'How many addresses whose money a payout may need are getting gas or energy, or giving it back, perhaps for the sweep of another token.';
grant execute on function app.getting_gas_for to sluice_jobs;
