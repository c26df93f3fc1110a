-- The time zone of a merchant: in which its days begin, in the dashboard. The API's times are in UTC whatever it is.
--
-- Errors: SL404 there is no such merchant; SL422 there is no such time zone.

create or replace function app.set_time_zone(of_merchant uuid, zone text) returns void
language plpgsql security definer set search_path = pg_catalog as $$
begin
  if zone is null or not exists (select from pg_timezone_names t where t.name = zone) then
    raise exception 'there is no time zone with this name; one is Europe/Berlin' using errcode = 'SL422';
  end if;
  update app.merchant m set time_zone = zone where m.id = of_merchant;
  if not found then raise exception 'there is no merchant with this id' using errcode = 'SL404', detail = 'merchant'; end if;
end $$;
comment on function app.set_time_zone is 'Sets the time zone of a merchant, by its name in the IANA database.';
