-- Which transactions in blocks decide the outcome of an outgoing payment (app.outgoing_payment). An attempt of it uses its nonce, or on Bitcoin its
-- first input (the output in the place of the sender) and other outputs that are reserved for it. A transaction that uses several of them has a row
-- for each.
--
-- Readers: app.finish_outgoing_payments, which makes payments final; app.why_not_comparable; the audit.
create or replace view app.outgoing_confirmed_tx as
select s.id as outgoing_payment_id, i.chain, i.txid, i.block_height, i.success, i.fee, true as excludes
from app.outgoing_payment s join chain.confirmed_tx i on i.chain = s.chain and i.sender = s.sender and i.nonce = s.nonce
union all
select u.outgoing_payment_id, i.chain, i.txid, i.block_height, i.success, i.fee, u.from_attempt = 1
from app.output u join chain.confirmed_tx i on i.chain = u.chain and i.sender = u.txid || ':' || u.vout and i.nonce = 0
where u.outgoing_payment_id is not null;
comment on view app.outgoing_confirmed_tx is 'Transactions in a block that use what an outgoing payment (app.outgoing_payment) uses: its nonce, or any of its outputs. Some are there more than once.';
comment on column app.outgoing_confirmed_tx.outgoing_payment_id is 'The outgoing payment.';
comment on column app.outgoing_confirmed_tx.chain is 'Chain code.';
comment on column app.outgoing_confirmed_tx.txid is 'The transaction.';
comment on column app.outgoing_confirmed_tx.block_height is 'Its block.';
comment on column app.outgoing_confirmed_tx.success is 'Whether it had the effect that it was sent for, as in chain.confirmed_tx.';
comment on column app.outgoing_confirmed_tx.fee is 'Network fee that it cost, in the native coin''s base units.';
comment on column app.outgoing_confirmed_tx.excludes is 'Whether it uses what every attempt of the payment uses. If it is no attempt itself, no attempt can ever be mined.';
grant select on app.outgoing_confirmed_tx to sluice_jobs;
