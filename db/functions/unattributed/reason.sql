-- Why what arrived at an address of ours counts for nobody. The first reason that holds is told. Read by analytics.unattributed.

create or replace function app.unattributed_reason(output_index int, is_known boolean, is_asked_for boolean, token text, asked_token text) returns text
language sql immutable parallel safe
return case
  when app.is_protocol_income(output_index) then 'protocol'
  when not is_known then 'unsupported_token'
  when not is_asked_for then 'chain_not_requested'
  when token <> asked_token then 'wrong_token'
  else 'enabled_later'
end;
comment on function app.unattributed_reason is 'Why what arrived counts for nobody: protocol, unsupported_token, chain_not_requested, wrong_token or enabled_later. is_asked_for: the address was asked for on its chain; asked_token: the token that its payment request asked for, null for a user''s.';
grant execute on function app.unattributed_reason to sluice_analyst;
