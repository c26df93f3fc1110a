-- Makes a payment request: a requested amount, and an address from the pool that is used for nothing else. POST /v1/payment-requests calls this.
--
-- Promises: one request per (merchant, external_id in any Unicode form), with one address, for ever, in one transaction. The same Idempotency-Key with the same request
-- gets the same response, also while a duplicate is being made at the same time. of_amount is a plain decimal, in coins; of_tolerance is one, too, or a
-- percentage such as 0.5%, or null: the merchant's own; of_request is the hash of the request, if there is a key.
-- Errors: SL404 there is no such currency; SLCHN its chain is not enabled for the merchant; SLPFX the reference lacks the merchant's prefix; SL409
-- there is a request with this reference; SLINV a value is invalid (DETAIL names it); SL422 the chain cannot carry the amount; SLIDK the key was used
-- with another request; SL503 no address is free.

create or replace function app.request_ref(of_merchant uuid, given text) returns text
language sql stable set search_path = pg_catalog as $$
  select coalesce(
    (select r.external_id from app.payment_request r where r.merchant_id = of_merchant and r.external_id = given),
    (select r.external_id from app.payment_request r where r.merchant_id = of_merchant and r.external_id = normalize(given, NFC)),
    -- All of them: with a limit, PostgreSQL would read the merchant's requests in their order until it finds one.
    (select (array_agg(r.external_id order by r.seq))[1] from app.payment_request r
      where r.merchant_id = of_merchant and normalize(r.external_id, NFC) = normalize(given, NFC) and r.external_id is not nfc normalized),
    given)
$$;
comment on function app.request_ref is 'The reference of the payment request that a text names, as it is stored; the text itself if it names none. A request with this very text comes first, then one with another Unicode form of it.';
grant execute on function app.request_ref to sluice_api;

create or replace function app.request_payment(of_merchant uuid, of_currency text, of_external_id text, of_amount text, of_expiry interval, of_key text,
  of_request bytea, of_metadata jsonb default null, of_return_url text default null, of_tolerance text default null,
  of_late_after interval default '2 hours') returns app.payment_response
language plpgsql security definer set search_path = pg_catalog as $$
declare
  duplicate app.payment_request;
  asset app.asset;
  prefix text := (select m.prefix || '-' from app.merchant m where m.id = of_merchant);
  coins numeric := of_amount::numeric;
  tolerance numeric;
  r app.payment_request;
begin
  select * into duplicate from app.payment_request p where p.merchant_id = of_merchant and p.idempotency_key = of_key;
  if duplicate.id is null then
    select * into asset from app.asset a where a.name = of_currency and not app.is_disabled(a.chain, a.token);
    if asset.name is null then
      raise exception 'there is no currency with this name; GET /v1/crypto lists the currencies' using errcode = 'SL404', detail = 'currency';
    elsif not starts_with(of_external_id, prefix) or of_external_id = prefix then
      raise exception 'external_id must begin with %, followed by a reference of your own', prefix using errcode = 'SLPFX';
    elsif scale(coins) > asset.decimals then
      raise exception '% has at most % decimals', of_currency, asset.decimals using errcode = 'SLINV', detail = 'amount';
    elsif coins <= 0 then
      raise exception 'must be more than zero' using errcode = 'SLINV', detail = 'amount';
    elsif coins * 10::numeric ^ asset.decimals < asset.min_payment then
      raise exception 'amount: must be at least % %; less is no payment', app.decimal(asset.min_payment, asset.decimals), of_currency
        using errcode = 'SL422';
    elsif coins * 10::numeric ^ asset.decimals < asset.sweep_min then
      raise exception 'amount: must be at least % %; less is not worth collecting from its address, which is used for nothing else',
        app.decimal(asset.sweep_min, asset.decimals), of_currency using errcode = 'SL422';
    elsif coins * 10::numeric ^ asset.decimals > asset.max_payment then
      raise exception 'amount: there are not so many %', of_currency using errcode = 'SL422';
    elsif not exists (select from app.merchant_chain m where m.merchant_id = of_merchant and m.chain = asset.chain and m.enabled) then
      raise exception 'not enabled for this account: %', asset.chain using errcode = 'SLCHN';
    end if;
    perform app.lock_reference(of_merchant, of_external_id);
    of_external_id := app.request_ref(of_merchant, of_external_id); -- so that another form of it conflicts, too
    perform from app.payment_request p where p.merchant_id = of_merchant and p.external_id = of_external_id;
    if not found then perform app.require_clear_reference('external_id', of_external_id); end if;
    tolerance := app.tolerance_of(of_merchant, coins * 10::numeric ^ asset.decimals, of_tolerance, asset.decimals);
    insert into app.payment_request as p (merchant_id, external_id, chain, token, amount, tolerance, detected_from, late_after, decide_at,
      page_token, idempotency_key, request_hash, expires_at, metadata, return_url)
    values (of_merchant, of_external_id, asset.chain, asset.token, coins * 10::numeric ^ asset.decimals, tolerance, asset.min_payment, of_late_after,
      clock_timestamp() + of_expiry, translate(substr(app.new_webhook_secret(), 7), '+/', '-_'), of_key, case when of_key is not null then of_request end, clock_timestamp() + of_expiry,
      coalesce(of_metadata, '{}'), of_return_url)
    on conflict do nothing returning * into r; -- waits for a duplicate that is being made at the same time
    if r.id is null then
      select * into duplicate from app.payment_request p where p.merchant_id = of_merchant and p.idempotency_key = of_key;
    end if;
  end if;
  if r.id is not null then
    perform app.take_payment_address(r);
  elsif duplicate.id is null then
    raise exception 'there is a payment request with this external_id; GET /v1/payment-requests/<external_id> shows it' using errcode = 'SL409';
  elsif duplicate.request_hash <> of_request then
    raise exception 'this Idempotency-Key was used with another request' using errcode = 'SLIDK';
  end if;
  return app.created_payment_request(coalesce(r.id, duplicate.id));
end $$;
comment on function app.request_payment is 'Makes the payment request with this reference, and gives it an address; with the Idempotency-Key of an earlier call, returns the same response.';
grant execute on function app.request_payment to sluice_api;

create or replace function app.tolerance_of(of_merchant uuid, amount numeric, given text, decimals int) returns numeric
language plpgsql stable set search_path = pg_catalog as $$
declare tolerance numeric;
begin
  if given is null then
    return (select floor(amount * m.payment_tolerance_bps / 10000) from app.merchant m where m.id = of_merchant);
  elsif right(given, 1) <> '%' and scale(given::numeric) > decimals then
    raise exception 'has at most % decimals', decimals using errcode = 'SLINV', detail = 'tolerance';
  end if;
  tolerance := case right(given, 1) when '%' then floor(amount * rtrim(given, '%')::numeric / 100) else given::numeric * 10::numeric ^ decimals end;
  if tolerance * 2 > amount or right(given, 1) = '%' and rtrim(given, '%')::numeric > 50 then
    raise exception 'must be at most half of the amount' using errcode = 'SLINV', detail = 'tolerance';
  end if;
  return tolerance;
end $$;
comment on function app.tolerance_of is 'How much of an amount may be missing, in base units: as given, or as the merchant has it for all its requests.';

create or replace function app.created_payment_request(of_request uuid) returns app.payment_response
language sql stable set search_path = pg_catalog as $$
  select row_to_json(b)::text, r.chain, r.token, w.address, r.amount::text
  from app.payment_request r
  join app.asset a on a.chain = r.chain and a.token = r.token
  join app.address w on w.payment_request_id = r.id and w.chain = r.chain
  cross join lateral (
    select r.external_id, a.name as currency, w.address, app.decimal(r.amount, a.decimals) as amount,
      app.decimal(r.tolerance, a.decimals) as tolerance, app.iso(r.expires_at) as expires_at, r.metadata, r.return_url, r.page_token
  ) b
  where r.id = of_request
$$;
comment on function app.created_payment_request is 'The body of the response to the call that made a payment request.';

