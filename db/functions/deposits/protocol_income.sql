-- Protocol income: what a chain's own rules pay to an address of ours in a block, without a transaction (the fees of
-- the block, a validator's withdrawals). Anybody can have it paid to the address of a merchant's user, and no merchant
-- asked for it. So it is unattributed, with the reason protocol, and only an operator credits or returns it. The ledger
-- has it like any unattributed value, so that it explains what the address holds. At a treasury it is the operator's
-- own, like everything there.
--
-- The indexer writes it as transfers of the kind protocol, whose txid is the hash of their block. Invariants: it is
-- never credited when it is first seen, whatever was asked for at its address, and counts for no payment request.

create or replace function app.is_from_protocol(transfer_kind text, output_index int, token text) returns boolean
language sql immutable parallel safe
return coalesce(transfer_kind = 'protocol', output_index >= 2000000 and token not like 'TRC10:%');
comment on function app.is_from_protocol is 'Whether a transfer was made by the rules of its chain, without a transaction. Without a kind, as older versions wrote it, the output index says so.';
grant execute on function app.is_from_protocol to sluice_analyst, sluice_api;

create or replace function app.withhold_protocol_income() returns trigger
language plpgsql set search_path = pg_catalog as $$
begin
  new.credited := false;
  return new;
end $$;
comment on function app.withhold_protocol_income is 'Trigger: a new deposit that is protocol income is not credited.';
-- A treasury has no merchant to credit.
create or replace trigger withhold_protocol_income before insert on app.deposit for each row
  when (new.credited and new.merchant_id is not null and app.is_from_protocol(new.transfer_kind, new.output_index, new.token)) execute function app.withhold_protocol_income();
