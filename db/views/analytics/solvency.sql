-- What our addresses and treasuries held at the end of each day, against what was owed: the ledger of analytics.daily_ledger, added up. The
-- final height says up to which block of its chain a day's sums are, so that a node with the history can be asked the same.
create or replace view analytics.solvency with (security_barrier) as
select
  s.day, s.chain, s.token, trim_scale(s.on_addresses) as on_addresses, trim_scale(s.in_treasury) as in_treasury, trim_scale(s.staked) as staked,
  trim_scale(s.balances) as owed_balances, trim_scale(s.payouts) as owed_payouts, trim_scale(s.unattributed) as unattributed,
  trim_scale(s.on_addresses + s.in_treasury + s.staked - s.balances - s.payouts - s.unattributed) as surplus, b.final_height
from (
  select day, chain, token, sum(on_addresses) over w as on_addresses, sum(in_treasury) over w as in_treasury, sum(staked) over w as staked,
    sum(balances) over w as balances, sum(payouts) over w as payouts, sum(unattributed) over w as unattributed
  from (
    select day, chain, token,
      coalesce(sum(amount) filter (where account in ('address', 'gas')), 0) as on_addresses,
      coalesce(sum(amount) filter (where account = 'treasury'), 0) as in_treasury, coalesce(sum(amount) filter (where account = 'staked'), 0) as staked,
      -coalesce(sum(amount) filter (where account = 'merchant'), 0) as balances, -coalesce(sum(amount) filter (where account = 'payout'), 0) as payouts,
      -coalesce(sum(amount) filter (where account = 'unattributed'), 0) as unattributed
    from analytics.daily_ledger group by day, chain, token) d
  window w as (partition by chain, token order by day)) s
left join lateral (select d.final_height from chain.daily_blocks d where d.chain = s.chain and d.day <= s.day and d.final_height is not null
  order by d.day desc limit 1) b on true;
comment on view analytics.solvency is 'What we held and owed at the end of each UTC day on which something moved, for each chain and token: by the ledger, up to the final height.';
comment on column analytics.solvency.day is 'The day, in UTC; the newest one up to now.';
comment on column analytics.solvency.chain is 'Chain code.';
comment on column analytics.solvency.token is 'Token code.';
comment on column analytics.solvency.on_addresses is 'What deposit addresses held, gas for their sweeps included, in whole coins, exact.';
comment on column analytics.solvency.in_treasury is 'What the treasury held.';
comment on column analytics.solvency.staked is 'What it had staked.';
comment on column analytics.solvency.owed_balances is 'The balances of merchants.';
comment on column analytics.solvency.owed_payouts is 'What payouts under way had claimed.';
comment on column analytics.solvency.unattributed is 'Value at our addresses that was credited to nobody.';
comment on column analytics.solvency.surplus is 'What was held and owed to nobody: the operator''s own. Below zero, merchants could not all have been paid.';
comment on column analytics.solvency.final_height is 'The final height of the chain at the end of the day; null of days from before this was noted.';
grant select on analytics.solvency to sluice_analyst;
