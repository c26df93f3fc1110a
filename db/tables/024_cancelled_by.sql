-- Who cancelled a payout: only what its merchant cancels counts towards the merchant's limit (db/functions/payouts/decide.sql).
alter table app.payout add column cancelled_by_merchant boolean not null default false;
comment on column app.payout.cancelled_by_merchant is 'Whether its merchant cancelled it.';
