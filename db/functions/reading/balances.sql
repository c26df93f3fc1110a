-- Balances of a merchant, and where payouts of them go, as merchants see them. The API and the dashboard read them here, each with the merchant that
-- its key or session is of. It reads, and changes nothing.

create or replace function app.read_balances(of_merchant uuid) returns json
language sql stable set search_path = pg_catalog as $$
  select row_to_json(r) from app.merchant m
  cross join lateral (select m.fee_bps, (select ('[' || coalesce(string_agg(b.item::text, E', \n ' order by b.chain, b.token), '') || ']')::json
    from app.merchant_balance b where b.merchant_id = m.id) as balances) r
  where m.id = of_merchant
$$;
comment on function app.read_balances is 'The fee of a merchant, and all balances but those of nothing.';
grant execute on function app.read_balances to sluice_api;

create or replace function app.read_payout_addresses(of_merchant uuid) returns json
language sql stable set search_path = pg_catalog as $$
  select coalesce(json_agg(i order by i.chain), '[]') from (
    select p.chain, p.address, p.whitelisted, app.iso(p.whitelisted_at) as whitelisted_at, app.iso(p.updated_at) as updated_at
    from app.payout_address_state p where p.merchant_id = of_merchant) i
$$;
comment on function app.read_payout_addresses is 'Where payouts of each chain go, and since when, or from when on, the whitelist has that.';
grant execute on function app.read_payout_addresses to sluice_api;
