-- What an operator decides about unattributed value: value that reached an address of ours and is credited to no merchant (unattributed/reason.sql
-- says why). It is in app.deposit, not credited, and stays so when its chain or token is enabled later. Only `sluice unattributed` calls this, as
-- the owner of the database. credit makes it a deposit of the merchant that has the address; return sends it to an address on the operator's
-- whitelist. A return is two transactions of kinds that custody signs anyway: a sweep of the address to the treasury and, once that is final, a
-- withdrawal of what arrived there. The worker begins them (unattributed/begin_return.sql); outgoing/finish.sql posts them.
--
-- Invariants: a deposit is credited, or returned, or neither, never both; only a final deposit without an open incident can be decided about.
-- Locks: chain.cursor, deposit. Errors: SL404 there is no such deposit; SL422 this decision is not possible; the message says why.

create or replace function app.credit_unattributed(of_deposit uuid) returns void
language plpgsql set search_path = pg_catalog as $$
declare
  d app.deposit := app.lock_unattributed(of_deposit);
  r app.unattributed_decision;
  number bigint;
begin
  select * into r from app.unattributed_decision u where u.deposit_id = d.id;
  if app.return_is_under_way(r) then
    raise exception '% is being returned, or was returned; it cannot be credited', app.public_id('dep', d.id) using errcode = 'SL422';
  elsif r.amount < d.amount then
    raise exception 'a return of % failed and cost its address % base units in network fees; it can only be returned',
      app.public_id('dep', d.id), d.amount - r.amount using errcode = 'SL422';
  end if;
  update chain.cursor c set finalisation = c.finalisation + 1 where c.chain = d.chain returning c.finalisation into number;
  perform set_config('app.decided_by_operator', 'on', true);
  update app.deposit o set credited = true, version = o.version + 1, finalisation = number, 
    held_back = coalesce(o.amount < (select a.sweep_min from app.asset a where a.chain = o.chain and a.token = o.token), false)
      or app.is_blocked(o.chain, o.token, o.address)
  where o.id = d.id returning o.* into d; -- its first event
  perform set_config('app.decided_by_operator', '', true);
  insert into app.unattributed_decision as u (deposit_id, decision, amount) values (d.id, 'credit', d.amount)
  on conflict (deposit_id) do update set decision = 'credit', sweep_id = null, destination = null, waiting_reason = null,
    waiting_detail = null, waiting_since = null, decided_at = clock_timestamp();
  insert into app.balance_delta (merchant_id, chain, token, amount, deposit_count, held_back, held_back_count)
  values (d.merchant_id, d.chain, d.token, d.amount, 1, case when d.held_back then d.amount else 0 end, case when d.held_back then 1 else 0 end);
  if app.uses_outputs(d.chain) then
    insert into app.output (chain, txid, vout, address, merchant_id, amount, mature_at)
    values (d.chain, d.txid, d.output_index, d.address, d.merchant_id, d.amount, app.mature_at(d));
  end if;
  perform app.add_holding(d.chain, d.address, d.token, d.merchant_id, d.amount);
  perform app.post('deposit', d.id::text, d.chain, jsonb_build_array(
    jsonb_build_object('account', 'address', 'token', d.token, 'address', d.address, 'amount', -d.amount),
    jsonb_build_object('account', 'unattributed', 'token', d.token, 'amount', d.amount),
    jsonb_build_object('account', 'address', 'token', d.token, 'merchant_id', d.merchant_id, 'address', d.address, 'amount', d.amount),
    jsonb_build_object('account', 'merchant', 'token', d.token, 'merchant_id', d.merchant_id, 'amount', -d.amount)));
  perform app.release_held_back(d.chain, array[d.address], array[d.token], number);
  perform app.emit_deposit_events(array[d.id], array['deposit.confirmed'], array[d.version], array[d.token], array[d.amount]);
end $$;
comment on function app.credit_unattributed is 'Makes unattributed value a final deposit of the merchant that has the address, and notifies the merchant at once; from then on it is a deposit like any other.';


-- May be called again, also with another destination, until the value has left the treasury. A return that failed is begun again.
create or replace function app.return_unattributed(of_deposit uuid, to_address text) returns void
language plpgsql set search_path = pg_catalog as $$
declare
  d app.deposit := app.lock_unattributed(of_deposit);
  r app.unattributed_decision;
begin
  if app.uses_outputs(d.chain) then
    raise exception 'Sluice cannot return value that arrived on %', d.chain using errcode = 'SL422';
  end if;
  select * into r from app.unattributed_decision u where u.deposit_id = d.id;
  if exists (select from app.outgoing_payment s where s.id = r.withdrawal_id and s.outcome = 'done') then
    raise exception '% was returned already', app.public_id('dep', d.id) using errcode = 'SL422';
  elsif exists (select from app.outgoing_payment s where s.id = r.withdrawal_id and s.status <> 'final') then
    raise exception '% is already being sent to %; to stop it, run sluice treasury cancel %', app.public_id('dep', d.id), r.destination, r.withdrawal_id
      using errcode = 'SL422';
  end if;
  insert into app.unattributed_decision as u (deposit_id, decision, amount, destination) values (d.id, 'return', d.amount, to_address)
  on conflict (deposit_id) do update set destination = to_address, withdrawal_id = null, waiting_reason = null, waiting_detail = null,
    waiting_since = null, sweep_id = (select s.id from app.outgoing_payment s where s.id = u.sweep_id and (s.status <> 'final' or s.outcome = 'done'));
end $$;
comment on function app.return_unattributed is 'Decides that unattributed value is returned to this address; the worker carries it out.';


create or replace function app.lock_unattributed(of_deposit uuid) returns app.deposit
language plpgsql set search_path = pg_catalog as $$
declare
  d app.deposit;
  name text := app.public_id('dep', of_deposit);
  incident bigint;
begin
  perform from chain.cursor c where c.chain = (select o.chain from app.deposit o where o.id = of_deposit) for update;
  select * into d from app.deposit o where o.id = of_deposit for update;
  if d.id is null then raise exception 'there is no deposit %; sluice unattributed list shows unattributed deposits', name using errcode = 'SL404'; end if;
  if d.credited then raise exception '% is credited to its merchant already', name using errcode = 'SL422'; end if;
  perform from app.asset a where a.chain = d.chain and a.token = d.token;
  if not found then
    raise exception '% has a token that Sluice does not support: it can be neither credited nor moved', name using errcode = 'SL422';
  end if;
  if d.merchant_id is null then
    raise exception '% reached the treasury and is your own money; to send it, run sluice treasury withdraw', name using errcode = 'SL422';
  end if;
  if d.status <> 'final' then
    raise exception '% is %; only a final deposit can be credited or returned', name, d.status using errcode = 'SL422';
  end if;
  incident := (select min(i.id) from app.incident i where i.subject = d.id::text and i.resolved_at is null);
  if incident is not null then
    raise exception 'incident % is about %; resolve it first (sluice incident list)', incident, name using errcode = 'SL422';
  end if;
  return d;
end $$;
comment on function app.lock_unattributed is 'The deposit to decide about, locked, with its chain; raises an error if it can be neither credited nor returned.';


create or replace function app.return_is_under_way(r app.unattributed_decision) returns boolean
language sql stable set search_path = pg_catalog as $$
  select exists (select from app.outgoing_payment s where s.id in (r.sweep_id, r.withdrawal_id) and (s.status <> 'final' or s.outcome = 'done'))
$$;
comment on function app.return_is_under_way is 'Whether a transaction of a return is under way, or done.';

