-- Hands out deposit addresses from the pool that custody fills, to users (merchants/users.sql) and to payment requests.
--
-- An address belongs to one user, or one payment request, for ever. custody.address records once which merchant got it; custody decides by this
-- record what it may sign. From then on the address is watched on every chain of its family. Deposits are credited on the chains where the address
-- was asked for (is_provisioned); what arrives on other chains is unattributed.
-- Locks: the caller's user or payment request, then the address of the pool. An address that another transaction is taking is skipped, so no
-- caller waits.
-- Errors: SLCHN a chain is not enabled for the merchant; SL503 the pool is empty, try again in a moment.

create or replace function app.add_addresses(of_merchant uuid, of_user uuid, chains text[]) returns void
language plpgsql set search_path = pg_catalog as $$
declare
  refused text;
  of_family text;
begin
  select string_agg(asked, ', ' order by asked) into refused from unnest(chains) as a (asked)
  where not exists (select from app.merchant_chain m where m.merchant_id = of_merchant and m.chain = asked and m.enabled);
  if refused is not null then
    raise exception 'not enabled for this account: %', refused using errcode = 'SLCHN';
  end if;
  for of_family in
    select distinct c.family from app.chain c where c.chain = any(chains)
      and not exists (select from app.address a where a.user_id = of_user and a.chain = c.chain)
  loop
    perform app.take_address(of_merchant, of_user, of_family);
  end loop;
  update app.address a set is_provisioned = true where a.user_id = of_user and a.chain = any(chains) and not a.is_provisioned;
end $$;
comment on function app.add_addresses is 'Gives a user an address on each of the chains. The caller has locked the user''s row. Chains of one family share one address.';

-- A user has one address of a family, for ever. When a chain was added to the family later, the user's address is watched there, too.
create or replace function app.take_address(of_merchant uuid, of_user uuid, of_family text) returns void
language plpgsql set search_path = pg_catalog as $$
declare taken text;
begin
  select a.address into taken from app.address a join app.chain c using (chain) where a.user_id = of_user and c.family = of_family limit 1;
  taken := coalesce(taken, app.draw_address(of_merchant, of_family));
  insert into app.address (chain, match_key, address, user_id, merchant_id, is_provisioned)
  select c.chain, app.match_key(taken, c.folds_addresses), taken, of_user, of_merchant, false
  from app.chain c where c.family = of_family
  on conflict do nothing;
end $$;
comment on function app.take_address is 'Gives a user an address of a family, watched on all chains of the family. The caller has locked the user''s row.';

create or replace function app.take_payment_address(r app.payment_request) returns void
language plpgsql set search_path = pg_catalog as $$
declare
  of_family text := (select c.family from app.chain c where c.chain = r.chain);
  taken text := app.draw_address(r.merchant_id, of_family);
begin
  insert into app.address (chain, match_key, address, payment_request_id, merchant_id, is_provisioned)
  select c.chain, app.match_key(taken, c.folds_addresses), taken, r.id, r.merchant_id, c.chain = r.chain
  from app.chain c where c.family = of_family;
end $$;
comment on function app.take_payment_address is 'Gives a payment request an address that nothing else ever uses. It is watched on every chain of the family, and credited on the request''s chain alone.';

create or replace function app.draw_address(of_merchant uuid, of_family text) returns text
language plpgsql set search_path = pg_catalog as $$
declare drawn text;
begin
  update custody.address p set taken_at = clock_timestamp(), merchant_id = of_merchant
  where p.address = (
    select f.address from custody.address f
    where f.family = of_family and f.purpose = 'deposit' and f.taken_at is null and f.retired_at is null
    order by f.derivation_index limit 1 for update skip locked)
  returning p.address into drawn;
  if drawn is null then raise exception 'no free % address in the pool', of_family using errcode = 'SL503'; end if;
  return drawn;
end $$;
comment on function app.draw_address is 'Takes the oldest free address of a family from the pool for a merchant, for ever; returns it.';
