-- A delivery to a disabled or deleted endpoint does not stay pending: it fails, so that a redelivery of failed ones sends it (redeliver.sql).
--
-- When a merchant disables or deletes an endpoint, its pending deliveries fail in that transaction. The worker fails the deliveries that an event
-- adds at the same moment, and those of an endpoint that is disabled automatically: a trigger wakes it, and it polls each minute anyway.
-- Locks: deliveries; the worker skips those that another transaction is changing.

-- The ids are passed as values, so that the planner opens only the weeks that they are in.
create or replace function app.fail_undeliverable(batch int default 2000) returns int
language plpgsql security definer set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
declare
  ids uuid[];
  failed int;
begin
  select array_agg(d.id) into ids from (
    select d.id from app.webhook_endpoint w
    cross join lateral (
      select id from app.delivery where endpoint_id = w.id and status = 'pending' limit batch for update skip locked
    ) d
    where w.disabled_at is not null or w.deleted_at is not null
    limit batch
  ) d;
  update app.delivery d set status = 'failed', next_attempt_at = null, finished_at = clock_timestamp() where d.id = any(ids);
  get diagnostics failed = row_count;
  return failed;
end $$;
comment on function app.fail_undeliverable is 'Fails pending deliveries of endpoints that are disabled or deleted, at most batch of them; returns how many. Safe to run at any time and in several places.';
grant execute on function app.fail_undeliverable to sluice_jobs;

create or replace function app.announce_disabled() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
begin
  perform app.enqueue('fail_undeliverable');
  return null;
end $$;
comment on function app.announce_disabled is 'Trigger: wakes the worker to fail what is pending, when an endpoint was disabled or deleted.';
create or replace trigger announce_disabled after update on app.webhook_endpoint for each row
  when ((old.disabled_at is null and new.disabled_at is not null) or (old.deleted_at is null and new.deleted_at is not null))
  execute function app.announce_disabled();

create or replace function app.give_up_deliveries(endpoint uuid) returns void
language sql set search_path = pg_catalog as $$
  update app.delivery set status = 'failed', next_attempt_at = null, finished_at = clock_timestamp()
  where endpoint_id = endpoint and status = 'pending'
$$;
comment on function app.give_up_deliveries is 'Fails all pending deliveries of an endpoint, whose row the caller has locked.';
