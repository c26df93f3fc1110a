-- Statements of a merchant: what its balances were at the beginning and the end of a period, what changed them, and every line behind that. Also its
-- balances at a time in the past. The API, the dashboard and the command line read them here. It reads, and changes nothing.
--
-- Promises: opening balance + what changed it = closing balance, and each sum is that of its lines, to the last unit; both are by the time of posting
-- (app.posting_time), which never changes; a transaction that is under way may post to a period that has ended some seconds ago. Sums cost a few rows for each asset, whatever the period; a page of lines reads what it shows, by an index that has it in order.
-- Errors: SLINV a time is no whole quarter of an hour, or not past; SL422 that is not known of a time so long ago; SL503 totals are being made.

create or replace function app.read_statements(of_merchant uuid, of_chain text, of_token text, since timestamptz, until timestamptz) returns json
language plpgsql stable security definer set search_path = pg_catalog as $$
begin
  perform app.require_totals();
  perform app.require_quarter('from', since);
  perform app.require_quarter('to', until);
  return (select coalesce(json_agg(i order by i.chain, i.token), '[]') from app.asset a
    cross join lateral app.statement_sums(of_merchant, a.chain || ':' || a.token, since, until) s
    cross join lateral (select coalesce(sum(p.net), 0) as net from (
      select p.net, p.created_at from app.payout p where p.merchant_id = of_merchant and p.chain = a.chain and p.token = a.token and p.finished_at >= until
      union all
      select p.net, p.created_at from app.payout p where p.merchant_id = of_merchant and p.chain = a.chain and p.token = a.token and p.finished_at is null) p
      where p.created_at < until) w
    cross join lateral (select a.chain, a.token, app.decimal(s.opening, a.decimals) as opening_balance, app.decimal(s.deposits, a.decimals) as deposits,
      app.decimal(s.deposits_lost, a.decimals) as deposits_lost, app.decimal(s.payouts, a.decimals) as payouts, app.decimal(s.fees, a.decimals) as fees,
      app.decimal(s.adjustments, a.decimals) as adjustments,
      app.decimal(s.opening + s.deposits + s.deposits_lost + s.payouts + s.fees + s.adjustments, a.decimals) as closing_balance,
      app.decimal(s.held_back, a.decimals) as held_back,
      app.decimal(w.net, a.decimals) as payouts_under_way) i
    where coalesce(a.chain = of_chain, true) and coalesce(a.token = of_token, true)
      and (s.opening, s.deposits, s.deposits_lost, s.payouts, s.fees, s.adjustments, w.net) <> (0, 0, 0, 0, 0, 0, 0));
end $$;
comment on function app.read_statements is 'For each asset that had a balance, or movements, in a period: the balance before, what changed it by kind (below zero: what left), the balance after, how much of that was held back (null where that is not known), and the net of the payouts that had not ended then.';
grant execute on function app.read_statements to sluice_api;

create or replace function app.statement_sums(of_merchant uuid, asset text, since timestamptz, until timestamptz, out opening numeric, out deposits numeric,
  out deposits_lost numeric, out payouts numeric, out fees numeric, out adjustments numeric, out held_back numeric)
language sql stable set search_path = pg_catalog as $$
  select sum(b.amount), sum(e.amount - b.amount) filter (where s.series = 'deposit'), sum(e.amount - b.amount) filter (where s.series = 'deposit_lost'),
    sum(e.amount - b.amount) filter (where s.series = 'payout'), sum(e.amount - b.amount) filter (where s.series = 'fee'),
    sum(e.amount - b.amount) filter (where s.series = 'adjustment'),
    (select h.amount from app.total_backfill f, app.total_at(of_merchant, 'held_back', asset, until) h where until > f.since)
  from unnest('{deposit,deposit_lost,payout,fee,adjustment}'::text[]) s (series)
  cross join lateral app.total_at(of_merchant, s.series, asset, since) b
  cross join lateral app.total_at(of_merchant, s.series, asset, until) e
$$;
comment on function app.statement_sums is 'The sums of a period of one asset, in base units.';

-- Of one moment there may be several entries, and of an entry several lines: 52 bits of microseconds (until 2112), 42 of the entry, 34 of the line.
create or replace function app.line_place(l app.statement_line) returns numeric
language sql immutable parallel safe
return (extract(epoch from l.at) * 1000000)::bigint * 75557863725914323419136 + l.entry::numeric * 17179869184 + l.part;
comment on function app.line_place is 'The place of a line in lists: its time, its entry, and its place in that.';

create or replace function app.asked_lines(of_merchant uuid, asked jsonb, below numeric, size int) returns setof app.statement_line
language plpgsql stable rows 50 set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
declare
  since timestamptz := coalesce((asked ->> 'from')::timestamptz, '-infinity');
  until timestamptz := coalesce((asked ->> 'to')::timestamptz, 'infinity');
  last_at timestamptz := 'infinity';
  last_entry bigint := 0;
  last_part bigint := 0;
  entries bigint[];
begin
  if below is not null then
    last_at := timestamptz '1970-01-01 00:00:00+00' + div(below, 75557863725914323419136)::bigint * interval '1 microsecond';
    last_entry := mod(div(below, 17179869184), 4398046511104);
    last_part := mod(below, 17179869184);
  end if;
  -- Each entry has a line at least, so that as many entries as lines are asked for are enough, and one that the page before has begun. They are found
  -- first: the planner would rather make all lines of the period and sort them.
  entries := array(select e.id from app.asset a
    cross join lateral (select o.id, o.created_at from app.ledger_entry o where o.account = 'merchant' and o.merchant_id = of_merchant
      and o.chain = a.chain and o.token = a.token and o.created_at >= since and o.created_at < until
      and (o.created_at, o.id) <= (last_at, last_entry) order by o.created_at desc, o.id desc limit size + 1) e
    where coalesce(a.chain = asked ->> 'chain', true) and coalesce(a.token = asked ->> 'token', true)
    order by e.created_at desc, e.id desc limit size + 1);
  return query select * from app.statement_line l where l.entry = any(entries) and (l.at, l.entry, l.part) < (last_at, last_entry, last_part)
    order by l.at desc, l.entry desc, l.part desc limit size;
end $$;
comment on function app.asked_lines is 'The lines of a period that are asked for, below a place, the newest first.';

create or replace function app.line_item(l app.statement_line) returns json
language sql stable set search_path = pg_catalog as $$
  select row_to_json(i) from app.asset a
  left join app.deposit d on d.id = l.deposit_id
  left join app.user u on u.id = d.user_id
  left join app.payment_request r on r.id = d.payment_request_id
  left join app.payout p on p.id = l.payout_id
  cross join lateral (select app.iso(l.at) as created_at, l.chain, l.token, l.type, app.decimal(l.amount, a.decimals) as amount,
    case when d.user_id is not null then app.public_id('dep', d.id) end as deposit_id, app.public_id('usr', d.user_id) as user_id, u.external_ref,
    r.external_id, app.public_id('pay', l.payout_id) as payout_id, coalesce(d.txid, p.txid) as txid) i
  where a.chain = l.chain and a.token = l.token
$$;
comment on function app.line_item is 'A line of a statement, as its merchant sees it.';

create or replace function app.read_lines(of_merchant uuid, asked jsonb, below numeric, size int) returns table (place numeric, item json)
language sql stable security definer rows 50 set search_path = pg_catalog as $$
  select app.line_place(l), app.line_item(l) from app.asked_lines(of_merchant, asked, below, size) l order by l.at desc, l.entry desc, l.part desc
$$;
comment on function app.read_lines is 'The lines of a statement, below a place, the newest first: the place of each, and its JSON. What may be asked for, as JSON: chain, token, and from and to (moments; from is included, to is not).';
grant execute on function app.read_lines to sluice_api;

create or replace function app.read_balances_at(of_merchant uuid, at timestamptz) returns json
language plpgsql stable security definer set search_path = pg_catalog as $$
declare known_since timestamptz := (select f.since from app.total_backfill f);
begin
  perform app.require_totals();
  perform app.require_quarter('at', at);
  if at > statement_timestamp() - interval '1 minute' then -- what is being posted may be of a moment before
    raise exception 'must be at least a minute ago' using errcode = 'SLINV', detail = 'at';
  end if;
  if at <= known_since then
    raise exception 'balances are known from % on; GET /v1/statements has what was before', app.iso(app.end_of_quarter(known_since)) using errcode = 'SL422';
  end if;
  return (select row_to_json(r) from (select f.amount::int as fee_bps, (select coalesce(json_agg(i order by i.chain, i.token), '[]') from app.asset a
      cross join lateral app.total_at(of_merchant, 'balance', a.chain || ':' || a.token, at) b
      cross join lateral app.total_at(of_merchant, 'held_back', a.chain || ':' || a.token, at) h
      cross join lateral (select div(greatest(b.amount - h.amount, 0) * f.amount, 10000) as fee) c
      cross join lateral (select a.chain, a.token, app.decimal(b.amount, a.decimals) as gross, app.decimal(c.fee, a.decimals) as fee,
        app.decimal(b.amount - h.amount - c.fee, a.decimals) as net, app.decimal(h.amount, a.decimals) as held_back, b.count as "depositCount") i
      where b.amount <> 0 or b.count <> 0 or h.amount <> 0) as balances
    from app.total_at(of_merchant, 'fee_bps', '', at) f) r);
end $$;
comment on function app.read_balances_at is 'The fee and the balances of a merchant at a time, as app.read_balances shows those of now.';
grant execute on function app.read_balances_at to sluice_api;

create or replace function app.lines_after(of_merchant uuid, of_chain text, of_token text, since timestamptz, until timestamptz, above numeric, size int)
returns setof app.statement_line
language plpgsql stable rows 1000 set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
declare
  last_at timestamptz := timestamptz '1970-01-01 00:00:00+00' + div(above, 75557863725914323419136)::bigint * interval '1 microsecond';
  last_entry bigint := mod(div(above, 17179869184), 4398046511104);
  last_part bigint := mod(above, 17179869184);
  entries bigint[];
begin
  -- As in app.asked_lines.
  entries := array(select o.id from app.ledger_entry o where o.account = 'merchant' and o.merchant_id = of_merchant and o.chain = of_chain
    and o.token = of_token and o.created_at >= since and o.created_at < until and (o.created_at, o.id) >= (last_at, last_entry)
    order by o.created_at, o.id limit size + 1);
  return query select * from app.statement_line l where l.entry = any(entries) and (l.at, l.entry, l.part) > (last_at, last_entry, last_part)
    order by l.at, l.entry, l.part limit size;
end $$;
comment on function app.lines_after is 'The lines of a period of one asset, above a place (0: all), the oldest first.';

-- Of each asset: the balance at the beginning, its lines as they happened, their sums by kind, what was held back and under way at the end, and the
-- balance then. Adding up the column of amounts makes sense within one type alone.
create or replace function app.statement_file(of_merchant uuid, asked jsonb, after text, size int) returns table (place text, chain text, token text,
  created_at timestamptz, type text, amount numeric, deposit_id text, user_external_ref text, external_id text, payout_id text, txid text,
  payout_address text, payout_status text, day date)
language plpgsql stable security definer rows 1000 set search_path = pg_catalog as $$
declare
  since constant timestamptz := asked ->> 'from';
  until constant timestamptz := asked ->> 'to';
  zone constant text := (select m.time_zone from app.merchant m where m.id = of_merchant);
  last_day constant date := (until - interval '1 microsecond') at time zone zone;
  last_chain constant text := split_part(after, ' ', 1);
  last_token constant text := split_part(after, ' ', 2);
  last_line constant text := split_part(after, ' ', 3);
  s json;
  is_begun boolean;
  asset text;
  lines int;
begin
  if since >= until then raise exception 'must be after the beginning' using errcode = 'SLINV', detail = 'to'; end if;
  select a.value into s from json_array_elements(app.read_statements(of_merchant, asked ->> 'chain', asked ->> 'token', since, until))
    with ordinality a (value, n)
  where after is null or (a.value ->> 'chain', a.value ->> 'token') > (last_chain, last_token)
    or ((a.value ->> 'chain', a.value ->> 'token') = (last_chain, last_token) and last_line <> 'end')
  order by a.n limit 1;
  if s is null then return; end if;
  is_begun := coalesce((s ->> 'chain', s ->> 'token') = (last_chain, last_token), false);
  asset := (s ->> 'chain') || ' ' || (s ->> 'token');
  if not is_begun then
    return query select asset || ' 0', s ->> 'chain', s ->> 'token', since, 'opening_balance', (s ->> 'opening_balance')::numeric, null::text, null::text,
      null::text, null::text, null::text, null::text, null::text, (since at time zone zone)::date;
  end if;
  return query select asset || ' ' || app.line_place(l), l.chain, l.token, l.at, l.type, analytics.coins(l.amount, a.decimals),
      case when d.user_id is not null then app.public_id('dep', d.id) end, u.external_ref, r.external_id, app.public_id('pay', l.payout_id),
      coalesce(d.txid, p.txid), p.address, p.status, (l.at at time zone zone)::date
    from app.lines_after(of_merchant, s ->> 'chain', s ->> 'token', since, until, case when is_begun then last_line::numeric else 0 end, size) l
    join app.asset a on a.chain = l.chain and a.token = l.token
    left join app.deposit d on d.id = l.deposit_id
    left join app.user u on u.id = d.user_id
    left join app.payment_request r on r.id = d.payment_request_id
    left join app.payout p on p.id = l.payout_id
    order by l.at, l.entry, l.part;
  get diagnostics lines = row_count;
  if lines = size then return; end if;
  return query select asset || ' end', s ->> 'chain', s ->> 'token', until, k.type, (s ->> k.field)::numeric, null::text, null::text, null::text,
      null::text, null::text, null::text, null::text, last_day
    from (values (1, 'sum_of_deposits', 'deposits', true), (2, 'sum_of_deposits_lost', 'deposits_lost', false), (3, 'sum_of_payouts', 'payouts', true),
      (4, 'sum_of_fees', 'fees', true), (5, 'sum_of_adjustments', 'adjustments', false), (6, 'held_back', 'held_back', true),
      (7, 'payouts_under_way', 'payouts_under_way', true), (8, 'closing_balance', 'closing_balance', true)) k (n, type, field, is_always)
    where s ->> k.field is not null and (k.is_always or s ->> k.field <> '0')
    order by k.n;
end $$;
comment on function app.statement_file is 'A page of a statement as rows of a file, behind a place, of one asset at most: the opening balance, the lines, the oldest first, their sums, and the closing balance. Behind the last asset there is nothing. day: in the time zone of the merchant.';

-- A day begins where the merchant is.
create or replace function analytics.statement_file(merchant_prefix text, asked jsonb, after text, size int) returns table (place text, chain text,
  token text, created_at timestamptz, type text, amount numeric, deposit_id text, user_external_ref text, external_id text, payout_id text, txid text,
  payout_address text, payout_status text, day date)
language plpgsql stable security definer rows 1000 set search_path = pg_catalog as $$
declare
  m app.merchant := (select o from app.merchant o where o.prefix = merchant_prefix);
  day_form constant text := '^\d{4}-\d\d-\d\d$';
begin
  return query select * from app.statement_file(m.id, asked || (
    select jsonb_object_agg(b.name, case when b.given ~ day_form then b.given::date::timestamp at time zone m.time_zone else b.given::timestamptz end)
    from (values ('from', asked ->> 'from'), ('to', asked ->> 'to')) b (name, given)), after, size);
end $$;
comment on function analytics.statement_file is 'A page of a merchant''s statement, as sluice export statement writes it. asked: from and to (moments, or days in the time zone of the merchant; to is not included), as JSON; perhaps chain and token.';
grant execute on function analytics.statement_file to sluice_analyst;
