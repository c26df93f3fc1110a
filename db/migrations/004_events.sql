-- Events, and their delivery by webhook.
--
-- Writers: whoever changes a state inserts the event, its deliveries and a job in the same transaction (app.emit). The sequencer
-- (app.sequence_events, run by the jobs worker) then gives each committed event its sequence number. The webhook pump updates deliveries.
-- Readers: GET /v1/events and the pump, both by sequence.
--
-- Invariants: one event per (subject, version), so one per transition; the payload never changes; who has read up to a sequence never
-- meets a lower one later.

create table app.event (
  id uuid primary key,
  position bigint not null generated always as identity,
  sequence bigint,
  merchant_id uuid not null,
  type text not null,
  subject_id uuid not null,
  version int not null,
  payload json not null,
  created_at timestamptz not null,
  unique (subject_id, version)
);
create index event_unsequenced on app.event (position) where sequence is null;
create unique index event_page on app.event (merchant_id, sequence desc) where sequence is not null;
create index event_type_page on app.event (merchant_id, type, sequence desc) where sequence is not null;
create sequence app.event_sequence;
comment on table app.event is 'What happened, once for each change of state. Never changed, never deleted.';
comment on column app.event.id is 'Id; shown as evt_ and 32 hex digits. Receivers de-duplicate on it.';
comment on column app.event.position is 'Order of insertion.';
comment on column app.event.sequence is 'Order in which events became visible; gaps are allowed. Null for a moment after the commit.';
comment on column app.event.merchant_id is 'The merchant that is told.';
comment on column app.event.type is 'Type, such as deposit.confirmed.';
comment on column app.event.subject_id is 'What changed: the id of the deposit.';
comment on column app.event.version is 'How many changes the subject has had, this one included.';
comment on column app.event.payload is 'The body of the event but for its sequence.';
comment on column app.event.created_at is 'When it happened.';

create table app.webhook_endpoint (
  id uuid primary key default uuidv7(),
  merchant_id uuid not null references app.merchant,
  url text not null,
  event_types text[] not null,
  secret text not null,
  previous_secret text,
  previous_secret_expires_at timestamptz,
  disabled_at timestamptz,
  disabled_reason text,
  failing_since timestamptz,
  created_at timestamptz not null default clock_timestamp(),
  deleted_at timestamptz
);
create index webhook_endpoint_merchant on app.webhook_endpoint (merchant_id) where deleted_at is null;
comment on table app.webhook_endpoint is 'Where a merchant wants events to be delivered.';
comment on column app.webhook_endpoint.id is 'Id; shown as whe_ and 32 hex digits.';
comment on column app.webhook_endpoint.merchant_id is 'The merchant.';
comment on column app.webhook_endpoint.url is 'URL that events are posted to.';
comment on column app.webhook_endpoint.event_types is 'Types of events that are delivered here.';
comment on column app.webhook_endpoint.secret is 'Secret that signs (Standard Webhooks, whsec_...).';
comment on column app.webhook_endpoint.previous_secret is 'The secret before the last rotation; signs too until it expires.';
comment on column app.webhook_endpoint.previous_secret_expires_at is 'When the previous secret stops signing.';
comment on column app.webhook_endpoint.disabled_at is 'When deliveries stopped; null while they go out.';
comment on column app.webhook_endpoint.disabled_reason is 'Why they stopped: merchant, gone (410) or failing (five days without a success).';
comment on column app.webhook_endpoint.failing_since is 'Time of the first failure since the last success; null if the last attempt succeeded.';
comment on column app.webhook_endpoint.created_at is 'When it was made.';
comment on column app.webhook_endpoint.deleted_at is 'When it was deleted; its past deliveries stay.';

create table app.delivery (
  id uuid primary key default uuidv7(),
  event_id uuid not null,
  endpoint_id uuid not null,
  status text not null default 'pending' check (status in ('pending', 'delivered', 'failed')),
  attempts int not null default 0,
  next_attempt_at timestamptz default clock_timestamp(),
  created_at timestamptz not null default clock_timestamp(),
  finished_at timestamptz
);
create index delivery_due on app.delivery (endpoint_id, next_attempt_at) where status = 'pending';
create index delivery_page on app.delivery (endpoint_id, id desc);
create index delivery_failed on app.delivery (endpoint_id, created_at) where status = 'failed';
comment on table app.delivery is 'One event on its way to one endpoint.';
comment on column app.delivery.id is 'Id; shown as dlv_ and 32 hex digits.';
comment on column app.delivery.event_id is 'The event.';
comment on column app.delivery.endpoint_id is 'The endpoint.';
comment on column app.delivery.status is 'pending until it succeeds (delivered) or every attempt is used up or the endpoint is disabled (failed).';
comment on column app.delivery.attempts is 'Attempts of the present schedule; a redelivery starts again at 0.';
comment on column app.delivery.next_attempt_at is 'When the next attempt is due; null when there will be none.';
comment on column app.delivery.created_at is 'When the event happened.';
comment on column app.delivery.finished_at is 'When it was delivered or failed.';

-- delivery_id has no foreign key: app.record_attempts alone writes here, deliveries are never deleted, and checking each row was measured to
-- cost a third of what the database does for a delivery.
create table app.delivery_attempt (
  id bigint primary key generated always as identity,
  delivery_id uuid not null,
  attempted_at timestamptz not null,
  duration_ms int not null,
  response_status int,
  error text
);
create index delivery_attempt_delivery on app.delivery_attempt (delivery_id, id);
comment on table app.delivery_attempt is 'Each HTTP request that tried to deliver an event.';
comment on column app.delivery_attempt.id is 'Order of the attempts.';
comment on column app.delivery_attempt.delivery_id is 'The delivery.';
comment on column app.delivery_attempt.attempted_at is 'When the request began.';
comment on column app.delivery_attempt.duration_ms is 'How long it took, in milliseconds.';
comment on column app.delivery_attempt.response_status is 'HTTP status of the answer; null if there was none.';
comment on column app.delivery_attempt.error is 'Why it failed; null if it succeeded.';

-- Jobs are added by SQL. The tables of graphile_worker let only their owner in, so this function belongs to sluice_jobs as they do.
create function app.enqueue(task text, payload json default '{}', key text default null) returns void
language plpgsql security definer set search_path = pg_catalog as $$
begin
  perform graphile_worker.add_job(task, payload, job_key := key);
end $$;
comment on function app.enqueue is 'Adds a job for graphile-worker; it becomes visible when the calling transaction commits.';
do $$ begin
  execute format('grant execute on function app.enqueue to %I', current_user);
  execute format('grant sluice_jobs to %I', current_user);
end $$;
grant create on schema app to sluice_jobs;
alter function app.enqueue owner to sluice_jobs;
revoke create on schema app from sluice_jobs;

-- The body of an event as webhooks and GET /v1/events show it.
create function app.event_body(payload json, sequence bigint) returns text
language sql immutable parallel safe
return left(payload::text, -1) || ', "sequence" : ' || sequence::text || '}';
comment on function app.event_body is 'The JSON body of an event: its payload and its sequence.';

-- Gives the committed events that have none their sequence, and returns how many got one. One caller at a time: who comes later sees what
-- the other one saw, and more. So an event that becomes visible later gets a higher number, whenever its transaction began; and of two
-- events the one that could know of the other, because it was inserted after it was committed, comes second (position).
create function app.sequence_events(batch int default 10000) returns int
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
comment on function app.sequence_events is 'Numbers committed events in the order in which they became visible. Safe to run at any time and in several places.';

grant usage on sequence app.event_sequence to sluice_jobs;
grant select on app.event, app.webhook_endpoint, app.delivery, app.delivery_attempt to sluice_jobs;
grant execute on function app.sequence_events to sluice_jobs;
grant execute on function app.event_body to sluice_api, sluice_jobs;
