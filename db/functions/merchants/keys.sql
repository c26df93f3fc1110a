-- API keys. The command line makes and revokes them, as the owner of the database. The API looks them up, and notes the day of their use.
--
-- The secret is never stored here, only its SHA-256. A revoked key stops working in every API process with the commit, because each process listens
-- for it (api/keys.ts). A key of a suspended account does not work either (accounts.sql).
-- Errors: SL404 there is no such merchant or key; SL422 refused, the message says why.

create or replace function app.create_api_key(of_merchant uuid, secret_hash bytea, label text default null,
  scopes text[] default '{read,users,payouts,payments,webhooks}') returns uuid
language plpgsql security definer set search_path = pg_catalog as $$
declare key uuid;
begin
  perform from app.merchant m where m.id = of_merchant;
  if not found then raise exception 'there is no merchant with this id' using errcode = 'SL404', detail = 'merchant'; end if;
  if octet_length(secret_hash) is distinct from 32 then
    raise exception 'the hash of a key has 32 bytes (SHA-256)' using errcode = 'SL422';
  end if;
  if char_length(label) not between 1 and 100 then
    raise exception 'a label has 1 to 100 characters' using errcode = 'SL422';
  end if;
  perform app.require_clear_name('the label', label);
  insert into app.api_key as k (merchant_id, secret_hash, label, scopes)
  values (of_merchant, create_api_key.secret_hash, create_api_key.label, create_api_key.scopes)
  returning k.id into key;
  return key;
end $$;
comment on function app.create_api_key is 'Stores the SHA-256 of a new key (sk_ and 43 base64url characters, the prefix included), its purpose, and what it may do; returns the id of the key.';

create or replace function app.revoke_api_key(key uuid) returns void
language plpgsql security definer set search_path = pg_catalog as $$
begin
  update app.api_key k set revoked_at = coalesce(k.revoked_at, clock_timestamp()) where k.id = key;
  if not found then raise exception 'there is no key with this id' using errcode = 'SL404', detail = 'api_key'; end if;
end $$;
comment on function app.revoke_api_key is 'Ends a key, in every API process at once. Revoking it again changes nothing.';

create or replace function app.announce_revocation() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
begin
  perform pg_notify('api_key_revoked', encode(new.secret_hash, 'hex'));
  return null;
end $$;
comment on function app.announce_revocation is 'Trigger: notifies every API process of the hash of a key that was revoked (api_key_revoked).';
create or replace trigger announce_revocation after update of revoked_at on app.api_key
  for each row when (new.revoked_at is not null) execute function app.announce_revocation();

create or replace function app.note_key_use(of_secret_hash bytea) returns void
language sql security definer set search_path = pg_catalog as $$
  update app.api_key set last_used_on = (clock_timestamp() at time zone 'UTC')::date
  where secret_hash = of_secret_hash and (last_used_on is null or last_used_on < (clock_timestamp() at time zone 'UTC')::date)
$$;
comment on function app.note_key_use is 'Notes that a key was used today (UTC). Writes at most once a day for a key.';
grant execute on function app.note_key_use to sluice_api;
