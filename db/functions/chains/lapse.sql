-- Proof that a transaction which expires can never pay (chain.lapse). The indexer of the chain asks for what may be proven (chain.lapsable), has its
-- family complete the evidence, and notes it here, in a transaction of its own.
--
-- Promises: what SQL can know is checked again, under the lock of the cursor. Custody signed it; a final block is past its end; every block that could
-- have held it was read, and proven to be whole as far as its family can; none of our blocks holds it; the chain is not halted; and the clock is past
-- the time by which its end must have come, so that a node which shows blocks of the future proves nothing. Noting it again changes nothing.
-- Errors: P0003 custody signed no such transaction, or one that does not expire.
-- Locks: chain.cursor, then those of app.finish_outgoing_payments.

create or replace function chain.is_past_end(j custody.journal) returns boolean
language sql stable security definer set search_path = pg_catalog as $$
  select j.lifetime_end <= case k.ends_by when 'height' then c.final_height
      else (select extract(epoch from b.time) * 1000 from chain.block b where b.chain = c.chain and b.height = c.final_height) end
    and extract(epoch from clock_timestamp()) * 1000 > j.lifetime_clock_ms + 30000
  from chain.cursor c join app.chain k using (chain) where c.chain = j.stream
$$;
comment on function chain.is_past_end is 'Whether no block after the final one can hold this transaction, by the chain and by the clock (30 s more).';
grant execute on function chain.is_past_end to sluice_indexer; -- a view calls its functions with the rights of its reader

create or replace function chain.note_lapse(of_chain text, of_txid text, evidence jsonb) returns boolean
language plpgsql security definer set search_path = pg_catalog as $$
declare
  at chain.cursor;
  signed custody.journal;
begin
  select * into at from chain.cursor c where c.chain = of_chain for update;
  select * into signed from custody.journal j where j.stream = of_chain and j.txid = of_txid;
  if signed.lifetime_end is null then
    raise exception 'custody signed no transaction % on % that expires', of_txid, of_chain using errcode = 'P0003';
  end if;
  if at.halted_at is not null or at.followed_from > signed.lifetime_from + 1 or not chain.is_past_end(signed)
    or exists (select from chain.confirmed_tx i where i.chain = of_chain and i.txid = of_txid)
    or exists (select from chain.unproven_block b where b.chain = of_chain and b.height > signed.lifetime_from and b.height <= at.final_height) then
    return false;
  end if;
  perform chain.lapse(signed, at, evidence);
  return true;
end $$;
comment on function chain.note_lapse is 'Notes that a transaction expired in no block, with what the indexer''s family found. False if that is not proven.';
grant execute on function chain.note_lapse to sluice_indexer;

-- Another attempt may have failed in a final block: now that this one cannot pay either, the payment has ended. That comes first, so that nothing more is
-- signed for it.
create or replace function chain.lapse(signed custody.journal, at chain.cursor, evidence jsonb) returns void
language plpgsql set search_path = pg_catalog as $$
begin
  insert into chain.lapse (chain, txid, final_height, final_hash, evidence)
  values (signed.stream, signed.txid, at.final_height, at.final_hash, evidence) on conflict do nothing;
  perform app.finish_outgoing_payments(at.chain, at.final_height);
  update app.outgoing_payment s set next_step_at = clock_timestamp()
  where s.status <> 'final' and (s.id = signed.subject_id or s.payout_id = signed.subject_id and s.kind = 'payout');
  perform app.wake_outgoing_payments(at.chain);
end $$;
comment on function chain.lapse is 'Stores the lapse of a transaction; ends its payment if that is decided now, else wakes it.';

-- Custody may be judging by one of them at this moment. It holds the row of the payment until its signature is in the journal; then the payment is
-- contested, which the view says.
create or replace function chain.take_back_lapses(of_chain text, to_height int) returns void
language plpgsql set search_path = pg_catalog as $$
declare reopened uuid[];
begin
  perform from app.outgoing_payment s where s.status <> 'final' and s.id in (
    select coalesce(p.id, j.subject_id) from chain.lapse l join custody.journal j on j.stream = l.chain and j.txid = l.txid
    left join app.outgoing_payment p on p.payout_id = j.subject_id and p.kind = 'payout'
    where l.chain = of_chain and l.final_height > to_height) order by s.id for no key update;
  with gone as (delete from chain.lapse l where l.chain = of_chain and l.final_height > to_height returning l.txid)
  select array_agg(j.subject_id) into reopened from gone g join custody.journal j on j.stream = of_chain and j.txid = g.txid;
  insert into app.incident (chain, kind, subject, details)
  select null, 'contested_payment', c.chain || ':' || c.subject_id, jsonb_build_object('payment', c.subject_id, 'attempts', c.attempts) -- the chain's other payments go on
  from app.contested_payment c where c.chain = of_chain and c.subject_id = any(reopened) on conflict do nothing;
end $$;
comment on function chain.take_back_lapses is 'Takes back the proofs above this height that transactions expired, and opens an incident for each payment of which a later attempt was signed.';

create or replace function app.close_expiry_incidents(of_chain text) returns void
language sql set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
  update app.incident i set resolved_at = clock_timestamp(), resolution = 'healed'
  where i.resolved_at is null and i.subject like of_chain || ':%' and (
    i.kind = 'contested_payment' and not exists (select from app.contested_payment c where c.chain = of_chain and c.subject_id = (i.details ->> 'payment')::uuid)
    or i.kind = 'unproven_expiry' and not exists (select from app.attempt_fate f where f.chain = of_chain and f.txid = i.details ->> 'txid' and f.fate = 'open'))
$$;
comment on function app.close_expiry_incidents is 'Closes the incidents about transactions that expire whose reason is gone: the payment is not contested any more, or it is known what became of the transaction.';

-- What stays unproven is for an operator: the indexer cannot tell, because nodes contradict each other or keep no history, or because blocks were not
-- read. The indexer says it again at each poll; it is shown at once, but is no incident while the chain may just be late.
create or replace function chain.note_unproven(of_chain text, of_txid text, why text) returns void
language sql security definer set search_path = pg_catalog as $$
  update app.outgoing_attempt o set unproven = why, unproven_since = coalesce(o.unproven_since, clock_timestamp())
  where o.chain = of_chain and o.txid = of_txid and o.unproven is distinct from why;
  insert into app.incident as i (chain, kind, subject, details)
  select null, 'unproven_expiry', of_chain || ':' || of_txid, jsonb_build_object('txid', of_txid, 'why', why) -- without a chain: its other payments go on
  from chain.lapsable l join custody.journal j on j.stream = l.chain and j.txid = l.txid
  where l.chain = of_chain and l.txid = of_txid and extract(epoch from clock_timestamp()) * 1000 > j.lifetime_clock_ms + 600000
  on conflict (subject, kind) where resolved_at is null do update set details = excluded.details where i.details <> excluded.details
$$;
comment on function chain.note_unproven is 'Notes why it is not proven that a transaction expired. Opens an incident, or renews its reason, for a transaction of which it is not proven that it expired, 10 minutes after its end must have come.';
grant execute on function chain.note_unproven to sluice_indexer;

create or replace function app.decide_absent(of_incident app.incident) returns void
language plpgsql set search_path = pg_catalog as $$
declare
  at chain.cursor;
  signed custody.journal;
begin
  select * into at from chain.cursor c where c.chain = split_part(of_incident.subject, ':', 1);
  select * into signed from custody.journal j where j.stream = at.chain and j.txid = of_incident.details ->> 'txid';
  if at.halted_at is not null then
    raise exception 'incident %: % is halted, so its final block may be wrong; resolve that first', of_incident.id, at.chain using errcode = 'P0003';
  end if;
  if not coalesce(chain.is_past_end(signed), false) or exists (select from chain.confirmed_tx i where i.chain = signed.stream and i.txid = signed.txid) then
    raise exception 'incident %: a block may still hold the transaction, or holds it', of_incident.id using errcode = 'P0003';
  end if;
  if exists (select from app.contested_payment c where c.chain = signed.stream and c.subject_id = signed.subject_id) then
    raise exception 'incident %: another transaction of the same payment may be in a block; wait until one is final', of_incident.id using errcode = 'P0003';
  end if;
  perform chain.lapse(signed, at, jsonb_build_object('decided', 'absent', 'incident', of_incident.id));
end $$;
comment on function app.decide_absent is 'An operator''s decision that no block holds a transaction which is past its end (by the chain and by the clock); refused for a contested payment.';
