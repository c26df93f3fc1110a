-- Derives deposits from the transfers that a transaction touched: the one step in which facts of the chain become
-- deposits. chain.derive calls it, at COMMIT.
--
-- It compares the net state of every touched transfer, however often it was deleted and inserted meanwhile, with the
-- deposit at its place:
--   * a transfer without a deposit: the deposit is made, pending. It is credited if its address was asked for on the
--     chain, the token is supported, and, at a payment request's address, is the requested one. Triggers withhold
--     protocol income, and what is being returned. What one of our addresses sends is no deposit, by custody's list,
--     which a restored copy has; nor is what arrives in the treasury by a transaction of ours;
--   * a pending deposit without a transfer is reorged; a reorged one that has it again is pending. One whose amount
--     changed is reorged, with the old amount, and pending, with the new one. One that only moved to another block is
--     updated without an event;
--   * a final deposit is never changed. If it vanished, moved or changed, an incident opens, which closes by itself
--     when its statement is no longer true. (One that vanished and is there again in another block has moved: that is
--     one incident, not two.) A different payment at a place that holds a final deposit is held back, as an incident
--     (payment_replaced), until an operator decides.
-- Deposit and transfer belong together when key, address and token agree. The caller holds the chain's row in
-- chain.cursor. Events are written in the order of blocks, lost deposits before new ones.

-- A few keys meet tables of any size, whose statistics may be old. So each key is looked up by index (lateral with
-- offset 0, which the planner cannot turn into a join over the whole table), and no plan for many keys is kept from when
-- the tables were small (chain.plan_for). Both were measured: 2 to 10 times slower without.
create or replace function chain.derive_deposits(of_chain text) returns void
language plpgsql set search_path = pg_catalog set random_page_cost = 1.1 as $$
declare
  keys text[];
  ids uuid[];
  types text[];
  versions int[];
  tokens text[];
  amounts numeric[];
  folds boolean;
begin
  with gone as (delete from chain.touched where txn = pg_current_xact_id() and chain = of_chain returning id)
  select array_agg(distinct id) into keys from gone;
  if keys is null then return; end if;
  folds := (select c.folds_addresses from app.chain c where c.chain = of_chain);

  with key as (
    select id, split_part(id, ':', 2) as txid, split_part(id, ':', 3)::int as output_index from unnest(keys) as k (id)
  ), deposit as (
    select key.id as transfer_id, d.*
    from key cross join lateral (
      select * from app.deposit d where d.txid = key.txid and d.output_index = key.output_index and d.chain = of_chain offset 0
    ) d
  ), transfer as (
    select t.id, t.txid, t.output_index, t.recipient, t.sender, t.token, t.amount, t.block_height, t.block_hash, t.transfer_kind
    from key cross join lateral (select * from chain.transfer t where t.id = key.id offset 0) t
    union all
    select u.id, u.txid, u.output_index, u.recipient, u.sender, u.token, u.amount, null, null, 'native'
    from key cross join lateral (select * from chain.unconfirmed u where u.id = key.id offset 0) u
    where not exists (select from chain.transfer t where t.id = key.id)
  ), net as (
    select d.id as deposit_id, d.status, d.credited, d.version, t.id is not null and (t.block_hash is not null or d.status is distinct from 'final') as alive, d.transfer_id,
      d.amount is distinct from t.amount as changed,
      (d.block_height, d.block_hash) is distinct from (t.block_height, t.block_hash) as moved,
      d.amount as old_amount, t.txid, t.output_index, t.transfer_kind, t.recipient, t.sender,
      coalesce(t.token, d.token) as token, coalesce(t.amount, d.amount) as amount,
      case when t.id is null then d.block_height else t.block_height end as block_height,
      case when t.id is null then d.block_hash else t.block_hash end as block_hash, t.id as live_id
    from deposit d full join transfer t on t.id = d.transfer_id and t.recipient = d.address and t.token = d.token
  ), held_back as ( -- a different payment at a position that holds a final deposit: no merchant is credited until an operator decides
    select n.* from net n
    where n.alive and (n.deposit_id is null or n.status = 'reorged')
      and exists (select from deposit d where d.transfer_id = n.live_id and d.status = 'final')
  ), created as (
    insert into app.deposit (chain, txid, output_index, transfer_kind, address, merchant_id, user_id, payment_request_id, token, amount, sender, block_height,
      block_hash, status, credited, version)
    select of_chain, n.txid, n.output_index, n.transfer_kind, a.address, a.merchant_id, a.user_id, a.payment_request_id, n.token, n.amount, n.sender, n.block_height,
      n.block_hash, 'pending', a.is_provisioned and s.token is not null
        and coalesce((select r.token from app.payment_request r where r.id = a.payment_request_id) = n.token, true), 1
    from net n
    cross join lateral (
      select * from app.address a
      where a.chain = of_chain and a.match_key = app.match_key(n.recipient, folds) and a.address = n.recipient offset 0
    ) a
    left join app.asset s on s.chain = of_chain and s.token = n.token
    where n.deposit_id is null and not exists (select from held_back h where h.live_id = n.live_id)
      and not exists (select from custody.address own where own.address = n.sender)
      and not (a.merchant_id is null and exists (select from app.outgoing_attempt o where o.chain = of_chain and o.txid = n.txid))
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
    where n.status = 'final' and n.alive and i.subject = n.deposit_id::text and i.resolved_at is null
      and (i.kind = 'final_deposit_vanished' or (i.kind = 'final_deposit_moved' and not n.moved) or (i.kind = 'final_deposit_changed' and not n.changed))
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
comment on function chain.derive_deposits is 'Makes the deposits of a chain agree with the transfers that the calling transaction touched, and writes the events for merchants.';
