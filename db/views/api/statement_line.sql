-- The lines of statements: each movement of a merchant's balance, and behind a finalisation each of its deposits. The ledger has the movement, its time
-- and its amount; what a payout claims is two lines, its net and its fee, and comes back as these if it fails.
--
-- Promises: the amounts of a merchant's lines add up to the change of its balance, to the last unit, between any two times (audit.running_totals).
-- Readers: statements (functions/reading/statements.sql), analysts. An index finds a merchant's lines of a chain and token by their time.
create or replace view app.statement_line with (security_barrier) as
select e.merchant_id, e.chain, e.token, e.created_at as at, e.id as entry, l.seq as part, l.type, l.amount, l.deposit_id, l.payout_id
from app.ledger_entry e
cross join lateral (
  select case when starts_with(e.reference, 'finalisation:') then split_part(e.reference, ':', 3)::bigint end as finalisation,
    case when not starts_with(e.reference, 'finalisation:') then e.reference::uuid end as subject) k
cross join lateral (
  select d.seq, 'deposit' as type, d.amount, d.id as deposit_id, null::uuid as payout_id from app.deposit d
  where e.kind = 'deposit' and d.merchant_id = e.merchant_id and d.chain = e.chain and d.token = e.token and d.finalisation = k.finalisation
    and d.status = 'final' and d.credited
  union all
  select d.seq, 'deposit', t.amount, d.id, null from app.taken_back t join app.deposit d on d.id = t.deposit_id
  where e.kind = 'deposit' and t.merchant_id = e.merchant_id and t.chain = e.chain and t.token = e.token and t.finalisation = k.finalisation
  union all -- as app.movement_parts has it, which whoever reads a view cannot call
  select p.part, p.type, p.amount, case when e.kind in ('deposit', 'reorg') then k.subject end, case when e.kind not in ('deposit', 'reorg') then k.subject end
  from (select) one
  left join app.payout o on o.id = case when e.kind in ('claim', 'release') then k.subject end and o.gross = abs(e.amount)
  cross join lateral (values
    (0, case e.kind when 'deposit' then 'deposit' when 'reorg' then 'deposit_lost' else 'adjustment' end, case when o.id is null then -e.amount else 0 end),
    (1, 'payout', -sign(e.amount) * o.net), (2, 'fee', -sign(e.amount) * o.fee)) p (part, type, amount)
  where k.subject is not null and p.amount <> 0
) l
where e.account = 'merchant';
comment on view app.statement_line is 'Each movement of a merchant''s balance, and behind a finalisation each of its deposits.';
comment on column app.statement_line.at is 'When it was posted.';
comment on column app.statement_line.entry is 'The entry of the ledger.';
comment on column app.statement_line.part is 'Order of the lines of an entry.';
comment on column app.statement_line.type is 'deposit: it became final, or an operator credited it. deposit_lost: a final one was taken back. payout, fee: what a payout claimed, net and fee; above zero: what came back because it failed. adjustment: a debt for what was paid although its payment had ended.';
comment on column app.statement_line.amount is 'How it changed the balance, in base units: below zero for what left.';
