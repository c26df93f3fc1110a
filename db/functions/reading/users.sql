-- Users of a merchant: in lists, and one of them. The API and the dashboard read them here, each with the merchant that its key or session is of. It
-- reads, and changes nothing.
--
-- What may be asked for, as JSON: id (a UUID), or external_ref. Absent or null: all.

create or replace function app.asked_users(of_merchant uuid, asked jsonb, below bigint, size int) returns setof app.user
language plpgsql stable rows 50 set search_path = pg_catalog as $$
begin
  if asked ->> 'id' is not null then
    return query select u.* from app.user u where u.id = (asked ->> 'id')::uuid and u.merchant_id = of_merchant;
  elsif asked ->> 'external_ref' is not null then
    return query select u.* from app.user u where u.merchant_id = of_merchant and u.external_ref = app.user_ref(of_merchant, asked ->> 'external_ref')
      and u.seq < coalesce(below, 9223372036854775807);
  else
    return query select u.* from app.user u where u.merchant_id = of_merchant and u.seq < coalesce(below, 9223372036854775807)
      order by u.seq desc limit size;
  end if;
end $$;
comment on function app.asked_users is 'The users that are asked for, below a place, the newest first.';
grant execute on function app.asked_users to sluice_api;

create or replace function app.read_users(of_merchant uuid, asked jsonb, below bigint, size int) returns table (place bigint, item json)
language sql stable rows 50 set search_path = pg_catalog as $$
  select u.seq, row_to_json(i) from app.asked_users(of_merchant, asked, below, size) u
  cross join lateral (select app.public_id('usr', u.id) as id, u.external_ref, app.iso(u.created_at) as created_at,
    app.addresses_of(u.id) as addresses, u.metadata) i
  order by u.seq desc
$$;
comment on function app.read_users is 'The users that are asked for, below a place, the newest first: the place of each, and its JSON.';
grant execute on function app.read_users to sluice_api;

create or replace function app.read_user(of_merchant uuid, of_id uuid) returns json
language sql stable set search_path = pg_catalog as $$
  select item from app.read_users(of_merchant, jsonb_build_object('id', of_id), null, 1)
$$;
comment on function app.read_user is 'A user of the merchant; null if there is none.';
grant execute on function app.read_user to sluice_api;
