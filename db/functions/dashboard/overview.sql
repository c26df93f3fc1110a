-- The overview, the search, and the news for open pages. It reads, and changes nothing.
--
-- Errors: SLAUT there is no such session. dashboard.news leaves out a session that has ended, so that its streams end.

create or replace function dashboard.overview(token text) returns json
language plpgsql stable security definer set search_path = pg_catalog as $$
declare
  merchant uuid := dashboard.merchant_of(token);
  -- Made so long ago, a request ended at least a week ago. The list can be asked for exactly these.
  since text := (select (statement_timestamp() at time zone m.time_zone)::date - 14 from app.merchant m where m.id = merchant)::text;
  under_way constant jsonb := '{"status": ["pending", "sweeping", "swept", "paying"]}';
begin
  return json_build_object(
    'balances', (select coalesce(json_agg(dashboard.balance_item(b) order by b.chain, b.token), '[]') from app.merchant_balance b where b.merchant_id = merchant),
    'deposits', dashboard.deposit_list(token, '{}', null, 8) -> 'items',
    'payouts', dashboard.payouts_of(merchant, under_way, null, 8) -> 'items',
    'waiting', (select coalesce(json_agg(dashboard.payout_item(p) order by p.seq desc), '[]') from app.asked_payouts(merchant, under_way, null, 100) p
      where app.payout_waiting(p) is not null),
    'endpoints', dashboard.endpoints_of(merchant),
    'has_keys', exists (select from app.api_key k where k.merchant_id = merchant and k.revoked_at is null),
    'has_users', exists (select from app.user u where u.merchant_id = merchant),
    'has_addresses', exists (select from app.payout_address a where a.merchant_id = merchant),
    'has_whitelisted', exists (select from app.payout_address_state a where a.merchant_id = merchant and a.whitelisted),
    'has_payment_requests', dashboard.has_payment_requests(token),
    'underpaid_since', since, 'underpaid_count', (select count(*) from app.asked_payment_requests(merchant,
      dashboard.asked(merchant, jsonb_build_object('status', array['underpaid'], 'from', since)), null, 100)));
end $$;
comment on function dashboard.overview is 'Balances, the newest deposits, payouts under way, endpoints, what needs a hand, and what is still missing.';
grant execute on function dashboard.overview to sluice_dashboard;

create or replace function dashboard.has_payment_requests(token text) returns boolean
language plpgsql stable security definer set search_path = pg_catalog as $$
declare merchant uuid := dashboard.merchant_of(token);
begin
  return exists (select from app.payment_request r where r.merchant_id = merchant);
end $$;
comment on function dashboard.has_payment_requests is 'Whether there is any payment request: what is paid for one is in the balance, and no deposit of a user.';
grant execute on function dashboard.has_payment_requests to sluice_dashboard;

create or replace function dashboard.amounts_of(amount text[]) returns table (asked jsonb)
language sql stable set search_path = pg_catalog as $$
  select jsonb_build_object('chain', a.chain, 'token', a.token, 'amount_from', amount[1], 'amount_to', amount[1]) from app.asset a
  where amount is not null and scale(amount[1]::numeric) <= a.decimals and coalesce(a.token = upper(amount[2]), true)
$$;
comment on function dashboard.amounts_of is 'What to ask the lists for, to find an amount (and its token, or null) of any asset.';

create or replace function dashboard.requests_beginning(merchant uuid, beginning text) returns setof app.payment_request
language plpgsql stable rows 10 set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
begin
  return query select * from app.payment_request r where r.merchant_id = merchant and starts_with(r.external_id collate "C", beginning)
    order by r.seq desc limit 10;
end $$;
comment on function dashboard.requests_beginning is 'The newest ten payment requests whose reference has this beginning.';

create or replace function dashboard.find(token text, given text) returns json
language plpgsql stable security definer set search_path = pg_catalog as $$
declare
  merchant uuid := dashboard.merchant_of(token);
  of_txid text := case when given ~* '^(0x)?[0-9a-f]{64}$' then lower(given) else given end; -- hex is stored in lower case; base58 is left as it is
  -- The beginning of one, or its beginning and its end as pages shorten it.
  ends text[] := coalesce(regexp_match(given, '^([0-9A-Za-z]{6,80})…([0-9A-Za-z]{4,80})$'), regexp_match(given, '^((?:0x)?[0-9a-fA-F]{8,63})()$'));
  beginning text := case when ends[1] ~ '^(0x)?[0-9a-fA-F]+$' then lower(ends[1]) else ends[1] end || '%';
  ending text := '%' || case when ends[1] ~ '^(0x)?[0-9a-fA-F]+$' then lower(ends[2]) else ends[2] end;
  of_address text := case when given ~ '^[0-9A-Za-z]{26,63}$' then given end; -- of no chain longer, and every transaction id is
  prefix text := (select m.prefix || '-' from app.merchant m where m.id = merchant);
  -- As people typed it where a payment request was made, or its beginning, if nothing has the whole.
  refs text[] := array[given, app.request_ref(merchant, given), app.request_ref(merchant, prefix || given)];
  has_user boolean := exists (select from app.user u where u.merchant_id = merchant and u.external_ref = app.user_ref(merchant, given));
  has_request boolean := exists (select from app.payment_request r where r.merchant_id = merchant
    and r.external_id = any(refs));
  may_begin boolean := length(given) >= 3;
  sum text[] := regexp_match(given, '^(\d{1,40}(?:\.\d{1,40})?)(?: +(\w{1,20}))?$'); -- 12.5, or 12.5 USDC
begin
  return (select coalesce(json_agg(json_build_object('kind', f.kind, 'id', f.id, 'endpoint_id', f.endpoint_id, 'label', f.label, 'at', app.iso(f.at))
      order by f.is_exact desc, f.at desc nulls last), '[]') from (
    select *, kind not in ('deposit', 'not_credited', 'payout', 'payment_request') or id = any(refs) or sum is null as is_exact from (
    select 'user' as kind, app.public_id('usr', u.id) as id, null::text as endpoint_id, u.external_ref as label, u.created_at as at
    from (select o.id from app.user o where o.merchant_id = merchant and o.external_ref = app.user_ref(merchant, given)
      union select dashboard.uuid_of('usr', given)
      union select o.user_id from app.chain c join app.address o on o.chain = c.chain and o.match_key = app.match_key(given, c.folds_addresses)
      union select o.id from app.asked_users(merchant, jsonb_build_object('beginning', given), null, 10) o where may_begin and not has_user) f
    join app.user u on u.id = f.id
    where u.merchant_id = merchant
    union all
    select 'deposit', app.public_id('dep', d.id), null, app.decimal(d.amount, a.decimals) || ' ' || d.token || ' on ' || d.chain || ', ' || d.status, d.created_at
    from (select * from app.deposit o where o.txid = of_txid
      union select * from app.deposit o where o.txid like beginning and o.txid like ending
      union select * from app.deposit o where o.id = dashboard.uuid_of('dep', given)
      union select o.* from app.asked_deposits(merchant, jsonb_build_object('sender', of_address), null, 20) o where of_address is not null
      union select o.* from dashboard.amounts_of(sum) w cross join lateral app.asked_deposits(merchant, w.asked, null, 10) o) d
    join app.asset a on a.chain = d.chain and a.token = d.token
    where d.merchant_id = merchant and d.credited and d.user_id is not null
    union all
    select 'not_credited', app.public_id('usr', d.user_id), null, app.in_words(d.amount, d.token, a.decimals) || ' on ' || d.chain || ', not credited: '
      || dashboard.why_not_credited(d), d.created_at
    from (select * from app.deposit o where o.txid = of_txid
      union select * from app.deposit o where o.txid like beginning and o.txid like ending
      union select * from dashboard.not_credited(merchant, of_address, sum)) d
    left join app.asset a on a.chain = d.chain and a.token = d.token
    where d.merchant_id = merchant and not d.credited and d.user_id is not null and d.status <> 'reorged'
    union all
    select 'payout', app.public_id('pay', p.id), null, app.decimal(p.net, a.decimals) || ' ' || p.token || ' on ' || p.chain || ', '
      || case when p.net <> sum[1]::numeric * 10::numeric ^ a.decimals then 'of ' || app.decimal(p.gross, a.decimals) || ' gross, ' else '' end
      || case when p.error_code = 'cancelled' then 'cancelled' else p.status end, p.created_at
    from (select s.payout_id as id from app.outgoing_attempt o join app.outgoing_payment s on s.id = o.outgoing_payment_id
        where (o.txid = of_txid or o.txid like beginning and o.txid like ending) and s.kind = 'payout'
      union select dashboard.uuid_of('pay', given)
      union select o.id from app.asked_payouts(merchant, jsonb_build_object('address', of_address), null, 20) o where of_address is not null
      union select o.id from dashboard.amounts_of(sum) w cross join lateral app.asked_payouts(merchant, w.asked, null, 10) o
      union select o.id from dashboard.amounts_of(sum) w join app.asset a on a.chain = w.asked ->> 'chain' and a.token = w.asked ->> 'token'
        cross join lateral (select p.id from unnest('{pending,sweeping,swept,paying,completed,failed}'::text[]) s (status) cross join lateral (
          select i.id, i.seq from app.payout i where i.merchant_id = merchant and i.status = s.status and i.chain = a.chain and i.token = a.token
            and i.gross = sum[1]::numeric * 10::numeric ^ a.decimals order by i.seq desc limit 10) p order by p.seq desc limit 10) o) o
    join app.payout p on p.id = o.id join app.asset a on a.chain = p.chain and a.token = p.token
    where p.merchant_id = merchant
      and (p.txid = of_txid or p.txid like beginning or p.id = dashboard.uuid_of('pay', given) or of_address is not null or sum is not null)
    union all
    select 'payout_address', p.chain, null, p.address, null
    from app.payout_address p join app.chain c on c.chain = p.chain
    where p.merchant_id = merchant and app.match_key(p.address, c.folds_addresses) = app.match_key(given, c.folds_addresses)
    union all
    select 'payment_request', r.external_id, null, app.decimal(r.amount, a.decimals) || ' ' || r.token || ' on ' || r.chain || ', ' || r.status
      || case when r.late then ' late' else '' end || case when r.received not in (0, r.amount) then ': ' || app.decimal(r.received, a.decimals) || ' came'
        else '' end, r.created_at
    from (select o.payment_request_id as id from app.deposit o where o.txid = of_txid
      union select o.payment_request_id from app.deposit o where o.txid like beginning and o.txid like ending
      union select o.payment_request_id from app.chain c join app.address o on o.chain = c.chain and o.match_key = app.match_key(given, c.folds_addresses)
      union select o.id from app.payment_request o where o.merchant_id = merchant and o.external_id = any(refs)
      union select o.id from unnest(array[given, prefix || given]) b (beginning), dashboard.requests_beginning(merchant, b.beginning) o
        where may_begin and not has_request
      union select o.id from app.payment_request o where o.page_token = given
      union select o.payment_request_id from dashboard.not_credited(merchant, of_address, sum) o where o.status <> 'reorged'
      union select o.id from app.asked_payment_requests(merchant, jsonb_build_object('sender', of_address), null, 20) o where of_address is not null
      union select o.id from dashboard.amounts_of(sum) w cross join lateral app.asked_payment_requests(merchant, w.asked, null, 10) o
      union select o.id from dashboard.amounts_of(sum) w join app.asset a on a.chain = w.asked ->> 'chain' and a.token = w.asked ->> 'token'
        cross join lateral (select p.id from app.payment_request p where p.merchant_id = merchant and p.chain = a.chain and p.token = a.token
          and p.received <> p.amount and p.received > 0 and p.received = sum[1]::numeric * 10::numeric ^ a.decimals order by p.seq desc limit 10) o) f
    join app.payment_request r on r.id = f.id join app.asset a on a.chain = r.chain and a.token = r.token
    where r.merchant_id = merchant
    union all
    select 'endpoint', app.public_id('whe', w.id), null, w.url, w.created_at
    from app.webhook_endpoint w where w.id = dashboard.uuid_of('whe', given) and w.merchant_id = merchant and w.deleted_at is null
    union all
    select 'delivery', app.public_id('dlv', d.id), app.public_id('whe', w.id), e.type || ' to ' || w.url, e.created_at
    from app.delivery d join app.webhook_endpoint w on w.id = d.endpoint_id join app.event e on e.id = d.event_id
    where d.id = dashboard.uuid_of('dlv', given) and w.merchant_id = merchant and w.deleted_at is null
    union all
    select 'delivery', app.public_id('dlv', d.id), app.public_id('whe', w.id), e.type || ' to ' || w.url, e.created_at
    from app.event e join app.webhook_endpoint w on w.id = e.subject_id join app.delivery d on d.endpoint_id = w.id and d.event_id = e.id
      and d.id between app.uuid_at(e.created_at - interval '1 minute') and app.uuid_at(e.created_at + interval '1 minute')
    where e.id = dashboard.uuid_of('evt_test', given) and e.merchant_id = merchant and e.is_test and w.deleted_at is null
    union all
    select k.kind, coalesce(r.external_id, app.public_id(k.prefix, e.subject_id)), null, e.type, e.created_at
    from app.event e join lateral dashboard.subject_of(e.type) k on true
      left join app.payment_request r on r.id = e.subject_id
    where e.id = dashboard.uuid_of('evt', given) and e.merchant_id = merchant and not e.is_test
    union all
    select 'api_key', app.public_id('key', k.id), null, coalesce(k.label, 'no label'), k.created_at
    from app.api_key k where k.id = dashboard.uuid_of('key', given) and k.merchant_id = merchant
    ) f order by is_exact desc, at desc nulls last limit 100) f);
end $$;
comment on function dashboard.find is 'What has this transaction id (or the beginning of one, or its ends with … between), address (also of a sender, or that a payout went to), reference (or its beginning, if nothing has the whole; of a payment request also without the prefix of the account), token of a payment page, amount or id: the newest first, at most 20 of a sender, and 10 of an amount in each token or of a beginning.';
grant execute on function dashboard.find to sluice_dashboard;

-- As pages of an older version know it.
create or replace function dashboard.search(token text, given text) returns json
language sql stable security definer set search_path = pg_catalog as $$
  select coalesce(json_agg(f), '[]') from json_array_elements(dashboard.find(search.token, given)) f where f ->> 'kind' <> 'not_credited'
$$;
comment on function dashboard.search is 'The same without what is not credited, for pages of an older version.';
grant execute on function dashboard.search to sluice_dashboard;

-- One query a second for all open pages. While a deposit is pending, its confirmations count up: there is news every four seconds.
create or replace function dashboard.news(tokens text[]) returns table (token text, news text)
language sql stable security definer set search_path = pg_catalog rows 100 as $$
  with session as materialized (
    select s.token, m.merchant_id from auth.session s join dashboard.member m on m.user_id = s."userId"
    where s.token = any(tokens) and s."expiresAt" > now() and s."secondFactorAt" is not null
  )
  select s.token, n.news
  from (select distinct merchant_id from session) o
  cross join lateral (select concat_ws(' ',
    (select max(e.sequence) from unnest(app.event_types()) t (type) cross join lateral (select v.sequence from app.event v
      where v.merchant_id = o.merchant_id and v.type = t.type and v.sequence is not null and not v.is_test order by v.sequence desc limit 1) e),
    (select max(greatest(p.created_at, p.sweeping_at, p.swept_at, p.paying_at, p.waiting_since))
      from unnest('{pending,sweeping,swept,paying}'::text[]) t (status) join app.payout p on p.merchant_id = o.merchant_id and p.status = t.status),
    (select string_agg(c.id || ':' || c.done_count, ' ' order by c.id) from app.claim c where c.merchant_id = o.merchant_id and c.finished_at is null),
    case when exists (select from app.asset a join app.deposit d on d.merchant_id = o.merchant_id and d.chain = a.chain and d.token = a.token
      and d.status = 'pending' and d.credited and d.user_id is not null) then floor(extract(epoch from now()) / 4) end) as news) n
  join session s using (merchant_id)
$$;
comment on function dashboard.news is 'For each of these sessions that lives, a text that changes whenever its pages have something new to show.';
grant execute on function dashboard.news to sluice_dashboard;
