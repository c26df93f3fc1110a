-- Totals of a merchant at given times, for charts, statements and past balances. It reads, and changes nothing.
--
-- Promises: a total is exact at the beginning of each quarter of an hour, whatever is folded; it costs a few rows of an index, whatever it is the sum of.

create or replace function app.total_at(of_merchant uuid, of_series text, of_about text, of_time timestamptz) returns table (count bigint, amount numeric)
language sql stable rows 1 begin atomic -- inlined into the statements that use it: a chart asks for hundreds
  select (coalesce(t.count, 0) + coalesce(c.count, 0))::bigint, coalesce(t.amount, 0) + coalesce(c.amount, 0)
  from (select) one
  left join lateral (select r.count, r.amount from app.running_total r where r.merchant_id = of_merchant and r.series = of_series and r.about = of_about
    and r.until <= of_time order by r.until desc limit 1) t on true
  left join lateral (select sum(n.count) as count, sum(n.amount) as amount from app.total_change n
    where n.merchant_id = of_merchant and n.series = of_series and n.about = of_about and n.at < of_time) c on true;
end;
comment on function app.total_at is 'How many, and how much, a series had until the beginning of a quarter of an hour.';

create or replace function app.require_quarter(field text, at timestamptz) returns void
language plpgsql stable set search_path = pg_catalog as $$
begin
  if at <> app.end_of_quarter(at) - interval '15 minutes' then
    raise exception 'must be a whole quarter of an hour, such as 2026-11-01T00:15:00Z' using errcode = 'SLINV', detail = field;
  end if;
end $$;
comment on function app.require_quarter is 'Refuses a time for which there are no totals.';

create or replace function app.require_totals() returns void
language plpgsql stable set search_path = pg_catalog as $$
declare share int;
begin
  select 100 * done_up_to / last_entry into share from app.total_backfill where done_up_to < last_entry;
  if found then
    raise exception 'the totals are being made from what was there before this version: % %% is done; try again in some minutes', share
      using errcode = 'SL503', detail = 'totals';
  end if;
end $$;
comment on function app.require_totals is 'Refuses what needs totals until those of an older database are made.';
