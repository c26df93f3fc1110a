-- Begins the two transactions of a return that an operator decided (unattributed/decide.sql): a sweep of the address to the treasury and, once that
-- is final, a withdrawal of what arrived there. The worker calls this for each row of app.due_return, on chains with accounts. It sends both, and
-- they end, like any outgoing payment (app.outgoing_payment).
--
-- Promises: of two calls one begins. If something is in the way, it is returned, and nothing is changed. A return moves no more than its deposit
-- brought. A merchant's money on the same address stays there, and its sweeps continue meanwhile. What was swept is reserved in the treasury until
-- it has left. Each of the two is begun at most 20 times.
-- Locks: chain.cursor, treasury, sender.

-- If the address itself pays the fee of a native coin's sweep (app.sweep_payer), it does so out of what it moves; of a token's, with its gas.
create or replace function app.begin_return_sweep(of_deposit uuid, moved numeric, max_fee numeric, out reason text, out detail text)
language plpgsql security definer set search_path = pg_catalog as $$
declare
  d app.deposit := app.lock_return(of_deposit, 'sweep');
  whole numeric := (select u.amount from app.unattributed_decision u where u.deposit_id = of_deposit);
  native text := app.native_token(d.chain);
  funds numeric := app.operator_funds(d.chain, native);
  by_whom text := app.sweep_payer(d.chain, d.token, d.address);
  by_treasury boolean := by_whom = app.treasury_address(d.chain);
  from_gas boolean := app.sweeps_itself(d.chain, d.token);
  sweep uuid := app.next_return_outgoing_payment(d, 'sweep');
begin
  if d.id is null then return; end if;
  if d.status <> 'final' then
    select 'deposit_not_final', 'the deposit left the chain' into reason, detail;
  elsif moved <= 0 or moved + (case when by_treasury or from_gas then 0 else max_fee end) > whole or (by_treasury or from_gas) and moved < whole then
    select 'not_worth_moving', format('it is %s base units, and %s would be moved', whole, moved) into reason, detail;
  elsif by_treasury and funds < max_fee then
    select 'insufficient_treasury_funds', app.short_by(d.chain, native, max_fee - funds, ' for the network fee') into reason, detail;
  elsif from_gas and app.free_gas(d.chain, d.address) < max_fee then
    select 'gas_under_way', 'the gas on its address is less than the sweep may cost' into reason, detail;
  elsif app.is_blocked(d.chain, d.token, d.address) then
    select 'address_blocked', 'the chain does not let ' || d.token || ' leave the address: sluice address list --blocked' into reason, detail;
  elsif sweep is null then
    select 'given_up', 'it was begun 20 times and failed each time' into reason, detail;
  end if;
  if reason is not null then return; end if;
  if by_treasury then perform app.reserve(d.chain, native, max_fee); end if;
  if from_gas then perform app.add_gas(d.chain, d.address, 0, max_fee); end if;
  insert into app.outgoing_payment (id, kind, chain, token, amount, source, recipient, fee_payer, nonce, max_fee, from_gas)
  values (sweep, 'sweep', d.chain, d.token, moved, d.address, app.treasury_address(d.chain), by_whom, app.take_nonce(d.chain, by_whom), max_fee,
    from_gas);
  update app.unattributed_decision u set sweep_id = sweep, waiting_reason = null, waiting_detail = null, waiting_since = null
  where u.deposit_id = d.id;
  perform app.wake_outgoing_payments(d.chain);
end $$;
comment on function app.begin_return_sweep is 'Begins the sweep of a return to the treasury (amounts in base units); returns what is in its way, or null. Safe to run again.';
grant execute on function app.begin_return_sweep to sluice_jobs;

-- Custody checks the whitelist again, and the limits; but a withdrawal that it refuses has taken a nonce by then.
create or replace function app.begin_return_withdrawal(of_deposit uuid, network_fee numeric, out reason text, out detail text)
language plpgsql security definer set search_path = pg_catalog as $$
declare
  d app.deposit := app.lock_return(of_deposit, 'withdrawal');
  r app.unattributed_decision;
  native text := app.native_token(d.chain);
  funds numeric := app.operator_funds(d.chain, native); -- without its own amount, which is reserved
  treasury text := app.treasury_address(d.chain);
  withdrawal uuid := app.next_return_outgoing_payment(d, 'withdrawal');
begin
  if d.id is null then return; end if;
  select * into r from app.unattributed_decision u where u.deposit_id = d.id;
  if d.status <> 'final' then
    select 'deposit_not_final', 'the deposit left the chain' into reason, detail;
  elsif not exists (select from custody.whitelist w where w.merchant_id is null and w.chain = d.chain and w.address = r.destination
      and w.active_at <= clock_timestamp() and w.removed_at is null) then
    select 'not_whitelisted', r.destination || ' is not on the operator''s whitelist' into reason, detail;
  elsif funds < network_fee then
    select 'insufficient_treasury_funds', app.short_by(d.chain, native, network_fee - funds, ' for the network fee') into reason, detail;
  elsif withdrawal is null then
    select 'given_up', 'it was begun 20 times and failed each time' into reason, detail;
  end if;
  if reason is not null then return; end if;
  perform app.reserve(d.chain, native, network_fee);
  insert into app.outgoing_payment (id, kind, chain, token, amount, source, recipient, fee_payer, nonce, max_fee)
  values (withdrawal, 'withdrawal', d.chain, d.token, r.amount, treasury, r.destination, treasury, app.take_nonce(d.chain, treasury), network_fee);
  update app.unattributed_decision u set withdrawal_id = withdrawal, waiting_reason = null, waiting_detail = null, waiting_since = null
  where u.deposit_id = d.id;
  perform app.wake_outgoing_payments(d.chain);
end $$;
comment on function app.begin_return_withdrawal is 'Begins the withdrawal of a return from the treasury to its destination; returns what is in its way, or null. Safe to run again.';
grant execute on function app.begin_return_withdrawal to sluice_jobs;

create or replace function app.wait_return(of_deposit uuid, reason text, detail text) returns void
language sql security definer set search_path = pg_catalog as $$
  update app.unattributed_decision u set waiting_detail = detail, waiting_reason = reason,
    waiting_since = case when u.waiting_reason = reason then u.waiting_since else clock_timestamp() end
  where u.deposit_id = of_deposit and u.decision = 'return' and u.withdrawal_id is null
    and (u.waiting_reason, u.waiting_detail) is distinct from (reason, detail)
$$;
comment on function app.wait_return is 'Notes what the next transaction of a return waits for.';
grant execute on function app.wait_return to sluice_jobs;

create or replace function app.lock_return(of_deposit uuid, of_step text) returns app.deposit
language plpgsql set search_path = pg_catalog as $$
declare d app.deposit;
begin
  select * into d from app.deposit o where o.id = of_deposit;
  perform from chain.cursor c where c.chain = d.chain for update;
  perform app.lock_treasury(d.chain);
  perform from app.due_return r where r.deposit_id = of_deposit and r.step = of_step;
  if not found then return null; end if;
  select * into d from app.deposit o where o.id = of_deposit;
  return d;
end $$;
comment on function app.lock_return is 'The deposit of a return whose next step is this one (sweep or withdrawal), with the chain and the treasury locked; null if that is not its next step (any more).';


create or replace function app.is_held(r app.unattributed_decision) returns boolean
language sql stable set search_path = pg_catalog as $$
  select exists (select from app.outgoing_payment s where s.id = r.sweep_id and s.outcome = 'done')
    and not exists (select from app.outgoing_payment s where s.id = r.withdrawal_id and (s.status <> 'final' or s.outcome = 'done'))
$$;
comment on function app.is_held is 'Whether the treasury holds the amount of a return: it was swept, and no withdrawal of it is under way or done.';


create or replace function app.next_return_outgoing_payment(d app.deposit, of_kind text) returns uuid
language sql stable set search_path = pg_catalog as $$
  select i.id from app.return_outgoing_payment_ids(d, of_kind) i where not exists (select from app.outgoing_payment s where s.id = i.id) order by i.n limit 1
$$;
comment on function app.next_return_outgoing_payment is 'The first unused one of the ids that the sweep (or withdrawal) of a return may have; null if all are taken.';


-- The ids follow only from what was received, so an older copy of the database recognises them in custody's journal even if it has forgotten the
-- decision, or the deposit.
create or replace function app.return_outgoing_payment_ids(d app.deposit, of_kind text) returns table (n int, id uuid)
language sql immutable set search_path = pg_catalog as $$
  select n, md5(concat_ws(':', 'return', of_kind, d.chain, d.txid, d.output_index, d.address, d.token, n))::uuid from generate_series(0, 19) n
$$;
comment on function app.return_outgoing_payment_ids is 'The 20 ids that the sweep (or the withdrawal) of a deposit''s return may have, one after the other.';

