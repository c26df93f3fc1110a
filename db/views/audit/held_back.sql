-- A row is an address, or on chains with outputs a deposit, on which something is held back that should not be. What is below a minimum now, and not held
-- back, is right: it was worth a sweep once.
create or replace view audit.held_back as
with held as (
  select chain, token, address, case when app.uses_outputs(chain) then id end as deposit_id, sum(amount) as amount, max(amount) as largest from app.deposit
  where held_back group by 1, 2, 3, 4
), place as (
  select h.*, a.sweep_min, g.amount as holds, coalesce(g.amount, 0) - coalesce(l.amount, 0) as unswept
  from held h join app.asset a using (chain, token) left join app.holding g using (chain, token, address)
  left join (select c.chain, l.* from app.chain c cross join lateral app.leaving(c.chain) l) l using (chain, token, address)
)
select p.chain, p.token, p.address, p.deposit_id, p.amount, p.sweep_min as minimum, p.unswept from place p left join app.deposit d on d.id = p.deposit_id
where not app.is_blocked(p.chain, p.token, p.address) and p.largest >= p.sweep_min or case
  when p.deposit_id is null then
    not app.is_blocked(p.chain, p.token, p.address) and p.unswept >= p.sweep_min or (p.amount > p.holds and p.holds >= 0)
  else exists (select from app.output u where u.chain = p.chain and u.txid = d.txid and u.vout = d.output_index and u.spent_by is not null) end;
comment on view audit.held_back is 'nothing is held back that is worth a sweep, or was swept';
comment on column audit.held_back.deposit_id is 'The deposit, on chains with outputs.';
comment on column audit.held_back.amount is 'What is held back there, in base units.';
comment on column audit.held_back.minimum is 'What is worth a sweep, in base units.';
comment on column audit.held_back.unswept is 'What is on the address and no sweep under way takes, in base units.';
