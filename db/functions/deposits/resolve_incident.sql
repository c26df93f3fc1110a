-- An operator's decision about an incident (sluice incident resolve). kept: everything stays as it is; a deposit that moved gets the block that
-- holds it now. reorged: a final deposit that is gone is taken back (app.take_back), and deposits are derived again at its place on the chain. loss and
-- debt: who bears a second payment (app.decide_second_payment); the chain goes on.
--
-- Errors: SL422 there is no such decision; P0002 there is no such incident; P0003 it is resolved already, has another way out, its deposit is on
-- the chain or not read that far yet, or what it paid would be paid again; 40001 a payout claims the deposit at this moment: try again. After any error nothing was changed.
-- Locks: chain.cursor; to take a deposit back, also its payout, the treasury, the pair of its merchant, and allocations of the pair; then the
-- incident. Under the pair's lock all allocations are carried out. So a claim that counted the deposit has allocated it by then, or counts without
-- it.

create or replace function app.resolve_incident(incident_id bigint, decision text) returns void
language plpgsql security definer set search_path = pg_catalog as $$
declare
  incident app.incident;
  deposit app.deposit;
  way_out text;
begin
  if (decision in ('kept', 'reorged', 'loss', 'debt', 'absent')) is not true then
    raise exception 'there is no decision %; use kept, reorged, loss, debt or absent', coalesce(decision, 'null') using errcode = 'SL422';
  end if;
  select * into incident from app.incident i where i.id = incident_id;
  perform from chain.cursor c
  where c.chain = case incident.kind when 'unproven_expiry' then split_part(incident.subject, ':', 1) else incident.chain end for update; -- before the incident, as chain.derive does
  if decision = 'reorged' and incident.kind like 'final_deposit_%' then -- and its payout before that: the order of locks
    select * into deposit from app.deposit d where d.id = incident.subject::uuid;
    perform app.allocate_all_deposits(deposit.merchant_id, deposit.chain, deposit.token);
    select * into deposit from app.deposit d where d.id = deposit.id;
    perform from app.payout p where p.id = deposit.settlement_id for update;
    perform app.lock_treasury(deposit.chain);
    perform app.lock_pair(deposit.merchant_id, deposit.chain, deposit.token); -- a claim that has counted it is allocated now, or counts without it
    perform app.allocate_all_deposits(deposit.merchant_id, deposit.chain, deposit.token);
    perform from app.deposit d where d.id = deposit.id and d.settlement_id is distinct from deposit.settlement_id;
    if found then
      raise exception 'incident %: a payout is claiming the deposit at this moment; try again', incident_id using errcode = '40001';
    end if;
  end if;
  select * into incident from app.incident i where i.id = incident_id for update;
  if incident.id is null then raise exception 'no incident %', incident_id using errcode = 'P0002'; end if;
  if incident.resolved_at is not null then
    raise exception 'incident % is resolved already (%)', incident_id, incident.resolution using errcode = 'P0003';
  end if;
  select app.fill_way_out(k.way_out, incident.chain, array[incident_id]) into way_out
  from app.incident_kind k where k.kind = incident.kind and decision <> all (k.decisions);
  if found then
    raise exception 'incident % (%) cannot be resolved as %: %', incident_id, incident.kind, decision, way_out using errcode = 'P0003';
  end if;
  if decision = 'reorged' then
    perform app.refuse_to_take_back(incident_id, deposit);
    perform app.take_back(deposit.id);
    -- Another amount or another recipient may be at its place on the chain now: deposits are derived there again.
    insert into chain.touched select pg_current_xact_id(), t.chain, t.id from chain.transfer t
    where t.id = deposit.chain || ':' || deposit.txid || ':' || deposit.output_index;
    insert into chain.touched_chain values (pg_current_xact_id(), deposit.chain) on conflict do nothing;
    update app.incident i set resolved_at = clock_timestamp(), resolution = 'reorged'
    where i.resolved_at is null and (i.subject = incident.subject
      or i.subject = deposit.chain || ':' || deposit.txid || ':' || deposit.output_index);
  elsif incident.kind = 'unproven_expiry' then
    perform app.decide_absent(incident);
    update app.incident i set resolved_at = clock_timestamp(), resolution = decision where i.id = incident_id;
  elsif incident.kind = 'second_payment' then
    perform app.decide_second_payment(incident, decision);
    update app.incident i set resolved_at = clock_timestamp(), resolution = decision where i.id = incident_id;
    perform chain.go_on(incident.chain);
  else
    if incident.kind = 'final_deposit_moved' then -- otherwise it would be an incident again each time that its block is read
      update app.deposit d set block_height = t.block_height, block_hash = t.block_hash
      from chain.transfer t where d.id = incident.subject::uuid and t.id = d.chain || ':' || d.txid || ':' || d.output_index
        and (t.recipient, t.token, t.amount) = (d.address, d.token, d.amount);
    end if;
    if incident.kind = 'unknown_transaction' then
      perform app.refuse_to_keep(incident);
      perform app.pass_nonces(incident);
    end if;
    update app.incident i set resolved_at = clock_timestamp(), resolution = 'kept' where i.id = incident_id;
  end if;
end $$;
comment on function app.resolve_incident is 'An operator''s decision about an incident: kept, reorged to take a final deposit back, loss or debt for a second payment.';

-- What custody forgot must not be paid again.
create or replace function app.refuse_to_keep(of_incident app.incident) returns void
language plpgsql stable set search_path = pg_catalog as $$
declare paid record;
begin
  select u.txid, w.waits into paid from app.unknown_transaction u cross join lateral custody.paid_again(u.chain, u.txid) w (waits)
  where u.incident_id = of_incident.id and w.waits is not null limit 1;
  if found then
    raise exception 'incident %: transaction % may have paid what % still waits to pay: once it is final, sluice custody reconcile enters it; if it cannot, cancel what waits (sluice payout cancel, sluice treasury cancel), or, for a return, name another destination (sluice unattributed return)',
      of_incident.id, paid.txid, paid.waits using errcode = 'P0003';
  end if;
end $$;
comment on function app.refuse_to_keep is 'Raises P0003 if an unknown transaction of an incident may have paid what a payout, a withdrawal or a return still waits to pay: it would be paid again.';

-- What waits with one of them, unsigned, gets another, if it is known what the transaction moved (and refuse_to_keep found nothing); else its payout fails,
-- as that of what was signed: its nonce is used up.
create or replace function app.pass_nonces(of_incident app.incident) returns void
language plpgsql set search_path = pg_catalog as $$
begin
  perform app.lock_treasury(of_incident.chain);
  insert into app.sender as n (chain, address, next_nonce)
  select i.chain, i.account, max(i.nonce) + 1 from app.unknown_transaction u join chain.confirmed_tx i using (chain, txid) join chain.cursor c using (chain)
  where u.incident_id = of_incident.id and i.nonce is not null and i.block_height <= c.final_height group by i.chain, i.account
  on conflict (chain, address) do update set next_nonce = greatest(n.next_nonce, excluded.next_nonce);
  update app.outgoing_payment s set nonce = app.take_nonce(s.chain, s.fee_payer)
  where s.chain = of_incident.chain and s.status = 'allocated' and s.nonce is not null and exists (
    select from app.unknown_transaction u join chain.confirmed_tx i using (chain, txid) join chain.cursor c using (chain)
    where u.incident_id = of_incident.id and u.moved is not null and i.conflict_key = s.conflict_key and i.block_height <= c.final_height)
    and not exists (select from custody.journal j where j.stream = s.chain and j.conflict_key = s.conflict_key);
end $$;
comment on function app.pass_nonces is 'Hands out no nonce that a final transaction of this incident has used.';
