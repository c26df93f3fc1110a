-- Sums up the days of the ledger that have ended. The jobs worker calls this twice a minute, until there is nothing left to sum up.
--
-- Promises: a day is summed up once, when it ended a day ago. Entries have the time of their transaction's first posting (app.posting_time), and no
-- transaction takes a day, so none is added afterwards (audit.ledger_days compares). Without rows, all is summed up again.
-- Locks: an advisory lock; of several callers one works.

create or replace function app.sum_up_ledger_days(most int default 31) returns int
language plpgsql security definer set search_path = pg_catalog as $$
declare
  first date;
  until date;
  summed int;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('app.sum_up_ledger_days', 0)) then return 0; end if;
  select (min(e.created_at) at time zone 'UTC')::date into first from app.open_ledger_entry e;
  until := least(first + most, ((clock_timestamp() - interval '1 day') at time zone 'UTC')::date);
  insert into app.ledger_day (day, kind, account, chain, token, merchant_id, amount, entry_count)
  select (e.created_at at time zone 'UTC')::date, e.kind, e.account, e.chain, e.token, e.merchant_id, sum(e.amount), count(*) from app.open_ledger_entry e
  where e.created_at >= first::timestamp at time zone 'UTC' and e.created_at < until::timestamp at time zone 'UTC' group by 1, 2, 3, 4, 5, 6;
  get diagnostics summed = row_count;
  return summed;
end $$;
comment on function app.sum_up_ledger_days is 'Sums up days of the ledger that have ended, at most so many; returns how many rows that made. Safe to run at any time and in several places.';
grant execute on function app.sum_up_ledger_days to sluice_jobs;
