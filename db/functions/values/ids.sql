-- Ids as merchants see them, and as they are stored. An id is a UUID; merchants and analysts see a prefix for the kind of thing, and 32 hex digits.
-- Every function, statement and view that shows an id calls this, also analysts' queries, and the partitioning of deliveries by week. No table is
-- read.

-- Inlined into the statements that use it, because deriving deposits needs the speed. PostgreSQL inlines it only if nothing in the body is more
-- volatile than the function is declared to be.
create or replace function app.public_id(prefix text, id uuid) returns text
language sql immutable parallel safe
return prefix || '_' || encode(uuid_send(id), 'hex');
comment on function app.public_id is 'The form in which merchants see an id: prefix, underscore, 32 hex digits.';
grant execute on function app.public_id to sluice_analyst, sluice_api, sluice_jobs;

create or replace function analytics.id(public_id text) returns uuid
language sql immutable parallel safe
return case when public_id ~ '^[a-z]{3}_[0-9a-f]{32}$' then right(public_id, 32)::uuid end;
comment on function analytics.id is 'The UUID in an id of the API, such as dep_0123...; null if the text is no id. A view finds a row by its UUID through an index, but by its id as text only by reading all rows.';
grant execute on function analytics.id to sluice_analyst;

create or replace function app.uuid_at(at timestamptz) returns uuid
language sql immutable strict parallel safe
return (lpad(to_hex((extract(epoch from greatest(at, timestamptz '1970-01-01 00:00:00+00')) * 1000)::bigint), 12, '0') || '70008000000000000000')::uuid;
comment on function app.uuid_at is 'The lowest UUID of version 7 (the ids of deliveries) that is made at or after a time.';
grant execute on function app.uuid_at to sluice_api;
