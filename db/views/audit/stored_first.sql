-- A row is an outgoing payment (app.outgoing_payment) that is marked as signed and has no stored attempt, or the reverse; a payout that is paying
-- without a stored payment; or a transaction that was given to a node before it was stored.
create or replace view audit.stored_first as
select s.chain, s.id, s.status || case when o.stored is null then ', and nothing is stored' else ', and something is stored' end as wrong from app.outgoing_payment s
left join (select outgoing_payment_id, count(*) as stored from app.outgoing_attempt group by outgoing_payment_id) o on o.outgoing_payment_id = s.id
where s.status <> 'final' and (s.status = 'live') <> (o.stored is not null)
union all
select p.chain, p.id, 'paying, and no payment is stored' from app.payout p
where p.status = 'paying' and not exists (select from app.outgoing_payment s join app.outgoing_attempt o on o.outgoing_payment_id = s.id and o.kind = 'effect'
  where s.payout_id = p.id and s.kind = 'payout')
union all
select o.chain, o.outgoing_payment_id, 'given to a node before it was stored' from app.outgoing_attempt o where o.broadcast_at < o.stored_at;
comment on view audit.stored_first is 'a transaction is stored, signed, before it is given to a node and before anything counts on it';
comment on column audit.stored_first.id is 'The outgoing payment, or the payout.';
comment on column audit.stored_first.wrong is 'What is wrong with it.';
