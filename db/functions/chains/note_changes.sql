-- Notes what a transaction touches, for the work at COMMIT (chain.derive). Nothing is decided here: a block may be deleted and
-- inserted again in the same transaction, and only the difference at the end counts.
--
-- Rows that are deleted or changed by hand, by a rewind or by a reindex are noted like those of the indexer. A note of a chain (chain.touched_chain)
-- makes chain.derive run once for it, however many notes there are.

create or replace function chain.note_transfers() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
begin
  insert into chain.touched select pg_current_xact_id(), chain, id from changed;
  insert into chain.touched_chain select distinct pg_current_xact_id(), chain from changed on conflict do nothing;
  return null;
end $$;
comment on function chain.note_transfers is 'Trigger: notes the transfers that a statement inserted, changed or deleted, and their chains.';
create or replace trigger note_insert after insert on chain.transfer
  referencing new table as changed for each statement execute function chain.note_transfers();
create or replace trigger note_update after update on chain.transfer
  referencing new table as changed for each statement execute function chain.note_transfers();
create or replace trigger note_delete after delete on chain.transfer
  referencing old table as changed for each statement execute function chain.note_transfers();

create or replace function chain.note_blocks() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
begin
  insert into chain.dropped_block select pg_current_xact_id(), chain, height, hash from changed;
  return null;
end $$;
comment on function chain.note_blocks is 'Trigger: notes the blocks that a statement deleted. A block that is not there again at COMMIT left the chain.';
create or replace trigger note_delete after delete on chain.block
  referencing old table as changed for each statement execute function chain.note_blocks();

create or replace function chain.touch(of_chain text, ids text[]) returns void
language plpgsql set search_path = pg_catalog as $$
begin
  if cardinality(ids) is null then return; end if;
  insert into chain.touched select pg_current_xact_id(), of_chain, unnest(ids);
  insert into chain.touched_chain values (pg_current_xact_id(), of_chain) on conflict do nothing;
end $$;
comment on function chain.touch is 'Makes chain.derive check these transfers of a chain when the calling transaction commits; null for none.';
