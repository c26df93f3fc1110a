-- Wakes what waited for an operator's decision, in the transaction that writes the decision: an address on the whitelist (custody.whitelist), or a
-- higher budget for today's network fees (custody.budget_raise). What is woken asks custody again, and custody decides.

create or replace function custody.announce_entry() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
begin
  perform app.wake_payout(p.id) from app.payout p
  where p.merchant_id = new.merchant_id and p.chain = new.chain and p.address = new.address and p.status in ('pending', 'swept') order by p.id;
  return null;
end $$;
comment on function custody.announce_entry is 'Wakes the merchant''s payouts to an address that was put on the whitelist.';
create or replace trigger announce_entry after insert on custody.whitelist for each row execute function custody.announce_entry();

create or replace function custody.announce_raise() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
begin
  update app.outgoing_payment s set next_step_at = clock_timestamp()
  where s.chain = new.chain and s.status <> 'final' and s.waiting_reason = 'fee_budget_reached';
  perform app.wake_outgoing_payments(new.chain);
  perform app.wake_payout(p.id) from app.payout p
  where p.chain = new.chain and p.status not in ('completed', 'failed') and p.waiting_reason = 'fee_budget_reached' order by p.id;
  return null;
end $$;
comment on function custody.announce_raise is 'Wakes the outgoing payments and payouts of a chain that wait for its fee budget.';
create or replace trigger announce_raise after insert on custody.budget_raise for each row execute function custody.announce_raise();
