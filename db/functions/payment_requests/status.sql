-- The status of a payment request follows from its receipts and the time, and from nothing else: status, received, pending, late, txid and paid_at
-- are what app.payment_state returns, at every commit. It is computed anew at COMMIT of a transaction that changes receipts, once for each request. The
-- worker computes it when time alone may change it (decide_at), because time changes no row.
--
-- Invariant: position is set while status is paid or underpaid, and rises whenever what GET /payments shows of the request changes. Each change that
-- merchants are told of is an event (events.sql).
-- Locks, always in this order: chain.cursor, deposits, payment request. The function that decides by time locks nothing else.

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
  select * into now from app.payment_state(r, is_expired);
  if (r.status, r.received, r.pending, r.late, r.txid, r.paid_at, r.expired_at is not null, r.decide_at)
    is not distinct from (now.status, now.received, now.pending, now.late, now.txid, now.paid_at, is_expired, now.decide_at) then return; end if;
  update app.payment_request p set status = now.status, received = now.received, pending = now.pending, late = now.late, txid = now.txid,
    paid_at = now.paid_at, expired_at = case when is_expired then coalesce(p.expired_at, clock_timestamp()) end, decide_at = now.decide_at,
    position = case when now.status not in ('paid', 'underpaid') then null
      when (p.status, p.received, p.late, p.txid, p.paid_at) is distinct from (now.status, now.received, now.late, now.txid, now.paid_at) then nextval('app.payment_position')
      else p.position end
  where p.id = of_request;
  perform app.emit_payment_event(r, now.status, now.received);
end $$;
comment on function app.refresh_payment is 'Updates a payment request from its receipts and the time. Safe to call at any time.';

-- What counts as a payment at all is the sum: dust moves no request, and a last cent of it can complete one. Once a request has expired, or was cancelled,
-- and no receipt in time is pending, only final receipts count. A late receipt changes an underpaid request when it is final, not before: a merchant that
-- read "underpaid" next reads the final result.
create or replace function app.payment_state(r app.payment_request, expired boolean, out status text, out received numeric, out pending numeric,
  out late boolean, out txid text, out paid_at timestamptz, out decide_at timestamptz)
language plpgsql stable set search_path = pg_catalog as $$
declare
  enough numeric := app.paid_from(r);
  pending_in_time boolean;
  unmined_in_time boolean;
  last_txid text;
begin
  select coalesce(sum(c.amount) filter (where c.status = 'final'), 0), coalesce(sum(c.amount) filter (where c.status = 'pending'), 0),
    coalesce(bool_or(c.late) filter (where c.status = 'final'), false), coalesce(bool_or(not c.late) filter (where c.status = 'pending'), false),
    coalesce(bool_or(not c.late and c.is_unmined), false),
    (array_agg(c.txid order by c.finalisation, c.seq) filter (where c.so_far >= enough))[1],
    (array_agg(c.finalised_at order by c.finalisation, c.seq) filter (where c.so_far >= enough))[1],
    (array_agg(c.txid order by c.finalisation desc, c.seq desc) filter (where c.status = 'final'))[1]
  into received, pending, late, pending_in_time, unmined_in_time, txid, paid_at, last_txid
  from (
    select f.*, case f.status when 'final' then sum(f.amount) over (partition by f.status order by f.finalisation, f.seq) end as so_far
    from app.receipt f where f.payment_request_id = r.id
  ) c;
  txid := coalesce(txid, last_txid);
  status := case when received >= enough then 'paid'
    when received + pending < r.detected_from then case when not expired then 'awaiting' when r.cancelled_at is not null then 'cancelled' else 'expired' end
    when pending_in_time or received < r.detected_from or not expired then 'detected'
    else 'underpaid' end;
  decide_at := case when status not in ('awaiting', 'detected') then null when not expired then least(r.expires_at, r.cancelled_at)
    when unmined_in_time then nullif(app.or_soon(least(r.expires_at, r.cancelled_at) + r.late_after), 'infinity') end;
end $$;
comment on function app.payment_state is 'The state of a payment request by its receipts: its status; what is final and what is pending, in base units; whether some of it came late; the transaction that completed it (else the last one), and when that became final; when time alone may change it.';

-- What is in no block is late only once the chain was read up to then (app.receipt), which may take a while.
create or replace function app.or_soon(at timestamptz) returns timestamptz
language sql stable set search_path = pg_catalog
return case when at > statement_timestamp() then at else statement_timestamp() + interval '10 seconds' end;
comment on function app.or_soon is 'A time, or ten seconds from now if it is past.';

create or replace function app.paid_from(r app.payment_request) returns numeric
language sql immutable set search_path = pg_catalog
return greatest(least(r.detected_from, r.amount), r.amount - greatest(r.tolerance, least(r.detected_from - 1, div(r.amount, 100))));
comment on function app.paid_from is 'The least that pays a request, in base units: what is missing then is within its tolerance, or too little to be a payment and no more than a hundredth.';

create or replace function app.payment_missing(r app.payment_request) returns numeric
language sql stable set search_path = pg_catalog as $$
  select case when r.received + r.pending >= app.paid_from(r) then 0 else greatest(r.amount - r.received - r.pending, a.min_payment) end
  from app.asset a where a.chain = r.chain and a.token = r.token
$$;
comment on function app.payment_missing is 'What has to be sent to pay a request, in base units, besides what was seen: never less than anybody can send. 0 if enough was seen.';

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
create or replace function app.decide_payment_requests(batch int default 100) returns int
language plpgsql security definer set search_path = pg_catalog set enable_seqscan = off as $$
declare
  due uuid;
  decided int := 0;
  now timestamptz := clock_timestamp(); -- a constant for the index
begin
  for due in
    select p.id from app.payment_request p where p.decide_at <= now order by p.decide_at limit batch for no key update skip locked
  loop
    perform app.refresh_payment(due);
    decided := decided + 1;
  end loop;
  return decided;
end $$;
comment on function app.decide_payment_requests is 'Decides the status of payment requests that time may change: those that have expired, and those whose money is in no block for too long. Returns how many. Fewer than batch: no more are due.';
grant execute on function app.decide_payment_requests to sluice_jobs;
