-- The forks that this service followed, one row each, kept for ever. Settling writes them; while a chain is read again after a deep fork, it raises
-- deposits_reorged once it is known what did not come back.
create or replace view analytics.reorganisations with (security_barrier) as
select chain, happened_at, depth, first_height, old_head_hash, new_head_hash, deposits_reorged from chain.reorganisation;
comment on view analytics.reorganisations is 'One row for each time that blocks left a chain and others took their place.';
comment on column analytics.reorganisations.chain is 'Chain code.';
comment on column analytics.reorganisations.happened_at is 'When Sluice followed it.';
comment on column analytics.reorganisations.depth is 'How many blocks left the chain.';
comment on column analytics.reorganisations.first_height is 'Height of the lowest of them.';
comment on column analytics.reorganisations.old_head_hash is 'Hash of the newest block before; null where that block was not among those that left.';
comment on column analytics.reorganisations.new_head_hash is 'Hash of the newest block afterwards; null if there was none.';
comment on column analytics.reorganisations.deposits_reorged is 'How many deposits were in no block afterwards. Those that another block held then are not counted.';
grant select on analytics.reorganisations to sluice_analyst;
