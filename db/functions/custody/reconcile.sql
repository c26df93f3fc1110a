-- Imports what custody's journal has and an older copy of the database is missing.
--
-- The file beside custody's seed has what was signed since the copy was made; any of it may be mined, now or later. Until it is imported, nothing
-- may be signed, and the indexers must not read on: they would treat our own transactions as foreign ones. So custody, which starts first, halts
-- the chain (custody.halt_chain). An operator's `sluice custody reconcile` then imports the missing entries here, as the owner of the database, and
-- resumes the chain. From then on they are broadcast, watched and completed like everything else.
--
-- Invariants: afterwards every signature of the journal is an attempt of an outgoing payment (app.outgoing_payment) with its nonce, so the one
-- that is mined is always known. A payout that was missing is there again, and its merchant owes its gross. (The deposits that it had claimed are
-- unsettled in the copy, or will be read again; payouts/after_restore.sql finds them if it can.) app.balance_audit and app.ledger_audit stay empty.
-- Locks: chain.cursor of the chains, before all else, as chain.derive does; then payouts, treasuries, senders and outgoing payments as whole tables,
-- so that nothing is planned or derived meanwhile. All or nothing; only missing entries may be passed.
-- Error: P0003 the file and the database signed one nonce, or one output, for two purposes; or what was found on a chain is in the journal already.

create or replace function custody.reconcile(entries jsonb) returns jsonb
language plpgsql set search_path = pg_catalog as $$
declare
  signed custody.journal[];
  e custody.journal;
  s app.outgoing_payment;
  without_purpose int := 0;
  streams text[] := array(select distinct r.stream from jsonb_populate_recordset(null::custody.journal, entries) r where r.kind <> 'pool');
begin
  perform from chain.cursor c where c.chain in (select r.stream from jsonb_populate_recordset(null::custody.journal, entries) r)
    order by c.chain for update;
  lock table app.payout, app.treasury, app.sender, app.outgoing_payment in exclusive mode; -- nothing is planned or derived meanwhile
  if exists (select from jsonb_populate_recordset(null::custody.journal, entries) r join custody.journal j on j.stream = r.stream and j.txid = r.txid
      where r.details ? 'found') then
    raise exception 'what was found on the chain is in the journal already' using errcode = 'P0003';
  end if;
  insert into custody.journal (stream, seq, kind, subject_id, merchant_id, token, amount, destination, source, sender, nonce, max_fee, txid, raw,
    details, signed_at, hash)
  select stream, seq, kind, subject_id, merchant_id, token, amount, destination, source, sender, nonce, max_fee, txid, raw,
    details, signed_at, hash
  from jsonb_populate_recordset(null::custody.journal, entries);
  select array_agg(j order by (j).stream, (j).seq) into signed from (
    select j from jsonb_populate_recordset(null::custody.journal, entries) r join custody.journal j using (stream, seq) where j.txid is not null
    union
    -- what the copy's own journal has, and its worker had not stored yet: a missing cancel must not hide it
    select j from app.outgoing_payment x join custody.journal j on j.stream = x.chain and j.kind <> 'cancel' and custody.is_purpose(x, j)
    where x.status = 'allocated' and x.chain in (select r.stream from jsonb_populate_recordset(null::custody.journal, entries) r)
      and j.txid is not null and j.conflict_key is not distinct from x.conflict_key) known(j);
  perform app.lock_treasury(c) from unnest(streams) c;
  perform custody.free_nonces(signed);
  foreach e in array coalesce(signed, '{}') loop
    s := custody.recover_outgoing_payment(e);
    if s.id is null then without_purpose := without_purpose + 1;
    else perform custody.recover_attempt(s, e);
    end if;
  end loop;
  perform app.suspect_second_payments(array(select known.txid from unnest(signed) known));
  perform custody.fill_holes(streams);
  update app.incident i set resolved_at = clock_timestamp(), resolution = 'reconciled'
  where i.resolved_at is null and i.chain = any(streams) and (i.kind = 'journal_ahead' or (i.kind = 'unknown_transaction' and not exists (
    select from app.unknown_transaction u where u.incident_id = i.id
      and not exists (select from app.outgoing_attempt o where o.chain = u.chain and o.txid = u.txid)
      and not exists (select from unnest(signed) known where known.stream = u.chain and known.txid = u.txid))));
  perform chain.go_on(c) from unnest(streams) c;
  perform app.wake_outgoing_payments(c) from unnest(streams) c;
  return jsonb_build_object('entries', jsonb_array_length(entries), 'without_purpose', without_purpose,
    'payouts', (select count(distinct r.subject_id) from unnest(signed) r where r.kind = 'pay'));
end $$;
comment on function custody.reconcile is 'Imports entries of custody''s journal that an older copy of the database is missing, and what follows from them. Returns how many entries and payouts there were, and for how many entries (cancels) the purpose is no longer known.';


-- Nonces that were taken after the copy was made, and for which nothing was signed: nothing after them could be mined.
create or replace function custody.fill_holes(of_chains text[]) returns void
language sql set search_path = pg_catalog as $$
  insert into app.outgoing_payment (kind, chain, token, amount, source, recipient, fee_payer, nonce, merchant_id, cancelling, recovered, max_fee, from_gas)
  select 'cancel', n.chain, app.native_token(n.chain), 0, n.address, n.address, n.address, nonce, a.merchant_id, true, true, 0,
    app.free_gas(n.chain, n.address) > 0
  from app.sender n join custody.address a on a.address = n.address cross join generate_series(0, n.next_nonce - 1) nonce
  where n.chain = any(of_chains) and (a.merchant_id is not null or a.purpose = 'treasury')
    and not exists (select from app.outgoing_payment s where s.chain = n.chain and s.fee_payer = n.address and s.nonce = nonce.nonce)
    and not exists (select from chain.confirmed_tx i join chain.cursor c using (chain)
      where i.chain = n.chain and i.conflict_key = n.address || ':' || nonce.nonce and i.block_height <= c.final_height)
$$;
comment on function custody.fill_holes is 'Gives each nonce that was taken on these chains and is unused to an outgoing payment that is only cancelled.';

