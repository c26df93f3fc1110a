-- Compares the totals that statements and charts are made of with the balances, and with each other: all that ever changed a balance adds up to it. Of a
-- database whose older ledger is not read yet, only what is held back is compared.
create or replace view audit.running_totals as
with total as (
  select merchant_id, series, about, sum(amount) as amount from (
    select distinct on (merchant_id, series, about) merchant_id, series, about, amount from app.running_total
    order by merchant_id, series, about, until desc) last
  group by 1, 2, 3
  union all
  select merchant_id, series, about, sum(amount) from app.total_change group by 1, 2, 3
), summed as (
  select merchant_id, about, coalesce(sum(amount) filter (where series = 'balance'), 0) as balance,
    coalesce(sum(amount) filter (where series in ('deposit', 'deposit_lost', 'payout', 'fee', 'adjustment')), 0) as changes,
    coalesce(sum(amount) filter (where series = 'held_back'), 0) as held_back
  from total where series in ('balance', 'held_back', 'deposit', 'deposit_lost', 'payout', 'fee', 'adjustment') group by 1, 2
)
select merchant_id, asset, coalesce(b.amount, 0) as balance, coalesce(s.balance, 0) as total_balance, coalesce(s.changes, 0) as total_changes,
  coalesce(b.held_back, 0) as held_back, coalesce(s.held_back, 0) as total_held_back
from (select merchant_id, chain || ':' || token as asset, amount, held_back from app.balance_now) b
full join (select merchant_id, about as asset, balance, changes, held_back from summed) s using (merchant_id, asset)
where coalesce(b.held_back, 0) <> coalesce(s.held_back, 0)
  or ((coalesce(b.amount, 0), coalesce(b.amount, 0)) <> (coalesce(s.balance, 0), coalesce(s.changes, 0))
    and not exists (select from app.total_backfill where done_up_to < last_entry));
comment on view audit.running_totals is 'the totals behind statements = the balances, and all that changed these';
comment on column audit.running_totals.asset is 'CHAIN:TOKEN.';
comment on column audit.running_totals.balance is 'The balance, in base units.';
comment on column audit.running_totals.total_balance is 'Its running total.';
comment on column audit.running_totals.total_changes is 'The sum of the running totals of what changed it.';
comment on column audit.running_totals.held_back is 'What is held back, in base units.';
comment on column audit.running_totals.total_held_back is 'Its running total.';
