-- What custody signed and neither its journal nor this copy of the database knows, recognised by what it did on the chain. sluice custody reconcile asks
-- here for each unknown transaction (custody/found.ts), seals what comes back as an entry of the journal, and imports it (custody.reconcile): so what has
-- paid a payout ends it, and it is not paid again.
--
-- Promises: only a final transaction that had its effect is recognised, and only if it took nothing but money of ours, and all of it went to one place
-- where custody would have sent it: to the treasury, or from there to an address on a whitelist. It paid a payout, or a withdrawal, if that has its
-- address, token and amount, was requested before, and nothing else may pay it. Of equal ones the oldest is taken: as much was paid, whichever it was.
-- What this cannot know is the id and the gross of a payout that the copy does not have: it gets a new id, and the largest gross with this net at the
-- merchant's fee. Cancels, and what failed, are left to an operator.
-- Locks: none.

create or replace function custody.recognise(of_chain text, of_txid text) returns jsonb
language plpgsql stable set search_path = pg_catalog as $$
declare
  treasury text := app.treasury_address(of_chain);
  has_outputs boolean := app.uses_outputs(of_chain);
  t record;
  paid record;
  entry jsonb;
begin
  select max(i.block_time) as block_time, max(i.fee) as fee, max(i.nonce) as nonce, (array_agg(i.account order by i.fee desc, i.id))[1] as fee_payer,
    array_agg(i.outpoint order by nullif(split_part(i.id, ':', 3), '')::int) filter (where i.outpoint is not null) as inputs into t
  from chain.confirmed_tx i join chain.cursor c using (chain) where i.chain = of_chain and i.txid = of_txid and i.block_height <= c.final_height
  having bool_and(i.success);
  if t.fee_payer is null or has_outputs and t.fee = 0 then return null; end if; -- without a fee, it spent outputs of others, too
  if has_outputs then t.fee_payer := treasury; end if;
  select count(*) as parts, min(m.sender) as sender, min(m.recipient) as recipient, min(m.token) as token, min(m.amount) as amount into paid
  from custody.moved_by(of_chain, of_txid) m where not m.stays;
  if paid.parts = 0 then entry := custody.recognise_sweep(of_chain, of_txid, coalesce(t.inputs[1], t.fee_payer || ':' || t.nonce),
      case when t.fee_payer = treasury then 0 else t.fee end);
  elsif paid.parts = 1 and (has_outputs or paid.sender = treasury) then
    entry := coalesce(custody.recognise_waiting(of_chain, paid.recipient, paid.token, paid.amount, t.block_time),
        custody.recognise_lost(of_chain, paid.recipient, paid.token, paid.amount))
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
  select m.sender, m.recipient, m.token, m.amount, exists (select from custody.address o where o.address = m.recipient)
  from app.unknown_transaction u cross join lateral jsonb_to_recordset(u.moved) m (sender text, recipient text, token text, amount numeric)
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

create or replace function custody.paid_again(of_chain text, of_txid text) returns text
language sql stable set search_path = pg_catalog as $$
  select case w.entry ->> 'kind' when 'pay' then 'payout ' || app.public_id('pay', (w.entry ->> 'subject_id')::uuid) else 'withdrawal ' || (w.entry ->> 'subject_id') end
  from custody.moved_by(of_chain, of_txid) m
  cross join (select max(i.block_time) as at from chain.confirmed_tx i where i.chain = of_chain and i.txid = of_txid) i
  cross join lateral custody.recognise_waiting(of_chain, m.recipient, m.token, m.amount, i.at) w (entry)
  where not m.stays and w.entry is not null limit 1
$$;
comment on function custody.paid_again is 'The payout or the withdrawal that waits to pay exactly what an unknown transaction has paid, in words; null if there is none.';

create or replace function custody.recognise_waiting(of_chain text, of_recipient text, of_token text, of_amount numeric, block_time timestamptz) returns jsonb
language sql stable set search_path = pg_catalog as $$
  select w.entry from (
    select p.id, p.created_at, jsonb_build_object('kind', 'pay', 'subject_id', p.id, 'merchant_id', p.merchant_id,
      'details', jsonb_build_object('gross', p.gross::text, 'fee', p.fee::text, 'fee_bps', p.fee_bps)) as entry
    from app.payout p
    where p.chain = of_chain and p.address = of_recipient and p.token = of_token and p.net = of_amount and p.status not in ('completed', 'failed')
    union all
    select s.id, s.created_at, jsonb_build_object('kind', 'withdraw', 'subject_id', s.id, 'merchant_id', null, 'details', '{}'::jsonb)
    from app.outgoing_payment s
    where s.kind = 'withdrawal' and s.chain = of_chain and s.recipient = of_recipient and s.token = of_token and s.amount = of_amount and s.status <> 'final'
  ) w
  where w.created_at <= block_time
    and not exists (select from app.attempt_fate f where f.chain = of_chain and f.subject_id = w.id and f.kind in ('pay', 'withdraw') and f.fate <> 'dead')
  order by w.created_at, w.id limit 1
$$;
comment on function custody.recognise_waiting is 'The entry of the oldest payout or withdrawal that waits for exactly this amount at this address, was begun before this time, and that nothing else may pay; null if there is none.';

create or replace function custody.recognise_lost(of_chain text, recipient text, of_token text, amount numeric) returns jsonb
language sql stable set search_path = pg_catalog as $$
  select case when m.id is null then jsonb_build_object('kind', 'withdraw', 'subject_id', uuidv7(), 'merchant_id', null, 'details', '{}'::jsonb)
    else jsonb_build_object('kind', 'pay', 'subject_id', uuidv7(), 'merchant_id', m.id,
      'details', jsonb_build_object('gross', g.gross::text, 'fee', (g.gross - amount)::text, 'fee_bps', m.fee_bps)) end
  from (select min(w.merchant_id::text)::uuid as merchant_id from custody.whitelist w where w.chain = of_chain and w.address = recipient
    having count(distinct coalesce(w.merchant_id::text, '')) = 1) w
  join app.asset a on a.chain = of_chain and a.token = of_token
  left join app.merchant m on m.id = w.merchant_id
  left join lateral (select max(n) as gross from generate_series(div(amount * 10000, 10000 - m.fee_bps) - 1, div(amount * 10000, 10000 - m.fee_bps) + 2) n
    where n - div(n * m.fee_bps, 10000) = amount) g on true
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
      where o.chain = of_chain and o.kind = 'sweep' and o.source = s.source and o.token = s.token and o.merchant_id is not null and o.status <> 'final'
        and (o.status = 'allocated' or o.conflict_key is not distinct from key)
        and not exists (select from app.attempt_fate f where f.chain = of_chain and f.subject_id = o.id and f.fate <> 'dead') limit 1), uuidv7()))
  from swept s
  where app.uses_outputs(of_chain)
    or exists (select from app.holding h where h.chain = of_chain and h.address = s.source and h.token = s.token and h.amount >= s.amount + own_fee)
$$;
comment on function custody.recognise_sweep is 'The entry of a sweep of one merchant''s money to the treasury; null if the transaction was none.';
