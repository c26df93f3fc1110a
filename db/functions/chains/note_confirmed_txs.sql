-- What a confirmed transaction of an address of ours means at once, before deposits are derived: a trigger on chain.confirmed_tx, for the indexer
-- and for a reindex.
--
-- A transaction that is neither stored here nor in custody's journal: another party has the key, or a copy of this database lived on elsewhere. It
-- opens an incident for its sender, or is added to the open one, and nothing more leaves the chain until an operator has decided. (What custody signed
-- and the worker kept to itself ends its payment: outgoing/finish_payments.sql. A stolen worker must not halt a chain.) A transaction that was final, was taken away
-- by a rewind, and is there again with its effect: its incident (final_payment_vanished) closes, and it is no longer broadcast. One that may be a second
-- payment is noted (outgoing/second_payments.sql).
-- Locks: chain.cursor of every chain in question, before incidents.

create or replace function chain.note_confirmed_txs() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
declare
  news record;
  incident bigint;
begin
  perform from chain.cursor c where c.chain in (select chain from added) for update; -- before incidents: the order of locks
  for news in
    select u.chain, u.account, count(*)::int as count, array_agg(u.txid) as txids,
      (array_agg(jsonb_build_object('newest', u.txid, 'nonce', u.nonce, 'block_height', u.block_height) order by u.block_height desc, u.nonce desc))[1] as newest
    from (
      select distinct on (i.chain, i.txid) i.chain, i.txid, i.nonce, i.block_height, i.account
      from added i where not exists (select from app.outgoing_attempt o where o.chain = i.chain and o.txid = i.txid)
        and not exists (select from custody.journal j where j.stream = i.chain and j.txid = i.txid)
        and not exists (select from app.unknown_transaction k where k.chain = i.chain and k.txid = i.txid)
      order by i.chain, i.txid, i.account
    ) u group by u.chain, u.account
  loop
    insert into app.incident as k (chain, kind, subject, details)
    values (news.chain, 'unknown_transaction', news.chain || ':' || news.account,
      jsonb_build_object('sender', news.account, 'count', news.count) || jsonb_strip_nulls(news.newest))
    on conflict (subject, kind) where resolved_at is null do update
    set details = excluded.details || jsonb_build_object('count', (k.details ->> 'count')::int + news.count)
    returning k.id into incident;
    insert into app.unknown_transaction (chain, txid, incident_id) select news.chain, t, incident from unnest(news.txids) t;
  end loop;
  update app.incident k set resolved_at = clock_timestamp(), resolution = 'healed'
  from added i cross join lateral app.payments_of(i.chain, i.txid, i.conflict_key) p join app.outgoing_payment s on s.id = p
  where k.kind = 'final_payment_vanished' and k.subject = s.id::text and k.resolved_at is null and app.is_booked(s, i.txid)
    and not exists (select from app.second_payment n where n.outgoing_payment_id = s.id and n.booked_at is not null -- all of them are there
      and not exists (select from chain.confirmed_tx c where c.chain = n.chain and c.txid = n.txid))
    and (s.outcome = 'conflicted' or exists (
      select from chain.confirmed_tx c where c.chain = s.chain and c.txid = s.txid and (s.outcome <> 'done' or c.success))); -- one that failed this time did nothing
  update app.outgoing_payment s set next_step_at = null
  from added i cross join lateral app.payments_of(i.chain, i.txid, i.conflict_key) p
  where s.id = p and s.status = 'final' and s.next_step_at is not null;
  perform app.suspect_second_payments(array(select distinct i.txid from added i));
  return null;
end $$;
comment on function chain.note_confirmed_txs is 'Trigger: opens the incident unknown_transaction for a transaction that custody did not sign, and closes final_payment_vanished for one that is there again.';
create or replace trigger note_insert after insert on chain.confirmed_tx
  referencing new table as added for each statement execute function chain.note_confirmed_txs();

create or replace function chain.note_moved(of_chain text, moved jsonb) returns void
language sql security definer set search_path = pg_catalog as $$
  update app.unknown_transaction u set moved = note_moved.moved -> u.txid
  where u.chain = of_chain and u.txid in (select jsonb_object_keys(note_moved.moved))
$$;
comment on function chain.note_moved is 'Notes what those of these transactions moved that are unknown here: {txid: [{sender, recipient, token, amount}]}.';
grant execute on function chain.note_moved to sluice_indexer;

create or replace function app.payments_of(of_chain text, of_txid text, of_conflict_key text) returns setof uuid
language sql stable set search_path = pg_catalog as $$
  select o.outgoing_payment_id from app.outgoing_attempt o where o.chain = of_chain and o.txid = of_txid
  union
  select s.id from app.outgoing_payment s where s.chain = of_chain and s.conflict_key = of_conflict_key
  union
  select n.outgoing_payment_id from app.second_payment n where n.chain = of_chain and n.txid = of_txid
$$;
comment on function app.payments_of is 'The outgoing payments that a transaction in a block concerns: the one whose attempt it is, and the one whose conflict key it uses up.';

create or replace function app.is_booked(s app.outgoing_payment, of_txid text) returns boolean
language sql stable set search_path = pg_catalog as $$
  select s.txid = of_txid or exists (
    select from app.second_payment n where n.chain = s.chain and n.txid = of_txid and n.outgoing_payment_id = s.id and n.booked_at is not null)
$$;
comment on function app.is_booked is 'Whether the ledger counts on a transaction for an outgoing payment that is final: it ended it, or was booked as a second payment of it.';
