-- What the dashboard shows and changes of payment requests: one that there is (lists.sql has the list), a new one, the end of one, and how much of a new one may be missing.
--
-- A request moves no money, so it needs no second factor again. What is asked for, and of whom, is decided by the functions that the API calls, too.
-- Locks: change_request, then those of app.request_payment, app.cancel_payment_request and app.set_payment_tolerance (merchant).
-- Errors: those of dashboard.begin_change and of these functions; SL404; SLSTP, SLSUS.

create or replace function dashboard.payment_request(token text, external_id text) returns json
language plpgsql stable security definer set search_path = pg_catalog as $$
declare
  merchant uuid := dashboard.merchant_of(token);
  found app.payment_response;
begin
  select * into found from app.read_payment_request(merchant, external_id);
  if found.body is null then raise exception 'there is no payment request with this reference' using errcode = 'SL404', detail = 'payment_request'; end if;
  return (select app.with_more(found.body::json, row_to_json(more)) from (select found.chain, found.token, found.amount as due,
      dashboard.events_of(r.id) as events, (select coalesce(json_agg(json_build_object('txid', n.txid, 'what', n.what, 'why', n.why, 'at', app.iso(n.at))
        order by n.at), '[]') from app.not_counted(r.id) n) as not_counted
    from app.payment_request r where r.merchant_id = merchant and r.external_id = app.request_ref(merchant, payment_request.external_id)) more);
end $$;
comment on function dashboard.payment_request is 'A payment request with what came for it, what is due now in base units, and what its merchant was notified of.';
grant execute on function dashboard.payment_request to sluice_dashboard;

create or replace function dashboard.currencies(token text) returns json
language sql stable security definer set search_path = pg_catalog as $$
  select coalesce(json_agg(json_build_object('name', a.name, 'display_name', a.display_name) order by a.name), '[]')
  from app.merchant_chain m join app.asset a using (chain)
  where m.merchant_id = dashboard.merchant_of(currencies.token) and m.enabled and not app.is_disabled(a.chain, a.token)
$$;
comment on function dashboard.currencies is 'What a payment request can ask for.';
grant execute on function dashboard.currencies to sluice_dashboard;

create or replace function dashboard.create_payment_request(token text, request uuid, currency text, external_id text, amount text, expires_in_seconds int,
  tolerance text, late_after_seconds int) returns json
language plpgsql security definer set search_path = pg_catalog as $$
declare
  who dashboard.audit_entry := dashboard.begin_change(token, request);
  made json;
begin
  perform dashboard.refuse_suspended(who.merchant_id);
  made := (app.request_payment(who.merchant_id, currency, external_id, amount, make_interval(secs => expires_in_seconds), null, null, null, null,
    tolerance, make_interval(secs => late_after_seconds))).body;
  perform dashboard.note(who, 'payment_request.create', made ->> 'external_id', (made ->> 'amount') || ' ' || currency);
  return json_build_object('id', made ->> 'external_id');
end $$;
comment on function dashboard.create_payment_request is 'Makes a payment request, as the API does; returns its reference. SL503 while no address is free.';
grant execute on function dashboard.create_payment_request to sluice_dashboard;

create or replace function dashboard.cancel_payment_request(token text, request uuid, external_id text) returns void
language plpgsql security definer set search_path = pg_catalog as $$
declare who dashboard.audit_entry := dashboard.begin_change(token, request);
begin
  perform app.cancel_payment_request(who.merchant_id, external_id);
  perform dashboard.note(who, 'payment_request.cancel', external_id);
end $$;
comment on function dashboard.cancel_payment_request is 'Cancels a payment request that is awaiting.';
grant execute on function dashboard.cancel_payment_request to sluice_dashboard;

create or replace function dashboard.payment_tolerance(token text) returns int
language sql stable security definer set search_path = pg_catalog as $$
  select m.payment_tolerance_bps from app.merchant m where m.id = dashboard.merchant_of(payment_tolerance.token)
$$;
comment on function dashboard.payment_tolerance is 'How much of a new payment request may be missing, in basis points.';
grant execute on function dashboard.payment_tolerance to sluice_dashboard;

create or replace function dashboard.set_payment_tolerance(token text, request uuid, bps int) returns void
language plpgsql security definer set search_path = pg_catalog as $$
declare who dashboard.audit_entry := dashboard.begin_change(token, request);
begin
  perform dashboard.require_full_rights(token);
  perform app.set_payment_tolerance(who.merchant_id, bps);
  perform dashboard.note(who, 'payment_tolerance.set', null, trim_scale(bps / 100.0) || '%');
end $$;
comment on function dashboard.set_payment_tolerance is 'Sets how much of a new payment request may be missing; those that exist keep theirs.';
grant execute on function dashboard.set_payment_tolerance to sluice_dashboard;
