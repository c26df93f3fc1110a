-- The check that app.ledger_audit finds nothing.
create or replace view audit.ledger as select * from app.ledger_audit;
comment on view audit.ledger is 'each sum stored beside the ledger = the sum of its entries';
comment on column audit.ledger.what is 'What is compared, as app.ledger_audit names it.';
comment on column audit.ledger.merchant_id is 'The merchant; null if it is about none.';
comment on column audit.ledger.address is 'The address; null if it is about none.';
comment on column audit.ledger.kept is 'The stored amount, in base units.';
comment on column audit.ledger.posted is 'The amount by the ledger, or by what is under way, in base units.';
