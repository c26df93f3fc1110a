-- Adds inputs to the next attempt of an outgoing payment (app.outgoing_payment) on a chain with outputs, when its change cannot pay the higher fee
-- that a replacement (RBF) needs. The worker calls this before it asks custody for that attempt.
--
-- Promises: inputs are only ever added, so at most one attempt can be mined. It returns false, and changes nothing, if it is too late (the outgoing
-- payment is final, or its next attempt has another number) or one of the outputs is not free. A sweep takes no output of the treasury, unless it is being cancelled.
-- Locks: payout, treasury, outgoing payment.

create or replace function app.add_inputs(of_outgoing_payment uuid, number int, inputs text[]) returns boolean
language plpgsql security definer set search_path = pg_catalog as $$
declare
  s app.outgoing_payment;
  p app.payout;
  found_outputs record;
begin
  select * into s from app.outgoing_payment x where x.id = of_outgoing_payment;
  select * into p from app.payout o where o.id = s.payout_id for update;
  perform app.lock_treasury(s.chain);
  select * into s from app.outgoing_payment x where x.id = of_outgoing_payment for update;
  if s.status = 'final' or number <> 1 + (select count(*) from app.outgoing_attempt o where o.outgoing_payment_id = s.id) then return false; end if;
  select * into found_outputs from app.weigh_outputs(s.chain, inputs, s.merchant_id, s.kind <> 'sweep' or s.cancelling);
  if found_outputs.count is distinct from cardinality(inputs) then return false; end if;
  perform app.reserve_outputs(s.chain, inputs, s.id, number);
  if s.kind = 'payout' and p.status in ('swept', 'paying') then
    perform app.set_swept_in(s, least(s.swept_in + found_outputs.of_addresses, p.gross, p.net + s.max_fee));
  end if;
  return true;
end $$;
comment on function app.add_inputs is 'Reserves more outputs for the next attempt of an outgoing payment; the caller gives the attempt''s number. False if it came too late, or an output is not free.';
grant execute on function app.add_inputs to sluice_jobs;
