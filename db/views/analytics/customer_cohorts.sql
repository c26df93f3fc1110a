-- Which end users come back. A user's month is that of the first final deposit. A receipt of a payment request has no user.
create materialized view analytics.customer_cohorts as
with active as (
  select d.merchant_id, d.user_id, date_trunc('month', d.created_at at time zone 'UTC')::date as month, count(*) as deposits
  from app.deposit d where d.credited and d.status = 'final' and d.user_id is not null group by 1, 2, 3
), counted as (
  select a.merchant_id, a.first_month, a.month, count(*) as users, sum(a.deposits)::bigint as deposits
  from (select *, min(month) over (partition by user_id) as first_month from active) a group by 1, 2, 3
)
select
  app.public_id('mer', c.merchant_id) as merchant_id, m.name as merchant_name, m.prefix as merchant_prefix, c.first_month as cohort_month,
  ((extract(year from c.month) - extract(year from c.first_month)) * 12 + extract(month from c.month) - extract(month from c.first_month))::int as months_later,
  first_value(c.users) over (partition by c.merchant_id, c.first_month order by c.month) as cohort_users,
  c.users as active_users, c.deposits as deposit_count
from counted c
join app.merchant m on m.id = c.merchant_id
with no data;
create unique index customer_cohorts_key on analytics.customer_cohorts (merchant_id, cohort_month, months_later);
comment on materialized view analytics.customer_cohorts is 'End users by the month of their first deposit, and how many of them paid again how many months later. Only final deposits; months without any have no row. As of the moment that analytics.freshness names.';
comment on column analytics.customer_cohorts.merchant_id is 'Id of the merchant.';
comment on column analytics.customer_cohorts.merchant_name is 'Name of the merchant.';
comment on column analytics.customer_cohorts.merchant_prefix is 'The merchant''s account prefix.';
comment on column analytics.customer_cohorts.cohort_month is 'First day of the UTC month in which the users'' first final deposit was seen.';
comment on column analytics.customer_cohorts.months_later is 'How many calendar months after that month the row is about; 0 is the month itself.';
comment on column analytics.customer_cohorts.cohort_users is 'Number of users whose first deposit was in cohort_month.';
comment on column analytics.customer_cohorts.active_users is 'How many of them had a deposit in the month that the row is about.';
comment on column analytics.customer_cohorts.deposit_count is 'Number of deposits of these active users.';
grant select on analytics.customer_cohorts to sluice_analyst;
-- It is made empty. The jobs worker computes it at once, and again and again (app.refresh_analytics).
insert into app.analytics_refresh (view_name) values ('customer_cohorts')
on conflict (view_name) do update set refreshed_at = null, due_at = '-infinity';
