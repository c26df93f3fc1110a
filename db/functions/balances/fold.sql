-- Adds changes of balances to the balances. The jobs worker calls this each second, batch after batch, until a batch was not full.
--
-- Each change is a row of its own (app.balance_delta), so two deposits of one merchant never wait for each other. Readers add the deltas that are
-- not folded yet (app.balance_now), so the balance is exact at every moment.
-- Locks: the deltas that it folds, skipping those that another caller folds; then the balances, in the order of their key.

create or replace function app.fold_balances(batch int default 20000) returns int
language plpgsql security definer set search_path = pg_catalog as $$
declare folded int;
begin
  if not exists (select from app.balance_delta) then return 0; end if;
  with gone as (
    delete from app.balance_delta where id in (select id from app.balance_delta order by id limit batch for update skip locked)
    returning merchant_id, chain, token, amount, deposit_count, held_back, held_back_count
  ), summed as (
    select merchant_id, chain, token, sum(amount) as amount, sum(deposit_count) as deposit_count, sum(held_back) as held_back,
      sum(held_back_count) as held_back_count, count(*) as deltas
    from gone group by merchant_id, chain, token order by merchant_id, chain, token
  ), stored as (
    insert into app.balance as b (merchant_id, chain, token, amount, deposit_count, held_back, held_back_count)
    select merchant_id, chain, token, amount, deposit_count, held_back, held_back_count from summed
    on conflict (merchant_id, chain, token) do update
      set amount = b.amount + excluded.amount, deposit_count = b.deposit_count + excluded.deposit_count,
        held_back = b.held_back + excluded.held_back, held_back_count = b.held_back_count + excluded.held_back_count
  )
  select coalesce(sum(deltas), 0) into folded from summed;
  return folded;
end $$;
comment on function app.fold_balances is 'Adds balance deltas to balances, the oldest first, at most batch of them; returns how many. Safe to run at any time and in several places.';
grant execute on function app.fold_balances to sluice_jobs;
