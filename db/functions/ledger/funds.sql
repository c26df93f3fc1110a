-- What the treasury can pay for. A function that begins a payment, a sweep or a withdrawal asks here before it reserves money and takes a nonce or
-- outputs.
--
-- A merchant is paid from its own money in the treasury (its share, app.treasury_share) and from the operator's, never from another merchant's: a
-- payment is allowed if the operator's own money is not below zero after it. Amounts are in base units.
-- Locks: none. The result stays true while the caller holds the treasury's locks (app.lock_treasury); without them it is a forecast.

-- A share below zero, or below what is reserved of it, is not set off: money that the operator advanced to a merchant is back only when the
-- merchant's addresses are swept.
create or replace function app.operator_funds(of_chain text, of_token text) returns numeric
language sql stable set search_path = pg_catalog as $$
  select coalesce((select balance - reserved from app.treasury where chain = of_chain and token = of_token), 0)
    - coalesce((select sum(amount - reserved) from app.treasury_share where chain = of_chain and token = of_token and amount > reserved), 0)
$$;
comment on function app.operator_funds is 'The operator''s own free money in the treasury, in base units: fees earned and top-ups, less network fees and what was advanced to merchants whose addresses are not swept yet. Below zero after unforeseen losses.';

-- The merchant's own share pays as much of the gross as it can; the operator's money pays the rest, and the network fee. Without a merchant (a
-- withdrawal) there is no share.
create or replace function app.funds_after(of_chain text, of_token text, of_merchant uuid, amount numeric, gross numeric,
  network_fee numeric) returns numeric
language sql stable set search_path = pg_catalog as $$
  select app.operator_funds(of_chain, of_token) - amount + greatest(share.free, 0) - greatest(share.free - gross, 0)
    - case when app.native_token(of_chain) = of_token then network_fee else 0 end
  from (select coalesce((select s.amount - s.reserved from app.treasury_share s
    where s.chain = of_chain and s.token = of_token and s.merchant_id = of_merchant), 0) as free) share
$$;
comment on function app.funds_after is 'The operator''s own money that would be left, in base units, after paying amount of a token, with this network fee, to a merchant whose claim is gross.';

create or replace function app.short_by(of_chain text, of_token text, missing numeric, for_what text default '') returns text
language sql stable set search_path = pg_catalog as $$
  select a.token || for_what || ' short by ' || app.decimal(missing, a.decimals) from app.asset a where a.chain = of_chain and a.token = of_token
$$;
comment on function app.short_by is 'How much of a token is missing (given in base units), in words: "USDC for sweeping short by 0.5".';

create or replace function app.shortage(of_chain text, of_token text, of_merchant uuid, amount numeric, gross numeric,
  network_fee numeric) returns text
language sql stable set search_path = pg_catalog as $$
  select case
    when funds < 0 then app.short_by(of_chain, of_token, -funds)
    when native <> of_token and app.operator_funds(of_chain, native) < network_fee
      then app.short_by(of_chain, native, network_fee - app.operator_funds(of_chain, native), ' for the network fee')
  end
  from app.funds_after(of_chain, of_token, of_merchant, amount, gross, network_fee) funds, app.native_token(of_chain) native
$$;
comment on function app.shortage is 'What is short for such a payment, in words ("USDC short by 0.5"); null if nothing is.';

create or replace function app.native_token(of_chain text) returns text
language sql stable set search_path = pg_catalog as $$
  select native_token from app.chain where chain = of_chain
$$;
comment on function app.native_token is 'Token code of a chain''s native coin, in which network fees are paid.';
