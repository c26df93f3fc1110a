-- The inputs of a CPFP child until its parent is final. From then on they are in app.output, reserved for it. The worker builds the child from both.
create or replace view app.cpfp_output as
select b.outgoing_payment_id, u.chain, u.txid, u.output_index as vout, s.merchant_id, u.amount, b.parent_vsize
from app.cpfp b join app.outgoing_payment s on s.id = b.outgoing_payment_id
cross join lateral unnest(b.outputs) as i (outpoint)
join chain.unconfirmed u on u.id = s.chain || ':' || i.outpoint
where s.status <> 'final' and not exists (select from app.output o where o.chain = u.chain and o.txid = u.txid and o.vout = u.output_index);
comment on view app.cpfp_output is 'Outputs that a CPFP child under way spends, while they are not final; the child pays for its unconfirmed parent.';
comment on column app.cpfp_output.outgoing_payment_id is 'The CPFP child, a sweep (app.outgoing_payment).';
comment on column app.cpfp_output.txid is 'The transaction that made it: the parent.';
comment on column app.cpfp_output.vout is 'Its position there.';
comment on column app.cpfp_output.merchant_id is 'The merchant that has the address; null for the treasury''s.';
comment on column app.cpfp_output.amount is 'Amount in base units.';
comment on column app.cpfp_output.parent_vsize is 'Size of the parent in virtual bytes.';
grant select on app.cpfp_output to sluice_jobs;
