-- A row is a deposit or an outgoing payment (app.outgoing_payment) that is final above the final height, or still open at or below it. Left out:
-- what an incident explains; and, after an operator had final blocks read again, what was found there and waits to be final again.
create or replace view audit.finality as
select d.chain, 'deposit' as what, d.id, d.status, d.block_height, c.final_height from app.deposit d join chain.cursor c using (chain)
where ((d.status = 'final' and d.block_height > c.final_height) or (d.status = 'pending' and d.block_height <= c.final_height))
  and not exists (select from app.known_incident k where k.subject = d.id::text and k.kind like 'final\_deposit\_%')
  and not (d.status = 'final' and exists (select from app.incident i -- an operator had it read again, and it is there, but not final again yet
    where i.subject = d.id::text and i.kind = 'final_deposit_vanished' and i.resolution = 'healed'))
union all
select distinct s.chain, s.kind, s.id, s.status, i.block_height, c.final_height from app.outgoing_payment s join chain.cursor c using (chain)
join app.outgoing_confirmed_tx i on i.outgoing_payment_id = s.id
where ((s.status = 'final' and i.txid = s.txid and i.block_height > c.final_height) or (s.status <> 'final' and i.block_height <= c.final_height))
  and not exists (select from app.known_incident k where k.subject = s.id::text and k.kind = 'final_payment_vanished')
  and not (s.status = 'final' and exists (select from app.incident v
    where v.subject = s.id::text and v.kind = 'final_payment_vanished' and v.resolution = 'healed'));
comment on view audit.finality is 'deposits and outgoing payments are final at or below the final height, and nothing below it is still pending';
comment on column audit.finality.what is 'deposit, or the kind of the outgoing payment: payout, sweep, withdrawal or cancel.';
comment on column audit.finality.id is 'Id of the deposit or the outgoing payment.';
comment on column audit.finality.block_height is 'The block that holds it.';
comment on column audit.finality.final_height is 'Final height of the chain.';
