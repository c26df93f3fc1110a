-- Events, and their delivery to merchants by webhook.
--
-- Steps:
--   1. a transaction that changes a state inserts the event, its deliveries and a job (app.emit_deposit_events, app.emit_payout_event;
--      app.test_webhook for one that a merchant asks for);
--   2. the sequencer (app.sequence_events, run by the jobs worker, one at a time) gives each committed event its sequence number;
--   3. the pump of an endpoint sends what is due, writes attempts and updates deliveries (app.record_attempts), and disables an endpoint that is
--      gone or fails for five days;
--   4. the jobs worker fails what is still pending at an endpoint that is disabled or deleted (app.fail_undeliverable), makes partitions for the
--      weeks ahead and drops old ones (app.maintain_partitions).
-- The API and the command line write endpoints. Readers: GET /v1/events and the pump, both by sequence; the API's lists of deliveries.
--
-- Invariants: one event for each (subject, version), so one for each change of status. An event never changes, except that it gets its sequence. A
-- reader that has read up to a sequence never meets a lower one later.
-- Locks, always in this order: merchant, endpoint, deliveries.

create sequence app.event_sequence;
comment on sequence app.event_sequence is 'Sequence numbers of events. An older copy of the database that replaces a newer one skips far ahead (app.after_restore).';
grant usage on sequence app.event_sequence to sluice_jobs;

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
  is_test boolean not null default false,
  unique (subject_id, version)
);
-- What the sequencer has yet to number: empty most of the time.
create index event_unsequenced on app.event (position) where sequence is null;
create unique index event_page on app.event (merchant_id, sequence desc) where sequence is not null and not is_test;
create index event_type_page on app.event (merchant_id, type, sequence desc) where sequence is not null and not is_test;
-- Events are stored in the order of their time, so the bounds of each range of blocks show where a day is. For analysts.
create index event_created on app.event using brin (created_at timestamptz_minmax_multi_ops) with (autosummarize = on);
comment on table app.event is 'What happened, once for each change of state. Never deleted, and never changed once it has its sequence.';
comment on column app.event.id is 'Id; shown as evt_, or evt_test_, and 32 hex digits (app.event_id). Receivers de-duplicate on it.';
comment on column app.event.position is 'Order of insertion.';
comment on column app.event.sequence is 'Order in which events became visible; gaps are allowed. Null for a moment after the commit.';
comment on column app.event.merchant_id is 'The merchant that is notified.';
comment on column app.event.type is 'deposit.pending, deposit.confirmed, deposit.reorged, payout.completed or payout.failed.';
comment on column app.event.subject_id is 'What changed: the id of the deposit or the payout; of a test, the endpoint.';
comment on column app.event.version is 'How many changes the subject has had, this one included.';
comment on column app.event.payload is 'The body of the event without its sequence. (json keeps the order of the fields.)';
comment on column app.event.created_at is 'When it happened.';
comment on column app.event.is_test is 'True for an example that was sent to test an endpoint: nothing happened, and no list shows it.';
grant select on app.event to sluice_api, sluice_jobs;

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
comment on column app.webhook_endpoint.url is 'URL that events are posted to.';
comment on column app.webhook_endpoint.event_types is 'Types of events that are delivered here.';
comment on column app.webhook_endpoint.secret is 'Secret that signs (Standard Webhooks, whsec_...).';
comment on column app.webhook_endpoint.previous_secret is 'The secret before the last rotation; it signs, too, until it expires.';
comment on column app.webhook_endpoint.previous_secret_expires_at is 'When the previous secret stops signing.';
comment on column app.webhook_endpoint.disabled_at is 'When deliveries stopped; null while they go out.';
comment on column app.webhook_endpoint.disabled_reason is 'Why they stopped: merchant, gone (410) or failing (five days without a success).';
comment on column app.webhook_endpoint.failing_since is 'Time of the first failure since the last success; null if the last attempt succeeded.';
comment on column app.webhook_endpoint.created_at is 'When it was made.';
comment on column app.webhook_endpoint.deleted_at is 'When it was deleted; its past deliveries stay.';
grant select on app.webhook_endpoint to sluice_jobs;
grant select (id, merchant_id, url, event_types, previous_secret_expires_at, disabled_at, disabled_reason, failing_since, created_at, deleted_at) on app.webhook_endpoint to sluice_api;

-- Deliveries and their attempts are partitioned by week (UTC, from Monday), so that old ones are removed by dropping a table; everything else is
-- kept for ever. Both are partitioned by the id of the delivery, a UUID of version 7, which carries the time. So the id stays the key, and an
-- attempt lives and goes with its delivery. Invariants: the partitions of the two tables have the same bounds; a partition with a pending delivery
-- is not dropped. A row outside of all weeks (the clock was wrong, or no worker made the next week for a month) goes to the default partition, so an
-- insert never fails. Locks: making a week locks only the default partitions, dropping one locks both tables, each for a moment. Neither waits
-- longer than 0.2 s for them: it gives up, and is tried again.
create table app.delivery (
  id uuid primary key default uuidv7(),
  event_id uuid not null,
  endpoint_id uuid not null,
  status text not null default 'pending' constraint delivery_status_check check (status in ('pending', 'delivered', 'failed')),
  attempts int not null default 0,
  next_attempt_at timestamptz default clock_timestamp(),
  created_at timestamptz not null default clock_timestamp(),
  finished_at timestamptz
) partition by range (id);
create index delivery_due on app.delivery (endpoint_id, next_attempt_at) where status = 'pending';
create index delivery_page on app.delivery (endpoint_id, id desc);
-- For redelivery: all that failed since a time.
create index delivery_failed on app.delivery (endpoint_id, created_at) where status = 'failed';
-- Pages of failed deliveries.
create index delivery_failed_page on app.delivery (endpoint_id, id desc) where status = 'failed';
comment on table app.delivery is 'One event on its way to one endpoint. A partition for each week; old weeks are dropped.';
comment on column app.delivery.id is 'Id, a UUID of version 7, whose time says which week it is in; shown as dlv_ and 32 hex digits.';
comment on column app.delivery.event_id is 'The event.';
comment on column app.delivery.endpoint_id is 'The endpoint.';
comment on column app.delivery.status is 'pending until it succeeds (delivered), or every attempt is used up or the endpoint is disabled (failed).';
comment on column app.delivery.attempts is 'Attempts of the present schedule; a redelivery starts again at 0.';
comment on column app.delivery.next_attempt_at is 'When the next attempt is due; null when there will be none.';
comment on column app.delivery.created_at is 'When it was made, with its event.';
comment on column app.delivery.finished_at is 'When it was delivered or failed; null while it is pending.';
grant select on app.delivery to sluice_api, sluice_jobs;

-- delivery_id has no foreign key: only app.record_attempts writes here, attempts are removed with their deliveries, and checking each row was
-- measured to cost a third of what the database does for a delivery.
create table app.delivery_attempt (
  id bigint generated always as identity,
  delivery_id uuid not null,
  attempted_at timestamptz not null,
  duration_ms int not null,
  response_status int,
  error text,
  primary key (delivery_id, id)
) partition by range (delivery_id);
comment on table app.delivery_attempt is 'Each HTTP request that tried to deliver an event. A partition for each week, the same as that of its delivery.';
comment on column app.delivery_attempt.id is 'Order of the attempts.';
comment on column app.delivery_attempt.delivery_id is 'The delivery.';
comment on column app.delivery_attempt.attempted_at is 'When the request began.';
comment on column app.delivery_attempt.duration_ms is 'How long it took, in milliseconds.';
comment on column app.delivery_attempt.response_status is 'HTTP status of the response; null if there was none.';
comment on column app.delivery_attempt.error is 'Why it failed; null if it succeeded.';
grant select on app.delivery_attempt to sluice_api, sluice_jobs;

create table app.delivery_default partition of app.delivery default;
create table app.delivery_attempt_default partition of app.delivery_attempt default;
comment on table app.delivery_default is 'Deliveries outside of all weeks: the clock was wrong, or no worker made the next week in time.';
comment on table app.delivery_attempt_default is 'Attempts of those deliveries.';

-- The first partition: everything up to the fifth week from now. app.maintain_partitions makes a partition for each later week.
do $$
declare until uuid := (lpad(to_hex((extract(epoch from date_trunc('week', clock_timestamp(), 'UTC') + 5 * interval '168 hours') * 1000)::bigint), 12, '0')
  || '70008000000000000000')::uuid;
begin
  execute format('create table app.delivery_first partition of app.delivery for values from (minvalue) to (%L)', until);
  execute format('create table app.delivery_attempt_first partition of app.delivery_attempt for values from (minvalue) to (%L)', until);
end $$;
