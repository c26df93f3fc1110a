-- A nonce that only has to be used up is an outgoing payment of a kind of its own: its payout went on without it (app.give_nonce_back), or custody's journal
-- does not say what it was for (db/functions/custody). Before, it was written as a sweep of one unit from the treasury to the treasury.
alter table app.outgoing_payment drop constraint if exists outgoing_payment_kind_check, drop constraint if exists outgoing_payment_amount_check;

alter table app.outgoing_payment drop constraint if exists outgoing_payment_kind, drop constraint if exists outgoing_payment_amount,
  add constraint outgoing_payment_kind check (kind in ('payout', 'sweep', 'withdrawal', 'cancel')) not valid,
  add constraint outgoing_payment_amount check (amount > 0 or (kind = 'cancel' and amount = 0)) not valid;

update app.outgoing_payment s set kind = 'cancel', amount = 0, recipient = s.fee_payer
where s.kind = 'sweep' and s.amount = 1 and s.cancelling
  and not exists (select from app.outgoing_attempt o where o.outgoing_payment_id = s.id and o.kind = 'effect');

alter table app.outgoing_payment validate constraint outgoing_payment_kind;

alter table app.outgoing_payment validate constraint outgoing_payment_amount;
-- Transaction
comment on column app.outgoing_payment.kind is 'payout, sweep, withdrawal, or cancel: a nonce that only has to be used up, because its payout went on without it, or because nobody knows what it was for.';
comment on column app.outgoing_payment.amount is 'How much, in base units; what an attempt moves may be less for a sweep. 0 for a cancel.';
comment on index app.outgoing_payment_one_payment is 'A payout has one payment at a time. One that gives its nonce back becomes a cancel, and the payout begins another.';
