-- What follows for outputs when an outgoing payment (app.outgoing_payment) is final. app.finish_outgoing_payments calls it, once for each payment,
-- before the network fee is posted. It replaces app.finish_sweep, because every transaction with inputs from deposit addresses is a sweep, too.
--
-- Promises: inputs from deposit addresses are posted as swept, the change is the treasury's, and inputs that only another attempt had are free
-- again. Of a transaction that is no attempt of ours only the spent outputs are known, so nothing is posted for it.
-- Locks: chain.cursor, payout and treasury, which the caller holds; holdings in the order of their addresses.

create or replace function app.finish_outputs(s app.outgoing_payment) returns void
language plpgsql set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
declare
  swept numeric;
  posting bigint := nextval('app.ledger_posting');
begin
  update app.output u set spent_by = i.txid
  from chain.confirmed_tx i
  where u.outgoing_payment_id = s.id and u.spent_by is null and i.chain = u.chain and i.conflict_key = u.txid || ':' || u.vout
    and (i.txid = s.txid or not exists (select from custody.journal j where j.txid = i.txid)); -- other attempts: outgoing/second_payments.sql
  update app.output u set outgoing_payment_id = null, from_attempt = null where u.outgoing_payment_id = s.id and u.spent_by is null;
  if s.outcome = 'conflicted' then return; end if;
  insert into app.output (chain, txid, vout, address, amount)
  select t.chain, t.txid, t.output_index, t.recipient, t.amount from chain.transfer t
  where t.id in (s.chain || ':' || s.txid || ':0', s.chain || ':' || s.txid || ':1') and t.recipient = app.treasury_address(s.chain)
  on conflict do nothing;

  with part as materialized (
    select u.address, u.merchant_id, sum(u.amount) as amount from app.output u
    where u.outgoing_payment_id = s.id and u.spent_by = s.txid and u.merchant_id is not null group by u.address, u.merchant_id
  ), held as (
    insert into app.holding as h (chain, address, token, merchant_id, amount)
    select s.chain, address, s.token, merchant_id, -amount from part order by address
    on conflict (chain, address, token) do update set amount = h.amount + excluded.amount
  ), posted as (
    insert into app.ledger_entry (posting, kind, reference, account, chain, token, merchant_id, address, amount)
    select posting, 'sweep', s.id::text, 'address', s.chain, s.token, merchant_id, address, -amount from part
    union all
    select posting, 'sweep', s.id::text, 'treasury', s.chain, s.token, merchant_id, null, sum(amount) from part group by merchant_id
  )
  select sum(amount) into swept from part;
  if swept is null then return; end if;
  perform app.add_treasury(s.chain, s.token, swept, 0);
  perform app.add_share(s.chain, s.token, s.merchant_id, swept, 0);
end $$;
comment on function app.finish_outputs is 'Marks the outputs that a final outgoing payment spent, frees the others, adds the change, and posts what was swept.';

