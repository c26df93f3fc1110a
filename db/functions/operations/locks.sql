-- By which processes agree who does a thing that one of them may do at a time: follow a chain, hold the keys, send to an endpoint, send a chain's
-- payments, audit. Session locks of PostgreSQL (advisory locks), each in a function that only the role with that work may call: no role may take
-- another lock (tables/014_locks.sql), so none can keep another kind of process from its work.
--
-- Promises: a lock is held until its connection ends, however it ends, or until it is given back. Nothing here waits for another process. What a
-- function of the owner needs for itself (numbering events, allocating deposits) it locks itself, until the end of its transaction.
-- Safe to call again: a lock that a connection holds already is taken once more, and must be given back as often.

create or replace function chain.try_lock(of_chain text) returns boolean
language sql security definer set search_path = pg_catalog as $$
  select pg_try_advisory_lock(hashtextextended('sluice.indexer.' || c.chain, 0)) from app.chain c where c.chain = of_chain
$$;
comment on function chain.try_lock is 'Takes the lock of the indexer that follows a chain; false if another connection has it, null if there is no such chain.';
grant execute on function chain.try_lock to sluice_indexer;

create or replace function custody.try_lock() returns boolean
language sql security definer set search_path = pg_catalog as $$
  select pg_try_advisory_lock(hashtextextended('sluice.custody', 0))
$$;
comment on function custody.try_lock is 'Takes the lock of the custody that signs; false if another connection has it.';
grant execute on function custody.try_lock to sluice_custody;

-- graphile-worker chooses the ids of its pools, at random.
create or replace function app.lock_worker(of_pool text) returns boolean
language sql security definer set search_path = pg_catalog as $$
  select case when of_pool ~ '^(ot)?pool-[0-9a-f]{18}$' then pg_try_advisory_lock(hashtextextended(of_pool, 0)) end
$$;
comment on function app.lock_worker is 'Takes the lock that shows that a pool of workers lives (app.recover_dead_pools); false if another connection has it, null if it is no id of a pool.';
grant execute on function app.lock_worker to sluice_jobs;

create or replace function app.try_lock_endpoint(of_endpoint uuid) returns boolean
language sql security definer set search_path = pg_catalog as $$
  select pg_try_advisory_lock(hashtextextended('webhook_endpoint:' || of_endpoint, 0))
$$;
comment on function app.try_lock_endpoint is 'Takes the lock of the worker that sends to a webhook endpoint; false if another connection has it.';
grant execute on function app.try_lock_endpoint to sluice_jobs;

create or replace function app.unlock_endpoint(of_endpoint uuid) returns boolean
language sql security definer set search_path = pg_catalog as $$
  select pg_advisory_unlock(hashtextextended('webhook_endpoint:' || of_endpoint, 0))
$$;
comment on function app.unlock_endpoint is 'Gives the lock of a webhook endpoint back; false if this connection does not have it.';
grant execute on function app.unlock_endpoint to sluice_jobs;

create or replace function app.try_lock_sending(of_chain text) returns boolean
language sql security definer set search_path = pg_catalog as $$
  select pg_try_advisory_lock(hashtextextended('send_transactions:' || of_chain, 0))
$$;
comment on function app.try_lock_sending is 'Takes the lock of the worker that has payments of a chain signed, and sends them; false if another connection has it.';
grant execute on function app.try_lock_sending to sluice_jobs;

create or replace function app.unlock_sending(of_chain text) returns boolean
language sql security definer set search_path = pg_catalog as $$
  select pg_advisory_unlock(hashtextextended('send_transactions:' || of_chain, 0))
$$;
comment on function app.unlock_sending is 'Gives the lock of sending a chain''s payments back; false if this connection does not have it.';
grant execute on function app.unlock_sending to sluice_jobs;

create or replace function app.try_lock_audit() returns boolean
language sql security definer set search_path = pg_catalog as $$
  select pg_try_advisory_lock(hashtextextended('sluice.audit', 0))
$$;
comment on function app.try_lock_audit is 'Takes the lock of the worker that audits; false if another connection has it.';
grant execute on function app.try_lock_audit to sluice_jobs;
