-- Begins a sweep on a chain with outputs: one transaction that moves outputs of one merchant's addresses to the treasury. The worker calls this for
-- a payout that needs more inputs than a transaction may have, which then waits for the sweep; or for no payout, to collect what lies on addresses.
--
-- Promises: of two calls with the same outputs one begins. Nothing is begun for a payout that is not sweeping.
-- Locks: payout, treasury.

create or replace function app.begin_output_sweep(of_payout uuid, of_chain text, of_merchant uuid, inputs text[], network_fee numeric) returns text
language plpgsql security definer set search_path = pg_catalog as $$
declare
  found_outputs record;
  funds numeric;
  sweep uuid;
  first_input text;
begin
  if of_payout is not null then
    perform from app.payout p where p.id = of_payout and p.status = 'sweeping' for update;
    if not found then return null; end if;
  end if;
  perform app.lock_treasury(of_chain);
  select * into found_outputs from app.weigh_outputs(of_chain, inputs, of_merchant, false);
  first_input := app.first_input_of(of_chain, inputs);
  if found_outputs.count is distinct from cardinality(inputs) or first_input is null then return 'outputs that were chosen are not free any more'; end if;
  if found_outputs.total <= network_fee then return 'these outputs hold no more than the network fee'; end if;
  funds := app.operator_funds(of_chain, app.native_token(of_chain));
  if funds < network_fee then
    return app.short_by(of_chain, app.native_token(of_chain), network_fee - funds, ' for sweeping');
  end if;
  perform app.reserve(of_chain, app.native_token(of_chain), network_fee);
  insert into app.outgoing_payment as x (kind, chain, token, amount, source, recipient, fee_payer, first_input, payout_id, merchant_id, max_fee)
  select 'sweep', of_chain, app.native_token(of_chain), found_outputs.total - network_fee, u.address, t.treasury, t.treasury, first_input, of_payout,
    of_merchant, network_fee
  from app.treasury_address(of_chain) t (treasury)
  join app.output u on u.chain = of_chain and u.txid = split_part(first_input, ':', 1) and u.vout = split_part(first_input, ':', 2)::int
  returning x.id into sweep;
  perform app.reserve_outputs(of_chain, inputs, sweep, 1);
  if of_payout is not null then
    insert into app.payout_sweep (payout_id, outgoing_payment_id) values (of_payout, sweep);
  end if;
  perform app.wake_outgoing_payments(of_chain);
  return null;
end $$;
comment on function app.begin_output_sweep is 'Reserves outputs of a merchant''s addresses for one transaction that moves them to the treasury, with this network fee (in base units). Returns what is in the way; null if it is begun, or the payout is not sweeping.';
grant execute on function app.begin_output_sweep to sluice_jobs;
