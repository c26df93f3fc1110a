-- What a second library read in a signed transaction was not what was asked (jobs/payouts/second-reader.ts).
--
-- Promises: an outgoing payment has one open incident of that kind. It changes nothing else, so it may run twice. Locks: none.

create or replace function app.note_signed_otherwise(of_outgoing_payment uuid, of_txid text, differences text) returns void
language sql security definer set search_path = pg_catalog as $$
  insert into app.incident (chain, kind, subject, details)
  select s.chain, 'signed_otherwise', s.id::text, jsonb_build_object('txid', of_txid, 'differences', differences)
  from app.outgoing_payment s where s.id = of_outgoing_payment
  on conflict do nothing
$$;
comment on function app.note_signed_otherwise is 'Opens the incident of an outgoing payment for which custody signed something else than was asked, with the differences in words.';
grant execute on function app.note_signed_otherwise to sluice_jobs;
