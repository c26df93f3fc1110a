-- Balances with the service fee, for everything that shows them: the API, the dashboard and analysts. The fee is rounded down, in base units, once
-- on the sum of a pair without what is held back; a sum below zero bears none. app.create_payout takes the same fee of what it claims. (div
-- is exact: numeric division rounds to whole units once the quotient has 16 digits.)
create or replace view app.merchant_balance with (security_barrier) as
select b.merchant_id, b.chain, b.token, b.amount as gross, f.fee, b.deposit_count, b.held_back, b.amount - b.held_back - f.fee as net
from app.balance_now b join app.merchant m on m.id = b.merchant_id
cross join lateral (select div(greatest(b.amount - b.held_back, 0) * m.fee_bps, 10000) as fee) f;
comment on view app.merchant_balance is 'The exact balance of each merchant, chain and token, with the service fee.';
comment on column app.merchant_balance.gross is 'Final deposits that no payout has collected, in base units.';
comment on column app.merchant_balance.fee is 'Service fee, in base units.';
comment on column app.merchant_balance.deposit_count is 'Number of deposits in it.';
comment on column app.merchant_balance.held_back is 'The part of gross that no payout can claim yet, in base units.';
comment on column app.merchant_balance.net is 'What a payout made now would pay, in base units: gross - held_back - fee.';
grant select on app.merchant_balance to sluice_api;
