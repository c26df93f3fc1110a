-- What analysts and operators' tools read of payouts, the ledger and the treasuries: views with stable names, and metrics.
--
-- Readers: sluice_analyst (docs/database.md), the API's /metrics. Writer: nobody; the rules are those of 008_analytics.sql.

create view analytics.payouts with (security_barrier) as
select
  app.public_id('pay', p.id) as payout_id,
  app.public_id('mer', p.merchant_id) as merchant_id, m.name as merchant_name, m.prefix as merchant_prefix,
  p.chain, p.token, p.status,
  analytics.coins(p.gross, a.decimals) as gross, p.fee_bps, analytics.coins(p.fee, a.decimals) as fee, analytics.coins(p.net, a.decimals) as net,
  p.gross as gross_base_units, p.fee as fee_base_units, p.net as net_base_units,
  c.deposit_count, p.sweep_first, p.address, p.txid,
  analytics.coins(p.network_fee, n.decimals) as network_fee, n.token as network_fee_token,
  p.error_code, p.waiting_reason, p.created_at, p.finished_at, round(extract(epoch from p.finished_at - p.created_at), 3) as seconds_to_finish
from app.payout p
join app.merchant m on m.id = p.merchant_id
join app.asset a on a.chain = p.chain and a.token = p.token
join app.chain k on k.chain = p.chain
join app.asset n on n.chain = p.chain and n.token = k.native_token
left join app.claim c on c.payout_id = p.id and c.kind = 'claim';
comment on view analytics.payouts is 'One row for each payout, whatever became of it.';
comment on column analytics.payouts.payout_id is 'Id of the payout, as in the API; analytics.deposits.settlement_id names it.';
comment on column analytics.payouts.merchant_id is 'Id of the merchant.';
comment on column analytics.payouts.merchant_name is 'Name of the merchant.';
comment on column analytics.payouts.merchant_prefix is 'The merchant''s account prefix.';
comment on column analytics.payouts.chain is 'Chain code.';
comment on column analytics.payouts.token is 'Token code.';
comment on column analytics.payouts.status is 'pending, sweeping, swept, paying: under way. completed: paid, for ever. failed: nothing was paid, and the deposits are in the balance again.';
comment on column analytics.payouts.gross is 'The balance that it collected, in whole coins, exact.';
comment on column analytics.payouts.fee_bps is 'The merchant''s fee rate when it was requested, in basis points.';
comment on column analytics.payouts.fee is 'Service fee, in whole coins. Earned only once the payout is completed.';
comment on column analytics.payouts.net is 'What is paid, in whole coins: gross minus fee.';
comment on column analytics.payouts.gross_base_units is 'gross as an integer in the smallest unit of the token.';
comment on column analytics.payouts.fee_base_units is 'fee as an integer in the smallest unit of the token.';
comment on column analytics.payouts.net_base_units is 'net as an integer in the smallest unit of the token.';
comment on column analytics.payouts.deposit_count is 'Number of deposits that it collected.';
comment on column analytics.payouts.sweep_first is 'True if the merchant asked for every address of it to be swept before anything was paid.';
comment on column analytics.payouts.address is 'Where it is paid to.';
comment on column analytics.payouts.txid is 'The transaction that paid it; null until it is completed.';
comment on column analytics.payouts.network_fee is 'Network fees of the payment and of the sweeps made for it, in whole native coins. The operator bears them.';
comment on column analytics.payouts.network_fee_token is 'The native coin of the chain, in which network_fee is counted.';
comment on column analytics.payouts.error_code is 'Why it failed; null unless it did.';
comment on column analytics.payouts.waiting_reason is 'What keeps it from its next step now; null while it moves.';
comment on column analytics.payouts.created_at is 'When the merchant requested it.';
comment on column analytics.payouts.finished_at is 'When it was completed or failed; null while it is under way.';
comment on column analytics.payouts.seconds_to_finish is 'Seconds from created_at to finished_at.';

create view analytics.sweeps with (security_barrier) as
select
  s.id as sweep_id, app.public_id('mer', s.merchant_id) as merchant_id, m.name as merchant_name, m.prefix as merchant_prefix,
  app.public_id('pay', s.payout_id) as payout_id, s.chain, s.token, s.source as address,
  analytics.coins(coalesce(t.amount, s.amount), a.decimals) as amount, coalesce(t.amount, s.amount) as amount_base_units,
  coalesce(s.outcome, s.status) as state, s.txid, analytics.coins(s.fee_paid, n.decimals) as network_fee, n.token as network_fee_token,
  s.created_at, s.final_at
from app.spend s
left join app.merchant m on m.id = s.merchant_id
join app.asset a on a.chain = s.chain and a.token = s.token
join app.chain k on k.chain = s.chain
join app.asset n on n.chain = s.chain and n.token = k.native_token
left join app.outbound_tx t on t.chain = s.chain and t.txid = s.txid
where s.kind = 'sweep';
comment on view analytics.sweeps is 'One row for each sweep of a user''s address to the treasury.';
comment on column analytics.sweeps.sweep_id is 'Id of the sweep.';
comment on column analytics.sweeps.merchant_id is 'Id of the merchant whose user''s address it is.';
comment on column analytics.sweeps.merchant_name is 'Name of the merchant.';
comment on column analytics.sweeps.merchant_prefix is 'The merchant''s account prefix.';
comment on column analytics.sweeps.payout_id is 'Id of the payout that it was made for; null for one that was made without.';
comment on column analytics.sweeps.chain is 'Chain code.';
comment on column analytics.sweeps.token is 'Token code.';
comment on column analytics.sweeps.address is 'The address that was swept.';
comment on column analytics.sweeps.amount is 'What it moves, in whole coins, exact; 0 if it was cancelled.';
comment on column analytics.sweeps.amount_base_units is 'The same amount as an integer in the smallest unit of the token.';
comment on column analytics.sweeps.state is 'allocated, live: under way. done: the money is in the treasury. reverted, cancelled, displaced: over, and nothing was moved.';
comment on column analytics.sweeps.txid is 'The final transaction; null while it is under way.';
comment on column analytics.sweeps.network_fee is 'What it cost, in whole native coins; null while it is under way. The operator bears it.';
comment on column analytics.sweeps.network_fee_token is 'The native coin of the chain, in which network_fee is counted.';
comment on column analytics.sweeps.created_at is 'When it was begun.';
comment on column analytics.sweeps.final_at is 'When it was final; null while it is under way.';

create view analytics.ledger with (security_barrier) as
select
  e.id as entry_id, e.posting, e.kind, e.reference, e.account, e.chain, e.token,
  app.public_id('mer', e.merchant_id) as merchant_id, m.name as merchant_name, m.prefix as merchant_prefix, e.address,
  analytics.coins(e.amount, a.decimals) as amount, e.amount as amount_base_units, e.created_at
from app.ledger_entry e
left join app.merchant m on m.id = e.merchant_id
left join app.asset a on a.chain = e.chain and a.token = e.token;
comment on view analytics.ledger is 'Every movement of money, in double entry: the entries of one posting add up to zero for each token.';
comment on column analytics.ledger.entry_id is 'Order of insertion.';
comment on column analytics.ledger.posting is 'The movement that the entry is a part of.';
comment on column analytics.ledger.kind is 'deposit (deposits became final), top_up (the treasury was paid), reorg (a final deposit was taken back), claim and release (of a payout), payout, sweep, withdrawal, network_fee.';
comment on column analytics.ledger.reference is 'What caused it: promotion:<chain>:<number> for deposits, or the UUID of the deposit, payout or transaction.';
comment on column analytics.ledger.account is 'address: what deposit addresses hold. treasury: what the treasury holds. merchant: what merchants are owed. payout: claimed by payouts under way. fees: service fees earned. network: network fees paid. operator: top-ups less withdrawals. unattributed: value that counts for nobody.';
comment on column analytics.ledger.chain is 'Chain code.';
comment on column analytics.ledger.token is 'Token code; the contract address where the token is not supported.';
comment on column analytics.ledger.merchant_id is 'Id of the merchant that the movement belongs to; null for the operator''s own and for unattributed value.';
comment on column analytics.ledger.merchant_name is 'Name of the merchant.';
comment on column analytics.ledger.merchant_prefix is 'The merchant''s account prefix.';
comment on column analytics.ledger.address is 'The deposit address, for the account address.';
comment on column analytics.ledger.amount is 'Debit (positive) or credit (negative), in whole coins, exact; null where the token is not supported. Assets and costs are debits, what is owed and earned are credits.';
comment on column analytics.ledger.amount_base_units is 'The same amount as an integer in the smallest unit of the token.';
comment on column analytics.ledger.created_at is 'When it was posted.';

create view analytics.merchant_totals with (security_barrier) as
select
  app.public_id('mer', e.merchant_id) as merchant_id, m.name as merchant_name, m.prefix as merchant_prefix, e.chain, e.token,
  analytics.coins(e.received, a.decimals) as received, analytics.coins(e.fees_earned, a.decimals) as fees_earned,
  analytics.coins(e.paid_out, a.decimals) as paid_out, analytics.coins(e.under_way + e.balance, a.decimals) as owed,
  analytics.coins(e.under_way, a.decimals) as under_way, analytics.coins(e.network_costs, a.decimals) as network_costs
from (
  select merchant_id, chain, token,
    -coalesce(sum(amount) filter (where account = 'merchant' and kind in ('deposit', 'reorg')), 0) as received,
    -coalesce(sum(amount) filter (where account = 'fees'), 0) as fees_earned,
    -coalesce(sum(amount) filter (where account = 'treasury' and kind = 'payout'), 0) as paid_out,
    -coalesce(sum(amount) filter (where account = 'payout'), 0) as under_way,
    -coalesce(sum(amount) filter (where account = 'merchant'), 0) as balance,
    coalesce(sum(amount) filter (where account = 'network'), 0) as network_costs
  from app.ledger_entry where merchant_id is not null group by merchant_id, chain, token
) e
join app.merchant m on m.id = e.merchant_id
join app.asset a on a.chain = e.chain and a.token = e.token;
comment on view analytics.merchant_totals is 'What each merchant received, was paid and is owed since the beginning, for each chain and token: received = fees_earned + paid_out + owed. Computed from the ledger.';
comment on column analytics.merchant_totals.merchant_id is 'Id of the merchant.';
comment on column analytics.merchant_totals.merchant_name is 'Name of the merchant.';
comment on column analytics.merchant_totals.merchant_prefix is 'The merchant''s account prefix.';
comment on column analytics.merchant_totals.chain is 'Chain code.';
comment on column analytics.merchant_totals.token is 'Token code.';
comment on column analytics.merchant_totals.received is 'Final deposits of its users, in whole coins, exact, less those that an operator took back.';
comment on column analytics.merchant_totals.fees_earned is 'Service fees of completed payouts.';
comment on column analytics.merchant_totals.paid_out is 'Net of completed payouts.';
comment on column analytics.merchant_totals.owed is 'The balance and the gross of payouts under way; below zero for a debt.';
comment on column analytics.merchant_totals.under_way is 'The part of owed that payouts have claimed.';
comment on column analytics.merchant_totals.network_costs is 'Network fees of its payouts and sweeps, of all tokens. They are paid in the native coin, so they stand in the row of that coin alone; the operator bears them.';

create view analytics.treasury with (security_barrier) as
select
  a.chain, a.token, o.address,
  analytics.coins(coalesce(t.balance, 0), a.decimals) as balance, coalesce(t.balance, 0) as balance_base_units,
  analytics.coins(coalesce(t.reserved, 0), a.decimals) as reserved,
  analytics.coins(coalesce(t.balance - t.reserved, 0) - coalesce(s.promised, 0), a.decimals) as operator_funds, -- app.operator_funds
  analytics.coins(coalesce(s.merchants, 0), a.decimals) as merchants, analytics.coins(coalesce(s.advanced, 0), a.decimals) as advanced
from app.asset a
join app.chain k on k.chain = a.chain
left join custody.address o on o.family = k.family and o.purpose = 'treasury'
left join app.treasury t on t.chain = a.chain and t.token = a.token
left join (
  select chain, token, sum(greatest(amount, 0)) as merchants, -sum(least(amount, 0)) as advanced, sum(greatest(amount - reserved, 0)) as promised
  from app.treasury_share group by chain, token
) s on s.chain = a.chain and s.token = a.token;
comment on view analytics.treasury is 'What the treasury of each chain holds now, and whose it is.';
comment on column analytics.treasury.chain is 'Chain code.';
comment on column analytics.treasury.token is 'Token code.';
comment on column analytics.treasury.address is 'Its address; null before custody made it.';
comment on column analytics.treasury.balance is 'What it holds by the ledger, in whole coins, exact: final transactions alone.';
comment on column analytics.treasury.balance_base_units is 'The same as an integer in the smallest unit of the token.';
comment on column analytics.treasury.reserved is 'The part that is promised to transactions under way: amounts and highest network fees.';
comment on column analytics.treasury.operator_funds is 'The operator''s own money in it that is promised to nothing: fees earned and top-ups, less withdrawals, network fees and what is advanced.';
comment on column analytics.treasury.merchants is 'What was swept from merchants'' addresses and is not paid out yet.';
comment on column analytics.treasury.advanced is 'What was paid to merchants before their addresses were swept.';

grant select on analytics.payouts, analytics.sweeps, analytics.ledger, analytics.merchant_totals, analytics.treasury to sluice_analyst;

-- As in 007_api.sql, with labels, and besides: payouts, their transactions and the treasuries.
create index payout_failed on app.payout (chain) where status = 'failed';
drop function app.metrics();
create function app.metrics() returns table (metric text, labels json, value double precision)
language plpgsql stable security definer set search_path = pg_catalog as $$
begin
  return query
    select m.metric, json_build_object('chain', c.chain), m.value from chain.cursor c cross join lateral (values
      ('sluice_chain_head_height', c.head_height::double precision),
      ('sluice_chain_final_height', c.final_height::double precision),
      ('sluice_chain_head_age_seconds', extract(epoch from clock_timestamp() - c.head_time)),
      ('sluice_chain_halted', (c.halted_at is not null)::int::double precision)) m (metric, value)
    union all
    select 'sluice_deposits_pending', json_build_object('chain', c.chain), count(d.id) from chain.cursor c
    left join app.deposit d on d.chain = c.chain and d.status = 'pending' group by c.chain
    union all
    select 'sluice_incidents_open', json_build_object('chain', c.chain), count(i.id) from chain.cursor c
    left join app.incident i on i.chain = c.chain and i.resolved_at is null group by c.chain
    union all
    select 'sluice_oldest_due_job_age_seconds', '{}', app.oldest_due_job_age_seconds()
    union all
    select 'sluice_webhook_deliveries_pending', '{}', count(*) from app.delivery d where d.status = 'pending'
    union all
    select 'sluice_webhook_endpoints_failing', '{}', count(*) from app.webhook_endpoint w where w.failing_since is not null and w.deleted_at is null
    union all
    select * from app.payout_metrics();
end $$;
comment on function app.metrics is 'What /metrics says about the database, by Prometheus name.';

create function app.payout_metrics() returns table (metric text, labels json, value double precision)
language plpgsql stable set search_path = pg_catalog as $$
begin
  return query
    with open_payout as materialized (
      select p.chain, p.status, p.waiting_reason, p.waiting_since from app.payout p where p.status not in ('completed', 'failed')
    ), open_spend as materialized (
      select s.chain, s.kind, s.waiting_reason, s.waiting_since from app.spend s where s.status <> 'final'
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
    from app.chain c cross join unnest(array['payout', 'sweep', 'withdrawal']) k (kind)
    left join open_spend o on o.chain = c.chain and o.kind = k.kind group by c.chain, k.kind
    union all
    select 'sluice_transactions_waiting', json_build_object('chain', o.chain, 'reason', o.waiting_reason), count(*) from open_spend o
    where o.waiting_reason is not null group by o.chain, o.waiting_reason
    union all
    select 'sluice_payout_oldest_wait_seconds', json_build_object('chain', c.chain),
      coalesce(extract(epoch from clock_timestamp() - least(
        (select min(o.waiting_since) from open_payout o where o.chain = c.chain),
        (select min(o.waiting_since) from open_spend o where o.chain = c.chain))), 0)::double precision
    from app.chain c
    union all
    select m.metric, json_build_object('chain', a.chain, 'token', a.token), analytics.coins(m.value, a.decimals)::double precision
    from app.asset a left join app.treasury t on t.chain = a.chain and t.token = a.token
    cross join lateral (values
      ('sluice_treasury_balance', coalesce(t.balance, 0)), ('sluice_treasury_reserved', coalesce(t.reserved, 0)),
      ('sluice_treasury_operator_funds', app.operator_funds(a.chain, a.token))) m (metric, value);
end $$;

grant execute on function app.metrics to sluice_api;
