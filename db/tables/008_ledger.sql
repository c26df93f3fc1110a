-- The ledger: every movement of money as a balanced posting. Also what each address holds, what the treasury holds, and each merchant's share of it.
--
-- Accounts, each per chain and token; a positive amount is a debit, a negative one a credit:
--   address       + what final transfers brought to a deposit address, - what left it (with the address; merchant null: unattributed)
--   treasury      + what the treasury holds
--   merchant      - what a merchant can be paid (app.balance_now, with the sign turned)
--   payout        - what payouts under way have claimed
--   fees          - service fees earned
--   network       + network fees paid
--   operator      - top-ups of the treasury, less withdrawals and second payments
--   unattributed  - value at our addresses that is credited to no merchant
-- Tokens that are not supported are not in it: anybody can make one, and claim that any amount of it was moved.
--
-- Writers, each in the transaction of the movement: chain.finalise_deposits (deposits that became final, and top-ups), app.finish_outgoing_payments
-- (payments, sweeps, withdrawals, network fees), claims and releases of payouts, an operator who takes a deposit back or credits one. A function
-- that begins an outgoing payment reserves in app.treasury and app.treasury_share. Readers: functions that plan a payout, analysts, the audit.
--
-- Invariants: the entries of a posting add up to zero for each token, and entries are never changed (triggers refuse the rest). app.holding,
-- app.treasury and app.treasury_share are sums over entries, stored beside them because payouts decide by them (app.ledger_audit compares). A
-- merchant is paid from its own money and the operator's, never from another merchant's.
-- Locks: the rows of app.treasury of a chain, all tokens in one order (app.lock_treasury), after chain.cursor and payout, before sender and outgoing
-- payment.

create sequence app.ledger_posting;
comment on sequence app.ledger_posting is 'Numbers of postings.';

create table app.ledger_entry (
  id bigint primary key generated always as identity,
  posting bigint not null,
  kind text not null check (kind in ('deposit', 'top_up', 'reorg', 'claim', 'release', 'payout', 'sweep', 'withdrawal', 'return', 'network_fee', 'second_payment')),
  reference text not null,
  account text not null check (account in ('address', 'treasury', 'merchant', 'payout', 'fees', 'network', 'operator', 'unattributed')),
  chain text not null,
  token text not null,
  merchant_id uuid,
  address text,
  amount numeric not null check (amount <> 0),
  created_at timestamptz not null default clock_timestamp()
);
-- Balances of accounts, from the index alone.
create index ledger_entry_account on app.ledger_entry (account, chain, token, merchant_id) include (amount);
-- The postings of a deposit, a payout or an outgoing payment.
create index ledger_entry_reference on app.ledger_entry (reference);
-- Recent network fees of the treasury (app.gas_left_days).
create index ledger_entry_network_fee on app.ledger_entry (chain, created_at) include (amount) where account = 'treasury' and kind = 'network_fee';
-- Entries are stored in the order of their time, so the bounds of each range of blocks show where a day is. For analysts.
create index ledger_entry_created on app.ledger_entry using brin (created_at timestamptz_minmax_multi_ops) with (autosummarize = on);
-- Unattributed value that an address holds. What it holds for its merchant is in app.holding.
create index ledger_entry_unattributed on app.ledger_entry (chain, address, token) include (amount) where account = 'address' and merchant_id is null;
comment on table app.ledger_entry is 'Double-entry bookkeeping of everything that moved. The entries of one posting add up to zero for each token.';
comment on column app.ledger_entry.id is 'Order of insertion.';
comment on column app.ledger_entry.posting is 'The movement that the entry is a part of.';
comment on column app.ledger_entry.kind is 'deposit (deposits became final, or an operator credited one), top_up (the treasury was paid), reorg (a final deposit was taken back), claim and release (of a payout), payout, sweep, withdrawal, return (of unattributed value, in each of its steps), network_fee, second_payment (what left although its payment had ended).';
comment on column app.ledger_entry.reference is 'What caused it: finalisation:<chain>:<number>, or the id of the deposit, the payout or the outgoing payment.';
comment on column app.ledger_entry.account is 'address, treasury, merchant, payout, fees, network, operator or unattributed (explained in db/tables/008_ledger.sql).';
comment on column app.ledger_entry.merchant_id is 'The merchant that the movement belongs to; null for the operator''s own and for unattributed value.';
comment on column app.ledger_entry.address is 'The address, for the account address; else null.';
comment on column app.ledger_entry.amount is 'Debit (positive) or credit (negative), in base units.';
comment on column app.ledger_entry.created_at is 'When it was posted.';

create table app.holding (
  chain text not null,
  address text not null,
  token text not null,
  merchant_id uuid not null,
  amount numeric not null,
  primary key (chain, address, token)
);
-- What is swept first: a merchant's addresses that hold something, the largest first.
create index holding_largest on app.holding (merchant_id, chain, token, amount desc) where amount > 0;
comment on table app.holding is 'Final, credited money on a deposit address that no sweep has taken: the sum of its entries in the ledger.';
comment on column app.holding.merchant_id is 'The merchant whose user has the address.';
comment on column app.holding.amount is 'Amount in base units.';
grant select on app.holding to sluice_jobs;

create table app.treasury (
  chain text not null,
  token text not null,
  balance numeric not null default 0,
  reserved numeric not null default 0,
  primary key (chain, token)
);
comment on table app.treasury is 'What the treasury holds by the ledger, and what is promised to transactions that are not final. Its row locks order everything that spends from it.';
comment on column app.treasury.balance is 'Sum of the account treasury, in base units.';
comment on column app.treasury.reserved is 'Amounts and highest network fees of transactions under way, less what payments bring with them (app.outgoing_payment.swept_in), and what was swept for returns that have not left yet; in base units.';
grant select on app.treasury to sluice_jobs;

create table app.treasury_share (
  chain text not null,
  token text not null,
  merchant_id uuid not null references app.merchant,
  amount numeric not null default 0,
  reserved numeric not null default 0,
  primary key (chain, token, merchant_id)
);
comment on table app.treasury_share is 'How much of the treasury belongs to each merchant. No merchant is paid from another merchant''s share.';
comment on column app.treasury_share.amount is 'What was swept from the merchant''s addresses, and what sweeping it cost them, less the gross of completed payouts, in base units. Below zero: the operator has advanced it.';
comment on column app.treasury_share.reserved is 'Gross of the payments under way, less what they bring with them from the merchant''s addresses (app.outgoing_payment.swept_in), in base units.';
grant select on app.treasury_share to sluice_jobs;
