-- What an unknown transaction moved, as its block shows it: an operator has to find out what it was, and sluice custody reconcile recognises what custody
-- signed when it has lost its journal (db/functions/custody/recognise.sql). Writer: chain.note_moved, with the block.
alter table app.unknown_transaction add column moved jsonb;
comment on column app.unknown_transaction.moved is 'What it moved, as its block shows it: [{sender, recipient, token, amount}], in base units; null if its block was read by an older version.';
comment on column app.outgoing_attempt.raw is 'The signed bytes, in hex; empty if sluice custody reconcile found the transaction in a block.';
comment on table custody.unproven_copy is 'Chains for which custody''s journal may lack entries. Until one is proven, custody signs nothing for the first time there.';
comment on column custody.unproven_copy.start_height is 'The first block found that was made and read after that, where transactions expire the first final one; null until there is one.';
comment on column custody.unproven_copy.proven_at is 'When what the missing entries signed was known, or, where transactions expire, could not be mined any more; null while something may.';
