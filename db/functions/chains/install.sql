-- The tables in which typeorm-store keeps an indexer's place on a chain, and the log that undoes its newest blocks: schema squid_<chain>. Every
-- migration run calls this for every chain of the registry. The migration makes them, not the store, so that the indexer's role needs no right to
-- create anything.

create or replace function chain.install(of_chain text) returns void
language plpgsql set search_path = pg_catalog as $$
declare state text := 'squid_' || lower(of_chain);
begin
  if to_regnamespace(state) is not null then return; end if;
  execute format('create schema %I', state);
  execute format('comment on schema %I is %L', state, 'Bookkeeping of the indexer of ' || of_chain || ' (tables of Subsquid''s typeorm-store).');
  execute format('create table %I.status (id int4 primary key, height int4 not null, hash text default ''0x'', nonce int4 default 0)', state);
  execute format('create table %I.hot_block (height int4 primary key, hash text not null)', state);
  execute format('create table %I.hot_change_log (block_height int4 not null references %I.hot_block on delete cascade, '
    'index int4 not null, change jsonb not null, primary key (block_height, index))', state, state);
  execute format('create table %I.template_registry (key text not null, value text not null, type boolean not null, '
    'block_number int not null, height int not null, primary key (key, value, type, block_number, height))', state);
  execute format('create trigger note_status after update on %I.status for each row execute function chain.note_status(%L)', state, of_chain);
  execute format('grant usage on schema %I to sluice_indexer', state);
  execute format('grant select, insert, update, delete on all tables in schema %I to sluice_indexer', state);
end $$;
comment on function chain.install is 'Makes the tables in which an indexer keeps its place on a chain. Safe to run again.';

-- Every transaction of the store updates that row last, so chain.derive runs at the COMMIT of each, also if it has no transfer.
create or replace function chain.note_status() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
begin
  insert into chain.touched_chain values (pg_current_xact_id(), tg_argv[0]) on conflict do nothing;
  return null;
end $$;
comment on function chain.note_status is 'Trigger on the store''s status row (argument: the chain): notes that the chain was touched.';
