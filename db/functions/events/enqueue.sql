-- Jobs for the worker, added by SQL in the transaction that makes them necessary.
--
-- A job is a wake-up call, not the state: the work to do stands in rows, each task may run twice, and the worker adds again what was dropped
-- (app.due_job; for deliveries it polls by itself). A job that every writer adds has no key, because with one all writers would wait for each other
-- at its row.

-- Only their owner can use the tables of graphile_worker; it owns this function, too.
create or replace function app.enqueue(task text, payload json default '{}', key text default null) returns void
language plpgsql security definer set search_path = pg_catalog as $$
begin
  perform graphile_worker.add_job(task, payload, job_key := key);
end $$;
comment on function app.enqueue is 'Adds a job for graphile-worker, and replaces a waiting one with the same key; it becomes visible when the calling transaction commits.';
grant execute on function app.enqueue to sluice_jobs;
