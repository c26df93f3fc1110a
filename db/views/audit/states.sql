-- A row is a deposit whose events do not follow each other as the contract requires, or a deposit or payout whose columns contradict its status. A
-- trigger checks the statuses of payouts, so only their end is checked here.
create or replace view audit.states as
select 'deposit' as what, subject_id as id, before || ' to ' || type as wrong from (
  select subject_id, version, type, lag(type, 1, 'nothing') over (partition by subject_id order by version) as before
  from app.event where type like 'deposit.%' and not is_test
) step
where case type when 'deposit.pending' then before not in ('nothing', 'deposit.reorged')
  when 'deposit.confirmed' then before <> 'deposit.pending' and not (before = 'nothing' and version > 2) -- an operator credited what was final
  else before not in ('deposit.pending', 'deposit.confirmed') end
union all
select 'deposit', d.id, d.status || ', and the last event is ' || e.type from app.deposit d
join app.event e on e.subject_id = d.id and e.version = d.version
where d.credited and e.type <> case d.status when 'final' then 'deposit.confirmed' else 'deposit.' || d.status end
union all
select 'deposit', id, status || case when finalised_at is null then ' without' else ' with' end || ' the time when it became final' from app.deposit
where (status = 'final') <> (finalised_at is not null) or (status = 'final') <> (finalisation is not null)
union all
select 'payout', id, status || ', and how it ended says something else' from app.payout
where (status in ('completed', 'failed')) <> (finished_at is not null) or (status = 'completed') <> (txid is not null)
  or (status = 'failed') <> (error_code is not null);
comment on view audit.states is 'deposits and payouts went from state to state as the contract has it, and are where their last event says';
comment on column audit.states.what is 'deposit or payout.';
comment on column audit.states.id is 'Its id.';
comment on column audit.states.wrong is 'The forbidden change, or what contradicts its status.';
