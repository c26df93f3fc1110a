-- What the lists of this folder have in common: amounts, senders and times that are asked for. It reads, and changes nothing.

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

create or replace function app.is_address(of_chain text, address text, asked text) returns boolean
language sql stable set search_path = pg_catalog as $$
  select asked is null or (lower(left(address, 16)) = lower(left(asked, 16))
    and (select app.match_key(address, c.folds_addresses) = app.match_key(asked, c.folds_addresses) from app.chain c where c.chain = of_chain))
$$;
comment on function app.is_address is 'Whether this is the address that is asked for, in whatever case it was typed; true if none is.';
grant execute on function app.is_address to sluice_api;

-- seq has the order of created_at but for what is made at the same moment: so a range of time is found by its place in that order, and a minute around it.
create or replace function app.seqs_between(of_table regclass, of_merchant uuid, made_from timestamptz, made_to timestamptz, out above bigint, out below bigint)
language plpgsql stable set search_path = pg_catalog as $$
begin
  if made_from is not null then
    execute format('select seq from %s where merchant_id = $1 and created_at < $2 order by created_at desc limit 1', of_table)
      into above using of_merchant, made_from - interval '1 minute';
  end if;
  if made_to is not null then
    execute format('select seq from %s where merchant_id = $1 and created_at > $2 order by created_at limit 1', of_table)
      into below using of_merchant, made_to + interval '1 minute';
  end if;
  above := coalesce(above, 0);
  below := coalesce(below, 9223372036854775807);
end $$;
comment on function app.seqs_between is 'Between which seq of a table everything is that its merchant made in some time; null: without a bound.';
grant execute on function app.seqs_between to sluice_api;
