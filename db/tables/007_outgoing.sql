-- Outgoing payments: transactions of ours on their way into a block, what they spend, and what they are for.
--
-- An outgoing payment (app.outgoing_payment) is what we pay for one purpose: a payout's payment, a sweep of an address to the treasury, or a
-- withdrawal from it. Its attempts (app.outgoing_attempt) share a conflict key, so at most one of them can ever be mined: the payment itself, the same
-- with a higher fee, or a cancel that moves nothing. The conflict key is a nonce of the account that pays the fee (address:nonce). On Bitcoin it is an
-- output (txid:vout): the first input, which every attempt has. Attempts only ever add inputs. app.chain.attempts_exclude_by says which.
--
-- Statuses:
--   allocated   app.begin_...: its conflict key is taken; value and highest network fee are reserved in the treasury; nothing is signed
--   live        app.store_signed: what custody signed is stored; from this commit on the bytes may be broadcast, again and again
--   final       app.finish_outgoing_payments, at COMMIT of the indexer: an attempt, or another transaction that uses the conflict key, is final
-- A process that dies between two of these steps leaves a row that says what to do next.
--
-- Writers: the worker and the command line, through functions; finality; custody's reconciliation, which imports what an older copy of the database
-- had forgotten (recovered). Readers: the worker, custody, the indexers (by custody's journal), the audit, analysts through views.
--
-- Invariants: nonces of an account are handed out in order, without a gap, and never taken from a node. An attempt is stored before it is broadcast.
-- An outgoing payment is final only by a chain.confirmed_tx at or below the final height (a CPFP child also if another transaction excludes its
-- parent).
-- Locks: chain.cursor, payout, treasury, sender, outgoing payment (006_payouts.sql). Reconciliation locks the whole tables.

create table app.sender (
  chain text not null,
  address text not null,
  next_nonce int not null default 0,
  primary key (chain, address)
);
comment on table app.sender is 'The next nonce of each address of ours that ever sent. Never taken from a node.';
comment on column app.sender.next_nonce is 'The nonce that its next outgoing payment gets.';

create table app.outgoing_payment (
  id uuid primary key default uuidv7(),
  kind text not null check (kind in ('payout', 'sweep', 'withdrawal')),
  chain text not null,
  token text not null,
  amount numeric(78, 0) not null check (amount > 0),
  source text not null,
  recipient text not null,
  fee_payer text not null,
  nonce int,
  first_input text,
  conflict_key text generated always as (coalesce(first_input, fee_payer || ':' || nonce::text)) stored,
  payout_id uuid references app.payout,
  merchant_id uuid,
  status text not null default 'allocated' check (status in ('allocated', 'live', 'final')),
  cancelling boolean not null default false,
  recovered boolean not null default false,
  max_fee numeric(78, 0) not null,
  txid text,
  outcome text check (outcome in ('done', 'reverted', 'cancelled', 'conflicted', 'expired')),
  fee_paid numeric(78, 0),
  waiting_reason text,
  waiting_detail text,
  waiting_since timestamptz,
  next_step_at timestamptz default clock_timestamp(),
  created_at timestamptz not null default clock_timestamp(),
  final_at timestamptz,
  swept_in numeric(78, 0) not null default 0,
  unique (chain, conflict_key),
  check (num_nonnulls(nonce, first_input) <= 1)
);
-- A payout has one payment, for ever.
create unique index outgoing_payment_one_payment on app.outgoing_payment (payout_id) where kind = 'payout';
-- What app.finish_outgoing_payments looks for in each block that becomes final.
create index outgoing_payment_open on app.outgoing_payment (chain) where status <> 'final';
-- What the worker has to sign or broadcast (app.due_job).
create index outgoing_payment_due on app.outgoing_payment (chain, next_step_at) where next_step_at is not null;
create index outgoing_payment_payout on app.outgoing_payment (payout_id) where payout_id is not null;
-- One sweep at a time of a merchant's money on an address, or of an output. Sweeps of returns belong to no merchant and may run meanwhile; several that were
-- recovered from custody's journal may all wait for the chain.
create unique index outgoing_payment_one_sweep on app.outgoing_payment (chain, coalesce(first_input, source), token)
  where kind = 'sweep' and status <> 'final' and not recovered and merchant_id is not null;
-- Days, for analysts.
create index outgoing_payment_created on app.outgoing_payment (created_at);
comment on table app.outgoing_payment is 'Outgoing payments: what we pay for one purpose, a payout''s payment, a sweep or a withdrawal.';
comment on column app.outgoing_payment.kind is 'payout, sweep or withdrawal.';
comment on column app.outgoing_payment.token is 'Token that it moves.';
comment on column app.outgoing_payment.amount is 'How much, in base units; what an attempt moves may be less for a sweep.';
comment on column app.outgoing_payment.source is 'Address that the amount is taken from; on Bitcoin the treasury or, for a sweep, the address of its first input.';
comment on column app.outgoing_payment.recipient is 'Address that it goes to.';
comment on column app.outgoing_payment.fee_payer is 'Our address that pays the network fee. Where nonces exclude, it also sends the transaction: the source, or the treasury that relays an authorisation of the source. On Bitcoin the treasury: what a fee takes from outputs of a merchant is the operator''s cost.';
comment on column app.outgoing_payment.nonce is 'The nonce of the fee payer that every attempt uses; null where attempts do not exclude each other by nonces.';
comment on column app.outgoing_payment.first_input is 'The output (txid:vout) that every attempt spends; null where attempts do not exclude each other by outputs.';
comment on column app.outgoing_payment.conflict_key is 'What all attempts use, and only one transaction can use up: fee_payer:nonce, or the first input.';
comment on column app.outgoing_payment.payout_id is 'The payout that it pays, or that the sweep was made for.';
comment on column app.outgoing_payment.merchant_id is 'The merchant that is paid, or whose address is swept; null if what is swept belongs to no merchant.';
comment on column app.outgoing_payment.status is 'allocated, live or final.';
comment on column app.outgoing_payment.cancelling is 'True if it must not be paid any more: a transaction that moves nothing is to use up its conflict key.';
comment on column app.outgoing_payment.recovered is 'True if it was imported from custody''s journal (sluice custody reconcile); several of an address may then wait for the chain at once.';
comment on column app.outgoing_payment.max_fee is 'The highest network fee of any of its attempts; reserved if the treasury pays it.';
comment on column app.outgoing_payment.txid is 'The final transaction that ended it; null before, and where it ended without one because nothing was signed for it.';
comment on column app.outgoing_payment.outcome is 'Outcome of that transaction: done, reverted, cancelled (the attempt that moves nothing), conflicted (no attempt of this outgoing payment), or expired (no attempt can be mined any more, and no other is signed). Null until it is final.';
comment on column app.outgoing_payment.fee_paid is 'Network fee that it cost, in the native coin''s base units; null before.';
comment on column app.outgoing_payment.waiting_reason is 'What it waits for, if its next step could not be taken; null while it moves.';
comment on column app.outgoing_payment.waiting_detail is 'More about that, for the operator.';
comment on column app.outgoing_payment.waiting_since is 'Since when it waits for that.';
comment on column app.outgoing_payment.next_step_at is 'When it is checked again; null once it is final, unless a rewind removed its block.';
comment on column app.outgoing_payment.created_at is 'When it was begun.';
comment on column app.outgoing_payment.final_at is 'When it became final; null before.';
comment on column app.outgoing_payment.swept_in is 'On chains with outputs: how much of a payout''s gross its payment brings with it from the merchant''s addresses; while it is under way, that much less is reserved.';
grant select on app.outgoing_payment to sluice_custody, sluice_jobs;

create table app.payout_sweep (
  payout_id uuid not null references app.payout,
  outgoing_payment_id uuid not null references app.outgoing_payment,
  primary key (payout_id, outgoing_payment_id)
);
create index payout_sweep_outgoing_payment on app.payout_sweep (outgoing_payment_id);
comment on table app.payout_sweep is 'The sweeps that a payout waits for, its own and those of others.';
comment on column app.payout_sweep.outgoing_payment_id is 'The sweep.';
grant select on app.payout_sweep to sluice_jobs;

create table app.outgoing_attempt (
  chain text not null,
  txid text not null,
  outgoing_payment_id uuid not null references app.outgoing_payment,
  attempt int not null,
  kind text not null check (kind in ('effect', 'cancel')),
  raw text not null,
  token text not null,
  source text not null,
  recipient text not null,
  amount numeric(78, 0) not null,
  max_fee numeric(78, 0) not null,
  fee_details jsonb not null,
  stored_at timestamptz not null default clock_timestamp(),
  broadcast_at timestamptz,
  broadcast_error text,
  primary key (chain, txid),
  unique (outgoing_payment_id, attempt)
);
comment on table app.outgoing_attempt is 'Signed transactions, stored before they are broadcast. At most one of an outgoing payment can be mined.';
comment on column app.outgoing_attempt.txid is 'Transaction id: the hash of raw.';
comment on column app.outgoing_attempt.outgoing_payment_id is 'The outgoing payment that it belongs to.';
comment on column app.outgoing_attempt.attempt is '1 for the first; each later one offers a higher fee.';
comment on column app.outgoing_attempt.kind is 'effect: does what the outgoing payment is for. cancel: moves nothing.';
comment on column app.outgoing_attempt.raw is 'The signed bytes, in hex.';
comment on column app.outgoing_attempt.token is 'Token that it moves.';
comment on column app.outgoing_attempt.source is 'Address that the amount is taken from.';
comment on column app.outgoing_attempt.recipient is 'Address that it goes to.';
comment on column app.outgoing_attempt.amount is 'How much, in base units; 0 for a cancel.';
comment on column app.outgoing_attempt.max_fee is 'The most that it can cost in network fees, in the native coin''s base units.';
comment on column app.outgoing_attempt.fee_details is 'What it offers for its place in a block, in the terms of its family: max_fee_per_gas and max_priority_fee_per_gas (wei) and gas_limit; or network_fee (sat) and vsize (virtual bytes).';
comment on column app.outgoing_attempt.stored_at is 'When it was stored.';
comment on column app.outgoing_attempt.broadcast_at is 'When it was last given to a node; null if never.';
comment on column app.outgoing_attempt.broadcast_error is 'The node''s error response then; null if the node took it. It proves nothing.';
grant select on app.outgoing_attempt to sluice_jobs;

-- Transactions of ours in a block although their outgoing payment ended in another way: another attempt completed it, or its payout had failed, or it
-- was cancelled. Where attempts share a conflict key the chain excludes that, unless a final block was replaced. A row is noted as soon as such a
-- transaction is in a block, and booked once it is final there (outgoing/second_payments.sql): if it paid, as the operator's loss, with an incident; if
-- it failed or is a cancel, only its fee.
create table app.second_payment (
  chain text not null,
  txid text not null,
  outgoing_payment_id uuid not null references app.outgoing_payment,
  amount numeric(78, 0),
  fee numeric(78, 0),
  incident_id bigint references app.incident,
  booked_at timestamptz,
  primary key (chain, txid)
);
create index second_payment_noted on app.second_payment (chain) where booked_at is null;
create index second_payment_outgoing_payment on app.second_payment (outgoing_payment_id);
comment on table app.second_payment is 'Transactions of ours in a block whose outgoing payment ended in another way; those that are final are booked, as second payments or as fees.';
comment on column app.second_payment.outgoing_payment_id is 'The outgoing payment that it was signed for, and that ended in another way.';
comment on column app.second_payment.amount is 'What it paid, in base units of the payment''s token: the operator''s loss; 0 for a sweep, a cancel, and what failed. Null until it is booked.';
comment on column app.second_payment.fee is 'The network fee that was booked for it, in the native coin''s base units; 0 if it was booked with a payment that it ended. Null until it is booked.';
comment on column app.second_payment.incident_id is 'The incident second_payment that reports it; null if it is no payment.';
comment on column app.second_payment.booked_at is 'When it was booked; null while it is not final.';

-- On chains with outputs, the money that can be spent. An output is here once (its primary key), from the moment that it is final and in the ledger
-- (app.add_outputs; change, app.finish_outputs). One outgoing payment at a time has it reserved, in a committed row before custody is asked, and
-- keeps it if it spends it. The unspent outputs of an address add up to its app.holding, those of the treasury to its balance.
create table app.output (
  chain text not null,
  txid text not null,
  vout int not null,
  address text not null,
  merchant_id uuid references app.merchant,
  amount numeric(78, 0) not null check (amount > 0),
  outgoing_payment_id uuid references app.outgoing_payment,
  from_attempt int,
  spent_by text,
  mature_at int,
  primary key (chain, txid, vout),
  check ((outgoing_payment_id is null) = (from_attempt is null))
);
-- The worker chooses among free outputs, the largest first.
create index output_free on app.output (chain, merchant_id, amount desc) where outgoing_payment_id is null and spent_by is null;
create index output_outgoing_payment on app.output (outgoing_payment_id) where outgoing_payment_id is not null;
-- What an address holds, compared with the chain.
create index output_unspent on app.output (chain, address) where spent_by is null;
comment on table app.output is 'Final outputs of ours on chains that have them. Free ones (app.free_output) are in no outgoing payment, not spent, and mature.';
comment on column app.output.txid is 'The transaction that made it.';
comment on column app.output.vout is 'Its position there.';
comment on column app.output.merchant_id is 'The merchant whose user has the address; null for the treasury''s.';
comment on column app.output.amount is 'Amount in base units.';
comment on column app.output.outgoing_payment_id is 'The outgoing payment that has it reserved, or spent it; null while it is free.';
comment on column app.output.from_attempt is 'The attempt of that outgoing payment from which on it is an input; null while it is free.';
comment on column app.output.spent_by is 'The final transaction that spent it; null while it is unspent.';
comment on column app.output.mature_at is 'The head from which on nodes let it be spent: new coins (a coinbase) have to wait for 100 blocks. Null if at once.';
grant select on app.output to sluice_custody, sluice_jobs;

-- A CPFP child is a sweep of outputs that are not final, only for an operator's explicit command (app.begin_cpfp; sluice treasury cpfp). It speeds
-- up an unconfirmed payment to us, the parent: the child pays the fee of both. It is the one exception to "only final outputs are spent". Its inputs
-- are here until the parent is final, and from then on reserved in app.output. It ends like any sweep: the deposits are credited when they are
-- final, by themselves, and the child, which cannot be final before them, takes them to the treasury. If the parent can never be mined, neither can
-- the child. If the transaction that replaced the parent pays us, too, the child ends as conflicted when that transaction is final. If it does not
-- pay us, nothing here proves it, and the child keeps waiting.
--
-- Invariants: the outputs of a CPFP child belong to one transaction, and to one merchant or the treasury; at most one open CPFP child has an output.
-- Custody signs for no other unconfirmed output.
create table app.cpfp (
  outgoing_payment_id uuid primary key references app.outgoing_payment on delete cascade,
  txid text not null,
  outputs text[] not null,
  parent_inputs text[] not null,
  parent_vsize int not null check (parent_vsize between 1 and 100000)
);
comment on table app.cpfp is 'CPFP children: sweeps of outputs that are not final, which pay for their unconfirmed parent.';
comment on column app.cpfp.outgoing_payment_id is 'The sweep.';
comment on column app.cpfp.txid is 'The parent: an unconfirmed transaction of another sender that pays us.';
comment on column app.cpfp.outputs is 'Those of its outputs that are spent (txid:vout).';
comment on column app.cpfp.parent_inputs is 'What the parent spends (txid:vout): another transaction that spends one of them excludes it, and so its child.';
comment on column app.cpfp.parent_vsize is 'Size of the parent in virtual bytes, which the child pays for, too.';
grant select on app.cpfp to sluice_custody;

-- Value on a chain or in a token that a merchant did not ask for, or that a chain's rules paid, is in app.deposit, not credited, and stays so when
-- chain or token are enabled later. Only an operator decides about it. credit makes it a deposit of the merchant that has the address. return sends
-- it to an address on the operator's whitelist, in two outgoing payments: a sweep of the address to the treasury, and, once that is final, a
-- withdrawal of what arrived there.
--
-- Writers: the owner (app.credit_unattributed, app.return_unattributed); the worker, which begins the transactions of a return
-- (app.begin_return_sweep, app.begin_return_withdrawal); finality, which posts them. Readers: the worker (app.due_return), the command line,
-- analysts. Invariants: a deposit is credited, or returned, or neither, never both; a return moves no more than its deposit brought, and a
-- merchant's money on the same address stays there; what was swept for a return is reserved in the treasury until it has left. Locks: chain.cursor;
-- to decide, the deposit; to begin a return, the treasury and the sender.
create table app.unattributed_decision (
  deposit_id uuid primary key references app.deposit,
  decision text not null check (decision in ('credit', 'return')),
  amount numeric(78, 0) not null check (amount >= 0),
  sweep_id uuid references app.outgoing_payment,
  withdrawal_id uuid references app.outgoing_payment,
  destination text,
  waiting_reason text,
  waiting_detail text,
  waiting_since timestamptz,
  decided_at timestamptz not null default clock_timestamp(),
  check (decision = 'return' or (sweep_id is null and withdrawal_id is null and destination is null))
);
create index unattributed_decision_sweep on app.unattributed_decision (sweep_id) where sweep_id is not null;
create index unattributed_decision_withdrawal on app.unattributed_decision (withdrawal_id) where withdrawal_id is not null;
create index unattributed_decision_open on app.unattributed_decision (deposit_id) where decision = 'return' and withdrawal_id is null;
comment on table app.unattributed_decision is 'What an operator decided about unattributed value: to credit it to the merchant that has the address, or to return it.';
comment on column app.unattributed_decision.decision is 'credit or return.';
comment on column app.unattributed_decision.amount is 'What was credited, or what is to be returned, in base units: for a native coin, what is left after the network fees of taking it from its address.';
comment on column app.unattributed_decision.sweep_id is 'For a return: the transaction that takes it to the treasury, the last one if it was begun again; null until it is begun.';
comment on column app.unattributed_decision.withdrawal_id is 'For a return: the transaction that takes it from the treasury to its destination, the last one if it was begun again; null until it is begun.';
comment on column app.unattributed_decision.destination is 'For a return: where it goes, an address on the operator''s whitelist. Null if an older copy of the database had forgotten it: the operator has to name it again.';
comment on column app.unattributed_decision.waiting_reason is 'For a return: what its next transaction waits for; null while nothing is in its way.';
comment on column app.unattributed_decision.waiting_detail is 'More about that, for the operator.';
comment on column app.unattributed_decision.waiting_since is 'Since when it waits for that.';
comment on column app.unattributed_decision.decided_at is 'When it was decided.';
grant select on app.unattributed_decision to sluice_jobs;
