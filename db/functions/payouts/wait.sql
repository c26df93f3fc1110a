-- What a payout waits for, and when its next step is tried again. The worker notes it when a step cannot be taken (jobs/payouts/advance-payout.ts);
-- what is really waited for is found by why_waiting.sql.
--
-- A payout whose next_step_at has come is due (app.due_job): the worker adds its job again, so nothing is lost when a worker dies.

create or replace function app.wait_payout(of_payout uuid, reason text, detail text, retry_ms int) returns void
language sql security definer set search_path = pg_catalog as $$
  update app.payout p set waiting_detail = detail, waiting_since = case
      when reason is null then null when p.waiting_reason = reason then p.waiting_since else clock_timestamp() end,
    waiting_reason = reason, next_step_at = clock_timestamp() + retry_ms * interval '1 millisecond'
  where p.id = of_payout and p.status not in ('paying', 'completed', 'failed')
$$;
comment on function app.wait_payout is 'Notes what a payout waits for (null: nothing), since when, and when its next step is tried again. Does nothing once it is paying, or has ended.';
grant execute on function app.wait_payout to sluice_jobs;

create or replace function app.wake_payout(payout uuid) returns void
language sql set search_path = pg_catalog as $$
  select app.enqueue('advance_payout', json_build_object('payout_id', payout), 'payout:' || payout)
$$;
comment on function app.wake_payout is 'Adds the job that takes a payout''s next step.';

create or replace function app.wake_payouts_after(sweeps uuid[]) returns void
language plpgsql set search_path = pg_catalog as $$
begin
  perform app.wake_payout(p.id) from app.payout p
  where p.status in ('sweeping', 'swept') and p.id in (select l.payout_id from app.payout_sweep l where l.outgoing_payment_id = any(sweeps)) order by p.id;
end $$;
comment on function app.wake_payouts_after is 'Wakes the payouts that waited for these outgoing payments, which are final now.';
