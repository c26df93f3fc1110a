-- The parts of /metrics (operations/metrics.sql) about chains: how far each one is, what stops it, and what waits on it for an operator.

-- Chains that were never followed are included: when they were configured, and what they wait for.
create or replace function app.chain_metrics() returns table (metric text, labels json, value double precision)
language plpgsql stable set search_path = pg_catalog as $$
begin
  return query
    select m.metric, m.labels, m.value from chain.cursor c full join chain.configured g using (chain)
    cross join lateral (select json_build_object('chain', chain) as labels) plain cross join lateral (values
      ('sluice_chain_head_height', plain.labels, c.head_height::double precision),
      ('sluice_chain_final_height', plain.labels, c.final_height::double precision),
      ('sluice_chain_head_age_seconds', plain.labels, extract(epoch from clock_timestamp() - coalesce(c.head_time, g.configured_at))),
      ('sluice_chain_head_moved_age_seconds', plain.labels, extract(epoch from clock_timestamp() - coalesce(c.head_moved_at, g.configured_at))),
      ('sluice_chain_final_moved_age_seconds', plain.labels, extract(epoch from clock_timestamp() - coalesce(c.final_moved_at, g.configured_at))),
      ('sluice_chain_last_reorg_depth_blocks', plain.labels, c.last_reorg_depth::double precision),
      ('sluice_chain_last_reorg_age_seconds', plain.labels, extract(epoch from clock_timestamp() - c.last_reorg_at)),
      ('sluice_chain_halted', plain.labels, (c.halted_at is not null)::int::double precision),
      ('sluice_chain_waiting_seconds', json_build_object('chain', chain, 'reason', g.waiting_reason),
        extract(epoch from clock_timestamp() - g.waiting_since))) m (metric, labels, value)
    where m.value is not null
    union all
    select 'sluice_deposits_pending', json_build_object('chain', c.chain), n.count from chain.cursor c
    cross join lateral (select count(*) from app.deposit d where d.chain = c.chain and d.status = 'pending') n
    union all
    select 'sluice_unattributed_deposits', json_build_object('chain', c.chain), n.count from chain.cursor c
    cross join lateral (select count(*) from app.deposit d
      where d.chain = c.chain and d.status = 'final' and not d.credited and d.merchant_id is not null
        and not exists (select from app.unattributed_decision u where u.deposit_id = d.id) and not app.is_dismissed(d)) n
    union all
    select 'sluice_incidents_open', json_build_object('chain', coalesce(c.chain, 'none')), count(i.id)
    from (select chain from chain.cursor union all select null) c
    left join app.incident i on i.chain is not distinct from c.chain and i.resolved_at is null group by c.chain;
end $$;
comment on function app.chain_metrics is 'Heights of each chain and how old they are, its last reorganisation, what it waits for, deposits that are pending or unattributed, and open incidents.';


create or replace function app.contradiction_metrics() returns table (metric text, labels json, value double precision)
language sql stable set search_path = pg_catalog as $$
  select 'sluice_chain_contradicted_seconds', json_build_object('chain', s.chain, 'txid', coalesce(s.txid, 'none')),
    extract(epoch from clock_timestamp() - s.since)
  from chain.standing_contradiction s
$$;
comment on function app.contradiction_metrics is 'How long nothing new of a chain could be written, because its servers contradict themselves.';


create or replace function app.comparison_metrics() returns table (metric text, labels json, value double precision)
language sql stable set search_path = pg_catalog as $$
  select 'sluice_audit_addresses_age_seconds', json_build_object('chain', c.chain), extract(epoch from app.comparison_age(c.chain)) from chain.cursor c
$$;
comment on function app.comparison_metrics is 'The age of the oldest comparison of an address with each chain.';

