-- How a payout may change: pending, sweeping, swept, paying, completed, in this order; and failed, from each status before completed.
--
-- Triggers enforce it for every writer. Completed and failed are for ever; payee, amount and address never change; no payout is deleted. Anything
-- else is refused (P0003). app.finish_outgoing_payments ensures that paying ends only with proof on the chain.

create or replace function app.check_payout_change() returns trigger
language plpgsql set search_path = pg_catalog as $$
begin
  if (new.id, new.merchant_id, new.chain, new.token, new.gross, new.fee, new.net, new.address)
    is distinct from (old.id, old.merchant_id, old.chain, old.token, old.gross, old.fee, old.net, old.address)
    or (old.status <> new.status and (old.status, new.status) not in (
      ('pending', 'sweeping'), ('sweeping', 'swept'), ('swept', 'paying'), ('paying', 'completed'),
      ('pending', 'failed'), ('sweeping', 'failed'), ('swept', 'failed'), ('paying', 'failed'))) then
    raise exception 'payout %: % to % is not allowed', old.id, old.status, new.status using errcode = 'P0003';
  end if;
  if old.status <> new.status then
    new.waiting_reason := null;
    new.waiting_detail := null;
    new.waiting_since := null;
    new.next_step_at := case when new.status not in ('paying', 'completed', 'failed') then clock_timestamp() end; -- paying: its outgoing payment continues
    new.sweeping_at := case new.status when 'sweeping' then clock_timestamp() else old.sweeping_at end;
    new.swept_at := case new.status when 'swept' then clock_timestamp() else old.swept_at end;
    new.paying_at := case new.status when 'paying' then clock_timestamp() else old.paying_at end;
    new.finished_at := case when new.status in ('completed', 'failed') then clock_timestamp() end;
  end if;
  return new;
end $$;
comment on function app.check_payout_change is 'Trigger: refuses a change of a payout that is not allowed. A change of status clears what it waited for, notes its time, and sets when the next step is due.';
create or replace trigger contract before update on app.payout for each row execute function app.check_payout_change();

create or replace function app.refuse_payout_delete() returns trigger
language plpgsql set search_path = pg_catalog as $$
begin
  raise exception 'payouts are never deleted' using errcode = 'P0003';
end $$;
comment on function app.refuse_payout_delete is 'Trigger: refuses to delete a payout.';
create or replace trigger never_deleted before delete on app.payout for each row execute function app.refuse_payout_delete();
