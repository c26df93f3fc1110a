-- What the dashboard shows and changes of payment requests: how much of a new one may be missing.
--
-- Locks: change_request, merchant. Errors: those of dashboard.begin_change and of app.set_payment_tolerance; SLSTP, SLSUS.

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
