-- Results of attempts to deliver events. The pump of an endpoint (jobs/webhooks/pump.ts) stores them here, a batch at a time.
--
-- Only the worker whose liveness connection holds the advisory lock hashtextextended('webhook_endpoint:' || id, 0) sends an endpoint's deliveries.
-- The lock is gone the moment that worker dies. So a delivery that is under way needs no mark in its row.
-- Invariants: an attempt changes its delivery only if nothing else changed it since it was read (app.delivery.attempts is its version). An endpoint
-- is disabled automatically when it has answered nothing but 410 for a minute, and after a failure more than five days after the first one since its
-- last success. Its merchant learns of it by an event, at the other endpoints.
-- Locks: endpoint, then its deliveries.

-- The arrays are parallel, in the order in which the attempts ended. numbers counts the attempts of the delivery's present schedule, this one
-- included; ages_ms is how long ago it began; an error of null is a success; waits_ms is the time until the next attempt, null if there is none. The
-- ids of the deliveries are passed as values, so that the planner opens only the weeks that they are in.
create or replace function app.record_attempts(of_endpoint uuid, deliveries uuid[], numbers int[], ages_ms int[], durations_ms int[],
  response_statuses int[], errors text[], waits_ms bigint[]) returns text
language plpgsql security definer set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
declare
  at constant timestamptz := clock_timestamp();
  has_success boolean;
  first_failure timestamptz;
  has_other boolean;
  first_gone timestamptz;
  last_gone timestamptz;
  reason text;
begin
  perform from app.webhook_endpoint w where w.id = of_endpoint for no key update; -- before its deliveries: the order of locks
  with result as materialized (
    select *, at - age_ms * interval '1 millisecond' as attempted_at
    from unnest(deliveries, numbers, ages_ms, durations_ms, response_statuses, errors, waits_ms) with ordinality
      as r (delivery_id, number, age_ms, duration_ms, response_status, error, wait_ms, n)
  ), recorded as (
    insert into app.delivery_attempt (delivery_id, attempted_at, duration_ms, response_status, error)
    select delivery_id, attempted_at, duration_ms, response_status, error from result order by n
  ), moved as (
    update app.delivery d set
      attempts = r.number,
      status = case when r.error is null then 'delivered' when r.wait_ms is null then 'failed' else 'pending' end,
      next_attempt_at = case when r.error is not null then at + r.wait_ms * interval '1 millisecond' end,
      finished_at = case when r.error is null or r.wait_ms is null then at end
    from result r where d.id = r.delivery_id and d.id = any(deliveries) and d.status = 'pending' and d.attempts = r.number - 1
  ), noted as (
    insert into app.total_change (merchant_id, series, about, at, count, amount)
    select w.merchant_id, 'failed_attempts', app.public_id('whe', w.id), at, count(*), 0
    from result r join app.webhook_endpoint w on w.id = of_endpoint where r.error is not null group by w.id
  ), last as ( -- no answer at all says nothing about 410
    select coalesce(max(n) filter (where error is null), 0) as success, coalesce(max(n) filter (where response_status <> 410), 0) as other from result
  )
  select l.success > 0, min(r.attempted_at) filter (where r.n > l.success),
    l.other > 0, min(r.attempted_at) filter (where r.response_status = 410 and r.n > l.other), max(r.attempted_at) filter (where r.response_status = 410 and r.n > l.other)
  into has_success, first_failure, has_other, first_gone, last_gone
  from result r cross join last l group by l.success, l.other;

  update app.webhook_endpoint w set failing_since = f.since, gone_since = f.gone
  from (select case when has_success then first_failure else coalesce(o.failing_since, first_failure) end as since,
      case when has_other then first_gone else coalesce(o.gone_since, first_gone) end as gone
    from app.webhook_endpoint o where o.id = of_endpoint) f
  where w.id = of_endpoint and (w.failing_since, w.gone_since) is distinct from (f.since, f.gone);

  update app.webhook_endpoint w
  set disabled_at = at, disabled_reason = case when w.gone_since <= last_gone - interval '1 minute' then 'gone' else 'failing' end,
    failing_since = null, gone_since = null
  where w.id = of_endpoint and w.disabled_at is null
    and (w.gone_since <= last_gone - interval '1 minute' or (first_failure is not null and w.failing_since < at - interval '5 days'))
  returning w.disabled_reason into reason;
  if reason is not null then perform app.add_endpoint_event(of_endpoint, 'webhook_endpoint.disabled'); end if;
  return reason;
end $$;
comment on function app.record_attempts is 'Stores the results of attempts at one endpoint and updates their deliveries; returns why they disabled the endpoint (gone or failing), or null.';
grant execute on function app.record_attempts to sluice_jobs;
