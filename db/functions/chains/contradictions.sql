-- Servers of a chain that contradict themselves (chain.contradiction). The indexer notes this each time that it drops a server for it, and continues
-- with another server. chain.standing_contradiction shows the chains where other servers did not help.

create or replace function chain.note_contradiction(at_chain text, at_txid text, what text) returns void
language sql security definer set search_path = pg_catalog as $$
  insert into chain.contradiction as c (chain, since, seen_at, txid, message)
  values (at_chain, clock_timestamp(), clock_timestamp(), at_txid, what)
  on conflict (chain) do update set
    since = case when exists (select from chain.standing_contradiction s where s.chain = c.chain) then c.since else excluded.since end,
    seen_at = excluded.seen_at, txid = excluded.txid, message = excluded.message
$$;
comment on function chain.note_contradiction is 'Notes that servers of a chain contradicted themselves about a transaction (or null), with a message. The time of the first one stays until something new of the chain was written.';
grant execute on function chain.note_contradiction to sluice_indexer;
