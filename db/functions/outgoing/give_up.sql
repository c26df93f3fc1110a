-- Gives up an outgoing payment (app.outgoing_payment) that nothing signed for it can pay, so that neither money nor a nonce waits for a refusal that may
-- last: nothing was signed, or all of it has expired.
--
-- Promises: nothing that can still be mined is given up: its row stays locked from the check of custody's journal until COMMIT, and custody signs only
-- with that lock. On a halted chain nothing is given up: an older copy of the database may not know what was signed. All are safe to run again.
-- Locks: chain.cursor, payout, treasury, outgoing payment; then what follows for outputs (outputs/finish.sql) and for the payout.

-- No transaction has to use anything up where attempts do not exclude each other by nonces: nothing waits behind it.
create or replace function app.end_unsigned(of_outgoing_payment uuid) returns boolean
language plpgsql security definer set search_path = pg_catalog as $$
declare s app.outgoing_payment := app.lock_unsigned(of_outgoing_payment);
begin
  if s.id is null or not s.cancelling or s.nonce is not null then return false; end if;
  perform app.end_without_transaction(s, 'cancelled');
  return true;
end $$;
comment on function app.end_unsigned is 'Ends an outgoing payment that is being cancelled, without a transaction. False where something signed may still pay it, it has a nonce, or its chain is halted.';
grant execute on function app.end_unsigned to sluice_jobs;

-- Where attempts expire: what cannot be signed again does not wait for ever. All that was signed for it can never be mined, so its payout fails. The
-- step of a return begins anew, with another outgoing payment: what is to be returned is where it was.
create or replace function app.expire_payment(of_outgoing_payment uuid, code text, message text, after_ms int default 0) returns boolean
language plpgsql security definer set search_path = pg_catalog as $$
declare s app.outgoing_payment := app.lock_unsigned(of_outgoing_payment);
begin
  if s.id is null or s.conflict_key is not null or s.cancelling
    or after_ms > 0 and not coalesce((select max(l.lapsed_at) from app.outgoing_attempt o join chain.lapse l on l.chain = o.chain and l.txid = o.txid
      where o.outgoing_payment_id = s.id) <= clock_timestamp() - after_ms * interval '1 millisecond', false) then
    return false;
  end if;
  perform app.end_without_transaction(s, 'expired', code, message);
  update app.unattributed_decision u set sweep_id = nullif(u.sweep_id, s.id), withdrawal_id = nullif(u.withdrawal_id, s.id)
  where u.decision = 'return' and s.id in (u.sweep_id, u.withdrawal_id);
  return true;
end $$;
comment on function app.expire_payment is 'Ends an outgoing payment whose signed transactions have all expired, the last one at least this long ago; fails its payout with this code, and has the step of a return begin anew. False if one of its transactions may still be mined, it is being cancelled, or its chain is halted.';
grant execute on function app.expire_payment to sluice_jobs;

create or replace function app.end_without_transaction(s app.outgoing_payment, of_outcome text, code text default null, message text default null)
returns void
language plpgsql set search_path = pg_catalog as $$
begin
  update app.outgoing_payment x set status = 'final', outcome = of_outcome, fee_paid = 0, final_at = clock_timestamp(), next_step_at = null,
    waiting_reason = null, waiting_detail = null, waiting_since = null, first_input = null, -- which another payment may use
    failure = coalesce(x.failure, message)
  where x.id = s.id returning * into s;
  if app.uses_outputs(s.chain) then perform app.finish_outputs(s); end if;
  if s.fee_payer = app.treasury_address(s.chain) then perform app.reserve(s.chain, app.native_token(s.chain), -s.max_fee); end if;
  if s.from_gas then perform app.add_gas(s.chain, s.fee_payer, 0, -s.max_fee); end if;
  if s.kind = 'payout' then perform app.finish_payment(s, s.outcome, null, code, message);
  elsif s.kind = 'withdrawal' then perform app.finish_withdrawal(s, s.outcome);
  elsif s.kind = 'fund' then perform app.finish_fund(s, s.outcome);
  elsif s.kind = 'defund' then perform app.finish_defund(s, s.outcome, 0);
  elsif s.kind = 'stake' then perform app.reserve(s.chain, s.token, -s.amount);
  end if;
  perform app.end_use_of_delegation(s);
  perform app.release_after_sweep(s);
  perform app.wake_payouts_after(array[s.id]);
end $$;
comment on function app.end_without_transaction is 'Ends an outgoing payment that nothing signed can pay any more; code and message are those of its payout, if the outcome is expired.';

-- A nonce without a transaction holds up every later one of its address. So a payment that custody refuses does not keep its nonce while its payout
-- waits: a cancel uses the nonce up, and the payout begins another payment when custody would sign it.
create or replace function app.give_nonce_back(of_payout uuid, after_ms int) returns boolean
language plpgsql security definer set search_path = pg_catalog as $$
declare
  p app.payout;
  s app.outgoing_payment;
begin
  select * into p from app.payout o
  where o.id = of_payout and o.status = 'swept' and o.waiting_since <= clock_timestamp() - after_ms * interval '1 millisecond';
  select * into s from app.outgoing_payment x where x.payout_id = p.id and x.kind = 'payout' and x.nonce is not null and not x.cancelling;
  s := app.lock_unsigned(s.id);
  select * into p from app.payout o where o.id = of_payout and o.status = 'swept'; -- locked, too
  if s.id is null or p.id is null then return false; end if;
  perform app.unreserve_payment(p, s);
  update app.outgoing_payment x set kind = 'cancel', payout_id = null, merchant_id = null, token = app.native_token(s.chain), amount = 0,
    recipient = s.fee_payer, cancelling = true, next_step_at = clock_timestamp()
  where x.id = s.id;
  perform app.wake_outgoing_payments(s.chain);
  return true;
end $$;
comment on function app.give_nonce_back is 'Makes the payment of a swept payout a cancel, which uses its nonce up, if the payout has waited this long and nothing was signed: the payout keeps waiting without a payment.';
grant execute on function app.give_nonce_back to sluice_jobs;

create or replace function app.lock_unsigned(of_outgoing_payment uuid) returns app.outgoing_payment
language plpgsql set search_path = pg_catalog as $$
declare s app.outgoing_payment;
begin
  select * into s from app.outgoing_payment x where x.id = of_outgoing_payment and x.status <> 'final';
  if s.id is null then return null; end if;
  perform from chain.cursor c where c.chain = s.chain for update;
  perform from app.payout p where p.id = s.payout_id for update;
  perform app.lock_treasury(s.chain);
  select * into s from app.outgoing_payment x where x.id = of_outgoing_payment and x.status <> 'final' for update;
  -- Only now, with the lock: custody may have signed while this waited for it.
  if app.why_halted(s.chain) is not null
    or exists (select from app.attempt_fate f
      where f.subject_id = case s.kind when 'payout' then s.payout_id else s.id end and (f.fate <> 'dead' or not f.lapsed))
    or exists (select from custody.journal_key k where k.stream = s.chain and k.conflict_key = s.conflict_key) then
    return null;
  end if;
  return s;
end $$;
comment on function app.lock_unsigned is 'Locks an outgoing payment that can never be paid by what was signed; null if something signed may still pay it, decides it in a block, or uses its conflict key, or if its chain is halted.';
