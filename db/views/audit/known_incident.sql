-- The checks of the audit leave out what is here: it was told once, as an incident, and an operator deals with it, or has decided about it.
create or replace view app.known_incident as
select subject, kind from app.incident where resolved_at is null or resolution = 'kept';
comment on view app.known_incident is 'Incidents that are open, or that an operator decided to keep: what they say, an audit does not say again.';
comment on column app.known_incident.subject is 'What it is about, as in app.incident.';
comment on column app.known_incident.kind is 'Kind of the incident.';
