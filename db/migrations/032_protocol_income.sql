-- Protocol income: what a chain's own rules pay to an address of ours in a block, without a transaction (the fees of the block's transactions, a
-- validator's withdrawals). Anybody can name an address of a merchant's user there, and nobody was asked for money: so it is unattributed, with
-- the reason protocol, and an operator alone credits or returns it. The ledger has it as any unattributed value, so that what the address holds is
-- explained. At a treasury it is the operator's own, as everything there.
--
-- Writer: an indexer, as transfers whose txid is the hash of their block, with output indexes from 2000000 up, which no transaction has.
-- Invariants: it is never credited when it is seen, whatever was asked for at its address, and counts for no payment request.

create function app.is_protocol_income(output_index int) returns boolean
language sql immutable parallel safe
return output_index >= 2000000;
comment on function app.is_protocol_income is 'Whether a transfer at this output index was made by the rules of its chain, without a transaction.';

create function app.withhold_protocol_income() returns trigger
language plpgsql set search_path = pg_catalog as $$
begin
  new.credited := false;
  return new;
end $$;
-- A treasury has no merchant that it could be credited to.
create trigger withhold_protocol_income before insert on app.deposit for each row
  when (new.credited and new.merchant_id is not null and app.is_protocol_income(new.output_index)) execute function app.withhold_protocol_income();

comment on column chain.transfer.txid is 'Transaction id; of what a chain''s rules pay without a transaction, the hash of the block.';
comment on column chain.transfer.output_index is 'Position inside the transaction. EVM chains: 0 the transaction''s own value, 1 + n the n-th log, 1000000 + n the n-th internal call; without a transaction, 2000000 the fees of the block, 3000000 + n its n-th withdrawal. Bitcoin: the vout.';
comment on table app.deposit is 'Value that reached an address of ours. Credited ones are deposits of a merchant''s users, or receipts of its payment requests; the others are unattributed: a token or a chain that was not asked for, or what a chain''s rules paid.';

-- As in 027_payment_requests.sql, but for protocol income, also where an operator credited it: nobody paid the request by it.
create or replace view app.receipt as
select d.payment_request_id, d.id as deposit_id, d.seq, d.txid, d.output_index, d.amount, d.status, d.block_height, d.settlement_id,
  d.promotion, d.created_at, d.finalised_at, d.came_at > r.expires_at as late,
  d.merchant_id, r.external_id, d.chain, d.token, d.sender, d.address
from app.payment_request r
join app.deposit d on d.payment_request_id = r.id and d.chain = r.chain and d.token = r.token
where d.credited and d.status <> 'reorged' and not app.is_protocol_income(d.output_index);
grant execute on function app.is_protocol_income to sluice_api; -- who reads the view

-- Why it counts for nobody ------------------------------------------------------------------------------------------------------------------

create function app.unattributed_reason(output_index int, is_known boolean, is_asked_for boolean, token text, asked_token text) returns text
language sql immutable parallel safe
return case when app.is_protocol_income(output_index) then 'protocol' else app.unattributed_reason(is_known, is_asked_for, token, asked_token) end;
comment on function app.unattributed_reason(int, boolean, boolean, text, text) is 'Why what arrived counts for nobody: protocol, unsupported_token, chain_not_requested, wrong_token or enabled_later.';
grant execute on function app.is_protocol_income, app.unattributed_reason(int, boolean, boolean, text, text) to sluice_analyst;

-- As in 028_payment_views.sql, and besides: protocol income.
create or replace view analytics.unattributed with (security_barrier) as
select
  app.public_id('dep', d.id) as deposit_id,
  app.public_id('mer', d.merchant_id) as merchant_id, m.name as merchant_name, m.prefix as merchant_prefix,
  app.public_id('usr', d.user_id) as user_id, u.external_ref as user_external_ref,
  app.unattributed_reason(d.output_index, a.token is not null, w.is_provisioned, d.token, r.token) as reason,
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
comment on view analytics.unattributed is 'Value that reached an address of ours and counts for nobody: a token that is not supported or that a payment request did not ask for, a chain that the merchant did not ask an address for, or what the chain''s rules paid without a transaction. Not part of a balance, unless an operator credits it; then a user''s leaves this view and is in analytics.deposits, and a payment request''s stays here.';
comment on column analytics.unattributed.reason is 'unsupported_token; chain_not_requested: the address was not asked for on this chain; wrong_token: the payment request was for another token; enabled_later: token and chain are fine now, but were not when it arrived, and nothing is credited afterwards; protocol: fees of a block or a withdrawal of a validator, which the chain''s rules paid to the address.';
comment on column analytics.unattributed.txid is 'Transaction id; for the reason protocol the hash of the block.';

create or replace view audit.payment_addresses as
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
where d.credited <> ((d.chain, d.token) = (r.chain, r.token) and not app.is_protocol_income(d.output_index)) and u.deposit_id is null;
