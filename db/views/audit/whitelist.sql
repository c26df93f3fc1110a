-- A row is an entry of custody's journal that pays to an address which was not on the whitelist at that moment. Only the first signature of a
-- payment counts: a replacement may be signed after the address was removed. One second of difference between the two clocks is allowed.
create or replace view audit.whitelist as
select j.stream, j.seq, j.destination from custody.journal j
where j.kind in ('pay', 'withdraw')
  and not exists (select from custody.journal before where before.subject_id = j.subject_id and before.kind = j.kind
    and before.stream = j.stream and before.seq < j.seq)
  and not exists (select from custody.whitelist w
    where w.merchant_id is not distinct from j.merchant_id and w.chain = j.stream and w.address = j.destination
      and w.active_at - interval '1 second' <= j.signed_at -- by custody's clock, the others by the database's
      and (w.removed_at is null or w.removed_at + interval '1 second' > j.signed_at));
comment on view audit.whitelist is 'every destination was on its whitelist when it was first signed for';
comment on column audit.whitelist.stream is 'Chain code.';
comment on column audit.whitelist.seq is 'Number of the entry in the journal.';
comment on column audit.whitelist.destination is 'The address that it pays to.';
