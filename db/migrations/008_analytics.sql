-- What data analysts read: views with stable names over the tables of app and chain.
--
-- Reader: sluice_analyst, through any SQL client (docs/database.md). Writer: nobody; the views run with the rights of their owner, so the
-- analyst needs none on the tables below them.
--
-- Invariants: an amount is the exact decimal number of coins (numeric, no rounding), and ..._base_units beside it the integer that the
-- chain knows; a time is an instant (timestamptz) and a day is a day in UTC, whatever time zone the session has; ids are those of the API;
-- no secret, key, webhook address or hash of one is reachable.

create function analytics.coins(amount_base_units numeric, decimals int) returns numeric
language sql immutable parallel safe
return trim_scale(amount_base_units * ('1e-' || decimals::text)::numeric);
comment on function analytics.coins is 'An amount in base units as the exact number of whole coins of a token with so many decimals; null if they are not known.';

create view analytics.deposits with (security_barrier) as
select
  app.public_id('dep', d.id) as deposit_id,
  app.public_id('mer', d.merchant_id) as merchant_id, m.name as merchant_name, m.prefix as merchant_prefix,
  app.public_id('usr', d.user_id) as user_id, u.external_ref as user_external_ref,
  d.chain, d.token, analytics.coins(d.amount, a.decimals) as amount, d.amount as amount_base_units,
  d.status, d.sender, d.address, d.txid, d.output_index, d.block_height, d.block_hash,
  t.block_time, d.created_at, d.finalised_at, round(extract(epoch from d.finalised_at - t.block_time), 3) as seconds_to_final,
  app.public_id('pay', d.settlement_id) as settlement_id
from app.deposit d
join app.merchant m on m.id = d.merchant_id
join app.user u on u.id = d.user_id
join app.asset a on a.chain = d.chain and a.token = d.token
left join chain.transfer t
  on t.id = d.chain || ':' || d.txid || ':' || d.output_index and t.recipient = d.address and t.block_hash = d.block_hash
where d.credited;
comment on view analytics.deposits is 'One row for each deposit that counts, or will count, for a merchant. What arrived on a chain or in a token that was not asked for is in analytics.unattributed.';
comment on column analytics.deposits.deposit_id is 'Id of the deposit, as in the API.';
comment on column analytics.deposits.merchant_id is 'Id of the merchant.';
comment on column analytics.deposits.merchant_name is 'Name of the merchant.';
comment on column analytics.deposits.merchant_prefix is 'The merchant''s account prefix: short, unique, never changes.';
comment on column analytics.deposits.user_id is 'Id of the end user whose address it is, as in the API.';
comment on column analytics.deposits.user_external_ref is 'The merchant''s own id of that user.';
comment on column analytics.deposits.chain is 'Chain code, such as ETH.';
comment on column analytics.deposits.token is 'Token code, such as USDC. Amounts of different tokens cannot be added up.';
comment on column analytics.deposits.amount is 'Amount in whole coins of the token, exact.';
comment on column analytics.deposits.amount_base_units is 'The same amount as an integer in the smallest unit of the token (wei, for ether).';
comment on column analytics.deposits.status is 'pending: seen in a block that may still leave the chain. final: counts for the merchant. reorged: its block left the chain, nothing was received.';
comment on column analytics.deposits.sender is 'Address that the value came from.';
comment on column analytics.deposits.address is 'The user''s address that it arrived at.';
comment on column analytics.deposits.txid is 'Transaction id on the chain.';
comment on column analytics.deposits.output_index is 'Position inside the transaction; one transaction can hold several deposits.';
comment on column analytics.deposits.block_height is 'Height of the block that holds it, or last held it.';
comment on column analytics.deposits.block_hash is 'Hash of that block.';
comment on column analytics.deposits.block_time is 'Timestamp of that block; null while no block of the chain holds the deposit.';
comment on column analytics.deposits.created_at is 'When Sluice first saw it. Later than block_time by the lag of the indexer.';
comment on column analytics.deposits.finalised_at is 'When it became final; null if it is not.';
comment on column analytics.deposits.seconds_to_final is 'Seconds from block_time to finalised_at; null where one of them is.';
comment on column analytics.deposits.settlement_id is 'Id of the payout that collected it, as in the API; null until then.';

-- The fee is that of GET /v1/balances. By div, which is exact: numeric division rounds to whole units once the quotient has 16 digits.
create view analytics.balances with (security_barrier) as
select
  app.public_id('mer', b.merchant_id) as merchant_id, m.name as merchant_name, m.prefix as merchant_prefix, b.chain, b.token,
  analytics.coins(b.amount, a.decimals) as gross, b.amount as gross_base_units,
  m.fee_bps, analytics.coins(f.fee, a.decimals) as fee, analytics.coins(b.amount - f.fee, a.decimals) as net, b.deposit_count
from app.balance_now b
join app.merchant m on m.id = b.merchant_id
join app.asset a on a.chain = b.chain and a.token = b.token
cross join lateral (select div(greatest(b.amount, 0) * m.fee_bps, 10000) as fee) f;
comment on view analytics.balances is 'What each merchant could be paid out now, for each chain and token: the final deposits that no payout has collected. Exact at every moment; pairs without any are left out.';
comment on column analytics.balances.merchant_id is 'Id of the merchant.';
comment on column analytics.balances.merchant_name is 'Name of the merchant.';
comment on column analytics.balances.merchant_prefix is 'The merchant''s account prefix.';
comment on column analytics.balances.chain is 'Chain code.';
comment on column analytics.balances.token is 'Token code.';
comment on column analytics.balances.gross is 'Sum of the deposits, in whole coins, exact.';
comment on column analytics.balances.gross_base_units is 'The same sum as an integer in the smallest unit of the token.';
comment on column analytics.balances.fee_bps is 'The merchant''s service fee in basis points (1/100 of a percent).';
comment on column analytics.balances.fee is 'The fee that a payout of the whole balance would keep, in whole coins; rounded down to the smallest unit, none on a balance below zero.';
comment on column analytics.balances.net is 'gross minus fee: what such a payout would send.';
comment on column analytics.balances.deposit_count is 'Number of deposits in the balance.';

create view analytics.daily_volume with (security_barrier) as
select
  (d.created_at at time zone 'UTC')::date as day,
  app.public_id('mer', m.id) as merchant_id, m.name as merchant_name, m.prefix as merchant_prefix, d.chain, d.token,
  count(*) as deposit_count,
  analytics.coins(sum(d.amount), a.decimals) as amount, sum(d.amount) as amount_base_units,
  count(*) filter (where d.status = 'final') as final_count,
  analytics.coins(coalesce(sum(d.amount) filter (where d.status = 'final'), 0), a.decimals) as final_amount
from app.deposit d
join app.merchant m on m.id = d.merchant_id
join app.asset a on a.chain = d.chain and a.token = d.token
where d.credited and d.status <> 'reorged'
group by (d.created_at at time zone 'UTC')::date, m.id, d.chain, d.token, a.decimals;
comment on view analytics.daily_volume is 'Deposits of each UTC day by merchant, chain and token. Reorged deposits do not count; days without deposits have no row.';
comment on column analytics.daily_volume.day is 'The day, in UTC, on which Sluice first saw the deposits (created_at). A deposit never moves to another day.';
comment on column analytics.daily_volume.merchant_id is 'Id of the merchant.';
comment on column analytics.daily_volume.merchant_name is 'Name of the merchant.';
comment on column analytics.daily_volume.merchant_prefix is 'The merchant''s account prefix.';
comment on column analytics.daily_volume.chain is 'Chain code.';
comment on column analytics.daily_volume.token is 'Token code.';
comment on column analytics.daily_volume.deposit_count is 'Number of deposits, pending and final.';
comment on column analytics.daily_volume.amount is 'Their sum in whole coins, exact.';
comment on column analytics.daily_volume.amount_base_units is 'The same sum as an integer in the smallest unit of the token.';
comment on column analytics.daily_volume.final_count is 'How many of them are final.';
comment on column analytics.daily_volume.final_amount is 'The sum of those, in whole coins; the rest is still pending.';

-- Not over analytics.deposits: a condition on the day would not get through that view's barrier.
create view analytics.time_to_finality with (security_barrier) as
select
  (d.finalised_at at time zone 'UTC')::date as day, d.chain, count(*) as deposit_count,
  min(s.seconds) as seconds_min,
  percentile_disc(0.5) within group (order by s.seconds) as seconds_p50,
  percentile_disc(0.95) within group (order by s.seconds) as seconds_p95,
  max(s.seconds) as seconds_max
from app.deposit d
join chain.transfer t
  on t.id = d.chain || ':' || d.txid || ':' || d.output_index and t.recipient = d.address and t.block_hash = d.block_hash
cross join lateral (select round(extract(epoch from d.finalised_at - t.block_time), 3) as seconds) s
where d.credited and d.status = 'final'
group by (d.finalised_at at time zone 'UTC')::date, d.chain;
comment on view analytics.time_to_finality is 'How long deposits took from the timestamp of their block until they were final, for each chain and UTC day. For other groups and longer times take percentiles of analytics.deposits.seconds_to_final: percentiles of days cannot be averaged.';
comment on column analytics.time_to_finality.day is 'The day, in UTC, on which the deposits became final.';
comment on column analytics.time_to_finality.chain is 'Chain code.';
comment on column analytics.time_to_finality.deposit_count is 'Number of deposits.';
comment on column analytics.time_to_finality.seconds_min is 'The shortest time, in seconds.';
comment on column analytics.time_to_finality.seconds_p50 is 'The median: half of the deposits took at most this long, in seconds.';
comment on column analytics.time_to_finality.seconds_p95 is '95 of 100 deposits took at most this long, in seconds.';
comment on column analytics.time_to_finality.seconds_max is 'The longest time, in seconds. High after a standstill: what the indexer lagged is part of it.';

create view analytics.chain_lag with (security_barrier) as
select
  c.chain, k.head_height, k.head_time, round(extract(epoch from now() - k.head_time), 3) as head_seconds_behind,
  k.final_height, f.time as final_time, round(extract(epoch from now() - f.time), 3) as final_seconds_behind,
  k.head_height - k.final_height as final_blocks_behind,
  k.last_reorg_at, k.last_reorg_depth, k.halted_at is not null as is_halted, k.halted_at
from app.chain c
left join chain.cursor k on k.chain = c.chain
left join chain.block f on f.chain = c.chain and f.height = k.final_height;
comment on view analytics.chain_lag is 'Where each chain stands now, and how far behind. A chain that was never followed has nulls.';
comment on column analytics.chain_lag.chain is 'Chain code.';
comment on column analytics.chain_lag.head_height is 'Height of the newest block that was read.';
comment on column analytics.chain_lag.head_time is 'Timestamp of that block.';
comment on column analytics.chain_lag.head_seconds_behind is 'Seconds since that timestamp. Up to the time between two blocks is normal; more means that the indexer or its node lags.';
comment on column analytics.chain_lag.final_height is 'Height of the newest final block: deposits up to it are final.';
comment on column analytics.chain_lag.final_time is 'Timestamp of that block.';
comment on column analytics.chain_lag.final_seconds_behind is 'Seconds since that timestamp: about how long a deposit takes to become final now.';
comment on column analytics.chain_lag.final_blocks_behind is 'Blocks between the newest final block and the newest block.';
comment on column analytics.chain_lag.last_reorg_at is 'When blocks last left the chain; null if that never happened.';
comment on column analytics.chain_lag.last_reorg_depth is 'How many blocks left the chain then.';
comment on column analytics.chain_lag.is_halted is 'True while the chain stands still until an operator decides about a reorganisation below the final block; null if it was never followed.';
comment on column analytics.chain_lag.halted_at is 'Since when it stands still; null if it does not.';

create view analytics.unattributed with (security_barrier) as
select
  app.public_id('dep', d.id) as deposit_id,
  app.public_id('mer', d.merchant_id) as merchant_id, m.name as merchant_name, m.prefix as merchant_prefix,
  app.public_id('usr', d.user_id) as user_id, u.external_ref as user_external_ref,
  case when a.token is null then 'unsupported_token' when not w.is_provisioned then 'chain_not_requested' else 'enabled_later' end as reason,
  d.chain, d.token, analytics.coins(d.amount, a.decimals) as amount, d.amount as amount_base_units,
  d.status, d.sender, d.address, d.txid, d.output_index, d.block_height, d.created_at, d.finalised_at
from app.deposit d
join app.merchant m on m.id = d.merchant_id
join app.user u on u.id = d.user_id
left join app.address w on w.chain = d.chain and w.address = d.address and w.match_key in (d.address, lower(d.address))
left join app.asset a on a.chain = d.chain and a.token = d.token
where not d.credited;
comment on view analytics.unattributed is 'Value that reached an address of ours and counts for nobody: a token that is not supported, or a chain that the merchant did not ask an address for. Never part of a balance.';
comment on column analytics.unattributed.deposit_id is 'Id of the row; the API does not know it.';
comment on column analytics.unattributed.merchant_id is 'Id of the merchant whose user''s address it is.';
comment on column analytics.unattributed.merchant_name is 'Name of the merchant.';
comment on column analytics.unattributed.merchant_prefix is 'The merchant''s account prefix.';
comment on column analytics.unattributed.user_id is 'Id of the end user whose address it is.';
comment on column analytics.unattributed.user_external_ref is 'The merchant''s own id of that user.';
comment on column analytics.unattributed.reason is 'unsupported_token; chain_not_requested: the merchant has no address of this user on this chain; enabled_later: token and chain are fine now, but were not when it arrived, and nothing is credited afterwards.';
comment on column analytics.unattributed.chain is 'Chain code.';
comment on column analytics.unattributed.token is 'Token code; the contract address where the token is not supported.';
comment on column analytics.unattributed.amount is 'Amount in whole coins; null where the token is not supported, because its decimals are not known.';
comment on column analytics.unattributed.amount_base_units is 'Amount as an integer in the smallest unit of the token.';
comment on column analytics.unattributed.status is 'pending, final or reorged, as of a deposit.';
comment on column analytics.unattributed.sender is 'Address that the value came from.';
comment on column analytics.unattributed.address is 'The user''s address that it arrived at.';
comment on column analytics.unattributed.txid is 'Transaction id on the chain.';
comment on column analytics.unattributed.output_index is 'Position inside the transaction.';
comment on column analytics.unattributed.block_height is 'Height of the block that holds it, or last held it.';
comment on column analytics.unattributed.created_at is 'When Sluice first saw it.';
comment on column analytics.unattributed.finalised_at is 'When it became final; null if it is not.';

grant select on all tables in schema analytics to sluice_analyst;
grant execute on function analytics.coins to sluice_analyst;

-- Guards against a mistake, which the analyst can lift for a session: read only and a statement timeout (001_roles.sql), and no
-- transaction left open, because one that is keeps dead rows from being removed.
alter role sluice_analyst set idle_in_transaction_session_timeout = '60s';
alter role sluice_analyst set timezone = 'UTC';
alter role sluice_analyst set search_path = analytics;
-- Guards that hold: connections and disk are shared with the service.
alter role sluice_analyst connection limit 20;

-- What every role may do in PostgreSQL unless it is taken away: hold an advisory lock, which would stop an indexer, a sequencer or a
-- migration; write large objects; fill the disk with a sort. Only a superuser can take these away; another owner is told by warnings.
do $$
declare
  function_name regprocedure;
begin
  for function_name in
    select oid from pg_proc where pronamespace = 'pg_catalog'::regnamespace
      and proname ~ '^(pg_(try_)?advisory_|lo_(creat|create|from_bytea|import|put|unlink|truncate|truncate64)$|lowrite$)'
    order by oid::regprocedure::text
  loop
    execute format('revoke execute on function %s from public', function_name);
    if function_name::text ~ 'advisory' then
      execute format('grant execute on function %s to sluice_indexer, sluice_api, sluice_jobs, sluice_custody', function_name);
    end if;
  end loop;
  alter role sluice_analyst set temp_file_limit = '10GB';
exception when insufficient_privilege then null;
end $$;
