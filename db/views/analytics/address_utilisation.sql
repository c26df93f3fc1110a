-- How the addresses that were handed out to users are used. An address that was never paid costs nothing; one that holds something costs a sweep.
create materialized view analytics.address_utilisation as
select
  app.public_id('mer', w.merchant_id) as merchant_id, m.name as merchant_name, m.prefix as merchant_prefix, w.chain,
  count(*) as addresses, count(h.address) as used_addresses, round(count(h.address)::numeric / count(*), 4) as used_share,
  count(*) filter (where h.is_holding) as holding_addresses, count(r.address) as recent_addresses
from app.address w
join app.merchant m on m.id = w.merchant_id
left join (select chain, address, bool_or(amount > 0) as is_holding from app.holding group by chain, address) h on h.chain = w.chain and h.address = w.address
left join (
  select distinct chain, address from app.deposit where credited and status = 'final' and created_at > now() - interval '30 days'
) r on r.chain = w.chain and r.address = w.address
where w.is_provisioned and w.user_id is not null
group by w.merchant_id, m.name, m.prefix, w.chain
with no data;
create unique index address_utilisation_key on analytics.address_utilisation (merchant_id, chain);
comment on materialized view analytics.address_utilisation is 'How many of the addresses that merchants asked for, for their users, were ever paid, for each merchant and chain. Those of payment requests are not counted. As of the moment that analytics.freshness names.';
comment on column analytics.address_utilisation.merchant_id is 'Id of the merchant.';
comment on column analytics.address_utilisation.merchant_name is 'Name of the merchant.';
comment on column analytics.address_utilisation.merchant_prefix is 'The merchant''s account prefix.';
comment on column analytics.address_utilisation.chain is 'Chain code.';
comment on column analytics.address_utilisation.addresses is 'Addresses that were handed out for this chain, one for each user.';
comment on column analytics.address_utilisation.used_addresses is 'How many of them ever received a deposit that became final.';
comment on column analytics.address_utilisation.used_share is 'used_addresses / addresses, rounded to four digits.';
comment on column analytics.address_utilisation.holding_addresses is 'How many of them hold something now that no sweep has taken.';
comment on column analytics.address_utilisation.recent_addresses is 'How many of them received a final deposit in the last 30 days.';
grant select on analytics.address_utilisation to sluice_analyst;
-- It is made empty. The jobs worker computes it at once, and again and again (app.refresh_analytics).
insert into app.analytics_refresh (view_name) values ('address_utilisation')
on conflict (view_name) do update set refreshed_at = null, due_at = '-infinity';
