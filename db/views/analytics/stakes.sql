-- What the treasuries have staked, on chains where a stake gives energy and bandwidth (Tron).
create or replace view analytics.stakes with (security_barrier) as
select
  r.chain, r.resource, a.token, analytics.coins(coalesce(k.amount, 0), a.decimals) as staked, analytics.coins(coalesce(d.amount, 0), a.decimals) as lent,
  coalesce(d.addresses, 0) as lent_to, analytics.coins(coalesce(u.amount, 0), a.decimals) as unstaking, u.next_free_at
from (select chain, resource from app.stake union select chain, resource from app.unstaking where reclaimed_at is null) r
join app.chain c on c.chain = r.chain
join app.asset a on a.chain = c.chain and a.token = c.native_token
left join app.stake k on k.chain = r.chain and k.resource = r.resource
left join (select chain, sum(amount) as amount, count(*) as addresses from app.delegation group by chain) d on d.chain = r.chain and r.resource = 'energy'
left join (
  select chain, resource, sum(amount) as amount, min(free_at) as next_free_at from app.unstaking where reclaimed_at is null group by chain, resource
) u on u.chain = r.chain and u.resource = r.resource;
comment on view analytics.stakes is 'What each treasury has staked for energy and bandwidth, how much of it is lent, and what is on its way back.';
comment on column analytics.stakes.chain is 'Chain code.';
comment on column analytics.stakes.resource is 'energy or bandwidth.';
comment on column analytics.stakes.token is 'The native coin.';
comment on column analytics.stakes.staked is 'What is staked, lent or not, in whole coins, exact: only final transactions count.';
comment on column analytics.stakes.lent is 'The part that deposit addresses have for their sweeps now.';
comment on column analytics.stakes.lent_to is 'How many addresses have some.';
comment on column analytics.stakes.unstaking is 'What was unstaked and is not back in the treasury.';
comment on column analytics.stakes.next_free_at is 'When the first part of that comes back; null if nothing does.';
grant select on analytics.stakes to sluice_analyst;
