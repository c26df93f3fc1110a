-- A row is a deposit that no transfer of its chain proves. Left out: what an incident explains; an unconfirmed deposit, as long as the indexer still
-- sees it; one that is being read again (chain.awaited), for as long as that may take and five minutes more.
create or replace view audit.deposits_are_on_the_chain as
select d.id, d.chain, d.txid, d.output_index, d.status from app.deposit d
left join chain.transfer t on t.id = d.chain || ':' || d.txid || ':' || d.output_index
  and t.recipient = d.address and t.token = d.token and t.amount = d.amount and t.block_height = d.block_height and t.block_hash = d.block_hash
where d.status <> 'reorged' and t.id is null
  and not exists (select from app.known_incident k where k.subject = d.id::text and k.kind like 'final\_deposit\_%')
  and not (d.status = 'pending' and d.block_height is null and exists (select from chain.unconfirmed u
    where u.id = d.chain || ':' || d.txid || ':' || d.output_index and u.recipient = d.address and u.amount = d.amount))
  and not (d.status = 'pending' and exists (select from chain.awaited w
    where w.id = d.chain || ':' || d.txid || ':' || d.output_index and w.since > clock_timestamp() - chain.longest_wait() - interval '5 minutes'));
comment on view audit.deposits_are_on_the_chain is 'every deposit that is not reorged is the one transfer that the chain holds, or that is on its way into a block, or is being read again';
comment on column audit.deposits_are_on_the_chain.id is 'The deposit.';
comment on column audit.deposits_are_on_the_chain.output_index is 'Position inside the transaction.';
comment on column audit.deposits_are_on_the_chain.status is 'Status of the deposit.';
