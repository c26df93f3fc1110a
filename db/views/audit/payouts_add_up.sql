-- A row is a payout whose sums do not agree. Its claimed deposits are not counted while they are being allocated (app.claim), nor if the payout was
-- imported from custody's journal and its deposits are unknown (the adjustment payout_recovered). A deposit that was lost later counts with what was
-- claimed, also if it is back with another amount.
create or replace view audit.payouts_add_up as
select p.id, p.status, p.gross, coalesce(d.amount, 0) + coalesce(j.amount, 0) as claimed from app.payout p
left join (
  select o.settlement_id, sum(case when l.deposit_id is null then o.amount else case o.status when 'final' then o.amount else 0 end - l.amount end) as amount
  from app.deposit o left join (select deposit_id, sum(amount) as amount from app.adjustment group by deposit_id) l on l.deposit_id = o.id
  where o.settlement_id is not null group by o.settlement_id
) d on d.settlement_id = p.id
left join (select settlement_id, sum(amount) as amount from app.adjustment where settlement_id is not null group by settlement_id) j
  on j.settlement_id = p.id
where p.gross <> p.fee + p.net
  or (not exists (select from app.claim c where c.payout_id = p.id and c.finished_at is null)
    and not exists (select from app.adjustment a where a.settlement_id = p.id and a.reason = 'payout_recovered')
    and coalesce(d.amount, 0) + coalesce(j.amount, 0) <> case when p.status = 'failed' then 0 else p.gross end);
comment on view audit.payouts_add_up is 'gross = fee + net = the sum of what was claimed, and a failed payout holds nothing';
comment on column audit.payouts_add_up.id is 'The payout.';
comment on column audit.payouts_add_up.gross is 'Its gross, in base units.';
comment on column audit.payouts_add_up.claimed is 'Sum of the deposits and adjustments that carry its id, in base units.';
