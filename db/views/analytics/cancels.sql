-- Nonces that only had to be used up, because every later one waits for them: a payout gave its nonce back when custody refused its payment, or custody's
-- journal does not say what the nonce was for.
create or replace view analytics.cancels with (security_barrier) as
select
  s.id as cancel_id, s.chain, s.fee_payer as address, s.nonce, coalesce(s.outcome, s.status) as state, s.txid,
  analytics.coins(s.fee_paid, n.decimals) as network_fee, n.token as network_fee_token, s.created_at, s.final_at
from app.outgoing_payment s
join app.chain k on k.chain = s.chain
join app.asset n on n.chain = s.chain and n.token = k.native_token
where s.kind = 'cancel';
comment on view analytics.cancels is 'One row for each transaction that only uses up a nonce of ours, and moves nothing.';
comment on column analytics.cancels.cancel_id is 'Its id.';
comment on column analytics.cancels.chain is 'Chain code.';
comment on column analytics.cancels.address is 'The address whose nonce it is, mostly the treasury.';
comment on column analytics.cancels.nonce is 'The nonce.';
comment on column analytics.cancels.state is 'allocated, live: under way. cancelled: it used the nonce up. conflicted: another transaction did.';
comment on column analytics.cancels.txid is 'The final transaction; null while it is under way.';
comment on column analytics.cancels.network_fee is 'What it cost, in whole native coins; null while it is under way. The operator bears it.';
comment on column analytics.cancels.network_fee_token is 'The native coin of the chain, in which network_fee is counted.';
comment on column analytics.cancels.created_at is 'When it was begun.';
comment on column analytics.cancels.final_at is 'When it was final; null while it is under way.';
grant select on analytics.cancels to sluice_analyst;
