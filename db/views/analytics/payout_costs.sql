-- What each payout earned and what it cost. Only costs of transactions that were made for that payout count: a sweep made without a payout is only
-- in analytics.earnings.
create or replace view analytics.payout_costs with (security_barrier) as
select
  app.public_id('pay', p.id) as payout_id,
  app.public_id('mer', p.merchant_id) as merchant_id, m.name as merchant_name, m.prefix as merchant_prefix,
  p.chain, p.token, p.status, p.created_at, p.finished_at,
  analytics.coins(p.gross, a.decimals) as gross, p.fee_bps, analytics.coins(case p.status when 'completed' then p.fee else 0 end, a.decimals) as fee_earned,
  n.token as network_fee_token, analytics.coins(s.payment, n.decimals) as payment_fee, analytics.coins(s.sweeps, n.decimals) as sweep_fees,
  analytics.coins(s.payment + s.sweeps, n.decimals) as network_fees, s.sweep_count, p.id as payout_uuid
from app.payout p
join app.merchant m on m.id = p.merchant_id
join app.asset a on a.chain = p.chain and a.token = p.token
join app.chain k on k.chain = p.chain
join app.asset n on n.chain = p.chain and n.token = k.native_token
cross join lateral (
  select coalesce(sum(s.fee_paid) filter (where s.kind = 'payout'), 0) as payment, coalesce(sum(s.fee_paid) filter (where s.kind in ('sweep', 'fund', 'delegate')), 0) as sweeps,
    count(*) filter (where s.kind = 'sweep') as sweep_count
  from app.outgoing_payment s where s.payout_id = p.id
) s;
comment on view analytics.payout_costs is 'One row for each payout: the service fee that it earned, and the network fees that it cost.';
comment on column analytics.payout_costs.payout_id is 'Id of the payout, as in the API.';
comment on column analytics.payout_costs.merchant_id is 'Id of the merchant.';
comment on column analytics.payout_costs.merchant_name is 'Name of the merchant.';
comment on column analytics.payout_costs.merchant_prefix is 'The merchant''s account prefix.';
comment on column analytics.payout_costs.chain is 'Chain code.';
comment on column analytics.payout_costs.token is 'Token code of gross and fee_earned.';
comment on column analytics.payout_costs.status is 'As in analytics.payouts.';
comment on column analytics.payout_costs.created_at is 'When the merchant requested it.';
comment on column analytics.payout_costs.finished_at is 'When it was completed or failed; null while it is under way.';
comment on column analytics.payout_costs.gross is 'The balance that it collected, in whole coins, exact.';
comment on column analytics.payout_costs.fee_bps is 'The merchant''s fee rate when it was requested, in basis points.';
comment on column analytics.payout_costs.fee_earned is 'The service fee, in whole coins; 0 unless the payout is completed.';
comment on column analytics.payout_costs.network_fee_token is 'The native coin of the chain, in which network fees are counted.';
comment on column analytics.payout_costs.payment_fee is 'Network fee of the final transaction of its payment, whatever its outcome, in whole native coins; 0 until it is final.';
comment on column analytics.payout_costs.sweep_fees is 'Network fees of the final sweeps that were made for it, and of the transactions that brought them gas or energy (not of taking energy back), in whole native coins.';
comment on column analytics.payout_costs.network_fees is 'payment_fee + sweep_fees. The operator bears it.';
comment on column analytics.payout_costs.sweep_count is 'Number of sweeps that were made for it. A sweep made without a payout, or for another one, costs this payout nothing.';
comment on column analytics.payout_costs.payout_uuid is 'payout_id as a UUID, to search by: payout_uuid = analytics.id(''pay_...'').';
grant select on analytics.payout_costs to sluice_analyst;
