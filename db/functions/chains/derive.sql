-- Derives everything that follows from a transaction that touched a chain: once for each chain, at its COMMIT, so that a row that only came and went
-- within it changes nothing. It runs for each batch of an indexer, and for everything else that touches a chain: finality, a rewind, a reindex, an
-- operator's decision.
--
-- The order: check that the final block is still on the chain; give back what was awaited for too long (chain.release_due), which adds to what is
-- derived; name tokens that were added (chain.name_tokens), and derive deposits from the touched transfers (chain.derive_deposits); finalise what is
-- final now (chain.finalise_deposits); set the head to the newest block; record a reorganisation, with the deposits that it cost. A chain that is not
-- followed yet is skipped. Awaiting, naming, deriving and finalising are left out if an index shows that nothing is there for them: so it is mostly.
-- Error: SLFRK the final block would leave the chain. Then nothing of the transaction is written; the indexer starts anew, sees the fork, and halts.
-- Locks: chain.cursor, then the locks of the functions that it calls.

create or replace function chain.derive() returns trigger
language plpgsql security definer set search_path = pg_catalog set plan_cache_mode = auto as $$
declare
  at chain.cursor;
  head chain.block;
  reorg_depth int;
  lowest int;
  gone_hashes text[];
  in_doubt uuid[];
  touched bigint;
begin
  select * into at from chain.cursor c where c.chain = new.chain for update;
  if at.chain is not null then
    -- The store would also follow a fork below the final block, as far down as it can undo. An operator must decide about that.
    perform from chain.block b where b.chain = new.chain and b.height = at.final_height and b.hash = at.final_hash;
    if not found then
      raise exception '%: its final block % (%) would leave the chain; nothing was written', new.chain, at.final_height, at.final_hash
        using errcode = 'SLFRK';
    end if;
    with gone as (delete from chain.dropped_block where txn = new.txn and chain = new.chain returning height, hash)
    select count(*), min(g.height), array_agg(g.hash) into reorg_depth, lowest, gone_hashes from gone g
    where g.height > at.final_height and not exists (
      select from chain.block b where b.id = new.chain || ':' || g.height and b.hash = g.hash
    );
    if reorg_depth > 0 then in_doubt := chain.pending_deposits(new.chain, lowest, gone_hashes); end if;
    if exists (select from chain.awaited w where w.chain = new.chain) then perform chain.release_due(new.chain); end if;
    select count(*) into touched from chain.touched x where x.txn = pg_current_xact_id() and x.chain = new.chain;
    if touched > 0 then
      perform chain.plan_for(touched);
      perform chain.name_tokens(new.chain);
      perform chain.derive_deposits(new.chain);
    end if;
    perform chain.finalise_deposits(new.chain, at.final_height);
    select * into head from chain.block b where b.chain = new.chain order by b.height desc limit 1;
    update chain.cursor c set head_height = head.height, head_hash = head.hash, head_time = head.time, head_moved_at = clock_timestamp()
    where c.chain = new.chain and (c.head_height, c.head_hash) is distinct from (head.height, head.hash);
    perform chain.count_blocks(new.chain, head.height - at.head_height + reorg_depth, reorg_depth);
    if reorg_depth > 0 then
      with noted as (
        update chain.cursor c set last_reorg_at = clock_timestamp(), last_reorg_depth = reorg_depth where c.chain = new.chain
        returning c.last_reorg_at
      )
      insert into chain.reorganisation (chain, happened_at, depth, first_height, old_head_hash, new_head_hash, deposits_reorged)
      select new.chain, noted.last_reorg_at, reorg_depth, lowest, case when at.head_hash = any(gone_hashes) then at.head_hash end, head.hash,
        (select count(*) from app.deposit d where d.id = any(in_doubt) and d.status = 'reorged')
      from noted;
    end if;
  end if;
  delete from chain.touched_chain where txn = new.txn and chain = new.chain;
  return null;
end $$;
comment on function chain.derive is 'Trigger, at COMMIT: makes deposits, outgoing payments, balances and events agree with what the transaction did to a chain.';
create constraint trigger derive after insert on chain.touched_chain deferrable initially deferred
  for each row execute function chain.derive();

-- What a few rows need is found by indexes, whatever the tables hold, and planning it takes longer than doing it: such plans are kept. A plan for many
-- rows is made each time: one from when the tables were small was 2 to 10 times slower.
create or replace function chain.plan_for(rows bigint) returns void
language sql set search_path = pg_catalog as $$
  select set_config('plan_cache_mode', case when rows > 50 then 'force_custom_plan' else 'force_generic_plan' end, true)
$$;
comment on function chain.plan_for is 'From here on, plans statements anew at each call if they are about many rows, and else keeps their plans; until chain.derive ends.';

create or replace function chain.count_blocks(of_chain text, more_followed int, more_replaced int) returns void
language sql set search_path = pg_catalog as $$
  insert into chain.daily_blocks as d (chain, day, followed, replaced)
  select of_chain, (clock_timestamp() at time zone 'UTC')::date, greatest(more_followed, 0), more_replaced
  where more_followed > 0 or more_replaced > 0
  on conflict (chain, day) do update set followed = d.followed + excluded.followed, replaced = d.replaced + excluded.replaced
$$;
comment on function chain.count_blocks is 'Counts blocks that were followed today (UTC), and those that they replaced. Fewer than none, or null: the chain goes back, and nothing was followed.';

-- Planned at each call: a plan from when app.deposit was small would read the whole table.
create or replace function chain.pending_deposits(of_chain text, from_height int, hashes text[]) returns uuid[]
language sql stable set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
  select coalesce(array_agg(d.id), '{}') from app.deposit d
  where d.chain = of_chain and d.status = 'pending' and d.block_height >= from_height and d.block_hash = any(hashes) and d.credited
$$;
comment on function chain.pending_deposits is 'The ids of the credited deposits that wait for finality in these blocks.';
