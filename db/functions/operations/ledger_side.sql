-- What the ledger says about addresses, for the comparison with the chain (operations/compare.sql), and when a comparison would prove nothing. Reads
-- only. The caller compares twice, because a movement in between differs only once.

create or replace function app.ledger_holdings(of_chain text, addresses text[]) returns table (address text, token text, amount numeric)
language sql stable security definer set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
  with treasury as materialized (select app.treasury_address(of_chain) as address)
  select w.address, a.token, coalesce(h.amount, 0) + coalesce(u.amount, 0) + coalesce(t.amount, 0) + coalesce(g.amount, 0) + coalesce(n.amount, 0)
  from unnest(addresses) w (address) join app.asset a on a.chain = of_chain cross join treasury
  left join app.holding h on h.chain = of_chain and h.address = w.address and h.token = a.token
  left join lateral (select sum(e.amount) as amount from app.ledger_entry e
    where e.account = 'address' and e.merchant_id is null and e.chain = of_chain and e.address = w.address and e.token = a.token) u on true
  left join lateral (select sum(e.amount) as amount from app.ledger_entry e
    where e.account in ('treasury', 'staked') and e.chain = of_chain and e.token = a.token and w.address = treasury.address) t on true
  left join lateral (select sum(d.amount) as amount from app.deposit d -- what came before the token counted, or after
    where d.chain = of_chain and d.address = w.address and d.token = app.contract_of(of_chain, a.token) and d.status = 'final') n on true
  left join app.gas g on g.chain = of_chain and g.address = w.address and a.token = app.native_token(of_chain)
$$;
comment on function app.ledger_holdings is 'What these addresses hold of each token at the final height, by the ledger and by what came while the token did not count, in base units.';
grant execute on function app.ledger_holdings to sluice_jobs;

create or replace function app.ledger_holdings_since(of_chain text, block_height int, block_hash text, addresses text[])
  returns table (address text, token text, amount numeric, has_moved boolean, final_height int)
language sql stable security definer set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
  select h.address, h.token, h.amount, exists (
      select from chain.transfer t where t.chain = c.chain and t.recipient = h.address and t.block_height > b.height and t.block_height <= c.final_height
      union all
      select from chain.confirmed_tx x
      where x.chain = c.chain and x.account = h.address and x.block_height > b.height and x.block_height <= c.final_height), c.final_height
  from chain.cursor c
  join chain.block b on b.chain = c.chain and b.height = ledger_holdings_since.block_height and b.hash = ledger_holdings_since.block_hash
  cross join app.ledger_holdings(c.chain, addresses) h
  where c.chain = of_chain and c.final_height >= b.height
$$;
comment on function app.ledger_holdings_since is 'As app.ledger_holdings, and whether a block above this one, which must be final, has moved money of the address; nothing if the ledger does not have the block.';
grant execute on function app.ledger_holdings_since to sluice_jobs;

create or replace function app.ledger_outputs(of_chain text, addresses text[]) returns table (address text, outpoint text, amount numeric, is_leaving boolean)
language sql stable security definer set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
  select u.address, u.txid || ':' || u.vout, u.amount, u.outgoing_payment_id is not null or exists (
    select from chain.confirmed_tx i where i.chain = u.chain and i.conflict_key = u.txid || ':' || u.vout)
  from unnest(addresses) w (address) join app.output u on u.chain = of_chain and u.address = w.address and u.spent_by is null
  union all -- outputs that we must not spend
  select d.address, d.txid || ':' || d.output_index, d.amount, false
  from unnest(addresses) w (address) join app.deposit d on d.chain = of_chain and d.address = w.address
    and d.status = 'final' and not d.credited and d.merchant_id is not null
$$;
comment on function app.ledger_outputs is 'The final unspent outputs of these addresses, by the ledger, in base units; leaving is true if a transaction of ours, or a block, spends it.';
grant execute on function app.ledger_outputs to sluice_jobs;

-- After sluice chain rewind the ledger includes blocks above the final one, until they are final again.
create or replace function app.why_not_comparable(of_chain text) returns text
language sql stable security definer set search_path = pg_catalog as $$
  select coalesce(
    (select coalesce(app.way_out(of_chain), 'it is about to be read again from ' || c.rewind_to) from chain.cursor c
      where c.chain = of_chain and (c.halted_at is not null or c.rewind_to is not null)),
    (select 'what was final is not there; incident ' || i.ids[1] || ' (' || i.kind || '): ' || i.way_out from app.open_incident i
      where i.chain = of_chain and i.kind = 'final_payment_vanished'),
    (select 'blocks that were final are read again' from app.incident i join chain.cursor c on c.chain = i.chain
      where i.chain = of_chain and i.kind like 'final\_%' and (i.resolved_at is null or i.resolution = 'healed') and greatest(
        (select d.block_height from app.deposit d where d.status = 'final' and d.id = case when i.kind like 'final\_deposit\_%' then i.subject::uuid end),
        (select max(n.block_height) from app.outgoing_confirmed_tx n where n.outgoing_payment_id = case when i.kind like 'final\_payment\_%' then i.subject::uuid end)
      ) > c.final_height limit 1))
$$;
comment on function app.why_not_comparable is 'Why the chain cannot be compared with the ledger now; null if it can.';
grant execute on function app.why_not_comparable to sluice_jobs;
