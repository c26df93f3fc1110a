-- Payment requests, and what became payments of them, as merchants see them. The API reads them here, with the merchant that its key is of. It reads,
-- and changes nothing.
--
-- Promises: a page reads what it shows, a few parts of an index at once (one for each status, chain and token); but requests of an address, of a
-- transaction or a sender, or that were paid in some time, are all looked at: they are few. Of a range of amounts it looks through the newest twenty
-- thousand; where these have too few, through all that an index of amounts names.
--
-- What may be asked for of requests, as JSON: status (a list), chain, token, created_from, created_to, paid_from and paid_to (moments; from is
-- included, to is not), address, txid, sender, amount_from and amount_to (decimals of what is asked for, both included, of one chain and token). Of
-- payments: external_id, chain, token, status (a list). Absent or null: whatever it is.

-- One amount is read from its index in the order of the list. Of a range that many are in, enough is met soon; one that few are in is looked up. No
-- planner knows which it is.
create or replace function app.payment_requests_of_amount(of_merchant uuid, of_chain text, of_token text, statuses text[], least_amount numeric,
  most_amount numeric, made_from timestamptz, made_to timestamptz, above bigint, below bigint, size int) returns setof app.payment_request
language plpgsql stable rows 50 set search_path = pg_catalog as $$
declare
  most_looked_at constant int := 20000;
  looked_at int;
  soon uuid[];
begin
  if least_amount = most_amount then
    return query select * from app.payment_request r where r.merchant_id = of_merchant and r.chain = of_chain and r.token = of_token
      and r.amount = least_amount and r.seq > above and r.seq < below and r.status = any(statuses) and coalesce(r.created_at >= made_from, true)
      and coalesce(r.created_at < made_to, true) order by r.seq desc limit size;
    return;
  end if;
  select count(*), coalesce((array_agg(w.id order by w.seq desc) filter (where w.amount between least_amount and most_amount
    and coalesce(w.created_at >= made_from, true) and coalesce(w.created_at < made_to, true)))[:size], '{}')
  into looked_at, soon
  from (select p.* from unnest(statuses) s (status)
    cross join lateral (select r.id, r.amount, r.created_at, r.seq from app.payment_request r where r.merchant_id = of_merchant and r.status = s.status
      and r.chain = of_chain and r.token = of_token and r.seq > above and r.seq < below order by r.seq desc limit most_looked_at) p
    order by p.seq desc limit most_looked_at) w;
  if cardinality(soon) = size or looked_at < most_looked_at then
    return query select p.* from app.payment_request p where p.id = any(soon);
  else
    return query select p.* from (select * from app.payment_request r where r.merchant_id = of_merchant and r.chain = of_chain and r.token = of_token
        and r.amount between least_amount and most_amount offset 0) p
      where p.status = any(statuses) and p.seq > above and p.seq < below and coalesce(p.created_at >= made_from, true)
        and coalesce(p.created_at < made_to, true) order by p.seq desc limit size;
  end if;
end $$;
comment on function app.payment_requests_of_amount is 'The payment requests of a chain and token with these statuses and amounts, between two places: the newest.';
grant execute on function app.payment_requests_of_amount to sluice_api;

create or replace function app.asked_payment_requests(of_merchant uuid, asked jsonb, below bigint, size int) returns setof app.payment_request
language plpgsql stable rows 50 set search_path = pg_catalog as $$
declare
  statuses text[] := coalesce(app.texts_in(asked -> 'status'), '{awaiting,detected,paid,underpaid,expired,cancelled}');
  of_chain text := asked ->> 'chain';
  of_token text := asked ->> 'token';
  made_from timestamptz := asked ->> 'created_from';
  made_to timestamptz := asked ->> 'created_to';
  paid_from timestamptz := asked ->> 'paid_from';
  paid_to timestamptz := asked ->> 'paid_to';
  is_of_time boolean := paid_from is not null or paid_to is not null;
  of_sender text := asked ->> 'sender';
  least_amount numeric := app.asked_amount(asked, 'amount_from');
  most_amount numeric := app.asked_amount(asked, 'amount_to');
  above bigint := 0;
  ids uuid[]; -- of a transaction, a sender or an address
begin
  below := coalesce(below, 9223372036854775807);
  -- seq has the order of created_at but for what is made at the same moment: so a range of time is found by its place in that order.
  if made_from is not null then
    above := coalesce((select r.seq from app.payment_request r where r.merchant_id = of_merchant and r.created_at < made_from - interval '1 minute'
      order by r.created_at desc limit 1), 0);
  end if;
  if made_to is not null then
    below := least(below, (select r.seq from app.payment_request r where r.merchant_id = of_merchant and r.created_at > made_to + interval '1 minute'
      order by r.created_at limit 1));
  end if;
  if asked ->> 'txid' is not null then
    ids := array(select r.payment_request_id from app.receipt r where r.txid = asked ->> 'txid');
  end if;
  if asked ->> 'address' is not null then
    ids := array(select w.payment_request_id from app.chain c
      join app.address w on w.chain = c.chain and w.match_key = app.match_key(asked ->> 'address', c.folds_addresses)
      where w.payment_request_id is not null and coalesce(w.payment_request_id = any(ids), true));
  end if;
  if of_sender is not null and ids is not null then
    ids := array(select r.payment_request_id from app.receipt r where r.payment_request_id = any(ids) and app.is_address(r.chain, r.sender, of_sender));
  elsif of_sender is not null then
    ids := array(select r.payment_request_id from app.receipt r where r.merchant_id = of_merchant
      and lower(left(r.sender, 16)) = lower(left(of_sender, 16)) and app.is_address(r.chain, r.sender, of_sender));
  end if;
  if ids is not null or is_of_time then
    return query select p.* from (
        select * from app.payment_request r where ids is not null and r.id = any(ids) and r.merchant_id = of_merchant
        union all select * from app.payment_request r where ids is null and r.merchant_id = of_merchant and r.paid_at >= coalesce(paid_from, '-infinity')
          and r.paid_at < coalesce(paid_to, 'infinity')) p
      where p.status = any(statuses) and coalesce(p.chain = of_chain, true) and coalesce(p.token = of_token, true)
        and coalesce(p.created_at >= made_from, true) and coalesce(p.created_at < made_to, true)
        and coalesce(p.paid_at >= paid_from, paid_from is null) and coalesce(p.paid_at < paid_to, paid_to is null)
        and coalesce(p.amount >= least_amount, true) and coalesce(p.amount <= most_amount, true) and p.seq < below
      order by p.seq desc limit size;
  elsif least_amount is not null or most_amount is not null then
    return query select p.* from app.payment_requests_of_amount(of_merchant, of_chain, of_token, statuses, coalesce(least_amount, 0),
      coalesce(most_amount, 10::numeric ^ 78), made_from, made_to, above, below, size) p order by p.seq desc;
  else
    return query select p.* from (select s.status, a.chain, a.token from app.asset a, unnest(statuses) s (status)
        where coalesce(a.chain = of_chain, true) and coalesce(a.token = of_token, true)) part
      cross join lateral (select * from app.payment_request r where r.merchant_id = of_merchant and r.status = part.status and r.chain = part.chain
        and r.token = part.token and r.seq > above and r.seq < below and coalesce(r.created_at >= made_from, true)
        and coalesce(r.created_at < made_to, true) order by r.seq desc limit size) p
      order by p.seq desc limit size;
  end if;
end $$;
comment on function app.asked_payment_requests is 'The payment requests that are asked for, below a place, the newest first.';
grant execute on function app.asked_payment_requests to sluice_api;

create or replace function app.read_payment_requests(of_merchant uuid, asked jsonb, below bigint, size int) returns table (place bigint, item json)
language sql stable rows 50 set search_path = pg_catalog as $$
  select p.seq, row_to_json(i) from app.asked_payment_requests(of_merchant, asked, below, size) p
  join app.asset a on a.chain = p.chain and a.token = p.token join app.address w on w.payment_request_id = p.id and w.chain = p.chain
  cross join lateral (select p.external_id, a.name as currency, w.address, app.decimal(p.amount, a.decimals) as amount,
    app.decimal(p.tolerance, a.decimals) as tolerance, p.status, app.why_payment(p) as explanation, app.decimal(p.received, a.decimals) as amount_received,
    app.decimal(p.pending, a.decimals) as amount_pending, app.decimal(greatest(p.amount - p.received, 0), a.decimals) as shortfall,
    app.decimal(app.payment_missing(p), a.decimals) as amount_missing, p.late, p.txid, app.iso(p.paid_at) as paid_at,
    app.iso(p.created_at) as created_at, app.iso(p.expires_at) as expires_at, app.iso(p.cancelled_at) as cancelled_at, p.metadata, p.return_url) i
  order by p.seq desc
$$;
comment on function app.read_payment_requests is 'The payment requests that are asked for, below a place, the newest first: the place of each, and its JSON.';
grant execute on function app.read_payment_requests to sluice_api;

-- A payment gets a new, higher position whenever its status or what it received changes.
create or replace function app.asked_payments(of_merchant uuid, asked jsonb, below bigint, size int) returns setof app.payment_request
language plpgsql stable rows 50 set search_path = pg_catalog as $$
declare
  statuses text[] := coalesce(app.texts_in(asked -> 'status'), '{paid,underpaid}');
  of_chain text := asked ->> 'chain';
  of_token text := asked ->> 'token';
begin
  if asked ->> 'external_id' is not null then -- offset 0: the planner would rather walk the merchant's payments
    return query select p.* from (select * from app.payment_request r where r.merchant_id = of_merchant
        and r.external_id = app.request_ref(of_merchant, asked ->> 'external_id') offset 0) p
      where p.position < below and p.status = any(statuses) and coalesce(p.chain = of_chain and p.token = of_token, true);
  elsif statuses = '{underpaid}' then -- few, with an index of their own
    return query select p.* from app.payment_request p where p.merchant_id = of_merchant and p.status = 'underpaid' and p.position < below
      and coalesce(p.chain = of_chain and p.token = of_token, true) order by p.position desc limit size;
  elsif of_chain is not null then
    return query select p.* from app.payment_request p where p.merchant_id = of_merchant and p.chain = of_chain and p.token = of_token
      and p.position is not null and p.position < below and p.status = any(statuses) order by p.position desc limit size;
  else
    return query select p.* from app.payment_request p where p.merchant_id = of_merchant and p.position is not null and p.position < below
      and p.status = any(statuses) order by p.position desc limit size;
  end if;
end $$;
comment on function app.asked_payments is 'The payments that are asked for (requests that are paid or underpaid), below a place, the newest first.';
grant execute on function app.asked_payments to sluice_api;

create or replace function app.read_payments(of_merchant uuid, asked jsonb, below bigint, size int) returns table (place bigint, item json)
language sql stable rows 50 set search_path = pg_catalog as $$
  select p.position, row_to_json(i) from app.asked_payments(of_merchant, asked, below, size) p
  join app.asset a on a.chain = p.chain and a.token = p.token
  cross join lateral (select case when bool_and(r.settlement_id is not null) then (array_agg(r.settlement_id order by r.finalisation desc, r.seq desc))[1] end
    as payout_id from app.receipt r where r.payment_request_id = p.id and r.status = 'final') s
  cross join lateral (select p.external_id, a.name as currency, app.decimal(p.amount, a.decimals) as amount,
    app.decimal(p.received, a.decimals) as amount_received, app.decimal(greatest(p.amount - p.received, 0), a.decimals) as shortfall, p.status, p.late,
    p.txid, app.iso(p.paid_at) as paid_at, app.public_id('pay', s.payout_id) as settlement_id, app.settlement_of(s.payout_id) as settlement, p.metadata) i
  order by p.position desc
$$;
comment on function app.read_payments is 'The payments that are asked for, below a place, the newest first: the place of each, and its JSON.';
grant execute on function app.read_payments to sluice_api;
