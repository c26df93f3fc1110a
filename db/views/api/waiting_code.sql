-- What merchants read about why a payout waits: the API's code for each internal reason (waiting_reason). About the treasury it says that it is
-- short, or its coins immature, never by how much. A reason that is not here is not shown.
create or replace view app.waiting_code as
select k.reasons, k.code, k.message from (values
  (array['not_whitelisted'], 'address_not_whitelisted', 'the operator has to put the payout address on the whitelist'),
  (array['daily_limit', 'above_limit'], 'limit_reached', 'it would exceed a limit for payouts'),
  (array['fee_budget_reached'], 'fee_budget_reached', 'the budget for today''s network fees is used up; the payout continues tomorrow (UTC) at the latest'),
  (array['insufficient_treasury_funds', 'insufficient_inputs', 'fee_above_funds'], 'insufficient_treasury_funds', 'the treasury is short of funds'),
  (array['token_refused'], 'token_stopped', 'the contract of the token refuses transfers at the moment'),
  (array['sweeps_failed'], 'sweeps_failed', 'money on some of its addresses could not be moved; it is tried again'),
  (array['treasury_immature'], 'treasury_immature', 'newly mined coins of the treasury cannot be spent yet'),
  (array['treasury_below_rent'], 'treasury_below_rent', 'the treasury would hold less than an account of the chain must'),
  (array['chain_halted', 'journal_ahead', 'journal_changed', 'copy_unproven'], 'chain_halted', 'payouts of this chain are stopped until the operator has checked it'),
  (array['no_node', 'node_unreachable'], 'chain_unreachable', 'the chain cannot be reached at the moment'),
  (array['head_stale'], 'chain_lagging', 'the service has not read the newest blocks of the chain yet'),
  (array['fee_above_cap', 'sweep_too_dear'], 'fee_too_high', 'network fees are higher than the most that is paid'),
  (array['custody_unreachable'], 'custody_unavailable', 'it cannot be signed at the moment'),
  (array['nonce_too_high', 'unknown_outputs'], 'unresolved_transaction', 'an earlier transaction has to be resolved first'),
  (array['would_revert'], 'transaction_would_fail', 'the chain would not carry its transaction out at the moment; it is tried again'),
  (array['destination_not_payable'], 'destination_not_payable', 'nobody can pay the payout address'),
  (array['below_rent_exempt'], 'below_rent_exempt', 'the payout address has no account yet, and it is less than an account must hold'),
  (array['exceeds_received', 'settlement_changed', 'wrong_state', 'amount_not_net', 'nonce_taken', 'not_ours', 'unknown_settlement', 'dust'], 'custody_rejected',
    'it was refused for safety, and the operator has to look at it'),
  (array['error', 'database_unavailable', 'database_error', 'disk_full'], 'service_error', 'something failed in the service; it is tried again'),
  (array['expiry'], 'cancelling', 'it is being cancelled, and its transaction may still be mined'),
  (array['unproven_expiry'], 'unproven_expiry', 'its transaction has expired, and it is not certain yet that no block holds it'),
  (array['payment_contested'], 'payment_contested', 'two transactions of it may still be mined; it continues once one is final, or can never be')
) k (reasons, code, message);
comment on view app.waiting_code is 'Codes of the API for what a payout waits for.';
comment on column app.waiting_code.reasons is 'Internal reasons that it stands for.';
comment on column app.waiting_code.code is 'The code.';
comment on column app.waiting_code.message is 'For people.';
