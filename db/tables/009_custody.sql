-- What custody holds: every address that it derived and its merchant, what it signed and what it refused; and what only an operator decides for it.
--
-- Writers: custody (addresses, journal, refusals); the API's functions, which hand an address out (app.draw_address); the owner of the database,
-- through the command line (whitelist, budgets, decisions). So only custody and the owner can change what a signature depends on: an address is
-- handed out once, the journal only grows, and no role of a process can write the rest.
-- Readers: custody; the indexers (which addresses send, and what a transaction was signed for); the API and the worker (addresses, whitelist).
--
-- Invariants: an address is handed to one merchant, once, for ever. The journal's numbers follow each other without a gap in each stream, and each
-- entry carries the hash of the one before it, as in the file beside the database. An entry is committed here first, then in that file, and only
-- then does a signature leave custody. Custody compares what it reads here with the file.

create table custody.address (
  address text primary key,
  family text not null,
  derivation_index bigint not null,
  created_at timestamptz not null default clock_timestamp(),
  taken_at timestamptz,
  purpose text not null default 'deposit' check (purpose in ('deposit', 'treasury')),
  merchant_id uuid,
  retired_at timestamptz,
  match_key text not null,
  constraint address_path unique (family, purpose, derivation_index),
  constraint handed_to_a_merchant check (merchant_id is null or taken_at is not null)
);
create unique index address_match on custody.address (match_key);
create index address_merchant on custody.address (merchant_id) where merchant_id is not null;
-- The pool: the next address that is handed out.
create index address_free on custody.address (family, derivation_index) where taken_at is null and retired_at is null and purpose = 'deposit';
comment on table custody.address is 'Every address that custody ever derived, in order, and the merchant that it was handed to; addresses that are not taken wait in the pool.';
comment on column custody.address.address is 'The address as people see it.';
comment on column custody.address.family is 'Family of chains on which the address is valid, such as evm.';
comment on column custody.address.derivation_index is 'Index in the derivation path, so that the seed restores it.';
comment on column custody.address.created_at is 'When custody derived it; -infinity for a treasury whose seed is older than this database.';
comment on column custody.address.taken_at is 'When it was handed out; null while it waits. Never handed out twice.';
comment on column custody.address.purpose is 'deposit: for a user or a payment request. treasury: where sweeps go, and payouts come from.';
comment on column custody.address.merchant_id is 'The merchant that it was handed to; null before, and for a treasury. Written once, by the function that hands it out; what custody signs depends on it.';
comment on column custody.address.retired_at is 'When it was given up unused, because an older copy of the database would have handed it out a second time; else null.';
comment on column custody.address.match_key is 'The address as indexers look it up, written by a trigger (app.match_key): in lower case where that makes no difference (app.chain.folds_addresses).';
grant select on custody.address to sluice_api, sluice_custody, sluice_jobs;
grant select (address, match_key) on custody.address to sluice_indexer;
grant insert (address, family, derivation_index, created_at, purpose, retired_at) on custody.address to sluice_custody;
grant update (retired_at) on custody.address to sluice_custody;

create table custody.journal (
  stream text not null,
  seq bigint not null check (seq > 0),
  kind text not null check (kind in ('pay', 'sweep', 'withdraw', 'cancel', 'pool')),
  subject_id uuid,
  merchant_id uuid,
  token text,
  amount numeric(78, 0),
  destination text,
  source text,
  sender text,
  nonce bigint,
  max_fee numeric(78, 0),
  txid text,
  raw text,
  details jsonb not null default '{}',
  signed_at timestamptz not null,
  hash text not null,
  conflict_key text,
  lifetime_from int generated always as ((details #>> '{lifetime,from}')::int) stored,
  lifetime_end bigint generated always as ((details #>> '{lifetime,end}')::bigint) stored,
  lifetime_clock_ms bigint generated always as ((details #>> '{lifetime,clock_ms}')::bigint) stored,
  primary key (stream, seq)
);
-- The last nonce of an address.
create index journal_nonce on custody.journal (stream, sender, nonce) where nonce is not null;
create index journal_txid on custody.journal (txid) where txid is not null;
create index journal_subject on custody.journal (subject_id) where subject_id is not null;
-- What was paid to a merchant, less what is dead.
create index journal_paid on custody.journal (merchant_id, stream, token) where kind = 'pay';
create index journal_day on custody.journal (stream, token, signed_at) where kind in ('pay', 'withdraw');
comment on table custody.journal is 'Everything that custody signed, written before the signature left it, here and in a file outside the database. Append-only.';
comment on column custody.journal.stream is 'Chain code; pool:<family> for the entries about derived addresses.';
comment on column custody.journal.seq is 'Number of the entry in its stream: 1, 2, 3 ... without a gap.';
comment on column custody.journal.kind is 'pay: a payout. sweep: an address to the treasury. withdraw: the operator''s own money. cancel: nothing, with the nonce of something else. pool: addresses were derived up to an index.';
comment on column custody.journal.subject_id is 'The outgoing payment (app.outgoing_payment) of the entry: the payout, the sweep or the withdrawal.';
comment on column custody.journal.merchant_id is 'The merchant that is paid, or whose address is swept; null if the money is the operator''s own or unattributed.';
comment on column custody.journal.amount is 'What it moves, in base units.';
comment on column custody.journal.destination is 'Where it moves it to.';
comment on column custody.journal.source is 'The address that it is taken from.';
comment on column custody.journal.sender is 'The address that sends the transaction and pays its fee; not the source if the treasury relays an authorisation. On Bitcoin the treasury.';
comment on column custody.journal.nonce is 'The nonce of the sender that it uses; null on chains without nonces.';
comment on column custody.journal.max_fee is 'The most that the transaction can cost, in the native coin''s base units.';
comment on column custody.journal.txid is 'Id of the signed transaction.';
comment on column custody.journal.raw is 'The signed transaction.';
comment on column custody.journal.details is 'What else belongs to the entry: fees; gross and fee of the payout; the outputs that are spent; the highest index of a pool entry.';
comment on column custody.journal.signed_at is 'When it was signed.';
comment on column custody.journal.conflict_key is 'What all attempts for its outgoing payment use, and only one transaction can use up: sender:nonce, or the first input (txid:vout). Null for addresses. Written by a trigger; not in the file.';
comment on column custody.journal.lifetime_from is 'Where attempts expire: no block at or below this height can hold it.';
comment on column custody.journal.lifetime_end is 'Where attempts expire: no block after the first one at or past this can hold it: a height, or the time of a block in ms (app.chain.ends_by).';
comment on column custody.journal.lifetime_clock_ms is 'Where attempts expire: by this time (Unix, in ms) the chain is past its end, unless it stands still.';
comment on column custody.journal.hash is 'SHA-256 over the hash of the entry before it in the stream and this entry, as in the file.';
grant select, insert on custody.journal to sluice_custody;
grant select (stream, token, amount, destination, source, txid) on custody.journal to sluice_indexer;

-- What each signed transaction uses up, as rows: its nonce, or each output that it spends. Custody looks them up before each signature, on Bitcoin up to
-- 500 outputs at once, in entries that have as many. An index over the lists in custody.journal.details compares every requested output with every one
-- in a list, which takes seconds. Only a trigger of the journal writes here, and rows are only added, as in the journal.
create table custody.journal_key (
  stream text not null,
  seq bigint not null,
  conflict_key text not null,
  primary key (stream, seq, conflict_key),
  foreign key (stream, seq) references custody.journal
);
-- What was signed with a nonce, or with an output.
create index journal_key_use on custody.journal_key (stream, conflict_key);
comment on table custody.journal_key is 'What the transactions of the journal use up, so that no other transaction can use it again: nonces and outputs.';
comment on column custody.journal_key.stream is 'Chain code.';
comment on column custody.journal_key.seq is 'The entry of the stream.';
comment on column custody.journal_key.conflict_key is 'address:nonce, or the output that is spent (txid:vout).';
grant select on custody.journal_key to sluice_custody;

-- Custody writes it (custody.follow_unproven_copies) when it finds that its journal may lack entries, before it signs anything more.
create table custody.unproven_copy (
  chain text primary key,
  mark text not null,
  noted_at timestamptz not null default clock_timestamp(),
  noted_height int not null,
  start_height int,
  proven_at timestamptz
);
comment on table custody.unproven_copy is 'Chains whose transactions expire for which custody''s journal may lack entries. Until one is proven, custody signs nothing for the first time there.';
comment on column custody.unproven_copy.mark is 'When custody''s journal was found incomplete, and why, as in the file journal.incomplete beside it.';
comment on column custody.unproven_copy.noted_at is 'When it was noted here. What the missing entries signed was signed before.';
comment on column custody.unproven_copy.noted_height is 'The newest block that was read then; -1 if there was none.';
comment on column custody.unproven_copy.start_height is 'The first final block found that was made and read after that; null until there is one.';
comment on column custody.unproven_copy.proven_at is 'When nothing that the missing entries signed could be mined any more; null while something may.';

create table custody.refusal (
  id bigint primary key generated always as identity,
  code text not null,
  message text not null,
  request jsonb not null,
  refused_at timestamptz not null default clock_timestamp()
);
comment on table custody.refusal is 'What custody was asked to sign and did not.';
comment on column custody.refusal.id is 'Number of the refusal.';
comment on column custody.refusal.code is 'Why, for programs.';
comment on column custody.refusal.message is 'Why, for people.';
comment on column custody.refusal.request is 'What was asked; never a secret.';
comment on column custody.refusal.refused_at is 'When.';
grant select, insert on custody.refusal to sluice_custody;

-- Custody reads it before the first signature of a payout or a withdrawal. The only change of an entry is its removal; adding the address again
-- makes a new one.
create table custody.whitelist (
  id bigint primary key generated always as identity,
  merchant_id uuid references app.merchant,
  chain text not null,
  address text not null,
  added_at timestamptz not null default clock_timestamp(),
  active_at timestamptz not null default clock_timestamp(),
  removed_at timestamptz
);
-- An address is on a list once at a time; the operator's own list (merchant null) is one like any other.
create unique index whitelist_entry on custody.whitelist (merchant_id, chain, address) nulls not distinct where removed_at is null;
comment on table custody.whitelist is 'Where money may go: per merchant and chain; without a merchant, where the operator''s own money may go.';
comment on column custody.whitelist.id is 'Number of the entry.';
comment on column custody.whitelist.merchant_id is 'The merchant whose payouts may go there; null for withdrawals by the operator.';
comment on column custody.whitelist.address is 'The address, as people see it (EIP-55 on EVM chains).';
comment on column custody.whitelist.added_at is 'When it was added.';
comment on column custody.whitelist.active_at is 'From when on it counts.';
comment on column custody.whitelist.removed_at is 'When it was removed: nothing new is signed to it. Null while it is on the list.';
grant select on custody.whitelist to sluice_api, sluice_custody, sluice_jobs;

-- Custody adds up what it signed today (UTC) on a chain, the highest fee of each nonce or first input, against a budget (custody/budget.ts), and
-- signs nothing on a halted chain. Only an operator makes exceptions: the owner of the database raises today's budget here, and has a payout's
-- payment replaced or cancelled although its chain is halted (custody.decision). Then the worker asks custody again.
create table custody.budget_raise (
  id bigint primary key generated always as identity,
  chain text not null,
  day date not null,
  amount numeric(78, 0) not null check (amount > 0),
  raised_at timestamptz not null default clock_timestamp()
);
create index budget_raise_day on custody.budget_raise (chain, day);
comment on table custody.budget_raise is 'What an operator added to the fee budget of a chain, for one day.';
comment on column custody.budget_raise.id is 'Number of the row.';
comment on column custody.budget_raise.day is 'The day (UTC) that it is for.';
comment on column custody.budget_raise.amount is 'What was added, in the native coin''s base units.';
comment on column custody.budget_raise.raised_at is 'When.';
grant select on custody.budget_raise to sluice_custody;

create table custody.decision (
  outgoing_payment_id uuid primary key references app.outgoing_payment on delete cascade,
  decision text not null check (decision in ('replace', 'cancel')),
  decided_at timestamptz not null default clock_timestamp()
);
comment on table custody.decision is 'Payments that an operator wants replaced or cancelled: custody signs for them on a halted chain, too.';
comment on column custody.decision.outgoing_payment_id is 'The payment.';
comment on column custody.decision.decision is 'replace (by the same payment with a higher fee) or cancel (by a transaction that moves nothing).';
comment on column custody.decision.decided_at is 'When it was last decided.';
grant select on custody.decision to sluice_custody, sluice_jobs;
