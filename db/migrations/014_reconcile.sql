-- An older copy of the database, and custody's journal, which knows better.
--
-- The file beside custody's seed has what was signed since the copy was made; any of it may be mined, now or later. Until that is entered
-- again nothing may be signed, and the indexers must not read on: they would take our own transactions for somebody else's. So custody,
-- which starts first, halts the chain (custody.halt_chain), and an operator's `sluice custody reconcile` enters what is missing
-- (custody.reconcile) and lets it go on. From then on it is broadcast, watched and settled like everything else.
--
-- Invariants: afterwards every signature of the journal is an attempt of a spend with its nonce, so whichever is mined is known; a payout that
-- is gone is there again, and its merchant owes its gross (the deposits that it had claimed are unsettled in the copy, or will be read
-- again); app.balance_audit and app.ledger_audit stay empty.

create function custody.halt_chain(of_chain text, why text) returns void
language plpgsql security definer set search_path = pg_catalog as $$
begin
  update chain.cursor c set halted_at = clock_timestamp() where c.chain = of_chain and c.halted_at is null;
  insert into app.incident (chain, kind, subject, details) values (of_chain, 'journal_ahead', of_chain, jsonb_build_object('why', why))
  on conflict do nothing;
end $$;
comment on function custody.halt_chain is 'Stops a chain, with an incident, because the database is an older copy than custody''s journal.';
grant execute on function custody.halt_chain to sluice_custody;
comment on column app.incident.kind is 'final_deposit_vanished, final_deposit_moved, final_deposit_changed, payment_replaced, fork_below_final, unknown_transaction, final_payment_vanished, payment_of_failed_payout or journal_ahead.';

-- Whether a spend is what an entry was signed for. A cancel belongs to whatever its nonce was signed for before.
create function custody.is_purpose(s app.spend, e custody.journal) returns boolean
language sql immutable set search_path = pg_catalog as $$
  select case e.kind when 'pay' then s.kind = 'payout' and s.payout_id = e.subject_id when 'cancel' then s.status <> 'allocated'
    else s.id = e.subject_id end
$$;

-- Nonces that the copy gave to something else since, for which nothing is signed: that gets another one.
create function custody.free_nonces(entries custody.journal[]) returns void
language plpgsql set search_path = pg_catalog as $$
begin
  insert into app.sender as s (chain, address, next_nonce)
  select e.stream, e.sender, max(e.nonce) + 1 from unnest(entries) e group by e.stream, e.sender
  on conflict (chain, address) do update set next_nonce = greatest(s.next_nonce, excluded.next_nonce);
  update app.spend s set nonce = app.take_nonce(s.chain, s.sender)
  where s.status = 'allocated' and exists (
    select from unnest(entries) e where e.stream = s.chain and e.sender = s.sender and e.nonce = s.nonce and not custody.is_purpose(s, e));
end $$;

-- Nothing but the id is left of a merchant that the copy does not have; an operator decides what becomes of it.
create function custody.recover_merchant(merchant uuid, fee_bps int) returns void
language sql set search_path = pg_catalog as $$
  insert into app.merchant (id, name, prefix, fee_bps)
  values (merchant, 'Recovered ' || merchant, 'r' || substr(encode(uuid_send(merchant), 'hex'), 22), fee_bps)
  on conflict (id) do nothing
$$;

-- The payout of an entry, taken to where its payment can be under way; made again where the copy does not have it.
create function custody.recover_payout(e custody.journal) returns app.payout
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
  -- It claimed what nobody can tell any more. So it claims a credit of its gross, and the merchant owes as much.
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

-- The spend of an entry: the one with its nonce, or one that is made again with what was reserved for it. Null where it was a cancel of
-- something that cannot be told any more, from an address that belongs to no merchant.
create function custody.recover_spend(e custody.journal) returns app.spend
language plpgsql set search_path = pg_catalog as $$
declare
  s app.spend;
  p app.payout;
  merchant uuid := coalesce(e.merchant_id, (select a.merchant_id from custody.address a where a.address = e.sender));
  treasury text := app.treasury_address(e.stream);
begin
  if e.kind = 'pay' then
    p := custody.recover_payout(e);
    update app.spend x set nonce = e.nonce where x.payout_id = p.id and x.kind = 'payout' and x.status = 'allocated';
  end if;
  select * into s from app.spend x where x.chain = e.stream and x.sender = e.sender and x.nonce = e.nonce;
  if s.id is not null then
    if not custody.is_purpose(s, e) then
      raise exception 'nonce % of % on % was signed for another purpose by the file than by the database; they are not of the same service',
        e.nonce, e.sender, e.stream using errcode = 'P0003';
    end if;
    return s;
  end if;
  if merchant is not null then perform custody.recover_merchant(merchant, 0);
  elsif e.kind <> 'withdraw' and e.sender <> treasury then return null;
  end if;
  insert into app.spend (id, kind, chain, token, amount, source, recipient, sender, nonce, payout_id, merchant_id, status, cancelling, recovered, max_fee)
  values (case when e.kind in ('sweep', 'withdraw') then e.subject_id else uuidv7() end,
    case e.kind when 'pay' then 'payout' when 'withdraw' then 'withdrawal' else 'sweep' end, e.stream, e.token, greatest(e.amount, 1), e.source,
    case e.kind when 'cancel' then treasury else e.destination end, e.sender, e.nonce, p.id, merchant, 'live',
    e.kind = 'cancel' or coalesce(p.status = 'failed', false), true, e.max_fee) -- of a payout that failed in the copy nothing is to be paid any more
  returning * into s;
  if e.sender = treasury then perform app.reserve(e.stream, app.native_token(e.stream), e.max_fee); end if;
  if e.kind = 'withdraw' or p.status in ('swept', 'paying') then perform app.reserve(e.stream, e.token, e.amount); end if;
  if p.status in ('swept', 'paying') then perform app.add_share(p.chain, p.token, p.merchant_id, 0, p.gross); end if;
  return s;
end $$;

create function custody.recover_attempt(s app.spend, e custody.journal) returns void
language plpgsql set search_path = pg_catalog as $$
begin
  insert into app.outbound_tx (chain, txid, spend_id, attempt, kind, raw, token, source, recipient, amount, max_fee_per_gas,
    max_priority_fee_per_gas, gas_limit)
  select e.stream, e.txid, s.id, 1 + (select count(*) from app.outbound_tx o where o.spend_id = s.id),
    case e.kind when 'cancel' then 'cancel' else 'effect' end, e.raw, e.token, e.source, e.destination, e.amount,
    (e.details ->> 'max_fee_per_gas')::numeric, (e.details ->> 'max_priority_fee_per_gas')::numeric, (e.details ->> 'gas_limit')::bigint
  on conflict do nothing;
  if e.max_fee > s.max_fee and s.status <> 'final' and s.sender = app.treasury_address(s.chain) then
    perform app.reserve(s.chain, app.native_token(s.chain), e.max_fee - s.max_fee);
  end if;
  update app.spend x set status = 'live', max_fee = greatest(x.max_fee, e.max_fee), next_step_at = clock_timestamp()
  where x.id = s.id and x.status <> 'final';
  if e.kind = 'pay' then update app.payout p set status = 'paying' where p.id = s.payout_id and p.status = 'swept'; end if;
end $$;

-- Nonces that were taken after the copy was made, and for which nothing was signed: nothing after them can be mined, so they are used up.
create function custody.fill_holes(of_chains text[]) returns void
language sql set search_path = pg_catalog as $$
  insert into app.spend (kind, chain, token, amount, source, recipient, sender, nonce, merchant_id, cancelling, recovered, max_fee)
  select 'sweep', n.chain, app.native_token(n.chain), 1, n.address, app.treasury_address(n.chain), n.address, nonce, a.merchant_id, true, true, 0
  from app.sender n join custody.address a on a.address = n.address cross join generate_series(0, n.next_nonce - 1) nonce
  where n.chain = any(of_chains) and (a.merchant_id is not null or a.purpose = 'treasury')
    and not exists (select from app.spend s where s.chain = n.chain and s.sender = n.address and s.nonce = nonce.nonce)
$$;

create function custody.reconcile(entries jsonb) returns jsonb
language plpgsql set search_path = pg_catalog as $$
declare
  signed custody.journal[];
  e custody.journal;
  s app.spend;
  without_purpose int := 0;
begin
  lock table app.payout, app.treasury, app.sender, app.spend in exclusive mode; -- nothing plans or settles meanwhile
  insert into custody.journal select r.* from jsonb_populate_recordset(null::custody.journal, entries) r;
  select array_agg(r order by r.stream, r.seq) into signed from jsonb_populate_recordset(null::custody.journal, entries) r where r.kind <> 'pool';
  perform app.lock_treasury(c.stream) from (select distinct r.stream from unnest(signed) r) c;
  perform custody.free_nonces(signed);
  foreach e in array coalesce(signed, '{}') loop
    s := custody.recover_spend(e);
    if s.id is null then without_purpose := without_purpose + 1;
    else perform custody.recover_attempt(s, e);
    end if;
  end loop;
  perform custody.fill_holes(array(select distinct r.stream from unnest(signed) r));
  update app.incident i set resolved_at = clock_timestamp(), resolution = 'reconciled'
  from (select distinct r.stream, r.txid from unnest(signed) r) r
  where i.resolved_at is null and ((i.kind = 'journal_ahead' and i.subject = r.stream)
    or (i.kind = 'unknown_transaction' and i.subject = r.stream || ':' || r.txid));
  update chain.cursor c set halted_at = null where c.chain in (select r.stream from unnest(signed) r)
    and not exists (select from app.incident i where i.chain = c.chain and i.kind = 'fork_below_final' and i.resolved_at is null);
  perform app.wake_spends(c.stream) from (select distinct r.stream from unnest(signed) r) c;
  return jsonb_build_object('entries', jsonb_array_length(entries), 'without_purpose', without_purpose,
    'payouts', (select count(distinct r.subject_id) from unnest(signed) r where r.kind = 'pay'));
end $$;
comment on function custody.reconcile is 'Enters entries of custody''s journal that an older copy of the database lacks, and what follows from them; for sluice custody reconcile.';
comment on column app.incident.resolution is 'healed (it went away by itself), reconciled (custody''s journal was entered), reorged, kept, rewound or resumed (an operator decided).';
