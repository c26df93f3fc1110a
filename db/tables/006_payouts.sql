-- Payouts: what a merchant claimed of its balance, and the progress of paying it.
--
-- Steps:
--   1. the API claims (app.create_payout): the whole balance of a (merchant, chain, token), and the finalisation number up to which deposits belong
--      to it, read in one statement, so both are of one moment; payout, claim, negative balance delta and posting in one transaction;
--   2. allocation writes the payout into its deposits (app.allocate_deposits): the first hundred in the same transaction, the rest by a job;
--   3. the worker takes one step at a time: pending, sweeping, swept; the payment's first signed attempt makes it paying;
--   4. finality makes it completed, or failed with proof from the chain. Before paying, the worker, the merchant or an operator can fail it;
--   5. a payout that failed is released: its balance is back at once, its deposits and adjustments follow (a claim of kind release).
-- Readers: the API, the worker, custody (which signs what a row here says, after checking it against its own journal), analysts through views.
--
-- Claims and releases of a pair (merchant, chain, token) are carried out strictly in the order in which they changed the balance. So each finds
-- exactly the deposits that were in its sum. An allocation that does not match the sum stops with an error.
--
-- Invariants: a status changes only as the contract allows, completed and failed are for ever, and no payout is deleted (triggers refuse the rest).
-- There is one event for each of the two. gross = the sum of the deposits and adjustments that are allocated to the payout, once allocation is done;
-- gross = fee + net.
-- Locks, always in this order: chain.cursor, payout, treasury (app.lock_treasury), sender, outgoing payment, pair and then allocation (advisory),
-- deposits.

create table app.payout (
  id uuid primary key default uuidv7(),
  seq bigint not null generated always as identity,
  merchant_id uuid not null references app.merchant,
  chain text not null,
  token text not null,
  status text not null default 'pending' check (status in ('pending', 'sweeping', 'swept', 'paying', 'completed', 'failed')),
  gross numeric(78, 0) not null check (gross > 0),
  fee_bps int not null,
  fee numeric(78, 0) not null check (fee >= 0),
  net numeric(78, 0) not null check (net > 0),
  address text not null,
  sweep_first boolean not null,
  txid text,
  network_fee numeric(78, 0) not null default 0,
  error_code text,
  error_message text,
  waiting_reason text,
  waiting_detail text,
  waiting_since timestamptz,
  next_step_at timestamptz default clock_timestamp(),
  created_at timestamptz not null default clock_timestamp(),
  sweeping_at timestamptz,
  swept_at timestamptz,
  paying_at timestamptz,
  finished_at timestamptz,
  check (gross = fee + net)
);
create index payout_page on app.payout (merchant_id, status, chain, token, seq desc);
-- What is due (app.due_job).
create index payout_open on app.payout (next_step_at) where status not in ('completed', 'failed');
-- Counted for the metrics.
create index payout_failed on app.payout (chain) where status = 'failed';
comment on table app.payout is 'A payout (settlement): the balance of a merchant''s chain and token, on its way to the merchant.';
comment on column app.payout.id is 'Id; shown as pay_ and 32 hex digits.';
comment on column app.payout.seq is 'Order of creation, for pages.';
comment on column app.payout.status is 'pending, sweeping, swept, paying, completed or failed.';
comment on column app.payout.gross is 'The balance that was claimed, in base units.';
comment on column app.payout.fee_bps is 'The merchant''s fee rate at that moment.';
comment on column app.payout.fee is 'Service fee: gross * fee_bps / 10000, rounded down.';
comment on column app.payout.net is 'What is paid: gross - fee.';
comment on column app.payout.address is 'Where it is paid to; a later change of the payout address does not change it.';
comment on column app.payout.sweep_first is 'True if every claimed address that still holds funds is swept before anything is paid.';
comment on column app.payout.txid is 'The transaction that paid it; null until that is final.';
comment on column app.payout.network_fee is 'Network fees of the payment and of the sweeps made for it, in the native coin''s base units. The operator bears them.';
comment on column app.payout.error_code is 'Why it failed, for programs; null unless it did.';
comment on column app.payout.error_message is 'Why it failed, for people; null unless it did.';
comment on column app.payout.waiting_reason is 'What it waits for, if its next step could not be taken; null while it moves.';
comment on column app.payout.waiting_detail is 'More about that, for the operator.';
comment on column app.payout.waiting_since is 'Since when it waits for that.';
comment on column app.payout.next_step_at is 'When its next step is tried again, if nothing wakes it before; null while its payment continues by itself, and once it has ended.';
comment on column app.payout.created_at is 'When it was requested.';
comment on column app.payout.sweeping_at is 'When it became sweeping; null if it never did.';
comment on column app.payout.swept_at is 'When it became swept; null if it never did.';
comment on column app.payout.paying_at is 'When it became paying; null if it never did.';
comment on column app.payout.finished_at is 'When it was completed or failed; null before.';
grant select on app.payout to sluice_api, sluice_custody, sluice_jobs;

create table app.claim (
  id bigint primary key generated always as identity,
  kind text not null check (kind in ('claim', 'release')),
  payout_id uuid not null references app.payout,
  merchant_id uuid not null,
  chain text not null,
  token text not null,
  cutoff bigint not null,
  deposit_count bigint not null,
  amount numeric(78, 0) not null,
  done_count bigint not null default 0,
  done_amount numeric(78, 0) not null default 0,
  last_finalisation bigint not null default -1,
  last_seq bigint not null default -1,
  created_at timestamptz not null default clock_timestamp(),
  finished_at timestamptz,
  unique (payout_id, kind)
);
create index claim_open on app.claim (merchant_id, chain, token, id) where finished_at is null;
comment on table app.claim is 'Allocation that payouts asked for: a claim gives deposits to a payout, a release gives them back. Carried out in order, for each merchant, chain and token.';
comment on column app.claim.id is 'Order in which the balance changed.';
comment on column app.claim.kind is 'claim or release.';
comment on column app.claim.merchant_id is 'Its merchant.';
comment on column app.claim.chain is 'Its chain.';
comment on column app.claim.token is 'Its token.';
comment on column app.claim.cutoff is 'Deposits that became final later than at this finalisation number do not belong to it.';
comment on column app.claim.deposit_count is 'How many deposits it covers.';
comment on column app.claim.amount is 'The sum of these deposits, in base units.';
comment on column app.claim.done_count is 'How many deposits are done.';
comment on column app.claim.done_amount is 'The sum of the deposits that are done.';
comment on column app.claim.last_finalisation is 'Finalisation number of the last deposit that was done.';
comment on column app.claim.last_seq is 'seq of the last deposit that was done.';
comment on column app.claim.created_at is 'When it was requested.';
comment on column app.claim.finished_at is 'When it was done; null before.';
grant select on app.claim to sluice_jobs;

create table app.adjustment (
  id uuid primary key default uuidv7(),
  merchant_id uuid not null references app.merchant,
  chain text not null,
  token text not null,
  amount numeric(78, 0) not null check (amount <> 0),
  deposit_id uuid,
  reason text not null,
  settlement_id uuid,
  created_at timestamptz not null default clock_timestamp()
);
-- What the next payout of the pair claims.
create index adjustment_unpaid on app.adjustment (merchant_id, chain, token) where settlement_id is null;
create index adjustment_deposit on app.adjustment (deposit_id);
-- The debts of payouts whose deposits are not known: whenever deposits become final, the search is repeated.
create index adjustment_recovered on app.adjustment (merchant_id, chain, token) where reason = 'payout_recovered' and settlement_id is null;
comment on table app.adjustment is 'Debts of merchants, and what cancels them: for a deposit that was lost after a payout had claimed it, or for a payout that an older copy of the database had forgotten. The next payout claims them with the deposits.';
comment on column app.adjustment.amount is 'Change of the balance: below zero for a debt.';
comment on column app.adjustment.deposit_id is 'The deposit that was lost, or came back; null if it is about a payout.';
comment on column app.adjustment.reason is 'deposit_lost; deposit_back: it became final again; payout_failed: the payout that had claimed it gave it back; payout_recovered and paid_after_all: a payout that an older copy of the database had forgotten, or given up.';
comment on column app.adjustment.settlement_id is 'The payout that claimed it; null until then.';
comment on column app.adjustment.created_at is 'When it was made.';
grant select on app.adjustment to sluice_jobs;
