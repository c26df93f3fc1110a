-- Sums up the days of deposits that have ended, and again those of which a deposit was changed since. The jobs worker calls this twice a minute, until
-- there is nothing left to sum up.
--
-- Promises: a day is summed up when it ended 36 hours ago. What changes a deposit that is older than 24 hours notes its day in the same transaction, and
-- no transaction takes 12 hours: so whatever a sum does not see yet makes it be computed again. Without rows, all is summed up again.
-- Locks: an advisory lock; of several callers one works.
-- Cost: a lookup for each merchant, and one more for each day that is summed up (offset 0: the planner would rather read all deposits).

-- A version without this trigger may have run on this schema: what it changed is not noted.
do $$ begin
  if exists (select from pg_trigger where tgname = 'note_changed_day' and tgrelid = 'app.deposit'::regclass) then return; end if;
  delete from app.deposit_day;
  delete from app.changed_deposit_day;
end $$;

create or replace function app.note_changed_day() returns trigger
language plpgsql set search_path = pg_catalog as $$
begin
  insert into app.changed_deposit_day (day) values ((new.created_at at time zone 'UTC')::date);
  return null;
end $$;
comment on function app.note_changed_day is 'Trigger: notes the day of a deposit that is older than a day, and was changed or is new.';
create or replace trigger note_changed_day after insert or update of status, amount, credited on app.deposit for each row
  when (new.created_at < now() - interval '24 hours') execute function app.note_changed_day();

create or replace function app.sum_up_deposit_days(most int default 31) returns int
language plpgsql security definer set search_path = pg_catalog as $$
declare
  summed_before date;
  first date;
  days date[];
begin
  if not pg_try_advisory_xact_lock(hashtextextended('app.sum_up_deposit_days', 0)) then return 0; end if;
  select coalesce(max(day) + 1, '-infinity') into summed_before from app.deposit_day;
  select (min(d.created_at) at time zone 'UTC')::date into first from app.merchant m cross join lateral (
    select o.created_at from app.deposit o where o.merchant_id = m.id and o.credited and o.status <> 'reorged'
      and o.created_at >= summed_before::timestamp at time zone 'UTC' order by o.created_at limit 1) d;
  with gone as (delete from app.changed_deposit_day returning day)
  select array_agg(distinct d.day) into days from (
    select day from gone where day < summed_before
    union all
    select generate_series(first, least(first + most, ((clock_timestamp() - interval '36 hours') at time zone 'UTC')::date) - 1, interval '1 day')::date
  ) d;
  delete from app.deposit_day d where d.day = any(days);
  insert into app.deposit_day (day, merchant_id, chain, token, deposit_count, amount, final_count, final_amount)
  select s.day, m.id, d.chain, d.token, count(*), sum(d.amount),
    count(*) filter (where d.status = 'final'), coalesce(sum(d.amount) filter (where d.status = 'final'), 0)
  from unnest(days) s (day) cross join app.merchant m cross join lateral (
    select * from app.deposit o where o.merchant_id = m.id and o.credited and o.status <> 'reorged'
      and o.created_at >= s.day::timestamp at time zone 'UTC' and o.created_at < (s.day + 1)::timestamp at time zone 'UTC' offset 0) d
  group by s.day, m.id, d.chain, d.token;
  return coalesce(cardinality(days), 0);
end $$;
comment on function app.sum_up_deposit_days is 'Sums up days of deposits that have ended, at most so many, and those that were changed; returns how many. Safe to run at any time and in several places.';
grant execute on function app.sum_up_deposit_days to sluice_jobs;
