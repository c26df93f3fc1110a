-- Where payouts of a merchant go, one address for each chain. PUT /v1/payout-address calls this.
--
-- It only says where the merchant wants its money: custody pays only to the whitelist, and a payout keeps the address that was registered when it
-- was made. An address of this service is refused here, and again when a payout is made.
-- What is left on a chain that was disabled can still be paid, so its address can be set.
-- Errors: SLCHN the chain is not enabled for the merchant, and nothing is left there; SL422 the address is one of this service.

create or replace function app.set_payout_address(of_merchant uuid, of_chain text, of_address text) returns text
language plpgsql security definer set search_path = pg_catalog as $$
begin
  if not exists (select from app.merchant_chain m where m.merchant_id = of_merchant and m.chain = of_chain and m.enabled)
    and not exists (select from app.balance_now b where b.merchant_id = of_merchant and b.chain = of_chain)
    and not exists (select from app.payout p
      where p.merchant_id = of_merchant and p.chain = of_chain and p.status not in ('completed', 'failed')) then
    raise exception 'not enabled for this account: %', of_chain using errcode = 'SLCHN';
  end if;
  perform from custody.address p where p.address = of_address;
  if found then
    raise exception 'this address belongs to this service; register an address of your own' using errcode = 'SL422';
  end if;
  insert into app.payout_address (merchant_id, chain, address) values (of_merchant, of_chain, of_address)
  on conflict (merchant_id, chain) do update set address = excluded.address, updated_at = clock_timestamp();
  return (select row_to_json(p) from (select of_chain as chain, of_address as address) p);
end $$;
comment on function app.set_payout_address is 'Registers where payouts of a chain go, and replaces the address before; returns the body of the response. The address comes checked and in its display form.';
grant execute on function app.set_payout_address to sluice_api;
