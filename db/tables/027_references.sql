-- What finds a reference in another Unicode form than it has. A merchant's references are unique by their form NFC (db/functions/values/references.sql), but
-- those from before that rule stay as they are, so no index can demand it. Those that are in NFC are found by their own indexes; here are the others.
drop index concurrently if exists app.user_other_form;

create index concurrently user_other_form on app.user (merchant_id, normalize(external_ref, NFC)) where external_ref is not nfc normalized;

drop index concurrently if exists app.payment_request_other_form;

create index concurrently payment_request_other_form on app.payment_request (merchant_id, normalize(external_id, NFC))
where external_id is not nfc normalized;
-- Transaction
