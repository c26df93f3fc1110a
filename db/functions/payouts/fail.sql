-- A payout fails, and what it claimed is in the balance again. Before it pays, app.fail_payout ends it: for the worker (custody refuses it, it
-- waited too long), for a merchant or operator who cancels it (decide.sql), and when a deposit that it claimed is taken back. Once it is paying,
-- only a final transaction that proves that it was not paid ends it, and finality calls app.release_payout.
--
-- Invariants: nothing of it can be paid any more (what an older copy of the database had forgotten becomes a debt: app.finish_payment). The balance
-- has its gross again at once, and the deposits follow by allocation. There is one event.
-- Locks: payout, treasury, outgoing payment, pair, deposits.

-- No payment of it is stored, so none was broadcast. If a nonce or outputs were taken for one, a cancel uses them up. Its value, and what it was to
-- sweep in, are given back; its network fee stays reserved for the cancel. If custody signed a payment that nobody stored, somebody may send it all the
-- same: the payout goes on, with that payment, until it is decided in a final block.
create or replace function app.fail_payout(of_payout uuid, code text, message text) returns boolean
language plpgsql security definer set search_path = pg_catalog as $$
declare
  p app.payout;
  s app.outgoing_payment;
begin
  select * into p from app.payout o where o.id = of_payout and o.status in ('pending', 'sweeping', 'swept') for update;
  if p.id is null then return false; end if;
  -- Without a payment it has nothing in the treasury, and none begins while its row is locked: whoever cancels it, and leaves the transaction open,
  -- must not keep others from being paid.
  if not app.is_cancellable(p) then perform app.lock_treasury(p.chain); end if;
  select * into s from app.outgoing_payment x where x.payout_id = p.id and x.kind = 'payout' and x.status <> 'final' for update;
  -- Only now, with the lock: custody may have signed while this waited for it.
  if s.id is not null
    and exists (select from app.attempt_fate f where f.chain = p.chain and f.subject_id = p.id and f.fate <> 'dead') then
    return false;
  end if;
  if s.id is not null then
    update app.outgoing_payment x set cancelling = true, next_step_at = clock_timestamp() where x.id = s.id;
    perform app.unreserve_payment(p, s);
    perform app.wake_outgoing_payments(p.chain);
  end if;
  perform app.release_payout(p.id, code, message);
  return true;
end $$;
comment on function app.fail_payout is 'Fails a payout that is pending, sweeping or swept, and gives its balance back; false in any other status, and while a transaction that custody signed may still pay it.';
grant execute on function app.fail_payout to sluice_jobs;

create or replace function app.unreserve_payment(p app.payout, s app.outgoing_payment) returns void
language plpgsql set search_path = pg_catalog as $$
begin
  perform app.give_up_swept_in(s);
  perform app.add_share(p.chain, p.token, p.merchant_id, 0, -p.gross);
  perform app.reserve(p.chain, p.token, -p.net);
end $$;
comment on function app.unreserve_payment is 'Gives back what is reserved for a payout''s payment, except its network fee.';

create or replace function app.release_payout(of_payout uuid, code text, message text) returns void
language plpgsql set search_path = pg_catalog as $$
declare
  p app.payout;
  claimed app.claim;
  lost record;
begin
  update app.payout o set status = 'failed', error_code = code, error_message = message where o.id = of_payout returning * into strict p;
  perform app.lock_pair(p.merchant_id, p.chain, p.token);
  select * into strict claimed from app.claim c where c.payout_id = p.id and c.kind = 'claim';
  update app.adjustment a set settlement_id = null where a.settlement_id = p.id;
  select * into strict lost from app.release_lost(p);
  insert into app.claim (kind, payout_id, merchant_id, chain, token, cutoff, deposit_count, amount)
  values ('release', p.id, p.merchant_id, p.chain, p.token, claimed.cutoff, claimed.deposit_count - lost.claimed_count,
    claimed.amount - lost.claimed_amount);
  -- Only what was claimed before anything was held back can be.
  insert into app.balance_delta (merchant_id, chain, token, amount, deposit_count, held_back, held_back_count)
  select p.merchant_id, p.chain, p.token, p.gross, claimed.deposit_count - lost.claimed_count + lost.final_count, coalesce(sum(d.amount), 0), count(*)
  from app.deposit d where d.held_back and d.chain = p.chain and d.token = p.token and d.settlement_id = p.id;
  perform app.post('release', p.id::text, p.chain, jsonb_build_array(
    jsonb_build_object('account', 'payout', 'token', p.token, 'merchant_id', p.merchant_id, 'amount', p.gross),
    jsonb_build_object('account', 'merchant', 'token', p.token, 'merchant_id', p.merchant_id, 'amount', -p.gross)));
  perform app.wake_allocation(p);
  perform app.emit_payout_event(p, 'payout.failed');
end $$;
comment on function app.release_payout is 'Fails a payout, whose row the caller has locked, for this reason: its gross goes back to the balance, the release of its deposits begins, and payout.failed is emitted.';

create or replace function app.release_lost(p app.payout, out claimed_count bigint, out claimed_amount numeric, out final_count bigint)
language sql set search_path = pg_catalog as $$
  with lost as (
    update app.deposit d set settlement_id = null
    from (select a.deposit_id, sum(a.amount) as debt from app.adjustment a
      where a.merchant_id = p.merchant_id and a.chain = p.chain and a.token = p.token group by a.deposit_id) a
    where d.id = a.deposit_id and d.settlement_id = p.id
    returning d.id, d.status = 'final' as is_final, d.amount, a.debt
  ), cancelled as (
    insert into app.adjustment (merchant_id, chain, token, amount, deposit_id, reason)
    select p.merchant_id, p.chain, p.token, -debt, id, 'payout_failed' from lost where debt <> 0
  )
  select count(*), coalesce(sum(case when is_final then amount else 0 end - debt), 0), count(*) filter (where is_final) from lost
$$;
comment on function app.release_lost is 'Removes the payout from deposits that it claimed and that were lost afterwards, and cancels the debts that stand for them; returns how many there are, their sum in its claim (base units), and how many are final again.';
