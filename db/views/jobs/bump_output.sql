-- The inputs of a bump (CPFP) until its parent is final: only then are they in app.output, reserved for it. The worker builds the child from both.
create or replace view app.bump_output as
select b.spend_id, u.chain, u.txid, u.output_index as vout, s.merchant_id, u.amount, b.parent_vsize
from app.bump b join app.spend s on s.id = b.spend_id
cross join lateral unnest(b.outputs) as i (outpoint)
join chain.unmined u on u.id = s.chain || ':' || i.outpoint
where s.status <> 'final' and not exists (select from app.output o where o.chain = u.chain and o.txid = u.txid and o.vout = u.output_index);
comment on view app.bump_output is 'Outputs that a bump under way spends, as long as they are not final: a child that pays for its unconfirmed parent.';
comment on column app.bump_output.spend_id is 'The bump, a sweep (app.spend).';
comment on column app.bump_output.chain is 'Chain code.';
comment on column app.bump_output.txid is 'The transaction that made it: the parent.';
comment on column app.bump_output.vout is 'Its position there.';
comment on column app.bump_output.merchant_id is 'The merchant whose address it is; null for the treasury''s.';
comment on column app.bump_output.amount is 'Amount in base units.';
comment on column app.bump_output.parent_vsize is 'Size of the parent in virtual bytes.';
grant select on app.bump_output to sluice_jobs;
