-- Roles and schemas. One role per process, with the least it needs; the login passwords are set by db/migrate.ts.
--
--   sluice_indexer   writes chain.* and its state schemas, reads the addresses it must match
--   sluice_api       reads views, changes things through functions only
--   sluice_jobs      owns graphile_worker; delivers webhooks, folds balances
--   sluice_custody   fills the address pool
--   sluice_analyst   reads the schema analytics and nothing else
--
-- Roles belong to the whole server, so they may exist already (another database of the same server made them).

do $$
declare role_name text;
begin
  foreach role_name in array array['sluice_indexer', 'sluice_api', 'sluice_jobs', 'sluice_custody', 'sluice_analyst'] loop
    begin
      execute format('create role %I login', role_name);
    exception when duplicate_object or unique_violation then null; -- made before, or by a migration running beside this one
    end;
  end loop;
end $$;

create schema chain;
comment on schema chain is 'What the indexers saw on the chains. Written by the indexers only; every row is undone when its block leaves the chain.';
create schema app;
comment on schema app is 'Merchants, users, deposits, balances, events and webhooks: what follows from the chains, and what merchants asked for.';
create schema analytics;
comment on schema analytics is 'Views for data analysts: stable names, exact decimal amounts, times in UTC.';

alter default privileges revoke execute on functions from public;
grant usage on schema chain to sluice_indexer, sluice_api, sluice_jobs;
grant usage on schema app to sluice_indexer, sluice_api, sluice_jobs, sluice_custody;
grant usage on schema analytics to sluice_analyst;
alter role sluice_analyst set default_transaction_read_only = on;
alter role sluice_analyst set statement_timeout = '60s';
