-- Webhook endpoints of a merchant and what was sent to them, as merchants see them. The API and the dashboard read them here, each with the merchant
-- that its key or session is of. It reads, and changes nothing. The role of the API cannot read endpoints as they are, because of their secrets.
--
-- Promises: a page of deliveries reads what it shows, by an index that has it in order: all, or failed ones. Others of one status are looked for in the
-- order of the list.
--
-- What may be asked for of deliveries, as JSON: endpoint and id (UUIDs), status (a list), created_from and created_to (moments; from is included, to is
-- not). Absent or null: whatever it is, but for the endpoint. The id of a delivery carries its time, or one within a minute of it.

create or replace function app.endpoints_of(of_merchant uuid) returns setof app.webhook_endpoint
language sql stable rows 5 set search_path = pg_catalog as $$
  select w.* from app.webhook_endpoint w where w.merchant_id = of_merchant and w.deleted_at is null
$$;
comment on function app.endpoints_of is 'The endpoints of a merchant that were not deleted, five at most, with their secrets.';

create or replace function app.endpoint_item(w app.webhook_endpoint) returns json
language sql stable set search_path = pg_catalog as $$
  select row_to_json(i) from (select app.public_id('whe', w.id) as id, w.url, w.event_types, w.disabled_at is null as enabled, w.disabled_reason,
    app.iso(w.failing_since) as failing_since, app.iso(w.created_at) as created_at) i
$$;
comment on function app.endpoint_item is 'An endpoint, as its merchant sees it.';

create or replace function app.read_endpoints(of_merchant uuid) returns setof json
language sql stable security definer rows 5 set search_path = pg_catalog as $$
  select app.endpoint_item(w) from app.endpoints_of(of_merchant) w order by w.id desc
$$;
comment on function app.read_endpoints is 'The endpoints of a merchant, the newest first.';
grant execute on function app.read_endpoints to sluice_api;

create or replace function app.read_endpoint(of_merchant uuid, of_id uuid) returns json
language sql stable security definer set search_path = pg_catalog as $$
  select app.endpoint_item(w) from app.endpoints_of(of_merchant) w where w.id = of_id
$$;
comment on function app.read_endpoint is 'An endpoint of the merchant; null if there is none.';
grant execute on function app.read_endpoint to sluice_api;

create or replace function app.asked_deliveries(of_merchant uuid, asked jsonb, below uuid, size int) returns setof app.delivery
language plpgsql stable rows 50 set search_path = pg_catalog as $$
declare
  of_endpoint uuid := (select w.id from app.webhook_endpoint w
    where w.merchant_id = of_merchant and w.id = (asked ->> 'endpoint')::uuid and w.deleted_at is null);
  statuses text[] := app.texts_in(asked -> 'status');
  made_from timestamptz := coalesce((asked ->> 'created_from')::timestamptz, '-infinity');
  made_to timestamptz := coalesce((asked ->> 'created_to')::timestamptz, 'infinity');
  lowest uuid := '00000000-0000-0000-0000-000000000000';
begin
  below := coalesce(below, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
  if made_from > '-infinity' then lowest := app.uuid_at(made_from - interval '1 minute'); end if;
  if made_to < 'infinity' then below := least(below, app.uuid_at(made_to + interval '1 minute')); end if;
  if asked ->> 'id' is not null then
    return query select d.* from app.delivery d where d.id = (asked ->> 'id')::uuid and d.endpoint_id = of_endpoint;
  elsif statuses is null then
    return query select d.* from app.delivery d where d.endpoint_id = of_endpoint and d.id >= lowest and d.id < below
      and d.created_at >= made_from and d.created_at < made_to order by d.id desc limit size;
  else -- each status is in the text, so that an index of that status alone can serve
    return query select d.* from (
        (select * from app.delivery o where o.endpoint_id = of_endpoint and o.id >= lowest and o.id < below
          and o.created_at >= made_from and o.created_at < made_to and o.status = 'pending' and 'pending' = any(statuses)
          order by o.id desc limit size)
        union all (select * from app.delivery o where o.endpoint_id = of_endpoint and o.id >= lowest and o.id < below
          and o.created_at >= made_from and o.created_at < made_to and o.status = 'delivered'
          and 'delivered' = any(statuses) order by o.id desc limit size)
        union all (select * from app.delivery o where o.endpoint_id = of_endpoint and o.id >= lowest and o.id < below
          and o.created_at >= made_from and o.created_at < made_to and o.status = 'failed'
          and 'failed' = any(statuses) order by o.id desc limit size)) d
      order by d.id desc limit size;
  end if;
end $$;
comment on function app.asked_deliveries is 'The deliveries to an endpoint that are asked for, below a place, the newest first; none if the merchant has no such endpoint.';
grant execute on function app.asked_deliveries to sluice_api;

create or replace function app.delivery_item(d app.delivery) returns json
language sql stable set search_path = pg_catalog as $$
  select row_to_json(i) from app.event e
  cross join lateral (select app.public_id('dlv', d.id) as id, app.event_id(e.id, e.is_test) as event_id, e.type as event_type, d.status,
    app.iso(d.created_at) as created_at, app.iso(d.next_attempt_at) as next_attempt_at, app.iso(d.finished_at) as finished_at,
    (select coalesce(json_agg(t), '[]') from (select app.iso(a.attempted_at) as attempted_at, a.duration_ms, a.response_status, a.error
      from app.delivery_attempt a where a.delivery_id = d.id order by a.id) t) as attempts) i
  where e.id = d.event_id
$$;
comment on function app.delivery_item is 'A delivery with all its attempts, also those before it was sent again, as its merchant sees it.';
grant execute on function app.delivery_item to sluice_api;

create or replace function app.read_deliveries(of_merchant uuid, asked jsonb, below uuid, size int) returns table (place uuid, item json)
language sql stable rows 50 set search_path = pg_catalog as $$
  select d.id, app.delivery_item(d) from app.asked_deliveries(of_merchant, asked, below, size) d order by d.id desc
$$;
comment on function app.read_deliveries is 'The deliveries to an endpoint that are asked for, below a place, the newest first: the place of each, and its JSON.';
grant execute on function app.read_deliveries to sluice_api;

create or replace function app.read_delivery(of_merchant uuid, of_endpoint uuid, of_id uuid) returns json
language sql stable set search_path = pg_catalog as $$
  select item from app.read_deliveries(of_merchant, jsonb_build_object('endpoint', of_endpoint, 'id', of_id), null, 1)
$$;
comment on function app.read_delivery is 'A delivery to an endpoint of the merchant; null if there is none.';
grant execute on function app.read_delivery to sluice_api;
