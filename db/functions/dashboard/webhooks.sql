-- Webhook endpoints and deliveries in the dashboard. What is allowed is decided by the functions that the API calls, too.
--
-- What decides who learns of the merchant's money, or is believed to be us, needs the second factor again: a new endpoint, another URL, a new secret.
-- A delivery has no index by its event. Both are made in one transaction, and the id of a delivery carries its time: so the deliveries of an event are
-- looked for at the merchant's endpoints, within a minute of the event.
-- Errors: those of dashboard.begin_change and of db/functions/webhooks; SLSTP, SLSUS; SL404 there is nothing with this id, or it belongs to another merchant.

create or replace function dashboard.endpoint_item(w app.webhook_endpoint) returns json
language sql stable set search_path = pg_catalog as $$
  select app.with_more(app.endpoint_item(w), row_to_json(more))
  from (select count(*) filter (where n.status = 'delivered') as delivered, count(*) filter (where n.status = 'failed') as failed,
      count(*) filter (where n.status = 'pending') as pending
    from (select o.status from app.delivery o where o.endpoint_id = w.id and o.id >= app.uuid_at(now() - interval '1 day')
      order by o.id desc limit 1000) n) d
  cross join lateral (select app.iso(w.disabled_at) as disabled_at,
    app.iso(case when w.previous_secret_expires_at > now() then w.previous_secret_expires_at end) as previous_secret_expires_at,
    d.delivered, d.failed, d.pending, exists (
      select from (select o.attempts from app.delivery o where o.endpoint_id = w.id order by o.id desc limit 1000) n where n.attempts > 0) as was_tried) more
$$;
comment on function dashboard.endpoint_item is 'An endpoint, what became of its deliveries of the last day, and whether anything was sent to it: of the newest thousand at most.';

create or replace function dashboard.endpoints_of(merchant uuid) returns json
language sql stable set search_path = pg_catalog as $$
  select coalesce(json_agg(dashboard.endpoint_item(w) order by w.id desc), '[]') from app.endpoints_of(merchant) w
$$;
comment on function dashboard.endpoints_of is 'All endpoints of a merchant.';

create or replace function dashboard.webhook_endpoints(token text) returns json
language sql stable security definer set search_path = pg_catalog as $$
  select dashboard.endpoints_of(dashboard.merchant_of(webhook_endpoints.token))
$$;
comment on function dashboard.webhook_endpoints is 'All endpoints.';
grant execute on function dashboard.webhook_endpoints to sluice_dashboard;

create or replace function dashboard.own_endpoint(token text, public_id text) returns app.webhook_endpoint
language plpgsql stable set search_path = pg_catalog as $$
declare
  merchant uuid := dashboard.merchant_of(token);
  own app.webhook_endpoint;
begin
  select w.* into own from app.endpoints_of(merchant) w where w.id = dashboard.uuid_of('whe', public_id);
  if own.id is null then
    raise exception 'there is no webhook endpoint with this id' using errcode = 'SL404', detail = 'webhook_endpoint';
  end if;
  return own;
end $$;
comment on function dashboard.own_endpoint is 'The endpoint with this id; raises SL404 if the merchant has none.';

create or replace function dashboard.webhook_endpoint(token text, public_id text) returns json
language sql stable security definer set search_path = pg_catalog as $$
  select dashboard.endpoint_item(dashboard.own_endpoint(webhook_endpoint.token, webhook_endpoint.public_id))
$$;
comment on function dashboard.webhook_endpoint is 'An endpoint.';
grant execute on function dashboard.webhook_endpoint to sluice_dashboard;

create or replace function dashboard.subject_of(event_type text) returns table (kind text, prefix text)
language sql immutable parallel safe rows 1 set search_path = pg_catalog as $$
  select k.kind, k.prefix from (values ('deposit.', 'deposit', 'dep'), ('payout.', 'payout', 'pay'), ('webhook_endpoint.', 'endpoint', 'whe'),
    ('payment_request.', 'payment_request', 'prq')) k (beginning, kind, prefix) where starts_with(event_type, k.beginning)
$$;
comment on function dashboard.subject_of is 'What events of this type are about, and how ids of that begin.';

create or replace function dashboard.delivery_item(d app.delivery) returns json
language sql stable set search_path = pg_catalog as $$
  select app.with_more(app.delivery_item(d), row_to_json(more)) from app.webhook_endpoint w
  cross join lateral (select app.public_id('whe', w.id) as endpoint_id, w.url as endpoint_url, w.deleted_at is not null as endpoint_deleted,
    (select json_build_object('kind', k.kind, 'id', coalesce(e.payload ->> 'external_id', app.public_id(k.prefix, e.subject_id)),
        'label', case k.kind when 'payment_request' then e.payload ->> 'external_id' when 'endpoint' then w.url
          else coalesce(coalesce(e.payload ->> 'amount', e.payload ->> 'net') || ' ' || (e.payload ->> 'token'), app.public_id(k.prefix, e.subject_id)) end)
      from app.event e join lateral dashboard.subject_of(e.type) k on true
      where e.id = d.event_id and not e.is_test) as about) more
  where w.id = d.endpoint_id
$$;
comment on function dashboard.delivery_item is 'A delivery, the endpoint that it is for, and what it is about.';

create or replace function dashboard.events_of(subject uuid) returns json
language sql stable set search_path = pg_catalog as $$
  select coalesce(json_agg(json_build_object('id', app.event_id(e.id, false), 'type', e.type, 'created_at', app.iso(e.created_at),
    'deliveries', (select coalesce(json_agg(dashboard.delivery_item(d) order by d.id), '[]')
      from app.webhook_endpoint w join app.delivery d on d.endpoint_id = w.id and d.event_id = e.id
        and d.id between app.uuid_at(e.created_at - interval '1 minute') and app.uuid_at(e.created_at + interval '1 minute')
      where w.merchant_id = e.merchant_id)) order by e.version), '[]')
  from app.event e where e.subject_id = subject and not e.is_test
$$;
comment on function dashboard.events_of is 'The events of a deposit or a payout, with their deliveries.';

create or replace function dashboard.delivery(token text, endpoint text, public_id text) returns json
language plpgsql stable security definer set search_path = pg_catalog as $$
declare
  own app.webhook_endpoint := dashboard.own_endpoint(token, endpoint);
  d app.delivery;
begin
  select * into d from app.delivery o where o.id = dashboard.uuid_of('dlv', public_id) and o.endpoint_id = own.id;
  if d.id is null then raise exception 'there is no delivery with this id' using errcode = 'SL404', detail = 'webhook_delivery'; end if;
  return app.with_more(dashboard.delivery_item(d),
    (select row_to_json(b) from (select coalesce(app.event_body(e.payload, e.sequence), e.payload::text) as body from app.event e where e.id = d.event_id) b));
end $$;
comment on function dashboard.delivery is 'A delivery with the body that is sent.';
grant execute on function dashboard.delivery to sluice_dashboard;

create or replace function dashboard.create_webhook_endpoint(token text, request uuid, url text, event_types text[]) returns json
language plpgsql security definer set search_path = pg_catalog as $$
declare
  who dashboard.audit_entry := dashboard.begin_change(token, request);
  made record;
begin
  perform dashboard.require_full_rights(token);
  select * into made from app.create_webhook_endpoint(who.merchant_id, url, event_types);
  perform dashboard.note(who, 'webhook_endpoint.create', app.public_id('whe', made.id), url);
  return json_build_object('id', app.public_id('whe', made.id), 'secret', made.secret);
end $$;
comment on function dashboard.create_webhook_endpoint is 'Makes an endpoint; returns its id, and its secret, which is shown once.';
grant execute on function dashboard.create_webhook_endpoint to sluice_dashboard;

create or replace function dashboard.update_webhook_endpoint(token text, request uuid, public_id text, url text, event_types text[], enable boolean) returns void
language plpgsql security definer set search_path = pg_catalog as $$
declare who dashboard.audit_entry := dashboard.begin_change(token, request);
begin
  if url is not null then perform dashboard.require_full_rights(token); end if;
  perform app.update_webhook_endpoint(who.merchant_id, dashboard.uuid_of('whe', public_id), url, event_types, enable);
  perform dashboard.note(who, case enable when true then 'webhook_endpoint.enable' when false then 'webhook_endpoint.disable' else 'webhook_endpoint.update' end,
    public_id, url);
end $$;
comment on function dashboard.update_webhook_endpoint is 'Changes an endpoint; null leaves a value as it is.';
grant execute on function dashboard.update_webhook_endpoint to sluice_dashboard;

create or replace function dashboard.delete_webhook_endpoint(token text, request uuid, public_id text) returns void
language plpgsql security definer set search_path = pg_catalog as $$
declare who dashboard.audit_entry := dashboard.begin_change(token, request);
begin
  perform app.delete_webhook_endpoint(who.merchant_id, dashboard.uuid_of('whe', public_id));
  perform dashboard.note(who, 'webhook_endpoint.delete', public_id);
end $$;
comment on function dashboard.delete_webhook_endpoint is 'Deletes an endpoint: nothing more is sent to it.';
grant execute on function dashboard.delete_webhook_endpoint to sluice_dashboard;

create or replace function dashboard.rotate_webhook_secret(token text, request uuid, public_id text) returns json
language plpgsql security definer set search_path = pg_catalog as $$
declare
  who dashboard.audit_entry := dashboard.begin_change(token, request);
  secret text;
begin
  perform dashboard.require_full_rights(token);
  secret := app.rotate_webhook_secret(who.merchant_id, dashboard.uuid_of('whe', public_id));
  perform dashboard.note(who, 'webhook_endpoint.rotate', public_id);
  return json_build_object('id', public_id, 'secret', secret);
end $$;
comment on function dashboard.rotate_webhook_secret is 'Makes a new secret, which is shown once; the old one signs, too, for 24 hours.';
grant execute on function dashboard.rotate_webhook_secret to sluice_dashboard;

create or replace function dashboard.test_webhook(token text, request uuid, public_id text, of_type text) returns json
language plpgsql security definer set search_path = pg_catalog as $$
declare
  who dashboard.audit_entry := dashboard.begin_change(token, request);
  delivery uuid := app.test_webhook(who.merchant_id, dashboard.uuid_of('whe', public_id), of_type);
begin
  perform dashboard.note(who, 'webhook_endpoint.test', public_id, of_type);
  return json_build_object('id', app.public_id('dlv', delivery));
end $$;
comment on function dashboard.test_webhook is 'Sends an example of an event; returns the id of its delivery.';
grant execute on function dashboard.test_webhook to sluice_dashboard;

create or replace function dashboard.redeliver(token text, request uuid, endpoint text, delivery text) returns void
language plpgsql security definer set search_path = pg_catalog as $$
declare who dashboard.audit_entry := dashboard.begin_change(token, request);
begin
  perform app.redeliver(who.merchant_id, dashboard.uuid_of('whe', endpoint), dashboard.uuid_of('dlv', delivery));
  perform dashboard.note(who, 'webhook_endpoint.redeliver', endpoint, delivery);
end $$;
comment on function dashboard.redeliver is 'Sends an event to an endpoint again.';
grant execute on function dashboard.redeliver to sluice_dashboard;

create or replace function dashboard.redeliver_failed(token text, request uuid, endpoint text, since timestamptz) returns int
language plpgsql security definer set search_path = pg_catalog as $$
declare
  who dashboard.audit_entry := dashboard.begin_change(token, request);
  count int := app.redeliver_failed(who.merchant_id, dashboard.uuid_of('whe', endpoint), since);
begin
  perform dashboard.note(who, 'webhook_endpoint.redeliver', endpoint, count || ' since ' || app.iso(since));
  return count;
end $$;
comment on function dashboard.redeliver_failed is 'Sends every event again whose delivery failed since a time; returns how many.';
grant execute on function dashboard.redeliver_failed to sluice_dashboard;
