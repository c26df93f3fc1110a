-- Moves the final height of a chain. The indexer calls it in a transaction of its own when the node names a final
-- block. What became final by it is finalised at COMMIT (chain.derive).
--
-- Finality takes the hash: a height becomes final only if the block with this hash is on our chain. If it is not, the
-- node may be ahead of us, behind us, or on another fork, and nothing is changed. Nothing is changed while the chain is
-- halted, either. Safe to call again, and from two processes. Locks: chain.cursor.

create or replace function chain.finalise(of_chain text, height int, hash text) returns boolean
language plpgsql security definer set search_path = pg_catalog as $$
declare at chain.cursor;
begin
  select * into at from chain.cursor c where c.chain = of_chain for update;
  if at.final_height >= height then return at.final_height > height or at.final_hash = hash; end if;
  if at.halted_at is not null then return false; end if;
  perform from chain.block b where b.chain = of_chain and b.height = $2 and b.hash = $3;
  if not found then return false; end if;
  update chain.cursor c set final_height = $2, final_hash = $3, final_moved_at = clock_timestamp() where c.chain = of_chain;
  insert into chain.daily_blocks as d (chain, day, followed, replaced, final_height)
  values (of_chain, (app.posting_time() at time zone 'UTC')::date, 0, 0, $2) on conflict (chain, day) do update set final_height = excluded.final_height;
  delete from chain.block b where b.chain = of_chain and b.height < $2 - 1024; -- the rest is for finding a fork below the final block
  insert into chain.touched_chain values (pg_current_xact_id(), of_chain) on conflict do nothing;
  return true;
end $$;
comment on function chain.finalise is 'Moves finality to a block that the node calls final. True if the final height is at this block now, or was above it already (its hash is then not compared); false if nothing could be changed.';
grant execute on function chain.finalise to sluice_indexer;
