-- Stores what custody signed for an outgoing payment (app.outgoing_payment) as its next attempt. The worker calls this between custody's response
-- and the first broadcast. After its COMMIT the bytes may be given to a node, and the payout of this payment is paying.
--
-- Promises: attempts are numbered 1, 2, 3 ..., each is stored once, and a higher fee is reserved in the same transaction. So it may run twice, and
-- in two workers at once. It returns false, and changes nothing, in these cases: the outgoing payment is final; it is being cancelled, and this
-- attempt is no cancel; the next attempt has another number; the transaction is stored for it already; the operator's own money in the treasury, or its
-- gas on the address, which bears the fee, cannot pay a higher one now.
-- A cancel moves nothing: an account pays itself, and outputs go to the treasury.
-- Locks: payout, treasury, outgoing payment.
-- Error: P0003 custody signed this transaction with another conflict key than that of the outgoing payment; or, where attempts expire and have no
-- conflict key, for another one.

create or replace function app.store_signed(of_outgoing_payment uuid, number int, of_kind text, of_txid text, of_raw text, of_amount numeric,
  of_max_fee numeric, of_fee_details jsonb) returns boolean
language plpgsql security definer set search_path = pg_catalog as $$
declare
  s app.outgoing_payment;
  native text;
  more numeric;
begin
  select * into s from app.outgoing_payment x where x.id = of_outgoing_payment;
  perform from app.payout p where p.id = s.payout_id for update;
  perform app.lock_treasury(s.chain);
  select * into s from app.outgoing_payment x where x.id = of_outgoing_payment for update;
  if s.status = 'final' or (s.cancelling and of_kind = 'effect')
    or number <> 1 + (select count(*) from app.outgoing_attempt o where o.outgoing_payment_id = s.id)
    or exists (select from app.outgoing_attempt o where o.chain = s.chain and o.txid = of_txid and o.outgoing_payment_id = s.id) then
    return false;
  end if;
  perform from custody.journal j where j.stream = s.chain and j.txid = of_txid and j.conflict_key is distinct from s.conflict_key;
  if found then
    raise exception 'transaction % was signed with another nonce or first input than that of outgoing payment %', of_txid, s.id using errcode = 'P0003';
  end if;
  perform from custody.journal j where j.stream = s.chain and j.txid = of_txid and s.conflict_key is null
    and j.subject_id is distinct from case s.kind when 'payout' then s.payout_id else s.id end;
  if found then
    raise exception 'transaction % was signed for another payment than %', of_txid, s.id using errcode = 'P0003';
  end if;
  native := app.native_token(s.chain);
  more := greatest(of_max_fee - s.max_fee, 0);
  if more > 0 and s.fee_payer = app.treasury_address(s.chain) then
    if app.operator_funds(s.chain, native) < more then return false; end if;
    perform app.reserve(s.chain, native, more);
  elsif more > 0 and s.from_gas then
    if app.gas_for(s) < more then return false; end if;
    perform app.reserve_gas(s, more);
  end if;
  insert into app.outgoing_attempt (chain, txid, outgoing_payment_id, attempt, kind, raw, token, source, recipient, amount, max_fee, fee_details)
  values (s.chain, of_txid, s.id, number, of_kind, of_raw, case of_kind when 'cancel' then native else s.token end,
    case when of_kind = 'cancel' and s.nonce is not null then s.fee_payer else s.source end,
    case of_kind when 'cancel' then s.fee_payer else s.recipient end, of_amount, of_max_fee, of_fee_details);
  update app.outgoing_payment x set status = 'live', max_fee = x.max_fee + more, waiting_reason = null, waiting_detail = null, waiting_since = null,
    next_step_at = clock_timestamp()
  where x.id = s.id;
  if s.kind = 'payout' and of_kind = 'effect' then
    update app.payout p set status = 'paying' where p.id = s.payout_id and p.status = 'swept';
  end if;
  return true;
end $$;
comment on function app.store_signed is 'Stores a signed transaction as the next attempt of an outgoing payment, before it may be broadcast; amounts in base units. False if it came too late, or costs more than the operator has. Safe to run again.';
grant execute on function app.store_signed to sluice_jobs;
