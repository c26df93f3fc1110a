-- Triggers that protect what custody wrote down. Custody writes custody.address and custody.journal; app.draw_address writes which merchant got an
-- address.
--
-- Invariants: an address is handed to one merchant, once, for ever, and is never deleted; a retired address stays retired. Entries are only added to
-- the journal. What its transactions use up (custody.journal_key) follows from the journal alone.
-- Error: P0003 for every other change by anybody.

create or replace function custody.refuse_change() returns trigger
language plpgsql set search_path = pg_catalog as $$
begin
  raise exception 'custody: % of % is not allowed', lower(tg_op), tg_table_name using errcode = 'P0003';
end $$;
comment on function custody.refuse_change is 'Refuses to change or delete what custody wrote down.';
create or replace trigger handed_out_once before update on custody.address for each row
  when (old.address <> new.address or old.family <> new.family or old.purpose <> new.purpose or old.derivation_index <> new.derivation_index
    or old.match_key <> new.match_key
    or (old.taken_at is not null and (new.taken_at is distinct from old.taken_at or new.merchant_id is distinct from old.merchant_id))
    or (old.retired_at is not null and new.retired_at is distinct from old.retired_at))
  execute function custody.refuse_change();
create or replace trigger never_deleted before delete on custody.address for each row execute function custody.refuse_change();
create or replace trigger append_only before update or delete on custody.journal for each row execute function custody.refuse_change();
create or replace trigger append_only before update or delete on custody.journal_key for each row execute function custody.refuse_change();

create or replace function custody.set_conflict_key() returns trigger
language plpgsql set search_path = pg_catalog as $$
begin
  new.conflict_key := coalesce(new.details #>> '{inputs,0}', new.sender || ':' || new.nonce);
  return new;
end $$;
comment on function custody.set_conflict_key is 'Trigger: the conflict key of an entry is its first input, or sender:nonce.';
create or replace trigger set_conflict_key before insert on custody.journal for each row execute function custody.set_conflict_key();

create or replace function custody.note_keys() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
begin
  insert into custody.journal_key (stream, seq, conflict_key)
  select new.stream, new.seq, jsonb_array_elements_text(new.details -> 'inputs')
  union
  select new.stream, new.seq, new.conflict_key;
  return null;
end $$;
comment on function custody.note_keys is 'Records what the transaction of a new entry of the journal uses up, a row each; custody looks them up before it signs.';
create or replace trigger note_keys after insert on custody.journal for each row when (new.conflict_key is not null)
  execute function custody.note_keys();
