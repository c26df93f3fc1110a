-- The events of payouts: payout.completed (app.finish_payment) or payout.failed (fail.sql), in the transaction that ends the payout. There is one for each
-- payout, so its version is 1.

create or replace function app.emit_payout_event(p app.payout, of_type text) returns void
language plpgsql set search_path = pg_catalog as $$
declare
  event uuid := uuidv7();
  at timestamptz := clock_timestamp();
begin
  perform app.add_event(event, p.merchant_id, of_type, p.id, 1, at, json_build_object(
    'type', of_type, 'id', app.public_id('evt', event), 'payout_id', app.public_id('pay', p.id), 'chain', p.chain, 'token', p.token,
    'gross', app.decimal(p.gross, a.decimals), 'fee', app.decimal(p.fee, a.decimals), 'net', app.decimal(p.net, a.decimals),
    'address', p.address, 'txid', p.txid,
    'error', case when p.error_code is not null then json_build_object('code', p.error_code, 'message', p.error_message) end,
    'created_at', app.iso(at)))
  from app.asset a where a.chain = p.chain and a.token = p.token;
end $$;
comment on function app.emit_payout_event is 'Inserts the event of a payout that has ended, its deliveries, and the job that sends them.';
