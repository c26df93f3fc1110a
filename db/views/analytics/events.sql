-- The events that merchants were, or are being, notified of. analytics.delivery_health shows whether they were delivered. Found by an index:
-- subject_uuid, or a range of created_at.
create or replace view analytics.events with (security_barrier) as
select
  app.public_id('evt', e.id) as event_id, e.sequence, e.type,
  app.public_id('mer', e.merchant_id) as merchant_id, m.name as merchant_name, m.prefix as merchant_prefix,
  case split_part(e.type, '.', 1) when 'deposit' then app.public_id('dep', e.subject_id) when 'payout' then app.public_id('pay', e.subject_id)
    else e.payload ->> 'external_id' end as subject_id,
  e.version, e.created_at, e.payload, e.subject_id as subject_uuid
from app.event e
join app.merchant m on m.id = e.merchant_id
where not e.is_test;
comment on view analytics.events is 'One row for each event that a merchant was, or is being, notified of. Never changed, never deleted. Tests of endpoints are left out.';
comment on column analytics.events.event_id is 'Id of the event, as in webhooks and the API.';
comment on column analytics.events.sequence is 'Its number: a reader that goes forward by it misses none. Gaps are allowed; null for a moment after it happened.';
comment on column analytics.events.type is 'Type, such as deposit.confirmed.';
comment on column analytics.events.merchant_id is 'Id of the merchant.';
comment on column analytics.events.merchant_name is 'Name of the merchant.';
comment on column analytics.events.merchant_prefix is 'The merchant''s account prefix.';
comment on column analytics.events.subject_id is 'Id of what changed, as in the API: a deposit or a payout; of a payment request its external_id.';
comment on column analytics.events.version is 'The number of the change of the subject: 1 for the first.';
comment on column analytics.events.created_at is 'When it happened.';
comment on column analytics.events.payload is 'The body that the merchant receives, without the sequence. Amounts in it are strings.';
comment on column analytics.events.subject_uuid is 'subject_id as a UUID, to search by: subject_uuid = analytics.id(''dep_...''); payment_request_uuid of a payment request.';
grant select on analytics.events to sluice_analyst;
