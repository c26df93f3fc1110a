-- One incident for what an address of ours sent and nobody here stored, however much it is; what custody finds of its journal that was changed;
-- and one right less.
--
-- Writers: chain.note_inclusions (app.unknown_transaction, and the incidents), custody (custody.tell_journal). Reader: settling, and the audit.
--
-- Invariants: a transaction that nobody stored belongs to exactly one incident, for ever, and is counted in it once, whatever a reorganisation does;
-- an address of ours has at most one open incident of this kind on a chain; what an operator kept is what the incident held when it was resolved:
-- what comes later opens another.

create table app.unknown_transaction (
  chain text not null,
  txid text not null,
  incident_id bigint not null references app.incident,
  primary key (chain, txid)
);
create index unknown_transaction_incident on app.unknown_transaction (incident_id);
comment on table app.unknown_transaction is 'A transaction in a block that an address of ours sent and that nobody here stored, and the incident that it belongs to.';
comment on column app.unknown_transaction.chain is 'Chain code.';
comment on column app.unknown_transaction.txid is 'The transaction.';
comment on column app.unknown_transaction.incident_id is 'The incident unknown_transaction of its sender that was open when it was seen.';

-- Until now each had an incident of its own, whose subject it was.
insert into app.unknown_transaction (chain, txid, incident_id)
select i.chain, substr(i.subject, length(i.chain) + 2), max(i.id) from app.incident i where i.kind = 'unknown_transaction' group by 1, 2;

comment on column app.incident.kind is 'final_deposit_vanished, final_deposit_moved, final_deposit_changed, payment_replaced, fork_below_final, unknown_transaction, final_payment_vanished, payment_of_failed_payout, journal_ahead, journal_changed or audit.';
comment on column app.incident.subject is 'The id of the deposit or of the spend, <chain>:<the address that sent>, <chain>:<txid>, the chain, the stream of the journal, or audit:<check>.';

create function app.sending_address(of_chain text, of_sender text) returns text
language sql stable set search_path = pg_catalog as $$
  select case when app.uses_outputs(of_chain) then coalesce(
    (select t.recipient from chain.transfer t where t.id = of_chain || ':' || of_sender),
    (select u.recipient from chain.unmined u where u.id = of_chain || ':' || of_sender), of_sender) else of_sender end
$$;
comment on function app.sending_address is 'The address of ours behind the sender of an inclusion: on Bitcoin that is the output that was spent.';

-- As in 016_outputs.sql, but for one incident for each address that sends, instead of each transaction.
create or replace function chain.note_inclusions() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
declare
  news record;
  incident bigint;
begin
  perform from chain.cursor c where c.chain in (select chain from added) for update; -- before incidents, as everybody locks them
  for news in
    select u.chain, u.sender, count(*)::int as count, array_agg(u.txid) as txids,
      (array_agg(jsonb_build_object('newest', u.txid, 'nonce', u.nonce, 'block_height', u.block_height) order by u.block_height desc, u.nonce desc))[1] as newest
    from (
      select distinct on (i.chain, i.txid) i.chain, i.txid, i.nonce, i.block_height, app.sending_address(i.chain, i.sender) as sender
      from added i where not exists (select from app.outbound_tx o where o.chain = i.chain and o.txid = i.txid)
        and not exists (select from app.unknown_transaction k where k.chain = i.chain and k.txid = i.txid)
      order by i.chain, i.txid, app.sending_address(i.chain, i.sender)
    ) u group by u.chain, u.sender
  loop
    insert into app.incident as k (chain, kind, subject, details)
    values (news.chain, 'unknown_transaction', news.chain || ':' || news.sender,
      jsonb_build_object('sender', news.sender, 'count', news.count) || news.newest)
    on conflict (subject, kind) where resolved_at is null do update
    set details = excluded.details || jsonb_build_object('count', (k.details ->> 'count')::int + news.count)
    returning k.id into incident;
    insert into app.unknown_transaction (chain, txid, incident_id) select news.chain, t, incident from unnest(news.txids) t;
  end loop;
  update app.incident k set resolved_at = clock_timestamp(), resolution = 'healed'
  from added i join app.spend s on s.chain = i.chain and s.sender = i.sender and s.nonce = i.nonce and s.txid = i.txid
  where k.kind = 'final_payment_vanished' and k.subject = s.id::text and k.resolved_at is null;
  update app.spend s set next_step_at = null
  from added i where s.chain = i.chain and s.sender = i.sender and s.nonce = i.nonce and s.status = 'final' and s.next_step_at is not null;
  return null;
end $$;

-- As in 016_outputs.sql, but for where what an operator has looked at is written down.
create or replace function app.settle_spends(of_chain text, final_height int) returns void
language plpgsql set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
declare
  found_final record;
  s app.spend;
  finished uuid[] := '{}';
  has_outputs boolean := app.uses_outputs(of_chain);
begin
  perform from app.payout p where p.id in (
    select x.payout_id from app.spend x join app.spend_inclusion i on i.spend_id = x.id
    where x.chain = of_chain and x.status <> 'final' and i.block_height <= final_height
    union all
    select l.payout_id from app.spend x join app.spend_inclusion i on i.spend_id = x.id
    join app.payout_sweep l on l.spend_id = x.id
    where x.chain = of_chain and x.status <> 'final' and i.block_height <= final_height)
  order by p.id for update;
  for found_final in
    select distinct on (i.block_height, x.nonce, x.id) x.id, i.txid, o.amount as moved,
      case when o.txid is null and has_outputs then 0 else i.fee end as fee, case when o.txid is null then 'displaced' when o.kind = 'cancel' then 'cancelled'
      when i.success then 'done' else 'reverted' end as outcome
    from app.spend x
    join app.spend_inclusion i on i.spend_id = x.id
    left join app.outbound_tx o on o.chain = x.chain and o.txid = i.txid and o.spend_id = x.id
    where x.chain = of_chain and x.status <> 'final' and i.block_height <= final_height
      and (o.txid is not null or (i.excludes and exists (
        select from app.unknown_transaction u join app.incident k on k.id = u.incident_id
        where u.chain = i.chain and u.txid = i.txid and k.resolution = 'kept')))
    order by i.block_height, x.nonce, x.id, o.txid is null
  loop
    perform app.lock_treasury(of_chain);
    update app.spend x set status = 'final', txid = found_final.txid, outcome = found_final.outcome, fee_paid = found_final.fee,
      final_at = clock_timestamp(), next_step_at = null, waiting_reason = null, waiting_detail = null, waiting_since = null
    where x.id = found_final.id and x.status <> 'final' returning * into s;
    continue when s.id is null;
    if has_outputs then perform app.settle_outputs(s); end if;
    perform app.post_network_fee(s, found_final.fee);
    if s.kind = 'payout' then perform app.finish_payment(s, s.outcome, s.txid);
    elsif s.kind = 'sweep' and not has_outputs then perform app.finish_sweep(s, s.outcome, found_final.moved);
    elsif s.kind = 'withdrawal' then perform app.finish_withdrawal(s, s.outcome);
    end if;
    finished := finished || s.id;
  end loop;
  perform app.wake_payout(p.id) from app.payout p
  where p.status = 'sweeping' and p.id in (select l.payout_id from app.payout_sweep l where l.spend_id = any(finished)) order by p.id;
end $$;

-- As in 020_audit.sql, but for the same.
create or replace view audit.no_unknown_transaction as
select i.id, i.sender, i.nonce from chain.inclusion i
where not exists (select from app.outbound_tx o where o.chain = i.chain and o.txid = i.txid)
  and not exists (select from app.unknown_transaction u join app.incident k on k.id = u.incident_id
    where u.chain = i.chain and u.txid = i.txid and (k.resolved_at is null or k.resolution = 'kept'));

-- As in 014_reconcile.sql, but that an incident is over once all of its transactions are known.
create or replace function custody.reconcile(entries jsonb) returns jsonb
language plpgsql set search_path = pg_catalog as $$
declare
  signed custody.journal[];
  e custody.journal;
  s app.spend;
  without_purpose int := 0;
begin
  lock table app.payout, app.treasury, app.sender, app.spend in exclusive mode; -- nothing plans or settles meanwhile
  insert into custody.journal select r.* from jsonb_populate_recordset(null::custody.journal, entries) r;
  select array_agg(r order by r.stream, r.seq) into signed from jsonb_populate_recordset(null::custody.journal, entries) r where r.kind <> 'pool';
  perform app.lock_treasury(c.stream) from (select distinct r.stream from unnest(signed) r) c;
  perform custody.free_nonces(signed);
  foreach e in array coalesce(signed, '{}') loop
    s := custody.recover_spend(e);
    if s.id is null then without_purpose := without_purpose + 1;
    else perform custody.recover_attempt(s, e);
    end if;
  end loop;
  perform custody.fill_holes(array(select distinct r.stream from unnest(signed) r));
  update app.incident i set resolved_at = clock_timestamp(), resolution = 'reconciled'
  from (select distinct r.stream from unnest(signed) r) r
  where i.resolved_at is null and i.chain = r.stream and (i.kind = 'journal_ahead' or (i.kind = 'unknown_transaction' and not exists (
    select from app.unknown_transaction u where u.incident_id = i.id
      and not exists (select from app.outbound_tx o where o.chain = u.chain and o.txid = u.txid)
      and not exists (select from unnest(signed) known where known.stream = u.chain and known.txid = u.txid))));
  update chain.cursor c set halted_at = null where c.chain in (select r.stream from unnest(signed) r)
    and not exists (select from app.incident i where i.chain = c.chain and i.kind = 'fork_below_final' and i.resolved_at is null);
  perform app.wake_spends(c.stream) from (select distinct r.stream from unnest(signed) r) c;
  return jsonb_build_object('entries', jsonb_array_length(entries), 'without_purpose', without_purpose,
    'payouts', (select count(distinct r.subject_id) from unnest(signed) r where r.kind = 'pay'));
end $$;

-- The journal ------------------------------------------------------------------------------------------------------------------------------

create function custody.tell_journal(of_stream text, why text) returns void
language plpgsql security definer set search_path = pg_catalog as $$
begin
  if why is null then
    update app.incident i set resolved_at = clock_timestamp(), resolution = 'healed'
    where i.kind = 'journal_changed' and i.subject = of_stream and i.resolved_at is null;
  else
    insert into app.incident as i (chain, kind, subject, details)
    values ((select c.chain from app.chain c where c.chain = of_stream), 'journal_changed', of_stream, jsonb_build_object('why', why))
    on conflict (subject, kind) where resolved_at is null do update set details = excluded.details where i.details <> excluded.details;
  end if;
end $$;
comment on function custody.tell_journal is 'What custody finds wrong with a stream of custody.journal, as an incident; null closes it.';
grant execute on function custody.tell_journal to sluice_custody;

-- Roles ------------------------------------------------------------------------------------------------------------------------------------

-- As with advisory locks in 008_analytics.sql: only a superuser can take it away. (The command NOTIFY asks for no right; docs/database.md.)
do $$ begin
  revoke execute on function pg_notify(text, text) from public;
  grant execute on function pg_notify(text, text) to sluice_indexer, sluice_api, sluice_jobs, sluice_custody;
exception when insufficient_privilege then null;
end $$;
