-- Which outputs custody signed with, as rows: asked for before each signature on Bitcoin, with up to 500 outputs at once, of an entry that has as
-- many. An index over the lists compares every output asked for with every one in the list, which takes seconds.
--
-- Writers: the journal itself, by a trigger. Readers: custody.
-- Invariants: as custody.journal, which alone can be written, and only added to.

create table custody.journal_input (
  stream text not null,
  outpoint text not null,
  seq bigint not null,
  primary key (stream, outpoint, seq),
  foreign key (stream, seq) references custody.journal
);
comment on table custody.journal_input is 'The outputs that the entries of the journal spend, on chains that have them.';
comment on column custody.journal_input.stream is 'Chain code.';
comment on column custody.journal_input.outpoint is 'The output: <txid>:<vout>.';
comment on column custody.journal_input.seq is 'The entry of the stream.';
create trigger append_only before update or delete on custody.journal_input for each row execute function custody.refuse_change();

create function custody.note_inputs() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
begin
  insert into custody.journal_input (stream, outpoint, seq)
  select new.stream, i, new.seq from jsonb_array_elements_text(new.details -> 'inputs') i;
  return null;
end $$;
create trigger note_inputs after insert on custody.journal for each row when (new.details ? 'inputs') execute function custody.note_inputs();

insert into custody.journal_input (stream, outpoint, seq)
select j.stream, i, j.seq from custody.journal j cross join lateral jsonb_array_elements_text(j.details -> 'inputs') i where j.details ? 'inputs';

grant select on custody.journal_input to sluice_custody;
