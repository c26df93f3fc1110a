-- Payments to us that are in no block yet (chain.unconfirmed), on chains that show them. The indexer calls two functions: chain.note_unconfirmed,
-- again and again, with everything that its source shows at one moment; and chain.note_mined, in the transaction that writes blocks, with what they
-- spend. chain.derive makes deposits of it, at COMMIT, and forgets what is final.
--
-- A row is deleted in two cases: a block has another transaction that spends one of the same outputs; or polls that are 30 seconds apart did not
-- show it while it was in no block. A payment in a block keeps its row until it is final, so a fork that removes the block does not remove the
-- deposit.
-- Locks: chain.cursor, before a row of chain.unconfirmed is written. All are safe to run twice.

create or replace function chain.note_unconfirmed(of_chain text, seen jsonb) returns void
language plpgsql security definer set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
declare changed text[];
begin
  perform from chain.cursor c where c.chain = of_chain for update;
  with shown as materialized (
    select of_chain || ':' || r.txid || ':' || r.output_index as id, r.*
    from jsonb_to_recordset(seen) as r (txid text, output_index int, token text, amount numeric, sender text, recipient text, inputs text[], raw text)
    where r.amount > 0 and exists (
      select from app.chain c join app.address a on a.chain = c.chain and a.match_key = app.match_key(r.recipient, c.folds_addresses)
      where c.chain = of_chain)
  ), added as (
    insert into chain.unconfirmed (id, chain, txid, output_index, token, amount, sender, recipient, inputs, raw)
    select distinct on (id) id, of_chain, txid, output_index, token, amount, sender, recipient, inputs, raw from shown s
    where not exists (select from chain.transfer t where t.id = s.id)
    on conflict (id) do nothing returning id
  ), again as (
    update chain.unconfirmed u set missed_since = null
    where u.chain = of_chain and u.missed_since is not null
      and (u.id in (select id from shown) or exists (select from chain.transfer t where t.id = u.id))
  ), missed as (
    update chain.unconfirmed u set missed_since = clock_timestamp()
    where u.chain = of_chain and u.missed_since is null and u.id not in (select id from shown) and not exists (select from chain.transfer t where t.id = u.id)
  )
  select array_agg(id) into changed from added;
  with gone as (
    delete from chain.unconfirmed u where u.chain = of_chain and u.missed_since <= clock_timestamp() - interval '30 seconds'
    returning u.id
  )
  select changed || array_agg(id) into changed from gone;
  perform chain.touch(of_chain, changed);
end $$;
comment on function chain.note_unconfirmed is 'Stores everything unconfirmed that a source shows now, as [{txid, output_index, token, amount, sender, recipient, inputs, raw}]: new deposits are pending, and what was missing for long enough is gone. Payments to other addresses are ignored.';
grant execute on function chain.note_unconfirmed to sluice_indexer;

create or replace function chain.note_mined(of_chain text, kept jsonb, txids text[], outpoints text[]) returns void
language plpgsql security definer set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
declare gone text[];
begin
  perform from chain.cursor c where c.chain = of_chain for update;
  insert into chain.unconfirmed (id, chain, txid, output_index, token, amount, sender, recipient, inputs, raw)
  select of_chain || ':' || r.txid || ':' || r.output_index, of_chain, r.txid, r.output_index, r.token, r.amount, r.sender, r.recipient, r.inputs, r.raw
  from jsonb_to_recordset(kept) as r (txid text, output_index int, token text, amount numeric, sender text, recipient text, inputs text[], raw text)
  on conflict (id) do nothing;
  with conflict as (
    delete from chain.unconfirmed u where u.chain = of_chain and u.inputs && outpoints
      and exists (select from unnest(txids, outpoints) as s (txid, outpoint) where s.outpoint = any(u.inputs) and s.txid <> u.txid)
    returning u.id
  )
  select array_agg(id) into gone from conflict;
  perform chain.touch(of_chain, gone);
end $$;
comment on function chain.note_mined is 'Keeps what blocks pay us until it is final, and drops unconfirmed payments that conflict with these blocks. kept: the transfers to us in them, as for chain.note_unconfirmed; txids and outpoints, parallel: what each of their transactions spends.';
grant execute on function chain.note_mined to sluice_indexer;

create or replace function chain.forget_final(of_chain text, final_height int) returns void
language sql set search_path = pg_catalog as $$
  delete from chain.unconfirmed u using chain.transfer t where u.chain = of_chain and t.id = u.id and t.block_height <= final_height
$$;
comment on function chain.forget_final is 'Forgets those of a chain''s unconfirmed transfers that are in a block at or below the final height.';

create or replace function app.shows_unconfirmed(of_chain text) returns boolean
language sql stable set search_path = pg_catalog as $$
  select coalesce((select shows_unconfirmed from app.chain where chain = of_chain), false)
$$;
comment on function app.shows_unconfirmed is 'Whether the indexer of a chain shows payments that are in no block yet.';
