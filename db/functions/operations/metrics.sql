-- What /metrics shows of the database, for alarms. The API calls app.metrics at each scrape. operations/metrics_of_chains.sql,
-- operations/metrics_of_payouts.sql and operations/metrics_of_copies.sql have the other parts. The names, their help and their labels are in the
-- API, which knows all of them.
--
-- Promises: counts are read from an index that holds little else; nothing reads a whole table that grows with deposits. No label names a merchant, a
-- user or an address. An age is in seconds.

create or replace function app.metrics() returns table (metric text, labels json, value double precision)
language plpgsql stable security definer set search_path = pg_catalog as $$
begin
  return query
    select * from app.chain_metrics()
    union all
    select * from app.contradiction_metrics()
    union all
    select * from app.upkeep_metrics()
    union all
    select * from app.payout_metrics()
    union all
    select * from app.payment_metrics()
    union all
    select * from app.comparison_metrics()
    union all
    select * from app.copy_metrics();
end $$;
comment on function app.metrics is 'What /metrics shows about the database, by Prometheus name.';
grant execute on function app.metrics to sluice_api;

create or replace function app.upkeep_metrics() returns table (metric text, labels json, value double precision)
language sql stable set search_path = pg_catalog as $$
  select 'sluice_oldest_due_job_age_seconds', json_build_object('task', j.task), j.age_seconds from app.oldest_due_jobs() j
  union all
  select m.metric, '{}', m.value from (select count(*), min(e.created_at) as oldest from app.event e where e.sequence is null) u
  cross join lateral (values ('sluice_events_unsequenced', u.count),
    ('sluice_events_unsequenced_oldest_seconds', coalesce(extract(epoch from clock_timestamp() - u.oldest), 0))) m (metric, value)
  union all
  select 'sluice_webhook_deliveries_pending', '{}', count(*) from app.delivery d where d.status = 'pending'
  union all
  select 'sluice_webhook_deliveries_failed', '{}', count(*) from app.delivery d where d.status = 'failed'
  union all
  select 'sluice_webhook_endpoints_failing', '{}', count(*) from app.webhook_endpoint w where w.failing_since is not null and w.deleted_at is null
  union all
  select 'sluice_webhook_endpoints_disabled', json_build_object('reason', r.reason), count(w.id)
  from unnest(array['merchant', 'gone', 'failing']) r (reason)
  left join app.webhook_endpoint w on w.disabled_reason = r.reason and w.disabled_at is not null and w.deleted_at is null group by r.reason
  union all
  select 'sluice_address_pool_free', json_build_object('family', f.family), n.count from (select distinct family from app.chain) f
  cross join lateral (select count(*) from custody.address a
    where a.family = f.family and a.purpose = 'deposit' and a.taken_at is null and a.retired_at is null) n
  union all
  select 'sluice_treasury_gas_left_seconds', json_build_object('chain', c.chain), d.days * 86400 from app.chain c
  cross join app.gas_left_days(c.chain) d (days) where d.days is not null
  union all
  select 'sluice_audit_age_seconds', '{}', extract(epoch from clock_timestamp() - max(r.finished_at)) from app.audit_run r
  having max(r.finished_at) is not null
  union all
  select 'sluice_audit_incomplete', '{}', (r.error is not null)::int from app.audit_run r
  where r.id = (select max(l.id) from app.audit_run l where l.finished_at is not null)
  union all
  select 'sluice_audit_findings', json_build_object('check', f.name), f.count from app.audit_finding f
  where f.run_id = (select max(l.id) from app.audit_run l where l.finished_at is not null)
  union all
  select 'sluice_database_size_bytes', '{}', pg_database_size(current_database())
  union all
  select 'sluice_delivery_partitions_ahead_seconds', '{}', extract(epoch from e.ends_at - clock_timestamp())
  from app.delivery_partitions_end() e (ends_at) where e.ends_at is not null
$$;
comment on function app.upkeep_metrics is 'Jobs, events, webhooks, the address pool, network fees, the audit, and the size of the database.';

