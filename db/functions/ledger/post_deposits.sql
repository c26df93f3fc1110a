-- Posts deposits that became final to the ledger, all of one finalisation as one posting. chain.finalise_deposits calls this, with chain.cursor
-- locked.
--
-- What arrived for a merchant is owed to it, or is unattributed if it is not credited. What has no merchant arrived at the treasury: a top-up, the
-- operator's own. Tokens that are not supported are not in the ledger: anybody can make one, and claim that any amount of it was moved.
-- Locks: chain.cursor, then rows of app.holding by address and token, and of app.treasury by token.

create or replace function app.post_final_deposits(of_chain text, ids uuid[], of_finalisation bigint) returns void
language plpgsql set search_path = pg_catalog as $$
declare
  posting bigint := nextval('app.ledger_posting');
  at timestamptz := app.posting_time();
begin
  with part as materialized (
    select case when d.merchant_id is null then 'top_up' else 'deposit' end as kind,
      case when d.merchant_id is null then 'treasury' else 'address' end as debited,
      case when d.merchant_id is null then 'operator' when d.credited then 'merchant' else 'unattributed' end as owed_to,
      case when d.credited then d.merchant_id end as merchant_id, case when d.merchant_id is not null then d.address end as address, d.token,
      sum(d.amount) as amount
    from unnest(ids) as i (id) join app.deposit d on d.id = i.id join app.asset a on a.chain = of_chain and a.token = d.token
    group by 1, 2, 3, 4, 5, 6
  ), held as (
    insert into app.holding as h (chain, address, token, merchant_id, amount)
    select of_chain, address, token, merchant_id, amount from part where owed_to = 'merchant' order by address, token
    on conflict (chain, address, token) do update set amount = h.amount + excluded.amount
  ), topped_up as (
    insert into app.treasury as t (chain, token, balance)
    select of_chain, token, amount from part where owed_to = 'operator' order by token
    on conflict (chain, token) do update set balance = t.balance + excluded.balance
  )
  insert into app.ledger_entry (posting, kind, reference, account, chain, token, merchant_id, address, amount, created_at)
  select posting, kind, 'finalisation:' || of_chain || ':' || of_finalisation, debited, of_chain, token, merchant_id, address, amount, at from part
  union all
  select posting, kind, 'finalisation:' || of_chain || ':' || of_finalisation, owed_to, of_chain, token, merchant_id, null, -sum(amount), at
  from part group by kind, owed_to, token, merchant_id;
end $$;
comment on function app.post_final_deposits is 'Posts deposits that became final with this finalisation number, and adds them to what addresses and the treasury hold.';
