-- What the jobs worker does in SQL: recovery of dead workers, and the results of webhook attempts.
--
-- Writer: the jobs worker (sluice_jobs), through these functions. How an endpoint's deliveries are claimed: the worker whose liveness
-- connection holds the advisory lock hashtextextended('webhook_endpoint:' || id, 0) sends them, nobody else does, and the lock is gone
-- the moment that worker dies. So a delivery that is under way needs no mark in its row.
--
-- Invariants: an attempt moves its delivery on only if nobody else did since it was read (attempts is its version); a delivery of
-- an endpoint that is disabled or deleted does not stay pending; an endpoint is disabled by itself after a 410, and after a failure more
-- than five days after the first one since its last success.

-- Jobs and queues that were locked by workers that no longer exist become available again. Returns how many jobs did.
-- A pool of workers holds the advisory lock of its id on its liveness connection from before its first job until it ends. A worker that
-- has asked for nothing on that connection for `hung_after`, though it does so each second, hangs: its connection is cut, which frees its
-- locks here and ends it (exit code 70) as soon as it goes on. Runs as sluice_jobs, whose tables and connections these are.
create function app.recover_dead_pools(hung_after interval default '30 seconds') returns int
language plpgsql set search_path = pg_catalog as $$
declare
  dead text[];
  recovered int;
begin
  perform pg_terminate_backend(pid) from pg_stat_activity
  where application_name = 'sluice-jobs-liveness' and datname = current_database() and usename = current_user
    and pid <> pg_backend_pid() and state_change < clock_timestamp() - hung_after;

  select array_agg(pool) into dead from (
    select locked_by as pool from graphile_worker._private_jobs where locked_by is not null
    union
    select locked_by from graphile_worker._private_job_queues where locked_by is not null
  ) locking
  where not exists (
    select from pg_locks l
    where l.locktype = 'advisory' and l.granted and l.objsubid = 1
      and l.database = (select oid from pg_database where datname = current_database())
      and ((l.classid::bigint << 32) | l.objid::bigint) = hashtextextended(locking.pool, 0)
  );
  if dead is null then return 0; end if;
  select count(*) into recovered from graphile_worker._private_jobs where locked_by = any(dead);
  perform graphile_worker.force_unlock_workers(dead);
  return recovered;
end $$;
comment on function app.recover_dead_pools is 'Makes the jobs of dead workers available again. Safe to run at any time and in several places.';

-- Stores attempts of one endpoint, in the order in which they ended. The arrays are parallel: numbers counts the attempts of the
-- delivery's present schedule, this one included; ages_ms is how long ago it began; an error of null is a success; waits_ms is the
-- time until the next attempt, null when there is none. Returns why the endpoint was disabled by this, or null.
create function app.record_attempts(of_endpoint uuid, deliveries uuid[], numbers int[], ages_ms int[], durations_ms int[],
  response_statuses int[], errors text[], waits_ms bigint[]) returns text
language plpgsql security definer set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
declare
  at constant timestamptz := clock_timestamp();
  has_success boolean;
  first_failure timestamptz;
  is_gone boolean;
  reason text;
begin
  perform from app.webhook_endpoint w where w.id = of_endpoint for no key update; -- before its deliveries, as everybody locks them
  with result as materialized (
    select *, at - age_ms * interval '1 millisecond' as attempted_at
    from unnest(deliveries, numbers, ages_ms, durations_ms, response_statuses, errors, waits_ms) with ordinality
      as r (delivery_id, number, age_ms, duration_ms, response_status, error, wait_ms, n)
  ), recorded as (
    insert into app.delivery_attempt (delivery_id, attempted_at, duration_ms, response_status, error)
    select delivery_id, attempted_at, duration_ms, response_status, error from result order by n
  ), moved as (
    update app.delivery d set
      attempts = r.number,
      status = case when r.error is null then 'delivered' when r.wait_ms is null then 'failed' else 'pending' end,
      next_attempt_at = case when r.error is not null then at + r.wait_ms * interval '1 millisecond' end,
      finished_at = case when r.error is null or r.wait_ms is null then at end
    from result r where d.id = r.delivery_id and d.status = 'pending' and d.attempts = r.number - 1
  ), last_success as (
    select coalesce(max(n), 0) as n from result where error is null
  )
  select s.n > 0, min(r.attempted_at) filter (where r.n > s.n), bool_or(r.response_status is not distinct from 410)
  into has_success, first_failure, is_gone
  from result r cross join last_success s group by s.n;

  update app.webhook_endpoint w
  set failing_since = case when has_success then first_failure else coalesce(w.failing_since, first_failure) end
  where w.id = of_endpoint and w.failing_since is distinct from
    case when has_success then first_failure else coalesce(w.failing_since, first_failure) end;

  update app.webhook_endpoint w
  set disabled_at = at, disabled_reason = case when is_gone then 'gone' else 'failing' end, failing_since = null
  where w.id = of_endpoint and w.disabled_at is null
    and (is_gone or (first_failure is not null and w.failing_since < at - interval '5 days'))
  returning w.disabled_reason into reason;
  return reason;
end $$;
comment on function app.record_attempts is 'Stores the results of webhook attempts and, where they say so, disables the endpoint.';

-- Pending deliveries of endpoints that are disabled or deleted become failed, so that a redelivery of failed ones sends them. Returns how
-- many did.
create function app.fail_undeliverable(batch int default 2000) returns int
language plpgsql security definer set search_path = pg_catalog as $$
declare failed int;
begin
  with undeliverable as (
    select d.id from app.webhook_endpoint w
    cross join lateral (
      select id from app.delivery where endpoint_id = w.id and status = 'pending' limit batch for update skip locked
    ) d
    where w.disabled_at is not null or w.deleted_at is not null
    limit batch
  )
  update app.delivery d set status = 'failed', next_attempt_at = null, finished_at = clock_timestamp()
  from undeliverable u where d.id = u.id;
  get diagnostics failed = row_count;
  return failed;
end $$;
comment on function app.fail_undeliverable is 'Fails pending deliveries of endpoints that are disabled or deleted. Safe to run at any time and in several places.';

create function app.announce_disabled() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
begin
  perform app.enqueue('fail_undeliverable');
  return null;
end $$;
create trigger announce_disabled after update on app.webhook_endpoint for each row
  when ((old.disabled_at is null and new.disabled_at is not null) or (old.deleted_at is null and new.deleted_at is not null))
  execute function app.announce_disabled();

grant execute on function app.recover_dead_pools, app.record_attempts, app.fail_undeliverable to sluice_jobs;
