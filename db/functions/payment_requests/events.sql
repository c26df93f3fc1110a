-- The events of payment requests, in the transaction that changes the request. Only an endpoint that names their types gets them, and only a list that
-- asks for one of them shows them.
--
-- Each change of the status is one: detected, paid, underpaid, expired, cancelled; or reopened, where a reorganisation (or an operator, after one) took
-- back that it was paid, or all that was seen. So is each time that more is final, without being enough: partially_paid. (Dust on top is none: anybody could
-- send it, for ever.)

create or replace function app.emit_payment_event(was app.payment_request, now_status text, now_received numeric) returns void
language plpgsql set search_path = pg_catalog as $$
declare
  r app.payment_request;
  kind text;
begin
  foreach kind in array array[
    case when now_status = was.status then null when was.status = 'paid' or now_status = 'awaiting' then 'reopened' else now_status end,
    case when now_received >= was.detected_from and (now_received - was.received >= was.detected_from or was.received < was.detected_from)
      and now_received > was.received and (now_status = 'detected' or (now_status, was.status) = ('underpaid', 'underpaid'))
      then 'partially_paid' end]
  loop
    continue when kind is null;
    update app.payment_request p set version = p.version + 1 where p.id = was.id returning * into r;
    perform app.add_payment_event(r, 'payment_request.' || kind);
  end loop;
end $$;
comment on function app.emit_payment_event is 'Adds the events of a change from what a payment request was to its new status, and to what is final now.';

create or replace function app.add_payment_event(r app.payment_request, of_type text) returns void
language plpgsql set search_path = pg_catalog as $$
declare
  event uuid := uuidv7();
  at timestamptz := clock_timestamp();
  body json;
begin
  select json_build_object(
    'type', of_type, 'id', app.public_id('evt', event), 'external_id', r.external_id, 'currency', a.name, 'address', w.address,
    'amount', app.decimal(r.amount, a.decimals), 'tolerance', app.decimal(r.tolerance, a.decimals), 'status', r.status,
    'amount_received', app.decimal(r.received, a.decimals), 'amount_pending', app.decimal(r.pending, a.decimals),
    'shortfall', app.decimal(greatest(r.amount - r.received, 0), a.decimals), 'late', r.late, 'txid', r.txid, 'expires_at', app.iso(r.expires_at),
    'metadata', r.metadata, 'created_at', app.iso(at)) into strict body
  from app.asset a join app.address w on w.chain = a.chain and w.payment_request_id = r.id where a.chain = r.chain and a.token = r.token;
  perform app.add_event(event, r.merchant_id, of_type, r.id, r.version, at, body);
end $$;
comment on function app.add_payment_event is 'Adds an event of this type with the state of a payment request.';
