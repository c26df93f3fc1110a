-- Where following a chain begins, and which chains are meant to be followed.
--
-- Writers: indexers, through the functions here (which chains have one, and why one is not followed); an operator, through app.accept_gap.
-- Readers: the indexers, sluice status, and the API for /readyz and /metrics, which does not know by itself which chains have a node.
--
-- Invariants: a chain is followed from the newest block on that was there before the first address of its family was handed out, or from one
-- below it; or from where an operator said, and then what is missing stands in app.accepted_gap.

create table chain.configured (
  chain text primary key,
  configured_at timestamptz not null default clock_timestamp(),
  waiting_reason text,
  waiting_message text,
  waiting_since timestamptz,
  first_height int,
  check ((waiting_reason is null) = (waiting_since is null) and (waiting_reason is null) = (waiting_message is null))
);
comment on table chain.configured is 'Chains for which an indexer was started, followed or not.';
comment on column chain.configured.chain is 'Chain code.';
comment on column chain.configured.configured_at is 'When an indexer was started for it for the first time. Its head is as old where none was ever read.';
comment on column chain.configured.waiting_reason is 'Why its indexer cannot follow it now, for programs; null if it can, or has not said.';
comment on column chain.configured.waiting_message is 'The same for people.';
comment on column chain.configured.waiting_since is 'Since when it has not been able to, whatever the reasons were.';
comment on column chain.configured.first_height is 'The first block that may pay to an address of ours, as its indexer found when it was to begin; null where that is not known.';

create table app.accepted_gap (
  chain text primary key references app.chain,
  missing_from int,
  follow_from int not null check (follow_from > 0),
  accepted_by text not null,
  accepted_at timestamptz not null default clock_timestamp()
);
comment on table app.accepted_gap is 'Chains that an operator had followed from a block that is later than the first one that may pay to us. What was paid below is not seen.';
comment on column app.accepted_gap.chain is 'Chain code.';
comment on column app.accepted_gap.missing_from is 'The first block that was to be read, and was not; null where nobody knows.';
comment on column app.accepted_gap.follow_from is 'The first block that is read: the gap ends below it.';
comment on column app.accepted_gap.accepted_by is 'Who accepted it: the user of the operating system, and the machine.';
comment on column app.accepted_gap.accepted_at is 'When.';

create function chain.configure(of_chain text) returns void
language sql security definer set search_path = pg_catalog as $$
  insert into chain.configured (chain) values (of_chain) on conflict do nothing
$$;
comment on function chain.configure is 'Notes that an indexer of this chain was started. Safe to run again.';

create function chain.tell_waiting(of_chain text, reason text, message text, first_height int) returns void
language sql security definer set search_path = pg_catalog as $$
  update chain.configured c set waiting_reason = reason, waiting_message = message, first_height = coalesce($4, c.first_height),
    waiting_since = case when reason is not null then coalesce(c.waiting_since, clock_timestamp()) end
  where c.chain = of_chain and (c.waiting_reason, c.waiting_message, coalesce($4, c.first_height))
    is distinct from (reason, message, c.first_height) -- it is told again and again
$$;
comment on function chain.tell_waiting is 'Notes why a chain cannot be followed now; with nulls, that it can.';

-- When an address of ours can have been paid for the first time on a chain: when the first one of its family was handed out, to a user or for
-- a payment request; or when the treasury was made, which anybody may be told from then on. The chains of a family share their addresses, so
-- it does not matter on which of them one was handed out. Where the seed is older than this database, custody enters its treasury as made at
-- -infinity: addresses of it were handed out before, nobody here knows when.
create function chain.first_address_at(of_chain text) returns timestamptz
language sql stable security definer set search_path = pg_catalog as $$
  select min(at) from app.chain c cross join lateral (
    select min(o.created_at) as at from custody.address o where o.family = c.family and o.purpose = 'treasury'
    union all
    select min(o.taken_at) from custody.address o where o.family = c.family and o.purpose = 'deposit'
    union all
    select min(a.created_at) from app.address a join app.chain other using (chain) where other.family = c.family
  ) known
  where c.chain = of_chain
$$;
comment on function chain.first_address_at is 'Nothing was paid to an address of ours on this chain before this moment; -infinity where that is not known, null while custody has made none.';

create function app.accept_gap(of_chain text, from_height int, by_whom text) returns app.accepted_gap
language plpgsql set search_path = pg_catalog as $$
declare
  known chain.configured;
  accepted app.accepted_gap;
begin
  perform from app.chain c where c.chain = of_chain;
  if not found then raise exception 'Sluice does not run %', of_chain using errcode = 'SL422'; end if;
  perform from chain.cursor c where c.chain = of_chain;
  if found then
    raise exception '% is followed already; what lies lower is read by sluice reindex --chain % --from HEIGHT', of_chain, of_chain using errcode = 'SL422';
  end if;
  select * into known from chain.configured c where c.chain = of_chain;
  if from_height <= known.first_height then
    raise exception 'there is no gap: nothing below block % of % can have paid to us, so set %_START_HEIGHT to %, or to nothing',
      known.first_height, of_chain, of_chain, from_height using errcode = 'SL422';
  end if;
  insert into app.accepted_gap as g (chain, missing_from, follow_from, accepted_by) values (of_chain, known.first_height, greatest(from_height, 1), by_whom)
  on conflict (chain) do update set missing_from = excluded.missing_from, follow_from = excluded.follow_from,
    accepted_by = excluded.accepted_by, accepted_at = excluded.accepted_at
  returning * into accepted;
  return accepted;
end $$;
comment on function app.accept_gap is 'An operator''s decision to follow a chain that was never followed from this block on, whatever was paid below.';

create function app.forget_chain(of_chain text) returns boolean
language plpgsql set search_path = pg_catalog as $$
begin
  perform from chain.cursor c where c.chain = of_chain;
  if found then raise exception '% was followed: what is known of it stays', of_chain using errcode = 'SL422'; end if;
  delete from app.accepted_gap g where g.chain = of_chain;
  delete from chain.configured c where c.chain = of_chain;
  return found;
end $$;
comment on function app.forget_chain is 'Takes back that a chain is meant to be followed, where it never was.';

grant insert (created_at) on custody.address to sluice_custody;
grant select on app.accepted_gap to sluice_indexer;
grant execute on function chain.configure, chain.tell_waiting, chain.first_address_at to sluice_indexer;
comment on column custody.address.created_at is 'When custody derived it; of a treasury -infinity where its seed is older than this database.';

-- 007_api.sql, with what indexers say.
create or replace view app.chain_state with (security_barrier) as
select c.chain, exists (select from app.merchant_chain m where m.chain = c.chain and m.enabled) as enabled,
  k.head_height, k.final_height, extract(epoch from clock_timestamp() - k.head_time) as head_age_seconds,
  extract(epoch from clock_timestamp() - k.head_moved_at) as head_moved_seconds_ago, k.halted_at is not null as halted,
  g.chain is not null as configured, g.waiting_reason
from app.chain c left join chain.cursor k on k.chain = c.chain left join chain.configured g on g.chain = c.chain;
comment on column app.chain_state.configured is 'True if an indexer was ever started for it.';
comment on column app.chain_state.waiting_reason is 'Why its indexer cannot follow it now; null if it can, or has not said.';

-- 027_payment_requests.sql, for chains that were never followed, too.
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
        and not exists (select from app.unattributed_decision u where u.deposit_id = d.id)) n
    union all
    select 'sluice_incidents_open', json_build_object('chain', coalesce(c.chain, 'none')), count(i.id)
    from (select chain from chain.cursor union all select null) c
    left join app.incident i on i.chain is not distinct from c.chain and i.resolved_at is null group by c.chain;
end $$;
