-- The endpoints with a delivery that is due now, for the worker, each second.
--
-- It walks the index of pending deliveries from one endpoint to the next, so endpoints without deliveries cost nothing, however many weeks (tables) of
-- deliveries there are. The inner LIMITs keep the planner on the indexes, however wrong its estimates are; OFFSET keeps it from reading all endpoints.
-- Its plan is kept, and by index: planning it took ten times as long, and a plan from when the tables were empty would read all of them.
create or replace function app.due_endpoints() returns setof uuid
language plpgsql stable rows 10 set search_path = pg_catalog set enable_seqscan = off as $$
begin
  return query
    with recursive waiting as (
      (select d.endpoint_id from app.delivery d where d.status = 'pending' order by d.endpoint_id limit 1)
      union all
      select (select d.endpoint_id from app.delivery d where d.status = 'pending' and d.endpoint_id > w.endpoint_id order by d.endpoint_id limit 1)
      from waiting w where w.endpoint_id is not null
    )
    select w.id from waiting
    cross join lateral (select * from app.webhook_endpoint w where w.id = waiting.endpoint_id offset 0) w
    cross join lateral (
      select from app.delivery d
      cross join lateral (select from app.event e where e.id = d.event_id and e.sequence is not null limit 1) sequenced
      where d.endpoint_id = w.id and d.status = 'pending' and d.next_attempt_at <= now()
      order by d.next_attempt_at limit 1
    ) first_due
    where w.disabled_at is null and w.deleted_at is null;
end $$;
comment on function app.due_endpoints is 'The ids of the endpoints that are neither disabled nor deleted, and have a delivery that is due now.';
grant execute on function app.due_endpoints to sluice_jobs;
