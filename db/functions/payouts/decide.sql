-- What people decide about a payout. A merchant cancels it until its payment has begun (the API, the dashboard). An operator cancels it, retries it
-- now, or replaces its payment (the command line, as the owner of the database, which alone may call those).
--
-- What was swept for a payout that is cancelled stays the merchant's in the treasury, and sweeps under way count for its next payout (app.await_sweeps):
-- nothing is swept twice. But each sweep costs the operator a fee, so a merchant cancels only so many payouts a day that have begun to sweep.
-- Once a payment is signed, cancelling it needs a transaction, too, and the payout is paying until one of them is final. What an operator decided
-- about a payment is in custody.decision: custody signs it even while the chain is halted. No role of a process can write there.
-- Locks: payout, treasury, outgoing payment, pair; a merchant's cancel takes neither treasury nor outgoing payment, but the merchant. Errors: SL404 there is no such payout;
-- SL422 refused, the message says why; SL429 too many, the message says why, and the detail after how many seconds.

create or replace function app.cancel_payout(of_merchant uuid, of_payout uuid) returns void
language plpgsql security definer set search_path = pg_catalog as $$
declare p app.payout;
begin
  select * into p from app.payout o where o.id = of_payout and o.merchant_id = of_merchant for update;
  if p.id is null then raise exception 'there is no payout with this id' using errcode = 'SL404', detail = 'payout'; end if;
  if p.status not in ('pending', 'sweeping', 'swept') then
    raise exception 'the payout is % and can no longer be cancelled', p.status using errcode = 'SL422';
  end if;
  if not app.is_cancellable(p) then raise exception 'the payment of the payout has begun, so it can no longer be cancelled' using errcode = 'SL422'; end if;
  if p.status <> 'pending' then
    if app.why_halted(p.chain) is not null then -- an older copy of the database may not know what was signed
      raise exception 'payouts of this chain are stopped until the operator has checked it; the payout cannot be cancelled meanwhile' using errcode = 'SL422';
    end if;
    perform from app.merchant m where m.id = of_merchant for no key update; -- one at a time, for the count
    perform app.limit_cancels(of_merchant);
  end if;
  if not app.fail_payout(p.id, 'cancelled', 'cancelled by the merchant') then
    raise exception 'a transaction that was signed may still pay it, so it can no longer be cancelled' using errcode = 'SL422';
  end if;
  update app.payout o set cancelled_by_merchant = true where o.id = p.id;
end $$;
comment on function app.cancel_payout is 'Cancels a payout for its merchant, until its payment has begun.';
grant execute on function app.cancel_payout to sluice_api;

create or replace function app.is_cancellable(p app.payout) returns boolean
language sql stable set search_path = pg_catalog as $$
  select p.status in ('pending', 'sweeping', 'swept')
    and not exists (select from app.outgoing_payment s where s.payout_id = p.id and s.kind = 'payout' and s.status <> 'final')
$$;
comment on function app.is_cancellable is 'Whether its merchant may cancel a payout: no nonce, no outputs and no transaction were taken for its payment.';

create or replace function app.limit_cancels(of_merchant uuid) returns void
language plpgsql stable set search_path = pg_catalog as $$
declare
  most int := (select m.cancels_per_day from app.merchant m where m.id = of_merchant);
  until timestamptz; -- when the last that may be left has become a day old
begin
  if most = 0 then raise exception 'a payout that has begun can only be cancelled by the operator' using errcode = 'SL422'; end if;
  select p.finished_at + interval '1 day' into until from app.payout p
  where p.merchant_id = of_merchant and p.error_code = 'cancelled' and p.cancelled_by_merchant and p.sweeping_at is not null
    and p.finished_at > clock_timestamp() - interval '1 day'
  order by p.finished_at desc offset most - 1 limit 1;
  if until is not null then
    raise exception 'within a day, no more than % payouts that have begun can be cancelled; this one is not', most using errcode = 'SL429',
      detail = ceil(extract(epoch from until - clock_timestamp()))::text;
  end if;
end $$;
comment on function app.limit_cancels is 'Raises SL429 if a merchant has cancelled as many payouts within a day, that had begun to sweep, as it may; SL422 if it may cancel none. The caller has locked the merchant.';

create or replace function app.cancel_payout_by_operator(of_payout uuid) returns text
language plpgsql security definer set search_path = pg_catalog as $$
declare p app.payout;
begin
  select * into p from app.payout o where o.id = of_payout for update;
  if p.id is null then raise exception 'there is no payout with this id' using errcode = 'SL404', detail = 'payout'; end if;
  if p.status in ('completed', 'failed') then raise exception 'the payout is % already', p.status using errcode = 'SL422'; end if;
  perform app.decide_payment(p.id, 'cancel');
  if app.fail_payout(p.id, 'cancelled', 'cancelled by the operator') then return 'failed'; end if;
  update app.outgoing_payment s set cancelling = true, next_step_at = clock_timestamp() where s.payout_id = p.id and s.kind = 'payout' and s.status <> 'final';
  perform app.wake_outgoing_payments(p.chain);
  return 'cancelling';
end $$;
comment on function app.cancel_payout_by_operator is 'An operator''s decision to cancel a payout, even if its chain is halted. Returns failed, or cancelling if a payment is under way and its cancel has to become final first.';

create or replace function app.retry_payout(of_payout uuid) returns void
language plpgsql security definer set search_path = pg_catalog as $$
declare p app.payout;
begin
  update app.payout o set next_step_at = case when o.status <> 'paying' then clock_timestamp() end
  where o.id = of_payout and o.status not in ('completed', 'failed') returning * into p;
  if p.id is null then
    perform from app.payout o where o.id = of_payout;
    if not found then raise exception 'there is no payout with this id' using errcode = 'SL404', detail = 'payout'; end if;
    raise exception 'the payout has ended; request a new one' using errcode = 'SL422';
  end if;
  update app.outgoing_payment s set next_step_at = clock_timestamp() where s.payout_id = p.id and s.status <> 'final';
  perform app.wake_payout(p.id), app.wake_outgoing_payments(p.chain);
end $$;
comment on function app.retry_payout is 'Wakes a waiting payout and its transactions at once.';

create or replace function app.replace_payout_by_operator(of_payout uuid) returns void
language plpgsql security definer set search_path = pg_catalog as $$
declare p app.payout;
begin
  select * into p from app.payout o where o.id = of_payout for update;
  if p.id is null then raise exception 'there is no payout with this id' using errcode = 'SL404', detail = 'payout'; end if;
  if app.attempts_expire(p.chain) then
    raise exception 'nothing is replaced on %: its transactions expire, and the next one is signed when no block can hold the one before', p.chain using errcode = 'SL422';
  end if;
  update app.outgoing_payment s set next_step_at = clock_timestamp()
  where s.payout_id = p.id and s.kind = 'payout' and s.status = 'live' and not s.cancelling;
  if not found then
    raise exception 'the payout is % and has no payment under way to replace', p.status using errcode = 'SL422';
  end if;
  perform app.decide_payment(p.id, 'replace');
  perform app.wake_outgoing_payments(p.chain);
end $$;
comment on function app.replace_payout_by_operator is 'An operator''s decision to offer a higher fee for a payment under way, now, even if its chain is halted.';

create or replace function app.decide_payment(of_payout uuid, what text) returns void
language sql set search_path = pg_catalog as $$
  insert into custody.decision as d (outgoing_payment_id, decision)
  select s.id, what from app.outgoing_payment s where s.payout_id = of_payout and s.kind = 'payout' and s.status <> 'final'
  on conflict (outgoing_payment_id) do update set decision = excluded.decision, decided_at = excluded.decided_at
$$;
comment on function app.decide_payment is 'Notes for custody what an operator decided about a payout''s payment that is not final: replace or cancel.';
