-- Fewer bytes for each deposit: lists of events merge the types that they show, so that one index serves all; the ledger's sums by account are asked for
-- few accounts, and not for those of a deposit. Lists of deposits are read backwards: in an index that ends with the newest, new entries fill the last
-- page, and in one that begins with it, each full page was split into two that stayed half empty. A version before this one, as long as it still runs,
-- and after going back to it, lists the events of a merchant that has many slowly.
drop index concurrently if exists app.event_list;

create unique index concurrently event_list on app.event (merchant_id, type, sequence) where sequence is not null and not is_test;

drop index concurrently if exists app.ledger_entry_sums;

create index concurrently ledger_entry_sums on app.ledger_entry (account, chain, token, merchant_id) include (amount)
  where account not in ('address', 'merchant');

drop index concurrently if exists app.ledger_entry_gas;

create index concurrently ledger_entry_gas on app.ledger_entry (chain, created_at) include (amount)
  where account = 'treasury' and kind in ('network_fee', 'fund', 'defund');

drop index concurrently if exists app.deposit_list;

create index concurrently deposit_list on app.deposit (merchant_id, position) where credited and user_id is not null;

drop index concurrently if exists app.deposit_part_list;

create index concurrently deposit_part_list on app.deposit (merchant_id, chain, token, status, position) where credited and user_id is not null;

drop index concurrently if exists app.deposit_user_list;

create index concurrently deposit_user_list on app.deposit (user_id, chain, token, status, position) where credited and user_id is not null;

drop index concurrently if exists app.deposit_payout_list;

create index concurrently deposit_payout_list on app.deposit (settlement_id, status, position)
  where settlement_id is not null and credited and user_id is not null;

drop index concurrently if exists app.deposit_sender_list;

create index concurrently deposit_sender_list on app.deposit (merchant_id, lower(left(sender, 16)), position) where credited;

drop index concurrently if exists app.deposit_amount_list;

create index concurrently deposit_amount_list on app.deposit (merchant_id, chain, token, amount, position)
  where credited and user_id is not null and status = 'final';

drop index concurrently if exists app.deposit_page;

drop index concurrently if exists app.deposit_part_page;

drop index concurrently if exists app.deposit_user_page;

drop index concurrently if exists app.deposit_settlement_page;

drop index concurrently if exists app.deposit_sender;

drop index concurrently if exists app.deposit_amount;

drop index concurrently if exists app.deposit_unattributed;

drop index concurrently if exists app.event_page;

drop index concurrently if exists app.event_type_page;

drop index concurrently if exists app.event_default_page;

drop index concurrently if exists app.ledger_entry_account;

drop index concurrently if exists app.ledger_entry_network_fee;
-- Transaction
