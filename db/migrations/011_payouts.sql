-- Payouts: what a merchant claimed of its balance, and how far it is on its way out.
--
-- Writers: the API (app.create_payout, app.cancel_payout), the worker (one step at a time, through the functions here and in 012_spends.sql),
-- settling (completed, failed with proof), an operator. Readers: the API, the worker, custody (which signs what a row here says, after
-- checking it against its own journal).
--
-- A claim takes the whole balance of a (merchant, chain, token): gross and the promotion number up to which deposits belong to it are read in
-- one statement, so both are of one moment. The deposits themselves are stamped with the payout afterwards (app.stamp_deposits), the first
-- ones in the same transaction, a million of them by a job. Claims and releases of a pair are carried out strictly in their order, which is
-- why each finds exactly the deposits that were in its sum.
--
-- Invariants: a status changes only as the contract's table has it (a trigger refuses the rest); gross = the sum of the deposits and
-- adjustments stamped with the payout, once stamping is done; completed and failed are for ever; one event for each of the two.
-- Locks, always in this order: chain.cursor, payout, treasury, sender, spend, pair (advisory), deposits.

create table app.payout (
  id uuid primary key default uuidv7(),
  seq bigint not null generated always as identity,
  merchant_id uuid not null references app.merchant,
  chain text not null,
  token text not null,
  status text not null default 'pending' check (status in ('pending', 'sweeping', 'swept', 'paying', 'completed', 'failed')),
  gross numeric(78, 0) not null check (gross > 0),
  fee_bps int not null,
  fee numeric(78, 0) not null check (fee >= 0),
  net numeric(78, 0) not null check (net > 0),
  address text not null,
  sweep_first boolean not null,
  txid text,
  network_fee numeric(78, 0) not null default 0,
  error_code text,
  error_message text,
  waiting_reason text,
  waiting_detail text,
  waiting_since timestamptz,
  next_step_at timestamptz default clock_timestamp(),
  created_at timestamptz not null default clock_timestamp(),
  finished_at timestamptz,
  check (gross = fee + net)
);
create index payout_page on app.payout (merchant_id, seq desc);
create index payout_open on app.payout (next_step_at) where status not in ('completed', 'failed');
comment on table app.payout is 'A payout (settlement): the balance of a merchant''s chain and token, on its way to the merchant.';
comment on column app.payout.id is 'Id; shown as pay_ and 32 hex digits.';
comment on column app.payout.seq is 'Order of creation, for pages.';
comment on column app.payout.merchant_id is 'The merchant.';
comment on column app.payout.chain is 'Chain code.';
comment on column app.payout.token is 'Token code.';
comment on column app.payout.status is 'pending, sweeping, swept, paying, completed or failed.';
comment on column app.payout.gross is 'The balance that was claimed, in base units.';
comment on column app.payout.fee_bps is 'The merchant''s fee rate at that moment.';
comment on column app.payout.fee is 'Service fee: gross * fee_bps / 10000, rounded down.';
comment on column app.payout.net is 'What is paid: gross - fee.';
comment on column app.payout.address is 'Where it is paid to; a later change of the payout address does not change it.';
comment on column app.payout.sweep_first is 'True if every claimed address that still holds funds is swept before anything is paid.';
comment on column app.payout.txid is 'The transaction that paid it; null until that is final.';
comment on column app.payout.network_fee is 'Network fees of the payment and of the sweeps made for it, in the native coin''s base units. The operator bears them.';
comment on column app.payout.error_code is 'Why it failed, for programs.';
comment on column app.payout.error_message is 'Why it failed, for people.';
comment on column app.payout.waiting_reason is 'What it waits for, if its next step could not be taken; null while it moves.';
comment on column app.payout.waiting_detail is 'More about that, for the operator.';
comment on column app.payout.waiting_since is 'Since when it waits for that.';
comment on column app.payout.next_step_at is 'When its next step is tried again, if nothing wakes it before; null while its payment goes on by itself, and once it is over.';
comment on column app.payout.created_at is 'When it was requested.';
comment on column app.payout.finished_at is 'When it was completed or failed.';

create function app.check_payout_change() returns trigger
language plpgsql set search_path = pg_catalog as $$
begin
  if (new.id, new.merchant_id, new.chain, new.token, new.gross, new.fee, new.net, new.address)
    is distinct from (old.id, old.merchant_id, old.chain, old.token, old.gross, old.fee, old.net, old.address)
    or (old.status <> new.status and (old.status, new.status) not in (
      ('pending', 'sweeping'), ('sweeping', 'swept'), ('swept', 'paying'), ('paying', 'completed'),
      ('pending', 'failed'), ('sweeping', 'failed'), ('swept', 'failed'), ('paying', 'failed'))) then
    raise exception 'payout %: % to % is not allowed', old.id, old.status, new.status using errcode = 'P0003';
  end if;
  if old.status <> new.status then
    new.waiting_reason := null;
    new.waiting_detail := null;
    new.waiting_since := null;
    new.next_step_at := case when new.status not in ('paying', 'completed', 'failed') then clock_timestamp() end; -- paying: its spend goes on
    new.finished_at := case when new.status in ('completed', 'failed') then clock_timestamp() end;
  end if;
  return new;
end $$;
create trigger contract before update on app.payout for each row execute function app.check_payout_change();
create function app.refuse_payout_delete() returns trigger
language plpgsql set search_path = pg_catalog as $$
begin
  raise exception 'payouts are never deleted' using errcode = 'P0003';
end $$;
create trigger never_deleted before delete on app.payout for each row execute function app.refuse_payout_delete();

create table app.idempotency_key (
  merchant_id uuid not null references app.merchant,
  key text not null,
  request_hash bytea not null,
  payout_id uuid,
  body text,
  created_at timestamptz not null default clock_timestamp(),
  primary key (merchant_id, key)
);
comment on table app.idempotency_key is 'Idempotency keys of payouts that were accepted, for ever.';
comment on column app.idempotency_key.merchant_id is 'The merchant.';
comment on column app.idempotency_key.key is 'The key.';
comment on column app.idempotency_key.request_hash is 'SHA-256 of what was asked with it.';
comment on column app.idempotency_key.payout_id is 'The payout that it made.';
comment on column app.idempotency_key.body is 'The reply that was given, and is given again.';
comment on column app.idempotency_key.created_at is 'When it was used first.';

create table app.claim (
  id bigint primary key generated always as identity,
  kind text not null check (kind in ('claim', 'release')),
  payout_id uuid not null references app.payout,
  merchant_id uuid not null,
  chain text not null,
  token text not null,
  cutoff bigint not null,
  deposit_count bigint not null,
  amount numeric(78, 0) not null,
  done_count bigint not null default 0,
  done_amount numeric(78, 0) not null default 0,
  last_promotion bigint not null default -1,
  last_seq bigint not null default -1,
  created_at timestamptz not null default clock_timestamp(),
  finished_at timestamptz,
  unique (payout_id, kind)
);
create index claim_open on app.claim (merchant_id, chain, token, id) where finished_at is null;
comment on table app.claim is 'Stamping that payouts asked for: a claim gives deposits to a payout, a release gives them back. Carried out in order, for each merchant, chain and token.';
comment on column app.claim.id is 'Order in which the balance changed.';
comment on column app.claim.kind is 'claim or release.';
comment on column app.claim.payout_id is 'The payout.';
comment on column app.claim.merchant_id is 'Its merchant.';
comment on column app.claim.chain is 'Its chain.';
comment on column app.claim.token is 'Its token.';
comment on column app.claim.cutoff is 'Deposits that became final later than at this promotion number do not belong to it.';
comment on column app.claim.deposit_count is 'How many deposits it is about.';
comment on column app.claim.amount is 'The sum of them, in base units.';
comment on column app.claim.done_count is 'How many are done.';
comment on column app.claim.done_amount is 'The sum of those.';
comment on column app.claim.last_promotion is 'Promotion number of the last one that was done.';
comment on column app.claim.last_seq is 'seq of the last one that was done.';
comment on column app.claim.created_at is 'When it was asked for.';
comment on column app.claim.finished_at is 'When it was done.';

create function app.lock_pair(of_merchant uuid, of_chain text, of_token text) returns void
language sql set search_path = pg_catalog as $$
  select pg_advisory_xact_lock(hashtextextended('pair:' || of_merchant || ':' || of_chain || ':' || of_token, 0))
$$;

-- Carries out the oldest unfinished claim or release of a pair, up to `batch` deposits of it; true if there may be more to do. Whoever
-- comes while somebody else is at it has nothing to do (unless `wait`): requests never wait for a long stamping.
create function app.stamp_deposits(of_merchant uuid, of_chain text, of_token text, batch int, wait boolean default false) returns boolean
language plpgsql security definer set search_path = pg_catalog set plan_cache_mode = force_custom_plan set enable_sort = on as $$
declare
  lock bigint := hashtextextended('stamp:' || of_merchant || ':' || of_chain || ':' || of_token, 0);
  op app.claim;
  found_count bigint;
  found_amount numeric;
  at record;
begin
  if wait then perform pg_advisory_xact_lock(lock);
  elsif not pg_try_advisory_xact_lock(lock) then return true;
  end if;
  select * into op from app.claim c
  where c.merchant_id = of_merchant and c.chain = of_chain and c.token = of_token and c.finished_at is null order by c.id limit 1;
  if op.id is null then return false; end if;

  if op.kind = 'claim' then
    with next as materialized (
      select d.id, d.promotion, d.seq, d.amount from app.deposit d
      where d.merchant_id = of_merchant and d.chain = of_chain and d.token = of_token and d.status = 'final' and d.credited
        and d.settlement_id is null and d.promotion <= op.cutoff and (d.promotion, d.seq) > (op.last_promotion, op.last_seq)
      order by d.promotion, d.seq limit batch
    ), stamped as (
      update app.deposit d set settlement_id = op.payout_id from next n where d.id = n.id
    )
    select count(*) as n, coalesce(sum(amount), 0) as amount, max(array[promotion, seq]) as last from next into at;
  else
    with next as materialized (
      select d.id, d.promotion, d.seq, d.amount from app.deposit d
      where d.settlement_id = op.payout_id and d.seq > op.last_seq order by d.seq limit batch
    ), stamped as (
      update app.deposit d set settlement_id = null from next n where d.id = n.id
    )
    select count(*) as n, coalesce(sum(amount), 0) as amount, max(array[0::bigint, seq]) as last from next into at;
  end if;

  update app.claim c set done_count = c.done_count + at.n, done_amount = c.done_amount + at.amount,
    last_promotion = coalesce(at.last[1], c.last_promotion), last_seq = coalesce(at.last[2], c.last_seq),
    finished_at = case when at.n < batch then clock_timestamp() end
  where c.id = op.id returning c.done_count, c.done_amount into found_count, found_amount;
  if at.n < batch and (found_count, found_amount) <> (op.deposit_count, op.amount) then
    raise exception 'the % of payout % should be of % deposits (%), and % (%) were found', op.kind, op.payout_id, op.deposit_count, op.amount,
      found_count, found_amount using errcode = 'P0003';
  end if;
  return at.n = batch or exists (select from app.claim c
    where c.merchant_id = of_merchant and c.chain = of_chain and c.token = of_token and c.finished_at is null);
end $$;
comment on function app.stamp_deposits is 'Carries out claims and releases of a merchant, chain and token in their order; true if there is more to do. Safe to run at any time and in several places.';

-- All of them, now, in this transaction. For an operator's decisions.
create function app.stamp_all_deposits(of_merchant uuid, of_chain text, of_token text) returns void
language plpgsql set search_path = pg_catalog as $$
begin
  while app.stamp_deposits(of_merchant, of_chain, of_token, 50000, true) loop null; end loop;
end $$;

create function app.wake_payout(payout uuid) returns void
language sql set search_path = pg_catalog as $$
  select app.enqueue('advance_payout', json_build_object('payout_id', payout), 'payout:' || payout)
$$;

create function app.wake_stamping(p app.payout) returns void
language sql set search_path = pg_catalog as $$
  select app.enqueue('stamp_deposits', json_build_object('merchant_id', p.merchant_id, 'chain', p.chain, 'token', p.token),
    'stamp:' || p.merchant_id || ':' || p.chain || ':' || p.token)
$$;

-- Why nothing leaves a chain now; null if nothing is wrong.
create function app.why_halted(of_chain text) returns text
language sql stable security definer set search_path = pg_catalog as $$
  select coalesce(
    (select 'the chain stands still for the operator' from chain.cursor c where c.chain = of_chain and c.halted_at is not null),
    (select 'incident ' || min(i.id) || ' (' || (array_agg(i.kind order by i.id))[1] || ') waits for the operator'
      from app.incident i where i.chain = of_chain and i.resolved_at is null having count(*) > 0))
$$;
comment on function app.why_halted is 'Why no payout of a chain goes on now: a halted chain or an open incident; null if nothing is wrong.';

create function app.refuse_payout(why text) returns void
language plpgsql set search_path = pg_catalog as $$
begin
  raise exception '%', why using errcode = 'SLPAY';
end $$;

-- Errors, beside those of 007_api.sql: SLTOK the pair is not supported; SLPAY refused (the message says why); SLIDK the key was used with
-- another request.
create function app.create_payout(of_merchant uuid, of_chain text, of_token text, of_sweep_first boolean, of_key text, of_request bytea) returns text
language plpgsql security definer set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
declare
  twin app.idempotency_key;
  asset app.asset;
  destination text;
  rate int;
  is_enabled boolean;
  at record;
  adjusted numeric;
  p app.payout;
  reply text;
begin
  if of_key is not null then
    insert into app.idempotency_key (merchant_id, key, request_hash) values (of_merchant, of_key, of_request) on conflict do nothing;
    if not found then
      select * into twin from app.idempotency_key k where k.merchant_id = of_merchant and k.key = of_key;
      if twin.request_hash <> of_request then
        raise exception 'this Idempotency-Key was used with another request' using errcode = 'SLIDK';
      end if;
      return twin.body;
    end if;
  end if;
  select m.enabled into is_enabled from app.merchant_chain m where m.merchant_id = of_merchant and m.chain = of_chain;
  select * into asset from app.asset a where a.chain = of_chain and a.token = of_token;
  if asset.chain is null and exists (select from app.chain c where c.chain = of_chain) then
    raise exception 'there is no % on %', of_token, of_chain using errcode = 'SLTOK';
  end if;
  if asset.chain is null or is_enabled is null then raise exception 'not enabled for this account: %', of_chain using errcode = 'SLCHN'; end if;
  perform app.lock_pair(of_merchant, of_chain, of_token);

  select coalesce(b.amount, 0) as gross, coalesce(b.deposit_count, 0) as deposit_count, c.promotion as cutoff into at
  from (select) one left join app.balance_now b on b.merchant_id = of_merchant and b.chain = of_chain and b.token = of_token
  left join chain.cursor c on c.chain = of_chain;
  if at.gross = 0 and not is_enabled then raise exception 'not enabled for this account: %', of_chain using errcode = 'SLCHN'; end if;
  perform app.refuse_payout('payouts of ' || of_chain || ' are stopped: ' || why) from app.why_halted(of_chain) why where why is not null;
  select a.address into destination from app.payout_address a where a.merchant_id = of_merchant and a.chain = of_chain;
  if destination is null then perform app.refuse_payout('no payout address is registered for ' || of_chain); end if;
  perform app.refuse_payout('the payout address belongs to this service; register one of your own')
  from custody.address o where o.match_key in (destination, lower(destination)) and o.address = destination;
  if at.gross <= 0 then
    perform app.refuse_payout(case when at.gross = 0 then 'there is nothing to pay out' else 'the balance is below zero' end);
  end if;

  select m.fee_bps into rate from app.merchant m where m.id = of_merchant;
  if at.gross - div(at.gross * rate, 10000) < asset.min_payout then
    perform app.refuse_payout('the balance is below the smallest payout (' || app.decimal(asset.min_payout, asset.decimals) || ' ' || of_token || ')');
  end if;
  insert into app.payout (merchant_id, chain, token, gross, fee_bps, fee, net, address, sweep_first)
  values (of_merchant, of_chain, of_token, at.gross, rate, div(at.gross * rate, 10000), at.gross - div(at.gross * rate, 10000), destination,
    coalesce(of_sweep_first, false))
  returning * into p;
  with claimed as (
    update app.adjustment a set settlement_id = p.id
    where a.merchant_id = of_merchant and a.chain = of_chain and a.token = of_token and a.settlement_id is null returning a.amount
  )
  select coalesce(sum(amount), 0) into adjusted from claimed;
  insert into app.claim (kind, payout_id, merchant_id, chain, token, cutoff, deposit_count, amount)
  values ('claim', p.id, of_merchant, of_chain, of_token, at.cutoff, at.deposit_count, at.gross - adjusted);
  insert into app.balance_delta (merchant_id, chain, token, amount, deposit_count)
  values (of_merchant, of_chain, of_token, -at.gross, -at.deposit_count);
  perform app.post('claim', p.id::text, of_chain, jsonb_build_array(
    jsonb_build_object('account', 'merchant', 'token', of_token, 'merchant_id', of_merchant, 'amount', p.gross),
    jsonb_build_object('account', 'payout', 'token', of_token, 'merchant_id', of_merchant, 'amount', -p.gross)));
  if app.stamp_deposits(of_merchant, of_chain, of_token, 100) then perform app.wake_stamping(p); end if;
  perform app.wake_payout(p.id);

  select row_to_json(r) into reply from (select app.public_id('pay', p.id) as id, p.status,
    app.decimal(p.gross, asset.decimals) as gross, app.decimal(p.fee, asset.decimals) as fee, app.decimal(p.net, asset.decimals) as net,
    p.txid) r;
  update app.idempotency_key k set payout_id = p.id, body = reply where k.merchant_id = of_merchant and k.key = of_key;
  return reply;
end $$;
comment on function app.create_payout is 'Claims the balance of a merchant''s chain and token for a payout; returns the reply. The same key gives the same reply.';

-- How it ends ---------------------------------------------------------------------------------------------------------------------------

create function app.emit_payout_event(p app.payout, of_type text) returns void
language plpgsql set search_path = pg_catalog as $$
declare
  event uuid := uuidv7();
  at timestamptz := clock_timestamp();
begin
  insert into app.event (id, merchant_id, type, subject_id, version, created_at, payload)
  select event, p.merchant_id, of_type, p.id, 1, at, json_build_object(
    'type', of_type, 'id', app.public_id('evt', event), 'payout_id', app.public_id('pay', p.id), 'chain', p.chain, 'token', p.token,
    'gross', app.decimal(p.gross, a.decimals), 'fee', app.decimal(p.fee, a.decimals), 'net', app.decimal(p.net, a.decimals),
    'address', p.address, 'txid', p.txid,
    'error', case when p.error_code is not null then json_build_object('code', p.error_code, 'message', p.error_message) end,
    'created_at', app.iso(at))
  from app.asset a where a.chain = p.chain and a.token = p.token;
  insert into app.delivery (event_id, endpoint_id, status, next_attempt_at, finished_at)
  select event, w.id, case when w.disabled_at is null then 'pending' else 'failed' end,
    case when w.disabled_at is null then at end, case when w.disabled_at is not null then at end
  from app.webhook_endpoint w where w.merchant_id = p.merchant_id and w.deleted_at is null and of_type = any(w.event_types);
  perform app.enqueue('deliver_webhooks');
end $$;

-- Deposits that a payout claimed and that were lost afterwards, and the debts that stand for them: of a failed payout neither is left. Returns
-- how many there are, what they were in its claim, and how many of them are final again.
create function app.release_lost(p app.payout, out claimed_count bigint, out claimed_amount numeric, out final_count bigint)
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

-- The payout, whose row the caller has locked, has failed: the balance has its gross again at once, its deposits follow.
create function app.release_payout(of_payout uuid, code text, message text) returns void
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
  insert into app.balance_delta (merchant_id, chain, token, amount, deposit_count)
  values (p.merchant_id, p.chain, p.token, p.gross, claimed.deposit_count - lost.claimed_count + lost.final_count);
  perform app.post('release', p.id::text, p.chain, jsonb_build_array(
    jsonb_build_object('account', 'payout', 'token', p.token, 'merchant_id', p.merchant_id, 'amount', p.gross),
    jsonb_build_object('account', 'merchant', 'token', p.token, 'merchant_id', p.merchant_id, 'amount', -p.gross)));
  perform app.wake_stamping(p);
  perform app.emit_payout_event(p, 'payout.failed');
end $$;
