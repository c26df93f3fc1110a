-- Corrects final blocks by reading them from the node again (`sluice reindex`): adds what the chain has and we missed,
-- and removes what we have and the chain does not. The caller (indexers/reindex.ts) has proven that the blocks are of
-- our chain and below its final block, and holds chain.cursor. The live indexer continues above.
--
-- Only differences are written. What follows from them is derived at COMMIT, as always: a missed deposit is pending and
-- at once final; a final deposit that the chain does not have opens an incident and stays. Invariants: only rows at or
-- below the final height are touched; chain.block, chain.cursor and the store's status are not. What is written at a
-- height that the store can still undo is entered in its log, so that the live indexer can write the block again after
-- a restart.

-- A source that does not know a sender (unknown) does not contradict one that did.
create or replace function chain.correct_transfers(of_chain text, from_height int, to_height int, wanted jsonb,
  out added text[], out removed int, out changed int, out heights int[])
language plpgsql set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
declare
  rewritten text[];
  unsettled text[];
begin
  with want as materialized (
    select * from jsonb_populate_recordset(null::chain.transfer, wanted)
  ), gone as (
    delete from chain.transfer t
    where t.chain = of_chain and t.block_height between from_height and to_height and not exists (select from want w where w.id = t.id)
    returning t.block_height
  ), differs as materialized (
    select w.*, t.id is null as is_new
    from want w left join lateral (select * from chain.transfer t where t.id = w.id offset 0) t on true
    where t.id is null or (t.block_height, t.block_hash, t.block_time, t.token, t.amount, t.recipient)
      is distinct from (w.block_height, w.block_hash, w.block_time, w.token, w.amount, w.recipient)
      or (t.sender <> w.sender and w.sender <> 'unknown')
  ), written as (
    insert into chain.transfer as t
      (id, chain, txid, output_index, block_height, block_hash, block_time, token, amount, sender, recipient, transfer_kind)
    select id, chain, txid, output_index, block_height, block_hash, block_time, token, amount, sender, recipient, transfer_kind from differs
    on conflict (id) do update set block_height = excluded.block_height, block_hash = excluded.block_hash, block_time = excluded.block_time,
      token = excluded.token, transfer_kind = excluded.transfer_kind, amount = excluded.amount, recipient = excluded.recipient,
      sender = case when excluded.sender = 'unknown' then t.sender else excluded.sender end
  )
  select array(select id from differs where is_new), array(select id from differs where not is_new), (select count(*) from gone),
    array(select block_height from gone union select block_height from differs where not is_new)
  into added, rewritten, removed, heights;
  changed := cardinality(rewritten);
  perform chain.log_for_undo(of_chain, 'transfer', added || rewritten);

  -- What was stored and never became a deposit becomes one now. An operator's decision stays.
  select array_agg(w.id) into unsettled from jsonb_populate_recordset(null::chain.transfer, wanted) w
  where not exists (
    select from app.deposit d where d.txid = w.txid and d.output_index = w.output_index and d.chain = of_chain and d.status <> 'reorged'
  );
  perform chain.touch(of_chain, unsettled);
end $$;
comment on function chain.correct_transfers is 'Makes the transfers of these blocks exactly those of wanted (rows of chain.transfer as JSON). Returns the ids that were added, how many were removed and changed, and the heights at which something stored was missing or different.';

-- A final transaction of ours that is not there, or had no effect, opens the incident final_payment_vanished, as a
-- rewind does. One that is not there is broadcast again.
create or replace function chain.correct_confirmed_txs(of_chain text, from_height int, to_height int, wanted jsonb,
  out added text[], out removed int, out changed int, out heights int[])
language plpgsql set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
declare
  rewritten text[];
  lost jsonb;
begin
  with want as materialized (
    select * from jsonb_populate_recordset(null::chain.confirmed_tx, wanted)
  )
  select jsonb_agg(jsonb_build_object('outgoing_payment', s.id, 'txid', i.txid, 'payment', s.kind, 'block_height', i.block_height,
    'is_to_send', w.id is null and s.txid = i.txid))
  into lost
  from chain.confirmed_tx i left join want w on w.id = i.id
  cross join lateral app.payments_of(i.chain, i.txid, i.conflict_key) p join app.outgoing_payment s on s.id = p and s.status = 'final' and app.is_booked(s, i.txid)
  where i.chain = of_chain and i.block_height between from_height and to_height and (w.id is null or (i.success and not w.success));

  with want as materialized (
    select * from jsonb_populate_recordset(null::chain.confirmed_tx, wanted)
  ), differs as materialized (
    select w.id, w.block_height, i.id is null as is_new
    from want w left join lateral (select * from chain.confirmed_tx i where i.id = w.id offset 0) i on true
    where i.id is null or (i.block_height, i.block_hash, i.block_time, i.account, i.nonce, i.outpoint, i.success, i.fee)
      is distinct from (w.block_height, w.block_hash, w.block_time, w.account, w.nonce, w.outpoint, w.success, w.fee)
  ), gone as (
    delete from chain.confirmed_tx i
    where i.chain = of_chain and i.block_height between from_height and to_height and not exists (select from want w where w.id = i.id)
    returning i.block_height
  )
  select array(select id from differs where is_new), array(select id from differs where not is_new), (select count(*) from gone),
    array(select block_height from gone union select block_height from differs where not is_new)
  into added, rewritten, removed, heights;
  changed := cardinality(rewritten);

  delete from chain.confirmed_tx i where i.id = any(rewritten); -- and inserted again, which heals an incident
  insert into chain.confirmed_tx (id, chain, txid, block_height, block_hash, block_time, account, nonce, outpoint, success, fee)
  select id, chain, txid, block_height, block_hash, block_time, account, nonce, outpoint, success, fee
  from jsonb_populate_recordset(null::chain.confirmed_tx, wanted) w where w.id = any(added || rewritten);
  perform chain.log_for_undo(of_chain, 'confirmed_tx', added || rewritten);

  insert into app.incident (chain, kind, subject, details)
  select of_chain, 'final_payment_vanished', l->>'outgoing_payment', l - 'outgoing_payment' - 'is_to_send' from jsonb_array_elements(lost) l
  on conflict do nothing;
  update app.outgoing_payment s set next_step_at = clock_timestamp() from jsonb_array_elements(lost) l
  where s.id = (l->>'outgoing_payment')::uuid and (l->>'is_to_send')::boolean;
  if cardinality(added || rewritten) + removed > 0 then
    insert into chain.touched_chain values (pg_current_xact_id(), of_chain) on conflict do nothing; -- chain.derive does what follows for payouts
  end if;
end $$;
comment on function chain.correct_confirmed_txs is 'Makes the transactions of ours in these blocks exactly those of wanted (rows of chain.confirmed_tx as JSON); returns the same as chain.correct_transfers.';

-- Otherwise the block could not be written again there, because these rows would be in the way.
create or replace function chain.log_for_undo(of_chain text, of_table text, ids text[]) returns void
language plpgsql set search_path = pg_catalog as $$
begin
  if cardinality(ids) = 0 then return; end if;
  execute format(
    'insert into %1$I.hot_change_log (block_height, index, change) '
    'select h.height, (select coalesce(max(l.index), 0) from %1$I.hot_change_log l where l.block_height = h.height) '
    '    + row_number() over (partition by h.height order by r.id), jsonb_build_object(''kind'', ''insert'', ''table'', $1, ''id'', r.id) '
    'from chain.%2$I r join %1$I.hot_block h on h.height = r.block_height where r.id = any($2)',
    'squid_' || lower(of_chain), of_table) using of_table, ids;
end $$;
comment on function chain.log_for_undo is 'Enters these rows of chain.transfer or chain.confirmed_tx in the store''s log, if they are at heights that it can still undo.';
