-- Cancels a payment request. POST /v1/payment-requests/:external_id/cancel calls this.
--
-- From then on it is as if it had expired: nobody is asked to pay, and what comes all the same counts, as late. Cancelling it again changes
-- nothing, unless money came meanwhile: then it is refused.
-- Locks: payment request. Errors: SL404 there is no such request; SL422 it is not awaiting any more.

create or replace function app.cancel_payment_request(of_merchant uuid, of_external_id text) returns void
language plpgsql security definer set search_path = pg_catalog as $$
declare r app.payment_request;
begin
  select * into r from app.payment_request p where p.merchant_id = of_merchant and p.external_id = app.request_ref(of_merchant, of_external_id) for no key update;
  if r.id is null then
    raise exception 'there is no payment request with this id' using errcode = 'SL404', detail = 'payment_request';
  elsif r.status = 'cancelled' then
    return;
  elsif r.status <> 'awaiting' or r.expires_at <= clock_timestamp() then
    raise exception 'only a request that is awaiting can be cancelled; this one is %', case r.status when 'awaiting' then 'expired' else r.status end
      using errcode = 'SL422';
  end if;
  update app.payment_request p set cancelled_at = clock_timestamp() where p.id = r.id;
  perform app.refresh_payment(r.id);
end $$;
comment on function app.cancel_payment_request is 'Cancels a payment request that is awaiting.';
grant execute on function app.cancel_payment_request to sluice_api;
