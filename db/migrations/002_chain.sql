-- Chain truth, and where each chain stands.
--
-- Writer, an indexer through typeorm-store, in one transaction per batch:
--   1. rows of the blocks that left the chain are deleted (the store's rollback),
--   2. rows of the new blocks are inserted into chain.block and chain.transfer,
--   3. the store's status row is updated; its trigger notes that the chain was touched,
--   4. at COMMIT chain.settle (003_deposits.sql) turns the net change into deposits, events and jobs.
-- Beside it, on a connection of its own, the indexer moves finality by chain.finalize.
--
-- Readers: chain.cursor says where a chain stands. Nobody but the indexer and the functions here writes to this schema.
--
-- Invariants: the blocks from the final one to the head form one linked chain; the final height never falls, except by
-- chain.rewind, which an operator asked for; whoever moves finality or settles holds the row lock of chain.cursor.

create table chain.transfer (
  id text primary key check (id = chain || ':' || txid || ':' || output_index),
  chain text not null,
  txid text not null,
  output_index int not null,
  block_height int not null,
  block_hash text not null,
  block_time timestamptz not null,
  token text not null,
  amount numeric(78, 0) not null check (amount > 0),
  sender text not null,
  recipient text not null
);
create index transfer_block on chain.transfer (chain, block_height);

comment on table chain.transfer is 'Value that reached an address of ours, in a block that is on the chain now. A row disappears when its block leaves the chain.';
comment on column chain.transfer.id is '<chain>:<txid>:<output_index>.';
comment on column chain.transfer.chain is 'Chain code, such as ETH.';
comment on column chain.transfer.txid is 'Transaction id.';
comment on column chain.transfer.output_index is 'Position inside the transaction. EVM chains: 0 the transaction''s own value, 1 + n the n-th log, 1000000 + n the n-th internal call.';
comment on column chain.transfer.block_height is 'Height of the block that holds the transaction.';
comment on column chain.transfer.block_hash is 'Hash of that block.';
comment on column chain.transfer.block_time is 'Timestamp of that block.';
comment on column chain.transfer.token is 'Token code, such as USDC; the contract address where the token is not one that Sluice supports.';
comment on column chain.transfer.amount is 'Amount in the smallest unit of the token (wei, for ether).';
comment on column chain.transfer.sender is 'Address that the value came from.';
comment on column chain.transfer.recipient is 'Our address that the value went to.';

create table chain.block (
  id text primary key check (id = chain || ':' || height),
  chain text not null,
  height int not null,
  hash text not null,
  parent_hash text not null,
  time timestamptz not null,
  unique (chain, height)
);
comment on table chain.block is 'Blocks of each chain from the head down to the final one, and some below it. Finality compares these hashes with the node''s.';
comment on column chain.block.id is '<chain>:<height>.';
comment on column chain.block.chain is 'Chain code.';
comment on column chain.block.height is 'Height of the block.';
comment on column chain.block.hash is 'Hash of the block.';
comment on column chain.block.parent_hash is 'Hash of the block one below; equals its hash here.';
comment on column chain.block.time is 'Timestamp of the block.';

create table chain.cursor (
  chain text primary key,
  network text not null,
  head_height int not null,
  head_hash text not null,
  head_time timestamptz not null,
  head_moved_at timestamptz not null default clock_timestamp(),
  final_height int not null,
  final_hash text not null,
  final_moved_at timestamptz not null default clock_timestamp(),
  last_reorg_at timestamptz,
  last_reorg_depth int,
  halted_at timestamptz,
  rewind_to int,
  tracer text
);
comment on table chain.cursor is 'Where each chain stands: the newest indexed block and the newest final one.';
comment on column chain.cursor.chain is 'Chain code.';
comment on column chain.cursor.network is 'The network that is followed, as a CAIP-2 id such as eip155:11155111. A node of another network is refused.';
comment on column chain.cursor.head_height is 'Height of the newest indexed block.';
comment on column chain.cursor.head_hash is 'Hash of the newest indexed block.';
comment on column chain.cursor.head_time is 'Timestamp of the newest indexed block.';
comment on column chain.cursor.head_moved_at is 'When the newest block was indexed.';
comment on column chain.cursor.final_height is 'Everything at or below this height is final.';
comment on column chain.cursor.final_hash is 'Hash of the block at the final height, as the node named it.';
comment on column chain.cursor.final_moved_at is 'When the final height last moved.';
comment on column chain.cursor.last_reorg_at is 'When blocks last left the chain; null if that never happened.';
comment on column chain.cursor.last_reorg_depth is 'How many blocks left the chain then.';
comment on column chain.cursor.halted_at is 'Set while the chain stands still for an operator, after a reorganisation below the final block.';
comment on column chain.cursor.tracer is 'Which of the node''s tracers numbers internal calls on this chain (debug or trace); never changes once it is set.';
comment on column chain.cursor.rewind_to is 'Height that an operator asked the indexer to go back to; cleared when that is done.';

-- What a transaction touched, until it settles. Unlogged: rows live for one transaction only.
create unlogged table chain.touched (txn xid8 not null, chain text not null, id text not null);
create index touched_txn on chain.touched (txn);
comment on table chain.touched is 'Transfers that a running transaction inserted, changed or deleted. Empty between transactions.';
comment on column chain.touched.txn is 'The transaction.';
comment on column chain.touched.chain is 'Chain code.';
comment on column chain.touched.id is 'Id of the transfer.';

create unlogged table chain.touched_chain (txn xid8 not null, chain text not null, primary key (txn, chain));
comment on table chain.touched_chain is 'Chains that a running transaction touched; each row makes one settlement at COMMIT. Empty between transactions.';
comment on column chain.touched_chain.txn is 'The transaction.';
comment on column chain.touched_chain.chain is 'Chain code.';

create unlogged table chain.dropped_block (txn xid8 not null, chain text not null, height int not null, hash text not null);
create index dropped_block_txn on chain.dropped_block (txn);
comment on table chain.dropped_block is 'Blocks that a running transaction deleted; those that it does not insert again left the chain. Empty between transactions.';
comment on column chain.dropped_block.txn is 'The transaction.';
comment on column chain.dropped_block.chain is 'Chain code.';
comment on column chain.dropped_block.height is 'Height of the block.';
comment on column chain.dropped_block.hash is 'Hash of the block.';

create function chain.note_blocks() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
begin
  insert into chain.dropped_block select pg_current_xact_id(), chain, height, hash from changed;
  return null;
end $$;
create trigger note_delete after delete on chain.block
  referencing old table as changed for each statement execute function chain.note_blocks();

create function chain.note_transfers() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
begin
  insert into chain.touched select pg_current_xact_id(), chain, id from changed;
  insert into chain.touched_chain select distinct pg_current_xact_id(), chain from changed on conflict do nothing;
  return null;
end $$;
create trigger note_insert after insert on chain.transfer
  referencing new table as changed for each statement execute function chain.note_transfers();
create trigger note_update after update on chain.transfer
  referencing new table as changed for each statement execute function chain.note_transfers();
create trigger note_delete after delete on chain.transfer
  referencing old table as changed for each statement execute function chain.note_transfers();

-- On the store's status row, which every transaction of the store updates last. Argument: the chain.
create function chain.note_status() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
begin
  insert into chain.touched_chain values (pg_current_xact_id(), tg_argv[0]) on conflict do nothing;
  return null;
end $$;

-- Makes the state tables that typeorm-store wants for a chain. Made here, and not by the store, so that the indexer's role
-- needs no right to create anything. Safe to run again.
create function chain.install(of_chain text) returns void
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

-- Starts following a chain above a block that the node called final. The first block to be indexed must link to it.
-- Does nothing for a chain that is followed already.
create function chain.anchor(of_chain text, network text, height int, hash text, time_of_block timestamptz) returns void
language plpgsql security definer set search_path = pg_catalog as $$
begin
  insert into chain.cursor (chain, network, head_height, head_hash, head_time, final_height, final_hash)
  values (of_chain, network, height, hash, time_of_block, height, hash) on conflict do nothing;
  if not found then return; end if;
  insert into chain.block (id, chain, height, hash, parent_hash, time)
  values (of_chain || ':' || height, of_chain, height, hash, '', time_of_block);
  execute format('insert into %I.status (id, height, hash) values (0, $1, $2)', 'squid_' || lower(of_chain)) using height, hash;
end $$;
comment on function chain.anchor is 'Starts following a chain above a block that its node called final. Does nothing for a chain that is followed already.';

-- The tracers of a node may number the calls inside a transaction differently, and the number is part of a deposit's identity: a chain
-- that was read with one of them is never read with the other.
create function chain.pin_tracer(of_chain text, tracer text) returns void
language plpgsql security definer set search_path = pg_catalog as $$
declare pinned text;
begin
  update chain.cursor c set tracer = coalesce(c.tracer, $2) where c.chain = of_chain returning c.tracer into pinned;
  if pinned <> $2 then
    raise exception '% was read with the tracer "%" and cannot go on with "%": set %_TRACES=%', of_chain, pinned, $2, of_chain, pinned
      using errcode = 'P0003';
  end if;
end $$;
comment on function chain.pin_tracer is 'Records which tracer numbers the internal calls of a chain, and refuses another one afterwards.';

-- Moves finality to a block that the node calls final. True if that block is final here now. False, and nothing changed, if
-- the block with this hash is not on our chain: the node may be ahead of us, behind us, or on another fork.
create function chain.finalize(of_chain text, height int, hash text) returns boolean
language plpgsql security definer set search_path = pg_catalog as $$
declare at chain.cursor;
begin
  select * into at from chain.cursor c where c.chain = of_chain for update;
  if at.final_height >= height then return at.final_height > height or at.final_hash = hash; end if;
  if at.halted_at is not null then return false; end if;
  perform from chain.block b where b.chain = of_chain and b.height = $2 and b.hash = $3;
  if not found then return false; end if;
  update chain.cursor c set final_height = $2, final_hash = $3, final_moved_at = clock_timestamp() where c.chain = of_chain;
  delete from chain.block b where b.chain = of_chain and b.height < $2 - 1024; -- the rest serves to find a fork below final
  insert into chain.touched_chain values (pg_current_xact_id(), of_chain) on conflict do nothing;
  return true;
end $$;
comment on function chain.finalize is 'Moves finality to a block that the node calls final; true if that block is final here now.';

-- Back to a lower block, with the indexer not running: everything above it is forgotten and will be read again. Above the final
-- height this is how the indexer follows a fork that the store cannot undo. Below it, only an operator asks for it (rewind_to is
-- set): final deposits stay, an incident opens for each, and closes when it is read again in the same block.
create function chain.rewind(of_chain text, to_height int, to_hash text) returns void
language plpgsql security definer set search_path = pg_catalog as $$
declare at chain.cursor;
begin
  select * into strict at from chain.cursor c where c.chain = of_chain for update;
  if to_height < at.final_height and at.rewind_to is distinct from to_height then
    raise exception '%: % is below the final height %, and no operator asked for it (sluice chain rewind)', of_chain, to_height, at.final_height;
  end if;
  delete from chain.transfer t where t.chain = of_chain and t.block_height > to_height;
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
comment on function chain.rewind is 'Forgets the blocks above a height, so that they are read again. Below the final height only where an operator asked for it.';

grant select, insert, update, delete on chain.transfer, chain.block to sluice_indexer;
grant select on chain.cursor to sluice_indexer, sluice_api, sluice_jobs;
grant execute on function chain.anchor, chain.pin_tracer, chain.finalize, chain.rewind to sluice_indexer;
