-- The transactions in blocks that decide what became of an outgoing payment (app.outgoing_payment): its own attempts, and others that use up what
-- every attempt of it uses, so that none of them can be mined any more. That is its conflict key and, on Bitcoin, each input of its first attempt.
--
-- Readers: app.finish_outgoing_payments, which makes payments final; the worker; app.why_not_comparable; the audit.
create or replace view app.outgoing_confirmed_tx as
select o.outgoing_payment_id, i.chain, i.txid, i.block_height, i.success, i.fee
from app.outgoing_attempt o join chain.confirmed_tx i on i.chain = o.chain and i.txid = o.txid
union all
select s.id, i.chain, i.txid, i.block_height, i.success, i.fee
from app.outgoing_payment s join chain.confirmed_tx i on i.chain = s.chain and i.conflict_key = s.conflict_key
union all
select u.outgoing_payment_id, i.chain, i.txid, i.block_height, i.success, i.fee
from app.output u join chain.confirmed_tx i on i.chain = u.chain and i.conflict_key = u.txid || ':' || u.vout
where u.from_attempt = 1;
comment on view app.outgoing_confirmed_tx is 'Transactions in a block that are attempts of an outgoing payment (app.outgoing_payment), or exclude all of them. Some are there more than once.';
comment on column app.outgoing_confirmed_tx.outgoing_payment_id is 'The outgoing payment.';
comment on column app.outgoing_confirmed_tx.block_height is 'Its block.';
comment on column app.outgoing_confirmed_tx.success is 'Whether it had the effect that it was sent for, as in chain.confirmed_tx.';
comment on column app.outgoing_confirmed_tx.fee is 'Network fee that it cost, in the native coin''s base units.';
grant select on app.outgoing_confirmed_tx to sluice_jobs;
