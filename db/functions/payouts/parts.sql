-- What a payout is made of: the deposits and adjustments that it claimed. Both are read in the order of their indexes, so a page costs the same
-- however many there are. (Of a view of both, the planner sorts everything: it does not merge the two orders.)
--
-- Invariants: the parts of a payout whose claim is allocated, and that did not fail, add up to its gross, whatever becomes of its deposits. Nobody
-- gets a part of the list for the whole: while deposits are being allocated, the answer is to ask again. A failed payout is made of nothing: what it
-- had claimed is in the balance, or in a later payout.
-- Errors: SL404 there is no such payout; SLCOL its deposits are being allocated.

-- A deposit counts with the amount that was claimed. One that was lost afterwards (app.take_back) keeps its payout, and may come back with another
-- amount: what its adjustments have made of it since belongs to later payouts.
create or replace function app.payout_parts(of_payout uuid, below bigint, most int)
returns table (place bigint, type text, amount numeric, deposit_id uuid, status text, reason text, created_at timestamptz)
language plpgsql stable security definer set search_path = pg_catalog as $$
begin
  return query
  (select d.seq, case when d.user_id is null then 'receipt' else 'deposit' end, (
      select case when count(*) = 0 then d.amount else case d.status when 'final' then d.amount else 0 end - sum(a.amount) end
      from app.adjustment a where a.deposit_id = d.id),
    d.id, d.status, null, d.created_at
  from app.deposit d where d.settlement_id = of_payout and d.seq < below order by d.seq desc limit most)
  union all
  (select a.position, 'adjustment', a.amount, a.deposit_id, null, a.reason, a.created_at
  from app.adjustment a where a.settlement_id = of_payout and a.position < below order by a.position desc limit most);
end $$;
comment on function app.payout_parts is 'What a payout claimed, below a place and at least as many as asked for, if there are so many: deposits of users, receipts (what reached the addresses of payment requests) and adjustments, which have the highest places. status is that of the deposit now, reason why there is an adjustment; deposit_id may be the deposit that it is about.';
grant execute on function app.payout_parts to sluice_api;

create or replace function app.listed_payout(of_merchant uuid, of_payout uuid) returns uuid
language plpgsql stable security definer set search_path = pg_catalog as $$
declare
  p app.payout;
  under_way app.claim;
begin
  select * into p from app.payout o where o.id = of_payout and o.merchant_id = of_merchant;
  if p.id is null then raise exception 'there is no payout with this id' using errcode = 'SL404', detail = 'payout'; end if;
  if p.status = 'failed' then return null; end if;
  select * into under_way from app.claim c where c.payout_id = p.id and c.finished_at is null;
  if under_way.id is not null then
    raise exception 'the payout is still collecting its deposits: % of % so far', under_way.done_count, under_way.deposit_count
      using errcode = 'SLCOL';
  end if;
  return p.id;
end $$;
comment on function app.listed_payout is 'A merchant''s payout whose parts can be listed; null if it failed, and so has none.';
grant execute on function app.listed_payout to sluice_api;
