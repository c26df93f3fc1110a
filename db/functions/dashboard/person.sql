-- Who is behind a session, and what a form may do. Every function that sluice_dashboard may call begins here.
--
-- The process of the pages has no access to any table: a function takes the token of a session, and finds the person and the merchant by it. So
-- without a live session, in which a second factor was shown, nothing is read or changed, whatever the process sends.
-- A form that changes something has an id of its own (dashboard.change_request): the same form sent again, as by reloading a page, is refused.
-- Locks: change_request, then those of the function that does the work.
-- What moves money, gives access, or decides who learns of it (dashboard.require_full_rights) also needs a second factor of the last ten minutes, and a
-- merchant who is not suspended; what ends something (a key, an endpoint) does not.
-- Errors: SLAUT there is no such session; SLSTP the second factor was shown too long ago; SLSUS the merchant is suspended; SLDUP the form was sent already.

create or replace function dashboard.person(token text, out user_id uuid, out merchant_id uuid, out ip text, out is_fresh boolean)
language plpgsql stable set search_path = pg_catalog as $$
begin
  select m.user_id, m.merchant_id, s."ipAddress", s."secondFactorAt" > now() - interval '10 minutes'
  into user_id, merchant_id, ip, is_fresh
  from auth.session s join dashboard.member m on m.user_id = s."userId"
  where s.token = person.token and s."expiresAt" > now() and s."secondFactorAt" is not null;
  if not found then raise exception 'sign in, and show a second factor' using errcode = 'SLAUT'; end if;
end $$;
comment on function dashboard.person is 'The person and the merchant of a live session, where the person signed in, and whether the second factor was shown within ten minutes; raises SLAUT if there is none.';

create or replace function dashboard.merchant_of(token text) returns uuid
language sql stable set search_path = pg_catalog as $$
  select p.merchant_id from dashboard.person(merchant_of.token) p
$$;
comment on function dashboard.merchant_of is 'The merchant of a live session; raises SLAUT if there is none.';

create or replace function dashboard.refuse_suspended(merchant uuid) returns void
language plpgsql stable set search_path = pg_catalog as $$
begin
  if exists (select from app.merchant m where m.id = merchant and m.suspended_at is not null) then
    raise exception 'the operator has suspended this account; ask the operator why' using errcode = 'SLSUS';
  end if;
end $$;
comment on function dashboard.refuse_suspended is 'Raises SLSUS if the merchant is suspended.';

create or replace function dashboard.require_full_rights(token text) returns void
language plpgsql stable security definer set search_path = pg_catalog as $$
declare who record;
begin
  select * into who from dashboard.person(require_full_rights.token);
  perform dashboard.refuse_suspended(who.merchant_id);
  if not who.is_fresh then raise exception 'show the second factor again' using errcode = 'SLSTP'; end if;
end $$;
comment on function dashboard.require_full_rights is 'Raises SLSUS if the merchant is suspended, and SLSTP unless the second factor was shown within ten minutes.';
grant execute on function dashboard.require_full_rights to sluice_dashboard;

create or replace function dashboard.begin_change(token text, request uuid) returns dashboard.audit_entry
language plpgsql set search_path = pg_catalog as $$
declare
  who record;
  entry dashboard.audit_entry;
begin
  select * into who from dashboard.person(begin_change.token);
  insert into dashboard.change_request (id, user_id) values (request, who.user_id) on conflict do nothing;
  if not found then raise exception 'this form was sent already' using errcode = 'SLDUP'; end if;
  entry.merchant_id := who.merchant_id;
  entry.user_id := who.user_id;
  entry.ip := who.ip;
  return entry;
end $$;
comment on function dashboard.begin_change is 'Takes the id of a form, once; returns who sent it, for dashboard.note.';

create or replace function dashboard.note(who dashboard.audit_entry, action text, target text, detail text default null) returns void
language sql set search_path = pg_catalog as $$
  insert into dashboard.audit_entry (merchant_id, user_id, ip, action, target, detail)
  values (who.merchant_id, who.user_id, who.ip, note.action, note.target, note.detail)
$$;
comment on function dashboard.note is 'Adds a change to the audit log, in the transaction that makes it.';

create or replace function dashboard.refuse_change() returns trigger
language plpgsql set search_path = pg_catalog as $$
begin
  raise exception 'the audit log is only added to';
end $$;
comment on function dashboard.refuse_change is 'Trigger: the audit log is only added to, even by the owner.';
create or replace trigger only_added_to before update or delete or truncate on dashboard.audit_entry
  for each statement execute function dashboard.refuse_change();

create or replace function dashboard.me(token text) returns json
language sql stable security definer set search_path = pg_catalog as $$
  select json_build_object('email', u.email, 'name', u.name, 'merchant_name', m.name, 'merchant_prefix', m.prefix, 'fee_bps', m.fee_bps, 'time_zone', m.time_zone,
    'suspended', m.suspended_at is not null, 'is_fresh', p.is_fresh,
    'chains', array(select c.chain from app.merchant_chain c where c.merchant_id = m.id and c.enabled order by c.chain),
    'networks', (select coalesce(json_agg(distinct c.network), '[]') from app.merchant_chain o join chain.cursor c on c.chain = o.chain
      where o.merchant_id = m.id and o.enabled))
  from dashboard.person(me.token) p join auth."user" u on u.id = p.user_id join app.merchant m on m.id = p.merchant_id
$$;
comment on function dashboard.me is 'The person of a session, and the merchant.';
grant execute on function dashboard.me to sluice_dashboard;

create or replace function dashboard.set_time_zone(token text, request uuid, zone text) returns void
language plpgsql security definer set search_path = pg_catalog as $$
declare who dashboard.audit_entry := dashboard.begin_change(token, request);
begin
  perform app.set_time_zone(who.merchant_id, zone);
  perform dashboard.note(who, 'time_zone.set', null, zone);
end $$;
comment on function dashboard.set_time_zone is 'Sets the time zone of the merchant.';
grant execute on function dashboard.set_time_zone to sluice_dashboard;

create or replace function dashboard.page(items json[], positions text[], size int) returns json
language sql immutable set search_path = pg_catalog as $$
  select json_build_object('items', coalesce(array_to_json(items[:size]), '[]'), 'next', case when cardinality(items) > size then positions[size] end)
$$;
comment on function dashboard.page is 'A page of a list, from one item more than it has: the items, and where the next page begins; null on the last one.';
