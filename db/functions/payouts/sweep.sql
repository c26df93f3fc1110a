-- Sweeping for a payout: what its merchant's addresses hold goes to the treasury, as far as the payout needs it; with sweep_first, everything that
-- its deposits brought. The worker takes these steps (jobs/payouts/advance-payout.ts); app.begin_output_sweep sweeps outputs instead.
--
-- Each step does nothing unless the payout has the status that the step needs, so it may run twice, or in two workers at once.
-- Who pays for a sweep (app.sweep_payer) is written down when it begins.
-- Invariants: for each address and token at most one sweep of a merchant's money is not final; only final money is swept; what sweeps under way
-- bring is not swept again from other addresses, unless something holds them up (app.is_held_up). A payout with sweep_first pays when each of its
-- sweeps (app.payout_sweep) is final, any other as soon as the treasury can pay it.
-- Locks: payout, treasury, then sender and outgoing payment.

create or replace function app.begin_sweeping(of_payout uuid) returns void
language plpgsql security definer set search_path = pg_catalog as $$
begin
  update app.payout p set status = 'sweeping' where p.id = of_payout and p.status = 'pending';
end $$;
comment on function app.begin_sweeping is 'Takes a payout from pending to sweeping. Does nothing in any other status.';
grant execute on function app.begin_sweeping to sluice_jobs;

-- A sweep under way may have moved, on the chain, what the ledger still has at the address. With sweep_first the payout waits only for sweeps that
-- concern the claimed deposits; on chains with outputs, for any payment that has taken one of their outputs.
create or replace function app.await_sweeps(of_payout uuid) returns void
language sql security definer set search_path = pg_catalog as $$
  insert into app.payout_sweep (payout_id, outgoing_payment_id)
  select p.id, s.id from app.payout p
  join app.outgoing_payment s on s.status <> 'final' and s.chain = p.chain and p.token in (s.token, s.for_token) and s.merchant_id = p.merchant_id
  where p.id = of_payout and p.status = 'sweeping' and case
    when not p.sweep_first then s.kind in ('sweep', 'cancel') or s.for_token = p.token
    when s.for_token = p.token then exists (select from app.deposit d where d.settlement_id = p.id and d.address = s.recipient)
    when app.uses_outputs(p.chain) then exists (
      select from app.output u join app.deposit d on d.chain = u.chain and d.txid = u.txid and d.output_index = u.vout
      where u.outgoing_payment_id = s.id and d.settlement_id = p.id)
    else s.kind in ('sweep', 'cancel') and exists (select from app.deposit d where d.settlement_id = p.id and d.address = s.source) end
  on conflict do nothing
$$;
comment on function app.await_sweeps is 'Makes a payout wait for sweeps of its merchant''s addresses that are under way for other payouts, or for none. Safe to run again.';
grant execute on function app.await_sweeps to sluice_jobs;

create or replace function app.lock_unpaid(of_payout uuid) returns boolean
language plpgsql set search_path = pg_catalog as $$
begin
  perform from app.payout p where p.id = of_payout and p.status in ('sweeping', 'swept') for update;
  return found and not exists (select from app.outgoing_payment s where s.payout_id = of_payout and s.kind = 'payout');
end $$;
comment on function app.lock_unpaid is 'Locks a payout; false if nothing is to be swept for it any more, because its payment has begun or it has ended.';

create or replace function app.sweep_under_way(of_chain text, of_token text, of_address text) returns uuid
language sql stable set search_path = pg_catalog as $$
  select s.id from app.outgoing_payment s
  where s.chain = of_chain and s.source = of_address and s.token = of_token and s.kind in ('sweep', 'cancel') and s.status <> 'final' and s.merchant_id is not null
  order by s.nonce desc limit 1
$$;
comment on function app.sweep_under_way is 'The sweep of a merchant''s money on an address that is not final, or the cancel of one; null if there is none.';

create or replace function app.sweepable(of_payout uuid, at_least numeric, most int) returns table (address text, amount numeric)
language plpgsql stable security definer set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
declare
  p app.payout := (select o from app.payout o where o.id = of_payout);
  only_claimed boolean := p.sweep_first and p.status = 'sweeping';
  by_itself boolean := app.sweeps_itself(p.chain, p.token);
begin
  return query
  with held as materialized (
    select d.address, sum(d.amount) as amount from app.deposit d
    where d.held_back and d.chain = p.chain and d.token = p.token and d.merchant_id = p.merchant_id group by d.address
  ), failing as materialized (
    select distinct f.address from app.failed_sweep f where f.merchant_id = p.merchant_id and f.chain = p.chain and f.token = p.token
  ), not_now as materialized (
    select f.address from failing f where not app.is_sweep_due(p.chain, p.token, f.address)
    union all
    select b.address from app.blocked_address b where b.chain = p.chain and b.token = p.token
  )
  select h.address, h.amount from app.holding h left join held b on b.address = h.address
  where h.merchant_id = p.merchant_id and h.chain = p.chain and h.token = p.token and h.amount >= at_least and h.amount > coalesce(b.amount, 0)
    and (not only_claimed or exists (select from app.deposit d where d.settlement_id = p.id and d.address = h.address))
    and app.sweep_under_way(h.chain, h.token, h.address) is null
    and not (by_itself and app.readying(h.chain, h.address) is not null) and not exists (select from not_now n where n.address = h.address)
    and (not only_claimed or not exists (
      select from app.payout_sweep l join app.outgoing_payment s on s.id = l.outgoing_payment_id
      where l.payout_id = p.id and s.source = h.address and s.outcome = 'done' and s.created_at >= p.created_at))
  order by h.amount desc limit most;
end $$;
comment on function app.sweepable is 'Addresses of a payout''s merchant whose final money counts in the balance, can be swept and is not being swept, with what they hold in base units, the largest first; with sweep_first only those of the claimed deposits, each once, until they are swept: what the treasury paid in advance for the merchant may be on others, and what arrives after the claim does not belong to it.';
grant execute on function app.sweepable to sluice_jobs;

create or replace function app.coins_to_sweep(of_payment uuid) returns numeric
language sql stable security definer set search_path = pg_catalog as $$
  select coalesce(r.amount, h.amount, 0) from app.outgoing_payment s
  left join app.unattributed_decision r on r.sweep_id = s.id
  left join app.holding h on h.chain = s.chain and h.address = s.source and h.token = s.token
  where s.id = of_payment
$$;
comment on function app.coins_to_sweep is 'What an address holds of the token of a sweep for whom the sweep is: its merchant, or whoever gets a return. Its network fee is part of it where the address pays for its own coins.';
grant execute on function app.coins_to_sweep to sluice_custody;

create or replace function app.sweep_payer(of_chain text, of_token text, of_address text) returns text
language sql stable set search_path = pg_catalog as $$
  select case when c.native_token = of_token and not c.treasury_pays_native_sweeps or app.sweeps_itself(of_chain, of_token) then of_address
    else app.treasury_address(of_chain) end
  from app.chain c where c.chain = of_chain
$$;
comment on function app.sweep_payer is 'The account that pays the network fee of a sweep of an address: the treasury, or the address itself.';

-- The arrays are parallel: amounts is what each address moves, at most what it holds of final money; max_fees what each sweep can cost. With
-- payment_fee, the network fee of the payout's payment, sweeps are begun in this order until the payout lacks nothing, whatever the caller saw:
-- another run, or another payout, may have begun some since. Without it, all are begun. None are begun once the payment itself has begun. If the
-- treasury has to pay network fees and runs short, the sweeps before that point stay begun. A payout does not wait for the sweep of a return, which
-- belongs to no merchant.
create or replace function app.begin_sweeps(of_payout uuid, of_chain text, of_token text, addresses text[], amounts numeric[],
  max_fees numeric[], payment_fee numeric default null) returns text
language plpgsql security definer set search_path = pg_catalog as $$
declare
  native text := app.native_token(of_chain);
  treasury text := app.treasury_address(of_chain);
  item record;
  held app.holding;
  by_whom text;
  sweep uuid;
  funds numeric;
  missing numeric := 'infinity';
  short text;
  from_gas boolean := app.sweeps_itself(of_chain, of_token);
begin
  if of_payout is not null and not app.lock_unpaid(of_payout) then return null; end if;
  perform app.lock_treasury(of_chain);
  funds := app.operator_funds(of_chain, native);
  if of_payout is not null then perform app.await_sweeps(of_payout); end if; -- those that were begun since the caller checked
  if payment_fee is not null then missing := app.payout_shortfall(of_payout, payment_fee); end if;
  for item in select * from unnest(addresses, amounts, max_fees) with ordinality as u (address, amount, max_fee, n) order by n loop
    exit when missing <= 0;
    sweep := app.sweep_under_way(of_chain, of_token, item.address);
    if sweep is null then
      select * into held from app.holding h where h.chain = of_chain and h.address = item.address and h.token = of_token;
      by_whom := app.sweep_payer(of_chain, of_token, item.address);
      continue when held.address is null or item.amount <= 0 or app.is_blocked(of_chain, of_token, item.address)
        or held.amount < item.amount + case when by_whom <> treasury and not from_gas then item.max_fee else 0 end
        or from_gas and app.free_gas(of_chain, item.address) < item.max_fee;
      if from_gas then perform app.add_gas(of_chain, item.address, 0, item.max_fee);
      elsif by_whom = treasury then
        if funds < item.max_fee then
          short := app.short_by(of_chain, native, item.max_fee - funds, ' for sweeping');
          exit;
        end if;
        funds := funds - item.max_fee;
        perform app.reserve(of_chain, native, item.max_fee);
      end if;
      insert into app.outgoing_payment as s (kind, chain, token, amount, source, recipient, fee_payer, nonce, payout_id, merchant_id, max_fee, from_gas)
      values ('sweep', of_chain, of_token, item.amount, item.address, treasury, by_whom, app.take_nonce(of_chain, by_whom), of_payout,
        held.merchant_id, item.max_fee, from_gas)
      returning s.id into sweep;
      missing := missing - item.amount + case when by_whom = treasury and native = of_token then item.max_fee else 0 end;
    end if;
    if of_payout is not null then
      insert into app.payout_sweep (payout_id, outgoing_payment_id) values (of_payout, sweep) on conflict do nothing;
    end if;
  end loop;
  perform app.wake_outgoing_payments(of_chain);
  return short;
end $$;
comment on function app.begin_sweeps is 'Takes nonces for sweeps of merchants'' addresses to the treasury, for a payout (null: for none), or finds those under way; returns what is short of network fees, or null. Safe to run again.';
grant execute on function app.begin_sweeps to sluice_jobs;
