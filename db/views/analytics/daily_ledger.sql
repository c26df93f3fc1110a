-- The ledger by day, for sums over everything: analytics.earnings and analytics.merchant_totals are made from it. Entries never change, so a past
-- day never changes: days that have ended are summed up once (app.sum_up_ledger_days), the others here.
create or replace view analytics.daily_ledger with (security_barrier) as
select
  e.day, e.kind, e.account, e.chain, e.token,
  app.public_id('mer', e.merchant_id) as merchant_id, m.name as merchant_name, m.prefix as merchant_prefix,
  analytics.coins(e.amount, a.decimals) as amount, e.amount as amount_base_units, e.entry_count
from (
  select day, kind, account, chain, token, merchant_id, amount, entry_count from app.ledger_day
  union all
  select (created_at at time zone 'UTC')::date, kind, account, chain, token, merchant_id, sum(amount), count(*)
  from app.open_ledger_entry group by 1, 2, 3, 4, 5, 6
) e
left join app.merchant m on m.id = e.merchant_id
left join app.asset a on a.chain = e.chain and a.token = e.token;
comment on view analytics.daily_ledger is 'The ledger summed up by UTC day, kind, account, chain, token and merchant.';
comment on column analytics.daily_ledger.day is 'The day, in UTC, on which the entries were posted.';
comment on column analytics.daily_ledger.kind is 'What moved, as in analytics.ledger.';
comment on column analytics.daily_ledger.account is 'Account, as in analytics.ledger.';
comment on column analytics.daily_ledger.chain is 'Chain code.';
comment on column analytics.daily_ledger.token is 'Token code.';
comment on column analytics.daily_ledger.merchant_id is 'Id of the merchant; null for the operator''s own and for unattributed value.';
comment on column analytics.daily_ledger.merchant_name is 'Name of the merchant.';
comment on column analytics.daily_ledger.merchant_prefix is 'The merchant''s account prefix.';
comment on column analytics.daily_ledger.amount is 'Sum of the entries in whole coins, exact: debits positive, credits negative.';
comment on column analytics.daily_ledger.amount_base_units is 'The same sum as an integer in the smallest unit of the token.';
comment on column analytics.daily_ledger.entry_count is 'Number of entries.';
grant select on analytics.daily_ledger to sluice_analyst;
