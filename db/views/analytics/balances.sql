-- What each merchant could be paid out now, and what is held back. The fee and the net are those of GET /v1/balances (app.merchant_balance).
create or replace view analytics.balances with (security_barrier) as
select
  app.public_id('mer', b.merchant_id) as merchant_id, m.name as merchant_name, m.prefix as merchant_prefix, b.chain, b.token,
  analytics.coins(b.gross, a.decimals) as gross, b.gross as gross_base_units,
  m.fee_bps, analytics.coins(b.fee, a.decimals) as fee, analytics.coins(b.net, a.decimals) as net, b.deposit_count,
  analytics.coins(b.held_back, a.decimals) as held_back, b.held_back as held_back_base_units
from app.merchant_balance b
join app.merchant m on m.id = b.merchant_id
join app.asset a on a.chain = b.chain and a.token = b.token;
comment on view analytics.balances is 'What each merchant could be paid out now, for each chain and token: the final deposits that no payout has collected. Exact at every moment; pairs without any are left out.';
comment on column analytics.balances.merchant_id is 'Id of the merchant.';
comment on column analytics.balances.merchant_name is 'Name of the merchant.';
comment on column analytics.balances.merchant_prefix is 'The merchant''s account prefix.';
comment on column analytics.balances.chain is 'Chain code.';
comment on column analytics.balances.token is 'Token code.';
comment on column analytics.balances.gross is 'Sum of the deposits, in whole coins, exact.';
comment on column analytics.balances.gross_base_units is 'The same sum as an integer in the smallest unit of the token.';
comment on column analytics.balances.fee_bps is 'The merchant''s service fee in basis points (1/100 of a percent).';
comment on column analytics.balances.fee is 'The fee that a payout made now would keep, in whole coins; rounded down to the smallest unit, none on a sum below zero.';
comment on column analytics.balances.net is 'gross minus held_back minus fee: what a payout made now would send.';
comment on column analytics.balances.deposit_count is 'Number of deposits in the balance, receipts of payment requests included.';
comment on column analytics.balances.held_back is 'The part of gross that no payout collects yet, because its addresses hold too little to be worth a sweep, in whole coins. It is collected when more arrives there.';
comment on column analytics.balances.held_back_base_units is 'held_back as an integer in the smallest unit of the token.';
grant select on analytics.balances to sluice_analyst;
