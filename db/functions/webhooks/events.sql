-- The events of webhook endpoints, in the transaction that changes one. Only an endpoint that names their type gets them, and only a list that asks for it
-- shows them. The endpoint itself is disabled: a redelivery, once it works again, tells it, too.
create or replace function app.add_endpoint_event(of_endpoint uuid, of_type text) returns void
language plpgsql set search_path = pg_catalog as $$
declare
  w app.webhook_endpoint;
  event uuid := uuidv7();
  at timestamptz := clock_timestamp();
begin
  select * into strict w from app.webhook_endpoint o where o.id = of_endpoint;
  perform app.add_event(event, w.merchant_id, of_type, w.id, app.next_version(w.id), at, json_build_object(
    'type', of_type, 'id', app.public_id('evt', event), 'webhook_endpoint_id', app.public_id('whe', w.id), 'url', w.url, 'reason', w.disabled_reason,
    'created_at', app.iso(at)));
end $$;
comment on function app.add_endpoint_event is 'Adds an event of this type about a webhook endpoint, whose row the caller has locked.';

create or replace function app.next_version(of_subject uuid) returns int
language sql stable set search_path = pg_catalog as $$
  select coalesce(max(e.version), 0) + 1 from app.event e where e.subject_id = of_subject
$$;
comment on function app.next_version is 'The version of the next event of an endpoint, its tests counted.';
