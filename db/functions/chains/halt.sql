-- A chain that is halted for an operator. The indexer halts it (chain.halt) after it saw, several times in a row, that our final block is not on the
-- node's chain. Then nothing is read, nothing becomes final, and nothing leaves. An operator decides: resume the chain as it is, because the node
-- was wrong (app.resume_chain), or read it again from a lower block (app.request_rewind, in rewind.sql). Custody halts a chain, too, when the
-- database is an older copy (custody.halt_chain); both decisions are refused then. A chain is resumed when no incident that halts it is open.
-- Payouts and custody ask app.why_halted before they let anything leave: an open incident of the chain is enough to stop them.
-- Error: P0003 the chain is halted for another reason; the message has the way out (app.incident_kind).
-- Locks: chain.cursor, then incidents.

create or replace function chain.halt(of_chain text, details jsonb) returns void
language plpgsql security definer set search_path = pg_catalog as $$
begin
  update chain.cursor c set halted_at = clock_timestamp() where c.chain = of_chain and c.halted_at is null;
  insert into app.incident (chain, kind, subject, details) values (of_chain, 'fork_below_final', of_chain, details) on conflict do nothing;
end $$;
comment on function chain.halt is 'Stops a chain, with an incident, because the final block is no longer on the node''s chain. Safe to call again.';
grant execute on function chain.halt to sluice_indexer;

create or replace function app.resume_chain(of_chain text) returns void
language plpgsql security definer set search_path = pg_catalog as $$
begin
  perform from chain.cursor c where c.chain = of_chain for update;
  perform app.refuse_decision(of_chain, 'resume');
  update app.incident i set resolved_at = clock_timestamp(), resolution = 'resumed'
  where i.chain = of_chain and i.kind = 'fork_below_final' and i.resolved_at is null;
  perform chain.go_on(of_chain);
end $$;
comment on function app.resume_chain is 'An operator''s decision that a halted chain is resumed as it is. P0003 if it is halted for another reason.';

create or replace function chain.go_on(of_chain text) returns void
language sql set search_path = pg_catalog as $$
  update chain.cursor c set halted_at = null where c.chain = of_chain
    and not exists (select from app.open_incident i where i.chain = of_chain and i.halts)
$$;
comment on function chain.go_on is 'Ends the halt of a chain, unless an incident that halts it is open.';

create or replace function app.fill_way_out(way_out text, of_chain text, ids bigint[]) returns text
language sql immutable set search_path = pg_catalog
return replace(replace(way_out, '{id}', array_to_string(ids[:20], ' ')), '{chain}', coalesce(of_chain, ''))
  || case when cardinality(ids) > 20 and way_out like '%{id}%' then '. These are the first 20 of ' || cardinality(ids) else '' end;
comment on function app.fill_way_out is 'A way out of app.incident_kind with the numbers of incidents and their chain in its commands; of more than 20 it names the first 20, and says so.';
grant execute on function app.fill_way_out to sluice_api; -- by way of app.chain_state

create or replace function app.refuse_decision(of_chain text, decision text) returns void
language plpgsql stable set search_path = pg_catalog as $$
declare other app.open_incident;
begin
  select * into other from app.open_incident i where i.chain = of_chain and i.halts and decision <> all (i.decisions) order by i.ids limit 1;
  if other.kind is not null then
    raise exception '% is halted by incident % (%), which a % does not resolve: %', of_chain, other.ids[1], other.kind, decision, other.way_out
      using errcode = 'P0003';
  end if;
end $$;
comment on function app.refuse_decision is 'Raises P0003, with the way out, if a chain is halted by an incident that this decision (rewind or resume) does not resolve.';

create or replace function app.why_halted(of_chain text) returns text
language sql stable security definer set search_path = pg_catalog as $$
  select coalesce(
    (select 'incident ' || i.ids[1] || ' (' || i.kind || ') waits for the operator'
      from app.open_incident i where i.chain = of_chain order by i.halts desc, i.ids limit 1),
    (select 'the chain is halted' from chain.cursor c where c.chain = of_chain and c.halted_at is not null))
$$;
comment on function app.why_halted is 'Why payouts of a chain are stopped now: an open incident; null if nothing is wrong. Merchants may read it; the way out is for operators (app.way_out).';
grant execute on function app.why_halted to sluice_custody, sluice_jobs;

create or replace function app.way_out(of_chain text) returns text
language sql stable security definer set search_path = pg_catalog as $$
  select coalesce(
    (select 'incident ' || array_to_string(i.ids[:20], ' ') || ' (' || i.kind || '): ' || i.way_out
      from app.open_incident i where i.chain = of_chain order by i.halts desc, i.ids limit 1),
    (select 'it is halted, and no incident is open: sluice chain resume --chain ' || of_chain
      from chain.cursor c where c.chain = of_chain and c.halted_at is not null))
$$;
comment on function app.way_out is 'What an operator has to do first about a chain that is halted, or whose payouts are stopped; null if nothing is wrong.';
grant execute on function app.way_out to sluice_custody, sluice_jobs, sluice_indexer;
