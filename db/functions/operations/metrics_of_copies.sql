-- The part of /metrics (operations/metrics.sql) about copies of the database: its replicas, the archive of its write-ahead log, backups and drills.
-- What an installation never had is absent: a replica appears once it has a slot, the archive while archive_mode is on, the age of a backup or a
-- drill from the first one on. So no alarm fires for what was never set up.

create or replace function app.copy_metrics() returns table (metric text, labels json, value double precision)
language sql stable set search_path = pg_catalog as $$
  select m.metric, json_build_object('slot', r.slot), m.value from app.replica r
  cross join lateral (values ('sluice_replica_connected', r.connected::int::double precision), ('sluice_replica_behind_bytes', r.behind_bytes)) m (metric, value)
  where m.value is not null
  union all
  select m.metric, '{}', m.value from pg_stat_archiver a cross join lateral (values
    ('sluice_wal_archive_failing', coalesce(a.last_failed_time > coalesce(a.last_archived_time, '-infinity'), false)::int::double precision),
    ('sluice_wal_archive_age_seconds', extract(epoch from clock_timestamp() - coalesce(a.last_archived_time, a.stats_reset)))) m (metric, value)
  where current_setting('archive_mode') <> 'off'
  union all
  select 'sluice_backup_age_seconds', '{}', extract(epoch from clock_timestamp() - max(b.finished_at)) from app.backup_run b
  where b.kind = 'backup' having max(b.finished_at) is not null
  union all
  select 'sluice_drill_age_seconds', '{}', extract(epoch from clock_timestamp() - max(b.finished_at)) from app.backup_run b
  where b.kind = 'drill' and b.error is null having max(b.finished_at) is not null
  union all
  (select 'sluice_drill_failed', '{}', (b.error is not null)::int from app.backup_run b where b.kind = 'drill' order by b.id desc limit 1)
$$;
comment on function app.copy_metrics is 'Replicas, the archive of the write-ahead log, and the age of the last backup and the last drill.';
