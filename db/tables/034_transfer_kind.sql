-- What moved value: a column says it, no longer the output index, which means another thing on each chain.
--
-- Rows that are there already, and those of an indexer of the version before, say nothing. Only of protocol income that matters, and there is little of
-- it: it is marked here, and chain.derive_deposits recognises what such an indexer writes meanwhile.
alter table chain.transfer add column if not exists transfer_kind text constraint transfer_kind check (transfer_kind in ('native', 'internal', 'token', 'protocol'));

alter table app.deposit add column if not exists transfer_kind text constraint deposit_transfer_kind check (transfer_kind in ('native', 'internal', 'token', 'protocol'));

update app.deposit set transfer_kind = 'protocol' where output_index >= 2000000 and transfer_kind is null and token not like 'TRC10:%';
-- Transaction
comment on column chain.transfer.transfer_kind is 'What moved it: native, the transaction itself, in the native coin; internal, a call inside it, in the native coin; token, a token''s contract or program; protocol, the rules of the chain, without a transaction. Null if an older version wrote the row.';
comment on column app.deposit.transfer_kind is 'What moved it, as chain.transfer.transfer_kind; null if an older version wrote the row, unless it is protocol.';
comment on column chain.transfer.output_index is 'Position inside the transaction, or, without one, inside the block: the same wherever the transaction is mined. Which number stands for what is only known to the indexer of the family, and on Bitcoin it is the vout.';
