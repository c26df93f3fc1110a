-- Money of one merchant on its way from a deposit address to the treasury: neither received nor paid. The amount is that of the attempt that became
-- final. An index finds a range of created_at.
create or replace view analytics.sweeps with (security_barrier) as
select
  s.id as sweep_id, app.public_id('mer', s.merchant_id) as merchant_id, m.name as merchant_name, m.prefix as merchant_prefix,
  app.public_id('pay', s.payout_id) as payout_id, s.chain, s.token, s.source as address,
  analytics.coins(coalesce(t.amount, s.amount), a.decimals) as amount, coalesce(t.amount, s.amount) as amount_base_units,
  coalesce(s.outcome, s.status) as state, s.txid, analytics.coins(s.fee_paid, n.decimals) as network_fee, n.token as network_fee_token,
  s.created_at, s.final_at, s.source = s.recipient as is_nonce_only
from app.outgoing_payment s
left join app.merchant m on m.id = s.merchant_id
join app.asset a on a.chain = s.chain and a.token = s.token
join app.chain k on k.chain = s.chain
join app.asset n on n.chain = s.chain and n.token = k.native_token
left join app.outgoing_attempt t on t.chain = s.chain and t.txid = s.txid
where s.kind = 'sweep';
comment on view analytics.sweeps is 'One row for each sweep of a deposit address to the treasury.';
comment on column analytics.sweeps.sweep_id is 'Id of the sweep.';
comment on column analytics.sweeps.merchant_id is 'Id of the merchant that has the address.';
comment on column analytics.sweeps.merchant_name is 'Name of the merchant.';
comment on column analytics.sweeps.merchant_prefix is 'The merchant''s account prefix.';
comment on column analytics.sweeps.payout_id is 'Id of the payout that it was made for; null if it was made for none.';
comment on column analytics.sweeps.chain is 'Chain code.';
comment on column analytics.sweeps.token is 'Token code.';
comment on column analytics.sweeps.address is 'The address that was swept.';
comment on column analytics.sweeps.amount is 'What it moves, in whole coins, exact; 0 if it was cancelled.';
comment on column analytics.sweeps.amount_base_units is 'The same amount as an integer in the smallest unit of the token.';
comment on column analytics.sweeps.state is 'allocated, live: under way. done: the money is in the treasury. reverted, cancelled, conflicted: ended, and nothing was moved.';
comment on column analytics.sweeps.txid is 'The final transaction; null while it is under way.';
comment on column analytics.sweeps.network_fee is 'What it cost, in whole native coins; null while it is under way. The operator bears it.';
comment on column analytics.sweeps.network_fee_token is 'The native coin of the chain, in which network_fee is counted.';
comment on column analytics.sweeps.created_at is 'When it was begun.';
comment on column analytics.sweeps.final_at is 'When it was final; null while it is under way.';
comment on column analytics.sweeps.is_nonce_only is 'True for a row that is no sweep, which a version before analytics.cancels wrote; else false.';
grant select on analytics.sweeps to sluice_analyst;
