-- Deposits, balances and incidents, and the settling that makes them from chain truth.
--
-- Writers: chain.settle, at COMMIT of each transaction that touched chain.transfer or moved a cursor; app.fold_balances; an operator
-- through app.resolve_incident. Readers: the API through app.deposit and app.balance_now, analysts through the schema analytics.
--
-- Invariants:
--   * one deposit per (chain, txid, output_index, address, token), never deleted, never another id;
--     of those that share the first three at most one is not reorged;
--   * deposit.version counts its events: every change of status makes exactly one (uncredited ones make none);
--   * pending -> final only at or below the final height of the chain; a final deposit never changes by itself: a difference opens an
--     incident, and only an operator makes it reorged;
--   * app.balance_now = the sum over final, credited, unsettled deposits, at every moment (app.balance_audit is empty).
-- Locks, always in this order: chain.cursor, then deposits, then incidents.

create table app.deposit (
  id uuid primary key default uuidv7(),
  seq bigint not null generated always as identity,
  merchant_id uuid not null,
  user_id uuid not null,
  chain text not null,
  token text not null,
  amount numeric(78, 0) not null,
  sender text not null,
  address text not null,
  txid text not null,
  output_index int not null,
  block_height int not null,
  block_hash text not null,
  status text not null check (status in ('pending', 'final', 'reorged')),
  credited boolean not null,
  version int not null,
  settlement_id uuid,
  created_at timestamptz not null default clock_timestamp(),
  finalised_at timestamptz,
  unique (txid, output_index, chain, address, token)
);
create index deposit_pending on app.deposit (chain, block_height) where status = 'pending';
create index deposit_unsettled on app.deposit (merchant_id, chain, token) include (amount)
  where status = 'final' and credited and settlement_id is null;
create index deposit_page on app.deposit (merchant_id, seq desc) where credited;
create index deposit_chain_page on app.deposit (merchant_id, chain, seq desc) where credited;
create index deposit_user_page on app.deposit (user_id, seq desc) where credited;
create index deposit_status_page on app.deposit (merchant_id, status, seq desc) where credited and status <> 'final';
create index deposit_uncredited on app.deposit (chain, seq desc) where not credited;
comment on table app.deposit is 'Value that reached an address of ours. Credited ones are deposits of a merchant; the others are unattributed: a token or a chain that was not asked for.';
comment on column app.deposit.id is 'Id; shown as dep_ and 32 hex digits.';
comment on column app.deposit.seq is 'Order in which deposits were first seen, for pages.';
comment on column app.deposit.merchant_id is 'The merchant whose address it is.';
comment on column app.deposit.user_id is 'The user whose address it is.';
comment on column app.deposit.chain is 'Chain code.';
comment on column app.deposit.token is 'Token code; a contract address where the token is not supported.';
comment on column app.deposit.amount is 'Amount in base units.';
comment on column app.deposit.sender is 'Where the value came from.';
comment on column app.deposit.address is 'Our address.';
comment on column app.deposit.txid is 'Transaction id.';
comment on column app.deposit.output_index is 'Position inside the transaction (see chain.transfer).';
comment on column app.deposit.block_height is 'Block that holds it, or last held it.';
comment on column app.deposit.block_hash is 'Hash of that block.';
comment on column app.deposit.status is 'pending: in a block that may still leave the chain. final: counts. reorged: its block left the chain.';
comment on column app.deposit.credited is 'True if it counts for the merchant; decided when it is first seen.';
comment on column app.deposit.version is 'Number of changes of status so far.';
comment on column app.deposit.settlement_id is 'The payout that collected it; null until then.';
comment on column app.deposit.created_at is 'When it was first seen.';
comment on column app.deposit.finalised_at is 'When it became final.';

create function app.refuse_change() returns trigger
language plpgsql set search_path = pg_catalog as $$
begin
  raise exception 'deposit %: % is not allowed (status % to %)', old.id, lower(tg_op), old.status, case when tg_op = 'UPDATE' then new.status end;
end $$;
create trigger never_deleted before delete on app.deposit for each row execute function app.refuse_change();
create trigger final_stays_final before update on app.deposit for each row
  when (old.status = 'final' and (new.status <> 'final' or new.amount <> old.amount)
    and current_setting('app.decided_by_operator', true) is distinct from 'on')
  execute function app.refuse_change();
create trigger never_another before update on app.deposit for each row
  when (old.id <> new.id or old.chain <> new.chain or old.txid <> new.txid or old.output_index <> new.output_index
    or old.address <> new.address or old.token <> new.token or old.credited <> new.credited or (old.status = 'reorged' and new.status = 'final'))
  execute function app.refuse_change();

create table app.balance_delta (
  id bigint primary key generated always as identity,
  merchant_id uuid not null,
  chain text not null,
  token text not null,
  amount numeric(78, 0) not null,
  deposit_count int not null
);
create index balance_delta_pair on app.balance_delta (merchant_id, chain, token);
comment on table app.balance_delta is 'Changes of balances that are not folded into app.balance yet. Written with the change that causes them.';
comment on column app.balance_delta.id is 'Order of insertion.';
comment on column app.balance_delta.merchant_id is 'The merchant.';
comment on column app.balance_delta.chain is 'Chain code.';
comment on column app.balance_delta.token is 'Token code.';
comment on column app.balance_delta.amount is 'Change of the gross balance, in base units.';
comment on column app.balance_delta.deposit_count is 'Change of the number of unsettled final deposits.';

create table app.balance (
  merchant_id uuid not null,
  chain text not null,
  token text not null,
  amount numeric(78, 0) not null,
  deposit_count bigint not null,
  primary key (merchant_id, chain, token)
);
comment on table app.balance is 'Folded balances; without app.balance_delta they are not complete. Read app.balance_now.';
comment on column app.balance.merchant_id is 'The merchant.';
comment on column app.balance.chain is 'Chain code.';
comment on column app.balance.token is 'Token code.';
comment on column app.balance.amount is 'Gross balance in base units, but for the changes that are not folded yet.';
comment on column app.balance.deposit_count is 'Unsettled final deposits, but for the changes that are not folded yet.';

create view app.balance_now with (security_barrier) as
select merchant_id, chain, token, sum(amount) as amount, sum(deposit_count)::bigint as deposit_count
from (
  select merchant_id, chain, token, amount, deposit_count from app.balance
  union all
  select merchant_id, chain, token, amount, deposit_count from app.balance_delta
) part
group by merchant_id, chain, token
having sum(amount) <> 0 or sum(deposit_count) <> 0;
comment on view app.balance_now is 'The exact balance of each merchant, chain and token: final deposits that no payout has collected.';
comment on column app.balance_now.merchant_id is 'The merchant.';
comment on column app.balance_now.chain is 'Chain code.';
comment on column app.balance_now.token is 'Token code.';
comment on column app.balance_now.amount is 'Gross balance in base units.';
comment on column app.balance_now.deposit_count is 'Number of deposits in it.';

create view app.balance_audit as
select merchant_id, chain, token,
  coalesce(kept.amount, 0) as kept_amount, coalesce(counted.amount, 0) as counted_amount,
  coalesce(kept.deposit_count, 0) as kept_count, coalesce(counted.deposit_count, 0) as counted_count
from app.balance_now kept
full join (
  select merchant_id, chain, token, sum(amount) as amount, count(*) as deposit_count
  from app.deposit where status = 'final' and credited and settlement_id is null
  group by merchant_id, chain, token
) counted using (merchant_id, chain, token)
where (coalesce(kept.amount, 0), coalesce(kept.deposit_count, 0)) <> (coalesce(counted.amount, 0), coalesce(counted.deposit_count, 0));
comment on view app.balance_audit is 'Balances that differ from the sum of their deposits. Always empty; a row is a bug.';
comment on column app.balance_audit.merchant_id is 'The merchant.';
comment on column app.balance_audit.chain is 'Chain code.';
comment on column app.balance_audit.token is 'Token code.';
comment on column app.balance_audit.kept_amount is 'Gross balance as it is kept, in base units.';
comment on column app.balance_audit.counted_amount is 'Sum of the deposits, in base units.';
comment on column app.balance_audit.kept_count is 'Number of deposits as it is kept.';
comment on column app.balance_audit.counted_count is 'Number of deposits counted.';

-- Folds deltas into balances. Safe to run at any time and in several places: rows that somebody else folds are skipped.
create function app.fold_balances(batch int default 20000) returns int
language plpgsql security definer set search_path = pg_catalog as $$
declare folded int;
begin
  with gone as (
    delete from app.balance_delta where id in (select id from app.balance_delta order by id limit batch for update skip locked)
    returning merchant_id, chain, token, amount, deposit_count
  ), summed as (
    select merchant_id, chain, token, sum(amount) as amount, sum(deposit_count) as deposit_count, count(*) as deltas
    from gone group by merchant_id, chain, token order by merchant_id, chain, token
  ), stored as (
    insert into app.balance as b (merchant_id, chain, token, amount, deposit_count)
    select merchant_id, chain, token, amount, deposit_count from summed
    on conflict (merchant_id, chain, token) do update
      set amount = b.amount + excluded.amount, deposit_count = b.deposit_count + excluded.deposit_count
  )
  select coalesce(sum(deltas), 0) into folded from summed;
  return folded;
end $$;
comment on function app.fold_balances is 'Adds balance deltas to balances; returns how many. Safe to run at any time and in several places.';

create table app.incident (
  id bigint primary key generated always as identity,
  chain text not null,
  kind text not null,
  subject text not null,
  details jsonb not null,
  opened_at timestamptz not null default clock_timestamp(),
  resolved_at timestamptz,
  resolution text
);
create unique index incident_open on app.incident (subject, kind) where resolved_at is null;
comment on table app.incident is 'What must never happen and did, for an operator to decide: sluice incident list.';
comment on column app.incident.id is 'Number of the incident.';
comment on column app.incident.chain is 'Chain code.';
comment on column app.incident.kind is 'final_deposit_vanished, final_deposit_moved, final_deposit_changed, payment_replaced or fork_below_final.';
comment on column app.incident.subject is 'The id of the deposit, or the chain.';
comment on column app.incident.details is 'What was seen.';
comment on column app.incident.opened_at is 'When it was noticed.';
comment on column app.incident.resolved_at is 'When it was resolved; null while it is open.';
comment on column app.incident.resolution is 'healed (it went away by itself), reorged, kept, rewound or resumed (an operator decided).';

-- Inserts events of deposits in the order given, their deliveries, and the job that sends them. Token and amount are those that the
-- event is about: a deposit whose amount changed by a reorganisation is reorged with the old one and pending with the new one.
create function app.emit_deposit_events(ids uuid[], types text[], versions int[], tokens text[], amounts numeric[]) returns void
language plpgsql set search_path = pg_catalog
set plan_cache_mode = force_custom_plan set random_page_cost = 1.1 as $$
begin
  if cardinality(ids) is null then return; end if;
  with step as materialized (
    select uuidv7() as event_id, clock_timestamp() as at, s.n, s.type, s.version, s.token, s.amount, a.decimals,
      d.id, d.merchant_id, d.user_id, u.external_ref, d.chain, d.txid
    from unnest(ids, types, versions, tokens, amounts) with ordinality as s (deposit_id, type, version, token, amount, n)
    join app.deposit d on d.id = s.deposit_id
    join app.user u on u.id = d.user_id
    join app.asset a on a.chain = d.chain and a.token = s.token
  ), event as (
    insert into app.event (id, merchant_id, type, subject_id, version, created_at, payload)
    select event_id, merchant_id, type, id, version, at, json_build_object(
      'type', type, 'id', app.public_id('evt', event_id), 'deposit_id', app.public_id('dep', id),
      'user', json_build_object('id', app.public_id('usr', user_id), 'external_ref', external_ref),
      'chain', chain, 'token', token, 'amount', app.decimal(amount, decimals), 'txid', txid, 'created_at', app.iso(at))
    from step order by n
  )
  insert into app.delivery (event_id, endpoint_id, status, next_attempt_at, finished_at)
  select s.event_id, w.id, case when w.disabled_at is null then 'pending' else 'failed' end,
    case when w.disabled_at is null then s.at end, case when w.disabled_at is not null then s.at end
  from step s join app.webhook_endpoint w on w.merchant_id = s.merchant_id and w.deleted_at is null and s.type = any(w.event_types)
  order by s.n;
  perform app.enqueue('deliver_webhooks');
end $$;

-- The net state of every touched transfer against its deposit. The two belong together when key, address and token agree.
-- A few keys against tables of any size, whose statistics may be old: each key is looked up by index (lateral with offset 0, which the
-- planner cannot turn into a join over the whole table), and no plan is kept from when the tables were small. Both were measured: 2 to
-- 10 times slower without.
create function chain.settle_transfers(of_chain text) returns void
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
    select t.* from key cross join lateral (select * from chain.transfer t where t.id = key.id offset 0) t
  ), net as (
    select d.id as deposit_id, d.status, d.credited, d.version, t.id is not null as alive, d.transfer_id,
      d.amount is distinct from t.amount as changed,
      (d.block_height, d.block_hash) is distinct from (t.block_height, t.block_hash) as moved,
      d.amount as old_amount, t.txid, t.output_index, t.recipient, t.sender,
      coalesce(t.token, d.token) as token, coalesce(t.amount, d.amount) as amount,
      coalesce(t.block_height, d.block_height) as block_height, coalesce(t.block_hash, d.block_hash) as block_hash, t.id as live_id
    from deposit d full join transfer t on t.id = d.transfer_id and t.recipient = d.address and t.token = d.token
  ), held_back as ( -- something else is paid at a position that holds a final deposit: nobody is credited until an operator decides
    select n.* from net n
    where n.alive and (n.deposit_id is null or n.status = 'reorged')
      and exists (select from deposit d where d.transfer_id = n.live_id and d.status = 'final')
  ), created as (
    insert into app.deposit (chain, txid, output_index, address, merchant_id, user_id, token, amount, sender, block_height, block_hash,
      status, credited, version)
    select of_chain, n.txid, n.output_index, a.address, a.merchant_id, a.user_id, n.token, n.amount, n.sender, n.block_height, n.block_hash,
      'pending', a.is_provisioned and s.token is not null, 1
    from net n
    cross join lateral (
      select * from app.address a
      where a.chain = of_chain and a.match_key in (n.recipient, lower(n.recipient)) and a.address = n.recipient offset 0
    ) a
    left join app.asset s on s.chain = of_chain and s.token = n.token
    where n.deposit_id is null and not exists (select from held_back h where h.live_id = n.live_id)
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
    where n.status = 'final' and n.alive and not n.changed and not n.moved
      and i.subject = n.deposit_id::text and i.resolved_at is null and i.kind = 'final_deposit_vanished'
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

-- Everything that is pending at or below the final height is final. Runs after settling, so that it sees this transaction's rows.
create function chain.promote(of_chain text, final_height int) returns void
language plpgsql set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
declare
  ids uuid[];
  versions int[];
  tokens text[];
  amounts numeric[];
begin
  with promoted as (
    update app.deposit set status = 'final', version = version + 1, finalised_at = clock_timestamp()
    where chain = of_chain and status = 'pending' and block_height <= final_height
    returning id, merchant_id, token, amount, credited, settlement_id, version, block_height, txid, output_index
  ), counted as (
    insert into app.balance_delta (merchant_id, chain, token, amount, deposit_count)
    select merchant_id, of_chain, token, sum(amount), count(*) from promoted
    where credited and settlement_id is null -- one that was lost after a payout collected it is not counted again
    group by merchant_id, token
  ), ordered as (
    select *, row_number() over (order by block_height, txid, output_index) as n from promoted where credited
  )
  select array_agg(id order by n), array_agg(version order by n), array_agg(token order by n), array_agg(amount order by n)
  into ids, versions, tokens, amounts from ordered;
  perform app.emit_deposit_events(ids, array_fill('deposit.confirmed'::text, array[coalesce(cardinality(ids), 0)]), versions, tokens, amounts);
end $$;

-- Runs once per transaction and touched chain, at COMMIT.
create function chain.settle() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
declare
  at chain.cursor;
  head chain.block;
  reorg_depth int;
begin
  select * into at from chain.cursor c where c.chain = new.chain for update;
  if at.chain is not null then
    -- The store would follow a fork below the final block, too, as far down as it can undo. That is for an operator to decide.
    perform from chain.block b where b.chain = new.chain and b.height = at.final_height and b.hash = at.final_hash;
    if not found then
      raise exception '%: its final block % (%) would leave the chain; nothing was written', new.chain, at.final_height, at.final_hash
        using errcode = 'P0003';
    end if;
    perform chain.settle_transfers(new.chain);
    perform chain.promote(new.chain, at.final_height);
    select * into head from chain.block b where b.chain = new.chain order by b.height desc limit 1;
    update chain.cursor c set head_height = head.height, head_hash = head.hash, head_time = head.time, head_moved_at = clock_timestamp()
    where c.chain = new.chain and (c.head_height, c.head_hash) is distinct from (head.height, head.hash);
    with gone as (delete from chain.dropped_block where txn = new.txn and chain = new.chain returning height, hash)
    select count(*) into reorg_depth from gone g
    where g.height > at.final_height and not exists (
      select from chain.block b where b.id = new.chain || ':' || g.height and b.hash = g.hash
    );
    if reorg_depth > 0 then
      update chain.cursor c set last_reorg_at = clock_timestamp(), last_reorg_depth = reorg_depth where c.chain = new.chain;
    end if;
  end if;
  delete from chain.touched_chain where txn = new.txn and chain = new.chain;
  return null;
end $$;
create constraint trigger settle after insert on chain.touched_chain deferrable initially deferred
  for each row execute function chain.settle();

-- The indexer saw, several times in a row, that the final block is not on the node's chain: stop everything and ask an operator.
create function chain.halt(of_chain text, details jsonb) returns void
language plpgsql security definer set search_path = pg_catalog as $$
begin
  update chain.cursor c set halted_at = clock_timestamp() where c.chain = of_chain and c.halted_at is null;
  insert into app.incident (chain, kind, subject, details) values (of_chain, 'fork_below_final', of_chain, details) on conflict do nothing;
end $$;
comment on function chain.halt is 'Stops a chain, with an incident, because the final block is not on the node''s chain any more.';
grant execute on function chain.halt to sluice_indexer;

-- An operator's decision about an incident. 'kept': the deposit stays as it is. 'reorged': a final deposit that is gone is taken back,
-- with a deposit.reorged event and, if no payout has collected it, a negative balance delta.
create function app.resolve_incident(incident_id bigint, decision text) returns void
language plpgsql security definer set search_path = pg_catalog as $$
declare
  incident app.incident;
  deposit app.deposit;
begin
  select * into incident from app.incident i where i.id = incident_id;
  perform from chain.cursor c where c.chain = incident.chain for update; -- before the incident, as settling does
  select * into incident from app.incident i where i.id = incident_id for update;
  if incident.id is null then raise exception 'no incident %', incident_id using errcode = 'P0002'; end if;
  if incident.resolved_at is not null then
    raise exception 'incident % is resolved already (%)', incident_id, incident.resolution using errcode = 'P0003';
  end if;
  if decision = 'reorged' then
    if incident.kind not like 'final_deposit_%' then
      raise exception 'incident % is about no deposit; it can only be kept', incident_id using errcode = 'P0003';
    end if;
    perform set_config('app.decided_by_operator', 'on', true);
    update app.deposit d set status = 'reorged', version = d.version + 1, finalised_at = null
    where d.id = incident.subject::uuid and d.status = 'final' returning * into strict deposit;
    perform set_config('app.decided_by_operator', '', true);
    if deposit.credited then
      if deposit.settlement_id is null then
        insert into app.balance_delta (merchant_id, chain, token, amount, deposit_count)
        values (deposit.merchant_id, deposit.chain, deposit.token, -deposit.amount, -1);
      end if;
      perform app.emit_deposit_events(array[deposit.id], array['deposit.reorged'], array[deposit.version], array[deposit.token], array[deposit.amount]);
    end if;
    -- What stands at its place on the chain now, another amount or another recipient, is settled anew.
    insert into chain.touched select pg_current_xact_id(), t.chain, t.id from chain.transfer t
    where t.id = deposit.chain || ':' || deposit.txid || ':' || deposit.output_index;
    insert into chain.touched_chain values (pg_current_xact_id(), deposit.chain) on conflict do nothing;
    update app.incident i set resolved_at = clock_timestamp(), resolution = 'reorged'
    where i.resolved_at is null and (i.subject = incident.subject
      or i.subject = deposit.chain || ':' || deposit.txid || ':' || deposit.output_index);
  else
    update app.incident i set resolved_at = clock_timestamp(), resolution = 'kept' where i.id = incident_id;
  end if;
end $$;
comment on function app.resolve_incident is 'An operator''s decision about an incident: kept, or reorged to take a final deposit back.';

-- What an operator decides about a halted chain: go on as it is (the node was wrong), or go back to a height and read again. The indexer,
-- which knows the node, carries the second one out (chain.rewind).
create function app.resume_chain(of_chain text) returns void
language plpgsql security definer set search_path = pg_catalog as $$
begin
  update chain.cursor c set halted_at = null where c.chain = of_chain;
  update app.incident i set resolved_at = clock_timestamp(), resolution = 'resumed'
  where i.chain = of_chain and i.kind = 'fork_below_final' and i.resolved_at is null;
end $$;
comment on function app.resume_chain is 'An operator''s decision that a halted chain goes on as it is.';

create function app.request_rewind(of_chain text, to_height int) returns void
language plpgsql security definer set search_path = pg_catalog as $$
begin
  update chain.cursor c set rewind_to = to_height where c.chain = of_chain and to_height >= 0 and to_height <= c.head_height;
  if not found then raise exception '% is not followed, or its head is below %', of_chain, to_height using errcode = 'P0003'; end if;
end $$;
comment on function app.request_rewind is 'An operator''s decision that a chain is read again from a height; its indexer carries it out.';

grant select on app.deposit, app.balance_now to sluice_api;
grant select on app.incident to sluice_jobs;
grant execute on function app.fold_balances to sluice_jobs;
