-- What custody signed and neither its journal nor this copy of the database knows, recognised by what it did on the chain. sluice custody reconcile asks
-- here for each unknown transaction (custody/journal/found.ts), seals what comes back as an entry of the journal, and imports it (custody.reconcile): so what has
-- paid a payout ends it, and it is not paid again.
--
-- Promises: only a final transaction that had its effect is recognised, and only if it took nothing but money of ours, and all of it went to one place
-- where custody would have sent it: to the treasury, or from there to an address on a whitelist. It paid a payout, or a withdrawal, if that has its
-- address, token and amount, was requested before, and nothing else may pay it. Of equal ones the oldest is taken: as much was paid, whichever it was.
-- Where attempts expire, it is left while an attempt of an equal one may still be mined. A return of unattributed value is known by its sweep, which
-- took exactly what the withdrawal paid. What this cannot know is the id and the gross of a payout that the copy does not have: it gets a new id, and
-- the largest gross with this net at the merchant's fee. Cancels, and what failed, are left to an operator.
-- Locks: none. One sluice custody reconcile at a time enters what it answers (enterFound in custody/journal/found.ts).

create or replace function custody.recognise(of_chain text, of_txid text) returns jsonb
language plpgsql stable set search_path = pg_catalog as $$
declare
  treasury text := app.treasury_address(of_chain);
  has_outputs boolean := app.uses_outputs(of_chain);
  t record;
  paid record;
  key text;
  entry jsonb;
begin
  select max(i.block_time) as block_time, max(i.fee) as fee, max(i.nonce) as nonce, (array_agg(i.account order by i.fee desc, i.id))[1] as fee_payer,
    array_agg(i.outpoint order by nullif(split_part(i.id, ':', 3), '')::int) filter (where i.outpoint is not null) as inputs into t
  from chain.confirmed_tx i join chain.cursor c using (chain) where i.chain = of_chain and i.txid = of_txid and i.block_height <= c.final_height
  having bool_and(i.success);
  if t.fee_payer is null or has_outputs and t.fee = 0 then return null; end if; -- without a fee, it spent outputs of others, too
  if has_outputs then t.fee_payer := treasury; end if;
  key := coalesce(t.inputs[1], t.fee_payer || ':' || t.nonce);
  select count(*) as parts, min(m.sender) as sender, min(m.recipient) as recipient, min(m.token) as token, min(m.amount) as amount into paid
  from custody.moved_by(of_chain, of_txid) m where not m.stays;
  if paid.parts = 0 then entry := coalesce(custody.recognise_defund(of_chain, of_txid, key, t.fee),
      custody.recognise_sweep(of_chain, of_txid, key, case when t.fee_payer = treasury then 0 else t.fee end),
      custody.recognise_fund(of_chain, of_txid, key));
  elsif paid.parts = 1 and (has_outputs or paid.sender = treasury) then
    entry := coalesce(custody.waiting_payment(of_chain, paid.recipient, paid.token, paid.amount, t.block_time, key),
        custody.recognise_return(of_chain, paid.recipient, paid.token, paid.amount),
        case when not custody.may_still_be_paid(of_chain, paid.recipient, paid.token, paid.amount)
          then custody.recognise_lost(of_chain, paid.recipient, paid.token, paid.amount) end)
      || jsonb_build_object('token', paid.token, 'amount', paid.amount::text, 'destination', paid.recipient, 'source', treasury);
  end if;
  return entry || jsonb_build_object('stream', of_chain, 'txid', of_txid, 'raw', '', 'sender', t.fee_payer, 'nonce', t.nonce, 'max_fee', t.fee::text,
    'signed_at', app.iso(t.block_time),
    'details', entry -> 'details' || jsonb_strip_nulls(jsonb_build_object('found', 'in a block', 'inputs', to_jsonb(t.inputs))));
end $$;
comment on function custody.recognise is 'The entry of custody''s journal for an unknown transaction, without its number and hash; null if it is not recognised.';

-- On chains with outputs every output of the transaction; elsewhere what left addresses of ours, because contracts may have moved more.
create or replace function custody.moved_by(of_chain text, of_txid text) returns table (sender text, recipient text, token text, amount numeric, stays boolean)
language sql stable set search_path = pg_catalog as $$
  select m.sender, m.recipient, coalesce(k.token, m.token), m.amount, exists (select from custody.address o where o.address = m.recipient)
  from app.unknown_transaction u cross join lateral jsonb_to_recordset(u.moved) m (sender text, recipient text, token text, amount numeric)
  left join app.token k on k.chain = of_chain and k.contract = m.token
  where u.chain = of_chain and u.txid = of_txid
    and (app.uses_outputs(of_chain) or exists (select from custody.address o where o.address = m.sender))
$$;
comment on function custody.moved_by is 'What an unknown transaction moved of ours, in base units, and whether it stayed with us.';

create or replace function custody.paid_in_words(of_chain text, of_txid text) returns text
language sql stable set search_path = pg_catalog as $$
  select string_agg(format('%s %s to %s', coalesce(app.decimal(m.amount, a.decimals), m.amount || ' base units of'), m.token, m.recipient), ', ')
  from custody.moved_by(of_chain, of_txid) m left join app.asset a on a.chain = of_chain and a.token = m.token where not m.stays
$$;
comment on function custody.paid_in_words is 'What an unknown transaction took out of our addresses, such as "0.5 ETH to 0x…"; null if nothing.';

-- More than recognise() takes for sure: whatever it may have paid, as far as the copy knows, also while it is in no final block, or in none any more.
create or replace function custody.paid_again(of_chain text, of_txid text) returns text
language sql stable set search_path = pg_catalog as $$
  select w.name
  from custody.moved_by(of_chain, of_txid) m cross join lateral custody.waiting(of_chain, m.recipient, m.token, m.amount) w
  left join app.outgoing_payment s on s.id = w.payment_id
  where not m.stays and not exists (select from custody.journal j where j.stream = of_chain and j.txid = of_txid)
    and not exists (select from app.attempt_fate f where f.chain = of_chain and f.subject_id = w.id and f.kind in ('pay', 'withdraw') and f.fate in ('in_block', 'final'))
    and (not custody.is_bound(s)
      or not exists (select from chain.confirmed_tx i where i.chain = of_chain and i.txid = of_txid and i.conflict_key is not null)
      or exists (select from chain.confirmed_tx i where i.chain = of_chain and i.txid = of_txid and i.conflict_key = s.conflict_key))
  order by w.created_at, w.id limit 1
$$;
comment on function custody.paid_again is 'The payout, the withdrawal or the return that waits, and that an unknown transaction may have paid, in words; null if there is none.';

create or replace function custody.waiting(of_chain text, of_recipient text, of_token text, of_amount numeric)
returns table (id uuid, created_at timestamptz, payment_id uuid, name text, entry jsonb)
language sql stable set search_path = pg_catalog as $$
  select p.id, p.created_at, s.id, 'payout ' || app.public_id('pay', p.id), jsonb_build_object('kind', 'pay', 'subject_id', p.id, 'merchant_id', p.merchant_id,
    'details', jsonb_build_object('gross', p.gross::text, 'fee', p.fee::text, 'fee_bps', p.fee_bps))
  from app.payout p left join app.outgoing_payment s on s.payout_id = p.id and s.kind = 'payout'
  where p.chain = of_chain and p.address = of_recipient and p.token = of_token and p.net = of_amount and p.status not in ('completed', 'failed')
  union all
  select s.id, s.created_at, s.id, 'withdrawal ' || s.id, jsonb_build_object('kind', 'withdraw', 'subject_id', s.id, 'merchant_id', null, 'details', '{}'::jsonb)
  from app.outgoing_payment s
  where s.kind = 'withdrawal' and s.chain = of_chain and s.recipient = of_recipient and s.token = of_token and s.amount = of_amount and s.status <> 'final'
  union all
  select d.id, u.decided_at, null, 'return of ' || app.public_id('dep', d.id), null
  from app.unattributed_decision u join app.deposit d on d.id = u.deposit_id
  where u.decision = 'return' and u.withdrawal_id is null and d.chain = of_chain and d.token = of_token and u.destination = of_recipient and d.amount >= of_amount
$$;
comment on function custody.waiting is 'Payouts, withdrawals and returns of a chain that are not done and are to pay exactly this amount (a return: at most what it received) to this address. payment_id: its outgoing payment, if it has one. entry: of custody''s journal; null for a return.';

-- A block may have an earlier time than it was mined at (Bitcoin: up to two hours).
create or replace function custody.waiting_payment(of_chain text, of_recipient text, of_token text, of_amount numeric, block_time timestamptz, key text) returns jsonb
language sql stable set search_path = pg_catalog as $$
  select w.entry from custody.waiting(of_chain, of_recipient, of_token, of_amount) w left join app.outgoing_payment s on s.id = w.payment_id
  where w.entry is not null and w.created_at <= block_time + interval '2 hours'
    and not exists (select from app.attempt_fate f where f.chain = of_chain and f.subject_id = w.id and f.kind in ('pay', 'withdraw') and f.fate <> 'dead')
    and (not custody.is_bound(s) or s.conflict_key = key)
  order by w.created_at, w.id limit 1
$$;
comment on function custody.waiting_payment is 'The entry of the oldest payout or withdrawal that waits for exactly this amount at this address, was begun before this time, and that nothing else may pay; null if there is none.';

create or replace function custody.is_bound(s app.outgoing_payment) returns boolean
language sql stable set search_path = pg_catalog as $$
  select s.conflict_key is not null and (s.status <> 'allocated' or exists (select from custody.journal j
    where j.stream = s.chain and j.subject_id = case s.kind when 'payout' then s.payout_id else s.id end and j.conflict_key = s.conflict_key))
$$;
comment on function custody.is_bound is 'Whether something was signed for an outgoing payment with its nonce or outputs: then only what uses these pays it.';

create or replace function custody.may_still_be_paid(of_chain text, of_recipient text, of_token text, of_amount numeric) returns boolean
language sql stable set search_path = pg_catalog as $$
  select exists (select from custody.waiting(of_chain, of_recipient, of_token, of_amount) w join app.outgoing_payment s on s.id = w.payment_id
    join app.attempt_fate f on f.chain = of_chain and f.subject_id = w.id and f.kind in ('pay', 'withdraw') and f.fate = 'open'
    where s.conflict_key is null)
$$;
comment on function custody.may_still_be_paid is 'Whether something that waits for exactly this has an attempt that may be mined until it is known to have expired: only then can be told what else paid it.';

-- The two transactions of a return move the same amount.
create or replace function custody.recognise_return(of_chain text, of_recipient text, of_token text, of_amount numeric) returns jsonb
language sql stable set search_path = pg_catalog as $$
  select jsonb_build_object('kind', 'withdraw', 'subject_id', i.id, 'merchant_id', null, 'details', '{}'::jsonb)
  from app.deposit d left join app.unattributed_decision u on u.deposit_id = d.id
  cross join lateral (select app.next_return_outgoing_payment(d, 'withdrawal') as id) i
  where d.chain = of_chain and d.token = of_token and not d.credited and d.merchant_id is not null and d.status = 'final' and d.amount >= of_amount
    and (u.deposit_id is null or u.decision = 'return' and coalesce(u.destination, of_recipient) = of_recipient
      and not exists (select from app.outgoing_payment s where s.id = u.withdrawal_id and (s.status <> 'final' or s.outcome = 'done')))
    and exists (select from custody.whitelist w where w.chain = of_chain and w.address = of_recipient and w.merchant_id is null)
    and (exists (select from app.outgoing_payment s where s.chain = of_chain and s.kind = 'sweep' and s.source = d.address and s.token = of_token and s.amount = of_amount
        and (u.deposit_id is not null or custody.is_whole(d.amount, of_amount, case when s.fee_payer = d.address then coalesce(s.fee_paid, s.max_fee) else 0 end)))
      or exists (select from app.unknown_transaction n cross join lateral custody.moved_by(of_chain, n.txid) m
        where n.chain = of_chain and (m.sender, m.token, m.amount) = (d.address, of_token, of_amount) and m.recipient = app.treasury_address(of_chain)
          and (u.deposit_id is not null or custody.is_whole(d.amount, of_amount, coalesce((select max(f.fee) from chain.confirmed_tx f
            where f.chain = of_chain and f.txid = n.txid and f.account = d.address), 0)))))
    and i.id is not null
  order by u.deposit_id is null, d.created_at, d.id limit 1
$$;
comment on function custody.recognise_return is 'The entry of the withdrawal that returned unattributed value: to an address of the operator''s, of exactly what one sweep of its address moved; null if there is none.';

-- A return moves all but the most that its fee can be, which is a few times what it was.
create or replace function custody.is_whole(received numeric, moved numeric, own_fee numeric) returns boolean
language sql immutable set search_path = pg_catalog as $$
  select received - moved between own_fee and 4 * own_fee
$$;
comment on function custody.is_whole is 'Whether a sweep that paid this fee itself (0 if the treasury paid) took what a return takes of an amount, in base units.';

create or replace function custody.swept_for_return(of_chain text, address text, of_token text, of_amount numeric, own_fee numeric) returns uuid
language sql stable set search_path = pg_catalog as $$
  select app.next_return_outgoing_payment(d, 'sweep')
  from app.deposit d left join app.unattributed_decision u on u.deposit_id = d.id
  where not app.uses_outputs(of_chain) and d.chain = of_chain and d.address = swept_for_return.address and d.token = of_token and not d.credited and d.merchant_id is not null
    and d.status = 'final' and d.amount >= of_amount + own_fee and (u.deposit_id is null or u.decision = 'return' and u.sweep_id is null)
    and custody.is_whole(d.amount, of_amount, own_fee)
    -- decided in the copy; or what it moved went on to an address of the operator's
    and (u.deposit_id is not null or exists (select from app.unknown_transaction n cross join lateral custody.moved_by(of_chain, n.txid) m
      join custody.whitelist w on w.chain = of_chain and w.address = m.recipient and w.merchant_id is null
      where n.chain = of_chain and not m.stays and (m.token, m.amount) = (of_token, of_amount)))
  order by u.deposit_id is null, d.created_at, d.id limit 1
$$;
comment on function custody.swept_for_return is 'The id of the sweep of a return, if a sweep of this address was one; null if it was of the merchant''s money.';

create or replace function custody.recognise_lost(of_chain text, recipient text, of_token text, amount numeric) returns jsonb
language sql stable set search_path = pg_catalog as $$
  select case when m.id is null then jsonb_build_object('kind', 'withdraw', 'subject_id', uuidv7(), 'merchant_id', null, 'details', '{}'::jsonb)
    else jsonb_build_object('kind', 'pay', 'subject_id', uuidv7(), 'merchant_id', m.id,
      'details', jsonb_build_object('gross', g.gross::text, 'fee', (g.gross - amount)::text, 'fee_bps', m.fee_bps)) end
  from (select min(w.merchant_id::text)::uuid as merchant_id from custody.whitelist w where w.chain = of_chain and w.address = recipient
    having count(distinct coalesce(w.merchant_id::text, '')) = 1) w
  join app.asset a on a.chain = of_chain and a.token = of_token
  left join app.merchant m on m.id = w.merchant_id
  left join lateral (select max(n) as gross from generate_series(div(amount * 10000, nullif(10000 - m.fee_bps, 0)) - 1, div(amount * 10000, nullif(10000 - m.fee_bps, 0)) + 2) n
    where n - div(n * m.fee_bps, 10000) = amount) g on true
  where m.id is null or g.gross is not null -- by today's fee nothing would have been left
$$;
comment on function custody.recognise_lost is 'The entry of a payout that this copy does not have, to the one merchant that has or had this address on its whitelist; of a withdrawal if only the operator had it; else null.';

-- For the ledger, what a sweep took (and the fee, if its address paid it) is still on the address. A sweep that the copy has begun may be this one.
create or replace function custody.recognise_sweep(of_chain text, of_txid text, key text, own_fee numeric) returns jsonb
language sql stable set search_path = pg_catalog as $$
  with moved as (
    select m.sender, m.recipient, m.token, m.amount from custody.moved_by(of_chain, of_txid) m where not app.uses_outputs(of_chain)
    union all
    select i.account, min(m.recipient), min(m.token), sum(m.amount)
    from chain.confirmed_tx i cross join custody.moved_by(of_chain, of_txid) m
    where app.uses_outputs(of_chain) and i.chain = of_chain and i.txid = of_txid group by i.id, i.account having count(distinct m.recipient) = 1
  ), swept as (
    select min(m.sender) as source, min(m.token) as token, min(m.amount) as amount, min(a.merchant_id::text)::uuid as merchant_id from moved m
    join custody.address a on a.address = m.sender
    having bool_and(a.purpose = 'deposit' and a.merchant_id is not null and m.recipient = app.treasury_address(of_chain))
      and count(distinct a.merchant_id) = 1 and (count(*) = 1 or app.uses_outputs(of_chain))
  )
  select jsonb_build_object('kind', 'sweep', 'merchant_id', s.merchant_id, 'token', s.token, 'amount', s.amount::text, 'details', '{}'::jsonb,
    'destination', app.treasury_address(of_chain), 'source', case when app.uses_outputs(of_chain) then app.treasury_address(of_chain) else s.source end,
    'subject_id', coalesce((select o.id from app.outgoing_payment o
      where o.chain = of_chain and o.kind = 'sweep' and o.source = s.source and o.token = s.token and o.status <> 'final'
        and (o.merchant_id is not null or exists (select from app.unattributed_decision u where u.sweep_id = o.id))
        and (o.status = 'allocated' or o.conflict_key is not distinct from key)
        and not exists (select from app.attempt_fate f where f.chain = of_chain and f.subject_id = o.id and f.fate <> 'dead')
      order by o.amount <> s.amount limit 1), r.id, uuidv7()))
  from swept s cross join lateral (select custody.swept_for_return(of_chain, s.source, s.token, s.amount, own_fee) as id) r
  where app.uses_outputs(of_chain) or r.id is not null
    or exists (select from app.holding h where h.chain = of_chain and h.address = s.source and h.token = s.token
      and h.amount >= s.amount + case when s.token = app.native_token(of_chain) then own_fee else 0 end)
$$;
comment on function custody.recognise_sweep is 'The entry of a sweep of one merchant''s money to the treasury; null if the transaction was none.';

create or replace function custody.recognise_fund(of_chain text, of_txid text, key text) returns jsonb
language sql stable set search_path = pg_catalog as $$
  select jsonb_build_object('kind', 'fund', 'merchant_id', min(a.merchant_id::text), 'token', min(m.token), 'amount', min(m.amount)::text,
    'details', '{}'::jsonb, 'destination', min(m.recipient), 'source', min(m.sender), 'subject_id', coalesce((select o.id from app.outgoing_payment o
      where o.chain = of_chain and o.kind = 'fund' and o.recipient = min(m.recipient) and o.amount = min(m.amount) and o.status <> 'final'
        and (o.status = 'allocated' or o.conflict_key = key) limit 1), uuidv7()))
  from custody.moved_by(of_chain, of_txid) m join custody.address a on a.address = m.recipient and a.purpose = 'deposit'
  where exists (select from app.asset s where s.chain = of_chain and s.sweep_by = 'fund')
  having count(*) = 1 and bool_and(m.sender = app.treasury_address(of_chain) and m.token = app.native_token(of_chain))
$$;
comment on function custody.recognise_fund is 'The entry of gas that the treasury sent an address; null if the transaction was none.';

-- What the copy has begun as a defund, or what its merchant's coins on the address do not cover, and the gas there does. Where
-- both do, it is taken for a sweep of the merchant's: that leaves each of the two what they had, in another place.
create or replace function custody.recognise_defund(of_chain text, of_txid text, key text, fee numeric) returns jsonb
language sql stable set search_path = pg_catalog as $$
  with moved as (
    select min(m.sender) as source, min(m.amount) as amount, min(a.merchant_id::text) as merchant_id
    from custody.moved_by(of_chain, of_txid) m join custody.address a on a.address = m.sender and a.purpose = 'deposit'
    having count(*) = 1 and bool_and(m.recipient = app.treasury_address(of_chain) and m.token = app.native_token(of_chain))
  )
  select jsonb_build_object('kind', 'defund', 'merchant_id', m.merchant_id, 'token', app.native_token(of_chain), 'amount', m.amount::text,
    'details', '{}'::jsonb, 'destination', app.treasury_address(of_chain), 'source', m.source, 'subject_id', coalesce(o.id, uuidv7()))
  from moved m join app.gas g on g.chain = of_chain and g.address = m.source
  left join app.outgoing_payment o on o.chain = of_chain and o.kind = 'defund' and o.source = m.source and o.conflict_key = key and o.status <> 'final'
  where o.id is not null or g.amount >= m.amount + fee and not exists (select from app.holding h
    where h.chain = of_chain and h.address = m.source and h.token = app.native_token(of_chain) and h.amount >= m.amount + fee)
$$;
comment on function custody.recognise_defund is 'The entry of gas that went from an address back to the treasury; null if the transaction moved none.';
