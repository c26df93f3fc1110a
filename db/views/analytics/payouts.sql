-- What merchants were paid, or are being paid, as they see it in the API. What a payout cost the operator is in analytics.payout_costs.
create or replace view analytics.payouts with (security_barrier) as
select
  app.public_id('pay', p.id) as payout_id,
  app.public_id('mer', p.merchant_id) as merchant_id, m.name as merchant_name, m.prefix as merchant_prefix,
  p.chain, p.token, p.status,
  analytics.coins(p.gross, a.decimals) as gross, p.fee_bps, analytics.coins(p.fee, a.decimals) as fee, analytics.coins(p.net, a.decimals) as net,
  p.gross as gross_base_units, p.fee as fee_base_units, p.net as net_base_units,
  c.deposit_count, p.sweep_first, p.address, p.txid,
  analytics.coins(p.network_fee, n.decimals) as network_fee, n.token as network_fee_token,
  p.error_code, p.waiting_reason, p.created_at, p.finished_at, round(extract(epoch from p.finished_at - p.created_at), 3) as seconds_to_finish
from app.payout p
join app.merchant m on m.id = p.merchant_id
join app.asset a on a.chain = p.chain and a.token = p.token
join app.chain k on k.chain = p.chain
join app.asset n on n.chain = p.chain and n.token = k.native_token
left join app.claim c on c.payout_id = p.id and c.kind = 'claim';
comment on view analytics.payouts is 'One row for each payout, in every status.';
comment on column analytics.payouts.payout_id is 'Id of the payout, as in the API; analytics.deposits.settlement_id names it.';
comment on column analytics.payouts.merchant_id is 'Id of the merchant.';
comment on column analytics.payouts.merchant_name is 'Name of the merchant.';
comment on column analytics.payouts.merchant_prefix is 'The merchant''s account prefix.';
comment on column analytics.payouts.chain is 'Chain code.';
comment on column analytics.payouts.token is 'Token code.';
comment on column analytics.payouts.status is 'pending, sweeping, swept, paying: under way. completed: paid, for ever. failed: nothing was paid, and the deposits are in the balance again.';
comment on column analytics.payouts.gross is 'The balance that it collected, in whole coins, exact.';
comment on column analytics.payouts.fee_bps is 'The merchant''s fee rate when it was requested, in basis points.';
comment on column analytics.payouts.fee is 'Service fee, in whole coins. Earned only once the payout is completed.';
comment on column analytics.payouts.net is 'What is paid, in whole coins: gross minus fee.';
comment on column analytics.payouts.gross_base_units is 'gross as an integer in the smallest unit of the token.';
comment on column analytics.payouts.fee_base_units is 'fee as an integer in the smallest unit of the token.';
comment on column analytics.payouts.net_base_units is 'net as an integer in the smallest unit of the token.';
comment on column analytics.payouts.deposit_count is 'Number of deposits that it collected.';
comment on column analytics.payouts.sweep_first is 'True if the merchant asked to have every claimed address swept before anything is paid.';
comment on column analytics.payouts.address is 'Where it is paid to.';
comment on column analytics.payouts.txid is 'The transaction that paid it; null until it is completed.';
comment on column analytics.payouts.network_fee is 'Network fees of the payment and of the sweeps made for it, in whole native coins. The operator bears them.';
comment on column analytics.payouts.network_fee_token is 'The native coin of the chain, in which network_fee is counted.';
comment on column analytics.payouts.error_code is 'Why it failed; null unless it did.';
comment on column analytics.payouts.waiting_reason is 'Why its next step cannot be taken now; null if nothing is in its way.';
comment on column analytics.payouts.created_at is 'When the merchant requested it.';
comment on column analytics.payouts.finished_at is 'When it was completed or failed; null while it is under way.';
comment on column analytics.payouts.seconds_to_finish is 'Seconds from created_at to finished_at.';
grant select on analytics.payouts to sluice_analyst;
