-- What operators have done, and what Sluice's own checks found: accepted gaps, ranges that were read again, runs of the audit, the comparison of
-- every address with its chain, backups and drills, and when analysts' materialised views were computed.
--
-- Each table is a record of work and its progress; none of them decides about money. Writers and locks stand beside each.

-- Written by an operator's decision (app.accept_gap), before the chain is followed for the first time. Read by its indexer, and by `sluice status`.
create table app.accepted_gap (
  chain text primary key references app.chain,
  missing_from int,
  follow_from int not null check (follow_from > 0),
  accepted_by text not null,
  accepted_at timestamptz not null default clock_timestamp()
);
comment on table app.accepted_gap is 'Chains that an operator started at a later block than the first one that may pay to us. Payments below it are not seen.';
comment on column app.accepted_gap.missing_from is 'The first block that should have been read, and was not; null if unknown.';
comment on column app.accepted_gap.follow_from is 'The first block that is read: the gap ends below it.';
comment on column app.accepted_gap.accepted_by is 'Who accepted it: the user of the operating system, and the machine.';
comment on column app.accepted_gap.accepted_at is 'When it was accepted.';
grant select on app.accepted_gap to sluice_indexer;

-- Writer: `sluice reindex` (indexers/reindex.ts), as the owner, while the live indexer continues above. It reads blocks again and proves that they
-- are below our final block. It writes the differences (chain.correct_transfers, chain.correct_confirmed_txs), and its progress here, in one
-- transaction that holds chain.cursor. So it can be killed anywhere and resumed, and writes nothing if nothing is wrong.
create table app.reindex (
  id bigint primary key generated always as identity,
  chain text not null,
  from_height int not null,
  to_height int not null,
  next_height int not null,
  last_hash text,
  added int not null default 0,
  removed int not null default 0,
  changed int not null default 0,
  started_at timestamptz not null default clock_timestamp(),
  finished_at timestamptz
);
comment on table app.reindex is 'Ranges of final blocks that an operator had read again (sluice reindex), and the progress.';
comment on column app.reindex.id is 'Number of the run.';
comment on column app.reindex.from_height is 'Lowest block that is read again.';
comment on column app.reindex.to_height is 'Highest block that is read again.';
comment on column app.reindex.next_height is 'Everything from from_height up to the block below this one is done.';
comment on column app.reindex.last_hash is 'Hash of the block below next_height; null before the first one is done.';
comment on column app.reindex.added is 'Transfers and transactions of ours that the chain has and that were missing.';
comment on column app.reindex.removed is 'Transfers and transactions of ours that were stored and that the chain does not have there.';
comment on column app.reindex.changed is 'Transfers and transactions of ours whose stored data differed from the chain.';
comment on column app.reindex.started_at is 'When it began.';
comment on column app.reindex.finished_at is 'When it was done; null until then.';

-- Writers (app.begin_audit, app.finish_audit): the jobs worker once a day, or an operator by `sluice audit`. A check that finds something opens an
-- incident of the kind audit. Readers: operators, the metrics.
create table app.audit_run (
  id bigint primary key generated always as identity,
  started_at timestamptz not null default clock_timestamp(),
  finished_at timestamptz,
  error text
);
comment on table app.audit_run is 'A run of the audit: each day by the jobs worker, or by sluice audit. Kept for a year.';
comment on column app.audit_run.id is 'Number of the run.';
comment on column app.audit_run.started_at is 'When it began.';
comment on column app.audit_run.finished_at is 'When it ended; null while it runs, or if its process ended before.';
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
comment on column app.audit_finding.count is 'How many rows break it; 0 if all is right.';
comment on column app.audit_finding.found is 'The first ten of these rows. Amounts are strings.';

-- What the chains hold is compared with the ledger for every address that was handed out, also where nothing was ever seen: a missed payment is at
-- such an address. The worker goes through all of them once a day, some at a time, so that neither a node nor the database is asked for a million at
-- once (jobs/audit/compare.ts). Writers: the jobs worker; `sluice audit`, which compares all of them. Readers: the audit, the metrics.
--
-- Invariants: what app.chain_difference has of an address is what its newest comparison found. Every address that was handed out before since was
-- compared at or after that time. An incident of the kind audit is open on the chain's check while there are differences.
create table app.comparison (
  chain text primary key,
  created_at timestamptz not null default clock_timestamp(),
  began_at timestamptz not null default clock_timestamp(),
  position text default '',
  height int,
  compared bigint not null default 0,
  unread text,
  next_at timestamptz not null default clock_timestamp(),
  error text,
  since timestamptz,
  since_height int
);
comment on table app.comparison is 'The progress of comparing every address with the chain, and the age of the oldest comparison.';
comment on column app.comparison.created_at is 'When the chain was first compared.';
comment on column app.comparison.began_at is 'When the current or last pass over all addresses began.';
comment on column app.comparison.position is 'match_key of the last address that this pass compared; empty before the first, null when the pass has ended.';
comment on column app.comparison.height is 'The lowest final height at which this pass compared.';
comment on column app.comparison.compared is 'How many addresses this pass compared.';
comment on column app.comparison.unread is 'What this pass could not read, and why; null if it read everything.';
comment on column app.comparison.next_at is 'When the worker continues, so that it asks the node for no more than a quarter of the time.';
comment on column app.comparison.error is 'Why the chain could not be asked at the last try; null if it could.';
comment on column app.comparison.since is 'Every address that was handed out before this moment was compared at or after it; null before the first whole pass.';
comment on column app.comparison.since_height is 'The lowest final height at which the last whole pass compared.';
grant select on app.comparison to sluice_jobs;

create table app.chain_difference (
  chain text not null,
  address text not null,
  token text not null,
  outpoint text not null default '',
  ledger numeric not null,
  on_chain numeric not null,
  from_height int,
  handed_out_at timestamptz not null,
  found_at timestamptz not null default clock_timestamp(),
  primary key (chain, address, token, outpoint)
);
comment on table app.chain_difference is 'Addresses of ours that hold something else on the chain than in the ledger, as their newest comparison found it, twice in a row.';
comment on column app.chain_difference.outpoint is 'The output (txid:vout), on chains that have them; else empty.';
comment on column app.chain_difference.ledger is 'What it holds by the ledger, in base units.';
comment on column app.chain_difference.on_chain is 'What it holds on the chain, in base units.';
comment on column app.chain_difference.from_height is 'What the ledger is missing is in this block or above; null if that is not known.';
comment on column app.chain_difference.handed_out_at is 'When the address was handed out.';
comment on column app.chain_difference.found_at is 'When it was found.';

-- Writers: app.note_backup and app.note_drill, each at its end. Readers: the metrics. The copies contain this table, too: a restored database does
-- not know later ones.
create table app.backup_run (
  id bigint primary key generated always as identity,
  kind text not null check (kind in ('backup', 'drill')),
  finished_at timestamptz not null default clock_timestamp(),
  made_with text not null,
  error text,
  check (kind = 'drill' or error is null)
);
comment on table app.backup_run is 'Backups of this database that were finished, and drills: rehearsals of a loss.';
comment on column app.backup_run.id is 'Number of the run.';
comment on column app.backup_run.kind is 'backup or drill.';
comment on column app.backup_run.finished_at is 'When it ended.';
comment on column app.backup_run.made_with is 'The tool: sluice backup, sluice drill, or what the caller of app.note_backup named.';
comment on column app.backup_run.error is 'For a drill, the step that failed, and why; null if all of them succeeded.';

-- A row for each materialised view, inserted beside the view. app.refresh_analytics, which the jobs worker calls, writes it. A view shows one
-- moment, and never a part of a transaction. Readers: analytics.freshness.
create table app.analytics_refresh (
  view_name text primary key,
  refreshed_at timestamptz,
  took_seconds double precision,
  due_at timestamptz not null default '-infinity',
  failed_at timestamptz,
  error text
);
comment on table app.analytics_refresh is 'The materialised views of analytics: the moment that each shows, and when it is computed again.';
comment on column app.analytics_refresh.view_name is 'Name of the view.';
comment on column app.analytics_refresh.refreshed_at is 'It shows what was committed at this moment; null before the first time.';
comment on column app.analytics_refresh.took_seconds is 'How long it took to compute.';
comment on column app.analytics_refresh.due_at is 'When it is computed again: the longer it takes, the later.';
comment on column app.analytics_refresh.failed_at is 'When computing it failed; null if it succeeded the last time.';
comment on column app.analytics_refresh.error is 'Why it failed.';
