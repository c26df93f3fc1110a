-- Deposits, balances and incidents: what follows for merchants from the chains.
--
-- Life of a deposit:
--   1. chain.derive_deposits, at COMMIT of each transaction that touched a transfer: a new deposit is pending, a vanished one is reorged,
--      one that is back is pending again;
--   2. at or below the final height it is final (chain.finalise_deposits), which writes the balance, the ledger and the event with it;
--   3. a payout claims it; its row is allocated to the payout afterwards (app.allocate_deposits), or given back when the payout fails;
--   4. only an operator takes a final one back (app.resolve_incident), or credits one that was unattributed (app.credit_unattributed);
--   5. if an older copy of the database was restored, forgotten payouts get their deposits again (app.find_recovered_deposits).
-- Each change of the balance is a row in app.balance_delta, written with its cause; app.fold_balances adds them to app.balance in the background.
-- One row per balance that every writer updates was measured at a quarter of the rate.
-- Readers: the API, through app.deposit and app.balance_now; the worker; analysts through views.
--
-- Invariants:
--   * one deposit for each (chain, txid, output_index, address, token), never deleted, never another id. Of those with the same chain, txid and
--     output_index at most one is not reorged. (Address and token are part of the identity because a contract call that runs again in another block
--     can pay another address, or another token, at the same position.)
--   * version counts the changes of status (an operator's crediting is one); each change of a user's credited deposit makes exactly one event;
--   * pending -> final only at or below the final height of the chain; a final deposit never changes by itself: a difference opens an incident;
--   * app.balance_now = the sum over final, credited deposits that no payout has claimed, and adjustments, at every moment (app.balance_audit is
--     empty).
-- Locks, always in this order: chain.cursor, the locks that 006_payouts.sql names, deposits, then payment requests or incidents.

create table app.deposit (
  id uuid primary key,
  seq bigint not null generated always as identity,
  merchant_id uuid,
  user_id uuid,
  chain text not null,
  token text not null,
  amount numeric(78, 0) not null,
  sender text not null,
  address text not null,
  txid text not null,
  output_index int not null,
  block_height int,
  block_hash text,
  status text not null check (status in ('pending', 'final', 'reorged')),
  credited boolean not null,
  version int not null,
  settlement_id uuid,
  created_at timestamptz not null default clock_timestamp(),
  finalised_at timestamptz,
  finalisation bigint,
  payment_request_id uuid,
  came_at timestamptz,
  settled_before_restore boolean not null default false,
  position numeric(38, 0) not null generated always as
    ((extract(epoch from created_at - timestamptz '1970-01-01 00:00:00+00') * 1000000)::bigint * 9223372036854775808 + seq) stored,
  unique (txid, output_index, chain, address, token),
  constraint nobody_is_not_credited check (not credited or merchant_id is not null)
);
create index deposit_pending on app.deposit (chain, block_height) where status = 'pending';
-- Final, unclaimed deposits, in the order in which claims allocate them; sums come from the index alone.
create index deposit_unpaid on app.deposit (merchant_id, chain, token, finalisation, seq) include (amount)
  where status = 'final' and credited and settlement_id is null;
create index deposit_uncredited on app.deposit (chain, seq desc) where not credited;
-- The deposits of a payout, and the order in which a payout that fails gives them back.
create index deposit_settlement on app.deposit (settlement_id, seq) where settlement_id is not null;
-- A merchant's days, for analysts.
create index deposit_created on app.deposit (merchant_id, created_at) where credited;
create index deposit_payment_request on app.deposit (payment_request_id) where payment_request_id is not null;
-- The API's pages, without the receipts of payment requests: a merchant's deposits, and those of each status, chain and token, of a merchant or a user.
create index deposit_page on app.deposit (merchant_id, position desc) where credited and user_id is not null;
create index deposit_part_page on app.deposit (merchant_id, chain, token, status, position desc)
  where credited and user_id is not null;
create index deposit_user_page on app.deposit (user_id, chain, token, status, position desc)
  where credited and user_id is not null;
-- What waits for an operator, counted for the metrics. There is little of it.
create index deposit_unattributed on app.deposit (chain) where status = 'final' and not credited and merchant_id is not null;
-- The same by address: the unattributed value that an address holds.
create index deposit_unattributed_address on app.deposit (chain, address) where status = 'final' and not credited and merchant_id is not null;
comment on table app.deposit is 'Value that reached an address of ours. Credited ones are deposits of a merchant''s users, or receipts of its payment requests. The others are unattributed (a token or a chain that was not asked for, or what a chain''s rules paid) or, at a treasury, the operator''s own.';
comment on column app.deposit.id is 'Id, computed from what the deposit is (app.deposit_id), so that it is the same when the chain is read into an older copy of the database; shown as dep_ and 32 hex digits.';
comment on column app.deposit.seq is 'Order in which deposits were first seen, within a moment.';
comment on column app.deposit.merchant_id is 'The merchant that has the address; null for a treasury.';
comment on column app.deposit.user_id is 'The user that has the address; null for the address of a payment request or a treasury.';
comment on column app.deposit.token is 'Token code; a contract address if the token is not supported.';
comment on column app.deposit.amount is 'Amount in base units.';
comment on column app.deposit.sender is 'Where the value came from.';
comment on column app.deposit.output_index is 'Position inside the transaction (see chain.transfer).';
comment on column app.deposit.block_height is 'Block that holds it, or last held it; null while it is in none.';
comment on column app.deposit.block_hash is 'Hash of that block; null while it is in none.';
comment on column app.deposit.status is 'pending: in a block that may still leave the chain, or unconfirmed. final: counts. reorged: its block left the chain, or it will never be in one.';
comment on column app.deposit.credited is 'True if it counts for the merchant; decided when it is first seen, or by an operator afterwards.';
comment on column app.deposit.version is 'Number of changes of status so far; an operator''s crediting is one, too.';
comment on column app.deposit.settlement_id is 'The payout that collected it; null until then.';
comment on column app.deposit.created_at is 'When it was first seen.';
comment on column app.deposit.finalised_at is 'When it became final; null while it is not.';
comment on column app.deposit.finalisation is 'Number, on its chain, of the time at which it became final, or was credited by an operator; null before. A payout claims up to a number.';
comment on column app.deposit.payment_request_id is 'The payment request that has the address; null for the address of a user or a treasury.';
comment on column app.deposit.came_at is 'For what reached a payment request''s address: when it was first seen, or the time of a block that holds or held it, whichever is earlier; null for others.';
comment on column app.deposit.position is 'Place in lists, so that a range of times is a range of an index: the microsecond of created_at, times 2^63, plus seq.';
comment on column app.deposit.settled_before_restore is 'True if a payout that an older copy of the database had forgotten covers it, and it is unknown which deposits that payout collected: the balance no longer includes it.';
grant select on app.deposit to sluice_api;

create table app.balance_delta (
  id bigint primary key generated always as identity,
  merchant_id uuid not null,
  chain text not null,
  token text not null,
  amount numeric(78, 0) not null,
  deposit_count int not null
);
create index balance_delta_pair on app.balance_delta (merchant_id, chain, token);
comment on table app.balance_delta is 'Changes of balances that are not folded into app.balance yet. Written with the change that causes them.';
comment on column app.balance_delta.id is 'Order of insertion.';
comment on column app.balance_delta.amount is 'Change of the gross balance, in base units.';
comment on column app.balance_delta.deposit_count is 'Change of the number of unsettled final deposits.';

create table app.balance (
  merchant_id uuid not null,
  chain text not null,
  token text not null,
  amount numeric(78, 0) not null,
  deposit_count bigint not null,
  primary key (merchant_id, chain, token)
);
comment on table app.balance is 'Folded balances; without app.balance_delta they are not complete. Read app.balance_now.';
comment on column app.balance.amount is 'Gross balance in base units, without the changes that are not folded yet.';
comment on column app.balance.deposit_count is 'Unsettled final deposits, without the changes that are not folded yet.';

-- The kinds of incidents, and the way out of each. This is the only place that defines them. sluice incident and status, /readyz, the indexers,
-- custody and the functions that refuse a wrong command read it from here (app.open_incident, app.refuse_decision), and a test compares
-- docs/operations.md with it. A kind without a row cannot be opened.
create table app.incident_kind (
  kind text primary key,
  halts boolean not null,
  decisions text[] not null check (decisions <@ array['kept', 'reorged', 'loss', 'debt', 'absent', 'rewind', 'resume', 'reconcile']),
  way_out text not null
);
comment on table app.incident_kind is 'The kinds of incidents, and what an operator does about each.';
comment on column app.incident_kind.kind is 'The kind.';
comment on column app.incident_kind.halts is 'True if the chain is halted while it is open: nothing is read. If false, and the incident names a chain, only its payouts stop.';
comment on column app.incident_kind.decisions is 'The only things that resolve it: kept, reorged, loss, debt or absent (sluice incident resolve), rewind or resume (sluice chain), reconcile (sluice custody). Empty: it closes only by itself.';
comment on column app.incident_kind.way_out is 'What to do, with the commands; {id} stands for its number and {chain} for its chain.';
grant select on app.incident_kind to sluice_jobs;

insert into app.incident_kind (kind, halts, decisions, way_out) values
  ('fork_below_final', true, '{rewind,resume}',
    'if the node was wrong, name another one, then sluice chain resume --chain {chain}; if the chain really changed, sluice chain rewind --chain {chain}'),
  ('journal_ahead', true, '{reconcile}',
    'the database is an older copy: sluice custody reconcile enters what custody signed since, and the chain goes on'),
  ('journal_changed', false, '{}',
    'find out who has the password of the database''s owner, then restore the rows of custody.journal from the file; it closes by itself'),
  ('unknown_transaction', false, '{kept,reconcile}',
    'find out who sent it; after an older copy of the database, sluice custody reconcile; else look up what it paid, cancel the payout that it has paid or settle it with the merchant, then sluice incident resolve {id} --as kept'),
  ('final_deposit_vanished', false, '{kept,reorged}',
    'it closes by itself if the deposit is read again; if it is gone for good, sluice incident resolve {id} --as reorged takes it back, --as kept leaves it'),
  ('final_deposit_moved', false, '{kept,reorged}',
    'the money is there, in another block: sluice incident resolve {id} --as kept'),
  ('final_deposit_changed', false, '{kept,reorged}',
    'compare it with a second node; sluice incident resolve {id} --as reorged takes the deposit back and credits what is there now, --as kept leaves it'),
  ('payment_replaced', false, '{kept}',
    'resolve the incident of the final deposit at the same output first: --as reorged there credits this payment and closes this incident; to leave it uncredited, sluice incident resolve {id} --as kept'),
  ('final_payment_vanished', false, '{kept}',
    'it closes by itself when the payment is read again; if it never can be (its transaction has expired, or another one has its nonce or outputs), pay its address by a withdrawal, then sluice incident resolve {id} --as kept'),
  ('payment_of_failed_payout', false, '{kept}',
    'run sluice audit and find out who had the keys; when the keys are safe, sluice incident resolve {id} --as kept'),
  ('second_payment', true, '{loss,debt}',
    'find out who had the keys, and whether a final block was replaced; then sluice incident resolve {id} --as loss leaves it with you, --as debt has the merchant owe it'),
  ('contested_payment', false, '{}',
    'wait: nothing of the payment is signed or sent until one of its transactions is final, or all but one have expired; then it closes by itself'),
  ('unproven_expiry', false, '{absent}',
    'ask other nodes whether any block holds the transaction; if one does, have Sluice read it again (sluice reindex); if none does, sluice incident resolve {id} --as absent, and it may be signed again'),
  ('unproven_block', false, '{kept}',
    'compare the blocks with another node, and set one as the second; then sluice incident resolve {id} --as kept'),
  ('audit', false, '{kept}',
    'sluice audit says what is wrong now, docs/operations/audit.md what to do about it; it closes by itself, and sluice incident resolve {id} --as kept silences it');

-- An incident that names a chain stops its payouts, and what custody signs there, until it is resolved (app.why_halted). Opened when deposits are
-- derived, by indexers, by custody (what is wrong with its journal) and by the audit. Resolved by an operator, or by itself when its statement is no
-- longer true.
create table app.incident (
  id bigint primary key generated always as identity,
  chain text,
  kind text not null references app.incident_kind,
  subject text not null,
  details jsonb not null,
  opened_at timestamptz not null default clock_timestamp(),
  resolved_at timestamptz,
  resolution text
);
-- A second observation of the same problem updates the open incident, or changes nothing.
create unique index incident_open on app.incident (subject, kind) where resolved_at is null;
comment on table app.incident is 'Something that must never happen, and did; an operator decides: sluice incident list.';
comment on column app.incident.id is 'Number of the incident.';
comment on column app.incident.chain is 'Chain code; null if it concerns no single chain, and then nothing waits for it.';
comment on column app.incident.kind is 'Its kind; app.incident_kind has all of them.';
comment on column app.incident.subject is 'The id of the deposit (final_deposit_...) or of the outgoing payment (..._payment_vanished, payment_of_failed_payout, second_payment); <chain>:<the address that sent> (unknown_transaction); the id of the transfer (payment_replaced); the chain (fork_below_final, journal_ahead, unproven_block); the stream of the journal (journal_changed); audit:<check>.';
comment on column app.incident.details is 'What was seen.';
comment on column app.incident.opened_at is 'When it was noticed.';
comment on column app.incident.resolved_at is 'When it was resolved; null while it is open.';
comment on column app.incident.resolution is 'healed (it went away by itself), reconciled (custody''s journal was imported), reorged, kept, loss, debt, rewound or resumed (an operator decided).';
grant select on app.incident to sluice_jobs;

-- One incident for all transactions that an address of ours sent and that are not stored here. Writer: chain.note_confirmed_txs, with the block.
-- Readers: app.finish_outgoing_payments (for which a kept incident counts), custody.reconcile, the audit.
--
-- Invariants: a transaction that is not stored here belongs to exactly one incident, for ever, and is counted in it once, whatever a reorganisation
-- does. An address of ours has at most one open incident of this kind on a chain. An operator who keeps an incident decides about what it held at
-- that time: later transactions open another.
create table app.unknown_transaction (
  chain text not null,
  txid text not null,
  incident_id bigint not null references app.incident,
  primary key (chain, txid)
);
create index unknown_transaction_incident on app.unknown_transaction (incident_id);
comment on table app.unknown_transaction is 'A transaction in a block that an address of ours sent and that is not stored here, and the incident that it belongs to.';
comment on column app.unknown_transaction.incident_id is 'The incident unknown_transaction of its sender that was open when it was seen.';
