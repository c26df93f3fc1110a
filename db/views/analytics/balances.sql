-- What each merchant could be paid out now. The fee is computed as in GET /v1/balances and in a payout. div is exact: numeric division rounds to
-- whole units once the quotient has 16 digits.
create or replace view analytics.balances with (security_barrier) as
select
  app.public_id('mer', b.merchant_id) as merchant_id, m.name as merchant_name, m.prefix as merchant_prefix, b.chain, b.token,
  analytics.coins(b.amount, a.decimals) as gross, b.amount as gross_base_units,
  m.fee_bps, analytics.coins(f.fee, a.decimals) as fee, analytics.coins(b.amount - f.fee, a.decimals) as net, b.deposit_count
from app.balance_now b
join app.merchant m on m.id = b.merchant_id
join app.asset a on a.chain = b.chain and a.token = b.token
cross join lateral (select div(greatest(b.amount, 0) * m.fee_bps, 10000) as fee) f;
comment on view analytics.balances is 'What each merchant could be paid out now, for each chain and token: the final deposits that no payout has collected. Exact at every moment; pairs without any are left out.';
comment on column analytics.balances.merchant_id is 'Id of the merchant.';
comment on column analytics.balances.merchant_name is 'Name of the merchant.';
comment on column analytics.balances.merchant_prefix is 'The merchant''s account prefix.';
comment on column analytics.balances.chain is 'Chain code.';
comment on column analytics.balances.token is 'Token code.';
comment on column analytics.balances.gross is 'Sum of the deposits, in whole coins, exact.';
comment on column analytics.balances.gross_base_units is 'The same sum as an integer in the smallest unit of the token.';
comment on column analytics.balances.fee_bps is 'The merchant''s service fee in basis points (1/100 of a percent).';
comment on column analytics.balances.fee is 'The fee that a payout of the whole balance would keep, in whole coins; rounded down to the smallest unit, none on a balance below zero.';
comment on column analytics.balances.net is 'gross minus fee: what such a payout would send.';
comment on column analytics.balances.deposit_count is 'Number of deposits in the balance, receipts of payment requests included.';
grant select on analytics.balances to sluice_analyst;
