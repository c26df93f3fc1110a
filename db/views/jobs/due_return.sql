-- Returns of unattributed value, an operator's decision, that wait for their next transaction. A return is two transactions: a sweep of the address
-- to the treasury, and, once that is final, a withdrawal from there. A return without a destination is not due.
--
-- Readers: the worker, to begin them; app.lock_return, which checks again under its locks, so that each is begun once.
create or replace view app.due_return as
select u.deposit_id, d.chain, d.token, d.address, u.amount, u.destination, t.address as treasury,
  case when u.sweep_id is null then 'sweep' else 'withdrawal' end as step
from app.unattributed_decision u join app.deposit d on d.id = u.deposit_id join app.chain c on c.chain = d.chain
join custody.address t on t.family = c.family and t.purpose = 'treasury' left join app.outgoing_payment s on s.id = u.sweep_id
where u.decision = 'return' and u.withdrawal_id is null and (u.sweep_id is null or s.outcome = 'done') and u.destination is not null;
comment on view app.due_return is 'Returns of unattributed value whose next transaction is to be begun.';
comment on column app.due_return.address is 'The address that it arrived at.';
comment on column app.due_return.amount is 'What is to be returned, in base units.';
comment on column app.due_return.destination is 'Where it goes.';
comment on column app.due_return.treasury is 'The treasury of the chain.';
comment on column app.due_return.step is 'What is to be begun: sweep (to the treasury) or withdrawal (to the destination).';
grant select on app.due_return to sluice_jobs;
