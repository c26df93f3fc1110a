-- After a journal that may lack entries (custody/journal/incomplete.ts): when custody may sign for the first time again. What the missing entries may have signed
-- has paid, or may still, and the database, which may be an older copy, does not know it either.
--
-- Promises: a chain is proven only if a block that was made and read after the journal was found incomplete is there, the chain is not halted, and each
-- unknown transaction is decided. So what was in a block by then is known, and nothing that it has paid is paid again unasked: with another nonce, or
-- other outputs, nothing on the chain would prevent it. Where transactions expire, that block has to be final, the final block past it by the longest
-- lifetime of a transaction, and the clock, too: then nothing else can be mined any more. (It is taken from a final block, because a fork may be shorter
-- than the chain on which something was signed.) Elsewhere nothing ends what is in no block yet: docs/operations/from-the-words.md. What is proven stays so.

create or replace function custody.why_unproven(u custody.unproven_copy) returns text
language sql stable set search_path = pg_catalog as $$
  select case when k.attempts_exclude_by <> 'expiry' then format(
    'the journal may lack signatures (%s); nothing new is signed until a block made after %s is read, and no incident unknown_transaction of %s is open',
    u.mark, app.iso(u.noted_at), u.chain)
  else format('the journal may lack signatures (%s); nothing new is signed until %s is final, it is %s, and no incident unknown_transaction of %s is open',
    u.mark,
    case when k.ends_by = 'time' then format('a block with the time %s or later', app.iso(u.noted_at + k.longest_lifetime * interval '1 millisecond'))
      when u.start_height is null then format('a block made after %s, and %s blocks after it,', app.iso(u.noted_at), k.longest_lifetime)
      else format('block %s', u.start_height + k.longest_lifetime) end,
    app.iso(u.noted_at + k.longest_lifetime_ms * interval '1 millisecond'), u.chain) end
  from app.chain k where k.chain = u.chain
$$;
comment on function custody.why_unproven is 'What custody waits for before it signs for the first time on this chain, for operators.';

-- Custody calls this in its turn, and waits for nobody: a payment that somebody is changing is asked about a little later.
create or replace function custody.announce_proven(of_chain text) returns void
language sql set search_path = pg_catalog as $$
  update app.outgoing_payment s set next_step_at = clock_timestamp() where s.id in (
    select o.id from app.outgoing_payment o where o.chain = of_chain and o.status <> 'final' and o.waiting_reason = 'copy_unproven'
    for no key update skip locked);
  select app.wake_outgoing_payments(of_chain);
  select app.wake_payout(p.id) from app.payout p where p.chain = of_chain and p.waiting_reason = 'copy_unproven' and p.status not in ('completed', 'failed')
$$;
comment on function custody.announce_proven is 'Wakes what waited until custody signs again on a chain.';

create or replace function custody.follow_unproven_copies(of_mark text) returns table (chain text, why text)
language sql security definer set search_path = pg_catalog as $$
  insert into custody.unproven_copy as u (chain, mark, noted_height) select k.chain, of_mark, coalesce(c.head_height, -1)
  from app.chain k left join chain.cursor c using (chain)
  where not exists (select from custody.unproven_copy o where o.chain = k.chain and o.mark = of_mark)
  on conflict on constraint unproven_copy_pkey do update
  set mark = excluded.mark, noted_at = excluded.noted_at, noted_height = excluded.noted_height, start_height = null, proven_at = null;

  update custody.unproven_copy u set start_height = b.height
  from app.chain k join chain.cursor c using (chain)
  join chain.block b on b.chain = c.chain and b.height = case k.attempts_exclude_by when 'expiry' then c.final_height else c.head_height end
  where k.chain = u.chain and u.start_height is null and b.height > u.noted_height and b.time >= u.noted_at;

  with proven as (
    update custody.unproven_copy u set proven_at = clock_timestamp()
    from app.chain k join chain.cursor c using (chain) join chain.block b on b.chain = c.chain and b.height = c.final_height
    where k.chain = u.chain and u.proven_at is null and u.start_height is not null and c.halted_at is null
      and case k.ends_by when 'height' then c.final_height >= u.start_height + k.longest_lifetime
        when 'time' then b.time >= u.noted_at + k.longest_lifetime * interval '1 millisecond' else true end
      and clock_timestamp() >= u.noted_at + coalesce(k.longest_lifetime_ms, 0) * interval '1 millisecond'
      and not exists (select from app.incident i where i.chain = u.chain and i.kind = 'unknown_transaction' and i.resolved_at is null)
    returning u.chain
  )
  select custody.announce_proven(p.chain) from proven p;

  select u.chain, custody.why_unproven(u) from custody.unproven_copy u where u.proven_at is null
$$;
comment on function custody.follow_unproven_copies is 'Notes that custody found its journal incomplete (the mark says when and why; once for each), and which chains are proven since. Returns those that are not, with what they wait for.';
grant execute on function custody.follow_unproven_copies to sluice_custody;

-- Regardless of what is proven: no block says which addresses were handed out.
create or replace function custody.is_pool_unsure(of_family text) returns boolean
language sql stable security definer set search_path = pg_catalog as $$
  select exists (select from custody.unproven_copy u join app.chain k using (chain) where k.family = of_family and coalesce((
    select a.created_at from custody.address a where a.family = of_family and a.purpose = 'deposit' order by a.derivation_index desc limit 1) < u.noted_at, true))
$$;
comment on function custody.is_pool_unsure is 'Whether custody found its journal incomplete, and has made no address of this family since: then those that it would make next may have been handed out.';
grant execute on function custody.is_pool_unsure to sluice_custody;
