-- After a journal that may lack entries (custody/incomplete.ts): when custody may sign for the first time again on chains whose transactions expire.
-- There, nothing shows that a payment was signed before but the journal, or a block. So custody waits until every transaction that the missing entries
-- may have signed is in a final block, where it is an incident (unknown_transaction), or has expired.
--
-- Promises: a chain is proven only if a block that was made and read after the journal was found incomplete became final, the final block is past that
-- one by the longest lifetime of a transaction, the clock is, too, the chain is not halted, and each unknown transaction is decided. What is proven
-- stays so. The start is taken from a final block, because a fork may be shorter than the chain on which something was signed.

create or replace function custody.why_unproven(u custody.unproven_copy) returns text
language sql stable set search_path = pg_catalog as $$
  select format('the journal may lack signatures (%s); nothing new is signed until %s is final, it is %s, and no incident unknown_transaction of %s is open',
    u.mark,
    case when k.ends_by = 'time' then format('a block with the time %s or later', app.iso(u.noted_at + k.longest_lifetime * interval '1 millisecond'))
      when u.start_height is null then format('a block made after %s, and %s blocks after it,', app.iso(u.noted_at), k.longest_lifetime)
      else format('block %s', u.start_height + k.longest_lifetime) end,
    app.iso(u.noted_at + k.longest_lifetime_ms * interval '1 millisecond'), u.chain)
  from app.chain k where k.chain = u.chain
$$;
comment on function custody.why_unproven is 'What custody waits for before it signs for the first time on this chain, for operators.';

create or replace function custody.follow_unproven_copies(of_mark text) returns table (chain text, why text)
language sql security definer set search_path = pg_catalog as $$
  insert into custody.unproven_copy as u (chain, mark, noted_height) select k.chain, of_mark, coalesce(c.head_height, -1)
  from app.chain k left join chain.cursor c using (chain)
  where k.attempts_exclude_by = 'expiry' and not exists (select from custody.unproven_copy o where o.chain = k.chain and o.mark = of_mark)
  on conflict on constraint unproven_copy_pkey do update
  set mark = excluded.mark, noted_at = excluded.noted_at, noted_height = excluded.noted_height, start_height = null, proven_at = null;

  update custody.unproven_copy u set start_height = c.final_height
  from chain.cursor c join chain.block b on b.chain = c.chain and b.height = c.final_height
  where c.chain = u.chain and u.start_height is null and c.final_height > u.noted_height and b.time >= u.noted_at;

  update custody.unproven_copy u set proven_at = clock_timestamp()
  from app.chain k join chain.cursor c using (chain) join chain.block b on b.chain = c.chain and b.height = c.final_height
  where k.chain = u.chain and u.proven_at is null and c.halted_at is null
    and case k.ends_by when 'height' then c.final_height >= u.start_height + k.longest_lifetime
      else u.start_height is not null and b.time >= u.noted_at + k.longest_lifetime * interval '1 millisecond' end
    and clock_timestamp() >= u.noted_at + k.longest_lifetime_ms * interval '1 millisecond'
    and not exists (select from app.incident i where i.chain = u.chain and i.kind = 'unknown_transaction' and i.resolved_at is null);

  select u.chain, custody.why_unproven(u) from custody.unproven_copy u where u.proven_at is null
$$;
comment on function custody.follow_unproven_copies is 'Notes that custody found its journal incomplete (the mark says when and why; once for each), and which chains are proven since. Returns those that are not, with what they wait for.';
grant execute on function custody.follow_unproven_copies to sluice_custody;
