-- The lists of the dashboard, page by page (files.sql has them as rows of files). It reads, and changes nothing.
--
-- What may be asked for is what db/functions/reading takes, as JSON: status (a list), chain, token, amount_from, amount_to, sender, address; but a user by
-- its id or reference, and from, to, paid_from and paid_to as days, all included, in the merchant's time zone. Of users it is the beginning of a
-- reference and days, of the audit log what dashboard.asked_entries says.
-- Promises: a page is what the API would show, in the same order.
-- Errors: SLAUT there is no such session; SL404 there is no such user or endpoint; SL422 an amount without its token.

create or replace function dashboard.begin_of_day(merchant uuid, day text, days_later int default 0) returns timestamptz
language sql stable set search_path = pg_catalog as $$
  select (day::date + days_later)::timestamp at time zone m.time_zone from app.merchant m where m.id = merchant
$$;
comment on function dashboard.begin_of_day is 'When a day begins where the merchant is; or so many days later. Null if no day is given.';

create or replace function dashboard.asked(merchant uuid, filters jsonb) returns jsonb
language sql stable set search_path = pg_catalog as $$
  select jsonb_strip_nulls(filters - '{from,to,paid_from,paid_to,user}'::text[] || jsonb_build_object('created_from', since, 'created_to', until,
    'paid_from', dashboard.begin_of_day(merchant, filters ->> 'paid_from'), 'paid_to', dashboard.begin_of_day(merchant, filters ->> 'paid_to', 1),
    'from', app.deposit_place(since), 'to', app.deposit_place(until),
    'user', case when filters ->> 'user' is not null then dashboard.asked_user(merchant, filters ->> 'user') end))
  from dashboard.begin_of_day(merchant, filters ->> 'from') since, dashboard.begin_of_day(merchant, filters ->> 'to', 1) until
$$;
comment on function dashboard.asked is 'What is asked for, as the functions of db/functions/reading take it.';

create or replace function app.deposit_place(at timestamptz) returns numeric
language sql immutable strict parallel safe
return (extract(epoch from at) * 1000000)::bigint * 9223372036854775808;
comment on function app.deposit_place is 'The place before all deposits (app.deposit.position) that were first seen at a time or later.';

create or replace function dashboard.asked_user(merchant uuid, given text) returns uuid
language plpgsql stable set search_path = pg_catalog as $$
declare found_id uuid;
begin
  select u.id into found_id from app.user u where u.merchant_id = merchant
    and (u.id = dashboard.uuid_of('usr', given) or u.external_ref = app.user_ref(merchant, given));
  if found_id is null then raise exception 'there is no user with this id or reference' using errcode = 'SL404', detail = 'user'; end if;
  return found_id;
end $$;
comment on function dashboard.asked_user is 'The user of this merchant with this id or reference.';

-- An address is that of a user, in any form of the chain.
create or replace function dashboard.asked_of_deposits(merchant uuid, filters jsonb) returns jsonb
language plpgsql stable set search_path = pg_catalog as $$
declare
  asked jsonb := dashboard.asked(merchant, filters);
  found_user uuid;
  found_address text;
begin
  if asked ->> 'address' is null then return asked; end if;
  select w.user_id, w.address into found_user, found_address from app.chain c
  join app.address w on w.chain = c.chain and w.match_key = app.match_key(asked ->> 'address', c.folds_addresses)
  where w.merchant_id = merchant and w.user_id is not null and coalesce(w.user_id = (asked ->> 'user')::uuid, true) limit 1;
  if found_user is null then raise exception 'there is no user with this address' using errcode = 'SL404', detail = 'user'; end if;
  return asked || jsonb_build_object('user', found_user, 'address', found_address);
end $$;
comment on function dashboard.asked_of_deposits is 'What is asked for of deposits, as app.asked_deposits takes it.';

create or replace function dashboard.deposit_list(token text, filters jsonb, before text, size int) returns json
language plpgsql stable security definer set search_path = pg_catalog as $$
declare merchant uuid := dashboard.merchant_of(token);
begin
  return (select dashboard.page(array_agg(d.item order by d.place desc), array_agg(d.place::text order by d.place desc), size)
    from app.read_deposits(merchant, dashboard.asked_of_deposits(merchant, filters), before::numeric, size + 1) d);
end $$;
comment on function dashboard.deposit_list is 'A page of the deposits of users, the newest first. before: where the page begins.';
grant execute on function dashboard.deposit_list to sluice_dashboard;

create or replace function dashboard.payout_list(token text, filters jsonb, before text, size int) returns json
language plpgsql stable security definer set search_path = pg_catalog as $$
declare merchant uuid := dashboard.merchant_of(token);
begin
  return dashboard.payouts_of(merchant, dashboard.asked(merchant, filters), before, size);
end $$;
comment on function dashboard.payout_list is 'A page of the payouts, the newest first.';
grant execute on function dashboard.payout_list to sluice_dashboard;

create or replace function dashboard.payment_request_list(token text, filters jsonb, before text, size int) returns json
language plpgsql stable security definer set search_path = pg_catalog as $$
declare merchant uuid := dashboard.merchant_of(token);
begin
  return (select dashboard.page(array_agg(r.item order by r.place desc), array_agg(r.place::text order by r.place desc), size)
    from app.read_payment_requests(merchant, dashboard.asked(merchant, filters), least(before::numeric, 9223372036854775807)::bigint, size + 1) r);
end $$;
comment on function dashboard.payment_request_list is 'A page of the payment requests, the newest first.';
grant execute on function dashboard.payment_request_list to sluice_dashboard;

create or replace function dashboard.delivery_list(token text, endpoint text, filters jsonb, before text, size int) returns json
language plpgsql stable security definer set search_path = pg_catalog as $$
declare
  own app.webhook_endpoint := dashboard.own_endpoint(token, endpoint);
  asked jsonb := dashboard.asked(own.merchant_id, filters) || jsonb_build_object('endpoint', own.id);
begin
  return (select dashboard.page(array_agg(dashboard.delivery_item(d) order by d.id desc), array_agg(app.public_id('dlv', d.id) order by d.id desc), size)
    from app.asked_deliveries(own.merchant_id, asked, dashboard.uuid_of('dlv', before), size + 1) d);
end $$;
comment on function dashboard.delivery_list is 'A page of the deliveries to an endpoint, the newest first.';
grant execute on function dashboard.delivery_list to sluice_dashboard;

-- Entries of tries with an e-mail address that nobody has belong to no merchant.
create or replace function dashboard.asked_entries(merchant uuid, filters jsonb, before text, size int) returns setof dashboard.audit_entry
language sql stable rows 50 set search_path = pg_catalog as $$
  select e.* from dashboard.audit_entry e where e.merchant_id = merchant and e.id < least(coalesce(before::numeric, 9223372036854775807), 9223372036854775807)::bigint
    and e.at >= coalesce(dashboard.begin_of_day(merchant, filters ->> 'from'), '-infinity')
    and e.at < coalesce(dashboard.begin_of_day(merchant, filters ->> 'to', 1), 'infinity')
    and (filters ->> 'action' is null or (e.action = filters ->> 'action' or starts_with(e.action, (filters ->> 'action') || '.')))
    and (filters ->> 'person' is null or e.user_id in (select u.id from auth."user" u where u.email = lower(filters ->> 'person')))
  order by e.id desc limit size
$$;
comment on function dashboard.asked_entries is 'The entries of the audit log that are asked for, below a place, the newest first: from and to (days), action (what stands before its point, such as payout) and person (an e-mail address).';

create or replace function dashboard.audit_list(token text, filters jsonb, before text, size int) returns json
language plpgsql stable security definer set search_path = pg_catalog as $$
declare merchant uuid := dashboard.merchant_of(token);
begin
  return (select dashboard.page(array_agg(json_build_object('at', app.iso(e.at), 'person', u.email, 'action', e.action, 'target', e.target,
      'detail', e.detail, 'ip', e.ip, 'outcome', e.outcome) order by e.id desc), array_agg(e.id::text order by e.id desc), size)
    from dashboard.asked_entries(merchant, filters, before, size + 1) e left join auth."user" u on u.id = e.user_id);
end $$;
comment on function dashboard.audit_list is 'A page of the merchant''s entries of the audit log, the newest first.';
grant execute on function dashboard.audit_list to sluice_dashboard;

create or replace function dashboard.statements(token text, from_day text, to_day text) returns json
language plpgsql stable security definer set search_path = pg_catalog as $$
declare merchant uuid := dashboard.merchant_of(token);
begin
  return app.read_statements(merchant, null, null, dashboard.begin_of_day(merchant, from_day), dashboard.begin_of_day(merchant, to_day, 1));
end $$;
comment on function dashboard.statements is 'The statements of some days, both included, in the merchant''s time zone.';
grant execute on function dashboard.statements to sluice_dashboard;

create or replace function dashboard.statement_list(token text, filters jsonb, before text, size int) returns json
language plpgsql stable security definer set search_path = pg_catalog as $$
declare merchant uuid := dashboard.merchant_of(token);
begin
  return (select dashboard.page(array_agg(l.item order by l.place desc), array_agg(l.place::text order by l.place desc), size)
    from app.read_lines(merchant, dashboard.statement_asked(merchant, filters), least(before::numeric, 340282366920938463463374607431768211455), size + 1) l);
end $$;
comment on function dashboard.statement_list is 'A page of the lines of the statements of some days, the newest first.';
grant execute on function dashboard.statement_list to sluice_dashboard;

create or replace function dashboard.statement_asked(merchant uuid, filters jsonb) returns jsonb
language sql stable set search_path = pg_catalog as $$
  select jsonb_build_object('chain', filters ->> 'chain', 'token', filters ->> 'token',
    'from', dashboard.begin_of_day(merchant, filters ->> 'from'), 'to', dashboard.begin_of_day(merchant, filters ->> 'to', 1))
$$;
comment on function dashboard.statement_asked is 'What is asked for of statements, as db/functions/reading/statements.sql takes it.';
