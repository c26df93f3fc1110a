-- Value that is credited to no merchant, with the reason (app.why_unattributed) and an operator's decision.
--
-- Value that was credited at a user's address is a deposit and is not here. Value that was credited at a payment
-- request's address is neither a deposit of a user nor a receipt. It stays here, because otherwise no view would show
-- it.
create or replace view analytics.unattributed with (security_barrier) as
select
  app.public_id('dep', d.id) as deposit_id,
  app.public_id('mer', d.merchant_id) as merchant_id, m.name as merchant_name, m.prefix as merchant_prefix,
  app.public_id('usr', d.user_id) as user_id, u.external_ref as user_external_ref,
  app.why_unattributed(app.is_from_protocol(d.transfer_kind, d.output_index, d.token), a.token is not null, w.is_provisioned, d.token, r.token) as reason,
  d.chain, d.token, analytics.coins(d.amount, a.decimals) as amount, d.amount as amount_base_units,
  d.status, d.sender, d.address, d.txid, d.output_index, d.block_height, d.created_at, d.finalised_at,
  o.decision, o.decided_at, o.destination as returned_to, s.txid as return_txid, s.final_at as returned_at,
  r.external_id as payment_request_external_id,
  x.deposit_id is not null or y.token is not null and a.token is null as dismissed
from (
  select id, merchant_id, user_id, payment_request_id, chain, token, amount, status, sender, address, txid, output_index, transfer_kind, block_height, created_at,
    finalised_at
  from app.deposit where not credited
  union all
  select c.id, c.merchant_id, c.user_id, c.payment_request_id, c.chain, c.token, c.amount, c.status, c.sender, c.address, c.txid, c.output_index, c.transfer_kind,
    c.block_height, c.created_at, c.finalised_at
  from app.unattributed_decision o join app.deposit c on c.id = o.deposit_id where o.decision = 'credit' and c.payment_request_id is not null
) d
join app.merchant m on m.id = d.merchant_id
left join app.user u on u.id = d.user_id
left join app.payment_request r on r.id = d.payment_request_id
left join lateral ( -- looked up one by one: there are many more addresses than such rows
  select w.is_provisioned from app.chain c join app.address w on w.chain = c.chain and w.match_key = app.match_key(d.address, c.folds_addresses)
  where c.chain = d.chain and w.address = d.address
) w on true
left join app.asset a on a.chain = d.chain and a.token = d.token
left join app.unattributed_decision o on o.deposit_id = d.id
left join app.outgoing_payment s on s.id = o.withdrawal_id and s.outcome = 'done'
left join app.dismissed x on x.deposit_id = d.id
left join app.dismissed y on y.chain = d.chain and y.token = d.token;
comment on view analytics.unattributed is 'Value that reached an address of ours and is credited to no merchant: a token that is not supported or that a payment request did not ask for, a chain that the merchant did not ask an address for, or what the chain''s rules paid without a transaction. Not part of a balance, unless an operator credits it. A credited row at a user''s address then moves to analytics.deposits; one at a payment request''s address stays here.';
comment on column analytics.unattributed.deposit_id is 'Id of the row; the API does not know it.';
comment on column analytics.unattributed.merchant_id is 'Id of the merchant that has the address.';
comment on column analytics.unattributed.merchant_name is 'Name of the merchant.';
comment on column analytics.unattributed.merchant_prefix is 'The merchant''s account prefix.';
comment on column analytics.unattributed.user_id is 'Id of the end user that has the address; null for the address of a payment request.';
comment on column analytics.unattributed.user_external_ref is 'The merchant''s own id of that user.';
comment on column analytics.unattributed.reason is 'unsupported_token; chain_not_requested: the address was not asked for on this chain; wrong_token: the payment request was for another token; enabled_later: token and chain are enabled now, but were not when it arrived, and nothing is credited afterwards; protocol: fees of a block or a withdrawal of a validator, which the chain''s rules paid to the address.';
comment on column analytics.unattributed.chain is 'Chain code.';
comment on column analytics.unattributed.token is 'Token code; the contract address if the token is not supported.';
comment on column analytics.unattributed.amount is 'Amount in whole coins; null if the token is not supported, because its decimals are not known.';
comment on column analytics.unattributed.amount_base_units is 'Amount as an integer in the smallest unit of the token.';
comment on column analytics.unattributed.status is 'pending, final or reorged, as of a deposit.';
comment on column analytics.unattributed.sender is 'Address that the value came from.';
comment on column analytics.unattributed.address is 'The address that it arrived at.';
comment on column analytics.unattributed.txid is 'Transaction id; for the reason protocol the hash of the block.';
comment on column analytics.unattributed.output_index is 'Position inside the transaction.';
comment on column analytics.unattributed.block_height is 'Height of the block that holds it, or last held it.';
comment on column analytics.unattributed.created_at is 'When Sluice first saw it.';
comment on column analytics.unattributed.finalised_at is 'When it became final; null if it is not.';
comment on column analytics.unattributed.decision is 'return: an operator decided to send it back; credit: to add it to the merchant''s balance (only value at a payment request''s address is still here then); null while nothing is decided.';
comment on column analytics.unattributed.decided_at is 'When that was decided.';
comment on column analytics.unattributed.returned_to is 'Address that it is sent to.';
comment on column analytics.unattributed.return_txid is 'The final transaction that sent it; null until then.';
comment on column analytics.unattributed.returned_at is 'When that was final; null until then.';
comment on column analytics.unattributed.payment_request_external_id is 'The merchant''s own reference of the payment request that has the address; null for the address of a user.';
comment on column analytics.unattributed.dismissed is 'Whether an operator dismissed it, or its token: nobody is asked to decide on it.';
grant select on analytics.unattributed to sluice_analyst;
