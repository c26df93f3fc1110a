-- Gas that an address is not likely to use goes back to the treasury by a defund, an outgoing payment from the address. For
-- that, app.gas says when the gas was last used.
alter table app.gas add column if not exists used_at timestamptz not null default now();

drop index concurrently if exists app.gas_largest;

create index concurrently gas_largest on app.gas (chain, amount desc) where amount > 0;

alter table app.outgoing_payment drop constraint if exists outgoing_payment_kind,
  add constraint outgoing_payment_kind check (kind in ('payout', 'sweep', 'withdrawal', 'cancel', 'fund', 'defund')) not valid;

alter table app.outgoing_payment validate constraint outgoing_payment_kind;

alter table app.ledger_entry drop constraint if exists ledger_entry_kind,
  add constraint ledger_entry_kind check (kind in ('deposit', 'top_up', 'reorg', 'claim', 'release', 'payout', 'sweep',
    'withdrawal', 'return', 'network_fee', 'second_payment', 'fund', 'defund')) not valid;

alter table app.ledger_entry validate constraint ledger_entry_kind;

alter table custody.journal drop constraint if exists journal_kind,
  add constraint journal_kind check (kind in ('pay', 'sweep', 'withdraw', 'cancel', 'authorise', 'pool', 'fund', 'defund')) not valid;

alter table custody.journal validate constraint journal_kind;
-- Transaction
comment on table app.gas is 'The operator''s native coins on deposit addresses: what funds brought, less what the addresses'' own transactions cost and defunds took back.';
comment on column app.gas.reserved is 'Highest network fees of the address''s sweeps and defunds under way, and what these defunds move, in base units.';
comment on column app.gas.used_at is 'When its amount, or what is reserved, last changed.';

comment on column app.outgoing_payment.kind is 'payout, sweep, withdrawal, fund (gas for the sweep of an address), defund (gas that its address does not need, back to the treasury), or cancel: a nonce that only has to be used up, because its payout went on without it, or because nobody knows what it was for.';
comment on column app.outgoing_payment.from_gas is 'Whether its network fee is paid with gas on its address (app.gas), and the address pays: it sweeps a token, or is a defund.';
comment on column app.ledger_entry.kind is 'deposit (deposits became final, or an operator credited one), top_up (the treasury was paid), reorg (a final deposit was taken back), claim and release (of a payout), payout, sweep, withdrawal, return (of unattributed value, in each of its steps), network_fee, second_payment (what left although its payment had ended), fund (gas for an address), defund (gas of an address, back to the treasury).';
comment on column custody.journal.kind is 'pay: a payout. sweep: an address to the treasury. withdraw: the operator''s own money. fund: gas for the sweep of an address. defund: gas back from there. cancel: nothing, with the nonce of something else. authorise: the treasury may take a token from an address, for one sweep. pool: addresses were derived up to an index.';
