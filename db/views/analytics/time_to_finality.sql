-- How long a merchant waits for a deposit to count, from the block's own timestamp, the lag of the indexer included.
create materialized view analytics.time_to_finality as
select
  (d.finalised_at at time zone 'UTC')::date as day, d.chain, count(*) as deposit_count,
  min(s.seconds) as seconds_min,
  percentile_disc(0.5) within group (order by s.seconds) as seconds_p50,
  percentile_disc(0.95) within group (order by s.seconds) as seconds_p95,
  max(s.seconds) as seconds_max
from app.deposit d
join chain.transfer t
  on t.id = d.chain || ':' || d.txid || ':' || d.output_index and t.recipient = d.address and t.block_hash = d.block_hash
cross join lateral (select round(extract(epoch from d.finalised_at - t.block_time), 3) as seconds) s
where d.credited and d.status = 'final'
group by 1, 2
with no data;
create unique index time_to_finality_key on analytics.time_to_finality (day, chain);
comment on materialized view analytics.time_to_finality is 'How long deposits, receipts of payment requests included, took from the timestamp of their block until they were final, for each chain and UTC day. For other groups and longer times take percentiles of analytics.deposits.seconds_to_final: percentiles of days cannot be averaged. As of the moment that analytics.freshness names.';
comment on column analytics.time_to_finality.day is 'The day, in UTC, on which the deposits became final.';
comment on column analytics.time_to_finality.chain is 'Chain code.';
comment on column analytics.time_to_finality.deposit_count is 'Number of deposits.';
comment on column analytics.time_to_finality.seconds_min is 'The shortest time, in seconds.';
comment on column analytics.time_to_finality.seconds_p50 is 'The median: half of the deposits took at most this long, in seconds.';
comment on column analytics.time_to_finality.seconds_p95 is '95 of 100 deposits took at most this long, in seconds.';
comment on column analytics.time_to_finality.seconds_max is 'The longest time, in seconds. High after a standstill, because it includes the lag of the indexer.';
grant select on analytics.time_to_finality to sluice_analyst;
-- It is made empty. The jobs worker computes it at once, and again and again (app.refresh_analytics).
insert into app.analytics_refresh (view_name) values ('time_to_finality')
on conflict (view_name) do update set refreshed_at = null, due_at = '-infinity';
