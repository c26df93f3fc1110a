-- Roles and schemas: one role for each kind of process, with the fewest rights that it needs.
--
--   sluice_indexer   writes chain.* and the store's schemas (squid_<chain>), reads the addresses that it looks for
--   sluice_api       reads tables and views, changes things through functions only
--   sluice_jobs      takes payouts and webhooks step by step, through functions, and works through the queue of graphile_worker
--   sluice_custody   fills the address pool, writes its journal, and reads what it decides by
--   sluice_analyst   reads the schema analytics and nothing else
--
-- Everything belongs to the owner, who migrates and runs the command line. A role's rights to a table, function or view are granted where that
-- object is defined. db/migrate.ts sets passwords and limits of connections. It also sets the analyst's settings back to those here, because a role
-- may change its own settings.
--
-- Roles belong to the whole server, so they may exist already: another database of the same server made them.

do $$
declare role_name text;
begin
  foreach role_name in array array['sluice_indexer', 'sluice_api', 'sluice_jobs', 'sluice_custody', 'sluice_analyst'] loop
    begin
      execute format('create role %I login', role_name);
    exception when duplicate_object or unique_violation then null; -- made before, or by a migration that runs at the same time
    end;
  end loop;
end $$;

-- Every function grants its own execute rights.
alter default privileges revoke execute on functions from public;

create schema chain;
comment on schema chain is 'What the indexers see on the chains, and where each chain stands. A row about a block is deleted when the block leaves the chain.';
grant usage on schema chain to sluice_indexer, sluice_api, sluice_jobs, sluice_custody;

create schema app;
comment on schema app is 'Merchants, users, deposits, payouts, balances, events and webhooks: what follows from the chains, and what merchants asked for.';
grant usage on schema app to sluice_indexer, sluice_api, sluice_jobs, sluice_custody;

create schema custody;
comment on schema custody is 'What custody holds: addresses and their owners, the journal of what it signed, and the whitelist of destinations.';
grant usage on schema custody to sluice_custody, sluice_indexer, sluice_api, sluice_jobs;

create schema audit;
comment on schema audit is 'Invariants: a view for each check, empty when all is right; its comment is the claim. Read by the owner, and by app.audit_checks for every audit.';

-- Its views run with the rights of their owner, so the analyst needs no rights to the tables below them. Invariants: an amount is the exact decimal
-- number of coins (numeric, no rounding), and ..._base_units beside it the integer that the chain knows; a time is an instant (timestamptz) and a
-- day is a day in UTC, whatever time zone the session has; ids are those of the API; no secret, key, webhook address, token of a payment page or
-- hash of one is reachable; no statement reads all of app.deposit unless it asks for all of it.
create schema analytics;
comment on schema analytics is 'Views for data analysts: stable names, exact decimal amounts, times in UTC.';
grant usage on schema analytics to sluice_analyst;

-- The API's statements are made so that one plan suits all values: planning each anew cost more than running it (measured). That plan must not
-- depend on how many rows an average merchant has: pages come from the index that has their order, never from sorting what the busiest merchant
-- owns. A statement that runs longer than this timeout is a mistake.
alter role sluice_api set plan_cache_mode = force_generic_plan;
alter role sluice_api set enable_sort = off;
alter role sluice_api set jit = off;
alter role sluice_api set statement_timeout = '10s';

-- Guards against a mistake, which the analyst can lift for a session: read only, a statement timeout, and no idle open transaction, because one
-- keeps dead rows from being removed.
alter role sluice_analyst set default_transaction_read_only = on;
alter role sluice_analyst set statement_timeout = '60s';
alter role sluice_analyst set idle_in_transaction_session_timeout = '60s';
alter role sluice_analyst set timezone = 'UTC';
alter role sluice_analyst set search_path = analytics;

-- What every role may do in PostgreSQL unless the right is taken away: hold an advisory lock, which would stop an indexer, a sequencer or a
-- migration; wake listeners with false notifications; write large objects; fill the disk with a sort. Only a superuser can take these rights away;
-- any other owner gets warnings. (The command NOTIFY needs no right: docs/database.md.)
do $$
declare function_name regprocedure;
begin
  for function_name in
    select oid from pg_proc where pronamespace = 'pg_catalog'::regnamespace
      and proname ~ '^(pg_(try_)?advisory_|pg_notify$|lo_(creat|create|from_bytea|import|put|unlink|truncate|truncate64)$|lowrite$)'
    order by oid::regprocedure::text
  loop
    execute format('revoke execute on function %s from public', function_name);
    if function_name::text ~ 'advisory|notify' then
      execute format('grant execute on function %s to sluice_indexer, sluice_api, sluice_jobs, sluice_custody', function_name);
    end if;
  end loop;
  alter role sluice_analyst set temp_file_limit = '10GB';
exception when insufficient_privilege then null;
end $$;
