-- What lists are asked for besides their order: who sent a deposit, and amounts (functions/reading/). The first letters are enough to find an address by,
-- and whoever types it may have changed its case.
drop index concurrently if exists app.deposit_sender;

create index concurrently deposit_sender on app.deposit (merchant_id, lower(left(sender, 16)), position desc) where credited;

drop index concurrently if exists app.deposit_amount;

-- Few deposits are not final, and each becomes it, which would write its entry twice.
create index concurrently deposit_amount on app.deposit (merchant_id, chain, token, amount, position desc)
  where credited and user_id is not null and status = 'final';

drop index concurrently if exists app.payment_request_amount;

create index concurrently payment_request_amount on app.payment_request (merchant_id, chain, token, amount, seq desc);
-- Transaction
