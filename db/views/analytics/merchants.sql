-- The accounts. Their keys and endpoints are not for analysts.
create or replace view analytics.merchants with (security_barrier) as
select
  app.public_id('mer', m.id) as merchant_id, m.name as merchant_name, m.prefix as merchant_prefix, m.fee_bps,
  (select string_agg(c.chain, ', ' order by c.chain) from app.merchant_chain c where c.merchant_id = m.id and c.enabled) as chains,
  m.created_at, m.suspended_at, m.id as merchant_uuid, m.time_zone
from app.merchant m;
comment on view analytics.merchants is 'One row for each merchant account.';
comment on column analytics.merchants.merchant_id is 'Id of the merchant.';
comment on column analytics.merchants.merchant_name is 'Name of the merchant.';
comment on column analytics.merchants.merchant_prefix is 'The merchant''s account prefix.';
comment on column analytics.merchants.fee_bps is 'Service fee of later payouts, in basis points (1/100 of a percent).';
comment on column analytics.merchants.chains is 'Chain codes that are enabled now, separated by commas; null if none is.';
comment on column analytics.merchants.created_at is 'When the account was made.';
comment on column analytics.merchants.suspended_at is 'Since when its keys do not work; null while they do.';
comment on column analytics.merchants.merchant_uuid is 'merchant_id as a UUID, to search by: merchant_uuid = analytics.id(''mer_...'').';
comment on column analytics.merchants.time_zone is 'Where the days of its statements begin, such as Europe/Berlin.';
grant select on analytics.merchants to sluice_analyst;
