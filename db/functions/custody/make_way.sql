-- Handles what an older copy of the database began since with nonces or outputs that custody's journal shows were signed for something else.
-- custody.reconcile calls it before entries are imported. Where the journal shows that nothing was signed for an outgoing payment, nothing of it can be
-- mined. With accounts it gets another nonce. With outputs it is given up, or continues with the outputs of the journal. One that the journal signed
-- stays what it is, also if it was cancelled since: either of the two may be mined.

create or replace function custody.free_nonces(entries custody.journal[]) returns void
language plpgsql set search_path = pg_catalog as $$
begin
  perform custody.free_outputs(entries);
  insert into app.sender as s (chain, address, next_nonce)
  select e.stream, e.sender, max(e.nonce) + 1 from unnest(entries) e where e.nonce is not null group by e.stream, e.sender
  on conflict (chain, address) do update set next_nonce = greatest(s.next_nonce, excluded.next_nonce);
  update app.outgoing_payment s set nonce = app.take_nonce(s.chain, s.fee_payer)
  where s.status = 'allocated' and s.nonce is not null and exists (
    select from unnest(entries) e where e.stream = s.chain and e.conflict_key = s.conflict_key and not custody.is_purpose(s, e))
    and not custody.is_signed(s, entries);
end $$;
comment on function custody.free_nonces is 'Gives unsigned outgoing payments another nonce if the journal has theirs, and frees the outputs that the journal spent (custody.free_outputs); no nonce of the journal is handed out again.';


create or replace function custody.free_outputs(entries custody.journal[]) returns void
language plpgsql set search_path = pg_catalog as $$
declare
  s app.outgoing_payment;
  e custody.journal;
begin
  foreach e in array coalesce(entries, '{}') loop
    continue when not app.uses_outputs(e.stream);
    for s in
      select * from app.outgoing_payment x
      where x.chain = e.stream and x.status = 'allocated' and (x.conflict_key = e.conflict_key or custody.is_purpose(x, e)
        or exists (select from app.output u where u.outgoing_payment_id = x.id and e.details -> 'inputs' ? (u.txid || ':' || u.vout)))
      order by custody.is_purpose(x, e) -- it may get the first input of a payment that is given up
    loop
      update app.output u set outgoing_payment_id = null, from_attempt = null where u.outgoing_payment_id = s.id;
      if custody.is_purpose(s, e) then
        update app.outgoing_payment x set first_input = e.conflict_key where x.id = s.id;
        continue;
      end if;
      continue when custody.is_signed(s, entries);
      if s.kind = 'payout' then
        perform app.fail_payout(s.payout_id, 'cancelled', 'an older copy of the database had chosen outputs for it that were spent since');
      elsif s.kind = 'withdrawal' then
        perform app.reserve(s.chain, s.token, -s.amount);
      end if;
      perform app.reserve(s.chain, app.native_token(s.chain), -s.max_fee);
      delete from app.payout_sweep l where l.outgoing_payment_id = s.id;
      delete from app.outgoing_payment x where x.id = s.id;
    end loop;
  end loop;
end $$;
comment on function custody.free_outputs is 'Gives up unsigned outgoing payments whose outputs the journal spent for something else. A payment that the journal signed with other outputs than it was begun with loses its own, and continues.';

