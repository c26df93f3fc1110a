-- What the sweep of a token costs now by each way, on chains where there are two (Tron).
create or replace view analytics.sweep_costs with (security_barrier) as
select c.chain, c.token, n.token as fee_token, analytics.coins(c.burnt, n.decimals) as burnt, analytics.coins(c.delegated, n.decimals) as delegated, c.way,
  c.detail, c.noted_at
from app.sweep_cost c join app.chain k on k.chain = c.chain join app.asset n on n.chain = k.chain and n.token = k.native_token;
comment on view analytics.sweep_costs is 'What the sweep of a token costs now if its energy is burnt, and if it is lent of the treasury''s stake; without the bytes of the sweep itself, which cost the same.';
comment on column analytics.sweep_costs.chain is 'Chain code.';
comment on column analytics.sweep_costs.token is 'Token code.';
comment on column analytics.sweep_costs.fee_token is 'The native coin.';
comment on column analytics.sweep_costs.burnt is 'If its energy is burnt, in whole coins.';
comment on column analytics.sweep_costs.delegated is 'If its energy is lent: what the transactions for that cost, in whole coins.';
comment on column analytics.sweep_costs.way is 'Which one is used: burnt or delegated.';
comment on column analytics.sweep_costs.detail is 'Why, and how many sweeps the free energy is enough for.';
comment on column analytics.sweep_costs.noted_at is 'When the node was asked.';
grant select on analytics.sweep_costs to sluice_analyst;
