-- What is really waited for (db/functions/payouts/why_waiting.sql): what the indexer knows of a transaction that has expired, and, of a payout that failed,
-- what it waited for.
alter table app.outgoing_attempt add column unproven text, add column unproven_since timestamptz;
comment on column app.outgoing_attempt.unproven is 'Why it is not proven that no block holds it, though it has expired, for the operator; null if nobody asked. It may be proven since.';
comment on column app.outgoing_attempt.unproven_since is 'Since when that is not proven.';
alter table app.payout add column error_detail text;
comment on column app.payout.error_detail is 'More about why it failed, for the operator; null if there is nothing more.';
