-- The users of merchants. Found by an index: user_uuid, a merchant with external_ref, or a range of created_at.
create or replace view analytics.users with (security_barrier) as
select
  app.public_id('usr', u.id) as user_id, app.public_id('mer', u.merchant_id) as merchant_id, m.name as merchant_name, m.prefix as merchant_prefix,
  u.external_ref, u.metadata, u.created_at, u.id as user_uuid
from app.user u
join app.merchant m on m.id = u.merchant_id;
comment on view analytics.users is 'One row for each user of a merchant.';
comment on column analytics.users.user_id is 'Id of the user, as in the API.';
comment on column analytics.users.merchant_id is 'Id of the merchant.';
comment on column analytics.users.merchant_name is 'Name of the merchant.';
comment on column analytics.users.merchant_prefix is 'The merchant''s account prefix.';
comment on column analytics.users.external_ref is 'The merchant''s own id of the user.';
comment on column analytics.users.metadata is 'What the merchant notes about the user: an object of strings.';
comment on column analytics.users.created_at is 'When the user was made.';
comment on column analytics.users.user_uuid is 'user_id as a UUID, to search by: user_uuid = analytics.id(''usr_...'').';
grant select on analytics.users to sluice_analyst;
