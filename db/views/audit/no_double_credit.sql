-- chain.derive_deposits ensures this; no unique index does.
create or replace view audit.no_double_credit as
select chain, txid, output_index, count(*) as deposits from app.deposit where status <> 'reorged'
group by chain, txid, output_index having count(*) > 1;
comment on view audit.no_double_credit is 'of the deposits at one output at most one is not reorged';
comment on column audit.no_double_credit.output_index is 'Position inside the transaction.';
comment on column audit.no_double_credit.deposits is 'How many deposits there are not reorged.';
