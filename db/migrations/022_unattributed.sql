-- Unattributed value: what arrived for nobody, and what an operator decides about it.
--
-- Value on a chain or in a token that a merchant did not ask for is in app.deposit, not credited, and stays so when chain or token are enabled
-- later. An operator alone decides about it, through the command line: credit makes it a deposit of the merchant whose address it is; return
-- sends it to an address on the operator's whitelist. A return is two transactions that custody signs anyway: a sweep of the address to the
-- treasury, and, once that is final, a withdrawal of what arrived there.
--
-- Writers: the owner, through app.credit_unattributed and app.return_unattributed; the worker, which begins the transactions of a return
-- (app.begin_return_sweep, app.begin_return_withdrawal); settling, which posts them. Readers: the worker (app.due_return), the command line.
--
-- Invariants: a deposit is credited, or returned, or neither, never both; a return moves no more than its deposit brought, and what a merchant
-- has on the same address stays there; what was swept for a return is reserved in the treasury until it has left.
-- Locks: chain.cursor first, then the treasury, as everybody.

-- What the tables of the ledger and of spends need for it, made while others use them; what it is for is said below.

alter table app.ledger_entry drop constraint if exists ledger_entry_any_kind, add constraint ledger_entry_any_kind
  check (kind in ('deposit', 'top_up', 'reorg', 'claim', 'release', 'payout', 'sweep', 'withdrawal', 'return', 'network_fee')) not valid;

alter table app.ledger_entry validate constraint ledger_entry_any_kind;

drop index concurrently if exists app.spend_one_merchants_sweep;

create unique index concurrently spend_one_merchants_sweep on app.spend (chain, source, token)
  where kind = 'sweep' and status <> 'final' and not recovered and merchant_id is not null;

-- Transaction

create table app.unattributed_decision (
  deposit_id uuid primary key references app.deposit,
  decision text not null check (decision in ('credit', 'return')),
  amount numeric(78, 0) not null check (amount >= 0),
  sweep_id uuid references app.spend,
  withdrawal_id uuid references app.spend,
  destination text,
  waiting_reason text,
  waiting_detail text,
  waiting_since timestamptz,
  decided_at timestamptz not null default clock_timestamp(),
  check (decision = 'return' or (sweep_id is null and withdrawal_id is null and destination is null))
);
create index unattributed_decision_sweep on app.unattributed_decision (sweep_id) where sweep_id is not null;
create index unattributed_decision_withdrawal on app.unattributed_decision (withdrawal_id) where withdrawal_id is not null;
create index unattributed_decision_open on app.unattributed_decision (deposit_id) where decision = 'return' and withdrawal_id is null;
comment on table app.unattributed_decision is 'What an operator decided about value that arrived for nobody: to credit it to the merchant whose address it is, or to return it.';
comment on column app.unattributed_decision.deposit_id is 'The deposit.';
comment on column app.unattributed_decision.decision is 'credit or return.';
comment on column app.unattributed_decision.amount is 'What was credited, or what is to be returned, in base units: of a native coin, what the network fees of taking it from its address leave.';
comment on column app.unattributed_decision.sweep_id is 'Of a return: the transaction that takes it to the treasury; null until that is begun. The last one, where it was begun again.';
comment on column app.unattributed_decision.withdrawal_id is 'Of a return: the transaction that takes it from the treasury to its destination; null until that is begun. The last one, where it was begun again.';
comment on column app.unattributed_decision.destination is 'Of a return: where it goes to, an address on the operator''s whitelist. Null where an older copy of the database had forgotten it: it has to be named again.';
comment on column app.unattributed_decision.waiting_reason is 'Of a return: what its next transaction waits for; null while nothing is in its way.';
comment on column app.unattributed_decision.waiting_detail is 'More about that, for the operator.';
comment on column app.unattributed_decision.waiting_since is 'Since when it waits for that.';
comment on column app.unattributed_decision.decided_at is 'When it was decided.';

-- The ledger has both: a credit is a deposit, posted when it is decided; the movements of a return are of a kind of their own.
alter table app.ledger_entry drop constraint ledger_entry_kind_check;
alter table app.ledger_entry rename constraint ledger_entry_any_kind to ledger_entry_kind_check;
comment on column app.ledger_entry.kind is 'deposit (deposits became final, or an operator credited one), top_up (the treasury was paid), reorg (a final deposit was taken back), claim and release (of a payout), payout, sweep, withdrawal, return (of unattributed value, in each of its steps), network_fee.';
comment on column analytics.ledger.kind is 'deposit (deposits became final, or an operator credited one), top_up (the treasury was paid), reorg (a final deposit was taken back), claim and release (of a payout), payout, sweep, withdrawal, return (of unattributed value, in each of its steps), network_fee.';

-- As in 005_deposits.sql, but for an operator's decision to credit.
create or replace trigger never_another before update on app.deposit for each row
  when (old.id <> new.id or old.chain <> new.chain or old.txid <> new.txid or old.output_index <> new.output_index
    or old.address <> new.address or old.token <> new.token or (old.status = 'reorged' and new.status = 'final')
    or (old.credited <> new.credited and (old.credited or current_setting('app.decided_by_operator', true) is distinct from 'on')))
  execute function app.refuse_change();
comment on column app.deposit.credited is 'True if it counts for the merchant; decided when it is first seen, or by an operator afterwards.';
comment on column app.deposit.version is 'Number of changes of status so far; that an operator credited it is one, too.';

-- What an operator decides ------------------------------------------------------------------------------------------------------------------

-- The deposit that is to be decided about, with its chain locked. Refuses what cannot be decided about.
create function app.lock_unattributed(of_deposit uuid) returns app.deposit
language plpgsql set search_path = pg_catalog as $$
declare
  d app.deposit;
  name text := app.public_id('dep', of_deposit);
  incident bigint;
begin
  perform from chain.cursor c where c.chain = (select o.chain from app.deposit o where o.id = of_deposit) for update;
  select * into d from app.deposit o where o.id = of_deposit for update;
  if d.id is null then raise exception 'there is no deposit %; sluice unattributed list shows what is unattributed', name using errcode = 'SL404'; end if;
  if d.credited then raise exception '% is credited to its merchant already', name using errcode = 'SL422'; end if;
  perform from app.asset a where a.chain = d.chain and a.token = d.token;
  if not found then
    raise exception '% is of a token that Sluice does not support: it can be neither credited nor moved', name using errcode = 'SL422';
  end if;
  if d.user_id is null then
    raise exception '% reached the treasury and is your own money; sluice treasury withdraw sends it on', name using errcode = 'SL422';
  end if;
  if d.status <> 'final' then
    raise exception '% is %; only what is final can be decided about', name, d.status using errcode = 'SL422';
  end if;
  incident := (select min(i.id) from app.incident i where i.subject = d.id::text and i.resolved_at is null);
  if incident is not null then
    raise exception 'incident % is about %; resolve it first (sluice incident list)', incident, name using errcode = 'SL422';
  end if;
  return d;
end $$;

create function app.return_is_under_way(r app.unattributed_decision) returns boolean
language sql stable set search_path = pg_catalog as $$
  select exists (select from app.spend s where s.id in (r.sweep_id, r.withdrawal_id) and (s.status <> 'final' or s.outcome = 'done'))
$$;

-- Makes it a final deposit of the merchant whose address it is, which is told at once: from here on it is one like any other.
create function app.credit_unattributed(of_deposit uuid) returns void
language plpgsql set search_path = pg_catalog as $$
declare
  d app.deposit := app.lock_unattributed(of_deposit);
  r app.unattributed_decision;
  number bigint;
begin
  select * into r from app.unattributed_decision u where u.deposit_id = d.id;
  if app.return_is_under_way(r) then
    raise exception '% is on its way back, or was returned; it cannot be credited', app.public_id('dep', d.id) using errcode = 'SL422';
  elsif r.amount < d.amount then
    raise exception 'a return of % came to nothing, and cost its address % base units in network fees; it can only be returned',
      app.public_id('dep', d.id), d.amount - r.amount using errcode = 'SL422';
  end if;
  update chain.cursor c set promotion = c.promotion + 1 where c.chain = d.chain returning c.promotion into number;
  perform set_config('app.decided_by_operator', 'on', true);
  update app.deposit o set credited = true, version = o.version + 1, promotion = number where o.id = d.id returning o.* into d; -- its first event
  perform set_config('app.decided_by_operator', '', true);
  insert into app.unattributed_decision as u (deposit_id, decision, amount) values (d.id, 'credit', d.amount)
  on conflict (deposit_id) do update set decision = 'credit', sweep_id = null, destination = null, waiting_reason = null,
    waiting_detail = null, waiting_since = null, decided_at = clock_timestamp();
  insert into app.balance_delta (merchant_id, chain, token, amount, deposit_count) values (d.merchant_id, d.chain, d.token, d.amount, 1);
  if app.uses_outputs(d.chain) then
    insert into app.output (chain, txid, vout, address, merchant_id, amount, mature_at)
    values (d.chain, d.txid, d.output_index, d.address, d.merchant_id, d.amount, case when d.sender = 'coinbase' then d.block_height + 100 end);
  end if;
  perform app.add_holding(d.chain, d.address, d.token, d.merchant_id, d.amount);
  perform app.post('deposit', d.id::text, d.chain, jsonb_build_array(
    jsonb_build_object('account', 'address', 'token', d.token, 'address', d.address, 'amount', -d.amount),
    jsonb_build_object('account', 'unattributed', 'token', d.token, 'amount', d.amount),
    jsonb_build_object('account', 'address', 'token', d.token, 'merchant_id', d.merchant_id, 'address', d.address, 'amount', d.amount),
    jsonb_build_object('account', 'merchant', 'token', d.token, 'merchant_id', d.merchant_id, 'amount', -d.amount)));
  perform app.emit_deposit_events(array[d.id], array['deposit.confirmed'], array[d.version], array[d.token], array[d.amount]);
end $$;
comment on function app.credit_unattributed is 'An operator''s decision that what arrived for nobody counts for the merchant whose address it is.';

-- Decides that it is returned, or where to; again, and with another destination, as long as it has not left the treasury. What came to nothing
-- is begun again.
create function app.return_unattributed(of_deposit uuid, to_address text) returns void
language plpgsql set search_path = pg_catalog as $$
declare
  d app.deposit := app.lock_unattributed(of_deposit);
  r app.unattributed_decision;
begin
  if app.uses_outputs(d.chain) then
    raise exception 'what arrived on % cannot be returned by Sluice', d.chain using errcode = 'SL422';
  end if;
  select * into r from app.unattributed_decision u where u.deposit_id = d.id;
  if exists (select from app.spend s where s.id = r.withdrawal_id and s.outcome = 'done') then
    raise exception '% was returned already', app.public_id('dep', d.id) using errcode = 'SL422';
  elsif exists (select from app.spend s where s.id = r.withdrawal_id and s.status <> 'final') then
    raise exception '% is on its way to % already; sluice treasury cancel % stops it', app.public_id('dep', d.id), r.destination, r.withdrawal_id
      using errcode = 'SL422';
  end if;
  insert into app.unattributed_decision as u (deposit_id, decision, amount, destination) values (d.id, 'return', d.amount, to_address)
  on conflict (deposit_id) do update set destination = to_address, withdrawal_id = null, waiting_reason = null, waiting_detail = null,
    waiting_since = null, sweep_id = (select s.id from app.spend s where s.id = u.sweep_id and (s.status <> 'final' or s.outcome = 'done'));
end $$;
comment on function app.return_unattributed is 'An operator''s decision that what arrived for nobody is returned to an address; the worker carries it out.';

-- Carrying out a return ---------------------------------------------------------------------------------------------------------------------

-- The ids of the transactions that a return may take, one after the other: told by what was received alone, so that they are recognised in
-- custody's journal by an older copy of the database that has forgotten the decision, or even the deposit.
create function app.return_spend_ids(d app.deposit, of_kind text) returns table (n int, id uuid)
language sql immutable set search_path = pg_catalog as $$
  select n, md5(concat_ws(':', 'return', of_kind, d.chain, d.txid, d.output_index, d.address, d.token, n))::uuid from generate_series(0, 19) n
$$;

create function app.next_return_spend(d app.deposit, of_kind text) returns uuid
language sql stable set search_path = pg_catalog as $$
  select i.id from app.return_spend_ids(d, of_kind) i where not exists (select from app.spend s where s.id = i.id) order by i.n limit 1
$$;

-- Whether the treasury holds its amount for it: it was swept, and no withdrawal of it is under way or done.
create function app.is_held(r app.unattributed_decision) returns boolean
language sql stable set search_path = pg_catalog as $$
  select exists (select from app.spend s where s.id = r.sweep_id and s.outcome = 'done')
    and not exists (select from app.spend s where s.id = r.withdrawal_id and (s.status <> 'final' or s.outcome = 'done'))
$$;

create view app.due_return as
select u.deposit_id, d.chain, d.token, d.address, u.amount, u.destination, t.address as treasury,
  case when u.sweep_id is null then 'sweep' else 'withdrawal' end as step
from app.unattributed_decision u join app.deposit d on d.id = u.deposit_id join app.chain c on c.chain = d.chain
join custody.address t on t.family = c.family and t.purpose = 'treasury' left join app.spend s on s.id = u.sweep_id
where u.decision = 'return' and u.withdrawal_id is null and (u.sweep_id is null or s.outcome = 'done') and u.destination is not null;
comment on view app.due_return is 'Returns of unattributed value whose next transaction is to be begun.';
comment on column app.due_return.deposit_id is 'The deposit.';
comment on column app.due_return.chain is 'Chain code.';
comment on column app.due_return.token is 'Token code.';
comment on column app.due_return.address is 'The address that it arrived at.';
comment on column app.due_return.amount is 'What is to be returned, in base units.';
comment on column app.due_return.destination is 'Where it goes to.';
comment on column app.due_return.treasury is 'The treasury of the chain.';
comment on column app.due_return.step is 'What is to be begun: sweep (to the treasury) or withdrawal (to the destination).';

create function app.wait_return(of_deposit uuid, reason text, detail text) returns void
language sql security definer set search_path = pg_catalog as $$
  update app.unattributed_decision u set waiting_detail = detail, waiting_reason = reason,
    waiting_since = case when u.waiting_reason = reason then u.waiting_since else clock_timestamp() end
  where u.deposit_id = of_deposit and u.decision = 'return' and u.withdrawal_id is null
    and (u.waiting_reason, u.waiting_detail) is distinct from (reason, detail)
$$;
comment on function app.wait_return is 'Notes what the next transaction of a return waits for.';

-- The deposit of a return whose next step is this one, with the chain and the treasury locked; null where it is not (any more).
create function app.lock_return(of_deposit uuid, of_step text) returns app.deposit
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

-- Takes a nonce for the sweep of a return: of the address itself for a native coin, which pays the fee out of what it moves; of the treasury,
-- which relays an authorisation, for a token. Sweeps of what is a merchant's on the same address go on beside it. Returns what is in its way,
-- nothing if it is begun.
create function app.begin_return_sweep(of_deposit uuid, moved numeric, max_fee numeric, out reason text, out detail text)
language plpgsql security definer set search_path = pg_catalog as $$
declare
  d app.deposit := app.lock_return(of_deposit, 'sweep');
  whole numeric := (select u.amount from app.unattributed_decision u where u.deposit_id = of_deposit);
  native text := app.native_token(d.chain);
  funds numeric := app.operator_funds(d.chain, native);
  by_whom text := case when d.token = native then d.address else app.treasury_address(d.chain) end;
  sweep uuid := app.next_return_spend(d, 'sweep');
begin
  if d.id is null then return; end if;
  if d.status <> 'final' then
    select 'deposit_not_final', 'the deposit left the chain' into reason, detail;
  elsif moved <= 0 or moved + (case when d.token = native then max_fee else 0 end) > whole or (d.token <> native and moved < whole) then
    select 'not_worth_moving', format('it is %s base units, and %s would be moved', whole, moved) into reason, detail;
  elsif d.token <> native and funds < max_fee then
    select 'insufficient_treasury_funds', format('%s for the network fee short by %s base units', native, max_fee - funds) into reason, detail;
  elsif sweep is null then
    select 'given_up', 'it was begun 20 times, and came to nothing' into reason, detail;
  end if;
  if reason is not null then return; end if;
  if d.token <> native then perform app.reserve(d.chain, native, max_fee); end if;
  insert into app.spend (id, kind, chain, token, amount, source, recipient, sender, nonce, max_fee)
  values (sweep, 'sweep', d.chain, d.token, moved, d.address, app.treasury_address(d.chain), by_whom, app.take_nonce(d.chain, by_whom), max_fee);
  update app.unattributed_decision u set sweep_id = sweep, waiting_reason = null, waiting_detail = null, waiting_since = null
  where u.deposit_id = d.id;
  perform app.wake_spends(d.chain);
end $$;
comment on function app.begin_return_sweep is 'Begins the sweep of a return to the treasury; returns what is in its way, or nothing. Safe to run again.';

-- Takes a nonce of the treasury for what was swept. Custody asks the whitelist again, and the limits; but what it refuses has taken a nonce by
-- then. Returns what is in its way, nothing if it is begun.
create function app.begin_return_withdrawal(of_deposit uuid, network_fee numeric, out reason text, out detail text)
language plpgsql security definer set search_path = pg_catalog as $$
declare
  d app.deposit := app.lock_return(of_deposit, 'withdrawal');
  r app.unattributed_decision;
  native text := app.native_token(d.chain);
  funds numeric := app.operator_funds(d.chain, native); -- without its own amount, which is reserved
  treasury text := app.treasury_address(d.chain);
  withdrawal uuid := app.next_return_spend(d, 'withdrawal');
begin
  if d.id is null then return; end if;
  select * into r from app.unattributed_decision u where u.deposit_id = d.id;
  if d.status <> 'final' then
    select 'deposit_not_final', 'the deposit left the chain' into reason, detail;
  elsif not exists (select from custody.whitelist w where w.merchant_id is null and w.chain = d.chain and w.address = r.destination
      and w.active_at <= clock_timestamp() and w.removed_at is null) then
    select 'not_whitelisted', r.destination || ' is not on the operator''s whitelist' into reason, detail;
  elsif funds < network_fee then
    select 'insufficient_treasury_funds', format('%s for the network fee short by %s base units', native, network_fee - funds) into reason, detail;
  elsif withdrawal is null then
    select 'given_up', 'it was begun 20 times, and came to nothing' into reason, detail;
  end if;
  if reason is not null then return; end if;
  perform app.reserve(d.chain, native, network_fee);
  insert into app.spend (id, kind, chain, token, amount, source, recipient, sender, nonce, max_fee)
  values (withdrawal, 'withdrawal', d.chain, d.token, r.amount, treasury, r.destination, treasury, app.take_nonce(d.chain, treasury), network_fee);
  update app.unattributed_decision u set withdrawal_id = withdrawal, waiting_reason = null, waiting_detail = null, waiting_since = null
  where u.deposit_id = d.id;
  perform app.wake_spends(d.chain);
end $$;
comment on function app.begin_return_withdrawal is 'Begins the withdrawal of a return from the treasury to its destination; returns what is in its way, or nothing. Safe to run again.';

-- The sweep of a return, which belongs to no merchant, is none that a payout could wait for, or that keeps others of the same address waiting.
drop index app.spend_one_sweep;
alter index app.spend_one_merchants_sweep rename to spend_one_sweep;
comment on column app.spend.merchant_id is 'The merchant that is paid, or whose address is swept; null where what is swept belongs to no merchant.';

-- As in 012_spends.sql, but for the sweeps of returns, which are not waited for.
create or replace function app.begin_sweeps(of_payout uuid, of_chain text, of_token text, addresses text[], amounts numeric[], max_fees numeric[]) returns text
language plpgsql security definer set search_path = pg_catalog as $$
declare
  native text := app.native_token(of_chain);
  treasury text := app.treasury_address(of_chain);
  item record;
  held app.holding;
  sweep uuid;
  funds numeric;
  short text;
begin
  if of_payout is not null then
    perform from app.payout p where p.id = of_payout and p.status = 'sweeping' for update;
    if not found then return null; end if;
  end if;
  perform app.lock_treasury(of_chain);
  funds := app.operator_funds(of_chain, native);
  for item in select * from unnest(addresses, amounts, max_fees) as u (address, amount, max_fee) order by address loop
    sweep := (select s.id from app.spend s
      where s.chain = of_chain and s.source = item.address and s.token = of_token and s.kind = 'sweep' and s.status <> 'final'
        and s.merchant_id is not null
      order by s.nonce desc limit 1);
    if sweep is null then
      select * into held from app.holding h where h.chain = of_chain and h.address = item.address and h.token = of_token;
      continue when held.address is null or item.amount <= 0
        or held.amount < item.amount + case when native = of_token then item.max_fee else 0 end;
      if native <> of_token then
        if funds < item.max_fee then
          short := native || ' for sweeping short by ' || item.max_fee - funds || ' base units';
          exit;
        end if;
        funds := funds - item.max_fee;
        perform app.reserve(of_chain, native, item.max_fee);
      end if;
      insert into app.spend as s (kind, chain, token, amount, source, recipient, sender, nonce, payout_id, merchant_id, max_fee)
      select 'sweep', of_chain, of_token, item.amount, item.address, treasury, by_whom, app.take_nonce(of_chain, by_whom), of_payout,
        held.merchant_id, item.max_fee
      from (select case when native = of_token then item.address else treasury end as by_whom) b
      returning s.id into sweep;
    end if;
    if of_payout is not null then
      insert into app.payout_sweep (payout_id, spend_id) values (of_payout, sweep) on conflict do nothing;
    end if;
  end loop;
  perform app.wake_spends(of_chain);
  return short;
end $$;

-- When its transactions are final -----------------------------------------------------------------------------------------------------------

-- As in 016_outputs.sql, and besides: what the address pays for the sweep of a return is paid out of what is returned. (More than that is only
-- spent by a cancel while fees rise, and is borne by the operator as that of any sweep.)
create or replace function app.post_network_fee(s app.spend, fee numeric) returns void
language plpgsql set search_path = pg_catalog as $$
declare
  native text := app.native_token(s.chain);
  by_treasury boolean := s.sender = app.treasury_address(s.chain) or app.uses_outputs(s.chain);
  r app.unattributed_decision;
  own numeric;
begin
  if by_treasury then
    perform app.add_treasury(s.chain, native, -fee, -s.max_fee);
  else
    if s.merchant_id is null then -- of a return; not always the last one of it, in an older copy of the database
      select u.* into r from app.unattributed_decision u join app.deposit d on d.id = u.deposit_id
      where d.chain = s.chain and d.address = s.source and s.id in (select i.id from app.return_spend_ids(d, 'sweep') i);
    end if;
    if r.deposit_id is not null then
      own := least(fee, r.amount);
      update app.unattributed_decision u set amount = u.amount - own where u.deposit_id = r.deposit_id;
      perform app.post('return', s.id::text, s.chain, jsonb_build_array(
        jsonb_build_object('account', 'unattributed', 'token', native, 'amount', own),
        jsonb_build_object('account', 'address', 'token', native, 'address', s.sender, 'amount', -own)));
      if own = fee then return; end if;
      fee := fee - own;
      s.merchant_id := (select a.merchant_id from custody.address a where a.address = s.sender);
    end if;
    perform app.add_holding(s.chain, s.sender, native, s.merchant_id, -fee);
    perform app.add_share(s.chain, native, s.merchant_id, fee, 0);
  end if;
  perform app.post('network_fee', s.id::text, s.chain, jsonb_build_array(
    jsonb_build_object('account', 'network', 'token', native, 'merchant_id', s.merchant_id, 'amount', fee),
    jsonb_build_object('account', case when by_treasury then 'treasury' else 'address' end, 'token', native, 'merchant_id', s.merchant_id,
      'address', case when not by_treasury then s.sender end, 'amount', -fee)));
  update app.payout p set network_fee = p.network_fee + post_network_fee.fee where p.id = s.payout_id;
end $$;

-- As in 012_spends.sql, and besides: what was swept for a return is held for it.
create or replace function app.finish_sweep(s app.spend, outcome text, moved numeric) returns void
language plpgsql set search_path = pg_catalog as $$
declare r app.unattributed_decision;
begin
  if outcome <> 'done' then return; end if;
  update app.unattributed_decision u set amount = moved where u.sweep_id = s.id returning * into r;
  if r.deposit_id is not null then
    perform app.add_treasury(s.chain, s.token, moved, case when app.is_held(r) then moved else 0 end);
    perform app.post('return', s.id::text, s.chain, jsonb_build_array(
      jsonb_build_object('account', 'treasury', 'token', s.token, 'amount', moved),
      jsonb_build_object('account', 'address', 'token', s.token, 'address', s.source, 'amount', -moved)));
    return;
  end if;
  perform app.add_holding(s.chain, s.source, s.token, s.merchant_id, -moved);
  perform app.add_treasury(s.chain, s.token, moved, 0);
  perform app.add_share(s.chain, s.token, s.merchant_id, moved, 0);
  perform app.post('sweep', s.id::text, s.chain, jsonb_build_array(
    jsonb_build_object('account', 'treasury', 'token', s.token, 'merchant_id', s.merchant_id, 'amount', moved),
    jsonb_build_object('account', 'address', 'token', s.token, 'merchant_id', s.merchant_id, 'address', s.source, 'amount', -moved)));
end $$;

-- As in 012_spends.sql, and besides: what leaves for a return is not the operator's; what did not leave stays held for it.
create or replace function app.finish_withdrawal(s app.spend, outcome text) returns void
language plpgsql set search_path = pg_catalog as $$
declare is_return boolean := exists (select from app.unattributed_decision u where u.withdrawal_id = s.id);
begin
  if outcome = 'done' then
    perform app.add_treasury(s.chain, s.token, -s.amount, -s.amount);
    perform app.post(case when is_return then 'return' else 'withdrawal' end, s.id::text, s.chain, jsonb_build_array(
      jsonb_build_object('account', case when is_return then 'unattributed' else 'operator' end, 'token', s.token, 'amount', s.amount),
      jsonb_build_object('account', 'treasury', 'token', s.token, 'amount', -s.amount)));
  elsif not is_return then
    perform app.add_treasury(s.chain, s.token, 0, -s.amount);
  end if;
end $$;

-- An older copy of the database -------------------------------------------------------------------------------------------------------------

-- A spend that was entered again from custody's journal is of the return of this deposit: the decision is made again, too. Where it goes to, if it
-- was only swept, the operator has to say once more.
create function app.adopt_return(d app.deposit, s app.spend) returns void
language plpgsql set search_path = pg_catalog as $$
declare r app.unattributed_decision;
begin
  select * into r from app.unattributed_decision u where u.deposit_id = d.id;
  if s.kind = 'withdrawal' and app.is_held(r) then perform app.reserve(s.chain, s.token, -r.amount); end if; -- its own amount is reserved
  insert into app.unattributed_decision as u (deposit_id, decision, amount, sweep_id, withdrawal_id, destination)
  values (d.id, 'return', d.amount, case s.kind when 'sweep' then s.id end, case s.kind when 'withdrawal' then s.id end,
    case s.kind when 'withdrawal' then s.recipient end)
  on conflict (deposit_id) do update set decision = 'return', sweep_id = coalesce(excluded.sweep_id, u.sweep_id),
    withdrawal_id = coalesce(excluded.withdrawal_id, u.withdrawal_id), destination = coalesce(excluded.destination, u.destination);
  update app.spend x set merchant_id = null where x.id = s.id;
  delete from app.payout_sweep l where l.spend_id = s.id;
end $$;

create function app.adopt_spend() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
begin
  perform app.adopt_return(d, new) from app.deposit d
  where d.chain = new.chain and not d.credited and d.user_id is not null and d.token = new.token
    and (new.kind = 'withdrawal' or d.address = new.source) and new.id in (select i.id from app.return_spend_ids(d, new.kind) i);
  return null;
end $$;
create trigger adopt_return after insert on app.spend for each row
  when (new.recovered and new.kind in ('sweep', 'withdrawal')) execute function app.adopt_spend();

-- Nor does it count for the merchant, though its chain was asked for again before it is read.
create function app.withhold_returned() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
begin
  if not exists (select from app.spend s where s.chain = new.chain and s.recovered and s.status <> 'final') then return new; end if;
  new.credited := not exists (select from (values ('sweep'), ('withdrawal')) k (kind)
    cross join lateral app.return_spend_ids(new, k.kind) i join app.spend s on s.id = i.id where s.recovered);
  return new;
end $$;
create trigger withhold_returned before insert on app.deposit for each row
  when (new.credited and new.user_id is not null) execute function app.withhold_returned();

create function app.adopt_deposit() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
begin
  perform app.adopt_return(new, s) from (values ('sweep'), ('withdrawal')) k (kind)
  cross join lateral app.return_spend_ids(new, k.kind) i join app.spend s on s.id = i.id where s.status <> 'final' order by k.kind, i.n;
  return null;
end $$;
create trigger adopt_return after insert on app.deposit for each row
  when (not new.credited and new.user_id is not null) execute function app.adopt_deposit();

-- Audit -------------------------------------------------------------------------------------------------------------------------------------

-- As in 016_outputs.sql, and besides: what is held for returns is reserved, and what is unattributed is what the deposits say.
create or replace view app.ledger_audit as
with entry as (
  select account, kind, chain, token, merchant_id, address, sum(amount) as amount from app.ledger_entry
  group by account, kind, chain, token, merchant_id, address
), compared (what, chain, token, merchant_id, address, kept, posted) as (
  select 'holding', chain, token, merchant_id, address, sum(kept), sum(posted) from (
    select chain, token, merchant_id, address, amount as kept, 0 as posted from app.holding
    union all
    select chain, token, merchant_id, address, 0, amount from entry where account = 'address' and merchant_id is not null
  ) h group by chain, token, merchant_id, address
  union all
  select 'treasury', chain, token, null, null, sum(kept), sum(posted) from (
    select chain, token, balance as kept, 0 as posted from app.treasury
    union all select chain, token, 0, amount from entry where account = 'treasury'
  ) t group by chain, token
  union all
  select 'treasury_share', chain, token, merchant_id, null, sum(kept), sum(posted) from (
    select chain, token, merchant_id, amount as kept, 0 as posted from app.treasury_share
    union all
    select chain, token, merchant_id, 0, case when kind = 'sweep' then amount else -amount end from entry
    where (kind = 'sweep' and account = 'treasury') or (kind = 'network_fee' and account = 'address') or (kind = 'payout' and account = 'payout')
  ) s group by chain, token, merchant_id
  union all
  select 'treasury_reserved', chain, token, null, null, sum(kept), sum(posted) from (
    select chain, token, reserved as kept, 0 as posted from app.treasury
    union all
    select s.chain, s.token, 0, s.amount - s.swept_in from app.spend s left join app.payout p on p.id = s.payout_id
    where s.status <> 'final' and (s.kind = 'withdrawal' or (s.kind = 'payout' and p.status in ('swept', 'paying')))
    union all
    select s.chain, app.native_token(s.chain), 0, s.max_fee from app.spend s
    where s.status <> 'final' and (s.sender = app.treasury_address(s.chain) or app.uses_outputs(s.chain))
    union all
    select s.chain, s.token, 0, u.amount from app.unattributed_decision u join app.spend s on s.id = u.sweep_id where app.is_held(u)
  ) r group by chain, token
  union all
  select 'share_reserved', chain, token, merchant_id, null, sum(kept), sum(posted) from (
    select chain, token, merchant_id, reserved as kept, 0 as posted from app.treasury_share
    union all
    select p.chain, p.token, p.merchant_id, 0, p.gross - s.swept_in from app.payout p join app.spend s on s.payout_id = p.id and s.kind = 'payout'
    where p.status in ('swept', 'paying')
  ) r group by chain, token, merchant_id
  union all
  select 'merchant', chain, token, merchant_id, null, sum(kept), sum(posted) from (
    select chain, token, merchant_id, amount as kept, 0 as posted from app.balance_now
    union all select chain, token, merchant_id, 0, -amount from entry where account = 'merchant'
  ) m group by chain, token, merchant_id
  union all
  select 'payout', chain, token, merchant_id, null, sum(kept), sum(posted) from (
    select chain, token, merchant_id, gross as kept, 0 as posted from app.payout where status not in ('completed', 'failed')
    union all select chain, token, merchant_id, 0, -amount from entry where account = 'payout'
  ) p group by chain, token, merchant_id
  union all
  select 'output', chain, token, null, address, sum(kept), sum(posted) from (
    select u.chain, app.native_token(u.chain) as token, u.address, u.amount as kept, 0 as posted from app.output u
    where u.spent_by is null and u.merchant_id is not null
    union all
    select h.chain, h.token, h.address, 0, h.amount from app.holding h where app.uses_outputs(h.chain)
    union all
    select u.chain, app.native_token(u.chain), null, u.amount, 0 from app.output u where u.spent_by is null and u.merchant_id is null
    union all
    select t.chain, t.token, null, 0, t.balance from app.treasury t where app.uses_outputs(t.chain)
  ) u group by chain, token, address
  union all
  select 'unattributed', chain, token, null, null, sum(kept), sum(posted) from (
    select d.chain, d.token, d.amount as kept, 0 as posted from app.deposit d join app.asset a on a.chain = d.chain and a.token = d.token
    where not d.credited and d.user_id is not null and d.status = 'final'
    union all -- what left it: for its network fees, and to where it was returned
    select chain, token, -amount, 0 from entry where account = 'unattributed' and kind = 'return'
    union all
    select chain, token, 0, -amount from entry where account = 'unattributed'
  ) u group by chain, token
)
select what, chain, token, merchant_id, address, kept, posted from compared where kept <> posted;
comment on column app.ledger_audit.what is 'holding, treasury, treasury_share, treasury_reserved, share_reserved, merchant (the balance), payout (claimed), output (unspent outputs against the holding of an address, or the treasury) or unattributed.';

-- As in 020_audit.sql, and besides: fees that were paid out of what is returned.
create or replace view audit.fees as
select what, chain, token, sum(posted) as posted, sum(due) as due from (
  select 'service fees' as what, chain, token, -amount as posted, 0 as due from app.ledger_entry where account = 'fees'
  union all select 'service fees', chain, token, 0, fee from app.payout where status = 'completed'
  union all select 'network fees', chain, token, amount, 0 from app.ledger_entry where account = 'network'
  union all select 'network fees', e.chain, e.token, e.amount, 0 from app.ledger_entry e
    join app.spend s on s.id::text = e.reference and s.kind = 'sweep' where e.account = 'unattributed' and e.kind = 'return'
  union all select 'network fees', chain, app.native_token(chain), 0, fee_paid from app.spend where status = 'final'
) part group by what, chain, token having sum(posted) <> sum(due);

create view audit.unattributed as
select u.deposit_id, u.decision, 'more than arrived' as wrong from app.unattributed_decision u join app.deposit d on d.id = u.deposit_id
where u.amount > d.amount or exists (select from app.spend s where s.id in (u.sweep_id, u.withdrawal_id)
  and (s.amount > d.amount or (s.chain, s.token) <> (d.chain, d.token)))
union all
select u.deposit_id, u.decision, case when d.credited then 'credited' else 'not credited' end
from app.unattributed_decision u join app.deposit d on d.id = u.deposit_id where d.credited <> (u.decision = 'credit')
union all
select d.id, u.decision, 'returned more than once' from app.unattributed_decision u join app.deposit d on d.id = u.deposit_id
where (select count(*) from app.return_spend_ids(d, 'withdrawal') i join app.spend s on s.id = i.id and s.outcome = 'done') > 1;
comment on view audit.unattributed is 'what arrived for nobody was credited, or returned once, or neither, and no more of it than arrived';

grant select on app.unattributed_decision, app.due_return to sluice_jobs;
grant execute on function app.wait_return, app.begin_return_sweep, app.begin_return_withdrawal to sluice_jobs;
