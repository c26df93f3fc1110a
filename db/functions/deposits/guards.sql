-- What no code may do to a deposit: triggers that refuse it (SQLSTATE P0001). They protect what merchants rely on, even if chain.derive_deposits
-- were wrong.
--
-- A deposit is never deleted, and never becomes another one. A final one keeps its status and its amount. A reorged one has to be pending before it
-- is final. A credited one stays credited. Only within an operator's decision may a final deposit be reorged (app.take_back), or one that is not
-- credited be credited (app.credit_unattributed): they set app.decided_by_operator just around that update.

create or replace function app.refuse_change() returns trigger
language plpgsql set search_path = pg_catalog as $$
begin
  raise exception 'deposit %: % is not allowed (status % to %)', old.id, lower(tg_op), old.status, case when tg_op = 'UPDATE' then new.status end;
end $$;
comment on function app.refuse_change is 'Trigger: refuses a change of a deposit, and says which.';
create or replace trigger never_deleted before delete on app.deposit for each row execute function app.refuse_change();
create or replace trigger final_stays_final before update on app.deposit for each row
  when (old.status = 'final' and (new.status <> 'final' or new.amount <> old.amount)
    and current_setting('app.decided_by_operator', true) is distinct from 'on')
  execute function app.refuse_change();
create or replace trigger never_another before update on app.deposit for each row
  when (old.id <> new.id or old.chain <> new.chain or old.txid <> new.txid or old.output_index <> new.output_index
    or old.address <> new.address or old.token <> new.token or (old.status = 'reorged' and new.status = 'final')
    or (old.credited <> new.credited and (old.credited or current_setting('app.decided_by_operator', true) is distinct from 'on')))
  execute function app.refuse_change();
