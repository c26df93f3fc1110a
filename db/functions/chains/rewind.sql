-- Goes back to a lower block: everything above it is deleted and will be read again. Above the final height the indexer does so by itself, to follow
-- a fork that the store cannot undo. Below it only an operator can ask for it (app.request_rewind, `sluice chain rewind`). The indexer, which knows
-- the node's hash there, carries it out at its start.
--
-- Pending deposits above are awaited (await.sql): merchants are not notified of what is only gone until it is read again. Final deposits stay, and
-- an incident opens for each; it closes when the deposit is read again in the same block. Outgoing payments that were final stay final, each with an
-- incident (final_payment_vanished), and are broadcast again. A halted chain is resumed, and a rewind that an operator asked for resolves
-- fork_below_final.
-- Errors: P0003 a rewind that cannot be asked for, or that does not resolve what halts the chain; P0001 the height is below the final one and no
-- operator asked for it.
-- Locks: chain.cursor. The indexer of the chain must not be reading blocks.

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
  select of_chain, 'final_payment_vanished', s.id::text, jsonb_build_object('txid', i.txid, 'payment', s.kind, 'block_height', i.block_height)
  from chain.confirmed_tx i cross join lateral app.payments_of(i.chain, i.txid, i.conflict_key) p join app.outgoing_payment s on s.id = p
  where i.chain = of_chain and i.block_height > to_height and s.status = 'final' and app.is_booked(s, i.txid)
  on conflict do nothing;
  update app.outgoing_payment s set next_step_at = clock_timestamp() -- it is broadcast again
  from chain.confirmed_tx i cross join lateral app.payments_of(i.chain, i.txid, i.conflict_key) p
  where i.chain = of_chain and i.block_height > to_height and s.id = p and s.txid = i.txid and s.status = 'final';
  delete from chain.confirmed_tx i where i.chain = of_chain and i.block_height > to_height;
  perform chain.take_back_lapses(of_chain, to_height);
  delete from chain.block b where b.chain = of_chain and b.height > to_height;
  insert into chain.block (id, chain, height, hash, parent_hash, time)
  values (of_chain || ':' || to_height, of_chain, to_height, to_hash, '', 'epoch') -- unknown: nothing is past its end by it
  on conflict (id) do update set hash = excluded.hash;
  execute format('delete from %I.hot_block', 'squid_' || lower(of_chain));
  if to_height < at.final_height then
    update chain.cursor c set final_height = to_height, final_hash = to_hash, final_moved_at = clock_timestamp() where c.chain = of_chain;
  end if;
  update app.incident i set resolved_at = clock_timestamp(), resolution = 'rewound'
  where i.chain = of_chain and i.kind = 'fork_below_final' and i.resolved_at is null and at.rewind_to is not null;
  update chain.cursor c set rewind_to = null where c.chain = of_chain;
  update chain.cursor c set followed_from = least(c.followed_from, to_height + 1) where c.chain = of_chain;
  perform chain.go_on(of_chain);
  execute format('update %I.status set height = $1, hash = $2, nonce = nonce + 1 where id = 0', 'squid_' || lower(of_chain)) using to_height, to_hash;
end $$;
comment on function chain.rewind is 'Deletes the blocks above a height, so that they are read again. Below the final height only if an operator asked for it.';
grant execute on function chain.rewind to sluice_indexer;

create or replace function app.request_rewind(of_chain text, to_height int) returns void
language plpgsql security definer set search_path = pg_catalog as $$
begin
  perform app.refuse_decision(of_chain, 'rewind');
  update chain.cursor c set rewind_to = to_height where c.chain = of_chain and to_height >= 0 and to_height <= c.head_height;
  if not found then raise exception '% is not followed, or its head is below %', of_chain, to_height using errcode = 'P0003'; end if;
end $$;
comment on function app.request_rewind is 'An operator''s decision that a chain is read again from a height; its indexer carries it out.';
