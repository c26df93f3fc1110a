-- What the endpoints of merchants responded, as far back as attempts are kept (DELIVERY_RETENTION_DAYS). Without their URLs, which may hold secrets.
create materialized view analytics.webhook_responses as
select
  (t.attempted_at at time zone 'UTC')::date as day,
  app.public_id('mer', w.merchant_id) as merchant_id, m.name as merchant_name, m.prefix as merchant_prefix, app.public_id('whe', w.id) as endpoint_id,
  coalesce(t.response_status, 0) as response_status, count(*) as attempt_count,
  percentile_disc(0.5) within group (order by t.duration_ms) as duration_ms_p50,
  percentile_disc(0.95) within group (order by t.duration_ms) as duration_ms_p95
from app.delivery_attempt t
join app.delivery d on d.id = t.delivery_id
join app.webhook_endpoint w on w.id = d.endpoint_id
join app.merchant m on m.id = w.merchant_id
group by 1, w.merchant_id, m.name, m.prefix, w.id, 6
with no data;
create unique index webhook_responses_key on analytics.webhook_responses (day, endpoint_id, response_status);
comment on materialized view analytics.webhook_responses is 'How often the endpoints of merchants responded with each HTTP status, for each UTC day, as far back as attempts are kept. As of the moment that analytics.freshness names.';
comment on column analytics.webhook_responses.day is 'The day, in UTC, of the attempts.';
comment on column analytics.webhook_responses.merchant_id is 'Id of the merchant.';
comment on column analytics.webhook_responses.merchant_name is 'Name of the merchant.';
comment on column analytics.webhook_responses.merchant_prefix is 'The merchant''s account prefix.';
comment on column analytics.webhook_responses.endpoint_id is 'Id of the endpoint, as in the API. Its URL is not for analysts.';
comment on column analytics.webhook_responses.response_status is 'HTTP status; 0 if there was no response.';
comment on column analytics.webhook_responses.attempt_count is 'Number of attempts; a delivery may take several.';
comment on column analytics.webhook_responses.duration_ms_p50 is 'The median of the milliseconds until the response, or until it was given up.';
comment on column analytics.webhook_responses.duration_ms_p95 is '95 of 100 attempts took at most this many milliseconds.';
grant select on analytics.webhook_responses to sluice_analyst;
-- It is made empty. The jobs worker computes it at once, and again and again (app.refresh_analytics).
insert into app.analytics_refresh (view_name) values ('webhook_responses')
on conflict (view_name) do update set refreshed_at = null, due_at = '-infinity';
