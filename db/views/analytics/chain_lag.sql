-- Where each chain stands at this moment, and its age by the chain's own timestamps.
create or replace view analytics.chain_lag with (security_barrier) as
select
  c.chain, k.head_height, k.head_time, round(extract(epoch from now() - k.head_time), 3) as head_seconds_behind,
  k.final_height, f.time as final_time, round(extract(epoch from now() - f.time), 3) as final_seconds_behind,
  k.head_height - k.final_height as final_blocks_behind,
  k.last_reorg_at, k.last_reorg_depth, k.halted_at is not null as is_halted, k.halted_at
from app.chain c
left join chain.cursor k on k.chain = c.chain
left join chain.block f on f.chain = c.chain and f.height = k.final_height;
comment on view analytics.chain_lag is 'Where each chain stands now, and how far behind. A chain that was never followed has nulls.';
comment on column analytics.chain_lag.chain is 'Chain code.';
comment on column analytics.chain_lag.head_height is 'Height of the newest block that was read.';
comment on column analytics.chain_lag.head_time is 'Timestamp of that block.';
comment on column analytics.chain_lag.head_seconds_behind is 'Seconds since that timestamp. Up to the time between two blocks is normal; more means that the indexer or its node lags.';
comment on column analytics.chain_lag.final_height is 'Height of the newest final block: deposits up to it are final.';
comment on column analytics.chain_lag.final_time is 'Timestamp of that block.';
comment on column analytics.chain_lag.final_seconds_behind is 'Seconds since that timestamp: about how long a deposit takes to become final now.';
comment on column analytics.chain_lag.final_blocks_behind is 'Blocks between the newest final block and the newest block.';
comment on column analytics.chain_lag.last_reorg_at is 'When blocks last left the chain; null if that never happened.';
comment on column analytics.chain_lag.last_reorg_depth is 'How many blocks left the chain then.';
comment on column analytics.chain_lag.is_halted is 'True while the chain is halted until an operator decides about a reorganisation below the final block; null if it was never followed.';
comment on column analytics.chain_lag.halted_at is 'Since when it is halted; null if it is not.';
grant select on analytics.chain_lag to sluice_analyst;
