-- Why nothing of a chain is read now, the first reason of each chain: an incident halts it, its servers contradict themselves, or its indexer waits.
-- This is the only place that defines it: sluice status and /readyz read it. Nothing is decided by it.
create or replace view app.standstill with (security_barrier) as
select distinct on (w.chain) w.chain, w.reason, w.message, w.since, w.way_out from (
  select 1 as rank, c.chain, coalesce(i.kind, 'halted') as reason, coalesce(i.message, 'it is halted') as message, c.halted_at as since,
    coalesce(i.way_out, 'sluice chain resume --chain ' || c.chain) as way_out
  from chain.cursor c
  left join lateral (select o.kind, 'incident ' || array_to_string(o.ids[:20], ' ') || ' (' || o.kind || ')' as message, o.way_out
    from app.open_incident o where o.chain = c.chain and o.halts
    order by 'resume' = any (o.decisions) limit 1) i on true -- an incident that resume does not resolve comes first
  where c.halted_at is not null
  union all
  select 2, s.chain, 'servers_contradict', s.message, s.since,
    'compare it with a block explorer; restart the server, have it build its index again, or name another one in the settings'
  from chain.standing_contradiction s
  union all
  select 3, g.chain, g.waiting_reason, g.waiting_message, g.waiting_since, null from chain.configured g where g.waiting_reason is not null
) w order by w.chain, w.rank;
comment on view app.standstill is 'Chains of which nothing is read now, with the reason and the way out.';
comment on column app.standstill.reason is 'For programs: the kind of the incident that halts it, servers_contradict, or why its indexer waits.';
comment on column app.standstill.message is 'For people.';
comment on column app.standstill.way_out is 'What to do about it; null where the message says so.';
