-- How a merchant looks to its customers, in the dashboard.
--
-- Customers believe what the payment page says: changing it needs the second factor again.
-- Locks: change_request. Errors: those of dashboard.begin_change, app.set_brand and app.set_payment_page_sites; SLSTP, SLSUS.

create or replace function dashboard.brand(token text) returns json
language sql stable security definer set search_path = pg_catalog as $$
  select app.brand_of(dashboard.merchant_of(brand.token))
$$;
comment on function dashboard.brand is 'What the payment page shows of the merchant, but for its logo.';
grant execute on function dashboard.brand to sluice_dashboard;

create or replace function dashboard.logo(token text) returns bytea
language plpgsql stable security definer set search_path = pg_catalog as $$
declare merchant uuid := dashboard.merchant_of(token);
begin
  return (select b.logo from app.merchant_brand b where b.merchant_id = merchant);
end $$;
comment on function dashboard.logo is 'The logo of the merchant, a PNG; null if it has none.';
grant execute on function dashboard.logo to sluice_dashboard;

create or replace function dashboard.set_brand(token text, request uuid, name text, accent text, site_url text, help_url text, logo bytea,
  keep_logo boolean) returns void
language plpgsql security definer set search_path = pg_catalog as $$
declare who dashboard.audit_entry := dashboard.begin_change(token, request);
begin
  perform dashboard.require_full_rights(token);
  perform app.set_brand(who.merchant_id, name, accent, site_url, help_url, logo, keep_logo);
  perform dashboard.note(who, 'payment_page.set', name, concat_ws(', ', accent, site_url, help_url,
    case when logo is not null then 'another logo' when not keep_logo then 'no logo' end));
end $$;
comment on function dashboard.set_brand is 'Sets all that the payment page shows of the merchant; null is as without.';
grant execute on function dashboard.set_brand to sluice_dashboard;

create or replace function dashboard.set_payment_page_sites(token text, request uuid, origins text[]) returns void
language plpgsql security definer set search_path = pg_catalog as $$
declare who dashboard.audit_entry := dashboard.begin_change(token, request);
begin
  perform dashboard.require_full_rights(token);
  perform app.set_payment_page_sites(who.merchant_id, origins);
  perform dashboard.note(who, 'payment_page.sites', null, coalesce(nullif(array_to_string(origins, ', '), ''), 'none'));
end $$;
comment on function dashboard.set_payment_page_sites is 'Sets the sites that may show the payment page in a frame: these, and no others.';
grant execute on function dashboard.set_payment_page_sites to sluice_dashboard;
