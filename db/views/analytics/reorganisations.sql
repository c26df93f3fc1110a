-- The forks that this service followed, one row each, kept for ever. chain.derive writes them. While a chain is read again after a deep fork,
-- deposits_reorged rises when deposits are known not to come back.
create or replace view analytics.reorganisations with (security_barrier) as
select chain, happened_at, depth, first_height, old_head_hash, new_head_hash, deposits_reorged from chain.reorganisation;
comment on view analytics.reorganisations is 'One row for each time that blocks left a chain and others replaced them.';
comment on column analytics.reorganisations.chain is 'Chain code.';
comment on column analytics.reorganisations.happened_at is 'When Sluice followed it.';
comment on column analytics.reorganisations.depth is 'How many blocks left the chain.';
comment on column analytics.reorganisations.first_height is 'Height of the lowest of them.';
comment on column analytics.reorganisations.old_head_hash is 'Hash of the newest block before; null if that block did not leave the chain.';
comment on column analytics.reorganisations.new_head_hash is 'Hash of the newest block afterwards; null if there was none.';
comment on column analytics.reorganisations.deposits_reorged is 'How many deposits were in no block afterwards. Deposits that were in another block by then are not counted.';
grant select on analytics.reorganisations to sluice_analyst;
