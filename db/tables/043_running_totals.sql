-- Statements read the movements of a merchant's balance by their time, and the deposits of a movement.
drop index concurrently if exists app.ledger_entry_statement;

create index concurrently ledger_entry_statement on app.ledger_entry (merchant_id, chain, token, created_at, id) where account = 'merchant';

drop index concurrently if exists app.deposit_finalisation;

create index concurrently deposit_finalisation on app.deposit (merchant_id, chain, token, finalisation, seq) where status = 'final' and credited;
-- Transaction
-- What each merchant received, was paid and had at any quarter of an hour, and what became of its payment requests and webhooks: charts, statements and
-- past balances read these rows, a few for each date, however much there is below them.
--
-- app.running_total is cumulative: the row of a series with the greatest until at or before a moment is everything that happened before that moment, so
-- a period is the difference of two rows. What is not folded yet is in app.total_change, written in the transaction that causes it (triggers on
-- app.ledger_entry and app.balance_delta, and the functions that finalise deposits, record attempts and refresh payment requests). app.fold_totals moves
-- it, in the background. Readers add both (app.total_at).
--
-- Invariants: for each merchant, chain and token the series of money add up to the balance, as the ledger does (audit.running_totals). A change has the
-- time of the entry of the ledger that it is of; all that one transaction changes has one time.
-- Locks: folding and the filling of what was before take one advisory lock, app.fold_totals.

create table app.running_total (
  merchant_id uuid not null,
  series text not null,
  about text not null,
  until timestamptz not null,
  count bigint not null,
  amount numeric not null,
  primary key (merchant_id, series, about, until)
);
comment on table app.running_total is 'Cumulative totals of each merchant by quarter of an hour, without the changes that are not folded yet. Read app.total_at.';
comment on column app.running_total.series is 'deposit, deposit_lost, payout, fee, adjustment: how much each changed the balance. balance, held_back: what there was, and how many deposits that is. seen_to_final: deposits that became final, and for how many milliseconds they were seen before. requests: payment requests by status. delivered, undelivered: ended deliveries, and how many milliseconds they took.';
comment on column app.running_total.about is 'What it is about: CHAIN:TOKEN for money; else a chain, a status, or the id of an endpoint.';
comment on column app.running_total.until is 'End of a quarter of an hour: everything before it counts.';
comment on column app.running_total.count is 'How many, since the beginning.';
comment on column app.running_total.amount is 'Base units or milliseconds, since the beginning.';

create table app.total_change (
  id bigint primary key generated always as identity,
  merchant_id uuid not null,
  series text not null,
  about text not null,
  at timestamptz not null,
  count bigint not null,
  amount numeric not null
);
create index total_change_series on app.total_change (merchant_id, series, about);
comment on table app.total_change is 'Changes of app.running_total that are not folded yet.';
comment on column app.total_change.series is 'As in app.running_total.';
comment on column app.total_change.about is 'As in app.running_total.';
comment on column app.total_change.at is 'When it happened.';
comment on column app.total_change.count is 'How many more; below zero: fewer.';
comment on column app.total_change.amount is 'How much more, in base units or milliseconds.';

-- Of a database that was there before: what the ledger had, which is read from its entries in batches.
create table app.total_backfill (
  is_only boolean primary key default true check (is_only),
  done_up_to bigint not null,
  last_entry bigint not null,
  since timestamptz not null
);
comment on table app.total_backfill is 'How far the totals were filled from the ledger that was there before them. One row.';
comment on column app.total_backfill.is_only is 'Always true, so that there is one row.';
comment on column app.total_backfill.done_up_to is 'The entries up to this id are in the totals.';
comment on column app.total_backfill.last_entry is 'The last entry that was there before; 0 if there was none.';
comment on column app.total_backfill.since is 'Since when all series are kept; before, only those of the ledger are known.';

-- A deposit that was taken back is no longer part of the finalisation that the ledger names. A deposit may be taken back more than
-- once.
create table app.taken_back (
  deposit_id uuid not null,
  merchant_id uuid not null,
  chain text not null,
  token text not null,
  finalisation bigint not null,
  amount numeric(78, 0) not null,
  primary key (merchant_id, chain, token, finalisation, deposit_id)
);
comment on table app.taken_back is 'Credited deposits that were final, and were taken back: what they were final by.';
comment on column app.taken_back.finalisation is 'The number that the deposit had (app.deposit.finalisation).';
comment on column app.taken_back.amount is 'What it had then, in base units: it may come back with another amount.';

lock table app.merchant, chain.daily_blocks in access exclusive mode;
-- So that what is held can be compared with a chain as it was.
alter table chain.daily_blocks add column final_height int;
comment on column chain.daily_blocks.final_height is 'The final height at the end of the day, or now; null of a day from before this was noted.';

alter table app.merchant add column time_zone text not null default 'UTC';
comment on column app.merchant.time_zone is 'In which the dashboard shows times and takes days, by its name in the IANA database.';
