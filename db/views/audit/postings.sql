-- A trigger refuses a posting that does not add up; this finds one that bypassed it.
create or replace view audit.postings as
select posting, chain, token, sum(amount) as sum from app.ledger_entry group by posting, chain, token having sum(amount) <> 0;
comment on view audit.postings is 'the entries of each posting add up to zero for each token';
comment on column audit.postings.posting is 'The movement.';
comment on column audit.postings.sum is 'What its entries add up to, in base units.';
