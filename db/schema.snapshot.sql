-- The schema as all migrations leave it. Written by npm run snapshot; never edited.

-- Views for data analysts: stable names, exact decimal amounts, times in UTC.
create schema analytics;

-- How many of the addresses that merchants asked for, for their users, were ever paid, for each merchant and chain. Those of payment requests are not counted. As of the moment that analytics.freshness names.
create materialized view analytics.address_utilisation as
 SELECT app.public_id('mer'::text, w.merchant_id) AS merchant_id,
    m.name AS merchant_name,
    m.prefix AS merchant_prefix,
    w.chain,
    count(*) AS addresses,
    count(h.address) AS used_addresses,
    round(count(h.address)::numeric / count(*)::numeric, 4) AS used_share,
    count(*) FILTER (WHERE h.is_holding) AS holding_addresses,
    count(r.address) AS recent_addresses
   FROM app.address w
     JOIN app.merchant m ON m.id = w.merchant_id
     LEFT JOIN ( SELECT holding.chain,
            holding.address,
            bool_or(holding.amount > 0::numeric) AS is_holding
           FROM app.holding
          GROUP BY holding.chain, holding.address) h ON h.chain = w.chain AND h.address = w.address
     LEFT JOIN ( SELECT DISTINCT deposit.chain,
            deposit.address
           FROM app.deposit
          WHERE deposit.credited AND deposit.status = 'final'::text AND deposit.created_at > (now() - '30 days'::interval)) r ON r.chain = w.chain AND r.address = w.address
  WHERE w.is_provisioned AND w.user_id IS NOT NULL
  GROUP BY w.merchant_id, m.name, m.prefix, w.chain;
--   merchant_id text: Id of the merchant.
--   merchant_name text: Name of the merchant.
--   merchant_prefix text: The merchant's account prefix.
--   chain text: Chain code.
--   addresses bigint: Addresses that were handed out for this chain, one for each user.
--   used_addresses bigint: How many of them ever received a deposit that became final.
--   used_share numeric: used_addresses / addresses, rounded to four digits.
--   holding_addresses bigint: How many of them hold something now that no sweep has taken.
--   recent_addresses bigint: How many of them received a final deposit in the last 30 days.
CREATE UNIQUE INDEX address_utilisation_key ON analytics.address_utilisation USING btree (merchant_id, chain);

-- What each merchant could be paid out now, for each chain and token: the final deposits that no payout has collected. Exact at every moment; pairs without any are left out.
create view analytics.balances with (security_barrier=true) as
 SELECT app.public_id('mer'::text, b.merchant_id) AS merchant_id,
    m.name AS merchant_name,
    m.prefix AS merchant_prefix,
    b.chain,
    b.token,
    analytics.coins(b.gross, a.decimals) AS gross,
    b.gross AS gross_base_units,
    m.fee_bps,
    analytics.coins(b.fee, a.decimals) AS fee,
    analytics.coins(b.net, a.decimals) AS net,
    b.deposit_count,
    analytics.coins(b.held_back, a.decimals) AS held_back,
    b.held_back AS held_back_base_units
   FROM app.merchant_balance b
     JOIN app.merchant m ON m.id = b.merchant_id
     JOIN app.asset a ON a.chain = b.chain AND a.token = b.token;
--   merchant_id text: Id of the merchant.
--   merchant_name text: Name of the merchant.
--   merchant_prefix text: The merchant's account prefix.
--   chain text: Chain code.
--   token text: Token code.
--   gross numeric: Sum of the deposits, in whole coins, exact.
--   gross_base_units numeric: The same sum as an integer in the smallest unit of the token.
--   fee_bps integer: The merchant's service fee in basis points (1/100 of a percent).
--   fee numeric: The fee that a payout made now would keep, in whole coins; rounded down to the smallest unit, none on a sum below zero.
--   net numeric: gross minus held_back minus fee: what a payout made now would send.
--   deposit_count bigint: Number of deposits in the balance, receipts of payment requests included.
--   held_back numeric: The part of gross that no payout collects yet, because its addresses hold too little to be worth a sweep, in whole coins. It is collected when more arrives there.
--   held_back_base_units numeric: held_back as an integer in the smallest unit of the token.

-- One row for each transaction that only uses up a nonce of ours, and moves nothing.
create view analytics.cancels with (security_barrier=true) as
 SELECT s.id AS cancel_id,
    s.chain,
    s.fee_payer AS address,
    s.nonce,
    COALESCE(s.outcome, s.status) AS state,
    s.txid,
    analytics.coins(s.fee_paid, n.decimals) AS network_fee,
    n.token AS network_fee_token,
    s.created_at,
    s.final_at
   FROM app.outgoing_payment s
     JOIN app.chain k ON k.chain = s.chain
     JOIN app.asset n ON n.chain = s.chain AND n.token = k.native_token
  WHERE s.kind = 'cancel'::text;
--   cancel_id uuid: Its id.
--   chain text: Chain code.
--   address text: The address whose nonce it is, mostly the treasury.
--   nonce integer: The nonce.
--   state text: allocated, live: under way. cancelled: it used the nonce up. conflicted: another transaction did.
--   txid text: The final transaction; null while it is under way.
--   network_fee numeric: What it cost, in whole native coins; null while it is under way. The operator bears it.
--   network_fee_token text: The native coin of the chain, in which network_fee is counted.
--   created_at timestamp with time zone: When it was begun.
--   final_at timestamp with time zone: When it was final; null while it is under way.

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
--   is_halted boolean: True while the chain is halted until an operator decides about a reorganisation below the final block; null if it was never followed.
--   halted_at timestamp with time zone: Since when it is halted; null if it is not.

-- End users by the month of their first deposit, and how many of them paid again how many months later. Only final deposits; months without any have no row. As of the moment that analytics.freshness names.
create materialized view analytics.customer_cohorts as
 WITH active AS (
         SELECT d.merchant_id,
            d.user_id,
            date_trunc('month'::text, (d.created_at AT TIME ZONE 'UTC'::text))::date AS month,
            count(*) AS deposits
           FROM app.deposit d
          WHERE d.credited AND d.status = 'final'::text AND d.user_id IS NOT NULL
          GROUP BY d.merchant_id, d.user_id, (date_trunc('month'::text, (d.created_at AT TIME ZONE 'UTC'::text))::date)
        ), counted AS (
         SELECT a.merchant_id,
            a.first_month,
            a.month,
            count(*) AS users,
            sum(a.deposits)::bigint AS deposits
           FROM ( SELECT active.merchant_id,
                    active.user_id,
                    active.month,
                    active.deposits,
                    min(active.month) OVER (PARTITION BY active.user_id) AS first_month
                   FROM active) a
          GROUP BY a.merchant_id, a.first_month, a.month
        )
 SELECT app.public_id('mer'::text, c.merchant_id) AS merchant_id,
    m.name AS merchant_name,
    m.prefix AS merchant_prefix,
    c.first_month AS cohort_month,
    ((EXTRACT(year FROM c.month) - EXTRACT(year FROM c.first_month)) * 12::numeric + EXTRACT(month FROM c.month) - EXTRACT(month FROM c.first_month))::integer AS months_later,
    first_value(c.users) OVER (PARTITION BY c.merchant_id, c.first_month ORDER BY c.month) AS cohort_users,
    c.users AS active_users,
    c.deposits AS deposit_count
   FROM counted c
     JOIN app.merchant m ON m.id = c.merchant_id;
--   merchant_id text: Id of the merchant.
--   merchant_name text: Name of the merchant.
--   merchant_prefix text: The merchant's account prefix.
--   cohort_month date: First day of the UTC month in which the users' first final deposit was seen.
--   months_later integer: How many calendar months after that month the row is about; 0 is the month itself.
--   cohort_users bigint: Number of users whose first deposit was in cohort_month.
--   active_users bigint: How many of them had a deposit in the month that the row is about.
--   deposit_count bigint: Number of deposits of these active users.
CREATE UNIQUE INDEX customer_cohorts_key ON analytics.customer_cohorts USING btree (merchant_id, cohort_month, months_later);

-- The blocks that were followed and replaced, for each chain and UTC day.
create view analytics.daily_blocks with (security_barrier=true) as
 SELECT day,
    chain,
    followed AS followed_count,
    replaced AS replaced_count
   FROM chain.daily_blocks;
--   day date: The day, in UTC, on which Sluice followed them; not the day of their timestamps.
--   chain text: Chain code.
--   followed_count bigint: Blocks that were added to the chain, those that were replaced later and those that were read again after a rewind included.
--   replaced_count bigint: Blocks that left the chain because others took their place.

-- The ledger summed up by UTC day, kind, account, chain, token and merchant. As of the moment that analytics.freshness names.
create materialized view analytics.daily_ledger as
 SELECT e.day,
    e.kind,
    e.account,
    e.chain,
    e.token,
    app.public_id('mer'::text, e.merchant_id) AS merchant_id,
    m.name AS merchant_name,
    m.prefix AS merchant_prefix,
    analytics.coins(e.amount, a.decimals) AS amount,
    e.amount AS amount_base_units,
    e.entry_count
   FROM ( SELECT (ledger_entry.created_at AT TIME ZONE 'UTC'::text)::date AS day,
            ledger_entry.kind,
            ledger_entry.account,
            ledger_entry.chain,
            ledger_entry.token,
            ledger_entry.merchant_id,
            sum(ledger_entry.amount) AS amount,
            count(*) AS entry_count
           FROM app.ledger_entry
          GROUP BY ((ledger_entry.created_at AT TIME ZONE 'UTC'::text)::date), ledger_entry.kind, ledger_entry.account, ledger_entry.chain, ledger_entry.token, ledger_entry.merchant_id) e
     LEFT JOIN app.merchant m ON m.id = e.merchant_id
     LEFT JOIN app.asset a ON a.chain = e.chain AND a.token = e.token;
--   day date: The day, in UTC, on which the entries were posted.
--   kind text: What moved, as in analytics.ledger.
--   account text: Account, as in analytics.ledger.
--   chain text: Chain code.
--   token text: Token code.
--   merchant_id text: Id of the merchant; null for the operator's own and for unattributed value.
--   merchant_name text: Name of the merchant.
--   merchant_prefix text: The merchant's account prefix.
--   amount numeric: Sum of the entries in whole coins, exact: debits positive, credits negative.
--   amount_base_units numeric: The same sum as an integer in the smallest unit of the token.
--   entry_count bigint: Number of entries.
CREATE UNIQUE INDEX daily_ledger_key ON analytics.daily_ledger USING btree (day, kind, account, chain, token, merchant_id);

-- Deposits of each UTC day by merchant, chain and token, receipts of payment requests included. Reorged deposits do not count; days without deposits have no row. As of the moment that analytics.freshness names.
create materialized view analytics.daily_volume as
 SELECT v.day,
    app.public_id('mer'::text, v.merchant_id) AS merchant_id,
    m.name AS merchant_name,
    m.prefix AS merchant_prefix,
    v.chain,
    v.token,
    v.deposit_count,
    analytics.coins(v.amount, a.decimals) AS amount,
    v.amount AS amount_base_units,
    v.final_count,
    analytics.coins(v.final_amount, a.decimals) AS final_amount
   FROM ( SELECT (d.created_at AT TIME ZONE 'UTC'::text)::date AS day,
            d.merchant_id,
            d.chain,
            d.token,
            count(*) AS deposit_count,
            sum(d.amount) AS amount,
            count(*) FILTER (WHERE d.status = 'final'::text) AS final_count,
            COALESCE(sum(d.amount) FILTER (WHERE d.status = 'final'::text), 0::numeric) AS final_amount
           FROM app.deposit d
          WHERE d.credited AND d.status <> 'reorged'::text
          GROUP BY ((d.created_at AT TIME ZONE 'UTC'::text)::date), d.merchant_id, d.chain, d.token) v
     JOIN app.merchant m ON m.id = v.merchant_id
     JOIN app.asset a ON a.chain = v.chain AND a.token = v.token;
--   day date: The day, in UTC, on which Sluice first saw the deposits (created_at). A deposit never moves to another day.
--   merchant_id text: Id of the merchant.
--   merchant_name text: Name of the merchant.
--   merchant_prefix text: The merchant's account prefix.
--   chain text: Chain code.
--   token text: Token code.
--   deposit_count bigint: Number of deposits, pending and final.
--   amount numeric: Their sum in whole coins, exact.
--   amount_base_units numeric: The same sum as an integer in the smallest unit of the token.
--   final_count bigint: How many of these deposits are final.
--   final_amount numeric: The sum of the final deposits, in whole coins; the rest is still pending.
CREATE UNIQUE INDEX daily_volume_key ON analytics.daily_volume USING btree (day, merchant_id, chain, token);

-- Results of webhook deliveries, for each endpoint and UTC day, as far back as deliveries are kept. As of the moment that analytics.freshness names.
create materialized view analytics.delivery_health as
 SELECT (d.created_at AT TIME ZONE 'UTC'::text)::date AS day,
    app.public_id('mer'::text, w.merchant_id) AS merchant_id,
    m.name AS merchant_name,
    m.prefix AS merchant_prefix,
    app.public_id('whe'::text, w.id) AS endpoint_id,
    count(*) AS delivery_count,
    count(*) FILTER (WHERE d.status = 'delivered'::text) AS delivered_count,
    count(*) FILTER (WHERE d.status = 'delivered'::text AND d.attempts = 1) AS first_try_count,
    count(*) FILTER (WHERE d.status = 'failed'::text) AS failed_count,
    count(*) FILTER (WHERE d.status = 'pending'::text) AS pending_count,
    round(percentile_disc(0.5::double precision) WITHIN GROUP (ORDER BY (EXTRACT(epoch FROM d.finished_at - d.created_at))) FILTER (WHERE d.status = 'delivered'::text), 3) AS seconds_p50,
    round(percentile_disc(0.95::double precision) WITHIN GROUP (ORDER BY (EXTRACT(epoch FROM d.finished_at - d.created_at))) FILTER (WHERE d.status = 'delivered'::text), 3) AS seconds_p95
   FROM app.delivery d
     JOIN app.webhook_endpoint w ON w.id = d.endpoint_id
     JOIN app.merchant m ON m.id = w.merchant_id
  GROUP BY ((d.created_at AT TIME ZONE 'UTC'::text)::date), w.merchant_id, m.name, m.prefix, w.id;
--   day date: The day, in UTC, of the events.
--   merchant_id text: Id of the merchant.
--   merchant_name text: Name of the merchant.
--   merchant_prefix text: The merchant's account prefix.
--   endpoint_id text: Id of the endpoint, as in the API. Its URL is not for analysts.
--   delivery_count bigint: Number of deliveries: events for this endpoint.
--   delivered_count bigint: How many of them were accepted.
--   first_try_count bigint: How many of the delivered ones at the first attempt; a redelivery counts its attempts anew.
--   failed_count bigint: How many were given up.
--   pending_count bigint: How many are still being tried.
--   seconds_p50 numeric: The median of the seconds from an event to its delivery; null if none was delivered.
--   seconds_p95 numeric: 95 of 100 were delivered within this many seconds.
CREATE UNIQUE INDEX delivery_health_key ON analytics.delivery_health USING btree (day, endpoint_id);

-- One row for each deposit of a merchant's users that counts, or will count. What was paid for payment requests is in analytics.payment_receipts; what arrived on a chain or in a token that was not asked for is in analytics.unattributed.
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
    app.public_id('pay'::text, d.settlement_id) AS settlement_id,
    d.id AS deposit_uuid,
    d.settlement_id AS settlement_uuid,
    d.settled_before_restore,
    d.held_back AND d.settlement_id IS NULL AS held_back
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
--   user_id text: Id of the end user that has the address, as in the API.
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
--   seconds_to_final numeric: Seconds from block_time to finalised_at; null if one of them is null.
--   settlement_id text: Id of the payout that collected it, as in the API; null until then.
--   deposit_uuid uuid: deposit_id as a UUID, to search by: deposit_uuid = analytics.id('dep_...').
--   settlement_uuid uuid: settlement_id as a UUID, to search by: settlement_uuid = analytics.id('pay_...'); null until a payout collected it.
--   settled_before_restore boolean: True if a payout that was forgotten in a restore covers it, and it is unknown which deposits that payout collected. The merchant is no longer owed it, though settlement_id is null or names a later payout.
--   held_back boolean: True while it is final and no payout can collect it, because its address holds too little to be worth a sweep.

-- Service fees earned and network fees paid on each UTC day, by merchant, chain and token. Computed from analytics.daily_ledger, and as fresh as that view.
create view analytics.earnings with (security_barrier=true) as
 SELECT day,
    merchant_id,
    merchant_name,
    merchant_prefix,
    chain,
    token,
    trim_scale(- COALESCE(sum(amount) FILTER (WHERE account = 'fees'::text), 0::numeric)) AS fees_earned,
    trim_scale(COALESCE(sum(amount) FILTER (WHERE account = 'network'::text), 0::numeric)) AS network_costs
   FROM analytics.daily_ledger l
  WHERE account = ANY (ARRAY['fees'::text, 'network'::text])
  GROUP BY day, merchant_id, merchant_name, merchant_prefix, chain, token;
--   day date: The day, in UTC, on which the payout was completed, or the transaction was final.
--   merchant_id text: Id of the merchant; null for the operator's own withdrawals.
--   merchant_name text: Name of the merchant.
--   merchant_prefix text: The merchant's account prefix.
--   chain text: Chain code.
--   token text: Token code. Fees are earned in the token of the payout; network fees are paid in the native coin, so they are in its row.
--   fees_earned numeric: Service fees of completed payouts, in whole coins, exact.
--   network_costs numeric: Network fees of payments, sweeps and withdrawals, and of gas that is sent and brought back, in whole coins, exact. The operator bears them, also those that an address paid with gas.

-- One row for each event that a merchant was, or is being, notified of. Never changed, never deleted. Tests of endpoints are left out.
create view analytics.events with (security_barrier=true) as
 SELECT app.public_id('evt'::text, e.id) AS event_id,
    e.sequence,
    e.type,
    app.public_id('mer'::text, e.merchant_id) AS merchant_id,
    m.name AS merchant_name,
    m.prefix AS merchant_prefix,
        CASE split_part(e.type, '.'::text, 1)
            WHEN 'deposit'::text THEN app.public_id('dep'::text, e.subject_id)
            WHEN 'payout'::text THEN app.public_id('pay'::text, e.subject_id)
            ELSE e.payload ->> 'external_id'::text
        END AS subject_id,
    e.version,
    e.created_at,
    e.payload,
    e.subject_id AS subject_uuid
   FROM app.event e
     JOIN app.merchant m ON m.id = e.merchant_id
  WHERE NOT e.is_test;
--   event_id text: Id of the event, as in webhooks and the API.
--   sequence bigint: Its number: a reader that goes forward by it misses none. Gaps are allowed; null for a moment after it happened.
--   type text: Type, such as deposit.confirmed.
--   merchant_id text: Id of the merchant.
--   merchant_name text: Name of the merchant.
--   merchant_prefix text: The merchant's account prefix.
--   subject_id text: Id of what changed, as in the API: a deposit or a payout; of a payment request its external_id.
--   version integer: The number of the change of the subject: 1 for the first.
--   created_at timestamp with time zone: When it happened.
--   payload json: The body that the merchant receives, without the sequence. Amounts in it are strings.
--   subject_uuid uuid: subject_id as a UUID, to search by: subject_uuid = analytics.id('dep_...'); payment_request_uuid of a payment request.

-- The age of the materialised views. Every other view is computed as it is read.
create view analytics.freshness with (security_barrier=true) as
 SELECT view_name,
    refreshed_at,
    round(EXTRACT(epoch FROM now() - refreshed_at), 3) AS age_seconds,
    took_seconds,
    due_at,
    failed_at
   FROM app.analytics_refresh;
--   view_name text: Name of the view.
--   refreshed_at timestamp with time zone: The moment whose state it shows; null before it was computed for the first time.
--   age_seconds numeric: Seconds since then.
--   took_seconds double precision: How long it took to compute.
--   due_at timestamp with time zone: When it will be computed again: each view takes at most a fiftieth of the time.
--   failed_at timestamp with time zone: When computing it failed; null if it succeeded the last time. The log of the database says why.

-- One row for each incident, open or resolved. While one of a chain is open, its payouts wait.
create view analytics.incidents with (security_barrier=true) as
 SELECT i.id AS incident_id,
    i.chain,
    i.kind,
    k.halts,
    i.subject,
    i.details,
    i.opened_at,
    i.resolved_at,
    i.resolution,
    round(EXTRACT(epoch FROM i.resolved_at - i.opened_at), 3) AS seconds_open
   FROM app.incident i
     JOIN app.incident_kind k ON k.kind = i.kind;
--   incident_id bigint: Number of the incident, as in sluice incident. Numbers have gaps.
--   chain text: Chain code; null if it concerns no single chain.
--   kind text: Its kind; docs/operations.md describes them.
--   halts boolean: True if nothing of the chain is read while it is open; if false, and it names a chain, only payouts stop.
--   subject text: What it is about: an id, an address, a chain or a check of the audit, by its kind.
--   details jsonb: What was seen. Amounts are in base units.
--   opened_at timestamp with time zone: When it was noticed.
--   resolved_at timestamp with time zone: When it was resolved; null while it is open.
--   resolution text: How it ended: healed (by itself), or what an operator decided; null while it is open.
--   seconds_open numeric: Seconds from opened_at to resolved_at; null while it is open.

-- Every movement of money, in double entry: the entries of one posting add up to zero for each token.
create view analytics.ledger with (security_barrier=true) as
 SELECT e.id AS entry_id,
    e.posting,
    e.kind,
    e.reference,
    e.account,
    e.chain,
    e.token,
    app.public_id('mer'::text, e.merchant_id) AS merchant_id,
    m.name AS merchant_name,
    m.prefix AS merchant_prefix,
    e.address,
    analytics.coins(e.amount, a.decimals) AS amount,
    e.amount AS amount_base_units,
    e.created_at
   FROM app.ledger_entry e
     LEFT JOIN app.merchant m ON m.id = e.merchant_id
     LEFT JOIN app.asset a ON a.chain = e.chain AND a.token = e.token;
--   entry_id bigint: Order of insertion.
--   posting bigint: The movement that the entry is a part of.
--   kind text: deposit (deposits became final, or an operator credited one), top_up (the treasury was paid), reorg (a final deposit was taken back), claim and release (of a payout), payout, sweep, withdrawal, return (of unattributed value, in each of its steps), network_fee, second_payment (what left although its payment had ended).
--   reference text: What caused it: finalisation:<chain>:<number> for deposits, or the UUID of the deposit, payout or transaction.
--   account text: address: what deposit addresses hold. treasury: what the treasury holds. merchant: what merchants are owed. payout: claimed by payouts under way. fees: service fees earned. network: network fees paid. operator: top-ups less withdrawals. unattributed: value that is credited to no merchant.
--   chain text: Chain code.
--   token text: Token code; the contract address if the token is not supported.
--   merchant_id text: Id of the merchant that the movement belongs to; null for the operator's own and for unattributed value.
--   merchant_name text: Name of the merchant.
--   merchant_prefix text: The merchant's account prefix.
--   address text: The deposit address, for the account address.
--   amount numeric: Debit (positive) or credit (negative), in whole coins, exact; null if the token is not supported. Assets and costs are debits; what is owed and earned are credits.
--   amount_base_units numeric: The same amount as an integer in the smallest unit of the token.
--   created_at timestamp with time zone: When it was posted.

-- What each merchant received, was paid and is owed since the beginning, for each chain and token: received = fees_earned + paid_out + owed. Computed from analytics.daily_ledger, and as fresh as that view; analytics.balances has what is owed at this moment.
create view analytics.merchant_totals with (security_barrier=true) as
 SELECT e.merchant_id,
    m.name AS merchant_name,
    m.prefix AS merchant_prefix,
    e.chain,
    e.token,
    trim_scale(e.received) AS received,
    trim_scale(e.fees_earned) AS fees_earned,
    trim_scale(e.paid_out) AS paid_out,
    trim_scale(e.under_way + e.balance) AS owed,
    trim_scale(e.under_way) AS under_way,
    trim_scale(e.network_costs) AS network_costs
   FROM ( SELECT daily_ledger.merchant_id,
            daily_ledger.chain,
            daily_ledger.token,
            - COALESCE(sum(daily_ledger.amount) FILTER (WHERE daily_ledger.account = 'merchant'::text AND (daily_ledger.kind <> ALL (ARRAY['claim'::text, 'release'::text]))), 0::numeric) AS received,
            - COALESCE(sum(daily_ledger.amount) FILTER (WHERE daily_ledger.account = 'fees'::text), 0::numeric) AS fees_earned,
            - COALESCE(sum(daily_ledger.amount) FILTER (WHERE daily_ledger.account = 'treasury'::text AND daily_ledger.kind = 'payout'::text), 0::numeric) AS paid_out,
            - COALESCE(sum(daily_ledger.amount) FILTER (WHERE daily_ledger.account = 'payout'::text), 0::numeric) AS under_way,
            - COALESCE(sum(daily_ledger.amount) FILTER (WHERE daily_ledger.account = 'merchant'::text), 0::numeric) AS balance,
            COALESCE(sum(daily_ledger.amount) FILTER (WHERE daily_ledger.account = 'network'::text), 0::numeric) AS network_costs
           FROM analytics.daily_ledger
          WHERE daily_ledger.merchant_id IS NOT NULL
          GROUP BY daily_ledger.merchant_id, daily_ledger.chain, daily_ledger.token) e
     JOIN ( SELECT app.public_id('mer'::text, merchant.id) AS merchant_id,
            merchant.name,
            merchant.prefix
           FROM app.merchant) m ON m.merchant_id = e.merchant_id;
--   merchant_id text: Id of the merchant.
--   merchant_name text: Name of the merchant.
--   merchant_prefix text: The merchant's account prefix.
--   chain text: Chain code.
--   token text: Token code.
--   received numeric: Final deposits of its users and final receipts of its payment requests, in whole coins, exact, less those that an operator took back.
--   fees_earned numeric: Service fees of completed payouts.
--   paid_out numeric: Net of completed payouts.
--   owed numeric: The balance and the gross of payouts under way; below zero for a debt.
--   under_way numeric: The part of owed that payouts have claimed.
--   network_costs numeric: Network fees of its payouts and sweeps, of all tokens. They are paid in the native coin, so they are only in the row of that coin; the operator bears them.

-- One row for each merchant account.
create view analytics.merchants with (security_barrier=true) as
 SELECT app.public_id('mer'::text, id) AS merchant_id,
    name AS merchant_name,
    prefix AS merchant_prefix,
    fee_bps,
    ( SELECT string_agg(c.chain, ', '::text ORDER BY c.chain) AS string_agg
           FROM app.merchant_chain c
          WHERE c.merchant_id = m.id AND c.enabled) AS chains,
    created_at,
    suspended_at,
    id AS merchant_uuid
   FROM app.merchant m;
--   merchant_id text: Id of the merchant.
--   merchant_name text: Name of the merchant.
--   merchant_prefix text: The merchant's account prefix.
--   fee_bps integer: Service fee of later payouts, in basis points (1/100 of a percent).
--   chains text: Chain codes that are enabled now, separated by commas; null if none is.
--   created_at timestamp with time zone: When the account was made.
--   suspended_at timestamp with time zone: Since when its keys do not work; null while they do.
--   merchant_uuid uuid: merchant_id as a UUID, to search by: merchant_uuid = analytics.id('mer_...').

-- One row for each payment that counts, or will count, for a payment request. It is no deposit of a user, so it is not in analytics.deposits and analytics.events. A reorged payment is no receipt, and is not here.
create view analytics.payment_receipts with (security_barrier=true) as
 SELECT app.public_id('dep'::text, c.deposit_id) AS deposit_id,
    c.payment_request_id AS payment_request_uuid,
    c.external_id,
    app.public_id('mer'::text, c.merchant_id) AS merchant_id,
    m.name AS merchant_name,
    m.prefix AS merchant_prefix,
    c.chain,
    c.token,
    analytics.coins(c.amount, a.decimals) AS amount,
    c.amount AS amount_base_units,
    c.status,
    c.late,
    c.sender,
    c.address,
    c.txid,
    c.output_index,
    c.block_height,
    c.created_at,
    c.finalised_at,
    app.public_id('pay'::text, c.settlement_id) AS settlement_id,
    c.deposit_id AS deposit_uuid,
    c.settlement_id AS settlement_uuid,
    d.settled_before_restore,
    d.held_back AND d.settlement_id IS NULL AS held_back
   FROM app.receipt c
     JOIN app.deposit d ON d.id = c.deposit_id
     JOIN app.merchant m ON m.id = c.merchant_id
     JOIN app.asset a ON a.chain = c.chain AND a.token = c.token;
--   deposit_id text: Its id, as operators see it in incidents; the API does not show it.
--   payment_request_uuid uuid: The payment request, as in analytics.payment_requests.
--   external_id text: The merchant's own reference of that request.
--   merchant_id text: Id of the merchant.
--   merchant_name text: Name of the merchant.
--   merchant_prefix text: The merchant's account prefix.
--   chain text: Chain code.
--   token text: Token code. Amounts of different tokens cannot be added up.
--   amount numeric: Amount in whole coins of the token, exact.
--   amount_base_units numeric(78,0): The same amount as an integer in the smallest unit of the token.
--   status text: pending: seen, and may still leave the chain. final: counts for the merchant.
--   late boolean: True if it was neither seen nor mined before the request expired.
--   sender text: Address that the value came from.
--   address text: The request's address that it arrived at.
--   txid text: Transaction id on the chain.
--   output_index integer: Position inside the transaction.
--   block_height integer: Height of the block that holds it; null while it is in none.
--   created_at timestamp with time zone: When Sluice first saw it.
--   finalised_at timestamp with time zone: When it became final; null if it is not.
--   settlement_id text: Id of the payout that collected it, as in the API; null until then.
--   deposit_uuid uuid: deposit_id as a UUID, to search by: deposit_uuid = analytics.id('dep_...').
--   settlement_uuid uuid: settlement_id as a UUID, to search by: settlement_uuid = analytics.id('pay_...'); null until a payout collected it.
--   settled_before_restore boolean: True if a payout that was forgotten in a restore covers it, and it is unknown which deposits that payout collected. The merchant is no longer owed it, though settlement_id is null or names a later payout.
--   held_back boolean: True while it is final and no payout can collect it, because its address holds too little to be worth a sweep.

-- One row for each payment request: an amount that a merchant asked to be paid to an address of its own, and what was paid of it.
create view analytics.payment_requests with (security_barrier=true) as
 SELECT r.id AS payment_request_uuid,
    app.public_id('mer'::text, r.merchant_id) AS merchant_id,
    m.name AS merchant_name,
    m.prefix AS merchant_prefix,
    r.external_id,
    a.name AS currency,
    r.chain,
    r.token,
    analytics.coins(r.amount, a.decimals) AS amount,
    r.amount AS amount_base_units,
    analytics.coins(r.received, a.decimals) AS received,
    r.received AS received_base_units,
    analytics.coins(r.pending, a.decimals) AS pending,
    r.pending AS pending_base_units,
    r.status,
    r.late,
    r.txid,
    w.address,
    r.created_at,
    r.expires_at,
    r.paid_at,
    round(EXTRACT(epoch FROM r.paid_at - r.created_at), 3) AS seconds_to_paid,
    r.cancelled_at,
    r.metadata,
    analytics.coins(r.tolerance, a.decimals) AS tolerance,
    r.tolerance AS tolerance_base_units,
    analytics.coins(GREATEST(r.amount - r.received, 0::numeric), a.decimals) AS shortfall
   FROM app.payment_request r
     JOIN app.merchant m ON m.id = r.merchant_id
     JOIN app.asset a ON a.chain = r.chain AND a.token = r.token
     JOIN app.address w ON w.payment_request_id = r.id AND w.chain = r.chain;
--   payment_request_uuid uuid: Its id here, which joins payment_receipts. The API does not show it: merchants know external_id.
--   merchant_id text: Id of the merchant.
--   merchant_name text: Name of the merchant.
--   merchant_prefix text: The merchant's account prefix.
--   external_id text: The merchant's own reference. It begins with the prefix, so no two merchants have the same.
--   currency text: Name of the asset in the API, such as ETH-USDC.
--   chain text: Chain code.
--   token text: Token code. Amounts of different tokens cannot be added up.
--   amount numeric: The requested amount, in whole coins, exact.
--   amount_base_units numeric(78,0): The same amount as an integer in the smallest unit of the token.
--   received numeric: Sum of its final receipts, in whole coins. More than amount if too much was paid.
--   received_base_units numeric(78,0): The same sum as an integer in the smallest unit of the token.
--   pending numeric: Sum of its receipts that are not final yet, in whole coins.
--   pending_base_units numeric(78,0): The same sum as an integer in the smallest unit of the token.
--   status text: awaiting: nothing came, or too little to count as a payment. detected: money was seen, and is not enough or not final yet. paid. expired: it expired, and no more came. cancelled: the merchant cancelled it, and no more came. underpaid: it expired with less than pays it. Each status except paid may still change: late money counts.
--   late boolean: True if some of what was received came after expires_at.
--   txid text: Transaction with which the amount was reached; the last final one until then; null if nothing is final.
--   address text: The address that was made for it.
--   created_at timestamp with time zone: When the merchant made it.
--   expires_at timestamp with time zone: When it expires; what comes later is late.
--   paid_at timestamp with time zone: When the receipt with which the amount was reached became final; null unless it is paid.
--   seconds_to_paid numeric: Seconds from created_at to paid_at: the time until the payer paid and the chain made it final.
--   cancelled_at timestamp with time zone: When the merchant cancelled it; what came later is late, too. Null unless it did.
--   metadata jsonb: What the merchant notes about it: an object of strings.
--   tolerance numeric: How much may be missing, in whole coins: it is paid all the same.
--   tolerance_base_units numeric(78,0): The same as an integer in the smallest unit of the token.
--   shortfall numeric: What is missing from amount, in whole coins; 0 if nothing is.

-- One row for each payout: the service fee that it earned, and the network fees that it cost.
create view analytics.payout_costs with (security_barrier=true) as
 SELECT app.public_id('pay'::text, p.id) AS payout_id,
    app.public_id('mer'::text, p.merchant_id) AS merchant_id,
    m.name AS merchant_name,
    m.prefix AS merchant_prefix,
    p.chain,
    p.token,
    p.status,
    p.created_at,
    p.finished_at,
    analytics.coins(p.gross, a.decimals) AS gross,
    p.fee_bps,
    analytics.coins(
        CASE p.status
            WHEN 'completed'::text THEN p.fee
            ELSE 0::numeric
        END, a.decimals) AS fee_earned,
    n.token AS network_fee_token,
    analytics.coins(s.payment, n.decimals) AS payment_fee,
    analytics.coins(s.sweeps, n.decimals) AS sweep_fees,
    analytics.coins(s.payment + s.sweeps, n.decimals) AS network_fees,
    s.sweep_count,
    p.id AS payout_uuid
   FROM app.payout p
     JOIN app.merchant m ON m.id = p.merchant_id
     JOIN app.asset a ON a.chain = p.chain AND a.token = p.token
     JOIN app.chain k ON k.chain = p.chain
     JOIN app.asset n ON n.chain = p.chain AND n.token = k.native_token
     CROSS JOIN LATERAL ( SELECT COALESCE(sum(s_1.fee_paid) FILTER (WHERE s_1.kind = 'payout'::text), 0::numeric) AS payment,
            COALESCE(sum(s_1.fee_paid) FILTER (WHERE s_1.kind = ANY (ARRAY['sweep'::text, 'fund'::text])), 0::numeric) AS sweeps,
            count(*) FILTER (WHERE s_1.kind = 'sweep'::text) AS sweep_count
           FROM app.outgoing_payment s_1
          WHERE s_1.payout_id = p.id) s;
--   payout_id text: Id of the payout, as in the API.
--   merchant_id text: Id of the merchant.
--   merchant_name text: Name of the merchant.
--   merchant_prefix text: The merchant's account prefix.
--   chain text: Chain code.
--   token text: Token code of gross and fee_earned.
--   status text: As in analytics.payouts.
--   created_at timestamp with time zone: When the merchant requested it.
--   finished_at timestamp with time zone: When it was completed or failed; null while it is under way.
--   gross numeric: The balance that it collected, in whole coins, exact.
--   fee_bps integer: The merchant's fee rate when it was requested, in basis points.
--   fee_earned numeric: The service fee, in whole coins; 0 unless the payout is completed.
--   network_fee_token text: The native coin of the chain, in which network fees are counted.
--   payment_fee numeric: Network fee of the final transaction of its payment, whatever its outcome, in whole native coins; 0 until it is final.
--   sweep_fees numeric: Network fees of the final sweeps that were made for it, and of the transactions that brought them gas, in whole native coins.
--   network_fees numeric: payment_fee + sweep_fees. The operator bears it.
--   sweep_count bigint: Number of sweeps that were made for it. A sweep made without a payout, or for another one, costs this payout nothing.
--   payout_uuid uuid: payout_id as a UUID, to search by: payout_uuid = analytics.id('pay_...').

-- One row for each step that a payout has begun, with its times.
create view analytics.payout_steps with (security_barrier=true) as
 SELECT app.public_id('pay'::text, p.id) AS payout_id,
    app.public_id('mer'::text, p.merchant_id) AS merchant_id,
    m.name AS merchant_name,
    m.prefix AS merchant_prefix,
    p.chain,
    p.token,
    s.step,
    s.began_at,
    s.ended_at,
    round(EXTRACT(epoch FROM s.ended_at - s.began_at), 3) AS seconds,
    p.status,
    p.created_at,
    p.id AS payout_uuid
   FROM app.payout p
     JOIN app.merchant m ON m.id = p.merchant_id
     CROSS JOIN LATERAL ( VALUES ('pending'::text,p.created_at,COALESCE(p.sweeping_at, p.finished_at)), ('sweeping'::text,p.sweeping_at,COALESCE(p.swept_at, p.finished_at)), ('swept'::text,p.swept_at,COALESCE(p.paying_at, p.finished_at)), ('paying'::text,p.paying_at,p.finished_at)) s(step, began_at, ended_at)
  WHERE s.began_at IS NOT NULL;
--   payout_id text: Id of the payout, as in the API.
--   merchant_id text: Id of the merchant.
--   merchant_name text: Name of the merchant.
--   merchant_prefix text: The merchant's account prefix.
--   chain text: Chain code.
--   token text: Token code.
--   step text: pending: accepted, and not begun. sweeping: money is collected from the addresses. swept: all that is needed is in the treasury. paying: the payment is on its way until it is final.
--   began_at timestamp with time zone: When the step began.
--   ended_at timestamp with time zone: When the next one began, or the payout ended; null while it is the present one.
--   seconds numeric: Seconds from began_at to ended_at; null while it is the present one.
--   status text: The status of the payout now.
--   created_at timestamp with time zone: When the merchant requested the payout.
--   payout_uuid uuid: payout_id as a UUID, to search by: payout_uuid = analytics.id('pay_...').

-- One row for each payout, in every status.
create view analytics.payouts with (security_barrier=true) as
 SELECT app.public_id('pay'::text, p.id) AS payout_id,
    app.public_id('mer'::text, p.merchant_id) AS merchant_id,
    m.name AS merchant_name,
    m.prefix AS merchant_prefix,
    p.chain,
    p.token,
    p.status,
    analytics.coins(p.gross, a.decimals) AS gross,
    p.fee_bps,
    analytics.coins(p.fee, a.decimals) AS fee,
    analytics.coins(p.net, a.decimals) AS net,
    p.gross AS gross_base_units,
    p.fee AS fee_base_units,
    p.net AS net_base_units,
    c.deposit_count,
    p.sweep_first,
    p.address,
    p.txid,
    analytics.coins(p.network_fee, n.decimals) AS network_fee,
    n.token AS network_fee_token,
    p.error_code,
    p.waiting_reason,
    p.created_at,
    p.finished_at,
    round(EXTRACT(epoch FROM p.finished_at - p.created_at), 3) AS seconds_to_finish
   FROM app.payout p
     JOIN app.merchant m ON m.id = p.merchant_id
     JOIN app.asset a ON a.chain = p.chain AND a.token = p.token
     JOIN app.chain k ON k.chain = p.chain
     JOIN app.asset n ON n.chain = p.chain AND n.token = k.native_token
     LEFT JOIN app.claim c ON c.payout_id = p.id AND c.kind = 'claim'::text;
--   payout_id text: Id of the payout, as in the API; analytics.deposits.settlement_id names it.
--   merchant_id text: Id of the merchant.
--   merchant_name text: Name of the merchant.
--   merchant_prefix text: The merchant's account prefix.
--   chain text: Chain code.
--   token text: Token code.
--   status text: pending, sweeping, swept, paying: under way. completed: paid, for ever. failed: nothing was paid, and the deposits are in the balance again.
--   gross numeric: The balance that it collected, in whole coins, exact.
--   fee_bps integer: The merchant's fee rate when it was requested, in basis points.
--   fee numeric: Service fee, in whole coins. Earned only once the payout is completed.
--   net numeric: What is paid, in whole coins: gross minus fee.
--   gross_base_units numeric(78,0): gross as an integer in the smallest unit of the token.
--   fee_base_units numeric(78,0): fee as an integer in the smallest unit of the token.
--   net_base_units numeric(78,0): net as an integer in the smallest unit of the token.
--   deposit_count bigint: Number of deposits that it collected.
--   sweep_first boolean: True if the merchant asked to have every claimed address swept before anything is paid.
--   address text: Where it is paid to.
--   txid text: The transaction that paid it; null until it is completed.
--   network_fee numeric: Network fees of the payment and of the sweeps made for it, in whole native coins. The operator bears them.
--   network_fee_token text: The native coin of the chain, in which network_fee is counted.
--   error_code text: Why it failed; null unless it did.
--   waiting_reason text: Why its next step cannot be taken now; null if nothing is in its way.
--   created_at timestamp with time zone: When the merchant requested it.
--   finished_at timestamp with time zone: When it was completed or failed; null while it is under way.
--   seconds_to_finish numeric: Seconds from created_at to finished_at.

-- One row for each time that blocks left a chain and others replaced them.
create view analytics.reorganisations with (security_barrier=true) as
 SELECT chain,
    happened_at,
    depth,
    first_height,
    old_head_hash,
    new_head_hash,
    deposits_reorged
   FROM chain.reorganisation;
--   chain text: Chain code.
--   happened_at timestamp with time zone: When Sluice followed it.
--   depth integer: How many blocks left the chain.
--   first_height integer: Height of the lowest of them.
--   old_head_hash text: Hash of the newest block before; null if that block did not leave the chain.
--   new_head_hash text: Hash of the newest block afterwards; null if there was none.
--   deposits_reorged integer: How many deposits were in no block afterwards. Deposits that were in another block by then are not counted.

-- One row for each sweep of a deposit address to the treasury.
create view analytics.sweeps with (security_barrier=true) as
 SELECT s.id AS sweep_id,
    app.public_id('mer'::text, s.merchant_id) AS merchant_id,
    m.name AS merchant_name,
    m.prefix AS merchant_prefix,
    app.public_id('pay'::text, s.payout_id) AS payout_id,
    s.chain,
    s.token,
    s.source AS address,
    analytics.coins(COALESCE(t.amount, s.amount), a.decimals) AS amount,
    COALESCE(t.amount, s.amount) AS amount_base_units,
    COALESCE(s.outcome, s.status) AS state,
    s.txid,
    analytics.coins(s.fee_paid, n.decimals) AS network_fee,
    n.token AS network_fee_token,
    s.created_at,
    s.final_at,
    s.source = s.recipient AS is_nonce_only
   FROM app.outgoing_payment s
     LEFT JOIN app.merchant m ON m.id = s.merchant_id
     JOIN app.asset a ON a.chain = s.chain AND a.token = s.token
     JOIN app.chain k ON k.chain = s.chain
     JOIN app.asset n ON n.chain = s.chain AND n.token = k.native_token
     LEFT JOIN app.outgoing_attempt t ON t.chain = s.chain AND t.txid = s.txid
  WHERE s.kind = 'sweep'::text;
--   sweep_id uuid: Id of the sweep.
--   merchant_id text: Id of the merchant that has the address.
--   merchant_name text: Name of the merchant.
--   merchant_prefix text: The merchant's account prefix.
--   payout_id text: Id of the payout that it was made for; null if it was made for none.
--   chain text: Chain code.
--   token text: Token code.
--   address text: The address that was swept.
--   amount numeric: What it moves, in whole coins, exact; 0 if it was cancelled.
--   amount_base_units numeric(78,0): The same amount as an integer in the smallest unit of the token.
--   state text: allocated, live: under way. done: the money is in the treasury. reverted, cancelled, conflicted: ended, and nothing was moved.
--   txid text: The final transaction; null while it is under way.
--   network_fee numeric: What it cost, in whole native coins; null while it is under way. The operator bears it.
--   network_fee_token text: The native coin of the chain, in which network_fee is counted.
--   created_at timestamp with time zone: When it was begun.
--   final_at timestamp with time zone: When it was final; null while it is under way.
--   is_nonce_only boolean: True for a row that is no sweep, which a version before analytics.cancels wrote; else false.

-- How long deposits, receipts of payment requests included, took from the timestamp of their block until they were final, for each chain and UTC day. For other groups and longer times take percentiles of analytics.deposits.seconds_to_final: percentiles of days cannot be averaged. As of the moment that analytics.freshness names.
create materialized view analytics.time_to_finality as
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
--   seconds_max numeric: The longest time, in seconds. High after a standstill, because it includes the lag of the indexer.
CREATE UNIQUE INDEX time_to_finality_key ON analytics.time_to_finality USING btree (day, chain);

-- What the treasury of each chain holds now, and how much is the operator's and the merchants'.
create view analytics.treasury with (security_barrier=true) as
 SELECT a.chain,
    a.token,
    o.address,
    analytics.coins(COALESCE(t.balance, 0::numeric), a.decimals) AS balance,
    COALESCE(t.balance, 0::numeric) AS balance_base_units,
    analytics.coins(COALESCE(t.reserved, 0::numeric), a.decimals) AS reserved,
    analytics.coins(COALESCE(t.balance - t.reserved, 0::numeric) - COALESCE(s.promised, 0::numeric), a.decimals) AS operator_funds,
    analytics.coins(COALESCE(s.merchants, 0::numeric), a.decimals) AS merchants,
    analytics.coins(COALESCE(s.advanced, 0::numeric), a.decimals) AS advanced,
    analytics.coins(COALESCE(g.amount, 0::numeric), a.decimals) AS gas_on_addresses
   FROM app.asset a
     JOIN app.chain k ON k.chain = a.chain
     LEFT JOIN custody.address o ON o.family = k.family AND o.purpose = 'treasury'::text
     LEFT JOIN app.treasury t ON t.chain = a.chain AND t.token = a.token
     LEFT JOIN ( SELECT treasury_share.chain,
            treasury_share.token,
            sum(GREATEST(treasury_share.amount, 0::numeric)) AS merchants,
            - sum(LEAST(treasury_share.amount, 0::numeric)) AS advanced,
            sum(GREATEST(treasury_share.amount - treasury_share.reserved, 0::numeric)) AS promised
           FROM app.treasury_share
          GROUP BY treasury_share.chain, treasury_share.token) s ON s.chain = a.chain AND s.token = a.token
     LEFT JOIN ( SELECT gas.chain,
            sum(gas.amount) AS amount
           FROM app.gas
          GROUP BY gas.chain) g ON g.chain = a.chain AND k.native_token = a.token;
--   chain text: Chain code.
--   token text: Token code.
--   address text: Its address; null before custody made it.
--   balance numeric: What it holds by the ledger, in whole coins, exact: only final transactions count.
--   balance_base_units numeric: The same as an integer in the smallest unit of the token.
--   reserved numeric: The part that is promised to transactions under way: amounts and highest network fees.
--   operator_funds numeric: The operator's own free money in it: fees earned and top-ups, less withdrawals, network fees and what is advanced.
--   merchants numeric: What was swept from merchants' addresses and is not paid out yet.
--   advanced numeric: What was paid to merchants before their addresses were swept.
--   gas_on_addresses numeric: Native coins of the operator's that are on deposit addresses, for their sweeps of tokens: in no other column.

-- Value that reached an address of ours and is credited to no merchant: a token that is not supported or that a payment request did not ask for, a chain that the merchant did not ask an address for, or what the chain's rules paid without a transaction. Not part of a balance, unless an operator credits it. A credited row at a user's address then moves to analytics.deposits; one at a payment request's address stays here.
create view analytics.unattributed with (security_barrier=true) as
 SELECT app.public_id('dep'::text, d.id) AS deposit_id,
    app.public_id('mer'::text, d.merchant_id) AS merchant_id,
    m.name AS merchant_name,
    m.prefix AS merchant_prefix,
    app.public_id('usr'::text, d.user_id) AS user_id,
    u.external_ref AS user_external_ref,
    app.why_unattributed(app.is_from_protocol(d.transfer_kind, d.output_index, d.token), a.token IS NOT NULL, w.is_provisioned, d.token, r.token) AS reason,
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
    d.finalised_at,
    o.decision,
    o.decided_at,
    o.destination AS returned_to,
    s.txid AS return_txid,
    s.final_at AS returned_at,
    r.external_id AS payment_request_external_id,
    x.deposit_id IS NOT NULL OR y.token IS NOT NULL AND a.token IS NULL AS dismissed
   FROM ( SELECT deposit.id,
            deposit.merchant_id,
            deposit.user_id,
            deposit.payment_request_id,
            deposit.chain,
            deposit.token,
            deposit.amount,
            deposit.status,
            deposit.sender,
            deposit.address,
            deposit.txid,
            deposit.output_index,
            deposit.transfer_kind,
            deposit.block_height,
            deposit.created_at,
            deposit.finalised_at
           FROM app.deposit
          WHERE NOT deposit.credited
        UNION ALL
         SELECT c.id,
            c.merchant_id,
            c.user_id,
            c.payment_request_id,
            c.chain,
            c.token,
            c.amount,
            c.status,
            c.sender,
            c.address,
            c.txid,
            c.output_index,
            c.transfer_kind,
            c.block_height,
            c.created_at,
            c.finalised_at
           FROM app.unattributed_decision o_1
             JOIN app.deposit c ON c.id = o_1.deposit_id
          WHERE o_1.decision = 'credit'::text AND c.payment_request_id IS NOT NULL) d
     JOIN app.merchant m ON m.id = d.merchant_id
     LEFT JOIN app."user" u ON u.id = d.user_id
     LEFT JOIN app.payment_request r ON r.id = d.payment_request_id
     LEFT JOIN LATERAL ( SELECT w_1.is_provisioned
           FROM app.chain c
             JOIN app.address w_1 ON w_1.chain = c.chain AND w_1.match_key = app.match_key(d.address, c.folds_addresses)
          WHERE c.chain = d.chain AND w_1.address = d.address) w ON true
     LEFT JOIN app.asset a ON a.chain = d.chain AND a.token = d.token
     LEFT JOIN app.unattributed_decision o ON o.deposit_id = d.id
     LEFT JOIN app.outgoing_payment s ON s.id = o.withdrawal_id AND s.outcome = 'done'::text
     LEFT JOIN app.dismissed x ON x.deposit_id = d.id
     LEFT JOIN app.dismissed y ON y.chain = d.chain AND y.token = d.token;
--   deposit_id text: Id of the row; the API does not know it.
--   merchant_id text: Id of the merchant that has the address.
--   merchant_name text: Name of the merchant.
--   merchant_prefix text: The merchant's account prefix.
--   user_id text: Id of the end user that has the address; null for the address of a payment request.
--   user_external_ref text: The merchant's own id of that user.
--   reason text: unsupported_token; chain_not_requested: the address was not asked for on this chain; wrong_token: the payment request was for another token; enabled_later: token and chain are enabled now, but were not when it arrived, and nothing is credited afterwards; protocol: fees of a block or a withdrawal of a validator, which the chain's rules paid to the address.
--   chain text: Chain code.
--   token text: Token code; the contract address if the token is not supported.
--   amount numeric: Amount in whole coins; null if the token is not supported, because its decimals are not known.
--   amount_base_units numeric(78,0): Amount as an integer in the smallest unit of the token.
--   status text: pending, final or reorged, as of a deposit.
--   sender text: Address that the value came from.
--   address text: The address that it arrived at.
--   txid text: Transaction id; for the reason protocol the hash of the block.
--   output_index integer: Position inside the transaction.
--   block_height integer: Height of the block that holds it, or last held it.
--   created_at timestamp with time zone: When Sluice first saw it.
--   finalised_at timestamp with time zone: When it became final; null if it is not.
--   decision text: return: an operator decided to send it back; credit: to add it to the merchant's balance (only value at a payment request's address is still here then); null while nothing is decided.
--   decided_at timestamp with time zone: When that was decided.
--   returned_to text: Address that it is sent to.
--   return_txid text: The final transaction that sent it; null until then.
--   returned_at timestamp with time zone: When that was final; null until then.
--   payment_request_external_id text: The merchant's own reference of the payment request that has the address; null for the address of a user.
--   dismissed boolean: Whether an operator dismissed it, or its token: nobody is asked to decide on it.

-- One row for each user of a merchant.
create view analytics.users with (security_barrier=true) as
 SELECT app.public_id('usr'::text, u.id) AS user_id,
    app.public_id('mer'::text, u.merchant_id) AS merchant_id,
    m.name AS merchant_name,
    m.prefix AS merchant_prefix,
    u.external_ref,
    u.metadata,
    u.created_at,
    u.id AS user_uuid
   FROM app."user" u
     JOIN app.merchant m ON m.id = u.merchant_id;
--   user_id text: Id of the user, as in the API.
--   merchant_id text: Id of the merchant.
--   merchant_name text: Name of the merchant.
--   merchant_prefix text: The merchant's account prefix.
--   external_ref text: The merchant's own id of the user.
--   metadata jsonb: What the merchant notes about the user: an object of strings.
--   created_at timestamp with time zone: When the user was made.
--   user_uuid uuid: user_id as a UUID, to search by: user_uuid = analytics.id('usr_...').

-- How often the endpoints of merchants responded with each HTTP status, for each UTC day, as far back as attempts are kept. As of the moment that analytics.freshness names.
create materialized view analytics.webhook_responses as
 SELECT (t.attempted_at AT TIME ZONE 'UTC'::text)::date AS day,
    app.public_id('mer'::text, w.merchant_id) AS merchant_id,
    m.name AS merchant_name,
    m.prefix AS merchant_prefix,
    app.public_id('whe'::text, w.id) AS endpoint_id,
    COALESCE(t.response_status, 0) AS response_status,
    count(*) AS attempt_count,
    percentile_disc(0.5::double precision) WITHIN GROUP (ORDER BY t.duration_ms) AS duration_ms_p50,
    percentile_disc(0.95::double precision) WITHIN GROUP (ORDER BY t.duration_ms) AS duration_ms_p95
   FROM app.delivery_attempt t
     JOIN app.delivery d ON d.id = t.delivery_id
     JOIN app.webhook_endpoint w ON w.id = d.endpoint_id
     JOIN app.merchant m ON m.id = w.merchant_id
  GROUP BY ((t.attempted_at AT TIME ZONE 'UTC'::text)::date), w.merchant_id, m.name, m.prefix, w.id, (COALESCE(t.response_status, 0));
--   day date: The day, in UTC, of the attempts.
--   merchant_id text: Id of the merchant.
--   merchant_name text: Name of the merchant.
--   merchant_prefix text: The merchant's account prefix.
--   endpoint_id text: Id of the endpoint, as in the API. Its URL is not for analysts.
--   response_status integer: HTTP status; 0 if there was no response.
--   attempt_count bigint: Number of attempts; a delivery may take several.
--   duration_ms_p50 integer: The median of the milliseconds until the response, or until it was given up.
--   duration_ms_p95 integer: 95 of 100 attempts took at most this many milliseconds.
CREATE UNIQUE INDEX webhook_responses_key ON analytics.webhook_responses USING btree (day, endpoint_id, response_status);

-- An amount in base units as the exact number of whole coins of a token with so many decimals; null if they are not known.
CREATE OR REPLACE FUNCTION analytics.coins(amount_base_units numeric, decimals integer)
 RETURNS numeric
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN trim_scale((amount_base_units * (('1e-'::text || (decimals)::text))::numeric));

-- The UUID in an id of the API, such as dep_0123...; null if the text is no id. A view finds a row by its UUID through an index, but by its id as text only by reading all rows.
CREATE OR REPLACE FUNCTION analytics.id(public_id text)
 RETURNS uuid
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN (public_id ~ '^[a-z]{3}_[0-9a-f]{32}$'::text) THEN ("right"(public_id, 32))::uuid ELSE NULL::uuid END;

-- Merchants, users, deposits, payouts, balances, events and webhooks: what follows from the chains, and what merchants asked for.
create schema app;

-- Chains that an operator started at a later block than the first one that may pay to us. Payments below it are not seen.
create table app.accepted_gap (
  chain text not null, -- Chain code.
  missing_from integer, -- The first block that should have been read, and was not; null if unknown.
  follow_from integer not null, -- The first block that is read: the gap ends below it.
  accepted_by text not null, -- Who accepted it: the user of the operating system, and the machine.
  accepted_at timestamp with time zone not null default clock_timestamp(), -- When it was accepted.
  constraint accepted_gap_pkey PRIMARY KEY (chain),
  constraint accepted_gap_chain_fkey FOREIGN KEY (chain) REFERENCES app.chain(chain),
  constraint accepted_gap_follow_from_check CHECK ((follow_from > 0))
);

-- Addresses that are watched, and their owners.
create table app.address (
  chain text not null, -- Chain on which it is watched.
  match_key text not null, -- The address as indexers look it up (app.match_key): in lower case where that makes no difference (app.chain.folds_addresses).
  address text not null, -- The address as people see it (EIP-55 on EVM chains).
  user_id uuid, -- The user that it was handed out for; null for the address of a payment request or a treasury.
  merchant_id uuid, -- The merchant that it was handed out to; null for a treasury.
  is_provisioned boolean not null, -- True if the merchant asked for this chain: deposits are credited (at a payment request's address, in its token alone). False if it is watched only because the same key controls it here: what arrives is unattributed.
  created_at timestamp with time zone not null default clock_timestamp(), -- When it was handed out on this chain.
  payment_request_id uuid, -- The payment request that it was handed out for; null for the address of a user or a treasury.
  constraint address_pkey PRIMARY KEY (chain, match_key),
  constraint address_payment_request_id_fkey FOREIGN KEY (payment_request_id) REFERENCES app.payment_request(id),
  constraint address_user_id_fkey FOREIGN KEY (user_id) REFERENCES app."user"(id),
  constraint one_owner CHECK ((num_nonnulls(user_id, payment_request_id) = num_nonnulls(merchant_id)))
);
CREATE UNIQUE INDEX address_payment_request ON app.address USING btree (payment_request_id, chain) WHERE (payment_request_id IS NOT NULL);
CREATE INDEX address_user ON app.address USING btree (user_id);
CREATE TRIGGER announce_address AFTER INSERT ON app.address REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION app.announce_address();

-- Debts of merchants, and what cancels them: for a deposit that was lost after a payout had claimed it, or for a payout that an older copy of the database had forgotten. The next payout claims them with the deposits.
create table app.adjustment (
  id uuid not null default uuidv7(), -- Id.
  merchant_id uuid not null, -- The merchant.
  chain text not null, -- Chain code.
  token text not null, -- Token code.
  amount numeric(78,0) not null, -- Change of the balance: below zero for a debt.
  deposit_id uuid, -- The deposit that was lost, or came back; null if it is about a payout.
  reason text not null, -- deposit_lost; deposit_back: it became final again; payout_failed: the payout that had claimed it gave it back; payout_recovered and paid_after_all: a payout that an older copy of the database had forgotten, or given up.
  settlement_id uuid, -- The payout that claimed it; null until then.
  created_at timestamp with time zone not null default clock_timestamp(), -- When it was made.
  "position" bigint not null generated always as identity, -- Place in the list of what a payout is made of (app.payout_parts), above every deposit.
  constraint adjustment_pkey PRIMARY KEY (id),
  constraint adjustment_amount_check CHECK ((amount <> (0)::numeric)),
  constraint adjustment_merchant_id_fkey FOREIGN KEY (merchant_id) REFERENCES app.merchant(id)
);
CREATE INDEX adjustment_deposit ON app.adjustment USING btree (deposit_id);
CREATE INDEX adjustment_recovered ON app.adjustment USING btree (merchant_id, chain, token) WHERE ((reason = 'payout_recovered'::text) AND (settlement_id IS NULL));
CREATE INDEX adjustment_settlement ON app.adjustment USING btree (settlement_id, "position") WHERE (settlement_id IS NOT NULL);
CREATE INDEX adjustment_unpaid ON app.adjustment USING btree (merchant_id, chain, token) WHERE (settlement_id IS NULL);
CREATE CONSTRAINT TRIGGER find_recovered_deposits AFTER INSERT ON app.adjustment DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (((new.reason = 'payout_recovered'::text) AND (new.amount < (0)::numeric))) EXECUTE FUNCTION app.note_recovered();

-- The materialised views of analytics: the moment that each shows, and when it is computed again.
create table app.analytics_refresh (
  view_name text not null, -- Name of the view.
  refreshed_at timestamp with time zone, -- It shows what was committed at this moment; null before the first time.
  took_seconds double precision, -- How long it took to compute.
  due_at timestamp with time zone not null default '-infinity'::timestamp with time zone, -- When it is computed again: the longer it takes, the later.
  failed_at timestamp with time zone, -- When computing it failed; null if it succeeded the last time.
  error text, -- Why it failed.
  constraint analytics_refresh_pkey PRIMARY KEY (view_name)
);

-- API keys. The secret itself is shown once and never stored.
create table app.api_key (
  id uuid not null default uuidv7(), -- Id; shown as key_ and 32 hex digits.
  merchant_id uuid not null, -- The merchant that the key acts for.
  secret_hash bytea not null, -- SHA-256 of the secret, which has 256 random bits.
  created_at timestamp with time zone not null default clock_timestamp(), -- When the key was made.
  revoked_at timestamp with time zone, -- When it stopped working; null while it works.
  label text, -- What it is for, in the operator's words; null if not given.
  last_used_on date, -- The newest day (UTC) on which a request came with it; null if none ever did.
  scopes text[] not null default '{read,users,payouts,payments,webhooks}'::text[], -- What it may do. read: every GET. users, payouts (with payout addresses), payments (payment requests), webhooks (endpoints): the changes of each. Never changes.
  constraint api_key_pkey PRIMARY KEY (id),
  constraint api_key_label_check CHECK (((char_length(label) >= 1) AND (char_length(label) <= 100))),
  constraint api_key_merchant_id_fkey FOREIGN KEY (merchant_id) REFERENCES app.merchant(id),
  constraint api_key_scopes_check CHECK (((scopes <@ '{read,users,payouts,payments,webhooks}'::text[]) AND (cardinality(scopes) > 0))),
  constraint api_key_secret_hash_key UNIQUE (secret_hash)
);
CREATE INDEX api_key_merchant ON app.api_key USING btree (merchant_id);
CREATE TRIGGER announce_revocation AFTER UPDATE OF revoked_at ON app.api_key FOR EACH ROW WHEN ((new.revoked_at IS NOT NULL)) EXECUTE FUNCTION app.announce_revocation();

-- The (chain, token) pairs that are credited, from chains/registry.ts: every migration run updates them.
create table app.asset (
  chain text not null, -- Chain code.
  token text not null, -- Token code.
  name text not null, -- Name of the asset in payment requests.
  display_name text not null, -- Name for people.
  decimals integer not null, -- Digits after the decimal point: amounts in tables are in units of 10^-decimals. Never changes.
  min_payout numeric(78,0) not null default 1, -- The smallest net amount of a payout, in base units: the setting <chain>_MIN_PAYOUT, but at least the smallest amount that the chain carries.
  min_payment numeric(78,0) not null default 1, -- The smallest amount that is a payment, in base units: what an address without coins can receive, or a hundredth of what is worth sweeping. Less moves no payment request, and is not asked for.
  max_payment numeric(78,0) not null default (((10)::numeric ^ (77)::numeric) - (1)::numeric), -- No payment can be more, in base units: there are no more coins, or the chain cannot count them.
  sweep_min numeric(78,0), -- The least final money on an address (on chains with outputs: in an output) that is worth a sweep, in base units: the setting <chain>_SWEEP_MIN. What an address with less holds is held back.
  sweep_by text, -- How addresses are swept: fund, the treasury sends them gas for a transfer of their own; eip3009, it takes what they authorise. Null where the chain knows one way only.
  code_hash text, -- Hash of the code of its contract, and of the code that a proxy pointed to, when it was last looked at; null if it never was.
  constraint asset_pkey PRIMARY KEY (chain, token),
  constraint asset_name_key UNIQUE (name)
);

-- What each check of a run found. A check that could not be done has no row; the run says why.
create table app.audit_finding (
  run_id bigint not null, -- The run.
  name text not null, -- Name of the check.
  claim text not null, -- What must hold.
  count bigint not null, -- How many rows break it; 0 if all is right.
  found jsonb not null default '[]'::jsonb, -- The first ten of these rows. Amounts are strings.
  constraint audit_finding_pkey PRIMARY KEY (run_id, name),
  constraint audit_finding_count_check CHECK ((count >= 0)),
  constraint audit_finding_run_id_fkey FOREIGN KEY (run_id) REFERENCES app.audit_run(id) ON DELETE CASCADE
);

-- A run of the audit: each day by the jobs worker, or by sluice audit. Kept for a year.
create table app.audit_run (
  id bigint not null generated always as identity, -- Number of the run.
  started_at timestamp with time zone not null default clock_timestamp(), -- When it began.
  finished_at timestamp with time zone, -- When it ended; null while it runs, or if its process ended before.
  error text, -- What could not be checked, and why; null if everything was.
  constraint audit_run_pkey PRIMARY KEY (id)
);

-- Backups of this database that were finished, and drills: rehearsals of a loss.
create table app.backup_run (
  id bigint not null generated always as identity, -- Number of the run.
  kind text not null, -- backup or drill.
  finished_at timestamp with time zone not null default clock_timestamp(), -- When it ended.
  made_with text not null, -- The tool: sluice backup, sluice drill, or what the caller of app.note_backup named.
  error text, -- For a drill, the step that failed, and why; null if all of them succeeded.
  constraint backup_run_pkey PRIMARY KEY (id),
  constraint backup_run_check CHECK (((kind = 'drill'::text) OR (error IS NULL))),
  constraint backup_run_kind_check CHECK ((kind = ANY (ARRAY['backup'::text, 'drill'::text])))
);

-- Folded balances; without app.balance_delta they are not complete. Read app.balance_now.
create table app.balance (
  merchant_id uuid not null, -- The merchant.
  chain text not null, -- Chain code.
  token text not null, -- Token code.
  amount numeric(78,0) not null, -- Gross balance in base units, without the changes that are not folded yet.
  deposit_count bigint not null, -- Unsettled final deposits, without the changes that are not folded yet.
  held_back numeric(78,0) not null default 0, -- The part of the gross balance that is held back, in base units, without the changes that are not folded yet.
  held_back_count bigint not null default 0, -- Deposits that are held back, without the changes that are not folded yet.
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
  held_back numeric(78,0) not null default 0, -- Change of the part of the gross balance that is held back, in base units.
  held_back_count integer not null default 0, -- Change of the number of deposits that are held back.
  constraint balance_delta_pkey PRIMARY KEY (id)
);
CREATE INDEX balance_delta_pair ON app.balance_delta USING btree (merchant_id, chain, token);

-- Addresses that cannot be swept because the chain refuses it: their deposits are held back until it does not.
create table app.blocked_address (
  chain text not null, -- Chain code.
  token text not null, -- Token code.
  address text not null, -- The address.
  why text not null, -- What the node said, the last time that it was asked.
  blocked_at timestamp with time zone not null default clock_timestamp(), -- Since when.
  retry_at timestamp with time zone not null default (clock_timestamp() + '1 day'::interval), -- When the node is asked again.
  constraint blocked_address_pkey PRIMARY KEY (chain, token, address),
  constraint blocked_address_address_fkey FOREIGN KEY (address) REFERENCES custody.address(address),
  constraint blocked_address_chain_token_fkey FOREIGN KEY (chain, token) REFERENCES app.asset(chain, token)
);
CREATE INDEX blocked_address_retry ON app.blocked_address USING btree (chain, retry_at);

-- The chains that Sluice can run, from chains/registry.ts and their families (chains/families.ts): every migration run adds new ones.
create table app.chain (
  chain text not null, -- Chain code.
  family text not null, -- Chains of one family share their addresses: a key controls the same address on each of them.
  native_token text not null, -- Token code of the native coin, in which network fees are paid.
  attempts_exclude_by text not null, -- What all attempts of an outgoing payment use, so that at most one of them is ever mined. nonce: the same nonce of an account. output: the same output, their first input (app.outgoing_payment.first_input). expiry: nothing; each attempt ends, and the next is signed only when the ones before can never be mined. Never changes.
  ends_by text, -- Where attempts expire: whether the last block that may hold one is given by its height, or by the time of the blocks (in ms). Never changes.
  longest_lifetime bigint, -- Where attempts expire: the most blocks, or ms by the time of the blocks, from the newest block when one is signed to its end.
  longest_lifetime_ms bigint, -- Where attempts expire: by this many ms after one is signed the chain is past its end, unless it stands still.
  shows_unconfirmed boolean not null, -- Whether its indexer shows payments that are in no block yet (chain.unconfirmed), and is notified of each new address at once.
  coinbase_sender text, -- What its indexer writes as the sender of new coins; null if they do not come as transfers of a transaction.
  coinbase_maturity integer, -- How many blocks above theirs nodes wait until new coins may be spent; null if there are none.
  folds_addresses boolean not null, -- Whether upper and lower case make no difference in an address; it is then looked up in lower case (app.match_key). The same for all chains of a family. Never changes.
  assets jsonb, -- Its assets as the settings of the last migration run name them: [{token, decimals, contract}]. A process with other settings does not start. Null before a run with settings.
  treasury_pays_native_sweeps boolean not null default false, -- Whether the treasury pays the network fee of a sweep of the native coin, as it does for every token; else the address that is swept pays it. Sweeps that were begun keep who pays them (app.outgoing_payment.fee_payer).
  constraint chain_pkey PRIMARY KEY (chain),
  constraint chain_attempts_exclude_by_check CHECK ((attempts_exclude_by = ANY (ARRAY['nonce'::text, 'output'::text, 'expiry'::text]))),
  constraint chain_coinbase_maturity_check CHECK ((coinbase_maturity > 0)),
  constraint chain_ends_by_check CHECK ((ends_by = ANY (ARRAY['height'::text, 'time'::text]))),
  constraint chain_longest_lifetime_check CHECK ((longest_lifetime > 0)),
  constraint chain_longest_lifetime_ms_check CHECK ((longest_lifetime_ms > 0)),
  constraint coinbase CHECK ((num_nulls(coinbase_sender, coinbase_maturity) <> 1))
);

-- Addresses of ours that hold something else on the chain than in the ledger, as their newest comparison found it, twice in a row.
create table app.chain_difference (
  chain text not null, -- Chain code.
  address text not null, -- Our address.
  token text not null, -- Token code.
  outpoint text not null default ''::text, -- The output (txid:vout), on chains that have them; else empty.
  ledger numeric not null, -- What it holds by the ledger, in base units.
  on_chain numeric not null, -- What it holds on the chain, in base units.
  from_height integer, -- What the ledger is missing is in this block or above; null if that is not known.
  handed_out_at timestamp with time zone not null, -- When the address was handed out.
  found_at timestamp with time zone not null default clock_timestamp(), -- When it was found.
  constraint chain_difference_pkey PRIMARY KEY (chain, address, token, outpoint)
);

-- Allocation that payouts asked for: a claim gives deposits to a payout, a release gives them back. Carried out in order, for each merchant, chain and token.
create table app.claim (
  id bigint not null generated always as identity, -- Order in which the balance changed.
  kind text not null, -- claim or release.
  payout_id uuid not null, -- The payout.
  merchant_id uuid not null, -- Its merchant.
  chain text not null, -- Its chain.
  token text not null, -- Its token.
  cutoff bigint not null, -- Deposits that became final later than at this finalisation number do not belong to it.
  deposit_count bigint not null, -- How many deposits it covers.
  amount numeric(78,0) not null, -- The sum of these deposits, in base units.
  done_count bigint not null default 0, -- How many deposits are done.
  done_amount numeric(78,0) not null default 0, -- The sum of the deposits that are done.
  last_finalisation bigint not null default '-1'::integer, -- Finalisation number of the last deposit that was done.
  last_seq bigint not null default '-1'::integer, -- seq of the last deposit that was done.
  created_at timestamp with time zone not null default clock_timestamp(), -- When it was requested.
  finished_at timestamp with time zone, -- When it was done; null before.
  constraint claim_pkey PRIMARY KEY (id),
  constraint claim_kind_check CHECK ((kind = ANY (ARRAY['claim'::text, 'release'::text]))),
  constraint claim_payout_id_fkey FOREIGN KEY (payout_id) REFERENCES app.payout(id),
  constraint claim_payout_id_kind_key UNIQUE (payout_id, kind)
);
CREATE INDEX claim_open ON app.claim USING btree (merchant_id, chain, token, id) WHERE (finished_at IS NULL);
CREATE CONSTRAINT TRIGGER find_recovered_deposits AFTER UPDATE OF finished_at ON app.claim DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (((old.finished_at IS NULL) AND (new.finished_at IS NOT NULL))) EXECUTE FUNCTION app.note_recovered();

-- The progress of comparing every address with the chain, and the age of the oldest comparison.
create table app.comparison (
  chain text not null, -- Chain code.
  created_at timestamp with time zone not null default clock_timestamp(), -- When the chain was first compared.
  began_at timestamp with time zone not null default clock_timestamp(), -- When the current or last pass over all addresses began.
  "position" text default ''::text, -- match_key of the last address that this pass compared; empty before the first, null when the pass has ended.
  height integer, -- The lowest final height at which this pass compared.
  compared bigint not null default 0, -- How many addresses this pass compared.
  unread text, -- What this pass could not read, and why; null if it read everything.
  next_at timestamp with time zone not null default clock_timestamp(), -- When the worker continues, so that it asks the node for no more than a quarter of the time.
  error text, -- Why the chain could not be asked at the last try; null if it could.
  since timestamp with time zone, -- Every address that was handed out before this moment was compared at or after it; null before the first whole pass.
  since_height integer, -- The lowest final height at which the last whole pass compared.
  constraint comparison_pkey PRIMARY KEY (chain)
);

-- CPFP children: sweeps of outputs that are not final, which pay for their unconfirmed parent.
create table app.cpfp (
  outgoing_payment_id uuid not null, -- The sweep.
  txid text not null, -- The parent: an unconfirmed transaction of another sender that pays us.
  outputs text[] not null, -- Those of its outputs that are spent (txid:vout).
  parent_inputs text[] not null, -- What the parent spends (txid:vout): another transaction that spends one of them excludes it, and so its child.
  parent_vsize integer not null, -- Size of the parent in virtual bytes, which the child pays for, too.
  constraint cpfp_pkey PRIMARY KEY (outgoing_payment_id),
  constraint cpfp_outgoing_payment_id_fkey FOREIGN KEY (outgoing_payment_id) REFERENCES app.outgoing_payment(id) ON DELETE CASCADE,
  constraint cpfp_parent_vsize_check CHECK (((parent_vsize >= 1) AND (parent_vsize <= 100000)))
);

-- One event on its way to one endpoint. A partition for each week; old weeks are dropped.
create table app.delivery (
  id uuid not null default uuidv7(), -- Id, a UUID of version 7, whose time says which week it is in; shown as dlv_ and 32 hex digits.
  event_id uuid not null, -- The event.
  endpoint_id uuid not null, -- The endpoint.
  status text not null default 'pending'::text, -- pending until it succeeds (delivered), or every attempt is used up or the endpoint is disabled (failed).
  attempts integer not null default 0, -- Attempts of the present schedule; a redelivery starts again at 0.
  next_attempt_at timestamp with time zone default clock_timestamp(), -- When the next attempt is due; null when there will be none.
  created_at timestamp with time zone not null default clock_timestamp(), -- When it was made, with its event.
  finished_at timestamp with time zone, -- When it was delivered or failed; null while it is pending.
  constraint delivery_pkey PRIMARY KEY (id),
  constraint delivery_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'delivered'::text, 'failed'::text])))
) partition by RANGE (id);
CREATE INDEX delivery_due ON ONLY app.delivery USING btree (endpoint_id, next_attempt_at) WHERE (status = 'pending'::text);
CREATE INDEX delivery_failed ON ONLY app.delivery USING btree (endpoint_id, created_at) WHERE (status = 'failed'::text);
CREATE INDEX delivery_failed_page ON ONLY app.delivery USING btree (endpoint_id, id DESC) WHERE (status = 'failed'::text);
CREATE INDEX delivery_page ON ONLY app.delivery USING btree (endpoint_id, id DESC);

-- Each HTTP request that tried to deliver an event. A partition for each week, the same as that of its delivery.
create table app.delivery_attempt (
  id bigint not null generated always as identity, -- Order of the attempts.
  delivery_id uuid not null, -- The delivery.
  attempted_at timestamp with time zone not null, -- When the request began.
  duration_ms integer not null, -- How long it took, in milliseconds.
  response_status integer, -- HTTP status of the response; null if there was none.
  error text, -- Why it failed; null if it succeeded.
  constraint delivery_attempt_pkey PRIMARY KEY (delivery_id, id)
) partition by RANGE (delivery_id);

-- Value that reached an address of ours. Credited ones are deposits of a merchant's users, or receipts of its payment requests. The others are unattributed (a token or a chain that was not asked for, or what a chain's rules paid) or, at a treasury, the operator's own.
create table app.deposit (
  id uuid not null, -- Id, computed from what the deposit is (app.deposit_id), so that it is the same when the chain is read into an older copy of the database; shown as dep_ and 32 hex digits.
  seq bigint not null generated always as identity, -- Order in which deposits were first seen, within a moment.
  merchant_id uuid, -- The merchant that has the address; null for a treasury.
  user_id uuid, -- The user that has the address; null for the address of a payment request or a treasury.
  chain text not null, -- Chain code.
  token text not null, -- Token code; a contract address if the token is not supported.
  amount numeric(78,0) not null, -- Amount in base units.
  sender text not null, -- Where the value came from.
  address text not null, -- Our address.
  txid text not null, -- Transaction id.
  output_index integer not null, -- Position inside the transaction (see chain.transfer).
  block_height integer, -- Block that holds it, or last held it; null while it is in none.
  block_hash text, -- Hash of that block; null while it is in none.
  status text not null, -- pending: in a block that may still leave the chain, or unconfirmed. final: counts. reorged: its block left the chain, or it will never be in one.
  credited boolean not null, -- True if it counts for the merchant; decided when it is first seen, or by an operator afterwards.
  version integer not null, -- Number of changes of status so far; an operator's crediting is one, too.
  settlement_id uuid, -- The payout that collected it; null until then.
  created_at timestamp with time zone not null default clock_timestamp(), -- When it was first seen.
  finalised_at timestamp with time zone, -- When it became final; null while it is not.
  finalisation bigint, -- Number, on its chain, of the time at which it became final, or was credited by an operator; null before.
  payment_request_id uuid, -- The payment request that has the address; null for the address of a user or a treasury.
  came_at timestamp with time zone, -- For what reached a payment request's address: when it was first seen, or the time of a block that holds or held it, whichever is earlier; null for others.
  settled_before_restore boolean not null default false, -- True if a payout that an older copy of the database had forgotten covers it, and it is unknown which deposits that payout collected: the balance no longer includes it.
  "position" numeric(38,0) not null generated always as ((((((EXTRACT(epoch FROM (created_at - '1970-01-01 00:00:00+00'::timestamp with time zone)) * (1000000)::numeric))::bigint)::numeric * '9223372036854775808'::numeric) + (seq)::numeric)) stored, -- Place in lists, so that a range of times is a range of an index: the microsecond of created_at, times 2^63, plus seq.
  held_back boolean not null default false, -- True while no payout can collect it, because its address does not hold enough to be worth a sweep (app.asset.sweep_min), or is blocked (app.blocked_address). Only a final, credited deposit is held back; one that was collectable once never is again, unless its address is blocked.
  released bigint, -- Number, on its chain, of the time from which it was no longer held back; null if it never was. A payout claims up to a number: this one or, without it, finalisation. While its address is blocked, a deposit that was collectable before has one.
  mined_at timestamp with time zone, -- Time of the first block that held a receipt of a payment request; null for others, and until one does.
  transfer_kind text, -- What moved it, as chain.transfer.transfer_kind; null if an older version wrote it.
  constraint deposit_pkey PRIMARY KEY (id),
  constraint deposit_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'final'::text, 'reorged'::text]))),
  constraint deposit_transfer_kind CHECK ((transfer_kind = ANY (ARRAY['native'::text, 'internal'::text, 'token'::text, 'protocol'::text]))),
  constraint deposit_txid_output_index_chain_address_token_key UNIQUE (txid, output_index, chain, address, token),
  constraint nobody_is_not_credited CHECK (((NOT credited) OR (merchant_id IS NOT NULL))),
  constraint only_final_is_held_back CHECK (((NOT held_back) OR ((status = 'final'::text) AND credited))) NOT VALID
);
CREATE INDEX deposit_collectable ON app.deposit USING btree (merchant_id, chain, token, COALESCE(released, finalisation), seq) INCLUDE (amount) WHERE ((status = 'final'::text) AND credited AND (settlement_id IS NULL) AND (NOT held_back));
CREATE INDEX deposit_created ON app.deposit USING btree (merchant_id, created_at) WHERE credited;
CREATE INDEX deposit_held_back ON app.deposit USING btree (chain, token, address) WHERE held_back;
CREATE INDEX deposit_page ON app.deposit USING btree (merchant_id, "position" DESC) WHERE (credited AND (user_id IS NOT NULL));
CREATE INDEX deposit_part_page ON app.deposit USING btree (merchant_id, chain, token, status, "position" DESC) WHERE (credited AND (user_id IS NOT NULL));
CREATE INDEX deposit_payment_request ON app.deposit USING btree (payment_request_id) WHERE (payment_request_id IS NOT NULL);
CREATE INDEX deposit_pending ON app.deposit USING btree (chain, block_height) WHERE (status = 'pending'::text);
CREATE INDEX deposit_settlement ON app.deposit USING btree (settlement_id, seq) WHERE (settlement_id IS NOT NULL);
CREATE INDEX deposit_settlement_page ON app.deposit USING btree (settlement_id, status, "position" DESC) WHERE ((settlement_id IS NOT NULL) AND credited AND (user_id IS NOT NULL));
CREATE INDEX deposit_unattributed ON app.deposit USING btree (chain) WHERE ((status = 'final'::text) AND (NOT credited) AND (merchant_id IS NOT NULL));
CREATE INDEX deposit_unattributed_address ON app.deposit USING btree (chain, address) WHERE ((status = 'final'::text) AND (NOT credited) AND (merchant_id IS NOT NULL));
CREATE INDEX deposit_uncredited ON app.deposit USING btree (chain, seq DESC) WHERE (NOT credited);
CREATE INDEX deposit_user_page ON app.deposit USING btree (user_id, chain, token, status, "position" DESC) WHERE (credited AND (user_id IS NOT NULL));
CREATE TRIGGER adopt_return AFTER INSERT ON app.deposit FOR EACH ROW WHEN (((NOT new.credited) AND (new.merchant_id IS NOT NULL))) EXECUTE FUNCTION app.adopt_deposit();
CREATE TRIGGER final_stays_final BEFORE UPDATE ON app.deposit FOR EACH ROW WHEN (((old.status = 'final'::text) AND ((new.status <> 'final'::text) OR (new.amount <> old.amount)) AND (current_setting('app.decided_by_operator'::text, true) IS DISTINCT FROM 'on'::text))) EXECUTE FUNCTION app.refuse_change();
CREATE TRIGGER name_deposit BEFORE INSERT ON app.deposit FOR EACH ROW WHEN ((new.id IS NULL)) EXECUTE FUNCTION app.name_deposit();
CREATE TRIGGER never_another BEFORE UPDATE ON app.deposit FOR EACH ROW WHEN (((old.id <> new.id) OR (old.chain <> new.chain) OR (old.txid <> new.txid) OR (old.output_index <> new.output_index) OR (old.address <> new.address) OR (old.token <> new.token) OR ((old.status = 'reorged'::text) AND (new.status = 'final'::text)) OR ((old.credited <> new.credited) AND (old.credited OR (current_setting('app.decided_by_operator'::text, true) IS DISTINCT FROM 'on'::text))))) EXECUTE FUNCTION app.refuse_change();
CREATE TRIGGER never_deleted BEFORE DELETE ON app.deposit FOR EACH ROW EXECUTE FUNCTION app.refuse_change();
CREATE TRIGGER note_arrival BEFORE INSERT OR UPDATE OF block_hash ON app.deposit FOR EACH ROW WHEN ((new.payment_request_id IS NOT NULL)) EXECUTE FUNCTION app.note_arrival();
CREATE TRIGGER note_receipt AFTER INSERT ON app.deposit FOR EACH ROW WHEN ((new.credited AND (new.payment_request_id IS NOT NULL))) EXECUTE FUNCTION app.note_receipt();
CREATE TRIGGER note_receipt_change AFTER UPDATE OF status, amount, credited, block_hash ON app.deposit FOR EACH ROW WHEN ((new.credited AND (new.payment_request_id IS NOT NULL) AND (((((old.status IS DISTINCT FROM new.status) OR (old.amount IS DISTINCT FROM new.amount)) OR (old.credited IS DISTINCT FROM new.credited)) OR (old.came_at IS DISTINCT FROM new.came_at)) OR (old.mined_at IS DISTINCT FROM new.mined_at)))) EXECUTE FUNCTION app.note_receipt();
CREATE TRIGGER withhold_protocol_income BEFORE INSERT ON app.deposit FOR EACH ROW WHEN ((new.credited AND (new.merchant_id IS NOT NULL) AND app.is_from_protocol(new.transfer_kind, new.output_index, new.token))) EXECUTE FUNCTION app.withhold_protocol_income();
CREATE TRIGGER withhold_returned BEFORE INSERT ON app.deposit FOR EACH ROW WHEN ((new.credited AND (new.merchant_id IS NOT NULL))) EXECUTE FUNCTION app.withhold_returned();

-- Unattributed value that is not shown to operators any more: all of a token that Sluice does not support, also what is still to come, or one deposit.
create table app.dismissed (
  chain text not null, -- Chain code.
  token text, -- The token, as the chain names it; null for one deposit.
  deposit_id uuid, -- The deposit; null for a token.
  dismissed_at timestamp with time zone not null default clock_timestamp(), -- When.
  constraint dismissed_chain_token_key UNIQUE (chain, token),
  constraint dismissed_check CHECK ((num_nonnulls(token, deposit_id) = 1)),
  constraint dismissed_deposit_id_fkey FOREIGN KEY (deposit_id) REFERENCES app.deposit(id),
  constraint dismissed_deposit_id_key UNIQUE (deposit_id)
);

-- What happened, once for each change of state. Never deleted, and never changed once it has its sequence.
create table app.event (
  id uuid not null, -- Id; shown as evt_, or evt_test_, and 32 hex digits (app.event_id). Receivers de-duplicate on it.
  "position" bigint not null generated always as identity, -- Order of insertion.
  sequence bigint, -- Order in which events became visible; gaps are allowed. Null for a moment after the commit.
  merchant_id uuid not null, -- The merchant that is notified.
  type text not null, -- A type of app.event_types().
  subject_id uuid not null, -- The deposit, the payout, or the payment request; of a test the endpoint.
  version integer not null, -- How many changes the subject has had, this one included.
  payload json not null, -- The body of the event without its sequence. (json keeps the order of the fields.)
  created_at timestamp with time zone not null, -- When it happened.
  is_test boolean not null default false, -- True for an example that was sent to test an endpoint: nothing happened, and no list shows it.
  constraint event_pkey PRIMARY KEY (id),
  constraint event_subject_id_version_key UNIQUE (subject_id, version)
);
CREATE INDEX event_created ON app.event USING brin (created_at timestamptz_minmax_multi_ops) WITH (autosummarize='on');
CREATE UNIQUE INDEX event_default_page ON app.event USING btree (merchant_id, sequence DESC) WHERE ((sequence IS NOT NULL) AND (NOT is_test) AND (NOT starts_with(type, 'payment_request.'::text)));
CREATE UNIQUE INDEX event_page ON app.event USING btree (merchant_id, sequence DESC) WHERE ((sequence IS NOT NULL) AND (NOT is_test));
CREATE INDEX event_type_page ON app.event USING btree (merchant_id, type, sequence DESC) WHERE ((sequence IS NOT NULL) AND (NOT is_test));
CREATE INDEX event_unsequenced ON app.event USING btree ("position") WHERE (sequence IS NULL);

-- The operator's native coins on deposit addresses: what funds brought, less what the addresses' own transactions cost and defunds took back.
create table app.gas (
  chain text not null, -- Chain code.
  address text not null, -- The deposit address.
  amount numeric not null default 0, -- Sum of the account gas for the address, in base units.
  reserved numeric not null default 0, -- Highest network fees of the address's sweeps and defunds under way, and what these defunds move, in base units.
  used_at timestamp with time zone not null default now(), -- When its amount, or what is reserved, last changed.
  constraint gas_pkey PRIMARY KEY (chain, address)
);
CREATE INDEX gas_largest ON app.gas USING btree (chain, amount DESC) WHERE (amount > (0)::numeric);

-- Final, credited money on a deposit address that no sweep has taken: the sum of its entries in the ledger.
create table app.holding (
  chain text not null, -- Chain code.
  address text not null, -- The address.
  token text not null, -- Token code.
  merchant_id uuid not null, -- The merchant whose user has the address.
  amount numeric not null, -- Amount in base units.
  constraint holding_pkey PRIMARY KEY (chain, address, token)
);
CREATE INDEX holding_largest ON app.holding USING btree (merchant_id, chain, token, amount DESC) WHERE (amount > (0)::numeric);

-- Idempotency keys of payouts that were accepted, for ever.
create table app.idempotency_key (
  merchant_id uuid not null, -- The merchant.
  key text not null, -- The key.
  request_hash bytea not null, -- SHA-256 of the request that came with it.
  payout_id uuid, -- The payout that it made; null only within the transaction that makes it.
  body text, -- The response that was given, and is given again; null only within the transaction that makes the payout.
  created_at timestamp with time zone not null default clock_timestamp(), -- When it was first used.
  constraint idempotency_key_pkey PRIMARY KEY (merchant_id, key),
  constraint idempotency_key_merchant_id_fkey FOREIGN KEY (merchant_id) REFERENCES app.merchant(id)
);

-- Something that must never happen, and did; an operator decides: sluice incident list.
create table app.incident (
  id bigint not null generated always as identity, -- Number of the incident.
  chain text, -- Chain code; null if it concerns no single chain, and then nothing waits for it.
  kind text not null, -- Its kind; app.incident_kind has all of them.
  subject text not null, -- The id of the deposit (final_deposit_...) or of the outgoing payment (..._payment_vanished, payment_of_failed_payout, second_payment); <chain>:<the address that sent> (unknown_transaction); <chain>:<token>:<address> (address_blocked); <chain>:<token> (token_changed, token_takes_fee); the id of the transfer (payment_replaced); the chain (fork_below_final, journal_ahead, unproven_block, untraced_blocks, no_internal_transactions); the stream of the journal (journal_changed); audit:<check>.
  details jsonb not null, -- What was seen.
  opened_at timestamp with time zone not null default clock_timestamp(), -- When it was noticed.
  resolved_at timestamp with time zone, -- When it was resolved; null while it is open.
  resolution text, -- healed (it went away by itself), reconciled (custody's journal was imported), reorged, kept, loss, debt, rewound, resumed or unblocked (an operator decided).
  constraint incident_pkey PRIMARY KEY (id),
  constraint incident_kind_fkey FOREIGN KEY (kind) REFERENCES app.incident_kind(kind)
);
CREATE UNIQUE INDEX incident_open ON app.incident USING btree (subject, kind) WHERE (resolved_at IS NULL);

-- The kinds of incidents, and what an operator does about each.
create table app.incident_kind (
  kind text not null, -- The kind.
  halts boolean not null, -- True if the chain is halted while it is open: nothing is read. If false, and the incident names a chain, only its payouts stop.
  decisions text[] not null, -- The only things that resolve it: kept, reorged, loss, debt or absent (sluice incident resolve), rewind or resume (sluice chain), reconcile (sluice custody). Empty: it closes only by itself.
  way_out text not null, -- What to do, with the commands; {id} stands for its number and {chain} for its chain.
  constraint incident_kind_pkey PRIMARY KEY (kind),
  constraint incident_kind_decisions_check CHECK ((decisions <@ ARRAY['kept'::text, 'reorged'::text, 'loss'::text, 'debt'::text, 'absent'::text, 'rewind'::text, 'resume'::text, 'reconcile'::text]))
);

-- Double-entry bookkeeping of everything that moved. The entries of one posting add up to zero for each token.
create table app.ledger_entry (
  id bigint not null generated always as identity, -- Order of insertion.
  posting bigint not null, -- The movement that the entry is a part of.
  kind text not null, -- deposit (deposits became final, or an operator credited one), top_up (the treasury was paid), reorg (a final deposit was taken back), claim and release (of a payout), payout, sweep, withdrawal, return (of unattributed value, in each of its steps), network_fee, second_payment (what left although its payment had ended), fund (gas for an address), defund (gas of an address, back to the treasury).
  reference text not null, -- What caused it: finalisation:<chain>:<number>, or the id of the deposit, the payout or the outgoing payment.
  account text not null, -- address, treasury, merchant, payout, fees, network, operator, unattributed or gas (explained in db/functions/ledger/post.sql).
  chain text not null, -- Chain code.
  token text not null, -- Token code.
  merchant_id uuid, -- The merchant that the movement belongs to; null for the operator's own and for unattributed value.
  address text, -- The address, for the accounts address and gas; else null.
  amount numeric not null, -- Debit (positive) or credit (negative), in base units.
  created_at timestamp with time zone not null default clock_timestamp(), -- When it was posted.
  constraint ledger_entry_pkey PRIMARY KEY (id),
  constraint ledger_entry_account_name CHECK ((account = ANY (ARRAY['address'::text, 'treasury'::text, 'merchant'::text, 'payout'::text, 'fees'::text, 'network'::text, 'operator'::text, 'unattributed'::text, 'gas'::text]))),
  constraint ledger_entry_amount_check CHECK ((amount <> (0)::numeric)),
  constraint ledger_entry_kind CHECK ((kind = ANY (ARRAY['deposit'::text, 'top_up'::text, 'reorg'::text, 'claim'::text, 'release'::text, 'payout'::text, 'sweep'::text, 'withdrawal'::text, 'return'::text, 'network_fee'::text, 'second_payment'::text, 'fund'::text, 'defund'::text])))
);
CREATE INDEX ledger_entry_account ON app.ledger_entry USING btree (account, chain, token, merchant_id) INCLUDE (amount);
CREATE INDEX ledger_entry_created ON app.ledger_entry USING brin (created_at timestamptz_minmax_multi_ops) WITH (autosummarize='on');
CREATE INDEX ledger_entry_network_fee ON app.ledger_entry USING btree (chain, created_at) INCLUDE (amount) WHERE ((account = 'treasury'::text) AND (kind = 'network_fee'::text));
CREATE INDEX ledger_entry_reference ON app.ledger_entry USING btree (reference);
CREATE INDEX ledger_entry_unattributed ON app.ledger_entry USING btree (chain, address, token) INCLUDE (amount) WHERE ((account = 'address'::text) AND (merchant_id IS NULL));
CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON app.ledger_entry FOR EACH ROW EXECUTE FUNCTION app.refuse_entry_change();
CREATE TRIGGER balanced AFTER INSERT ON app.ledger_entry REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION app.assert_balanced();

-- A merchant account.
create table app.merchant (
  id uuid not null default uuidv7(), -- Id; shown as mer_ and 32 hex digits.
  name text not null, -- Name for people.
  prefix text not null, -- Account prefix of payment-request references. Never changes.
  fee_bps integer not null, -- Service fee in basis points (1/100 of a percent) of the gross balance.
  created_at timestamp with time zone not null default clock_timestamp(), -- When the account was made.
  suspended_at timestamp with time zone, -- Since when its keys do not work; null while they do.
  cancels_per_day integer not null default 20, -- How many payouts that have begun to sweep the merchant may cancel within a day.
  payment_tolerance_bps integer not null default 0, -- How much of a new payment request may be missing, in basis points of its amount, unless the request says otherwise.
  constraint merchant_pkey PRIMARY KEY (id),
  constraint merchant_cancels_per_day_check CHECK ((cancels_per_day >= 0)),
  constraint merchant_fee_bps_check CHECK (((fee_bps >= 0) AND (fee_bps <= 10000))),
  constraint merchant_payment_tolerance_bps_check CHECK (((payment_tolerance_bps >= 0) AND (payment_tolerance_bps <= 5000))),
  constraint merchant_prefix_check CHECK ((prefix ~ '^[a-z0-9]{2,12}$'::text)),
  constraint merchant_prefix_key UNIQUE (prefix)
);
CREATE TRIGGER announce_suspension AFTER UPDATE OF suspended_at ON app.merchant FOR EACH ROW WHEN (((old.suspended_at IS NULL) AND (new.suspended_at IS NOT NULL))) EXECUTE FUNCTION app.announce_suspension();

-- Chains that were ever enabled for a merchant.
create table app.merchant_chain (
  merchant_id uuid not null, -- The merchant.
  chain text not null, -- Chain code.
  enabled boolean not null default true, -- False after it was disabled: no new addresses; existing ones are still watched and credited.
  changed_at timestamp with time zone not null default clock_timestamp(), -- When it was last enabled or disabled.
  constraint merchant_chain_pkey PRIMARY KEY (merchant_id, chain),
  constraint merchant_chain_merchant_id_fkey FOREIGN KEY (merchant_id) REFERENCES app.merchant(id)
);

-- Signed transactions, stored before they are broadcast. At most one of an outgoing payment can be mined.
create table app.outgoing_attempt (
  chain text not null, -- Chain code.
  txid text not null, -- Transaction id: the hash of raw.
  outgoing_payment_id uuid not null, -- The outgoing payment that it belongs to.
  attempt integer not null, -- 1 for the first; each later one offers a higher fee.
  kind text not null, -- effect: does what the outgoing payment is for. cancel: moves nothing.
  raw text not null, -- The signed bytes, in hex; empty if sluice custody reconcile found the transaction in a block.
  token text not null, -- Token that it moves.
  source text not null, -- Address that the amount is taken from.
  recipient text not null, -- Address that it goes to.
  amount numeric(78,0) not null, -- How much, in base units; 0 for a cancel.
  max_fee numeric(78,0) not null, -- The most that it can cost in network fees, in the native coin's base units.
  fee_details jsonb not null, -- What it offers for its place in a block, in the terms of its family: max_fee_per_gas and max_priority_fee_per_gas (wei) and gas_limit; or network_fee (sat) and vsize (virtual bytes).
  stored_at timestamp with time zone not null default clock_timestamp(), -- When it was stored.
  broadcast_at timestamp with time zone, -- When it was last given to a node; null if never.
  broadcast_error text, -- The node's error response then; null if the node took it. It proves nothing.
  unproven text, -- Why it is not proven that no block holds it, though it has expired, for the operator; null if nobody asked. It may be proven since.
  unproven_since timestamp with time zone, -- Since when that is not proven.
  constraint outgoing_attempt_pkey PRIMARY KEY (chain, txid),
  constraint outgoing_attempt_kind_check CHECK ((kind = ANY (ARRAY['effect'::text, 'cancel'::text]))),
  constraint outgoing_attempt_outgoing_payment_id_attempt_key UNIQUE (outgoing_payment_id, attempt),
  constraint outgoing_attempt_outgoing_payment_id_fkey FOREIGN KEY (outgoing_payment_id) REFERENCES app.outgoing_payment(id)
);

-- Outgoing payments: what we pay for one purpose, a payout's payment, a sweep or a withdrawal.
create table app.outgoing_payment (
  id uuid not null default uuidv7(), -- Id.
  kind text not null, -- payout, sweep, withdrawal, fund (gas for the sweep of an address), defund (gas that its address does not need, back to the treasury), or cancel: a nonce that only has to be used up, because its payout went on without it, or because nobody knows what it was for.
  chain text not null, -- Chain code.
  token text not null, -- Token that it moves.
  amount numeric(78,0) not null, -- How much, in base units; what an attempt moves may be less for a sweep. 0 for a cancel.
  source text not null, -- Address that the amount is taken from; on Bitcoin the treasury or, for a sweep, the address of its first input.
  recipient text not null, -- Address that it goes to.
  fee_payer text not null, -- Our address that pays the network fee. Where nonces exclude, it also sends the transaction: the source, or the treasury that relays an authorisation of the source. On Bitcoin the treasury: what a fee takes from outputs of a merchant is the operator's cost.
  nonce integer, -- The nonce of the fee payer that every attempt uses; null where attempts do not exclude each other by nonces.
  first_input text, -- The output (txid:vout) that every attempt spends; null where attempts do not exclude each other by outputs.
  conflict_key text generated always as (COALESCE(first_input, ((fee_payer || ':'::text) || (nonce)::text))) stored, -- What all attempts use, and only one transaction can use up: fee_payer:nonce, or the first input.
  payout_id uuid, -- The payout that it pays, or that the sweep was made for.
  merchant_id uuid, -- The merchant that is paid, or whose address is swept; null if what is swept belongs to no merchant.
  status text not null default 'allocated'::text, -- allocated, live or final.
  cancelling boolean not null default false, -- True if it must not be paid any more: a transaction that moves nothing is to use up its conflict key.
  recovered boolean not null default false, -- True if it was imported from custody's journal (sluice custody reconcile); several of an address may then wait for the chain at once.
  max_fee numeric(78,0) not null, -- The highest network fee of any of its attempts; reserved if the treasury pays it.
  txid text, -- The final transaction that ended it; null before, and where it ended without one because nothing was signed for it.
  outcome text, -- Outcome of that transaction: done, reverted, cancelled (the attempt that moves nothing), conflicted (no attempt of this outgoing payment), or expired (no attempt can be mined any more, and no other is signed). Null until it is final.
  fee_paid numeric(78,0), -- Network fee that it cost, in the native coin's base units; null before.
  waiting_reason text, -- What it waits for, if its next step could not be taken; null while it moves.
  waiting_detail text, -- More about that, for the operator.
  waiting_since timestamp with time zone, -- Since when it waits for that.
  next_step_at timestamp with time zone default clock_timestamp(), -- When it is checked again; null once it is final, unless a rewind removed its block.
  created_at timestamp with time zone not null default clock_timestamp(), -- When it was begun.
  final_at timestamp with time zone, -- When it became final; null before.
  swept_in numeric(78,0) not null default 0, -- On chains with outputs: how much of a payout's gross its payment brings with it from the merchant's addresses; while it is under way, that much less is reserved.
  failure text, -- Why it was given up, in the words of who refused it (the node, custody); null if it was not, or nobody said.
  for_token text, -- Of a fund: the token whose sweep it is for; else null.
  from_gas boolean not null default false, -- Whether its network fee is paid with gas on its address (app.gas), and the address pays: it sweeps a token, or is a defund.
  constraint outgoing_payment_pkey PRIMARY KEY (id),
  constraint outgoing_payment_amount CHECK (((amount > (0)::numeric) OR ((kind = 'cancel'::text) AND (amount = (0)::numeric)))),
  constraint outgoing_payment_chain_conflict_key_key UNIQUE (chain, conflict_key),
  constraint outgoing_payment_check CHECK ((num_nonnulls(nonce, first_input) <= 1)),
  constraint outgoing_payment_for_token CHECK (((for_token IS NULL) OR (kind = 'fund'::text))),
  constraint outgoing_payment_kind CHECK ((kind = ANY (ARRAY['payout'::text, 'sweep'::text, 'withdrawal'::text, 'cancel'::text, 'fund'::text, 'defund'::text]))),
  constraint outgoing_payment_outcome_check CHECK ((outcome = ANY (ARRAY['done'::text, 'reverted'::text, 'cancelled'::text, 'conflicted'::text, 'expired'::text]))),
  constraint outgoing_payment_payout_id_fkey FOREIGN KEY (payout_id) REFERENCES app.payout(id),
  constraint outgoing_payment_status_check CHECK ((status = ANY (ARRAY['allocated'::text, 'live'::text, 'final'::text])))
);
CREATE INDEX outgoing_payment_created ON app.outgoing_payment USING btree (created_at);
CREATE INDEX outgoing_payment_due ON app.outgoing_payment USING btree (chain, next_step_at) WHERE (next_step_at IS NOT NULL);
CREATE INDEX outgoing_payment_expired_sweep ON app.outgoing_payment USING btree (chain, source, final_at) WHERE ((kind = 'sweep'::text) AND (outcome = 'expired'::text));
CREATE INDEX outgoing_payment_failed_fund ON app.outgoing_payment USING btree (merchant_id, chain, for_token, final_at) WHERE ((kind = 'fund'::text) AND (outcome <> 'done'::text));
CREATE INDEX outgoing_payment_failed_sweep ON app.outgoing_payment USING btree (merchant_id, chain, token, final_at) WHERE ((kind = 'sweep'::text) AND (outcome <> 'done'::text));
CREATE INDEX outgoing_payment_fund ON app.outgoing_payment USING btree (chain, recipient, for_token, final_at) WHERE (kind = 'fund'::text);
CREATE UNIQUE INDEX outgoing_payment_one_fund ON app.outgoing_payment USING btree (chain, recipient) WHERE ((kind = 'fund'::text) AND (status <> 'final'::text) AND (NOT recovered));
CREATE UNIQUE INDEX outgoing_payment_one_payment ON app.outgoing_payment USING btree (payout_id) WHERE (kind = 'payout'::text);
CREATE UNIQUE INDEX outgoing_payment_one_sweep ON app.outgoing_payment USING btree (chain, COALESCE(first_input, source), token) WHERE ((kind = 'sweep'::text) AND (status <> 'final'::text) AND (NOT recovered) AND (merchant_id IS NOT NULL));
CREATE INDEX outgoing_payment_open ON app.outgoing_payment USING btree (chain) WHERE (status <> 'final'::text);
CREATE INDEX outgoing_payment_payout ON app.outgoing_payment USING btree (payout_id) WHERE (payout_id IS NOT NULL);
CREATE INDEX outgoing_payment_sweep ON app.outgoing_payment USING btree (chain, token, source, final_at) WHERE ((kind = 'sweep'::text) AND (merchant_id IS NOT NULL));
CREATE INDEX outgoing_payment_unsigned ON app.outgoing_payment USING btree (chain, fee_payer, nonce) WHERE (status = 'allocated'::text);
CREATE TRIGGER adopt_return AFTER INSERT ON app.outgoing_payment FOR EACH ROW WHEN ((new.recovered AND (new.kind = ANY (ARRAY['sweep'::text, 'withdrawal'::text])))) EXECUTE FUNCTION app.adopt_outgoing_payment();

-- Final outputs of ours on chains that have them. Free ones (app.free_output) are in no outgoing payment, not spent, and mature.
create table app.output (
  chain text not null, -- Chain code.
  txid text not null, -- The transaction that made it.
  vout integer not null, -- Its position there.
  address text not null, -- Our address.
  merchant_id uuid, -- The merchant whose user has the address; null for the treasury's.
  amount numeric(78,0) not null, -- Amount in base units.
  outgoing_payment_id uuid, -- The outgoing payment that has it reserved, or spent it; null while it is free.
  from_attempt integer, -- The attempt of that outgoing payment from which on it is an input; null while it is free.
  spent_by text, -- The final transaction that spent it; null while it is unspent.
  mature_at integer, -- The head from which on nodes let it be spent: new coins (a coinbase) have to wait for 100 blocks. Null if at once.
  constraint output_pkey PRIMARY KEY (chain, txid, vout),
  constraint output_amount_check CHECK ((amount > (0)::numeric)),
  constraint output_check CHECK (((outgoing_payment_id IS NULL) = (from_attempt IS NULL))),
  constraint output_merchant_id_fkey FOREIGN KEY (merchant_id) REFERENCES app.merchant(id),
  constraint output_outgoing_payment_id_fkey FOREIGN KEY (outgoing_payment_id) REFERENCES app.outgoing_payment(id)
);
CREATE INDEX output_free ON app.output USING btree (chain, merchant_id, amount DESC) WHERE ((outgoing_payment_id IS NULL) AND (spent_by IS NULL));
CREATE INDEX output_outgoing_payment ON app.output USING btree (outgoing_payment_id) WHERE (outgoing_payment_id IS NOT NULL);
CREATE INDEX output_unspent ON app.output USING btree (chain, address) WHERE (spent_by IS NULL);

-- What merchants asked to be paid, each to an address of its own, and what was paid of it. Never deleted.
create table app.payment_request (
  id uuid not null default uuidv7(), -- Id; merchants know the request by external_id.
  merchant_id uuid not null, -- The merchant.
  external_id text not null, -- The merchant's reference, which begins with its prefix.
  chain text not null, -- Chain code.
  token text not null, -- Token code.
  amount numeric(78,0) not null, -- The requested amount, in base units.
  page_token text not null, -- The secret in the URL of the request's page: 192 random bits.
  idempotency_key text, -- Idempotency-Key of the call that made it; null if it had none.
  request_hash bytea, -- SHA-256 of the body of that call.
  created_at timestamp with time zone not null default clock_timestamp(), -- When it was made.
  expires_at timestamp with time zone not null, -- When it expires; what comes later is late.
  expired_at timestamp with time zone, -- When its status was decided after it expired or was cancelled; null before.
  cancelled_at timestamp with time zone, -- When the merchant cancelled it; what comes later is late. Null unless it did.
  metadata jsonb not null default '{}'::jsonb, -- What the merchant notes about it: an object of strings.
  return_url text, -- Where the payment page sends the payer back to; null if not given.
  status text not null default 'awaiting'::text, -- awaiting; detected: money was seen, and is not enough or not final yet; paid; expired, or cancelled: nothing came; underpaid: it expired with less than the requested amount.
  received numeric(78,0) not null default 0, -- Sum of the final receipts, in base units.
  pending numeric(78,0) not null default 0, -- Sum of the receipts that are not final yet, in base units.
  late boolean not null default false, -- True if some of what was received came after it expired.
  txid text, -- Transaction of the final receipt with which the sum reached the amount; of the last receipt until then.
  paid_at timestamp with time zone, -- When that receipt became final; null while the amount is not reached.
  "position" bigint, -- Order in GET /payments; null while it is not there.
  seq bigint not null generated always as identity, -- Order of creation, for pages.
  tolerance numeric(78,0) not null default 0, -- How much may be missing, in base units: it is paid all the same.
  detected_from numeric(78,0) not null default 1, -- Less than this, in base units, is too little to count as a payment: it moves no request, and is not asked for.
  late_after interval not null default 'infinity'::interval, -- What was seen before it expires, and is in no block so long after it expires, is late. Infinity: never.
  decide_at timestamp with time zone default clock_timestamp(), -- When time alone may change its status; null if it cannot.
  version integer not null default 0, -- How many events there are of it.
  constraint payment_request_pkey PRIMARY KEY (id),
  constraint detected_from_something CHECK ((detected_from > (0)::numeric)) NOT VALID,
  constraint paid_at_some_time CHECK (((status = 'paid'::text) = (paid_at IS NOT NULL))) NOT VALID,
  constraint paid_if_enough CHECK (((status = 'paid'::text) = (received >= GREATEST(LEAST(detected_from, amount), (amount - GREATEST(tolerance, LEAST((detected_from - (1)::numeric), div(amount, (100)::numeric)))))))) NOT VALID,
  constraint payment_request_amount_check CHECK ((amount > (0)::numeric)),
  constraint payment_request_chain_token_fkey FOREIGN KEY (chain, token) REFERENCES app.asset(chain, token),
  constraint payment_request_check CHECK (((idempotency_key IS NULL) = (request_hash IS NULL))),
  constraint payment_request_check2 CHECK (((status = ANY (ARRAY['paid'::text, 'underpaid'::text])) = ("position" IS NOT NULL))),
  constraint payment_request_merchant_id_external_id_key UNIQUE (merchant_id, external_id),
  constraint payment_request_merchant_id_fkey FOREIGN KEY (merchant_id) REFERENCES app.merchant(id),
  constraint payment_request_merchant_id_idempotency_key_key UNIQUE (merchant_id, idempotency_key),
  constraint payment_request_page_token_key UNIQUE (page_token),
  constraint payment_request_status_check CHECK ((status = ANY (ARRAY['awaiting'::text, 'detected'::text, 'paid'::text, 'expired'::text, 'underpaid'::text, 'cancelled'::text]))),
  constraint tolerance_is_part CHECK (((tolerance >= (0)::numeric) AND (tolerance <= (amount / (2)::numeric)))) NOT VALID
);
CREATE INDEX payment_request_asset_page ON app.payment_request USING btree (merchant_id, chain, token, "position" DESC) WHERE ("position" IS NOT NULL);
CREATE INDEX payment_request_created ON app.payment_request USING btree (merchant_id, created_at);
CREATE INDEX payment_request_decision ON app.payment_request USING btree (decide_at) WHERE (decide_at IS NOT NULL);
CREATE INDEX payment_request_expiry ON app.payment_request USING btree (expires_at) WHERE ((expired_at IS NULL) AND (status = ANY (ARRAY['awaiting'::text, 'detected'::text])));
CREATE INDEX payment_request_kind_page ON app.payment_request USING btree (merchant_id, status, chain, token, seq DESC);
CREATE INDEX payment_request_open ON app.payment_request USING btree (chain, status) WHERE (status = ANY (ARRAY['awaiting'::text, 'detected'::text]));
CREATE INDEX payment_request_other_form ON app.payment_request USING btree (merchant_id, NORMALIZE(external_id, NFC)) WHERE (NOT (external_id IS NFC NORMALIZED));
CREATE UNIQUE INDEX payment_request_page ON app.payment_request USING btree (merchant_id, "position" DESC) WHERE ("position" IS NOT NULL);
CREATE INDEX payment_request_paid ON app.payment_request USING btree (merchant_id, paid_at) WHERE (paid_at IS NOT NULL);
CREATE INDEX payment_request_status_page ON app.payment_request USING btree (merchant_id, status, seq DESC);
CREATE INDEX payment_request_underpaid_page ON app.payment_request USING btree (merchant_id, "position" DESC) WHERE (status = 'underpaid'::text);

-- A payout (settlement): the balance of a merchant's chain and token, on its way to the merchant.
create table app.payout (
  id uuid not null default uuidv7(), -- Id; shown as pay_ and 32 hex digits.
  seq bigint not null generated always as identity, -- Order of creation, for pages.
  merchant_id uuid not null, -- The merchant.
  chain text not null, -- Chain code.
  token text not null, -- Token code.
  status text not null default 'pending'::text, -- pending, sweeping, swept, paying, completed or failed.
  gross numeric(78,0) not null, -- The balance that was claimed, in base units.
  fee_bps integer not null, -- The merchant's fee rate at that moment.
  fee numeric(78,0) not null, -- Service fee: gross * fee_bps / 10000, rounded down.
  net numeric(78,0) not null, -- What is paid: gross - fee.
  address text not null, -- Where it is paid to; a later change of the payout address does not change it.
  sweep_first boolean not null, -- True if every claimed address that still holds funds is swept before anything is paid.
  txid text, -- The transaction that paid it; null until that is final.
  network_fee numeric(78,0) not null default 0, -- Network fees of the payment and of the sweeps made for it, in the native coin's base units. The operator bears them.
  error_code text, -- Why it failed, for programs; null unless it did.
  error_message text, -- Why it failed, for people; null unless it did.
  waiting_reason text, -- What it waits for, if its next step could not be taken; null while it moves.
  waiting_detail text, -- More about that, for the operator.
  waiting_since timestamp with time zone, -- Since when it waits for that.
  next_step_at timestamp with time zone default clock_timestamp(), -- When its next step is tried again, if nothing wakes it before; null while its payment continues by itself, and once it has ended.
  created_at timestamp with time zone not null default clock_timestamp(), -- When it was requested.
  sweeping_at timestamp with time zone, -- When it became sweeping; null if it never did.
  swept_at timestamp with time zone, -- When it became swept; null if it never did.
  paying_at timestamp with time zone, -- When it became paying; null if it never did.
  finished_at timestamp with time zone, -- When it was completed or failed; null before.
  error_detail text, -- More about why it failed, for the operator; null if there is nothing more.
  cancelled_by_merchant boolean not null default false, -- Whether its merchant cancelled it.
  constraint payout_pkey PRIMARY KEY (id),
  constraint payout_check CHECK ((gross = (fee + net))),
  constraint payout_fee_check CHECK ((fee >= (0)::numeric)),
  constraint payout_gross_check CHECK ((gross > (0)::numeric)),
  constraint payout_merchant_id_fkey FOREIGN KEY (merchant_id) REFERENCES app.merchant(id),
  constraint payout_net_check CHECK ((net > (0)::numeric)),
  constraint payout_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'sweeping'::text, 'swept'::text, 'paying'::text, 'completed'::text, 'failed'::text])))
);
CREATE INDEX payout_cancelled ON app.payout USING btree (merchant_id, finished_at) WHERE ((error_code = 'cancelled'::text) AND (sweeping_at IS NOT NULL));
CREATE INDEX payout_failed ON app.payout USING btree (chain) WHERE (status = 'failed'::text);
CREATE INDEX payout_open ON app.payout USING btree (next_step_at) WHERE (status <> ALL (ARRAY['completed'::text, 'failed'::text]));
CREATE INDEX payout_page ON app.payout USING btree (merchant_id, status, chain, token, seq DESC);
CREATE TRIGGER contract BEFORE UPDATE ON app.payout FOR EACH ROW EXECUTE FUNCTION app.check_payout_change();
CREATE TRIGGER never_deleted BEFORE DELETE ON app.payout FOR EACH ROW EXECUTE FUNCTION app.refuse_payout_delete();

-- Where a merchant wants payouts of a chain to go.
create table app.payout_address (
  merchant_id uuid not null, -- The merchant.
  chain text not null, -- Chain code.
  address text not null, -- The address, as people see it.
  updated_at timestamp with time zone not null default clock_timestamp(), -- When it was registered or last changed.
  constraint payout_address_pkey PRIMARY KEY (merchant_id, chain),
  constraint payout_address_merchant_id_fkey FOREIGN KEY (merchant_id) REFERENCES app.merchant(id)
);

-- The sweeps that a payout waits for, its own and those of others.
create table app.payout_sweep (
  payout_id uuid not null, -- The payout.
  outgoing_payment_id uuid not null, -- The sweep.
  constraint payout_sweep_pkey PRIMARY KEY (payout_id, outgoing_payment_id),
  constraint payout_sweep_outgoing_payment_id_fkey FOREIGN KEY (outgoing_payment_id) REFERENCES app.outgoing_payment(id),
  constraint payout_sweep_payout_id_fkey FOREIGN KEY (payout_id) REFERENCES app.payout(id)
);
CREATE INDEX payout_sweep_outgoing_payment ON app.payout_sweep USING btree (outgoing_payment_id);

-- Why a payment waits, is refused, or fails (waiting_reason).
create table app.reason (
  reason text not null, -- The internal reason.
  lies_with text not null, -- What is in the way: the chain as a whole, which may be told to everybody; what others do, or the treasury has; or the payment itself.
  code text, -- What the API calls it while a payout waits for it; null if merchants do not see it.
  message text, -- What merchants read about it.
  fails text not null, -- The code with which a payout fails that waited for it too long.
  constraint reason_pkey PRIMARY KEY (reason),
  constraint reason_check CHECK (((code IS NULL) = (message IS NULL))),
  constraint reason_lies_with_check CHECK ((lies_with = ANY (ARRAY['chain'::text, 'others'::text, 'payment'::text])))
);

-- Ranges of final blocks that an operator had read again (sluice reindex), and the progress.
create table app.reindex (
  id bigint not null generated always as identity, -- Number of the run.
  chain text not null, -- Chain code.
  from_height integer not null, -- Lowest block that is read again.
  to_height integer not null, -- Highest block that is read again.
  next_height integer not null, -- Everything from from_height up to the block below this one is done.
  last_hash text, -- Hash of the block below next_height; null before the first one is done.
  added integer not null default 0, -- Transfers and transactions of ours that the chain has and that were missing.
  removed integer not null default 0, -- Transfers and transactions of ours that were stored and that the chain does not have there.
  changed integer not null default 0, -- Transfers and transactions of ours whose stored data differed from the chain.
  started_at timestamp with time zone not null default clock_timestamp(), -- When it began.
  finished_at timestamp with time zone, -- When it was done; null until then.
  constraint reindex_pkey PRIMARY KEY (id)
);

-- Transactions of ours in a block whose outgoing payment ended in another way; those that are final are booked, as second payments or as fees.
create table app.second_payment (
  chain text not null, -- Chain code.
  txid text not null, -- The transaction.
  outgoing_payment_id uuid not null, -- The outgoing payment that it was signed for, and that ended in another way.
  amount numeric(78,0), -- What it paid, in base units of the payment's token: the operator's loss; 0 for a sweep, a cancel, and what failed. Null until it is booked.
  fee numeric(78,0), -- The network fee that was booked for it, in the native coin's base units; 0 if it was booked with a payment that it ended. Null until it is booked.
  incident_id bigint, -- The incident second_payment that reports it; null if it is no payment.
  booked_at timestamp with time zone, -- When it was booked; null while it is not final.
  constraint second_payment_pkey PRIMARY KEY (chain, txid),
  constraint second_payment_incident_id_fkey FOREIGN KEY (incident_id) REFERENCES app.incident(id),
  constraint second_payment_outgoing_payment_id_fkey FOREIGN KEY (outgoing_payment_id) REFERENCES app.outgoing_payment(id)
);
CREATE INDEX second_payment_noted ON app.second_payment USING btree (chain) WHERE (booked_at IS NULL);
CREATE INDEX second_payment_outgoing_payment ON app.second_payment USING btree (outgoing_payment_id);

-- The next nonce of each address of ours that ever sent. Never taken from a node.
create table app.sender (
  chain text not null, -- Chain code.
  address text not null, -- The address.
  next_nonce integer not null default 0, -- The nonce that its next outgoing payment gets.
  constraint sender_pkey PRIMARY KEY (chain, address)
);

-- Tokens that an operator added to the running service; those of the settings are only in app.asset.
create table app.token (
  chain text not null, -- Chain code.
  token text not null, -- Token code.
  contract text not null, -- Its contract, as the indexer of the chain writes it.
  sweep jsonb not null, -- How addresses are swept, as in the settings: {"by": "fund"}, or {"by": "eip3009", "domain": {"name", "version"}}.
  from_height integer not null, -- The first block whose transfers are deposits.
  until_height integer, -- The last one; null while it is not disabled.
  payout_limit numeric(78,0), -- The largest payout, in base units; null for none.
  daily_limit numeric(78,0), -- The most that all payouts of a day may add up to, in base units; null for none.
  added_at timestamp with time zone not null default clock_timestamp(), -- When it was added.
  disabled_at timestamp with time zone, -- When it was disabled; null if it is not.
  constraint token_pkey PRIMARY KEY (chain, token),
  constraint token_chain_contract_key UNIQUE (chain, contract),
  constraint token_chain_token_fkey FOREIGN KEY (chain, token) REFERENCES app.asset(chain, token),
  constraint token_check CHECK (((until_height IS NULL) = (disabled_at IS NULL)))
);

-- Payment requests whose receipts a running transaction changed; each row makes one update at COMMIT. Empty between transactions.
create unlogged table app.touched_payment (
  txn xid8 not null, -- The transaction.
  payment_request_id uuid not null, -- The payment request.
  constraint touched_payment_pkey PRIMARY KEY (txn, payment_request_id)
);
CREATE CONSTRAINT TRIGGER refresh AFTER INSERT ON app.touched_payment DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION app.refresh_touched_payment();

-- What the treasury holds by the ledger, and what is promised to transactions that are not final. Its row locks order everything that spends from it.
create table app.treasury (
  chain text not null, -- Chain code.
  token text not null, -- Token code.
  balance numeric not null default 0, -- Sum of the account treasury, in base units.
  reserved numeric not null default 0, -- Amounts and highest network fees of transactions under way, less what payments bring with them (app.outgoing_payment.swept_in), and what was swept for returns that have not left yet; in base units.
  constraint treasury_pkey PRIMARY KEY (chain, token)
);

-- How much of the treasury belongs to each merchant. No merchant is paid from another merchant's share.
create table app.treasury_share (
  chain text not null, -- Chain code.
  token text not null, -- Token code.
  merchant_id uuid not null, -- The merchant.
  amount numeric not null default 0, -- What was swept from the merchant's addresses, and what sweeping it cost them, less the gross of completed payouts, in base units. Below zero: the operator has advanced it.
  reserved numeric not null default 0, -- Gross of the payments under way, less what they bring with them from the merchant's addresses (app.outgoing_payment.swept_in), in base units.
  constraint treasury_share_pkey PRIMARY KEY (chain, token, merchant_id),
  constraint treasury_share_merchant_id_fkey FOREIGN KEY (merchant_id) REFERENCES app.merchant(id)
);

-- What an operator decided about unattributed value: to credit it to the merchant that has the address, or to return it.
create table app.unattributed_decision (
  deposit_id uuid not null, -- The deposit.
  decision text not null, -- credit or return.
  amount numeric(78,0) not null, -- What was credited, or what is to be returned, in base units: for a native coin, what is left after the network fees of taking it from its address.
  sweep_id uuid, -- For a return: the transaction that takes it to the treasury, the last one if it was begun again; null until it is begun.
  withdrawal_id uuid, -- For a return: the transaction that takes it from the treasury to its destination, the last one if it was begun again; null until it is begun.
  destination text, -- For a return: where it goes, an address on the operator's whitelist. Null if an older copy of the database had forgotten it: the operator has to name it again.
  waiting_reason text, -- For a return: what its next transaction waits for; null while nothing is in its way.
  waiting_detail text, -- More about that, for the operator.
  waiting_since timestamp with time zone, -- Since when it waits for that.
  decided_at timestamp with time zone not null default clock_timestamp(), -- When it was decided.
  constraint unattributed_decision_pkey PRIMARY KEY (deposit_id),
  constraint unattributed_decision_amount_check CHECK ((amount >= (0)::numeric)),
  constraint unattributed_decision_check CHECK (((decision = 'return'::text) OR ((sweep_id IS NULL) AND (withdrawal_id IS NULL) AND (destination IS NULL)))),
  constraint unattributed_decision_decision_check CHECK ((decision = ANY (ARRAY['credit'::text, 'return'::text]))),
  constraint unattributed_decision_deposit_id_fkey FOREIGN KEY (deposit_id) REFERENCES app.deposit(id),
  constraint unattributed_decision_sweep_id_fkey FOREIGN KEY (sweep_id) REFERENCES app.outgoing_payment(id),
  constraint unattributed_decision_withdrawal_id_fkey FOREIGN KEY (withdrawal_id) REFERENCES app.outgoing_payment(id)
);
CREATE INDEX unattributed_decision_open ON app.unattributed_decision USING btree (deposit_id) WHERE ((decision = 'return'::text) AND (withdrawal_id IS NULL));
CREATE INDEX unattributed_decision_sweep ON app.unattributed_decision USING btree (sweep_id) WHERE (sweep_id IS NOT NULL);
CREATE INDEX unattributed_decision_withdrawal ON app.unattributed_decision USING btree (withdrawal_id) WHERE (withdrawal_id IS NOT NULL);

-- A transaction in a block that an address of ours sent and that is not stored here, and the incident that it belongs to.
create table app.unknown_transaction (
  chain text not null, -- Chain code.
  txid text not null, -- The transaction.
  incident_id bigint not null, -- The incident unknown_transaction of its sender that was open when it was seen.
  moved jsonb, -- What it moved, as its block shows it: [{sender, recipient, token, amount}], in base units; null if its block was read by an older version.
  constraint unknown_transaction_pkey PRIMARY KEY (chain, txid),
  constraint unknown_transaction_incident_id_fkey FOREIGN KEY (incident_id) REFERENCES app.incident(id)
);
CREATE INDEX unknown_transaction_incident ON app.unknown_transaction USING btree (incident_id);

-- An end user of a merchant.
create table app."user" (
  id uuid not null default uuidv7(), -- Id; shown as usr_ and 32 hex digits.
  merchant_id uuid not null, -- The merchant.
  external_ref text not null, -- The merchant's own id of the user.
  seq bigint not null generated always as identity, -- Order of creation, for pages.
  created_at timestamp with time zone not null default clock_timestamp(), -- When the user was made.
  metadata jsonb not null default '{}'::jsonb, -- What the merchant notes about the user: an object of strings.
  constraint user_pkey PRIMARY KEY (id),
  constraint user_merchant_id_external_ref_key UNIQUE (merchant_id, external_ref),
  constraint user_merchant_id_fkey FOREIGN KEY (merchant_id) REFERENCES app.merchant(id)
);
CREATE INDEX user_created ON app."user" USING brin (created_at timestamptz_minmax_multi_ops) WITH (autosummarize='on');
CREATE INDEX user_other_form ON app."user" USING btree (merchant_id, NORMALIZE(external_ref, NFC)) WHERE (NOT (external_ref IS NFC NORMALIZED));
CREATE INDEX user_page ON app."user" USING btree (merchant_id, seq DESC);

-- Where a merchant wants events to be delivered.
create table app.webhook_endpoint (
  id uuid not null default uuidv7(), -- Id; shown as whe_ and 32 hex digits.
  merchant_id uuid not null, -- The merchant.
  url text not null, -- URL that events are posted to.
  event_types text[] not null, -- Types of events that are delivered here.
  secret text not null, -- Secret that signs (Standard Webhooks, whsec_...).
  previous_secret text, -- The secret before the last rotation; it signs, too, until it expires.
  previous_secret_expires_at timestamp with time zone, -- When the previous secret stops signing.
  disabled_at timestamp with time zone, -- When deliveries stopped; null while they go out.
  disabled_reason text, -- Why they stopped: merchant, gone (nothing but 410 for a minute) or failing (five days without a success).
  failing_since timestamp with time zone, -- Time of the first failure since the last success; null if the last attempt succeeded.
  created_at timestamp with time zone not null default clock_timestamp(), -- When it was made.
  deleted_at timestamp with time zone, -- When it was deleted; its past deliveries stay.
  gone_since timestamp with time zone, -- Time of the first 410 since it answered anything else; null if its last answer was not 410.
  constraint webhook_endpoint_pkey PRIMARY KEY (id),
  constraint webhook_endpoint_merchant_id_fkey FOREIGN KEY (merchant_id) REFERENCES app.merchant(id)
);
CREATE INDEX webhook_endpoint_merchant ON app.webhook_endpoint USING btree (merchant_id) WHERE (deleted_at IS NULL);
CREATE TRIGGER announce_disabled AFTER UPDATE ON app.webhook_endpoint FOR EACH ROW WHEN ((((old.disabled_at IS NULL) AND (new.disabled_at IS NOT NULL)) OR ((old.deleted_at IS NULL) AND (new.deleted_at IS NOT NULL)))) EXECUTE FUNCTION app.announce_disabled();

-- What becomes of each transaction that custody signed: open, in_block, final or dead.
create view app.attempt_fate as
 SELECT j.stream AS chain,
    j.seq,
    j.txid,
    j.kind,
    j.subject_id,
    own.block_height,
    own.success,
    own.fee,
        CASE
            WHEN own.block_height <= c.final_height THEN
            CASE
                WHEN own.success THEN 'final'::text
                ELSE 'dead'::text
            END
            WHEN other.txid IS NOT NULL OR lapse.txid IS NOT NULL AND own.block_height IS NULL THEN 'dead'::text
            WHEN own.block_height IS NOT NULL THEN 'in_block'::text
            ELSE 'open'::text
        END AS fate,
    other.txid AS conflicting_txid,
    lapse.txid IS NOT NULL AS lapsed
   FROM custody.journal j
     LEFT JOIN chain.cursor c ON c.chain = j.stream
     LEFT JOIN LATERAL ( SELECT i.block_height,
            i.success,
            i.fee
           FROM chain.confirmed_tx i
          WHERE i.chain = j.stream AND i.txid = j.txid
          ORDER BY i.fee DESC
         LIMIT 1) own ON true
     LEFT JOIN LATERAL ( SELECT i.txid
           FROM custody.journal_key k
             JOIN chain.confirmed_tx i ON i.chain = k.stream AND i.conflict_key = k.conflict_key
          WHERE k.stream = j.stream AND k.seq = j.seq AND i.txid <> j.txid AND i.block_height <= c.final_height
         LIMIT 1) other ON true
     LEFT JOIN chain.lapse lapse ON lapse.chain = j.stream AND lapse.txid = j.txid
  WHERE j.txid IS NOT NULL;
--   chain text: Chain code.
--   seq bigint: Its entry in the chain's stream of custody.journal.
--   txid text: Transaction id.
--   kind text: pay, sweep, withdraw or cancel, as in custody.journal.
--   subject_id uuid: The payout, the sweep or the withdrawal that it was signed for.
--   block_height integer: The block that holds it; null if none does.
--   success boolean: Whether it had its effect in that block.
--   fee numeric(78,0): The network fee that it cost there, in the native coin's base units.
--   fate text: open, in_block, final or dead.
--   conflicting_txid text: The final transaction that used up one of its conflict keys; null if there is none.
--   lapsed boolean: Whether it is proven that it expired in no block (chain.lapse).

-- Balances that differ from the sum of their deposits. Always empty; a row is a bug.
create view app.balance_audit as
 SELECT merchant_id,
    chain,
    token,
    COALESCE(kept.amount, 0::numeric) AS kept_amount,
    COALESCE(counted.amount, 0::numeric) AS counted_amount,
    COALESCE(kept.deposit_count, 0::bigint) AS kept_count,
    COALESCE(counted.deposit_count, 0::bigint) AS counted_count,
    COALESCE(kept.held_back, 0::numeric) AS kept_held_back,
    COALESCE(counted.held_back, 0::numeric) AS counted_held_back
   FROM app.balance_now kept
     FULL JOIN ( SELECT part.merchant_id,
            part.chain,
            part.token,
            sum(part.amount) AS amount,
            sum(part.deposit_count)::bigint AS deposit_count,
            sum(part.held_back) AS held_back,
            sum(part.held_back_count)::bigint AS held_back_count
           FROM ( SELECT deposit.merchant_id,
                    deposit.chain,
                    deposit.token,
                    sum(deposit.amount) AS amount,
                    count(*) AS deposit_count,
                    COALESCE(sum(deposit.amount) FILTER (WHERE deposit.held_back), 0::numeric) AS held_back,
                    count(*) FILTER (WHERE deposit.held_back) AS held_back_count
                   FROM app.deposit
                  WHERE deposit.status = 'final'::text AND deposit.credited AND deposit.settlement_id IS NULL
                  GROUP BY deposit.merchant_id, deposit.chain, deposit.token
                UNION ALL
                 SELECT adjustment.merchant_id,
                    adjustment.chain,
                    adjustment.token,
                    adjustment.amount,
                    0,
                    0,
                    0
                   FROM app.adjustment
                  WHERE adjustment.settlement_id IS NULL
                UNION ALL
                 SELECT claim.merchant_id,
                    claim.chain,
                    claim.token,
                        CASE claim.kind
                            WHEN 'claim'::text THEN claim.done_amount - claim.amount
                            ELSE claim.amount - claim.done_amount
                        END AS "case",
                        CASE claim.kind
                            WHEN 'claim'::text THEN claim.done_count - claim.deposit_count
                            ELSE claim.deposit_count - claim.done_count
                        END AS "case",
                    0,
                    0
                   FROM app.claim
                  WHERE claim.finished_at IS NULL
                UNION ALL
                 SELECT d.merchant_id,
                    d.chain,
                    d.token,
                    0,
                    0,
                    d.amount,
                    1
                   FROM app.claim c
                     JOIN app.deposit d ON d.settlement_id = c.payout_id
                  WHERE c.kind = 'release'::text AND c.finished_at IS NULL AND d.held_back) part
          GROUP BY part.merchant_id, part.chain, part.token) counted USING (merchant_id, chain, token)
  WHERE COALESCE(kept.amount, 0::numeric) <> COALESCE(counted.amount, 0::numeric) OR COALESCE(kept.deposit_count, 0::bigint) <> COALESCE(counted.deposit_count, 0::bigint) OR COALESCE(kept.held_back, 0::numeric) <> COALESCE(counted.held_back, 0::numeric) OR COALESCE(kept.held_back_count, 0::bigint) <> COALESCE(counted.held_back_count, 0::bigint);
--   merchant_id uuid: The merchant.
--   chain text: Chain code.
--   token text: Token code.
--   kept_amount numeric: Gross balance as stored, in base units.
--   counted_amount numeric: Sum of the deposits, in base units.
--   kept_count bigint: Number of deposits as stored.
--   counted_count bigint: Number of deposits counted.
--   kept_held_back numeric: What is held back of it, as stored, in base units.
--   counted_held_back numeric: Sum of the deposits that are held back, in base units.

-- The exact balance of each merchant, chain and token: final deposits that no payout has collected.
create view app.balance_now with (security_barrier=true) as
 SELECT merchant_id,
    chain,
    token,
    sum(amount) AS amount,
    sum(deposit_count)::bigint AS deposit_count,
    sum(held_back) AS held_back,
    sum(held_back_count)::bigint AS held_back_count
   FROM ( SELECT balance.merchant_id,
            balance.chain,
            balance.token,
            balance.amount,
            balance.deposit_count,
            balance.held_back,
            balance.held_back_count
           FROM app.balance
        UNION ALL
         SELECT balance_delta.merchant_id,
            balance_delta.chain,
            balance_delta.token,
            balance_delta.amount,
            balance_delta.deposit_count,
            balance_delta.held_back,
            balance_delta.held_back_count
           FROM app.balance_delta) part
  GROUP BY merchant_id, chain, token
 HAVING sum(amount) <> 0::numeric OR sum(deposit_count) <> 0::numeric OR sum(held_back) <> 0::numeric;
--   merchant_id uuid: The merchant.
--   chain text: Chain code.
--   token text: Token code.
--   amount numeric: Gross balance in base units.
--   deposit_count bigint: Number of deposits in it.
--   held_back numeric: The part of the gross balance that no payout can claim yet, in base units (db/functions/balances/collectable.sql).
--   held_back_count bigint: Number of deposits in that part.

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
    k.halted_at IS NOT NULL AS halted,
    g.chain IS NOT NULL AS configured,
    w.reason AS waiting_reason,
    w.way_out
   FROM app.chain c
     LEFT JOIN chain.cursor k ON k.chain = c.chain
     LEFT JOIN chain.configured g ON g.chain = c.chain
     LEFT JOIN app.standstill w ON w.chain = c.chain;
--   chain text: Chain code.
--   enabled boolean: True if a merchant has it enabled.
--   head_height integer: Newest indexed block; null if the chain was never followed.
--   final_height integer: Everything at or below this height is final.
--   head_age_seconds numeric: Age of the newest indexed block by its own timestamp.
--   head_moved_seconds_ago numeric: How long ago a block was indexed.
--   halted boolean: True while it is halted for an operator.
--   configured boolean: True if an indexer was ever started for it.
--   waiting_reason text: Why nothing of it is read now, as in app.standstill; null if nothing stops it, or its indexer has not reported a reason.
--   way_out text: What an operator does about that, if known.

-- Payments on chains whose transactions expire of which more than one attempt may still pay, and none has.
create view app.contested_payment as
 SELECT f.chain,
    f.subject_id,
    count(*) AS attempts
   FROM app.attempt_fate f
     JOIN app.chain c ON c.chain = f.chain AND c.attempts_exclude_by = 'expiry'::text
  WHERE f.fate <> 'dead'::text
  GROUP BY f.chain, f.subject_id
 HAVING count(*) > 1 AND bool_and(f.fate <> 'final'::text);
--   chain text: Chain code.
--   subject_id uuid: The payout, the sweep or the withdrawal, as in custody.journal.
--   attempts bigint: How many.

-- Outputs that a CPFP child under way spends, while they are not final; the child pays for its unconfirmed parent.
create view app.cpfp_output as
 SELECT b.outgoing_payment_id,
    u.chain,
    u.txid,
    u.output_index AS vout,
    s.merchant_id,
    u.amount,
    b.parent_vsize
   FROM app.cpfp b
     JOIN app.outgoing_payment s ON s.id = b.outgoing_payment_id
     CROSS JOIN LATERAL unnest(b.outputs) i(outpoint)
     JOIN chain.unconfirmed u ON u.id = ((s.chain || ':'::text) || i.outpoint)
  WHERE s.status <> 'final'::text AND NOT (EXISTS ( SELECT
           FROM app.output o
          WHERE o.chain = u.chain AND o.txid = u.txid AND o.vout = u.output_index));
--   outgoing_payment_id uuid: The CPFP child, a sweep (app.outgoing_payment).
--   chain text: Chain code.
--   txid text: The transaction that made it: the parent.
--   vout integer: Its position there.
--   merchant_id uuid: The merchant that has the address; null for the treasury's.
--   amount numeric(78,0): Amount in base units.
--   parent_vsize integer: Size of the parent in virtual bytes.

-- The partitions of app.delivery and app.delivery_attempt, and their sizes.
create view app.delivery_partition as
 SELECT substr(c.relname::text, length('delivery'::text) + 1) AS suffix,
    uuid_extract_timestamp("substring"(pg_get_expr(c.relpartbound, c.oid), 'FROM \(''([^'']+)''\)'::text)::uuid) AS since,
    uuid_extract_timestamp("substring"(pg_get_expr(c.relpartbound, c.oid), 'TO \(''([^'']+)''\)'::text)::uuid) AS until,
    pg_total_relation_size(c.oid::regclass) AS delivery_bytes,
    pg_total_relation_size(a.oid::regclass) AS attempt_bytes
   FROM pg_inherits i
     JOIN pg_class c ON c.oid = i.inhrelid
     JOIN pg_class a ON a.relnamespace = c.relnamespace AND a.relname = ('delivery_attempt'::text || substr(c.relname::text, length('delivery'::text) + 1))
  WHERE i.inhparent = 'app.delivery'::regclass::oid;
--   suffix text: The end of the partition's name, after app.delivery or app.delivery_attempt.
--   since timestamp with time zone: Deliveries from this time on; null for the first partition and the default one.
--   until timestamp with time zone: Deliveries before this time; null for the default partition, which has rows outside of all weeks.
--   delivery_bytes bigint: Size of the partition of app.delivery on disk, indexes included.
--   attempt_bytes bigint: Size of the partition of app.delivery_attempt on disk, indexes included.

-- The jobs of every payout, outgoing payment (app.outgoing_payment) and allocation of deposits that is due now.
create view app.due_job as
 SELECT 'advance_payout'::text AS task,
    json_build_object('payout_id', payout.id) AS payload,
    'payout:'::text || payout.id AS key
   FROM app.payout
  WHERE (payout.status <> ALL (ARRAY['completed'::text, 'failed'::text])) AND payout.next_step_at <= clock_timestamp()
UNION ALL
 SELECT 'send_transactions'::text AS task,
    json_build_object('chain', s.chain) AS payload,
    'send:'::text || s.chain AS key
   FROM ( SELECT DISTINCT outgoing_payment.chain
           FROM app.outgoing_payment
          WHERE outgoing_payment.next_step_at <= clock_timestamp()) s
UNION ALL
 SELECT 'allocate_deposits'::text AS task,
    json_build_object('merchant_id', c.merchant_id, 'chain', c.chain, 'token', c.token) AS payload,
    (((('allocate:'::text || c.merchant_id) || ':'::text) || c.chain) || ':'::text) || c.token AS key
   FROM ( SELECT DISTINCT claim.merchant_id,
            claim.chain,
            claim.token
           FROM app.claim
          WHERE claim.finished_at IS NULL) c;
--   task text: Name of the task.
--   payload json: What the task is given.
--   key text: Its key: there is one job of a key at a time.

-- Returns of unattributed value whose next transaction is to be begun.
create view app.due_return as
 SELECT u.deposit_id,
    d.chain,
    d.token,
    d.address,
    u.amount,
    u.destination,
    t.address AS treasury,
        CASE
            WHEN u.sweep_id IS NULL THEN 'sweep'::text
            ELSE 'withdrawal'::text
        END AS step
   FROM app.unattributed_decision u
     JOIN app.deposit d ON d.id = u.deposit_id
     JOIN app.chain c ON c.chain = d.chain
     JOIN custody.address t ON t.family = c.family AND t.purpose = 'treasury'::text
     LEFT JOIN app.outgoing_payment s ON s.id = u.sweep_id
  WHERE u.decision = 'return'::text AND u.withdrawal_id IS NULL AND (u.sweep_id IS NULL OR s.outcome = 'done'::text) AND u.destination IS NOT NULL;
--   deposit_id uuid: The deposit.
--   chain text: Chain code.
--   token text: Token code.
--   address text: The address that it arrived at.
--   amount numeric(78,0): What is to be returned, in base units.
--   destination text: Where it goes.
--   treasury text: The treasury of the chain.
--   step text: What is to be begun: sweep (to the treasury) or withdrawal (to the destination).

-- Sweeps of merchants' addresses, and funds for them, that failed within a day and after the last one of the address that did not.
create view app.failed_sweep as
 SELECT s.chain,
    s.token,
    s.source AS address,
    s.merchant_id,
    s.outcome,
    s.final_at,
    app.why_failed(s.*) AS failure
   FROM app.outgoing_payment s
  WHERE s.kind = 'sweep'::text AND s.merchant_id IS NOT NULL AND s.outcome <> 'done'::text AND s.final_at > (clock_timestamp() - '1 day'::interval) AND NOT (EXISTS ( SELECT
           FROM app.outgoing_payment d
          WHERE d.kind = 'sweep'::text AND d.merchant_id IS NOT NULL AND d.chain = s.chain AND d.token = s.token AND d.source = s.source AND d.outcome = 'done'::text AND d.final_at >= s.final_at))
UNION ALL
 SELECT s.chain,
    s.for_token AS token,
    s.recipient AS address,
    s.merchant_id,
    s.outcome,
    s.final_at,
    'the gas for it was not sent: '::text || app.why_failed(s.*) AS failure
   FROM app.outgoing_payment s
  WHERE s.kind = 'fund'::text AND s.outcome <> 'done'::text AND s.final_at > (clock_timestamp() - '1 day'::interval) AND NOT (EXISTS ( SELECT
           FROM app.outgoing_payment d
          WHERE d.kind = 'fund'::text AND d.chain = s.chain AND d.recipient = s.recipient AND d.outcome = 'done'::text AND d.final_at >= s.final_at));
--   chain text: Chain code.
--   token text: Token code.
--   address text: The address that was to be swept.
--   merchant_id uuid: Whose money it holds.
--   outcome text: How the sweep or fund ended: as app.outgoing_payment.outcome.
--   final_at timestamp with time zone: When it ended.
--   failure text: Why it failed, in words for operators.

-- Outputs that can be spent now: in no outgoing payment, not spent, mature.
create view app.free_output as
 SELECT chain,
    txid,
    vout,
    address,
    merchant_id,
    amount
   FROM app.output u
  WHERE outgoing_payment_id IS NULL AND spent_by IS NULL AND (mature_at IS NULL OR mature_at <= (( SELECT c.head_height
           FROM chain.cursor c
          WHERE c.chain = u.chain)));
--   chain text: Chain code.
--   txid text: The transaction that made it.
--   vout integer: Its position there.
--   address text: Our address.
--   merchant_id uuid: The merchant that has the address; null for the treasury's.
--   amount numeric(78,0): Amount in base units.

-- Incidents that are open, or that an operator decided to keep: an audit does not report them again.
create view app.known_incident as
 SELECT subject,
    kind
   FROM app.incident
  WHERE resolved_at IS NULL OR resolution = 'kept'::text;
--   subject text: What it is about, as in app.incident.
--   kind text: Kind of the incident.

-- Sums that are stored beside the ledger and differ from it. Always empty; a row is a bug.
create view app.ledger_audit as
 WITH entry AS (
         SELECT ledger_entry.account,
            ledger_entry.kind,
            ledger_entry.chain,
            ledger_entry.token,
            ledger_entry.merchant_id,
            ledger_entry.address,
            sum(ledger_entry.amount) AS amount
           FROM app.ledger_entry
          GROUP BY ledger_entry.account, ledger_entry.kind, ledger_entry.chain, ledger_entry.token, ledger_entry.merchant_id, ledger_entry.address
        ), compared(what, chain, token, merchant_id, address, kept, posted) AS (
         SELECT 'holding'::text AS "?column?",
            h.chain,
            h.token,
            h.merchant_id,
            h.address,
            sum(h.kept) AS sum,
            sum(h.posted) AS sum
           FROM ( SELECT holding.chain,
                    holding.token,
                    holding.merchant_id,
                    holding.address,
                    holding.amount AS kept,
                    0 AS posted
                   FROM app.holding
                UNION ALL
                 SELECT entry.chain,
                    entry.token,
                    entry.merchant_id,
                    entry.address,
                    0,
                    entry.amount
                   FROM entry
                  WHERE entry.account = 'address'::text AND entry.merchant_id IS NOT NULL) h
          GROUP BY h.chain, h.token, h.merchant_id, h.address
        UNION ALL
         SELECT 'treasury'::text,
            t.chain,
            t.token,
            NULL::uuid,
            NULL::text,
            sum(t.kept) AS sum,
            sum(t.posted) AS sum
           FROM ( SELECT treasury.chain,
                    treasury.token,
                    treasury.balance AS kept,
                    0 AS posted
                   FROM app.treasury
                UNION ALL
                 SELECT entry.chain,
                    entry.token,
                    0,
                    entry.amount
                   FROM entry
                  WHERE entry.account = 'treasury'::text) t
          GROUP BY t.chain, t.token
        UNION ALL
         SELECT 'gas'::text,
            g.chain,
            app.native_token(g.chain) AS native_token,
            NULL::uuid,
            g.address,
            sum(g.kept) AS sum,
            sum(g.posted) AS sum
           FROM ( SELECT gas.chain,
                    gas.address,
                    gas.amount AS kept,
                    0 AS posted
                   FROM app.gas
                UNION ALL
                 SELECT entry.chain,
                    entry.address,
                    0,
                    entry.amount
                   FROM entry
                  WHERE entry.account = 'gas'::text) g
          GROUP BY g.chain, g.address
        UNION ALL
         SELECT 'gas_reserved'::text,
            g.chain,
            app.native_token(g.chain) AS native_token,
            NULL::uuid,
            g.address,
            sum(g.kept) AS sum,
            sum(g.posted) AS sum
           FROM ( SELECT gas.chain,
                    gas.address,
                    gas.reserved AS kept,
                    0 AS posted
                   FROM app.gas
                UNION ALL
                 SELECT s.chain,
                    s.fee_payer,
                    0,
                    s.max_fee +
                        CASE
                            WHEN s.kind = 'defund'::text THEN s.amount
                            ELSE 0::numeric
                        END
                   FROM app.outgoing_payment s
                  WHERE s.status <> 'final'::text AND s.from_gas) g
          GROUP BY g.chain, g.address
        UNION ALL
         SELECT 'treasury_share'::text,
            s.chain,
            s.token,
            s.merchant_id,
            NULL::text,
            sum(s.kept) AS sum,
            sum(s.posted) AS sum
           FROM ( SELECT treasury_share.chain,
                    treasury_share.token,
                    treasury_share.merchant_id,
                    treasury_share.amount AS kept,
                    0 AS posted
                   FROM app.treasury_share
                UNION ALL
                 SELECT entry.chain,
                    entry.token,
                    entry.merchant_id,
                    0,
                        CASE
                            WHEN entry.kind = 'sweep'::text THEN entry.amount
                            ELSE - entry.amount
                        END AS "case"
                   FROM entry
                  WHERE entry.kind = 'sweep'::text AND entry.account = 'treasury'::text OR entry.kind = 'network_fee'::text AND entry.account = 'address'::text OR entry.kind = 'payout'::text AND entry.account = 'payout'::text) s
          GROUP BY s.chain, s.token, s.merchant_id
        UNION ALL
         SELECT 'treasury_reserved'::text,
            r.chain,
            r.token,
            NULL::uuid,
            NULL::text,
            sum(r.kept) AS sum,
            sum(r.posted) AS sum
           FROM ( SELECT treasury.chain,
                    treasury.token,
                    treasury.reserved AS kept,
                    0 AS posted
                   FROM app.treasury
                UNION ALL
                 SELECT s.chain,
                    s.token,
                    0,
                    s.amount - s.swept_in
                   FROM app.outgoing_payment s
                     LEFT JOIN app.payout p ON p.id = s.payout_id
                  WHERE s.status <> 'final'::text AND ((s.kind = ANY (ARRAY['withdrawal'::text, 'fund'::text])) OR s.kind = 'payout'::text AND (p.status = ANY (ARRAY['swept'::text, 'paying'::text])))
                UNION ALL
                 SELECT s.chain,
                    app.native_token(s.chain) AS native_token,
                    0,
                    s.max_fee
                   FROM app.outgoing_payment s
                  WHERE s.status <> 'final'::text AND s.fee_payer = app.treasury_address(s.chain)
                UNION ALL
                 SELECT s.chain,
                    s.token,
                    0,
                    u.amount
                   FROM app.unattributed_decision u
                     JOIN app.outgoing_payment s ON s.id = u.sweep_id
                  WHERE app.is_held(u.*)) r
          GROUP BY r.chain, r.token
        UNION ALL
         SELECT 'share_reserved'::text,
            r.chain,
            r.token,
            r.merchant_id,
            NULL::text,
            sum(r.kept) AS sum,
            sum(r.posted) AS sum
           FROM ( SELECT treasury_share.chain,
                    treasury_share.token,
                    treasury_share.merchant_id,
                    treasury_share.reserved AS kept,
                    0 AS posted
                   FROM app.treasury_share
                UNION ALL
                 SELECT p.chain,
                    p.token,
                    p.merchant_id,
                    0,
                    p.gross - s.swept_in
                   FROM app.payout p
                     JOIN app.outgoing_payment s ON s.payout_id = p.id AND s.kind = 'payout'::text
                  WHERE p.status = ANY (ARRAY['swept'::text, 'paying'::text])) r
          GROUP BY r.chain, r.token, r.merchant_id
        UNION ALL
         SELECT 'merchant'::text,
            m.chain,
            m.token,
            m.merchant_id,
            NULL::text,
            sum(m.kept) AS sum,
            sum(m.posted) AS sum
           FROM ( SELECT balance_now.chain,
                    balance_now.token,
                    balance_now.merchant_id,
                    balance_now.amount AS kept,
                    0 AS posted
                   FROM app.balance_now
                UNION ALL
                 SELECT entry.chain,
                    entry.token,
                    entry.merchant_id,
                    0,
                    - entry.amount
                   FROM entry
                  WHERE entry.account = 'merchant'::text) m
          GROUP BY m.chain, m.token, m.merchant_id
        UNION ALL
         SELECT 'payout'::text,
            p.chain,
            p.token,
            p.merchant_id,
            NULL::text,
            sum(p.kept) AS sum,
            sum(p.posted) AS sum
           FROM ( SELECT payout.chain,
                    payout.token,
                    payout.merchant_id,
                    payout.gross AS kept,
                    0 AS posted
                   FROM app.payout
                  WHERE payout.status <> ALL (ARRAY['completed'::text, 'failed'::text])
                UNION ALL
                 SELECT entry.chain,
                    entry.token,
                    entry.merchant_id,
                    0,
                    - entry.amount
                   FROM entry
                  WHERE entry.account = 'payout'::text) p
          GROUP BY p.chain, p.token, p.merchant_id
        UNION ALL
         SELECT 'output'::text,
            u.chain,
            u.token,
            NULL::uuid,
            u.address,
            sum(u.kept) AS sum,
            sum(u.posted) AS sum
           FROM ( SELECT u_1.chain,
                    app.native_token(u_1.chain) AS token,
                    u_1.address,
                    u_1.amount AS kept,
                    0 AS posted
                   FROM app.output u_1
                  WHERE u_1.spent_by IS NULL AND u_1.merchant_id IS NOT NULL
                UNION ALL
                 SELECT h.chain,
                    h.token,
                    h.address,
                    0,
                    h.amount
                   FROM app.holding h
                  WHERE app.uses_outputs(h.chain)
                UNION ALL
                 SELECT u_1.chain,
                    app.native_token(u_1.chain) AS native_token,
                    NULL::text,
                    u_1.amount,
                    0
                   FROM app.output u_1
                  WHERE u_1.spent_by IS NULL AND u_1.merchant_id IS NULL
                UNION ALL
                 SELECT t.chain,
                    t.token,
                    NULL::text,
                    0,
                    t.balance
                   FROM app.treasury t
                  WHERE app.uses_outputs(t.chain)) u
          GROUP BY u.chain, u.token, u.address
        UNION ALL
         SELECT 'unattributed'::text,
            u.chain,
            u.token,
            NULL::uuid,
            NULL::text,
            sum(u.kept) AS sum,
            sum(u.posted) AS sum
           FROM ( SELECT d.chain,
                    d.token,
                    d.amount AS kept,
                    0 AS posted
                   FROM app.deposit d
                     JOIN app.asset a ON a.chain = d.chain AND a.token = d.token
                  WHERE NOT d.credited AND d.merchant_id IS NOT NULL AND d.status = 'final'::text
                UNION ALL
                 SELECT entry.chain,
                    entry.token,
                    - entry.amount,
                    0
                   FROM entry
                  WHERE entry.account = 'unattributed'::text AND entry.kind = 'return'::text
                UNION ALL
                 SELECT entry.chain,
                    entry.token,
                    0,
                    - entry.amount
                   FROM entry
                  WHERE entry.account = 'unattributed'::text) u
          GROUP BY u.chain, u.token
        )
 SELECT what,
    chain,
    token,
    merchant_id,
    address,
    kept,
    posted
   FROM compared
  WHERE kept <> posted;
--   what text: holding, treasury, treasury_share, treasury_reserved, share_reserved, gas (the operator's, on an address), gas_reserved, merchant (the balance), payout (claimed), output (unspent outputs against the holding of an address, or the treasury) or unattributed.
--   chain text: Chain code.
--   token text: Token code.
--   merchant_id uuid: The merchant, if it is about one.
--   address text: The address, if it is about one.
--   kept numeric: The stored amount, in base units.
--   posted numeric: The amount by the ledger, in base units; for reserved amounts, by what is under way.

-- References of one merchant that look the same: other Unicode forms, spaces at their ends, characters that nobody sees.
create view app.look_alike as
 WITH unclear AS MATERIALIZED (
         SELECT 'user'::text AS what,
            u.merchant_id,
            app.visible_text(u.external_ref) AS reference,
            app.public_id('usr'::text, u.id) AS id
           FROM app."user" u
          WHERE u.external_ref <> app.visible_text(u.external_ref)
        UNION ALL
         SELECT 'payment request'::text,
            r.merchant_id,
            app.visible_text(r.external_id) AS visible_text,
            a.address
           FROM app.payment_request r
             JOIN app.address a ON a.payment_request_id = r.id AND a.chain = r.chain
          WHERE r.external_id <> app.visible_text(r.external_id)
        ), every_form AS (
         SELECT unclear.what,
            unclear.merchant_id,
            unclear.reference,
            unclear.id
           FROM unclear
        UNION
         SELECT 'user'::text,
            u.merchant_id,
            u.external_ref,
            app.public_id('usr'::text, u.id) AS public_id
           FROM unclear c
             JOIN app."user" u ON u.merchant_id = c.merchant_id AND u.external_ref = c.reference
          WHERE c.what = 'user'::text
        UNION
         SELECT 'payment request'::text,
            r.merchant_id,
            r.external_id,
            a.address
           FROM unclear c
             JOIN app.payment_request r ON r.merchant_id = c.merchant_id AND r.external_id = c.reference
             JOIN app.address a ON a.payment_request_id = r.id AND a.chain = r.chain
          WHERE c.what = 'payment request'::text
        )
 SELECT e.what,
    m.prefix AS merchant,
    e.reference,
    array_agg(e.id ORDER BY e.id) AS ids
   FROM every_form e
     JOIN app.merchant m ON m.id = e.merchant_id
  GROUP BY e.what, m.prefix, e.reference
 HAVING count(*) > 1;
--   what text: user or payment request.
--   merchant text: Prefix of the merchant.
--   reference text: What people see of each of them.
--   ids text[]: The ids of the users, or the addresses of the payment requests.

-- The exact balance of each merchant, chain and token, with the service fee.
create view app.merchant_balance with (security_barrier=true) as
 SELECT b.merchant_id,
    b.chain,
    b.token,
    b.amount AS gross,
    f.fee,
    b.deposit_count,
    b.held_back,
    b.amount - b.held_back - f.fee AS net
   FROM app.balance_now b
     JOIN app.merchant m ON m.id = b.merchant_id
     CROSS JOIN LATERAL ( SELECT div(GREATEST(b.amount - b.held_back, 0::numeric) * m.fee_bps::numeric, 10000::numeric) AS fee) f;
--   merchant_id uuid: The merchant.
--   chain text: Chain code.
--   token text: Token code.
--   gross numeric: Final deposits that no payout has collected, in base units.
--   fee numeric: Service fee, in base units.
--   deposit_count bigint: Number of deposits in it.
--   held_back numeric: The part of gross that no payout can claim yet, in base units.
--   net numeric: What a payout made now would pay, in base units: gross - held_back - fee.

-- Incidents that wait for an operator, by chain and kind, with the way out.
create view app.open_incident as
 SELECT i.chain,
    i.kind,
    k.halts,
    k.decisions,
    i.ids,
    i.since,
    app.fill_way_out(k.way_out, i.chain, i.ids) AS way_out
   FROM ( SELECT incident.chain,
            incident.kind,
            array_agg(incident.id ORDER BY incident.id) AS ids,
            min(incident.opened_at) AS since
           FROM app.incident
          WHERE incident.resolved_at IS NULL
          GROUP BY incident.chain, incident.kind) i
     JOIN app.incident_kind k USING (kind);
--   chain text: Chain code; null if it concerns no single chain.
--   kind text: The kind, as in app.incident_kind.
--   halts boolean: True if the chain is halted meanwhile.
--   decisions text[]: What resolves it: kept, reorged, rewind, resume or reconcile.
--   ids bigint[]: Numbers of the incidents, the oldest first.
--   since timestamp with time zone: When the oldest was noticed.
--   way_out text: What to do, with the commands; for the first 20 if there are more.

-- Transactions in a block that are attempts of an outgoing payment (app.outgoing_payment), or exclude all of them. Some are there more than once.
create view app.outgoing_confirmed_tx as
 SELECT o.outgoing_payment_id,
    i.chain,
    i.txid,
    i.block_height,
    i.success,
    i.fee
   FROM app.outgoing_attempt o
     JOIN chain.confirmed_tx i ON i.chain = o.chain AND i.txid = o.txid
UNION ALL
 SELECT s.id AS outgoing_payment_id,
    i.chain,
    i.txid,
    i.block_height,
    i.success,
    i.fee
   FROM app.outgoing_payment s
     JOIN chain.confirmed_tx i ON i.chain = s.chain AND i.conflict_key = s.conflict_key
UNION ALL
 SELECT u.outgoing_payment_id,
    i.chain,
    i.txid,
    i.block_height,
    i.success,
    i.fee
   FROM app.output u
     JOIN chain.confirmed_tx i ON i.chain = u.chain AND i.conflict_key = ((u.txid || ':'::text) || u.vout)
  WHERE u.from_attempt = 1;
--   outgoing_payment_id uuid: The outgoing payment.
--   chain text: Chain code.
--   txid text: The transaction.
--   block_height integer: Its block.
--   success boolean: Whether it had the effect that it was sent for, as in chain.confirmed_tx.
--   fee numeric(78,0): Network fee that it cost, in the native coin's base units.

-- Where payouts of each merchant and chain go, and whether the operator has put the address on the whitelist.
create view app.payout_address_state with (security_barrier=true) as
 SELECT p.merchant_id,
    p.chain,
    p.address,
    p.updated_at,
    COALESCE(w.active_at <= clock_timestamp(), false) AS whitelisted,
    w.active_at AS whitelisted_at
   FROM app.payout_address p
     LEFT JOIN custody.whitelist w ON w.merchant_id = p.merchant_id AND w.chain = p.chain AND w.address = p.address AND w.removed_at IS NULL;
--   merchant_id uuid: The merchant.
--   chain text: Chain code.
--   address text: The address, as people see it.
--   updated_at timestamp with time zone: When it was registered or last changed.
--   whitelisted boolean: True if it is on the whitelist now: nothing is paid elsewhere.
--   whitelisted_at timestamp with time zone: Since when it is on the whitelist, or from when on it will be; null if it is not on the list.

-- What was paid for payment requests: deposits at their addresses, in the requested token, that are on the chain, or on their way into a block.
create view app.receipt as
 SELECT d.payment_request_id,
    d.id AS deposit_id,
    d.seq,
    d.txid,
    d.output_index,
    d.amount,
    d.status,
    d.block_height,
    d.settlement_id,
    d.finalisation,
    d.created_at,
    d.finalised_at,
    d.came_at > LEAST(r.expires_at, r.cancelled_at) OR COALESCE(d.mined_at, LEAST(statement_timestamp(), k.head_time)) > (LEAST(r.expires_at, r.cancelled_at) + r.late_after) AS late,
    d.merchant_id,
    r.external_id,
    d.chain,
    d.token,
    d.sender,
    d.address,
    d.mined_at IS NULL AS is_unmined
   FROM app.payment_request r
     JOIN app.deposit d ON d.payment_request_id = r.id AND d.chain = r.chain AND d.token = r.token
     LEFT JOIN chain.cursor k ON k.chain = r.chain
  WHERE d.credited AND d.status <> 'reorged'::text AND NOT app.is_from_protocol(d.transfer_kind, d.output_index, d.token);
--   payment_request_id uuid: The payment request.
--   deposit_id uuid: The deposit.
--   seq bigint: Order in which deposits were first seen.
--   txid text: Transaction id.
--   output_index integer: Position inside the transaction.
--   amount numeric(78,0): Amount in base units.
--   status text: pending or final.
--   block_height integer: Block that holds it; null while it is in none.
--   settlement_id uuid: The payout that collected it; null until then.
--   finalisation bigint: Number, on its chain, of the time at which it became final; null before.
--   created_at timestamp with time zone: When it was first seen.
--   finalised_at timestamp with time zone: When it became final.
--   late boolean: True if it was neither seen nor mined before the request expired or was cancelled, or was in no block for too long afterwards (payment_request.late_after).
--   merchant_id uuid: The merchant.
--   external_id text: The merchant's reference of the payment request.
--   chain text: Chain code.
--   token text: Token code.
--   sender text: Where the value came from.
--   address text: The address of the payment request.
--   is_unmined boolean: True if no block has held it yet.

-- Streaming replicas of this server, by their replication slots.
create view app.replica as
 SELECT slot_name::text AS slot,
    active AS connected,
    inactive_since AS away_since,
    (
        CASE
            WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
            ELSE pg_current_wal_lsn()
        END - restart_lsn)::bigint AS behind_bytes,
    wal_status
   FROM pg_replication_slots s
  WHERE slot_type = 'physical'::text AND NOT temporary;
--   slot text: Name of the replication slot.
--   connected boolean: Whether the replica is connected now.
--   away_since timestamp with time zone: Since when it is not connected; null while it is, and if unknown.
--   behind_bytes bigint: How much of the write-ahead log the server keeps for it; null if it keeps nothing: the replica was never connected, or has lost its place.
--   wal_status text: PostgreSQL's status of that log: reserved, extended, unreserved (about to be dropped), or lost (the replica has to be made anew).

-- Chains of which nothing is read now, with the reason and the way out.
create view app.standstill with (security_barrier=true) as
 SELECT DISTINCT ON (chain) chain,
    reason,
    message,
    since,
    way_out
   FROM ( SELECT 1 AS rank,
            c.chain,
            COALESCE(i.kind, 'halted'::text) AS reason,
            COALESCE(i.message, 'it is halted'::text) AS message,
            c.halted_at AS since,
            COALESCE(i.way_out, 'sluice chain resume --chain '::text || c.chain) AS way_out
           FROM chain.cursor c
             LEFT JOIN LATERAL ( SELECT o.kind,
                    ((('incident '::text || array_to_string(o.ids[:20], ' '::text)) || ' ('::text) || o.kind) || ')'::text AS message,
                    o.way_out
                   FROM app.open_incident o
                  WHERE o.chain = c.chain AND o.halts
                  ORDER BY ('resume'::text = ANY (o.decisions))
                 LIMIT 1) i ON true
          WHERE c.halted_at IS NOT NULL
        UNION ALL
         SELECT 2,
            s.chain,
            'servers_contradict'::text,
            s.message,
            s.since,
            'compare it with a block explorer; restart the server, have it build its index again, or name another one in the settings'::text
           FROM chain.standing_contradiction s
        UNION ALL
         SELECT 3,
            g.chain,
            g.waiting_reason,
            g.waiting_message,
            g.waiting_since,
            NULL::text
           FROM chain.configured g
          WHERE g.waiting_reason IS NOT NULL) w
  ORDER BY chain, rank;
--   chain text: Chain code.
--   reason text: For programs: the kind of the incident that halts it, servers_contradict, or why its indexer waits.
--   message text: For people.
--   since timestamp with time zone: Since when.
--   way_out text: What to do about it; null where the message says so.

-- What has been under way for longer than normal. Nothing is wrong: it may wait for the chain, a node, the whitelist or a merchant.
create view app.stuck as
 SELECT 'payout'::text AS what,
    app.public_id('pay'::text, p.id) AS id,
    p.chain,
    COALESCE(p.waiting_reason, p.status) AS state,
    p.created_at AS since
   FROM app.payout p
  WHERE (p.status <> ALL (ARRAY['completed'::text, 'failed'::text])) AND p.created_at < (clock_timestamp() - '1 day'::interval)
UNION ALL
 SELECT s.kind AS what,
    s.id::text AS id,
    s.chain,
    COALESCE(s.waiting_reason, s.status) AS state,
    s.created_at AS since
   FROM app.outgoing_payment s
  WHERE s.status <> 'final'::text AND s.kind <> 'payout'::text AND s.created_at < (clock_timestamp() - '1 day'::interval)
UNION ALL
 SELECT 'deposit'::text AS what,
    app.public_id('dep'::text, d.id) AS id,
    d.chain,
        CASE
            WHEN d.block_height IS NULL THEN 'in no block'::text
            ELSE 'not final'::text
        END AS state,
    d.created_at AS since
   FROM app.deposit d
  WHERE d.status = 'pending'::text AND d.created_at < (clock_timestamp() - '1 day'::interval)
UNION ALL
 SELECT 'allocation'::text AS what,
    app.public_id('pay'::text, c.payout_id) AS id,
    c.chain,
    ((c.done_count || ' of '::text) || c.deposit_count) || ' deposits'::text AS state,
    c.created_at AS since
   FROM app.claim c
  WHERE c.finished_at IS NULL AND c.created_at < (clock_timestamp() - '01:00:00'::interval)
UNION ALL
 SELECT 'event'::text AS what,
    app.public_id('evt'::text, e.id) AS id,
    NULL::text AS chain,
    'not sequenced'::text AS state,
    e.created_at AS since
   FROM app.event e
  WHERE e.sequence IS NULL AND e.created_at < (clock_timestamp() - '00:10:00'::interval)
UNION ALL
 SELECT 'delivery'::text AS what,
    app.public_id('dlv'::text, d.id) AS id,
    NULL::text AS chain,
    d.attempts || ' attempts'::text AS state,
    d.created_at AS since
   FROM app.delivery d
  WHERE d.status = 'pending'::text AND d.created_at < (clock_timestamp() - '4 days'::interval) AND d.next_attempt_at < clock_timestamp()
UNION ALL
 SELECT 'payment request'::text AS what,
    r.external_id AS id,
    r.chain,
    r.status || ', and expired'::text AS state,
    r.decide_at AS since
   FROM app.payment_request r
  WHERE r.decide_at < (clock_timestamp() - '01:00:00'::interval);
--   what text: payout, sweep, withdrawal, deposit, allocation (of deposits with their payout), event, delivery or payment request.
--   id text: Its id, as commands take it.
--   chain text: Chain code; null if it concerns none.
--   state text: What it waits for, or how far it is.
--   since timestamp with time zone: When it began.

-- Addresses of merchants that hold something, whose last sweeps failed, and that are neither being swept or funded nor blocked.
create view app.unswept_address as
 SELECT s.chain,
    s.token,
    s.address,
    s.merchant_id,
    h.amount,
    f.failures,
    f.failure,
    f.retry_at
   FROM ( SELECT DISTINCT failed_sweep.chain,
            failed_sweep.token,
            failed_sweep.address,
            failed_sweep.merchant_id
           FROM app.failed_sweep) s
     JOIN app.holding h ON h.chain = s.chain AND h.token = s.token AND h.address = s.address AND h.amount > 0::numeric
     CROSS JOIN LATERAL app.sweep_failures(s.chain, s.token, s.address) f(failures, failure, retry_at)
  WHERE app.sweep_under_way(s.chain, s.token, s.address) IS NULL AND app.fund_under_way(s.chain, s.address) IS NULL AND NOT app.is_blocked(s.chain, s.token, s.address);
--   chain text: Chain code.
--   token text: Token code.
--   address text: The address that could not be swept.
--   merchant_id uuid: Whose money it holds.
--   amount numeric: What it holds, in base units.
--   failures integer: How many of its sweeps failed within a day and after the last one that did not.
--   failure text: Why the newest of them failed, in words for operators.
--   retry_at timestamp with time zone: When it is tried again.

-- Sequence numbers of events. An older copy of the database that replaces a newer one skips far ahead (app.after_restore).
create sequence app.event_sequence as bigint;

-- Numbers of postings.
create sequence app.ledger_posting as bigint;

-- Positions in GET /payments.
create sequence app.payment_position as bigint;

-- An amount in base units as an exact decimal string without trailing zeros.
CREATE OR REPLACE FUNCTION app."decimal"(amount numeric, decimals integer)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN (trim_scale((amount * CASE decimals WHEN 18 THEN 0.000000000000000001 WHEN 6 THEN 0.000001 ELSE (('1e-'::text || (decimals)::text))::numeric END)))::text;

-- An operator's decision to follow a chain from this block on, though payments below it are missed. The chain was never followed before. Returns what is missing; deciding again replaces it.
CREATE OR REPLACE FUNCTION app.accept_gap(of_chain text, from_height integer, by_whom text)
 RETURNS app.accepted_gap
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
declare
  known chain.configured;
  accepted app.accepted_gap;
begin
  perform from app.chain c where c.chain = of_chain;
  if not found then raise exception 'Sluice does not run %', of_chain using errcode = 'SL422'; end if;
  perform from chain.cursor c where c.chain = of_chain;
  if found then
    raise exception '% is followed already; to read lower blocks, run sluice reindex --chain % --from HEIGHT', of_chain, of_chain using errcode = 'SL422';
  end if;
  select * into known from chain.configured c where c.chain = of_chain;
  if from_height <= known.first_height then
    raise exception 'there is no gap: no block below % of % can have paid us; set %_START_HEIGHT to %, or unset it',
      known.first_height, of_chain, of_chain, from_height using errcode = 'SL422';
  end if;
  insert into app.accepted_gap as g (chain, missing_from, follow_from, accepted_by) values (of_chain, known.first_height, greatest(from_height, 1), by_whom)
  on conflict (chain) do update set missing_from = excluded.missing_from, follow_from = excluded.follow_from,
    accepted_by = excluded.accepted_by, accepted_at = excluded.accepted_at
  returning * into accepted;
  return accepted;
end $function$;

-- Gives a user an address on each of the chains. The caller has locked the user's row. Chains of one family share one address.
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

-- Makes the partitions of one week; returns what it did, in words.
CREATE OR REPLACE FUNCTION app.add_delivery_week(week timestamp with time zone)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
declare
  suffix text := to_char(week at time zone 'UTC', '_YYYY_MM_DD');
  low uuid := app.uuid_at(week);
  high uuid := app.uuid_at(week + interval '168 hours');
  part record;
begin
  lock table app.delivery_attempt_default, app.delivery_default in access exclusive mode;
  for part in select * from (values ('delivery', 'id'), ('delivery_attempt', 'delivery_id')) as t (parent, key) loop
    execute format('create table app.%I (like app.%I including defaults including constraints)', part.parent || suffix, part.parent);
    execute format('with moved as (delete from app.%1$I where %2$I >= %3$L and %2$I < %4$L returning *) insert into app.%5$I select * from moved',
      part.parent || '_default', part.key, low, high, part.parent || suffix);
    execute format('alter table app.%I attach partition app.%I for values from (%L) to (%L)', part.parent, part.parent || suffix, low, high);
  end loop;
  return format('made the week of %s', to_char(week at time zone 'UTC', 'YYYY-MM-DD'));
end $function$;

-- Adds an event of this type about a webhook endpoint, whose row the caller has locked.
CREATE OR REPLACE FUNCTION app.add_endpoint_event(of_endpoint uuid, of_type text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
declare
  w app.webhook_endpoint;
  event uuid := uuidv7();
  at timestamptz := clock_timestamp();
begin
  select * into strict w from app.webhook_endpoint o where o.id = of_endpoint;
  perform app.add_event(event, w.merchant_id, of_type, w.id, app.next_version(w.id), at, json_build_object(
    'type', of_type, 'id', app.public_id('evt', event), 'webhook_endpoint_id', app.public_id('whe', w.id), 'url', w.url, 'reason', w.disabled_reason,
    'created_at', app.iso(at)));
end $function$;

-- Adds the next event of a subject, with this body, its deliveries, and the job that sends them.
CREATE OR REPLACE FUNCTION app.add_event(event uuid, of_merchant uuid, of_type text, subject uuid, of_version integer, at timestamp with time zone, body json)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
begin
  insert into app.event (id, merchant_id, type, subject_id, version, created_at, payload) values (event, of_merchant, of_type, subject, of_version, at, body);
  insert into app.delivery (event_id, endpoint_id, status, next_attempt_at, finished_at)
  select event, w.id, case when w.disabled_at is null then 'pending' else 'failed' end,
    case when w.disabled_at is null then at end, case when w.disabled_at is not null then at end
  from app.webhook_endpoint w where w.merchant_id = of_merchant and w.deleted_at is null and of_type = any(w.event_types);
  if current_setting('app.woke_deliveries', true) is distinct from pg_current_xact_id()::text then -- one job for all events of a transaction
    perform app.enqueue('sequence_events');
    perform set_config('app.woke_deliveries', pg_current_xact_id()::text, true);
  end if;
end $function$;

-- Adds to the operator's native coins on an address, and to how much of it is reserved; a negative amount is subtracted.
CREATE OR REPLACE FUNCTION app.add_gas(of_chain text, of_address text, more numeric, more_reserved numeric)
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'pg_catalog'
AS $function$
  insert into app.gas as g (chain, address, amount, reserved) values (of_chain, of_address, more, more_reserved)
  on conflict (chain, address) do update set amount = g.amount + excluded.amount, reserved = g.reserved + excluded.reserved,
    used_at = clock_timestamp()
$function$;

-- Adds to the final, credited money that an address holds.
CREATE OR REPLACE FUNCTION app.add_holding(of_chain text, of_address text, of_token text, of_merchant uuid, more numeric)
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'pg_catalog'
AS $function$
  insert into app.holding as h (chain, address, token, merchant_id, amount) values (of_chain, of_address, of_token, of_merchant, more)
  on conflict (chain, address, token) do update set amount = h.amount + excluded.amount
$function$;

-- Reserves more outputs for the next attempt of an outgoing payment; the caller gives the attempt's number. False if it came too late, or an output is not free.
CREATE OR REPLACE FUNCTION app.add_inputs(of_outgoing_payment uuid, number integer, inputs text[])
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare
  s app.outgoing_payment;
  p app.payout;
  found_outputs record;
begin
  select * into s from app.outgoing_payment x where x.id = of_outgoing_payment;
  select * into p from app.payout o where o.id = s.payout_id for update;
  perform app.lock_treasury(s.chain);
  select * into s from app.outgoing_payment x where x.id = of_outgoing_payment for update;
  if s.status = 'final' or number <> 1 + (select count(*) from app.outgoing_attempt o where o.outgoing_payment_id = s.id) then return false; end if;
  select * into found_outputs from app.weigh_outputs(s.chain, inputs, s.merchant_id, s.kind <> 'sweep' or s.cancelling);
  if found_outputs.count is distinct from cardinality(inputs) then return false; end if;
  perform app.reserve_outputs(s.chain, inputs, s.id, number);
  if s.kind = 'payout' and p.status in ('swept', 'paying') then
    perform app.set_swept_in(s, least(s.swept_in + found_outputs.of_addresses, p.gross, p.net + s.max_fee));
  end if;
  return true;
end $function$;

-- Adds the outputs that become final at this height, and reserves those of a CPFP child for it.
CREATE OR REPLACE FUNCTION app.add_outputs(of_chain text, final_height integer)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
 SET plan_cache_mode TO 'force_custom_plan'
AS $function$
begin
  insert into app.output (chain, txid, vout, address, merchant_id, amount, mature_at)
  select d.chain, d.txid, d.output_index, d.address, case when d.credited then d.merchant_id end, d.amount, app.mature_at(d)
  from app.deposit d
  where d.chain = of_chain and d.status = 'pending' and d.block_height <= final_height and (d.credited or d.merchant_id is null)
  on conflict do nothing;
  perform app.reserve_cpfp_outputs(of_chain);
  if exists (select from app.outgoing_payment s where s.chain = of_chain and s.recovered and s.status <> 'final') then
    perform custody.reserve_recovered(of_chain);
  end if;
end $function$;

-- Adds an event of this type with the state of a payment request.
CREATE OR REPLACE FUNCTION app.add_payment_event(r app.payment_request, of_type text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
declare
  event uuid := uuidv7();
  at timestamptz := clock_timestamp();
  body json;
begin
  select json_build_object(
    'type', of_type, 'id', app.public_id('evt', event), 'external_id', r.external_id, 'currency', a.name, 'address', w.address,
    'amount', app.decimal(r.amount, a.decimals), 'tolerance', app.decimal(r.tolerance, a.decimals), 'status', r.status,
    'amount_received', app.decimal(r.received, a.decimals), 'amount_pending', app.decimal(r.pending, a.decimals),
    'shortfall', app.decimal(greatest(r.amount - r.received, 0), a.decimals), 'late', r.late, 'txid', r.txid, 'expires_at', app.iso(r.expires_at),
    'metadata', r.metadata, 'created_at', app.iso(at)) into strict body
  from app.asset a join app.address w on w.chain = a.chain and w.payment_request_id = r.id where a.chain = r.chain and a.token = r.token;
  perform app.add_event(event, r.merchant_id, of_type, r.id, r.version, at, body);
end $function$;

-- Adds to a merchant's share of the treasury, and to how much of it is reserved for its payments under way.
CREATE OR REPLACE FUNCTION app.add_share(of_chain text, of_token text, of_merchant uuid, more numeric, more_reserved numeric)
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'pg_catalog'
AS $function$
  insert into app.treasury_share as s (chain, token, merchant_id, amount, reserved) values (of_chain, of_token, of_merchant, more, more_reserved)
  on conflict (chain, token, merchant_id) do update set amount = s.amount + excluded.amount, reserved = s.reserved + excluded.reserved
$function$;

-- Adds a token of a contract to a chain, given as JSON with amounts in base units; returns the first block whose transfers are deposits.
CREATE OR REPLACE FUNCTION app.add_token(of_chain text, given jsonb)
 RETURNS integer
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
declare
  t record;
  taken text;
  head int := (select c.head_height from chain.cursor c where c.chain = of_chain for update);
begin
  if head is null then raise exception 'the chain % is not followed', of_chain using errcode = 'P0002'; end if;
  select * into t from jsonb_to_record(given) as r (token text, name text, display_name text, decimals int, contract text, sweep jsonb,
    min_payout numeric, sweep_min numeric, payout_limit numeric, daily_limit numeric, code_hash text);
  taken := case
    when exists (select from app.asset a where a.chain = of_chain and a.token = t.token) then 'the code ' || t.token
    when exists (select from app.asset a where a.name = t.name) then 'the name ' || t.name
    when exists (select from app.token k where k.chain = of_chain and k.contract = t.contract) or exists (
      select from app.chain c cross join jsonb_array_elements(c.assets) a where c.chain = of_chain and a ->> 'contract' = t.contract)
      then 'the contract ' || t.contract end;
  if taken is not null then
    raise exception '% is taken on %, by a token that counts or that was disabled; sluice token list shows them', taken, of_chain using errcode = 'SL422';
  end if;
  insert into app.asset (chain, token, name, display_name, decimals, min_payout, min_payment, sweep_min, sweep_by, code_hash)
  values (of_chain, t.token, t.name, t.display_name, t.decimals, t.min_payout, greatest(div(t.sweep_min, 100), 1), t.sweep_min, t.sweep ->> 'by',
    t.code_hash);
  insert into app.token (chain, token, contract, sweep, from_height, payout_limit, daily_limit)
  values (of_chain, t.token, t.contract, t.sweep, head + 1, t.payout_limit, t.daily_limit);
  return head + 1;
end $function$;

-- Adds to what the treasury holds of a token, and to how much of it is reserved for transactions that are not final.
CREATE OR REPLACE FUNCTION app.add_treasury(of_chain text, of_token text, more numeric, more_reserved numeric)
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'pg_catalog'
AS $function$
  update app.treasury set balance = balance + more, reserved = reserved + more_reserved where chain = of_chain and token = of_token
$function$;

-- The addresses that a user was given, by chain, as a JSON array of {chain, address}. Addresses that are only watched are left out.
CREATE OR REPLACE FUNCTION app.addresses_of(of_user uuid)
 RETURNS json
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select coalesce(json_agg(a order by chain), '[]')
  from (select chain, address from app.address where user_id = of_user and is_provisioned) a
$function$;

-- The next addresses that were handed out, and the height at which each was compared before, if it was.
CREATE OR REPLACE FUNCTION app.addresses_to_compare(of_chain text, after text, batch integer)
 RETURNS TABLE(match_key text, address text, handed_out_at timestamp with time zone, known_right_at integer)
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select a.match_key, a.address, a.created_at, case when a.created_at < c.since then c.since_height end
  from app.address a left join app.comparison c on c.chain = a.chain
  where a.chain = of_chain and a.match_key > after order by a.match_key limit batch
$function$;

-- Changes the balance of a deposit's merchant, chain and token by an amount in base units (below zero: a debt), for one of the reasons of app.adjustment.
CREATE OR REPLACE FUNCTION app.adjust(d app.deposit, more numeric, why text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
begin
  perform app.lock_pair(d.merchant_id, d.chain, d.token);
  insert into app.adjustment (merchant_id, chain, token, amount, deposit_id, reason) values (d.merchant_id, d.chain, d.token, more, d.id, why);
  insert into app.balance_delta (merchant_id, chain, token, amount, deposit_count) values (d.merchant_id, d.chain, d.token, more, 0);
end $function$;

-- Finds outgoing payments that belong to the return of a deposit that is read again.
CREATE OR REPLACE FUNCTION app.adopt_deposit()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
begin
  perform app.adopt_return(new, s) from (values ('sweep'), ('withdrawal')) k (kind)
  cross join lateral app.return_outgoing_payment_ids(new, k.kind) i join app.outgoing_payment s on s.id = i.id where s.status <> 'final' order by k.kind, i.n;
  return null;
end $function$;

-- Finds the deposit whose return a recovered outgoing payment belongs to.
CREATE OR REPLACE FUNCTION app.adopt_outgoing_payment()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
begin
  perform app.adopt_return(d, new) from app.deposit d
  where d.chain = new.chain and not d.credited and d.merchant_id is not null and d.token = new.token
    and (new.kind = 'withdrawal' or d.address = new.source) and new.id in (select i.id from app.return_outgoing_payment_ids(d, new.kind) i);
  return null;
end $function$;

-- Recreates the decision to return this deposit, with a transaction of the return. The transaction belongs to no merchant, and no payout waits for it.
CREATE OR REPLACE FUNCTION app.adopt_return(d app.deposit, s app.outgoing_payment)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
declare r app.unattributed_decision;
begin
  select * into r from app.unattributed_decision u where u.deposit_id = d.id;
  if s.kind = 'withdrawal' and app.is_held(r) then perform app.reserve(s.chain, s.token, -r.amount); end if; -- its own amount is reserved
  insert into app.unattributed_decision as u (deposit_id, decision, amount, sweep_id, withdrawal_id, destination)
  values (d.id, 'return', d.amount, case s.kind when 'sweep' then s.id end, case s.kind when 'withdrawal' then s.id end,
    case s.kind when 'withdrawal' then s.recipient end)
  on conflict (deposit_id) do update set decision = 'return', sweep_id = coalesce(excluded.sweep_id, u.sweep_id),
    withdrawal_id = coalesce(excluded.withdrawal_id, u.withdrawal_id), destination = coalesce(excluded.destination, u.destination);
  update app.outgoing_payment x set merchant_id = null where x.id = s.id;
  delete from app.payout_sweep l where l.outgoing_payment_id = s.id;
end $function$;

-- Call it once when an older copy of the database replaces a newer one: no later event gets a sequence that was used before. Returns the last one that is skipped.
CREATE OR REPLACE FUNCTION app.after_restore()
 RETURNS bigint
 LANGUAGE sql
 SET search_path TO 'pg_catalog'
AS $function$
  -- Far more than were ever given in the time between two backups. Gaps are allowed, and JSON's numbers are exact up to 9 * 10^15.
  select setval('app.event_sequence', nextval('app.event_sequence') + 1000000000)
$function$;

-- Carries out every claim and release of a merchant, chain and token, in the caller's transaction.
CREATE OR REPLACE FUNCTION app.allocate_all_deposits(of_merchant uuid, of_chain text, of_token text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
begin
  while app.allocate_deposits(of_merchant, of_chain, of_token, 50000, true) loop null; end loop;
end $function$;

-- Carries out the oldest claim or release of a merchant, chain and token that is not finished, up to batch deposits of it; true if there may be more to do. Safe to run at any time and in several places.
CREATE OR REPLACE FUNCTION app.allocate_deposits(of_merchant uuid, of_chain text, of_token text, batch integer, wait boolean DEFAULT false)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
 SET plan_cache_mode TO 'force_custom_plan'
 SET enable_sort TO 'on'
AS $function$
declare
  lock bigint := hashtextextended('allocate:' || of_merchant || ':' || of_chain || ':' || of_token, 0);
  op app.claim;
  found_count bigint;
  found_amount numeric;
  at record;
begin
  if wait then perform pg_advisory_xact_lock(lock);
  elsif not pg_try_advisory_xact_lock(lock) then return true;
  end if;
  select * into op from app.claim c
  where c.merchant_id = of_merchant and c.chain = of_chain and c.token = of_token and c.finished_at is null order by c.id limit 1;
  if op.id is null then return false; end if;

  if op.kind = 'claim' then
    with next as materialized (
      select d.id, coalesce(d.released, d.finalisation) as number, d.seq, d.amount from app.deposit d
      where d.merchant_id = of_merchant and d.chain = of_chain and d.token = of_token and d.status = 'final' and d.credited and not d.held_back
        and d.settlement_id is null and coalesce(d.released, d.finalisation) <= op.cutoff
        and (coalesce(d.released, d.finalisation), d.seq) > (op.last_finalisation, op.last_seq)
      order by coalesce(d.released, d.finalisation), d.seq limit batch
    ), allocated as (
      update app.deposit d set settlement_id = op.payout_id from next n where d.id = n.id
    )
    select count(*) as n, coalesce(sum(amount), 0) as amount, max(array[number, seq]) as last from next into at;
  else
    with next as materialized (
      select d.id, d.seq, d.amount from app.deposit d
      where d.settlement_id = op.payout_id and d.seq > op.last_seq order by d.seq limit batch
    ), allocated as (
      update app.deposit d set settlement_id = null from next n where d.id = n.id
    )
    select count(*) as n, coalesce(sum(amount), 0) as amount, max(array[0::bigint, seq]) as last from next into at;
  end if;

  update app.claim c set done_count = c.done_count + at.n, done_amount = c.done_amount + at.amount,
    last_finalisation = coalesce(at.last[1], c.last_finalisation), last_seq = coalesce(at.last[2], c.last_seq),
    finished_at = case when at.n < batch then clock_timestamp() end
  where c.id = op.id returning c.done_count, c.done_amount into found_count, found_amount;
  if at.n < batch and (found_count, found_amount) <> (op.deposit_count, op.amount) then
    raise exception 'the % of payout % must have % deposits (%), but % (%) were found', op.kind, op.payout_id, op.deposit_count, op.amount,
      found_count, found_amount using errcode = 'P0003';
  end if;
  return at.n = batch or exists (select from app.claim c
    where c.merchant_id = of_merchant and c.chain = of_chain and c.token = of_token and c.finished_at is null);
end $function$;

-- Trigger: notifies channel address_added of each address.
CREATE OR REPLACE FUNCTION app.announce_address()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
begin
  perform pg_notify('address_added', a.address) from added a join app.chain c on c.chain = a.chain where c.shows_unconfirmed;
  return null;
end $function$;

-- Trigger: wakes the worker to fail what is pending, when an endpoint was disabled or deleted.
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

-- Trigger: notifies every API process of the hash of a key that was revoked (api_key_revoked).
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

-- Trigger: makes every API process empty its cache of keys when an account was suspended (api_key_revoked with an empty payload).
CREATE OR REPLACE FUNCTION app.announce_suspension()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
begin
  perform pg_notify('api_key_revoked', '');
  return null;
end $function$;

-- Trigger: refuses a posting that does not add up to zero for each chain and token.
CREATE OR REPLACE FUNCTION app.assert_balanced()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
begin
  perform from added group by posting, chain, token having sum(amount) <> 0;
  if found then raise exception 'a posting does not add up to zero' using errcode = 'P0003'; end if;
  return null;
end $function$;

-- Runs every check of the schema audit: what must hold, how many rows break it, and the first ten of them.
CREATE OR REPLACE FUNCTION app.audit_checks()
 RETURNS TABLE(name text, claim text, count bigint, found jsonb)
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare view record;
begin
  for view in
    select c.relname, obj_description(c.oid, 'pg_class') as claim from pg_class c
    where c.relnamespace = 'audit'::regnamespace and c.relkind = 'v' order by c.relname
  loop
    return query execute format('with wrong as materialized (select to_jsonb(w) as row from audit.%I w)
      select $1, $2, (select count(*) from wrong), coalesce((
        select jsonb_agg((select jsonb_object_agg(key, case jsonb_typeof(value) when ''number'' then to_jsonb(value #>> ''{}'') else value end)
          from jsonb_each(first.row))) from (select row from wrong order by row::text limit 10) first), ''[]'')', view.relname)
    using view.relname::text, view.claim;
  end loop;
end $function$;

-- Whether an audit is due: the last one is a day ago.
CREATE OR REPLACE FUNCTION app.audit_is_due()
 RETURNS boolean
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select (select min(m.applied_at) from public.sluice_migration m) < clock_timestamp() - interval '10 minutes'
    and not exists (select from app.audit_run r
      where r.finished_at > clock_timestamp() - interval '1 day' or r.started_at > clock_timestamp() - interval '1 hour')
$function$;

-- Makes a payout wait for sweeps of its merchant's addresses that are under way for other payouts, or for none. Safe to run again.
CREATE OR REPLACE FUNCTION app.await_sweeps(of_payout uuid)
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  insert into app.payout_sweep (payout_id, outgoing_payment_id)
  select p.id, s.id from app.payout p
  join app.outgoing_payment s on s.status <> 'final' and s.chain = p.chain and p.token in (s.token, s.for_token) and s.merchant_id = p.merchant_id
  where p.id = of_payout and p.status = 'sweeping' and case
    when not p.sweep_first then s.kind in ('sweep', 'cancel') or s.for_token = p.token
    when s.for_token = p.token then exists (select from app.deposit d where d.settlement_id = p.id and d.address = s.recipient)
    when app.uses_outputs(p.chain) then exists (
      select from app.output u join app.deposit d on d.chain = u.chain and d.txid = u.txid and d.output_index = u.vout
      where u.outgoing_payment_id = s.id and d.settlement_id = p.id)
    else s.kind in ('sweep', 'cancel') and exists (select from app.deposit d where d.settlement_id = p.id and d.address = s.source) end
  on conflict do nothing
$function$;

-- Notes that an audit begins; returns the number of the run.
CREATE OR REPLACE FUNCTION app.begin_audit()
 RETURNS bigint
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  delete from app.audit_run r where r.started_at < clock_timestamp() - interval '1 year';
  insert into app.audit_run default values returning id
$function$;

-- For an operator: begins to compare every address with the chain anew, now.
CREATE OR REPLACE FUNCTION app.begin_comparison(of_chain text)
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  insert into app.comparison as c (chain) values (of_chain) on conflict (chain) do update
  set began_at = clock_timestamp(), position = '', height = null, compared = 0, unread = null, error = null, next_at = clock_timestamp()
$function$;

-- Begins a child that spends unconfirmed outputs of ours (<txid>:<vout>) and pays for their transaction, too; amounts in base units. Returns the id of the outgoing payment.
CREATE OR REPLACE FUNCTION app.begin_cpfp(of_chain text, inputs text[], network_fee numeric, parent_vsize integer)
 RETURNS uuid
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare
  native text := app.native_token(of_chain);
  found_outputs record;
  funds numeric;
  outgoing_payment uuid;
begin
  perform from chain.cursor c where c.chain = of_chain for update; -- unconfirmed payments do not change meanwhile
  perform app.lock_treasury(of_chain);
  select count(*) as count, count(distinct u.txid) as parents, count(distinct coalesce(d.merchant_id::text, 'treasury')) as owners,
    sum(u.amount) as total, min(u.txid) as txid, (array_agg(d.merchant_id))[1] as merchant_id
  into found_outputs
  from (select distinct of_chain || ':' || i as id from unnest(inputs) i) k
  join chain.unconfirmed u on u.id = k.id and u.token = native
  join app.deposit d on d.chain = u.chain and d.txid = u.txid and d.output_index = u.output_index and d.address = u.recipient
    and d.status = 'pending' and d.block_height is null and (d.credited or d.merchant_id is null);
  if found_outputs.count is distinct from cardinality(inputs) or found_outputs.parents <> 1 or found_outputs.owners <> 1 then
    raise exception 'these are not unconfirmed outputs of one transaction to addresses of one merchant, or to the treasury' using errcode = 'SL422';
  end if;
  if exists (select from app.outgoing_payment s where s.chain = of_chain and s.first_input = any(inputs)) or exists (
    select from app.cpfp b join app.outgoing_payment s on s.id = b.outgoing_payment_id where s.chain = of_chain and s.status <> 'final' and b.outputs && inputs) then
    raise exception 'a child transaction of ours already spends these outputs; Sluice raises its fee automatically' using errcode = 'SL422';
  end if;
  if found_outputs.total <= network_fee then
    raise exception 'these outputs hold no more than the network fee' using errcode = 'SL422';
  end if;
  funds := app.operator_funds(of_chain, native);
  if funds < network_fee then
    raise exception 'the operator''s own money is not enough: %', app.short_by(of_chain, native, network_fee - funds) using errcode = 'SL422';
  end if;
  perform app.reserve(of_chain, native, network_fee);
  insert into app.outgoing_payment as s (kind, chain, token, amount, source, recipient, fee_payer, first_input, merchant_id, max_fee)
  select 'sweep', of_chain, native, found_outputs.total - network_fee, u.recipient, t.treasury, t.treasury, begin_cpfp.inputs[1],
    found_outputs.merchant_id, network_fee
  from app.treasury_address(of_chain) t (treasury) join chain.unconfirmed u on u.id = of_chain || ':' || begin_cpfp.inputs[1]
  returning s.id into outgoing_payment;
  insert into app.cpfp (outgoing_payment_id, txid, outputs, parent_inputs, parent_vsize)
  select outgoing_payment, u.txid, begin_cpfp.inputs, u.inputs, begin_cpfp.parent_vsize
  from chain.unconfirmed u where u.id = of_chain || ':' || begin_cpfp.inputs[1];
  perform app.wake_outgoing_payments(of_chain);
  return outgoing_payment;
end $function$;

-- Takes nonces of addresses for gas (amounts in base units) that goes back to the treasury. Safe to run again.
CREATE OR REPLACE FUNCTION app.begin_defunds(of_chain text, addresses text[], amounts numeric[], max_fees numeric[])
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare item record;
begin
  perform app.lock_treasury(of_chain);
  for item in
    select u.address, u.amount, u.max_fee, a.merchant_id
    from unnest(addresses, amounts, max_fees) with ordinality as u (address, amount, max_fee, n)
    join app.chain c on c.chain = of_chain
    join custody.address a on a.address = u.address and a.family = c.family and a.purpose = 'deposit'
    join app.gas g on g.chain = of_chain and g.address = u.address
    where u.amount > 0 and g.amount >= u.amount + u.max_fee and app.is_gas_idle(g)
    order by u.n
  loop
    perform app.add_gas(of_chain, item.address, 0, item.amount + item.max_fee);
    insert into app.outgoing_payment (kind, chain, token, amount, source, recipient, fee_payer, nonce, merchant_id, max_fee, from_gas)
    values ('defund', of_chain, app.native_token(of_chain), item.amount, item.address, app.treasury_address(of_chain), item.address,
      app.take_nonce(of_chain, item.address), item.merchant_id, item.max_fee, true);
  end loop;
  perform app.wake_outgoing_payments(of_chain);
end $function$;

-- Takes nonces of the treasury for gas of addresses (amounts in base units) that are to sweep a token, for a payout (null: for none); returns what the treasury lacks, or null. Safe to run again.
CREATE OR REPLACE FUNCTION app.begin_funds(of_payout uuid, of_chain text, of_token text, addresses text[], amounts numeric[], max_fee numeric)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare
  native text := app.native_token(of_chain);
  treasury text := app.treasury_address(of_chain);
  item record;
  fund uuid;
  funds numeric;
  short text;
begin
  if not app.sweeps_itself(of_chain, of_token) then return null; end if;
  if of_payout is not null and not app.lock_unpaid(of_payout) then return null; end if;
  perform app.lock_treasury(of_chain);
  funds := app.operator_funds(of_chain, native);
  for item in
    select u.address, ceil(u.amount) as amount, a.merchant_id from unnest(addresses, amounts) with ordinality as u (address, amount, n)
    join app.chain c on c.chain = of_chain
    join custody.address a on a.address = u.address and a.family = c.family and a.purpose = 'deposit' and a.merchant_id is not null
    where u.amount > 0 and max_fee = trunc(max_fee) and not app.is_blocked(of_chain, of_token, u.address)
      and app.is_sweep_due(of_chain, of_token, u.address)
    order by u.n
  loop
    fund := app.fund_under_way(of_chain, item.address);
    if fund is null then
      if funds < item.amount + max_fee then
        short := app.short_by(of_chain, native, item.amount + max_fee - funds, ' for sweeping');
        exit;
      end if;
      funds := funds - item.amount - max_fee;
      perform app.reserve(of_chain, native, item.amount + max_fee);
      insert into app.outgoing_payment as s (kind, chain, token, amount, source, recipient, fee_payer, nonce, payout_id, merchant_id, max_fee, for_token)
      values ('fund', of_chain, native, item.amount, treasury, item.address, treasury, app.take_nonce(of_chain, treasury), of_payout,
        item.merchant_id, max_fee, of_token)
      returning s.id into fund;
    end if;
    if of_payout is not null then
      insert into app.payout_sweep (payout_id, outgoing_payment_id) values (of_payout, fund) on conflict do nothing;
    end if;
  end loop;
  perform app.wake_outgoing_payments(of_chain);
  return short;
end $function$;

-- Reserves the outputs that a payout is paid from, with this network fee (in base units), and takes it from sweeping to swept. Returns what is short; null if the payment has begun, or the payout is not ready for it. Safe to run again.
CREATE OR REPLACE FUNCTION app.begin_output_payment(of_payout uuid, inputs text[], network_fee numeric)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare
  p app.payout;
  s app.outgoing_payment;
  found_outputs record;
  brought numeric;
  short text;
  first_input text;
  treasury text;
begin
  select * into p from app.payout o where o.id = of_payout and o.status = 'sweeping' for update;
  if p.id is null or app.is_to_sweep_first(p.id) then return null; end if;
  perform app.lock_treasury(p.chain);
  treasury := app.treasury_address(p.chain);
  select * into found_outputs from app.weigh_outputs(p.chain, inputs, p.merchant_id, true);
  first_input := app.first_input_of(p.chain, inputs);
  if found_outputs.count is distinct from cardinality(inputs) or first_input is null then return 'outputs that were chosen are not free any more'; end if;
  if found_outputs.total < p.net + network_fee then
    return app.short_by(p.chain, p.token, p.net + network_fee - found_outputs.total, ' in these outputs');
  end if;
  brought := least(found_outputs.of_addresses, p.gross, p.net + network_fee);
  short := app.shortage(p.chain, p.token, p.merchant_id, p.net - brought, p.gross - brought, network_fee);
  if short is not null then return short; end if;
  perform app.add_share(p.chain, p.token, p.merchant_id, 0, p.gross);
  perform app.reserve(p.chain, p.token, p.net);
  perform app.reserve(p.chain, app.native_token(p.chain), network_fee);
  insert into app.outgoing_payment as x (kind, chain, token, amount, source, recipient, fee_payer, first_input, payout_id, merchant_id, max_fee)
  values ('payout', p.chain, p.token, p.net, treasury, p.address, treasury, first_input, p.id, p.merchant_id, network_fee)
  returning x.* into s;
  perform app.set_swept_in(s, brought);
  perform app.reserve_outputs(p.chain, inputs, s.id, 1);
  update app.payout o set status = 'swept' where o.id = p.id;
  perform app.wake_outgoing_payments(p.chain);
  return null;
end $function$;

-- Reserves outputs of a merchant's addresses for one transaction that moves them to the treasury, with this network fee (in base units). Returns what is in the way; null if it is begun, or the payout is not sweeping.
CREATE OR REPLACE FUNCTION app.begin_output_sweep(of_payout uuid, of_chain text, of_merchant uuid, inputs text[], network_fee numeric)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare
  found_outputs record;
  funds numeric;
  sweep uuid;
  first_input text;
begin
  if of_payout is not null then
    perform from app.payout p where p.id = of_payout and p.status = 'sweeping' for update;
    if not found then return null; end if;
  end if;
  perform app.lock_treasury(of_chain);
  select * into found_outputs from app.weigh_outputs(of_chain, inputs, of_merchant, false);
  first_input := app.first_input_of(of_chain, inputs);
  if found_outputs.count is distinct from cardinality(inputs) or first_input is null then return 'outputs that were chosen are not free any more'; end if;
  if found_outputs.total <= network_fee then return 'these outputs hold no more than the network fee'; end if;
  funds := app.operator_funds(of_chain, app.native_token(of_chain));
  if funds < network_fee then
    return app.short_by(of_chain, app.native_token(of_chain), network_fee - funds, ' for sweeping');
  end if;
  perform app.reserve(of_chain, app.native_token(of_chain), network_fee);
  insert into app.outgoing_payment as x (kind, chain, token, amount, source, recipient, fee_payer, first_input, payout_id, merchant_id, max_fee)
  select 'sweep', of_chain, app.native_token(of_chain), found_outputs.total - network_fee, u.address, t.treasury, t.treasury, first_input, of_payout,
    of_merchant, network_fee
  from app.treasury_address(of_chain) t (treasury)
  join app.output u on u.chain = of_chain and u.txid = split_part(first_input, ':', 1) and u.vout = split_part(first_input, ':', 2)::int
  returning x.id into sweep;
  perform app.reserve_outputs(of_chain, inputs, sweep, 1);
  if of_payout is not null then
    insert into app.payout_sweep (payout_id, outgoing_payment_id) values (of_payout, sweep);
  end if;
  perform app.wake_outgoing_payments(of_chain);
  return null;
end $function$;

-- Reserves outputs of the treasury for a withdrawal of the operator's own money (amounts in base units); returns the id of the outgoing payment.
CREATE OR REPLACE FUNCTION app.begin_output_withdrawal(of_chain text, amount numeric, recipient text, inputs text[], network_fee numeric)
 RETURNS uuid
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare
  token text := app.native_token(of_chain);
  treasury text := app.treasury_address(of_chain);
  found_outputs record;
  short text;
  outgoing_payment uuid;
  first_input text;
begin
  perform app.lock_treasury(of_chain);
  short := app.shortage(of_chain, token, null, amount, 0, network_fee);
  if short is not null then raise exception 'the operator''s own money is not enough: %', short using errcode = 'SL422'; end if;
  select * into found_outputs from app.weigh_outputs(of_chain, inputs, null, true);
  first_input := app.first_input_of(of_chain, inputs);
  if found_outputs.count is distinct from cardinality(inputs) or first_input is null or found_outputs.total < amount + network_fee then
    raise exception 'the treasury''s free outputs are not enough now; try again when its transactions are final' using errcode = 'SL422';
  end if;
  perform app.reserve(of_chain, token, amount);
  perform app.reserve(of_chain, token, network_fee);
  insert into app.outgoing_payment as s (kind, chain, token, amount, source, recipient, fee_payer, first_input, max_fee)
  values ('withdrawal', of_chain, token, begin_output_withdrawal.amount, treasury, begin_output_withdrawal.recipient, treasury, first_input, network_fee)
  returning s.id into outgoing_payment;
  perform app.reserve_outputs(of_chain, inputs, outgoing_payment, 1);
  perform app.wake_outgoing_payments(of_chain);
  return outgoing_payment;
end $function$;

-- Takes the nonce of a payout's payment and reserves its value and highest fee; returns what is short; null if the payment has begun (now or before), or the payout is not swept, or has claimed what is blocked. Safe to run again.
CREATE OR REPLACE FUNCTION app.begin_payment(of_payout uuid, network_fee numeric)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare
  p app.payout;
  short text;
  treasury text;
begin
  select * into p from app.payout o where o.id = of_payout and o.status = 'swept' for update;
  if p.id is null or exists (select from app.outgoing_payment s where s.payout_id = p.id and s.kind = 'payout') or app.has_blocked_deposits(p.id) then
    return null;
  end if;
  perform app.lock_treasury(p.chain);
  short := app.shortage(p.chain, p.token, p.merchant_id, p.net, p.gross, network_fee);
  if short is not null then return short; end if;
  treasury := app.treasury_address(p.chain);
  insert into app.treasury_share as s (chain, token, merchant_id, reserved) values (p.chain, p.token, p.merchant_id, p.gross)
  on conflict (chain, token, merchant_id) do update set reserved = s.reserved + excluded.reserved;
  perform app.reserve(p.chain, p.token, p.net);
  perform app.reserve(p.chain, app.native_token(p.chain), network_fee);
  insert into app.outgoing_payment (kind, chain, token, amount, source, recipient, fee_payer, nonce, payout_id, merchant_id, max_fee)
  values ('payout', p.chain, p.token, p.net, treasury, p.address, treasury, app.take_nonce(p.chain, treasury), p.id, p.merchant_id, network_fee);
  perform app.wake_outgoing_payments(p.chain);
  return null;
end $function$;

-- Begins the sweep of a return to the treasury (amounts in base units); returns what is in its way, or null. Safe to run again.
CREATE OR REPLACE FUNCTION app.begin_return_sweep(of_deposit uuid, moved numeric, max_fee numeric, OUT reason text, OUT detail text)
 RETURNS record
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare
  d app.deposit := app.lock_return(of_deposit, 'sweep');
  whole numeric := (select u.amount from app.unattributed_decision u where u.deposit_id = of_deposit);
  native text := app.native_token(d.chain);
  funds numeric := app.operator_funds(d.chain, native);
  by_whom text := app.sweep_payer(d.chain, d.token, d.address);
  by_treasury boolean := by_whom = app.treasury_address(d.chain);
  from_gas boolean := app.sweeps_itself(d.chain, d.token);
  sweep uuid := app.next_return_outgoing_payment(d, 'sweep');
begin
  if d.id is null then return; end if;
  if d.status <> 'final' then
    select 'deposit_not_final', 'the deposit left the chain' into reason, detail;
  elsif moved <= 0 or moved + (case when by_treasury or from_gas then 0 else max_fee end) > whole or (by_treasury or from_gas) and moved < whole then
    select 'not_worth_moving', format('it is %s base units, and %s would be moved', whole, moved) into reason, detail;
  elsif by_treasury and funds < max_fee then
    select 'insufficient_treasury_funds', app.short_by(d.chain, native, max_fee - funds, ' for the network fee') into reason, detail;
  elsif from_gas and app.free_gas(d.chain, d.address) < max_fee then
    select 'gas_under_way', 'the gas on its address is less than the sweep may cost' into reason, detail;
  elsif app.is_blocked(d.chain, d.token, d.address) then
    select 'address_blocked', 'the chain does not let ' || d.token || ' leave the address: sluice address list --blocked' into reason, detail;
  elsif sweep is null then
    select 'given_up', 'it was begun 20 times and failed each time' into reason, detail;
  end if;
  if reason is not null then return; end if;
  if by_treasury then perform app.reserve(d.chain, native, max_fee); end if;
  if from_gas then perform app.add_gas(d.chain, d.address, 0, max_fee); end if;
  insert into app.outgoing_payment (id, kind, chain, token, amount, source, recipient, fee_payer, nonce, max_fee, from_gas)
  values (sweep, 'sweep', d.chain, d.token, moved, d.address, app.treasury_address(d.chain), by_whom, app.take_nonce(d.chain, by_whom), max_fee,
    from_gas);
  update app.unattributed_decision u set sweep_id = sweep, waiting_reason = null, waiting_detail = null, waiting_since = null
  where u.deposit_id = d.id;
  perform app.wake_outgoing_payments(d.chain);
end $function$;

-- Begins the withdrawal of a return from the treasury to its destination; returns what is in its way, or null. Safe to run again.
CREATE OR REPLACE FUNCTION app.begin_return_withdrawal(of_deposit uuid, network_fee numeric, OUT reason text, OUT detail text)
 RETURNS record
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare
  d app.deposit := app.lock_return(of_deposit, 'withdrawal');
  r app.unattributed_decision;
  native text := app.native_token(d.chain);
  funds numeric := app.operator_funds(d.chain, native); -- without its own amount, which is reserved
  treasury text := app.treasury_address(d.chain);
  withdrawal uuid := app.next_return_outgoing_payment(d, 'withdrawal');
begin
  if d.id is null then return; end if;
  select * into r from app.unattributed_decision u where u.deposit_id = d.id;
  if d.status <> 'final' then
    select 'deposit_not_final', 'the deposit left the chain' into reason, detail;
  elsif not exists (select from custody.whitelist w where w.merchant_id is null and w.chain = d.chain and w.address = r.destination
      and w.active_at <= clock_timestamp() and w.removed_at is null) then
    select 'not_whitelisted', r.destination || ' is not on the operator''s whitelist' into reason, detail;
  elsif funds < network_fee then
    select 'insufficient_treasury_funds', app.short_by(d.chain, native, network_fee - funds, ' for the network fee') into reason, detail;
  elsif withdrawal is null then
    select 'given_up', 'it was begun 20 times and failed each time' into reason, detail;
  end if;
  if reason is not null then return; end if;
  perform app.reserve(d.chain, native, network_fee);
  insert into app.outgoing_payment (id, kind, chain, token, amount, source, recipient, fee_payer, nonce, max_fee)
  values (withdrawal, 'withdrawal', d.chain, d.token, r.amount, treasury, r.destination, treasury, app.take_nonce(d.chain, treasury), network_fee);
  update app.unattributed_decision u set withdrawal_id = withdrawal, waiting_reason = null, waiting_detail = null, waiting_since = null
  where u.deposit_id = d.id;
  perform app.wake_outgoing_payments(d.chain);
end $function$;

-- Takes a payout from pending to sweeping. Does nothing in any other status.
CREATE OR REPLACE FUNCTION app.begin_sweeping(of_payout uuid)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
begin
  update app.payout p set status = 'sweeping' where p.id = of_payout and p.status = 'pending';
end $function$;

-- Takes nonces for sweeps of merchants' addresses to the treasury, for a payout (null: for none), or finds those under way; returns what is short of network fees, or null. Safe to run again.
CREATE OR REPLACE FUNCTION app.begin_sweeps(of_payout uuid, of_chain text, of_token text, addresses text[], amounts numeric[], max_fees numeric[], payment_fee numeric DEFAULT NULL::numeric)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare
  native text := app.native_token(of_chain);
  treasury text := app.treasury_address(of_chain);
  item record;
  held app.holding;
  by_whom text;
  sweep uuid;
  funds numeric;
  missing numeric := 'infinity';
  short text;
  from_gas boolean := app.sweeps_itself(of_chain, of_token);
begin
  if of_payout is not null and not app.lock_unpaid(of_payout) then return null; end if;
  perform app.lock_treasury(of_chain);
  funds := app.operator_funds(of_chain, native);
  if of_payout is not null then perform app.await_sweeps(of_payout); end if; -- those that were begun since the caller checked
  if payment_fee is not null then missing := app.payout_shortfall(of_payout, payment_fee); end if;
  for item in select * from unnest(addresses, amounts, max_fees) with ordinality as u (address, amount, max_fee, n) order by n loop
    exit when missing <= 0;
    sweep := app.sweep_under_way(of_chain, of_token, item.address);
    if sweep is null then
      select * into held from app.holding h where h.chain = of_chain and h.address = item.address and h.token = of_token;
      by_whom := app.sweep_payer(of_chain, of_token, item.address);
      continue when held.address is null or item.amount <= 0 or app.is_blocked(of_chain, of_token, item.address)
        or held.amount < item.amount + case when by_whom <> treasury and not from_gas then item.max_fee else 0 end
        or from_gas and app.free_gas(of_chain, item.address) < item.max_fee;
      if from_gas then perform app.add_gas(of_chain, item.address, 0, item.max_fee);
      elsif by_whom = treasury then
        if funds < item.max_fee then
          short := app.short_by(of_chain, native, item.max_fee - funds, ' for sweeping');
          exit;
        end if;
        funds := funds - item.max_fee;
        perform app.reserve(of_chain, native, item.max_fee);
      end if;
      insert into app.outgoing_payment as s (kind, chain, token, amount, source, recipient, fee_payer, nonce, payout_id, merchant_id, max_fee, from_gas)
      values ('sweep', of_chain, of_token, item.amount, item.address, treasury, by_whom, app.take_nonce(of_chain, by_whom), of_payout,
        held.merchant_id, item.max_fee, from_gas)
      returning s.id into sweep;
      missing := missing - item.amount + case when by_whom = treasury and native = of_token then item.max_fee else 0 end;
    end if;
    if of_payout is not null then
      insert into app.payout_sweep (payout_id, outgoing_payment_id) values (of_payout, sweep) on conflict do nothing;
    end if;
  end loop;
  perform app.wake_outgoing_payments(of_chain);
  return short;
end $function$;

-- Takes a nonce for a withdrawal of the operator's own money (amounts in base units); returns the id of the outgoing payment.
CREATE OR REPLACE FUNCTION app.begin_withdrawal(of_chain text, of_token text, amount numeric, recipient text, network_fee numeric)
 RETURNS uuid
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare
  treasury text := app.treasury_address(of_chain);
  short text;
  outgoing_payment uuid;
begin
  perform app.lock_treasury(of_chain);
  short := app.shortage(of_chain, of_token, null, amount, 0, network_fee);
  if short is not null then raise exception 'the operator''s own money is not enough: %', short using errcode = 'SL422'; end if;
  perform app.reserve(of_chain, of_token, amount);
  perform app.reserve(of_chain, app.native_token(of_chain), network_fee);
  insert into app.outgoing_payment as s (kind, chain, token, amount, source, recipient, fee_payer, nonce, max_fee)
  values ('withdrawal', of_chain, of_token, begin_withdrawal.amount, treasury, begin_withdrawal.recipient, treasury,
    app.take_nonce(of_chain, treasury), network_fee)
  returning s.id into outgoing_payment;
  perform app.wake_outgoing_payments(of_chain);
  return outgoing_payment;
end $function$;

-- Blocks a deposit address for a token, with an incident, and holds back the final deposits that are there. False if it is blocked already, or cannot be: only a token of a chain whose node can be asked again. Safe to run again.
CREATE OR REPLACE FUNCTION app.block_address(of_chain text, of_token text, of_address text, of_why text)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
 SET plan_cache_mode TO 'force_custom_plan'
AS $function$
declare
  merchant uuid;
  holds numeric;
begin
  select a.merchant_id into merchant from custody.address a join app.chain c on c.family = a.family
  where a.address = of_address and c.chain = of_chain and c.native_token <> of_token;
  if merchant is null then return false; end if;
  perform from chain.cursor c where c.chain = of_chain for update;
  insert into app.blocked_address (chain, token, address, why) values (of_chain, of_token, of_address, of_why) on conflict do nothing;
  if not found then return false; end if;
  insert into app.incident (kind, subject, details)
  values ('address_blocked', of_chain || ':' || of_token || ':' || of_address,
    jsonb_build_object('chain', of_chain, 'token', of_token, 'address', of_address, 'why', of_why))
  on conflict do nothing;
  perform app.allocate_all_deposits(merchant, of_chain, of_token); -- takes its lock before that of the pair, which a claim may be waiting for
  perform app.lock_pair(merchant, of_chain, of_token);
  perform app.allocate_all_deposits(merchant, of_chain, of_token); -- claims that were made meanwhile
  select coalesce(sum(h.amount), 0) into holds from app.holding h where h.chain = of_chain and h.address = of_address and h.token = of_token;
  with there as (
    select d.id, sum(d.amount) over (order by d.finalisation desc, d.seq desc) as with_newer from app.deposit d
    where d.chain = of_chain and d.token = of_token and d.address = of_address and d.status = 'final' and d.credited
  ), held as (
    update app.deposit d set held_back = true, released = coalesce(d.released, d.finalisation)
    from there t where d.id = t.id and t.with_newer <= holds and not d.held_back
      and not exists (select from app.payout p where p.id = d.settlement_id and p.status = 'completed')
    returning d.amount, d.settlement_id
  )
  insert into app.balance_delta (merchant_id, chain, token, amount, deposit_count, held_back, held_back_count)
  select merchant, of_chain, of_token, 0, 0, sum(amount), count(*) from held where settlement_id is null having count(*) > 0;
  perform app.wake_payout(p.id) from app.payout p
  where p.merchant_id = merchant and p.chain = of_chain and p.token = of_token and p.status in ('pending', 'sweeping', 'swept') order by p.id;
  return true;
end $function$;

-- Books the final payment of a payout that had failed before: the merchant has the money and, since the release, the balance, too.
CREATE OR REPLACE FUNCTION app.book_payment_of_failed_payout(s app.outgoing_payment)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
begin
  perform app.post_loss(s, s.amount);
  perform app.note_booked(s, s.txid, true, s.amount, 0);
end $function$;

-- Books what is noted of a chain and final at this height: second payments, and the fees of what failed or was cancelled. False if there was none.
CREATE OR REPLACE FUNCTION app.book_second_payments(of_chain text, final_height integer)
 RETURNS boolean
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
 SET plan_cache_mode TO 'force_custom_plan'
AS $function$
declare
  found_final record;
  booked boolean := false;
begin
  for found_final in
    select n.txid, x as payment, x.outcome, f.fee, f.pays, case when f.pays then j.amount else 0 end as moved,
      row_number() over (partition by n.outgoing_payment_id, f.pays order by f.block_height, n.txid) as number
    from app.second_payment n join app.outgoing_payment x on x.id = n.outgoing_payment_id
    cross join lateral (select a.seq, a.block_height, a.fee, a.success and a.kind <> 'cancel' as pays from app.attempt_fate a
      where a.chain = n.chain and a.txid = n.txid and a.block_height <= final_height limit 1) f
    join custody.journal j on j.stream = n.chain and j.seq = f.seq
    where n.chain = of_chain and n.booked_at is null
    order by f.block_height, n.txid
  loop
    continue when found_final.pays and found_final.outcome = 'done' and found_final.number = 1
      and not exists (select from chain.confirmed_tx i where i.chain = of_chain and i.txid = (found_final.payment).txid
        and i.block_height <= final_height);
    perform app.lock_treasury(of_chain);
    perform app.post_second_transaction(found_final.payment, found_final.txid, found_final.pays, found_final.moved, found_final.fee);
    booked := true;
  end loop;
  return booked;
end $function$;

-- Gives up a sweep, a withdrawal, a fund or a defund that is not final: a transaction that pays nobody uses up its nonce, or its outputs.
CREATE OR REPLACE FUNCTION app.cancel_outgoing_payment(of_outgoing_payment uuid)
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  update app.outgoing_payment s set cancelling = true, next_step_at = clock_timestamp()
  where s.id = of_outgoing_payment and s.status <> 'final' and s.kind in ('sweep', 'withdrawal', 'fund', 'defund')
$function$;

-- Cancels a payment request that is awaiting.
CREATE OR REPLACE FUNCTION app.cancel_payment_request(of_merchant uuid, of_external_id text)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare r app.payment_request;
begin
  select * into r from app.payment_request p where p.merchant_id = of_merchant and p.external_id = app.request_ref(of_merchant, of_external_id) for no key update;
  if r.id is null then
    raise exception 'there is no payment request with this id' using errcode = 'SL404', detail = 'payment_request';
  elsif r.status = 'cancelled' then
    return;
  elsif r.status <> 'awaiting' or r.expires_at <= clock_timestamp() then
    raise exception 'only a request that is awaiting can be cancelled; this one is %', case r.status when 'awaiting' then 'expired' else r.status end
      using errcode = 'SL422';
  end if;
  update app.payment_request p set cancelled_at = clock_timestamp() where p.id = r.id;
  perform app.refresh_payment(r.id);
end $function$;

-- Cancels a payout for its merchant, until its payment has begun.
CREATE OR REPLACE FUNCTION app.cancel_payout(of_merchant uuid, of_payout uuid)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare p app.payout;
begin
  select * into p from app.payout o where o.id = of_payout and o.merchant_id = of_merchant for update;
  if p.id is null then raise exception 'there is no payout with this id' using errcode = 'SL404', detail = 'payout'; end if;
  if p.status not in ('pending', 'sweeping', 'swept') then
    raise exception 'the payout is % and can no longer be cancelled', p.status using errcode = 'SL422';
  end if;
  if not app.is_cancellable(p) then raise exception 'the payment of the payout has begun, so it can no longer be cancelled' using errcode = 'SL422'; end if;
  if p.status <> 'pending' then
    if app.why_halted(p.chain) is not null then -- an older copy of the database may not know what was signed
      raise exception 'payouts of this chain are stopped until the operator has checked it; the payout cannot be cancelled meanwhile' using errcode = 'SL422';
    end if;
    perform from app.merchant m where m.id = of_merchant for no key update; -- one at a time, for the count
    perform app.limit_cancels(of_merchant);
  end if;
  if not app.fail_payout(p.id, 'cancelled', 'cancelled by the merchant') then
    raise exception 'a transaction that was signed may still pay it, so it can no longer be cancelled' using errcode = 'SL422';
  end if;
  update app.payout o set cancelled_by_merchant = true where o.id = p.id;
end $function$;

-- An operator's decision to cancel a payout, even if its chain is halted. Returns failed, or cancelling if a payment is under way and its cancel has to become final first.
CREATE OR REPLACE FUNCTION app.cancel_payout_by_operator(of_payout uuid)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare p app.payout;
begin
  select * into p from app.payout o where o.id = of_payout for update;
  if p.id is null then raise exception 'there is no payout with this id' using errcode = 'SL404', detail = 'payout'; end if;
  if p.status in ('completed', 'failed') then raise exception 'the payout is % already', p.status using errcode = 'SL422'; end if;
  perform app.decide_payment(p.id, 'cancel');
  if app.fail_payout(p.id, 'cancelled', 'cancelled by the operator') then return 'failed'; end if;
  update app.outgoing_payment s set cancelling = true, next_step_at = clock_timestamp() where s.payout_id = p.id and s.kind = 'payout' and s.status <> 'final';
  perform app.wake_outgoing_payments(p.chain);
  return 'cancelling';
end $function$;

-- Heights of each chain and how old they are, its last reorganisation, what it waits for, deposits that are pending or unattributed, and open incidents.
CREATE OR REPLACE FUNCTION app.chain_metrics()
 RETURNS TABLE(metric text, labels json, value double precision)
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
begin
  return query
    select m.metric, m.labels, m.value from chain.cursor c full join chain.configured g using (chain)
    cross join lateral (select json_build_object('chain', chain) as labels) plain cross join lateral (values
      ('sluice_chain_head_height', plain.labels, c.head_height::double precision),
      ('sluice_chain_final_height', plain.labels, c.final_height::double precision),
      ('sluice_chain_head_age_seconds', plain.labels, extract(epoch from clock_timestamp() - coalesce(c.head_time, g.configured_at))),
      ('sluice_chain_head_moved_age_seconds', plain.labels, extract(epoch from clock_timestamp() - coalesce(c.head_moved_at, g.configured_at))),
      ('sluice_chain_final_moved_age_seconds', plain.labels, extract(epoch from clock_timestamp() - coalesce(c.final_moved_at, g.configured_at))),
      ('sluice_chain_last_reorg_depth_blocks', plain.labels, c.last_reorg_depth::double precision),
      ('sluice_chain_last_reorg_age_seconds', plain.labels, extract(epoch from clock_timestamp() - c.last_reorg_at)),
      ('sluice_chain_halted', plain.labels, (c.halted_at is not null)::int::double precision),
      ('sluice_chain_waiting_seconds', json_build_object('chain', chain, 'reason', g.waiting_reason),
        extract(epoch from clock_timestamp() - g.waiting_since))) m (metric, labels, value)
    where m.value is not null
    union all
    select 'sluice_deposits_pending', json_build_object('chain', c.chain), n.count from chain.cursor c
    cross join lateral (select count(*) from app.deposit d where d.chain = c.chain and d.status = 'pending') n
    union all
    select 'sluice_unattributed_deposits', json_build_object('chain', c.chain), n.count from chain.cursor c
    cross join lateral (select count(*) from app.deposit d
      where d.chain = c.chain and d.status = 'final' and not d.credited and d.merchant_id is not null
        and not exists (select from app.unattributed_decision u where u.deposit_id = d.id) and not app.is_dismissed(d)) n
    union all
    select 'sluice_incidents_open', json_build_object('chain', coalesce(c.chain, 'none')), count(i.id)
    from (select chain from chain.cursor union all select null) c
    left join app.incident i on i.chain is not distinct from c.chain and i.resolved_at is null group by c.chain;
end $function$;

-- Trigger: refuses a change of a payout that is not allowed. A change of status clears what it waited for, notes its time, and sets when the next step is due.
CREATE OR REPLACE FUNCTION app.check_payout_change()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
begin
  if (new.id, new.merchant_id, new.chain, new.token, new.gross, new.fee, new.net, new.address)
    is distinct from (old.id, old.merchant_id, old.chain, old.token, old.gross, old.fee, old.net, old.address)
    or (old.status <> new.status and (old.status, new.status) not in (
      ('pending', 'sweeping'), ('sweeping', 'swept'), ('swept', 'paying'), ('paying', 'completed'),
      ('pending', 'failed'), ('sweeping', 'failed'), ('swept', 'failed'), ('paying', 'failed'))) then
    raise exception 'payout %: % to % is not allowed', old.id, old.status, new.status using errcode = 'P0003';
  end if;
  if old.status <> new.status then
    new.waiting_reason := null;
    new.waiting_detail := null;
    new.waiting_since := null;
    new.next_step_at := case when new.status not in ('paying', 'completed', 'failed') then clock_timestamp() end; -- paying: its outgoing payment continues
    new.sweeping_at := case new.status when 'sweeping' then clock_timestamp() else old.sweeping_at end;
    new.swept_at := case new.status when 'swept' then clock_timestamp() else old.swept_at end;
    new.paying_at := case new.status when 'paying' then clock_timestamp() else old.paying_at end;
    new.finished_at := case when new.status in ('completed', 'failed') then clock_timestamp() end;
  end if;
  return new;
end $function$;

-- Raises SL422 if no endpoint can have this URL, or subscribe to these types of events.
CREATE OR REPLACE FUNCTION app.check_webhook(url text, event_types text[])
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
begin
  if url !~* '^https?://[^/?#@[:space:][:cntrl:]\\]+([/?#][^[:space:][:cntrl:]\\]*)?$' or length(url) > 2048 then
    raise exception 'the URL must be http or https, with no user name in it, and at most 2048 characters' using errcode = 'SL422';
  end if;
  if event_types = '{}' or not event_types <@ app.event_types() then
    raise exception 'event types are %', array_to_string(app.event_types(), ', ') using errcode = 'SL422';
  end if;
end $function$;

-- The free outputs of the deposits that a payout claimed, with their amounts in base units, the largest first: what it spends with sweep_first.
CREATE OR REPLACE FUNCTION app.claimed_outputs(of_payout uuid, most integer)
 RETURNS TABLE(outpoint text, amount numeric)
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select u.txid || ':' || u.vout, u.amount
  from app.deposit d join app.free_output u on u.chain = d.chain and u.txid = d.txid and u.vout = d.output_index
  where d.settlement_id = of_payout order by u.amount desc limit most
$function$;

-- Closes the incidents about transactions that expire whose reason is gone: the payment is not contested any more, or it is known what became of the transaction.
CREATE OR REPLACE FUNCTION app.close_expiry_incidents(of_chain text)
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'pg_catalog'
 SET plan_cache_mode TO 'force_custom_plan'
AS $function$
  update app.incident i set resolved_at = clock_timestamp(), resolution = 'healed'
  where i.resolved_at is null and i.subject like of_chain || ':%' and (
    i.kind = 'contested_payment' and not exists (select from app.contested_payment c where c.chain = of_chain and c.subject_id = (i.details ->> 'payment')::uuid)
    or i.kind = 'unproven_expiry' and not exists (select from app.attempt_fate f where f.chain = of_chain and f.txid = i.details ->> 'txid' and f.fate = 'open'))
$function$;

-- What an address holds of the token of a sweep for whom the sweep is: its merchant, or whoever gets a return. Its network fee is part of it where the address pays for its own coins.
CREATE OR REPLACE FUNCTION app.coins_to_sweep(of_payment uuid)
 RETURNS numeric
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select coalesce(r.amount, h.amount, 0) from app.outgoing_payment s
  left join app.unattributed_decision r on r.sweep_id = s.id
  left join app.holding h on h.chain = s.chain and h.address = s.source and h.token = s.token
  where s.id = of_payment
$function$;

-- The part of the final, credited money on an address that is not held back, in base units. As long as there is some, the address may be swept, and custody signs that (at fees that are worth it).
CREATE OR REPLACE FUNCTION app.collectable_amount(of_chain text, of_address text, of_token text)
 RETURNS numeric
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select coalesce((select h.amount from app.holding h where h.chain = of_chain and h.address = of_address and h.token = of_token), 0)
    - coalesce((select sum(d.amount) from app.deposit d
      where d.held_back and d.chain = of_chain and d.token = of_token and d.address = of_address), 0)
$function$;

-- How long ago the oldest comparison is: every address that was handed out before that has been compared with the chain since.
CREATE OR REPLACE FUNCTION app.comparison_age(of_chain text)
 RETURNS interval
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select clock_timestamp() - coalesce((select coalesce(c.since, c.created_at) from app.comparison c where c.chain = of_chain),
    (select min(m.applied_at) from public.sluice_migration m))
$function$;

-- The age of the oldest comparison of an address with each chain.
CREATE OR REPLACE FUNCTION app.comparison_metrics()
 RETURNS TABLE(metric text, labels json, value double precision)
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select 'sluice_audit_addresses_age_seconds', json_build_object('chain', c.chain), extract(epoch from app.comparison_age(c.chain)) from chain.cursor c
$function$;

-- How many blocks confirm this height, its own included; 0 if the height is null. Null for a chain that was never followed.
CREATE OR REPLACE FUNCTION app.confirmations(of_chain text, of_height integer)
 RETURNS integer
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select case when of_height is null then 0 else greatest(0, c.head_height - of_height + 1) end from chain.cursor c where c.chain = of_chain
$function$;

-- The contract of a token, as the indexer writes it while the token does not count; null for a native coin.
CREATE OR REPLACE FUNCTION app.contract_of(of_chain text, of_token text)
 RETURNS text
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select coalesce((select k.contract from app.token k where k.chain = of_chain and k.token = of_token),
    (select nullif(t ->> 'contract', '') from app.chain c cross join jsonb_array_elements(c.assets) t where c.chain = of_chain and t ->> 'token' = of_token))
$function$;

-- How long nothing new of a chain could be written, because its servers contradict themselves.
CREATE OR REPLACE FUNCTION app.contradiction_metrics()
 RETURNS TABLE(metric text, labels json, value double precision)
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select 'sluice_chain_contradicted_seconds', json_build_object('chain', s.chain, 'txid', coalesce(s.txid, 'none')),
    extract(epoch from clock_timestamp() - s.since)
  from chain.standing_contradiction s
$function$;

-- Replicas, the archive of the write-ahead log, and the age of the last backup and the last drill.
CREATE OR REPLACE FUNCTION app.copy_metrics()
 RETURNS TABLE(metric text, labels json, value double precision)
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select m.metric, json_build_object('slot', r.slot), m.value from app.replica r
  cross join lateral (values ('sluice_replica_connected', r.connected::int::double precision), ('sluice_replica_behind_bytes', r.behind_bytes)) m (metric, value)
  where m.value is not null
  union all
  select m.metric, '{}', m.value from pg_stat_archiver a cross join lateral (values
    ('sluice_wal_archive_failing', coalesce(a.last_failed_time > coalesce(a.last_archived_time, '-infinity'), false)::int::double precision),
    ('sluice_wal_archive_age_seconds', extract(epoch from clock_timestamp() - coalesce(a.last_archived_time, a.stats_reset)))) m (metric, value)
  where current_setting('archive_mode') <> 'off'
  union all
  select 'sluice_backup_age_seconds', '{}', extract(epoch from clock_timestamp() - max(b.finished_at)) from app.backup_run b
  where b.kind = 'backup' having max(b.finished_at) is not null
  union all
  select 'sluice_drill_age_seconds', '{}', extract(epoch from clock_timestamp() - max(b.finished_at)) from app.backup_run b
  where b.kind = 'drill' and b.error is null having max(b.finished_at) is not null
  union all
  (select 'sluice_drill_failed', '{}', (b.error is not null)::int from app.backup_run b where b.kind = 'drill' order by b.id desc limit 1)
$function$;

-- Stores the SHA-256 of a new key (sk_ and 43 base64url characters, the prefix included), its purpose, and what it may do; returns the id of the key.
CREATE OR REPLACE FUNCTION app.create_api_key(of_merchant uuid, secret_hash bytea, label text DEFAULT NULL::text, scopes text[] DEFAULT '{read,users,payouts,payments,webhooks}'::text[])
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
  if char_length(label) not between 1 and 100 then
    raise exception 'a label has 1 to 100 characters' using errcode = 'SL422';
  end if;
  perform app.require_clear_name('the label', label);
  insert into app.api_key as k (merchant_id, secret_hash, label, scopes)
  values (of_merchant, create_api_key.secret_hash, create_api_key.label, create_api_key.scopes)
  returning k.id into key;
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
  perform app.require_clear_name('the name', name);
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

-- Claims the balance of a merchant's chain and token for a payout; returns the body of the response. The same key gives the same response.
CREATE OR REPLACE FUNCTION app.create_payout(of_merchant uuid, of_chain text, of_token text, of_sweep_first boolean, of_key text, of_request bytea)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
 SET plan_cache_mode TO 'force_custom_plan'
AS $function$
declare
  duplicate app.idempotency_key;
  asset app.asset;
  destination text;
  rate int;
  is_enabled boolean;
  at record;
  kept text;
  adjusted numeric;
  p app.payout;
  reply text;
begin
  if of_key is not null then
    insert into app.idempotency_key (merchant_id, key, request_hash) values (of_merchant, of_key, of_request) on conflict do nothing;
    if not found then
      select * into duplicate from app.idempotency_key k where k.merchant_id = of_merchant and k.key = of_key;
      if duplicate.request_hash <> of_request then
        raise exception 'this Idempotency-Key was used with another request' using errcode = 'SLIDK';
      end if;
      return duplicate.body;
    end if;
  end if;
  select m.enabled into is_enabled from app.merchant_chain m where m.merchant_id = of_merchant and m.chain = of_chain;
  select * into asset from app.asset a where a.chain = of_chain and a.token = of_token;
  if asset.chain is null and exists (select from app.chain c where c.chain = of_chain) then
    raise exception 'there is no % on %', of_token, of_chain using errcode = 'SLTOK';
  end if;
  if asset.chain is null or is_enabled is null then raise exception 'not enabled for this account: %', of_chain using errcode = 'SLCHN'; end if;
  perform app.lock_pair(of_merchant, of_chain, of_token);

  select coalesce(b.amount, 0) - coalesce(b.held_back, 0) as gross, coalesce(b.held_back, 0) as held_back,
    coalesce(b.deposit_count, 0) - coalesce(b.held_back_count, 0) as deposit_count, c.finalisation as cutoff into at
  from (select) one left join app.balance_now b on b.merchant_id = of_merchant and b.chain = of_chain and b.token = of_token
  left join chain.cursor c on c.chain = of_chain;
  if at.gross = 0 and at.held_back = 0 and not is_enabled then raise exception 'not enabled for this account: %', of_chain using errcode = 'SLCHN'; end if;
  perform app.refuse_payout('chain_stopped', 'payouts of ' || of_chain || ' are stopped: ' || why) from app.why_halted(of_chain) why where why is not null;
  select a.address into destination from app.payout_address a where a.merchant_id = of_merchant and a.chain = of_chain;
  if destination is null then perform app.refuse_payout('no_payout_address', 'no payout address is registered for ' || of_chain); end if;
  perform app.refuse_payout('own_address', 'the payout address belongs to this service; register one of your own')
  from custody.address o where o.address = destination;
  kept := app.why_held_back(of_merchant, of_chain, of_token, at.held_back);
  if at.gross <= 0 then
    perform app.refuse_payout('nothing_to_pay_out', case when at.gross = 0 then 'there is nothing to pay out' else 'the balance is below zero' end
      || coalesce('; ' || kept, ''));
  end if;

  select m.fee_bps into rate from app.merchant m where m.id = of_merchant;
  if at.gross - div(at.gross * rate, 10000) < asset.min_payout then
    perform app.refuse_payout('below_smallest_payout', case when kept is null then '' else 'without what is held back, ' end
      || 'the balance is below the smallest payout (' || app.decimal(asset.min_payout, asset.decimals) || ' ' || of_token || ')' || coalesce('; ' || kept, ''));
  end if;
  insert into app.payout (merchant_id, chain, token, gross, fee_bps, fee, net, address, sweep_first)
  values (of_merchant, of_chain, of_token, at.gross, rate, div(at.gross * rate, 10000), at.gross - div(at.gross * rate, 10000), destination,
    coalesce(of_sweep_first, false))
  returning * into p;
  with claimed as (
    update app.adjustment a set settlement_id = p.id
    where a.merchant_id = of_merchant and a.chain = of_chain and a.token = of_token and a.settlement_id is null returning a.amount
  )
  select coalesce(sum(amount), 0) into adjusted from claimed;
  insert into app.claim (kind, payout_id, merchant_id, chain, token, cutoff, deposit_count, amount)
  values ('claim', p.id, of_merchant, of_chain, of_token, at.cutoff, at.deposit_count, at.gross - adjusted);
  insert into app.balance_delta (merchant_id, chain, token, amount, deposit_count)
  values (of_merchant, of_chain, of_token, -at.gross, -at.deposit_count);
  perform app.post('claim', p.id::text, of_chain, jsonb_build_array(
    jsonb_build_object('account', 'merchant', 'token', of_token, 'merchant_id', of_merchant, 'amount', p.gross),
    jsonb_build_object('account', 'payout', 'token', of_token, 'merchant_id', of_merchant, 'amount', -p.gross)));
  if app.allocate_deposits(of_merchant, of_chain, of_token, 100) then perform app.wake_allocation(p); end if;
  perform app.wake_payout(p.id);

  select row_to_json(r) into reply from (select app.public_id('pay', p.id) as id, p.status,
    app.decimal(p.gross, asset.decimals) as gross, app.decimal(p.fee, asset.decimals) as fee, app.decimal(p.net, asset.decimals) as net,
    p.txid) r;
  update app.idempotency_key k set payout_id = p.id, body = reply where k.merchant_id = of_merchant and k.key = of_key;
  return reply;
end $function$;

-- Makes a webhook endpoint; returns its id, and its secret, which is shown here and never again. event_types null: the four of the contract.
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

-- The body of the response to the call that made a payment request.
CREATE OR REPLACE FUNCTION app.created_payment_request(of_request uuid)
 RETURNS app.payment_response
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select row_to_json(b)::text, r.chain, r.token, w.address, r.amount::text
  from app.payment_request r
  join app.asset a on a.chain = r.chain and a.token = r.token
  join app.address w on w.payment_request_id = r.id and w.chain = r.chain
  cross join lateral (
    select r.external_id, a.name as currency, w.address, app.decimal(r.amount, a.decimals) as amount,
      app.decimal(r.tolerance, a.decimals) as tolerance, app.iso(r.expires_at) as expires_at, r.metadata, r.return_url, r.page_token
  ) b
  where r.id = of_request
$function$;

-- Makes unattributed value a final deposit of the merchant that has the address, and notifies the merchant at once; from then on it is a deposit like any other.
CREATE OR REPLACE FUNCTION app.credit_unattributed(of_deposit uuid)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
declare
  d app.deposit := app.lock_unattributed(of_deposit);
  r app.unattributed_decision;
  number bigint;
begin
  select * into r from app.unattributed_decision u where u.deposit_id = d.id;
  if app.return_is_under_way(r) then
    raise exception '% is being returned, or was returned; it cannot be credited', app.public_id('dep', d.id) using errcode = 'SL422';
  elsif r.amount < d.amount then
    raise exception 'a return of % failed and cost its address % base units in network fees; it can only be returned',
      app.public_id('dep', d.id), d.amount - r.amount using errcode = 'SL422';
  end if;
  update chain.cursor c set finalisation = c.finalisation + 1 where c.chain = d.chain returning c.finalisation into number;
  perform set_config('app.decided_by_operator', 'on', true);
  update app.deposit o set credited = true, version = o.version + 1, finalisation = number, 
    held_back = coalesce(o.amount < (select a.sweep_min from app.asset a where a.chain = o.chain and a.token = o.token), false)
      or app.is_blocked(o.chain, o.token, o.address)
  where o.id = d.id returning o.* into d; -- its first event
  perform set_config('app.decided_by_operator', '', true);
  insert into app.unattributed_decision as u (deposit_id, decision, amount) values (d.id, 'credit', d.amount)
  on conflict (deposit_id) do update set decision = 'credit', sweep_id = null, destination = null, waiting_reason = null,
    waiting_detail = null, waiting_since = null, decided_at = clock_timestamp();
  insert into app.balance_delta (merchant_id, chain, token, amount, deposit_count, held_back, held_back_count)
  values (d.merchant_id, d.chain, d.token, d.amount, 1, case when d.held_back then d.amount else 0 end, case when d.held_back then 1 else 0 end);
  if app.uses_outputs(d.chain) then
    insert into app.output (chain, txid, vout, address, merchant_id, amount, mature_at)
    values (d.chain, d.txid, d.output_index, d.address, d.merchant_id, d.amount, app.mature_at(d));
  end if;
  perform app.add_holding(d.chain, d.address, d.token, d.merchant_id, d.amount);
  perform app.post('deposit', d.id::text, d.chain, jsonb_build_array(
    jsonb_build_object('account', 'address', 'token', d.token, 'address', d.address, 'amount', -d.amount),
    jsonb_build_object('account', 'unattributed', 'token', d.token, 'amount', d.amount),
    jsonb_build_object('account', 'address', 'token', d.token, 'merchant_id', d.merchant_id, 'address', d.address, 'amount', d.amount),
    jsonb_build_object('account', 'merchant', 'token', d.token, 'merchant_id', d.merchant_id, 'amount', -d.amount)));
  perform app.release_held_back(d.chain, array[d.address], array[d.token], number);
  perform app.emit_deposit_events(array[d.id], array['deposit.confirmed'], array[d.version], array[d.token], array[d.amount]);
end $function$;

-- An operator's decision that no block holds a transaction which is past its end (by the chain and by the clock); refused for a contested payment.
CREATE OR REPLACE FUNCTION app.decide_absent(of_incident app.incident)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
declare
  at chain.cursor;
  signed custody.journal;
begin
  select * into at from chain.cursor c where c.chain = split_part(of_incident.subject, ':', 1);
  select * into signed from custody.journal j where j.stream = at.chain and j.txid = of_incident.details ->> 'txid';
  if at.halted_at is not null then
    raise exception 'incident %: % is halted, so its final block may be wrong; resolve that first', of_incident.id, at.chain using errcode = 'P0003';
  end if;
  if not coalesce(chain.is_past_end(signed), false) or exists (select from chain.confirmed_tx i where i.chain = signed.stream and i.txid = signed.txid) then
    raise exception 'incident %: a block may still hold the transaction, or holds it', of_incident.id using errcode = 'P0003';
  end if;
  if exists (select from app.contested_payment c where c.chain = signed.stream and c.subject_id = signed.subject_id) then
    raise exception 'incident %: another transaction of the same payment may be in a block; wait until one is final', of_incident.id using errcode = 'P0003';
  end if;
  perform chain.lapse(signed, at, jsonb_build_object('decided', 'absent', 'incident', of_incident.id));
end $function$;

-- Notes for custody what an operator decided about a payout's payment that is not final: replace or cancel.
CREATE OR REPLACE FUNCTION app.decide_payment(of_payout uuid, what text)
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'pg_catalog'
AS $function$
  insert into custody.decision as d (outgoing_payment_id, decision)
  select s.id, what from app.outgoing_payment s where s.payout_id = of_payout and s.kind = 'payout' and s.status <> 'final'
  on conflict (outgoing_payment_id) do update set decision = excluded.decision, decided_at = excluded.decided_at
$function$;

-- Decides the status of payment requests that time may change: those that have expired, and those whose money is in no block for too long. Returns how many. Fewer than batch: no more are due.
CREATE OR REPLACE FUNCTION app.decide_payment_requests(batch integer DEFAULT 100)
 RETURNS integer
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
 SET plan_cache_mode TO 'force_custom_plan'
AS $function$
declare
  due uuid;
  decided int := 0;
  now timestamptz := clock_timestamp(); -- a constant for the index
begin
  for due in
    select p.id from app.payment_request p where p.decide_at <= now order by p.decide_at limit batch for no key update skip locked
  loop
    perform app.refresh_payment(due);
    decided := decided + 1;
  end loop;
  return decided;
end $function$;

-- An operator's decision about the second payments of an incident: loss leaves them with the operator; debt has the merchant of their payout owe what they paid.
CREATE OR REPLACE FUNCTION app.decide_second_payment(of_incident app.incident, decision text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
declare
  p app.payout;
  second app.second_payment;
begin
  if decision = 'loss' then return; end if;
  select o.* into p from app.payout o join app.outgoing_payment s on s.payout_id = o.id and s.kind = 'payout'
  where s.id = of_incident.subject::uuid for update of o;
  if p.id is null then
    raise exception 'incident %: only the second payment of a payout can be a debt: nobody owes what a sweep or a withdrawal moved; use loss', of_incident.id
      using errcode = 'P0003';
  end if;
  perform app.lock_treasury(p.chain);
  perform app.lock_pair(p.merchant_id, p.chain, p.token);
  for second in select * from app.second_payment n where n.incident_id = of_incident.id and n.amount > 0 loop
    insert into app.adjustment (merchant_id, chain, token, amount, reason) values (p.merchant_id, p.chain, p.token, -second.amount, 'paid_after_all');
    insert into app.balance_delta (merchant_id, chain, token, amount, deposit_count) values (p.merchant_id, p.chain, p.token, -second.amount, 0);
    perform app.add_share(p.chain, p.token, p.merchant_id, -second.amount, 0);
    perform app.post('claim', p.id::text, p.chain, jsonb_build_array(
      jsonb_build_object('account', 'merchant', 'token', p.token, 'merchant_id', p.merchant_id, 'amount', second.amount),
      jsonb_build_object('account', 'payout', 'token', p.token, 'merchant_id', p.merchant_id, 'amount', -second.amount)));
    perform app.post('payout', p.id::text, p.chain, jsonb_build_array(
      jsonb_build_object('account', 'payout', 'token', p.token, 'merchant_id', p.merchant_id, 'amount', second.amount),
      jsonb_build_object('account', 'operator', 'token', p.token, 'amount', -second.amount)));
  end loop;
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

-- The end of the last week that has a partition; later deliveries go to the default partition.
CREATE OR REPLACE FUNCTION app.delivery_partitions_end()
 RETURNS timestamp with time zone
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select to_timestamp(max(('x' || left(replace(bound.upper, '-', ''), 12))::bit(48)::bigint) / 1000.0)
  from pg_inherits i join pg_class c on c.oid = i.inhrelid
  cross join substring(pg_get_expr(c.relpartbound, c.oid) from $re$ TO \('([0-9a-f-]{36})'\)$re$) bound (upper)
  where i.inhparent = 'app.delivery'::regclass
$function$;

-- Number of blocks from a deposit's own to the newest, both included; 0 if it is in none, or reorged.
CREATE OR REPLACE FUNCTION app.deposit_confirmations(status text, block_height integer, head_height integer)
 RETURNS integer
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN CASE status WHEN 'reorged'::text THEN 0 ELSE GREATEST(((head_height - block_height) + 1), 0) END;

-- The id of a deposit, computed from what it is: the same whenever and wherever the chain is read.
CREATE OR REPLACE FUNCTION app.deposit_id(chain text, txid text, output_index integer, address text, token text)
 RETURNS uuid
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE STRICT
 SET search_path TO 'pg_catalog'
AS $function$
  -- A UUID of version 8, which is for custom ids: a hash of what tells the deposit from every other one.
  select encode(set_byte(set_byte(h, 6, get_byte(h, 6) & 15 | 128), 8, get_byte(h, 8) & 63 | 128), 'hex')::uuid
  from substr(sha256(convert_to(concat_ws(' ', chain, txid, output_index, address, token), 'UTF8')), 1, 16) h
$function$;

-- Disables a token that was added; returns the last block whose transfers are deposits.
CREATE OR REPLACE FUNCTION app.disable_token(of_chain text, of_token text)
 RETURNS integer
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
declare head int := (select c.head_height from chain.cursor c where c.chain = of_chain for update);
begin
  update app.token k set until_height = head, disabled_at = clock_timestamp()
  where k.chain = of_chain and k.token = of_token and k.until_height is null;
  if not found then raise exception 'there is no token % on % that was added and is not disabled', of_token, of_chain using errcode = 'P0002'; end if;
  return head;
end $function$;

-- Dismisses one unattributed deposit.
CREATE OR REPLACE FUNCTION app.dismiss_deposit(of_deposit uuid)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
declare d app.deposit;
begin
  select * into d from app.deposit o where o.id = of_deposit;
  if d.id is null then
    raise exception 'there is no deposit %; sluice unattributed list shows unattributed deposits', app.public_id('dep', of_deposit) using errcode = 'SL404';
  elsif d.credited then
    raise exception '% is credited to its merchant', app.public_id('dep', d.id) using errcode = 'SL422';
  end if;
  insert into app.dismissed (chain, deposit_id) values (d.chain, d.id) on conflict do nothing;
end $function$;

-- Dismisses all of a token that Sluice does not support, also what is still to come; returns how many deposits are there.
CREATE OR REPLACE FUNCTION app.dismiss_token(of_chain text, of_token text)
 RETURNS bigint
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
declare
  wanted text := app.stored_token(of_chain, of_token);
  count bigint := (select count(*) from app.deposit d where d.chain = of_chain and d.token = wanted and not d.credited);
begin
  if exists (select from app.asset a where a.chain = of_chain and a.token = upper(of_token)) then
    raise exception 'Sluice supports % on %: its deposits are dismissed one by one', upper(of_token), of_chain using errcode = 'SL422';
  elsif count = 0 then
    raise exception 'no deposit of a token % arrived on %; sluice unattributed list shows what did', of_token, of_chain using errcode = 'SL422';
  end if;
  insert into app.dismissed (chain, token) values (of_chain, wanted) on conflict do nothing;
  return count;
end $function$;

-- Takes the oldest free address of a family from the pool for a merchant, for ever; returns it.
CREATE OR REPLACE FUNCTION app.draw_address(of_merchant uuid, of_family text)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
declare drawn text;
begin
  update custody.address p set taken_at = clock_timestamp(), merchant_id = of_merchant
  where p.address = (
    select f.address from custody.address f
    where f.family = of_family and f.purpose = 'deposit' and f.taken_at is null and f.retired_at is null
    order by f.derivation_index limit 1 for update skip locked)
  returning p.address into drawn;
  if drawn is null then raise exception 'no free % address in the pool', of_family using errcode = 'SL503'; end if;
  return drawn;
end $function$;

-- Drops the partitions of one week; returns what it did, in words, or null if something in it is pending.
CREATE OR REPLACE FUNCTION app.drop_delivery_week(suffix text, until timestamp with time zone)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
declare is_pending boolean;
begin
  lock table only app.delivery_attempt, only app.delivery in access exclusive mode; -- an earlier redelivery is seen, and no new one begins
  execute format('select exists (select from app.%I where status = ''pending'')', 'delivery' || suffix) into is_pending;
  if is_pending then return null; end if;
  execute format('drop table app.%I, app.%I', 'delivery_attempt' || suffix, 'delivery' || suffix);
  return format('dropped what is older than %s', to_char(until at time zone 'UTC', 'YYYY-MM-DD'));
end $function$;

-- For the worker: behind which address (match_key) the comparison with the chain continues now; null if it is not due. Safe to call at any time.
CREATE OR REPLACE FUNCTION app.due_comparison(of_chain text)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
begin
  insert into app.comparison (chain) select c.chain from chain.cursor c where c.chain = of_chain on conflict do nothing;
  update app.comparison c set began_at = clock_timestamp(), position = '', height = null, compared = 0, unread = null
  where c.chain = of_chain and c.position is null and c.began_at < clock_timestamp() - interval '1 day';
  return (select c.position from app.comparison c where c.chain = of_chain and c.next_at <= clock_timestamp());
end $function$;

-- Inserts events of users' deposits in the order given, with their deliveries, and the job that sends them. The arrays are parallel; token and amount are those of the event.
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
      d.id, d.merchant_id, d.user_id, u.external_ref, u.metadata, d.chain, d.txid
    from unnest(ids, types, versions, tokens, amounts) with ordinality as s (deposit_id, type, version, token, amount, n)
    join app.deposit d on d.id = s.deposit_id
    join app.user u on u.id = d.user_id
    join app.asset a on a.chain = d.chain and a.token = s.token
  ), event as (
    insert into app.event (id, merchant_id, type, subject_id, version, created_at, payload)
    select event_id, merchant_id, type, id, version, at, json_build_object(
      'type', type, 'id', app.public_id('evt', event_id), 'deposit_id', app.public_id('dep', id),
      'user', json_build_object('id', app.public_id('usr', user_id), 'external_ref', external_ref, 'metadata', metadata),
      'chain', chain, 'token', token, 'amount', app.decimal(amount, decimals), 'txid', txid, 'created_at', app.iso(at))
    from step order by n
  )
  insert into app.delivery (event_id, endpoint_id, status, next_attempt_at, finished_at)
  select s.event_id, w.id, case when w.disabled_at is null then 'pending' else 'failed' end,
    case when w.disabled_at is null then s.at end, case when w.disabled_at is not null then s.at end
  from step s join app.webhook_endpoint w on w.merchant_id = s.merchant_id and w.deleted_at is null and s.type = any(w.event_types)
  order by s.n;
  perform app.enqueue('sequence_events');
end $function$;

-- Adds the events of a change from what a payment request was to its new status, and to what is final now.
CREATE OR REPLACE FUNCTION app.emit_payment_event(was app.payment_request, now_status text, now_received numeric)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
declare
  r app.payment_request;
  kind text;
begin
  foreach kind in array array[
    case when now_status = was.status then null when was.status = 'paid' or now_status = 'awaiting' then 'reopened' else now_status end,
    case when now_received >= was.detected_from and (now_received - was.received >= was.detected_from or was.received < was.detected_from)
      and now_received > was.received and (now_status = 'detected' or (now_status, was.status) = ('underpaid', 'underpaid'))
      then 'partially_paid' end]
  loop
    continue when kind is null;
    update app.payment_request p set version = p.version + 1 where p.id = was.id returning * into r;
    perform app.add_payment_event(r, 'payment_request.' || kind);
  end loop;
end $function$;

-- Inserts the event of a payout that has ended, its deliveries, and the job that sends them.
CREATE OR REPLACE FUNCTION app.emit_payout_event(p app.payout, of_type text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
declare
  event uuid := uuidv7();
  at timestamptz := clock_timestamp();
begin
  perform app.add_event(event, p.merchant_id, of_type, p.id, 1, at, json_build_object(
    'type', of_type, 'id', app.public_id('evt', event), 'payout_id', app.public_id('pay', p.id), 'chain', p.chain, 'token', p.token,
    'gross', app.decimal(p.gross, a.decimals), 'fee', app.decimal(p.fee, a.decimals), 'net', app.decimal(p.net, a.decimals),
    'address', p.address, 'txid', p.txid,
    'error', case when p.error_code is not null then json_build_object('code', p.error_code, 'message', p.error_message) end,
    'created_at', app.iso(at)))
  from app.asset a where a.chain = p.chain and a.token = p.token;
end $function$;

-- Ends CPFP children whose parent can no longer be mined, because a final transaction conflicts with it.
CREATE OR REPLACE FUNCTION app.end_conflicted_cpfp(of_chain text, final_height integer)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
 SET plan_cache_mode TO 'force_custom_plan'
AS $function$
declare
  replaced record;
  s app.outgoing_payment;
begin
  for replaced in
    select distinct on (b.outgoing_payment_id) b.outgoing_payment_id, u.txid from app.cpfp b join app.outgoing_payment x on x.id = b.outgoing_payment_id
    join chain.unconfirmed u on u.chain = of_chain and u.txid <> b.txid and u.inputs && b.parent_inputs
    join chain.transfer t on t.id = u.id and t.block_height <= final_height
    where x.chain = of_chain and x.status <> 'final'
  loop
    perform app.lock_treasury(of_chain);
    update app.outgoing_payment x set status = 'final', txid = replaced.txid, outcome = 'conflicted', fee_paid = 0, final_at = clock_timestamp(),
      next_step_at = null, waiting_reason = null, waiting_detail = null, waiting_since = null
    where x.id = replaced.outgoing_payment_id returning * into s;
    perform app.post_network_fee(s, 0);
  end loop;
end $function$;

-- Takes a payout from sweeping to swept; one with sweep_first only once all its deposits are known and none of its sweeps is under way.
CREATE OR REPLACE FUNCTION app.end_sweeping(of_payout uuid)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
begin
  perform from app.payout p where p.id = of_payout for update;
  if app.is_to_sweep_first(of_payout) then return; end if;
  update app.payout p set status = 'swept' where p.id = of_payout and p.status = 'sweeping';
end $function$;

-- Ends an outgoing payment that is being cancelled, without a transaction. False where something signed may still pay it, it has a nonce, or its chain is halted.
CREATE OR REPLACE FUNCTION app.end_unsigned(of_outgoing_payment uuid)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare s app.outgoing_payment := app.lock_unsigned(of_outgoing_payment);
begin
  if s.id is null or not s.cancelling or s.nonce is not null then return false; end if;
  perform app.end_without_transaction(s, 'cancelled');
  return true;
end $function$;

-- Ends an outgoing payment that nothing signed can pay any more; code and message are those of its payout, if the outcome is expired.
CREATE OR REPLACE FUNCTION app.end_without_transaction(s app.outgoing_payment, of_outcome text, code text DEFAULT NULL::text, message text DEFAULT NULL::text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
begin
  update app.outgoing_payment x set status = 'final', outcome = of_outcome, fee_paid = 0, final_at = clock_timestamp(), next_step_at = null,
    waiting_reason = null, waiting_detail = null, waiting_since = null, first_input = null, -- which another payment may use
    failure = coalesce(x.failure, message)
  where x.id = s.id returning * into s;
  if app.uses_outputs(s.chain) then perform app.finish_outputs(s); end if;
  if s.fee_payer = app.treasury_address(s.chain) then perform app.reserve(s.chain, app.native_token(s.chain), -s.max_fee); end if;
  if s.from_gas then perform app.add_gas(s.chain, s.fee_payer, 0, -s.max_fee); end if;
  if s.kind = 'payout' then perform app.finish_payment(s, s.outcome, null, code, message);
  elsif s.kind = 'withdrawal' then perform app.finish_withdrawal(s, s.outcome);
  elsif s.kind = 'fund' then perform app.finish_fund(s, s.outcome);
  elsif s.kind = 'defund' then perform app.finish_defund(s, s.outcome, 0);
  end if;
  perform app.release_after_sweep(s);
  perform app.wake_payouts_after(array[s.id]);
end $function$;

-- Adds a job for graphile-worker, and replaces a waiting one with the same key; it becomes visible when the calling transaction commits.
CREATE OR REPLACE FUNCTION app.enqueue(task text, payload json DEFAULT '{}'::json, key text DEFAULT NULL::text)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
begin
  perform graphile_worker.add_job(task, payload, job_key := key);
end $function$;

-- The body of an event as webhooks and GET /v1/events show it: its payload and its sequence, as JSON.
CREATE OR REPLACE FUNCTION app.event_body(payload json, sequence bigint)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN ((("left"((payload)::text, '-1'::integer) || ', "sequence" : '::text) || (sequence)::text) || '}'::text);

-- The id of an event as webhooks and the API show it.
CREATE OR REPLACE FUNCTION app.event_id(id uuid, is_test boolean)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN app.public_id(CASE WHEN is_test THEN 'evt_test'::text ELSE 'evt'::text END, id);

-- All types of events.
CREATE OR REPLACE FUNCTION app.event_types()
 RETURNS text[]
 LANGUAGE sql
 IMMUTABLE
 SET search_path TO 'pg_catalog'
RETURN ARRAY['deposit.pending'::text, 'deposit.confirmed'::text, 'deposit.reorged'::text, 'payout.completed'::text, 'payout.failed'::text, 'payment_request.detected'::text, 'payment_request.partially_paid'::text, 'payment_request.paid'::text, 'payment_request.underpaid'::text, 'payment_request.expired'::text, 'payment_request.cancelled'::text, 'payment_request.reopened'::text, 'webhook_endpoint.disabled'::text];

-- The body of an example of an event of this type, without its sequence.
CREATE OR REPLACE FUNCTION app.example_event(event uuid, of_type text, at timestamp with time zone)
 RETURNS json
 LANGUAGE sql
 SET search_path TO 'pg_catalog'
AS $function$
  select case split_part(of_type, '.', 1) when 'deposit' then json_build_object(
    'type', of_type, 'id', app.event_id(event, true), 'deposit_id', app.public_id('dep', uuidv7()),
    'user', json_build_object('id', app.public_id('usr', uuidv7()), 'external_ref', 'test event, no user', 'metadata', json_build_object()),
    'chain', e.chain, 'token', 'USDC', 'amount', '25', 'txid', e.txid, 'created_at', app.iso(at), 'test', true)
  when 'payout' then json_build_object(
    'type', of_type, 'id', app.event_id(event, true), 'payout_id', app.public_id('pay', uuidv7()), 'chain', e.chain, 'token', 'USDC',
    'gross', '25', 'fee', '0.25', 'net', '24.75', 'address', e.address, 'txid', case of_type when 'payout.completed' then e.txid end,
    'error', case of_type when 'payout.failed' then
      json_build_object('code', 'address_not_whitelisted', 'message', 'the payout address was not whitelisted within 24 hours') end,
    'created_at', app.iso(at), 'test', true)
  when 'payment_request' then json_build_object(
    'type', of_type, 'id', app.event_id(event, true), 'external_id', 'test event, no request', 'currency', e.chain || '-USDC', 'address', e.address,
    'amount', '25', 'tolerance', '0', 'status', s.status, 'amount_received', s.received, 'amount_pending', case s.status when 'detected' then '15' else '0' end,
    'shortfall', case s.received when '25' then '0' when '10' then '15' else '25' end, 'late', false,
    'txid', case when s.received <> '0' then e.txid end, 'expires_at', app.iso(at), 'metadata', json_build_object(),
    'created_at', app.iso(at), 'test', true)
  else json_build_object(
    'type', of_type, 'id', app.event_id(event, true), 'webhook_endpoint_id', app.public_id('whe', uuidv7()), 'url', 'https://shop.example/test-event',
    'reason', 'gone', 'created_at', app.iso(at), 'test', true) end
  from (select min(c.chain) as chain, '0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060' as txid,
    '0x70997970C51812dc3A010C7d01b50e0d17dc79C8' as address from app.chain c where c.attempts_exclude_by = 'nonce') e
  left join (values ('detected', 'detected', '0'), ('partially_paid', 'detected', '10'), ('paid', 'paid', '25'), ('underpaid', 'underpaid', '10'),
    ('expired', 'expired', '0'), ('cancelled', 'cancelled', '0'), ('reopened', 'awaiting', '0')) s (type, status, received)
    on of_type = 'payment_request.' || s.type
$function$;

-- Ends an outgoing payment whose signed transactions have all expired, the last one at least this long ago; fails its payout with this code, and has the step of a return begin anew. False if one of its transactions may still be mined, it is being cancelled, or its chain is halted.
CREATE OR REPLACE FUNCTION app.expire_payment(of_outgoing_payment uuid, code text, message text, after_ms integer DEFAULT 0)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare s app.outgoing_payment := app.lock_unsigned(of_outgoing_payment);
begin
  if s.id is null or s.conflict_key is not null or s.cancelling
    or after_ms > 0 and not coalesce((select max(l.lapsed_at) from app.outgoing_attempt o join chain.lapse l on l.chain = o.chain and l.txid = o.txid
      where o.outgoing_payment_id = s.id) <= clock_timestamp() - after_ms * interval '1 millisecond', false) then
    return false;
  end if;
  perform app.end_without_transaction(s, 'expired', code, message);
  update app.unattributed_decision u set sweep_id = nullif(u.sweep_id, s.id), withdrawal_id = nullif(u.withdrawal_id, s.id)
  where u.decision = 'return' and s.id in (u.sweep_id, u.withdrawal_id);
  return true;
end $function$;

-- Notes why a chain could not be asked; the comparison is tried again.
CREATE OR REPLACE FUNCTION app.fail_comparison(of_chain text, why text)
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  update app.comparison c set error = why, next_at = clock_timestamp() + interval '1 minute' where c.chain = of_chain
$function$;

-- Fails a payout that is pending, sweeping or swept, and gives its balance back; false in any other status, and while a transaction that custody signed may still pay it.
CREATE OR REPLACE FUNCTION app.fail_payout(of_payout uuid, code text, message text)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare
  p app.payout;
  s app.outgoing_payment;
begin
  select * into p from app.payout o where o.id = of_payout and o.status in ('pending', 'sweeping', 'swept') for update;
  if p.id is null then return false; end if;
  -- Without a payment it has nothing in the treasury, and none begins while its row is locked: whoever cancels it, and leaves the transaction open,
  -- must not keep others from being paid.
  if not app.is_cancellable(p) then perform app.lock_treasury(p.chain); end if;
  select * into s from app.outgoing_payment x where x.payout_id = p.id and x.kind = 'payout' and x.status <> 'final' for update;
  -- Only now, with the lock: custody may have signed while this waited for it.
  if s.id is not null
    and exists (select from app.attempt_fate f where f.chain = p.chain and f.subject_id = p.id and f.fate <> 'dead') then
    return false;
  end if;
  if s.id is not null then
    update app.outgoing_payment x set cancelling = true, next_step_at = clock_timestamp() where x.id = s.id;
    perform app.unreserve_payment(p, s);
    perform app.wake_outgoing_payments(p.chain);
  end if;
  perform app.release_payout(p.id, code, message);
  return true;
end $function$;

-- Fails pending deliveries of endpoints that are disabled or deleted, at most batch of them; returns how many. Safe to run at any time and in several places.
CREATE OR REPLACE FUNCTION app.fail_undeliverable(batch integer DEFAULT 2000)
 RETURNS integer
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
 SET plan_cache_mode TO 'force_custom_plan'
AS $function$
declare
  ids uuid[];
  failed int;
begin
  select array_agg(d.id) into ids from (
    select d.id from app.webhook_endpoint w
    cross join lateral (
      select id from app.delivery where endpoint_id = w.id and status = 'pending' limit batch for update skip locked
    ) d
    where w.disabled_at is not null or w.deleted_at is not null
    limit batch
  ) d;
  update app.delivery d set status = 'failed', next_attempt_at = null, finished_at = clock_timestamp() where d.id = any(ids);
  get diagnostics failed = row_count;
  return failed;
end $function$;

-- The open incident of a token that takes a fee on transfers; null if there is none.
CREATE OR REPLACE FUNCTION app.fee_incident(of_chain text, of_token text)
 RETURNS bigint
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select i.id from app.incident i where i.kind = 'token_takes_fee' and i.subject = of_chain || ':' || of_token and i.resolved_at is null limit 1
$function$;

-- A way out of app.incident_kind with the numbers of incidents and their chain in its commands; of more than 20 it names the first 20, and says so.
CREATE OR REPLACE FUNCTION app.fill_way_out(way_out text, of_chain text, ids bigint[])
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
 SET search_path TO 'pg_catalog'
RETURN (replace(replace(way_out, '{id}'::text, array_to_string((ids)[:20], ' '::text)), '{chain}'::text, COALESCE(of_chain, ''::text)) || CASE WHEN ((cardinality(ids) > 20) AND (way_out ~~ '%{id}%'::text)) THEN ('. These are the first 20 of '::text || cardinality(ids)) ELSE ''::text END);

-- Finds and allocates the deposits of recovered payouts of a merchant, chain and token; if none are found, marks those that the gross covers.
CREATE OR REPLACE FUNCTION app.find_recovered_deposits(of_merchant uuid, of_chain text, of_token text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
 SET plan_cache_mode TO 'force_custom_plan'
AS $function$
declare at record;
begin
  perform from app.adjustment a where a.merchant_id = of_merchant and a.chain = of_chain and a.token = of_token
    and a.settlement_id is null and a.reason = 'payout_recovered' and a.amount < 0;
  if not found then return; end if;
  perform app.lock_pair(of_merchant, of_chain, of_token);
  perform pg_advisory_xact_lock(hashtextextended('allocate:' || of_merchant || ':' || of_chain || ':' || of_token, 0));
  perform from app.claim c where c.merchant_id = of_merchant and c.chain = of_chain and c.token = of_token and c.finished_at is null;
  if found then return; end if; -- what seems unclaimed may be claimed; the end of that allocation calls this again
  loop
    select r.payout_id, r.debt_id, t.number, t.height, t.with_held_back into at
    from app.open_recovered(of_merchant, of_chain, of_token) with ordinality r (payout_id, gross, debt_id, adjusted, n)
    join (
      select h.with_held_back, u.number, u.height, sum(sum(u.amount)) over (partition by h.with_held_back order by u.number, u.height) as total
      from unnest(array[false, true]) h (with_held_back)
      cross join lateral app.unclaimed_deposits(of_merchant, of_chain, of_token, h.with_held_back) u group by h.with_held_back, u.number, u.height
    ) t on t.total + r.adjusted = r.gross order by t.with_held_back, r.n limit 1;
    exit when at.payout_id is null;
    perform app.give_recovered_deposits(at.payout_id, at.debt_id, at.number, at.height, at.with_held_back);
  end loop;
  update app.deposit d set settled_before_restore = true
  from (
    select u.id, sum(u.amount) over (order by u.number, u.height) as total from app.unclaimed_deposits(of_merchant, of_chain, of_token, false) u
  ) o, (
    select sum(r.gross) - max(r.adjusted) as covered, max(uuid_extract_timestamp(r.payout_id)) as last_claim_at
    from app.open_recovered(of_merchant, of_chain, of_token) r
  ) r
  where d.id = o.id and not d.settled_before_restore and o.total <= r.covered and not exists (select from chain.transfer t
    where t.id = d.chain || ':' || d.txid || ':' || d.output_index and t.block_time > r.last_claim_at);
end $function$;

-- Stores what an audit found ([{"name", "claim", "count", "found"}, ...]), and opens, updates or closes the incidents that follow from it. error: what could not be checked, and why.
CREATE OR REPLACE FUNCTION app.finish_audit(of_run bigint, findings jsonb, error text)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
begin
  perform pg_advisory_xact_lock(hashtextextended('app.finish_audit', 0));
  insert into app.audit_finding (run_id, name, claim, count, found)
  select of_run, f.name, f.claim, f.count, f.found from jsonb_to_recordset(findings) as f (name text, claim text, count bigint, found jsonb);
  update app.audit_run r set finished_at = clock_timestamp(), error = finish_audit.error where r.id = of_run;
  perform app.tell_finding(f.name, f.claim, f.count, f.found) from app.audit_finding f where f.run_id = of_run order by f.name;
end $function$;

-- Posts what a final defund moved (in base units), and gives back what was reserved for it.
CREATE OR REPLACE FUNCTION app.finish_defund(s app.outgoing_payment, outcome text, moved numeric)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
begin
  perform app.add_gas(s.chain, s.source, 0, -s.amount);
  if outcome = 'done' then perform app.post_defund(s, moved); end if;
end $function$;

-- Posts a final fund, and gives back what was reserved for it.
CREATE OR REPLACE FUNCTION app.finish_fund(s app.outgoing_payment, outcome text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
begin
  perform app.reserve(s.chain, s.token, -s.amount);
  if outcome = 'done' then perform app.post_fund(s); end if;
end $function$;

-- Ends the outgoing payments of a chain that a transaction at or below this height decided, and posts what follows.
CREATE OR REPLACE FUNCTION app.finish_outgoing_payments(of_chain text, final_height integer)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
 SET plan_cache_mode TO 'force_custom_plan'
AS $function$
declare
  found_final record;
  s app.outgoing_payment;
  finished uuid[] := '{}';
  has_outputs boolean := app.uses_outputs(of_chain);
  expires boolean := exists (select from app.chain c where c.chain = of_chain and c.attempts_exclude_by = 'expiry');
begin
  perform from app.payout p where p.id in (
    select x.payout_id from app.outgoing_payment x
    cross join lateral (select * from app.outgoing_confirmed_tx n where n.outgoing_payment_id = x.id offset 0) i
    where x.chain = of_chain and x.status <> 'final' and i.block_height <= final_height
    union all
    select l.payout_id from app.outgoing_payment x
    cross join lateral (select * from app.outgoing_confirmed_tx n where n.outgoing_payment_id = x.id offset 0) i
    join app.payout_sweep l on l.outgoing_payment_id = x.id
    where x.chain = of_chain and x.status <> 'final' and i.block_height <= final_height
    union all
    select x.payout_id from app.outgoing_payment x join custody.journal j on j.stream = x.chain and j.subject_id = x.payout_id
    join chain.confirmed_tx i on i.chain = j.stream and i.txid = j.txid
    where expires and x.chain = of_chain and x.status <> 'final' and x.kind = 'payout' and i.block_height <= final_height)
  order by p.id for update;
  perform app.store_what_is_final(of_chain, final_height);
  for found_final in
    select distinct on (i.block_height, x.nonce, x.id) x.id, i.txid, o.amount as moved,
      case when o.txid is not null then i.fee when has_outputs then 0 else i.fee - coalesce(n.fee, 0) end as fee, case when o.txid is null then 'conflicted' when o.kind = 'cancel' then 'cancelled'
      when i.success then 'done' else 'reverted' end as outcome
    from app.outgoing_payment x
    cross join lateral (select * from app.outgoing_confirmed_tx n where n.outgoing_payment_id = x.id offset 0) i
    left join app.outgoing_attempt o on o.chain = x.chain and o.txid = i.txid and o.outgoing_payment_id = x.id
    left join app.second_payment n on n.chain = x.chain and n.txid = i.txid and n.booked_at is not null
    where x.chain = of_chain and x.status <> 'final' and i.block_height <= final_height
      and (o.txid is not null or n.txid is not null or exists (select from custody.journal j where j.stream = i.chain and j.txid = i.txid) or exists (
        select from app.unknown_transaction u join app.incident k on k.id = u.incident_id
        where u.chain = i.chain and u.txid = i.txid and k.resolution = 'kept'))
      -- where attempts expire, a failure decides only once no other attempt can pay
      and (i.success or o.txid is null or not app.may_be_paid_otherwise(x, i.txid))
    order by i.block_height, x.nonce, x.id, o.txid is null, o.kind = 'cancel' or not i.success, i.txid, i.fee desc -- of all who signed it, the one who paid
  loop
    perform app.lock_treasury(of_chain);
    update app.outgoing_payment x set status = 'final', txid = found_final.txid, outcome = found_final.outcome, fee_paid = found_final.fee,
      final_at = clock_timestamp(), next_step_at = null, waiting_reason = null, waiting_detail = null, waiting_since = null
    where x.id = found_final.id and x.status <> 'final' returning * into s;
    continue when s.id is null;
    if has_outputs then perform app.finish_outputs(s); end if;
    perform app.post_network_fee(s, found_final.fee);
    if s.kind = 'payout' then perform app.finish_payment(s, s.outcome, s.txid);
    elsif s.kind = 'sweep' and not has_outputs then perform app.finish_sweep(s, s.outcome, found_final.moved);
    elsif s.kind = 'withdrawal' then perform app.finish_withdrawal(s, s.outcome);
    elsif s.kind = 'fund' then perform app.finish_fund(s, s.outcome);
    elsif s.kind = 'defund' then perform app.finish_defund(s, s.outcome, found_final.moved);
    end if;
    perform app.release_after_sweep(s);
    finished := finished || s.id;
    if s.outcome = 'done' and exists (select from chain.lapse l where l.chain = s.chain and l.txid = s.txid) then
      perform app.note_booked(s, s.txid, true, 0, 0); -- the proof was wrong, and another attempt may pay, too
    end if;
    perform app.suspect_second_payments_of(s);
  end loop;
  if app.book_second_payments(of_chain, final_height) then
    perform app.finish_outgoing_payments(of_chain, final_height); -- other payments whose nonce or outputs they took
  end if;
  perform app.wake_payouts_after(finished);
  if expires then perform app.close_expiry_incidents(of_chain); end if;
end $function$;

-- Marks the outputs that a final outgoing payment spent, frees the others, adds the change, and posts what was swept.
CREATE OR REPLACE FUNCTION app.finish_outputs(s app.outgoing_payment)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
 SET plan_cache_mode TO 'force_custom_plan'
AS $function$
declare
  swept numeric;
  posting bigint := nextval('app.ledger_posting');
begin
  update app.output u set spent_by = i.txid
  from chain.confirmed_tx i
  where u.outgoing_payment_id = s.id and u.spent_by is null and i.chain = u.chain and i.conflict_key = u.txid || ':' || u.vout
    and (i.txid = s.txid or not exists (select from custody.journal j where j.txid = i.txid)); -- other attempts: outgoing/second_payments.sql
  update app.output u set outgoing_payment_id = null, from_attempt = null where u.outgoing_payment_id = s.id and u.spent_by is null;
  if s.outcome = 'conflicted' then return; end if;
  insert into app.output (chain, txid, vout, address, amount)
  select t.chain, t.txid, t.output_index, t.recipient, t.amount from chain.transfer t
  where t.id in (s.chain || ':' || s.txid || ':0', s.chain || ':' || s.txid || ':1') and t.recipient = app.treasury_address(s.chain)
  on conflict do nothing;

  with part as materialized (
    select u.address, u.merchant_id, sum(u.amount) as amount from app.output u
    where u.outgoing_payment_id = s.id and u.spent_by = s.txid and u.merchant_id is not null group by u.address, u.merchant_id
  ), held as (
    insert into app.holding as h (chain, address, token, merchant_id, amount)
    select s.chain, address, s.token, merchant_id, -amount from part order by address
    on conflict (chain, address, token) do update set amount = h.amount + excluded.amount
  ), posted as (
    insert into app.ledger_entry (posting, kind, reference, account, chain, token, merchant_id, address, amount)
    select posting, 'sweep', s.id::text, 'address', s.chain, s.token, merchant_id, address, -amount from part
    union all
    select posting, 'sweep', s.id::text, 'treasury', s.chain, s.token, merchant_id, null, sum(amount) from part group by merchant_id
  )
  select sum(amount) into swept from part;
  if swept is null then return; end if;
  perform app.add_treasury(s.chain, s.token, swept, 0);
  perform app.add_share(s.chain, s.token, s.merchant_id, swept, 0);
end $function$;

-- Ends the payout whose payment is final: outcome done completes it, every other outcome fails it and gives the balance back.
CREATE OR REPLACE FUNCTION app.finish_payment(s app.outgoing_payment, outcome text, txid text, code text DEFAULT NULL::text, message text DEFAULT NULL::text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
declare p app.payout := (select o from app.payout o where o.id = s.payout_id);
begin
  if p.status = 'failed' then -- before anything was broadcast; its reservation was given back
    if outcome = 'done' then perform app.book_payment_of_failed_payout(s);
    elsif outcome = 'conflicted' then
      insert into app.incident (chain, kind, subject, details)
      values (s.chain, 'payment_of_failed_payout', s.id::text, jsonb_build_object('payout_id', p.id, 'txid', txid, 'outcome', outcome))
      on conflict do nothing;
    end if;
    return;
  end if;
  perform app.give_up_swept_in(s);
  perform app.add_treasury(p.chain, p.token, 0, -p.net);
  perform app.add_share(p.chain, p.token, p.merchant_id, 0, -p.gross);
  if outcome = 'done' then
    perform app.add_treasury(p.chain, p.token, -p.net, 0);
    perform app.add_share(p.chain, p.token, p.merchant_id, -p.gross, 0);
    perform app.post('payout', p.id::text, p.chain, jsonb_build_array(
      jsonb_build_object('account', 'payout', 'token', p.token, 'merchant_id', p.merchant_id, 'amount', p.gross),
      jsonb_build_object('account', 'treasury', 'token', p.token, 'merchant_id', p.merchant_id, 'amount', -p.net),
      jsonb_build_object('account', 'fees', 'token', p.token, 'merchant_id', p.merchant_id, 'amount', -p.fee)));
    update app.payout o set status = 'completed', txid = finish_payment.txid where o.id = p.id returning * into p;
    perform app.emit_payout_event(p, 'payout.completed');
  elsif outcome = 'reverted' then
    perform app.release_payout(p.id, 'transaction_reverted', 'the payment was mined and reverted; nothing was paid');
  elsif outcome = 'expired' then
    perform app.release_payout(p.id, code, message);
  elsif outcome = 'cancelled' then
    perform app.release_payout(p.id, 'cancelled', 'cancelled; ' || case when txid is null then 'nothing that was signed for it can be mined any more'
      else 'a transaction that moves nothing took the place of the payment' end);
  else
    perform app.release_payout(p.id, 'broadcast_rejected', 'another transaction took the place of the payment, which can never be mined');
  end if;
end $function$;

-- Posts what a final sweep moved (in base units) from its address to the treasury; nothing if its outcome was not done.
CREATE OR REPLACE FUNCTION app.finish_sweep(s app.outgoing_payment, outcome text, moved numeric)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
declare r app.unattributed_decision;
begin
  if outcome <> 'done' then return; end if;
  update app.unattributed_decision u set amount = moved where u.sweep_id = s.id returning * into r;
  if r.deposit_id is not null then
    perform app.add_treasury(s.chain, s.token, moved, case when app.is_held(r) then moved else 0 end);
    perform app.post('return', s.id::text, s.chain, jsonb_build_array(
      jsonb_build_object('account', 'treasury', 'token', s.token, 'amount', moved),
      jsonb_build_object('account', 'address', 'token', s.token, 'address', s.source, 'amount', -moved)));
    return;
  end if;
  perform app.post_sweep(s, moved);
  perform app.unblock(s.chain, s.token, s.source, 'healed'); -- the chain let it go
end $function$;

-- Posts a final withdrawal; if its outcome was not done, gives back what was reserved for it.
CREATE OR REPLACE FUNCTION app.finish_withdrawal(s app.outgoing_payment, outcome text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
declare is_return boolean := exists (select from app.unattributed_decision u where u.withdrawal_id = s.id);
begin
  if outcome = 'done' then
    perform app.add_treasury(s.chain, s.token, -s.amount, -s.amount);
    perform app.post(case when is_return then 'return' else 'withdrawal' end, s.id::text, s.chain, jsonb_build_array(
      jsonb_build_object('account', case when is_return then 'unattributed' else 'operator' end, 'token', s.token, 'amount', s.amount),
      jsonb_build_object('account', 'treasury', 'token', s.token, 'amount', -s.amount)));
  elsif not is_return then
    perform app.add_treasury(s.chain, s.token, 0, -s.amount);
  end if;
end $function$;

-- The first of these outputs that was never the first input of an outgoing payment; null if there is none.
CREATE OR REPLACE FUNCTION app.first_input_of(of_chain text, inputs text[])
 RETURNS text
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select i from unnest(inputs) with ordinality as u (i, n)
  where not exists (select from app.outgoing_payment s where s.chain = of_chain and s.first_input = i) order by n limit 1
$function$;

-- Adds balance deltas to balances, the oldest first, at most batch of them; returns how many. Safe to run at any time and in several places.
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
    returning merchant_id, chain, token, amount, deposit_count, held_back, held_back_count
  ), summed as (
    select merchant_id, chain, token, sum(amount) as amount, sum(deposit_count) as deposit_count, sum(held_back) as held_back,
      sum(held_back_count) as held_back_count, count(*) as deltas
    from gone group by merchant_id, chain, token order by merchant_id, chain, token
  ), stored as (
    insert into app.balance as b (merchant_id, chain, token, amount, deposit_count, held_back, held_back_count)
    select merchant_id, chain, token, amount, deposit_count, held_back, held_back_count from summed
    on conflict (merchant_id, chain, token) do update
      set amount = b.amount + excluded.amount, deposit_count = b.deposit_count + excluded.deposit_count,
        held_back = b.held_back + excluded.held_back, held_back_count = b.held_back_count + excluded.held_back_count
  )
  select coalesce(sum(deltas), 0) into folded from summed;
  return folded;
end $function$;

-- Removes a chain from the configured ones if it was never followed; false if it was not configured.
CREATE OR REPLACE FUNCTION app.forget_chain(of_chain text)
 RETURNS boolean
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
begin
  perform from chain.cursor c where c.chain = of_chain;
  if found then raise exception '% was followed, so it cannot be removed: its data stays', of_chain using errcode = 'SL422'; end if;
  delete from app.accepted_gap g where g.chain = of_chain;
  delete from chain.configured c where c.chain = of_chain;
  return found;
end $function$;

-- How many addresses differ from the chain, and the first ten: what the ledger is missing, with the command that reads it again; or what is gone from the chain.
CREATE OR REPLACE FUNCTION app.found_differences(of_chain text, OUT count bigint, OUT found jsonb)
 RETURNS record
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select (select count(*) from app.chain_difference d where d.chain = of_chain), coalesce((
    select jsonb_agg(jsonb_strip_nulls(jsonb_build_object('address', d.address, 'token', d.token, 'outpoint', nullif(d.outpoint, ''),
      'ledger', d.ledger::text, 'chain', d.on_chain::text, 'missing', case when d.on_chain > d.ledger then (d.on_chain - d.ledger)::text end,
      'gone', case when d.on_chain < d.ledger then (d.ledger - d.on_chain)::text end,
      'handed_out', case when d.on_chain > d.ledger then app.iso(d.handed_out_at) end,
      'run', case when d.on_chain > d.ledger then 'sluice reindex --chain ' || d.chain || ' --from ' || coalesce(d.from_height::text, 'HEIGHT') end)))
    from (select * from app.chain_difference d where d.chain = of_chain order by d.address, d.token, d.outpoint limit 10) d), '[]')
$function$;

-- The operator's native coins on an address that no sweep under way may use, in base units.
CREATE OR REPLACE FUNCTION app.free_gas(of_chain text, of_address text)
 RETURNS numeric
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select coalesce((select g.amount - g.reserved from app.gas g where g.chain = of_chain and g.address = of_address), 0)
$function$;

-- The fund of an address that is not final; null if there is none.
CREATE OR REPLACE FUNCTION app.fund_under_way(of_chain text, of_address text)
 RETURNS uuid
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select s.id from app.outgoing_payment s
  where s.chain = of_chain and s.recipient = of_address and s.kind = 'fund' and s.status <> 'final' limit 1
$function$;

-- The operator's own money that would be left, in base units, after paying amount of a token, with this network fee, to a merchant whose claim is gross.
CREATE OR REPLACE FUNCTION app.funds_after(of_chain text, of_token text, of_merchant uuid, amount numeric, gross numeric, network_fee numeric)
 RETURNS numeric
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select app.operator_funds(of_chain, of_token) - amount + greatest(share.free, 0) - greatest(share.free - gross, 0)
    - case when app.native_token(of_chain) = of_token then network_fee else 0 end
  from (select coalesce((select s.amount - s.reserved from app.treasury_share s
    where s.chain = of_chain and s.token = of_token and s.merchant_id = of_merchant), 0) as free) share
$function$;

-- By how much the highest fee of an outgoing payment that pays with gas may rise, in base units.
CREATE OR REPLACE FUNCTION app.gas_for(s app.outgoing_payment)
 RETURNS numeric
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select app.free_gas(s.chain, s.fee_payer) + case when s.kind = 'defund' then s.amount - 1 else 0 end
$function$;

-- How many days the operator's own native coins in a treasury last, at the network fees of the last 7 days, and the gas that was sent to addresses; null if there were none.
CREATE OR REPLACE FUNCTION app.gas_left_days(of_chain text)
 RETURNS double precision
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select (greatest(app.operator_funds(of_chain, app.native_token(of_chain)), 0) / nullif(greatest(-sum(e.amount), 0), 0) * 7)::double precision
  from app.ledger_entry e
  where e.account = 'treasury' and e.kind in ('network_fee', 'fund', 'defund') and e.chain = of_chain and e.created_at > now() - interval '7 days'
$function$;

-- How many addresses whose money a payout may need are getting gas, perhaps for the sweep of another token.
CREATE OR REPLACE FUNCTION app.getting_gas_for(of_payout uuid)
 RETURNS integer
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select count(*)::int from app.payout p join app.holding h on h.merchant_id = p.merchant_id and h.chain = p.chain and h.token = p.token and h.amount > 0
  where p.id = of_payout and app.sweeps_itself(p.chain, p.token) and app.fund_under_way(h.chain, h.address) is not null
    and app.sweep_under_way(h.chain, h.token, h.address) is null
    and (not p.sweep_first or p.status <> 'sweeping' or exists (select from app.deposit d where d.settlement_id = p.id and d.address = h.address))
$function$;

-- Makes the payment of a swept payout a cancel, which uses its nonce up, if the payout has waited this long and nothing was signed: the payout keeps waiting without a payment.
CREATE OR REPLACE FUNCTION app.give_nonce_back(of_payout uuid, after_ms integer)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare
  p app.payout;
  s app.outgoing_payment;
begin
  select * into p from app.payout o
  where o.id = of_payout and o.status = 'swept' and o.waiting_since <= clock_timestamp() - after_ms * interval '1 millisecond';
  select * into s from app.outgoing_payment x where x.payout_id = p.id and x.kind = 'payout' and x.nonce is not null and not x.cancelling;
  s := app.lock_unsigned(s.id);
  select * into p from app.payout o where o.id = of_payout and o.status = 'swept'; -- locked, too
  if s.id is null or p.id is null then return false; end if;
  perform app.unreserve_payment(p, s);
  update app.outgoing_payment x set kind = 'cancel', payout_id = null, merchant_id = null, token = app.native_token(s.chain), amount = 0,
    recipient = s.fee_payer, cancelling = true, next_step_at = clock_timestamp()
  where x.id = s.id;
  perform app.wake_outgoing_payments(s.chain);
  return true;
end $function$;

-- Allocates a recovered payout's deposits, up to a point, and its adjustments, including its debt.
CREATE OR REPLACE FUNCTION app.give_recovered_deposits(of_payout uuid, debt uuid, to_number bigint, to_height integer, with_held_back boolean)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
declare
  p app.payout;
  recovered_at timestamptz;
  allocated record;
begin
  select * into strict p from app.payout o where o.id = of_payout;
  select a.created_at into strict recovered_at from app.adjustment a where a.settlement_id = p.id and a.reason = 'payout_recovered';
  with taken as (
    select o.id, o.held_back from app.unclaimed_deposits(p.merchant_id, p.chain, p.token, with_held_back) u join app.deposit o on o.id = u.id
    where (u.number, u.height) <= (to_number, to_height)
  ), done as (
    update app.deposit d set settlement_id = p.id, settled_before_restore = false, held_back = false
    from taken t where d.id = t.id returning d.amount, t.held_back
  )
  select count(*) as n, sum(amount) as amount, coalesce(sum(amount) filter (where held_back), 0) as held_back, count(*) filter (where held_back) as held_back_count
  into allocated from done;
  update app.adjustment a set settlement_id = p.id
  where a.id = debt or (a.merchant_id = p.merchant_id and a.chain = p.chain and a.token = p.token and a.settlement_id is null
    and a.reason <> 'payout_recovered' and a.created_at < recovered_at);
  if (select sum(a.amount) from app.adjustment a where a.settlement_id = p.id) + allocated.amount <> p.gross then
    raise exception 'the deposits of payout % do not add up to its gross', p.id using errcode = 'P0003';
  end if;
  update app.claim c set cutoff = to_number, deposit_count = allocated.n, amount = allocated.amount, done_count = allocated.n, done_amount = allocated.amount
  where c.payout_id = p.id and c.kind = 'claim';
  insert into app.balance_delta (merchant_id, chain, token, amount, deposit_count, held_back, held_back_count)
  values (p.merchant_id, p.chain, p.token, 0, -allocated.n, -allocated.held_back, -allocated.held_back_count);
end $function$;

-- Fails all pending deliveries of an endpoint, whose row the caller has locked.
CREATE OR REPLACE FUNCTION app.give_up_deliveries(endpoint uuid)
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'pg_catalog'
AS $function$
  update app.delivery set status = 'failed', next_attempt_at = null, finished_at = clock_timestamp()
  where endpoint_id = endpoint and status = 'pending'
$function$;

-- The same, and notes why, in words for operators.
CREATE OR REPLACE FUNCTION app.give_up_outgoing_payment(of_outgoing_payment uuid, why text)
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  update app.outgoing_payment s set failure = coalesce(s.failure, why) where s.id = of_outgoing_payment and s.status <> 'final';
  select app.cancel_outgoing_payment(of_outgoing_payment)
$function$;

-- Stops counting on what a payment was to bring with it: everything that it needs is reserved, and the caller gives that back.
CREATE OR REPLACE FUNCTION app.give_up_swept_in(s app.outgoing_payment)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
begin
  if s.swept_in > 0 then perform app.set_swept_in(s, 0); end if;
end $function$;

-- Whether a payout has claimed deposits that are on a blocked address now.
CREATE OR REPLACE FUNCTION app.has_blocked_deposits(of_payout uuid)
 RETURNS boolean
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select exists (
    select from app.payout p join app.blocked_address b on b.chain = p.chain and b.token = p.token
    join app.deposit d on d.chain = b.chain and d.token = b.token and d.address = b.address and d.held_back and d.settlement_id = p.id
    where p.id = of_payout)
$function$;

-- What merchants see of a deposit that is held back: why, and, unless its address is blocked, the minimum and what is missing, in whole coins. Null for others.
CREATE OR REPLACE FUNCTION app.held_back_of(d app.deposit)
 RETURNS json
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select json_build_object('reason', case when missing is null then 'address_blocked' else 'below_minimum' end,
    'minimum', case when missing is not null then app.decimal(a.sweep_min, a.decimals) end, 'missing', app.decimal(missing, a.decimals))
  from app.asset a, app.missing_to_collect(d) missing where d.held_back and d.settlement_id is null and a.chain = d.chain and a.token = d.token
$function$;

-- Holds back the deposits that are not worth a sweep, in a database from before any were.
CREATE OR REPLACE FUNCTION app.hold_back(of_chain text, of_token text, below numeric)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
 SET plan_cache_mode TO 'force_custom_plan'
AS $function$
declare
  has_outputs boolean := app.uses_outputs(of_chain);
  merchant uuid;
begin
  for merchant in
    select d.merchant_id from app.deposit d
    where d.status = 'final' and d.credited and d.settlement_id is null and not d.held_back and d.chain = of_chain and d.token = of_token
      and d.amount < below
    union
    select p.merchant_id from app.payout p where p.chain = of_chain and p.token = of_token and p.status not in ('completed', 'failed')
    union
    select c.merchant_id from app.claim c where c.chain = of_chain and c.token = of_token and c.finished_at is null
    order by 1
  loop
    perform app.lock_pair(merchant, of_chain, of_token);
    perform app.allocate_all_deposits(merchant, of_chain, of_token);
  end loop;
  with leaving as materialized (
    select * from app.leaving(of_chain)
  ), small as (
    select d.id, d.chain, d.address, d.token, d.txid, d.output_index,
      sum(d.amount) over (partition by d.address order by d.finalisation desc, d.seq desc) as with_newer
    from (
      select d.* from app.deposit d
      where d.status = 'final' and d.credited and d.settlement_id is null and not d.held_back and d.chain = of_chain and d.token = of_token
      union all
      select d.* from app.payout p join app.deposit d on d.settlement_id = p.id
      where p.chain = of_chain and p.token = of_token and p.status not in ('completed', 'failed') and d.status = 'final'
    ) d where d.amount < below
  ), held as (
    update app.deposit d set held_back = true
    from small s left join app.holding h on h.chain = s.chain and h.address = s.address and h.token = s.token
    left join leaving l on l.address = s.address and l.token = s.token
    where d.id = s.id and case
      when has_outputs then exists (select from app.output u where u.chain = s.chain and u.txid = s.txid and u.vout = s.output_index and u.spent_by is null)
      else s.with_newer <= h.amount and h.amount - coalesce(l.amount, 0) < below end
    returning d.merchant_id, d.amount, d.settlement_id
  )
  insert into app.balance_delta (merchant_id, chain, token, amount, deposit_count, held_back, held_back_count)
  select merchant_id, of_chain, of_token, 0, 0, sum(amount), count(*) from held where settlement_id is null group by merchant_id;
end $function$;

-- The addresses with gas that they are not likely to use and that is worth a sweep, and how much, in base units; the largest first.
CREATE OR REPLACE FUNCTION app.idle_gas(of_chain text, most integer)
 RETURNS TABLE(address text, amount numeric)
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select g.address, g.amount from app.gas g join app.asset a on a.chain = g.chain and a.token = app.native_token(g.chain)
  where g.chain = of_chain and g.amount > 0 and g.amount >= a.sweep_min and app.is_gas_idle(g)
  order by g.amount desc limit most
$function$;

-- Whether an address is not swept because the chain refuses it.
CREATE OR REPLACE FUNCTION app.is_blocked(of_chain text, of_token text, of_address text)
 RETURNS boolean
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select exists (select from app.blocked_address b where b.chain = of_chain and b.token = of_token and b.address = of_address)
$function$;

-- Whether the ledger counts on a transaction for an outgoing payment that is final: it ended it, or was booked as a second payment of it.
CREATE OR REPLACE FUNCTION app.is_booked(s app.outgoing_payment, of_txid text)
 RETURNS boolean
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select s.txid = of_txid or exists (
    select from app.second_payment n where n.chain = s.chain and n.txid = of_txid and n.outgoing_payment_id = s.id and n.booked_at is not null)
$function$;

-- Whether its merchant may cancel a payout: no nonce, no outputs and no transaction were taken for its payment.
CREATE OR REPLACE FUNCTION app.is_cancellable(p app.payout)
 RETURNS boolean
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select p.status in ('pending', 'sweeping', 'swept')
    and not exists (select from app.outgoing_payment s where s.payout_id = p.id and s.kind = 'payout' and s.status <> 'final')
$function$;

-- Whether app.due_comparison has something to do on one of these chains.
CREATE OR REPLACE FUNCTION app.is_comparison_due(of_chains text[])
 RETURNS boolean
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select exists (select from chain.cursor c left join app.comparison p on p.chain = c.chain
    where c.chain = any(of_chains) and (p.chain is null or (p.next_at <= clock_timestamp()
      and (p.position is not null or p.began_at < clock_timestamp() - interval '1 day'))))
$function$;

-- Whether a token counts no more: nothing can be asked for in it.
CREATE OR REPLACE FUNCTION app.is_disabled(of_chain text, of_token text)
 RETURNS boolean
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select exists (select from app.token k where k.chain = of_chain and k.token = of_token and k.until_height is not null)
$function$;

-- Whether an operator dismissed this deposit, or its token.
CREATE OR REPLACE FUNCTION app.is_dismissed(d app.deposit)
 RETURNS boolean
 LANGUAGE sql
 STABLE
RETURN ((EXISTS (SELECT FROM app.dismissed x WHERE (x.deposit_id = (is_dismissed.d).id))) OR ((EXISTS (SELECT FROM app.dismissed x WHERE ((x.chain = (is_dismissed.d).chain) AND (x.token = (is_dismissed.d).token)))) AND (NOT (EXISTS (SELECT FROM app.asset a WHERE ((a.chain = (is_dismissed.d).chain) AND (a.token = (is_dismissed.d).token)))))));

-- Whether a transfer was made by the rules of its chain, without a transaction. Without a kind, as older versions wrote it, the output index says so.
CREATE OR REPLACE FUNCTION app.is_from_protocol(transfer_kind text, output_index integer, token text)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN COALESCE((transfer_kind = 'protocol'::text), ((output_index >= 2000000) AND (token !~~ 'TRC10:%'::text)));

-- Whether an address is not likely to use its gas: it holds and receives nothing that it would sweep, nothing is under way, and it used no gas for 30 days (a day where no token needs any).
CREATE OR REPLACE FUNCTION app.is_gas_idle(g app.gas)
 RETURNS boolean
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select g.reserved = 0 and g.used_at < clock_timestamp() - case when exists (select from app.asset a
      where a.chain = g.chain and app.sweeps_itself(a.chain, a.token) and not app.is_disabled(a.chain, a.token))
      then interval '30 days' else interval '1 day' end
    and not exists (select from app.outgoing_payment s where s.chain = g.chain and s.status <> 'final' and g.address in (s.source, s.recipient))
    and not exists (select from app.asset a where a.chain = g.chain and app.sweeps_itself(a.chain, a.token)
      and (app.is_worth_funding(g.chain, g.address, a.token) or exists (select from app.deposit d
        where d.status = 'pending' and d.chain = g.chain and d.address = g.address and d.token = a.token)))
$function$;

-- Whether the treasury holds the amount of a return: it was swept, and no withdrawal of it is under way or done.
CREATE OR REPLACE FUNCTION app.is_held(r app.unattributed_decision)
 RETURNS boolean
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select exists (select from app.outgoing_payment s where s.id = r.sweep_id and s.outcome = 'done')
    and not exists (select from app.outgoing_payment s where s.id = r.withdrawal_id and (s.status <> 'final' or s.outcome = 'done'))
$function$;

-- Whether an outgoing payment under way should not be counted on: it is given up, has waited a minute for a reason of its own, or needed a third transaction.
CREATE OR REPLACE FUNCTION app.is_held_up(s app.outgoing_payment)
 RETURNS boolean
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select s.cancelling
    or coalesce(s.waiting_since <= clock_timestamp() - interval '1 minute', false)
      and exists (select from app.reason r where r.reason = s.waiting_reason and r.lies_with = 'payment')
    or (select count(*) from app.outgoing_attempt o where o.outgoing_payment_id = s.id) >= 3
$function$;

-- Whether an address may be swept now, by what its last sweeps ended with.
CREATE OR REPLACE FUNCTION app.is_sweep_due(of_chain text, of_token text, of_address text)
 RETURNS boolean
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select f.failures = 0 or f.retry_at <= clock_timestamp() from app.sweep_failures(of_chain, of_token, of_address) f
$function$;

-- Whether a payout with sweep_first has sweeps under way, or deposits that are not allocated yet.
CREATE OR REPLACE FUNCTION app.is_to_sweep_first(of_payout uuid)
 RETURNS boolean
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select p.sweep_first and (
    exists (select from app.payout_sweep l join app.outgoing_payment s on s.id = l.outgoing_payment_id where l.payout_id = p.id and s.status <> 'final')
    or exists (select from app.claim c where c.payout_id = p.id and c.kind = 'claim' and c.finished_at is null))
  from app.payout p where p.id = of_payout
$function$;

-- Whether an address holds so much of a token that gas for its sweep is worth its price.
CREATE OR REPLACE FUNCTION app.is_worth_funding(of_chain text, of_address text, of_token text)
 RETURNS boolean
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select app.collectable_amount(of_chain, of_address, of_token) > 0
    or exists (select from app.unattributed_decision u join app.deposit d on d.id = u.deposit_id
      join app.asset a on a.chain = d.chain and a.token = d.token
      where u.decision = 'return' and u.withdrawal_id is null and d.chain = of_chain and d.address = of_address and d.token = of_token
        and d.status = 'final' and u.amount >= a.sweep_min)
$function$;

-- ISO 8601 in UTC with milliseconds.
CREATE OR REPLACE FUNCTION app.iso(at timestamp with time zone)
 RETURNS text
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN (substr((to_json((date_trunc('milliseconds'::text, (at AT TIME ZONE 'UTC'::text)) + '00:00:00.000001'::interval)))::text, 2, 23) || 'Z'::text);

-- Notes that a blocked address is still refused, and why (null: that could not be asked); the node is asked again after this time, at most a day.
CREATE OR REPLACE FUNCTION app.keep_blocked(of_chain text, of_token text, of_address text, of_why text, retry_ms integer DEFAULT 86400000)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
begin
  update app.blocked_address b set why = coalesce(of_why, b.why),
    retry_at = clock_timestamp() + least(retry_ms * interval '1 millisecond', interval '1 day')
  where b.chain = of_chain and b.token = of_token and b.address = of_address;
  update app.incident i set details = i.details || jsonb_build_object('why', of_why)
  where i.kind = 'address_blocked' and i.subject = of_chain || ':' || of_token || ':' || of_address and i.resolved_at is null
    and i.details ->> 'why' <> of_why;
end $function$;

-- What sweeps and cancels under way take from addresses of merchants, in base units.
CREATE OR REPLACE FUNCTION app.leaving(of_chain text)
 RETURNS TABLE(address text, token text, amount numeric)
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select s.source, s.token, sum(s.amount + case when s.fee_payer = s.source and not s.from_gas then s.max_fee else 0 end) from app.outgoing_payment s
  where s.chain = of_chain and s.status <> 'final' and s.kind in ('sweep', 'cancel') and s.merchant_id is not null group by s.source, s.token
$function$;

-- What these addresses hold of each token at the final height, by the ledger and by what came while the token did not count, in base units.
CREATE OR REPLACE FUNCTION app.ledger_holdings(of_chain text, addresses text[])
 RETURNS TABLE(address text, token text, amount numeric)
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
 SET plan_cache_mode TO 'force_custom_plan'
AS $function$
  with treasury as materialized (select app.treasury_address(of_chain) as address)
  select w.address, a.token, coalesce(h.amount, 0) + coalesce(u.amount, 0) + coalesce(t.amount, 0) + coalesce(g.amount, 0) + coalesce(n.amount, 0)
  from unnest(addresses) w (address) join app.asset a on a.chain = of_chain cross join treasury
  left join app.holding h on h.chain = of_chain and h.address = w.address and h.token = a.token
  left join lateral (select sum(e.amount) as amount from app.ledger_entry e
    where e.account = 'address' and e.merchant_id is null and e.chain = of_chain and e.address = w.address and e.token = a.token) u on true
  left join lateral (select sum(e.amount) as amount from app.ledger_entry e
    where e.account = 'treasury' and e.chain = of_chain and e.token = a.token and w.address = treasury.address) t on true
  left join lateral (select sum(d.amount) as amount from app.deposit d -- what came before the token counted, or after
    where d.chain = of_chain and d.address = w.address and d.token = app.contract_of(of_chain, a.token) and d.status = 'final') n on true
  left join app.gas g on g.chain = of_chain and g.address = w.address and a.token = app.native_token(of_chain)
$function$;

-- As app.ledger_holdings, and whether a block above this one, which must be final, has moved money of the address; nothing if the ledger does not have the block.
CREATE OR REPLACE FUNCTION app.ledger_holdings_since(of_chain text, block_height integer, block_hash text, addresses text[])
 RETURNS TABLE(address text, token text, amount numeric, has_moved boolean, final_height integer)
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
 SET plan_cache_mode TO 'force_custom_plan'
AS $function$
  select h.address, h.token, h.amount, exists (
      select from chain.transfer t where t.chain = c.chain and t.recipient = h.address and t.block_height > b.height and t.block_height <= c.final_height
      union all
      select from chain.confirmed_tx x
      where x.chain = c.chain and x.account = h.address and x.block_height > b.height and x.block_height <= c.final_height), c.final_height
  from chain.cursor c
  join chain.block b on b.chain = c.chain and b.height = ledger_holdings_since.block_height and b.hash = ledger_holdings_since.block_hash
  cross join app.ledger_holdings(c.chain, addresses) h
  where c.chain = of_chain and c.final_height >= b.height
$function$;

-- The final unspent outputs of these addresses, by the ledger, in base units; leaving is true if a transaction of ours, or a block, spends it.
CREATE OR REPLACE FUNCTION app.ledger_outputs(of_chain text, addresses text[])
 RETURNS TABLE(address text, outpoint text, amount numeric, is_leaving boolean)
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
 SET plan_cache_mode TO 'force_custom_plan'
AS $function$
  select u.address, u.txid || ':' || u.vout, u.amount, u.outgoing_payment_id is not null or exists (
    select from chain.confirmed_tx i where i.chain = u.chain and i.conflict_key = u.txid || ':' || u.vout)
  from unnest(addresses) w (address) join app.output u on u.chain = of_chain and u.address = w.address and u.spent_by is null
  union all -- outputs that we must not spend
  select d.address, d.txid || ':' || d.output_index, d.amount, false
  from unnest(addresses) w (address) join app.deposit d on d.chain = of_chain and d.address = w.address
    and d.status = 'final' and not d.credited and d.merchant_id is not null
$function$;

-- Raises SL429 if a merchant has cancelled as many payouts within a day, that had begun to sweep, as it may; SL422 if it may cancel none. The caller has locked the merchant.
CREATE OR REPLACE FUNCTION app.limit_cancels(of_merchant uuid)
 RETURNS void
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
declare
  most int := (select m.cancels_per_day from app.merchant m where m.id = of_merchant);
  until timestamptz; -- when the last that may be left has become a day old
begin
  if most = 0 then raise exception 'a payout that has begun can only be cancelled by the operator' using errcode = 'SL422'; end if;
  select p.finished_at + interval '1 day' into until from app.payout p
  where p.merchant_id = of_merchant and p.error_code = 'cancelled' and p.cancelled_by_merchant and p.sweeping_at is not null
    and p.finished_at > clock_timestamp() - interval '1 day'
  order by p.finished_at desc offset most - 1 limit 1;
  if until is not null then
    raise exception 'within a day, no more than % payouts that have begun can be cancelled; this one is not', most using errcode = 'SL429',
      detail = ceil(extract(epoch from until - clock_timestamp()))::text;
  end if;
end $function$;

-- Takes the dismissal of a token back; returns how many deposits are there.
CREATE OR REPLACE FUNCTION app.list_token_again(of_chain text, of_token text)
 RETURNS bigint
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
declare wanted text := app.stored_token(of_chain, of_token);
begin
  delete from app.dismissed x where x.chain = of_chain and x.token = wanted;
  if not found then raise exception '% on % is not dismissed', of_token, of_chain using errcode = 'SL422'; end if;
  return (select count(*) from app.deposit d where d.chain = of_chain and d.token = wanted and not d.credited);
end $function$;

-- A merchant's payout whose parts can be listed; null if it failed, and so has none.
CREATE OR REPLACE FUNCTION app.listed_payout(of_merchant uuid, of_payout uuid)
 RETURNS uuid
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare
  p app.payout;
  under_way app.claim;
begin
  select * into p from app.payout o where o.id = of_payout and o.merchant_id = of_merchant;
  if p.id is null then raise exception 'there is no payout with this id' using errcode = 'SL404', detail = 'payout'; end if;
  if p.status = 'failed' then return null; end if;
  select * into under_way from app.claim c where c.payout_id = p.id and c.finished_at is null;
  if under_way.id is not null then
    raise exception 'the payout is still collecting its deposits: % of % so far', under_way.done_count, under_way.deposit_count
      using errcode = 'SLCOL';
  end if;
  return p.id;
end $function$;

-- Locks the balance of a merchant, chain and token, until the end of the transaction, against other claims, releases and adjustments.
CREATE OR REPLACE FUNCTION app.lock_pair(of_merchant uuid, of_chain text, of_token text)
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'pg_catalog'
AS $function$
  select pg_advisory_xact_lock(hashtextextended('pair:' || of_merchant || ':' || of_chain || ':' || of_token, 0))
$function$;

-- Locks a reference of a merchant, in all its Unicode forms.
CREATE OR REPLACE FUNCTION app.lock_reference(of_merchant uuid, reference text)
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'pg_catalog'
AS $function$
  select pg_advisory_xact_lock(hashtextextended('reference ' || of_merchant || ' ' || normalize(reference, NFC), 0))
$function$;

-- The deposit of a return whose next step is this one (sweep or withdrawal), with the chain and the treasury locked; null if that is not its next step (any more).
CREATE OR REPLACE FUNCTION app.lock_return(of_deposit uuid, of_step text)
 RETURNS app.deposit
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
declare d app.deposit;
begin
  select * into d from app.deposit o where o.id = of_deposit;
  perform from chain.cursor c where c.chain = d.chain for update;
  perform app.lock_treasury(d.chain);
  perform from app.due_return r where r.deposit_id = of_deposit and r.step = of_step;
  if not found then return null; end if;
  select * into d from app.deposit o where o.id = of_deposit;
  return d;
end $function$;

-- Locks the treasury of a chain until COMMIT: the rows of all its tokens, in the order of their codes. Rows that are missing are made.
CREATE OR REPLACE FUNCTION app.lock_treasury(of_chain text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
begin
  insert into app.treasury (chain, token) select a.chain, a.token from app.asset a where a.chain = of_chain on conflict do nothing;
  perform from app.treasury t where t.chain = of_chain order by t.token for update;
end $function$;

-- The deposit to decide about, locked, with its chain; raises an error if it can be neither credited nor returned.
CREATE OR REPLACE FUNCTION app.lock_unattributed(of_deposit uuid)
 RETURNS app.deposit
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
declare
  d app.deposit;
  name text := app.public_id('dep', of_deposit);
  incident bigint;
begin
  perform from chain.cursor c where c.chain = (select o.chain from app.deposit o where o.id = of_deposit) for update;
  select * into d from app.deposit o where o.id = of_deposit for update;
  if d.id is null then raise exception 'there is no deposit %; sluice unattributed list shows unattributed deposits', name using errcode = 'SL404'; end if;
  if d.credited then raise exception '% is credited to its merchant already', name using errcode = 'SL422'; end if;
  perform from app.asset a where a.chain = d.chain and a.token = d.token;
  if not found then
    raise exception '% has a token that Sluice does not support: it can be neither credited nor moved', name using errcode = 'SL422';
  end if;
  if d.merchant_id is null then
    raise exception '% reached the treasury and is your own money; to send it, run sluice treasury withdraw', name using errcode = 'SL422';
  end if;
  if d.status <> 'final' then
    raise exception '% is %; only a final deposit can be credited or returned', name, d.status using errcode = 'SL422';
  end if;
  incident := (select min(i.id) from app.incident i where i.subject = d.id::text and i.resolved_at is null);
  if incident is not null then
    raise exception 'incident % is about %; resolve it first (sluice incident list)', incident, name using errcode = 'SL422';
  end if;
  return d;
end $function$;

-- Locks a payout; false if nothing is to be swept for it any more, because its payment has begun or it has ended.
CREATE OR REPLACE FUNCTION app.lock_unpaid(of_payout uuid)
 RETURNS boolean
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
begin
  perform from app.payout p where p.id = of_payout and p.status in ('sweeping', 'swept') for update;
  return found and not exists (select from app.outgoing_payment s where s.payout_id = of_payout and s.kind = 'payout');
end $function$;

-- Locks an outgoing payment that can never be paid by what was signed; null if something signed may still pay it, decides it in a block, or uses its conflict key, or if its chain is halted.
CREATE OR REPLACE FUNCTION app.lock_unsigned(of_outgoing_payment uuid)
 RETURNS app.outgoing_payment
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
declare s app.outgoing_payment;
begin
  select * into s from app.outgoing_payment x where x.id = of_outgoing_payment and x.status <> 'final';
  if s.id is null then return null; end if;
  perform from chain.cursor c where c.chain = s.chain for update;
  perform from app.payout p where p.id = s.payout_id for update;
  perform app.lock_treasury(s.chain);
  select * into s from app.outgoing_payment x where x.id = of_outgoing_payment and x.status <> 'final' for update;
  -- Only now, with the lock: custody may have signed while this waited for it.
  if app.why_halted(s.chain) is not null
    or exists (select from app.attempt_fate f
      where f.subject_id = case s.kind when 'payout' then s.payout_id else s.id end and (f.fate <> 'dead' or not f.lapsed))
    or exists (select from custody.journal_key k where k.stream = s.chain and k.conflict_key = s.conflict_key) then
    return null;
  end if;
  return s;
end $function$;

-- Locks the user that a reference names, and returns its id; null if there is none.
CREATE OR REPLACE FUNCTION app.lock_user_of_ref(of_merchant uuid, given text)
 RETURNS uuid
 LANGUAGE sql
 SET search_path TO 'pg_catalog'
AS $function$
  select u.id from app.user u where u.merchant_id = of_merchant and u.external_ref = app.user_ref(of_merchant, given) for no key update
$function$;

-- Takes the lock that shows that a pool of workers lives (app.recover_dead_pools); false if another connection has it, null if it is no id of a pool.
CREATE OR REPLACE FUNCTION app.lock_worker(of_pool text)
 RETURNS boolean
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select case when of_pool ~ '^(ot)?pool-[0-9a-f]{18}$' then pg_try_advisory_lock(hashtextextended(of_pool, 0)) end
$function$;

-- Makes the next week of deliveries, up to three weeks ahead, or drops the oldest one that is past the retention and holds nothing pending: one at each call; returns what it did, or null when nothing is left to do. Safe to run at any time and in several places.
CREATE OR REPLACE FUNCTION app.maintain_partitions(retention interval)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
 SET lock_timeout TO '200ms'
 SET enable_seqscan TO 'off'
AS $function$
declare
  expired timestamptz := clock_timestamp() - retention;
  ahead timestamptz;
  old record;
  is_pending boolean;
  done text;
begin
  if retention is null or retention < interval '7 days' then
    raise exception 'deliveries are kept for at least 7 days, not for %', retention using errcode = 'invalid_parameter_value';
  end if;
  if not pg_try_advisory_xact_lock(hashtextextended('app.maintain_partitions', 0)) then return null; end if;
  select max(p.until) into ahead from app.delivery_partition p;
  if ahead < clock_timestamp() + interval '21 days' then return app.add_delivery_week(ahead); end if;
  for old in select p.suffix, p.until from app.delivery_partition p where p.until <= expired order by p.until loop
    execute format('select exists (select from app.%I where status = ''pending'')', 'delivery' || old.suffix) into is_pending;
    if not is_pending then done := app.drop_delivery_week(old.suffix, old.until); end if;
    if done is not null then return done; end if;
  end loop;
  delete from app.delivery_default d where d.id < app.uuid_at(expired) and d.status <> 'pending';
  delete from app.delivery_attempt_default a where a.delivery_id < app.uuid_at(expired)
    and not exists (select from app.delivery d where d.id = a.delivery_id);
  return null;
end $function$;

-- The match key of an address; folds is the folds_addresses of its chain (app.chain).
CREATE OR REPLACE FUNCTION app.match_key(address text, folds boolean)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN folds THEN lower(address) ELSE address END;

-- The head from which on nodes let the output of a deposit be spent; null if at once.
CREATE OR REPLACE FUNCTION app.mature_at(d app.deposit)
 RETURNS integer
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select d.block_height + c.coinbase_maturity from app.chain c where c.chain = d.chain and c.coinbase_sender = d.sender
$function$;

-- Where attempts expire: whether another attempt of an outgoing payment than this transaction may still pay, or has.
CREATE OR REPLACE FUNCTION app.may_be_paid_otherwise(s app.outgoing_payment, than_by text)
 RETURNS boolean
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select s.conflict_key is null and exists (select from app.attempt_fate f
    where f.subject_id = case s.kind when 'payout' then s.payout_id else s.id end and f.txid <> than_by and f.fate <> 'dead')
$function$;

-- Whether app.why_outgoing_waits may have an answer: of thousands of sweeps under way, only those few are asked about.
CREATE OR REPLACE FUNCTION app.may_wait(s app.outgoing_payment)
 RETURNS boolean
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select s.waiting_reason is not null or exists (select from app.outgoing_attempt o where o.outgoing_payment_id = s.id and o.unproven is not null)
$function$;

-- What /metrics shows about the database, by Prometheus name.
CREATE OR REPLACE FUNCTION app.metrics()
 RETURNS TABLE(metric text, labels json, value double precision)
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
begin
  return query
    select * from app.chain_metrics()
    union all
    select * from app.contradiction_metrics()
    union all
    select * from app.upkeep_metrics()
    union all
    select * from app.payout_metrics()
    union all
    select * from app.payment_metrics()
    union all
    select * from app.comparison_metrics()
    union all
    select * from app.copy_metrics();
end $function$;

-- How much more must become final on the address of a deposit that is held back until payouts can collect it, in base units; on chains with outputs, how much its output is below the minimum. Null for others, and on a blocked address.
CREATE OR REPLACE FUNCTION app.missing_to_collect(d app.deposit)
 RETURNS numeric
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select a.sweep_min - case when app.uses_outputs(d.chain) then d.amount else app.unswept(d.chain, d.address, d.token) end
  from app.asset a where d.held_back and a.chain = d.chain and a.token = d.token and not app.is_blocked(d.chain, d.token, d.address)
$function$;

-- Trigger: gives a new deposit its id.
CREATE OR REPLACE FUNCTION app.name_deposit()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
begin
  new.id := app.deposit_id(new.chain, new.txid, new.output_index, new.address, new.token);
  return new;
end $function$;

-- Token code of a chain's native coin, in which network fees are paid.
CREATE OR REPLACE FUNCTION app.native_token(of_chain text)
 RETURNS text
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select native_token from app.chain where chain = of_chain
$function$;

-- Makes a secret: whsec_ and 192 random bits in base64.
CREATE OR REPLACE FUNCTION app.new_webhook_secret()
 RETURNS text
 LANGUAGE sql
 SET search_path TO 'pg_catalog'
RETURN ('whsec_'::text || encode(SUBSTRING(sha256((uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()))) FROM 1 FOR 24), 'base64'::text));

-- The first unused one of the ids that the sweep (or withdrawal) of a return may have; null if all are taken.
CREATE OR REPLACE FUNCTION app.next_return_outgoing_payment(d app.deposit, of_kind text)
 RETURNS uuid
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select i.id from app.return_outgoing_payment_ids(d, of_kind) i where not exists (select from app.outgoing_payment s where s.id = i.id) order by i.n limit 1
$function$;

-- The version of the next event of an endpoint, its tests counted.
CREATE OR REPLACE FUNCTION app.next_version(of_subject uuid)
 RETURNS integer
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select coalesce(max(e.version), 0) + 1 from app.event e where e.subject_id = of_subject
$function$;

-- Records when a receipt came: when it was first seen, or mined, whichever is earlier; and the time of the earliest block that held it.
CREATE OR REPLACE FUNCTION app.note_arrival()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare
  mined_at timestamptz := (select t.block_time from chain.transfer t
    where t.id = new.chain || ':' || new.txid || ':' || new.output_index and t.recipient = new.address and t.block_hash = new.block_hash);
begin
  new.came_at := least(new.came_at, new.created_at, mined_at);
  if mined_at is not null then new.mined_at := least(new.mined_at, mined_at, clock_timestamp()); end if; -- a block may bear a time that is still to come
  return new;
end $function$;

-- Notes that a backup of this database has just finished, and by which tool. Call it only after the tool has succeeded.
CREATE OR REPLACE FUNCTION app.note_backup(made_with text)
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'pg_catalog'
AS $function$
  insert into app.backup_run (kind, made_with) values ('backup', made_with)
$function$;

-- Notes that a transaction was booked, with what it paid (in base units of its token); if it is a second payment, opens the incident, or adds to the open one, and halts the chain.
CREATE OR REPLACE FUNCTION app.note_booked(s app.outgoing_payment, of_txid text, pays boolean, paid numeric, of_fee numeric)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
declare incident bigint;
begin
  if pays then
    update chain.cursor c set halted_at = clock_timestamp() where c.chain = s.chain and c.halted_at is null;
    insert into app.incident as k (chain, kind, subject, details)
    values (s.chain, 'second_payment', s.id::text, jsonb_build_object('txids', jsonb_build_array(of_txid), 'payment', s.kind, 'token', s.token,
      'amount', paid::text, 'ended_by', s.txid, 'outcome', s.outcome) || coalesce((
        select jsonb_build_object('payout', app.public_id('pay', p.id), 'merchant', m.prefix)
        from app.outgoing_payment x join app.payout p on p.id = x.payout_id join app.merchant m on m.id = p.merchant_id
        where x.id = s.id and x.kind = 'payout'), '{}'))
    on conflict (subject, kind) where resolved_at is null do update set details = k.details || jsonb_build_object(
      'txids', k.details -> 'txids' || to_jsonb(of_txid), 'amount', ((k.details ->> 'amount')::numeric + paid)::text)
    returning k.id into incident;
  end if;
  insert into app.second_payment (chain, txid, outgoing_payment_id, amount, fee, incident_id, booked_at)
  values (s.chain, of_txid, s.id, paid, of_fee, incident, clock_timestamp())
  on conflict (chain, txid) do update set amount = excluded.amount, fee = excluded.fee, incident_id = excluded.incident_id, booked_at = excluded.booked_at;
end $function$;

-- Notes the hash of the code of a token's contract; true if it had another one before, which opens an incident.
CREATE OR REPLACE FUNCTION app.note_code(of_chain text, of_token text, hash text)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare before text := (select a.code_hash from app.asset a where a.chain = of_chain and a.token = of_token for no key update);
begin
  update app.asset a set code_hash = hash where a.chain = of_chain and a.token = of_token and a.code_hash is distinct from hash;
  if before is null or before = hash then return false; end if;
  insert into app.incident (kind, subject, details)
  values ('token_changed', of_chain || ':' || of_token, jsonb_build_object('chain', of_chain, 'token', of_token, 'before', before, 'now', hash))
  on conflict do nothing;
  return true;
end $function$;

-- Notes that a drill has just ended: which step failed and why, or null if all of them succeeded.
CREATE OR REPLACE FUNCTION app.note_drill(error text)
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'pg_catalog'
AS $function$
  insert into app.backup_run (kind, made_with, error) values ('drill', 'sluice drill', error)
$function$;

-- Trigger: looks for deposits of recovered payouts of a chain, because deposits became final.
CREATE OR REPLACE FUNCTION app.note_finalisation()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
begin
  perform app.find_recovered_deposits(pair.merchant_id, new.chain, pair.token) from (
    select distinct a.merchant_id, a.token from app.adjustment a
    where a.chain = new.chain and a.settlement_id is null and a.reason = 'payout_recovered' and a.amount < 0 order by 1, 2) pair;
  return null;
end $function$;

-- Notes that a key was used today (UTC). Writes at most once a day for a key.
CREATE OR REPLACE FUNCTION app.note_key_use(of_secret_hash bytea)
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  update app.api_key set last_used_on = (clock_timestamp() at time zone 'UTC')::date
  where secret_hash = of_secret_hash and (last_used_on is null or last_used_on < (clock_timestamp() at time zone 'UTC')::date)
$function$;

-- Notes that the payment request of a deposit is to be updated at COMMIT.
CREATE OR REPLACE FUNCTION app.note_receipt()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
begin
  insert into app.touched_payment select pg_current_xact_id(), r.id from app.payment_request r
  where r.id = new.payment_request_id and (r.chain, r.token) = (new.chain, new.token) on conflict do nothing;
  return null;
end $function$;

-- Trigger: looks for deposits of recovered payouts, because one was recovered, or an allocation that held this up has ended.
CREATE OR REPLACE FUNCTION app.note_recovered()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
begin
  if tg_table_name = 'adjustment' or pg_try_advisory_xact_lock(hashtextextended('pair:' || new.merchant_id || ':' || new.chain || ':' || new.token, 0)) then
    perform app.find_recovered_deposits(new.merchant_id, new.chain, new.token);
  end if;
  return null;
end $function$;

-- Opens the incident of an outgoing payment for which custody signed something else than was asked, with the differences in words.
CREATE OR REPLACE FUNCTION app.note_signed_otherwise(of_outgoing_payment uuid, of_txid text, differences text)
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  insert into app.incident (chain, kind, subject, details)
  select s.chain, 'signed_otherwise', s.id::text, jsonb_build_object('txid', of_txid, 'differences', differences)
  from app.outgoing_payment s where s.id = of_outgoing_payment
  on conflict do nothing
$function$;

-- For each task, how long its oldest due job has been waiting; 0 if none is due.
CREATE OR REPLACE FUNCTION app.oldest_due_jobs()
 RETURNS TABLE(task text, age_seconds double precision)
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
begin
  return query
    select t.identifier, coalesce(extract(epoch from clock_timestamp() - min(j.run_at)), 0)::double precision
    from graphile_worker._private_tasks t left join graphile_worker._private_jobs j
      on j.task_id = t.id and j.is_available and j.locked_at is null and j.run_at <= clock_timestamp()
    group by t.identifier;
end $function$;

-- Recovered payouts of a merchant, chain and token whose deposits are not known, the oldest first, each with a debt of its gross and the sum of the other adjustments that it collected.
CREATE OR REPLACE FUNCTION app.open_recovered(of_merchant uuid, of_chain text, of_token text)
 RETURNS TABLE(payout_id uuid, gross numeric, debt_id uuid, adjusted numeric)
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select p.id, p.gross, o.id, coalesce((select sum(a.amount) from app.adjustment a where a.merchant_id = of_merchant and a.chain = of_chain
      and a.token = of_token and a.settlement_id is null and a.reason <> 'payout_recovered' and a.created_at < r.created_at), 0)
  from app.payout p
  join app.adjustment r on r.settlement_id = p.id and r.reason = 'payout_recovered' and r.amount = p.gross
  cross join lateral (select a.id from app.adjustment a where a.merchant_id = of_merchant and a.chain = of_chain and a.token = of_token
    and a.settlement_id is null and a.reason = 'payout_recovered' and a.amount = -p.gross order by a.id limit 1) o
  where p.merchant_id = of_merchant and p.chain = of_chain and p.token = of_token
    and not exists (select from app.adjustment a where a.settlement_id = p.id and a.reason = 'payout_recovered' and a.amount < 0)
  order by p.created_at, p.id
$function$;

-- The operator's own free money in the treasury, in base units: fees earned and top-ups, less network fees and what was advanced to merchants whose addresses are not swept yet. Below zero after unforeseen losses.
CREATE OR REPLACE FUNCTION app.operator_funds(of_chain text, of_token text)
 RETURNS numeric
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select coalesce((select balance - reserved from app.treasury where chain = of_chain and token = of_token), 0)
    - coalesce((select sum(amount - reserved) from app.treasury_share where chain = of_chain and token = of_token and amount > reserved), 0)
$function$;

-- A time, or ten seconds from now if it is past.
CREATE OR REPLACE FUNCTION app.or_soon(at timestamp with time zone)
 RETURNS timestamp with time zone
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
RETURN CASE WHEN (at > statement_timestamp()) THEN at ELSE (statement_timestamp() + '00:00:10'::interval) END;

-- Locks an endpoint that this merchant has, and returns it; raises SL404 where there is none.
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

-- The least that pays a request, in base units: what is missing then is within its tolerance, or too little to be a payment and no more than a hundredth.
CREATE OR REPLACE FUNCTION app.paid_from(r app.payment_request)
 RETURNS numeric
 LANGUAGE sql
 IMMUTABLE
 SET search_path TO 'pg_catalog'
RETURN GREATEST(LEAST((r).detected_from, (r).amount), ((r).amount - GREATEST((r).tolerance, LEAST(((r).detected_from - (1)::numeric), div((r).amount, (100)::numeric)))));

-- Hands out no nonce that a final transaction of this incident has used.
CREATE OR REPLACE FUNCTION app.pass_nonces(of_incident app.incident)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
begin
  perform app.lock_treasury(of_incident.chain);
  insert into app.sender as n (chain, address, next_nonce)
  select i.chain, i.account, max(i.nonce) + 1 from app.unknown_transaction u join chain.confirmed_tx i using (chain, txid) join chain.cursor c using (chain)
  where u.incident_id = of_incident.id and i.nonce is not null and i.block_height <= c.final_height group by i.chain, i.account
  on conflict (chain, address) do update set next_nonce = greatest(n.next_nonce, excluded.next_nonce);
  update app.outgoing_payment s set nonce = app.take_nonce(s.chain, s.fee_payer)
  where s.chain = of_incident.chain and s.status = 'allocated' and s.nonce is not null and exists (
    select from app.unknown_transaction u join chain.confirmed_tx i using (chain, txid) join chain.cursor c using (chain)
    where u.incident_id = of_incident.id and u.moved is not null and i.conflict_key = s.conflict_key and i.block_height <= c.final_height)
    and not exists (select from custody.journal j where j.stream = s.chain and j.conflict_key = s.conflict_key);
end $function$;

-- Payment requests that are neither paid nor ended.
CREATE OR REPLACE FUNCTION app.payment_metrics()
 RETURNS TABLE(metric text, labels json, value double precision)
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select 'sluice_payment_requests_open', json_build_object('chain', c.chain, 'status', s.status), n.count
  from chain.cursor c cross join unnest(array['awaiting', 'detected']) s (status)
  cross join lateral (select count(*) from app.payment_request r where r.chain = c.chain and r.status = s.status
    and r.status in ('awaiting', 'detected')) n
$function$;

-- What has to be sent to pay a request, in base units, besides what was seen: never less than anybody can send. 0 if enough was seen.
CREATE OR REPLACE FUNCTION app.payment_missing(r app.payment_request)
 RETURNS numeric
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select case when r.received + r.pending >= app.paid_from(r) then 0 else greatest(r.amount - r.received - r.pending, a.min_payment) end
  from app.asset a where a.chain = r.chain and a.token = r.token
$function$;

-- What the page of a payment request shows to a visitor who has its token. Its confirmations are those of the youngest pending receipt; null if none is pending. A cancelled request expired when it was cancelled. late_at: when money that no block has taken is late; null while none is waited for.
CREATE OR REPLACE FUNCTION app.payment_page(of_page_token text)
 RETURNS SETOF app.payment_response
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select row_to_json(b)::text, r.chain, r.token, w.address, r.amount::text
  from app.payment_request r
  join app.asset a on a.chain = r.chain and a.token = r.token
  join app.merchant m on m.id = r.merchant_id
  join app.address w on w.payment_request_id = r.id and w.chain = r.chain
  cross join lateral (
    select r.chain, a.token, a.display_name, m.name as merchant_name, w.address, app.decimal(r.amount, a.decimals) as amount, r.status,
      app.decimal(r.received, a.decimals) as amount_received, app.decimal(r.pending, a.decimals) as amount_pending,
      app.decimal(app.payment_missing(r), a.decimals) as amount_missing,
      (select min(app.confirmations(r.chain, c.block_height)) from app.receipt c where c.payment_request_id = r.id and c.status = 'pending')
        as confirmations,
      r.late, r.txid, app.iso(least(r.expires_at, r.cancelled_at)) as expires_at,
      (select app.iso(r.decide_at) where r.status = 'detected' and r.expired_at is not null) as late_at, r.external_id, r.return_url
  ) b
  where r.page_token = of_page_token
$function$;

-- The state of a payment request by its receipts: its status; what is final and what is pending, in base units; whether some of it came late; the transaction that completed it (else the last one), and when that became final; when time alone may change it.
CREATE OR REPLACE FUNCTION app.payment_state(r app.payment_request, expired boolean, OUT status text, OUT received numeric, OUT pending numeric, OUT late boolean, OUT txid text, OUT paid_at timestamp with time zone, OUT decide_at timestamp with time zone)
 RETURNS record
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
declare
  enough numeric := app.paid_from(r);
  pending_in_time boolean;
  unmined_in_time boolean;
  last_txid text;
begin
  select coalesce(sum(c.amount) filter (where c.status = 'final'), 0), coalesce(sum(c.amount) filter (where c.status = 'pending'), 0),
    coalesce(bool_or(c.late) filter (where c.status = 'final'), false), coalesce(bool_or(not c.late) filter (where c.status = 'pending'), false),
    coalesce(bool_or(not c.late and c.is_unmined), false),
    (array_agg(c.txid order by c.finalisation, c.seq) filter (where c.so_far >= enough))[1],
    (array_agg(c.finalised_at order by c.finalisation, c.seq) filter (where c.so_far >= enough))[1],
    (array_agg(c.txid order by c.finalisation desc, c.seq desc) filter (where c.status = 'final'))[1]
  into received, pending, late, pending_in_time, unmined_in_time, txid, paid_at, last_txid
  from (
    select f.*, case f.status when 'final' then sum(f.amount) over (partition by f.status order by f.finalisation, f.seq) end as so_far
    from app.receipt f where f.payment_request_id = r.id
  ) c;
  txid := coalesce(txid, last_txid);
  status := case when received >= enough then 'paid'
    when received + pending < r.detected_from then case when not expired then 'awaiting' when r.cancelled_at is not null then 'cancelled' else 'expired' end
    when pending_in_time or received < r.detected_from or not expired then 'detected'
    else 'underpaid' end;
  decide_at := case when status not in ('awaiting', 'detected') then null when not expired then least(r.expires_at, r.cancelled_at)
    when unmined_in_time then nullif(app.or_soon(least(r.expires_at, r.cancelled_at) + r.late_after), 'infinity') end;
end $function$;

-- The outgoing payments that a transaction in a block concerns: the one whose attempt it is, and the one whose conflict key it uses up.
CREATE OR REPLACE FUNCTION app.payments_of(of_chain text, of_txid text, of_conflict_key text)
 RETURNS SETOF uuid
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select o.outgoing_payment_id from app.outgoing_attempt o where o.chain = of_chain and o.txid = of_txid
  union
  select s.id from app.outgoing_payment s where s.chain = of_chain and s.conflict_key = of_conflict_key
  union
  select n.outgoing_payment_id from app.second_payment n where n.chain = of_chain and n.txid = of_txid
$function$;

-- How much of a payout's token the treasury lacks to pay it now, in base units.
CREATE OR REPLACE FUNCTION app.payout_lack(of_payout uuid, network_fee numeric)
 RETURNS numeric
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select greatest(-app.funds_after(p.chain, p.token, p.merchant_id, p.net, p.gross, payout_lack.network_fee), 0) from app.payout p where p.id = of_payout
$function$;

-- Payouts and outgoing payments under way, by what they wait for, those that failed, and what treasuries hold (in coins).
CREATE OR REPLACE FUNCTION app.payout_metrics()
 RETURNS TABLE(metric text, labels json, value double precision)
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
begin
  return query
    with open_payout as materialized (
      select p.chain, p.status, w.reason as waiting_reason, w.since as waiting_since
      from app.payout p cross join lateral app.why_payout_waits(p) w where p.status not in ('completed', 'failed')
    ), open_outgoing_payment as materialized (
      select s.chain, s.kind, w.reason as waiting_reason, w.since as waiting_since
      from app.outgoing_payment s left join lateral app.why_outgoing_waits(s) w on app.may_wait(s) where s.status <> 'final'
    )
    select 'sluice_payouts_open', json_build_object('chain', c.chain, 'status', s.status), count(o.chain)::double precision
    from app.chain c cross join unnest(array['pending', 'sweeping', 'swept', 'paying']) s (status)
    left join open_payout o on o.chain = c.chain and o.status = s.status group by c.chain, s.status
    union all
    select 'sluice_payouts_failed_total', json_build_object('chain', c.chain), count(p.id) from app.chain c
    left join app.payout p on p.chain = c.chain and p.status = 'failed' group by c.chain
    union all
    select 'sluice_payouts_waiting', json_build_object('chain', o.chain, 'reason', o.waiting_reason), count(*) from open_payout o
    where o.waiting_reason is not null group by o.chain, o.waiting_reason
    union all
    select 'sluice_transactions_open', json_build_object('chain', c.chain, 'kind', k.kind), count(o.chain)
    from app.chain c cross join unnest(array['payout', 'sweep', 'withdrawal', 'cancel', 'fund', 'defund']) k (kind)
    left join open_outgoing_payment o on o.chain = c.chain and o.kind = k.kind group by c.chain, k.kind
    union all
    select 'sluice_transactions_waiting', json_build_object('chain', o.chain, 'reason', o.waiting_reason), count(*) from open_outgoing_payment o
    where o.waiting_reason is not null group by o.chain, o.waiting_reason
    union all
    select 'sluice_payout_oldest_wait_seconds', json_build_object('chain', w.chain, 'reason', w.waiting_reason),
      extract(epoch from clock_timestamp() - min(w.waiting_since))::double precision
    from (select o.chain, o.waiting_reason, o.waiting_since from open_payout o
      union all select o.chain, o.waiting_reason, o.waiting_since from open_outgoing_payment o) w
    where w.waiting_reason is not null group by w.chain, w.waiting_reason
    union all
    select m.metric, json_build_object('chain', a.chain, 'token', a.token), analytics.coins(m.value, a.decimals)::double precision
    from app.asset a left join app.treasury t on t.chain = a.chain and t.token = a.token
    cross join lateral (values
      ('sluice_treasury_balance', coalesce(t.balance, 0)), ('sluice_treasury_reserved', coalesce(t.reserved, 0)),
      ('sluice_treasury_operator_funds', app.operator_funds(a.chain, a.token))) m (metric, value);
end $function$;

-- What a payout claimed, below a place and at least as many as asked for, if there are so many: deposits of users, receipts (what reached the addresses of payment requests) and adjustments, which have the highest places. status is that of the deposit now, reason why there is an adjustment; deposit_id may be the deposit that it is about.
CREATE OR REPLACE FUNCTION app.payout_parts(of_payout uuid, below bigint, most integer)
 RETURNS TABLE(place bigint, type text, amount numeric, deposit_id uuid, status text, reason text, created_at timestamp with time zone)
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
begin
  return query
  (select d.seq, case when d.user_id is null then 'receipt' else 'deposit' end, (
      select case when count(*) = 0 then d.amount else case d.status when 'final' then d.amount else 0 end - sum(a.amount) end
      from app.adjustment a where a.deposit_id = d.id),
    d.id, d.status, null, d.created_at
  from app.deposit d where d.settlement_id = of_payout and d.seq < below order by d.seq desc limit most)
  union all
  (select a.position, 'adjustment', a.amount, a.deposit_id, null, a.reason, a.created_at
  from app.adjustment a where a.settlement_id = of_payout and a.position < below order by a.position desc limit most);
end $function$;

-- What the treasury lacks to pay a payout now without money of other merchants; null if nothing.
CREATE OR REPLACE FUNCTION app.payout_shortage(of_payout uuid, network_fee numeric)
 RETURNS text
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select app.shortage(p.chain, p.token, p.merchant_id, p.net, p.gross, payout_shortage.network_fee) from app.payout p where p.id = of_payout
$function$;

-- How much of a payout's token further sweeps have to bring before the treasury can pay it, in base units, besides what sweeps of the merchant's addresses under way, and those whose gas is under way, will probably bring.
CREATE OR REPLACE FUNCTION app.payout_shortfall(of_payout uuid, network_fee numeric)
 RETURNS numeric
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select greatest(app.payout_lack(p.id, payout_shortfall.network_fee) - coalesce((
    select sum(s.amount) from app.outgoing_payment s
    where s.chain = p.chain and s.token = p.token and s.merchant_id = p.merchant_id and s.kind = 'sweep' and s.status <> 'final'
      and not app.is_held_up(s)), 0) - coalesce((
    select sum(h.amount) from app.outgoing_payment s
    join app.holding h on h.chain = s.chain and h.address = s.recipient and h.token = s.for_token
    where s.chain = p.chain and s.for_token = p.token and s.merchant_id = p.merchant_id and s.kind = 'fund' and s.status <> 'final'
      and not app.is_held_up(s) and app.sweep_under_way(h.chain, h.token, h.address) is null), 0), 0)
  from app.payout p where p.id = of_payout
$function$;

-- How long ago a payout was requested, without the time of halts and of entries of the whitelist that count later.
CREATE OR REPLACE FUNCTION app.payout_waited(p app.payout)
 RETURNS interval
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select clock_timestamp() - p.created_at - coalesce(sum(upper(r) - lower(r)), '0') -- a clock may have been set back
  from unnest((
    select range_agg(e.excused) * multirange(tstzrange(p.created_at, greatest(clock_timestamp(), p.created_at))) from (
      select tstzrange(i.opened_at, coalesce(i.resolved_at, clock_timestamp())) as excused from app.incident i
      where i.chain = p.chain and i.opened_at <= coalesce(i.resolved_at, clock_timestamp())
      union all
      select tstzrange(w.added_at, least(w.active_at, w.removed_at)) from custody.whitelist w
      where w.merchant_id = p.merchant_id and w.chain = p.chain and w.address = p.address and w.added_at < least(w.active_at, w.removed_at)
    ) e)) r
$function$;

-- Why a payout waits, as the API shows it: {code, message, since}; null if nothing is in its way, or it has ended.
CREATE OR REPLACE FUNCTION app.payout_waiting(p app.payout)
 RETURNS json
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select json_build_object('code', k.code, 'message', k.message, 'since', app.iso(w.since))
  from app.why_payout_waits(p) w join app.reason k on k.reason = w.reason and k.code is not null
$function$;

-- Writes one posting, given as JSON: [{account, token, amount, merchant_id?, address?}, ...], amounts in base units. Entries of zero are left out.
CREATE OR REPLACE FUNCTION app.post(of_kind text, of_reference text, of_chain text, entries jsonb)
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'pg_catalog'
AS $function$
  insert into app.ledger_entry (posting, kind, reference, account, chain, token, merchant_id, address, amount)
  select p.posting, of_kind, of_reference, e.account, of_chain, e.token, e.merchant_id, e.address, e.amount
  from (select nextval('app.ledger_posting') as posting) p,
    jsonb_to_recordset(entries) as e (account text, token text, amount numeric, merchant_id uuid, address text)
  where e.amount <> 0
$function$;

-- Posts gas that moved from an address to the treasury (in base units).
CREATE OR REPLACE FUNCTION app.post_defund(s app.outgoing_payment, moved numeric)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
begin
  perform app.add_gas(s.chain, s.source, -moved, 0);
  perform app.add_treasury(s.chain, s.token, moved, 0);
  perform app.post('defund', s.id::text, s.chain, jsonb_build_array(
    jsonb_build_object('account', 'treasury', 'token', s.token, 'amount', moved),
    jsonb_build_object('account', 'gas', 'token', s.token, 'address', s.source, 'amount', -moved)));
end $function$;

-- Posts deposits that became final with this finalisation number, and adds them to what addresses and the treasury hold.
CREATE OR REPLACE FUNCTION app.post_final_deposits(of_chain text, ids uuid[], of_finalisation bigint)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
 SET plan_cache_mode TO 'force_custom_plan'
AS $function$
declare posting bigint := nextval('app.ledger_posting');
begin
  with part as materialized (
    select case when d.merchant_id is null then 'top_up' else 'deposit' end as kind,
      case when d.merchant_id is null then 'treasury' else 'address' end as debited,
      case when d.merchant_id is null then 'operator' when d.credited then 'merchant' else 'unattributed' end as owed_to,
      case when d.credited then d.merchant_id end as merchant_id, case when d.merchant_id is not null then d.address end as address, d.token,
      sum(d.amount) as amount
    from unnest(ids) as i (id) join app.deposit d on d.id = i.id join app.asset a on a.chain = of_chain and a.token = d.token
    group by 1, 2, 3, 4, 5, 6
  ), held as (
    insert into app.holding as h (chain, address, token, merchant_id, amount)
    select of_chain, address, token, merchant_id, amount from part where owed_to = 'merchant' order by address, token
    on conflict (chain, address, token) do update set amount = h.amount + excluded.amount
  ), topped_up as (
    insert into app.treasury as t (chain, token, balance)
    select of_chain, token, amount from part where owed_to = 'operator' order by token
    on conflict (chain, token) do update set balance = t.balance + excluded.balance
  )
  insert into app.ledger_entry (posting, kind, reference, account, chain, token, merchant_id, address, amount)
  select posting, kind, 'finalisation:' || of_chain || ':' || of_finalisation, debited, of_chain, token, merchant_id, address, amount from part
  union all
  select posting, kind, 'finalisation:' || of_chain || ':' || of_finalisation, owed_to, of_chain, token, merchant_id, null, -sum(amount)
  from part group by kind, owed_to, token, merchant_id;
end $function$;

-- Posts gas that moved from the treasury to an address.
CREATE OR REPLACE FUNCTION app.post_fund(s app.outgoing_payment)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
begin
  perform app.add_treasury(s.chain, s.token, -s.amount, 0);
  perform app.add_gas(s.chain, s.recipient, s.amount, 0);
  perform app.post('fund', s.id::text, s.chain, jsonb_build_array(
    jsonb_build_object('account', 'gas', 'token', s.token, 'address', s.recipient, 'amount', s.amount),
    jsonb_build_object('account', 'treasury', 'token', s.token, 'amount', -s.amount)));
end $function$;

-- Posts as the operator's loss what left the treasury by a second payment, in base units of its token.
CREATE OR REPLACE FUNCTION app.post_loss(s app.outgoing_payment, lost numeric)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
begin
  perform app.add_treasury(s.chain, s.token, -lost, 0);
  perform app.post('second_payment', s.id::text, s.chain, jsonb_build_array(
    jsonb_build_object('account', 'operator', 'token', s.token, 'amount', lost),
    jsonb_build_object('account', 'treasury', 'token', s.token, 'amount', -lost)));
end $function$;

-- Posts the network fee of a final transaction (in base units of the native coin), gives back what was reserved for it, and adds it to the payout's.
CREATE OR REPLACE FUNCTION app.post_network_fee(s app.outgoing_payment, fee numeric)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
declare
  native text := app.native_token(s.chain);
  by_treasury boolean := s.fee_payer = app.treasury_address(s.chain);
  r app.unattributed_decision;
  own numeric;
begin
  if by_treasury then
    perform app.add_treasury(s.chain, native, -fee, -s.max_fee);
  elsif s.from_gas then
    perform app.add_gas(s.chain, s.fee_payer, -fee, -s.max_fee);
  else
    if s.merchant_id is null then -- a return's sweep; not always its last one, in an older copy of the database
      select u.* into r from app.unattributed_decision u join app.deposit d on d.id = u.deposit_id
      where d.chain = s.chain and d.address = s.source and s.id in (select i.id from app.return_outgoing_payment_ids(d, 'sweep') i);
    end if;
    if r.deposit_id is not null then
      own := least(fee, r.amount);
      update app.unattributed_decision u set amount = u.amount - own where u.deposit_id = r.deposit_id;
      perform app.post('return', s.id::text, s.chain, jsonb_build_array(
        jsonb_build_object('account', 'unattributed', 'token', native, 'amount', own),
        jsonb_build_object('account', 'address', 'token', native, 'address', s.fee_payer, 'amount', -own)));
      if own = fee then return; end if;
      fee := fee - own;
      s.merchant_id := (select a.merchant_id from custody.address a where a.address = s.fee_payer);
    end if;
    perform app.add_holding(s.chain, s.fee_payer, native, s.merchant_id, -fee);
    perform app.add_share(s.chain, native, s.merchant_id, fee, 0);
  end if;
  perform app.post('network_fee', s.id::text, s.chain, jsonb_build_array(
    jsonb_build_object('account', 'network', 'token', native, 'merchant_id', s.merchant_id, 'amount', fee),
    jsonb_build_object('account', case when by_treasury then 'treasury' when s.from_gas then 'gas' else 'address' end, 'token', native,
      'merchant_id', case when not s.from_gas then s.merchant_id end,
      'address', case when not by_treasury then s.fee_payer end, 'amount', -fee)));
  update app.payout p set network_fee = p.network_fee + post_network_fee.fee where p.id = s.payout_id;
end $function$;

-- Posts what a sweep moved to the treasury, and its network fee, after its payment had ended by another transaction; both in base units.
CREATE OR REPLACE FUNCTION app.post_second_sweep(s app.outgoing_payment, moved numeric, fee numeric)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
declare
  native text := app.native_token(s.chain);
  own_fee numeric := case when s.fee_payer = app.treasury_address(s.chain) or s.from_gas then 0 else fee end;
begin
  if s.merchant_id is null and moved + own_fee <= (select sum(e.amount) from app.ledger_entry e
    where e.account = 'address' and e.merchant_id is null and e.chain = s.chain and e.address = s.source and e.token = s.token)
  then
    if own_fee = 0 then perform app.post_network_fee(s, fee); end if;
    perform app.add_treasury(s.chain, s.token, moved, 0);
    perform app.post('second_payment', s.id::text, s.chain, jsonb_build_array(
      jsonb_build_object('account', 'treasury', 'token', s.token, 'amount', moved),
      jsonb_build_object('account', 'network', 'token', native, 'amount', own_fee),
      jsonb_build_object('account', 'address', 'token', s.token, 'address', s.source, 'amount', -moved),
      jsonb_build_object('account', 'address', 'token', native, 'address', s.source, 'amount', -own_fee)));
    return;
  end if;
  s.merchant_id := (select a.merchant_id from custody.address a where a.address = s.source);
  perform app.post_network_fee(s, fee);
  if moved > 0 then perform app.post_sweep(s, moved); end if;
end $function$;

-- Posts what a final transaction moved and cost after its payment had ended by another one; its fee (in base units), too.
CREATE OR REPLACE FUNCTION app.post_second_transaction(s app.outgoing_payment, of_txid text, pays boolean, moved numeric, fee numeric)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
declare
  more_fee numeric := fee - coalesce((select sum(x.fee_paid) from app.outgoing_payment x where x.txid = of_txid and x.id in (
    select p from chain.confirmed_tx i cross join lateral app.payments_of(i.chain, i.txid, i.conflict_key) p where i.chain = s.chain and i.txid = of_txid)), 0);
  paid numeric := case when s.kind in ('sweep', 'cancel', 'fund', 'defund') then 0 else moved end;
  lost numeric := paid;
begin
  s.max_fee := 0; -- what was reserved for it was given back when it ended
  s.payout_id := null;
  if app.uses_outputs(s.chain) then
    lost := app.take_second_outputs(s, of_txid) - more_fee;
    perform app.post_network_fee(s, more_fee);
  elsif s.kind in ('sweep', 'cancel') then
    perform app.post_second_sweep(s, moved, more_fee);
  else
    perform app.post_network_fee(s, more_fee);
    if s.kind = 'fund' and moved > 0 then perform app.post_fund(s); end if;
    if s.kind = 'defund' and moved > 0 then perform app.post_defund(s, moved); end if;
  end if;
  perform app.release_after_sweep(s);
  perform app.post_loss(s, lost);
  perform app.note_booked(s, of_txid, pays, paid, more_fee);
end $function$;

-- Posts money of a merchant that moved from its address to the treasury (in base units).
CREATE OR REPLACE FUNCTION app.post_sweep(s app.outgoing_payment, moved numeric)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
begin
  perform app.add_holding(s.chain, s.source, s.token, s.merchant_id, -moved);
  perform app.add_treasury(s.chain, s.token, moved, 0);
  perform app.add_share(s.chain, s.token, s.merchant_id, moved, 0);
  perform app.post('sweep', s.id::text, s.chain, jsonb_build_array(
    jsonb_build_object('account', 'treasury', 'token', s.token, 'merchant_id', s.merchant_id, 'amount', moved),
    jsonb_build_object('account', 'address', 'token', s.token, 'merchant_id', s.merchant_id, 'address', s.source, 'amount', -moved)));
end $function$;

-- Gives a user an address on each of the chains where it has none yet; returns whether one is new, and the body of the response.
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

-- Finds the user with this reference, or makes it with this metadata (null: none), and gives it an address on each of the chains (null: all that are enabled); returns whether the user is new, and the body of the response.
CREATE OR REPLACE FUNCTION app.provision_user(of_merchant uuid, of_external_ref text, chains text[], of_metadata jsonb DEFAULT NULL::jsonb, OUT created boolean, OUT body text)
 RETURNS record
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
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
end $function$;

-- The form in which merchants see an id: prefix, underscore, 32 hex digits.
CREATE OR REPLACE FUNCTION app.public_id(prefix text, id uuid)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN ((prefix || '_'::text) || encode(uuid_send(id), 'hex'::text));

-- The current state of a merchant's payment request, with its receipts. Its amount outside of the body is what is to be sent now: 0 once enough was seen, and after its end.
CREATE OR REPLACE FUNCTION app.read_payment_request(of_merchant uuid, of_external_id text)
 RETURNS SETOF app.payment_response
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select row_to_json(b)::text, r.chain, r.token, w.address, case when least(r.expires_at, r.cancelled_at) > statement_timestamp() then app.payment_missing(r) else 0 end::text
  from app.payment_request r
  join app.asset a on a.chain = r.chain and a.token = r.token
  join app.address w on w.payment_request_id = r.id and w.chain = r.chain
  cross join lateral (
    select r.external_id, a.name as currency, w.address, app.decimal(r.amount, a.decimals) as amount, app.decimal(r.tolerance, a.decimals) as tolerance,
      r.status, app.why_payment(r) as explanation,
      app.decimal(r.received, a.decimals) as amount_received, app.decimal(r.pending, a.decimals) as amount_pending,
      app.decimal(greatest(r.amount - r.received, 0), a.decimals) as shortfall, app.decimal(app.payment_missing(r), a.decimals) as amount_missing,
      r.late, r.txid, app.iso(r.paid_at) as paid_at, app.iso(r.created_at) as created_at, app.iso(r.expires_at) as expires_at,
      app.iso(r.cancelled_at) as cancelled_at, r.metadata, r.return_url, r.page_token,
      (select coalesce(json_agg(row_to_json(i) order by c.seq), '[]') from app.receipt c cross join lateral (
        select c.txid, c.output_index, app.decimal(c.amount, a.decimals) as amount, c.status,
          app.confirmations(r.chain, c.block_height) as confirmations, c.late,
          app.public_id('pay', c.settlement_id) as settlement_id, app.iso(c.created_at) as created_at) i
        where c.payment_request_id = r.id) as receipts
  ) b
  where r.merchant_id = of_merchant and r.external_id = app.request_ref(of_merchant, of_external_id)
$function$;

-- Stores the results of attempts at one endpoint and updates their deliveries; returns why they disabled the endpoint (gone or failing), or null.
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
  has_other boolean;
  first_gone timestamptz;
  last_gone timestamptz;
  reason text;
begin
  perform from app.webhook_endpoint w where w.id = of_endpoint for no key update; -- before its deliveries: the order of locks
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
    from result r where d.id = r.delivery_id and d.id = any(deliveries) and d.status = 'pending' and d.attempts = r.number - 1
  ), last as ( -- no answer at all says nothing about 410
    select coalesce(max(n) filter (where error is null), 0) as success, coalesce(max(n) filter (where response_status <> 410), 0) as other from result
  )
  select l.success > 0, min(r.attempted_at) filter (where r.n > l.success),
    l.other > 0, min(r.attempted_at) filter (where r.response_status = 410 and r.n > l.other), max(r.attempted_at) filter (where r.response_status = 410 and r.n > l.other)
  into has_success, first_failure, has_other, first_gone, last_gone
  from result r cross join last l group by l.success, l.other;

  update app.webhook_endpoint w set failing_since = f.since, gone_since = f.gone
  from (select case when has_success then first_failure else coalesce(o.failing_since, first_failure) end as since,
      case when has_other then first_gone else coalesce(o.gone_since, first_gone) end as gone
    from app.webhook_endpoint o where o.id = of_endpoint) f
  where w.id = of_endpoint and (w.failing_since, w.gone_since) is distinct from (f.since, f.gone);

  update app.webhook_endpoint w
  set disabled_at = at, disabled_reason = case when w.gone_since <= last_gone - interval '1 minute' then 'gone' else 'failing' end,
    failing_since = null, gone_since = null
  where w.id = of_endpoint and w.disabled_at is null
    and (w.gone_since <= last_gone - interval '1 minute' or (first_failure is not null and w.failing_since < at - interval '5 days'))
  returning w.disabled_reason into reason;
  if reason is not null then perform app.add_endpoint_event(of_endpoint, 'webhook_endpoint.disabled'); end if;
  return reason;
end $function$;

-- Notes that a stored transaction was given to a node, the node's error (null: the node took it), and when it is checked again.
CREATE OR REPLACE FUNCTION app.record_broadcast(of_chain text, of_txid text, error text, retry_ms integer)
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  with sent as (
    update app.outgoing_attempt o set broadcast_at = clock_timestamp(), broadcast_error = error where o.chain = of_chain and o.txid = of_txid
    returning o.outgoing_payment_id
  )
  update app.outgoing_payment s set next_step_at = clock_timestamp() + retry_ms * interval '1 millisecond',
    waiting_reason = nullif(s.waiting_reason, 'node_unreachable'), -- it responded, so it is reachable
    waiting_detail = case when s.waiting_reason <> 'node_unreachable' then s.waiting_detail end,
    waiting_since = case when s.waiting_reason <> 'node_unreachable' then s.waiting_since end
  from sent where s.id = sent.outgoing_payment_id and s.next_step_at is not null
$function$;

-- Stores what the comparison of some addresses with the chain found, and its position; opens, updates or closes the incident. last: the match_key of the last of them, null if none were left. Safe to run twice.
CREATE OR REPLACE FUNCTION app.record_comparison(of_chain text, claim text, after text, last text, addresses text[], differences jsonb, of_unread text, at_height integer, took interval)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare differing record;
begin
  delete from app.chain_difference d where of_unread is null and d.chain = of_chain and d.address = any(addresses) and not exists (
    select from jsonb_to_recordset(differences) f (address text, token text, outpoint text)
    where f.address = d.address and f.token = d.token and f.outpoint = d.outpoint);
  insert into app.chain_difference as d (chain, address, token, outpoint, ledger, on_chain, from_height, handed_out_at)
  select of_chain, f.address, f.token, f.outpoint, f.ledger, f.on_chain, f.from_height, f.handed_out_at
  from jsonb_to_recordset(differences) f
    (address text, token text, outpoint text, ledger numeric, on_chain numeric, from_height int, handed_out_at timestamptz)
  on conflict (chain, address, token, outpoint) do update set ledger = excluded.ledger, on_chain = excluded.on_chain,
    from_height = least(d.from_height, excluded.from_height); -- what was missing before is still missing
  update app.comparison c set compared = c.compared + cardinality(addresses), height = least(c.height, at_height),
    unread = coalesce(c.unread, of_unread), error = null, next_at = clock_timestamp() + 3 * took,
    position = case when exists (select from app.address a where a.chain = of_chain and a.match_key > last) then last end
  where c.chain = of_chain and c.position = after;
  update app.comparison c set since = c.began_at, since_height = c.height
  where c.chain = of_chain and c.position is null and c.unread is null and c.since is distinct from c.began_at;
  select * into differing from app.found_differences(of_chain);
  perform app.tell_finding('on_chain_' || lower(of_chain), claim, differing.count, differing.found);
end $function$;

-- Makes the jobs and queues of dead workers available again; returns how many jobs did.
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

-- Sends an event to an endpoint again, now, whatever the state of its delivery.
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
  perform app.enqueue('sequence_events');
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
  if redelivered > 0 then perform app.enqueue('sequence_events'); end if;
  return redelivered;
end $function$;

-- Refreshes the materialised view of analytics that is due first, and returns its name; null if none is due, or another caller is refreshing. Each takes at most a share of the time.
CREATE OR REPLACE FUNCTION app.refresh_analytics(at_least interval DEFAULT '00:01:00'::interval, share double precision DEFAULT 0.02)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare
  of_view text;
  began timestamptz;
  problem text;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('app.refresh_analytics', 0)) then return null; end if;
  select view_name into of_view from app.analytics_refresh where due_at <= clock_timestamp() order by due_at, view_name limit 1;
  if of_view is null then return null; end if;
  began := clock_timestamp();
  begin
    execute format('refresh materialized view %s analytics.%I',
      case when (select relispopulated from pg_class where oid = to_regclass(format('analytics.%I', of_view))) then 'concurrently' else '' end, of_view);
  exception when others or query_canceled then -- a time limit of the server cancels, and would cancel the same view again and again
    problem := sqlerrm;
  end;
  update app.analytics_refresh r set
    refreshed_at = case when problem is null then began else r.refreshed_at end,
    took_seconds = case when problem is null then extract(epoch from clock_timestamp() - began) else r.took_seconds end,
    due_at = clock_timestamp() + greatest(at_least, (clock_timestamp() - began) / share),
    failed_at = case when problem is not null then clock_timestamp() end, error = problem
  where r.view_name = of_view;
  return of_view;
end $function$;

-- Updates a payment request from its receipts and the time. Safe to call at any time.
CREATE OR REPLACE FUNCTION app.refresh_payment(of_request uuid)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
 SET enable_seqscan TO 'off'
AS $function$
declare
  r app.payment_request;
  now record;
  is_expired boolean;
begin
  select * into strict r from app.payment_request p where p.id = of_request for no key update;
  is_expired := least(r.expires_at, r.cancelled_at) <= clock_timestamp();
  select * into now from app.payment_state(r, is_expired);
  if (r.status, r.received, r.pending, r.late, r.txid, r.paid_at, r.expired_at is not null, r.decide_at)
    is not distinct from (now.status, now.received, now.pending, now.late, now.txid, now.paid_at, is_expired, now.decide_at) then return; end if;
  update app.payment_request p set status = now.status, received = now.received, pending = now.pending, late = now.late, txid = now.txid,
    paid_at = now.paid_at, expired_at = case when is_expired then coalesce(p.expired_at, clock_timestamp()) end, decide_at = now.decide_at,
    position = case when now.status not in ('paid', 'underpaid') then null
      when (p.status, p.received, p.late, p.txid, p.paid_at) is distinct from (now.status, now.received, now.late, now.txid, now.paid_at) then nextval('app.payment_position')
      else p.position end
  where p.id = of_request;
  perform app.emit_payment_event(r, now.status, now.received);
end $function$;

-- Updates a payment request at COMMIT of the transaction that changed its receipts.
CREATE OR REPLACE FUNCTION app.refresh_touched_payment()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
begin
  delete from app.touched_payment where txn = new.txn and payment_request_id = new.payment_request_id;
  perform app.refresh_payment(new.payment_request_id);
  return null;
end $function$;

-- Trigger: refuses a change of a deposit, and says which.
CREATE OR REPLACE FUNCTION app.refuse_change()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
begin
  raise exception 'deposit %: % is not allowed (status % to %)', old.id, lower(tg_op), old.status, case when tg_op = 'UPDATE' then new.status end;
end $function$;

-- Raises P0003, with the way out, if a chain is halted by an incident that this decision (rewind or resume) does not resolve.
CREATE OR REPLACE FUNCTION app.refuse_decision(of_chain text, decision text)
 RETURNS void
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
declare other app.open_incident;
begin
  select * into other from app.open_incident i where i.chain = of_chain and i.halts and decision <> all (i.decisions) order by i.ids limit 1;
  if other.kind is not null then
    raise exception '% is halted by incident % (%), which a % does not resolve: %', of_chain, other.ids[1], other.kind, decision, other.way_out
      using errcode = 'P0003';
  end if;
end $function$;

-- Raises SL422 if an endpoint is disabled.
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

-- Trigger: refuses to change or delete an entry of the ledger.
CREATE OR REPLACE FUNCTION app.refuse_entry_change()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
begin
  raise exception 'ledger entries are never changed' using errcode = 'P0003';
end $function$;

-- Raises SLPAY with this message, and a code for programs as its detail.
CREATE OR REPLACE FUNCTION app.refuse_payout(code text, why text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
begin
  raise exception '%', why using errcode = 'SLPAY', detail = code;
end $function$;

-- Trigger: refuses to delete a payout.
CREATE OR REPLACE FUNCTION app.refuse_payout_delete()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
begin
  raise exception 'payouts are never deleted' using errcode = 'P0003';
end $function$;

-- Raises P0003 if an unknown transaction of an incident may have paid what a payout, a withdrawal or a return still waits to pay: it would be paid again.
CREATE OR REPLACE FUNCTION app.refuse_to_keep(of_incident app.incident)
 RETURNS void
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
declare paid record;
begin
  select u.txid, w.waits into paid from app.unknown_transaction u cross join lateral custody.paid_again(u.chain, u.txid) w (waits)
  where u.incident_id = of_incident.id and w.waits is not null limit 1;
  if found then
    raise exception 'incident %: transaction % may have paid what % still waits to pay: once it is final, sluice custody reconcile enters it; if it cannot, cancel what waits (sluice payout cancel, sluice treasury cancel), or, for a return, name another destination (sluice unattributed return)',
      of_incident.id, paid.txid, paid.waits using errcode = 'P0003';
  end if;
end $function$;

-- Raises P0003 if a deposit is on the chain as we have it, or its block was not read again yet.
CREATE OR REPLACE FUNCTION app.refuse_to_take_back(incident_id bigint, deposit app.deposit)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
declare there int;
begin
  select t.block_height into there from chain.transfer t
  where t.id = deposit.chain || ':' || deposit.txid || ':' || deposit.output_index
    and (t.recipient, t.token, t.amount) = (deposit.address, deposit.token, deposit.amount);
  if found then
    raise exception 'incident %: its deposit is on the chain, in block %; resolve it as kept', incident_id, there using errcode = 'P0003';
  end if;
  perform from chain.cursor c where c.chain = deposit.chain and c.head_height < deposit.block_height;
  if found then
    raise exception 'incident %: % is being read again and has not reached block % yet; try again when it has', incident_id, deposit.chain,
      deposit.block_height using errcode = 'P0003';
  end if;
end $function$;

-- Makes collectable what a payment that has ended swept, or no longer takes from its address. Called when that is posted.
CREATE OR REPLACE FUNCTION app.release_after_sweep(s app.outgoing_payment)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
begin
  if app.uses_outputs(s.chain) then
    perform app.release_held_back(s.chain, array_agg(u.address), array_agg(s.token)) from app.output u where u.outgoing_payment_id = s.id;
  elsif s.kind in ('sweep', 'cancel') then
    perform app.release_held_back(s.chain, array[s.source], array[s.token]);
  end if;
end $function$;

-- Makes deposits that are held back on these addresses collectable, where they are so now. The arrays are parallel. Safe to run at any time.
CREATE OR REPLACE FUNCTION app.release_held_back(of_chain text, addresses text[], tokens text[], number bigint DEFAULT NULL::bigint)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
 SET plan_cache_mode TO 'force_custom_plan'
 SET random_page_cost TO '1.1'
AS $function$
declare
  held app.deposit[];
  ids uuid[];
begin
  select array_agg(d) into held from (select distinct p.address, p.token from unnest(addresses, tokens) as p (address, token)) p
  cross join lateral (
    select * from app.deposit d where d.held_back and d.chain = of_chain and d.token = p.token and d.address = p.address offset 0
  ) d;
  if held is null then return; end if;
  with leaving as materialized (
    select * from app.leaving(of_chain)
  ), place as (
    select p.address, p.token, a.sweep_min, coalesce(h.amount, 0) as holds, coalesce(h.amount, 0) - coalesce(l.amount, 0) as unswept,
      app.is_blocked(of_chain, p.token, p.address) as is_blocked
    from (select distinct d.address, d.token from unnest(held) d) p
    join app.asset a on a.chain = of_chain and a.token = p.token
    left join app.holding h on h.chain = of_chain and h.address = p.address and h.token = p.token
    left join leaving l on l.address = p.address and l.token = p.token
  ), small as (
    select d.*, sum(d.amount) over (partition by d.address, d.token order by d.finalisation desc, d.seq desc) as with_newer from unnest(held) d
  )
  select array_agg(d.id) into ids from small d join place p using (address, token)
  where not p.is_blocked and (d.amount >= p.sweep_min or d.released is not null) or case
    when app.uses_outputs(of_chain) then exists (
      select from app.output u where u.chain = of_chain and u.txid = d.txid and u.vout = d.output_index and u.spent_by is not null)
    else not p.is_blocked and p.unswept >= p.sweep_min or (d.with_newer > p.holds and p.holds >= 0) end;
  if ids is null then return; end if;
  if number is null then update chain.cursor c set finalisation = c.finalisation + 1 where c.chain = of_chain returning c.finalisation into number; end if;
  perform app.lock_pair(d.merchant_id, of_chain, d.token) from (
    select distinct d.merchant_id, d.token from unnest(held) d where d.settlement_id is not null order by 1, 2) d;
  with freed as (
    update app.deposit d set held_back = false, released = number where d.id = any(ids) and d.held_back
    returning d.merchant_id, d.token, d.amount, d.settlement_id
  )
  insert into app.balance_delta (merchant_id, chain, token, amount, deposit_count, held_back, held_back_count)
  select f.merchant_id, of_chain, f.token, 0, 0, -sum(f.amount), -count(*) from freed f
  where f.settlement_id is null or exists (select from app.payout p where p.id = f.settlement_id and p.status = 'failed')
  group by f.merchant_id, f.token;
end $function$;

-- Removes the payout from deposits that it claimed and that were lost afterwards, and cancels the debts that stand for them; returns how many there are, their sum in its claim (base units), and how many are final again.
CREATE OR REPLACE FUNCTION app.release_lost(p app.payout, OUT claimed_count bigint, OUT claimed_amount numeric, OUT final_count bigint)
 RETURNS record
 LANGUAGE sql
 SET search_path TO 'pg_catalog'
AS $function$
  with lost as (
    update app.deposit d set settlement_id = null
    from (select a.deposit_id, sum(a.amount) as debt from app.adjustment a
      where a.merchant_id = p.merchant_id and a.chain = p.chain and a.token = p.token group by a.deposit_id) a
    where d.id = a.deposit_id and d.settlement_id = p.id
    returning d.id, d.status = 'final' as is_final, d.amount, a.debt
  ), cancelled as (
    insert into app.adjustment (merchant_id, chain, token, amount, deposit_id, reason)
    select p.merchant_id, p.chain, p.token, -debt, id, 'payout_failed' from lost where debt <> 0
  )
  select count(*), coalesce(sum(case when is_final then amount else 0 end - debt), 0), count(*) filter (where is_final) from lost
$function$;

-- Fails a payout, whose row the caller has locked, for this reason: its gross goes back to the balance, the release of its deposits begins, and payout.failed is emitted.
CREATE OR REPLACE FUNCTION app.release_payout(of_payout uuid, code text, message text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
declare
  p app.payout;
  claimed app.claim;
  lost record;
begin
  update app.payout o set status = 'failed', error_code = code, error_message = message where o.id = of_payout returning * into strict p;
  perform app.lock_pair(p.merchant_id, p.chain, p.token);
  select * into strict claimed from app.claim c where c.payout_id = p.id and c.kind = 'claim';
  update app.adjustment a set settlement_id = null where a.settlement_id = p.id;
  select * into strict lost from app.release_lost(p);
  insert into app.claim (kind, payout_id, merchant_id, chain, token, cutoff, deposit_count, amount)
  values ('release', p.id, p.merchant_id, p.chain, p.token, claimed.cutoff, claimed.deposit_count - lost.claimed_count,
    claimed.amount - lost.claimed_amount);
  -- Only what was claimed before anything was held back can be.
  insert into app.balance_delta (merchant_id, chain, token, amount, deposit_count, held_back, held_back_count)
  select p.merchant_id, p.chain, p.token, p.gross, claimed.deposit_count - lost.claimed_count + lost.final_count, coalesce(sum(d.amount), 0), count(*)
  from app.deposit d where d.held_back and d.chain = p.chain and d.token = p.token and d.settlement_id = p.id;
  perform app.post('release', p.id::text, p.chain, jsonb_build_array(
    jsonb_build_object('account', 'payout', 'token', p.token, 'merchant_id', p.merchant_id, 'amount', p.gross),
    jsonb_build_object('account', 'merchant', 'token', p.token, 'merchant_id', p.merchant_id, 'amount', -p.gross)));
  perform app.wake_allocation(p);
  perform app.emit_payout_event(p, 'payout.failed');
end $function$;

-- An operator's decision to offer a higher fee for a payment under way, now, even if its chain is halted.
CREATE OR REPLACE FUNCTION app.replace_payout_by_operator(of_payout uuid)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare p app.payout;
begin
  select * into p from app.payout o where o.id = of_payout for update;
  if p.id is null then raise exception 'there is no payout with this id' using errcode = 'SL404', detail = 'payout'; end if;
  if exists (select from app.chain c where c.chain = p.chain and c.attempts_exclude_by = 'expiry') then
    raise exception 'nothing is replaced on %: its transactions expire, and the next one is signed when no block can hold the one before', p.chain using errcode = 'SL422';
  end if;
  update app.outgoing_payment s set next_step_at = clock_timestamp()
  where s.payout_id = p.id and s.kind = 'payout' and s.status = 'live' and not s.cancelling;
  if not found then
    raise exception 'the payout is % and has no payment under way to replace', p.status using errcode = 'SL422';
  end if;
  perform app.decide_payment(p.id, 'replace');
  perform app.wake_outgoing_payments(p.chain);
end $function$;

-- Makes the payment request with this reference, and gives it an address; with the Idempotency-Key of an earlier call, returns the same response.
CREATE OR REPLACE FUNCTION app.request_payment(of_merchant uuid, of_currency text, of_external_id text, of_amount text, of_expiry interval, of_key text, of_request bytea, of_metadata jsonb DEFAULT NULL::jsonb, of_return_url text DEFAULT NULL::text, of_tolerance text DEFAULT NULL::text, of_late_after interval DEFAULT '02:00:00'::interval)
 RETURNS app.payment_response
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare
  duplicate app.payment_request;
  asset app.asset;
  prefix text := (select m.prefix || '-' from app.merchant m where m.id = of_merchant);
  coins numeric := of_amount::numeric;
  tolerance numeric;
  r app.payment_request;
begin
  select * into duplicate from app.payment_request p where p.merchant_id = of_merchant and p.idempotency_key = of_key;
  if duplicate.id is null then
    select * into asset from app.asset a where a.name = of_currency and not app.is_disabled(a.chain, a.token);
    if asset.name is null then
      raise exception 'there is no currency with this name; GET /v1/crypto lists the currencies' using errcode = 'SL404', detail = 'currency';
    elsif not starts_with(of_external_id, prefix) or of_external_id = prefix then
      raise exception 'external_id must begin with %, followed by a reference of your own', prefix using errcode = 'SLPFX';
    elsif scale(coins) > asset.decimals then
      raise exception '% has at most % decimals', of_currency, asset.decimals using errcode = 'SLINV', detail = 'amount';
    elsif coins <= 0 then
      raise exception 'must be more than zero' using errcode = 'SLINV', detail = 'amount';
    elsif coins * 10::numeric ^ asset.decimals < asset.min_payment then
      raise exception 'amount: must be at least % %; less is no payment', app.decimal(asset.min_payment, asset.decimals), of_currency
        using errcode = 'SL422';
    elsif coins * 10::numeric ^ asset.decimals < asset.sweep_min then
      raise exception 'amount: must be at least % %; less is not worth collecting from its address, which is used for nothing else',
        app.decimal(asset.sweep_min, asset.decimals), of_currency using errcode = 'SL422';
    elsif coins * 10::numeric ^ asset.decimals > asset.max_payment then
      raise exception 'amount: there are not so many %', of_currency using errcode = 'SL422';
    elsif not exists (select from app.merchant_chain m where m.merchant_id = of_merchant and m.chain = asset.chain and m.enabled) then
      raise exception 'not enabled for this account: %', asset.chain using errcode = 'SLCHN';
    end if;
    perform app.lock_reference(of_merchant, of_external_id);
    of_external_id := app.request_ref(of_merchant, of_external_id); -- so that another form of it conflicts, too
    perform from app.payment_request p where p.merchant_id = of_merchant and p.external_id = of_external_id;
    if not found then perform app.require_clear_reference('external_id', of_external_id); end if;
    tolerance := app.tolerance_of(of_merchant, coins * 10::numeric ^ asset.decimals, of_tolerance, asset.decimals);
    insert into app.payment_request as p (merchant_id, external_id, chain, token, amount, tolerance, detected_from, late_after, decide_at,
      page_token, idempotency_key, request_hash, expires_at, metadata, return_url)
    values (of_merchant, of_external_id, asset.chain, asset.token, coins * 10::numeric ^ asset.decimals, tolerance, asset.min_payment, of_late_after,
      clock_timestamp() + of_expiry, translate(substr(app.new_webhook_secret(), 7), '+/', '-_'), of_key, case when of_key is not null then of_request end, clock_timestamp() + of_expiry,
      coalesce(of_metadata, '{}'), of_return_url)
    on conflict do nothing returning * into r; -- waits for a duplicate that is being made at the same time
    if r.id is null then
      select * into duplicate from app.payment_request p where p.merchant_id = of_merchant and p.idempotency_key = of_key;
    end if;
  end if;
  if r.id is not null then
    perform app.take_payment_address(r);
  elsif duplicate.id is null then
    raise exception 'there is a payment request with this external_id; GET /v1/payment-requests/<external_id> shows it' using errcode = 'SL409';
  elsif duplicate.request_hash <> of_request then
    raise exception 'this Idempotency-Key was used with another request' using errcode = 'SLIDK';
  end if;
  return app.created_payment_request(coalesce(r.id, duplicate.id));
end $function$;

-- The reference of the payment request that a text names, as it is stored; the text itself if it names none. A request with this very text comes first, then one with another Unicode form of it.
CREATE OR REPLACE FUNCTION app.request_ref(of_merchant uuid, given text)
 RETURNS text
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select coalesce(
    (select r.external_id from app.payment_request r where r.merchant_id = of_merchant and r.external_id = given),
    (select r.external_id from app.payment_request r where r.merchant_id = of_merchant and r.external_id = normalize(given, NFC)),
    -- All of them: with a limit, PostgreSQL would read the merchant's requests in their order until it finds one.
    (select (array_agg(r.external_id order by r.seq))[1] from app.payment_request r
      where r.merchant_id = of_merchant and normalize(r.external_id, NFC) = normalize(given, NFC) and r.external_id is not nfc normalized),
    given)
$function$;

-- An operator's decision that a chain is read again from a height; its indexer carries it out.
CREATE OR REPLACE FUNCTION app.request_rewind(of_chain text, to_height integer)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
begin
  perform app.refuse_decision(of_chain, 'rewind');
  update chain.cursor c set rewind_to = to_height where c.chain = of_chain and to_height >= 0 and to_height <= c.head_height;
  if not found then raise exception '% is not followed, or its head is below %', of_chain, to_height using errcode = 'P0003'; end if;
end $function$;

-- Refuses a new name or label that looks like another one; null passes.
CREATE OR REPLACE FUNCTION app.require_clear_name(what text, value text)
 RETURNS void
 LANGUAGE plpgsql
 IMMUTABLE
 SET search_path TO 'pg_catalog'
AS $function$
declare wrong text := app.unclear(value, has_joiners => true);
begin
  if wrong is not null then raise exception '% %', what, wrong using errcode = 'SL422'; end if;
end $function$;

-- Refuses a new reference that looks like another one.
CREATE OR REPLACE FUNCTION app.require_clear_reference(field text, value text)
 RETURNS void
 LANGUAGE plpgsql
 IMMUTABLE
 SET search_path TO 'pg_catalog'
AS $function$
declare wrong text := app.unclear(value, has_joiners => false);
begin
  if wrong is not null then raise exception '%', wrong using errcode = 'SLINV', detail = field; end if;
end $function$;

-- Reserves an amount of a token in the treasury, in base units; a negative amount gives it back.
CREATE OR REPLACE FUNCTION app.reserve(of_chain text, of_token text, more numeric)
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'pg_catalog'
AS $function$
  update app.treasury set reserved = reserved + more where chain = of_chain and token = of_token
$function$;

-- Reserves the outputs of CPFP children whose parent is final.
CREATE OR REPLACE FUNCTION app.reserve_cpfp_outputs(of_chain text)
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'pg_catalog'
 SET plan_cache_mode TO 'force_custom_plan'
AS $function$
  update app.output u set outgoing_payment_id = b.outgoing_payment_id, from_attempt = 1
  from app.cpfp b join app.outgoing_payment x on x.id = b.outgoing_payment_id
  where x.chain = of_chain and x.status <> 'final' and u.chain = of_chain and u.txid = b.txid and u.txid || ':' || u.vout = any(b.outputs)
    and u.outgoing_payment_id is null and u.spent_by is null
$function$;

-- Reserves gas (in base units) for an attempt of an outgoing payment that may cost so much more; a defund moves less instead.
CREATE OR REPLACE FUNCTION app.reserve_gas(s app.outgoing_payment, more numeric)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
declare less numeric := case when s.kind = 'defund' then least(more, s.amount - 1) else 0 end;
begin
  update app.outgoing_payment x set amount = x.amount - less where x.id = s.id and less > 0;
  perform app.add_gas(s.chain, s.fee_payer, 0, more - less);
end $function$;

-- Reserves outputs as inputs of an outgoing payment, from this attempt on. The caller knows that they are free.
CREATE OR REPLACE FUNCTION app.reserve_outputs(of_chain text, inputs text[], of_outgoing_payment uuid, attempt integer)
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'pg_catalog'
AS $function$
  update app.output u set outgoing_payment_id = of_outgoing_payment, from_attempt = attempt
  from (select split_part(i, ':', 1) as txid, split_part(i, ':', 2)::int as vout from unnest(inputs) i) k
  where u.chain = of_chain and u.txid = k.txid and u.vout = k.vout
$function$;

-- An operator's decision about an incident: kept, reorged to take a final deposit back, loss or debt for a second payment.
CREATE OR REPLACE FUNCTION app.resolve_incident(incident_id bigint, decision text)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare
  incident app.incident;
  deposit app.deposit;
  way_out text;
begin
  if (decision in ('kept', 'reorged', 'loss', 'debt', 'absent')) is not true then
    raise exception 'there is no decision %; use kept, reorged, loss, debt or absent', coalesce(decision, 'null') using errcode = 'SL422';
  end if;
  select * into incident from app.incident i where i.id = incident_id;
  perform from chain.cursor c
  where c.chain = case incident.kind when 'unproven_expiry' then split_part(incident.subject, ':', 1) else incident.chain end for update; -- before the incident, as chain.derive does
  if decision = 'reorged' and incident.kind like 'final_deposit_%' then -- and its payout before that: the order of locks
    select * into deposit from app.deposit d where d.id = incident.subject::uuid;
    perform app.allocate_all_deposits(deposit.merchant_id, deposit.chain, deposit.token);
    select * into deposit from app.deposit d where d.id = deposit.id;
    perform from app.payout p where p.id = deposit.settlement_id for update;
    perform app.lock_treasury(deposit.chain);
    perform app.lock_pair(deposit.merchant_id, deposit.chain, deposit.token); -- a claim that has counted it is allocated now, or counts without it
    perform app.allocate_all_deposits(deposit.merchant_id, deposit.chain, deposit.token);
    perform from app.deposit d where d.id = deposit.id and d.settlement_id is distinct from deposit.settlement_id;
    if found then
      raise exception 'incident %: a payout is claiming the deposit at this moment; try again', incident_id using errcode = '40001';
    end if;
  end if;
  select * into incident from app.incident i where i.id = incident_id for update;
  if incident.id is null then raise exception 'no incident %', incident_id using errcode = 'P0002'; end if;
  if incident.resolved_at is not null then
    raise exception 'incident % is resolved already (%)', incident_id, incident.resolution using errcode = 'P0003';
  end if;
  select app.fill_way_out(k.way_out, incident.chain, array[incident_id]) into way_out
  from app.incident_kind k where k.kind = incident.kind and decision <> all (k.decisions);
  if found then
    raise exception 'incident % (%) cannot be resolved as %: %', incident_id, incident.kind, decision, way_out using errcode = 'P0003';
  end if;
  if decision = 'reorged' then
    perform app.refuse_to_take_back(incident_id, deposit);
    perform app.take_back(deposit.id);
    -- Another amount or another recipient may be at its place on the chain now: deposits are derived there again.
    insert into chain.touched select pg_current_xact_id(), t.chain, t.id from chain.transfer t
    where t.id = deposit.chain || ':' || deposit.txid || ':' || deposit.output_index;
    insert into chain.touched_chain values (pg_current_xact_id(), deposit.chain) on conflict do nothing;
    update app.incident i set resolved_at = clock_timestamp(), resolution = 'reorged'
    where i.resolved_at is null and (i.subject = incident.subject
      or i.subject = deposit.chain || ':' || deposit.txid || ':' || deposit.output_index);
  elsif incident.kind = 'unproven_expiry' then
    perform app.decide_absent(incident);
    update app.incident i set resolved_at = clock_timestamp(), resolution = decision where i.id = incident_id;
  elsif incident.kind = 'second_payment' then
    perform app.decide_second_payment(incident, decision);
    update app.incident i set resolved_at = clock_timestamp(), resolution = decision where i.id = incident_id;
    perform chain.go_on(incident.chain);
  else
    if incident.kind = 'final_deposit_moved' then -- otherwise it would be an incident again each time that its block is read
      update app.deposit d set block_height = t.block_height, block_hash = t.block_hash
      from chain.transfer t where d.id = incident.subject::uuid and t.id = d.chain || ':' || d.txid || ':' || d.output_index
        and (t.recipient, t.token, t.amount) = (d.address, d.token, d.amount);
    end if;
    if incident.kind = 'unknown_transaction' then
      perform app.refuse_to_keep(incident);
      perform app.pass_nonces(incident);
    end if;
    update app.incident i set resolved_at = clock_timestamp(), resolution = 'kept' where i.id = incident_id;
  end if;
end $function$;

-- An operator's decision that a halted chain is resumed as it is. P0003 if it is halted for another reason.
CREATE OR REPLACE FUNCTION app.resume_chain(of_chain text)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
begin
  perform from chain.cursor c where c.chain = of_chain for update;
  perform app.refuse_decision(of_chain, 'resume');
  update app.incident i set resolved_at = clock_timestamp(), resolution = 'resumed'
  where i.chain = of_chain and i.kind = 'fork_below_final' and i.resolved_at is null;
  perform chain.go_on(of_chain);
end $function$;

-- Wakes a waiting payout and its transactions at once.
CREATE OR REPLACE FUNCTION app.retry_payout(of_payout uuid)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare p app.payout;
begin
  update app.payout o set next_step_at = case when o.status <> 'paying' then clock_timestamp() end
  where o.id = of_payout and o.status not in ('completed', 'failed') returning * into p;
  if p.id is null then
    perform from app.payout o where o.id = of_payout;
    if not found then raise exception 'there is no payout with this id' using errcode = 'SL404', detail = 'payout'; end if;
    raise exception 'the payout has ended; request a new one' using errcode = 'SL422';
  end if;
  update app.outgoing_payment s set next_step_at = clock_timestamp() where s.payout_id = p.id and s.status <> 'final';
  perform app.wake_payout(p.id), app.wake_outgoing_payments(p.chain);
end $function$;

-- Whether a transaction of a return is under way, or done.
CREATE OR REPLACE FUNCTION app.return_is_under_way(r app.unattributed_decision)
 RETURNS boolean
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select exists (select from app.outgoing_payment s where s.id in (r.sweep_id, r.withdrawal_id) and (s.status <> 'final' or s.outcome = 'done'))
$function$;

-- The 20 ids that the sweep (or the withdrawal) of a deposit's return may have, one after the other.
CREATE OR REPLACE FUNCTION app.return_outgoing_payment_ids(d app.deposit, of_kind text)
 RETURNS TABLE(n integer, id uuid)
 LANGUAGE sql
 IMMUTABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select n, md5(concat_ws(':', 'return', of_kind, d.chain, d.txid, d.output_index, d.address, d.token, n))::uuid from generate_series(0, 19) n
$function$;

-- Decides that unattributed value is returned to this address; the worker carries it out.
CREATE OR REPLACE FUNCTION app.return_unattributed(of_deposit uuid, to_address text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
declare
  d app.deposit := app.lock_unattributed(of_deposit);
  r app.unattributed_decision;
begin
  if app.uses_outputs(d.chain) then
    raise exception 'Sluice cannot return value that arrived on %', d.chain using errcode = 'SL422';
  end if;
  select * into r from app.unattributed_decision u where u.deposit_id = d.id;
  if exists (select from app.outgoing_payment s where s.id = r.withdrawal_id and s.outcome = 'done') then
    raise exception '% was returned already', app.public_id('dep', d.id) using errcode = 'SL422';
  elsif exists (select from app.outgoing_payment s where s.id = r.withdrawal_id and s.status <> 'final') then
    raise exception '% is already being sent to %; to stop it, run sluice treasury cancel %', app.public_id('dep', d.id), r.destination, r.withdrawal_id
      using errcode = 'SL422';
  end if;
  insert into app.unattributed_decision as u (deposit_id, decision, amount, destination) values (d.id, 'return', d.amount, to_address)
  on conflict (deposit_id) do update set destination = to_address, withdrawal_id = null, waiting_reason = null, waiting_detail = null,
    waiting_since = null, sweep_id = (select s.id from app.outgoing_payment s where s.id = u.sweep_id and (s.status <> 'final' or s.outcome = 'done'));
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

-- Makes a new secret; the old one signs, too, for 24 hours. Returns the new one, which is never shown again.
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

-- Numbers committed events that have no sequence, in the order of their insertion, at most batch of them; returns how many. Safe to run at any time and in several places.
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

-- Sets how many payouts that have begun to sweep a merchant may cancel within a day.
CREATE OR REPLACE FUNCTION app.set_cancels_per_day(of_merchant uuid, most integer)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
begin
  if most is null or most < 0 then raise exception 'the number of payouts that may be cancelled in a day cannot be below 0' using errcode = 'SL422'; end if;
  update app.merchant m set cancels_per_day = most where m.id = of_merchant;
  if not found then raise exception 'there is no merchant with this id' using errcode = 'SL404', detail = 'merchant'; end if;
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

-- Stops all keys of a merchant at once, or lets them work again. Safe to run again.
CREATE OR REPLACE FUNCTION app.set_merchant_suspended(of_merchant uuid, suspended boolean)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
begin
  update app.merchant m set suspended_at = case when suspended then coalesce(m.suspended_at, clock_timestamp()) end where m.id = of_merchant;
  if not found then raise exception 'there is no merchant with this id' using errcode = 'SL404', detail = 'merchant'; end if;
end $function$;

-- Sets how much of its new payment requests may be missing, in basis points; those that exist keep theirs.
CREATE OR REPLACE FUNCTION app.set_payment_tolerance(of_merchant uuid, bps integer)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
begin
  if bps is null or bps not between 0 and 5000 then raise exception 'the tolerance of payment requests must be 0 to 50 percent' using errcode = 'SL422'; end if;
  update app.merchant m set payment_tolerance_bps = bps where m.id = of_merchant;
  if not found then raise exception 'there is no merchant with this id' using errcode = 'SL404', detail = 'merchant'; end if;
end $function$;

-- Registers where payouts of a chain go, and replaces the address before; returns the body of the response. The address comes checked and in its display form.
CREATE OR REPLACE FUNCTION app.set_payout_address(of_merchant uuid, of_chain text, of_address text)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
begin
  if not exists (select from app.merchant_chain m where m.merchant_id = of_merchant and m.chain = of_chain and m.enabled)
    and not exists (select from app.balance_now b where b.merchant_id = of_merchant and b.chain = of_chain)
    and not exists (select from app.payout p
      where p.merchant_id = of_merchant and p.chain = of_chain and p.status not in ('completed', 'failed')) then
    raise exception 'not enabled for this account: %', of_chain using errcode = 'SLCHN';
  end if;
  perform from custody.address p where p.address = of_address;
  if found then
    raise exception 'this address belongs to this service; register an address of your own' using errcode = 'SL422';
  end if;
  insert into app.payout_address (merchant_id, chain, address) values (of_merchant, of_chain, of_address)
  on conflict (merchant_id, chain) do update set address = excluded.address, updated_at = clock_timestamp();
  return (select row_to_json(p) from (select of_chain as chain, of_address as address) p);
end $function$;

-- Sets the least amount of an asset that is worth a sweep, in base units, and with it what is held back.
CREATE OR REPLACE FUNCTION app.set_sweep_min(of_chain text, of_token text, of_amount numeric)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
declare before numeric;
begin
  perform from chain.cursor c where c.chain = of_chain for update;
  select a.sweep_min into before from app.asset a where a.chain = of_chain and a.token = of_token for no key update;
  if not found or before is not distinct from of_amount then return; end if;
  update app.asset a set sweep_min = of_amount where a.chain = of_chain and a.token = of_token;
  if before is null then
    perform app.hold_back(of_chain, of_token, of_amount);
  elsif of_amount < before then
    perform app.release_held_back(of_chain, array_agg(d.address), array_agg(of_token)) from app.deposit d
    where d.held_back and d.chain = of_chain and d.token = of_token;
  end if;
end $function$;

-- Notes how much of its payout's gross a payment brings with it, in base units, and reserves that much less of the treasury.
CREATE OR REPLACE FUNCTION app.set_swept_in(s app.outgoing_payment, brought numeric)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
begin
  update app.outgoing_payment x set swept_in = brought where x.id = s.id;
  perform app.reserve(s.chain, s.token, s.swept_in - brought);
  perform app.add_share(s.chain, s.token, s.merchant_id, 0, s.swept_in - brought);
end $function$;

-- How much of a token is missing (given in base units), in words: "USDC for sweeping short by 0.5".
CREATE OR REPLACE FUNCTION app.short_by(of_chain text, of_token text, missing numeric, for_what text DEFAULT ''::text)
 RETURNS text
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select a.token || for_what || ' short by ' || app.decimal(missing, a.decimals) from app.asset a where a.chain = of_chain and a.token = of_token
$function$;

-- What is short for such a payment, in words ("USDC short by 0.5"); null if nothing is.
CREATE OR REPLACE FUNCTION app.shortage(of_chain text, of_token text, of_merchant uuid, amount numeric, gross numeric, network_fee numeric)
 RETURNS text
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select case
    when funds < 0 then app.short_by(of_chain, of_token, -funds)
    when native <> of_token and app.operator_funds(of_chain, native) < network_fee
      then app.short_by(of_chain, native, network_fee - app.operator_funds(of_chain, native), ' for the network fee')
  end
  from app.funds_after(of_chain, of_token, of_merchant, amount, gross, network_fee) funds, app.native_token(of_chain) native
$function$;

-- Whether the indexer of a chain shows payments that are in no block yet.
CREATE OR REPLACE FUNCTION app.shows_unconfirmed(of_chain text)
 RETURNS boolean
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select coalesce((select shows_unconfirmed from app.chain where chain = of_chain), false)
$function$;

-- Stores a signed transaction as the next attempt of an outgoing payment, before it may be broadcast; amounts in base units. False if it came too late, or costs more than the operator has. Safe to run again.
CREATE OR REPLACE FUNCTION app.store_signed(of_outgoing_payment uuid, number integer, of_kind text, of_txid text, of_raw text, of_amount numeric, of_max_fee numeric, of_fee_details jsonb)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare
  s app.outgoing_payment;
  native text;
  more numeric;
begin
  select * into s from app.outgoing_payment x where x.id = of_outgoing_payment;
  perform from app.payout p where p.id = s.payout_id for update;
  perform app.lock_treasury(s.chain);
  select * into s from app.outgoing_payment x where x.id = of_outgoing_payment for update;
  if s.status = 'final' or (s.cancelling and of_kind = 'effect')
    or number <> 1 + (select count(*) from app.outgoing_attempt o where o.outgoing_payment_id = s.id)
    or exists (select from app.outgoing_attempt o where o.chain = s.chain and o.txid = of_txid and o.outgoing_payment_id = s.id) then
    return false;
  end if;
  perform from custody.journal j where j.stream = s.chain and j.txid = of_txid and j.conflict_key is distinct from s.conflict_key;
  if found then
    raise exception 'transaction % was signed with another nonce or first input than that of outgoing payment %', of_txid, s.id using errcode = 'P0003';
  end if;
  perform from custody.journal j where j.stream = s.chain and j.txid = of_txid and s.conflict_key is null
    and j.subject_id is distinct from case s.kind when 'payout' then s.payout_id else s.id end;
  if found then
    raise exception 'transaction % was signed for another payment than %', of_txid, s.id using errcode = 'P0003';
  end if;
  native := app.native_token(s.chain);
  more := greatest(of_max_fee - s.max_fee, 0);
  if more > 0 and s.fee_payer = app.treasury_address(s.chain) then
    if app.operator_funds(s.chain, native) < more then return false; end if;
    perform app.reserve(s.chain, native, more);
  elsif more > 0 and s.from_gas then
    if app.gas_for(s) < more then return false; end if;
    perform app.reserve_gas(s, more);
  end if;
  insert into app.outgoing_attempt (chain, txid, outgoing_payment_id, attempt, kind, raw, token, source, recipient, amount, max_fee, fee_details)
  values (s.chain, of_txid, s.id, number, of_kind, of_raw, case of_kind when 'cancel' then native else s.token end,
    case when of_kind = 'cancel' and s.nonce is not null then s.fee_payer else s.source end,
    case of_kind when 'cancel' then s.fee_payer else s.recipient end, of_amount, of_max_fee, of_fee_details);
  update app.outgoing_payment x set status = 'live', max_fee = x.max_fee + more, waiting_reason = null, waiting_detail = null, waiting_since = null,
    next_step_at = clock_timestamp()
  where x.id = s.id;
  if s.kind = 'payout' and of_kind = 'effect' then
    update app.payout p set status = 'paying' where p.id = s.payout_id and p.status = 'swept';
  end if;
  return true;
end $function$;

-- Stores attempts that a final block holds, custody signed, and the worker never stored.
CREATE OR REPLACE FUNCTION app.store_what_is_final(of_chain text, final_height integer)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
 SET plan_cache_mode TO 'force_custom_plan'
AS $function$
declare found_final record;
begin
  for found_final in
    select x as payment, j as entry from app.outgoing_payment x
    cross join lateral (
      select e.seq from custody.journal e where e.stream = x.chain and e.subject_id = case x.kind when 'payout' then x.payout_id else x.id end
      union
      select e.seq from custody.journal_key k join custody.journal e using (stream, seq)
      where k.stream = x.chain and k.conflict_key = x.conflict_key and e.kind = 'cancel') its
    join custody.journal j on j.stream = x.chain and j.seq = its.seq
    where x.chain = of_chain and x.status <> 'final'
      and exists (select from chain.confirmed_tx i where i.chain = j.stream and i.txid = j.txid and i.block_height <= final_height)
      and not exists (select from app.outgoing_attempt o where o.chain = j.stream and o.txid = j.txid)
    order by x.payout_id, x.id, j.seq
  loop
    perform app.lock_treasury(of_chain);
    perform custody.recover_attempt(found_final.payment, found_final.entry);
  end loop;
end $function$;

-- A token that is not supported, as deposits name it: where upper and lower case make no difference in addresses, its contract in lower case.
CREATE OR REPLACE FUNCTION app.stored_token(of_chain text, given text)
 RETURNS text
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select app.match_key(given, c.folds_addresses) from app.chain c where c.chain = of_chain
$function$;

-- Notes those of these transactions in blocks that were signed for an outgoing payment that ended by another transaction.
CREATE OR REPLACE FUNCTION app.suspect_second_payments(txids text[])
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'pg_catalog'
 SET plan_cache_mode TO 'force_custom_plan'
AS $function$
  insert into app.second_payment (chain, txid, outgoing_payment_id)
  select j.stream, j.txid, s.id from unnest(txids) t (txid) join custody.journal j on j.txid = t.txid
  cross join lateral (
    select x.* from app.outgoing_payment x where x.payout_id = j.subject_id and x.kind = 'payout'
    union all select x.* from app.outgoing_payment x where x.id = j.subject_id
    union all select x.* from app.outgoing_payment x where j.kind = 'cancel' and x.chain = j.stream and x.conflict_key = j.conflict_key
  ) s
  where s.status = 'final' and (s.txid is distinct from j.txid or s.outcome = 'conflicted')
    and exists (select from chain.confirmed_tx i where i.chain = j.stream and i.txid = j.txid)
  on conflict do nothing
$function$;

-- Notes the transactions in blocks that were signed for an outgoing payment that has just ended, and did not end it.
CREATE OR REPLACE FUNCTION app.suspect_second_payments_of(s app.outgoing_payment)
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'pg_catalog'
AS $function$
  select app.suspect_second_payments(array(select j.txid from custody.journal j
    where j.subject_id in (s.id, s.payout_id) and j.txid is not null
    union all select j.txid from custody.journal_key k join custody.journal j using (stream, seq) where k.stream = s.chain and k.conflict_key = s.conflict_key))
$function$;

-- The sweeps of an address, and the funds for them, that failed within a day and after the last one that did not: how many, why the newest one, and when the address may be swept again.
CREATE OR REPLACE FUNCTION app.sweep_failures(of_chain text, of_token text, of_address text, OUT failures integer, OUT failure text, OUT retry_at timestamp with time zone)
 RETURNS record
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select count(*)::int, (array_agg(f.failure order by f.final_at desc))[1],
    max(f.final_at) + least(case when count(*) filter (where costs) < 2 then 0 else 8 ^ least(count(*) filter (where costs) - 2, 9) end
      * interval '1 minute', interval '1 day')
  from app.failed_sweep f cross join lateral (select f.outcome <> 'expired' as costs) c
  where f.chain = of_chain and f.token = of_token and f.address = of_address
$function$;

-- The account that pays the network fee of a sweep of an address: the treasury, or the address itself.
CREATE OR REPLACE FUNCTION app.sweep_payer(of_chain text, of_token text, of_address text)
 RETURNS text
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select case when c.native_token = of_token and not c.treasury_pays_native_sweeps or app.sweeps_itself(of_chain, of_token) then of_address
    else app.treasury_address(of_chain) end
  from app.chain c where c.chain = of_chain
$function$;

-- The sweep of a merchant's money on an address that is not final, or the cancel of one; null if there is none.
CREATE OR REPLACE FUNCTION app.sweep_under_way(of_chain text, of_token text, of_address text)
 RETURNS uuid
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select s.id from app.outgoing_payment s
  where s.chain = of_chain and s.source = of_address and s.token = of_token and s.kind in ('sweep', 'cancel') and s.status <> 'final' and s.merchant_id is not null
  order by s.nonce desc limit 1
$function$;

-- Addresses of a payout's merchant whose final money counts in the balance, can be swept and is not being swept, with what they hold in base units, the largest first; with sweep_first only those of the claimed deposits, each once, until they are swept: what the treasury paid in advance for the merchant may be on others, and what arrives after the claim does not belong to it.
CREATE OR REPLACE FUNCTION app.sweepable(of_payout uuid, at_least numeric, most integer)
 RETURNS TABLE(address text, amount numeric)
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
 SET plan_cache_mode TO 'force_custom_plan'
AS $function$
declare
  p app.payout := (select o from app.payout o where o.id = of_payout);
  only_claimed boolean := p.sweep_first and p.status = 'sweeping';
  by_itself boolean := app.sweeps_itself(p.chain, p.token);
begin
  return query
  with held as materialized (
    select d.address, sum(d.amount) as amount from app.deposit d
    where d.held_back and d.chain = p.chain and d.token = p.token and d.merchant_id = p.merchant_id group by d.address
  ), failing as materialized (
    select distinct f.address from app.failed_sweep f where f.merchant_id = p.merchant_id and f.chain = p.chain and f.token = p.token
  ), not_now as materialized (
    select f.address from failing f where not app.is_sweep_due(p.chain, p.token, f.address)
    union all
    select b.address from app.blocked_address b where b.chain = p.chain and b.token = p.token
  )
  select h.address, h.amount from app.holding h left join held b on b.address = h.address
  where h.merchant_id = p.merchant_id and h.chain = p.chain and h.token = p.token and h.amount >= at_least and h.amount > coalesce(b.amount, 0)
    and (not only_claimed or exists (select from app.deposit d where d.settlement_id = p.id and d.address = h.address))
    and app.sweep_under_way(h.chain, h.token, h.address) is null
    and not (by_itself and app.fund_under_way(h.chain, h.address) is not null) and not exists (select from not_now n where n.address = h.address)
    and (not only_claimed or not exists (
      select from app.payout_sweep l join app.outgoing_payment s on s.id = l.outgoing_payment_id
      where l.payout_id = p.id and s.source = h.address and s.outcome = 'done' and s.created_at >= p.created_at))
  order by h.amount desc limit most;
end $function$;

-- Whether an address sweeps this token with gas that the treasury sent it.
CREATE OR REPLACE FUNCTION app.sweeps_itself(of_chain text, of_token text)
 RETURNS boolean
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select exists (select from app.asset a where a.chain = of_chain and a.token = of_token and a.sweep_by = 'fund')
$function$;

-- Gives a user an address of a family, watched on all chains of the family. The caller has locked the user's row.
CREATE OR REPLACE FUNCTION app.take_address(of_merchant uuid, of_user uuid, of_family text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
declare taken text;
begin
  select a.address into taken from app.address a join app.chain c using (chain) where a.user_id = of_user and c.family = of_family limit 1;
  taken := coalesce(taken, app.draw_address(of_merchant, of_family));
  insert into app.address (chain, match_key, address, user_id, merchant_id, is_provisioned)
  select c.chain, app.match_key(taken, c.folds_addresses), taken, of_user, of_merchant, false
  from app.chain c where c.family = of_family
  on conflict do nothing;
end $function$;

-- Makes a final deposit reorged, with all that follows for balance, payout, ledger and merchant. Only app.resolve_incident calls it.
CREATE OR REPLACE FUNCTION app.take_back(of_deposit uuid)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
declare
  deposit app.deposit;
  account text;
  was_held_back boolean;
begin
  select * into deposit from app.deposit d where d.id = of_deposit;
  was_held_back := deposit.held_back;
  if app.fail_payout(deposit.settlement_id, 'deposit_reorged', 'a deposit that it claimed was lost in a reorganisation') then
    perform app.allocate_all_deposits(deposit.merchant_id, deposit.chain, deposit.token);
  end if;
  perform set_config('app.decided_by_operator', 'on', true);
  update app.deposit d set status = 'reorged', version = d.version + 1, finalised_at = null, finalisation = null, held_back = false, released = null
  where d.id = of_deposit and d.status = 'final' returning * into strict deposit;
  perform set_config('app.decided_by_operator', '', true);
  if not exists (select from app.asset a where a.chain = deposit.chain and a.token = deposit.token) then return; end if;
  account := case when deposit.merchant_id is null then 'operator' when deposit.credited then 'merchant' else 'unattributed' end;
  perform app.post('reorg', deposit.id::text, deposit.chain, jsonb_build_array(
    jsonb_build_object('account', case when account = 'operator' then 'treasury' else 'address' end, 'token', deposit.token,
      'merchant_id', case when deposit.credited then deposit.merchant_id end,
      'address', case when account <> 'operator' then deposit.address end, 'amount', -deposit.amount),
    jsonb_build_object('account', account, 'token', deposit.token, 'merchant_id', case when deposit.credited then deposit.merchant_id end,
      'amount', deposit.amount)));
  if account = 'operator' then perform app.add_treasury(deposit.chain, deposit.token, -deposit.amount, 0); end if;
  delete from app.output u where u.chain = deposit.chain and u.txid = deposit.txid and u.vout = deposit.output_index and u.outgoing_payment_id is null;
  if not deposit.credited then return; end if;
  update app.holding h set amount = h.amount - deposit.amount
  where h.chain = deposit.chain and h.address = deposit.address and h.token = deposit.token;
  if deposit.settlement_id is null then
    insert into app.balance_delta (merchant_id, chain, token, amount, deposit_count, held_back, held_back_count)
    values (deposit.merchant_id, deposit.chain, deposit.token, -deposit.amount, -1,
      case when was_held_back then -deposit.amount else 0 end, case when was_held_back then -1 else 0 end);
  else
    perform app.adjust(deposit, -deposit.amount, 'deposit_lost');
  end if;
  perform app.emit_deposit_events(array[deposit.id], array['deposit.reorged'], array[deposit.version], array[deposit.token], array[deposit.amount]);
end $function$;

-- Takes the next nonce of an address of ours on a chain, and returns it; the first one is 0. Null on chains without nonces.
CREATE OR REPLACE FUNCTION app.take_nonce(of_chain text, of_sender text)
 RETURNS integer
 LANGUAGE sql
 SET search_path TO 'pg_catalog'
AS $function$
  insert into app.sender as s (chain, address, next_nonce)
  select c.chain, of_sender, 1 from app.chain c where c.chain = of_chain and c.attempts_exclude_by = 'nonce'
  on conflict (chain, address) do update set next_nonce = s.next_nonce + 1
  returning next_nonce - 1
$function$;

-- Gives a payment request an address that nothing else ever uses. It is watched on every chain of the family, and credited on the request's chain alone.
CREATE OR REPLACE FUNCTION app.take_payment_address(r app.payment_request)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
declare
  of_family text := (select c.family from app.chain c where c.chain = r.chain);
  taken text := app.draw_address(r.merchant_id, of_family);
begin
  insert into app.address (chain, match_key, address, payment_request_id, merchant_id, is_provisioned)
  select c.chain, app.match_key(taken, c.folds_addresses), taken, r.id, r.merchant_id, c.chain = r.chain
  from app.chain c where c.family = of_family;
end $function$;

-- Marks the outputs that a transaction spent after its payment had ended and adds its change; returns what left our outputs by it, network fee included, in base units.
CREATE OR REPLACE FUNCTION app.take_second_outputs(s app.outgoing_payment, of_txid text)
 RETURNS numeric
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
declare
  part record;
  spent numeric := 0;
  change numeric;
begin
  for part in
    with taken as (
      update app.output u set spent_by = of_txid from chain.confirmed_tx i
      where i.chain = s.chain and i.txid = of_txid and u.chain = i.chain and u.txid = split_part(i.outpoint, ':', 1)
        and u.vout = split_part(i.outpoint, ':', 2)::int and coalesce(u.spent_by, of_txid) = of_txid -- of a conflicted payment it is marked already
      returning u.*
    )
    select t.address, t.merchant_id, sum(t.amount) as amount from taken t group by t.address, t.merchant_id order by t.address
  loop
    spent := spent + part.amount;
    continue when part.merchant_id is null;
    s.merchant_id := part.merchant_id;
    s.source := part.address;
    perform app.post_sweep(s, part.amount);
    perform app.release_held_back(s.chain, array[part.address], array[s.token]);
  end loop;
  with added as (
    insert into app.output (chain, txid, vout, address, amount)
    select t.chain, t.txid, t.output_index, t.recipient, t.amount from chain.transfer t
    where t.id in (s.chain || ':' || of_txid || ':0', s.chain || ':' || of_txid || ':1') and t.recipient = s.fee_payer
    on conflict do nothing returning amount
  )
  select coalesce(sum(amount), 0) into change from added;
  return spent - change;
end $function$;

-- Opens, updates or closes the incident of one check by what it found. If a command repairs what was found, the incident names it.
CREATE OR REPLACE FUNCTION app.tell_finding(name text, claim text, count bigint, what jsonb)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
declare
  told constant text := 'audit:' || name;
  seen jsonb := jsonb_build_object('claim', claim, 'count', count, 'found', what);
  last app.incident;
begin
  seen := seen || coalesce((select jsonb_build_object('address', f.row -> 'address', 'missing', (f.row ->> 'missing') || ' ' || (f.row ->> 'token'),
    'run', f.row -> 'run') from jsonb_array_elements(what) with ordinality f (row, n) where f.row ? 'run' order by f.n limit 1), '{}');
  perform pg_advisory_xact_lock(hashtextextended('app.finish_audit', 0));
  select * into last from app.incident i where i.kind = 'audit' and i.subject = told order by i.resolved_at is null desc, i.id desc limit 1;
  if last.id is not null and last.resolved_at is null then
    update app.incident i set details = case when count > 0 then seen else i.details end,
      resolved_at = case when count = 0 then clock_timestamp() end, resolution = case when count = 0 then 'healed' end
    where i.id = last.id;
  elsif count > 0 and (last.resolution = 'kept' and last.details - 'claim' = seen - 'claim') is not true then
    insert into app.incident (chain, kind, subject, details) values (null, 'audit', told, seen);
  end if;
end $function$;

-- Sends an example of an event to one endpoint, whatever types it gets; returns the id of its delivery.
CREATE OR REPLACE FUNCTION app.test_webhook(of_merchant uuid, endpoint uuid, of_type text DEFAULT 'deposit.confirmed'::text)
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
  perform app.check_webhook(own.url, array[of_type]);
  insert into app.event (id, merchant_id, type, subject_id, version, created_at, payload, is_test)
  values (event, of_merchant, of_type, own.id,
    app.next_version(own.id), now, app.example_event(event, of_type, now), true);
  insert into app.delivery as d (event_id, endpoint_id) values (event, own.id) returning d.id into delivery;
  perform app.enqueue('sequence_events');
  return delivery;
end $function$;

-- Fails a payout that has waited this long before its payment, with the reason that it waits for; returns the code, or null if it goes on.
CREATE OR REPLACE FUNCTION app.time_out_payout(of_payout uuid, timeout_ms bigint)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare
  p app.payout := (select o from app.payout o where o.id = of_payout);
  why record;
  code text;
begin
  if p.status is null or p.status not in ('pending', 'sweeping', 'swept') or timeout_ms is null
    or p.created_at > clock_timestamp() - timeout_ms * interval '1 millisecond' then -- cheap, and true of nearly all
    return null;
  end if;
  if app.why_halted(p.chain) is not null or app.payout_waited(p) < timeout_ms * interval '1 millisecond' then return null; end if;
  select w.reason, w.detail, k.message, k.fails into why from app.why_payout_waits(p) w left join app.reason k using (reason);
  if why.reason is null and not app.is_cancellable(p) then return null; end if;
  code := coalesce(why.fails, 'timed_out');
  if not app.fail_payout(of_payout, code, 'it could not be carried out in time: ' || coalesce(why.message, 'what it needs was still under way')) then return null; end if;
  update app.payout o set error_detail = nullif(concat_ws(': ', why.reason, why.detail), '') where o.id = of_payout;
  return code;
end $function$;

-- How much of an amount may be missing, in base units: as given, or as the merchant has it for all its requests.
CREATE OR REPLACE FUNCTION app.tolerance_of(of_merchant uuid, amount numeric, given text, decimals integer)
 RETURNS numeric
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
declare tolerance numeric;
begin
  if given is null then
    return (select floor(amount * m.payment_tolerance_bps / 10000) from app.merchant m where m.id = of_merchant);
  elsif right(given, 1) <> '%' and scale(given::numeric) > decimals then
    raise exception 'has at most % decimals', decimals using errcode = 'SLINV', detail = 'tolerance';
  end if;
  tolerance := case right(given, 1) when '%' then floor(amount * rtrim(given, '%')::numeric / 100) else given::numeric * 10::numeric ^ decimals end;
  if tolerance * 2 > amount or right(given, 1) = '%' and rtrim(given, '%')::numeric > 50 then
    raise exception 'must be at most half of the amount' using errcode = 'SLINV', detail = 'tolerance';
  end if;
  return tolerance;
end $function$;

-- The treasury's address on a chain; null until custody has derived it.
CREATE OR REPLACE FUNCTION app.treasury_address(of_chain text)
 RETURNS text
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select t.address from custody.address t join app.chain c using (family) where t.purpose = 'treasury' and c.chain = of_chain
$function$;

-- Takes the lock of the worker that audits; false if another connection has it.
CREATE OR REPLACE FUNCTION app.try_lock_audit()
 RETURNS boolean
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select pg_try_advisory_lock(hashtextextended('sluice.audit', 0))
$function$;

-- Takes the lock of the worker that sends to a webhook endpoint; false if another connection has it.
CREATE OR REPLACE FUNCTION app.try_lock_endpoint(of_endpoint uuid)
 RETURNS boolean
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select pg_try_advisory_lock(hashtextextended('webhook_endpoint:' || of_endpoint, 0))
$function$;

-- Takes the lock of the worker that has payments of a chain signed, and sends them; false if another connection has it.
CREATE OR REPLACE FUNCTION app.try_lock_sending(of_chain text)
 RETURNS boolean
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select pg_try_advisory_lock(hashtextextended('send_transactions:' || of_chain, 0))
$function$;

-- Ends the blocking of an address: payouts can collect its deposits again. how: the resolution of its incident. False if it was not blocked.
CREATE OR REPLACE FUNCTION app.unblock(of_chain text, of_token text, of_address text, how text)
 RETURNS boolean
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
begin
  perform from chain.cursor c where c.chain = of_chain for update;
  delete from app.blocked_address b where b.chain = of_chain and b.token = of_token and b.address = of_address;
  if not found then return false; end if;
  update app.incident i set resolved_at = clock_timestamp(), resolution = how
  where i.kind = 'address_blocked' and i.subject = of_chain || ':' || of_token || ':' || of_address and i.resolved_at is null;
  perform app.release_held_back(of_chain, array[of_address], array[of_token]);
  return true;
end $function$;

-- Ends the blocking of an address that the chain lets go. False if it was not blocked. Safe to run again.
CREATE OR REPLACE FUNCTION app.unblock_address(of_chain text, of_token text, of_address text)
 RETURNS boolean
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select app.unblock(of_chain, of_token, of_address, 'healed')
$function$;

-- What a payout of a merchant, chain and token would claim now, or could have claimed with a lower minimum, with the place of each in the order in which payouts could claim it: its number, then the block.
CREATE OR REPLACE FUNCTION app.unclaimed_deposits(of_merchant uuid, of_chain text, of_token text, with_held_back boolean)
 RETURNS TABLE(id uuid, number bigint, height integer, amount numeric)
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select id, number, greatest(block_height, min(block_height) filter (where so_far >= sweep_min) over (partition by address, number)), amount
  from (
    select d.id, d.number, d.block_height, d.address, d.amount, a.sweep_min,
      sum(d.amount) over (partition by d.address, d.number order by d.block_height, d.seq) as so_far
    from (select *, coalesce(o.released, o.finalisation) as number from app.deposit o) d join app.asset a on a.chain = d.chain and a.token = d.token
    where d.merchant_id = of_merchant and d.chain = of_chain and d.token = of_token and d.status = 'final' and d.credited
      and d.settlement_id is null and (with_held_back or not d.held_back)
  ) d
$function$;

-- What is wrong with a text that people compare by eye, in words; null if nothing is.
CREATE OR REPLACE FUNCTION app.unclear(value text, has_joiners boolean)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
 SET search_path TO 'pg_catalog'
AS $function$
  select format('must not %s %s (U+%s)', k.place, k.what, upper(regexp_replace(lpad(to_hex(ascii(k.found)), 6, '0'), '^0{1,2}', '')))
  from (values
    (1, 'begin or end with', 'a space', (regexp_match(value, '^[ \u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]|[ \u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]$'))[1]),
    (2, 'hold', 'a control character', (regexp_match(value, '[\u0001-\u001f\u007f-\u009f\u2028\u2029]'))[1]),
    (3, 'hold', 'a mark of the direction of writing', (regexp_match(value, '[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]'))[1]),
    (4, 'hold', 'an invisible character', (regexp_match(value,
      '[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2060-\u2065\u206a-\u206f\u2800\u3164\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e00ff\U000e01f0-\U000e0fff]'))[1]),
    (5, 'hold', 'an invisible character', case when not has_joiners then (regexp_match(value, '[\u200c\u200d\ufe00-\ufe0f\U000e0100-\U000e01ef]'))[1] end),
    (6, 'hold', 'a character that Unicode does not define', case when not unicode_assigned(value) then
      (select c from regexp_split_to_table(value, '') c where not unicode_assigned(c) limit 1) end)
  ) k (rank, place, what, found)
  where k.found is not null order by k.rank limit 1
$function$;

-- Which sweeps of a payout are not final, and since when they are under way; null if all are.
CREATE OR REPLACE FUNCTION app.unfinished_sweeps(of_payout uuid)
 RETURNS text
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select count(*) || ' of ' || (select count(*) from app.payout_sweep l where l.payout_id = of_payout) || ' sweeps are not final: '
    || string_agg(case when s.kind = 'fund' then 'the gas of ' || s.recipient else 'of ' || s.source end || ' since ' || app.iso(s.created_at), ', ') filter (where s.n <= 3) || case when count(*) > 3 then ' and others' else '' end
  from (select s.kind, s.source, s.recipient, s.created_at, row_number() over (order by s.created_at, s.id) as n from app.payout_sweep l
    join app.outgoing_payment s on s.id = l.outgoing_payment_id where l.payout_id = of_payout and s.status <> 'final' order by s.created_at, s.id) s
  having count(*) > 0
$function$;

-- Gives the lock of a webhook endpoint back; false if this connection does not have it.
CREATE OR REPLACE FUNCTION app.unlock_endpoint(of_endpoint uuid)
 RETURNS boolean
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select pg_advisory_unlock(hashtextextended('webhook_endpoint:' || of_endpoint, 0))
$function$;

-- Gives the lock of sending a chain's payments back; false if this connection does not have it.
CREATE OR REPLACE FUNCTION app.unlock_sending(of_chain text)
 RETURNS boolean
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select pg_advisory_unlock(hashtextextended('send_transactions:' || of_chain, 0))
$function$;

-- Gives back what is reserved for a payout's payment, except its network fee.
CREATE OR REPLACE FUNCTION app.unreserve_payment(p app.payout, s app.outgoing_payment)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
begin
  perform app.give_up_swept_in(s);
  perform app.add_share(p.chain, p.token, p.merchant_id, 0, -p.gross);
  perform app.reserve(p.chain, p.token, -p.net);
end $function$;

-- Final, credited money on an address that no sweep under way takes, in base units.
CREATE OR REPLACE FUNCTION app.unswept(of_chain text, of_address text, of_token text)
 RETURNS numeric
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select coalesce((select h.amount from app.holding h where h.chain = of_chain and h.address = of_address and h.token = of_token), 0)
    - coalesce((select l.amount from app.leaving(of_chain) l where l.address = of_address and l.token = of_token), 0)
$function$;

-- Addresses whose money a payout may need, and whose sweeps failed (app.unswept_address).
CREATE OR REPLACE FUNCTION app.unswept_for(of_payout uuid)
 RETURNS SETOF app.unswept_address
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select u.* from app.payout p join app.unswept_address u on u.merchant_id = p.merchant_id and u.chain = p.chain and u.token = p.token
  where p.id = of_payout and not app.uses_outputs(p.chain)
    and (not p.sweep_first or p.status <> 'sweeping' or exists (select from app.deposit d where d.settlement_id = p.id and d.address = u.address))
$function$;

-- Changes name and fee of a merchant; null leaves a value as it is. A payout keeps the fee that it was made with.
CREATE OR REPLACE FUNCTION app.update_merchant(of_merchant uuid, new_name text, new_fee_bps integer)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
begin
  if trim(new_name) = '' then raise exception 'a merchant needs a name' using errcode = 'SL422'; end if;
  perform app.require_clear_name('the name', new_name);
  if new_fee_bps not between 0 and 10000 then
    raise exception 'the fee must be 0 to 10000 basis points' using errcode = 'SL422';
  end if;
  update app.merchant m set name = coalesce(new_name, m.name), fee_bps = coalesce(new_fee_bps, m.fee_bps) where m.id = of_merchant;
  if not found then raise exception 'there is no merchant with this id' using errcode = 'SL404', detail = 'merchant'; end if;
end $function$;

-- Replaces the metadata of a user; null leaves it as it is. Events that were made already keep the old one.
CREATE OR REPLACE FUNCTION app.update_user(of_merchant uuid, of_user uuid, new_metadata jsonb)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
begin
  update app.user u set metadata = coalesce(new_metadata, u.metadata) where u.id = of_user and u.merchant_id = of_merchant;
  if not found then raise exception 'there is no user with this id' using errcode = 'SL404', detail = 'user'; end if;
end $function$;

-- Changes the URL, the event types, or whether an endpoint is enabled; null leaves a value as it is. Disabling fails its pending deliveries.
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
    update app.webhook_endpoint w set disabled_at = null, disabled_reason = null, failing_since = null, gone_since = null where w.id = own.id;
  elsif not enable and own.disabled_at is null then
    update app.webhook_endpoint w set disabled_at = clock_timestamp(), disabled_reason = 'merchant' where w.id = own.id;
    perform app.give_up_deliveries(own.id);
  end if;
end $function$;

-- Jobs, events, webhooks, the address pool, network fees, the audit, and the size of the database.
CREATE OR REPLACE FUNCTION app.upkeep_metrics()
 RETURNS TABLE(metric text, labels json, value double precision)
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select 'sluice_oldest_due_job_age_seconds', json_build_object('task', j.task), j.age_seconds from app.oldest_due_jobs() j
  union all
  select m.metric, '{}', m.value from (select count(*), min(e.created_at) as oldest from app.event e where e.sequence is null) u
  cross join lateral (values ('sluice_events_unsequenced', u.count),
    ('sluice_events_unsequenced_oldest_seconds', coalesce(extract(epoch from clock_timestamp() - u.oldest), 0))) m (metric, value)
  union all
  select 'sluice_webhook_deliveries_pending', '{}', count(*) from app.delivery d where d.status = 'pending'
  union all
  select 'sluice_webhook_deliveries_failed', '{}', count(*) from app.delivery d where d.status = 'failed'
  union all
  select 'sluice_webhook_endpoints_failing', '{}', count(*) from app.webhook_endpoint w where w.failing_since is not null and w.deleted_at is null
  union all
  select 'sluice_webhook_endpoints_disabled', json_build_object('reason', r.reason), count(w.id)
  from unnest(array['merchant', 'gone', 'failing']) r (reason)
  left join app.webhook_endpoint w on w.disabled_reason = r.reason and w.disabled_at is not null and w.deleted_at is null group by r.reason
  union all
  select 'sluice_address_pool_free', json_build_object('family', f.family), n.count from (select distinct family from app.chain) f
  cross join lateral (select count(*) from custody.address a
    where a.family = f.family and a.purpose = 'deposit' and a.taken_at is null and a.retired_at is null) n
  union all
  select 'sluice_treasury_gas_left_seconds', json_build_object('chain', c.chain), d.days * 86400 from app.chain c
  cross join app.gas_left_days(c.chain) d (days) where d.days is not null
  union all
  select 'sluice_audit_age_seconds', '{}', extract(epoch from clock_timestamp() - max(r.finished_at)) from app.audit_run r
  having max(r.finished_at) is not null
  union all
  select 'sluice_audit_incomplete', '{}', (r.error is not null)::int from app.audit_run r
  where r.id = (select max(l.id) from app.audit_run l where l.finished_at is not null)
  union all
  select 'sluice_audit_findings', json_build_object('check', f.name), f.count from app.audit_finding f
  where f.run_id = (select max(l.id) from app.audit_run l where l.finished_at is not null)
  union all
  select 'sluice_database_size_bytes', '{}', pg_database_size(current_database())
  union all
  select 'sluice_delivery_partitions_ahead_seconds', '{}', extract(epoch from e.ends_at - clock_timestamp())
  from app.delivery_partitions_end() e (ends_at) where e.ends_at is not null
$function$;

-- The reference of the user that a text names, as it is stored; the text itself if it names none. A user with this very text comes first, then one with another Unicode form of it.
CREATE OR REPLACE FUNCTION app.user_ref(of_merchant uuid, given text)
 RETURNS text
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select coalesce(
    (select u.external_ref from app.user u where u.merchant_id = of_merchant and u.external_ref = given),
    (select u.external_ref from app.user u where u.merchant_id = of_merchant and u.external_ref = normalize(given, NFC)),
    -- All of them: with a limit, PostgreSQL would read the merchant's users in their order until it finds one.
    (select (array_agg(u.external_ref order by u.seq))[1] from app.user u
      where u.merchant_id = of_merchant and normalize(u.external_ref, NFC) = normalize(given, NFC) and u.external_ref is not nfc normalized),
    given)
$function$;

-- Whether transactions of a chain spend outputs (Bitcoin) rather than balances of accounts.
CREATE OR REPLACE FUNCTION app.uses_outputs(of_chain text)
 RETURNS boolean
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select coalesce((select attempts_exclude_by = 'output' from app.chain where chain = of_chain), false)
$function$;

-- The lowest UUID of version 7 (the ids of deliveries) that is made at or after a time.
CREATE OR REPLACE FUNCTION app.uuid_at(at timestamp with time zone)
 RETURNS uuid
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE STRICT
RETURN ((lpad(to_hex(((EXTRACT(epoch FROM at) * (1000)::numeric))::bigint), 12, '0'::text) || '70008000000000000000'::text))::uuid;

-- What people see of a text: without the characters that app.unclear refuses, in the form NFC.
CREATE OR REPLACE FUNCTION app.visible_text(value text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
 SET search_path TO 'pg_catalog'
AS $function$
  select btrim(regexp_replace(normalize(value, NFC),
    '[\u0001-\u001f\u007f-\u009f\u2028\u2029\u061c\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]', '', 'g'),
    U&' \00a0\1680\2000\2001\2002\2003\2004\2005\2006\2007\2008\2009\200a\202f\205f\3000')
$function$;

-- Notes what an outgoing payment waits for (null: nothing), and when it is checked again.
CREATE OR REPLACE FUNCTION app.wait_outgoing_payment(of_outgoing_payment uuid, reason text, detail text, retry_ms integer)
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  update app.outgoing_payment s set waiting_detail = detail, waiting_since = case
      when reason is null then null when s.waiting_reason = reason then s.waiting_since else clock_timestamp() end,
    waiting_reason = reason, next_step_at = clock_timestamp() + retry_ms * interval '1 millisecond'
  where s.id = of_outgoing_payment and s.next_step_at is not null
$function$;

-- Notes what a payout waits for (null: nothing), since when, and when its next step is tried again. Does nothing once it is paying, or has ended.
CREATE OR REPLACE FUNCTION app.wait_payout(of_payout uuid, reason text, detail text, retry_ms integer)
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  update app.payout p set waiting_detail = detail, waiting_since = case
      when reason is null then null when p.waiting_reason = reason then p.waiting_since else clock_timestamp() end,
    waiting_reason = reason, next_step_at = clock_timestamp() + retry_ms * interval '1 millisecond'
  where p.id = of_payout and p.status not in ('paying', 'completed', 'failed')
$function$;

-- Notes what the next transaction of a return waits for.
CREATE OR REPLACE FUNCTION app.wait_return(of_deposit uuid, reason text, detail text)
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  update app.unattributed_decision u set waiting_detail = detail, waiting_reason = reason,
    waiting_since = case when u.waiting_reason = reason then u.waiting_since else clock_timestamp() end
  where u.deposit_id = of_deposit and u.decision = 'return' and u.withdrawal_id is null
    and (u.waiting_reason, u.waiting_detail) is distinct from (reason, detail)
$function$;

-- Adds the job that allocates the deposits of a payout's merchant, chain and token.
CREATE OR REPLACE FUNCTION app.wake_allocation(p app.payout)
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'pg_catalog'
AS $function$
  select app.enqueue('allocate_deposits', json_build_object('merchant_id', p.merchant_id, 'chain', p.chain, 'token', p.token),
    'allocate:' || p.merchant_id || ':' || p.chain || ':' || p.token)
$function$;

-- Adds the job that sends what is due on a chain; it runs once this transaction is committed.
CREATE OR REPLACE FUNCTION app.wake_outgoing_payments(of_chain text)
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'pg_catalog'
AS $function$
  select app.enqueue('send_transactions', json_build_object('chain', of_chain), 'send:' || of_chain)
$function$;

-- Adds the job that takes a payout's next step.
CREATE OR REPLACE FUNCTION app.wake_payout(payout uuid)
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'pg_catalog'
AS $function$
  select app.enqueue('advance_payout', json_build_object('payout_id', payout), 'payout:' || payout)
$function$;

-- Wakes the payouts that waited for these outgoing payments, which are final now.
CREATE OR REPLACE FUNCTION app.wake_payouts_after(sweeps uuid[])
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
begin
  perform app.wake_payout(p.id) from app.payout p
  where p.status in ('sweeping', 'swept') and p.id in (select l.payout_id from app.payout_sweep l where l.outgoing_payment_id = any(sweeps)) order by p.id;
end $function$;

-- What an operator has to do first about a chain that is halted, or whose payouts are stopped; null if nothing is wrong.
CREATE OR REPLACE FUNCTION app.way_out(of_chain text)
 RETURNS text
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select coalesce(
    (select 'incident ' || array_to_string(i.ids[:20], ' ') || ' (' || i.kind || '): ' || i.way_out
      from app.open_incident i where i.chain = of_chain order by i.halts desc, i.ids limit 1),
    (select 'it is halted, and no incident is open: sluice chain resume --chain ' || of_chain
      from chain.cursor c where c.chain = of_chain and c.halted_at is not null))
$function$;

-- Sums up those of these outputs that are free and belong to the merchant or, with_treasury, to the treasury: their number, their sum and the merchant's part of it, in base units. A number below the number asked for means that some are not free, or named twice.
CREATE OR REPLACE FUNCTION app.weigh_outputs(of_chain text, inputs text[], of_merchant uuid, with_treasury boolean, OUT count bigint, OUT total numeric, OUT of_addresses numeric)
 RETURNS record
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select count(*), coalesce(sum(u.amount), 0), coalesce(sum(u.amount) filter (where u.merchant_id is not null), 0)
  from (select distinct split_part(i, ':', 1) as txid, split_part(i, ':', 2)::int as vout from unnest(inputs) i) k
  join app.free_output u on u.chain = of_chain and u.txid = k.txid and u.vout = k.vout
  where case when u.merchant_id is null then with_treasury else u.merchant_id = of_merchant end
$function$;

-- Why an outgoing payment that has ended had no effect, in words for operators; null if it had.
CREATE OR REPLACE FUNCTION app.why_failed(s app.outgoing_payment)
 RETURNS text
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select case s.outcome
    when 'reverted' then 'its transaction was mined, and failed'
    when 'conflicted' then 'another transaction took its place'
    when 'expired' then 'no block took its transaction before it expired' || coalesce('; ' || s.failure, '; the node said: ' || (
      select o.broadcast_error from app.outgoing_attempt o where o.outgoing_payment_id = s.id and o.broadcast_error is not null order by o.attempt desc limit 1), '')
    when 'cancelled' then coalesce(s.failure, 'it was given up') end
$function$;

-- Why payouts of a chain are stopped now: an open incident; null if nothing is wrong. Merchants may read it; the way out is for operators (app.way_out).
CREATE OR REPLACE FUNCTION app.why_halted(of_chain text)
 RETURNS text
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select coalesce(
    (select 'incident ' || i.ids[1] || ' (' || i.kind || ') waits for the operator'
      from app.open_incident i where i.chain = of_chain order by i.halts desc, i.ids limit 1),
    (select 'the chain is halted' from chain.cursor c where c.chain = of_chain and c.halted_at is not null))
$function$;

-- Why this much of a merchant's balance (in base units) is held back, for people; null if nothing is.
CREATE OR REPLACE FUNCTION app.why_held_back(of_merchant uuid, of_chain text, of_token text, held numeric)
 RETURNS text
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select concat_ws(', and ', case when held > b.amount then app.decimal(held - b.amount, a.decimals) || ' ' || of_token || ' is held back, '
      || case when app.uses_outputs(of_chain) then 'in outputs of less than ' else 'on addresses with less to sweep than ' end
      || app.decimal(a.sweep_min, a.decimals) || ' ' || of_token end,
    case when b.amount > 0 then app.decimal(b.amount, a.decimals) || ' ' || of_token || ' is held back, on addresses that the chain does not let it leave now' end)
  from app.asset a, (
    select least(coalesce(sum(d.amount), 0), held) as amount from app.blocked_address b
    join app.deposit d on d.chain = b.chain and d.token = b.token and d.address = b.address and d.held_back and d.merchant_id = of_merchant
    left join app.payout p on p.id = d.settlement_id
    where b.chain = of_chain and b.token = of_token and coalesce(p.status = 'failed', true)) b
  where a.chain = of_chain and a.token = of_token and held > 0
$function$;

-- Why the chain cannot be compared with the ledger now; null if it can.
CREATE OR REPLACE FUNCTION app.why_not_comparable(of_chain text)
 RETURNS text
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select coalesce(
    (select coalesce(app.way_out(of_chain), 'it is about to be read again from ' || c.rewind_to) from chain.cursor c
      where c.chain = of_chain and (c.halted_at is not null or c.rewind_to is not null)),
    (select 'what was final is not there; incident ' || i.ids[1] || ' (' || i.kind || '): ' || i.way_out from app.open_incident i
      where i.chain = of_chain and i.kind = 'final_payment_vanished'),
    (select 'blocks that were final are read again' from app.incident i join chain.cursor c on c.chain = i.chain
      where i.chain = of_chain and i.kind like 'final\_%' and (i.resolved_at is null or i.resolution = 'healed') and greatest(
        (select d.block_height from app.deposit d where d.status = 'final' and d.id = case when i.kind like 'final\_deposit\_%' then i.subject::uuid end),
        (select max(n.block_height) from app.outgoing_confirmed_tx n where n.outgoing_payment_id = case when i.kind like 'final\_payment\_%' then i.subject::uuid end)
      ) > c.final_height limit 1))
$function$;

-- What an outgoing payment really waits for: the reason, its detail for operators, and since when; null if nothing is in its way.
CREATE OR REPLACE FUNCTION app.why_outgoing_waits(s app.outgoing_payment, OUT reason text, OUT detail text, OUT since timestamp with time zone)
 RETURNS record
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
  select w.reason, w.detail, w.since from (
    select 1 as depth, 'unproven_expiry' as reason, 'transaction ' || o.txid || ' has expired, and it is not proven that no block holds it: ' || o.unproven as detail,
      o.unproven_since as since
    from app.outgoing_attempt o
    join lateral (select f.fate from app.attempt_fate f where f.chain = o.chain and f.txid = o.txid offset 0) f on f.fate = 'open' -- not computed for all that ever were
    where o.outgoing_payment_id = s.id and o.unproven is not null
    union all
    (select 2, case when r.lies_with = 'chain' then r.reason else 'nonce_too_high' end,
      'an earlier transaction of ' || b.fee_payer || ', with nonce ' || b.nonce || ', waits: ' || coalesce(b.waiting_detail, b.waiting_reason), b.waiting_since
    from app.outgoing_payment b left join app.reason r on r.reason = b.waiting_reason
    where s.waiting_reason = 'nonce_too_high' and b.chain = s.chain and b.fee_payer = s.fee_payer and b.nonce < s.nonce and b.status = 'allocated'
      and b.waiting_reason is not null order by b.nonce limit 1)
    union all
    select 3, s.waiting_reason, s.waiting_detail, s.waiting_since where s.waiting_reason is not null
  ) w order by w.depth limit 1
$function$;

-- Why a payment request has the status that it has, in words.
CREATE OR REPLACE FUNCTION app.why_payment(r app.payment_request)
 RETURNS text
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select case r.status
    when 'paid' then case
        when r.received > r.amount then more || ' more than the amount came'
        when r.received = r.amount then 'all of it came'
        when short <= r.tolerance then shortfall || ' did not come, which is within the tolerance of ' || tolerance
        else shortfall || ' did not come, which is too little to be asked for' end || case when r.late then '; some of it came late' else '' end
    when 'detected' then case
        when r.pending = 0 then shortfall || ' is still to come'
        when r.expired_at is not null and r.decide_at is not null then 'money is in no block yet; it is late if none has it by ' || app.iso(r.decide_at)
        when r.received + r.pending >= app.paid_from(r) then 'enough was seen, and not all of it is final yet'
        else seen || ' was seen, not all of it is final yet, and ' || missing || ' is still to come' end
    when 'underpaid' then 'it ended with ' || received || ' of ' || amount || ', and ' || case when r.tolerance > 0 then 'the tolerance is ' || tolerance
      else 'nothing may be missing' end
    else case when r.received + r.pending > 0 then 'only ' || seen || ' came, which is too little to count as a payment' else 'nothing came'
      || case r.status when 'awaiting' then ' yet' when 'expired' then ' before it expired' else ' before you cancelled it' end end end
  from app.asset a
  cross join lateral (select greatest(r.amount - r.received, 0) as short, ' ' || a.name as unit) u
  cross join lateral (select app.decimal(short, a.decimals) || unit as shortfall, app.decimal(r.received - r.amount, a.decimals) || unit as more,
    app.decimal(r.tolerance, a.decimals) || unit as tolerance, app.decimal(r.received + r.pending, a.decimals) || unit as seen,
    app.decimal(app.payment_missing(r), a.decimals) || unit as missing, app.decimal(r.received, a.decimals) as received,
    app.decimal(r.amount, a.decimals) || unit as amount) t
  where a.chain = r.chain and a.token = r.token
$function$;

-- What a payout really waits for: the reason, its detail for operators, and since when; null if nothing is in its way.
CREATE OR REPLACE FUNCTION app.why_payout_waits(p app.payout, OUT reason text, OUT detail text, OUT since timestamp with time zone)
 RETURNS record
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select w.reason, w.detail, w.since from (
    select 1 as depth, x.reason, x.detail, x.since from app.outgoing_payment s cross join lateral app.why_outgoing_waits(s) x
    where s.payout_id = p.id and s.kind = 'payout' and s.status <> 'final' and x.reason is not null and p.status in ('swept', 'paying')
    union all
    select 2, x.reason, case when w.kind = 'fund' then 'the gas of ' || w.recipient else 'the sweep of ' || w.source end || ' waits: ' || coalesce(x.detail, x.reason) || '; ' || app.unfinished_sweeps(p.id), x.since
    from (
      select s as sweep, s.kind, s.source, s.recipient from app.payout_sweep l join app.outgoing_payment s on s.id = l.outgoing_payment_id
      where p.waiting_reason = 'sweeps' and l.payout_id = p.id and s.status <> 'final' and app.may_wait(s) order by s.waiting_since limit 1
    ) w cross join lateral app.why_outgoing_waits(w.sweep) x where x.reason is not null
    union all
    select 3, 'sweeps', coalesce(app.unfinished_sweeps(p.id), p.waiting_detail), p.waiting_since where p.waiting_reason = 'sweeps'
    union all
    select 4, p.waiting_reason, p.waiting_detail, p.waiting_since where p.waiting_reason is not null
  ) w where p.status not in ('completed', 'failed') order by w.depth limit 1
$function$;

-- Why value is credited to no merchant: protocol, unsupported_token, chain_not_requested, wrong_token or enabled_later. is_asked_for: the address was asked for on its chain; asked_token: the token that its payment request asked for, null for a user's.
CREATE OR REPLACE FUNCTION app.why_unattributed(from_protocol boolean, is_known boolean, is_asked_for boolean, token text, asked_token text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN from_protocol THEN 'protocol'::text WHEN (NOT is_known) THEN 'unsupported_token'::text WHEN (NOT is_asked_for) THEN 'chain_not_requested'::text WHEN (token <> asked_token) THEN 'wrong_token'::text ELSE 'enabled_later'::text END;

-- Trigger: a new deposit that is protocol income is not credited.
CREATE OR REPLACE FUNCTION app.withhold_protocol_income()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
begin
  new.credited := false;
  return new;
end $function$;

-- Does not credit a deposit that is being returned, even if its chain was asked for before it is read again.
CREATE OR REPLACE FUNCTION app.withhold_returned()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
begin
  if not exists (select from app.outgoing_payment s where s.chain = new.chain and s.recovered and s.status <> 'final') then return new; end if;
  new.credited := not exists (select from (values ('sweep'), ('withdrawal')) k (kind)
    cross join lateral app.return_outgoing_payment_ids(new, k.kind) i join app.outgoing_payment s on s.id = i.id where s.recovered);
  return new;
end $function$;

-- Invariants: a view for each check, empty when all is right; its comment is the claim. Read by the owner, and by app.audit_checks for every audit.
create schema audit;

-- each balance = the sum of its unsettled deposits and debts
create view audit.balances as
 SELECT merchant_id,
    chain,
    token,
    kept_amount,
    counted_amount,
    kept_count,
    counted_count,
    kept_held_back,
    counted_held_back
   FROM app.balance_audit;
--   merchant_id uuid: The merchant.
--   chain text: Chain code.
--   token text: Token code.
--   kept_amount numeric: Gross balance as stored, in base units.
--   counted_amount numeric: Sum of the deposits and debts, in base units.
--   kept_count bigint: Number of deposits as stored.
--   counted_count bigint: Number of deposits counted.
--   kept_held_back numeric: What is held back of it, as stored, in base units.
--   counted_held_back numeric: Sum of the deposits that are held back, in base units.

-- the blocks from the final one to the head form one linked chain, and the final height lies on it
create view audit.blocks as
 SELECT c.chain,
    c.final_height AS height,
    'the final block is not among the blocks'::text AS wrong
   FROM chain.cursor c
  WHERE NOT (EXISTS ( SELECT
           FROM chain.block b
          WHERE b.chain = c.chain AND b.height = c.final_height AND b.hash = c.final_hash))
UNION ALL
 SELECT c.chain,
    c.head_height AS height,
    'the head is not the newest of the blocks'::text AS wrong
   FROM chain.cursor c
  WHERE NOT (EXISTS ( SELECT
           FROM chain.block b
          WHERE b.chain = c.chain AND b.height = c.head_height AND b.hash = c.head_hash AND NOT (EXISTS ( SELECT
                   FROM chain.block above
                  WHERE above.chain = c.chain AND above.height > b.height))))
UNION ALL
 SELECT link.chain,
    link.height,
    'does not link to the block below'::text AS wrong
   FROM ( SELECT b.chain,
            b.height,
            b.parent_hash,
            lag(b.hash) OVER (PARTITION BY b.chain ORDER BY b.height) AS below
           FROM chain.block b
             JOIN chain.cursor c USING (chain)
          WHERE b.height >= c.final_height) link
  WHERE link.parent_hash <> ''::text AND link.parent_hash <> link.below;
--   chain text: Chain code.
--   height integer: The height.
--   wrong text: What is wrong there.

-- final deposits = balances + gross of payouts that did not fail
create view audit.conservation as
 SELECT chain,
    token,
    merchant_id,
    sum(received) AS received,
    sum(held) AS balance_and_payouts
   FROM ( SELECT deposit.chain,
            deposit.token,
            deposit.merchant_id,
            deposit.amount AS received,
            0 AS held
           FROM app.deposit
          WHERE deposit.status = 'final'::text AND deposit.credited
        UNION ALL
         SELECT balance_now.chain,
            balance_now.token,
            balance_now.merchant_id,
            0,
            balance_now.amount
           FROM app.balance_now
        UNION ALL
         SELECT payout.chain,
            payout.token,
            payout.merchant_id,
            0,
            payout.gross
           FROM app.payout
          WHERE payout.status <> 'failed'::text
        UNION ALL
         SELECT adjustment.chain,
            adjustment.token,
            adjustment.merchant_id,
            0,
            - adjustment.amount
           FROM app.adjustment
          WHERE adjustment.reason = 'paid_after_all'::text) part
  GROUP BY chain, token, merchant_id
 HAVING sum(received) <> sum(held);
--   chain text: Chain code.
--   token text: Token code.
--   merchant_id uuid: The merchant.
--   received numeric: Sum of its final deposits, in base units.
--   balance_and_payouts numeric: Its balance and the gross of its payouts, in base units.

-- an event is delivered once to an endpoint of its merchant, and a delivered one got a response of success
create view audit.deliveries as
 SELECT d.event_id,
    d.endpoint_id,
    'delivered, and no attempt succeeded'::text AS wrong
   FROM app.delivery d
  WHERE d.status = 'delivered'::text AND NOT (EXISTS ( SELECT
           FROM app.delivery_attempt a
          WHERE a.delivery_id = d.id AND a.error IS NULL))
UNION ALL
 SELECT d.event_id,
    d.endpoint_id,
    'to an endpoint of another merchant'::text AS wrong
   FROM app.delivery d
     LEFT JOIN app.event e ON e.id = d.event_id
     LEFT JOIN app.webhook_endpoint w ON w.id = d.endpoint_id
  WHERE e.merchant_id IS NULL OR e.merchant_id IS DISTINCT FROM w.merchant_id
UNION ALL
 SELECT delivery.event_id,
    delivery.endpoint_id,
    count(*) || ' times'::text AS wrong
   FROM app.delivery
  GROUP BY delivery.event_id, delivery.endpoint_id
 HAVING count(*) > 1;
--   event_id uuid: The event.
--   endpoint_id uuid: The endpoint.
--   wrong text: What is wrong with the delivery.

-- every deposit that is not reorged is the one transfer that the chain holds, or that is on its way into a block, or is being read again
create view audit.deposits_are_on_the_chain as
 SELECT d.id,
    d.chain,
    d.txid,
    d.output_index,
    d.status
   FROM app.deposit d
     LEFT JOIN chain.transfer t ON t.id = ((((d.chain || ':'::text) || d.txid) || ':'::text) || d.output_index) AND t.recipient = d.address AND t.token = d.token AND t.amount = d.amount AND t.block_height = d.block_height AND t.block_hash = d.block_hash
  WHERE d.status <> 'reorged'::text AND t.id IS NULL AND NOT (EXISTS ( SELECT
           FROM app.known_incident k
          WHERE k.subject = d.id::text AND k.kind ~~ 'final\_deposit\_%'::text)) AND NOT (d.status = 'pending'::text AND d.block_height IS NULL AND (EXISTS ( SELECT
           FROM chain.unconfirmed u
          WHERE u.id = ((((d.chain || ':'::text) || d.txid) || ':'::text) || d.output_index) AND u.recipient = d.address AND u.amount = d.amount))) AND NOT (d.status = 'pending'::text AND (EXISTS ( SELECT
           FROM chain.awaited w
          WHERE w.id = ((((d.chain || ':'::text) || d.txid) || ':'::text) || d.output_index) AND w.since > (clock_timestamp() - chain.longest_wait() - '00:05:00'::interval))));
--   id uuid: The deposit.
--   chain text: Chain code.
--   txid text: Transaction id.
--   output_index integer: Position inside the transaction.
--   status text: Status of the deposit.

-- each change of a deposit and of a payment request, and the end of each payout, has exactly one event
create view audit.events as
 SELECT d.id,
    d.version AS expected,
    count(e.id) AS found
   FROM app.deposit d
     LEFT JOIN app.event e ON e.subject_id = d.id AND e.type ~~ 'deposit.%'::text
  GROUP BY d.id
 HAVING
        CASE
            WHEN NOT d.credited OR d.payment_request_id IS NOT NULL THEN count(e.id) > 0
            ELSE count(e.id) <> (d.version - min(e.version) + 1) OR max(e.version) <> d.version OR NOT (min(e.version) = 1 OR min(e.version) > 2) OR count(e.id) = 0
        END
UNION ALL
 SELECT p.id,
    (p.status = ANY (ARRAY['completed'::text, 'failed'::text]))::integer AS expected,
    count(e.id) AS found
   FROM app.payout p
     LEFT JOIN app.event e ON e.subject_id = p.id AND e.type ~~ 'payout.%'::text
  GROUP BY p.id
 HAVING count(e.id) <> (p.status = ANY (ARRAY['completed'::text, 'failed'::text]))::integer OR count(e.id) FILTER (WHERE e.type <> ('payout.'::text || p.status)) > 0
UNION ALL
 SELECT r.id,
    r.version AS expected,
    count(e.id) AS found
   FROM app.payment_request r
     LEFT JOIN app.event e ON e.subject_id = r.id AND starts_with(e.type, 'payment_request.'::text)
  GROUP BY r.id
 HAVING count(e.id) <> r.version;
--   id uuid: The deposit, the payout or the payment request.
--   expected integer: How many events it should have: its version, or 1 for a payout that ended.
--   found bigint: How many it has.

-- the fees in the ledger are those of completed payouts and of final transactions
create view audit.fees as
 SELECT what,
    chain,
    token,
    sum(posted) AS posted,
    sum(due) AS due
   FROM ( SELECT 'service fees'::text AS what,
            ledger_entry.chain,
            ledger_entry.token,
            - ledger_entry.amount AS posted,
            0 AS due
           FROM app.ledger_entry
          WHERE ledger_entry.account = 'fees'::text
        UNION ALL
         SELECT 'service fees'::text,
            payout.chain,
            payout.token,
            0,
            payout.fee
           FROM app.payout
          WHERE payout.status = 'completed'::text
        UNION ALL
         SELECT 'network fees'::text,
            ledger_entry.chain,
            ledger_entry.token,
            ledger_entry.amount,
            0
           FROM app.ledger_entry
          WHERE ledger_entry.account = 'network'::text
        UNION ALL
         SELECT 'network fees'::text,
            e.chain,
            e.token,
            e.amount,
            0
           FROM app.ledger_entry e
             JOIN app.outgoing_payment s ON s.id::text = e.reference AND s.kind = 'sweep'::text
          WHERE e.account = 'unattributed'::text AND e.kind = 'return'::text
        UNION ALL
         SELECT 'network fees'::text,
            outgoing_payment.chain,
            app.native_token(outgoing_payment.chain) AS native_token,
            0,
            outgoing_payment.fee_paid
           FROM app.outgoing_payment
          WHERE outgoing_payment.status = 'final'::text
        UNION ALL
         SELECT 'network fees'::text,
            second_payment.chain,
            app.native_token(second_payment.chain) AS native_token,
            0,
            second_payment.fee
           FROM app.second_payment
          WHERE second_payment.booked_at IS NOT NULL) part
  GROUP BY what, chain, token
 HAVING sum(posted) <> sum(due);
--   what text: service fees or network fees.
--   chain text: Chain code.
--   token text: Token code.
--   posted numeric: What the ledger has, in base units.
--   due numeric: What completed payouts earned, or final transactions cost, in base units.

-- deposits and outgoing payments are final at or below the final height, and nothing below it is still pending
create view audit.finality as
 SELECT d.chain,
    'deposit'::text AS what,
    d.id,
    d.status,
    d.block_height,
    c.final_height
   FROM app.deposit d
     JOIN chain.cursor c USING (chain)
  WHERE (d.status = 'final'::text AND d.block_height > c.final_height OR d.status = 'pending'::text AND d.block_height <= c.final_height) AND NOT (EXISTS ( SELECT
           FROM app.known_incident k
          WHERE k.subject = d.id::text AND k.kind ~~ 'final\_deposit\_%'::text)) AND NOT (d.status = 'final'::text AND (EXISTS ( SELECT
           FROM app.incident i
          WHERE i.subject = d.id::text AND i.kind = 'final_deposit_vanished'::text AND i.resolution = 'healed'::text)))
UNION ALL
 SELECT DISTINCT s.chain,
    s.kind AS what,
    s.id,
    s.status,
    i.block_height,
    c.final_height
   FROM app.outgoing_payment s
     JOIN chain.cursor c USING (chain)
     JOIN app.outgoing_confirmed_tx i ON i.outgoing_payment_id = s.id
  WHERE (s.status = 'final'::text AND i.txid = s.txid AND i.block_height > c.final_height OR s.status <> 'final'::text AND i.block_height <= c.final_height) AND NOT (EXISTS ( SELECT
           FROM app.known_incident k
          WHERE k.subject = s.id::text AND k.kind = 'final_payment_vanished'::text)) AND NOT (s.status = 'final'::text AND (EXISTS ( SELECT
           FROM app.incident v
          WHERE v.subject = s.id::text AND v.kind = 'final_payment_vanished'::text AND v.resolution = 'healed'::text)));
--   chain text: Chain code.
--   what text: deposit, or the kind of the outgoing payment: payout, sweep, withdrawal or cancel.
--   id uuid: Id of the deposit or the outgoing payment.
--   status text: Its status.
--   block_height integer: The block that holds it.
--   final_height integer: Final height of the chain.

-- nothing is held back that is worth a sweep, or was swept
create view audit.held_back as
 WITH held AS (
         SELECT deposit.chain,
            deposit.token,
            deposit.address,
                CASE
                    WHEN app.uses_outputs(deposit.chain) THEN deposit.id
                    ELSE NULL::uuid
                END AS deposit_id,
            sum(deposit.amount) AS amount,
            max(deposit.amount) AS largest
           FROM app.deposit
          WHERE deposit.held_back
          GROUP BY deposit.chain, deposit.token, deposit.address, (
                CASE
                    WHEN app.uses_outputs(deposit.chain) THEN deposit.id
                    ELSE NULL::uuid
                END)
        ), place AS (
         SELECT h.chain,
            h.token,
            h.address,
            h.deposit_id,
            h.amount,
            h.largest,
            a.sweep_min,
            g.amount AS holds,
            COALESCE(g.amount, 0::numeric) - COALESCE(l.amount, 0::numeric) AS unswept
           FROM held h
             JOIN app.asset a USING (chain, token)
             LEFT JOIN app.holding g USING (chain, token, address)
             LEFT JOIN ( SELECT c.chain,
                    l_1.address,
                    l_1.token,
                    l_1.amount
                   FROM app.chain c
                     CROSS JOIN LATERAL app.leaving(c.chain) l_1(address, token, amount)) l USING (chain, token, address)
        )
 SELECT p.chain,
    p.token,
    p.address,
    p.deposit_id,
    p.amount,
    p.sweep_min AS minimum,
    p.unswept
   FROM place p
     LEFT JOIN app.deposit d ON d.id = p.deposit_id
  WHERE NOT app.is_blocked(p.chain, p.token, p.address) AND p.largest >= p.sweep_min OR
        CASE
            WHEN p.deposit_id IS NULL THEN NOT app.is_blocked(p.chain, p.token, p.address) AND p.unswept >= p.sweep_min OR p.amount > p.holds AND p.holds >= 0::numeric
            ELSE (EXISTS ( SELECT
               FROM app.output u
              WHERE u.chain = p.chain AND u.txid = d.txid AND u.vout = d.output_index AND u.spent_by IS NOT NULL))
        END;
--   chain text: Chain code.
--   token text: Token code.
--   address text: The address.
--   deposit_id uuid: The deposit, on chains with outputs.
--   amount numeric: What is held back there, in base units.
--   minimum numeric(78,0): What is worth a sweep, in base units.
--   unswept numeric: What is on the address and no sweep under way takes, in base units.

-- each key has its own payout, of its merchant, and its response names it
create view audit.idempotency_keys as
 SELECT k.merchant_id,
    k.key
   FROM app.idempotency_key k
     LEFT JOIN app.payout p ON p.id = k.payout_id AND p.merchant_id = k.merchant_id
  WHERE p.id IS NULL OR (k.body::json ->> 'id'::text) IS DISTINCT FROM app.public_id('pay'::text, p.id)
UNION ALL
 SELECT idempotency_key.merchant_id,
    count(*) || ' keys of one payout'::text AS key
   FROM app.idempotency_key
  GROUP BY idempotency_key.merchant_id, idempotency_key.payout_id
 HAVING count(*) > 1;
--   merchant_id uuid: The merchant.
--   key text: The key; or how many keys one payout has.

-- custody signed what was stored, and numbered it without a gap
create view audit.journal as
 SELECT o.chain,
    o.txid
   FROM app.outgoing_attempt o
     LEFT JOIN custody.journal j ON j.stream = o.chain AND j.txid = o.txid
  WHERE j.raw IS DISTINCT FROM o.raw
UNION ALL
 SELECT journal.stream AS chain,
    (('entries: '::text || count(*)) || ', highest: '::text) || max(journal.seq) AS txid
   FROM custody.journal
  GROUP BY journal.stream
 HAVING count(*) <> max(journal.seq);
--   chain text: Chain code, or another stream of the journal.
--   txid text: The transaction; or, if entries are missing, how many there are and the highest number.

-- each sum stored beside the ledger = the sum of its entries
create view audit.ledger as
 SELECT what,
    chain,
    token,
    merchant_id,
    address,
    kept,
    posted
   FROM app.ledger_audit;
--   what text: What is compared, as app.ledger_audit names it.
--   chain text: Chain code.
--   token text: Token code.
--   merchant_id uuid: The merchant; null if it is about none.
--   address text: The address; null if it is about none.
--   kept numeric: The stored amount, in base units.
--   posted numeric: The amount by the ledger, or by what is under way, in base units.

-- addresses and deposits belong to the merchant to whom the address was handed
create view audit.merchants_apart as
 SELECT a.chain,
    a.address AS what,
    a.merchant_id,
    o.merchant_id AS handed_to
   FROM app.address a
     LEFT JOIN custody.address o ON o.address = a.address
  WHERE a.merchant_id IS DISTINCT FROM o.merchant_id
UNION ALL
 SELECT d.chain,
    d.id::text AS what,
    d.merchant_id,
    o.merchant_id AS handed_to
   FROM app.deposit d
     LEFT JOIN custody.address o ON o.address = d.address
  WHERE d.merchant_id IS DISTINCT FROM o.merchant_id;
--   chain text: Chain code.
--   what text: The address, or the id of the deposit.
--   merchant_id uuid: The merchant that it is booked to; null for the treasury.
--   handed_to uuid: The merchant that its address was handed to; null for the treasury, and for an address that custody does not know.

-- of the deposits at one output at most one is not reorged
create view audit.no_double_credit as
 SELECT chain,
    txid,
    output_index,
    count(*) AS deposits
   FROM app.deposit
  WHERE status <> 'reorged'::text
  GROUP BY chain, txid, output_index
 HAVING count(*) > 1;
--   chain text: Chain code.
--   txid text: Transaction id.
--   output_index integer: Position inside the transaction.
--   deposits bigint: How many deposits there are not reorged.

-- each payment, withdrawal and sweep has one final transaction if it is done, and none otherwise; a payout is completed exactly if its payment is done
create view audit.no_double_pay as
 WITH decided AS (
         SELECT n.chain,
            n.txid
           FROM app.second_payment n
             JOIN app.incident k ON k.id = n.incident_id
          WHERE k.resolved_at IS NOT NULL
        ), paid AS (
         SELECT s.id,
            s.kind,
            s.payout_id,
            s.outcome,
            count(f.txid) AS times,
            (NOT s.outcome IS DISTINCT FROM 'done'::text AND (s.kind <> 'payout'::text OR p.status = 'completed'::text))::integer AS due
           FROM app.outgoing_payment s
             LEFT JOIN app.payout p ON p.id = s.payout_id
             LEFT JOIN app.attempt_fate f ON f.chain = s.chain AND f.kind <> 'cancel'::text AND f.fate = 'final'::text AND f.subject_id =
                CASE s.kind
                    WHEN 'payout'::text THEN s.payout_id
                    ELSE s.id
                END AND NOT (EXISTS ( SELECT
                   FROM decided d
                  WHERE d.chain = f.chain AND d.txid = f.txid))
          GROUP BY s.id, p.status
        )
 SELECT COALESCE(x.payout_id, x.id) AS id,
    x.kind,
    COALESCE(x.outcome, 'not over'::text) AS status,
    x.times AS paid
   FROM paid x
  WHERE x.times <> x.due AND NOT (x.times < x.due AND (EXISTS ( SELECT
           FROM app.known_incident k
          WHERE k.subject = x.id::text AND k.kind = 'final_payment_vanished'::text)))
UNION ALL
 SELECT p.id,
    'payout'::text AS kind,
    p.status,
    x.times AS paid
   FROM app.payout p
     LEFT JOIN paid x ON x.payout_id = p.id AND x.kind = 'payout'::text
  WHERE p.status = 'completed'::text AND x.outcome IS DISTINCT FROM 'done'::text
UNION ALL
 SELECT p.id,
    'payout'::text AS kind,
    p.status,
    NULL::bigint AS paid
   FROM app.payout p
     JOIN app.outgoing_payment s ON s.payout_id = p.id AND s.kind = 'payout'::text
     JOIN app.outgoing_attempt o ON o.outgoing_payment_id = s.id AND o.kind = 'effect'::text
  WHERE o.amount <> p.net OR o.recipient <> p.address OR o.token <> p.token OR o.chain <> p.chain;
--   id uuid: The payout, or the outgoing payment if it is a withdrawal or a sweep.
--   kind text: payout, withdrawal or sweep.
--   status text: Its outcome, or its status.
--   paid bigint: How many final transactions paid it; null if a stored transaction has another amount, recipient, token or chain.

-- every transaction that an address of ours sent was signed by custody, or stored before
create view audit.no_unknown_transaction as
 SELECT id,
    account,
    conflict_key
   FROM chain.confirmed_tx i
  WHERE NOT (EXISTS ( SELECT
           FROM app.outgoing_attempt o
          WHERE o.chain = i.chain AND o.txid = i.txid)) AND NOT (EXISTS ( SELECT
           FROM custody.journal j
          WHERE j.stream = i.chain AND j.txid = i.txid)) AND NOT (EXISTS ( SELECT
           FROM app.unknown_transaction u
             JOIN app.incident k ON k.id = u.incident_id
          WHERE u.chain = i.chain AND u.txid = i.txid AND (k.resolved_at IS NULL OR k.resolution = 'kept'::text)));
--   id text: The transaction in a block: <chain>:<txid>, on Bitcoin with the position of the input.
--   account text: Our address whose key it used.
--   conflict_key text: What it used up: address:nonce, or on Bitcoin the output that it spends (txid:vout).

-- the nonces of each account have no gap, in our books and in what the chain holds
create view audit.nonces as
 SELECT n.chain,
    n.address,
    n.next_nonce,
    count(s.id) AS used
   FROM app.sender n
     LEFT JOIN app.outgoing_payment s ON s.chain = n.chain AND s.fee_payer = n.address
  GROUP BY n.chain, n.address
 HAVING count(s.id) <> n.next_nonce OR max(s.nonce) >= n.next_nonce
UNION ALL
 SELECT confirmed_tx.chain,
    confirmed_tx.account AS address,
    max(confirmed_tx.nonce) + 1 AS next_nonce,
    count(DISTINCT confirmed_tx.nonce) AS used
   FROM chain.confirmed_tx
  WHERE confirmed_tx.nonce IS NOT NULL
  GROUP BY confirmed_tx.chain, confirmed_tx.account
 HAVING count(DISTINCT confirmed_tx.nonce) <> (max(confirmed_tx.nonce) + 1);
--   chain text: Chain code.
--   address text: The account.
--   next_nonce integer: The next nonce: in our books, or after the highest one in a block.
--   used bigint: How many nonces below it are used, in the same place.

-- no address, no treasury and no reservation is below zero
create view audit.nothing_below_zero as
 SELECT 'holding'::text AS what,
    holding.chain,
    holding.token,
    holding.address AS whose,
    holding.amount
   FROM app.holding
  WHERE holding.amount < 0::numeric
UNION ALL
 SELECT 'treasury'::text AS what,
    treasury.chain,
    treasury.token,
    NULL::text AS whose,
    treasury.balance AS amount
   FROM app.treasury
  WHERE treasury.balance < 0::numeric
UNION ALL
 SELECT 'gas'::text AS what,
    gas.chain,
    app.native_token(gas.chain) AS token,
    gas.address AS whose,
    gas.amount
   FROM app.gas
  WHERE gas.amount < 0::numeric
UNION ALL
 SELECT 'reserved gas'::text AS what,
    gas.chain,
    app.native_token(gas.chain) AS token,
    gas.address AS whose,
    gas.reserved AS amount
   FROM app.gas
  WHERE gas.reserved < 0::numeric
UNION ALL
 SELECT 'reserved'::text AS what,
    treasury.chain,
    treasury.token,
    NULL::text AS whose,
    treasury.reserved AS amount
   FROM app.treasury
  WHERE treasury.reserved < 0::numeric
UNION ALL
 SELECT 'reserved share'::text AS what,
    treasury_share.chain,
    treasury_share.token,
    treasury_share.merchant_id::text AS whose,
    treasury_share.reserved AS amount
   FROM app.treasury_share
  WHERE treasury_share.reserved < 0::numeric;
--   what text: holding, treasury, reserved, reserved share, gas or reserved gas.
--   chain text: Chain code.
--   token text: Token code.
--   whose text: The address of a holding or of gas, the merchant of a share; null for the treasury.
--   amount numeric: How much it is, in base units: below zero.

-- what was claimed belongs to one payout of its merchant, chain and token, which did not fail
create view audit.one_payout_each as
 SELECT c.what,
    c.id,
    c.settlement_id,
    p.status
   FROM ( SELECT 'deposit'::text AS what,
            deposit.id,
            deposit.settlement_id,
            deposit.merchant_id,
            deposit.chain,
            deposit.token
           FROM app.deposit
          WHERE deposit.settlement_id IS NOT NULL
        UNION ALL
         SELECT 'adjustment'::text,
            adjustment.id,
            adjustment.settlement_id,
            adjustment.merchant_id,
            adjustment.chain,
            adjustment.token
           FROM app.adjustment
          WHERE adjustment.settlement_id IS NOT NULL) c
     LEFT JOIN app.payout p ON p.id = c.settlement_id AND p.merchant_id = c.merchant_id AND p.chain = c.chain AND p.token = c.token
  WHERE p.id IS NULL OR p.status = 'failed'::text AND NOT (EXISTS ( SELECT
           FROM app.claim r
          WHERE r.payout_id = p.id AND r.finished_at IS NULL));
--   what text: deposit or adjustment.
--   id uuid: Its id.
--   settlement_id uuid: The payout that it names.
--   status text: Status of that payout; null if it is not one of its merchant, chain and token.

-- an output is spent or reserved by one outgoing payment, from its first input on, and what is unspent adds up to holdings and treasury
create view audit.outputs as
 SELECT u.chain,
    (u.txid || ':'::text) || u.vout AS output,
    'reserved by an outgoing payment that is over'::text AS wrong
   FROM app.output u
     JOIN app.outgoing_payment s ON s.id = u.outgoing_payment_id
  WHERE u.spent_by IS NULL AND s.status = 'final'::text
UNION ALL
 SELECT u.chain,
    (u.txid || ':'::text) || u.vout AS output,
    'spent by another transaction than its outgoing payment says'::text AS wrong
   FROM app.output u
     JOIN app.outgoing_payment s ON s.id = u.outgoing_payment_id
  WHERE u.spent_by IS NOT NULL AND (s.status <> 'final'::text OR s.txid IS DISTINCT FROM u.spent_by) AND s.outcome IS DISTINCT FROM 'conflicted'::text
UNION ALL
 SELECT u.chain,
    (u.txid || ':'::text) || u.vout AS output,
    'spent, and in no block'::text AS wrong
   FROM app.output u
  WHERE u.spent_by IS NOT NULL AND NOT (EXISTS ( SELECT
           FROM chain.confirmed_tx i
          WHERE i.chain = u.chain AND i.txid = u.spent_by)) AND NOT (EXISTS ( SELECT
           FROM app.known_incident k
          WHERE k.subject = u.outgoing_payment_id::text AND k.kind = 'final_payment_vanished'::text))
UNION ALL
 SELECT s.chain,
    s.id::text AS output,
    'does not have its first input'::text AS wrong
   FROM app.outgoing_payment s
  WHERE s.first_input IS NOT NULL AND s.outcome IS DISTINCT FROM 'conflicted'::text AND NOT s.recovered AND NOT (EXISTS ( SELECT
           FROM app.cpfp b
          WHERE b.outgoing_payment_id = s.id AND s.status <> 'final'::text AND NOT (EXISTS ( SELECT
                   FROM app.output u
                  WHERE u.chain = s.chain AND u.txid = b.txid)))) AND NOT (EXISTS ( SELECT
           FROM app.output u
          WHERE u.outgoing_payment_id = s.id AND ((u.txid || ':'::text) || u.vout) = s.first_input AND u.from_attempt = 1))
UNION ALL
 SELECT ledger_audit.chain,
    COALESCE(ledger_audit.address, 'treasury'::text) AS output,
    ((('has '::text || ledger_audit.kept) || ' in outputs, and '::text) || ledger_audit.posted) || ' in the books'::text AS wrong
   FROM app.ledger_audit
  WHERE ledger_audit.what = 'output'::text;
--   chain text: Chain code.
--   output text: The output (txid:vout), the id of the outgoing payment, or the address; treasury for the treasury.
--   wrong text: What is wrong with it.

-- each payment request has one address, which no other owner has on any chain; what arrives there belongs to it, and counts only in its token
create view audit.payment_addresses as
 SELECT r.id AS payment_request_id,
    min(a.address) AS address,
    'has not one address from the pool, asked for on its chain alone'::text AS wrong
   FROM app.payment_request r
     LEFT JOIN app.address a ON a.payment_request_id = r.id
     LEFT JOIN custody.address o ON o.address = a.address AND o.purpose = 'deposit'::text AND o.merchant_id = r.merchant_id
  GROUP BY r.id
 HAVING (min(a.address) = max(a.address)) IS NOT TRUE OR count(o.address) <> count(a.chain) OR bool_or(a.merchant_id <> r.merchant_id) OR count(*) FILTER (WHERE a.is_provisioned) <> 1 OR NOT bool_or(a.chain = r.chain AND a.is_provisioned)
UNION ALL
 SELECT a.payment_request_id,
    a.address,
    'is the address of another owner on '::text || b.chain AS wrong
   FROM app.address a
     JOIN app.address b ON b.match_key = a.match_key AND (b.user_id IS DISTINCT FROM a.user_id OR b.payment_request_id IS DISTINCT FROM a.payment_request_id)
  WHERE a.payment_request_id IS NOT NULL
UNION ALL
 SELECT COALESCE(d.payment_request_id, a.payment_request_id) AS payment_request_id,
    d.address,
    'does not belong to whom its address belongs to: '::text || d.id AS wrong
   FROM app.deposit d
     LEFT JOIN app.address a ON a.chain = d.chain AND a.address = d.address
  WHERE d.user_id IS DISTINCT FROM a.user_id OR d.payment_request_id IS DISTINCT FROM a.payment_request_id
UNION ALL
 SELECT d.payment_request_id,
    d.address,
        CASE
            WHEN d.credited THEN 'counts, and was not asked for: '::text
            ELSE 'was asked for, and does not count: '::text
        END || d.id AS wrong
   FROM app.deposit d
     JOIN app.payment_request r ON r.id = d.payment_request_id
     LEFT JOIN app.unattributed_decision u ON u.deposit_id = d.id
  WHERE d.credited <> (d.chain = r.chain AND d.token = r.token AND NOT app.is_from_protocol(d.transfer_kind, d.output_index, d.token)) AND u.deposit_id IS NULL;
--   payment_request_id uuid: The payment request; null if a user's deposit names another owner than its address.
--   address text: The address.
--   wrong text: What is wrong with it.

-- the state of each payment request follows from its receipts, and GET /payments has those that are paid or underpaid
create view audit.payment_requests as
 WITH receipt AS (
         SELECT c.payment_request_id,
            c.deposit_id,
            c.seq,
            c.txid,
            c.output_index,
            c.amount,
            c.status,
            c.block_height,
            c.settlement_id,
            c.finalisation,
            c.created_at,
            c.finalised_at,
            c.late,
            c.merchant_id,
            c.external_id,
            c.chain,
            c.token,
            c.sender,
            c.address,
            c.is_unmined,
            r_1.amount - LEAST(GREATEST(r_1.tolerance, LEAST(r_1.detected_from - 1::numeric, div(r_1.amount, 100::numeric))), GREATEST(r_1.amount - r_1.detected_from, 0::numeric)) AS enough,
            sum(c.amount) FILTER (WHERE c.status = 'final'::text) OVER (PARTITION BY c.payment_request_id ORDER BY c.finalisation, c.seq) AS so_far
           FROM app.receipt c
             JOIN app.payment_request r_1 ON r_1.id = c.payment_request_id
        ), summed AS (
         SELECT r_1.id,
            COALESCE(sum(c.amount) FILTER (WHERE c.status = 'final'::text), 0::numeric) AS received,
            COALESCE(sum(c.amount) FILTER (WHERE c.status = 'pending'::text), 0::numeric) AS pending,
            COALESCE(bool_or(c.late) FILTER (WHERE c.status = 'final'::text), false) AS late,
            COALESCE(bool_or(NOT c.late) FILTER (WHERE c.status = 'pending'::text), false) AS is_coming_in_time,
            COALESCE(min(c.txid) FILTER (WHERE c.status = 'final'::text AND c.so_far >= c.enough AND (c.so_far - c.amount) < c.enough), (array_agg(c.txid ORDER BY c.so_far DESC) FILTER (WHERE c.status = 'final'::text))[1]) AS txid,
            min(c.finalised_at) FILTER (WHERE c.status = 'final'::text AND c.so_far >= c.enough AND (c.so_far - c.amount) < c.enough) AS paid_at
           FROM app.payment_request r_1
             LEFT JOIN receipt c ON c.payment_request_id = r_1.id
          GROUP BY r_1.id
        ), due AS (
         SELECT s.id,
            s.received,
            s.pending,
            s.late,
            s.is_coming_in_time,
            s.txid,
            s.paid_at,
                CASE
                    WHEN s.paid_at IS NOT NULL THEN 'paid'::text
                    WHEN (s.received + s.pending) < r_1.detected_from THEN
                    CASE
                        WHEN r_1.expired_at IS NULL THEN 'awaiting'::text
                        WHEN r_1.cancelled_at IS NULL THEN 'expired'::text
                        ELSE 'cancelled'::text
                    END
                    WHEN s.received >= r_1.detected_from AND r_1.expired_at IS NOT NULL AND NOT s.is_coming_in_time THEN 'underpaid'::text
                    ELSE 'detected'::text
                END AS status
           FROM summed s
             JOIN app.payment_request r_1 ON r_1.id = s.id AND COALESCE(r_1.decide_at > clock_timestamp(), true)
        )
 SELECT r.id,
    r.status,
    d.status AS due_status,
    r.received,
    d.received AS due_received,
    r.pending,
    d.pending AS due_pending,
    r.late,
    d.late AS due_late,
    r.txid,
    d.txid AS due_txid,
    r.paid_at,
    d.paid_at AS due_paid_at,
    r."position"
   FROM app.payment_request r
     JOIN due d ON d.id = r.id
  WHERE r.status IS DISTINCT FROM d.status OR r.received IS DISTINCT FROM d.received OR r.pending IS DISTINCT FROM d.pending OR r.late IS DISTINCT FROM d.late OR r.txid IS DISTINCT FROM d.txid OR r.paid_at IS DISTINCT FROM d.paid_at OR (r."position" IS NOT NULL) <> (d.status = ANY (ARRAY['paid'::text, 'underpaid'::text]));
--   id uuid: The payment request.
--   status text: Its status as stored.
--   due_status text: Its status by its receipts.
--   received numeric(78,0): Sum of its final receipts in base units, as stored.
--   due_received numeric: The same, counted.
--   pending numeric(78,0): Sum of its pending receipts in base units, as stored.
--   due_pending numeric: The same, counted.
--   late boolean: Whether a final receipt came late, as stored.
--   due_late boolean: The same, by the receipts.
--   txid text: The transaction that it names, as stored.
--   due_txid text: The same, by the receipts.
--   paid_at timestamp with time zone: When it was paid, as stored.
--   due_paid_at timestamp with time zone: The same, by the receipts.
--   "position" bigint: Its place in GET /payments: set if, and only if, it is paid or underpaid.

-- gross = fee + net = the sum of what was claimed, and a failed payout holds nothing
create view audit.payouts_add_up as
 SELECT p.id,
    p.status,
    p.gross,
    COALESCE(d.amount, 0::numeric) + COALESCE(j.amount, 0::numeric) AS claimed
   FROM app.payout p
     LEFT JOIN ( SELECT o.settlement_id,
            sum(
                CASE
                    WHEN l.deposit_id IS NULL THEN o.amount
                    ELSE
                    CASE o.status
                        WHEN 'final'::text THEN o.amount
                        ELSE 0::numeric
                    END - l.amount
                END) AS amount
           FROM app.deposit o
             LEFT JOIN ( SELECT adjustment.deposit_id,
                    sum(adjustment.amount) AS amount
                   FROM app.adjustment
                  GROUP BY adjustment.deposit_id) l ON l.deposit_id = o.id
          WHERE o.settlement_id IS NOT NULL
          GROUP BY o.settlement_id) d ON d.settlement_id = p.id
     LEFT JOIN ( SELECT adjustment.settlement_id,
            sum(adjustment.amount) AS amount
           FROM app.adjustment
          WHERE adjustment.settlement_id IS NOT NULL
          GROUP BY adjustment.settlement_id) j ON j.settlement_id = p.id
  WHERE p.gross <> (p.fee + p.net) OR NOT (EXISTS ( SELECT
           FROM app.claim c
          WHERE c.payout_id = p.id AND c.finished_at IS NULL)) AND NOT (EXISTS ( SELECT
           FROM app.adjustment a
          WHERE a.settlement_id = p.id AND a.reason = 'payout_recovered'::text)) AND (COALESCE(d.amount, 0::numeric) + COALESCE(j.amount, 0::numeric)) <>
        CASE
            WHEN p.status = 'failed'::text THEN 0::numeric
            ELSE p.gross
        END;
--   id uuid: The payout.
--   status text: Its status.
--   gross numeric(78,0): Its gross, in base units.
--   claimed numeric: Sum of the deposits and adjustments that carry its id, in base units.

-- the entries of each posting add up to zero for each token
create view audit.postings as
 SELECT posting,
    chain,
    token,
    sum(amount) AS sum
   FROM app.ledger_entry
  GROUP BY posting, chain, token
 HAVING sum(amount) <> 0::numeric;
--   posting bigint: The movement.
--   chain text: Chain code.
--   token text: Token code.
--   sum numeric: What its entries add up to, in base units.

-- deposits and payouts went from state to state as the contract has it, and are where their last event says
create view audit.states as
 SELECT 'deposit'::text AS what,
    step.subject_id AS id,
    (step.before || ' to '::text) || step.type AS wrong
   FROM ( SELECT event.subject_id,
            event.version,
            event.type,
            lag(event.type, 1, 'nothing'::text) OVER (PARTITION BY event.subject_id ORDER BY event.version) AS before
           FROM app.event
          WHERE event.type ~~ 'deposit.%'::text AND NOT event.is_test) step
  WHERE
        CASE step.type
            WHEN 'deposit.pending'::text THEN step.before <> ALL (ARRAY['nothing'::text, 'deposit.reorged'::text])
            WHEN 'deposit.confirmed'::text THEN step.before <> 'deposit.pending'::text AND NOT (step.before = 'nothing'::text AND step.version > 2)
            ELSE step.before <> ALL (ARRAY['deposit.pending'::text, 'deposit.confirmed'::text])
        END
UNION ALL
 SELECT 'deposit'::text AS what,
    d.id,
    (d.status || ', and the last event is '::text) || e.type AS wrong
   FROM app.deposit d
     JOIN app.event e ON e.subject_id = d.id AND e.version = d.version
  WHERE d.credited AND e.type <>
        CASE d.status
            WHEN 'final'::text THEN 'deposit.confirmed'::text
            ELSE 'deposit.'::text || d.status
        END
UNION ALL
 SELECT 'deposit'::text AS what,
    deposit.id,
    (deposit.status ||
        CASE
            WHEN deposit.finalised_at IS NULL THEN ' without'::text
            ELSE ' with'::text
        END) || ' the time when it became final'::text AS wrong
   FROM app.deposit
  WHERE (deposit.status = 'final'::text) <> (deposit.finalised_at IS NOT NULL) OR (deposit.status = 'final'::text) <> (deposit.finalisation IS NOT NULL)
UNION ALL
 SELECT 'payout'::text AS what,
    payout.id,
    payout.status || ', and how it ended says something else'::text AS wrong
   FROM app.payout
  WHERE (payout.status = ANY (ARRAY['completed'::text, 'failed'::text])) <> (payout.finished_at IS NOT NULL) OR (payout.status = 'completed'::text) <> (payout.txid IS NOT NULL) OR (payout.status = 'failed'::text) <> (payout.error_code IS NOT NULL);
--   what text: deposit or payout.
--   id uuid: Its id.
--   wrong text: The forbidden change, or what contradicts its status.

-- a transaction is stored, signed, before it is given to a node and before anything counts on it
create view audit.stored_first as
 SELECT s.chain,
    s.id,
    s.status ||
        CASE
            WHEN o.stored IS NULL THEN ', and nothing is stored'::text
            ELSE ', and something is stored'::text
        END AS wrong
   FROM app.outgoing_payment s
     LEFT JOIN ( SELECT outgoing_attempt.outgoing_payment_id,
            count(*) AS stored
           FROM app.outgoing_attempt
          GROUP BY outgoing_attempt.outgoing_payment_id) o ON o.outgoing_payment_id = s.id
  WHERE s.status <> 'final'::text AND (s.status = 'live'::text) <> (o.stored IS NOT NULL)
UNION ALL
 SELECT p.chain,
    p.id,
    'paying, and no payment is stored'::text AS wrong
   FROM app.payout p
  WHERE p.status = 'paying'::text AND NOT (EXISTS ( SELECT
           FROM app.outgoing_payment s
             JOIN app.outgoing_attempt o ON o.outgoing_payment_id = s.id AND o.kind = 'effect'::text
          WHERE s.payout_id = p.id AND s.kind = 'payout'::text))
UNION ALL
 SELECT o.chain,
    o.outgoing_payment_id AS id,
    'given to a node before it was stored'::text AS wrong
   FROM app.outgoing_attempt o
  WHERE o.broadcast_at < o.stored_at;
--   chain text: Chain code.
--   id uuid: The outgoing payment, or the payout.
--   wrong text: What is wrong with it.

-- everything that the chain shows to have reached an address of ours is a deposit, or what we sent ourselves
create view audit.transfers_are_deposits as
 SELECT t.id,
    t.recipient,
    t.token,
    t.amount,
    t.block_height
   FROM chain.transfer t
     JOIN app.address a ON a.chain = t.chain AND a.address = t.recipient
  WHERE NOT (EXISTS ( SELECT
           FROM app.deposit d
          WHERE d.txid = t.txid AND d.output_index = t.output_index AND d.chain = t.chain AND d.address = t.recipient AND d.token = t.token AND d.status <> 'reorged'::text)) AND NOT (EXISTS ( SELECT
           FROM custody.address own
          WHERE own.address = t.sender)) AND NOT (a.merchant_id IS NULL AND (EXISTS ( SELECT
           FROM app.outgoing_attempt o
          WHERE o.chain = t.chain AND o.txid = t.txid))) AND NOT (EXISTS ( SELECT
           FROM app.known_incident k
          WHERE k.subject = t.id AND k.kind = 'payment_replaced'::text));
--   id text: The transfer: <chain>:<txid>:<output index>.
--   recipient text: Our address.
--   token text: Token code, or the contract address of a token that is not supported.
--   amount numeric(78,0): Amount in base units.
--   block_height integer: The block that holds it.

-- each unattributed deposit was credited, or returned once, or neither, and no more of it than arrived
create view audit.unattributed as
 SELECT u.deposit_id,
    u.decision,
    'more than arrived'::text AS wrong
   FROM app.unattributed_decision u
     JOIN app.deposit d ON d.id = u.deposit_id
  WHERE u.amount > d.amount OR (EXISTS ( SELECT
           FROM app.outgoing_payment s
          WHERE (s.id = ANY (ARRAY[u.sweep_id, u.withdrawal_id])) AND (s.amount > d.amount OR s.chain <> d.chain OR s.token <> d.token)))
UNION ALL
 SELECT u.deposit_id,
    u.decision,
        CASE
            WHEN d.credited THEN 'credited'::text
            ELSE 'not credited'::text
        END AS wrong
   FROM app.unattributed_decision u
     JOIN app.deposit d ON d.id = u.deposit_id
  WHERE d.credited <> (u.decision = 'credit'::text)
UNION ALL
 SELECT d.id AS deposit_id,
    u.decision,
    'returned more than once'::text AS wrong
   FROM app.unattributed_decision u
     JOIN app.deposit d ON d.id = u.deposit_id
  WHERE (( SELECT count(*) AS count
           FROM app.return_outgoing_payment_ids(d.*, 'withdrawal'::text) i(n, id)
             JOIN app.outgoing_payment s ON s.id = i.id AND s.outcome = 'done'::text)) > 1;
--   deposit_id uuid: The unattributed value: a row of app.deposit.
--   decision text: What was decided: credit or return.
--   wrong text: What is wrong with it.

-- every destination was on its whitelist when it was first signed for
create view audit.whitelist as
 SELECT stream,
    seq,
    destination
   FROM custody.journal j
  WHERE (kind = ANY (ARRAY['pay'::text, 'withdraw'::text])) AND NOT (EXISTS ( SELECT
           FROM custody.journal before
          WHERE before.subject_id = j.subject_id AND before.kind = j.kind AND before.stream = j.stream AND before.seq < j.seq)) AND NOT (EXISTS ( SELECT
           FROM custody.whitelist w
          WHERE NOT w.merchant_id IS DISTINCT FROM j.merchant_id AND w.chain = j.stream AND w.address = j.destination AND (w.active_at - '00:00:01'::interval) <= j.signed_at AND (w.removed_at IS NULL OR (w.removed_at + '00:00:01'::interval) > j.signed_at)));
--   stream text: Chain code.
--   seq bigint: Number of the entry in the journal.
--   destination text: The address that it pays to.

-- People, their passwords and second factors, and their sessions: the tables of the library better-auth, for sluice_auth alone.
create schema auth;

-- Passwords, one for each person.
create table auth.account (
  id uuid not null default uuidv7(), -- Id.
  "accountId" text not null, -- The person again.
  "providerId" text not null, -- Always credential: a password.
  "userId" uuid not null, -- The person.
  "accessToken" text, -- Not used; the library asks for it.
  "refreshToken" text, -- Not used; the library asks for it.
  "idToken" text, -- Not used; the library asks for it.
  "accessTokenExpiresAt" timestamp with time zone, -- Not used; the library asks for it.
  "refreshTokenExpiresAt" timestamp with time zone, -- Not used; the library asks for it.
  scope text, -- Not used; the library asks for it.
  password text, -- The password, hashed with scrypt and a salt of its own.
  "createdAt" timestamp with time zone not null default clock_timestamp(), -- When it was made.
  "updatedAt" timestamp with time zone not null default clock_timestamp(), -- When it last changed.
  constraint account_pkey PRIMARY KEY (id),
  constraint "account_providerId_accountId_key" UNIQUE ("providerId", "accountId"),
  constraint "account_userId_fkey" FOREIGN KEY ("userId") REFERENCES auth."user"(id) ON DELETE CASCADE,
  constraint "account_userId_providerId_key" UNIQUE ("userId", "providerId")
);

-- Authenticators (TOTP, RFC 6238), one for each person, from the moment that a code of it was shown.
create table auth.authenticator (
  user_id uuid not null, -- The person.
  secret text not null, -- Its secret, encrypted with DASHBOARD_SECRET.
  set_up_at timestamp with time zone not null default clock_timestamp(), -- When it was set up.
  constraint authenticator_pkey PRIMARY KEY (user_id),
  constraint authenticator_user_id_fkey FOREIGN KEY (user_id) REFERENCES auth."user"(id) ON DELETE CASCADE
);

-- Passkeys (WebAuthn). One counts as both factors: the device verifies the person.
create table auth.passkey (
  id uuid not null default uuidv7(), -- Id.
  name text, -- The person's name for it.
  "publicKey" text not null, -- The public key.
  "userId" uuid not null, -- The person.
  "credentialID" text not null, -- The id that the device gave it.
  counter integer not null, -- How often the device signed, if it counts.
  "deviceType" text not null, -- Whether it stays on one device.
  "backedUp" boolean not null, -- Whether the device keeps a copy elsewhere.
  transports text, -- How the device is reached.
  "createdAt" timestamp with time zone default clock_timestamp(), -- When it was made.
  aaguid text, -- The model of the device.
  constraint passkey_pkey PRIMARY KEY (id),
  constraint "passkey_credentialID_key" UNIQUE ("credentialID"),
  constraint "passkey_userId_fkey" FOREIGN KEY ("userId") REFERENCES auth."user"(id) ON DELETE CASCADE
);
CREATE INDEX passkey_person ON auth.passkey USING btree ("userId");

-- Attempts to sign in, by path and address of the client.
create table auth."rateLimit" (
  id uuid not null default uuidv7(), -- Id.
  key text not null, -- The path and the client.
  count integer not null, -- Attempts in the present window.
  "lastRequest" bigint not null, -- The last attempt, in milliseconds since 1970.
  constraint "rateLimit_pkey" PRIMARY KEY (id),
  constraint "rateLimit_key_key" UNIQUE (key)
);

-- Recovery codes that are left. Each works once, in place of a code of the authenticator.
create table auth.recovery_code (
  user_id uuid not null, -- The person.
  code_hash bytea not null, -- SHA-256 of the code, which has 80 random bits.
  constraint recovery_code_pkey PRIMARY KEY (user_id, code_hash),
  constraint recovery_code_code_hash_check CHECK ((octet_length(code_hash) = 32)),
  constraint recovery_code_user_id_fkey FOREIGN KEY (user_id) REFERENCES auth."user"(id) ON DELETE CASCADE
);

-- Browsers that are signed in. Deleting a row ends the session at once.
create table auth.session (
  id uuid not null default uuidv7(), -- Id.
  "expiresAt" timestamp with time zone not null, -- When it ends if it is not used.
  token text not null, -- The secret in the cookie of the browser.
  "createdAt" timestamp with time zone not null default clock_timestamp(), -- When the person signed in.
  "updatedAt" timestamp with time zone not null default clock_timestamp(), -- When it was last prolonged.
  "ipAddress" text, -- Where the person signed in from.
  "userAgent" text, -- What the browser said it is.
  "userId" uuid not null, -- The person.
  "secondFactorAt" timestamp with time zone, -- When the person last showed a second factor in this session; null before: the session then shows nothing of a merchant.
  constraint session_pkey PRIMARY KEY (id),
  constraint session_token_key UNIQUE (token),
  constraint "session_userId_fkey" FOREIGN KEY ("userId") REFERENCES auth."user"(id) ON DELETE CASCADE
);
CREATE INDEX session_person ON auth.session USING btree ("userId");
CREATE TRIGGER limit_session BEFORE INSERT OR UPDATE ON auth.session FOR EACH ROW EXECUTE FUNCTION dashboard.limit_session();

-- People who may sign in.
create table auth."user" (
  id uuid not null default uuidv7(), -- Id.
  name text not null, -- Name for people.
  email text not null, -- The address with which the person signs in, in lower case. Nothing is sent to it.
  "emailVerified" boolean not null, -- Always true: an operator gave the invitation to the person.
  image text, -- Not used; the library asks for it.
  "createdAt" timestamp with time zone not null default clock_timestamp(), -- When the invitation was accepted.
  "updatedAt" timestamp with time zone not null default clock_timestamp(), -- When the row last changed.
  constraint user_pkey PRIMARY KEY (id),
  constraint user_email_check CHECK ((email = lower(email))),
  constraint user_email_key UNIQUE (email)
);

-- What a sign-in under way has to show: a second factor, or the reply to a challenge of a passkey.
create table auth.verification (
  id uuid not null default uuidv7(), -- Id.
  identifier text not null, -- What it is for.
  value text not null, -- What is expected.
  "expiresAt" timestamp with time zone not null, -- When it ends.
  "createdAt" timestamp with time zone not null default clock_timestamp(), -- When it began.
  "updatedAt" timestamp with time zone not null default clock_timestamp(), -- When it last changed.
  constraint verification_pkey PRIMARY KEY (id)
);
CREATE INDEX verification_identifier ON auth.verification USING btree (identifier);

-- What the indexers see on the chains, and where each chain stands. A row about a block is deleted when the block leaves the chain.
create schema chain;

-- Transfers of pending deposits that a rewind removed and that are expected to be read again. Empty unless a chain is being read again.
create table chain.awaited (
  id text not null, -- <chain>:<txid>:<output_index>, as in chain.transfer.
  chain text not null, -- Chain code.
  block_height integer not null, -- Height of the block that it was in.
  until_height integer not null, -- Once the head is as high as this, a transfer that was not read again is gone.
  since timestamp with time zone not null, -- When it was removed.
  constraint awaited_pkey PRIMARY KEY (id)
);
CREATE INDEX awaited_chain ON chain.awaited USING btree (chain);

-- Blocks of each chain from the head down to the final one, and 1,024 final ones below it. Finality compares these hashes with the node's.
create table chain.block (
  id text not null, -- <chain>:<height>.
  chain text not null, -- Chain code.
  height integer not null, -- Height of the block.
  hash text not null, -- Hash of the block.
  parent_hash text not null, -- Hash of the block one below; equals that block's hash here. Empty at the block above which following began, and at one that a rewind had to add.
  "time" timestamp with time zone not null, -- Timestamp of the block; for one that a rewind had to add, the time of the rewind.
  constraint block_pkey PRIMARY KEY (id),
  constraint block_chain_height_key UNIQUE (chain, height),
  constraint block_check CHECK ((id = ((chain || ':'::text) || height)))
);
CREATE TRIGGER note_delete AFTER DELETE ON chain.block REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION chain.note_blocks();

-- Chains for which an indexer was started, followed or not.
create table chain.configured (
  chain text not null, -- Chain code.
  configured_at timestamp with time zone not null default clock_timestamp(), -- When an indexer was started for it for the first time. If no block was ever read, this counts as the age of its head.
  waiting_reason text, -- Why its indexer cannot follow it now, for programs; null if it can, or has not reported.
  waiting_message text, -- The same for people.
  waiting_since timestamp with time zone, -- Since when it has not been able to, whatever the reasons were.
  first_height integer, -- The first block that may pay to an address of ours, as its indexer found before it began; null if unknown.
  constraint configured_pkey PRIMARY KEY (chain),
  constraint configured_check CHECK ((((waiting_reason IS NULL) = (waiting_since IS NULL)) AND ((waiting_reason IS NULL) = (waiting_message IS NULL))))
);

-- Transactions that use the authority of an address of ours, known to us or not, in a block that is on the chain now; on Bitcoin a row for each output of ours that a transaction spends. A row disappears when its block leaves the chain.
create table chain.confirmed_tx (
  id text not null, -- <chain>:<txid>; on Bitcoin <chain>:<txid>:<position of the input>.
  chain text not null, -- Chain code.
  txid text not null, -- Transaction id.
  block_height integer not null, -- Height of the block that holds the transaction.
  block_hash text not null, -- Hash of that block.
  block_time timestamp with time zone not null, -- Timestamp of that block.
  account text not null, -- Our address whose key it uses: the one that sent it; on Bitcoin the owner of the output that it spends.
  nonce integer, -- The nonce of the account that it used up; null on chains without nonces.
  outpoint text, -- The output of ours that it spends (txid:vout); null on chains without outputs.
  conflict_key text generated always as (COALESCE(outpoint, ((account || ':'::text) || (nonce)::text))) stored, -- What it used up, so that no other transaction can use it again: account:nonce, or the outpoint. Null on chains that have nothing of the kind.
  success boolean not null, -- True if it had the effect that it was sent for: executed and, for a token, with the Transfer event of our amount, from and to the right addresses.
  fee numeric(78,0) not null, -- Network fee that it cost, in the native coin's base units; 0 if it also spends outputs that are not ours.
  constraint confirmed_tx_pkey PRIMARY KEY (id),
  constraint confirmed_tx_check CHECK ((num_nonnulls(nonce, outpoint) <= 1)),
  constraint confirmed_tx_id CHECK (starts_with(id, ((chain || ':'::text) || txid)))
);
CREATE INDEX confirmed_tx_block ON chain.confirmed_tx USING btree (chain, block_height);
CREATE INDEX confirmed_tx_conflict_key ON chain.confirmed_tx USING btree (chain, conflict_key);
CREATE INDEX confirmed_tx_nonce ON chain.confirmed_tx USING btree (chain, account, nonce) WHERE (nonce IS NOT NULL);
CREATE INDEX confirmed_tx_txid ON chain.confirmed_tx USING btree (txid);
CREATE TRIGGER note_insert AFTER INSERT ON chain.confirmed_tx REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION chain.note_confirmed_txs();

-- The last time that servers of a chain contradicted themselves. If blocks still come in, another server gave correct data.
create table chain.contradiction (
  chain text not null, -- Chain code.
  since timestamp with time zone not null, -- When that began; nothing new of the chain was written from then until seen_at.
  seen_at timestamp with time zone not null, -- When it was last seen.
  txid text, -- The transaction that they contradict themselves about; null if it is about something else.
  message text not null, -- What is wrong with their responses.
  constraint contradiction_pkey PRIMARY KEY (chain)
);

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
  followed_from integer not null, -- The lowest height from which on every block up to the head was read. A chain that begins anew after a gap begins anew here, too.
  final_moved_at timestamp with time zone not null default clock_timestamp(), -- When the final height last moved.
  last_reorg_at timestamp with time zone, -- When blocks last left the chain; null if that never happened.
  last_reorg_depth integer, -- How many blocks left the chain then.
  halted_at timestamp with time zone, -- Since when the chain is halted for an operator: after a reorganisation below the final block, or because the database is an older copy than custody's journal. Null while it is not halted.
  rewind_to integer, -- Height that an operator asked the indexer to go back to; cleared when that is done.
  tracer text, -- Which of the node's tracers numbers internal calls on this chain (debug or trace); never changes once it is set.
  finalisation bigint not null default 0, -- How often deposits of the chain became final, or were credited by an operator, so far. Each time has a number, which its deposits carry, and a payout claims up to a number.
  untraced_from integer, -- The first block that was read without internal calls after others had been read with them; null while they are read, or never were.
  constraint cursor_pkey PRIMARY KEY (chain)
);
CREATE CONSTRAINT TRIGGER find_recovered_deposits AFTER UPDATE OF finalisation ON chain.cursor DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ((new.finalisation > old.finalisation)) EXECUTE FUNCTION app.note_finalisation();

-- How many blocks were followed on each day, for analysts. chain.derive counts them.
create table chain.daily_blocks (
  chain text not null, -- Chain code.
  day date not null, -- The day, in UTC, on which they were followed.
  followed bigint not null, -- Blocks that were added to the chain.
  replaced bigint not null, -- Blocks that left it because others took their place.
  constraint daily_blocks_pkey PRIMARY KEY (chain, day)
);

-- Blocks that a running transaction deleted; those that it does not insert again left the chain. Empty between transactions.
create unlogged table chain.dropped_block (
  txn xid8 not null, -- The transaction.
  chain text not null, -- Chain code.
  height integer not null, -- Height of the block.
  hash text not null -- Hash of the block.
);
CREATE INDEX dropped_block_txn ON chain.dropped_block USING btree (txn);

-- Transactions of ours that expired without being in any block.
create table chain.lapse (
  chain text not null, -- Chain code.
  txid text not null, -- The transaction.
  final_height integer not null, -- The final block that is past its end.
  final_hash text not null, -- The hash of that block.
  evidence jsonb not null, -- What else the indexer of the family found; an operator's decision if it could not be proven.
  lapsed_at timestamp with time zone not null default clock_timestamp(), -- When it was noted.
  constraint lapse_pkey PRIMARY KEY (chain, txid)
);

-- Each time that blocks left a chain. Kept for ever.
create table chain.reorganisation (
  id bigint not null generated always as identity, -- Order of insertion.
  chain text not null, -- Chain code.
  happened_at timestamp with time zone not null, -- When the indexer followed it; equals chain.cursor.last_reorg_at then.
  depth integer not null, -- How many blocks left the chain.
  first_height integer, -- Height of the lowest of them.
  old_head_hash text, -- Hash of the block that was the head before; null if that one did not leave the chain.
  new_head_hash text, -- Hash of the block that was the head afterwards.
  deposits_reorged integer, -- How many credited deposits were in those blocks and in no block afterwards, including those that were found lost later (chain.awaited).
  constraint reorganisation_pkey PRIMARY KEY (id),
  constraint reorganisation_depth_check CHECK ((depth > 0))
);

-- Transfers that a running transaction inserted, changed or deleted, or that are to be checked again. Empty between transactions.
create unlogged table chain.touched (
  txn xid8 not null, -- The transaction.
  chain text not null, -- Chain code.
  id text not null -- Id of the transfer.
);
CREATE INDEX touched_txn ON chain.touched USING btree (txn);

-- Chains that a running transaction touched; chain.derive runs once at COMMIT for each row. Empty between transactions.
create unlogged table chain.touched_chain (
  txn xid8 not null, -- The transaction.
  chain text not null, -- Chain code.
  constraint touched_chain_pkey PRIMARY KEY (txn, chain)
);
CREATE CONSTRAINT TRIGGER derive AFTER INSERT ON chain.touched_chain DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION chain.derive();

-- Value that reached an address of ours, in a block that is on the chain now. A row disappears when its block leaves the chain.
create table chain.transfer (
  id text not null, -- <chain>:<txid>:<output_index>.
  chain text not null, -- Chain code, such as ETH.
  txid text not null, -- Transaction id; the hash of the block for what a chain's rules pay without a transaction.
  output_index integer not null, -- Position inside the transaction, or, without one, inside the block: the same wherever the transaction is mined. Which number stands for what is only known to the indexer of the family, and on Bitcoin it is the vout.
  block_height integer not null, -- Height of the block that holds the transaction.
  block_hash text not null, -- Hash of that block.
  block_time timestamp with time zone not null, -- Timestamp of that block.
  token text not null, -- Token code, such as USDC; the contract address if Sluice does not support the token.
  amount numeric(78,0) not null, -- Amount in the smallest unit of the token (wei, for ether).
  sender text not null, -- Address that the value came from; for new coins the value of app.chain.coinbase_sender.
  recipient text not null, -- Our address that the value went to.
  transfer_kind text, -- What moved it: native, the transaction itself, in the native coin; internal, a call inside it, in the native coin; token, a token's contract or program; protocol, the rules of the chain, without a transaction. Null if an older version wrote the row.
  constraint transfer_pkey PRIMARY KEY (id),
  constraint transfer_amount_check CHECK ((amount > (0)::numeric)),
  constraint transfer_check CHECK ((id = ((((chain || ':'::text) || txid) || ':'::text) || output_index))),
  constraint transfer_transfer_kind CHECK ((transfer_kind = ANY (ARRAY['native'::text, 'internal'::text, 'token'::text, 'protocol'::text])))
);
CREATE INDEX transfer_block ON chain.transfer USING btree (chain, block_height);
CREATE INDEX transfer_recipient ON chain.transfer USING btree (recipient, chain, token) INCLUDE (block_height, amount);
CREATE TRIGGER note_delete AFTER DELETE ON chain.transfer REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION chain.note_transfers();
CREATE TRIGGER note_insert AFTER INSERT ON chain.transfer REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION chain.note_transfers();
CREATE TRIGGER note_update AFTER UPDATE ON chain.transfer REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION chain.note_transfers();

-- Value on its way to an address of ours that is not final: unconfirmed, or in a block that may still leave the chain.
create table chain.unconfirmed (
  id text not null, -- <chain>:<txid>:<output_index>, as in chain.transfer.
  chain text not null, -- Chain code.
  txid text not null, -- Transaction id.
  output_index integer not null, -- Position inside the transaction.
  token text not null, -- Token code.
  amount numeric(78,0) not null, -- Amount in base units.
  sender text not null, -- Address that the value comes from.
  recipient text not null, -- Our address.
  inputs text[] not null, -- What the transaction spends (txid:vout): another transaction in a block that spends one of them excludes this one.
  raw text, -- The transaction, in hex, if the source provided it.
  seen_at timestamp with time zone not null default clock_timestamp(), -- When it was first seen.
  missed_since timestamp with time zone, -- When a poll first did not show it, though it was in no block; null while it is shown or in a block.
  constraint unconfirmed_pkey PRIMARY KEY (id),
  constraint unconfirmed_amount_check CHECK ((amount > (0)::numeric)),
  constraint unconfirmed_check CHECK ((id = ((((chain || ':'::text) || txid) || ':'::text) || output_index)))
);
CREATE INDEX unconfirmed_inputs ON chain.unconfirmed USING gin (inputs);

-- Blocks whose transactions could not be proven to be all that they hold.
create table chain.unproven_block (
  chain text not null, -- Chain code.
  hash text not null, -- The block.
  height integer not null, -- Its height.
  noted_at timestamp with time zone not null default clock_timestamp(), -- When it was read first.
  constraint unproven_block_pkey PRIMARY KEY (chain, hash)
);

-- Transactions of ours that are in no block and past their end, and are not proven to have expired.
create view chain.lapsable as
 SELECT f.chain,
    f.txid,
    j.raw,
    j.source,
    j.lifetime_from,
    j.lifetime_end,
        CASE
            WHEN c.followed_from > (j.lifetime_from + 1) THEN format('blocks %s to %s were not followed (a gap was accepted, or the chain was started later), so no absence can be proven'::text, j.lifetime_from + 1, c.followed_from - 1)
            ELSE NULL::text
        END AS not_followed
   FROM app.attempt_fate f
     JOIN custody.journal j ON j.stream = f.chain AND j.seq = f.seq
     JOIN chain.cursor c ON c.chain = f.chain
  WHERE f.fate = 'open'::text AND j.lifetime_end IS NOT NULL AND chain.is_past_end(j.*);
--   chain text: Chain code.
--   txid text: The transaction.
--   raw text: Its signed bytes.
--   source text: The address whose coins it moves.
--   lifetime_from integer: No block at or below this height can hold it.
--   lifetime_end bigint: Its end: a height, or the time of a block in ms.
--   not_followed text: Why its absence can never be proven, if blocks that may hold it were not read; else null.

-- Chains of which nothing new can be written now, because all servers that are asked contradict themselves.
create view chain.standing_contradiction as
 SELECT chain,
    since,
    txid,
    message
   FROM chain.contradiction k
  WHERE seen_at > (clock_timestamp() - '00:02:00'::interval) AND NOT (EXISTS ( SELECT
           FROM chain.cursor c
          WHERE c.chain = k.chain AND c.head_moved_at > k.since));
--   chain text: Chain code.
--   since timestamp with time zone: Since when.
--   txid text: The transaction that they contradict themselves about; null if it is about something else.
--   message text: What is wrong with their responses.

-- Starts following a chain above a block that its node called final: the first indexed block must link to it. Does nothing for a chain that is followed already.
CREATE OR REPLACE FUNCTION chain.anchor(of_chain text, network text, height integer, hash text, time_of_block timestamp with time zone)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
begin
  insert into chain.cursor (chain, network, head_height, head_hash, head_time, final_height, final_hash, followed_from)
  values (of_chain, network, height, hash, time_of_block, height, hash, height + 1) on conflict do nothing;
  if not found then return; end if;
  insert into chain.block (id, chain, height, hash, parent_hash, time)
  values (of_chain || ':' || height, of_chain, height, hash, '', time_of_block);
  execute format('insert into %I.status (id, height, hash) values (0, $1, $2)', 'squid_' || lower(of_chain)) using height, hash;
end $function$;

-- Takes the transfers of pending deposits out of what the calling transaction touched, and awaits them until the chain is as high as head_height.
CREATE OR REPLACE FUNCTION chain.await_transfers(of_chain text, head_height integer)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
 SET plan_cache_mode TO 'force_custom_plan'
AS $function$
declare moment timestamptz := clock_timestamp();
begin
  with pending as materialized (
    select k.id, d.block_height
    from (select distinct t.id from chain.touched t where t.txn = pg_current_xact_id() and t.chain = of_chain) k
    cross join lateral (
      select * from app.deposit d where d.txid = split_part(k.id, ':', 2) and d.output_index = split_part(k.id, ':', 3)::int and d.chain = of_chain offset 0
    ) d
    where d.status = 'pending' and not exists (select from chain.unconfirmed u where u.id = k.id)
  ), untouched as (
    delete from chain.touched t using pending p where t.txn = pg_current_xact_id() and t.chain = of_chain and t.id = p.id
  )
  insert into chain.awaited (id, chain, block_height, until_height, since)
  select id, of_chain, block_height, head_height, moment from pending
  on conflict (id) do update -- it came back meanwhile
    set block_height = excluded.block_height, until_height = excluded.until_height, since = excluded.since;
end $function$;

-- Notes that an indexer of this chain was started. Safe to run again.
CREATE OR REPLACE FUNCTION chain.configure(of_chain text)
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  insert into chain.configured (chain) values (of_chain) on conflict do nothing
$function$;

-- Makes the transactions of ours in these blocks exactly those of wanted (rows of chain.confirmed_tx as JSON); returns the same as chain.correct_transfers.
CREATE OR REPLACE FUNCTION chain.correct_confirmed_txs(of_chain text, from_height integer, to_height integer, wanted jsonb, OUT added text[], OUT removed integer, OUT changed integer, OUT heights integer[])
 RETURNS record
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
 SET plan_cache_mode TO 'force_custom_plan'
AS $function$
declare
  rewritten text[];
  lost jsonb;
begin
  with want as materialized (
    select * from jsonb_populate_recordset(null::chain.confirmed_tx, wanted)
  )
  select jsonb_agg(jsonb_build_object('outgoing_payment', s.id, 'txid', i.txid, 'payment', s.kind, 'block_height', i.block_height,
    'is_to_send', w.id is null and s.txid = i.txid))
  into lost
  from chain.confirmed_tx i left join want w on w.id = i.id
  cross join lateral app.payments_of(i.chain, i.txid, i.conflict_key) p join app.outgoing_payment s on s.id = p and s.status = 'final' and app.is_booked(s, i.txid)
  where i.chain = of_chain and i.block_height between from_height and to_height and (w.id is null or (i.success and not w.success));

  with want as materialized (
    select * from jsonb_populate_recordset(null::chain.confirmed_tx, wanted)
  ), differs as materialized (
    select w.id, w.block_height, i.id is null as is_new
    from want w left join lateral (select * from chain.confirmed_tx i where i.id = w.id offset 0) i on true
    where i.id is null or (i.block_height, i.block_hash, i.block_time, i.account, i.nonce, i.outpoint, i.success, i.fee)
      is distinct from (w.block_height, w.block_hash, w.block_time, w.account, w.nonce, w.outpoint, w.success, w.fee)
  ), gone as (
    delete from chain.confirmed_tx i
    where i.chain = of_chain and i.block_height between from_height and to_height and not exists (select from want w where w.id = i.id)
    returning i.block_height
  )
  select array(select id from differs where is_new), array(select id from differs where not is_new), (select count(*) from gone),
    array(select block_height from gone union select block_height from differs where not is_new)
  into added, rewritten, removed, heights;
  changed := cardinality(rewritten);

  delete from chain.confirmed_tx i where i.id = any(rewritten); -- and inserted again, which heals an incident
  insert into chain.confirmed_tx (id, chain, txid, block_height, block_hash, block_time, account, nonce, outpoint, success, fee)
  select id, chain, txid, block_height, block_hash, block_time, account, nonce, outpoint, success, fee
  from jsonb_populate_recordset(null::chain.confirmed_tx, wanted) w where w.id = any(added || rewritten);
  perform chain.log_for_undo(of_chain, 'confirmed_tx', added || rewritten);

  insert into app.incident (chain, kind, subject, details)
  select of_chain, 'final_payment_vanished', l->>'outgoing_payment', l - 'outgoing_payment' - 'is_to_send' from jsonb_array_elements(lost) l
  on conflict do nothing;
  update app.outgoing_payment s set next_step_at = clock_timestamp() from jsonb_array_elements(lost) l
  where s.id = (l->>'outgoing_payment')::uuid and (l->>'is_to_send')::boolean;
  if cardinality(added || rewritten) + removed > 0 then
    insert into chain.touched_chain values (pg_current_xact_id(), of_chain) on conflict do nothing; -- chain.derive does what follows for payouts
  end if;
end $function$;

-- Makes the transfers of these blocks exactly those of wanted (rows of chain.transfer as JSON). Returns the ids that were added, how many were removed and changed, and the heights at which something stored was missing or different.
CREATE OR REPLACE FUNCTION chain.correct_transfers(of_chain text, from_height integer, to_height integer, wanted jsonb, OUT added text[], OUT removed integer, OUT changed integer, OUT heights integer[])
 RETURNS record
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
 SET plan_cache_mode TO 'force_custom_plan'
AS $function$
declare
  rewritten text[];
  unsettled text[];
begin
  with want as materialized (
    select * from jsonb_populate_recordset(null::chain.transfer, wanted)
  ), gone as (
    delete from chain.transfer t
    where t.chain = of_chain and t.block_height between from_height and to_height and not exists (select from want w where w.id = t.id)
    returning t.block_height
  ), differs as materialized (
    select w.*, t.id is null as is_new
    from want w left join lateral (select * from chain.transfer t where t.id = w.id offset 0) t on true
    where t.id is null or (t.block_height, t.block_hash, t.block_time, t.token, t.amount, t.recipient)
      is distinct from (w.block_height, w.block_hash, w.block_time, w.token, w.amount, w.recipient)
      or (t.sender <> w.sender and w.sender <> 'unknown')
  ), written as (
    insert into chain.transfer as t
      (id, chain, txid, output_index, block_height, block_hash, block_time, token, amount, sender, recipient, transfer_kind)
    select id, chain, txid, output_index, block_height, block_hash, block_time, token, amount, sender, recipient, transfer_kind from differs
    on conflict (id) do update set block_height = excluded.block_height, block_hash = excluded.block_hash, block_time = excluded.block_time,
      token = excluded.token, transfer_kind = excluded.transfer_kind, amount = excluded.amount, recipient = excluded.recipient,
      sender = case when excluded.sender = 'unknown' then t.sender else excluded.sender end
  )
  select array(select id from differs where is_new), array(select id from differs where not is_new), (select count(*) from gone),
    array(select block_height from gone union select block_height from differs where not is_new)
  into added, rewritten, removed, heights;
  changed := cardinality(rewritten);
  perform chain.log_for_undo(of_chain, 'transfer', added || rewritten);

  -- What was stored and never became a deposit becomes one now. An operator's decision stays.
  select array_agg(w.id) into unsettled from jsonb_populate_recordset(null::chain.transfer, wanted) w
  where not exists (
    select from app.deposit d where d.txid = w.txid and d.output_index = w.output_index and d.chain = of_chain and d.status <> 'reorged'
  );
  perform chain.touch(of_chain, unsettled);
end $function$;

-- Counts blocks that were followed today (UTC), and those that they replaced. Fewer than none, or null: the chain goes back, and nothing was followed.
CREATE OR REPLACE FUNCTION chain.count_blocks(of_chain text, more_followed integer, more_replaced integer)
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'pg_catalog'
AS $function$
  insert into chain.daily_blocks as d (chain, day, followed, replaced)
  select of_chain, (clock_timestamp() at time zone 'UTC')::date, greatest(more_followed, 0), more_replaced
  where more_followed > 0 or more_replaced > 0
  on conflict (chain, day) do update set followed = d.followed + excluded.followed, replaced = d.replaced + excluded.replaced
$function$;

-- Trigger, at COMMIT: makes deposits, outgoing payments, balances and events agree with what the transaction did to a chain.
CREATE OR REPLACE FUNCTION chain.derive()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare
  at chain.cursor;
  head chain.block;
  reorg_depth int;
  lowest int;
  gone_hashes text[];
  in_doubt uuid[];
begin
  perform chain.release_due(new.chain);
  select * into at from chain.cursor c where c.chain = new.chain for update;
  if at.chain is not null then
    -- The store would also follow a fork below the final block, as far down as it can undo. An operator must decide about that.
    perform from chain.block b where b.chain = new.chain and b.height = at.final_height and b.hash = at.final_hash;
    if not found then
      raise exception '%: its final block % (%) would leave the chain; nothing was written', new.chain, at.final_height, at.final_hash
        using errcode = 'SLFRK';
    end if;
    with gone as (delete from chain.dropped_block where txn = new.txn and chain = new.chain returning height, hash)
    select count(*), min(g.height), array_agg(g.hash) into reorg_depth, lowest, gone_hashes from gone g
    where g.height > at.final_height and not exists (
      select from chain.block b where b.id = new.chain || ':' || g.height and b.hash = g.hash
    );
    if reorg_depth > 0 then in_doubt := chain.pending_deposits(new.chain, lowest, gone_hashes); end if;
    perform chain.name_tokens(new.chain);
    perform chain.derive_deposits(new.chain);
    perform chain.finalise_deposits(new.chain, at.final_height);
    select * into head from chain.block b where b.chain = new.chain order by b.height desc limit 1;
    update chain.cursor c set head_height = head.height, head_hash = head.hash, head_time = head.time, head_moved_at = clock_timestamp()
    where c.chain = new.chain and (c.head_height, c.head_hash) is distinct from (head.height, head.hash);
    perform chain.count_blocks(new.chain, head.height - at.head_height + reorg_depth, reorg_depth);
    if reorg_depth > 0 then
      with noted as (
        update chain.cursor c set last_reorg_at = clock_timestamp(), last_reorg_depth = reorg_depth where c.chain = new.chain
        returning c.last_reorg_at
      )
      insert into chain.reorganisation (chain, happened_at, depth, first_height, old_head_hash, new_head_hash, deposits_reorged)
      select new.chain, noted.last_reorg_at, reorg_depth, lowest, case when at.head_hash = any(gone_hashes) then at.head_hash end, head.hash,
        (select count(*) from app.deposit d where d.id = any(in_doubt) and d.status = 'reorged')
      from noted;
    end if;
  end if;
  delete from chain.touched_chain where txn = new.txn and chain = new.chain;
  return null;
end $function$;

-- Makes the deposits of a chain agree with the transfers that the calling transaction touched, and writes the events for merchants.
CREATE OR REPLACE FUNCTION chain.derive_deposits(of_chain text)
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
  folds boolean;
begin
  with gone as (delete from chain.touched where txn = pg_current_xact_id() and chain = of_chain returning id)
  select array_agg(distinct id) into keys from gone;
  if keys is null then return; end if;
  folds := (select c.folds_addresses from app.chain c where c.chain = of_chain);

  with key as (
    select id, split_part(id, ':', 2) as txid, split_part(id, ':', 3)::int as output_index from unnest(keys) as k (id)
  ), deposit as (
    select key.id as transfer_id, d.*
    from key cross join lateral (
      select * from app.deposit d where d.txid = key.txid and d.output_index = key.output_index and d.chain = of_chain offset 0
    ) d
  ), transfer as (
    select t.id, t.txid, t.output_index, t.recipient, t.sender, t.token, t.amount, t.block_height, t.block_hash, t.transfer_kind
    from key cross join lateral (select * from chain.transfer t where t.id = key.id offset 0) t
    union all
    select u.id, u.txid, u.output_index, u.recipient, u.sender, u.token, u.amount, null, null, 'native'
    from key cross join lateral (select * from chain.unconfirmed u where u.id = key.id offset 0) u
    where not exists (select from chain.transfer t where t.id = key.id)
  ), net as (
    select d.id as deposit_id, d.status, d.credited, d.version, t.id is not null and (t.block_hash is not null or d.status is distinct from 'final') as alive, d.transfer_id,
      d.amount is distinct from t.amount as changed,
      (d.block_height, d.block_hash) is distinct from (t.block_height, t.block_hash) as moved,
      d.amount as old_amount, t.txid, t.output_index, t.transfer_kind, t.recipient, t.sender,
      coalesce(t.token, d.token) as token, coalesce(t.amount, d.amount) as amount,
      case when t.id is null then d.block_height else t.block_height end as block_height,
      case when t.id is null then d.block_hash else t.block_hash end as block_hash, t.id as live_id
    from deposit d full join transfer t on t.id = d.transfer_id and t.recipient = d.address and t.token = d.token
  ), held_back as ( -- a different payment at a position that holds a final deposit: no merchant is credited until an operator decides
    select n.* from net n
    where n.alive and (n.deposit_id is null or n.status = 'reorged')
      and exists (select from deposit d where d.transfer_id = n.live_id and d.status = 'final')
  ), created as (
    insert into app.deposit (chain, txid, output_index, transfer_kind, address, merchant_id, user_id, payment_request_id, token, amount, sender, block_height,
      block_hash, status, credited, version)
    select of_chain, n.txid, n.output_index, n.transfer_kind, a.address, a.merchant_id, a.user_id, a.payment_request_id, n.token, n.amount, n.sender, n.block_height,
      n.block_hash, 'pending', a.is_provisioned and s.token is not null
        and coalesce((select r.token from app.payment_request r where r.id = a.payment_request_id) = n.token, true), 1
    from net n
    cross join lateral (
      select * from app.address a
      where a.chain = of_chain and a.match_key = app.match_key(n.recipient, folds) and a.address = n.recipient offset 0
    ) a
    left join app.asset s on s.chain = of_chain and s.token = n.token
    where n.deposit_id is null and not exists (select from held_back h where h.live_id = n.live_id)
      and not exists (select from custody.address own where own.address = n.sender)
      and not (a.merchant_id is null and exists (select from app.outgoing_attempt o where o.chain = of_chain and o.txid = n.txid))
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
    where n.status = 'final' and n.alive and i.subject = n.deposit_id::text and i.resolved_at is null
      and (i.kind = 'final_deposit_vanished' or (i.kind = 'final_deposit_moved' and not n.moved) or (i.kind = 'final_deposit_changed' and not n.changed))
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

-- Moves finality to a block that the node calls final. True if the final height is at this block now, or was above it already (its hash is then not compared); false if nothing could be changed.
CREATE OR REPLACE FUNCTION chain.finalise(of_chain text, height integer, hash text)
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
  delete from chain.block b where b.chain = of_chain and b.height < $2 - 1024; -- the rest is for finding a fork below the final block
  insert into chain.touched_chain values (pg_current_xact_id(), of_chain) on conflict do nothing;
  return true;
end $function$;

-- Makes final what is pending at or below the final height: outgoing payments first, then deposits, with balances, ledger and events.
CREATE OR REPLACE FUNCTION chain.finalise_deposits(of_chain text, final_height integer)
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
  everything uuid[];
  addresses text[];
  back app.deposit;
  number bigint;
begin
  if app.uses_outputs(of_chain) then perform app.add_outputs(of_chain, final_height); end if;
  perform app.finish_outgoing_payments(of_chain, final_height);
  if app.shows_unconfirmed(of_chain) then
    perform app.end_conflicted_cpfp(of_chain, final_height);
    perform chain.forget_final(of_chain, final_height);
  end if;
  select c.finalisation + 1 into number from chain.cursor c where c.chain = of_chain; -- a sweep that ended may have taken one
  with finalised as (
    update app.deposit d set status = 'final', version = d.version + 1, finalised_at = clock_timestamp(), finalisation = number,
      held_back = d.credited and d.settlement_id is null
        and (coalesce(d.amount < (select a.sweep_min from app.asset a where a.chain = d.chain and a.token = d.token), false)
          or exists (select from app.blocked_address b where b.chain = d.chain and b.token = d.token and b.address = d.address))
    where d.chain = of_chain and d.status = 'pending' and d.block_height <= final_height
    returning d.id, d.merchant_id, d.token, d.amount, d.address, d.credited, d.settlement_id, d.version, d.block_height, d.txid, d.output_index, d.held_back
  ), counted as (
    insert into app.balance_delta (merchant_id, chain, token, amount, deposit_count, held_back, held_back_count)
    select merchant_id, of_chain, token, sum(amount), count(*), coalesce(sum(amount) filter (where held_back), 0), count(*) filter (where held_back)
    from finalised
    where credited and settlement_id is null
    group by merchant_id, token
  ), ordered as (
    select *, row_number() over (order by block_height, txid, output_index) as n from finalised
  )
  select array_agg(id order by n) filter (where credited), array_agg(version order by n) filter (where credited),
    array_agg(token order by n) filter (where credited), array_agg(amount order by n) filter (where credited),
    array_agg(address order by n) filter (where credited), array_agg(id)
  into ids, versions, tokens, amounts, addresses, everything from ordered;
  if everything is null then return; end if;
  update chain.cursor c set finalisation = number where c.chain = of_chain;
  perform app.post_final_deposits(of_chain, everything, number);
  perform app.release_held_back(of_chain, addresses, tokens, number);
  for back in select * from app.deposit d where d.id = any(ids) and d.settlement_id is not null loop
    perform app.adjust(back, back.amount, 'deposit_back');
  end loop;
  perform app.emit_deposit_events(ids, array_fill('deposit.confirmed'::text, array[coalesce(cardinality(ids), 0)]), versions, tokens, amounts);
end $function$;

-- No address of ours on this chain was paid before this time; -infinity if the time is unknown, null while custody has made no address.
CREATE OR REPLACE FUNCTION chain.first_address_at(of_chain text)
 RETURNS timestamp with time zone
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select min(at) from app.chain c cross join lateral (
    select min(o.created_at) as at from custody.address o where o.family = c.family and o.purpose = 'treasury'
    union all
    select min(o.taken_at) from custody.address o where o.family = c.family and o.purpose = 'deposit'
    union all
    select min(a.created_at) from app.address a join app.chain other using (chain) where other.family = c.family
  ) known
  where c.chain = of_chain
$function$;

-- Forgets those of a chain's unconfirmed transfers that are in a block at or below the final height.
CREATE OR REPLACE FUNCTION chain.forget_final(of_chain text, final_height integer)
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'pg_catalog'
 SET plan_cache_mode TO 'force_custom_plan'
AS $function$
  delete from chain.unconfirmed u using chain.transfer t where u.chain = of_chain and t.id = u.id and t.block_height <= final_height
$function$;

-- Ends the halt of a chain, unless an incident that halts it is open.
CREATE OR REPLACE FUNCTION chain.go_on(of_chain text)
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'pg_catalog'
AS $function$
  update chain.cursor c set halted_at = null where c.chain = of_chain
    and not exists (select from app.open_incident i where i.chain = of_chain and i.halts)
$function$;

-- Stops a chain, with an incident, because the final block is no longer on the node's chain. Safe to call again.
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

-- Whether no block after the final one can hold this transaction, by the chain and by the clock (30 s more).
CREATE OR REPLACE FUNCTION chain.is_past_end(j custody.journal)
 RETURNS boolean
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select j.lifetime_end <= case k.ends_by when 'height' then c.final_height
      else (select extract(epoch from b.time) * 1000 from chain.block b where b.chain = c.chain and b.height = c.final_height) end
    and extract(epoch from clock_timestamp()) * 1000 > j.lifetime_clock_ms + 30000
  from chain.cursor c join app.chain k using (chain) where c.chain = j.stream
$function$;

-- Stores the lapse of a transaction; ends its payment if that is decided now, else wakes it.
CREATE OR REPLACE FUNCTION chain.lapse(signed custody.journal, at chain.cursor, evidence jsonb)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
begin
  insert into chain.lapse (chain, txid, final_height, final_hash, evidence)
  values (signed.stream, signed.txid, at.final_height, at.final_hash, evidence) on conflict do nothing;
  perform app.finish_outgoing_payments(at.chain, at.final_height);
  update app.outgoing_payment s set next_step_at = clock_timestamp()
  where s.status <> 'final' and (s.id = signed.subject_id or s.payout_id = signed.subject_id and s.kind = 'payout');
  perform app.wake_outgoing_payments(at.chain);
end $function$;

-- Enters these rows of chain.transfer or chain.confirmed_tx in the store's log, if they are at heights that it can still undo.
CREATE OR REPLACE FUNCTION chain.log_for_undo(of_chain text, of_table text, ids text[])
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
begin
  if cardinality(ids) = 0 then return; end if;
  execute format(
    'insert into %1$I.hot_change_log (block_height, index, change) '
    'select h.height, (select coalesce(max(l.index), 0) from %1$I.hot_change_log l where l.block_height = h.height) '
    '    + row_number() over (partition by h.height order by r.id), jsonb_build_object(''kind'', ''insert'', ''table'', $1, ''id'', r.id) '
    'from chain.%2$I r join %1$I.hot_block h on h.height = r.block_height where r.id = any($2)',
    'squid_' || lower(of_chain), of_table) using of_table, ids;
end $function$;

-- The longest time for which a transfer is awaited.
CREATE OR REPLACE FUNCTION chain.longest_wait()
 RETURNS interval
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN '00:15:00'::interval;

-- Gives transfers that the calling transaction touched the code of their token, if it was added and counts at their height.
CREATE OR REPLACE FUNCTION chain.name_tokens(of_chain text)
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'pg_catalog'
 SET plan_cache_mode TO 'force_custom_plan'
AS $function$
  update chain.transfer t set token = k.token
  from app.token k, (select distinct x.id from chain.touched x where x.txn = pg_current_xact_id() and x.chain = of_chain) x
  where k.chain = of_chain and t.id = x.id and t.token = k.contract and t.block_height between k.from_height and coalesce(k.until_height, t.block_height)
$function$;

-- Trigger: notes the blocks that a statement deleted. A block that is not there again at COMMIT left the chain.
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

-- Trigger: opens the incident unknown_transaction for a transaction that custody did not sign, and closes final_payment_vanished for one that is there again.
CREATE OR REPLACE FUNCTION chain.note_confirmed_txs()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare
  news record;
  incident bigint;
begin
  perform from chain.cursor c where c.chain in (select chain from added) for update; -- before incidents: the order of locks
  for news in
    select u.chain, u.account, count(*)::int as count, array_agg(u.txid) as txids,
      (array_agg(jsonb_build_object('newest', u.txid, 'nonce', u.nonce, 'block_height', u.block_height) order by u.block_height desc, u.nonce desc))[1] as newest
    from (
      select distinct on (i.chain, i.txid) i.chain, i.txid, i.nonce, i.block_height, i.account
      from added i where not exists (select from app.outgoing_attempt o where o.chain = i.chain and o.txid = i.txid)
        and not exists (select from custody.journal j where j.stream = i.chain and j.txid = i.txid)
        and not exists (select from app.unknown_transaction k where k.chain = i.chain and k.txid = i.txid)
      order by i.chain, i.txid, i.account
    ) u group by u.chain, u.account
  loop
    insert into app.incident as k (chain, kind, subject, details)
    values (news.chain, 'unknown_transaction', news.chain || ':' || news.account,
      jsonb_build_object('sender', news.account, 'count', news.count) || jsonb_strip_nulls(news.newest))
    on conflict (subject, kind) where resolved_at is null do update
    set details = excluded.details || jsonb_build_object('count', (k.details ->> 'count')::int + news.count)
    returning k.id into incident;
    insert into app.unknown_transaction (chain, txid, incident_id) select news.chain, t, incident from unnest(news.txids) t;
  end loop;
  update app.incident k set resolved_at = clock_timestamp(), resolution = 'healed'
  from added i cross join lateral app.payments_of(i.chain, i.txid, i.conflict_key) p join app.outgoing_payment s on s.id = p
  where k.kind = 'final_payment_vanished' and k.subject = s.id::text and k.resolved_at is null and app.is_booked(s, i.txid)
    and not exists (select from app.second_payment n where n.outgoing_payment_id = s.id and n.booked_at is not null -- all of them are there
      and not exists (select from chain.confirmed_tx c where c.chain = n.chain and c.txid = n.txid))
    and (s.outcome = 'conflicted' or exists (
      select from chain.confirmed_tx c where c.chain = s.chain and c.txid = s.txid and (s.outcome <> 'done' or c.success))); -- one that failed this time did nothing
  update app.outgoing_payment s set next_step_at = null
  from added i cross join lateral app.payments_of(i.chain, i.txid, i.conflict_key) p
  where s.id = p and s.status = 'final' and s.next_step_at is not null;
  perform app.suspect_second_payments(array(select distinct i.txid from added i));
  return null;
end $function$;

-- Notes that servers of a chain contradicted themselves about a transaction (or null), with a message. The time of the first one stays until something new of the chain was written.
CREATE OR REPLACE FUNCTION chain.note_contradiction(at_chain text, at_txid text, what text)
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  insert into chain.contradiction as c (chain, since, seen_at, txid, message)
  values (at_chain, clock_timestamp(), clock_timestamp(), at_txid, what)
  on conflict (chain) do update set
    since = case when exists (select from chain.standing_contradiction s where s.chain = c.chain) then c.since else excluded.since end,
    seen_at = excluded.seen_at, txid = excluded.txid, message = excluded.message
$function$;

-- Notes that a transaction expired in no block, with what the indexer's family found. False if that is not proven.
CREATE OR REPLACE FUNCTION chain.note_lapse(of_chain text, of_txid text, evidence jsonb)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare
  at chain.cursor;
  signed custody.journal;
begin
  select * into at from chain.cursor c where c.chain = of_chain for update;
  select * into signed from custody.journal j where j.stream = of_chain and j.txid = of_txid;
  if signed.lifetime_end is null then
    raise exception 'custody signed no transaction % on % that expires', of_txid, of_chain using errcode = 'P0003';
  end if;
  if at.halted_at is not null or at.followed_from > signed.lifetime_from + 1 or not chain.is_past_end(signed)
    or exists (select from chain.confirmed_tx i where i.chain = of_chain and i.txid = of_txid)
    or exists (select from chain.unproven_block b where b.chain = of_chain and b.height > signed.lifetime_from and b.height <= at.final_height) then
    return false;
  end if;
  perform chain.lapse(signed, at, evidence);
  return true;
end $function$;

-- Keeps what blocks pay us until it is final, and drops unconfirmed payments that conflict with these blocks. kept: the transfers to us in them, as for chain.note_unconfirmed; txids and outpoints, parallel: what each of their transactions spends.
CREATE OR REPLACE FUNCTION chain.note_mined(of_chain text, kept jsonb, txids text[], outpoints text[])
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
 SET plan_cache_mode TO 'force_custom_plan'
AS $function$
declare gone text[];
begin
  perform from chain.cursor c where c.chain = of_chain for update;
  insert into chain.unconfirmed (id, chain, txid, output_index, token, amount, sender, recipient, inputs, raw)
  select of_chain || ':' || r.txid || ':' || r.output_index, of_chain, r.txid, r.output_index, r.token, r.amount, r.sender, r.recipient, r.inputs, r.raw
  from jsonb_to_recordset(kept) as r (txid text, output_index int, token text, amount numeric, sender text, recipient text, inputs text[], raw text)
  on conflict (id) do nothing;
  with conflict as (
    delete from chain.unconfirmed u where u.chain = of_chain and u.inputs && outpoints
      and exists (select from unnest(txids, outpoints) as s (txid, outpoint) where s.outpoint = any(u.inputs) and s.txid <> u.txid)
    returning u.id
  )
  select array_agg(id) into gone from conflict;
  perform chain.touch(of_chain, gone);
end $function$;

-- Notes what those of these transactions moved that are unknown here: {txid: [{sender, recipient, token, amount}]}.
CREATE OR REPLACE FUNCTION chain.note_moved(of_chain text, moved jsonb)
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  update app.unknown_transaction u set moved = note_moved.moved -> u.txid
  where u.chain = of_chain and u.txid in (select jsonb_object_keys(note_moved.moved))
$function$;

-- Opens an incident, or renews it, about nodes ([{"setting", "calls", "from", "to"}, ...]) that show no internal transactions of many calls; with an empty list, closes it. An operator who keeps it is not told again for 30 days.
CREATE OR REPLACE FUNCTION chain.note_no_internals(of_chain text, missing jsonb)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
begin
  if missing = '[]' then
    update app.incident i set resolved_at = clock_timestamp(), resolution = 'healed'
    where i.kind = 'no_internal_transactions' and i.subject = of_chain and i.resolved_at is null;
    return;
  end if;
  insert into app.incident as i (chain, kind, subject, details)
  select null, 'no_internal_transactions', of_chain, jsonb_build_object('nodes', missing) -- without a chain: payouts go on
  where not exists (select from app.incident k where k.kind = 'no_internal_transactions' and k.subject = of_chain
    and k.resolution = 'kept' and k.resolved_at > clock_timestamp() - interval '30 days')
  on conflict (subject, kind) where resolved_at is null do update set details = excluded.details;
end $function$;

-- Opens an incident of a token of which less arrived than was sent, both in base units.
CREATE OR REPLACE FUNCTION chain.note_short(of_chain text, contract text, of_txid text, sent numeric, arrived numeric)
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  insert into app.incident (kind, subject, details)
  select 'token_takes_fee', of_chain || ':' || a.token,
    jsonb_build_object('chain', of_chain, 'token', a.token, 'txid', of_txid, 'sent', sent::text, 'arrived', arrived::text)
  from app.asset a where a.chain = of_chain and contract in (a.token, app.contract_of(of_chain, a.token))
  on conflict do nothing
$function$;

-- Trigger on the store's status row (argument: the chain): notes that the chain was touched.
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

-- Trigger: notes the transfers that a statement inserted, changed or deleted, and their chains.
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

-- Stores everything unconfirmed that a source shows now, as [{txid, output_index, token, amount, sender, recipient, inputs, raw}]: new deposits are pending, and what was missing for long enough is gone. Payments to other addresses are ignored.
CREATE OR REPLACE FUNCTION chain.note_unconfirmed(of_chain text, seen jsonb)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
 SET plan_cache_mode TO 'force_custom_plan'
AS $function$
declare changed text[];
begin
  perform from chain.cursor c where c.chain = of_chain for update;
  with shown as materialized (
    select of_chain || ':' || r.txid || ':' || r.output_index as id, r.*
    from jsonb_to_recordset(seen) as r (txid text, output_index int, token text, amount numeric, sender text, recipient text, inputs text[], raw text)
    where r.amount > 0 and exists (
      select from app.chain c join app.address a on a.chain = c.chain and a.match_key = app.match_key(r.recipient, c.folds_addresses)
      where c.chain = of_chain)
  ), added as (
    insert into chain.unconfirmed (id, chain, txid, output_index, token, amount, sender, recipient, inputs, raw)
    select distinct on (id) id, of_chain, txid, output_index, token, amount, sender, recipient, inputs, raw from shown s
    where not exists (select from chain.transfer t where t.id = s.id)
    on conflict (id) do nothing returning id
  ), again as (
    update chain.unconfirmed u set missed_since = null
    where u.chain = of_chain and u.missed_since is not null
      and (u.id in (select id from shown) or exists (select from chain.transfer t where t.id = u.id))
  ), missed as (
    update chain.unconfirmed u set missed_since = clock_timestamp()
    where u.chain = of_chain and u.missed_since is null and u.id not in (select id from shown) and not exists (select from chain.transfer t where t.id = u.id)
  )
  select array_agg(id) into changed from added;
  with gone as (
    delete from chain.unconfirmed u where u.chain = of_chain and u.missed_since <= clock_timestamp() - interval '30 seconds'
    returning u.id
  )
  select changed || array_agg(id) into changed from gone;
  perform chain.touch(of_chain, changed);
end $function$;

-- Notes why it is not proven that a transaction expired. Opens an incident, or renews its reason, for a transaction of which it is not proven that it expired, 10 minutes after its end must have come.
CREATE OR REPLACE FUNCTION chain.note_unproven(of_chain text, of_txid text, why text)
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  update app.outgoing_attempt o set unproven = why, unproven_since = coalesce(o.unproven_since, clock_timestamp())
  where o.chain = of_chain and o.txid = of_txid and o.unproven is distinct from why;
  insert into app.incident as i (chain, kind, subject, details)
  select null, 'unproven_expiry', of_chain || ':' || of_txid, jsonb_build_object('txid', of_txid, 'why', why) -- without a chain: its other payments go on
  from chain.lapsable l join custody.journal j on j.stream = l.chain and j.txid = l.txid
  where l.chain = of_chain and l.txid = of_txid and extract(epoch from clock_timestamp()) * 1000 > j.lifetime_clock_ms + 600000
  on conflict (subject, kind) where resolved_at is null do update set details = excluded.details where i.details <> excluded.details
$function$;

-- Notes a block whose transactions have not the root in its header, once. The incident of the chain counts it.
CREATE OR REPLACE FUNCTION chain.note_unproven_block(of_chain text, of_height integer, of_hash text)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare
  place jsonb := jsonb_build_object('height', of_height, 'hash', of_hash);
begin
  insert into chain.unproven_block (chain, hash, height) values (of_chain, of_hash, of_height) on conflict do nothing;
  if not found then return; end if;
  insert into app.incident as i (chain, kind, subject, details)
  values (null, 'unproven_block', of_chain, jsonb_build_object('count', 1, 'first', place, 'newest', place)) -- without a chain: payouts go on
  on conflict (subject, kind) where resolved_at is null
  do update set details = i.details || jsonb_build_object('count', (i.details ->> 'count')::int + 1, 'newest', place);
end $function$;

-- Notes that a chain whose internal calls were read is read without them from here on, in an incident. Does nothing for a chain that never was read with them. Safe to run again.
CREATE OR REPLACE FUNCTION chain.note_untraced(of_chain text)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare at chain.cursor;
begin
  update chain.cursor c set untraced_from = c.head_height + 1
  where c.chain = of_chain and c.tracer is not null and c.untraced_from is null returning * into at;
  if at.chain is null then return; end if;
  insert into app.incident (chain, kind, subject, details)
  values (null, 'untraced_blocks', of_chain, jsonb_build_object('from', at.untraced_from, 'tracer', at.tracer)) on conflict do nothing;
end $function$;

-- The ids of the credited deposits that wait for finality in these blocks.
CREATE OR REPLACE FUNCTION chain.pending_deposits(of_chain text, from_height integer, hashes text[])
 RETURNS uuid[]
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
 SET plan_cache_mode TO 'force_custom_plan'
AS $function$
  select coalesce(array_agg(d.id), '{}') from app.deposit d
  where d.chain = of_chain and d.status = 'pending' and d.block_height >= from_height and d.block_hash = any(hashes) and d.credited
$function$;

-- Records which tracer numbers the internal calls of a chain, and refuses another one afterwards.
CREATE OR REPLACE FUNCTION chain.pin_tracer(of_chain text, tracer text)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare pinned text;
begin
  update chain.cursor c set tracer = coalesce(c.tracer, $2), untraced_from = null where c.chain = of_chain returning c.tracer into pinned;
  if pinned <> $2 then
    raise exception '% was read with the tracer "%" and cannot go on with "%": set %_TRACES=%', of_chain, pinned, $2, of_chain, pinned
      using errcode = 'P0003';
  end if;
end $function$;

-- Ends the waiting for transfers whose time is over, and adds the deposits that are lost by it to their reorganisation.
CREATE OR REPLACE FUNCTION chain.release_due(of_chain text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
 SET plan_cache_mode TO 'force_custom_plan'
AS $function$
declare
  at chain.cursor;
  head_height int;
  due text[];
begin
  select * into at from chain.cursor c where c.chain = of_chain for update;
  perform from chain.awaited w where w.chain = of_chain limit 1;
  if not found then return; end if;
  select max(b.height) into head_height from chain.block b where b.chain = of_chain;
  with gone as (
    delete from chain.awaited w
    where w.chain = of_chain
      and (w.until_height <= head_height or w.block_height <= at.final_height or w.since <= clock_timestamp() - chain.longest_wait())
    returning w.id, w.since
  ), lost as ( -- they belong to the reorganisation in which they were taken away
    select g.since, count(*) as deposits from gone g
    cross join lateral (
      select * from app.deposit d where d.txid = split_part(g.id, ':', 2) and d.output_index = split_part(g.id, ':', 3)::int and d.chain = of_chain offset 0
    ) d
    where d.status = 'pending' and d.credited
      and not exists (select from chain.transfer t where t.id = g.id and t.recipient = d.address and t.token = d.token)
      and not exists (select from chain.unconfirmed u where u.id = g.id)
    group by g.since
  ), counted as (
    update chain.reorganisation r set deposits_reorged = r.deposits_reorged + l.deposits
    from lost l
    where r.id = (select min(x.id) from chain.reorganisation x where x.chain = of_chain and x.happened_at >= l.since)
  )
  select array_agg(g.id) into due from gone g;
  perform chain.touch(of_chain, due);
end $function$;

-- Ends the waiting for transfers that were awaited for too long, also on chains that stand still.
CREATE OR REPLACE FUNCTION chain.release_overdue()
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  insert into chain.touched_chain
  select distinct pg_current_xact_id(), w.chain from chain.awaited w where w.since <= clock_timestamp() - chain.longest_wait()
  on conflict do nothing
$function$;

-- Deletes the blocks above a height, so that they are read again. Below the final height only if an operator asked for it.
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
  perform chain.await_transfers(of_chain, at.head_height);
  insert into app.incident (chain, kind, subject, details)
  select of_chain, 'final_payment_vanished', s.id::text, jsonb_build_object('txid', i.txid, 'payment', s.kind, 'block_height', i.block_height)
  from chain.confirmed_tx i cross join lateral app.payments_of(i.chain, i.txid, i.conflict_key) p join app.outgoing_payment s on s.id = p
  where i.chain = of_chain and i.block_height > to_height and s.status = 'final' and app.is_booked(s, i.txid)
  on conflict do nothing;
  update app.outgoing_payment s set next_step_at = clock_timestamp() -- it is broadcast again
  from chain.confirmed_tx i cross join lateral app.payments_of(i.chain, i.txid, i.conflict_key) p
  where i.chain = of_chain and i.block_height > to_height and s.id = p and s.txid = i.txid and s.status = 'final';
  delete from chain.confirmed_tx i where i.chain = of_chain and i.block_height > to_height;
  perform chain.take_back_lapses(of_chain, to_height);
  delete from chain.block b where b.chain = of_chain and b.height > to_height;
  insert into chain.block (id, chain, height, hash, parent_hash, time)
  values (of_chain || ':' || to_height, of_chain, to_height, to_hash, '', 'epoch') -- unknown: nothing is past its end by it
  on conflict (id) do update set hash = excluded.hash;
  execute format('delete from %I.hot_block', 'squid_' || lower(of_chain));
  if to_height < at.final_height then
    update chain.cursor c set final_height = to_height, final_hash = to_hash, final_moved_at = clock_timestamp() where c.chain = of_chain;
  end if;
  update app.incident i set resolved_at = clock_timestamp(), resolution = 'rewound'
  where i.chain = of_chain and i.kind = 'fork_below_final' and i.resolved_at is null and at.rewind_to is not null;
  update chain.cursor c set rewind_to = null where c.chain = of_chain;
  update chain.cursor c set followed_from = least(c.followed_from, to_height + 1) where c.chain = of_chain;
  perform chain.go_on(of_chain);
  execute format('update %I.status set height = $1, hash = $2, nonce = nonce + 1 where id = 0', 'squid_' || lower(of_chain)) using to_height, to_hash;
end $function$;

-- Takes back the proofs above this height that transactions expired, and opens an incident for each payment of which a later attempt was signed.
CREATE OR REPLACE FUNCTION chain.take_back_lapses(of_chain text, to_height integer)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
declare reopened uuid[];
begin
  perform from app.outgoing_payment s where s.status <> 'final' and s.id in (
    select coalesce(p.id, j.subject_id) from chain.lapse l join custody.journal j on j.stream = l.chain and j.txid = l.txid
    left join app.outgoing_payment p on p.payout_id = j.subject_id and p.kind = 'payout'
    where l.chain = of_chain and l.final_height > to_height) order by s.id for no key update;
  with gone as (delete from chain.lapse l where l.chain = of_chain and l.final_height > to_height returning l.txid)
  select array_agg(j.subject_id) into reopened from gone g join custody.journal j on j.stream = of_chain and j.txid = g.txid;
  insert into app.incident (chain, kind, subject, details)
  select null, 'contested_payment', c.chain || ':' || c.subject_id, jsonb_build_object('payment', c.subject_id, 'attempts', c.attempts) -- the chain's other payments go on
  from app.contested_payment c where c.chain = of_chain and c.subject_id = any(reopened) on conflict do nothing;
end $function$;

-- Notes why a chain cannot be followed now (reason for programs, message for people), and its first block if that is known. Nulls mean that it can.
CREATE OR REPLACE FUNCTION chain.tell_waiting(of_chain text, reason text, message text, first_height integer)
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  update chain.configured c set waiting_reason = reason, waiting_message = message, first_height = coalesce($4, c.first_height),
    waiting_since = case when reason is not null then coalesce(c.waiting_since, clock_timestamp()) end
  where c.chain = of_chain and (c.waiting_reason, c.waiting_message, coalesce($4, c.first_height))
    is distinct from (reason, message, c.first_height) -- the indexer repeats it
$function$;

-- Makes chain.derive check these transfers of a chain when the calling transaction commits; null for none.
CREATE OR REPLACE FUNCTION chain.touch(of_chain text, ids text[])
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
begin
  if cardinality(ids) is null then return; end if;
  insert into chain.touched select pg_current_xact_id(), of_chain, unnest(ids);
  insert into chain.touched_chain values (pg_current_xact_id(), of_chain) on conflict do nothing;
end $function$;

-- Takes the lock of the indexer that follows a chain; false if another connection has it, null if there is no such chain.
CREATE OR REPLACE FUNCTION chain.try_lock(of_chain text)
 RETURNS boolean
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select pg_try_advisory_lock(hashtextextended('sluice.indexer.' || c.chain, 0)) from app.chain c where c.chain = of_chain
$function$;

-- What custody holds: addresses and their owners, the journal of what it signed, and the whitelist of destinations.
create schema custody;

-- Every address that custody ever derived, in order, and the merchant that it was handed to; addresses that are not taken wait in the pool.
create table custody.address (
  address text not null, -- The address as people see it.
  family text not null, -- Family of chains on which the address is valid, such as evm.
  derivation_index bigint not null, -- Index in the derivation path, so that the seed restores it.
  created_at timestamp with time zone not null default clock_timestamp(), -- When custody derived it; -infinity for a treasury whose seed is older than this database.
  taken_at timestamp with time zone, -- When it was handed out; null while it waits. Never handed out twice.
  purpose text not null default 'deposit'::text, -- deposit: for a user or a payment request. treasury: where sweeps go, and payouts come from.
  merchant_id uuid, -- The merchant that it was handed to; null before, and for a treasury. Written once, by the function that hands it out; what custody signs depends on it.
  retired_at timestamp with time zone, -- When it was given up unused, because an older copy of the database would have handed it out a second time; else null.
  match_key text not null, -- The address as indexers look it up, written by a trigger (app.match_key): in lower case where that makes no difference (app.chain.folds_addresses).
  constraint address_pkey PRIMARY KEY (address),
  constraint address_path UNIQUE (family, purpose, derivation_index),
  constraint address_purpose_check CHECK ((purpose = ANY (ARRAY['deposit'::text, 'treasury'::text]))),
  constraint handed_to_a_merchant CHECK (((merchant_id IS NULL) OR (taken_at IS NOT NULL)))
);
CREATE INDEX address_free ON custody.address USING btree (family, derivation_index) WHERE ((taken_at IS NULL) AND (retired_at IS NULL) AND (purpose = 'deposit'::text));
CREATE UNIQUE INDEX address_match ON custody.address USING btree (match_key);
CREATE INDEX address_merchant ON custody.address USING btree (merchant_id) WHERE (merchant_id IS NOT NULL);
CREATE TRIGGER handed_out_once BEFORE UPDATE ON custody.address FOR EACH ROW WHEN (((old.address <> new.address) OR (old.family <> new.family) OR (old.purpose <> new.purpose) OR (old.derivation_index <> new.derivation_index) OR (old.match_key <> new.match_key) OR ((old.taken_at IS NOT NULL) AND ((new.taken_at IS DISTINCT FROM old.taken_at) OR (new.merchant_id IS DISTINCT FROM old.merchant_id))) OR ((old.retired_at IS NOT NULL) AND (new.retired_at IS DISTINCT FROM old.retired_at)))) EXECUTE FUNCTION custody.refuse_change();
CREATE TRIGGER never_deleted BEFORE DELETE ON custody.address FOR EACH ROW EXECUTE FUNCTION custody.refuse_change();
CREATE TRIGGER note_match_key BEFORE INSERT ON custody.address FOR EACH ROW EXECUTE FUNCTION custody.note_match_key();

-- What an operator added to the fee budget of a chain, for one day.
create table custody.budget_raise (
  id bigint not null generated always as identity, -- Number of the row.
  chain text not null, -- Chain code.
  day date not null, -- The day (UTC) that it is for.
  amount numeric(78,0) not null, -- What was added, in the native coin's base units.
  raised_at timestamp with time zone not null default clock_timestamp(), -- When.
  constraint budget_raise_pkey PRIMARY KEY (id),
  constraint budget_raise_amount_check CHECK ((amount > (0)::numeric))
);
CREATE INDEX budget_raise_day ON custody.budget_raise USING btree (chain, day);
CREATE TRIGGER announce_raise AFTER INSERT ON custody.budget_raise FOR EACH ROW EXECUTE FUNCTION custody.announce_raise();

-- Payments that an operator wants replaced or cancelled: custody signs for them on a halted chain, too.
create table custody.decision (
  outgoing_payment_id uuid not null, -- The payment.
  decision text not null, -- replace (by the same payment with a higher fee) or cancel (by a transaction that moves nothing).
  decided_at timestamp with time zone not null default clock_timestamp(), -- When it was last decided.
  constraint decision_pkey PRIMARY KEY (outgoing_payment_id),
  constraint decision_decision_check CHECK ((decision = ANY (ARRAY['replace'::text, 'cancel'::text]))),
  constraint decision_outgoing_payment_id_fkey FOREIGN KEY (outgoing_payment_id) REFERENCES app.outgoing_payment(id) ON DELETE CASCADE
);

-- Everything that custody signed, written before the signature left it, here and in a file outside the database. Append-only.
create table custody.journal (
  stream text not null, -- Chain code; pool:<family> for the entries about derived addresses.
  seq bigint not null, -- Number of the entry in its stream: 1, 2, 3 ... without a gap.
  kind text not null, -- pay: a payout. sweep: an address to the treasury. withdraw: the operator's own money. fund: gas for the sweep of an address. defund: gas back from there. cancel: nothing, with the nonce of something else. authorise: the treasury may take a token from an address, for one sweep. pool: addresses were derived up to an index.
  subject_id uuid, -- The outgoing payment (app.outgoing_payment) of the entry: the payout, the sweep or the withdrawal.
  merchant_id uuid, -- The merchant that is paid, or whose address is swept; null if the money is the operator's own or unattributed.
  token text, -- Token code.
  amount numeric(78,0), -- What it moves, in base units.
  destination text, -- Where it moves it to.
  source text, -- The address that it is taken from.
  sender text, -- The address that sends the transaction and pays its fee; not the source if the treasury relays an authorisation. On Bitcoin the treasury.
  nonce bigint, -- The nonce of the sender that it uses; null on chains without nonces.
  max_fee numeric(78,0), -- The most that the transaction can cost, in the native coin's base units.
  txid text, -- Id of the signed transaction.
  raw text, -- The signed transaction; of an authorisation, the data of the call that uses it.
  details jsonb not null default '{}'::jsonb, -- What else belongs to the entry: fees; gross and fee of the payout; the outputs that are spent; the highest index of a pool entry.
  signed_at timestamp with time zone not null, -- When it was signed.
  hash text not null, -- SHA-256 over the hash of the entry before it in the stream and this entry, as in the file.
  conflict_key text, -- What all attempts for its outgoing payment use, and only one transaction can use up: sender:nonce, or the first input (txid:vout). Null for addresses. Written by a trigger; not in the file.
  lifetime_from integer generated always as (((details #>> '{lifetime,from}'::text[]))::integer) stored, -- Where attempts expire: no block at or below this height can hold it.
  lifetime_end bigint generated always as (((details #>> '{lifetime,end}'::text[]))::bigint) stored, -- Where attempts expire: no block after the first one at or past this can hold it: a height, or the time of a block in ms (app.chain.ends_by).
  lifetime_clock_ms bigint generated always as (((details #>> '{lifetime,clock_ms}'::text[]))::bigint) stored, -- Where attempts expire: by this time (Unix, in ms) the chain is past its end, unless it stands still.
  constraint journal_pkey PRIMARY KEY (stream, seq),
  constraint journal_kind CHECK ((kind = ANY (ARRAY['pay'::text, 'sweep'::text, 'withdraw'::text, 'cancel'::text, 'authorise'::text, 'pool'::text, 'fund'::text, 'defund'::text]))),
  constraint journal_seq_check CHECK ((seq > 0))
);
CREATE INDEX journal_day ON custody.journal USING btree (stream, token, signed_at) WHERE (kind = ANY (ARRAY['pay'::text, 'withdraw'::text]));
CREATE INDEX journal_nonce ON custody.journal USING btree (stream, sender, nonce) WHERE (nonce IS NOT NULL);
CREATE INDEX journal_paid ON custody.journal USING btree (merchant_id, stream, token) WHERE (kind = 'pay'::text);
CREATE INDEX journal_subject ON custody.journal USING btree (subject_id) WHERE (subject_id IS NOT NULL);
CREATE INDEX journal_txid ON custody.journal USING btree (txid) WHERE (txid IS NOT NULL);
CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON custody.journal FOR EACH ROW EXECUTE FUNCTION custody.refuse_change();
CREATE TRIGGER note_keys AFTER INSERT ON custody.journal FOR EACH ROW WHEN ((new.conflict_key IS NOT NULL)) EXECUTE FUNCTION custody.note_keys();
CREATE TRIGGER set_conflict_key BEFORE INSERT ON custody.journal FOR EACH ROW EXECUTE FUNCTION custody.set_conflict_key();

-- What the transactions of the journal use up, so that no other transaction can use it again: nonces and outputs.
create table custody.journal_key (
  stream text not null, -- Chain code.
  seq bigint not null, -- The entry of the stream.
  conflict_key text not null, -- address:nonce, or the output that is spent (txid:vout).
  constraint journal_key_pkey PRIMARY KEY (stream, seq, conflict_key),
  constraint journal_key_stream_seq_fkey FOREIGN KEY (stream, seq) REFERENCES custody.journal(stream, seq)
);
CREATE INDEX journal_key_use ON custody.journal_key USING btree (stream, conflict_key);
CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON custody.journal_key FOR EACH ROW EXECUTE FUNCTION custody.refuse_change();

-- What custody was asked to sign and did not.
create table custody.refusal (
  id bigint not null generated always as identity, -- Number of the refusal.
  code text not null, -- Why, for programs.
  message text not null, -- Why, for people.
  request jsonb not null, -- What was asked; never a secret.
  refused_at timestamp with time zone not null default clock_timestamp(), -- When.
  constraint refusal_pkey PRIMARY KEY (id)
);

-- Chains for which custody's journal may lack entries. Until one is proven, custody signs nothing for the first time there.
create table custody.unproven_copy (
  chain text not null, -- Chain code.
  mark text not null, -- When custody's journal was found incomplete, and why, as in the file journal.incomplete beside it.
  noted_at timestamp with time zone not null default clock_timestamp(), -- When it was noted here. What the missing entries signed was signed before.
  noted_height integer not null, -- The newest block that was read then; -1 if there was none.
  start_height integer, -- The first block found that was made and read after that, where transactions expire the first final one; null until there is one.
  proven_at timestamp with time zone, -- When what the missing entries signed was known, or, where transactions expire, could not be mined any more; null while something may.
  constraint unproven_copy_pkey PRIMARY KEY (chain)
);

-- Where money may go: per merchant and chain; without a merchant, where the operator's own money may go.
create table custody.whitelist (
  id bigint not null generated always as identity, -- Number of the entry.
  merchant_id uuid, -- The merchant whose payouts may go there; null for withdrawals by the operator.
  chain text not null, -- Chain code.
  address text not null, -- The address, as people see it (EIP-55 on EVM chains).
  added_at timestamp with time zone not null default clock_timestamp(), -- When it was added.
  active_at timestamp with time zone not null default clock_timestamp(), -- From when on it counts.
  removed_at timestamp with time zone, -- When it was removed: nothing new is signed to it. Null while it is on the list.
  constraint whitelist_pkey PRIMARY KEY (id),
  constraint whitelist_merchant_id_fkey FOREIGN KEY (merchant_id) REFERENCES app.merchant(id)
);
CREATE UNIQUE INDEX whitelist_entry ON custody.whitelist USING btree (merchant_id, chain, address) NULLS NOT DISTINCT WHERE (removed_at IS NULL);
CREATE TRIGGER announce_entry AFTER INSERT ON custody.whitelist FOR EACH ROW EXECUTE FUNCTION custody.announce_entry();

-- Wakes the merchant's payouts to an address that was put on the whitelist.
CREATE OR REPLACE FUNCTION custody.announce_entry()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
begin
  perform app.wake_payout(p.id) from app.payout p
  where p.merchant_id = new.merchant_id and p.chain = new.chain and p.address = new.address and p.status in ('pending', 'swept') order by p.id;
  return null;
end $function$;

-- Wakes what waited until custody signs again on a chain.
CREATE OR REPLACE FUNCTION custody.announce_proven(of_chain text)
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'pg_catalog'
AS $function$
  update app.outgoing_payment s set next_step_at = clock_timestamp() where s.id in (
    select o.id from app.outgoing_payment o where o.chain = of_chain and o.status <> 'final' and o.waiting_reason = 'copy_unproven'
    for no key update skip locked);
  select app.wake_outgoing_payments(of_chain);
  select app.wake_payout(p.id) from app.payout p where p.chain = of_chain and p.waiting_reason = 'copy_unproven' and p.status not in ('completed', 'failed')
$function$;

-- Wakes the outgoing payments and payouts of a chain that wait for its fee budget.
CREATE OR REPLACE FUNCTION custody.announce_raise()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
begin
  update app.outgoing_payment s set next_step_at = clock_timestamp()
  where s.chain = new.chain and s.status <> 'final' and s.waiting_reason = 'fee_budget_reached';
  perform app.wake_outgoing_payments(new.chain);
  perform app.wake_payout(p.id) from app.payout p
  where p.chain = new.chain and p.status not in ('completed', 'failed') and p.waiting_reason = 'fee_budget_reached' order by p.id;
  return null;
end $function$;

-- Gives each nonce that was taken on these chains and is unused to an outgoing payment that is only cancelled.
CREATE OR REPLACE FUNCTION custody.fill_holes(of_chains text[])
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'pg_catalog'
AS $function$
  insert into app.outgoing_payment (kind, chain, token, amount, source, recipient, fee_payer, nonce, merchant_id, cancelling, recovered, max_fee, from_gas)
  select 'cancel', n.chain, app.native_token(n.chain), 0, n.address, n.address, n.address, nonce, a.merchant_id, true, true, 0,
    app.free_gas(n.chain, n.address) > 0
  from app.sender n join custody.address a on a.address = n.address cross join generate_series(0, n.next_nonce - 1) nonce
  where n.chain = any(of_chains) and (a.merchant_id is not null or a.purpose = 'treasury')
    and not exists (select from app.outgoing_payment s where s.chain = n.chain and s.fee_payer = n.address and s.nonce = nonce.nonce)
    and not exists (select from chain.confirmed_tx i join chain.cursor c using (chain)
      where i.chain = n.chain and i.conflict_key = n.address || ':' || nonce.nonce and i.block_height <= c.final_height)
$function$;

-- Notes that custody found its journal incomplete (the mark says when and why; once for each), and which chains are proven since. Returns those that are not, with what they wait for.
CREATE OR REPLACE FUNCTION custody.follow_unproven_copies(of_mark text)
 RETURNS TABLE(chain text, why text)
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  insert into custody.unproven_copy as u (chain, mark, noted_height) select k.chain, of_mark, coalesce(c.head_height, -1)
  from app.chain k left join chain.cursor c using (chain)
  where not exists (select from custody.unproven_copy o where o.chain = k.chain and o.mark = of_mark)
  on conflict on constraint unproven_copy_pkey do update
  set mark = excluded.mark, noted_at = excluded.noted_at, noted_height = excluded.noted_height, start_height = null, proven_at = null;

  update custody.unproven_copy u set start_height = b.height
  from app.chain k join chain.cursor c using (chain)
  join chain.block b on b.chain = c.chain and b.height = case k.attempts_exclude_by when 'expiry' then c.final_height else c.head_height end
  where k.chain = u.chain and u.start_height is null and b.height > u.noted_height and b.time >= u.noted_at;

  with proven as (
    update custody.unproven_copy u set proven_at = clock_timestamp()
    from app.chain k join chain.cursor c using (chain) join chain.block b on b.chain = c.chain and b.height = c.final_height
    where k.chain = u.chain and u.proven_at is null and u.start_height is not null and c.halted_at is null
      and case k.ends_by when 'height' then c.final_height >= u.start_height + k.longest_lifetime
        when 'time' then b.time >= u.noted_at + k.longest_lifetime * interval '1 millisecond' else true end
      and clock_timestamp() >= u.noted_at + coalesce(k.longest_lifetime_ms, 0) * interval '1 millisecond'
      and not exists (select from app.incident i where i.chain = u.chain and i.kind = 'unknown_transaction' and i.resolved_at is null)
    returning u.chain
  )
  select custody.announce_proven(p.chain) from proven p;

  select u.chain, custody.why_unproven(u) from custody.unproven_copy u where u.proven_at is null
$function$;

-- Gives unsigned outgoing payments another nonce if the journal has theirs, and frees the outputs that the journal spent (custody.free_outputs); no nonce of the journal is handed out again.
CREATE OR REPLACE FUNCTION custody.free_nonces(entries custody.journal[])
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
begin
  perform custody.free_outputs(entries);
  insert into app.sender as s (chain, address, next_nonce)
  select e.stream, e.sender, max(e.nonce) + 1 from unnest(entries) e where e.nonce is not null group by e.stream, e.sender
  on conflict (chain, address) do update set next_nonce = greatest(s.next_nonce, excluded.next_nonce);
  update app.outgoing_payment s set nonce = app.take_nonce(s.chain, s.fee_payer)
  where s.status = 'allocated' and s.nonce is not null and exists (
    select from unnest(entries) e where e.stream = s.chain and e.conflict_key = s.conflict_key and not custody.is_purpose(s, e))
    and not custody.is_signed(s, entries);
end $function$;

-- Gives up unsigned outgoing payments whose outputs the journal spent for something else. A payment that the journal signed with other outputs than it was begun with loses its own, and continues.
CREATE OR REPLACE FUNCTION custody.free_outputs(entries custody.journal[])
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
declare
  s app.outgoing_payment;
  e custody.journal;
begin
  foreach e in array coalesce(entries, '{}') loop
    continue when not app.uses_outputs(e.stream);
    for s in
      select * from app.outgoing_payment x
      where x.chain = e.stream and x.status = 'allocated' and (x.conflict_key = e.conflict_key or custody.is_purpose(x, e)
        or exists (select from app.output u where u.outgoing_payment_id = x.id and e.details -> 'inputs' ? (u.txid || ':' || u.vout)))
      order by custody.is_purpose(x, e) -- it may get the first input of a payment that is given up
    loop
      update app.output u set outgoing_payment_id = null, from_attempt = null where u.outgoing_payment_id = s.id;
      if custody.is_purpose(s, e) then
        update app.outgoing_payment x set first_input = e.conflict_key where x.id = s.id;
        continue;
      end if;
      continue when custody.is_signed(s, entries);
      if s.kind = 'payout' then
        perform app.fail_payout(s.payout_id, 'cancelled', 'an older copy of the database had chosen outputs for it that were spent since');
      elsif s.kind = 'withdrawal' then
        perform app.reserve(s.chain, s.token, -s.amount);
      end if;
      perform app.reserve(s.chain, app.native_token(s.chain), -s.max_fee);
      delete from app.payout_sweep l where l.outgoing_payment_id = s.id;
      delete from app.outgoing_payment x where x.id = s.id;
    end loop;
  end loop;
end $function$;

-- Stops a chain, with an incident, because the database is an older copy than custody's journal.
CREATE OR REPLACE FUNCTION custody.halt_chain(of_chain text, why text)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
begin
  update chain.cursor c set halted_at = clock_timestamp() where c.chain = of_chain and c.halted_at is null;
  insert into app.incident (chain, kind, subject, details) values (of_chain, 'journal_ahead', of_chain, jsonb_build_object('why', why))
  on conflict do nothing;
end $function$;

-- Whether something was signed for an outgoing payment with its nonce or outputs: then only what uses these pays it.
CREATE OR REPLACE FUNCTION custody.is_bound(s app.outgoing_payment)
 RETURNS boolean
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select s.conflict_key is not null and (s.status <> 'allocated' or exists (select from custody.journal j
    where j.stream = s.chain and j.subject_id = case s.kind when 'payout' then s.payout_id else s.id end and j.conflict_key = s.conflict_key))
$function$;

-- Whether the network fee of an entry's transaction is paid with gas on its address (app.gas).
CREATE OR REPLACE FUNCTION custody.is_from_gas(e custody.journal)
 RETURNS boolean
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select e.sender <> app.treasury_address(e.stream) and exists (select from custody.journal j
    where j.stream = e.stream and (j.kind = 'defund' or j.kind = 'sweep' and j.token <> app.native_token(e.stream))
      and case e.kind when 'cancel' then j.conflict_key = e.conflict_key else j.seq = e.seq end)
$function$;

-- Whether custody found its journal incomplete, and has made no address of this family since: then those that it would make next may have been handed out.
CREATE OR REPLACE FUNCTION custody.is_pool_unsure(of_family text)
 RETURNS boolean
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select exists (select from custody.unproven_copy u join app.chain k using (chain) where k.family = of_family and coalesce((
    select a.created_at from custody.address a where a.family = of_family and a.purpose = 'deposit' order by a.derivation_index desc limit 1) < u.noted_at, true))
$function$;

-- Whether an outgoing payment is what an entry of the journal was signed for.
CREATE OR REPLACE FUNCTION custody.is_purpose(s app.outgoing_payment, e custody.journal)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select case e.kind when 'pay' then s.kind = 'payout' and s.payout_id = e.subject_id when 'cancel' then s.status <> 'allocated'
    else s.id = e.subject_id end
$function$;

-- Whether one of these entries may pay an outgoing payment that the copy calls unsigned: with its nonce, or with whatever outputs.
CREATE OR REPLACE FUNCTION custody.is_signed(s app.outgoing_payment, entries custody.journal[])
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select exists (select from unnest(entries) e where e.stream = s.chain and e.kind <> 'cancel' and custody.is_purpose(s, e)
    and (e.conflict_key = s.conflict_key or s.nonce is null))
$function$;

-- Whether a sweep that paid this fee itself (0 if the treasury paid) took what a return takes of an amount, in base units.
CREATE OR REPLACE FUNCTION custody.is_whole(received numeric, moved numeric, own_fee numeric)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select received - moved between own_fee and 4 * own_fee
$function$;

-- Locks an outgoing payment until the end of custody's transaction, so that nothing ends it meanwhile; waits at most most_ms milliseconds for whoever is changing it. Returns how many it waited; null if it is not locked.
CREATE OR REPLACE FUNCTION custody.lock_outgoing_payment(of_outgoing_payment uuid, most_ms integer)
 RETURNS integer
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
 SET lock_timeout TO '500ms'
AS $function$
declare
  began timestamptz := clock_timestamp();
  waited int := 0;
begin
  loop
    perform from app.outgoing_payment s where s.id = of_outgoing_payment for no key update skip locked;
    if found then return waited; end if;
    waited := extract(epoch from clock_timestamp() - began) * 1000;
    if waited >= most_ms then return null; end if;
    perform pg_sleep(0.01);
  end loop;
end $function$;

-- Whether something that waits for exactly this has an attempt that may be mined until it is known to have expired: only then can be told what else paid it.
CREATE OR REPLACE FUNCTION custody.may_still_be_paid(of_chain text, of_recipient text, of_token text, of_amount numeric)
 RETURNS boolean
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select exists (select from custody.waiting(of_chain, of_recipient, of_token, of_amount) w join app.outgoing_payment s on s.id = w.payment_id
    join app.attempt_fate f on f.chain = of_chain and f.subject_id = w.id and f.kind in ('pay', 'withdraw') and f.fate = 'open'
    where s.conflict_key is null)
$function$;

-- What an unknown transaction moved of ours, in base units, and whether it stayed with us.
CREATE OR REPLACE FUNCTION custody.moved_by(of_chain text, of_txid text)
 RETURNS TABLE(sender text, recipient text, token text, amount numeric, stays boolean)
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select m.sender, m.recipient, coalesce(k.token, m.token), m.amount, exists (select from custody.address o where o.address = m.recipient)
  from app.unknown_transaction u cross join lateral jsonb_to_recordset(u.moved) m (sender text, recipient text, token text, amount numeric)
  left join app.token k on k.chain = of_chain and k.contract = m.token
  where u.chain = of_chain and u.txid = of_txid
    and (app.uses_outputs(of_chain) or exists (select from custody.address o where o.address = m.sender))
$function$;

-- Records what the transaction of a new entry of the journal uses up, a row each; custody looks them up before it signs.
CREATE OR REPLACE FUNCTION custody.note_keys()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
begin
  insert into custody.journal_key (stream, seq, conflict_key)
  select new.stream, new.seq, jsonb_array_elements_text(new.details -> 'inputs')
  union
  select new.stream, new.seq, new.conflict_key;
  return null;
end $function$;

-- Trigger: writes the match key of a new address. It is the same on every chain of the family.
CREATE OR REPLACE FUNCTION custody.note_match_key()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
begin
  new.match_key := (select app.match_key(new.address, c.folds_addresses) from app.chain c where c.family = new.family limit 1);
  return new;
end $function$;

-- The payout, the withdrawal or the return that waits, and that an unknown transaction may have paid, in words; null if there is none.
CREATE OR REPLACE FUNCTION custody.paid_again(of_chain text, of_txid text)
 RETURNS text
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select w.name
  from custody.moved_by(of_chain, of_txid) m cross join lateral custody.waiting(of_chain, m.recipient, m.token, m.amount) w
  left join app.outgoing_payment s on s.id = w.payment_id
  where not m.stays and not exists (select from custody.journal j where j.stream = of_chain and j.txid = of_txid)
    and not exists (select from app.attempt_fate f where f.chain = of_chain and f.subject_id = w.id and f.kind in ('pay', 'withdraw') and f.fate in ('in_block', 'final'))
    and (not custody.is_bound(s)
      or not exists (select from chain.confirmed_tx i where i.chain = of_chain and i.txid = of_txid and i.conflict_key is not null)
      or exists (select from chain.confirmed_tx i where i.chain = of_chain and i.txid = of_txid and i.conflict_key = s.conflict_key))
  order by w.created_at, w.id limit 1
$function$;

-- What an unknown transaction took out of our addresses, such as "0.5 ETH to 0x…"; null if nothing.
CREATE OR REPLACE FUNCTION custody.paid_in_words(of_chain text, of_txid text)
 RETURNS text
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select string_agg(format('%s %s to %s', coalesce(app.decimal(m.amount, a.decimals), m.amount || ' base units of'), m.token, m.recipient), ', ')
  from custody.moved_by(of_chain, of_txid) m left join app.asset a on a.chain = of_chain and a.token = m.token where not m.stays
$function$;

-- The entry of custody's journal for an unknown transaction, without its number and hash; null if it is not recognised.
CREATE OR REPLACE FUNCTION custody.recognise(of_chain text, of_txid text)
 RETURNS jsonb
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
declare
  treasury text := app.treasury_address(of_chain);
  has_outputs boolean := app.uses_outputs(of_chain);
  t record;
  paid record;
  key text;
  entry jsonb;
begin
  select max(i.block_time) as block_time, max(i.fee) as fee, max(i.nonce) as nonce, (array_agg(i.account order by i.fee desc, i.id))[1] as fee_payer,
    array_agg(i.outpoint order by nullif(split_part(i.id, ':', 3), '')::int) filter (where i.outpoint is not null) as inputs into t
  from chain.confirmed_tx i join chain.cursor c using (chain) where i.chain = of_chain and i.txid = of_txid and i.block_height <= c.final_height
  having bool_and(i.success);
  if t.fee_payer is null or has_outputs and t.fee = 0 then return null; end if; -- without a fee, it spent outputs of others, too
  if has_outputs then t.fee_payer := treasury; end if;
  key := coalesce(t.inputs[1], t.fee_payer || ':' || t.nonce);
  select count(*) as parts, min(m.sender) as sender, min(m.recipient) as recipient, min(m.token) as token, min(m.amount) as amount into paid
  from custody.moved_by(of_chain, of_txid) m where not m.stays;
  if paid.parts = 0 then entry := coalesce(custody.recognise_defund(of_chain, of_txid, key, t.fee),
      custody.recognise_sweep(of_chain, of_txid, key, case when t.fee_payer = treasury then 0 else t.fee end),
      custody.recognise_fund(of_chain, of_txid, key));
  elsif paid.parts = 1 and (has_outputs or paid.sender = treasury) then
    entry := coalesce(custody.waiting_payment(of_chain, paid.recipient, paid.token, paid.amount, t.block_time, key),
        custody.recognise_return(of_chain, paid.recipient, paid.token, paid.amount),
        case when not custody.may_still_be_paid(of_chain, paid.recipient, paid.token, paid.amount)
          then custody.recognise_lost(of_chain, paid.recipient, paid.token, paid.amount) end)
      || jsonb_build_object('token', paid.token, 'amount', paid.amount::text, 'destination', paid.recipient, 'source', treasury);
  end if;
  return entry || jsonb_build_object('stream', of_chain, 'txid', of_txid, 'raw', '', 'sender', t.fee_payer, 'nonce', t.nonce, 'max_fee', t.fee::text,
    'signed_at', app.iso(t.block_time),
    'details', entry -> 'details' || jsonb_strip_nulls(jsonb_build_object('found', 'in a block', 'inputs', to_jsonb(t.inputs))));
end $function$;

-- The entry of gas that went from an address back to the treasury; null if the transaction moved none.
CREATE OR REPLACE FUNCTION custody.recognise_defund(of_chain text, of_txid text, key text, fee numeric)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  with moved as (
    select min(m.sender) as source, min(m.amount) as amount, min(a.merchant_id::text) as merchant_id
    from custody.moved_by(of_chain, of_txid) m join custody.address a on a.address = m.sender and a.purpose = 'deposit'
    having count(*) = 1 and bool_and(m.recipient = app.treasury_address(of_chain) and m.token = app.native_token(of_chain))
  )
  select jsonb_build_object('kind', 'defund', 'merchant_id', m.merchant_id, 'token', app.native_token(of_chain), 'amount', m.amount::text,
    'details', '{}'::jsonb, 'destination', app.treasury_address(of_chain), 'source', m.source, 'subject_id', coalesce(o.id, uuidv7()))
  from moved m join app.gas g on g.chain = of_chain and g.address = m.source
  left join app.outgoing_payment o on o.chain = of_chain and o.kind = 'defund' and o.source = m.source and o.conflict_key = key and o.status <> 'final'
  where o.id is not null or g.amount >= m.amount + fee and not exists (select from app.holding h
    where h.chain = of_chain and h.address = m.source and h.token = app.native_token(of_chain) and h.amount >= m.amount + fee)
$function$;

-- The entry of gas that the treasury sent an address; null if the transaction was none.
CREATE OR REPLACE FUNCTION custody.recognise_fund(of_chain text, of_txid text, key text)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select jsonb_build_object('kind', 'fund', 'merchant_id', min(a.merchant_id::text), 'token', min(m.token), 'amount', min(m.amount)::text,
    'details', '{}'::jsonb, 'destination', min(m.recipient), 'source', min(m.sender), 'subject_id', coalesce((select o.id from app.outgoing_payment o
      where o.chain = of_chain and o.kind = 'fund' and o.recipient = min(m.recipient) and o.amount = min(m.amount) and o.status <> 'final'
        and (o.status = 'allocated' or o.conflict_key = key) limit 1), uuidv7()))
  from custody.moved_by(of_chain, of_txid) m join custody.address a on a.address = m.recipient and a.purpose = 'deposit'
  where exists (select from app.asset s where s.chain = of_chain and s.sweep_by = 'fund')
  having count(*) = 1 and bool_and(m.sender = app.treasury_address(of_chain) and m.token = app.native_token(of_chain))
$function$;

-- The entry of a payout that this copy does not have, to the one merchant that has or had this address on its whitelist; of a withdrawal if only the operator had it; else null.
CREATE OR REPLACE FUNCTION custody.recognise_lost(of_chain text, recipient text, of_token text, amount numeric)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select case when m.id is null then jsonb_build_object('kind', 'withdraw', 'subject_id', uuidv7(), 'merchant_id', null, 'details', '{}'::jsonb)
    else jsonb_build_object('kind', 'pay', 'subject_id', uuidv7(), 'merchant_id', m.id,
      'details', jsonb_build_object('gross', g.gross::text, 'fee', (g.gross - amount)::text, 'fee_bps', m.fee_bps)) end
  from (select min(w.merchant_id::text)::uuid as merchant_id from custody.whitelist w where w.chain = of_chain and w.address = recipient
    having count(distinct coalesce(w.merchant_id::text, '')) = 1) w
  join app.asset a on a.chain = of_chain and a.token = of_token
  left join app.merchant m on m.id = w.merchant_id
  left join lateral (select max(n) as gross from generate_series(div(amount * 10000, nullif(10000 - m.fee_bps, 0)) - 1, div(amount * 10000, nullif(10000 - m.fee_bps, 0)) + 2) n
    where n - div(n * m.fee_bps, 10000) = amount) g on true
  where m.id is null or g.gross is not null -- by today's fee nothing would have been left
$function$;

-- The entry of the withdrawal that returned unattributed value: to an address of the operator's, of exactly what one sweep of its address moved; null if there is none.
CREATE OR REPLACE FUNCTION custody.recognise_return(of_chain text, of_recipient text, of_token text, of_amount numeric)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select jsonb_build_object('kind', 'withdraw', 'subject_id', i.id, 'merchant_id', null, 'details', '{}'::jsonb)
  from app.deposit d left join app.unattributed_decision u on u.deposit_id = d.id
  cross join lateral (select app.next_return_outgoing_payment(d, 'withdrawal') as id) i
  where d.chain = of_chain and d.token = of_token and not d.credited and d.merchant_id is not null and d.status = 'final' and d.amount >= of_amount
    and (u.deposit_id is null or u.decision = 'return' and coalesce(u.destination, of_recipient) = of_recipient
      and not exists (select from app.outgoing_payment s where s.id = u.withdrawal_id and (s.status <> 'final' or s.outcome = 'done')))
    and exists (select from custody.whitelist w where w.chain = of_chain and w.address = of_recipient and w.merchant_id is null)
    and (exists (select from app.outgoing_payment s where s.chain = of_chain and s.kind = 'sweep' and s.source = d.address and s.token = of_token and s.amount = of_amount
        and (u.deposit_id is not null or custody.is_whole(d.amount, of_amount, case when s.fee_payer = d.address then coalesce(s.fee_paid, s.max_fee) else 0 end)))
      or exists (select from app.unknown_transaction n cross join lateral custody.moved_by(of_chain, n.txid) m
        where n.chain = of_chain and (m.sender, m.token, m.amount) = (d.address, of_token, of_amount) and m.recipient = app.treasury_address(of_chain)
          and (u.deposit_id is not null or custody.is_whole(d.amount, of_amount, coalesce((select max(f.fee) from chain.confirmed_tx f
            where f.chain = of_chain and f.txid = n.txid and f.account = d.address), 0)))))
    and i.id is not null
  order by u.deposit_id is null, d.created_at, d.id limit 1
$function$;

-- The entry of a sweep of one merchant's money to the treasury; null if the transaction was none.
CREATE OR REPLACE FUNCTION custody.recognise_sweep(of_chain text, of_txid text, key text, own_fee numeric)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  with moved as (
    select m.sender, m.recipient, m.token, m.amount from custody.moved_by(of_chain, of_txid) m where not app.uses_outputs(of_chain)
    union all
    select i.account, min(m.recipient), min(m.token), sum(m.amount)
    from chain.confirmed_tx i cross join custody.moved_by(of_chain, of_txid) m
    where app.uses_outputs(of_chain) and i.chain = of_chain and i.txid = of_txid group by i.id, i.account having count(distinct m.recipient) = 1
  ), swept as (
    select min(m.sender) as source, min(m.token) as token, min(m.amount) as amount, min(a.merchant_id::text)::uuid as merchant_id from moved m
    join custody.address a on a.address = m.sender
    having bool_and(a.purpose = 'deposit' and a.merchant_id is not null and m.recipient = app.treasury_address(of_chain))
      and count(distinct a.merchant_id) = 1 and (count(*) = 1 or app.uses_outputs(of_chain))
  )
  select jsonb_build_object('kind', 'sweep', 'merchant_id', s.merchant_id, 'token', s.token, 'amount', s.amount::text, 'details', '{}'::jsonb,
    'destination', app.treasury_address(of_chain), 'source', case when app.uses_outputs(of_chain) then app.treasury_address(of_chain) else s.source end,
    'subject_id', coalesce((select o.id from app.outgoing_payment o
      where o.chain = of_chain and o.kind = 'sweep' and o.source = s.source and o.token = s.token and o.status <> 'final'
        and (o.merchant_id is not null or exists (select from app.unattributed_decision u where u.sweep_id = o.id))
        and (o.status = 'allocated' or o.conflict_key is not distinct from key)
        and not exists (select from app.attempt_fate f where f.chain = of_chain and f.subject_id = o.id and f.fate <> 'dead')
      order by o.amount <> s.amount limit 1), r.id, uuidv7()))
  from swept s cross join lateral (select custody.swept_for_return(of_chain, s.source, s.token, s.amount, own_fee) as id) r
  where app.uses_outputs(of_chain) or r.id is not null
    or exists (select from app.holding h where h.chain = of_chain and h.address = s.source and h.token = s.token
      and h.amount >= s.amount + case when s.token = app.native_token(of_chain) then own_fee else 0 end)
$function$;

-- Imports entries of custody's journal that an older copy of the database is missing, and what follows from them. Returns how many entries and payouts there were, and for how many entries (cancels) the purpose is no longer known.
CREATE OR REPLACE FUNCTION custody.reconcile(entries jsonb)
 RETURNS jsonb
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
declare
  signed custody.journal[];
  e custody.journal;
  s app.outgoing_payment;
  without_purpose int := 0;
  streams text[] := array(select distinct r.stream from jsonb_populate_recordset(null::custody.journal, entries) r where r.kind <> 'pool');
begin
  perform from chain.cursor c where c.chain in (select r.stream from jsonb_populate_recordset(null::custody.journal, entries) r)
    order by c.chain for update;
  lock table app.payout, app.treasury, app.sender, app.outgoing_payment in exclusive mode; -- nothing is planned or derived meanwhile
  if exists (select from jsonb_populate_recordset(null::custody.journal, entries) r join custody.journal j on j.stream = r.stream and j.txid = r.txid
      where r.details ? 'found') then
    raise exception 'what was found on the chain is in the journal already' using errcode = 'P0003';
  end if;
  insert into custody.journal (stream, seq, kind, subject_id, merchant_id, token, amount, destination, source, sender, nonce, max_fee, txid, raw,
    details, signed_at, hash)
  select stream, seq, kind, subject_id, merchant_id, token, amount, destination, source, sender, nonce, max_fee, txid, raw,
    details, signed_at, hash
  from jsonb_populate_recordset(null::custody.journal, entries);
  select array_agg(j order by (j).stream, (j).seq) into signed from (
    select j from jsonb_populate_recordset(null::custody.journal, entries) r join custody.journal j using (stream, seq) where j.txid is not null
    union
    -- what the copy's own journal has, and its worker had not stored yet: a missing cancel must not hide it
    select j from app.outgoing_payment x join custody.journal j on j.stream = x.chain and j.kind <> 'cancel' and custody.is_purpose(x, j)
    where x.status = 'allocated' and x.chain in (select r.stream from jsonb_populate_recordset(null::custody.journal, entries) r)
      and j.txid is not null and j.conflict_key is not distinct from x.conflict_key) known(j);
  perform app.lock_treasury(c) from unnest(streams) c;
  perform custody.free_nonces(signed);
  foreach e in array coalesce(signed, '{}') loop
    s := custody.recover_outgoing_payment(e);
    if s.id is null then without_purpose := without_purpose + 1;
    else perform custody.recover_attempt(s, e);
    end if;
  end loop;
  perform app.suspect_second_payments(array(select known.txid from unnest(signed) known));
  perform custody.fill_holes(streams);
  update app.incident i set resolved_at = clock_timestamp(), resolution = 'reconciled'
  where i.resolved_at is null and i.chain = any(streams) and (i.kind = 'journal_ahead' or (i.kind = 'unknown_transaction' and not exists (
    select from app.unknown_transaction u where u.incident_id = i.id
      and not exists (select from app.outgoing_attempt o where o.chain = u.chain and o.txid = u.txid)
      and not exists (select from unnest(signed) known where known.stream = u.chain and known.txid = u.txid))));
  perform chain.go_on(c) from unnest(streams) c;
  perform app.wake_outgoing_payments(c) from unnest(streams) c;
  return jsonb_build_object('entries', jsonb_array_length(entries), 'without_purpose', without_purpose,
    'payouts', (select count(distinct r.subject_id) from unnest(signed) r where r.kind = 'pay'));
end $function$;

-- Stores the transaction of an entry as an attempt of its outgoing payment, with its fee and its outputs reserved, and has it sent.
CREATE OR REPLACE FUNCTION custody.recover_attempt(s app.outgoing_payment, e custody.journal)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
begin
  insert into app.outgoing_attempt (chain, txid, outgoing_payment_id, attempt, kind, raw, token, source, recipient, amount, max_fee,
    fee_details)
  select e.stream, e.txid, s.id, 1 + (select count(*) from app.outgoing_attempt o where o.outgoing_payment_id = s.id),
    case e.kind when 'cancel' then 'cancel' else 'effect' end, e.raw, e.token, e.source, e.destination, e.amount, e.max_fee,
    e.details - '{seal,inputs,change,gross,fee,fee_bps,for_token}'::text[] -- what is left is the family's
  on conflict do nothing;
  if e.max_fee > s.max_fee and s.status <> 'final' and s.fee_payer = app.treasury_address(s.chain) then
    perform app.reserve(s.chain, app.native_token(s.chain), e.max_fee - s.max_fee);
  elsif e.max_fee > s.max_fee and s.status <> 'final' and s.from_gas then
    perform app.reserve_gas(s, e.max_fee - s.max_fee);
  end if;
  update app.outgoing_payment x set status = 'live', max_fee = greatest(x.max_fee, e.max_fee), next_step_at = clock_timestamp()
  where x.id = s.id and x.status <> 'final';
  update app.output u set outgoing_payment_id = s.id, from_attempt = (select o.attempt from app.outgoing_attempt o where o.chain = e.stream and o.txid = e.txid)
  where u.chain = e.stream and u.outgoing_payment_id is null and u.txid || ':' || u.vout in (select jsonb_array_elements_text(e.details -> 'inputs'));
  if e.kind = 'pay' then update app.payout p set status = 'paying' where p.id = s.payout_id and p.status = 'swept'; end if;
end $function$;

-- Makes a merchant that the copy does not have; only its id is known.
CREATE OR REPLACE FUNCTION custody.recover_merchant(merchant uuid, fee_bps integer)
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'pg_catalog'
AS $function$
  insert into app.merchant (id, name, prefix, fee_bps)
  values (merchant, 'Recovered ' || merchant, 'r' || substr(encode(uuid_send(merchant), 'hex'), 22), fee_bps)
  on conflict (id) do nothing
$function$;

-- The outgoing payment of an entry: the one that it was signed for (of a cancel, the one with its conflict key), or a new one with what was reserved for it. Null for a cancel whose purpose is no longer known, from an address that belongs to no merchant.
CREATE OR REPLACE FUNCTION custody.recover_outgoing_payment(e custody.journal)
 RETURNS app.outgoing_payment
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
declare
  s app.outgoing_payment;
  p app.payout;
  merchant uuid := coalesce(e.merchant_id, (select a.merchant_id from custody.address a where a.address = e.sender));
  treasury text := app.treasury_address(e.stream);
begin
  if e.kind = 'pay' then p := custody.recover_payout(e); end if;
  -- A cancel that the copy does not know may have used up the nonce that it has for this payment; it was signed with another one since.
  update app.outgoing_payment x set nonce = e.nonce
  where x.status = 'allocated' and x.nonce is not null and case e.kind when 'pay' then x.payout_id = p.id and x.kind = 'payout'
    when 'cancel' then false else x.id = e.subject_id end;
  select * into s from app.outgoing_payment x where x.chain = e.stream and case e.kind when 'cancel' then x.conflict_key = e.conflict_key
    when 'pay' then x.payout_id = p.id and x.kind = 'payout' else x.id = e.subject_id end;
  if s.id is not null and (s.conflict_key is distinct from e.conflict_key or not custody.is_purpose(s, e))
    or s.id is null and exists (select from app.outgoing_payment x where x.chain = e.stream and x.conflict_key = e.conflict_key) then
    raise exception '% on % has one purpose in the journal''s file and another in the database; they do not belong to the same service',
      e.conflict_key, e.stream using errcode = 'P0003';
  end if;
  if s.id is not null then return s; end if;
  if merchant is not null then perform custody.recover_merchant(merchant, 0);
  elsif e.kind <> 'withdraw' and e.sender <> treasury then return null;
  end if;
  insert into app.outgoing_payment (id, kind, chain, token, amount, source, recipient, fee_payer, nonce, first_input, payout_id, merchant_id, status, cancelling, recovered, max_fee,
    for_token, from_gas)
  values (case when e.kind in ('sweep', 'withdraw', 'fund', 'defund') then e.subject_id else uuidv7() end,
    case e.kind when 'pay' then 'payout' when 'withdraw' then 'withdrawal' else e.kind end, e.stream, e.token, e.amount, e.source, e.destination, e.sender, e.nonce, case when e.nonce is null then e.conflict_key end, p.id, merchant, 'live',
    e.kind = 'cancel' or coalesce(p.status = 'failed', false), true, e.max_fee, e.details ->> 'for_token', custody.is_from_gas(e)) -- a payout that failed in the copy must not be paid any more
  returning * into s;
  if s.fee_payer = treasury then perform app.reserve(e.stream, app.native_token(e.stream), e.max_fee); end if;
  if s.from_gas then perform app.add_gas(e.stream, s.fee_payer, 0, e.max_fee + case e.kind when 'defund' then e.amount else 0 end); end if;
  if e.kind in ('withdraw', 'fund') or p.status in ('swept', 'paying') then perform app.reserve(e.stream, e.token, e.amount); end if;
  if p.status in ('swept', 'paying') then perform app.add_share(p.chain, p.token, p.merchant_id, 0, p.gross); end if;
  return s;
end $function$;

-- The payout of an entry, moved to a status where its payment can be under way. If the copy does not have it, it is made again with a debt of the merchant for its gross.
CREATE OR REPLACE FUNCTION custody.recover_payout(e custody.journal)
 RETURNS app.payout
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
declare p app.payout;
begin
  select * into p from app.payout o where o.id = e.subject_id;
  if p.id is not null then
    update app.payout o set status = 'sweeping' where o.id = p.id and o.status = 'pending';
    update app.payout o set status = 'swept' where o.id = p.id and o.status = 'sweeping';
    select * into p from app.payout o where o.id = p.id;
    return p;
  end if;
  perform custody.recover_merchant(e.merchant_id, (e.details ->> 'fee_bps')::int);
  insert into app.payout (id, merchant_id, chain, token, status, gross, fee_bps, fee, net, address, sweep_first, next_step_at, created_at)
  values (e.subject_id, e.merchant_id, e.stream, e.token, 'swept', (e.details ->> 'gross')::numeric, (e.details ->> 'fee_bps')::int,
    (e.details ->> 'fee')::numeric, e.amount, e.destination, false, null, e.signed_at)
  returning * into p;
  -- Which deposits it claimed is no longer known. So it claims a credit of its gross, and the merchant owes as much.
  perform app.lock_pair(p.merchant_id, p.chain, p.token);
  insert into app.adjustment (merchant_id, chain, token, amount, reason, settlement_id)
  values (p.merchant_id, p.chain, p.token, p.gross, 'payout_recovered', p.id), (p.merchant_id, p.chain, p.token, -p.gross, 'payout_recovered', null);
  insert into app.claim (kind, payout_id, merchant_id, chain, token, cutoff, deposit_count, amount, finished_at)
  values ('claim', p.id, p.merchant_id, p.chain, p.token, 0, 0, 0, clock_timestamp());
  insert into app.balance_delta (merchant_id, chain, token, amount, deposit_count) values (p.merchant_id, p.chain, p.token, -p.gross, 0);
  perform app.post('claim', p.id::text, p.chain, jsonb_build_array(
    jsonb_build_object('account', 'merchant', 'token', p.token, 'merchant_id', p.merchant_id, 'amount', p.gross),
    jsonb_build_object('account', 'payout', 'token', p.token, 'merchant_id', p.merchant_id, 'amount', -p.gross)));
  return p;
end $function$;

-- Refuses to change or delete what custody wrote down.
CREATE OR REPLACE FUNCTION custody.refuse_change()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
begin
  raise exception 'custody: % of % is not allowed', lower(tg_op), tg_table_name using errcode = 'P0003';
end $function$;

-- Reserves the outputs that recovered outgoing payments of a chain spend, by custody's journal, as soon as they are there.
CREATE OR REPLACE FUNCTION custody.reserve_recovered(of_chain text)
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'pg_catalog'
AS $function$
  update app.output u set outgoing_payment_id = r.outgoing_payment_id, from_attempt = r.attempt
  from (select distinct on (i.input) i.input, o.outgoing_payment_id, o.attempt
    from app.outgoing_payment s join app.outgoing_attempt o on o.outgoing_payment_id = s.id join custody.journal j on j.stream = o.chain and j.txid = o.txid
    cross join lateral jsonb_array_elements_text(j.details -> 'inputs') as i (input)
    where s.chain = of_chain and s.recovered and s.status <> 'final' order by i.input, o.attempt) r
  where u.chain = of_chain and u.outgoing_payment_id is null and u.spent_by is null and u.txid || ':' || u.vout = r.input
$function$;

-- Trigger: the conflict key of an entry is its first input, or sender:nonce.
CREATE OR REPLACE FUNCTION custody.set_conflict_key()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
begin
  new.conflict_key := coalesce(new.details #>> '{inputs,0}', new.sender || ':' || new.nonce);
  return new;
end $function$;

-- The id of the sweep of a return, if a sweep of this address was one; null if it was of the merchant's money.
CREATE OR REPLACE FUNCTION custody.swept_for_return(of_chain text, address text, of_token text, of_amount numeric, own_fee numeric)
 RETURNS uuid
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select app.next_return_outgoing_payment(d, 'sweep')
  from app.deposit d left join app.unattributed_decision u on u.deposit_id = d.id
  where not app.uses_outputs(of_chain) and d.chain = of_chain and d.address = swept_for_return.address and d.token = of_token and not d.credited and d.merchant_id is not null
    and d.status = 'final' and d.amount >= of_amount + own_fee and (u.deposit_id is null or u.decision = 'return' and u.sweep_id is null)
    and custody.is_whole(d.amount, of_amount, own_fee)
    -- decided in the copy; or what it moved went on to an address of the operator's
    and (u.deposit_id is not null or exists (select from app.unknown_transaction n cross join lateral custody.moved_by(of_chain, n.txid) m
      join custody.whitelist w on w.chain = of_chain and w.address = m.recipient and w.merchant_id is null
      where n.chain = of_chain and not m.stays and (m.token, m.amount) = (of_token, of_amount)))
  order by u.deposit_id is null, d.created_at, d.id limit 1
$function$;

-- Opens or renews the incident about what custody found wrong with a stream of custody.journal; null closes it.
CREATE OR REPLACE FUNCTION custody.tell_journal(of_stream text, why text)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
begin
  if why is null then
    update app.incident i set resolved_at = clock_timestamp(), resolution = 'healed'
    where i.kind = 'journal_changed' and i.subject = of_stream and i.resolved_at is null;
  else
    insert into app.incident as i (chain, kind, subject, details)
    values ((select c.chain from app.chain c where c.chain = of_stream), 'journal_changed', of_stream, jsonb_build_object('why', why))
    on conflict (subject, kind) where resolved_at is null do update set details = excluded.details where i.details <> excluded.details;
  end if;
end $function$;

-- Takes the lock of the custody that signs; false if another connection has it.
CREATE OR REPLACE FUNCTION custody.try_lock()
 RETURNS boolean
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select pg_try_advisory_lock(hashtextextended('sluice.custody', 0))
$function$;

-- Payouts, withdrawals and returns of a chain that are not done and are to pay exactly this amount (a return: at most what it received) to this address. payment_id: its outgoing payment, if it has one. entry: of custody's journal; null for a return.
CREATE OR REPLACE FUNCTION custody.waiting(of_chain text, of_recipient text, of_token text, of_amount numeric)
 RETURNS TABLE(id uuid, created_at timestamp with time zone, payment_id uuid, name text, entry jsonb)
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select p.id, p.created_at, s.id, 'payout ' || app.public_id('pay', p.id), jsonb_build_object('kind', 'pay', 'subject_id', p.id, 'merchant_id', p.merchant_id,
    'details', jsonb_build_object('gross', p.gross::text, 'fee', p.fee::text, 'fee_bps', p.fee_bps))
  from app.payout p left join app.outgoing_payment s on s.payout_id = p.id and s.kind = 'payout'
  where p.chain = of_chain and p.address = of_recipient and p.token = of_token and p.net = of_amount and p.status not in ('completed', 'failed')
  union all
  select s.id, s.created_at, s.id, 'withdrawal ' || s.id, jsonb_build_object('kind', 'withdraw', 'subject_id', s.id, 'merchant_id', null, 'details', '{}'::jsonb)
  from app.outgoing_payment s
  where s.kind = 'withdrawal' and s.chain = of_chain and s.recipient = of_recipient and s.token = of_token and s.amount = of_amount and s.status <> 'final'
  union all
  select d.id, u.decided_at, null, 'return of ' || app.public_id('dep', d.id), null
  from app.unattributed_decision u join app.deposit d on d.id = u.deposit_id
  where u.decision = 'return' and u.withdrawal_id is null and d.chain = of_chain and d.token = of_token and u.destination = of_recipient and d.amount >= of_amount
$function$;

-- The entry of the oldest payout or withdrawal that waits for exactly this amount at this address, was begun before this time, and that nothing else may pay; null if there is none.
CREATE OR REPLACE FUNCTION custody.waiting_payment(of_chain text, of_recipient text, of_token text, of_amount numeric, block_time timestamp with time zone, key text)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select w.entry from custody.waiting(of_chain, of_recipient, of_token, of_amount) w left join app.outgoing_payment s on s.id = w.payment_id
  where w.entry is not null and w.created_at <= block_time + interval '2 hours'
    and not exists (select from app.attempt_fate f where f.chain = of_chain and f.subject_id = w.id and f.kind in ('pay', 'withdraw') and f.fate <> 'dead')
    and (not custody.is_bound(s) or s.conflict_key = key)
  order by w.created_at, w.id limit 1
$function$;

-- Makes the indexers watch the treasury of a family on each of its chains; custody calls it at its start. Safe to run again.
CREATE OR REPLACE FUNCTION custody.watch_treasury(of_family text)
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  insert into app.address (chain, match_key, address, is_provisioned)
  select c.chain, t.match_key, t.address, false from custody.address t join app.chain c using (family)
  where t.purpose = 'treasury' and t.family = of_family
  on conflict do nothing
$function$;

-- What custody waits for before it signs for the first time on this chain, for operators.
CREATE OR REPLACE FUNCTION custody.why_unproven(u custody.unproven_copy)
 RETURNS text
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select case when k.attempts_exclude_by <> 'expiry' then format(
    'the journal may lack signatures (%s); nothing new is signed until a block made after %s is read, and no incident unknown_transaction of %s is open',
    u.mark, app.iso(u.noted_at), u.chain)
  else format('the journal may lack signatures (%s); nothing new is signed until %s is final, it is %s, and no incident unknown_transaction of %s is open',
    u.mark,
    case when k.ends_by = 'time' then format('a block with the time %s or later', app.iso(u.noted_at + k.longest_lifetime * interval '1 millisecond'))
      when u.start_height is null then format('a block made after %s, and %s blocks after it,', app.iso(u.noted_at), k.longest_lifetime)
      else format('block %s', u.start_height + k.longest_lifetime) end,
    app.iso(u.noted_at + k.longest_lifetime_ms * interval '1 millisecond'), u.chain) end
  from app.chain k where k.chain = u.chain
$function$;

-- The dashboard: members of merchants, invitations, the audit log, and the functions through which its two processes work.
create schema dashboard;

-- Wrong passwords and codes of the last quarter of an hour, and those that are being checked.
create table dashboard.attempt (
  id bigint not null generated always as identity, -- Id.
  subject bytea not null, -- SHA-256 of what was guessed: the password of an e-mail address, known or not, or the code of a person.
  at timestamp with time zone not null default clock_timestamp(), -- When.
  constraint attempt_pkey PRIMARY KEY (id)
);
CREATE INDEX attempt_at ON dashboard.attempt USING btree (at);
CREATE INDEX attempt_subject ON dashboard.attempt USING btree (subject, at);

-- What people did in the dashboard, and attempts to sign in. Only added to; no process can alter it.
create table dashboard.audit_entry (
  id bigint not null generated always as identity, -- Order.
  at timestamp with time zone not null default clock_timestamp(), -- When.
  merchant_id uuid, -- The merchant, which sees it; null if nobody known tried.
  user_id uuid, -- The person; null if not known.
  action text not null, -- What was done, such as api_key.create.
  target text, -- To what: an id as merchants see it, or a chain.
  detail text, -- More about it, such as the label of a key, or a new address.
  ip text, -- Address of the client that signed in.
  outcome text not null default 'done'::text, -- done, or why it was refused.
  constraint audit_entry_pkey PRIMARY KEY (id)
);
CREATE INDEX audit_entry_merchant ON dashboard.audit_entry USING btree (merchant_id, id DESC);
CREATE TRIGGER only_added_to BEFORE DELETE OR UPDATE OR TRUNCATE ON dashboard.audit_entry FOR EACH STATEMENT EXECUTE FUNCTION dashboard.refuse_change();

-- Forms that were sent: each has an id, and the same form sent again changes nothing.
create table dashboard.change_request (
  id uuid not null, -- Id that the form was made with.
  user_id uuid not null, -- The person.
  at timestamp with time zone not null default clock_timestamp(), -- When it was sent.
  constraint change_request_pkey PRIMARY KEY (id),
  constraint change_request_user_id_fkey FOREIGN KEY (user_id) REFERENCES auth."user"(id)
);

-- Links that an operator made (sluice invite): for a new person, or for one who lost a password or a second factor.
create table dashboard.invitation (
  token_hash bytea not null, -- SHA-256 of the secret in the link, which has 256 random bits.
  merchant_id uuid not null, -- The merchant.
  user_id uuid, -- The person who gets a new password and second factor; null for a new person.
  created_at timestamp with time zone not null default clock_timestamp(), -- When it was made.
  expires_at timestamp with time zone not null default (clock_timestamp() + '1 day'::interval), -- When it ends, used or not.
  used_at timestamp with time zone, -- When it was used; null before.
  constraint invitation_pkey PRIMARY KEY (token_hash),
  constraint invitation_merchant_id_fkey FOREIGN KEY (merchant_id) REFERENCES app.merchant(id),
  constraint invitation_token_hash_check CHECK ((octet_length(token_hash) = 32)),
  constraint invitation_user_id_fkey FOREIGN KEY (user_id) REFERENCES auth."user"(id)
);

-- Which merchant a person acts for.
create table dashboard.member (
  user_id uuid not null, -- The person.
  merchant_id uuid not null, -- The merchant. Never changes.
  joined_at timestamp with time zone not null default clock_timestamp(), -- When the invitation was accepted.
  constraint member_pkey PRIMARY KEY (user_id),
  constraint member_merchant_id_fkey FOREIGN KEY (merchant_id) REFERENCES app.merchant(id),
  constraint member_user_id_fkey FOREIGN KEY (user_id) REFERENCES auth."user"(id)
);
CREATE INDEX member_merchant ON dashboard.member USING btree (merchant_id);

-- Codes of authenticators that were used: none is accepted twice (RFC 6238, 5.2).
create table dashboard.used_code (
  user_id uuid not null, -- The person.
  step bigint not null, -- The half minute of the code, counted from 1970.
  constraint used_code_pkey PRIMARY KEY (user_id, step),
  constraint used_code_user_id_fkey FOREIGN KEY (user_id) REFERENCES auth."user"(id)
);

-- Uses an invitation: makes the person, with this name, e-mail address and hashed password; or gives the person of a reset this password. Returns the person.
CREATE OR REPLACE FUNCTION dashboard.accept_invitation(of_token_hash bytea, of_name text, of_email text, password_hash text, from_ip text)
 RETURNS uuid
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare invitation record; person uuid;
begin
  select * into invitation from dashboard.invitation v where v.token_hash = of_token_hash for update;
  if not found then raise exception 'there is no such invitation' using errcode = 'SL404', detail = 'invitation'; end if;
  if invitation.used_at is not null or invitation.expires_at <= clock_timestamp() then
    raise exception 'this invitation was used, or is too old' using errcode = 'SL410';
  end if;
  person := invitation.user_id;
  if person is null then
    perform app.require_clear_name('The name', of_name);
    insert into auth."user" (name, email, "emailVerified") values (of_name, lower(of_email), true) on conflict (email) do nothing returning id into person;
    if not found then raise exception 'This e-mail address is taken. Please use another one.' using errcode = 'SL422'; end if;
    insert into auth.account ("accountId", "providerId", "userId", password) values (person, 'credential', person, password_hash);
    insert into dashboard.member (user_id, merchant_id) values (person, invitation.merchant_id);
  else
    perform from auth."user" u where u.id = person for update;
    update auth.account a set password = password_hash, "updatedAt" = clock_timestamp() where a."userId" = person and a."providerId" = 'credential';
    delete from auth.authenticator a where a.user_id = person;
    delete from auth.recovery_code c where c.user_id = person;
    delete from auth.passkey p where p."userId" = person;
    delete from auth.session s where s."userId" = person;
  end if;
  update dashboard.invitation v set used_at = clock_timestamp()
  where v.token_hash = of_token_hash or (v.user_id = person and v.used_at is null); -- links for one reset are no links for the next
  perform dashboard.record(person, case when invitation.user_id is null then 'invitation.accept' else 'reset.accept' end, from_ip);
  return person;
end $function$;

-- All keys, those that work first, the newest first.
CREATE OR REPLACE FUNCTION dashboard.api_keys(token text)
 RETURNS json
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare merchant uuid := dashboard.merchant_of(token);
begin
  return (select coalesce(json_agg(json_build_object('id', app.public_id('key', k.id), 'label', k.label, 'scopes', k.scopes,
      'created_at', app.iso(k.created_at), 'last_used_on', k.last_used_on, 'revoked_at', app.iso(k.revoked_at))
      order by k.revoked_at is not null, k.id desc), '[]')
    from app.api_key k where k.merchant_id = merchant);
end $function$;

-- A page of the merchant's entries of the audit log, the newest first.
CREATE OR REPLACE FUNCTION dashboard.audit_log(token text, before text, size integer)
 RETURNS json
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare merchant uuid := dashboard.merchant_of(token);
begin
  return (select dashboard.page(array_agg(json_build_object('at', app.iso(e.at), 'person', u.email, 'action', e.action, 'target', e.target,
      'detail', e.detail, 'ip', e.ip, 'outcome', e.outcome) order by e.id desc), array_agg(e.id::text order by e.id desc), size)
    from (select * from dashboard.audit_entry o where o.merchant_id = merchant and o.id < least(before::numeric, 9223372036854775807)::bigint
      order by o.id desc limit size + 1) e
    left join auth."user" u on u.id = e.user_id);
end $function$;

-- The balance of a chain and token; null if there is none.
CREATE OR REPLACE FUNCTION dashboard.balance(token text, of_chain text, of_token text)
 RETURNS json
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare merchant uuid := dashboard.merchant_of(token);
begin
  return (select dashboard.balance_item(b) from app.merchant_balance b where b.merchant_id = merchant and b.chain = of_chain and b.token = of_token);
end $function$;

-- A balance, and why it cannot be paid out now; null if it can. Only app.create_payout decides.
CREATE OR REPLACE FUNCTION dashboard.balance_item(b app.merchant_balance)
 RETURNS json
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select json_build_object('chain', b.chain, 'token', b.token, 'gross', app.decimal(b.gross, a.decimals), 'fee', app.decimal(b.fee, a.decimals),
    'net', app.decimal(b.net, a.decimals), 'held_back', app.decimal(b.held_back, a.decimals),
    'why_held_back', app.why_held_back(b.merchant_id, b.chain, b.token, b.held_back), 'deposit_count', b.deposit_count, 'has_address', d.exists,
    'refusal', case
      when m.suspended_at is not null then 'The operator has suspended this account'
      when b.net < 0 then 'The balance is below zero'
      when b.gross = 0 then 'There is nothing to pay out'
      when b.gross = b.held_back then app.why_held_back(b.merchant_id, b.chain, b.token, b.held_back)
      when b.net < a.min_payout then 'Below the smallest payout (' || app.decimal(a.min_payout, a.decimals) || ' ' || b.token || ')'
      when not d.exists then 'Register a payout address first'
      when app.why_halted(b.chain) is not null then 'Payouts of ' || b.chain || ' are stopped at the moment' end)
  from app.asset a, (select exists (select from app.payout_address p where p.merchant_id = b.merchant_id and p.chain = b.chain)) d
  join app.merchant m on m.id = b.merchant_id
  where a.chain = b.chain and a.token = b.token
$function$;

-- Counts an attempt to guess a password or a code, before it is checked. Returns its id; null after ten wrong ones within 15 minutes.
CREATE OR REPLACE FUNCTION dashboard.begin_attempt(of_subject text)
 RETURNS bigint
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare hashed bytea := sha256(convert_to(of_subject, 'UTF8')); attempt bigint;
begin
  perform pg_advisory_xact_lock(hashtextextended('dashboard.attempt ' || of_subject, 0));
  delete from dashboard.attempt a where a.at < clock_timestamp() - interval '15 minutes';
  if (select count(*) from dashboard.attempt a where a.subject = hashed) >= 10 then return null; end if;
  insert into dashboard.attempt (subject) values (hashed) returning id into attempt;
  return attempt;
end $function$;

-- Takes the id of a form, once; returns who sent it, for dashboard.note.
CREATE OR REPLACE FUNCTION dashboard.begin_change(token text, request uuid)
 RETURNS dashboard.audit_entry
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
declare
  who record;
  entry dashboard.audit_entry;
begin
  select * into who from dashboard.person(begin_change.token);
  insert into dashboard.change_request (id, user_id) values (request, who.user_id) on conflict do nothing;
  if not found then raise exception 'this form was sent already' using errcode = 'SLDUP'; end if;
  entry.merchant_id := who.merchant_id;
  entry.user_id := who.user_id;
  entry.ip := who.ip;
  return entry;
end $function$;

-- Cancels a payout, until its payment has begun.
CREATE OR REPLACE FUNCTION dashboard.cancel_payout(token text, request uuid, public_id text)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare who dashboard.audit_entry := dashboard.begin_change(token, request);
begin
  perform app.cancel_payout(who.merchant_id, dashboard.uuid_of('pay', public_id));
  perform dashboard.note(who, 'payout.cancel', public_id);
end $function$;

-- Changes the password of the person of a session. The session gets another token; all others of the person end.
CREATE OR REPLACE FUNCTION dashboard.change_password(old_token text, new_token text, password_hash text)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare person uuid := dashboard.lock_second_factors(old_token);
begin
  update auth.account a set password = password_hash, "updatedAt" = clock_timestamp() where a."userId" = person and a."providerId" = 'credential';
  delete from auth.session s where s."userId" = person and s.token <> old_token;
  update auth.session s set token = new_token, "updatedAt" = clock_timestamp() where s.token = old_token;
  if not found then raise exception 'this session has ended' using errcode = 'SLAUT'; end if;
end $function$;

-- Makes a key from the SHA-256 of its secret; returns its id.
CREATE OR REPLACE FUNCTION dashboard.create_api_key(token text, request uuid, secret_hash bytea, label text, scopes text[])
 RETURNS json
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare
  who dashboard.audit_entry := dashboard.begin_change(token, request);
  key uuid;
begin
  perform dashboard.require_full_rights(token);
  key := app.create_api_key(who.merchant_id, secret_hash, nullif(label, ''), scopes);
  perform dashboard.note(who, 'api_key.create', app.public_id('key', key), nullif(label, ''));
  return json_build_object('id', app.public_id('key', key));
end $function$;

-- Pays out a balance to the address that the person saw, if it is still the registered one; returns the id of the payout.
CREATE OR REPLACE FUNCTION dashboard.create_payout(token text, request uuid, of_chain text, of_token text, sweep_first boolean, shown_address text)
 RETURNS json
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare
  who dashboard.audit_entry := dashboard.begin_change(token, request);
  present text;
  made json;
begin
  perform dashboard.require_full_rights(token);
  select p.address into present from app.payout_address p where p.merchant_id = who.merchant_id and p.chain = of_chain for share;
  if present is distinct from shown_address then
    raise exception 'the payout address of % is another one now; nothing is paid before you have seen it', of_chain using errcode = 'SL422';
  end if;
  made := app.create_payout(who.merchant_id, of_chain, of_token, sweep_first, null, null);
  perform dashboard.note(who, 'payout.create', made ->> 'id', (made ->> 'net') || ' ' || of_token || ' on ' || of_chain);
  return json_build_object('id', made ->> 'id');
end $function$;

-- Makes an endpoint; returns its id, and its secret, which is shown once.
CREATE OR REPLACE FUNCTION dashboard.create_webhook_endpoint(token text, request uuid, url text, event_types text[])
 RETURNS json
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare
  who dashboard.audit_entry := dashboard.begin_change(token, request);
  made record;
begin
  perform dashboard.require_full_rights(token);
  select * into made from app.create_webhook_endpoint(who.merchant_id, url, event_types);
  perform dashboard.note(who, 'webhook_endpoint.create', app.public_id('whe', made.id), url);
  return json_build_object('id', app.public_id('whe', made.id), 'secret', made.secret);
end $function$;

-- Deletes an endpoint: nothing more is sent to it.
CREATE OR REPLACE FUNCTION dashboard.delete_webhook_endpoint(token text, request uuid, public_id text)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare who dashboard.audit_entry := dashboard.begin_change(token, request);
begin
  perform app.delete_webhook_endpoint(who.merchant_id, dashboard.uuid_of('whe', public_id));
  perform dashboard.note(who, 'webhook_endpoint.delete', public_id);
end $function$;

-- A page of the deliveries to an endpoint, the newest first.
CREATE OR REPLACE FUNCTION dashboard.deliveries(token text, endpoint text, of_status text, before text, size integer)
 RETURNS json
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare
  own app.webhook_endpoint := dashboard.own_endpoint(token, endpoint);
  below uuid := coalesce(dashboard.uuid_of('dlv', before), 'ffffffff-ffff-ffff-ffff-ffffffffffff');
begin
  return (select dashboard.page(array_agg(dashboard.delivery_item(d) order by d.id desc), array_agg(app.public_id('dlv', d.id) order by d.id desc), size)
    from (select * from app.delivery o where o.endpoint_id = own.id and o.id < below and coalesce(o.status = of_status, true)
      order by o.id desc limit size + 1) d);
end $function$;

-- A delivery with the body that is sent, and every attempt.
CREATE OR REPLACE FUNCTION dashboard.delivery(token text, endpoint text, public_id text)
 RETURNS json
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare
  own app.webhook_endpoint := dashboard.own_endpoint(token, endpoint);
  d app.delivery;
begin
  select * into d from app.delivery o where o.id = dashboard.uuid_of('dlv', public_id) and o.endpoint_id = own.id;
  if d.id is null then raise exception 'there is no delivery with this id' using errcode = 'SL404', detail = 'webhook_delivery'; end if;
  return dashboard.delivery_item(d)::jsonb || jsonb_build_object(
    'body', (select coalesce(app.event_body(e.payload, e.sequence), e.payload::text) from app.event e where e.id = d.event_id),
    'tries', (select coalesce(jsonb_agg(jsonb_build_object('attempted_at', app.iso(a.attempted_at), 'duration_ms', a.duration_ms,
        'response_status', a.response_status, 'error', a.error) order by a.id desc), '[]')
      from app.delivery_attempt a where a.delivery_id = d.id));
end $function$;

-- A delivery, with its last attempt. attempts: all of them, also those before it was sent again.
CREATE OR REPLACE FUNCTION dashboard.delivery_item(d app.delivery)
 RETURNS json
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select json_build_object('id', app.public_id('dlv', d.id), 'endpoint_id', app.public_id('whe', w.id), 'endpoint_url', w.url, 'endpoint_deleted', w.deleted_at is not null,
    'event_id', app.event_id(e.id, e.is_test), 'event_type', e.type, 'status', d.status, 'created_at', app.iso(d.created_at),
    'next_attempt_at', app.iso(d.next_attempt_at), 'finished_at', app.iso(d.finished_at),
    'attempts', (select count(*) from app.delivery_attempt a where a.delivery_id = d.id),
    'response_status', t.response_status, 'error', t.error)
  from app.webhook_endpoint w join app.event e on e.id = d.event_id
  left join lateral (select * from app.delivery_attempt a where a.delivery_id = d.id order by a.id desc limit 1) t on true
  where w.id = d.endpoint_id
$function$;

-- A deposit, the payout that collected it, and what its merchant was notified of.
CREATE OR REPLACE FUNCTION dashboard.deposit(token text, public_id text)
 RETURNS json
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare
  merchant uuid := dashboard.merchant_of(token);
  d app.deposit;
begin
  select * into d from app.deposit o
  where o.id = dashboard.uuid_of('dep', public_id) and o.merchant_id = merchant and o.credited and o.user_id is not null;
  if d.id is null then raise exception 'there is no deposit with this id' using errcode = 'SL404', detail = 'deposit'; end if;
  return dashboard.deposit_item(d)::jsonb || jsonb_build_object('output_index', d.output_index, 'block_height', d.block_height,
    'finalised_at', app.iso(d.finalised_at), 'events', dashboard.events_of(d.id), 'held_back', app.held_back_of(d),
    'payout', (select jsonb_build_object('id', app.public_id('pay', p.id), 'status', p.status, 'created_at', app.iso(p.created_at))
      from app.payout p where p.id = d.settlement_id));
end $function$;

-- A deposit of a user, as a list shows it.
CREATE OR REPLACE FUNCTION dashboard.deposit_item(d app.deposit)
 RETURNS json
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select json_build_object('id', app.public_id('dep', d.id), 'chain', d.chain, 'token', d.token, 'amount', app.decimal(d.amount, a.decimals),
    'status', d.status, 'confirmations', app.deposit_confirmations(d.status, d.block_height, c.head_height), 'txid', d.txid, 'sender', d.sender,
    'address', d.address, 'user_id', app.public_id('usr', u.id), 'external_ref', u.external_ref, 'created_at', app.iso(d.created_at))
  from app.asset a join app.user u on u.id = d.user_id left join chain.cursor c on c.chain = d.chain
  where a.chain = d.chain and a.token = d.token
$function$;

-- A page of the deposits of users, the newest first; null leaves a filter out. before: where the page begins.
CREATE OR REPLACE FUNCTION dashboard.deposits(token text, of_status text, of_chain text, of_user text, before text, size integer)
 RETURNS json
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare
  merchant uuid := dashboard.merchant_of(token);
  owner uuid := case when of_user is not null then dashboard.own_user(merchant, of_user) end;
  below numeric := coalesce(before::numeric, 2::numeric ^ 127);
begin
  if owner is not null then
    return (select dashboard.page(array_agg(dashboard.deposit_item(d) order by d.position desc), array_agg(d.position::text order by d.position desc), size)
      from (select p.* from app.asset a cross join unnest('{pending,final,reorged}'::text[]) s (status)
        cross join lateral (select * from app.deposit o where o.user_id = owner and o.chain = a.chain and o.token = a.token and o.status = s.status
          and o.credited and o.position < below order by o.position desc limit size + 1) p
        where coalesce(s.status = of_status, true) and coalesce(a.chain = of_chain, true) order by p.position desc limit size + 1) d);
  elsif of_status is null and of_chain is null then
    return (select dashboard.page(array_agg(dashboard.deposit_item(d) order by d.position desc), array_agg(d.position::text order by d.position desc), size)
      from (select * from app.deposit o where o.merchant_id = merchant and o.credited and o.user_id is not null and o.position < below
        order by o.position desc limit size + 1) d);
  end if;
  return (select dashboard.page(array_agg(dashboard.deposit_item(d) order by d.position desc), array_agg(d.position::text order by d.position desc), size)
    from (select p.* from app.asset a cross join unnest('{pending,final,reorged}'::text[]) s (status)
      cross join lateral (select * from app.deposit o where o.merchant_id = merchant and o.chain = a.chain and o.token = a.token and o.status = s.status
        and o.credited and o.user_id is not null and o.position < below order by o.position desc limit size + 1) p
      where coalesce(s.status = of_status, true) and coalesce(a.chain = of_chain, true) order by p.position desc limit size + 1) d);
end $function$;

-- An endpoint, what became of its deliveries of the last day, and whether anything was sent to it: of the newest thousand at most.
CREATE OR REPLACE FUNCTION dashboard.endpoint_item(w app.webhook_endpoint)
 RETURNS json
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select json_build_object('id', app.public_id('whe', w.id), 'url', w.url, 'event_types', w.event_types, 'created_at', app.iso(w.created_at),
    'disabled_at', app.iso(w.disabled_at), 'disabled_reason', w.disabled_reason, 'failing_since', app.iso(w.failing_since),
    'previous_secret_expires_at', app.iso(case when w.previous_secret_expires_at > now() then w.previous_secret_expires_at end),
    'delivered', d.delivered, 'failed', d.failed, 'pending', d.pending, 'was_tried', exists (
      select from (select o.attempts from app.delivery o where o.endpoint_id = w.id order by o.id desc limit 1000) n where n.attempts > 0))
  from (select count(*) filter (where n.status = 'delivered') as delivered, count(*) filter (where n.status = 'failed') as failed,
      count(*) filter (where n.status = 'pending') as pending
    from (select o.status from app.delivery o where o.endpoint_id = w.id and o.id >= app.uuid_at(now() - interval '1 day')
      order by o.id desc limit 1000) n) d
$function$;

-- All endpoints of a merchant.
CREATE OR REPLACE FUNCTION dashboard.endpoints_of(merchant uuid)
 RETURNS json
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select coalesce(json_agg(dashboard.endpoint_item(w) order by w.id desc), '[]')
  from app.webhook_endpoint w where w.merchant_id = merchant and w.deleted_at is null
$function$;

-- The events of a deposit or a payout, with their deliveries.
CREATE OR REPLACE FUNCTION dashboard.events_of(subject uuid)
 RETURNS json
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select coalesce(json_agg(json_build_object('id', app.event_id(e.id, false), 'type', e.type, 'created_at', app.iso(e.created_at),
    'deliveries', (select coalesce(json_agg(dashboard.delivery_item(d) order by d.id), '[]')
      from app.webhook_endpoint w join app.delivery d on d.endpoint_id = w.id and d.event_id = e.id
        and d.id between app.uuid_at(e.created_at - interval '1 minute') and app.uuid_at(e.created_at + interval '1 minute')
      where w.merchant_id = e.merchant_id)) order by e.version), '[]')
  from app.event e where e.subject_id = subject and not e.is_test
$function$;

-- An invitation by the SHA-256 of its secret: open, used or old; its merchant; the e-mail address of the person, if it is a reset. Nulls if there is none.
CREATE OR REPLACE FUNCTION dashboard.find_invitation(of_token_hash bytea, OUT state text, OUT merchant text, OUT email text)
 RETURNS record
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select case when v.used_at is not null then 'used' when v.expires_at <= clock_timestamp() then 'old' else 'open' end, m.name, u.email
  from dashboard.invitation v join app.merchant m on m.id = v.merchant_id left join auth."user" u on u.id = v.user_id
  where v.token_hash = of_token_hash
$function$;

-- The attempt was right, so it does not count. Wrong ones before it still do.
CREATE OR REPLACE FUNCTION dashboard.forget_attempt(of_attempt bigint)
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  delete from dashboard.attempt a where a.id = of_attempt
$function$;

-- Whether there is any payment request: what is paid for one is in the balance, and no deposit of a user.
CREATE OR REPLACE FUNCTION dashboard.has_payment_requests(token text)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare merchant uuid := dashboard.merchant_of(token);
begin
  return exists (select from app.payment_request r where r.merchant_id = merchant);
end $function$;

-- Stores the SHA-256 of the secret of a link for a new person of a merchant, or, with of_email, for one who gets a new password and second factor. Returns when it ends.
CREATE OR REPLACE FUNCTION dashboard.invite(of_merchant uuid, of_token_hash bytea, of_email text DEFAULT NULL::text)
 RETURNS timestamp with time zone
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare person uuid; merchant uuid; expires timestamptz;
begin
  perform from app.merchant m where m.id = of_merchant;
  if not found then raise exception 'there is no merchant with this id' using errcode = 'SL404', detail = 'merchant'; end if;
  if of_email is not null then
    select u.id, b.merchant_id into person, merchant from auth."user" u join dashboard.member b on b.user_id = u.id where u.email = lower(of_email);
    if not found then raise exception 'nobody signs in with this e-mail address' using errcode = 'SL404', detail = 'person'; end if;
    if merchant <> of_merchant then raise exception 'this e-mail address belongs to another merchant' using errcode = 'SL422'; end if;
  end if;
  insert into dashboard.invitation (token_hash, merchant_id, user_id) values (of_token_hash, of_merchant, person) returning expires_at into expires;
  insert into dashboard.audit_entry (merchant_id, user_id, action, detail)
  values (of_merchant, person, case when person is null then 'invitation.create' else 'reset.create' end, 'by the operator');
  return expires;
end $function$;

-- Trigger: a session that is used all the time ends a week after the person signed in.
CREATE OR REPLACE FUNCTION dashboard.limit_session()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
begin
  new."expiresAt" := least(new."expiresAt", new."createdAt" + interval '7 days');
  return new;
end $function$;

-- The person of a session that may change second factors and the password: none is set up yet, or one was shown within ten minutes. Locks the person.
CREATE OR REPLACE FUNCTION dashboard.lock_second_factors(of_token text)
 RETURNS uuid
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare person uuid; shown timestamptz; factors record;
begin
  select s."userId", s."secondFactorAt" into person, shown from auth.session s where s.token = of_token and s."expiresAt" > clock_timestamp();
  if not found then raise exception 'this session has ended' using errcode = 'SLAUT'; end if;
  perform from auth."user" u where u.id = person for update;
  select * into factors from dashboard.second_factors(person);
  if (factors.has_authenticator or factors.passkeys > 0) and (shown is null or shown < clock_timestamp() - interval '10 minutes') then
    raise exception 'the second factor has to be shown again' using errcode = 'SLSTP';
  end if;
  return person;
end $function$;

-- The person of a session, and the merchant.
CREATE OR REPLACE FUNCTION dashboard.me(token text)
 RETURNS json
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select json_build_object('email', u.email, 'name', u.name, 'merchant_name', m.name, 'merchant_prefix', m.prefix, 'fee_bps', m.fee_bps,
    'suspended', m.suspended_at is not null, 'is_fresh', p.is_fresh,
    'chains', array(select c.chain from app.merchant_chain c where c.merchant_id = m.id and c.enabled order by c.chain))
  from dashboard.person(me.token) p join auth."user" u on u.id = p.user_id join app.merchant m on m.id = p.merchant_id
$function$;

-- The name of the merchant that a person acts for.
CREATE OR REPLACE FUNCTION dashboard.merchant_name(of_user uuid)
 RETURNS text
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select m.name from dashboard.member b join app.merchant m on m.id = b.merchant_id where b.user_id = of_user
$function$;

-- The merchant of a live session; raises SLAUT if there is none.
CREATE OR REPLACE FUNCTION dashboard.merchant_of(token text)
 RETURNS uuid
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select p.merchant_id from dashboard.person(merchant_of.token) p
$function$;

-- For each of these sessions that lives, a text that changes whenever its pages have something new to show.
CREATE OR REPLACE FUNCTION dashboard.news(tokens text[])
 RETURNS TABLE(token text, news text)
 LANGUAGE sql
 STABLE SECURITY DEFINER ROWS 100
 SET search_path TO 'pg_catalog'
AS $function$
  with session as materialized (
    select s.token, m.merchant_id from auth.session s join dashboard.member m on m.user_id = s."userId"
    where s.token = any(tokens) and s."expiresAt" > now() and s."secondFactorAt" is not null
  )
  select s.token, n.news
  from (select distinct merchant_id from session) o
  cross join lateral (select concat_ws(' ',
    (select e.sequence from app.event e where e.merchant_id = o.merchant_id and e.sequence is not null and not e.is_test order by e.sequence desc limit 1),
    (select max(greatest(p.created_at, p.sweeping_at, p.swept_at, p.paying_at, p.waiting_since))
      from unnest('{pending,sweeping,swept,paying}'::text[]) t (status) join app.payout p on p.merchant_id = o.merchant_id and p.status = t.status),
    (select string_agg(c.id || ':' || c.done_count, ' ' order by c.id) from app.claim c where c.merchant_id = o.merchant_id and c.finished_at is null),
    case when exists (select from app.asset a join app.deposit d on d.merchant_id = o.merchant_id and d.chain = a.chain and d.token = a.token
      and d.status = 'pending' and d.credited and d.user_id is not null) then floor(extract(epoch from now()) / 4) end) as news) n
  join session s using (merchant_id)
$function$;

-- Adds a change to the audit log, in the transaction that makes it.
CREATE OR REPLACE FUNCTION dashboard.note(who dashboard.audit_entry, action text, target text, detail text DEFAULT NULL::text)
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'pg_catalog'
AS $function$
  insert into dashboard.audit_entry (merchant_id, user_id, ip, action, target, detail)
  values (who.merchant_id, who.user_id, who.ip, note.action, note.target, note.detail)
$function$;

-- Balances, the newest deposits, payouts under way, endpoints, and what is still missing.
CREATE OR REPLACE FUNCTION dashboard.overview(token text)
 RETURNS json
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare merchant uuid := dashboard.merchant_of(token);
begin
  return json_build_object(
    'balances', (select coalesce(json_agg(dashboard.balance_item(b) order by b.chain, b.token), '[]') from app.merchant_balance b where b.merchant_id = merchant),
    'deposits', dashboard.deposits(token, null, null, null, null, 8) -> 'items',
    'payouts', dashboard.payouts_of(merchant, '{pending,sweeping,swept,paying}', null, null, 8) -> 'items',
    'endpoints', dashboard.endpoints_of(merchant),
    'has_keys', exists (select from app.api_key k where k.merchant_id = merchant and k.revoked_at is null),
    'has_users', exists (select from app.user u where u.merchant_id = merchant),
    'has_addresses', exists (select from app.payout_address a where a.merchant_id = merchant),
    'has_whitelisted', exists (select from app.payout_address_state a where a.merchant_id = merchant and a.whitelisted),
    'has_payment_requests', dashboard.has_payment_requests(token));
end $function$;

-- An address of ours on the chain, which shows the network that a new payout address must be of; null before custody has made one.
CREATE OR REPLACE FUNCTION dashboard.own_address(token text, of_chain text)
 RETURNS text
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
begin
  perform dashboard.merchant_of(token);
  return (select c.address from custody.address c where c.purpose = 'treasury' and c.family = (select f.family from app.chain f where f.chain = of_chain));
end $function$;

-- The endpoint with this id; raises SL404 if the merchant has none.
CREATE OR REPLACE FUNCTION dashboard.own_endpoint(token text, public_id text)
 RETURNS app.webhook_endpoint
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
declare
  merchant uuid := dashboard.merchant_of(token);
  own app.webhook_endpoint;
begin
  select * into own from app.webhook_endpoint w
  where w.id = dashboard.uuid_of('whe', public_id) and w.merchant_id = merchant and w.deleted_at is null;
  if own.id is null then
    raise exception 'there is no webhook endpoint with this id' using errcode = 'SL404', detail = 'webhook_endpoint';
  end if;
  return own;
end $function$;

-- The payout of this merchant with this id; raises SL404 if there is none.
CREATE OR REPLACE FUNCTION dashboard.own_payout(merchant uuid, public_id text)
 RETURNS app.payout
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
declare p app.payout;
begin
  select * into p from app.payout o where o.id = dashboard.uuid_of('pay', public_id) and o.merchant_id = merchant;
  if p.id is null then raise exception 'there is no payout with this id' using errcode = 'SL404', detail = 'payout'; end if;
  return p;
end $function$;

-- The user of this merchant with this id; raises SL404 if there is none.
CREATE OR REPLACE FUNCTION dashboard.own_user(merchant uuid, public_id text)
 RETURNS uuid
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
declare own uuid;
begin
  select u.id into own from app.user u where u.id = dashboard.uuid_of('usr', public_id) and u.merchant_id = merchant;
  if own is null then raise exception 'there is no user with this id' using errcode = 'SL404', detail = 'user'; end if;
  return own;
end $function$;

-- A page of a list, from one item more than it has: the items, and where the next page begins; null on the last one.
CREATE OR REPLACE FUNCTION dashboard.page(items json[], positions text[], size integer)
 RETURNS json
 LANGUAGE sql
 IMMUTABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select json_build_object('items', coalesce(array_to_json(items[:size]), '[]'), 'next', case when cardinality(items) > size then positions[size] end)
$function$;

-- How much of a new payment request may be missing, in basis points.
CREATE OR REPLACE FUNCTION dashboard.payment_tolerance(token text)
 RETURNS integer
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select m.payment_tolerance_bps from app.merchant m where m.id = dashboard.merchant_of(payment_tolerance.token)
$function$;

-- A payout, when each step began, and what its merchant was notified of.
CREATE OR REPLACE FUNCTION dashboard.payout(token text, public_id text)
 RETURNS json
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare
  p app.payout := dashboard.own_payout(dashboard.merchant_of(token), public_id);
  claimed app.claim;
begin
  select * into claimed from app.claim c where c.payout_id = p.id and c.kind = 'claim';
  return dashboard.payout_item(p)::jsonb || jsonb_build_object('fee_bps', p.fee_bps, 'sweep_first', p.sweep_first,
    'deposit_count', claimed.deposit_count, 'collected_count', case when claimed.finished_at is null then claimed.done_count end,
    'sweeping_at', app.iso(p.sweeping_at), 'swept_at', app.iso(p.swept_at), 'paying_at', app.iso(p.paying_at),
    'finished_at', app.iso(p.finished_at), 'events', dashboard.events_of(p.id));
end $function$;

-- Where payouts of each enabled chain go, of other chains that have an address, too, and the state of the whitelist.
CREATE OR REPLACE FUNCTION dashboard.payout_addresses(token text)
 RETURNS json
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select coalesce(json_agg(json_build_object('chain', coalesce(c.chain, p.chain), 'address', p.address, 'updated_at', app.iso(p.updated_at),
    'active_at', app.iso(p.whitelisted_at),
    'whitelist', case when p.address is null then null when p.whitelisted then 'active' when p.whitelisted_at is null then 'missing' else 'waiting' end)
    order by coalesce(c.chain, p.chain)), '[]')
  from (select m.chain from app.merchant_chain m where m.merchant_id = dashboard.merchant_of(payout_addresses.token) and m.enabled) c
  full join (select * from app.payout_address_state a where a.merchant_id = dashboard.merchant_of(payout_addresses.token)) p on p.chain = c.chain
$function$;

-- A payout, as a list shows it.
CREATE OR REPLACE FUNCTION dashboard.payout_item(p app.payout)
 RETURNS json
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select json_build_object('id', app.public_id('pay', p.id), 'status', p.status, 'chain', p.chain, 'token', p.token,
    'gross', app.decimal(p.gross, a.decimals), 'fee', app.decimal(p.fee, a.decimals), 'net', app.decimal(p.net, a.decimals),
    'address', p.address, 'txid', p.txid, 'created_at', app.iso(p.created_at), 'waiting', dashboard.payout_waiting(p),
    'is_cancellable', app.is_cancellable(p),
    'error', case when p.error_code is not null then json_build_object('code', p.error_code, 'message', p.error_message) end)
  from app.asset a where a.chain = p.chain and a.token = p.token
$function$;

-- A page of what a payout is made of, as far as it has collected that: adjustments, then its deposits, the newest first. Nothing if it failed.
CREATE OR REPLACE FUNCTION dashboard.payout_parts(token text, public_id text, before text, size integer)
 RETURNS json
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare p app.payout := dashboard.own_payout(dashboard.merchant_of(token), public_id);
begin
  return (select dashboard.page(array_agg(json_build_object('type', t.type, 'amount', app.decimal(t.amount, a.decimals), 'reason', t.reason,
      'deposit_id', case when d.user_id is not null then app.public_id('dep', d.id) end, 'status', t.status, 'txid', d.txid,
      'user_id', app.public_id('usr', d.user_id), 'external_ref', u.external_ref, 'external_id', r.external_id, 'created_at', app.iso(t.created_at))
      order by t.place desc), array_agg(t.place::text order by t.place desc), size)
    from (select * from app.payout_parts(case when p.status <> 'failed' then p.id end, least(before::numeric, 9223372036854775807)::bigint, size + 1)
      order by place desc limit size + 1) t
    join app.asset a on a.chain = p.chain and a.token = p.token left join app.deposit d on d.id = t.deposit_id
    left join app.user u on u.id = d.user_id left join app.payment_request r on r.id = d.payment_request_id);
end $function$;

-- Why a payout waits; if it waits for the whitelist, and the operator has put its address there, from when on that counts. Null if nothing is in its way.
CREATE OR REPLACE FUNCTION dashboard.payout_waiting(p app.payout)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select w.waiting || jsonb_build_object('whitelisted_at', (select app.iso(l.active_at) from custody.whitelist l
    where w.waiting ->> 'code' = 'address_not_whitelisted' and l.merchant_id = p.merchant_id and l.chain = p.chain and l.address = p.address
      and l.removed_at is null))
  from (select app.payout_waiting(p)::jsonb as waiting) w
$function$;

-- A page of the payouts, the newest first; null leaves a filter out.
CREATE OR REPLACE FUNCTION dashboard.payouts(token text, of_status text, of_chain text, before text, size integer)
 RETURNS json
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select dashboard.payouts_of(dashboard.merchant_of(payouts.token),
    case when of_status is null then '{pending,sweeping,swept,paying,completed,failed}'::text[] else array[of_status] end, of_chain, before, size)
$function$;

-- A page of a merchant's payouts of these statuses, the newest first.
CREATE OR REPLACE FUNCTION dashboard.payouts_of(merchant uuid, statuses text[], of_chain text, before text, size integer)
 RETURNS json
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select dashboard.page(array_agg(dashboard.payout_item(p) order by p.seq desc), array_agg(p.seq::text order by p.seq desc), size)
  from (select r.* from unnest(statuses) s (status) cross join app.asset a
    cross join lateral (select * from app.payout o where o.merchant_id = merchant and o.status = s.status and o.chain = a.chain and o.token = a.token
      and o.seq < least(before::numeric, 9223372036854775807)::bigint order by o.seq desc limit size + 1) r
    where coalesce(a.chain = of_chain, true) order by r.seq desc limit size + 1) p
$function$;

-- The person and the merchant of a live session, where the person signed in, and whether the second factor was shown within ten minutes; raises SLAUT if there is none.
CREATE OR REPLACE FUNCTION dashboard.person(token text, OUT user_id uuid, OUT merchant_id uuid, OUT ip text, OUT is_fresh boolean)
 RETURNS record
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
begin
  select m.user_id, m.merchant_id, s."ipAddress", s."secondFactorAt" > now() - interval '10 minutes'
  into user_id, merchant_id, ip, is_fresh
  from auth.session s join dashboard.member m on m.user_id = s."userId"
  where s.token = person.token and s."expiresAt" > now() and s."secondFactorAt" is not null;
  if not found then raise exception 'sign in, and show a second factor' using errcode = 'SLAUT'; end if;
end $function$;

-- Adds an entry to the audit log, for the merchant of the person; of_outcome is done, or why it was refused.
CREATE OR REPLACE FUNCTION dashboard.record(of_user uuid, of_action text, from_ip text, of_outcome text DEFAULT 'done'::text, of_target text DEFAULT NULL::text)
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  insert into dashboard.audit_entry (merchant_id, user_id, action, target, ip, outcome)
  values ((select b.merchant_id from dashboard.member b where b.user_id = of_user), of_user, of_action, of_target, from_ip, of_outcome)
$function$;

-- Sends an event to an endpoint again.
CREATE OR REPLACE FUNCTION dashboard.redeliver(token text, request uuid, endpoint text, delivery text)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare who dashboard.audit_entry := dashboard.begin_change(token, request);
begin
  perform app.redeliver(who.merchant_id, dashboard.uuid_of('whe', endpoint), dashboard.uuid_of('dlv', delivery));
  perform dashboard.note(who, 'webhook_endpoint.redeliver', endpoint, delivery);
end $function$;

-- Sends every event again whose delivery failed since a time; returns how many.
CREATE OR REPLACE FUNCTION dashboard.redeliver_failed(token text, request uuid, endpoint text, since timestamp with time zone)
 RETURNS integer
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare
  who dashboard.audit_entry := dashboard.begin_change(token, request);
  count int := app.redeliver_failed(who.merchant_id, dashboard.uuid_of('whe', endpoint), since);
begin
  perform dashboard.note(who, 'webhook_endpoint.redeliver', endpoint, count || ' since ' || app.iso(since));
  return count;
end $function$;

-- Trigger: the audit log is only added to, even by the owner.
CREATE OR REPLACE FUNCTION dashboard.refuse_change()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog'
AS $function$
begin
  raise exception 'the audit log is only added to';
end $function$;

-- Removes a passkey of the person of a session, unless it is the last second factor; returns its name.
CREATE OR REPLACE FUNCTION dashboard.remove_passkey(of_token text, passkey uuid)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare person uuid := dashboard.lock_second_factors(of_token); factors record; removed text;
begin
  delete from auth.passkey p where p.id = passkey and p."userId" = person returning coalesce(p.name, '') into removed;
  if not found then raise exception 'there is no such passkey' using errcode = 'SL404', detail = 'passkey'; end if;
  select * into factors from dashboard.second_factors(person);
  if not factors.has_authenticator and factors.passkeys = 0 then
    raise exception 'This is your last second factor. Set up another one first.' using errcode = 'SL422';
  end if;
  return removed;
end $function$;

-- Raises SLSUS if the merchant is suspended, and SLSTP unless the second factor was shown within ten minutes.
CREATE OR REPLACE FUNCTION dashboard.require_full_rights(token text)
 RETURNS void
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare who record;
begin
  select * into who from dashboard.person(require_full_rights.token);
  if exists (select from app.merchant m where m.id = who.merchant_id and m.suspended_at is not null) then
    raise exception 'the operator has suspended this account; ask the operator why' using errcode = 'SLSUS';
  end if;
  if not who.is_fresh then raise exception 'show the second factor again' using errcode = 'SLSTP'; end if;
end $function$;

-- Ends a key, at once.
CREATE OR REPLACE FUNCTION dashboard.revoke_api_key(token text, request uuid, public_id text)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare
  who dashboard.audit_entry := dashboard.begin_change(token, request);
  key uuid;
begin
  select k.id into key from app.api_key k where k.id = dashboard.uuid_of('key', public_id) and k.merchant_id = who.merchant_id;
  if key is null then raise exception 'there is no key with this id' using errcode = 'SL404', detail = 'api_key'; end if;
  perform app.revoke_api_key(key);
  perform dashboard.note(who, 'api_key.revoke', public_id);
end $function$;

-- Makes a new secret, which is shown once; the old one signs, too, for 24 hours.
CREATE OR REPLACE FUNCTION dashboard.rotate_webhook_secret(token text, request uuid, public_id text)
 RETURNS json
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare
  who dashboard.audit_entry := dashboard.begin_change(token, request);
  secret text;
begin
  perform dashboard.require_full_rights(token);
  secret := app.rotate_webhook_secret(who.merchant_id, dashboard.uuid_of('whe', public_id));
  perform dashboard.note(who, 'webhook_endpoint.rotate', public_id);
  return json_build_object('id', public_id, 'secret', secret);
end $function$;

-- What has this transaction id, address, external_ref or id: at most 50.
CREATE OR REPLACE FUNCTION dashboard.search(token text, given text)
 RETURNS json
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare
  merchant uuid := dashboard.merchant_of(token);
  of_txid text := case when given ~* '^(0x)?[0-9a-f]{64}$' then lower(given) else given end; -- hex is stored in lower case; base58 is left as it is
begin
  return (select coalesce(json_agg(f), '[]') from (
    select 'user' as kind, app.public_id('usr', u.id) as id, null::text as endpoint_id, u.external_ref as label
    from app.user u where u.merchant_id = merchant and (u.external_ref = app.user_ref(merchant, given) or u.id = dashboard.uuid_of('usr', given)
      or u.id in (select a.user_id from app.chain c join app.address a on a.chain = c.chain and a.match_key = app.match_key(given, c.folds_addresses)
        where a.merchant_id = merchant))
    union all
    select 'deposit', app.public_id('dep', d.id), null, app.decimal(d.amount, a.decimals) || ' ' || d.token || ' on ' || d.chain || ', ' || d.status
    from (select * from app.deposit o where o.txid = of_txid
      union select * from app.deposit o where o.id = dashboard.uuid_of('dep', given)) d
    join app.asset a on a.chain = d.chain and a.token = d.token
    where d.merchant_id = merchant and d.credited and d.user_id is not null
    union all
    select 'payout', app.public_id('pay', p.id), null, app.decimal(p.net, a.decimals) || ' ' || p.token || ' on ' || p.chain || ', ' || p.status
    from (select s.payout_id as id from app.outgoing_attempt o join app.outgoing_payment s on s.id = o.outgoing_payment_id
        where o.txid = of_txid and s.kind = 'payout'
      union select dashboard.uuid_of('pay', given)) o
    join app.payout p on p.id = o.id join app.asset a on a.chain = p.chain and a.token = p.token
    where p.merchant_id = merchant and (p.txid = of_txid or p.id = dashboard.uuid_of('pay', given))
    union all
    select 'payout_address', p.chain, null, p.address
    from app.payout_address p join app.chain c on c.chain = p.chain
    where p.merchant_id = merchant and app.match_key(p.address, c.folds_addresses) = app.match_key(given, c.folds_addresses)
    union all
    select 'payment_request', r.external_id, null, app.decimal(r.amount, a.decimals) || ' ' || r.token || ' on ' || r.chain || ', ' || r.status
    from (select o.payment_request_id as id from app.deposit o where o.txid = of_txid
      union select o.payment_request_id from app.chain c join app.address o on o.chain = c.chain and o.match_key = app.match_key(given, c.folds_addresses)
      union select o.id from app.payment_request o where o.merchant_id = merchant and o.external_id = app.request_ref(merchant, given)) f
    join app.payment_request r on r.id = f.id join app.asset a on a.chain = r.chain and a.token = r.token
    where r.merchant_id = merchant
    union all
    select 'endpoint', app.public_id('whe', w.id), null, w.url
    from app.webhook_endpoint w where w.id = dashboard.uuid_of('whe', given) and w.merchant_id = merchant and w.deleted_at is null
    union all
    select 'delivery', app.public_id('dlv', d.id), app.public_id('whe', w.id), e.type || ' to ' || w.url
    from app.delivery d join app.webhook_endpoint w on w.id = d.endpoint_id join app.event e on e.id = d.event_id
    where d.id = dashboard.uuid_of('dlv', given) and w.merchant_id = merchant and w.deleted_at is null
    union all
    select 'delivery', app.public_id('dlv', d.id), app.public_id('whe', w.id), e.type || ' to ' || w.url
    from app.event e join app.webhook_endpoint w on w.id = e.subject_id join app.delivery d on d.endpoint_id = w.id and d.event_id = e.id
      and d.id between app.uuid_at(e.created_at - interval '1 minute') and app.uuid_at(e.created_at + interval '1 minute')
    where e.id = dashboard.uuid_of('evt_test', given) and e.merchant_id = merchant and e.is_test and w.deleted_at is null
    union all
    select k.kind, app.public_id(k.prefix, e.subject_id), null, e.type
    from app.event e join (values ('deposit.', 'deposit', 'dep'), ('payout.', 'payout', 'pay'), ('webhook_endpoint.', 'endpoint', 'whe')) k (type, kind, prefix)
      on starts_with(e.type, k.type) -- a payment request has no page here
    where e.id = dashboard.uuid_of('evt', given) and e.merchant_id = merchant and not e.is_test
    union all
    select 'api_key', app.public_id('key', k.id), null, coalesce(k.label, 'no label')
    from app.api_key k where k.id = dashboard.uuid_of('key', given) and k.merchant_id = merchant
    limit 50) f);
end $function$;

-- The second factors that a person has.
CREATE OR REPLACE FUNCTION dashboard.second_factors(of_user uuid, OUT has_authenticator boolean, OUT recovery_codes integer, OUT passkeys integer)
 RETURNS record
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select exists (select from auth.authenticator a where a.user_id = of_user),
    (select count(*)::int from auth.recovery_code c where c.user_id = of_user),
    (select count(*)::int from auth.passkey p where p."userId" = of_user)
$function$;

-- Sets up the authenticator of the person of a session, in place of one that was there, with new recovery codes.
CREATE OR REPLACE FUNCTION dashboard.set_authenticator(of_token text, of_secret text, code_hashes bytea[])
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare person uuid := dashboard.lock_second_factors(of_token);
begin
  insert into auth.authenticator (user_id, secret) values (person, of_secret)
  on conflict (user_id) do update set secret = excluded.secret, set_up_at = excluded.set_up_at;
  delete from auth.recovery_code c where c.user_id = person;
  insert into auth.recovery_code (user_id, code_hash) select person, unnest(code_hashes);
end $function$;

-- Sets how much of a new payment request may be missing; those that exist keep theirs.
CREATE OR REPLACE FUNCTION dashboard.set_payment_tolerance(token text, request uuid, bps integer)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare who dashboard.audit_entry := dashboard.begin_change(token, request);
begin
  perform dashboard.require_full_rights(token);
  perform app.set_payment_tolerance(who.merchant_id, bps);
  perform dashboard.note(who, 'payment_tolerance.set', null, trim_scale(bps / 100.0) || '%');
end $function$;

-- Registers where payouts of a chain go. The address comes checked and in its display form. Nothing is paid to it before the operator has put it on the whitelist.
CREATE OR REPLACE FUNCTION dashboard.set_payout_address(token text, request uuid, of_chain text, of_address text)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare
  who dashboard.audit_entry := dashboard.begin_change(token, request);
begin
  perform dashboard.require_full_rights(token);
  perform app.set_payout_address(who.merchant_id, of_chain, of_address);
  perform dashboard.note(who, 'payout_address.set', of_chain, of_address);
end $function$;

-- Gives the person of a session new recovery codes; the old ones do not work any more.
CREATE OR REPLACE FUNCTION dashboard.set_recovery_codes(of_token text, code_hashes bytea[])
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare person uuid := dashboard.lock_second_factors(of_token);
begin
  delete from auth.recovery_code c where c.user_id = person;
  insert into auth.recovery_code (user_id, code_hash) select person, unnest(code_hashes);
end $function$;

-- Notes that the person showed a second factor in this session, which gets another token.
CREATE OR REPLACE FUNCTION dashboard.show_second_factor(old_token text, new_token text)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
begin
  update auth.session s set token = new_token, "secondFactorAt" = clock_timestamp(), "updatedAt" = clock_timestamp()
  where s.token = old_token and s."expiresAt" > clock_timestamp();
  if not found then raise exception 'this session has ended' using errcode = 'SLAUT'; end if;
end $function$;

-- Sends an example of an event; returns the id of its delivery.
CREATE OR REPLACE FUNCTION dashboard.test_webhook(token text, request uuid, public_id text, of_type text)
 RETURNS json
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare
  who dashboard.audit_entry := dashboard.begin_change(token, request);
  delivery uuid := app.test_webhook(who.merchant_id, dashboard.uuid_of('whe', public_id), of_type);
begin
  perform dashboard.note(who, 'webhook_endpoint.test', public_id, of_type);
  return json_build_object('id', app.public_id('dlv', delivery));
end $function$;

-- Changes an endpoint; null leaves a value as it is.
CREATE OR REPLACE FUNCTION dashboard.update_webhook_endpoint(token text, request uuid, public_id text, url text, event_types text[], enable boolean)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare who dashboard.audit_entry := dashboard.begin_change(token, request);
begin
  if url is not null then perform dashboard.require_full_rights(token); end if;
  perform app.update_webhook_endpoint(who.merchant_id, dashboard.uuid_of('whe', public_id), url, event_types, enable);
  perform dashboard.note(who, case enable when true then 'webhook_endpoint.enable' when false then 'webhook_endpoint.disable' else 'webhook_endpoint.update' end,
    public_id, url);
end $function$;

-- Uses a code of an authenticator, by its half minute since 1970; false if it was used before.
CREATE OR REPLACE FUNCTION dashboard.use_code(of_user uuid, of_step bigint)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
begin
  delete from dashboard.used_code u where u.user_id = of_user and u.step < of_step - 10;
  insert into dashboard.used_code (user_id, step) values (of_user, of_step) on conflict do nothing;
  return found;
end $function$;

-- Uses a recovery code; false if the person has none with this SHA-256.
CREATE OR REPLACE FUNCTION dashboard.use_recovery_code(of_user uuid, of_code_hash bytea)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
begin
  delete from auth.recovery_code c where c.user_id = of_user and c.code_hash = of_code_hash;
  return found;
end $function$;

-- A user with the addresses that it was given.
CREATE OR REPLACE FUNCTION dashboard.user_item(u app."user")
 RETURNS json
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog'
AS $function$
  select json_build_object('id', app.public_id('usr', u.id), 'external_ref', u.external_ref, 'created_at', app.iso(u.created_at),
    'addresses', app.addresses_of(u.id))
$function$;

-- A user.
CREATE OR REPLACE FUNCTION dashboard.user_of(token text, public_id text)
 RETURNS json
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select dashboard.user_item(u) from app.user u where u.id = dashboard.own_user(dashboard.merchant_of(user_of.token), user_of.public_id)
$function$;

-- A page of the users, the newest first, or the one with this reference.
CREATE OR REPLACE FUNCTION dashboard.users(token text, of_external_ref text, before text, size integer)
 RETURNS json
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare merchant uuid := dashboard.merchant_of(token);
begin
  if of_external_ref is not null then
    return (select dashboard.page(array_agg(dashboard.user_item(u)), null, size)
      from app.user u where u.merchant_id = merchant and u.external_ref = app.user_ref(merchant, of_external_ref));
  end if;
  return (select dashboard.page(array_agg(dashboard.user_item(u) order by u.seq desc), array_agg(u.seq::text order by u.seq desc), size)
    from (select * from app.user o where o.merchant_id = merchant and o.seq < least(before::numeric, 9223372036854775807)::bigint
      order by o.seq desc limit size + 1) u);
end $function$;

-- The UUID in an id that merchants see; null if it is no id of this kind.
CREATE OR REPLACE FUNCTION dashboard.uuid_of(prefix text, public_id text)
 RETURNS uuid
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
 SET search_path TO 'pg_catalog'
RETURN CASE WHEN (public_id ~ (('^'::text || prefix) || '_[0-9a-f]{32}$'::text)) THEN ("right"(public_id, 32))::uuid ELSE NULL::uuid END;

-- An endpoint.
CREATE OR REPLACE FUNCTION dashboard.webhook_endpoint(token text, public_id text)
 RETURNS json
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select dashboard.endpoint_item(dashboard.own_endpoint(webhook_endpoint.token, webhook_endpoint.public_id))
$function$;

-- All endpoints.
CREATE OR REPLACE FUNCTION dashboard.webhook_endpoints(token text)
 RETURNS json
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
  select dashboard.endpoints_of(dashboard.merchant_of(webhook_endpoints.token))
$function$;

-- standard public schema
create schema public;

create table public.sluice_migration (
  name text not null,
  checksum text not null,
  applied_at timestamp with time zone not null default clock_timestamp(),
  constraint sluice_migration_pkey PRIMARY KEY (name)
);

create table public.sluice_object (
  kind text not null,
  name text not null,
  file text not null,
  gone_since text,
  constraint sluice_object_pkey PRIMARY KEY (kind, name)
);

-- Bookkeeping of the indexer of BTC (tables of Subsquid's typeorm-store).
create schema squid_btc;

create table squid_btc.hot_block (
  height integer not null,
  hash text not null,
  constraint hot_block_pkey PRIMARY KEY (height)
);

create table squid_btc.hot_change_log (
  block_height integer not null,
  index integer not null,
  change jsonb not null,
  constraint hot_change_log_pkey PRIMARY KEY (block_height, index),
  constraint hot_change_log_block_height_fkey FOREIGN KEY (block_height) REFERENCES squid_btc.hot_block(height) ON DELETE CASCADE
);

create table squid_btc.status (
  id integer not null,
  height integer not null,
  hash text default '0x'::text,
  nonce integer default 0,
  constraint status_pkey PRIMARY KEY (id)
);
CREATE TRIGGER note_status AFTER UPDATE ON squid_btc.status FOR EACH ROW EXECUTE FUNCTION chain.note_status('BTC');

create table squid_btc.template_registry (
  key text not null,
  value text not null,
  type boolean not null,
  block_number integer not null,
  height integer not null,
  constraint template_registry_pkey PRIMARY KEY (key, value, type, block_number, height)
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

-- Bookkeeping of the indexer of SOL (tables of Subsquid's typeorm-store).
create schema squid_sol;

create table squid_sol.hot_block (
  height integer not null,
  hash text not null,
  constraint hot_block_pkey PRIMARY KEY (height)
);

create table squid_sol.hot_change_log (
  block_height integer not null,
  index integer not null,
  change jsonb not null,
  constraint hot_change_log_pkey PRIMARY KEY (block_height, index),
  constraint hot_change_log_block_height_fkey FOREIGN KEY (block_height) REFERENCES squid_sol.hot_block(height) ON DELETE CASCADE
);

create table squid_sol.status (
  id integer not null,
  height integer not null,
  hash text default '0x'::text,
  nonce integer default 0,
  constraint status_pkey PRIMARY KEY (id)
);
CREATE TRIGGER note_status AFTER UPDATE ON squid_sol.status FOR EACH ROW EXECUTE FUNCTION chain.note_status('SOL');

create table squid_sol.template_registry (
  key text not null,
  value text not null,
  type boolean not null,
  block_number integer not null,
  height integer not null,
  constraint template_registry_pkey PRIMARY KEY (key, value, type, block_number, height)
);

-- Bookkeeping of the indexer of TRON (tables of Subsquid's typeorm-store).
create schema squid_tron;

create table squid_tron.hot_block (
  height integer not null,
  hash text not null,
  constraint hot_block_pkey PRIMARY KEY (height)
);

create table squid_tron.hot_change_log (
  block_height integer not null,
  index integer not null,
  change jsonb not null,
  constraint hot_change_log_pkey PRIMARY KEY (block_height, index),
  constraint hot_change_log_block_height_fkey FOREIGN KEY (block_height) REFERENCES squid_tron.hot_block(height) ON DELETE CASCADE
);

create table squid_tron.status (
  id integer not null,
  height integer not null,
  hash text default '0x'::text,
  nonce integer default 0,
  constraint status_pkey PRIMARY KEY (id)
);
CREATE TRIGGER note_status AFTER UPDATE ON squid_tron.status FOR EACH ROW EXECUTE FUNCTION chain.note_status('TRON');

create table squid_tron.template_registry (
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
grant execute on function analytics.coins(numeric,integer) to sluice_analyst;
grant execute on function analytics.id(text) to sluice_analyst;
grant execute on function app.is_from_protocol(text,integer,text) to sluice_analyst;
grant execute on function app.match_key(text,boolean) to sluice_analyst;
grant execute on function app.public_id(text,uuid) to sluice_analyst;
grant execute on function app.why_unattributed(boolean,boolean,boolean,text,text) to sluice_analyst;
grant select on analytics.address_utilisation to sluice_analyst;
grant select on analytics.balances to sluice_analyst;
grant select on analytics.cancels to sluice_analyst;
grant select on analytics.chain_lag to sluice_analyst;
grant select on analytics.customer_cohorts to sluice_analyst;
grant select on analytics.daily_blocks to sluice_analyst;
grant select on analytics.daily_ledger to sluice_analyst;
grant select on analytics.daily_volume to sluice_analyst;
grant select on analytics.delivery_health to sluice_analyst;
grant select on analytics.deposits to sluice_analyst;
grant select on analytics.earnings to sluice_analyst;
grant select on analytics.events to sluice_analyst;
grant select on analytics.freshness to sluice_analyst;
grant select on analytics.incidents to sluice_analyst;
grant select on analytics.ledger to sluice_analyst;
grant select on analytics.merchant_totals to sluice_analyst;
grant select on analytics.merchants to sluice_analyst;
grant select on analytics.payment_receipts to sluice_analyst;
grant select on analytics.payment_requests to sluice_analyst;
grant select on analytics.payout_costs to sluice_analyst;
grant select on analytics.payout_steps to sluice_analyst;
grant select on analytics.payouts to sluice_analyst;
grant select on analytics.reorganisations to sluice_analyst;
grant select on analytics.sweeps to sluice_analyst;
grant select on analytics.time_to_finality to sluice_analyst;
grant select on analytics.treasury to sluice_analyst;
grant select on analytics.unattributed to sluice_analyst;
grant select on analytics.users to sluice_analyst;
grant select on analytics.webhook_responses to sluice_analyst;
grant usage on schema analytics to sluice_analyst;

-- sluice_api
alter role sluice_api set enable_presorted_aggregate = 'off';
alter role sluice_api set enable_sort = 'off';
alter role sluice_api set jit = 'off';
alter role sluice_api set plan_cache_mode = 'force_generic_plan';
alter role sluice_api set statement_timeout = '10s';
grant execute on function app."decimal"(numeric,integer) to sluice_api;
grant execute on function app.cancel_payment_request(uuid,text) to sluice_api;
grant execute on function app.cancel_payout(uuid,uuid) to sluice_api;
grant execute on function app.create_payout(uuid,text,text,boolean,text,bytea) to sluice_api;
grant execute on function app.create_webhook_endpoint(uuid,text,text[]) to sluice_api;
grant execute on function app.delete_webhook_endpoint(uuid,uuid) to sluice_api;
grant execute on function app.deposit_confirmations(text,integer,integer) to sluice_api;
grant execute on function app.event_body(json,bigint) to sluice_api;
grant execute on function app.event_id(uuid,boolean) to sluice_api;
grant execute on function app.fill_way_out(text,text,bigint[]) to sluice_api;
grant execute on function app.held_back_of(app.deposit) to sluice_api;
grant execute on function app.is_disabled(text,text) to sluice_api;
grant execute on function app.is_from_protocol(text,integer,text) to sluice_api;
grant execute on function app.iso(timestamp with time zone) to sluice_api;
grant execute on function app.listed_payout(uuid,uuid) to sluice_api;
grant execute on function app.match_key(text,boolean) to sluice_api;
grant execute on function app.metrics() to sluice_api;
grant execute on function app.note_key_use(bytea) to sluice_api;
grant execute on function app.paid_from(app.payment_request) to sluice_api;
grant execute on function app.payment_missing(app.payment_request) to sluice_api;
grant execute on function app.payment_page(text) to sluice_api;
grant execute on function app.payout_parts(uuid,bigint,integer) to sluice_api;
grant execute on function app.payout_waiting(app.payout) to sluice_api;
grant execute on function app.provision_addresses(uuid,uuid,text[]) to sluice_api;
grant execute on function app.provision_user(uuid,text,text[],jsonb) to sluice_api;
grant execute on function app.public_id(text,uuid) to sluice_api;
grant execute on function app.read_payment_request(uuid,text) to sluice_api;
grant execute on function app.redeliver(uuid,uuid,uuid) to sluice_api;
grant execute on function app.redeliver_failed(uuid,uuid,timestamp with time zone) to sluice_api;
grant execute on function app.request_payment(uuid,text,text,text,interval,text,bytea,jsonb,text,text,interval) to sluice_api;
grant execute on function app.request_ref(uuid,text) to sluice_api;
grant execute on function app.rotate_webhook_secret(uuid,uuid) to sluice_api;
grant execute on function app.set_payout_address(uuid,text,text) to sluice_api;
grant execute on function app.test_webhook(uuid,uuid,text) to sluice_api;
grant execute on function app.update_user(uuid,uuid,jsonb) to sluice_api;
grant execute on function app.update_webhook_endpoint(uuid,uuid,text,text[],boolean) to sluice_api;
grant execute on function app.user_ref(uuid,text) to sluice_api;
grant execute on function app.why_payment(app.payment_request) to sluice_api;
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
grant select on app.merchant_balance to sluice_api;
grant select on app.merchant_chain to sluice_api;
grant select on app.payment_request to sluice_api;
grant select on app.payout to sluice_api;
grant select on app.payout_address to sluice_api;
grant select on app.payout_address_state to sluice_api;
grant select on app.receipt to sluice_api;
grant select on app.token to sluice_api;
grant select on app.webhook_endpoint (id, merchant_id, url, event_types, previous_secret_expires_at, disabled_at, disabled_reason, failing_since, created_at, deleted_at) to sluice_api;
grant select on chain.cursor to sluice_api;
grant select on custody.address to sluice_api;
grant select on custody.whitelist to sluice_api;
grant usage on schema app to sluice_api;
grant usage on schema chain to sluice_api;
grant usage on schema custody to sluice_api;

-- sluice_auth
alter role sluice_auth set search_path = 'auth';
alter role sluice_auth set statement_timeout = '10s';
grant delete, insert, select, update on auth."rateLimit" to sluice_auth;
grant delete, insert, select, update on auth.passkey to sluice_auth;
grant delete, insert, select, update on auth.session to sluice_auth;
grant delete, insert, select, update on auth.verification to sluice_auth;
grant execute on function dashboard.accept_invitation(bytea,text,text,text,text) to sluice_auth;
grant execute on function dashboard.begin_attempt(text) to sluice_auth;
grant execute on function dashboard.change_password(text,text,text) to sluice_auth;
grant execute on function dashboard.find_invitation(bytea) to sluice_auth;
grant execute on function dashboard.forget_attempt(bigint) to sluice_auth;
grant execute on function dashboard.lock_second_factors(text) to sluice_auth;
grant execute on function dashboard.merchant_name(uuid) to sluice_auth;
grant execute on function dashboard.record(uuid,text,text,text,text) to sluice_auth;
grant execute on function dashboard.remove_passkey(text,uuid) to sluice_auth;
grant execute on function dashboard.second_factors(uuid) to sluice_auth;
grant execute on function dashboard.set_authenticator(text,text,bytea[]) to sluice_auth;
grant execute on function dashboard.set_recovery_codes(text,bytea[]) to sluice_auth;
grant execute on function dashboard.show_second_factor(text,text) to sluice_auth;
grant execute on function dashboard.use_code(uuid,bigint) to sluice_auth;
grant execute on function dashboard.use_recovery_code(uuid,bytea) to sluice_auth;
grant insert, select, update on auth."user" to sluice_auth;
grant insert, select, update on auth.account to sluice_auth;
grant select on auth.authenticator to sluice_auth;
grant select on auth.recovery_code to sluice_auth;
grant usage on schema auth to sluice_auth;
grant usage on schema dashboard to sluice_auth;

-- sluice_custody
grant execute on function app.coins_to_sweep(uuid) to sluice_custody;
grant execute on function app.collectable_amount(text,text,text) to sluice_custody;
grant execute on function app.is_worth_funding(text,text,text) to sluice_custody;
grant execute on function app.match_key(text,boolean) to sluice_custody;
grant execute on function app.way_out(text) to sluice_custody;
grant execute on function app.why_halted(text) to sluice_custody;
grant execute on function custody.follow_unproven_copies(text) to sluice_custody;
grant execute on function custody.halt_chain(text,text) to sluice_custody;
grant execute on function custody.is_pool_unsure(text) to sluice_custody;
grant execute on function custody.lock_outgoing_payment(uuid,integer) to sluice_custody;
grant execute on function custody.tell_journal(text,text) to sluice_custody;
grant execute on function custody.try_lock() to sluice_custody;
grant execute on function custody.watch_treasury(text) to sluice_custody;
grant insert on custody.address (address, family, derivation_index, created_at, purpose, retired_at) to sluice_custody;
grant insert, select on custody.journal to sluice_custody;
grant insert, select on custody.refusal to sluice_custody;
grant select on app.asset to sluice_custody;
grant select on app.attempt_fate to sluice_custody;
grant select on app.chain to sluice_custody;
grant select on app.contested_payment to sluice_custody;
grant select on app.cpfp to sluice_custody;
grant select on app.outgoing_payment to sluice_custody;
grant select on app.output to sluice_custody;
grant select on app.payout to sluice_custody;
grant select on app.token to sluice_custody;
grant select on chain.confirmed_tx to sluice_custody;
grant select on chain.cursor to sluice_custody;
grant select on chain.lapse to sluice_custody;
grant select on chain.transfer to sluice_custody;
grant select on chain.unconfirmed to sluice_custody;
grant select on custody.address to sluice_custody;
grant select on custody.budget_raise to sluice_custody;
grant select on custody.decision to sluice_custody;
grant select on custody.journal_key to sluice_custody;
grant select on custody.whitelist to sluice_custody;
grant update on custody.address (retired_at) to sluice_custody;
grant usage on schema app to sluice_custody;
grant usage on schema chain to sluice_custody;
grant usage on schema custody to sluice_custody;

-- sluice_dashboard
alter role sluice_dashboard set statement_timeout = '10s';
grant execute on function dashboard.api_keys(text) to sluice_dashboard;
grant execute on function dashboard.audit_log(text,text,integer) to sluice_dashboard;
grant execute on function dashboard.balance(text,text,text) to sluice_dashboard;
grant execute on function dashboard.cancel_payout(text,uuid,text) to sluice_dashboard;
grant execute on function dashboard.create_api_key(text,uuid,bytea,text,text[]) to sluice_dashboard;
grant execute on function dashboard.create_payout(text,uuid,text,text,boolean,text) to sluice_dashboard;
grant execute on function dashboard.create_webhook_endpoint(text,uuid,text,text[]) to sluice_dashboard;
grant execute on function dashboard.delete_webhook_endpoint(text,uuid,text) to sluice_dashboard;
grant execute on function dashboard.deliveries(text,text,text,text,integer) to sluice_dashboard;
grant execute on function dashboard.delivery(text,text,text) to sluice_dashboard;
grant execute on function dashboard.deposit(text,text) to sluice_dashboard;
grant execute on function dashboard.deposits(text,text,text,text,text,integer) to sluice_dashboard;
grant execute on function dashboard.has_payment_requests(text) to sluice_dashboard;
grant execute on function dashboard.me(text) to sluice_dashboard;
grant execute on function dashboard.news(text[]) to sluice_dashboard;
grant execute on function dashboard.overview(text) to sluice_dashboard;
grant execute on function dashboard.own_address(text,text) to sluice_dashboard;
grant execute on function dashboard.payment_tolerance(text) to sluice_dashboard;
grant execute on function dashboard.payout(text,text) to sluice_dashboard;
grant execute on function dashboard.payout_addresses(text) to sluice_dashboard;
grant execute on function dashboard.payout_parts(text,text,text,integer) to sluice_dashboard;
grant execute on function dashboard.payouts(text,text,text,text,integer) to sluice_dashboard;
grant execute on function dashboard.redeliver(text,uuid,text,text) to sluice_dashboard;
grant execute on function dashboard.redeliver_failed(text,uuid,text,timestamp with time zone) to sluice_dashboard;
grant execute on function dashboard.require_full_rights(text) to sluice_dashboard;
grant execute on function dashboard.revoke_api_key(text,uuid,text) to sluice_dashboard;
grant execute on function dashboard.rotate_webhook_secret(text,uuid,text) to sluice_dashboard;
grant execute on function dashboard.search(text,text) to sluice_dashboard;
grant execute on function dashboard.set_payment_tolerance(text,uuid,integer) to sluice_dashboard;
grant execute on function dashboard.set_payout_address(text,uuid,text,text) to sluice_dashboard;
grant execute on function dashboard.test_webhook(text,uuid,text,text) to sluice_dashboard;
grant execute on function dashboard.update_webhook_endpoint(text,uuid,text,text,text[],boolean) to sluice_dashboard;
grant execute on function dashboard.user_of(text,text) to sluice_dashboard;
grant execute on function dashboard.users(text,text,text,integer) to sluice_dashboard;
grant execute on function dashboard.webhook_endpoint(text,text) to sluice_dashboard;
grant execute on function dashboard.webhook_endpoints(text) to sluice_dashboard;
grant usage on schema dashboard to sluice_dashboard;

-- sluice_indexer
grant delete, insert, select, update on chain.block to sluice_indexer;
grant delete, insert, select, update on chain.confirmed_tx to sluice_indexer;
grant delete, insert, select, update on chain.transfer to sluice_indexer;
grant delete, insert, select, update on squid_btc.hot_block to sluice_indexer;
grant delete, insert, select, update on squid_btc.hot_change_log to sluice_indexer;
grant delete, insert, select, update on squid_btc.status to sluice_indexer;
grant delete, insert, select, update on squid_btc.template_registry to sluice_indexer;
grant delete, insert, select, update on squid_eth.hot_block to sluice_indexer;
grant delete, insert, select, update on squid_eth.hot_change_log to sluice_indexer;
grant delete, insert, select, update on squid_eth.status to sluice_indexer;
grant delete, insert, select, update on squid_eth.template_registry to sluice_indexer;
grant delete, insert, select, update on squid_polygon.hot_block to sluice_indexer;
grant delete, insert, select, update on squid_polygon.hot_change_log to sluice_indexer;
grant delete, insert, select, update on squid_polygon.status to sluice_indexer;
grant delete, insert, select, update on squid_polygon.template_registry to sluice_indexer;
grant delete, insert, select, update on squid_sol.hot_block to sluice_indexer;
grant delete, insert, select, update on squid_sol.hot_change_log to sluice_indexer;
grant delete, insert, select, update on squid_sol.status to sluice_indexer;
grant delete, insert, select, update on squid_sol.template_registry to sluice_indexer;
grant delete, insert, select, update on squid_tron.hot_block to sluice_indexer;
grant delete, insert, select, update on squid_tron.hot_change_log to sluice_indexer;
grant delete, insert, select, update on squid_tron.status to sluice_indexer;
grant delete, insert, select, update on squid_tron.template_registry to sluice_indexer;
grant execute on function app.way_out(text) to sluice_indexer;
grant execute on function chain.anchor(text,text,integer,text,timestamp with time zone) to sluice_indexer;
grant execute on function chain.configure(text) to sluice_indexer;
grant execute on function chain.finalise(text,integer,text) to sluice_indexer;
grant execute on function chain.first_address_at(text) to sluice_indexer;
grant execute on function chain.halt(text,jsonb) to sluice_indexer;
grant execute on function chain.is_past_end(custody.journal) to sluice_indexer;
grant execute on function chain.note_contradiction(text,text,text) to sluice_indexer;
grant execute on function chain.note_lapse(text,text,jsonb) to sluice_indexer;
grant execute on function chain.note_mined(text,jsonb,text[],text[]) to sluice_indexer;
grant execute on function chain.note_moved(text,jsonb) to sluice_indexer;
grant execute on function chain.note_no_internals(text,jsonb) to sluice_indexer;
grant execute on function chain.note_short(text,text,text,numeric,numeric) to sluice_indexer;
grant execute on function chain.note_unconfirmed(text,jsonb) to sluice_indexer;
grant execute on function chain.note_unproven(text,text,text) to sluice_indexer;
grant execute on function chain.note_unproven_block(text,integer,text) to sluice_indexer;
grant execute on function chain.note_untraced(text) to sluice_indexer;
grant execute on function chain.pin_tracer(text,text) to sluice_indexer;
grant execute on function chain.rewind(text,integer,text) to sluice_indexer;
grant execute on function chain.tell_waiting(text,text,text,integer) to sluice_indexer;
grant execute on function chain.try_lock(text) to sluice_indexer;
grant select on app.accepted_gap to sluice_indexer;
grant select on app.address to sluice_indexer;
grant select on app.chain to sluice_indexer;
grant select on app.token to sluice_indexer;
grant select on chain.cursor to sluice_indexer;
grant select on chain.lapsable to sluice_indexer;
grant select on chain.lapse to sluice_indexer;
grant select on chain.unconfirmed to sluice_indexer;
grant select on custody.address (address, match_key) to sluice_indexer;
grant select on custody.journal (stream, token, amount, destination, source, txid) to sluice_indexer;
grant usage on schema app to sluice_indexer;
grant usage on schema chain to sluice_indexer;
grant usage on schema custody to sluice_indexer;
grant usage on schema squid_btc to sluice_indexer;
grant usage on schema squid_eth to sluice_indexer;
grant usage on schema squid_polygon to sluice_indexer;
grant usage on schema squid_sol to sluice_indexer;
grant usage on schema squid_tron to sluice_indexer;

-- sluice_jobs
grant execute on function app."decimal"(numeric,integer) to sluice_jobs;
grant execute on function app.add_inputs(uuid,integer,text[]) to sluice_jobs;
grant execute on function app.addresses_to_compare(text,text,integer) to sluice_jobs;
grant execute on function app.allocate_deposits(uuid,text,text,integer,boolean) to sluice_jobs;
grant execute on function app.audit_checks() to sluice_jobs;
grant execute on function app.audit_is_due() to sluice_jobs;
grant execute on function app.await_sweeps(uuid) to sluice_jobs;
grant execute on function app.begin_audit() to sluice_jobs;
grant execute on function app.begin_comparison(text) to sluice_jobs;
grant execute on function app.begin_defunds(text,text[],numeric[],numeric[]) to sluice_jobs;
grant execute on function app.begin_funds(uuid,text,text,text[],numeric[],numeric) to sluice_jobs;
grant execute on function app.begin_output_payment(uuid,text[],numeric) to sluice_jobs;
grant execute on function app.begin_output_sweep(uuid,text,uuid,text[],numeric) to sluice_jobs;
grant execute on function app.begin_payment(uuid,numeric) to sluice_jobs;
grant execute on function app.begin_return_sweep(uuid,numeric,numeric) to sluice_jobs;
grant execute on function app.begin_return_withdrawal(uuid,numeric) to sluice_jobs;
grant execute on function app.begin_sweeping(uuid) to sluice_jobs;
grant execute on function app.begin_sweeps(uuid,text,text,text[],numeric[],numeric[],numeric) to sluice_jobs;
grant execute on function app.block_address(text,text,text,text) to sluice_jobs;
grant execute on function app.cancel_outgoing_payment(uuid) to sluice_jobs;
grant execute on function app.claimed_outputs(uuid,integer) to sluice_jobs;
grant execute on function app.collectable_amount(text,text,text) to sluice_jobs;
grant execute on function app.comparison_age(text) to sluice_jobs;
grant execute on function app.decide_payment_requests(integer) to sluice_jobs;
grant execute on function app.due_comparison(text) to sluice_jobs;
grant execute on function app.end_sweeping(uuid) to sluice_jobs;
grant execute on function app.end_unsigned(uuid) to sluice_jobs;
grant execute on function app.enqueue(text,json,text) to sluice_jobs;
grant execute on function app.event_body(json,bigint) to sluice_jobs;
grant execute on function app.event_id(uuid,boolean) to sluice_jobs;
grant execute on function app.expire_payment(uuid,text,text,integer) to sluice_jobs;
grant execute on function app.fail_comparison(text,text) to sluice_jobs;
grant execute on function app.fail_payout(uuid,text,text) to sluice_jobs;
grant execute on function app.fail_undeliverable(integer) to sluice_jobs;
grant execute on function app.fee_incident(text,text) to sluice_jobs;
grant execute on function app.finish_audit(bigint,jsonb,text) to sluice_jobs;
grant execute on function app.fold_balances(integer) to sluice_jobs;
grant execute on function app.found_differences(text) to sluice_jobs;
grant execute on function app.free_gas(text,text) to sluice_jobs;
grant execute on function app.getting_gas_for(uuid) to sluice_jobs;
grant execute on function app.give_nonce_back(uuid,integer) to sluice_jobs;
grant execute on function app.give_up_outgoing_payment(uuid,text) to sluice_jobs;
grant execute on function app.has_blocked_deposits(uuid) to sluice_jobs;
grant execute on function app.idle_gas(text,integer) to sluice_jobs;
grant execute on function app.is_blocked(text,text,text) to sluice_jobs;
grant execute on function app.is_comparison_due(text[]) to sluice_jobs;
grant execute on function app.is_sweep_due(text,text,text) to sluice_jobs;
grant execute on function app.iso(timestamp with time zone) to sluice_jobs;
grant execute on function app.keep_blocked(text,text,text,text,integer) to sluice_jobs;
grant execute on function app.ledger_holdings(text,text[]) to sluice_jobs;
grant execute on function app.ledger_holdings_since(text,integer,text,text[]) to sluice_jobs;
grant execute on function app.ledger_outputs(text,text[]) to sluice_jobs;
grant execute on function app.lock_worker(text) to sluice_jobs;
grant execute on function app.maintain_partitions(interval) to sluice_jobs;
grant execute on function app.note_code(text,text,text) to sluice_jobs;
grant execute on function app.note_signed_otherwise(uuid,text,text) to sluice_jobs;
grant execute on function app.payout_lack(uuid,numeric) to sluice_jobs;
grant execute on function app.payout_shortage(uuid,numeric) to sluice_jobs;
grant execute on function app.payout_shortfall(uuid,numeric) to sluice_jobs;
grant execute on function app.public_id(text,uuid) to sluice_jobs;
grant execute on function app.record_attempts(uuid,uuid[],integer[],integer[],integer[],integer[],text[],bigint[]) to sluice_jobs;
grant execute on function app.record_broadcast(text,text,text,integer) to sluice_jobs;
grant execute on function app.record_comparison(text,text,text,text,text[],jsonb,text,integer,interval) to sluice_jobs;
grant execute on function app.recover_dead_pools(interval) to sluice_jobs;
grant execute on function app.refresh_analytics(interval,double precision) to sluice_jobs;
grant execute on function app.sequence_events(integer) to sluice_jobs;
grant execute on function app.store_signed(uuid,integer,text,text,text,numeric,numeric,jsonb) to sluice_jobs;
grant execute on function app.sweepable(uuid,numeric,integer) to sluice_jobs;
grant execute on function app.time_out_payout(uuid,bigint) to sluice_jobs;
grant execute on function app.treasury_address(text) to sluice_jobs;
grant execute on function app.try_lock_audit() to sluice_jobs;
grant execute on function app.try_lock_endpoint(uuid) to sluice_jobs;
grant execute on function app.try_lock_sending(text) to sluice_jobs;
grant execute on function app.unblock_address(text,text,text) to sluice_jobs;
grant execute on function app.unlock_endpoint(uuid) to sluice_jobs;
grant execute on function app.unlock_sending(text) to sluice_jobs;
grant execute on function app.unswept_for(uuid) to sluice_jobs;
grant execute on function app.wait_outgoing_payment(uuid,text,text,integer) to sluice_jobs;
grant execute on function app.wait_payout(uuid,text,text,integer) to sluice_jobs;
grant execute on function app.wait_return(uuid,text,text) to sluice_jobs;
grant execute on function app.way_out(text) to sluice_jobs;
grant execute on function app.why_halted(text) to sluice_jobs;
grant execute on function app.why_not_comparable(text) to sluice_jobs;
grant execute on function chain.release_overdue() to sluice_jobs;
grant select on app."user" to sluice_jobs;
grant select on app.address to sluice_jobs;
grant select on app.adjustment to sluice_jobs;
grant select on app.asset to sluice_jobs;
grant select on app.attempt_fate to sluice_jobs;
grant select on app.blocked_address to sluice_jobs;
grant select on app.chain to sluice_jobs;
grant select on app.claim to sluice_jobs;
grant select on app.comparison to sluice_jobs;
grant select on app.contested_payment to sluice_jobs;
grant select on app.cpfp_output to sluice_jobs;
grant select on app.delivery to sluice_jobs;
grant select on app.delivery_attempt to sluice_jobs;
grant select on app.due_job to sluice_jobs;
grant select on app.due_return to sluice_jobs;
grant select on app.event to sluice_jobs;
grant select on app.free_output to sluice_jobs;
grant select on app.gas to sluice_jobs;
grant select on app.holding to sluice_jobs;
grant select on app.incident to sluice_jobs;
grant select on app.incident_kind to sluice_jobs;
grant select on app.merchant to sluice_jobs;
grant select on app.merchant_chain to sluice_jobs;
grant select on app.outgoing_attempt to sluice_jobs;
grant select on app.outgoing_confirmed_tx to sluice_jobs;
grant select on app.outgoing_payment to sluice_jobs;
grant select on app.output to sluice_jobs;
grant select on app.payout to sluice_jobs;
grant select on app.payout_address to sluice_jobs;
grant select on app.payout_sweep to sluice_jobs;
grant select on app.token to sluice_jobs;
grant select on app.treasury to sluice_jobs;
grant select on app.treasury_share to sluice_jobs;
grant select on app.unattributed_decision to sluice_jobs;
grant select on app.webhook_endpoint to sluice_jobs;
grant select on chain.block to sluice_jobs;
grant select on chain.confirmed_tx to sluice_jobs;
grant select on chain.cursor to sluice_jobs;
grant select on chain.lapse to sluice_jobs;
grant select on custody.address to sluice_jobs;
grant select on custody.decision to sluice_jobs;
grant select on custody.whitelist to sluice_jobs;
grant usage on app.event_sequence to sluice_jobs;
grant usage on schema app to sluice_jobs;
grant usage on schema chain to sluice_jobs;
grant usage on schema custody to sluice_jobs;
