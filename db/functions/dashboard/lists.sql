-- The lists of the dashboard, page by page, and their rows for files. It reads, and changes nothing.
--
-- What may be asked for is what db/functions/reading takes, as JSON: status (a list), chain, token, amount_from, amount_to, sender, address; but a user by
-- its id or reference, and from, to, paid_from and paid_to as days, all included, in the merchant's time zone.
-- Promises: a page is what the API would show, in the same order. Rows of files have the place of each first; a file is read page by page, so that it
-- may be of any size.
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

create or replace function dashboard.deposit_list(token text, filters jsonb, before text, size int) returns json
language plpgsql stable security definer set search_path = pg_catalog as $$
declare merchant uuid := dashboard.merchant_of(token);
begin
  return (select dashboard.page(array_agg(d.item order by d.place desc), array_agg(d.place::text order by d.place desc), size)
    from app.read_deposits(merchant, dashboard.asked(merchant, filters), before::numeric, size + 1) d);
end $$;
comment on function dashboard.deposit_list is 'A page of the deposits of users, the newest first. before: where the page begins.';
grant execute on function dashboard.deposit_list to sluice_dashboard;

create or replace function dashboard.deposit_rows(token text, filters jsonb, before numeric, size int) returns table (place numeric, deposit_id text,
  created_at timestamptz, finalised_at timestamptz, status text, chain text, currency text, amount numeric, user_external_ref text, sender text,
  address text, txid text, output_index int, payout_id text)
language plpgsql stable security definer set search_path = pg_catalog as $$
declare merchant uuid := dashboard.merchant_of(token);
begin
  return query select d.position, app.public_id('dep', d.id), d.created_at, d.finalised_at, d.status, d.chain, d.token, analytics.coins(d.amount, a.decimals),
      u.external_ref, d.sender, d.address, d.txid, d.output_index, app.public_id('pay', d.settlement_id)
    from app.asked_deposits(merchant, dashboard.asked(merchant, filters), before, size) d
    join app.asset a on a.chain = d.chain and a.token = d.token join app.user u on u.id = d.user_id
    order by d.position desc;
end $$;
comment on function dashboard.deposit_rows is 'The same as rows of a file.';
grant execute on function dashboard.deposit_rows to sluice_dashboard;

create or replace function dashboard.payout_list(token text, filters jsonb, before text, size int) returns json
language plpgsql stable security definer set search_path = pg_catalog as $$
declare merchant uuid := dashboard.merchant_of(token);
begin
  return dashboard.payouts_of(merchant, dashboard.asked(merchant, filters), before, size);
end $$;
comment on function dashboard.payout_list is 'A page of the payouts, the newest first.';
grant execute on function dashboard.payout_list to sluice_dashboard;

create or replace function dashboard.payout_rows(token text, filters jsonb, before numeric, size int) returns table (place bigint, payout_id text,
  created_at timestamptz, finished_at timestamptz, status text, chain text, currency text, gross numeric, fee numeric, net numeric, address text,
  txid text, error_code text)
language plpgsql stable security definer set search_path = pg_catalog as $$
declare merchant uuid := dashboard.merchant_of(token);
begin
  return query select p.seq, app.public_id('pay', p.id), p.created_at, p.finished_at, p.status, p.chain, p.token, analytics.coins(p.gross, a.decimals),
      analytics.coins(p.fee, a.decimals), analytics.coins(p.net, a.decimals), p.address, p.txid, p.error_code
    from app.asked_payouts(merchant, dashboard.asked(merchant, filters), before::bigint, size) p
    join app.asset a on a.chain = p.chain and a.token = p.token order by p.seq desc;
end $$;
comment on function dashboard.payout_rows is 'The same as rows of a file.';
grant execute on function dashboard.payout_rows to sluice_dashboard;

create or replace function dashboard.payment_request_list(token text, filters jsonb, before text, size int) returns json
language plpgsql stable security definer set search_path = pg_catalog as $$
declare merchant uuid := dashboard.merchant_of(token);
begin
  return (select dashboard.page(array_agg(r.item order by r.place desc), array_agg(r.place::text order by r.place desc), size)
    from app.read_payment_requests(merchant, dashboard.asked(merchant, filters), least(before::numeric, 9223372036854775807)::bigint, size + 1) r);
end $$;
comment on function dashboard.payment_request_list is 'A page of the payment requests, the newest first.';
grant execute on function dashboard.payment_request_list to sluice_dashboard;

create or replace function dashboard.payment_request_rows(token text, filters jsonb, before numeric, size int) returns table (place bigint, external_id text,
  created_at timestamptz, expires_at timestamptz, paid_at timestamptz, status text, late boolean, chain text, currency text, amount numeric,
  tolerance numeric, amount_received numeric, amount_pending numeric, address text, txid text)
language plpgsql stable security definer set search_path = pg_catalog as $$
declare merchant uuid := dashboard.merchant_of(token);
begin
  return query select r.seq, r.external_id, r.created_at, r.expires_at, r.paid_at, r.status, r.late, r.chain, r.token, analytics.coins(r.amount, a.decimals),
      analytics.coins(r.tolerance, a.decimals), analytics.coins(r.received, a.decimals), analytics.coins(r.pending, a.decimals), w.address, r.txid
    from app.asked_payment_requests(merchant, dashboard.asked(merchant, filters), before::bigint, size) r
    join app.asset a on a.chain = r.chain and a.token = r.token join app.address w on w.payment_request_id = r.id and w.chain = r.chain
    order by r.seq desc;
end $$;
comment on function dashboard.payment_request_rows is 'The same as rows of a file.';
grant execute on function dashboard.payment_request_rows to sluice_dashboard;

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

create or replace function dashboard.audit_list(token text, filters jsonb, before text, size int) returns json
language plpgsql stable security definer set search_path = pg_catalog as $$
declare
  merchant uuid := dashboard.merchant_of(token);
  since timestamptz := coalesce(dashboard.begin_of_day(merchant, filters ->> 'from'), '-infinity');
  until timestamptz := coalesce(dashboard.begin_of_day(merchant, filters ->> 'to', 1), 'infinity');
begin
  return (select dashboard.page(array_agg(json_build_object('at', app.iso(e.at), 'person', u.email, 'action', e.action, 'target', e.target,
      'detail', e.detail, 'ip', e.ip, 'outcome', e.outcome) order by e.id desc), array_agg(e.id::text order by e.id desc), size)
    from (select * from dashboard.audit_entry o where o.merchant_id = merchant and o.id < least(before::numeric, 9223372036854775807)::bigint
      and o.at >= since and o.at < until order by o.id desc limit size + 1) e
    left join auth."user" u on u.id = e.user_id);
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

create or replace function dashboard.statement_file(session_token text, filters jsonb, after text, size int) returns table (place text, chain text, token text,
  created_at timestamptz, type text, amount numeric, deposit_id text, user_external_ref text, external_id text, payout_id text, txid text,
  payout_address text, payout_status text, day date)
language plpgsql stable security definer set search_path = pg_catalog as $$
declare merchant uuid := dashboard.merchant_of(session_token);
begin
  return query select * from app.statement_file(merchant, dashboard.statement_asked(merchant, filters), after, size);
end $$;
comment on function dashboard.statement_file is 'A statement as rows of a file (app.statement_file).';
grant execute on function dashboard.statement_file to sluice_dashboard;
