-- Who cancelled a payout: only what its merchant cancels counts towards the merchant's limit (db/functions/payouts/decide.sql). And the payments of a treasury
-- that hold up later nonces, in order (db/functions/payouts/why_waiting.sql).
drop index concurrently if exists app.outgoing_payment_unsigned;

create index concurrently outgoing_payment_unsigned on app.outgoing_payment (chain, fee_payer, nonce) where status = 'allocated';
-- Transaction
alter table app.payout add column cancelled_by_merchant boolean not null default false;
comment on column app.payout.cancelled_by_merchant is 'Whether its merchant cancelled it.';
