-- Why a chain is not followed although its servers respond. sluice status and the metrics show it; nothing is decided by it.
create or replace view chain.standing_contradiction as
select k.chain, k.since, k.txid, k.message from chain.contradiction k
where k.seen_at > clock_timestamp() - interval '2 minutes' -- an indexer that meets one polls again every few seconds
  and not exists (select from chain.cursor c where c.chain = k.chain and c.head_moved_at > k.since);
comment on view chain.standing_contradiction is 'Chains of which nothing new can be written now, because all servers that are asked contradict themselves.';
comment on column chain.standing_contradiction.txid is 'The transaction that they contradict themselves about; null if it is about something else.';
comment on column chain.standing_contradiction.message is 'What is wrong with their responses.';
