-- What arrived for users, one row each: the view to begin with. An index finds a range of created_at, alone or with a merchant; a user; a txid; a
-- deposit_uuid. The block's time is null once the last block of the deposit has left the chain.
create or replace view analytics.deposits with (security_barrier) as
select
  app.public_id('dep', d.id) as deposit_id,
  app.public_id('mer', d.merchant_id) as merchant_id, m.name as merchant_name, m.prefix as merchant_prefix,
  app.public_id('usr', d.user_id) as user_id, u.external_ref as user_external_ref,
  d.chain, d.token, analytics.coins(d.amount, a.decimals) as amount, d.amount as amount_base_units,
  d.status, d.sender, d.address, d.txid, d.output_index, d.block_height, d.block_hash,
  t.block_time, d.created_at, d.finalised_at, round(extract(epoch from d.finalised_at - t.block_time), 3) as seconds_to_final,
  app.public_id('pay', d.settlement_id) as settlement_id,
  d.id as deposit_uuid, d.settlement_id as settlement_uuid, d.settled_before_restore,
  d.held_back and d.settlement_id is null as held_back
from app.deposit d
join app.merchant m on m.id = d.merchant_id
join app.user u on u.id = d.user_id
join app.asset a on a.chain = d.chain and a.token = d.token
left join chain.transfer t
  on t.id = d.chain || ':' || d.txid || ':' || d.output_index and t.recipient = d.address and t.block_hash = d.block_hash
where d.credited;
comment on view analytics.deposits is 'One row for each deposit of a merchant''s users that counts, or will count. What was paid for payment requests is in analytics.payment_receipts; what arrived on a chain or in a token that was not asked for is in analytics.unattributed.';
comment on column analytics.deposits.deposit_id is 'Id of the deposit, as in the API.';
comment on column analytics.deposits.merchant_id is 'Id of the merchant.';
comment on column analytics.deposits.merchant_name is 'Name of the merchant.';
comment on column analytics.deposits.merchant_prefix is 'The merchant''s account prefix: short, unique, never changes.';
comment on column analytics.deposits.user_id is 'Id of the end user that has the address, as in the API.';
comment on column analytics.deposits.user_external_ref is 'The merchant''s own id of that user.';
comment on column analytics.deposits.chain is 'Chain code, such as ETH.';
comment on column analytics.deposits.token is 'Token code, such as USDC. Amounts of different tokens cannot be added up.';
comment on column analytics.deposits.amount is 'Amount in whole coins of the token, exact.';
comment on column analytics.deposits.amount_base_units is 'The same amount as an integer in the smallest unit of the token (wei, for ether).';
comment on column analytics.deposits.status is 'pending: seen in a block that may still leave the chain. final: counts for the merchant. reorged: its block left the chain, nothing was received.';
comment on column analytics.deposits.sender is 'Address that the value came from.';
comment on column analytics.deposits.address is 'The user''s address that it arrived at.';
comment on column analytics.deposits.txid is 'Transaction id on the chain.';
comment on column analytics.deposits.output_index is 'Position inside the transaction; one transaction can hold several deposits.';
comment on column analytics.deposits.block_height is 'Height of the block that holds it, or last held it.';
comment on column analytics.deposits.block_hash is 'Hash of that block.';
comment on column analytics.deposits.block_time is 'Timestamp of that block; null while no block of the chain holds the deposit.';
comment on column analytics.deposits.created_at is 'When Sluice first saw it. Later than block_time by the lag of the indexer.';
comment on column analytics.deposits.finalised_at is 'When it became final; null if it is not.';
comment on column analytics.deposits.seconds_to_final is 'Seconds from block_time to finalised_at; null if one of them is null.';
comment on column analytics.deposits.settlement_id is 'Id of the payout that collected it, as in the API; null until then.';
comment on column analytics.deposits.deposit_uuid is 'deposit_id as a UUID, to search by: deposit_uuid = analytics.id(''dep_...'').';
comment on column analytics.deposits.settlement_uuid is 'settlement_id as a UUID, to search by: settlement_uuid = analytics.id(''pay_...''); null until a payout collected it.';
comment on column analytics.deposits.settled_before_restore is 'True if a payout that was forgotten in a restore covers it, and it is unknown which deposits that payout collected. The merchant is no longer owed it, though settlement_id is null or names a later payout.';
comment on column analytics.deposits.held_back is 'True while it is final and no payout can collect it, because its address holds too little to be worth a sweep.';
grant select on analytics.deposits to sluice_analyst;
