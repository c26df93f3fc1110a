-- Which transactions in blocks decide what became of an outgoing payment (app.spend). An attempt of it uses its nonce, or on Bitcoin its lead (the
-- output in the place of the sender) and other outputs that are reserved for it. A transaction that uses several of them is there as often.
--
-- Readers: app.settle_spends, which makes payments final; app.why_not_comparable; the audit.
create or replace view app.spend_inclusion as
select s.id as spend_id, i.chain, i.txid, i.block_height, i.success, i.fee, true as excludes
from app.spend s join chain.inclusion i on i.chain = s.chain and i.sender = s.sender and i.nonce = s.nonce
union all
select u.spend_id, i.chain, i.txid, i.block_height, i.success, i.fee, u.from_attempt = 1
from app.output u join chain.inclusion i on i.chain = u.chain and i.sender = u.txid || ':' || u.vout and i.nonce = 0
where u.spend_id is not null;
comment on view app.spend_inclusion is 'Transactions in a block that use what an outgoing payment (app.spend) uses: its nonce, or any of its outputs. Some are there more than once.';
comment on column app.spend_inclusion.spend_id is 'The outgoing payment.';
comment on column app.spend_inclusion.chain is 'Chain code.';
comment on column app.spend_inclusion.txid is 'The transaction.';
comment on column app.spend_inclusion.block_height is 'Its block.';
comment on column app.spend_inclusion.success is 'Whether it had the effect that it was sent for, as in chain.inclusion.';
comment on column app.spend_inclusion.fee is 'Network fee that it cost, in the native coin''s base units.';
comment on column app.spend_inclusion.excludes is 'Whether it uses what every attempt of the payment uses: if it is none of them, none of them can ever be mined.';
grant select on app.spend_inclusion to sluice_jobs;
