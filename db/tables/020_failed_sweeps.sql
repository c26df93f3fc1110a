-- Sweeps that failed: why, and when an address is tried again (db/functions/payouts/failed_sweeps.sql).
drop index concurrently if exists app.outgoing_payment_sweep;

create index concurrently outgoing_payment_sweep on app.outgoing_payment (chain, token, source, final_at) where kind = 'sweep' and merchant_id is not null;

drop index concurrently if exists app.outgoing_payment_failed_sweep;

create index concurrently outgoing_payment_failed_sweep on app.outgoing_payment (merchant_id, chain, token, final_at) where kind = 'sweep' and outcome <> 'done';
-- Transaction
alter table app.outgoing_payment add column failure text;
comment on column app.outgoing_payment.failure is 'Why it was given up, in the words of who refused it (the node, custody); null if it was not, or nobody said.';
