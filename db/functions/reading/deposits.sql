-- Deposits of users, as merchants see them: in lists, and one of them. The API and the dashboard read them here, each with the merchant that its key
-- or session is of. It reads, and changes nothing.
--
-- Promises: whatever is asked for, a page reads what it shows, by an index that has it in order, or a few parts of an index at once (one for each
-- status, chain and token). But of a range of amounts it looks through the newest twenty thousand, and where these have too few, through all that an
-- index of amounts names; and what is asked for of a sender, or of amounts of one user or payout, is looked for in the order of the list.
--
-- The JSON of a deposit is that of the contract; the API sends it as it is.
--
-- What may be asked for, as JSON: id, status (a list), chain, token, user and payout (UUIDs), address, txid, sender, amount_from and amount_to
-- (decimals, both included, of one chain and token), and from and to, the places (app.deposit.position) between which deposits are. Absent or null:
-- whatever it is.

-- One amount is read from its index in the order of the list. Of a range that many are in, enough is met soon; one that few are in is looked up. No
-- planner knows which it is.
create or replace function app.deposits_of_amount(of_merchant uuid, of_chain text, of_token text, statuses text[], least_amount numeric, most_amount numeric,
  lowest numeric, below numeric, size int) returns setof app.deposit
language plpgsql stable rows 50 set search_path = pg_catalog as $$
declare
  most_looked_at constant int := 20000;
  looked_at int;
  soon uuid[];
begin
  if least_amount = most_amount then
    return query select d.* from (
        (select * from app.deposit o where o.merchant_id = of_merchant and o.credited and o.user_id is not null and o.chain = of_chain
          and o.token = of_token and o.status = 'final' and 'final' = any(statuses) and o.amount = least_amount and o.position >= lowest
          and o.position < below order by o.position desc limit size)
        union all select o.* from unnest(array_remove(statuses, 'final')) s (status) cross join lateral (select * from app.deposit p
          where p.merchant_id = of_merchant and p.credited and p.user_id is not null and p.chain = of_chain and p.token = of_token
            and p.status = s.status and p.amount = least_amount and p.position >= lowest and p.position < below
          order by p.position desc limit size) o) d
      order by d.position desc limit size;
    return;
  end if;
  select count(*), coalesce((array_agg(w.id order by w.position desc) filter (where w.amount between least_amount and most_amount))[:size], '{}')
  into looked_at, soon
  from (select d.* from unnest(statuses) s (status)
    cross join lateral (select o.id, o.amount, o.position from app.deposit o where o.merchant_id = of_merchant and o.credited and o.user_id is not null
      and o.chain = of_chain and o.token = of_token and o.status = s.status and o.position >= lowest and o.position < below
      order by o.position desc limit most_looked_at) d
    order by d.position desc limit most_looked_at) w;
  if cardinality(soon) = size or looked_at < most_looked_at then
    return query select d.* from app.deposit d where d.id = any(soon);
  else
    return query select d.* from (
        select * from (select * from app.deposit o where o.merchant_id = of_merchant and o.credited and o.user_id is not null and o.status = 'final'
          and o.chain = of_chain and o.token = of_token and o.amount between least_amount and most_amount offset 0) f where 'final' = any(statuses)
        union all select o.* from unnest(array_remove(statuses, 'final')) s (status) cross join lateral (select * from app.deposit p
          where p.merchant_id = of_merchant and p.credited and p.user_id is not null and p.chain = of_chain and p.token = of_token
            and p.status = s.status and p.amount between least_amount and most_amount and p.position >= lowest and p.position < below
          order by p.position desc limit size) o) d
      where d.position >= lowest and d.position < below order by d.position desc limit size;
  end if;
end $$;
comment on function app.deposits_of_amount is 'The deposits of a chain and token with these statuses and amounts, between two places: the newest.';
grant execute on function app.deposits_of_amount to sluice_api;

create or replace function app.asked_deposits(of_merchant uuid, asked jsonb, below numeric, size int) returns setof app.deposit
language plpgsql stable set search_path = pg_catalog rows 50 as $$
declare
  of_statuses text[] := app.texts_in(asked -> 'status');
  statuses text[] := coalesce(of_statuses, '{pending,final,reorged}');
  of_id uuid := asked ->> 'id';
  of_chain text := asked ->> 'chain';
  of_token text := asked ->> 'token';
  of_user uuid := asked ->> 'user';
  of_payout uuid := asked ->> 'payout';
  of_address text := asked ->> 'address';
  of_txid text := asked ->> 'txid';
  of_sender text := asked ->> 'sender';
  least_amount numeric := app.asked_amount(asked, 'amount_from');
  most_amount numeric := app.asked_amount(asked, 'amount_to');
  lowest numeric := coalesce((asked ->> 'from')::numeric, 0);
begin
  below := least(coalesce(below, 2::numeric ^ 127), coalesce((asked ->> 'to')::numeric, 2::numeric ^ 127));
  if of_id is not null then
    return query select d.* from app.deposit d where d.id = of_id and d.merchant_id = of_merchant and d.credited and d.user_id is not null;
  elsif of_txid is not null then -- offset 0: the planner would rather walk the merchant's deposits
    return query select d.* from (select * from app.deposit o where o.txid = of_txid offset 0) d
      where d.merchant_id = of_merchant and d.credited and d.user_id is not null and d.position >= lowest and d.position < below
        and d.status = any(statuses) and coalesce(d.chain = of_chain, true) and coalesce(d.token = of_token, true)
        and coalesce(d.user_id = of_user, true) and coalesce(d.address = of_address, true) and (of_payout is null or d.settlement_id = of_payout)
        and coalesce(d.amount >= least_amount, true) and coalesce(d.amount <= most_amount, true)
        and (of_sender is null or app.is_address(d.chain, d.sender, of_sender))
      order by d.position desc limit size;
  elsif of_sender is not null then
    return query select d.* from app.deposit d where d.merchant_id = of_merchant and d.credited and lower(left(d.sender, 16)) = lower(left(of_sender, 16))
      and app.is_address(d.chain, d.sender, of_sender) and d.user_id is not null and d.position >= lowest and d.position < below
      and d.status = any(statuses) and coalesce(d.chain = of_chain, true) and coalesce(d.token = of_token, true)
      and coalesce(d.user_id = of_user, true) and coalesce(d.address = of_address, true) and (of_payout is null or d.settlement_id = of_payout)
      and coalesce(d.amount >= least_amount, true) and coalesce(d.amount <= most_amount, true)
      order by d.position desc limit size;
  elsif of_user is not null then -- of whom there is an address on each chain
    return query select d.* from (select s.status, a.chain, a.token from app.address w join app.asset a on a.chain = w.chain, unnest(statuses) s (status)
        where w.user_id = of_user and w.merchant_id = of_merchant and coalesce(w.address = of_address, true) and coalesce(a.chain = of_chain, true)
          and coalesce(a.token = of_token, true)) part
      cross join lateral (select * from app.deposit o where o.user_id = of_user and o.credited and o.position >= lowest and o.position < below
        and o.status = part.status and o.chain = part.chain and o.token = part.token and (of_payout is null or o.settlement_id = of_payout)
        and coalesce(o.amount >= least_amount, true) and coalesce(o.amount <= most_amount, true)
        order by o.position desc limit size) d
      order by d.position desc limit size;
  elsif of_payout is not null then -- which is of one chain and token
    return query select d.* from (select s.status from app.payout a, unnest(statuses) s (status)
        where a.id = of_payout and a.merchant_id = of_merchant and coalesce(a.chain = of_chain, true) and coalesce(a.token = of_token, true)) part
      cross join lateral (select * from app.deposit o where o.merchant_id = of_merchant and o.credited and o.user_id is not null and o.position >= lowest
        and o.position < below and o.settlement_id = of_payout and o.status = part.status
        and coalesce(o.amount >= least_amount, true) and coalesce(o.amount <= most_amount, true) order by o.position desc limit size) d
      order by d.position desc limit size;
  elsif least_amount is not null or most_amount is not null then
    return query select d.* from app.deposits_of_amount(of_merchant, of_chain, of_token, statuses, coalesce(least_amount, 0),
      coalesce(most_amount, 10::numeric ^ 78), lowest, below, size) d order by d.position desc;
  elsif of_statuses is not null or of_chain is not null or of_token is not null then
    return query select d.* from (select s.status, a.chain, a.token from app.asset a, unnest(statuses) s (status)
        where coalesce(a.chain = of_chain, true) and coalesce(a.token = of_token, true)) part
      cross join lateral (select * from app.deposit o where o.merchant_id = of_merchant and o.credited and o.user_id is not null and o.position >= lowest
        and o.position < below and o.status = part.status and o.chain = part.chain and o.token = part.token order by o.position desc limit size) d
      order by d.position desc limit size;
  else
    return query select d.* from app.deposit d where d.merchant_id = of_merchant and d.credited and d.user_id is not null and d.position >= lowest
      and d.position < below order by d.position desc limit size;
  end if;
end $$;
comment on function app.asked_deposits is 'The deposits of users that are asked for, below a place, the newest first.';
grant execute on function app.asked_deposits to sluice_api;

create or replace function app.read_deposits(of_merchant uuid, asked jsonb, below numeric, size int) returns table (place numeric, item json)
language sql stable rows 50 set search_path = pg_catalog as $$
  select d.position, row_to_json(i)
  from app.asked_deposits(of_merchant, asked, below, size) d
  join app.asset a on a.chain = d.chain and a.token = d.token join app.user u on u.id = d.user_id
  left join chain.cursor c on c.chain = d.chain
  cross join lateral (select app.public_id('dep', d.id) as id, d.chain, d.token, app.decimal(d.amount, a.decimals) as amount, d.sender, d.txid, d.status,
    app.deposit_confirmations(d.status, d.block_height, c.head_height) as confirmations, app.public_id('pay', d.settlement_id) as settlement_id,
    app.iso(d.created_at) as created_at, d.address, d.output_index, app.public_id('usr', d.user_id) as user_id, u.external_ref, u.metadata,
    d.settled_before_restore) i
  order by d.position desc
$$;
comment on function app.read_deposits is 'The deposits of users that are asked for, below a place, the newest first: the place of each, and its JSON.';
grant execute on function app.read_deposits to sluice_api;

create or replace function app.read_deposit(of_merchant uuid, of_id uuid) returns json
language sql stable set search_path = pg_catalog as $$
  select app.with_more(r.item, row_to_json(more)) from app.read_deposits(of_merchant, jsonb_build_object('id', of_id), null, 1) r
  join app.deposit d on d.id = of_id
  cross join lateral (select app.iso(d.finalised_at) as finalised_at, app.settlement_of(d.settlement_id) as settlement, app.held_back_of(d) as held_back) more
$$;
comment on function app.read_deposit is 'A deposit of a user of the merchant, with what lists do not have; null if there is none.';
grant execute on function app.read_deposit to sluice_api;

-- Null until the payout is completed.
create or replace function app.settlement_of(payout uuid) returns json
language sql stable set search_path = pg_catalog as $$
  select row_to_json(s) from (
    select app.public_id('pay', o.id) as id, o.status, o.txid as payout_txid from app.payout o where o.id = payout and o.status = 'completed') s
$$;
comment on function app.settlement_of is 'The payout that collected something, as deposits and payments show it; null until it is completed.';
grant execute on function app.settlement_of to sluice_api;
