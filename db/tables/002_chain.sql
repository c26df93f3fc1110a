-- What the indexers see on the chains, and where each chain stands.
--
-- Writer: the indexer of a chain, through typeorm-store, in one transaction for each batch of blocks:
--   1. the store's rollback deletes the rows of blocks that left the chain, from chain.block, chain.transfer and chain.confirmed_tx;
--   2. rows of the new blocks are inserted there, and chain.note_mined updates chain.unconfirmed (Bitcoin);
--   3. the store updates its status row (schema squid_<chain>), whose trigger notes that the chain was touched;
--   4. at COMMIT chain.release and then chain.derive turn the net change into deposits, payouts, events and jobs, and move the head.
-- In transactions of their own the indexer moves finality (chain.finalize), stores what is unconfirmed (chain.note_unconfirmed), goes back
-- (chain.rewind), halts (chain.halt), and `sluice reindex` corrects final blocks (chain.correct_transfers, chain.correct_confirmed_txs). An operator
-- decides about a chain that is halted or does not start. Custody halts a chain when the database is an older copy.
-- Readers: chain.derive, the worker, custody (which decides by these tables), the API for the state of the chains, the audit, analysts through
-- views.
--
-- Invariants: the blocks from the final one to the head form one linked chain. A transfer or a confirmed transaction is here as long as its block is
-- on the chain. The final height never falls, except by a rewind that an operator asked for.
-- Locks: the row of chain.cursor first, before every other lock of chain and app, except the rows that the store itself wrote before COMMIT. A
-- transaction that derives deposits, moves finality, rewinds or corrects holds it.

create table chain.block (
  id text primary key check (id = chain || ':' || height),
  chain text not null,
  height int not null,
  hash text not null,
  parent_hash text not null,
  time timestamptz not null,
  unique (chain, height)
);
comment on table chain.block is 'Blocks of each chain from the head down to the final one, and 1,024 final ones below it. Finality compares these hashes with the node''s.';
comment on column chain.block.id is '<chain>:<height>.';
comment on column chain.block.height is 'Height of the block.';
comment on column chain.block.hash is 'Hash of the block.';
comment on column chain.block.parent_hash is 'Hash of the block one below; equals that block''s hash here. Empty at the block above which following began, and at one that a rewind had to add.';
comment on column chain.block.time is 'Timestamp of the block; for one that a rewind had to add, the time of the rewind.';
grant select, insert, update, delete on chain.block to sluice_indexer;

create table chain.transfer (
  id text primary key check (id = chain || ':' || txid || ':' || output_index),
  chain text not null,
  txid text not null,
  output_index int not null,
  block_height int not null,
  block_hash text not null,
  block_time timestamptz not null,
  token text not null,
  amount numeric(78, 0) not null check (amount > 0),
  sender text not null,
  recipient text not null
);
-- Rewinding and reindexing work on ranges of blocks.
create index transfer_block on chain.transfer (chain, block_height);
-- Before it signs a payout, custody adds up what arrived for a merchant and is final, from this index alone.
create index transfer_recipient on chain.transfer (recipient, chain, token) include (block_height, amount);
comment on table chain.transfer is 'Value that reached an address of ours, in a block that is on the chain now. A row disappears when its block leaves the chain.';
comment on column chain.transfer.id is '<chain>:<txid>:<output_index>.';
comment on column chain.transfer.chain is 'Chain code, such as ETH.';
comment on column chain.transfer.txid is 'Transaction id; the hash of the block for what a chain''s rules pay without a transaction.';
comment on column chain.transfer.output_index is 'Position inside the transaction. EVM chains: 0 the transaction''s own value, 1 + n the n-th log, 1000000 + n the n-th internal call; without a transaction, 2000000 + n the fees of the block (of its n-th recipient), 3000000 + n its n-th withdrawal. Bitcoin: the vout.';
comment on column chain.transfer.block_height is 'Height of the block that holds the transaction.';
comment on column chain.transfer.block_hash is 'Hash of that block.';
comment on column chain.transfer.block_time is 'Timestamp of that block.';
comment on column chain.transfer.token is 'Token code, such as USDC; the contract address if Sluice does not support the token.';
comment on column chain.transfer.amount is 'Amount in the smallest unit of the token (wei, for ether).';
comment on column chain.transfer.sender is 'Address that the value came from; for new coins the value of app.chain.coinbase_sender.';
comment on column chain.transfer.recipient is 'Our address that the value went to.';
grant select on chain.transfer to sluice_custody;
grant select, insert, update, delete on chain.transfer to sluice_indexer;

-- This is how our own transactions come back. A transaction of ours in a block decides what became of an attempt (app.attempt_fate) and of its
-- outgoing payment (app.outgoing_payment). Custody's journal, not the worker, says which effect a transaction was to have. There is a row for each
-- authority of ours that a transaction uses, whoever paid its fee: the account that sent it, or each output of ours that it spends.
create table chain.confirmed_tx (
  id text primary key constraint confirmed_tx_id check (starts_with(id, chain || ':' || txid)),
  chain text not null,
  txid text not null,
  block_height int not null,
  block_hash text not null,
  block_time timestamptz not null,
  account text not null,
  nonce int,
  outpoint text,
  conflict_key text generated always as (coalesce(outpoint, account || ':' || nonce::text)) stored,
  success boolean not null,
  fee numeric(78, 0) not null,
  check (num_nonnulls(nonce, outpoint) <= 1)
);
-- Which transaction used up a nonce, or an output.
create index confirmed_tx_conflict_key on chain.confirmed_tx (chain, conflict_key);
-- Whether an attempt is in a block.
create index confirmed_tx_txid on chain.confirmed_tx (txid);
-- The highest nonce of an account in a block.
create index confirmed_tx_nonce on chain.confirmed_tx (chain, account, nonce) where nonce is not null;
create index confirmed_tx_block on chain.confirmed_tx (chain, block_height);
comment on table chain.confirmed_tx is 'Transactions that use the authority of an address of ours, known to us or not, in a block that is on the chain now; on Bitcoin a row for each output of ours that a transaction spends. A row disappears when its block leaves the chain.';
comment on column chain.confirmed_tx.id is '<chain>:<txid>; on Bitcoin <chain>:<txid>:<position of the input>.';
comment on column chain.confirmed_tx.block_height is 'Height of the block that holds the transaction.';
comment on column chain.confirmed_tx.block_hash is 'Hash of that block.';
comment on column chain.confirmed_tx.block_time is 'Timestamp of that block.';
comment on column chain.confirmed_tx.account is 'Our address whose key it uses: the one that sent it; on Bitcoin the owner of the output that it spends.';
comment on column chain.confirmed_tx.nonce is 'The nonce of the account that it used up; null on chains without nonces.';
comment on column chain.confirmed_tx.outpoint is 'The output of ours that it spends (txid:vout); null on chains without outputs.';
comment on column chain.confirmed_tx.conflict_key is 'What it used up, so that no other transaction can use it again: account:nonce, or the outpoint. Null on chains that have nothing of the kind.';
comment on column chain.confirmed_tx.success is 'True if it had the effect that it was sent for: executed and, for a token, with the Transfer event of our amount, from and to the right addresses.';
comment on column chain.confirmed_tx.fee is 'Network fee that it cost, in the native coin''s base units; 0 if it also spends outputs that are not ours.';
grant select on chain.confirmed_tx to sluice_custody, sluice_jobs;
grant select, insert, update, delete on chain.confirmed_tx to sluice_indexer;

-- Only on Bitcoin: deposits that are in no block yet. The indexer passes everything unconfirmed that its source shows, again and again
-- (chain.note_unconfirmed), and writes what each block does to it with the block (chain.note_mined). chain.derive reads the transfer of a deposit in
-- chain.transfer, or here if it is not there. So a row stays until its transfer is final (then chain.forget_final deletes it), and a block that
-- leaves the chain does not remove the deposit. Only two things do: a transaction in a block that spends the same output, or absence in two polls
-- that are 30 seconds apart. An unconfirmed deposit is pending, in no block, and never final.
create table chain.unconfirmed (
  id text primary key check (id = chain || ':' || txid || ':' || output_index),
  chain text not null,
  txid text not null,
  output_index int not null,
  token text not null,
  amount numeric(78, 0) not null check (amount > 0),
  sender text not null,
  recipient text not null,
  inputs text[] not null,
  raw text,
  seen_at timestamptz not null default clock_timestamp(),
  missed_since timestamptz
);
-- What a block excludes: every transaction that spends an output that a transaction of the block spends.
create index unconfirmed_inputs on chain.unconfirmed using gin (inputs);
comment on table chain.unconfirmed is 'Value on its way to an address of ours that is not final: unconfirmed, or in a block that may still leave the chain.';
comment on column chain.unconfirmed.id is '<chain>:<txid>:<output_index>, as in chain.transfer.';
comment on column chain.unconfirmed.output_index is 'Position inside the transaction.';
comment on column chain.unconfirmed.amount is 'Amount in base units.';
comment on column chain.unconfirmed.sender is 'Address that the value comes from.';
comment on column chain.unconfirmed.recipient is 'Our address.';
comment on column chain.unconfirmed.inputs is 'What the transaction spends (txid:vout): another transaction in a block that spends one of them excludes this one.';
comment on column chain.unconfirmed.raw is 'The transaction, in hex, if the source provided it.';
comment on column chain.unconfirmed.seen_at is 'When it was first seen.';
comment on column chain.unconfirmed.missed_since is 'When a poll first did not show it, though it was in no block; null while it is shown or in a block.';
grant select on chain.unconfirmed to sluice_custody, sluice_indexer;

create table chain.cursor (
  chain text primary key,
  network text not null,
  head_height int not null,
  head_hash text not null,
  head_time timestamptz not null,
  head_moved_at timestamptz not null default clock_timestamp(),
  final_height int not null,
  final_hash text not null,
  followed_from int not null,
  final_moved_at timestamptz not null default clock_timestamp(),
  last_reorg_at timestamptz,
  last_reorg_depth int,
  halted_at timestamptz,
  rewind_to int,
  tracer text,
  finalisation bigint not null default 0
);
comment on table chain.cursor is 'Where each chain stands: the newest indexed block and the newest final one.';
comment on column chain.cursor.network is 'The network that is followed, as a CAIP-2 id such as eip155:11155111. A node of another network is refused.';
comment on column chain.cursor.head_height is 'Height of the newest indexed block.';
comment on column chain.cursor.head_hash is 'Hash of the newest indexed block.';
comment on column chain.cursor.head_time is 'Timestamp of the newest indexed block.';
comment on column chain.cursor.head_moved_at is 'When the newest block was indexed.';
comment on column chain.cursor.final_height is 'Everything at or below this height is final.';
comment on column chain.cursor.final_hash is 'Hash of the block at the final height, as the node named it.';
comment on column chain.cursor.followed_from is 'The lowest height from which on every block up to the head was read. A chain that begins anew after a gap begins anew here, too.';
comment on column chain.cursor.final_moved_at is 'When the final height last moved.';
comment on column chain.cursor.last_reorg_at is 'When blocks last left the chain; null if that never happened.';
comment on column chain.cursor.last_reorg_depth is 'How many blocks left the chain then.';
comment on column chain.cursor.halted_at is 'Since when the chain is halted for an operator: after a reorganisation below the final block, or because the database is an older copy than custody''s journal. Null while it is not halted.';
comment on column chain.cursor.tracer is 'Which of the node''s tracers numbers internal calls on this chain (debug or trace); never changes once it is set.';
comment on column chain.cursor.rewind_to is 'Height that an operator asked the indexer to go back to; cleared when that is done.';
comment on column chain.cursor.finalisation is 'How often deposits of the chain became final, or were credited by an operator, so far. Each time has a number, which its deposits carry, and a payout claims up to a number.';
grant select on chain.cursor to sluice_api, sluice_custody, sluice_indexer, sluice_jobs;

-- Transactions of ours that expired: no block may hold them any more, and none did. Where attempts do not exclude each other by what they use up, this is
-- the only proof that one can never pay, and a row here is what lets custody sign again. So only the indexer of the chain causes it
-- (chain.note_lapse checks again what it can), and a rewind below its final block takes it back.
create table chain.lapse (
  chain text not null,
  txid text not null,
  final_height int not null,
  final_hash text not null,
  evidence jsonb not null,
  lapsed_at timestamptz not null default clock_timestamp(),
  primary key (chain, txid)
);
comment on table chain.lapse is 'Transactions of ours that expired without being in any block.';
comment on column chain.lapse.final_height is 'The final block that is past its end.';
comment on column chain.lapse.final_hash is 'The hash of that block.';
comment on column chain.lapse.evidence is 'What else the indexer of the family found; an operator''s decision if it could not be proven.';
comment on column chain.lapse.lapsed_at is 'When it was noted.';
grant select on chain.lapse to sluice_custody, sluice_jobs, sluice_indexer;

-- Blocks that were read although their transactions have not the root in their header, on any node that was asked. Writer: chain.note_unproven_block. A
-- transaction may be missing there, so no lapse rests on such a block (chain.note_lapse).
create table chain.unproven_block (
  chain text not null,
  hash text not null,
  height int not null,
  noted_at timestamptz not null default clock_timestamp(),
  primary key (chain, hash)
);
comment on table chain.unproven_block is 'Blocks whose transactions could not be proven to be all that they hold.';
comment on column chain.unproven_block.hash is 'The block.';
comment on column chain.unproven_block.height is 'Its height.';
comment on column chain.unproven_block.noted_at is 'When it was read first.';

-- The API and `sluice status` read here which chains have an indexer (/readyz, /metrics). The indexer writes it through chain.configure and
-- chain.tell_waiting; an operator removes a chain that was never followed (app.forget_chain). A chain is followed from a block that is older than
-- the first address of its family, or from where an operator decided; app.accepted_gap then says what is missing.
create table chain.configured (
  chain text primary key,
  configured_at timestamptz not null default clock_timestamp(),
  waiting_reason text,
  waiting_message text,
  waiting_since timestamptz,
  first_height int,
  check ((waiting_reason is null) = (waiting_since is null) and (waiting_reason is null) = (waiting_message is null))
);
comment on table chain.configured is 'Chains for which an indexer was started, followed or not.';
comment on column chain.configured.configured_at is 'When an indexer was started for it for the first time. If no block was ever read, this counts as the age of its head.';
comment on column chain.configured.waiting_reason is 'Why its indexer cannot follow it now, for programs; null if it can, or has not reported.';
comment on column chain.configured.waiting_message is 'The same for people.';
comment on column chain.configured.waiting_since is 'Since when it has not been able to, whatever the reasons were.';
comment on column chain.configured.first_height is 'The first block that may pay to an address of ours, as its indexer found before it began; null if unknown.';

-- Stops a chain although its servers respond: they contradict themselves, or what they showed before. The indexer writes it
-- (chain.note_contradiction) each time that it drops a server for such a response. It is an observation and decides nothing.
create table chain.contradiction (
  chain text primary key,
  since timestamptz not null,
  seen_at timestamptz not null,
  txid text,
  message text not null
);
comment on table chain.contradiction is 'The last time that servers of a chain contradicted themselves. If blocks still come in, another server gave correct data.';
comment on column chain.contradiction.since is 'When that began; nothing new of the chain was written from then until seen_at.';
comment on column chain.contradiction.seen_at is 'When it was last seen.';
comment on column chain.contradiction.txid is 'The transaction that they contradict themselves about; null if it is about something else.';
comment on column chain.contradiction.message is 'What is wrong with their responses.';

-- Written by chain.derive with each change of chain.cursor.last_reorg_at. chain.release adds deposits that turned out to be lost later. For
-- analysts.
create table chain.daily_blocks (
  chain text not null,
  day date not null,
  followed bigint not null,
  replaced bigint not null,
  primary key (chain, day)
);
comment on table chain.daily_blocks is 'How many blocks were followed on each day, for analysts. chain.derive counts them.';
comment on column chain.daily_blocks.day is 'The day, in UTC, on which they were followed.';
comment on column chain.daily_blocks.followed is 'Blocks that were added to the chain.';
comment on column chain.daily_blocks.replaced is 'Blocks that left it because others took their place.';

create table chain.reorganisation (
  id bigint primary key generated always as identity,
  chain text not null,
  happened_at timestamptz not null,
  depth int not null check (depth > 0),
  first_height int,
  old_head_hash text,
  new_head_hash text,
  deposits_reorged int
);
comment on table chain.reorganisation is 'Each time that blocks left a chain. Kept for ever.';
comment on column chain.reorganisation.id is 'Order of insertion.';
comment on column chain.reorganisation.happened_at is 'When the indexer followed it; equals chain.cursor.last_reorg_at then.';
comment on column chain.reorganisation.depth is 'How many blocks left the chain.';
comment on column chain.reorganisation.first_height is 'Height of the lowest of them.';
comment on column chain.reorganisation.old_head_hash is 'Hash of the block that was the head before; null if that one did not leave the chain.';
comment on column chain.reorganisation.new_head_hash is 'Hash of the block that was the head afterwards.';
comment on column chain.reorganisation.deposits_reorged is 'How many credited deposits were in those blocks and in no block afterwards, including those that were found lost later (chain.awaited).';

-- chain.rewind removes blocks that the store cannot replace in one transaction; later transactions bring them again. Merchants must not be notified
-- of what is only gone until then. So the transfers of pending deposits that a rewind removes are not derived but put here. Read again, in the same
-- block or another, they change nothing. Their deposits are reorged, with an event, once the chain is as high as it was, or its final height reaches
-- their block, or 15 minutes have passed (chain.release; chain.release_overdue if a chain stands still).
--
-- Invariants: an awaited deposit is pending, and is derived before the final height finalises it, so it is never final without being in a block of
-- ours. A final deposit is never awaited: an incident opens at once, and payouts of the chain stop.
create table chain.awaited (
  id text primary key,
  chain text not null,
  block_height int not null,
  until_height int not null,
  since timestamptz not null
);
create index awaited_chain on chain.awaited (chain);
comment on table chain.awaited is 'Transfers of pending deposits that a rewind removed and that are expected to be read again. Empty unless a chain is being read again.';
comment on column chain.awaited.id is '<chain>:<txid>:<output_index>, as in chain.transfer.';
comment on column chain.awaited.block_height is 'Height of the block that it was in.';
comment on column chain.awaited.until_height is 'Once the head is as high as this, a transfer that was not read again is gone.';
comment on column chain.awaited.since is 'When it was removed.';

-- What a running transaction touched, until chain.derive handles it at COMMIT. Unlogged, because a row lives for one transaction only; each
-- transaction sees and deletes only its own rows (txn), so none waits for another.
create unlogged table chain.touched (txn xid8 not null, chain text not null, id text not null);
create index touched_txn on chain.touched (txn);
comment on table chain.touched is 'Transfers that a running transaction inserted, changed or deleted, or that are to be checked again. Empty between transactions.';
comment on column chain.touched.txn is 'The transaction.';
comment on column chain.touched.id is 'Id of the transfer.';

create unlogged table chain.touched_chain (txn xid8 not null, chain text not null, primary key (txn, chain));
comment on table chain.touched_chain is 'Chains that a running transaction touched; chain.derive runs once at COMMIT for each row. Empty between transactions.';
comment on column chain.touched_chain.txn is 'The transaction.';

create unlogged table chain.dropped_block (txn xid8 not null, chain text not null, height int not null, hash text not null);
create index dropped_block_txn on chain.dropped_block (txn);
comment on table chain.dropped_block is 'Blocks that a running transaction deleted; those that it does not insert again left the chain. Empty between transactions.';
comment on column chain.dropped_block.txn is 'The transaction.';
comment on column chain.dropped_block.height is 'Height of the block.';
comment on column chain.dropped_block.hash is 'Hash of the block.';
