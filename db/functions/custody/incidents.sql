-- Incidents about what custody finds wrong before it signs: the database is older than custody's journal, or somebody changed the journal's table.
-- Custody calls these at its start, and while it compares the table with its file. Safe to call again and again: there is one open incident.

create or replace function custody.halt_chain(of_chain text, why text) returns void
language plpgsql security definer set search_path = pg_catalog as $$
begin
  update chain.cursor c set halted_at = clock_timestamp() where c.chain = of_chain and c.halted_at is null;
  insert into app.incident (chain, kind, subject, details) values (of_chain, 'journal_ahead', of_chain, jsonb_build_object('why', why))
  on conflict do nothing;
end $$;
comment on function custody.halt_chain is 'Stops a chain, with an incident, because the database is an older copy than custody''s journal.';
grant execute on function custody.halt_chain to sluice_custody;

create or replace function custody.tell_journal(of_stream text, why text) returns void
language plpgsql security definer set search_path = pg_catalog as $$
begin
  if why is null then
    update app.incident i set resolved_at = clock_timestamp(), resolution = 'healed'
    where i.kind = 'journal_changed' and i.subject = of_stream and i.resolved_at is null;
  else
    insert into app.incident as i (chain, kind, subject, details)
    values ((select c.chain from app.chain c where c.chain = of_stream), 'journal_changed', of_stream, jsonb_build_object('why', why))
    on conflict (subject, kind) where resolved_at is null do update set details = excluded.details where i.details <> excluded.details;
  end if;
end $$;
comment on function custody.tell_journal is 'Opens or renews the incident about what custody found wrong with a stream of custody.journal; null closes it.';
grant execute on function custody.tell_journal to sluice_custody;
