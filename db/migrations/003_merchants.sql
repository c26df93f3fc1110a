-- Merchants, their keys, users and addresses.
--
-- Writers: the command line (merchants, keys), the API (users, addresses, payout addresses; through functions), custody (the address
-- pool). Readers: the API, the indexers (app.address), settling.
--
-- Invariants: an address belongs to one user for ever; an EVM address is watched on every EVM chain from the moment it is handed out.

-- These three are inlined into the statements that use them, which settling needs for its speed: PostgreSQL does so only if nothing in
-- the body is more volatile than the function is declared to be.
create function app.public_id(prefix text, id uuid) returns text
language sql immutable parallel safe
return prefix || '_' || encode(uuid_send(id), 'hex');
comment on function app.public_id is 'The form in which merchants see an id: prefix, underscore, 32 hex digits.';

create function app.decimal(amount numeric, decimals int) returns text
language sql immutable parallel safe
return trim_scale(amount * case decimals when 18 then 1e-18 when 6 then 1e-6 else ('1e-' || decimals::text)::numeric end)::text;
comment on function app.decimal is 'An amount in base units as an exact decimal string without trailing zeros.';

create function app.iso(at timestamptz) returns text
language sql stable parallel safe -- to_json writes ISO 8601 faster than to_char; the microsecond keeps it from dropping trailing zeros
return substr(to_json(date_trunc('milliseconds', at at time zone 'UTC') + interval '1 microsecond')::text, 2, 23) || 'Z';
comment on function app.iso is 'ISO 8601 in UTC with milliseconds.';

create table app.asset (
  chain text not null,
  token text not null,
  name text not null unique,
  display_name text not null,
  decimals int not null,
  primary key (chain, token)
);
comment on table app.asset is 'The (chain, token) pairs that are credited. Kept equal to chains/registry.ts by every migration run.';
comment on column app.asset.chain is 'Chain code.';
comment on column app.asset.token is 'Token code.';
comment on column app.asset.name is 'Name of the asset in payment requests.';
comment on column app.asset.display_name is 'Name for people.';
comment on column app.asset.decimals is 'Digits after the decimal point: amounts in tables are in units of 10^-decimals.';

create table app.merchant (
  id uuid primary key default uuidv7(),
  name text not null,
  prefix text not null unique check (prefix ~ '^[a-z0-9]{2,12}$'),
  fee_bps int not null check (fee_bps between 0 and 10000),
  created_at timestamptz not null default clock_timestamp()
);
comment on table app.merchant is 'A merchant account.';
comment on column app.merchant.id is 'Id; shown as mer_ and 32 hex digits.';
comment on column app.merchant.name is 'Name for people.';
comment on column app.merchant.prefix is 'Account prefix of payment-request references. Never changes.';
comment on column app.merchant.fee_bps is 'Service fee in basis points (1/100 of a percent) of the gross balance.';
comment on column app.merchant.created_at is 'When the account was made.';

create table app.merchant_chain (
  merchant_id uuid not null references app.merchant,
  chain text not null,
  enabled boolean not null default true,
  changed_at timestamptz not null default clock_timestamp(),
  primary key (merchant_id, chain)
);
comment on table app.merchant_chain is 'Chains that were ever enabled for a merchant.';
comment on column app.merchant_chain.merchant_id is 'The merchant.';
comment on column app.merchant_chain.chain is 'Chain code.';
comment on column app.merchant_chain.enabled is 'False after it was disabled: no new addresses; existing ones are still watched and credited.';
comment on column app.merchant_chain.changed_at is 'When it was enabled or disabled last.';

create table app.api_key (
  id uuid primary key default uuidv7(),
  merchant_id uuid not null references app.merchant,
  secret_hash bytea not null unique,
  created_at timestamptz not null default clock_timestamp(),
  revoked_at timestamptz
);
create index api_key_merchant on app.api_key (merchant_id);
comment on table app.api_key is 'API keys. The secret itself is shown once and never stored.';
comment on column app.api_key.id is 'Id; shown as key_ and 32 hex digits.';
comment on column app.api_key.merchant_id is 'The merchant that the key acts for.';
comment on column app.api_key.secret_hash is 'SHA-256 of the secret, which has 256 random bits.';
comment on column app.api_key.created_at is 'When the key was made.';
comment on column app.api_key.revoked_at is 'When it stopped working; null while it works.';

create function app.announce_revocation() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
begin
  perform pg_notify('api_key_revoked', encode(new.secret_hash, 'hex'));
  return null;
end $$;
create trigger announce_revocation after update of revoked_at on app.api_key
  for each row when (new.revoked_at is not null) execute function app.announce_revocation();

create table app.user (
  id uuid primary key default uuidv7(),
  merchant_id uuid not null references app.merchant,
  external_ref text not null,
  seq bigint not null generated always as identity,
  created_at timestamptz not null default clock_timestamp(),
  unique (merchant_id, external_ref)
);
create index user_page on app.user (merchant_id, seq desc);
comment on table app.user is 'An end user of a merchant.';
comment on column app.user.id is 'Id; shown as usr_ and 32 hex digits.';
comment on column app.user.merchant_id is 'The merchant.';
comment on column app.user.external_ref is 'The merchant''s own id of the user.';
comment on column app.user.seq is 'Order of creation, for pages.';
comment on column app.user.created_at is 'When the user was made.';

create table app.address (
  chain text not null,
  match_key text not null,
  address text not null,
  user_id uuid not null references app.user,
  merchant_id uuid not null,
  is_provisioned boolean not null,
  created_at timestamptz not null default clock_timestamp(),
  primary key (chain, match_key)
);
create index address_user on app.address (user_id);
comment on table app.address is 'Addresses that are watched, and whose they are.';
comment on column app.address.chain is 'Chain on which it is watched.';
comment on column app.address.match_key is 'The address as indexers look it up: lower case on EVM chains, unchanged elsewhere.';
comment on column app.address.address is 'The address as people see it (EIP-55 on EVM chains).';
comment on column app.address.user_id is 'The user that it was handed out for.';
comment on column app.address.merchant_id is 'The user''s merchant.';
comment on column app.address.is_provisioned is 'True if the merchant asked for this chain: deposits are credited. False if it is watched only because the same key controls it here: what arrives is unattributed.';
comment on column app.address.created_at is 'When it was handed out on this chain.';

create table app.pool_address (
  address text primary key,
  family text not null,
  derivation_index bigint not null,
  created_at timestamptz not null default clock_timestamp(),
  taken_at timestamptz,
  unique (family, derivation_index)
);
create index pool_address_free on app.pool_address (family, derivation_index) where taken_at is null;
comment on table app.pool_address is 'Every address that custody ever derived, in order; those that are not taken wait for a user.';
comment on column app.pool_address.address is 'The address as people see it.';
comment on column app.pool_address.family is 'Family of chains on which the address is valid, such as evm.';
comment on column app.pool_address.derivation_index is 'Index in the derivation path, so that the seed restores it.';
comment on column app.pool_address.created_at is 'When custody derived it.';
comment on column app.pool_address.taken_at is 'When it was handed out; null while it waits. Never handed out twice.';

create table app.payout_address (
  merchant_id uuid not null references app.merchant,
  chain text not null,
  address text not null,
  updated_at timestamptz not null default clock_timestamp(),
  primary key (merchant_id, chain)
);
comment on table app.payout_address is 'Where a merchant wants payouts of a chain to go.';
comment on column app.payout_address.merchant_id is 'The merchant.';
comment on column app.payout_address.chain is 'Chain code.';
comment on column app.payout_address.address is 'The address, as people see it.';
comment on column app.payout_address.updated_at is 'When it was registered or changed last.';

grant select on app.asset, app.merchant, app.merchant_chain, app.user, app.address to sluice_api, sluice_jobs;
grant select on app.api_key, app.payout_address to sluice_api;
grant select on app.address to sluice_indexer;
grant select on app.pool_address to sluice_custody;
grant insert on app.pool_address to sluice_custody;
grant execute on function app.public_id, app.decimal, app.iso to sluice_api, sluice_jobs;
grant execute on function app.public_id to sluice_analyst;
