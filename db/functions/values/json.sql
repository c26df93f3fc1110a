-- JSON that the API sends, by its bytes, because clients may compare them, and that functions are given. No table is read.

create or replace function app.with_more(object json, more json) returns json
language sql immutable parallel safe
return (left(object::text, -1) || ',' || right(more::text, -1))::json;
comment on function app.with_more is 'An object with the fields of another one behind its own.';
grant execute on function app.with_more to sluice_api;

create or replace function app.texts_in(list jsonb) returns text[]
language sql immutable parallel safe
return nullif(array(select distinct jsonb_array_elements_text(nullif(list, 'null'))), '{}');
comment on function app.texts_in is 'The texts of a JSON list, each once; null if there is none, or it is empty.';
grant execute on function app.texts_in to sluice_api;
