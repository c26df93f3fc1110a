-- The totals of each merchant since the beginning, from analytics.daily_ledger.
create or replace view analytics.merchant_totals with (security_barrier) as
select
  e.merchant_id, m.name as merchant_name, m.prefix as merchant_prefix, e.chain, e.token,
  trim_scale(e.received) as received, trim_scale(e.fees_earned) as fees_earned,
  trim_scale(e.paid_out) as paid_out, trim_scale(e.under_way + e.balance) as owed,
  trim_scale(e.under_way) as under_way, trim_scale(e.network_costs) as network_costs
from (
  select merchant_id, chain, token,
    -coalesce(sum(amount) filter (where account = 'merchant' and kind not in ('claim', 'release')), 0) as received,
    -coalesce(sum(amount) filter (where account = 'fees'), 0) as fees_earned,
    -coalesce(sum(amount) filter (where account = 'treasury' and kind = 'payout'), 0) as paid_out,
    -coalesce(sum(amount) filter (where account = 'payout'), 0) as under_way,
    -coalesce(sum(amount) filter (where account = 'merchant'), 0) as balance,
    coalesce(sum(amount) filter (where account = 'network'), 0) as network_costs
  from analytics.daily_ledger where merchant_id is not null group by merchant_id, chain, token
) e
join (select app.public_id('mer', id) as merchant_id, name, prefix from app.merchant) m on m.merchant_id = e.merchant_id;
comment on view analytics.merchant_totals is 'What each merchant received, was paid and is owed since the beginning, for each chain and token: received = fees_earned + paid_out + owed. analytics.balances is quicker for what is owed alone.';
comment on column analytics.merchant_totals.merchant_id is 'Id of the merchant.';
comment on column analytics.merchant_totals.merchant_name is 'Name of the merchant.';
comment on column analytics.merchant_totals.merchant_prefix is 'The merchant''s account prefix.';
comment on column analytics.merchant_totals.chain is 'Chain code.';
comment on column analytics.merchant_totals.token is 'Token code.';
comment on column analytics.merchant_totals.received is 'Final deposits of its users and final receipts of its payment requests, in whole coins, exact, less those that an operator took back.';
comment on column analytics.merchant_totals.fees_earned is 'Service fees of completed payouts.';
comment on column analytics.merchant_totals.paid_out is 'Net of completed payouts.';
comment on column analytics.merchant_totals.owed is 'The balance and the gross of payouts under way; below zero for a debt.';
comment on column analytics.merchant_totals.under_way is 'The part of owed that payouts have claimed.';
comment on column analytics.merchant_totals.network_costs is 'Network fees of its payouts and sweeps, of all tokens. They are paid in the native coin, so they are only in the row of that coin; the operator bears them.';
grant select on analytics.merchant_totals to sluice_analyst;
