-- Dismisses unattributed value, so that nobody has to look at it again. Only `sluice unattributed dismiss` calls this, as the owner of the database.
--
-- Promises: money stays as it is, and can still be credited or returned. A token is dismissed only as long as Sluice does not support it. Running it again,
-- or taking it back twice, changes nothing.
-- Errors: SL404 there is no such deposit; SL422 it cannot be dismissed; the message says why.

-- Inlined into the statements that use it: there may be millions of such deposits.
create or replace function app.is_dismissed(d app.deposit) returns boolean
language sql stable
return exists (select from app.dismissed x where x.deposit_id = d.id)
  or exists (select from app.dismissed x where x.chain = d.chain and x.token = d.token)
    and not exists (select from app.asset a where a.chain = d.chain and a.token = d.token);
comment on function app.is_dismissed is 'Whether an operator dismissed this deposit, or its token.';

create or replace function app.dismiss_deposit(of_deposit uuid) returns void
language plpgsql set search_path = pg_catalog as $$
declare d app.deposit;
begin
  select * into d from app.deposit o where o.id = of_deposit;
  if d.id is null then
    raise exception 'there is no deposit %; sluice unattributed list shows unattributed deposits', app.public_id('dep', of_deposit) using errcode = 'SL404';
  elsif d.credited then
    raise exception '% is credited to its merchant', app.public_id('dep', d.id) using errcode = 'SL422';
  end if;
  insert into app.dismissed (chain, deposit_id) values (d.chain, d.id) on conflict do nothing;
end $$;
comment on function app.dismiss_deposit is 'Dismisses one unattributed deposit.';

create or replace function app.dismiss_token(of_chain text, of_token text) returns bigint
language plpgsql set search_path = pg_catalog as $$
declare
  wanted text := app.stored_token(of_chain, of_token);
  count bigint := (select count(*) from app.deposit d where d.chain = of_chain and d.token = wanted and not d.credited);
begin
  if exists (select from app.asset a where a.chain = of_chain and a.token = upper(of_token)) then
    raise exception 'Sluice supports % on %: its deposits are dismissed one by one', upper(of_token), of_chain using errcode = 'SL422';
  elsif count = 0 then
    raise exception 'no deposit of a token % arrived on %; sluice unattributed list shows what did', of_token, of_chain using errcode = 'SL422';
  end if;
  insert into app.dismissed (chain, token) values (of_chain, wanted) on conflict do nothing;
  return count;
end $$;
comment on function app.dismiss_token is 'Dismisses all of a token that Sluice does not support, also what is still to come; returns how many deposits are there.';

create or replace function app.list_token_again(of_chain text, of_token text) returns bigint
language plpgsql set search_path = pg_catalog as $$
declare wanted text := app.stored_token(of_chain, of_token);
begin
  delete from app.dismissed x where x.chain = of_chain and x.token = wanted;
  if not found then raise exception '% on % is not dismissed', of_token, of_chain using errcode = 'SL422'; end if;
  return (select count(*) from app.deposit d where d.chain = of_chain and d.token = wanted and not d.credited);
end $$;
comment on function app.list_token_again is 'Takes the dismissal of a token back; returns how many deposits are there.';

create or replace function app.stored_token(of_chain text, given text) returns text
language sql stable set search_path = pg_catalog as $$
  select app.match_key(given, c.folds_addresses) from app.chain c where c.chain = of_chain
$$;
comment on function app.stored_token is 'A token that is not supported, as deposits name it: where upper and lower case make no difference in addresses, its contract in lower case.';
