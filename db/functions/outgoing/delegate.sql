-- Energy for addresses that sweep a token themselves: a delegate lends an address some of what the treasury has staked, an undelegate takes it back.
-- Neither moves coins. The sweep begins once the delegate is final, and burns nothing.
--
-- Promises: an address is lent to once at a time. What was lent (app.delegation, by final transactions) is always taken back: as soon as a sweep of the
-- address has ended, however it did, or ten minutes after it was lent, whoever died or was cancelled meanwhile. No sweep of the address is under way
-- then; custody sees to that by itself (custody/judge/delegations.ts). Each is signed again only after the one before has provably expired.
-- Locks: payout, treasury.

create or replace function app.readying(of_chain text, of_address text) returns uuid
language sql stable set search_path = pg_catalog as $$
  select s.id from app.outgoing_payment s
  where s.chain = of_chain and s.recipient = of_address and s.kind in ('fund', 'delegate', 'undelegate') and s.status <> 'final' limit 1
$$;
comment on function app.readying is 'What is under way that sends an address gas, or lends it energy, or takes that back; null if nothing is.';

create or replace function app.lent_to(of_chain text, of_address text) returns numeric
language sql stable set search_path = pg_catalog as $$
  select coalesce((select d.amount from app.delegation d where d.chain = of_chain and d.address = of_address), 0)
$$;
comment on function app.lent_to is 'How much of the treasury''s stake for energy is lent to an address, in base units.';

create or replace function app.readiness(of_chain text, of_address text) returns text
language sql stable security definer set search_path = pg_catalog as $$
  select coalesce((select s.kind from app.outgoing_payment s where s.id = app.readying(of_chain, of_address)),
    (select case when d.return_at > clock_timestamp() then 'lent' else 'returning' end from app.delegation d
      where d.chain = of_chain and d.address = of_address))
$$;
comment on function app.readiness is 'What becomes of an address before its sweep: fund, delegate or undelegate, if that is under way; lent, if it has energy for a sweep; returning, if that is about to be taken back; else null.';
grant execute on function app.readiness to sluice_jobs;

create or replace function app.lent_in_all(of_chain text, but_not uuid default null) returns numeric
language sql stable security definer set search_path = pg_catalog as $$
  select coalesce((select sum(d.amount) from app.delegation d where d.chain = of_chain), 0) + coalesce((
    select sum(s.amount) from app.outgoing_payment s
    where s.chain = of_chain and s.kind = 'delegate' and s.status <> 'final' and s.id is distinct from but_not), 0)
$$;
comment on function app.lent_in_all is 'How much of the treasury''s stake is lent, or about to be, without this outgoing payment, in base units.';
grant execute on function app.lent_in_all to sluice_custody;

-- A node takes off by itself what is in its newest block.
create or replace function app.stake_for_energy(of_chain text, out staked numeric, out lent numeric, out unseen numeric)
language sql stable security definer set search_path = pg_catalog as $$
  select coalesce((select k.amount from app.stake k where k.chain = of_chain and k.resource = 'energy'), 0), app.lent_in_all(of_chain), coalesce((
    select sum(s.amount) from app.outgoing_payment s
    where s.chain = of_chain and s.kind in ('delegate', 'unstake') and s.resource = 'energy' and s.status <> 'final'
      and not exists (select from app.outgoing_confirmed_tx i where i.outgoing_payment_id = s.id offset 0)), 0)
$$;
comment on function app.stake_for_energy is 'What the treasury has staked for energy, in base units; how much of it is lent or about to be; and how much is to be lent, or unstaked, that a node does not know of yet.';
grant execute on function app.stake_for_energy to sluice_jobs;

-- The arrays are parallel. If the treasury cannot pay the fees, the delegates before that point stay begun.
create or replace function app.begin_delegates(of_payout uuid, of_chain text, of_token text, addresses text[], amounts numeric[], max_fee numeric,
  most_lent numeric) returns text
language plpgsql security definer set search_path = pg_catalog as $$
declare
  native text := app.native_token(of_chain);
  treasury text := app.treasury_address(of_chain);
  item record;
  delegate uuid;
  funds numeric;
  room numeric;
begin
  if not app.sweeps_itself(of_chain, of_token) then return null; end if;
  if of_payout is not null and not app.lock_unpaid(of_payout) then return null; end if;
  perform app.lock_treasury(of_chain);
  funds := app.operator_funds(of_chain, native);
  select least(most_lent, k.staked) - k.lent into room from app.stake_for_energy(of_chain) k; -- another payout may have begun some since
  for item in
    select u.address, ceil(u.amount) as amount, a.merchant_id from unnest(addresses, amounts) with ordinality as u (address, amount, n)
    join app.chain c on c.chain = of_chain
    join custody.address a on a.address = u.address and a.family = c.family and a.purpose = 'deposit' and a.merchant_id is not null
    where u.amount > 0 and max_fee = trunc(max_fee) and not app.is_blocked(of_chain, of_token, u.address)
      and app.is_sweep_due(of_chain, of_token, u.address) and app.lent_to(of_chain, u.address) = 0
    order by u.n
  loop
    delegate := app.readying(of_chain, item.address);
    if delegate is null then
      continue when item.amount > room;
      room := room - item.amount;
      if funds < max_fee then return app.short_by(of_chain, native, max_fee - funds, ' for sweeping'); end if;
      funds := funds - max_fee;
      perform app.reserve(of_chain, native, max_fee);
      insert into app.outgoing_payment as s (kind, chain, token, amount, source, recipient, fee_payer, payout_id, merchant_id, max_fee, for_token, resource)
      values ('delegate', of_chain, native, item.amount, treasury, item.address, treasury, of_payout, item.merchant_id, max_fee, of_token, 'energy')
      returning s.id into delegate;
    end if;
    if of_payout is not null then
      insert into app.payout_sweep (payout_id, outgoing_payment_id) values (of_payout, delegate) on conflict do nothing;
    end if;
  end loop;
  perform app.wake_outgoing_payments(of_chain);
  return null;
end $$;
comment on function app.begin_delegates is 'Begins to lend addresses energy of the treasury''s stake (amounts in base units of the native coin) for the sweep of a token, for a payout (null: for none); returns what the treasury lacks for the fees, or null. Safe to run again.';
grant execute on function app.begin_delegates to sluice_jobs;

create or replace function app.is_return_due(d app.delegation) returns boolean
language sql stable set search_path = pg_catalog as $$
  select d.return_at <= clock_timestamp() and not exists (select from app.outgoing_payment s where s.chain = d.chain and s.status <> 'final'
    and (s.source = d.address or s.recipient = d.address and s.kind in ('delegate', 'undelegate')))
$$;
comment on function app.is_return_due is 'Whether what was lent to an address is to be taken back now.';

-- A copy of the database, and of the journal, from before it was lent does not know of it. And what a node, or a worker, said in error can never be
-- taken back. So what a node says and what is known here are made equal, as delegates and undelegates that are done: at once where nothing is known, else
-- once an undelegate has expired. That is safe whatever the node says: custody asks nobody what is lent; nothing comes of a wrong answer but transactions
-- that expire, and the next answer mends it.
create or replace function app.find_delegations(of_chain text, addresses text[], amounts numeric[]) returns void
language plpgsql security definer set search_path = pg_catalog as $$
declare s app.outgoing_payment;
begin
  perform app.lock_treasury(of_chain);
  for s in
    insert into app.outgoing_payment (kind, chain, token, amount, source, recipient, fee_payer, merchant_id, max_fee, resource, recovered,
      status, outcome, fee_paid, next_step_at, final_at)
    select w.kind, of_chain, app.native_token(of_chain), w.amount, t.treasury, w.address, t.treasury, a.merchant_id, 0, 'energy', true,
      'final', 'done', 0, null, clock_timestamp()
    from (
      select 'delegate' as kind, u.address, trunc(u.amount) as amount from unnest(addresses, amounts) u (address, amount)
      where u.amount >= 1 and app.lent_to(of_chain, u.address) = 0
      union all
      select case when d.amount > n.amount then 'undelegate' else 'delegate' end, d.address, abs(d.amount - n.amount) from app.delegation d
      cross join lateral (select coalesce(sum(trunc(u.amount)), 0) as amount from unnest(addresses, amounts) u (address, amount) where u.address = d.address) n
      where d.chain = of_chain and d.amount <> n.amount and d.return_at <= clock_timestamp() and (
        select p.outcome = 'expired' from app.outgoing_payment p
        where p.chain = d.chain and p.recipient = d.address and p.kind in ('delegate', 'undelegate') order by p.created_at desc limit 1)
    ) w
    cross join (select app.treasury_address(of_chain) as treasury) t
    join app.chain c on c.chain = of_chain
    join custody.address a on a.address = w.address and a.family = c.family and a.purpose = 'deposit'
    where not exists (select from app.outgoing_payment p where p.chain = of_chain and p.recipient = w.address and p.kind in ('delegate', 'undelegate')
      and (p.status <> 'final' or p.final_at > clock_timestamp() - interval '10 minutes'))
    returning *
  loop
    perform app.post_delegation(s);
    update app.delegation d set return_at = clock_timestamp() where d.chain = of_chain and d.address = s.recipient;
  end loop;
end $$;
comment on function app.find_delegations is 'Given all that a node says is lent to addresses (amounts in base units): notes what nothing here knows of, so that it is taken back, and mends what is not so and could not be taken back. Safe to run again.';
grant execute on function app.find_delegations to sluice_jobs;

create or replace function app.begin_undelegates(of_chain text, max_fee numeric, most int) returns void
language plpgsql security definer set search_path = pg_catalog as $$
declare
  d app.delegation;
  has_begun boolean := false;
  native text := app.native_token(of_chain);
  treasury text := app.treasury_address(of_chain);
begin
  if not exists (select from app.delegation x where x.chain = of_chain and x.return_at <= clock_timestamp()) or max_fee <> trunc(max_fee) then return; end if;
  perform app.lock_treasury(of_chain);
  for d in
    select x.* from app.delegation x where x.chain = of_chain and app.is_return_due(x) order by x.return_at limit most
  loop
    exit when app.operator_funds(of_chain, native) < max_fee;
    perform app.reserve(of_chain, native, max_fee);
    insert into app.outgoing_payment (kind, chain, token, amount, source, recipient, fee_payer, merchant_id, max_fee, resource)
    select 'undelegate', of_chain, native, d.amount, treasury, d.address, treasury, a.merchant_id, max_fee, 'energy'
    from app.chain c join custody.address a on a.address = d.address and a.family = c.family where c.chain = of_chain;
    has_begun := true;
  end loop;
  if has_begun then perform app.wake_outgoing_payments(of_chain); end if;
end $$;
comment on function app.begin_undelegates is 'Begins to take back what was lent to addresses that have been swept, or were not swept in time, as far as the operator''s own money pays the fees. Safe to run again.';
grant execute on function app.begin_undelegates to sluice_jobs;

-- Also for one that is mined although it had ended otherwise (second_payments.sql).
create or replace function app.post_delegation(s app.outgoing_payment) returns void
language plpgsql set search_path = pg_catalog as $$
begin
  if s.kind = 'delegate' then
    insert into app.delegation as d (chain, address, amount, return_at)
    values (s.chain, s.recipient, s.amount, clock_timestamp() + interval '10 minutes')
    on conflict (chain, address) do update set amount = d.amount + excluded.amount;
  else
    delete from app.delegation d where d.chain = s.chain and d.address = s.recipient and d.amount <= s.amount;
    update app.delegation d set amount = d.amount - s.amount where d.chain = s.chain and d.address = s.recipient;
  end if;
end $$;
comment on function app.post_delegation is 'Notes what a final transaction lent an address, or took back.';

create or replace function app.end_use_of_delegation(s app.outgoing_payment) returns void
language sql set search_path = pg_catalog as $$
  update app.delegation d set return_at = clock_timestamp() where s.kind = 'sweep' and d.chain = s.chain and d.address = s.source
$$;
comment on function app.end_use_of_delegation is 'Has what was lent to an address taken back once its sweep has ended.';

create or replace function app.are_sweep_costs_due(of_chain text) returns boolean
language sql stable security definer set search_path = pg_catalog as $$
  select not exists (select from app.sweep_cost c where c.chain = of_chain and c.noted_at > clock_timestamp() - interval '1 minute')
$$;
comment on function app.are_sweep_costs_due is 'Whether it was a minute ago that the node was asked what a sweep costs.';
grant execute on function app.are_sweep_costs_due to sluice_jobs;

create or replace function app.note_sweep_cost(of_chain text, of_token text, burnt numeric, delegated numeric, way text, detail text) returns void
language sql security definer set search_path = pg_catalog as $$
  insert into app.sweep_cost as c (chain, token, burnt, delegated, way, detail) values (of_chain, of_token, burnt, delegated, way, detail)
  on conflict (chain, token) do update
  set burnt = excluded.burnt, delegated = excluded.delegated, way = excluded.way, detail = excluded.detail, noted_at = clock_timestamp()
$$;
comment on function app.note_sweep_cost is 'Notes what the sweep of a token costs now by each way (in base units of the native coin), which one is used, and why.';
grant execute on function app.note_sweep_cost to sluice_jobs;
