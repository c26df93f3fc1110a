-- A merchant requests a payout (POST /v1/payouts): it claims the whole balance of a (merchant, chain, token).
--
-- Gross, and the finalisation number up to which deposits belong to it, are read in one statement, so both are of one moment. The same transaction
-- writes the payout, the adjustments that it claims, the claim, the change of the balance, the posting, and the jobs. Its deposits are allocated
-- afterwards (allocate.sql), up to a hundred at once: a million deposits are claimed as fast as one.
-- A disabled chain pays out what is left on it. If the payout was made, its idempotency key is kept for ever, with the response.
-- Locks: idempotency key, pair (app.lock_pair), adjustments; for the first allocation its own lock, if that is free, and deposits.
-- Errors: SLCHN the chain is not enabled for the merchant; SLTOK there is no such token on the chain; SLPAY refused, the message says why, and the detail is a code for it; SLIDK the
-- key was used with another request; P0003 the balance does not agree with the deposits.

create or replace function app.create_payout(of_merchant uuid, of_chain text, of_token text, of_sweep_first boolean, of_key text,
  of_request bytea) returns text
language plpgsql security definer set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
declare
  duplicate app.idempotency_key;
  asset app.asset;
  destination text;
  rate int;
  is_enabled boolean;
  at record;
  kept text;
  adjusted numeric;
  p app.payout;
  reply text;
begin
  if of_key is not null then
    insert into app.idempotency_key (merchant_id, key, request_hash) values (of_merchant, of_key, of_request) on conflict do nothing;
    if not found then
      select * into duplicate from app.idempotency_key k where k.merchant_id = of_merchant and k.key = of_key;
      if duplicate.request_hash <> of_request then
        raise exception 'this Idempotency-Key was used with another request' using errcode = 'SLIDK';
      end if;
      return duplicate.body;
    end if;
  end if;
  select m.enabled into is_enabled from app.merchant_chain m where m.merchant_id = of_merchant and m.chain = of_chain;
  select * into asset from app.asset a where a.chain = of_chain and a.token = of_token;
  if asset.chain is null and exists (select from app.chain c where c.chain = of_chain) then
    raise exception 'there is no % on %', of_token, of_chain using errcode = 'SLTOK';
  end if;
  if asset.chain is null or is_enabled is null then raise exception 'not enabled for this account: %', of_chain using errcode = 'SLCHN'; end if;
  perform app.lock_pair(of_merchant, of_chain, of_token);

  select coalesce(b.amount, 0) - coalesce(b.held_back, 0) as gross, coalesce(b.held_back, 0) as held_back,
    coalesce(b.deposit_count, 0) - coalesce(b.held_back_count, 0) as deposit_count, c.finalisation as cutoff into at
  from (select) one left join app.balance_now b on b.merchant_id = of_merchant and b.chain = of_chain and b.token = of_token
  left join chain.cursor c on c.chain = of_chain;
  if at.gross = 0 and at.held_back = 0 and not is_enabled then raise exception 'not enabled for this account: %', of_chain using errcode = 'SLCHN'; end if;
  perform app.refuse_payout('chain_stopped', 'payouts of ' || of_chain || ' are stopped: ' || why) from app.why_halted(of_chain) why where why is not null;
  select a.address into destination from app.payout_address a where a.merchant_id = of_merchant and a.chain = of_chain;
  if destination is null then perform app.refuse_payout('no_payout_address', 'no payout address is registered for ' || of_chain); end if;
  perform app.refuse_payout('own_address', 'the payout address belongs to this service; register one of your own')
  from custody.address o where o.address = destination;
  kept := app.why_held_back(of_merchant, of_chain, of_token, at.held_back);
  if at.gross <= 0 then
    perform app.refuse_payout('nothing_to_pay_out', case when at.gross = 0 then 'there is nothing to pay out' else 'the balance is below zero' end
      || coalesce('; ' || kept, ''));
  end if;

  select m.fee_bps into rate from app.merchant m where m.id = of_merchant;
  if at.gross - div(at.gross * rate, 10000) < asset.min_payout then
    perform app.refuse_payout('below_smallest_payout', case when kept is null then '' else 'without what is held back, ' end
      || 'the balance is below the smallest payout (' || app.decimal(asset.min_payout, asset.decimals) || ' ' || of_token || ')' || coalesce('; ' || kept, ''));
  end if;
  insert into app.payout (merchant_id, chain, token, gross, fee_bps, fee, net, address, sweep_first)
  values (of_merchant, of_chain, of_token, at.gross, rate, div(at.gross * rate, 10000), at.gross - div(at.gross * rate, 10000), destination,
    coalesce(of_sweep_first, false))
  returning * into p;
  with claimed as (
    update app.adjustment a set settlement_id = p.id
    where a.merchant_id = of_merchant and a.chain = of_chain and a.token = of_token and a.settlement_id is null returning a.amount
  )
  select coalesce(sum(amount), 0) into adjusted from claimed;
  insert into app.claim (kind, payout_id, merchant_id, chain, token, cutoff, deposit_count, amount)
  values ('claim', p.id, of_merchant, of_chain, of_token, at.cutoff, at.deposit_count, at.gross - adjusted);
  insert into app.balance_delta (merchant_id, chain, token, amount, deposit_count)
  values (of_merchant, of_chain, of_token, -at.gross, -at.deposit_count);
  perform app.post('claim', p.id::text, of_chain, jsonb_build_array(
    jsonb_build_object('account', 'merchant', 'token', of_token, 'merchant_id', of_merchant, 'amount', p.gross),
    jsonb_build_object('account', 'payout', 'token', of_token, 'merchant_id', of_merchant, 'amount', -p.gross)));
  if app.allocate_deposits(of_merchant, of_chain, of_token, 100) then perform app.wake_allocation(p); end if;
  perform app.wake_payout(p.id);

  select row_to_json(r) into reply from (select app.public_id('pay', p.id) as id, p.status,
    app.decimal(p.gross, asset.decimals) as gross, app.decimal(p.fee, asset.decimals) as fee, app.decimal(p.net, asset.decimals) as net,
    p.txid) r;
  update app.idempotency_key k set payout_id = p.id, body = reply where k.merchant_id = of_merchant and k.key = of_key;
  return reply;
end $$;
comment on function app.create_payout is 'Claims the balance of a merchant''s chain and token for a payout; returns the body of the response. The same key gives the same response.';
grant execute on function app.create_payout to sluice_api;

create or replace function app.refuse_payout(code text, why text) returns void
language plpgsql set search_path = pg_catalog as $$
begin
  raise exception '%', why using errcode = 'SLPAY', detail = code;
end $$;
comment on function app.refuse_payout is 'Raises SLPAY with this message, and a code for programs as its detail.';
