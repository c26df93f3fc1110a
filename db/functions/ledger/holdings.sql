-- What each address and the treasury hold, and how much of the treasury belongs to each merchant. These are sums over entries of the ledger, stored
-- beside them because payouts decide by them. A function that posts a movement calls these in the same transaction, and app.ledger_audit compares.
--
-- Amounts are in base units; a negative amount is subtracted.
-- Locks: the caller holds those of the treasury (app.lock_treasury), or, for app.add_holding alone, chain.cursor.

-- The row may be missing after an older copy of the database was restored: the deposits that it stands for become final a moment later.
create or replace function app.add_holding(of_chain text, of_address text, of_token text, of_merchant uuid, more numeric) returns void
language sql set search_path = pg_catalog as $$
  insert into app.holding as h (chain, address, token, merchant_id, amount) values (of_chain, of_address, of_token, of_merchant, more)
  on conflict (chain, address, token) do update set amount = h.amount + excluded.amount
$$;
comment on function app.add_holding is 'Adds to the final, credited money that an address holds.';

create or replace function app.add_treasury(of_chain text, of_token text, more numeric, more_reserved numeric) returns void
language sql set search_path = pg_catalog as $$
  update app.treasury set balance = balance + more, reserved = reserved + more_reserved where chain = of_chain and token = of_token
$$;
comment on function app.add_treasury is 'Adds to what the treasury holds of a token, and to how much of it is reserved for transactions that are not final.';

create or replace function app.add_share(of_chain text, of_token text, of_merchant uuid, more numeric, more_reserved numeric) returns void
language sql set search_path = pg_catalog as $$
  insert into app.treasury_share as s (chain, token, merchant_id, amount, reserved) values (of_chain, of_token, of_merchant, more, more_reserved)
  on conflict (chain, token, merchant_id) do update set amount = s.amount + excluded.amount, reserved = s.reserved + excluded.reserved
$$;
comment on function app.add_share is 'Adds to a merchant''s share of the treasury, and to how much of it is reserved for its payments under way.';
