-- Which chains are configured to be followed, and what keeps a chain from being followed (chain.configured). An indexer writes this at its start,
-- and each time that the reason changes; status, /readyz and the metrics show it. An operator removes a chain that was never followed and is no
-- longer configured.
-- Error: SL422 the chain was followed.

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
    is distinct from (reason, message, c.first_height) -- the indexer repeats it
$$;
comment on function chain.tell_waiting is 'Notes why a chain cannot be followed now (reason for programs, message for people), and its first block if that is known. Nulls mean that it can.';
grant execute on function chain.tell_waiting to sluice_indexer;

create or replace function app.forget_chain(of_chain text) returns boolean
language plpgsql set search_path = pg_catalog as $$
begin
  perform from chain.cursor c where c.chain = of_chain;
  if found then raise exception '% was followed, so it cannot be removed: its data stays', of_chain using errcode = 'SL422'; end if;
  delete from app.accepted_gap g where g.chain = of_chain;
  delete from chain.configured c where c.chain = of_chain;
  return found;
end $$;
comment on function app.forget_chain is 'Removes a chain from the configured ones if it was never followed; false if it was not configured.';
