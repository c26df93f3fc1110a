-- Unattributed value: what arrived for nobody, and what an operator decided about it.
--
-- Value on a chain or in a token that a merchant did not ask for is in app.deposit, not credited, and stays so when chain or token are enabled
-- later. An operator alone decides about it, through the command line.

create table app.unattributed_decision (
  deposit_id uuid primary key references app.deposit,
  decision text not null check (decision in ('credit', 'return')),
  amount numeric(78, 0) not null check (amount >= 0),
  sweep_id uuid references app.spend,
  withdrawal_id uuid references app.spend,
  destination text,
  waiting_reason text,
  waiting_detail text,
  waiting_since timestamptz,
  decided_at timestamptz not null default clock_timestamp(),
  check (case decision when 'return' then destination is not null else coalesce(sweep_id, withdrawal_id) is null and destination is null end)
);
create index unattributed_decision_sweep on app.unattributed_decision (sweep_id) where sweep_id is not null;
create index unattributed_decision_withdrawal on app.unattributed_decision (withdrawal_id) where withdrawal_id is not null;
comment on table app.unattributed_decision is 'What an operator decided about value that arrived for nobody: to credit it to the merchant whose address it is, or to return it.';
comment on column app.unattributed_decision.deposit_id is 'The deposit.';
comment on column app.unattributed_decision.decision is 'credit or return.';
comment on column app.unattributed_decision.amount is 'What was credited, or what is returned, in base units: of a native coin, what the network fees of moving it from its address left.';
comment on column app.unattributed_decision.sweep_id is 'Of a return: the transaction that takes it to the treasury; null until that is begun. The last one, where it was begun again.';
comment on column app.unattributed_decision.withdrawal_id is 'Of a return: the transaction that takes it from the treasury to its destination; null until that is begun.';
comment on column app.unattributed_decision.destination is 'Of a return: where it goes to, an address on the operator''s whitelist.';
comment on column app.unattributed_decision.waiting_reason is 'Of a return: what its next transaction waits for; null while nothing is in its way.';
comment on column app.unattributed_decision.waiting_detail is 'More about that, for the operator.';
comment on column app.unattributed_decision.waiting_since is 'Since when it waits for that.';
comment on column app.unattributed_decision.decided_at is 'When it was decided.';
