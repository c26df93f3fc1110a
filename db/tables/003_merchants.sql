-- Merchants and what belongs to them: accounts, keys, users, watched addresses, payout addresses. Also the existing chains and tokens.
--
-- Writers: each migration run (app.chain and app.asset, from chains/registry.ts and families.ts) and each start of the service (the smallest
-- payouts, from the settings); the command line (accounts, their chains, keys); the API (users, addresses, payout addresses, idempotency keys, the
-- day of a key's last use), through functions; custody (the addresses of treasuries, and merchants that an older copy of the database had
-- forgotten).
-- Readers: the API, chain.derive, the indexers (app.address), the worker, analysts through views.
--
-- Invariants:
--   * an address belongs to one user or to one payment request, for ever, or to no merchant, and then it is a treasury. From the moment that it is
--     handed out it is watched on every chain of its family, where the same key controls it;
--   * while an account is suspended none of its keys works, including keys made meanwhile. That touches nothing else: deposits are credited, payouts
--     under way end, webhooks are delivered, pages of payment requests are shown;
--   * nothing here is ever deleted.
-- Locks, always in this order: merchant, user, address of the pool (custody.address).

-- Everything that SQL must know about a chain is here. No function or view asks which chain it is, or which family.
create table app.chain (
  chain text primary key,
  family text not null,
  native_token text not null,
  attempts_exclude_by text not null check (attempts_exclude_by in ('nonce', 'output', 'expiry')),
  ends_by text check (ends_by in ('height', 'time')),
  longest_lifetime bigint check (longest_lifetime > 0),
  longest_lifetime_ms bigint check (longest_lifetime_ms > 0),
  shows_unconfirmed boolean not null,
  coinbase_sender text,
  coinbase_maturity int check (coinbase_maturity > 0),
  folds_addresses boolean not null,
  assets jsonb,
  constraint coinbase check (num_nulls(coinbase_sender, coinbase_maturity) <> 1)
);
comment on table app.chain is 'The chains that Sluice can run, from chains/registry.ts and their families (chains/families.ts): every migration run adds new ones.';
comment on column app.chain.family is 'Chains of one family share their addresses: a key controls the same address on each of them.';
comment on column app.chain.native_token is 'Token code of the native coin, in which network fees are paid.';
comment on column app.chain.attempts_exclude_by is 'What all attempts of an outgoing payment use, so that at most one of them is ever mined. nonce: the same nonce of an account. output: the same output, their first input (app.outgoing_payment.first_input). expiry: nothing; each attempt ends, and the next is signed only when the ones before can never be mined. Never changes.';
comment on column app.chain.ends_by is 'Where attempts expire: whether the last block that may hold one is given by its height, or by the time of the blocks (in ms). Never changes.';
comment on column app.chain.longest_lifetime is 'Where attempts expire: the most blocks, or ms by the time of the blocks, from the newest block when one is signed to its end.';
comment on column app.chain.longest_lifetime_ms is 'Where attempts expire: by this many ms after one is signed the chain is past its end, unless it stands still.';
comment on column app.chain.shows_unconfirmed is 'Whether its indexer shows payments that are in no block yet (chain.unconfirmed), and is notified of each new address at once.';
comment on column app.chain.coinbase_sender is 'What its indexer writes as the sender of new coins; null if they do not come as transfers of a transaction.';
comment on column app.chain.coinbase_maturity is 'How many blocks above theirs nodes wait until new coins may be spent; null if there are none.';
comment on column app.chain.folds_addresses is 'Whether upper and lower case make no difference in an address; it is then looked up in lower case (app.match_key). The same for all chains of a family. Never changes.';
comment on column app.chain.assets is 'Its assets as the settings of the last migration run name them: [{token, decimals, contract}]. A process with other settings does not start. Null before a run with settings.';
grant select on app.chain to sluice_api, sluice_custody, sluice_indexer, sluice_jobs;

create table app.asset (
  chain text not null,
  token text not null,
  name text not null unique,
  display_name text not null,
  decimals int not null,
  min_payout numeric(78, 0) not null default 1,
  min_payment numeric(78, 0) not null default 1,
  max_payment numeric(78, 0) not null default 10::numeric ^ 77 - 1,
  primary key (chain, token)
);
comment on table app.asset is 'The (chain, token) pairs that are credited, from chains/registry.ts: every migration run updates them.';
comment on column app.asset.name is 'Name of the asset in payment requests.';
comment on column app.asset.display_name is 'Name for people.';
comment on column app.asset.decimals is 'Digits after the decimal point: amounts in tables are in units of 10^-decimals. Never changes.';
comment on column app.asset.min_payment is 'The smallest amount that an address without coins can receive, in base units.';
comment on column app.asset.max_payment is 'No payment can be more, in base units: there are no more coins, or the chain cannot count them.';
comment on column app.asset.min_payout is 'The smallest net amount of a payout, in base units: the setting <chain>_MIN_PAYOUT, but at least the smallest amount that the chain carries.';
grant select on app.asset to sluice_api, sluice_custody, sluice_jobs;

create table app.merchant (
  id uuid primary key default uuidv7(),
  name text not null,
  prefix text not null unique check (prefix ~ '^[a-z0-9]{2,12}$'),
  fee_bps int not null check (fee_bps between 0 and 10000),
  created_at timestamptz not null default clock_timestamp(),
  suspended_at timestamptz
);
comment on table app.merchant is 'A merchant account.';
comment on column app.merchant.id is 'Id; shown as mer_ and 32 hex digits.';
comment on column app.merchant.name is 'Name for people.';
comment on column app.merchant.prefix is 'Account prefix of payment-request references. Never changes.';
comment on column app.merchant.fee_bps is 'Service fee in basis points (1/100 of a percent) of the gross balance.';
comment on column app.merchant.created_at is 'When the account was made.';
comment on column app.merchant.suspended_at is 'Since when its keys do not work; null while they do.';
grant select on app.merchant to sluice_api, sluice_jobs;

create table app.merchant_chain (
  merchant_id uuid not null references app.merchant,
  chain text not null,
  enabled boolean not null default true,
  changed_at timestamptz not null default clock_timestamp(),
  primary key (merchant_id, chain)
);
comment on table app.merchant_chain is 'Chains that were ever enabled for a merchant.';
comment on column app.merchant_chain.enabled is 'False after it was disabled: no new addresses; existing ones are still watched and credited.';
comment on column app.merchant_chain.changed_at is 'When it was last enabled or disabled.';
grant select on app.merchant_chain to sluice_api, sluice_jobs;

create table app.api_key (
  id uuid primary key default uuidv7(),
  merchant_id uuid not null references app.merchant,
  secret_hash bytea not null unique,
  created_at timestamptz not null default clock_timestamp(),
  revoked_at timestamptz,
  label text check (char_length(label) between 1 and 100),
  last_used_on date,
  scopes text[] not null default '{read,users,payouts,payments,webhooks}'
    check (scopes <@ '{read,users,payouts,payments,webhooks}' and cardinality(scopes) > 0)
);
create index api_key_merchant on app.api_key (merchant_id);
comment on table app.api_key is 'API keys. The secret itself is shown once and never stored.';
comment on column app.api_key.id is 'Id; shown as key_ and 32 hex digits.';
comment on column app.api_key.merchant_id is 'The merchant that the key acts for.';
comment on column app.api_key.secret_hash is 'SHA-256 of the secret, which has 256 random bits.';
comment on column app.api_key.created_at is 'When the key was made.';
comment on column app.api_key.revoked_at is 'When it stopped working; null while it works.';
comment on column app.api_key.label is 'What it is for, in the operator''s words; null if not given.';
comment on column app.api_key.scopes is 'What it may do. read: every GET. users, payouts (with payout addresses), payments (payment requests), webhooks (endpoints): the changes of each. Never changes.';
comment on column app.api_key.last_used_on is 'The newest day (UTC) on which a request came with it; null if none ever did.';
grant select on app.api_key to sluice_api;

create table app.user (
  id uuid primary key default uuidv7(),
  merchant_id uuid not null references app.merchant,
  external_ref text not null,
  seq bigint not null generated always as identity,
  created_at timestamptz not null default clock_timestamp(),
  metadata jsonb not null default '{}',
  unique (merchant_id, external_ref)
);
-- Pages of a merchant's users, the newest first.
create index user_page on app.user (merchant_id, seq desc);
-- Users are stored in the order of their time. For analysts.
create index user_created on app.user using brin (created_at timestamptz_minmax_multi_ops) with (autosummarize = on);
comment on table app.user is 'An end user of a merchant.';
comment on column app.user.id is 'Id; shown as usr_ and 32 hex digits.';
comment on column app.user.external_ref is 'The merchant''s own id of the user.';
comment on column app.user.seq is 'Order of creation, for pages.';
comment on column app.user.metadata is 'What the merchant notes about the user: an object of strings.';
comment on column app.user.created_at is 'When the user was made.';
grant select on app.user to sluice_api, sluice_jobs;

-- Indexers look recipients up here, by the primary key, in the transaction that writes the blocks. So an address that was handed out a moment before
-- its first deposit is found. An address with a merchant has a user or a payment request, never both (one_owner); an address without a merchant is a
-- treasury.
create table app.address (
  chain text not null,
  match_key text not null,
  address text not null,
  user_id uuid references app.user,
  merchant_id uuid,
  is_provisioned boolean not null,
  created_at timestamptz not null default clock_timestamp(),
  payment_request_id uuid,
  primary key (chain, match_key),
  constraint one_owner check (num_nonnulls(user_id, payment_request_id) = num_nonnulls(merchant_id))
);
create index address_user on app.address (user_id);
-- A payment request has one address on each chain.
create unique index address_payment_request on app.address (payment_request_id, chain) where payment_request_id is not null;
comment on table app.address is 'Addresses that are watched, and their owners.';
comment on column app.address.chain is 'Chain on which it is watched.';
comment on column app.address.match_key is 'The address as indexers look it up (app.match_key): in lower case where that makes no difference (app.chain.folds_addresses).';
comment on column app.address.address is 'The address as people see it (EIP-55 on EVM chains).';
comment on column app.address.user_id is 'The user that it was handed out for; null for the address of a payment request or a treasury.';
comment on column app.address.merchant_id is 'The merchant that it was handed out to; null for a treasury.';
comment on column app.address.is_provisioned is 'True if the merchant asked for this chain: deposits are credited (at a payment request''s address, in its token alone). False if it is watched only because the same key controls it here: what arrives is unattributed.';
comment on column app.address.created_at is 'When it was handed out on this chain.';
comment on column app.address.payment_request_id is 'The payment request that it was handed out for; null for the address of a user or a treasury.';
grant select on app.address to sluice_api, sluice_indexer, sluice_jobs;

create table app.payout_address (
  merchant_id uuid not null references app.merchant,
  chain text not null,
  address text not null,
  updated_at timestamptz not null default clock_timestamp(),
  primary key (merchant_id, chain)
);
comment on table app.payout_address is 'Where a merchant wants payouts of a chain to go.';
comment on column app.payout_address.address is 'The address, as people see it.';
comment on column app.payout_address.updated_at is 'When it was registered or last changed.';
grant select on app.payout_address to sluice_api, sluice_jobs;

-- Inserted before its payout, in the same transaction: of two requests with one key the second waits for the first.
create table app.idempotency_key (
  merchant_id uuid not null references app.merchant,
  key text not null,
  request_hash bytea not null,
  payout_id uuid,
  body text,
  created_at timestamptz not null default clock_timestamp(),
  primary key (merchant_id, key)
);
comment on table app.idempotency_key is 'Idempotency keys of payouts that were accepted, for ever.';
comment on column app.idempotency_key.key is 'The key.';
comment on column app.idempotency_key.request_hash is 'SHA-256 of the request that came with it.';
comment on column app.idempotency_key.payout_id is 'The payout that it made; null only within the transaction that makes it.';
comment on column app.idempotency_key.body is 'The response that was given, and is given again; null only within the transaction that makes the payout.';
comment on column app.idempotency_key.created_at is 'When it was first used.';
