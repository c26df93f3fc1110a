-- Tests an endpoint, for a merchant (the API) or an operator (the command line), with an example of an event, which is delivered like every other one.
--
-- Its body says test, its id is evt_test_..., and no list of events shows it. Its subject is the endpoint, and its version counts the endpoint's tests.
-- Locks: endpoint. Errors: SL404 there is no such endpoint; SL422 the endpoint is disabled, or there is no such type.

create or replace function app.test_webhook(of_merchant uuid, endpoint uuid, of_type text default 'deposit.confirmed') returns uuid
language plpgsql security definer set search_path = pg_catalog as $$
declare
  own app.webhook_endpoint := app.own_webhook_endpoint(of_merchant, endpoint);
  event uuid := uuidv7();
  now timestamptz := clock_timestamp();
  delivery uuid;
begin
  perform app.refuse_disabled(own);
  perform app.check_webhook(own.url, array[of_type]);
  insert into app.event (id, merchant_id, type, subject_id, version, created_at, payload, is_test)
  values (event, of_merchant, of_type, own.id,
    app.next_version(own.id), now, app.example_event(event, of_type, now), true);
  insert into app.delivery as d (event_id, endpoint_id) values (event, own.id) returning d.id into delivery;
  perform app.enqueue('sequence_events');
  return delivery;
end $$;
comment on function app.test_webhook is 'Sends an example of an event to one endpoint, whatever types it gets; returns the id of its delivery.';
grant execute on function app.test_webhook to sluice_api;

-- The fields of app.emit_deposit_events, app.emit_payout_event, app.emit_payment_event and app.add_endpoint_event, and test. The numbers are those of a fee of 1 percent.
create or replace function app.example_event(event uuid, of_type text, at timestamptz) returns json
language sql volatile set search_path = pg_catalog as $$
  select case split_part(of_type, '.', 1) when 'deposit' then json_build_object(
    'type', of_type, 'id', app.event_id(event, true), 'deposit_id', app.public_id('dep', uuidv7()),
    'user', json_build_object('id', app.public_id('usr', uuidv7()), 'external_ref', 'test event, no user', 'metadata', json_build_object()),
    'chain', e.chain, 'token', 'USDC', 'amount', '25', 'txid', e.txid, 'created_at', app.iso(at), 'test', true)
  when 'payout' then json_build_object(
    'type', of_type, 'id', app.event_id(event, true), 'payout_id', app.public_id('pay', uuidv7()), 'chain', e.chain, 'token', 'USDC',
    'gross', '25', 'fee', '0.25', 'net', '24.75', 'address', e.address, 'txid', case of_type when 'payout.completed' then e.txid end,
    'error', case of_type when 'payout.failed' then
      json_build_object('code', 'address_not_whitelisted', 'message', 'the payout address was not whitelisted within 24 hours') end,
    'created_at', app.iso(at), 'test', true)
  when 'payment_request' then json_build_object(
    'type', of_type, 'id', app.event_id(event, true), 'external_id', 'test event, no request', 'currency', e.chain || '-USDC', 'address', e.address,
    'amount', '25', 'tolerance', '0', 'status', s.status, 'amount_received', s.received, 'amount_pending', case s.status when 'detected' then '15' else '0' end,
    'shortfall', case s.received when '25' then '0' when '10' then '15' else '25' end, 'late', false,
    'txid', case when s.received <> '0' then e.txid end, 'expires_at', app.iso(at), 'metadata', json_build_object(),
    'created_at', app.iso(at), 'test', true)
  else json_build_object(
    'type', of_type, 'id', app.event_id(event, true), 'webhook_endpoint_id', app.public_id('whe', uuidv7()), 'url', 'https://shop.example/test-event',
    'reason', 'gone', 'created_at', app.iso(at), 'test', true) end
  from (select min(c.chain) as chain, '0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060' as txid,
    '0x70997970C51812dc3A010C7d01b50e0d17dc79C8' as address from app.chain c where c.attempts_exclude_by = 'nonce') e
  left join (values ('detected', 'detected', '0'), ('partially_paid', 'detected', '10'), ('paid', 'paid', '25'), ('underpaid', 'underpaid', '10'),
    ('expired', 'expired', '0'), ('cancelled', 'cancelled', '0'), ('reopened', 'awaiting', '0')) s (type, status, received)
    on of_type = 'payment_request.' || s.type
$$;
comment on function app.example_event is 'The body of an example of an event of this type, without its sequence.';
