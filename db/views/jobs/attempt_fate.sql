-- What becomes of each transaction that custody signed, stored here or not. This is the only place that says it: custody (before it signs again), the
-- worker, the audit and the command line ask here.
--
--   open       it may still be mined
--   in_block   it is in a block that is not final yet: the block may leave the chain
--   final      it is in a final block and had its effect
--   dead       it can never have its effect: it failed in a final block, another final transaction used up one of its conflict keys, or it expired in no
--              block (chain.lapse)
-- A transaction that failed in a block that is not final is in_block: in another block it may succeed.
--
-- It rests only on custody's journal and on what the indexers saw in blocks, which neither the worker nor the API can write.
create or replace view app.attempt_fate as
select j.stream as chain, j.seq, j.txid, j.kind, j.subject_id, own.block_height, own.success, own.fee,
  case
    when own.block_height <= c.final_height then case when own.success then 'final' else 'dead' end
    when other.txid is not null or (lapse.txid is not null and own.block_height is null) then 'dead'
    when own.block_height is not null then 'in_block'
    else 'open'
  end as fate,
  other.txid as conflicting_txid, lapse.txid is not null as lapsed
from custody.journal j
left join chain.cursor c on c.chain = j.stream
left join lateral (select i.block_height, i.success, i.fee from chain.confirmed_tx i where i.chain = j.stream and i.txid = j.txid
  order by i.fee desc limit 1) own on true -- of all who signed it, the one who paid
left join lateral (select i.txid from custody.journal_key k join chain.confirmed_tx i on i.chain = k.stream and i.conflict_key = k.conflict_key
  where k.stream = j.stream and k.seq = j.seq and i.txid <> j.txid and i.block_height <= c.final_height limit 1) other on true
left join chain.lapse lapse on lapse.chain = j.stream and lapse.txid = j.txid
where j.txid is not null;
comment on view app.attempt_fate is 'What becomes of each transaction that custody signed: open, in_block, final or dead.';
comment on column app.attempt_fate.seq is 'Its entry in the chain''s stream of custody.journal.';
comment on column app.attempt_fate.kind is 'pay, sweep, withdraw or cancel, as in custody.journal.';
comment on column app.attempt_fate.subject_id is 'The payout, the sweep or the withdrawal that it was signed for.';
comment on column app.attempt_fate.block_height is 'The block that holds it; null if none does.';
comment on column app.attempt_fate.success is 'Whether it had its effect in that block.';
comment on column app.attempt_fate.fee is 'The network fee that it cost there, in the native coin''s base units.';
comment on column app.attempt_fate.fate is 'open, in_block, final or dead.';
comment on column app.attempt_fate.conflicting_txid is 'The final transaction that used up one of its conflict keys; null if there is none.';
comment on column app.attempt_fate.lapsed is 'Whether it is proven that it expired in no block (chain.lapse).';
grant select on app.attempt_fate to sluice_custody, sluice_jobs;
