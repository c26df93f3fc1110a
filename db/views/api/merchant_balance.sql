-- Balances with the service fee, for everything that shows them: the API, the dashboard and analysts. The fee is rounded down, in base units, once
-- on the sum of a pair without what is held back; a sum below zero bears none. app.create_payout takes the same fee of what it claims. (div
-- is exact: numeric division rounds to whole units once the quotient has 16 digits.)
create or replace view app.merchant_balance with (security_barrier) as
select b.merchant_id, b.chain, b.token, b.amount as gross, f.fee, b.deposit_count, b.held_back, n.net,
  (select row_to_json(i) from (select b.chain, b.token, app.decimal(b.amount, a.decimals) as gross, app.decimal(f.fee, a.decimals) as fee,
    app.decimal(n.net, a.decimals) as net, app.decimal(b.held_back, a.decimals) as held_back,
    b.deposit_count as "depositCount") i) as item
from app.balance_now b join app.merchant m on m.id = b.merchant_id
left join app.asset a on a.chain = b.chain and a.token = b.token -- for item alone: without that, nothing is joined
cross join lateral (select div(greatest(b.amount - b.held_back, 0) * m.fee_bps, 10000) as fee) f
cross join lateral (select b.amount - b.held_back - f.fee as net) n;
comment on view app.merchant_balance is 'The exact balance of each merchant, chain and token, with the service fee.';
comment on column app.merchant_balance.gross is 'Final deposits that no payout has collected, in base units.';
comment on column app.merchant_balance.fee is 'Service fee, in base units.';
comment on column app.merchant_balance.deposit_count is 'Number of deposits in it.';
comment on column app.merchant_balance.held_back is 'The part of gross that no payout can claim yet, in base units.';
comment on column app.merchant_balance.net is 'What a payout made now would pay, in base units: gross - held_back - fee.';
comment on column app.merchant_balance.item is 'The balance, as its merchant sees it.';
grant select on app.merchant_balance to sluice_api;
