-- Deliveries and their attempts are partitioned by week, so that old ones are removed by dropping a table. Everything else is kept for ever; a
-- delivery is only the way of an event to an endpoint. The worker maintains the partitions each hour (jobs/webhooks/partitions.ts).
--
-- Both tables are partitioned by the id of the delivery, a UUID of version 7, which carries the time: an attempt lives and goes with its delivery.
-- Weeks are those of UTC, from Monday. A row outside of all weeks (a clock was wrong, or no worker made the next week for a month) goes to the
-- default partition, so an insert never fails.
-- Invariants: the partitions of the two tables have the same bounds; a partition with a pending delivery is not dropped.
-- Locks: making a week locks only the default partitions, for a moment; dropping one locks both tables, for a moment. Neither waits for a lock
-- longer than 0.2 s: it gives up (55P03), and is tried again within the hour. One caller at a time (an advisory lock); others do nothing.
-- Errors: 55P03 other transactions are in the way; 22023 the retention is shorter than a week.

-- One week at a time, so that each transaction, and with it each lock, is short; for the same reason pending and old deliveries are found by
-- indexes. When no week is left to make or drop, rows past the retention are deleted from the default partitions.
create or replace function app.maintain_partitions(retention interval) returns text
language plpgsql security definer set search_path = pg_catalog set lock_timeout = '200ms' set enable_seqscan = off as $$
declare
  expired timestamptz := clock_timestamp() - retention;
  ahead timestamptz;
  old record;
  is_pending boolean;
  done text;
begin
  if retention is null or retention < interval '7 days' then
    raise exception 'deliveries are kept for at least 7 days, not for %', retention using errcode = 'invalid_parameter_value';
  end if;
  if not pg_try_advisory_xact_lock(hashtextextended('app.maintain_partitions', 0)) then return null; end if;
  select max(p.until) into ahead from app.delivery_partition p;
  if ahead < clock_timestamp() + interval '21 days' then return app.add_delivery_week(ahead); end if;
  for old in select p.suffix, p.until from app.delivery_partition p where p.until <= expired order by p.until loop
    execute format('select exists (select from app.%I where status = ''pending'')', 'delivery' || old.suffix) into is_pending;
    if not is_pending then done := app.drop_delivery_week(old.suffix, old.until); end if;
    if done is not null then return done; end if;
  end loop;
  delete from app.delivery_default d where d.id < app.uuid_at(expired) and d.status <> 'pending';
  delete from app.delivery_attempt_default a where a.delivery_id < app.uuid_at(expired)
    and not exists (select from app.delivery d where d.id = a.delivery_id);
  return null;
end $$;
comment on function app.maintain_partitions is 'Makes the next week of deliveries, up to three weeks ahead, or drops the oldest one that is past the retention and holds nothing pending: one at each call; returns what it did, or null when nothing is left to do. Safe to run at any time and in several places.';
grant execute on function app.maintain_partitions to sluice_jobs;

-- The new tables get their indexes when they are attached. What was written to the default partitions meanwhile moves.
create or replace function app.add_delivery_week(week timestamptz) returns text
language plpgsql set search_path = pg_catalog as $$
declare
  suffix text := to_char(week at time zone 'UTC', '_YYYY_MM_DD');
  low uuid := app.uuid_at(week);
  high uuid := app.uuid_at(week + interval '168 hours');
  part record;
begin
  lock table app.delivery_attempt_default, app.delivery_default in access exclusive mode;
  for part in select * from (values ('delivery', 'id'), ('delivery_attempt', 'delivery_id')) as t (parent, key) loop
    execute format('create table app.%I (like app.%I including defaults including constraints)', part.parent || suffix, part.parent);
    execute format('with moved as (delete from app.%1$I where %2$I >= %3$L and %2$I < %4$L returning *) insert into app.%5$I select * from moved',
      part.parent || '_default', part.key, low, high, part.parent || suffix);
    execute format('alter table app.%I attach partition app.%I for values from (%L) to (%L)', part.parent, part.parent || suffix, low, high);
  end loop;
  return format('made the week of %s', to_char(week at time zone 'UTC', 'YYYY-MM-DD'));
end $$;
comment on function app.add_delivery_week is 'Makes the partitions of one week; returns what it did, in words.';

create or replace function app.drop_delivery_week(suffix text, until timestamptz) returns text
language plpgsql set search_path = pg_catalog as $$
declare is_pending boolean;
begin
  lock table only app.delivery_attempt, only app.delivery in access exclusive mode; -- an earlier redelivery is seen, and no new one begins
  execute format('select exists (select from app.%I where status = ''pending'')', 'delivery' || suffix) into is_pending;
  if is_pending then return null; end if;
  execute format('drop table app.%I, app.%I', 'delivery_attempt' || suffix, 'delivery' || suffix);
  return format('dropped what is older than %s', to_char(until at time zone 'UTC', 'YYYY-MM-DD'));
end $$;
comment on function app.drop_delivery_week is 'Drops the partitions of one week; returns what it did, in words, or null if something in it is pending.';

-- The bounds are UUIDs whose first 48 bits are the time in milliseconds; each partition ends where the next one begins.
create or replace function app.delivery_partitions_end() returns timestamptz
language sql stable set search_path = pg_catalog as $$
  select to_timestamp(max(('x' || left(replace(bound.upper, '-', ''), 12))::bit(48)::bigint) / 1000.0)
  from pg_inherits i join pg_class c on c.oid = i.inhrelid
  cross join substring(pg_get_expr(c.relpartbound, c.oid) from $re$ TO \('([0-9a-f-]{36})'\)$re$) bound (upper)
  where i.inhparent = 'app.delivery'::regclass
$$;
comment on function app.delivery_partitions_end is 'The end of the last week that has a partition; later deliveries go to the default partition.';
