-- What the API and the command line change, as functions: merchants, keys, users with their addresses, payout addresses, webhooks.
--
-- Writers: nobody else writes the tables of 003_merchants.sql and app.webhook_endpoint. Each function is one transaction's work and does
-- it whole or not at all; a merchant's own functions take the merchant first and see nothing of another's.
--
-- Errors, by SQLSTATE: SL404 the thing does not exist, or belongs to somebody else (DETAIL names the kind of thing); SL422 refused, the
-- message says why; SLCHN the chain is not enabled for the merchant; SL503 no free address in the pool, ask again in a moment.
-- Locks, always in this order: merchant, user, address of the pool; or merchant, endpoint, deliveries.

create table app.chain (
  chain text primary key,
  family text not null
);
comment on table app.chain is 'The chains that Sluice can run. Kept equal to chains/registry.ts by every migration run.';
comment on column app.chain.chain is 'Chain code.';
comment on column app.chain.family is 'Chains of one family share their addresses: a key controls the same address on each of them.';

-- Merchants and keys, for operators ---------------------------------------------------------------------------------------------------

create function app.set_merchant_chain(of_merchant uuid, of_chain text, enable boolean) returns void
language plpgsql security definer set search_path = pg_catalog as $$
begin
  perform from app.merchant m where m.id = of_merchant;
  if not found then raise exception 'there is no merchant with this id' using errcode = 'SL404', detail = 'merchant'; end if;
  if enable then
    perform from app.chain c where c.chain = of_chain;
    if not found then
      raise exception '% cannot be enabled: Sluice does not run this chain (it runs %)', of_chain,
        (select string_agg(c.chain, ', ' order by c.chain) from app.chain c) using errcode = 'SL422';
    end if;
    insert into app.merchant_chain as m (merchant_id, chain) values (of_merchant, of_chain)
    on conflict (merchant_id, chain) do update set enabled = true, changed_at = clock_timestamp() where not m.enabled;
  else
    update app.merchant_chain m set enabled = false, changed_at = clock_timestamp()
    where m.merchant_id = of_merchant and m.chain = of_chain and m.enabled;
  end if;
end $$;
comment on function app.set_merchant_chain is 'Enables or disables a chain for a merchant. Existing addresses stay watched and credited either way.';

create function app.create_merchant(name text, prefix text, chains text[], fee_bps int) returns uuid
language plpgsql security definer set search_path = pg_catalog as $$
declare
  merchant uuid;
  of_chain text;
begin
  if coalesce(trim(name), '') = '' then raise exception 'a merchant needs a name' using errcode = 'SL422'; end if;
  if prefix is null or prefix !~ '^[a-z0-9]{2,12}$' then
    raise exception 'the prefix must be 2 to 12 lower-case letters and digits' using errcode = 'SL422';
  end if;
  if fee_bps is null or fee_bps not between 0 and 10000 then
    raise exception 'the fee must be 0 to 10000 basis points' using errcode = 'SL422';
  end if;
  insert into app.merchant as m (name, prefix, fee_bps) values (create_merchant.name, create_merchant.prefix, create_merchant.fee_bps)
  on conflict do nothing returning m.id into merchant;
  if merchant is null then raise exception 'the prefix % belongs to another merchant', prefix using errcode = 'SL422'; end if;
  foreach of_chain in array coalesce(chains, '{}') loop
    perform app.set_merchant_chain(merchant, of_chain, true);
  end loop;
  return merchant;
end $$;
comment on function app.create_merchant is 'Makes a merchant account with these chains enabled; returns its id.';

create function app.create_api_key(of_merchant uuid, secret_hash bytea) returns uuid
language plpgsql security definer set search_path = pg_catalog as $$
declare key uuid;
begin
  perform from app.merchant m where m.id = of_merchant;
  if not found then raise exception 'there is no merchant with this id' using errcode = 'SL404', detail = 'merchant'; end if;
  if octet_length(secret_hash) is distinct from 32 then
    raise exception 'the hash of a key has 32 bytes (SHA-256)' using errcode = 'SL422';
  end if;
  insert into app.api_key as k (merchant_id, secret_hash) values (of_merchant, create_api_key.secret_hash) returning k.id into key;
  return key;
end $$;
comment on function app.create_api_key is 'Stores the SHA-256 of a new key (sk_ and 43 base64url characters, the prefix included); returns the id of the key.';

create function app.revoke_api_key(key uuid) returns void
language plpgsql security definer set search_path = pg_catalog as $$
begin
  update app.api_key k set revoked_at = coalesce(k.revoked_at, clock_timestamp()) where k.id = key;
  if not found then raise exception 'there is no key with this id' using errcode = 'SL404', detail = 'api_key'; end if;
end $$;
comment on function app.revoke_api_key is 'Ends a key, in every API process at once. Revoking it again changes nothing.';

-- Users and addresses -----------------------------------------------------------------------------------------------------------------

-- Gives a user, whose row the caller has locked, an address on each of the chains. Chains of one family share the address of the first one
-- that was asked for.
create function app.add_addresses(of_merchant uuid, of_user uuid, chains text[]) returns void
language plpgsql set search_path = pg_catalog as $$
declare
  refused text;
  of_family text;
begin
  select string_agg(asked, ', ' order by asked) into refused from unnest(chains) as a (asked)
  where not exists (select from app.merchant_chain m where m.merchant_id = of_merchant and m.chain = asked and m.enabled);
  if refused is not null then
    raise exception 'not enabled for this account: %', refused using errcode = 'SLCHN';
  end if;
  for of_family in
    select distinct c.family from app.chain c where c.chain = any(chains)
      and not exists (select from app.address a where a.user_id = of_user and a.chain = c.chain)
  loop
    perform app.take_address(of_merchant, of_user, of_family);
  end loop;
  update app.address a set is_provisioned = true where a.user_id = of_user and a.chain = any(chains) and not a.is_provisioned;
end $$;

-- Hands out the oldest free address of a family: the user's for ever, and watched on every chain of the family from now on. Where the
-- user has one of this family already (a chain was added to the family since), that one is watched on the missing chains.
create function app.take_address(of_merchant uuid, of_user uuid, of_family text) returns void
language plpgsql set search_path = pg_catalog as $$
declare taken text;
begin
  select a.address into taken from app.address a join app.chain c using (chain) where a.user_id = of_user and c.family = of_family limit 1;
  if taken is null then
    update app.pool_address p set taken_at = clock_timestamp()
    where p.address = (
      select f.address from app.pool_address f where f.family = of_family and f.taken_at is null
      order by f.derivation_index limit 1 for update skip locked)
    returning p.address into taken;
    if taken is null then raise exception 'no free % address in the pool', of_family using errcode = 'SL503'; end if;
  end if;
  insert into app.address (chain, match_key, address, user_id, merchant_id, is_provisioned)
  select c.chain, case of_family when 'evm' then lower(taken) else taken end, taken, of_user, of_merchant, false
  from app.chain c where c.family = of_family
  on conflict do nothing;
end $$;

-- The addresses that a user was given, as the API shows them.
create function app.addresses_of(of_user uuid) returns json
language sql stable set search_path = pg_catalog as $$
  select coalesce(json_agg(a order by chain), '[]')
  from (select chain, address from app.address where user_id = of_user and is_provisioned) a
$$;

-- Idempotent on (merchant, external_ref). chains null: all that are enabled. Addresses that are missing are added.
create function app.provision_user(of_merchant uuid, of_external_ref text, chains text[], out created boolean, out body text)
language plpgsql security definer set search_path = pg_catalog as $$
declare of_user uuid;
begin
  select u.id into of_user from app.user u where u.merchant_id = of_merchant and u.external_ref = of_external_ref for no key update;
  created := false;
  if of_user is null then
    insert into app.user as u (merchant_id, external_ref) values (of_merchant, of_external_ref)
    on conflict do nothing returning u.id into of_user; -- waits for a twin that is being made beside this one
    created := found;
  end if;
  if of_user is null then
    select u.id into strict of_user from app.user u where u.merchant_id = of_merchant and u.external_ref = of_external_ref for no key update;
  end if;
  perform app.add_addresses(of_merchant, of_user, coalesce(chains,
    array(select m.chain from app.merchant_chain m where m.merchant_id = of_merchant and m.enabled)));
  select row_to_json(u) into body from (
    select app.public_id('usr', of_user) as id, of_external_ref as external_ref, app.addresses_of(of_user) as addresses) u;
end $$;
comment on function app.provision_user is 'Finds or makes the user with this reference and gives it an address on each chain.';

create function app.provision_addresses(of_merchant uuid, of_user uuid, chains text[], out created boolean, out body text)
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
comment on function app.provision_addresses is 'Gives a user an address on each chain where it has none yet.';

create function app.set_payout_address(of_merchant uuid, of_chain text, of_address text) returns text
language plpgsql security definer set search_path = pg_catalog as $$
begin
  perform from app.merchant_chain m where m.merchant_id = of_merchant and m.chain = of_chain and m.enabled;
  if not found then raise exception 'not enabled for this account: %', of_chain using errcode = 'SLCHN'; end if;
  perform where exists (select from app.pool_address p where p.address = of_address)
    or exists (select from app.address a where a.chain = of_chain and a.match_key in (of_address, lower(of_address)) and a.address = of_address);
  if found then
    raise exception 'this address belongs to this service; payouts go to an address of your own' using errcode = 'SL422';
  end if;
  insert into app.payout_address (merchant_id, chain, address) values (of_merchant, of_chain, of_address)
  on conflict (merchant_id, chain) do update set address = excluded.address, updated_at = clock_timestamp();
  return (select row_to_json(p) from (select of_chain as chain, of_address as address) p);
end $$;
comment on function app.set_payout_address is 'Registers where payouts of a chain go. The address comes checked and in its display form.';

-- Webhook endpoints -------------------------------------------------------------------------------------------------------------------

-- whsec_ and 192 random bits, from two random UUIDs (122 random bits each) by way of SHA-256.
create function app.new_webhook_secret() returns text
language sql volatile set search_path = pg_catalog
return 'whsec_' || encode(substring(sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())) from 1 for 24), 'base64');

-- Locks an endpoint that this merchant has, and returns it.
create function app.own_webhook_endpoint(of_merchant uuid, endpoint uuid) returns app.webhook_endpoint
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

create function app.refuse_disabled(endpoint app.webhook_endpoint) returns void
language plpgsql set search_path = pg_catalog as $$
begin
  if endpoint.disabled_at is not null then
    raise exception 'the endpoint is disabled (%); enable it first', endpoint.disabled_reason using errcode = 'SL422';
  end if;
end $$;

create function app.check_webhook(url text, event_types text[]) returns void
language plpgsql set search_path = pg_catalog as $$
begin
  if url !~* '^https?://[^/?#@[:space:][:cntrl:]\\]+([/?#][^[:space:][:cntrl:]\\]*)?$' or length(url) > 2048 then
    raise exception 'the URL must be http or https, with no user name in it, and at most 2048 characters' using errcode = 'SL422';
  end if;
  if event_types = '{}' or not event_types
    <@ array['deposit.pending', 'deposit.confirmed', 'deposit.reorged', 'payout.completed', 'payout.failed'] then
    raise exception 'event types are deposit.pending, deposit.confirmed, deposit.reorged, payout.completed and payout.failed' using errcode = 'SL422';
  end if;
end $$;

-- event_types null: the four types of the contract.
create function app.create_webhook_endpoint(of_merchant uuid, url text, event_types text[] default null, out id uuid, out secret text)
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
comment on function app.create_webhook_endpoint is 'Makes a webhook endpoint; its secret is shown here and never again.';

-- Null leaves a value as it is. Disabling gives up what is on its way (app.redeliver_failed brings it back later).
create function app.update_webhook_endpoint(of_merchant uuid, endpoint uuid, url text, event_types text[], enable boolean) returns void
language plpgsql security definer set search_path = pg_catalog as $$
declare own app.webhook_endpoint := app.own_webhook_endpoint(of_merchant, endpoint);
begin
  perform app.check_webhook(coalesce(url, own.url), coalesce(event_types, own.event_types));
  update app.webhook_endpoint w set url = coalesce(update_webhook_endpoint.url, w.url),
    event_types = coalesce(update_webhook_endpoint.event_types, w.event_types)
  where w.id = own.id;
  if enable and own.disabled_at is not null then
    update app.webhook_endpoint w set disabled_at = null, disabled_reason = null, failing_since = null where w.id = own.id;
  elsif not enable and own.disabled_at is null then
    update app.webhook_endpoint w set disabled_at = clock_timestamp(), disabled_reason = 'merchant' where w.id = own.id;
    perform app.give_up_deliveries(own.id);
  end if;
end $$;
comment on function app.update_webhook_endpoint is 'Changes the URL, the event types, or whether an endpoint is enabled.';

create function app.give_up_deliveries(endpoint uuid) returns void
language sql set search_path = pg_catalog as $$
  update app.delivery set status = 'failed', next_attempt_at = null, finished_at = clock_timestamp()
  where endpoint_id = endpoint and status = 'pending'
$$;

create function app.delete_webhook_endpoint(of_merchant uuid, endpoint uuid) returns void
language plpgsql security definer set search_path = pg_catalog as $$
declare own app.webhook_endpoint := app.own_webhook_endpoint(of_merchant, endpoint);
begin
  update app.webhook_endpoint w set deleted_at = clock_timestamp() where w.id = own.id;
  perform app.give_up_deliveries(own.id);
end $$;
comment on function app.delete_webhook_endpoint is 'Deletes an endpoint: nothing more is sent to it. Its past deliveries stay in the database.';

create function app.rotate_webhook_secret(of_merchant uuid, endpoint uuid) returns text
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
comment on function app.rotate_webhook_secret is 'Makes a new secret; the one before it signs too for 24 hours. Returns the new one, which is never shown again.';

-- The event is an event of its own, of type webhook.test, whose subject is the endpoint; nobody can subscribe to it.
create function app.test_webhook(of_merchant uuid, endpoint uuid) returns uuid
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

create function app.redeliver(of_merchant uuid, endpoint uuid, delivery uuid) returns void
language plpgsql security definer set search_path = pg_catalog as $$
declare own app.webhook_endpoint := app.own_webhook_endpoint(of_merchant, endpoint);
begin
  perform from app.delivery d where d.id = delivery and d.endpoint_id = own.id;
  if not found then
    raise exception 'there is no delivery with this id' using errcode = 'SL404', detail = 'webhook_delivery';
  end if;
  perform app.refuse_disabled(own);
  update app.delivery d set status = 'pending', attempts = 0, next_attempt_at = clock_timestamp(), finished_at = null where d.id = delivery;
  perform app.enqueue('deliver_webhooks');
end $$;
comment on function app.redeliver is 'Sends an event to an endpoint again, now, with the whole schedule of retries before it.';

create function app.redeliver_failed(of_merchant uuid, endpoint uuid, since timestamptz) returns int
language plpgsql security definer set search_path = pg_catalog as $$
declare
  own app.webhook_endpoint := app.own_webhook_endpoint(of_merchant, endpoint);
  redelivered int;
begin
  perform app.refuse_disabled(own);
  update app.delivery d set status = 'pending', attempts = 0, next_attempt_at = clock_timestamp(), finished_at = null
  where d.endpoint_id = own.id and d.status = 'failed' and d.created_at >= since;
  get diagnostics redelivered = row_count;
  if redelivered > 0 then perform app.enqueue('deliver_webhooks'); end if;
  return redelivered;
end $$;
comment on function app.redeliver_failed is 'Sends every event again whose delivery failed and that happened at or after a time; returns how many.';

create index delivery_failed_page on app.delivery (endpoint_id, id desc) where status = 'failed';

grant select on app.chain to sluice_api, sluice_jobs;
grant select on app.delivery, app.delivery_attempt, app.event to sluice_api;
grant select (id, merchant_id, url, event_types, previous_secret_expires_at, disabled_at, disabled_reason, failing_since, created_at, deleted_at)
  on app.webhook_endpoint to sluice_api; -- all but the secrets, which only the worker reads
grant execute on function app.provision_user, app.provision_addresses, app.set_payout_address,
  app.create_webhook_endpoint, app.update_webhook_endpoint, app.delete_webhook_endpoint, app.rotate_webhook_secret, app.test_webhook,
  app.redeliver, app.redeliver_failed to sluice_api;

-- What /metrics and /readyz tell ------------------------------------------------------------------------------------------------------

-- The tables of graphile_worker let only their owner in (see app.enqueue).
create function app.oldest_due_job_age_seconds() returns double precision
language plpgsql security definer set search_path = pg_catalog as $$
begin
  return (select coalesce(extract(epoch from clock_timestamp() - min(run_at)), 0) from graphile_worker._private_jobs
    where is_available and locked_at is null and run_at <= clock_timestamp());
end $$;
comment on function app.oldest_due_job_age_seconds is 'For how long the job that is due longest has been waiting; 0 if none is.';
grant create on schema app to sluice_jobs;
alter function app.oldest_due_job_age_seconds owner to sluice_jobs;
revoke create on schema app from sluice_jobs;

create function app.metrics() returns table (metric text, chain text, value double precision)
language plpgsql stable security definer set search_path = pg_catalog as $$
begin
  return query
    select m.metric, c.chain, m.value from chain.cursor c cross join lateral (values
      ('sluice_chain_head_height', c.head_height::double precision),
      ('sluice_chain_final_height', c.final_height::double precision),
      ('sluice_chain_head_age_seconds', extract(epoch from clock_timestamp() - c.head_time)),
      ('sluice_chain_halted', (c.halted_at is not null)::int::double precision)) m (metric, value)
    union all
    select 'sluice_deposits_pending', c.chain, count(d.id) from chain.cursor c
    left join app.deposit d on d.chain = c.chain and d.status = 'pending' group by c.chain
    union all
    select 'sluice_incidents_open', c.chain, count(i.id) from chain.cursor c
    left join app.incident i on i.chain = c.chain and i.resolved_at is null group by c.chain
    union all
    select 'sluice_oldest_due_job_age_seconds', null, app.oldest_due_job_age_seconds()
    union all
    select 'sluice_webhook_deliveries_pending', null, count(*) from app.delivery d where d.status = 'pending'
    union all
    select 'sluice_webhook_endpoints_failing', null, count(*) from app.webhook_endpoint w where w.failing_since is not null and w.deleted_at is null;
end $$;
comment on function app.metrics is 'What /metrics says about the database, by Prometheus name.';

-- One row per chain that a merchant has enabled or an indexer has ever followed.
create view app.chain_state with (security_barrier) as
select c.chain, exists (select from app.merchant_chain m where m.chain = c.chain and m.enabled) as enabled,
  k.head_height, k.final_height, extract(epoch from clock_timestamp() - k.head_time) as head_age_seconds,
  extract(epoch from clock_timestamp() - k.head_moved_at) as head_moved_seconds_ago, k.halted_at is not null as halted
from app.chain c left join chain.cursor k on k.chain = c.chain;
comment on view app.chain_state is 'Where each chain that Sluice can run stands now.';
comment on column app.chain_state.chain is 'Chain code.';
comment on column app.chain_state.enabled is 'True if a merchant has it enabled.';
comment on column app.chain_state.head_height is 'Newest indexed block; null if the chain was never followed.';
comment on column app.chain_state.final_height is 'Everything at or below this height is final.';
comment on column app.chain_state.head_age_seconds is 'Age of the newest indexed block by its own timestamp.';
comment on column app.chain_state.head_moved_seconds_ago is 'How long ago a block was indexed.';
comment on column app.chain_state.halted is 'True while it stands still for an operator.';

grant select on app.chain_state to sluice_api;
grant execute on function app.metrics to sluice_api;

-- The API's statements are made so that one plan suits all values: planning each anew cost more than running it (measured). That plan must
-- not rest on how many rows an average merchant has: pages come from the index that has their order, never from sorting what the busiest
-- merchant owns. And a statement that runs for longer than this is one too many.
alter role sluice_api set plan_cache_mode = force_generic_plan;
alter role sluice_api set enable_sort = off;
alter role sluice_api set jit = off;
alter role sluice_api set statement_timeout = '10s';
