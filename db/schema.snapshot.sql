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
    replaced AS replaced_count,
    final_height
   FROM chain.daily_blocks;
--   day date: The day, in UTC, on which Sluice followed them; not the day of their timestamps.
--   chain text: Chain code.
--   followed_count bigint: Blocks that were added to the chain, those that were replaced later and those that were read again after a rewind included.
--   replaced_count bigint: Blocks that left the chain because others took their place.
--   final_height integer: The newest final block at the end of the day, or now; null of days from before this was noted.

-- The ledger summed up by UTC day, kind, account, chain, token and merchant.
create view analytics.daily_ledger with (security_barrier=true) as
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
   FROM ( SELECT ledger_day.day,
            ledger_day.kind,
            ledger_day.account,
            ledger_day.chain,
            ledger_day.token,
            ledger_day.merchant_id,
            ledger_day.amount,
            ledger_day.entry_count
           FROM app.ledger_day
        UNION ALL
         SELECT (open_ledger_entry.created_at AT TIME ZONE 'UTC'::text)::date AS timezone,
            open_ledger_entry.kind,
            open_ledger_entry.account,
            open_ledger_entry.chain,
            open_ledger_entry.token,
            open_ledger_entry.merchant_id,
            sum(open_ledger_entry.amount) AS sum,
            count(*) AS count
           FROM app.open_ledger_entry
          GROUP BY ((open_ledger_entry.created_at AT TIME ZONE 'UTC'::text)::date), open_ledger_entry.kind, open_ledger_entry.account, open_ledger_entry.chain, open_ledger_entry.token, open_ledger_entry.merchant_id) e
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

-- Deposits of each UTC day by merchant, chain and token, receipts of payment requests included. Reorged deposits do not count; days without deposits have no row. What changes a deposit that is older than a day shows within a minute.
create view analytics.daily_volume with (security_barrier=true) as
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
   FROM ( SELECT deposit_day.day,
            deposit_day.merchant_id,
            deposit_day.chain,
            deposit_day.token,
            deposit_day.deposit_count,
            deposit_day.amount,
            deposit_day.final_count,
            deposit_day.final_amount
           FROM app.deposit_day
        UNION ALL
         SELECT (d.created_at AT TIME ZONE 'UTC'::text)::date AS timezone,
            d.merchant_id,
            d.chain,
            d.token,
            count(*) AS count,
            sum(d.amount) AS sum,
            count(*) FILTER (WHERE d.status = 'final'::text) AS count,
            COALESCE(sum(d.amount) FILTER (WHERE d.status = 'final'::text), 0::numeric) AS "coalesce"
           FROM app.open_deposit d
          GROUP BY ((d.created_at AT TIME ZONE 'UTC'::text)::date), d.merchant_id, d.chain, d.token) v
     LEFT JOIN app.merchant m ON m.id = v.merchant_id
     LEFT JOIN app.asset a ON a.chain = v.chain AND a.token = v.token;
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

-- Service fees earned and network fees paid on each UTC day, by merchant, chain and token.
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

-- What each merchant received, was paid and is owed since the beginning, for each chain and token: received = fees_earned + paid_out + owed. analytics.balances is quicker for what is owed alone.
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
    id AS merchant_uuid,
    time_zone
   FROM app.merchant m;
--   merchant_id text: Id of the merchant.
--   merchant_name text: Name of the merchant.
--   merchant_prefix text: The merchant's account prefix.
--   fee_bps integer: Service fee of later payouts, in basis points (1/100 of a percent).
--   chains text: Chain codes that are enabled now, separated by commas; null if none is.
--   created_at timestamp with time zone: When the account was made.
--   suspended_at timestamp with time zone: Since when its keys do not work; null while they do.
--   merchant_uuid uuid: merchant_id as a UUID, to search by: merchant_uuid = analytics.id('mer_...').
--   time_zone text: Where the days of its statements begin, such as Europe/Berlin.

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
            COALESCE(sum(s_1.fee_paid) FILTER (WHERE s_1.kind = ANY (ARRAY['sweep'::text, 'fund'::text, 'delegate'::text])), 0::numeric) AS sweeps,
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
--   sweep_fees numeric: Network fees of the final sweeps that were made for it, and of the transactions that brought them gas or energy (not of taking energy back), in whole native coins.
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

-- What we held and owed at the end of each UTC day on which something moved, for each chain and token: by the ledger, up to the final height.
create view analytics.solvency with (security_barrier=true) as
 SELECT s.day,
    s.chain,
    s.token,
    trim_scale(s.on_addresses) AS on_addresses,
    trim_scale(s.in_treasury) AS in_treasury,
    trim_scale(s.staked) AS staked,
    trim_scale(s.balances) AS owed_balances,
    trim_scale(s.payouts) AS owed_payouts,
    trim_scale(s.unattributed) AS unattributed,
    trim_scale(s.on_addresses + s.in_treasury + s.staked - s.balances - s.payouts - s.unattributed) AS surplus,
    b.final_height
   FROM ( SELECT d.day,
            d.chain,
            d.token,
            sum(d.on_addresses) OVER w AS on_addresses,
            sum(d.in_treasury) OVER w AS in_treasury,
            sum(d.staked) OVER w AS staked,
            sum(d.balances) OVER w AS balances,
            sum(d.payouts) OVER w AS payouts,
            sum(d.unattributed) OVER w AS unattributed
           FROM ( SELECT daily_ledger.day,
                    daily_ledger.chain,
                    daily_ledger.token,
                    COALESCE(sum(daily_ledger.amount) FILTER (WHERE daily_ledger.account = ANY (ARRAY['address'::text, 'gas'::text])), 0::numeric) AS on_addresses,
                    COALESCE(sum(daily_ledger.amount) FILTER (WHERE daily_ledger.account = 'treasury'::text), 0::numeric) AS in_treasury,
                    COALESCE(sum(daily_ledger.amount) FILTER (WHERE daily_ledger.account = 'staked'::text), 0::numeric) AS staked,
                    - COALESCE(sum(daily_ledger.amount) FILTER (WHERE daily_ledger.account = 'merchant'::text), 0::numeric) AS balances,
                    - COALESCE(sum(daily_ledger.amount) FILTER (WHERE daily_ledger.account = 'payout'::text), 0::numeric) AS payouts,
                    - COALESCE(sum(daily_ledger.amount) FILTER (WHERE daily_ledger.account = 'unattributed'::text), 0::numeric) AS unattributed
                   FROM analytics.daily_ledger
                  GROUP BY daily_ledger.day, daily_ledger.chain, daily_ledger.token) d
          WINDOW w AS (PARTITION BY d.chain, d.token ORDER BY d.day)) s
     LEFT JOIN LATERAL ( SELECT d.final_height
           FROM chain.daily_blocks d
          WHERE d.chain = s.chain AND d.day <= s.day AND d.final_height IS NOT NULL
          ORDER BY d.day DESC
         LIMIT 1) b ON true;
--   day date: The day, in UTC; the newest one up to now.
--   chain text: Chain code.
--   token text: Token code.
--   on_addresses numeric: What deposit addresses held, gas for their sweeps included, in whole coins, exact.
--   in_treasury numeric: What the treasury held.
--   staked numeric: What it had staked.
--   owed_balances numeric: The balances of merchants.
--   owed_payouts numeric: What payouts under way had claimed.
--   unattributed numeric: Value at our addresses that was credited to nobody.
--   surplus numeric: What was held and owed to nobody: the operator's own. Below zero, merchants could not all have been paid.
--   final_height integer: The final height of the chain at the end of the day; null of days from before this was noted.

-- What each treasury has staked for energy and bandwidth, how much of it is lent, and what is on its way back.
create view analytics.stakes with (security_barrier=true) as
 SELECT r.chain,
    r.resource,
    a.token,
    analytics.coins(COALESCE(k.amount, 0::numeric), a.decimals) AS staked,
    analytics.coins(COALESCE(d.amount, 0::numeric), a.decimals) AS lent,
    COALESCE(d.addresses, 0::bigint) AS lent_to,
    analytics.coins(COALESCE(u.amount, 0::numeric), a.decimals) AS unstaking,
    u.next_free_at
   FROM ( SELECT stake.chain,
            stake.resource
           FROM app.stake
        UNION
         SELECT unstaking.chain,
            unstaking.resource
           FROM app.unstaking
          WHERE unstaking.reclaimed_at IS NULL) r
     JOIN app.chain c ON c.chain = r.chain
     JOIN app.asset a ON a.chain = c.chain AND a.token = c.native_token
     LEFT JOIN app.stake k ON k.chain = r.chain AND k.resource = r.resource
     LEFT JOIN ( SELECT delegation.chain,
            sum(delegation.amount) AS amount,
            count(*) AS addresses
           FROM app.delegation
          GROUP BY delegation.chain) d ON d.chain = r.chain AND r.resource = 'energy'::text
     LEFT JOIN ( SELECT unstaking.chain,
            unstaking.resource,
            sum(unstaking.amount) AS amount,
            min(unstaking.free_at) AS next_free_at
           FROM app.unstaking
          WHERE unstaking.reclaimed_at IS NULL
          GROUP BY unstaking.chain, unstaking.resource) u ON u.chain = r.chain AND u.resource = r.resource;
--   chain text: Chain code.
--   resource text: energy or bandwidth.
--   token text: The native coin.
--   staked numeric: What is staked, lent or not, in whole coins, exact: only final transactions count.
--   lent numeric: The part that deposit addresses have for their sweeps now.
--   lent_to bigint: How many addresses have some.
--   unstaking numeric: What was unstaked and is not back in the treasury.
--   next_free_at timestamp with time zone: When the first part of that comes back; null if nothing does.

-- One row for each movement of a merchant's balance: deposits that became final one by one, receipts of payment requests included, what was taken back, and what payouts claimed, net and fee apart. The amounts of a merchant, chain and token add up to its balance.
create view analytics.statement_lines with (security_barrier=true) as
 SELECT l.entry AS entry_id,
    l.at AS created_at,
    app.public_id('mer'::text, l.merchant_id) AS merchant_id,
    m.name AS merchant_name,
    m.prefix AS merchant_prefix,
    l.chain,
    l.token,
    l.type,
    analytics.coins(l.amount, a.decimals) AS amount,
    l.amount AS amount_base_units,
    app.public_id('dep'::text, l.deposit_id) AS deposit_id,
    u.external_ref AS user_external_ref,
    r.external_id,
    app.public_id('pay'::text, l.payout_id) AS payout_id,
    COALESCE(d.txid, p.txid) AS txid,
    l.merchant_id AS merchant_uuid
   FROM app.statement_line l
     JOIN app.merchant m ON m.id = l.merchant_id
     JOIN app.asset a ON a.chain = l.chain AND a.token = l.token
     LEFT JOIN app.deposit d ON d.id = l.deposit_id
     LEFT JOIN app."user" u ON u.id = d.user_id
     LEFT JOIN app.payment_request r ON r.id = d.payment_request_id
     LEFT JOIN app.payout p ON p.id = l.payout_id;
--   entry_id bigint: The entry of analytics.ledger: deposits that became final together share one.
--   created_at timestamp with time zone: When it was posted: never earlier than what it is about.
--   merchant_id text: Id of the merchant.
--   merchant_name text: Name of the merchant.
--   merchant_prefix text: The merchant's account prefix.
--   chain text: Chain code.
--   token text: Token code.
--   type text: deposit: it became final, or an operator credited it. deposit_lost: a final one was taken back. payout, fee: what a payout claimed, net and fee; above zero: what came back because it failed. adjustment: a debt for what was paid although its payment had ended.
--   amount numeric: How it changed the balance, in whole coins, exact: below zero for what left.
--   amount_base_units numeric: amount as an integer in the smallest unit of the token.
--   deposit_id text: The deposit, or the receipt of a payment request; null for payouts.
--   user_external_ref text: The merchant's own id of the user; null unless it is a deposit of one.
--   external_id text: The merchant's reference of the payment request; null unless it is a receipt.
--   payout_id text: The payout; null for deposits.
--   txid text: The transaction of the deposit, or the one that paid the payout; null while that is not completed.
--   merchant_uuid uuid: merchant_id as a UUID, to search by: merchant_uuid = analytics.id('mer_...').

-- What the sweep of a token costs now if its energy is burnt, and if it is lent of the treasury's stake; without the bytes of the sweep itself, which cost the same.
create view analytics.sweep_costs with (security_barrier=true) as
 SELECT c.chain,
    c.token,
    n.token AS fee_token,
    analytics.coins(c.burnt, n.decimals) AS burnt,
    analytics.coins(c.delegated, n.decimals) AS delegated,
    c.way,
    c.detail,
    c.noted_at
   FROM app.sweep_cost c
     JOIN app.chain k ON k.chain = c.chain
     JOIN app.asset n ON n.chain = k.chain AND n.token = k.native_token;
--   chain text: Chain code.
--   token text: Token code.
--   fee_token text: The native coin.
--   burnt numeric: If its energy is burnt, in whole coins.
--   delegated numeric: If its energy is lent: what the transactions for that cost, in whole coins.
--   way text: Which one is used: burnt or delegated.
--   detail text: Why, and how many sweeps the free energy is enough for.
--   noted_at timestamp with time zone: When the node was asked.

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
    analytics.coins(COALESCE(g.amount, 0::numeric), a.decimals) AS gas_on_addresses,
    analytics.coins(COALESCE(f.amount, 0::numeric), a.decimals) AS staked
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
          GROUP BY gas.chain) g ON g.chain = a.chain AND k.native_token = a.token
     LEFT JOIN ( SELECT f_1.chain,
            sum(f_1.amount) AS amount
           FROM ( SELECT stake.chain,
                    stake.amount
                   FROM app.stake
                UNION ALL
                 SELECT unstaking.chain,
                    unstaking.amount
                   FROM app.unstaking
                  WHERE unstaking.reclaimed_at IS NULL) f_1
          GROUP BY f_1.chain) f ON f.chain = a.chain AND k.native_token = a.token;
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
--   staked numeric: The operator's coins that the treasury has staked (analytics.stakes), or unstaked and not back yet: in no other column.

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
CREATE OR REPLACE FUNCTION analytics.coins(amount_base_units numeric, decimals integer) RETURNS numeric LANGUAGE sql IMMUTABLE PARALLEL SAFE as fd76568f033581bebd39c4ba0ef21b32;

-- The UUID in an id of the API, such as dep_0123...; null if the text is no id. A view finds a row by its UUID through an index, but by its id as text only by reading all rows.
CREATE OR REPLACE FUNCTION analytics.id(public_id text) RETURNS uuid LANGUAGE sql IMMUTABLE PARALLEL SAFE as fed62d3fc3783888b465950f9b8136fb;

-- A page of a merchant's statement, as sluice export statement writes it. asked: from and to (moments, or days in the time zone of the merchant; to is not included), as JSON; perhaps chain and token.
CREATE OR REPLACE FUNCTION analytics.statement_file(merchant_prefix text, asked jsonb, after text, size integer) RETURNS TABLE(place text, chain text, token text, created_at timestamp with time zone, type text, amount numeric, deposit_id text, user_external_ref text, external_id text, payout_id text, txid text, payout_address text, payout_status text, day date) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 9687f023bcade1017f6fb4053e11ee79;

-- Merchants, users, deposits, payouts, balances, events and webhooks: what follows from the chains, and what merchants asked for.
create schema app;

-- Chains that an operator started at a later block than the first one that may pay to us. Payments below it are not seen.
create table app.accepted_gap (
  chain text not null,
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
  id uuid not null default uuidv7(),
  merchant_id uuid not null,
  chain text not null,
  token text not null,
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
  chain text not null,
  token text not null,
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
  merchant_id uuid not null,
  chain text not null,
  token text not null,
  amount numeric(78,0) not null, -- Gross balance in base units, without the changes that are not folded yet.
  deposit_count bigint not null, -- Unsettled final deposits, without the changes that are not folded yet.
  held_back numeric(78,0) not null default 0, -- The part of the gross balance that is held back, in base units, without the changes that are not folded yet.
  held_back_count bigint not null default 0, -- Deposits that are held back, without the changes that are not folded yet.
  constraint balance_pkey PRIMARY KEY (merchant_id, chain, token)
);

-- Changes of balances that are not folded into app.balance yet. Written with the change that causes them.
create table app.balance_delta (
  id bigint not null generated always as identity, -- Order of insertion.
  merchant_id uuid not null,
  chain text not null,
  token text not null,
  amount numeric(78,0) not null, -- Change of the gross balance, in base units.
  deposit_count integer not null, -- Change of the number of unsettled final deposits.
  held_back numeric(78,0) not null default 0, -- Change of the part of the gross balance that is held back, in base units.
  held_back_count integer not null default 0, -- Change of the number of deposits that are held back.
  constraint balance_delta_pkey PRIMARY KEY (id)
);
CREATE INDEX balance_delta_pair ON app.balance_delta USING btree (merchant_id, chain, token);
CREATE TRIGGER note_balances AFTER INSERT ON app.balance_delta REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION app.note_balances();

-- Addresses that cannot be swept because the chain refuses it: their deposits are held back until it does not.
create table app.blocked_address (
  chain text not null,
  token text not null,
  address text not null,
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
  chain text not null,
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
  chain text not null,
  address text not null,
  token text not null,
  outpoint text not null default ''::text, -- The output (txid:vout), on chains that have them; else empty.
  ledger numeric not null, -- What it holds by the ledger, in base units.
  on_chain numeric not null, -- What it holds on the chain, in base units.
  from_height integer, -- What the ledger is missing is in this block or above; null if that is not known.
  handed_out_at timestamp with time zone not null, -- When the address was handed out.
  found_at timestamp with time zone not null default clock_timestamp(), -- When it was found.
  constraint chain_difference_pkey PRIMARY KEY (chain, address, token, outpoint)
);

-- Days to sum up again: a deposit of theirs was changed. A row for each change.
create table app.changed_deposit_day (
  day date not null -- The day, in UTC, on which the deposit was first seen.
);

-- Allocation that payouts asked for: a claim gives deposits to a payout, a release gives them back. Carried out in order, for each merchant, chain and token.
create table app.claim (
  id bigint not null generated always as identity, -- Order in which the balance changed.
  kind text not null, -- claim or release.
  payout_id uuid not null,
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
  chain text not null,
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

-- How much of the treasury's stake for energy is lent to each deposit address, by final transactions.
create table app.delegation (
  chain text not null,
  address text not null, -- The deposit address.
  amount numeric not null, -- The stake, in base units of the native coin.
  return_at timestamp with time zone not null, -- When it is taken back: once a sweep of the address has ended, or ten minutes after it was lent.
  constraint delegation_pkey PRIMARY KEY (chain, address),
  constraint delegation_amount_check CHECK ((amount > (0)::numeric))
);
CREATE INDEX delegation_return ON app.delegation USING btree (chain, return_at);

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
CREATE TRIGGER note_deliveries AFTER UPDATE ON app.delivery REFERENCING NEW TABLE AS after FOR EACH STATEMENT EXECUTE FUNCTION app.note_deliveries();

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
  chain text not null,
  token text not null, -- Token code; a contract address if the token is not supported.
  amount numeric(78,0) not null, -- Amount in base units.
  sender text not null, -- Where the value came from.
  address text not null,
  txid text not null,
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
CREATE INDEX deposit_amount_list ON app.deposit USING btree (merchant_id, chain, token, amount, "position") WHERE (credited AND (user_id IS NOT NULL) AND (status = 'final'::text));
CREATE INDEX deposit_collectable ON app.deposit USING btree (merchant_id, chain, token, COALESCE(released, finalisation), seq) INCLUDE (amount) WHERE ((status = 'final'::text) AND credited AND (settlement_id IS NULL) AND (NOT held_back));
CREATE INDEX deposit_created ON app.deposit USING btree (merchant_id, created_at) WHERE credited;
CREATE INDEX deposit_finalisation ON app.deposit USING btree (merchant_id, chain, token, finalisation, seq) WHERE ((status = 'final'::text) AND credited);
CREATE INDEX deposit_held_back ON app.deposit USING btree (chain, token, address) WHERE held_back;
CREATE INDEX deposit_list ON app.deposit USING btree (merchant_id, "position") WHERE (credited AND (user_id IS NOT NULL));
CREATE INDEX deposit_not_credited_amount ON app.deposit USING btree (merchant_id, amount, seq DESC) WHERE ((NOT credited) AND (merchant_id IS NOT NULL));
CREATE INDEX deposit_not_credited_sender ON app.deposit USING btree (merchant_id, lower("left"(sender, 16)), seq DESC) WHERE ((NOT credited) AND (merchant_id IS NOT NULL));
CREATE INDEX deposit_not_credited_user ON app.deposit USING btree (user_id, seq DESC) WHERE ((NOT credited) AND (user_id IS NOT NULL));
CREATE INDEX deposit_part_list ON app.deposit USING btree (merchant_id, chain, token, status, "position") WHERE (credited AND (user_id IS NOT NULL));
CREATE INDEX deposit_payment_request ON app.deposit USING btree (payment_request_id) WHERE (payment_request_id IS NOT NULL);
CREATE INDEX deposit_payout_list ON app.deposit USING btree (settlement_id, status, "position") WHERE ((settlement_id IS NOT NULL) AND credited AND (user_id IS NOT NULL));
CREATE INDEX deposit_pending ON app.deposit USING btree (chain, block_height) WHERE (status = 'pending'::text);
CREATE INDEX deposit_sender_list ON app.deposit USING btree (merchant_id, lower("left"(sender, 16)), "position") WHERE credited;
CREATE INDEX deposit_settlement ON app.deposit USING btree (settlement_id, seq) WHERE (settlement_id IS NOT NULL);
CREATE INDEX deposit_unattributed_address ON app.deposit USING btree (chain, address) WHERE ((status = 'final'::text) AND (NOT credited) AND (merchant_id IS NOT NULL));
CREATE INDEX deposit_uncredited ON app.deposit USING btree (chain, seq DESC) WHERE (NOT credited);
CREATE INDEX deposit_user_list ON app.deposit USING btree (user_id, chain, token, status, "position") WHERE (credited AND (user_id IS NOT NULL));
CREATE TRIGGER adopt_return AFTER INSERT ON app.deposit FOR EACH ROW WHEN (((NOT new.credited) AND (new.merchant_id IS NOT NULL))) EXECUTE FUNCTION app.adopt_deposit();
CREATE TRIGGER final_stays_final BEFORE UPDATE ON app.deposit FOR EACH ROW WHEN (((old.status = 'final'::text) AND ((new.status <> 'final'::text) OR (new.amount <> old.amount)) AND (current_setting('app.decided_by_operator'::text, true) IS DISTINCT FROM 'on'::text))) EXECUTE FUNCTION app.refuse_change();
CREATE TRIGGER name_deposit BEFORE INSERT ON app.deposit FOR EACH ROW WHEN ((new.id IS NULL)) EXECUTE FUNCTION app.name_deposit();
CREATE TRIGGER never_another BEFORE UPDATE ON app.deposit FOR EACH ROW WHEN (((old.id <> new.id) OR (old.chain <> new.chain) OR (old.txid <> new.txid) OR (old.output_index <> new.output_index) OR (old.address <> new.address) OR (old.token <> new.token) OR ((old.status = 'reorged'::text) AND (new.status = 'final'::text)) OR ((old.credited <> new.credited) AND (old.credited OR (current_setting('app.decided_by_operator'::text, true) IS DISTINCT FROM 'on'::text))))) EXECUTE FUNCTION app.refuse_change();
CREATE TRIGGER never_deleted BEFORE DELETE ON app.deposit FOR EACH ROW EXECUTE FUNCTION app.refuse_change();
CREATE TRIGGER note_arrival BEFORE INSERT OR UPDATE OF block_hash ON app.deposit FOR EACH ROW WHEN ((new.payment_request_id IS NOT NULL)) EXECUTE FUNCTION app.note_arrival();
CREATE TRIGGER note_changed_day AFTER INSERT OR UPDATE OF status, amount, credited ON app.deposit FOR EACH ROW WHEN ((new.created_at < (now() - '24:00:00'::interval))) EXECUTE FUNCTION app.note_changed_day();
CREATE TRIGGER note_receipt AFTER INSERT ON app.deposit FOR EACH ROW WHEN ((new.credited AND (new.payment_request_id IS NOT NULL))) EXECUTE FUNCTION app.note_receipt();
CREATE TRIGGER note_receipt_change AFTER UPDATE OF status, amount, credited, block_hash ON app.deposit FOR EACH ROW WHEN ((new.credited AND (new.payment_request_id IS NOT NULL) AND (((((old.status IS DISTINCT FROM new.status) OR (old.amount IS DISTINCT FROM new.amount)) OR (old.credited IS DISTINCT FROM new.credited)) OR (old.came_at IS DISTINCT FROM new.came_at)) OR (old.mined_at IS DISTINCT FROM new.mined_at)))) EXECUTE FUNCTION app.note_receipt();
CREATE TRIGGER withhold_protocol_income BEFORE INSERT ON app.deposit FOR EACH ROW WHEN ((new.credited AND (new.merchant_id IS NOT NULL) AND app.is_from_protocol(new.transfer_kind, new.output_index, new.token))) EXECUTE FUNCTION app.withhold_protocol_income();
CREATE TRIGGER withhold_returned BEFORE INSERT ON app.deposit FOR EACH ROW WHEN ((new.credited AND (new.merchant_id IS NOT NULL))) EXECUTE FUNCTION app.withhold_returned();

-- Credited deposits that are not reorged, for each UTC day up to the last one that is here. Later ones are summed up when they are read.
create table app.deposit_day (
  day date not null, -- The day, in UTC, on which the deposits were first seen.
  merchant_id uuid not null,
  chain text not null,
  token text not null,
  deposit_count bigint not null, -- How many there are.
  amount numeric not null, -- Their sum, in base units.
  final_count bigint not null, -- How many of them are final.
  final_amount numeric not null, -- The sum of these, in base units.
  constraint deposit_day_day_merchant_id_chain_token_key UNIQUE (day, merchant_id, chain, token)
);

-- Unattributed value that is not shown to operators any more: all of a token that Sluice does not support, also what is still to come, or one deposit.
create table app.dismissed (
  chain text not null,
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
CREATE UNIQUE INDEX event_list ON app.event USING btree (merchant_id, type, sequence) WHERE ((sequence IS NOT NULL) AND (NOT is_test));
CREATE INDEX event_unsequenced ON app.event USING btree ("position") WHERE (sequence IS NULL);

-- The operator's native coins on deposit addresses: what funds brought, less what the addresses' own transactions cost and defunds took back.
create table app.gas (
  chain text not null,
  address text not null, -- The deposit address.
  amount numeric not null default 0, -- Sum of the account gas for the address, in base units.
  reserved numeric not null default 0, -- Highest network fees of the address's sweeps and defunds under way, and what these defunds move, in base units.
  used_at timestamp with time zone not null default now(), -- When its amount, or what is reserved, last changed.
  constraint gas_pkey PRIMARY KEY (chain, address)
);
CREATE INDEX gas_largest ON app.gas USING btree (chain, amount DESC) WHERE (amount > (0)::numeric);

-- Final, credited money on a deposit address that no sweep has taken: the sum of its entries in the ledger.
create table app.holding (
  chain text not null,
  address text not null,
  token text not null,
  merchant_id uuid not null, -- The merchant whose user has the address.
  amount numeric not null, -- Amount in base units.
  constraint holding_pkey PRIMARY KEY (chain, address, token)
);
CREATE INDEX holding_largest ON app.holding USING btree (merchant_id, chain, token, amount DESC) WHERE (amount > (0)::numeric);

-- Idempotency keys of payouts that were accepted, for ever.
create table app.idempotency_key (
  merchant_id uuid not null,
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

-- Sums of the entries of the ledger, for each UTC day up to the last one that is here. Later entries are summed up when they are read.
create table app.ledger_day (
  day date not null, -- The day, in UTC, on which the entries were posted.
  kind text not null, -- Kind of the entries.
  account text not null, -- Account of the entries.
  chain text not null,
  token text not null,
  merchant_id uuid, -- The merchant; null for the operator's own and for unattributed value.
  amount numeric not null, -- Their sum, in base units.
  entry_count bigint not null, -- How many there are.
  constraint ledger_day_day_kind_account_chain_token_merchant_id_key UNIQUE NULLS NOT DISTINCT (day, kind, account, chain, token, merchant_id)
);

-- Double-entry bookkeeping of everything that moved. The entries of one posting add up to zero for each token.
create table app.ledger_entry (
  id bigint not null generated always as identity, -- Order of insertion.
  posting bigint not null, -- The movement that the entry is a part of.
  kind text not null, -- deposit (deposits became final, or an operator credited one), top_up (the treasury was paid), reorg (a final deposit was taken back), claim and release (of a payout), payout, sweep, withdrawal, return (of unattributed value, in each of its steps), network_fee, second_payment (what left although its payment had ended), fund (gas for an address), defund (gas of an address, back to the treasury), stake and unstake (the operator's coins, for energy or bandwidth, and back).
  reference text not null, -- What caused it: finalisation:<chain>:<number>, or the id of the deposit, the payout or the outgoing payment.
  account text not null, -- address, treasury, merchant, payout, fees, network, operator, unattributed, gas or staked (explained in db/functions/ledger/post.sql).
  chain text not null,
  token text not null,
  merchant_id uuid, -- The merchant that the movement belongs to; null for the operator's own and for unattributed value.
  address text, -- The address, for the accounts address and gas; else null.
  amount numeric not null, -- Debit (positive) or credit (negative), in base units.
  created_at timestamp with time zone not null default clock_timestamp(), -- When it was posted.
  constraint ledger_entry_pkey PRIMARY KEY (id),
  constraint ledger_entry_account_name CHECK ((account = ANY (ARRAY['address'::text, 'treasury'::text, 'merchant'::text, 'payout'::text, 'fees'::text, 'network'::text, 'operator'::text, 'unattributed'::text, 'gas'::text, 'staked'::text]))),
  constraint ledger_entry_amount_check CHECK ((amount <> (0)::numeric)),
  constraint ledger_entry_kind CHECK ((kind = ANY (ARRAY['deposit'::text, 'top_up'::text, 'reorg'::text, 'claim'::text, 'release'::text, 'payout'::text, 'sweep'::text, 'withdrawal'::text, 'return'::text, 'network_fee'::text, 'second_payment'::text, 'fund'::text, 'defund'::text, 'stake'::text, 'unstake'::text])))
);
CREATE INDEX ledger_entry_created ON app.ledger_entry USING brin (created_at timestamptz_minmax_multi_ops) WITH (autosummarize='on');
CREATE INDEX ledger_entry_gas ON app.ledger_entry USING btree (chain, created_at) INCLUDE (amount) WHERE ((account = 'treasury'::text) AND (kind = ANY (ARRAY['network_fee'::text, 'fund'::text, 'defund'::text])));
CREATE INDEX ledger_entry_reference ON app.ledger_entry USING btree (reference);
CREATE INDEX ledger_entry_statement ON app.ledger_entry USING btree (merchant_id, chain, token, created_at, id) WHERE (account = 'merchant'::text);
CREATE INDEX ledger_entry_sums ON app.ledger_entry USING btree (account, chain, token, merchant_id) INCLUDE (amount) WHERE (account <> ALL (ARRAY['address'::text, 'merchant'::text]));
CREATE INDEX ledger_entry_unattributed ON app.ledger_entry USING btree (chain, address, token) INCLUDE (amount) WHERE ((account = 'address'::text) AND (merchant_id IS NULL));
CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON app.ledger_entry FOR EACH ROW EXECUTE FUNCTION app.refuse_entry_change();
CREATE TRIGGER balanced AFTER INSERT ON app.ledger_entry REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION app.assert_balanced();
CREATE TRIGGER note_postings AFTER INSERT ON app.ledger_entry REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION app.note_postings();

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
  time_zone text not null default 'UTC'::text, -- In which the dashboard shows times and takes days, by its name in the IANA database.
  constraint merchant_pkey PRIMARY KEY (id),
  constraint merchant_cancels_per_day_check CHECK ((cancels_per_day >= 0)),
  constraint merchant_fee_bps_check CHECK (((fee_bps >= 0) AND (fee_bps <= 10000))),
  constraint merchant_payment_tolerance_bps_check CHECK (((payment_tolerance_bps >= 0) AND (payment_tolerance_bps <= 5000))),
  constraint merchant_prefix_check CHECK ((prefix ~ '^[a-z0-9]{2,12}$'::text)),
  constraint merchant_prefix_key UNIQUE (prefix)
);
CREATE TRIGGER announce_suspension AFTER UPDATE OF suspended_at ON app.merchant FOR EACH ROW WHEN (((old.suspended_at IS NULL) AND (new.suspended_at IS NOT NULL))) EXECUTE FUNCTION app.announce_suspension();
CREATE TRIGGER note_fee AFTER INSERT OR UPDATE OF fee_bps ON app.merchant FOR EACH ROW EXECUTE FUNCTION app.note_fee();

-- What the page of a payment request shows of its merchant. A merchant without a row, and each null, is shown as before.
create table app.merchant_brand (
  merchant_id uuid not null,
  name text, -- Instead of the name of the account.
  accent text, -- The colour of its buttons, such as #0b5cad.
  site_url text, -- A link to the merchant's site.
  help_url text, -- A link to the merchant's help.
  logo bytea, -- A PNG, made by the dashboard from what was uploaded.
  constraint merchant_brand_pkey PRIMARY KEY (merchant_id),
  constraint merchant_brand_accent_check CHECK ((accent ~ '^#[0-9a-f]{6}$'::text)),
  constraint merchant_brand_help_url_check CHECK (((help_url ~ '^https://'::text) AND (length(help_url) <= 500))),
  constraint merchant_brand_logo_check CHECK ((octet_length(logo) <= 524288)),
  constraint merchant_brand_merchant_id_fkey FOREIGN KEY (merchant_id) REFERENCES app.merchant(id),
  constraint merchant_brand_name_check CHECK (((length(name) >= 1) AND (length(name) <= 60))),
  constraint merchant_brand_site_url_check CHECK (((site_url ~ '^https://'::text) AND (length(site_url) <= 500)))
);

-- Chains that were ever enabled for a merchant.
create table app.merchant_chain (
  merchant_id uuid not null,
  chain text not null,
  enabled boolean not null default true, -- False after it was disabled: no new addresses; existing ones are still watched and credited.
  changed_at timestamp with time zone not null default clock_timestamp(), -- When it was last enabled or disabled.
  constraint merchant_chain_pkey PRIMARY KEY (merchant_id, chain),
  constraint merchant_chain_merchant_id_fkey FOREIGN KEY (merchant_id) REFERENCES app.merchant(id)
);

-- Signed transactions, stored before they are broadcast. At most one of an outgoing payment can be mined.
create table app.outgoing_attempt (
  chain text not null,
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
CREATE INDEX outgoing_attempt_txid_beginning ON app.outgoing_attempt USING btree (txid text_pattern_ops);

-- Outgoing payments: what we pay for one purpose, a payout's payment, a sweep or a withdrawal.
create table app.outgoing_payment (
  id uuid not null default uuidv7(),
  kind text not null, -- payout, sweep, withdrawal, fund (gas for the sweep of an address), defund (gas that its address does not need, back to the treasury), delegate (energy for the sweep of an address), undelegate (it is taken back), stake, unstake, reclaim (what was unstaked comes back), or cancel: a nonce that only has to be used up, because its payout went on without it, or because nobody knows what it was for.
  chain text not null,
  token text not null, -- Token that it moves.
  amount numeric(78,0) not null, -- How much, in base units; what an attempt moves may be less for a sweep. What is staked or lent stays the treasury's. 0 for a cancel.
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
  for_token text, -- Of a fund, or a delegate: the token whose sweep it is for; else null.
  from_gas boolean not null default false, -- Whether its network fee is paid with gas on its address (app.gas), and the address pays: it sweeps a token, or is a defund.
  resource text, -- What is staked or lent: energy or bandwidth; null for all other kinds.
  constraint outgoing_payment_pkey PRIMARY KEY (id),
  constraint outgoing_payment_amount CHECK (((amount > (0)::numeric) OR ((kind = 'cancel'::text) AND (amount = (0)::numeric)))),
  constraint outgoing_payment_chain_conflict_key_key UNIQUE (chain, conflict_key),
  constraint outgoing_payment_check CHECK ((num_nonnulls(nonce, first_input) <= 1)),
  constraint outgoing_payment_for_token CHECK (((for_token IS NULL) OR (kind = ANY (ARRAY['fund'::text, 'delegate'::text])))),
  constraint outgoing_payment_kind CHECK ((kind = ANY (ARRAY['payout'::text, 'sweep'::text, 'withdrawal'::text, 'cancel'::text, 'fund'::text, 'defund'::text, 'delegate'::text, 'undelegate'::text, 'stake'::text, 'unstake'::text, 'reclaim'::text]))),
  constraint outgoing_payment_outcome_check CHECK ((outcome = ANY (ARRAY['done'::text, 'reverted'::text, 'cancelled'::text, 'conflicted'::text, 'expired'::text]))),
  constraint outgoing_payment_payout_id_fkey FOREIGN KEY (payout_id) REFERENCES app.payout(id),
  constraint outgoing_payment_resource CHECK ((((resource IS NOT NULL) = (kind = ANY (ARRAY['delegate'::text, 'undelegate'::text, 'stake'::text, 'unstake'::text]))) AND (resource = ANY (ARRAY['energy'::text, 'bandwidth'::text])))),
  constraint outgoing_payment_status_check CHECK ((status = ANY (ARRAY['allocated'::text, 'live'::text, 'final'::text])))
);
CREATE INDEX outgoing_payment_created ON app.outgoing_payment USING btree (created_at);
CREATE INDEX outgoing_payment_delegation ON app.outgoing_payment USING btree (chain, recipient, created_at) WHERE (kind = ANY (ARRAY['delegate'::text, 'undelegate'::text]));
CREATE INDEX outgoing_payment_due ON app.outgoing_payment USING btree (chain, next_step_at) WHERE (next_step_at IS NOT NULL);
CREATE INDEX outgoing_payment_expired_sweep ON app.outgoing_payment USING btree (chain, source, final_at) WHERE ((kind = 'sweep'::text) AND (outcome = 'expired'::text));
CREATE INDEX outgoing_payment_failed_fund ON app.outgoing_payment USING btree (merchant_id, chain, for_token, final_at) WHERE ((kind = ANY (ARRAY['fund'::text, 'delegate'::text])) AND (outcome <> 'done'::text));
CREATE INDEX outgoing_payment_failed_sweep ON app.outgoing_payment USING btree (merchant_id, chain, token, final_at) WHERE ((kind = 'sweep'::text) AND (outcome <> 'done'::text));
CREATE INDEX outgoing_payment_fund ON app.outgoing_payment USING btree (chain, recipient, for_token, final_at) WHERE (kind = ANY (ARRAY['fund'::text, 'delegate'::text]));
CREATE UNIQUE INDEX outgoing_payment_one_delegation ON app.outgoing_payment USING btree (chain, recipient) WHERE ((kind = ANY (ARRAY['delegate'::text, 'undelegate'::text])) AND (status <> 'final'::text) AND (NOT recovered));
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
  chain text not null,
  txid text not null, -- The transaction that made it.
  vout integer not null, -- Its position there.
  address text not null,
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

-- The sites that may show the pages of a merchant's payment requests in a frame. Without a row, none may.
create table app.payment_page_site (
  merchant_id uuid not null,
  origin text not null, -- As browsers compare it (RFC 6454): https, or http on the machine itself; the host in ASCII; no port that is the usual one.
  constraint payment_page_site_pkey PRIMARY KEY (merchant_id, origin),
  constraint payment_page_site_merchant_id_fkey FOREIGN KEY (merchant_id) REFERENCES app.merchant(id),
  constraint payment_page_site_origin_check CHECK (((origin ~ '^(https://[a-z0-9]([a-z0-9.-]*[a-z0-9])?|http://(localhost|127\.0\.0\.1))(:[1-9][0-9]{0,4})?$'::text) AND (length(origin) <= 200)))
);

-- What merchants asked to be paid, each to an address of its own, and what was paid of it. Never deleted.
create table app.payment_request (
  id uuid not null default uuidv7(), -- Id; merchants know the request by external_id.
  merchant_id uuid not null,
  external_id text not null, -- The merchant's reference, which begins with its prefix.
  chain text not null,
  token text not null,
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
CREATE INDEX payment_request_amount ON app.payment_request USING btree (merchant_id, chain, token, amount, seq DESC);
CREATE INDEX payment_request_asset_page ON app.payment_request USING btree (merchant_id, chain, token, "position" DESC) WHERE ("position" IS NOT NULL);
CREATE INDEX payment_request_created ON app.payment_request USING btree (merchant_id, created_at);
CREATE INDEX payment_request_decision ON app.payment_request USING btree (decide_at) WHERE (decide_at IS NOT NULL);
CREATE INDEX payment_request_expiry ON app.payment_request USING btree (expires_at) WHERE ((expired_at IS NULL) AND (status = ANY (ARRAY['awaiting'::text, 'detected'::text])));
CREATE INDEX payment_request_kind_page ON app.payment_request USING btree (merchant_id, status, chain, token, seq DESC);
CREATE INDEX payment_request_open ON app.payment_request USING btree (chain, status) WHERE (status = ANY (ARRAY['awaiting'::text, 'detected'::text]));
CREATE INDEX payment_request_other_form ON app.payment_request USING btree (merchant_id, NORMALIZE(external_id, NFC)) WHERE (NOT (external_id IS NFC NORMALIZED));
CREATE UNIQUE INDEX payment_request_page ON app.payment_request USING btree (merchant_id, "position" DESC) WHERE ("position" IS NOT NULL);
CREATE INDEX payment_request_paid ON app.payment_request USING btree (merchant_id, paid_at) WHERE (paid_at IS NOT NULL);
CREATE INDEX payment_request_received ON app.payment_request USING btree (merchant_id, chain, token, received, seq DESC) WHERE ((received <> amount) AND (received > (0)::numeric));
CREATE INDEX payment_request_ref_beginning ON app.payment_request USING btree (merchant_id, external_id COLLATE "C");
CREATE INDEX payment_request_status_page ON app.payment_request USING btree (merchant_id, status, seq DESC);
CREATE INDEX payment_request_underpaid_page ON app.payment_request USING btree (merchant_id, "position" DESC) WHERE (status = 'underpaid'::text);
CREATE TRIGGER note_made AFTER INSERT ON app.payment_request FOR EACH ROW EXECUTE FUNCTION app.note_requests();
CREATE TRIGGER note_status AFTER UPDATE OF status ON app.payment_request FOR EACH ROW WHEN ((new.status <> old.status)) EXECUTE FUNCTION app.note_requests();

-- A payout (settlement): the balance of a merchant's chain and token, on its way to the merchant.
create table app.payout (
  id uuid not null default uuidv7(), -- Id; shown as pay_ and 32 hex digits.
  seq bigint not null generated always as identity, -- Order of creation, for pages.
  merchant_id uuid not null,
  chain text not null,
  token text not null,
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
CREATE INDEX payout_finished ON app.payout USING btree (merchant_id, chain, token, finished_at) INCLUDE (net, created_at);
CREATE INDEX payout_open ON app.payout USING btree (next_step_at) WHERE (status <> ALL (ARRAY['completed'::text, 'failed'::text]));
CREATE INDEX payout_page ON app.payout USING btree (merchant_id, status, chain, token, seq DESC);
CREATE TRIGGER contract BEFORE UPDATE ON app.payout FOR EACH ROW EXECUTE FUNCTION app.check_payout_change();
CREATE TRIGGER never_deleted BEFORE DELETE ON app.payout FOR EACH ROW EXECUTE FUNCTION app.refuse_payout_delete();
CREATE TRIGGER note_paid AFTER UPDATE OF status ON app.payout FOR EACH ROW WHEN (((new.status = 'completed'::text) AND (old.status <> 'completed'::text))) EXECUTE FUNCTION app.note_paid();

-- Where a merchant wants payouts of a chain to go.
create table app.payout_address (
  merchant_id uuid not null,
  chain text not null,
  address text not null, -- The address, as people see it.
  updated_at timestamp with time zone not null default clock_timestamp(), -- When it was registered or last changed.
  constraint payout_address_pkey PRIMARY KEY (merchant_id, chain),
  constraint payout_address_merchant_id_fkey FOREIGN KEY (merchant_id) REFERENCES app.merchant(id)
);

-- The sweeps that a payout waits for, its own and those of others.
create table app.payout_sweep (
  payout_id uuid not null,
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
  chain text not null,
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

-- Cumulative totals of each merchant by quarter of an hour, without the changes that are not folded yet. Read app.total_at.
create table app.running_total (
  merchant_id uuid not null,
  series text not null, -- deposit, deposit_lost, payout, fee, adjustment: how much each changed the balance. balance, held_back: what there was, and how many deposits that is. paid: the net of payouts, when they are completed. seen_to_final: deposits that became final, and for how many milliseconds they were seen before. requests: payment requests by status. delivered, undelivered: ended deliveries, and how many milliseconds they took. failed_attempts: attempts to deliver that failed.
  about text not null, -- What it is about: CHAIN:TOKEN for money; else a chain, a status, or the id of an endpoint.
  until timestamp with time zone not null, -- End of a quarter of an hour: everything before it counts.
  count bigint not null, -- How many, since the beginning.
  amount numeric not null, -- Base units or milliseconds, since the beginning.
  constraint running_total_pkey PRIMARY KEY (merchant_id, series, about, until)
);

-- Transactions of ours in a block whose outgoing payment ended in another way; those that are final are booked, as second payments or as fees.
create table app.second_payment (
  chain text not null,
  txid text not null,
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
  chain text not null,
  address text not null,
  next_nonce integer not null default 0, -- The nonce that its next outgoing payment gets.
  constraint sender_pkey PRIMARY KEY (chain, address)
);

-- Native coins that the treasury has staked, lent or not.
create table app.stake (
  chain text not null,
  resource text not null, -- What they are staked for: energy or bandwidth.
  amount numeric not null, -- How much, in base units.
  constraint stake_pkey PRIMARY KEY (chain, resource),
  constraint stake_resource_check CHECK ((resource = ANY (ARRAY['energy'::text, 'bandwidth'::text])))
);

-- What the sweep of a token costs now by each way, as the worker last asked the node; only where there is more than one.
create table app.sweep_cost (
  chain text not null,
  token text not null,
  burnt numeric not null, -- If its energy is burnt, in base units of the native coin.
  delegated numeric not null, -- If the treasury lends it energy: what the transactions for that cost.
  way text not null, -- Which one is used: burnt or delegated.
  detail text not null, -- Why, in words for operators.
  noted_at timestamp with time zone not null default clock_timestamp(), -- When the node was asked.
  constraint sweep_cost_pkey PRIMARY KEY (chain, token),
  constraint sweep_cost_way_check CHECK ((way = ANY (ARRAY['burnt'::text, 'delegated'::text])))
);

-- Credited deposits that were final, and were taken back: what they were final by.
create table app.taken_back (
  deposit_id uuid not null,
  merchant_id uuid not null,
  chain text not null,
  token text not null,
  finalisation bigint not null, -- The number that the deposit had (app.deposit.finalisation).
  amount numeric(78,0) not null, -- What it had then, in base units: it may come back with another amount.
  constraint taken_back_pkey PRIMARY KEY (merchant_id, chain, token, finalisation, deposit_id)
);

-- Tokens that an operator added to the running service; those of the settings are only in app.asset.
create table app.token (
  chain text not null,
  token text not null,
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

-- How far the totals were filled from the ledger that was there before them. One row.
create table app.total_backfill (
  is_only boolean not null default true, -- Always true, so that there is one row.
  done_up_to bigint not null, -- The entries up to this id are in the totals.
  last_entry bigint not null, -- The last entry that was there before; 0 if there was none.
  since timestamp with time zone not null, -- Since when all series are kept; before, only those of the ledger are known.
  constraint total_backfill_pkey PRIMARY KEY (is_only),
  constraint total_backfill_is_only_check CHECK (is_only)
);

-- Changes of app.running_total that are not folded yet.
create table app.total_change (
  id bigint not null generated always as identity,
  merchant_id uuid not null,
  series text not null, -- As in app.running_total.
  about text not null, -- As in app.running_total.
  at timestamp with time zone not null, -- When it happened.
  count bigint not null, -- How many more; below zero: fewer.
  amount numeric not null, -- How much more, in base units or milliseconds.
  constraint total_change_pkey PRIMARY KEY (id)
);
CREATE INDEX total_change_series ON app.total_change USING btree (merchant_id, series, about);

-- Payment requests whose receipts a running transaction changed; each row makes one update at COMMIT. Empty between transactions.
create unlogged table app.touched_payment (
  txn xid8 not null, -- The transaction.
  payment_request_id uuid not null, -- The payment request.
  constraint touched_payment_pkey PRIMARY KEY (txn, payment_request_id)
);
CREATE CONSTRAINT TRIGGER refresh AFTER INSERT ON app.touched_payment DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION app.refresh_touched_payment();

-- What the treasury holds by the ledger, and what is promised to transactions that are not final. Its row locks order everything that spends from it.
create table app.treasury (
  chain text not null,
  token text not null,
  balance numeric not null default 0, -- Sum of the account treasury, in base units.
  reserved numeric not null default 0, -- Amounts and highest network fees of transactions under way, less what payments bring with them (app.outgoing_payment.swept_in), and what was swept for returns that have not left yet; in base units.
  constraint treasury_pkey PRIMARY KEY (chain, token)
);

-- How much of the treasury belongs to each merchant. No merchant is paid from another merchant's share.
create table app.treasury_share (
  chain text not null,
  token text not null,
  merchant_id uuid not null,
  amount numeric not null default 0, -- What was swept from the merchant's addresses, and what sweeping it cost them, less the gross of completed payouts, in base units. Below zero: the operator has advanced it.
  reserved numeric not null default 0, -- Gross of the payments under way, less what they bring with them from the merchant's addresses (app.outgoing_payment.swept_in), in base units.
  constraint treasury_share_pkey PRIMARY KEY (chain, token, merchant_id),
  constraint treasury_share_merchant_id_fkey FOREIGN KEY (merchant_id) REFERENCES app.merchant(id)
);

-- What an operator decided about unattributed value: to credit it to the merchant that has the address, or to return it.
create table app.unattributed_decision (
  deposit_id uuid not null,
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
  chain text not null,
  txid text not null,
  incident_id bigint not null, -- The incident unknown_transaction of its sender that was open when it was seen.
  moved jsonb, -- What it moved, as its block shows it: [{sender, recipient, token, amount}], in base units; null if its block was read by an older version.
  constraint unknown_transaction_pkey PRIMARY KEY (chain, txid),
  constraint unknown_transaction_incident_id_fkey FOREIGN KEY (incident_id) REFERENCES app.incident(id)
);
CREATE INDEX unknown_transaction_incident ON app.unknown_transaction USING btree (incident_id);

-- Native coins that were unstaked, and that the chain holds for 14 days.
create table app.unstaking (
  chain text not null,
  txid text not null, -- The transaction that unstaked them; recount:<time> for one that is in no copy.
  resource text not null, -- What they were staked for.
  amount numeric not null, -- How much, in base units.
  free_at timestamp with time zone not null, -- From when on the next transaction that unstakes, or reclaims, brings them back, by the time of the block before it.
  reclaimed_at timestamp with time zone, -- When they were back in the treasury; null before.
  constraint unstaking_pkey PRIMARY KEY (chain, txid),
  constraint unstaking_amount_check CHECK ((amount > (0)::numeric))
);
CREATE INDEX unstaking_open ON app.unstaking USING btree (chain) WHERE (reclaimed_at IS NULL);

-- An end user of a merchant.
create table app."user" (
  id uuid not null default uuidv7(), -- Id; shown as usr_ and 32 hex digits.
  merchant_id uuid not null,
  external_ref text not null, -- The merchant's own id of the user.
  seq bigint not null generated always as identity, -- Order of creation, for pages.
  created_at timestamp with time zone not null default clock_timestamp(), -- When the user was made.
  metadata jsonb not null default '{}'::jsonb, -- What the merchant notes about the user: an object of strings.
  constraint user_pkey PRIMARY KEY (id),
  constraint user_merchant_id_external_ref_key UNIQUE (merchant_id, external_ref),
  constraint user_merchant_id_fkey FOREIGN KEY (merchant_id) REFERENCES app.merchant(id)
);
CREATE INDEX user_created ON app."user" USING brin (created_at timestamptz_minmax_multi_ops) WITH (autosummarize='on');
CREATE INDEX user_created_page ON app."user" USING btree (merchant_id, created_at);
CREATE INDEX user_other_form ON app."user" USING btree (merchant_id, NORMALIZE(external_ref, NFC)) WHERE (NOT (external_ref IS NFC NORMALIZED));
CREATE INDEX user_page ON app."user" USING btree (merchant_id, seq DESC);
CREATE INDEX user_ref_beginning ON app."user" USING btree (merchant_id, external_ref COLLATE "C");

-- Where a merchant wants events to be delivered.
create table app.webhook_endpoint (
  id uuid not null default uuidv7(), -- Id; shown as whe_ and 32 hex digits.
  merchant_id uuid not null,
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
--   chain text
--   seq bigint: Its entry in the chain's stream of custody.journal.
--   txid text
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
--   merchant_id uuid
--   chain text
--   token text
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
--   merchant_id uuid
--   chain text
--   token text
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
--   chain text
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
--   chain text
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
--   chain text
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
--   deposit_id uuid
--   chain text
--   token text
--   address text: The address that it arrived at.
--   amount numeric(78,0): What is to be returned, in base units.
--   destination text: Where it goes.
--   treasury text: The treasury of the chain.
--   step text: What is to be begun: sweep (to the treasury) or withdrawal (to the destination).

-- Sweeps of merchants' addresses, and what should ready their addresses for them (funds, delegates), that failed within a day and after the last one of the address that did not.
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
        CASE s.kind
            WHEN 'fund'::text THEN 'the gas for it was not sent: '::text
            ELSE 'it was lent no energy: '::text
        END || app.why_failed(s.*) AS failure
   FROM app.outgoing_payment s
  WHERE (s.kind = ANY (ARRAY['fund'::text, 'delegate'::text])) AND s.outcome <> 'done'::text AND NOT (s.kind = 'delegate'::text AND s.outcome = 'cancelled'::text) AND s.final_at > (clock_timestamp() - '1 day'::interval) AND NOT (EXISTS ( SELECT
           FROM app.outgoing_payment d
          WHERE (d.kind = ANY (ARRAY['fund'::text, 'delegate'::text])) AND d.kind = s.kind AND d.chain = s.chain AND d.recipient = s.recipient AND d.outcome = 'done'::text AND d.final_at >= s.final_at));
--   chain text
--   token text
--   address text: The address that was to be swept.
--   merchant_id uuid: Whose money it holds.
--   outcome text: How it ended: as app.outgoing_payment.outcome.
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
--   chain text
--   txid text: The transaction that made it.
--   vout integer: Its position there.
--   address text
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
         SELECT 'staked'::text,
            g.chain,
            app.native_token(g.chain) AS native_token,
            NULL::uuid,
            NULL::text,
            sum(g.kept) AS sum,
            sum(g.posted) AS sum
           FROM ( SELECT stake.chain,
                    stake.amount AS kept,
                    0 AS posted
                   FROM app.stake
                UNION ALL
                 SELECT unstaking.chain,
                    unstaking.amount,
                    0
                   FROM app.unstaking
                  WHERE unstaking.reclaimed_at IS NULL
                UNION ALL
                 SELECT entry.chain,
                    0,
                    entry.amount
                   FROM entry
                  WHERE entry.account = 'staked'::text) g
          GROUP BY g.chain
        UNION ALL
         SELECT 'lent'::text,
            g.chain,
            app.native_token(g.chain) AS native_token,
            NULL::uuid,
            g.address,
            sum(g.kept) AS sum,
            sum(g.posted) AS sum
           FROM ( SELECT delegation.chain,
                    delegation.address,
                    delegation.amount AS kept,
                    0 AS posted
                   FROM app.delegation
                UNION ALL
                 SELECT s.chain,
                    s.recipient,
                    0,
                        CASE s.kind
                            WHEN 'delegate'::text THEN s.amount
                            ELSE - s.amount
                        END AS "case"
                   FROM app.outgoing_payment s
                  WHERE (s.kind = ANY (ARRAY['delegate'::text, 'undelegate'::text])) AND s.outcome = 'done'::text
                UNION ALL
                 SELECT s.chain,
                    s.recipient,
                    0,
                        CASE s.kind
                            WHEN 'delegate'::text THEN s.amount
                            ELSE - s.amount
                        END AS "case"
                   FROM app.second_payment n
                     JOIN app.outgoing_payment s ON s.id = n.outgoing_payment_id
                  WHERE (s.kind = ANY (ARRAY['delegate'::text, 'undelegate'::text])) AND n.booked_at IS NOT NULL AND n.txid IS DISTINCT FROM s.txid AND (EXISTS ( SELECT
                           FROM chain.confirmed_tx i
                          WHERE i.chain = n.chain AND i.txid = n.txid AND i.success))) g
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
                  WHERE entry.kind = 'sweep'::text AND entry.account = 'treasury'::text OR entry.kind = 'network_fee'::text AND entry.account = 'address'::text AND entry.merchant_id IS NOT NULL OR entry.kind = 'payout'::text AND entry.account = 'payout'::text) s
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
                  WHERE s.status <> 'final'::text AND ((s.kind = ANY (ARRAY['withdrawal'::text, 'fund'::text, 'stake'::text])) OR s.kind = 'payout'::text AND (p.status = ANY (ARRAY['swept'::text, 'paying'::text])))
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
--   what text: holding, treasury, treasury_share, treasury_reserved, share_reserved, gas (the operator's, on an address), gas_reserved, staked (the treasury's coins), lent (of them, to an address), merchant (the balance), payout (claimed), output (unspent outputs against the holding of an address, or the treasury) or unattributed.
--   chain text
--   token text
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
    n.net,
    ( SELECT row_to_json(i.*) AS row_to_json
           FROM ( SELECT b.chain,
                    b.token,
                    app."decimal"(b.amount, a.decimals) AS gross,
                    app."decimal"(f.fee, a.decimals) AS fee,
                    app."decimal"(n.net, a.decimals) AS net,
                    app."decimal"(b.held_back, a.decimals) AS held_back,
                    b.deposit_count AS "depositCount") i) AS item
   FROM app.balance_now b
     JOIN app.merchant m ON m.id = b.merchant_id
     LEFT JOIN app.asset a ON a.chain = b.chain AND a.token = b.token
     CROSS JOIN LATERAL ( SELECT div(GREATEST(b.amount - b.held_back, 0::numeric) * m.fee_bps::numeric, 10000::numeric) AS fee) f
     CROSS JOIN LATERAL ( SELECT b.amount - b.held_back - f.fee AS net) n;
--   merchant_id uuid
--   chain text
--   token text
--   gross numeric: Final deposits that no payout has collected, in base units.
--   fee numeric: Service fee, in base units.
--   deposit_count bigint: Number of deposits in it.
--   held_back numeric: The part of gross that no payout can claim yet, in base units.
--   net numeric: What a payout made now would pay, in base units: gross - held_back - fee.
--   item json: The balance, as its merchant sees it.

-- Deposits of days that are not summed up in app.deposit_day.
create view app.open_deposit as
 SELECT d.created_at,
    d.merchant_id,
    d.chain,
    d.token,
    d.amount,
    d.status
   FROM app.merchant m
     JOIN app.deposit d ON d.merchant_id = m.id AND d.credited AND d.status <> 'reorged'::text AND d.created_at >= ((( SELECT COALESCE(max(deposit_day.day) + 1, '-infinity'::date) AS "coalesce"
           FROM app.deposit_day))::timestamp without time zone AT TIME ZONE 'UTC'::text) AND d.created_at <= 'infinity'::timestamp with time zone;
--   created_at timestamp with time zone: When it was first seen.
--   merchant_id uuid
--   chain text
--   token text
--   amount numeric(78,0): Amount in base units.
--   status text: pending or final.

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

-- Entries of the ledger of days that are not summed up in app.ledger_day.
create view app.open_ledger_entry as
 SELECT created_at,
    kind,
    account,
    chain,
    token,
    merchant_id,
    amount
   FROM app.ledger_entry e
  WHERE created_at >= ((( SELECT COALESCE(max(ledger_day.day) + 1, '-infinity'::date) AS "coalesce"
           FROM app.ledger_day))::timestamp without time zone AT TIME ZONE 'UTC'::text) AND created_at <= 'infinity'::timestamp with time zone;
--   created_at timestamp with time zone: When it was posted.
--   kind text: As in app.ledger_entry.
--   account text: As in app.ledger_entry.
--   chain text
--   token text
--   merchant_id uuid
--   amount numeric: Debit (positive) or credit (negative), in base units.

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
--   chain text
--   txid text
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
--   merchant_id uuid
--   chain text
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
--   deposit_id uuid
--   seq bigint: Order in which deposits were first seen.
--   txid text
--   output_index integer: Position inside the transaction.
--   amount numeric(78,0): Amount in base units.
--   status text: pending or final.
--   block_height integer: Block that holds it; null while it is in none.
--   settlement_id uuid: The payout that collected it; null until then.
--   finalisation bigint: Number, on its chain, of the time at which it became final; null before.
--   created_at timestamp with time zone: When it was first seen.
--   finalised_at timestamp with time zone: When it became final.
--   late boolean: True if it was neither seen nor mined before the request expired or was cancelled, or was in no block for too long afterwards (payment_request.late_after).
--   merchant_id uuid
--   external_id text: The merchant's reference of the payment request.
--   chain text
--   token text
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
--   chain text
--   reason text: For programs: the kind of the incident that halts it, servers_contradict, or why its indexer waits.
--   message text: For people.
--   since timestamp with time zone
--   way_out text: What to do about it; null where the message says so.

-- Each movement of a merchant's balance, and behind a finalisation each of its deposits.
create view app.statement_line with (security_barrier=true) as
 SELECT e.merchant_id,
    e.chain,
    e.token,
    e.created_at AS at,
    e.id AS entry,
    l.seq AS part,
    l.type,
    l.amount,
    l.deposit_id,
    l.payout_id
   FROM app.ledger_entry e
     CROSS JOIN LATERAL ( SELECT
                CASE
                    WHEN starts_with(e.reference, 'finalisation:'::text) THEN split_part(e.reference, ':'::text, 3)::bigint
                    ELSE NULL::bigint
                END AS finalisation,
                CASE
                    WHEN NOT starts_with(e.reference, 'finalisation:'::text) THEN e.reference::uuid
                    ELSE NULL::uuid
                END AS subject) k
     CROSS JOIN LATERAL ( SELECT d.seq,
            'deposit'::text AS type,
            d.amount,
            d.id AS deposit_id,
            NULL::uuid AS payout_id
           FROM app.deposit d
          WHERE e.kind = 'deposit'::text AND d.merchant_id = e.merchant_id AND d.chain = e.chain AND d.token = e.token AND d.finalisation = k.finalisation AND d.status = 'final'::text AND d.credited
        UNION ALL
         SELECT d.seq,
            'deposit'::text,
            t.amount,
            d.id,
            NULL::uuid
           FROM app.taken_back t
             JOIN app.deposit d ON d.id = t.deposit_id
          WHERE e.kind = 'deposit'::text AND t.merchant_id = e.merchant_id AND t.chain = e.chain AND t.token = e.token AND t.finalisation = k.finalisation
        UNION ALL
         SELECT p.part,
            p.type,
            p.amount,
                CASE
                    WHEN e.kind = ANY (ARRAY['deposit'::text, 'reorg'::text]) THEN k.subject
                    ELSE NULL::uuid
                END AS "case",
                CASE
                    WHEN e.kind <> ALL (ARRAY['deposit'::text, 'reorg'::text]) THEN k.subject
                    ELSE NULL::uuid
                END AS "case"
           FROM ( SELECT) one
             LEFT JOIN app.payout o ON o.id =
                CASE
                    WHEN e.kind = ANY (ARRAY['claim'::text, 'release'::text]) THEN k.subject
                    ELSE NULL::uuid
                END AND o.gross = abs(e.amount)
             CROSS JOIN LATERAL ( VALUES (0,
                        CASE e.kind
                            WHEN 'deposit'::text THEN 'deposit'::text
                            WHEN 'reorg'::text THEN 'deposit_lost'::text
                            ELSE 'adjustment'::text
                        END,
                        CASE
                            WHEN o.id IS NULL THEN - e.amount
                            ELSE 0::numeric
                        END), (1,'payout'::text,(- sign(e.amount)) * o.net), (2,'fee'::text,(- sign(e.amount)) * o.fee)) p(part, type, amount)
          WHERE k.subject IS NOT NULL AND p.amount <> 0::numeric) l
  WHERE e.account = 'merchant'::text;
--   merchant_id uuid
--   chain text
--   token text
--   at timestamp with time zone: When it was posted.
--   entry bigint: The entry of the ledger.
--   part bigint: Order of the lines of an entry.
--   type text: deposit: it became final, or an operator credited it. deposit_lost: a final one was taken back. payout, fee: what a payout claimed, net and fee; above zero: what came back because it failed. adjustment: a debt for what was paid although its payment had ended.
--   amount numeric: How it changed the balance, in base units: below zero for what left.
--   deposit_id uuid
--   payout_id uuid

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
  WHERE app.sweep_under_way(s.chain, s.token, s.address) IS NULL AND app.readying(s.chain, s.address) IS NULL AND NOT app.is_blocked(s.chain, s.token, s.address);
--   chain text
--   token text
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
CREATE OR REPLACE FUNCTION app."decimal"(amount numeric, decimals integer) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE as b8e96518bbb11e2e5e068b396f5e1d90;

-- An operator's decision to follow a chain from this block on, though payments below it are missed. The chain was never followed before. Returns what is missing; deciding again replaces it.
CREATE OR REPLACE FUNCTION app.accept_gap(of_chain text, from_height integer, by_whom text) RETURNS app.accepted_gap LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 7852de7f5970ca97db0840045d875c62;

-- Gives a user an address on each of the chains. The caller has locked the user's row. Chains of one family share one address.
CREATE OR REPLACE FUNCTION app.add_addresses(of_merchant uuid, of_user uuid, chains text[]) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 4dcef0eadd79695e96aa028703720341;

-- Makes the partitions of one week; returns what it did, in words.
CREATE OR REPLACE FUNCTION app.add_delivery_week(week timestamp with time zone) RETURNS text LANGUAGE plpgsql SET search_path TO 'pg_catalog' as c6a0661ef50793ba8460d378a429a83d;

-- Adds an event of this type about a webhook endpoint, whose row the caller has locked.
CREATE OR REPLACE FUNCTION app.add_endpoint_event(of_endpoint uuid, of_type text) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 6ba119c9c199e1e214ec3e17c6dd0180;

-- Adds the next event of a subject, with this body, its deliveries, and the job that sends them.
CREATE OR REPLACE FUNCTION app.add_event(event uuid, of_merchant uuid, of_type text, subject uuid, of_version integer, at timestamp with time zone, body json) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 0bd477427c3dd08c76938e44882e19b6;

-- Adds to the operator's native coins on an address, and to how much of it is reserved; a negative amount is subtracted.
CREATE OR REPLACE FUNCTION app.add_gas(of_chain text, of_address text, more numeric, more_reserved numeric) RETURNS void LANGUAGE sql SET search_path TO 'pg_catalog' as 1b02d7647235e7b6e3836cd3f405e9f5;

-- Adds to the final, credited money that an address holds.
CREATE OR REPLACE FUNCTION app.add_holding(of_chain text, of_address text, of_token text, of_merchant uuid, more numeric) RETURNS void LANGUAGE sql SET search_path TO 'pg_catalog' as 2b471524453c3e2e33b83f7ef49cfc68;

-- Reserves more outputs for the next attempt of an outgoing payment; the caller gives the attempt's number. False if it came too late, or an output is not free.
CREATE OR REPLACE FUNCTION app.add_inputs(of_outgoing_payment uuid, number integer, inputs text[]) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 97ae3d0948218d994ee6893bee659ec9;

-- Adds the outputs that become final at this height, and reserves those of a CPFP child for it.
CREATE OR REPLACE FUNCTION app.add_outputs(of_chain text, final_height integer) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 800278154d3982ab3f95afe9e0e76d68;

-- Adds an event of this type with the state of a payment request.
CREATE OR REPLACE FUNCTION app.add_payment_event(r app.payment_request, of_type text) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 095f8f5a97d455a16df32b9651dae27d;

-- Adds to a merchant's share of the treasury, and to how much of it is reserved for its payments under way.
CREATE OR REPLACE FUNCTION app.add_share(of_chain text, of_token text, of_merchant uuid, more numeric, more_reserved numeric) RETURNS void LANGUAGE sql SET search_path TO 'pg_catalog' as 884f0d301062a1d7cc4c1c1cbdfdc5c6;

-- Adds a token of a contract to a chain, given as JSON with amounts in base units; returns the first block whose transfers are deposits.
CREATE OR REPLACE FUNCTION app.add_token(of_chain text, given jsonb) RETURNS integer LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 687317b86a01d18c47ff1ce627e4bceb;

-- Adds to what the treasury holds of a token, and to how much of it is reserved for transactions that are not final.
CREATE OR REPLACE FUNCTION app.add_treasury(of_chain text, of_token text, more numeric, more_reserved numeric) RETURNS void LANGUAGE sql SET search_path TO 'pg_catalog' as 6ebf905ce9590b7dc9af2a6ac9443ac5;

-- The addresses that a user was given, by chain, as a JSON array of {chain, address}. Addresses that are only watched are left out.
CREATE OR REPLACE FUNCTION app.addresses_of(of_user uuid) RETURNS json LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 1f52479079ec5d874b043cad88e69ab8;

-- The next addresses that were handed out, and the height at which each was compared before, if it was.
CREATE OR REPLACE FUNCTION app.addresses_to_compare(of_chain text, after text, batch integer) RETURNS TABLE(match_key text, address text, handed_out_at timestamp with time zone, known_right_at integer) LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as eae2886042e4113ac141ea772dea57de;

-- Changes the balance of a deposit's merchant, chain and token by an amount in base units (below zero: a debt), for one of the reasons of app.adjustment.
CREATE OR REPLACE FUNCTION app.adjust(d app.deposit, more numeric, why text) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as dd4b3fb1e0f644dce1a950fbd6957142;

-- Finds outgoing payments that belong to the return of a deposit that is read again.
CREATE OR REPLACE FUNCTION app.adopt_deposit() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as f8ea12fe0e0e0115875c059da572a6da;

-- Finds the deposit whose return a recovered outgoing payment belongs to.
CREATE OR REPLACE FUNCTION app.adopt_outgoing_payment() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 83017ab401e985f62dafce9ca1dc622d;

-- Recreates the decision to return this deposit, with a transaction of the return. The transaction belongs to no merchant, and no payout waits for it.
CREATE OR REPLACE FUNCTION app.adopt_return(d app.deposit, s app.outgoing_payment) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as b033d874984c98e45f182acfa51d160a;

-- Call it once when an older copy of the database replaces a newer one: no later event gets a sequence that was used before. Returns the last one that is skipped.
CREATE OR REPLACE FUNCTION app.after_restore() RETURNS bigint LANGUAGE sql SET search_path TO 'pg_catalog' as 3711a021424cba8ce97f212bdc6d5e4b;

-- Carries out every claim and release of a merchant, chain and token, in the caller's transaction.
CREATE OR REPLACE FUNCTION app.allocate_all_deposits(of_merchant uuid, of_chain text, of_token text) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 928d9873f5f38501f12b40288b95ff97;

-- Carries out the oldest claim or release of a merchant, chain and token that is not finished, up to batch deposits of it; true if there may be more to do. Safe to run at any time and in several places.
CREATE OR REPLACE FUNCTION app.allocate_deposits(of_merchant uuid, of_chain text, of_token text, batch integer, wait boolean DEFAULT false) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' SET plan_cache_mode TO 'force_custom_plan' SET enable_sort TO 'on' as 1497112355a2e80dd6d54bd4c771d2e9;

-- Trigger: notifies channel address_added of each address.
CREATE OR REPLACE FUNCTION app.announce_address() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as c4e60332190856011dbe7caef54ff303;

-- Trigger: wakes the worker to fail what is pending, when an endpoint was disabled or deleted.
CREATE OR REPLACE FUNCTION app.announce_disabled() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 51c770055f81807336a015bdb151738c;

-- Trigger: notifies every API process of the hash of a key that was revoked (api_key_revoked).
CREATE OR REPLACE FUNCTION app.announce_revocation() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 0b8e3f554ae15dd0b96c57ec9336d929;

-- Trigger: makes every API process empty its cache of keys when an account was suspended (api_key_revoked with an empty payload).
CREATE OR REPLACE FUNCTION app.announce_suspension() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 54bb7563e2509c5c074aa3c576e7540f;

-- Whether it was a minute ago that the node was asked what a sweep costs.
CREATE OR REPLACE FUNCTION app.are_sweep_costs_due(of_chain text) RETURNS boolean LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as e57ba05ff21786e8b1743eba133e067f;

-- An amount that is asked for, in base units of the chain and token that are asked for; null if none is. Raises SL422 if these are missing.
CREATE OR REPLACE FUNCTION app.asked_amount(asked jsonb, bound text) RETURNS numeric LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog' as 0c3ad92a32cfc2279c9d0eae3f93877c;

-- The deliveries to an endpoint that are asked for, below a place, the newest first; none if the merchant has no such endpoint.
CREATE OR REPLACE FUNCTION app.asked_deliveries(of_merchant uuid, asked jsonb, below uuid, size integer) RETURNS SETOF app.delivery LANGUAGE plpgsql STABLE ROWS 50 SET search_path TO 'pg_catalog' as e34b335205ae54e3bc7ba816b7c4acc7;

-- The deposits of users that are asked for, below a place, the newest first.
CREATE OR REPLACE FUNCTION app.asked_deposits(of_merchant uuid, asked jsonb, below numeric, size integer) RETURNS SETOF app.deposit LANGUAGE plpgsql STABLE ROWS 50 SET search_path TO 'pg_catalog' as f72d7a0fe243f48063a3c5e185a9dd41;

-- The types of events that a list shows.
CREATE OR REPLACE FUNCTION app.asked_event_types(asked jsonb) RETURNS SETOF text LANGUAGE sql IMMUTABLE ROWS 5 SET search_path TO 'pg_catalog' as 7c4f49db76690c8bbe4e28da2f213b15;

-- The lines of a period that are asked for, below a place, the newest first.
CREATE OR REPLACE FUNCTION app.asked_lines(of_merchant uuid, asked jsonb, below numeric, size integer) RETURNS SETOF app.statement_line LANGUAGE plpgsql STABLE ROWS 50 SET search_path TO 'pg_catalog' SET plan_cache_mode TO 'force_custom_plan' as 69c5b1f0060112b8372d468b1bb7b8bd;

-- The payment requests that are asked for, below a place, the newest first.
CREATE OR REPLACE FUNCTION app.asked_payment_requests(of_merchant uuid, asked jsonb, below bigint, size integer) RETURNS SETOF app.payment_request LANGUAGE plpgsql STABLE ROWS 50 SET search_path TO 'pg_catalog' as 02c4fe1f7ca8ac7b13e2a1f77913c558;

-- The payments that are asked for (requests that are paid or underpaid), below a place, the newest first.
CREATE OR REPLACE FUNCTION app.asked_payments(of_merchant uuid, asked jsonb, below bigint, size integer) RETURNS SETOF app.payment_request LANGUAGE plpgsql STABLE ROWS 50 SET search_path TO 'pg_catalog' as af95d7fda7e29d697eb97f140d6d6790;

-- The payouts that are asked for, below a place, the newest first.
CREATE OR REPLACE FUNCTION app.asked_payouts(of_merchant uuid, asked jsonb, below bigint, size integer) RETURNS SETOF app.payout LANGUAGE plpgsql STABLE ROWS 50 SET search_path TO 'pg_catalog' as 3b7494832ca7e2acc893e17a7e004fe7;

-- The users that are asked for, below a place, the newest first.
CREATE OR REPLACE FUNCTION app.asked_users(of_merchant uuid, asked jsonb, below bigint, size integer) RETURNS SETOF app."user" LANGUAGE plpgsql STABLE ROWS 50 SET search_path TO 'pg_catalog' SET plan_cache_mode TO 'force_custom_plan' as f68a584b05ec00938fc799af6dbd9dc9;

-- Trigger: refuses a posting that does not add up to zero for each chain and token.
CREATE OR REPLACE FUNCTION app.assert_balanced() RETURNS trigger LANGUAGE plpgsql SET search_path TO 'pg_catalog' as ab622a2a6c91fbd8ace69358c35e7c6e;

-- Whether transactions of a chain expire (Solana, Tron), so that another attempt can pay only after that.
CREATE OR REPLACE FUNCTION app.attempts_expire(of_chain text) RETURNS boolean LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as d8b01ba184fc1ae862f506e43dc0ce3f;

-- Runs every check of the schema audit: what must hold, how many rows break it, and the first ten of them.
CREATE OR REPLACE FUNCTION app.audit_checks() RETURNS TABLE(name text, claim text, count bigint, found jsonb) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 3c0c791e2516bada6c79f9a3b17ee421;

-- Whether an audit is due: the last one is a day ago.
CREATE OR REPLACE FUNCTION app.audit_is_due() RETURNS boolean LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 9199bb6c5bf51c91721437f2e10e1c5c;

-- Makes a payout wait for sweeps of its merchant's addresses that are under way for other payouts, or for none. Safe to run again.
CREATE OR REPLACE FUNCTION app.await_sweeps(of_payout uuid) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path TO 'pg_catalog' as 9f537075873c1d4d6c6e322306d7c7a6;

-- Notes what the next entries of a ledger changed that was there before the totals; returns how many it read, 0 once all are.
CREATE OR REPLACE FUNCTION app.backfill_totals(batch integer) RETURNS integer LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 9762dbfa0b3c49efec25120163319055;

-- Notes that an audit begins; returns the number of the run.
CREATE OR REPLACE FUNCTION app.begin_audit() RETURNS bigint LANGUAGE sql SECURITY DEFINER SET search_path TO 'pg_catalog' as 9131095ad2febf57c33c8e48849e0d83;

-- For an operator: begins to compare every address with the chain anew, now.
CREATE OR REPLACE FUNCTION app.begin_comparison(of_chain text) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path TO 'pg_catalog' as 2b799ba33fbcd939c10afa4e8736dd5f;

-- Begins a child that spends unconfirmed outputs of ours (<txid>:<vout>) and pays for their transaction, too; amounts in base units. Returns the id of the outgoing payment.
CREATE OR REPLACE FUNCTION app.begin_cpfp(of_chain text, inputs text[], network_fee numeric, parent_vsize integer) RETURNS uuid LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as bc50580ce04a80b0c5f545e73beb0dd4;

-- Takes nonces of addresses for gas (amounts in base units) that goes back to the treasury. Safe to run again.
CREATE OR REPLACE FUNCTION app.begin_defunds(of_chain text, addresses text[], amounts numeric[], max_fees numeric[]) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 73673963e3a7804d00d915a44c3eff7e;

-- Begins to lend addresses energy of the treasury's stake (amounts in base units of the native coin) for the sweep of a token, for a payout (null: for none); returns what the treasury lacks for the fees, or null. Safe to run again.
CREATE OR REPLACE FUNCTION app.begin_delegates(of_payout uuid, of_chain text, of_token text, addresses text[], amounts numeric[], max_fee numeric, most_lent numeric) RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 9fb678e6ae77e8a970bdcc2e641e948b;

-- Takes nonces of the treasury for gas of addresses (amounts in base units) that are to sweep a token, for a payout (null: for none); returns what the treasury lacks, or null. Safe to run again.
CREATE OR REPLACE FUNCTION app.begin_funds(of_payout uuid, of_chain text, of_token text, addresses text[], amounts numeric[], max_fee numeric) RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 1cecc4051a097775f4857d605536a8bb;

-- Reserves the outputs that a payout is paid from, with this network fee (in base units), and takes it from sweeping to swept. Returns what is short; null if the payment has begun, or the payout is not ready for it. Safe to run again.
CREATE OR REPLACE FUNCTION app.begin_output_payment(of_payout uuid, inputs text[], network_fee numeric) RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as c026b86eb5712ffc1a8bd884aa85e928;

-- Reserves outputs of a merchant's addresses for one transaction that moves them to the treasury, with this network fee (in base units). Returns what is in the way; null if it is begun, or the payout is not sweeping.
CREATE OR REPLACE FUNCTION app.begin_output_sweep(of_payout uuid, of_chain text, of_merchant uuid, inputs text[], network_fee numeric) RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as c27a910ef1ee611fb89f29f632cc19e2;

-- Reserves outputs of the treasury for a withdrawal of the operator's own money (amounts in base units); returns the id of the outgoing payment.
CREATE OR REPLACE FUNCTION app.begin_output_withdrawal(of_chain text, amount numeric, recipient text, inputs text[], network_fee numeric) RETURNS uuid LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 493f373584dda5973094f7ad47d15129;

-- Takes the nonce of a payout's payment and reserves its value and highest fee; returns what is short; null if the payment has begun (now or before), or the payout is not swept, or has claimed what is blocked. Safe to run again.
CREATE OR REPLACE FUNCTION app.begin_payment(of_payout uuid, network_fee numeric) RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as b81b962f54703e97cffe25c87dd45aa3;

-- Begins to bring back what was unstaked and is free, once the operator's own money pays the fee. Safe to run again.
CREATE OR REPLACE FUNCTION app.begin_reclaim(of_chain text, max_fee numeric) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 1c41beeb7df4756b4894af40ea84197c;

-- Begins the sweep of a return to the treasury (amounts in base units); returns what is in its way, or null. Safe to run again.
CREATE OR REPLACE FUNCTION app.begin_return_sweep(of_deposit uuid, moved numeric, max_fee numeric, OUT reason text, OUT detail text) RETURNS record LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 8df689d21ffbea414be2f76669d359fc;

-- Begins the withdrawal of a return from the treasury to its destination; returns what is in its way, or null. Safe to run again.
CREATE OR REPLACE FUNCTION app.begin_return_withdrawal(of_deposit uuid, network_fee numeric, OUT reason text, OUT detail text) RETURNS record LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 7171843aeff6f50d8d6e80fdb6aac817;

-- Begins to stake the operator's own native coins (in base units) for energy or bandwidth; returns the id of the outgoing payment.
CREATE OR REPLACE FUNCTION app.begin_stake(of_chain text, of_resource text, amount numeric, max_fee numeric) RETURNS uuid LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 022d12378d7158b9228ab074705102fd;

-- Begins an outgoing payment of the treasury's stake, with its fee reserved.
CREATE OR REPLACE FUNCTION app.begin_staking(of_chain text, of_kind text, of_resource text, amount numeric, max_fee numeric) RETURNS uuid LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 27c0f7e5272fe7ecaa29f93123ff2e4e;

-- Takes a payout from pending to sweeping. Does nothing in any other status.
CREATE OR REPLACE FUNCTION app.begin_sweeping(of_payout uuid) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as a8aca8c3e69d7a27707261afece38a42;

-- Takes nonces for sweeps of merchants' addresses to the treasury, for a payout (null: for none), or finds those under way; returns what is short of network fees, or null. Safe to run again.
CREATE OR REPLACE FUNCTION app.begin_sweeps(of_payout uuid, of_chain text, of_token text, addresses text[], amounts numeric[], max_fees numeric[], payment_fee numeric DEFAULT NULL::numeric) RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as d868af69c10e88ebb2bf089fc8d93ca5;

-- Begins to take back what was lent to addresses that have been swept, or were not swept in time, as far as the operator's own money pays the fees. Safe to run again.
CREATE OR REPLACE FUNCTION app.begin_undelegates(of_chain text, max_fee numeric, most integer) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 1236d59c877cd9fbc8630b81e71ae770;

-- Begins to unstake native coins (in base units) that are not lent; they are back 14 days later. Returns the id of the outgoing payment.
CREATE OR REPLACE FUNCTION app.begin_unstake(of_chain text, of_resource text, amount numeric, max_fee numeric) RETURNS uuid LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as c2b58cf5eca07f71d3cf9df1597ea622;

-- Takes a nonce for a withdrawal of the operator's own money (amounts in base units); returns the id of the outgoing payment.
CREATE OR REPLACE FUNCTION app.begin_withdrawal(of_chain text, of_token text, amount numeric, recipient text, network_fee numeric) RETURNS uuid LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 8cb4cfb149bc72ddccae8361ac346127;

-- Blocks a deposit address for a token, with an incident, and holds back the final deposits that are there. False if it is blocked already, or cannot be: only a token of a chain whose node can be asked again. Safe to run again.
CREATE OR REPLACE FUNCTION app.block_address(of_chain text, of_token text, of_address text, of_why text) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' SET plan_cache_mode TO 'force_custom_plan' as 5cef151503dc3fce558d892581fdc79f;

-- Books the final payment of a payout that had failed before: the merchant has the money and, since the release, the balance, too.
CREATE OR REPLACE FUNCTION app.book_payment_of_failed_payout(s app.outgoing_payment) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as d6d531dad87d3c0fe6d6a23f998932dd;

-- Books what is noted of a chain and final at this height: second payments, and the fees of what failed or was cancelled. False if there was none.
CREATE OR REPLACE FUNCTION app.book_second_payments(of_chain text, final_height integer) RETURNS boolean LANGUAGE plpgsql SET search_path TO 'pg_catalog' as a8480457401348f4e05bc8b8b6fb5dbc;

-- What the payment page shows of a merchant, but for its logo, and the sites that may show it in a frame.
CREATE OR REPLACE FUNCTION app.brand_of(merchant uuid) RETURNS json LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 562b9c0b300822827da7070cd503e113;

-- Gives up an outgoing payment that is not final and pays no payout: a transaction that pays nobody uses up its nonce, or its outputs.
CREATE OR REPLACE FUNCTION app.cancel_outgoing_payment(of_outgoing_payment uuid) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path TO 'pg_catalog' as f80c95fe7816c955cfbf75377bd8870a;

-- Cancels a payment request that is awaiting.
CREATE OR REPLACE FUNCTION app.cancel_payment_request(of_merchant uuid, of_external_id text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 6648f459d133440113037640b9077926;

-- Cancels a payout for its merchant, until its payment has begun.
CREATE OR REPLACE FUNCTION app.cancel_payout(of_merchant uuid, of_payout uuid) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 9e009326d2e5ff29e99410140166d6e7;

-- An operator's decision to cancel a payout, even if its chain is halted. Returns failed, or cancelling if a payment is under way and its cancel has to become final first.
CREATE OR REPLACE FUNCTION app.cancel_payout_by_operator(of_payout uuid) RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as a01dd1eeec2984596dd18c0d8b9636e9;

-- Heights of each chain and how old they are, its last reorganisation, what it waits for, deposits that are pending or unattributed, and open incidents.
CREATE OR REPLACE FUNCTION app.chain_metrics() RETURNS TABLE(metric text, labels json, value double precision) LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog' as 423419cec2e63449605e3cb3feb3b522;

-- Trigger: refuses a change of a payout that is not allowed. A change of status clears what it waited for, notes its time, and sets when the next step is due.
CREATE OR REPLACE FUNCTION app.check_payout_change() RETURNS trigger LANGUAGE plpgsql SET search_path TO 'pg_catalog' as fcdc4a9e57dc573f767d18daf0a0dd1b;

-- Raises SL422 if no endpoint can have this URL, or subscribe to these types of events.
CREATE OR REPLACE FUNCTION app.check_webhook(url text, event_types text[]) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 5173b7fdd814e174bdd6d58cfc4328c3;

-- The free outputs of the deposits that a payout claimed, with their amounts in base units, the largest first: what it spends with sweep_first.
CREATE OR REPLACE FUNCTION app.claimed_outputs(of_payout uuid, most integer) RETURNS TABLE(outpoint text, amount numeric) LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 9a37a0e731ad4446d31d02cfb601975d;

-- Closes the incidents about transactions that expire whose reason is gone: the payment is not contested any more, or it is known what became of the transaction.
CREATE OR REPLACE FUNCTION app.close_expiry_incidents(of_chain text) RETURNS void LANGUAGE sql SET search_path TO 'pg_catalog' SET plan_cache_mode TO 'force_custom_plan' as 5fa3a56ddef7edfd6b93815f86d28be8;

-- What an address holds of the token of a sweep for whom the sweep is: its merchant, or whoever gets a return. Its network fee is part of it where the address pays for its own coins.
CREATE OR REPLACE FUNCTION app.coins_to_sweep(of_payment uuid) RETURNS numeric LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 449eaae5c22e28ec0dfd7fce36abfa05;

-- The part of the final, credited money on an address that is not held back, in base units. As long as there is some, the address may be swept, and custody signs that (at fees that are worth it).
CREATE OR REPLACE FUNCTION app.collectable_amount(of_chain text, of_address text, of_token text) RETURNS numeric LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as d1baaf6742694d0f695f2a0cde931f9d;

-- How long ago the oldest comparison is: every address that was handed out before that has been compared with the chain since.
CREATE OR REPLACE FUNCTION app.comparison_age(of_chain text) RETURNS interval LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 46900e025915894e02f1a0db82ca6d78;

-- The age of the oldest comparison of an address with each chain.
CREATE OR REPLACE FUNCTION app.comparison_metrics() RETURNS TABLE(metric text, labels json, value double precision) LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 3a9cc36d7e4d6699fc5c23ea5d711f3c;

-- How many blocks confirm this height, its own included; 0 if the height is null. Null for a chain that was never followed.
CREATE OR REPLACE FUNCTION app.confirmations(of_chain text, of_height integer) RETURNS integer LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as b669ad442ed0f0eeadc90bd594f6ec2d;

-- The contract of a token, as the indexer writes it while the token does not count; null for a native coin.
CREATE OR REPLACE FUNCTION app.contract_of(of_chain text, of_token text) RETURNS text LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as c3d072cba682658475519ea106df1691;

-- How long nothing new of a chain could be written, because its servers contradict themselves.
CREATE OR REPLACE FUNCTION app.contradiction_metrics() RETURNS TABLE(metric text, labels json, value double precision) LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 001410365f265f5a9d97bb419c0d9be9;

-- Replicas, the archive of the write-ahead log, and the age of the last backup and the last drill.
CREATE OR REPLACE FUNCTION app.copy_metrics() RETURNS TABLE(metric text, labels json, value double precision) LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 7f923bbb9438ea80f53583fcb4bd44be;

-- Stores the SHA-256 of a new key (sk_ and 43 base64url characters, the prefix included), its purpose, and what it may do; returns the id of the key.
CREATE OR REPLACE FUNCTION app.create_api_key(of_merchant uuid, secret_hash bytea, label text DEFAULT NULL::text, scopes text[] DEFAULT '{read,users,payouts,payments,webhooks}'::text[]) RETURNS uuid LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 40db7b2b39061839562898cdae6c661f;

-- Makes a merchant account with these chains enabled; returns its id.
CREATE OR REPLACE FUNCTION app.create_merchant(name text, prefix text, chains text[], fee_bps integer) RETURNS uuid LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 83853420ad22db51c9d7dc6e23fa5831;

-- Claims the balance of a merchant's chain and token for a payout; returns the body of the response. The same key gives the same response.
CREATE OR REPLACE FUNCTION app.create_payout(of_merchant uuid, of_chain text, of_token text, of_sweep_first boolean, of_key text, of_request bytea) RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' SET plan_cache_mode TO 'force_custom_plan' as 8d5f704ed1435e6ce1bd40689ba1bda5;

-- Makes a webhook endpoint; returns its id, and its secret, which is shown here and never again. event_types null: the four of the contract.
CREATE OR REPLACE FUNCTION app.create_webhook_endpoint(of_merchant uuid, url text, event_types text[] DEFAULT NULL::text[], OUT id uuid, OUT secret text) RETURNS record LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 5db40a49256d5fe0982fe37f925e467c;

-- The body of the response to the call that made a payment request.
CREATE OR REPLACE FUNCTION app.created_payment_request(of_request uuid) RETURNS app.payment_response LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 4f9574a2967666ebc8d0938f38b2a0aa;

-- Makes unattributed value a final deposit of the merchant that has the address, and notifies the merchant at once; from then on it is a deposit like any other.
CREATE OR REPLACE FUNCTION app.credit_unattributed(of_deposit uuid) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 2cd2bf64a5fe391ea3a059c51b36934c;

-- An operator's decision that no block holds a transaction which is past its end (by the chain and by the clock); refused for a contested payment.
CREATE OR REPLACE FUNCTION app.decide_absent(of_incident app.incident) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 4e328e5d756529edb1d30fdfb2c7cb3a;

-- Notes for custody what an operator decided about a payout's payment that is not final: replace or cancel.
CREATE OR REPLACE FUNCTION app.decide_payment(of_payout uuid, what text) RETURNS void LANGUAGE sql SET search_path TO 'pg_catalog' as 9af24434fdf60150d95f64f0007af68d;

-- Decides the status of payment requests that time may change: those that have expired, and those whose money is in no block for too long. Returns how many. Fewer than batch: no more are due.
CREATE OR REPLACE FUNCTION app.decide_payment_requests(batch integer DEFAULT 100) RETURNS integer LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' SET enable_seqscan TO 'off' as 2dce23605e62b5dd4f43df512153832e;

-- An operator's decision about the second payments of an incident: loss leaves them with the operator; debt has the merchant of their payout owe what they paid.
CREATE OR REPLACE FUNCTION app.decide_second_payment(of_incident app.incident, decision text) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 9b617fc1e162984fb7ab57c9e5380736;

-- Deletes an endpoint: nothing more is sent to it. Its past deliveries stay in the database.
CREATE OR REPLACE FUNCTION app.delete_webhook_endpoint(of_merchant uuid, endpoint uuid) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 9c76c3c7e9e769f5fd7984df39abe41e;

-- A delivery with all its attempts, also those before it was sent again, as its merchant sees it.
CREATE OR REPLACE FUNCTION app.delivery_item(d app.delivery) RETURNS json LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 2096375b87ebd628ece276358cdcf5fb;

-- The end of the last week that has a partition; later deliveries go to the default partition.
CREATE OR REPLACE FUNCTION app.delivery_partitions_end() RETURNS timestamp with time zone LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as a7aae62d4aedc4831b9feefb2c30e253;

-- Number of blocks from a deposit's own to the newest, both included; 0 if it is in none, or reorged.
CREATE OR REPLACE FUNCTION app.deposit_confirmations(status text, block_height integer, head_height integer) RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE as 99ffd9f54e0b4ae84b5eaef1332320c1;

-- The id of a deposit, computed from what it is: the same whenever and wherever the chain is read.
CREATE OR REPLACE FUNCTION app.deposit_id(chain text, txid text, output_index integer, address text, token text) RETURNS uuid LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT SET search_path TO 'pg_catalog' SET plan_cache_mode TO 'auto' as f0e3452ca04f648135ece77003f32f13;

-- The place before all deposits (app.deposit.position) that were first seen at a time or later.
CREATE OR REPLACE FUNCTION app.deposit_place(at timestamp with time zone) RETURNS numeric LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT as caee26f427e4f9a9b938f816e56843e0;

-- The deposits of a chain and token with these statuses and amounts, between two places: the newest.
CREATE OR REPLACE FUNCTION app.deposits_of_amount(of_merchant uuid, of_chain text, of_token text, statuses text[], least_amount numeric, most_amount numeric, lowest numeric, below numeric, size integer) RETURNS SETOF app.deposit LANGUAGE plpgsql STABLE ROWS 50 SET search_path TO 'pg_catalog' as 11ac272aaea92512e1c0fa43ea81c05a;

-- Disables a token that was added; returns the last block whose transfers are deposits.
CREATE OR REPLACE FUNCTION app.disable_token(of_chain text, of_token text) RETURNS integer LANGUAGE plpgsql SET search_path TO 'pg_catalog' as d886219d4ef0d4fc68e3c6d53f7e9833;

-- Dismisses one unattributed deposit.
CREATE OR REPLACE FUNCTION app.dismiss_deposit(of_deposit uuid) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 8c2aca58b1d24e6659ad468f1a6a437a;

-- Dismisses all of a token that Sluice does not support, also what is still to come; returns how many deposits are there.
CREATE OR REPLACE FUNCTION app.dismiss_token(of_chain text, of_token text) RETURNS bigint LANGUAGE plpgsql SET search_path TO 'pg_catalog' as f261a335dec58cccb7aeb012aaf70ff7;

-- Takes the oldest free address of a family from the pool for a merchant, for ever; returns it.
CREATE OR REPLACE FUNCTION app.draw_address(of_merchant uuid, of_family text) RETURNS text LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 2be452ca84b60c452c9cd30c7011aae7;

-- Drops the partitions of one week; returns what it did, in words, or null if something in it is pending.
CREATE OR REPLACE FUNCTION app.drop_delivery_week(suffix text, until timestamp with time zone) RETURNS text LANGUAGE plpgsql SET search_path TO 'pg_catalog' as d19ff3dcdf804d3e77fdb7562511d11c;

-- For the worker: behind which address (match_key) the comparison with the chain continues now; null if it is not due. Safe to call at any time.
CREATE OR REPLACE FUNCTION app.due_comparison(of_chain text) RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 58ac51d17d1d3f04a96c5e386111bde2;

-- The ids of the endpoints that are neither disabled nor deleted, and have a delivery that is due now.
CREATE OR REPLACE FUNCTION app.due_endpoints() RETURNS SETOF uuid LANGUAGE plpgsql STABLE ROWS 10 SET search_path TO 'pg_catalog' SET enable_seqscan TO 'off' as 384789c0a95537ab94fd1534618674f0;

-- Inserts events of users' deposits in the order given, with their deliveries, and the job that sends them. The arrays are parallel; token and amount are those of the event.
CREATE OR REPLACE FUNCTION app.emit_deposit_events(ids uuid[], types text[], versions integer[], tokens text[], amounts numeric[]) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' SET random_page_cost TO '1.1' as 77935323b8171d619f0adbeb40685ab4;

-- Adds the events of a change from what a payment request was to its new status, and to what is final now.
CREATE OR REPLACE FUNCTION app.emit_payment_event(was app.payment_request, now_status text, now_received numeric) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as f6fa74f11fcedd3e0f9b73db0d0e40d0;

-- Inserts the event of a payout that has ended, its deliveries, and the job that sends them.
CREATE OR REPLACE FUNCTION app.emit_payout_event(p app.payout, of_type text) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 2f392662c98f2bc67082dfe94cb2edc7;

-- Ends CPFP children whose parent can no longer be mined, because a final transaction conflicts with it.
CREATE OR REPLACE FUNCTION app.end_conflicted_cpfp(of_chain text, final_height integer) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' SET plan_cache_mode TO 'force_custom_plan' as 897b8340846e3d82751e31c7973a1f4e;

-- End of the quarter of an hour that a time is in.
CREATE OR REPLACE FUNCTION app.end_of_quarter(at timestamp with time zone) RETURNS timestamp with time zone LANGUAGE sql IMMUTABLE PARALLEL SAFE as 46857c93e556ee4796ccbd32ce74387c;

-- Takes a payout from sweeping to swept; one with sweep_first only once all its deposits are known and none of its sweeps is under way.
CREATE OR REPLACE FUNCTION app.end_sweeping(of_payout uuid) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as c20eaa2633d7377d84cd366c17e554c1;

-- Ends an outgoing payment that is being cancelled, without a transaction. False where something signed may still pay it, it has a nonce, or its chain is halted.
CREATE OR REPLACE FUNCTION app.end_unsigned(of_outgoing_payment uuid) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as a1c7a8343f8a0345678cb6074cee2689;

-- Has what was lent to an address taken back once its sweep has ended.
CREATE OR REPLACE FUNCTION app.end_use_of_delegation(s app.outgoing_payment) RETURNS void LANGUAGE sql SET search_path TO 'pg_catalog' as a3668ed1a8f3452152c835ce8d23d530;

-- Ends an outgoing payment that nothing signed can pay any more; code and message are those of its payout, if the outcome is expired.
CREATE OR REPLACE FUNCTION app.end_without_transaction(s app.outgoing_payment, of_outcome text, code text DEFAULT NULL::text, message text DEFAULT NULL::text) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as e6375aa27ccddb18bb0b8d4f4c6d9eba;

-- An endpoint, as its merchant sees it.
CREATE OR REPLACE FUNCTION app.endpoint_item(w app.webhook_endpoint) RETURNS json LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 3fff181c1118c697f02ec8d33d26789a;

-- The endpoints of a merchant that were not deleted, five at most, with their secrets.
CREATE OR REPLACE FUNCTION app.endpoints_of(of_merchant uuid) RETURNS SETOF app.webhook_endpoint LANGUAGE sql STABLE ROWS 5 SET search_path TO 'pg_catalog' as 9cb3f704b1649ec504f15b7c5d27b781;

-- Adds a job for graphile-worker, and replaces a waiting one with the same key; it becomes visible when the calling transaction commits.
CREATE OR REPLACE FUNCTION app.enqueue(task text, payload json DEFAULT '{}'::json, key text DEFAULT NULL::text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as f7504b6c60cbc5941810b217ac74a0a1;

-- The body of an event as webhooks and GET /v1/events show it: its payload and its sequence, as JSON.
CREATE OR REPLACE FUNCTION app.event_body(payload json, sequence bigint) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE as ff815aaca860448f674707f52b0f3247;

-- The id of an event as webhooks and the API show it.
CREATE OR REPLACE FUNCTION app.event_id(id uuid, is_test boolean) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE as 126d899f489c0b20879bbe7b4012a61b;

-- All types of events.
CREATE OR REPLACE FUNCTION app.event_types() RETURNS text[] LANGUAGE sql IMMUTABLE SET search_path TO 'pg_catalog' as 63dfb5b2c20dfb4df9d615dfd41bc25e;

-- The body of an example of an event of this type, without its sequence.
CREATE OR REPLACE FUNCTION app.example_event(event uuid, of_type text, at timestamp with time zone) RETURNS json LANGUAGE sql SET search_path TO 'pg_catalog' as a0a3ac0d4812945ea593b213de242643;

-- Ends an outgoing payment whose signed transactions have all expired, the last one at least this long ago; fails its payout with this code, and has the step of a return begin anew. False if one of its transactions may still be mined, it is being cancelled, or its chain is halted.
CREATE OR REPLACE FUNCTION app.expire_payment(of_outgoing_payment uuid, code text, message text, after_ms integer DEFAULT 0) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as a1a04123f8f52cd270291dc2009a5dd7;

-- Notes why a chain could not be asked; the comparison is tried again.
CREATE OR REPLACE FUNCTION app.fail_comparison(of_chain text, why text) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path TO 'pg_catalog' as cb740bb931629c3e199677f8d4c7912c;

-- Fails a payout that is pending, sweeping or swept, and gives its balance back; false in any other status, and while a transaction that custody signed may still pay it.
CREATE OR REPLACE FUNCTION app.fail_payout(of_payout uuid, code text, message text) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as cd1c4233a436e6ce5a473dbffc213166;

-- Fails pending deliveries of endpoints that are disabled or deleted, at most batch of them; returns how many. Safe to run at any time and in several places.
CREATE OR REPLACE FUNCTION app.fail_undeliverable(batch integer DEFAULT 2000) RETURNS integer LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' SET plan_cache_mode TO 'force_custom_plan' as b18b0e737fd31cf024acbd55ebda1385;

-- The open incident of a token that takes a fee on transfers; null if there is none.
CREATE OR REPLACE FUNCTION app.fee_incident(of_chain text, of_token text) RETURNS bigint LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as db5213b4f61e67fc4416bc52dea47d07;

-- A way out of app.incident_kind with the numbers of incidents and their chain in its commands; of more than 20 it names the first 20, and says so.
CREATE OR REPLACE FUNCTION app.fill_way_out(way_out text, of_chain text, ids bigint[]) RETURNS text LANGUAGE sql IMMUTABLE SET search_path TO 'pg_catalog' as 83c720fca27edcc5fe99f9432b5b46c4;

-- Given all that a node says is lent to addresses (amounts in base units): notes what nothing here knows of, so that it is taken back, and mends what is not so and could not be taken back. Safe to run again.
CREATE OR REPLACE FUNCTION app.find_delegations(of_chain text, addresses text[], amounts numeric[]) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 0ec6d27361034d9076ec27d542a002d0;

-- Finds and allocates the deposits of recovered payouts of a merchant, chain and token; if none are found, marks those that the gross covers.
CREATE OR REPLACE FUNCTION app.find_recovered_deposits(of_merchant uuid, of_chain text, of_token text) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' SET plan_cache_mode TO 'force_custom_plan' as 4f43e3934d942b3867d4eb140cd528f2;

-- Stores what an audit found ([{"name", "claim", "count", "found"}, ...]), and opens, updates or closes the incidents that follow from it. error: what could not be checked, and why.
CREATE OR REPLACE FUNCTION app.finish_audit(of_run bigint, findings jsonb, error text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as d9a63f2a622ad394ea747e0632c04186;

-- Posts what a final defund moved (in base units), and gives back what was reserved for it.
CREATE OR REPLACE FUNCTION app.finish_defund(s app.outgoing_payment, outcome text, moved numeric) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 621869307cb7cdd25b410370ec5394c6;

-- Posts a final fund, and gives back what was reserved for it.
CREATE OR REPLACE FUNCTION app.finish_fund(s app.outgoing_payment, outcome text) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as c3a82e5793b69bbd70d6148362dcd297;

-- Ends the open payments of a chain that a transaction at or below this height decided, and returns them.
CREATE OR REPLACE FUNCTION app.finish_open_payments(of_chain text, final_height integer) RETURNS uuid[] LANGUAGE plpgsql SET search_path TO 'pg_catalog' as c5831594cedde5a80382a1ddcede54d5;

-- Ends the outgoing payments of a chain that a transaction at or below this height decided, and posts what follows.
CREATE OR REPLACE FUNCTION app.finish_outgoing_payments(of_chain text, final_height integer) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' SET plan_cache_mode TO 'auto' as a6dd09d2896f99d833bad66ffa4bb286;

-- Marks the outputs that a final outgoing payment spent, frees the others, adds the change, and posts what was swept.
CREATE OR REPLACE FUNCTION app.finish_outputs(s app.outgoing_payment) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' SET plan_cache_mode TO 'force_custom_plan' as de06b5951d972d352f60584104da49b0;

-- Ends the payout whose payment is final: outcome done completes it, every other outcome fails it and gives the balance back.
CREATE OR REPLACE FUNCTION app.finish_payment(s app.outgoing_payment, outcome text, txid text, code text DEFAULT NULL::text, message text DEFAULT NULL::text) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as a9a99bd731b02019b661b21061bc13aa;

-- Posts what a final sweep moved (in base units) from its address to the treasury; nothing if its outcome was not done.
CREATE OR REPLACE FUNCTION app.finish_sweep(s app.outgoing_payment, outcome text, moved numeric) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 8fa4557e7f4970ebf659242cdb791aba;

-- Posts a final withdrawal; if its outcome was not done, gives back what was reserved for it.
CREATE OR REPLACE FUNCTION app.finish_withdrawal(s app.outgoing_payment, outcome text) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 296b6467c733081f37e093a04b389265;

-- The first of these outputs that was never the first input of an outgoing payment; null if there is none.
CREATE OR REPLACE FUNCTION app.first_input_of(of_chain text, inputs text[]) RETURNS text LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as fa5eff9c9e5b4d5dbca65935eee044d3;

-- Adds balance deltas to balances, the oldest first, at most batch of them; returns how many. Safe to run at any time and in several places.
CREATE OR REPLACE FUNCTION app.fold_balances(batch integer DEFAULT 20000) RETURNS integer LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as b535cf39c4d3cfd4af0d678000eb020e;

-- Adds changes to the running totals, at most batch of them; returns how many, and how many entries of an older ledger it read. Safe to run at any time and in several places.
CREATE OR REPLACE FUNCTION app.fold_totals(batch integer DEFAULT 20000) RETURNS integer LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as d1531116b3bd3a07e04d88343e300c9d;

-- Removes a chain from the configured ones if it was never followed; false if it was not configured.
CREATE OR REPLACE FUNCTION app.forget_chain(of_chain text) RETURNS boolean LANGUAGE plpgsql SET search_path TO 'pg_catalog' as d97fdf085eb0f7aa0b73b38a3ec77307;

-- How many addresses differ from the chain, and the first ten: what the ledger is missing, with the command that reads it again; or what is gone from the chain.
CREATE OR REPLACE FUNCTION app.found_differences(of_chain text, OUT count bigint, OUT found jsonb) RETURNS record LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 810c1c1ff78a7ec87cca5d0d850955cc;

-- The operator's native coins on an address that no sweep under way may use, in base units.
CREATE OR REPLACE FUNCTION app.free_gas(of_chain text, of_address text) RETURNS numeric LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 7170cd949d515d85eb07126fbdaf19b0;

-- The operator's own money that would be left, in base units, after paying amount of a token, with this network fee, to a merchant whose claim is gross.
CREATE OR REPLACE FUNCTION app.funds_after(of_chain text, of_token text, of_merchant uuid, amount numeric, gross numeric, network_fee numeric) RETURNS numeric LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as a4ab38108e0c408e0b5f9f3cf0b94e33;

-- By how much the highest fee of an outgoing payment that pays with gas may rise, in base units.
CREATE OR REPLACE FUNCTION app.gas_for(s app.outgoing_payment) RETURNS numeric LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as d691b7cb19bf7d52c5fc46e36767b616;

-- How many days the operator's own native coins in a treasury last, at the network fees of the last 7 days, and the gas that was sent to addresses; null if there were none.
CREATE OR REPLACE FUNCTION app.gas_left_days(of_chain text) RETURNS double precision LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 1b7d838d2f68a9f70dff30e376775a68;

-- How many addresses whose money a payout may need are getting gas or energy, or giving it back, perhaps for the sweep of another token.
CREATE OR REPLACE FUNCTION app.getting_gas_for(of_payout uuid) RETURNS integer LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 1d25b71f08b1c1614bf3b86f41148089;

-- Makes the payment of a swept payout a cancel, which uses its nonce up, if the payout has waited this long and nothing was signed: the payout keeps waiting without a payment.
CREATE OR REPLACE FUNCTION app.give_nonce_back(of_payout uuid, after_ms integer) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as a4aa49556849f769e6aeed465313afcc;

-- Allocates a recovered payout's deposits, up to a point, and its adjustments, including its debt.
CREATE OR REPLACE FUNCTION app.give_recovered_deposits(of_payout uuid, debt uuid, to_number bigint, to_height integer, with_held_back boolean) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 6d8bc40267a1270b48103cb9871127bc;

-- Fails all pending deliveries of an endpoint, whose row the caller has locked.
CREATE OR REPLACE FUNCTION app.give_up_deliveries(endpoint uuid) RETURNS void LANGUAGE sql SET search_path TO 'pg_catalog' as a52b6d4e0867a71e5f5cfb25cf9b584f;

-- The same, and notes why, in words for operators.
CREATE OR REPLACE FUNCTION app.give_up_outgoing_payment(of_outgoing_payment uuid, why text) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path TO 'pg_catalog' as 7b3072c6d4f755df178876d1120c8138;

-- Stops counting on what a payment was to bring with it: everything that it needs is reserved, and the caller gives that back.
CREATE OR REPLACE FUNCTION app.give_up_swept_in(s app.outgoing_payment) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 21215cda57ba42fa898c4e1a81d6f150;

-- Whether a payout has claimed deposits that are on a blocked address now.
CREATE OR REPLACE FUNCTION app.has_blocked_deposits(of_payout uuid) RETURNS boolean LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 88c8a0f622f8017fdb516a2f0747ecdb;

-- Whether outgoing payments of a chain are not final.
CREATE OR REPLACE FUNCTION app.has_open_payments(of_chain text) RETURNS boolean LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog' SET enable_seqscan TO 'off' as 99644d473811e514d6ffce713c37bdbb;

-- What merchants see of a deposit that is held back: why, and, unless its address is blocked, the minimum and what is missing, in whole coins. Null for others.
CREATE OR REPLACE FUNCTION app.held_back_of(d app.deposit) RETURNS json LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 4708abb990162d37e1bb34fda4864669;

-- Holds back the deposits that are not worth a sweep, in a database from before any were.
CREATE OR REPLACE FUNCTION app.hold_back(of_chain text, of_token text, below numeric) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' SET plan_cache_mode TO 'force_custom_plan' as 7713a081c2a71adff1faedd812988e2d;

-- The addresses with gas that they are not likely to use and that is worth a sweep, and how much, in base units; the largest first.
CREATE OR REPLACE FUNCTION app.idle_gas(of_chain text, most integer) RETURNS TABLE(address text, amount numeric) LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 1c85a14fc67dfa6aec04e55a704c9552;

-- An amount with its token; decimals: null of a token that is not known.
CREATE OR REPLACE FUNCTION app.in_words(amount numeric, token text, decimals integer) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE as 04c0cd62c3ba159f8295f460020f4d64;

-- Whether this is the address that is asked for, in any case where the chain knows none.
CREATE OR REPLACE FUNCTION app.is_address(of_chain text, address text, asked text) RETURNS boolean LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as b8b0691a5eceafcf3657226f1dc2f6c0;

-- Whether an address is not swept because the chain refuses it.
CREATE OR REPLACE FUNCTION app.is_blocked(of_chain text, of_token text, of_address text) RETURNS boolean LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 14b8c111ec6aae1296195d562d7d3f5a;

-- Whether the ledger counts on a transaction for an outgoing payment that is final: it ended it, or was booked as a second payment of it.
CREATE OR REPLACE FUNCTION app.is_booked(s app.outgoing_payment, of_txid text) RETURNS boolean LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as ae44b4026999c81cb59f94d9a64a0f0c;

-- Whether its merchant may cancel a payout: no nonce, no outputs and no transaction were taken for its payment.
CREATE OR REPLACE FUNCTION app.is_cancellable(p app.payout) RETURNS boolean LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as d38de873478b89c241eb914899ee2edb;

-- Whether app.due_comparison has something to do on one of these chains.
CREATE OR REPLACE FUNCTION app.is_comparison_due(of_chains text[]) RETURNS boolean LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as ac2cef7a634c3d86e15ad6f4517ee33b;

-- Whether a token counts no more: nothing can be asked for in it.
CREATE OR REPLACE FUNCTION app.is_disabled(of_chain text, of_token text) RETURNS boolean LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 18238333d68155d78deba28e9d7714b2;

-- Whether an operator dismissed this deposit, or its token.
CREATE OR REPLACE FUNCTION app.is_dismissed(d app.deposit) RETURNS boolean LANGUAGE sql STABLE as 38aa4226eee77d148c2e3005367f825a;

-- Whether a transfer was made by the rules of its chain, without a transaction. Without a kind, as older versions wrote it, the output index says so.
CREATE OR REPLACE FUNCTION app.is_from_protocol(transfer_kind text, output_index integer, token text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE as 9991ac184756c6407f026845d5d5b968;

-- Whether an address is not likely to use its gas: it holds and receives nothing that it would sweep, nothing is under way, and it used no gas for 30 days (a day where no token needs any).
CREATE OR REPLACE FUNCTION app.is_gas_idle(g app.gas) RETURNS boolean LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 6141ce4cc979a3deb085b54bd86f6b12;

-- Whether the treasury holds the amount of a return: it was swept, and no withdrawal of it is under way or done.
CREATE OR REPLACE FUNCTION app.is_held(r app.unattributed_decision) RETURNS boolean LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as a177dc6a2963dbbb9aa92ce91dac2423;

-- Whether an outgoing payment under way should not be counted on: it is given up, has waited a minute for a reason of its own, or needed a third transaction.
CREATE OR REPLACE FUNCTION app.is_held_up(s app.outgoing_payment) RETURNS boolean LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 3e61d562f5b9f51e61e670b42d33d5b3;

-- Whether what was lent to an address is to be taken back now.
CREATE OR REPLACE FUNCTION app.is_return_due(d app.delegation) RETURNS boolean LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 681ff6722cf80b7d885ae11375db7365;

-- Whether an address may be swept now, by what its last sweeps ended with.
CREATE OR REPLACE FUNCTION app.is_sweep_due(of_chain text, of_token text, of_address text) RETURNS boolean LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 45ef56258e7de2ffcad7615030ffe3a8;

-- Whether a payout with sweep_first has sweeps under way, or deposits that are not allocated yet.
CREATE OR REPLACE FUNCTION app.is_to_sweep_first(of_payout uuid) RETURNS boolean LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 8585305e103e96221a1be47b0de5ba93;

-- Whether an address holds so much of a token that gas for its sweep is worth its price.
CREATE OR REPLACE FUNCTION app.is_worth_funding(of_chain text, of_address text, of_token text) RETURNS boolean LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 9a4226a7c897ca882a190fb1f36cd7f0;

-- ISO 8601 in UTC with milliseconds.
CREATE OR REPLACE FUNCTION app.iso(at timestamp with time zone) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE as e87861d6641022d402292efc37912a7c;

-- Notes that a blocked address is still refused, and why (null: that could not be asked); the node is asked again after this time, at most a day.
CREATE OR REPLACE FUNCTION app.keep_blocked(of_chain text, of_token text, of_address text, of_why text, retry_ms integer DEFAULT 86400000) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 9633c3815af347d1f487b47e8e63c01a;

-- What sweeps and cancels under way take from addresses of merchants, in base units.
CREATE OR REPLACE FUNCTION app.leaving(of_chain text) RETURNS TABLE(address text, token text, amount numeric) LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as b17a1348fdaa049010f9e52c48894ef6;

-- What these addresses hold of each token at the final height, by the ledger and by what came while the token did not count, in base units.
CREATE OR REPLACE FUNCTION app.ledger_holdings(of_chain text, addresses text[]) RETURNS TABLE(address text, token text, amount numeric) LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' SET plan_cache_mode TO 'force_custom_plan' as 5b88817703d3d7a6d269b2119b833460;

-- As app.ledger_holdings, and whether a block above this one, which must be final, has moved money of the address; nothing if the ledger does not have the block.
CREATE OR REPLACE FUNCTION app.ledger_holdings_since(of_chain text, block_height integer, block_hash text, addresses text[]) RETURNS TABLE(address text, token text, amount numeric, has_moved boolean, final_height integer) LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' SET plan_cache_mode TO 'force_custom_plan' as d600b7728caa98df10ab5799b3c8e1ce;

-- The final unspent outputs of these addresses, by the ledger, in base units; leaving is true if a transaction of ours, or a block, spends it.
CREATE OR REPLACE FUNCTION app.ledger_outputs(of_chain text, addresses text[]) RETURNS TABLE(address text, outpoint text, amount numeric, is_leaving boolean) LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' SET plan_cache_mode TO 'force_custom_plan' as 1d9ac9aa24beff479e9bba047319649c;

-- How much of the treasury's stake is lent, or about to be, without this outgoing payment, in base units.
CREATE OR REPLACE FUNCTION app.lent_in_all(of_chain text, but_not uuid DEFAULT NULL::uuid) RETURNS numeric LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 05fb9ee959006d142de6dbdf2226d350;

-- How much of the treasury's stake for energy is lent to an address, in base units.
CREATE OR REPLACE FUNCTION app.lent_to(of_chain text, of_address text) RETURNS numeric LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 1cc81b56bd58587c72fc0e22e1e131d7;

-- Raises SL429 if a merchant has cancelled as many payouts within a day, that had begun to sweep, as it may; SL422 if it may cancel none. The caller has locked the merchant.
CREATE OR REPLACE FUNCTION app.limit_cancels(of_merchant uuid) RETURNS void LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog' as fda0eec1e6ff5d228af80a18fefbf706;

-- A line of a statement, as its merchant sees it.
CREATE OR REPLACE FUNCTION app.line_item(l app.statement_line) RETURNS json LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 2b8e38c8cbf5ea65d7642939ab055f37;

-- The place of a line in lists: its time, its entry, and its place in that.
CREATE OR REPLACE FUNCTION app.line_place(l app.statement_line) RETURNS numeric LANGUAGE sql IMMUTABLE PARALLEL SAFE as e8afc001fe2d31224b3f519922c5793b;

-- The lines of a period of one asset, above a place (0: all), the oldest first.
CREATE OR REPLACE FUNCTION app.lines_after(of_merchant uuid, of_chain text, of_token text, since timestamp with time zone, until timestamp with time zone, above numeric, size integer) RETURNS SETOF app.statement_line LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog' SET plan_cache_mode TO 'force_custom_plan' as a53784c1d9ddcb860269e9e0fd9d757d;

-- Takes the dismissal of a token back; returns how many deposits are there.
CREATE OR REPLACE FUNCTION app.list_token_again(of_chain text, of_token text) RETURNS bigint LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 753071d090384bc7beb03110e601342a;

-- A merchant's payout whose parts can be listed; null if it failed, and so has none.
CREATE OR REPLACE FUNCTION app.listed_payout(of_merchant uuid, of_payout uuid) RETURNS uuid LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 95d3598a4b1a98adec49a1e10a11b486;

-- Locks the balance of a merchant, chain and token, until the end of the transaction, against other claims, releases and adjustments.
CREATE OR REPLACE FUNCTION app.lock_pair(of_merchant uuid, of_chain text, of_token text) RETURNS void LANGUAGE sql SET search_path TO 'pg_catalog' as 4c22f1dee08cae80dc38e4a1a73eef0f;

-- Locks a reference of a merchant, in all its Unicode forms.
CREATE OR REPLACE FUNCTION app.lock_reference(of_merchant uuid, reference text) RETURNS void LANGUAGE sql SET search_path TO 'pg_catalog' as 186c6bd0ec5fcf7426b07f8dee7116c9;

-- The deposit of a return whose next step is this one (sweep or withdrawal), with the chain and the treasury locked; null if that is not its next step (any more).
CREATE OR REPLACE FUNCTION app.lock_return(of_deposit uuid, of_step text) RETURNS app.deposit LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 1cb9af26b00416f59cf55237ba6d6348;

-- Locks the treasury of a chain until COMMIT: the rows of all its tokens, in the order of their codes. Rows that are missing are made.
CREATE OR REPLACE FUNCTION app.lock_treasury(of_chain text) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as dd6da485ba7ff1d38a72c57424105457;

-- The deposit to decide about, locked, with its chain; raises an error if it can be neither credited nor returned.
CREATE OR REPLACE FUNCTION app.lock_unattributed(of_deposit uuid) RETURNS app.deposit LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 40df89b0156a3f38b01c22cac4dc4749;

-- Locks a payout; false if nothing is to be swept for it any more, because its payment has begun or it has ended.
CREATE OR REPLACE FUNCTION app.lock_unpaid(of_payout uuid) RETURNS boolean LANGUAGE plpgsql SET search_path TO 'pg_catalog' as a24d800183c6cc3cc96071219fefaeb9;

-- Locks an outgoing payment that can never be paid by what was signed; null if something signed may still pay it, decides it in a block, or uses its conflict key, or if its chain is halted.
CREATE OR REPLACE FUNCTION app.lock_unsigned(of_outgoing_payment uuid) RETURNS app.outgoing_payment LANGUAGE plpgsql SET search_path TO 'pg_catalog' as fe1aa3b4f031355695768d31417b1092;

-- Locks the user that a reference names, and returns its id; null if there is none.
CREATE OR REPLACE FUNCTION app.lock_user_of_ref(of_merchant uuid, given text) RETURNS uuid LANGUAGE sql SET search_path TO 'pg_catalog' as 429ee948db16f898c733c85d47f429fa;

-- Takes the lock that shows that a pool of workers lives (app.recover_dead_pools); false if another connection has it, null if it is no id of a pool.
CREATE OR REPLACE FUNCTION app.lock_worker(of_pool text) RETURNS boolean LANGUAGE sql SECURITY DEFINER SET search_path TO 'pg_catalog' as 84f3a35e19e5b917c730bed3541fbef0;

-- Makes the next week of deliveries, up to three weeks ahead, or drops the oldest one that is past the retention and holds nothing pending: one at each call; returns what it did, or null when nothing is left to do. Safe to run at any time and in several places.
CREATE OR REPLACE FUNCTION app.maintain_partitions(retention interval) RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' SET lock_timeout TO '200ms' SET enable_seqscan TO 'off' as caada78a86ea6662939528c5976da9ad;

-- The match key of an address; folds is the folds_addresses of its chain (app.chain).
CREATE OR REPLACE FUNCTION app.match_key(address text, folds boolean) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE as d18795d89f0059219a6b12598af83894;

-- The head from which on nodes let the output of a deposit be spent; null if at once.
CREATE OR REPLACE FUNCTION app.mature_at(d app.deposit) RETURNS integer LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 660d73825048c0f0aa8530c4afa31ed5;

-- Where attempts expire: whether another attempt of an outgoing payment than this transaction may still pay, or has.
CREATE OR REPLACE FUNCTION app.may_be_paid_otherwise(s app.outgoing_payment, than_by text) RETURNS boolean LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 12599990a05e9de988125fe4267af42f;

-- Whether app.why_outgoing_waits may have an answer: of thousands of sweeps under way, only those few are asked about.
CREATE OR REPLACE FUNCTION app.may_wait(s app.outgoing_payment) RETURNS boolean LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as aeec110510d89d494ae8c5081a51ab40;

-- What /metrics shows about the database, by Prometheus name.
CREATE OR REPLACE FUNCTION app.metrics() RETURNS TABLE(metric text, labels json, value double precision) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as eab7314fa4a6705346fe7d78555024c9;

-- How much more must become final on the address of a deposit that is held back until payouts can collect it, in base units; on chains with outputs, how much its output is below the minimum. Null for others, and on a blocked address.
CREATE OR REPLACE FUNCTION app.missing_to_collect(d app.deposit) RETURNS numeric LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as f639f2f7365eb3491fc623391240b7f1;

-- How an entry of the account of a merchant changes its balance, by kind, in base units: below zero for what leaves.
CREATE OR REPLACE FUNCTION app.movement_parts(kind text, reference text, amount numeric) RETURNS TABLE(part integer, type text, amount numeric) LANGUAGE sql STABLE ROWS 2 SET search_path TO 'pg_catalog' as ac819068c8a7acddf670ac62d39de46c;

-- Trigger: gives a new deposit its id.
CREATE OR REPLACE FUNCTION app.name_deposit() RETURNS trigger LANGUAGE plpgsql SET search_path TO 'pg_catalog' SET plan_cache_mode TO 'auto' as 3265041d765a247208e3f7d41bbd4f32;

-- Token code of a chain's native coin, in which network fees are paid.
CREATE OR REPLACE FUNCTION app.native_token(of_chain text) RETURNS text LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as faab7dfa46005afa58df9625eb14130a;

-- Makes a secret: whsec_ and 192 random bits in base64.
CREATE OR REPLACE FUNCTION app.new_webhook_secret() RETURNS text LANGUAGE sql SET search_path TO 'pg_catalog' as 113c34b21f305b8abd32561e5f8e7ee8;

-- The first unused one of the ids that the sweep (or withdrawal) of a return may have; null if all are taken.
CREATE OR REPLACE FUNCTION app.next_return_outgoing_payment(d app.deposit, of_kind text) RETURNS uuid LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 4c5a59c2e5ddc10bcc76929d5885813a;

-- The version of the next event of an endpoint, its tests counted.
CREATE OR REPLACE FUNCTION app.next_version(of_subject uuid) RETURNS integer LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 4c88579ed0d9ef7660eadc8386c80cc8;

-- What came at the address of a payment request and does not pay it, and why, in words that follow a colon: the newest twenty, known tokens first. is_open: it waits for somebody to decide about it.
CREATE OR REPLACE FUNCTION app.not_counted(of_request uuid) RETURNS TABLE(txid text, what text, why text, at timestamp with time zone, is_open boolean) LANGUAGE sql STABLE SECURITY DEFINER ROWS 1 SET search_path TO 'pg_catalog' as 823357d8f37ff81d3452e6867279bcb0;

-- Records when a receipt came: when it was first seen, or mined, whichever is earlier; and the time of the earliest block that held it.
CREATE OR REPLACE FUNCTION app.note_arrival() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 8660bb33e8312c773a406ceed9fc0036;

-- Notes that a backup of this database has just finished, and by which tool. Call it only after the tool has succeeded.
CREATE OR REPLACE FUNCTION app.note_backup(made_with text) RETURNS void LANGUAGE sql SET search_path TO 'pg_catalog' as cd00eb250ff801cd7de5cad60dc5cade;

-- Trigger: notes what changes of balances change.
CREATE OR REPLACE FUNCTION app.note_balances() RETURNS trigger LANGUAGE plpgsql SET search_path TO 'pg_catalog' as c1511337e727950f8b9d4ead970983de;

-- Notes that a transaction was booked, with what it paid (in base units of its token); if it is a second payment, opens the incident, or adds to the open one, and halts the chain.
CREATE OR REPLACE FUNCTION app.note_booked(s app.outgoing_payment, of_txid text, pays boolean, paid numeric, of_fee numeric) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 0e743c609cb376b1ff29bba6d68ad7bb;

-- Trigger: notes the day of a deposit that is older than a day, and was changed or is new.
CREATE OR REPLACE FUNCTION app.note_changed_day() RETURNS trigger LANGUAGE plpgsql SET search_path TO 'pg_catalog' as bf72e75382e4a88af4c14e0e7fdb8448;

-- Notes the hash of the code of a token's contract; true if it had another one before, which opens an incident.
CREATE OR REPLACE FUNCTION app.note_code(of_chain text, of_token text, hash text) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 4e2e054813314e5e59bfbfe63aee4d70;

-- Trigger: notes deliveries that ended.
CREATE OR REPLACE FUNCTION app.note_deliveries() RETURNS trigger LANGUAGE plpgsql SET search_path TO 'pg_catalog' as c1355a5db46432ce9eba583155755841;

-- Notes that a drill has just ended: which step failed and why, or null if all of them succeeded.
CREATE OR REPLACE FUNCTION app.note_drill(error text) RETURNS void LANGUAGE sql SET search_path TO 'pg_catalog' as 6fc2046a6c1736253ff883dbb8293132;

-- Trigger: notes the fee of a merchant.
CREATE OR REPLACE FUNCTION app.note_fee() RETURNS trigger LANGUAGE plpgsql SET search_path TO 'pg_catalog' as c57f618047f84b87a11f4b5963ab5cd9;

-- Trigger: looks for deposits of recovered payouts of a chain, because deposits became final.
CREATE OR REPLACE FUNCTION app.note_finalisation() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 3c9d8dc1b38011017bb483b7a6627715;

-- Notes that a key was used today (UTC). Writes at most once a day for a key.
CREATE OR REPLACE FUNCTION app.note_key_use(of_secret_hash bytea) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path TO 'pg_catalog' as 35874930ac14446070f453a197ad1f47;

-- Trigger: notes a payout that is completed.
CREATE OR REPLACE FUNCTION app.note_paid() RETURNS trigger LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 983f9c1b9c222d5bf2e0823902473652;

-- Trigger: notes what new entries of the ledger change.
CREATE OR REPLACE FUNCTION app.note_postings() RETURNS trigger LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 3708b9358c41ba81c3e0707a1b5949d8;

-- Notes that the payment request of a deposit is to be updated at COMMIT.
CREATE OR REPLACE FUNCTION app.note_receipt() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as ace8e88172541250f67bd2f2d7f04adf;

-- Trigger: looks for deposits of recovered payouts, because one was recovered, or an allocation that held this up has ended.
CREATE OR REPLACE FUNCTION app.note_recovered() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 28ff8419ac98d4139aaa5ebbbc2cc8f1;

-- Trigger: notes a payment request that was made, or has another status.
CREATE OR REPLACE FUNCTION app.note_requests() RETURNS trigger LANGUAGE plpgsql SET search_path TO 'pg_catalog' as e32be96234389615cb6553dcc461a3ed;

-- Opens the incident of an outgoing payment for which custody signed something else than was asked, with the differences in words.
CREATE OR REPLACE FUNCTION app.note_signed_otherwise(of_outgoing_payment uuid, of_txid text, differences text) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path TO 'pg_catalog' as a682636559346f7b2a03d6067f31e607;

-- Notes what the sweep of a token costs now by each way (in base units of the native coin), which one is used, and why.
CREATE OR REPLACE FUNCTION app.note_sweep_cost(of_chain text, of_token text, burnt numeric, delegated numeric, way text, detail text) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path TO 'pg_catalog' as bf2cff3e81a2507bfeb3357265ad33b1;

-- For each task, how long its oldest due job has been waiting; 0 if none is due.
CREATE OR REPLACE FUNCTION app.oldest_due_jobs() RETURNS TABLE(task text, age_seconds double precision) LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog' as 642e402d66f2597fa2d732bcc2de0c9e;

-- Recovered payouts of a merchant, chain and token whose deposits are not known, the oldest first, each with a debt of its gross and the sum of the other adjustments that it collected.
CREATE OR REPLACE FUNCTION app.open_recovered(of_merchant uuid, of_chain text, of_token text) RETURNS TABLE(payout_id uuid, gross numeric, debt_id uuid, adjusted numeric) LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as bfed9b0f0592139186ef01e47d8b878c;

-- Whom to ask about what came and is not credited.
CREATE OR REPLACE FUNCTION app.operator_can() RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE as 1a45888f3b6acaedb361aa75c855cee8;

-- The operator's own free money in the treasury, in base units: fees earned and top-ups, less network fees and what was advanced to merchants whose addresses are not swept yet. Below zero after unforeseen losses.
CREATE OR REPLACE FUNCTION app.operator_funds(of_chain text, of_token text) RETURNS numeric LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as c754b8cddf2efd6a74ff54a0e7d65f33;

-- A time, or ten seconds from now if it is past.
CREATE OR REPLACE FUNCTION app.or_soon(at timestamp with time zone) RETURNS timestamp with time zone LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 8605e4434f1412be6af8f84a8e025d18;

-- Locks an endpoint that this merchant has, and returns it; raises SL404 where there is none.
CREATE OR REPLACE FUNCTION app.own_webhook_endpoint(of_merchant uuid, endpoint uuid) RETURNS app.webhook_endpoint LANGUAGE plpgsql SET search_path TO 'pg_catalog' as a4bedb8db0487ce617e900d0f323188a;

-- How fast a chain is: the milliseconds from block to block by its last hundred blocks, and how many blocks the newest is above the final one. Null while there are too few blocks.
CREATE OR REPLACE FUNCTION app.pace_of(of_chain text) RETURNS json LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as cdbba5eafcb45bfd9152a4c8faa9efee;

-- The least that pays a request, in base units: what is missing then is within its tolerance, or too little to be a payment and no more than a hundredth.
CREATE OR REPLACE FUNCTION app.paid_from(r app.payment_request) RETURNS numeric LANGUAGE sql IMMUTABLE SET search_path TO 'pg_catalog' as 1ac621fd1a990107f2ebc3bf7aab3868;

-- Hands out no nonce that a final transaction of this incident has used.
CREATE OR REPLACE FUNCTION app.pass_nonces(of_incident app.incident) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 744686b12b2a1325b357e5cc52d6729f;

-- The logo of the merchant of a payment page, a PNG; null if it has none.
CREATE OR REPLACE FUNCTION app.payment_logo(of_page_token text) RETURNS bytea LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 63879aad5f673aff96427d5f0c270136;

-- Payment requests that are neither paid nor ended.
CREATE OR REPLACE FUNCTION app.payment_metrics() RETURNS TABLE(metric text, labels json, value double precision) LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 39882ddfb8d4286ab19fb18b80126ca7;

-- What has to be sent to pay a request, in base units, besides what was seen: never less than anybody can send. 0 if enough was seen.
CREATE OR REPLACE FUNCTION app.payment_missing(r app.payment_request) RETURNS numeric LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as ff9917f6385b1aa7e3951d66e59c139a;

-- What the page of a payment request shows to a visitor who has its token. Its confirmations are those of the youngest pending receipt; null if none is pending. A cancelled request expired when it was cancelled. late_at: when money that no block has taken is late; null while none is waited for. receipts: the first twenty final ones. txid: of what is on its way, if anything is. has_lost: what was seen is in no block any more.
CREATE OR REPLACE FUNCTION app.payment_page(of_page_token text) RETURNS SETOF app.payment_response LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 2d9392bc3a75027762a4919747657d0d;

-- A text for each of these pages that changes whenever what the page shows does. No row for a page that does not exist.
CREATE OR REPLACE FUNCTION app.payment_page_news(page_tokens text[]) RETURNS TABLE(page_token text, news text) LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as e5c9a2bfca951dc2f569ef24cab13242;

-- The payment requests of a chain and token with these statuses and amounts, between two places: the newest.
CREATE OR REPLACE FUNCTION app.payment_requests_of_amount(of_merchant uuid, of_chain text, of_token text, statuses text[], least_amount numeric, most_amount numeric, made_from timestamp with time zone, made_to timestamp with time zone, above bigint, below bigint, size integer) RETURNS SETOF app.payment_request LANGUAGE plpgsql STABLE ROWS 50 SET search_path TO 'pg_catalog' as 5561c12f98119d29c0f26fb6a1ca4ab7;

-- The state of a payment request by its receipts: its status; what is final and what is pending, in base units; whether some of it came late; the transaction that completed it (else the last one), and when that became final; when time alone may change it.
CREATE OR REPLACE FUNCTION app.payment_state(r app.payment_request, expired boolean, OUT status text, OUT received numeric, OUT pending numeric, OUT late boolean, OUT txid text, OUT paid_at timestamp with time zone, OUT decide_at timestamp with time zone) RETURNS record LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog' as 696e6e2241d6a829f361e42009664762;

-- The outgoing payments that a transaction in a block concerns: the one whose attempt it is, and the one whose conflict key it uses up.
CREATE OR REPLACE FUNCTION app.payments_of(of_chain text, of_txid text, of_conflict_key text) RETURNS SETOF uuid LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 3912e0c9fa6215129b6d0334a73be159;

-- A payout, as lists show it: also when it was made.
CREATE OR REPLACE FUNCTION app.payout_in_list(p app.payout) RETURNS json LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as c324524aef898469aa4961a02368200a;

-- A payout, as its merchant sees it.
CREATE OR REPLACE FUNCTION app.payout_item(p app.payout) RETURNS json LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 2b10e5155203ef69717729dac387e339;

-- How much of a payout's token the treasury lacks to pay it now, in base units.
CREATE OR REPLACE FUNCTION app.payout_lack(of_payout uuid, network_fee numeric) RETURNS numeric LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 1add86fa32eae00a939c6132cacf0e39;

-- Payouts and outgoing payments under way, by what they wait for, those that failed, and what treasuries hold (in coins).
CREATE OR REPLACE FUNCTION app.payout_metrics() RETURNS TABLE(metric text, labels json, value double precision) LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog' as f43752760714073e37cfe7d43a3a4057;

-- What a payout claimed, below a place and at least as many as asked for, if there are so many: deposits of users, receipts (what reached the addresses of payment requests) and adjustments, which have the highest places. status is that of the deposit now, reason why there is an adjustment; deposit_id may be the deposit that it is about.
CREATE OR REPLACE FUNCTION app.payout_parts(of_payout uuid, below bigint, most integer) RETURNS TABLE(place bigint, type text, amount numeric, deposit_id uuid, status text, reason text, created_at timestamp with time zone) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 16340f33575a28d67c9d849fb409c685;

-- What the treasury lacks to pay a payout now without money of other merchants; null if nothing.
CREATE OR REPLACE FUNCTION app.payout_shortage(of_payout uuid, network_fee numeric) RETURNS text LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as ffbaa8f503101283d574ff703d1331cf;

-- How much of a payout's token further sweeps have to bring before the treasury can pay it, in base units, besides what sweeps of the merchant's addresses under way, and those whose gas or energy is under way, will probably bring.
CREATE OR REPLACE FUNCTION app.payout_shortfall(of_payout uuid, network_fee numeric) RETURNS numeric LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as fdd13f5f6880e753abbeb400ce3dd63d;

-- How long ago a payout was requested, without the time of halts and of entries of the whitelist that count later.
CREATE OR REPLACE FUNCTION app.payout_waited(p app.payout) RETURNS interval LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 72113bf202423b08093d7190a1720269;

-- Why a payout waits, as the API shows it: {code, message, since}; null if nothing is in its way, or it has ended.
CREATE OR REPLACE FUNCTION app.payout_waiting(p app.payout) RETURNS json LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as a1d7c28439035c5d97e9c667df252943;

-- Writes one posting, given as JSON: [{account, token, amount, merchant_id?, address?}, ...], amounts in base units. Entries of zero are left out.
CREATE OR REPLACE FUNCTION app.post(of_kind text, of_reference text, of_chain text, entries jsonb) RETURNS void LANGUAGE sql SET search_path TO 'pg_catalog' as a1d64f2564160911f00118654d0565f7;

-- Posts gas that moved from an address to the treasury (in base units).
CREATE OR REPLACE FUNCTION app.post_defund(s app.outgoing_payment, moved numeric) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as dc0ae0989d30afbcd22180ab4e07ab42;

-- Notes what a final transaction lent an address, or took back.
CREATE OR REPLACE FUNCTION app.post_delegation(s app.outgoing_payment) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as d5cd2db65083ee1723a35a69072e1545;

-- Posts deposits that became final with this finalisation number, and adds them to what addresses and the treasury hold.
CREATE OR REPLACE FUNCTION app.post_final_deposits(of_chain text, ids uuid[], of_finalisation bigint) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 3bf64154464d25ca2d0527a23df48470;

-- Posts gas that moved from the treasury to an address.
CREATE OR REPLACE FUNCTION app.post_fund(s app.outgoing_payment) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as cc693a1425f2f667670705491427340d;

-- Posts as the operator's loss what left the treasury by a second payment, in base units of its token.
CREATE OR REPLACE FUNCTION app.post_loss(s app.outgoing_payment, lost numeric) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 669f9b9b32e5bc90690c3a85319721b6;

-- Posts the network fee of a final transaction (in base units of the native coin), gives back what was reserved for it, and adds it to the payout's.
CREATE OR REPLACE FUNCTION app.post_network_fee(s app.outgoing_payment, fee numeric) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 28be6f0d226aabaff8183f73ff93da02;

-- Posts what a sweep moved to the treasury, and its network fee, after its payment had ended by another transaction; both in base units.
CREATE OR REPLACE FUNCTION app.post_second_sweep(s app.outgoing_payment, moved numeric, fee numeric) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as ef2f705ab691efa99b69f2446b639653;

-- Posts what a final transaction moved and cost after its payment had ended by another one; its fee (in base units), too.
CREATE OR REPLACE FUNCTION app.post_second_transaction(s app.outgoing_payment, of_txid text, pays boolean, moved numeric, fee numeric) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 8c0e9e8b31835fac11e9d00c905b91a2;

-- Posts coins (in base units) that went from the treasury into its stake; a negative amount came back.
CREATE OR REPLACE FUNCTION app.post_stake(s app.outgoing_payment, staked numeric) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as c2e77aedd47a7e3a741c49b3c142ba0e;

-- Posts what a final transaction staked, unstaked or reclaimed.
CREATE OR REPLACE FUNCTION app.post_staking(s app.outgoing_payment, of_txid text) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 22f0dfaf504a4443ba2414d6e925b965;

-- Posts money of a merchant that moved from its address to the treasury (in base units).
CREATE OR REPLACE FUNCTION app.post_sweep(s app.outgoing_payment, moved numeric) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as e1aeb9b35796071cfc3b5e6f5ea99a2d;

-- Posts what a final transaction did to the treasury's stake; nothing for those that have nothing to do with it.
CREATE OR REPLACE FUNCTION app.post_what_it_staked(s app.outgoing_payment, of_txid text) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 5008a431daefaef2394a83621b51cb83;

-- The time of all that this transaction posts.
CREATE OR REPLACE FUNCTION app.posting_time() RETURNS timestamp with time zone LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 26e0a876a6a9e270592ebd60de9315f4;

-- Gives a user an address on each of the chains where it has none yet; returns whether one is new, and the body of the response.
CREATE OR REPLACE FUNCTION app.provision_addresses(of_merchant uuid, of_user uuid, chains text[], OUT created boolean, OUT body text) RETURNS record LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as fddc72723f842da613689f5d1633dccc;

-- Finds the user with this reference, or makes it with this metadata (null: none), and gives it an address on each of the chains (null: all that are enabled); returns whether the user is new, and the body of the response.
CREATE OR REPLACE FUNCTION app.provision_user(of_merchant uuid, of_external_ref text, chains text[], of_metadata jsonb DEFAULT NULL::jsonb, OUT created boolean, OUT body text) RETURNS record LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as c147b7aa1d8b2e64de13846430607724;

-- The form in which merchants see an id: prefix, underscore, 32 hex digits.
CREATE OR REPLACE FUNCTION app.public_id(prefix text, id uuid) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE as ffe7521a943cc23f5a7f09661aca3af9;

-- The fee of a merchant, and all balances but those of nothing.
CREATE OR REPLACE FUNCTION app.read_balances(of_merchant uuid) RETURNS json LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as fcfdf3ccbe4ca8881181244dc9d17d5d;

-- The fee and the balances of a merchant at a time, as app.read_balances shows those of now.
CREATE OR REPLACE FUNCTION app.read_balances_at(of_merchant uuid, at timestamp with time zone) RETURNS json LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 33bf6c24848cbf0198276358208ce260;

-- The deliveries to an endpoint that are asked for, below a place, the newest first: the place of each, and its JSON.
CREATE OR REPLACE FUNCTION app.read_deliveries(of_merchant uuid, asked jsonb, below uuid, size integer) RETURNS TABLE(place uuid, item json) LANGUAGE sql STABLE ROWS 50 SET search_path TO 'pg_catalog' as 74ac6bff37f3c9bb71666b538f7429de;

-- A delivery to an endpoint of the merchant; null if there is none.
CREATE OR REPLACE FUNCTION app.read_delivery(of_merchant uuid, of_endpoint uuid, of_id uuid) RETURNS json LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 6c7650d83bb7173aa6f19c3fce7f77f4;

-- A deposit of a user of the merchant, with what lists do not have; null if there is none.
CREATE OR REPLACE FUNCTION app.read_deposit(of_merchant uuid, of_id uuid) RETURNS json LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as ce25960a55a3bfa5c09e96b09ef4d54d;

-- The deposits of users that are asked for, below a place, the newest first: the place of each, and its JSON.
CREATE OR REPLACE FUNCTION app.read_deposits(of_merchant uuid, asked jsonb, below numeric, size integer) RETURNS TABLE(place numeric, item json) LANGUAGE sql STABLE ROWS 50 SET search_path TO 'pg_catalog' as a768063f3cffda11e8f69ca72926d32f;

-- An endpoint of the merchant; null if there is none.
CREATE OR REPLACE FUNCTION app.read_endpoint(of_merchant uuid, of_id uuid) RETURNS json LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as c88f1e976688ea313e4dedb1376678f0;

-- The endpoints of a merchant, the newest first.
CREATE OR REPLACE FUNCTION app.read_endpoints(of_merchant uuid) RETURNS SETOF json LANGUAGE sql STABLE SECURITY DEFINER ROWS 5 SET search_path TO 'pg_catalog' as c5e735dbaf001b3de12f7713b0bfb0b6;

-- An event of the merchant, of any type; null if there is none.
CREATE OR REPLACE FUNCTION app.read_event(of_merchant uuid, of_id uuid) RETURNS json LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 05a9d8a6027009d39be5240e9aaee708;

-- The events that are asked for, below a place, the newest first: the place of each, and its JSON.
CREATE OR REPLACE FUNCTION app.read_events(of_merchant uuid, asked jsonb, below bigint, size integer) RETURNS TABLE(place bigint, item json) LANGUAGE sql STABLE ROWS 50 SET search_path TO 'pg_catalog' as 1cc5567e73df6701ccdb3d9d336a29fc;

-- The events that are asked for, above a place, the oldest first: the place of each, and its JSON.
CREATE OR REPLACE FUNCTION app.read_events_after(of_merchant uuid, asked jsonb, above bigint, size integer) RETURNS TABLE(place bigint, item json) LANGUAGE sql STABLE ROWS 50 SET search_path TO 'pg_catalog' as 5b5c7f23579312b1a5a2c8ada4f7eb37;

-- The lines of a statement, below a place, the newest first: the place of each, and its JSON. What may be asked for, as JSON: chain, token, and from and to (moments; from is included, to is not).
CREATE OR REPLACE FUNCTION app.read_lines(of_merchant uuid, asked jsonb, below numeric, size integer) RETURNS TABLE(place numeric, item json) LANGUAGE sql STABLE SECURITY DEFINER ROWS 50 SET search_path TO 'pg_catalog' as eca43d70be5b9cff71c45603189705e8;

-- The current state of a merchant's payment request, with its receipts. Its amount outside of the body is what is to be sent now: 0 once enough was seen, and after its end.
CREATE OR REPLACE FUNCTION app.read_payment_request(of_merchant uuid, of_external_id text) RETURNS SETOF app.payment_response LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as c45fb7b91eeb62a32d73858c11a34718;

-- The payment requests that are asked for, below a place, the newest first: the place of each, and its JSON.
CREATE OR REPLACE FUNCTION app.read_payment_requests(of_merchant uuid, asked jsonb, below bigint, size integer) RETURNS TABLE(place bigint, item json) LANGUAGE sql STABLE ROWS 50 SET search_path TO 'pg_catalog' as 3cdb01ae84b1c19ab67dd09074872c4b;

-- The payments that are asked for, below a place, the newest first: the place of each, and its JSON.
CREATE OR REPLACE FUNCTION app.read_payments(of_merchant uuid, asked jsonb, below bigint, size integer) RETURNS TABLE(place bigint, item json) LANGUAGE sql STABLE ROWS 50 SET search_path TO 'pg_catalog' as 37e35e01466983654fc4079ebde63039;

-- A payout of the merchant; null if there is none.
CREATE OR REPLACE FUNCTION app.read_payout(of_merchant uuid, of_id uuid) RETURNS json LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 8d3cdfb74f3a48b5c13d0d7b026a5c45;

-- Where payouts of each chain go, and since when, or from when on, the whitelist has that.
CREATE OR REPLACE FUNCTION app.read_payout_addresses(of_merchant uuid) RETURNS json LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 6a643be79ccfc8be949ba996f0f2c523;

-- What a payout is made of, as far as it has collected that, below a place: adjustments, then its deposits, the newest first.
CREATE OR REPLACE FUNCTION app.read_payout_parts(of_payout uuid, below bigint, size integer) RETURNS TABLE(place bigint, item json) LANGUAGE sql STABLE ROWS 50 SET search_path TO 'pg_catalog' as 7c6a81285584866dd9365b93b356676a;

-- The payouts that are asked for, below a place, the newest first: the place of each, and its JSON.
CREATE OR REPLACE FUNCTION app.read_payouts(of_merchant uuid, asked jsonb, below bigint, size integer) RETURNS TABLE(place bigint, item json) LANGUAGE sql STABLE ROWS 50 SET search_path TO 'pg_catalog' as 53ca90bc28a0619d96faebfdedd70eb3;

-- For each asset that had a balance, or movements, in a period: the balance before, what changed it by kind (below zero: what left), the balance after, how much of that was held back (null where that is not known), and the net of the payouts that had not ended then.
CREATE OR REPLACE FUNCTION app.read_statements(of_merchant uuid, of_chain text, of_token text, since timestamp with time zone, until timestamp with time zone) RETURNS json LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 9b66f52a110fe4811a09287b1641c46e;

-- A user of the merchant; null if there is none.
CREATE OR REPLACE FUNCTION app.read_user(of_merchant uuid, of_id uuid) RETURNS json LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as a002c6bf33bca6b0ecb94652ef175908;

-- The users that are asked for, below a place, the newest first: the place of each, and its JSON.
CREATE OR REPLACE FUNCTION app.read_users(of_merchant uuid, asked jsonb, below bigint, size integer) RETURNS TABLE(place bigint, item json) LANGUAGE sql STABLE ROWS 50 SET search_path TO 'pg_catalog' as a2a5d68f833a9795f803f0c26ef61f33;

-- The same, of a payout of the merchant that has collected everything; nothing if it failed. Errors: those of app.listed_payout.
CREATE OR REPLACE FUNCTION app.read_whole_payout(of_merchant uuid, asked jsonb, below bigint, size integer) RETURNS TABLE(place bigint, item json) LANGUAGE sql STABLE ROWS 50 SET search_path TO 'pg_catalog' as 705263006c53557f3582c1ffc50d6da1;

-- What becomes of an address before its sweep: fund, delegate or undelegate, if that is under way; lent, if it has energy for a sweep; returning, if that is about to be taken back; else null.
CREATE OR REPLACE FUNCTION app.readiness(of_chain text, of_address text) RETURNS text LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as b8aa36939bbbb5102748de5e28944d5f;

-- What is under way that sends an address gas, or lends it energy, or takes that back; null if nothing is.
CREATE OR REPLACE FUNCTION app.readying(of_chain text, of_address text) RETURNS uuid LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 3d0b1ffd6b24cf9506d99dfa64f7c9dc;

-- Stores the results of attempts at one endpoint and updates their deliveries; returns why they disabled the endpoint (gone or failing), or null.
CREATE OR REPLACE FUNCTION app.record_attempts(of_endpoint uuid, deliveries uuid[], numbers integer[], ages_ms integer[], durations_ms integer[], response_statuses integer[], errors text[], waits_ms bigint[]) RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' SET plan_cache_mode TO 'force_custom_plan' as bdcd28c7e98cca0e62560e3ca17c57ae;

-- Notes that a stored transaction was given to a node, the node's error (null: the node took it), and when it is checked again.
CREATE OR REPLACE FUNCTION app.record_broadcast(of_chain text, of_txid text, error text, retry_ms integer) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path TO 'pg_catalog' as 9bc7abc45411095d62269850a97abf47;

-- Stores what the comparison of some addresses with the chain found, and its position; opens, updates or closes the incident. last: the match_key of the last of them, null if none were left. Safe to run twice.
CREATE OR REPLACE FUNCTION app.record_comparison(of_chain text, claim text, after text, last text, addresses text[], differences jsonb, of_unread text, at_height integer, took interval) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 53516d21c0fc14f6931d1c7c43d7279a;

-- Books what the treasury has staked, and what it is unstaking, as a node says (amounts in base units); returns what was booked, in words.
CREATE OR REPLACE FUNCTION app.recount_stake(of_chain text, energy numeric, bandwidth numeric, unstaking jsonb) RETURNS TABLE(booked text) LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 06ee71f88c36dc9e8d82be65a4ed3cb5;

-- Makes the jobs and queues of dead workers available again; returns how many jobs did.
CREATE OR REPLACE FUNCTION app.recover_dead_pools(hung_after interval DEFAULT '00:00:30'::interval) RETURNS integer LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 764bf6d5d851a5414deb901290b20c4f;

-- Sends an event to an endpoint again, now, whatever the state of its delivery.
CREATE OR REPLACE FUNCTION app.redeliver(of_merchant uuid, endpoint uuid, delivery uuid) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as a1ee75c25d6c2e2d7f9a1243b67a92c0;

-- Sends every event again whose delivery failed and that happened at or after a time; returns how many.
CREATE OR REPLACE FUNCTION app.redeliver_failed(of_merchant uuid, endpoint uuid, since timestamp with time zone) RETURNS integer LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as fb1c3a72734d60a70e1feb5fc827b727;

-- Refreshes the materialised view of analytics that is due first, and returns its name; null if none is due, or another caller is refreshing. Each takes at most a share of the time.
CREATE OR REPLACE FUNCTION app.refresh_analytics(at_least interval DEFAULT '00:01:00'::interval, share double precision DEFAULT 0.02) RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as c430b499ef4ae564130cc64bedc312cf;

-- Updates a payment request from its receipts and the time. Safe to call at any time.
CREATE OR REPLACE FUNCTION app.refresh_payment(of_request uuid) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' SET enable_seqscan TO 'off' as 52c544820803feb521efff8d959ad105;

-- Updates a payment request at COMMIT of the transaction that changed its receipts.
CREATE OR REPLACE FUNCTION app.refresh_touched_payment() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 5a1645967a0d2cfdd1c7e32531f3b41f;

-- Trigger: refuses a change of a deposit, and says which.
CREATE OR REPLACE FUNCTION app.refuse_change() RETURNS trigger LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 1b7eb1f368a112a2bcd32b4fd5e6198e;

-- Raises P0003, with the way out, if a chain is halted by an incident that this decision (rewind or resume) does not resolve.
CREATE OR REPLACE FUNCTION app.refuse_decision(of_chain text, decision text) RETURNS void LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog' as c535adf1c7b7a0aed4f92f400b97936f;

-- Raises SL422 if an endpoint is disabled.
CREATE OR REPLACE FUNCTION app.refuse_disabled(endpoint app.webhook_endpoint) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 54e6385887404779c3defc63bad4bb13;

-- Trigger: refuses to change or delete an entry of the ledger.
CREATE OR REPLACE FUNCTION app.refuse_entry_change() RETURNS trigger LANGUAGE plpgsql SET search_path TO 'pg_catalog' as ed5726faaa49c0b113f79c506d10f862;

-- Raises SLPAY with this message, and a code for programs as its detail.
CREATE OR REPLACE FUNCTION app.refuse_payout(code text, why text) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as e78e3121ddb541b2fd3bbbd3f06712ea;

-- Trigger: refuses to delete a payout.
CREATE OR REPLACE FUNCTION app.refuse_payout_delete() RETURNS trigger LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 313cfbdfa1aba13f4d037e9dd105b8bb;

-- Raises P0003 if an unknown transaction of an incident may have paid what a payout, a withdrawal or a return still waits to pay: it would be paid again.
CREATE OR REPLACE FUNCTION app.refuse_to_keep(of_incident app.incident) RETURNS void LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog' as cf81227879b82a8c7b89260f404b1d0d;

-- Raises P0003 if a deposit is on the chain as we have it, or its block was not read again yet.
CREATE OR REPLACE FUNCTION app.refuse_to_take_back(incident_id bigint, deposit app.deposit) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 793b2c00959317cb8227564a63ef25d6;

-- Makes collectable what a payment that has ended swept, or no longer takes from its address. Called when that is posted.
CREATE OR REPLACE FUNCTION app.release_after_sweep(s app.outgoing_payment) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as f1ec36dc184616d0cd04fb73d5f2fac4;

-- Makes deposits that are held back on these addresses collectable, where they are so now. The arrays are parallel. Safe to run at any time.
CREATE OR REPLACE FUNCTION app.release_held_back(of_chain text, addresses text[], tokens text[], number bigint DEFAULT NULL::bigint) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' SET random_page_cost TO '1.1' as 1d8fc8f3bac09fd19b9188f787a3ed6c;

-- Removes the payout from deposits that it claimed and that were lost afterwards, and cancels the debts that stand for them; returns how many there are, their sum in its claim (base units), and how many are final again.
CREATE OR REPLACE FUNCTION app.release_lost(p app.payout, OUT claimed_count bigint, OUT claimed_amount numeric, OUT final_count bigint) RETURNS record LANGUAGE sql SET search_path TO 'pg_catalog' as 9c72b3411fe465dfda4394b803e8b879;

-- Fails a payout, whose row the caller has locked, for this reason: its gross goes back to the balance, the release of its deposits begins, and payout.failed is emitted.
CREATE OR REPLACE FUNCTION app.release_payout(of_payout uuid, code text, message text) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 7a713c11efbe5eab3c27a958d332dc42;

-- An operator's decision to offer a higher fee for a payment under way, now, even if its chain is halted.
CREATE OR REPLACE FUNCTION app.replace_payout_by_operator(of_payout uuid) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 26b9dbbf119e24b83e30701d4d091e42;

-- Makes the payment request with this reference, and gives it an address; with the Idempotency-Key of an earlier call, returns the same response.
CREATE OR REPLACE FUNCTION app.request_payment(of_merchant uuid, of_currency text, of_external_id text, of_amount text, of_expiry interval, of_key text, of_request bytea, of_metadata jsonb DEFAULT NULL::jsonb, of_return_url text DEFAULT NULL::text, of_tolerance text DEFAULT NULL::text, of_late_after interval DEFAULT '02:00:00'::interval) RETURNS app.payment_response LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 662ee2b0ff96ff7440dfe958eeb6c2f8;

-- The reference of the payment request that a text names, as it is stored; the text itself if it names none. A request with this very text comes first, then one with another Unicode form of it.
CREATE OR REPLACE FUNCTION app.request_ref(of_merchant uuid, given text) RETURNS text LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 20dd6bab1dd35592da4a84dd1058e7da;

-- An operator's decision that a chain is read again from a height; its indexer carries it out.
CREATE OR REPLACE FUNCTION app.request_rewind(of_chain text, to_height integer) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 35e34de250100f907eb5d37ff9975a69;

-- Refuses a new name or label that looks like another one; null passes.
CREATE OR REPLACE FUNCTION app.require_clear_name(what text, value text) RETURNS void LANGUAGE plpgsql IMMUTABLE SET search_path TO 'pg_catalog' as b2d98b3e47f726de3823c4717abbef54;

-- Refuses a new reference that looks like another one.
CREATE OR REPLACE FUNCTION app.require_clear_reference(field text, value text) RETURNS void LANGUAGE plpgsql IMMUTABLE SET search_path TO 'pg_catalog' as 3f27d19556fe158e124ff86038068d8d;

-- Refuses a time for which there are no totals.
CREATE OR REPLACE FUNCTION app.require_quarter(field text, at timestamp with time zone) RETURNS void LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog' as 7d733966918ba5cd6e3902c534bf032e;

-- Refuses what needs totals until those of an older database are made.
CREATE OR REPLACE FUNCTION app.require_totals() RETURNS void LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog' as a5a54cee6960ce98512f6885bab9dd05;

-- Reserves an amount of a token in the treasury, in base units; a negative amount gives it back.
CREATE OR REPLACE FUNCTION app.reserve(of_chain text, of_token text, more numeric) RETURNS void LANGUAGE sql SET search_path TO 'pg_catalog' as e6e333f1c119cbc8538e9e5b819e0dc5;

-- Reserves the outputs of CPFP children whose parent is final.
CREATE OR REPLACE FUNCTION app.reserve_cpfp_outputs(of_chain text) RETURNS void LANGUAGE sql SET search_path TO 'pg_catalog' SET plan_cache_mode TO 'force_custom_plan' as f9b638b82149316696ef91721d10ffa9;

-- Reserves gas (in base units) for an attempt of an outgoing payment that may cost so much more; a defund moves less instead.
CREATE OR REPLACE FUNCTION app.reserve_gas(s app.outgoing_payment, more numeric) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 8acd45d52c3b5049d7466aa2c576cf22;

-- Reserves outputs as inputs of an outgoing payment, from this attempt on. The caller knows that they are free.
CREATE OR REPLACE FUNCTION app.reserve_outputs(of_chain text, inputs text[], of_outgoing_payment uuid, attempt integer) RETURNS void LANGUAGE sql SET search_path TO 'pg_catalog' as 26c7be3233c8025106d8f3e912f7d2d8;

-- An operator's decision about an incident: kept, reorged to take a final deposit back, loss or debt for a second payment.
CREATE OR REPLACE FUNCTION app.resolve_incident(incident_id bigint, decision text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as cbf9b7c39c929ec340f7de479d25a2d4;

-- An operator's decision that a halted chain is resumed as it is. P0003 if it is halted for another reason.
CREATE OR REPLACE FUNCTION app.resume_chain(of_chain text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as f0918d2eaf6b53f16381209bce603607;

-- Wakes a waiting payout and its transactions at once.
CREATE OR REPLACE FUNCTION app.retry_payout(of_payout uuid) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as e8fcc5c1fedd140c10894d18be29c07f;

-- Whether a transaction of a return is under way, or done.
CREATE OR REPLACE FUNCTION app.return_is_under_way(r app.unattributed_decision) RETURNS boolean LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 1a4f094ba555bfac45ed911fd6f10a83;

-- The 20 ids that the sweep (or the withdrawal) of a deposit's return may have, one after the other.
CREATE OR REPLACE FUNCTION app.return_outgoing_payment_ids(d app.deposit, of_kind text) RETURNS TABLE(n integer, id uuid) LANGUAGE sql IMMUTABLE SET search_path TO 'pg_catalog' as a752682e6c93fac31ad5285912196f7d;

-- Decides that unattributed value is returned to this address; the worker carries it out.
CREATE OR REPLACE FUNCTION app.return_unattributed(of_deposit uuid, to_address text) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 0cafa0b944972386ea6f832ea3aac491;

-- Ends a key, in every API process at once. Revoking it again changes nothing.
CREATE OR REPLACE FUNCTION app.revoke_api_key(key uuid) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 05ba70d9496c9a135346727839d4339c;

-- Makes a new secret; the old one signs, too, for 24 hours. Returns the new one, which is never shown again.
CREATE OR REPLACE FUNCTION app.rotate_webhook_secret(of_merchant uuid, endpoint uuid) RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 30f840e70e20b656968fa89e05bd66ca;

-- Numbers committed events that have no sequence, in the order of their insertion, at most batch of them; returns how many. Safe to run at any time and in several places.
CREATE OR REPLACE FUNCTION app.sequence_events(batch integer DEFAULT 10000) RETURNS integer LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as b807609872f736e4da0412e56a62ec46;

-- Sets all that the payment page shows of a merchant; null is as without. The logo stays as it is if keep_logo.
CREATE OR REPLACE FUNCTION app.set_brand(of_merchant uuid, new_name text, new_accent text, new_site_url text, new_help_url text, new_logo bytea, keep_logo boolean) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 302fb91fbe6113ffaad604cf0c3a2df5;

-- Sets how many payouts that have begun to sweep a merchant may cancel within a day.
CREATE OR REPLACE FUNCTION app.set_cancels_per_day(of_merchant uuid, most integer) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 50f943fab84f935e590e8d9d2baca55a;

-- Enables or disables a chain for a merchant. Existing addresses stay watched and credited either way.
CREATE OR REPLACE FUNCTION app.set_merchant_chain(of_merchant uuid, of_chain text, enable boolean) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as af06153b8bfbd256e8e01affb9c2055b;

-- Stops all keys of a merchant at once, or lets them work again. Safe to run again.
CREATE OR REPLACE FUNCTION app.set_merchant_suspended(of_merchant uuid, suspended boolean) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 7b8500410b7158acd5ef05a8b92f0527;

-- Sets the sites that may show the payment page in a frame: these, and no others.
CREATE OR REPLACE FUNCTION app.set_payment_page_sites(of_merchant uuid, origins text[]) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 7d50e7ebe9129dae4e6848b252850027;

-- Sets how much of its new payment requests may be missing, in basis points; those that exist keep theirs.
CREATE OR REPLACE FUNCTION app.set_payment_tolerance(of_merchant uuid, bps integer) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 47226ae98614c6a1645003ed8fe0de66;

-- Registers where payouts of a chain go, and replaces the address before; returns the body of the response. The address comes checked and in its display form.
CREATE OR REPLACE FUNCTION app.set_payout_address(of_merchant uuid, of_chain text, of_address text) RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 747ec7b6ef7c969484ce84cd781881ac;

-- Sets the least amount of an asset that is worth a sweep, in base units, and with it what is held back.
CREATE OR REPLACE FUNCTION app.set_sweep_min(of_chain text, of_token text, of_amount numeric) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as d82b4dfd628fee2e211e648facdbee12;

-- Notes how much of its payout's gross a payment brings with it, in base units, and reserves that much less of the treasury.
CREATE OR REPLACE FUNCTION app.set_swept_in(s app.outgoing_payment, brought numeric) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 315c5726d9d99019c0db749782ea5f60;

-- Sets the time zone of a merchant, by its name in the IANA database.
CREATE OR REPLACE FUNCTION app.set_time_zone(of_merchant uuid, zone text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as b5e020e5135312e640abe6ca4c64d9ab;

-- The payout that collected something, as deposits and payments show it; null until it is completed.
CREATE OR REPLACE FUNCTION app.settlement_of(payout uuid) RETURNS json LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 6a8060b5706d092278da831d999b59d4;

-- How much of a token is missing (given in base units), in words: "USDC for sweeping short by 0.5".
CREATE OR REPLACE FUNCTION app.short_by(of_chain text, of_token text, missing numeric, for_what text DEFAULT ''::text) RETURNS text LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 016ae37fd450f95e0545f48d4ea65baa;

-- What is short for such a payment, in words ("USDC short by 0.5"); null if nothing is.
CREATE OR REPLACE FUNCTION app.shortage(of_chain text, of_token text, of_merchant uuid, amount numeric, gross numeric, network_fee numeric) RETURNS text LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 083f9587c9439d008ecb7295f04d42c1;

-- Whether the indexer of a chain shows payments that are in no block yet.
CREATE OR REPLACE FUNCTION app.shows_unconfirmed(of_chain text) RETURNS boolean LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 8e96397f7f0c54c94e7a120528c68223;

-- What the treasury has staked for energy, in base units; how much of it is lent or about to be; and how much is to be lent, or unstaked, that a node does not know of yet.
CREATE OR REPLACE FUNCTION app.stake_for_energy(of_chain text, OUT staked numeric, OUT lent numeric, OUT unseen numeric) RETURNS record LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 9ad2d846c04fa0cd77b605ccbd8fd59f;

-- A page of a statement as rows of a file, behind a place, of one asset at most: the opening balance, the lines, the oldest first, their sums, and the closing balance. Behind the last asset there is nothing. day: in the time zone of the merchant.
CREATE OR REPLACE FUNCTION app.statement_file(of_merchant uuid, asked jsonb, after text, size integer) RETURNS TABLE(place text, chain text, token text, created_at timestamp with time zone, type text, amount numeric, deposit_id text, user_external_ref text, external_id text, payout_id text, txid text, payout_address text, payout_status text, day date) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as e084d780727d12519dc5c349ebeadba2;

-- The sums of a period of one asset, in base units.
CREATE OR REPLACE FUNCTION app.statement_sums(of_merchant uuid, asset text, since timestamp with time zone, until timestamp with time zone, OUT opening numeric, OUT deposits numeric, OUT deposits_lost numeric, OUT payouts numeric, OUT fees numeric, OUT adjustments numeric, OUT held_back numeric) RETURNS record LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as b3639db211169a2e5163b3a2043d5e52;

-- Stores a signed transaction as the next attempt of an outgoing payment, before it may be broadcast; amounts in base units. False if it came too late, or costs more than the operator has. Safe to run again.
CREATE OR REPLACE FUNCTION app.store_signed(of_outgoing_payment uuid, number integer, of_kind text, of_txid text, of_raw text, of_amount numeric, of_max_fee numeric, of_fee_details jsonb) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as be31c11970580143fca2f81947e8be9e;

-- Stores attempts that a final block holds, custody signed, and the worker never stored.
CREATE OR REPLACE FUNCTION app.store_what_is_final(of_chain text, final_height integer) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 126222cb02197afeb9b193619b4b019b;

-- A token that is not supported, as deposits name it: where upper and lower case make no difference in addresses, its contract in lower case.
CREATE OR REPLACE FUNCTION app.stored_token(of_chain text, given text) RETURNS text LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as cb6887b2e46b7e31c8a4110187874c61;

-- Sums up days of deposits that have ended, at most so many, and those that were changed; returns how many. Safe to run at any time and in several places.
CREATE OR REPLACE FUNCTION app.sum_up_deposit_days(most integer DEFAULT 31) RETURNS integer LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 70aa4e20328a1e9d4d8e821c410c77fc;

-- Sums up days of the ledger that have ended, at most so many; returns how many rows that made. Safe to run at any time and in several places.
CREATE OR REPLACE FUNCTION app.sum_up_ledger_days(most integer DEFAULT 31) RETURNS integer LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 38dac65d730f523220dc692b2f7d1e7a;

-- Notes those of these transactions in blocks that were signed for an outgoing payment that ended by another transaction.
CREATE OR REPLACE FUNCTION app.suspect_second_payments(txids text[]) RETURNS void LANGUAGE sql SET search_path TO 'pg_catalog' SET plan_cache_mode TO 'force_custom_plan' as e272bcb0b5276b7bdf6150b34719565b;

-- Notes the transactions in blocks that were signed for an outgoing payment that has just ended, and did not end it.
CREATE OR REPLACE FUNCTION app.suspect_second_payments_of(s app.outgoing_payment) RETURNS void LANGUAGE sql SET search_path TO 'pg_catalog' as b3e5d76aa7caab92965ac21c8279cc70;

-- The sweeps of an address, and the funds for them, that failed within a day and after the last one that did not: how many, why the newest one, and when the address may be swept again.
CREATE OR REPLACE FUNCTION app.sweep_failures(of_chain text, of_token text, of_address text, OUT failures integer, OUT failure text, OUT retry_at timestamp with time zone) RETURNS record LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as d4fc0149c30259a2191ea5e5d7caa5d4;

-- The account that pays the network fee of a sweep of an address: the treasury, or the address itself.
CREATE OR REPLACE FUNCTION app.sweep_payer(of_chain text, of_token text, of_address text) RETURNS text LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 467a9aac4203366a423ac352c7d9a0ca;

-- The sweep of a merchant's money on an address that is not final, or the cancel of one; null if there is none.
CREATE OR REPLACE FUNCTION app.sweep_under_way(of_chain text, of_token text, of_address text) RETURNS uuid LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as da81026900e52fed305f6548fac24cd4;

-- Addresses of a payout's merchant whose final money counts in the balance, can be swept and is not being swept, with what they hold in base units, the largest first; with sweep_first only those of the claimed deposits, each once, until they are swept: what the treasury paid in advance for the merchant may be on others, and what arrives after the claim does not belong to it.
CREATE OR REPLACE FUNCTION app.sweepable(of_payout uuid, at_least numeric, most integer) RETURNS TABLE(address text, amount numeric) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' SET plan_cache_mode TO 'force_custom_plan' as 067cd5025cd748e64ef73f8a2a75cd6a;

-- Whether an address sweeps this token with gas that the treasury sent it.
CREATE OR REPLACE FUNCTION app.sweeps_itself(of_chain text, of_token text) RETURNS boolean LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as a1949ff5ffd671dc9a6ca846d67b66f0;

-- Gives a user an address of a family, watched on all chains of the family. The caller has locked the user's row.
CREATE OR REPLACE FUNCTION app.take_address(of_merchant uuid, of_user uuid, of_family text) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 54b72da1d6369ba5ad16d2a2394272f0;

-- Makes a final deposit reorged, with all that follows for balance, payout, ledger and merchant. Only app.resolve_incident calls it.
CREATE OR REPLACE FUNCTION app.take_back(of_deposit uuid) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 9d8139282da0055b704d6ba207ecee10;

-- Takes the next nonce of an address of ours on a chain, and returns it; the first one is 0. Null on chains without nonces.
CREATE OR REPLACE FUNCTION app.take_nonce(of_chain text, of_sender text) RETURNS integer LANGUAGE sql SET search_path TO 'pg_catalog' as d2192456df0f8256b67dcd39c454d876;

-- Gives a payment request an address that nothing else ever uses. It is watched on every chain of the family, and credited on the request's chain alone.
CREATE OR REPLACE FUNCTION app.take_payment_address(r app.payment_request) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 5ffb36fe518de58111c71e5f7eab3377;

-- Marks the outputs that a transaction spent after its payment had ended and adds its change; returns what left our outputs by it, network fee included, in base units.
CREATE OR REPLACE FUNCTION app.take_second_outputs(s app.outgoing_payment, of_txid text) RETURNS numeric LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 4cd927d3db98e05b74decc4695ab22f5;

-- Opens, updates or closes the incident of one check by what it found. If a command repairs what was found, the incident names it.
CREATE OR REPLACE FUNCTION app.tell_finding(name text, claim text, count bigint, what jsonb) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as f42101a610932d8a61caa6ad102682d5;

-- Sends an example of an event to one endpoint, whatever types it gets; returns the id of its delivery.
CREATE OR REPLACE FUNCTION app.test_webhook(of_merchant uuid, endpoint uuid, of_type text DEFAULT 'deposit.confirmed'::text) RETURNS uuid LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 75c467c89e4e16bcfc3b4c8db4f6209c;

-- The texts of a JSON list, each once; null if there is none, or it is empty.
CREATE OR REPLACE FUNCTION app.texts_in(list jsonb) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE as 40f8d5cabb3347fd440c57e5dd6a6e26;

-- The time of the block before the one that holds a transaction; of that one itself if the one before is not stored any more.
CREATE OR REPLACE FUNCTION app.time_before(of_chain text, of_txid text) RETURNS timestamp with time zone LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as da8a9e0c529033e0f2b248c05a59098a;

-- Fails a payout that has waited this long before its payment, with the reason that it waits for; returns the code, or null if it goes on.
CREATE OR REPLACE FUNCTION app.time_out_payout(of_payout uuid, timeout_ms bigint) RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 6562e021a2b2237a7774475dd1cdb014;

-- How much of an amount may be missing, in base units: as given, or as the merchant has it for all its requests.
CREATE OR REPLACE FUNCTION app.tolerance_of(of_merchant uuid, amount numeric, given text, decimals integer) RETURNS numeric LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog' as 3e7b71c7925eec6d87f1842dd54b15c1;

-- How many, and how much, a series had until the beginning of a quarter of an hour.
CREATE OR REPLACE FUNCTION app.total_at(of_merchant uuid, of_series text, of_about text, of_time timestamp with time zone) RETURNS TABLE(count bigint, amount numeric) LANGUAGE sql STABLE ROWS 1 as c924e50a0c8a8d96adbf7d40a365cdfd;

-- The treasury's address on a chain; null until custody has derived it.
CREATE OR REPLACE FUNCTION app.treasury_address(of_chain text) RETURNS text LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 8499701c70b993af3647038e0c5930b5;

-- Takes the lock of the worker that audits; false if another connection has it.
CREATE OR REPLACE FUNCTION app.try_lock_audit() RETURNS boolean LANGUAGE sql SECURITY DEFINER SET search_path TO 'pg_catalog' as 198902f8c13a8006c8bb586b136baeb0;

-- Takes the lock of the worker that sends to a webhook endpoint; false if another connection has it.
CREATE OR REPLACE FUNCTION app.try_lock_endpoint(of_endpoint uuid) RETURNS boolean LANGUAGE sql SECURITY DEFINER SET search_path TO 'pg_catalog' as 29ca3108c0e843d542c494d19f1563f7;

-- Takes the lock of the worker that has payments of a chain signed, and sends them; false if another connection has it.
CREATE OR REPLACE FUNCTION app.try_lock_sending(of_chain text) RETURNS boolean LANGUAGE sql SECURITY DEFINER SET search_path TO 'pg_catalog' as 50c6658648d867059bc33c9921e01ec6;

-- Ends the blocking of an address: payouts can collect its deposits again. how: the resolution of its incident. False if it was not blocked.
CREATE OR REPLACE FUNCTION app.unblock(of_chain text, of_token text, of_address text, how text) RETURNS boolean LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 9864677ef9461c698218d5bf90e76596;

-- Ends the blocking of an address that the chain lets go. False if it was not blocked. Safe to run again.
CREATE OR REPLACE FUNCTION app.unblock_address(of_chain text, of_token text, of_address text) RETURNS boolean LANGUAGE sql SECURITY DEFINER SET search_path TO 'pg_catalog' as e215046287c1fde67753cf695657acff;

-- What a payout of a merchant, chain and token would claim now, or could have claimed with a lower minimum, with the place of each in the order in which payouts could claim it: its number, then the block.
CREATE OR REPLACE FUNCTION app.unclaimed_deposits(of_merchant uuid, of_chain text, of_token text, with_held_back boolean) RETURNS TABLE(id uuid, number bigint, height integer, amount numeric) LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as f559e0c1b257b4b6063ab03821cef3e2;

-- What is wrong with a text that people compare by eye, in words; null if nothing is.
CREATE OR REPLACE FUNCTION app.unclear(value text, has_joiners boolean) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog' as 6f9e1216dc56f2a69929931b571cf49a;

-- Which sweeps of a payout are not final, and since when they are under way; null if all are.
CREATE OR REPLACE FUNCTION app.unfinished_sweeps(of_payout uuid) RETURNS text LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as a630e2e88842c8004a162fc0aa12032e;

-- Gives the lock of a webhook endpoint back; false if this connection does not have it.
CREATE OR REPLACE FUNCTION app.unlock_endpoint(of_endpoint uuid) RETURNS boolean LANGUAGE sql SECURITY DEFINER SET search_path TO 'pg_catalog' as 2380593ab4bccec64838d603e07d0cab;

-- Gives the lock of sending a chain's payments back; false if this connection does not have it.
CREATE OR REPLACE FUNCTION app.unlock_sending(of_chain text) RETURNS boolean LANGUAGE sql SECURITY DEFINER SET search_path TO 'pg_catalog' as 40c2bc87bef3e887690ca6bc2cb13dfd;

-- Gives back what is reserved for a payout's payment, except its network fee.
CREATE OR REPLACE FUNCTION app.unreserve_payment(p app.payout, s app.outgoing_payment) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 5bfe72b396259bda8bedb7b3df435121;

-- Final, credited money on an address that no sweep under way takes, in base units.
CREATE OR REPLACE FUNCTION app.unswept(of_chain text, of_address text, of_token text) RETURNS numeric LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as aa01570a159420dc2c6c4ca995e787ed;

-- Addresses whose money a payout may need, and whose sweeps failed (app.unswept_address).
CREATE OR REPLACE FUNCTION app.unswept_for(of_payout uuid) RETURNS SETOF app.unswept_address LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as f96b721b67ab7a857dca687a8d15f401;

-- Changes name and fee of a merchant; null leaves a value as it is. A payout keeps the fee that it was made with.
CREATE OR REPLACE FUNCTION app.update_merchant(of_merchant uuid, new_name text, new_fee_bps integer) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 0ca29e3c0b1bb3c27d430ac02e954818;

-- Replaces the metadata of a user; null leaves it as it is. Events that were made already keep the old one.
CREATE OR REPLACE FUNCTION app.update_user(of_merchant uuid, of_user uuid, new_metadata jsonb) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 8de56a33d1b39557968a9f6ba87f949f;

-- Changes the URL, the event types, or whether an endpoint is enabled; null leaves a value as it is. Disabling fails its pending deliveries.
CREATE OR REPLACE FUNCTION app.update_webhook_endpoint(of_merchant uuid, endpoint uuid, url text, event_types text[], enable boolean) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as d000ee0951912e706248ff09b9edf99f;

-- Jobs, events, webhooks, the address pool, network fees, the audit, and the size of the database.
CREATE OR REPLACE FUNCTION app.upkeep_metrics() RETURNS TABLE(metric text, labels json, value double precision) LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as db0ffa0438a813e240b0e3cd9656fbc1;

-- The reference of the user that a text names, as it is stored; the text itself if it names none. A user with this very text comes first, then one with another Unicode form of it.
CREATE OR REPLACE FUNCTION app.user_ref(of_merchant uuid, given text) RETURNS text LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 0b19de2b7a6f18c586a4794e2742a281;

-- Whether transactions of a chain spend outputs (Bitcoin) rather than balances of accounts.
CREATE OR REPLACE FUNCTION app.uses_outputs(of_chain text) RETURNS boolean LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 1be76bbedda94c6ee3aa9c221993439e;

-- The lowest UUID of version 7 (the ids of deliveries) that is made at or after a time.
CREATE OR REPLACE FUNCTION app.uuid_at(at timestamp with time zone) RETURNS uuid LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT as c6526f4a36563fe2c499d628f2465eda;

-- What people see of a text: without the characters that app.unclear refuses, in the form NFC.
CREATE OR REPLACE FUNCTION app.visible_text(value text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog' as f131fff755eb987120357c4071b174f0;

-- Notes what an outgoing payment waits for (null: nothing), and when it is checked again.
CREATE OR REPLACE FUNCTION app.wait_outgoing_payment(of_outgoing_payment uuid, reason text, detail text, retry_ms integer) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path TO 'pg_catalog' as 0a72c4bb5458dd50cdfd230c71df7f41;

-- Notes what a payout waits for (null: nothing), since when, and when its next step is tried again. Does nothing once it is paying, or has ended.
CREATE OR REPLACE FUNCTION app.wait_payout(of_payout uuid, reason text, detail text, retry_ms integer) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path TO 'pg_catalog' as a9f447b9ce3300c191c438c277a00247;

-- Notes what the next transaction of a return waits for.
CREATE OR REPLACE FUNCTION app.wait_return(of_deposit uuid, reason text, detail text) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path TO 'pg_catalog' as efdd9e4eae05b7bc4f9de9904a1f5efb;

-- Adds the job that allocates the deposits of a payout's merchant, chain and token.
CREATE OR REPLACE FUNCTION app.wake_allocation(p app.payout) RETURNS void LANGUAGE sql SET search_path TO 'pg_catalog' as 5f692e0eabefc997ecced90043bd6a09;

-- Adds the job that sends what is due on a chain; it runs once this transaction is committed.
CREATE OR REPLACE FUNCTION app.wake_outgoing_payments(of_chain text) RETURNS void LANGUAGE sql SET search_path TO 'pg_catalog' as d761025cd759793bcfbe295c01a652f2;

-- Adds the job that takes a payout's next step.
CREATE OR REPLACE FUNCTION app.wake_payout(payout uuid) RETURNS void LANGUAGE sql SET search_path TO 'pg_catalog' as 3968359fc7565d6f2f4247b57f98e4f2;

-- Wakes the payouts that waited for these outgoing payments, which are final now.
CREATE OR REPLACE FUNCTION app.wake_payouts_after(sweeps uuid[]) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as d2ee8bd88488678adbaa78e18c3831df;

-- What an operator has to do first about a chain that is halted, or whose payouts are stopped; null if nothing is wrong.
CREATE OR REPLACE FUNCTION app.way_out(of_chain text) RETURNS text LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 6524f3c8dfa4c4633c9c95b6988ada26;

-- Sums up those of these outputs that are free and belong to the merchant or, with_treasury, to the treasury: their number, their sum and the merchant's part of it, in base units. A number below the number asked for means that some are not free, or named twice.
CREATE OR REPLACE FUNCTION app.weigh_outputs(of_chain text, inputs text[], of_merchant uuid, with_treasury boolean, OUT count bigint, OUT total numeric, OUT of_addresses numeric) RETURNS record LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as c2c00ccf0c1a8897f5b8b10bf657fec4;

-- Why an outgoing payment that has ended had no effect, in words for operators; null if it had.
CREATE OR REPLACE FUNCTION app.why_failed(s app.outgoing_payment) RETURNS text LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 29ddeb3dda60bfd38b4decbf0393ff75;

-- Why payouts of a chain are stopped now: an open incident; null if nothing is wrong. Merchants may read it; the way out is for operators (app.way_out).
CREATE OR REPLACE FUNCTION app.why_halted(of_chain text) RETURNS text LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as d9e34102203a163df857cf46fed4f8a8;

-- Why this much of a merchant's balance (in base units) is held back, for people; null if nothing is.
CREATE OR REPLACE FUNCTION app.why_held_back(of_merchant uuid, of_chain text, of_token text, held numeric) RETURNS text LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 5de0b578a4ef81a78a6286f64778aed3;

-- Why the chain cannot be compared with the ledger now; null if it can.
CREATE OR REPLACE FUNCTION app.why_not_comparable(of_chain text) RETURNS text LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 09e1c759e4ade33ce4e4b994c2d22d30;

-- What an outgoing payment really waits for: the reason, its detail for operators, and since when; null if nothing is in its way.
CREATE OR REPLACE FUNCTION app.why_outgoing_waits(s app.outgoing_payment, OUT reason text, OUT detail text, OUT since timestamp with time zone) RETURNS record LANGUAGE sql STABLE SET search_path TO 'pg_catalog' SET plan_cache_mode TO 'force_generic_plan' as 675b7390ea000d537b8c3b581dd167b6;

-- Why a payment request has the status that it has, in words.
CREATE OR REPLACE FUNCTION app.why_payment(r app.payment_request) RETURNS text LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 4ef20ca57e61cbbcfd340ba49a12cdbb;

-- What a payout really waits for: the reason, its detail for operators, and since when; null if nothing is in its way.
CREATE OR REPLACE FUNCTION app.why_payout_waits(p app.payout, OUT reason text, OUT detail text, OUT since timestamp with time zone) RETURNS record LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 76d78a70cf5b6ab4e7dccca7a83e0009;

-- Why value is credited to no merchant: protocol, unsupported_token, chain_not_requested, wrong_token or enabled_later. is_asked_for: the address was asked for on its chain; asked_token: the token that its payment request asked for, null for a user's.
CREATE OR REPLACE FUNCTION app.why_unattributed(from_protocol boolean, is_known boolean, is_asked_for boolean, token text, asked_token text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE as 8e9a64e595ae05c9d9af34b65d9ae679;

-- An object with the fields of another one behind its own.
CREATE OR REPLACE FUNCTION app.with_more(object json, more json) RETURNS json LANGUAGE sql IMMUTABLE PARALLEL SAFE as e419c2ececf6b1ef99109d5b62a8b072;

-- Trigger: a new deposit that is protocol income is not credited.
CREATE OR REPLACE FUNCTION app.withhold_protocol_income() RETURNS trigger LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 7b62ef75ed6f5fb3608b373c707f98bd;

-- Does not credit a deposit that is being returned, even if its chain was asked for before it is read again.
CREATE OR REPLACE FUNCTION app.withhold_returned() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' SET plan_cache_mode TO 'auto' SET enable_seqscan TO 'off' as 2c532dc5e2e2c1266c72bcb5385eded4;

-- A reason of app.why_unattributed, in words.
CREATE OR REPLACE FUNCTION app.words_of_unattributed(reason text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE as 25a744c7c71fb23df6961b6256dab8a3;

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
--   merchant_id uuid
--   chain text
--   token text
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
--   chain text
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
--   chain text
--   token text
--   merchant_id uuid
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

-- the sums of the days of deposits are those of the deposits
create view audit.deposit_days as
 SELECT day,
    merchant_id,
    chain,
    token,
    sum(summed) AS summed,
    sum(stored) AS stored,
    sum(final_summed) AS final_summed,
    sum(final_stored) AS final_stored
   FROM ( SELECT deposit_day.day,
            deposit_day.merchant_id,
            deposit_day.chain,
            deposit_day.token,
            deposit_day.deposit_count AS count_summed,
            0 AS count_stored,
            deposit_day.final_count AS final_count_summed,
            0 AS final_count_stored,
            deposit_day.amount AS summed,
            0 AS stored,
            deposit_day.final_amount AS final_summed,
            0 AS final_stored
           FROM app.deposit_day
        UNION ALL
         SELECT (deposit.created_at AT TIME ZONE 'UTC'::text)::date AS timezone,
            deposit.merchant_id,
            deposit.chain,
            deposit.token,
            0,
            1,
            0,
                CASE deposit.status
                    WHEN 'final'::text THEN 1
                    ELSE 0
                END AS "case",
            0,
            deposit.amount,
            0,
                CASE deposit.status
                    WHEN 'final'::text THEN deposit.amount
                    ELSE 0::numeric
                END AS "case"
           FROM app.deposit
          WHERE deposit.credited AND deposit.status <> 'reorged'::text AND deposit.created_at < ((( SELECT max(deposit_day.day) + 1
                   FROM app.deposit_day))::timestamp without time zone AT TIME ZONE 'UTC'::text)) part
  WHERE NOT (day IN ( SELECT changed_deposit_day.day
           FROM app.changed_deposit_day))
  GROUP BY day, merchant_id, chain, token
 HAVING sum(summed) <> sum(stored) OR sum(final_summed) <> sum(final_stored) OR sum(count_summed) <> sum(count_stored)::numeric OR sum(final_count_summed) <> sum(final_count_stored)::numeric;
--   day date: The day, in UTC.
--   merchant_id uuid
--   chain text
--   token text
--   summed numeric: The sum of deposits that is stored, in base units.
--   stored numeric: The sum of the deposits, in base units.
--   final_summed numeric: The sum of final deposits that is stored, in base units.
--   final_stored numeric: The sum of the final deposits, in base units.

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
--   chain text
--   txid text
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
--   chain text
--   token text
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
--   chain text
--   what text: deposit, or the kind of the outgoing payment: payout, sweep, withdrawal or cancel.
--   id uuid: Id of the deposit or the outgoing payment.
--   status text
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
--   chain text
--   token text
--   address text
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
--   merchant_id uuid
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
--   chain text
--   token text
--   merchant_id uuid: The merchant; null if it is about none.
--   address text: The address; null if it is about none.
--   kept numeric: The stored amount, in base units.
--   posted numeric: The amount by the ledger, or by what is under way, in base units.

-- the sums of the ledger's days are those of its entries
create view audit.ledger_days as
 SELECT day,
    kind,
    account,
    chain,
    token,
    merchant_id,
    sum(summed) AS summed,
    sum(posted) AS posted
   FROM ( SELECT ledger_day.day,
            ledger_day.kind,
            ledger_day.account,
            ledger_day.chain,
            ledger_day.token,
            ledger_day.merchant_id,
            ledger_day.amount AS summed,
            0 AS posted
           FROM app.ledger_day
        UNION ALL
         SELECT (ledger_entry.created_at AT TIME ZONE 'UTC'::text)::date AS timezone,
            ledger_entry.kind,
            ledger_entry.account,
            ledger_entry.chain,
            ledger_entry.token,
            ledger_entry.merchant_id,
            0,
            ledger_entry.amount
           FROM app.ledger_entry
          WHERE ledger_entry.created_at < ((( SELECT max(ledger_day.day) + 1
                   FROM app.ledger_day))::timestamp without time zone AT TIME ZONE 'UTC'::text)) part
  GROUP BY day, kind, account, chain, token, merchant_id
 HAVING sum(summed) <> sum(posted);
--   day date: The day, in UTC.
--   kind text: Kind of the entries.
--   account text: Account of the entries.
--   chain text
--   token text
--   merchant_id uuid
--   summed numeric: The sum that is stored, in base units.
--   posted numeric: The sum of the entries, in base units.

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
--   chain text
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
--   chain text
--   txid text
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
          WHERE NOT ((s.kind = ANY (ARRAY['delegate'::text, 'undelegate'::text])) AND s.recovered AND s.txid IS NULL)
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
--   chain text
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
 SELECT 'stake'::text AS what,
    stake.chain,
    stake.resource AS token,
    NULL::text AS whose,
    stake.amount
   FROM app.stake
  WHERE stake.amount < 0::numeric
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
--   what text: holding, treasury, reserved, reserved share, gas, reserved gas, or stake.
--   chain text
--   token text
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
--   chain text
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
--   address text
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
--   status text
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
--   chain text
--   token text
--   sum numeric: What its entries add up to, in base units.

-- the totals behind statements = the balances, and all that changed these
create view audit.running_totals as
 WITH total AS (
         SELECT last.merchant_id,
            last.series,
            last.about,
            sum(last.amount) AS amount
           FROM ( SELECT DISTINCT ON (running_total.merchant_id, running_total.series, running_total.about) running_total.merchant_id,
                    running_total.series,
                    running_total.about,
                    running_total.amount
                   FROM app.running_total
                  ORDER BY running_total.merchant_id, running_total.series, running_total.about, running_total.until DESC) last
          GROUP BY last.merchant_id, last.series, last.about
        UNION ALL
         SELECT total_change.merchant_id,
            total_change.series,
            total_change.about,
            sum(total_change.amount) AS sum
           FROM app.total_change
          GROUP BY total_change.merchant_id, total_change.series, total_change.about
        ), summed AS (
         SELECT total.merchant_id,
            total.about,
            COALESCE(sum(total.amount) FILTER (WHERE total.series = 'balance'::text), 0::numeric) AS balance,
            COALESCE(sum(total.amount) FILTER (WHERE total.series = ANY (ARRAY['deposit'::text, 'deposit_lost'::text, 'payout'::text, 'fee'::text, 'adjustment'::text])), 0::numeric) AS changes,
            COALESCE(sum(total.amount) FILTER (WHERE total.series = 'held_back'::text), 0::numeric) AS held_back
           FROM total
          WHERE total.series = ANY (ARRAY['balance'::text, 'held_back'::text, 'deposit'::text, 'deposit_lost'::text, 'payout'::text, 'fee'::text, 'adjustment'::text])
          GROUP BY total.merchant_id, total.about
        )
 SELECT merchant_id,
    asset,
    COALESCE(b.amount, 0::numeric) AS balance,
    COALESCE(s.balance, 0::numeric) AS total_balance,
    COALESCE(s.changes, 0::numeric) AS total_changes,
    COALESCE(b.held_back, 0::numeric) AS held_back,
    COALESCE(s.held_back, 0::numeric) AS total_held_back
   FROM ( SELECT balance_now.merchant_id,
            (balance_now.chain || ':'::text) || balance_now.token AS asset,
            balance_now.amount,
            balance_now.held_back
           FROM app.balance_now) b
     FULL JOIN ( SELECT summed.merchant_id,
            summed.about AS asset,
            summed.balance,
            summed.changes,
            summed.held_back
           FROM summed) s USING (merchant_id, asset)
  WHERE COALESCE(b.held_back, 0::numeric) <> COALESCE(s.held_back, 0::numeric) OR (COALESCE(b.amount, 0::numeric) <> COALESCE(s.balance, 0::numeric) OR COALESCE(b.amount, 0::numeric) <> COALESCE(s.changes, 0::numeric)) AND NOT (EXISTS ( SELECT
           FROM app.total_backfill
          WHERE total_backfill.done_up_to < total_backfill.last_entry));
--   merchant_id uuid
--   asset text: CHAIN:TOKEN.
--   balance numeric: The balance, in base units.
--   total_balance numeric: Its running total.
--   total_changes numeric: The sum of the running totals of what changed it.
--   held_back numeric: What is held back, in base units.
--   total_held_back numeric: Its running total.

-- the deposits that became final together = what was posted
create view audit.statement_lines as
 SELECT e.merchant_id,
    e.chain,
    e.token,
    e.finalisation,
    e.amount AS posted,
    COALESCE(l.amount, 0::numeric) AS lines
   FROM ( SELECT ledger_entry.merchant_id,
            ledger_entry.chain,
            ledger_entry.token,
            split_part(ledger_entry.reference, ':'::text, 3)::bigint AS finalisation,
            - sum(ledger_entry.amount) AS amount
           FROM app.ledger_entry
          WHERE ledger_entry.account = 'merchant'::text AND ledger_entry.kind = 'deposit'::text AND starts_with(ledger_entry.reference, 'finalisation:'::text)
          GROUP BY ledger_entry.merchant_id, ledger_entry.chain, ledger_entry.token, (split_part(ledger_entry.reference, ':'::text, 3)::bigint)) e
     LEFT JOIN ( SELECT d.merchant_id,
            d.chain,
            d.token,
            d.finalisation,
            sum(d.amount) AS amount
           FROM ( SELECT d_1.merchant_id,
                    d_1.chain,
                    d_1.token,
                    d_1.finalisation,
                    d_1.amount
                   FROM app.deposit d_1
                  WHERE d_1.status = 'final'::text AND d_1.credited
                UNION ALL
                 SELECT t.merchant_id,
                    t.chain,
                    t.token,
                    t.finalisation,
                    t.amount
                   FROM app.taken_back t) d
          GROUP BY d.merchant_id, d.chain, d.token, d.finalisation) l USING (merchant_id, chain, token, finalisation)
  WHERE e.amount IS DISTINCT FROM l.amount;
--   merchant_id uuid
--   chain text
--   token text
--   finalisation bigint: The number of the posting on its chain.
--   posted numeric: What the ledger posted for the merchant, in base units.
--   lines numeric: The sum of the deposits, in base units.

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
--   chain text
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
  id uuid not null default uuidv7(),
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
  id uuid not null default uuidv7(),
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
  id uuid not null default uuidv7(),
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
  id uuid not null default uuidv7(),
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
  chain text not null,
  block_height integer not null, -- Height of the block that it was in.
  until_height integer not null, -- Once the head is as high as this, a transfer that was not read again is gone.
  since timestamp with time zone not null, -- When it was removed.
  constraint awaited_pkey PRIMARY KEY (id)
);
CREATE INDEX awaited_chain ON chain.awaited USING btree (chain);

-- Blocks of each chain from the head down to the final one, and 1,024 final ones below it. Finality compares these hashes with the node's.
create table chain.block (
  id text not null, -- <chain>:<height>.
  chain text not null,
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
  chain text not null,
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
  chain text not null,
  txid text not null,
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
  chain text not null,
  since timestamp with time zone not null, -- When that began; nothing new of the chain was written from then until seen_at.
  seen_at timestamp with time zone not null, -- When it was last seen.
  txid text, -- The transaction that they contradict themselves about; null if it is about something else.
  message text not null, -- What is wrong with their responses.
  constraint contradiction_pkey PRIMARY KEY (chain)
);

-- Where each chain stands: the newest indexed block and the newest final one.
create table chain.cursor (
  chain text not null,
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
  chain text not null,
  day date not null, -- The day, in UTC, on which they were followed.
  followed bigint not null, -- Blocks that were added to the chain.
  replaced bigint not null, -- Blocks that left it because others took their place.
  final_height integer, -- The final height at the end of the day, or now; null of a day from before this was noted.
  constraint daily_blocks_pkey PRIMARY KEY (chain, day)
);

-- Blocks that a running transaction deleted; those that it does not insert again left the chain. Empty between transactions.
create unlogged table chain.dropped_block (
  txn xid8 not null, -- The transaction.
  chain text not null,
  height integer not null, -- Height of the block.
  hash text not null -- Hash of the block.
);
CREATE INDEX dropped_block_txn ON chain.dropped_block USING btree (txn);

-- Transactions of ours that expired without being in any block.
create table chain.lapse (
  chain text not null,
  txid text not null,
  final_height integer not null, -- The final block that is past its end.
  final_hash text not null, -- The hash of that block.
  evidence jsonb not null, -- What else the indexer of the family found; an operator's decision if it could not be proven.
  lapsed_at timestamp with time zone not null default clock_timestamp(), -- When it was noted.
  constraint lapse_pkey PRIMARY KEY (chain, txid)
);

-- Each time that blocks left a chain. Kept for ever.
create table chain.reorganisation (
  id bigint not null generated always as identity, -- Order of insertion.
  chain text not null,
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
  chain text not null,
  id text not null -- Id of the transfer.
);
CREATE INDEX touched_txn ON chain.touched USING btree (txn);

-- Chains that a running transaction touched; chain.derive runs once at COMMIT for each row. Empty between transactions.
create unlogged table chain.touched_chain (
  txn xid8 not null, -- The transaction.
  chain text not null,
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
  chain text not null,
  txid text not null,
  output_index integer not null, -- Position inside the transaction.
  token text not null,
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
  chain text not null,
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
--   chain text
--   txid text
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
--   chain text
--   since timestamp with time zone
--   txid text: The transaction that they contradict themselves about; null if it is about something else.
--   message text: What is wrong with their responses.

-- Starts following a chain above a block that its node called final: the first indexed block must link to it. Does nothing for a chain that is followed already.
CREATE OR REPLACE FUNCTION chain.anchor(of_chain text, network text, height integer, hash text, time_of_block timestamp with time zone) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 6fcdabd0d3143f3a69dd38347995cdc6;

-- Takes the transfers of pending deposits out of what the calling transaction touched, and awaits them until the chain is as high as head_height.
CREATE OR REPLACE FUNCTION chain.await_transfers(of_chain text, head_height integer) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' SET plan_cache_mode TO 'force_custom_plan' as 6e2cb142e78f9bc500f75f833b1b884b;

-- Notes that an indexer of this chain was started. Safe to run again.
CREATE OR REPLACE FUNCTION chain.configure(of_chain text) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path TO 'pg_catalog' as 9126b9f0451c90d4cb9e57dc2330a21e;

-- Makes the transactions of ours in these blocks exactly those of wanted (rows of chain.confirmed_tx as JSON); returns the same as chain.correct_transfers.
CREATE OR REPLACE FUNCTION chain.correct_confirmed_txs(of_chain text, from_height integer, to_height integer, wanted jsonb, OUT added text[], OUT removed integer, OUT changed integer, OUT heights integer[]) RETURNS record LANGUAGE plpgsql SET search_path TO 'pg_catalog' SET plan_cache_mode TO 'force_custom_plan' as dc84f2c4b3dec6a88b07f4626f1a99e4;

-- Makes the transfers of these blocks exactly those of wanted (rows of chain.transfer as JSON). Returns the ids that were added, how many were removed and changed, and the heights at which something stored was missing or different.
CREATE OR REPLACE FUNCTION chain.correct_transfers(of_chain text, from_height integer, to_height integer, wanted jsonb, OUT added text[], OUT removed integer, OUT changed integer, OUT heights integer[]) RETURNS record LANGUAGE plpgsql SET search_path TO 'pg_catalog' SET plan_cache_mode TO 'force_custom_plan' as 397eecf626a18d4f3352b87ffbf47149;

-- Counts blocks that were followed today (UTC), and those that they replaced. Fewer than none, or null: the chain goes back, and nothing was followed.
CREATE OR REPLACE FUNCTION chain.count_blocks(of_chain text, more_followed integer, more_replaced integer) RETURNS void LANGUAGE sql SET search_path TO 'pg_catalog' as a91000c1182569684780f73140396cbe;

-- Trigger, at COMMIT: makes deposits, outgoing payments, balances and events agree with what the transaction did to a chain.
CREATE OR REPLACE FUNCTION chain.derive() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' SET plan_cache_mode TO 'auto' as b80db7e30eac0b13a74a6827efe11fbc;

-- Makes the deposits of a chain agree with the transfers that the calling transaction touched, and writes the events for merchants.
CREATE OR REPLACE FUNCTION chain.derive_deposits(of_chain text) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' SET random_page_cost TO '1.1' as 1537995a9e273ee68793890cd583b9cf;

-- Moves finality to a block that the node calls final. True if the final height is at this block now, or was above it already (its hash is then not compared); false if nothing could be changed.
CREATE OR REPLACE FUNCTION chain.finalise(of_chain text, height integer, hash text) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as d823fea62f65b03416db76ed2fce694d;

-- Makes final what is pending at or below the final height: outgoing payments first, then deposits, with balances, ledger and events.
CREATE OR REPLACE FUNCTION chain.finalise_deposits(of_chain text, final_height integer) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as b2781248426dc068e6bbf944c26f2a6f;

-- No address of ours on this chain was paid before this time; -infinity if the time is unknown, null while custody has made no address.
CREATE OR REPLACE FUNCTION chain.first_address_at(of_chain text) RETURNS timestamp with time zone LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as d8a4b5c67ea9eb7bd5e5fe1f21ae5817;

-- Forgets those of a chain's unconfirmed transfers that are in a block at or below the final height.
CREATE OR REPLACE FUNCTION chain.forget_final(of_chain text, final_height integer) RETURNS void LANGUAGE sql SET search_path TO 'pg_catalog' as e57808de8952508cdfef01358c8edf82;

-- Ends the halt of a chain, unless an incident that halts it is open.
CREATE OR REPLACE FUNCTION chain.go_on(of_chain text) RETURNS void LANGUAGE sql SET search_path TO 'pg_catalog' as 0dfef845d1ee30a3f5695a22c71021dc;

-- Stops a chain, with an incident, because the final block is no longer on the node's chain. Safe to call again.
CREATE OR REPLACE FUNCTION chain.halt(of_chain text, details jsonb) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 614725cff1955e2045a082c3b3bc5bf1;

-- Makes the tables in which an indexer keeps its place on a chain. Safe to run again.
CREATE OR REPLACE FUNCTION chain.install(of_chain text) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 9cf3301cb9a177113df3370e283ab2e8;

-- Whether no block after the final one can hold this transaction, by the chain and by the clock (30 s more).
CREATE OR REPLACE FUNCTION chain.is_past_end(j custody.journal) RETURNS boolean LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as eb5de8038fad90d65071adce49b6ecb0;

-- Stores the lapse of a transaction; ends its payment if that is decided now, else wakes it.
CREATE OR REPLACE FUNCTION chain.lapse(signed custody.journal, at chain.cursor, evidence jsonb) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as b18e1920324806f15b0660eea2896315;

-- Enters these rows of chain.transfer or chain.confirmed_tx in the store's log, if they are at heights that it can still undo.
CREATE OR REPLACE FUNCTION chain.log_for_undo(of_chain text, of_table text, ids text[]) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 47dd280a4939850485ad83241671880d;

-- The longest time for which a transfer is awaited.
CREATE OR REPLACE FUNCTION chain.longest_wait() RETURNS interval LANGUAGE sql IMMUTABLE PARALLEL SAFE as 26fd04f99f59d2897cd12fa418167811;

-- Gives transfers that the calling transaction touched the code of their token, if it was added and counts at their height.
CREATE OR REPLACE FUNCTION chain.name_tokens(of_chain text) RETURNS void LANGUAGE sql SET search_path TO 'pg_catalog' as 119d3995d113e6575a17eb157fc2faed;

-- Trigger: notes the blocks that a statement deleted. A block that is not there again at COMMIT left the chain.
CREATE OR REPLACE FUNCTION chain.note_blocks() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as c113e88640733a239c80061de100dea8;

-- Trigger: opens the incident unknown_transaction for a transaction that custody did not sign, and closes final_payment_vanished for one that is there again.
CREATE OR REPLACE FUNCTION chain.note_confirmed_txs() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 9bd2f47f88fe7e6bbaede21e8133d484;

-- Notes that servers of a chain contradicted themselves about a transaction (or null), with a message. The time of the first one stays until something new of the chain was written.
CREATE OR REPLACE FUNCTION chain.note_contradiction(at_chain text, at_txid text, what text) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path TO 'pg_catalog' as 6f537c1ddc99f8b070a50f84c476c829;

-- Notes that a transaction expired in no block, with what the indexer's family found. False if that is not proven.
CREATE OR REPLACE FUNCTION chain.note_lapse(of_chain text, of_txid text, evidence jsonb) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 46a23b8745b6496e3540034b300bb15b;

-- Keeps what blocks pay us until it is final, and drops unconfirmed payments that conflict with these blocks. kept: the transfers to us in them, as for chain.note_unconfirmed; txids and outpoints, parallel: what each of their transactions spends.
CREATE OR REPLACE FUNCTION chain.note_mined(of_chain text, kept jsonb, txids text[], outpoints text[]) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' SET plan_cache_mode TO 'force_custom_plan' as 718c2e779ca8568363f19cb6e548a9a9;

-- Notes what those of these transactions moved that are unknown here: {txid: [{sender, recipient, token, amount}]}.
CREATE OR REPLACE FUNCTION chain.note_moved(of_chain text, moved jsonb) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path TO 'pg_catalog' as 1440c86aca2a0a49158bea69447acc0e;

-- Opens an incident, or renews it, about nodes ([{"setting", "calls", "from", "to"}, ...]) that show no internal transactions of many calls; with an empty list, closes it. An operator who keeps it is not told again for 30 days.
CREATE OR REPLACE FUNCTION chain.note_no_internals(of_chain text, missing jsonb) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as e4b0e7e389d9452a55635c6d388a439b;

-- Opens an incident of a token of which less arrived than was sent, both in base units.
CREATE OR REPLACE FUNCTION chain.note_short(of_chain text, contract text, of_txid text, sent numeric, arrived numeric) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path TO 'pg_catalog' as c800f0873507af03cd9883b7051555e4;

-- Trigger on the store's status row (argument: the chain): notes that the chain was touched.
CREATE OR REPLACE FUNCTION chain.note_status() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as f9c414f32c3a05327b32b855e9877601;

-- Trigger: notes the transfers that a statement inserted, changed or deleted, and their chains.
CREATE OR REPLACE FUNCTION chain.note_transfers() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 339301c1b5a31d2bb3dc2a1623e89764;

-- Stores everything unconfirmed that a source shows now, as [{txid, output_index, token, amount, sender, recipient, inputs, raw}]: new deposits are pending, and what was missing for long enough is gone. Payments to other addresses are ignored.
CREATE OR REPLACE FUNCTION chain.note_unconfirmed(of_chain text, seen jsonb) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' SET plan_cache_mode TO 'force_custom_plan' as 323b2efe4b2b3ed9ad2c066cc33b4422;

-- Notes why it is not proven that a transaction expired. Opens an incident, or renews its reason, for a transaction of which it is not proven that it expired, 10 minutes after its end must have come.
CREATE OR REPLACE FUNCTION chain.note_unproven(of_chain text, of_txid text, why text) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path TO 'pg_catalog' as 529f83e4f34910529c06ebfbb9f99b84;

-- Notes a block whose transactions have not the root in its header, once. The incident of the chain counts it.
CREATE OR REPLACE FUNCTION chain.note_unproven_block(of_chain text, of_height integer, of_hash text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 93fb4e84e9c42a075b2572af7d07b5d0;

-- Notes that a chain whose internal calls were read is read without them from here on, in an incident. Does nothing for a chain that never was read with them. Safe to run again.
CREATE OR REPLACE FUNCTION chain.note_untraced(of_chain text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 310dd2c088697b94cbf74562e55917d6;

-- The ids of the credited deposits that wait for finality in these blocks.
CREATE OR REPLACE FUNCTION chain.pending_deposits(of_chain text, from_height integer, hashes text[]) RETURNS uuid[] LANGUAGE sql STABLE SET search_path TO 'pg_catalog' SET plan_cache_mode TO 'force_custom_plan' as a0ed99d3e00e2c4b8afdcbc9eeb865cb;

-- Records which tracer numbers the internal calls of a chain, and refuses another one afterwards.
CREATE OR REPLACE FUNCTION chain.pin_tracer(of_chain text, tracer text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 5c5aaf020f1cd59bad7e476ec2a51f6c;

-- From here on, plans statements anew at each call if they are about many rows, and else keeps their plans; until chain.derive ends.
CREATE OR REPLACE FUNCTION chain.plan_for(rows bigint) RETURNS void LANGUAGE sql SET search_path TO 'pg_catalog' as 4f6753e840c261e1c41c9ed39cd160e8;

-- Ends the waiting for transfers whose time is over, and adds the deposits that are lost by it to their reorganisation.
CREATE OR REPLACE FUNCTION chain.release_due(of_chain text) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' SET plan_cache_mode TO 'force_custom_plan' as 390bfd41310c318352b62b9b5a62d900;

-- Ends the waiting for transfers that were awaited for too long, also on chains that stand still.
CREATE OR REPLACE FUNCTION chain.release_overdue() RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path TO 'pg_catalog' as a57014f2bd78bee0f447f98fac05c812;

-- Deletes the blocks above a height, so that they are read again. Below the final height only if an operator asked for it.
CREATE OR REPLACE FUNCTION chain.rewind(of_chain text, to_height integer, to_hash text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 3f3aa1997307c84652657fa1c95cc6d8;

-- How many deposits of a chain are pending at or below a height, up to 100.
CREATE OR REPLACE FUNCTION chain.some_pending(of_chain text, final_height integer) RETURNS integer LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog' SET enable_seqscan TO 'off' as 9d5188d40435844152845791d9d45f2d;

-- Takes back the proofs above this height that transactions expired, and opens an incident for each payment of which a later attempt was signed.
CREATE OR REPLACE FUNCTION chain.take_back_lapses(of_chain text, to_height integer) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as e340acf551368f7161d9dec38c8385f0;

-- Notes why a chain cannot be followed now (reason for programs, message for people), and its first block if that is known. Nulls mean that it can.
CREATE OR REPLACE FUNCTION chain.tell_waiting(of_chain text, reason text, message text, first_height integer) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path TO 'pg_catalog' as acea7611654dbe3333bcc17b58cdad20;

-- Makes chain.derive check these transfers of a chain when the calling transaction commits; null for none.
CREATE OR REPLACE FUNCTION chain.touch(of_chain text, ids text[]) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as f08603991767b149aa50ed5ffaf01c28;

-- Takes the lock of the indexer that follows a chain; false if another connection has it, null if there is no such chain.
CREATE OR REPLACE FUNCTION chain.try_lock(of_chain text) RETURNS boolean LANGUAGE sql SECURITY DEFINER SET search_path TO 'pg_catalog' as 06205274888bbd370f982e9ec869e37b;

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
  chain text not null,
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
  kind text not null, -- pay: a payout. sweep: an address to the treasury. withdraw: the operator's own money. fund: gas for the sweep of an address. defund: gas back from there. delegate: energy of the treasury's stake for the sweep of an address. undelegate: that back. stake, unstake, reclaim: of the treasury's coins. cancel: nothing, with the nonce of something else. authorise: the treasury may take a token from an address, for one sweep. pool: addresses were derived up to an index.
  subject_id uuid, -- The outgoing payment (app.outgoing_payment) of the entry: the payout, the sweep or the withdrawal.
  merchant_id uuid, -- The merchant that is paid, or whose address is swept; null if the money is the operator's own or unattributed.
  token text,
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
  constraint journal_kind CHECK ((kind = ANY (ARRAY['pay'::text, 'sweep'::text, 'withdraw'::text, 'cancel'::text, 'authorise'::text, 'pool'::text, 'fund'::text, 'defund'::text, 'delegate'::text, 'undelegate'::text, 'stake'::text, 'unstake'::text, 'reclaim'::text]))),
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
  chain text not null,
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
  chain text not null,
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
CREATE OR REPLACE FUNCTION custody.announce_entry() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as e646300dbaf769c99b004f0d0ccd3554;

-- Wakes what waited until custody signs again on a chain.
CREATE OR REPLACE FUNCTION custody.announce_proven(of_chain text) RETURNS void LANGUAGE sql SET search_path TO 'pg_catalog' as f1f63755d8c0e3be12d9b920a01c5cf0;

-- Wakes the outgoing payments and payouts of a chain that wait for its fee budget.
CREATE OR REPLACE FUNCTION custody.announce_raise() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 2f5d739f578921e246e03ed0ea23182f;

-- Gives each nonce that was taken on these chains and is unused to an outgoing payment that is only cancelled.
CREATE OR REPLACE FUNCTION custody.fill_holes(of_chains text[]) RETURNS void LANGUAGE sql SET search_path TO 'pg_catalog' as 37a510e605da0b8029305ee4d1b7e87a;

-- Notes that custody found its journal incomplete (the mark says when and why; once for each), and which chains are proven since. Returns those that are not, with what they wait for.
CREATE OR REPLACE FUNCTION custody.follow_unproven_copies(of_mark text) RETURNS TABLE(chain text, why text) LANGUAGE sql SECURITY DEFINER SET search_path TO 'pg_catalog' as 6d9fa641cb0cfe4429d8ce592da87962;

-- Gives unsigned outgoing payments another nonce if the journal has theirs, and frees the outputs that the journal spent (custody.free_outputs); no nonce of the journal is handed out again.
CREATE OR REPLACE FUNCTION custody.free_nonces(entries custody.journal[]) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 9f568db971c6052b084fb119f9bf5f89;

-- Gives up unsigned outgoing payments whose outputs the journal spent for something else. A payment that the journal signed with other outputs than it was begun with loses its own, and continues.
CREATE OR REPLACE FUNCTION custody.free_outputs(entries custody.journal[]) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as c8c7158930ae914064a1de3c6d1d24c8;

-- Stops a chain, with an incident, because the database is an older copy than custody's journal.
CREATE OR REPLACE FUNCTION custody.halt_chain(of_chain text, why text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as a1a2e2aebcc5f66a0920eeefb0cccb68;

-- Whether something was signed for an outgoing payment with its nonce or outputs: then only what uses these pays it.
CREATE OR REPLACE FUNCTION custody.is_bound(s app.outgoing_payment) RETURNS boolean LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 3e624fa615fe9a6f8c3fabbc187f9646;

-- Whether the network fee of an entry's transaction is paid with gas on its address (app.gas).
CREATE OR REPLACE FUNCTION custody.is_from_gas(e custody.journal) RETURNS boolean LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 73713d6bdcab4e23b9543a56a68e069f;

-- Whether custody found its journal incomplete, and has made no address of this family since: then those that it would make next may have been handed out.
CREATE OR REPLACE FUNCTION custody.is_pool_unsure(of_family text) RETURNS boolean LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 8344cb84d087d91111f5b45b443f4320;

-- Whether an outgoing payment is what an entry of the journal was signed for.
CREATE OR REPLACE FUNCTION custody.is_purpose(s app.outgoing_payment, e custody.journal) RETURNS boolean LANGUAGE sql IMMUTABLE SET search_path TO 'pg_catalog' as 2717326017e04519ae2b673c8bd724e4;

-- Whether one of these entries may pay an outgoing payment that the copy calls unsigned: with its nonce, or with whatever outputs.
CREATE OR REPLACE FUNCTION custody.is_signed(s app.outgoing_payment, entries custody.journal[]) RETURNS boolean LANGUAGE sql IMMUTABLE SET search_path TO 'pg_catalog' as 2ae3d5fd6995f56ecc5d5271bd404e96;

-- Whether a sweep that paid this fee itself (0 if the treasury paid) took what a return takes of an amount, in base units.
CREATE OR REPLACE FUNCTION custody.is_whole(received numeric, moved numeric, own_fee numeric) RETURNS boolean LANGUAGE sql IMMUTABLE SET search_path TO 'pg_catalog' as a674317d1f79ee986682d3a524d056a6;

-- Locks an outgoing payment until the end of custody's transaction, so that nothing ends it meanwhile; waits at most most_ms milliseconds for whoever is changing it. Returns how many it waited; null if it is not locked.
CREATE OR REPLACE FUNCTION custody.lock_outgoing_payment(of_outgoing_payment uuid, most_ms integer) RETURNS integer LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' SET lock_timeout TO '500ms' as 16cd3c893b1e509d622b53b5de067df1;

-- Whether something that waits for exactly this has an attempt that may be mined until it is known to have expired: only then can be told what else paid it.
CREATE OR REPLACE FUNCTION custody.may_still_be_paid(of_chain text, of_recipient text, of_token text, of_amount numeric) RETURNS boolean LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as c56f1ea37dea73f5b9fd0db66ff5ce3e;

-- What an unknown transaction moved of ours, in base units, and whether it stayed with us.
CREATE OR REPLACE FUNCTION custody.moved_by(of_chain text, of_txid text) RETURNS TABLE(sender text, recipient text, token text, amount numeric, stays boolean) LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 1df550159472b218038b3bceb6475fe4;

-- Records what the transaction of a new entry of the journal uses up, a row each; custody looks them up before it signs.
CREATE OR REPLACE FUNCTION custody.note_keys() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as c979a8c1bc0e86e869d1731dd828b0c8;

-- Trigger: writes the match key of a new address. It is the same on every chain of the family.
CREATE OR REPLACE FUNCTION custody.note_match_key() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 29ff60d985a28e9bbe537b15e1cd86e5;

-- The payout, the withdrawal or the return that waits, and that an unknown transaction may have paid, in words; null if there is none.
CREATE OR REPLACE FUNCTION custody.paid_again(of_chain text, of_txid text) RETURNS text LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as a1fd612c33fcf8b3ece94b011d0d5178;

-- What an unknown transaction took out of our addresses, such as "0.5 ETH to 0x…"; null if nothing.
CREATE OR REPLACE FUNCTION custody.paid_in_words(of_chain text, of_txid text) RETURNS text LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as be82b79d82a797b3f5b91546dbccfaeb;

-- The entry of custody's journal for an unknown transaction, without its number and hash; null if it is not recognised.
CREATE OR REPLACE FUNCTION custody.recognise(of_chain text, of_txid text) RETURNS jsonb LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog' as fd832dbd78a8ff83cd8e29f1ba65274c;

-- The entry of gas that went from an address back to the treasury; null if the transaction moved none.
CREATE OR REPLACE FUNCTION custody.recognise_defund(of_chain text, of_txid text, key text, fee numeric) RETURNS jsonb LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as f821c4f54d7f74209f0f487d0e056d89;

-- The entry of gas that the treasury sent an address; null if the transaction was none.
CREATE OR REPLACE FUNCTION custody.recognise_fund(of_chain text, of_txid text, key text) RETURNS jsonb LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 90abe06c8a7ecae850ea8a7d4b36edfc;

-- The entry of a payout that this copy does not have, to the one merchant that has or had this address on its whitelist; of a withdrawal if only the operator had it; else null.
CREATE OR REPLACE FUNCTION custody.recognise_lost(of_chain text, recipient text, of_token text, amount numeric) RETURNS jsonb LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as ce024e4b940c8ba7dbbeac268a767d8e;

-- The entry of the withdrawal that returned unattributed value: to an address of the operator's, of exactly what one sweep of its address moved; null if there is none.
CREATE OR REPLACE FUNCTION custody.recognise_return(of_chain text, of_recipient text, of_token text, of_amount numeric) RETURNS jsonb LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 561616eec62bb9f99e0aa2c9290f641f;

-- The entry of a sweep of one merchant's money to the treasury; null if the transaction was none.
CREATE OR REPLACE FUNCTION custody.recognise_sweep(of_chain text, of_txid text, key text, own_fee numeric) RETURNS jsonb LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 6eca969b6e33bc63686c709341d72f85;

-- Imports entries of custody's journal that an older copy of the database is missing, and what follows from them. Returns how many entries and payouts there were, and for how many entries (cancels) the purpose is no longer known.
CREATE OR REPLACE FUNCTION custody.reconcile(entries jsonb) RETURNS jsonb LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 7f0d4e2aa061c4f40a678219ac575164;

-- Stores the transaction of an entry as an attempt of its outgoing payment, with its fee and its outputs reserved, and has it sent.
CREATE OR REPLACE FUNCTION custody.recover_attempt(s app.outgoing_payment, e custody.journal) RETURNS void LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 65a459be066e9d4249bc93eb13f03746;

-- Makes a merchant that the copy does not have; only its id is known.
CREATE OR REPLACE FUNCTION custody.recover_merchant(merchant uuid, fee_bps integer) RETURNS void LANGUAGE sql SET search_path TO 'pg_catalog' as 4c2ad9d21bab1d0779aed6e017d406e7;

-- The outgoing payment of an entry: the one that it was signed for (of a cancel, the one with its conflict key), or a new one with what was reserved for it. Null for a cancel whose purpose is no longer known, from an address that belongs to no merchant.
CREATE OR REPLACE FUNCTION custody.recover_outgoing_payment(e custody.journal) RETURNS app.outgoing_payment LANGUAGE plpgsql SET search_path TO 'pg_catalog' as f7bd5f22f4fe3a861b4d974feedd52bf;

-- The payout of an entry, moved to a status where its payment can be under way. If the copy does not have it, it is made again with a debt of the merchant for its gross.
CREATE OR REPLACE FUNCTION custody.recover_payout(e custody.journal) RETURNS app.payout LANGUAGE plpgsql SET search_path TO 'pg_catalog' as cfa82af4f57cd7c977fea1c7b9f97286;

-- Refuses to change or delete what custody wrote down.
CREATE OR REPLACE FUNCTION custody.refuse_change() RETURNS trigger LANGUAGE plpgsql SET search_path TO 'pg_catalog' as f6552c6946f4f0af074d87374b10c3c2;

-- Reserves the outputs that recovered outgoing payments of a chain spend, by custody's journal, as soon as they are there.
CREATE OR REPLACE FUNCTION custody.reserve_recovered(of_chain text) RETURNS void LANGUAGE sql SET search_path TO 'pg_catalog' as b77da4445755d798a25c2f2f78eb3fcc;

-- Trigger: the conflict key of an entry is its first input, or sender:nonce.
CREATE OR REPLACE FUNCTION custody.set_conflict_key() RETURNS trigger LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 9e0e28a9943033f4fa52be1ac0823036;

-- The id of the sweep of a return, if a sweep of this address was one; null if it was of the merchant's money.
CREATE OR REPLACE FUNCTION custody.swept_for_return(of_chain text, address text, of_token text, of_amount numeric, own_fee numeric) RETURNS uuid LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 33603acb95372366af1316ed97601ca1;

-- Opens or renews the incident about what custody found wrong with a stream of custody.journal; null closes it.
CREATE OR REPLACE FUNCTION custody.tell_journal(of_stream text, why text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 441d6cb284d550ebcb1b03ad497dafa2;

-- Takes the lock of the custody that signs; false if another connection has it.
CREATE OR REPLACE FUNCTION custody.try_lock() RETURNS boolean LANGUAGE sql SECURITY DEFINER SET search_path TO 'pg_catalog' as 143404290a0b5ef0e291db60a8e58dc4;

-- Payouts, withdrawals and returns of a chain that are not done and are to pay exactly this amount (a return: at most what it received) to this address. payment_id: its outgoing payment, if it has one. entry: of custody's journal; null for a return.
CREATE OR REPLACE FUNCTION custody.waiting(of_chain text, of_recipient text, of_token text, of_amount numeric) RETURNS TABLE(id uuid, created_at timestamp with time zone, payment_id uuid, name text, entry jsonb) LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 690a795f9af5109d0314ac996167b59f;

-- The entry of the oldest payout or withdrawal that waits for exactly this amount at this address, was begun before this time, and that nothing else may pay; null if there is none.
CREATE OR REPLACE FUNCTION custody.waiting_payment(of_chain text, of_recipient text, of_token text, of_amount numeric, block_time timestamp with time zone, key text) RETURNS jsonb LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as a69ffbf51b17d5c7d63ea869a269e1fd;

-- Makes the indexers watch the treasury of a family on each of its chains; custody calls it at its start. Safe to run again.
CREATE OR REPLACE FUNCTION custody.watch_treasury(of_family text) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path TO 'pg_catalog' as 54ec13c687c573017709953f9369061b;

-- What custody waits for before it signs for the first time on this chain, for operators.
CREATE OR REPLACE FUNCTION custody.why_unproven(u custody.unproven_copy) RETURNS text LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as abaa1a35318706a6b99b55500192e62d;

-- The dashboard: members of merchants, invitations, the audit log, and the functions through which its two processes work.
create schema dashboard;

-- Wrong passwords and codes of the last quarter of an hour, and those that are being checked.
create table dashboard.attempt (
  id bigint not null generated always as identity,
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
  merchant_id uuid not null,
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
CREATE OR REPLACE FUNCTION dashboard.accept_invitation(of_token_hash bytea, of_name text, of_email text, password_hash text, from_ip text) RETURNS uuid LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 0510184d7f7af6c6bd9ca2b5408918dd;

-- What to ask the lists for, to find an amount (and its token, or null) of any asset.
CREATE OR REPLACE FUNCTION dashboard.amounts_of(amount text[]) RETURNS TABLE(asked jsonb) LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 595971652e5388f957ac8cc5ea24d490;

-- All keys, those that work first, the newest first.
CREATE OR REPLACE FUNCTION dashboard.api_keys(token text) RETURNS json LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 2acc55acb565356462e964780af3e857;

-- What is asked for, as the functions of db/functions/reading take it.
CREATE OR REPLACE FUNCTION dashboard.asked(merchant uuid, filters jsonb) RETURNS jsonb LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as f6f15843f23c0b1644914b2ab0ff6779;

-- The entries of the audit log that are asked for, below a place, the newest first: from and to (days), action (what stands before its point, such as payout) and person (an e-mail address).
CREATE OR REPLACE FUNCTION dashboard.asked_entries(merchant uuid, filters jsonb, before text, size integer) RETURNS SETOF dashboard.audit_entry LANGUAGE sql STABLE ROWS 50 SET search_path TO 'pg_catalog' as e60cdcf3aca5ca3522802016f18e2595;

-- What is asked for of deposits, as app.asked_deposits takes it.
CREATE OR REPLACE FUNCTION dashboard.asked_of_deposits(merchant uuid, filters jsonb) RETURNS jsonb LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog' as 14c8deacbf3845bc2ebca9e5956c9360;

-- The user of this merchant with this id or reference.
CREATE OR REPLACE FUNCTION dashboard.asked_user(merchant uuid, given text) RETURNS uuid LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog' as a4e803edcf629d565530c169ddede5b1;

-- The merchant's entries of the audit log as rows of a file, below a place.
CREATE OR REPLACE FUNCTION dashboard.audit_file(session_token text, filters jsonb, before text, size integer) RETURNS TABLE(place text, at timestamp with time zone, person text, action text, outcome text, target text, detail text, ip text) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as f6c0a02012d6f68ff5ab46618a1793f7;

-- A page of the merchant's entries of the audit log, the newest first.
CREATE OR REPLACE FUNCTION dashboard.audit_list(token text, filters jsonb, before text, size integer) RETURNS json LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 623e02d4e5ec40e8fe74772786dde51b;

-- The balance of a chain and token; null if there is none.
CREATE OR REPLACE FUNCTION dashboard.balance(token text, of_chain text, of_token text) RETURNS json LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 7d4b952ba27d77f6ea0166e86b2d50c1;

-- A balance, and why it cannot be paid out now; null if it can. Only app.create_payout decides.
CREATE OR REPLACE FUNCTION dashboard.balance_item(b app.merchant_balance) RETURNS json LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 5529e3c6a6cb814dbb87cd5cc37e269f;

-- Counts an attempt to guess a password or a code, before it is checked. Returns its id; null after ten wrong ones within 15 minutes.
CREATE OR REPLACE FUNCTION dashboard.begin_attempt(of_subject text) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 290340b0031793be85dd1979815d9520;

-- Takes the id of a form, once; returns who sent it, for dashboard.note.
CREATE OR REPLACE FUNCTION dashboard.begin_change(token text, request uuid) RETURNS dashboard.audit_entry LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 5ce6b5667cf46099d5a371c05fff282b;

-- When a day begins where the merchant is; or so many days later. Null if no day is given.
CREATE OR REPLACE FUNCTION dashboard.begin_of_day(merchant uuid, day text, days_later integer DEFAULT 0) RETURNS timestamp with time zone LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as c3bb1f5d679f4ddba2ea5ae0eeac3fb3;

-- What the payment page shows of the merchant, but for its logo.
CREATE OR REPLACE FUNCTION dashboard.brand(token text) RETURNS json LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 01aa56d7b074b4d59681518ef39537a3;

-- Cancels a payment request that is awaiting.
CREATE OR REPLACE FUNCTION dashboard.cancel_payment_request(token text, request uuid, external_id text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as cc35e08e7b4efa28d44fc3b76c7b225e;

-- Cancels a payout, until its payment has begun.
CREATE OR REPLACE FUNCTION dashboard.cancel_payout(token text, request uuid, public_id text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 3532ded427a3898fc2700d54c058eb84;

-- Changes the password of the person of a session. The session gets another token; all others of the person end.
CREATE OR REPLACE FUNCTION dashboard.change_password(old_token text, new_token text, password_hash text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 2ba29bbe5675cdad0713697bad4a4a72;

-- For each of these series: how many and how much on each of the last days (of_days of them), and how much there was at the end of each.
CREATE OR REPLACE FUNCTION dashboard.charts(token text, of_series text[], of_days integer) RETURNS json LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as c059b7276326f1f53768bfa6853f7b37;

-- Makes a key from the SHA-256 of its secret; returns its id.
CREATE OR REPLACE FUNCTION dashboard.create_api_key(token text, request uuid, secret_hash bytea, label text, scopes text[]) RETURNS json LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 3d73e39e532beb3656071e5cfa8d3cee;

-- Makes a payment request, as the API does; returns its reference. SL503 while no address is free.
CREATE OR REPLACE FUNCTION dashboard.create_payment_request(token text, request uuid, currency text, external_id text, amount text, expires_in_seconds integer, tolerance text, late_after_seconds integer) RETURNS json LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 87823f4fd272c79e593abbd34c5f7b92;

-- Pays out a balance to the address that the person saw, if it is still the registered one; returns the id of the payout.
CREATE OR REPLACE FUNCTION dashboard.create_payout(token text, request uuid, of_chain text, of_token text, sweep_first boolean, shown_address text) RETURNS json LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 05baf5414be18c9e8326f4ea3bd8b4d0;

-- Makes an endpoint; returns its id, and its secret, which is shown once.
CREATE OR REPLACE FUNCTION dashboard.create_webhook_endpoint(token text, request uuid, url text, event_types text[]) RETURNS json LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 4682863c5b03e333860af94518079638;

-- What a payment request can ask for.
CREATE OR REPLACE FUNCTION dashboard.currencies(token text) RETURNS json LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as b68b6a1a6e7b1758507e982c49832c80;

-- Deletes an endpoint: nothing more is sent to it.
CREATE OR REPLACE FUNCTION dashboard.delete_webhook_endpoint(token text, request uuid, public_id text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 2d381bac971d3c1c4a00b9436b2f4ccc;

-- A delivery with the body that is sent.
CREATE OR REPLACE FUNCTION dashboard.delivery(token text, endpoint text, public_id text) RETURNS json LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 7fe10ba543b39b7221270bab435183e4;

-- Deliveries to an endpoint as rows of a file, below one of them: how often each was sent, and what the last attempt met.
CREATE OR REPLACE FUNCTION dashboard.delivery_file(session_token text, filters jsonb, before text, size integer) RETURNS TABLE(place text, delivery_id text, event_id text, event_type text, status text, created_at timestamp with time zone, finished_at timestamp with time zone, next_attempt_at timestamp with time zone, attempts bigint, response_status integer, error text) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as ef65f6f5cb4298b112c66c433c7bf104;

-- A delivery, the endpoint that it is for, and what it is about.
CREATE OR REPLACE FUNCTION dashboard.delivery_item(d app.delivery) RETURNS json LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 44c1e4a319ab3ca1a23b9d33c31ebac1;

-- A page of the deliveries to an endpoint, the newest first.
CREATE OR REPLACE FUNCTION dashboard.delivery_list(token text, endpoint text, filters jsonb, before text, size integer) RETURNS json LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 16c62fcdcdd1f17a9397d1d0cc857236;

-- A deposit, the payout that collected it, and what its merchant was notified of.
CREATE OR REPLACE FUNCTION dashboard.deposit(token text, public_id text) RETURNS json LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as e21ed7644351e60363f2f3870ca3548d;

-- Deposits of users as rows of a file, below a place.
CREATE OR REPLACE FUNCTION dashboard.deposit_file(session_token text, filters jsonb, before numeric, size integer) RETURNS TABLE(place numeric, deposit_id text, created_at timestamp with time zone, finalised_at timestamp with time zone, status text, chain text, token text, amount numeric, user_external_ref text, sender text, address text, txid text, output_index integer, payout_id text) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as ca3b2fc22f93f78d250470feb5874dda;

-- A page of the deposits of users, the newest first. before: where the page begins.
CREATE OR REPLACE FUNCTION dashboard.deposit_list(token text, filters jsonb, before text, size integer) RETURNS json LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 716bb10129cd517e132fbdffbc3dd42c;

-- An endpoint, what became of its deliveries of the last day, and whether anything was sent to it: of the newest thousand at most.
CREATE OR REPLACE FUNCTION dashboard.endpoint_item(w app.webhook_endpoint) RETURNS json LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 86bee2cd8e464117a7d9364ac37fa2c4;

-- All endpoints of a merchant.
CREATE OR REPLACE FUNCTION dashboard.endpoints_of(merchant uuid) RETURNS json LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 68569525dd6f9d7e2c3cb97a7ac9ad8f;

-- The events of a deposit or a payout, with their deliveries.
CREATE OR REPLACE FUNCTION dashboard.events_of(subject uuid) RETURNS json LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 630b3a2e94414b301332f80ec70166cf;

-- What has this transaction id (or the beginning of one, or its ends with … between), address (also of a sender, or that a payout went to), reference (or its beginning, if nothing has the whole; of a payment request also without the prefix of the account), token of a payment page, amount or id: the newest first, at most 20 of a sender, and 10 of an amount in each token or of a beginning.
CREATE OR REPLACE FUNCTION dashboard.find(token text, given text) RETURNS json LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as ce6eb3ff92dbf11fbfd309ab9e2d5f9a;

-- An invitation by the SHA-256 of its secret: open, used or old; its merchant; the e-mail address of the person, if it is a reset. Nulls if there is none.
CREATE OR REPLACE FUNCTION dashboard.find_invitation(of_token_hash bytea, OUT state text, OUT merchant text, OUT email text) RETURNS record LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 764a1d4955b37d0a2660e5a24d33f0b6;

-- The attempt was right, so it does not count. Wrong ones before it still do.
CREATE OR REPLACE FUNCTION dashboard.forget_attempt(of_attempt bigint) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path TO 'pg_catalog' as 34cbb2f4d6ea1a43ae32e28aac1deafa;

-- Whether there is any payment request: what is paid for one is in the balance, and no deposit of a user.
CREATE OR REPLACE FUNCTION dashboard.has_payment_requests(token text) RETURNS boolean LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 09aa7738c20905a52a32a20006ea6b14;

-- Stores the SHA-256 of the secret of a link for a new person of a merchant, or, with of_email, for one who gets a new password and second factor. Returns when it ends.
CREATE OR REPLACE FUNCTION dashboard.invite(of_merchant uuid, of_token_hash bytea, of_email text DEFAULT NULL::text) RETURNS timestamp with time zone LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 08210c603bd496220640aafba860ac98;

-- Trigger: a session that is used all the time ends a week after the person signed in.
CREATE OR REPLACE FUNCTION dashboard.limit_session() RETURNS trigger LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 1763cb2b853eb2161abdb76a4fe1a29d;

-- The person of a session that may change second factors and the password: none is set up yet, or one was shown within ten minutes. Locks the person.
CREATE OR REPLACE FUNCTION dashboard.lock_second_factors(of_token text) RETURNS uuid LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as db8e04188deac850b52c2de1c119e956;

-- The logo of the merchant, a PNG; null if it has none.
CREATE OR REPLACE FUNCTION dashboard.logo(token text) RETURNS bytea LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as bfdade16d0df51328b72c128ea2b4e3d;

-- The person of a session, and the merchant.
CREATE OR REPLACE FUNCTION dashboard.me(token text) RETURNS json LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 596f134555e48f8557757fbb3ac7fa4f;

-- The name of the merchant that a person acts for.
CREATE OR REPLACE FUNCTION dashboard.merchant_name(of_user uuid) RETURNS text LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as b8aba219325317c39ac0513be917e8f7;

-- The merchant of a live session; raises SLAUT if there is none.
CREATE OR REPLACE FUNCTION dashboard.merchant_of(token text) RETURNS uuid LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 4f2ab26c40c8b4e76faf0e5a44a88b6d;

-- For each of these sessions that lives, a text that changes whenever its pages have something new to show.
CREATE OR REPLACE FUNCTION dashboard.news(tokens text[]) RETURNS TABLE(token text, news text) LANGUAGE sql STABLE SECURITY DEFINER ROWS 100 SET search_path TO 'pg_catalog' as 27cab76715655d8b5130ee7e530e1db8;

-- What was not credited of a sender (the newest twenty), or of an amount, perhaps with its token (of each number of decimals the newest ten).
CREATE OR REPLACE FUNCTION dashboard.not_credited(merchant uuid, of_sender text, of_sum text[]) RETURNS SETOF app.deposit LANGUAGE sql STABLE ROWS 10 SET search_path TO 'pg_catalog' as 29ab54c04ece7dc462beb40056440d49;

-- Adds a change to the audit log, in the transaction that makes it.
CREATE OR REPLACE FUNCTION dashboard.note(who dashboard.audit_entry, action text, target text, detail text DEFAULT NULL::text) RETURNS void LANGUAGE sql SET search_path TO 'pg_catalog' as eb9e66e06d2254eb620e125e19197ee9;

-- Balances, the newest deposits, payouts under way, endpoints, what needs a hand, and what is still missing.
CREATE OR REPLACE FUNCTION dashboard.overview(token text) RETURNS json LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 81e6a185fb20477283bf3b9bdb2963ba;

-- An address of ours on the chain, which shows the network that a new payout address must be of; null before custody has made one.
CREATE OR REPLACE FUNCTION dashboard.own_address(token text, of_chain text) RETURNS text LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 83599830fd0d4925b4b464e75ca39b7b;

-- The endpoint with this id; raises SL404 if the merchant has none.
CREATE OR REPLACE FUNCTION dashboard.own_endpoint(token text, public_id text) RETURNS app.webhook_endpoint LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog' as 267292b1d5d1b65ebc63ae0a131c0750;

-- The payout of this merchant with this id; raises SL404 if there is none.
CREATE OR REPLACE FUNCTION dashboard.own_payout(merchant uuid, public_id text) RETURNS app.payout LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog' as 184250c1c2dae058c7568202b3a47a55;

-- The user of this merchant with this id; raises SL404 if there is none.
CREATE OR REPLACE FUNCTION dashboard.own_user(merchant uuid, public_id text) RETURNS uuid LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog' as 0158eb083339dd286a3ed317b5d8c1e2;

-- A page of a list, from one item more than it has: the items, and where the next page begins; null on the last one.
CREATE OR REPLACE FUNCTION dashboard.page(items json[], positions text[], size integer) RETURNS json LANGUAGE sql IMMUTABLE SET search_path TO 'pg_catalog' as 21e0cfc3c883b1aab5a15d4f65231582;

-- A payment request with what came for it, what is due now in base units, and what its merchant was notified of.
CREATE OR REPLACE FUNCTION dashboard.payment_request(token text, external_id text) RETURNS json LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as d917237246c455d04fa753f12dc743c6;

-- Payment requests as rows of a file, below a place: also the transactions and senders of all that came, in its order, with spaces between.
CREATE OR REPLACE FUNCTION dashboard.payment_request_file(session_token text, filters jsonb, before numeric, size integer) RETURNS TABLE(place bigint, external_id text, created_at timestamp with time zone, expires_at timestamp with time zone, paid_at timestamp with time zone, cancelled_at timestamp with time zone, status text, late boolean, chain text, token text, amount numeric, tolerance numeric, amount_received numeric, amount_pending numeric, shortfall numeric, address text, txid text, txids text, senders text) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 8dd79ed29efafe6a88662d85aa45a871;

-- A page of the payment requests, the newest first.
CREATE OR REPLACE FUNCTION dashboard.payment_request_list(token text, filters jsonb, before text, size integer) RETURNS json LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 22bd94e6621ed940e116ac061b87d60d;

-- How much of a new payment request may be missing, in basis points.
CREATE OR REPLACE FUNCTION dashboard.payment_tolerance(token text) RETURNS integer LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 192f52bfc75cab3c74c4ad14d0bc1fce;

-- A payout, when each step began, and what its merchant was notified of.
CREATE OR REPLACE FUNCTION dashboard.payout(token text, public_id text) RETURNS json LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 23ae92c76c896d910e5680e032aecd8e;

-- Where payouts of each chain go, and the state of the whitelist.
CREATE OR REPLACE FUNCTION dashboard.payout_addresses(token text) RETURNS json LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 6ee1b3dbdff669a99213d9a5456f1638;

-- Payouts as rows of a file, below a place.
CREATE OR REPLACE FUNCTION dashboard.payout_file(session_token text, filters jsonb, before numeric, size integer) RETURNS TABLE(place bigint, payout_id text, created_at timestamp with time zone, finished_at timestamp with time zone, status text, chain text, token text, gross numeric, fee numeric, net numeric, address text, txid text, error_code text) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as d53d71f0192d2625d5319c98069f5d8e;

-- A payout as its merchant sees it, with what only the dashboard shows.
CREATE OR REPLACE FUNCTION dashboard.payout_item(p app.payout) RETURNS json LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as f5d78bdca3217dfd63b9dbf9b840f63f;

-- A page of the payouts, the newest first.
CREATE OR REPLACE FUNCTION dashboard.payout_list(token text, filters jsonb, before text, size integer) RETURNS json LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 08125d20d8890f9b0af83124f2b7323b;

-- A page of what a payout is made of, as far as it has collected that: adjustments, then its deposits, the newest first. Nothing if it failed.
CREATE OR REPLACE FUNCTION dashboard.payout_parts(token text, public_id text, before text, size integer) RETURNS json LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 73c9953a90e4521b554bc6cc47fddf10;

-- A page of the payouts of a merchant that are asked for (app.asked_payouts), the newest first.
CREATE OR REPLACE FUNCTION dashboard.payouts_of(merchant uuid, asked jsonb, before text, size integer) RETURNS json LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 70a2a34f302a2f1d9765edb318ed298d;

-- The person and the merchant of a live session, where the person signed in, and whether the second factor was shown within ten minutes; raises SLAUT if there is none.
CREATE OR REPLACE FUNCTION dashboard.person(token text, OUT user_id uuid, OUT merchant_id uuid, OUT ip text, OUT is_fresh boolean) RETURNS record LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog' as 0ff280ce0134e5b69292d553c41be1a8;

-- Adds an entry to the audit log, for the merchant of the person; of_outcome is done, or why it was refused.
CREATE OR REPLACE FUNCTION dashboard.record(of_user uuid, of_action text, from_ip text, of_outcome text DEFAULT 'done'::text, of_target text DEFAULT NULL::text) RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path TO 'pg_catalog' as 15cf114fb34ba19182ce42abb5361628;

-- Sends an event to an endpoint again.
CREATE OR REPLACE FUNCTION dashboard.redeliver(token text, request uuid, endpoint text, delivery text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as cc9d15649c266b7588a616fdc7d57e81;

-- Sends every event again whose delivery failed since a time; returns how many.
CREATE OR REPLACE FUNCTION dashboard.redeliver_failed(token text, request uuid, endpoint text, since timestamp with time zone) RETURNS integer LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 046786461c86510cbca1d017f2bc58bd;

-- Trigger: the audit log is only added to, even by the owner.
CREATE OR REPLACE FUNCTION dashboard.refuse_change() RETURNS trigger LANGUAGE plpgsql SET search_path TO 'pg_catalog' as 89f4bfb371d19aa8959e8508f2b87178;

-- Raises SLSUS if the merchant is suspended.
CREATE OR REPLACE FUNCTION dashboard.refuse_suspended(merchant uuid) RETURNS void LANGUAGE plpgsql STABLE SET search_path TO 'pg_catalog' as 174a428cfabca3e6d94652c2ac2a6a80;

-- Removes a passkey of the person of a session, unless it is the last second factor; returns its name.
CREATE OR REPLACE FUNCTION dashboard.remove_passkey(of_token text, passkey uuid) RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as c078185eef53828b9a1474bd02911cb6;

-- The newest ten payment requests whose reference has this beginning.
CREATE OR REPLACE FUNCTION dashboard.requests_beginning(merchant uuid, beginning text) RETURNS SETOF app.payment_request LANGUAGE plpgsql STABLE ROWS 10 SET search_path TO 'pg_catalog' SET plan_cache_mode TO 'force_custom_plan' as e889abe41276eb1195832431d49fa961;

-- Raises SLSUS if the merchant is suspended, and SLSTP unless the second factor was shown within ten minutes.
CREATE OR REPLACE FUNCTION dashboard.require_full_rights(token text) RETURNS void LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as bd0b3e959b77f1b39bf592e3b28c12ac;

-- Ends a key, at once.
CREATE OR REPLACE FUNCTION dashboard.revoke_api_key(token text, request uuid, public_id text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 34cec2724cef573ea25825bf21a70cde;

-- Makes a new secret, which is shown once; the old one signs, too, for 24 hours.
CREATE OR REPLACE FUNCTION dashboard.rotate_webhook_secret(token text, request uuid, public_id text) RETURNS json LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 6eea74abc8ee81ab1c2a2ccfedca8de4;

-- The same without what is not credited, for pages of an older version.
CREATE OR REPLACE FUNCTION dashboard.search(token text, given text) RETURNS json LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 3009d526fd49f9d92269da9cf0a47956;

-- The second factors that a person has.
CREATE OR REPLACE FUNCTION dashboard.second_factors(of_user uuid, OUT has_authenticator boolean, OUT recovery_codes integer, OUT passkeys integer) RETURNS record LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as a8c7cad1f931b8bb424a939940767205;

-- The series that a merchant has.
CREATE OR REPLACE FUNCTION dashboard.series_of(merchant uuid) RETURNS TABLE(series text, about text) LANGUAGE sql STABLE ROWS 50 SET search_path TO 'pg_catalog' as aa7c5e522efa2046530e24b73159a5d0;

-- Sets up the authenticator of the person of a session, in place of one that was there, with new recovery codes.
CREATE OR REPLACE FUNCTION dashboard.set_authenticator(of_token text, of_secret text, code_hashes bytea[]) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 8eef1ba530408e140916ec07e6a81346;

-- Sets all that the payment page shows of the merchant; null is as without.
CREATE OR REPLACE FUNCTION dashboard.set_brand(token text, request uuid, name text, accent text, site_url text, help_url text, logo bytea, keep_logo boolean) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 5bd10f3b028a4469c2eef958a874ce81;

-- Sets the sites that may show the payment page in a frame: these, and no others.
CREATE OR REPLACE FUNCTION dashboard.set_payment_page_sites(token text, request uuid, origins text[]) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 3473b3361975f2eb136985a283660192;

-- Sets how much of a new payment request may be missing; those that exist keep theirs.
CREATE OR REPLACE FUNCTION dashboard.set_payment_tolerance(token text, request uuid, bps integer) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 6fe7692c632597c9c1d205b6b1f2ee84;

-- Registers where payouts of a chain go. The address comes checked and in its display form. Nothing is paid to it before the operator has put it on the whitelist.
CREATE OR REPLACE FUNCTION dashboard.set_payout_address(token text, request uuid, of_chain text, of_address text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as a37002677f5d4e1e1a9537a85c1c45fa;

-- Gives the person of a session new recovery codes; the old ones do not work any more.
CREATE OR REPLACE FUNCTION dashboard.set_recovery_codes(of_token text, code_hashes bytea[]) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as a0b1d296553472fa54e3be38e318adf9;

-- Sets the time zone of the merchant.
CREATE OR REPLACE FUNCTION dashboard.set_time_zone(token text, request uuid, zone text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as a8c48e6b0c726b5f9cd764204f7a3451;

-- Notes that the person showed a second factor in this session, which gets another token.
CREATE OR REPLACE FUNCTION dashboard.show_second_factor(old_token text, new_token text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 457f544c6d8e9a130184821578900d5f;

-- What is asked for of statements, as db/functions/reading/statements.sql takes it.
CREATE OR REPLACE FUNCTION dashboard.statement_asked(merchant uuid, filters jsonb) RETURNS jsonb LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 0843022f3f5401c986ca830255724d79;

-- A statement as rows of a file (app.statement_file).
CREATE OR REPLACE FUNCTION dashboard.statement_file(session_token text, filters jsonb, after text, size integer) RETURNS TABLE(place text, chain text, token text, created_at timestamp with time zone, type text, amount numeric, deposit_id text, user_external_ref text, external_id text, payout_id text, txid text, payout_address text, payout_status text, day date) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 4dfb3b3832975e658f8ce8cc64aebebe;

-- A page of the lines of the statements of some days, the newest first.
CREATE OR REPLACE FUNCTION dashboard.statement_list(token text, filters jsonb, before text, size integer) RETURNS json LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 59c8a78b625fd90023e55fe76be91901;

-- The statements of some days, both included, in the merchant's time zone.
CREATE OR REPLACE FUNCTION dashboard.statements(token text, from_day text, to_day text) RETURNS json LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as c028e928326e5ba9897bca78ca9eeafc;

-- What events of this type are about, and how ids of that begin.
CREATE OR REPLACE FUNCTION dashboard.subject_of(event_type text) RETURNS TABLE(kind text, prefix text) LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 1 SET search_path TO 'pg_catalog' as ab0f959e2ea491ca0502bb7d4826b638;

-- Sends an example of an event; returns the id of its delivery.
CREATE OR REPLACE FUNCTION dashboard.test_webhook(token text, request uuid, public_id text, of_type text) RETURNS json LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as adc1d3d95582cb05e5aba3c4326f6605;

-- How many, and how much, became final, was paid out, and was asked for and paid with payment requests today, and on the same day of the last week up to the same time of day.
CREATE OR REPLACE FUNCTION dashboard.today(token text) RETURNS json LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as fd88f1da446768290f1d5e4ef02db28b;

-- Changes an endpoint; null leaves a value as it is.
CREATE OR REPLACE FUNCTION dashboard.update_webhook_endpoint(token text, request uuid, public_id text, url text, event_types text[], enable boolean) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 2f836159e4a4ef9df48f14b477211529;

-- Uses a code of an authenticator, by its half minute since 1970; false if it was used before.
CREATE OR REPLACE FUNCTION dashboard.use_code(of_user uuid, of_step bigint) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 0d6513eda8f485de3a54b50240cdea73;

-- Uses a recovery code; false if the person has none with this SHA-256.
CREATE OR REPLACE FUNCTION dashboard.use_recovery_code(of_user uuid, of_code_hash bytea) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path TO 'pg_catalog' as 541b56a0a86170403fbff041d75bd8e9;

-- Users as rows of a file, below a place.
CREATE OR REPLACE FUNCTION dashboard.user_file(session_token text, filters jsonb, before numeric, size integer) RETURNS TABLE(place bigint, user_id text, external_ref text, created_at timestamp with time zone, addresses text, metadata text) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 1d1e51ec4d0a8b61bee9b41ddb0321d6;

-- A page of the users, the newest first: all, or those whose reference has a beginning, or that were made on some days.
CREATE OR REPLACE FUNCTION dashboard.user_list(token text, filters jsonb, before text, size integer) RETURNS json LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 285d3765b905ac81d52851615c69d4dd;

-- What came for a user and was not credited, with the reason of each: the newest twenty.
CREATE OR REPLACE FUNCTION dashboard.user_not_credited(token text, public_id text) RETURNS json LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as af6e912945f10812058dea707c3a38a9;

-- A user; raises SL404 if there is none with this id.
CREATE OR REPLACE FUNCTION dashboard.user_of(token text, public_id text) RETURNS json LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as a6f9dd2377fa1de6704c7803291ff37e;

-- The UUID in an id that merchants see; null if it is no id of this kind.
CREATE OR REPLACE FUNCTION dashboard.uuid_of(prefix text, public_id text) RETURNS uuid LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path TO 'pg_catalog' as c6e93d8d7625975dd762c9a56a9df025;

-- An endpoint.
CREATE OR REPLACE FUNCTION dashboard.webhook_endpoint(token text, public_id text) RETURNS json LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as 9789f7b594612996b16b6df769c3cdb2;

-- All endpoints.
CREATE OR REPLACE FUNCTION dashboard.webhook_endpoints(token text) RETURNS json LANGUAGE sql STABLE SECURITY DEFINER SET search_path TO 'pg_catalog' as b8e65cc0a2a36a5d8174c43e4a6283b6;

-- Why what came for a user is not credited, in words.
CREATE OR REPLACE FUNCTION dashboard.why_not_credited(d app.deposit) RETURNS text LANGUAGE sql STABLE SET search_path TO 'pg_catalog' as 1160e95cbacc2d7f2a61461b983647bf;

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
grant execute on function analytics.statement_file(text,jsonb,text,integer) to sluice_analyst;
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
grant select on analytics.solvency to sluice_analyst;
grant select on analytics.stakes to sluice_analyst;
grant select on analytics.statement_lines to sluice_analyst;
grant select on analytics.sweep_costs to sluice_analyst;
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
grant execute on function app.addresses_of(uuid) to sluice_api;
grant execute on function app.asked_amount(jsonb,text) to sluice_api;
grant execute on function app.asked_deliveries(uuid,jsonb,uuid,integer) to sluice_api;
grant execute on function app.asked_deposits(uuid,jsonb,numeric,integer) to sluice_api;
grant execute on function app.asked_event_types(jsonb) to sluice_api;
grant execute on function app.asked_payment_requests(uuid,jsonb,bigint,integer) to sluice_api;
grant execute on function app.asked_payments(uuid,jsonb,bigint,integer) to sluice_api;
grant execute on function app.asked_payouts(uuid,jsonb,bigint,integer) to sluice_api;
grant execute on function app.asked_users(uuid,jsonb,bigint,integer) to sluice_api;
grant execute on function app.cancel_payment_request(uuid,text) to sluice_api;
grant execute on function app.cancel_payout(uuid,uuid) to sluice_api;
grant execute on function app.create_payout(uuid,text,text,boolean,text,bytea) to sluice_api;
grant execute on function app.create_webhook_endpoint(uuid,text,text[]) to sluice_api;
grant execute on function app.delete_webhook_endpoint(uuid,uuid) to sluice_api;
grant execute on function app.delivery_item(app.delivery) to sluice_api;
grant execute on function app.deposit_confirmations(text,integer,integer) to sluice_api;
grant execute on function app.deposits_of_amount(uuid,text,text,text[],numeric,numeric,numeric,numeric,integer) to sluice_api;
grant execute on function app.event_body(json,bigint) to sluice_api;
grant execute on function app.event_id(uuid,boolean) to sluice_api;
grant execute on function app.event_types() to sluice_api;
grant execute on function app.fill_way_out(text,text,bigint[]) to sluice_api;
grant execute on function app.held_back_of(app.deposit) to sluice_api;
grant execute on function app.is_address(text,text,text) to sluice_api;
grant execute on function app.is_disabled(text,text) to sluice_api;
grant execute on function app.is_from_protocol(text,integer,text) to sluice_api;
grant execute on function app.iso(timestamp with time zone) to sluice_api;
grant execute on function app.listed_payout(uuid,uuid) to sluice_api;
grant execute on function app.match_key(text,boolean) to sluice_api;
grant execute on function app.metrics() to sluice_api;
grant execute on function app.not_counted(uuid) to sluice_api;
grant execute on function app.note_key_use(bytea) to sluice_api;
grant execute on function app.paid_from(app.payment_request) to sluice_api;
grant execute on function app.payment_logo(text) to sluice_api;
grant execute on function app.payment_missing(app.payment_request) to sluice_api;
grant execute on function app.payment_page(text) to sluice_api;
grant execute on function app.payment_page_news(text[]) to sluice_api;
grant execute on function app.payment_requests_of_amount(uuid,text,text,text[],numeric,numeric,timestamp with time zone,timestamp with time zone,bigint,bigint,integer) to sluice_api;
grant execute on function app.payout_in_list(app.payout) to sluice_api;
grant execute on function app.payout_item(app.payout) to sluice_api;
grant execute on function app.payout_parts(uuid,bigint,integer) to sluice_api;
grant execute on function app.payout_waiting(app.payout) to sluice_api;
grant execute on function app.provision_addresses(uuid,uuid,text[]) to sluice_api;
grant execute on function app.provision_user(uuid,text,text[],jsonb) to sluice_api;
grant execute on function app.public_id(text,uuid) to sluice_api;
grant execute on function app.read_balances(uuid) to sluice_api;
grant execute on function app.read_balances_at(uuid,timestamp with time zone) to sluice_api;
grant execute on function app.read_deliveries(uuid,jsonb,uuid,integer) to sluice_api;
grant execute on function app.read_delivery(uuid,uuid,uuid) to sluice_api;
grant execute on function app.read_deposit(uuid,uuid) to sluice_api;
grant execute on function app.read_deposits(uuid,jsonb,numeric,integer) to sluice_api;
grant execute on function app.read_endpoint(uuid,uuid) to sluice_api;
grant execute on function app.read_endpoints(uuid) to sluice_api;
grant execute on function app.read_event(uuid,uuid) to sluice_api;
grant execute on function app.read_events(uuid,jsonb,bigint,integer) to sluice_api;
grant execute on function app.read_events_after(uuid,jsonb,bigint,integer) to sluice_api;
grant execute on function app.read_lines(uuid,jsonb,numeric,integer) to sluice_api;
grant execute on function app.read_payment_request(uuid,text) to sluice_api;
grant execute on function app.read_payment_requests(uuid,jsonb,bigint,integer) to sluice_api;
grant execute on function app.read_payments(uuid,jsonb,bigint,integer) to sluice_api;
grant execute on function app.read_payout(uuid,uuid) to sluice_api;
grant execute on function app.read_payout_addresses(uuid) to sluice_api;
grant execute on function app.read_payout_parts(uuid,bigint,integer) to sluice_api;
grant execute on function app.read_payouts(uuid,jsonb,bigint,integer) to sluice_api;
grant execute on function app.read_statements(uuid,text,text,timestamp with time zone,timestamp with time zone) to sluice_api;
grant execute on function app.read_user(uuid,uuid) to sluice_api;
grant execute on function app.read_users(uuid,jsonb,bigint,integer) to sluice_api;
grant execute on function app.read_whole_payout(uuid,jsonb,bigint,integer) to sluice_api;
grant execute on function app.redeliver(uuid,uuid,uuid) to sluice_api;
grant execute on function app.redeliver_failed(uuid,uuid,timestamp with time zone) to sluice_api;
grant execute on function app.request_payment(uuid,text,text,text,interval,text,bytea,jsonb,text,text,interval) to sluice_api;
grant execute on function app.request_ref(uuid,text) to sluice_api;
grant execute on function app.rotate_webhook_secret(uuid,uuid) to sluice_api;
grant execute on function app.set_payout_address(uuid,text,text) to sluice_api;
grant execute on function app.settlement_of(uuid) to sluice_api;
grant execute on function app.test_webhook(uuid,uuid,text) to sluice_api;
grant execute on function app.texts_in(jsonb) to sluice_api;
grant execute on function app.update_user(uuid,uuid,jsonb) to sluice_api;
grant execute on function app.update_webhook_endpoint(uuid,uuid,text,text[],boolean) to sluice_api;
grant execute on function app.user_ref(uuid,text) to sluice_api;
grant execute on function app.uuid_at(timestamp with time zone) to sluice_api;
grant execute on function app.why_payment(app.payment_request) to sluice_api;
grant execute on function app.with_more(json,json) to sluice_api;
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
grant execute on function app.lent_in_all(text,uuid) to sluice_custody;
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
grant select on app.delegation to sluice_custody;
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
grant execute on function dashboard.audit_file(text,jsonb,text,integer) to sluice_dashboard;
grant execute on function dashboard.audit_list(text,jsonb,text,integer) to sluice_dashboard;
grant execute on function dashboard.balance(text,text,text) to sluice_dashboard;
grant execute on function dashboard.brand(text) to sluice_dashboard;
grant execute on function dashboard.cancel_payment_request(text,uuid,text) to sluice_dashboard;
grant execute on function dashboard.cancel_payout(text,uuid,text) to sluice_dashboard;
grant execute on function dashboard.charts(text,text[],integer) to sluice_dashboard;
grant execute on function dashboard.create_api_key(text,uuid,bytea,text,text[]) to sluice_dashboard;
grant execute on function dashboard.create_payment_request(text,uuid,text,text,text,integer,text,integer) to sluice_dashboard;
grant execute on function dashboard.create_payout(text,uuid,text,text,boolean,text) to sluice_dashboard;
grant execute on function dashboard.create_webhook_endpoint(text,uuid,text,text[]) to sluice_dashboard;
grant execute on function dashboard.currencies(text) to sluice_dashboard;
grant execute on function dashboard.delete_webhook_endpoint(text,uuid,text) to sluice_dashboard;
grant execute on function dashboard.delivery(text,text,text) to sluice_dashboard;
grant execute on function dashboard.delivery_file(text,jsonb,text,integer) to sluice_dashboard;
grant execute on function dashboard.delivery_list(text,text,jsonb,text,integer) to sluice_dashboard;
grant execute on function dashboard.deposit(text,text) to sluice_dashboard;
grant execute on function dashboard.deposit_file(text,jsonb,numeric,integer) to sluice_dashboard;
grant execute on function dashboard.deposit_list(text,jsonb,text,integer) to sluice_dashboard;
grant execute on function dashboard.find(text,text) to sluice_dashboard;
grant execute on function dashboard.has_payment_requests(text) to sluice_dashboard;
grant execute on function dashboard.logo(text) to sluice_dashboard;
grant execute on function dashboard.me(text) to sluice_dashboard;
grant execute on function dashboard.news(text[]) to sluice_dashboard;
grant execute on function dashboard.overview(text) to sluice_dashboard;
grant execute on function dashboard.own_address(text,text) to sluice_dashboard;
grant execute on function dashboard.payment_request(text,text) to sluice_dashboard;
grant execute on function dashboard.payment_request_file(text,jsonb,numeric,integer) to sluice_dashboard;
grant execute on function dashboard.payment_request_list(text,jsonb,text,integer) to sluice_dashboard;
grant execute on function dashboard.payment_tolerance(text) to sluice_dashboard;
grant execute on function dashboard.payout(text,text) to sluice_dashboard;
grant execute on function dashboard.payout_addresses(text) to sluice_dashboard;
grant execute on function dashboard.payout_file(text,jsonb,numeric,integer) to sluice_dashboard;
grant execute on function dashboard.payout_list(text,jsonb,text,integer) to sluice_dashboard;
grant execute on function dashboard.payout_parts(text,text,text,integer) to sluice_dashboard;
grant execute on function dashboard.redeliver(text,uuid,text,text) to sluice_dashboard;
grant execute on function dashboard.redeliver_failed(text,uuid,text,timestamp with time zone) to sluice_dashboard;
grant execute on function dashboard.require_full_rights(text) to sluice_dashboard;
grant execute on function dashboard.revoke_api_key(text,uuid,text) to sluice_dashboard;
grant execute on function dashboard.rotate_webhook_secret(text,uuid,text) to sluice_dashboard;
grant execute on function dashboard.search(text,text) to sluice_dashboard;
grant execute on function dashboard.set_brand(text,uuid,text,text,text,text,bytea,boolean) to sluice_dashboard;
grant execute on function dashboard.set_payment_page_sites(text,uuid,text[]) to sluice_dashboard;
grant execute on function dashboard.set_payment_tolerance(text,uuid,integer) to sluice_dashboard;
grant execute on function dashboard.set_payout_address(text,uuid,text,text) to sluice_dashboard;
grant execute on function dashboard.set_time_zone(text,uuid,text) to sluice_dashboard;
grant execute on function dashboard.statement_file(text,jsonb,text,integer) to sluice_dashboard;
grant execute on function dashboard.statement_list(text,jsonb,text,integer) to sluice_dashboard;
grant execute on function dashboard.statements(text,text,text) to sluice_dashboard;
grant execute on function dashboard.test_webhook(text,uuid,text,text) to sluice_dashboard;
grant execute on function dashboard.today(text) to sluice_dashboard;
grant execute on function dashboard.update_webhook_endpoint(text,uuid,text,text,text[],boolean) to sluice_dashboard;
grant execute on function dashboard.user_file(text,jsonb,numeric,integer) to sluice_dashboard;
grant execute on function dashboard.user_list(text,jsonb,text,integer) to sluice_dashboard;
grant execute on function dashboard.user_not_credited(text,text) to sluice_dashboard;
grant execute on function dashboard.user_of(text,text) to sluice_dashboard;
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
grant execute on function app.are_sweep_costs_due(text) to sluice_jobs;
grant execute on function app.audit_checks() to sluice_jobs;
grant execute on function app.audit_is_due() to sluice_jobs;
grant execute on function app.await_sweeps(uuid) to sluice_jobs;
grant execute on function app.begin_audit() to sluice_jobs;
grant execute on function app.begin_comparison(text) to sluice_jobs;
grant execute on function app.begin_defunds(text,text[],numeric[],numeric[]) to sluice_jobs;
grant execute on function app.begin_delegates(uuid,text,text,text[],numeric[],numeric,numeric) to sluice_jobs;
grant execute on function app.begin_funds(uuid,text,text,text[],numeric[],numeric) to sluice_jobs;
grant execute on function app.begin_output_payment(uuid,text[],numeric) to sluice_jobs;
grant execute on function app.begin_output_sweep(uuid,text,uuid,text[],numeric) to sluice_jobs;
grant execute on function app.begin_payment(uuid,numeric) to sluice_jobs;
grant execute on function app.begin_reclaim(text,numeric) to sluice_jobs;
grant execute on function app.begin_return_sweep(uuid,numeric,numeric) to sluice_jobs;
grant execute on function app.begin_return_withdrawal(uuid,numeric) to sluice_jobs;
grant execute on function app.begin_sweeping(uuid) to sluice_jobs;
grant execute on function app.begin_sweeps(uuid,text,text,text[],numeric[],numeric[],numeric) to sluice_jobs;
grant execute on function app.begin_undelegates(text,numeric,integer) to sluice_jobs;
grant execute on function app.block_address(text,text,text,text) to sluice_jobs;
grant execute on function app.cancel_outgoing_payment(uuid) to sluice_jobs;
grant execute on function app.claimed_outputs(uuid,integer) to sluice_jobs;
grant execute on function app.collectable_amount(text,text,text) to sluice_jobs;
grant execute on function app.comparison_age(text) to sluice_jobs;
grant execute on function app.decide_payment_requests(integer) to sluice_jobs;
grant execute on function app.due_comparison(text) to sluice_jobs;
grant execute on function app.due_endpoints() to sluice_jobs;
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
grant execute on function app.find_delegations(text,text[],numeric[]) to sluice_jobs;
grant execute on function app.finish_audit(bigint,jsonb,text) to sluice_jobs;
grant execute on function app.fold_balances(integer) to sluice_jobs;
grant execute on function app.fold_totals(integer) to sluice_jobs;
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
grant execute on function app.note_sweep_cost(text,text,numeric,numeric,text,text) to sluice_jobs;
grant execute on function app.payout_lack(uuid,numeric) to sluice_jobs;
grant execute on function app.payout_shortage(uuid,numeric) to sluice_jobs;
grant execute on function app.payout_shortfall(uuid,numeric) to sluice_jobs;
grant execute on function app.public_id(text,uuid) to sluice_jobs;
grant execute on function app.readiness(text,text) to sluice_jobs;
grant execute on function app.record_attempts(uuid,uuid[],integer[],integer[],integer[],integer[],text[],bigint[]) to sluice_jobs;
grant execute on function app.record_broadcast(text,text,text,integer) to sluice_jobs;
grant execute on function app.record_comparison(text,text,text,text,text[],jsonb,text,integer,interval) to sluice_jobs;
grant execute on function app.recover_dead_pools(interval) to sluice_jobs;
grant execute on function app.refresh_analytics(interval,double precision) to sluice_jobs;
grant execute on function app.sequence_events(integer) to sluice_jobs;
grant execute on function app.stake_for_energy(text) to sluice_jobs;
grant execute on function app.store_signed(uuid,integer,text,text,text,numeric,numeric,jsonb) to sluice_jobs;
grant execute on function app.sum_up_deposit_days(integer) to sluice_jobs;
grant execute on function app.sum_up_ledger_days(integer) to sluice_jobs;
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
grant select on app.delegation to sluice_jobs;
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
grant select on app.stake to sluice_jobs;
grant select on app.token to sluice_jobs;
grant select on app.treasury to sluice_jobs;
grant select on app.treasury_share to sluice_jobs;
grant select on app.unattributed_decision to sluice_jobs;
grant select on app.unstaking to sluice_jobs;
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
