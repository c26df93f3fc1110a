-- Jobs of graphile-worker: frees those of dead workers, and reports how long due ones have waited.
--
-- A pool of workers holds the advisory lock of its id on its liveness connection from before its first job until it ends. A pool without that lock
-- is dead. Safe to run at any time and in several places. The worker calls this each second, so the jobs of a dead one continue within seconds.

-- A worker asks for something on its liveness connection each second. If it has asked for nothing for hung_after, it hangs. Then its connection is
-- cut, which frees its locks here and ends the worker (exit code 70) as soon as it runs again. Runs as sluice_jobs, which owns these tables and
-- connections.
create or replace function app.recover_dead_pools(hung_after interval default '30 seconds') returns int
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
  perform pg_notify('jobs:insert', json_build_object('count', recovered)::text); -- workers poll for jobs only now and then
  return recovered;
end $$;
comment on function app.recover_dead_pools is 'Makes the jobs and queues of dead workers available again; returns how many jobs did.';
grant execute on function app.recover_dead_pools to sluice_jobs;

-- In plpgsql, because its body is not parsed before it runs: graphile-worker makes its tables after this file is applied for the first time.
create or replace function app.oldest_due_jobs() returns table (task text, age_seconds double precision)
language plpgsql stable set search_path = pg_catalog as $$
begin
  return query
    select t.identifier, coalesce(extract(epoch from clock_timestamp() - min(j.run_at)), 0)::double precision
    from graphile_worker._private_tasks t left join graphile_worker._private_jobs j
      on j.task_id = t.id and j.is_available and j.locked_at is null and j.run_at <= clock_timestamp()
    group by t.identifier;
end $$;
comment on function app.oldest_due_jobs is 'For each task, how long its oldest due job has been waiting; 0 if none is due.';

