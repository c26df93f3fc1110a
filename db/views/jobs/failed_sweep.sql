-- A delegate that is given up before it is signed is no failure: the stake was used up meanwhile, and the sweep goes another way.
-- One row for each sweep of a merchant's address, and each fund or delegate for one, that an address is judged by: it failed within the last day, and none succeeded since. Readers:
-- functions/payouts/failed_sweeps.sql and sweep.sql; app.unswept_address.
create or replace view app.failed_sweep as
select s.chain, s.token, s.source as address, s.merchant_id, s.outcome, s.final_at, app.why_failed(s) as failure
from app.outgoing_payment s
where s.kind = 'sweep' and s.merchant_id is not null and s.outcome <> 'done' and s.final_at > clock_timestamp() - interval '1 day'
  and not exists (
    select from app.outgoing_payment d
    where d.kind = 'sweep' and d.merchant_id is not null and d.chain = s.chain and d.token = s.token and d.source = s.source and d.outcome = 'done'
      and d.final_at >= s.final_at)
union all
select s.chain, s.for_token, s.recipient, s.merchant_id, s.outcome, s.final_at,
  case s.kind when 'fund' then 'the gas for it was not sent: ' else 'it was lent no energy: ' end || app.why_failed(s)
from app.outgoing_payment s
where s.kind in ('fund', 'delegate') and s.outcome <> 'done' and not (s.kind = 'delegate' and s.outcome = 'cancelled') and s.final_at > clock_timestamp() - interval '1 day'
  and not exists (
    select from app.outgoing_payment d
    where d.kind in ('fund', 'delegate') and d.kind = s.kind and d.chain = s.chain and d.recipient = s.recipient and d.outcome = 'done' and d.final_at >= s.final_at);
comment on view app.failed_sweep is 'Sweeps of merchants'' addresses, and what should ready their addresses for them (funds, delegates), that failed within a day and after the last one of the address that did not.';
comment on column app.failed_sweep.address is 'The address that was to be swept.';
comment on column app.failed_sweep.merchant_id is 'Whose money it holds.';
comment on column app.failed_sweep.outcome is 'How it ended: as app.outgoing_payment.outcome.';
comment on column app.failed_sweep.final_at is 'When it ended.';
comment on column app.failed_sweep.failure is 'Why it failed, in words for operators.';
