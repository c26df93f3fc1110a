-- A row is a stored transaction that custody did not sign in this form, or a journal in which an entry is missing. Custody checks the journal's
-- chain of hashes, and the file beside it (sluice custody verify).
create or replace view audit.journal as
select o.chain, o.txid from app.outgoing_attempt o
left join custody.journal j on j.stream = o.chain and j.txid = o.txid where j.raw is distinct from o.raw
union all
select stream, 'entries: ' || count(*) || ', highest: ' || max(seq) from custody.journal group by stream having count(*) <> max(seq);
comment on view audit.journal is 'custody signed what was stored, and numbered it without a gap';
comment on column audit.journal.chain is 'Chain code, or another stream of the journal.';
comment on column audit.journal.txid is 'The transaction; or, if entries are missing, how many there are and the highest number.';
