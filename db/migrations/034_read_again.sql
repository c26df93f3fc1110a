-- A chain that is read again tells nobody of what only seemed to be gone.
--
-- chain.rewind takes away blocks that the store of an indexer cannot replace in one transaction; the next transactions bring the others. The
-- transfers of deposits that are pending are not settled when they go. They are awaited: read again, in the same block or another, they cause
-- nothing. They are settled as gone, with an event, once the chain is as high as it was, or its final height reaches the block that they were
-- in, or a quarter of an hour has passed.
--
-- Writers: chain.rewind; chain.release, at COMMIT of each transaction that touches a chain, before it is settled; the jobs worker
-- (chain.release_overdue), for chains that stand still. Readers: the audit.
--
-- Invariants: a deposit that is awaited is pending, and is settled before the final height promotes it, so it is never final without being in a
-- block of ours; nothing is awaited for longer than chain.longest_wait() and the jobs worker's next look. What is final is never awaited: an
-- incident opens at once, as ever, and payouts of the chain stand still.
-- Locks: chain.cursor first, as everybody.

create table chain.awaited (
  id text primary key,
  chain text not null,
  block_height int not null,
  until_height int not null,
  since timestamptz not null
);
create index awaited_chain on chain.awaited (chain);
comment on table chain.awaited is 'Transfers of pending deposits that a rewind took away and that are expected to be read again. Empty unless a chain is being read again.';
comment on column chain.awaited.id is '<chain>:<txid>:<output_index>, as in chain.transfer.';
comment on column chain.awaited.chain is 'Chain code.';
comment on column chain.awaited.block_height is 'Height of the block that it was in.';
comment on column chain.awaited.until_height is 'Once the head is as high as this, what was not read again is gone.';
comment on column chain.awaited.since is 'When it was taken away.';

create function chain.longest_wait() returns interval
language sql immutable parallel safe return interval '15 minutes';
comment on function chain.longest_wait is 'For how long a transfer is awaited at most.';

-- Of what this transaction has touched, what belongs to pending deposits is awaited instead. What is unmined is not gone: it is settled.
create function chain.await_transfers(of_chain text, head_height int) returns void
language plpgsql set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
declare moment timestamptz := clock_timestamp();
begin
  with pending as materialized (
    select k.id, d.block_height
    from (select distinct t.id from chain.touched t where t.txn = pg_current_xact_id() and t.chain = of_chain) k
    cross join lateral (
      select * from app.deposit d where d.txid = split_part(k.id, ':', 2) and d.output_index = split_part(k.id, ':', 3)::int and d.chain = of_chain offset 0
    ) d
    where d.status = 'pending' and not exists (select from chain.unmined u where u.id = k.id)
  ), untouched as (
    delete from chain.touched t using pending p where t.txn = pg_current_xact_id() and t.chain = of_chain and t.id = p.id
  )
  insert into chain.awaited (id, chain, block_height, until_height, since)
  select id, of_chain, block_height, head_height, moment from pending
  on conflict (id) do update -- it had come back meanwhile
    set block_height = excluded.block_height, until_height = excluded.until_height, since = excluded.since;
end $$;

-- As in 012_spends.sql, but for the transfers of pending deposits, which are awaited.
create or replace function chain.rewind(of_chain text, to_height int, to_hash text) returns void
language plpgsql security definer set search_path = pg_catalog as $$
declare at chain.cursor;
begin
  select * into strict at from chain.cursor c where c.chain = of_chain for update;
  if to_height < at.final_height and at.rewind_to is distinct from to_height then
    raise exception '%: % is below the final height %, and no operator asked for it (sluice chain rewind)', of_chain, to_height, at.final_height;
  end if;
  delete from chain.transfer t where t.chain = of_chain and t.block_height > to_height;
  perform chain.await_transfers(of_chain, at.head_height);
  insert into app.incident (chain, kind, subject, details)
  select of_chain, 'final_payment_vanished', s.id::text, jsonb_build_object('txid', s.txid, 'kind', s.kind, 'block_height', i.block_height)
  from chain.inclusion i join app.spend s on s.chain = i.chain and s.sender = i.sender and s.nonce = i.nonce and s.txid = i.txid
  where i.chain = of_chain and i.block_height > to_height and s.status = 'final'
  on conflict do nothing;
  update app.spend s set next_step_at = clock_timestamp() -- it is broadcast again
  from chain.inclusion i
  where i.chain = of_chain and i.block_height > to_height and i.sender = s.sender and i.nonce = s.nonce and i.txid = s.txid
    and s.chain = of_chain and s.status = 'final';
  delete from chain.inclusion i where i.chain = of_chain and i.block_height > to_height;
  delete from chain.block b where b.chain = of_chain and b.height > to_height;
  insert into chain.block (id, chain, height, hash, parent_hash, time)
  values (of_chain || ':' || to_height, of_chain, to_height, to_hash, '', clock_timestamp())
  on conflict (id) do update set hash = excluded.hash;
  execute format('delete from %I.hot_block', 'squid_' || lower(of_chain));
  if to_height < at.final_height then
    update chain.cursor c set final_height = to_height, final_hash = to_hash, final_moved_at = clock_timestamp() where c.chain = of_chain;
  end if;
  update app.incident i set resolved_at = clock_timestamp(), resolution = 'rewound'
  where i.chain = of_chain and i.kind = 'fork_below_final' and i.resolved_at is null and at.rewind_to is not null;
  update chain.cursor c set rewind_to = null, halted_at = null
  where c.chain = of_chain;
  execute format('update %I.status set height = $1, hash = $2, nonce = nonce + 1 where id = 0', 'squid_' || lower(of_chain)) using to_height, to_hash;
end $$;

-- Runs at COMMIT before chain.settle, by the order of their names: what need not be awaited any longer is settled with the rest.
create function chain.release() returns trigger
language plpgsql security definer set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
declare
  at chain.cursor;
  head_height int;
  due text[];
begin
  select * into at from chain.cursor c where c.chain = new.chain for update;
  perform from chain.awaited w where w.chain = new.chain limit 1;
  if not found then return null; end if;
  select max(b.height) into head_height from chain.block b where b.chain = new.chain;
  with gone as (
    delete from chain.awaited w
    where w.chain = new.chain
      and (w.until_height <= head_height or w.block_height <= at.final_height or w.since <= clock_timestamp() - chain.longest_wait())
    returning w.id, w.since
  ), lost as ( -- belongs to the reorganisation in which they were taken away
    select g.since, count(*) as deposits from gone g
    cross join lateral (
      select * from app.deposit d where d.txid = split_part(g.id, ':', 2) and d.output_index = split_part(g.id, ':', 3)::int and d.chain = new.chain offset 0
    ) d
    where d.status = 'pending' and d.credited
      and not exists (select from chain.transfer t where t.id = g.id and t.recipient = d.address and t.token = d.token)
      and not exists (select from chain.unmined u where u.id = g.id)
    group by g.since
  ), counted as (
    update chain.reorganisation r set deposits_reorged = r.deposits_reorged + l.deposits
    from lost l
    where r.id = (select min(x.id) from chain.reorganisation x where x.chain = new.chain and x.happened_at >= l.since)
  )
  select array_agg(g.id) into due from gone g;
  perform chain.touch(new.chain, due);
  return null;
end $$;
create constraint trigger release after insert on chain.touched_chain deferrable initially deferred
  for each row execute function chain.release();

-- Safe to run at any time, by anybody, twice: it only makes COMMIT look.
create function chain.release_overdue() returns void
language sql security definer set search_path = pg_catalog as $$
  insert into chain.touched_chain
  select distinct pg_current_xact_id(), w.chain from chain.awaited w where w.since <= clock_timestamp() - chain.longest_wait()
  on conflict do nothing
$$;
comment on function chain.release_overdue is 'Settles what was awaited for too long, on chains that stand still as well.';
grant execute on function chain.release_overdue to sluice_jobs;

-- As in 020_audit.sql, but for what is awaited, for as long as it may be.
create or replace view audit.deposits_are_on_the_chain as
select d.id, d.chain, d.txid, d.output_index, d.status from app.deposit d
left join chain.transfer t on t.id = d.chain || ':' || d.txid || ':' || d.output_index
  and t.recipient = d.address and t.token = d.token and t.amount = d.amount and t.block_height = d.block_height and t.block_hash = d.block_hash
where d.status <> 'reorged' and t.id is null
  and not exists (select from app.known_incident k where k.subject = d.id::text and k.kind like 'final\_deposit\_%')
  and not (d.status = 'pending' and d.block_height is null and exists (select from chain.unmined u
    where u.id = d.chain || ':' || d.txid || ':' || d.output_index and u.recipient = d.address and u.amount = d.amount))
  and not (d.status = 'pending' and exists (select from chain.awaited w
    where w.id = d.chain || ':' || d.txid || ':' || d.output_index and w.since > clock_timestamp() - chain.longest_wait() - interval '5 minutes'));
comment on view audit.deposits_are_on_the_chain is 'every deposit that is not reorged is the one transfer that the chain holds, or that is on its way into a block, or is being read again';

-- As in 027_payment_requests.sql, but for the incidents that close by themselves: one of a final deposit closes as soon as what it says is no
-- longer so. (The one that vanished and is there again in another block has moved: that is one incident, not two.)
create or replace function chain.settle_transfers(of_chain text) returns void
language plpgsql set search_path = pg_catalog
set plan_cache_mode = force_custom_plan set random_page_cost = 1.1 as $$
declare
  keys text[];
  ids uuid[];
  types text[];
  versions int[];
  tokens text[];
  amounts numeric[];
begin
  with gone as (delete from chain.touched where txn = pg_current_xact_id() and chain = of_chain returning id)
  select array_agg(distinct id) into keys from gone;
  if keys is null then return; end if;

  with key as (
    select id, split_part(id, ':', 2) as txid, split_part(id, ':', 3)::int as output_index from unnest(keys) as k (id)
  ), deposit as (
    select key.id as transfer_id, d.*
    from key cross join lateral (
      select * from app.deposit d where d.txid = key.txid and d.output_index = key.output_index and d.chain = of_chain offset 0
    ) d
  ), transfer as (
    select t.id, t.txid, t.output_index, t.recipient, t.sender, t.token, t.amount, t.block_height, t.block_hash
    from key cross join lateral (select * from chain.transfer t where t.id = key.id offset 0) t
    union all
    select u.id, u.txid, u.output_index, u.recipient, u.sender, u.token, u.amount, null, null
    from key cross join lateral (select * from chain.unmined u where u.id = key.id offset 0) u
    where not exists (select from chain.transfer t where t.id = key.id)
  ), net as (
    select d.id as deposit_id, d.status, d.credited, d.version, t.id is not null and (t.block_hash is not null or d.status is distinct from 'final') as alive, d.transfer_id,
      d.amount is distinct from t.amount as changed,
      (d.block_height, d.block_hash) is distinct from (t.block_height, t.block_hash) as moved,
      d.amount as old_amount, t.txid, t.output_index, t.recipient, t.sender,
      coalesce(t.token, d.token) as token, coalesce(t.amount, d.amount) as amount,
      case when t.id is null then d.block_height else t.block_height end as block_height,
      case when t.id is null then d.block_hash else t.block_hash end as block_hash, t.id as live_id
    from deposit d full join transfer t on t.id = d.transfer_id and t.recipient = d.address and t.token = d.token
  ), held_back as ( -- something else is paid at a position that holds a final deposit: nobody is credited until an operator decides
    select n.* from net n
    where n.alive and (n.deposit_id is null or n.status = 'reorged')
      and exists (select from deposit d where d.transfer_id = n.live_id and d.status = 'final')
  ), created as (
    insert into app.deposit (chain, txid, output_index, address, merchant_id, user_id, payment_request_id, token, amount, sender, block_height,
      block_hash, status, credited, version)
    select of_chain, n.txid, n.output_index, a.address, a.merchant_id, a.user_id, a.payment_request_id, n.token, n.amount, n.sender, n.block_height,
      n.block_hash, 'pending', a.is_provisioned and s.token is not null
        and coalesce((select r.token from app.payment_request r where r.id = a.payment_request_id) = n.token, true), 1
    from net n
    cross join lateral (
      select * from app.address a
      where a.chain = of_chain and a.match_key in (n.recipient, lower(n.recipient)) and a.address = n.recipient offset 0
    ) a
    left join app.asset s on s.chain = of_chain and s.token = n.token
    where n.deposit_id is null and not exists (select from held_back h where h.live_id = n.live_id)
      and not (a.merchant_id is null and (exists (select from app.outbound_tx o where o.chain = of_chain and o.txid = n.txid)
        or exists (select from custody.address own where own.address = n.sender)))
    order by n.block_height, n.txid, n.output_index
    returning id, credited, version, block_height, txid, output_index, token, amount, amount as old_amount,
      array['deposit.pending'] as steps
  ), step as (
    select *, case
        when alive and status = 'reorged' then array['deposit.pending']
        when alive and status = 'pending' and changed then array['deposit.reorged', 'deposit.pending']
        when not alive and status = 'pending' then array['deposit.reorged']
        else '{}' end as steps
    from net n
    where deposit_id is not null and status <> 'final' and not exists (select from held_back h where h.deposit_id = n.deposit_id)
  ), updated as (
    update app.deposit d set
      status = case when s.alive then 'pending' else 'reorged' end, version = d.version + cardinality(s.steps),
      amount = s.amount, sender = coalesce(s.sender, d.sender), block_height = s.block_height, block_hash = s.block_hash
    from step s where d.id = s.deposit_id and (s.steps <> '{}' or (s.alive and s.moved))
    returning d.id, d.credited, d.version, d.block_height, d.txid, d.output_index, d.token, d.amount, s.old_amount, s.steps
  ), healed as (
    update app.incident i set resolved_at = clock_timestamp(), resolution = 'healed'
    from net n
    where n.status = 'final' and n.alive and i.subject = n.deposit_id::text and i.resolved_at is null
      and (i.kind = 'final_deposit_vanished' or (i.kind = 'final_deposit_moved' and not n.moved) or (i.kind = 'final_deposit_changed' and not n.changed))
  ), alarmed as (
    insert into app.incident (chain, kind, subject, details)
    select of_chain, 'final_deposit_' || case when not alive then 'vanished' when changed then 'changed' else 'moved' end, deposit_id::text,
      jsonb_build_object('transfer', transfer_id, 'token', token, 'amount', amount::text, 'block_height', block_height, 'block_hash', block_hash)
    from net where status = 'final' and (not alive or changed or moved)
    union all
    select of_chain, 'payment_replaced', live_id,
      jsonb_build_object('transfer', live_id, 'token', token, 'amount', amount::text, 'block_height', block_height, 'block_hash', block_hash)
    from held_back
    on conflict do nothing
  ), emitted as (
    select x.id, e.type, x.version - cardinality(x.steps) + e.n::int as version,
      x.token, case when e.type = 'deposit.reorged' then x.old_amount else x.amount end as amount,
      row_number() over (order by e.type = 'deposit.pending', x.block_height, x.txid, x.output_index) as n
    from (select * from updated union all select * from created) x cross join unnest(x.steps) with ordinality as e (type, n)
    where x.credited
  )
  select array_agg(id order by n), array_agg(type order by n), array_agg(version order by n), array_agg(token order by n), array_agg(amount order by n)
  into ids, types, versions, tokens, amounts from emitted;
  perform app.emit_deposit_events(ids, types, versions, tokens, amounts);
end $$;

-- What is on the chain as we have it, if perhaps in another block, is not taken back; nor is what the chain, which is being read again, was not
-- read far enough to show.
create function app.refuse_to_take_back(incident_id bigint, deposit app.deposit) returns void
language plpgsql set search_path = pg_catalog as $$
declare there int;
begin
  select t.block_height into there from chain.transfer t
  where t.id = deposit.chain || ':' || deposit.txid || ':' || deposit.output_index
    and (t.recipient, t.token, t.amount) = (deposit.address, deposit.token, deposit.amount);
  if found then
    raise exception 'incident %: its deposit is on the chain, in block %; it can only be kept', incident_id, there using errcode = 'P0003';
  end if;
  perform from chain.cursor c where c.chain = deposit.chain and c.head_height < deposit.block_height;
  if found then
    raise exception 'incident %: % is being read again and has not come to block % yet; try again when it has', incident_id, deposit.chain,
      deposit.block_height using errcode = 'P0003';
  end if;
end $$;

-- As in 012_spends.sql, but for what is refused, and for a deposit that moved: one that is kept is in the block that holds it now.
create or replace function app.resolve_incident(incident_id bigint, decision text) returns void
language plpgsql security definer set search_path = pg_catalog as $$
declare
  incident app.incident;
  deposit app.deposit;
begin
  select * into incident from app.incident i where i.id = incident_id;
  perform from chain.cursor c where c.chain = incident.chain for update; -- before the incident, as settling does
  if decision = 'reorged' and incident.kind like 'final_deposit_%' then -- and its payout before it, as everybody locks them
    select * into deposit from app.deposit d where d.id = incident.subject::uuid;
    perform app.stamp_all_deposits(deposit.merchant_id, deposit.chain, deposit.token);
    select * into deposit from app.deposit d where d.id = deposit.id;
    perform from app.payout p where p.id = deposit.settlement_id for update;
    perform app.lock_treasury(deposit.chain);
    perform app.lock_pair(deposit.merchant_id, deposit.chain, deposit.token); -- a claim that has counted it is stamped now, or counts without it
    perform app.stamp_all_deposits(deposit.merchant_id, deposit.chain, deposit.token);
    perform from app.deposit d where d.id = deposit.id and d.settlement_id is distinct from deposit.settlement_id;
    if found then
      raise exception 'incident %: a payout claims the deposit at this moment; try again', incident_id using errcode = '40001';
    end if;
  end if;
  select * into incident from app.incident i where i.id = incident_id for update;
  if incident.id is null then raise exception 'no incident %', incident_id using errcode = 'P0002'; end if;
  if incident.resolved_at is not null then
    raise exception 'incident % is resolved already (%)', incident_id, incident.resolution using errcode = 'P0003';
  end if;
  if decision = 'reorged' then
    if incident.kind not like 'final_deposit_%' then
      raise exception 'incident % is about no deposit; it can only be kept', incident_id using errcode = 'P0003';
    end if;
    perform app.refuse_to_take_back(incident_id, deposit);
    perform app.take_back(deposit.id);
    -- What stands at its place on the chain now, another amount or another recipient, is settled anew.
    insert into chain.touched select pg_current_xact_id(), t.chain, t.id from chain.transfer t
    where t.id = deposit.chain || ':' || deposit.txid || ':' || deposit.output_index;
    insert into chain.touched_chain values (pg_current_xact_id(), deposit.chain) on conflict do nothing;
    update app.incident i set resolved_at = clock_timestamp(), resolution = 'reorged'
    where i.resolved_at is null and (i.subject = incident.subject
      or i.subject = deposit.chain || ':' || deposit.txid || ':' || deposit.output_index);
  else
    if incident.kind = 'final_deposit_moved' then -- else it would be an incident again each time that its block is read
      update app.deposit d set block_height = t.block_height, block_hash = t.block_hash
      from chain.transfer t where d.id = incident.subject::uuid and t.id = d.chain || ':' || d.txid || ':' || d.output_index
        and (t.recipient, t.token, t.amount) = (d.address, d.token, d.amount);
    end if;
    update app.incident i set resolved_at = clock_timestamp(), resolution = 'kept' where i.id = incident_id;
  end if;
end $$;
