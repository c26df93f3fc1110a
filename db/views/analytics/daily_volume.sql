-- What arrived, day by day, for users and for payment requests. The day is that of created_at, so no deposit ever moves to another one.
create materialized view analytics.daily_volume as
select
  v.day, app.public_id('mer', v.merchant_id) as merchant_id, m.name as merchant_name, m.prefix as merchant_prefix, v.chain, v.token,
  v.deposit_count, analytics.coins(v.amount, a.decimals) as amount, v.amount as amount_base_units,
  v.final_count, analytics.coins(v.final_amount, a.decimals) as final_amount
from (
  select (d.created_at at time zone 'UTC')::date as day, d.merchant_id, d.chain, d.token, count(*) as deposit_count, sum(d.amount) as amount,
    count(*) filter (where d.status = 'final') as final_count, coalesce(sum(d.amount) filter (where d.status = 'final'), 0) as final_amount
  from app.deposit d where d.credited and d.status <> 'reorged'
  group by 1, 2, 3, 4
) v
join app.merchant m on m.id = v.merchant_id
join app.asset a on a.chain = v.chain and a.token = v.token
with no data;
create unique index daily_volume_key on analytics.daily_volume (day, merchant_id, chain, token);
comment on materialized view analytics.daily_volume is 'Deposits of each UTC day by merchant, chain and token, receipts of payment requests included. Reorged deposits do not count; days without deposits have no row. As of the moment that analytics.freshness names.';
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
-- It is made empty. The jobs worker computes it at once, and again and again (app.refresh_analytics).
insert into app.analytics_refresh (view_name) values ('daily_volume')
on conflict (view_name) do update set refreshed_at = null, due_at = '-infinity';
