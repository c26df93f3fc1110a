-- A payment that leaves twice. An outgoing payment (app.outgoing_payment) ends once. A successful transaction of another attempt of it, or of a payment
-- whose payout had failed or that was cancelled, is money that left although nobody was to get it. The ledger has to say so, and an operator has to
-- know at once: somebody may have the keys, or a final block was replaced.
--
-- Promises: each such transaction is booked once, when it is final, as the operator's loss; an incident (second_payment) is open from then on, and the
-- chain is halted. It counts whether the worker had stored it or only custody's journal has it. The same transaction again, after a rewind or a
-- reindex, is nothing. A transaction that was proven to have expired and pays its payment all the same opens the incident, too, with amount 0: the proof
-- was wrong, so that another transaction of the payment may be on its way. A transaction that failed, and a cancel, cost a fee and are no payment. A second sweep, or
-- defund, lost nothing but its fee: what it moved is in the treasury. What is booked stays booked: if its block leaves the chain after that, the incident final_payment_vanished is open.
-- Locks: chain.cursor and treasury (as app.finish_outgoing_payments, which calls app.book_second_payments).

-- Called when transactions of ours arrive in a block, when an outgoing payment ends, and when a journal is imported; whichever comes last notes it.
create or replace function app.suspect_second_payments(txids text[]) returns void
language sql set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
  insert into app.second_payment (chain, txid, outgoing_payment_id)
  select j.stream, j.txid, s.id from unnest(txids) t (txid) join custody.journal j on j.txid = t.txid
  cross join lateral (
    select x.* from app.outgoing_payment x where x.payout_id = j.subject_id and x.kind = 'payout'
    union all select x.* from app.outgoing_payment x where x.id = j.subject_id
    union all select x.* from app.outgoing_payment x where j.kind = 'cancel' and x.chain = j.stream and x.conflict_key = j.conflict_key
  ) s
  where s.status = 'final' and (s.txid is distinct from j.txid or s.outcome = 'conflicted')
    and exists (select from chain.confirmed_tx i where i.chain = j.stream and i.txid = j.txid)
  on conflict do nothing
$$;
comment on function app.suspect_second_payments is 'Notes those of these transactions in blocks that were signed for an outgoing payment that ended by another transaction.';

create or replace function app.suspect_second_payments_of(s app.outgoing_payment) returns void
language sql set search_path = pg_catalog as $$
  select app.suspect_second_payments(array(select j.txid from custody.journal j
    where j.subject_id in (s.id, s.payout_id) and j.txid is not null
    union all select j.txid from custody.journal_key k join custody.journal j using (stream, seq) where k.stream = s.chain and k.conflict_key = s.conflict_key))
$$;
comment on function app.suspect_second_payments_of is 'Notes the transactions in blocks that were signed for an outgoing payment that has just ended, and did not end it.';

-- If the transaction that completed a payment has left the chain, the first other one took its place: it was paid once.
create or replace function app.book_second_payments(of_chain text, final_height int) returns boolean
language plpgsql set search_path = pg_catalog as $$
declare
  found_final record;
  booked boolean := false;
begin
  for found_final in
    select n.txid, x as payment, x.outcome, f.fee, f.pays, case when f.pays then j.amount else 0 end as moved,
      row_number() over (partition by n.outgoing_payment_id, f.pays order by f.block_height, n.txid) as number
    from app.second_payment n join app.outgoing_payment x on x.id = n.outgoing_payment_id
    cross join lateral (select a.seq, a.block_height, a.fee, a.success and a.kind <> 'cancel' as pays from app.attempt_fate a
      where a.chain = n.chain and a.txid = n.txid and a.block_height <= final_height limit 1) f
    join custody.journal j on j.stream = n.chain and j.seq = f.seq
    where n.chain = of_chain and n.booked_at is null
    order by f.block_height, n.txid
  loop
    continue when found_final.pays and found_final.outcome = 'done' and found_final.number = 1
      and not exists (select from chain.confirmed_tx i where i.chain = of_chain and i.txid = (found_final.payment).txid
        and i.block_height <= final_height);
    perform app.lock_treasury(of_chain);
    perform app.post_second_transaction(found_final.payment, found_final.txid, found_final.pays, found_final.moved, found_final.fee);
    booked := true;
  end loop;
  return booked;
end $$;
comment on function app.book_second_payments is 'Books what is noted of a chain and final at this height: second payments, and the fees of what failed or was cancelled. False if there was none.';

-- A payment that this transaction excluded may have ended by it before, and posted its fee (conflicted).
create or replace function app.post_second_transaction(s app.outgoing_payment, of_txid text, pays boolean, moved numeric, fee numeric) returns void
language plpgsql set search_path = pg_catalog as $$
declare
  more_fee numeric := fee - coalesce((select sum(x.fee_paid) from app.outgoing_payment x where x.txid = of_txid and x.id in (
    select p from chain.confirmed_tx i cross join lateral app.payments_of(i.chain, i.txid, i.conflict_key) p where i.chain = s.chain and i.txid = of_txid)), 0);
  paid numeric := case when s.kind in ('payout', 'withdrawal') then moved else 0 end;
  lost numeric := paid;
begin
  s.max_fee := 0; -- what was reserved for it was given back when it ended
  s.payout_id := null;
  if app.uses_outputs(s.chain) then
    lost := app.take_second_outputs(s, of_txid) - more_fee;
    perform app.post_network_fee(s, more_fee);
  elsif s.kind in ('sweep', 'cancel') then
    perform app.post_second_sweep(s, moved, more_fee);
  else
    perform app.post_network_fee(s, more_fee);
    if s.kind = 'fund' and moved > 0 then perform app.post_fund(s); end if;
    if s.kind = 'defund' and moved > 0 then perform app.post_defund(s, moved); end if;
    if pays then perform app.post_what_it_staked(s, of_txid); end if;
  end if;
  perform app.release_after_sweep(s);
  perform app.post_loss(s, lost);
  perform app.note_booked(s, of_txid, pays, paid, more_fee);
end $$;
comment on function app.post_second_transaction is 'Posts what a final transaction moved and cost after its payment had ended by another one; its fee (in base units), too.';

create or replace function app.post_loss(s app.outgoing_payment, lost numeric) returns void
language plpgsql set search_path = pg_catalog as $$
begin
  perform app.add_treasury(s.chain, s.token, -lost, 0);
  perform app.post('second_payment', s.id::text, s.chain, jsonb_build_array(
    jsonb_build_object('account', 'operator', 'token', s.token, 'amount', lost),
    jsonb_build_object('account', 'treasury', 'token', s.token, 'amount', -lost)));
end $$;
comment on function app.post_loss is 'Posts as the operator''s loss what left the treasury by a second payment, in base units of its token.';

create or replace function app.note_booked(s app.outgoing_payment, of_txid text, pays boolean, paid numeric, of_fee numeric) returns void
language plpgsql set search_path = pg_catalog as $$
declare incident bigint;
begin
  if pays then
    update chain.cursor c set halted_at = clock_timestamp() where c.chain = s.chain and c.halted_at is null;
    insert into app.incident as k (chain, kind, subject, details)
    values (s.chain, 'second_payment', s.id::text, jsonb_build_object('txids', jsonb_build_array(of_txid), 'payment', s.kind, 'token', s.token,
      'amount', paid::text, 'ended_by', s.txid, 'outcome', s.outcome) || coalesce((
        select jsonb_build_object('payout', app.public_id('pay', p.id), 'merchant', m.prefix)
        from app.outgoing_payment x join app.payout p on p.id = x.payout_id join app.merchant m on m.id = p.merchant_id
        where x.id = s.id and x.kind = 'payout'), '{}'))
    on conflict (subject, kind) where resolved_at is null do update set details = k.details || jsonb_build_object(
      'txids', k.details -> 'txids' || to_jsonb(of_txid), 'amount', ((k.details ->> 'amount')::numeric + paid)::text)
    returning k.id into incident;
  end if;
  insert into app.second_payment (chain, txid, outgoing_payment_id, amount, fee, incident_id, booked_at)
  values (s.chain, of_txid, s.id, paid, of_fee, incident, clock_timestamp())
  on conflict (chain, txid) do update set amount = excluded.amount, fee = excluded.fee, incident_id = excluded.incident_id, booked_at = excluded.booked_at;
end $$;
comment on function app.note_booked is 'Notes that a transaction was booked, with what it paid (in base units of its token); if it is a second payment, opens the incident, or adds to the open one, and halts the chain.';

-- The payment of a payout that had failed: its transaction ended it, so its fee is posted with it.
create or replace function app.book_payment_of_failed_payout(s app.outgoing_payment) returns void
language plpgsql set search_path = pg_catalog as $$
begin
  perform app.post_loss(s, s.amount);
  perform app.note_booked(s, s.txid, true, s.amount, 0);
end $$;
comment on function app.book_payment_of_failed_payout is 'Books the final payment of a payout that had failed before: the merchant has the money and, since the release, the balance, too.';


-- A return's sweep takes what is unattributed, if the address still has that much of it; all others take the money of the address's merchant.
create or replace function app.post_second_sweep(s app.outgoing_payment, moved numeric, fee numeric) returns void
language plpgsql set search_path = pg_catalog as $$
declare
  native text := app.native_token(s.chain);
  own_fee numeric := case when s.fee_payer = app.treasury_address(s.chain) or s.from_gas then 0 else fee end;
begin
  if s.merchant_id is null and moved + own_fee <= (select sum(e.amount) from app.ledger_entry e
    where e.account = 'address' and e.merchant_id is null and e.chain = s.chain and e.address = s.source and e.token = s.token)
  then
    if own_fee = 0 then perform app.post_network_fee(s, fee); end if;
    perform app.add_treasury(s.chain, s.token, moved, 0);
    perform app.post('second_payment', s.id::text, s.chain, jsonb_build_array(
      jsonb_build_object('account', 'treasury', 'token', s.token, 'amount', moved),
      jsonb_build_object('account', 'network', 'token', native, 'amount', own_fee),
      jsonb_build_object('account', 'address', 'token', s.token, 'address', s.source, 'amount', -moved),
      jsonb_build_object('account', 'address', 'token', native, 'address', s.source, 'amount', -own_fee)));
    return;
  end if;
  s.merchant_id := (select a.merchant_id from custody.address a where a.address = s.source);
  perform app.post_network_fee(s, fee);
  if moved > 0 then perform app.post_sweep(s, moved); end if;
end $$;
comment on function app.post_second_sweep is 'Posts what a sweep moved to the treasury, and its network fee, after its payment had ended by another transaction; both in base units.';

-- An output that the ledger had spent already counts as nothing, so the result may be below zero.
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
        and u.vout = split_part(i.outpoint, ':', 2)::int and coalesce(u.spent_by, of_txid) = of_txid -- of a conflicted payment it is marked already
      returning u.*
    )
    select t.address, t.merchant_id, sum(t.amount) as amount from taken t group by t.address, t.merchant_id order by t.address
  loop
    spent := spent + part.amount;
    continue when part.merchant_id is null;
    s.merchant_id := part.merchant_id;
    s.source := part.address;
    perform app.post_sweep(s, part.amount);
    perform app.release_held_back(s.chain, array[part.address], array[s.token]);
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
comment on function app.take_second_outputs is 'Marks the outputs that a transaction spent after its payment had ended and adds its change; returns what left our outputs by it, network fee included, in base units.';

-- sluice incident resolve --as loss or debt (app.resolve_incident, with the chain's locks).
create or replace function app.decide_second_payment(of_incident app.incident, decision text) returns void
language plpgsql set search_path = pg_catalog as $$
declare
  p app.payout;
  second app.second_payment;
begin
  if decision = 'loss' then return; end if;
  select o.* into p from app.payout o join app.outgoing_payment s on s.payout_id = o.id and s.kind = 'payout'
  where s.id = of_incident.subject::uuid for update of o;
  if p.id is null then
    raise exception 'incident %: only the second payment of a payout can be a debt: nobody owes what a sweep or a withdrawal moved; use loss', of_incident.id
      using errcode = 'P0003';
  end if;
  perform app.lock_treasury(p.chain);
  perform app.lock_pair(p.merchant_id, p.chain, p.token);
  for second in select * from app.second_payment n where n.incident_id = of_incident.id and n.amount > 0 loop
    insert into app.adjustment (merchant_id, chain, token, amount, reason) values (p.merchant_id, p.chain, p.token, -second.amount, 'paid_after_all');
    insert into app.balance_delta (merchant_id, chain, token, amount, deposit_count) values (p.merchant_id, p.chain, p.token, -second.amount, 0);
    perform app.add_share(p.chain, p.token, p.merchant_id, -second.amount, 0);
    perform app.post('claim', p.id::text, p.chain, jsonb_build_array(
      jsonb_build_object('account', 'merchant', 'token', p.token, 'merchant_id', p.merchant_id, 'amount', second.amount),
      jsonb_build_object('account', 'payout', 'token', p.token, 'merchant_id', p.merchant_id, 'amount', -second.amount)));
    perform app.post('payout', p.id::text, p.chain, jsonb_build_array(
      jsonb_build_object('account', 'payout', 'token', p.token, 'merchant_id', p.merchant_id, 'amount', second.amount),
      jsonb_build_object('account', 'operator', 'token', p.token, 'amount', -second.amount)));
  end loop;
end $$;
comment on function app.decide_second_payment is 'An operator''s decision about the second payments of an incident: loss leaves them with the operator; debt has the merchant of their payout owe what they paid.';
