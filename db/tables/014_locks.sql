-- No role may take an advisory lock of its own choice any more, because a lock has no owner: with the right to take one, the API could hold the lock of
-- custody, and no payout would be signed. Each role may take only the locks of its own work (db/functions/operations/locks.sql). Only a superuser can
-- take these rights away; any other owner keeps a server as PostgreSQL makes it, and gets warnings.
do $$
declare function_name regprocedure;
begin
  for function_name in
    select oid from pg_proc where pronamespace = 'pg_catalog'::regnamespace and proname ~ '^pg_(try_)?advisory_'
    order by oid::regprocedure::text
  loop
    execute format('revoke execute on function %s from sluice_indexer, sluice_api, sluice_jobs, sluice_custody', function_name);
  end loop;
exception when insufficient_privilege then null;
end $$;
