-- Lists and the search find references by their beginning, and users by when they were made.
drop index concurrently if exists app.user_ref_beginning;

create index concurrently user_ref_beginning on app."user" (merchant_id, external_ref collate "C");

drop index concurrently if exists app.user_created_page;

create index concurrently user_created_page on app."user" (merchant_id, created_at);

drop index concurrently if exists app.payment_request_ref_beginning;

create index concurrently payment_request_ref_beginning on app.payment_request (merchant_id, external_id collate "C");
-- Transaction
