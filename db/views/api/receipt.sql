-- What counts for a payment request: a deposit at the request's address, on its chain, in its token, credited and not
-- reorged. The status of the request, the API, analysts and the audit all use this one definition.
--
-- What is in no block is late only once the chain was read up to that time: a block that was not read yet may hold it.
-- The time is that of the statement, because a volatile function would keep the planner from looking into this view.
-- Protocol income is left out, even if an operator credited it: nobody paid the request with it.
create or replace view app.receipt as
select d.payment_request_id, d.id as deposit_id, d.seq, d.txid, d.output_index, d.amount, d.status, d.block_height, d.settlement_id,
  d.finalisation, d.created_at, d.finalised_at, d.came_at > least(r.expires_at, r.cancelled_at)
    or coalesce(d.mined_at, least(statement_timestamp(), k.head_time)) > least(r.expires_at, r.cancelled_at) + r.late_after as late,
  d.merchant_id, r.external_id, d.chain, d.token, d.sender, d.address, d.mined_at is null as is_unmined
from app.payment_request r
join app.deposit d on d.payment_request_id = r.id and d.chain = r.chain and d.token = r.token
left join chain.cursor k on k.chain = r.chain
where d.credited and d.status <> 'reorged' and not app.is_from_protocol(d.transfer_kind, d.output_index, d.token);
comment on view app.receipt is 'What was paid for payment requests: deposits at their addresses, in the requested token, that are on the chain, or on their way into a block.';
comment on column app.receipt.payment_request_id is 'The payment request.';
comment on column app.receipt.seq is 'Order in which deposits were first seen.';
comment on column app.receipt.output_index is 'Position inside the transaction.';
comment on column app.receipt.amount is 'Amount in base units.';
comment on column app.receipt.status is 'pending or final.';
comment on column app.receipt.block_height is 'Block that holds it; null while it is in none.';
comment on column app.receipt.settlement_id is 'The payout that collected it; null until then.';
comment on column app.receipt.finalisation is 'Number, on its chain, of the time at which it became final; null before.';
comment on column app.receipt.created_at is 'When it was first seen.';
comment on column app.receipt.finalised_at is 'When it became final.';
comment on column app.receipt.late is 'True if it was neither seen nor mined before the request expired or was cancelled, or was in no block for too long afterwards (payment_request.late_after).';
comment on column app.receipt.external_id is 'The merchant''s reference of the payment request.';
comment on column app.receipt.sender is 'Where the value came from.';
comment on column app.receipt.address is 'The address of the payment request.';
comment on column app.receipt.is_unmined is 'True if no block has held it yet.';
grant select on app.receipt to sluice_api;
