-- Payouts, as merchants see them: in lists, one of them, and what one is made of. The API and the dashboard read them here, each with the merchant
-- that its key or session is of. It reads, and changes nothing.
--
-- Promises: a page reads what it shows, a few parts of an index at once (one for each status, chain and token). But of an address, an amount or a time
-- the merchant's payouts, which are few, are looked through in the order of the list; a payout that was found again after a restore has its old time and
-- a new place.
--
-- What may be asked for, as JSON: status (a list), chain, token, address (where it goes), amount_from and amount_to (decimals of
-- the net, both included, of one chain and token), created_from and created_to (moments; from is included, to is not). Absent or null: whatever it is.

create or replace function app.payout_item(p app.payout) returns json
language sql stable set search_path = pg_catalog as $$
  select row_to_json(i) from app.asset a
  cross join lateral (select app.public_id('pay', p.id) as id, p.status, p.chain, p.token, app.decimal(p.gross, a.decimals) as gross,
    app.decimal(p.fee, a.decimals) as fee, app.decimal(p.net, a.decimals) as net, p.txid,
    (select row_to_json(e) from (select p.error_code as code, p.error_message as message) e where p.error_code is not null) as error,
    app.payout_waiting(p) as waiting, p.address, case p.status when 'completed' then app.iso(p.finished_at) end as completed_at) i
  where a.chain = p.chain and a.token = p.token
$$;
comment on function app.payout_item is 'A payout, as its merchant sees it.';
grant execute on function app.payout_item to sluice_api;

create or replace function app.payout_in_list(p app.payout) returns json
language sql stable set search_path = pg_catalog as $$
  select app.with_more(app.payout_item(p), row_to_json(more)) from (select app.iso(p.created_at) as created_at) more
$$;
comment on function app.payout_in_list is 'A payout, as lists show it: also when it was made.';
grant execute on function app.payout_in_list to sluice_api;

create or replace function app.asked_payouts(of_merchant uuid, asked jsonb, below bigint, size int) returns setof app.payout
language plpgsql stable rows 50 set search_path = pg_catalog as $$
declare
  made_from timestamptz := asked ->> 'created_from';
  made_to timestamptz := asked ->> 'created_to';
  of_address text := asked ->> 'address';
  least_amount numeric := app.asked_amount(asked, 'amount_from');
  most_amount numeric := app.asked_amount(asked, 'amount_to');
begin
  below := coalesce(below, 9223372036854775807);
  return query select p.* from (
      select s.status, a.chain, a.token from app.asset a, unnest(coalesce(app.texts_in(asked -> 'status'),
        '{pending,sweeping,swept,paying,completed,failed}')) s (status)
      where coalesce(a.chain = asked ->> 'chain', true) and coalesce(a.token = asked ->> 'token', true)) part
    cross join lateral (select * from app.payout o where o.merchant_id = of_merchant and o.status = part.status and o.chain = part.chain
      and o.token = part.token and o.seq < below
      and coalesce(o.created_at >= made_from, true) and coalesce(o.created_at < made_to, true) and (of_address is null or app.is_address(o.chain, o.address, of_address))
      and coalesce(o.net >= least_amount, true) and coalesce(o.net <= most_amount, true) order by o.seq desc limit size) p
    order by p.seq desc limit size;
end $$;
comment on function app.asked_payouts is 'The payouts that are asked for, below a place, the newest first.';
grant execute on function app.asked_payouts to sluice_api;

create or replace function app.read_payouts(of_merchant uuid, asked jsonb, below bigint, size int) returns table (place bigint, item json)
language sql stable rows 50 set search_path = pg_catalog as $$
  select p.seq, app.payout_in_list(p) from app.asked_payouts(of_merchant, asked, below, size) p order by p.seq desc
$$;
comment on function app.read_payouts is 'The payouts that are asked for, below a place, the newest first: the place of each, and its JSON.';
grant execute on function app.read_payouts to sluice_api;

create or replace function app.read_payout(of_merchant uuid, of_id uuid) returns json
language sql stable set search_path = pg_catalog as $$
  select app.payout_item(p) from app.payout p where p.id = of_id and p.merchant_id = of_merchant
$$;
comment on function app.read_payout is 'A payout of the merchant; null if there is none.';
grant execute on function app.read_payout to sluice_api;

create or replace function app.read_payout_parts(of_payout uuid, below bigint, size int) returns table (place bigint, item json)
language sql stable rows 50 set search_path = pg_catalog as $$
  select p.place, row_to_json(i) from (select * from app.payout_parts(of_payout, below, size) order by place desc limit size) p
  join app.payout o on o.id = of_payout join app.asset a on a.chain = o.chain and a.token = o.token
  left join app.deposit d on d.id = p.deposit_id left join app.user u on u.id = d.user_id
  left join app.payment_request r on r.id = d.payment_request_id
  cross join lateral (select p.type, app.decimal(p.amount, a.decimals) as amount, p.reason,
    case when d.user_id is not null then app.public_id('dep', d.id) end as deposit_id, p.status, d.txid, d.output_index,
    app.public_id('usr', d.user_id) as user_id, u.external_ref, r.external_id, app.iso(p.created_at) as created_at) i
  order by p.place desc
$$;
comment on function app.read_payout_parts is 'What a payout is made of, as far as it has collected that, below a place: adjustments, then its deposits, the newest first.';
grant execute on function app.read_payout_parts to sluice_api;

create or replace function app.read_whole_payout(of_merchant uuid, asked jsonb, below bigint, size int) returns table (place bigint, item json)
language sql stable rows 50 set search_path = pg_catalog as $$
  select p.place, p.item from app.read_payout_parts(app.listed_payout(of_merchant, (asked ->> 'payout')::uuid), below, size) p
$$;
comment on function app.read_whole_payout is 'The same, of a payout of the merchant that has collected everything; nothing if it failed. Errors: those of app.listed_payout.';
grant execute on function app.read_whole_payout to sluice_api;
