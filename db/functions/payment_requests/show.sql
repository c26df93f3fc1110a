-- The current state of a payment request, as finished JSON: for its merchant (GET /v1/payment-requests/<external_id>), and for a visitor who has the
-- token of its page. The API adds the payment URI, and gets its parts from here. Reads only; no row if there is no such request.

create or replace function app.find_payment_request(of_merchant uuid, of_external_id text) returns setof app.payment_response
language sql stable security definer set search_path = pg_catalog as $$
  select row_to_json(b)::text, r.chain, r.token, w.address, r.amount::text
  from app.payment_request r
  join app.asset a on a.chain = r.chain and a.token = r.token
  join app.address w on w.payment_request_id = r.id and w.chain = r.chain
  cross join lateral (
    select r.external_id, a.name as currency, w.address, app.decimal(r.amount, a.decimals) as amount, r.status,
      app.decimal(r.received, a.decimals) as amount_received, app.decimal(r.pending, a.decimals) as amount_pending, r.late, r.txid,
      app.iso(r.paid_at) as paid_at, app.iso(r.created_at) as created_at, app.iso(r.expires_at) as expires_at,
      app.iso(r.cancelled_at) as cancelled_at, r.metadata, r.return_url, r.page_token,
      (select coalesce(json_agg(row_to_json(i) order by c.seq), '[]') from app.receipt c cross join lateral (
        select c.txid, c.output_index, app.decimal(c.amount, a.decimals) as amount, c.status,
          app.confirmations(r.chain, c.block_height) as confirmations, c.late,
          app.public_id('pay', c.settlement_id) as settlement_id, app.iso(c.created_at) as created_at) i
        where c.payment_request_id = r.id) as receipts
  ) b
  where r.merchant_id = of_merchant and r.external_id = of_external_id
$$;
comment on function app.find_payment_request is 'The current state of a merchant''s payment request, with its receipts.';
grant execute on function app.find_payment_request to sluice_api;

-- The token shows this one request, and nothing else of the merchant but its name.
create or replace function app.payment_page(of_page_token text) returns setof app.payment_response
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
      r.late, r.txid, app.iso(least(r.expires_at, r.cancelled_at)) as expires_at, r.external_id, r.return_url
  ) b
  where r.page_token = of_page_token
$$;
comment on function app.payment_page is 'What the page of a payment request shows to a visitor who has its token. Its confirmations are those of the youngest pending receipt; null if none is pending. A cancelled request expired when it was cancelled.';
grant execute on function app.payment_page to sluice_api;

create or replace function app.confirmations(of_chain text, of_height int) returns int
language sql stable set search_path = pg_catalog as $$
  select case when of_height is null then 0 else greatest(0, c.head_height - of_height + 1) end from chain.cursor c where c.chain = of_chain
$$;
comment on function app.confirmations is 'How many blocks confirm this height, its own included; 0 if the height is null. Null for a chain that was never followed.';

