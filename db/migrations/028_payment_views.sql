-- What tells of payment requests besides the API: the audit, what analysts and operators read, metrics.
--
-- Readers: sluice_analyst (docs/database.md), whoever audits, the command line, metrics. Writers: nobody.
--
-- Invariants: an analyst never sees the token of a payment page, nor an idempotency key; the reason of what is unattributed is told by one
-- function, whoever asks; what is counted for metrics is read from an index that holds little else.

drop index concurrently if exists app.payment_request_created;

create index concurrently payment_request_created on app.payment_request (merchant_id, created_at);

drop index concurrently if exists app.payment_request_open;

create index concurrently payment_request_open on app.payment_request (chain, status) where status in ('awaiting', 'detected');

-- Transaction

-- What must always hold ---------------------------------------------------------------------------------------------------------------------

-- All requests at once: app.payment_of, asked for one after the other, would take minutes. What expired and was not judged yet is judged as
-- it was; that nobody judges it is for app.stuck to tell, because a copy of the database that was restored for an audit has no worker.
create view audit.payment_requests as
with receipt as (
  select c.*, sum(c.amount) filter (where c.status = 'final') over (partition by c.payment_request_id order by c.promotion, c.seq) as so_far
  from app.receipt c
), summed as (
  select r.id, coalesce(sum(c.amount) filter (where c.status = 'final'), 0) as received,
    coalesce(sum(c.amount) filter (where c.status = 'pending'), 0) as pending,
    coalesce(bool_or(c.late) filter (where c.status = 'final'), false) as late,
    coalesce(bool_or(not c.late) filter (where c.status = 'pending'), false) as is_coming_in_time,
    coalesce(min(c.txid) filter (where c.status = 'final' and c.so_far >= r.amount and c.so_far - c.amount < r.amount),
      (array_agg(c.txid order by c.so_far desc) filter (where c.status = 'final'))[1]) as txid,
    min(c.finalised_at) filter (where c.status = 'final' and c.so_far >= r.amount and c.so_far - c.amount < r.amount) as paid_at
  from app.payment_request r left join receipt c on c.payment_request_id = r.id group by r.id
), due as (
  select s.*, case when s.received >= r.amount then 'paid'
    when s.received = 0 and s.pending = 0 then case when r.expired_at is null then 'awaiting' else 'expired' end
    when s.received > 0 and r.expired_at is not null and not s.is_coming_in_time then 'underpaid' else 'detected' end as status
  from summed s join app.payment_request r on r.id = s.id
)
select r.id, r.status, d.status as due_status, r.received, d.received as due_received, r.pending, d.pending as due_pending, r.late, d.late as due_late,
  r.txid, d.txid as due_txid, r.paid_at, d.paid_at as due_paid_at, r.position
from app.payment_request r join due d on d.id = r.id
where (r.status, r.received, r.pending, r.late, r.txid, r.paid_at) is distinct from (d.status, d.received, d.pending, d.late, d.txid, d.paid_at)
  or (r.position is not null) <> (d.status in ('paid', 'underpaid'));
comment on view audit.payment_requests is 'each payment request is what its receipts say, and GET /payments has those that are paid or underpaid';

create view audit.payment_addresses as
select r.id as payment_request_id, min(a.address) as address, 'has not one address from the pool, asked for on its chain alone' as wrong
from app.payment_request r
left join app.address a on a.payment_request_id = r.id
left join custody.address o on o.address = a.address and o.purpose = 'deposit' and o.merchant_id = r.merchant_id
group by r.id
having (min(a.address) = max(a.address)) is not true or count(o.address) <> count(a.chain) or bool_or(a.merchant_id <> r.merchant_id)
  or count(*) filter (where a.is_provisioned) <> 1 or not bool_or(a.chain = r.chain and a.is_provisioned)
union all
select a.payment_request_id, a.address, 'is the address of somebody else on ' || b.chain
from app.address a join app.address b on b.match_key = a.match_key and (b.user_id, b.payment_request_id) is distinct from (a.user_id, a.payment_request_id)
where a.payment_request_id is not null
union all
select coalesce(d.payment_request_id, a.payment_request_id), d.address, 'does not belong to whom its address belongs to: ' || d.id
from app.deposit d left join app.address a on a.chain = d.chain and a.address = d.address
where (d.user_id, d.payment_request_id) is distinct from (a.user_id, a.payment_request_id)
union all
select d.payment_request_id, d.address, case when d.credited then 'counts, and was not asked for: ' else 'was asked for, and does not count: ' end || d.id
from app.deposit d join app.payment_request r on r.id = d.payment_request_id
left join app.unattributed_decision u on u.deposit_id = d.id
where d.credited <> ((d.chain, d.token) = (r.chain, r.token)) and u.deposit_id is null;
comment on view audit.payment_addresses is 'each payment request has one address, which is nobody else''s on any chain; what arrives there is its own, and counts in its token alone';

-- As in 020_audit.sql, and besides: payment requests that expired and were not judged.
create or replace view app.stuck as
select 'payout' as what, app.public_id('pay', p.id) as id, p.chain, coalesce(p.waiting_reason, p.status) as state, p.created_at as since
from app.payout p where p.status not in ('completed', 'failed') and p.created_at < clock_timestamp() - interval '1 day'
union all
select s.kind, s.id::text, s.chain, coalesce(s.waiting_reason, s.status), s.created_at
from app.spend s where s.status <> 'final' and s.kind <> 'payout' and s.created_at < clock_timestamp() - interval '1 day'
union all
select 'deposit', app.public_id('dep', d.id), d.chain, case when d.block_height is null then 'in no block' else 'not final' end, d.created_at
from app.deposit d where d.status = 'pending' and d.created_at < clock_timestamp() - interval '1 day'
union all
select 'stamping', app.public_id('pay', c.payout_id), c.chain, c.done_count || ' of ' || c.deposit_count || ' deposits', c.created_at
from app.claim c where c.finished_at is null and c.created_at < clock_timestamp() - interval '1 hour'
union all
select 'event', app.public_id('evt', e.id), null, 'not sequenced', e.created_at
from app.event e where e.sequence is null and e.created_at < clock_timestamp() - interval '10 minutes'
union all
select 'delivery', app.public_id('dlv', d.id), null, d.attempts || ' attempts', d.created_at
from app.delivery d where d.status = 'pending' and d.created_at < clock_timestamp() - interval '4 days' and d.next_attempt_at < clock_timestamp()
union all
select 'payment request', r.external_id, r.chain, r.status || ', and expired', r.expires_at
from app.payment_request r
where r.expires_at < clock_timestamp() - interval '1 hour' and r.expired_at is null and r.status in ('awaiting', 'detected');
comment on column app.stuck.what is 'payout, sweep, withdrawal, deposit, stamping (of deposits with their payout), event, delivery or payment request.';

-- What analysts read ------------------------------------------------------------------------------------------------------------------------

create view analytics.payment_requests with (security_barrier) as
select
  r.id as payment_request_uuid,
  app.public_id('mer', r.merchant_id) as merchant_id, m.name as merchant_name, m.prefix as merchant_prefix, r.external_id,
  a.name as currency, r.chain, r.token, analytics.coins(r.amount, a.decimals) as amount, r.amount as amount_base_units,
  analytics.coins(r.received, a.decimals) as received, r.received as received_base_units,
  analytics.coins(r.pending, a.decimals) as pending, r.pending as pending_base_units,
  r.status, r.late, r.txid, w.address, r.created_at, r.expires_at, r.paid_at,
  round(extract(epoch from r.paid_at - r.created_at), 3) as seconds_to_paid
from app.payment_request r
join app.merchant m on m.id = r.merchant_id
join app.asset a on a.chain = r.chain and a.token = r.token
join app.address w on w.payment_request_id = r.id and w.chain = r.chain;
comment on view analytics.payment_requests is 'One row for each payment request: an amount that a merchant asked to be paid to an address of its own, and what was paid of it.';
comment on column analytics.payment_requests.payment_request_uuid is 'Its id here, by which payment_receipts is joined. The API does not know it: merchants know external_id.';
comment on column analytics.payment_requests.merchant_id is 'Id of the merchant.';
comment on column analytics.payment_requests.merchant_name is 'Name of the merchant.';
comment on column analytics.payment_requests.merchant_prefix is 'The merchant''s account prefix.';
comment on column analytics.payment_requests.external_id is 'The merchant''s own reference. It begins with the prefix, so no two merchants have the same.';
comment on column analytics.payment_requests.currency is 'Name of the asset in the API, such as ETH-USDC.';
comment on column analytics.payment_requests.chain is 'Chain code.';
comment on column analytics.payment_requests.token is 'Token code. Amounts of different tokens cannot be added up.';
comment on column analytics.payment_requests.amount is 'What was asked for, in whole coins, exact.';
comment on column analytics.payment_requests.amount_base_units is 'The same amount as an integer in the smallest unit of the token.';
comment on column analytics.payment_requests.received is 'Sum of its final receipts, in whole coins. More than amount where too much was paid.';
comment on column analytics.payment_requests.received_base_units is 'The same sum as an integer in the smallest unit of the token.';
comment on column analytics.payment_requests.pending is 'Sum of its receipts that are not final yet, in whole coins.';
comment on column analytics.payment_requests.pending_base_units is 'The same sum as an integer in the smallest unit of the token.';
comment on column analytics.payment_requests.status is 'awaiting: nothing came. detected: money was seen, and is not enough or not final yet. paid. expired: its time is over and nothing came. underpaid: its time is over and less came than was asked for. Each but paid may still change: late money counts.';
comment on column analytics.payment_requests.late is 'True if some of what was received came after expires_at.';
comment on column analytics.payment_requests.txid is 'Transaction with which the amount was reached; the last final one, while it is not; null if nothing is final.';
comment on column analytics.payment_requests.address is 'The address that was made for it.';
comment on column analytics.payment_requests.created_at is 'When the merchant made it.';
comment on column analytics.payment_requests.expires_at is 'What comes later is late.';
comment on column analytics.payment_requests.paid_at is 'When the receipt with which the amount was reached became final; null unless it is paid.';
comment on column analytics.payment_requests.seconds_to_paid is 'Seconds from created_at to paid_at: what the payer took, and the chain until it was final.';

create view analytics.payment_receipts with (security_barrier) as
select
  app.public_id('dep', c.deposit_id) as deposit_id, c.payment_request_id as payment_request_uuid, c.external_id,
  app.public_id('mer', c.merchant_id) as merchant_id, m.name as merchant_name, m.prefix as merchant_prefix,
  c.chain, c.token, analytics.coins(c.amount, a.decimals) as amount, c.amount as amount_base_units, c.status, c.late,
  c.sender, c.address, c.txid, c.output_index, c.block_height, c.created_at, c.finalised_at,
  app.public_id('pay', c.settlement_id) as settlement_id, c.deposit_id as deposit_uuid, c.settlement_id as settlement_uuid
from app.receipt c
join app.merchant m on m.id = c.merchant_id
join app.asset a on a.chain = c.chain and a.token = c.token;
comment on view analytics.payment_receipts is 'One row for each payment that counts, or will count, for a payment request. It is no deposit of a user, so analytics.deposits and analytics.events do not have it. What was reorganised away is no receipt, and is not here.';
comment on column analytics.payment_receipts.deposit_id is 'Its id, as operators see it in incidents; the API does not show it.';
comment on column analytics.payment_receipts.payment_request_uuid is 'The payment request, as in analytics.payment_requests.';
comment on column analytics.payment_receipts.external_id is 'The merchant''s own reference of that request.';
comment on column analytics.payment_receipts.merchant_id is 'Id of the merchant.';
comment on column analytics.payment_receipts.merchant_name is 'Name of the merchant.';
comment on column analytics.payment_receipts.merchant_prefix is 'The merchant''s account prefix.';
comment on column analytics.payment_receipts.chain is 'Chain code.';
comment on column analytics.payment_receipts.token is 'Token code. Amounts of different tokens cannot be added up.';
comment on column analytics.payment_receipts.amount is 'Amount in whole coins of the token, exact.';
comment on column analytics.payment_receipts.amount_base_units is 'The same amount as an integer in the smallest unit of the token.';
comment on column analytics.payment_receipts.status is 'pending: seen, and may still leave the chain. final: counts for the merchant.';
comment on column analytics.payment_receipts.late is 'True if it was neither seen nor mined before the request expired.';
comment on column analytics.payment_receipts.sender is 'Address that the value came from.';
comment on column analytics.payment_receipts.address is 'The request''s address that it arrived at.';
comment on column analytics.payment_receipts.txid is 'Transaction id on the chain.';
comment on column analytics.payment_receipts.output_index is 'Position inside the transaction.';
comment on column analytics.payment_receipts.block_height is 'Height of the block that holds it; null while it is in none.';
comment on column analytics.payment_receipts.created_at is 'When Sluice first saw it.';
comment on column analytics.payment_receipts.finalised_at is 'When it became final; null if it is not.';
comment on column analytics.payment_receipts.settlement_id is 'Id of the payout that collected it, as in the API; null until then.';
comment on column analytics.payment_receipts.deposit_uuid is 'deposit_id as a UUID, to search by: deposit_uuid = analytics.id(''dep_...'').';
comment on column analytics.payment_receipts.settlement_uuid is 'settlement_id as a UUID, to search by: settlement_uuid = analytics.id(''pay_...''); null until a payout collected it.';

-- Why it counts for nobody: is_asked_for whether the address was asked for on its chain, asked_token the token that a payment request asked for.
create function app.unattributed_reason(is_known boolean, is_asked_for boolean, token text, asked_token text) returns text
language sql immutable parallel safe
return case when not is_known then 'unsupported_token' when not is_asked_for then 'chain_not_requested' when token <> asked_token then 'wrong_token'
  else 'enabled_later' end;
comment on function app.unattributed_reason is 'Why what arrived counts for nobody: unsupported_token, chain_not_requested, wrong_token or enabled_later.';
grant execute on function app.unattributed_reason to sluice_analyst;

-- As in 024_analytics.sql, and besides: what arrived at the addresses of payment requests. What is credited there is neither a deposit of a
-- user nor a receipt: it stays.
create or replace view analytics.unattributed with (security_barrier) as
select
  app.public_id('dep', d.id) as deposit_id,
  app.public_id('mer', d.merchant_id) as merchant_id, m.name as merchant_name, m.prefix as merchant_prefix,
  app.public_id('usr', d.user_id) as user_id, u.external_ref as user_external_ref,
  app.unattributed_reason(a.token is not null, w.is_provisioned, d.token, r.token) as reason,
  d.chain, d.token, analytics.coins(d.amount, a.decimals) as amount, d.amount as amount_base_units,
  d.status, d.sender, d.address, d.txid, d.output_index, d.block_height, d.created_at, d.finalised_at,
  o.decision, o.decided_at, o.destination as returned_to, s.txid as return_txid, s.final_at as returned_at,
  r.external_id as payment_request_external_id
from (
  select id, merchant_id, user_id, payment_request_id, chain, token, amount, status, sender, address, txid, output_index, block_height, created_at,
    finalised_at
  from app.deposit where not credited
  union all
  select c.id, c.merchant_id, c.user_id, c.payment_request_id, c.chain, c.token, c.amount, c.status, c.sender, c.address, c.txid, c.output_index,
    c.block_height, c.created_at, c.finalised_at
  from app.unattributed_decision o join app.deposit c on c.id = o.deposit_id where o.decision = 'credit' and c.payment_request_id is not null
) d
join app.merchant m on m.id = d.merchant_id
left join app.user u on u.id = d.user_id
left join app.payment_request r on r.id = d.payment_request_id
left join lateral ( -- looked up one by one: there are many more addresses than such rows
  select w.is_provisioned from app.address w where w.chain = d.chain and w.address = d.address and w.match_key in (d.address, lower(d.address)) limit 1
) w on true
left join app.asset a on a.chain = d.chain and a.token = d.token
left join app.unattributed_decision o on o.deposit_id = d.id
left join app.spend s on s.id = o.withdrawal_id and s.outcome = 'done';
comment on view analytics.unattributed is 'Value that reached an address of ours and counts for nobody: a token that is not supported or that a payment request did not ask for, or a chain that the merchant did not ask an address for. Not part of a balance, unless an operator credits it; then a user''s leaves this view and is in analytics.deposits, and a payment request''s stays here.';
comment on column analytics.unattributed.merchant_id is 'Id of the merchant whose address it is.';
comment on column analytics.unattributed.user_id is 'Id of the end user whose address it is; null for a payment request''s.';
comment on column analytics.unattributed.user_external_ref is 'The merchant''s own id of that user.';
comment on column analytics.unattributed.payment_request_external_id is 'The merchant''s own reference of the payment request whose address it is; null for a user''s.';
comment on column analytics.unattributed.reason is 'unsupported_token; chain_not_requested: the address was not asked for on this chain; wrong_token: the payment request was for another token; enabled_later: token and chain are fine now, but were not when it arrived, and nothing is credited afterwards.';
comment on column analytics.unattributed.address is 'The address that it arrived at.';
comment on column analytics.unattributed.decision is 'return: an operator decided to send it back; credit: to add it to the merchant''s balance (only what arrived for a payment request is still here then); null while nothing is decided.';

comment on view analytics.deposits is 'One row for each deposit of a merchant''s users that counts, or will count. What was paid for payment requests is in analytics.payment_receipts; what arrived on a chain or in a token that was not asked for is in analytics.unattributed.';
comment on column analytics.balances.deposit_count is 'Number of deposits in the balance, receipts of payment requests included.';
comment on materialized view analytics.daily_volume is 'Deposits of each UTC day by merchant, chain and token, receipts of payment requests included. Reorged deposits do not count; days without deposits have no row. As of the moment that analytics.freshness names.';
comment on materialized view analytics.time_to_finality is 'How long deposits, receipts of payment requests included, took from the timestamp of their block until they were final, for each chain and UTC day. For other groups and longer times take percentiles of analytics.deposits.seconds_to_final: percentiles of days cannot be averaged. As of the moment that analytics.freshness names.';
comment on column analytics.merchant_totals.received is 'Final deposits of its users and final receipts of its payment requests, in whole coins, exact, less those that an operator took back.';
comment on materialized view analytics.address_utilisation is 'How many of the addresses that merchants asked for, for their users, were ever paid, for each merchant and chain. Those of payment requests are not counted. As of the moment that analytics.freshness names.';
comment on view analytics.sweeps is 'One row for each sweep of a deposit address to the treasury.';
comment on column analytics.sweeps.merchant_id is 'Id of the merchant whose address it is.';
comment on column app.bump_output.merchant_id is 'The merchant whose address it is; null for the treasury''s.';
comment on column app.free_output.merchant_id is 'The merchant whose address it is; null for the treasury''s.';
comment on column custody.address.purpose is 'deposit: for a user or a payment request. treasury: where sweeps go, and payouts come from.';
comment on column custody.address.merchant_id is 'The merchant that it was handed to. Written once, by the function that hands it out; what custody signs rests on it.';
comment on table custody.address is 'Every address that custody ever derived, in order, and the merchant that it was handed to; those that are not taken wait to be.';

grant select on analytics.payment_requests, analytics.payment_receipts to sluice_analyst;

-- Metrics -----------------------------------------------------------------------------------------------------------------------------------

-- Underpaid and expired ones are kept for ever, and only ever become more: no number of what is open.
create function app.payment_metrics() returns table (metric text, labels json, value double precision)
language sql stable set search_path = pg_catalog as $$
  select 'sluice_payment_requests_open', json_build_object('chain', c.chain, 'status', s.status), n.count
  from chain.cursor c cross join unnest(array['awaiting', 'detected']) s (status)
  cross join lateral (select count(*) from app.payment_request r where r.chain = c.chain and r.status = s.status
    and r.status in ('awaiting', 'detected')) n
$$;

-- As in 021_metrics.sql, and besides: payment requests.
create or replace function app.metrics() returns table (metric text, labels json, value double precision)
language plpgsql stable security definer set search_path = pg_catalog as $$
begin
  return query
    select * from app.chain_metrics()
    union all
    select * from app.upkeep_metrics()
    union all
    select * from app.payout_metrics()
    union all
    select * from app.payment_metrics();
end $$;
