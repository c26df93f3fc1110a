-- A node may save no internal transactions, so that what contracts pay is not seen (db/functions/chains/internal_transactions.sql).
insert into app.incident_kind (kind, halts, decisions, way_out) values
  ('no_internal_transactions', false, '{kept}',
    'coins that contracts pay may not be seen: set vm.saveInternalTx = true at the node and have it read the chain again from a height before the first address, or name another node; then read the blocks again (sluice reindex). It closes by itself, and sluice incident resolve {id} --as kept silences it for 30 days');

comment on column app.incident.subject is 'The id of the deposit (final_deposit_...) or of the outgoing payment (..._payment_vanished, payment_of_failed_payout, second_payment); <chain>:<the address that sent> (unknown_transaction); the id of the transfer (payment_replaced); the chain (fork_below_final, journal_ahead, unproven_block, untraced_blocks, no_internal_transactions); the stream of the journal (journal_changed); audit:<check>.';
