-- A row is a payment request or an address that breaks one of these rules. The request has one address, from the pool,
-- asked for only on its chain. No other owner has that address, on any chain. A deposit belongs to the owner of its
-- address. A deposit at it counts if it came by a transaction, on the requested chain and in the requested token,
-- unless an operator decided otherwise.
create or replace view audit.payment_addresses as
select r.id as payment_request_id, min(a.address) as address, 'has not one address from the pool, asked for on its chain alone' as wrong
from app.payment_request r
left join app.address a on a.payment_request_id = r.id
left join custody.address o on o.address = a.address and o.purpose = 'deposit' and o.merchant_id = r.merchant_id
group by r.id
having (min(a.address) = max(a.address)) is not true or count(o.address) <> count(a.chain) or bool_or(a.merchant_id <> r.merchant_id)
  or count(*) filter (where a.is_provisioned) <> 1 or not bool_or(a.chain = r.chain and a.is_provisioned)
union all
select a.payment_request_id, a.address, 'is the address of another owner on ' || b.chain
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
where d.credited <> ((d.chain, d.token) = (r.chain, r.token) and not app.is_from_protocol(d.transfer_kind, d.output_index, d.token)) and u.deposit_id is null;
comment on view audit.payment_addresses is 'each payment request has one address, which no other owner has on any chain; what arrives there belongs to it, and counts only in its token';
comment on column audit.payment_addresses.payment_request_id is 'The payment request; null if a user''s deposit names another owner than its address.';
comment on column audit.payment_addresses.wrong is 'What is wrong with it.';
