-- A row is an output (Bitcoin) that is reserved or spent wrongly; an outgoing payment (app.outgoing_payment) without its first input, the output
-- that all its attempts spend; or an address, or the treasury, whose unspent outputs do not agree with the ledger. Left out: what an incident
-- explains; the first input of a CPFP child whose parent is not final; a payment that another transaction made impossible (conflicted), or that was
-- imported from custody's journal.
create or replace view audit.outputs as
select u.chain, u.txid || ':' || u.vout as output, 'reserved by an outgoing payment that is over' as wrong
from app.output u join app.outgoing_payment s on s.id = u.outgoing_payment_id where u.spent_by is null and s.status = 'final'
union all
select u.chain, u.txid || ':' || u.vout, 'spent by another transaction than its outgoing payment says'
from app.output u join app.outgoing_payment s on s.id = u.outgoing_payment_id
where u.spent_by is not null and (s.status <> 'final' or s.txid is distinct from u.spent_by) and s.outcome is distinct from 'conflicted'
union all
select u.chain, u.txid || ':' || u.vout, 'spent, and in no block'
from app.output u where u.spent_by is not null
  and not exists (select from chain.confirmed_tx i where i.chain = u.chain and i.txid = u.spent_by)
  and not exists (select from app.known_incident k where k.subject = u.outgoing_payment_id::text and k.kind = 'final_payment_vanished')
union all
select s.chain, s.id::text, 'does not have its first input' from app.outgoing_payment s
where s.first_input is not null and s.outcome is distinct from 'conflicted' and not s.recovered
  and not exists (select from app.cpfp b where b.outgoing_payment_id = s.id and s.status <> 'final' -- the parent is not final
    and not exists (select from app.output u where u.chain = s.chain and u.txid = b.txid))
  and not exists (select from app.output u where u.outgoing_payment_id = s.id and u.txid || ':' || u.vout = s.first_input and u.from_attempt = 1)
union all
select chain, coalesce(address, 'treasury'), 'has ' || kept || ' in outputs, and ' || posted || ' in the books'
from app.ledger_audit where what = 'output';
comment on view audit.outputs is 'an output is spent or reserved by one outgoing payment, from its first input on, and what is unspent adds up to holdings and treasury';
comment on column audit.outputs.output is 'The output (txid:vout), the id of the outgoing payment, or the address; treasury for the treasury.';
comment on column audit.outputs.wrong is 'What is wrong with it.';
