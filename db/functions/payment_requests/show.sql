-- The current state of a payment request, as finished JSON: for its merchant (GET /v1/payment-requests/<external_id>), and for a visitor who has the
-- token of its page. The API adds the payment URI, and gets its parts from here. Reads only; no row if there is no such request.

create or replace function app.read_payment_request(of_merchant uuid, of_external_id text) returns setof app.payment_response
language sql stable security definer set search_path = pg_catalog as $$
  select row_to_json(b)::text, r.chain, r.token, w.address, case when least(r.expires_at, r.cancelled_at) > statement_timestamp() then app.payment_missing(r) else 0 end::text
  from app.payment_request r
  join app.asset a on a.chain = r.chain and a.token = r.token
  join app.address w on w.payment_request_id = r.id and w.chain = r.chain
  cross join lateral (
    select r.external_id, a.name as currency, w.address, app.decimal(r.amount, a.decimals) as amount, app.decimal(r.tolerance, a.decimals) as tolerance,
      r.status, app.why_payment(r) as explanation,
      app.decimal(r.received, a.decimals) as amount_received, app.decimal(r.pending, a.decimals) as amount_pending,
      app.decimal(greatest(r.amount - r.received, 0), a.decimals) as shortfall, app.decimal(app.payment_missing(r), a.decimals) as amount_missing,
      r.late, r.txid, app.iso(r.paid_at) as paid_at, app.iso(r.created_at) as created_at, app.iso(r.expires_at) as expires_at,
      app.iso(r.cancelled_at) as cancelled_at, r.metadata, r.return_url, r.page_token,
      (select coalesce(json_agg(row_to_json(i) order by c.seq), '[]') from app.receipt c cross join lateral (
        select c.txid, c.output_index, c.sender, app.decimal(c.amount, a.decimals) as amount, c.status,
          app.confirmations(r.chain, c.block_height) as confirmations, c.late,
          app.public_id('pay', c.settlement_id) as settlement_id, app.iso(c.created_at) as created_at) i
        where c.payment_request_id = r.id) as receipts
  ) b
  where r.merchant_id = of_merchant and r.external_id = app.request_ref(of_merchant, of_external_id)
$$;
comment on function app.read_payment_request is 'The current state of a merchant''s payment request, with its receipts. Its amount outside of the body is what is to be sent now: 0 once enough was seen, and after its end.';
grant execute on function app.read_payment_request to sluice_api;

-- The token shows this one request, and nothing else of the merchant but its name and its look.
create or replace function app.payment_page(of_page_token text) returns setof app.payment_response
language sql stable security definer set search_path = pg_catalog as $$
  select row_to_json(b)::text, r.chain, r.token, w.address, r.amount::text
  from app.payment_request r
  join app.asset a on a.chain = r.chain and a.token = r.token
  join app.merchant m on m.id = r.merchant_id
  left join app.merchant_brand n on n.merchant_id = m.id
  join app.address w on w.payment_request_id = r.id and w.chain = r.chain
  cross join lateral (select min(app.confirmations(r.chain, c.block_height)) as confirmations, bool_or(c.late) as late,
      (array_agg(c.txid order by c.seq desc))[1] as txid
    from app.receipt c where c.payment_request_id = r.id and c.status = 'pending') p
  cross join lateral (
    select r.chain, a.token, a.display_name, coalesce(n.name, m.name) as merchant_name, app.brand_of(m.id) as brand, w.address, app.decimal(r.amount, a.decimals) as amount, r.status,
      app.decimal(r.received, a.decimals) as amount_received, app.decimal(r.pending, a.decimals) as amount_pending,
      app.decimal(app.payment_missing(r), a.decimals) as amount_missing,
      p.confirmations,
      r.late, coalesce(p.txid, r.txid,
        (select c.txid from app.receipt c where c.payment_request_id = r.id order by c.seq desc limit 1)) as txid,
      app.iso(least(r.expires_at, r.cancelled_at)) as expires_at,
      (select app.iso(r.decide_at) where r.status = 'detected' and r.expired_at is not null) as late_at, r.external_id, r.return_url,
      app.iso(r.created_at) as created_at, app.iso(r.paid_at) as paid_at, (select c.network from chain.cursor c where c.chain = r.chain) as network, app.pace_of(r.chain) as pace,
      r.status <> 'paid' and exists (select from app.not_counted(r.id) n where n.is_open) as has_other,
      exists (select from app.deposit d where d.payment_request_id = r.id and d.status = 'reorged' and d.credited and (d.chain, d.token) = (r.chain, r.token)) as has_lost,
      coalesce(p.late, false) as late_is_pending,
      (select coalesce(json_agg(json_build_object('txid', i.txid, 'amount', app.decimal(i.amount, a.decimals)) order by i.seq), '[]')
        from (select * from app.receipt c where c.payment_request_id = r.id and c.status = 'final' order by c.seq limit 20) i) as receipts
  ) b
  where r.page_token = of_page_token
$$;
comment on function app.payment_page is 'What the page of a payment request shows to a visitor who has its token. Its confirmations are those of the youngest pending receipt; null if none is pending. A cancelled request expired when it was cancelled. late_at: when money that no block has taken is late; null while none is waited for. receipts: the first twenty final ones. txid: of what is on its way, if anything is. has_lost: what was seen is in no block any more.';
grant execute on function app.payment_page to sluice_api;

-- One call a second asks for all pages that are open in browsers.
create or replace function app.payment_page_news(page_tokens text[]) returns table (page_token text, news text)
language sql stable security definer set search_path = pg_catalog as $$
  select r.page_token, concat_ws(' ', r.status, r.received, r.pending, r.late, r.txid, r.decide_at, r.expires_at < statement_timestamp(), r.cancelled_at,
    case when r.pending > 0 then c.head_height || c.head_hash end,
    (select count(*) || max(d.created_at)::text from app.deposit d where d.payment_request_id = r.id and r.status <> 'paid'))
  from app.payment_request r left join chain.cursor c on c.chain = r.chain where r.page_token = any (page_tokens)
$$;
comment on function app.payment_page_news is 'A text for each of these pages that changes whenever what the page shows does. No row for a page that does not exist.';
grant execute on function app.payment_page_news to sluice_api;

create or replace function app.pace_of(of_chain text) returns json
language sql stable set search_path = pg_catalog as $$
  select json_build_object('block_ms', round(extract(epoch from b.time - past.time) * 1000 / (b.height - past.height)), 'final_after', c.head_height - c.final_height)
  from chain.cursor c join chain.block b on b.chain = c.chain and b.height = c.head_height
  cross join lateral (select p.height, p.time from chain.block p where p.chain = c.chain and p.height between c.head_height - 100 and c.head_height - 1
      and p.parent_hash <> '' -- a block that a rewind added has the time of the rewind
    order by p.height limit 1) past
  where c.chain = of_chain and past.time < b.time and b.parent_hash <> ''
$$;
comment on function app.pace_of is 'How fast a chain is: the milliseconds from block to block by its last hundred blocks, and how many blocks the newest is above the final one. Null while there are too few blocks.';

-- For merchants, and for people whom they ask.
create or replace function app.why_payment(r app.payment_request) returns text
language sql stable set search_path = pg_catalog as $$
  select case r.status
    when 'paid' then case
        when r.received > r.amount then more || ' more than the amount came'
        when r.received = r.amount then 'all of it came'
        when short <= r.tolerance then shortfall || ' did not come, which is within the tolerance of ' || tolerance
        else shortfall || ' did not come, which is too little to be asked for' end
      || case when not r.late then '' when exists (select from app.receipt c where c.payment_request_id = r.id and c.status = 'final' and not c.late)
        then '; some of it came late' when r.cancelled_at is not null then ', after you had cancelled it' else ', after it had expired' end
    when 'detected' then case
        when r.pending = 0 then shortfall || ' is still to come'
        when r.expired_at is not null and r.decide_at is not null then 'money is in no block yet; it is late if none has it by ' || app.iso(r.decide_at)
        when r.received + r.pending >= app.paid_from(r) then 'enough was seen, and not all of it is final yet'
        else seen || ' was seen, not all of it is final yet, and ' || missing || ' is still to come' end
    when 'underpaid' then 'it ended with ' || received || ' of ' || amount || ', and ' || case when r.tolerance > 0 then 'the tolerance is ' || tolerance
      else 'no less is enough: it has no tolerance' end
    else case when r.received + r.pending > 0 then 'only ' || seen || ' came, which is too little to count as a payment'
      else case when o.what is null then 'nothing came' else 'nothing that counts came' end
      || case r.status when 'awaiting' then ' yet' when 'expired' then ' before it expired' else ' before you cancelled it' end end end
    || coalesce('; ' || o.what || ' came and does not count: ' || o.why || case when o.many > 1 then '; and more' else '' end, '')
  from app.asset a
  cross join lateral (select greatest(r.amount - r.received, 0) as short, ' ' || a.token as unit) u
  cross join lateral (select app.decimal(short, a.decimals) || unit as shortfall, app.decimal(r.received - r.amount, a.decimals) || unit as more,
    app.decimal(r.tolerance, a.decimals) || unit as tolerance, app.decimal(r.received + r.pending, a.decimals) || unit as seen,
    app.decimal(app.payment_missing(r), a.decimals) || unit as missing, app.decimal(r.received, a.decimals) as received,
    app.decimal(r.amount, a.decimals) || unit as amount) t
  left join lateral (select n.what, n.why, count(*) over () as many from app.not_counted(r.id) n order by n.at limit 1) o on true
  where a.chain = r.chain and a.token = r.token
$$;
comment on function app.why_payment is 'Why a payment request has the status that it has, in words.';
grant execute on function app.why_payment, app.payment_missing, app.paid_from to sluice_api;

create or replace function app.confirmations(of_chain text, of_height int) returns int
language sql stable set search_path = pg_catalog as $$
  select case when of_height is null then 0 else greatest(0, c.head_height - of_height + 1) end from chain.cursor c where c.chain = of_chain
$$;
comment on function app.confirmations is 'How many blocks confirm this height, its own included; 0 if the height is null. Null for a chain that was never followed.';

