-- The schema as all migrations leave it. Written by npm run snapshot; never edited.

-- Views for data analysts: stable names, exact decimal amounts, times in UTC.
create schema analytics;

-- What each merchant could be paid out now, for each chain and token: the final deposits that no payout has collected. Exact at every moment; pairs without any are left out.
create view analytics.balances with (security_barrier=true) as
 SELECT app.public_id('mer'::text, b.merchant_id) AS merchant_id,
    m.name AS merchant_name,
    m.prefix AS merchant_prefix,
    b.chain,
    b.token,
    analytics.coins(b.amount, a.decimals) AS gross,
    b.amount AS gross_base_units,
    m.fee_bps,
    analytics.coins(f.fee, a.decimals) AS fee,
    analytics.coins(b.amount - f.fee, a.decimals) AS net,
    b.deposit_count
   FROM app.balance_now b
     JOIN app.merchant m ON m.id = b.merchant_id
     JOIN app.asset a ON a.chain = b.chain AND a.token = b.token
     CROSS JOIN LATERAL ( SELECT div(GREATEST(b.amount, 0::numeric) * m.fee_bps::numeric, 10000::numeric) AS fee) f;
--   merchant_id text: Id of the merchant.
--   merchant_name text: Name of the merchant.
--   merchant_prefix text: The merchant's account prefix.
--   chain text: Chain code.
--   token text: Token code.
--   gross numeric: Sum of the deposits, in whole coins, exact.
--   gross_base_units numeric: The same sum as an integer in the smallest unit of the token.
--   fee_bps integer: The merchant's service fee in basis points (1/100 of a percent).
--   fee numeric: The fee that a payout of the whole balance would keep, in whole coins; rounded down to the smallest unit, none on a balance below zero.
--   net numeric: gross minus fee: what such a payout would send.
--   deposit_count bigint: Number of deposits in the balance.

-- Where each chain stands now, and how far behind. A chain that was never followed has nulls.
create view analytics.chain_lag with (security_barrier=true) as
 SELECT c.chain,
    k.head_height,
    k.head_time,
    round(EXTRACT(epoch FROM now() - k.head_time), 3) AS head_seconds_behind,
    k.final_height,
    f."time" AS final_time,
    round(EXTRACT(epoch FROM now() - f."time"), 3) AS final_seconds_behind,
    k.head_height - k.final_height AS final_blocks_behind,
    k.last_reorg_at,
    k.last_reorg_depth,
    k.halted_at IS NOT NULL AS is_halted,
    k.halted_at
   FROM app.chain c
     LEFT JOIN chain.cursor k ON k.chain = c.chain
     LEFT JOIN chain.block f ON f.chain = c.chain AND f.height = k.final_height;
--   chain text: Chain code.
--   head_height integer: Height of the newest block that was read.
--   head_time timestamp with time zone: Timestamp of that block.
--   head_seconds_behind numeric: Seconds since that timestamp. Up to the time between two blocks is normal; more means that the indexer or its node lags.
--   final_height integer: Height of the newest final block: deposits up to it are final.
--   final_time timestamp with time zone: Timestamp of that block.
--   final_seconds_behind numeric: Seconds since that timestamp: about how long a deposit takes to become final now.
--   final_blocks_behind integer: Blocks between the newest final block and the newest block.
--   last_reorg_at timestamp with time zone: When blocks last left the chain; null if that never happened.
--   last_reorg_depth integer: How many blocks left the chain then.
--   is_halted boolean: True while the chain stands still until an operator decides about a reorganisation below the final block; null if it was never followed.
--   halted_at timestamp with time zone: Since when it stands still; null if it does not.

-- Deposits of each UTC day by merchant, chain and token. Reorged deposits do not count; days without deposits have no row.
create view analytics.daily_volume with (security_barrier=true) as
 SELECT (d.created_at AT TIME ZONE 'UTC'::text)::date AS day,
    app.public_id('mer'::text, m.id) AS merchant_id,
    m.name AS merchant_name,
    m.prefix AS merchant_prefix,
    d.chain,
    d.token,
    count(*) AS deposit_count,
    analytics.coins(sum(d.amount), a.decimals) AS amount,
    sum(d.amount) AS amount_base_units,
    count(*) FILTER (WHERE d.status = 'final'::text) AS final_count,
    analytics.coins(COALESCE(sum(d.amount) FILTER (WHERE d.status = 'final'::text), 0::numeric), a.decimals) AS final_amount
   FROM app.deposit d
     JOIN app.merchant m ON m.id = d.merchant_id
     JOIN app.asset a ON a.chain = d.chain AND a.token = d.token
  WHERE d.credited AND d.status <> 'reorged'::text
  GROUP BY ((d.created_at AT TIME ZONE 'UTC'::text)::date), m.id, d.chain, d.token, a.decimals;
--   day date: The day, in UTC, on which Sluice first saw the deposits (created_at). A deposit never moves to another day.
--   merchant_id text: Id of the merchant.
--   merchant_name text: Name of the merchant.
--   merchant_prefix text: The merchant's account prefix.
--   chain text: Chain code.
--   token text: Token code.
--   deposit_count bigint: Number of deposits, pending and final.
--   amount numeric: Their sum in whole coins, exact.
--   amount_base_units numeric: The same sum as an integer in the smallest unit of the token.
--   final_count bigint: How many of them are final.
--   final_amount numeric: The sum of those, in whole coins; the rest is still pending.

-- One row for each deposit that counts, or will count, for a merchant. What arrived on a chain or in a token that was not asked for is in analytics.unattributed.
create view analytics.deposits with (security_barrier=true) as
 SELECT app.public_id('dep'::text, d.id) AS deposit_id,
    app.public_id('mer'::text, d.merchant_id) AS merchant_id,
    m.name AS merchant_name,
    m.prefix AS merchant_prefix,
    app.public_id('usr'::text, d.user_id) AS user_id,
    u.external_ref AS user_external_ref,
    d.chain,
    d.token,
    analytics.coins(d.amount, a.decimals) AS amount,
    d.amount AS amount_base_units,
    d.status,
    d.sender,
    d.address,
    d.txid,
    d.output_index,
    d.block_height,
    d.block_hash,
    t.block_time,
    d.created_at,
    d.finalised_at,
    round(EXTRACT(epoch FROM d.finalised_at - t.block_time), 3) AS seconds_to_final,
    app.public_id('pay'::text, d.settlement_id) AS settlement_id
   FROM app.deposit d
     JOIN app.merchant m ON m.id = d.merchant_id
     JOIN app."user" u ON u.id = d.user_id
     JOIN app.asset a ON a.chain = d.chain AND a.token = d.token
     LEFT JOIN chain.transfer t ON t.id = ((((d.chain || ':'::text) || d.txid) || ':'::text) || d.output_index) AND t.recipient = d.address AND t.block_hash = d.block_hash
  WHERE d.credited;
--   deposit_id text: Id of the deposit, as in the API.
--   merchant_id text: Id of the merchant.
--   merchant_name text: Name of the merchant.
--   merchant_prefix text: The merchant's account prefix: short, unique, never changes.
--   user_id text: Id of the end user whose address it is, as in the API.
--   user_external_ref text: The merchant's own id of that user.
--   chain text: Chain code, such as ETH.
--   token text: Token code, such as USDC. Amounts of different tokens cannot be added up.
--   amount numeric: Amount in whole coins of the token, exact.
--   amount_base_units numeric(78,0): The same amount as an integer in the smallest unit of the token (wei, for ether).
--   status text: pending: seen in a block that may still leave the chain. final: counts for the merchant. reorged: its block left the chain, nothing was received.
--   sender text: Address that the value came from.
--   address text: The user's address that it arrived at.
--   txid text: Transaction id on the chain.
--   output_index integer: Position inside the transaction; one transaction can hold several deposits.
--   block_height integer: Height of the block that holds it, or last held it.
--   block_hash text: Hash of that block.
--   block_time timestamp with time zone: Timestamp of that block; null while no block of the chain holds the deposit.
--   created_at timestamp with time zone: When Sluice first saw it. Later than block_time by the lag of the indexer.
--   finalised_at timestamp with time zone: When it became final; null if it is not.
--   seconds_to_final numeric: Seconds from block_time to finalised_at; null where one of them is.
--   settlement_id text: Id of the payout that collected it, as in the API; null until then.

-- How long deposits took from the timestamp of their block until they were final, for each chain and UTC day. For other groups and longer times take percentiles of analytics.deposits.seconds_to_final: percentiles of days cannot be averaged.
create view analytics.time_to_finality with (security_barrier=true) as
 SELECT (d.finalised_at AT TIME ZONE 'UTC'::text)::date AS day,
    d.chain,
    count(*) AS deposit_count,
    min(s.seconds) AS seconds_min,
    percentile_disc(0.5::double precision) WITHIN GROUP (ORDER BY s.seconds) AS seconds_p50,
    percentile_disc(0.95::double precision) WITHIN GROUP (ORDER BY s.seconds) AS seconds_p95,
    max(s.seconds) AS seconds_max
   FROM app.deposit d
     JOIN chain.transfer t ON t.id = ((((d.chain || ':'::text) || d.txid) || ':'::text) || d.output_index) AND t.recipient = d.address AND t.block_hash = d.block_hash
     CROSS JOIN LATERAL ( SELECT round(EXTRACT(epoch FROM d.finalised_at - t.block_time), 3) AS seconds) s
  WHERE d.credited AND d.status = 'final'::text
  GROUP BY ((d.finalised_at AT TIME ZONE 'UTC'::text)::date), d.chain;
--   day date: The day, in UTC, on which the deposits became final.
--   chain text: Chain code.
--   deposit_count bigint: Number of deposits.
--   seconds_min numeric: The shortest time, in seconds.
--   seconds_p50 numeric: The median: half of the deposits took at most this long, in seconds.
--   seconds_p95 numeric: 95 of 100 deposits took at most this long, in seconds.
--   seconds_max numeric: The longest time, in seconds. High after a standstill: what the indexer lagged is part of it.

-- Value that reached an address of ours and counts for nobody: a token that is not supported, or a chain that the merchant did not ask an address for. Never part of a balance.
create view analytics.unattributed with (security_barrier=true) as
 SELECT app.public_id('dep'::text, d.id) AS deposit_id,
    app.public_id('mer'::text, d.merchant_id) AS merchant_id,
    m.name AS merchant_name,
    m.prefix AS merchant_prefix,
    app.public_id('usr'::text, d.user_id) AS user_id,
    u.external_ref AS user_external_ref,
        CASE
            WHEN a.token IS NULL THEN 'unsupported_token'::text
            WHEN NOT w.is_provisioned THEN 'chain_not_requested'::text
            ELSE 'enabled_later'::text
        END AS reason,
    d.chain,
    d.token,
    analytics.coins(d.amount, a.decimals) AS amount,
    d.amount AS amount_base_units,
    d.status,
    d.sender,
    d.address,
    d.txid,
    d.output_index,
    d.block_height,
    d.created_at,
    d.finalised_at
   FROM app.deposit d
     JOIN app.merchant m ON m.id = d.merchant_id
     JOIN app."user" u ON u.id = d.user_id
     LEFT JOIN app.address w ON w.chain = d.chain AND w.address = d.address AND (w.match_key = d.address OR w.match_key = lower(d.address))
     LEFT JOIN app.asset a ON a.chain = d.chain AND a.token = d.token
  WHERE NOT d.credited;
--   deposit_id text: Id of the row; the API does not know it.
--   merchant_id text: Id of the merchant whose user's address it is.
--   merchant_name text: Name of the merchant.
--   merchant_prefix text: The merchant's account prefix.
--   user_id text: Id of the end user whose address it is.
--   user_external_ref text: The merchant's own id of that user.
--   reason text: unsupported_token; chain_not_requested: the merchant has no address of this user on this chain; enabled_later: token and chain are fine now, but were not when it arrived, and nothing is credited afterwards.
--   chain text: Chain code.
--   token text: Token code; the contract address where the token is not supported.
--   amount numeric: Amount in whole coins; null where the token is not supported, because its decimals are not known.
--   amount_base_units numeric(78,0): Amount as an integer in the smallest unit of the token.
--   status text: pending, final or reorged, as of a deposit.
--   sender text: Address that the value came from.
--   address text: The user's address that it arrived at.
--   txid text: Transaction id on the chain.
--   output_index integer: Position inside the transaction.
--   block_height integer: Height of the block that holds it, or last held it.
--   created_at timestamp with time zone: When Sluice first saw it.
--   finalised_at timestamp with time zone: When it became final; null if it is not.

-- An amount in base units as the exact number of whole coins of a token with so many decimals; null if they are not known.
CREATE OR REPLACE FUNCTION analytics.coins(amount_base_units numeric, decimals integer)
 RETURNS numeric
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN trim_scale((amount_base_units * (('1e-'::text || (decimals)::text))::numeric));

-- Merchants, users, deposits, balances, events and webhooks: what follows from the chains, and what merchants asked for.
create schema app;

-- Addresses that are watched, and whose they are.
create table app.address (
  chain text not null, -- Chain on which it is watched.
  match_key text not null, -- The address as indexers look it up: lower case on EVM chains, unchanged elsewhere.
  address text not null, -- The address as people see it (EIP-55 on EVM chains).
  user_id uuid not null, -- The user that it was handed out for.
  merchant_id uuid not null, -- The user's merchant.
  is_provisioned boolean not null, -- True if the merchant asked for this chain: deposits are credited. False if it is watched only because the same key controls it here: what arrives is unattributed.
  created_at timestamp with time zone not null default clock_timestamp(), -- When it was handed out on this chain.
  constraint address_pkey PRIMARY KEY (chain, match_key),
  constraint address_user_id_fkey FOREIGN KEY (user_id) REFERENCES app."user"(id)
);
CREATE INDEX address_user ON app.address USING btree (user_id);

-- API keys. The secret itself is shown once and never stored.
create table app.api_key (
  id uuid not null default uuidv7(), -- Id; shown as key_ and 32 hex digits.
  merchant_id uuid not null, -- The merchant that the key acts for.
  secret_hash bytea not null, -- SHA-256 of the secret, which has 256 random bits.
  created_at timestamp with time zone not null default clock_timestamp(), -- When the key was made.
  revoked_at timestamp with time zone, -- When it stopped working; null while it works.
  constraint api_key_pkey PRIMARY KEY (id),
  constraint api_key_merchant_id_fkey FOREIGN KEY (merchant_id) REFERENCES app.merchant(id),
  constraint api_key_secret_hash_key UNIQUE (secret_hash)
);
CREATE INDEX api_key_merchant ON app.api_key USING btree (merchant_id);
CREATE TRIGGER announce_revocation AFTER UPDATE OF revoked_at ON app.api_key FOR EACH ROW WHEN ((new.revoked_at IS NOT NULL)) EXECUTE FUNCTION app.announce_revocation();

-- The (chain, token) pairs that are credited. Kept equal to chains/registry.ts by every migration run.
create table app.asset (
  chain text not null, -- Chain code.
  token text not null, -- Token code.
  name text not null, -- Name of the asset in payment requests.
  display_name text not null, -- Name for people.
  decimals integer not null, -- Digits after the decimal point: amounts in tables are in units of 10^-decimals.
  constraint asset_pkey PRIMARY KEY (chain, token),
  constraint asset_name_key UNIQUE (name)
);

-- Folded balances; without app.balance_delta they are not complete. Read app.balance_now.
create table app.balance (
  merchant_id uuid not null, -- The merchant.
  chain text not null, -- Chain code.
  token text not null, -- Token code.
  amount numeric(78,0) not null, -- Gross balance in base units, but for the changes that are not folded yet.
  deposit_count bigint not null, -- Unsettled final deposits, but for the changes that are not folded yet.
  constraint balance_pkey PRIMARY KEY (merchant_id, chain, token)
);

-- Changes of balances that are not folded into app.balance yet. Written with the change that causes them.
create table app.balance_delta (
  id bigint not null generated always as identity, -- Order of insertion.
  merchant_id uuid not null, -- The merchant.
  chain text not null, -- Chain code.
  token text not null, -- Token code.
  amount numeric(78,0) not null, -- Change of the gross balance, in base units.
  deposit_count integer not null, -- Change of the number of unsettled final deposits.
  constraint balance_delta_pkey PRIMARY KEY (id)
);
CREATE INDEX balance_delta_pair ON app.balance_delta USING btree (merchant_id, chain, token);

-- The chains that Sluice can run. Kept equal to chains/registry.ts by every migration run.
create table app.chain (
  chain text not null, -- Chain code.
  family text not null, -- Chains of one family share their addresses: a key controls the same address on each of them.
  constraint chain_pkey PRIMARY KEY (chain)
);

-- One event on its way to one endpoint.
create table app.delivery (
  id uuid not null default uuidv7(), -- Id; shown as dlv_ and 32 hex digits.
  event_id uuid not null, -- The event.
  endpoint_id uuid not null, -- The endpoint.
  status text not null default 'pending'::text, -- pending until it succeeds (delivered) or every attempt is used up or the endpoint is disabled (failed).
  attempts integer not null default 0, -- Attempts of the present schedule; a redelivery starts again at 0.
  next_attempt_at timestamp with time zone default clock_timestamp(), -- When the next attempt is due; null when there will be none.
  created_at timestamp with time zone not null default clock_timestamp(), -- When the event happened.
  finished_at timestamp with time zone, -- When it was delivered or failed.
  constraint delivery_pkey PRIMARY KEY (id),
  constraint delivery_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'delivered'::text, 'failed'::text])))
);
CREATE INDEX delivery_due ON app.delivery USING btree (endpoint_id, next_attempt_at) WHERE (status = 'pending'::text);
CREATE INDEX delivery_failed ON app.delivery USING btree (endpoint_id, created_at) WHERE (status = 'failed'::text);
CREATE INDEX delivery_failed_page ON app.delivery USING btree (endpoint_id, id DESC) WHERE (status = 'failed'::text);
CREATE INDEX delivery_page ON app.delivery USING btree (endpoint_id, id DESC);

-- Each HTTP request that tried to deliver an event.
create table app.delivery_attempt (
  id bigint not null generated always as identity, -- Order of the attempts.
  delivery_id uuid not null, -- The delivery.
  attempted_at timestamp with time zone not null, -- When the request began.
  duration_ms integer not null, -- How long it took, in milliseconds.
  response_status integer, -- HTTP status of the answer; null if there was none.
  error text, -- Why it failed; null if it succeeded.
  constraint delivery_attempt_pkey PRIMARY KEY (id)
);
CREATE INDEX delivery_attempt_delivery ON app.delivery_attempt USING btree (delivery_id, id);

-- Value that reached an address of ours. Credited ones are deposits of a merchant; the others are unattributed: a token or a chain that was not asked for.
create table app.deposit (
  id uuid not null default uuidv7(), -- Id; shown as dep_ and 32 hex digits.
  seq bigint not null generated always as identity, -- Order in which deposits were first seen, for pages.
  merchant_id uuid not null, -- The merchant whose address it is.
  user_id uuid not null, -- The user whose address it is.
  chain text not null, -- Chain code.
  token text not null, -- Token code; a contract address where the token is not supported.
  amount numeric(78,0) not null, -- Amount in base units.
  sender text not null, -- Where the value came from.
  address text not null, -- Our address.
  txid text not null, -- Transaction id.
  output_index integer not null, -- Position inside the transaction (see chain.transfer).
  block_height integer not null, -- Block that holds it, or last held it.
  block_hash text not null, -- Hash of that block.
  status text not null, -- pending: in a block that may still leave the chain. final: counts. reorged: its block left the chain.
  credited boolean not null, -- True if it counts for the merchant; decided when it is first seen.
  version integer not null, -- Number of changes of status so far.
  settlement_id uuid, -- The payout that collected it; null until then.
  created_at timestamp with time zone not null default clock_timestamp(), -- When it was first seen.
  finalised_at timestamp with time zone, -- When it became final.
  constraint deposit_pkey PRIMARY KEY (id),
  constraint deposit_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'final'::text, 'reorged'::text]))),
  constraint deposit_txid_output_index_chain_address_token_key UNIQUE (txid, output_index, chain, address, token)
);
CREATE INDEX deposit_chain_page ON app.deposit USING btree (merchant_id, chain, seq DESC) WHERE credited;
CREATE INDEX deposit_page ON app.deposit USING btree (merchant_id, seq DESC) WHERE credited;
CREATE INDEX deposit_pending ON app.deposit USING btree (chain, block_height) WHERE (status = 'pending'::text);
CREATE INDEX deposit_status_page ON app.deposit USING btree (merchant_id, status, seq DESC) WHERE (credited AND (status <> 'final'::text));
CREATE INDEX deposit_uncredited ON app.deposit USING btree (chain, seq DESC) WHERE (NOT credited);
CREATE INDEX deposit_unsettled ON app.deposit USING btree (merchant_id, chain, token) INCLUDE (amount) WHERE ((status = 'final'::text) AND credited AND (settlement_id IS NULL));
CREATE INDEX deposit_user_page ON app.deposit USING btree (user_id, seq DESC) WHERE credited;
CREATE TRIGGER final_stays_final BEFORE UPDATE ON app.deposit FOR EACH ROW WHEN (((old.status = 'final'::text) AND ((new.status <> 'final'::text) OR (new.amount <> old.amount)) AND (current_setting('app.decided_by_operator'::text, true) IS DISTINCT FROM 'on'::text))) EXECUTE FUNCTION app.refuse_change();
CREATE TRIGGER never_another BEFORE UPDATE ON app.deposit FOR EACH ROW WHEN (((old.id <> new.id) OR (old.chain <> new.chain) OR (old.txid <> new.txid) OR (old.output_index <> new.output_index) OR (old.address <> new.address) OR (old.token <> new.token) OR (old.credited <> new.credited) OR ((old.status = 'reorged'::text) AND (new.status = 'final'::text)))) EXECUTE FUNCTION app.refuse_change();
CREATE TRIGGER never_deleted BEFORE DELETE ON app.deposit FOR EACH ROW EXECUTE FUNCTION app.refuse_change();

-- What happened, once for each change of state. Never changed, never deleted.
create table app.event (
  id uuid not null, -- Id; shown as evt_ and 32 hex digits. Receivers de-duplicate on it.
  "position" bigint not null generated always as identity, -- Order of insertion.
  sequence bigint, -- Order in which events became visible; gaps are allowed. Null for a moment after the commit.
  merchant_id uuid not null, -- The merchant that is told.
  type text not null, -- Type, such as deposit.confirmed.
  subject_id uuid not null, -- What changed: the id of the deposit.
  version integer not null, -- How many changes the subject has had, this one included.
  payload json not null, -- The body of the event but for its sequence.
  created_at timestamp with time zone not null, -- When it happened.
  constraint event_pkey PRIMARY KEY (id),
  constraint event_subject_id_version_key UNIQUE (subject_id, version)
);
CREATE UNIQUE INDEX event_page ON app.event USING btree (merchant_id, sequence DESC) WHERE (sequence IS NOT NULL);
CREATE INDEX event_type_page ON app.event USING btree (merchant_id, type, sequence DESC) WHERE (sequence IS NOT NULL);
CREATE INDEX event_unsequenced ON app.event USING btree ("position") WHERE (sequence IS NULL);

-- What must never happen and did, for an operator to decide: sluice incident list.
create table app.incident (
  id bigint not null generated always as identity, -- Number of the incident.
  chain text not null, -- Chain code.
  kind text not null, -- final_deposit_vanished, final_deposit_moved, final_deposit_changed, payment_replaced or fork_below_final.
  subject text not null, -- The id of the deposit, or the chain.
  details jsonb not null, -- What was seen.
  opened_at timestamp with time zone not null default clock_timestamp(), -- When it was noticed.
  resolved_at timestamp with time zone, -- When it was resolved; null while it is open.
  resolution text, -- healed (it went away by itself), reorged, kept, rewound or resumed (an operator decided).
  constraint incident_pkey PRIMARY KEY (id)
);
CREATE UNIQUE INDEX incident_open ON app.incident USING btree (subject, kind) WHERE (resolved_at IS NULL);

-- A merchant account.
create table app.merchant (
  id uuid not null default uuidv7(), -- Id; shown as mer_ and 32 hex digits.
  name text not null, -- Name for people.
  prefix text not null, -- Account prefix of payment-request references. Never changes.
  fee_bps integer not null, -- Service fee in basis points (1/100 of a percent) of the gross balance.
  created_at timestamp with time zone not null default clock_timestamp(), -- When the account was made.
  constraint merchant_pkey PRIMARY KEY (id),
  constraint merchant_fee_bps_check CHECK (((fee_bps >= 0) AND (fee_bps <= 10000))),
  constraint merchant_prefix_check CHECK ((prefix ~ '^[a-z0-9]{2,12}$'::text)),
  constraint merchant_prefix_key UNIQUE (prefix)
);

-- Chains that were ever enabled for a merchant.
create table app.merchant_chain (
  merchant_id uuid not null, -- The merchant.
  chain text not null, -- Chain code.
  enabled boolean not null default true, -- False after it was disabled: no new addresses; existing ones are still watched and credited.
  changed_at timestamp with time zone not null default clock_timestamp(), -- When it was enabled or disabled last.
  constraint merchant_chain_pkey PRIMARY KEY (merchant_id, chain),
  constraint merchant_chain_merchant_id_fkey FOREIGN KEY (merchant_id) REFERENCES app.merchant(id)
);

-- Where a merchant wants payouts of a chain to go.
create table app.payout_address (
  merchant_id uuid not null, -- The merchant.
  chain text not null, -- Chain code.
  address text not null, -- The address, as people see it.
  updated_at timestamp with time zone not null default clock_timestamp(), -- When it was registered or changed last.
  constraint payout_address_pkey PRIMARY KEY (merchant_id, chain),
  constraint payout_address_merchant_id_fkey FOREIGN KEY (merchant_id) REFERENCES app.merchant(id)
);

-- Every address that custody ever derived, in order; those that are not taken wait for a user.
create table app.pool_address (
  address text not null, -- The address as people see it.
  family text not null, -- Family of chains on which the address is valid, such as evm.
  derivation_index bigint not null, -- Index in the derivation path, so that the seed restores it.
  created_at timestamp with time zone not null default clock_timestamp(), -- When custody derived it.
  taken_at timestamp with time zone, -- When it was handed out; null while it waits. Never handed out twice.
  constraint pool_address_pkey PRIMARY KEY (address),
  constraint pool_address_family_derivation_index_key UNIQUE (family, derivation_index)
);
CREATE INDEX pool_address_free ON app.pool_address USING btree (family, derivation_index) WHERE (taken_at IS NULL);

-- An end user of a merchant.
create table app."user" (
  id uuid not null default uuidv7(), -- Id; shown as usr_ and 32 hex digits.
  merchant_id uuid not null, -- The merchant.
  external_ref text not null, -- The merchant's own id of the user.
  seq bigint not null generated always as identity, -- Order of creation, for pages.
  created_at timestamp with time zone not null default clock_timestamp(), -- When the user was made.
  constraint user_pkey PRIMARY KEY (id),
  constraint user_merchant_id_external_ref_key UNIQUE (merchant_id, external_ref),
  constraint user_merchant_id_fkey FOREIGN KEY (merchant_id) REFERENCES app.merchant(id)
);
CREATE INDEX user_page ON app."user" USING btree (merchant_id, seq DESC);

-- Where a merchant wants events to be delivered.
create table app.webhook_endpoint (
  id uuid not null default uuidv7(), -- Id; shown as whe_ and 32 hex digits.
  merchant_id uuid not null, -- The merchant.
  url text not null, -- URL that events are posted to.
  event_types text[] not null, -- Types of events that are delivered here.
  secret text not null, -- Secret that signs (Standard Webhooks, whsec_...).
  previous_secret text, -- The secret before the last rotation; signs too until it expires.
  previous_secret_expires_at timestamp with time zone, -- When the previous secret stops signing.
  disabled_at timestamp with time zone, -- When deliveries stopped; null while they go out.
  disabled_reason text, -- Why they stopped: merchant, gone (410) or failing (five days without a success).
  failing_since timestamp with time zone, -- Time of the first failure since the last success; null if the last attempt succeeded.
  created_at timestamp with time zone not null default clock_timestamp(), -- When it was made.
  deleted_at timestamp with time zone, -- When it was deleted; its past deliveries stay.
  constraint webhook_endpoint_pkey PRIMARY KEY (id),
  constraint webhook_endpoint_merchant_id_fkey FOREIGN KEY (merchant_id) REFERENCES app.merchant(id)
);
CREATE INDEX webhook_endpoint_merchant ON app.webhook_endpoint USING btree (merchant_id) WHERE (deleted_at IS NULL);
CREATE TRIGGER announce_disabled AFTER UPDATE ON app.webhook_endpoint FOR EACH ROW WHEN ((((old.disabled_at IS NULL) AND (new.disabled_at IS NOT NULL)) OR ((old.deleted_at IS NULL) AND (new.deleted_at IS NOT NULL)))) EXECUTE FUNCTION app.announce_disabled();

-- Balances that differ from the sum of their deposits. Always empty; a row is a bug.
create view app.balance_audit as
 SELECT merchant_id,
    chain,
    token,
    COALESCE(kept.amount, 0::numeric) AS kept_amount,
    COALESCE(counted.amount, 0::numeric) AS counted_amount,
    COALESCE(kept.deposit_count, 0::bigint) AS kept_count,
    COALESCE(counted.deposit_count, 0::bigint) AS counted_count
   FROM app.balance_now kept
     FULL JOIN ( SELECT deposit.merchant_id,
            deposit.chain,
            deposit.token,
            sum(deposit.amount) AS amount,
            count(*) AS deposit_count
           FROM app.deposit
          WHERE deposit.status = 'final'::text AND deposit.credited AND deposit.settlement_id IS NULL
          GROUP BY deposit.merchant_id, deposit.chain, deposit.token) counted USING (merchant_id, chain, token)
  WHERE COALESCE(kept.amount, 0::numeric) <> COALESCE(counted.amount, 0::numeric) OR COALESCE(kept.deposit_count, 0::bigint) <> COALESCE(counted.deposit_count, 0::bigint);
--   merchant_id uuid: The merchant.
--   chain text: Chain code.
--   token text: Token code.
--   kept_amount numeric: Gross balance as it is kept, in base units.
--   counted_amount numeric: Sum of the deposits, in base units.
--   kept_count bigint: Number of deposits as it is kept.
--   counted_count bigint: Number of deposits counted.

-- The exact balance of each merchant, chain and token: final deposits that no payout has collected.
create view app.balance_now with (security_barrier=true) as
 SELECT merchant_id,
    chain,
    token,
    sum(amount) AS amount,
    sum(deposit_count)::bigint AS deposit_count
   FROM ( SELECT balance.merchant_id,
            balance.chain,
            balance.token,
            balance.amount,
            balance.deposit_count
           FROM app.balance
        UNION ALL
         SELECT balance_delta.merchant_id,
            balance_delta.chain,
            balance_delta.token,
            balance_delta.amount,
            balance_delta.deposit_count
           FROM app.balance_delta) part
  GROUP BY merchant_id, chain, token
 HAVING sum(amount) <> 0::numeric OR sum(deposit_count) <> 0::numeric;
--   merchant_id uuid: The merchant.
--   chain text: Chain code.
--   token text: Token code.
--   amount numeric: Gross balance in base units.
--   deposit_count bigint: Number of deposits in it.

-- Where each chain that Sluice can run stands now.
create view app.chain_state with (security_barrier=true) as
 SELECT c.chain,
    (EXISTS ( SELECT
           FROM app.merchant_chain m
          WHERE m.chain = c.chain AND m.enabled)) AS enabled,
    k.head_height,
    k.final_height,
    EXTRACT(epoch FROM clock_timestamp() - k.head_time) AS head_age_seconds,
    EXTRACT(epoch FROM clock_timestamp() - k.head_moved_at) AS head_moved_seconds_ago,
    k.halted_at IS NOT NULL AS halted
   FROM app.chain c
     LEFT JOIN chain.cursor k ON k.chain = c.chain;
--   chain text: Chain code.
--   enabled boolean: True if a merchant has it enabled.
--   head_height integer: Newest indexed block; null if the chain was never followed.
--   final_height integer: Everything at or below this height is final.
--   head_age_seconds numeric: Age of the newest indexed block by its own timestamp.
--   head_moved_seconds_ago numeric: How long ago a block was indexed.
--   halted boolean: True while it stands still for an operator.

create sequence app.event_sequence as bigint;

-- An amount in base units as an exact decimal string without trailing zeros.
CREATE OR REPLACE FUNCTION app."decimal"(amount numeric, decimals integer)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN (trim_scale((amount * CASE decimals WHEN 18 THEN 0.000000000000000001 WHEN 6 THEN 0.000001 ELSE (('1e-'::text || (decimals)::text))::numeric END)))::text;

CREATE OR REPLACE FUNCTION app.add_addresses(of_merchant uuid, of_user uuid, chains text[])
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
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
end $function$;

CREATE OR REPLACE FUNCTION app.addresses_of(of_user uuid)
 RETURNS json
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select coalesce(json_agg(a order by chain), '[]')
  from (select chain, address from app.address where user_id = of_user and is_provisioned) a
$function$;

CREATE OR REPLACE FUNCTION app.announce_disabled()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
begin
  perform app.enqueue('fail_undeliverable');
  return null;
end $function$;

CREATE OR REPLACE FUNCTION app.announce_revocation()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
begin
  perform pg_notify('api_key_revoked', encode(new.secret_hash, 'hex'));
  return null;
end $function$;

CREATE OR REPLACE FUNCTION app.check_webhook(url text, event_types text[])
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
begin
  if url !~* '^https?://[^/?#@[:space:][:cntrl:]\\]+([/?#][^[:space:][:cntrl:]\\]*)?$' or length(url) > 2048 then
    raise exception 'the URL must be http or https, with no user name in it, and at most 2048 characters' using errcode = 'SL422';
  end if;
  if event_types = '{}' or not event_types
    <@ array['deposit.pending', 'deposit.confirmed', 'deposit.reorged', 'payout.completed', 'payout.failed'] then
    raise exception 'event types are deposit.pending, deposit.confirmed, deposit.reorged, payout.completed and payout.failed' using errcode = 'SL422';
  end if;
end $function$;

-- Stores the SHA-256 of a new key (sk_ and 43 base64url characters, the prefix included); returns the id of the key.
CREATE OR REPLACE FUNCTION app.create_api_key(of_merchant uuid, secret_hash bytea)
 RETURNS uuid
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare key uuid;
begin
  perform from app.merchant m where m.id = of_merchant;
  if not found then raise exception 'there is no merchant with this id' using errcode = 'SL404', detail = 'merchant'; end if;
  if octet_length(secret_hash) is distinct from 32 then
    raise exception 'the hash of a key has 32 bytes (SHA-256)' using errcode = 'SL422';
  end if;
  insert into app.api_key as k (merchant_id, secret_hash) values (of_merchant, create_api_key.secret_hash) returning k.id into key;
  return key;
end $function$;

-- Makes a merchant account with these chains enabled; returns its id.
CREATE OR REPLACE FUNCTION app.create_merchant(name text, prefix text, chains text[], fee_bps integer)
 RETURNS uuid
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
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
end $function$;

-- Makes a webhook endpoint; its secret is shown here and never again.
CREATE OR REPLACE FUNCTION app.create_webhook_endpoint(of_merchant uuid, url text, event_types text[] DEFAULT NULL::text[], OUT id uuid, OUT secret text)
 RETURNS record
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
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
end $function$;

-- Deletes an endpoint: nothing more is sent to it. Its past deliveries stay in the database.
CREATE OR REPLACE FUNCTION app.delete_webhook_endpoint(of_merchant uuid, endpoint uuid)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare own app.webhook_endpoint := app.own_webhook_endpoint(of_merchant, endpoint);
begin
  update app.webhook_endpoint w set deleted_at = clock_timestamp() where w.id = own.id;
  perform app.give_up_deliveries(own.id);
end $function$;

CREATE OR REPLACE FUNCTION app.emit_deposit_events(ids uuid[], types text[], versions integer[], tokens text[], amounts numeric[])
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
 SET plan_cache_mode TO 'force_custom_plan'
 SET random_page_cost TO '1.1'
AS $function$
begin
  if cardinality(ids) is null then return; end if;
  with step as materialized (
    select uuidv7() as event_id, clock_timestamp() as at, s.n, s.type, s.version, s.token, s.amount, a.decimals,
      d.id, d.merchant_id, d.user_id, u.external_ref, d.chain, d.txid
    from unnest(ids, types, versions, tokens, amounts) with ordinality as s (deposit_id, type, version, token, amount, n)
    join app.deposit d on d.id = s.deposit_id
    join app.user u on u.id = d.user_id
    join app.asset a on a.chain = d.chain and a.token = s.token
  ), event as (
    insert into app.event (id, merchant_id, type, subject_id, version, created_at, payload)
    select event_id, merchant_id, type, id, version, at, json_build_object(
      'type', type, 'id', app.public_id('evt', event_id), 'deposit_id', app.public_id('dep', id),
      'user', json_build_object('id', app.public_id('usr', user_id), 'external_ref', external_ref),
      'chain', chain, 'token', token, 'amount', app.decimal(amount, decimals), 'txid', txid, 'created_at', app.iso(at))
    from step order by n
  )
  insert into app.delivery (event_id, endpoint_id, status, next_attempt_at, finished_at)
  select s.event_id, w.id, case when w.disabled_at is null then 'pending' else 'failed' end,
    case when w.disabled_at is null then s.at end, case when w.disabled_at is not null then s.at end
  from step s join app.webhook_endpoint w on w.merchant_id = s.merchant_id and w.deleted_at is null and s.type = any(w.event_types)
  order by s.n;
  perform app.enqueue('deliver_webhooks');
end $function$;

-- Adds a job for graphile-worker; it becomes visible when the calling transaction commits.
CREATE OR REPLACE FUNCTION app.enqueue(task text, payload json DEFAULT '{}'::json, key text DEFAULT NULL::text)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
begin
  perform graphile_worker.add_job(task, payload, job_key := key);
end $function$;
alter function app.enqueue(text,json,text) owner to sluice_jobs;

-- The JSON body of an event: its payload and its sequence.
CREATE OR REPLACE FUNCTION app.event_body(payload json, sequence bigint)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN ((("left"((payload)::text, '-1'::integer) || ', "sequence" : '::text) || (sequence)::text) || '}'::text);

-- Fails pending deliveries of endpoints that are disabled or deleted. Safe to run at any time and in several places.
CREATE OR REPLACE FUNCTION app.fail_undeliverable(batch integer DEFAULT 2000)
 RETURNS integer
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare failed int;
begin
  with undeliverable as (
    select d.id from app.webhook_endpoint w
    cross join lateral (
      select id from app.delivery where endpoint_id = w.id and status = 'pending' limit batch for update skip locked
    ) d
    where w.disabled_at is not null or w.deleted_at is not null
    limit batch
  )
  update app.delivery d set status = 'failed', next_attempt_at = null, finished_at = clock_timestamp()
  from undeliverable u where d.id = u.id;
  get diagnostics failed = row_count;
  return failed;
end $function$;

-- Adds balance deltas to balances; returns how many. Safe to run at any time and in several places.
CREATE OR REPLACE FUNCTION app.fold_balances(batch integer DEFAULT 20000)
 RETURNS integer
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare folded int;
begin
  with gone as (
    delete from app.balance_delta where id in (select id from app.balance_delta order by id limit batch for update skip locked)
    returning merchant_id, chain, token, amount, deposit_count
  ), summed as (
    select merchant_id, chain, token, sum(amount) as amount, sum(deposit_count) as deposit_count, count(*) as deltas
    from gone group by merchant_id, chain, token order by merchant_id, chain, token
  ), stored as (
    insert into app.balance as b (merchant_id, chain, token, amount, deposit_count)
    select merchant_id, chain, token, amount, deposit_count from summed
    on conflict (merchant_id, chain, token) do update
      set amount = b.amount + excluded.amount, deposit_count = b.deposit_count + excluded.deposit_count
  )
  select coalesce(sum(deltas), 0) into folded from summed;
  return folded;
end $function$;

CREATE OR REPLACE FUNCTION app.give_up_deliveries(endpoint uuid)
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'pg_catalog'
AS $function$
  update app.delivery set status = 'failed', next_attempt_at = null, finished_at = clock_timestamp()
  where endpoint_id = endpoint and status = 'pending'
$function$;

-- ISO 8601 in UTC with milliseconds.
CREATE OR REPLACE FUNCTION app.iso(at timestamp with time zone)
 RETURNS text
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN (substr((to_json((date_trunc('milliseconds'::text, (at AT TIME ZONE 'UTC'::text)) + '00:00:00.000001'::interval)))::text, 2, 23) || 'Z'::text);

-- What /metrics says about the database, by Prometheus name.
CREATE OR REPLACE FUNCTION app.metrics()
 RETURNS TABLE(metric text, chain text, value double precision)
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
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
end $function$;

CREATE OR REPLACE FUNCTION app.new_webhook_secret()
 RETURNS text
 LANGUAGE sql
 SET search_path TO 'pg_catalog'
RETURN ('whsec_'::text || encode(SUBSTRING(sha256((uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()))) FROM 1 FOR 24), 'base64'::text));

-- For how long the job that is due longest has been waiting; 0 if none is.
CREATE OR REPLACE FUNCTION app.oldest_due_job_age_seconds()
 RETURNS double precision
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
begin
  return (select coalesce(extract(epoch from clock_timestamp() - min(run_at)), 0) from graphile_worker._private_jobs
    where is_available and locked_at is null and run_at <= clock_timestamp());
end $function$;
alter function app.oldest_due_job_age_seconds() owner to sluice_jobs;

CREATE OR REPLACE FUNCTION app.own_webhook_endpoint(of_merchant uuid, endpoint uuid)
 RETURNS app.webhook_endpoint
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
declare own app.webhook_endpoint;
begin
  select * into own from app.webhook_endpoint w
  where w.id = endpoint and w.merchant_id = of_merchant and w.deleted_at is null for no key update;
  if own.id is null then
    raise exception 'there is no webhook endpoint with this id' using errcode = 'SL404', detail = 'webhook_endpoint';
  end if;
  return own;
end $function$;

-- Gives a user an address on each chain where it has none yet.
CREATE OR REPLACE FUNCTION app.provision_addresses(of_merchant uuid, of_user uuid, chains text[], OUT created boolean, OUT body text)
 RETURNS record
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare before int;
begin
  perform from app.user u where u.id = of_user and u.merchant_id = of_merchant for no key update;
  if not found then raise exception 'there is no user with this id' using errcode = 'SL404', detail = 'user'; end if;
  before := (select count(*) from app.address a where a.user_id = of_user and a.is_provisioned);
  perform app.add_addresses(of_merchant, of_user, chains);
  created := before < (select count(*) from app.address a where a.user_id = of_user and a.is_provisioned);
  select row_to_json(u) into body from (
    select app.public_id('usr', of_user) as id, app.addresses_of(of_user) as addresses) u;
end $function$;

-- Finds or makes the user with this reference and gives it an address on each chain.
CREATE OR REPLACE FUNCTION app.provision_user(of_merchant uuid, of_external_ref text, chains text[], OUT created boolean, OUT body text)
 RETURNS record
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
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
end $function$;

-- The form in which merchants see an id: prefix, underscore, 32 hex digits.
CREATE OR REPLACE FUNCTION app.public_id(prefix text, id uuid)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN ((prefix || '_'::text) || encode(uuid_send(id), 'hex'::text));

-- Stores the results of webhook attempts and, where they say so, disables the endpoint.
CREATE OR REPLACE FUNCTION app.record_attempts(of_endpoint uuid, deliveries uuid[], numbers integer[], ages_ms integer[], durations_ms integer[], response_statuses integer[], errors text[], waits_ms bigint[])
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
 SET plan_cache_mode TO 'force_custom_plan'
AS $function$
declare
  at constant timestamptz := clock_timestamp();
  has_success boolean;
  first_failure timestamptz;
  is_gone boolean;
  reason text;
begin
  perform from app.webhook_endpoint w where w.id = of_endpoint for no key update; -- before its deliveries, as everybody locks them
  with result as materialized (
    select *, at - age_ms * interval '1 millisecond' as attempted_at
    from unnest(deliveries, numbers, ages_ms, durations_ms, response_statuses, errors, waits_ms) with ordinality
      as r (delivery_id, number, age_ms, duration_ms, response_status, error, wait_ms, n)
  ), recorded as (
    insert into app.delivery_attempt (delivery_id, attempted_at, duration_ms, response_status, error)
    select delivery_id, attempted_at, duration_ms, response_status, error from result order by n
  ), moved as (
    update app.delivery d set
      attempts = r.number,
      status = case when r.error is null then 'delivered' when r.wait_ms is null then 'failed' else 'pending' end,
      next_attempt_at = case when r.error is not null then at + r.wait_ms * interval '1 millisecond' end,
      finished_at = case when r.error is null or r.wait_ms is null then at end
    from result r where d.id = r.delivery_id and d.status = 'pending' and d.attempts = r.number - 1
  ), last_success as (
    select coalesce(max(n), 0) as n from result where error is null
  )
  select s.n > 0, min(r.attempted_at) filter (where r.n > s.n), bool_or(r.response_status is not distinct from 410)
  into has_success, first_failure, is_gone
  from result r cross join last_success s group by s.n;

  update app.webhook_endpoint w
  set failing_since = case when has_success then first_failure else coalesce(w.failing_since, first_failure) end
  where w.id = of_endpoint and w.failing_since is distinct from
    case when has_success then first_failure else coalesce(w.failing_since, first_failure) end;

  update app.webhook_endpoint w
  set disabled_at = at, disabled_reason = case when is_gone then 'gone' else 'failing' end, failing_since = null
  where w.id = of_endpoint and w.disabled_at is null
    and (is_gone or (first_failure is not null and w.failing_since < at - interval '5 days'))
  returning w.disabled_reason into reason;
  return reason;
end $function$;

-- Makes the jobs of dead workers available again. Safe to run at any time and in several places.
CREATE OR REPLACE FUNCTION app.recover_dead_pools(hung_after interval DEFAULT '00:00:30'::interval)
 RETURNS integer
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
declare
  dead text[];
  recovered int;
begin
  perform pg_terminate_backend(pid) from pg_stat_activity
  where application_name = 'sluice-jobs-liveness' and datname = current_database() and usename = current_user
    and pid <> pg_backend_pid() and state_change < clock_timestamp() - hung_after;

  select array_agg(pool) into dead from (
    select locked_by as pool from graphile_worker._private_jobs where locked_by is not null
    union
    select locked_by from graphile_worker._private_job_queues where locked_by is not null
  ) locking
  where not exists (
    select from pg_locks l
    where l.locktype = 'advisory' and l.granted and l.objsubid = 1
      and l.database = (select oid from pg_database where datname = current_database())
      and ((l.classid::bigint << 32) | l.objid::bigint) = hashtextextended(locking.pool, 0)
  );
  if dead is null then return 0; end if;
  select count(*) into recovered from graphile_worker._private_jobs where locked_by = any(dead);
  perform graphile_worker.force_unlock_workers(dead);
  return recovered;
end $function$;

-- Sends an event to an endpoint again, now, with the whole schedule of retries before it.
CREATE OR REPLACE FUNCTION app.redeliver(of_merchant uuid, endpoint uuid, delivery uuid)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare own app.webhook_endpoint := app.own_webhook_endpoint(of_merchant, endpoint);
begin
  perform from app.delivery d where d.id = delivery and d.endpoint_id = own.id;
  if not found then
    raise exception 'there is no delivery with this id' using errcode = 'SL404', detail = 'webhook_delivery';
  end if;
  perform app.refuse_disabled(own);
  update app.delivery d set status = 'pending', attempts = 0, next_attempt_at = clock_timestamp(), finished_at = null where d.id = delivery;
  perform app.enqueue('deliver_webhooks');
end $function$;

-- Sends every event again whose delivery failed and that happened at or after a time; returns how many.
CREATE OR REPLACE FUNCTION app.redeliver_failed(of_merchant uuid, endpoint uuid, since timestamp with time zone)
 RETURNS integer
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
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
end $function$;

CREATE OR REPLACE FUNCTION app.refuse_change()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
begin
  raise exception 'deposit %: % is not allowed (status % to %)', old.id, lower(tg_op), old.status, case when tg_op = 'UPDATE' then new.status end;
end $function$;

CREATE OR REPLACE FUNCTION app.refuse_disabled(endpoint app.webhook_endpoint)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
begin
  if endpoint.disabled_at is not null then
    raise exception 'the endpoint is disabled (%); enable it first', endpoint.disabled_reason using errcode = 'SL422';
  end if;
end $function$;

-- An operator's decision that a chain is read again from a height; its indexer carries it out.
CREATE OR REPLACE FUNCTION app.request_rewind(of_chain text, to_height integer)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
begin
  update chain.cursor c set rewind_to = to_height where c.chain = of_chain and to_height >= 0 and to_height <= c.head_height;
  if not found then raise exception '% is not followed, or its head is below %', of_chain, to_height using errcode = 'P0003'; end if;
end $function$;

-- An operator's decision about an incident: kept, or reorged to take a final deposit back.
CREATE OR REPLACE FUNCTION app.resolve_incident(incident_id bigint, decision text)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare
  incident app.incident;
  deposit app.deposit;
begin
  select * into incident from app.incident i where i.id = incident_id;
  perform from chain.cursor c where c.chain = incident.chain for update; -- before the incident, as settling does
  select * into incident from app.incident i where i.id = incident_id for update;
  if incident.id is null then raise exception 'no incident %', incident_id using errcode = 'P0002'; end if;
  if incident.resolved_at is not null then
    raise exception 'incident % is resolved already (%)', incident_id, incident.resolution using errcode = 'P0003';
  end if;
  if decision = 'reorged' then
    if incident.kind not like 'final_deposit_%' then
      raise exception 'incident % is about no deposit; it can only be kept', incident_id using errcode = 'P0003';
    end if;
    perform set_config('app.decided_by_operator', 'on', true);
    update app.deposit d set status = 'reorged', version = d.version + 1, finalised_at = null
    where d.id = incident.subject::uuid and d.status = 'final' returning * into strict deposit;
    perform set_config('app.decided_by_operator', '', true);
    if deposit.credited then
      if deposit.settlement_id is null then
        insert into app.balance_delta (merchant_id, chain, token, amount, deposit_count)
        values (deposit.merchant_id, deposit.chain, deposit.token, -deposit.amount, -1);
      end if;
      perform app.emit_deposit_events(array[deposit.id], array['deposit.reorged'], array[deposit.version], array[deposit.token], array[deposit.amount]);
    end if;
    -- What stands at its place on the chain now, another amount or another recipient, is settled anew.
    insert into chain.touched select pg_current_xact_id(), t.chain, t.id from chain.transfer t
    where t.id = deposit.chain || ':' || deposit.txid || ':' || deposit.output_index;
    insert into chain.touched_chain values (pg_current_xact_id(), deposit.chain) on conflict do nothing;
    update app.incident i set resolved_at = clock_timestamp(), resolution = 'reorged'
    where i.resolved_at is null and (i.subject = incident.subject
      or i.subject = deposit.chain || ':' || deposit.txid || ':' || deposit.output_index);
  else
    update app.incident i set resolved_at = clock_timestamp(), resolution = 'kept' where i.id = incident_id;
  end if;
end $function$;

-- An operator's decision that a halted chain goes on as it is.
CREATE OR REPLACE FUNCTION app.resume_chain(of_chain text)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
begin
  update chain.cursor c set halted_at = null where c.chain = of_chain;
  update app.incident i set resolved_at = clock_timestamp(), resolution = 'resumed'
  where i.chain = of_chain and i.kind = 'fork_below_final' and i.resolved_at is null;
end $function$;

-- Ends a key, in every API process at once. Revoking it again changes nothing.
CREATE OR REPLACE FUNCTION app.revoke_api_key(key uuid)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
begin
  update app.api_key k set revoked_at = coalesce(k.revoked_at, clock_timestamp()) where k.id = key;
  if not found then raise exception 'there is no key with this id' using errcode = 'SL404', detail = 'api_key'; end if;
end $function$;

-- Makes a new secret; the one before it signs too for 24 hours. Returns the new one, which is never shown again.
CREATE OR REPLACE FUNCTION app.rotate_webhook_secret(of_merchant uuid, endpoint uuid)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare
  own app.webhook_endpoint := app.own_webhook_endpoint(of_merchant, endpoint);
  new_secret text := app.new_webhook_secret();
begin
  update app.webhook_endpoint w set secret = new_secret, previous_secret = own.secret,
    previous_secret_expires_at = clock_timestamp() + interval '24 hours'
  where w.id = own.id;
  return new_secret;
end $function$;

-- Numbers committed events in the order in which they became visible. Safe to run at any time and in several places.
CREATE OR REPLACE FUNCTION app.sequence_events(batch integer DEFAULT 10000)
 RETURNS integer
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare sequenced int;
begin
  perform pg_advisory_xact_lock(hashtextextended('app.sequence_events', 0));
  with ready as materialized (
    select id, nextval('app.event_sequence') as sequence
    from (select id from app.event where sequence is null order by position limit batch) oldest_first
  )
  update app.event e set sequence = r.sequence from ready r where e.id = r.id;
  get diagnostics sequenced = row_count;
  return sequenced;
end $function$;

-- Enables or disables a chain for a merchant. Existing addresses stay watched and credited either way.
CREATE OR REPLACE FUNCTION app.set_merchant_chain(of_merchant uuid, of_chain text, enable boolean)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
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
end $function$;

-- Registers where payouts of a chain go. The address comes checked and in its display form.
CREATE OR REPLACE FUNCTION app.set_payout_address(of_merchant uuid, of_chain text, of_address text)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
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
end $function$;

CREATE OR REPLACE FUNCTION app.take_address(of_merchant uuid, of_user uuid, of_family text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
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
end $function$;

-- Sends an event of type webhook.test to one endpoint; returns the id of its delivery.
CREATE OR REPLACE FUNCTION app.test_webhook(of_merchant uuid, endpoint uuid)
 RETURNS uuid
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
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
end $function$;

-- Changes the URL, the event types, or whether an endpoint is enabled.
CREATE OR REPLACE FUNCTION app.update_webhook_endpoint(of_merchant uuid, endpoint uuid, url text, event_types text[], enable boolean)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
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
end $function$;

-- What the indexers saw on the chains. Written by the indexers only; every row is undone when its block leaves the chain.
create schema chain;

-- Blocks of each chain from the head down to the final one, and some below it. Finality compares these hashes with the node's.
create table chain.block (
  id text not null, -- <chain>:<height>.
  chain text not null, -- Chain code.
  height integer not null, -- Height of the block.
  hash text not null, -- Hash of the block.
  parent_hash text not null, -- Hash of the block one below; equals its hash here.
  "time" timestamp with time zone not null, -- Timestamp of the block.
  constraint block_pkey PRIMARY KEY (id),
  constraint block_chain_height_key UNIQUE (chain, height),
  constraint block_check CHECK ((id = ((chain || ':'::text) || height)))
);
CREATE TRIGGER note_delete AFTER DELETE ON chain.block REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION chain.note_blocks();

-- Where each chain stands: the newest indexed block and the newest final one.
create table chain.cursor (
  chain text not null, -- Chain code.
  network text not null, -- The network that is followed, as a CAIP-2 id such as eip155:11155111. A node of another network is refused.
  head_height integer not null, -- Height of the newest indexed block.
  head_hash text not null, -- Hash of the newest indexed block.
  head_time timestamp with time zone not null, -- Timestamp of the newest indexed block.
  head_moved_at timestamp with time zone not null default clock_timestamp(), -- When the newest block was indexed.
  final_height integer not null, -- Everything at or below this height is final.
  final_hash text not null, -- Hash of the block at the final height, as the node named it.
  final_moved_at timestamp with time zone not null default clock_timestamp(), -- When the final height last moved.
  last_reorg_at timestamp with time zone, -- When blocks last left the chain; null if that never happened.
  last_reorg_depth integer, -- How many blocks left the chain then.
  halted_at timestamp with time zone, -- Set while the chain stands still for an operator, after a reorganisation below the final block.
  rewind_to integer, -- Height that an operator asked the indexer to go back to; cleared when that is done.
  tracer text, -- Which of the node's tracers numbers internal calls on this chain (debug or trace); never changes once it is set.
  constraint cursor_pkey PRIMARY KEY (chain)
);

-- Blocks that a running transaction deleted; those that it does not insert again left the chain. Empty between transactions.
create unlogged table chain.dropped_block (
  txn xid8 not null, -- The transaction.
  chain text not null, -- Chain code.
  height integer not null, -- Height of the block.
  hash text not null -- Hash of the block.
);
CREATE INDEX dropped_block_txn ON chain.dropped_block USING btree (txn);

-- Transfers that a running transaction inserted, changed or deleted. Empty between transactions.
create unlogged table chain.touched (
  txn xid8 not null, -- The transaction.
  chain text not null, -- Chain code.
  id text not null -- Id of the transfer.
);
CREATE INDEX touched_txn ON chain.touched USING btree (txn);

-- Chains that a running transaction touched; each row makes one settlement at COMMIT. Empty between transactions.
create unlogged table chain.touched_chain (
  txn xid8 not null, -- The transaction.
  chain text not null, -- Chain code.
  constraint touched_chain_pkey PRIMARY KEY (txn, chain)
);
CREATE CONSTRAINT TRIGGER settle AFTER INSERT ON chain.touched_chain DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION chain.settle();

-- Value that reached an address of ours, in a block that is on the chain now. A row disappears when its block leaves the chain.
create table chain.transfer (
  id text not null, -- <chain>:<txid>:<output_index>.
  chain text not null, -- Chain code, such as ETH.
  txid text not null, -- Transaction id.
  output_index integer not null, -- Position inside the transaction. EVM chains: 0 the transaction's own value, 1 + n the n-th log, 1000000 + n the n-th internal call.
  block_height integer not null, -- Height of the block that holds the transaction.
  block_hash text not null, -- Hash of that block.
  block_time timestamp with time zone not null, -- Timestamp of that block.
  token text not null, -- Token code, such as USDC; the contract address where the token is not one that Sluice supports.
  amount numeric(78,0) not null, -- Amount in the smallest unit of the token (wei, for ether).
  sender text not null, -- Address that the value came from.
  recipient text not null, -- Our address that the value went to.
  constraint transfer_pkey PRIMARY KEY (id),
  constraint transfer_amount_check CHECK ((amount > (0)::numeric)),
  constraint transfer_check CHECK ((id = ((((chain || ':'::text) || txid) || ':'::text) || output_index)))
);
CREATE INDEX transfer_block ON chain.transfer USING btree (chain, block_height);
CREATE TRIGGER note_delete AFTER DELETE ON chain.transfer REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION chain.note_transfers();
CREATE TRIGGER note_insert AFTER INSERT ON chain.transfer REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION chain.note_transfers();
CREATE TRIGGER note_update AFTER UPDATE ON chain.transfer REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION chain.note_transfers();

-- Starts following a chain above a block that its node called final. Does nothing for a chain that is followed already.
CREATE OR REPLACE FUNCTION chain.anchor(of_chain text, network text, height integer, hash text, time_of_block timestamp with time zone)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
begin
  insert into chain.cursor (chain, network, head_height, head_hash, head_time, final_height, final_hash)
  values (of_chain, network, height, hash, time_of_block, height, hash) on conflict do nothing;
  if not found then return; end if;
  insert into chain.block (id, chain, height, hash, parent_hash, time)
  values (of_chain || ':' || height, of_chain, height, hash, '', time_of_block);
  execute format('insert into %I.status (id, height, hash) values (0, $1, $2)', 'squid_' || lower(of_chain)) using height, hash;
end $function$;

-- Moves finality to a block that the node calls final; true if that block is final here now.
CREATE OR REPLACE FUNCTION chain.finalize(of_chain text, height integer, hash text)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare at chain.cursor;
begin
  select * into at from chain.cursor c where c.chain = of_chain for update;
  if at.final_height >= height then return at.final_height > height or at.final_hash = hash; end if;
  if at.halted_at is not null then return false; end if;
  perform from chain.block b where b.chain = of_chain and b.height = $2 and b.hash = $3;
  if not found then return false; end if;
  update chain.cursor c set final_height = $2, final_hash = $3, final_moved_at = clock_timestamp() where c.chain = of_chain;
  delete from chain.block b where b.chain = of_chain and b.height < $2 - 1024; -- the rest serves to find a fork below final
  insert into chain.touched_chain values (pg_current_xact_id(), of_chain) on conflict do nothing;
  return true;
end $function$;

-- Stops a chain, with an incident, because the final block is not on the node's chain any more.
CREATE OR REPLACE FUNCTION chain.halt(of_chain text, details jsonb)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
begin
  update chain.cursor c set halted_at = clock_timestamp() where c.chain = of_chain and c.halted_at is null;
  insert into app.incident (chain, kind, subject, details) values (of_chain, 'fork_below_final', of_chain, details) on conflict do nothing;
end $function$;

-- Makes the tables in which an indexer keeps its place on a chain. Safe to run again.
CREATE OR REPLACE FUNCTION chain.install(of_chain text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
declare state text := 'squid_' || lower(of_chain);
begin
  if to_regnamespace(state) is not null then return; end if;
  execute format('create schema %I', state);
  execute format('comment on schema %I is %L', state, 'Bookkeeping of the indexer of ' || of_chain || ' (tables of Subsquid''s typeorm-store).');
  execute format('create table %I.status (id int4 primary key, height int4 not null, hash text default ''0x'', nonce int4 default 0)', state);
  execute format('create table %I.hot_block (height int4 primary key, hash text not null)', state);
  execute format('create table %I.hot_change_log (block_height int4 not null references %I.hot_block on delete cascade, '
    'index int4 not null, change jsonb not null, primary key (block_height, index))', state, state);
  execute format('create table %I.template_registry (key text not null, value text not null, type boolean not null, '
    'block_number int not null, height int not null, primary key (key, value, type, block_number, height))', state);
  execute format('create trigger note_status after update on %I.status for each row execute function chain.note_status(%L)', state, of_chain);
  execute format('grant usage on schema %I to sluice_indexer', state);
  execute format('grant select, insert, update, delete on all tables in schema %I to sluice_indexer', state);
end $function$;

CREATE OR REPLACE FUNCTION chain.note_blocks()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
begin
  insert into chain.dropped_block select pg_current_xact_id(), chain, height, hash from changed;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION chain.note_status()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
begin
  insert into chain.touched_chain values (pg_current_xact_id(), tg_argv[0]) on conflict do nothing;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION chain.note_transfers()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
begin
  insert into chain.touched select pg_current_xact_id(), chain, id from changed;
  insert into chain.touched_chain select distinct pg_current_xact_id(), chain from changed on conflict do nothing;
  return null;
end $function$;

-- Records which tracer numbers the internal calls of a chain, and refuses another one afterwards.
CREATE OR REPLACE FUNCTION chain.pin_tracer(of_chain text, tracer text)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare pinned text;
begin
  update chain.cursor c set tracer = coalesce(c.tracer, $2) where c.chain = of_chain returning c.tracer into pinned;
  if pinned <> $2 then
    raise exception '% was read with the tracer "%" and cannot go on with "%": set %_TRACES=%', of_chain, pinned, $2, of_chain, pinned
      using errcode = 'P0003';
  end if;
end $function$;

CREATE OR REPLACE FUNCTION chain.promote(of_chain text, final_height integer)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
 SET plan_cache_mode TO 'force_custom_plan'
AS $function$
declare
  ids uuid[];
  versions int[];
  tokens text[];
  amounts numeric[];
begin
  with promoted as (
    update app.deposit set status = 'final', version = version + 1, finalised_at = clock_timestamp()
    where chain = of_chain and status = 'pending' and block_height <= final_height
    returning id, merchant_id, token, amount, credited, settlement_id, version, block_height, txid, output_index
  ), counted as (
    insert into app.balance_delta (merchant_id, chain, token, amount, deposit_count)
    select merchant_id, of_chain, token, sum(amount), count(*) from promoted
    where credited and settlement_id is null -- one that was lost after a payout collected it is not counted again
    group by merchant_id, token
  ), ordered as (
    select *, row_number() over (order by block_height, txid, output_index) as n from promoted where credited
  )
  select array_agg(id order by n), array_agg(version order by n), array_agg(token order by n), array_agg(amount order by n)
  into ids, versions, tokens, amounts from ordered;
  perform app.emit_deposit_events(ids, array_fill('deposit.confirmed'::text, array[coalesce(cardinality(ids), 0)]), versions, tokens, amounts);
end $function$;

-- Forgets the blocks above a height, so that they are read again. Below the final height only where an operator asked for it.
CREATE OR REPLACE FUNCTION chain.rewind(of_chain text, to_height integer, to_hash text)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare at chain.cursor;
begin
  select * into strict at from chain.cursor c where c.chain = of_chain for update;
  if to_height < at.final_height and at.rewind_to is distinct from to_height then
    raise exception '%: % is below the final height %, and no operator asked for it (sluice chain rewind)', of_chain, to_height, at.final_height;
  end if;
  delete from chain.transfer t where t.chain = of_chain and t.block_height > to_height;
  delete from chain.block b where b.chain = of_chain and b.height > to_height;
  insert into chain.block (id, chain, height, hash, parent_hash, time)
  values (of_chain || ':' || to_height, of_chain, to_height, to_hash, '', clock_timestamp())
  on conflict (id) do update set hash = excluded.hash;
  execute format('delete from %I.hot_block', 'squid_' || lower(of_chain));
  if to_height < at.final_height then
    update chain.cursor c set final_height = to_height, final_hash = to_hash, final_moved_at = clock_timestamp() where c.chain = of_chain;
  end if;
  update app.incident i set resolved_at = clock_timestamp(), resolution = 'rewound'
  where i.chain = of_chain and i.kind = 'fork_below_final' and i.resolved_at is null and at.rewind_to is not null;
  update chain.cursor c set rewind_to = null, halted_at = null
  where c.chain = of_chain;
  execute format('update %I.status set height = $1, hash = $2, nonce = nonce + 1 where id = 0', 'squid_' || lower(of_chain)) using to_height, to_hash;
end $function$;

CREATE OR REPLACE FUNCTION chain.settle()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare
  at chain.cursor;
  head chain.block;
  reorg_depth int;
begin
  select * into at from chain.cursor c where c.chain = new.chain for update;
  if at.chain is not null then
    -- The store would follow a fork below the final block, too, as far down as it can undo. That is for an operator to decide.
    perform from chain.block b where b.chain = new.chain and b.height = at.final_height and b.hash = at.final_hash;
    if not found then
      raise exception '%: its final block % (%) would leave the chain; nothing was written', new.chain, at.final_height, at.final_hash
        using errcode = 'P0003';
    end if;
    perform chain.settle_transfers(new.chain);
    perform chain.promote(new.chain, at.final_height);
    select * into head from chain.block b where b.chain = new.chain order by b.height desc limit 1;
    update chain.cursor c set head_height = head.height, head_hash = head.hash, head_time = head.time, head_moved_at = clock_timestamp()
    where c.chain = new.chain and (c.head_height, c.head_hash) is distinct from (head.height, head.hash);
    with gone as (delete from chain.dropped_block where txn = new.txn and chain = new.chain returning height, hash)
    select count(*) into reorg_depth from gone g
    where g.height > at.final_height and not exists (
      select from chain.block b where b.id = new.chain || ':' || g.height and b.hash = g.hash
    );
    if reorg_depth > 0 then
      update chain.cursor c set last_reorg_at = clock_timestamp(), last_reorg_depth = reorg_depth where c.chain = new.chain;
    end if;
  end if;
  delete from chain.touched_chain where txn = new.txn and chain = new.chain;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION chain.settle_transfers(of_chain text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
 SET plan_cache_mode TO 'force_custom_plan'
 SET random_page_cost TO '1.1'
AS $function$
declare
  keys text[];
  ids uuid[];
  types text[];
  versions int[];
  tokens text[];
  amounts numeric[];
begin
  with gone as (delete from chain.touched where txn = pg_current_xact_id() and chain = of_chain returning id)
  select array_agg(distinct id) into keys from gone;
  if keys is null then return; end if;

  with key as (
    select id, split_part(id, ':', 2) as txid, split_part(id, ':', 3)::int as output_index from unnest(keys) as k (id)
  ), deposit as (
    select key.id as transfer_id, d.*
    from key cross join lateral (
      select * from app.deposit d where d.txid = key.txid and d.output_index = key.output_index and d.chain = of_chain offset 0
    ) d
  ), transfer as (
    select t.* from key cross join lateral (select * from chain.transfer t where t.id = key.id offset 0) t
  ), net as (
    select d.id as deposit_id, d.status, d.credited, d.version, t.id is not null as alive, d.transfer_id,
      d.amount is distinct from t.amount as changed,
      (d.block_height, d.block_hash) is distinct from (t.block_height, t.block_hash) as moved,
      d.amount as old_amount, t.txid, t.output_index, t.recipient, t.sender,
      coalesce(t.token, d.token) as token, coalesce(t.amount, d.amount) as amount,
      coalesce(t.block_height, d.block_height) as block_height, coalesce(t.block_hash, d.block_hash) as block_hash, t.id as live_id
    from deposit d full join transfer t on t.id = d.transfer_id and t.recipient = d.address and t.token = d.token
  ), held_back as ( -- something else is paid at a position that holds a final deposit: nobody is credited until an operator decides
    select n.* from net n
    where n.alive and (n.deposit_id is null or n.status = 'reorged')
      and exists (select from deposit d where d.transfer_id = n.live_id and d.status = 'final')
  ), created as (
    insert into app.deposit (chain, txid, output_index, address, merchant_id, user_id, token, amount, sender, block_height, block_hash,
      status, credited, version)
    select of_chain, n.txid, n.output_index, a.address, a.merchant_id, a.user_id, n.token, n.amount, n.sender, n.block_height, n.block_hash,
      'pending', a.is_provisioned and s.token is not null, 1
    from net n
    cross join lateral (
      select * from app.address a
      where a.chain = of_chain and a.match_key in (n.recipient, lower(n.recipient)) and a.address = n.recipient offset 0
    ) a
    left join app.asset s on s.chain = of_chain and s.token = n.token
    where n.deposit_id is null and not exists (select from held_back h where h.live_id = n.live_id)
    order by n.block_height, n.txid, n.output_index
    returning id, credited, version, block_height, txid, output_index, token, amount, amount as old_amount,
      array['deposit.pending'] as steps
  ), step as (
    select *, case
        when alive and status = 'reorged' then array['deposit.pending']
        when alive and status = 'pending' and changed then array['deposit.reorged', 'deposit.pending']
        when not alive and status = 'pending' then array['deposit.reorged']
        else '{}' end as steps
    from net n
    where deposit_id is not null and status <> 'final' and not exists (select from held_back h where h.deposit_id = n.deposit_id)
  ), updated as (
    update app.deposit d set
      status = case when s.alive then 'pending' else 'reorged' end, version = d.version + cardinality(s.steps),
      amount = s.amount, sender = coalesce(s.sender, d.sender), block_height = s.block_height, block_hash = s.block_hash
    from step s where d.id = s.deposit_id and (s.steps <> '{}' or (s.alive and s.moved))
    returning d.id, d.credited, d.version, d.block_height, d.txid, d.output_index, d.token, d.amount, s.old_amount, s.steps
  ), healed as (
    update app.incident i set resolved_at = clock_timestamp(), resolution = 'healed'
    from net n
    where n.status = 'final' and n.alive and not n.changed and not n.moved
      and i.subject = n.deposit_id::text and i.resolved_at is null and i.kind = 'final_deposit_vanished'
  ), alarmed as (
    insert into app.incident (chain, kind, subject, details)
    select of_chain, 'final_deposit_' || case when not alive then 'vanished' when changed then 'changed' else 'moved' end, deposit_id::text,
      jsonb_build_object('transfer', transfer_id, 'token', token, 'amount', amount::text, 'block_height', block_height, 'block_hash', block_hash)
    from net where status = 'final' and (not alive or changed or moved)
    union all
    select of_chain, 'payment_replaced', live_id,
      jsonb_build_object('transfer', live_id, 'token', token, 'amount', amount::text, 'block_height', block_height, 'block_hash', block_hash)
    from held_back
    on conflict do nothing
  ), emitted as (
    select x.id, e.type, x.version - cardinality(x.steps) + e.n::int as version,
      x.token, case when e.type = 'deposit.reorged' then x.old_amount else x.amount end as amount,
      row_number() over (order by e.type = 'deposit.pending', x.block_height, x.txid, x.output_index) as n
    from (select * from updated union all select * from created) x cross join unnest(x.steps) with ordinality as e (type, n)
    where x.credited
  )
  select array_agg(id order by n), array_agg(type order by n), array_agg(version order by n), array_agg(token order by n), array_agg(amount order by n)
  into ids, types, versions, tokens, amounts from emitted;
  perform app.emit_deposit_events(ids, types, versions, tokens, amounts);
end $function$;

-- standard public schema
create schema public;

create table public.sluice_migration (
  name text not null,
  checksum text not null,
  applied_at timestamp with time zone not null default clock_timestamp(),
  constraint sluice_migration_pkey PRIMARY KEY (name)
);

-- Bookkeeping of the indexer of ETH (tables of Subsquid's typeorm-store).
create schema squid_eth;

create table squid_eth.hot_block (
  height integer not null,
  hash text not null,
  constraint hot_block_pkey PRIMARY KEY (height)
);

create table squid_eth.hot_change_log (
  block_height integer not null,
  index integer not null,
  change jsonb not null,
  constraint hot_change_log_pkey PRIMARY KEY (block_height, index),
  constraint hot_change_log_block_height_fkey FOREIGN KEY (block_height) REFERENCES squid_eth.hot_block(height) ON DELETE CASCADE
);

create table squid_eth.status (
  id integer not null,
  height integer not null,
  hash text default '0x'::text,
  nonce integer default 0,
  constraint status_pkey PRIMARY KEY (id)
);
CREATE TRIGGER note_status AFTER UPDATE ON squid_eth.status FOR EACH ROW EXECUTE FUNCTION chain.note_status('ETH');

create table squid_eth.template_registry (
  key text not null,
  value text not null,
  type boolean not null,
  block_number integer not null,
  height integer not null,
  constraint template_registry_pkey PRIMARY KEY (key, value, type, block_number, height)
);

-- Bookkeeping of the indexer of POLYGON (tables of Subsquid's typeorm-store).
create schema squid_polygon;

create table squid_polygon.hot_block (
  height integer not null,
  hash text not null,
  constraint hot_block_pkey PRIMARY KEY (height)
);

create table squid_polygon.hot_change_log (
  block_height integer not null,
  index integer not null,
  change jsonb not null,
  constraint hot_change_log_pkey PRIMARY KEY (block_height, index),
  constraint hot_change_log_block_height_fkey FOREIGN KEY (block_height) REFERENCES squid_polygon.hot_block(height) ON DELETE CASCADE
);

create table squid_polygon.status (
  id integer not null,
  height integer not null,
  hash text default '0x'::text,
  nonce integer default 0,
  constraint status_pkey PRIMARY KEY (id)
);
CREATE TRIGGER note_status AFTER UPDATE ON squid_polygon.status FOR EACH ROW EXECUTE FUNCTION chain.note_status('POLYGON');

create table squid_polygon.template_registry (
  key text not null,
  value text not null,
  type boolean not null,
  block_number integer not null,
  height integer not null,
  constraint template_registry_pkey PRIMARY KEY (key, value, type, block_number, height)
);

-- public
grant usage on schema public to public;

-- sluice_analyst
alter role sluice_analyst set TimeZone = 'UTC';
alter role sluice_analyst set default_transaction_read_only = 'on';
alter role sluice_analyst set idle_in_transaction_session_timeout = '60s';
alter role sluice_analyst set search_path = 'analytics';
alter role sluice_analyst set statement_timeout = '60s';
alter role sluice_analyst set temp_file_limit = '10GB';
alter role sluice_analyst connection limit 20;
grant execute on function analytics.coins(numeric,integer) to sluice_analyst;
grant execute on function app.public_id(text,uuid) to sluice_analyst;
grant select on analytics.balances to sluice_analyst;
grant select on analytics.chain_lag to sluice_analyst;
grant select on analytics.daily_volume to sluice_analyst;
grant select on analytics.deposits to sluice_analyst;
grant select on analytics.time_to_finality to sluice_analyst;
grant select on analytics.unattributed to sluice_analyst;
grant usage on schema analytics to sluice_analyst;

-- sluice_api
alter role sluice_api set enable_sort = 'off';
alter role sluice_api set jit = 'off';
alter role sluice_api set plan_cache_mode = 'force_generic_plan';
alter role sluice_api set statement_timeout = '10s';
grant execute on function app."decimal"(numeric,integer) to sluice_api;
grant execute on function app.create_webhook_endpoint(uuid,text,text[]) to sluice_api;
grant execute on function app.delete_webhook_endpoint(uuid,uuid) to sluice_api;
grant execute on function app.event_body(json,bigint) to sluice_api;
grant execute on function app.iso(timestamp with time zone) to sluice_api;
grant execute on function app.metrics() to sluice_api;
grant execute on function app.provision_addresses(uuid,uuid,text[]) to sluice_api;
grant execute on function app.provision_user(uuid,text,text[]) to sluice_api;
grant execute on function app.public_id(text,uuid) to sluice_api;
grant execute on function app.redeliver(uuid,uuid,uuid) to sluice_api;
grant execute on function app.redeliver_failed(uuid,uuid,timestamp with time zone) to sluice_api;
grant execute on function app.rotate_webhook_secret(uuid,uuid) to sluice_api;
grant execute on function app.set_payout_address(uuid,text,text) to sluice_api;
grant execute on function app.test_webhook(uuid,uuid) to sluice_api;
grant execute on function app.update_webhook_endpoint(uuid,uuid,text,text[],boolean) to sluice_api;
grant select on app."user" to sluice_api;
grant select on app.address to sluice_api;
grant select on app.api_key to sluice_api;
grant select on app.asset to sluice_api;
grant select on app.balance_now to sluice_api;
grant select on app.chain to sluice_api;
grant select on app.chain_state to sluice_api;
grant select on app.delivery to sluice_api;
grant select on app.delivery_attempt to sluice_api;
grant select on app.deposit to sluice_api;
grant select on app.event to sluice_api;
grant select on app.merchant to sluice_api;
grant select on app.merchant_chain to sluice_api;
grant select on app.payout_address to sluice_api;
grant select on app.webhook_endpoint (id, merchant_id, url, event_types, previous_secret_expires_at, disabled_at, disabled_reason, failing_since, created_at, deleted_at) to sluice_api;
grant select on chain.cursor to sluice_api;
grant usage on schema app to sluice_api;
grant usage on schema chain to sluice_api;

-- sluice_custody
grant insert, select on app.pool_address to sluice_custody;
grant usage on schema app to sluice_custody;

-- sluice_indexer
grant delete, insert, select, update on chain.block to sluice_indexer;
grant delete, insert, select, update on chain.transfer to sluice_indexer;
grant delete, insert, select, update on squid_eth.hot_block to sluice_indexer;
grant delete, insert, select, update on squid_eth.hot_change_log to sluice_indexer;
grant delete, insert, select, update on squid_eth.status to sluice_indexer;
grant delete, insert, select, update on squid_eth.template_registry to sluice_indexer;
grant delete, insert, select, update on squid_polygon.hot_block to sluice_indexer;
grant delete, insert, select, update on squid_polygon.hot_change_log to sluice_indexer;
grant delete, insert, select, update on squid_polygon.status to sluice_indexer;
grant delete, insert, select, update on squid_polygon.template_registry to sluice_indexer;
grant execute on function chain.anchor(text,text,integer,text,timestamp with time zone) to sluice_indexer;
grant execute on function chain.finalize(text,integer,text) to sluice_indexer;
grant execute on function chain.halt(text,jsonb) to sluice_indexer;
grant execute on function chain.pin_tracer(text,text) to sluice_indexer;
grant execute on function chain.rewind(text,integer,text) to sluice_indexer;
grant select on app.address to sluice_indexer;
grant select on chain.cursor to sluice_indexer;
grant usage on schema app to sluice_indexer;
grant usage on schema chain to sluice_indexer;
grant usage on schema squid_eth to sluice_indexer;
grant usage on schema squid_polygon to sluice_indexer;

-- sluice_jobs
grant execute on function app."decimal"(numeric,integer) to sluice_jobs;
grant execute on function app.event_body(json,bigint) to sluice_jobs;
grant execute on function app.fail_undeliverable(integer) to sluice_jobs;
grant execute on function app.fold_balances(integer) to sluice_jobs;
grant execute on function app.iso(timestamp with time zone) to sluice_jobs;
grant execute on function app.public_id(text,uuid) to sluice_jobs;
grant execute on function app.record_attempts(uuid,uuid[],integer[],integer[],integer[],integer[],text[],bigint[]) to sluice_jobs;
grant execute on function app.recover_dead_pools(interval) to sluice_jobs;
grant execute on function app.sequence_events(integer) to sluice_jobs;
grant select on app."user" to sluice_jobs;
grant select on app.address to sluice_jobs;
grant select on app.asset to sluice_jobs;
grant select on app.chain to sluice_jobs;
grant select on app.delivery to sluice_jobs;
grant select on app.delivery_attempt to sluice_jobs;
grant select on app.event to sluice_jobs;
grant select on app.incident to sluice_jobs;
grant select on app.merchant to sluice_jobs;
grant select on app.merchant_chain to sluice_jobs;
grant select on app.webhook_endpoint to sluice_jobs;
grant select on chain.cursor to sluice_jobs;
grant usage on app.event_sequence to sluice_jobs;
grant usage on schema app to sluice_jobs;
grant usage on schema chain to sluice_jobs;
