-- The parts of /metrics (operations/metrics.sql) about money under way: payouts and their transactions, treasuries, payment requests.

create or replace function app.payout_metrics() returns table (metric text, labels json, value double precision)
language plpgsql stable set search_path = pg_catalog as $$
begin
  return query
    with open_payout as materialized (
      select p.chain, p.status, w.reason as waiting_reason, w.since as waiting_since
      from app.payout p cross join lateral app.why_payout_waits(p) w where p.status not in ('completed', 'failed')
    ), open_outgoing_payment as materialized (
      select s.chain, s.kind, w.reason as waiting_reason, w.since as waiting_since
      from app.outgoing_payment s left join lateral app.why_outgoing_waits(s) w on app.may_wait(s) where s.status <> 'final'
    )
    select 'sluice_payouts_open', json_build_object('chain', c.chain, 'status', s.status), count(o.chain)::double precision
    from app.chain c cross join unnest(array['pending', 'sweeping', 'swept', 'paying']) s (status)
    left join open_payout o on o.chain = c.chain and o.status = s.status group by c.chain, s.status
    union all
    select 'sluice_payouts_failed_total', json_build_object('chain', c.chain), count(p.id) from app.chain c
    left join app.payout p on p.chain = c.chain and p.status = 'failed' group by c.chain
    union all
    select 'sluice_payouts_waiting', json_build_object('chain', o.chain, 'reason', o.waiting_reason), count(*) from open_payout o
    where o.waiting_reason is not null group by o.chain, o.waiting_reason
    union all
    select 'sluice_transactions_open', json_build_object('chain', c.chain, 'kind', k.kind), count(o.chain)
    from app.chain c cross join unnest(array['payout', 'sweep', 'withdrawal', 'cancel', 'fund', 'defund', 'delegate', 'undelegate', 'stake', 'unstake', 'reclaim']) k (kind)
    left join open_outgoing_payment o on o.chain = c.chain and o.kind = k.kind group by c.chain, k.kind
    union all
    select 'sluice_transactions_waiting', json_build_object('chain', o.chain, 'reason', o.waiting_reason), count(*) from open_outgoing_payment o
    where o.waiting_reason is not null group by o.chain, o.waiting_reason
    union all
    select 'sluice_payout_oldest_wait_seconds', json_build_object('chain', w.chain, 'reason', w.waiting_reason),
      extract(epoch from clock_timestamp() - min(w.waiting_since))::double precision
    from (select o.chain, o.waiting_reason, o.waiting_since from open_payout o
      union all select o.chain, o.waiting_reason, o.waiting_since from open_outgoing_payment o) w
    where w.waiting_reason is not null group by w.chain, w.waiting_reason
    union all
    select m.metric, json_build_object('chain', a.chain, 'token', a.token), analytics.coins(m.value, a.decimals)::double precision
    from app.asset a left join app.treasury t on t.chain = a.chain and t.token = a.token
    cross join lateral (values
      ('sluice_treasury_balance', coalesce(t.balance, 0)), ('sluice_treasury_reserved', coalesce(t.reserved, 0)),
      ('sluice_treasury_operator_funds', app.operator_funds(a.chain, a.token))) m (metric, value);
end $$;
comment on function app.payout_metrics is 'Payouts and outgoing payments under way, by what they wait for, those that failed, and what treasuries hold (in coins).';


-- Underpaid and expired requests stay for ever, so their number only grows. It says nothing about open requests, so they are left out.
create or replace function app.payment_metrics() returns table (metric text, labels json, value double precision)
language sql stable set search_path = pg_catalog as $$
  select 'sluice_payment_requests_open', json_build_object('chain', c.chain, 'status', s.status), n.count
  from chain.cursor c cross join unnest(array['awaiting', 'detected']) s (status)
  cross join lateral (select count(*) from app.payment_request r where r.chain = c.chain and r.status = s.status
    and r.status in ('awaiting', 'detected')) n
$$;
comment on function app.payment_metrics is 'Payment requests that are neither paid nor ended.';


create or replace function app.gas_left_days(of_chain text) returns double precision
language sql stable security definer set search_path = pg_catalog as $$
  select (greatest(app.operator_funds(of_chain, app.native_token(of_chain)), 0) / nullif(greatest(-sum(e.amount), 0), 0) * 7)::double precision
  from app.ledger_entry e
  where e.account = 'treasury' and e.kind in ('network_fee', 'fund', 'defund') and e.chain = of_chain and e.created_at > now() - interval '7 days'
$$;
comment on function app.gas_left_days is 'How many days the operator''s own native coins in a treasury last, at the network fees of the last 7 days, and the gas that was sent to addresses; null if there were none.';

