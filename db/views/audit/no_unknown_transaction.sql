-- A row is a transaction that an address of ours sent, and that is neither stored here nor in custody's journal: another party has the keys, or the
-- database is an older copy.
-- Transactions of an incident that is open or kept are left out.
create or replace view audit.no_unknown_transaction as
select i.id, i.account, i.conflict_key from chain.confirmed_tx i
where not exists (select from app.outgoing_attempt o where o.chain = i.chain and o.txid = i.txid)
  and not exists (select from custody.journal j where j.stream = i.chain and j.txid = i.txid)
  and not exists (select from app.unknown_transaction u join app.incident k on k.id = u.incident_id
    where u.chain = i.chain and u.txid = i.txid and (k.resolved_at is null or k.resolution = 'kept'));
comment on view audit.no_unknown_transaction is 'every transaction that an address of ours sent was signed by custody, or stored before';
comment on column audit.no_unknown_transaction.id is 'The transaction in a block: <chain>:<txid>, on Bitcoin with the position of the input.';
comment on column audit.no_unknown_transaction.account is 'Our address whose key it used.';
comment on column audit.no_unknown_transaction.conflict_key is 'What it used up: address:nonce, or on Bitcoin the output that it spends (txid:vout).';
