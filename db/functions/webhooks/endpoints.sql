-- Webhook endpoints: created, changed, deleted, and their secret rotated, by merchants (the API) and by operators (the command line).
--
-- A merchant has at most five. A secret is shown when it is made and never again. Another merchant's endpoint, or a deleted one, gives the same
-- error as one that does not exist.
-- Locks: merchant (to count its endpoints); endpoint, then its deliveries.
-- Errors: SL404 there is no such merchant or endpoint; SL422 refused, the message says why.

create or replace function app.create_webhook_endpoint(of_merchant uuid, url text, event_types text[] default null, out id uuid, out secret text)
language plpgsql security definer set search_path = pg_catalog as $$
begin
  perform from app.merchant m where m.id = of_merchant for no key update; -- one at a time, for the count
  if not found then raise exception 'there is no merchant with this id' using errcode = 'SL404', detail = 'merchant'; end if;
  perform app.check_webhook(url, event_types);
  if (select count(*) from app.webhook_endpoint w where w.merchant_id = of_merchant and w.deleted_at is null) >= 5 then
    raise exception 'an account has at most 5 webhook endpoints; delete one first' using errcode = 'SL422';
  end if;
  insert into app.webhook_endpoint as w (merchant_id, url, event_types, secret)
  values (of_merchant, create_webhook_endpoint.url,
    coalesce(create_webhook_endpoint.event_types, '{deposit.pending,deposit.confirmed,payout.completed,payout.failed}'), app.new_webhook_secret())
  returning w.id, w.secret into id, secret;
end $$;
comment on function app.create_webhook_endpoint is 'Makes a webhook endpoint; returns its id, and its secret, which is shown here and never again. event_types null: the four of the contract.';
grant execute on function app.create_webhook_endpoint to sluice_api;

create or replace function app.update_webhook_endpoint(of_merchant uuid, endpoint uuid, url text, event_types text[], enable boolean) returns void
language plpgsql security definer set search_path = pg_catalog as $$
declare own app.webhook_endpoint := app.own_webhook_endpoint(of_merchant, endpoint);
begin
  perform app.check_webhook(coalesce(url, own.url), coalesce(event_types, own.event_types));
  update app.webhook_endpoint w set url = coalesce(update_webhook_endpoint.url, w.url),
    event_types = coalesce(update_webhook_endpoint.event_types, w.event_types)
  where w.id = own.id;
  if enable and own.disabled_at is not null then
    update app.webhook_endpoint w set disabled_at = null, disabled_reason = null, failing_since = null, gone_since = null where w.id = own.id;
  elsif not enable and own.disabled_at is null then
    update app.webhook_endpoint w set disabled_at = clock_timestamp(), disabled_reason = 'merchant' where w.id = own.id;
    perform app.give_up_deliveries(own.id);
  end if;
end $$;
comment on function app.update_webhook_endpoint is 'Changes the URL, the event types, or whether an endpoint is enabled; null leaves a value as it is. Disabling fails its pending deliveries.';
grant execute on function app.update_webhook_endpoint to sluice_api;

create or replace function app.delete_webhook_endpoint(of_merchant uuid, endpoint uuid) returns void
language plpgsql security definer set search_path = pg_catalog as $$
declare own app.webhook_endpoint := app.own_webhook_endpoint(of_merchant, endpoint);
begin
  update app.webhook_endpoint w set deleted_at = clock_timestamp() where w.id = own.id;
  perform app.give_up_deliveries(own.id);
end $$;
comment on function app.delete_webhook_endpoint is 'Deletes an endpoint: nothing more is sent to it. Its past deliveries stay in the database.';
grant execute on function app.delete_webhook_endpoint to sluice_api;

create or replace function app.rotate_webhook_secret(of_merchant uuid, endpoint uuid) returns text
language plpgsql security definer set search_path = pg_catalog as $$
declare
  own app.webhook_endpoint := app.own_webhook_endpoint(of_merchant, endpoint);
  new_secret text := app.new_webhook_secret();
begin
  update app.webhook_endpoint w set secret = new_secret, previous_secret = own.secret,
    previous_secret_expires_at = clock_timestamp() + interval '24 hours'
  where w.id = own.id;
  return new_secret;
end $$;
comment on function app.rotate_webhook_secret is 'Makes a new secret; the old one signs, too, for 24 hours. Returns the new one, which is never shown again.';
grant execute on function app.rotate_webhook_secret to sluice_api;

create or replace function app.own_webhook_endpoint(of_merchant uuid, endpoint uuid) returns app.webhook_endpoint
language plpgsql set search_path = pg_catalog as $$
declare own app.webhook_endpoint;
begin
  select * into own from app.webhook_endpoint w
  where w.id = endpoint and w.merchant_id = of_merchant and w.deleted_at is null for no key update;
  if own.id is null then
    raise exception 'there is no webhook endpoint with this id' using errcode = 'SL404', detail = 'webhook_endpoint';
  end if;
  return own;
end $$;
comment on function app.own_webhook_endpoint is 'Locks an endpoint that this merchant has, and returns it; raises SL404 where there is none.';

create or replace function app.refuse_disabled(endpoint app.webhook_endpoint) returns void
language plpgsql set search_path = pg_catalog as $$
begin
  if endpoint.disabled_at is not null then
    raise exception 'the endpoint is disabled (%); enable it first', endpoint.disabled_reason using errcode = 'SL422';
  end if;
end $$;
comment on function app.refuse_disabled is 'Raises SL422 if an endpoint is disabled.';

create or replace function app.event_types() returns text[]
language sql immutable set search_path = pg_catalog
return array['deposit.pending', 'deposit.confirmed', 'deposit.reorged', 'payout.completed', 'payout.failed', 'payment_request.detected',
  'payment_request.partially_paid', 'payment_request.paid', 'payment_request.underpaid', 'payment_request.expired', 'payment_request.cancelled',
  'payment_request.reopened', 'webhook_endpoint.disabled'];
comment on function app.event_types is 'All types of events.';
grant execute on function app.event_types to sluice_api;

create or replace function app.check_webhook(url text, event_types text[]) returns void
language plpgsql set search_path = pg_catalog as $$
begin
  if url !~* '^https?://[^/?#@[:space:][:cntrl:]\\]+([/?#][^[:space:][:cntrl:]\\]*)?$' or length(url) > 2048 then
    raise exception 'the URL must be http or https, with no user name in it, and at most 2048 characters' using errcode = 'SL422';
  end if;
  if event_types = '{}' or not event_types <@ app.event_types() then
    raise exception 'event types are %', array_to_string(app.event_types(), ', ') using errcode = 'SL422';
  end if;
end $$;
comment on function app.check_webhook is 'Raises SL422 if no endpoint can have this URL, or subscribe to these types of events.';

-- PostgreSQL itself has no other source of secret random bits: two random UUIDs (122 random bits each), hashed with SHA-256.
create or replace function app.new_webhook_secret() returns text
language sql volatile set search_path = pg_catalog
return 'whsec_' || encode(substring(sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())) from 1 for 24), 'base64');
comment on function app.new_webhook_secret is 'Makes a secret: whsec_ and 192 random bits in base64.';
