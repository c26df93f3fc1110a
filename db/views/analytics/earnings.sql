-- What the service earned and what the chains cost it, from analytics.daily_ledger.
create or replace view analytics.earnings with (security_barrier) as
select
  l.day, l.merchant_id, l.merchant_name, l.merchant_prefix, l.chain, l.token,
  trim_scale(-coalesce(sum(l.amount) filter (where l.account = 'fees'), 0)) as fees_earned,
  trim_scale(coalesce(sum(l.amount) filter (where l.account = 'network'), 0)) as network_costs
from analytics.daily_ledger l
where l.account in ('fees', 'network')
group by l.day, l.merchant_id, l.merchant_name, l.merchant_prefix, l.chain, l.token;
comment on view analytics.earnings is 'Service fees earned and network fees paid on each UTC day, by merchant, chain and token.';
comment on column analytics.earnings.day is 'The day, in UTC, on which the payout was completed, or the transaction was final.';
comment on column analytics.earnings.merchant_id is 'Id of the merchant; null for the operator''s own withdrawals.';
comment on column analytics.earnings.merchant_name is 'Name of the merchant.';
comment on column analytics.earnings.merchant_prefix is 'The merchant''s account prefix.';
comment on column analytics.earnings.chain is 'Chain code.';
comment on column analytics.earnings.token is 'Token code. Fees are earned in the token of the payout; network fees are paid in the native coin, so they are in its row.';
comment on column analytics.earnings.fees_earned is 'Service fees of completed payouts, in whole coins, exact.';
comment on column analytics.earnings.network_costs is 'Network fees of payments, sweeps and withdrawals, and of gas that is sent and brought back, in whole coins, exact. The operator bears them, also those that an address paid with gas.';
grant select on analytics.earnings to sluice_analyst;
