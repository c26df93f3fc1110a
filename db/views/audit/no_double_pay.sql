-- A row is a payout that was paid more or less often than its status says, or whose stored transaction pays something else. Left out: what an
-- incident explains.
create or replace view audit.no_double_pay as
select p.id, p.status, count(distinct i.txid) as paid from app.payout p
left join app.outgoing_payment s on s.payout_id = p.id and s.kind = 'payout'
left join app.outgoing_attempt o on o.outgoing_payment_id = s.id and o.kind = 'effect'
left join chain.confirmed_tx i on i.chain = o.chain and i.txid = o.txid and i.success
  and i.block_height <= (select c.final_height from chain.cursor c where c.chain = o.chain)
where not exists (select from app.known_incident k where k.subject = s.id::text and k.kind in ('final_payment_vanished', 'payment_of_failed_payout'))
group by p.id having count(distinct i.txid) <> (p.status = 'completed')::int
union all
select p.id, p.status, null from app.payout p join app.outgoing_payment s on s.payout_id = p.id and s.kind = 'payout'
join app.outgoing_attempt o on o.outgoing_payment_id = s.id and o.kind = 'effect'
where (o.amount, o.recipient, o.token, o.chain) <> (p.net, p.address, p.token, p.chain);
comment on view audit.no_double_pay is 'a completed payout has one final transaction of its net to its address; no other payout has any';
comment on column audit.no_double_pay.id is 'The payout.';
comment on column audit.no_double_pay.status is 'Its status.';
comment on column audit.no_double_pay.paid is 'How many final transactions paid it; null if a stored transaction has another amount, recipient, token or chain.';
