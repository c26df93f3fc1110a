-- How many blocks each chain's indexer followed, and how many of them left the chain again. Each single fork is in analytics.reorganisations.
create or replace view analytics.daily_blocks with (security_barrier) as
select day, chain, followed as followed_count, replaced as replaced_count, final_height from chain.daily_blocks;
comment on view analytics.daily_blocks is 'The blocks that were followed and replaced, for each chain and UTC day.';
comment on column analytics.daily_blocks.day is 'The day, in UTC, on which Sluice followed them; not the day of their timestamps.';
comment on column analytics.daily_blocks.chain is 'Chain code.';
comment on column analytics.daily_blocks.followed_count is 'Blocks that were added to the chain, those that were replaced later and those that were read again after a rewind included.';
comment on column analytics.daily_blocks.replaced_count is 'Blocks that left the chain because others took their place.';
comment on column analytics.daily_blocks.final_height is 'The newest final block at the end of the day, or now; null of days from before this was noted.';
grant select on analytics.daily_blocks to sluice_analyst;
