-- The search and the page of a user find what came and was not credited: by its sender, its amount and its user.
drop index concurrently if exists app.deposit_not_credited_sender;

create index concurrently deposit_not_credited_sender on app.deposit (merchant_id, lower(left(sender, 16)), seq desc)
  where not credited and merchant_id is not null;

drop index concurrently if exists app.deposit_not_credited_amount;

create index concurrently deposit_not_credited_amount on app.deposit (merchant_id, amount, seq desc) where not credited and merchant_id is not null;

drop index concurrently if exists app.deposit_not_credited_user;

create index concurrently deposit_not_credited_user on app.deposit (user_id, seq desc) where not credited and user_id is not null;
-- Transaction
