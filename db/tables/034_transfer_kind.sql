-- What moved value: a column says it, no longer the output index, which means another thing on each chain. Rows that are
-- there already, and those of an indexer of the version before, say nothing: app.is_from_protocol knows what their index means.
alter table chain.transfer add column if not exists transfer_kind text;

alter table app.deposit add column if not exists transfer_kind text;

alter table chain.transfer drop constraint if exists transfer_transfer_kind,
  add constraint transfer_transfer_kind check (transfer_kind in ('native', 'internal', 'token', 'protocol')) not valid;

alter table chain.transfer validate constraint transfer_transfer_kind;

alter table app.deposit drop constraint if exists deposit_transfer_kind,
  add constraint deposit_transfer_kind check (transfer_kind in ('native', 'internal', 'token', 'protocol')) not valid;

alter table app.deposit validate constraint deposit_transfer_kind;
-- Transaction
comment on column chain.transfer.transfer_kind is 'What moved it: native, the transaction itself, in the native coin; internal, a call inside it, in the native coin; token, a token''s contract or program; protocol, the rules of the chain, without a transaction. Null if an older version wrote the row.';
comment on column app.deposit.transfer_kind is 'What moved it, as chain.transfer.transfer_kind; null if an older version wrote it.';
comment on column chain.transfer.output_index is 'Position inside the transaction, or, without one, inside the block: the same wherever the transaction is mined. Which number stands for what is only known to the indexer of the family, and on Bitcoin it is the vout.';
