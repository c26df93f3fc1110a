-- A balance changes by something other than a deposit: the debt of a deposit that was lost after a payout had claimed it (app.take_back), and what
-- cancels the debt when the deposit is final again (chain.finalise_deposits). The next payout claims adjustments with the deposits.
--
-- The balance and the reason of the change are written together; the caller posts the movement.
-- Locks: the pair's (app.lock_pair).

create or replace function app.adjust(d app.deposit, more numeric, why text) returns void
language plpgsql set search_path = pg_catalog as $$
begin
  perform app.lock_pair(d.merchant_id, d.chain, d.token);
  insert into app.adjustment (merchant_id, chain, token, amount, deposit_id, reason) values (d.merchant_id, d.chain, d.token, more, d.id, why);
  insert into app.balance_delta (merchant_id, chain, token, amount, deposit_count) values (d.merchant_id, d.chain, d.token, more, 0);
end $$;
comment on function app.adjust is 'Changes the balance of a deposit''s merchant, chain and token by an amount in base units (below zero: a debt), for one of the reasons of app.adjustment.';
