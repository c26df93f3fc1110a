-- Tokens whose contracts take no authorisations are swept by the address itself, with gas that the treasury sends it: a
-- fund, which is an outgoing payment from the treasury to the address. What is left of the gas stays the operator's, in
-- app.gas, beside what the address holds for its merchant.
alter table app.asset add column if not exists sweep_by text;

alter table app.outgoing_payment add column if not exists for_token text;

alter table app.outgoing_payment add column if not exists from_gas boolean not null default false;

alter table app.outgoing_payment drop constraint if exists outgoing_payment_kind,
  add constraint outgoing_payment_kind check (kind in ('payout', 'sweep', 'withdrawal', 'cancel', 'fund')) not valid;

alter table app.outgoing_payment validate constraint outgoing_payment_kind;

alter table app.outgoing_payment drop constraint if exists outgoing_payment_for_token,
  add constraint outgoing_payment_for_token check (for_token is null or kind = 'fund') not valid;

alter table app.outgoing_payment validate constraint outgoing_payment_for_token;

drop index concurrently if exists app.outgoing_payment_one_fund;

create unique index concurrently outgoing_payment_one_fund on app.outgoing_payment (chain, recipient)
  where kind = 'fund' and status <> 'final' and not recovered;

alter table app.ledger_entry drop constraint if exists ledger_entry_kind_check, drop constraint if exists ledger_entry_kind,
  add constraint ledger_entry_kind check (kind in ('deposit', 'top_up', 'reorg', 'claim', 'release', 'payout', 'sweep',
    'withdrawal', 'return', 'network_fee', 'second_payment', 'fund')) not valid;

alter table app.ledger_entry validate constraint ledger_entry_kind;

alter table app.ledger_entry drop constraint if exists ledger_entry_account_check, drop constraint if exists ledger_entry_account_name,
  add constraint ledger_entry_account_name check (account in ('address', 'treasury', 'merchant', 'payout', 'fees', 'network',
    'operator', 'unattributed', 'gas')) not valid;

alter table app.ledger_entry validate constraint ledger_entry_account_name;

alter table custody.journal drop constraint if exists journal_kind_check, drop constraint if exists journal_kind,
  add constraint journal_kind check (kind in ('pay', 'sweep', 'withdraw', 'cancel', 'authorise', 'pool', 'fund')) not valid;

alter table custody.journal validate constraint journal_kind;
-- Transaction
create table app.gas (
  chain text not null,
  address text not null,
  amount numeric not null default 0,
  reserved numeric not null default 0,
  primary key (chain, address)
);
comment on table app.gas is 'The operator''s native coins on deposit addresses: what funds brought, less what the addresses'' own transactions cost.';
comment on column app.gas.address is 'The deposit address.';
comment on column app.gas.amount is 'Sum of the account gas for the address, in base units.';
comment on column app.gas.reserved is 'Highest network fees of the address''s sweeps under way, in base units.';
grant select on app.gas to sluice_jobs;

comment on column app.asset.sweep_by is 'How addresses are swept: fund, the treasury sends them gas for a transfer of their own; eip3009, it takes what they authorise. Null where the chain knows one way only.';
comment on column app.outgoing_payment.kind is 'payout, sweep, withdrawal, fund (gas for the sweep of an address), or cancel: a nonce that only has to be used up, because its payout went on without it, or because nobody knows what it was for.';
comment on column app.outgoing_payment.for_token is 'Of a fund: the token whose sweep it is for; else null.';
comment on column app.outgoing_payment.from_gas is 'Whether its network fee is paid with gas on its address (app.gas): it sweeps a token, and the address pays.';
comment on column app.ledger_entry.kind is 'deposit (deposits became final, or an operator credited one), top_up (the treasury was paid), reorg (a final deposit was taken back), claim and release (of a payout), payout, sweep, withdrawal, return (of unattributed value, in each of its steps), network_fee, second_payment (what left although its payment had ended), fund (gas for an address).';
comment on column app.ledger_entry.account is 'address, treasury, merchant, payout, fees, network, operator, unattributed or gas (explained in db/functions/ledger/post.sql).';
comment on column app.ledger_entry.address is 'The address, for the accounts address and gas; else null.';
comment on column custody.journal.kind is 'pay: a payout. sweep: an address to the treasury. withdraw: the operator''s own money. fund: gas for the sweep of an address. cancel: nothing, with the nonce of something else. authorise: the treasury may take a token from an address, for one sweep. pool: addresses were derived up to an index.';
