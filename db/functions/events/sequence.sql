-- Gives events the numbers that readers follow (GET /v1/events, the pump of webhooks, a receiver that sorts). A transaction that changes a state
-- inserts the event, its deliveries and a job (app.emit_deposit_events, app.emit_payout_event); the worker numbers committed events.
--
-- Invariant: a reader that has read up to a sequence never meets a lower one later. What becomes visible later gets a higher number, whenever its
-- transaction began; and an event that was inserted after another was committed has the higher one (app.event.position). Gaps are allowed. One event
-- for each (subject, version); a payload never changes.
-- Locks: one advisory lock, until the end of the transaction that numbers.

-- One caller at a time: a later caller sees what the earlier one saw, and more.
create or replace function app.sequence_events(batch int default 10000) returns int
language plpgsql security definer set search_path = pg_catalog as $$
declare sequenced int;
begin
  perform pg_advisory_xact_lock(hashtextextended('app.sequence_events', 0));
  with ready as materialized (
    select id, nextval('app.event_sequence') as sequence
    from (select id from app.event where sequence is null order by position limit batch) oldest_first
  )
  update app.event e set sequence = r.sequence from ready r where e.id = r.id;
  get diagnostics sequenced = row_count;
  return sequenced;
end $$;
comment on function app.sequence_events is 'Numbers committed events that have no sequence, in the order of their insertion, at most batch of them; returns how many. Safe to run at any time and in several places.';
grant execute on function app.sequence_events to sluice_jobs;

create or replace function app.event_id(id uuid, is_test boolean) returns text
language sql immutable parallel safe
return app.public_id(case when is_test then 'evt_test' else 'evt' end, id);
comment on function app.event_id is 'The id of an event as webhooks and the API show it.';
grant execute on function app.event_id to sluice_api, sluice_jobs;

create or replace function app.event_body(payload json, sequence bigint) returns text
language sql immutable parallel safe
return left(payload::text, -1) || ', "sequence" : ' || sequence::text || '}';
comment on function app.event_body is 'The body of an event as webhooks and GET /v1/events show it: its payload and its sequence, as JSON.';
grant execute on function app.event_body to sluice_api, sluice_jobs;

-- Merchants keep the sequence of their last event. They would take a new event with a number that was used before for an old one.
create or replace function app.after_restore() returns bigint
language sql set search_path = pg_catalog as $$
  -- Far more than were ever given in the time between two backups. Gaps are allowed, and JSON's numbers are exact up to 9 * 10^15.
  select setval('app.event_sequence', nextval('app.event_sequence') + 1000000000)
$$;
comment on function app.after_restore is 'Call it once when an older copy of the database replaces a newer one: no later event gets a sequence that was used before. Returns the last one that is skipped.';
