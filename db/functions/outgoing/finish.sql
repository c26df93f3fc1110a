-- What follows when an outgoing payment (app.outgoing_payment) is final: the ledger, what was reserved, and the payout. app.finish_outgoing_payments
-- calls these, once for each payment, with chain.cursor, the payout and the treasury locked. On chains with outputs, outputs/finish.sql replaces
-- app.finish_sweep.
--
-- Invariants: only a final transaction completes a payout, and a payout fails here only if its payment can provably never pay any more. Whatever the
-- outcome, what was reserved is given back, except what is held for a return. Each posting adds up to zero.

-- A payout that failed before its payment was broadcast has given its reservation back already.
create or replace function app.finish_payment(s app.outgoing_payment, outcome text, txid text, code text default null, message text default null)
returns void
language plpgsql set search_path = pg_catalog as $$
declare p app.payout := (select o from app.payout o where o.id = s.payout_id);
begin
  if p.status = 'failed' then -- before anything was broadcast; its reservation was given back
    if outcome = 'done' then perform app.book_payment_of_failed_payout(s);
    elsif outcome = 'conflicted' then
      insert into app.incident (chain, kind, subject, details)
      values (s.chain, 'payment_of_failed_payout', s.id::text, jsonb_build_object('payout_id', p.id, 'txid', txid, 'outcome', outcome))
      on conflict do nothing;
    end if;
    return;
  end if;
  perform app.give_up_swept_in(s);
  perform app.add_treasury(p.chain, p.token, 0, -p.net);
  perform app.add_share(p.chain, p.token, p.merchant_id, 0, -p.gross);
  if outcome = 'done' then
    perform app.add_treasury(p.chain, p.token, -p.net, 0);
    perform app.add_share(p.chain, p.token, p.merchant_id, -p.gross, 0);
    perform app.post('payout', p.id::text, p.chain, jsonb_build_array(
      jsonb_build_object('account', 'payout', 'token', p.token, 'merchant_id', p.merchant_id, 'amount', p.gross),
      jsonb_build_object('account', 'treasury', 'token', p.token, 'merchant_id', p.merchant_id, 'amount', -p.net),
      jsonb_build_object('account', 'fees', 'token', p.token, 'merchant_id', p.merchant_id, 'amount', -p.fee)));
    update app.payout o set status = 'completed', txid = finish_payment.txid where o.id = p.id returning * into p;
    perform app.emit_payout_event(p, 'payout.completed');
  elsif outcome = 'reverted' then
    perform app.release_payout(p.id, 'transaction_reverted', 'the payment was mined and reverted; nothing was paid');
  elsif outcome = 'expired' then
    perform app.release_payout(p.id, code, message);
  elsif outcome = 'cancelled' then
    perform app.release_payout(p.id, 'cancelled', 'cancelled; ' || case when txid is null then 'nothing that was signed for it can be mined any more'
      else 'a transaction that moves nothing took the place of the payment' end);
  else
    perform app.release_payout(p.id, 'broadcast_rejected', 'another transaction took the place of the payment, which can never be mined');
  end if;
end $$;
comment on function app.finish_payment is 'Ends the payout whose payment is final: outcome done completes it, every other outcome fails it and gives the balance back.';


-- What was swept for a return belongs to no merchant; the treasury holds it for the return.
create or replace function app.finish_sweep(s app.outgoing_payment, outcome text, moved numeric) returns void
language plpgsql set search_path = pg_catalog as $$
declare r app.unattributed_decision;
begin
  if outcome <> 'done' then return; end if;
  update app.unattributed_decision u set amount = moved where u.sweep_id = s.id returning * into r;
  if r.deposit_id is not null then
    perform app.add_treasury(s.chain, s.token, moved, case when app.is_held(r) then moved else 0 end);
    perform app.post('return', s.id::text, s.chain, jsonb_build_array(
      jsonb_build_object('account', 'treasury', 'token', s.token, 'amount', moved),
      jsonb_build_object('account', 'address', 'token', s.token, 'address', s.source, 'amount', -moved)));
    return;
  end if;
  perform app.post_sweep(s, moved);
  perform app.unblock(s.chain, s.token, s.source, 'healed'); -- the chain let it go
end $$;
comment on function app.finish_sweep is 'Posts what a final sweep moved (in base units) from its address to the treasury; nothing if its outcome was not done.';

create or replace function app.post_sweep(s app.outgoing_payment, moved numeric) returns void
language plpgsql set search_path = pg_catalog as $$
begin
  perform app.add_holding(s.chain, s.source, s.token, s.merchant_id, -moved);
  perform app.add_treasury(s.chain, s.token, moved, 0);
  perform app.add_share(s.chain, s.token, s.merchant_id, moved, 0);
  perform app.post('sweep', s.id::text, s.chain, jsonb_build_array(
    jsonb_build_object('account', 'treasury', 'token', s.token, 'merchant_id', s.merchant_id, 'amount', moved),
    jsonb_build_object('account', 'address', 'token', s.token, 'merchant_id', s.merchant_id, 'address', s.source, 'amount', -moved)));
end $$;
comment on function app.post_sweep is 'Posts money of a merchant that moved from its address to the treasury (in base units).';


-- What leaves for a return is not the operator's; what did not leave stays held for the return.
create or replace function app.finish_withdrawal(s app.outgoing_payment, outcome text) returns void
language plpgsql set search_path = pg_catalog as $$
declare is_return boolean := exists (select from app.unattributed_decision u where u.withdrawal_id = s.id);
begin
  if outcome = 'done' then
    perform app.add_treasury(s.chain, s.token, -s.amount, -s.amount);
    perform app.post(case when is_return then 'return' else 'withdrawal' end, s.id::text, s.chain, jsonb_build_array(
      jsonb_build_object('account', case when is_return then 'unattributed' else 'operator' end, 'token', s.token, 'amount', s.amount),
      jsonb_build_object('account', 'treasury', 'token', s.token, 'amount', -s.amount)));
  elsif not is_return then
    perform app.add_treasury(s.chain, s.token, 0, -s.amount);
  end if;
end $$;
comment on function app.finish_withdrawal is 'Posts a final withdrawal; if its outcome was not done, gives back what was reserved for it.';


-- The operator bears the fee either way: the fee that a swept address paid is added to its merchant's share of the treasury. The fee of a return's
-- sweep is different: it is taken out of what is returned. (The operator bears what exceeds that amount, which only a cancel spends while fees rise.)
-- What was paid with gas (app.gas) was the operator's before. What the gas did not cover, because lent energy was gone, was burnt of the merchant's
-- coins, and is added to its share; beyond these, of what is there and belongs to nobody yet.
create or replace function app.post_network_fee(s app.outgoing_payment, fee numeric) returns void
language plpgsql set search_path = pg_catalog as $$
declare
  native text := app.native_token(s.chain);
  by_treasury boolean := s.fee_payer = app.treasury_address(s.chain);
  r app.unattributed_decision;
  own numeric;
  over numeric := 0;
  of_holding numeric := 0;
  whose uuid;
begin
  if by_treasury then
    perform app.add_treasury(s.chain, native, -fee, -s.max_fee);
  elsif s.from_gas then
    over := greatest(fee - coalesce((select g.amount from app.gas g where g.chain = s.chain and g.address = s.fee_payer), 0), 0);
    perform app.add_gas(s.chain, s.fee_payer, over - fee, -s.max_fee);
    whose := coalesce(s.merchant_id, (select a.merchant_id from custody.address a where a.address = s.fee_payer));
    if over > 0 then
      of_holding := least(over, greatest((select h.amount from app.holding h where h.chain = s.chain and h.address = s.fee_payer and h.token = native), 0));
      perform app.add_holding(s.chain, s.fee_payer, native, whose, -of_holding);
      perform app.add_share(s.chain, native, whose, of_holding, 0);
    end if;
  else
    if s.merchant_id is null then -- a return's sweep; not always its last one, in an older copy of the database
      select u.* into r from app.unattributed_decision u join app.deposit d on d.id = u.deposit_id
      where d.chain = s.chain and d.address = s.source and s.id in (select i.id from app.return_outgoing_payment_ids(d, 'sweep') i);
    end if;
    if r.deposit_id is not null then
      own := least(fee, r.amount);
      update app.unattributed_decision u set amount = u.amount - own where u.deposit_id = r.deposit_id;
      perform app.post('return', s.id::text, s.chain, jsonb_build_array(
        jsonb_build_object('account', 'unattributed', 'token', native, 'amount', own),
        jsonb_build_object('account', 'address', 'token', native, 'address', s.fee_payer, 'amount', -own)));
      if own = fee then return; end if;
      fee := fee - own;
      s.merchant_id := (select a.merchant_id from custody.address a where a.address = s.fee_payer);
    end if;
    perform app.add_holding(s.chain, s.fee_payer, native, s.merchant_id, -fee);
    perform app.add_share(s.chain, native, s.merchant_id, fee, 0);
  end if;
  perform app.post('network_fee', s.id::text, s.chain, jsonb_build_array(
    jsonb_build_object('account', 'network', 'token', native, 'merchant_id', s.merchant_id, 'amount', fee),
    jsonb_build_object('account', case when by_treasury then 'treasury' when s.from_gas then 'gas' else 'address' end, 'token', native,
      'merchant_id', case when not s.from_gas then s.merchant_id end,
      'address', case when not by_treasury then s.fee_payer end, 'amount', over - fee),
    jsonb_build_object('account', 'address', 'token', native, 'merchant_id', whose, 'address', s.fee_payer, 'amount', -of_holding),
    jsonb_build_object('account', 'address', 'token', native, 'address', s.fee_payer, 'amount', of_holding - over)));
  update app.payout p set network_fee = p.network_fee + post_network_fee.fee where p.id = s.payout_id;
end $$;
comment on function app.post_network_fee is 'Posts the network fee of a final transaction (in base units of the native coin), gives back what was reserved for it, and adds it to the payout''s.';

