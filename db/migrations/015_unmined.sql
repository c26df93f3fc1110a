-- Deposits that are in no block yet, and transactions that use up outputs instead of nonces: what Bitcoin adds to chain truth.
--
-- Writers: the indexer of a chain with outputs. What its source shows of unmined transactions it hands over whole, again and again
-- (chain.look_unmined); with each block it writes, in the same transaction, what that block does to them (chain.note_mined). Settling reads
-- the mined transfer of a deposit and, where there is none, the unmined one.
--
-- Invariants: a transfer that is mined has its row in chain.unmined until it is final, so a block that leaves the chain does not take the
-- deposit away: only a mined conflict does, or absence in two looks that are 30 seconds apart; an unmined deposit is pending, in no block,
-- and never final; what spends an output of ours in a block has a row in chain.inclusion for that output.
-- Locks: chain.cursor first, as everybody.

create table chain.unmined (
  id text primary key check (id = chain || ':' || txid || ':' || output_index),
  chain text not null,
  txid text not null,
  output_index int not null,
  token text not null,
  amount numeric(78, 0) not null check (amount > 0),
  sender text not null,
  recipient text not null,
  inputs text[] not null,
  raw text,
  seen_at timestamptz not null default clock_timestamp(),
  missed_since timestamptz
);
create index unmined_inputs on chain.unmined using gin (inputs);
comment on table chain.unmined is 'Value on its way to an address of ours that is not final: in no block, or in one that may still leave the chain.';
comment on column chain.unmined.id is '<chain>:<txid>:<output_index>, as in chain.transfer.';
comment on column chain.unmined.chain is 'Chain code.';
comment on column chain.unmined.txid is 'Transaction id.';
comment on column chain.unmined.output_index is 'Position inside the transaction.';
comment on column chain.unmined.token is 'Token code.';
comment on column chain.unmined.amount is 'Amount in base units.';
comment on column chain.unmined.sender is 'Address that the value comes from.';
comment on column chain.unmined.recipient is 'Our address.';
comment on column chain.unmined.inputs is 'What the transaction spends (txid:vout): another transaction in a block that spends one of them excludes this one.';
comment on column chain.unmined.raw is 'The transaction, in hex, where the source gave it.';
comment on column chain.unmined.seen_at is 'When it was first seen.';
comment on column chain.unmined.missed_since is 'When a look first did not show it, though it was in no block; null while it is shown or mined.';

alter table app.deposit alter column block_height drop not null, alter column block_hash drop not null;
comment on column app.deposit.block_height is 'Block that holds it, or last held it; null while it is in none.';
comment on column app.deposit.block_hash is 'Hash of that block; null while it is in none.';
comment on column app.deposit.status is 'pending: in a block that may still leave the chain, or in none yet. final: counts. reorged: its block left the chain, or it will never be in one.';
comment on column chain.transfer.output_index is 'Position inside the transaction. EVM chains: 0 the transaction''s own value, 1 + n the n-th log, 1000000 + n the n-th internal call. Bitcoin: the output (vout).';

-- One look at everything unmined that the source shows: [{txid, output_index, token, amount, sender, recipient, inputs, raw}]. What is not to an
-- address of ours is passed over.
create function chain.look_unmined(of_chain text, seen jsonb) returns void
language plpgsql security definer set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
declare changed text[];
begin
  perform from chain.cursor c where c.chain = of_chain for update;
  with shown as materialized (
    select of_chain || ':' || r.txid || ':' || r.output_index as id, r.*
    from jsonb_to_recordset(seen) as r (txid text, output_index int, token text, amount numeric, sender text, recipient text, inputs text[], raw text)
    where r.amount > 0 and exists (select from app.address a where a.chain = of_chain and a.match_key = r.recipient)
  ), added as (
    insert into chain.unmined (id, chain, txid, output_index, token, amount, sender, recipient, inputs, raw)
    select distinct on (id) id, of_chain, txid, output_index, token, amount, sender, recipient, inputs, raw from shown s
    where not exists (select from chain.transfer t where t.id = s.id)
    on conflict (id) do nothing returning id
  ), again as (
    update chain.unmined u set missed_since = null
    where u.chain = of_chain and u.missed_since is not null
      and (u.id in (select id from shown) or exists (select from chain.transfer t where t.id = u.id))
  ), missed as (
    update chain.unmined u set missed_since = clock_timestamp()
    where u.chain = of_chain and u.missed_since is null and u.id not in (select id from shown) and not exists (select from chain.transfer t where t.id = u.id)
  )
  select array_agg(id) into changed from added;
  with gone as (
    delete from chain.unmined u where u.chain = of_chain and u.missed_since <= clock_timestamp() - interval '30 seconds'
    returning u.id
  )
  select changed || array_agg(id) into changed from gone;
  perform chain.touch(of_chain, changed);
end $$;
comment on function chain.look_unmined is 'Takes in everything unmined that a source shows now: new deposits are pending, and what was missed for long enough is gone.';

-- What blocks that are being written do to what is unmined. kept: the transfers to us in them, as for chain.look_unmined; txids and outpoints,
-- parallel: what each of their transactions spends.
create function chain.note_mined(of_chain text, kept jsonb, txids text[], outpoints text[]) returns void
language plpgsql security definer set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
declare gone text[];
begin
  insert into chain.unmined (id, chain, txid, output_index, token, amount, sender, recipient, inputs, raw)
  select of_chain || ':' || r.txid || ':' || r.output_index, of_chain, r.txid, r.output_index, r.token, r.amount, r.sender, r.recipient, r.inputs, r.raw
  from jsonb_to_recordset(kept) as r (txid text, output_index int, token text, amount numeric, sender text, recipient text, inputs text[], raw text)
  on conflict (id) do nothing;
  with conflict as (
    delete from chain.unmined u where u.chain = of_chain and u.inputs && outpoints
      and exists (select from unnest(txids, outpoints) as s (txid, outpoint) where s.outpoint = any(u.inputs) and s.txid <> u.txid)
    returning u.id
  )
  select array_agg(id) into gone from conflict;
  perform chain.touch(of_chain, gone);
end $$;
comment on function chain.note_mined is 'Keeps what blocks pay us until it is final, and drops what is unmined and conflicts with them.';

create function chain.touch(of_chain text, ids text[]) returns void
language plpgsql set search_path = pg_catalog as $$
begin
  if cardinality(ids) is null then return; end if;
  insert into chain.touched select pg_current_xact_id(), of_chain, unnest(ids);
  insert into chain.touched_chain values (pg_current_xact_id(), of_chain) on conflict do nothing;
end $$;

-- As in 012_spends.sql, but for where the transfer of a deposit is read: mined, else unmined. A final deposit that is only unmined has vanished.
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
      and not (a.user_id is null and (exists (select from app.outbound_tx o where o.chain = of_chain and o.txid = n.txid)
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

-- What uses up outputs ---------------------------------------------------------------------------------------------------------------------

alter table chain.inclusion drop constraint inclusion_check, add constraint inclusion_id check (starts_with(id, chain || ':' || txid));
comment on table chain.inclusion is 'Transactions that an address of ours sent, known to us or not, in a block that is on the chain now; on Bitcoin a row for each output of ours that one spends. A row disappears when its block leaves the chain.';
comment on column chain.inclusion.id is '<chain>:<txid>; on Bitcoin <chain>:<txid>:<position of the input>.';
comment on column chain.inclusion.sender is 'Our address that sent it; on Bitcoin the output of ours that it spends (txid:vout), which, as a nonce, can be used once.';
comment on column chain.inclusion.nonce is 'Its nonce; 0 on Bitcoin.';
comment on column chain.inclusion.fee is 'Network fee that it cost, in the native coin''s base units; 0 where it spends what is not ours, too.';

-- Electrum sources subscribe to an address as soon as it is handed out. (The addresses of other chains are not told: each notification holds
-- up other commits for a moment.)
create function app.announce_address() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
begin
  perform pg_notify('address_added', new.address);
  return null;
end $$;
create trigger announce_address after insert on app.address for each row when (new.chain = 'BTC') execute function app.announce_address();

grant execute on function chain.look_unmined, chain.note_mined to sluice_indexer;
grant select on chain.unmined to sluice_indexer;
