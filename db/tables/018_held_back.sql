-- Money that is not worth a sweep is in the balance, but no payout claims it (db/functions/balances/collectable.sql). Before, a payout claimed it, and
-- waited for ever for what no sweep brought.
alter table app.deposit add column if not exists held_back boolean not null default false, add column if not exists released bigint;

drop index concurrently if exists app.deposit_held_back;

create index concurrently deposit_held_back on app.deposit (chain, token, address) where held_back;

drop index concurrently if exists app.deposit_collectable;

create index concurrently deposit_collectable on app.deposit (merchant_id, chain, token, coalesce(released, finalisation), seq) include (amount)
  where status = 'final' and credited and settlement_id is null and not held_back;
-- Transaction
-- What is held back on each address; and, in the order in which claims allocate them, the final, unclaimed deposits that are not.
drop index app.deposit_unpaid;
alter table app.deposit add constraint only_final_is_held_back check (not held_back or (status = 'final' and credited)) not valid;
comment on column app.deposit.held_back is 'True while no payout can collect it, because its address does not hold enough to be worth a sweep (app.asset.sweep_min). Only a final, credited deposit is held back; one that was collectable once never is again.';
comment on column app.deposit.released is 'Number, on its chain, of the time from which it was no longer held back; null if it never was. A payout claims up to a number: this one or, without it, finalisation.';
comment on column app.deposit.finalisation is 'Number, on its chain, of the time at which it became final, or was credited by an operator; null before.';

-- Null until the first migration run has written the settings.
alter table app.asset add column sweep_min numeric(78, 0);
comment on column app.asset.sweep_min is 'The least final money on an address (on chains with outputs: in an output) that is worth a sweep, in base units: the setting <chain>_SWEEP_MIN. What an address with less holds is held back.';

alter table app.balance_delta add column held_back numeric(78, 0) not null default 0, add column held_back_count int not null default 0;
comment on column app.balance_delta.held_back is 'Change of the part of the gross balance that is held back, in base units.';
comment on column app.balance_delta.held_back_count is 'Change of the number of deposits that are held back.';

alter table app.balance add column held_back numeric(78, 0) not null default 0, add column held_back_count bigint not null default 0;
comment on column app.balance.held_back is 'The part of the gross balance that is held back, in base units, without the changes that are not folded yet.';
comment on column app.balance.held_back_count is 'Deposits that are held back, without the changes that are not folded yet.';
