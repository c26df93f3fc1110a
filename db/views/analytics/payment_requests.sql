-- What merchants asked to be paid. Without the token of the payment page, which alone opens the page, and without the idempotency key.
create or replace view analytics.payment_requests with (security_barrier) as
select
  r.id as payment_request_uuid,
  app.public_id('mer', r.merchant_id) as merchant_id, m.name as merchant_name, m.prefix as merchant_prefix, r.external_id,
  a.name as currency, r.chain, r.token, analytics.coins(r.amount, a.decimals) as amount, r.amount as amount_base_units,
  analytics.coins(r.received, a.decimals) as received, r.received as received_base_units,
  analytics.coins(r.pending, a.decimals) as pending, r.pending as pending_base_units,
  r.status, r.late, r.txid, w.address, r.created_at, r.expires_at, r.paid_at,
  round(extract(epoch from r.paid_at - r.created_at), 3) as seconds_to_paid, r.cancelled_at, r.metadata,
  analytics.coins(r.tolerance, a.decimals) as tolerance, r.tolerance as tolerance_base_units,
  analytics.coins(greatest(r.amount - r.received, 0), a.decimals) as shortfall
from app.payment_request r
join app.merchant m on m.id = r.merchant_id
join app.asset a on a.chain = r.chain and a.token = r.token
join app.address w on w.payment_request_id = r.id and w.chain = r.chain;
comment on view analytics.payment_requests is 'One row for each payment request: an amount that a merchant asked to be paid to an address of its own, and what was paid of it.';
comment on column analytics.payment_requests.payment_request_uuid is 'Its id here, which joins payment_receipts. The API does not show it: merchants know external_id.';
comment on column analytics.payment_requests.merchant_id is 'Id of the merchant.';
comment on column analytics.payment_requests.merchant_name is 'Name of the merchant.';
comment on column analytics.payment_requests.merchant_prefix is 'The merchant''s account prefix.';
comment on column analytics.payment_requests.external_id is 'The merchant''s own reference. It begins with the prefix, so no two merchants have the same.';
comment on column analytics.payment_requests.currency is 'Name of the asset in the API, such as ETH-USDC.';
comment on column analytics.payment_requests.chain is 'Chain code.';
comment on column analytics.payment_requests.token is 'Token code. Amounts of different tokens cannot be added up.';
comment on column analytics.payment_requests.amount is 'The requested amount, in whole coins, exact.';
comment on column analytics.payment_requests.amount_base_units is 'The same amount as an integer in the smallest unit of the token.';
comment on column analytics.payment_requests.received is 'Sum of its final receipts, in whole coins. More than amount if too much was paid.';
comment on column analytics.payment_requests.received_base_units is 'The same sum as an integer in the smallest unit of the token.';
comment on column analytics.payment_requests.pending is 'Sum of its receipts that are not final yet, in whole coins.';
comment on column analytics.payment_requests.pending_base_units is 'The same sum as an integer in the smallest unit of the token.';
comment on column analytics.payment_requests.status is 'awaiting: nothing came, or too little to count as a payment. detected: money was seen, and is not enough or not final yet. paid. expired: it expired, and no more came. cancelled: the merchant cancelled it, and no more came. underpaid: it expired with less than pays it. Each status except paid may still change: late money counts.';
comment on column analytics.payment_requests.late is 'True if some of what was received came after expires_at.';
comment on column analytics.payment_requests.txid is 'Transaction with which the amount was reached; the last final one until then; null if nothing is final.';
comment on column analytics.payment_requests.address is 'The address that was made for it.';
comment on column analytics.payment_requests.created_at is 'When the merchant made it.';
comment on column analytics.payment_requests.expires_at is 'When it expires; what comes later is late.';
comment on column analytics.payment_requests.paid_at is 'When the receipt with which the amount was reached became final; null unless it is paid.';
comment on column analytics.payment_requests.seconds_to_paid is 'Seconds from created_at to paid_at: the time until the payer paid and the chain made it final.';
comment on column analytics.payment_requests.cancelled_at is 'When the merchant cancelled it; what came later is late, too. Null unless it did.';
comment on column analytics.payment_requests.metadata is 'What the merchant notes about it: an object of strings.';
comment on column analytics.payment_requests.tolerance is 'How much may be missing, in whole coins: it is paid all the same.';
comment on column analytics.payment_requests.tolerance_base_units is 'The same as an integer in the smallest unit of the token.';
comment on column analytics.payment_requests.shortfall is 'What is missing from amount, in whole coins; 0 if nothing is.';
grant select on analytics.payment_requests to sluice_analyst;
