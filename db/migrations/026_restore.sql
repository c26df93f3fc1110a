-- What an older copy of the database must not do a second time in another way, when it takes the place of the one that was lost.
--
-- Merchants keep what they were told: the ids of deposits, and the sequence of the last event that they have. A deposit that is read again
-- from the chain must have the id that it had, or they would credit it twice; an event that comes new must not have a sequence that another
-- one had, or who goes by sequences would take it for an old one.
--
-- Invariants: the id of a deposit follows from what it is (chain, transaction, position, address, token) alone; after app.after_restore()
-- every event that gets a sequence gets one above all that were given before the database was lost.

create function app.deposit_id(chain text, txid text, output_index int, address text, token text) returns uuid
language sql immutable strict parallel safe set search_path = pg_catalog as $$
  -- A UUID of version 8, which is for ids of one's own making: a hash of what tells the deposit from every other one.
  select encode(set_byte(set_byte(h, 6, get_byte(h, 6) & 15 | 128), 8, get_byte(h, 8) & 63 | 128), 'hex')::uuid
  from substr(sha256(convert_to(concat_ws(' ', chain, txid, output_index, address, token), 'UTF8')), 1, 16) h
$$;
comment on function app.deposit_id is 'The id of a deposit, by what it is. (Deposits from before this existed keep theirs.)';

create function app.name_deposit() returns trigger
language plpgsql set search_path = pg_catalog as $$
begin
  new.id := app.deposit_id(new.chain, new.txid, new.output_index, new.address, new.token);
  return new;
end $$;

alter table app.deposit alter column id drop default;
create trigger name_deposit before insert on app.deposit for each row when (new.id is null) execute function app.name_deposit();

create function app.after_restore() returns bigint
language sql set search_path = pg_catalog as $$
  -- Far more than were ever given in the time between two backups. Gaps are allowed, and JSON's numbers are exact up to 9 * 10^15.
  select setval('app.event_sequence', nextval('app.event_sequence') + 1000000000)
$$;
comment on function app.after_restore is 'To be called once when an older copy of the database takes the place of a newer one: no later event has a sequence that was given before. Returns the last one that is skipped.';
