-- Begins the payment of a payout on a chain with accounts: sweeping ends, and the payment gets its nonce. The worker takes these steps
-- (jobs/payouts/advance-payout.ts); on a chain with outputs app.begin_output_payment does both at once. From there the outgoing payment
-- (app.outgoing_payment) continues by itself, and the payout is paying once its first attempt is stored (app.store_signed).
--
-- Each step takes the row lock of the payout first, and does nothing unless the payout has the status that the step needs. So a step may run twice,
-- or in two workers at once. Value and highest network fee are reserved with the nonce, both or neither, if the treasury can pay them
-- (ledger/funds.sql).
-- Locks: payout, treasury, sender, outgoing payment.

create or replace function app.end_sweeping(of_payout uuid) returns void
language plpgsql security definer set search_path = pg_catalog as $$
begin
  perform from app.payout p where p.id = of_payout for update;
  if app.is_to_sweep_first(of_payout) then return; end if;
  update app.payout p set status = 'swept' where p.id = of_payout and p.status = 'sweeping';
end $$;
comment on function app.end_sweeping is 'Takes a payout from sweeping to swept; one with sweep_first only once all its deposits are known and none of its sweeps is under way.';
grant execute on function app.end_sweeping to sluice_jobs;

-- Other payouts are paid as soon as the treasury can pay them, so that whatever holds up a sweep does not hold them up.
create or replace function app.is_to_sweep_first(of_payout uuid) returns boolean
language sql stable set search_path = pg_catalog as $$
  select p.sweep_first and (
    exists (select from app.payout_sweep l join app.outgoing_payment s on s.id = l.outgoing_payment_id where l.payout_id = p.id and s.status <> 'final')
    or exists (select from app.claim c where c.payout_id = p.id and c.kind = 'claim' and c.finished_at is null))
  from app.payout p where p.id = of_payout
$$;
comment on function app.is_to_sweep_first is 'Whether a payout with sweep_first has sweeps under way, or deposits that are not allocated yet.';

create or replace function app.begin_payment(of_payout uuid, network_fee numeric) returns text
language plpgsql security definer set search_path = pg_catalog as $$
declare
  p app.payout;
  short text;
  treasury text;
begin
  select * into p from app.payout o where o.id = of_payout and o.status = 'swept' for update;
  if p.id is null or exists (select from app.outgoing_payment s where s.payout_id = p.id and s.kind = 'payout') or app.has_blocked_deposits(p.id) then
    return null;
  end if;
  perform app.lock_treasury(p.chain);
  short := app.shortage(p.chain, p.token, p.merchant_id, p.net, p.gross, network_fee);
  if short is not null then return short; end if;
  treasury := app.treasury_address(p.chain);
  insert into app.treasury_share as s (chain, token, merchant_id, reserved) values (p.chain, p.token, p.merchant_id, p.gross)
  on conflict (chain, token, merchant_id) do update set reserved = s.reserved + excluded.reserved;
  perform app.reserve(p.chain, p.token, p.net);
  perform app.reserve(p.chain, app.native_token(p.chain), network_fee);
  insert into app.outgoing_payment (kind, chain, token, amount, source, recipient, fee_payer, nonce, payout_id, merchant_id, max_fee)
  values ('payout', p.chain, p.token, p.net, treasury, p.address, treasury, app.take_nonce(p.chain, treasury), p.id, p.merchant_id, network_fee);
  perform app.wake_outgoing_payments(p.chain);
  return null;
end $$;
comment on function app.begin_payment is 'Takes the nonce of a payout''s payment and reserves its value and highest fee; returns what is short; null if the payment has begun (now or before), or the payout is not swept, or has claimed what is blocked. Safe to run again.';
grant execute on function app.begin_payment to sluice_jobs;

create or replace function app.payout_shortage(of_payout uuid, network_fee numeric) returns text
language sql stable security definer set search_path = pg_catalog as $$
  select app.shortage(p.chain, p.token, p.merchant_id, p.net, p.gross, payout_shortage.network_fee) from app.payout p where p.id = of_payout
$$;
comment on function app.payout_shortage is 'What the treasury lacks to pay a payout now without money of other merchants; null if nothing.';
grant execute on function app.payout_shortage to sluice_jobs;

create or replace function app.payout_lack(of_payout uuid, network_fee numeric) returns numeric
language sql stable security definer set search_path = pg_catalog as $$
  select greatest(-app.funds_after(p.chain, p.token, p.merchant_id, p.net, p.gross, payout_lack.network_fee), 0) from app.payout p where p.id = of_payout
$$;
comment on function app.payout_lack is 'How much of a payout''s token the treasury lacks to pay it now, in base units.';
grant execute on function app.payout_lack to sluice_jobs;

create or replace function app.payout_shortfall(of_payout uuid, network_fee numeric) returns numeric
language sql stable security definer set search_path = pg_catalog as $$
  select greatest(app.payout_lack(p.id, payout_shortfall.network_fee) - coalesce((
    select sum(s.amount) from app.outgoing_payment s
    where s.chain = p.chain and s.token = p.token and s.merchant_id = p.merchant_id and s.kind = 'sweep' and s.status <> 'final'
      and not app.is_held_up(s)), 0) - coalesce((
    select sum(h.amount) from app.outgoing_payment s
    join app.holding h on h.chain = s.chain and h.address = s.recipient and h.token = s.for_token
    where s.chain = p.chain and s.for_token = p.token and s.merchant_id = p.merchant_id and s.kind in ('fund', 'delegate') and s.status <> 'final'
      and not app.is_held_up(s) and app.sweep_under_way(h.chain, h.token, h.address) is null), 0), 0)
  from app.payout p where p.id = of_payout
$$;
comment on function app.payout_shortfall is 'How much of a payout''s token further sweeps have to bring before the treasury can pay it, in base units, besides what sweeps of the merchant''s addresses under way, and those whose gas or energy is under way, will probably bring.';
grant execute on function app.payout_shortfall to sluice_jobs;

-- If others of its chain wait for the same reason, sweeping other addresses instead would not help.
create or replace function app.is_held_up(s app.outgoing_payment) returns boolean
language sql stable set search_path = pg_catalog as $$
  select s.cancelling
    or coalesce(s.waiting_since <= clock_timestamp() - interval '1 minute', false)
      and exists (select from app.reason r where r.reason = s.waiting_reason and r.lies_with = 'payment')
    or (select count(*) from app.outgoing_attempt o where o.outgoing_payment_id = s.id) >= 3
$$;
comment on function app.is_held_up is 'Whether an outgoing payment under way should not be counted on: it is given up, has waited a minute for a reason of its own, or needed a third transaction.';
