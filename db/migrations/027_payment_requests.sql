-- Payment requests: an exact amount to an address of its own, paid once, by somebody who is no user of the merchant.
--
-- What arrives at such an address is a row of app.deposit with payment_request_id in place of user_id: it is settled, becomes final, is
-- taken back, counts in the balance, is claimed and swept as every deposit, by the same code. It has no event (app.emit_deposit_events tells
-- of users' deposits), and no list of deposits shows it. So what belongs to a treasury is now told by having no merchant; what told it by
-- having no user is restated below.
--
-- Writers: the API (app.create_payment_request); app.refresh_payment, once at the end of every transaction that changes receipts of a request,
-- however many; the jobs worker (app.expire_payment_requests). Readers: the API, analysts.
--
-- Invariants:
--   * one request per (merchant, external_id), one address per request, from the pool, for ever;
--   * a receipt is of the chain and the token that were asked for; anything else at the address is unattributed;
--   * status, received, pending, late, txid and paid_at follow from the receipts and the expiry alone (app.payment_of), at every commit;
--   * position is set while status is paid or underpaid, and rises whenever what GET /payments tells of the request changes.
-- Locks, always in this order: chain.cursor, deposits, payment request. Who expires requests locks nothing else.

alter table app.deposit add column if not exists payment_request_id uuid, add column if not exists came_at timestamptz;

alter table app.address add column if not exists payment_request_id uuid;

alter table app.address drop constraint if exists one_owner,
  add constraint one_owner check (num_nonnulls(user_id, payment_request_id) = num_nonnulls(merchant_id)) not valid;

alter table app.address validate constraint one_owner;

-- Waiting for old transactions to end keeps nobody else waiting, so there is no hurry.
select set_config('sluice.lock_timeout', current_setting('lock_timeout'), false), set_config('lock_timeout', '0', false);

drop index concurrently if exists app.address_payment_request;

create unique index concurrently address_payment_request on app.address (payment_request_id, chain) where payment_request_id is not null;

drop index concurrently if exists app.deposit_payment_request;

create index concurrently deposit_payment_request on app.deposit (payment_request_id) where payment_request_id is not null;

drop index concurrently if exists app.deposit_of_users_page;

create index concurrently deposit_of_users_page on app.deposit (merchant_id, seq desc) where credited and user_id is not null;

drop index concurrently if exists app.deposit_of_users_chain_page;

create index concurrently deposit_of_users_chain_page on app.deposit (merchant_id, chain, seq desc) where credited and user_id is not null;

drop index concurrently if exists app.deposit_unattributed_of_merchants;

create index concurrently deposit_unattributed_of_merchants on app.deposit (chain) where status = 'final' and not credited and merchant_id is not null;

select set_config('lock_timeout', current_setting('sluice.lock_timeout'), false);

-- Transaction

-- Pages of deposits are read by deposit_of_users_page and deposit_of_users_chain_page from now on. deposit_page and deposit_chain_page, which hold
-- receipts, too, stay for processes of the version before; the next version drops them.

-- In place of the one that leaves out what is unattributed at addresses of payment requests.
drop index app.deposit_unattributed;
alter index app.deposit_unattributed_of_merchants rename to deposit_unattributed;

create table app.payment_request (
  id uuid primary key default uuidv7(),
  merchant_id uuid not null references app.merchant,
  external_id text not null,
  chain text not null,
  token text not null,
  amount numeric(78, 0) not null check (amount > 0),
  page_token text not null unique,
  idempotency_key text,
  request_hash bytea,
  created_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz not null,
  expired_at timestamptz,
  status text not null default 'awaiting' check (status in ('awaiting', 'detected', 'paid', 'expired', 'underpaid')),
  received numeric(78, 0) not null default 0,
  pending numeric(78, 0) not null default 0,
  late boolean not null default false,
  txid text,
  paid_at timestamptz,
  position bigint,
  unique (merchant_id, external_id),
  unique (merchant_id, idempotency_key),
  foreign key (chain, token) references app.asset,
  check ((idempotency_key is null) = (request_hash is null)),
  check ((status = 'paid') = (received >= amount) and (status = 'paid') = (paid_at is not null)),
  check ((status in ('paid', 'underpaid')) = (position is not null))
);
create unique index payment_request_page on app.payment_request (merchant_id, position desc) where position is not null;
create index payment_request_asset_page on app.payment_request (merchant_id, chain, token, position desc) where position is not null;
create index payment_request_underpaid_page on app.payment_request (merchant_id, position desc) where status = 'underpaid';
create index payment_request_expiry on app.payment_request (expires_at) where expired_at is null and status in ('awaiting', 'detected');
create sequence app.payment_position;
comment on table app.payment_request is 'What merchants asked to be paid, each to an address of its own, and what was paid of it. Never deleted.';
comment on column app.payment_request.id is 'Id; merchants know the request by external_id.';
comment on column app.payment_request.merchant_id is 'The merchant.';
comment on column app.payment_request.external_id is 'The merchant''s reference, which begins with its prefix.';
comment on column app.payment_request.chain is 'Chain code.';
comment on column app.payment_request.token is 'Token code.';
comment on column app.payment_request.amount is 'What was asked for, in base units.';
comment on column app.payment_request.page_token is 'Who knows it may see the page of the request: 192 random bits.';
comment on column app.payment_request.idempotency_key is 'Idempotency-Key of the call that made it; null if it had none.';
comment on column app.payment_request.request_hash is 'SHA-256 of what that call asked for.';
comment on column app.payment_request.created_at is 'When it was made.';
comment on column app.payment_request.expires_at is 'What comes later is late.';
comment on column app.payment_request.expired_at is 'When it was judged after it expired; null before.';
comment on column app.payment_request.status is 'awaiting; detected: money was seen, and is not enough or not final yet; paid; expired: nothing came; underpaid: it expired with less than was asked for.';
comment on column app.payment_request.received is 'Sum of the final receipts, in base units.';
comment on column app.payment_request.pending is 'Sum of the receipts that are not final yet, in base units.';
comment on column app.payment_request.late is 'True if some of what was received came after it expired.';
comment on column app.payment_request.txid is 'Transaction of the final receipt with which the sum reached the amount; of the last one, while it has not.';
comment on column app.payment_request.paid_at is 'When that receipt became final; null while the amount is not reached.';
comment on column app.payment_request.position is 'Order in GET /payments; null while it is not there.';

comment on column app.deposit.user_id is 'The user whose address it is; null for a payment request''s and for a treasury''s.';
comment on column app.deposit.payment_request_id is 'The payment request whose address it is; null for a user''s and for a treasury''s.';
comment on column app.deposit.came_at is 'Of what reached a payment request''s address: when it was first seen, or, if that was before, when a block was made that holds it, or held it; null for others.';
comment on table app.deposit is 'Value that reached an address of ours. Credited ones are deposits of a merchant''s users, or receipts of its payment requests; the others are unattributed: a token or a chain that was not asked for.';
comment on column app.address.user_id is 'The user that it was handed out for; null for a payment request''s and for a treasury''s.';
comment on column app.address.payment_request_id is 'The payment request that it was handed out for; null for a user''s and for a treasury''s.';
comment on column app.address.merchant_id is 'The merchant that it was handed out to; null for a treasury.';
comment on column app.address.is_provisioned is 'True if the merchant asked for this chain: deposits are credited (at a payment request''s address, in its token alone). False if it is watched only because the same key controls it here: what arrives is unattributed.';
alter table app.address drop constraint user_and_merchant,
  add foreign key (payment_request_id) references app.payment_request;

-- Life ------------------------------------------------------------------------------------------------------------------------------------

-- Late: neither seen nor mined before the request expired. Seen counts because a transaction may wait long for its block, mined because we
-- may have been behind. What came in time stays so, though the chain puts it into a later block.
create function app.note_arrival() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
begin
  new.came_at := least(new.came_at, new.created_at, (select t.block_time from chain.transfer t
    where t.id = new.chain || ':' || new.txid || ':' || new.output_index and t.recipient = new.address and t.block_hash = new.block_hash));
  return new;
end $$;
create trigger note_arrival before insert or update of block_hash on app.deposit for each row
  when (new.payment_request_id is not null) execute function app.note_arrival();

create view app.receipt as
select d.payment_request_id, d.id as deposit_id, d.seq, d.txid, d.output_index, d.amount, d.status, d.block_height, d.settlement_id,
  d.promotion, d.created_at, d.finalised_at, d.came_at > r.expires_at as late,
  d.merchant_id, r.external_id, d.chain, d.token, d.sender, d.address
from app.payment_request r
join app.deposit d on d.payment_request_id = r.id and d.chain = r.chain and d.token = r.token
where d.credited and d.status <> 'reorged';
comment on view app.receipt is 'What was paid for payment requests: deposits at their addresses, in the token that was asked for, that are on the chain, or on their way into a block.';
comment on column app.receipt.payment_request_id is 'The payment request.';
comment on column app.receipt.deposit_id is 'The deposit.';
comment on column app.receipt.seq is 'Order in which deposits were first seen.';
comment on column app.receipt.txid is 'Transaction id.';
comment on column app.receipt.output_index is 'Position inside the transaction.';
comment on column app.receipt.amount is 'Amount in base units.';
comment on column app.receipt.status is 'pending or final.';
comment on column app.receipt.block_height is 'Block that holds it; null while it is in none.';
comment on column app.receipt.settlement_id is 'The payout that collected it; null until then.';
comment on column app.receipt.promotion is 'Number, on its chain, of the time at which it became final; null before.';
comment on column app.receipt.created_at is 'When it was first seen.';
comment on column app.receipt.finalised_at is 'When it became final.';
comment on column app.receipt.late is 'True if it was neither seen nor mined before the request expired.';
comment on column app.receipt.merchant_id is 'The merchant.';
comment on column app.receipt.external_id is 'The merchant''s reference of the payment request.';
comment on column app.receipt.chain is 'Chain code.';
comment on column app.receipt.token is 'Token code.';
comment on column app.receipt.sender is 'Where the value came from.';
comment on column app.receipt.address is 'The address of the payment request.';

-- What a request is by its receipts. Once it has expired with nothing in time under way, it is what is final that counts: a late receipt
-- changes an underpaid request when it is final, not before, so that who was told "underpaid" is next told the end of it.
create function app.payment_of(r app.payment_request, expired boolean, out status text, out received numeric, out pending numeric, out late boolean,
  out txid text, out paid_at timestamptz)
language plpgsql stable set search_path = pg_catalog as $$
declare
  pending_in_time boolean;
  last_txid text;
begin
  select coalesce(sum(c.amount) filter (where c.status = 'final'), 0), coalesce(sum(c.amount) filter (where c.status = 'pending'), 0),
    coalesce(bool_or(c.late) filter (where c.status = 'final'), false), coalesce(bool_or(not c.late) filter (where c.status = 'pending'), false),
    (array_agg(c.txid order by c.promotion, c.seq) filter (where c.so_far >= r.amount))[1],
    (array_agg(c.finalised_at order by c.promotion, c.seq) filter (where c.so_far >= r.amount))[1],
    (array_agg(c.txid order by c.promotion desc, c.seq desc) filter (where c.status = 'final'))[1]
  into received, pending, late, pending_in_time, txid, paid_at, last_txid
  from (
    select f.*, case f.status when 'final' then sum(f.amount) over (partition by f.status order by f.promotion, f.seq) end as so_far
    from app.receipt f where f.payment_request_id = r.id
  ) c;
  txid := coalesce(txid, last_txid);
  status := case when received >= r.amount then 'paid'
    when pending_in_time or (pending > 0 and received = 0) or (received > 0 and not expired) then 'detected'
    when not expired then 'awaiting'
    when received > 0 then 'underpaid' else 'expired' end;
end $$;

-- Brings a request up to date with its receipts and the time. Safe to call at any time. Plans are kept, because planning took more than half
-- of its time (measured); sequential scans are off, so that those from when the tables were small use the indexes, too.
create function app.refresh_payment(of_request uuid) returns void
language plpgsql set search_path = pg_catalog set enable_seqscan = off as $$
declare
  r app.payment_request;
  now record;
  is_expired boolean;
begin
  select * into strict r from app.payment_request p where p.id = of_request for no key update;
  is_expired := r.expires_at <= clock_timestamp();
  select * into now from app.payment_of(r, is_expired);
  if (r.status, r.received, r.pending, r.late, r.txid, r.paid_at, r.expired_at is not null)
    is not distinct from (now.status, now.received, now.pending, now.late, now.txid, now.paid_at, is_expired) then return; end if;
  update app.payment_request p set status = now.status, received = now.received, pending = now.pending, late = now.late, txid = now.txid,
    paid_at = now.paid_at, expired_at = case when is_expired then coalesce(p.expired_at, clock_timestamp()) end,
    position = case when now.status not in ('paid', 'underpaid') then null
      when (p.status, p.received, p.late, p.txid, p.paid_at) is distinct from (now.status, now.received, now.late, now.txid, now.paid_at) then nextval('app.payment_position')
      else p.position end
  where p.id = of_request;
end $$;

-- Once for each request at the end of a transaction, because it costs as much as there are receipts: who sends ten thousand of them in one
-- block would else have them added up ten thousand times.
create unlogged table app.touched_payment (txn xid8 not null, payment_request_id uuid not null, primary key (txn, payment_request_id));
comment on table app.touched_payment is 'Payment requests whose receipts a running transaction changed; each row brings one up to date at COMMIT. Empty between transactions.';
comment on column app.touched_payment.txn is 'The transaction.';
comment on column app.touched_payment.payment_request_id is 'The payment request.';

-- Only what is a receipt counts: what an operator credited on another chain would let that chain lock requests, in an order of its own.
create function app.note_receipt() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
begin
  insert into app.touched_payment select pg_current_xact_id(), r.id from app.payment_request r
  where r.id = new.payment_request_id and (r.chain, r.token) = (new.chain, new.token) on conflict do nothing;
  return null;
end $$;
create trigger note_receipt after insert on app.deposit for each row
  when (new.credited and new.payment_request_id is not null) execute function app.note_receipt();
create trigger note_receipt_change after update of status, amount, credited, block_hash on app.deposit for each row
  when (new.credited and new.payment_request_id is not null
    and (old.status, old.amount, old.credited, old.came_at) is distinct from (new.status, new.amount, new.credited, new.came_at))
  execute function app.note_receipt();

create function app.refresh_touched_payment() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
begin
  delete from app.touched_payment where txn = new.txn and payment_request_id = new.payment_request_id;
  perform app.refresh_payment(new.payment_request_id);
  return null;
end $$;
create constraint trigger refresh after insert on app.touched_payment deferrable initially deferred
  for each row execute function app.refresh_touched_payment();

-- Requests whose time is over, each once. Safe to run at any time and in several places: what somebody else is at is skipped.
create function app.expire_payment_requests(batch int default 100) returns int
language plpgsql security definer set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
declare
  due uuid;
  expired int := 0;
begin
  for due in
    select p.id from app.payment_request p
    where p.expires_at <= clock_timestamp() and p.expired_at is null and p.status in ('awaiting', 'detected')
    order by p.expires_at limit batch for no key update skip locked
  loop
    perform app.refresh_payment(due);
    expired := expired + 1;
  end loop;
  return expired;
end $$;
comment on function app.expire_payment_requests is 'Judges payment requests that have expired; returns how many. Safe to run at any time and in several places.';

-- Addresses -------------------------------------------------------------------------------------------------------------------------------

-- The oldest free address of a family: the merchant's for ever.
create function app.draw_address(of_merchant uuid, of_family text) returns text
language plpgsql set search_path = pg_catalog as $$
declare drawn text;
begin
  update custody.address p set taken_at = clock_timestamp(), merchant_id = of_merchant
  where p.address = (
    select f.address from custody.address f
    where f.family = of_family and f.purpose = 'deposit' and f.taken_at is null and f.retired_at is null
    order by f.derivation_index limit 1 for update skip locked)
  returning p.address into drawn;
  if drawn is null then raise exception 'no free % address in the pool', of_family using errcode = 'SL503'; end if;
  return drawn;
end $$;

-- As in 009_custody.sql, but for app.draw_address.
create or replace function app.take_address(of_merchant uuid, of_user uuid, of_family text) returns void
language plpgsql set search_path = pg_catalog as $$
declare taken text;
begin
  select a.address into taken from app.address a join app.chain c using (chain) where a.user_id = of_user and c.family = of_family limit 1;
  taken := coalesce(taken, app.draw_address(of_merchant, of_family));
  insert into app.address (chain, match_key, address, user_id, merchant_id, is_provisioned)
  select c.chain, case of_family when 'evm' then lower(taken) else taken end, taken, of_user, of_merchant, false
  from app.chain c where c.family = of_family
  on conflict do nothing;
end $$;

-- The address of a request is watched on every chain of its family, and credited on one.
create function app.take_payment_address(r app.payment_request) returns void
language plpgsql set search_path = pg_catalog as $$
declare
  of_family text := (select c.family from app.chain c where c.chain = r.chain);
  taken text := app.draw_address(r.merchant_id, of_family);
begin
  insert into app.address (chain, match_key, address, payment_request_id, merchant_id, is_provisioned)
  select c.chain, case of_family when 'evm' then lower(taken) else taken end, taken, r.id, r.merchant_id, c.chain = r.chain
  from app.chain c where c.family = of_family;
end $$;

-- The API -----------------------------------------------------------------------------------------------------------------------------------

create function app.confirmations(of_chain text, of_height int) returns int
language sql stable set search_path = pg_catalog as $$
  select case when of_height is null then 0 else greatest(0, c.head_height - of_height + 1) end from chain.cursor c where c.chain = of_chain
$$;

-- A request as its merchant made it, and as it stands. The API adds the payment URI, for which it is told the parts, and the page's URL.
create type app.payment_answer as (body text, chain text, token text, address text, amount text);

create function app.created_payment_request(of_request uuid) returns app.payment_answer
language sql stable set search_path = pg_catalog as $$
  select row_to_json(b)::text, r.chain, r.token, w.address, r.amount::text
  from app.payment_request r
  join app.asset a on a.chain = r.chain and a.token = r.token
  join app.address w on w.payment_request_id = r.id and w.chain = r.chain
  cross join lateral (
    select r.external_id, a.name as currency, w.address, app.decimal(r.amount, a.decimals) as amount, app.iso(r.expires_at) as expires_at, r.page_token
  ) b
  where r.id = of_request
$$;

-- of_amount is a plain decimal; of_request the hash of what is asked for, where there is a key. Errors: those of 007_api.sql, SLIDK, and
-- SLPFX the reference has not the merchant's prefix; SL409 there is a request with this reference; SLINV a value cannot be (DETAIL names it).
create function app.create_payment_request(of_merchant uuid, of_currency text, of_external_id text, of_amount text, of_expiry interval, of_key text,
  of_request bytea) returns app.payment_answer
language plpgsql security definer set search_path = pg_catalog as $$
declare
  twin app.payment_request;
  asset app.asset;
  prefix text := (select m.prefix || '-' from app.merchant m where m.id = of_merchant);
  coins numeric := of_amount::numeric;
  r app.payment_request;
begin
  select * into twin from app.payment_request p where p.merchant_id = of_merchant and p.idempotency_key = of_key;
  if twin.id is null then
    select * into asset from app.asset a where a.name = of_currency;
    if asset.name is null then
      raise exception 'there is no currency with this name; GET /v1/crypto lists those that there are' using errcode = 'SL404', detail = 'currency';
    elsif not starts_with(of_external_id, prefix) or of_external_id = prefix then
      raise exception 'external_id must begin with % and go on with a reference of your own', prefix using errcode = 'SLPFX';
    elsif scale(coins) > asset.decimals then
      raise exception '% has at most % decimals', of_currency, asset.decimals using errcode = 'SLINV', detail = 'amount';
    elsif coins <= 0 then
      raise exception 'must be more than zero' using errcode = 'SLINV', detail = 'amount';
    elsif coins * 10::numeric ^ asset.decimals >= 10::numeric ^ 77 then
      raise exception 'is more than a chain can hold' using errcode = 'SLINV', detail = 'amount';
    elsif not exists (select from app.merchant_chain m where m.merchant_id = of_merchant and m.chain = asset.chain and m.enabled) then
      raise exception 'not enabled for this account: %', asset.chain using errcode = 'SLCHN';
    end if;
    insert into app.payment_request as p (merchant_id, external_id, chain, token, amount, page_token, idempotency_key, request_hash, expires_at)
    values (of_merchant, of_external_id, asset.chain, asset.token, coins * 10::numeric ^ asset.decimals,
      translate(substr(app.new_webhook_secret(), 7), '+/', '-_'), of_key, case when of_key is not null then of_request end, clock_timestamp() + of_expiry)
    on conflict do nothing returning * into r; -- waits for a twin that is being made beside this one
    if r.id is null then
      select * into twin from app.payment_request p where p.merchant_id = of_merchant and p.idempotency_key = of_key;
    end if;
  end if;
  if r.id is not null then
    perform app.take_payment_address(r);
  elsif twin.id is null then
    raise exception 'there is a payment request with this external_id; GET /v1/payment-requests/<external_id> shows it' using errcode = 'SL409';
  elsif twin.request_hash <> of_request then
    raise exception 'this Idempotency-Key was used with another request' using errcode = 'SLIDK';
  end if;
  return app.created_payment_request(coalesce(r.id, twin.id));
end $$;
comment on function app.create_payment_request is 'Makes the payment request with this reference, and gives it an address; with the Idempotency-Key of an earlier call, answers what that was answered.';

create function app.find_payment_request(of_merchant uuid, of_external_id text) returns setof app.payment_answer
language sql stable security definer set search_path = pg_catalog as $$
  select row_to_json(b)::text, r.chain, r.token, w.address, r.amount::text
  from app.payment_request r
  join app.asset a on a.chain = r.chain and a.token = r.token
  join app.address w on w.payment_request_id = r.id and w.chain = r.chain
  cross join lateral (
    select r.external_id, a.name as currency, w.address, app.decimal(r.amount, a.decimals) as amount, r.status,
      app.decimal(r.received, a.decimals) as amount_received, app.decimal(r.pending, a.decimals) as amount_pending, r.late, r.txid,
      app.iso(r.paid_at) as paid_at, app.iso(r.created_at) as created_at, app.iso(r.expires_at) as expires_at, r.page_token,
      (select coalesce(json_agg(row_to_json(i) order by c.seq), '[]') from app.receipt c cross join lateral (
        select c.txid, c.output_index, app.decimal(c.amount, a.decimals) as amount, c.status,
          app.confirmations(r.chain, c.block_height) as confirmations, c.late,
          app.public_id('pay', c.settlement_id) as settlement_id, app.iso(c.created_at) as created_at) i
        where c.payment_request_id = r.id) as receipts
  ) b
  where r.merchant_id = of_merchant and r.external_id = of_external_id
$$;
comment on function app.find_payment_request is 'A merchant''s payment request as it stands, with its receipts.';

-- The confirmations are those of the youngest receipt that is pending; null where none is.
create function app.payment_page(of_page_token text) returns setof app.payment_answer
language sql stable security definer set search_path = pg_catalog as $$
  select row_to_json(b)::text, r.chain, r.token, w.address, r.amount::text
  from app.payment_request r
  join app.asset a on a.chain = r.chain and a.token = r.token
  join app.merchant m on m.id = r.merchant_id
  join app.address w on w.payment_request_id = r.id and w.chain = r.chain
  cross join lateral (
    select r.chain, a.token, a.display_name, m.name as merchant_name, w.address, app.decimal(r.amount, a.decimals) as amount, r.status,
      app.decimal(r.received, a.decimals) as amount_received, app.decimal(r.pending, a.decimals) as amount_pending,
      app.decimal(greatest(r.amount - r.received - r.pending, 0), a.decimals) as amount_missing,
      (select min(app.confirmations(r.chain, c.block_height)) from app.receipt c where c.payment_request_id = r.id and c.status = 'pending')
        as confirmations,
      r.late, r.txid, app.iso(r.expires_at) as expires_at
  ) b
  where r.page_token = of_page_token
$$;
comment on function app.payment_page is 'What the page of a payment request shows to whoever knows its token.';

-- A treasury is what has no merchant -------------------------------------------------------------------------------------------------------------
-- Each of these is as it was, but that it asks for a merchant where it asked for a user.

-- 010_ledger.sql.
create or replace function app.post_final_deposits(of_chain text, ids uuid[], of_promotion bigint) returns void
language plpgsql set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
declare posting bigint := nextval('app.ledger_posting');
begin
  with part as materialized (
    select case when d.merchant_id is null then 'top_up' else 'deposit' end as kind,
      case when d.merchant_id is null then 'treasury' else 'address' end as debited,
      case when d.merchant_id is null then 'operator' when d.credited then 'merchant' else 'unattributed' end as owed_to,
      case when d.credited then d.merchant_id end as merchant_id, case when d.merchant_id is not null then d.address end as address, d.token,
      sum(d.amount) as amount
    from unnest(ids) as i (id) join app.deposit d on d.id = i.id join app.asset a on a.chain = of_chain and a.token = d.token
    group by 1, 2, 3, 4, 5, 6
  ), held as (
    insert into app.holding as h (chain, address, token, merchant_id, amount)
    select of_chain, address, token, merchant_id, amount from part where owed_to = 'merchant' order by address, token
    on conflict (chain, address, token) do update set amount = h.amount + excluded.amount
  ), topped_up as (
    insert into app.treasury as t (chain, token, balance)
    select of_chain, token, amount from part where owed_to = 'operator' order by token
    on conflict (chain, token) do update set balance = t.balance + excluded.balance
  )
  insert into app.ledger_entry (posting, kind, reference, account, chain, token, merchant_id, address, amount)
  select posting, kind, 'promotion:' || of_chain || ':' || of_promotion, debited, of_chain, token, merchant_id, address, amount from part
  union all
  select posting, kind, 'promotion:' || of_chain || ':' || of_promotion, owed_to, of_chain, token, merchant_id, null, -sum(amount)
  from part group by kind, owed_to, token, merchant_id;
end $$;

-- 015_unmined.sql, and besides: what arrives at the address of a payment request belongs to the request, and is credited in its token alone.
create or replace function chain.settle_transfers(of_chain text) returns void
language plpgsql set search_path = pg_catalog
set plan_cache_mode = force_custom_plan set random_page_cost = 1.1 as $$
declare
  keys text[];
  ids uuid[];
  types text[];
  versions int[];
  tokens text[];
  amounts numeric[];
begin
  with gone as (delete from chain.touched where txn = pg_current_xact_id() and chain = of_chain returning id)
  select array_agg(distinct id) into keys from gone;
  if keys is null then return; end if;

  with key as (
    select id, split_part(id, ':', 2) as txid, split_part(id, ':', 3)::int as output_index from unnest(keys) as k (id)
  ), deposit as (
    select key.id as transfer_id, d.*
    from key cross join lateral (
      select * from app.deposit d where d.txid = key.txid and d.output_index = key.output_index and d.chain = of_chain offset 0
    ) d
  ), transfer as (
    select t.id, t.txid, t.output_index, t.recipient, t.sender, t.token, t.amount, t.block_height, t.block_hash
    from key cross join lateral (select * from chain.transfer t where t.id = key.id offset 0) t
    union all
    select u.id, u.txid, u.output_index, u.recipient, u.sender, u.token, u.amount, null, null
    from key cross join lateral (select * from chain.unmined u where u.id = key.id offset 0) u
    where not exists (select from chain.transfer t where t.id = key.id)
  ), net as (
    select d.id as deposit_id, d.status, d.credited, d.version, t.id is not null and (t.block_hash is not null or d.status is distinct from 'final') as alive, d.transfer_id,
      d.amount is distinct from t.amount as changed,
      (d.block_height, d.block_hash) is distinct from (t.block_height, t.block_hash) as moved,
      d.amount as old_amount, t.txid, t.output_index, t.recipient, t.sender,
      coalesce(t.token, d.token) as token, coalesce(t.amount, d.amount) as amount,
      case when t.id is null then d.block_height else t.block_height end as block_height,
      case when t.id is null then d.block_hash else t.block_hash end as block_hash, t.id as live_id
    from deposit d full join transfer t on t.id = d.transfer_id and t.recipient = d.address and t.token = d.token
  ), held_back as ( -- something else is paid at a position that holds a final deposit: nobody is credited until an operator decides
    select n.* from net n
    where n.alive and (n.deposit_id is null or n.status = 'reorged')
      and exists (select from deposit d where d.transfer_id = n.live_id and d.status = 'final')
  ), created as (
    insert into app.deposit (chain, txid, output_index, address, merchant_id, user_id, payment_request_id, token, amount, sender, block_height,
      block_hash, status, credited, version)
    select of_chain, n.txid, n.output_index, a.address, a.merchant_id, a.user_id, a.payment_request_id, n.token, n.amount, n.sender, n.block_height,
      n.block_hash, 'pending', a.is_provisioned and s.token is not null
        and coalesce((select r.token from app.payment_request r where r.id = a.payment_request_id) = n.token, true), 1
    from net n
    cross join lateral (
      select * from app.address a
      where a.chain = of_chain and a.match_key in (n.recipient, lower(n.recipient)) and a.address = n.recipient offset 0
    ) a
    left join app.asset s on s.chain = of_chain and s.token = n.token
    where n.deposit_id is null and not exists (select from held_back h where h.live_id = n.live_id)
      and not (a.merchant_id is null and (exists (select from app.outbound_tx o where o.chain = of_chain and o.txid = n.txid)
        or exists (select from custody.address own where own.address = n.sender)))
    order by n.block_height, n.txid, n.output_index
    returning id, credited, version, block_height, txid, output_index, token, amount, amount as old_amount,
      array['deposit.pending'] as steps
  ), step as (
    select *, case
        when alive and status = 'reorged' then array['deposit.pending']
        when alive and status = 'pending' and changed then array['deposit.reorged', 'deposit.pending']
        when not alive and status = 'pending' then array['deposit.reorged']
        else '{}' end as steps
    from net n
    where deposit_id is not null and status <> 'final' and not exists (select from held_back h where h.deposit_id = n.deposit_id)
  ), updated as (
    update app.deposit d set
      status = case when s.alive then 'pending' else 'reorged' end, version = d.version + cardinality(s.steps),
      amount = s.amount, sender = coalesce(s.sender, d.sender), block_height = s.block_height, block_hash = s.block_hash
    from step s where d.id = s.deposit_id and (s.steps <> '{}' or (s.alive and s.moved))
    returning d.id, d.credited, d.version, d.block_height, d.txid, d.output_index, d.token, d.amount, s.old_amount, s.steps
  ), healed as (
    update app.incident i set resolved_at = clock_timestamp(), resolution = 'healed'
    from net n
    where n.status = 'final' and n.alive and not n.changed and not n.moved
      and i.subject = n.deposit_id::text and i.resolved_at is null and i.kind = 'final_deposit_vanished'
  ), alarmed as (
    insert into app.incident (chain, kind, subject, details)
    select of_chain, 'final_deposit_' || case when not alive then 'vanished' when changed then 'changed' else 'moved' end, deposit_id::text,
      jsonb_build_object('transfer', transfer_id, 'token', token, 'amount', amount::text, 'block_height', block_height, 'block_hash', block_hash)
    from net where status = 'final' and (not alive or changed or moved)
    union all
    select of_chain, 'payment_replaced', live_id,
      jsonb_build_object('transfer', live_id, 'token', token, 'amount', amount::text, 'block_height', block_height, 'block_hash', block_hash)
    from held_back
    on conflict do nothing
  ), emitted as (
    select x.id, e.type, x.version - cardinality(x.steps) + e.n::int as version,
      x.token, case when e.type = 'deposit.reorged' then x.old_amount else x.amount end as amount,
      row_number() over (order by e.type = 'deposit.pending', x.block_height, x.txid, x.output_index) as n
    from (select * from updated union all select * from created) x cross join unnest(x.steps) with ordinality as e (type, n)
    where x.credited
  )
  select array_agg(id order by n), array_agg(type order by n), array_agg(version order by n), array_agg(token order by n), array_agg(amount order by n)
  into ids, types, versions, tokens, amounts from emitted;
  perform app.emit_deposit_events(ids, types, versions, tokens, amounts);
end $$;

-- 016_outputs.sql.
create or replace function app.add_outputs(of_chain text, final_height int) returns void
language plpgsql set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
begin
  insert into app.output (chain, txid, vout, address, merchant_id, amount, mature_at)
  select d.chain, d.txid, d.output_index, d.address, case when d.credited then d.merchant_id end, d.amount,
    case when d.sender = 'coinbase' then d.block_height + 100 end
  from app.deposit d
  where d.chain = of_chain and d.status = 'pending' and d.block_height <= final_height and (d.credited or d.merchant_id is null)
  on conflict do nothing;
  perform app.settle_bumps(of_chain, final_height); -- 018_bump.sql
  delete from chain.unmined u using chain.transfer t where u.chain = of_chain and t.id = u.id and t.block_height <= final_height;
  if exists (select from app.spend s where s.chain = of_chain and s.recovered and s.status <> 'final') then
    perform custody.reserve_recovered(of_chain);
  end if;
end $$;

create or replace function app.take_back(of_deposit uuid) returns void
language plpgsql set search_path = pg_catalog as $$
declare
  deposit app.deposit;
  account text;
begin
  select * into deposit from app.deposit d where d.id = of_deposit;
  if app.fail_payout(deposit.settlement_id, 'deposit_reorged', 'a deposit that it claimed was lost in a reorganisation') then
    perform app.stamp_all_deposits(deposit.merchant_id, deposit.chain, deposit.token);
  end if;
  perform set_config('app.decided_by_operator', 'on', true);
  update app.deposit d set status = 'reorged', version = d.version + 1, finalised_at = null, promotion = null
  where d.id = of_deposit and d.status = 'final' returning * into strict deposit;
  perform set_config('app.decided_by_operator', '', true);
  if not exists (select from app.asset a where a.chain = deposit.chain and a.token = deposit.token) then return; end if;
  account := case when deposit.merchant_id is null then 'operator' when deposit.credited then 'merchant' else 'unattributed' end;
  perform app.post('reorg', deposit.id::text, deposit.chain, jsonb_build_array(
    jsonb_build_object('account', case when account = 'operator' then 'treasury' else 'address' end, 'token', deposit.token,
      'merchant_id', case when deposit.credited then deposit.merchant_id end,
      'address', case when account <> 'operator' then deposit.address end, 'amount', -deposit.amount),
    jsonb_build_object('account', account, 'token', deposit.token, 'merchant_id', case when deposit.credited then deposit.merchant_id end,
      'amount', deposit.amount)));
  if account = 'operator' then perform app.add_treasury(deposit.chain, deposit.token, -deposit.amount, 0); end if;
  delete from app.output u where u.chain = deposit.chain and u.txid = deposit.txid and u.vout = deposit.output_index and u.spend_id is null;
  if not deposit.credited then return; end if;
  update app.holding h set amount = h.amount - deposit.amount
  where h.chain = deposit.chain and h.address = deposit.address and h.token = deposit.token;
  if deposit.settlement_id is null then
    insert into app.balance_delta (merchant_id, chain, token, amount, deposit_count)
    values (deposit.merchant_id, deposit.chain, deposit.token, -deposit.amount, -1);
  else
    perform app.adjust(deposit, -deposit.amount, 'deposit_lost');
  end if;
  perform app.emit_deposit_events(array[deposit.id], array['deposit.reorged'], array[deposit.version], array[deposit.token], array[deposit.amount]);
end $$;

-- 018_bump.sql.
create or replace function app.begin_output_bump(of_chain text, inputs text[], network_fee numeric, parent_vsize int) returns uuid
language plpgsql security definer set search_path = pg_catalog as $$
declare
  token text := app.native_token(of_chain);
  found_outputs record;
  funds numeric;
  spend uuid;
  lead text := inputs[1];
begin
  perform from chain.cursor c where c.chain = of_chain for update; -- what is unmined stays so
  perform app.lock_treasury(of_chain);
  select count(*) as count, count(distinct u.txid) as parents, count(distinct coalesce(d.merchant_id::text, 'treasury')) as owners,
    sum(u.amount) as total, min(u.txid) as txid, (array_agg(d.merchant_id))[1] as merchant_id
  into found_outputs
  from (select distinct of_chain || ':' || i as id from unnest(inputs) i) k
  join chain.unmined u on u.id = k.id and u.token = app.native_token(of_chain)
  join app.deposit d on d.chain = u.chain and d.txid = u.txid and d.output_index = u.output_index and d.address = u.recipient
    and d.status = 'pending' and d.block_height is null and (d.credited or d.merchant_id is null);
  if found_outputs.count is distinct from cardinality(inputs) or found_outputs.parents <> 1 or found_outputs.owners <> 1 then
    raise exception 'these are not unmined outputs of one transaction, to addresses of one merchant or the treasury' using errcode = 'SL422';
  end if;
  if exists (select from app.spend s where s.chain = of_chain and s.sender = any(inputs)) or exists (
    select from app.bump b join app.spend s on s.id = b.spend_id where s.chain = of_chain and s.status <> 'final' and b.outputs && inputs) then
    raise exception 'these outputs are spent by a child of ours already, which pays more by itself as time goes by' using errcode = 'SL422';
  end if;
  if found_outputs.total <= network_fee then
    raise exception 'these outputs hold no more than the network fee' using errcode = 'SL422';
  end if;
  funds := app.operator_funds(of_chain, token);
  if funds < network_fee then
    raise exception 'the operator''s own money is not enough: % short by % base units', token, network_fee - funds using errcode = 'SL422';
  end if;
  perform app.reserve(of_chain, token, network_fee);
  insert into app.spend as s (kind, chain, token, amount, source, recipient, sender, nonce, merchant_id, max_fee)
  values ('sweep', of_chain, token, found_outputs.total - network_fee, lead, app.treasury_address(of_chain), lead, 0, found_outputs.merchant_id,
    network_fee)
  returning s.id into spend;
  insert into app.bump (spend_id, txid, outputs, parent_inputs, parent_vsize)
  select spend, u.txid, begin_output_bump.inputs, u.inputs, begin_output_bump.parent_vsize
  from chain.unmined u where u.id = of_chain || ':' || lead;
  perform app.wake_spends(of_chain);
  return spend;
end $$;

-- 020_audit.sql; receipts have no events.
create or replace view audit.transfers_are_deposits as
select t.id, t.recipient, t.token, t.amount, t.block_height from chain.transfer t
join app.address a on a.chain = t.chain and a.address = t.recipient
where not exists (select from app.deposit d where d.txid = t.txid and d.output_index = t.output_index and d.chain = t.chain
    and d.address = t.recipient and d.token = t.token and d.status <> 'reorged')
  and not (a.merchant_id is null and (exists (select from app.outbound_tx o where o.chain = t.chain and o.txid = t.txid)
    or exists (select from custody.address own where own.address = t.sender)))
  and not exists (select from app.known_incident k where k.subject = t.id and k.kind = 'payment_replaced');

create or replace view audit.events as
select d.id, d.version as expected, count(e.id) as found from app.deposit d
left join app.event e on e.subject_id = d.id and e.type like 'deposit.%'
group by d.id
having case when not d.credited or d.payment_request_id is not null then count(e.id) > 0
  -- Of what an operator credited afterwards, the first event is that it counts.
  else count(e.id) <> d.version - min(e.version) + 1 or max(e.version) <> d.version or not (min(e.version) = 1 or min(e.version) > 2) or count(e.id) = 0 end
union all
select p.id, (p.status in ('completed', 'failed'))::int, count(e.id) from app.payout p
left join app.event e on e.subject_id = p.id and e.type like 'payout.%'
group by p.id having count(e.id) <> (p.status in ('completed', 'failed'))::int
  or count(e.id) filter (where e.type <> 'payout.' || p.status) > 0;

create or replace function app.audit_outputs(of_chain text) returns table (address text, outpoint text, amount numeric, is_leaving boolean)
language sql stable security definer set search_path = pg_catalog as $$
  select u.address, u.txid || ':' || u.vout, u.amount, u.spend_id is not null or exists (
    select from chain.inclusion i where i.chain = u.chain and i.sender = u.txid || ':' || u.vout)
  from app.output u where u.chain = of_chain and u.spent_by is null
  union all -- not ours to spend
  select d.address, d.txid || ':' || d.output_index, d.amount, false from app.deposit d
  where d.chain = of_chain and d.status = 'final' and not d.credited and d.merchant_id is not null
  union all -- what has nothing unspent is looked at, too
  select ours.address, null, null, null from (
    select d.address from app.deposit d where d.chain = of_chain union select app.treasury_address(of_chain) where app.treasury_address(of_chain) is not null
  ) ours
$$;

-- 021_metrics.sql.
create or replace function app.chain_metrics() returns table (metric text, labels json, value double precision)
language plpgsql stable set search_path = pg_catalog as $$
begin
  return query
    select m.metric, json_build_object('chain', c.chain), m.value from chain.cursor c cross join lateral (values
      ('sluice_chain_head_height', c.head_height::double precision),
      ('sluice_chain_final_height', c.final_height::double precision),
      ('sluice_chain_head_age_seconds', extract(epoch from clock_timestamp() - c.head_time)),
      ('sluice_chain_head_moved_age_seconds', extract(epoch from clock_timestamp() - c.head_moved_at)),
      ('sluice_chain_final_moved_age_seconds', extract(epoch from clock_timestamp() - c.final_moved_at)),
      ('sluice_chain_last_reorg_depth_blocks', c.last_reorg_depth::double precision),
      ('sluice_chain_last_reorg_age_seconds', extract(epoch from clock_timestamp() - c.last_reorg_at)),
      ('sluice_chain_halted', (c.halted_at is not null)::int::double precision)) m (metric, value)
    where m.value is not null
    union all
    select 'sluice_deposits_pending', json_build_object('chain', c.chain), n.count from chain.cursor c
    cross join lateral (select count(*) from app.deposit d where d.chain = c.chain and d.status = 'pending') n
    union all
    select 'sluice_unattributed_deposits', json_build_object('chain', c.chain), n.count from chain.cursor c
    cross join lateral (select count(*) from app.deposit d
      where d.chain = c.chain and d.status = 'final' and not d.credited and d.merchant_id is not null
        and not exists (select from app.unattributed_decision u where u.deposit_id = d.id)) n
    union all
    select 'sluice_incidents_open', json_build_object('chain', coalesce(c.chain, 'none')), count(i.id)
    from (select chain from chain.cursor union all select null) c
    left join app.incident i on i.chain is not distinct from c.chain and i.resolved_at is null group by c.chain;
end $$;

-- 022_unattributed.sql.
create or replace function app.lock_unattributed(of_deposit uuid) returns app.deposit
language plpgsql set search_path = pg_catalog as $$
declare
  d app.deposit;
  name text := app.public_id('dep', of_deposit);
  incident bigint;
begin
  perform from chain.cursor c where c.chain = (select o.chain from app.deposit o where o.id = of_deposit) for update;
  select * into d from app.deposit o where o.id = of_deposit for update;
  if d.id is null then raise exception 'there is no deposit %; sluice unattributed list shows what is unattributed', name using errcode = 'SL404'; end if;
  if d.credited then raise exception '% is credited to its merchant already', name using errcode = 'SL422'; end if;
  perform from app.asset a where a.chain = d.chain and a.token = d.token;
  if not found then
    raise exception '% is of a token that Sluice does not support: it can be neither credited nor moved', name using errcode = 'SL422';
  end if;
  if d.merchant_id is null then
    raise exception '% reached the treasury and is your own money; sluice treasury withdraw sends it on', name using errcode = 'SL422';
  end if;
  if d.status <> 'final' then
    raise exception '% is %; only what is final can be decided about', name, d.status using errcode = 'SL422';
  end if;
  incident := (select min(i.id) from app.incident i where i.subject = d.id::text and i.resolved_at is null);
  if incident is not null then
    raise exception 'incident % is about %; resolve it first (sluice incident list)', incident, name using errcode = 'SL422';
  end if;
  return d;
end $$;

create or replace function app.adopt_spend() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
begin
  perform app.adopt_return(d, new) from app.deposit d
  where d.chain = new.chain and not d.credited and d.merchant_id is not null and d.token = new.token
    and (new.kind = 'withdrawal' or d.address = new.source) and new.id in (select i.id from app.return_spend_ids(d, new.kind) i);
  return null;
end $$;
create or replace trigger withhold_returned before insert on app.deposit for each row
  when (new.credited and new.merchant_id is not null) execute function app.withhold_returned();
create or replace trigger adopt_return after insert on app.deposit for each row
  when (not new.credited and new.merchant_id is not null) execute function app.adopt_deposit();

create or replace view app.ledger_audit as
with entry as (
  select account, kind, chain, token, merchant_id, address, sum(amount) as amount from app.ledger_entry
  group by account, kind, chain, token, merchant_id, address
), compared (what, chain, token, merchant_id, address, kept, posted) as (
  select 'holding', chain, token, merchant_id, address, sum(kept), sum(posted) from (
    select chain, token, merchant_id, address, amount as kept, 0 as posted from app.holding
    union all
    select chain, token, merchant_id, address, 0, amount from entry where account = 'address' and merchant_id is not null
  ) h group by chain, token, merchant_id, address
  union all
  select 'treasury', chain, token, null, null, sum(kept), sum(posted) from (
    select chain, token, balance as kept, 0 as posted from app.treasury
    union all select chain, token, 0, amount from entry where account = 'treasury'
  ) t group by chain, token
  union all
  select 'treasury_share', chain, token, merchant_id, null, sum(kept), sum(posted) from (
    select chain, token, merchant_id, amount as kept, 0 as posted from app.treasury_share
    union all
    select chain, token, merchant_id, 0, case when kind = 'sweep' then amount else -amount end from entry
    where (kind = 'sweep' and account = 'treasury') or (kind = 'network_fee' and account = 'address') or (kind = 'payout' and account = 'payout')
  ) s group by chain, token, merchant_id
  union all
  select 'treasury_reserved', chain, token, null, null, sum(kept), sum(posted) from (
    select chain, token, reserved as kept, 0 as posted from app.treasury
    union all
    select s.chain, s.token, 0, s.amount - s.swept_in from app.spend s left join app.payout p on p.id = s.payout_id
    where s.status <> 'final' and (s.kind = 'withdrawal' or (s.kind = 'payout' and p.status in ('swept', 'paying')))
    union all
    select s.chain, app.native_token(s.chain), 0, s.max_fee from app.spend s
    where s.status <> 'final' and (s.sender = app.treasury_address(s.chain) or app.uses_outputs(s.chain))
    union all
    select s.chain, s.token, 0, u.amount from app.unattributed_decision u join app.spend s on s.id = u.sweep_id where app.is_held(u)
  ) r group by chain, token
  union all
  select 'share_reserved', chain, token, merchant_id, null, sum(kept), sum(posted) from (
    select chain, token, merchant_id, reserved as kept, 0 as posted from app.treasury_share
    union all
    select p.chain, p.token, p.merchant_id, 0, p.gross - s.swept_in from app.payout p join app.spend s on s.payout_id = p.id and s.kind = 'payout'
    where p.status in ('swept', 'paying')
  ) r group by chain, token, merchant_id
  union all
  select 'merchant', chain, token, merchant_id, null, sum(kept), sum(posted) from (
    select chain, token, merchant_id, amount as kept, 0 as posted from app.balance_now
    union all select chain, token, merchant_id, 0, -amount from entry where account = 'merchant'
  ) m group by chain, token, merchant_id
  union all
  select 'payout', chain, token, merchant_id, null, sum(kept), sum(posted) from (
    select chain, token, merchant_id, gross as kept, 0 as posted from app.payout where status not in ('completed', 'failed')
    union all select chain, token, merchant_id, 0, -amount from entry where account = 'payout'
  ) p group by chain, token, merchant_id
  union all
  select 'output', chain, token, null, address, sum(kept), sum(posted) from (
    select u.chain, app.native_token(u.chain) as token, u.address, u.amount as kept, 0 as posted from app.output u
    where u.spent_by is null and u.merchant_id is not null
    union all
    select h.chain, h.token, h.address, 0, h.amount from app.holding h where app.uses_outputs(h.chain)
    union all
    select u.chain, app.native_token(u.chain), null, u.amount, 0 from app.output u where u.spent_by is null and u.merchant_id is null
    union all
    select t.chain, t.token, null, 0, t.balance from app.treasury t where app.uses_outputs(t.chain)
  ) u group by chain, token, address
  union all
  select 'unattributed', chain, token, null, null, sum(kept), sum(posted) from (
    select d.chain, d.token, d.amount as kept, 0 as posted from app.deposit d join app.asset a on a.chain = d.chain and a.token = d.token
    where not d.credited and d.merchant_id is not null and d.status = 'final'
    union all -- what left it: for its network fees, and to where it was returned
    select chain, token, -amount, 0 from entry where account = 'unattributed' and kind = 'return'
    union all
    select chain, token, 0, -amount from entry where account = 'unattributed'
  ) u group by chain, token
)
select what, chain, token, merchant_id, address, kept, posted from compared where kept <> posted;

-- 024_analytics.sql. Nobody comes back to a payment request.
drop materialized view analytics.customer_cohorts;
create materialized view analytics.customer_cohorts as
with active as (
  select d.merchant_id, d.user_id, date_trunc('month', d.created_at at time zone 'UTC')::date as month, count(*) as deposits
  from app.deposit d where d.credited and d.status = 'final' and d.user_id is not null group by 1, 2, 3
), counted as (
  select a.merchant_id, a.first_month, a.month, count(*) as users, sum(a.deposits)::bigint as deposits
  from (select *, min(month) over (partition by user_id) as first_month from active) a group by 1, 2, 3
)
select
  app.public_id('mer', c.merchant_id) as merchant_id, m.name as merchant_name, m.prefix as merchant_prefix, c.first_month as cohort_month,
  ((extract(year from c.month) - extract(year from c.first_month)) * 12 + extract(month from c.month) - extract(month from c.first_month))::int as months_later,
  first_value(c.users) over (partition by c.merchant_id, c.first_month order by c.month) as cohort_users,
  c.users as active_users, c.deposits as deposit_count
from counted c
join app.merchant m on m.id = c.merchant_id
with no data;
create unique index customer_cohorts_key on analytics.customer_cohorts (merchant_id, cohort_month, months_later);
comment on materialized view analytics.customer_cohorts is 'End users by the month of their first deposit, and how many of them paid again how many months later. Final deposits alone; months without any have no row. As of the moment that analytics.freshness names.';
comment on column analytics.customer_cohorts.merchant_id is 'Id of the merchant.';
comment on column analytics.customer_cohorts.merchant_name is 'Name of the merchant.';
comment on column analytics.customer_cohorts.merchant_prefix is 'The merchant''s account prefix.';
comment on column analytics.customer_cohorts.cohort_month is 'First day of the UTC month in which the users'' first final deposit was seen.';
comment on column analytics.customer_cohorts.months_later is 'How many calendar months after that month the row is about; 0 is the month itself.';
comment on column analytics.customer_cohorts.cohort_users is 'Number of users whose first deposit was in cohort_month.';
comment on column analytics.customer_cohorts.active_users is 'How many of them had a deposit in the month that the row is about.';
comment on column analytics.customer_cohorts.deposit_count is 'Number of deposits of those.';
grant select on analytics.customer_cohorts to sluice_analyst;
update app.analytics_refresh set refreshed_at = null, due_at = '-infinity' where view_name = 'customer_cohorts';

grant select on app.payment_request, app.receipt to sluice_api;
grant execute on function app.create_payment_request, app.find_payment_request, app.payment_page to sluice_api;
grant execute on function app.expire_payment_requests to sluice_jobs;
