-- What the dashboard shows of one deposit, and of users (the list of deposits is in lists.sql). It reads, and changes nothing.
--
-- Deposits are those that the API shows (db/functions/reading/deposits.sql); of one, more is shown.
-- Errors: SLAUT there is no such session; SL404 there is nothing with this id, or it belongs to another merchant.

create or replace function dashboard.deposit(token text, public_id text) returns json
language plpgsql stable security definer set search_path = pg_catalog as $$
declare
  merchant uuid := dashboard.merchant_of(token);
  found json := app.read_deposit(merchant, dashboard.uuid_of('dep', public_id));
begin
  if found is null then raise exception 'there is no deposit with this id' using errcode = 'SL404', detail = 'deposit'; end if;
  return (select app.with_more(found, row_to_json(more)) from app.deposit d
    cross join lateral (select d.block_height, dashboard.events_of(d.id) as events, (select row_to_json(p) from (
      select app.public_id('pay', o.id) as id, o.status, app.iso(o.created_at) as created_at from app.payout o where o.id = d.settlement_id) p) as payout) more
    where d.id = dashboard.uuid_of('dep', public_id));
end $$;
comment on function dashboard.deposit is 'A deposit, the payout that collected it, and what its merchant was notified of.';
grant execute on function dashboard.deposit to sluice_dashboard;

create or replace function dashboard.uuid_of(prefix text, public_id text) returns uuid
language sql immutable parallel safe set search_path = pg_catalog
return case when public_id ~ ('^' || prefix || '_[0-9a-f]{32}$') then right(public_id, 32)::uuid end;
comment on function dashboard.uuid_of is 'The UUID in an id that merchants see; null if it is no id of this kind.';

create or replace function dashboard.own_user(merchant uuid, public_id text) returns uuid
language plpgsql stable set search_path = pg_catalog as $$
declare own uuid;
begin
  select u.id into own from app.user u where u.id = dashboard.uuid_of('usr', public_id) and u.merchant_id = merchant;
  if own is null then raise exception 'there is no user with this id' using errcode = 'SL404', detail = 'user'; end if;
  return own;
end $$;
comment on function dashboard.own_user is 'The user of this merchant with this id; raises SL404 if there is none.';

create or replace function dashboard.user_list(token text, filters jsonb, before text, size int) returns json
language plpgsql stable security definer set search_path = pg_catalog as $$
declare merchant uuid := dashboard.merchant_of(token);
begin
  return (select dashboard.page(array_agg(u.item order by u.place desc), array_agg(u.place::text order by u.place desc), size)
    from app.read_users(merchant, dashboard.asked(merchant, filters), least(before::numeric, 9223372036854775807)::bigint, size + 1) u);
end $$;
comment on function dashboard.user_list is 'A page of the users, the newest first: all, or those whose reference has a beginning, or that were made on some days.';
grant execute on function dashboard.user_list to sluice_dashboard;

create or replace function dashboard.user_of(token text, public_id text) returns json
language plpgsql stable security definer set search_path = pg_catalog as $$
declare merchant uuid := dashboard.merchant_of(user_of.token);
begin
  return app.read_user(merchant, dashboard.own_user(merchant, public_id));
end $$;
comment on function dashboard.user_of is 'A user; raises SL404 if there is none with this id.';
grant execute on function dashboard.user_of to sluice_dashboard;
