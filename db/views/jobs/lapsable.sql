-- The transactions that may have expired: signed by custody, in no block, and past their end. The indexer of the chain proves it or does not.
create or replace view chain.lapsable as
select f.chain, f.txid, j.raw, j.source, j.lifetime_from, j.lifetime_end,
  case when c.followed_from > j.lifetime_from + 1 then format(
    'blocks %s to %s were not followed (a gap was accepted, or the chain was started later), so no absence can be proven',
    j.lifetime_from + 1, c.followed_from - 1) end as not_followed
from app.attempt_fate f join custody.journal j on j.stream = f.chain and j.seq = f.seq join chain.cursor c on c.chain = f.chain
where f.fate = 'open' and j.lifetime_end is not null and chain.is_past_end(j);
comment on view chain.lapsable is 'Transactions of ours that are in no block and past their end, and are not proven to have expired.';
comment on column chain.lapsable.raw is 'Its signed bytes.';
comment on column chain.lapsable.source is 'The address whose coins it moves.';
comment on column chain.lapsable.lifetime_from is 'No block at or below this height can hold it.';
comment on column chain.lapsable.lifetime_end is 'Its end: a height, or the time of a block in ms.';
comment on column chain.lapsable.not_followed is 'Why its absence can never be proven, if blocks that may hold it were not read; else null.';
grant select on chain.lapsable to sluice_indexer;
