-- What the worker notes while it sends an outgoing payment (app.outgoing_payment): that a node got the bytes, what the payment waits for, that it is
-- given up. Also the job that sends what is due on a chain (task send_transactions).
--
-- Promises: each function is one statement, so two workers at once do no harm. A final payment is left alone, unless a rewind has it sent again. A
-- node's response proves nothing: only a final block ends an outgoing payment (outgoing/finish_payments.sql). The job is a wake-up call: if it is
-- lost, the row is due all the same (app.due_job).

create or replace function app.record_broadcast(of_chain text, of_txid text, error text, retry_ms int) returns void
language sql security definer set search_path = pg_catalog as $$
  with sent as (
    update app.outgoing_attempt o set broadcast_at = clock_timestamp(), broadcast_error = error where o.chain = of_chain and o.txid = of_txid
    returning o.outgoing_payment_id
  )
  update app.outgoing_payment s set next_step_at = clock_timestamp() + retry_ms * interval '1 millisecond',
    waiting_reason = nullif(s.waiting_reason, 'node_unreachable'), -- it responded, so it is reachable
    waiting_detail = case when s.waiting_reason <> 'node_unreachable' then s.waiting_detail end,
    waiting_since = case when s.waiting_reason <> 'node_unreachable' then s.waiting_since end
  from sent where s.id = sent.outgoing_payment_id and s.next_step_at is not null
$$;
comment on function app.record_broadcast is 'Notes that a stored transaction was given to a node, the node''s error (null: the node took it), and when it is checked again.';
grant execute on function app.record_broadcast to sluice_jobs;

create or replace function app.wait_outgoing_payment(of_outgoing_payment uuid, reason text, detail text, retry_ms int) returns void
language sql security definer set search_path = pg_catalog as $$
  update app.outgoing_payment s set waiting_detail = detail, waiting_since = case
      when reason is null then null when s.waiting_reason = reason then s.waiting_since else clock_timestamp() end,
    waiting_reason = reason, next_step_at = clock_timestamp() + retry_ms * interval '1 millisecond'
  where s.id = of_outgoing_payment and s.next_step_at is not null
$$;
comment on function app.wait_outgoing_payment is 'Notes what an outgoing payment waits for (null: nothing), and when it is checked again.';
grant execute on function app.wait_outgoing_payment to sluice_jobs;

-- A nonce that no transaction uses holds up every later one of its address, so it cannot just be dropped. The worker calls this for a sweep that is
-- no longer worth its fee, or that custody refuses; `sluice treasury cancel` calls it for a withdrawal. Whichever attempt is mined counts.
create or replace function app.cancel_outgoing_payment(of_outgoing_payment uuid) returns void
language sql security definer set search_path = pg_catalog as $$
  update app.outgoing_payment s set cancelling = true, next_step_at = clock_timestamp()
  where s.id = of_outgoing_payment and s.status <> 'final' and s.kind not in ('payout', 'cancel')
$$;
comment on function app.cancel_outgoing_payment is 'Gives up an outgoing payment that is not final and pays no payout: a transaction that pays nobody uses up its nonce, or its outputs.';
grant execute on function app.cancel_outgoing_payment to sluice_jobs;

create or replace function app.give_up_outgoing_payment(of_outgoing_payment uuid, why text) returns void
language sql security definer set search_path = pg_catalog as $$
  update app.outgoing_payment s set failure = coalesce(s.failure, why) where s.id = of_outgoing_payment and s.status <> 'final';
  select app.cancel_outgoing_payment(of_outgoing_payment)
$$;
comment on function app.give_up_outgoing_payment is 'The same, and notes why, in words for operators.';
grant execute on function app.give_up_outgoing_payment to sluice_jobs;

create or replace function app.wake_outgoing_payments(of_chain text) returns void
language sql set search_path = pg_catalog as $$
  select app.enqueue('send_transactions', json_build_object('chain', of_chain), 'send:' || of_chain)
$$;
comment on function app.wake_outgoing_payments is 'Adds the job that sends what is due on a chain; it runs once this transaction is committed.';

