-- Blocks whose transactions have not the root in their header, whichever node is asked, although all else agrees (chain.unproven_block). They are read: a
-- node's form of a transaction may lose what the root covers. The indexer notes each before it is written. One incident for the chain counts them.

create or replace function chain.note_unproven_block(of_chain text, of_height int, of_hash text) returns void
language plpgsql security definer set search_path = pg_catalog as $$
declare
  place jsonb := jsonb_build_object('height', of_height, 'hash', of_hash);
begin
  insert into chain.unproven_block (chain, hash, height) values (of_chain, of_hash, of_height) on conflict do nothing;
  if not found then return; end if;
  insert into app.incident as i (chain, kind, subject, details)
  values (null, 'unproven_block', of_chain, jsonb_build_object('count', 1, 'first', place, 'newest', place)) -- without a chain: payouts go on
  on conflict (subject, kind) where resolved_at is null
  do update set details = i.details || jsonb_build_object('count', (i.details ->> 'count')::int + 1, 'newest', place);
end $$;
comment on function chain.note_unproven_block is 'Notes a block whose transactions have not the root in its header, once. The incident of the chain counts it.';
grant execute on function chain.note_unproven_block to sluice_indexer;
