-- Comparing what the chains hold with the ledger, for every address that was handed out, also where nothing was ever seen: a payment that was
-- missed is at such an address. All of them are gone through once a day, some at a time, so that neither a node nor the database is asked
-- for a million at once (jobs/audit/compare.ts).
--
-- Writers: the jobs worker, some addresses at a time; sluice audit, all of them. Readers: the audit, metrics.
--
-- Invariants: what app.chain_difference has of an address is what its newest comparison found; every address that was handed out before
-- app.comparison.since was compared at or after that time; an incident of the kind audit is open on the chain's check while there are differences.

drop index concurrently if exists app.ledger_entry_unattributed;

-- What an address holds for nobody. What it holds for its merchant is in app.holding.
create index concurrently ledger_entry_unattributed on app.ledger_entry (chain, address, token) include (amount) where account = 'address' and merchant_id is null;

drop index concurrently if exists app.deposit_unattributed_address;

create index concurrently deposit_unattributed_address on app.deposit (chain, address) where status = 'final' and not credited and merchant_id is not null;

-- Transaction
create table app.comparison (
  chain text primary key,
  created_at timestamptz not null default clock_timestamp(),
  began_at timestamptz not null default clock_timestamp(),
  position text default '',
  height int,
  compared bigint not null default 0,
  unread text,
  next_at timestamptz not null default clock_timestamp(),
  error text,
  since timestamptz,
  since_height int
);
comment on table app.comparison is 'How far the comparison of every address with the chain is, and how old the oldest one is.';
comment on column app.comparison.chain is 'Chain code.';
comment on column app.comparison.created_at is 'When the chain was compared first.';
comment on column app.comparison.began_at is 'When the pass over all addresses began that is under way, or was the last.';
comment on column app.comparison.position is 'match_key of the last address that this pass compared; empty before the first, null when it is over.';
comment on column app.comparison.height is 'The lowest final height at which this pass compared.';
comment on column app.comparison.compared is 'How many addresses this pass compared.';
comment on column app.comparison.unread is 'What this pass could not read, and why; null if it read everything.';
comment on column app.comparison.next_at is 'When the worker goes on, so that it asks the node for no more than a quarter of the time.';
comment on column app.comparison.error is 'Why the chain could not be asked when it was last tried; null if it could.';
comment on column app.comparison.since is 'Every address that was handed out before was compared since then; null before the first whole pass.';
comment on column app.comparison.since_height is 'The lowest final height at which the last whole pass compared.';

create table app.chain_difference (
  chain text not null,
  address text not null,
  token text not null,
  outpoint text not null default '',
  ledger numeric not null,
  on_chain numeric not null,
  from_height int,
  handed_out_at timestamptz not null,
  found_at timestamptz not null default clock_timestamp(),
  primary key (chain, address, token, outpoint)
);
comment on table app.chain_difference is 'Addresses of ours that hold something else on the chain than the ledger says, as their newest comparison found it, twice in a row.';
comment on column app.chain_difference.chain is 'Chain code.';
comment on column app.chain_difference.address is 'Our address.';
comment on column app.chain_difference.token is 'Token code.';
comment on column app.chain_difference.outpoint is 'The output (txid:vout), on chains that have them; else empty.';
comment on column app.chain_difference.ledger is 'What it holds by the ledger, in base units.';
comment on column app.chain_difference.on_chain is 'What it holds on the chain.';
comment on column app.chain_difference.from_height is 'What is missing in the ledger is in this block or above; null if that is not known.';
comment on column app.chain_difference.handed_out_at is 'When the address was handed out.';
comment on column app.chain_difference.found_at is 'When it was found.';

-- What the ledger says ---------------------------------------------------------------------------------------------------------------------------

create function app.ledger_holdings(of_chain text, addresses text[]) returns table (address text, token text, amount numeric)
language sql stable security definer set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
  with treasury as materialized (select app.treasury_address(of_chain) as address)
  select w.address, a.token, coalesce(h.amount, 0) + coalesce(u.amount, 0) + coalesce(t.amount, 0)
  from unnest(addresses) w (address) join app.asset a on a.chain = of_chain cross join treasury
  left join app.holding h on h.chain = of_chain and h.address = w.address and h.token = a.token
  left join lateral (select sum(e.amount) as amount from app.ledger_entry e
    where e.account = 'address' and e.merchant_id is null and e.chain = of_chain and e.address = w.address and e.token = a.token) u on true
  left join lateral (select sum(e.amount) as amount from app.ledger_entry e
    where e.account = 'treasury' and e.chain = of_chain and e.token = a.token and w.address = treasury.address) t on true
$$;
comment on function app.ledger_holdings is 'What these addresses hold of each token at the final height, by the ledger.';

create function app.ledger_outputs(of_chain text, addresses text[]) returns table (address text, outpoint text, amount numeric, is_leaving boolean)
language sql stable security definer set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
  select u.address, u.txid || ':' || u.vout, u.amount, u.spend_id is not null or exists (
    select from chain.inclusion i where i.chain = u.chain and i.sender = u.txid || ':' || u.vout)
  from unnest(addresses) w (address) join app.output u on u.chain = of_chain and u.address = w.address and u.spent_by is null
  union all -- not ours to spend
  select d.address, d.txid || ':' || d.output_index, d.amount, false
  from unnest(addresses) w (address) join app.deposit d on d.chain = of_chain and d.address = w.address
    and d.status = 'final' and not d.credited and d.merchant_id is not null
$$;
comment on function app.ledger_outputs is 'The final unspent outputs of these addresses, by the ledger; leaving where a transaction of ours, or a block, spends it.';

comment on function app.audit_holdings is 'For processes of the version before; the next version drops it. app.ledger_holdings has taken its place.';
comment on function app.audit_outputs is 'For processes of the version before; the next version drops it. app.ledger_outputs has taken its place.';

-- Why a comparison would prove nothing now: after sluice chain rewind the ledger is of blocks above the final one, until they are final again.
create function app.why_not_comparable(of_chain text) returns text
language sql stable security definer set search_path = pg_catalog as $$
  select coalesce(
    (select 'the chain stands still for the operator' from chain.cursor c where c.chain = of_chain and (c.halted_at is not null or c.rewind_to is not null)),
    (select 'incident ' || min(i.id) || ' waits for the operator: what was final is not there' from app.incident i
      where i.chain = of_chain and i.kind = 'final_payment_vanished' and i.resolved_at is null having count(*) > 0),
    (select 'blocks that were final are read again' from app.incident i join chain.cursor c on c.chain = i.chain
      where i.chain = of_chain and i.kind like 'final\_%' and (i.resolved_at is null or i.resolution = 'healed') and greatest(
        (select d.block_height from app.deposit d where d.status = 'final' and d.id = case when i.kind like 'final\_deposit\_%' then i.subject::uuid end),
        (select max(n.block_height) from app.spend_inclusion n where n.spend_id = case when i.kind like 'final\_payment\_%' then i.subject::uuid end)
      ) > c.final_height limit 1))
$$;
comment on function app.why_not_comparable is 'Why the chain cannot be compared with the ledger now; null if it can.';

-- Going through them -------------------------------------------------------------------------------------------------------------------------------

-- By the worker: where to go on, if it is time; a pass begins a day after the one before began.
create function app.due_comparison(of_chain text) returns text
language plpgsql security definer set search_path = pg_catalog as $$
begin
  insert into app.comparison (chain) select c.chain from chain.cursor c where c.chain = of_chain on conflict do nothing;
  update app.comparison c set began_at = clock_timestamp(), position = '', height = null, compared = 0, unread = null
  where c.chain = of_chain and c.position is null and c.began_at < clock_timestamp() - interval '1 day';
  return (select c.position from app.comparison c where c.chain = of_chain and c.next_at <= clock_timestamp());
end $$;
comment on function app.due_comparison is 'Behind which address the comparison with the chain goes on now; null if it is not time. Safe to call at any time.';

create function app.is_comparison_due(of_chains text[]) returns boolean
language sql stable security definer set search_path = pg_catalog as $$
  select exists (select from chain.cursor c left join app.comparison p on p.chain = c.chain
    where c.chain = any(of_chains) and (p.chain is null or (p.next_at <= clock_timestamp()
      and (p.position is not null or p.began_at < clock_timestamp() - interval '1 day'))))
$$;
comment on function app.is_comparison_due is 'Whether app.due_comparison has something to do on one of these chains.';

-- By an operator: all of them anew, now.
create function app.begin_comparison(of_chain text) returns void
language sql security definer set search_path = pg_catalog as $$
  insert into app.comparison as c (chain) values (of_chain) on conflict (chain) do update
  set began_at = clock_timestamp(), position = '', height = null, compared = 0, unread = null, error = null, next_at = clock_timestamp()
$$;
comment on function app.begin_comparison is 'Begins to compare every address with the chain anew.';

create function app.addresses_to_compare(of_chain text, after text, batch int)
returns table (match_key text, address text, handed_out_at timestamptz, known_right_at int)
language sql stable security definer set search_path = pg_catalog as $$
  select a.match_key, a.address, a.created_at, case when a.created_at < c.since then c.since_height end
  from app.address a left join app.comparison c on c.chain = a.chain
  where a.chain = of_chain and a.match_key > after order by a.match_key limit batch
$$;
comment on function app.addresses_to_compare is 'The next addresses that were handed out, and the height at which each was compared before, if it was.';

-- A check that finds something opens an incident, or brings the open one up to date; one that finds nothing heals it. What an operator decided to
-- keep stays silent for as long as exactly that is found. What a command mends is told beside it, with the command.
create function app.tell_finding(name text, claim text, count bigint, what jsonb) returns void
language plpgsql set search_path = pg_catalog as $$
declare
  told constant text := 'audit:' || name;
  seen jsonb := jsonb_build_object('claim', claim, 'count', count, 'found', what);
  last app.incident;
begin
  seen := seen || coalesce((select jsonb_build_object('address', f.row -> 'address', 'missing', (f.row ->> 'missing') || ' ' || (f.row ->> 'token'),
    'run', f.row -> 'run') from jsonb_array_elements(what) with ordinality f (row, n) where f.row ? 'run' order by f.n limit 1), '{}');
  perform pg_advisory_xact_lock(hashtextextended('app.finish_audit', 0));
  select * into last from app.incident i where i.kind = 'audit' and i.subject = told order by i.resolved_at is null desc, i.id desc limit 1;
  if last.id is not null and last.resolved_at is null then
    update app.incident i set details = case when count > 0 then seen else i.details end,
      resolved_at = case when count = 0 then clock_timestamp() end, resolution = case when count = 0 then 'healed' end
    where i.id = last.id;
  elsif count > 0 and (last.resolution = 'kept' and last.details - 'claim' = seen - 'claim') is not true then
    insert into app.incident (chain, kind, subject, details) values (null, 'audit', told, seen);
  end if;
end $$;

-- 020_audit.sql; what a finding opens or heals is app.tell_finding's now.
create or replace function app.finish_audit(of_run bigint, findings jsonb, error text) returns void
language plpgsql security definer set search_path = pg_catalog as $$
begin
  perform pg_advisory_xact_lock(hashtextextended('app.finish_audit', 0));
  insert into app.audit_finding (run_id, name, claim, count, found)
  select of_run, f.name, f.claim, f.count, f.found from jsonb_to_recordset(findings) as f (name text, claim text, count bigint, found jsonb);
  update app.audit_run r set finished_at = clock_timestamp(), error = finish_audit.error where r.id = of_run;
  perform app.tell_finding(f.name, f.claim, f.count, f.found) from app.audit_finding f where f.run_id = of_run order by f.name;
end $$;

create function app.found_differences(of_chain text, out count bigint, out found jsonb)
language sql stable security definer set search_path = pg_catalog as $$
  select (select count(*) from app.chain_difference d where d.chain = of_chain), coalesce((
    select jsonb_agg(jsonb_strip_nulls(jsonb_build_object('address', d.address, 'token', d.token, 'outpoint', nullif(d.outpoint, ''),
      'ledger', d.ledger::text, 'chain', d.on_chain::text, 'missing', case when d.on_chain > d.ledger then (d.on_chain - d.ledger)::text end,
      'gone', case when d.on_chain < d.ledger then (d.ledger - d.on_chain)::text end,
      'handed_out', case when d.on_chain > d.ledger then app.iso(d.handed_out_at) end,
      'run', case when d.on_chain > d.ledger then 'sluice reindex --chain ' || d.chain || ' --from ' || coalesce(d.from_height::text, 'HEIGHT') end)))
    from (select * from app.chain_difference d where d.chain = of_chain order by d.address, d.token, d.outpoint limit 10) d), '[]')
$$;
comment on function app.found_differences is 'How many addresses differ from the chain, and the first ten: what is missing in the ledger, and the command that reads it again; or what is gone.';

-- last: the match_key of the last of the addresses; null if there were none any more. Safe to run twice: what differs is written by its key, and the
-- position moves only from where the caller was.
create function app.record_comparison(of_chain text, claim text, after text, last text, addresses text[], differences jsonb, of_unread text, at_height int, took interval)
returns void
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
    from_height = least(d.from_height, excluded.from_height); -- what was missing before is
  update app.comparison c set compared = c.compared + cardinality(addresses), height = least(c.height, at_height),
    unread = coalesce(c.unread, of_unread), error = null, next_at = clock_timestamp() + 3 * took,
    position = case when exists (select from app.address a where a.chain = of_chain and a.match_key > last) then last end
  where c.chain = of_chain and c.position = after;
  update app.comparison c set since = c.began_at, since_height = c.height
  where c.chain = of_chain and c.position is null and c.unread is null and c.since is distinct from c.began_at;
  select * into differing from app.found_differences(of_chain);
  perform app.tell_finding('on_chain_' || lower(of_chain), claim, differing.count, differing.found);
end $$;
comment on function app.record_comparison is 'Writes down what the comparison of some addresses with the chain found, and how far it is; opens, renews or heals the incident. Safe to run twice.';

create function app.fail_comparison(of_chain text, why text) returns void
language sql security definer set search_path = pg_catalog as $$
  update app.comparison c set error = why, next_at = clock_timestamp() + interval '1 minute' where c.chain = of_chain
$$;
comment on function app.fail_comparison is 'Notes why a chain could not be asked; it is tried again.';

-- How old the oldest comparison is; before there is one, how long there has been nothing to tell.
create function app.comparison_age(of_chain text) returns interval
language sql stable security definer set search_path = pg_catalog as $$
  select clock_timestamp() - coalesce((select coalesce(c.since, c.created_at) from app.comparison c where c.chain = of_chain),
    (select m.applied_at from public.sluice_migration m where m.name like '030%'))
$$;
comment on function app.comparison_age is 'No address that was handed out longer ago than so has not been compared with the chain since.';

create function app.comparison_metrics() returns table (metric text, labels json, value double precision)
language sql stable set search_path = pg_catalog as $$
  select 'sluice_audit_addresses_age_seconds', json_build_object('chain', c.chain), extract(epoch from app.comparison_age(c.chain)) from chain.cursor c
$$;

-- As in 028_payment_views.sql, and besides: the age of the oldest comparison.
create or replace function app.metrics() returns table (metric text, labels json, value double precision)
language plpgsql stable security definer set search_path = pg_catalog as $$
begin
  return query
    select * from app.chain_metrics()
    union all
    select * from app.upkeep_metrics()
    union all
    select * from app.payout_metrics()
    union all
    select * from app.payment_metrics()
    union all
    select * from app.comparison_metrics();
end $$;

grant execute on function app.ledger_holdings, app.ledger_outputs, app.why_not_comparable, app.due_comparison, app.is_comparison_due, app.begin_comparison,
  app.addresses_to_compare, app.found_differences, app.record_comparison, app.fail_comparison, app.comparison_age to sluice_jobs;
grant select on app.comparison to sluice_jobs;
