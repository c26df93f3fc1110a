-- The audit: what must always hold. Each check is a view of the schema audit, which is empty if all is right. The worker runs the checks once a day,
-- `sluice audit` whenever an operator asks: app.begin_audit, app.audit_checks, and app.finish_audit with the findings of these and the other checks.
--
-- Promises: the checks all see one moment, that of the caller's transaction. A check that finds something opens an incident, which halts no chain,
-- or updates the open one; a check that finds nothing closes it. A finding that an operator decided to keep stays silent as long as the check finds
-- exactly the same.
-- Runs are kept for a year.
-- Locks: an advisory lock (app.finish_audit), so that incidents of the audit are opened and closed one after the other.

-- Not due before there is something to check. A run whose process died is repeated after an hour.
create or replace function app.audit_is_due() returns boolean
language sql stable security definer set search_path = pg_catalog as $$
  select (select min(m.applied_at) from public.sluice_migration m) < clock_timestamp() - interval '10 minutes'
    and not exists (select from app.audit_run r
      where r.finished_at > clock_timestamp() - interval '1 day' or r.started_at > clock_timestamp() - interval '1 hour')
$$;
comment on function app.audit_is_due is 'Whether an audit is due: the last one is a day ago.';
grant execute on function app.audit_is_due to sluice_jobs;

create or replace function app.begin_audit() returns bigint
language sql security definer set search_path = pg_catalog as $$
  delete from app.audit_run r where r.started_at < clock_timestamp() - interval '1 year';
  insert into app.audit_run default values returning id
$$;
comment on function app.begin_audit is 'Notes that an audit begins; returns the number of the run.';
grant execute on function app.begin_audit to sluice_jobs;

-- Numbers in findings are strings, because amounts are larger than JSON readers can hold.
create or replace function app.audit_checks() returns table (name text, claim text, count bigint, found jsonb)
language plpgsql stable security definer set search_path = pg_catalog as $$
declare view record;
begin
  for view in
    select c.relname, obj_description(c.oid, 'pg_class') as claim from pg_class c
    where c.relnamespace = 'audit'::regnamespace and c.relkind = 'v' order by c.relname
  loop
    return query execute format('with wrong as materialized (select to_jsonb(w) as row from audit.%I w)
      select $1, $2, (select count(*) from wrong), coalesce((
        select jsonb_agg((select jsonb_object_agg(key, case jsonb_typeof(value) when ''number'' then to_jsonb(value #>> ''{}'') else value end)
          from jsonb_each(first.row))) from (select row from wrong order by row::text limit 10) first), ''[]'')', view.relname)
    using view.relname::text, view.claim;
  end loop;
end $$;
comment on function app.audit_checks is 'Runs every check of the schema audit: what must hold, how many rows break it, and the first ten of them.';
grant execute on function app.audit_checks to sluice_jobs;

create or replace function app.finish_audit(of_run bigint, findings jsonb, error text) returns void
language plpgsql security definer set search_path = pg_catalog as $$
begin
  perform pg_advisory_xact_lock(hashtextextended('app.finish_audit', 0));
  insert into app.audit_finding (run_id, name, claim, count, found)
  select of_run, f.name, f.claim, f.count, f.found from jsonb_to_recordset(findings) as f (name text, claim text, count bigint, found jsonb);
  update app.audit_run r set finished_at = clock_timestamp(), error = finish_audit.error where r.id = of_run;
  perform app.tell_finding(f.name, f.claim, f.count, f.found) from app.audit_finding f where f.run_id = of_run order by f.name;
end $$;
comment on function app.finish_audit is 'Stores what an audit found ([{"name", "claim", "count", "found"}, ...]), and opens, updates or closes the incidents that follow from it. error: what could not be checked, and why.';
grant execute on function app.finish_audit to sluice_jobs;

create or replace function app.tell_finding(name text, claim text, count bigint, what jsonb) returns void
language plpgsql set search_path = pg_catalog as $$
declare
  told constant text := 'audit:' || name;
  seen jsonb := jsonb_build_object('claim', claim, 'count', count, 'found', what);
  last app.incident;
begin
  seen := seen || coalesce((select jsonb_build_object('address', f.row -> 'address', 'missing', (f.row ->> 'missing') || ' ' || (f.row ->> 'token'),
    'run', f.row -> 'run') from jsonb_array_elements(what) with ordinality f (row, n) where f.row ? 'run' order by f.n limit 1), '{}');
  perform pg_advisory_xact_lock(hashtextextended('app.finish_audit', 0));
  select * into last from app.incident i where i.kind = 'audit' and i.subject = told order by i.resolved_at is null desc, i.id desc limit 1;
  if last.id is not null and last.resolved_at is null then
    update app.incident i set details = case when count > 0 then seen else i.details end,
      resolved_at = case when count = 0 then clock_timestamp() end, resolution = case when count = 0 then 'healed' end
    where i.id = last.id;
  elsif count > 0 and (last.resolution = 'kept' and last.details - 'claim' = seen - 'claim') is not true then
    insert into app.incident (chain, kind, subject, details) values (null, 'audit', told, seen);
  end if;
end $$;
comment on function app.tell_finding is 'Opens, updates or closes the incident of one check by what it found. If a command repairs what was found, the incident names it.';

