-- Notifies indexers that show unconfirmed payments of a new address: an Electrum source has to subscribe to each address. Sent at COMMIT (channel
-- address_added).

-- Addresses of other chains are not announced, because each notification holds up other commits for a moment.
create or replace function app.announce_address() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
begin
  perform pg_notify('address_added', a.address) from added a join app.chain c on c.chain = a.chain where c.shows_unconfirmed;
  return null;
end $$;
comment on function app.announce_address is 'Trigger: notifies channel address_added of each address.';
create or replace trigger announce_address after insert on app.address
  referencing new table as added for each statement execute function app.announce_address();
