-- Addresses that a chain does not let a token leave, such as one that the token's issuer has frozen (db/functions/addresses/block.sql).
create table app.blocked_address (
  chain text not null,
  token text not null,
  address text not null references custody.address,
  why text not null,
  blocked_at timestamptz not null default clock_timestamp(),
  retry_at timestamptz not null default clock_timestamp() + interval '1 day',
  primary key (chain, token, address),
  foreign key (chain, token) references app.asset (chain, token)
);
create index blocked_address_retry on app.blocked_address (chain, retry_at);
comment on table app.blocked_address is 'Addresses that cannot be swept because the chain refuses it: their deposits are held back until it does not.';
comment on column app.blocked_address.why is 'What the node said, the last time that it was asked.';
comment on column app.blocked_address.blocked_at is 'Since when.';
comment on column app.blocked_address.retry_at is 'When the node is asked again.';
grant select on app.blocked_address to sluice_jobs;

insert into app.incident_kind (kind, halts, decisions, way_out) values
  ('address_blocked', false, '{}',
    'ask the issuer of the token why (the incident has the words of the node); everything else is paid out. The node is asked again once a day, and the incident closes by itself; sluice address unblock tries it now');
comment on column app.incident.subject is 'The id of the deposit (final_deposit_...) or of the outgoing payment (..._payment_vanished, payment_of_failed_payout, second_payment); <chain>:<the address that sent> (unknown_transaction); <chain>:<token>:<address> (address_blocked); the id of the transfer (payment_replaced); the chain (fork_below_final, journal_ahead, unproven_block, untraced_blocks, no_internal_transactions); the stream of the journal (journal_changed); audit:<check>.';
comment on column app.incident.resolution is 'healed (it went away by itself), reconciled (custody''s journal was imported), reorged, kept, loss, debt, rewound, resumed or unblocked (an operator decided).';
comment on column app.deposit.held_back is 'True while no payout can collect it, because its address does not hold enough to be worth a sweep (app.asset.sweep_min), or is blocked (app.blocked_address). Only a final, credited deposit is held back; one that was collectable once never is again, unless its address is blocked.';
comment on column app.deposit.released is 'Number, on its chain, of the time from which it was no longer held back; null if it never was. A payout claims up to a number: this one or, without it, finalisation. While its address is blocked, a deposit that was collectable before has one.';
