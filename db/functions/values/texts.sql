-- Texts that people compare by eye: references of merchants, their names, and the labels of keys. Two that look the same must be the same.
--
-- Promises: a new text with a character that nobody sees is refused, with the name of the character; what is stored already stays, and is found. Joiners and
-- variation selectors are part of emoji and of some scripts: names may have them, references may not.
-- Errors: SLINV a value is invalid (DETAIL names it); SL422 for names.

-- UnicodeData.txt and DerivedCoreProperties.txt (Default_Ignorable_Code_Point) of Unicode 16; and U+2800, a blank that is no space.
create or replace function app.unclear(value text, has_joiners boolean) returns text
language sql immutable parallel safe set search_path = pg_catalog as $$
  select format('must not %s %s (U+%s)', k.place, k.what, upper(regexp_replace(lpad(to_hex(ascii(k.found)), 6, '0'), '^0{1,2}', '')))
  from (values
    (1, 'begin or end with', 'a space', (regexp_match(value, '^[ \u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]|[ \u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]$'))[1]),
    (2, 'hold', 'a control character', (regexp_match(value, '[\u0001-\u001f\u007f-\u009f\u2028\u2029]'))[1]),
    (3, 'hold', 'a mark of the direction of writing', (regexp_match(value, '[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]'))[1]),
    (4, 'hold', 'an invisible character', (regexp_match(value,
      '[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2060-\u2065\u206a-\u206f\u2800\u3164\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e00ff\U000e01f0-\U000e0fff]'))[1]),
    (5, 'hold', 'an invisible character', case when not has_joiners then (regexp_match(value, '[\u200c\u200d\ufe00-\ufe0f\U000e0100-\U000e01ef]'))[1] end),
    (6, 'hold', 'a character that Unicode does not define', case when not unicode_assigned(value) then
      (select c from regexp_split_to_table(value, '') c where not unicode_assigned(c) limit 1) end)
  ) k (rank, place, what, found)
  where k.found is not null order by k.rank limit 1
$$;
comment on function app.unclear is 'What is wrong with a text that people compare by eye, in words; null if nothing is.';

create or replace function app.require_clear_reference(field text, value text) returns void
language plpgsql immutable set search_path = pg_catalog as $$
declare wrong text := app.unclear(value, has_joiners => false);
begin
  if wrong is not null then raise exception '%', wrong using errcode = 'SLINV', detail = field; end if;
end $$;
comment on function app.require_clear_reference is 'Refuses a new reference that looks like another one.';

create or replace function app.require_clear_name(what text, value text) returns void
language plpgsql immutable set search_path = pg_catalog as $$
declare wrong text := app.unclear(value, has_joiners => true);
begin
  if wrong is not null then raise exception '% %', what, wrong using errcode = 'SL422'; end if;
end $$;
comment on function app.require_clear_name is 'Refuses a new name or label that looks like another one; null passes.';

-- Held until COMMIT: of two forms of one reference that come at the same moment, the second one finds what the first one made.
create or replace function app.lock_reference(of_merchant uuid, reference text) returns void
language sql set search_path = pg_catalog as $$
  select pg_advisory_xact_lock(hashtextextended('reference ' || of_merchant || ' ' || normalize(reference, NFC), 0))
$$;
comment on function app.lock_reference is 'Locks a reference of a merchant, in all its Unicode forms.';

create or replace function app.visible_text(value text) returns text
language sql immutable parallel safe set search_path = pg_catalog as $$
  select btrim(regexp_replace(normalize(value, NFC),
    '[\u0001-\u001f\u007f-\u009f\u2028\u2029\u061c\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]', '', 'g'),
    U&' \00a0\1680\2000\2001\2002\2003\2004\2005\2006\2007\2008\2009\200a\202f\205f\3000')
$$;
comment on function app.visible_text is 'What people see of a text: without the characters that app.unclear refuses, in the form NFC.';
