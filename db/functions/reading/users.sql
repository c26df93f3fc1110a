-- Users of a merchant: in lists, and one of them. The API and the dashboard read them here, each with the merchant that its key or session is of. It
-- reads, and changes nothing.
--
-- What may be asked for, as JSON: id (a UUID), or external_ref; or beginning (of the reference), created_from and created_to (moments; from is included,
-- to is not). Absent or null: all.

create or replace function app.asked_users(of_merchant uuid, asked jsonb, below bigint, size int) returns setof app.user
language plpgsql stable rows 50 set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
declare
  made_from timestamptz := asked ->> 'created_from';
  made_to timestamptz := asked ->> 'created_to';
  of_beginning text := asked ->> 'beginning';
  of_ref text;
  above bigint := 0;
begin
  below := coalesce(below, 9223372036854775807);
  -- seq has the order of created_at but for what is made at the same moment: so a range of time is found by its place in that order.
  if made_from is not null then
    above := coalesce((select u.seq from app.user u where u.merchant_id = of_merchant and u.created_at < made_from - interval '1 minute'
      order by u.created_at desc limit 1), 0);
  end if;
  if made_to is not null then
    below := least(below, (select u.seq from app.user u where u.merchant_id = of_merchant and u.created_at > made_to + interval '1 minute'
      order by u.created_at limit 1));
  end if;
  if asked ->> 'id' is not null then
    return query select u.* from app.user u where u.id = (asked ->> 'id')::uuid and u.merchant_id = of_merchant;
  elsif asked ->> 'external_ref' is not null then
    of_ref := app.user_ref(of_merchant, asked ->> 'external_ref'); -- in the statement, it would run once more to plan it
    return query select u.* from app.user u where u.merchant_id = of_merchant and u.external_ref = of_ref and u.seq < below;
  else
    return query select u.* from app.user u where u.merchant_id = of_merchant and u.seq > above and u.seq < below
      and (of_beginning is null or starts_with(u.external_ref collate "C", of_beginning)) and coalesce(u.created_at >= made_from, true)
      and coalesce(u.created_at < made_to, true) order by u.seq desc limit size;
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
