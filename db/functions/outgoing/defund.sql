-- Gas that its address is not likely to use goes back to the treasury: a defund is an outgoing payment of native coins from
-- the address, which pays its network fee out of the same gas.
--
-- Promises: it moves nothing of the address's merchant, and counts as none of its sweeps. What it moves and its highest fee
-- are reserved together (app.gas.reserved); a later attempt with a higher fee moves as much less. Whatever its outcome, what
-- was reserved is given back. Custody signs a defund to the treasury alone, and no more than what is left of the gas by its
-- own journal (custody/judge/funds.ts).
-- Locks: treasury, sender.

-- Gas comes back for two transfers of native coins, one each way. So an address that sweeps again and again keeps its gas:
-- each sweep, and each gas that is sent for one, begins the 30 days anew. Once the chain has no token that gas is for, nothing
-- of it is needed. A defund that was cancelled counts as use: it is not begun, and cancelled, over and over.
create or replace function app.is_gas_idle(g app.gas) returns boolean
language sql stable set search_path = pg_catalog as $$
  select g.reserved = 0 and g.used_at < clock_timestamp() - case when exists (select from app.asset a
      where a.chain = g.chain and app.sweeps_itself(a.chain, a.token) and not app.is_disabled(a.chain, a.token))
      then interval '30 days' else interval '1 day' end
    and not exists (select from app.outgoing_payment s where s.chain = g.chain and s.status <> 'final' and g.address in (s.source, s.recipient))
    and not exists (select from app.asset a where a.chain = g.chain and app.sweeps_itself(a.chain, a.token)
      and (app.is_worth_funding(g.chain, g.address, a.token) or exists (select from app.deposit d
        where d.status = 'pending' and d.chain = g.chain and d.address = g.address and d.token = a.token)))
$$;
comment on function app.is_gas_idle is 'Whether an address is not likely to use its gas: it holds and receives nothing that it would sweep, nothing is under way, and it used no gas for 30 days (a day where no token needs any).';

create or replace function app.idle_gas(of_chain text, most int) returns table (address text, amount numeric)
language sql stable security definer set search_path = pg_catalog as $$
  select g.address, g.amount from app.gas g join app.asset a on a.chain = g.chain and a.token = app.native_token(g.chain)
  where g.chain = of_chain and g.amount > 0 and g.amount >= a.sweep_min and app.is_gas_idle(g)
  order by g.amount desc limit most
$$;
comment on function app.idle_gas is 'The addresses with gas that they are not likely to use and that is worth a sweep, and how much, in base units; the largest first.';
grant execute on function app.idle_gas to sluice_jobs;

-- The arrays are parallel. Addresses that have used gas since the caller looked are left out.
create or replace function app.begin_defunds(of_chain text, addresses text[], amounts numeric[], max_fees numeric[]) returns void
language plpgsql security definer set search_path = pg_catalog as $$
declare item record;
begin
  perform app.lock_treasury(of_chain);
  for item in
    select u.address, u.amount, u.max_fee, a.merchant_id
    from unnest(addresses, amounts, max_fees) with ordinality as u (address, amount, max_fee, n)
    join app.chain c on c.chain = of_chain
    join custody.address a on a.address = u.address and a.family = c.family and a.purpose = 'deposit'
    join app.gas g on g.chain = of_chain and g.address = u.address
    where u.amount > 0 and g.amount >= u.amount + u.max_fee and app.is_gas_idle(g)
    order by u.n
  loop
    perform app.add_gas(of_chain, item.address, 0, item.amount + item.max_fee);
    insert into app.outgoing_payment (kind, chain, token, amount, source, recipient, fee_payer, nonce, merchant_id, max_fee, from_gas)
    values ('defund', of_chain, app.native_token(of_chain), item.amount, item.address, app.treasury_address(of_chain), item.address,
      app.take_nonce(of_chain, item.address), item.merchant_id, item.max_fee, true);
  end loop;
  perform app.wake_outgoing_payments(of_chain);
end $$;
comment on function app.begin_defunds is 'Takes nonces of addresses for gas (amounts in base units) that goes back to the treasury. Safe to run again.';
grant execute on function app.begin_defunds to sluice_jobs;

-- What a defund moves less, it may cost more. It always moves something.
create or replace function app.gas_for(s app.outgoing_payment) returns numeric
language sql stable set search_path = pg_catalog as $$
  select app.free_gas(s.chain, s.fee_payer) + case when s.kind = 'defund' then s.amount - 1 else 0 end
$$;
comment on function app.gas_for is 'By how much the highest fee of an outgoing payment that pays with gas may rise, in base units.';

create or replace function app.reserve_gas(s app.outgoing_payment, more numeric) returns void
language plpgsql set search_path = pg_catalog as $$
declare less numeric := case when s.kind = 'defund' then least(more, s.amount - 1) else 0 end;
begin
  update app.outgoing_payment x set amount = x.amount - less where x.id = s.id and less > 0;
  perform app.add_gas(s.chain, s.fee_payer, 0, more - less);
end $$;
comment on function app.reserve_gas is 'Reserves gas (in base units) for an attempt of an outgoing payment that may cost so much more; a defund moves less instead.';

-- Also for a defund that is mined although it had ended otherwise (second_payments.sql): the coins are in the treasury.
create or replace function app.post_defund(s app.outgoing_payment, moved numeric) returns void
language plpgsql set search_path = pg_catalog as $$
begin
  perform app.add_gas(s.chain, s.source, -moved, 0);
  perform app.add_treasury(s.chain, s.token, moved, 0);
  perform app.post('defund', s.id::text, s.chain, jsonb_build_array(
    jsonb_build_object('account', 'treasury', 'token', s.token, 'amount', moved),
    jsonb_build_object('account', 'gas', 'token', s.token, 'address', s.source, 'amount', -moved)));
end $$;
comment on function app.post_defund is 'Posts gas that moved from an address to the treasury (in base units).';

create or replace function app.finish_defund(s app.outgoing_payment, outcome text, moved numeric) returns void
language plpgsql set search_path = pg_catalog as $$
begin
  perform app.add_gas(s.chain, s.source, 0, -s.amount);
  if outcome = 'done' then perform app.post_defund(s, moved); end if;
end $$;
comment on function app.finish_defund is 'Posts what a final defund moved (in base units), and gives back what was reserved for it.';
