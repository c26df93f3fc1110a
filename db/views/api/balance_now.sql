-- What each merchant can be paid out, exact at every moment: the folded balances and the changes that wait to be folded, in one statement. Folding
-- moves a change from one to the other in one transaction, so it does not change this sum. app.balance_audit recomputes it from the deposits.
--
-- Readers: the API, app.create_payout, analysts (analytics.balances), the audit.
create or replace view app.balance_now with (security_barrier) as
select merchant_id, chain, token, sum(amount) as amount, sum(deposit_count)::bigint as deposit_count,
  sum(held_back) as held_back, sum(held_back_count)::bigint as held_back_count
from (
  select merchant_id, chain, token, amount, deposit_count, held_back, held_back_count from app.balance
  union all
  select merchant_id, chain, token, amount, deposit_count, held_back, held_back_count from app.balance_delta
) part
group by merchant_id, chain, token
having sum(amount) <> 0 or sum(deposit_count) <> 0 or sum(held_back) <> 0;
comment on view app.balance_now is 'The exact balance of each merchant, chain and token: final deposits that no payout has collected.';
comment on column app.balance_now.amount is 'Gross balance in base units.';
comment on column app.balance_now.deposit_count is 'Number of deposits in it.';
comment on column app.balance_now.held_back is 'The part of the gross balance that no payout can claim yet, in base units (db/functions/balances/collectable.sql).';
comment on column app.balance_now.held_back_count is 'Number of deposits in that part.';
grant select on app.balance_now to sluice_api;
