-- How an address is looked up, whatever way it is written: by its match key (app.address.match_key, custody.address.match_key). Indexers make the
-- same of what they read in a block.

-- Inlined into the statements that use it, which settling needs for its speed.
create or replace function app.match_key(address text, folds boolean) returns text
language sql immutable parallel safe
return case when folds then lower(address) else address end;
comment on function app.match_key is 'The match key of an address; folds is that of its chain (app.chain.folds_addresses).';
grant execute on function app.match_key to sluice_analyst, sluice_custody;

-- It is stored, because the indexers ask whether the sender of each transaction is one of ours. A generated column cannot read app.chain, and custody
-- is not to write it: so a trigger.
create or replace function custody.note_match_key() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
begin
  new.match_key := (select app.match_key(new.address, c.folds_addresses) from app.chain c where c.family = new.family limit 1);
  return new;
end $$;
comment on function custody.note_match_key is 'Trigger: writes the match key of a new address, which is the same on every chain of its family.';
create or replace trigger note_match_key before insert on custody.address for each row execute function custody.note_match_key();
