-- Transaction
-- The sites on which a merchant shows the pages of its payment requests in frames.
create table app.payment_page_site (
  merchant_id uuid not null references app.merchant,
  origin text not null check (origin ~ '^(https://[a-z0-9]([a-z0-9.-]*[a-z0-9])?|http://(localhost|127\.0\.0\.1))(:[1-9][0-9]{0,4})?$' and length(origin) <= 200),
  primary key (merchant_id, origin)
);
comment on table app.payment_page_site is 'The sites that may show the pages of a merchant''s payment requests in a frame. Without a row, none may.';
comment on column app.payment_page_site.origin is 'As browsers compare it (RFC 6454): https, or http on the machine itself; the host in ASCII; no port that is the usual one.';
