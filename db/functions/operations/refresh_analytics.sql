-- Computes the materialised views of the schema analytics again and again, each for at most a share of the time: a slow one is computed less often.
-- The worker calls this twice a minute. app.analytics_refresh says which moment each view shows (analysts: analytics.freshness).
--
-- Promises: of several callers one works (an advisory lock). A view is computed beside its readers, who see the old rows until then; the first time,
-- when there are no rows, they wait. A view that fails is noted, and does not keep the others waiting.

create or replace function app.refresh_analytics(at_least interval default '1 minute', share double precision default 0.02) returns text
language plpgsql security definer set search_path = pg_catalog as $$
declare
  of_view text;
  began timestamptz;
  problem text;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('app.refresh_analytics', 0)) then return null; end if;
  select view_name into of_view from app.analytics_refresh where due_at <= clock_timestamp() order by due_at, view_name limit 1;
  if of_view is null then return null; end if;
  began := clock_timestamp();
  begin
    execute format('refresh materialized view %s analytics.%I',
      case when (select relispopulated from pg_class where oid = to_regclass(format('analytics.%I', of_view))) then 'concurrently' else '' end, of_view);
  exception when others or query_canceled then -- a time limit of the server cancels, and would cancel the same view again and again
    problem := sqlerrm;
  end;
  update app.analytics_refresh r set
    refreshed_at = case when problem is null then began else r.refreshed_at end,
    took_seconds = case when problem is null then extract(epoch from clock_timestamp() - began) else r.took_seconds end,
    due_at = clock_timestamp() + greatest(at_least, (clock_timestamp() - began) / share),
    failed_at = case when problem is not null then clock_timestamp() end, error = problem
  where r.view_name = of_view;
  return of_view;
end $$;
comment on function app.refresh_analytics is 'Refreshes the materialised view of analytics that is due first, and returns its name; null if none is due, or another caller is refreshing. Each takes at most a share of the time.';
grant execute on function app.refresh_analytics to sluice_jobs;
