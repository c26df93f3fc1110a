-- Bumps: a payment of somebody else to addresses of ours that no block takes is made worth taking by a child of it, which pays for both.
--
-- The one exception to "only final outputs are spent", for an operator's explicit command alone (sluice treasury bump). A bump is a sweep whose
-- inputs are unmined: they are in app.bump until their transaction, the parent, is final, and from then on reserved in app.output, as those of
-- any spend. What comes of it is settled as of any sweep: the deposits are credited when they are final, by themselves, and the child, which
-- cannot be final before them, takes them to the treasury. If the parent can never be mined, neither can the child: where the transaction that
-- took the parent's place pays us, too, the bump is over when that is final (displaced); where it does not, nothing here proves it, and the
-- bump keeps waiting.
--
-- Writers: the owner, through app.begin_output_bump. Readers: the worker, custody (which signs for no unmined output but these), settling.
-- Invariants: the outputs of a bump are of one transaction, and of one merchant or the treasury; at most one bump that is not over has an output.
-- Locks: chain.cursor first, as everybody.

create table app.bump (
  spend_id uuid primary key references app.spend on delete cascade,
  txid text not null,
  outputs text[] not null,
  parent_inputs text[] not null,
  parent_vsize int not null check (parent_vsize between 1 and 100000)
);
comment on table app.bump is 'Sweeps of outputs that are not final: children that pay for a parent of somebody else.';
comment on column app.bump.spend_id is 'The sweep.';
comment on column app.bump.txid is 'The parent: an unmined transaction of somebody else that pays us.';
comment on column app.bump.outputs is 'Its outputs that are spent (txid:vout).';
comment on column app.bump.parent_inputs is 'What the parent spends (txid:vout): another transaction that spends one of them excludes it, and so its child.';
comment on column app.bump.parent_vsize is 'Size of the parent in virtual bytes, which the child pays for, too.';

create view app.bump_output as
select b.spend_id, u.chain, u.txid, u.output_index as vout, s.merchant_id, u.amount, b.parent_vsize
from app.bump b join app.spend s on s.id = b.spend_id
cross join lateral unnest(b.outputs) as i (outpoint)
join chain.unmined u on u.id = s.chain || ':' || i.outpoint
where s.status <> 'final' and not exists (select from app.output o where o.chain = u.chain and o.txid = u.txid and o.vout = u.output_index);
comment on view app.bump_output is 'Outputs of bumps that are under way, as long as they are not final.';
comment on column app.bump_output.spend_id is 'The sweep.';
comment on column app.bump_output.chain is 'Chain code.';
comment on column app.bump_output.txid is 'The parent.';
comment on column app.bump_output.vout is 'The position of the output there.';
comment on column app.bump_output.merchant_id is 'The merchant whose user''s address it is; null for the treasury''s.';
comment on column app.bump_output.amount is 'Amount in base units.';
comment on column app.bump_output.parent_vsize is 'Size of the parent in virtual bytes.';

-- Begins one; for the command line alone. Deposits that will be none (not credited) are no outputs to spend.
create function app.begin_output_bump(of_chain text, inputs text[], network_fee numeric, parent_vsize int) returns uuid
language plpgsql security definer set search_path = pg_catalog as $$
declare
  token text := app.native_token(of_chain);
  found_outputs record;
  funds numeric;
  spend uuid;
  lead text := inputs[1];
begin
  perform from chain.cursor c where c.chain = of_chain for update; -- what is unmined stays so
  perform app.lock_treasury(of_chain);
  select count(*) as count, count(distinct u.txid) as parents, count(distinct coalesce(d.merchant_id::text, 'treasury')) as owners,
    sum(u.amount) as total, min(u.txid) as txid, (array_agg(d.merchant_id))[1] as merchant_id
  into found_outputs
  from (select distinct of_chain || ':' || i as id from unnest(inputs) i) k
  join chain.unmined u on u.id = k.id and u.token = app.native_token(of_chain)
  join app.deposit d on d.chain = u.chain and d.txid = u.txid and d.output_index = u.output_index and d.address = u.recipient
    and d.status = 'pending' and d.block_height is null and (d.credited or d.user_id is null);
  if found_outputs.count is distinct from cardinality(inputs) or found_outputs.parents <> 1 or found_outputs.owners <> 1 then
    raise exception 'these are not unmined outputs of one transaction, to addresses of one merchant or the treasury' using errcode = 'SL422';
  end if;
  if exists (select from app.spend s where s.chain = of_chain and s.sender = any(inputs)) or exists (
    select from app.bump b join app.spend s on s.id = b.spend_id where s.chain = of_chain and s.status <> 'final' and b.outputs && inputs) then
    raise exception 'these outputs are spent by a child of ours already, which pays more by itself as time goes by' using errcode = 'SL422';
  end if;
  if found_outputs.total <= network_fee then
    raise exception 'these outputs hold no more than the network fee' using errcode = 'SL422';
  end if;
  funds := app.operator_funds(of_chain, token);
  if funds < network_fee then
    raise exception 'the operator''s own money is not enough: % short by % base units', token, network_fee - funds using errcode = 'SL422';
  end if;
  perform app.reserve(of_chain, token, network_fee);
  insert into app.spend as s (kind, chain, token, amount, source, recipient, sender, nonce, merchant_id, max_fee)
  values ('sweep', of_chain, token, found_outputs.total - network_fee, lead, app.treasury_address(of_chain), lead, 0, found_outputs.merchant_id,
    network_fee)
  returning s.id into spend;
  insert into app.bump (spend_id, txid, outputs, parent_inputs, parent_vsize)
  select spend, u.txid, begin_output_bump.inputs, u.inputs, begin_output_bump.parent_vsize
  from chain.unmined u where u.id = of_chain || ':' || lead;
  perform app.wake_spends(of_chain);
  return spend;
end $$;
comment on function app.begin_output_bump is 'Begins a child that spends unmined outputs of ours and pays for their transaction, too; returns the id of the spend.';

-- Outputs of bumps are reserved as soon as they are there, and bumps whose parent another final transaction excludes are over. Called by
-- app.add_outputs, before what is final is forgotten in chain.unmined.
create function app.settle_bumps(of_chain text, final_height int) returns void
language plpgsql set search_path = pg_catalog set plan_cache_mode = force_custom_plan as $$
declare
  displaced record;
  s app.spend;
begin
  perform from app.bump b join app.spend x on x.id = b.spend_id where x.chain = of_chain and x.status <> 'final';
  if not found then return; end if;
  update app.output u set spend_id = b.spend_id, from_attempt = 1
  from app.bump b join app.spend x on x.id = b.spend_id
  where x.chain = of_chain and x.status <> 'final' and u.chain = of_chain and u.txid = b.txid and u.txid || ':' || u.vout = any(b.outputs)
    and u.spend_id is null and u.spent_by is null;
  for displaced in
    select distinct on (b.spend_id) b.spend_id, u.txid from app.bump b join app.spend x on x.id = b.spend_id
    join chain.unmined u on u.chain = of_chain and u.txid <> b.txid and u.inputs && b.parent_inputs
    join chain.transfer t on t.id = u.id and t.block_height <= final_height
    where x.chain = of_chain and x.status <> 'final'
  loop
    perform app.lock_treasury(of_chain);
    update app.spend x set status = 'final', txid = displaced.txid, outcome = 'displaced', fee_paid = 0, final_at = clock_timestamp(),
      next_step_at = null, waiting_reason = null, waiting_detail = null, waiting_since = null
    where x.id = displaced.spend_id returning * into s;
    perform app.post_network_fee(s, 0);
  end loop;
end $$;

grant select on app.bump_output to sluice_jobs;
grant select on app.bump, chain.unmined to sluice_custody;
