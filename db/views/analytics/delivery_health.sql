-- Results of webhook deliveries, as far back as they are kept (DELIVERY_RETENTION_DAYS). Without the URL of an endpoint, which may hold a secret of
-- its merchant.
create materialized view analytics.delivery_health as
select
  (d.created_at at time zone 'UTC')::date as day,
  app.public_id('mer', w.merchant_id) as merchant_id, m.name as merchant_name, m.prefix as merchant_prefix, app.public_id('whe', w.id) as endpoint_id,
  count(*) as delivery_count, count(*) filter (where d.status = 'delivered') as delivered_count,
  count(*) filter (where d.status = 'delivered' and d.attempts = 1) as first_try_count,
  count(*) filter (where d.status = 'failed') as failed_count, count(*) filter (where d.status = 'pending') as pending_count,
  round((percentile_disc(0.5) within group (order by extract(epoch from d.finished_at - d.created_at)) filter (where d.status = 'delivered'))::numeric, 3) as seconds_p50,
  round((percentile_disc(0.95) within group (order by extract(epoch from d.finished_at - d.created_at)) filter (where d.status = 'delivered'))::numeric, 3) as seconds_p95
from app.delivery d
join app.webhook_endpoint w on w.id = d.endpoint_id
join app.merchant m on m.id = w.merchant_id
group by 1, w.merchant_id, m.name, m.prefix, w.id
with no data;
create unique index delivery_health_key on analytics.delivery_health (day, endpoint_id);
comment on materialized view analytics.delivery_health is 'Results of webhook deliveries, for each endpoint and UTC day, as far back as deliveries are kept. As of the moment that analytics.freshness names.';
comment on column analytics.delivery_health.day is 'The day, in UTC, of the events.';
comment on column analytics.delivery_health.merchant_id is 'Id of the merchant.';
comment on column analytics.delivery_health.merchant_name is 'Name of the merchant.';
comment on column analytics.delivery_health.merchant_prefix is 'The merchant''s account prefix.';
comment on column analytics.delivery_health.endpoint_id is 'Id of the endpoint, as in the API. Its URL is not for analysts.';
comment on column analytics.delivery_health.delivery_count is 'Number of deliveries: events for this endpoint.';
comment on column analytics.delivery_health.delivered_count is 'How many of them were accepted.';
comment on column analytics.delivery_health.first_try_count is 'How many of the delivered ones at the first attempt; a redelivery counts its attempts anew.';
comment on column analytics.delivery_health.failed_count is 'How many were given up.';
comment on column analytics.delivery_health.pending_count is 'How many are still being tried.';
comment on column analytics.delivery_health.seconds_p50 is 'The median of the seconds from an event to its delivery; null if none was delivered.';
comment on column analytics.delivery_health.seconds_p95 is '95 of 100 were delivered within this many seconds.';
grant select on analytics.delivery_health to sluice_analyst;
-- It is made empty. The jobs worker computes it at once, and again and again (app.refresh_analytics).
insert into app.analytics_refresh (view_name) values ('delivery_health')
on conflict (view_name) do update set refreshed_at = null, due_at = '-infinity';
