-- Outputs: on a chain that has them instead of accounts, the money that can be spent, and the transactions that spend it.
--
-- A spend (012_spends.sql) uses there not a nonce but outputs: its lead, which every attempt of it has among its inputs (app.spend.sender; nonce
-- 0), and others. Attempts only ever add inputs. So at most one of them can be mined, as with a nonce. One transaction sweeps and pays: what
-- deposit addresses hold goes in, the net to the merchant and the rest to the treasury come out.
--
-- Writers: chain.promote (outputs that became final), the worker through app.begin_output_* and app.add_inputs (reserves them), settling
-- (spent, and the change). Readers: the worker, which chooses among those that are free.
--
-- Invariants: an output is here once (its primary key), from the moment it is final and in the ledger; one spend at a time has it reserved,
-- and keeps it if it spends it; the unspent outputs of an address add up to its app.holding, those of the treasury to its balance.

create function app.uses_outputs(of_chain text) returns boolean
language sql stable set search_path = pg_catalog as $$
  select coalesce((select family = 'bitcoin' from app.chain where chain = of_chain), false)
$$;
comment on function app.uses_outputs is 'Whether transactions of a chain spend outputs (Bitcoin) rather than balances of accounts.';

create table app.output (
  chain text not null,
  txid text not null,
  vout int not null,
  address text not null,
  merchant_id uuid references app.merchant,
  amount numeric(78, 0) not null check (amount > 0),
  spend_id uuid references app.spend,
  from_attempt int,
  spent_by text,
  mature_at int,
  primary key (chain, txid, vout),
  check ((spend_id is null) = (from_attempt is null))
);
create index output_free on app.output (chain, merchant_id, amount desc) where spend_id is null and spent_by is null;
create index output_spend on app.output (spend_id) where spend_id is not null;
create index output_unspent on app.output (chain, address) where spent_by is null;
comment on table app.output is 'Final outputs of ours on chains that have them. Free ones (app.free_output) are in no spend, not spent, and mature.';
comment on column app.output.chain is 'Chain code.';
comment on column app.output.txid is 'The transaction that made it.';
comment on column app.output.vout is 'Its position there.';
comment on column app.output.address is 'Our address.';
comment on column app.output.merchant_id is 'The merchant whose user''s address it is; null for the treasury''s.';
comment on column app.output.amount is 'Amount in base units.';
comment on column app.output.spend_id is 'The spend that has it reserved, or spent it.';
comment on column app.output.from_attempt is 'The attempt of that spend from which on it is an input.';
comment on column app.output.spent_by is 'The final transaction that spent it.';
comment on column app.output.mature_at is 'The head from which on nodes let it be spent: new coins (a coinbase) have to lie for 100 blocks. Null where that is at once.';

-- Read without a lock: who reserves one asks again.
create view app.free_output as
select u.chain, u.txid, u.vout, u.address, u.merchant_id, u.amount from app.output u
where u.spend_id is null and u.spent_by is null
  and (u.mature_at is null or u.mature_at <= (select c.head_height from chain.cursor c where c.chain = u.chain));
comment on view app.free_output is 'Outputs that can be spent now: in no spend, not spent, mature.';
comment on column app.free_output.chain is 'Chain code.';
comment on column app.free_output.txid is 'The transaction that made it.';
comment on column app.free_output.vout is 'Its position there.';
comment on column app.free_output.address is 'Our address.';
comment on column app.free_output.merchant_id is 'The merchant whose user''s address it is; null for the treasury''s.';
comment on column app.free_output.amount is 'Amount in base units.';

alter table app.spend add column swept_in numeric(78, 0) not null default 0;
comment on column app.spend.swept_in is 'On chains with outputs: how much of a payout''s gross its payment brings with it from the merchant''s addresses; as long as it is under way, so much less is reserved.';
comment on column app.spend.sender is 'Address that sends the transaction and pays its fee: the source, or the treasury that relays an authorisation of the source. On Bitcoin the lead: the output (txid:vout) that every attempt spends.';
comment on column app.spend.nonce is 'The nonce of the sender that it uses; 0 on Bitcoin.';
comment on column app.spend.source is 'Address that the amount is taken from; of a sweep on Bitcoin, its lead.';

alter table app.outbound_tx alter column max_fee_per_gas drop not null, alter column max_priority_fee_per_gas drop not null,
  alter column gas_limit drop not null, add column fee numeric(78, 0), add column vsize int,
  add constraint priced check ((max_fee_per_gas is null) <> (fee is null));
comment on column app.outbound_tx.max_fee_per_gas is 'Highest price per unit of gas, in wei; null on Bitcoin.';
comment on column app.outbound_tx.max_priority_fee_per_gas is 'Highest tip per unit of gas, in wei; null on Bitcoin.';
comment on column app.outbound_tx.gas_limit is 'Most units of gas that it may use; null on Bitcoin.';
comment on column app.outbound_tx.fee is 'On Bitcoin: the fee that it pays, in sat.';
comment on column app.outbound_tx.vsize is 'On Bitcoin: its size in virtual bytes.';

create view app.spend_inclusion as
select s.id as spend_id, i.chain, i.txid, i.block_height, i.success, i.fee, true as excludes
from app.spend s join chain.inclusion i on i.chain = s.chain and i.sender = s.sender and i.nonce = s.nonce
union all
select u.spend_id, i.chain, i.txid, i.block_height, i.success, i.fee, u.from_attempt = 1
from app.output u join chain.inclusion i on i.chain = u.chain and i.sender = u.txid || ':' || u.vout and i.nonce = 0
where u.spend_id is not null;
comment on view app.spend_inclusion is 'Transactions in a block that use what a spend uses: its nonce, or any of its outputs. Some are there more than once.';
comment on column app.spend_inclusion.spend_id is 'The spend.';
comment on column app.spend_inclusion.chain is 'Chain code.';
comment on column app.spend_inclusion.txid is 'The transaction.';
comment on column app.spend_inclusion.block_height is 'Its block.';
comment on column app.spend_inclusion.success is 'Whether it had its effect.';
comment on column app.spend_inclusion.fee is 'What it cost.';
comment on column app.spend_inclusion.excludes is 'Whether it uses what every attempt of the spend uses: if it is none of them, none can be mined.';

-- Outputs become ours to spend ----------------------------------------------------------------------------------------------------------------

-- Deposits that are about to be final, before spends are settled: an older copy of the database may read an output and what spent it at once.
create function app.add_outputs(of_chain text, final_height int) returns void
language plpgsql set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
begin
  insert into app.output (chain, txid, vout, address, merchant_id, amount, mature_at)
  select d.chain, d.txid, d.output_index, d.address, case when d.credited then d.merchant_id end, d.amount,
    case when d.sender = 'coinbase' then d.block_height + 100 end
  from app.deposit d
  where d.chain = of_chain and d.status = 'pending' and d.block_height <= final_height and (d.credited or d.user_id is null)
  on conflict do nothing;
  perform app.settle_bumps(of_chain, final_height); -- 018_bump.sql
  delete from chain.unmined u using chain.transfer t where u.chain = of_chain and t.id = u.id and t.block_height <= final_height;
  if exists (select from app.spend s where s.chain = of_chain and s.recovered and s.status <> 'final') then
    perform custody.reserve_recovered(of_chain);
  end if;
end $$;

-- What custody's journal has spent of outputs that an older copy of the database did not know yet.
create function custody.reserve_recovered(of_chain text) returns void
language sql set search_path = pg_catalog as $$
  update app.output u set spend_id = r.spend_id, from_attempt = r.attempt
  from (select distinct on (i.input) i.input, o.spend_id, o.attempt
    from app.spend s join app.outbound_tx o on o.spend_id = s.id join custody.journal j on j.stream = o.chain and j.txid = o.txid
    cross join lateral jsonb_array_elements_text(j.details -> 'inputs') as i (input)
    where s.chain = of_chain and s.recovered and s.status <> 'final' order by i.input, o.attempt) r
  where u.chain = of_chain and u.spend_id is null and u.spent_by is null and u.txid || ':' || u.vout = r.input
$$;

-- Choosing and reserving ----------------------------------------------------------------------------------------------------------------------

-- What free outputs hold, all together, and how much of it is of the merchant's addresses; count below the number asked for: some are not free.
create function app.weigh_outputs(of_chain text, inputs text[], of_merchant uuid, with_treasury boolean, out count bigint, out total numeric, out of_addresses numeric)
language sql stable set search_path = pg_catalog as $$
  select count(*), coalesce(sum(u.amount), 0), coalesce(sum(u.amount) filter (where u.merchant_id is not null), 0)
  from (select distinct split_part(i, ':', 1) as txid, split_part(i, ':', 2)::int as vout from unnest(inputs) i) k
  join app.free_output u on u.chain = of_chain and u.txid = k.txid and u.vout = k.vout
  where case when u.merchant_id is null then with_treasury else u.merchant_id = of_merchant end
$$;

create function app.reserve_outputs(of_chain text, inputs text[], of_spend uuid, attempt int) returns void
language sql set search_path = pg_catalog as $$
  update app.output u set spend_id = of_spend, from_attempt = attempt
  from (select split_part(i, ':', 1) as txid, split_part(i, ':', 2)::int as vout from unnest(inputs) i) k
  where u.chain = of_chain and u.txid = k.txid and u.vout = k.vout
$$;

-- The free outputs of the deposits that a payout claimed, the largest first: what it takes with sweep_first.
create function app.claimed_outputs(of_payout uuid, most int) returns table (outpoint text, amount numeric)
language sql stable security definer set search_path = pg_catalog as $$
  select u.txid || ':' || u.vout, u.amount
  from app.deposit d join app.free_output u on u.chain = d.chain and u.txid = d.txid and u.vout = d.output_index
  where d.settlement_id = of_payout order by u.amount desc limit most
$$;
comment on function app.claimed_outputs is 'Free outputs of the deposits that a payout claimed, the largest first.';

-- The first that no spend had for its lead before.
create function app.lead_of(of_chain text, inputs text[]) returns text
language sql stable set search_path = pg_catalog as $$
  select i from unnest(inputs) with ordinality as u (i, n)
  where not exists (select from app.spend s where s.chain = of_chain and s.sender = i) order by n limit 1
$$;

-- As long as a payment is under way that brings money of its own from the merchant's addresses, so much less of the treasury is reserved for it.
create function app.set_swept_in(s app.spend, brought numeric) returns void
language plpgsql set search_path = pg_catalog as $$
begin
  update app.spend x set swept_in = brought where x.id = s.id;
  perform app.reserve(s.chain, s.token, s.swept_in - brought);
  perform app.add_share(s.chain, s.token, s.merchant_id, 0, s.swept_in - brought);
end $$;

create function app.give_up_swept_in(s app.spend) returns void
language plpgsql set search_path = pg_catalog as $$
begin
  if s.swept_in > 0 then perform app.set_swept_in(s, 0); end if;
end $$;

-- Takes a payout from sweeping to swept with its payment allocated: these inputs bring what its merchant's addresses hold, and what is missing
-- comes from the treasury's. Returns what is short, or null when the spend is there (made now or before).
create function app.begin_output_payment(of_payout uuid, inputs text[], network_fee numeric) returns text
language plpgsql security definer set search_path = pg_catalog as $$
declare
  p app.payout;
  s app.spend;
  found_outputs record;
  brought numeric;
  short text;
  lead text;
begin
  select * into p from app.payout o where o.id = of_payout and o.status = 'sweeping' for update;
  if p.id is null or exists (select from app.payout_sweep l join app.spend x on x.id = l.spend_id where l.payout_id = p.id and x.status <> 'final')
    or (p.sweep_first and exists (select from app.claim c where c.payout_id = p.id and c.kind = 'claim' and c.finished_at is null)) then
    return null;
  end if;
  perform app.lock_treasury(p.chain);
  select * into found_outputs from app.weigh_outputs(p.chain, inputs, p.merchant_id, true);
  lead := app.lead_of(p.chain, inputs);
  if found_outputs.count is distinct from cardinality(inputs) or lead is null then return 'outputs that were chosen are not free any more'; end if;
  if found_outputs.total < p.net + network_fee then
    return p.token || ' in these outputs short by ' || p.net + network_fee - found_outputs.total || ' base units';
  end if;
  brought := least(found_outputs.of_addresses, p.gross, p.net + network_fee);
  short := app.shortage(p.chain, p.token, p.merchant_id, p.net - brought, p.gross - brought, network_fee);
  if short is not null then return short; end if;
  perform app.add_share(p.chain, p.token, p.merchant_id, 0, p.gross);
  perform app.reserve(p.chain, p.token, p.net);
  perform app.reserve(p.chain, app.native_token(p.chain), network_fee);
  insert into app.spend as x (kind, chain, token, amount, source, recipient, sender, nonce, payout_id, merchant_id, max_fee)
  values ('payout', p.chain, p.token, p.net, app.treasury_address(p.chain), p.address, lead, 0, p.id, p.merchant_id, network_fee)
  returning x.* into s;
  perform app.set_swept_in(s, brought);
  perform app.reserve_outputs(p.chain, inputs, s.id, 1);
  update app.payout o set status = 'swept' where o.id = p.id;
  perform app.wake_spends(p.chain);
  return null;
end $$;
comment on function app.begin_output_payment is 'Reserves the outputs that a payout is paid from, and takes it from sweeping to swept; returns what is short, or null. Safe to run again.';

-- One transaction that takes outputs of one merchant's addresses to the treasury, for a payout (which then waits for it) or for none. Returns
-- what is short, or null.
create function app.begin_output_sweep(of_payout uuid, of_chain text, of_merchant uuid, inputs text[], network_fee numeric) returns text
language plpgsql security definer set search_path = pg_catalog as $$
declare
  found_outputs record;
  funds numeric;
  sweep uuid;
  lead text;
begin
  if of_payout is not null then
    perform from app.payout p where p.id = of_payout and p.status = 'sweeping' for update;
    if not found then return null; end if;
  end if;
  perform app.lock_treasury(of_chain);
  select * into found_outputs from app.weigh_outputs(of_chain, inputs, of_merchant, false);
  lead := app.lead_of(of_chain, inputs);
  if found_outputs.count is distinct from cardinality(inputs) or lead is null then return 'outputs that were chosen are not free any more'; end if;
  if found_outputs.total <= network_fee then return 'these outputs hold no more than the network fee'; end if;
  funds := app.operator_funds(of_chain, app.native_token(of_chain));
  if funds < network_fee then
    return app.native_token(of_chain) || ' for sweeping short by ' || network_fee - funds || ' base units';
  end if;
  perform app.reserve(of_chain, app.native_token(of_chain), network_fee);
  insert into app.spend as x (kind, chain, token, amount, source, recipient, sender, nonce, payout_id, merchant_id, max_fee)
  values ('sweep', of_chain, app.native_token(of_chain), found_outputs.total - network_fee, lead, app.treasury_address(of_chain), lead, 0,
    of_payout, of_merchant, network_fee)
  returning x.id into sweep;
  perform app.reserve_outputs(of_chain, inputs, sweep, 1);
  if of_payout is not null then
    insert into app.payout_sweep (payout_id, spend_id) values (of_payout, sweep);
  end if;
  perform app.wake_spends(of_chain);
  return null;
end $$;
comment on function app.begin_output_sweep is 'Reserves outputs of a merchant''s addresses for one transaction that takes them to the treasury; returns what is short, or null.';

-- A withdrawal of the operator's own money; for the command line alone. Custody checks the operator's whitelist.
create function app.begin_output_withdrawal(of_chain text, amount numeric, recipient text, inputs text[], network_fee numeric) returns uuid
language plpgsql security definer set search_path = pg_catalog as $$
declare
  token text := app.native_token(of_chain);
  found_outputs record;
  short text;
  spend uuid;
  lead text;
begin
  perform app.lock_treasury(of_chain);
  short := app.shortage(of_chain, token, null, amount, 0, network_fee);
  if short is not null then raise exception 'the operator''s own money is not enough: %', short using errcode = 'SL422'; end if;
  select * into found_outputs from app.weigh_outputs(of_chain, inputs, null, true);
  lead := app.lead_of(of_chain, inputs);
  if found_outputs.count is distinct from cardinality(inputs) or lead is null or found_outputs.total < amount + network_fee then
    raise exception 'the treasury''s free outputs are not enough now; try again when its transactions are final' using errcode = 'SL422';
  end if;
  perform app.reserve(of_chain, token, amount);
  perform app.reserve(of_chain, token, network_fee);
  insert into app.spend as s (kind, chain, token, amount, source, recipient, sender, nonce, max_fee)
  values ('withdrawal', of_chain, token, begin_output_withdrawal.amount, app.treasury_address(of_chain), begin_output_withdrawal.recipient, lead, 0,
    network_fee)
  returning s.id into spend;
  perform app.reserve_outputs(of_chain, inputs, spend, 1);
  perform app.wake_spends(of_chain);
  return spend;
end $$;
comment on function app.begin_output_withdrawal is 'Reserves outputs of the treasury for a withdrawal of the operator''s own money; returns the id of the spend.';

-- As in 012_spends.sql, but for sweep_first where there are outputs: whatever has taken an output that the payout claimed is waited for.
create or replace function app.await_sweeps(of_payout uuid) returns void
language sql security definer set search_path = pg_catalog as $$
  insert into app.payout_sweep (payout_id, spend_id)
  select p.id, s.id from app.payout p
  join app.spend s on s.status <> 'final' and s.chain = p.chain and s.token = p.token and s.merchant_id = p.merchant_id
  where p.id = of_payout and p.status = 'sweeping' and case
    when not p.sweep_first then s.kind = 'sweep'
    when app.uses_outputs(p.chain) then exists (
      select from app.output u join app.deposit d on d.chain = u.chain and d.txid = u.txid and d.output_index = u.vout
      where u.spend_id = s.id and d.settlement_id = p.id)
    else s.kind = 'sweep' and exists (select from app.deposit d where d.settlement_id = p.id and d.address = s.source) end
  on conflict do nothing
$$;

-- More inputs for the next attempt of a spend, whose higher fee the change cannot pay. False if it is too late, or one of them is not free.
create function app.add_inputs(of_spend uuid, number int, inputs text[]) returns boolean
language plpgsql security definer set search_path = pg_catalog as $$
declare
  s app.spend;
  p app.payout;
  found_outputs record;
begin
  select * into s from app.spend x where x.id = of_spend;
  select * into p from app.payout o where o.id = s.payout_id for update;
  perform app.lock_treasury(s.chain);
  select * into s from app.spend x where x.id = of_spend for update;
  if s.status = 'final' or number <> 1 + (select count(*) from app.outbound_tx o where o.spend_id = s.id) then return false; end if;
  select * into found_outputs from app.weigh_outputs(s.chain, inputs, s.merchant_id, s.kind <> 'sweep');
  if found_outputs.count is distinct from cardinality(inputs) then return false; end if;
  perform app.reserve_outputs(s.chain, inputs, s.id, number);
  if s.kind = 'payout' and p.status in ('swept', 'paying') then
    perform app.set_swept_in(s, least(s.swept_in + found_outputs.of_addresses, p.gross, p.net + s.max_fee));
  end if;
  return true;
end $$;
comment on function app.add_inputs is 'Reserves more outputs for the next attempt of a spend; false if that came too late, or one is not free.';

-- As app.store_attempt, for a chain with outputs: the fee is what the transaction pays, in base units.
create function app.store_output_attempt(of_spend uuid, number int, of_kind text, of_txid text, of_raw text, of_amount numeric, fee numeric,
  vsize int) returns boolean
language plpgsql security definer set search_path = pg_catalog as $$
declare
  s app.spend;
  native text;
  more numeric;
begin
  select * into s from app.spend x where x.id = of_spend;
  perform from app.payout p where p.id = s.payout_id for update;
  perform app.lock_treasury(s.chain);
  select * into s from app.spend x where x.id = of_spend for update;
  if s.status = 'final' or (s.cancelling and of_kind = 'effect')
    or number <> 1 + (select count(*) from app.outbound_tx o where o.spend_id = s.id) then return false; end if;
  perform from custody.journal j where j.stream = s.chain and j.txid = of_txid and (j.sender, j.nonce) <> (s.sender, s.nonce);
  if found then raise exception 'transaction % does not spend the lead of spend %', of_txid, s.id using errcode = 'P0003'; end if;
  native := app.native_token(s.chain);
  more := greatest(store_output_attempt.fee - s.max_fee, 0);
  if more > 0 and app.operator_funds(s.chain, native) < more then return false; end if;
  perform app.reserve(s.chain, native, more);
  insert into app.outbound_tx (chain, txid, spend_id, attempt, kind, raw, token, source, recipient, amount, fee, vsize)
  values (s.chain, of_txid, s.id, number, of_kind, of_raw, s.token, s.source,
    case of_kind when 'cancel' then app.treasury_address(s.chain) else s.recipient end, of_amount, store_output_attempt.fee,
    store_output_attempt.vsize);
  update app.spend x set status = 'live', max_fee = x.max_fee + more, waiting_reason = null, waiting_detail = null, waiting_since = null,
    next_step_at = clock_timestamp()
  where x.id = s.id;
  if s.kind = 'payout' and of_kind = 'effect' then
    update app.payout p set status = 'paying' where p.id = s.payout_id and p.status = 'swept';
  end if;
  return true;
end $$;
comment on function app.store_output_attempt is 'Stores a signed transaction of a chain with outputs as the next attempt of a spend, before it may be broadcast; false if it came too late. Safe to run again.';

-- When it is final ------------------------------------------------------------------------------------------------------------------------------

-- The outputs of a spend whose transaction is final: what went in from deposit addresses has been swept, the change is the treasury's, and what
-- another attempt had reserved is free again. Of a transaction that is none of ours nothing is known but what it spent.
create function app.settle_outputs(s app.spend) returns void
language plpgsql set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
declare
  swept numeric;
  posting bigint := nextval('app.ledger_posting');
begin
  update app.output u set spent_by = i.txid
  from chain.inclusion i
  where u.spend_id = s.id and i.chain = u.chain and i.sender = u.txid || ':' || u.vout and i.nonce = 0;
  update app.output u set spend_id = null, from_attempt = null where u.spend_id = s.id and u.spent_by is null;
  if s.outcome = 'displaced' then return; end if;
  insert into app.output (chain, txid, vout, address, amount)
  select t.chain, t.txid, t.output_index, t.recipient, t.amount from chain.transfer t
  where t.id in (s.chain || ':' || s.txid || ':0', s.chain || ':' || s.txid || ':1') and t.recipient = app.treasury_address(s.chain)
  on conflict do nothing;

  with part as materialized (
    select u.address, u.merchant_id, sum(u.amount) as amount from app.output u
    where u.spend_id = s.id and u.merchant_id is not null group by u.address, u.merchant_id
  ), held as (
    insert into app.holding as h (chain, address, token, merchant_id, amount)
    select s.chain, address, s.token, merchant_id, -amount from part order by address
    on conflict (chain, address, token) do update set amount = h.amount + excluded.amount
  ), posted as (
    insert into app.ledger_entry (posting, kind, reference, account, chain, token, merchant_id, address, amount)
    select posting, 'sweep', s.id::text, 'address', s.chain, s.token, merchant_id, address, -amount from part
    union all
    select posting, 'sweep', s.id::text, 'treasury', s.chain, s.token, merchant_id, null, sum(amount) from part group by merchant_id
  )
  select sum(amount) into swept from part;
  if swept is null then return; end if;
  perform app.add_treasury(s.chain, s.token, swept, 0);
  perform app.add_share(s.chain, s.token, s.merchant_id, swept, 0);
end $$;

-- As in 012_spends.sql, but for who pays it where there are outputs: the treasury, whatever went in.
create or replace function app.post_network_fee(s app.spend, fee numeric) returns void
language plpgsql set search_path = pg_catalog as $$
declare
  native text := app.native_token(s.chain);
  by_treasury boolean := s.sender = app.treasury_address(s.chain) or app.uses_outputs(s.chain);
begin
  if by_treasury then
    perform app.add_treasury(s.chain, native, -fee, -s.max_fee);
  else
    perform app.add_holding(s.chain, s.sender, native, s.merchant_id, -fee);
    perform app.add_share(s.chain, native, s.merchant_id, fee, 0);
  end if;
  perform app.post('network_fee', s.id::text, s.chain, jsonb_build_array(
    jsonb_build_object('account', 'network', 'token', native, 'merchant_id', s.merchant_id, 'amount', fee),
    jsonb_build_object('account', case when by_treasury then 'treasury' else 'address' end, 'token', native, 'merchant_id', s.merchant_id,
      'address', case when not by_treasury then s.sender end, 'amount', -fee)));
  update app.payout p set network_fee = p.network_fee + post_network_fee.fee where p.id = s.payout_id;
end $$;

-- As in 012_spends.sql, and besides: what a payment brings with it is no longer counted on.
create or replace function app.finish_payment(s app.spend, outcome text, txid text) returns void
language plpgsql set search_path = pg_catalog as $$
declare p app.payout := (select o from app.payout o where o.id = s.payout_id);
begin
  if p.status = 'failed' then -- before anything was broadcast; its reservation is given up
    if outcome in ('done', 'displaced') then
      insert into app.incident (chain, kind, subject, details)
      values (s.chain, 'payment_of_failed_payout', s.id::text, jsonb_build_object('payout_id', p.id, 'txid', txid, 'outcome', outcome))
      on conflict do nothing;
    end if;
    if outcome <> 'done' then return; end if;
    -- An older copy of the database had forgotten that it was signed. The merchant has the money and, since the release, the balance: it owes the net.
    perform app.lock_pair(p.merchant_id, p.chain, p.token);
    insert into app.adjustment (merchant_id, chain, token, amount, reason) values (p.merchant_id, p.chain, p.token, -p.net, 'paid_after_all');
    insert into app.balance_delta (merchant_id, chain, token, amount, deposit_count) values (p.merchant_id, p.chain, p.token, -p.net, 0);
    perform app.post('claim', p.id::text, p.chain, jsonb_build_array(
      jsonb_build_object('account', 'merchant', 'token', p.token, 'merchant_id', p.merchant_id, 'amount', p.net),
      jsonb_build_object('account', 'payout', 'token', p.token, 'merchant_id', p.merchant_id, 'amount', -p.net)));
    p.gross := p.net; -- and no fee is earned
    p.fee := 0;
  else
    perform app.give_up_swept_in(s);
    perform app.add_treasury(p.chain, p.token, 0, -p.net);
    perform app.add_share(p.chain, p.token, p.merchant_id, 0, -p.gross);
  end if;
  if outcome = 'done' then
    perform app.add_treasury(p.chain, p.token, -p.net, 0);
    perform app.add_share(p.chain, p.token, p.merchant_id, -p.gross, 0);
    perform app.post('payout', p.id::text, p.chain, jsonb_build_array(
      jsonb_build_object('account', 'payout', 'token', p.token, 'merchant_id', p.merchant_id, 'amount', p.gross),
      jsonb_build_object('account', 'treasury', 'token', p.token, 'merchant_id', p.merchant_id, 'amount', -p.net),
      jsonb_build_object('account', 'fees', 'token', p.token, 'merchant_id', p.merchant_id, 'amount', -p.fee)));
    if p.status = 'failed' then return; end if;
    update app.payout o set status = 'completed', txid = finish_payment.txid where o.id = p.id returning * into p;
    perform app.emit_payout_event(p, 'payout.completed');
  elsif outcome = 'reverted' then
    perform app.release_payout(p.id, 'transaction_reverted', 'the payment was mined and reverted; nothing was paid');
  elsif outcome = 'cancelled' then
    perform app.release_payout(p.id, 'cancelled', 'cancelled; a transaction that moves nothing took the place of the payment');
  else
    perform app.release_payout(p.id, 'broadcast_rejected', 'another transaction took the place of the payment, which can never be mined');
  end if;
end $$;

-- As in 012_spends.sql, but for how a spend is found in a block, by any of the outputs that it uses, and what follows for those.
create or replace function app.settle_spends(of_chain text, final_height int) returns void
language plpgsql set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
declare
  found_final record;
  s app.spend;
  finished uuid[] := '{}';
  has_outputs boolean := app.uses_outputs(of_chain);
begin
  perform from app.payout p where p.id in (
    select x.payout_id from app.spend x join app.spend_inclusion i on i.spend_id = x.id
    where x.chain = of_chain and x.status <> 'final' and i.block_height <= final_height
    union all
    select l.payout_id from app.spend x join app.spend_inclusion i on i.spend_id = x.id
    join app.payout_sweep l on l.spend_id = x.id
    where x.chain = of_chain and x.status <> 'final' and i.block_height <= final_height)
  order by p.id for update;
  for found_final in
    select distinct on (i.block_height, x.nonce, x.id) x.id, i.txid, o.amount as moved,
      case when o.txid is null and has_outputs then 0 else i.fee end as fee, case when o.txid is null then 'displaced' when o.kind = 'cancel' then 'cancelled'
      when i.success then 'done' else 'reverted' end as outcome
    from app.spend x
    join app.spend_inclusion i on i.spend_id = x.id
    left join app.outbound_tx o on o.chain = x.chain and o.txid = i.txid and o.spend_id = x.id
    where x.chain = of_chain and x.status <> 'final' and i.block_height <= final_height
      and (o.txid is not null or (i.excludes and exists (
        select from app.incident k where k.kind = 'unknown_transaction' and k.subject = i.chain || ':' || i.txid and k.resolution = 'kept')))
    order by i.block_height, x.nonce, x.id, o.txid is null
  loop
    perform app.lock_treasury(of_chain);
    update app.spend x set status = 'final', txid = found_final.txid, outcome = found_final.outcome, fee_paid = found_final.fee,
      final_at = clock_timestamp(), next_step_at = null, waiting_reason = null, waiting_detail = null, waiting_since = null
    where x.id = found_final.id and x.status <> 'final' returning * into s;
    continue when s.id is null;
    if has_outputs then perform app.settle_outputs(s); end if;
    perform app.post_network_fee(s, found_final.fee);
    if s.kind = 'payout' then perform app.finish_payment(s, s.outcome, s.txid);
    elsif s.kind = 'sweep' and not has_outputs then perform app.finish_sweep(s, s.outcome, found_final.moved);
    elsif s.kind = 'withdrawal' then perform app.finish_withdrawal(s, s.outcome);
    end if;
    finished := finished || s.id;
  end loop;
  perform app.wake_payout(p.id) from app.payout p
  where p.status = 'sweeping' and p.id in (select l.payout_id from app.payout_sweep l where l.spend_id = any(finished)) order by p.id;
end $$;

-- As in 012_spends.sql, and besides: outputs are there to spend before what spends them is settled.
create or replace function chain.promote(of_chain text, final_height int) returns void
language plpgsql set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
declare
  ids uuid[];
  versions int[];
  tokens text[];
  amounts numeric[];
  everything uuid[];
  back app.deposit;
  number bigint := (select promotion + 1 from chain.cursor c where c.chain = of_chain);
begin
  if app.uses_outputs(of_chain) then perform app.add_outputs(of_chain, final_height); end if;
  perform app.settle_spends(of_chain, final_height);
  with promoted as (
    update app.deposit set status = 'final', version = version + 1, finalised_at = clock_timestamp(), promotion = number
    where chain = of_chain and status = 'pending' and block_height <= final_height
    returning id, merchant_id, token, amount, credited, settlement_id, version, block_height, txid, output_index
  ), counted as (
    insert into app.balance_delta (merchant_id, chain, token, amount, deposit_count)
    select merchant_id, of_chain, token, sum(amount), count(*) from promoted
    where credited and settlement_id is null
    group by merchant_id, token
  ), ordered as (
    select *, row_number() over (order by block_height, txid, output_index) as n from promoted
  )
  select array_agg(id order by n) filter (where credited), array_agg(version order by n) filter (where credited),
    array_agg(token order by n) filter (where credited), array_agg(amount order by n) filter (where credited), array_agg(id)
  into ids, versions, tokens, amounts, everything from ordered;
  if everything is null then return; end if;
  update chain.cursor c set promotion = number where c.chain = of_chain;
  for back in select * from app.deposit d where d.id = any(ids) and d.settlement_id is not null loop
    perform app.adjust(back, back.amount, 'deposit_back');
  end loop;
  perform app.post_final_deposits(of_chain, everything, number);
  perform app.emit_deposit_events(ids, array_fill('deposit.confirmed'::text, array[coalesce(cardinality(ids), 0)]), versions, tokens, amounts);
end $$;

-- As in 012_spends.sql, and besides: what a payment brings with it is no longer counted on.
create or replace function app.fail_payout(of_payout uuid, code text, message text) returns boolean
language plpgsql security definer set search_path = pg_catalog as $$
declare
  p app.payout;
  s app.spend;
begin
  select * into p from app.payout o where o.id = of_payout and o.status in ('pending', 'sweeping', 'swept') for update;
  if p.id is null then return false; end if;
  perform app.lock_treasury(p.chain);
  update app.spend x set cancelling = true, next_step_at = clock_timestamp()
  where x.payout_id = p.id and x.kind = 'payout' and x.status <> 'final' returning x.* into s;
  if found then
    perform app.give_up_swept_in(s);
    update app.treasury_share h set reserved = h.reserved - p.gross
    where h.chain = p.chain and h.token = p.token and h.merchant_id = p.merchant_id;
    perform app.reserve(p.chain, p.token, -p.net);
    perform app.wake_spends(p.chain);
  end if;
  perform app.release_payout(p.id, code, message);
  return true;
end $$;

-- As in 012_spends.sql, and besides: an output that is gone cannot be spent.
create or replace function app.take_back(of_deposit uuid) returns void
language plpgsql set search_path = pg_catalog as $$
declare
  deposit app.deposit;
  account text;
begin
  select * into deposit from app.deposit d where d.id = of_deposit;
  if app.fail_payout(deposit.settlement_id, 'deposit_reorged', 'a deposit that it claimed was lost in a reorganisation') then
    perform app.stamp_all_deposits(deposit.merchant_id, deposit.chain, deposit.token);
  end if;
  perform set_config('app.decided_by_operator', 'on', true);
  update app.deposit d set status = 'reorged', version = d.version + 1, finalised_at = null, promotion = null
  where d.id = of_deposit and d.status = 'final' returning * into strict deposit;
  perform set_config('app.decided_by_operator', '', true);
  if not exists (select from app.asset a where a.chain = deposit.chain and a.token = deposit.token) then return; end if;
  account := case when deposit.user_id is null then 'operator' when deposit.credited then 'merchant' else 'unattributed' end;
  perform app.post('reorg', deposit.id::text, deposit.chain, jsonb_build_array(
    jsonb_build_object('account', case when account = 'operator' then 'treasury' else 'address' end, 'token', deposit.token,
      'merchant_id', case when deposit.credited then deposit.merchant_id end,
      'address', case when account <> 'operator' then deposit.address end, 'amount', -deposit.amount),
    jsonb_build_object('account', account, 'token', deposit.token, 'merchant_id', case when deposit.credited then deposit.merchant_id end,
      'amount', deposit.amount)));
  if account = 'operator' then perform app.add_treasury(deposit.chain, deposit.token, -deposit.amount, 0); end if;
  delete from app.output u where u.chain = deposit.chain and u.txid = deposit.txid and u.vout = deposit.output_index and u.spend_id is null;
  if not deposit.credited then return; end if;
  update app.holding h set amount = h.amount - deposit.amount
  where h.chain = deposit.chain and h.address = deposit.address and h.token = deposit.token;
  if deposit.settlement_id is null then
    insert into app.balance_delta (merchant_id, chain, token, amount, deposit_count)
    values (deposit.merchant_id, deposit.chain, deposit.token, -deposit.amount, -1);
  else
    perform app.adjust(deposit, -deposit.amount, 'deposit_lost');
  end if;
  perform app.emit_deposit_events(array[deposit.id], array['deposit.reorged'], array[deposit.version], array[deposit.token], array[deposit.amount]);
end $$;

-- As in 012_spends.sql, but for one incident for a transaction, however many outputs of ours it spends.
create or replace function chain.note_inclusions() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
begin
  perform from chain.cursor c where c.chain in (select chain from added) for update; -- before incidents, as everybody locks them
  insert into app.incident (chain, kind, subject, details)
  select distinct on (i.chain, i.txid) i.chain, 'unknown_transaction', i.chain || ':' || i.txid, jsonb_build_object('sender', i.sender, 'nonce', i.nonce, 'block_height', i.block_height)
  from added i where not exists (select from app.outbound_tx o where o.chain = i.chain and o.txid = i.txid)
    and not exists (select from app.incident k where k.kind = 'unknown_transaction' and k.subject = i.chain || ':' || i.txid)
  on conflict do nothing;
  update app.incident k set resolved_at = clock_timestamp(), resolution = 'healed'
  from added i join app.spend s on s.chain = i.chain and s.sender = i.sender and s.nonce = i.nonce and s.txid = i.txid
  where k.kind = 'final_payment_vanished' and k.subject = s.id::text and k.resolved_at is null;
  update app.spend s set next_step_at = null
  from added i where s.chain = i.chain and s.sender = i.sender and s.nonce = i.nonce and s.status = 'final' and s.next_step_at is not null;
  return null;
end $$;

-- As in 012_spends.sql, and besides: outputs.
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
)
select what, chain, token, merchant_id, address, kept, posted from compared where kept <> posted;
comment on column app.ledger_audit.what is 'holding, treasury, treasury_share, treasury_reserved, share_reserved, merchant (the balance), payout (claimed) or output (unspent outputs against the holding of an address, or the treasury).';

-- An older copy of the database -------------------------------------------------------------------------------------------------------------------

-- What the copy began with outputs that were signed for something else, or began otherwise than it was signed. Nothing was signed for it, as the
-- journal says, so nothing of it can be mined: it is given up, or goes on with the outputs of the journal.
create function custody.free_outputs(entries custody.journal[]) returns void
language plpgsql set search_path = pg_catalog as $$
declare
  s app.spend;
  e custody.journal;
begin
  foreach e in array coalesce(entries, '{}') loop
    continue when not app.uses_outputs(e.stream);
    for s in
      select * from app.spend x
      where x.chain = e.stream and x.status = 'allocated' and (x.sender = e.sender or custody.is_purpose(x, e)
        or exists (select from app.output u where u.spend_id = x.id and e.details -> 'inputs' ? (u.txid || ':' || u.vout)))
      order by custody.is_purpose(x, e) -- it may get the lead of one that is given up
    loop
      update app.output u set spend_id = null, from_attempt = null where u.spend_id = s.id;
      if custody.is_purpose(s, e) then
        update app.spend x set sender = e.sender where x.id = s.id;
        continue;
      end if;
      if s.kind = 'payout' then
        perform app.fail_payout(s.payout_id, 'cancelled', 'an older copy of the database had chosen outputs for it that were spent since');
      elsif s.kind = 'withdrawal' then
        perform app.reserve(s.chain, s.token, -s.amount);
      end if;
      perform app.reserve(s.chain, app.native_token(s.chain), -s.max_fee);
      delete from app.payout_sweep l where l.spend_id = s.id;
      delete from app.spend x where x.id = s.id;
    end loop;
  end loop;
end $$;

-- As in 014_reconcile.sql, but for outputs, which are no nonces.
create or replace function custody.free_nonces(entries custody.journal[]) returns void
language plpgsql set search_path = pg_catalog as $$
begin
  perform custody.free_outputs(entries);
  insert into app.sender as s (chain, address, next_nonce)
  select e.stream, e.sender, max(e.nonce) + 1 from unnest(entries) e where not app.uses_outputs(e.stream) group by e.stream, e.sender
  on conflict (chain, address) do update set next_nonce = greatest(s.next_nonce, excluded.next_nonce);
  update app.spend s set nonce = app.take_nonce(s.chain, s.sender)
  where s.status = 'allocated' and not app.uses_outputs(s.chain) and exists (
    select from unnest(entries) e where e.stream = s.chain and e.sender = s.sender and e.nonce = s.nonce and not custody.is_purpose(s, e));
end $$;

create or replace function custody.recover_spend(e custody.journal) returns app.spend
language plpgsql set search_path = pg_catalog as $$
declare
  s app.spend;
  p app.payout;
  merchant uuid := coalesce(e.merchant_id, (select a.merchant_id from custody.address a where a.address = e.sender));
  treasury text := app.treasury_address(e.stream);
begin
  if e.kind = 'pay' then
    p := custody.recover_payout(e);
    update app.spend x set nonce = e.nonce where x.payout_id = p.id and x.kind = 'payout' and x.status = 'allocated';
  end if;
  select * into s from app.spend x where x.chain = e.stream and x.sender = e.sender and x.nonce = e.nonce;
  if s.id is not null then
    if not custody.is_purpose(s, e) then
      raise exception 'nonce % of % on % was signed for another purpose by the file than by the database; they are not of the same service',
        e.nonce, e.sender, e.stream using errcode = 'P0003';
    end if;
    return s;
  end if;
  if merchant is not null then perform custody.recover_merchant(merchant, 0);
  elsif e.kind <> 'withdraw' and e.sender <> treasury and not app.uses_outputs(e.stream) then return null;
  end if;
  insert into app.spend (id, kind, chain, token, amount, source, recipient, sender, nonce, payout_id, merchant_id, status, cancelling, recovered, max_fee)
  values (case when e.kind in ('sweep', 'withdraw') then e.subject_id else uuidv7() end,
    case e.kind when 'pay' then 'payout' when 'withdraw' then 'withdrawal' else 'sweep' end, e.stream, e.token, greatest(e.amount, 1), e.source,
    case e.kind when 'cancel' then treasury else e.destination end, e.sender, e.nonce, p.id, merchant, 'live',
    e.kind = 'cancel' or coalesce(p.status = 'failed', false), true, e.max_fee) -- of a payout that failed in the copy nothing is to be paid any more
  returning * into s;
  if e.sender = treasury or app.uses_outputs(e.stream) then perform app.reserve(e.stream, app.native_token(e.stream), e.max_fee); end if;
  if e.kind = 'withdraw' or p.status in ('swept', 'paying') then perform app.reserve(e.stream, e.token, e.amount); end if;
  if p.status in ('swept', 'paying') then perform app.add_share(p.chain, p.token, p.merchant_id, 0, p.gross); end if;
  return s;
end $$;

create or replace function custody.recover_attempt(s app.spend, e custody.journal) returns void
language plpgsql set search_path = pg_catalog as $$
begin
  insert into app.outbound_tx (chain, txid, spend_id, attempt, kind, raw, token, source, recipient, amount, max_fee_per_gas,
    max_priority_fee_per_gas, gas_limit, fee, vsize)
  select e.stream, e.txid, s.id, 1 + (select count(*) from app.outbound_tx o where o.spend_id = s.id),
    case e.kind when 'cancel' then 'cancel' else 'effect' end, e.raw, e.token, e.source, e.destination, e.amount,
    (e.details ->> 'max_fee_per_gas')::numeric, (e.details ->> 'max_priority_fee_per_gas')::numeric, (e.details ->> 'gas_limit')::bigint,
    (e.details ->> 'network_fee')::numeric, (e.details ->> 'vsize')::int
  on conflict do nothing;
  if e.max_fee > s.max_fee and s.status <> 'final' and (s.sender = app.treasury_address(s.chain) or app.uses_outputs(s.chain)) then
    perform app.reserve(s.chain, app.native_token(s.chain), e.max_fee - s.max_fee);
  end if;
  update app.spend x set status = 'live', max_fee = greatest(x.max_fee, e.max_fee), next_step_at = clock_timestamp()
  where x.id = s.id and x.status <> 'final';
  update app.output u set spend_id = s.id, from_attempt = (select o.attempt from app.outbound_tx o where o.chain = e.stream and o.txid = e.txid)
  where u.chain = e.stream and u.spend_id is null and u.txid || ':' || u.vout in (select jsonb_array_elements_text(e.details -> 'inputs'));
  if e.kind = 'pay' then update app.payout p set status = 'paying' where p.id = s.payout_id and p.status = 'swept'; end if;
end $$;

grant select on app.output, app.free_output, app.spend_inclusion to sluice_jobs;
grant execute on function app.claimed_outputs, app.begin_output_payment, app.begin_output_sweep, app.add_inputs, app.store_output_attempt to sluice_jobs;
