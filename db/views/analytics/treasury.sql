-- What the treasuries hold, by the ledger, and how much of it is the operator's. operator_funds is the result of app.operator_funds, by which
-- payments are allowed.
create or replace view analytics.treasury with (security_barrier) as
select
  a.chain, a.token, o.address,
  analytics.coins(coalesce(t.balance, 0), a.decimals) as balance, coalesce(t.balance, 0) as balance_base_units,
  analytics.coins(coalesce(t.reserved, 0), a.decimals) as reserved,
  analytics.coins(coalesce(t.balance - t.reserved, 0) - coalesce(s.promised, 0), a.decimals) as operator_funds, -- app.operator_funds
  analytics.coins(coalesce(s.merchants, 0), a.decimals) as merchants, analytics.coins(coalesce(s.advanced, 0), a.decimals) as advanced,
  analytics.coins(coalesce(g.amount, 0), a.decimals) as gas_on_addresses, analytics.coins(coalesce(f.amount, 0), a.decimals) as staked
from app.asset a
join app.chain k on k.chain = a.chain
left join custody.address o on o.family = k.family and o.purpose = 'treasury'
left join app.treasury t on t.chain = a.chain and t.token = a.token
left join (
  select chain, token, sum(greatest(amount, 0)) as merchants, -sum(least(amount, 0)) as advanced, sum(greatest(amount - reserved, 0)) as promised
  from app.treasury_share group by chain, token
) s on s.chain = a.chain and s.token = a.token
left join (select chain, sum(amount) as amount from app.gas group by chain) g on g.chain = a.chain and k.native_token = a.token
left join (
  select chain, sum(amount) as amount from (select chain, amount from app.stake union all select chain, amount from app.unstaking where reclaimed_at is null) f
  group by chain
) f on f.chain = a.chain and k.native_token = a.token;
comment on view analytics.treasury is 'What the treasury of each chain holds now, and how much is the operator''s and the merchants''.';
comment on column analytics.treasury.chain is 'Chain code.';
comment on column analytics.treasury.token is 'Token code.';
comment on column analytics.treasury.address is 'Its address; null before custody made it.';
comment on column analytics.treasury.balance is 'What it holds by the ledger, in whole coins, exact: only final transactions count.';
comment on column analytics.treasury.balance_base_units is 'The same as an integer in the smallest unit of the token.';
comment on column analytics.treasury.reserved is 'The part that is promised to transactions under way: amounts and highest network fees.';
comment on column analytics.treasury.operator_funds is 'The operator''s own free money in it: fees earned and top-ups, less withdrawals, network fees and what is advanced.';
comment on column analytics.treasury.merchants is 'What was swept from merchants'' addresses and is not paid out yet.';
comment on column analytics.treasury.advanced is 'What was paid to merchants before their addresses were swept.';
comment on column analytics.treasury.gas_on_addresses is 'Native coins of the operator''s that are on deposit addresses, for their sweeps of tokens: in no other column.';
comment on column analytics.treasury.staked is 'The operator''s coins that the treasury has staked (analytics.stakes), or unstaked and not back yet: in no other column.';
grant select on analytics.treasury to sluice_analyst;
