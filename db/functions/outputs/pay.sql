-- Begins the payment of a payout on a chain with outputs, in one transaction with its sweep: the inputs bring what the merchant's addresses hold,
-- the treasury's outputs bring what is missing, the net goes to the merchant and the rest to the treasury. The worker calls this with the inputs
-- that it chose.
--
-- Promises: of two calls one begins it. With sweep_first, nothing is begun while a sweep of it is not final, nor before all its deposits are known.
-- What the merchant's outputs do not bring is the operator's own money, or that merchant's in the treasury, never another's; it is reserved in the
-- same transaction. While the payment is under way, what it brings itself (app.outgoing_payment.swept_in) is not reserved in the treasury.
-- Locks: payout, treasury.

create or replace function app.begin_output_payment(of_payout uuid, inputs text[], network_fee numeric) returns text
language plpgsql security definer set search_path = pg_catalog as $$
declare
  p app.payout;
  s app.outgoing_payment;
  found_outputs record;
  brought numeric;
  short text;
  first_input text;
  treasury text;
begin
  select * into p from app.payout o where o.id = of_payout and o.status = 'sweeping' for update;
  if p.id is null or app.is_to_sweep_first(p.id) then return null; end if;
  perform app.lock_treasury(p.chain);
  treasury := app.treasury_address(p.chain);
  select * into found_outputs from app.weigh_outputs(p.chain, inputs, p.merchant_id, true);
  first_input := app.first_input_of(p.chain, inputs);
  if found_outputs.count is distinct from cardinality(inputs) or first_input is null then return 'outputs that were chosen are not free any more'; end if;
  if found_outputs.total < p.net + network_fee then
    return app.short_by(p.chain, p.token, p.net + network_fee - found_outputs.total, ' in these outputs');
  end if;
  brought := least(found_outputs.of_addresses, p.gross, p.net + network_fee);
  short := app.shortage(p.chain, p.token, p.merchant_id, p.net - brought, p.gross - brought, network_fee);
  if short is not null then return short; end if;
  perform app.add_share(p.chain, p.token, p.merchant_id, 0, p.gross);
  perform app.reserve(p.chain, p.token, p.net);
  perform app.reserve(p.chain, app.native_token(p.chain), network_fee);
  insert into app.outgoing_payment as x (kind, chain, token, amount, source, recipient, fee_payer, first_input, payout_id, merchant_id, max_fee)
  values ('payout', p.chain, p.token, p.net, treasury, p.address, treasury, first_input, p.id, p.merchant_id, network_fee)
  returning x.* into s;
  perform app.set_swept_in(s, brought);
  perform app.reserve_outputs(p.chain, inputs, s.id, 1);
  update app.payout o set status = 'swept' where o.id = p.id;
  perform app.wake_outgoing_payments(p.chain);
  return null;
end $$;
comment on function app.begin_output_payment is 'Reserves the outputs that a payout is paid from, with this network fee (in base units), and takes it from sweeping to swept. Returns what is short; null if the payment has begun, or the payout is not ready for it. Safe to run again.';
grant execute on function app.begin_output_payment to sluice_jobs;

create or replace function app.set_swept_in(s app.outgoing_payment, brought numeric) returns void
language plpgsql set search_path = pg_catalog as $$
begin
  update app.outgoing_payment x set swept_in = brought where x.id = s.id;
  perform app.reserve(s.chain, s.token, s.swept_in - brought);
  perform app.add_share(s.chain, s.token, s.merchant_id, 0, s.swept_in - brought);
end $$;
comment on function app.set_swept_in is 'Notes how much of its payout''s gross a payment brings with it, in base units, and reserves that much less of the treasury.';


create or replace function app.give_up_swept_in(s app.outgoing_payment) returns void
language plpgsql set search_path = pg_catalog as $$
begin
  if s.swept_in > 0 then perform app.set_swept_in(s, 0); end if;
end $$;
comment on function app.give_up_swept_in is 'Stops counting on what a payment was to bring with it: everything that it needs is reserved, and the caller gives that back.';

