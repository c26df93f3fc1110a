-- Custody's journal also has authorisations: what an address signed so that the treasury can take its tokens, before the treasury's own transaction is
-- signed (what that costs can be estimated only with it). They have no transaction, no nonce and no fee.
alter table custody.journal drop constraint journal_kind_check;
alter table custody.journal add constraint journal_kind_check check (kind in ('pay', 'sweep', 'withdraw', 'cancel', 'authorise', 'pool')) not valid;
alter table custody.journal validate constraint journal_kind_check;
comment on column custody.journal.kind is 'pay: a payout. sweep: an address to the treasury. withdraw: the operator''s own money. cancel: nothing, with the nonce of something else. authorise: the treasury may take a token from an address, for one sweep. pool: addresses were derived up to an index.';
comment on column custody.journal.raw is 'The signed transaction; of an authorisation, the data of the call that uses it.';
