-- Begins a withdrawal of the operator's own money from the treasury, on a chain with accounts (outputs/withdraw.sql: with outputs). Only `sluice
-- treasury withdraw` calls it, as the owner of the database. The worker sends it; custody signs it if the recipient is on the operator's whitelist.
--
-- Promise: it never takes a merchant's money. Amount and fee fit into the operator's own, and are reserved in the transaction that takes the nonce.
-- Locks: treasury, sender. Error: SL422 the operator's own money is not enough; the message says what is short.

create or replace function app.begin_withdrawal(of_chain text, of_token text, amount numeric, recipient text, network_fee numeric) returns uuid
language plpgsql security definer set search_path = pg_catalog as $$
declare
  treasury text := app.treasury_address(of_chain);
  short text;
  outgoing_payment uuid;
begin
  perform app.lock_treasury(of_chain);
  short := app.shortage(of_chain, of_token, null, amount, 0, network_fee);
  if short is not null then raise exception 'the operator''s own money is not enough: %', short using errcode = 'SL422'; end if;
  perform app.reserve(of_chain, of_token, amount);
  perform app.reserve(of_chain, app.native_token(of_chain), network_fee);
  insert into app.outgoing_payment as s (kind, chain, token, amount, source, recipient, fee_payer, nonce, max_fee)
  values ('withdrawal', of_chain, of_token, begin_withdrawal.amount, treasury, begin_withdrawal.recipient, treasury,
    app.take_nonce(of_chain, treasury), network_fee)
  returning s.id into outgoing_payment;
  perform app.wake_outgoing_payments(of_chain);
  return outgoing_payment;
end $$;
comment on function app.begin_withdrawal is 'Takes a nonce for a withdrawal of the operator''s own money (amounts in base units); returns the id of the outgoing payment.';

