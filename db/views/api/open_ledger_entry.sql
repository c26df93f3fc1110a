-- Entries of the ledger that are in no sum of a day yet. An index finds them by their time (a range with two ends, as in app.open_deposit).
create or replace view app.open_ledger_entry as
select e.created_at, e.kind, e.account, e.chain, e.token, e.merchant_id, e.amount from app.ledger_entry e
where e.created_at >= (select coalesce(max(day) + 1, '-infinity') from app.ledger_day)::timestamp at time zone 'UTC' and e.created_at <= 'infinity';
comment on view app.open_ledger_entry is 'Entries of the ledger of days that are not summed up in app.ledger_day.';
comment on column app.open_ledger_entry.created_at is 'When it was posted.';
comment on column app.open_ledger_entry.kind is 'As in app.ledger_entry.';
comment on column app.open_ledger_entry.account is 'As in app.ledger_entry.';
comment on column app.open_ledger_entry.amount is 'Debit (positive) or credit (negative), in base units.';
