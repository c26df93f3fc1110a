-- The status of a payment request follows from its receipts and the time, and from nothing else: status, received, pending, late, txid and paid_at
-- are what app.payment_of returns, at every commit. It is computed anew at COMMIT of a transaction that changes receipts, once for each request. The
-- worker computes it each second for requests that expired, because time changes no row.
--
-- Invariant: position is set while status is paid or underpaid, and rises whenever what GET /payments shows of the request changes.
-- Locks, always in this order: chain.cursor, deposits, payment request. The function that expires requests locks nothing else.

-- Plans are cached, because planning took more than half of its time (measured). Sequential scans are off, so that plans from when the tables were
-- small use the indexes, too.
create or replace function app.refresh_payment(of_request uuid) returns void
language plpgsql set search_path = pg_catalog set enable_seqscan = off as $$
declare
  r app.payment_request;
  now record;
  is_expired boolean;
begin
  select * into strict r from app.payment_request p where p.id = of_request for no key update;
  is_expired := least(r.expires_at, r.cancelled_at) <= clock_timestamp();
  select * into now from app.payment_of(r, is_expired);
  if (r.status, r.received, r.pending, r.late, r.txid, r.paid_at, r.expired_at is not null)
    is not distinct from (now.status, now.received, now.pending, now.late, now.txid, now.paid_at, is_expired) then return; end if;
  update app.payment_request p set status = now.status, received = now.received, pending = now.pending, late = now.late, txid = now.txid,
    paid_at = now.paid_at, expired_at = case when is_expired then coalesce(p.expired_at, clock_timestamp()) end,
    position = case when now.status not in ('paid', 'underpaid') then null
      when (p.status, p.received, p.late, p.txid, p.paid_at) is distinct from (now.status, now.received, now.late, now.txid, now.paid_at) then nextval('app.payment_position')
      else p.position end
  where p.id = of_request;
end $$;
comment on function app.refresh_payment is 'Updates a payment request from its receipts and the time. Safe to call at any time.';


-- Once a request has expired, or was cancelled, and no receipt in time is pending, only final receipts count. A late receipt changes an underpaid request when it is
-- final, not before: a merchant that read "underpaid" next reads the final result.
create or replace function app.payment_of(r app.payment_request, expired boolean, out status text, out received numeric, out pending numeric,
  out late boolean, out txid text, out paid_at timestamptz)
language plpgsql stable set search_path = pg_catalog as $$
declare
  pending_in_time boolean;
  last_txid text;
begin
  select coalesce(sum(c.amount) filter (where c.status = 'final'), 0), coalesce(sum(c.amount) filter (where c.status = 'pending'), 0),
    coalesce(bool_or(c.late) filter (where c.status = 'final'), false), coalesce(bool_or(not c.late) filter (where c.status = 'pending'), false),
    (array_agg(c.txid order by c.finalisation, c.seq) filter (where c.so_far >= r.amount))[1],
    (array_agg(c.finalised_at order by c.finalisation, c.seq) filter (where c.so_far >= r.amount))[1],
    (array_agg(c.txid order by c.finalisation desc, c.seq desc) filter (where c.status = 'final'))[1]
  into received, pending, late, pending_in_time, txid, paid_at, last_txid
  from (
    select f.*, case f.status when 'final' then sum(f.amount) over (partition by f.status order by f.finalisation, f.seq) end as so_far
    from app.receipt f where f.payment_request_id = r.id
  ) c;
  txid := coalesce(txid, last_txid);
  status := case when received >= r.amount then 'paid'
    when pending_in_time or (pending > 0 and received = 0) or (received > 0 and not expired) then 'detected'
    when not expired then 'awaiting'
    when received > 0 then 'underpaid'
    when r.cancelled_at is not null then 'cancelled' else 'expired' end;
end $$;
comment on function app.payment_of is 'The state of a payment request by its receipts: its status; what is final and what is pending, in base units; whether some of it came late; the transaction that completed it (else the last one), and when that became final.';


create or replace function app.refresh_touched_payment() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
begin
  delete from app.touched_payment where txn = new.txn and payment_request_id = new.payment_request_id;
  perform app.refresh_payment(new.payment_request_id);
  return null;
end $$;
comment on function app.refresh_touched_payment is 'Updates a payment request at COMMIT of the transaction that changed its receipts.';
create constraint trigger refresh after insert on app.touched_payment deferrable initially deferred
  for each row execute function app.refresh_touched_payment();

-- Requests that another caller is updating are skipped, so it may run at any time and in several places.
create or replace function app.expire_payment_requests(batch int default 100) returns int
language plpgsql security definer set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
declare
  due uuid;
  expired int := 0;
begin
  for due in
    select p.id from app.payment_request p
    where p.expires_at <= clock_timestamp() and p.expired_at is null and p.status in ('awaiting', 'detected')
    order by p.expires_at limit batch for no key update skip locked
  loop
    perform app.refresh_payment(due);
    expired := expired + 1;
  end loop;
  return expired;
end $$;
comment on function app.expire_payment_requests is 'Decides the status of payment requests that have expired, once each; returns how many. Fewer than batch: no more are due.';
grant execute on function app.expire_payment_requests to sluice_jobs;
