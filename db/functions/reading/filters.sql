-- What the lists of this folder have in common: amounts and addresses that are asked for. It reads, and changes nothing.

create or replace function app.asked_amount(asked jsonb, bound text) returns numeric
language plpgsql stable set search_path = pg_catalog as $$
begin
  if asked ->> bound is null then return null; end if;
  if asked ->> 'chain' is null or asked ->> 'token' is null then
    raise exception '% is no amount without its token: say of which, and on which chain', bound using errcode = 'SL422';
  end if;
  -- Of a pair that does not exist there is nothing, whatever its amount.
  return coalesce((select (asked ->> bound)::numeric * 10::numeric ^ a.decimals from app.asset a
    where a.chain = asked ->> 'chain' and a.token = asked ->> 'token'), 0);
end $$;
comment on function app.asked_amount is 'An amount that is asked for, in base units of the chain and token that are asked for; null if none is. Raises SL422 if these are missing.';
grant execute on function app.asked_amount to sluice_api;

-- Chains differ in whether the case of an address means something.
create or replace function app.is_address(of_chain text, address text, asked text) returns boolean
language sql stable set search_path = pg_catalog as $$
  select address = asked or (lower(address) = lower(asked) and (select c.folds_addresses from app.chain c where c.chain = of_chain))
$$;
comment on function app.is_address is 'Whether this is the address that is asked for, in any case where the chain knows none.';
grant execute on function app.is_address to sluice_api;
