-- Ending an outgoing payment (app.outgoing_payment) and signing for it exclude each other. Custody calls this before it judges, and keeps the row locked
-- until its journal is committed. What ends a payment, cancels it or gives it up updates the same row, and so waits for custody, or custody for it.
-- Without this, a payment could end between custody's judgement and its signature.
--
-- Promise: it never waits longer than half a second, less than deadlock_timeout, so custody always gives way first. It is the only right that custody
-- has on the row. The worker must never hold the row while it asks custody.
-- Locks: the outgoing payment.

create or replace function custody.lock_outgoing_payment(of_outgoing_payment uuid) returns boolean
language plpgsql security definer set search_path = pg_catalog set lock_timeout = '500ms' as $$
begin
  perform from app.outgoing_payment s where s.id = of_outgoing_payment for update;
  return true;
exception when lock_not_available or deadlock_detected then
  return false;
end $$;
comment on function custody.lock_outgoing_payment is 'Locks an outgoing payment until the end of custody''s transaction, so that nothing ends it meanwhile. False if somebody else holds it: try again.';
grant execute on function custody.lock_outgoing_payment to sluice_custody;
