-- Merchant accounts: created, changed, given chains and suspended by the operator. The command line calls these as the owner of the database; no
-- other role can.
--
-- Each call does all of its work or none. While an account is suspended none of its keys works, including keys made meanwhile; each API process is
-- notified at the commit. In the dashboard its people still look, and end things (../dashboard/person.sql). A suspension touches nothing else: deposits
-- are credited, payouts under way end, webhooks are delivered, the pages of payment requests are shown.
-- Errors: SL404 there is no such merchant; SL422 refused, the message says why.

create or replace function app.create_merchant(name text, prefix text, chains text[], fee_bps int) returns uuid
language plpgsql security definer set search_path = pg_catalog as $$
declare
  merchant uuid;
  of_chain text;
begin
  if coalesce(trim(name), '') = '' then raise exception 'a merchant needs a name' using errcode = 'SL422'; end if;
  perform app.require_clear_name('the name', name);
  if prefix is null or prefix !~ '^[a-z0-9]{2,12}$' then
    raise exception 'the prefix must be 2 to 12 lower-case letters and digits' using errcode = 'SL422';
  end if;
  if fee_bps is null or fee_bps not between 0 and 10000 then
    raise exception 'the fee must be 0 to 10000 basis points' using errcode = 'SL422';
  end if;
  insert into app.merchant as m (name, prefix, fee_bps) values (create_merchant.name, create_merchant.prefix, create_merchant.fee_bps)
  on conflict do nothing returning m.id into merchant;
  if merchant is null then raise exception 'the prefix % belongs to another merchant', prefix using errcode = 'SL422'; end if;
  foreach of_chain in array coalesce(chains, '{}') loop
    perform app.set_merchant_chain(merchant, of_chain, true);
  end loop;
  return merchant;
end $$;
comment on function app.create_merchant is 'Makes a merchant account with these chains enabled; returns its id.';

create or replace function app.update_merchant(of_merchant uuid, new_name text, new_fee_bps int) returns void
language plpgsql security definer set search_path = pg_catalog as $$
begin
  if trim(new_name) = '' then raise exception 'a merchant needs a name' using errcode = 'SL422'; end if;
  perform app.require_clear_name('the name', new_name);
  if new_fee_bps not between 0 and 10000 then
    raise exception 'the fee must be 0 to 10000 basis points' using errcode = 'SL422';
  end if;
  update app.merchant m set name = coalesce(new_name, m.name), fee_bps = coalesce(new_fee_bps, m.fee_bps) where m.id = of_merchant;
  if not found then raise exception 'there is no merchant with this id' using errcode = 'SL404', detail = 'merchant'; end if;
end $$;
comment on function app.update_merchant is 'Changes name and fee of a merchant; null leaves a value as it is. A payout keeps the fee that it was made with.';

create or replace function app.set_cancels_per_day(of_merchant uuid, most int) returns void
language plpgsql security definer set search_path = pg_catalog as $$
begin
  if most is null or most < 0 then raise exception 'the number of payouts that may be cancelled in a day cannot be below 0' using errcode = 'SL422'; end if;
  update app.merchant m set cancels_per_day = most where m.id = of_merchant;
  if not found then raise exception 'there is no merchant with this id' using errcode = 'SL404', detail = 'merchant'; end if;
end $$;
comment on function app.set_cancels_per_day is 'Sets how many payouts that have begun to sweep a merchant may cancel within a day.';

create or replace function app.set_payment_tolerance(of_merchant uuid, bps int) returns void
language plpgsql security definer set search_path = pg_catalog as $$
begin
  if bps is null or bps not between 0 and 5000 then raise exception 'the tolerance of payment requests must be 0 to 50 percent' using errcode = 'SL422'; end if;
  update app.merchant m set payment_tolerance_bps = bps where m.id = of_merchant;
  if not found then raise exception 'there is no merchant with this id' using errcode = 'SL404', detail = 'merchant'; end if;
end $$;
comment on function app.set_payment_tolerance is 'Sets how much of its new payment requests may be missing, in basis points; those that exist keep theirs.';

create or replace function app.set_merchant_chain(of_merchant uuid, of_chain text, enable boolean) returns void
language plpgsql security definer set search_path = pg_catalog as $$
begin
  perform from app.merchant m where m.id = of_merchant;
  if not found then raise exception 'there is no merchant with this id' using errcode = 'SL404', detail = 'merchant'; end if;
  if enable then
    perform from app.chain c where c.chain = of_chain;
    if not found then
      raise exception '% cannot be enabled: Sluice does not run this chain (it runs %)', of_chain,
        (select string_agg(c.chain, ', ' order by c.chain) from app.chain c) using errcode = 'SL422';
    end if;
    insert into app.merchant_chain as m (merchant_id, chain) values (of_merchant, of_chain)
    on conflict (merchant_id, chain) do update set enabled = true, changed_at = clock_timestamp() where not m.enabled;
  else
    update app.merchant_chain m set enabled = false, changed_at = clock_timestamp()
    where m.merchant_id = of_merchant and m.chain = of_chain and m.enabled;
  end if;
end $$;
comment on function app.set_merchant_chain is 'Enables or disables a chain for a merchant. Existing addresses stay watched and credited either way.';

create or replace function app.set_merchant_suspended(of_merchant uuid, suspended boolean) returns void
language plpgsql security definer set search_path = pg_catalog as $$
begin
  update app.merchant m set suspended_at = case when suspended then coalesce(m.suspended_at, clock_timestamp()) end where m.id = of_merchant;
  if not found then raise exception 'there is no merchant with this id' using errcode = 'SL404', detail = 'merchant'; end if;
end $$;
comment on function app.set_merchant_suspended is 'Stops all keys of a merchant at once, or lets them work again. Safe to run again.';

create or replace function app.announce_suspension() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
begin
  perform pg_notify('api_key_revoked', '');
  return null;
end $$;
comment on function app.announce_suspension is 'Trigger: makes every API process empty its cache of keys when an account was suspended (api_key_revoked with an empty payload).';
create or replace trigger announce_suspension after update of suspended_at on app.merchant
  for each row when (old.suspended_at is null and new.suspended_at is not null) execute function app.announce_suspension();
