-- After a rewind, transfers of pending deposits that are gone are awaited for a while (chain.awaited), because the next transactions are expected to
-- bring them again. If they come again, nothing changes for the merchant. Otherwise their deposits are reorged when the chain is as high as it was
-- before, or when its final height reaches their block, or when chain.longest_wait() has passed.
--
-- chain.rewind puts them there (chain.await_transfers). At every COMMIT that touches the chain while some are awaited, chain.derive calls
-- chain.release_due before it derives, which gives back those whose time is over. Where a chain stands still, the jobs worker triggers that
-- (chain.release_overdue).
-- Locks: chain.cursor.

-- An unconfirmed transfer is not gone, so it is derived at once.
create or replace function chain.await_transfers(of_chain text, head_height int) returns void
language plpgsql set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
declare moment timestamptz := clock_timestamp();
begin
  with pending as materialized (
    select k.id, d.block_height
    from (select distinct t.id from chain.touched t where t.txn = pg_current_xact_id() and t.chain = of_chain) k
    cross join lateral (
      select * from app.deposit d where d.txid = split_part(k.id, ':', 2) and d.output_index = split_part(k.id, ':', 3)::int and d.chain = of_chain offset 0
    ) d
    where d.status = 'pending' and not exists (select from chain.unconfirmed u where u.id = k.id)
  ), untouched as (
    delete from chain.touched t using pending p where t.txn = pg_current_xact_id() and t.chain = of_chain and t.id = p.id
  )
  insert into chain.awaited (id, chain, block_height, until_height, since)
  select id, of_chain, block_height, head_height, moment from pending
  on conflict (id) do update -- it came back meanwhile
    set block_height = excluded.block_height, until_height = excluded.until_height, since = excluded.since;
end $$;
comment on function chain.await_transfers is 'Takes the transfers of pending deposits out of what the calling transaction touched, and awaits them until the chain is as high as head_height.';

create or replace function chain.release_due(of_chain text) returns void
language plpgsql set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
declare
  at chain.cursor;
  head_height int;
  due text[];
begin
  select * into at from chain.cursor c where c.chain = of_chain for update;
  select max(b.height) into head_height from chain.block b where b.chain = of_chain;
  with gone as (
    delete from chain.awaited w
    where w.chain = of_chain
      and (w.until_height <= head_height or w.block_height <= at.final_height or w.since <= clock_timestamp() - chain.longest_wait())
    returning w.id, w.since
  ), lost as ( -- they belong to the reorganisation in which they were taken away
    select g.since, count(*) as deposits from gone g
    cross join lateral (
      select * from app.deposit d where d.txid = split_part(g.id, ':', 2) and d.output_index = split_part(g.id, ':', 3)::int and d.chain = of_chain offset 0
    ) d
    where d.status = 'pending' and d.credited
      and not exists (select from chain.transfer t where t.id = g.id and t.recipient = d.address and t.token = d.token)
      and not exists (select from chain.unconfirmed u where u.id = g.id)
    group by g.since
  ), counted as (
    update chain.reorganisation r set deposits_reorged = r.deposits_reorged + l.deposits
    from lost l
    where r.id = (select min(x.id) from chain.reorganisation x where x.chain = of_chain and x.happened_at >= l.since)
  )
  select array_agg(g.id) into due from gone g;
  perform chain.touch(of_chain, due);
end $$;
comment on function chain.release_due is 'Ends the waiting for transfers whose time is over, and adds the deposits that are lost by it to their reorganisation.';

-- Anybody may run it at any time, and twice: it only makes COMMIT check.
create or replace function chain.release_overdue() returns void
language sql security definer set search_path = pg_catalog as $$
  insert into chain.touched_chain
  select distinct pg_current_xact_id(), w.chain from chain.awaited w where w.since <= clock_timestamp() - chain.longest_wait()
  on conflict do nothing
$$;
comment on function chain.release_overdue is 'Ends the waiting for transfers that were awaited for too long, also on chains that stand still.';
grant execute on function chain.release_overdue to sluice_jobs;

create or replace function chain.longest_wait() returns interval
language sql immutable parallel safe return interval '15 minutes';
comment on function chain.longest_wait is 'The longest time for which a transfer is awaited.';
