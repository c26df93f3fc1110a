-- What merchants received is in their balances, or went into a payout that did not fail; debts (app.adjustment) are in the balance. A payout that
-- failed here and was paid after all, by a signature that the database had forgotten, counts as failed: its debt stands for what it paid.
create or replace view audit.conservation as
select chain, token, merchant_id, sum(received) as received, sum(held) as balance_and_payouts from (
  select chain, token, merchant_id, amount as received, 0 as held from app.deposit where status = 'final' and credited
  union all select chain, token, merchant_id, 0, amount from app.balance_now
  union all select chain, token, merchant_id, 0, gross from app.payout where status <> 'failed'
  union all select chain, token, merchant_id, 0, -amount from app.adjustment where reason = 'paid_after_all'
) part group by chain, token, merchant_id having sum(received) <> sum(held);
comment on view audit.conservation is 'final deposits = balances + gross of payouts that did not fail';
comment on column audit.conservation.received is 'Sum of its final deposits, in base units.';
comment on column audit.conservation.balance_and_payouts is 'Its balance and the gross of its payouts, in base units.';
