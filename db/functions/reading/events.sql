-- Events of a merchant, as webhooks deliver them: the newest first, forward from a place, or one of them. The API reads them here, with the merchant that
-- its key is of. It reads, and changes nothing.
--
-- Promises: sequences follow the order of commits, so reading forward skips none; of each type that is shown, no more than a page is read, by an index
-- that has it in order. What was sent as a test is in no list.
--
-- What may be asked for, as JSON: type (a list). Absent or null: every type but those of payment requests and of endpoints (isOnlyIfAsked of
-- base/event-types.ts).

create or replace function app.asked_event_types(asked jsonb) returns setof text
language sql immutable rows 5 set search_path = pg_catalog as $$
  select distinct t.type from jsonb_array_elements_text(nullif(asked -> 'type', 'null')) t (type)
  union all
  select t.type from unnest(app.event_types()) t (type)
  where asked ->> 'type' is null and not starts_with(t.type, 'payment_request.') and not starts_with(t.type, 'webhook_endpoint.')
$$;
comment on function app.asked_event_types is 'The types of events that a list shows.';
grant execute on function app.asked_event_types to sluice_api;

create or replace function app.read_events(of_merchant uuid, asked jsonb, below bigint, size int) returns table (place bigint, item json)
language sql stable rows 50 set search_path = pg_catalog as $$
  select e.sequence, app.event_body(e.payload, e.sequence)::json
  from app.asked_event_types(asked) t (type)
  cross join lateral (select o.sequence, o.payload from app.event o
    where o.merchant_id = of_merchant and o.sequence is not null and not o.is_test and o.type = t.type and o.sequence < below
    order by o.sequence desc limit size) e
  order by e.sequence desc limit size
$$;
comment on function app.read_events is 'The events that are asked for, below a place, the newest first: the place of each, and its JSON.';
grant execute on function app.read_events to sluice_api;

create or replace function app.read_events_after(of_merchant uuid, asked jsonb, above bigint, size int) returns table (place bigint, item json)
language sql stable rows 50 set search_path = pg_catalog as $$
  select e.sequence, app.event_body(e.payload, e.sequence)::json
  from app.asked_event_types(asked) t (type)
  cross join lateral (select o.sequence, o.payload from app.event o
    where o.merchant_id = of_merchant and o.sequence is not null and not o.is_test and o.type = t.type and o.sequence > above
    order by o.sequence limit size) e
  order by e.sequence limit size
$$;
comment on function app.read_events_after is 'The events that are asked for, above a place, the oldest first: the place of each, and its JSON.';
grant execute on function app.read_events_after to sluice_api;

create or replace function app.read_event(of_merchant uuid, of_id uuid) returns json
language sql stable set search_path = pg_catalog as $$
  select app.event_body(e.payload, e.sequence)::json from app.event e
  where e.id = of_id and e.merchant_id = of_merchant and e.sequence is not null and not e.is_test
$$;
comment on function app.read_event is 'An event of the merchant, of any type; null if there is none.';
grant execute on function app.read_event to sluice_api;
