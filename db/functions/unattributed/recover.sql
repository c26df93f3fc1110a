-- Returns that an older copy of the database has forgotten, and that custody's journal brought back. Triggers: on a recovered outgoing payment
-- (app.outgoing_payment; custody/recover.sql), and on a deposit that is read again, whichever comes last. Each is recognised by its id
-- (app.return_outgoing_payment_ids).
--
-- Promises: the decision is there again, so value that is being returned is neither credited nor returned a second time. If it was only swept, the
-- operator has to give its destination once more.

create or replace function app.adopt_return(d app.deposit, s app.outgoing_payment) returns void
language plpgsql set search_path = pg_catalog as $$
declare r app.unattributed_decision;
begin
  select * into r from app.unattributed_decision u where u.deposit_id = d.id;
  if s.kind = 'withdrawal' and app.is_held(r) then perform app.reserve(s.chain, s.token, -r.amount); end if; -- its own amount is reserved
  insert into app.unattributed_decision as u (deposit_id, decision, amount, sweep_id, withdrawal_id, destination)
  values (d.id, 'return', d.amount, case s.kind when 'sweep' then s.id end, case s.kind when 'withdrawal' then s.id end,
    case s.kind when 'withdrawal' then s.recipient end)
  on conflict (deposit_id) do update set decision = 'return', sweep_id = coalesce(excluded.sweep_id, u.sweep_id),
    withdrawal_id = coalesce(excluded.withdrawal_id, u.withdrawal_id), destination = coalesce(excluded.destination, u.destination);
  update app.outgoing_payment x set merchant_id = null where x.id = s.id;
  delete from app.payout_sweep l where l.outgoing_payment_id = s.id;
end $$;
comment on function app.adopt_return is 'Recreates the decision to return this deposit, with a transaction of the return. The transaction belongs to no merchant, and no payout waits for it.';


create or replace function app.adopt_outgoing_payment() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
begin
  perform app.adopt_return(d, new) from app.deposit d
  where d.chain = new.chain and not d.credited and d.merchant_id is not null and d.token = new.token
    and (new.kind = 'withdrawal' or d.address = new.source) and new.id in (select i.id from app.return_outgoing_payment_ids(d, new.kind) i);
  return null;
end $$;
comment on function app.adopt_outgoing_payment is 'Finds the deposit whose return a recovered outgoing payment belongs to.';
create or replace trigger adopt_return after insert on app.outgoing_payment for each row
  when (new.recovered and new.kind in ('sweep', 'withdrawal')) execute function app.adopt_outgoing_payment();

create or replace function app.adopt_deposit() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
begin
  perform app.adopt_return(new, s) from (values ('sweep'), ('withdrawal')) k (kind)
  cross join lateral app.return_outgoing_payment_ids(new, k.kind) i join app.outgoing_payment s on s.id = i.id where s.status <> 'final' order by k.kind, i.n;
  return null;
end $$;
comment on function app.adopt_deposit is 'Finds outgoing payments that belong to the return of a deposit that is read again.';
create or replace trigger adopt_return after insert on app.deposit for each row
  when (not new.credited and new.merchant_id is not null) execute function app.adopt_deposit();

-- Its plans are kept, and by index: it runs for each new deposit, and choosing among the many indexes of outgoing payments took a third of all the time
-- in which deposits are derived.
create or replace function app.withhold_returned() returns trigger
language plpgsql security definer set search_path = pg_catalog set plan_cache_mode = auto set enable_seqscan = off as $$
begin
  if not exists (select from app.outgoing_payment s where s.chain = new.chain and s.recovered and s.status <> 'final') then return new; end if;
  new.credited := not exists (select from (values ('sweep'), ('withdrawal')) k (kind)
    cross join lateral app.return_outgoing_payment_ids(new, k.kind) i join app.outgoing_payment s on s.id = i.id where s.recovered);
  return new;
end $$;
comment on function app.withhold_returned is 'Does not credit a deposit that is being returned, even if its chain was asked for before it is read again.';
create or replace trigger withhold_returned before insert on app.deposit for each row
  when (new.credited and new.merchant_id is not null) execute function app.withhold_returned();
