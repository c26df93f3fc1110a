-- Sends events again because a merchant (the API) or an operator (the command line) asks for it.
--
-- A redelivery is the same delivery, pending again with the whole schedule of attempts before it. It has the same webhook-id of its event, so a
-- receiver that checks that id recognises the event.
-- Locks: endpoint, then its deliveries.
-- Errors: SL404 there is no such endpoint or delivery; SL422 the endpoint is disabled.

create or replace function app.redeliver(of_merchant uuid, endpoint uuid, delivery uuid) returns void
language plpgsql security definer set search_path = pg_catalog as $$
declare own app.webhook_endpoint := app.own_webhook_endpoint(of_merchant, endpoint);
begin
  perform from app.delivery d where d.id = delivery and d.endpoint_id = own.id;
  if not found then
    raise exception 'there is no delivery with this id' using errcode = 'SL404', detail = 'webhook_delivery';
  end if;
  perform app.refuse_disabled(own);
  update app.delivery d set status = 'pending', attempts = 0, next_attempt_at = clock_timestamp(), finished_at = null where d.id = delivery;
  perform app.enqueue('sequence_events');
end $$;
comment on function app.redeliver is 'Sends an event to an endpoint again, now, whatever the state of its delivery.';
grant execute on function app.redeliver to sluice_api;

create or replace function app.redeliver_failed(of_merchant uuid, endpoint uuid, since timestamptz) returns int
language plpgsql security definer set search_path = pg_catalog as $$
declare
  own app.webhook_endpoint := app.own_webhook_endpoint(of_merchant, endpoint);
  redelivered int;
begin
  perform app.refuse_disabled(own);
  update app.delivery d set status = 'pending', attempts = 0, next_attempt_at = clock_timestamp(), finished_at = null
  where d.endpoint_id = own.id and d.status = 'failed' and d.created_at >= since;
  get diagnostics redelivered = row_count;
  if redelivered > 0 then perform app.enqueue('sequence_events'); end if;
  return redelivered;
end $$;
comment on function app.redeliver_failed is 'Sends every event again whose delivery failed and that happened at or after a time; returns how many.';
grant execute on function app.redeliver_failed to sluice_api;
