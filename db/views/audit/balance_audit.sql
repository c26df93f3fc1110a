-- Compares each balance, as the API shows it (app.balance_now), with the final deposits and debts that no payout has. An allocation that is still to
-- be done for a claim or a release (app.claim) is counted as done: the balance has changed already, though the deposits do not show it yet.
create or replace view app.balance_audit as
select merchant_id, chain, token,
  coalesce(kept.amount, 0) as kept_amount, coalesce(counted.amount, 0) as counted_amount,
  coalesce(kept.deposit_count, 0) as kept_count, coalesce(counted.deposit_count, 0) as counted_count,
  coalesce(kept.held_back, 0) as kept_held_back, coalesce(counted.held_back, 0) as counted_held_back
from app.balance_now kept
full join (
  select merchant_id, chain, token, sum(amount) as amount, sum(deposit_count)::bigint as deposit_count, sum(held_back) as held_back,
    sum(held_back_count)::bigint as held_back_count
  from (
    select merchant_id, chain, token, sum(amount) as amount, count(*) as deposit_count, coalesce(sum(amount) filter (where held_back), 0) as held_back,
      count(*) filter (where held_back) as held_back_count
    from app.deposit where status = 'final' and credited and settlement_id is null group by merchant_id, chain, token
    union all
    select merchant_id, chain, token, amount, 0, 0, 0 from app.adjustment where settlement_id is null
    union all -- allocation that is still to be done
    select merchant_id, chain, token, case kind when 'claim' then done_amount - amount else amount - done_amount end,
      case kind when 'claim' then done_count - deposit_count else deposit_count - done_count end, 0, 0
    from app.claim where finished_at is null
    union all
    select d.merchant_id, d.chain, d.token, 0, 0, d.amount, 1 from app.claim c join app.deposit d on d.settlement_id = c.payout_id
    where c.kind = 'release' and c.finished_at is null and d.held_back
  ) part group by merchant_id, chain, token
) counted using (merchant_id, chain, token)
where (coalesce(kept.amount, 0), coalesce(kept.deposit_count, 0), coalesce(kept.held_back, 0), coalesce(kept.held_back_count, 0))
  <> (coalesce(counted.amount, 0), coalesce(counted.deposit_count, 0), coalesce(counted.held_back, 0), coalesce(counted.held_back_count, 0));
comment on view app.balance_audit is 'Balances that differ from the sum of their deposits. Always empty; a row is a bug.';
comment on column app.balance_audit.kept_amount is 'Gross balance as stored, in base units.';
comment on column app.balance_audit.counted_amount is 'Sum of the deposits, in base units.';
comment on column app.balance_audit.kept_count is 'Number of deposits as stored.';
comment on column app.balance_audit.counted_count is 'Number of deposits counted.';
comment on column app.balance_audit.kept_held_back is 'What is held back of it, as stored, in base units.';
comment on column app.balance_audit.counted_held_back is 'Sum of the deposits that are held back, in base units.';
