-- How a merchant looks to its customers, on the pages of its payment requests.
--
-- Promises: a page shows the texts as texts, the colour and the logo as those that were checked by the dashboard; links lead to https alone;
-- only the sites that the merchant names show its pages in frames.
-- Errors: SL404 there is no such merchant; SL422 refused, the message says why.

create or replace function app.set_brand(of_merchant uuid, new_name text, new_accent text, new_site_url text, new_help_url text, new_logo bytea,
  keep_logo boolean) returns void
language plpgsql security definer set search_path = pg_catalog as $$
begin
  perform app.require_clear_name('the name', new_name);
  insert into app.merchant_brand as b (merchant_id, name, accent, site_url, help_url, logo)
  values (of_merchant, new_name, new_accent, new_site_url, new_help_url, new_logo)
  on conflict (merchant_id) do update set name = excluded.name, accent = excluded.accent, site_url = excluded.site_url, help_url = excluded.help_url,
    logo = case when keep_logo then b.logo else excluded.logo end;
exception when foreign_key_violation then
  raise exception 'there is no merchant with this id' using errcode = 'SL404', detail = 'merchant';
when check_violation then
  raise exception 'the look of the payment page cannot be like this' using errcode = 'SL422';
end $$;
comment on function app.set_brand is 'Sets all that the payment page shows of a merchant; null is as without. The logo stays as it is if keep_logo.';

create or replace function app.brand_of(merchant uuid) returns json
language sql stable set search_path = pg_catalog as $$
  select row_to_json(i) from (select) one left join app.merchant_brand b on b.merchant_id = merchant
  cross join lateral (select b.name, b.accent, b.site_url, b.help_url, b.logo is not null as has_logo,
    array(select s.origin from app.payment_page_site s where s.merchant_id = merchant order by s.origin) as sites) i
$$;
comment on function app.brand_of is 'What the payment page shows of a merchant, but for its logo, and the sites that may show it in a frame.';

create or replace function app.set_payment_page_sites(of_merchant uuid, origins text[]) returns void
language plpgsql security definer set search_path = pg_catalog as $$
begin
  if cardinality(origins) > 20 then raise exception 'a merchant has at most 20 sites' using errcode = 'SL422'; end if;
  delete from app.payment_page_site s where s.merchant_id = of_merchant and s.origin <> all (origins);
  insert into app.payment_page_site (merchant_id, origin) select of_merchant, unnest(origins) on conflict do nothing;
exception when foreign_key_violation then
  raise exception 'there is no merchant with this id' using errcode = 'SL404', detail = 'merchant';
when check_violation then
  raise exception 'a site is an origin, such as https://shop.example' using errcode = 'SL422';
end $$;
comment on function app.set_payment_page_sites is 'Sets the sites that may show the payment page in a frame: these, and no others.';

create or replace function app.payment_logo(of_page_token text) returns bytea
language sql stable security definer set search_path = pg_catalog as $$
  select b.logo from app.payment_request r join app.merchant_brand b on b.merchant_id = r.merchant_id where r.page_token = of_page_token
$$;
comment on function app.payment_logo is 'The logo of the merchant of a payment page, a PNG; null if it has none.';
grant execute on function app.payment_logo to sluice_api;
