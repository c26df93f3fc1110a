-- The lists of the dashboard as rows of files, of any size: page by page, each row with its place first. It reads, and changes nothing.
--
-- What may be asked for is what the lists take (lists.sql); of deliveries also their endpoint. The columns are named as in exports of analytics.
-- Errors: SLAUT there is no such session; SL404 there is no such user or endpoint; SL422 an amount without its token.

create or replace function dashboard.deposit_file(session_token text, filters jsonb, before numeric, size int) returns table (place numeric, deposit_id text,
  created_at timestamptz, finalised_at timestamptz, status text, chain text, token text, amount numeric, user_external_ref text, sender text,
  address text, txid text, output_index int, payout_id text)
language plpgsql stable security definer set search_path = pg_catalog as $$
declare merchant uuid := dashboard.merchant_of(session_token);
begin
  return query select d.position, app.public_id('dep', d.id), d.created_at, d.finalised_at, d.status, d.chain, d.token, analytics.coins(d.amount, a.decimals),
      u.external_ref, d.sender, d.address, d.txid, d.output_index, app.public_id('pay', d.settlement_id)
    from app.asked_deposits(merchant, dashboard.asked_of_deposits(merchant, filters), before, size) d
    join app.asset a on a.chain = d.chain and a.token = d.token join app.user u on u.id = d.user_id
    order by d.position desc;
end $$;
comment on function dashboard.deposit_file is 'Deposits of users as rows of a file, below a place.';
grant execute on function dashboard.deposit_file to sluice_dashboard;

create or replace function dashboard.payout_file(session_token text, filters jsonb, before numeric, size int) returns table (place bigint, payout_id text,
  created_at timestamptz, finished_at timestamptz, status text, chain text, token text, gross numeric, fee numeric, net numeric, address text,
  txid text, error_code text)
language plpgsql stable security definer set search_path = pg_catalog as $$
declare merchant uuid := dashboard.merchant_of(session_token);
begin
  return query select p.seq, app.public_id('pay', p.id), p.created_at, p.finished_at, p.status, p.chain, p.token, analytics.coins(p.gross, a.decimals),
      analytics.coins(p.fee, a.decimals), analytics.coins(p.net, a.decimals), p.address, p.txid, p.error_code
    from app.asked_payouts(merchant, dashboard.asked(merchant, filters), before::bigint, size) p
    join app.asset a on a.chain = p.chain and a.token = p.token order by p.seq desc;
end $$;
comment on function dashboard.payout_file is 'Payouts as rows of a file, below a place.';
grant execute on function dashboard.payout_file to sluice_dashboard;

create or replace function dashboard.payment_request_file(session_token text, filters jsonb, before numeric, size int) returns table (place bigint,
  external_id text, created_at timestamptz, expires_at timestamptz, paid_at timestamptz, cancelled_at timestamptz, status text, late boolean, chain text,
  token text, amount numeric, tolerance numeric, amount_received numeric, amount_pending numeric, shortfall numeric, address text, txid text, txids text,
  senders text)
language plpgsql stable security definer set search_path = pg_catalog as $$
declare merchant uuid := dashboard.merchant_of(session_token);
begin
  return query select r.seq, r.external_id, r.created_at, r.expires_at, r.paid_at, r.cancelled_at, r.status, r.late, r.chain, r.token,
      analytics.coins(r.amount, a.decimals), analytics.coins(r.tolerance, a.decimals), analytics.coins(r.received, a.decimals),
      analytics.coins(r.pending, a.decimals), analytics.coins(greatest(r.amount - r.received, 0), a.decimals), w.address, r.txid, c.txids, c.senders
    from app.asked_payment_requests(merchant, dashboard.asked(merchant, filters), before::bigint, size) r
    join app.asset a on a.chain = r.chain and a.token = r.token join app.address w on w.payment_request_id = r.id and w.chain = r.chain
    cross join lateral (select string_agg(i.txid, ' ' order by i.seq) as txids, string_agg(i.sender, ' ' order by i.seq) as senders
      from app.receipt i where i.payment_request_id = r.id) c
    order by r.seq desc;
end $$;
comment on function dashboard.payment_request_file is 'Payment requests as rows of a file, below a place: also the transactions and senders of all that came, in its order, with spaces between.';
grant execute on function dashboard.payment_request_file to sluice_dashboard;

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

create or replace function dashboard.user_file(session_token text, filters jsonb, before numeric, size int) returns table (place bigint, user_id text,
  external_ref text, created_at timestamptz, addresses text, metadata text)
language plpgsql stable security definer set search_path = pg_catalog as $$
declare merchant uuid := dashboard.merchant_of(session_token);
begin
  return query select u.seq, app.public_id('usr', u.id), u.external_ref, u.created_at, (select string_agg(w.chain || ':' || w.address, ' ' order by w.chain)
      from app.address w where w.user_id = u.id and w.is_provisioned), u.metadata::text
    from app.asked_users(merchant, dashboard.asked(merchant, filters), before::bigint, size) u order by u.seq desc;
end $$;
comment on function dashboard.user_file is 'Users as rows of a file, below a place.';
grant execute on function dashboard.user_file to sluice_dashboard;

create or replace function dashboard.delivery_file(session_token text, filters jsonb, before text, size int) returns table (place text, delivery_id text,
  event_id text, event_type text, status text, created_at timestamptz, finished_at timestamptz, next_attempt_at timestamptz, attempts bigint,
  response_status int, error text)
language plpgsql stable security definer set search_path = pg_catalog as $$
declare
  own app.webhook_endpoint := dashboard.own_endpoint(session_token, filters ->> 'endpoint');
  asked jsonb := dashboard.asked(own.merchant_id, filters) || jsonb_build_object('endpoint', own.id);
begin
  return query select app.public_id('dlv', d.id), app.public_id('dlv', d.id), app.event_id(e.id, e.is_test), e.type, d.status, d.created_at, d.finished_at,
      d.next_attempt_at, t.number, t.last_status, t.last_error
    from app.asked_deliveries(own.merchant_id, asked, dashboard.uuid_of('dlv', before), size) d join app.event e on e.id = d.event_id
    cross join lateral (select count(*) as number, (array_agg(i.response_status order by i.id desc))[1] as last_status,
      (array_agg(i.error order by i.id desc))[1] as last_error from app.delivery_attempt i where i.delivery_id = d.id) t
    order by d.id desc;
end $$;
comment on function dashboard.delivery_file is 'Deliveries to an endpoint as rows of a file, below one of them: how often each was sent, and what the last attempt met.';
grant execute on function dashboard.delivery_file to sluice_dashboard;

create or replace function dashboard.audit_file(session_token text, filters jsonb, before text, size int) returns table (place text, at timestamptz, person text,
  action text, outcome text, target text, detail text, ip text)
language plpgsql stable security definer set search_path = pg_catalog as $$
begin
  return query select e.id::text, e.at, u.email, e.action, e.outcome, e.target, e.detail, e.ip
    from dashboard.asked_entries(dashboard.merchant_of(session_token), filters, before, size) e left join auth."user" u on u.id = e.user_id
    order by e.id desc;
end $$;
comment on function dashboard.audit_file is 'The merchant''s entries of the audit log as rows of a file, below a place.';
grant execute on function dashboard.audit_file to sluice_dashboard;
