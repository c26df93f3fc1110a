-- Tokens that an operator added to a running service (sluice token add), beside those of the settings. Writer: the owner of the
-- database, through app.add_token and app.disable_token (functions/chains/tokens.sql). Readers: every process that pays or shows
-- amounts, and chain.derive, which calls transfers of the contract by the token's code from the height where it counts.
create table app.token (
  chain text not null,
  token text not null,
  contract text not null,
  sweep jsonb not null,
  from_height int not null,
  until_height int,
  payout_limit numeric(78, 0),
  daily_limit numeric(78, 0),
  added_at timestamptz not null default clock_timestamp(),
  disabled_at timestamptz,
  primary key (chain, token),
  unique (chain, contract),
  foreign key (chain, token) references app.asset,
  check ((until_height is null) = (disabled_at is null))
);
comment on table app.token is 'Tokens that an operator added to the running service; those of the settings are only in app.asset.';
comment on column app.token.contract is 'Its contract, as the indexer of the chain writes it.';
comment on column app.token.sweep is 'How addresses are swept, as in the settings: {"by": "fund"}, or {"by": "eip3009", "domain": {"name", "version"}}.';
comment on column app.token.from_height is 'The first block whose transfers are deposits.';
comment on column app.token.until_height is 'The last one; null while it is not disabled.';
comment on column app.token.payout_limit is 'The largest payout, in base units; null for none.';
comment on column app.token.daily_limit is 'The most that all payouts of a day may add up to, in base units; null for none.';
comment on column app.token.added_at is 'When it was added.';
comment on column app.token.disabled_at is 'When it was disabled; null if it is not.';

alter table app.asset add column code_hash text;
comment on column app.asset.code_hash is 'Hash of the code of its contract, and of the code that a proxy pointed to, when it was last looked at; null if it never was.';

insert into app.incident_kind (kind, halts, decisions, way_out) values
  ('token_changed', false, '{kept}',
    'the code of the contract is not what it was (a proxy may point to other code): find out from the issuer what changed; then sluice incident resolve {id} --as kept'),
  ('token_takes_fee', false, '{kept}',
    'less arrived of a token than was sent, so nothing of it is swept or paid any more: once its contract takes no fee, sluice incident resolve {id} --as kept; sluice audit shows what is missing');
comment on column app.incident.subject is 'The id of the deposit (final_deposit_...) or of the outgoing payment (..._payment_vanished, payment_of_failed_payout, second_payment); <chain>:<the address that sent> (unknown_transaction); <chain>:<token>:<address> (address_blocked); <chain>:<token> (token_changed, token_takes_fee); the id of the transfer (payment_replaced); the chain (fork_below_final, journal_ahead, unproven_block, untraced_blocks, no_internal_transactions); the stream of the journal (journal_changed); audit:<check>.';

grant select on app.token to sluice_api, sluice_custody, sluice_indexer, sluice_jobs;
