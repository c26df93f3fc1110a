-- Why value at an address of ours is credited to no merchant: the first reason that applies. analytics.unattributed
-- reads it.

create or replace function app.why_unattributed(from_protocol boolean, is_known boolean, is_asked_for boolean, token text, asked_token text) returns text
language sql immutable parallel safe
return case
  when from_protocol then 'protocol'
  when not is_known then 'unsupported_token'
  when not is_asked_for then 'chain_not_requested'
  when token <> asked_token then 'wrong_token'
  else 'enabled_later'
end;
comment on function app.why_unattributed is 'Why value is credited to no merchant: protocol, unsupported_token, chain_not_requested, wrong_token or enabled_later. is_asked_for: the address was asked for on its chain; asked_token: the token that its payment request asked for, null for a user''s.';
grant execute on function app.why_unattributed to sluice_analyst;
