-- The check that app.ledger_audit finds nothing.
create or replace view audit.ledger as select * from app.ledger_audit;
comment on view audit.ledger is 'what is kept beside the ledger = the sum of its entries';
comment on column audit.ledger.what is 'What is kept, as app.ledger_audit names it.';
comment on column audit.ledger.chain is 'Chain code.';
comment on column audit.ledger.token is 'Token code.';
comment on column audit.ledger.merchant_id is 'The merchant; null where it is not about one.';
comment on column audit.ledger.address is 'The address; null where it is not about one.';
comment on column audit.ledger.kept is 'As it is kept, in base units.';
comment on column audit.ledger.posted is 'As it follows from the ledger, or from what is under way, in base units.';
