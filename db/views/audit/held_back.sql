-- A row is a deposit that is held back and should not be. What is below a minimum now, and not held back, is right: it was worth a sweep once.
create or replace view audit.held_back as
select d.id, d.chain, d.token, d.address, d.amount, app.missing_to_collect(d) as missing from app.deposit d
where d.held_back and (app.missing_to_collect(d) <= 0 or case
  when app.uses_outputs(d.chain) then exists (
    select from app.output u where u.chain = d.chain and u.txid = d.txid and u.vout = d.output_index and u.spent_by is not null)
  else app.collectable_amount(d.chain, d.address, d.token) < 0
    and exists (select from app.holding h where h.chain = d.chain and h.address = d.address and h.token = d.token and h.amount >= 0) end);
comment on view audit.held_back is 'no deposit is held back that is worth a sweep, or was swept';
comment on column audit.held_back.id is 'The deposit.';
comment on column audit.held_back.chain is 'Chain code.';
comment on column audit.held_back.token is 'Token code.';
comment on column audit.held_back.address is 'Its address.';
comment on column audit.held_back.amount is 'Its amount, in base units.';
comment on column audit.held_back.missing is 'What is missing to the minimum, in base units: none, if not above zero.';
