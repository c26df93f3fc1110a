-- Amounts as people read them. Tables hold integers in base units (wei, satoshi); a token's decimals (app.asset) convert them to whole coins. Both
-- are exact: nothing is rounded. The API and the bodies of events call app.decimal; views and queries of analysts call analytics.coins.

-- Inlined into the statements that use it, because deriving deposits needs the speed. The two constants are those of nearly all tokens, and avoid
-- casting a text for each row.
create or replace function app.decimal(amount numeric, decimals int) returns text
language sql immutable parallel safe
return trim_scale(amount * case decimals when 18 then 1e-18 when 6 then 1e-6 else ('1e-' || decimals::text)::numeric end)::text;
comment on function app.decimal is 'An amount in base units as an exact decimal string without trailing zeros.';
grant execute on function app.decimal to sluice_api, sluice_jobs;

create or replace function analytics.coins(amount_base_units numeric, decimals int) returns numeric
language sql immutable parallel safe
return trim_scale(amount_base_units * ('1e-' || decimals::text)::numeric);
comment on function analytics.coins is 'An amount in base units as the exact number of whole coins of a token with so many decimals; null if they are not known.';
grant execute on function analytics.coins to sluice_analyst;
