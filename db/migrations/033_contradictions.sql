-- What keeps a chain from going on although its servers answer: they contradict themselves, or what they showed before.
--
-- Written by the indexer each time that it drops a server because of what that answered. It is an observation and decides nothing.

create table chain.contradiction (
  chain text primary key,
  since timestamptz not null,
  seen_at timestamptz not null,
  txid text,
  message text not null
);
comment on table chain.contradiction is 'The last time that servers of a chain contradicted themselves. While blocks come in nevertheless, another server told the truth.';
comment on column chain.contradiction.chain is 'Chain code.';
comment on column chain.contradiction.since is 'When that began; nothing new of the chain was written from then until seen_at.';
comment on column chain.contradiction.seen_at is 'When it was seen last.';
comment on column chain.contradiction.txid is 'The transaction that they contradict themselves about; null where it is about something else.';
comment on column chain.contradiction.message is 'What is wrong with what they answer.';

create view chain.standing_contradiction as
select k.chain, k.since, k.txid, k.message from chain.contradiction k
where k.seen_at > clock_timestamp() - interval '2 minutes' -- an indexer that meets one looks again every few seconds
  and not exists (select from chain.cursor c where c.chain = k.chain and c.head_moved_at > k.since);
comment on view chain.standing_contradiction is 'Chains of which nothing new can be written now, because all servers that are asked contradict themselves.';
comment on column chain.standing_contradiction.chain is 'Chain code.';
comment on column chain.standing_contradiction.since is 'Since when.';
comment on column chain.standing_contradiction.txid is 'The transaction that they contradict themselves about; null where it is about something else.';
comment on column chain.standing_contradiction.message is 'What is wrong with what they answer.';

create function chain.note_contradiction(at_chain text, at_txid text, what text) returns void
language sql security definer set search_path = pg_catalog as $$
  insert into chain.contradiction as c (chain, since, seen_at, txid, message)
  values (at_chain, clock_timestamp(), clock_timestamp(), at_txid, what)
  on conflict (chain) do update set
    since = case when exists (select from chain.standing_contradiction s where s.chain = c.chain) then c.since else excluded.since end,
    seen_at = excluded.seen_at, txid = excluded.txid, message = excluded.message
$$;
comment on function chain.note_contradiction is 'Servers of a chain, given its code, contradicted themselves about a transaction (or null), in these words.';
grant execute on function chain.note_contradiction to sluice_indexer;

create function app.contradiction_metrics() returns table (metric text, labels json, value double precision)
language sql stable set search_path = pg_catalog as $$
  select 'sluice_chain_contradicted_seconds', json_build_object('chain', s.chain, 'txid', coalesce(s.txid, 'none')),
    extract(epoch from clock_timestamp() - s.since)
  from chain.standing_contradiction s
$$;

-- As in 030_compare_addresses.sql, and besides: contradictions.
create or replace function app.metrics() returns table (metric text, labels json, value double precision)
language plpgsql stable security definer set search_path = pg_catalog as $$
begin
  return query
    select * from app.chain_metrics()
    union all
    select * from app.contradiction_metrics()
    union all
    select * from app.upkeep_metrics()
    union all
    select * from app.payout_metrics()
    union all
    select * from app.payment_metrics()
    union all
    select * from app.comparison_metrics();
end $$;
