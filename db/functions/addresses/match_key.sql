-- How an address is looked up, in whatever form it is written: by its match key (app.address.match_key, custody.address.match_key). Indexers compute
-- the same key from what they read in a block.

-- Inlined into the statements that use it, because deriving deposits needs the speed.
create or replace function app.match_key(address text, folds boolean) returns text
language sql immutable parallel safe
return case when folds then lower(address) else address end;
comment on function app.match_key is 'The match key of an address; folds is the folds_addresses of its chain (app.chain).';
grant execute on function app.match_key to sluice_analyst, sluice_api, sluice_custody;

-- The key is stored, because the indexers ask whether the sender of each transaction is one of ours. A trigger writes it: a generated column cannot
-- read app.chain, and custody must not write it.
create or replace function custody.note_match_key() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
begin
  new.match_key := (select app.match_key(new.address, c.folds_addresses) from app.chain c where c.family = new.family limit 1);
  return new;
end $$;
comment on function custody.note_match_key is 'Trigger: writes the match key of a new address. It is the same on every chain of the family.';
create or replace trigger note_match_key before insert on custody.address for each row execute function custody.note_match_key();
