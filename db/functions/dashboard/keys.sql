-- API keys in the dashboard: listed, made and revoked. The secret is made by the pages, shown once, and only its SHA-256 comes here.
--
-- A new key needs the second factor again. A revoked one stops working with the commit (db/functions/merchants/keys.sql).
-- Errors: those of dashboard.begin_change and app.create_api_key; SLSTP, SLSUS; SL404 there is no such key, or it belongs to another merchant.

create or replace function dashboard.api_keys(token text) returns json
language plpgsql stable security definer set search_path = pg_catalog as $$
declare merchant uuid := dashboard.merchant_of(token);
begin
  return (select coalesce(json_agg(json_build_object('id', app.public_id('key', k.id), 'label', k.label, 'scopes', k.scopes,
      'created_at', app.iso(k.created_at), 'last_used_on', k.last_used_on, 'revoked_at', app.iso(k.revoked_at))
      order by k.revoked_at is not null, k.id desc), '[]')
    from app.api_key k where k.merchant_id = merchant);
end $$;
comment on function dashboard.api_keys is 'All keys, those that work first, the newest first.';
grant execute on function dashboard.api_keys to sluice_dashboard;

create or replace function dashboard.create_api_key(token text, request uuid, secret_hash bytea, label text, scopes text[]) returns json
language plpgsql security definer set search_path = pg_catalog as $$
declare
  who dashboard.audit_entry := dashboard.begin_change(token, request);
  key uuid;
begin
  perform dashboard.require_full_rights(token);
  key := app.create_api_key(who.merchant_id, secret_hash, nullif(label, ''), scopes);
  perform dashboard.note(who, 'api_key.create', app.public_id('key', key), nullif(label, ''));
  return json_build_object('id', app.public_id('key', key));
end $$;
comment on function dashboard.create_api_key is 'Makes a key from the SHA-256 of its secret; returns its id.';
grant execute on function dashboard.create_api_key to sluice_dashboard;

create or replace function dashboard.revoke_api_key(token text, request uuid, public_id text) returns void
language plpgsql security definer set search_path = pg_catalog as $$
declare
  who dashboard.audit_entry := dashboard.begin_change(token, request);
  key uuid;
begin
  select k.id into key from app.api_key k where k.id = dashboard.uuid_of('key', public_id) and k.merchant_id = who.merchant_id;
  if key is null then raise exception 'there is no key with this id' using errcode = 'SL404', detail = 'api_key'; end if;
  perform app.revoke_api_key(key);
  perform dashboard.note(who, 'api_key.revoke', public_id);
end $$;
comment on function dashboard.revoke_api_key is 'Ends a key, at once.';
grant execute on function dashboard.revoke_api_key to sluice_dashboard;
