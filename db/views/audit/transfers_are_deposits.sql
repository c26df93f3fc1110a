-- A row is value on the chain that reached an address of ours and has no deposit. Left out: what an address of ours
-- sent, and what reached the treasury (an address without a merchant) by a transaction of ours; what an incident holds
-- back because another payment at its position is final.
create or replace view audit.transfers_are_deposits as
select t.id, t.recipient, t.token, t.amount, t.block_height from chain.transfer t
join app.address a on a.chain = t.chain and a.address = t.recipient
where not exists (select from app.deposit d where d.txid = t.txid and d.output_index = t.output_index and d.chain = t.chain
    and d.address = t.recipient and d.token = t.token and d.status <> 'reorged')
  and not exists (select from custody.address own where own.address = t.sender)
  and not (a.merchant_id is null and exists (select from app.outgoing_attempt o where o.chain = t.chain and o.txid = t.txid))
  and not exists (select from app.known_incident k where k.subject = t.id and k.kind = 'payment_replaced');
comment on view audit.transfers_are_deposits is 'everything that the chain shows to have reached an address of ours is a deposit, or what we sent ourselves';
comment on column audit.transfers_are_deposits.id is 'The transfer: <chain>:<txid>:<output index>.';
comment on column audit.transfers_are_deposits.recipient is 'Our address.';
comment on column audit.transfers_are_deposits.token is 'Token code, or the contract address of a token that is not supported.';
comment on column audit.transfers_are_deposits.amount is 'Amount in base units.';
comment on column audit.transfers_are_deposits.block_height is 'The block that holds it.';
