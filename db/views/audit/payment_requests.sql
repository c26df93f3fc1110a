-- Computes the state of each request from its receipts a second time, without app.payment_state: for all requests at once, because one after the other
-- would take minutes. A request that time has changed, and whose status was not decided since, is left out. app.stuck reports an undecided one; it is no
-- finding here, because a copy of the database that was restored for an audit has no worker.
create or replace view audit.payment_requests as
with receipt as (
  select c.*, r.amount - least(greatest(r.tolerance, least(r.detected_from - 1, div(r.amount, 100))), greatest(r.amount - r.detected_from, 0)) as enough,
    sum(c.amount) filter (where c.status = 'final') over (partition by c.payment_request_id order by c.finalisation, c.seq) as so_far
  from app.receipt c join app.payment_request r on r.id = c.payment_request_id
), summed as (
  select r.id, coalesce(sum(c.amount) filter (where c.status = 'final'), 0) as received,
    coalesce(sum(c.amount) filter (where c.status = 'pending'), 0) as pending,
    coalesce(bool_or(c.late) filter (where c.status = 'final'), false) as late,
    coalesce(bool_or(not c.late) filter (where c.status = 'pending'), false) as is_coming_in_time,
    coalesce(min(c.txid) filter (where c.status = 'final' and c.so_far >= c.enough and c.so_far - c.amount < c.enough),
      (array_agg(c.txid order by c.so_far desc) filter (where c.status = 'final'))[1]) as txid,
    min(c.finalised_at) filter (where c.status = 'final' and c.so_far >= c.enough and c.so_far - c.amount < c.enough) as paid_at
  from app.payment_request r left join receipt c on c.payment_request_id = r.id group by r.id
), due as (
  select s.*, case when s.paid_at is not null then 'paid'
    when s.received + s.pending < r.detected_from then case when r.expired_at is null then 'awaiting' when r.cancelled_at is null then 'expired' else 'cancelled' end
    when s.received >= r.detected_from and r.expired_at is not null and not s.is_coming_in_time then 'underpaid' else 'detected' end as status
  from summed s join app.payment_request r on r.id = s.id and coalesce(r.decide_at > clock_timestamp(), true)
)
select r.id, r.status, d.status as due_status, r.received, d.received as due_received, r.pending, d.pending as due_pending, r.late, d.late as due_late,
  r.txid, d.txid as due_txid, r.paid_at, d.paid_at as due_paid_at, r.position
from app.payment_request r join due d on d.id = r.id
where (r.status, r.received, r.pending, r.late, r.txid, r.paid_at) is distinct from (d.status, d.received, d.pending, d.late, d.txid, d.paid_at)
  or (r.position is not null) <> (d.status in ('paid', 'underpaid'));
comment on view audit.payment_requests is 'the state of each payment request follows from its receipts, and GET /payments has those that are paid or underpaid';
comment on column audit.payment_requests.id is 'The payment request.';
comment on column audit.payment_requests.status is 'Its status as stored.';
comment on column audit.payment_requests.due_status is 'Its status by its receipts.';
comment on column audit.payment_requests.received is 'Sum of its final receipts in base units, as stored.';
comment on column audit.payment_requests.due_received is 'The same, counted.';
comment on column audit.payment_requests.pending is 'Sum of its pending receipts in base units, as stored.';
comment on column audit.payment_requests.due_pending is 'The same, counted.';
comment on column audit.payment_requests.late is 'Whether a final receipt came late, as stored.';
comment on column audit.payment_requests.due_late is 'The same, by the receipts.';
comment on column audit.payment_requests.txid is 'The transaction that it names, as stored.';
comment on column audit.payment_requests.due_txid is 'The same, by the receipts.';
comment on column audit.payment_requests.paid_at is 'When it was paid, as stored.';
comment on column audit.payment_requests.due_paid_at is 'The same, by the receipts.';
comment on column audit.payment_requests.position is 'Its place in GET /payments: set if, and only if, it is paid or underpaid.';
