-- Gas for addresses that sweep a token themselves: a fund is an outgoing payment of native coins from the treasury to the
-- address. Its sweep begins once the fund is final (payouts/sweep.sql), and pays its network fee with that gas alone.
--
-- Promises: what is on the address for its merchant never pays a fee of ours. One fund of an address is under way at a
-- time. What is left of the gas stays the operator's (app.gas, the ledger's account gas) and is used by the next sweep, or goes
-- back to the treasury (outgoing/defund.sql).
-- Custody signs a fund only for a sweep that is worth it (custody/judge/funds.ts).
-- Locks: payout, treasury, sender.

create or replace function app.sweeps_itself(of_chain text, of_token text) returns boolean
language sql stable security definer set search_path = pg_catalog as $$
  select exists (select from app.asset a where a.chain = of_chain and a.token = of_token and a.sweep_by = 'fund')
$$;
comment on function app.sweeps_itself is 'Whether an address sweeps this token with gas that the treasury sent it.';

create or replace function app.free_gas(of_chain text, of_address text) returns numeric
language sql stable security definer set search_path = pg_catalog as $$
  select coalesce((select g.amount - g.reserved from app.gas g where g.chain = of_chain and g.address = of_address), 0)
$$;
comment on function app.free_gas is 'The operator''s native coins on an address that no sweep under way may use, in base units.';
grant execute on function app.free_gas to sluice_jobs;

-- What counts on it can be claimed, or is on its way back to who sent it. Only functions write what this reads.
create or replace function app.is_worth_funding(of_chain text, of_address text, of_token text) returns boolean
language sql stable security definer set search_path = pg_catalog as $$
  select app.collectable_amount(of_chain, of_address, of_token) > 0
    or exists (select from app.unattributed_decision u join app.deposit d on d.id = u.deposit_id
      join app.asset a on a.chain = d.chain and a.token = d.token
      where u.decision = 'return' and u.withdrawal_id is null and d.chain = of_chain and d.address = of_address and d.token = of_token
        and d.status = 'final' and u.amount >= a.sweep_min)
$$;
comment on function app.is_worth_funding is 'Whether an address holds so much of a token that gas for its sweep is worth its price.';
grant execute on function app.is_worth_funding to sluice_custody;

create or replace function app.add_gas(of_chain text, of_address text, more numeric, more_reserved numeric) returns void
language sql set search_path = pg_catalog as $$
  insert into app.gas as g (chain, address, amount, reserved) values (of_chain, of_address, more, more_reserved)
  on conflict (chain, address) do update set amount = g.amount + excluded.amount, reserved = g.reserved + excluded.reserved,
    used_at = clock_timestamp()
$$;
comment on function app.add_gas is 'Adds to the operator''s native coins on an address, and to how much of it is reserved; a negative amount is subtracted.';

-- The arrays are parallel. If the treasury runs short, the funds before that point stay begun.
create or replace function app.begin_funds(of_payout uuid, of_chain text, of_token text, addresses text[], amounts numeric[],
  max_fee numeric) returns text
language plpgsql security definer set search_path = pg_catalog as $$
declare
  native text := app.native_token(of_chain);
  treasury text := app.treasury_address(of_chain);
  item record;
  fund uuid;
  funds numeric;
  short text;
begin
  if not app.sweeps_itself(of_chain, of_token) then return null; end if;
  if of_payout is not null and not app.lock_unpaid(of_payout) then return null; end if;
  perform app.lock_treasury(of_chain);
  funds := app.operator_funds(of_chain, native);
  for item in
    select u.address, ceil(u.amount) as amount, a.merchant_id from unnest(addresses, amounts) with ordinality as u (address, amount, n)
    join app.chain c on c.chain = of_chain
    join custody.address a on a.address = u.address and a.family = c.family and a.purpose = 'deposit' and a.merchant_id is not null
    where u.amount > 0 and max_fee = trunc(max_fee) and not app.is_blocked(of_chain, of_token, u.address)
      and app.is_sweep_due(of_chain, of_token, u.address)
    order by u.n
  loop
    fund := app.readying(of_chain, item.address);
    if fund is null then
      if funds < item.amount + max_fee then
        short := app.short_by(of_chain, native, item.amount + max_fee - funds, ' for sweeping');
        exit;
      end if;
      funds := funds - item.amount - max_fee;
      perform app.reserve(of_chain, native, item.amount + max_fee);
      insert into app.outgoing_payment as s (kind, chain, token, amount, source, recipient, fee_payer, nonce, payout_id, merchant_id, max_fee, for_token)
      values ('fund', of_chain, native, item.amount, treasury, item.address, treasury, app.take_nonce(of_chain, treasury), of_payout,
        item.merchant_id, max_fee, of_token)
      returning s.id into fund;
    end if;
    if of_payout is not null then
      insert into app.payout_sweep (payout_id, outgoing_payment_id) values (of_payout, fund) on conflict do nothing;
    end if;
  end loop;
  perform app.wake_outgoing_payments(of_chain);
  return short;
end $$;
comment on function app.begin_funds is 'Takes nonces of the treasury for gas of addresses (amounts in base units) that are to sweep a token, for a payout (null: for none); returns what the treasury lacks, or null. Safe to run again.';
grant execute on function app.begin_funds to sluice_jobs;

-- Also for a fund that is mined although it had ended otherwise (second_payments.sql): the coins are on the address.
create or replace function app.post_fund(s app.outgoing_payment) returns void
language plpgsql set search_path = pg_catalog as $$
begin
  perform app.add_treasury(s.chain, s.token, -s.amount, 0);
  perform app.add_gas(s.chain, s.recipient, s.amount, 0);
  perform app.post('fund', s.id::text, s.chain, jsonb_build_array(
    jsonb_build_object('account', 'gas', 'token', s.token, 'address', s.recipient, 'amount', s.amount),
    jsonb_build_object('account', 'treasury', 'token', s.token, 'amount', -s.amount)));
end $$;
comment on function app.post_fund is 'Posts gas that moved from the treasury to an address.';

create or replace function app.finish_fund(s app.outgoing_payment, outcome text) returns void
language plpgsql set search_path = pg_catalog as $$
begin
  perform app.reserve(s.chain, s.token, -s.amount);
  if outcome = 'done' then perform app.post_fund(s); end if;
end $$;
comment on function app.finish_fund is 'Posts a final fund, and gives back what was reserved for it.';
