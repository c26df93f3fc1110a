-- A chain whose calls were read, and that is read without them now: what contracts pay meanwhile is not seen. It was accepted in silence.
alter table chain.cursor add column untraced_from int;
comment on column chain.cursor.untraced_from is 'The first block that was read without internal calls after others had been read with them; null while they are read, or never were.';

insert into app.incident_kind (kind, halts, decisions, way_out) values
  ('untraced_blocks', false, '{kept}',
    'read the calls again (*_TRACES as it was), then those blocks (sluice reindex --chain CHAIN --from HEIGHT; the incident names both), then sluice incident resolve {id} --as kept');
comment on column app.incident.subject is 'The id of the deposit (final_deposit_...) or of the outgoing payment (..._payment_vanished, payment_of_failed_payout, second_payment); <chain>:<the address that sent> (unknown_transaction); the id of the transfer (payment_replaced); the chain (fork_below_final, journal_ahead, unproven_block, untraced_blocks); the stream of the journal (journal_changed); audit:<check>.';
