-- Choosing and reserving outputs. The worker chooses without a lock, among app.free_output and app.claimed_outputs. The functions that begin an
-- outgoing payment (app.outgoing_payment) or add inputs to one check again under the treasury's lock, and reserve the chosen outputs.
--
-- Promises: an output is reserved for one outgoing payment at a time; a caller that chose one that is no longer free is refused.
-- Outputs are named as <txid>:<vout>.

create or replace function app.weigh_outputs(of_chain text, inputs text[], of_merchant uuid, with_treasury boolean,
  out count bigint, out total numeric, out of_addresses numeric)
language sql stable set search_path = pg_catalog as $$
  select count(*), coalesce(sum(u.amount), 0), coalesce(sum(u.amount) filter (where u.merchant_id is not null), 0)
  from (select distinct split_part(i, ':', 1) as txid, split_part(i, ':', 2)::int as vout from unnest(inputs) i) k
  join app.free_output u on u.chain = of_chain and u.txid = k.txid and u.vout = k.vout
  where case when u.merchant_id is null then with_treasury else u.merchant_id = of_merchant end
$$;
comment on function app.weigh_outputs is 'Sums up those of these outputs that are free and belong to the merchant or, with_treasury, to the treasury: their number, their sum and the merchant''s part of it, in base units. A number below the number asked for means that some are not free, or named twice.';


create or replace function app.reserve_outputs(of_chain text, inputs text[], of_outgoing_payment uuid, attempt int) returns void
language sql set search_path = pg_catalog as $$
  update app.output u set outgoing_payment_id = of_outgoing_payment, from_attempt = attempt
  from (select split_part(i, ':', 1) as txid, split_part(i, ':', 2)::int as vout from unnest(inputs) i) k
  where u.chain = of_chain and u.txid = k.txid and u.vout = k.vout
$$;
comment on function app.reserve_outputs is 'Reserves outputs as inputs of an outgoing payment, from this attempt on. The caller knows that they are free.';


-- app.outgoing_payment has each first input once, for ever.
create or replace function app.first_input_of(of_chain text, inputs text[]) returns text
language sql stable set search_path = pg_catalog as $$
  select i from unnest(inputs) with ordinality as u (i, n)
  where not exists (select from app.outgoing_payment s where s.chain = of_chain and s.first_input = i) order by n limit 1
$$;
comment on function app.first_input_of is 'The first of these outputs that was never the first input of an outgoing payment; null if there is none.';


create or replace function app.claimed_outputs(of_payout uuid, most int) returns table (outpoint text, amount numeric)
language sql stable security definer set search_path = pg_catalog as $$
  select u.txid || ':' || u.vout, u.amount
  from app.deposit d join app.free_output u on u.chain = d.chain and u.txid = d.txid and u.vout = d.output_index
  where d.settlement_id = of_payout order by u.amount desc limit most
$$;
comment on function app.claimed_outputs is 'The free outputs of the deposits that a payout claimed, with their amounts in base units, the largest first: what it spends with sweep_first.';
grant execute on function app.claimed_outputs to sluice_jobs;
