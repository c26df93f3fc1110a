-- The lines of merchants' statements: every movement of each balance, deposit by deposit. Their sum is the change of the balance, to the last unit. An
-- index finds a range of created_at, alone or with a merchant, chain and token.
create or replace view analytics.statement_lines with (security_barrier) as
select
  l.entry as entry_id, l.at as created_at, app.public_id('mer', l.merchant_id) as merchant_id, m.name as merchant_name, m.prefix as merchant_prefix,
  l.chain, l.token, l.type, analytics.coins(l.amount, a.decimals) as amount, l.amount as amount_base_units,
  app.public_id('dep', l.deposit_id) as deposit_id, u.external_ref as user_external_ref, r.external_id, app.public_id('pay', l.payout_id) as payout_id,
  coalesce(d.txid, p.txid) as txid, l.merchant_id as merchant_uuid
from app.statement_line l
join app.merchant m on m.id = l.merchant_id
join app.asset a on a.chain = l.chain and a.token = l.token
left join app.deposit d on d.id = l.deposit_id
left join app.user u on u.id = d.user_id
left join app.payment_request r on r.id = d.payment_request_id
left join app.payout p on p.id = l.payout_id;
comment on view analytics.statement_lines is 'One row for each movement of a merchant''s balance: deposits that became final one by one, receipts of payment requests included, what was taken back, and what payouts claimed, net and fee apart. The amounts of a merchant, chain and token add up to its balance.';
comment on column analytics.statement_lines.entry_id is 'The entry of analytics.ledger: deposits that became final together share one.';
comment on column analytics.statement_lines.created_at is 'When it was posted: never earlier than what it is about.';
comment on column analytics.statement_lines.merchant_id is 'Id of the merchant.';
comment on column analytics.statement_lines.merchant_name is 'Name of the merchant.';
comment on column analytics.statement_lines.merchant_prefix is 'The merchant''s account prefix.';
comment on column analytics.statement_lines.chain is 'Chain code.';
comment on column analytics.statement_lines.token is 'Token code.';
comment on column analytics.statement_lines.type is 'deposit: it became final, or an operator credited it. deposit_lost: a final one was taken back. payout, fee: what a payout claimed, net and fee; above zero: what came back because it failed. adjustment: a debt for what was paid although its payment had ended.';
comment on column analytics.statement_lines.amount is 'How it changed the balance, in whole coins, exact: below zero for what left.';
comment on column analytics.statement_lines.amount_base_units is 'amount as an integer in the smallest unit of the token.';
comment on column analytics.statement_lines.deposit_id is 'The deposit, or the receipt of a payment request; null for payouts.';
comment on column analytics.statement_lines.user_external_ref is 'The merchant''s own id of the user; null unless it is a deposit of one.';
comment on column analytics.statement_lines.external_id is 'The merchant''s reference of the payment request; null unless it is a receipt.';
comment on column analytics.statement_lines.payout_id is 'The payout; null for deposits.';
comment on column analytics.statement_lines.txid is 'The transaction of the deposit, or the one that paid the payout; null while that is not completed.';
comment on column analytics.statement_lines.merchant_uuid is 'merchant_id as a UUID, to search by: merchant_uuid = analytics.id(''mer_...'').';
grant select on analytics.statement_lines to sluice_analyst;
