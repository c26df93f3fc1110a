-- Credited deposits that are not reorged and in no sum of a day yet. An index finds them by merchant and time. The planner cannot know how few they are:
-- of everything after an unknown time it expects a third, and reads all deposits; of a range with two ends, one in 200.
create or replace view app.open_deposit as
select d.created_at, d.merchant_id, d.chain, d.token, d.amount, d.status from app.merchant m
join app.deposit d on d.merchant_id = m.id and d.credited and d.status <> 'reorged'
  and d.created_at >= (select coalesce(max(day) + 1, '-infinity') from app.deposit_day)::timestamp at time zone 'UTC' and d.created_at <= 'infinity';
comment on view app.open_deposit is 'Deposits of days that are not summed up in app.deposit_day.';
comment on column app.open_deposit.created_at is 'When it was first seen.';
comment on column app.open_deposit.amount is 'Amount in base units.';
comment on column app.open_deposit.status is 'pending or final.';
