-- Begins a withdrawal of the operator's own money from the treasury, on a chain with outputs (outgoing/withdraw.sql: with accounts). Only `sluice
-- treasury withdraw` calls it, as the owner of the database. The worker sends it; custody signs it if the recipient is on the operator's whitelist.
--
-- Promise: it never takes a merchant's money. Amount and fee fit into the operator's own, and are reserved in the same transaction.
-- Locks: treasury. Error: SL422 the operator's own money, or the treasury's free outputs, are not enough.

create or replace function app.begin_output_withdrawal(of_chain text, amount numeric, recipient text, inputs text[], network_fee numeric) returns uuid
language plpgsql security definer set search_path = pg_catalog as $$
declare
  token text := app.native_token(of_chain);
  treasury text := app.treasury_address(of_chain);
  found_outputs record;
  short text;
  outgoing_payment uuid;
  first_input text;
begin
  perform app.lock_treasury(of_chain);
  short := app.shortage(of_chain, token, null, amount, 0, network_fee);
  if short is not null then raise exception 'the operator''s own money is not enough: %', short using errcode = 'SL422'; end if;
  select * into found_outputs from app.weigh_outputs(of_chain, inputs, null, true);
  first_input := app.first_input_of(of_chain, inputs);
  if found_outputs.count is distinct from cardinality(inputs) or first_input is null or found_outputs.total < amount + network_fee then
    raise exception 'the treasury''s free outputs are not enough now; try again when its transactions are final' using errcode = 'SL422';
  end if;
  perform app.reserve(of_chain, token, amount);
  perform app.reserve(of_chain, token, network_fee);
  insert into app.outgoing_payment as s (kind, chain, token, amount, source, recipient, fee_payer, first_input, max_fee)
  values ('withdrawal', of_chain, token, begin_output_withdrawal.amount, treasury, begin_output_withdrawal.recipient, treasury, first_input, network_fee)
  returning s.id into outgoing_payment;
  perform app.reserve_outputs(of_chain, inputs, outgoing_payment, 1);
  perform app.wake_outgoing_payments(of_chain);
  return outgoing_payment;
end $$;
comment on function app.begin_output_withdrawal is 'Reserves outputs of the treasury for a withdrawal of the operator''s own money (amounts in base units); returns the id of the outgoing payment.';

