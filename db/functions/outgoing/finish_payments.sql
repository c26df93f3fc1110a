-- Ends outgoing payments (app.outgoing_payment) of which an attempt is final, or whose conflict key a final transaction used up. chain.finalise_deposits calls it
-- at COMMIT of every transaction that touches a chain, before deposits become final.
--
-- Promises: only a block at or below the final height ends an outgoing payment, and each ends once. The transaction decides the outcome: done (an
-- attempt that had its effect), reverted (an attempt that had none), cancelled (the cancel), conflicted (no attempt of it). A transaction that is
-- neither stored here nor in custody's journal conflicts with nothing until an operator has kept its incident, or it is booked as a second payment: an
-- older copy of the database may just not remember it.
-- What follows from the outcome is in outgoing/finish.sql and outputs/finish.sql; what pays although its payment ended before, in
-- outgoing/second_payments.sql. Payouts that waited for a sweep are woken. The open payments are looked up one by one (lateral, offset 0): else the
-- view is computed over all payments that ever were, at each COMMIT. Plans are kept (auto), however many deposits become final in the same COMMIT.
-- Locks: chain.cursor (held by the caller), payouts in the order of their ids, treasury, outgoing payment; then its outputs and holdings, and, if
-- its payout fails or was paid after all, the pair, adjustments and deposits.

create or replace function app.may_be_paid_otherwise(s app.outgoing_payment, than_by text) returns boolean
language sql stable set search_path = pg_catalog as $$
  select s.conflict_key is null and exists (select from app.attempt_fate f
    where f.subject_id = case s.kind when 'payout' then s.payout_id else s.id end and f.txid <> than_by and f.fate <> 'dead')
$$;
comment on function app.may_be_paid_otherwise is 'Where attempts expire: whether another attempt of an outgoing payment than this transaction may still pay, or has.';

-- What custody signed may be in a final block although the worker never stored it: the answer was lost, or a thief had it. It is stored then, so that it
-- ends its payment, also one that is being cancelled.
create or replace function app.store_what_is_final(of_chain text, final_height int) returns void
language plpgsql set search_path = pg_catalog as $$
declare found_final record;
begin
  for found_final in
    select x as payment, j as entry from app.outgoing_payment x
    cross join lateral (
      select e.seq from custody.journal e where e.stream = x.chain and e.subject_id = case x.kind when 'payout' then x.payout_id else x.id end
      union
      select e.seq from custody.journal_key k join custody.journal e using (stream, seq)
      where k.stream = x.chain and k.conflict_key = x.conflict_key and e.kind = 'cancel') its
    join custody.journal j on j.stream = x.chain and j.seq = its.seq
    where x.chain = of_chain and x.status <> 'final'
      and exists (select from chain.confirmed_tx i where i.chain = j.stream and i.txid = j.txid and i.block_height <= final_height)
      and not exists (select from app.outgoing_attempt o where o.chain = j.stream and o.txid = j.txid)
    order by x.payout_id, x.id, j.seq
  loop
    perform app.lock_treasury(of_chain);
    perform custody.recover_attempt(found_final.payment, found_final.entry);
  end loop;
end $$;
comment on function app.store_what_is_final is 'Stores attempts that a final block holds, custody signed, and the worker never stored.';

create or replace function app.has_open_payments(of_chain text) returns boolean
language plpgsql stable set search_path = pg_catalog set enable_seqscan = off as $$
begin
  return exists (select from app.outgoing_payment x where x.chain = of_chain and x.status <> 'final');
end $$;
comment on function app.has_open_payments is 'Whether outgoing payments of a chain are not final.';

create or replace function app.attempts_expire(of_chain text) returns boolean
language sql stable set search_path = pg_catalog as $$
  select exists (select from app.chain c where c.chain = of_chain and c.attempts_exclude_by = 'expiry')
$$;
comment on function app.attempts_expire is 'Whether transactions of a chain expire (Solana, Tron), so that another attempt can pay only after that.';

create or replace function app.finish_open_payments(of_chain text, final_height int) returns uuid[]
language plpgsql set search_path = pg_catalog as $$
declare
  found_final record;
  s app.outgoing_payment;
  finished uuid[] := '{}';
  has_outputs boolean := app.uses_outputs(of_chain);
  expires boolean := app.attempts_expire(of_chain);
begin
  perform from app.payout p where p.id in (
    select x.payout_id from app.outgoing_payment x
    cross join lateral (select * from app.outgoing_confirmed_tx n where n.outgoing_payment_id = x.id offset 0) i
    where x.chain = of_chain and x.status <> 'final' and i.block_height <= final_height
    union all
    select l.payout_id from app.outgoing_payment x
    cross join lateral (select * from app.outgoing_confirmed_tx n where n.outgoing_payment_id = x.id offset 0) i
    join app.payout_sweep l on l.outgoing_payment_id = x.id
    where x.chain = of_chain and x.status <> 'final' and i.block_height <= final_height
    union all
    select x.payout_id from app.outgoing_payment x join custody.journal j on j.stream = x.chain and j.subject_id = x.payout_id
    join chain.confirmed_tx i on i.chain = j.stream and i.txid = j.txid
    where expires and x.chain = of_chain and x.status <> 'final' and x.kind = 'payout' and i.block_height <= final_height)
  order by p.id for update;
  perform app.store_what_is_final(of_chain, final_height);
  for found_final in
    select distinct on (i.block_height, x.nonce, x.id) x.id, i.txid, o.amount as moved,
      case when o.txid is not null then i.fee when has_outputs then 0 else i.fee - coalesce(n.fee, 0) end as fee, case when o.txid is null then 'conflicted' when o.kind = 'cancel' then 'cancelled'
      when i.success then 'done' else 'reverted' end as outcome
    from app.outgoing_payment x
    cross join lateral (select * from app.outgoing_confirmed_tx n where n.outgoing_payment_id = x.id offset 0) i
    left join app.outgoing_attempt o on o.chain = x.chain and o.txid = i.txid and o.outgoing_payment_id = x.id
    left join app.second_payment n on n.chain = x.chain and n.txid = i.txid and n.booked_at is not null
    where x.chain = of_chain and x.status <> 'final' and i.block_height <= final_height
      and (o.txid is not null or n.txid is not null or exists (select from custody.journal j where j.stream = i.chain and j.txid = i.txid) or exists (
        select from app.unknown_transaction u join app.incident k on k.id = u.incident_id
        where u.chain = i.chain and u.txid = i.txid and k.resolution = 'kept'))
      -- where attempts expire, a failure decides only once no other attempt can pay
      and (i.success or o.txid is null or not app.may_be_paid_otherwise(x, i.txid))
    order by i.block_height, x.nonce, x.id, o.txid is null, o.kind = 'cancel' or not i.success, i.txid, i.fee desc -- of all who signed it, the one who paid
  loop
    perform app.lock_treasury(of_chain);
    update app.outgoing_payment x set status = 'final', txid = found_final.txid, outcome = found_final.outcome, fee_paid = found_final.fee,
      final_at = clock_timestamp(), next_step_at = null, waiting_reason = null, waiting_detail = null, waiting_since = null
    where x.id = found_final.id and x.status <> 'final' returning * into s;
    continue when s.id is null;
    if has_outputs then perform app.finish_outputs(s); end if;
    perform app.post_network_fee(s, found_final.fee);
    if s.kind = 'payout' then perform app.finish_payment(s, s.outcome, s.txid);
    elsif s.kind = 'sweep' and not has_outputs then perform app.finish_sweep(s, s.outcome, found_final.moved);
    elsif s.kind = 'withdrawal' then perform app.finish_withdrawal(s, s.outcome);
    elsif s.kind = 'fund' then perform app.finish_fund(s, s.outcome);
    elsif s.kind = 'defund' then perform app.finish_defund(s, s.outcome, found_final.moved);
    elsif s.kind = 'stake' then perform app.reserve(s.chain, s.token, -s.amount);
    end if;
    if s.outcome = 'done' then perform app.post_what_it_staked(s, s.txid); end if;
    perform app.end_use_of_delegation(s);
    perform app.release_after_sweep(s);
    finished := finished || s.id;
    if s.outcome = 'done' and exists (select from chain.lapse l where l.chain = s.chain and l.txid = s.txid) then
      perform app.note_booked(s, s.txid, true, 0, 0); -- the proof was wrong, and another attempt may pay, too
    end if;
    perform app.suspect_second_payments_of(s);
  end loop;
  return finished;
end $$;
comment on function app.finish_open_payments is 'Ends the open payments of a chain that a transaction at or below this height decided, and returns them.';

create or replace function app.finish_outgoing_payments(of_chain text, final_height int) returns void
language plpgsql set search_path = pg_catalog set plan_cache_mode = auto as $$
declare finished uuid[];
begin
  if app.has_open_payments(of_chain) then
    finished := app.finish_open_payments(of_chain, final_height);
  end if;
  if exists (select from app.second_payment n where n.chain = of_chain and n.booked_at is null)
    and app.book_second_payments(of_chain, final_height) then
    perform app.finish_outgoing_payments(of_chain, final_height); -- other payments whose nonce or outputs they took
  end if;
  perform app.wake_payouts_after(finished);
  if app.attempts_expire(of_chain) and exists (
    select from app.incident i where i.resolved_at is null and i.kind in ('contested_payment', 'unproven_expiry')) then
    perform app.close_expiry_incidents(of_chain);
  end if;
end $$;
comment on function app.finish_outgoing_payments is 'Ends the outgoing payments of a chain that a transaction at or below this height decided, and posts what follows.';

