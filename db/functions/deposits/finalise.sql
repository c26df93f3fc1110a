-- Finalises every pending deposit at or below the final height, in one statement. chain.derive calls it, at COMMIT, after deposits were derived, so
-- that it sees this transaction's rows, whether blocks came or finality moved (chain.finalise).
--
-- Each finalisation gets the chain's next number, which its deposits carry: a payout claims up to a number. Balance deltas, the ledger and events
-- are written with it. If nothing became final, nothing is written.
-- Locks: the caller holds the chain's row in chain.cursor; then outputs (app.add_outputs), those of outgoing payments that become final
-- (app.finish_outgoing_payments, app.end_conflicted_cpfp), deposits, holdings and treasury (app.post_final_deposits), the pair of a deposit that is
-- back (app.adjust).

create or replace function chain.some_pending(of_chain text, final_height int) returns int
language plpgsql stable set search_path = pg_catalog set enable_seqscan = off as $$
begin
  return (select count(*) from (
    select from app.deposit d where d.chain = of_chain and d.status = 'pending' and d.block_height <= some_pending.final_height limit 100) p);
end $$;
comment on function chain.some_pending is 'How many deposits of a chain are pending at or below a height, up to 100.';

-- Outputs are added before outgoing payments that spend them are finished: an older copy of the database may read both at once. A deposit that was
-- lost after a payout had claimed it, and is final again, adds no balance: it cancels the debt that replaced it.
create or replace function chain.finalise_deposits(of_chain text, final_height int) returns void
language plpgsql set search_path = pg_catalog as $$
declare
  ids uuid[];
  versions int[];
  tokens text[];
  amounts numeric[];
  everything uuid[];
  addresses text[];
  back app.deposit;
  number bigint;
  has_payments boolean := app.has_open_payments(of_chain);
  some_pending int := chain.some_pending(of_chain, final_height);
begin
  perform chain.plan_for(some_pending);
  if app.uses_outputs(of_chain) and (some_pending > 0 or has_payments) then perform app.add_outputs(of_chain, final_height); end if;
  perform app.finish_outgoing_payments(of_chain, final_height);
  if app.shows_unconfirmed(of_chain) then
    if has_payments then perform app.end_conflicted_cpfp(of_chain, final_height); end if;
    perform chain.forget_final(of_chain, final_height);
  end if;
  if some_pending = 0 then return; end if;
  select c.finalisation + 1 into number from chain.cursor c where c.chain = of_chain; -- a sweep that ended may have taken one
  with finalised as (
    update app.deposit d set status = 'final', version = d.version + 1, finalised_at = clock_timestamp(), finalisation = number,
      held_back = d.credited and d.settlement_id is null
        and (coalesce(d.amount < (select a.sweep_min from app.asset a where a.chain = d.chain and a.token = d.token), false)
          or exists (select from app.blocked_address b where b.chain = d.chain and b.token = d.token and b.address = d.address))
    where d.chain = of_chain and d.status = 'pending' and d.block_height <= final_height
    returning d.id, d.merchant_id, d.token, d.amount, d.address, d.credited, d.settlement_id, d.version, d.block_height, d.txid, d.output_index, d.held_back,
      d.finalised_at - d.created_at as took
  ), counted as (
    insert into app.balance_delta (merchant_id, chain, token, amount, deposit_count, held_back, held_back_count)
    select merchant_id, of_chain, token, sum(amount), count(*), coalesce(sum(amount) filter (where held_back), 0), count(*) filter (where held_back)
    from finalised
    where credited and settlement_id is null
    group by merchant_id, token
  ), timed as (
    insert into app.total_change (merchant_id, series, about, at, count, amount)
    select merchant_id, 'seen_to_final', of_chain, app.posting_time(), count(*), sum(greatest(0, extract(epoch from took) * 1000))::bigint
    from finalised where credited group by merchant_id
  ), ordered as (
    select *, row_number() over (order by block_height, txid, output_index) as n from finalised
  )
  select array_agg(id order by n) filter (where credited), array_agg(version order by n) filter (where credited),
    array_agg(token order by n) filter (where credited), array_agg(amount order by n) filter (where credited),
    array_agg(address order by n) filter (where credited), array_agg(id)
  into ids, versions, tokens, amounts, addresses, everything from ordered;
  update chain.cursor c set finalisation = number where c.chain = of_chain;
  perform app.post_final_deposits(of_chain, everything, number);
  perform app.release_held_back(of_chain, addresses, tokens, number);
  for back in select * from app.deposit d where d.id = any(ids) and d.settlement_id is not null loop
    perform app.adjust(back, back.amount, 'deposit_back');
  end loop;
  perform app.emit_deposit_events(ids, array_fill('deposit.confirmed'::text, array[coalesce(cardinality(ids), 0)]), versions, tokens, amounts);
end $$;
comment on function chain.finalise_deposits is 'Makes final what is pending at or below the final height: outgoing payments first, then deposits, with balances, ledger and events.';
