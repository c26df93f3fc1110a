-- sluice audit shows it below its checks; it is never a finding. These times are normal: a day for payouts, sweeps, withdrawals and pending
-- deposits; an hour for allocation, and for a payment request that expired and whose status no worker has decided; ten minutes for an event without
-- a number; four days for a delivery, unless its next attempt is still to come.
create or replace view app.stuck as
select 'payout' as what, app.public_id('pay', p.id) as id, p.chain, coalesce(p.waiting_reason, p.status) as state, p.created_at as since
from app.payout p where p.status not in ('completed', 'failed') and p.created_at < clock_timestamp() - interval '1 day'
union all
select s.kind, s.id::text, s.chain, coalesce(s.waiting_reason, s.status), s.created_at
from app.outgoing_payment s where s.status <> 'final' and s.kind <> 'payout' and s.created_at < clock_timestamp() - interval '1 day'
union all
select 'deposit', app.public_id('dep', d.id), d.chain, case when d.block_height is null then 'in no block' else 'not final' end, d.created_at
from app.deposit d where d.status = 'pending' and d.created_at < clock_timestamp() - interval '1 day'
union all
select 'allocation', app.public_id('pay', c.payout_id), c.chain, c.done_count || ' of ' || c.deposit_count || ' deposits', c.created_at
from app.claim c where c.finished_at is null and c.created_at < clock_timestamp() - interval '1 hour'
union all
select 'event', app.public_id('evt', e.id), null, 'not sequenced', e.created_at
from app.event e where e.sequence is null and e.created_at < clock_timestamp() - interval '10 minutes'
union all
select 'delivery', app.public_id('dlv', d.id), null, d.attempts || ' attempts', d.created_at
from app.delivery d where d.status = 'pending' and d.created_at < clock_timestamp() - interval '4 days' and d.next_attempt_at < clock_timestamp()
union all
select 'payment request', r.external_id, r.chain, r.status || ', and expired', r.decide_at
from app.payment_request r where r.decide_at < clock_timestamp() - interval '1 hour';
comment on view app.stuck is 'What has been under way for longer than normal. Nothing is wrong: it may wait for the chain, a node, the whitelist or a merchant.';
comment on column app.stuck.what is 'payout, sweep, withdrawal, deposit, allocation (of deposits with their payout), event, delivery or payment request.';
comment on column app.stuck.id is 'Its id, as commands take it.';
comment on column app.stuck.chain is 'Chain code; null if it concerns none.';
comment on column app.stuck.state is 'What it waits for, or how far it is.';
comment on column app.stuck.since is 'When it began.';
