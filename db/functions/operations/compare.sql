-- Compares what the chains hold with the ledger, for every address that was handed out, also where nothing was ever seen: a missed payment is at
-- such an address. The worker goes through all of them once a day, some at a time, so that neither a node nor the database is asked for a million at
-- once. `sluice audit` goes through all of them now. The audit and the metrics read what was found.
--
-- Invariants: app.chain_difference has what the newest comparison of an address found. Every address that was handed out before app.comparison.since
-- was compared at or after that time. An incident of the kind audit is open on the chain's check while there are differences. Two comparisons at
-- once find the same, and the position moves once.

-- A pass begins a day after the one before began.
create or replace function app.due_comparison(of_chain text) returns text
language plpgsql security definer set search_path = pg_catalog as $$
begin
  insert into app.comparison (chain) select c.chain from chain.cursor c where c.chain = of_chain on conflict do nothing;
  update app.comparison c set began_at = clock_timestamp(), position = '', height = null, compared = 0, unread = null
  where c.chain = of_chain and c.position is null and c.began_at < clock_timestamp() - interval '1 day';
  return (select c.position from app.comparison c where c.chain = of_chain and c.next_at <= clock_timestamp());
end $$;
comment on function app.due_comparison is 'For the worker: behind which address (match_key) the comparison with the chain continues now; null if it is not due. Safe to call at any time.';
grant execute on function app.due_comparison to sluice_jobs;

create or replace function app.is_comparison_due(of_chains text[]) returns boolean
language sql stable security definer set search_path = pg_catalog as $$
  select exists (select from chain.cursor c left join app.comparison p on p.chain = c.chain
    where c.chain = any(of_chains) and (p.chain is null or (p.next_at <= clock_timestamp()
      and (p.position is not null or p.began_at < clock_timestamp() - interval '1 day'))))
$$;
comment on function app.is_comparison_due is 'Whether app.due_comparison has something to do on one of these chains.';
grant execute on function app.is_comparison_due to sluice_jobs;

create or replace function app.begin_comparison(of_chain text) returns void
language sql security definer set search_path = pg_catalog as $$
  insert into app.comparison as c (chain) values (of_chain) on conflict (chain) do update
  set began_at = clock_timestamp(), position = '', height = null, compared = 0, unread = null, error = null, next_at = clock_timestamp()
$$;
comment on function app.begin_comparison is 'For an operator: begins to compare every address with the chain anew, now.';
grant execute on function app.begin_comparison to sluice_jobs;

create or replace function app.addresses_to_compare(of_chain text, after text, batch int)
returns table (match_key text, address text, handed_out_at timestamptz, known_right_at int)
language sql stable security definer set search_path = pg_catalog as $$
  select a.match_key, a.address, a.created_at, case when a.created_at < c.since then c.since_height end
  from app.address a left join app.comparison c on c.chain = a.chain
  where a.chain = of_chain and a.match_key > after order by a.match_key limit batch
$$;
comment on function app.addresses_to_compare is 'The next addresses that were handed out, and the height at which each was compared before, if it was.';
grant execute on function app.addresses_to_compare to sluice_jobs;

-- Safe to run twice: differences are written by their key, and the position moves only from where the caller was.
create or replace function app.record_comparison(of_chain text, claim text, after text, last text, addresses text[], differences jsonb,
  of_unread text, at_height int, took interval) returns void
language plpgsql security definer set search_path = pg_catalog as $$
declare differing record;
begin
  delete from app.chain_difference d where of_unread is null and d.chain = of_chain and d.address = any(addresses) and not exists (
    select from jsonb_to_recordset(differences) f (address text, token text, outpoint text)
    where f.address = d.address and f.token = d.token and f.outpoint = d.outpoint);
  insert into app.chain_difference as d (chain, address, token, outpoint, ledger, on_chain, from_height, handed_out_at)
  select of_chain, f.address, f.token, f.outpoint, f.ledger, f.on_chain, f.from_height, f.handed_out_at
  from jsonb_to_recordset(differences) f
    (address text, token text, outpoint text, ledger numeric, on_chain numeric, from_height int, handed_out_at timestamptz)
  on conflict (chain, address, token, outpoint) do update set ledger = excluded.ledger, on_chain = excluded.on_chain,
    from_height = least(d.from_height, excluded.from_height); -- what was missing before is still missing
  update app.comparison c set compared = c.compared + cardinality(addresses), height = least(c.height, at_height),
    unread = coalesce(c.unread, of_unread), error = null, next_at = clock_timestamp() + 3 * took,
    position = case when exists (select from app.address a where a.chain = of_chain and a.match_key > last) then last end
  where c.chain = of_chain and c.position = after;
  update app.comparison c set since = c.began_at, since_height = c.height
  where c.chain = of_chain and c.position is null and c.unread is null and c.since is distinct from c.began_at;
  select * into differing from app.found_differences(of_chain);
  perform app.tell_finding('on_chain_' || lower(of_chain), claim, differing.count, differing.found);
end $$;
comment on function app.record_comparison is 'Stores what the comparison of some addresses with the chain found, and its position; opens, updates or closes the incident. last: the match_key of the last of them, null if none were left. Safe to run twice.';
grant execute on function app.record_comparison to sluice_jobs;

create or replace function app.fail_comparison(of_chain text, why text) returns void
language sql security definer set search_path = pg_catalog as $$
  update app.comparison c set error = why, next_at = clock_timestamp() + interval '1 minute' where c.chain = of_chain
$$;
comment on function app.fail_comparison is 'Notes why a chain could not be asked; the comparison is tried again.';
grant execute on function app.fail_comparison to sluice_jobs;

create or replace function app.found_differences(of_chain text, out count bigint, out found jsonb)
language sql stable security definer set search_path = pg_catalog as $$
  select (select count(*) from app.chain_difference d where d.chain = of_chain), coalesce((
    select jsonb_agg(jsonb_strip_nulls(jsonb_build_object('address', d.address, 'token', d.token, 'outpoint', nullif(d.outpoint, ''),
      'ledger', d.ledger::text, 'chain', d.on_chain::text, 'missing', case when d.on_chain > d.ledger then (d.on_chain - d.ledger)::text end,
      'gone', case when d.on_chain < d.ledger then (d.ledger - d.on_chain)::text end,
      'handed_out', case when d.on_chain > d.ledger then app.iso(d.handed_out_at) end,
      'run', case when d.on_chain > d.ledger then 'sluice reindex --chain ' || d.chain || ' --from ' || coalesce(d.from_height::text, 'HEIGHT') end)))
    from (select * from app.chain_difference d where d.chain = of_chain order by d.address, d.token, d.outpoint limit 10) d), '[]')
$$;
comment on function app.found_differences is 'How many addresses differ from the chain, and the first ten: what the ledger is missing, with the command that reads it again; or what is gone from the chain.';
grant execute on function app.found_differences to sluice_jobs;

-- Before there is a comparison: the age of the first migration.
create or replace function app.comparison_age(of_chain text) returns interval
language sql stable security definer set search_path = pg_catalog as $$
  select clock_timestamp() - coalesce((select coalesce(c.since, c.created_at) from app.comparison c where c.chain = of_chain),
    (select min(m.applied_at) from public.sluice_migration m))
$$;
comment on function app.comparison_age is 'How long ago the oldest comparison is: every address that was handed out before that has been compared with the chain since.';
grant execute on function app.comparison_age to sluice_jobs;
