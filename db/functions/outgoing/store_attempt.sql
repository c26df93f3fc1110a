-- Stores what custody signed for an outgoing payment (app.spend) as its next attempt. The worker calls this between custody's answer and the first
-- broadcast: from its COMMIT on the bytes may be given to a node, and a payout whose payment this is counts as paying.
--
-- Promises: attempts are numbered 1, 2, 3 ..., each is stored once, and a higher fee is reserved in the same transaction; so it may run twice, and
-- in two workers at once. False, and nothing changed, where it is too late: the outgoing payment is final; it was told to cancel meanwhile, and this
-- is no cancel; the next attempt has another number; or the operator's own money in the treasury cannot pay a higher fee now.
-- Locks: payout, treasury, outgoing payment. Error: P0003 where custody signed this transaction for another nonce, or another lead, than that of the
-- outgoing payment.

create or replace function app.store_attempt(of_spend uuid, number int, of_kind text, of_txid text, of_raw text, of_amount numeric,
  fee_per_gas numeric, priority_fee_per_gas numeric, gas bigint) returns boolean
language plpgsql security definer set search_path = pg_catalog as $$
declare
  s app.spend;
  native text;
  more numeric;
begin
  select * into s from app.spend x where x.id = of_spend;
  perform from app.payout p where p.id = s.payout_id for update;
  perform app.lock_treasury(s.chain);
  select * into s from app.spend x where x.id = of_spend for update;
  if s.status = 'final' or (s.cancelling and of_kind = 'effect')
    or number <> 1 + (select count(*) from app.outbound_tx o where o.spend_id = s.id) then return false; end if;
  perform from custody.journal j where j.stream = s.chain and j.txid = of_txid and (j.sender, j.nonce) <> (s.sender, s.nonce);
  if found then raise exception 'transaction % was signed for another nonce than that of spend %', of_txid, s.id using errcode = 'P0003'; end if;
  native := app.native_token(s.chain);
  more := fee_per_gas * gas - s.max_fee;
  if more > 0 then
    if s.sender = app.treasury_address(s.chain) then
      if app.operator_funds(s.chain, native) < more then return false; end if;
      perform app.reserve(s.chain, native, more);
    end if;
  else
    more := 0;
  end if;
  insert into app.outbound_tx (chain, txid, spend_id, attempt, kind, raw, token, source, recipient, amount, max_fee_per_gas,
    max_priority_fee_per_gas, gas_limit)
  values (s.chain, of_txid, s.id, number, of_kind, of_raw, case of_kind when 'cancel' then native else s.token end,
    case of_kind when 'cancel' then s.sender else s.source end, case of_kind when 'cancel' then s.sender else s.recipient end,
    of_amount, fee_per_gas, priority_fee_per_gas, gas);
  update app.spend x set status = 'live', max_fee = x.max_fee + more, waiting_reason = null, waiting_detail = null, waiting_since = null,
    next_step_at = clock_timestamp()
  where x.id = s.id;
  if s.kind = 'payout' and of_kind = 'effect' then
    update app.payout p set status = 'paying' where p.id = s.payout_id and p.status = 'swept';
  end if;
  return true;
end $$;
comment on function app.store_attempt is 'Stores a signed transaction of a chain with accounts as the next attempt of an outgoing payment, before it may be broadcast; prices are per unit of gas, in wei. False if it came too late. Safe to run again.';
grant execute on function app.store_attempt to sluice_jobs;

create or replace function app.store_output_attempt(of_spend uuid, number int, of_kind text, of_txid text, of_raw text, of_amount numeric, fee numeric,
  vsize int) returns boolean
language plpgsql security definer set search_path = pg_catalog as $$
declare
  s app.spend;
  native text;
  more numeric;
begin
  select * into s from app.spend x where x.id = of_spend;
  perform from app.payout p where p.id = s.payout_id for update;
  perform app.lock_treasury(s.chain);
  select * into s from app.spend x where x.id = of_spend for update;
  if s.status = 'final' or (s.cancelling and of_kind = 'effect')
    or number <> 1 + (select count(*) from app.outbound_tx o where o.spend_id = s.id) then return false; end if;
  perform from custody.journal j where j.stream = s.chain and j.txid = of_txid and (j.sender, j.nonce) <> (s.sender, s.nonce);
  if found then raise exception 'transaction % does not spend the lead of spend %', of_txid, s.id using errcode = 'P0003'; end if;
  native := app.native_token(s.chain);
  more := greatest(store_output_attempt.fee - s.max_fee, 0);
  if more > 0 and app.operator_funds(s.chain, native) < more then return false; end if;
  perform app.reserve(s.chain, native, more);
  insert into app.outbound_tx (chain, txid, spend_id, attempt, kind, raw, token, source, recipient, amount, fee, vsize)
  values (s.chain, of_txid, s.id, number, of_kind, of_raw, s.token, s.source,
    case of_kind when 'cancel' then app.treasury_address(s.chain) else s.recipient end, of_amount, store_output_attempt.fee,
    store_output_attempt.vsize);
  update app.spend x set status = 'live', max_fee = x.max_fee + more, waiting_reason = null, waiting_detail = null, waiting_since = null,
    next_step_at = clock_timestamp()
  where x.id = s.id;
  if s.kind = 'payout' and of_kind = 'effect' then
    update app.payout p set status = 'paying' where p.id = s.payout_id and p.status = 'swept';
  end if;
  return true;
end $$;
comment on function app.store_output_attempt is 'Stores a signed transaction of a chain with outputs as the next attempt of an outgoing payment, before it may be broadcast; fee is what it pays, in base units. False if it came too late. Safe to run again.';
grant execute on function app.store_output_attempt to sluice_jobs;
