-- The operator's coins that are staked for energy or bandwidth. Only `sluice treasury stake` and `unstake` begin that, as the owner of the database.
-- What is unstaked is held by the chain for 14 days, then comes back by itself: the worker begins a reclaim.
--
-- Promises: no merchant's money is staked: amount and fee fit into the operator's own, and are reserved. Nothing is unstaked that is lent. What was
-- unstaked counts as the treasury's again with the transaction that brought it back: on Tron each that unstakes or reclaims brings what is free by the
-- time of the block before it (java-tron compares with that one).
-- Locks: treasury.

create or replace function app.begin_stake(of_chain text, of_resource text, amount numeric, max_fee numeric) returns uuid
language plpgsql security definer set search_path = pg_catalog as $$
declare short text;
begin
  perform app.lock_treasury(of_chain);
  short := app.shortage(of_chain, app.native_token(of_chain), null, amount, 0, max_fee);
  if short is not null then raise exception 'the operator''s own money is not enough: %', short using errcode = 'SL422'; end if;
  perform app.reserve(of_chain, app.native_token(of_chain), amount);
  return app.begin_staking(of_chain, 'stake', of_resource, amount, max_fee);
end $$;
comment on function app.begin_stake is 'Begins to stake the operator''s own native coins (in base units) for energy or bandwidth; returns the id of the outgoing payment.';

create or replace function app.begin_unstake(of_chain text, of_resource text, amount numeric, max_fee numeric) returns uuid
language plpgsql security definer set search_path = pg_catalog as $$
declare free numeric;
begin
  perform app.lock_treasury(of_chain);
  free := coalesce((select k.amount from app.stake k where k.chain = of_chain and k.resource = of_resource), 0) - coalesce((
    select sum(s.amount) from app.outgoing_payment s
    where s.chain = of_chain and s.resource = of_resource and s.kind in ('unstake', 'delegate') and s.status <> 'final'), 0)
    - case of_resource when 'energy' then coalesce((select sum(d.amount) from app.delegation d where d.chain = of_chain), 0) else 0 end;
  if app.operator_funds(of_chain, app.native_token(of_chain)) < max_fee then
    raise exception 'the operator''s own money is not enough: %', app.short_by(of_chain, app.native_token(of_chain),
      max_fee - app.operator_funds(of_chain, app.native_token(of_chain)), ' for the network fee') using errcode = 'SL422';
  end if;
  if amount > free then
    raise exception '%', 'of what is staked for ' || of_resource || ', ' || app.decimal(greatest(free, 0), a.decimals) || ' ' || a.token || ' can be unstaked now'
      from app.asset a where a.chain = of_chain and a.token = app.native_token(of_chain) using errcode = 'SL422';
  end if;
  return app.begin_staking(of_chain, 'unstake', of_resource, amount, max_fee);
end $$;
comment on function app.begin_unstake is 'Begins to unstake native coins (in base units) that are not lent; they are back 14 days later. Returns the id of the outgoing payment.';

create or replace function app.begin_staking(of_chain text, of_kind text, of_resource text, amount numeric, max_fee numeric) returns uuid
language plpgsql set search_path = pg_catalog as $$
declare
  treasury text := app.treasury_address(of_chain);
  begun uuid;
begin
  perform app.reserve(of_chain, app.native_token(of_chain), max_fee);
  insert into app.outgoing_payment as s (kind, chain, token, amount, source, recipient, fee_payer, max_fee, resource)
  values (of_kind, of_chain, app.native_token(of_chain), begin_staking.amount, treasury, treasury, treasury, begin_staking.max_fee, of_resource)
  returning s.id into begun;
  perform app.wake_outgoing_payments(of_chain);
  return begun;
end $$;
comment on function app.begin_staking is 'Begins an outgoing payment of the treasury''s stake, with its fee reserved.';

-- A minute later than the chain needs: the block before may be older than the clock.
create or replace function app.begin_reclaim(of_chain text, max_fee numeric) returns void
language plpgsql security definer set search_path = pg_catalog as $$
declare free numeric;
begin
  if not exists (select from app.unstaking u where u.chain = of_chain and u.reclaimed_at is null and u.free_at < clock_timestamp() - interval '1 minute') then
    return;
  end if;
  perform app.lock_treasury(of_chain);
  if exists (select from app.outgoing_payment s where s.chain = of_chain and s.kind = 'reclaim' and s.status <> 'final') then return; end if;
  if max_fee <> trunc(max_fee) or app.operator_funds(of_chain, app.native_token(of_chain)) < max_fee then return; end if;
  select sum(u.amount) into free from app.unstaking u
  where u.chain = of_chain and u.reclaimed_at is null and u.free_at < clock_timestamp() - interval '1 minute';
  if free > 0 then perform app.begin_staking(of_chain, 'reclaim', null, free, max_fee); end if;
end $$;
comment on function app.begin_reclaim is 'Begins to bring back what was unstaked and is free, once the operator''s own money pays the fee. Safe to run again.';
grant execute on function app.begin_reclaim to sluice_jobs;

-- Also for one that is mined although it had ended otherwise (second_payments.sql).
create or replace function app.post_staking(s app.outgoing_payment, of_txid text) returns void
language plpgsql set search_path = pg_catalog as $$
declare
  moment timestamptz := app.time_before(s.chain, of_txid);
  u app.unstaking;
begin
  if s.kind = 'stake' then
    insert into app.stake as k (chain, resource, amount) values (s.chain, s.resource, s.amount)
    on conflict (chain, resource) do update set amount = k.amount + excluded.amount;
    perform app.post_stake(s, s.amount);
    return;
  end if;
  for u in
    update app.unstaking x set reclaimed_at = clock_timestamp() where x.chain = s.chain and x.reclaimed_at is null and x.free_at <= moment returning x.*
  loop
    perform app.post_stake(s, -u.amount);
  end loop;
  if s.kind = 'unstake' then
    update app.stake k set amount = k.amount - s.amount where k.chain = s.chain and k.resource = s.resource;
    insert into app.unstaking (chain, txid, resource, amount, free_at)
    values (s.chain, of_txid, s.resource, s.amount, moment + interval '14 days');
  end if;
end $$;
comment on function app.post_staking is 'Posts what a final transaction staked, unstaked or reclaimed.';

create or replace function app.post_stake(s app.outgoing_payment, staked numeric) returns void
language plpgsql set search_path = pg_catalog as $$
begin
  perform app.add_treasury(s.chain, s.token, -staked, 0);
  perform app.post(case when staked > 0 then 'stake' else 'unstake' end, s.id::text, s.chain, jsonb_build_array(
    jsonb_build_object('account', 'staked', 'token', s.token, 'amount', staked),
    jsonb_build_object('account', 'treasury', 'token', s.token, 'amount', -staked)));
end $$;
comment on function app.post_stake is 'Posts coins (in base units) that went from the treasury into its stake; a negative amount came back.';

create or replace function app.time_before(of_chain text, of_txid text) returns timestamptz
language sql stable set search_path = pg_catalog as $$
  select coalesce(b.time, i.block_time) from chain.confirmed_tx i left join chain.block b on b.chain = i.chain and b.height = i.block_height - 1
  where i.chain = of_chain and i.txid = of_txid limit 1
$$;
comment on function app.time_before is 'The time of the block before the one that holds a transaction; of that one itself if the one before is not stored any more.';

create or replace function app.post_what_it_staked(s app.outgoing_payment, of_txid text) returns void
language plpgsql set search_path = pg_catalog as $$
begin
  if s.kind in ('delegate', 'undelegate') then perform app.post_delegation(s);
  elsif s.kind in ('stake', 'unstake', 'reclaim') then perform app.post_staking(s, of_txid);
  end if;
end $$;
comment on function app.post_what_it_staked is 'Posts what a final transaction did to the treasury''s stake; nothing for those that have nothing to do with it.';

-- For an operator whose copy of the database is older than custody's signatures, and whose journal is lost: nobody here knows then what was staked, and
-- the ledger takes it for coins that can be paid out. What is unstaking is taken from the node as a whole; what that brings back is booked as ever.
create or replace function app.recount_stake(of_chain text, energy numeric, bandwidth numeric, unstaking jsonb) returns table (booked text)
language plpgsql security definer set search_path = pg_catalog as $$
declare
  s app.outgoing_payment := jsonb_populate_record(null::app.outgoing_payment, jsonb_build_object('id', uuidv7(), 'chain', of_chain,
    'token', app.native_token(of_chain)));
  part record;
begin
  perform app.lock_treasury(of_chain);
  if exists (select from app.outgoing_payment x where x.chain = of_chain and x.kind in ('stake', 'unstake', 'reclaim') and x.status <> 'final') then
    raise exception 'a stake is under way: wait until it is final (sluice treasury show)' using errcode = 'SL422';
  end if;
  for part in
    select n.resource, n.staked, n.staked - coalesce(k.amount, 0) as more, false as is_unstaking
    from (values ('energy', energy), ('bandwidth', bandwidth)) n (resource, staked) left join app.stake k on k.chain = of_chain and k.resource = n.resource
    union all
    select r.resource, null, coalesce((select sum((u ->> 'amount')::numeric) from jsonb_array_elements(unstaking) u where u ->> 'resource' = r.resource), 0)
      - coalesce((select sum(x.amount) from app.unstaking x where x.chain = of_chain and x.resource = r.resource and x.reclaimed_at is null), 0), true
    from (values ('energy'), ('bandwidth')) r (resource)
  loop
    continue when part.more = 0;
    if part.is_unstaking then
      delete from app.unstaking x where x.chain = of_chain and x.resource = part.resource and x.reclaimed_at is null;
      insert into app.unstaking (chain, txid, resource, amount, free_at)
      select of_chain, 'recount:' || (u ->> 'resource') || ':' || (u ->> 'free_ms'), u ->> 'resource', sum((u ->> 'amount')::numeric),
        to_timestamp((u ->> 'free_ms')::numeric / 1000)
      from jsonb_array_elements(unstaking) u where u ->> 'resource' = part.resource group by u ->> 'resource', u ->> 'free_ms';
    else
      insert into app.stake as k (chain, resource, amount) values (of_chain, part.resource, part.staked)
      on conflict (chain, resource) do update set amount = excluded.amount;
    end if;
    perform app.post_stake(s, part.more);
    booked := app.decimal(part.more, (select a.decimals from app.asset a where a.chain = of_chain and a.token = s.token)) || ' ' || s.token
      || case when part.is_unstaking then ' unstaking from ' else ' staked for ' end || part.resource;
    return next;
  end loop;
end $$;
comment on function app.recount_stake is 'Books what the treasury has staked, and what it is unstaking, as a node says (amounts in base units); returns what was booked, in words.';
