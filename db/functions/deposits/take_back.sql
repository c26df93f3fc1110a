-- Takes back a final deposit that left the chain, for app.resolve_incident, which holds chain.cursor, the payout, the treasury and the pair.
--
-- What follows depends on how far its money is:
--   - no payout has claimed it: the balance falls by its amount;
--   - a payout that has not begun to pay has claimed it: that payout fails, and gives back what is left;
--   - a payout that is paying or completed has claimed it: the merchant owes the amount (app.adjustment, deposit_lost), and its next payout is
--     smaller by it.
-- The ledger, what its address holds, a treasury's balance and an output that nothing spends yet change with it. The merchant is notified
-- (deposit.reorged).

create or replace function app.take_back(of_deposit uuid) returns void
language plpgsql set search_path = pg_catalog as $$
declare
  deposit app.deposit;
  account text;
  was_held_back boolean;
begin
  select * into deposit from app.deposit d where d.id = of_deposit;
  was_held_back := deposit.held_back;
  if deposit.status = 'final' and deposit.credited then
    insert into app.taken_back (deposit_id, merchant_id, chain, token, finalisation, amount)
    values (deposit.id, deposit.merchant_id, deposit.chain, deposit.token, deposit.finalisation, deposit.amount);
  end if;
  if app.fail_payout(deposit.settlement_id, 'deposit_reorged', 'a deposit that it claimed was lost in a reorganisation') then
    perform app.allocate_all_deposits(deposit.merchant_id, deposit.chain, deposit.token);
  end if;
  perform set_config('app.decided_by_operator', 'on', true);
  update app.deposit d set status = 'reorged', version = d.version + 1, finalised_at = null, finalisation = null, held_back = false, released = null
  where d.id = of_deposit and d.status = 'final' returning * into strict deposit;
  perform set_config('app.decided_by_operator', '', true);
  if not exists (select from app.asset a where a.chain = deposit.chain and a.token = deposit.token) then return; end if;
  account := case when deposit.merchant_id is null then 'operator' when deposit.credited then 'merchant' else 'unattributed' end;
  perform app.post('reorg', deposit.id::text, deposit.chain, jsonb_build_array(
    jsonb_build_object('account', case when account = 'operator' then 'treasury' else 'address' end, 'token', deposit.token,
      'merchant_id', case when deposit.credited then deposit.merchant_id end,
      'address', case when account <> 'operator' then deposit.address end, 'amount', -deposit.amount),
    jsonb_build_object('account', account, 'token', deposit.token, 'merchant_id', case when deposit.credited then deposit.merchant_id end,
      'amount', deposit.amount)));
  if account = 'operator' then perform app.add_treasury(deposit.chain, deposit.token, -deposit.amount, 0); end if;
  delete from app.output u where u.chain = deposit.chain and u.txid = deposit.txid and u.vout = deposit.output_index and u.outgoing_payment_id is null;
  if not deposit.credited then return; end if;
  update app.holding h set amount = h.amount - deposit.amount
  where h.chain = deposit.chain and h.address = deposit.address and h.token = deposit.token;
  if deposit.settlement_id is null then
    insert into app.balance_delta (merchant_id, chain, token, amount, deposit_count, held_back, held_back_count)
    values (deposit.merchant_id, deposit.chain, deposit.token, -deposit.amount, -1,
      case when was_held_back then -deposit.amount else 0 end, case when was_held_back then -1 else 0 end);
  else
    perform app.adjust(deposit, -deposit.amount, 'deposit_lost');
  end if;
  perform app.emit_deposit_events(array[deposit.id], array['deposit.reorged'], array[deposit.version], array[deposit.token], array[deposit.amount]);
end $$;
comment on function app.take_back is 'Makes a final deposit reorged, with all that follows for balance, payout, ledger and merchant. Only app.resolve_incident calls it.';

-- A deposit that is on the chain, perhaps in another block, is not taken back. Nor is one whose block was not read again yet.
create or replace function app.refuse_to_take_back(incident_id bigint, deposit app.deposit) returns void
language plpgsql set search_path = pg_catalog as $$
declare there int;
begin
  select t.block_height into there from chain.transfer t
  where t.id = deposit.chain || ':' || deposit.txid || ':' || deposit.output_index
    and (t.recipient, t.token, t.amount) = (deposit.address, deposit.token, deposit.amount);
  if found then
    raise exception 'incident %: its deposit is on the chain, in block %; resolve it as kept', incident_id, there using errcode = 'P0003';
  end if;
  perform from chain.cursor c where c.chain = deposit.chain and c.head_height < deposit.block_height;
  if found then
    raise exception 'incident %: % is being read again and has not reached block % yet; try again when it has', incident_id, deposit.chain,
      deposit.block_height using errcode = 'P0003';
  end if;
end $$;
comment on function app.refuse_to_take_back is 'Raises P0003 if a deposit is on the chain as we have it, or its block was not read again yet.';
