-- Deliveries and their attempts, a table for each week, so that old ones go by dropping a table.
--
-- Everything else is kept for ever: transfers, inclusions, deposits, events, payouts, ledger. A delivery is only the way of an event to an
-- endpoint; the event stays, and GET /v1/events shows it.
--
-- Both tables are cut by the id of the delivery, a uuidv7, which carries the time: an attempt lives and goes with its delivery. What was there
-- before became the first part, as it was, without a row being copied. Weeks are those of UTC, from Monday. A row outside of all weeks (the
-- clock was wrong, or no worker made the next week for a month) goes to the default part, so an insert never fails.
--
-- Writer: app.maintain_partitions, run by the jobs worker. Readers: all by the names that they always had.
-- Invariants: the parts of the two tables have the same bounds; a part with a pending delivery is not dropped.
-- Locks: making a week takes the default parts alone, for a moment; dropping one takes both tables, for a moment. Neither waits longer than
-- 0.2 s: it gives way, and is tried again within the hour.

create or replace function app.uuid_at(at timestamptz) returns uuid
language sql immutable strict parallel safe
return (lpad(to_hex((extract(epoch from at) * 1000)::bigint), 12, '0') || '70008000000000000000')::uuid;

-- What the first part needs, made while everybody goes on writing: its new key, and the proof that it holds nothing from the fifth week on.
drop index concurrently if exists app.delivery_attempt_first_pkey;

create unique index concurrently delivery_attempt_first_pkey on app.delivery_attempt (delivery_id, id);

do $$
declare until uuid := app.uuid_at(date_trunc('week', clock_timestamp(), 'UTC') + 5 * interval '168 hours');
begin
  alter table app.delivery_attempt drop constraint if exists delivery_attempt_first;
  alter table app.delivery drop constraint if exists delivery_first;
  execute format('alter table app.delivery_attempt add constraint delivery_attempt_first check (delivery_id < %L) not valid', until);
  execute format('alter table app.delivery add constraint delivery_first check (id < %L) not valid', until);
end $$;

alter table app.delivery_attempt validate constraint delivery_attempt_first;

alter table app.delivery validate constraint delivery_first;

-- Transaction

lock table app.delivery_attempt, app.delivery in access exclusive mode;
comment on function app.uuid_at is 'The lowest id (uuidv7) that is made at or after a time.';

-- Views know their tables by number, and would follow the old ones: they are made again below, from their text.
create temporary table dependent on commit drop as
select distinct v.oid::regclass::text as name, v.reloptions as options, pg_get_viewdef(v.oid) as definition
from pg_depend d join pg_rewrite r on r.oid = d.objid join pg_class v on v.oid = r.ev_class
where d.classid = 'pg_rewrite'::regclass and d.refobjid in ('app.delivery'::regclass, 'app.delivery_attempt'::regclass);

alter table app.delivery rename to delivery_first;
alter index app.delivery_pkey rename to delivery_first_pkey;
alter index app.delivery_due rename to delivery_first_due;
alter index app.delivery_page rename to delivery_first_page;
alter index app.delivery_failed rename to delivery_first_failed;
alter index app.delivery_failed_page rename to delivery_first_failed_page;
revoke all on app.delivery_first from sluice_api, sluice_jobs;

create table app.delivery (
  id uuid primary key default uuidv7(),
  event_id uuid not null,
  endpoint_id uuid not null,
  status text not null default 'pending' constraint delivery_status_check check (status in ('pending', 'delivered', 'failed')),
  attempts int not null default 0,
  next_attempt_at timestamptz default clock_timestamp(),
  created_at timestamptz not null default clock_timestamp(),
  finished_at timestamptz
) partition by range (id);
create index delivery_due on app.delivery (endpoint_id, next_attempt_at) where status = 'pending';
create index delivery_page on app.delivery (endpoint_id, id desc);
create index delivery_failed on app.delivery (endpoint_id, created_at) where status = 'failed';
create index delivery_failed_page on app.delivery (endpoint_id, id desc) where status = 'failed';
comment on table app.delivery is 'One event on its way to one endpoint. A part for each week; old weeks are dropped.';
comment on column app.delivery.id is 'Id; shown as dlv_ and 32 hex digits.';
comment on column app.delivery.event_id is 'The event.';
comment on column app.delivery.endpoint_id is 'The endpoint.';
comment on column app.delivery.status is 'pending until it succeeds (delivered) or every attempt is used up or the endpoint is disabled (failed).';
comment on column app.delivery.attempts is 'Attempts of the present schedule; a redelivery starts again at 0.';
comment on column app.delivery.next_attempt_at is 'When the next attempt is due; null when there will be none.';
comment on column app.delivery.created_at is 'When the event happened.';
comment on column app.delivery.finished_at is 'When it was delivered or failed.';
grant select on app.delivery to sluice_api, sluice_jobs;

-- Attempts are numbered on from where they were.
do $$
declare next_id bigint := nextval('app.delivery_attempt_id_seq');
begin
  alter table app.delivery_attempt rename to delivery_attempt_first;
  alter table app.delivery_attempt_first alter column id drop identity;
  alter table app.delivery_attempt_first drop constraint delivery_attempt_pkey;
  alter table app.delivery_attempt_first add primary key using index delivery_attempt_first_pkey;
  drop index app.delivery_attempt_delivery;
  revoke all on app.delivery_attempt_first from sluice_api, sluice_jobs;

  create table app.delivery_attempt (
    id bigint generated always as identity,
    delivery_id uuid not null,
    attempted_at timestamptz not null,
    duration_ms int not null,
    response_status int,
    error text,
    primary key (delivery_id, id)
  ) partition by range (delivery_id);
  execute format('alter table app.delivery_attempt alter column id restart with %s', next_id);
end $$;
comment on table app.delivery_attempt is 'Each HTTP request that tried to deliver an event. A part for each week, that of the delivery.';
comment on column app.delivery_attempt.id is 'Order of the attempts.';
comment on column app.delivery_attempt.delivery_id is 'The delivery.';
comment on column app.delivery_attempt.attempted_at is 'When the request began.';
comment on column app.delivery_attempt.duration_ms is 'How long it took, in milliseconds.';
comment on column app.delivery_attempt.response_status is 'HTTP status of the answer; null if there was none.';
comment on column app.delivery_attempt.error is 'Why it failed; null if it succeeded.';
grant select on app.delivery_attempt to sluice_api, sluice_jobs;

-- No row is read here: the constraints prove where the old ones belong.
do $$
declare until text := (select substring(pg_get_constraintdef(oid) from '[0-9a-f-]{36}') from pg_constraint
  where conrelid = 'app.delivery_first'::regclass and conname = 'delivery_first' and convalidated);
begin
  execute format('alter table app.delivery attach partition app.delivery_first for values from (minvalue) to (%L)', until);
  execute format('alter table app.delivery_attempt attach partition app.delivery_attempt_first for values from (minvalue) to (%L)', until);
end $$;
alter table app.delivery_first drop constraint delivery_first;
alter table app.delivery_attempt_first drop constraint delivery_attempt_first;
create table app.delivery_default partition of app.delivery default;
create table app.delivery_attempt_default partition of app.delivery_attempt default;

do $$
declare v record;
begin
  for v in select * from dependent loop
    execute format('create or replace view %s %s as %s', v.name, 'with (' || array_to_string(v.options, ', ') || ')', v.definition);
  end loop;
end $$;

create view app.delivery_partition as
select substr(c.relname, length('delivery') + 1) as suffix,
  uuid_extract_timestamp(substring(pg_get_expr(c.relpartbound, c.oid) from 'FROM \(''([^'']+)''\)')::uuid) as since,
  uuid_extract_timestamp(substring(pg_get_expr(c.relpartbound, c.oid) from 'TO \(''([^'']+)''\)')::uuid) as until,
  pg_total_relation_size(c.oid) as delivery_bytes, pg_total_relation_size(a.oid) as attempt_bytes
from pg_inherits i join pg_class c on c.oid = i.inhrelid
join pg_class a on a.relnamespace = c.relnamespace and a.relname = 'delivery_attempt' || substr(c.relname, length('delivery') + 1)
where i.inhparent = 'app.delivery'::regclass;
comment on view app.delivery_partition is 'The parts of app.delivery and app.delivery_attempt, and how big they are.';
comment on column app.delivery_partition.suffix is 'What follows app.delivery, or app.delivery_attempt, in the name of the part.';
comment on column app.delivery_partition.since is 'Deliveries from this time on; null for the first part and the default one.';
comment on column app.delivery_partition.until is 'Deliveries before this time; null for the default part, which has what no other has.';
comment on column app.delivery_partition.delivery_bytes is 'Size of the part of app.delivery on disk, indexes included.';
comment on column app.delivery_partition.attempt_bytes is 'Size of the part of app.delivery_attempt on disk, indexes included.';

-- The parts of one week. The new tables get their indexes when they are attached. What was written to the default parts meanwhile moves.
create function app.add_delivery_week(week timestamptz) returns text
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

-- Null if something in it is pending.
create function app.drop_delivery_week(suffix text, until timestamptz) returns text
language plpgsql set search_path = pg_catalog as $$
declare is_pending boolean;
begin
  lock table only app.delivery_attempt, only app.delivery in access exclusive mode; -- a redelivery that began before is seen, and none begins
  execute format('select exists (select from app.%I where status = ''pending'')', 'delivery' || suffix) into is_pending;
  if is_pending then return null; end if;
  execute format('drop table app.%I, app.%I', 'delivery_attempt' || suffix, 'delivery' || suffix);
  return format('dropped what is older than %s', to_char(until at time zone 'UTC', 'YYYY-MM-DD'));
end $$;

-- One step of keeping the parts as they should be: makes the next week, up to three weeks ahead; or drops the oldest one that is older than
-- the retention and holds nothing pending. Returns what it did, null when there is nothing to do. One step is one short transaction.
create function app.maintain_partitions(retention interval) returns text
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
comment on function app.maintain_partitions is 'Makes the next parts of deliveries and drops those older than the retention, one at each call; returns what it did. Safe to run at any time and in several places.';
grant execute on function app.maintain_partitions to sluice_jobs;

-- As in 006_jobs.sql. The ids of the deliveries are named as values, so that the planner opens the weeks that they are in, and no other.
create or replace function app.record_attempts(of_endpoint uuid, deliveries uuid[], numbers int[], ages_ms int[], durations_ms int[],
  response_statuses int[], errors text[], waits_ms bigint[]) returns text
language plpgsql security definer set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
declare
  at constant timestamptz := clock_timestamp();
  has_success boolean;
  first_failure timestamptz;
  is_gone boolean;
  reason text;
begin
  perform from app.webhook_endpoint w where w.id = of_endpoint for no key update; -- before its deliveries, as everybody locks them
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
  ), last_success as (
    select coalesce(max(n), 0) as n from result where error is null
  )
  select s.n > 0, min(r.attempted_at) filter (where r.n > s.n), bool_or(r.response_status is not distinct from 410)
  into has_success, first_failure, is_gone
  from result r cross join last_success s group by s.n;

  update app.webhook_endpoint w
  set failing_since = case when has_success then first_failure else coalesce(w.failing_since, first_failure) end
  where w.id = of_endpoint and w.failing_since is distinct from
    case when has_success then first_failure else coalesce(w.failing_since, first_failure) end;

  update app.webhook_endpoint w
  set disabled_at = at, disabled_reason = case when is_gone then 'gone' else 'failing' end, failing_since = null
  where w.id = of_endpoint and w.disabled_at is null
    and (is_gone or (first_failure is not null and w.failing_since < at - interval '5 days'))
  returning w.disabled_reason into reason;
  return reason;
end $$;

-- As in 006_jobs.sql, with the ids as values for the same reason.
create or replace function app.fail_undeliverable(batch int default 2000) returns int
language plpgsql security definer set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
declare
  ids uuid[];
  failed int;
begin
  select array_agg(d.id) into ids from (
    select d.id from app.webhook_endpoint w
    cross join lateral (
      select id from app.delivery where endpoint_id = w.id and status = 'pending' limit batch for update skip locked
    ) d
    where w.disabled_at is not null or w.deleted_at is not null
    limit batch
  ) d;
  update app.delivery d set status = 'failed', next_attempt_at = null, finished_at = clock_timestamp() where d.id = any(ids);
  get diagnostics failed = row_count;
  return failed;
end $$;
