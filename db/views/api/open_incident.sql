-- Open incidents with the way out of each, for everything that shows them to an operator. One row for each kind and chain, because one command
-- handles several of them.
create or replace view app.open_incident as
select i.chain, i.kind, k.halts, k.decisions, i.ids, i.since,
  app.fill_way_out(k.way_out, i.chain, i.ids) as way_out
from (select chain, kind, array_agg(id order by id) as ids, min(opened_at) as since from app.incident where resolved_at is null group by chain, kind) i
join app.incident_kind k using (kind);
comment on view app.open_incident is 'Incidents that wait for an operator, by chain and kind, with the way out.';
comment on column app.open_incident.chain is 'Chain code; null if it concerns no single chain.';
comment on column app.open_incident.kind is 'The kind, as in app.incident_kind.';
comment on column app.open_incident.halts is 'True if the chain is halted meanwhile.';
comment on column app.open_incident.decisions is 'What resolves it: kept, reorged, rewind, resume or reconcile.';
comment on column app.open_incident.ids is 'Numbers of the incidents, the oldest first.';
comment on column app.open_incident.since is 'When the oldest was noticed.';
comment on column app.open_incident.way_out is 'What to do, with the commands; for the first 20 if there are more.';
