-- The outputs (Bitcoin) that a transaction can be built from. Read without a lock: a function that reserves some checks again with
-- app.weigh_outputs, under the treasury's lock. Readers: the worker; app.claimed_outputs.
create or replace view app.free_output as
select u.chain, u.txid, u.vout, u.address, u.merchant_id, u.amount from app.output u
where u.outgoing_payment_id is null and u.spent_by is null
  and (u.mature_at is null or u.mature_at <= (select c.head_height from chain.cursor c where c.chain = u.chain));
comment on view app.free_output is 'Outputs that can be spent now: in no outgoing payment, not spent, mature.';
comment on column app.free_output.txid is 'The transaction that made it.';
comment on column app.free_output.vout is 'Its position there.';
comment on column app.free_output.merchant_id is 'The merchant that has the address; null for the treasury''s.';
comment on column app.free_output.amount is 'Amount in base units.';
grant select on app.free_output to sluice_jobs;
