-- A row is a token whose fees in the ledger are not those that were earned or paid. A sweep that returns unattributed value takes its network fee
-- out of that value, so the ledger has that fee in the account unattributed.
create or replace view audit.fees as
select what, chain, token, sum(posted) as posted, sum(due) as due from (
  select 'service fees' as what, chain, token, -amount as posted, 0 as due from app.ledger_entry where account = 'fees'
  union all select 'service fees', chain, token, 0, fee from app.payout where status = 'completed'
  union all select 'network fees', chain, token, amount, 0 from app.ledger_entry where account = 'network'
  union all select 'network fees', e.chain, e.token, e.amount, 0 from app.ledger_entry e
    join app.outgoing_payment s on s.id::text = e.reference and s.kind = 'sweep' where e.account = 'unattributed' and e.kind = 'return'
  union all select 'network fees', chain, app.native_token(chain), 0, fee_paid from app.outgoing_payment where status = 'final'
  union all select 'network fees', chain, app.native_token(chain), 0, fee from app.second_payment where booked_at is not null
) part group by what, chain, token having sum(posted) <> sum(due);
comment on view audit.fees is 'the fees in the ledger are those of completed payouts and of final transactions';
comment on column audit.fees.what is 'service fees or network fees.';
comment on column audit.fees.posted is 'What the ledger has, in base units.';
comment on column audit.fees.due is 'What completed payouts earned, or final transactions cost, in base units.';
