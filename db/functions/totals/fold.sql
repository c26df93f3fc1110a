-- Moves changes of totals into app.running_total. The jobs worker calls this each second, batch after batch, until a batch was not full. In a database
-- that was there before the totals, it first reads the ledger from its beginning.
--
-- Promises: readers add what is not folded yet (app.total_at), so a total is exact at every moment. A change that is committed late, after later ones
-- were folded, is added to each total after it.
-- Locks: an advisory lock, app.fold_totals; of several callers one works.

create or replace function app.fold_totals(batch int default 20000) returns int
language plpgsql security definer set search_path = pg_catalog as $$
declare
  changes app.running_total[];
  done int;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('app.fold_totals', 0)) then return 0; end if;
  done := app.backfill_totals(batch);
  if not exists (select from app.total_change) then return done; end if;
  with gone as (
    delete from app.total_change where id in (select id from app.total_change order by id limit batch) returning *
  ), summed as (
    select (merchant_id, series, about, app.end_of_quarter(at), sum(count), sum(amount))::app.running_total as change, count(*) as number
    from gone group by merchant_id, series, about, app.end_of_quarter(at)
  )
  select array_agg(change), done + coalesce(sum(number), 0) into changes, done from summed;
  insert into app.running_total (merchant_id, series, about, until, count, amount)
  select c.merchant_id, c.series, c.about, c.until, coalesce(p.count, 0), coalesce(p.amount, 0) from unnest(changes) c
  left join lateral (select t.count, t.amount from app.running_total t
    where t.merchant_id = c.merchant_id and t.series = c.series and t.about = c.about and t.until < c.until order by t.until desc limit 1) p on true
  on conflict do nothing;
  -- Each row meets the newest change at or before it, with the sum of all up to that.
  update app.running_total t set count = t.count + m.count, amount = t.amount + m.amount
  from (select c.merchant_id, c.series, c.about, c.until, sum(c.count) over w as count, sum(c.amount) over w as amount, lead(c.until) over w as next
    from unnest(changes) c window w as (partition by c.merchant_id, c.series, c.about order by c.until)) m
  where t.merchant_id = m.merchant_id and t.series = m.series and t.about = m.about and t.until >= m.until and (m.next is null or t.until < m.next);
  return done;
end $$;
comment on function app.fold_totals is 'Adds changes to the running totals, at most batch of them; returns how many, and how many entries of an older ledger it read. Safe to run at any time and in several places.';
grant execute on function app.fold_totals to sluice_jobs;

create or replace function app.backfill_totals(batch int) returns int
language plpgsql set search_path = pg_catalog as $$
declare
  first bigint;
  last bigint;
begin
  update app.total_backfill b set done_up_to = least(b.done_up_to + batch, b.last_entry) where b.done_up_to < b.last_entry
  returning old.done_up_to, new.done_up_to into first, last;
  if last is null then return 0; end if;
  insert into app.total_change (merchant_id, series, about, at, count, amount)
  select e.merchant_id, p.type, e.chain || ':' || e.token, app.end_of_quarter(e.created_at) - interval '15 minutes', sum(p.number), sum(p.amount)
  from app.ledger_entry e cross join lateral (select type, amount, 1 as number from app.movement_parts(e.kind, e.reference, e.amount)
    union all select 'balance', -e.amount, 0) p
  where e.id > first and e.id <= last and e.account = 'merchant' group by e.merchant_id, p.type, e.chain, e.token, app.end_of_quarter(e.created_at);
  return last - first;
end $$;
comment on function app.backfill_totals is 'Notes what the next entries of a ledger changed that was there before the totals; returns how many it read, 0 once all are.';

create or replace function app.end_of_quarter(at timestamptz) returns timestamptz
language sql immutable parallel safe
return date_bin(interval '15 minutes', at, timestamptz '1970-01-01 00:00:00+00') + interval '15 minutes';
comment on function app.end_of_quarter is 'End of the quarter of an hour that a time is in.';
