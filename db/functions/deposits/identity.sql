-- The id of a deposit follows from what it is: chain, transaction, position, address, token. A trigger sets it when the row is inserted.
--
-- Merchants keep the ids that they received, and credit once for each. If an older copy of the database replaces a lost one, a deposit that is read
-- again from the chain must have the same id, or they would credit it twice. (app.after_restore does the same for the sequence of events.)

-- Both run for each new deposit, inside of functions that have each statement planned anew if there are many (chain.plan_for). Planning their expressions took longer
-- than all else that they do; in the language sql it also begins anew for each call.
create or replace function app.name_deposit() returns trigger
language plpgsql set search_path = pg_catalog set plan_cache_mode = auto as $$
begin
  new.id := app.deposit_id(new.chain, new.txid, new.output_index, new.address, new.token);
  return new;
end $$;
comment on function app.name_deposit is 'Trigger: gives a new deposit its id.';
create or replace trigger name_deposit before insert on app.deposit for each row when (new.id is null) execute function app.name_deposit();

create or replace function app.deposit_id(chain text, txid text, output_index int, address text, token text) returns uuid
language plpgsql immutable strict parallel safe set search_path = pg_catalog set plan_cache_mode = auto as $$
declare h bytea := substr(sha256(convert_to(concat_ws(' ', chain, txid, output_index, address, token), 'UTF8')), 1, 16);
begin
  -- A UUID of version 8, which is for custom ids: a hash of what tells the deposit from every other one.
  return encode(set_byte(set_byte(h, 6, get_byte(h, 6) & 15 | 128), 8, get_byte(h, 8) & 63 | 128), 'hex')::uuid;
end $$;
comment on function app.deposit_id is 'The id of a deposit, computed from what it is: the same whenever and wherever the chain is read.';
