-- What came to the merchant's addresses and was not credited: for the search, and for the page of a user. (The page of a payment request has
-- app.not_counted.) It reads, and changes nothing.
--
-- Errors: SLAUT there is no such session; SL404 there is no such user.

-- Nobody knows the decimals of a token that is not known: those that most tokens have are tried.
create or replace function dashboard.not_credited(merchant uuid, of_sender text, of_sum text[]) returns setof app.deposit
language sql stable rows 10 set search_path = pg_catalog as $$
  (select d.* from app.deposit d where d.merchant_id = merchant and not d.credited and lower(left(d.sender, 16)) = lower(left(of_sender, 16))
    and app.is_address(d.chain, d.sender, of_sender) order by d.seq desc limit 20)
  union all
  (select d.* from (select a.decimals from app.asset a union select unnest('{0,6,8,9,18}'::int[])) n
    cross join lateral (select o.* from app.deposit o left join app.asset a on a.chain = o.chain and a.token = o.token
      where o.merchant_id = merchant and not o.credited and o.amount = of_sum[1]::numeric * 10::numeric ^ n.decimals
        and coalesce(a.decimals = n.decimals, true) and coalesce(a.token = upper(of_sum[2]), true) order by o.seq desc limit 10) d)
$$;
comment on function dashboard.not_credited is 'What was not credited of a sender (the newest twenty), or of an amount, perhaps with its token (of each number of decimals the newest ten).';

create or replace function dashboard.why_not_credited(d app.deposit) returns text
language sql stable set search_path = pg_catalog as $$
  select case o.decision when 'return' then 'the operator sends it back, or has' else app.words_of_unattributed(app.why_unattributed(
    app.is_from_protocol(d.transfer_kind, d.output_index, d.token), a.token is not null, u.is_provisioned, d.token, null)) end
  from app.address u left join app.asset a on a.chain = d.chain and a.token = d.token left join app.unattributed_decision o on o.deposit_id = d.id
  where u.chain = d.chain and u.address = d.address
$$;
comment on function dashboard.why_not_credited is 'Why what came for a user is not credited, in words.';

create or replace function dashboard.user_not_credited(token text, public_id text) returns json
language plpgsql stable security definer set search_path = pg_catalog as $$
declare of_user uuid := dashboard.own_user(dashboard.merchant_of(user_not_credited.token), public_id);
begin
  return (select coalesce(json_agg(json_build_object('chain', d.chain, 'what', app.in_words(d.amount, d.token, a.decimals),
      'why', dashboard.why_not_credited(d), 'sender', d.sender, 'txid', d.txid, 'at', app.iso(d.created_at)) order by d.seq desc), '[]')
    from (select * from app.deposit o where o.user_id = of_user and not o.credited and o.status <> 'reorged' order by o.seq desc limit 20) d
    left join app.asset a on a.chain = d.chain and a.token = d.token);
end $$;
comment on function dashboard.user_not_credited is 'What came for a user and was not credited, with the reason of each: the newest twenty.';
grant execute on function dashboard.user_not_credited to sluice_dashboard;
