-- Payout addresses with the state of the whitelist, for everything that shows them to a merchant: the API and the dashboard. Custody decides by its own
-- reading of the whitelist.
create or replace view app.payout_address_state with (security_barrier) as
select p.merchant_id, p.chain, p.address, p.updated_at, coalesce(w.active_at <= clock_timestamp(), false) as whitelisted, w.active_at as whitelisted_at
from app.payout_address p
left join custody.whitelist w on w.merchant_id = p.merchant_id and w.chain = p.chain and w.address = p.address and w.removed_at is null;
comment on view app.payout_address_state is 'Where payouts of each merchant and chain go, and whether the operator has put the address on the whitelist.';
comment on column app.payout_address_state.address is 'The address, as people see it.';
comment on column app.payout_address_state.updated_at is 'When it was registered or last changed.';
comment on column app.payout_address_state.whitelisted is 'True if it is on the whitelist now: nothing is paid elsewhere.';
comment on column app.payout_address_state.whitelisted_at is 'Since when it is on the whitelist, or from when on it will be; null if it is not on the list.';
grant select on app.payout_address_state to sluice_api;
