-- How often a merchant may cancel payouts that have begun to sweep (db/functions/payouts/decide.sql): each sweep costs the operator a network fee.
drop index concurrently if exists app.payout_cancelled;

create index concurrently payout_cancelled on app.payout (merchant_id, finished_at) where error_code = 'cancelled' and sweeping_at is not null;
-- Transaction
alter table app.merchant add column cancels_per_day int not null default 20 check (cancels_per_day >= 0);
comment on column app.merchant.cancels_per_day is 'How many payouts that have begun to sweep the merchant may cancel within a day.';
