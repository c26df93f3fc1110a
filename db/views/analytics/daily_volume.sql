-- What arrived, day by day, for users and for payment requests. The day is that of created_at, so no deposit ever moves to another one. Days that have
-- ended are summed up once, and again when one of their deposits changes (app.sum_up_deposit_days), the others here.
create or replace view analytics.daily_volume with (security_barrier) as
select
  v.day, app.public_id('mer', v.merchant_id) as merchant_id, m.name as merchant_name, m.prefix as merchant_prefix, v.chain, v.token,
  v.deposit_count, analytics.coins(v.amount, a.decimals) as amount, v.amount as amount_base_units,
  v.final_count, analytics.coins(v.final_amount, a.decimals) as final_amount
from (
  select day, merchant_id, chain, token, deposit_count, amount, final_count, final_amount from app.deposit_day
  union all
  select (d.created_at at time zone 'UTC')::date, d.merchant_id, d.chain, d.token, count(*), sum(d.amount),
    count(*) filter (where d.status = 'final'), coalesce(sum(d.amount) filter (where d.status = 'final'), 0)
  from app.open_deposit d group by 1, 2, 3, 4
) v
left join app.merchant m on m.id = v.merchant_id
left join app.asset a on a.chain = v.chain and a.token = v.token;
comment on view analytics.daily_volume is 'Deposits of each UTC day by merchant, chain and token, receipts of payment requests included. Reorged deposits do not count; days without deposits have no row. What changes a deposit that is older than a day shows within a minute.';
comment on column analytics.daily_volume.day is 'The day, in UTC, on which Sluice first saw the deposits (created_at). A deposit never moves to another day.';
comment on column analytics.daily_volume.merchant_id is 'Id of the merchant.';
comment on column analytics.daily_volume.merchant_name is 'Name of the merchant.';
comment on column analytics.daily_volume.merchant_prefix is 'The merchant''s account prefix.';
comment on column analytics.daily_volume.chain is 'Chain code.';
comment on column analytics.daily_volume.token is 'Token code.';
comment on column analytics.daily_volume.deposit_count is 'Number of deposits, pending and final.';
comment on column analytics.daily_volume.amount is 'Their sum in whole coins, exact.';
comment on column analytics.daily_volume.amount_base_units is 'The same sum as an integer in the smallest unit of the token.';
comment on column analytics.daily_volume.final_count is 'How many of these deposits are final.';
comment on column analytics.daily_volume.final_amount is 'The sum of the final deposits, in whole coins; the rest is still pending.';
grant select on analytics.daily_volume to sluice_analyst;
