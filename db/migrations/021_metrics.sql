-- What /metrics tells of the database, for alarms: all that 013_payout_views.sql has, and reorganisations, jobs by task, deliveries that
-- failed, what waits for an operator, what the audit found, network fees, and what has to be kept ahead: addresses and partitions.
--
-- Reader: the API, each time that it is scraped. Promises: what is counted is read from an index that holds little else; nothing reads a
-- whole table that grows with deposits.

drop index concurrently if exists app.deposit_unattributed;

create index concurrently deposit_unattributed on app.deposit (chain) where status = 'final' and not credited and user_id is not null;

-- Transaction

-- Replaces app.oldest_due_job_age_seconds, which told of all tasks together.
drop function app.metrics();
drop function app.oldest_due_job_age_seconds();

create function app.oldest_due_jobs() returns table (task text, age_seconds double precision)
language plpgsql stable set search_path = pg_catalog as $$
begin
  return query
    select t.identifier, coalesce(extract(epoch from clock_timestamp() - min(j.run_at)), 0)::double precision
    from graphile_worker._private_tasks t left join graphile_worker._private_jobs j
      on j.task_id = t.id and j.is_available and j.locked_at is null and j.run_at <= clock_timestamp()
    group by t.identifier;
end $$;
comment on function app.oldest_due_jobs is 'For how long the job of each task that is due longest has been waiting; 0 where none is due.';

-- The parts are cut by uuids that carry the time (in milliseconds, their first 48 bits), and end one after the other.
create function app.delivery_partitions_end() returns timestamptz
language sql stable set search_path = pg_catalog as $$
  select to_timestamp(max(('x' || left(replace(bound.upper, '-', ''), 12))::bit(48)::bigint) / 1000.0)
  from pg_inherits i join pg_class c on c.oid = i.inhrelid
  cross join substring(pg_get_expr(c.relpartbound, c.oid) from $re$ TO \('([0-9a-f-]{36})'\)$re$) bound (upper)
  where i.inhparent = 'app.delivery'::regclass
$$;
comment on function app.delivery_partitions_end is 'Until when deliveries have a partition to go to; null while they are not partitioned.';

-- In plpgsql, because the decisions of operators are a table of the next migration.
create function app.chain_metrics() returns table (metric text, labels json, value double precision)
language plpgsql stable set search_path = pg_catalog as $$
begin
  return query
    select m.metric, json_build_object('chain', c.chain), m.value from chain.cursor c cross join lateral (values
      ('sluice_chain_head_height', c.head_height::double precision),
      ('sluice_chain_final_height', c.final_height::double precision),
      ('sluice_chain_head_age_seconds', extract(epoch from clock_timestamp() - c.head_time)),
      ('sluice_chain_head_moved_age_seconds', extract(epoch from clock_timestamp() - c.head_moved_at)),
      ('sluice_chain_final_moved_age_seconds', extract(epoch from clock_timestamp() - c.final_moved_at)),
      ('sluice_chain_last_reorg_depth_blocks', c.last_reorg_depth::double precision),
      ('sluice_chain_last_reorg_age_seconds', extract(epoch from clock_timestamp() - c.last_reorg_at)),
      ('sluice_chain_halted', (c.halted_at is not null)::int::double precision)) m (metric, value)
    where m.value is not null
    union all
    select 'sluice_deposits_pending', json_build_object('chain', c.chain), n.count from chain.cursor c
    cross join lateral (select count(*) from app.deposit d where d.chain = c.chain and d.status = 'pending') n
    union all
    select 'sluice_unattributed_deposits', json_build_object('chain', c.chain), n.count from chain.cursor c
    cross join lateral (select count(*) from app.deposit d
      where d.chain = c.chain and d.status = 'final' and not d.credited and d.user_id is not null
        and not exists (select from app.unattributed_decision u where u.deposit_id = d.id)) n
    union all
    select 'sluice_incidents_open', json_build_object('chain', coalesce(c.chain, 'none')), count(i.id)
    from (select chain from chain.cursor union all select null) c
    left join app.incident i on i.chain is not distinct from c.chain and i.resolved_at is null group by c.chain;
end $$;

create function app.upkeep_metrics() returns table (metric text, labels json, value double precision)
language sql stable set search_path = pg_catalog as $$
  select 'sluice_oldest_due_job_age_seconds', json_build_object('task', j.task), j.age_seconds from app.oldest_due_jobs() j
  union all
  select 'sluice_events_unsequenced', '{}', count(*) from app.event e where e.sequence is null
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

create function app.metrics() returns table (metric text, labels json, value double precision)
language plpgsql stable security definer set search_path = pg_catalog as $$
begin
  return query
    select * from app.chain_metrics()
    union all
    select * from app.upkeep_metrics()
    union all
    select * from app.payout_metrics();
end $$;
comment on function app.metrics is 'What /metrics says about the database, by Prometheus name.';
grant execute on function app.metrics to sluice_api;
