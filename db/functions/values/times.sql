-- Times as the API and events show them. Called wherever JSON is made.

-- Inlined into the statements that use it, because deriving deposits needs the speed.
create or replace function app.iso(at timestamptz) returns text
language sql stable parallel safe -- to_json writes ISO 8601 faster than to_char; the microsecond keeps it from dropping trailing zeros
return substr(to_json(date_trunc('milliseconds', at at time zone 'UTC') + interval '1 microsecond')::text, 2, 23) || 'Z';
comment on function app.iso is 'ISO 8601 in UTC with milliseconds.';
grant execute on function app.iso to sluice_api, sluice_jobs;
