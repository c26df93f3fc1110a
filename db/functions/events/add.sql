-- Adds an event for a merchant, its deliveries to the endpoints that subscribed to its type, and the job that sends them, in the transaction that changes
-- what it is about. The job only wakes the pump, so nothing is lost if the job is lost.
--
-- Deliveries to a disabled endpoint are failed from the start, so a redelivery of failed ones sends them. Locks: none.

create or replace function app.add_event(event uuid, of_merchant uuid, of_type text, subject uuid, of_version int, at timestamptz, body json) returns void
language plpgsql set search_path = pg_catalog as $$
begin
  insert into app.event (id, merchant_id, type, subject_id, version, created_at, payload) values (event, of_merchant, of_type, subject, of_version, at, body);
  insert into app.delivery (event_id, endpoint_id, status, next_attempt_at, finished_at)
  select event, w.id, case when w.disabled_at is null then 'pending' else 'failed' end,
    case when w.disabled_at is null then at end, case when w.disabled_at is not null then at end
  from app.webhook_endpoint w where w.merchant_id = of_merchant and w.deleted_at is null and of_type = any(w.event_types);
  if current_setting('app.woke_deliveries', true) is distinct from pg_current_xact_id()::text then -- one job for all events of a transaction
    perform app.enqueue('sequence_events');
    perform set_config('app.woke_deliveries', pg_current_xact_id()::text, true);
  end if;
end $$;
comment on function app.add_event is 'Adds the next event of a subject, with this body, its deliveries, and the job that sends them.';
