-- Tests an endpoint, for a merchant (the API) or an operator (the command line), with an event that is delivered like every other one.
--
-- Its type is webhook.test, to which no endpoint can subscribe; its subject is the endpoint, and its version counts the endpoint's tests.
-- Locks: endpoint. Errors: SL404 there is no such endpoint; SL422 the endpoint is disabled.

create or replace function app.test_webhook(of_merchant uuid, endpoint uuid) returns uuid
language plpgsql security definer set search_path = pg_catalog as $$
declare
  own app.webhook_endpoint := app.own_webhook_endpoint(of_merchant, endpoint);
  event uuid := uuidv7();
  now timestamptz := clock_timestamp();
  delivery uuid;
begin
  perform app.refuse_disabled(own);
  insert into app.event (id, merchant_id, type, subject_id, version, created_at, payload)
  values (event, of_merchant, 'webhook.test', own.id,
    (select coalesce(max(e.version), 0) + 1 from app.event e where e.subject_id = own.id), now,
    json_build_object('type', 'webhook.test', 'id', app.public_id('evt', event), 'webhook_endpoint_id', app.public_id('whe', own.id),
      'created_at', app.iso(now)));
  insert into app.delivery as d (event_id, endpoint_id) values (event, own.id) returning d.id into delivery;
  perform app.enqueue('deliver_webhooks');
  return delivery;
end $$;
comment on function app.test_webhook is 'Sends an event of type webhook.test to one endpoint; returns the id of its delivery.';
grant execute on function app.test_webhook to sluice_api;
