-- The age of each materialised view. All rows of a view show the same moment. If computing one failed, app.analytics_refresh has the reason, for
-- operators.
create or replace view analytics.freshness with (security_barrier) as
select view_name, refreshed_at, round(extract(epoch from now() - refreshed_at), 3) as age_seconds, took_seconds, due_at, failed_at
from app.analytics_refresh;
comment on view analytics.freshness is 'The age of the materialised views. Every other view is computed as it is read.';
comment on column analytics.freshness.view_name is 'Name of the view.';
comment on column analytics.freshness.refreshed_at is 'The moment whose state it shows; null before it was computed for the first time.';
comment on column analytics.freshness.age_seconds is 'Seconds since then.';
comment on column analytics.freshness.took_seconds is 'How long it took to compute.';
comment on column analytics.freshness.due_at is 'When it will be computed again: each view takes at most a fiftieth of the time.';
comment on column analytics.freshness.failed_at is 'When computing it failed; null if it succeeded the last time. The log of the database says why.';
grant select on analytics.freshness to sluice_analyst;
