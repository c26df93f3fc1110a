-- A payment that leaves twice. An outgoing payment (app.outgoing_payment) ends once. A successful transaction of another attempt of it, or of a payment
-- whose payout had failed or that was cancelled, is money that left although nobody was to get it. The ledger has to say so, and an operator has to
-- know at once: somebody may have the keys, or a final block was replaced.
--
-- Promises: each such transaction is booked once, when it is final, as the operator's loss; an incident (second_payment) is open from then on, and the
-- chain is halted. The same transaction again, after a rewind or a reindex, is nothing. A transaction that failed cost a fee, and is no payment.
-- A second sweep lost nothing but its fee: what it moved is in the treasury.
-- Locks: chain.cursor and treasury (as app.finish_outgoing_payments, which calls app.book_second_payments).

-- Called when transactions of ours arrive in a block, and when an outgoing payment ends; whichever comes last notes it.
create or replace function app.suspect_second_payments(txids text[]) returns void
language sql set search_path = pg_catalog as $$
  insert into app.second_payment (chain, txid, outgoing_payment_id)
  select f.chain, f.txid, s.id from app.attempt_fate f
  cross join lateral (
    select s.id, s.status, s.txid from app.outgoing_payment s where f.kind = 'pay' and s.payout_id = f.subject_id and s.kind = 'payout'
    union all
    select s.id, s.status, s.txid from app.outgoing_payment s where f.kind <> 'pay' and s.id = f.subject_id) s
  where f.txid = any(txids) and f.kind <> 'cancel' and f.block_height is not null and s.status = 'final' and s.txid is distinct from f.txid
  on conflict do nothing
$$;
comment on function app.suspect_second_payments is 'Notes those of these transactions in blocks that were signed for an outgoing payment that ended by another transaction.';

create or replace function app.book_second_payments(of_chain text, final_height int) returns void
language plpgsql set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
declare
  found_final record;
  s app.outgoing_payment;
  lost numeric;
begin
  for found_final in
    select n.txid, n.outgoing_payment_id, f.fee, j.amount from app.second_payment n
    join app.attempt_fate f on f.chain = n.chain and f.txid = n.txid join custody.journal j on j.stream = f.chain and j.seq = f.seq
    where n.chain = of_chain and n.booked_at is null and f.fate = 'final'
      -- the transaction that completed it is in a block, too: else this one took its place (final_payment_vanished)
      and exists (select from app.outgoing_payment x join chain.confirmed_tx i on i.chain = x.chain and i.txid = x.txid where x.id = n.outgoing_payment_id)
    order by f.block_height, n.txid
  loop
    perform app.lock_treasury(of_chain);
    select * into s from app.outgoing_payment x where x.id = found_final.outgoing_payment_id for update;
    if app.uses_outputs(of_chain) then
      lost := app.take_second_outputs(s, found_final.txid);
    else
      s.max_fee := 0; -- what was reserved for it was given back when it ended
      s.payout_id := null;
      perform app.post_network_fee(s, found_final.fee);
      lost := case when s.kind = 'sweep' then 0 else found_final.amount end;
      if s.kind = 'sweep' then
        s.merchant_id := (select a.merchant_id from custody.address a where a.address = s.source);
        perform app.post_sweep(s, found_final.amount);
      end if;
    end if;
    perform app.book_second_payment(s, found_final.txid, lost);
  end loop;
end $$;
comment on function app.book_second_payments is 'Books the second payments of a chain that are final at this height.';

create or replace function app.book_second_payment(s app.outgoing_payment, of_txid text, lost numeric) returns void
language plpgsql set search_path = pg_catalog as $$
begin
  insert into app.second_payment (chain, txid, outgoing_payment_id, amount, booked_at) values (s.chain, of_txid, s.id, lost, clock_timestamp())
  on conflict (chain, txid) do update set amount = excluded.amount, booked_at = excluded.booked_at;
  perform app.add_treasury(s.chain, s.token, -lost, 0);
  perform app.post('second_payment', s.id::text, s.chain, jsonb_build_array(
    jsonb_build_object('account', 'operator', 'token', s.token, 'amount', lost),
    jsonb_build_object('account', 'treasury', 'token', s.token, 'amount', -lost)));
  update chain.cursor c set halted_at = clock_timestamp() where c.chain = s.chain and c.halted_at is null;
  insert into app.incident (chain, kind, subject, details)
  values (s.chain, 'second_payment', s.id::text, jsonb_build_object('txid', of_txid, 'kind', s.kind, 'token', s.token, 'amount', lost::text,
    'ended_by', s.txid, 'outcome', s.outcome)) on conflict do nothing;
end $$;
comment on function app.book_second_payment is 'Books what a second payment took from the treasury (in base units of its token) as the operator''s loss, opens the incident and halts the chain.';


create or replace function app.take_second_outputs(s app.outgoing_payment, of_txid text) returns numeric
language plpgsql set search_path = pg_catalog as $$
declare
  part record;
  spent numeric := 0;
  change numeric;
begin
  for part in
    with taken as (
      update app.output u set spent_by = of_txid from chain.confirmed_tx i
      where i.chain = s.chain and i.txid = of_txid and u.chain = i.chain and u.txid = split_part(i.outpoint, ':', 1)
        and u.vout = split_part(i.outpoint, ':', 2)::int and u.spent_by is null
      returning u.*
    )
    select t.address, t.merchant_id, sum(t.amount) as amount from taken t group by t.address, t.merchant_id order by t.address
  loop
    spent := spent + part.amount;
    continue when part.merchant_id is null;
    s.merchant_id := part.merchant_id;
    s.source := part.address;
    perform app.post_sweep(s, part.amount);
  end loop;
  with added as (
    insert into app.output (chain, txid, vout, address, amount)
    select t.chain, t.txid, t.output_index, t.recipient, t.amount from chain.transfer t
    where t.id in (s.chain || ':' || of_txid || ':0', s.chain || ':' || of_txid || ':1') and t.recipient = s.fee_payer
    on conflict do nothing returning amount
  )
  select coalesce(sum(amount), 0) into change from added;
  return spent - change;
end $$;
comment on function app.take_second_outputs is 'Marks the outputs that a second payment spent and adds its change; returns what left the treasury by it, network fee included, in base units.';

-- sluice incident resolve --as loss or debt (app.resolve_incident, with the chain's locks).
create or replace function app.decide_second_payment(of_outgoing_payment uuid, decision text) returns void
language plpgsql set search_path = pg_catalog as $$
declare
  p app.payout;
  second app.second_payment;
begin
  if decision = 'loss' then return; end if;
  select o.* into p from app.payout o join app.outgoing_payment s on s.payout_id = o.id and s.kind = 'payout' where s.id = of_outgoing_payment for update of o;
  if p.id is null then
    raise exception 'only the second payment of a payout can be a debt: nobody owes what a sweep or a withdrawal moved; use loss' using errcode = 'P0003';
  end if;
  for second in
    update app.second_payment n set debt_at = clock_timestamp()
    where n.outgoing_payment_id = of_outgoing_payment and n.booked_at is not null and n.debt_at is null returning *
  loop
    perform app.lock_treasury(p.chain);
    perform app.lock_pair(p.merchant_id, p.chain, p.token);
    insert into app.adjustment (merchant_id, chain, token, amount, reason) values (p.merchant_id, p.chain, p.token, -p.net, 'paid_after_all');
    insert into app.balance_delta (merchant_id, chain, token, amount, deposit_count) values (p.merchant_id, p.chain, p.token, -p.net, 0);
    perform app.add_share(p.chain, p.token, p.merchant_id, -p.net, 0);
    perform app.post('claim', p.id::text, p.chain, jsonb_build_array(
      jsonb_build_object('account', 'merchant', 'token', p.token, 'merchant_id', p.merchant_id, 'amount', p.net),
      jsonb_build_object('account', 'payout', 'token', p.token, 'merchant_id', p.merchant_id, 'amount', -p.net)));
    perform app.post('payout', p.id::text, p.chain, jsonb_build_array(
      jsonb_build_object('account', 'payout', 'token', p.token, 'merchant_id', p.merchant_id, 'amount', p.net),
      jsonb_build_object('account', 'operator', 'token', p.token, 'amount', -p.net)));
  end loop;
end $$;
comment on function app.decide_second_payment is 'An operator''s decision about a second payment: loss leaves it with the operator; debt has the merchant of its payout owe the net.';
