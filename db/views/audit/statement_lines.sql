-- Compares what the ledger posted when deposits became final with these deposits: a statement shows them as the lines of the posting. What an operator
-- credited has a posting of its own.
create or replace view audit.statement_lines as
select merchant_id, chain, token, finalisation, e.amount as posted, coalesce(l.amount, 0) as lines
from (
  select merchant_id, chain, token, split_part(reference, ':', 3)::bigint as finalisation, -sum(amount) as amount from app.ledger_entry
  where account = 'merchant' and kind = 'deposit' and starts_with(reference, 'finalisation:') group by 1, 2, 3, 4) e
left join (
  select merchant_id, chain, token, finalisation, sum(amount) as amount from (
    select d.merchant_id, d.chain, d.token, d.finalisation, d.amount from app.deposit d
    where d.status = 'final' and d.credited
    union all
    select t.merchant_id, t.chain, t.token, t.finalisation, t.amount from app.taken_back t) d
  group by 1, 2, 3, 4) l using (merchant_id, chain, token, finalisation)
where e.amount is distinct from l.amount;
comment on view audit.statement_lines is 'the deposits that became final together = what was posted';
comment on column audit.statement_lines.posted is 'What the ledger posted for the merchant, in base units.';
comment on column audit.statement_lines.lines is 'The sum of the deposits, in base units.';
comment on column audit.statement_lines.finalisation is 'The number of the posting on its chain.';
