-- A row is an outgoing payment (a payout's payment, a withdrawal, a sweep, a step of a return) that was paid more or less often than its outcome says,
-- by what custody signed for it and what is final on the chain; a payout that is completed without a payment, or the reverse; or a payout whose stored
-- transaction pays something else. Left out: a payment that vanished with its block (final_payment_vanished), and a second payment about which an
-- operator has decided.
create or replace view audit.no_double_pay as
with decided as (
  select n.chain, n.txid from app.second_payment n join app.incident k on k.id = n.incident_id where k.resolved_at is not null
), paid as (
  select s.id, s.kind, s.payout_id, s.outcome, count(f.txid) as times,
    (s.outcome is not distinct from 'done' and (s.kind <> 'payout' or p.status = 'completed'))::int as due
  from app.outgoing_payment s
  left join app.payout p on p.id = s.payout_id
  left join app.attempt_fate f on f.chain = s.chain and f.kind <> 'cancel' and f.fate = 'final'
    and f.subject_id = case s.kind when 'payout' then s.payout_id else s.id end
    and not exists (select from decided d where d.chain = f.chain and d.txid = f.txid)
  where not (s.kind in ('delegate', 'undelegate') and s.recovered and s.txid is null) -- a node said so (app.find_delegations)
  group by s.id, p.status
)
select coalesce(x.payout_id, x.id) as id, x.kind, coalesce(x.outcome, 'not over') as status, x.times as paid from paid x
where x.times <> x.due
  and not (x.times < x.due and exists (select from app.known_incident k where k.subject = x.id::text and k.kind = 'final_payment_vanished'))
union all
select p.id, 'payout', p.status, x.times from app.payout p left join paid x on x.payout_id = p.id and x.kind = 'payout'
where p.status = 'completed' and x.outcome is distinct from 'done'
union all
select p.id, 'payout', p.status, null from app.payout p join app.outgoing_payment s on s.payout_id = p.id and s.kind = 'payout'
join app.outgoing_attempt o on o.outgoing_payment_id = s.id and o.kind = 'effect'
where (o.amount, o.recipient, o.token, o.chain) <> (p.net, p.address, p.token, p.chain);
comment on view audit.no_double_pay is 'each payment, withdrawal and sweep has one final transaction if it is done, and none otherwise; a payout is completed exactly if its payment is done';
comment on column audit.no_double_pay.id is 'The payout, or the outgoing payment if it is a withdrawal or a sweep.';
comment on column audit.no_double_pay.kind is 'payout, withdrawal or sweep.';
comment on column audit.no_double_pay.status is 'Its outcome, or its status.';
comment on column audit.no_double_pay.paid is 'How many final transactions paid it; null if a stored transaction has another amount, recipient, token or chain.';
