-- The first start of a chain. Its indexer asks when an address of ours can have been paid first (chain.first_address_at), finds the newest block
-- from before that time, and anchors the chain there (chain.anchor). From then on the store has a place to continue from. If no such block can be
-- found or read, an operator may accept that payments are missed (app.accept_gap, `sluice chain start --accept-gap`).
--
-- Invariant: a chain is followed from a block that is older than the first address of its family, or app.accepted_gap says what is missing.
-- Errors: SL422 the operator's decision is refused; P0003 the chain was read with another tracer.

-- When the first address of the family was handed out, to a user or for a payment request; or when the treasury was made, which may be paid from
-- then on. The chains of a family share their addresses, so it does not matter on which of them one was handed out. If the seed is older than this
-- database, custody enters its treasury as made at -infinity: addresses of the seed were handed out before, at an unknown time.
create or replace function chain.first_address_at(of_chain text) returns timestamptz
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
comment on function chain.first_address_at is 'No address of ours on this chain was paid before this time; -infinity if the time is unknown, null while custody has made no address.';
grant execute on function chain.first_address_at to sluice_indexer;

create or replace function chain.anchor(of_chain text, network text, height int, hash text, time_of_block timestamptz) returns void
language plpgsql security definer set search_path = pg_catalog as $$
begin
  insert into chain.cursor (chain, network, head_height, head_hash, head_time, final_height, final_hash, followed_from)
  values (of_chain, network, height, hash, time_of_block, height, hash, height + 1) on conflict do nothing;
  if not found then return; end if;
  insert into chain.block (id, chain, height, hash, parent_hash, time)
  values (of_chain || ':' || height, of_chain, height, hash, '', time_of_block);
  execute format('insert into %I.status (id, height, hash) values (0, $1, $2)', 'squid_' || lower(of_chain)) using height, hash;
end $$;
comment on function chain.anchor is 'Starts following a chain above a block that its node called final: the first indexed block must link to it. Does nothing for a chain that is followed already.';
grant execute on function chain.anchor to sluice_indexer;

create or replace function app.accept_gap(of_chain text, from_height int, by_whom text) returns app.accepted_gap
language plpgsql set search_path = pg_catalog as $$
declare
  known chain.configured;
  accepted app.accepted_gap;
begin
  perform from app.chain c where c.chain = of_chain;
  if not found then raise exception 'Sluice does not run %', of_chain using errcode = 'SL422'; end if;
  perform from chain.cursor c where c.chain = of_chain;
  if found then
    raise exception '% is followed already; to read lower blocks, run sluice reindex --chain % --from HEIGHT', of_chain, of_chain using errcode = 'SL422';
  end if;
  select * into known from chain.configured c where c.chain = of_chain;
  if from_height <= known.first_height then
    raise exception 'there is no gap: no block below % of % can have paid us; set %_START_HEIGHT to %, or unset it',
      known.first_height, of_chain, of_chain, from_height using errcode = 'SL422';
  end if;
  insert into app.accepted_gap as g (chain, missing_from, follow_from, accepted_by) values (of_chain, known.first_height, greatest(from_height, 1), by_whom)
  on conflict (chain) do update set missing_from = excluded.missing_from, follow_from = excluded.follow_from,
    accepted_by = excluded.accepted_by, accepted_at = excluded.accepted_at
  returning * into accepted;
  return accepted;
end $$;
comment on function app.accept_gap is 'An operator''s decision to follow a chain from this block on, though payments below it are missed. The chain was never followed before. Returns what is missing; deciding again replaces it.';

-- Tracers of a node may number the calls inside a transaction differently, and the number is part of a deposit's identity. So a chain that was read
-- with one tracer is never read with another.
create or replace function chain.pin_tracer(of_chain text, tracer text) returns void
language plpgsql security definer set search_path = pg_catalog as $$
declare pinned text;
begin
  update chain.cursor c set tracer = coalesce(c.tracer, $2), untraced_from = null where c.chain = of_chain returning c.tracer into pinned;
  if pinned <> $2 then
    raise exception '% was read with the tracer "%" and cannot go on with "%": set %_TRACES=%', of_chain, pinned, $2, of_chain, pinned
      using errcode = 'P0003';
  end if;
end $$;
comment on function chain.pin_tracer is 'Records which tracer numbers the internal calls of a chain, and refuses another one afterwards.';
grant execute on function chain.pin_tracer to sluice_indexer;

-- Payouts go on (the incident names no chain): what is missing can only be too little. One incident for each time that the calls stop being read.
create or replace function chain.note_untraced(of_chain text) returns void
language plpgsql security definer set search_path = pg_catalog as $$
declare at chain.cursor;
begin
  update chain.cursor c set untraced_from = c.head_height + 1
  where c.chain = of_chain and c.tracer is not null and c.untraced_from is null returning * into at;
  if at.chain is null then return; end if;
  insert into app.incident (chain, kind, subject, details)
  values (null, 'untraced_blocks', of_chain, jsonb_build_object('from', at.untraced_from, 'tracer', at.tracer)) on conflict do nothing;
end $$;
comment on function chain.note_untraced is 'Notes that a chain whose internal calls were read is read without them from here on, in an incident. Does nothing for a chain that never was read with them. Safe to run again.';
grant execute on function chain.note_untraced to sluice_indexer;
