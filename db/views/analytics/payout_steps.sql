-- How long payouts spent in each status. A payout passes pending, sweeping, swept and paying in this order, and may fail in each of them.
create or replace view analytics.payout_steps with (security_barrier) as
select
  app.public_id('pay', p.id) as payout_id,
  app.public_id('mer', p.merchant_id) as merchant_id, m.name as merchant_name, m.prefix as merchant_prefix, p.chain, p.token,
  s.step, s.began_at, s.ended_at, round(extract(epoch from s.ended_at - s.began_at), 3) as seconds, p.status, p.created_at, p.id as payout_uuid
from app.payout p
join app.merchant m on m.id = p.merchant_id
cross join lateral (values
  ('pending', p.created_at, coalesce(p.sweeping_at, p.finished_at)),
  ('sweeping', p.sweeping_at, coalesce(p.swept_at, p.finished_at)),
  ('swept', p.swept_at, coalesce(p.paying_at, p.finished_at)),
  ('paying', p.paying_at, p.finished_at)) s (step, began_at, ended_at)
where s.began_at is not null;
comment on view analytics.payout_steps is 'One row for each step that a payout has begun, with its times.';
comment on column analytics.payout_steps.payout_id is 'Id of the payout, as in the API.';
comment on column analytics.payout_steps.merchant_id is 'Id of the merchant.';
comment on column analytics.payout_steps.merchant_name is 'Name of the merchant.';
comment on column analytics.payout_steps.merchant_prefix is 'The merchant''s account prefix.';
comment on column analytics.payout_steps.chain is 'Chain code.';
comment on column analytics.payout_steps.token is 'Token code.';
comment on column analytics.payout_steps.step is 'pending: accepted, and not begun. sweeping: money is collected from the addresses. swept: all that is needed is in the treasury. paying: the payment is on its way until it is final.';
comment on column analytics.payout_steps.began_at is 'When the step began.';
comment on column analytics.payout_steps.ended_at is 'When the next one began, or the payout ended; null while it is the present one.';
comment on column analytics.payout_steps.seconds is 'Seconds from began_at to ended_at; null while it is the present one.';
comment on column analytics.payout_steps.status is 'The status of the payout now.';
comment on column analytics.payout_steps.created_at is 'When the merchant requested the payout.';
comment on column analytics.payout_steps.payout_uuid is 'payout_id as a UUID, to search by: payout_uuid = analytics.id(''pay_...'').';
grant select on analytics.payout_steps to sluice_analyst;
