-- Recreates what custody signed and an older copy of the database does not know: the outgoing payment (app.outgoing_payment) of an entry of the
-- journal, its payout, its merchant, and the transaction as an attempt. custody.reconcile calls it for each entry, in the order of the journal.
--
-- Promises: existing rows are used as they are. A recreated outgoing payment reserves what the signed transaction may still take, and is marked as
-- recovered. The trigger adopt_return on app.outgoing_payment finds out whether it belongs to a return (unattributed/recover.sql).

create or replace function custody.recover_outgoing_payment(e custody.journal) returns app.outgoing_payment
language plpgsql set search_path = pg_catalog as $$
declare
  s app.outgoing_payment;
  p app.payout;
  merchant uuid := coalesce(e.merchant_id, (select a.merchant_id from custody.address a where a.address = e.sender));
  treasury text := app.treasury_address(e.stream);
  amount numeric := coalesce((e.details ->> 'stake')::numeric, e.amount); -- what is staked or lent does not move
begin
  if e.kind = 'pay' then p := custody.recover_payout(e); end if;
  -- A cancel that the copy does not know may have used up the nonce that it has for this payment; it was signed with another one since.
  update app.outgoing_payment x set nonce = e.nonce
  where x.status = 'allocated' and x.nonce is not null and case e.kind when 'pay' then x.payout_id = p.id and x.kind = 'payout'
    when 'cancel' then false else x.id = e.subject_id end;
  select * into s from app.outgoing_payment x where x.chain = e.stream and case e.kind when 'cancel' then x.conflict_key = e.conflict_key
    when 'pay' then x.payout_id = p.id and x.kind = 'payout' else x.id = e.subject_id end;
  if s.id is not null and (s.conflict_key is distinct from e.conflict_key or not custody.is_purpose(s, e))
    or s.id is null and exists (select from app.outgoing_payment x where x.chain = e.stream and x.conflict_key = e.conflict_key) then
    raise exception '% on % has one purpose in the journal''s file and another in the database; they do not belong to the same service',
      e.conflict_key, e.stream using errcode = 'P0003';
  end if;
  if s.id is not null then return s; end if;
  if merchant is not null then perform custody.recover_merchant(merchant, 0);
  elsif e.kind <> 'withdraw' and e.sender <> treasury then return null;
  end if;
  insert into app.outgoing_payment (id, kind, chain, token, amount, source, recipient, fee_payer, nonce, first_input, payout_id, merchant_id, status, cancelling, recovered, max_fee,
    for_token, from_gas, resource)
  values (case when e.kind in ('pay', 'cancel') then uuidv7() else e.subject_id end,
    case e.kind when 'pay' then 'payout' when 'withdraw' then 'withdrawal' else e.kind end, e.stream, e.token, amount, e.source, e.destination, e.sender, e.nonce, case when e.nonce is null then e.conflict_key end, p.id, merchant, 'live',
    e.kind = 'cancel' or coalesce(p.status = 'failed', false), true, e.max_fee, e.details ->> 'for_token', custody.is_from_gas(e), e.details ->> 'resource') -- a payout that failed in the copy must not be paid any more
  returning * into s;
  if s.fee_payer = treasury then perform app.reserve(e.stream, app.native_token(e.stream), e.max_fee); end if;
  if s.from_gas then perform app.add_gas(e.stream, s.fee_payer, 0, e.max_fee + case e.kind when 'defund' then e.amount else 0 end); end if;
  if e.kind in ('withdraw', 'fund', 'stake') or p.status in ('swept', 'paying') then perform app.reserve(e.stream, e.token, amount); end if;
  if p.status in ('swept', 'paying') then perform app.add_share(p.chain, p.token, p.merchant_id, 0, p.gross); end if;
  return s;
end $$;
comment on function custody.recover_outgoing_payment is 'The outgoing payment of an entry: the one that it was signed for (of a cancel, the one with its conflict key), or a new one with what was reserved for it. Null for a cancel whose purpose is no longer known, from an address that belongs to no merchant.';


-- What else was signed with its nonce says so of a cancel.
create or replace function custody.is_from_gas(e custody.journal) returns boolean
language sql stable set search_path = pg_catalog as $$
  select e.sender <> app.treasury_address(e.stream) and exists (select from custody.journal j
    where j.stream = e.stream and (j.kind = 'defund' or j.kind = 'sweep' and j.token <> app.native_token(e.stream))
      and case e.kind when 'cancel' then j.conflict_key = e.conflict_key else j.seq = e.seq end)
$$;
comment on function custody.is_from_gas is 'Whether the network fee of an entry''s transaction is paid with gas on its address (app.gas).';


create or replace function custody.recover_attempt(s app.outgoing_payment, e custody.journal) returns void
language plpgsql set search_path = pg_catalog as $$
begin
  insert into app.outgoing_attempt (chain, txid, outgoing_payment_id, attempt, kind, raw, token, source, recipient, amount, max_fee,
    fee_details)
  select e.stream, e.txid, s.id, 1 + (select count(*) from app.outgoing_attempt o where o.outgoing_payment_id = s.id),
    case e.kind when 'cancel' then 'cancel' else 'effect' end, e.raw, e.token, e.source, e.destination, e.amount, e.max_fee,
    e.details - '{seal,inputs,change,gross,fee,fee_bps,for_token,stake,resource}'::text[] -- what is left is the family's
  on conflict do nothing;
  if e.max_fee > s.max_fee and s.status <> 'final' and s.fee_payer = app.treasury_address(s.chain) then
    perform app.reserve(s.chain, app.native_token(s.chain), e.max_fee - s.max_fee);
  elsif e.max_fee > s.max_fee and s.status <> 'final' and s.from_gas then
    perform app.reserve_gas(s, e.max_fee - s.max_fee);
  end if;
  update app.outgoing_payment x set status = 'live', max_fee = greatest(x.max_fee, e.max_fee), next_step_at = clock_timestamp()
  where x.id = s.id and x.status <> 'final';
  update app.output u set outgoing_payment_id = s.id, from_attempt = (select o.attempt from app.outgoing_attempt o where o.chain = e.stream and o.txid = e.txid)
  where u.chain = e.stream and u.outgoing_payment_id is null and u.txid || ':' || u.vout in (select jsonb_array_elements_text(e.details -> 'inputs'));
  if e.kind = 'pay' then update app.payout p set status = 'paying' where p.id = s.payout_id and p.status = 'swept'; end if;
end $$;
comment on function custody.recover_attempt is 'Stores the transaction of an entry as an attempt of its outgoing payment, with its fee and its outputs reserved, and has it sent.';


create or replace function custody.recover_payout(e custody.journal) returns app.payout
language plpgsql set search_path = pg_catalog as $$
declare p app.payout;
begin
  select * into p from app.payout o where o.id = e.subject_id;
  if p.id is not null then
    update app.payout o set status = 'sweeping' where o.id = p.id and o.status = 'pending';
    update app.payout o set status = 'swept' where o.id = p.id and o.status = 'sweeping';
    select * into p from app.payout o where o.id = p.id;
    return p;
  end if;
  perform custody.recover_merchant(e.merchant_id, (e.details ->> 'fee_bps')::int);
  insert into app.payout (id, merchant_id, chain, token, status, gross, fee_bps, fee, net, address, sweep_first, next_step_at, created_at)
  values (e.subject_id, e.merchant_id, e.stream, e.token, 'swept', (e.details ->> 'gross')::numeric, (e.details ->> 'fee_bps')::int,
    (e.details ->> 'fee')::numeric, e.amount, e.destination, false, null, e.signed_at)
  returning * into p;
  -- Which deposits it claimed is no longer known. So it claims a credit of its gross, and the merchant owes as much.
  perform app.lock_pair(p.merchant_id, p.chain, p.token);
  insert into app.adjustment (merchant_id, chain, token, amount, reason, settlement_id)
  values (p.merchant_id, p.chain, p.token, p.gross, 'payout_recovered', p.id), (p.merchant_id, p.chain, p.token, -p.gross, 'payout_recovered', null);
  insert into app.claim (kind, payout_id, merchant_id, chain, token, cutoff, deposit_count, amount, finished_at)
  values ('claim', p.id, p.merchant_id, p.chain, p.token, 0, 0, 0, clock_timestamp());
  insert into app.balance_delta (merchant_id, chain, token, amount, deposit_count) values (p.merchant_id, p.chain, p.token, -p.gross, 0);
  perform app.post('claim', p.id::text, p.chain, jsonb_build_array(
    jsonb_build_object('account', 'merchant', 'token', p.token, 'merchant_id', p.merchant_id, 'amount', p.gross),
    jsonb_build_object('account', 'payout', 'token', p.token, 'merchant_id', p.merchant_id, 'amount', -p.gross)));
  return p;
end $$;
comment on function custody.recover_payout is 'The payout of an entry, moved to a status where its payment can be under way. If the copy does not have it, it is made again with a debt of the merchant for its gross.';


-- An operator decides about this merchant.
create or replace function custody.recover_merchant(merchant uuid, fee_bps int) returns void
language sql set search_path = pg_catalog as $$
  insert into app.merchant (id, name, prefix, fee_bps)
  values (merchant, 'Recovered ' || merchant, 'r' || substr(encode(uuid_send(merchant), 'hex'), 22), fee_bps)
  on conflict (id) do nothing
$$;
comment on function custody.recover_merchant is 'Makes a merchant that the copy does not have; only its id is known.';


-- A cancel belongs to whatever its nonce was signed for before.
create or replace function custody.is_purpose(s app.outgoing_payment, e custody.journal) returns boolean
language sql immutable set search_path = pg_catalog as $$
  select case e.kind when 'pay' then s.kind = 'payout' and s.payout_id = e.subject_id when 'cancel' then s.status <> 'allocated'
    else s.id = e.subject_id end
$$;
comment on function custody.is_purpose is 'Whether an outgoing payment is what an entry of the journal was signed for.';


create or replace function custody.is_signed(s app.outgoing_payment, entries custody.journal[]) returns boolean
language sql immutable set search_path = pg_catalog as $$
  select exists (select from unnest(entries) e where e.stream = s.chain and e.kind <> 'cancel' and custody.is_purpose(s, e)
    and (e.conflict_key = s.conflict_key or s.nonce is null))
$$;
comment on function custody.is_signed is 'Whether one of these entries may pay an outgoing payment that the copy calls unsigned: with its nonce, or with whatever outputs.';


-- Called by app.add_outputs, because an older copy may read these outputs only later.
create or replace function custody.reserve_recovered(of_chain text) returns void
language sql set search_path = pg_catalog as $$
  update app.output u set outgoing_payment_id = r.outgoing_payment_id, from_attempt = r.attempt
  from (select distinct on (i.input) i.input, o.outgoing_payment_id, o.attempt
    from app.outgoing_payment s join app.outgoing_attempt o on o.outgoing_payment_id = s.id join custody.journal j on j.stream = o.chain and j.txid = o.txid
    cross join lateral jsonb_array_elements_text(j.details -> 'inputs') as i (input)
    where s.chain = of_chain and s.recovered and s.status <> 'final' order by i.input, o.attempt) r
  where u.chain = of_chain and u.outgoing_payment_id is null and u.spent_by is null and u.txid || ':' || u.vout = r.input
$$;
comment on function custody.reserve_recovered is 'Reserves the outputs that recovered outgoing payments of a chain spend, by custody''s journal, as soon as they are there.';

