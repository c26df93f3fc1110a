-- What was paid for payment requests, by the same definition as their status (app.receipt). Separate from analytics.deposits, because a receipt has
-- no user and no event. To sum up what arrived, use both views.
create or replace view analytics.payment_receipts with (security_barrier) as
select
  app.public_id('dep', c.deposit_id) as deposit_id, c.payment_request_id as payment_request_uuid, c.external_id,
  app.public_id('mer', c.merchant_id) as merchant_id, m.name as merchant_name, m.prefix as merchant_prefix,
  c.chain, c.token, analytics.coins(c.amount, a.decimals) as amount, c.amount as amount_base_units, c.status, c.late,
  c.sender, c.address, c.txid, c.output_index, c.block_height, c.created_at, c.finalised_at,
  app.public_id('pay', c.settlement_id) as settlement_id, c.deposit_id as deposit_uuid, c.settlement_id as settlement_uuid,
  d.settled_before_restore, d.held_back and d.settlement_id is null as held_back
from app.receipt c
join app.deposit d on d.id = c.deposit_id
join app.merchant m on m.id = c.merchant_id
join app.asset a on a.chain = c.chain and a.token = c.token;
comment on view analytics.payment_receipts is 'One row for each payment that counts, or will count, for a payment request. It is no deposit of a user, so it is not in analytics.deposits and analytics.events. A reorged payment is no receipt, and is not here.';
comment on column analytics.payment_receipts.deposit_id is 'Its id, as operators see it in incidents; the API does not show it.';
comment on column analytics.payment_receipts.payment_request_uuid is 'The payment request, as in analytics.payment_requests.';
comment on column analytics.payment_receipts.external_id is 'The merchant''s own reference of that request.';
comment on column analytics.payment_receipts.merchant_id is 'Id of the merchant.';
comment on column analytics.payment_receipts.merchant_name is 'Name of the merchant.';
comment on column analytics.payment_receipts.merchant_prefix is 'The merchant''s account prefix.';
comment on column analytics.payment_receipts.chain is 'Chain code.';
comment on column analytics.payment_receipts.token is 'Token code. Amounts of different tokens cannot be added up.';
comment on column analytics.payment_receipts.amount is 'Amount in whole coins of the token, exact.';
comment on column analytics.payment_receipts.amount_base_units is 'The same amount as an integer in the smallest unit of the token.';
comment on column analytics.payment_receipts.status is 'pending: seen, and may still leave the chain. final: counts for the merchant.';
comment on column analytics.payment_receipts.late is 'True if it was neither seen nor mined before the request expired.';
comment on column analytics.payment_receipts.sender is 'Address that the value came from.';
comment on column analytics.payment_receipts.address is 'The request''s address that it arrived at.';
comment on column analytics.payment_receipts.txid is 'Transaction id on the chain.';
comment on column analytics.payment_receipts.output_index is 'Position inside the transaction.';
comment on column analytics.payment_receipts.block_height is 'Height of the block that holds it; null while it is in none.';
comment on column analytics.payment_receipts.created_at is 'When Sluice first saw it.';
comment on column analytics.payment_receipts.finalised_at is 'When it became final; null if it is not.';
comment on column analytics.payment_receipts.settlement_id is 'Id of the payout that collected it, as in the API; null until then.';
comment on column analytics.payment_receipts.deposit_uuid is 'deposit_id as a UUID, to search by: deposit_uuid = analytics.id(''dep_...'').';
comment on column analytics.payment_receipts.settlement_uuid is 'settlement_id as a UUID, to search by: settlement_uuid = analytics.id(''pay_...''); null until a payout collected it.';
comment on column analytics.payment_receipts.settled_before_restore is 'True if a payout that was forgotten in a restore covers it, and it is unknown which deposits that payout collected. The merchant is no longer owed it, though settlement_id is null or names a later payout.';
comment on column analytics.payment_receipts.held_back is 'True while it is final and no payout can collect it, because its address holds too little to be worth a sweep.';
grant select on analytics.payment_receipts to sluice_analyst;
