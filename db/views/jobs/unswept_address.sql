-- One row for each address and token of a merchant that holds something and could not be swept (app.failed_sweep), while it is neither being swept or funded nor
-- blocked. Readers: functions/payouts/unswept.sql; sluice status.
create or replace view app.unswept_address as
select s.chain, s.token, s.address, s.merchant_id, h.amount, f.failures, f.failure, f.retry_at
from (select distinct chain, token, address, merchant_id from app.failed_sweep) s
join app.holding h on h.chain = s.chain and h.token = s.token and h.address = s.address and h.amount > 0
cross join lateral app.sweep_failures(s.chain, s.token, s.address) f
where app.sweep_under_way(s.chain, s.token, s.address) is null and app.readying(s.chain, s.address) is null and not app.is_blocked(s.chain, s.token, s.address);
comment on view app.unswept_address is 'Addresses of merchants that hold something, whose last sweeps failed, and that are neither being swept or funded nor blocked.';
comment on column app.unswept_address.address is 'The address that could not be swept.';
comment on column app.unswept_address.merchant_id is 'Whose money it holds.';
comment on column app.unswept_address.amount is 'What it holds, in base units.';
comment on column app.unswept_address.failures is 'How many of its sweeps failed within a day and after the last one that did not.';
comment on column app.unswept_address.failure is 'Why the newest of them failed, in words for operators.';
comment on column app.unswept_address.retry_at is 'When it is tried again.';
