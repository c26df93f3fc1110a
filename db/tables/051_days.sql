-- The ledger and the deposits by day, as tables for the days that have ended: analytics.daily_ledger and analytics.daily_volume are no longer computed
-- again and again from everything.
-- Transaction
create table app.ledger_day (
  day date not null,
  kind text not null,
  account text not null,
  chain text not null,
  token text not null,
  merchant_id uuid,
  amount numeric not null,
  entry_count bigint not null,
  unique nulls not distinct (day, kind, account, chain, token, merchant_id)
);
comment on table app.ledger_day is 'Sums of the entries of the ledger, for each UTC day up to the last one that is here. Later entries are summed up when they are read.';
comment on column app.ledger_day.day is 'The day, in UTC, on which the entries were posted.';
comment on column app.ledger_day.kind is 'Kind of the entries.';
comment on column app.ledger_day.account is 'Account of the entries.';
comment on column app.ledger_day.merchant_id is 'The merchant; null for the operator''s own and for unattributed value.';
comment on column app.ledger_day.amount is 'Their sum, in base units.';
comment on column app.ledger_day.entry_count is 'How many there are.';

create table app.deposit_day (
  day date not null,
  merchant_id uuid not null,
  chain text not null,
  token text not null,
  deposit_count bigint not null,
  amount numeric not null,
  final_count bigint not null,
  final_amount numeric not null,
  unique (day, merchant_id, chain, token)
);
comment on table app.deposit_day is 'Credited deposits that are not reorged, for each UTC day up to the last one that is here. Later ones are summed up when they are read.';
comment on column app.deposit_day.day is 'The day, in UTC, on which the deposits were first seen.';
comment on column app.deposit_day.deposit_count is 'How many there are.';
comment on column app.deposit_day.amount is 'Their sum, in base units.';
comment on column app.deposit_day.final_count is 'How many of them are final.';
comment on column app.deposit_day.final_amount is 'The sum of these, in base units.';

create table app.changed_deposit_day (
  day date not null
);
comment on table app.changed_deposit_day is 'Days to sum up again: a deposit of theirs was changed. A row for each change.';
comment on column app.changed_deposit_day.day is 'The day, in UTC, on which the deposit was first seen.';

delete from app.analytics_refresh where view_name in ('daily_ledger', 'daily_volume');
