-- Nodes that seem to save no internal transactions: no root covers these, so what contracts pay would be missed without a trace. The indexer looks at
-- its nodes daily (indexers/tron/internal-transactions.ts). The chain is followed meanwhile, because nothing proves it.

create or replace function chain.note_no_internals(of_chain text, missing jsonb) returns void
language plpgsql security definer set search_path = pg_catalog as $$
begin
  if missing = '[]' then
    update app.incident i set resolved_at = clock_timestamp(), resolution = 'healed'
    where i.kind = 'no_internal_transactions' and i.subject = of_chain and i.resolved_at is null;
    return;
  end if;
  insert into app.incident as i (chain, kind, subject, details)
  select null, 'no_internal_transactions', of_chain, jsonb_build_object('nodes', missing) -- without a chain: payouts go on
  where not exists (select from app.incident k where k.kind = 'no_internal_transactions' and k.subject = of_chain
    and k.resolution = 'kept' and k.resolved_at > clock_timestamp() - interval '30 days')
  on conflict (subject, kind) where resolved_at is null do update set details = excluded.details;
end $$;
comment on function chain.note_no_internals is 'Opens an incident, or renews it, about nodes ([{"setting", "calls", "from", "to"}, ...]) that show no internal transactions of many calls; with an empty list, closes it. An operator who keeps it is not told again for 30 days.';
grant execute on function chain.note_no_internals to sluice_indexer;
