-- A row is an outgoing payment (a payout's payment, a withdrawal, a sweep, a step of a return) that was paid more or less often than its outcome says,
-- by what custody signed for it and what is final on the chain; a payout that is completed without a payment, or the reverse; or a payout whose stored
-- transaction pays something else. Left out: a payment that vanished with its block (final_payment_vanished), and a second payment about which an
-- operator has decided.
create or replace view audit.no_double_pay as
with paid as (
  select s.id, s.kind, s.payout_id, s.outcome, s.txid, count(f.txid) filter (where f.fate = 'final') as times
  from app.outgoing_payment s
  left join app.attempt_fate f on f.chain = s.chain and f.kind <> 'cancel' and f.subject_id = case s.kind when 'payout' then s.payout_id else s.id end
    and not exists (select from app.second_payment n join app.incident k on k.kind = 'second_payment' and k.subject = n.outgoing_payment_id::text
      where n.chain = f.chain and n.txid = f.txid and k.resolution in ('loss', 'debt'))
  group by s.id
)
select coalesce(x.payout_id, x.id) as id, x.kind, coalesce(x.outcome, 'not over') as status, x.times as paid from paid x
where x.times <> (x.outcome is not distinct from 'done')::int
  and not exists (select from app.known_incident k where k.subject = x.id::text and k.kind = 'final_payment_vanished')
union all
select p.id, 'payout', p.status, x.times from app.payout p left join paid x on x.payout_id = p.id and x.kind = 'payout'
where (p.status = 'completed') <> (x.outcome is not distinct from 'done')
  and not exists (select from app.incident k where k.kind = 'second_payment' and k.subject = x.id::text and k.resolution in ('loss', 'debt'))
union all
select p.id, 'payout', p.status, null from app.payout p join app.outgoing_payment s on s.payout_id = p.id and s.kind = 'payout'
join app.outgoing_attempt o on o.outgoing_payment_id = s.id and o.kind = 'effect'
where (o.amount, o.recipient, o.token, o.chain) <> (p.net, p.address, p.token, p.chain);
comment on view audit.no_double_pay is 'each payment, withdrawal and sweep has one final transaction if it is done, and none otherwise; a payout is completed exactly if its payment is done';
comment on column audit.no_double_pay.id is 'The payout, or the outgoing payment if it is a withdrawal or a sweep.';
comment on column audit.no_double_pay.kind is 'payout, withdrawal or sweep.';
comment on column audit.no_double_pay.status is 'Its outcome, or its status.';
comment on column audit.no_double_pay.paid is 'How many final transactions paid it; null if a stored transaction has another amount, recipient, token or chain.';
