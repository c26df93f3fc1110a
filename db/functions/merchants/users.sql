-- Users and their deposit addresses. POST /v1/users, PATCH /v1/users/:id and POST /v1/users/:id/addresses call these.
--
-- The same reference of a merchant is the same user, also among requests of the same moment, and in each Unicode form: it is kept as it came first. Calling again adds the addresses that are missing and
-- nothing else. A merchant sees nothing of another merchant's. The response's body is built here; `created` decides between 201 and 200.
-- Locks: reference, user, address of the pool.
-- Errors: SL404 there is no such user; SLINV a new reference looks like another one; SLCHN a chain is not enabled for the merchant; SL503 the pool is empty, try again in a moment.

create or replace function app.user_ref(of_merchant uuid, given text) returns text
language sql stable set search_path = pg_catalog as $$
  select coalesce(
    (select u.external_ref from app.user u where u.merchant_id = of_merchant and u.external_ref = given),
    (select u.external_ref from app.user u where u.merchant_id = of_merchant and u.external_ref = normalize(given, NFC)),
    -- All of them: with a limit, PostgreSQL would read the merchant's users in their order until it finds one.
    (select (array_agg(u.external_ref order by u.seq))[1] from app.user u
      where u.merchant_id = of_merchant and normalize(u.external_ref, NFC) = normalize(given, NFC) and u.external_ref is not nfc normalized),
    given)
$$;
comment on function app.user_ref is 'The reference of the user that a text names, as it is stored; the text itself if it names none. A user with this very text comes first, then one with another Unicode form of it.';
grant execute on function app.user_ref to sluice_api;

create or replace function app.lock_user_of_ref(of_merchant uuid, given text) returns uuid
language sql set search_path = pg_catalog as $$
  select u.id from app.user u where u.merchant_id = of_merchant and u.external_ref = app.user_ref(of_merchant, given) for no key update
$$;
comment on function app.lock_user_of_ref is 'Locks the user that a reference names, and returns its id; null if there is none.';

create or replace function app.provision_user(of_merchant uuid, of_external_ref text, chains text[], of_metadata jsonb default null, out created boolean, out body text)
language plpgsql security definer set search_path = pg_catalog as $$
declare of_user uuid := app.lock_user_of_ref(of_merchant, of_external_ref);
begin
  created := false;
  if of_user is null then
    perform app.require_clear_reference('external_ref', of_external_ref);
    perform app.lock_reference(of_merchant, of_external_ref);
    of_user := app.lock_user_of_ref(of_merchant, of_external_ref); -- a duplicate may have been made meanwhile
  end if;
  if of_user is null then
    insert into app.user as u (merchant_id, external_ref, metadata) values (of_merchant, of_external_ref, coalesce(of_metadata, '{}'))
    returning u.id into of_user;
    created := true;
  end if;
  perform app.add_addresses(of_merchant, of_user, coalesce(chains,
    array(select m.chain from app.merchant_chain m where m.merchant_id = of_merchant and m.enabled)));
  select row_to_json(u) into body from (
    select app.public_id('usr', u.id) as id, u.external_ref, app.addresses_of(u.id) as addresses, u.metadata from app.user u where u.id = of_user) u;
end $$;
comment on function app.provision_user is 'Finds the user with this reference, or makes it with this metadata (null: none), and gives it an address on each of the chains (null: all that are enabled); returns whether the user is new, and the body of the response.';
grant execute on function app.provision_user to sluice_api;

create or replace function app.update_user(of_merchant uuid, of_user uuid, new_metadata jsonb) returns void
language plpgsql security definer set search_path = pg_catalog as $$
begin
  update app.user u set metadata = coalesce(new_metadata, u.metadata) where u.id = of_user and u.merchant_id = of_merchant;
  if not found then raise exception 'there is no user with this id' using errcode = 'SL404', detail = 'user'; end if;
end $$;
comment on function app.update_user is 'Replaces the metadata of a user; null leaves it as it is. Events that were made already keep the old one.';
grant execute on function app.update_user to sluice_api;

create or replace function app.provision_addresses(of_merchant uuid, of_user uuid, chains text[], out created boolean, out body text)
language plpgsql security definer set search_path = pg_catalog as $$
declare before int;
begin
  perform from app.user u where u.id = of_user and u.merchant_id = of_merchant for no key update;
  if not found then raise exception 'there is no user with this id' using errcode = 'SL404', detail = 'user'; end if;
  before := (select count(*) from app.address a where a.user_id = of_user and a.is_provisioned);
  perform app.add_addresses(of_merchant, of_user, chains);
  created := before < (select count(*) from app.address a where a.user_id = of_user and a.is_provisioned);
  select row_to_json(u) into body from (
    select app.public_id('usr', of_user) as id, app.addresses_of(of_user) as addresses) u;
end $$;
comment on function app.provision_addresses is 'Gives a user an address on each of the chains where it has none yet; returns whether one is new, and the body of the response.';
grant execute on function app.provision_addresses to sluice_api;

create or replace function app.addresses_of(of_user uuid) returns json
language sql stable set search_path = pg_catalog as $$
  select coalesce(json_agg(a order by chain), '[]')
  from (select chain, address from app.address where user_id = of_user and is_provisioned) a
$$;
comment on function app.addresses_of is 'The addresses that a user was given, by chain, as a JSON array of {chain, address}. Addresses that are only watched are left out.';
grant execute on function app.addresses_of to sluice_api;
