-- Who pays for a sweep of a chain's own coin. On Solana it is the treasury: an account that pays a fee must keep the rent until its instructions run, so
-- one that holds little more than the rent could not pay for its own sweep.
alter table app.chain add column treasury_pays_native_sweeps boolean not null default false;
comment on column app.chain.treasury_pays_native_sweeps is 'Whether the treasury pays the network fee of a sweep of the native coin, as it does for every token; else the address that is swept pays it. Sweeps that were begun keep who pays them (app.outgoing_payment.fee_payer).';
