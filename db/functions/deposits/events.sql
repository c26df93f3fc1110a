-- Writes the events about deposits for merchants, in the transaction that changes the deposits. Called when deposits are derived or finalised
-- (chain.derive_deposits, chain.finalise_deposits) and when an operator decides (app.take_back, app.credit_unattributed).
--
-- Receipts of payment requests have no user, and so no event. Deliveries to a disabled endpoint are failed from the start; a merchant can have them
-- sent again. The job only wakes the pump, so nothing is lost if the job is lost.

-- A deposit whose amount changed by a reorganisation is reorged with the old amount and pending with the new one. So neither amount can be read from
-- its row.
create or replace function app.emit_deposit_events(ids uuid[], types text[], versions int[], tokens text[], amounts numeric[]) returns void
language plpgsql set search_path = pg_catalog set random_page_cost = 1.1 as $$
begin
  if cardinality(ids) is null then return; end if;
  with step as materialized (
    select uuidv7() as event_id, clock_timestamp() as at, s.n, s.type, s.version, s.token, s.amount, a.decimals,
      d.id, d.merchant_id, d.user_id, u.external_ref, u.metadata, d.chain, d.txid
    from unnest(ids, types, versions, tokens, amounts) with ordinality as s (deposit_id, type, version, token, amount, n)
    join app.deposit d on d.id = s.deposit_id
    join app.user u on u.id = d.user_id
    join app.asset a on a.chain = d.chain and a.token = s.token
  ), event as (
    insert into app.event (id, merchant_id, type, subject_id, version, created_at, payload)
    select event_id, merchant_id, type, id, version, at, json_build_object(
      'type', type, 'id', app.public_id('evt', event_id), 'deposit_id', app.public_id('dep', id),
      'user', json_build_object('id', app.public_id('usr', user_id), 'external_ref', external_ref, 'metadata', metadata),
      'chain', chain, 'token', token, 'amount', app.decimal(amount, decimals), 'txid', txid, 'created_at', app.iso(at))
    from step order by n
  )
  insert into app.delivery (event_id, endpoint_id, status, next_attempt_at, finished_at)
  select s.event_id, w.id, case when w.disabled_at is null then 'pending' else 'failed' end,
    case when w.disabled_at is null then s.at end, case when w.disabled_at is not null then s.at end
  from step s join app.webhook_endpoint w on w.merchant_id = s.merchant_id and w.deleted_at is null and s.type = any(w.event_types)
  order by s.n;
  perform app.enqueue('sequence_events');
end $$;
comment on function app.emit_deposit_events is 'Inserts events of users'' deposits in the order given, with their deliveries, and the job that sends them. The arrays are parallel; token and amount are those of the event.';
