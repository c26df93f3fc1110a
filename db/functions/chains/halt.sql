-- A chain that stands still for an operator. Its indexer halts it (chain.halt) after it saw, several times in a row, that our final block is not on
-- the node's chain; then nothing is read, nothing becomes final, and nothing leaves. An operator decides: it goes on as it is, because the node was
-- wrong (app.resume_chain), or is read again from a lower block (app.request_rewind, in rewind.sql). Payouts and custody ask app.why_halted before
-- they let anything leave: an open incident of the chain is enough to stop that.
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
  update chain.cursor c set halted_at = null where c.chain = of_chain;
  update app.incident i set resolved_at = clock_timestamp(), resolution = 'resumed'
  where i.chain = of_chain and i.kind = 'fork_below_final' and i.resolved_at is null;
end $$;
comment on function app.resume_chain is 'An operator''s decision that a halted chain goes on as it is.';

create or replace function app.why_halted(of_chain text) returns text
language sql stable security definer set search_path = pg_catalog as $$
  select coalesce(
    (select 'the chain stands still for the operator' from chain.cursor c where c.chain = of_chain and c.halted_at is not null),
    (select 'incident ' || min(i.id) || ' (' || (array_agg(i.kind order by i.id))[1] || ') waits for the operator'
      from app.incident i where i.chain = of_chain and i.resolved_at is null having count(*) > 0))
$$;
comment on function app.why_halted is 'Why no payout of a chain goes on now: a halted chain or an open incident; null if nothing is wrong.';
grant execute on function app.why_halted to sluice_custody, sluice_jobs;
