-- The search finds payment requests by what came, where that is not what was asked for.
drop index concurrently if exists app.payment_request_received;

create index concurrently payment_request_received on app.payment_request (merchant_id, chain, token, received, seq desc)
  where received <> amount and received > 0;

drop index concurrently if exists app.outgoing_attempt_txid_beginning;

-- And payouts by the beginning of what paid them.
create index concurrently outgoing_attempt_txid_beginning on app.outgoing_attempt (txid text_pattern_ops);

drop index concurrently if exists app.payout_finished;

-- Statements name what was on its way.
create index concurrently payout_finished on app.payout (merchant_id, chain, token, finished_at) include (net, created_at);
-- Transaction
