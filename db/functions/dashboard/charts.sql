-- What the charts of the dashboard show: how much of each series (app.running_total) there was on each of the last days. It reads, and changes nothing.
--
-- Promises: days are those of the merchant's time zone, and the last one is today, so far; a chart costs a few rows of an index for each day, whatever it
-- is the sum of; sums of money are those of a statement of the same days.
-- Errors: SLAUT there is no such session; SL503 totals are being made.

create or replace function dashboard.charts(token text, of_series text[], of_days int) returns json
language plpgsql stable security definer set search_path = pg_catalog as $$
declare
  merchant uuid := dashboard.merchant_of(charts.token);
  zone text := (select m.time_zone from app.merchant m where m.id = merchant);
  today date := (statement_timestamp() at time zone zone)::date;
begin
  perform app.require_totals();
  return (with boundary as materialized (
      select n, today - of_days + n as day, (today - of_days + n)::timestamp at time zone zone as at from generate_series(1, of_days + 1) n
    ), total as (
      select s.series, s.about, b.n, t.count, t.amount from dashboard.series_of(merchant) s cross join boundary b
      cross join lateral app.total_at(merchant, s.series, s.about, b.at) t where s.series = any(of_series)
    ), change as (
      select series, about, n - 1 as n, count - lag(count) over w as count, amount - lag(amount) over w as amount, amount as amount_at_end
      from total window w as (partition by series, about order by n)
    )
    select json_build_object('days', (select json_agg(day order by n) from boundary where n <= of_days),
      'series', coalesce((select json_agg(i order by i.series, i.about) from (
        select c.series, c.about, json_agg(c.count order by c.n) as counts,
          json_agg(case when a.chain is null then c.amount::text else app.decimal(c.amount, a.decimals) end order by c.n) as amounts,
          json_agg(case when a.chain is null then c.amount_at_end::text else app.decimal(c.amount_at_end, a.decimals) end order by c.n) as amounts_at_end
        from change c left join app.asset a on a.chain || ':' || a.token = c.about
        where c.n > 0 group by c.series, c.about) i), '[]')));
end $$;
comment on function dashboard.charts is 'For each of these series: how many and how much on each of the last days (of_days of them), and how much there was at the end of each.';
grant execute on function dashboard.charts to sluice_dashboard;

create or replace function dashboard.today(token text) returns json
language plpgsql stable security definer set search_path = pg_catalog as $$
declare
  merchant uuid := dashboard.merchant_of(today.token);
  zone text := (select m.time_zone from app.merchant m where m.id = merchant);
  day timestamp := date_trunc('day', statement_timestamp() at time zone zone);
  clock timestamptz := app.end_of_quarter(statement_timestamp()) - interval '15 minutes'; -- as exactly as totals are kept
  past_clock timestamptz := ((clock at time zone zone) - interval '7 days') at time zone zone;
begin
  perform app.require_totals();
  return (select json_build_object('compared_with', app.iso(past_clock), 'series', coalesce(json_agg(i order by i.series, i.about), '[]')) from (
    select s.series, s.about, now.count - morning.count as count, past.count - past_morning.count as past_count,
      coalesce(app.decimal(now.amount - morning.amount, a.decimals), '0') as amount,
      coalesce(app.decimal(past.amount - past_morning.amount, a.decimals), '0') as past_amount
    from dashboard.series_of(merchant) s left join app.asset a on a.chain || ':' || a.token = s.about
    cross join lateral app.total_at(merchant, s.series, s.about, day at time zone zone) morning
    cross join lateral app.total_at(merchant, s.series, s.about, 'infinity') now
    cross join lateral app.total_at(merchant, s.series, s.about, (day - interval '7 days') at time zone zone) past_morning
    cross join lateral app.total_at(merchant, s.series, s.about, past_clock) past
    where s.series in ('deposit', 'paid') or (s.series = 'requests' and s.about in ('made', 'paid'))) i
    where (i.count, i.past_count, i.amount, i.past_amount) <> (0, 0, '0', '0'));
end $$;
comment on function dashboard.today is 'How many, and how much, became final, was paid out, and was asked for and paid with payment requests today, and on the same day of the last week up to the same time of day.';
grant execute on function dashboard.today to sluice_dashboard;

-- Each is one step down the index, however many rows it has.
create or replace function dashboard.series_of(merchant uuid) returns table (series text, about text)
language sql stable rows 50 set search_path = pg_catalog as $$
  with recursive folded as (
    (select t.series, t.about from app.running_total t where t.merchant_id = merchant order by t.series, t.about limit 1)
    union all
    select n.series, n.about from folded f cross join lateral (
      select t.series, t.about from app.running_total t where t.merchant_id = merchant and (t.series, t.about) > (f.series, f.about)
      order by t.series, t.about limit 1) n
  )
  select f.series, f.about from folded f
  union select c.series, c.about from app.total_change c where c.merchant_id = merchant
$$;
comment on function dashboard.series_of is 'The series that a merchant has.';
