-- Tells indexers that show unconfirmed payments that an address is to be watched: an Electrum source has to subscribe to each. Sent at COMMIT
-- (channel address_added).

create or replace function app.announce_address() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
begin
  perform pg_notify('address_added', new.address);
  return null;
end $$;
comment on function app.announce_address is 'Trigger: notifies address_added, with the address.';
-- The addresses of other chains are not told: each notification holds up other commits for a moment.
create or replace trigger announce_address after insert on app.address for each row when (app.shows_unconfirmed(new.chain))
  execute function app.announce_address();
