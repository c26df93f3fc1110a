-- A row is a deposit, a payout or a payment request with an event too few or too many. A receipt of a payment request and a deposit that is not credited have none. If
-- an operator credited a deposit afterwards, its first event is the confirmation. A payout has one, when it ends. A payment request counts its own.
create or replace view audit.events as
select d.id, d.version as expected, count(e.id) as found from app.deposit d
left join app.event e on e.subject_id = d.id and e.type like 'deposit.%'
group by d.id
having case when not d.credited or d.payment_request_id is not null then count(e.id) > 0
  -- If an operator credited a deposit afterwards, its first event is the confirmation.
  else count(e.id) <> d.version - min(e.version) + 1 or max(e.version) <> d.version or not (min(e.version) = 1 or min(e.version) > 2) or count(e.id) = 0 end
union all
select p.id, (p.status in ('completed', 'failed'))::int, count(e.id) from app.payout p
left join app.event e on e.subject_id = p.id and e.type like 'payout.%'
group by p.id having count(e.id) <> (p.status in ('completed', 'failed'))::int
  or count(e.id) filter (where e.type <> 'payout.' || p.status) > 0
union all
select r.id, r.version, count(e.id) from app.payment_request r
left join app.event e on e.subject_id = r.id and starts_with(e.type, 'payment_request.')
group by r.id having count(e.id) <> r.version;
comment on view audit.events is 'each change of a deposit and of a payment request, and the end of each payout, has exactly one event';
comment on column audit.events.id is 'The deposit, the payout or the payment request.';
comment on column audit.events.expected is 'How many events it should have: its version, or 1 for a payout that ended.';
comment on column audit.events.found is 'How many it has.';
