-- sluice audit shows it below its checks; it is never a finding. References from before new ones were checked (db/functions/values/texts.sql) stay as they
-- are, so two of a merchant may look the same. Which of them a person means, only the merchant can tell.
create or replace view app.look_alike as
with unclear as materialized (
  select 'user' as what, u.merchant_id, app.visible_text(u.external_ref) as reference, app.public_id('usr', u.id) as id
  from app.user u where u.external_ref <> app.visible_text(u.external_ref)
  union all
  select 'payment request', r.merchant_id, app.visible_text(r.external_id), a.address
  from app.payment_request r join app.address a on a.payment_request_id = r.id and a.chain = r.chain where r.external_id <> app.visible_text(r.external_id)
), every_form as (
  select * from unclear
  union
  select 'user', u.merchant_id, u.external_ref, app.public_id('usr', u.id)
  from unclear c join app.user u on u.merchant_id = c.merchant_id and u.external_ref = c.reference where c.what = 'user'
  union
  select 'payment request', r.merchant_id, r.external_id, a.address
  from unclear c join app.payment_request r on r.merchant_id = c.merchant_id and r.external_id = c.reference
  join app.address a on a.payment_request_id = r.id and a.chain = r.chain where c.what = 'payment request'
)
select e.what, m.prefix as merchant, e.reference, array_agg(e.id order by e.id) as ids
from every_form e join app.merchant m on m.id = e.merchant_id group by e.what, m.prefix, e.reference having count(*) > 1;
comment on view app.look_alike is 'References of one merchant that look the same: other Unicode forms, spaces at their ends, characters that nobody sees.';
comment on column app.look_alike.what is 'user or payment request.';
comment on column app.look_alike.merchant is 'Prefix of the merchant.';
comment on column app.look_alike.reference is 'What people see of each of them.';
comment on column app.look_alike.ids is 'The ids of the users, or the addresses of the payment requests.';
