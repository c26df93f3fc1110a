-- A chain that stands still for an operator. Its indexer halts it (chain.halt) after it saw, several times in a row, that our final block is not on
-- the node's chain; then nothing is read, nothing becomes final, and nothing leaves. An operator decides: it goes on as it is, because the node was
-- wrong (app.resume_chain), or is read again from a lower block (app.request_rewind, in rewind.sql). Custody halts it, too, where the database is
-- an older copy (custody.halt_chain); then neither helps, and both are refused. A chain goes on when no incident that halts it is open. Payouts and
-- custody ask app.why_halted before they let anything leave: an open incident of the chain is enough to stop that.
-- Error: P0003 the chain is halted for something else; the message has the way out (app.incident_kind).
-- Locks: chain.cursor, then incidents.

create or replace function chain.halt(of_chain text, details jsonb) returns void
language plpgsql security definer set search_path = pg_catalog as $$
begin
  update chain.cursor c set halted_at = clock_timestamp() where c.chain = of_chain and c.halted_at is null;
  insert into app.incident (chain, kind, subject, details) values (of_chain, 'fork_below_final', of_chain, details) on conflict do nothing;
end $$;
comment on function chain.halt is 'Stops a chain, with an incident, because the final block is not on the node''s chain any more. Safe to call again.';
grant execute on function chain.halt to sluice_indexer;

create or replace function app.resume_chain(of_chain text) returns void
language plpgsql security definer set search_path = pg_catalog as $$
begin
  perform from chain.cursor c where c.chain = of_chain for update;
  perform app.refuse_answer(of_chain, 'resume');
  update app.incident i set resolved_at = clock_timestamp(), resolution = 'resumed'
  where i.chain = of_chain and i.kind = 'fork_below_final' and i.resolved_at is null;
  perform chain.go_on(of_chain);
end $$;
comment on function app.resume_chain is 'An operator''s decision that a halted chain goes on as it is. P0003 where it is halted for something else.';

create or replace function chain.go_on(of_chain text) returns void
language sql set search_path = pg_catalog as $$
  update chain.cursor c set halted_at = null where c.chain = of_chain
    and not exists (select from app.open_incident i where i.chain = of_chain and i.halts)
$$;
comment on function chain.go_on is 'Ends the halt of a chain, unless an incident that halts it is open.';

create or replace function app.fill_way_out(way_out text, of_chain text, ids bigint[]) returns text
language sql immutable set search_path = pg_catalog
return replace(replace(way_out, '{id}', array_to_string(ids[:20], ' ')), '{chain}', coalesce(of_chain, ''));
comment on function app.fill_way_out is 'A way out of app.incident_kind with the numbers of incidents (the first 20) and their chain in its commands.';
grant execute on function app.fill_way_out to sluice_api; -- by way of app.chain_state

create or replace function app.refuse_answer(of_chain text, answer text) returns void
language plpgsql stable set search_path = pg_catalog as $$
declare other app.open_incident;
begin
  select * into other from app.open_incident i where i.chain = of_chain and i.halts and answer <> all (i.decisions) order by i.ids limit 1;
  if other.kind is not null then
    raise exception '% is halted by incident % (%), which a % does not resolve: %', of_chain, other.ids[1], other.kind, answer, other.way_out
      using errcode = 'P0003';
  end if;
end $$;
comment on function app.refuse_answer is 'Raises P0003, with the way out, where a chain is halted by an incident that rewind, or resume, does not answer.';

create or replace function app.why_halted(of_chain text) returns text
language sql stable security definer set search_path = pg_catalog as $$
  select coalesce(
    (select 'incident ' || i.ids[1] || ' (' || i.kind || ') waits for the operator'
      from app.open_incident i where i.chain = of_chain order by i.halts desc, i.ids limit 1),
    (select 'the chain is halted' from chain.cursor c where c.chain = of_chain and c.halted_at is not null))
$$;
comment on function app.why_halted is 'Why no payout of a chain goes on now: an open incident; null if nothing is wrong. Merchants may read it; the way out is for operators (app.way_out).';
grant execute on function app.why_halted to sluice_custody, sluice_jobs;

create or replace function app.way_out(of_chain text) returns text
language sql stable security definer set search_path = pg_catalog as $$
  select coalesce(
    (select 'incident ' || array_to_string(i.ids[:20], ' ') || ' (' || i.kind || '): ' || i.way_out
      from app.open_incident i where i.chain = of_chain order by i.halts desc, i.ids limit 1),
    (select 'it is halted, and no incident is open: sluice chain resume --chain ' || of_chain
      from chain.cursor c where c.chain = of_chain and c.halted_at is not null))
$$;
comment on function app.way_out is 'The first thing that an operator has to do about a chain that is halted, or whose payouts are stopped; null if nothing is wrong.';
grant execute on function app.way_out to sluice_custody, sluice_jobs, sluice_indexer;
