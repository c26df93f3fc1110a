-- What must never happen and did, and how it ended. sluice incident list shows operators the same.
create or replace view analytics.incidents with (security_barrier) as
select
  i.id as incident_id, i.chain, i.kind, k.halts, i.subject, i.details, i.opened_at, i.resolved_at, i.resolution,
  round(extract(epoch from i.resolved_at - i.opened_at), 3) as seconds_open
from app.incident i
join app.incident_kind k on k.kind = i.kind;
comment on view analytics.incidents is 'One row for each incident, open or resolved. While one of a chain is open, its payouts wait.';
comment on column analytics.incidents.incident_id is 'Number of the incident, as in sluice incident. Numbers have gaps.';
comment on column analytics.incidents.chain is 'Chain code; null if it concerns no single chain.';
comment on column analytics.incidents.kind is 'Its kind; docs/operations.md describes them.';
comment on column analytics.incidents.halts is 'True if nothing of the chain is read while it is open; if false, and it names a chain, only payouts stop.';
comment on column analytics.incidents.subject is 'What it is about: an id, an address, a chain or a check of the audit, by its kind.';
comment on column analytics.incidents.details is 'What was seen. Amounts are in base units.';
comment on column analytics.incidents.opened_at is 'When it was noticed.';
comment on column analytics.incidents.resolved_at is 'When it was resolved; null while it is open.';
comment on column analytics.incidents.resolution is 'How it ended: healed (by itself), or what an operator decided; null while it is open.';
comment on column analytics.incidents.seconds_open is 'Seconds from opened_at to resolved_at; null while it is open.';
grant select on analytics.incidents to sluice_analyst;
