-- A row is an operator's decision about unattributed value that was not carried out as decided.
create or replace view audit.unattributed as
select u.deposit_id, u.decision, 'more than arrived' as wrong from app.unattributed_decision u join app.deposit d on d.id = u.deposit_id
where u.amount > d.amount or exists (select from app.outgoing_payment s where s.id in (u.sweep_id, u.withdrawal_id)
  and (s.amount > d.amount or (s.chain, s.token) <> (d.chain, d.token)))
union all
select u.deposit_id, u.decision, case when d.credited then 'credited' else 'not credited' end
from app.unattributed_decision u join app.deposit d on d.id = u.deposit_id where d.credited <> (u.decision = 'credit')
union all
select d.id, u.decision, 'returned more than once' from app.unattributed_decision u join app.deposit d on d.id = u.deposit_id
where (select count(*) from app.return_outgoing_payment_ids(d, 'withdrawal') i join app.outgoing_payment s on s.id = i.id and s.outcome = 'done') > 1;
comment on view audit.unattributed is 'each unattributed deposit was credited, or returned once, or neither, and no more of it than arrived';
comment on column audit.unattributed.deposit_id is 'The unattributed value: a row of app.deposit.';
comment on column audit.unattributed.decision is 'What was decided: credit or return.';
comment on column audit.unattributed.wrong is 'What is wrong with it.';
