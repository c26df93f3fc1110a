-- The check that app.balance_audit finds nothing.
create or replace view audit.balances as select * from app.balance_audit;
comment on view audit.balances is 'each balance = the sum of its unsettled deposits and debts';
comment on column audit.balances.kept_amount is 'Gross balance as stored, in base units.';
comment on column audit.balances.counted_amount is 'Sum of the deposits and debts, in base units.';
comment on column audit.balances.kept_count is 'Number of deposits as stored.';
comment on column audit.balances.counted_count is 'Number of deposits counted.';
comment on column audit.balances.kept_held_back is 'What is held back of it, as stored, in base units.';
comment on column audit.balances.counted_held_back is 'Sum of the deposits that are held back, in base units.';
