-- Compares the stored sums of the ledger's days with its entries.
create or replace view audit.ledger_days as
select day, kind, account, chain, token, merchant_id, sum(summed) as summed, sum(posted) as posted from (
  select day, kind, account, chain, token, merchant_id, amount as summed, 0 as posted from app.ledger_day
  union all
  select (created_at at time zone 'UTC')::date, kind, account, chain, token, merchant_id, 0, amount
  from app.ledger_entry where created_at < (select max(day) + 1 from app.ledger_day)::timestamp at time zone 'UTC'
) part group by day, kind, account, chain, token, merchant_id having sum(summed) <> sum(posted);
comment on view audit.ledger_days is 'the sums of the ledger''s days are those of its entries';
comment on column audit.ledger_days.day is 'The day, in UTC.';
comment on column audit.ledger_days.kind is 'Kind of the entries.';
comment on column audit.ledger_days.account is 'Account of the entries.';
comment on column audit.ledger_days.summed is 'The sum that is stored, in base units.';
comment on column audit.ledger_days.posted is 'The sum of the entries, in base units.';
