-- What is due: the worker adds these jobs again every second, so a job that a dead worker dropped is only late. Each is added in a transaction of
-- its own: several keys in one transaction would be locked in another order than chain.derive locks them.
create or replace view app.due_job as
select 'advance_payout' as task, json_build_object('payout_id', id) as payload, 'payout:' || id as key
from app.payout where status not in ('completed', 'failed') and next_step_at <= clock_timestamp()
union all
select 'send_transactions', json_build_object('chain', chain), 'send:' || chain
from (select distinct chain from app.outgoing_payment where next_step_at <= clock_timestamp()) s
union all
select 'allocate_deposits', json_build_object('merchant_id', merchant_id, 'chain', chain, 'token', token),
  'allocate:' || merchant_id || ':' || chain || ':' || token
from (select distinct merchant_id, chain, token from app.claim where finished_at is null) c;
comment on view app.due_job is 'The jobs of every payout, outgoing payment (app.outgoing_payment) and allocation of deposits that is due now.';
comment on column app.due_job.task is 'Name of the task.';
comment on column app.due_job.payload is 'What the task is given.';
comment on column app.due_job.key is 'Its key: there is one job of a key at a time.';
grant select on app.due_job to sluice_jobs;
