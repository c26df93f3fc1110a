-- Payment requests that a shop can live with: how much may be missing, what is too little to count as a payment, and when money that no block takes is late.
--
-- Requests that exist already keep what was promised when they were made: nothing may be missing, any amount moves them, and what is on its way when
-- they expire is waited for without an end. So do those that the version before still makes: that is what the defaults are for. Those are decided at once,
-- which finds out when time may change them.
alter table app.merchant add column payment_tolerance_bps int not null default 0 check (payment_tolerance_bps between 0 and 5000);
comment on column app.merchant.payment_tolerance_bps is 'How much of a new payment request may be missing, in basis points of its amount, unless the request says otherwise.';

alter table app.payment_request
  add column tolerance numeric(78, 0) not null default 0,
  add column detected_from numeric(78, 0) not null default 1,
  add column late_after interval not null default 'infinity',
  add column decide_at timestamptz,
  add column version int not null default 0,
  drop constraint payment_request_check1,
  add constraint tolerance_is_part check (tolerance between 0 and amount / 2) not valid,
  add constraint detected_from_something check (detected_from > 0) not valid,
  add constraint paid_if_enough check ((status = 'paid')
    = (received >= greatest(least(detected_from, amount), amount - greatest(tolerance, least(detected_from - 1, div(amount, 100)))))) not valid,
  add constraint paid_at_some_time check ((status = 'paid') = (paid_at is not null)) not valid;
alter table app.payment_request alter column decide_at set default clock_timestamp();
comment on column app.payment_request.tolerance is 'How much may be missing, in base units: it is paid all the same.';
comment on column app.payment_request.detected_from is 'Less than this, in base units, is too little to count as a payment: it moves no request, and is not asked for.';
comment on column app.payment_request.late_after is 'What was seen before it expires, and is in no block so long after it expires, is late. Infinity: never.';
comment on column app.payment_request.decide_at is 'When time alone may change its status; null if it cannot.';
comment on column app.payment_request.version is 'How many events there are of it.';

alter table app.deposit add column mined_at timestamptz;
comment on column app.deposit.mined_at is 'Time of the first block that held a receipt of a payment request; null for others, and until one does.';

comment on column app.asset.min_payment is 'The smallest amount that is a payment, in base units: what an address without coins can receive, or a hundredth of what is worth sweeping. Less moves no payment request, and is not asked for.';
