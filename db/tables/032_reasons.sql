-- Why a payment waits, is refused, or fails, as base/reasons.ts has it: what SQL must know of each reason. Writer: sluice migrate (db/reasons.ts).
create table app.reason (
  reason text primary key,
  lies_with text not null check (lies_with in ('chain', 'others', 'payment')),
  code text,
  message text,
  fails text not null,
  check ((code is null) = (message is null))
);
comment on table app.reason is 'Why a payment waits, is refused, or fails (waiting_reason).';
comment on column app.reason.reason is 'The internal reason.';
comment on column app.reason.lies_with is 'What is in the way: the chain as a whole, which may be told to everybody; what others do, or the treasury has; or the payment itself.';
comment on column app.reason.code is 'What the API calls it while a payout waits for it; null if merchants do not see it.';
comment on column app.reason.message is 'What merchants read about it.';
comment on column app.reason.fails is 'The code with which a payout fails that waited for it too long.';
