-- A row is a deposit or a debt that names a payout of another merchant, chain or token, or a failed one. While a failed payout gives back what it
-- claimed (a release in app.claim), that is under way and no row.
create or replace view audit.one_payout_each as
select c.what, c.id, c.settlement_id, p.status from (
  select 'deposit' as what, id, settlement_id, merchant_id, chain, token from app.deposit where settlement_id is not null
  union all select 'adjustment', id, settlement_id, merchant_id, chain, token from app.adjustment where settlement_id is not null
) c
left join app.payout p on p.id = c.settlement_id and (p.merchant_id, p.chain, p.token) = (c.merchant_id, c.chain, c.token)
where p.id is null or (p.status = 'failed' and not exists (select from app.claim r where r.payout_id = p.id and r.finished_at is null));
comment on view audit.one_payout_each is 'what was claimed belongs to one payout of its merchant, chain and token, which did not fail';
comment on column audit.one_payout_each.what is 'deposit or adjustment.';
comment on column audit.one_payout_each.id is 'Its id.';
comment on column audit.one_payout_each.settlement_id is 'The payout that it names.';
comment on column audit.one_payout_each.status is 'Status of that payout; null if it is not one of its merchant, chain and token.';
