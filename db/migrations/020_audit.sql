-- The audit: what must always hold, as views that find what breaks it, and what was found when.
--
-- Writers: whoever audits, through app.begin_audit and app.finish_audit: the jobs worker once a day, an operator by the command line. Readers:
-- operators, metrics.

create table app.audit_run (
  id bigint primary key generated always as identity,
  started_at timestamptz not null default clock_timestamp(),
  finished_at timestamptz,
  error text
);
comment on table app.audit_run is 'A run of the audit: each day by the jobs worker, or by sluice audit. Kept for a year.';
comment on column app.audit_run.id is 'Number of the run.';
comment on column app.audit_run.started_at is 'When it began.';
comment on column app.audit_run.finished_at is 'When it ended; null while it runs, or where the process that did it ended before.';
comment on column app.audit_run.error is 'What could not be checked, and why; null if everything was.';

create table app.audit_finding (
  run_id bigint not null references app.audit_run on delete cascade,
  name text not null,
  claim text not null,
  count bigint not null check (count >= 0),
  found jsonb not null default '[]',
  primary key (run_id, name)
);
comment on table app.audit_finding is 'What each check of a run found. A check that could not be done has no row; the run says why.';
comment on column app.audit_finding.run_id is 'The run.';
comment on column app.audit_finding.name is 'Name of the check.';
comment on column app.audit_finding.claim is 'What must hold.';
comment on column app.audit_finding.count is 'How many things break it; 0 if all is right.';
comment on column app.audit_finding.found is 'The first ten of them. Amounts are strings.';

-- An incident that concerns no single chain halts nobody.
alter table app.incident alter column chain drop not null;
comment on column app.incident.chain is 'Chain code; null if it concerns no single chain, and then nothing waits for it.';
comment on column app.incident.kind is 'final_deposit_vanished, final_deposit_moved, final_deposit_changed, payment_replaced, fork_below_final, unknown_transaction, final_payment_vanished, payment_of_failed_payout, journal_ahead or audit.';
comment on column app.incident.subject is 'The id of the deposit or of the spend, <chain>:<txid>, the chain, or audit:<check>.';

-- How long the treasury can pay network fees --------------------------------------------------------------------------------------------------

create index ledger_entry_network_fee on app.ledger_entry (chain, created_at) include (amount) where account = 'treasury' and kind = 'network_fee';

create function app.gas_left_days(of_chain text) returns double precision
language sql stable security definer set search_path = pg_catalog as $$
  select (greatest(app.operator_funds(of_chain, app.native_token(of_chain)), 0) / nullif(-sum(e.amount), 0) * 7)::double precision
  from app.ledger_entry e
  where e.account = 'treasury' and e.kind = 'network_fee' and e.chain = of_chain and e.created_at > now() - interval '7 days'
$$;
comment on function app.gas_left_days is 'For how many days the operator''s own native coins in a treasury last, at what network fees took from it in the last 7 days; null if they took nothing.';
