-- CPFP children: a sweep of ours speeds up an unconfirmed incoming payment. The child pays the fee of both, so a block takes the parent. Only
-- `sluice treasury cpfp` calls app.begin_cpfp, as the owner of the database. At COMMIT app.add_outputs calls app.reserve_cpfp_outputs, and
-- chain.finalise_deposits calls app.end_conflicted_cpfp. The latter runs after outgoing payments were finished, which lock payouts before the
-- treasury, and before chain.unconfirmed forgets what is final.
--
-- Promises: the outputs of a CPFP child belong to one unconfirmed parent, and to one merchant or the treasury. Outputs of a deposit that is not
-- credited are never inputs. At most one open CPFP child has an output. As soon as the parent is final, its outputs are reserved for the CPFP
-- child, so nothing else ever gets them. If a final transaction that pays us replaced the parent, the CPFP child ends as conflicted.
-- Locks: chain.cursor first, so that unconfirmed payments do not change; then the treasury. Error: SL422 it cannot be begun; the message says why.

create or replace function app.begin_cpfp(of_chain text, inputs text[], network_fee numeric, parent_vsize int) returns uuid
language plpgsql security definer set search_path = pg_catalog as $$
declare
  native text := app.native_token(of_chain);
  found_outputs record;
  funds numeric;
  outgoing_payment uuid;
begin
  perform from chain.cursor c where c.chain = of_chain for update; -- unconfirmed payments do not change meanwhile
  perform app.lock_treasury(of_chain);
  select count(*) as count, count(distinct u.txid) as parents, count(distinct coalesce(d.merchant_id::text, 'treasury')) as owners,
    sum(u.amount) as total, min(u.txid) as txid, (array_agg(d.merchant_id))[1] as merchant_id
  into found_outputs
  from (select distinct of_chain || ':' || i as id from unnest(inputs) i) k
  join chain.unconfirmed u on u.id = k.id and u.token = native
  join app.deposit d on d.chain = u.chain and d.txid = u.txid and d.output_index = u.output_index and d.address = u.recipient
    and d.status = 'pending' and d.block_height is null and (d.credited or d.merchant_id is null);
  if found_outputs.count is distinct from cardinality(inputs) or found_outputs.parents <> 1 or found_outputs.owners <> 1 then
    raise exception 'these are not unconfirmed outputs of one transaction to addresses of one merchant, or to the treasury' using errcode = 'SL422';
  end if;
  if exists (select from app.outgoing_payment s where s.chain = of_chain and s.first_input = any(inputs)) or exists (
    select from app.cpfp b join app.outgoing_payment s on s.id = b.outgoing_payment_id where s.chain = of_chain and s.status <> 'final' and b.outputs && inputs) then
    raise exception 'a child transaction of ours already spends these outputs; Sluice raises its fee automatically' using errcode = 'SL422';
  end if;
  if found_outputs.total <= network_fee then
    raise exception 'these outputs hold no more than the network fee' using errcode = 'SL422';
  end if;
  funds := app.operator_funds(of_chain, native);
  if funds < network_fee then
    raise exception 'the operator''s own money is not enough: %', app.short_by(of_chain, native, network_fee - funds) using errcode = 'SL422';
  end if;
  perform app.reserve(of_chain, native, network_fee);
  insert into app.outgoing_payment as s (kind, chain, token, amount, source, recipient, fee_payer, first_input, merchant_id, max_fee)
  select 'sweep', of_chain, native, found_outputs.total - network_fee, u.recipient, t.treasury, t.treasury, begin_cpfp.inputs[1],
    found_outputs.merchant_id, network_fee
  from app.treasury_address(of_chain) t (treasury) join chain.unconfirmed u on u.id = of_chain || ':' || begin_cpfp.inputs[1]
  returning s.id into outgoing_payment;
  insert into app.cpfp (outgoing_payment_id, txid, outputs, parent_inputs, parent_vsize)
  select outgoing_payment, u.txid, begin_cpfp.inputs, u.inputs, begin_cpfp.parent_vsize
  from chain.unconfirmed u where u.id = of_chain || ':' || begin_cpfp.inputs[1];
  perform app.wake_outgoing_payments(of_chain);
  return outgoing_payment;
end $$;
comment on function app.begin_cpfp is 'Begins a child that spends unconfirmed outputs of ours (<txid>:<vout>) and pays for their transaction, too; amounts in base units. Returns the id of the outgoing payment.';


create or replace function app.reserve_cpfp_outputs(of_chain text) returns void
language sql set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
  update app.output u set outgoing_payment_id = b.outgoing_payment_id, from_attempt = 1
  from app.cpfp b join app.outgoing_payment x on x.id = b.outgoing_payment_id
  where x.chain = of_chain and x.status <> 'final' and u.chain = of_chain and u.txid = b.txid and u.txid || ':' || u.vout = any(b.outputs)
    and u.outgoing_payment_id is null and u.spent_by is null
$$;
comment on function app.reserve_cpfp_outputs is 'Reserves the outputs of CPFP children whose parent is final.';


create or replace function app.end_conflicted_cpfp(of_chain text, final_height int) returns void
language plpgsql set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
declare
  replaced record;
  s app.outgoing_payment;
begin
  for replaced in
    select distinct on (b.outgoing_payment_id) b.outgoing_payment_id, u.txid from app.cpfp b join app.outgoing_payment x on x.id = b.outgoing_payment_id
    join chain.unconfirmed u on u.chain = of_chain and u.txid <> b.txid and u.inputs && b.parent_inputs
    join chain.transfer t on t.id = u.id and t.block_height <= final_height
    where x.chain = of_chain and x.status <> 'final'
  loop
    perform app.lock_treasury(of_chain);
    update app.outgoing_payment x set status = 'final', txid = replaced.txid, outcome = 'conflicted', fee_paid = 0, final_at = clock_timestamp(),
      next_step_at = null, waiting_reason = null, waiting_detail = null, waiting_since = null
    where x.id = replaced.outgoing_payment_id returning * into s;
    perform app.post_network_fee(s, 0);
  end loop;
end $$;
comment on function app.end_conflicted_cpfp is 'Ends CPFP children whose parent can no longer be mined, because a final transaction conflicts with it.';
