-- The checks of the audit leave out what is here: an incident has reported it once, and an operator is handling it, or has decided about it.
create or replace view app.known_incident as
select subject, kind from app.incident where resolved_at is null or resolution = 'kept';
comment on view app.known_incident is 'Incidents that are open, or that an operator decided to keep: an audit does not report them again.';
comment on column app.known_incident.subject is 'What it is about, as in app.incident.';
comment on column app.known_incident.kind is 'Kind of the incident.';
