-- What a payout is made of, as a list. Adjustments get a place in it above every deposit's seq, so that they come first. There are few of them: the
-- table is rewritten in a moment. And an index for the deposits of users that a payout collected, as GET /v1/deposits lists them: those of each status
-- in order, without the receipts of payment requests between them.
alter table app.adjustment add column if not exists position bigint not null generated always as identity (start with 4611686018427387904);

drop index concurrently if exists app.adjustment_settlement;

create index concurrently adjustment_settlement on app.adjustment (settlement_id, position) where settlement_id is not null;

drop index concurrently if exists app.deposit_settlement_page;

create index concurrently deposit_settlement_page on app.deposit (settlement_id, status, position desc)
where settlement_id is not null and credited and user_id is not null;
-- Transaction
comment on column app.adjustment.position is 'Place in the list of what a payout is made of (app.payout_parts), above every deposit.';
