-- What the dashboard shows of balances, payouts and payout addresses, and what it asks for: a payout, its cancelling, another payout address.
--
-- A payout and another address need the second factor again. What may be paid, and where, is decided by the functions that the API calls, too; the
-- whitelist belongs to custody and the operator, and nothing here can touch it.
-- Locks: change_request, then those of app.create_payout, app.cancel_payout and app.set_payout_address.
-- Errors: those of dashboard.begin_change and of these functions; SLSTP, SLSUS.

create or replace function dashboard.balance_item(b app.merchant_balance) returns json
language sql stable set search_path = pg_catalog as $$
  select app.with_more(b.item, row_to_json(more))
  from app.asset a, (select exists (select from app.payout_address p where p.merchant_id = b.merchant_id and p.chain = b.chain)) d
  join app.merchant m on m.id = b.merchant_id
  cross join lateral (select app.why_held_back(b.merchant_id, b.chain, b.token, b.held_back) as why_held_back, d.exists as has_address, case
      when m.suspended_at is not null then 'The operator has suspended this account'
      when b.net < 0 then 'The balance is below zero'
      when b.gross = 0 then 'There is nothing to pay out'
      when b.gross = b.held_back then app.why_held_back(b.merchant_id, b.chain, b.token, b.held_back)
      when b.net < a.min_payout then 'Below the smallest payout (' || app.decimal(a.min_payout, a.decimals) || ' ' || b.token || ')'
      when not d.exists then 'Register a payout address first'
      when app.why_halted(b.chain) is not null then 'Payouts of ' || b.chain || ' are stopped at the moment' end as refusal) more
  where a.chain = b.chain and a.token = b.token
$$;
comment on function dashboard.balance_item is 'A balance, and why it cannot be paid out now; null if it can. Only app.create_payout decides.';

create or replace function dashboard.balance(token text, of_chain text, of_token text) returns json
language plpgsql stable security definer set search_path = pg_catalog as $$
declare merchant uuid := dashboard.merchant_of(token);
begin
  return (select dashboard.balance_item(b) from app.merchant_balance b where b.merchant_id = merchant and b.chain = of_chain and b.token = of_token);
end $$;
comment on function dashboard.balance is 'The balance of a chain and token; null if there is none.';
grant execute on function dashboard.balance to sluice_dashboard;

-- From when on its address counts as whitelisted, if that is what it waits for, and the operator has put it there.
create or replace function dashboard.payout_item(p app.payout) returns json
language sql stable set search_path = pg_catalog as $$
  select app.with_more(item, row_to_json(more)) from app.payout_in_list(p) item, lateral (select app.is_cancellable(p) as is_cancellable, (select app.iso(l.active_at) from custody.whitelist l
    where item #>> '{waiting,code}' = 'address_not_whitelisted' and l.merchant_id = p.merchant_id and l.chain = p.chain and l.address = p.address
      and l.removed_at is null) as whitelisted_at) more
$$;
comment on function dashboard.payout_item is 'A payout as its merchant sees it, with what only the dashboard shows.';

create or replace function dashboard.payouts_of(merchant uuid, asked jsonb, before text, size int) returns json
language sql stable set search_path = pg_catalog as $$
  select dashboard.page(array_agg(dashboard.payout_item(p) order by p.seq desc), array_agg(p.seq::text order by p.seq desc), size)
  from app.asked_payouts(merchant, asked, least(before::numeric, 9223372036854775807)::bigint, size + 1) p
$$;
comment on function dashboard.payouts_of is 'A page of the payouts of a merchant that are asked for (app.asked_payouts), the newest first.';

create or replace function dashboard.own_payout(merchant uuid, public_id text) returns app.payout
language plpgsql stable set search_path = pg_catalog as $$
declare p app.payout;
begin
  select * into p from app.payout o where o.id = dashboard.uuid_of('pay', public_id) and o.merchant_id = merchant;
  if p.id is null then raise exception 'there is no payout with this id' using errcode = 'SL404', detail = 'payout'; end if;
  return p;
end $$;
comment on function dashboard.own_payout is 'The payout of this merchant with this id; raises SL404 if there is none.';

create or replace function dashboard.payout(token text, public_id text) returns json
language plpgsql stable security definer set search_path = pg_catalog as $$
declare
  p app.payout := dashboard.own_payout(dashboard.merchant_of(token), public_id);
  claimed app.claim;
begin
  select * into claimed from app.claim c where c.payout_id = p.id and c.kind = 'claim';
  return (select app.with_more(dashboard.payout_item(p), row_to_json(more)) from (
    select p.fee_bps, p.sweep_first, claimed.deposit_count,
      case when claimed.finished_at is null then claimed.done_count end as collected_count, app.iso(p.sweeping_at) as sweeping_at,
      app.iso(p.swept_at) as swept_at, app.iso(p.paying_at) as paying_at, app.iso(p.finished_at) as finished_at, dashboard.events_of(p.id) as events) more);
end $$;
comment on function dashboard.payout is 'A payout, when each step began, and what its merchant was notified of.';
grant execute on function dashboard.payout to sluice_dashboard;

create or replace function dashboard.payout_parts(token text, public_id text, before text, size int) returns json
language plpgsql stable security definer set search_path = pg_catalog as $$
declare p app.payout := dashboard.own_payout(dashboard.merchant_of(token), public_id);
begin
  return (select dashboard.page(array_agg(t.item order by t.place desc), array_agg(t.place::text order by t.place desc), size)
    from app.read_payout_parts(case when p.status <> 'failed' then p.id end, least(before::numeric, 9223372036854775807)::bigint, size + 1) t);
end $$;
comment on function dashboard.payout_parts is 'A page of what a payout is made of, as far as it has collected that: adjustments, then its deposits, the newest first. Nothing if it failed.';
grant execute on function dashboard.payout_parts to sluice_dashboard;

create or replace function dashboard.create_payout(token text, request uuid, of_chain text, of_token text, sweep_first boolean, shown_address text)
returns json
language plpgsql security definer set search_path = pg_catalog as $$
declare
  who dashboard.audit_entry := dashboard.begin_change(token, request);
  present text;
  made json;
begin
  perform dashboard.require_full_rights(token);
  select p.address into present from app.payout_address p where p.merchant_id = who.merchant_id and p.chain = of_chain for share;
  if present is distinct from shown_address then
    raise exception 'the payout address of % is another one now; nothing is paid before you have seen it', of_chain using errcode = 'SL422';
  end if;
  made := app.create_payout(who.merchant_id, of_chain, of_token, sweep_first, null, null);
  perform dashboard.note(who, 'payout.create', made ->> 'id', (made ->> 'net') || ' ' || of_token || ' on ' || of_chain);
  return json_build_object('id', made ->> 'id');
end $$;
comment on function dashboard.create_payout is 'Pays out a balance to the address that the person saw, if it is still the registered one; returns the id of the payout.';
grant execute on function dashboard.create_payout to sluice_dashboard;

create or replace function dashboard.cancel_payout(token text, request uuid, public_id text) returns void
language plpgsql security definer set search_path = pg_catalog as $$
declare who dashboard.audit_entry := dashboard.begin_change(token, request);
begin
  perform app.cancel_payout(who.merchant_id, dashboard.uuid_of('pay', public_id));
  perform dashboard.note(who, 'payout.cancel', public_id);
end $$;
comment on function dashboard.cancel_payout is 'Cancels a payout, until its payment has begun.';
grant execute on function dashboard.cancel_payout to sluice_dashboard;

create or replace function dashboard.payout_addresses(token text) returns json
language sql stable security definer set search_path = pg_catalog as $$
  select app.read_payout_addresses(dashboard.merchant_of(payout_addresses.token))
$$;
comment on function dashboard.payout_addresses is 'Where payouts of each chain go, and the state of the whitelist.';
grant execute on function dashboard.payout_addresses to sluice_dashboard;

create or replace function dashboard.own_address(token text, of_chain text) returns text
language plpgsql stable security definer set search_path = pg_catalog as $$
begin
  perform dashboard.merchant_of(token);
  return (select c.address from custody.address c where c.purpose = 'treasury' and c.family = (select f.family from app.chain f where f.chain = of_chain));
end $$;
comment on function dashboard.own_address is 'An address of ours on the chain, which shows the network that a new payout address must be of; null before custody has made one.';
grant execute on function dashboard.own_address to sluice_dashboard;

create or replace function dashboard.set_payout_address(token text, request uuid, of_chain text, of_address text) returns void
language plpgsql security definer set search_path = pg_catalog as $$
declare
  who dashboard.audit_entry := dashboard.begin_change(token, request);
begin
  perform dashboard.require_full_rights(token);
  perform app.set_payout_address(who.merchant_id, of_chain, of_address);
  perform dashboard.note(who, 'payout_address.set', of_chain, of_address);
end $$;
comment on function dashboard.set_payout_address is 'Registers where payouts of a chain go. The address comes checked and in its display form. Nothing is paid to it before the operator has put it on the whitelist.';
grant execute on function dashboard.set_payout_address to sluice_dashboard;
