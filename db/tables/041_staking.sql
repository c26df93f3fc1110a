-- Where TRX is staked for energy, an address sweeps a token with energy that the treasury lends it: a delegate, the sweep, and an undelegate, each an
-- outgoing payment that moves no coins (outgoing/delegate.sql). An operator stakes and unstakes; what is unstaked comes back 14 days later
-- (outgoing/stake.sql). Staked coins are the operator's still, in an account of their own.
alter table app.outgoing_payment add column if not exists resource text;

alter table app.outgoing_payment drop constraint if exists outgoing_payment_kind,
  add constraint outgoing_payment_kind check (kind in ('payout', 'sweep', 'withdrawal', 'cancel', 'fund', 'defund', 'delegate', 'undelegate', 'stake',
    'unstake', 'reclaim')) not valid;

alter table app.outgoing_payment validate constraint outgoing_payment_kind;

alter table app.outgoing_payment drop constraint if exists outgoing_payment_for_token,
  add constraint outgoing_payment_for_token check (for_token is null or kind in ('fund', 'delegate')) not valid;

alter table app.outgoing_payment validate constraint outgoing_payment_for_token;

alter table app.outgoing_payment drop constraint if exists outgoing_payment_resource,
  add constraint outgoing_payment_resource check ((resource is not null) = (kind in ('delegate', 'undelegate', 'stake', 'unstake'))
    and resource in ('energy', 'bandwidth')) not valid;

alter table app.outgoing_payment validate constraint outgoing_payment_resource;

-- One at a time readies an address for its sweep, or takes back what it was lent.
drop index concurrently if exists app.outgoing_payment_one_delegation;

create unique index concurrently outgoing_payment_one_delegation on app.outgoing_payment (chain, recipient)
  where kind in ('delegate', 'undelegate') and status <> 'final' and not recovered;

-- What was lent to an address, and taken back, and how that went.
drop index concurrently if exists app.outgoing_payment_delegation;

create index concurrently outgoing_payment_delegation on app.outgoing_payment (chain, recipient, created_at)
  where kind in ('delegate', 'undelegate');

-- What readies an address and failed is judged like a failed sweep of it (db/views/jobs/failed_sweep.sql).
drop index concurrently if exists app.outgoing_payment_failed_fund;

create index concurrently outgoing_payment_failed_fund on app.outgoing_payment (merchant_id, chain, for_token, final_at)
  where kind in ('fund', 'delegate') and outcome <> 'done';

drop index concurrently if exists app.outgoing_payment_fund;

create index concurrently outgoing_payment_fund on app.outgoing_payment (chain, recipient, for_token, final_at) where kind in ('fund', 'delegate');

alter table app.ledger_entry drop constraint if exists ledger_entry_kind,
  add constraint ledger_entry_kind check (kind in ('deposit', 'top_up', 'reorg', 'claim', 'release', 'payout', 'sweep',
    'withdrawal', 'return', 'network_fee', 'second_payment', 'fund', 'defund', 'stake', 'unstake')) not valid;

alter table app.ledger_entry validate constraint ledger_entry_kind;

alter table app.ledger_entry drop constraint if exists ledger_entry_account_name,
  add constraint ledger_entry_account_name check (account in ('address', 'treasury', 'merchant', 'payout', 'fees', 'network',
    'operator', 'unattributed', 'gas', 'staked')) not valid;

alter table app.ledger_entry validate constraint ledger_entry_account_name;

alter table custody.journal drop constraint if exists journal_kind,
  add constraint journal_kind check (kind in ('pay', 'sweep', 'withdraw', 'cancel', 'authorise', 'pool', 'fund', 'defund', 'delegate', 'undelegate',
    'stake', 'unstake', 'reclaim')) not valid;

alter table custody.journal validate constraint journal_kind;
-- Transaction
create table app.stake (
  chain text not null,
  resource text not null check (resource in ('energy', 'bandwidth')),
  amount numeric not null,
  primary key (chain, resource)
);
comment on table app.stake is 'Native coins that the treasury has staked, lent or not.';
comment on column app.stake.resource is 'What they are staked for: energy or bandwidth.';
comment on column app.stake.amount is 'How much, in base units.';
grant select on app.stake to sluice_jobs;

create table app.unstaking (
  chain text not null,
  txid text not null,
  resource text not null,
  amount numeric not null check (amount > 0),
  free_at timestamptz not null,
  reclaimed_at timestamptz,
  primary key (chain, txid)
);
create index unstaking_open on app.unstaking (chain) where reclaimed_at is null;
comment on table app.unstaking is 'Native coins that were unstaked, and that the chain holds for 14 days.';
comment on column app.unstaking.txid is 'The transaction that unstaked them; recount:<time> for one that is in no copy.';
comment on column app.unstaking.resource is 'What they were staked for.';
comment on column app.unstaking.amount is 'How much, in base units.';
comment on column app.unstaking.free_at is 'From when on the next transaction that unstakes, or reclaims, brings them back, by the time of the block before it.';
comment on column app.unstaking.reclaimed_at is 'When they were back in the treasury; null before.';
grant select on app.unstaking to sluice_jobs;

create table app.delegation (
  chain text not null,
  address text not null,
  amount numeric not null check (amount > 0),
  return_at timestamptz not null,
  primary key (chain, address)
);
create index delegation_return on app.delegation (chain, return_at);
comment on table app.delegation is 'How much of the treasury''s stake for energy is lent to each deposit address, by final transactions.';
comment on column app.delegation.address is 'The deposit address.';
comment on column app.delegation.amount is 'The stake, in base units of the native coin.';
comment on column app.delegation.return_at is 'When it is taken back: once a sweep of the address has ended, or ten minutes after it was lent.';
grant select on app.delegation to sluice_jobs, sluice_custody;

create table app.sweep_cost (
  chain text not null,
  token text not null,
  burnt numeric not null,
  delegated numeric not null,
  way text not null check (way in ('burnt', 'delegated')),
  detail text not null,
  noted_at timestamptz not null default clock_timestamp(),
  primary key (chain, token)
);
comment on table app.sweep_cost is 'What the sweep of a token costs now by each way, as the worker last asked the node; only where there is more than one.';
comment on column app.sweep_cost.burnt is 'If its energy is burnt, in base units of the native coin.';
comment on column app.sweep_cost.delegated is 'If the treasury lends it energy: what the transactions for that cost.';
comment on column app.sweep_cost.way is 'Which one is used: burnt or delegated.';
comment on column app.sweep_cost.detail is 'Why, in words for operators.';
comment on column app.sweep_cost.noted_at is 'When the node was asked.';

comment on column app.outgoing_payment.kind is 'payout, sweep, withdrawal, fund (gas for the sweep of an address), defund (gas that its address does not need, back to the treasury), delegate (energy for the sweep of an address), undelegate (it is taken back), stake, unstake, reclaim (what was unstaked comes back), or cancel: a nonce that only has to be used up, because its payout went on without it, or because nobody knows what it was for.';
comment on column app.outgoing_payment.amount is 'How much, in base units; what an attempt moves may be less for a sweep. What is staked or lent stays the treasury''s. 0 for a cancel.';
comment on column app.outgoing_payment.for_token is 'Of a fund, or a delegate: the token whose sweep it is for; else null.';
comment on column app.outgoing_payment.resource is 'What is staked or lent: energy or bandwidth; null for all other kinds.';
comment on column app.ledger_entry.kind is 'deposit (deposits became final, or an operator credited one), top_up (the treasury was paid), reorg (a final deposit was taken back), claim and release (of a payout), payout, sweep, withdrawal, return (of unattributed value, in each of its steps), network_fee, second_payment (what left although its payment had ended), fund (gas for an address), defund (gas of an address, back to the treasury), stake and unstake (the operator''s coins, for energy or bandwidth, and back).';
comment on column app.ledger_entry.account is 'address, treasury, merchant, payout, fees, network, operator, unattributed, gas or staked (explained in db/functions/ledger/post.sql).';
comment on column custody.journal.kind is 'pay: a payout. sweep: an address to the treasury. withdraw: the operator''s own money. fund: gas for the sweep of an address. defund: gas back from there. delegate: energy of the treasury''s stake for the sweep of an address. undelegate: that back. stake, unstake, reclaim: of the treasury''s coins. cancel: nothing, with the nonce of something else. authorise: the treasury may take a token from an address, for one sweep. pool: addresses were derived up to an index.';
