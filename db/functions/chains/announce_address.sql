-- Tells indexers that show unconfirmed payments that an address is to be watched: an Electrum source has to subscribe to each. Sent at COMMIT
-- (channel address_added).

-- The addresses of other chains are not told: each notification holds up other commits for a moment.
create or replace function app.announce_address() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
begin
  perform pg_notify('address_added', a.address) from added a join app.chain c on c.chain = a.chain where c.shows_unconfirmed;
  return null;
end $$;
comment on function app.announce_address is 'Trigger: notifies address_added, with each address.';
create or replace trigger announce_address after insert on app.address
  referencing new table as added for each statement execute function app.announce_address();
