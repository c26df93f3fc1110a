-- Compares the stored sums of the days of deposits with the deposits, except of days that are to be summed up again.
create or replace view audit.deposit_days as
select day, merchant_id, chain, token, sum(summed) as summed, sum(stored) as stored, sum(final_summed) as final_summed, sum(final_stored) as final_stored
from (
  select day, merchant_id, chain, token, deposit_count as count_summed, 0 as count_stored, final_count as final_count_summed, 0 as final_count_stored,
    amount as summed, 0 as stored, final_amount as final_summed, 0 as final_stored
  from app.deposit_day
  union all
  select (created_at at time zone 'UTC')::date, merchant_id, chain, token, 0, 1, 0, case status when 'final' then 1 else 0 end,
    0, amount, 0, case status when 'final' then amount else 0 end
  from app.deposit where credited and status <> 'reorged' and created_at < (select max(day) + 1 from app.deposit_day)::timestamp at time zone 'UTC'
) part where day not in (select day from app.changed_deposit_day)
group by day, merchant_id, chain, token
having (sum(summed), sum(final_summed), sum(count_summed), sum(final_count_summed))
  <> (sum(stored), sum(final_stored), sum(count_stored), sum(final_count_stored));
comment on view audit.deposit_days is 'the sums of the days of deposits are those of the deposits';
comment on column audit.deposit_days.day is 'The day, in UTC.';
comment on column audit.deposit_days.summed is 'The sum of deposits that is stored, in base units.';
comment on column audit.deposit_days.stored is 'The sum of the deposits, in base units.';
comment on column audit.deposit_days.final_summed is 'The sum of final deposits that is stored, in base units.';
comment on column audit.deposit_days.final_stored is 'The sum of the final deposits, in base units.';
