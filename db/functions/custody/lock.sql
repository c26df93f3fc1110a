-- Ending an outgoing payment (app.outgoing_payment) and signing for it exclude each other. Custody calls this before it judges, and keeps the row
-- locked until its journal is committed. What ends a payment, cancels it, gives it up or deletes it writes to the same row, and so waits for custody,
-- or custody for it. Without this, a payment could end between custody's judgement and its signature.
--
-- Promises: custody never waits in a queue of locks for this row. It tries again and again instead. So it is in no deadlock, and nobody else fails
-- because of one: custody's turn locks many payments in any order, and so does the indexer. (A lock_timeout below deadlock_timeout would not do: the
-- other side has waited for longer, and so is the first to find the deadlock and to fail.) It is the only right that custody has on the row. No
-- process may hold the row while it asks custody.
-- Locks: the outgoing payment. lock_timeout is for custody.reconcile, which locks the whole table; custody's request fails then, and is repeated.

create or replace function custody.lock_outgoing_payment(of_outgoing_payment uuid, most_ms int) returns int
language plpgsql security definer set search_path = pg_catalog set lock_timeout = '500ms' as $$
declare
  began timestamptz := clock_timestamp();
  waited int := 0;
begin
  loop
    perform from app.outgoing_payment s where s.id = of_outgoing_payment for no key update skip locked;
    if found then return waited; end if;
    waited := extract(epoch from clock_timestamp() - began) * 1000;
    if waited >= most_ms then return null; end if;
    perform pg_sleep(0.01);
  end loop;
end $$;
comment on function custody.lock_outgoing_payment is 'Locks an outgoing payment until the end of custody''s transaction, so that nothing ends it meanwhile; waits at most most_ms milliseconds for whoever is changing it. Returns how many it waited; null if it is not locked.';
grant execute on function custody.lock_outgoing_payment to sluice_custody;
