-- Spends: transactions of ours on their way into a block, and what follows when one of them is final.
--
-- A spend is the use of one nonce of one address of ours for one purpose: a payout's payment, a sweep, a withdrawal. Its attempts
-- (app.outbound_tx) share the nonce, so at most one of them can ever be mined: the payment or sweep itself, the same with a higher fee, or a
-- cancel that moves nothing. Life of a spend:
--   allocated   a nonce is taken, value and highest fee are reserved; nothing is signed
--   live        an attempt is stored, signed; only now may its bytes be broadcast, again and again
--   final       a transaction with its nonce is final: one of its attempts, whichever it was, or (which no process of ours does) another
--
-- Writers: the worker, through app.begin_* (allocates) and app.store_attempt (stores what custody signed); settling (final). Whoever dies
-- between two of these steps leaves a row that says what is to be done next. Readers: the worker.
--
-- Invariants: nonces of a sender are handed out in order without a gap; an attempt is stored before it is broadcast; a spend is final only
-- by chain.inclusion at or below the final height; per (chain, address, token) there is one sweep that is not final.

create table chain.inclusion (
  id text primary key check (id = chain || ':' || txid),
  chain text not null,
  txid text not null,
  block_height int not null,
  block_hash text not null,
  block_time timestamptz not null,
  sender text not null,
  nonce int not null,
  success boolean not null,
  fee numeric(78, 0) not null
);
create index inclusion_nonce on chain.inclusion (chain, sender, nonce);
create index inclusion_block on chain.inclusion (chain, block_height);
comment on table chain.inclusion is 'Transactions that an address of ours sent, known to us or not, in a block that is on the chain now. A row disappears when its block leaves the chain.';
comment on column chain.inclusion.id is '<chain>:<txid>.';
comment on column chain.inclusion.chain is 'Chain code.';
comment on column chain.inclusion.txid is 'Transaction id.';
comment on column chain.inclusion.block_height is 'Height of the block that holds the transaction.';
comment on column chain.inclusion.block_hash is 'Hash of that block.';
comment on column chain.inclusion.block_time is 'Timestamp of that block.';
comment on column chain.inclusion.sender is 'Our address that sent it.';
comment on column chain.inclusion.nonce is 'Its nonce.';
comment on column chain.inclusion.success is 'True if it had the effect that it was sent for: executed and, for a token, with the Transfer event of our amount, from and to the right addresses.';
comment on column chain.inclusion.fee is 'Network fee that it cost, in the native coin''s base units.';
create index transfer_recipient on chain.transfer (recipient, chain, token) include (block_height, amount);

create table app.sender (
  chain text not null,
  address text not null,
  next_nonce int not null default 0,
  primary key (chain, address)
);
comment on table app.sender is 'The next nonce of each address of ours that ever sent. Never taken from a node.';
comment on column app.sender.chain is 'Chain code.';
comment on column app.sender.address is 'The address.';
comment on column app.sender.next_nonce is 'The nonce that its next spend gets.';

create table app.spend (
  id uuid primary key default uuidv7(),
  kind text not null check (kind in ('payout', 'sweep', 'withdrawal')),
  chain text not null,
  token text not null,
  amount numeric(78, 0) not null check (amount > 0),
  source text not null,
  recipient text not null,
  sender text not null,
  nonce int not null,
  payout_id uuid references app.payout,
  merchant_id uuid,
  status text not null default 'allocated' check (status in ('allocated', 'live', 'final')),
  cancelling boolean not null default false,
  recovered boolean not null default false,
  max_fee numeric(78, 0) not null,
  txid text,
  outcome text check (outcome in ('done', 'reverted', 'cancelled', 'displaced')),
  fee_paid numeric(78, 0),
  waiting_reason text,
  waiting_detail text,
  waiting_since timestamptz,
  next_step_at timestamptz default clock_timestamp(),
  created_at timestamptz not null default clock_timestamp(),
  final_at timestamptz,
  unique (chain, sender, nonce)
);
create unique index spend_one_sweep on app.spend (chain, source, token) where kind = 'sweep' and status <> 'final' and not recovered;
create unique index spend_one_payment on app.spend (payout_id) where kind = 'payout';
create index spend_open on app.spend (chain) where status <> 'final';
create index spend_due on app.spend (chain, next_step_at) where next_step_at is not null;
create index spend_payout on app.spend (payout_id) where payout_id is not null;
comment on table app.spend is 'The use of one nonce of an address of ours: a payout''s payment, a sweep or a withdrawal.';
comment on column app.spend.id is 'Id.';
comment on column app.spend.kind is 'payout, sweep or withdrawal.';
comment on column app.spend.chain is 'Chain code.';
comment on column app.spend.token is 'Token that it moves.';
comment on column app.spend.amount is 'How much, in base units; what an attempt moves may be less for a sweep.';
comment on column app.spend.source is 'Address that the amount is taken from.';
comment on column app.spend.recipient is 'Address that it goes to.';
comment on column app.spend.sender is 'Address that sends the transaction and pays its fee: the source, or the treasury that relays an authorisation of the source.';
comment on column app.spend.nonce is 'The nonce of the sender that it uses.';
comment on column app.spend.payout_id is 'The payout that it pays, or that the sweep was made for.';
comment on column app.spend.merchant_id is 'The merchant that is paid, or whose address is swept.';
comment on column app.spend.status is 'allocated, live or final.';
comment on column app.spend.cancelling is 'True if its nonce is to be used up by a transaction that moves nothing.';
comment on column app.spend.recovered is 'True if it was entered again from custody''s journal (sluice custody reconcile); several of an address may then wait for the chain at once.';
comment on column app.spend.max_fee is 'The highest network fee of any of its attempts; reserved where the treasury pays it.';
comment on column app.spend.txid is 'The transaction that became final with its nonce.';
comment on column app.spend.outcome is 'What that did: done, reverted, cancelled (the attempt that moves nothing), displaced (no attempt of this spend).';
comment on column app.spend.fee_paid is 'What it cost, in the native coin''s base units.';
comment on column app.spend.waiting_reason is 'What it waits for, if its next step could not be taken.';
comment on column app.spend.waiting_detail is 'More about that, for the operator.';
comment on column app.spend.waiting_since is 'Since when.';
comment on column app.spend.next_step_at is 'When it is looked at again; null once it is final, unless its block was taken away by a rewind.';
comment on column app.spend.created_at is 'When the nonce was taken.';
comment on column app.spend.final_at is 'When it became final.';

create table app.payout_sweep (
  payout_id uuid not null references app.payout,
  spend_id uuid not null references app.spend,
  primary key (payout_id, spend_id)
);
create index payout_sweep_spend on app.payout_sweep (spend_id);
comment on table app.payout_sweep is 'The sweeps that a payout waits for, its own and others''.';
comment on column app.payout_sweep.payout_id is 'The payout.';
comment on column app.payout_sweep.spend_id is 'The sweep.';

create table app.outbound_tx (
  chain text not null,
  txid text not null,
  spend_id uuid not null references app.spend,
  attempt int not null,
  kind text not null check (kind in ('effect', 'cancel')),
  raw text not null,
  token text not null,
  source text not null,
  recipient text not null,
  amount numeric(78, 0) not null,
  max_fee_per_gas numeric(78, 0) not null,
  max_priority_fee_per_gas numeric(78, 0) not null,
  gas_limit bigint not null,
  stored_at timestamptz not null default clock_timestamp(),
  broadcast_at timestamptz,
  broadcast_error text,
  primary key (chain, txid),
  unique (spend_id, attempt)
);
comment on table app.outbound_tx is 'Signed transactions, stored before they are broadcast. Those of one spend exclude each other.';
comment on column app.outbound_tx.chain is 'Chain code.';
comment on column app.outbound_tx.txid is 'Transaction id: the hash of raw.';
comment on column app.outbound_tx.spend_id is 'The spend that it is an attempt of.';
comment on column app.outbound_tx.attempt is '1 for the first; each later one offers a higher fee.';
comment on column app.outbound_tx.kind is 'effect: does what the spend is for. cancel: moves nothing.';
comment on column app.outbound_tx.raw is 'The signed bytes, in hex.';
comment on column app.outbound_tx.token is 'Token that it moves.';
comment on column app.outbound_tx.source is 'Address that the amount is taken from.';
comment on column app.outbound_tx.recipient is 'Address that it goes to.';
comment on column app.outbound_tx.amount is 'How much, in base units; 0 for a cancel.';
comment on column app.outbound_tx.max_fee_per_gas is 'Highest price per unit of gas, in wei.';
comment on column app.outbound_tx.max_priority_fee_per_gas is 'Highest tip per unit of gas, in wei.';
comment on column app.outbound_tx.gas_limit is 'Most units of gas that it may use.';
comment on column app.outbound_tx.stored_at is 'When it was stored.';
comment on column app.outbound_tx.broadcast_at is 'When it was last given to a node; null if never.';
comment on column app.outbound_tx.broadcast_error is 'What the node answered then; it proves nothing.';

create function app.wake_spends(of_chain text) returns void
language sql set search_path = pg_catalog as $$
  select app.enqueue('send_transactions', json_build_object('chain', of_chain), 'send:' || of_chain)
$$;

-- Treasury, nonces --------------------------------------------------------------------------------------------------------------------------

create function app.treasury_address(of_chain text) returns text
language sql stable set search_path = pg_catalog as $$
  select t.address from custody.address t join app.chain c using (family) where t.purpose = 'treasury' and c.chain = of_chain
$$;

-- Locks the treasury of a chain, all tokens, in one order.
create function app.lock_treasury(of_chain text) returns void
language plpgsql set search_path = pg_catalog as $$
begin
  insert into app.treasury (chain, token) select a.chain, a.token from app.asset a where a.chain = of_chain on conflict do nothing;
  perform from app.treasury t where t.chain = of_chain order by t.token for update;
end $$;

create function app.reserve(of_chain text, of_token text, more numeric) returns void
language sql set search_path = pg_catalog as $$
  update app.treasury set reserved = reserved + more where chain = of_chain and token = of_token
$$;

create function app.take_nonce(of_chain text, of_sender text) returns int
language sql set search_path = pg_catalog as $$
  insert into app.sender as s (chain, address, next_nonce) values (of_chain, of_sender, 1)
  on conflict (chain, address) do update set next_nonce = s.next_nonce + 1
  returning next_nonce - 1
$$;

-- Steps of a payout, for the worker. Each takes the row lock first and does nothing unless the payout is in the status it is about. --------

create function app.begin_sweeping(of_payout uuid) returns void
language plpgsql security definer set search_path = pg_catalog as $$
begin
  update app.payout p set status = 'sweeping' where p.id = of_payout and p.status = 'pending';
end $$;
comment on function app.begin_sweeping is 'Takes a payout from pending to sweeping. Does nothing in any other status.';

create function app.begin_paying_from_treasury(of_payout uuid) returns void
language plpgsql security definer set search_path = pg_catalog as $$
begin
  perform from app.payout p where p.id = of_payout for update;
  if exists (select from app.payout_sweep l join app.spend s on s.id = l.spend_id where l.payout_id = of_payout and s.status <> 'final')
    or exists (select from app.payout p join app.claim c on c.payout_id = p.id and c.kind = 'claim'
      where p.id = of_payout and p.sweep_first and c.finished_at is null) then
    return;
  end if;
  update app.payout p set status = 'swept' where p.id = of_payout and p.status = 'sweeping';
end $$;
comment on function app.begin_paying_from_treasury is 'Takes a payout from sweeping to swept, once none of the sweeps that it waits for is under way (and, for sweep_first, all its deposits are known).';

-- The operator's own money that would be left after paying `amount` of a token, with this network fee, to a merchant whose claim is `gross`.
create function app.funds_after(of_chain text, of_token text, of_merchant uuid, amount numeric, gross numeric, network_fee numeric) returns numeric
language sql stable set search_path = pg_catalog as $$
  select app.operator_funds(of_chain, of_token) - amount + greatest(share.free, 0) - greatest(share.free - gross, 0)
    - case when app.native_token(of_chain) = of_token then network_fee else 0 end
  from (select coalesce((select s.amount - s.reserved from app.treasury_share s
    where s.chain = of_chain and s.token = of_token and s.merchant_id = of_merchant), 0) as free) share
$$;

-- What is short for that; null if nothing is. The caller holds the treasury's locks where the answer must stay true.
create function app.shortage(of_chain text, of_token text, of_merchant uuid, amount numeric, gross numeric, network_fee numeric) returns text
language sql stable set search_path = pg_catalog as $$
  select case
    when funds < 0 then of_token || ' short by ' || -funds || ' base units'
    when native <> of_token and app.operator_funds(of_chain, native) < network_fee
      then native || ' for the network fee short by ' || network_fee - app.operator_funds(of_chain, native) || ' base units'
  end
  from app.funds_after(of_chain, of_token, of_merchant, amount, gross, network_fee) funds, app.native_token(of_chain) native
$$;

create function app.payout_shortage(of_payout uuid, network_fee numeric) returns text
language sql stable security definer set search_path = pg_catalog as $$
  select app.shortage(p.chain, p.token, p.merchant_id, p.net, p.gross, payout_shortage.network_fee) from app.payout p where p.id = of_payout
$$;
comment on function app.payout_shortage is 'What the treasury lacks for paying a payout now, without anybody else''s money; null if nothing.';

create function app.payout_shortfall(of_payout uuid, network_fee numeric) returns numeric
language sql stable security definer set search_path = pg_catalog as $$
  select greatest(-app.funds_after(p.chain, p.token, p.merchant_id, p.net, p.gross, payout_shortfall.network_fee), 0)
  from app.payout p where p.id = of_payout
$$;
comment on function app.payout_shortfall is 'How much of a payout''s token the treasury lacks for paying it now, in base units: what sweeps of the merchant''s addresses can bring.';

-- Takes the nonce for a payout's payment, and reserves its value and highest network fee, both or neither. Returns what is short, or null
-- when the spend is there (made now or before).
create function app.begin_payment(of_payout uuid, network_fee numeric) returns text
language plpgsql security definer set search_path = pg_catalog as $$
declare
  p app.payout;
  short text;
  treasury text;
begin
  select * into p from app.payout o where o.id = of_payout and o.status = 'swept' for update;
  if p.id is null or exists (select from app.spend s where s.payout_id = p.id and s.kind = 'payout') then return null; end if;
  perform app.lock_treasury(p.chain);
  short := app.shortage(p.chain, p.token, p.merchant_id, p.net, p.gross, network_fee);
  if short is not null then return short; end if;
  treasury := app.treasury_address(p.chain);
  insert into app.treasury_share as s (chain, token, merchant_id, reserved) values (p.chain, p.token, p.merchant_id, p.gross)
  on conflict (chain, token, merchant_id) do update set reserved = s.reserved + excluded.reserved;
  perform app.reserve(p.chain, p.token, p.net);
  perform app.reserve(p.chain, app.native_token(p.chain), network_fee);
  insert into app.spend (kind, chain, token, amount, source, recipient, sender, nonce, payout_id, merchant_id, max_fee)
  values ('payout', p.chain, p.token, p.net, treasury, p.address, treasury, app.take_nonce(p.chain, treasury), p.id, p.merchant_id, network_fee);
  perform app.wake_spends(p.chain);
  return null;
end $$;
comment on function app.begin_payment is 'Takes the nonce of a payout''s payment and reserves its value and highest fee; returns what is short, or null. Safe to run again.';

-- Begins sweeps of addresses of one merchant, at once, for a payout (or for none). The arrays are parallel: amounts is what each moves, at
-- most what the address holds of final money; max_fees what each can cost. An address with a sweep under way is waited for instead. Returns
-- what is short of network fees, if the treasury has to pay them; the sweeps before that were begun.
create function app.begin_sweeps(of_payout uuid, of_chain text, of_token text, addresses text[], amounts numeric[], max_fees numeric[]) returns text
language plpgsql security definer set search_path = pg_catalog as $$
declare
  native text := app.native_token(of_chain);
  treasury text := app.treasury_address(of_chain);
  item record;
  held app.holding;
  sweep uuid;
  funds numeric;
  short text;
begin
  if of_payout is not null then
    perform from app.payout p where p.id = of_payout and p.status = 'sweeping' for update;
    if not found then return null; end if;
  end if;
  perform app.lock_treasury(of_chain);
  funds := app.operator_funds(of_chain, native);
  for item in select * from unnest(addresses, amounts, max_fees) as u (address, amount, max_fee) order by address loop
    sweep := (select s.id from app.spend s
      where s.chain = of_chain and s.source = item.address and s.token = of_token and s.kind = 'sweep' and s.status <> 'final'
      order by s.nonce desc limit 1);
    if sweep is null then
      select * into held from app.holding h where h.chain = of_chain and h.address = item.address and h.token = of_token;
      continue when held.address is null or item.amount <= 0
        or held.amount < item.amount + case when native = of_token then item.max_fee else 0 end;
      if native <> of_token then
        if funds < item.max_fee then
          short := native || ' for sweeping short by ' || item.max_fee - funds || ' base units';
          exit;
        end if;
        funds := funds - item.max_fee;
        perform app.reserve(of_chain, native, item.max_fee);
      end if;
      insert into app.spend as s (kind, chain, token, amount, source, recipient, sender, nonce, payout_id, merchant_id, max_fee)
      select 'sweep', of_chain, of_token, item.amount, item.address, treasury, by_whom, app.take_nonce(of_chain, by_whom), of_payout,
        held.merchant_id, item.max_fee
      from (select case when native = of_token then item.address else treasury end as by_whom) b
      returning s.id into sweep;
    end if;
    if of_payout is not null then
      insert into app.payout_sweep (payout_id, spend_id) values (of_payout, sweep) on conflict do nothing;
    end if;
  end loop;
  perform app.wake_spends(of_chain);
  return short;
end $$;
comment on function app.begin_sweeps is 'Takes nonces for sweeps of addresses to the treasury, or finds those under way; returns what is short of network fees, or null. Safe to run again.';

-- Addresses that can be swept for a payout: its merchant's, largest first. With sweep_first those of the claimed deposits, all of them.
create function app.sweepable(of_payout uuid, at_least numeric, most int) returns table (address text, amount numeric)
language plpgsql stable security definer set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
declare p app.payout := (select o from app.payout o where o.id = of_payout);
begin
  if p.sweep_first then
    return query select h.address, h.amount from app.holding h
      where h.merchant_id = p.merchant_id and h.chain = p.chain and h.token = p.token and h.amount >= at_least and h.amount > 0
        and exists (select from app.deposit d where d.settlement_id = p.id and d.address = h.address)
      order by h.amount desc limit most;
  else
    return query select h.address, h.amount from app.holding h
      where h.merchant_id = p.merchant_id and h.chain = p.chain and h.token = p.token and h.amount >= at_least and h.amount > 0
      order by h.amount desc limit most;
  end if;
end $$;
comment on function app.sweepable is 'Addresses whose final money can be swept for a payout, the largest first.';

-- Sweeps of a payout's addresses that are under way for others (or for nobody) are waited for, too.
create function app.await_sweeps(of_payout uuid) returns void
language sql security definer set search_path = pg_catalog as $$
  insert into app.payout_sweep (payout_id, spend_id)
  select p.id, s.id from app.payout p
  join app.spend s on s.kind = 'sweep' and s.status <> 'final' and s.chain = p.chain and s.token = p.token and s.merchant_id = p.merchant_id
  where p.id = of_payout and p.status = 'sweeping'
    and (not p.sweep_first or exists (select from app.deposit d where d.settlement_id = p.id and d.address = s.source))
  on conflict do nothing
$$;
comment on function app.await_sweeps is 'Has a payout wait for the sweeps of its addresses that are under way for others. Safe to run again.';

create function app.wait_payout(of_payout uuid, reason text, detail text, retry_ms int) returns void
language sql security definer set search_path = pg_catalog as $$
  update app.payout p set waiting_detail = detail, waiting_since = case
      when reason is null then null when p.waiting_reason = reason then p.waiting_since else clock_timestamp() end,
    waiting_reason = reason, next_step_at = clock_timestamp() + retry_ms * interval '1 millisecond'
  where p.id = of_payout and p.status not in ('paying', 'completed', 'failed')
$$;
comment on function app.wait_payout is 'Notes what a payout waits for (null: nothing), and when its next step is tried again.';

-- Fails a payout that has not begun to pay. Nothing of it was broadcast: if a nonce was taken for it, that is used up by a cancel.
create function app.fail_payout(of_payout uuid, code text, message text) returns boolean
language plpgsql security definer set search_path = pg_catalog as $$
declare p app.payout;
begin
  select * into p from app.payout o where o.id = of_payout and o.status in ('pending', 'sweeping', 'swept') for update;
  if p.id is null then return false; end if;
  perform app.lock_treasury(p.chain);
  update app.spend s set cancelling = true, next_step_at = clock_timestamp()
  where s.payout_id = p.id and s.kind = 'payout' and s.status <> 'final';
  if found then
    update app.treasury_share s set reserved = s.reserved - p.gross
    where s.chain = p.chain and s.token = p.token and s.merchant_id = p.merchant_id;
    perform app.reserve(p.chain, p.token, -p.net);
    perform app.wake_spends(p.chain);
  end if;
  perform app.release_payout(p.id, code, message);
  return true;
end $$;
comment on function app.fail_payout is 'Fails a payout that is pending, sweeping or swept, and gives its balance back; false in any other status.';

create function app.cancel_payout(of_merchant uuid, of_payout uuid) returns void
language plpgsql security definer set search_path = pg_catalog as $$
declare p app.payout;
begin
  select * into p from app.payout o where o.id = of_payout and o.merchant_id = of_merchant for update;
  if p.id is null then raise exception 'there is no payout with this id' using errcode = 'SL404', detail = 'payout'; end if;
  if p.status <> 'pending' then
    raise exception 'the payout is % and can no longer be cancelled', p.status using errcode = 'SL422';
  end if;
  perform app.fail_payout(p.id, 'cancelled', 'cancelled by the merchant');
end $$;
comment on function app.cancel_payout is 'A merchant''s wish to cancel a payout, which is granted while it is pending.';

-- Returns what was done: 'failed', or 'cancelling' where the payment is signed already and a cancel has to become final first.
create function app.cancel_payout_by_operator(of_payout uuid) returns text
language plpgsql security definer set search_path = pg_catalog as $$
declare p app.payout;
begin
  select * into p from app.payout o where o.id = of_payout for update;
  if p.id is null then raise exception 'there is no payout with this id' using errcode = 'SL404', detail = 'payout'; end if;
  if p.status in ('completed', 'failed') then raise exception 'the payout is % already', p.status using errcode = 'SL422'; end if;
  if app.fail_payout(p.id, 'cancelled', 'cancelled by the operator') then return 'failed'; end if;
  update app.spend s set cancelling = true, next_step_at = clock_timestamp() where s.payout_id = p.id and s.kind = 'payout' and s.status <> 'final';
  perform app.wake_spends(p.chain);
  return 'cancelling';
end $$;
comment on function app.cancel_payout_by_operator is 'An operator''s decision to cancel a payout: at once before it pays, else by a transaction that uses up its nonce.';

create function app.retry_payout(of_payout uuid) returns void
language plpgsql security definer set search_path = pg_catalog as $$
declare p app.payout;
begin
  update app.payout o set next_step_at = case when o.status <> 'paying' then clock_timestamp() end
  where o.id = of_payout and o.status not in ('completed', 'failed') returning * into p;
  if p.id is null then
    perform from app.payout o where o.id = of_payout;
    if not found then raise exception 'there is no payout with this id' using errcode = 'SL404', detail = 'payout'; end if;
    raise exception 'the payout is over; request a new one' using errcode = 'SL422';
  end if;
  update app.spend s set next_step_at = clock_timestamp() where s.payout_id = p.id and s.status <> 'final';
  perform app.wake_payout(p.id), app.wake_spends(p.chain);
end $$;
comment on function app.retry_payout is 'Wakes a waiting payout and its transactions at once.';

-- A withdrawal of the operator's own money from the treasury; for the command line alone. Custody checks the operator's whitelist.
create function app.begin_withdrawal(of_chain text, of_token text, amount numeric, recipient text, network_fee numeric) returns uuid
language plpgsql security definer set search_path = pg_catalog as $$
declare
  treasury text := app.treasury_address(of_chain);
  short text;
  spend uuid;
begin
  perform app.lock_treasury(of_chain);
  short := app.shortage(of_chain, of_token, null, amount, 0, network_fee);
  if short is not null then raise exception 'the operator''s own money is not enough: %', short using errcode = 'SL422'; end if;
  perform app.reserve(of_chain, of_token, amount);
  perform app.reserve(of_chain, app.native_token(of_chain), network_fee);
  insert into app.spend as s (kind, chain, token, amount, source, recipient, sender, nonce, max_fee)
  values ('withdrawal', of_chain, of_token, begin_withdrawal.amount, treasury, begin_withdrawal.recipient, treasury,
    app.take_nonce(of_chain, treasury), network_fee)
  returning s.id into spend;
  perform app.wake_spends(of_chain);
  return spend;
end $$;
comment on function app.begin_withdrawal is 'Takes a nonce for a withdrawal of the operator''s own money; returns the id of the spend.';

-- Attempts ----------------------------------------------------------------------------------------------------------------------------------

-- Stores what custody signed for a spend, as its next attempt; from its commit on it may be broadcast. The payout of a first payment is
-- paying from here. False if it is too late: the spend is final, was told to cancel meanwhile (an effect is then not wanted any more), has
-- another next attempt, or the treasury cannot pay a higher fee now.
create function app.store_attempt(of_spend uuid, number int, of_kind text, of_txid text, of_raw text, of_amount numeric,
  fee_per_gas numeric, priority_fee_per_gas numeric, gas bigint) returns boolean
language plpgsql security definer set search_path = pg_catalog as $$
declare
  s app.spend;
  native text;
  more numeric;
begin
  select * into s from app.spend x where x.id = of_spend;
  perform from app.payout p where p.id = s.payout_id for update;
  perform app.lock_treasury(s.chain);
  select * into s from app.spend x where x.id = of_spend for update;
  if s.status = 'final' or (s.cancelling and of_kind = 'effect')
    or number <> 1 + (select count(*) from app.outbound_tx o where o.spend_id = s.id) then return false; end if;
  perform from custody.journal j where j.stream = s.chain and j.txid = of_txid and (j.sender, j.nonce) <> (s.sender, s.nonce);
  if found then raise exception 'transaction % was signed for another nonce than that of spend %', of_txid, s.id using errcode = 'P0003'; end if;
  native := app.native_token(s.chain);
  more := fee_per_gas * gas - s.max_fee;
  if more > 0 then
    if s.sender = app.treasury_address(s.chain) then
      if app.operator_funds(s.chain, native) < more then return false; end if;
      perform app.reserve(s.chain, native, more);
    end if;
  else
    more := 0;
  end if;
  insert into app.outbound_tx (chain, txid, spend_id, attempt, kind, raw, token, source, recipient, amount, max_fee_per_gas,
    max_priority_fee_per_gas, gas_limit)
  values (s.chain, of_txid, s.id, number, of_kind, of_raw, case of_kind when 'cancel' then native else s.token end,
    case of_kind when 'cancel' then s.sender else s.source end, case of_kind when 'cancel' then s.sender else s.recipient end,
    of_amount, fee_per_gas, priority_fee_per_gas, gas);
  update app.spend x set status = 'live', max_fee = x.max_fee + more, waiting_reason = null, waiting_detail = null, waiting_since = null,
    next_step_at = clock_timestamp()
  where x.id = s.id;
  if s.kind = 'payout' and of_kind = 'effect' then
    update app.payout p set status = 'paying' where p.id = s.payout_id and p.status = 'swept';
  end if;
  return true;
end $$;
comment on function app.store_attempt is 'Stores a signed transaction as the next attempt of a spend, before it may be broadcast; false if it came too late. Safe to run again.';

create function app.record_broadcast(of_chain text, of_txid text, error text, retry_ms int) returns void
language sql security definer set search_path = pg_catalog as $$
  with sent as (
    update app.outbound_tx o set broadcast_at = clock_timestamp(), broadcast_error = error where o.chain = of_chain and o.txid = of_txid
    returning o.spend_id
  )
  update app.spend s set next_step_at = clock_timestamp() + retry_ms * interval '1 millisecond',
    waiting_reason = nullif(s.waiting_reason, 'node_unreachable'), -- which it is not, as it answered
    waiting_detail = case when s.waiting_reason <> 'node_unreachable' then s.waiting_detail end,
    waiting_since = case when s.waiting_reason <> 'node_unreachable' then s.waiting_since end
  from sent where s.id = sent.spend_id and s.next_step_at is not null
$$;
comment on function app.record_broadcast is 'Notes that a stored transaction was given to a node, what the node said, and when the spend is looked at again.';

create function app.wait_spend(of_spend uuid, reason text, detail text, retry_ms int) returns void
language sql security definer set search_path = pg_catalog as $$
  update app.spend s set waiting_detail = detail, waiting_since = case
      when reason is null then null when s.waiting_reason = reason then s.waiting_since else clock_timestamp() end,
    waiting_reason = reason, next_step_at = clock_timestamp() + retry_ms * interval '1 millisecond'
  where s.id = of_spend and s.next_step_at is not null
$$;
comment on function app.wait_spend is 'Notes what a spend waits for (null: nothing), and when it is looked at again.';

-- A sweep whose address cannot fund it any more, or which nobody wants, is given up: a cancel uses up its nonce.
create function app.cancel_spend(of_spend uuid) returns void
language sql security definer set search_path = pg_catalog as $$
  update app.spend s set cancelling = true, next_step_at = clock_timestamp()
  where s.id = of_spend and s.status <> 'final' and s.kind in ('sweep', 'withdrawal')
$$;
comment on function app.cancel_spend is 'Gives up a sweep or a withdrawal: its nonce is used up by a transaction that moves nothing.';

-- What follows when they are in a block --------------------------------------------------------------------------------------------------

-- A transaction of an address of ours that nobody here stored: somebody else has the key, or a copy of this database lived on elsewhere.
-- Nothing more leaves the chain until an operator has looked. A final payment that a rewind took away and that is there again is well.
create function chain.note_inclusions() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
begin
  perform from chain.cursor c where c.chain in (select chain from added) for update; -- before incidents, as everybody locks them
  insert into app.incident (chain, kind, subject, details)
  select i.chain, 'unknown_transaction', i.id, jsonb_build_object('sender', i.sender, 'nonce', i.nonce, 'block_height', i.block_height)
  from added i where not exists (select from app.outbound_tx o where o.chain = i.chain and o.txid = i.txid)
    and not exists (select from app.incident k where k.kind = 'unknown_transaction' and k.subject = i.id)
  on conflict do nothing;
  update app.incident k set resolved_at = clock_timestamp(), resolution = 'healed'
  from added i join app.spend s on s.chain = i.chain and s.sender = i.sender and s.nonce = i.nonce and s.txid = i.txid
  where k.kind = 'final_payment_vanished' and k.subject = s.id::text and k.resolved_at is null;
  update app.spend s set next_step_at = null
  from added i where s.chain = i.chain and s.sender = i.sender and s.nonce = i.nonce and s.status = 'final' and s.next_step_at is not null;
  return null;
end $$;
create trigger note_insert after insert on chain.inclusion
  referencing new table as added for each statement execute function chain.note_inclusions();
comment on column app.incident.kind is 'final_deposit_vanished, final_deposit_moved, final_deposit_changed, payment_replaced, fork_below_final, unknown_transaction, final_payment_vanished or payment_of_failed_payout.';
comment on column app.incident.subject is 'The id of the deposit or of the spend, <chain>:<txid>, or the chain.';

create function app.add_share(of_chain text, of_token text, of_merchant uuid, more numeric, more_reserved numeric) returns void
language sql set search_path = pg_catalog as $$
  insert into app.treasury_share as s (chain, token, merchant_id, amount, reserved) values (of_chain, of_token, of_merchant, more, more_reserved)
  on conflict (chain, token, merchant_id) do update set amount = s.amount + excluded.amount, reserved = s.reserved + excluded.reserved
$$;

-- The row may be missing after an older copy of the database was restored: the deposits that it stands for become final a moment later.
create function app.add_holding(of_chain text, of_address text, of_token text, of_merchant uuid, more numeric) returns void
language sql set search_path = pg_catalog as $$
  insert into app.holding as h (chain, address, token, merchant_id, amount) values (of_chain, of_address, of_token, of_merchant, more)
  on conflict (chain, address, token) do update set amount = h.amount + excluded.amount
$$;

create function app.add_treasury(of_chain text, of_token text, more numeric, more_reserved numeric) returns void
language sql set search_path = pg_catalog as $$
  update app.treasury set balance = balance + more, reserved = reserved + more_reserved where chain = of_chain and token = of_token
$$;

-- The network fee of a final transaction: paid by the treasury, or by the address that was swept. Either way the operator bears it.
create function app.post_network_fee(s app.spend, fee numeric) returns void
language plpgsql set search_path = pg_catalog as $$
declare
  native text := app.native_token(s.chain);
  by_treasury boolean := s.sender = app.treasury_address(s.chain);
begin
  if by_treasury then
    perform app.add_treasury(s.chain, native, -fee, -s.max_fee);
  else
    perform app.add_holding(s.chain, s.sender, native, s.merchant_id, -fee);
    perform app.add_share(s.chain, native, s.merchant_id, fee, 0);
  end if;
  perform app.post('network_fee', s.id::text, s.chain, jsonb_build_array(
    jsonb_build_object('account', 'network', 'token', native, 'merchant_id', s.merchant_id, 'amount', fee),
    jsonb_build_object('account', case when by_treasury then 'treasury' else 'address' end, 'token', native, 'merchant_id', s.merchant_id,
      'address', case when not by_treasury then s.sender end, 'amount', -fee)));
  update app.payout p set network_fee = p.network_fee + post_network_fee.fee where p.id = s.payout_id;
end $$;

create function app.finish_payment(s app.spend, outcome text, txid text) returns void
language plpgsql set search_path = pg_catalog as $$
declare p app.payout := (select o from app.payout o where o.id = s.payout_id);
begin
  if p.status = 'failed' then -- before anything was broadcast; its reservation is given up
    if outcome in ('done', 'displaced') then
      insert into app.incident (chain, kind, subject, details)
      values (s.chain, 'payment_of_failed_payout', s.id::text, jsonb_build_object('payout_id', p.id, 'txid', txid, 'outcome', outcome))
      on conflict do nothing;
    end if;
    if outcome <> 'done' then return; end if;
    -- An older copy of the database had forgotten that it was signed. The merchant has the money and, since the release, the balance: it owes the net.
    perform app.lock_pair(p.merchant_id, p.chain, p.token);
    insert into app.adjustment (merchant_id, chain, token, amount, reason) values (p.merchant_id, p.chain, p.token, -p.net, 'paid_after_all');
    insert into app.balance_delta (merchant_id, chain, token, amount, deposit_count) values (p.merchant_id, p.chain, p.token, -p.net, 0);
    perform app.post('claim', p.id::text, p.chain, jsonb_build_array(
      jsonb_build_object('account', 'merchant', 'token', p.token, 'merchant_id', p.merchant_id, 'amount', p.net),
      jsonb_build_object('account', 'payout', 'token', p.token, 'merchant_id', p.merchant_id, 'amount', -p.net)));
    p.gross := p.net; -- and no fee is earned
    p.fee := 0;
  else
    perform app.add_treasury(p.chain, p.token, 0, -p.net);
    perform app.add_share(p.chain, p.token, p.merchant_id, 0, -p.gross);
  end if;
  if outcome = 'done' then
    perform app.add_treasury(p.chain, p.token, -p.net, 0);
    perform app.add_share(p.chain, p.token, p.merchant_id, -p.gross, 0);
    perform app.post('payout', p.id::text, p.chain, jsonb_build_array(
      jsonb_build_object('account', 'payout', 'token', p.token, 'merchant_id', p.merchant_id, 'amount', p.gross),
      jsonb_build_object('account', 'treasury', 'token', p.token, 'merchant_id', p.merchant_id, 'amount', -p.net),
      jsonb_build_object('account', 'fees', 'token', p.token, 'merchant_id', p.merchant_id, 'amount', -p.fee)));
    if p.status = 'failed' then return; end if;
    update app.payout o set status = 'completed', txid = finish_payment.txid where o.id = p.id returning * into p;
    perform app.emit_payout_event(p, 'payout.completed');
  elsif outcome = 'reverted' then
    perform app.release_payout(p.id, 'transaction_reverted', 'the payment was mined and reverted; nothing was paid');
  elsif outcome = 'cancelled' then
    perform app.release_payout(p.id, 'cancelled', 'cancelled; a transaction that moves nothing took the place of the payment');
  else
    perform app.release_payout(p.id, 'broadcast_rejected', 'another transaction took the place of the payment, which can never be mined');
  end if;
end $$;

create function app.finish_sweep(s app.spend, outcome text, moved numeric) returns void
language plpgsql set search_path = pg_catalog as $$
begin
  if outcome = 'done' then
    perform app.add_holding(s.chain, s.source, s.token, s.merchant_id, -moved);
    perform app.add_treasury(s.chain, s.token, moved, 0);
    perform app.add_share(s.chain, s.token, s.merchant_id, moved, 0);
    perform app.post('sweep', s.id::text, s.chain, jsonb_build_array(
      jsonb_build_object('account', 'treasury', 'token', s.token, 'merchant_id', s.merchant_id, 'amount', moved),
      jsonb_build_object('account', 'address', 'token', s.token, 'merchant_id', s.merchant_id, 'address', s.source, 'amount', -moved)));
  end if;
end $$;

create function app.finish_withdrawal(s app.spend, outcome text) returns void
language plpgsql set search_path = pg_catalog as $$
begin
  perform app.add_treasury(s.chain, s.token, 0, -s.amount);
  if outcome = 'done' then
    perform app.add_treasury(s.chain, s.token, -s.amount, 0);
    perform app.post('withdrawal', s.id::text, s.chain, jsonb_build_array(
      jsonb_build_object('account', 'operator', 'token', s.token, 'amount', s.amount),
      jsonb_build_object('account', 'treasury', 'token', s.token, 'amount', -s.amount)));
  end if;
end $$;

-- Spends whose nonce is used up by a final transaction are final. Which of their attempts it was, and whether it had its effect, decides what
-- follows. A transaction that is not known proves nothing until an operator has looked (its incident is kept): an older copy of the database
-- may just not remember it. Runs under the row lock of chain.cursor.
create function app.settle_spends(of_chain text, final_height int) returns void
language plpgsql set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
declare
  found_final record;
  s app.spend;
  finished uuid[] := '{}';
begin
  perform from app.payout p where p.id in (
    select x.payout_id from app.spend x join chain.inclusion i on i.chain = x.chain and i.sender = x.sender and i.nonce = x.nonce
    where x.chain = of_chain and x.status <> 'final' and i.block_height <= final_height
    union all
    select l.payout_id from app.spend x join chain.inclusion i on i.chain = x.chain and i.sender = x.sender and i.nonce = x.nonce
    join app.payout_sweep l on l.spend_id = x.id
    where x.chain = of_chain and x.status <> 'final' and i.block_height <= final_height)
  order by p.id for update;
  for found_final in
    select x.id, i.txid, i.fee, o.amount as moved, case when o.txid is null then 'displaced' when o.kind = 'cancel' then 'cancelled'
      when i.success then 'done' else 'reverted' end as outcome
    from app.spend x
    join chain.inclusion i on i.chain = x.chain and i.sender = x.sender and i.nonce = x.nonce
    left join app.outbound_tx o on o.chain = x.chain and o.txid = i.txid and o.spend_id = x.id
    where x.chain = of_chain and x.status <> 'final' and i.block_height <= final_height
      and (o.txid is not null or exists (
        select from app.incident k where k.kind = 'unknown_transaction' and k.subject = i.id and k.resolution = 'kept'))
    order by i.block_height, i.nonce
  loop
    perform app.lock_treasury(of_chain);
    update app.spend x set status = 'final', txid = found_final.txid, outcome = found_final.outcome, fee_paid = found_final.fee,
      final_at = clock_timestamp(), next_step_at = null, waiting_reason = null, waiting_detail = null, waiting_since = null
    where x.id = found_final.id returning * into s;
    perform app.post_network_fee(s, found_final.fee);
    if s.kind = 'payout' then perform app.finish_payment(s, s.outcome, s.txid);
    elsif s.kind = 'sweep' then perform app.finish_sweep(s, s.outcome, found_final.moved);
    else perform app.finish_withdrawal(s, s.outcome);
    end if;
    finished := finished || s.id;
  end loop;
  perform app.wake_payout(p.id) from app.payout p
  where p.status = 'sweeping' and p.id in (select l.payout_id from app.payout_sweep l where l.spend_id = any(finished)) order by p.id;
end $$;

-- As in 005_deposits.sql, but for one line: what an address of ours sends to the treasury is a sweep, known or not, and no top-up.
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
    select t.* from key cross join lateral (select * from chain.transfer t where t.id = key.id offset 0) t
  ), net as (
    select d.id as deposit_id, d.status, d.credited, d.version, t.id is not null as alive, d.transfer_id,
      d.amount is distinct from t.amount as changed,
      (d.block_height, d.block_hash) is distinct from (t.block_height, t.block_hash) as moved,
      d.amount as old_amount, t.txid, t.output_index, t.recipient, t.sender,
      coalesce(t.token, d.token) as token, coalesce(t.amount, d.amount) as amount,
      coalesce(t.block_height, d.block_height) as block_height, coalesce(t.block_hash, d.block_hash) as block_hash, t.id as live_id
    from deposit d full join transfer t on t.id = d.transfer_id and t.recipient = d.address and t.token = d.token
  ), held_back as ( -- something else is paid at a position that holds a final deposit: nobody is credited until an operator decides
    select n.* from net n
    where n.alive and (n.deposit_id is null or n.status = 'reorged')
      and exists (select from deposit d where d.transfer_id = n.live_id and d.status = 'final')
  ), created as (
    insert into app.deposit (chain, txid, output_index, address, merchant_id, user_id, token, amount, sender, block_height, block_hash,
      status, credited, version)
    select of_chain, n.txid, n.output_index, a.address, a.merchant_id, a.user_id, n.token, n.amount, n.sender, n.block_height, n.block_hash,
      'pending', a.is_provisioned and s.token is not null, 1
    from net n
    cross join lateral (
      select * from app.address a
      where a.chain = of_chain and a.match_key in (n.recipient, lower(n.recipient)) and a.address = n.recipient offset 0
    ) a
    left join app.asset s on s.chain = of_chain and s.token = n.token
    where n.deposit_id is null and not exists (select from held_back h where h.live_id = n.live_id)
      and not (a.user_id is null and (exists (select from app.outbound_tx o where o.chain = of_chain and o.txid = n.txid)
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

-- As in 005_deposits.sql, and besides: spends are settled; each deposit gets its promotion number; a deposit that was lost after it was
-- paid out, and is back, cancels the debt; the ledger is written.
create or replace function chain.promote(of_chain text, final_height int) returns void
language plpgsql set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
declare
  ids uuid[];
  versions int[];
  tokens text[];
  amounts numeric[];
  everything uuid[];
  back app.deposit;
  number bigint := (select promotion + 1 from chain.cursor c where c.chain = of_chain);
begin
  perform app.settle_spends(of_chain, final_height);
  with promoted as (
    update app.deposit set status = 'final', version = version + 1, finalised_at = clock_timestamp(), promotion = number
    where chain = of_chain and status = 'pending' and block_height <= final_height
    returning id, merchant_id, token, amount, credited, settlement_id, version, block_height, txid, output_index
  ), counted as (
    insert into app.balance_delta (merchant_id, chain, token, amount, deposit_count)
    select merchant_id, of_chain, token, sum(amount), count(*) from promoted
    where credited and settlement_id is null
    group by merchant_id, token
  ), ordered as (
    select *, row_number() over (order by block_height, txid, output_index) as n from promoted
  )
  select array_agg(id order by n) filter (where credited), array_agg(version order by n) filter (where credited),
    array_agg(token order by n) filter (where credited), array_agg(amount order by n) filter (where credited), array_agg(id)
  into ids, versions, tokens, amounts, everything from ordered;
  if everything is null then return; end if;
  update chain.cursor c set promotion = number where c.chain = of_chain;
  for back in select * from app.deposit d where d.id = any(ids) and d.settlement_id is not null loop
    perform app.adjust(back, back.amount, 'deposit_back');
  end loop;
  perform app.post_final_deposits(of_chain, everything, number);
  perform app.emit_deposit_events(ids, array_fill('deposit.confirmed'::text, array[coalesce(cardinality(ids), 0)]), versions, tokens, amounts);
end $$;

-- Changes a balance by something that is no deposit.
create function app.adjust(d app.deposit, more numeric, why text) returns void
language plpgsql set search_path = pg_catalog as $$
begin
  perform app.lock_pair(d.merchant_id, d.chain, d.token);
  insert into app.adjustment (merchant_id, chain, token, amount, deposit_id, reason) values (d.merchant_id, d.chain, d.token, more, d.id, why);
  insert into app.balance_delta (merchant_id, chain, token, amount, deposit_count) values (d.merchant_id, d.chain, d.token, more, 0);
end $$;

-- As in 002_chain.sql, and besides: inclusions are forgotten, too. A final payment or sweep among them opens an incident, which closes when
-- it is read again.
create or replace function chain.rewind(of_chain text, to_height int, to_hash text) returns void
language plpgsql security definer set search_path = pg_catalog as $$
declare at chain.cursor;
begin
  select * into strict at from chain.cursor c where c.chain = of_chain for update;
  if to_height < at.final_height and at.rewind_to is distinct from to_height then
    raise exception '%: % is below the final height %, and no operator asked for it (sluice chain rewind)', of_chain, to_height, at.final_height;
  end if;
  delete from chain.transfer t where t.chain = of_chain and t.block_height > to_height;
  insert into app.incident (chain, kind, subject, details)
  select of_chain, 'final_payment_vanished', s.id::text, jsonb_build_object('txid', s.txid, 'kind', s.kind, 'block_height', i.block_height)
  from chain.inclusion i join app.spend s on s.chain = i.chain and s.sender = i.sender and s.nonce = i.nonce and s.txid = i.txid
  where i.chain = of_chain and i.block_height > to_height and s.status = 'final'
  on conflict do nothing;
  update app.spend s set next_step_at = clock_timestamp() -- it is broadcast again
  from chain.inclusion i
  where i.chain = of_chain and i.block_height > to_height and i.sender = s.sender and i.nonce = s.nonce and i.txid = s.txid
    and s.chain = of_chain and s.status = 'final';
  delete from chain.inclusion i where i.chain = of_chain and i.block_height > to_height;
  delete from chain.block b where b.chain = of_chain and b.height > to_height;
  insert into chain.block (id, chain, height, hash, parent_hash, time)
  values (of_chain || ':' || to_height, of_chain, to_height, to_hash, '', clock_timestamp())
  on conflict (id) do update set hash = excluded.hash;
  execute format('delete from %I.hot_block', 'squid_' || lower(of_chain));
  if to_height < at.final_height then
    update chain.cursor c set final_height = to_height, final_hash = to_hash, final_moved_at = clock_timestamp() where c.chain = of_chain;
  end if;
  update app.incident i set resolved_at = clock_timestamp(), resolution = 'rewound'
  where i.chain = of_chain and i.kind = 'fork_below_final' and i.resolved_at is null and at.rewind_to is not null;
  update chain.cursor c set rewind_to = null, halted_at = null
  where c.chain = of_chain;
  execute format('update %I.status set height = $1, hash = $2, nonce = nonce + 1 where id = 0', 'squid_' || lower(of_chain)) using to_height, to_hash;
end $$;

-- As in 005_deposits.sql, and besides: a deposit that a payout has claimed. One that has not begun to pay fails, and the others are released;
-- from paying on the merchant owes it (app.adjustment).
create or replace function app.resolve_incident(incident_id bigint, decision text) returns void
language plpgsql security definer set search_path = pg_catalog as $$
declare
  incident app.incident;
  deposit app.deposit;
begin
  select * into incident from app.incident i where i.id = incident_id;
  perform from chain.cursor c where c.chain = incident.chain for update; -- before the incident, as settling does
  if decision = 'reorged' and incident.kind like 'final_deposit_%' then -- and its payout before it, as everybody locks them
    select * into deposit from app.deposit d where d.id = incident.subject::uuid;
    perform app.stamp_all_deposits(deposit.merchant_id, deposit.chain, deposit.token);
    select * into deposit from app.deposit d where d.id = deposit.id;
    perform from app.payout p where p.id = deposit.settlement_id for update;
    perform app.lock_treasury(deposit.chain);
    perform app.lock_pair(deposit.merchant_id, deposit.chain, deposit.token); -- a claim that has counted it is stamped now, or counts without it
    perform app.stamp_all_deposits(deposit.merchant_id, deposit.chain, deposit.token);
    perform from app.deposit d where d.id = deposit.id and d.settlement_id is distinct from deposit.settlement_id;
    if found then
      raise exception 'incident %: a payout claims the deposit at this moment; try again', incident_id using errcode = '40001';
    end if;
  end if;
  select * into incident from app.incident i where i.id = incident_id for update;
  if incident.id is null then raise exception 'no incident %', incident_id using errcode = 'P0002'; end if;
  if incident.resolved_at is not null then
    raise exception 'incident % is resolved already (%)', incident_id, incident.resolution using errcode = 'P0003';
  end if;
  if decision = 'reorged' then
    if incident.kind not like 'final_deposit_%' then
      raise exception 'incident % is about no deposit; it can only be kept', incident_id using errcode = 'P0003';
    end if;
    perform app.take_back(deposit.id);
    -- What stands at its place on the chain now, another amount or another recipient, is settled anew.
    insert into chain.touched select pg_current_xact_id(), t.chain, t.id from chain.transfer t
    where t.id = deposit.chain || ':' || deposit.txid || ':' || deposit.output_index;
    insert into chain.touched_chain values (pg_current_xact_id(), deposit.chain) on conflict do nothing;
    update app.incident i set resolved_at = clock_timestamp(), resolution = 'reorged'
    where i.resolved_at is null and (i.subject = incident.subject
      or i.subject = deposit.chain || ':' || deposit.txid || ':' || deposit.output_index);
  else
    update app.incident i set resolved_at = clock_timestamp(), resolution = 'kept' where i.id = incident_id;
  end if;
end $$;

create function app.take_back(of_deposit uuid) returns void
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
  account := case when deposit.user_id is null then 'operator' when deposit.credited then 'merchant' else 'unattributed' end;
  perform app.post('reorg', deposit.id::text, deposit.chain, jsonb_build_array(
    jsonb_build_object('account', case when account = 'operator' then 'treasury' else 'address' end, 'token', deposit.token,
      'merchant_id', case when deposit.credited then deposit.merchant_id end,
      'address', case when account <> 'operator' then deposit.address end, 'amount', -deposit.amount),
    jsonb_build_object('account', account, 'token', deposit.token, 'merchant_id', case when deposit.credited then deposit.merchant_id end,
      'amount', deposit.amount)));
  if account = 'operator' then perform app.add_treasury(deposit.chain, deposit.token, -deposit.amount, 0); end if;
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

-- Waking ------------------------------------------------------------------------------------------------------------------------------------

-- The jobs of every payout, spend and stamping that is due: what a dead worker dropped, and whose time has come. The worker adds each in a
-- transaction of its own: several keys in one would be locked in another order than settling locks them.
create view app.due_job as
select 'advance_payout' as task, json_build_object('payout_id', id) as payload, 'payout:' || id as key
from app.payout where status not in ('completed', 'failed') and next_step_at <= clock_timestamp()
union all
select 'send_transactions', json_build_object('chain', chain), 'send:' || chain
from (select distinct chain from app.spend where next_step_at <= clock_timestamp()) s
union all
select 'stamp_deposits', json_build_object('merchant_id', merchant_id, 'chain', chain, 'token', token),
  'stamp:' || merchant_id || ':' || chain || ':' || token
from (select distinct merchant_id, chain, token from app.claim where finished_at is null) c;
comment on view app.due_job is 'The jobs of every payout, spend and stamping that is due now.';
comment on column app.due_job.task is 'The task.';
comment on column app.due_job.payload is 'What it is given.';
comment on column app.due_job.key is 'Its key: there is one job of a key at a time.';

create function custody.announce_entry() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
begin
  perform app.wake_payout(p.id) from app.payout p
  where p.merchant_id = new.merchant_id and p.chain = new.chain and p.address = new.address and p.status in ('pending', 'swept') order by p.id;
  return null;
end $$;
create trigger announce_entry after insert on custody.whitelist for each row execute function custody.announce_entry();

-- Audit -------------------------------------------------------------------------------------------------------------------------------------

create or replace view app.balance_audit as
select merchant_id, chain, token,
  coalesce(kept.amount, 0) as kept_amount, coalesce(counted.amount, 0) as counted_amount,
  coalesce(kept.deposit_count, 0) as kept_count, coalesce(counted.deposit_count, 0) as counted_count
from app.balance_now kept
full join (
  select merchant_id, chain, token, sum(amount) as amount, sum(deposit_count)::bigint as deposit_count
  from (
    select merchant_id, chain, token, sum(amount) as amount, count(*) as deposit_count
    from app.deposit where status = 'final' and credited and settlement_id is null group by merchant_id, chain, token
    union all
    select merchant_id, chain, token, amount, 0 from app.adjustment where settlement_id is null
    union all -- stamping that is still to be done
    select merchant_id, chain, token, case kind when 'claim' then done_amount - amount else amount - done_amount end,
      case kind when 'claim' then done_count - deposit_count else deposit_count - done_count end
    from app.claim where finished_at is null
  ) part group by merchant_id, chain, token
) counted using (merchant_id, chain, token)
where (coalesce(kept.amount, 0), coalesce(kept.deposit_count, 0)) <> (coalesce(counted.amount, 0), coalesce(counted.deposit_count, 0));

create view app.ledger_audit as
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
    select s.chain, s.token, 0, s.amount from app.spend s left join app.payout p on p.id = s.payout_id
    where s.status <> 'final' and (s.kind = 'withdrawal' or (s.kind = 'payout' and p.status in ('swept', 'paying')))
    union all
    select s.chain, app.native_token(s.chain), 0, s.max_fee from app.spend s
    where s.status <> 'final' and s.sender = app.treasury_address(s.chain)
  ) r group by chain, token
  union all
  select 'share_reserved', chain, token, merchant_id, null, sum(kept), sum(posted) from (
    select chain, token, merchant_id, reserved as kept, 0 as posted from app.treasury_share
    union all
    select p.chain, p.token, p.merchant_id, 0, p.gross from app.payout p join app.spend s on s.payout_id = p.id and s.kind = 'payout'
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
)
select what, chain, token, merchant_id, address, kept, posted from compared where kept <> posted;
comment on view app.ledger_audit is 'What is kept beside the ledger and differs from it. Always empty; a row is a bug.';
comment on column app.ledger_audit.what is 'holding, treasury, treasury_share, treasury_reserved, share_reserved, merchant (the balance) or payout (claimed).';
comment on column app.ledger_audit.chain is 'Chain code.';
comment on column app.ledger_audit.token is 'Token code.';
comment on column app.ledger_audit.merchant_id is 'The merchant, where it is about one.';
comment on column app.ledger_audit.address is 'The address, where it is about one.';
comment on column app.ledger_audit.kept is 'As it is kept, in base units.';
comment on column app.ledger_audit.posted is 'As the ledger has it.';

-- Rights ------------------------------------------------------------------------------------------------------------------------------------

grant select, insert, update, delete on chain.inclusion to sluice_indexer;
grant select (stream, txid, token, source, destination, amount) on custody.journal to sluice_indexer;
grant select on app.payout, app.payout_address, app.claim, app.adjustment, app.spend, app.outbound_tx, app.payout_sweep, app.holding, app.treasury,
  app.treasury_share, chain.inclusion to sluice_jobs;
grant select on app.payout to sluice_api;
grant select on app.payout, app.spend, app.asset, app.chain, chain.transfer, chain.inclusion, chain.cursor to sluice_custody;
grant execute on function app.create_payout, app.cancel_payout to sluice_api;
grant execute on function app.stamp_deposits, app.why_halted, app.begin_sweeping, app.begin_paying_from_treasury, app.payout_shortage,
  app.payout_shortfall, app.begin_payment, app.begin_sweeps, app.await_sweeps, app.sweepable, app.wait_payout, app.fail_payout,
  app.store_attempt, app.record_broadcast, app.wait_spend, app.cancel_spend, app.enqueue to sluice_jobs;
grant select on app.due_job to sluice_jobs;
