-- Credited deposits that are not reorged and in no sum of a day yet. An index finds them by merchant and time: without offset 0, the planner, which
-- cannot know how few they are, reads all deposits.
create or replace view app.open_deposit as
select d.created_at, d.merchant_id, d.chain, d.token, d.amount, d.status from app.merchant m
cross join lateral (select * from app.deposit o where o.merchant_id = m.id and o.credited and o.status <> 'reorged'
  and o.created_at >= (select coalesce(max(day) + 1, '-infinity') from app.deposit_day)::timestamp at time zone 'UTC' offset 0) d;
comment on view app.open_deposit is 'Deposits of days that are not summed up in app.deposit_day.';
comment on column app.open_deposit.created_at is 'When it was first seen.';
comment on column app.open_deposit.amount is 'Amount in base units.';
comment on column app.open_deposit.status is 'pending or final.';
