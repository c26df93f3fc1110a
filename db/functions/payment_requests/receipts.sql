-- Receipts: what arrives at the address of a payment request is a row of app.deposit. It is derived, becomes final, is taken back, counts in the
-- balance, is claimed and swept like every deposit, by the same code. It has no event (app.emit_deposit_events handles users' deposits), and no list
-- of deposits shows it. A receipt has the requested chain and token; anything else at the address is unattributed.
--
-- These triggers on app.deposit note when it came, and which requests to update at COMMIT (payment_requests/status.sql).

-- When a receipt came is what makes it late (app.receipt). Seen counts because a transaction may wait for its block; mined counts because we may have
-- been behind. The first block that held it is remembered: a receipt in time stays in time, even if the chain moves it into a later block.
create or replace function app.note_arrival() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
declare
  mined_at timestamptz := (select t.block_time from chain.transfer t
    where t.id = new.chain || ':' || new.txid || ':' || new.output_index and t.recipient = new.address and t.block_hash = new.block_hash);
begin
  new.came_at := least(new.came_at, new.created_at, mined_at);
  if mined_at is not null then new.mined_at := least(new.mined_at, mined_at, clock_timestamp()); end if; -- a block may bear a time that is still to come
  return new;
end $$;
comment on function app.note_arrival is 'Records when a receipt came: when it was first seen, or mined, whichever is earlier; and the time of the earliest block that held it.';
create or replace trigger note_arrival before insert or update of block_hash on app.deposit for each row
  when (new.payment_request_id is not null) execute function app.note_arrival();

-- Only receipts count. A deposit that an operator credited on another chain would let that chain lock requests, in an order of its own.
create or replace function app.note_receipt() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
begin
  insert into app.touched_payment select pg_current_xact_id(), r.id from app.payment_request r
  where r.id = new.payment_request_id and (r.chain, r.token) = (new.chain, new.token) on conflict do nothing;
  return null;
end $$;
comment on function app.note_receipt is 'Notes that the payment request of a deposit is to be updated at COMMIT.';
create or replace trigger note_receipt after insert on app.deposit for each row
  when (new.credited and new.payment_request_id is not null) execute function app.note_receipt();
create or replace trigger note_receipt_change after update of status, amount, credited, block_hash on app.deposit for each row
  when (new.credited and new.payment_request_id is not null
    and (old.status, old.amount, old.credited, old.came_at, old.mined_at) is distinct from (new.status, new.amount, new.credited, new.came_at, new.mined_at))
  execute function app.note_receipt();
