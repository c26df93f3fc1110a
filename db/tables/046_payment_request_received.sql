-- The search finds payment requests by what came, where that is not what was asked for.
drop index concurrently if exists app.payment_request_received;

create index concurrently payment_request_received on app.payment_request (merchant_id, chain, token, received, seq desc)
  where received <> amount and received > 0;
-- Transaction
