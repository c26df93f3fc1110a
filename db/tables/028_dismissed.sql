-- What an operator need not decide on: anybody can make a token and send it to any address. Nothing is decided about the money: a deposit can be credited or
-- returned all the same, and a token that Sluice supports one day is listed again.
create table app.dismissed (
  chain text not null,
  token text,
  deposit_id uuid unique references app.deposit,
  dismissed_at timestamptz not null default clock_timestamp(),
  unique (chain, token),
  check (num_nonnulls(token, deposit_id) = 1)
);
comment on table app.dismissed is 'Unattributed value that is not shown to operators any more: all of a token that Sluice does not support, also what is still to come, or one deposit.';
comment on column app.dismissed.token is 'The token, as the chain names it; null for one deposit.';
comment on column app.dismissed.deposit_id is 'The deposit; null for a token.';
comment on column app.dismissed.dismissed_at is 'When.';
