-- Every entry of the ledger. Found by an index: a range of created_at, or a reference.
create or replace view analytics.ledger with (security_barrier) as
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
comment on column analytics.ledger.kind is 'deposit (deposits became final, or an operator credited one), top_up (the treasury was paid), reorg (a final deposit was taken back), claim and release (of a payout), payout, sweep, withdrawal, return (of unattributed value, in each of its steps), network_fee, second_payment (what left although its payment had ended).';
comment on column analytics.ledger.reference is 'What caused it: finalisation:<chain>:<number> for deposits, or the UUID of the deposit, payout or transaction.';
comment on column analytics.ledger.account is 'address: what deposit addresses hold. treasury: what the treasury holds. merchant: what merchants are owed. payout: claimed by payouts under way. fees: service fees earned. network: network fees paid. operator: top-ups less withdrawals. unattributed: value that is credited to no merchant.';
comment on column analytics.ledger.chain is 'Chain code.';
comment on column analytics.ledger.token is 'Token code; the contract address if the token is not supported.';
comment on column analytics.ledger.merchant_id is 'Id of the merchant that the movement belongs to; null for the operator''s own and for unattributed value.';
comment on column analytics.ledger.merchant_name is 'Name of the merchant.';
comment on column analytics.ledger.merchant_prefix is 'The merchant''s account prefix.';
comment on column analytics.ledger.address is 'The deposit address, for the account address.';
comment on column analytics.ledger.amount is 'Debit (positive) or credit (negative), in whole coins, exact; null if the token is not supported. Assets and costs are debits; what is owed and earned are credits.';
comment on column analytics.ledger.amount_base_units is 'The same amount as an integer in the smallest unit of the token.';
comment on column analytics.ledger.created_at is 'When it was posted.';
grant select on analytics.ledger to sluice_analyst;
