-- What the dashboard shows of deposits and users. It reads, and changes nothing.
--
-- Lists go through the same indexes as those of the API (api/routes/deposits.ts), which have the deposits of each status, chain and token in order.
-- Errors: SLAUT there is no such session; SL404 there is nothing with this id, or it belongs to another merchant.

create or replace function dashboard.deposit_item(d app.deposit) returns json
language sql stable set search_path = pg_catalog as $$
  select json_build_object('id', app.public_id('dep', d.id), 'chain', d.chain, 'token', d.token, 'amount', app.decimal(d.amount, a.decimals),
    'status', d.status, 'confirmations', app.deposit_confirmations(d.status, d.block_height, c.head_height), 'txid', d.txid, 'sender', d.sender,
    'address', d.address, 'user_id', app.public_id('usr', u.id), 'external_ref', u.external_ref, 'created_at', app.iso(d.created_at))
  from app.asset a join app.user u on u.id = d.user_id left join chain.cursor c on c.chain = d.chain
  where a.chain = d.chain and a.token = d.token
$$;
comment on function dashboard.deposit_item is 'A deposit of a user, as a list shows it.';

create or replace function dashboard.deposits(token text, of_status text, of_chain text, of_user text, before text, size int) returns json
language plpgsql stable security definer set search_path = pg_catalog as $$
declare
  merchant uuid := dashboard.merchant_of(token);
  owner uuid := case when of_user is not null then dashboard.own_user(merchant, of_user) end;
  below numeric := coalesce(before::numeric, 2::numeric ^ 127);
begin
  if owner is not null then
    return (select dashboard.page(array_agg(dashboard.deposit_item(d) order by d.position desc), array_agg(d.position::text order by d.position desc), size)
      from (select p.* from app.asset a cross join unnest('{pending,final,reorged}'::text[]) s (status)
        cross join lateral (select * from app.deposit o where o.user_id = owner and o.chain = a.chain and o.token = a.token and o.status = s.status
          and o.credited and o.position < below order by o.position desc limit size + 1) p
        where coalesce(s.status = of_status, true) and coalesce(a.chain = of_chain, true) order by p.position desc limit size + 1) d);
  elsif of_status is null and of_chain is null then
    return (select dashboard.page(array_agg(dashboard.deposit_item(d) order by d.position desc), array_agg(d.position::text order by d.position desc), size)
      from (select * from app.deposit o where o.merchant_id = merchant and o.credited and o.user_id is not null and o.position < below
        order by o.position desc limit size + 1) d);
  end if;
  return (select dashboard.page(array_agg(dashboard.deposit_item(d) order by d.position desc), array_agg(d.position::text order by d.position desc), size)
    from (select p.* from app.asset a cross join unnest('{pending,final,reorged}'::text[]) s (status)
      cross join lateral (select * from app.deposit o where o.merchant_id = merchant and o.chain = a.chain and o.token = a.token and o.status = s.status
        and o.credited and o.user_id is not null and o.position < below order by o.position desc limit size + 1) p
      where coalesce(s.status = of_status, true) and coalesce(a.chain = of_chain, true) order by p.position desc limit size + 1) d);
end $$;
comment on function dashboard.deposits is 'A page of the deposits of users, the newest first; null leaves a filter out. before: where the page begins.';
grant execute on function dashboard.deposits to sluice_dashboard;

create or replace function dashboard.deposit(token text, public_id text) returns json
language plpgsql stable security definer set search_path = pg_catalog as $$
declare
  merchant uuid := dashboard.merchant_of(token);
  d app.deposit;
begin
  select * into d from app.deposit o
  where o.id = dashboard.uuid_of('dep', public_id) and o.merchant_id = merchant and o.credited and o.user_id is not null;
  if d.id is null then raise exception 'there is no deposit with this id' using errcode = 'SL404', detail = 'deposit'; end if;
  return dashboard.deposit_item(d)::jsonb || jsonb_build_object('output_index', d.output_index, 'block_height', d.block_height,
    'finalised_at', app.iso(d.finalised_at), 'events', dashboard.events_of(d.id), 'held_back', app.held_back_of(d),
    'payout', (select jsonb_build_object('id', app.public_id('pay', p.id), 'status', p.status, 'created_at', app.iso(p.created_at))
      from app.payout p where p.id = d.settlement_id));
end $$;
comment on function dashboard.deposit is 'A deposit, the payout that collected it, and what its merchant was notified of.';
grant execute on function dashboard.deposit to sluice_dashboard;

create or replace function dashboard.uuid_of(prefix text, public_id text) returns uuid
language sql immutable parallel safe set search_path = pg_catalog
return case when public_id ~ ('^' || prefix || '_[0-9a-f]{32}$') then right(public_id, 32)::uuid end;
comment on function dashboard.uuid_of is 'The UUID in an id that merchants see; null if it is no id of this kind.';

create or replace function dashboard.own_user(merchant uuid, public_id text) returns uuid
language plpgsql stable set search_path = pg_catalog as $$
declare own uuid;
begin
  select u.id into own from app.user u where u.id = dashboard.uuid_of('usr', public_id) and u.merchant_id = merchant;
  if own is null then raise exception 'there is no user with this id' using errcode = 'SL404', detail = 'user'; end if;
  return own;
end $$;
comment on function dashboard.own_user is 'The user of this merchant with this id; raises SL404 if there is none.';

create or replace function dashboard.user_item(u app.user) returns json
language sql stable set search_path = pg_catalog as $$
  select json_build_object('id', app.public_id('usr', u.id), 'external_ref', u.external_ref, 'created_at', app.iso(u.created_at),
    'addresses', app.addresses_of(u.id))
$$;
comment on function dashboard.user_item is 'A user with the addresses that it was given.';

create or replace function dashboard.users(token text, of_external_ref text, before text, size int) returns json
language plpgsql stable security definer set search_path = pg_catalog as $$
declare merchant uuid := dashboard.merchant_of(token);
begin
  if of_external_ref is not null then
    return (select dashboard.page(array_agg(dashboard.user_item(u)), null, size)
      from app.user u where u.merchant_id = merchant and u.external_ref = app.user_ref(merchant, of_external_ref));
  end if;
  return (select dashboard.page(array_agg(dashboard.user_item(u) order by u.seq desc), array_agg(u.seq::text order by u.seq desc), size)
    from (select * from app.user o where o.merchant_id = merchant and o.seq < least(before::numeric, 9223372036854775807)::bigint
      order by o.seq desc limit size + 1) u);
end $$;
comment on function dashboard.users is 'A page of the users, the newest first, or the one with this reference.';
grant execute on function dashboard.users to sluice_dashboard;

create or replace function dashboard.user_of(token text, public_id text) returns json
language sql stable security definer set search_path = pg_catalog as $$
  select dashboard.user_item(u) from app.user u where u.id = dashboard.own_user(dashboard.merchant_of(user_of.token), user_of.public_id)
$$;
comment on function dashboard.user_of is 'A user.';
grant execute on function dashboard.user_of to sluice_dashboard;
