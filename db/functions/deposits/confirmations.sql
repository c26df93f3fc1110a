-- Confirmations of a deposit, for everything that shows them to a merchant: the API and the dashboard.

-- Inlined into the statements that use it, because lists show many.
create or replace function app.deposit_confirmations(status text, block_height int, head_height int) returns int
language sql immutable parallel safe
return case status when 'reorged' then 0 else greatest(head_height - block_height + 1, 0) end;
comment on function app.deposit_confirmations is 'Number of blocks from a deposit''s own to the newest, both included; 0 if it is in none, or reorged.';
grant execute on function app.deposit_confirmations to sluice_api;
