-- Transaction
-- How a merchant looks on the pages of its payment requests.
create table app.merchant_brand (
  merchant_id uuid primary key references app.merchant,
  name text check (length(name) between 1 and 60),
  accent text check (accent ~ '^#[0-9a-f]{6}$'),
  site_url text check (site_url ~ '^https://' and length(site_url) <= 500),
  help_url text check (help_url ~ '^https://' and length(help_url) <= 500),
  logo bytea check (octet_length(logo) <= 524288)
);
comment on table app.merchant_brand is 'What the page of a payment request shows of its merchant. A merchant without a row, and each null, is shown as before.';
comment on column app.merchant_brand.name is 'Instead of the name of the account.';
comment on column app.merchant_brand.accent is 'The colour of its buttons, such as #0b5cad.';
comment on column app.merchant_brand.site_url is 'A link to the merchant''s site.';
comment on column app.merchant_brand.help_url is 'A link to the merchant''s help.';
comment on column app.merchant_brand.logo is 'A PNG, made by the dashboard from what was uploaded.';
