-- Merchants' accounts, as operators keep them: name and fee change, an account is suspended and resumed; keys have a label and the day of
-- their last use.
--
-- Writers: the command line; of the day of last use, the API (app.note_key_use). Readers: the API (who a key belongs to), the command line.
--
-- Invariants: while an account is suspended none of its keys works, those made meanwhile included; each API process hears of it with the
-- commit. A suspension touches nothing but the keys: deposits are credited, payouts under way end, webhooks are delivered, the page of a payment
-- request is shown.

alter table app.merchant add column if not exists suspended_at timestamptz;
comment on column app.merchant.suspended_at is 'Since when its keys do not work; null while they do.';

alter table app.api_key add column label text check (char_length(label) between 1 and 100), add column if not exists last_used_on date;
comment on column app.api_key.label is 'What it is for, in the operator''s words; null if that was not said.';
comment on column app.api_key.last_used_on is 'The newest day (UTC) on which a request came with it; null if none ever did.';

-- An empty payload: what is remembered of any key is doubtful.
create function app.announce_suspension() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
begin
  perform pg_notify('api_key_revoked', '');
  return null;
end $$;
create trigger announce_suspension after update of suspended_at on app.merchant
  for each row when (old.suspended_at is null and new.suspended_at is not null) execute function app.announce_suspension();

create function app.set_merchant_suspended(of_merchant uuid, suspended boolean) returns void
language plpgsql security definer set search_path = pg_catalog as $$
begin
  update app.merchant m set suspended_at = case when suspended then coalesce(m.suspended_at, clock_timestamp()) end where m.id = of_merchant;
  if not found then raise exception 'there is no merchant with this id' using errcode = 'SL404', detail = 'merchant'; end if;
end $$;
comment on function app.set_merchant_suspended is 'Stops all keys of a merchant at once, or lets them work again. Changes nothing else, and nothing where it is so already.';

create function app.update_merchant(of_merchant uuid, new_name text, new_fee_bps int) returns void
language plpgsql security definer set search_path = pg_catalog as $$
begin
  if trim(new_name) = '' then raise exception 'a merchant needs a name' using errcode = 'SL422'; end if;
  if new_fee_bps not between 0 and 10000 then
    raise exception 'the fee must be 0 to 10000 basis points' using errcode = 'SL422';
  end if;
  update app.merchant m set name = coalesce(new_name, m.name), fee_bps = coalesce(new_fee_bps, m.fee_bps) where m.id = of_merchant;
  if not found then raise exception 'there is no merchant with this id' using errcode = 'SL404', detail = 'merchant'; end if;
end $$;
comment on function app.update_merchant is 'Changes name and fee of a merchant; null leaves one as it is. A payout keeps the fee with which it was made.';

create function app.create_api_key(of_merchant uuid, secret_hash bytea, label text) returns uuid
language plpgsql security definer set search_path = pg_catalog as $$
declare key uuid := app.create_api_key(of_merchant, secret_hash);
begin
  if char_length(label) not between 1 and 100 then
    raise exception 'a label has 1 to 100 characters' using errcode = 'SL422';
  end if;
  update app.api_key k set label = create_api_key.label where k.id = key;
  return key;
end $$;
comment on function app.create_api_key(uuid, bytea, text) is 'Stores the SHA-256 of a new key (sk_ and 43 base64url characters, the prefix included), and what it is for; returns the id of the key.';

-- At most one write for a key and a day.
create function app.note_key_use(of_secret_hash bytea) returns void
language sql security definer set search_path = pg_catalog as $$
  update app.api_key set last_used_on = (clock_timestamp() at time zone 'UTC')::date
  where secret_hash = of_secret_hash and (last_used_on is null or last_used_on < (clock_timestamp() at time zone 'UTC')::date)
$$;
comment on function app.note_key_use is 'Writes down that a key was used today.';
grant execute on function app.note_key_use to sluice_api;
