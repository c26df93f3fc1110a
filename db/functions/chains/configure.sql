-- Which chains are meant to be followed, and what keeps one from it (chain.configured). An indexer says so when it starts, and each time that the
-- reason changes; status, /readyz and the metrics show it. An operator takes out a chain that was never followed and is configured no more.
-- Errors: SL422 the chain was followed.

create or replace function chain.configure(of_chain text) returns void
language sql security definer set search_path = pg_catalog as $$
  insert into chain.configured (chain) values (of_chain) on conflict do nothing
$$;
comment on function chain.configure is 'Notes that an indexer of this chain was started. Safe to run again.';
grant execute on function chain.configure to sluice_indexer;

create or replace function chain.tell_waiting(of_chain text, reason text, message text, first_height int) returns void
language sql security definer set search_path = pg_catalog as $$
  update chain.configured c set waiting_reason = reason, waiting_message = message, first_height = coalesce($4, c.first_height),
    waiting_since = case when reason is not null then coalesce(c.waiting_since, clock_timestamp()) end
  where c.chain = of_chain and (c.waiting_reason, c.waiting_message, coalesce($4, c.first_height))
    is distinct from (reason, message, c.first_height) -- it is told again and again
$$;
comment on function chain.tell_waiting is 'Notes why a chain cannot be followed now (reason for programs, message for people), and its first block where that is known; with nulls, that it can.';
grant execute on function chain.tell_waiting to sluice_indexer;

create or replace function app.forget_chain(of_chain text) returns boolean
language plpgsql set search_path = pg_catalog as $$
begin
  perform from chain.cursor c where c.chain = of_chain;
  if found then raise exception '% was followed: what is known of it stays', of_chain using errcode = 'SL422'; end if;
  delete from app.accepted_gap g where g.chain = of_chain;
  delete from chain.configured c where c.chain = of_chain;
  return found;
end $$;
comment on function app.forget_chain is 'Takes back that a chain is meant to be followed, where it never was; false if it was not meant to be.';
