-- A fund that failed is judged like a failed sweep of its address (db/views/jobs/failed_sweep.sql): these find the failed ones of a merchant, and all of
-- an address.
drop index concurrently if exists app.outgoing_payment_failed_fund;

create index concurrently outgoing_payment_failed_fund on app.outgoing_payment (merchant_id, chain, for_token, final_at) where kind = 'fund' and outcome <> 'done';

drop index concurrently if exists app.outgoing_payment_fund;

create index concurrently outgoing_payment_fund on app.outgoing_payment (chain, recipient, for_token, final_at) where kind = 'fund';

-- Addresses whose sweep expired pay for the next one's bytes (jobs/payouts/tron/sweep.ts).
drop index concurrently if exists app.outgoing_payment_expired_sweep;

create index concurrently outgoing_payment_expired_sweep on app.outgoing_payment (chain, source, final_at) where kind = 'sweep' and outcome = 'expired';
-- Transaction
